"""The practitioner's report: one HTML page that needs nothing else, and its numbers as JSON.

`build` makes it from a prediction file. Its steps serve as well in a notebook: `predictions.read`,
`assessment.assess` (numbers), `verdict` (in words), `tables` and `draw` (what is shown of them).
"""

import base64
import io
import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibkit import metrics, plots, posthoc, predictions
from calibkit.assessment import FEW, MAPS, assess
from calibkit.predictions import Predictions
from calibkit.stats import Interval

# Beside those of `plots.METRICS`: label, factor, higher is better?
_METRICS = plots.METRICS | {
    "confidence": ("Mean confidence", 100, None),
    "risk_at_coverage_0.8": ("Risk at 80 % coverage", 100, False),
    "coverage_at_risk_0.05": ("Coverage at 5 % risk", 100, True),
    "brier_calibration": ("Brier score: calibration", 1, False),
    "brier_refinement": ("Brier score: refinement", 1, False),
}
_UNITS = {100: "\u00a0%", 1000: "\u00a0‰", 1: ""}


def build(
    path: str | os.PathLike | Predictions,
    out: str | os.PathLike = "report",
    against: str | os.PathLike | Predictions | None = None,
    labels: str | os.PathLike | None = None,
    target_risk: Sequence[float] = (),
) -> Path:
    """Write the report on a prediction file: ``report.html`` and ``report.json``.

    Parameters
    ----------
    path : path or Predictions
        What to report on; see `calibkit.predictions` for the files that are read.
    out : path
        Folder to write to; it is made if need be.
    against : path or Predictions, optional
        A second model on the same samples, in the same order.
    labels : path, optional
        Labels in a file of their own.
    target_risk : sequence of float
        Error rates to find thresholds for; by default some below that of the model.

    Returns
    -------
    Path
        Of the HTML page.

    Raises
    ------
    ValueError
        In one line, as `predictions.read`; if the two models have other labels; if a target is no
        share.
    OSError
        A file cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> build(predictions.from_arrays(scores), tempfile.mkdtemp()).name
    'report.html'
    """
    data, other = (
        x if x is None or isinstance(x, Predictions) else predictions.read(x, labels)
        for x in (path, against)
    )
    numbers = assess(data, other, target_risk)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    words = {"verdict": verdict(numbers), "cautions": cautions(numbers)}
    text = json.dumps(plain(numbers | words), indent=1, ensure_ascii=False, allow_nan=False)
    _write(out / "report.json", text + "\n")
    _write(out / "report.html", page(numbers))
    return out / "report.html"


# --- words ---


def verdict(numbers: dict) -> list[dict[str, str]]:
    """Say it in words: ``title``, ``text`` and ``tone`` (good, fair, bad, unsure) of each."""
    answers = [_on_calibration(numbers), _on_errors(numbers)]
    answers += [_on_threshold(numbers), _on_recalibration(numbers)]
    if numbers["comparison"]:
        answers.append(_on_comparison(numbers))
    return answers


def _leaks(numbers: dict) -> bool:
    """More than a few samples are in the test and in the validation set."""
    return numbers["checks"]["overlap"] > 0.01 * numbers["samples"]


def cautions(numbers: dict) -> list[str]:
    """What a careful reader should know before believing the numbers."""
    n, errors, found = numbers["samples"], numbers["errors"], numbers["checks"]
    said = []
    if _leaks(numbers):
        said.append(
            f"{found['overlap']:,} of {n:,} samples are in the validation set too: thresholds and "
            "recalibration were judged on samples they were chosen on."
        )
    if min(errors, n - errors) < FEW:
        few = f"{errors:,} wrong" if errors < FEW else f"{n - errors:,} right"
        said.append(f"Only {few} of {n:,} answers: how well they are told apart is a rough guess.")
    if n >= FEW and numbers["metrics"]["accuracy"].high < found["majority"]:
        said.append(
            "It is right less often than if it always named the commonest class "
            f"({percent(found['majority'])}). Do labels, rows and columns belong together?"
        )
    if found["classes_seen"] < numbers["classes"]:
        missing = numbers["classes"] - found["classes_seen"]
        said.append(f"{missing:,} of {numbers['classes']:,} classes never occur among the labels.")
    if found["saturated"] > 0.01:
        said.append(
            f"{percent(found['saturated'])} of the confidences are exactly 1, and no threshold can "
            "tell those apart. If the scores were rounded, save the logits as they are."
        )
    if n >= 100 and 0 < found["distinct"] < 0.1 * n * (1 - found["saturated"]):
        said.append(
            f"There are only {found['distinct']:,} different confidences below 1, so many samples "
            "tie. If the scores were rounded, save the logits as they are."
        )
    if found["improbable"]:
        said.append(
            f"{found['improbable']:,} of {n:,} samples belong to a class that was given a "
            "probability of 0, or nearly. The NLL is infinite if it was 0; here it counts as 1e-38 "
            "(of double precision: 2e-308)."
        )
    for name, row in numbers["recalibration"].items():
        said += [f"{name.capitalize()}: {message}." for message in row.get("warnings", ())]
    return said


