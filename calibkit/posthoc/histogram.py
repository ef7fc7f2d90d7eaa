"""Histogram binning of the top-label confidence."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibkit.arrays import Array, check_bins
from calibkit.posthoc.recalibration import Recalibration
from calibkit.posthoc.rows import probs64, with_top
from calibkit.posthoc.search import quantiles


@dataclass
class HistogramBinning(Recalibration):
    """Replace the top-label confidence by the accuracy of its bin on held-out data.

    The method of Zadrozny and Elkan 2001 as Wang et al. 2021 use it. The predicted class gets the
    accuracy of its bin as its probability. The other classes share the rest in proportion, but none
    of them gets more than the predicted class. So predictions stay, unless the accuracy of the bin
    is below 1/k and thus cannot be the largest probability of a row. If a bin has no held-out
    samples, its rows stay as they are.

    Parameters
    ----------
    bins : int
        Number of bins.
    scheme : {"equal_width", "equal_mass"}
        Bins (lo, hi] of equal width (the paper's), or with equally many held-out samples.

    Attributes
    ----------
    edges_ : array
        Edges between bins.
    values_ : array
        Accuracy of each bin, one more than there are edges; NaN where it had no samples.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    >>> HistogramBinning().fit(logits, labels).predict_proba([[0.0, 3.9]])
    array([[0.25, 0.75]])
    """

    bins: int = 15
    scheme: Literal["equal_width", "equal_mass"] = "equal_width"
    _map = "histogram"
    _kept = {"edges": ("m",), "values": ("m",)}
    _gaps = ("values",)

    def __post_init__(self) -> None:
        check_bins(self.bins)
        if self.scheme not in ("equal_width", "equal_mass"):
            raise ValueError(f"scheme: got {self.scheme!r}, expected 'equal_width' or 'equal_mass'")

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        probs = probs64(logits)
        confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
        self.edges_: Array = np.linspace(0, 1, self.bins + 1)[1:-1]
        if self.scheme == "equal_mass":
            self.edges_ = np.unique(quantiles(confidence, self.edges_, weights))
        index = np.searchsorted(self.edges_, confidence)
        count = np.bincount(index, weights, minlength=len(self.edges_) + 1)
        hits = correct if weights is None else correct * weights
        hits = np.bincount(index, weights=hits, minlength=len(count))
        self.values_: Array = np.divide(
            hits, count, out=np.full(len(count), np.nan), where=count > 0
        )

    def _probs(self, logits: Array) -> Array:
        probs = probs64(logits)
        confidence = probs.max(axis=1)
        value = self.values_[np.searchsorted(self.edges_, confidence)]
        filled = ~np.isnan(value)
        probs[filled] = with_top(probs[filled], value[filled])
        return probs

    def _restore(self, name: str, value: Any, k: int) -> Any:
        array = super()._restore(name, value, k)
        if name == "values" and len(array) != len(self.edges_) + 1:
            raise ValueError(f"values: got {len(array)}, expected one more than edges")
        return array
