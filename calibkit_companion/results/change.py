"""Measure how a number changes in training, between the first and the last epochs of a period.

A change since the best epoch would be biased: the best of many noisy epochs is partly lucky, so
that a number seems to fall afterwards. Choosing the best epoch by the other seeds does not help
enough. All seeds share the noise of one test set, so all are lucky at the same epoch
(``benchmarks/since_a_drop.py``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan, sqrt

import numpy as np

from calibkit import stats
from calibkit_companion.records.keys import column
from calibkit_companion.records.record import Record
from calibkit_companion.results.measure import Series
from calibkit_companion.results.number import Number

MOST = 5  # most evaluated epochs that a stretch at either end of the period has
# Periods that begin after a milestone of the protocol, even if averaging has another schedule.
_RATES = ("second_rate", "third_rate")


@dataclass(frozen=True)
class Change(Series):
    """The change of a number in training, by seed.

    Unlike in other series, `draws` hold no resamples. For each seed they hold the deviations of the
    j epochs of the first stretch and of the j epochs of the last stretch from the mean of the
    stretch (2j,).
    """

    @property
    def covers(self) -> str:
        """The runs alone: noise of the test set that all epochs of a stretch share is unknown."""
        return "runs" if self.seeds > 1 else ""

    def __sub__(self, other: Series | float) -> Series:
        if isinstance(other, Change) and self._size != other._size:  # their epochs cannot be paired
            return replace(self, draws={}) - replace(other, draws={})
        return super().__sub__(other)

    @property
    def _size(self) -> int:
        """How many epochs both stretches have together; 0 without `draws`."""
        return max(map(len, self.draws.values()), default=0)

    def mean(self) -> "MeanChange":
        """Average the change over the seeds that have one."""
        there = [seed for seed, value in self.values.items() if not isnan(value)]
        noise = [self.draws[seed] for seed in there] if self.draws else []
        return mean_change([self.values[seed] for seed in there], noise)


def since(records: Iterable[Record], number: Number) -> Series:
    """Compute the change of a number, by seed, over the period that `Number.since` names.

    The change is NaN for a run that lacks the number or has fewer than four evaluated epochs in the
    period.

    Parameters
    ----------
    records : the records of a method, one for each seed
    number : the number, with `since`
    """
    by_seed = {record.info["run"]["seed"]: record for record in records}
    n = next((int(record.history["n"][-1]) for record in by_seed.values()), 0)
    ends = {seed: _stretches(record, number) for seed, record in by_seed.items()}
    changes = {seed: float(np.diff(both.mean(axis=1))[0]) for seed, both in ends.items()}
    noise = {seed: (e - e.mean(axis=1, keepdims=True)).ravel() for seed, e in ends.items()}
    return Change(changes, noise if len({len(d) for d in noise.values()}) == 1 else {}, n)


def _stretches(record: Record, number: Number) -> np.ndarray:
    """Return the number at the first and the last epochs of its period (2, j); NaN if missing."""
    values, chosen = record.history.get(column(number.key)), epochs(record, number.since)
    if values is None or chosen is None:
        return np.full((2, 2), nan)
    return values[np.searchsorted(record.history["epoch"], chosen)]


def epochs(record: Record, since: str) -> np.ndarray | None:
    """Return the first j and the last j evaluated epochs of a period (2, j).

    None for a period with fewer than four evaluated epochs.

    Parameters
    ----------
    record : the record of a run
    since : the period, as in `Number.since`
    """
    epoch, protocol = record.history["epoch"], record.info["run"]["protocol"]
    milestones = *protocol.get("milestones", ()), inf, inf
    begins = {"settled": 0.1 * epoch[-1], **dict(zip(_RATES, milestones, strict=False))}
    within = epoch[epoch > begins[since]]
    j = min(MOST, len(within) // 2)
    return None if j < 2 else np.stack([within[:j], within[-j:]]).astype(int)


def mean_change(values: Sequence[float], deviations: Sequence[np.ndarray]) -> "MeanChange":
    r"""Average a change between two stretches of j epochs over seeds, with its uncertainty.

    Runs that are tested on the same images can be lucky at the same epoch. An analysis of variance
    (seeds by epochs) separates this shared noise from the noise of each run:

    .. math::
        \mathrm{shared} = \max\big(\mathrm{MS}_\text{mean} - \mathrm{MS}_\text{rest} / k,\ 0\big),
        \qquad \mathrm{variance} = S^2 / k + \tfrac 2j \mathrm{shared}

    Here k is the number of runs and S² the variance of their changes. MS_mean is the mean square of
    the curve averaged over runs, about the means of its two stretches, with 2 (j - 1) degrees of
    freedom. MS_rest is the mean square of what remains of the curves of the runs. The interval is
    estimate ± t √variance, with degrees of freedom by Satterthwaite's rule. Noise of the test
    images that all epochs of a stretch share is not covered.

    Parameters
    ----------
    values : sequence of float (k,)
        The change of each run.
    deviations : sequence of arrays (2j,)
        `Change.draws` of each run; if empty, only the variance between runs counts.

    Examples
    --------
    >>> alone = mean_change([1.0, 2.0, 3.0], [])
    >>> shaken = mean_change([1.0, 2.0, 3.0], [np.array([-1.0, 1.0, -1.0, 1.0])] * 3)
    >>> round(alone.variance, 3), round(shaken.variance, 3)
    (0.333, 2.333)
    """
    runs = len(values)
    estimate = float(np.mean(values)) if runs else nan
    if runs < 2:
        return MeanChange(estimate, nan, 0.0, runs)
    own, shared = float(np.var(values, ddof=1)) / runs, 0.0
    uncertain = own**2 / (runs - 1)  # each variance squared, over its freedom
    if len(deviations):
        noise = np.asarray(deviations, float)
        stretch = noise.shape[1] // 2
        freedom = 2 * (stretch - 1)
        of_mean = float((noise.mean(axis=0) ** 2).sum()) / freedom
        rest = float(((noise - noise.mean(axis=0)) ** 2).sum()) / (freedom * (runs - 1) * runs)
        shared = 2 / stretch * max(of_mean - rest, 0.0)
        if shared:
            parts = of_mean**2 / freedom + rest**2 / (freedom * (runs - 1))
            uncertain += (2 / stretch) ** 2 * parts
    variance = own + shared
    return MeanChange(estimate, variance, variance**2 / uncertain if uncertain else inf, runs)


@dataclass(frozen=True)
class MeanChange:
    """The mean of a change over runs, with its variance and degrees of freedom (`mean_change`)."""

    estimate: float
    variance: float
    freedom: float
    seeds: int

    def interval(self, level: float = 0.95) -> stats.Interval:
        """Return the interval mean ± t √variance at a level; its ends are NaN for a single run."""
        from scipy.special import stdtrit  # loaded late: it takes a while to import

        if self.seeds < 2:
            return stats.Interval(self.estimate, nan, nan)
        half = float(stdtrit(min(self.freedom, 1e6), (1 + level) / 2)) * sqrt(self.variance)
        return stats.Interval(self.estimate, self.estimate - half, self.estimate + half)
