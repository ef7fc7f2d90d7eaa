"""Compare predictions with the answers of some fifty people for each image.

A label is one class. People's answers (CIFAR-10H, read by `public.votes`) estimate a distribution η
over classes. η answers questions about a network's probabilities p that labels cannot answer: how
far p is from η on an image (`distance`), which of the weights that losses give to samples follows
this distance (`weights`, `correlation`), and whether the confidence equals the share of people who
agree (`calibration_error`).

Fifty votes estimate η with an error. The error enlarges every distance (`vote_noise`) and lowers
every correlation. `squared_distance` and `true_correlation` correct for this error.
"""

from typing import NamedTuple

import numpy as np

from calibkit import metrics, stats
from calibkit.arrays import Array


def weights(probs: Array, labels: Array) -> dict[str, Array]:
    r"""Compute the weights that losses give to samples, from probabilities and labels.

    - ``focal``, 1 - p_y: focal loss, and, doubled, BSCE-GRA with β = 1;
    - ``norm``, ‖y - p‖₂: BSCE-GRA with β = 2, γ = 1; ``brier``, its square; ``bsce_gra``, its
      fourth power, which the authors train with;
    - ``focal_2`` and ``focal_3``, (1 - p_y)² and (1 - p_y)³;
    - dual focal, 1 - p_y + p_j, in the three meanings of j that are in use: ``dual_other``, the
      most probable class but y; ``dual_below``, the most probable of those less probable than y
      (its authors' code); ``dual_second``, the second most probable of all.

    Parameters
    ----------
    probs : array, shape (n, k)
        Probabilities.
    labels : array of integers, shape (n,)
        True classes.

    Returns
    -------
    dict of str to array, shape (n,)

    Examples
    --------
    >>> found = weights(np.array([[0.5, 0.3, 0.2]]), np.array([1]))
    >>> [(name, round(float(w[0]), 2)) for name, w in found.items()][:3]
    [('focal', 0.7), ('norm', 0.88), ('brier', 0.78)]
    """
    rows = np.arange(len(labels))
    p_y = probs[rows, labels]
    off = probs.copy()
    off[rows, labels] -= 1
    brier = (off**2).sum(axis=1)
    others = probs.copy()
    others[rows, labels] = 0
    below = np.where(others < p_y[:, None], others, 0)
    return {
        "focal": 1 - p_y,
        "norm": np.sqrt(brier),
        "brier": brier,
        "bsce_gra": brier**2,
        "focal_2": (1 - p_y) ** 2,
        "focal_3": (1 - p_y) ** 3,
        "dual_other": 1 - p_y + others.max(axis=1),
        "dual_below": 1 - p_y + below.max(axis=1),
        "dual_second": 1 - p_y + np.partition(probs, -2, axis=1)[:, -2],
    }


def shares(votes: Array) -> Array:
    """Compute the share of people who chose each class (n, k), from numbers of votes (n, k)."""
    return votes / votes.sum(axis=1, keepdims=True)


def vote_noise(votes: Array) -> Array:
    """Estimate the squared distance between people's shares and η (n,), due to few votes.

    (1 - Σ s²) / (m - 1) for shares s of m votes, an unbiased estimate of (1 - Σ η²) / m.

    >>> vote_noise(np.array([[2, 2], [4, 0]])).round(3)  # (1 - 1/2) / 3
    array([0.167, 0.   ])
    """
    return (1 - (shares(votes) ** 2).sum(axis=1)) / (votes.sum(axis=1) - 1)


def distance(probs: Array, votes: Array) -> Array:
    """Distance ‖s - p‖₂ between probabilities and people's shares, (n,), from 0 to √2.

    >>> distance(np.array([[0.6, 0.4]]), np.array([[10, 0]])).round(3)
    array([0.566])
    """
    return np.linalg.norm(shares(votes) - probs, axis=1)


def squared_distance(probs: Array, votes: Array) -> Array:
    """Unbiased estimate of ‖η - p‖², (n,): the squared `distance` less `vote_noise`.

    It is negative if the shares are nearer to p than so few votes are expected to be to η.
    """
    return distance(probs, votes) ** 2 - vote_noise(votes)


