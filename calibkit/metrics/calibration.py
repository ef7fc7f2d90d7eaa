"""Calibration errors of the top label in bins."""

import math
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from calibkit.arrays import (
    Array,
    ArrayLike,
    Weights,
    as_confidence_correct,
    check_bins,
    like,
)
from calibkit.metrics.bins import Bins, Scheme, binned
from calibkit.metrics.ranking import LEAST, Ranking, weights_of
from calibkit.metrics.top import top_bins, top_ranking

if TYPE_CHECKING:
    import torch


def ece(
    probs: ArrayLike, labels: ArrayLike, bins: int = 15, *, sample_weight: Weights = None
) -> float:
    r"""Expected calibration error (ECE) of the top label, in bins of equal width.

    .. math:: \mathrm{ECE} = \sum_m \frac{|B_m|}{n}\,|\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    The top label is the most probable class. In bin B_m, acc is the share of right predictions and
    conf their mean confidence. Naeini et al. 2015; Guo et al. 2017. All five papers report it:
    Singh et al. 2021 in eq. 3, Wang et al. 2021 and Lin et al. 2025 in 15 bins.

    Parameters
    ----------
    probs : array or tensor, shape (n, k) or (n,)
        Predicted probabilities; rows sum to 1. Without classes, (n,): the confidence of each
        answer, or the probability of one event.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1. With `probs` (n,): whether each answer is right, or whether the
        event happened, as booleans or 0 and 1.
    bins : int
        Number of bins (lo, hi] of equal width on [0, 1], at least 1. Confidences of exactly 0 are
        in the lowest bin.
    sample_weight : array or tensor, shape (n,), optional
        How much each sample counts, at least 0. A whole number says how often the row counts: 2
        has the same effect as giving the row twice. If weights are not all whole numbers, only
        their ratios matter.

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
    return ece_of(top_bins(probs, labels, bins, sample_weight))


def ece_of(table: Bins) -> float:
    """The ECE of binned predictions."""
    return float(np.abs(table.right - table.confidence).sum() / table.count.sum())


def adaptive_ece(
    probs: ArrayLike, labels: ArrayLike, bins: int = 15, *, sample_weight: Weights = None
) -> float:
    r"""Calibration error of the top label, in bins of (nearly) equal count.

    .. math:: \sum_m \frac{|B_m|}{n}\,|\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    with bins cut at the quantiles of the confidence ("AdaECE" of Lin et al. 2025, in 15 bins in
    their code). Equal confidences share a bin, so counts differ where many are equal. The authors'
    code interpolates the edges and loses the sample of lowest confidence, which changes the value
    by less than 1/n.

    Arguments as in `ece`: `probs` (n, k) or (n,) and `labels` (n,).

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Examples
    --------
    >>> round(adaptive_ece([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], [0, 1, 1], bins=1), 4)
    0.1
    """
    check_bins(bins)
    return ece_of(binned(top_ranking(probs, labels, sample_weight), bins, "equal_mass"))


def mce(
    probs: ArrayLike, labels: ArrayLike, bins: int = 15, *, sample_weight: Weights = None
) -> float:
    r"""Maximum calibration error: the largest gap of any non-empty bin of equal width.

    .. math:: \mathrm{MCE} = \max_m |\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    Naeini et al. 2015. A bin with one sample counts as much as any other, which makes this metric
    noisy.

    Arguments as in `ece`: `probs` (n, k) or (n,) and `labels` (n,).

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Examples
    --------
    >>> round(mce([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], [0, 1, 1]), 4)
    0.2
    """
    check_bins(bins)
    return mce_of(top_bins(probs, labels, bins, sample_weight))


def mce_of(table: Bins) -> float:
    """The largest gap of any bin that is not empty."""
    return float((np.abs(table.right - table.confidence) / np.maximum(table.count, LEAST)).max())


def debiased_ece(
    probs: ArrayLike, labels: ArrayLike, bins: int = 15, *, sample_weight: Weights = None
) -> float:
    r"""Root mean square calibration error of the top label, without what chance adds to its square.

    .. math:: \widehat{\mathcal E}^2 = \sum_m \frac{n_m}{n}\Big[\big(\mathrm{conf}(B_m) -
              \mathrm{acc}(B_m)\big)^2 - \frac{\mathrm{acc}(B_m)\,(1 - \mathrm{acc}(B_m))}
              {n_m - 1}\Big]

    The debiased estimator of Kumar, Liang and Ma ("Verified Uncertainty Calibration", NeurIPS 2019,
    section 4; Ferro and Fricker, 2012), in bins of equal count as theirs. It is an L2 error, at
    least as large as the L1 error that `ece` estimates. Bins of one sample are left out, because
    their noise cannot be estimated.

    Other arguments as in `ece`: `probs` (n, k) or (n,) and `labels` (n,).

    Parameters
    ----------
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`. What chance adds is worked out as in `ece_floor`.

    Returns
    -------
    float
        The root of the estimate, a fraction. The estimated square may be negative by chance; then
        minus the root of its size: no miscalibration was found.

    Examples
    --------
    >>> round(debiased_ece([[0.9, 0.1]] * 4, [0, 0, 1, 1], bins=1), 4)  # 0.16 - 0.25 / 3
    0.2769
    >>> round(debiased_ece([[0.5, 0.5]] * 4, [0, 0, 1, 1], bins=1), 4)
    -0.2887
    """
    check_bins(bins)
    return debiased_of(top_ranking(probs, labels, sample_weight), bins)


def debiased_of(ranking: Ranking, bins: int) -> float:
    """The debiased error of a ranking, in bins of equal count."""
    table, worth = binned(ranking, bins, "equal_mass"), ranking.worth
    count, right, confidence = (column[worth * table.count > 1] for column in table)
    accuracy = right / count
    noise = accuracy * (1 - accuracy) / (worth * count - 1)
    square = float(count @ ((confidence / count - accuracy) ** 2 - noise) / ranking.n)
    return math.copysign(math.sqrt(abs(square)), square)


def overconfidence_error(
    probs: ArrayLike, labels: ArrayLike, bins: int = 15, *, sample_weight: Weights = None
) -> float:
    r"""Overconfidence error: the gap of over-confident bins only, weighted by confidence.

    .. math:: \mathrm{OE} = \sum_m \frac{|B_m|}{n}\,
              \mathrm{conf}(B_m)\,\max(\mathrm{conf}(B_m) - \mathrm{acc}(B_m),\,0)

    Thulasidasan et al. 2019; named in Singh et al. 2021, section 3.3.

    Arguments as in `ece`: `probs` (n, k) or (n,) and `labels` (n,).

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Examples
    --------
    >>> round(overconfidence_error([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], [0, 1, 1]), 4)
    0.0933
    """
    check_bins(bins)
    return overconfidence_of(top_bins(probs, labels, bins, sample_weight))


def overconfidence_of(table: Bins) -> float:
    """The overconfidence error of binned predictions."""
    mean = table.confidence / np.maximum(table.count, LEAST)
    excess = np.maximum(table.confidence - table.right, 0)
    return float((mean * excess).sum() / table.count.sum())


@overload
def reliability_bins(
    confidence: "torch.Tensor",
    correct: ArrayLike,
    bins: int = 15,
    scheme: Scheme = "equal_width",
    *,
    sample_weight: Weights = None,
) -> "dict[str, torch.Tensor]": ...
@overload
def reliability_bins(
    confidence: npt.ArrayLike,
    correct: ArrayLike,
    bins: int = 15,
    scheme: Scheme = "equal_width",
    *,
    sample_weight: Weights = None,
) -> dict[str, Array]: ...
def reliability_bins(
    confidence: ArrayLike,
    correct: ArrayLike,
    bins: int = 15,
    scheme: Scheme = "equal_width",
    *,
    sample_weight: Weights = None,
) -> dict[str, Any]:
    """Bin predictions by confidence: the numbers of a reliability diagram.

    Other arguments as in `auroc`, with `confidence` (n,) in [0, 1]; `bins` as in `ece`.

    Parameters
    ----------
    scheme : {"equal_width", "equal_mass"}
        Bins (lo, hi] of equal width on [0, 1], or of (nearly) equal count; ties stay together.

    Returns
    -------
    dict
        ``edges`` (bins + 1,); per bin ``count``, mean ``confidence`` and ``accuracy``, both ``nan``
        in an empty bin. Tensors if `confidence` is one.

    Examples
    --------
    >>> table = reliability_bins([0.9, 0.7, 0.7], [True, False, True], bins=2)
    >>> table["count"].tolist(), table["accuracy"].round(2).tolist()
    ([0, 3], [nan, 0.67])
    """
    check_bins(bins)
    values, right = as_confidence_correct(confidence, correct, unit=True)
    weights = weights_of(sample_weight, len(right))
    if scheme == "equal_width":
        table, edges = top_bins(values, right, bins, weights), np.linspace(0, 1, bins + 1)
    else:
        ranking = Ranking.of(values, right, weights)
        table = binned(ranking, bins, scheme)
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
