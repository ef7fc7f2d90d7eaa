"""The command ``calibkit compare``: compare several models, write an HTML page and JSON."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from calibkit import many_rows, plots, terms
from calibkit.report import drift, html, matching, predictions, privacy, readers, sampling
from calibkit.report import positive as classes
from calibkit.report.compared_words import better, compared_tables, label, pair_name
from calibkit.report.compared_words import compared as in_words
from calibkit.report.model import Predictions, inputs_of
from calibkit.report.names import File, Say
from calibkit.report.paired import Comparison, clusters_of, compared, scored, weights_of
from calibkit.report.readers.asked import Columns

Noted: TypeAlias = tuple[list[Predictions], list[str]]  # models, and notes on them


def build(
    paths: Sequence[File | Predictions],
    out: File = "compare",
    labels: File | None = None,
    unpaired: bool = False,
    *,
    ids: str | None = None,
    positive: str | None = None,
    cluster: str | None = None,
    rows: bool = True,
    told: Say | None = None,
    **reading: Any,
) -> Path:
    """Compare the models of several prediction files; write ``compare.html`` and ``compare.json``.

    Several files usually hold the predictions of several models for the same samples. With
    `unpaired`, they hold those of one model for different samples, and every file is compared with
    the first: see `calibkit.report.drift`. So is a single table with a column ``date``, which is
    cut into periods.

    Parameters
    ----------
    paths : sequence of path or Predictions
        At least two files; or one table with a column ``date`` or with several models. Rows are
        matched by a column that names them in all files: see `calibkit.report.matching`.
    out : path
        Folder to write to; created if missing.
    labels : path, optional
        A file that holds only the labels.
    unpaired : bool
        Whether the files hold different samples, the oldest file first.
    ids : str, optional
        The column that names the rows; by default it is looked for.
    positive : str, optional
        With two classes, the name of the class whose probability is compared; by default it is
        guessed.
    cluster : str, optional
        A column or array, such as ``patient``. Samples with the same value depend on each other,
        and intervals allow for it.
    rows : bool
        False leaves out all numbers that belong to a single row: see `calibkit.report.privacy`.
    told : function of str, optional
        Called with the text of ``compare.json`` when both files are written.
    **reading
        ``tokens``, ``columns``, ``minus_one``, ``as_is``, ``one_label``: as in `predictions.read`.
        Several patterns of probs or logits make several models of a single file:
        ``columns=["probs=p*", "probs=cal_p*"]``.

    Returns
    -------
    Path
        Path of the HTML page.

    Raises
    ------
    ValueError
        A file cannot be read, or the samples are not the same. The message has one line.
    """
    alone = len(paths) == 1 and not isinstance(paths[0], Predictions)
    several = models_of(reading.get("columns", ())) if alone else {}
    if unpaired or (alone and not several):
        reading["cluster"] = cluster
        given = {"ids": ids, "positive": positive}
        if asked := [name for name, value in given.items() if value is not None]:
            raise ValueError(
                f"{asked[0]}: only for models on the same samples, got different samples: leave it "
                "out"
            )
        models = drift.by_date(paths[0], **reading) if alone else _read(paths, labels, **reading)
        inputs = inputs_of(*models)
        return drift.write(drift.compare(models), Path(out), rows, inputs, told)
    reading |= {"ids": ids or "", "cluster": cluster}
    if several:
        found = [_read(paths, labels, **reading | {"columns": x})[0] for x in several.values()]
        models = [replace(x, name=name, ids=None) for x, name in zip(found, several, strict=True)]
        matches = matching.Matched(models, None, [])  # rows of one table need no matching
    else:
        matches = matching.matched(_read(paths, labels, **reading), ids)
    inputs, by, said = inputs_of(*matches.models), matches.by, matches.notes
    models, notes = _about(matches.models, positive)
    models, more = _drawn(models)
    del matches  # with the logits
    numbers = compared(scored(models), notes=[*said, *notes, *more], matched_by=by)
    numbers = numbers if rows else privacy.without_rows_of_models(numbers)
    words = in_words(numbers)
    title = f"{len(numbers.models)} models"
    return html.publish(
        Path(out),
        "compare",
        numbers,
        {"verdicts": [{"title": title, "verdict": words}], "inputs": inputs, "rows": rows},
        told=told,
        verdict=words,
        rows=rows,
        fewest=privacy.FEWEST,
        many=many_rows.MANY,
        tables={name: html.table(frame) for name, frame in compared_tables(numbers).items()},
        pictures={name: html.picture(draw(name, numbers)) for name in ("forest", "reliability")},
    )


def _read(paths: Sequence, labels: File | None, **reading: Any) -> list[Predictions]:
    return [
        x if isinstance(x, Predictions) else predictions.read(x, labels, **reading) for x in paths
    ]


def _about(models: Sequence[Predictions], positive: str | None) -> Noted:
    """Set the positive class of the first model if there are two classes, with a note if guessed.

    The probability of this class is compared. `positive` is the name that the caller gave.
    """
    first, *others = models
    if positive is not None:
        return [first.about(positive), *others], []
    if first.positive is not None or not all(m.kind.two for m in models):
        return list(models), []
    first = replace(first, positive=classes.guess(first))
    taken, other = (first.class_names[i] for i in (first.positive, 1 - first.positive))
    note = f"“{taken}” was taken to be the class of interest. If it is “{other}”, say --positive."
    return [first, *others], [note]


def _drawn(models: Sequence[Predictions]) -> Noted:
    """Give the first model the weights and clusters of all, and leave out rows of weight 0.

    The notes say how weights, clusters and repeated rows count.
    """
    weights, (clusters, name) = weights_of(models), clusters_of(models)
    first = replace(models[0], weights=weights, clusters=clusters, cluster_name=name)
    counted, _ = sampling.counted(replace(first, notes=(), val_weights=None, val_clusters=None))
    notes = counted.notes
    if weights is not None and not weights.all():
        models = [model.take(np.flatnonzero(weights)) for model in models]
    return [replace(counted, notes=first.notes), *models[1:]], list(notes)


def models_of(columns: Columns) -> dict[str, dict[str, Sequence[str]]]:
    """For each model in a single table, the columns to read; empty if the table has one model.

    A model is called by its pattern of scores.

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


