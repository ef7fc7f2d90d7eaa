"""Numbers that take a run's predictions or what was followed of its training samples.

They are computed when first asked for and kept: in a file for each run until the run is collected,
then as rows of the released tables, so that a light record has them too.
"""

import io
import json
import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isnan, nan
from pathlib import Path

import numpy as np

from calibkit import arrays, confidence, metrics, stats
from calibkit.precision import log_of_map
from calibkit_companion.data import durable
from calibkit_companion.records import folders, ranking
from calibkit_companion.records.deviations import BY_LOG_ODDS, Replicates
from calibkit_companion.records.record import Record
from calibkit_companion.records.replicates import KEY, joined, rows_of
from calibkit_companion.results.number import Number


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
            return ranking.summary(self.logits, self.labels)

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
            return replace(self, logits=log_of_map(binned))
        if recalibration == "ts_test":
            return self.rescaled(temperature(self.logits, self.labels, "ece"))
        return self.rescaled(temperature(*fitted_on, recalibration.removeprefix("ts_")))


def temperature(logits: np.ndarray, labels: np.ndarray, objective: str) -> float:
    """That of lowest NLL or ECE, without a word where it lies at an end of the search."""
    from calibkit import posthoc  # here, because it takes half a second to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        return posthoc.optimal_temperature(logits, labels, objective)[0]


def _sure_when_wrong(of: Predictions) -> float:
    """Share of wrong predictions with a confidence above 0.95."""
    confidence, correct = of.confident()
    return mean(confidence[~correct] > 0.95)


def _overconfidence_below_half(of: Predictions) -> float:
    """Confidence minus accuracy of the samples with a confidence below one half."""
    confidence, correct = of.confident()
    return mean((confidence - correct)[confidence < 0.5])


