"""Numbers that take a run's predictions or what was followed of its training samples.

They are computed when first asked for and kept: in a file beside the records until the run is
collected, then as rows of the released tables, so that a light record has them too.
"""

import json
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calibkit import arrays, confidence, metrics, stats
from calibkit.data.cache import cache_root
from calibkit.training import store, tables


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


@dataclass(eq=False)
class Recalibrated:
    """The predictions of a record behind a recalibration, perhaps fitted on few samples."""

    record: store.Record
    recalibration: str = "none"
    validation: int = 0  # the first so many; 0: all

    @cached_property
    def labels(self) -> np.ndarray:
        return self.record.arrays["test_labels"].astype(np.int64)

    @cached_property
    def logits(self) -> np.ndarray:
        from calibkit import posthoc  # here, because it takes half a second to import

        logits = self.record.arrays["test_logits"]
        if self.recalibration == "none":
            return logits
        if self.recalibration == "ts_test":
            return logits / self.record.history["temperature_optimal"][-1]
        part = slice(self.validation or None)
        held_out = self.record.arrays["validation_logits"][part]
        labels = self.record.arrays["validation_labels"].astype(np.int64)[part]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", posthoc.PosthocWarning)
            if self.recalibration != "binned":
                objective = self.recalibration.removeprefix("ts_")
                return logits / posthoc.optimal_temperature(held_out, labels, objective)[0]
            binned = posthoc.HistogramBinning().fit(held_out, labels).predict_proba(logits)
        return np.log(np.maximum(binned, 1e-30))

    @cached_property
    def samples(self) -> dict[str, np.ndarray]:
        """Confidence and correctness of each test sample."""
        return metrics.per_sample(self.logits, self.labels)

    @cached_property
    def summary(self) -> dict[str, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
            return metrics.summary(self.logits, self.labels)


_MODELS: dict[tuple, Recalibrated] = {}


def model(record: store.Record, recalibration: str = "none", validation: int = 0) -> Recalibrated:
    """The predictions of a record behind a recalibration; the last few are remembered."""
    key = record.path, record.name, recalibration, validation
    if key not in _MODELS:
        while len(_MODELS) > 8:  # predictions take the most memory
            _MODELS.pop(next(iter(_MODELS)))
        _MODELS[key] = Recalibrated(record, recalibration, validation)
    return _MODELS[key]


# --- what is measured -----------------------------------------------------------------------------


def _sure_when_wrong(of: Recalibrated) -> float:
    """Share of wrong predictions with a confidence above 0.95."""
    return mean(of.samples["confidence"][~of.samples["correct"]] > 0.95)


def _overconfidence_below_half(of: Recalibrated) -> float:
    """Confidence minus accuracy of the samples with a confidence below one half."""
    low = of.samples["confidence"] < 0.5
    return mean((of.samples["confidence"] - of.samples["correct"])[low])


def _extra_ece_of_binning(of: Recalibrated) -> float:
    """ECE which 100 validation samples cost binning over all, beyond what they cost scaling.

    overconf, figure 3.
    """
    few, whole = (
        [model(of.record, after, size).summary["ece"] for after in ("binned", "ts_ece")]
        for size in (100, 0)
    )
    return (few[0] - whole[0]) - (few[1] - whole[1])


def _ece_beyond_gap(of: Recalibrated) -> float:
    """ECE (100 bins) beyond |confidence - accuracy|: 0 if every bin errs on the same side."""
    history = of.record.history
    gap = abs(history["confidence"][-1] - history["accuracy"][-1])
    return float(history["eq9_ece"][-1] - gap)


def _passes(of: Recalibrated) -> float:
    """What training costs, whatever else the machine did meanwhile."""
    passes = of.record.info["provenance"].get("passes")
    return float(sum(passes.values())) if passes else nan


def _sharpness(of: Recalibrated) -> float:
    sharpness = of.record.info["provenance"].get("sharpness")
    return nan if sharpness is None else float(sharpness)


def _max_logit_range(of: Recalibrated) -> float:
    """Between the 5th and the 95th percentile of the largest logit of training samples."""
    return float(np.ptp(np.quantile(of.record.arrays["train_max_logit"], [0.05, 0.95])))


def _learned_late_means_unsure(of: Recalibrated) -> float:
    """Minus the rank correlation of learned epoch and largest logit (overconf, figure 5)."""
    arrays = of.record.arrays
    learned = arrays["train_learned_epoch"] > 0  # 0: wrong at the end
    return -_spearman(arrays["train_learned_epoch"][learned], arrays["train_max_logit"][learned])


def _gradient_spread(of: Recalibrated) -> float:
    """Width of the gradient norm at like Brier scores, in units of its mean (bsce, figure 4).

    Mean over the epochs followed but the first, at which nothing is learnt.
    """
    from calibkit import curves  # here, because it takes half a second to import

    arrays = of.record.arrays
    pairs = zip(arrays["train_brier"][1:], arrays["train_gradient_norm"][1:], strict=True)
    spreads = [curves.gradient_spread(*pair) for pair in pairs]
    return mean([spread for spread in spreads if not isnan(spread)])


def _median_gradient_norm(of: Recalibrated) -> float:
    """Of training samples, at the epochs followed but the first and the last."""
    return float(np.mean(np.median(of.record.arrays["train_gradient_norm"][1:-1], axis=1)))


def _more_correlated(of: Recalibrated, first: str, second: str) -> float:
    """How much better than `second` a weight follows the true error of the posterior (bsce).

    Each with its best exponents: all three are searched on the grid of the toy.
    """
    import torch

    from calibkit import data
    from calibkit.companion import toys

    logits, labels = torch.from_numpy(of.logits.astype(float)), torch.from_numpy(of.labels)
    eta = data.gaussian_posterior(data.load("gaussians").test.inputs.double())
    best = toys.best_correlations([(logits, labels, eta)])["‖η − p‖"]
    return float(best[first][1][0] - best[second][1][0])


TEMPERATURES = 1.1 ** np.arange(-24, 25)  # from 0.1 to 10, each a tenth more than the one before


def _auroc_gain_of_temperature(of: Recalibrated) -> float:
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
    *(_sure_when_wrong, _overconfidence_below_half, _extra_ece_of_binning, _ece_beyond_gap),
    *(_passes, _sharpness, _max_logit_range, _learned_late_means_unsure),
    *(_gradient_spread, _median_gradient_norm, _auroc_gain_of_temperature),
)
METRICS: dict[str, Callable[[Recalibrated], float]] = {
    **{function.__name__.removeprefix("_"): function for function in _COMPUTED},
    "correlation_of_brier_beyond_dual_focal": lambda m: _more_correlated(m, "Brier", "dual focal"),
    "correlation_of_dual_focal_beyond_focal": lambda m: _more_correlated(m, "dual focal", "focal"),
}
CHEAP = ("passes", "sharpness", "ece_beyond_gap")  # they take no arrays


