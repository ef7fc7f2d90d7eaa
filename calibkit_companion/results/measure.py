"""A number of one run, and a number of one method by seed with its mean over seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isnan, nan
from statistics import NormalDist

import numpy as np

from calibkit import metrics, stats
from calibkit_companion.records.deviations import BY_LOG_ODDS
from calibkit_companion.records.record import Record
from calibkit_companion.records.replicates import KEY
from calibkit_companion.results import derived
from calibkit_companion.results.number import Number

SCORES = {"trust_score": "test_trust_score", "confidnet": "test_confidnet"}  # in a record's arrays
_AFTER = {"ts_ece": "_scaled", "ts_test": "_optimal"}  # in a history or under shift


# Sums of other numbers: a constant, and (metric, recalibration, factor); None: its own.
_SUMS = {
    "confidence_correct": (1.0, (("ece_correct", None, -1.0),)),
    "confidence_wrong": (1.0, (("ece_correct", None, -1.0), ("confidence_gap", None, -1.0))),
    # What one temperature cannot repair of the NLL, and what it removes (Berta et al., 2025).
    "nll_refinement": (0.0, (("nll", "ts_nll", 1.0),)),
    "nll_calibration": (0.0, (("nll", "none", 1.0), ("nll", "ts_nll", -1.0))),
}


def measured(record: Record, number: Number) -> tuple[float, np.ndarray | None]:
    """A number of a run, and how far it lies from it on resamples of the test set.

    It is nan where the record does not have it, and None where nothing tells its deviations.
    """
    if number.metric == "accuracy" and number.recalibration.startswith("ts_"):
        number = number._replace(recalibration="none")  # no temperature changes what is predicted
    if number.metric in _SUMS and number.score == "max_probability":
        constant, parts = _SUMS[number.metric]
        value, drawn = 0.0, 0.0
        for metric, after, factor in parts:
            part = number._replace(metric=metric, recalibration=after or number.recalibration)
            of_part, its = measured(record, part)
            value += factor * of_part
            drawn = None if drawn is None or its is None else drawn + factor * its
        return constant + value, drawn
    if number.test_set != "clean":
        return _under_shift(record, number), None
    # A period takes the deviations of the end, a fit on few samples those of the fit on all.
    drawn = record.deviation(*_key(number._replace(validation=0)))
    at_once = number.at == "end" or isinstance(number.at, int)
    if at_once and (kept := record.measured(*_key(number))) is not None:
        return kept, drawn
    if number.at != "end" or column_of(number) in record.history:
        return _through_training(record, number), drawn
    if number.score == "max_probability":
        return derived.value(record, number), drawn
    return derived.by_score(record, number)


def _key(number: Number) -> tuple:
    """What a record finds a number by, at the end or at an epoch."""
    epoch = (number.at,) if isinstance(number.at, int) else ()
    return (*(getattr(number, field) for field in KEY), *epoch)


def _under_shift(record: Record, number: Number) -> float:
    kind, _, severity = number.test_set.rpartition("-")
    collected = number.test_set == "collected" or kind in record.collected.get("shift", ())
    table = record.collected if collected else record.shifted
    if column_of(number) not in table:
        return nan
    values = table[column_of(number)]
    if number.test_set not in ("shifted", "collected"):
        values = values[(table["shift"] == kind) & (table["severity"] == float(severity))]
    return derived.mean(values)


def _through_training(record: Record, number: Number) -> float:
    """A number at an epoch, at the end or over a period, from the history."""
    history = record.history
    if column_of(number) not in history:
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
    return derived.mean(history[column_of(number)][chosen])


def column_of(number: Number) -> str:
    """What a history, or a table of shifted sets, calls a number; empty if these have none such."""
    if number.score not in ("max_probability", "log_odds") or number.validation:
        return ""
    named = number.metric + {"none": "", **_AFTER}.get(number.recalibration, "-")
    return named + BY_LOG_ODDS * (number.score == "log_odds")


def by_log_odds(number: Number) -> Number | None:
    """The number as ranked by the log-odds; None if it does not rank, or says what ranks it."""
    if number.score != "max_probability" or not metrics.ranks(number.metric):
        return None
    return number._replace(score="log_odds")


def has(record: Record, number: Number) -> bool:
    """Whether a run has a number that is ranked by the log-odds."""
    column = column_of(number)
    if number.test_set != "clean":
        return column in record.all_shifted
    if number.since or isinstance(number.at, str) and number.at != "end":
        return column in record.history
    if number.at == "end" and not record.light:  # they are computed
        return number.recalibration != "binned" and not number.validation
    return column in record.history or record.measured(*_key(number)) is not None


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
    found = {seed: measured(record, number) for seed, record in by_seed.items()}
    values, draws = ({seed: its[i] for seed, its in found.items()} for i in (0, 1))
    known = all(its is not None for its in draws.values())
    return Series(values, draws if known else {}, n, f"{dataset}/{number.test_set}")
