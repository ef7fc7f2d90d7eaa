"""Which samples a resample holds: rows drawn one by one, or whole clusters of rows.

Rows that come from the same patient, film or document say less than as many from different ones.
Where there are such clusters, they are drawn in place of rows, each with all of its rows, and how
much the rows count stays with them.
"""

import math
from collections.abc import Iterator

import numpy as np

from calibkit.arrays import Array, ArrayLike, as_weights, to_numpy


def as_clusters(clusters: ArrayLike, n: int, name: str = "clusters") -> Array:
    """Return the cluster of each sample as a number from 0, after checking that there are two.

    Parameters
    ----------
    clusters : array (n,)
        Names or numbers.
    n : int
        Samples.
    name : str
        What to call them in errors.

    Returns
    -------
    array (n,) of int

    Raises
    ------
    ValueError
        If there is not one for each sample, or there are fewer than two clusters.

    Examples
    --------
    >>> as_clusters(["ann", "bob", "ann"], n=3).tolist()
    [0, 1, 0]
    """
    array = to_numpy(clusters, name)
    if array.shape != (n,):
        raise ValueError(f"{name}: got shape {array.shape}, expected ({n},), one for each sample")
    names, place = np.unique(array, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"{name}: got one cluster, expected at least two")
    return place


def draws(m: int, n: int, seed: int = 0, clusters: "Array | None" = None) -> Iterator[Array]:
    """Yield the rows of `n` resamples of `m` samples, drawn with replacement.

    Parameters
    ----------
    m, n : int
        Samples, and resamples.
    seed : int
        Same seed, same resamples.
    clusters : array (m,) of int, optional
        The cluster of each sample, from 0 without a gap (`as_clusters`). As many clusters as there
        are, are then drawn, each with all of its samples: a resample may have more or fewer rows.

    Yields
    ------
    array of int
        Rows.

    Examples
    --------
    >>> clusters = np.array([0, 0, 1, 1, 1])
    >>> [rows.tolist() for rows in draws(5, 2, seed=1, clusters=clusters)]
    [[0, 1, 2, 3, 4], [2, 3, 4, 2, 3, 4]]
    """
    rng = np.random.default_rng(seed)
    if clusters is None:
        for _ in range(n):
            yield rng.integers(0, m, m)
        return
    order = np.argsort(clusters, kind="stable")
    size = np.bincount(clusters)
    first = np.cumsum(size) - size
    for _ in range(n):
        drawn = rng.integers(0, len(size), len(size))
        many = size[drawn]
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        yield order[np.repeat(first[drawn], many) + within]


def as_counts(weights: ArrayLike, n: int, name: str = "sample_weight") -> Array:
    """Return weights (n,) as numbers of rows: whole ones as they are, others with a mean of 1.

    A weight of 2 is a row that is there twice. Weights that are no such counts say only how much a
    row matters beside another one; scaled so, all together count as many rows as there are.

    Parameters
    ----------
    weights : array (n,)
        Finite numbers from 0, not all 0.
    n : int
        Samples.
    name : str
        What to call them in errors.

    Returns
    -------
    array (n,) of float64

    Raises
    ------
    ValueError
        As `arrays.as_weights`.

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
    weights: "Array | None" = None,
    clusters: "Array | None" = None,
    values: "Array | None" = None,
) -> float:
    r"""How many independent samples of equal weight these are worth.

    .. math:: \frac{(\sum_i w_i)^2}{\sum_i w_i^2} \Big/
              \frac{\sum_c (\sum_{i \in c} w_i r_i)^2}{\sum_i (w_i r_i)^2}

    The first is due to Kish (1965). The second is the design effect of clusters c, with r the
    distance of each value from the weighted mean: how much larger the variance of the mean is than
    that of rows without clusters. It counts as 1 where it is less.

    Parameters
    ----------
    weights : array (n,), optional
        By default all 1.
    clusters : array (n,) of int, optional
        As from `as_clusters`.
    values : array (n,)
        What the mean is of; without clusters, only their number matters.

    Returns
    -------
    float
        At least 1.

    Examples
    --------
    >>> round(effective_size(np.array([3.0, 1.0] * 40)), 6)
    64.0
    >>> copies = np.repeat([0.0, 1.0, 1.0, 0.0], 5)
    >>> effective_size(clusters=np.repeat(np.arange(4), 5), values=copies)
    4.0
    """
    n = len(values if weights is None else weights)
    weights = np.ones(n) if weights is None else weights / weights.max()
    size = float(weights.sum() ** 2 / (weights @ weights))
    if clusters is not None:
        distance = weights * (values - weights @ values / weights.sum())
        alone = float(distance @ distance)
        together = float((np.bincount(clusters, distance) ** 2).sum())
        size /= max(together / alone, 1.0) if alone else 1.0
    return max(size, 1.0) if math.isfinite(size) else 1.0