def value(record: store.Record, number: Number) -> float:
    """One of `METRICS`, or any on a recalibration fitted on few samples; nan without arrays."""
    if number.metric in CHEAP:
        return METRICS[number.metric](model(record))
    if record.light and record.tables:  # what was worked out is in them
        return nan
    name = _name(number.metric, number.recalibration, number.validation)
    known = _known(record)
    if name not in known:
        if record.light or (
            number.metric not in METRICS and number.recalibration in ("none", "ts_test")
        ):
            return nan
        of = model(record, number.recalibration, number.validation)
        compute = METRICS.get(number.metric, lambda of: of.summary[number.metric])
        known[name] = float(compute(of))
        keep(record.name)
    return nan if known[name] is None else known[name]


def _name(metric: str, recalibration: str, validation: int) -> str:
    """What the file of numbers calls one."""
    return f"{metric} {recalibration} {validation}"


def rows(record: store.Record) -> list[dict]:
    """What is known of a record and not in the released tables, as rows of them."""
    found = []
    for name, number in _known(record).items():
        if name == "arrays":
            continue
        metric, after, size = name.split()
        key = metric, after, "max_probability", int(size)
        if record.tables is None or record.tables.number(record.name, *key) is None:
            value = {"value": nan if number is None else float(number)}
            found.append(dict(zip(tables.KEY, key, strict=True)) | value)
    return found + (epochs(record) if record.tables is None else [])


THROUGH = ("accuracy", "auroc", "aurc", "ece", "nll")  # training, with replicates


