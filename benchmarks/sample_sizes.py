"""Simulate how wide intervals are for n samples, to say how many samples a statement needs.

    python benchmarks/sample_sizes.py [benchmarks/results/sample_sizes.json]

Test sets are drawn from known models, many of each size, so that the widths are those of the
numbers themselves and not of a formula. The page `book/guide_samples.md` shows the tables and the
figure that this writes to ``book/_static`` if it writes the JSON file.
"""

import argparse
import json
from datetime import UTC, datetime
from math import nan
from pathlib import Path

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from calibkit import metrics, plots

TABLES = Path(__file__).parent.parent / "book" / "_static" / "sample_sizes.md"
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000)
DRAWS = 4_000  # test sets of each size: a width is then known to about 1.5 % of itself
GAPS = (0.01, 0.02, 0.05)  # over-confidence to be told from none
ERROR = 0.1  # share of wrong answers of the model in the first table
RATES = (0.02, ERROR, 0.3)  # at which the same number of errors is compared
ERRORS = (10, 30, 100, 300, 1_000)
AUROC, WORSE = 0.83, 0.76
RARE = (0.5, 0.1, 0.02)  # shares of positives
CUT = 1.8 + norm.ppf(0.3)  # finds 70 % of them


def events(n: int, rate: float, rng: np.random.Generator):
    """Scores of a ranking with a ROC AUC near 0.9, and whether the event happens."""
    happened = rng.random(n) < rate
    return rng.normal(1.8 * happened, 1), happened


def width(values) -> float:
    """Half of what 95 % of the draws span."""
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(high - low) / 2


def calibrated(n: int, rate: float, rng: np.random.Generator, auroc: float = AUROC) -> dict:
    """Widths of metrics of a calibrated model; what its ECE shows by chance; power of a gap.

    Scores are drawn from two normal distributions, those of wrong and of right answers; confidences
    are the probabilities that follow from them.
    """
    apart, draws = norm.ppf(auroc) * 2**0.5, []
    for _ in range(DRAWS):
        score = rng.normal(apart * (rng.random(n) >= rate), 1)
        confidence, luck = expit(apart * (score - apart / 2) + np.log(1 / rate - 1)), rng.random(n)
        right = luck < confidence
        sure = (_sure(confidence, luck < confidence - gap) for gap in (0, *GAPS))
        found = right.mean(), confidence.mean() - right.mean(), _auroc(confidence, right)
        draws.append([*found, metrics.ece(confidence, right), *sure])
    accuracy, gap, ranking, ece, *power = np.array(draws, float).T
    its = {"n": n, "errors": round(rate * n), "rate": rate, "of_auroc": auroc}
    its |= {"accuracy": width(accuracy), "gap": width(gap), "auroc": width(ranking)}
    its |= {"ece_by_chance": ece.mean(), "ece_at_most": np.quantile(ece, 0.95)}
    return its | {f"power_{g:g}": p.mean() for g, p in zip((0, *GAPS), power, strict=True)}


def _auroc(confidence, correct) -> float:
    if correct.all() or not correct.any():
        return nan
    return metrics.auroc(confidence, correct)


def _sure(confidence, correct) -> bool:
    """Whether the interval of confidence minus accuracy excludes 0."""
    excess = confidence - correct
    return bool(excess.mean() - 1.96 * excess.std(ddof=1) / np.sqrt(len(excess)) > 0)


def event_rows(rng: np.random.Generator) -> list[dict]:
    """Widths of recall and of the ROC AUC, by the number of positives."""
    rows = []
    for n in SIZES:
        its = {"n": n}
        for rate in RARE:
            found = []
            for _ in range(DRAWS):
                score, happened = events(n, rate, rng)
                scores = score[happened]
                recall = (scores >= CUT).mean() if len(scores) else nan
                found.append((recall, _auroc(score, happened)))
            its[f"recall_{rate:g}"], its[f"auroc_{rate:g}"] = map(width, zip(*found, strict=True))
        rows.append(its)
    return rows