def _extra_ece_of_binning(of: Predictions) -> float:
    """ECE which 100 validation samples cost binning over all, beyond what they cost scaling.

    overconf, figure 3.
    """
    few, whole = (
        [of.behind(after, size).summary()["ece"] for after in ("binned", "ts_ece")]
        for size in (100, 0)
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
    ranges = [_between_quartiles(*pair) for pair in pairs]
    return mean([each for each in ranges if not isnan(each)])


def _between_quartiles(brier: np.ndarray, norm: np.ndarray) -> float:
    """Mean interquartile range of the norms, in units of their mean; it counts their slope, too."""
    some = norm > 0
    order = np.argsort(brier[some], kind="stable")
    if len(order) < 10:
        return nan
    tenths = np.array_split(norm[some][order].astype(float), 10)
    ranges = [np.subtract(*np.quantile(tenth, [0.75, 0.25])) for tenth in tenths]
    return float(np.mean(ranges) / norm[some].mean(dtype=float))


def _median_gradient_norm(of: Predictions) -> float:
    """Of training samples, at the epochs followed but the first and the last."""
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


TEMPERATURES = 1.1 ** np.arange(-24, 25)  # from 0.1 to 10, each a tenth more than the one before


def _auroc_gain_of_temperature(of: Predictions) -> float:
    """AUROC at the temperature best for it on the test set, beyond that without (fmfp fig. 4)."""

    def auroc(temperature: float) -> float:
        samples = metrics.per_sample(of.logits / temperature, of.labels)
        return metrics.auroc(samples["confidence"], samples["correct"])

    return max(map(auroc, TEMPERATURES)) - auroc(1.0)


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import spearmanr  # here, because it takes a second to import

    return float(spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else nan


def mean(values: np.ndarray) -> float:
    """Of nothing it is nan, without a warning."""
    return float(np.mean(values)) if len(values) else nan


_COMPUTED = (
    *(_sure_when_wrong, _overconfidence_below_half, _extra_ece_of_binning, _max_logit_range),
    *(_learned_late_means_unsure, _gradient_spread, _median_gradient_norm),
    _auroc_gain_of_temperature,
)
METRICS: dict[str, Callable[[Predictions], float]] = {
    **{function.__name__.removeprefix("_"): function for function in _COMPUTED},
    "correlation_of_brier_beyond_dual_focal": lambda m: _more_correlated(m, "Brier", "dual focal"),
    "correlation_of_dual_focal_beyond_focal": lambda m: _more_correlated(m, "dual focal", "focal"),
}


def _ece_beyond_gap(record: Record) -> float:
    """ECE (100 bins) beyond |confidence - accuracy|: 0 if every bin errs on the same side."""
    end = {name: column[-1] for name, column in record.history.items()}
    return float(end["eq9_ece"] - abs(end["confidence"] - end["accuracy"]))


def _sharpness(record: Record) -> float:
    sharpness = record.info["provenance"].get("sharpness")
    return nan if sharpness is None else float(sharpness)


# What takes no predictions.
OF_RECORD = {"sharpness": _sharpness, "ece_beyond_gap": _ece_beyond_gap}


def value(record: Record, number: Number) -> float:
    """A number that takes the run's predictions, and that its record does not have; or nan.

    One of `METRICS`, or behind a recalibration fitted on few samples, is kept for `rows`.
    """
    if number.metric in OF_RECORD:
        return OF_RECORD[number.metric](record)
    if record.light:  # what was worked out is in its tables
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
    """Where they are kept: of these predictions, and of none that are trained in their place."""
    of = record.info["sha256"].get("arrays.npz", "")
    return folders.runs_root() / f".derived-{record.name}-{of[:8]}.json"


def _known(record: Record) -> dict[str, float]:
    with suppress(FileNotFoundError, ValueError):  # there is none yet, or half of one
        return json.loads(durable.read(_file(record)))
    return {}


def _keep(record: Record, known: dict[str, float]) -> None:
    with suppress(OSError):  # where the folder can be written
        folders.runs_root().mkdir(parents=True, exist_ok=True)
        _file(record).write_text(json.dumps(known, indent=0) + "\n")


def rows(record: Record) -> list[dict]:
    """What is known of a record and not in the released tables, as rows of them."""
    found = []
    for name, number in _known(record).items():
        metric, after, size = name.split()
        key = metric, after, "max_probability", int(size)
        if record.tables is None or record.tables.number(record.name, *key) is None:
            found.append(dict(zip(KEY, key, strict=True)) | {"value": number})
    return found + (epochs(record) + _by_log_odds(record) if record.tables is None else [])


def _by_log_odds(record: Record) -> list[dict]:
    """What ranks by the log-odds, of a run that keeps logits but was trained before records did."""
    if record.light or record.diverged or f"auroc{BY_LOG_ODDS}" in record.replicates:
        return []
    kept = record.resampled()
    return [row for row in rows_of(kept, *kept.quantised()) if row["score"] == "log_odds"]


RANKED_THROUGH = ("auroc", "aurc")
THROUGH = ("accuracy", "auroc", "aurc", "ece", "nll")  # training, with replicates


def epochs(record: Record) -> list[dict]:
    """What the predictions of every evaluated epoch say, where they were kept, as such rows.

    `THROUGH`, `RANKED_THROUGH` also by the log-odds, and the NLL after a temperature fitted at that
    epoch.
    """
    file = folders.epochs_file(record, record.path.parent)
    if record.light or not file.exists():
        return []
    end, found = Predictions.of(record), []
    with np.load(io.BytesIO(durable.read(file)), allow_pickle=False) as kept:
        each = zip(*(kept[name] for name in ("epochs", "test", "validation")), strict=True)
        for epoch, *both in each:
            logits, held_out = (part.astype(np.float32) for part in both)
            its = _at_epoch(replace(end, logits=logits, validation_logits=held_out))
            found += [row | {"epoch": int(epoch)} for row in its]
    return found


def _at_epoch(of: Predictions) -> list[dict]:
    best = temperature(of.validation_logits, of.validation_labels, "nll")
    warm, summary = of.rescaled(best), of.summary()
    as_seen = (*THROUGH, *(joined(m, "none", "log_odds") for m in RANKED_THROUGH))
    names = (*as_seen, joined("nll", "ts_nll"))
    values = np.array([*(summary[m] for m in as_seen), metrics.nll(warm.probs, of.labels)])
    known, scaled = (metrics.per_sample(its.logits, of.labels) for its in (of, warm))
    odds = stats.Ranked(known["confidence"], known["correct"], arrays.log_odds(of.logits))
    parts = (
        *((stats.Samples(**known), THROUGH), (odds, RANKED_THROUGH)),
        (stats.Samples(**scaled), ("nll",)),
    )
    drawn = [stats.replicates([its], None, asked)[0] for its, asked in parts]
    deviations = (np.concatenate(drawn, axis=1) - values).T.astype(np.float32)
    kept = Replicates(names, values, deviations, {"ts_nll": best})
    return rows_of(kept, *kept.quantised())


def by_score(record: Record, number: Number) -> tuple[float, np.ndarray | None]:
    """A number by another score, and its deviations on the resamples that all numbers share.

    It is nan, and they are None, where a run does not have the score or the score not the number.
    """
    kept = ("none", "ts_nll", "ts_ece", "ts_test") if number.score == "log_odds" else ("none",)
    if record.light or number.recalibration not in kept:
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
