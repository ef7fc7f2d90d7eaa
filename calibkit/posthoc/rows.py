"""Compute probabilities and log-odds of checked logits, and set a row's top probability."""

import numpy as np

from calibkit.arrays import Array, row_sums, softmax
from calibkit.posthoc.recalibration import warn


def probs64(logits: Array, temperature: float = 1.0) -> Array:
    """Softmax of logits / temperature (n, k) in double precision, without checking the logits."""
    return softmax(logits.astype(np.float64) / temperature, kind=None)


def class_log_odds(logits: Array) -> Array:
    """Log-odds (k, n) of each class: its logit minus the log of the sum of exp of the others.

    >>> class_log_odds(np.array([[1e5, 0.0], [2.0, 3.0]])).tolist()
    [[100000.0, -1.0], [-100000.0, 1.0]]
    """
    n, k = logits.shape
    if k == 2:
        odds = np.empty((2, n))
        np.subtract(logits[:, 0], logits[:, 1], out=odds[0])
        np.negative(odds[0], out=odds[1])
        return odds
    top = np.arange(n), logits.argmax(axis=1)
    shifted = logits - logits[top][:, np.newaxis]
    weight = np.exp(shifted)
    odds = shifted - np.log(np.maximum(row_sums(weight)[:, np.newaxis] - weight, 1e-300))
    others = shifted
    others[top] = -np.inf
    second = others.max(axis=1)  # exp of the other logits may be 0
    odds[top] = -second - np.log(row_sums(np.exp(others - second[:, np.newaxis])))
    return np.ascontiguousarray(odds.T)


def warn_missing(labels: Array, k: int) -> None:
    """Warn if a class has no held-out sample."""
    missing = k - np.count_nonzero(np.bincount(labels))
    if missing:
        warn(f"{missing} of {k} classes have no held-out sample; their probabilities stay", 5)


def with_top(probs: Array, confidence: Array) -> Array:
    """Set the top probability of each row (n, k) to `confidence` (n,), and scale the others.

    The top class stays on top unless its confidence is below 1/k: see `HistogramBinning`.
    """
    n, k = probs.shape
    top = np.arange(n), probs.argmax(axis=1)
    # Zeros share evenly where there is nothing else.
    others = np.maximum(probs, np.finfo(probs.dtype).tiny)
    others[top] = 0
    others /= others.sum(axis=1, keepdims=True)
    # Mix them with the uniform row until the largest is just below the confidence.
    confidence = confidence[:, np.newaxis]
    largest = others.max(axis=1, keepdims=True)
    limit = (1 - 1e-6) * confidence / np.maximum(1 - confidence, 1e-12)
    mix = np.clip((largest - limit) / np.maximum(largest - 1 / (k - 1), 1e-12), 0, 1)
    rows = (1 - confidence) * ((1 - mix) * others + mix / (k - 1))
    rows[top] = confidence[:, 0]
    return rows


def class_probs(logits: Array, temperature: float = 1.0) -> Array:
    """`probs64` as (k, n), which makes work on one class at a time faster."""
    if logits.shape[1] > 2:
        return np.ascontiguousarray(probs64(logits, temperature).T)
    # The same numbers several times faster. Of more classes the sums would differ in the last bit.
    probs = np.array(logits.T, dtype=np.float64, order="C")
    probs /= temperature
    probs -= probs.max(axis=0)
    np.exp(probs, out=probs)
    probs /= probs.sum(axis=0)
    return probs


def normalised(probs: Array) -> Array:
    """Turn (k, n) into rows (n, k) that sum to 1; a row of zeros becomes uniform."""
    total = probs.sum(axis=0)
    empty = total == 0
    probs[:, empty], total[empty] = 1, len(probs)
    probs /= total
    return np.stack(probs, axis=1)