def _on_calibration(numbers: dict) -> dict[str, str]:
    gap, found, chance = numbers["gap"], numbers["metrics"], numbers["chance_ece"]
    size = abs(gap.estimate)
    sure = gap.low > 0 or gap.high < 0
    direction = "over-confident" if gap.estimate > 0 else "under-confident"
    uneven = found["ece"].estimate > chance.high
    apart = [row for row in numbers["groups"] if row["stands_out"]]
    if sure:
        much = "Slightly " if size < 0.01 else "Strongly " if size >= 0.05 else ""
        title, tone = (much + direction).capitalize(), "fair" if size < 0.01 else "bad"
    elif uneven or apart:
        title, tone = "Right on average, wrong in places", "fair"
    elif numbers["samples"] < 100:
        title, tone = "Too few samples to say", "unsure"
    else:
        title, tone = "No calibration error to be seen", "good"
    points = _number(gap, 100, "\u00a0points", sign=not sure)
    if gap.high < 0:
        points = _number(Interval(-gap.estimate, -gap.high, -gap.low), 100, "\u00a0points")
    text = (
        f"It claims to be right in {percent(found['confidence'].estimate)} of the cases and is in "
        f"{percent(found['accuracy'].estimate)}: {points} "
        + ("too much." if gap.low > 0 else "too little." if gap.high < 0 else "apart.")
    )
    text += (
        f" Its calibration error (ECE) is {percent(found['ece'].estimate)}; without any, chance "
        f"alone would show {percent(chance)}."
    )
    if apart:
        worst = max(apart, key=lambda row: abs(row["gap"].estimate))
        text += (
            f" It is off in {len(apart)} of {len(numbers['groups'])} groups, most in "
            f"“{worst['group']}” ({_number(worst['gap'], 100, ' points', sign=True)})."
        )
    return {"title": title, "text": text, "tone": tone}


def _on_errors(numbers: dict) -> dict[str, str]:
    errors, n, auroc = numbers["errors"], numbers["samples"], numbers["metrics"]["auroc"]
    if min(errors, n - errors) < 10:
        few = f"{errors:,} of {n:,} answers are wrong"
        return {
            "title": "Too few errors to say" if errors < 10 else "Too few right answers to say",
            "text": f"{few}: whether confidence tells right from wrong cannot be judged from that.",
            "tone": "unsure",
        }
    title, tone = next(
        words
        for least, words in (
            (0.9, ("Errors stand out well", "good")),
            (0.8, ("Errors stand out fairly well", "fair")),
            (0.65, ("Errors stand out poorly", "bad")),
            (0, ("Errors hardly stand out", "bad")),
        )
        if auroc.estimate >= least
    )
    text = (
        f"{errors:,} of {n:,} answers are wrong ({percent(errors / n)}). Take one right and one "
        f"wrong answer: the right one has the higher confidence in {percent(auroc)} of the cases "
        "(AUROC; 50\u00a0% is chance)."
    )
    if min(errors, n - errors) < FEW:
        title, tone = title + ", but that rests on few", "unsure"
    return {"title": title, "text": text, "tone": tone}


