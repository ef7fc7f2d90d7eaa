"""The predictions of one network, as trained and after a recalibration."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from calibkit import arrays, metrics
from calibkit.precision import log_of_map
from calibkit_companion.records import ranking
from calibkit_companion.records.keys import Recalibration
from calibkit_companion.records.record import Record


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of one network for the test samples and the validation samples.

    Attributes
    ----------
    logits, labels : of the test samples, (n, k) and (n,)
    validation_logits, validation_labels : of the validation samples, (v, k) and (v,)
    arrays : all that the record of the network keeps, by name
    """

    logits: np.ndarray
    labels: np.ndarray
    validation_logits: np.ndarray
    validation_labels: np.ndarray
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, record: Record) -> "Predictions":
        """Take the predictions of a record; `LightRecord` if it keeps none."""
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
        """Compute every metric of the test samples, ranked by the confidence and the log-odds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
            return ranking.summary(self.logits, self.labels)

    def rescaled(self, temperature: float | None = None) -> "Predictions":
        """Divide the logits by a temperature.

        By default it is the temperature with the lowest NLL on the validation samples.
        """
        if temperature is None:
            return self.behind(Recalibration.TS_NLL)
        return replace(
            self,
            logits=self.logits / temperature,
            validation_logits=self.validation_logits / temperature,
        )

    def behind(self, recalibration: str, validation: int = 0) -> "Predictions":
        """Return the predictions after a recalibration.

        Parameters
        ----------
        recalibration : a `Recalibration` or its value
        validation : fit on so many of the first validation samples; 0 fits on all
        """
        recalibration = Recalibration(recalibration)
        if recalibration is Recalibration.NONE:
            return self
        part = slice(validation or None)
        fitted_on = self.validation_logits[part], self.validation_labels[part]
        if recalibration is Recalibration.BINNED:
            from calibkit import posthoc  # here, because it takes half a second to import

            binned = posthoc.HistogramBinning().fit(*fitted_on).predict_proba(self.logits)
            return replace(self, logits=log_of_map(binned))
        if recalibration is Recalibration.TS_TEST:
            fitted_on = self.logits, self.labels
        return self.rescaled(temperature(*fitted_on, recalibration.objective))


def temperature(logits: np.ndarray, labels: np.ndarray, objective: str) -> float:
    """Find the temperature with the lowest `objective`, "nll" or "ece".

    There is no warning if the temperature lies at an end of the searched range.
    """
    from calibkit import posthoc  # here, because it takes half a second to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        return posthoc.optimal_temperature(logits, labels, objective)[0]