def as_tables(found: dict) -> str:
    """The tables in Markdown, as the page includes them."""

    def points(value: float) -> str:
        return f"±{100 * value:.1f}"

    lines = [
        "| test set | errors | accuracy | confidence − accuracy | AUROC "
        "| ECE by chance, mean (95th percentile) | " + " | ".join(_found(g) for g in GAPS) + " |",
        "| ---: " * (6 + len(GAPS)) + "|",
    ]
    for row in (r for r in found["confidence"] if r["rate"] == ERROR and r["of_auroc"] == AUROC):
        powers = " | ".join(f"{100 * row[f'power_{g:g}']:.0f} %" for g in GAPS)
        lines.append(
            f"| {row['n']:,} samples | {row['errors']:,} | {points(row['accuracy'])} "
            f"| {points(row['gap'])} | {points(row['auroc'])} "
            f"| {100 * row['ece_by_chance']:.1f} ({100 * row['ece_at_most']:.1f}) | {powers} |"
        )
    lines += ["", "<!-- rates -->", ""]
    heads = ["100 errors among", "error rate", "true AUROC", "AUROC", "accuracy", _found(0.02)]
    lines += ["| " + " | ".join(heads) + " |", "| ---: " * len(heads) + "|"]
    for row in (r for r in found["confidence"] if r["errors"] == 100):
        lines.append(
            f"| {row['n']:,} samples | {100 * row['rate']:g} % | {row['of_auroc']:g} "
            f"| {points(row['auroc'])} | {points(row['accuracy'])} "
            f"| {100 * row['power_0.02']:.0f} % |"
        )
    lines += ["", "<!-- rare -->", ""]
    heads = [f"{what}, {100 * rate:g} % positive" for rate in RARE for what in ("recall", "AUROC")]
    lines += ["| test set | " + " | ".join(heads) + " |", "| ---: " * (1 + len(heads)) + "|"]
    for row in found["events"]:
        cells = [points(row[f"{what}_{rate:g}"]) for rate in RARE for what in ("recall", "auroc")]
        lines.append(f"| {row['n']:,} samples | " + " | ".join(cells) + " |")
    return "\n".join(lines).replace(" samples", "\N{NO-BREAK SPACE}samples") + "\n"


def _found(gap: float) -> str:
    """The head of a column: how often an over-confidence, as a fraction, is found."""
    return f"an over-confidence of {100 * gap:g} point{'s' * (gap > 0.01)} is found in"


def draw(found: dict) -> None:
    """The uncertainty of two numbers by errors, at two error rates, on log axes."""
    import matplotlib.pyplot as plt

    with plots.style(), plt.rc_context({"svg.hashsalt": "sample_sizes", "svg.fonttype": "none"}):
        fig, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
        for key, name, color in (("auroc", "AUROC", "C0"), ("gap", "confidence − accuracy", "C1")):
            for rate, look in ((0.1, "o-"), (0.02, "s:")):
                rows = (r for r in found["confidence"] if r["rate"] == rate)
                rows = [r for r in rows if r["errors"] in ERRORS and r["of_auroc"] == AUROC]
                values = [100 * r[key] for r in rows]
                label = f"{name}, {100 * rate:g} % wrong"
                ax.plot(ERRORS, values, look, color=color, label=label)
        ax.set(xscale="log", yscale="log", xlabel="errors in the test set", ylabel="± points")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(True)
        fig.legend(loc="outside upper center", ncols=2)
        fig.savefig(TABLES.with_suffix(".svg"), metadata={"Date": None}, facecolor="white")


def main() -> None:
    """Simulate, print the tables, and write both files if a path is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", type=Path, help="where to write the JSON file")
    path = parser.parse_args().path
    rng = np.random.default_rng(0)
    found = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "draws": DRAWS}
    where = [(round(e / rate), rate) for rate in RATES for e in ERRORS] + [(SIZES[-1], ERROR)]
    found["confidence"] = [calibrated(n, rate, rng) for n, rate in where]
    found["confidence"].append(calibrated(round(100 / ERROR), ERROR, rng, WORSE))
    found["events"] = event_rows(rng)
    print(as_tables(found))
    if path:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        TABLES.write_text(as_tables(found), encoding="utf-8")
        draw(found)


if __name__ == "__main__":
    main()
