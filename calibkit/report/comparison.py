"""Several models on the same samples: every pair compared, one HTML page, numbers as JSON."""

import os
from collections.abc import Sequence
from itertools import combinations
from math import nan
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from calibkit import __version__, plots, stats, terms
from calibkit.report import drift, estimates, html, predictions
from calibkit.report.predictions import Predictions
from calibkit.report.text import DECIDING, better, card, framed, number
from calibkit.stats import Interval

COMPARED = ("accuracy", "ece", "excess_ece", "nll", "brier", "auroc", "aurc", "fpr_at_tpr")
LEVEL = 0.95
MOST = 12  # models: 66 pairs


def build(
    paths: Sequence[str | os.PathLike | Predictions],
    out: str | os.PathLike = "compare",
    labels: str | os.PathLike | None = None,
    unpaired: bool = False,
) -> Path:
    """Compare the models of several prediction files; write ``compare.html`` and ``compare.json``.

    Files of other samples of one model, or a single table with a column ``date``, are compared
    with the oldest: see `calibkit.report.drift`.

    Parameters
    ----------
    paths : sequence of path or Predictions
        At least two, on the same samples in the same order; or see above.
    out : path
        Folder to write to; created if missing.
    labels : path, optional
        Labels in a file of their own.
    unpaired : bool
        The files are of other samples, the oldest first.

    Returns
    -------
    Path
        Path of the HTML page.

    Raises
    ------
    ValueError
        In one line, as from `predictions.read`; if the samples are not the same.
    """
    if len(paths) == 1 and not isinstance(paths[0], Predictions):
        models = drift.by_date(paths[0])
    else:
        models = [x if isinstance(x, Predictions) else predictions.read(x, labels) for x in paths]
    if unpaired or len(paths) == 1:
        return drift.write(drift.compare(models), Path(out))
    numbers = compare(models)
    words = verdict(numbers)
    title = f"{len(numbers['models'])} models"
    return html.publish(
        Path(out),
        "compare",
        numbers,
        {"verdicts": [{"title": title, "verdict": words}]},
        verdict=words,
        tables={name: html.table(frame) for name, frame in tables(numbers).items()},
        pictures={name: html.picture(draw(name, numbers)) for name in ("forest", "reliability")},
    )


def compare(models: Sequence[Predictions]) -> dict:
    """Every metric of every model, and the paired difference of every pair.

    Intervals of differences hold jointly: with m pairs each is at the level 1 - 0.05 / m
    (Bonferroni), so that the chance of any false verdict about a metric is at most 5 %.

    Parameters
    ----------
    models : sequence of Predictions

    Returns
    -------
    dict
        ``models`` (names), ``samples``, ``classes``, ``metrics`` (for each model, a dict of
        95 % intervals), ``pairs`` (``first``, ``second``, ``difference``: first minus second),
        ``level`` (of each difference's interval), ``reliability`` (numbers of the figure).

    Raises
    ------
    ValueError
        Fewer than two models, more than `MOST`, or different samples.
    """
    if not 2 <= len(models) <= MOST:
        raise ValueError(f"predictions: got {len(models)} models, expected 2 to {MOST}")
    first = models[0]
    for other in models[1:]:
        predictions.check_same(first, other, other.name)
    names = _names(models)
    pairs = list(combinations(range(len(models)), 2))
    level = 1 - (1 - LEVEL) / len(pairs)
    # Each end of the interval is a quantile: some 25 replicates should lie beyond it.
    replicates = max(estimates.replicates(len(first.labels)), min(1000 * len(pairs), 4000))
    samples = [stats.Samples(**m.samples) for m in models]
    intervals = [stats.bootstrap(s, None, COMPARED, n=200) for s in samples]
    options = {"n": replicates, "level": level}
    return {
        "models": names,
        "calibkit": __version__,
        "samples": len(first.labels),
        "classes": first.logits.shape[1],
        "notes": [f"{n}: {note}" for n, m in zip(names, models, strict=True) for note in m.notes],
        "level": level,
        "metrics": dict(zip(names, intervals, strict=True)),
        "pairs": [
            {
                "first": names[i],
                "second": names[j],
                "difference": stats.compare(samples[i], samples[j], None, COMPARED, **options),
            }
            for i, j in pairs
        ],
        "reliability": {
            name: plots.prepare_reliability(own.confidence, own.correct)
            for name, own in zip(names, samples, strict=True)
        },
    }