def halves(votes: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Votes dealt at random into two halves, each of shape (n, k)."""
    left, wanted = votes.sum(axis=1), votes.sum(axis=1) // 2
    first = np.zeros_like(votes)
    for k in range(votes.shape[1]):
        left = left - votes[:, k]
        first[:, k] = rng.hypergeometric(votes[:, k], left, wanted)
        wanted = wanted - first[:, k]
    return first, votes - first


def resamples(m: int, n: int = 200, seed: int = 0) -> Array:
    """How often each of m samples is drawn in n bootstrap resamples, (n, m).

    The same draws as those of `calibkit.stats.replicates`.
    """
    rng = np.random.default_rng(seed)
    draws = (rng.integers(0, m, m) for _ in range(n))
    return np.array([np.bincount(drawn, minlength=m) for drawn in draws])


def correlation(x: Array, y: Array, counts: Array | None = None) -> Array:
    """Pearson correlation of each column of x (m, k) with y (m,); a row for each resample.

    Parameters
    ----------
    x : array, shape (m, k)
        Numbers to correlate.
    y : array, shape (m,)
        With what.
    counts : array, shape (n, m), optional
        How often each sample counts, of `resamples`; once each by default.

    Returns
    -------
    array, shape (n, k), or (k,) without counts
    """
    each = np.ones((1, len(y))) if counts is None else counts.astype(np.float64)
    x, y = x - x.mean(axis=0), y - y.mean()  # changes nothing but rounding
    size = each.sum(axis=1, keepdims=True)

    def mean(values):
        return each @ values / size

    mean_x, mean_y = mean(x), mean(y[:, None])
    covariance = mean(x * y[:, None]) - mean_x * mean_y
    spread = (mean(x**2) - mean_x**2) * (mean(y[:, None] ** 2) - mean_y**2)
    found = covariance / np.sqrt(spread)
    return found[0] if counts is None else found


def ranks(x: Array) -> Array:
    """Mid-ranks of each column, so that `correlation` of ranks is Spearman's."""
    from scipy.stats import rankdata

    return rankdata(x, axis=0)


def true_correlation(
    x: Array, probs: Array, votes: Array, splits: int = 20, seed: int = 0
) -> Array:
    """Correlation of each column of x with ‖η - p‖² as if η were known, (k,).

    Votes add noise of mean 0 to `squared_distance`. The noise does not change the covariance with x
    but enlarges the variance. Two halves of the votes have independent noise, so the covariance of
    their squared distances is the variance without noise.

    Parameters
    ----------
    x : array, shape (n, k)
        Numbers that do not depend on the votes.
    probs, votes : arrays, shape (n, classes)
        Of the same samples.
    splits : int
        Random halvings whose covariances are averaged.
    seed : int
        Of the halvings.
    """
    rng = np.random.default_rng(seed)
    between = []
    for _ in range(splits):
        a, b = (squared_distance(probs, half) for half in halves(votes, rng))
        between.append(np.cov(a, b)[0, 1])
    measured = squared_distance(probs, votes)
    return correlation(x, measured) * np.sqrt(measured.var(ddof=1) / np.mean(between))


class Calibration(NamedTuple):
    """A calibration error, the error by chance alone, and the direction of the error."""

    error: float
    floor: float
    gap: float


def calibration_error(confidence: Array, agreement: Array, bins: int = 15) -> Calibration:
    """ECE of confidences against any share that they are to predict, such as people's.

    With `agreement` 0 or 1 for wrong and right predictions the error is `calibkit.metrics.ece`.

    Parameters
    ----------
    confidence : array, shape (n,)
        From 0 to 1.
    agreement : array, shape (n,)
        Whether a prediction is right, or the share of people who agree with it.
    bins : int
        Of equal width, (lo, hi].

    Returns
    -------
    Calibration
        `error` is the ECE. `floor` is the expected ECE of calibrated confidences: each bin is then
        off only by chance. `gap` is mean confidence minus mean agreement.

    Examples
    --------
    >>> found = calibration_error(np.array([0.9, 0.9, 0.6]), np.array([1.0, 0.6, 0.5]))
    >>> round(found.error, 3), round(found.gap, 3)  # 2/3 of 0.1, and 1/3 of 0.1
    (0.1, 0.1)
    """
    n, off = len(confidence), confidence - agreement
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    total = np.bincount(place, off, minlength=bins)
    squares = np.bincount(place, off**2, minlength=bins)
    # Were a bin calibrated, the mean square of `off` would be the variance of one sample.
    floor = np.sqrt(2 / np.pi * np.maximum(squares - total**2 / np.maximum(count, 1), 0)).sum() / n
    return Calibration(float(np.abs(total).sum() / n), float(floor), float(off.mean()))


def interval(estimate: float, draws: Array, level: float = 0.95) -> stats.Interval:
    """Percentile interval of a bootstrap, moved so that its mean is the estimate."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], method="weibull")
    shift = estimate - draws.mean()
    return stats.Interval(float(estimate), float(low + shift), float(high + shift))


def auroc_without(confidence: Array, correct: Array, dropped: Array) -> float:
    """AUROC of failure prediction without some samples, given by their places."""
    kept = np.ones(len(correct), bool)
    kept[dropped] = False
    return metrics.auroc(confidence[kept], correct[kept])
