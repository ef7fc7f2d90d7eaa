"""Isotonic regression of each class against the rest."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from calibkit.arrays import Array
from calibkit.posthoc.recalibration import Recalibration
from calibkit.posthoc.rows import class_log_odds, class_probs, normalised, warn_missing
from calibkit.posthoc.search import own_temperature

_FLOOR = 1e-200  # of probabilities; below, the slope between two can be infinite


@dataclass
class IsotonicCalibration(Recalibration):
    """Isotonic regression of each class against the rest, then normalised.

    The probability of a class is replaced by a non-decreasing function of it, fitted by least
    squares to whether the class is the true one (Zadrozny and Elkan 2002). Between the fitted
    points the function is linear in the log-odds, which differ even if scores are large. Logits are
    first divided by their temperature of lowest NLL, so that their scale does not matter.
    Logarithms of probabilities, whose exponentials sum to 1 in each row, are not divided.
    Predictions may change. A class that no held-out label has keeps its probability, with a
    `PosthocWarning`.

    Attributes
    ----------
    points_ : list
        For each class the corners of the function: log-odds, ascending, and the probability that
        each becomes; None for a missing class.
    temperature_ : float or None
        The number by which logits are divided; 1 for probabilities. None in a map that a version
        before 0.2 saved: its corners are probabilities in place of log-odds.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 1.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> IsotonicCalibration().fit(logits, labels).predict_proba([[4.0, 0.0]])
    array([[0.75, 0.25]])
    """

    _map = "isotonic"
    _needs_two_classes = True
    _kept = {"points": (), "temperature": ()}
    _later = {"temperature": None}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        self.temperature_: float | None = own_temperature(logits, labels, weights)
        odds = class_log_odds(logits.astype(np.float64) / self.temperature_)
        digits = 9 if logits.dtype == np.float64 else 5
        self.points_: list[tuple[Array, Array] | None] = [None] * len(odds)
        order = None
        for k in np.flatnonzero(np.bincount(labels)):
            # Of two classes, one falls as the other rises.
            reuse = len(odds) == 2 and order is not None
            order = order[::-1] if reuse else _ascending(odds[k])
            x, ordered = odds[k, order], None if weights is None else weights[order]
            # Equal probabilities differ in the last digits where the other classes differ.
            self.points_[k] = _isotonic(x, (labels == k)[order], ordered, x.round(digits))
        warn_missing(labels, logits.shape[1])

    def _probs(self, logits: Array) -> Array:
        earlier, temperature = self.temperature_ is None, self.temperature_ or 1.0
        probs = places = class_probs(logits, temperature)
        if not earlier:
            places = class_log_odds(logits.astype(np.float64) / temperature)
        # Of two classes one falls as the other rises: np.interp is fast on what nearly does either.
        order = _coarse_order(places[0]) if len(places) == 2 else slice(None)
        for k, points in enumerate(self.points_):
            if points is not None:
                probs[k, order] = np.interp(places[k, order], *points)
        return normalised(probs)

    def _restore(self, name: str, value: Any, k: int) -> Any:
        if name != "points":
            return super()._restore(name, value, k)
        if len(value) != k:
            raise ValueError(f"{name}: got {len(value)} classes, expected {k}")
        points = [pair if pair is None else np.array(pair, dtype=np.float64) for pair in value]
        for pair in points:
            if pair is not None and not (
                pair.ndim == 2 and len(pair) == 2 and pair.size and (np.diff(pair) >= 0).all()
            ):
                raise ValueError(f"{name}: got points that do not rise, expected ascending ones")
        return [pair if pair is None else tuple(pair) for pair in points]


def _isotonic(x: Array, right: Array, weights: Array | None, rounded: Array) -> tuple[Array, Array]:
    """Corners of the isotonic regression of booleans on `x`, which ascends.

    Samples that are equal in `rounded` are one point.
    """
    new = np.concatenate([[True], rounded[1:] != rounded[:-1], [True]])
    single = new[:-1] & new[1:]
    # A mean that rises begins neither after a single right answer nor with a single wrong one.
    new[1:-1] &= ~(single & right)[:-1] & ~(single & ~right)[1:]
    starts = np.flatnonzero(new)
    if weights is None:
        count = np.diff(starts)
    else:
        count, right = np.add.reduceat(weights, starts[:-1]), right * weights
    share = np.add.reduceat(right, starts[:-1], dtype=np.float64) / count
    found = isotonic_regression(share, weights=count)
    starts = starts[found.blocks]
    ends = np.stack([starts[:-1], starts[1:] - 1], axis=1).ravel()  # of each level stretch
    x, y, rounded = x[ends], np.repeat(found.x[found.blocks[:-1]], 2), rounded[ends]
    kept = np.append(True, rounded[1:] > rounded[:-1])
    return x[kept], y[kept]


def _ascending(values: Array) -> Array:
    """Indices that sort values (n,); a rough sort comes first, which makes the exact one fast."""
    order = _coarse_order(values)
    return order[np.argsort(values[order], kind="stable")]


def _coarse_order(values: Array) -> Array:
    """Indices that sort values (n,) roughly, in linear time; more finely near 0."""
    return np.argsort((values / (1 + np.abs(values)) * 32767).astype(np.int16), kind="stable")
