"""What one network says of the test samples, and the same behind a recalibration."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from calibkit import arrays, metrics
from calibkit_companion.records.record import Record


@dataclass(frozen=True, eq=False)
class Predictions:
    """What one network says of the test samples, and of the validation samples.

    ``logits`` (n, k), ``labels`` (n,), ``validation_logits``, ``validation_labels``; ``arrays`` are
    all that its record keeps.
    """

    logits: np.ndarray
    labels: np.ndarray
    validation_logits: np.ndarray
    validation_labels: np.ndarray
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, record: Record) -> "Predictions":
        arrays = record.arrays
        labels, held_out = (arrays[f"{p}_labels"].astype(np.int64) for p in ("test", "validation"))
        return cls(arrays["test_logits"], labels, arrays["validation_logits"], held_out, arrays)

    @cached_property
    def probs(self) -> np.ndarray:
        """Softmax of the logits (n, k)."""
        return arrays.softmax(self.logits)

    def confident(self) -> tuple[np.ndarray, np.ndarray]:
        """Largest probability of each test sample (n,), and whether the prediction is right."""
        return self.probs.max(axis=1), self.logits.argmax(axis=1) == self.labels

    def summary(self) -> dict[str, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
            return metrics.summary(self.logits, self.labels)

    def rescaled(self, temperature: float | None = None) -> "Predictions":
        """The same network after a temperature; None: that of lowest NLL on its validation data."""
        if temperature is None:
            return self.behind("ts_nll")
        return replace(
            self,
            logits=self.logits / temperature,
            validation_logits=self.validation_logits / temperature,
        )

    def behind(self, recalibration: str, validation: int = 0) -> "Predictions":
        """The same network behind a recalibration, fitted on the first so many; 0: on all."""
        if recalibration == "none":
            return self
        part = slice(validation or None)
        fitted_on = self.validation_logits[part], self.validation_labels[part]
        if recalibration == "binned":
            from calibkit import posthoc  # here, because it takes half a second to import

            binned = posthoc.HistogramBinning().fit(*fitted_on).predict_proba(self.logits)
            return replace(self, logits=np.log(np.maximum(binned, 1e-30)))
        if recalibration == "ts_test":
            return self.rescaled(temperature(self.logits, self.labels, "ece"))
        return self.rescaled(temperature(*fitted_on, recalibration.removeprefix("ts_")))


def temperature(logits: np.ndarray, labels: np.ndarray, objective: str) -> float:
    """That of lowest NLL or ECE, without a word where it lies at an end of the search."""
    from calibkit import posthoc  # here, because it takes half a second to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        return posthoc.optimal_temperature(logits, labels, objective)[0]
