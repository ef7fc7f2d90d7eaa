"""Which number of a run, and which of its differences matter."""

from typing import NamedTuple

from calibkit_companion.records.keys import Key, Recalibration


class Number(NamedTuple):
    """Which number of a run.

    Attributes
    ----------
    metric : a name in `calibkit.terms.METRICS` or in `METRICS` here
    recalibration : a `records.keys.Recalibration`, or its value, such as "ts_nll"
    score : "max_probability", "log_odds", "p_norm", "trust_score" or "confidnet"
    test_set : "clean"; "shifted" or "collected", the mean over every shifted or newly collected
        set; or one of them by name and severity, such as "blur-3"
    at : "end", an epoch, or a period of the training, over which it is averaged: "late" (its last
        quarter), "settled" (all but its first tenth), "second_rate", "third_rate" (of the learning
        rate)
    since : "settled", "second_rate" or "third_rate"; the number is then the change from the first
        to the last evaluated epochs after that period begins: means of five, or of half of what
        there is (see `change`). "best": since its best epoch, as `runs.late` finds it
    validation : on how many validation samples the recalibration is fitted; 0: all
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
        """What identifies it in the record of a run."""
        return Key(self.metric, self.recalibration, self.score, self.validation)

    @property
    def epoch(self) -> int | None:
        """The epoch of which it is; None for the end or a period of the training."""
        return self.at if isinstance(self.at, int) else None

    def differing(self, other: "Number") -> list[str]:
        """The fields in which another number has other values, in their order.

        >>> Number("ece", "ts_nll").differing(Number("ece", validation=100))
        ['recalibration', 'validation']
        """
        return [name for name in self._fields if getattr(self, name) != getattr(other, name)]


# The ± that the papers print, in natural units: the median over all cells that have one, also for
# metrics of the same kind.
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
LEARNS = 0.02  # how much less of its training set a method may know than plain training
_ALIKE = {
    "ece": "excess_ece adaptive_ece excess_adaptive_ece classwise_ece excess_classwise_ece "
    "debiased_ece ece_correct",
    "nll": "nll_refinement nll_calibration",
    "aurc": "augrc",
    "accuracy": "train_accuracy",
}
_LIKE = {name: kind for kind, names in _ALIKE.items() for name in names.split()}


def margin(metric: str) -> float:
    """The largest difference of a metric that would not matter; 0 where the papers print no ±.

    >>> margin("auroc"), margin("excess_ece") == margin("ece"), margin("risk_at_coverage_0.8")
    (0.0031, True, 0.00102)
    """
    kind = _LIKE.get(metric, "aurc" if metric.startswith("risk_at_coverage_") else metric)
    return MARGINS.get(kind, 0.0)
