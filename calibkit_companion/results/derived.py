"""Numbers that are computed from a run's predictions, or from what was followed in its training.

A number is computed when it is first needed, and kept: in a file for each run until the run is
collected, then as a row of the released tables, where a record without predictions has it, too.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from math import isnan, nan
from pathlib import Path

import numpy as np

from calibkit import arrays, confidence, curves, files, metrics, stats
from calibkit_companion.records import folders
from calibkit_companion.records.keys import Key, Recalibration, replicate_name
from calibkit_companion.records.record import Record
from calibkit_companion.records.replicates import rows_of
from calibkit_companion.results import through_training
from calibkit_companion.results.number import Number
from calibkit_companion.results.predictions import Predictions


def _sure_when_wrong(of: Predictions) -> float:
    """Share of wrong predictions with a confidence above 0.95."""
    confidence, correct = of.confident()
    return mean(confidence[~correct] > 0.95)


def _overconfidence_below_half(of: Predictions) -> float:
    """Confidence minus accuracy of the samples with a confidence below one half."""
    confidence, correct = of.confident()
    return mean((confidence - correct)[confidence < 0.5])


def _extra_ece_of_binning(of: Predictions) -> float:
    """The ECE that few samples add to histogram binning, minus what they add to scaling.

    It adds the ECE fitted on 100 validation samples minus that fitted on all (overconf, figure 3).
    """
    few, whole = (
        [of.behind(how, size).summary()["ece"] for how in ("binned", "ts_ece")] for size in (100, 0)
    )
    return (few[0] - whole[0]) - (few[1] - whole[1])


def _max_logit_range(of: Predictions) -> float:
    """Between the 5th and the 95th percentile of the largest logit of training samples."""
    return float(np.ptp(np.quantile(of.arrays["train_max_logit"], [0.05, 0.95])))


def _learned_late_means_unsure(of: Predictions) -> float:
    """Minus the rank correlation of learned epoch and largest logit (overconf, figure 5)."""
    arrays = of.arrays
    learned = arrays["train_learned_epoch"] > 0  # 0: wrong at the end
    return -_spearman(arrays["train_learned_epoch"][learned], arrays["train_max_logit"][learned])


def _gradient_spread(of: Predictions) -> float:
    """Quartiles of the gradient norm within tenths of the Brier score (bsce, figure 4).

    The mean over the epochs followed but the first, at which nothing is learnt.
    """
    arrays = of.arrays
    pairs = zip(arrays["train_brier"][1:], arrays["train_gradient_norm"][1:], strict=True)
    ranges = [curves.gradient_spread(*pair) for pair in pairs]
    return mean([each for each in ranges if not isnan(each)])


def _median_gradient_norm(of: Predictions) -> float:
    """Mean over epochs of the median gradient norm of training samples.

    Over the epochs that were followed, without the first and the last.
    """
    return float(np.mean(np.median(of.arrays["train_gradient_norm"][1:-1], axis=1)))


def _more_correlated(of: Predictions, first: str, second: str) -> float:
    """How much better than `second` a weight follows the true error of the posterior (bsce).

    Each with its best exponents: all three are searched on the grid of the toy.
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
    """AUROC at the temperature best for it on the test set, beyond that without (fmfp fig. 4)."""

    def auroc(temperature: float) -> float:
        samples = metrics.per_sample(of.logits / temperature, of.labels)
        return metrics.auroc(samples["confidence"], samples["correct"])

    return max(map(auroc, TEMPERATURES)) - auroc(1.0)


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Rank correlation; NaN if one of the two is constant."""
    from scipy.stats import spearmanr  # here, because it takes a second to import

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
    """ECE (100 bins) beyond |confidence - accuracy|: 0 if every bin errs on the same side."""
    end = {name: column[-1] for name, column in record.history.items()}
    return float(end["eq9_ece"] - abs(end["confidence"] - end["accuracy"]))


def _sharpness(record: Record) -> float:
    """The sharpness at the end of training, in nats; NaN for a record without it."""
    sharpness = record.info["provenance"].get("sharpness")
    return nan if sharpness is None else float(sharpness)


# Metrics that take no predictions.
OF_RECORD = {"sharpness": _sharpness, "ece_beyond_gap": _ece_beyond_gap}


def value(record: Record, number: Number) -> float:
    """A number that is computed from the predictions of a run; NaN if there are none.

    `METRICS` and numbers after a recalibration fitted on few samples are kept for `rows`.
    """
    if number.metric in OF_RECORD:
        return OF_RECORD[number.metric](record)
    if record.light:  # tables have what was computed before
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
    """The file of the computed numbers of a run; predictions trained anew have another file."""
    checksum = record.info["sha256"].get("arrays.npz", "")
    return folders.runs_root() / f".derived-{record.name}-{checksum[:8]}.json"


def _known(record: Record) -> dict[str, float]:
    """The computed numbers of a run, by metric, recalibration and validation samples as text."""
    with suppress(FileNotFoundError, ValueError):  # no file yet, or half of one
        return json.loads(files.read(_file(record)))
    return {}


def _keep(record: Record, known: dict[str, float]) -> None:
    """Write the computed numbers of a run to its file, if the folder can be written."""
    with suppress(OSError):
        folders.runs_root().mkdir(parents=True, exist_ok=True)
        _file(record).write_text(json.dumps(known, indent=0) + "\n")


def rows(record: Record) -> list[dict]:
    """Rows of the tables of results that a run has besides those of its record.

    They are the computed numbers that its tables lack and, for a run in no table, those of its
    epochs and those ranked by the log-odds.
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
    """Rows ranked by the log-odds, for a run that keeps logits and whose record lacks them."""
    if record.light or record.diverged:
        return []
    if replicate_name(Key("auroc", score="log_odds")) in record.replicates:
        return []
    kept = record.resampled()
    return [row for row in rows_of(kept, *kept.quantised()) if row["score"] == "log_odds"]


def by_score(record: Record, number: Number) -> tuple[float, np.ndarray | None]:
    """A number ranked by another score, and its deviations on the resamples of all numbers.

    NaN and None if the run keeps no predictions, lacks the score, or the score does not rank the
    metric.
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
    share = re.fullmatch(r"risk_at_coverage_(.*)", number.metric)
    functions = metrics.ranked_metrics(coverages=[float(share[1])] if share else [])
    if by is None or number.metric not in functions:
        return nan, None
    answers = stats.Answers(by, of.confident()[1])
    value = float(functions[number.metric](metrics.Ranking.of(*answers)))
    n = record.replicates.deviations.shape[1]
    return value, stats.replicates([answers], None, [number.metric], n=n)[0, :, 0] - value
