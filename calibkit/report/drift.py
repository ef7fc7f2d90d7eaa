"""The same model on other samples: has its calibration drifted beyond chance, and where?

Calibration is whether the outcome follows the score: of all answers given 80 %, how many are right.
A change in the mix of samples changes accuracy and mean confidence together; it is no drift here.
So samples are compared at equal scores: in bins of the score, is what was observed less what was
claimed the same as before? Under no drift each bin's difference has mean 0 and the variance of a
permutation of the pooled samples; the squares of the standardised differences add up to chi².
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import chi2, norm

from calibkit import __version__, plots
from calibkit.arrays import Array
from calibkit.report import estimates, html, predictions, privacy, readers
from calibkit.report.design import Design
from calibkit.report.estimates import FEW, LEAST
from calibkit.report.names import after
from calibkit.report.predictions import Predictions
from calibkit.report.readers import tables
from calibkit.report.text import card, change, framed, negative, percent, say
from calibkit.stats import Interval

LEVEL = 0.05
BINS = 10  # at most
EVENTS = 10  # expected variance of a bin in the smaller set: enough for a normal approximation
PARTS = 24  # periods of a column of dates, at most
_PERIODS = ("Y", "Q", "M", "W", "D")  # the finest that leaves at least LARGE samples a period
LARGE = 200


def compare(parts: Sequence[Predictions]) -> dict:
    """Compare every part with the first.

    Parameters
    ----------
    parts : sequence of Predictions
        Of one model, the oldest first.

    Returns
    -------
    dict
        ``parts``: ``name``, ``samples``, ``claimed``, ``observed`` and ``gap`` (claimed less
        observed) of each; ``changes``: for each but the first, ``p`` (corrected for the number of
        parts), ``drifted``, ``change`` (of the gap), ``bins``, ``groups`` and ``predicted`` (see
        `differences`); ``drifted``: how many have; ``p``: the smallest; ``score``: what is claimed.

    Raises
    ------
    ValueError
        Fewer than two parts, other classes, or fewer than `LEAST` samples in a part.
    """
    if len(parts) < 2:
        raise ValueError(f"predictions: got {len(parts)} part, expected at least two to compare")
    first = parts[0]
    for part in parts:
        if part.class_names != first.class_names:
            raise ValueError(f"{part.name}: got other classes than {first.name}")
        if len(part.labels) < LEAST:
            raise ValueError(
                f"{part.name}: got {len(part.labels)} samples, expected at least {LEAST}"
            )
    event = None
    if first.logits.shape[1] == 2:  # the rarer
        event = int(2 * (first.labels == 1).sum() <= len(first.labels))
    scores = (part.scored(event) for part in parts)
    scored = [(score.astype(np.float64), hit) for score, hit in scores]
    m = len(parts) - 1
    changes = [_change(parts[0], parts[i], scored[0], scored[i], m) for i in range(1, m + 1)]
    return {
        "score": "confidence" if event is None else f"P({first.class_names[event]})",
        "parts": [
            {
                "name": part.name,
                "samples": len(s),
                "claimed": part.design.average(s),
                "observed": part.design.share(hit),
                "gap": estimates.gap(s, hit, design=part.design),
            }
            for part, (s, hit) in zip(parts, scored, strict=True)
        ],
        "changes": changes,
        "drifted": sum(change["drifted"] for change in changes),
        "p": min(change["p"] for change in changes),
        "notes": [after(f"{part.name}: ", note) for part in parts for note in part.notes],
        "calibkit": __version__,
    }


def _change(old: Predictions, new: Predictions, was: tuple, now: tuple, m: int) -> dict:
    edges = bin_edges(np.concatenate([was[0], now[0]]), min(len(was[0]), len(now[0])))
    places = [np.searchsorted(edges, s) for s, _ in (was, now)]
    ends = [0.0, *edges.tolist(), 1.0]
    residuals = [hit - s for s, hit in (was, now)]
    names = [f"{a:.2g} to {b:.2g}" for a, b in zip(ends[:-1], ends[1:], strict=True)]
    designs = old.design, new.design
    bins = differences(residuals, places, names, LEVEL / m, designs)
    z = np.array([row["z"] for row in bins if row["z"] is not None])
    everywhere = [np.zeros(len(r), int) for r in residuals]
    overall = differences(residuals, everywhere, ["all"], LEVEL / m, designs)
    z_all = overall[0]["z"] or 0.0
    p_bins = float(chi2.sf((z**2).sum(), len(z))) if len(z) else 1.0
    if len(z) and any(design.clusters is not None for design in designs):  # bins vary together
        p_bins = min(1.0, len(z) * float(2 * norm.sf(np.abs(z).max())))
    p = min(1.0, 2 * m * min(p_bins, float(2 * norm.sf(abs(z_all)))))
    found = {"part": new.name, "p": p, "drifted": p < LEVEL, "change": overall[0]["change"]}
    by_class = [part.logits.argmax(axis=1) for part in (old, new)]
    found |= {"bins": bins}
    found["predicted"] = differences(residuals, by_class, old.class_names, LEVEL / m, designs)
    found["groups"] = []
    if old.groups is not None and new.groups is not None:
        columns = [part.groups.reshape(len(part.labels), -1)[:, 0] for part in (old, new)]
        names = np.intersect1d(*columns)
        place = [np.where(np.isin(c, names), np.searchsorted(names, c), -1) for c in columns]
        found["groups"] = differences(residuals, place, names.tolist(), LEVEL / m, designs)
    return found


def bin_edges(scores: Array, fewest: int) -> Array:
    """Edges between bins of equal expected variance, so that each says about as much.

    Scores near 0 and 1 say little each: a bin of equal mass there would hardly have an event.

    >>> bin_edges(np.repeat([0.01, 0.5, 0.6], 100), 300).round(2).tolist()
    [0.5]
    """
    ordered = np.sort(scores)
    variance = ordered * (1 - ordered) + 0.005
    total = np.cumsum(variance)
    bins = int(np.clip(total[-1] * fewest / len(scores) / EVENTS, 1, BINS))
    at = np.searchsorted(total, total[-1] * np.arange(1, bins) / bins)
    edges = np.unique(ordered[at])
    return edges[edges < ordered[-1]]


def differences(
    residuals: Sequence[Array],
    places: Sequence[Array],
    names: Sequence[str],
    level: float,
    designs: Sequence[Design] | None = None,
) -> list[dict]:
    """For each place what was observed less what was claimed, before and now.

    Parameters
    ----------
    residuals : two arrays (n,) and (m,)
        Outcome (0 or 1) less score, of the old and of the new samples.
    places : two arrays of int
        Where each sample belongs: an index into `names`, or -1.
    names : sequence of str
    level : float
        Of the test at all places together.
    designs : two of design.Design, optional
        How both were drawn: with which weights, in which clusters.

    Returns
    -------
    list of dict
        ``name``, ``samples`` (old and new), ``old``, ``new`` (mean residuals), ``change`` (interval
        at 95 %), ``z`` (None if it cannot be told), ``stands_out`` (beyond chance, allowing for the
        number of places).

    Examples
    --------
    >>> old, new = np.tile([0.2, -0.2], 50), np.tile([0.1, -0.3], 50)
    >>> (row,) = differences([old, new], [np.zeros(100, int)] * 2, ["all"], 0.05)
    >>> round(row["change"].estimate, 3), row["stands_out"]
    (-0.1, True)
    """
    rows = []
    for i, name in enumerate(names):
        old, new = (r[place == i] for r, place in zip(residuals, places, strict=True))
        if len(old) < 2 or len(new) < 2:
            continue
        drawn = designs and [d[place == i] for d, place in zip(designs, places, strict=True)]
        if drawn and any(d.weights is not None and not d.weights.any() for d in drawn):
            continue
        was, now, error, half = _means(old, new, drawn)
        change = now - was
        rows.append(
            {
                "name": str(name),
                "samples": [len(old), len(new)],
                "old": was,
                "new": now,
                "change": Interval(change, change - half, change + half),
                "z": change / error if 0 < error < math.inf else None,
            }
        )
    limit = norm.isf(level / max(len(rows), 1) / 2)
    for row in rows:
        row["stands_out"] = abs(row["z"] or 0) > limit and min(row["samples"]) >= FEW
    return rows


def _means(
    old: Array, new: Array, designs: Sequence[Design] | None
) -> tuple[float, float, float, float]:
    """Both means, the standard error of their difference and half its interval."""
    if designs is None or all(design.plain for design in designs):
        pooled = np.concatenate([old, new])
        error = math.sqrt(pooled.var(ddof=1) * (1 / len(old) + 1 / len(new)))
        half = 1.96 * math.sqrt(old.var(ddof=1) / len(old) + new.var(ddof=1) / len(new))
        return float(old.mean()), float(new.mean()), error, half
    both = [design.mean(r) for design, r in zip(designs, (old, new), strict=True)]
    half = math.hypot(*(interval.high - interval.estimate for interval in both))
    return both[0].estimate, both[1].estimate, half / 1.96, half


# --- one file with a column of dates ---


def by_date(path: str | Path, **reading) -> list[Predictions]:
    """A table with a column ``date``, cut into periods.

    Calendar years, quarters, months, weeks or days: the finest that leaves enough samples in
    each period for a comparison. A validation set (``split``) is left out. `reading` is passed to
    `predictions.read`.
    """
    import pandas as pd

    path = Path(path)
    columns = tables.table_of(path)[0].columns if readers.is_table(path) else ()
    if "date" not in columns:
        raise ValueError(f"{path}: got one file without a column 'date', expected several")
    others = [name for name in ("group", "groups") if name in columns][:1]
    data = predictions.read(path, group=["date", *others], **reading)
    dates, groups = data.groups[:, 0], data.groups[:, 1:]
    try:
        dates = pd.Series(pd.to_datetime(dates, utc=True, format="ISO8601")).dt.tz_localize(None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: date: {' '.join(str(error).split())[:150]}") from error
    period = _period(dates)
    data = replace(data, notes=(), groups=groups if others else None)
    return [
        data.take(np.flatnonzero(period == name), name=str(name), val_logits=None, val_labels=None)
        for name in sorted(period.unique())
    ]


def _period(dates):
    """Periods of `dates`: the finest of `_PERIODS` with enough samples, at most `PARTS`."""
    for length in reversed(_PERIODS):
        period = dates.dt.to_period(length)
        counts = period.value_counts()
        # The first and the last may be cut off.
        if 2 <= len(counts) <= PARTS and counts.median() >= LARGE and counts.min() >= LEAST:
            return period
    raise ValueError(
        f"date: got {len(dates)} samples from {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}, "
        f"expected at least two periods of some {LARGE} samples"
    )


# --- words and pictures ---


def verdict(numbers: dict) -> list[dict[str, str]]:
    """``title``, ``text`` and ``tone``: whether, and where."""
    old, *parts = numbers["parts"]
    changes, worst = numbers["changes"], _worst(numbers)
    new = parts[changes.index(worst)]
    which = [change["part"] for change in changes if change["drifted"]]
    several = len(changes) > 1 and bool(which)
    values = {"worst": worst, "which": which, "several": several, "p": _p(worst)}
    text = say(numbers, "drift", parts=(old, new), **values)
    if not which:
        title = f"No drift since {old['name']} beyond what chance would show"
        return [card(title, text, "good")]
    title = f"Calibration has drifted from {old['name']} to {new['name']}"
    if several:
        title = f"Calibration has drifted since {old['name']}, first in {which[0]}"
    return [card(title, text, "bad"), _where(worst, numbers["score"])]


def _where(change: dict, score: str) -> dict[str, str]:
    kinds = {"bins": f"at a {score} of", "groups": "in group", "predicted": "where the answer is"}
    places = []
    for key, what in kinds.items():
        rows = [row for row in change[key] if row["stands_out"]]
        places += [(what, row) for row in sorted(rows, key=lambda row: -abs(row["z"]))[:3]]
    if not places:
        text = "No bin, group or class stands out alone; it is spread over all."
        return card("Drifted a little everywhere", text, "unsure")
    text = say(change, "drifted_where", places=places)
    return card(f"Where {change['part']} differs most", text, "fair")


def _p(change: dict) -> str:
    return f"{change['p']:.2g}" if change["p"] >= 1e-4 else "below 0.0001"


def write(
    numbers: dict,
    out: Path,
    rows: bool = True,
    inputs: Sequence = (),
    told: Callable[[str], None] | None = None,
) -> Path:
    """Write ``compare.html`` and ``compare.json``; return the path of the first.

    Without `rows`, nothing in them belongs to a single row: see `calibkit.report.privacy`.
    """
    words = verdict(numbers)
    numbers = numbers if rows else privacy.without_rows_of_parts(numbers)
    worst = _worst(numbers)
    title = f"{len(numbers['parts'])} sets of samples"
    heads = {"bins": numbers["score"], "groups": "Group", "predicted": "Answer"}
    tables = {key: [_row(row, head) for row in worst[key][:50]] for key, head in heads.items()}
    tables["parts"] = _parts(numbers)
    return html.publish(
        out,
        "compare",
        numbers,
        {"verdicts": [{"title": title, "verdict": words}], "inputs": inputs, "rows": rows},
        "drift",
        told=told,
        verdict=words,
        worst=worst,
        rows=rows,
        fewest=privacy.FEWEST,
        pictures={name: html.picture(draw(name, numbers)) for name in ("gaps", "bins")},
        tables={name: html.table(framed(rows)) for name, rows in tables.items() if rows},
    )


def _worst(numbers: dict) -> dict:
    return min(numbers["changes"], key=lambda change: change["p"])


def _parts(numbers: dict) -> list[dict[str, str]]:
    told = [("–", "–", "–")]
    for found in numbers["changes"]:
        told.append((change(found["change"]), _p(found), "yes" if found["drifted"] else "no"))
    return [
        {
            "Samples of": part["name"],
            "How many": f"{part['samples']:,}",
            "Claimed": percent(part["claimed"]),
            "Observed": percent(part["observed"]),
            "Change of the gap": changed,
            "p": p,
            "Drifted?": drifted,
        }
        for part, (changed, p, drifted) in zip(numbers["parts"], told, strict=True)
    ]


def _row(row: dict, first: str) -> dict[str, str]:
    before, now = row["samples"]
    return {
        first: row["name"],
        "Samples before": f"{before:,}",
        "Samples now": f"{now:,}",
        "Observed − claimed before": change(row["old"]),
        "Observed − claimed now": change(row["new"]),
        "Change": change(row["change"]),
        "Verdict": "stands out" if row["stands_out"] else "–",
    }


def draw(name: str, numbers: dict) -> Figure:
    """Draw "gaps" (observed less claimed, of each part) or "bins" (of the first and the worst)."""
    score, rows = numbers["score"], _worst(numbers)["bins"]
    labels = {"xlabel": score[0].upper() + score[1:], "ylabel": "Change, points"}
    bars = [(row["change"], plots.WRONG if row["stands_out"] else "0.5") for row in rows]
    if name == "gaps":
        rows, labels = numbers["parts"], {"ylabel": "Observed − claimed, points"}
        drifted = [False, *(change["drifted"] for change in numbers["changes"])]
        colours = [plots.WRONG if x else plots.CORRECT for x in drifted]
        bars = [(negative(row["gap"]), x) for row, x in zip(rows, colours, strict=True)]
    with html.style():
        fig, ax = plt.subplots(figsize=(6.4, 3.6))
        ax.axhline(0, color="0.4", linewidth=1, linestyle="--")
        for x, (interval, colour) in enumerate(bars):
            estimate, low, high = (100 * end for end in interval)
            ax.plot([x, x], [low, high], color=colour, linewidth=2.2)
            ax.plot(x, estimate, "o", color=colour, markersize=6)
        ax.set_xticks(range(len(rows)), [row["name"] for row in rows], rotation=30, ha="right")
        ax.set(**labels)
        return fig
