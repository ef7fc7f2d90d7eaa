"""Calibration and failure prediction: how good is a confidence, and good for what?

There are two kinds of function, which differ in what they take.

- *Calibration*, from ``probs`` (n, k) and ``labels`` (n,): does a confidence of 0.8 mean right in
  80 of 100 cases? `ece` and its relatives, `nll`, `brier`. Those of the top label also take
  ``confidence`` (n,) and ``correct`` (n,).
- *Failure prediction*, from ``confidence`` (n,) and ``correct`` (n,): do right predictions get a
  higher confidence than wrong ones? `auroc`, `aurc`, `fpr_at_tpr` and their relatives. The positive
  class is a correct prediction throughout.

These rank the confidences they are given, ties included, and in single precision those of a sure
network tie at 1. `summary` computes all metrics from logits and ranks by log-odds, which saturate
nowhere; `confidence.log_odds` gives them. Values are plain
fractions (multiply by 100 or 1000 in tables). Samples of equal confidence are always treated as one
group, so no result depends on the order of the samples. What the data leave undefined, such as the
AUROC of a model that is never wrong, is ``nan`` with one `UndefinedMetricWarning`.

The five papers: Zhu et al., ECCV 2022 (fmfp for short); Singh et al. 2021 (darkside); Wang et al.,
NeurIPS 2021 (overconf); Wang et al., CVPR 2023 (mixup); Lin et al., CVPR 2025 (bsce).

To find your way: `ece`, `excess_ece`, `nll` and `brier` for calibration, `auroc`, `aurc` and
`fpr_at_tpr` for failure prediction, `risk_coverage` and `threshold_at_risk` for choosing what to
accept. If you want several numbers at once, `summary` is faster than calling the functions one by
one. Every function has an example in its own help.

With `sample_weight`, whole numbers give what as many equal rows give. A measure that scikit-learn
has, too, is equal to its own with the same weights.
"""

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import Literal, NamedTuple

import numpy as np

from calibkit.arrays import (
    Array,
    ArrayLike,
    ArrayOrTensor,
    Kind,
    as_confidence_correct,
    as_labels,
    as_logits,
    as_probs,
    blocks,
    check_bins,
    exp_shifted,
    like,
    log_odds,
    prob_blocks,
    probs_and_floor,
    row_sums,
)
from calibkit.resampling import as_counts, effective_size

FEW_CLASSES = 40  # up to here, reducing a turned copy is faster than reducing short rows
MOST_CELLS = 20_000_000  # classes × bins: bounds the memory
_LEAST = 1e-300  # in place of a count of 0, that divides a 0
_NEAR = 1e-12  # how far sums of weights that are not whole may be off, as a share of all
Scheme = Literal["equal_width", "equal_mass"]
Binned = Literal["ece", "adaptive_ece", "classwise_ece"]
_SCHEMES: dict[str, Scheme] = {"ece": "equal_width", "adaptive_ece": "equal_mass"}


class UndefinedMetricWarning(UserWarning):
    """A metric is undefined on these data, as AUROC is without wrong predictions; it is ``nan``."""


# ------------------------------------------------------------------ two statistics behind them all


class Ranking:
    """The distinct confidences, highest first, and how many predictions are right and wrong there.

    Everything that is computed from (confidence, correct) needs no more than this. A replicate of
    `calibkit.stats.bootstrap` has other counts, 0 among them, at the same confidences: no sort.

    Parameters
    ----------
    confidence : array (g,)
        Distinct confidences in descending order.
    right, wrong : arrays (g,) of int or float
        Number of right and of wrong predictions at each, or their weight.
    size : float, optional
        How many samples their noise is that of; by default as many as are counted.
    """

    def __init__(
        self, confidence: Array, right: Array, wrong: Array, size: "float | None" = None
    ) -> None:
        self.confidence = confidence.astype(np.float64)
        self.dtype = confidence.dtype
        self.right, self.wrong = right.astype(np.float64), wrong.astype(np.float64)
        # How many are accepted, right and wrong, when the threshold is this confidence. Summed as
        # integers, which is several times faster.
        self.accepted_right = np.cumsum(right).astype(np.float64)
        self.accepted_wrong = np.cumsum(wrong).astype(np.float64)
        self.all_right = float(self.accepted_right[-1])
        self.all_wrong = float(self.accepted_wrong[-1])
        self.n = self.all_right + self.all_wrong
        self.whole = right.dtype.kind in "iu"
        self.near = 0.0 if self.whole else _NEAR  # room for rounding, where counts are compared
        self.worth = 1.0 if size is None else size / self.n  # of a count, in samples
        self.known: dict[tuple, object] = {}  # see `_once`

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
        return cls(distinct[::-1], right[::-1], wrong[::-1], _size(weights))

    @property
    def count(self) -> Array:
        """How many predictions are at each confidence; not kept, for it takes memory."""
        return self.right + self.wrong

    @property
    def accepted(self) -> Array:
        """How many are accepted when the threshold is this confidence."""
        return self.accepted_right + self.accepted_wrong

    @property
    def wins(self) -> float:
        """Pairs in which the right prediction is the more confident; a tie is half a win."""
        return float(self.wrong @ (self.accepted_right - self.right / 2))

    @functools.cached_property
    def failures(self) -> "_Failures":
        """Where its wrong predictions stand."""
        some = np.flatnonzero(self.wrong > 0)
        upto, count, n = self.accepted[some], self.count[some], self.n
        if self.whole:
            upto, count, n = upto.astype(np.intp), count.astype(np.intp), int(n)
        return _Failures(np.maximum(upto - count, 0), upto, self.wrong[some], n)

    def risk(self) -> Array:
        """Error rate of the accepted; 0 before the first, which a replicate may not have drawn."""
        return self.accepted_wrong / np.maximum(self.accepted, _LEAST)

    def coverage_at_risk(self, risk: float) -> float:
        """As the function `coverage_at_risk`."""
        within = self.accepted[self.risk() <= risk + self.near]
        return float(within[-1] / self.n) if len(within) else 0.0

    def risk_at_coverage(self, coverage: float) -> float:
        """As the function `risk_at_coverage`."""
        place = np.searchsorted(self.accepted / self.n, coverage - self.near)
        return float(self.accepted_wrong[place] / self.accepted[place])

    def fpr_at_tpr(self, tpr: float) -> float:
        """As the function `fpr_at_tpr`; there are right and wrong predictions."""
        place = np.searchsorted(self.accepted_right / self.all_right, tpr - self.near)
        return float(self.accepted_wrong[place] / self.all_wrong)

    def threshold(self, risk: float) -> float:
        """As `threshold_at_risk`."""
        within = np.flatnonzero(self.risk() <= risk + self.near)
        return self.at(within[-1]) if len(within) else math.inf

    def at(self, place: int) -> float:
        """A threshold that accepts this confidence and none below it, in few digits."""
        lowest, lower = [*self.confidence[place:][:2], -math.inf][:2]
        return self.between(float(lowest), float(lower), self.dtype)

    @staticmethod
    def between(lowest: float, lower: float, dtype: np.dtype) -> float:
        """A threshold in few digits, at most `lowest` and above `lower`, also in type `dtype`."""
        return _short_decimal(lowest, lower, dtype)


class _Failures(NamedTuple):
    """Where the wrong predictions stand in the ranking: enough for the areas, and found faster.

    Per distinct confidence of a wrong prediction, highest first: how many predictions have a higher
    one, how many have at least this one, and how many wrong ones have it. And how many there are.
    """

    before: Array
    upto: Array
    wrong: Array
    n: int | float

    @classmethod
    def of(cls, confidence: Array, correct: Array) -> "_Failures":
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
        """As `Ranking.wins`."""
        # The mean of both places counts those above and half of the tied, of which e²/2 are wrong.
        return float(self.wrong @ (self.before + self.upto)) / 2 - self.all_wrong**2 / 2


class Bins(NamedTuple):
    """Per bin: number of samples or their weight, the same of those right, sum of confidences."""

    count: Array
    right: Array
    confidence: Array


def _weights(sample_weight: "ArrayLike | None", n: int) -> "Array | None":
    return None if sample_weight is None else as_counts(sample_weight, n)


def _size(weights: Array) -> float:
    """How many samples the noise is that of: as many as are counted, or of as they are worth."""
    whole = (weights == np.rint(weights)).all()
    return float(weights.sum()) if whole else effective_size(weights)


def _ranking(
    confidence: ArrayLike,
    correct: ArrayLike,
    unit: bool = False,
    sample_weight: "ArrayLike | None" = None,
) -> Ranking:
    confidence, correct = as_confidence_correct(confidence, correct, unit)
    return Ranking.of(confidence, correct, _weights(sample_weight, len(correct)))


def _failures(
    confidence: ArrayLike, correct: ArrayLike, sample_weight: "ArrayLike | None"
) -> "_Failures | Ranking":
    if sample_weight is not None:
        return _ranking(confidence, correct, sample_weight=sample_weight)
    return _Failures.of(*as_confidence_correct(confidence, correct))


