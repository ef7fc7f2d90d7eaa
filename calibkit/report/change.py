"""The same model on other samples: has its calibration changed beyond chance, and where?

Calibration is whether the outcome follows the score: of all answers given 80 %, how many are right.
A change in the mix of samples changes accuracy and mean confidence together; it is no drift here.
So samples are compared at equal scores: in bins of the score, is what was observed less what was
claimed the same as before? Under no drift each bin's difference has mean 0 and the variance of a
permutation of the pooled samples; the squares of the standardised differences add up to chi².
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

LEVEL = 0.05
BINS = 10  # at most
EVENTS = 10  # expected variance of a bin in the smaller set: enough for a normal approximation


@dataclass(frozen=True)
class Difference(Facts):
    """What was observed less what was claimed, of samples before and now.

    Attributes
    ----------
    name : str
        Of a bin of scores, a group or an answer.
    samples : tuple of two int
        Old and new.
    old, new : float
        Mean outcome less score.
    change : Interval
        New less old, at 95 %.
    z : float or None
        The change in standard errors without drift; None if it cannot be told.
    stands_out : bool
        Whether it is beyond chance, allowing for the number of places.
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
    """What has changed in a set of samples since the first.

    Attributes
    ----------
    part : str
        Name of the set.
    p : float
        Of the test for drift, corrected for the number of sets.
    drifted : bool
    change : Interval
        Of what was observed less what was claimed.
    bins, predicted, groups : list of Difference
        By bins of the score, by answers and by groups.
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
    """A set of samples: mean score, share observed, and the first less the second."""

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
        What is claimed: the confidence, or the probability of a class.
    parts : list of Observed
    changes : list of Change
        Of each set but the first.
    drifted : int
        How many have.
    p : float
        The smallest.
    notes : list of str
    calibkit : str
        Version.
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
        """The clearest change."""
        return min(self.changes, key=lambda change: change.p)


@dataclass(frozen=True, eq=False)
class _Set:
    """Scores (n,) of a set, and whether what they are about is so."""

    data: Predictions
    scores: Array
    hit: Array

    @property
    def residuals(self) -> Array:
        return self.hit - self.scores


def compare(parts: Sequence[Predictions]) -> Drift:
    """Compare every part with the first.

    Parameters
    ----------
    parts : sequence of Predictions
        Of one model, the oldest first.

    Returns
    -------
    Drift

    Raises
    ------
    ValueError
        Fewer than two parts, other classes, or fewer than `LEAST` samples in a part.
    """
    _check(parts)
    first, event = parts[0], None
    if first.logits.shape[1] == 2:  # the rarer
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
            raise ValueError(f"{part.name}: got other classes than {parts[0].name}")
        if (n := len(part.labels)) < LEAST:
            raise ValueError(f"{part.name}: got {n} samples, expected at least {LEAST}")


def _observed(its: _Set) -> Observed:
    design = its.data.design
    return Observed(
        name=its.data.name,
        samples=len(its.scores),
        claimed=design.average(its.scores),
        observed=design.share(its.hit),
        gap=estimates.gap(its.scores, its.hit, design=design),
    )


def _change(was: _Set, now: _Set, sets: int) -> Change:
    """What has changed since the first of so many other sets."""
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
    """The bin of each score, before and now, and the bins' names."""
    edges = bin_edges(np.concatenate([was, now]), min(len(was), len(now)))
    ends = [0.0, *edges.tolist(), 1.0]
    names = [f"{a:.2g} to {b:.2g}" for a, b in zip(ends[:-1], ends[1:], strict=True)]
    return [np.searchsorted(edges, scores) for scores in (was, now)], names


def _groups(was: Predictions, now: Predictions) -> tuple[list[Array], list[str]]:
    """The group of each sample, before and now, and the names of those that are in both."""
    if was.groups is None or now.groups is None:
        return [np.full(len(data.labels), -1) for data in (was, now)], []
    columns = [data.groups.reshape(len(data.labels), -1)[:, 0] for data in (was, now)]
    names = np.intersect1d(*columns)
    place = [np.where(np.isin(c, names), np.searchsorted(names, c), -1) for c in columns]
    return place, names.tolist()


def _p_value(overall: Difference, bins: Sequence[Difference], clustered: bool) -> float:
    """The smaller p-value of two tests: of all samples together, and of the bins."""
    z = np.array([row.z for row in bins if row.z is not None])
    of_all = float(2 * norm.sf(abs(overall.z or 0.0)))
    if not len(z):
        return min(1.0, of_all)
    of_bins = float(chi2.sf((z**2).sum(), len(z)))
    if clustered:  # bins vary together
        of_bins = min(1.0, len(z) * float(2 * norm.sf(np.abs(z).max())))
    return min(of_bins, of_all)


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
) -> list[Difference]:
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
    list of Difference
        Of the places that have at least two samples before and now.

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
        old, new = (r[own] for r, own in zip(residuals, some, strict=True))
        drawn = [design[own] for design, own in zip(designs, some, strict=True)]
        if min(len(old), len(new)) < 2 or any(_no_weight(design) for design in drawn):
            continue
        rows.append(_difference(str(name), old, new, drawn))
    limit = norm.isf(level / max(len(rows), 1) / 2)
    return [
        replace(row, stands_out=abs(row.z or 0) > limit and min(row.samples) >= FEW) for row in rows
    ]


def _no_weight(design: Design) -> bool:
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
        stands_out=False,  # told for all places together
    )


def _means(old: Array, new: Array, designs: Sequence[Design]) -> tuple[float, float, float, float]:
    """Both means, the standard error of their difference and half its interval."""
    if all(design.plain for design in designs):
        pooled = np.concatenate([old, new])
        error = math.sqrt(pooled.var(ddof=1) * (1 / len(old) + 1 / len(new)))
        half = 1.96 * math.sqrt(old.var(ddof=1) / len(old) + new.var(ddof=1) / len(new))
        return float(old.mean()), float(new.mean()), error, half
    both = [design.mean(r) for design, r in zip(designs, (old, new), strict=True)]
    half = math.hypot(*(interval.high - interval.estimate for interval in both))
    return both[0].estimate, both[1].estimate, half / 1.96, half
