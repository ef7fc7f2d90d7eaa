"""Numbers that are computed from the predictions of a run, or from its tracked samples.

A number is computed when it is first needed and then kept, in a file for each run. When the run is
collected, the number becomes a row of the released tables. So it is known even for a record without
predictions.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from math import isnan, nan
from pathlib import Path

import numpy as np

from calibkit import arrays, confidence, curves, files, metrics, stats
from calibkit.stats.models import numbers_in
from calibkit_companion.records import folders
from calibkit_companion.records.keys import Key, Recalibration, replicate_name
from calibkit_companion.records.record import Record
from calibkit_companion.records.replicates import rows_of
from calibkit_companion.results import through_training
from calibkit_companion.results.number import Number
from calibkit_companion.results.predictions import Predictions


def _sure_when_wrong(of: Predictions) -> float:
    """Share of the wrong predictions that have a confidence above 0.95."""
    confidence, correct = of.confident()
    return mean(confidence[~correct] > 0.95)


def _overconfidence_below_half(of: Predictions) -> float:
    """Mean confidence minus accuracy of the samples with a confidence below one half."""
    confidence, correct = of.confident()
    return mean((confidence - correct)[confidence < 0.5])


def _extra_ece_of_binning(of: Predictions) -> float:
    """How much more histogram binning suffers from few samples than temperature scaling does.

    A recalibration suffers by the ECE after a fit on 100 validation samples, minus the ECE after a
    fit on all of them. The number is this difference for histogram binning minus this difference
    for temperature scaling (overconf, figure 3).
    """
    few, whole = (
        [of.behind(how, size).summary()["ece"] for how in ("binned", "ts_ece")] for size in (100, 0)
    )
    return (few[0] - whole[0]) - (few[1] - whole[1])


def _max_logit_range(of: Predictions) -> float:
    """Range of the largest logits of training samples, from the 5th to the 95th percentile."""
    return float(np.ptp(np.quantile(of.arrays["train_max_logit"], [0.05, 0.95])))


def _learned_late_means_unsure(of: Predictions) -> float:
    """Minus the rank correlation of learned epoch and largest logit (overconf, figure 5).

    The learned epoch of a sample is the one from which it is predicted correctly until the end.
    """
    arrays = of.arrays
    learned = arrays["train_learned_epoch"] > 0  # 0: wrong at the end
    return -_spearman(arrays["train_learned_epoch"][learned], arrays["train_max_logit"][learned])


def _gradient_spread(of: Predictions) -> float:
    """Spread of gradient norms among samples of similar Brier score (bsce, figure 4).

    The spread at an epoch is `curves.gradient_spread`. The number is the mean over the snapshots,
    without the first one, at which little has been learned.
    """
    arrays = of.arrays
    pairs = zip(arrays["train_brier"][1:], arrays["train_gradient_norm"][1:], strict=True)
    ranges = [curves.gradient_spread(*pair) for pair in pairs]
    return mean([each for each in ranges if not isnan(each)])


def _median_gradient_norm(of: Predictions) -> float:
    """Median gradient norm of training samples, averaged over snapshots.

    The first and the last snapshot do not count.
    """
    return float(np.mean(np.median(of.arrays["train_gradient_norm"][1:-1], axis=1)))


def _more_correlated(of: Predictions, first: str, second: str) -> float:
    """How much better the weight `first` correlates with the true error than `second` does (bsce).

    Each weight has its best exponents, as `toys.best_correlations` finds them. The number is the
    difference of the two correlations.
    """
    import torch

    from calibkit_companion import data
    from calibkit_companion.training import toys

    logits, labels = torch.from_numpy(of.logits.astype(float)), torch.from_numpy(of.labels)
    eta = data.gaussian_posterior(data.load("gaussians").test.inputs.double())
    best = toys.best_correlations([(logits, labels, eta)])["‖η − p‖"]
    return float(best[first][1][0] - best[second][1][0])


TEMPERATURES = 1.1 ** np.arange(-24, 25)  # from 0.1 to 10


def _auroc_gain_of_temperature(of: Predictions) -> float:
    """Highest AUROC at any temperature, minus the AUROC as trained (fmfp, figure 4).

    The temperature is chosen on the test set itself.
    """

    def auroc(temperature: float) -> float:
        samples = metrics.per_sample(of.logits / temperature, of.labels)
        return metrics.auroc(samples["confidence"], samples["correct"])

    return max(map(auroc, TEMPERATURES)) - auroc(1.0)


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Rank correlation; NaN if one of the two is constant."""
    from scipy.stats import spearmanr  # loaded late: it takes a second to import

    return float(spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else nan


def mean(values: np.ndarray) -> float:
    """Mean; NaN for empty input."""
    return float(np.mean(values)) if len(values) else nan


METRICS: dict[str, Callable[[Predictions], float]] = {
    "sure_when_wrong": _sure_when_wrong,
    "overconfidence_below_half": _overconfidence_below_half,
    "extra_ece_of_binning": _extra_ece_of_binning,
    "max_logit_range": _max_logit_range,
    "learned_late_means_unsure": _learned_late_means_unsure,
    "gradient_spread": _gradient_spread,
    "median_gradient_norm": _median_gradient_norm,
    "auroc_gain_of_temperature": _auroc_gain_of_temperature,
    "correlation_of_brier_beyond_dual_focal": lambda m: _more_correlated(m, "Brier", "dual focal"),
    "correlation_of_dual_focal_beyond_focal": lambda m: _more_correlated(m, "dual focal", "focal"),
}


def _ece_beyond_gap(record: Record) -> float:
    """ECE of 100 bins minus |mean confidence - accuracy|.

    It is 0 if all bins are over-confident, or if all bins are under-confident.
    """
    end = {name: column[-1] for name, column in record.history.items()}
    return float(end["eq9_ece"] - abs(end["confidence"] - end["accuracy"]))


def _sharpness(record: Record) -> float:
    """The sharpness at the end of training, in nats; NaN for a record without it."""
    sharpness = record.info["provenance"].get("sharpness")
    return nan if sharpness is None else float(sharpness)


# Metrics that need no predictions.
OF_RECORD = {"sharpness": _sharpness, "ece_beyond_gap": _ece_beyond_gap}


def value(record: Record, number: Number) -> float:
    """Compute a number from the predictions of a run; NaN if the run keeps no predictions.

    Metrics in `METRICS`, and numbers after a recalibration that was fitted on few samples, are kept
    in a file.
    """
    if number.metric in OF_RECORD:
        return OF_RECORD[number.metric](record)
    if record.light:  # tables may hold numbers that were computed before
        return nan
    kept = number.metric in METRICS or number.validation > 0
    known = _known(record) if kept else {}
    name = f"{number.metric} {number.recalibration} {number.validation}"
    if name not in known:
        of = Predictions.of(record).behind(number.recalibration, number.validation)
        measure = METRICS.get(number.metric, lambda of: of.summary().get(number.metric, nan))
        known[name] = float(measure(of))
        if kept:
            _keep(record, known)
    return known[name]


def _file(record: Record) -> Path:
    """Return the file of the computed numbers of a run; its name depends on the predictions."""
    checksum = record.info["sha256"].get("arrays.npz", "")
    return folders.runs_root() / f".derived-{record.name}-{checksum[:8]}.json"


def _known(record: Record) -> dict[str, float]:
    """Read the computed numbers of a run, by metric, recalibration and validation samples."""
    with suppress(FileNotFoundError, ValueError):  # no file yet, or an incomplete file
        return json.loads(files.read(_file(record)))
    return {}


def _keep(record: Record, known: dict[str, float]) -> None:
    """Write the computed numbers of a run to its file, if the folder can be written."""
    with suppress(OSError):
        folders.runs_root().mkdir(parents=True, exist_ok=True)
        _file(record).write_text(json.dumps(known, indent=0) + "\n")


def rows(record: Record) -> list[dict]:
    """Make the rows that the released tables get besides the numbers of a record.

    They are the computed numbers that the tables of the run lack. A run that is in no table also
    has rows for the numbers of its epochs and for the numbers ranked by the log-odds.
    """
    found = []
    for name, number in _known(record).items():
        metric, recalibration, size = name.split()
        key = Key(metric, recalibration, validation=int(size))
        if record.tables is None or record.tables.number(record.name, key) is None:
            found.append(key._asdict() | {"value": number})
    if record.tables is None:
        found += through_training.rows(record) + _by_log_odds(record)
    return found


def _by_log_odds(record: Record) -> list[dict]:
    """Make rows of metrics ranked by the log-odds, if the record lacks them but keeps logits."""
    if record.light or record.diverged:
        return []
    if replicate_name(Key("auroc", score="log_odds")) in record.replicates:
        return []
    kept = record.resampled()
    return [row for row in rows_of(kept, *kept.quantised()) if row["score"] == "log_odds"]


def by_score(record: Record, number: Number) -> tuple[float, np.ndarray | None]:
    """Compute a number ranked by another score, and its deviations (n,) on the usual resamples.

    The result is NaN and None if the run keeps no predictions or lacks the score, or if the metric
    does not depend on a ranking.
    """
    recalibration = Recalibration(number.recalibration)
    scaled = number.score == "log_odds" and recalibration.scales
    if record.light or not (scaled or recalibration is Recalibration.NONE):
        return nan, None
    of = Predictions.of(record).behind(number.recalibration)
    if number.score == "log_odds":
        by = arrays.log_odds(of.logits)
    elif number.score == "p_norm":
        p = confidence.choose_p(of.validation_logits, of.validation_labels)
        by = confidence.p_norm(of.logits, p)
    else:
        by = of.arrays.get(f"test_{number.score}")
    coverages = numbers_in("risk_at_coverage_", [number.metric])
    functions = metrics.ranked_metrics(coverages=coverages)
    if by is None or number.metric not in functions:
        return nan, None
    answers = stats.Answers(by, of.confident()[1])
    value = float(functions[number.metric](metrics.Ranking.of(*answers)))
    n = record.replicates.deviations.shape[1]
    return value, stats.replicates([answers], None, [number.metric], n=n)[0, :, 0] - value
