"""Find the temperature of lowest NLL, and the temperature of lowest ECE on a grid."""

from bisect import bisect_left
from collections.abc import Callable
from functools import cache, cached_property
from math import exp, inf, log
from typing import Any, Literal, TypeAlias

import numpy as np

from calibkit.arrays import Array, are_log_probs, blocks, check_bins

# The grid of Wang et al. 2021 and of the code of Lin et al. 2025, whose text has
# np.arange(1, 101) / 10.
GRID = np.arange(1, 1001) / 100
# Where a temperature is sought that minimises the NLL: so many times the size of the scores.
RANGE = (1e-3, 1e3)
MANY = 4_000_000  # numbers (samples × classes) from which on a search starts on a part of them

Objective: TypeAlias = Literal["nll", "ece"]


class Scaled:
    """Computes NLL and ECE of softmax(logits / T) for any T, each in one pass over the logits.

    It keeps the logits minus the largest of their row, in blocks (k, rows) that fit into the
    processor's cache.
    """

    def __init__(
        self,
        logits: Array,
        labels: Array,
        dtype: Any = np.float64,
        bins: int = 15,
        weights: Array | None = None,
    ):
        check_bins(bins)
        self.logits: Array = logits
        self.labels: Array = labels
        self.bins: int = bins
        self.weights: Array | None = weights
        self.inner: Array = np.linspace(0, 1, bins + 1).astype(dtype)[1:-1]
        n, k = logits.shape
        self.n: float = n if weights is None else float(weights.sum())
        self.blocks: list[Array] = []
        self.sums: list[Callable[[Array], float]] = []  # add up a number for each row of a block
        for rows in blocks(n, k):
            block = np.ascontiguousarray(logits[rows].T, dtype=dtype)
            block -= block.max(axis=0)
            self.blocks.append(block)
            self.sums.append(np.sum if weights is None else weights[rows].dot)
        true = logits[np.arange(n), labels].astype(np.float64) - logits.max(axis=1)
        self.true: float = float(true.sum() if weights is None else weights @ true)

    @cached_property
    def correct(self) -> Array:
        """Whether the prediction of each sample is right."""
        return self.logits.argmax(axis=1) == self.labels  # at any temperature

    def ece(self, temperature: float) -> tuple[float, float]:
        """The ECE at a temperature, and mean confidence minus accuracy (fractions of 1)."""
        confidence = np.concatenate(
            [1 / np.exp(block / float(temperature)).sum(axis=0) for block in self.blocks]
        )
        index = np.searchsorted(self.inner, confidence)
        gaps = confidence - self.correct
        gaps = gaps if self.weights is None else gaps * self.weights
        gaps = np.bincount(index, gaps, minlength=self.bins) / self.n
        return float(np.abs(gaps).sum()), float(gaps.sum())

    def nll(self, temperature: float) -> tuple[float, float, float]:
        """The mean NLL at a temperature in nats, and its first and second derivative in 1/T."""
        value = slope = curvature = 0.0
        room = np.empty_like(self.blocks[0])
        for block, add in zip(self.blocks, self.sums, strict=True):
            weight = room.ravel()[: block.size].reshape(block.shape)
            np.divide(block, float(temperature), out=weight)
            total = np.exp(weight, out=weight).sum(axis=0)
            first = np.multiply(weight, block, out=weight).sum(axis=0) / total
            second = np.multiply(weight, block, out=weight).sum(axis=0) / total
            value += add(np.log(total))
            slope += add(first)
            curvature += add(second - first**2)
        sums = value - self.true / temperature, slope - self.true, curvature
        return tuple(float(x / self.n) for x in sums)


def best_temperature(
    logits: Array,
    labels: Array,
    objective: Objective,
    bins: int = 15,
    weights: Array | None = None,
) -> tuple[Scaled, float]:
    """Find the temperature of lowest NLL or ECE; also return the `Scaled` that computes both."""
    if objective not in ("ece", "nll"):
        raise ValueError(f"objective: got {objective!r}, expected 'nll' or 'ece'")
    if objective == "ece":
        scaled = Scaled(logits, labels, logits.dtype, bins, weights)
        return scaled, _lowest_ece(scaled.ece)
    scaled = Scaled(logits, labels, bins=bins, weights=weights)
    return scaled, _lowest_nll(scaled)