def _on_threshold(numbers: dict) -> dict[str, str]:
    point, error = numbers["main_point"], 1 - numbers["metrics"]["accuracy"].estimate
    everything = f"Answering everything means {percent(error)} errors"
    if not numbers["operating_points"]:
        return {
            "title": "No threshold needed",
            "text": f"{everything}: so few that no lower target could be checked.",
            "tone": "good",
        }
    if point is None:
        return {
            "title": "No threshold to recommend",
            "text": f"{everything}; no threshold that was tried brings clearly fewer.",
            "tone": "unsure",
        }
    text = (
        f"That answers {percent(point['coverage'])} of the cases at {percent(point['risk'])} "
        f"error (the target is {_round(point['target'])}). {everything}."
    )
    tone = {True: "good", None: "fair", False: "bad"}[point["kept"]]
    return {"title": f"Accept from {decimals(point['threshold'])} on", "text": text, "tone": tone}


def _on_recalibration(numbers: dict) -> dict[str, str]:
    found = numbers["recalibration"]
    helping = [x for x in MAPS if "brier" in found[x] and found[x]["brier_change"].high < 0]
    low, high = posthoc.RANGE
    fitted = found["temperature scaling"].get("temperatures", [])
    if not all(1.01 * low < t < high / 1.01 for t in fitted):  # no minimum: too few errors
        helping = [x for x in helping if x != "temperature scaling"]
    before = found["none"]
    if not helping:
        few = numbers["samples"] < 100
        return {
            "title": "Too few samples to say" if few else "No clear gain from recalibration",
            "text": "Neither temperature scaling nor histogram binning nor isotonic regression "
            f"lowers the Brier score ({before['brier']:.3f}) for sure.",
            "tone": "good" if numbers["gap"].low <= 0 <= numbers["gap"].high else "unsure",
        }
    best = min(helping, key=lambda name: found[name]["brier"])
    after = found[best]
    change = _number(after["brier_change"], 1, "", sign=True)
    text = (
        f"ECE {percent(before['ece'])} → {percent(after['ece'])}, Brier score "
        f"{before['brier']:.3f} → {after['brier']:.3f} (change {change})"
    )
    leaks = _leaks(numbers)
    text += ", in part on samples it was fitted on." if leaks else ", on samples it had not seen."
    if best == "temperature scaling":
        text += f" The temperature is {np.mean(after['temperatures']):.3g}; no answer changes."
    little = " a little" if after["brier"] > 0.95 * before["brier"] else ""
    title = f"{best.capitalize()} {'may' if leaks else 'would'} help{little}"
    return {"title": title, "text": text, "tone": "unsure" if leaks else "fair"}


def _on_comparison(numbers: dict) -> dict[str, str]:
    won, lost = [], []
    for name in ("accuracy", "ece", "brier", "auroc", "aurc"):
        outcome = _better(name, numbers["comparison"]["difference"][name])
        label = _METRICS[name][0]
        won += [label] * (outcome == "yours")
        lost += [label] * (outcome == "the other")
    either = (("better", won), ("worse", lost))
    parts = [f"{word} by {', '.join(names)}" for word, names in either if names]
    title = "No clear difference to the other model"
    if parts:
        title = "Better" if not lost else "Worse" if not won else "Better and worse"
        title += " than the other model"
    text = f"Compared with {numbers['against']} on the same samples: "
    text += ("; ".join(parts) if parts else "no metric is better or worse for sure") + "."
    tone = "fair" if not parts or (won and lost) else "good" if won else "bad"
    return {"title": title, "text": text, "tone": tone}


def _better(name: str, difference: Interval) -> str:
    higher = _METRICS.get(name, ("", 1, None))[2]
    if higher is None or not (difference.low > 0 or difference.high < 0):
        return "–"
    return "yours" if (difference.estimate > 0) == higher else "the other"


def percent(value: float | Interval) -> str:
    """A share as per cent; with its interval if it has one, as precise as that is.

    >>> percent(Interval(0.7134, 0.69, 0.73)).replace("\\u00a0", " ")
    '71 % [69, 73]'
    """
    return _number(value, 100, "\u00a0%")


def _round(target: float) -> str:
    return f"{100 * target:g}\u00a0%"


def decimals(confidence: float | None) -> str:
    """A confidence with two digits of what it lacks to 1.

    >>> decimals(0.93), decimals(0.99987)
    ('0.930', '0.99987')
    """
    if confidence is None or not 0 < confidence < 1:
        return "–" if confidence is None else f"{confidence:g}"
    return f"{confidence:.{max(1 - math.floor(math.log10(1 - confidence)), 2)}f}"


