"""One model on several sets of samples: has its calibration changed beyond chance, and where?

Calibration means that the outcome follows the score: 80 % of the answers with a score of 0.8 are
right. If only the mix of samples changes, accuracy and mean confidence change together. This is no
drift. So samples are compared at equal scores: in each bin of the score, observed minus claimed is
compared before and now. Without drift, each difference has the mean 0 and the variance of a
permutation of the pooled samples, and the sum of the squared standardised differences follows chi².
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chi2, norm

from calibkit import __version__
from calibkit.arrays import Array
from calibkit.report import estimates
from calibkit.report.design import Design
from calibkit.report.estimates import FEW, LEAST
from calibkit.report.facts import Facts
from calibkit.report.names import after
from calibkit.report.predictions import Predictions
from calibkit.stats import Interval

LEVEL = 0.05  # of the test for drift
BINS = 10  # bins at most
EVENTS = 10  # least expected variance in a bin of the smaller set, for a normal approximation


@dataclass(frozen=True)
class Difference(Facts):
    """Observed minus claimed in one bin, group or answer, before and now; fractions of 1.

    Attributes
    ----------
    name : str
        Name of the bin of scores, the group or the answer.
    samples : tuple of two int
        Number of old and of new samples.
    old, new : float
        Mean of outcome (0 or 1) minus score.
    change : Interval
        `new` minus `old`, with a 95 % interval.
    z : float or None
        The change in standard errors as they are without drift; None if there is no such error.
    stands_out : bool
        Whether the change is beyond chance, corrected for the number of bins, groups or answers.
    """

    name: str
    samples: tuple[int, int]
    old: float
    new: float
    change: Interval
    z: float | None
    stands_out: bool


@dataclass(frozen=True)
class Change(Facts):
    """How the calibration in a set of samples differs from that in the first set.

    Attributes
    ----------
    part : str
        Name of the set.
    p : float
        p-value of the test for drift, corrected for the number of sets.
    drifted : bool
        Whether p is below 0.05.
    change : Interval
        The change of observed minus claimed over all samples, a fraction of 1.
    bins, predicted, groups : list of Difference
        The same by bins of the score, by the model's answers and by groups.
    """

    part: str
    p: float
    drifted: bool
    change: Interval
    bins: list[Difference]
    predicted: list[Difference]
    groups: list[Difference]


@dataclass(frozen=True)
class Observed(Facts):
    """A set of samples; shares are fractions of 1.

    Attributes
    ----------
    name : str
    samples : int
        Number of samples.
    claimed : float
        Mean score.
    observed : Interval
        Share of samples with the outcome that the score is about.
    gap : Interval
        `claimed` minus `observed`.
    """

    name: str
    samples: int
    claimed: float
    observed: Interval
    gap: Interval


@dataclass(frozen=True)
class Drift(Facts):
    """Sets of samples compared with the first.

    Attributes
    ----------
    score : str
        Name of the score: "confidence", or "P(NAME)" for the probability of a class.
    parts : list of Observed
        The sets, the oldest first.
    changes : list of Change
        One for each set but the first.
    drifted : int
        Number of sets that have drifted.
    p : float
        The smallest p-value of all sets.
    notes : list of str
        Sentences on how the files were read.
    calibkit : str
        Version of calibkit.
    """

    score: str
    parts: list[Observed]
    changes: list[Change]
    drifted: int
    p: float
    notes: list[str]
    calibkit: str

    @property
    def worst(self) -> Change:
        """The change with the smallest p-value."""
        return min(self.changes, key=lambda change: change.p)


@dataclass(frozen=True, eq=False)
class _Set:
    """Scores (n,) of a set, and whether the outcome that each score is about has occurred."""

    data: Predictions
    scores: Array
    hit: Array

    @property
    def residuals(self) -> Array:
        """Outcome (0 or 1) minus score, (n,)."""
        return self.hit - self.scores


def compare(parts: Sequence[Predictions]) -> Drift:
    """Compare the calibration in every set of samples with that in the first set.

    Parameters
    ----------
    parts : sequence of Predictions
        Predictions of one model for several sets of samples, the oldest set first.

    Returns
    -------
    Drift

    Raises
    ------
    ValueError
        There are fewer than two sets, their classes differ, or a set has fewer than `LEAST`
        samples.
    """
    _check(parts)
    first, event = parts[0], None
    if first.logits.shape[1] == 2:  # the rarer class
        event = int(2 * (first.labels == 1).sum() <= len(first.labels))
    sets = []
    for part in parts:
        scores, hit = part.test.scored(event)
        sets.append(_Set(part, scores.astype(np.float64), hit))
    changes = [_change(sets[0], now, len(sets) - 1) for now in sets[1:]]
    return Drift(
        score="confidence" if event is None else f"P({first.class_names[event]})",
        parts=[_observed(its) for its in sets],
        changes=changes,
        drifted=sum(change.drifted for change in changes),
        p=min(change.p for change in changes),
        notes=[after(f"{part.name}: ", note) for part in parts for note in part.notes],
        calibkit=__version__,
    )


def _check(parts: Sequence[Predictions]) -> None:
    if len(parts) < 2:
        raise ValueError(f"predictions: got {len(parts)} part, expected at least two to compare")
    for part in parts:
        if part.class_names != parts[0].class_names:
            raise ValueError(
                f"{part.name}: got other classes than {parts[0].name}, expected files of one model"
            )
        if (n := len(part.labels)) < LEAST:
            raise ValueError(f"{part.name}: got {n} samples, expected at least {LEAST}")


def _observed(its: _Set) -> Observed:
    design = its.data.design
    return Observed(
        name=its.data.name,
        samples=len(its.scores),
        claimed=design.average(its.scores),
        observed=design.share(its.hit),
        gap=estimates.gap(its.scores, its.hit, design),
    )


def _change(was: _Set, now: _Set, sets: int) -> Change:
    """Compare the set `now` with the first set `was`; `sets` counts the sets beside the first."""
    both, level = (was, now), LEVEL / sets
    residuals, designs = [its.residuals for its in both], [its.data.design for its in both]

    def among(places: Sequence[Array], names: Sequence[str]) -> list[Difference]:
        return differences(residuals, places, names, level, designs)

    bins = among(*_bins(was.scores, now.scores))
    (overall,) = among([np.zeros(len(its.scores), int) for its in both], ["all"])
    p = _p_value(overall, bins, clustered=any(x.clusters is not None for x in designs))
    p = min(1.0, 2 * sets * p)
    answers = [its.data.logits.argmax(axis=1) for its in both]
    return Change(
        part=now.data.name,
        p=p,
        drifted=p < LEVEL,
        change=overall.change,
        bins=bins,
        predicted=among(answers, was.data.class_names),
        groups=among(*_groups(was.data, now.data)),
    )


def _bins(was: Array, now: Array) -> tuple[list[Array], list[str]]:
    """The bins of the scores: the bin of each old and each new sample, and the bins' names."""
    edges = bin_edges(np.concatenate([was, now]), min(len(was), len(now)))
    ends = [0.0, *edges.tolist(), 1.0]
    names = [f"{a:.2g} to {b:.2g}" for a, b in zip(ends[:-1], ends[1:], strict=True)]
    return [np.searchsorted(edges, scores) for scores in (was, now)], names


