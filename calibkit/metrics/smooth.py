"""The calibration error of the top label without bins."""

import functools
import math
from collections.abc import Callable

import numpy as np

from calibkit.arrays import Array, ArrayLike, Weights
from calibkit.metrics.ranking import weights_of
from calibkit.metrics.top import top_of


def smooth_ece(probs: ArrayLike, labels: ArrayLike, *, sample_weight: Weights = None) -> float:
    r"""Calibration error of the top label without bins: "smECE" (Błasiok and Nakkiran, 2024).

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big|\frac1n\sum_i
              K_\sigma(t, c_i)\,(c_i - a_i)\Big|\,\mathrm dt

    with confidence c, correctness a and a Gaussian kernel K of width σ, reflected at 0 and 1. The
    width is not chosen: it is the least σ with smECE_σ <= σ. As in the authors' library, relplot,
    sums are taken on a grid of 1,001 points (more if σ < 0.01) and divided by the smoothed density
    in place of n.

    Arguments as in `ece`: `probs` (n, k) or (n,) and `labels` (n,).

    Returns
    -------
    float
        A fraction in [0, 1]; lower is better.

    Examples
    --------
    >>> round(smooth_ece([[0.9, 0.1], [0.7, 0.3]], [0, 1]), 2)
    0.3
    """
    confidence, correct = top_of(probs, labels)
    confidence = confidence.astype(np.float64)
    weights = weights_of(sample_weight, len(correct))
    error = _smoothed_error(confidence, confidence - correct, weights)

    def enough(width: float) -> bool:
        return width < 1e-3 or width < error(width)

    if enough(1.0):
        return error(1.0)
    width, low = 1.0, 0.0
    for _ in range(10):
        middle = (width + low) / 2
        width, low = (width, middle) if enough(middle) else (middle, low)
    return error(width)


def _smoothed_error(
    confidence: Array, residual: Array, weights: "Array | None" = None
) -> Callable[[float], float]:
    """The smoothed calibration error as a function of the kernel's width."""
    count = np.ones_like(residual) if weights is None else weights
    residual = residual if weights is None else residual * weights

    @functools.cache
    def spectrum(points: int) -> Array:
        """Fourier transform of residuals and counts on a grid, reflected at its ends."""
        place = confidence * (points - 1)
        left = place.astype(np.intp).clip(0, points - 2)
        share = place - left
        on_grid = np.empty((2, points))
        for row, weight in zip(on_grid, (residual, count), strict=True):
            row[:] = np.bincount(left, (1 - share) * weight, minlength=points)
            row[1:] += np.bincount(left, share * weight, minlength=points - 1)
        return np.fft.rfft(np.hstack([on_grid, on_grid[:, -2:0:-1]]))

    @functools.cache
    def error(width: float) -> float:
        points = max(2000, round(20 / width)) // 2 + 1
        kernel = np.exp(-((np.linspace(0, 1, points) - 0.5) ** 2) / (2 * width**2))
        kernel = np.pad(kernel / (math.sqrt(2 * math.pi) * width), (0, points - 2))
        size = 2 * points - 2
        product = spectrum(points) * np.fft.rfft(np.roll(kernel, -(points // 2)))
        smooth = np.fft.irfft(product, size)[:, :points]
        at = np.linspace(0, 1, max(200, round(10 / width)))
        gap, density = (np.interp(at, np.linspace(0, 1, points), row) for row in smooth)
        return float(np.abs(gap).sum() / (density + 1e-4).sum())

    return error
