"""The level of each of several looks at growing data, so that all together keep one level."""

from functools import cache

import numpy as np


@cache
def each_look(alpha: float, looks: int) -> float:
    """The two-sided level at which to judge each of some looks (Pocock, 1977).

    For looks at equal steps of independent data; the chance that one of them goes wrong is then
    `alpha`. Looks that lie closer together, or share their test set, depend on each other more, and
    go wrong less often.

    Parameters
    ----------
    alpha : two-sided level of all looks together, in (0, 1)
    looks : how many, the last one included

    Examples
    --------
    >>> each_look(0.05, 1), round(each_look(0.05, 2), 4)
    (0.05, 0.0294)
    """
    if looks == 1:
        return alpha
    from scipy.special import ndtr, ndtri

    # Between the bound of one look and that of Bonferroni, by false position (Illinois).
    low, high = -ndtri(alpha / 2), -ndtri(alpha / 2 / looks)
    above, below = _crossed(low, looks) - alpha, _crossed(high, looks) - alpha
    kept = 0  # the end that the last step kept
    while high - low > 1e-7:
        bound = (low * below - high * above) / (below - above)
        excess = _crossed(bound, looks) - alpha
        if abs(excess) < 1e-9 * alpha:
            break
        if excess > 0:
            low, above = bound, excess
            below, kept = below / (1 + (kept > 0)), 1
        else:
            high, below = bound, excess
            above, kept = above / (1 + (kept < 0)), -1
    return float(2 * ndtr(-bound))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


def _crossed(bound: float, looks: int) -> float:
    """The chance that a random walk of normal steps leaves ± bound √k at some step k of `looks`.

    By recursion over the density of what has not left (Armitage, McPherson and Rowe, 1969).
    """
    from scipy.special import ndtr

    at, density = np.zeros(1), np.ones(1)  # the weights of the integral are in the density
    for k in range(1, looks):
        half = bound * np.sqrt(k)
        step = np.exp(-((half * _NODES[:, None] - at) ** 2) / 2) / np.sqrt(2 * np.pi)
        at, density = half * _NODES, half * _WEIGHTS * (step @ density)
    half = bound * np.sqrt(looks)
    return 1 - float(density @ (ndtr(half - at) - ndtr(-half - at)))
