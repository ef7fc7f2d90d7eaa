"""Bins of the confidence, cut from a ranking."""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from calibkit.arrays import Array
from calibkit.metrics.ranking import Ranking

Scheme: TypeAlias = Literal["equal_width", "equal_mass"]


class Bins(NamedTuple):
    """For each bin: weight of its samples, weight of the right ones, and sum of confidences."""

    count: Array
    right: Array
    confidence: Array


_Value = TypeVar("_Value")
_Value_co = TypeVar("_Value_co", covariant=True)


class OfRanking(Protocol[_Value_co]):
    """The type of a function of a ranking, a number of bins and a scheme of binning."""

    def __call__(self, ranking: Ranking, bins: int, scheme: Scheme = "equal_width") -> _Value_co:
        """Return the value, which is computed only once for each ranking."""
        ...


@functools.lru_cache(maxsize=8)
def edges_of(bins: int, dtype: np.dtype[Any]) -> Array:
    """Edges (bins + 1,) of bins of equal width on [0, 1], in the type of the confidences."""
    # Edges have the type of the data, so that a float32 0.2 equals the edge 0.2.
    return np.linspace(0, 1, bins + 1).astype(dtype)


def once(function: Callable[[Ranking, int, Scheme], _Value]) -> OfRanking[_Value]:
    """Make a function keep its value for each ranking, since several metrics need the same bins."""

    @functools.wraps(function)
    def known(ranking: Ranking, bins: int, scheme: Scheme = "equal_width") -> _Value:
        key = function.__name__, bins, scheme
        if key not in ranking.known:
            ranking.known[key] = function(ranking, bins, scheme)
        return ranking.known[key]

    return known


@once
def cuts_of(ranking: Ranking, bins: int, scheme: Scheme) -> Array:
    """Indices into the ranking at which bins begin and end (bins + 1,), highest bin first."""
    if scheme == "equal_width":  # (lo, hi], and 0 belongs to the lowest
        inner = edges_of(bins, ranking.dtype)[1:-1]
        upto = np.searchsorted(ranking.confidence[::-1], inner, side="right")
    elif scheme == "equal_mass":  # by how many samples lie strictly below: ties stay together
        below = (ranking.n - ranking.accepted)[::-1]
        upto = np.searchsorted(below * bins, (np.arange(1, bins) - ranking.near) * ranking.n)
    else:
        raise ValueError(f"scheme: got {scheme!r}, expected 'equal_width' or 'equal_mass'")
    groups = len(ranking.confidence)
    return np.r_[0, groups - upto[::-1], groups]


@once
def binned(ranking: Ranking, bins: int, scheme: Scheme) -> Bins:
    """Bin a ranking; the lowest bin comes first."""
    cut = cuts_of(ranking, bins, scheme)
    if ranking.whole:
        count = np.diff(np.r_[0, ranking.accepted][cut])
        right = np.diff(np.r_[0, ranking.accepted_right][cut])
    else:  # differences of sums would be off where a bin has little weight
        count, right = (stretches(x, cut) for x in (ranking.count, ranking.right))
    confidence = stretches(ranking.count * ranking.confidence, cut)
    return Bins(count[::-1], right[::-1], confidence[::-1])


def binned_samples(confidence: Array, correct: Array, bins: int) -> Bins:
    """Bin by equal width as `binned`, but faster, for when nothing else needs the ranking."""
    inner = edges_of(bins, confidence.dtype)[1:-1]
    every, wrong = np.sort(confidence), np.sort(confidence[~correct])
    cut, cut_wrong = (
        np.concatenate([[0], np.searchsorted(x, inner, side="right"), [len(x)]])
        for x in (every, wrong)
    )
    count = np.diff(cut)
    return Bins(count, count - np.diff(cut_wrong), stretches(every.astype(np.float64), cut))


def stretches(values: Array, cut: Array) -> Array:
    """Sums of `values` (g,) between neighbouring indices in `cut`; 0 between equal indices."""
    sums, filled = np.zeros(len(cut) - 1), cut[:-1] < cut[1:]
    sums[filled] = np.add.reduceat(values, cut[:-1][filled])
    return sums