def _number(value: float | Interval, scale: float, unit: str, sign: bool = False) -> str:
    estimate, low, high = value if isinstance(value, Interval) else (value, math.nan, math.nan)
    if math.isnan(estimate):
        return "–"
    if math.isinf(estimate):
        return "∞"
    half = scale * (high - low) / 2
    if half > 0:
        digits = int(np.clip(math.ceil(-math.log10(half / 2)), 0, 6))
        ends = [abs(scale * end) for end in (low, high) if end]
        while digits < 6 and min(ends) < 0.5 / 10**digits:  # an end that is not 0 must not look it
            digits += 1
    else:
        digits = 1 if scale > 1 else 3
    plus = "+" if sign else ""
    shown = [round(scale * x, digits) + 0.0 for x in (estimate, low, high)]  # no minus before 0
    text = f"{shown[0]:{plus}.{digits}f}{unit}"
    if not math.isnan(half):
        text += f" [{shown[1]:.{digits}f}, {shown[2]:.{digits}f}]"
    return text.replace("-", "−")


# --- what is shown: tables, pictures, the page ---


def tables(numbers: dict) -> dict[str, pd.DataFrame]:
    """The numbers as tables of text, in the order of the page; empty ones are left out."""
    shown = {
        "bins": _bins_table(numbers["reliability"]),
        "operating_points": [
            {
                "Target error": _round(p["target"]),
                "Accept from": decimals(p["threshold"]),
                "Cases answered": percent(p["coverage"]),
                "Error among them": percent(p["risk"]),
                "Wrong / answered": f"{p['wrong']:,} / {p['accepted']:,}",
                "Target kept?": {True: "yes", False: "no", None: "cannot tell"}[p["kept"]],
            }
            for p in numbers["operating_points"]
        ],
        "metrics": [_metric_row(*item) for item in numbers["metrics"].items()],
        "recalibration": [
            _map_row(name, found)
            for name, found in numbers["recalibration"].items()
            if "brier" in found
        ],
        "groups": [_group_row(row, numbers["main_point"]) for row in numbers["groups"]],
        "predicted": [_group_row(row, numbers["main_point"]) for row in numbers["predicted"]],
        "comparison": _comparison_table(numbers),
    }
    return {name: _frame(rows) for name, rows in shown.items() if rows}


