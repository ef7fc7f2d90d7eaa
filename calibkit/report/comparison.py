"""Several models on the same samples: every pair compared, one HTML page, numbers as JSON."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from calibkit import plots, terms
from calibkit.report import drift, html, predictions, readers
from calibkit.report.assessment import compare
from calibkit.report.predictions import Predictions
from calibkit.report.text import better, compared, compared_tables, pair_name


def build(
    paths: Sequence[str | os.PathLike | Predictions],
    out: str | os.PathLike = "compare",
    labels: str | os.PathLike | None = None,
    unpaired: bool = False,
    *,
    columns: Mapping[str, str | Sequence[str]] | Sequence[str] = (),
    minus_one: str | None = None,
    as_is: bool = False,
    told: Callable[[str], None] | None = None,
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
    columns, minus_one, as_is
        As in `predictions.read`. Of a single file, several patterns of probs or logits are several
        models: ``["probs=p*", "probs=cal_p*"]``.
    told : function of str, optional
        Called with the text of ``compare.json`` when both files are written.

    Returns
    -------
    Path
        Path of the HTML page.

    Raises
    ------
    ValueError
        In one line, as from `predictions.read`; if the samples are not the same.
    """
    reading = {"minus_one": minus_one, "as_is": as_is}
    alone = len(paths) == 1 and not isinstance(paths[0], Predictions)
    several = models_of(columns) if alone else []
    if several:
        found = [predictions.read(paths[0], labels, columns=x, **reading) for x in several.values()]
        models = [replace(x, name=name) for x, name in zip(found, several, strict=True)]
    elif alone:
        models = drift.by_date(paths[0], columns=columns, **reading)
    else:
        reading["columns"] = columns
        models = [
            x if isinstance(x, Predictions) else predictions.read(x, labels, **reading)
            for x in paths
        ]
    inputs = predictions.inputs_of(*models)
    if unpaired or (len(paths) == 1 and not several):
        return drift.write(drift.compare(models), Path(out), inputs, told)
    numbers = compare(models)
    words = compared(numbers)
    title = f"{len(numbers['models'])} models"
    return html.publish(
        Path(out),
        "compare",
        numbers,
        {"verdicts": [{"title": title, "verdict": words}], "inputs": inputs},
        told=told,
        verdict=words,
        tables={name: html.table(frame) for name, frame in compared_tables(numbers).items()},
        pictures={name: html.picture(draw(name, numbers)) for name in ("forest", "reliability")},
    )


def models_of(
    columns: Mapping[str, str | Sequence[str]] | Sequence[str],
) -> dict[str, dict[str, Sequence[str]]]:
    """The columns of each of several models in one table, by a name; empty if there is one model.

    >>> list(models_of(["probs=p?", "probs=cal_p?", "label=y"]))
    ['p?', 'cal_p?']
    """
    asked = readers.parse(columns)
    scores = [(kind, x) for kind in ("logits", "probs", "confidence") for x in asked.get(kind, ())]
    if len(scores) < 2:
        return {}
    rest = {role: x for role, x in asked.items() if role not in ("logits", "probs", "confidence")}
    return {pattern: rest | {kind: (pattern,)} for kind, pattern in scores}


_COLOURS = {1: plots.CORRECT, -1: plots.WRONG, 0: "0.5"}


def draw(name: str, numbers: dict) -> Figure:
    """Draw "forest" (differences of pairs) or "reliability"."""
    with html.style():
        if name == "reliability":
            fig, ax = plt.subplots(figsize=(6.4, 4.4))
            plots.plot_reliability_lines(numbers["reliability"], ax)
            if positive := numbers["positive"]:
                ax.set(xlabel=f"Probability of “{positive}”", ylabel="Share − probability")
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
        ax.set_yticks(range(len(pairs)), [pair_name(p) for p in pairs])
        ax.grid(axis="y", visible=False)
        ax.locator_params(axis="x", nbins=5)
    return fig
