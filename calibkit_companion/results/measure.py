"""A number of one run, and a number of one method by seed with its mean over seeds."""

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

SCORES = {"trust_score": "test_trust_score", "confidnet": "test_confidnet"}  # in a record's arrays


# Metrics that are sums of others: a constant and terms (metric, recalibration, factor), where None
# stands for the recalibration of the sum.
_SUMS = {
    "confidence_correct": (1.0, (("ece_correct", None, -1.0),)),
    "confidence_wrong": (1.0, (("ece_correct", None, -1.0), ("confidence_gap", None, -1.0))),
    # The NLL that temperature scaling leaves, and the NLL that it removes (Berta et al., 2025).
    "nll_refinement": (0.0, (("nll", "ts_nll", 1.0),)),
    "nll_calibration": (0.0, (("nll", "none", 1.0), ("nll", "ts_nll", -1.0))),
}


def measured(record: Record, number: Number) -> tuple[float, np.ndarray | None]:
    """A number of a run, and its deviations on resamples of the test set.

    Returns
    -------
    value : float
        NaN if the record does not have the number.
    deviations : array (n,) or None
        The number on each resample minus `value`; None if the record keeps no resamples of it.
    """
    if number.metric == "accuracy" and Recalibration(number.recalibration).scales:
        number = number._replace(recalibration=Recalibration.NONE)  # no prediction changes
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
    # Records keep deviations of the end and of fits on all validation samples: they stand in for
    # those of a period, and of a fit on few samples.
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
    """A number on a shifted or newly collected test set, or its mean over all of them."""
    tables = {"shifted": record.shifted, "collected": record.collected}
    table = tables.get(number.test_set, record.all_shifted)
    if column(number.key) not in table:
        return nan
    values = table[column(number.key)]
    if number.test_set not in tables:
        values = values[[name == number.test_set for name in test_sets(table)]]
    return derived.mean(values)


def _through_training(record: Record, number: Number) -> float:
    """A number at an epoch, at the end or over a period, from the history; NaN if not there."""
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
    """The number ranked by the log-odds; None if it does not rank or already names its score."""
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
    if number.at == "end" and not record.light:  # they are computed
        return number.recalibration != Recalibration.BINNED and not number.validation
    return name in record.history or record.measured(number.key, number.epoch) is not None


@dataclass(frozen=True)
class Series:
    """A number of one method by seed, and its deviations on resamples of the test set.

    Attributes
    ----------
    values : the number by seed
    draws : by seed, the number on each resample minus its value (n,); empty: the test set adds no
        uncertainty
    n : size of the test set
    test_set : its name; of two test sets, deviations are not paired
    trained : each method of the number, with the device on which it was trained by seed
    """

    values: Mapping[int, float]
    draws: Mapping[int, np.ndarray] = field(default_factory=dict)
    n: int = 0
    test_set: str = ""
    trained: tuple[tuple[str, Mapping[int, str]], ...] = ()

    def __sub__(self, other: "Series | float") -> "Series":
        """The difference, seed by seed, from a series over the seeds of both, or from a number."""
        if not isinstance(other, Series):
            return replace(self, values={s: v - other for s, v in self.values.items()})
        seeds = [s for s in self.values if s in other.values]
        values, draws = {s: self.values[s] - other.values[s] for s in seeds}, {}
        if self.draws and other.draws:
            # Resamples of two test sets are not the same samples: shifted by one, they do not pair.
            shift = int(self.test_set != other.test_set)
            draws = {s: self.draws[s] - np.roll(other.draws[s], shift) for s in seeds}
        both = {"n": min(self.n, other.n), "trained": self.trained + other.trained}
        return replace(self, values=values, draws=draws, **both)

    @property
    def seeds(self) -> int:
        """How many seeds have a number."""
        return sum(not isnan(v) for v in self.values.values())

    @property
    def covers(self) -> str:
        """Which uncertainty the interval of the mean covers, in words; empty for a single run."""
        if self.seeds < 2:
            return ""
        return "runs and test set" if self.draws else "runs"

    def mean(self) -> stats.MeanOverSeeds:
        """The mean over seeds, with its sources of uncertainty."""
        draws = np.array([*self.draws.values()]) if self.draws else None
        return stats.mean_over_seeds([*self.values.values()] or [nan], draws)


class Networks(Series):
    """A number of networks that others trained, by the name of the network in place of the seed.

    The networks are no random sample, so the interval is not that of a mean. It goes from the
    lowest to the highest network, each with its own interval over the test set where it has draws.
    What the interval tells holds on every network.
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
    """A number of some runs by seed, with its deviations if all runs have them."""
    by_seed = {record.info["run"]["seed"]: record for record in records}
    n = next((int(record.history["n"][-1]) for record in by_seed.values()), 0)
    both = {seed: measured(record, number) for seed, record in by_seed.items()}
    values = {seed: value for seed, (value, _) in both.items()}
    draws = {seed: deviations for seed, (_, deviations) in both.items()}
    if any(deviations is None for deviations in draws.values()):
        draws = {}
    return Series(values, draws, n, f"{dataset}/{number.test_set}")
