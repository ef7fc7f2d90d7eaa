"""What identifies a number of a record: in tables by columns, in `Replicates` by a name."""

import numpy as np

RECALIBRATIONS = ("none", "ts_nll", "ts_ece", "ts_test", "binned")
KEY = ("metric", "recalibration", "score", "validation")  # of a number


_IN_REPLICATES = {"optimal": "ts_test"}  # their names, where they differ


def split(name: str) -> tuple[str, str, str]:
    """Metric, recalibration and score of a name in `deviations.Replicates`.

    >>> split("ece_ts_nll"), split("ece_optimal")
    (('ece', 'ts_nll', 'max_probability'), ('ece', 'ts_test', 'max_probability'))
    >>> split("auroc_p_norm"), split("auroc_ts_nll_log_odds")
    (('auroc', 'none', 'p_norm'), ('auroc', 'ts_nll', 'log_odds'))
    """
    if name.endswith("_log_odds"):
        return *split(name.removesuffix("_log_odds"))[:2], "log_odds"
    if name.endswith("_p_norm"):
        return name.removesuffix("_p_norm"), "none", "p_norm"
    for suffix in ("ts_nll", "ts_ece", "binned", "optimal"):
        if name.endswith(f"_{suffix}"):
            metric, after = name.removesuffix(f"_{suffix}"), _IN_REPLICATES.get(suffix, suffix)
            return metric, after, "max_probability"
    return name, "none", "max_probability"


def joined(metric: str, recalibration: str, score: str = "max_probability") -> str:
    """The name in `deviations.Replicates` of a metric behind a recalibration, by a score.

    >>> joined("ece", "ts_test"), joined("ece", "none"), joined("auroc", "none", "p_norm")
    ('ece_optimal', 'ece', 'auroc_p_norm')
    >>> joined("auroc", "ts_test", "log_odds")
    'auroc_optimal_log_odds'
    """
    if score == "log_odds":
        return f"{joined(metric, recalibration)}_log_odds"
    if score != "max_probability":
        return f"{metric}_{score}"
    if recalibration == "none":
        return metric
    return f"{metric}_{'optimal' if recalibration == 'ts_test' else recalibration}"


def rows_of(replicates, steps: np.ndarray, step: np.ndarray) -> list[dict]:
    """`deviations.Replicates` as rows of results; `steps` and `step` as its file has them."""
    rows = []
    for i, name in enumerate(replicates.names):
        number = (*split(name), 0)
        value = {"value": float(replicates.estimates[i])}
        drawn = {"step": float(step[i, 0]), "steps": steps[i].tobytes()}
        rows.append(dict(zip(KEY, number, strict=True)) | value | drawn)
    fitted = [
        (("temperature", _IN_REPLICATES.get(k, k), "max_probability", 0), v)
        for k, v in replicates.temperatures.items()
    ]
    fitted += [] if replicates.p is None else [(("p", "none", "p_norm", 0), replicates.p)]
    return rows + [dict(zip(KEY, k, strict=True)) | {"value": float(v)} for k, v in fitted]
