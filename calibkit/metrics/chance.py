"""The part of a calibration error that chance explains (its floor), and the rest (its excess)."""

from typing import Literal, TypeAlias

import numpy as np

from calibkit.arrays import Array, ArrayLike, Weights, as_probs, check_bins
from calibkit.metrics.bins import Scheme, binned, cuts_of, once, stretches
from calibkit.metrics.calibration import ece_of
from calibkit.metrics.classes import Classes, classes_of, error_of_classes
from calibkit.metrics.ranking import Ranking, weights_of
from calibkit.metrics.top import top_ranking

Binned: TypeAlias = Literal["ece", "adaptive_ece", "classwise_ece"]
_SCHEMES: dict[str, Scheme] = {"ece": "equal_width", "adaptive_ece": "equal_mass"}


def ece_floor(
    probs: ArrayLike,
    labels: "ArrayLike | None" = None,
    bins: int = 15,
    of: Binned = "ece",
    *,
    sample_weight: Weights = None,
) -> float:
    r"""Calibration error that a perfectly calibrated model is expected to show by chance.

    A calibrated model is right with a probability that equals its confidence c. So the number of
    right answers in a bin is a sum of independent draws t, and

    .. math:: \mathrm{floor} = \frac1n\sum_m \mathrm E\,\Big|\sum_{i \in B_m}
              (t_i - c_i)\Big|, \qquad t_i \sim \mathrm{Bernoulli}(c_i).

    The mean absolute deviation in a bin is that of the binomial variable with the same mean and
    variance, by de Moivre's formula 2k C(N, k) p^k (1 - p)^(N - k + 1) with k = ⌊Np⌋ + 1 (Diaconis
    and Zabell, 1991). The value is exact if all confidences of the bin are equal or if the bin
    holds one sample. It is off by at most 0.6 % in bins of width 1/15, and by at most 3 % in any
    bin of 10 samples or more.

    Other arguments as in `ece`, but `probs` (n, k) only. To find the floor of confidences (n,),
    subtract their `excess_ece` from their `ece`.

    Parameters
    ----------
    labels : array or tensor of integers, shape (n,), optional
        Not used, because the floor does not depend on labels. The argument is here so that the
        function can be called like the other errors.
    bins : int
        Number of bins (lo, hi] on [0, 1], of equal width or, for "adaptive_ece", of equal
        count.
    of : {"ece", "adaptive_ece", "classwise_ece"}
        Which calibration error. For "classwise_ece", labels are drawn from the probabilities.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`. The floor depends on the number of samples. For whole-number weights this is
        their sum. For other weights it is the effective size (Σw)² / Σw² (Kish 1965), since few
        heavy rows vary as much as few rows.

    Returns
    -------
    float
        A fraction. It falls as 1/√n: for 10,000 samples at 94 % accuracy it is about 0.005, as
        large as published differences.

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
        return floor_of_classes(classes_of(probs, anything, bins, sample_weight))
    confidence = as_probs(probs).max(axis=1)
    weights = weights_of(sample_weight, len(confidence))
    ranking = Ranking.of(confidence, np.ones(len(confidence), bool), weights)
    return floor_of(ranking, bins, _SCHEMES[of])


@once
def floor_of(ranking: Ranking, bins: int, scheme: Scheme) -> float:
    """The calibration error that chance alone would show, from a ranking."""
    cut = cuts_of(ranking, bins, scheme)
    doubt = 1 - ranking.confidence
    weighted = ranking.count * doubt
    count, worth = binned(ranking, bins, scheme).count[::-1], ranking.worth
    sums = count, stretches(weighted, cut), stretches(weighted * doubt, cut)
    deviation = mean_deviation(*(worth * x for x in sums))
    return float(deviation.sum() / (worth * ranking.n))


def floor_of_classes(classes: "Classes") -> float:
    """The class-wise calibration error that chance alone would show."""
    worth = classes.worth
    deviation = mean_deviation(*(worth * x for x in (classes.count, classes.p, classes.pp)))
    return float(deviation.sum(axis=1).mean() / (worth * classes.n))


def mean_deviation(count: ArrayLike, total: ArrayLike, squares: ArrayLike) -> Array:
    """Mean absolute deviation of sums of independent yes-or-no draws, from their probabilities.

    It is that of the binomial variable with the same mean and variance. See `ece_floor` for the
    formula, its source and its accuracy.

    Parameters
    ----------
    count : array
        Number of draws in each sum.
    total : array of that shape
        Sum of the draws' probabilities.
    squares : array of that shape
        Sum of the squares of these probabilities.

    Returns
    -------
    array
        E|S - E S| for every sum S; 0 if all probabilities are 0 or 1.

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
    sample_weight: Weights = None,
) -> float:
    """Calibration error beyond what chance alone would show: the error minus its `ece_floor`.

    For a calibrated model the excess is 0 on average, whatever the accuracy and the size of the
    test set. So compare models by it: their plain calibration errors cannot be compared if their
    floors differ. If the miscalibration is large, the excess understates it by up to the floor.

    Other arguments as in `ece`: `probs` (n, k) and `labels` (n,); or, but not for
    "classwise_ece", confidences (n,) and whether each answer is right (n,).

    Parameters
    ----------
    bins : int
        Number of bins (lo, hi] on [0, 1], of equal width or, for "adaptive_ece", of equal
        count.
    of : {"ece", "adaptive_ece", "classwise_ece"}
        Which calibration error. For "classwise_ece", labels are drawn from the probabilities.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece_floor`.

    Returns
    -------
    float
        A fraction from -1 to 1; lower is better. It is negative if the error is smaller than that
        of a calibrated model on average.

    Examples
    --------
    >>> from calibkit.metrics import ece
    >>> probs, labels = [[0.5, 0.5]] * 2, [0, 1]
    >>> ece(probs, labels, bins=1), round(excess_ece(probs, labels, bins=1), 6)
    (0.0, -0.25)
    """
    check_bins(bins)
    _check_binned(of)
    if of == "classwise_ece":
        classes = classes_of(probs, labels, bins, sample_weight)
        return error_of_classes(classes) - floor_of_classes(classes)
    return excess_of(top_ranking(probs, labels, sample_weight), bins, _SCHEMES[of])


def excess_of(ranking: Ranking, bins: int, scheme: Scheme = "equal_width") -> float:
    """The calibration error of a ranking minus its floor."""
    return ece_of(binned(ranking, bins, scheme)) - floor_of(ranking, bins, scheme)


def _check_binned(of: str) -> None:
    kinds = [*_SCHEMES, "classwise_ece"]
    if of not in kinds:
        raise ValueError(f"of: got {of!r}, expected one of {', '.join(kinds)}")
