"""Fits by likelihood: L-BFGS, and the NLL of a softmax with its gradient."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize

from calibkit.arrays import Array, row_sums
from calibkit.posthoc.recalibration import EndOfRangeWarning, warn


def nll_and_residual(
    scores: Array, labels: Array, weights: Array | None = None
) -> tuple[float, Array]:
    """Mean NLL of softmax(scores) in nats, and its gradient, which overwrites `scores` (n, k)."""
    true = np.arange(len(labels)), labels
    mean, rows = np.mean, len(labels)  # a row counts as one of so many
    if weights is not None:
        mean, rows = (weights / weights.sum()).dot, weights.sum() / weights
    scores -= scores.max(axis=1, keepdims=True)
    of_labels = mean(scores[true])
    total = row_sums(np.exp(scores, out=scores))
    scores /= (total * rows)[:, np.newaxis]
    scores[true] -= 1 / rows
    return mean(np.log(total)) - of_labels, scores


def minimised(
    loss: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
) -> Array:
    """Minimise a loss by L-BFGS with analytic gradients; warn if it does not converge.

    `loss` returns the value and its gradient. `start` is the first point, and the result the last.
    """
    options = {"maxiter": 2000, "maxfun": 10_000, "ftol": 1e-14, "gtol": 1e-8}
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if result.status == 1:
        message = f"no convergence in {result.nit} iterations: the held-out data may be separable"
        warn(message, 5, EndOfRangeWarning)
    return result.x