def _names(models: Sequence[Predictions]) -> list[str]:
    """Names of the files, numbered where two are the same."""
    names = [m.name for m in models]
    return [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def verdict(numbers: dict) -> list[dict[str, str]]:
    """For each of `DECIDING`, which model beats which: ``title``, ``text``, ``tone``."""
    statements, models = [], numbers["models"]
    for name in DECIDING:
        label, scale, *_ = terms.METRICS[name]
        wins = {m: set() for m in models}
        for pair in numbers["pairs"]:
            side = better(name, pair["difference"][name])
            if side:
                winner, loser = (pair["first"], pair["second"])[::side]
                wins[winner].add(loser)
        best = [m for m in models if len(wins[m]) == len(models) - 1]
        digits = 2 if scale > 1 else 4
        values = (
            f"{m} {found[name]._replace(low=nan, high=nan).format(scale, digits)}"
            for m, found in numbers["metrics"].items()
        )
        if best:
            others = "all others" if len(models) > 2 else min(wins[best[0]])
            title, tone = f"{label}: {best[0]} beats {others}", "good"
        elif any(wins.values()):
            each = [f"{m} beats {', '.join(sorted(w))}" for m, w in wins.items() if w]
            title, tone = f"{label}: {'; '.join(each)}", "fair"
        else:
            title, tone = f"{label}: no two can be told apart", "unsure"
        statements.append(card(title, f"{', '.join(values)}{terms.UNITS[scale]}.", tone))
    return statements


def tables(numbers: dict) -> dict[str, pd.DataFrame]:
    """``metrics`` (a row per model) and ``pairs`` (a row per pair), as text."""

    def row(found: dict[str, Interval], pair: bool) -> dict[str, str]:
        marks = {name: _MARKS[better(name, found[name]) if pair else 0] for name in COMPARED}
        return {
            terms.header(name): number(found[name], terms.METRICS[name].scale, sign=pair) + mark
            for name, mark in marks.items()
        }

    own = [{"Model": model} | row(found, False) for model, found in numbers["metrics"].items()]
    pairs = [{"Pair": _pair(pair)} | row(pair["difference"], True) for pair in numbers["pairs"]]
    return {"metrics": framed(own), "pairs": framed(pairs)}


_MARKS = {1: " ✓", -1: " ✗", 0: ""}
_COLOURS = {1: plots.CORRECT, -1: plots.WRONG, 0: "0.5"}


def _pair(pair: dict) -> str:
    return f"{pair['first']} − {pair['second']}"


def draw(name: str, numbers: dict) -> Figure:
    """Draw "forest" (differences of pairs) or "reliability"."""
    with plots.style():
        if name == "reliability":
            fig, ax = plt.subplots(figsize=(6.4, 4.4))
            plots.plot_reliability_lines(numbers["reliability"], ax)
            return fig
        return _forest(numbers)


def _forest(numbers: dict) -> Figure:
    shown, pairs = ("excess_ece", "brier", "auroc", "aurc"), numbers["pairs"]
    height = 1.0 + 0.3 * len(pairs)
    fig, axes = plt.subplots(2, 2, figsize=(8.4, 2 * height + 0.6), sharey=True)
    for ax, name in zip(axes.flat, shown, strict=True):
        label, scale, higher, _ = terms.METRICS[name]
        ax.axvline(0, color="0.6", linewidth=1, linestyle="--")
        for y, pair in enumerate(pairs):
            estimate, low, high = (scale * x for x in pair["difference"][name])
            colour = _COLOURS[better(name, pair["difference"][name])]
            ax.plot([low, high], [y, y], color=colour, linewidth=2.2)
            ax.plot(estimate, y, "o", color=colour, markersize=6)
        side = "higher" if higher else "lower"
        unit = {100: ", points", 1000: " × 1000", 1: ""}[scale]
        ax.set(xlabel=f"{label}{unit} ({side} is better)", ylim=(len(pairs) - 0.5, -0.5))
        ax.set_yticks(range(len(pairs)), [_pair(p) for p in pairs])
        ax.grid(axis="y", visible=False)
        ax.locator_params(axis="x", nbins=5)
    return fig