def _top_ranking(probs: ArrayLike, labels: ArrayLike, sample_weight: "ArrayLike | None") -> Ranking:
    confidence, correct = _top_label(probs, labels)
    return Ranking.of(confidence, correct, _weights(sample_weight, len(correct)))


def _top_bins(
    probs: ArrayLike, labels: ArrayLike, bins: int, sample_weight: "ArrayLike | None"
) -> Bins:
    if sample_weight is not None:
        return _binned(_top_ranking(probs, labels, sample_weight), bins)
    return _binned_samples(*_top_label(probs, labels), bins)


@functools.lru_cache(maxsize=8)
def _edges(bins: int, dtype: np.dtype) -> Array:
    # In the precision of the data: a float32 0.2 must meet the edge 0.2 as equal, not as above it.
    return np.linspace(0, 1, bins + 1).astype(dtype)


def _once(function: Callable) -> Callable:
    """A function of a ranking, computed once for each: several metrics need the same bins."""

    @functools.wraps(function)
    def known(ranking: Ranking, bins: int, scheme: Scheme = "equal_width"):
        key = function.__name__, bins, scheme
        if key not in ranking.known:
            ranking.known[key] = function(ranking, bins, scheme)
        return ranking.known[key]

    return known


@_once
def _cuts(ranking: Ranking, bins: int, scheme: Scheme) -> Array:
    """Where bins end in the ranking, from the highest confidence to the lowest."""
    if scheme == "equal_width":  # (lo, hi], and 0 belongs to the lowest
        inner = _edges(bins, ranking.dtype)[1:-1]
        upto = np.searchsorted(ranking.confidence[::-1], inner, side="right")
    elif scheme == "equal_mass":  # by how many samples lie strictly below: ties stay together
        below = (ranking.n - ranking.accepted)[::-1]
        upto = np.searchsorted(below * bins, (np.arange(1, bins) - ranking.near) * ranking.n)
    else:
        raise ValueError(f"scheme: got {scheme!r}, expected 'equal_width' or 'equal_mass'")
    groups = len(ranking.confidence)
    return np.r_[0, groups - upto[::-1], groups]


@_once
def _binned(ranking: Ranking, bins: int, scheme: Scheme) -> Bins:
    cut = _cuts(ranking, bins, scheme)
    if ranking.whole:
        count = np.diff(np.r_[0, ranking.accepted][cut])
        right = np.diff(np.r_[0, ranking.accepted_right][cut])
    else:  # differences of sums would be off where a bin has little weight
        count, right = (_stretches(x, cut) for x in (ranking.count, ranking.right))
    confidence = _stretches(ranking.count * ranking.confidence, cut)
    return Bins(count[::-1], right[::-1], confidence[::-1])


def _binned_samples(confidence: Array, correct: Array, bins: int) -> Bins:
    """Bin by equal width as `_binned`, but faster, for when nothing else needs the ranking."""
    inner = _edges(bins, confidence.dtype)[1:-1]
    every, wrong = np.sort(confidence), np.sort(confidence[~correct])
    cut, cut_wrong = (
        np.concatenate([[0], np.searchsorted(x, inner, side="right"), [len(x)]])
        for x in (every, wrong)
    )
    count = np.diff(cut)
    return Bins(count, count - np.diff(cut_wrong), _stretches(every.astype(np.float64), cut))


def _stretches(values: Array, cut: Array) -> Array:
    """Sum `values` between neighbouring places of `cut`; 0 where they are the same."""
    sums, filled = np.zeros(len(cut) - 1), cut[:-1] < cut[1:]
    sums[filled] = np.add.reduceat(values, cut[:-1][filled])
    return sums


def top_label(probs: ArrayLike, labels: ArrayLike) -> tuple[ArrayOrTensor, ArrayOrTensor]:
    """Return the confidence in the most probable class of each sample, and whether it is right.

    It is several times faster than ``probs.max(axis=1)`` and ``probs.argmax(axis=1) == labels``,
    and gives the same.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Probabilities. Of equal ones in a row the first is the prediction.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.

    Returns
    -------
    confidence : array (n,)
        What `auroc`, `aurc` and their relatives rank.
    correct : array (n,) of bool
        Tensors if `probs` is one.

    Raises
    ------
    ValueError
        If an argument is empty or malformed, or a label is out of range.

    Examples
    --------
    >>> confidence, correct = top_label([[0.9, 0.1], [0.4, 0.6]], [0, 0])
    >>> confidence.tolist(), correct.tolist()
    ([0.9, 0.6], [True, False])
    """
    if np.ndim(probs) != 2:
        raise ValueError(f"probs: got shape {np.shape(probs)}, expected (n, k)")
    confidence, correct = _top_label(probs, labels)
    return like(confidence, probs), like(correct, probs)


