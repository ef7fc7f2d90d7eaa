"""`Number`, which identifies a number of a run, and the margins of differences that matter."""

from typing import NamedTuple

from calibkit_companion.records.keys import Key, Recalibration


class Number(NamedTuple):
    """The identity of a number of a run: which metric, after what, on which data, at which time.

    Attributes
    ----------
    metric : a name in `calibkit.terms.METRICS`
    recalibration : a `records.keys.Recalibration`, or its value, such as "ts_nll"
    score : the score that ranks the samples: "max_probability", "log_odds", "p_norm", "trust_score"
        or "confidnet"
    test_set : "clean" for the usual test set; a name and a severity, such as "blur-3", for a
        shifted test set; "shifted" for the mean over all shifted test sets; "collected" for the
        mean over all newly collected test sets
    at : "end"; an epoch; or a period, over which the number is averaged: "late" is the last quarter
        of training, "settled" all but the first tenth, and "second_rate" and "third_rate" are the
        epochs with the second and the third learning rate
    since : empty, or the period "settled", "second_rate" or "third_rate". Then the number is a
        change from the first to the last evaluated epochs of the period, five of each, or half of
        all if there are fewer than ten (see `change`). "best" is the change since the best epoch,
        as `runs.late` computes it
    validation : number of validation samples on which the recalibration is fitted; 0 means all
    """

    metric: str
    recalibration: str = Recalibration.NONE
    score: str = "max_probability"
    test_set: str = "clean"
    at: str | int = "end"
    since: str = ""
    validation: int = 0

    @property
    def key(self) -> Key:
        """The key of the number in the record of a run."""
        return Key(self.metric, self.recalibration, self.score, self.validation)

    @property
    def epoch(self) -> int | None:
        """The epoch in `at`; None for the end or a period of the training."""
        return self.at if isinstance(self.at, int) else None

    def differing(self, other: "Number") -> list[str]:
        """List the fields in which two numbers differ.

        >>> Number("ece", "ts_nll").differing(Number("ece", validation=100))
        ['recalibration', 'validation']
        """
        return [name for name in self._fields if getattr(self, name) != getattr(other, name)]


# Median of the ± that the papers print for a metric, in natural units. `_ALIKE` lists further
# metrics with the same margin.
MARGINS = {
    "accuracy": 0.0035,
    "auroc": 0.0031,
    "aupr_error": 0.0112,
    "aupr_success": 0.0008,
    "fpr_at_tpr": 0.0125,
    "aurc": 0.00102,
    "eaurc": 0.0007,
    "ece": 0.0019,
    "brier": 0.0022,
    "nll": 0.006,
}
LEARNS = 0.02  # most training accuracy that a method may lack compared with plain training
_ALIKE = {
    "ece": "excess_ece adaptive_ece excess_adaptive_ece classwise_ece excess_classwise_ece "
    "debiased_ece ece_correct",
    "nll": "nll_refinement nll_calibration",
    "aurc": "augrc",
    "accuracy": "train_accuracy",
}
_LIKE = {name: kind for kind, names in _ALIKE.items() for name in names.split()}


def margin(metric: str) -> float:
    """Return the largest difference of a metric that does not matter, in natural units.

    It is 0 for a metric for which the papers print no ±.

    >>> margin("auroc"), margin("excess_ece") == margin("ece"), margin("risk_at_coverage_0.8")
    (0.0031, True, 0.00102)
    """
    kind = _LIKE.get(metric, "aurc" if metric.startswith("risk_at_coverage_") else metric)
    return MARGINS.get(kind, 0.0)