def _groups(was: Predictions, now: Predictions) -> tuple[list[Array], list[str]]:
    """The groups that both sets have: the group of each old and new sample (-1: other), names."""
    if was.groups is None or now.groups is None:
        return [np.full(len(data.labels), -1) for data in (was, now)], []
    columns = [data.groups.reshape(len(data.labels), -1)[:, 0] for data in (was, now)]
    names = np.intersect1d(*columns)
    place = [np.where(np.isin(c, names), np.searchsorted(names, c), -1) for c in columns]
    return place, names.tolist()


def _p_value(overall: Difference, bins: Sequence[Difference], clustered: bool) -> float:
    """The smaller p-value of two tests: one on all samples together, one on the bins.

    With `clustered` the bins depend on each other, and the test on them uses the largest z.
    """
    z = np.array([row.z for row in bins if row.z is not None])
    of_all = float(2 * norm.sf(abs(overall.z or 0.0)))
    if not len(z):
        return min(1.0, of_all)
    of_bins = float(chi2.sf((z**2).sum(), len(z)))
    if clustered:
        of_bins = min(1.0, len(z) * float(2 * norm.sf(np.abs(z).max())))
    return min(of_bins, of_all)


def bin_edges(scores: Array, fewest: int) -> Array:
    """Edges between bins of equal expected variance.

    A score near 0 or 1 has a small variance. A bin with as many samples as the others would hardly
    have an event there.

    Parameters
    ----------
    scores : array (n,)
        Scores from 0 to 1 of the old and the new samples.
    fewest : int
        Number of samples in the smaller set.

    Returns
    -------
    array (b - 1,)
        Edges between b bins, ascending.

    Examples
    --------

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
) -> list[Difference]:
    """For each bin, group or answer, compare observed minus claimed before and now.

    Parameters
    ----------
    residuals : two arrays (n,) and (m,)
        Outcome (0 or 1) minus score, for the n old and the m new samples.
    places : two arrays (n,) and (m,) of int
        The bin, group or answer of each sample: an index into `names`, or -1 for none.
    names : sequence of str
        Names of the bins, groups or answers.
    level : float
        The chance that any of them stands out without drift.
    designs : two of design.Design, optional
        Weights and clusters of the old and of the new samples.

    Returns
    -------
    list of Difference
        One for each name that has at least two old and two new samples.

    Examples
    --------
    >>> old, new = np.tile([0.2, -0.2], 50), np.tile([0.1, -0.3], 50)
    >>> (row,) = differences([old, new], [np.zeros(100, int)] * 2, ["all"], 0.05)
    >>> round(row.change.estimate, 3), row.stands_out
    (-0.1, True)
    """
    designs = designs or [Design(len(r)) for r in residuals]
    rows = []
    for i, name in enumerate(names):
        some = [place == i for place in places]
        old, new = (values[rows] for values, rows in zip(residuals, some, strict=True))
        drawn = [design[rows] for design, rows in zip(designs, some, strict=True)]
        if min(len(old), len(new)) < 2 or any(_no_weight(design) for design in drawn):
            continue
        rows.append(_difference(str(name), old, new, drawn))
    limit = norm.isf(level / max(len(rows), 1) / 2)
    return [
        replace(row, stands_out=abs(row.z or 0) > limit and min(row.samples) >= FEW) for row in rows
    ]


def _no_weight(design: Design) -> bool:
    """Whether all samples have a weight of 0."""
    return design.weights is not None and not design.weights.any()


def _difference(name: str, old: Array, new: Array, designs: Sequence[Design]) -> Difference:
    was, now, error, half = _means(old, new, designs)
    change = now - was
    return Difference(
        name=name,
        samples=(len(old), len(new)),
        old=was,
        new=now,
        change=Interval(change, change - half, change + half),
        z=change / error if 0 < error < math.inf else None,
        stands_out=False,  # `differences` decides when it knows how many there are
    )


def _means(old: Array, new: Array, designs: Sequence[Design]) -> tuple[float, float, float, float]:
    """The old and the new mean, the standard error of the change, half the width of its interval.

    The standard error is that without drift; the interval allows for a drift.
    """
    if all(design.plain for design in designs):
        pooled = np.concatenate([old, new])
        error = math.sqrt(pooled.var(ddof=1) * (1 / len(old) + 1 / len(new)))
        half = 1.96 * math.sqrt(old.var(ddof=1) / len(old) + new.var(ddof=1) / len(new))
        return float(old.mean()), float(new.mean()), error, half
    both = [design.mean(r) for design, r in zip(designs, (old, new), strict=True)]
    half = math.hypot(*(interval.high - interval.estimate for interval in both))
    return both[0].estimate, both[1].estimate, half / 1.96, half
