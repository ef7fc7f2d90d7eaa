"""Which samples a resample holds: rows drawn one by one, or whole clusters of rows.

Rows that come from the same patient, film or document say less than as many from different ones.
Where there are such groups, they are drawn in place of rows, each with all of its rows, and how
much the rows count stays with them.
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
        Samples.
    name : str
        What to call them in errors.

    Returns
    -------
    array (n,) of int

    Raises
    ------
    ValueError
        If there is not one for each sample.

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
    """Return the rows of `n` resamples of `m` samples, drawn with replacement, one after another.

    Parameters
    ----------
    m, n : int
        Samples, and resamples.
    seed : int
        Same seed, same resamples.
    sample_weight : array (m,), optional
        Samples of weight 0 are as good as not there. The others are drawn with equal chances, and
        count as much as before.
    groups : array (m,), optional
        Names or numbers. As many groups as there are, are then drawn, each with all of its samples:
        a resample may have more or fewer rows.

    Returns
    -------
    iterator of arrays of int

    Raises
    ------
    ValueError
        Of arrays of another length, of weights as `as_counts`, and of a single group.

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
    weights: "Array | None" = None, groups: "Array | None" = None, residual: "Array | None" = None
) -> float:
    r"""How many independent samples of equal weight these are worth, to the noise of a mean.

    .. math:: \frac{(\sum_i w_i)^2}{\sum_i w_i^2} \qquad\text{or}\qquad
              \frac{\sum_i w_i \sum_i w_i r_i^2}{\sum_g (\sum_{i \in g} w_i r_i)^2}

    The first is due to Kish (1965). The second is for groups g whose samples may be alike, with r
    the distance of what is averaged from its weighted mean: the variance of the mean if all samples
    were independent and equal, divided by its variance over groups. At most the sum of the weights.

    Parameters
    ----------
    weights : array (n,), optional
        As from `as_counts`; by default all 1.
    groups : array (n,) of int, optional
        As from `as_groups`.
    residual : array (n,), optional
        What is averaged; needed with groups, or without weights.

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