def _frame(rows: list[dict[str, str]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    first = frame.columns[0]  # goes to the corner of the table
    return frame.set_index(first).rename_axis(index=None, columns=first)


def _bins_table(bins: dict) -> list[dict[str, str]]:
    edges = bins["edges"]
    return [
        {
            "Confidence": f"{edges[i]:.2f} to {edges[i + 1]:.2f}",
            "Samples": f"{bins['count'][i]:,}",
            "Mean confidence": percent(bins["confidence"][i]),
            "Accuracy": percent(
                Interval(*(float(bins[k][i]) for k in ("accuracy", "low", "high")))
            ),
        }
        for i in np.flatnonzero(bins["count"])
    ]


def _metric_row(name: str, value: Interval) -> dict[str, str]:
    label, scale, higher = _METRICS.get(name, (_label(name), 1, None))
    function = getattr(metrics, name, None)
    return {
        "Metric": label,
        "Value [95 % interval]": _number(value, scale, _UNITS[scale]),
        "Better": {True: "higher", False: "lower", None: "–"}[higher],
        "What it is": _what(function) if function else "",
    }


def _what(function) -> str:
    """The first sentence of its documentation, without what is in brackets."""
    return re.sub(r" \([^)]*\)|`", "", function.__doc__.split("\n")[0])


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _map_row(name: str, found: dict) -> dict[str, str]:
    change = _number(found["brier_change"], 1, "", sign=True)
    return {
        "Map": "as it is" if name == "none" else name,
        "ECE": percent(found["ece"]),
        "Adaptive ECE": percent(found["adaptive_ece"]),
        "Brier score": f"{found['brier']:.4f}",
        "… change": "–" if name == "none" else change,
        "NLL": _number(found["nll"], 1, ""),
        "Accuracy": percent(found["accuracy"]),
        "AUROC": percent(found["auroc"]),
        "AURC": _number(found["aurc"], 1000, "\u00a0‰"),
    }


def _group_row(row: dict, point: dict | None) -> dict[str, str]:
    gap = row["gap"]
    words = "over-confident" if gap.estimate > 0 else "under-confident"
    return {
        "Group": row["group"],
        "Samples": f"{row['samples']:,}",
        "Accuracy": percent(row["accuracy"]),
        "Confidence": percent(row["confidence"]),
        "Gap": _number(gap, 100, "", sign=True),
        "Verdict": words if row["stands_out"] else "too few" if row["samples"] < FEW else "–",
        "AUROC": percent(row["auroc"]),
    } | (
        {"Answered": percent(row["coverage"]), "Error among them": percent(row["risk"])}
        if point
        else {}
    )


def _comparison_table(numbers: dict) -> list[dict[str, str]]:
    if not numbers["comparison"]:
        return []
    rows = []
    for name, difference in numbers["comparison"]["difference"].items():
        label, scale, _ = _METRICS.get(name, (_label(name), 1, None))
        unit = _UNITS[scale]
        rows.append(
            {
                "Metric": label,
                "Yours": _number(numbers["metrics"][name].estimate, scale, unit),
                "Other": _number(numbers["comparison"]["metrics"][name], scale, unit),
                "Difference [95 % interval]": _number(difference, scale, "", sign=True),
                "Better": _better(name, difference),
            }
        )
    return rows


def draw(name: str, numbers: dict) -> Figure:
    """Draw "reliability", "histogram", "risk_coverage", or of two models "comparison"."""
    with plots.style():
        if name == "comparison":
            fig, axes = plt.subplots(2, 1, figsize=(6, 7))
            pairs = {"your model": numbers, "the other one": numbers["comparison"]}
            plots.plot_reliability_lines({m: x["reliability"] for m, x in pairs.items()}, axes[0])
            plots.plot_risk_coverage({m: x["risk_coverage"] for m, x in pairs.items()}, axes[1])
            return fig
        fig, ax = plt.subplots(figsize=(6, 4) if name == "risk_coverage" else (5, 4.6))
        if name == "reliability":
            plots.plot_reliability(numbers["reliability"], ax)
        elif name == "histogram":
            plots.plot_confidence_histogram(numbers["histogram"], ax)
        else:
            plots.plot_risk_coverage({"your model": numbers["risk_coverage"]}, ax)
            _mark(numbers["operating_points"], ax)
        return fig


def _mark(points: list[dict], ax: Axes) -> None:
    """Put operating points on a risk-coverage curve, and their thresholds where there is room."""
    labelled = -1.0
    for point in (p for p in points if p["accepted"]):
        x, y = point["coverage"].estimate, point["risk"].estimate
        ax.plot(x, y, "o", color=plots.WRONG, zorder=5)
        if x - labelled > 0.15:
            words, side = f"≥ {decimals(point['threshold'])}", "right" if x > 0.3 else "left"
            ax.annotate(words, (x, y), (-5, 7), textcoords="offset points", ha=side)
            labelled = x


def page(numbers: dict) -> str:
    """The report as one HTML page: pictures inside, no script, nothing fetched."""
    shown = ["reliability", "histogram", "risk_coverage"]
    shown += ["comparison"] if numbers["comparison"] else []
    facts = [f"{numbers['samples']:,} samples", f"{numbers['classes']:,} classes"]
    facts += [f"{numbers['errors']:,} wrong"]
    if numbers["validation"]:
        facts.append(f"a validation set of {numbers['validation']:,}")
    if numbers["against"]:
        facts.append(f"compared with {numbers['against']}")
    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(template).render(
        numbers=numbers,
        facts=facts,
        verdict=verdict(numbers),
        cautions=cautions(numbers),
        pictures={name: _picture(draw(name, numbers)) for name in shown},
        tables={name: _table(frame) for name, frame in tables(numbers).items()},
        percent=percent,
    )


def _table(frame: pd.DataFrame) -> dict:
    """Rows of strings for the template, which escapes them."""
    frame = frame.reset_index(names=frame.columns.name)
    return {"head": list(frame.columns), "rows": frame.to_numpy().tolist()}


def _picture(figure: Figure) -> str:
    """As a data address. Inside an <img> no SVG runs a script or fetches anything."""
    file = io.BytesIO()
    with plots.style():
        figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()


def plain(value):
    """Numbers as JSON takes them: intervals by name, ``nan`` as null, infinity as "inf"."""
    if isinstance(value, Interval):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(x) for key, x in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(x) for x in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf"
    return value


def _write(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".part")  # a page is whole or not there
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
