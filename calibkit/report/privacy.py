"""Remove from a report all numbers that belong to single rows.

A report consists of counts, means, and names of classes and groups. It reveals single rows in these
places: bins, groups and answers with few rows; curves with a point for each row; notes that name
rows; and interactive figures, which contain scores.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from calibkit.arrays import Array
from calibkit.curves import ConfidenceHistogram, Reliability
from calibkit.report.assessment import Assessment
from calibkit.report.change import Difference, Drift
from calibkit.report.groups import GroupRow
from calibkit.report.names import without_examples
from calibkit.report.paired import Comparison
from calibkit.report.positive import Positive, PrecisionRecallCurve, RocCurve
from calibkit.stats import Interval

FEWEST = 5  # rows that a bin, a group, an answer or a step of a curve must have to be shown
_OF_FEW = ("confidence_gap", "ece_correct")  # means over right or wrong answers, if there are few


def without_rows(numbers: Assessment) -> Assessment:
    """Remove the numbers of fewer than `FEWEST` rows from a report, and the names of rows.

    Examples
    --------
    >>> from calibkit.report import assess
    >>> from calibkit.report.predictions import from_arrays
    >>> probs = np.tile([[0.9, 0.05, 0.05], [0.2, 0.7, 0.1]], (20, 1))
    >>> probs[3] = [0.123456, 0.439, 0.437544]
    >>> numbers = without_rows(assess(from_arrays({"probs": probs, "labels": [0, 1] * 20})))
    >>> numbers.reliability.count[6].item(), numbers.reliability.confidence[6].item()
    (1, nan)
    """
    n, curve = numbers.samples, numbers.risk_coverage
    kept = _spaced(curve.coverage * n)
    thinned = {x: getattr(curve, x)[..., kept] for x in ("coverage", "risk", "mean", "low", "high")}
    compared, few = numbers.comparison, min(numbers.errors, n - numbers.errors) < FEWEST
    unknown = dict.fromkeys(_OF_FEW if few else (), Interval(np.nan, np.nan, np.nan))
    if _largest_is_few(numbers.reliability):
        unknown["mce"] = Interval(np.nan, np.nan, np.nan)
    return replace(
        numbers,
        metrics={**numbers.metrics, **{x: unknown[x] for x in numbers.metrics if x in unknown}},
        notes=without_examples(numbers.notes),
        doubts=without_examples(numbers.doubts),
        reliability=_bins(numbers.reliability),
        histogram=_histogram(numbers.histogram, n - numbers.errors, numbers.errors),
        risk_coverage=replace(curve, **thinned),
        groups=_large(numbers.groups),
        predicted=_large(numbers.predicted),
        comparison=compared and without_rows_of_models(compared),
        positive=numbers.positive and _positive(numbers.positive),
    )


def without_rows_of_models(numbers: Comparison) -> Comparison:
    """The numbers of `paired.compare` without those of fewer than `FEWEST` rows."""
    return replace(
        numbers,
        notes=without_examples(numbers.notes),
        doubts=without_examples(numbers.doubts),
        reliability={name: _bins(its) for name, its in numbers.reliability.items()},
    )


def without_rows_of_parts(numbers: Drift) -> Drift:
    """The numbers of `change.compare` without those of fewer than `FEWEST` rows."""
    changes = [
        replace(change, **{name: _large(change[name]) for name in ("bins", "groups", "predicted")})
        for change in numbers.changes
    ]
    return replace(numbers, notes=without_examples(numbers.notes), changes=changes)


Row = TypeVar("Row", GroupRow, Difference)


def _large(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if np.min(row.samples) >= FEWEST]


def _bins(table: Reliability) -> Reliability:
    """A reliability table in which bins with few rows keep their count but not their means."""
    few = table.count < FEWEST
    means = {
        x: np.where(few, np.nan, getattr(table, x))
        for x in ("confidence", "accuracy", "low", "high", "seed_accuracy")
    }
    return replace(table, **means)


def _largest_is_few(table: Reliability) -> bool:
    """Whether the bin with the largest gap, which is the MCE, has few rows."""
    gap = np.nan_to_num(np.abs(table.accuracy - table.confidence), nan=-1)
    return bool(table.count[gap.argmax()] < FEWEST)


def _histogram(table: ConfidenceHistogram, right: int, wrong: int) -> ConfidenceHistogram:
    means = {"mean_correct": right, "mean_wrong": wrong}
    few = {x: np.full_like(getattr(table, x), np.nan) for x, n in means.items() if n < FEWEST}
    return replace(table, **few)


def _positive(numbers: Positive) -> Positive:
    roc, curve = numbers.roc, numbers.precision_recall
    accepted = roc.tpr * numbers.positives + roc.fpr * (numbers.samples - numbers.positives)
    kept = _spaced(accepted)
    inner = kept[kept > 0] - 1  # the ROC curve starts at no sample
    decisions = numbers.decisions
    if decisions.flagged < FEWEST:
        decisions = replace(decisions, claimed=np.nan)
    return replace(
        numbers,
        reliability=_bins(numbers.reliability),
        roc=RocCurve(roc.fpr[kept], roc.tpr[kept]),
        precision_recall=PrecisionRecallCurve(curve.recall[inner], curve.precision[inner]),
        decisions=decisions,
    )


def _spaced(accepted: Array) -> Array:
    """The points of a curve to keep: its ends, and points at least `FEWEST` rows apart."""
    kept = [0]
    for i, value in enumerate(accepted[:-1]):
        enough = value - accepted[kept[-1]] >= FEWEST and accepted[-1] - value >= FEWEST
        kept += [i] * bool(enough)
    return np.array(kept if len(accepted) == 1 else [*kept, len(accepted) - 1])
