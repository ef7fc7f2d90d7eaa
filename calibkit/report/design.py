"""How samples were drawn: with which weights, and in which groups of samples that are alike.

Estimates count every row by its weight. Intervals also ask how much the rows say: rows of one group
say less than as many from different ones, and a few heavy rows vary as a few rows do.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from calibkit import stats
from calibkit.arrays import Array
from calibkit.resampling import effective_size
from calibkit.stats import Interval


@dataclass(frozen=True, eq=False)
class Design:
    """What is known about how n samples were drawn.

    Attributes
    ----------
    n : int
        Rows.
    weights : array (n,), or None
        As from `resampling.as_counts`; None: all count the same.
    clusters : array (n,) of int, or None
        The group of each row, from 0; None: every row is on its own.
    """

    n: int
    weights: Array | None = None
    clusters: Array | None = None

    def __getitem__(self, rows: Array) -> "Design":
        """The same for some rows, given as booleans (n,) or indices."""
        some = np.arange(self.n)[rows]
        clusters = self.clusters
        if clusters is not None:
            clusters = np.unique(clusters[some], return_inverse=True)[1]
        weights = None if self.weights is None else self.weights[some]
        return Design(len(some), weights, clusters)

    @property
    def plain(self) -> bool:
        """Whether rows are independent and count the same."""
        return self.weights is None and self.clusters is None

    @property
    def units(self) -> int:
        """How many independent draws there were: clusters, or else rows."""
        return self.n if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    @property
    def size(self) -> float:
        """How many samples to count on in a rule: clusters, or what the rows are worth."""
        return float(self.units) if self.clusters is not None else self.worth()

    def worth(self, residual: Array | None = None) -> float:
        """As `resampling.effective_size`, of a mean of `residual` where rows are in clusters."""
        if self.weights is None and self.clusters is None:
            return float(self.n)
        residual = np.ones(self.n) if residual is None else residual
        return effective_size(self.weights, self.clusters, residual)

    def average(self, values: Array) -> float:
        """Weighted mean of values (n,)."""
        if self.weights is None:
            return float(np.mean(values, dtype=np.float64))
        some = self.weights > 0  # 0 times infinity would be no number
        return float(self.weights[some] @ values[some] / self.weights.sum())

    def mean(self, values: Array, level: float = 0.95) -> Interval:
        """Mean of values (n,) with a t interval, over clusters if there are any.

        >>> Design(4, clusters=np.array([0, 0, 1, 1])).mean(np.array([1.0, 1.0, 0.0, 0.0]))[0]
        0.5
        """
        if self.plain:
            return stats.seed_interval(values, level)
        estimate = self.average(values)
        half = self._t(level) * math.sqrt(self._variance(values, estimate))
        return Interval(estimate, estimate - half, estimate + half)

    def share(self, hit: Array, among: Array | None = None, level: float = 0.95) -> Interval:
        """The share of rows that are so, among some of them, with Wilson's interval.

        With weights or clusters it is that of as many independent samples as have the same variance
        (Korn and Graubard 1998), at most as many as have the same weights.

        >>> hit = np.array([True, True, False, False])
        >>> Design(4).share(hit).format(100, unit=" %")
        '50 % [15, 85]'
        >>> Design(4, weights=np.array([3.0, 1.0, 2.0, 2.0])).share(hit).estimate
        0.5
        """
        if among is not None:
            return self[among].share(hit[among], level=level)
        if self.plain:
            return stats.wilson(hit.sum(), len(hit), level)
        if not self.n or (self.weights is not None and not self.weights.any()):
            return stats.wilson(0, 0, level)
        share = self.average(hit.astype(np.float64))
        kish = self.n if self.weights is None else effective_size(self.weights)
        size, variance = kish, self._variance(hit.astype(np.float64), share)
        if self.clusters is not None:
            size = min(share * (1 - share) / variance, kish) if variance > 0 else self.units
            size *= (NormalDist().inv_cdf((1 + level) / 2) / self._t(level)) ** 2
        found = stats.wilson(share * size, max(size, 1e-9), level)
        return found._replace(estimate=share)

    def _t(self, level: float) -> float:
        from scipy.special import stdtrit  # without the second that scipy.stats takes

        size = self.units if self.clusters is not None else self.worth()
        return float(stdtrit(size - 1, (1 + level) / 2)) if size > 1 else math.inf

    def _variance(self, values: Array, mean: float) -> float:
        """Of the weighted mean: what each unit adds to it, as a ratio of two sums."""
        weights = np.ones(self.n) if self.weights is None else self.weights
        parts, units = weights * (values - mean), self.n
        if self.clusters is not None:
            parts, units = np.bincount(self.clusters, parts), self.units
        if units < 2:
            return math.inf
        return float((parts @ parts) / weights.sum() ** 2 * units / (units - 1))
