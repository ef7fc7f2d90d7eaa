"""Draw the samples of a bootstrap resample: single rows, or whole clusters of rows.

Rows that come from the same patient, film or document carry less information than independent rows.
If rows have such groups, whole groups are drawn in place of rows. A row keeps its weight.
"""

from collections.abc import Iterator

import numpy as np

from calibkit.arrays import Array, ArrayLike, Weights, as_weights, to_numpy


def as_groups(groups: ArrayLike, n: int, name: str = "groups") -> Array:
    """Return the group of each sample as a number from 0.

    Parameters
    ----------
    groups : array (n,)
        Names or numbers.
    n : int
        Number of samples.
    name : str
        What errors call the array.

    Returns
    -------
    array (n,) of int

    Raises
    ------
    ValueError
        There is not one group for each sample.

    Examples
    --------
    >>> as_groups(["ann", "bob", "ann"], n=3).tolist()
    [0, 1, 0]
    """
    array = to_numpy(groups, name)
    if array.shape != (n,):
        raise ValueError(f"{name}: got shape {array.shape}, expected ({n},), one for each sample")
    return np.unique(array, return_inverse=True)[1]


def draws(
    m: int, n: int, seed: int = 0, sample_weight: Weights = None, groups: "ArrayLike | None" = None
) -> Iterator[Array]:
    """Draw `n` resamples of `m` samples with replacement.

    Parameters
    ----------
    m, n : int
        Number of samples, and of resamples.
    seed : int
        The same seed gives the same resamples.
    sample_weight : array (m,), optional
        Samples of weight 0 are never drawn. All others are drawn with equal chances.
    groups : array (m,), optional
        Names or numbers. Whole groups are drawn, as many as there are, so that a resample may have
        more or fewer than m rows.

    Returns
    -------
    iterator of arrays of int
        The rows of each resample.

    Raises
    ------
    ValueError
        An array has another length, a weight is invalid (see `as_counts`), or there is only one
        group.

    Examples
    --------
    >>> [rows.tolist() for rows in draws(5, 2, seed=1, groups=list("aabbb"))]
    [[0, 1, 2, 3, 4], [2, 2, 3, 3, 4, 4]]
    """
    weights = None if sample_weight is None else as_counts(sample_weight, m)
    there = np.arange(m) if weights is None else np.flatnonzero(weights)
    place = None
    if groups is not None:
        place = as_groups(as_groups(groups, m)[there], len(there))
        if place.max() == 0:
            raise ValueError("groups: got one group, expected at least two to draw from")
    return _drawn(there, place, n, np.random.default_rng(seed))


def _drawn(
    there: Array, place: "Array | None", n: int, rng: np.random.Generator
) -> Iterator[Array]:
    several = len(there) if place is None else place.max() + 1
    for _ in range(n):
        drawn = rng.integers(0, several, several)
        if place is None:
            yield there[drawn]
        else:
            yield np.repeat(there, np.bincount(drawn, minlength=several)[place])


def as_counts(weights: ArrayLike, n: int, name: str = "sample_weight") -> Array:
    """Scale weights so that they count rows.

    Whole numbers are taken for counts and stay: a weight of 2 is a row that occurs twice. Other
    weights only compare rows with each other. They are scaled to a mean of 1, so that together they
    count as many rows as there are.

    Parameters
    ----------
    weights : array (n,)
        Finite numbers of at least 0, not all 0.
    n : int
        Number of samples.
    name : str
        What errors call the array.

    Returns
    -------
    array (n,) of float64

    Raises
    ------
    ValueError
        The shape is wrong, or a weight is negative, infinite or NaN, or all are 0.

    Examples
    --------
    >>> as_counts([3, 0, 1], n=3).tolist(), as_counts([0.3, 0.1], n=2).round(2).tolist()
    ([3.0, 0.0, 1.0], [1.5, 0.5])
    """
    weights = as_weights(weights, n, name)
    if (weights == np.rint(weights)).all() and weights.sum() < 2**53:
        return weights
    return weights / weights.max() / (weights / weights.max()).mean()


def effective_size(
    weights: "Array | None" = None, groups: "Array | None" = None, residual: "Array | None" = None
) -> float:
    r"""Return how many independent samples of equal weight would give a mean the same noise.

    .. math:: \frac{(\sum_i w_i)^2}{\sum_i w_i^2} \qquad\text{or}\qquad
              \frac{\sum_i w_i \sum_i w_i r_i^2}{\sum_g (\sum_{i \in g} w_i r_i)^2}

    The first formula is due to Kish (1965). The second holds for groups g of samples that depend on
    each other; r is the distance of an averaged value from the weighted mean. It divides the
    variance that the mean would have for independent samples of equal weight by its variance over
    groups. The result is at most the sum of the weights.

    Parameters
    ----------
    weights : array (n,), optional
        Weights from `as_counts`; by default all are 1.
    groups : array (n,) of int, optional
        Groups from `as_groups`.
    residual : array (n,), optional
        The values that are averaged. They are needed with groups, or without weights.

    Returns
    -------
    float
        At least 1.

    Examples
    --------
    >>> round(effective_size(np.array([3.0, 1.0] * 40)), 6)
    64.0
    >>> copies = np.repeat([0.0, 1.0, 1.0, 0.0], 5)
    >>> effective_size(groups=np.repeat(np.arange(4), 5), residual=copies)
    4.0
    """
    if groups is None and weights is not None:
        share = weights / weights.max()
        return float(share.sum() ** 2 / (share @ share))
    weights = np.ones(len(residual)) if weights is None else weights
    every = float(weights.sum())
    if groups is None:
        return every
    distance = residual - weights @ residual / every
    alone = float(weights @ distance**2)
    together = float((np.bincount(groups, weights * distance) ** 2).sum())
    return max(min(every * alone / together, every), 1.0) if together else every
