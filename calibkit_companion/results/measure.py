"""A number of one run: from its record, or worked out from what it keeps."""

from math import nan

import numpy as np

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
    epoch, rate = history["epoch"], history["learning_rate"]
    drops = np.searchsorted(-np.unique(rate)[::-1], -rate)
    chosen = {
        "end": epoch == epoch[-1],
        "late": epoch > 0.75 * epoch[-1],
        "settled": epoch > 0.1 * epoch[-1],
        "second_rate": drops == 1,
        "third_rate": drops >= 2,
    }.get(number.at, epoch == number.at)
    return derived.mean(history[column_of(number)][chosen])


def column_of(number: Number) -> str:
    """What a history, or a table of shifted sets, calls a number; empty if these have none such."""
    if number.score != "max_probability" or number.validation:
        return ""
    return number.metric + {"none": "", **_AFTER}.get(number.recalibration, "-")
