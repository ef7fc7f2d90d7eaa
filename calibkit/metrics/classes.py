"""Errors of the probabilities of all classes: likelihood, Brier score, class-wise calibration."""

import numpy as np

from calibkit.arrays import (
    Array,
    ArrayLike,
    as_labels,
    as_probs,
    check_bins,
    prob_blocks,
    row_sums,
)
from calibkit.metrics.bins import edges_of
from calibkit.metrics.ranking import LEAST, NEAR, size_of, weights_of

MOST_CELLS = 20_000_000  # classes × bins: bounds the memory


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
    return mean_of(losses, weights_of(sample_weight, len(losses)))


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
    return error_of_classes(classes_of(probs, labels, bins, sample_weight))


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
    return parts_of_brier(classes_of(probs, labels, bins, sample_weight))


class Classes:
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
        self.weights, self.worth = weights, 1.0 if weights is None else size_of(weights) / self.n
        self.inner = edges_of(bins, dtype)[1:-1]
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
    probs: ArrayLike, labels: ArrayLike, bins: int, sample_weight: "ArrayLike | None" = None
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
