"""Which number of a run."""

from typing import NamedTuple


class Number(NamedTuple):
    """Which number of a run.

    Attributes
    ----------
    metric : a name in `calibkit.terms.METRICS` or in `METRICS` here
    recalibration : "none"; "ts_nll", "ts_ece" (a temperature that minimises the NLL or the ECE of
        the validation data), "ts_test" (the ECE of the test data), "binned" (histogram binning)
    score : "max_probability", "p_norm", "trust_score" or "confidnet"
    test_set : "clean"; "shifted" or "collected", the mean over every shifted or newly collected
        set; or one of them by name and severity, such as "blur-3"
    at : "end", an epoch, or a period of the training, over which it is averaged: "late" (its last
        quarter), "settled" (all but its first tenth), "second_rate", "third_rate" (of the learning
        rate)
    since_best : a metric; the number is then the change since the epoch that is best by it, chosen
        on the other seeds
    validation : on how many validation samples the recalibration is fitted; 0: all
    """

    metric: str
    recalibration: str = "none"
    score: str = "max_probability"
    test_set: str = "clean"
    at: str | int = "end"
    since_best: str = ""
    validation: int = 0
