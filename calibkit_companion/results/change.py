"""A number's change through training, between two stretches of epochs that no run has chosen.

The best of many noisy epochs is lucky, so a fall since then is partly luck. Leaving out the seed
that is judged does not help enough: the choices depend on each other, and where the seeds share the
noise of one test set, all are lucky at the same epoch (``benchmarks/since_a_drop.py``).
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

MOST = 5  # evaluated epochs at either end
# Periods that begin after a milestone of the protocol, also where averaging has other rates.
_RATES = ("second_rate", "third_rate")


@dataclass(frozen=True)
class Change(Series):
    """A change through training, by seed.

    Here `draws` are no resamples. By seed they say how far each epoch of the first and of the last
    stretch lies from the mean of its stretch (2j,).
    """

    @property
    def covers(self) -> str:
        """The runs alone: what the test set adds to all epochs of a stretch is not known."""
        return "runs" if self.seeds > 1 else ""

    def __sub__(self, other: Series | float) -> Series:
        if isinstance(other, Change) and self._size != other._size:  # epochs are not paired
            return replace(self, draws={}) - replace(other, draws={})
        return super().__sub__(other)

    @property
    def _size(self) -> int:
        """How many epochs both stretches have together; 0 without `draws`."""
        return max(map(len, self.draws.values()), default=0)

    def mean(self) -> "MeanChange":
        """The mean change over the seeds that have one."""
        there = [seed for seed, value in self.values.items() if not isnan(value)]
        noise = [self.draws[seed] for seed in there] if self.draws else []
        return mean_change([self.values[seed] for seed in there], noise)


def since(records: Iterable[Record], number: Number) -> Series:
    """The change of a number since the beginning of its period, `Number.since`, by seed.

    It is NaN for a run that lacks the number or has fewer than four evaluated epochs in the period.
    """
    by_seed = {record.info["run"]["seed"]: record for record in records}
    n = next((int(record.history["n"][-1]) for record in by_seed.values()), 0)
    ends = {seed: _stretches(record, number) for seed, record in by_seed.items()}
    changes = {seed: float(np.diff(both.mean(axis=1))[0]) for seed, both in ends.items()}
    noise = {seed: (e - e.mean(axis=1, keepdims=True)).ravel() for seed, e in ends.items()}
    return Change(changes, noise if len({len(d) for d in noise.values()}) == 1 else {}, n)


def _stretches(record: Record, number: Number) -> np.ndarray:
    """The number at the first and at the last epochs of a period (2, j); NaN if not there."""
    values, chosen = record.history.get(column(number.key)), epochs(record, number.since)
    if values is None or chosen is None:
        return np.full((2, 2), nan)
    return values[np.searchsorted(record.history["epoch"], chosen)]


def epochs(record: Record, since: str) -> np.ndarray | None:
    """The first and the last evaluated epochs of a period (2, j).

    `since` is that of a `Number`. There are none where the period has fewer than four.
    """
    epoch, protocol = record.history["epoch"], record.info["run"]["protocol"]
    milestones = *protocol.get("milestones", ()), inf, inf
    begins = {"settled": 0.1 * epoch[-1], **dict(zip(_RATES, milestones, strict=False))}
    within = epoch[epoch > begins[since]]
    j = min(MOST, len(within) // 2)
    return None if j < 2 else np.stack([within[:j], within[-j:]]).astype(int)


def mean_change(values: Sequence[float], deviations: Sequence[np.ndarray]) -> "MeanChange":
    r"""The mean over seeds of a change between two stretches of j epochs, with its uncertainty.

    Runs that are tested on the same images can be lucky at the same epoch. An analysis of variance
    of the epochs, seeds by epochs, tells this part from the noise of each run:

    .. math::
        \mathrm{shared} = \max\big(\mathrm{MS}_\text{mean} - \mathrm{MS}_\text{rest} / k,\ 0\big),
        \qquad \mathrm{variance} = S^2 / k + \tfrac 2j \mathrm{shared}

    with k runs whose changes have the variance S², the mean square of the mean curve about the
    means of its stretches, on 2 (j - 1) degrees of freedom, and that of the rest. The interval is t
    √variance on either side, on the degrees of freedom of Satterthwaite's rule. What the test
    images add to all epochs of a stretch alike stays unseen.

    Parameters
    ----------
    values : sequence of float (k,)
        The change of each run.
    deviations : sequence of arrays (2j,)
        Of each run the deviations of `Change`; empty: only the runs count.

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
    uncertain = own**2 / (runs - 1)  # of each part its square by its degrees of freedom
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
    """A mean over runs; made by `mean_change`."""

    estimate: float
    variance: float
    freedom: float
    seeds: int

    def interval(self, level: float = 0.95) -> stats.Interval:
        """t √variance on either side of the mean; ends are nan for a single run."""
        from scipy.special import stdtrit  # here, because it takes a while to import

        if self.seeds < 2:
            return stats.Interval(self.estimate, nan, nan)
        half = float(stdtrit(min(self.freedom, 1e6), (1 + level) / 2)) * sqrt(self.variance)
        return stats.Interval(self.estimate, self.estimate - half, self.estimate + half)
