"""Failure prediction: how well a confidence separates right from wrong predictions."""

import functools
import math
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import numpy.typing as npt

from calibkit.arrays import Array, ArrayLike, ArrayOrTensor, Weights, like
from calibkit.metrics.ranking import (
    LEAST,
    Failures,
    Ranking,
    check_fraction,
    defined,
    failures_of,
    ranking_of,
)

if TYPE_CHECKING:
    import torch


def auroc(confidence: ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None) -> float:
    r"""Area under the ROC curve: the chance that a right prediction outranks a wrong one.

    .. math:: P(\hat p_\text{right} > \hat p_\text{wrong}) +
              \tfrac12 P(\hat p_\text{right} = \hat p_\text{wrong})

    The positive class is a right prediction (Zhu et al. 2022; "refinement" in Singh et al. 2021,
    whose eq. 4 has a misprint: its correction term should use the number of positives).

    Parameters
    ----------
    confidence : array or tensor, shape (n,)
        Any score; higher means more confident. Equal scores tie: if a softmax rounds yours to 1,
        rank `confidence.log_odds` instead.
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
    return defined("auroc", auroc_of(failures_of(confidence, correct, sample_weight)))


def auroc_of(ranking: Ranking | Failures) -> float:
    """The AUROC of a ranking; NaN unless there are right and wrong predictions."""
    pairs = ranking.all_right * ranking.all_wrong
    return ranking.wins / pairs if pairs else math.nan


def aupr_success(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None
) -> float:
    r"""Area under the precision-recall curve; positive = right prediction.

    .. math:: \mathrm{AP} = \sum_g (R_g - R_{g-1})\,P_g

    with precision P and recall R at the distinct confidences g, highest first. The code of Zhu et
    al. 2022 joins the points by straight lines instead, which changes the value by less than 0.001.

    Arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Returns
    -------
    float
        From 0 to 1; a random ranking gives the accuracy; higher is better. ``nan`` with an
        `UndefinedMetricWarning` if no prediction is right.

    Examples
    --------
    >>> aupr_success([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    0.9166666666666666
    """
    return defined(
        "aupr_success",
        aupr_success_of(ranking_of(confidence, correct, sample_weight=sample_weight)),
    )


def aupr_success_of(ranking: Ranking) -> float:
    """The average precision of right predictions; NaN if there are none."""
    if not ranking.all_right:
        return math.nan
    return float(ranking.right @ (1 - ranking.risk()) / ranking.all_right)


def aupr_error(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None
) -> float:
    r"""Area under the precision-recall curve; positive = wrong prediction, lowest confidence first.

    `aupr_success` with right and wrong exchanged, as in the code of Zhu et al. 2022.

    Arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Returns
    -------
    float
        From 0 to 1; a random ranking gives the error rate; higher is better. ``nan`` with an
        `UndefinedMetricWarning` if no prediction is wrong.

    Examples
    --------
    >>> aupr_error([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    0.5
    """
    return defined(
        "aupr_error", aupr_error_of(ranking_of(confidence, correct, sample_weight=sample_weight))
    )


def aupr_error_of(ranking: Ranking) -> float:
    """The average precision of wrong predictions; NaN if there are none."""
    if not ranking.all_wrong:
        return math.nan
    # With this confidence or a lower one.
    rejected, rejected_wrong = (np.cumsum(x[::-1])[::-1] for x in (ranking.count, ranking.wrong))
    precision = rejected_wrong / np.maximum(rejected, LEAST)
    return float(ranking.wrong @ precision / ranking.all_wrong)


@overload
def risk_coverage(
    confidence: "torch.Tensor", correct: ArrayLike, *, sample_weight: Weights = None
) -> "tuple[torch.Tensor, torch.Tensor]": ...
@overload
def risk_coverage(
    confidence: npt.ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None
) -> tuple[Array, Array]: ...
def risk_coverage(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None
) -> tuple[ArrayOrTensor, ArrayOrTensor]:
    r"""Error rate among the accepted against the share accepted, for every possible threshold.

    One point for each distinct confidence, highest first: predictions of equal confidence can only
    be accepted together (Geifman and El-Yaniv 2017; Zhu et al. 2022).

    Arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Returns
    -------
    coverage : array or tensor, shape (g,)
        Shares accepted, in (0, 1], ascending to 1.
    risk : array or tensor, shape (g,)
        Error rates among the accepted; the last is that of the model.

    Examples
    --------
    >>> risk_coverage([0.9, 0.8, 0.8, 0.6], [True, True, False, False])
    (array([0.25, 0.75, 1.  ]), array([0.        , 0.33333333, 0.5       ]))
    """
    ranking = ranking_of(confidence, correct, sample_weight=sample_weight)
    coverage = ranking.accepted / ranking.n
    return like(coverage, confidence), like(ranking.risk(), confidence)


def aurc(confidence: ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None) -> float:
    r"""Area under the risk-coverage curve: the risk averaged over all coverages.

    .. math:: \mathrm{AURC} = \frac1n\sum_{i=1}^n \frac{\#\text{wrong among the first } i}{i}

    with predictions sorted by decreasing confidence (Zhu et al. 2022, whose tables print 1000 times
    this value). For equal confidences the value is the mean over all their orders.

    Other arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Parameters
    ----------
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`. With whole-number weights, n is their sum. With others, n is the number of
        rows, and 1/i is continued between whole numbers (digamma function).

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Examples
    --------
    >>> round(aurc([0.9, 0.8, 0.7, 0.6], [True, True, False, True]), 6)
    0.145833
    """
    return aurc_of(failures_of(confidence, correct, sample_weight))


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


def aurc_of(failures: "Failures | Ranking") -> float:
    """The AURC of a ranking, averaged over the orders of equal confidences."""
    # A wrong prediction at place r adds 1/r + ... + 1/n = H_n - H_(r-1) to the sum of the risks: on
    # average over the places a + 1 to b of a tie, H_n - H_b + 1 - a (H_b - H_a) / (b - a).
    before, upto, wrong, n = failures if isinstance(failures, Failures) else failures.failures
    of = _harmonic(n).__getitem__ if isinstance(n, int) else _harmonic_at
    last = of(upto)
    tied = before * (last - of(before)) / np.maximum(upto - before, LEAST)
    return float(wrong @ (of(n) - last + 1 - tied) / n)


def eaurc(confidence: ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None) -> float:
    r"""Excess AURC: the AURC minus that of a perfect ranking with the same error rate.

    .. math:: \text{E-AURC} = \mathrm{AURC} - \big(r + (1 - r)\ln(1 - r)\big)

    with error rate r. The bracket is the AURC of a perfect ranking of infinitely many samples, as
    in Zhu et al. 2022 (whose tables print 1000 times this value). So a perfect ranking of few
    samples has an E-AURC above 0.

    Other arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Parameters
    ----------
    sample_weight : array or tensor, shape (n,), optional
        As in `aurc`.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Examples
    --------
    >>> round(eaurc([0.9, 0.8, 0.7, 0.6], [True, True, False, True]), 6)
    0.111595
    """
    return eaurc_of(failures_of(confidence, correct, sample_weight))


def eaurc_of(failures: "Failures | Ranking") -> float:
    """The AURC, less that of a perfect ranking of many predictions with the same error rate."""
    risk = failures.all_wrong / failures.n
    optimal = risk + (1 - risk) * math.log1p(-risk) if risk < 1 else 1.0
    return aurc_of(failures) - optimal


def augrc(confidence: ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None) -> float:
    r"""Area under the generalised risk-coverage curve (AUGRC).

    .. math:: \mathrm{AUGRC} = (1 - \mathrm{AUROC})\,r(1 - r) + \tfrac12 r^2

    with error rate r (Traub et al., 2024), by trapezoids. The generalised risk is the number of
    predictions that are both accepted and wrong, divided by the number n of all predictions; the
    AUGRC is its mean over the coverages. Each wrong prediction adds 1 / n of the share of
    predictions ranked below it (half of itself included); `aurc` gives the highest confidences far
    more weight.

    Arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Returns
    -------
    float
        From 0 to 0.5; lower is better.

    Examples
    --------
    >>> augrc([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    0.09375
    """
    return augrc_of(failures_of(confidence, correct, sample_weight))


def augrc_of(ranking: Ranking | Failures) -> float:
    """The area under the generalised risk-coverage curve."""
    losses = ranking.all_right * ranking.all_wrong - ranking.wins
    return (losses + ranking.all_wrong**2 / 2) / ranking.n**2


def fpr_at_tpr(
    confidence: ArrayLike,
    correct: ArrayLike,
    tpr: float = 0.95,
    convention: Literal["exact", "nearest"] = "exact",
    *,
    sample_weight: Weights = None,
) -> float:
    """Share of the wrong predictions accepted when a share `tpr` of the right ones is (FPR95).

    Other arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Parameters
    ----------
    tpr : float
        Share of the right predictions to accept, in (0, 1].
    convention : {"exact", "nearest"}
        "exact" takes the highest threshold that accepts at least `tpr` of the right predictions.
        "nearest" is the choice of Zhu et al.'s code: the corner of the ROC curve whose
        true-positive rate is nearest to `tpr`, even if below it. It gives some 0.1 points less.

    Returns
    -------
    float
        From 0 to 1; lower is better. ``nan`` with an `UndefinedMetricWarning` unless there are both
        right and wrong predictions.

    Examples
    --------
    >>> fpr_at_tpr([0.9, 0.8, 0.7, 0.6], [True, True, False, True], tpr=0.6)
    0.0
    >>> fpr_at_tpr([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    1.0
    """
    check_fraction("tpr", tpr, zero=False)
    if convention not in ("exact", "nearest"):
        raise ValueError(f"convention: got {convention!r}, expected 'exact' or 'nearest'")
    ranking = ranking_of(confidence, correct, sample_weight=sample_weight)
    return defined("fpr_at_tpr", fpr_at_tpr_of(ranking, tpr, exact=convention == "exact"))


def fpr_at_tpr_of(ranking: Ranking, tpr: float = 0.95, exact: bool = True) -> float:
    """Share of wrong predictions accepted where a share `tpr` of the right ones is."""
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
    confidence: ArrayLike, correct: ArrayLike, coverage: float, *, sample_weight: Weights = None
) -> float:
    """Error rate among the most confident share `coverage` of the predictions.

    Equal confidences are accepted together, so a little more than `coverage` may be accepted: the
    value is that of the first point of `risk_coverage` with at least this coverage.

    Other arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Parameters
    ----------
    coverage : float
        Share to accept, in (0, 1].

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Examples
    --------
    >>> risk_at_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True], coverage=0.75)
    0.3333333333333333
    """
    check_fraction("coverage", coverage, zero=False)
    return risk_at_coverage_of(
        ranking_of(confidence, correct, sample_weight=sample_weight), coverage
    )


def risk_at_coverage_of(ranking: Ranking, coverage: float) -> float:
    """Error rate of the first threshold that accepts at least `coverage`."""
    return ranking.risk_at_coverage(coverage)


def coverage_at_risk(
    confidence: ArrayLike, correct: ArrayLike, risk: float, *, sample_weight: Weights = None
) -> float:
    """Return the largest share that can be accepted with an error rate of at most `risk`.

    Other arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Parameters
    ----------
    risk : float
        Largest error rate allowed, in [0, 1].

    Returns
    -------
    float
        From 0 (no threshold has so low an error rate) to 1; higher is better.

    Examples
    --------
    >>> coverage_at_risk([0.9, 0.8, 0.7, 0.6], [True, True, False, True], risk=0.1)
    0.5
    """
    check_fraction("risk", risk)
    return coverage_at_risk_of(ranking_of(confidence, correct, sample_weight=sample_weight), risk)


def coverage_at_risk_of(ranking: Ranking, risk: float) -> float:
    """The largest share accepted with an error rate of at most `risk`."""
    return ranking.coverage_at_risk(risk)


def threshold_at_risk(
    confidence: ArrayLike, correct: ArrayLike, risk: float, *, sample_weight: Weights = None
) -> float:
    """Return the threshold that accepts most predictions with an error rate of at most `risk`.

    A prediction is accepted if its confidence is at least the threshold. The threshold is a short
    decimal between the lowest confidence accepted and the next lower one. So you can copy it as
    printed, and it still accepts the share of these predictions that `coverage_at_risk` returns.

    Other arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Parameters
    ----------
    risk : float
        Largest error rate allowed, in [0, 1].

    Returns
    -------
    float
        ``inf`` if no threshold has so low an error rate.

    Examples
    --------
    >>> threshold_at_risk([0.93127, 0.81234, 0.71, 0.6], [True, True, False, True], risk=0.1)
    0.81
    """
    check_fraction("risk", risk)
    return ranking_of(confidence, correct, sample_weight=sample_weight).threshold(risk)
