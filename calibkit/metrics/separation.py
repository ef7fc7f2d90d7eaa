"""How far the confidences of right and of wrong predictions lie apart."""

import math

import numpy as np

from calibkit.arrays import ArrayLike, Weights, check_bins
from calibkit.metrics.bins import binned
from calibkit.metrics.calibration import ece_of
from calibkit.metrics.ranking import Ranking, defined, ranking_of


def refinement_decomposition(
    confidence: ArrayLike, correct: ArrayLike, bins: int = 100, *, sample_weight: Weights = None
) -> dict[str, float]:
    r"""Split the ECE into confidence, AUROC, a constant and what these leave out.

    .. math:: \mathrm{ECE} = \underbrace{\mathrm E[C]}_\text{confidence}
              - \underbrace{\mathrm{AUROC}\,\tfrac{2PN}{(P+N)^2}}_\text{refinement}
              - \underbrace{\tfrac{P^2 + N^2}{2(P+N)^2}}_\text{constant} + \text{residual}

    with P right and N wrong predictions and mean confidence E[C] (Singh et al. 2021, eq. 9). The
    paper has no residual. It is 0 only if two things hold: every bin is over-confident, and the
    accuracy equals that of telling right from wrong by a threshold, averaged over all thresholds
    (eq. 8). The second does not hold for accurate networks, so the residual is large.

    Other arguments as in `auroc`, with `confidence` (n,) in [0, 1].

    Parameters
    ----------
    bins : int
        Bins of the ECE; the paper counts 100.

    Returns
    -------
    dict
        ``ece``, ``confidence``, ``refinement``, ``constant``, ``residual``, with ``ece =
        confidence - refinement - constant + residual``.

    Examples
    --------
    >>> parts = refinement_decomposition([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    >>> {name: round(value, 4) for name, value in parts.items()}
    {'ece': 0.35, 'confidence': 0.75, 'refinement': 0.25, 'constant': 0.3125, 'residual': 0.1625}
    """
    check_bins(bins)
    return refinement_of(ranking_of(confidence, correct, True, sample_weight), bins)


def refinement_of(ranking: Ranking, bins: int = 100) -> dict[str, float]:
    """The terms of equation 9 by their names."""
    error = ece_of(binned(ranking, bins))
    mean = mean_confidence(ranking)
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
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None
) -> float:
    """Mean confidence of the right predictions minus that of the wrong ones.

    Zhu et al. 2022, figure 10b.

    Arguments as in `auroc`: `confidence` (n,) and `correct` (n,).

    Returns
    -------
    float
        In units of the confidence; higher is better. ``nan`` with an `UndefinedMetricWarning`
        unless there are both right and wrong predictions.

    Examples
    --------
    >>> round(confidence_gap([0.9, 0.8, 0.7, 0.6], [True, True, False, False]), 4)
    0.2
    """
    return defined(
        "confidence_gap",
        confidence_gap_of(ranking_of(confidence, correct, sample_weight=sample_weight)),
    )


def confidence_gap_of(ranking: Ranking) -> float:
    """Mean confidence of right predictions, less that of wrong ones."""
    if not ranking.all_right or not ranking.all_wrong:
        return math.nan
    right = ranking.right @ ranking.confidence / ranking.all_right
    return float(right - ranking.wrong @ ranking.confidence / ranking.all_wrong)


def histogram_overlap(
    confidence: ArrayLike, correct: ArrayLike, bins: int = 15, *, sample_weight: Weights = None
) -> float:
    r"""Area that the confidence histograms of right and of wrong predictions share.

    .. math:: \sum_m \min\!\big(P(B_m \mid \text{right}),\, P(B_m \mid \text{wrong})\big)

    Zhu et al. 2022 show this overlap in figures 5 and 9, without a number for it. It depends on the
    number of bins if most confidences fall into the last one. To compare two models, take `auroc`,
    which has no bins.

    Arguments as in `auroc`, with `confidence` (n,) in [0, 1]; `bins` as in `ece`.

    Returns
    -------
    float
        From 0 (disjoint) to 1 (the same histogram); lower is better. ``nan`` with an
        `UndefinedMetricWarning` unless there are both right and wrong predictions.

    Examples
    --------
    >>> histogram_overlap([0.9, 0.8, 0.7, 0.9], [True, True, False, False], bins=10)
    0.5
    """
    check_bins(bins)
    ranking = ranking_of(confidence, correct, True, sample_weight)
    return defined("histogram_overlap", overlap_of(ranking, bins))


def overlap_of(ranking: Ranking, bins: int) -> float:
    """The area that the histograms of right and of wrong predictions share."""
    if not ranking.all_right or not ranking.all_wrong:
        return math.nan
    table = binned(ranking, bins)
    wrong = (table.count - table.right) / ranking.all_wrong
    return float(np.minimum(table.right / ranking.all_right, wrong).sum())


def ece_correct(
    confidence: ArrayLike, correct: ArrayLike, *, sample_weight: Weights = None
) -> float:
    """ECE of the right predictions alone: one minus their mean confidence.

    Zhu et al. 2022, figure 6c. The accuracy of right predictions is 1 in every bin, so the number
    of bins does not matter.

    Arguments as in `auroc`, with `confidence` (n,) in [0, 1].

    Returns
    -------
    float
        From 0 to 1: by how much right predictions are under-confident. ``nan`` with an
        `UndefinedMetricWarning` if no prediction is right.

    Examples
    --------
    >>> round(ece_correct([0.9, 0.7, 0.8], [True, True, False]), 4)
    0.2
    """
    return defined(
        "ece_correct", ece_correct_of(ranking_of(confidence, correct, True, sample_weight))
    )


def ece_correct_of(ranking: Ranking) -> float:
    """One minus the mean confidence of the right predictions."""
    if not ranking.all_right:
        return math.nan
    return float(1 - ranking.right @ ranking.confidence / ranking.all_right)


def mean_confidence(ranking: Ranking) -> float:
    """Mean confidence of all predictions."""
    return float(ranking.count @ ranking.confidence / ranking.n)