def lowest_nll(logits: Array, labels: Array, weights: Array | None = None) -> float:
    """The temperature of lowest NLL."""
    return best_temperature(logits, labels, "nll", weights=weights)[1]


def own_temperature(logits: Array, labels: Array, weights: Array | None = None) -> float:
    """The temperature that maps divide logits by before their fit: of lowest NLL; 1 for probs."""
    return 1.0 if are_log_probs(logits) else lowest_nll(logits, labels, weights)


def _lowest_ece(ece: Callable[[float], tuple[float, float]]) -> float:
    """Best temperature of `GRID`; see `optimal_temperature` for why."""
    ece = cache(ece)
    start = bisect_left(GRID, 0.0, key=lambda temperature: -ece(temperature)[1])
    best = (inf, inf)
    for side in (GRID[start:], GRID[:start][::-1]):
        for temperature in side:
            value, gap = ece(temperature)
            best = min(best, (value, float(temperature)))
            if abs(gap) > best[0] + 1e-6:  # room for rounding in float32
                break
    return best[1]


def _lowest_nll(scaled: Scaled) -> float:
    """Temperature of lowest NLL in `range_of`."""
    ends = range_of(scaled.logits, scaled.weights)
    step = scaled.logits.size // MANY * 4
    start = min(max(1.0, ends[0] * 10), ends[1] / 10)
    if step > 1:
        start = _root(Scaled(scaled.logits[::step], scaled.labels[::step]).nll, ends, start)
    return _root(scaled.nll, ends, start)


def range_of(logits: Array, weights: Array | None = None) -> tuple[float, float]:
    """The range of temperatures to search: `RANGE` times the size of the scores.

    This size is the median distance between the two largest logits of a row, over up to about a
    thousand rows. Rows in which these are equal do not count.
    """
    size = _size(logits, weights)
    return RANGE[0] * size, RANGE[1] * size


def _size(logits: Array, weights: Array | None = None) -> float:
    rows = slice(None, None, len(logits) // 1000 + 1)
    second, first = np.partition(logits[rows].astype(np.float64), -2, axis=1)[:, -2:].T
    known = first > second
    if not known.any():
        return 1.0
    weights = None if weights is None else weights[rows][known]
    return float(quantiles((first - second)[known], np.array(0.5), weights))


def unit_of(logits: Array, weights: Array | None = None) -> float:
    """A number to divide scores by, so that an optimiser can handle them; 1 for usual scores."""
    return 1.0 if 1e-2 < (size := _size(logits, weights)) < 1e2 else size


def _root(
    nll: Callable[[float], tuple[float, float, float]], ends: tuple[float, float], start: float
) -> float:
    """Temperature between `ends` where the slope of the NLL in 1/T is 0: Newton's method in log T.

    The slope falls with T. A step that leaves the bracket, or shrinks it by less than half,
    becomes a bisection.
    """
    (low, high), x, last = np.log(ends), log(start), inf
    lowest, highest = low, high
    while True:
        _, slope, curvature = nll(exp(x))
        if slope == 0 and last == inf:  # nothing to gain: equal logits, or all right and saturated
            return exp(x)
        low, high = (x, high) if slope > 0 else (low, x)
        if low == highest or high == lowest:  # still falling at an end of the range
            return ends[int(low == highest)]
        step = slope * exp(x) / curvature if curvature > 0 else inf if slope > 0 else -inf
        new = x + step
        if abs(step) < 1e-6:  # the error that is left is of the order of its square
            return exp(min(max(new, low), high))
        if not low < new < high:
            end = high if step > 0 else low
            new = end if end in (lowest, highest) else (low + high) / 2
        elif abs(step) > last / 2:
            new = (low + high) / 2
        if new == x or high - low < 1e-12:
            return exp(x)
        x, last = new, abs(new - x)


def quantiles(values: Array, shares: Array, weights: Array | None) -> Array:
    """Quantiles, linear between values; a whole-number weight is that many equal values.

    >>> quantiles(np.array([1.0, 4.0]), np.array([0.5, 0.75]), np.array([3.0, 1.0])).tolist()
    [1.0, 1.75]
    """
    if weights is None:
        return np.quantile(values, shares)
    order = np.argsort(values)
    end = np.cumsum(weights[order])
    start = end - weights[order]
    places = np.stack([start, np.maximum(start, end - 1)], axis=1).ravel()
    return np.interp(shares * places[-1], places, np.repeat(values[order], 2))