def draw(name: str, numbers: Comparison) -> Figure:
    """Draw a picture: "forest" (the differences of all pairs) or "reliability" (curves)."""
    with html.style():
        if name == "reliability":
            fig, ax = plt.subplots(figsize=(6.4, 4.4))
            plots.plot_reliability_lines(numbers.reliability, ax)
            if positive := numbers.positive:
                ax.set(xlabel=f"Probability of “{positive}”", ylabel="Share − probability")
            return fig
        return _forest(numbers)


def _forest(numbers: Comparison) -> Figure:
    last = "aupr_success" if numbers.positive else "aurc"
    shown, pairs = ("excess_ece", "brier", "auroc", last), numbers.pairs
    height = 1.0 + 0.3 * len(pairs)
    fig, axes = plt.subplots(2, 2, figsize=(8.4, 2 * height + 0.6), sharey=True)
    for ax, name in zip(axes.flat, shown, strict=True):
        _, scale, higher, _ = terms.METRICS[name]
        ax.axvline(0, color="0.6", linewidth=1, linestyle="--")
        for y, pair in enumerate(pairs):
            estimate, low, high = (scale * x for x in pair.difference[name])
            colour = _COLOURS[better(name, pair.difference[name])]
            ax.plot([low, high], [y, y], color=colour, linewidth=2.2)
            ax.plot(estimate, y, "o", color=colour, markersize=6)
        side = "higher" if higher else "lower"
        unit = {100: ", points", 1000: " × 1000", 1: ""}[scale]
        words = f"{label(name, numbers)}{unit}\n({side} is better)"
        ax.set(xlabel=words, ylim=(len(pairs) - 0.5, -0.5))
        ax.set_yticks(range(len(pairs)), [pair_name(p) for p in pairs])
        ax.grid(axis="y", visible=False)
        ax.locator_params(axis="x", nbins=5)
    return fig
