"""The ranking of predictions by confidence: all that metrics of confidence and correctness need."""

import functools
import math
import warnings
from decimal import ROUND_FLOOR, Decimal
from typing import Any, NamedTuple

import numpy as np

from calibkit.arrays import Array, ArrayLike, Weights, as_confidence_correct
from calibkit.resampling import as_counts, effective_size

LEAST = 1e-300  # in place of a count of 0, that divides a 0
NEAR = 1e-12  # how far sums of weights that are not whole may be off, as a share of all


class UndefinedMetricWarning(UserWarning):
    """A metric is ``nan``, because these data leave it undefined: the AUROC without errors, say."""


class Ranking:
    """The distinct confidences, highest first, and how many predictions are right and wrong there.

    Every metric of (confidence, correct) is computed from these. A replicate of
    `calibkit.stats.bootstrap` has the same confidences and other counts, some of them 0, so that it
    needs no sorting.

    Parameters
    ----------
    confidence : array (g,)
        Distinct confidences in descending order.
    right, wrong : arrays (g,) of int or float
        Number (or weight) of right and of wrong predictions at each confidence.
    size : float, optional
        Effective number of samples, if they have weights; by default the number of predictions.
    """

    def __init__(
        self, confidence: Array, right: Array, wrong: Array, size: "float | None" = None
    ) -> None:
        self.confidence: Array = confidence.astype(np.float64)
        self.dtype: np.dtype[Any] = confidence.dtype
        self.right: Array = right.astype(np.float64)
        self.wrong: Array = wrong.astype(np.float64)
        # How many are accepted, right and wrong, when the threshold is this confidence. Summed as
        # integers, which is several times faster.
        self.accepted_right: Array = np.cumsum(right).astype(np.float64)
        self.accepted_wrong: Array = np.cumsum(wrong).astype(np.float64)
        self.all_right: float = float(self.accepted_right[-1])
        self.all_wrong: float = float(self.accepted_wrong[-1])
        self.n: float = self.all_right + self.all_wrong
        self.whole: bool = right.dtype.kind in "iu"
        # Room for rounding, where counts are compared.
        self.near: float = 0.0 if self.whole else NEAR
        self.worth: float = 1.0 if size is None else size / self.n  # of a count, in samples
        self.known: dict[tuple[str, int, str], Any] = {}  # see `once`

    @classmethod
    def of(cls, confidence: Array, correct: Array, weights: "Array | None" = None) -> "Ranking":
        """Rank checked arrays. Sorting values is several times faster than sorting indices."""
        if weights is not None:
            return cls._of_weights(confidence, correct, weights)
        return cls(*cls._counted(confidence, correct))

    @staticmethod
    def _counted(confidence: Array, correct: Array) -> tuple[Array, Array, Array]:
        ascending = np.sort(confidence)
        first = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])
        count = np.diff(first, append=len(ascending))
        distinct = ascending[first]
        del ascending, first  # which are large where samples are many
        place = np.searchsorted(distinct, np.sort(confidence[~correct]))
        wrong = np.bincount(place, minlength=len(distinct))
        return distinct[::-1], (count - wrong)[::-1], wrong[::-1]

    @classmethod
    def _of_weights(cls, confidence: Array, correct: Array, weights: Array) -> "Ranking":
        some = weights > 0  # the others are as good as not there
        if not some.all():
            confidence, correct, weights = confidence[some], correct[some], weights[some]
        distinct, place = np.unique(confidence, return_inverse=True)
        right, wrong = (np.bincount(place, weights * x, len(distinct)) for x in (correct, ~correct))
        return cls(distinct[::-1], right[::-1], wrong[::-1], size_of(weights))

    @property
    def count(self) -> Array:
        """Number of predictions at each confidence (g,); not kept, to save memory."""
        return self.right + self.wrong

    @property
    def accepted(self) -> Array:
        """Number of predictions accepted if the threshold is each confidence (g,)."""
        return self.accepted_right + self.accepted_wrong

    @property
    def wins(self) -> float:
        """Number of pairs whose right prediction is the more confident; a tie counts half."""
        return float(self.wrong @ (self.accepted_right - self.right / 2))

    @functools.cached_property
    def failures(self) -> "Failures":
        """The places of the wrong predictions in the ranking."""
        some = np.flatnonzero(self.wrong > 0)
        upto, count, n = self.accepted[some], self.count[some], self.n
        if self.whole:
            upto, count, n = upto.astype(np.intp), count.astype(np.intp), int(n)
        return Failures(np.maximum(upto - count, 0), upto, self.wrong[some], n)

    def risk(self) -> Array:
        """Error rate of the accepted at each confidence (g,); 0 if none is accepted."""
        return self.accepted_wrong / np.maximum(self.accepted, LEAST)

    def coverage_at_risk(self, risk: float) -> float:
        """See the function `coverage_at_risk`."""
        within = self.accepted[self.risk() <= risk + self.near]
        return float(within[-1] / self.n) if len(within) else 0.0

    def risk_at_coverage(self, coverage: float) -> float:
        """See the function `risk_at_coverage`."""
        place = np.searchsorted(self.accepted / self.n, coverage - self.near)
        return float(self.accepted_wrong[place] / self.accepted[place])

    def fpr_at_tpr(self, tpr: float) -> float:
        """See the function `fpr_at_tpr`; needs right and wrong predictions."""
        place = np.searchsorted(self.accepted_right / self.all_right, tpr - self.near)
        return float(self.accepted_wrong[place] / self.all_wrong)

    def threshold(self, risk: float) -> float:
        """See the function `threshold_at_risk`."""
        within = np.flatnonzero(self.risk() <= risk + self.near)
        return self.at(within[-1]) if len(within) else math.inf

    def at(self, place: int) -> float:
        """A threshold of few digits that accepts the confidence of this index and none below."""
        lowest, lower = [*self.confidence[place:][:2], -math.inf][:2]
        return self.between(float(lowest), float(lower), self.dtype)

    @staticmethod
    def between(lowest: float, lower: float, dtype: np.dtype[Any]) -> float:
        """A threshold of few digits, at most `lowest` and above `lower`, also as `dtype`."""
        return _short_decimal(lowest, lower, dtype)


