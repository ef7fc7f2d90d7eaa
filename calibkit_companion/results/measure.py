"""Look up a number of a run, and collect a number of a method over seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isnan, nan
from statistics import NormalDist

import numpy as np

from calibkit import metrics, stats
from calibkit_companion.records.keys import Recalibration, column, test_sets
from calibkit_companion.records.record import Record
from calibkit_companion.results import derived
from calibkit_companion.results.number import Number

SCORES = {"trust_score": "test_trust_score", "confidnet": "test_confidnet"}  # arrays of a record


# Metrics that are sums of other metrics: a constant, and terms (metric, recalibration, factor).
# A recalibration of None is that of the requested number.
_SUMS = {
    "confidence_correct": (1.0, (("ece_correct", None, -1.0),)),
    "confidence_wrong": (1.0, (("ece_correct", None, -1.0), ("confidence_gap", None, -1.0))),
    # The NLL that temperature scaling leaves, and the NLL that it removes (Berta et al., 2025).
    "nll_refinement": (0.0, (("nll", "ts_nll", 1.0),)),
    "nll_calibration": (0.0, (("nll", "none", 1.0), ("nll", "ts_nll", -1.0))),
}


def measured(record: Record, number: Number) -> tuple[float, np.ndarray | None]:
    """Look up a number of a run, and its deviations on resamples of the test set.

    Parameters
    ----------
    record : the record of the run
    number : which number

    Returns
    -------
    value : float
        NaN if the record lacks the number.
    deviations : array (n,) or None
        The number on each resample minus `value`; None if the record keeps no replicates of it.
    """
    if number.metric == "accuracy" and Recalibration(number.recalibration).scales:
        number = number._replace(recalibration=Recalibration.NONE)  # scaling changes no prediction
    if number.metric in _SUMS and number.score == "max_probability":
        constant, parts = _SUMS[number.metric]
        value, drawn = 0.0, 0.0
        for metric, recalibration, factor in parts:
            recalibration = recalibration or number.recalibration
            part = number._replace(metric=metric, recalibration=recalibration)
            of_part, deviations = measured(record, part)
            value += factor * of_part
            unknown = drawn is None or deviations is None
            drawn = None if unknown else drawn + factor * deviations
        return constant + value, drawn
    if number.test_set != "clean":
        return _under_shift(record, number), None
    # Records keep deviations for the end of training and for fits on all validation samples. They
    # are also used for a period of training and for fits on few samples.
    drawn = record.deviation(number.key._replace(validation=0), number.epoch)
    at_once = number.at == "end" or number.epoch is not None
    if at_once and (kept := record.measured(number.key, number.epoch)) is not None:
        return kept, drawn
    if number.at != "end" or column(number.key) in record.history:
        return _through_training(record, number), drawn
    if number.score == "max_probability":
        return derived.value(record, number), drawn
    return derived.by_score(record, number)


def _under_shift(record: Record, number: Number) -> float:
    """Look up a number on a shifted or newly collected test set, or average it over all of them."""
    tables = {"shifted": record.shifted, "collected": record.collected}
    table = tables.get(number.test_set, record.all_shifted)
    if column(number.key) not in table:
        return nan
    values = table[column(number.key)]
    if number.test_set not in tables:
        values = values[[name == number.test_set for name in test_sets(table)]]
    return derived.mean(values)


def _through_training(record: Record, number: Number) -> float:
    """Look up a number in the history: at an epoch, at the end, or its mean over a period.

    NaN if the history lacks the number.
    """
    history = record.history
    if column(number.key) not in history:
        return nan
    epoch = history["epoch"]
    chosen = {
        "end": epoch == epoch[-1],
        "late": epoch > 0.75 * epoch[-1],
        "settled": epoch > 0.1 * epoch[-1],
    }.get(number.at, epoch == number.at)
    if number.at in ("second_rate", "third_rate"):
        rate = history["learning_rate"]
        drops = np.searchsorted(-np.unique(rate)[::-1], -rate)
        chosen = drops == 1 if number.at == "second_rate" else drops >= 2
    return derived.mean(history[column(number.key)][chosen])


def by_log_odds(number: Number) -> Number | None:
    """Return the same number ranked by the log-odds.

    None if the metric does not depend on a ranking, or if the number names another score.
    """
    if number.score != "max_probability" or not metrics.ranks(number.metric):
        return None
    return number._replace(score="log_odds")


def has(record: Record, number: Number) -> bool:
    """Whether the record of a run has a number, or can compute it from its predictions."""
    name = column(number.key)
    if number.test_set != "clean":
        return name in record.all_shifted
    if number.since or isinstance(number.at, str) and number.at != "end":
        return name in record.history
    if number.at == "end" and not record.light:  # predictions give all other numbers
        return number.recalibration != Recalibration.BINNED and not number.validation
    return name in record.history or record.measured(number.key, number.epoch) is not None


@dataclass(frozen=True)
class Series:
    """A number of one method by seed, and its deviations on resamples of the test set.

    Attributes
    ----------
    values : the number by seed
    draws : by seed, the number on each resample minus the value (n,); if empty, the uncertainty of
        the test set is not known
    n : number of test samples
    test_set : name of the test set; series on different test sets are not paired by resample
    trained : each method of the number, with the device on which it was trained by seed
    """

    values: Mapping[int, float]
    draws: Mapping[int, np.ndarray] = field(default_factory=dict)
    n: int = 0
    test_set: str = ""
    trained: tuple[tuple[str, Mapping[int, str]], ...] = ()

    def __sub__(self, other: "Series | float") -> "Series":
        """Subtract another series, over the seeds of both, or a constant."""
        if not isinstance(other, Series):
            return replace(self, values={s: v - other for s, v in self.values.items()})
        seeds = [s for s in self.values if s in other.values]
        values, draws = {s: self.values[s] - other.values[s] for s in seeds}, {}
        if self.draws and other.draws:
            # Resamples of two different test sets must not pair, so one list is shifted by one.
            shift = int(self.test_set != other.test_set)
            draws = {s: self.draws[s] - np.roll(other.draws[s], shift) for s in seeds}
        both = {"n": min(self.n, other.n), "trained": self.trained + other.trained}
        return replace(self, values=values, draws=draws, **both)

    @property
    def seeds(self) -> int:
        """Number of seeds that have the number."""
        return sum(not isnan(v) for v in self.values.values())

    @property
    def covers(self) -> str:
        """The uncertainty that the interval covers, in words; empty for a single run."""
        if self.seeds < 2:
            return ""
        return "runs and test set" if self.draws else "runs"

    def mean(self) -> stats.MeanOverSeeds:
        """Average over seeds, with the uncertainty of runs and test set."""
        draws = np.array([*self.draws.values()]) if self.draws else None
        return stats.mean_over_seeds([*self.values.values()] or [nan], draws)


class Networks(Series):
    """A number of networks that others trained; the keys are names of networks instead of seeds.

    The networks are no random sample, so their mean has no interval. Instead, the interval contains
    the intervals of all networks over the test set (or their values, without `draws`). An outcome
    that follows from it therefore holds on every network.
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
    """Collect a number of some runs by seed, with deviations if all runs have them.

    Parameters
    ----------
    records : the records of a method
    number : which number
    dataset : name of the data set, for the name of the test set
    """
    by_seed = {record.info["run"]["seed"]: record for record in records}
    n = next((int(record.history["n"][-1]) for record in by_seed.values()), 0)
    both = {seed: measured(record, number) for seed, record in by_seed.items()}
    values = {seed: value for seed, (value, _) in both.items()}
    draws = {seed: deviations for seed, (_, deviations) in both.items()}
    if any(deviations is None for deviations in draws.values()):
        draws = {}
    return Series(values, draws, n, f"{dataset}/{number.test_set}")
