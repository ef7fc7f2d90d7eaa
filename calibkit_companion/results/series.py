"""A number of one method by seed, and its mean over seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isnan, nan
from statistics import NormalDist

import numpy as np

from calibkit import stats
from calibkit_companion.records.record import Record
from calibkit_companion.results.measure import column_of, measured
from calibkit_companion.results.number import Number


@dataclass(frozen=True)
class Series:
    """A number of one method by seed, and its deviations on resamples of the test set.

    Without `draws` the test set adds no uncertainty; `n` is its size, `test_set` names it.
    """

    values: Mapping[int, float]
    draws: Mapping[int, np.ndarray] = field(default_factory=dict)
    n: int = 0
    test_set: str = ""

    def __sub__(self, other: "Series | float") -> "Series":
        """The difference seed by seed, of the seeds that both have, or from a number."""
        if not isinstance(other, Series):
            return replace(self, values={s: v - other for s, v in self.values.items()})
        seeds = [s for s in self.values if s in other.values]
        values, draws = {s: self.values[s] - other.values[s] for s in seeds}, {}
        if self.draws and other.draws:
            # What one test set draws says nothing about another.
            shift = int(self.test_set != other.test_set)
            draws = {s: self.draws[s] - np.roll(other.draws[s], shift) for s in seeds}
        return replace(self, values=values, draws=draws, n=min(self.n, other.n))

    @property
    def seeds(self) -> int:
        """Those with a number."""
        return sum(not isnan(v) for v in self.values.values())

    @property
    def covers(self) -> str:
        """What the interval of the mean is about; nothing for a single run."""
        if self.seeds < 2:
            return ""
        return "runs and test set" if self.draws else "runs"

    def mean(self) -> stats.MeanOverSeeds:
        draws = np.array([*self.draws.values()]) if self.draws else None
        return stats.mean_over_seeds([*self.values.values()] or [nan], draws)


class Networks(Series):
    """A number of networks that others trained, by network in place of seed: a sample of nothing.

    So the interval is not that of a mean: it goes from the lowest to the highest of them, each with
    its own interval over the test set where it has draws. What it tells holds on every network.
    """

    covers = "networks"

    def mean(self) -> "Networks":
        return self

    def interval(self, level: float = 0.95) -> stats.Interval:
        z = NormalDist().inv_cdf((1 + level) / 2)
        ends = [
            value + side * z * np.std(self.draws.get(name, 0.0))
            for name, value in self.values.items()
            for side in (-1, 1)
        ]
        return stats.Interval(np.mean(ends), min(ends), max(ends))


def by_seed(records: Iterable[Record], number: Number, dataset: str) -> Series:
    """A number of some runs by seed, with its deviations if all have them."""
    by_seed = {r.info["run"]["seed"]: r for r in records}
    n = next((int(r.history["n"][-1]) for r in by_seed.values()), 0)
    if number.since_best:
        return Series(_since_best(by_seed, number), n=n)
    found = {seed: measured(record, number) for seed, record in by_seed.items()}
    values, draws = ({seed: its[i] for seed, its in found.items()} for i in (0, 1))
    known = all(its is not None for its in draws.values())
    return Series(values, draws if known else {}, n, f"{dataset}/{number.test_set}")


def _since_best(by_seed: Mapping[int, Record], number: Number) -> dict[int, float]:
    """Change of a metric from the epoch that is best by another to the end, by seed.

    The best of many noisy epochs always beats the last one, so a seed's best epoch is the one that
    the *other* seeds find best on average; a single seed has none.
    """
    changed, best = column_of(number), number.since_best
    best = changed if best == number.metric else best
    sign = 1 if best in ("auroc", "accuracy") else -1
    changes = dict.fromkeys(by_seed, nan)
    for seed, record in by_seed.items():
        others = [sign * r.history[best] for s, r in by_seed.items() if s != seed]
        if others and changed in record.history:
            epoch = np.nan_to_num(np.mean(others, axis=0), nan=-np.inf).argmax()
            changes[seed] = float(record.history[changed][-1] - record.history[changed][epoch])
    return changes
