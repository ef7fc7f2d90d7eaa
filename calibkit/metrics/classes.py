"""Errors of the probabilities of all classes: likelihood, Brier score, class-wise calibration."""

from typing import Any

import numpy as np

from calibkit.arrays import (
    Array,
    ArrayLike,
    Weights,
    as_labels,
    as_probs,
    check_bins,
    prob_blocks,
    row_sums,
)
from calibkit.metrics.bins import edges_of
from calibkit.metrics.ranking import LEAST, NEAR, size_of, weights_of

MOST_CELLS = 20_000_000  # classes × bins: bounds the memory


def nll(probs: ArrayLike, labels: ArrayLike, *, sample_weight: Weights = None) -> float:
    r"""Negative log-likelihood: the mean of :math:`-\log p_y`.

    Infinite if a true class has probability 0. (`summary` replaces a 0 by the probability that
    rounding may have turned into 0.)

    Arguments as in `ece`: `probs` (n, k) and `labels` (n,).

    Returns
    -------
    float
        In nats, from 0; lower is better.

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
    return mean_of(losses, weights_of(sample_weight, len(losses)))


def brier(probs: ArrayLike, labels: ArrayLike, *, sample_weight: Weights = None) -> float:
    r"""Brier score: mean over samples of the squared error summed over classes.

    .. math:: \mathrm{Brier} = \frac1n\sum_i\sum_k (p_{ik} - \mathbb 1[y_i = k])^2

    Brier 1950; Zhu et al. 2022, eq. 6, whose square was lost in print.

    Arguments as in `ece`: `probs` (n, k) and `labels` (n,).

    Returns
    -------
    float
        From 0 to 2; lower is better.

    Examples
    --------
    >>> round(brier([[0.9, 0.1], [0.5, 0.5]], [0, 1]), 4)
    0.26
    """
    probs, checked = prob_blocks(probs)
    labels = as_labels(labels, probs.shape[1], len(probs))
    weights, total = weights_of(sample_weight, len(probs)), 0.0
    for rows, block in checked:
        error = block.copy()
        error[np.arange(len(error)), labels[rows]] -= 1
        squares = np.einsum("ij,ij->i", error, error)
        if weights is not None:
            squares = weights[rows] * squares
        total += float(squares.sum(dtype=np.float64))
    return total / (len(probs) if weights is None else float(weights.sum()))


def classwise_ece(
    probs: ArrayLike, labels: ArrayLike, bins: int = 15, *, sample_weight: Weights = None
) -> float:
    r"""Calibration error of every class's probability, averaged over the classes.

    .. math:: \frac1K\sum_{j}\sum_m \frac{|B_{m,j}|}{n}\,
              |\mathrm{freq}_j(B_{m,j}) - \mathrm{conf}_j(B_{m,j})|

    The bins of class j are cut by its probability; freq_j is the share of class j in a bin, conf_j
    its mean probability (Lin et al. 2025, in 15 bins in their code). With many classes the value is
    small, since most probabilities are nearly 0.

    Arguments as in `ece`: `probs` (n, k) and `labels` (n,).

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Examples
    --------
    >>> round(classwise_ece([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], [0, 1, 1]), 4)
    0.3667
    """
    return error_of_classes(classes_of(probs, labels, bins, sample_weight))


def brier_decomposition(
    probs: ArrayLike, labels: ArrayLike, bins: int = 15, *, sample_weight: Weights = None
) -> dict[str, float]:
    r"""Split the Brier score into calibration and refinement, without a remainder.

    The probability of each class is binned in bins of equal width; the terms are summed over
    classes. With :math:`\bar p_m`, :math:`\bar t_m` the mean probability and the frequency of the
    class in a bin of :math:`n_m` samples, and :math:`\bar t` its overall frequency,

    .. math::
        \mathrm{calibration} &= \textstyle\sum_m \frac{n_m}{n} (\bar p_m - \bar t_m)^2 \\
        \mathrm{uncertainty} &= \bar t (1 - \bar t) \\
        \mathrm{resolution} &= \textstyle\sum_m \frac{n_m}{n} (\bar t_m - \bar t)^2 \\
        \mathrm{within\_bin} &= \textstyle\frac1n\sum_m\sum_{i \in m}
            (p_i - \bar p_m)^2 - 2 (p_i - \bar p_m)(t_i - \bar t_m)

    Murphy (1973) has the first three, which are exact only if all probabilities in a bin are the
    same. The last is what binning hides (Stephenson, Coelho and Jolliffe, 2008). Then, exactly,

    - ``brier = calibration + refinement``, the two parts in Singh et al. 2021, section 3.3, and
    - ``refinement = uncertainty - resolution + within_bin``.

    Recalibration can repair the first part and not the second.

    Arguments as in `ece`: `probs` (n, k) and `labels` (n,).

    Returns
    -------
    dict
        ``brier``, ``calibration``, ``refinement``, ``uncertainty``, ``resolution``,
        ``within_bin``.

    Examples
    --------
    >>> parts = brier_decomposition([[0.8, 0.2]] * 5, [0, 0, 0, 1, 1])
    >>> {name: round(parts[name], 4) for name in ("brier", "calibration", "refinement")}
    {'brier': 0.56, 'calibration': 0.08, 'refinement': 0.48}
    """
    return parts_of_brier(classes_of(probs, labels, bins, sample_weight))


class Classes:
    """Count and sums of p, t, p² and p t by class j and bin of its probability p.

    t is 1 if j is the true class, otherwise 0. With many classes nearly all probabilities are in
    the lowest bin. Only the others are counted one by one; the sums of the lowest bin are the
    column's sums minus those of the other bins.
    """

    def __init__(
        self, n: int, k: int, bins: int, dtype: np.dtype[Any], weights: "Array | None" = None
    ) -> None:
        if k * bins > MOST_CELLS:
            raise ValueError(
                f"bins: got {bins} for {k} classes, expected at most {MOST_CELLS // k:,}, since "
                "there is a number for each class and bin"
            )
        self.n: float = n if weights is None else float(weights.sum())
        self.shape: tuple[int, int] = k, bins
        self.weights: Array | None = weights
        self.worth: float = 1.0 if weights is None else size_of(weights) / self.n
        self.inner: Array = edges_of(bins, dtype)[1:-1]
        self.lowest: float = self.inner[0] if bins > 1 else np.inf
        # By class and bin; (k, bins) when all is counted.
        self.count: Array = np.zeros(k * bins)
        self.p: Array = np.zeros(k * bins)
        self.pp: Array = np.zeros(k * bins)
        self.t: Array = np.zeros((k, bins))
        self.pt: Array = np.zeros((k, bins))
        self.all_p: Array = np.zeros(k)
        self.all_error: Array = np.zeros(k)

    def _cell(self, classes: Array, p: Array) -> Array:
        return classes * self.shape[1] + np.searchsorted(self.inner, p)

    def add(self, block: Array, labels: Array, rows: slice) -> Array:
        """Add a block of probabilities (rows, k) to the sums, and return squared errors (rows,).

        `labels` (rows,) are those of the block, and `rows` is its place among all samples. The
        numbers in the block are overwritten.
        """
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

    def close(self, true_p: Array, labels: Array) -> "Classes":
        """Fill in the lowest bins, and the labels with the probability each was given."""
        k, bins = self.shape
        cell = self._cell(labels, true_p)
        own = true_p if self.weights is None else self.weights * true_p
        t = np.bincount(cell, self.weights, k * bins).reshape(k, bins).astype(np.float64)
        pt = np.bincount(cell, own, k * bins).reshape(k, bins)
        count, p, pp = (sums.reshape(k, bins) for sums in (self.count, self.p, self.pp))
        rest, near = self.n - count.sum(axis=1), 0.0 if self.weights is None else NEAR * self.n
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


def classes_of(
    probs: ArrayLike, labels: ArrayLike, bins: int, sample_weight: Weights = None
) -> Classes:
    """Count checked probabilities (n, k) and labels (n,) by class and bin."""
    check_bins(bins)
    probs, checked = prob_blocks(probs)
    labels = as_labels(labels, probs.shape[1], len(probs))
    classes = Classes(*probs.shape, bins, probs.dtype, weights_of(sample_weight, len(probs)))
    for rows, block in checked:
        classes.add(block.copy(), labels[rows], rows)
    return classes.close(probs[np.arange(len(probs)), labels], labels)


def error_of_classes(classes: Classes) -> float:
    """The class-wise calibration error, averaged over the classes."""
    return float(np.abs(classes.p - classes.t).sum(axis=1).mean() / classes.n)


def parts_of_brier(classes: Classes) -> dict[str, float]:
    """The parts of the Brier score by their names."""
    size = np.maximum(classes.count, LEAST)
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


def mean_of(values: Array, weights: "Array | None") -> float:
    """Mean of values (n,), weighted if there are weights."""
    if weights is None:
        return float(values.mean())
    some = weights > 0  # 0 times infinity would be no number
    return float(weights[some] @ values[some] / weights.sum())