def epochs(record: store.Record) -> list[dict]:
    """What the predictions of every evaluated epoch say, where they were kept, as such rows.

    `THROUGH`, the NLL after a temperature fitted at that epoch, the AUROC of other scores.
    """
    file = store.epochs_file(record, record.path.parent)
    if record.light or not file.exists():
        return []
    labels, held_out_labels = (
        record.arrays[f"{part}_labels"].astype(np.int64) for part in ("test", "validation")
    )
    found = []
    with np.load(file) as kept:
        each = zip(*(kept[name] for name in ("epochs", "test", "validation")), strict=True)
        for epoch, *both in each:
            logits, held_out = (part.astype(np.float32) for part in both)
            its = _at_epoch(logits, labels, held_out, held_out_labels)
            found += [row | {"epoch": int(epoch)} for row in its]
    return found


def _at_epoch(logits, labels, held_out, held_out_labels) -> list[dict]:
    from calibkit import posthoc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        temperature = posthoc.optimal_temperature(held_out, held_out_labels, "nll")[0]
    warm = logits / temperature
    names = [*THROUGH, tables.joined("nll", "ts_nll")]
    summary = metrics.summary(logits, labels)
    values = np.array([*(summary[m] for m in THROUGH), metrics.nll(arrays.softmax(warm), labels)])
    parts = (logits, THROUGH), (warm, ["nll"])
    drawn = [stats.replicates([x], labels, list(asked))[0] for x, asked in parts]
    deviations = (np.concatenate(drawn, axis=1) - values).T.astype(np.float32)
    p = confidence.choose_p(held_out, held_out_labels)
    kept = stats.Replicates(tuple(names), values, deviations, {"ts_nll": temperature}, p)
    rows = tables.rows_of(kept, *kept.quantised())
    correct = logits.argmax(axis=1) == labels
    scores = {
        "p_norm": confidence.p_norm(logits, p),
        "margin": confidence.margin(logits),
        "negative_entropy": confidence.negative_entropy(logits),
    }
    for score, by in scores.items():
        key = dict(zip(tables.KEY, ("auroc", "none", score, 0), strict=True))
        rows.append(key | {"value": float(metrics.auroc(by, correct))})
    return rows


# --- kept beside the records ----------------------------------------------------------------------

_files: dict[Path, dict[str, dict]] = {}


def _path(name: str) -> Path:
    """The file of local records' numbers, or the one that comes with the released tables."""
    root = cache_root()
    return root / ("released/derived.json" if name == "mathematics" else "runs/.derived.json")


def _at(path: Path) -> dict[str, dict]:
    if path not in _files:
        try:
            _files[path] = json.loads(path.read_text())
        except (OSError, ValueError):  # there is none yet, or half of one
            _files[path] = {}
    return _files[path]


def numbers(name: str, checksum: str | None) -> dict:
    """What is known under a name, to be added to; empty if its checksum is another."""
    its = _at(_path(name)).setdefault(name, {})
    if checksum and its.get("arrays") != checksum:
        its.clear()
        its["arrays"] = checksum
    return its


def _known(record: store.Record) -> dict:
    return numbers(record.name, record.info["sha256"].get("arrays.npz"))


def keep(name: str) -> None:
    """Write what was computed under a name, where the folder can be written."""
    path = _path(name)
    entries = {
        name: {k: None if isinstance(v, float) and isnan(v) else v for k, v in its.items()}
        for name, its in sorted(_at(path).items())
        if len(its) > 1
    }
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(entries, indent=0) + "\n")
        draft.replace(path)


# --- what no record keeps ---------------------------------------------------------------


def answers(record: store.Record, score: str) -> stats.Answers | None:
    """Confidence by another score and correctness of each test sample; None if the run has none."""
    of = model(record)
    if score == "p_norm":
        arrays = record.arrays
        p = confidence.choose_p(
            arrays["validation_logits"], arrays["validation_labels"].astype(np.int64)
        )
        return stats.Answers(confidence.p_norm(of.logits, p), of.samples["correct"])
    name = f"test_{score}"
    if name not in record.arrays:
        return None
    return stats.Answers(record.arrays[name], of.samples["correct"])


def resampled(record: store.Record, number: Number, read: Callable) -> np.ndarray | None:
    """Deviations of a number on the resamples of the test set that all numbers share.

    `read` gives the number of a record itself.
    """
    known = number.metric in stats.COMPARED + stats.UNCHANGED
    if record.light or not known or number.recalibration != "none":
        return None
    if number.score == "max_probability":
        asked = [model(record).logits], model(record).labels
    else:
        asked = [answers(record, number.score)], None
    if asked[0][0] is None:
        return None
    n = record.replicates.deviations.shape[1]
    return stats.replicates(*asked, [number.metric], n=n)[0, :, 0] - read(record, number)
