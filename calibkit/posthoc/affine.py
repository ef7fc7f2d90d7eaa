"""Affine functions of the logits."""

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from calibkit.arrays import Array, softmax
from calibkit.posthoc.likelihood import minimised, nll_and_residual
from calibkit.posthoc.recalibration import Recalibration
from calibkit.posthoc.rows import probs64
from calibkit.posthoc.search import lowest_nll, unit_of


@dataclass
class VectorScaling(Recalibration):
    """Scale and shift each logit, softmax(w ∘ z + b), fitted by likelihood (Guo et al. 2017).

    Predictions may change.

    Attributes
    ----------
    scale_ : array, shape (k,)
        The factors w.
    bias_ : array, shape (k,)
        The shifts b.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 4.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> VectorScaling().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    _map = "vector"
    _needs_two_classes = True
    _kept = {"scale": ("k",), "bias": ("k",)}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        unit, k = unit_of(logits, weights), logits.shape[1]
        logits = logits.astype(np.float64) / unit

        def loss(parameters):
            scale, bias = parameters[:k], parameters[k:]
            nll, residual = nll_and_residual(logits * scale + bias, labels, weights)
            return nll, np.concatenate([(residual * logits).sum(axis=0), residual.sum(axis=0)])

        scale, bias = np.split(minimised(loss, np.repeat([1.0, 0.0], k)), 2)
        self.scale_: Array = scale / unit
        self.bias_: Array = bias

    def _probs(self, logits: Array) -> Array:
        return softmax(logits.astype(np.float64) * self.scale_ + self.bias_, kind=None)


@dataclass
class MatrixScaling(Recalibration):
    """Affine function of the logits, softmax(W z + b), fitted by likelihood (Guo et al. 2017).

    It has k² + k parameters and overfits small held-out sets: use `l2`. Predictions may change.

    Parameters
    ----------
    l2 : float
        Weight, at least 0, of a penalty ‖W - 1‖² + ‖b‖² on the mean NLL, which favours
        leaving the logits alone.

    Attributes
    ----------
    matrix_ : array, shape (k, k)
        The matrix W.
    bias_ : array, shape (k,)
        The shifts b.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 4.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> MatrixScaling().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    l2: float = 0.0
    _map = "matrix"
    _needs_two_classes = True
    _kept = {"matrix": ("k", "k"), "bias": ("k",)}

    def __post_init__(self) -> None:
        if not 0 <= self.l2 < inf:
            raise ValueError(f"l2: got {self.l2}, expected a finite number >= 0")

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        k = logits.shape[1]
        penalty = np.full((k + 1, k), float(self.l2))
        unit = 1.0 if self.l2 else unit_of(logits, weights)  # the penalty is one of W as it is
        scores = logits.astype(np.float64) / unit
        matrix, bias = _affine(scores, labels, penalty, weights)
        self.matrix_: Array = matrix / unit
        self.bias_: Array = bias

    def _probs(self, logits: Array) -> Array:
        return softmax(logits.astype(np.float64) @ self.matrix_.T + self.bias_, kind=None)


@dataclass
class StructuredScaling(Recalibration):
    """Matrix scaling that comes close to temperature scaling if data are few (Berta et al. 2026).

    The probabilities after temperature scaling are mixed with 1 / (n + 1) of the uniform
    distribution (Laplace's rule, for n held-out samples). With x their logarithm, the map is
    softmax(x + D x + b). D and b are fitted by likelihood with ridge penalties, which follow from
    the shape of the data: k / n for b and the diagonal of D, k (k - 1) / n for the rest of D. With
    sample weights, n is the sum of the weights. Predictions may change.

    Parameters
    ----------
    structure : {"matrix", "vector"}
        "vector" keeps D diagonal: 2 k parameters in place of k² + k.

    Attributes
    ----------
    temperature_ : float
        The temperature of lowest NLL: see `TemperatureScaling`.
    smoothing_ : float
        Weight of the uniform distribution, 1 / (n + 1).
    matrix_ : array, shape (k, k)
        The matrix 1 + D.
    bias_ : array, shape (k,)
        The shifts b.

    Examples
    --------
    >>> logits = np.array([[4.0, 0.0]] * 400 + [[0.0, 4.0]] * 400)
    >>> labels = [0] * 300 + [1] * 100 + [0] * 40 + [1] * 360  # 75% right, and 90% right
    >>> StructuredScaling().fit(logits, labels).predict_proba([[4.0, 0.0], [0.0, 4.0]]).round(2)
    array([[0.75, 0.25],
           [0.1 , 0.9 ]])
    """

    structure: Literal["matrix", "vector"] = "matrix"
    _map = "structured"
    _needs_two_classes = True
    _kept = {"temperature": (), "smoothing": (), "matrix": ("k", "k"), "bias": ("k",)}

    def __post_init__(self) -> None:
        if self.structure not in ("matrix", "vector"):
            raise ValueError(f"structure: got {self.structure!r}, expected 'matrix' or 'vector'")

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        k, n = logits.shape[1], len(labels) if weights is None else float(weights.sum())
        self.temperature_: float = lowest_nll(logits, labels, weights)
        self.smoothing_: float = 1 / (n + 1)
        penalty = np.full((k + 1, k), np.inf if self.structure == "vector" else k * (k - 1) / n)
        penalty[np.arange(k), np.arange(k)] = penalty[k] = k / n
        matrix, bias = _affine(self._scores(logits), labels, penalty, weights)
        self.matrix_: Array = matrix
        self.bias_: Array = bias

    def _scores(self, logits: Array) -> Array:
        probs = probs64(logits.astype(np.float64) / self.temperature_)
        return np.log((1 - self.smoothing_) * probs + self.smoothing_ / probs.shape[1])

    def _probs(self, logits: Array) -> Array:
        return softmax(self._scores(logits) @ self.matrix_.T + self.bias_, kind=None)


def _affine(
    scores: Array, labels: Array, penalty: Array, weights: Array | None = None
) -> tuple[Array, Array]:
    """Fit W (k, k) and b (k,) of softmax(W z + b) by likelihood, with ridge penalties on W - 1, b.

    The first k rows of `penalty` (k + 1, k) belong to the logits, the last row to b. A number with
    an infinite penalty keeps its start value.
    """
    k = scores.shape[1]
    inputs = np.append(scores, np.ones((len(scores), 1)), axis=1)
    free, change = np.isfinite(penalty), np.zeros_like(penalty)
    held = penalty[free] > 0
    unit = np.sqrt(np.where(held, penalty[free], 1))  # equal penalties are solved much faster

    def loss(parameters):
        change[free] = parameters / unit
        nll, residual = nll_and_residual(scores + inputs @ change, labels, weights)
        gradient = (inputs.T @ residual)[free] / unit
        return nll + held @ parameters**2, gradient + 2 * held * parameters

    change[free] = minimised(loss, np.zeros(free.sum())) / unit
    return np.eye(k) + change[:k].T, change[k].copy()
