"""Accuracy and confidence by groups of samples, by predicted class and by class."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from typing import TypeVar

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array, softmax
from calibkit.report import estimates
from calibkit.report.design import Design
from calibkit.report.facts import Facts
from calibkit.report.predictions import Predictions
from calibkit.stats import Interval

GROUPS = 50  # groups that are shown at most
SHOWN = 20  # classes that are shown at most: of more, those with the clearest gap


@dataclass(frozen=True)
class GroupRow(Facts):
    """Accuracy and confidence of a group; shares are fractions of 1.

    Attributes
    ----------
    group : str or number
        Name of the group.
    samples, errors : int
        Number of samples, and of wrong answers.
    accuracy : Interval
        With Wilson's interval.
    confidence : float
        Mean confidence.
    gap : Interval
        Mean confidence minus accuracy.
    stands_out : bool
        Whether the gap differs from 0 beyond chance, corrected for the number of groups.
    auroc : float
        How well confidence separates right from wrong answers; ``nan`` if undefined.
    coverage, risk : Interval
        Share of samples at or above the threshold, and share of errors among these.
    column : str or None
        The column of the group.
    """

    group: str | int | float
    samples: int
    errors: int
    accuracy: Interval
    confidence: float
    gap: Interval
    stands_out: bool
    auroc: float
    coverage: Interval
    risk: Interval
    column: str | None = None


@dataclass(frozen=True)
class ClassRow(Facts):
    """One class taken against all others: its mean probability beside its share of the labels.

    Attributes
    ----------
    group : str
        The name of the class.
    samples : int
        Number of samples of this class.
    share, mean : float
        Share of the labels that are this class, and its mean probability.
    gap : Interval
        `mean` minus `share`.
    stands_out : bool
        Whether the gap differs from 0 beyond chance, corrected for the number of classes.
    """

    group: str
    samples: int
    share: float
    mean: float
    gap: Interval
    stands_out: bool


Row = TypeVar("Row", GroupRow, ClassRow)


def by_group(
    groups: Array,
    confidence: Array,
    correct: Array,
    threshold: float | None,
    most: int = GROUPS,
    among: int = 0,
    rank: Array | None = None,
    design: Design | None = None,
) -> list[GroupRow]:
    """Measure accuracy, confidence and the effect of a threshold in each group, largest first.

    Parameters
    ----------
    groups : array (n,)
        Names or numbers.
    confidence, correct : arrays (n,)
    threshold : float or None
        The lowest confidence that is accepted; None: no sample is accepted.
    most : int
        Number of groups to return, at most.
    among : int
        Number of groups in all columns, for the correction of `stands_out`.
    rank : array (n,), optional
        The score by which samples are sorted for the AUROC, if not the confidence.
    design : Design, optional
        Weights and clusters of the samples.

    Returns
    -------
    list of GroupRow
        At most `most`.

    Examples
    --------
    >>> confidence, correct = np.array([0.9, 0.8, 0.6]), np.array([True, False, True])
    >>> rows = by_group(np.array(["day", "day", "night"]), confidence, correct, None)
    >>> [(row.group, row.samples, row.errors) for row in rows]
    [('day', 2, 1), ('night', 1, 0)]
    """
    names, place = np.unique(groups, return_inverse=True)
    count, design = np.bincount(place), design or Design(len(place))
    level = 1 - 0.05 / max(min(len(names), most), among)
    rank = confidence.astype(np.float64) if rank is None else rank
    rows = []
    by_place = np.split(np.argsort(place, kind="stable"), np.cumsum(count)[:-1])
    for i in np.argsort(-count, kind="stable")[:most]:
        own = by_place[i]
        some, right = confidence[own].astype(np.float64), correct[own]
        drawn = design[own]
        accepted = some >= (inf if threshold is None else threshold)
        auroc = nan
        if 0 < right.sum() < len(right):
            auroc = metrics.auroc(rank[own], right, sample_weight=drawn.weights)
        rows.append(
            GroupRow(
                group=names[i].item(),
                samples=int(count[i]),
                errors=int((~right).sum()),
                accuracy=drawn.share(right),
                confidence=drawn.average(some),
                gap=estimates.gap(some, right, drawn),
                stands_out=_stands_out(some, right, level, drawn),
                auroc=auroc,
                coverage=drawn.share(accepted),
                risk=drawn.share(~right, accepted),
            )
        )
    return rows


def _stands_out(confidence: Array, correct: Array, level: float, design: Design) -> bool:
    gap = estimates.gap(confidence, correct, design, level)
    return len(confidence) >= estimates.FEW and not gap.low <= 0 <= gap.high


def by_columns(data: Predictions, threshold: float | None) -> list[GroupRow]:
    """`by_group` for every column of groups; on the positive class, if there is one."""
    if data.groups is None:
        return []
    event = data.positive
    (scores, happened), rank = data.test.scored(event), data.test.ranked(event)
    threshold = threshold if event is None else 0.5
    columns = data.groups.reshape(len(data.groups), -1).T
    among = sum(len(np.unique(column)) for column in columns)
    rows = []
    for name, column in zip(data.group_names or ("group",) * len(columns), columns, strict=True):
        found = by_group(column, scores, happened, threshold, GROUPS, among, rank, data.test.design)
        for row in found:
            group = f"{name}: {row.group}" if len(columns) > 1 else row.group
            rows.append(replace(row, group=group, column=name))
    return rows


def by_answer(data: Predictions, threshold: float | None) -> list[GroupRow]:
    """`by_group` by predicted class; of very many classes, those with the clearest gap."""
    if not data.kind.known:
        return []
    test, k = data.test, data.logits.shape[1]
    confidence, correct = test.scored()
    answers, rank = test.outcomes.answer, test.ranked()
    rows = by_group(answers, confidence, correct, threshold, k, rank=rank, design=test.design)
    rows = rows if len(rows) <= GROUPS else _worst(rows)
    return [replace(row, group=data.class_names[row.group]) for row in rows]


def by_class(data: Predictions) -> list[ClassRow]:
    """Compare each class's mean probability with its share of the labels.

    Returns
    -------
    list of ClassRow
        At most `SHOWN` classes; of more, those with the clearest gap.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]] * 20, "labels": [0, 1] * 20}
    >>> [round(row.gap.estimate, 2) for row in by_class(from_arrays(scores))]
    [0.0, -0.35, 0.35]
    """
    k, design = data.logits.shape[1], data.test.design
    probs, count = softmax(data.logits), np.bincount(data.labels, minlength=k)
    rows = []
    for i, name in enumerate(data.class_names):
        p, true = probs[:, i], data.labels == i
        rows.append(
            ClassRow(
                group=name,
                samples=int(count[i]),
                share=design.average(true),
                mean=design.average(p),
                gap=estimates.gap(p, true, design),
                stands_out=_stands_out(p, true, 1 - 0.05 / k, design),
            )
        )
    return rows if k <= SHOWN else _worst(rows)


def _worst(rows: Sequence[Row]) -> list[Row]:
    """The rows with the clearest gap: the largest in half widths of its interval."""

    def evidence(row: Row) -> float:
        return abs(row.gap.estimate) / max(row.gap.high - row.gap.low, 1e-300)

    return sorted(rows, key=evidence, reverse=True)[:SHOWN]