class Failures(NamedTuple):
    """The places of the wrong predictions in the ranking; faster, and enough for AUROC and AURC.

    For each distinct confidence of a wrong prediction, highest first: the number of predictions
    with a higher confidence (`before`), with this or a higher one (`upto`), and of wrong ones with
    this one (`wrong`). `n` is the number of all predictions.
    """

    before: Array
    upto: Array
    wrong: Array
    n: int | float

    @classmethod
    def of(cls, confidence: Array, correct: Array) -> "Failures":
        """Rank checked arrays: right and wrong predictions are sorted apart."""
        negative = -confidence  # so that the highest confidence is first, as in `Ranking`
        right = np.sort(negative[correct])
        failed = negative[np.flatnonzero(~correct)]  # indices of a few are faster than a mask
        distinct, wrong = np.unique(failed, return_counts=True)
        accepted_wrong = np.cumsum(wrong)
        before = np.searchsorted(right, distinct) + accepted_wrong - wrong
        upto = np.searchsorted(right, distinct, side="right") + accepted_wrong
        return cls(before, upto, wrong, len(confidence))

    @property
    def all_wrong(self) -> float:
        """How many predictions are wrong."""
        return float(self.wrong.sum())

    @property
    def all_right(self) -> float:
        """How many predictions are right."""
        return self.n - self.all_wrong

    @property
    def wins(self) -> float:
        """See `Ranking.wins`."""
        # The mean of `before` and `upto` counts predictions above and half of the tied ones. Of
        # these, e²/2 are wrong, with e wrong predictions in all.
        return float(self.wrong @ (self.before + self.upto)) / 2 - self.all_wrong**2 / 2


def weights_of(sample_weight: Weights, n: int) -> "Array | None":
    """Sample weights (n,) as numbers of rows; None without weights."""
    return None if sample_weight is None else as_counts(sample_weight, n)


def size_of(weights: Array) -> float:
    """Effective number of samples: the sum of whole-number weights, otherwise (Σw)² / Σw²."""
    whole = (weights == np.rint(weights)).all()
    return float(weights.sum()) if whole else effective_size(weights)


def ranking_of(
    confidence: ArrayLike, correct: ArrayLike, unit: bool = False, sample_weight: Weights = None
) -> Ranking:
    """Check confidences (n,) and correctness (n,), and rank them."""
    confidence, correct = as_confidence_correct(confidence, correct, unit)
    return Ranking.of(confidence, correct, weights_of(sample_weight, len(correct)))


def failures_of(
    confidence: ArrayLike, correct: ArrayLike, sample_weight: Weights
) -> "Failures | Ranking":
    """Check confidences (n,) and correctness (n,); without weights, place only the wrong ones."""
    if sample_weight is not None:
        return ranking_of(confidence, correct, sample_weight=sample_weight)
    return Failures.of(*as_confidence_correct(confidence, correct))


def _short_decimal(value: float, lower: float, dtype: np.dtype[Any]) -> float:
    """Round a `value` in (0, 1) down to a short decimal that stays above `lower`.

    Two digits of 1 - value are kept, or more if `lower` asks for them. If there is room, the
    decimal differs from both by more than rounding errors, since a file's 0.9 may be read as
    0.8999….
    """
    if not 0 < value < 1:
        return value
    fewest = max(1 - math.floor(math.log10(1 - value)), 2)
    for slack in (8 * float(np.finfo(dtype).eps), 0.0):
        for digits in range(fewest, 17):
            unit = Decimal(1).scaleb(-digits)
            short = float(Decimal(value - slack).quantize(unit, ROUND_FLOOR))
            own = float(dtype.type(short))
            if short > 0 and min(short, own) > lower + slack and own <= value:
                return short
    return value


UNDEFINED = "undefined without both right and wrong predictions, so nan: "


def defined(name: str, value: float) -> float:
    """Return the value of a metric; warn if it is NaN."""
    if math.isnan(value):
        warnings.warn(UNDEFINED + name, UndefinedMetricWarning, stacklevel=3)
    return value


def check_fraction(name: str, value: float, zero: bool = True) -> None:
    """Refuse a value outside [0, 1], and 0 where that is not allowed."""
    if not (0 <= value <= 1 and (zero or value > 0)):
        raise ValueError(f"{name}: got {value!r}, expected a number in {'[' if zero else '('}0, 1]")