def _top_label(probs: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Return confidence (n,) and correctness (n,) of the most probable class.

    Of one axis, `probs` are confidences already and `labels` say which are right.
    """
    if np.ndim(probs) == 1 and np.ndim(labels) == 1 and np.size(probs):
        return as_confidence_correct(probs, labels, unit=True)
    array, checked = prob_blocks(probs)
    n, k = array.shape
    labels = as_labels(labels, k, n)
    confidence, correct = np.empty(n, array.dtype), np.empty(n, bool)
    if k <= FEW_CLASSES:
        for rows, columns in prob_blocks(probs, turned=True)[1]:
            top = confidence[rows] = columns.max(axis=0)
            correct[rows] = _of_labels(array[rows], labels[rows]) == top
            # An equal and earlier class may be the predicted one.
            equal = np.add.reduce((columns == top).view(np.uint8), axis=0, dtype=np.uint8)
            tied = rows.start + np.flatnonzero(equal > 1)
            if len(tied):
                correct[tied] = array[tied].argmax(axis=1) == labels[tied]
        return confidence, correct
    for rows, block in checked:
        label = labels[rows]
        true = _of_labels(block, label)
        sure = true > 0.51  # no other class of a row that sums to 1 can reach it
        confidence[rows], correct[rows] = true, sure
        # Looking for the largest only where it is in doubt pays if that is not often.
        doubt = np.flatnonzero(~sure)
        if len(doubt) > len(block) // 2:
            doubt = np.arange(len(block))
        else:
            block = block[doubt]
        predicted = block.argmax(axis=1)
        where = doubt + rows.start
        confidence[where] = block[np.arange(len(block)), predicted]
        correct[where] = predicted == label[doubt]
    return confidence, correct


def _of_labels(block: Array, labels: Array) -> Array:
    # Flat indices take half the time of block[row, label].
    return block.ravel()[np.arange(0, block.size, block.shape[1]) + labels]


# ---------------------------------------------------------------------------- calibration


def ece(
    probs: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    r"""Expected calibration error of the top label, in bins of equal width.

    .. math:: \mathrm{ECE} = \sum_m \frac{|B_m|}{n}\,|\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    Naeini et al. 2015; Guo et al. 2017. All five papers report it: Singh et al. 2021 in eq. 3, Wang
    et al. 2021 and Lin et al. 2025 in 15 bins.

    Parameters
    ----------
    probs : array or tensor, shape (n, k) or (n,)
        Predicted probabilities; rows sum to 1. Or (n,): a confidence for each answer, or the
        probability of one event, where there are no classes.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1. For `probs` (n,): whether the answer is right, or the event
        happened, as booleans or 0 and 1.
    bins : int
        Number of bins (lo, hi] of equal width on [0, 1]; confidences of exactly 0 and 1 are
        counted.
    sample_weight : array or tensor, shape (n,), optional
        How much each sample counts, from 0. Whole numbers are numbers of rows: 2 is a row that is
        there twice. Others say how much a row counts beside another; only their ratios matter.

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a row is not a
        distribution, or `bins` is below 1.

    Examples
    --------
    >>> round(ece([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], [0, 1, 1]), 4)
    0.1667
    >>> round(ece([0.9, 0.7, 0.7], [True, False, True]), 4)  # confidences and correctness
    0.1667
    """
    check_bins(bins)
    return _ece(_top_bins(probs, labels, bins, sample_weight))


def _ece(table: Bins) -> float:
    return float(np.abs(table.right - table.confidence).sum() / table.count.sum())


def adaptive_ece(
    probs: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    r"""Calibration error of the top label, in bins of (nearly) equal count.

    .. math:: \sum_m \frac{|B_m|}{n}\,|\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    with bins cut at the quantiles of the confidence ("AdaECE" of Lin et al. 2025, in 15 bins in
    their code). Equal confidences share a bin, so bins are unequal where they pile up. The authors'
    code interpolates the edges and loses the sample of lowest confidence: less than 1/n.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    bins : int
        Number of bins.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a row is not a
        distribution, or `bins` is below 1.

    Examples
    --------
    >>> round(adaptive_ece([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], [0, 1, 1], bins=1), 4)
    0.1
    """
    check_bins(bins)
    return _ece(_binned(_top_ranking(probs, labels, sample_weight), bins, "equal_mass"))


def mce(
    probs: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    r"""Maximum calibration error: the largest gap of any non-empty bin of equal width.

    .. math:: \mathrm{MCE} = \max_m |\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    Naeini et al. 2015. A bin with one sample counts as much as any other, which makes this metric
    noisy.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    bins : int
        Number of bins (lo, hi] of equal width on [0, 1].
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a row is not a
        distribution, or `bins` is below 1.

    Examples
    --------
    >>> round(mce([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], [0, 1, 1]), 4)
    0.2
    """
    check_bins(bins)
    return _mce(_top_bins(probs, labels, bins, sample_weight))


def _mce(table: Bins) -> float:
    return float((np.abs(table.right - table.confidence) / np.maximum(table.count, _LEAST)).max())


def ece_floor(
    probs: ArrayLike,
    labels: "ArrayLike | None" = None,
    bins: int = 15,
    of: Binned = "ece",
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    r"""Calibration error that chance alone would show: its expectation for a calibrated model.

    Given the confidences, a calibrated model is right with exactly those probabilities, so that the
    number right in a bin is a sum of independent draws, a Poisson-binomial variable, and

    .. math:: \mathrm{floor} = \frac1n\sum_m \mathrm E\,\Big|\sum_{i \in B_m}
              (t_i - c_i)\Big|, \qquad t_i \sim \mathrm{Bernoulli}(c_i).

    The mean absolute deviation of a bin is de Moivre's for the binomial variable of the same mean
    and variance: 2k C(N, k) p^k (1 - p)^(N - k + 1) with k = ⌊Np⌋ + 1 (Diaconis and Zabell, 1991).
    That is exact where the confidences of a bin are equal or it holds one sample, within 0.6 % in
    bins as narrow as 1/15 and within 3 % in any bin of 10 samples or more.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,), optional
        Not used, since the floor does not depend on them: accepted so that the function is called
        like the other errors.
    bins : int
        Number of bins (lo, hi] on [0, 1], of equal width or, for "adaptive_ece", of equal
        count.
    of : {"ece", "adaptive_ece", "classwise_ece"}
        Which calibration error; the last draws the label from the row of probabilities.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`. The floor depends on the number of samples. Of whole numbers it is their sum;
        others leave as many as have equal weight, (Σw)² / Σw² (Kish 1965), since a few heavy rows
        vary as a few rows do.

    Returns
    -------
    float
        A fraction. It falls as 1/√n: for 10,000 samples at 94 % accuracy it is about 0.005, as
        large as published differences.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a row is not a
        distribution, `bins` is below 1, or `of` is unknown.

    Examples
    --------
    >>> round(ece_floor([[0.5, 0.5]] * 2, bins=1), 6)  # 0, 1 or 2 right, with chances 1/4, 1/2, 1/4
    0.25
    """
    check_bins(bins)
    _check_binned(of)
    if of == "classwise_ece":
        probs = as_probs(probs)
        anything = np.zeros(len(probs), dtype=np.intp) if labels is None else labels
        return _classwise_floor(_classes_of(probs, anything, bins, sample_weight))
    confidence = as_probs(probs).max(axis=1)
    weights = _weights(sample_weight, len(confidence))
    ranking = Ranking.of(confidence, np.ones(len(confidence), bool), weights)
    return _floor(ranking, bins, _SCHEMES[of])


@_once
def _floor(ranking: Ranking, bins: int, scheme: Scheme) -> float:
    cut = _cuts(ranking, bins, scheme)
    doubt = 1 - ranking.confidence
    weighted = ranking.count * doubt
    count, worth = _binned(ranking, bins, scheme).count[::-1], ranking.worth
    sums = count, _stretches(weighted, cut), _stretches(weighted * doubt, cut)
    deviation = mean_deviation(*(worth * x for x in sums))
    return float(deviation.sum() / (worth * ranking.n))


def _classwise_floor(classes: "_Classes") -> float:
    worth = classes.worth
    deviation = mean_deviation(*(worth * x for x in (classes.count, classes.p, classes.pp)))
    return float(deviation.sum(axis=1).mean() / (worth * classes.n))


def mean_deviation(count: ArrayLike, total: ArrayLike, squares: ArrayLike) -> Array:
    """Mean absolute deviation of sums of independent yes-or-no draws, from moments of the chances.

    That of the binomial variable of the same mean and variance; see `ece_floor` for the formula,
    its source and its accuracy.

    Parameters
    ----------
    count : array
        Number of draws in each sum.
    total : array of that shape
        Sum of their chances.
    squares : array of that shape
        Sum of the squares of their chances.

    Returns
    -------
    array
        E|S - E S| of every sum S; 0 where nothing is left to chance.

    Examples
    --------
    >>> mean_deviation([2, 1], [1.0, 0.9], [0.5, 0.81]).round(6)  # two coins; one draw of 0.9
    array([0.5 , 0.18])
    """
    count, total, squares = (np.asarray(x, dtype=np.float64) for x in (count, total, squares))
    # Of yes and no the rarer one is counted: its chances govern the shape of the distribution.
    common = total > count / 2
    mean = np.where(common, count - total, total)
    square = np.where(common, count - 2 * total + squares, squares)
    deviation, some = np.zeros(np.shape(mean)), mean > 1e-12 * np.maximum(count, 1)
    mean = mean[some]
    square = np.clip(square[some], mean**2 / count[some], mean)  # rounding may leave the possible
    from scipy.special import gammaln  # here, because importing takes longer than most calls

    p, trials, k = square / mean, mean**2 / square, np.floor(mean) + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        log = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
        log += k * np.log(p) + (trials - k + 1) * np.log1p(-p)
    deviation[some] = np.where(p < 1, 2 * k * np.exp(log), 0.0)
    return deviation


def excess_ece(
    probs: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    of: Binned = "ece",
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    """Calibration error beyond what chance alone would show: the error minus its `ece_floor`.

    For a calibrated model it is 0 on average, whatever its accuracy and the size of the test set,
    so models can be compared by it; plain errors cannot be compared where floors differ. A large
    miscalibration hides the noise, and the excess then understates it by up to the floor.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    bins : int
        Number of bins (lo, hi] on [0, 1], of equal width or, for "adaptive_ece", of equal
        count.
    of : {"ece", "adaptive_ece", "classwise_ece"}
        Which calibration error; the last draws the label from the row of probabilities.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece_floor`.

    Returns
    -------
    float
        A fraction from -1 to 1; lower is better. Negative where a model happens to agree with its
        labels better than a calibrated one would on average.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a row is not a
        distribution, `bins` is below 1, or `of` is unknown.

    Examples
    --------
    >>> probs, labels = [[0.5, 0.5]] * 2, [0, 1]
    >>> ece(probs, labels, bins=1), round(excess_ece(probs, labels, bins=1), 6)
    (0.0, -0.25)
    """
    check_bins(bins)
    _check_binned(of)
    if of == "classwise_ece":
        classes = _classes_of(probs, labels, bins, sample_weight)
        return _classwise_ece(classes) - _classwise_floor(classes)
    return _excess(_top_ranking(probs, labels, sample_weight), bins, _SCHEMES[of])


def _excess(ranking: Ranking, bins: int, scheme: Scheme = "equal_width") -> float:
    return _ece(_binned(ranking, bins, scheme)) - _floor(ranking, bins, scheme)


def debiased_ece(
    probs: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    r"""Root mean square calibration error of the top label, without what chance adds to its square.

    .. math:: \widehat{\mathcal E}^2 = \sum_m \frac{n_m}{n}\Big[\big(\mathrm{conf}(B_m) -
              \mathrm{acc}(B_m)\big)^2 - \frac{\mathrm{acc}(B_m)\,(1 - \mathrm{acc}(B_m))}
              {n_m - 1}\Big]

    The debiased estimator of Kumar, Liang and Ma ("Verified Uncertainty Calibration", NeurIPS 2019,
    section 4; Ferro and Fricker, 2012), in bins of equal count as theirs. It is an L2 error, at
    least as large as the L1 error that `ece` estimates. Bins of one sample, whose noise
    cannot be estimated, are left out.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    bins : int
        Number of bins of equal count.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece_floor`.

    Returns
    -------
    float
        The root of the estimate, a fraction in the units of `ece`. The estimated square may be
        negative by chance; then minus the root of its size, to be read as "none found".

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a row is not a
        distribution, or `bins` is below 1.

    Examples
    --------
    >>> round(debiased_ece([[0.9, 0.1]] * 4, [0, 0, 1, 1], bins=1), 4)  # 0.16 - 0.25 / 3
    0.2769
    >>> round(debiased_ece([[0.5, 0.5]] * 4, [0, 0, 1, 1], bins=1), 4)
    -0.2887
    """
    check_bins(bins)
    return _debiased_ece(_top_ranking(probs, labels, sample_weight), bins)


def _debiased_ece(ranking: Ranking, bins: int) -> float:
    table, worth = _binned(ranking, bins, "equal_mass"), ranking.worth
    count, right, confidence = (column[worth * table.count > 1] for column in table)
    accuracy = right / count
    noise = accuracy * (1 - accuracy) / (worth * count - 1)
    square = float(count @ ((confidence / count - accuracy) ** 2 - noise) / ranking.n)
    return math.copysign(math.sqrt(abs(square)), square)


def overconfidence_error(
    probs: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    r"""Overconfidence error: the gap of over-confident bins only, weighted by confidence.

    .. math:: \mathrm{OE} = \sum_m \frac{|B_m|}{n}\,
              \mathrm{conf}(B_m)\,\max(\mathrm{conf}(B_m) - \mathrm{acc}(B_m),\,0)

    Thulasidasan et al. 2019; named in Singh et al. 2021, section 3.3.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    bins : int
        Number of bins (lo, hi] of equal width on [0, 1].
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a row is not a
        distribution, or `bins` is below 1.

    Examples
    --------
    >>> round(overconfidence_error([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], [0, 1, 1]), 4)
    0.0933
    """
    check_bins(bins)
    return _overconfidence_error(_top_bins(probs, labels, bins, sample_weight))


def _overconfidence_error(table: Bins) -> float:
    mean = table.confidence / np.maximum(table.count, _LEAST)
    excess = np.maximum(table.confidence - table.right, 0)
    return float((mean * excess).sum() / table.count.sum())


def smooth_ece(
    probs: ArrayLike, labels: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    r"""Calibration error of the top label without bins: "smECE" (Błasiok and Nakkiran, 2024).

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big|\frac1n\sum_i
              K_\sigma(t, c_i)\,(c_i - a_i)\Big|\,\mathrm dt

    with confidence c, correctness a and a Gaussian kernel reflected at 0 and 1, whose width is the
    σ that the error itself reaches: the least with smECE_σ <= σ. There is no number of bins to
    argue about. As in the authors' library, relplot, sums are taken on a grid of 1,001 points or,
    if σ < 0.01, more, and divided by the smoothed density in place of n.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, or a row is not
        a distribution.

    Examples
    --------
    >>> round(smooth_ece([[0.9, 0.1], [0.7, 0.3]], [0, 1]), 2)
    0.3
    """
    confidence, correct = _top_label(probs, labels)
    confidence = confidence.astype(np.float64)
    weights = _weights(sample_weight, len(correct))
    error = _smoothed_error(confidence, confidence - correct, weights)

    def enough(width: float) -> bool:
        return width < 1e-3 or width < error(width)

    if enough(1.0):
        return error(1.0)
    width, low = 1.0, 0.0
    for _ in range(10):
        middle = (width + low) / 2
        width, low = (width, middle) if enough(middle) else (middle, low)
    return error(width)


def _smoothed_error(
    confidence: Array, residual: Array, weights: "Array | None" = None
) -> Callable[[float], float]:
    """The smoothed calibration error as a function of the kernel's width."""
    count = np.ones_like(residual) if weights is None else weights
    residual = residual if weights is None else residual * weights

    @functools.cache
    def spectrum(points: int) -> Array:
        """Of residuals and counts, shared out to the grid points on either side and reflected."""
        place = confidence * (points - 1)
        left = place.astype(np.intp).clip(0, points - 2)
        share = place - left
        on_grid = np.empty((2, points))
        for row, weight in zip(on_grid, (residual, count), strict=True):
            row[:] = np.bincount(left, (1 - share) * weight, minlength=points)
            row[1:] += np.bincount(left, share * weight, minlength=points - 1)
        return np.fft.rfft(np.hstack([on_grid, on_grid[:, -2:0:-1]]))

    @functools.cache
    def error(width: float) -> float:
        points = max(2000, round(20 / width)) // 2 + 1
        kernel = np.exp(-((np.linspace(0, 1, points) - 0.5) ** 2) / (2 * width**2))
        kernel = np.pad(kernel / (math.sqrt(2 * math.pi) * width), (0, points - 2))
        size = 2 * points - 2
        product = spectrum(points) * np.fft.rfft(np.roll(kernel, -(points // 2)))
        smooth = np.fft.irfft(product, size)[:, :points]
        at = np.linspace(0, 1, max(200, round(10 / width)))
        gap, density = (np.interp(at, np.linspace(0, 1, points), row) for row in smooth)
        return float(np.abs(gap).sum() / (density + 1e-4).sum())

    return error


def reliability_bins(
    confidence: ArrayLike,
    correct: ArrayLike,
    bins: int = 15,
    scheme: Scheme = "equal_width",
    *,
    sample_weight: "ArrayLike | None" = None,
) -> dict[str, ArrayOrTensor]:
    """Bin predictions by confidence: the numbers of a reliability diagram.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Confidences in [0, 1].
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    bins : int
        Number of bins.
    scheme : {"equal_width", "equal_mass"}
        Bins (lo, hi] of equal width on [0, 1], or of (nearly) equal count; ties stay together.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    dict
        ``edges`` (bins + 1,); per bin ``count``, mean ``confidence`` and ``accuracy``, both ``nan``
        in an empty bin. Tensors if `confidence` is one.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, the lengths differ, a confidence lies
        outside [0, 1], or `bins` is below 1.

    Examples
    --------
    >>> table = reliability_bins([0.9, 0.7, 0.7], [True, False, True], bins=2)
    >>> table["count"].tolist(), table["accuracy"].round(2).tolist()
    ([0, 3], [nan, 0.67])
    """
    check_bins(bins)
    values, right = as_confidence_correct(confidence, correct, unit=True)
    weights = _weights(sample_weight, len(right))
    if scheme == "equal_width":
        table, edges = _top_bins(values, right, bins, weights), np.linspace(0, 1, bins + 1)
    else:
        ranking = Ranking.of(values, right, weights)
        table = _binned(ranking, bins, scheme)
        ascending = ranking.confidence[::-1]
        upto = np.cumsum(ranking.count[::-1])
        last = np.searchsorted(upto * bins, (np.arange(1, bins + 1) - ranking.near) * ranking.n)
        edges = np.r_[ascending[0], ascending[last]]
    empty = table.count == 0
    size = np.where(empty, np.nan, table.count)
    numbers = {
        "edges": edges,
        "count": table.count.astype(np.int64) if weights is None else table.count,
        "confidence": table.confidence / size,
        "accuracy": table.right / size,
    }
    return {key: like(value, confidence) for key, value in numbers.items()}


def nll(probs: ArrayLike, labels: ArrayLike, *, sample_weight: "ArrayLike | None" = None) -> float:
    r"""Negative log-likelihood: the mean of :math:`-\log p_y`.

    Infinite if a true class was given probability 0. In `summary` a 0 counts as what rounding may
    have made a 0.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        In nats, from 0; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, or a row is not
        a distribution.

    Examples
    --------
    >>> round(nll([[0.9, 0.1], [0.5, 0.5]], [0, 1]), 4)
    0.3993
    """
    probs = as_probs(probs)
    labels = as_labels(labels, probs.shape[1], len(probs))
    true = probs[np.arange(len(probs)), labels]
    with np.errstate(divide="ignore"):  # -log 0 is infinite, and that is the answer
        losses = -np.log(np.minimum(true, 1).astype(np.float64))
    return _mean(losses, _weights(sample_weight, len(losses)))


def brier(
    probs: ArrayLike, labels: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    r"""Brier score: mean over samples of the squared error summed over classes.

    .. math:: \mathrm{Brier} = \frac1n\sum_i\sum_k (p_{ik} - \mathbb 1[y_i = k])^2

    Brier 1950; Zhu et al. 2022, eq. 6, whose square was lost in print.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 to 2; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, or a row is not
        a distribution.

    Examples
    --------
    >>> round(brier([[0.9, 0.1], [0.5, 0.5]], [0, 1]), 4)
    0.26
    """
    probs, checked = prob_blocks(probs)
    labels = as_labels(labels, probs.shape[1], len(probs))
    weights, total = _weights(sample_weight, len(probs)), 0.0
    for rows, block in checked:
        error = block.copy()
        error[np.arange(len(error)), labels[rows]] -= 1
        squares = np.einsum("ij,ij->i", error, error)
        if weights is not None:
            squares = weights[rows] * squares
        total += float(squares.sum(dtype=np.float64))
    return total / (len(probs) if weights is None else float(weights.sum()))


def classwise_ece(
    probs: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    r"""Calibration error of every class's probability, averaged over the classes.

    .. math:: \frac1K\sum_{j}\sum_m \frac{|B_{m,j}|}{n}\,
              |\mathrm{freq}_j(B_{m,j}) - \mathrm{conf}_j(B_{m,j})|

    with bins over the probability of class j and the frequency of class j in them (Lin et al. 2025,
    in 15 bins in their code). Small for many classes, since most probabilities are nearly 0.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    bins : int
        Number of bins (lo, hi] of equal width on [0, 1].
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a row is not a
        distribution, or `bins` is below 1.

    Examples
    --------
    >>> round(classwise_ece([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], [0, 1, 1]), 4)
    0.3667
    """
    return _classwise_ece(_classes_of(probs, labels, bins, sample_weight))


def brier_decomposition(
    probs: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> dict[str, float]:
    r"""Split the Brier score into calibration and refinement, without a remainder.

    Every class is a yes-or-no forecast, binned by its probability into bins of equal width; the
    terms are summed over classes. With :math:`\bar p_m`, :math:`\bar t_m` the mean probability and
    the frequency in a bin of :math:`n_m` samples, and :math:`\bar t` the overall frequency,

    .. math::
        \mathrm{calibration} &= \textstyle\sum_m \frac{n_m}{n} (\bar p_m - \bar t_m)^2 \\
        \mathrm{uncertainty} &= \bar t (1 - \bar t) \\
        \mathrm{resolution} &= \textstyle\sum_m \frac{n_m}{n} (\bar t_m - \bar t)^2 \\
        \mathrm{within\_bin} &= \textstyle\frac1n\sum_m\sum_{i \in m}
            (p_i - \bar p_m)^2 - 2 (p_i - \bar p_m)(t_i - \bar t_m)

    Murphy (1973) has the first three, which are exact only if all forecasts in a bin are the same;
    the last is what binning hides (Stephenson, Coelho and Jolliffe, 2008). Then, exactly,

    - ``brier = calibration + refinement``, the two parts in Singh et al. 2021, section 3.3, and
    - ``refinement = uncertainty - resolution + within_bin``.

    Calibration is what recalibration can repair; refinement is what it cannot.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities; rows sum to 1.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    bins : int
        Number of bins (lo, hi] of equal width on [0, 1].
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    dict
        ``brier``, ``calibration``, ``refinement``, ``uncertainty``, ``resolution``,
        ``within_bin``.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a row is not a
        distribution, or `bins` is below 1.

    Examples
    --------
    >>> parts = brier_decomposition([[0.8, 0.2]] * 5, [0, 0, 0, 1, 1])
    >>> {name: round(parts[name], 4) for name in ("brier", "calibration", "refinement")}
    {'brier': 0.56, 'calibration': 0.08, 'refinement': 0.48}
    """
    return _brier_decomposition(_classes_of(probs, labels, bins, sample_weight))


class _Classes:
    """Per class and bin of its probability: count, and sums of p, t, p squared and p times t.

    Nearly all probabilities are in the lowest bin when there are many classes. Only the others are
    looked at one by one; the lowest bin is what remains of the column sums.
    """

    def __init__(
        self, n: int, k: int, bins: int, dtype: np.dtype, weights: "Array | None" = None
    ) -> None:
        if k * bins > MOST_CELLS:
            raise ValueError(
                f"bins: got {bins} for {k} classes, expected at most {MOST_CELLS // k:,}, since "
                "there is a number for each class and bin"
            )
        self.n, self.shape = n if weights is None else float(weights.sum()), (k, bins)
        self.weights, self.worth = weights, 1.0 if weights is None else _size(weights) / self.n
        self.inner = _edges(bins, dtype)[1:-1]
        self.lowest = self.inner[0] if bins > 1 else np.inf
        self.count, self.p, self.pp = (np.zeros(k * bins) for _ in range(3))
        self.all_p, self.all_error = np.zeros(k), np.zeros(k)

    def _cell(self, classes: Array, p: Array) -> Array:
        return classes * self.shape[1] + np.searchsorted(self.inner, p)

    def add(self, block: Array, labels: Array, rows: slice) -> Array:
        """Count a block of probabilities, which is used up; return the squared error per row."""
        high = np.flatnonzero(block > self.lowest)
        own = None if self.weights is None else self.weights[rows]
        many = 1 if own is None else own[high // block.shape[1]]
        p = block.ravel()[high]
        cell = self._cell(high % block.shape[1], p)
        p = p.astype(np.float64)
        np.add.at(self.count, cell, many)
        np.add.at(self.p, cell, many * p)
        np.add.at(self.pp, cell, many * (p * p))
        self.all_p += _column_sums(block, own)
        block[np.arange(len(block)), labels] -= 1
        np.multiply(block, block, out=block)
        self.all_error += _column_sums(block, own)
        return row_sums(block)

    def close(self, true_p: Array, labels: Array) -> "_Classes":
        """Fill in the lowest bins, and the labels with the probability each was given."""
        k, bins = self.shape
        cell = self._cell(labels, true_p)
        own = true_p if self.weights is None else self.weights * true_p
        t = np.bincount(cell, self.weights, k * bins).reshape(k, bins).astype(np.float64)
        pt = np.bincount(cell, own, k * bins).reshape(k, bins)
        count, p, pp = (sums.reshape(k, bins) for sums in (self.count, self.p, self.pp))
        rest, near = self.n - count.sum(axis=1), 0.0 if self.weights is None else _NEAR * self.n
        count[:, 0] = np.where(rest > near, rest, t[:, 0])  # of weights, rounding may be left
        p[:, 0] = self.all_p - p.sum(axis=1)
        # A sum of (p - t)^2 over a column is one of p^2, - 2pt and t (t^2 = t).
        pp[:, 0] = self.all_error + 2 * pt.sum(axis=1) - t.sum(axis=1) - pp.sum(axis=1)
        for sums in (p, pp):
            sums[:, 0] = np.where(count[:, 0] > 0, np.maximum(sums[:, 0], 0), 0)
        self.count, self.p, self.t, self.pp, self.pt = count, p, t, pp, pt
        return self


def _column_sums(block: Array, weights: "Array | None") -> Array:
    return block.sum(axis=0, dtype=np.float64) if weights is None else weights @ block


def _classes_of(
    probs: ArrayLike, labels: ArrayLike, bins: int, sample_weight: "ArrayLike | None" = None
) -> _Classes:
    check_bins(bins)
    probs, checked = prob_blocks(probs)
    labels = as_labels(labels, probs.shape[1], len(probs))
    classes = _Classes(*probs.shape, bins, probs.dtype, _weights(sample_weight, len(probs)))
    for rows, block in checked:
        classes.add(block.copy(), labels[rows], rows)
    return classes.close(probs[np.arange(len(probs)), labels], labels)


def _classwise_ece(classes: _Classes) -> float:
    return float(np.abs(classes.p - classes.t).sum(axis=1).mean() / classes.n)


def _brier_decomposition(classes: _Classes) -> dict[str, float]:
    size = np.maximum(classes.count, _LEAST)
    p, t = classes.p / size, classes.t / size
    base = classes.t.sum(axis=1, keepdims=True) / classes.n
    uncertainty = float((base * (1 - base)).sum())
    calibration = float((classes.count * (p - t) ** 2).sum() / classes.n)
    resolution = float((classes.count * (t - base) ** 2).sum() / classes.n)
    variance = classes.pp - classes.p * p
    covariance = classes.pt - classes.p * t
    within = float((variance - 2 * covariance).sum() / classes.n)
    return {
        "brier": float((classes.pp - 2 * classes.pt + classes.t).sum() / classes.n),
        "calibration": calibration,
        "refinement": uncertainty - resolution + within,
        "uncertainty": uncertainty,
        "resolution": resolution,
        "within_bin": within,
    }


# ------------------------------------------------------------------------- failure prediction


def auroc(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    r"""Area under the ROC curve: the chance that a right prediction outranks a wrong one.

    .. math:: P(\hat p_\text{right} > \hat p_\text{wrong}) +
              \tfrac12 P(\hat p_\text{right} = \hat p_\text{wrong})

    The positive class is a correct prediction (Zhu et al. 2022; "refinement" in Singh et al. 2021,
    eq. 4, where the correction term must count the positives).

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 to 1, 0.5 by chance; higher is better. ``nan`` with an `UndefinedMetricWarning`
        unless there are both right and wrong predictions.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the lengths differ.

    Examples
    --------
    >>> auroc([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    0.6666666666666666
    """
    return _defined("auroc", _auroc(_failures(confidence, correct, sample_weight)))


def _auroc(ranking: Ranking | _Failures) -> float:
    pairs = ranking.all_right * ranking.all_wrong
    return ranking.wins / pairs if pairs else math.nan


def aupr_success(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    r"""Area under the precision-recall curve; positive = correct prediction.

    .. math:: \mathrm{AP} = \sum_g (R_g - R_{g-1})\,P_g

    over the distinct confidences, highest first. The code of Zhu et al. 2022 joins the points by
    straight lines instead, which moves it by less than 0.001.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 to 1; a random ranking gives the accuracy; higher is better. ``nan`` with an
        `UndefinedMetricWarning` if no prediction is right.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the lengths differ.

    Examples
    --------
    >>> aupr_success([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    0.9166666666666666
    """
    return _defined(
        "aupr_success", _aupr_success(_ranking(confidence, correct, sample_weight=sample_weight))
    )


def _aupr_success(ranking: Ranking) -> float:
    if not ranking.all_right:
        return math.nan
    return float(ranking.right @ (1 - ranking.risk()) / ranking.all_right)


def aupr_error(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    r"""Area under the precision-recall curve; positive = wrong prediction, lowest confidence first.

    The average precision of `aupr_success` for the other class; the code of Zhu et al. 2022 does
    the same.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 to 1; a random ranking gives the error rate; higher is better. ``nan`` with an
        `UndefinedMetricWarning` if no prediction is wrong.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the lengths differ.

    Examples
    --------
    >>> aupr_error([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    0.5
    """
    return _defined(
        "aupr_error", _aupr_error(_ranking(confidence, correct, sample_weight=sample_weight))
    )


def _aupr_error(ranking: Ranking) -> float:
    if not ranking.all_wrong:
        return math.nan
    # With this confidence or a lower one.
    rejected, rejected_wrong = (np.cumsum(x[::-1])[::-1] for x in (ranking.count, ranking.wrong))
    precision = rejected_wrong / np.maximum(rejected, _LEAST)
    return float(ranking.wrong @ precision / ranking.all_wrong)


def risk_coverage(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> tuple[ArrayOrTensor, ArrayOrTensor]:
    r"""Error rate among the accepted against the share accepted, for every possible threshold.

    One point for each distinct confidence, highest first: predictions of equal confidence can only
    be accepted together (Geifman and El-Yaniv 2017; Zhu et al. 2022).

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    coverage : array or tensor, shape (g,)
        Shares accepted, in (0, 1], ascending to 1.
    risk : array or tensor, shape (g,)
        Error rates among the accepted; the last is that of the model.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the lengths differ.

    Examples
    --------
    >>> risk_coverage([0.9, 0.8, 0.8, 0.6], [True, True, False, False])
    (array([0.25, 0.75, 1.  ]), array([0.        , 0.33333333, 0.5       ]))
    """
    ranking = _ranking(confidence, correct, sample_weight=sample_weight)
    coverage = ranking.accepted / ranking.n
    return like(coverage, confidence), like(ranking.risk(), confidence)


def aurc(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    r"""Area under the risk-coverage curve: the risk averaged over all coverages.

    .. math:: \mathrm{AURC} = \frac1n\sum_{i=1}^n \frac{\#\text{wrong among the first } i}{i}

    with predictions sorted by decreasing confidence (Zhu et al. 2022, whose tables print 1000 times
    this). The order of equal confidences is arbitrary: the value is the mean over all orders.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`. The mean is over places, of which whole numbers make their sum, and others as
        many as there are rows: 1/i is then continued between whole numbers (digamma function).

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the lengths differ.

    Examples
    --------
    >>> round(aurc([0.9, 0.8, 0.7, 0.6], [True, True, False, True]), 6)
    0.145833
    """
    return _aurc(_failures(confidence, correct, sample_weight))


@functools.lru_cache(maxsize=1)
def _harmonic(n: int) -> Array:
    """Return 1 + 1/2 + ... + 1/i for i = 0 to n."""
    numbers = np.zeros(n + 1)
    np.divide(1, np.arange(1, n + 1), out=numbers[1:])
    return np.cumsum(numbers, out=numbers)


def _harmonic_at(x: "Array | float") -> "Array | float":
    """Harmonic numbers between the whole ones, for weights."""
    from scipy.special import digamma  # here, because importing takes longer than most calls

    return digamma(x + 1.0) + np.euler_gamma


def _aurc(failures: "_Failures | Ranking") -> float:
    # A wrong prediction at place r adds 1/r + ... + 1/n = H_n - H_(r-1) to the sum of the risks: on
    # average over the places a + 1 to b of a tie, H_n - H_b + 1 - a (H_b - H_a) / (b - a).
    before, upto, wrong, n = failures if isinstance(failures, _Failures) else failures.failures
    of = _harmonic(n).__getitem__ if isinstance(n, int) else _harmonic_at
    last = of(upto)
    tied = before * (last - of(before)) / np.maximum(upto - before, _LEAST)
    return float(wrong @ (of(n) - last + 1 - tied) / n)


def eaurc(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    r"""Excess AURC: what a perfect ranking of the same predictions would save.

    .. math:: \text{E-AURC} = \mathrm{AURC} - \big(r + (1 - r)\ln(1 - r)\big)

    with error rate r; the bracket is the AURC of a perfect ranking of infinitely many samples, as
    in Zhu et al. 2022 (whose tables print 1000 times this, and whose text defines it in words).

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `aurc`.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the lengths differ.

    Examples
    --------
    >>> round(eaurc([0.9, 0.8, 0.7, 0.6], [True, True, False, True]), 6)
    0.111595
    """
    return _eaurc(_failures(confidence, correct, sample_weight))


def _eaurc(failures: "_Failures | Ranking") -> float:
    risk = failures.all_wrong / failures.n
    optimal = risk + (1 - risk) * math.log1p(-risk) if risk < 1 else 1.0
    return _aurc(failures) - optimal


def augrc(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    r"""Area under the generalised risk-coverage curve: wrong and accepted, as a share of all.

    .. math:: \mathrm{AUGRC} = (1 - \mathrm{AUROC})\,r(1 - r) + \tfrac12 r^2

    with error rate r (Traub et al., 2024): the trapezoid area, which is the chance that a
    prediction fails without being caught. Unlike in `aurc`, an early failure weighs no more than a
    later one.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 to 0.5; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the lengths differ.

    Examples
    --------
    >>> augrc([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    0.09375
    """
    return _augrc(_failures(confidence, correct, sample_weight))


def _augrc(ranking: Ranking | _Failures) -> float:
    losses = ranking.all_right * ranking.all_wrong - ranking.wins
    return (losses + ranking.all_wrong**2 / 2) / ranking.n**2


def fpr_at_tpr(
    confidence: ArrayLike,
    correct: ArrayLike,
    tpr: float = 0.95,
    convention: Literal["exact", "nearest"] = "exact",
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    """Share of the wrong predictions accepted where a share `tpr` of the right ones is (FPR95).

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    tpr : float
        Share of the right predictions to accept, in (0, 1].
    convention : {"exact", "nearest"}
        "exact" takes the highest threshold that accepts at least `tpr` of the right predictions.
        "nearest" does as the code of Zhu et al. 2022: of the corners of the ROC curve, the one
        whose true-positive rate is nearest to `tpr`, even if below it; some 0.1 points lower.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 to 1; lower is better. ``nan`` with an `UndefinedMetricWarning` unless there are both
        right and wrong predictions.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, the lengths differ, `tpr` is out of range,
        or `convention` is unknown.

    Examples
    --------
    >>> fpr_at_tpr([0.9, 0.8, 0.7, 0.6], [True, True, False, True], tpr=0.6)
    0.0
    >>> fpr_at_tpr([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    1.0
    """
    _check_fraction("tpr", tpr, zero=False)
    if convention not in ("exact", "nearest"):
        raise ValueError(f"convention: got {convention!r}, expected 'exact' or 'nearest'")
    ranking = _ranking(confidence, correct, sample_weight=sample_weight)
    return _defined("fpr_at_tpr", _fpr_at_tpr(ranking, tpr, exact=convention == "exact"))


def _fpr_at_tpr(ranking: Ranking, tpr: float = 0.95, exact: bool = True) -> float:
    right, wrong = ranking.accepted_right, ranking.accepted_wrong
    if not ranking.all_right or not ranking.all_wrong:
        return math.nan
    if exact:
        return ranking.fpr_at_tpr(tpr)
    corner = np.ones(len(right), dtype=bool)
    corner[1:-1] = (np.diff(right, 2) != 0) | (np.diff(wrong, 2) != 0)
    right, wrong = np.r_[0, right[corner]], np.r_[0, wrong[corner]]
    return float(wrong[np.argmin(np.abs(right / ranking.all_right - tpr))] / ranking.all_wrong)


def risk_at_coverage(
    confidence: ArrayLike,
    correct: ArrayLike,
    coverage: float,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    """Error rate among the most confident share `coverage` of the predictions.

    Equal confidences are accepted together: the point is the first of `risk_coverage` that covers
    at least `coverage`.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    coverage : float
        Share to accept, in (0, 1].
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, the lengths differ, or `coverage` is out
        of range.

    Examples
    --------
    >>> risk_at_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True], coverage=0.75)
    0.3333333333333333
    """
    _check_fraction("coverage", coverage, zero=False)
    return _risk_at_coverage(_ranking(confidence, correct, sample_weight=sample_weight), coverage)


def _risk_at_coverage(ranking: Ranking, coverage: float) -> float:
    return ranking.risk_at_coverage(coverage)


def coverage_at_risk(
    confidence: ArrayLike,
    correct: ArrayLike,
    risk: float,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    """Return the largest share that can be accepted with an error rate of at most `risk`.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    risk : float
        Largest error rate allowed, in [0, 1].
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 (no threshold keeps to it) to 1; higher is better.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, the lengths differ, or `risk` is out of
        range.

    Examples
    --------
    >>> coverage_at_risk([0.9, 0.8, 0.7, 0.6], [True, True, False, True], risk=0.1)
    0.5
    """
    _check_fraction("risk", risk)
    return _coverage_at_risk(_ranking(confidence, correct, sample_weight=sample_weight), risk)


def _coverage_at_risk(ranking: Ranking, risk: float) -> float:
    return ranking.coverage_at_risk(risk)


def threshold_at_risk(
    confidence: ArrayLike,
    correct: ArrayLike,
    risk: float,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    """Return the threshold that accepts most while the error rate is at most `risk`.

    A prediction is accepted if its confidence is at least the threshold. A confidence in (0, 1) is
    rounded down to a short decimal that still lies above the next lower one, so the threshold as
    printed accepts exactly `coverage_at_risk` of these predictions.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    risk : float
        Largest error rate allowed, in [0, 1].
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        ``inf`` if no threshold keeps to it.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, the lengths differ, or `risk` is out of
        range.

    Examples
    --------
    >>> threshold_at_risk([0.93127, 0.81234, 0.71, 0.6], [True, True, False, True], risk=0.1)
    0.81
    """
    _check_fraction("risk", risk)
    return _ranking(confidence, correct, sample_weight=sample_weight).threshold(risk)


def _short_decimal(value: float, lower: float, dtype: np.dtype) -> float:
    """`value` in (0, 1) rounded down, but above `lower`, with two digits of what it lacks to 1.

    Clear of both by more than rounding errors, if there is room: a file's 0.9 may come as 0.8999….
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


def refinement_decomposition(
    confidence: ArrayLike,
    correct: ArrayLike,
    bins: int = 100,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> dict[str, float]:
    r"""Split the ECE into confidence, AUROC, a constant and what these leave out.

    .. math:: \mathrm{ECE} = \underbrace{\mathrm E[C]}_\text{confidence}
              - \underbrace{\mathrm{AUROC}\,\tfrac{2PN}{(P+N)^2}}_\text{refinement}
              - \underbrace{\tfrac{P^2 + N^2}{2(P+N)^2}}_\text{constant} + \text{residual}

    with P right and N wrong predictions (Singh et al. 2021, eq. 9). The paper has no residual. It
    vanishes only if every bin is over-confident and if the accuracy equals that of the detector of
    errors averaged over its thresholds (eq. 8); the second does not hold for accurate networks, so
    the residual is large.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Confidences in [0, 1].
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    bins : int
        Bins of the ECE; the paper counts 100.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    dict
        ``ece``, ``confidence``, ``refinement``, ``constant``, ``residual``, with ``ece =
        confidence - refinement - constant + residual``.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, the lengths differ, a confidence lies
        outside [0, 1], or `bins` is below 1.

    Examples
    --------
    >>> parts = refinement_decomposition([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    >>> {name: round(value, 4) for name, value in parts.items()}
    {'ece': 0.35, 'confidence': 0.75, 'refinement': 0.25, 'constant': 0.3125, 'residual': 0.1625}
    """
    check_bins(bins)
    return _refinement_decomposition(_ranking(confidence, correct, True, sample_weight), bins)


def _refinement_decomposition(ranking: Ranking, bins: int = 100) -> dict[str, float]:
    error = _ece(_binned(ranking, bins))
    mean = _mean_confidence(ranking)
    refinement = 2 * ranking.wins / ranking.n**2
    constant = (ranking.all_right**2 + ranking.all_wrong**2) / (2 * ranking.n**2)
    return {
        "ece": error,
        "confidence": mean,
        "refinement": refinement,
        "constant": constant,
        "residual": error - (mean - refinement - constant),
    }


def confidence_gap(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    """Mean confidence of the right predictions minus that of the wrong ones.

    Zhu et al. 2022, figure 10b.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score, ranked as given; higher means more confident. What is equal ties: see `summary`.
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        In units of the confidence; higher is better. ``nan`` with an `UndefinedMetricWarning`
        unless there are both right and wrong predictions.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the lengths differ.

    Examples
    --------
    >>> round(confidence_gap([0.9, 0.8, 0.7, 0.6], [True, True, False, False]), 4)
    0.2
    """
    return _defined(
        "confidence_gap",
        _confidence_gap(_ranking(confidence, correct, sample_weight=sample_weight)),
    )


def _confidence_gap(ranking: Ranking) -> float:
    if not ranking.all_right or not ranking.all_wrong:
        return math.nan
    right = ranking.right @ ranking.confidence / ranking.all_right
    return float(right - ranking.wrong @ ranking.confidence / ranking.all_wrong)


def histogram_overlap(
    confidence: ArrayLike,
    correct: ArrayLike,
    bins: int = 15,
    *,
    sample_weight: "ArrayLike | None" = None,
) -> float:
    r"""Area that the confidence histograms of right and of wrong predictions share.

    .. math:: \sum_m \min\!\big(P(B_m \mid \text{right}),\, P(B_m \mid \text{wrong})\big)

    Zhu et al. 2022 show this overlap in figures 5 and 9, without a number for it. It depends on the
    bins where most confidences fall into the last one: to compare two models, take `auroc`, which
    has none.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Confidences in [0, 1].
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    bins : int
        Number of bins (lo, hi] of equal width on [0, 1].
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 (disjoint) to 1 (the same histogram); lower is better. ``nan`` with an
        `UndefinedMetricWarning` unless there are both right and wrong predictions.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, the lengths differ, a confidence lies
        outside [0, 1], or `bins` is below 1.

    Examples
    --------
    >>> histogram_overlap([0.9, 0.8, 0.7, 0.9], [True, True, False, False], bins=10)
    0.5
    """
    check_bins(bins)
    ranking = _ranking(confidence, correct, True, sample_weight)
    return _defined("histogram_overlap", _histogram_overlap(ranking, bins))


def _histogram_overlap(ranking: Ranking, bins: int) -> float:
    if not ranking.all_right or not ranking.all_wrong:
        return math.nan
    table = _binned(ranking, bins)
    wrong = (table.count - table.right) / ranking.all_wrong
    return float(np.minimum(table.right / ranking.all_right, wrong).sum())


def ece_correct(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: "ArrayLike | None" = None
) -> float:
    """ECE of the right predictions alone: one minus their mean confidence.

    Zhu et al. 2022, figure 6c. Their accuracy is 1 in every bin, so the bins do not matter.

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Confidences in [0, 1].
    correct : array or tensor, shape (n,)
        Whether each prediction is right, as booleans or 0 and 1.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    float
        From 0 to 1: by how much right predictions are under-confident. ``nan`` with an
        `UndefinedMetricWarning` if no prediction is right.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, the lengths differ, or a confidence lies
        outside [0, 1].

    Examples
    --------
    >>> round(ece_correct([0.9, 0.7, 0.8], [True, True, False]), 4)
    0.2
    """
    return _defined("ece_correct", _ece_correct(_ranking(confidence, correct, True, sample_weight)))


def _ece_correct(ranking: Ranking) -> float:
    if not ranking.all_right:
        return math.nan
    return float(1 - ranking.right @ ranking.confidence / ranking.all_right)


# ---------------------------------------------------------------------------- all at once


def per_sample(
    logits: ArrayLike, labels: ArrayLike, kind: Kind = "logits"
) -> dict[str, ArrayOrTensor]:
    """Return confidence, correctness, NLL and Brier score of every sample, in one pass.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    kind : {"logits", "probs"}
        "probs" if `logits` are probabilities, which are refused otherwise. In the NLL, one of 0
        counts as what `calibkit.precision` finds: half a unit of the last decimal, half a vote, …

    Returns
    -------
    dict
        ``confidence``, ``correct``, ``nll``, ``brier``: arrays (n,); tensors if `logits` is one.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or a label is out of range.

    Examples
    --------
    >>> values = per_sample([[0.0, 0.0], [0.0, 3.0]], [0, 0])
    >>> values["correct"].tolist(), values["brier"].round(3).tolist()
    ([True, False], [0.5, 1.815])
    """
    samples, _ = _scan(*_scores(logits, kind), labels, bins=None)
    return {name: like(values, logits) for name, values in samples.items()}


def summary(
    logits: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    kind: Kind = "logits",
    *,
    sample_weight: "ArrayLike | None" = None,
) -> dict[str, float]:
    """Compute every metric from logits.

    What depends on the order of the samples alone, from the AUROC to the risk at a coverage, ranks
    them by the log-odds of the predicted class, its logit minus the logsumexp of the others in
    double precision: a softmax rounds the surest to 1, right and wrong ones alike (in single
    precision from log-odds of 17 on, in double from 37). Probabilities rank as they are.

    Parameters
    ----------
    logits : array (n, k)
        Scores before the softmax.
    labels : array (n,)
        True classes, 0 to k - 1.
    bins : int
        Bins of the binned metrics, except ``eq9_*``, which have 100.
    kind : {"logits", "probs"}
        "probs" if `logits` are probabilities, which are refused otherwise. In the NLL, one of 0
        counts as what `calibkit.precision` finds: half a unit of the last decimal, half a vote, …
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    dict
        ``n`` (the sum of weights, if any), ``accuracy``, mean ``confidence``, and then each metric
        under the name of its function. The floors and excesses of the other two calibration errors
        are called ``adaptive_ece_floor``, ``excess_adaptive_ece`` and so on. Parts of
        `brier_decomposition` have the prefix ``brier_``, those of `refinement_decomposition` the
        prefix ``eq9_``; the two operating points are ``risk_at_coverage_0.8`` and
        ``coverage_at_risk_0.05``. Undefined ones are ``nan``, with one `UndefinedMetricWarning`
        that names them.

    Raises
    ------
    ValueError
        If an argument is empty or malformed, or a label is out of range.

    Examples
    --------
    >>> values = summary([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], [0, 1, 1])
    >>> round(values["accuracy"], 3), round(values["ece"], 3), values["auroc"]
    (0.667, 0.337, 1.0)
    """
    check_bins(bins)
    scores, floor = _scores(logits, kind)
    weights = _weights(sample_weight, len(scores))
    samples, classes = _scan(scores, floor, labels, bins, weights)
    ranking = Ranking.of(samples["confidence"], samples["correct"], weights)
    order = ranking
    if kind == "logits":
        order = Ranking.of(log_odds(scores), samples["correct"], weights)
    functions = ranked_metrics(bins).items()
    values = {name: f(order if ranks(name) else ranking) for name, f in functions}
    values["nll"] = _mean(samples["nll"], weights)
    values["brier"] = _mean(samples["brier"], weights)
    values["classwise_ece"] = _classwise_ece(classes)
    values["classwise_ece_floor"] = _classwise_floor(classes)
    values["excess_classwise_ece"] = values["classwise_ece"] - values["classwise_ece_floor"]
    brier_parts, eq9 = _brier_decomposition(classes), _refinement_decomposition(ranking)
    values |= {f"brier_{name}": part for name, part in brier_parts.items() if name != "brier"}
    values |= {f"eq9_{name}": part for name, part in eq9.items()}
    undefined = [name for name, value in values.items() if math.isnan(value)]
    if undefined:
        message = _UNDEFINED + ", ".join(undefined)
        warnings.warn(message, UndefinedMetricWarning, stacklevel=2)
    return {"n": len(samples["correct"]) if weights is None else ranking.n, **values}


RANKING = ("auroc", "aupr_success", "aupr_error", "aurc", "eaurc", "augrc", "fpr_at_tpr")


def ranks(name: str) -> bool:
    """Whether a metric depends on the order of the confidences alone, and not on their size.

    Parameters
    ----------
    name : str
        A name in `summary`.

    Returns
    -------
    bool
        True for those that rank logits by their log-odds.

    Examples
    --------
    >>> ranks("aurc"), ranks("risk_at_coverage_0.8"), ranks("ece")
    (True, True, False)
    """
    return name in RANKING or name.startswith(("risk_at_coverage_", "coverage_at_risk_"))


def ranked_metrics(
    bins: int = 15,
    coverages: Sequence[float] = (0.8,),
    risks: Sequence[float] = (0.05,),
) -> dict[str, Callable[[Ranking], float]]:
    """Return the metrics that need a `Ranking` only, by name.

    Parameters
    ----------
    bins : int
        Bins of the binned metrics.
    coverages : sequence of float
        Where `risk_at_coverage` is taken; its name is then ``risk_at_coverage_0.8``.
    risks : sequence of float
        Where `coverage_at_risk` is taken; its name is then ``coverage_at_risk_0.05``.

    Returns
    -------
    dict
        Name -> function of a `Ranking`.

    Examples
    --------
    >>> ranking = Ranking(np.array([0.9, 0.6]), right=np.array([1, 0]), wrong=np.array([0, 1]))
    >>> ranked_metrics()["auroc"](ranking)
    1.0
    """
    return {
        "accuracy": lambda r: r.all_right / r.n,
        "confidence": _mean_confidence,
        "ece": lambda r: _ece(_binned(r, bins)),
        "adaptive_ece": lambda r: _ece(_binned(r, bins, "equal_mass")),
        "ece_floor": lambda r: _floor(r, bins),
        "excess_ece": lambda r: _excess(r, bins),
        "adaptive_ece_floor": lambda r: _floor(r, bins, "equal_mass"),
        "excess_adaptive_ece": lambda r: _excess(r, bins, "equal_mass"),
        "debiased_ece": lambda r: _debiased_ece(r, bins),
        "mce": lambda r: _mce(_binned(r, bins)),
        "overconfidence_error": lambda r: _overconfidence_error(_binned(r, bins)),
        "ece_correct": _ece_correct,
        "auroc": _auroc,
        "aupr_success": _aupr_success,
        "aupr_error": _aupr_error,
        "aurc": lambda r: _aurc(r.failures),
        "eaurc": lambda r: _eaurc(r.failures),
        "augrc": _augrc,
        "fpr_at_tpr": _fpr_at_tpr,
        **{
            f"risk_at_coverage_{share:g}": functools.partial(_risk_at_coverage, coverage=share)
            for share in coverages
        },
        **{
            f"coverage_at_risk_{risk:g}": functools.partial(_coverage_at_risk, risk=risk)
            for risk in risks
        },
        "confidence_gap": _confidence_gap,
        "histogram_overlap": lambda r: _histogram_overlap(r, bins),
    }


def _mean(values: Array, weights: "Array | None") -> float:
    if weights is None:
        return float(values.mean())
    some = weights > 0  # 0 times infinity would be no number
    return float(weights[some] @ values[some] / weights.sum())


def _mean_confidence(ranking: Ranking) -> float:
    return float(ranking.count @ ranking.confidence / ranking.n)


def _scores(logits: ArrayLike, kind: Kind) -> tuple[Array, Array]:
    """Logits (n, k), and what the NLL counts a probability of 0 as, (k,); of a 0 the logit -inf."""
    if kind != "probs":
        logits = as_logits(logits, kind=kind)
        return logits, np.zeros(logits.shape[1])
    probs, floor = probs_and_floor(logits, "logits")
    with np.errstate(divide="ignore"):
        return np.log(probs), np.broadcast_to(floor.each if floor else 0.0, probs.shape[1])


def _scan(
    logits: Array,
    floor: Array,
    labels: ArrayLike,
    bins: int | None,
    weights: "Array | None" = None,
) -> tuple[dict[str, Array], _Classes | None]:
    """Pass over the logits once, block by block: values per sample, and per class if `bins`."""
    n, k = logits.shape
    labels = as_labels(labels, k, n)
    classes = None if bins is None else _Classes(n, k, bins, logits.dtype, weights)
    confidence, true_p = np.empty(n, logits.dtype), np.empty(n, logits.dtype)
    correct, nlls, briers = np.empty(n, bool), np.empty(n), np.empty(n)
    for rows in blocks(n, k):
        block, label = logits[rows], labels[rows]
        row = np.arange(len(block))
        p = np.empty_like(block)
        predicted, top = exp_shifted(block, out=p)
        total = row_sums(p)
        p /= total[:, None]
        confidence[rows], true_p[rows] = p[row, predicted], p[row, label]
        correct[rows] = predicted == label
        # From logits, not from p: exact also where p rounds to 0.
        margin = (top - block[row, label]).astype(np.float64)
        nlls[rows] = np.log(total.astype(np.float64)) + margin
        if floor.any() and (never := np.isinf(margin)).any():
            nlls[rows][never] = -np.log(floor[label[never]])
        if classes is None:
            p[row, label] -= 1
            briers[rows] = np.einsum("ij,ij->i", p, p)
        else:
            briers[rows] = classes.add(p, label, rows)
    samples = {"confidence": confidence, "correct": correct, "nll": nlls, "brier": briers}
    return samples, classes.close(true_p, labels) if classes else None


# ------------------------------------------------------------------------------- checks


_UNDEFINED = "undefined without both right and wrong predictions, so nan: "


def _defined(name: str, value: float) -> float:
    if math.isnan(value):
        warnings.warn(_UNDEFINED + name, UndefinedMetricWarning, stacklevel=3)
    return value


def _check_binned(of: str) -> None:
    kinds = [*_SCHEMES, "classwise_ece"]
    if of not in kinds:
        raise ValueError(f"of: got {of!r}, expected one of {', '.join(kinds)}")


def _check_fraction(name: str, value: float, zero: bool = True) -> None:
    if not (0 <= value <= 1 and (zero or value > 0)):
        raise ValueError(f"{name}: got {value!r}, expected a number in {'[' if zero else '('}0, 1]")
