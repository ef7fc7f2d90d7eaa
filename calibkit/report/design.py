"""How samples were drawn: the weight of each row, and the cluster of rows that it belongs to.

Weights enter every estimate. Intervals also depend on clusters: rows of the same cluster carry less
information than independent rows. And if few rows carry most of the weight, an interval is as wide
as that of few rows.
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
        Number of rows.
    weights : array (n,), or None
        How much each row counts, scaled by `resampling.as_counts`; None: all count the same.
    clusters : array (n,) of int, or None
        The cluster of each row, from 0; None: all rows are independent.
    """

    n: int
    weights: Array | None = None
    clusters: Array | None = None

    def __getitem__(self, rows: Array) -> "Design":
        """The design of some rows, given as booleans (n,) or indices."""
        some = np.arange(self.n)[rows]
        clusters = self.clusters
        if clusters is not None:
            clusters = np.unique(clusters[some], return_inverse=True)[1]
        weights = None if self.weights is None else self.weights[some]
        return Design(len(some), weights, clusters)

    @property
    def plain(self) -> bool:
        """Whether all rows are independent and count the same."""
        return self.weights is None and self.clusters is None

    @property
    def units(self) -> int:
        """Number of independent units: clusters if there are any, otherwise rows."""
        return self.n if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    @property
    def size(self) -> float:
        """Effective number of samples: clusters if there are any, otherwise the rows by weight."""
        return float(self.units) if self.clusters is not None else self.worth()

    def worth(self, residual: Array | None = None) -> float:
        """Number of independent rows of equal weight that would give a mean the same noise.

        With clusters, this depends on `residual` (n,), the values to average. See
        `resampling.effective_size`.
        """
        if self.weights is None and self.clusters is None:
            return float(self.n)
        residual = np.ones(self.n) if residual is None else residual
        return effective_size(self.weights, self.clusters, residual)

    def average(self, values: Array) -> float:
        """Weighted mean of values (n,)."""
        if self.weights is None:
            return float(np.mean(values, dtype=np.float64))
        some = self.weights > 0  # 0 times infinity would be NaN
        return float(self.weights[some] @ values[some] / self.weights.sum())

    def mean(self, values: Array, level: float = 0.95) -> Interval:
        """Weighted mean of values (n,) with a t interval, which counts clusters if there are any.

        >>> Design(4, clusters=np.array([0, 0, 1, 1])).mean(np.array([1.0, 1.0, 0.0, 0.0]))[0]
        0.5
        """
        if self.plain:
            return stats.seed_interval(values, level)
        estimate = self.average(values)
        half = self._t(level) * math.sqrt(self._variance(values, estimate))
        return Interval(estimate, estimate - half, estimate + half)

    def share(self, hit: Array, among: Array | None = None, level: float = 0.95) -> Interval:
        """Share of rows where `hit` (n,) is true, with Wilson's interval.

        With `among` (n,) of bool, only these rows count. With weights or clusters, the interval is
        that of the number of independent samples that would have the same variance (Korn and
        Graubard 1998); this number is at most the effective size by weight.

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
        """Quantile of Student's t for a two-sided interval; infinite for a single unit."""
        from scipy.special import stdtrit  # importing scipy.stats would take a second

        size = self.units if self.clusters is not None else self.worth()
        return float(stdtrit(size - 1, (1 + level) / 2)) if size > 1 else math.inf

    def _variance(self, values: Array, mean: float) -> float:
        """Variance of the weighted mean of values (n,), by linearising this ratio of two sums."""
        weights = np.ones(self.n) if self.weights is None else self.weights
        parts, units = weights * (values - mean), self.n
        if self.clusters is not None:
            parts, units = np.bincount(self.clusters, parts), self.units
        if units < 2:
            return math.inf
        return float((parts @ parts) / weights.sum() ** 2 * units / (units - 1))
