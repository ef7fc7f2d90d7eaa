"""Differences between methods, with their intervals and their words: for claims and pages alike.

A metric of a method is one number per seed (`Series`), together with its deviations on resamples of
the test set, which every record keeps (`stats.Replicates`). `difference` pairs two methods seed by
seed and resample by resample; `stats.mean_over_seeds` has the uncertainty from runs and test set.
`outcome` judges a statement by the interval: it holds, the opposite does, there is practically no
difference, or it is open.

Calibration errors are compared by their excess over what chance alone shows in a calibrated model
(`calibkit.metrics.ece_floor`). Where a large error hides that noise, the plain difference is nearer
the truth; the interval covers both.

A page asks `between` for two methods of its own, and `interaction` whether two settings differ in
that difference. Claims ask `calibkit.companion.evidence`, which finds the records of a setting.
What is asked of a run besides the metrics of `calibkit.metrics` is in `Model`: other scores of
confidence, periods of the history, shifted test sets, what was followed of the training samples.
"""

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import isnan, nan
from pathlib import Path

import numpy as np

from calibkit import metrics, stats
from calibkit.companion import plan
from calibkit.data.cache import cache_root
from calibkit.training import store

SIDES = ("below", "above", "near", "at most", "at least")
Pair = tuple[list[store.Record], list[store.Record]]  # of a method, and of another one

# --- the rule -------------------------------------------------------------------------------------


def outcome(interval: stats.Interval, side: str, margin: float = 0.0) -> str:
    """How a statement about a difference fares.

    Parameters
    ----------
    interval : of the difference
    side : where the statement puts it: "below" or "above" 0, "near" it, "at most" or "at least" 0
    margin : the largest difference that would not matter

    Returns
    -------
    str
        "holds"; "the opposite"; or "open". Where a side is stated, also "practically none", if the
        whole interval lies within the margin, and "ruled out", if it reaches beyond the margin only
        on the side that is not stated. Inside the margin "near", "at most" and "at least" hold.

    Examples
    --------
    >>> outcome(stats.Interval(0.2, 0.1, 0.3), "below"), outcome(stats.Interval(0, 0, 0), "at most")
    ('the opposite', 'holds')
    >>> outcome(stats.Interval(0.2, 0.1, 0.3), "above", margin=0.4)
    'practically none'
    >>> outcome(stats.Interval(0.2, -0.1, 0.5), "below", margin=0.4)
    'ruled out'
    """
    plan.choose("side", side, SIDES)
    if isnan(interval.low):
        return "open"
    if side in ("below", "above"):
        direction = interval.direction(margin)
        lies = {"higher": "above", "lower": "below"}.get(direction)
        if lies:
            return "holds" if lies == side else "the opposite"
        if direction == "practically none":
            return direction
        least = -interval.high if side == "above" else interval.low  # towards the stated side
        return "ruled out" if least >= -margin else "open"
    low = -np.inf if side == "at most" else -margin
    high = np.inf if side == "at least" else margin
    if low <= interval.low and interval.high <= high:
        return "holds"
    return "the opposite" if interval.high < low or interval.low > high else "open"


@dataclass(frozen=True)
class Series:
    """A metric of one method by seed, and its deviations on resamples of the test set.

    Without `draws` the test set adds no uncertainty; `n` is its size, `dataset` its name.
    """

    values: Mapping[int, float]
    draws: Mapping[int, np.ndarray] = field(default_factory=dict)
    n: int = 0
    dataset: str = ""

    def __sub__(self, other: "Series | float") -> "Series":
        """The difference seed by seed, of the seeds that both have, or from a number."""
        if not isinstance(other, Series):
            return replace(self, values={s: v - other for s, v in self.values.items()})
        return self._with(other, lambda a, b: a - b, lambda a, b, da, db: da - db)

    def __truediv__(self, other: "Series") -> "Series":
        """The ratio, with deviations to first order."""
        return self._with(other, lambda a, b: a / b, lambda a, b, da, db: (da - a / b * db) / b)

    def _with(self, other: "Series", value: Callable, draw: Callable) -> "Series":
        seeds = [s for s in self.values if s in other.values]
        values = {s: value(self.values[s], other.values[s]) for s in seeds}
        if not (seeds and self.draws and other.draws):
            return Series(values, {}, min(self.n, other.n), self.dataset)
        # Of two test sets, what one draws says nothing about the other.
        turn = int(self.dataset != other.dataset)
        draws = {
            s: draw(self.values[s], other.values[s], self.draws[s], np.roll(other.draws[s], turn))
            for s in seeds
        }
        return Series(values, draws, min(self.n, other.n), self.dataset)

    def mean(self, spread: Iterable[float] | None = None) -> stats.MeanOverSeeds:
        """Mean over seeds; `spread` is that of other runs, for when there is only one here."""
        seeds = [s for s, v in self.values.items() if not isnan(v)]
        if not seeds:
            return stats.mean_over_seeds([nan])
        draws = np.array([self.draws[s] for s in seeds]) if self.draws else None
        spread = None if spread is None else list(spread)
        return stats.mean_over_seeds([self.values[s] for s in seeds], draws, spread)


@dataclass(frozen=True)
class Difference:
    """A mean difference over seeds, and its uncertainty.

    Of a calibration error `mean` is about its excess, and `plain` about the error itself.
    `borrowed`: one run only, whose spread between seeds is that of other runs.
    """

    mean: stats.MeanOverSeeds
    plain: stats.MeanOverSeeds | None = None
    n: int = 0
    borrowed: bool = False

    def interval(self, level: float = 0.95) -> stats.Interval:
        """The estimate with its interval; that of a calibration error covers the plain one too."""
        interval = self.mean.interval(level)
        if self.plain is None or isnan(interval.low):
            return interval
        _, low, high = self.plain.interval(level)
        return interval._replace(low=min(interval.low, low), high=max(interval.high, high))

    def with_seeds(self, seeds: int) -> "Difference":
        """The same with so many seeds, if estimate and spreads stay as they are; never fewer."""

        def later(mean: stats.MeanOverSeeds | None) -> stats.MeanOverSeeds | None:
            if mean is None or seeds <= mean.seeds:
                return mean
            freedom = mean.freedom * (seeds - 1) / max(mean.seeds - 1, 1)
            return replace(mean, seeds=seeds, freedom=freedom)

        return replace(self, mean=later(self.mean), plain=later(self.plain))


def difference(series: Callable[[str], Series], metric: str, spread: Callable = None) -> Difference:
    """The mean of a difference over seeds, with its interval.

    Parameters
    ----------
    series : the difference of a metric by seed, for a name of a metric
    metric : of a calibration error, its excess is asked for as well
    spread : as `series`, of other runs, for when there is only one here

    Examples
    --------
    >>> paired = Series({0: 0.01, 1: 0.02, 2: 0.015})
    >>> difference(lambda metric: paired, "auroc").interval().format(100, sign=True)
    '+1.5 [+0.3, +2.7]'
    """

    def mean(name: str) -> tuple[stats.MeanOverSeeds, int, bool]:
        own = series(name)
        if name in COUNTED:  # another run would count the same
            return own.mean(2 * list(own.values.values())), own.n, False
        lent = spread(name).values.values() if spread and len(own.values) == 1 else ()
        return own.mean(lent), own.n, len(lent) > 1

    name, after, _ = split(metric)
    if name not in CALIBRATION or ":" in metric:
        average, n, borrowed = mean(metric)
        return Difference(average, None, n, borrowed)
    average, n, borrowed = mean(f"excess_{metric}")
    return Difference(average, mean(metric)[0], n, borrowed)


def between(
    records: Iterable[store.Record],
    others: Iterable[store.Record],
    metric: str,
    against: str = "",
) -> Difference:
    """One method minus another, from the records of both, paired by seed.

    Parameters
    ----------
    records, others : of runs that share a test set; those that diverged are left out
    metric : a name in `stats.COMPARED`, perhaps behind a recalibration such as ``ece_scaled``; or
        any other that `Model.value` takes
    against : the metric of the others, where it is another: ``auroc`` beside ``auroc_scaled``
    """

    def series(name: str) -> Series:
        return by_seed(records, name) - by_seed(others, like(name, against))

    records, others = list(records), list(others)
    return difference(series, metric)


def interaction(here: Pair, there: Pair, metric: str) -> Difference:
    """How much a method changes in one setting, minus how much it does in another.

    Paired by seed and, where both settings share a test set, by its samples.

    Parameters
    ----------
    here, there : the records of a method and those it is compared with, as `between` takes them
    metric : as `between` takes it
    """

    def series(name: str) -> Series:
        first, second = (by_seed(a, name) - by_seed(b, name) for a, b in (here, there))
        return first - second

    return difference(series, metric)


def by_seed(records: Iterable[store.Record], metric: str, score: str = "") -> Series:
    """A metric of some runs by seed, with its deviations; those that diverged are left out.

    Parameters
    ----------
    metric : as `between` takes it
    score : the array that takes the place of the largest probability, if any
    """
    _, after, validation = split(metric)
    models = {r.info["run"]["seed"]: Model(r, after, validation, score) for r in records}
    return of_models({s: m for s, m in models.items() if not m.record.diverged}, metric)


def like(metric: str, against: str) -> str:
    """The metric of a second side: an excess is compared with an excess."""
    return "excess_" * metric.startswith("excess_") + against if against else metric


def since_best(histories: Mapping[int, Mapping], best: str, changed: str) -> dict[int, float]:
    """Change of a metric from the epoch that is best by another to the end, by seed.

    The best of many noisy epochs always beats the last one, so a seed's best epoch is the one that
    the *other* seeds find best on average; a single seed has none.

    Parameters
    ----------
    histories : of each seed, with the metrics by epoch
    best, changed : metrics of a history; the lowest is best unless it is AUROC or accuracy
    """
    sign = 1 if best in ("auroc", "accuracy") else -1
    changes = {}
    for seed, history in histories.items():
        others = [sign * h[best] for other, h in histories.items() if other != seed]
        if others:
            epoch = np.nan_to_num(np.mean(others, axis=0), nan=-np.inf).argmax()
            changes[seed] = float(history[changed][-1] - history[changed][epoch])
    return changes


# --- a trained network ----------------------------------------------------------------------------

CALIBRATION = ("ece", "adaptive_ece", "classwise_ece")
COUNTED = ("passes",)  # a method's own number, the same in each run
_AGAIN = ("shifted", "collected")  # other test sets of the same network
# How a metric's name says what was done to the confidences, and how replicates call it.
RECALIBRATED = {
    "scaled": "ts_ece",
    "nll_scaled": "ts_nll",
    "optimal": "optimal",
    "binned": "binned",
}


@dataclass(eq=False)
class Model:
    """A record, perhaps recalibrated on (the first so many) validation samples.

    `score` is the array which takes the place of the largest probability, if any.
    """

    record: store.Record
    after: str = ""
    validation: int | None = None
    score: str = ""
    _deviations: dict[str, np.ndarray | None] = field(default_factory=dict, init=False, repr=False)

    @property
    def dataset(self) -> str:
        return self.record.info["run"]["dataset"]

    @cached_property
    def labels(self) -> np.ndarray:
        return self.record.arrays["test_labels"].astype(np.int64)

    @cached_property
    def logits(self) -> np.ndarray:
        logits = self.record.arrays["test_logits"]
        if not self.after:
            return logits
        if self.after == "optimal":
            return logits / self.record.history["temperature_optimal"][-1]
        from calibkit import posthoc  # here, because it takes half a second to import

        part = slice(self.validation)
        held_out = self.record.arrays["validation_logits"][part]
        labels = self.record.arrays["validation_labels"].astype(np.int64)[part]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", posthoc.PosthocWarning)
            if self.after != "binned":
                objective = "nll" if self.after == "nll_scaled" else "ece"
                return logits / posthoc.optimal_temperature(held_out, labels, objective)[0]
            binned = posthoc.HistogramBinning().fit(held_out, labels).predict_proba(logits)
        return np.log(np.maximum(binned, 1e-30))

    @cached_property
    def samples(self) -> dict[str, np.ndarray]:
        samples = metrics.per_sample(self.logits, self.labels)
        return samples | {"confidence": self.record.arrays[self.score]} if self.score else samples

    @cached_property
    def summary(self) -> dict[str, float]:
        return metrics.summary(self.logits, self.labels)

    def _replicate_name(self, metric: str) -> str:
        """What the record's replicates call a metric of this model; empty if they lack it."""
        if self.score or self.validation is not None or metric in _OWN or ":" in metric:
            return ""
        if "replicates.npz" not in self.record.info["sha256"]:
            return ""
        name = f"{metric}_{RECALIBRATED[self.after]}" if self.after else metric
        return name if name in self.record.replicates else ""

    def value(self, metric: str) -> float:
        """A metric at the end of training, or averaged over a period of it (``late:ece``).

        ``shifted:ece`` is the mean over every kind and severity of shift of the test set,
        ``collected:ece`` that over newly collected test sets.
        """
        if metric in _LINEAR and not self.score:
            constant, parts = _LINEAR[metric]
            return constant + sum(w * self.value(name) for name, w in parts.items())
        if metric in _OWN:
            compute = _OWN[metric]
            return compute(self) if metric in _CHEAP else derived(self, metric, compute)
        if self._replicate_name(metric):
            return self.record.replicates.estimate(self._replicate_name(metric))
        if self.score:
            return self.ranked(metric)
        period, _, name = metric.rpartition(":")
        if period in _AGAIN:
            after = f"_{self.after}" if self.after else ""
            return _mean(getattr(self.record, period)[name + after])
        if period:
            history = self.record.history
            return _mean(history[name][_PERIODS[period](history)])
        if not self.after and metric in self.record.history:
            return float(self.record.history[metric][-1])
        if self.validation is not None:
            return derived(self, metric, lambda model: model.summary[metric])
        return float(self.summary[metric]) if metric in self.summary else self.ranked(metric)

    def deviation(self, metric: str) -> np.ndarray | None:
        """Deviations of a metric on resamples of the test set; None if it has none.

        A period of the history takes those of its end, and a recalibration on few samples takes
        those of the same recalibration on all.
        """
        if metric in _LINEAR and not self.score:
            _, parts = _LINEAR[metric]
            return sum(w * self.deviation(name) for name, w in parts.items())
        period, _, name = metric.rpartition(":")
        if period in _PERIODS:
            metric = name
        if self.validation is not None:  # the test set is the same
            return replace(self, validation=None).deviation(metric)
        if self._replicate_name(metric):
            return self.record.replicates.deviation(self._replicate_name(metric))
        return self._resampled(metric)

    @property
    def n(self) -> int:
        """How many test samples."""
        return int(self.record.history["n"][-1])

    def ranked(self, metric: str) -> float:
        """A metric of (confidence, correct) from the predictions."""
        of = metrics.Ranking.of(self.samples["confidence"], self.samples["correct"])
        share = re.fullmatch(r"risk_at_coverage_(.*)", metric)
        functions = metrics.ranked_metrics(coverages=[float(share[1])] if share else [])
        return float(functions[metric](of))

    def _resampled(self, metric: str) -> np.ndarray | None:
        """Deviations that no file keeps: of another score, or of a record without replicates.

        Drawn as `stats.replicates_of_run` draws, but only for what is asked: a hundredth of it.
        """
        if metric not in self._deviations:
            deviation = None
            if self.score or (resampled(metric, self.after) and not self.record.light):
                deviation = _cached_deviation(self, metric)
            self._deviations[metric] = deviation
        return self._deviations[metric]

    def _resample(self, metric: str) -> np.ndarray:
        if self.score:
            of = stats.Answers(self.samples["confidence"], self.samples["correct"])
            replicates = stats.replicates([of], None, [metric])
        else:
            replicates = stats.replicates([self.logits], self.labels, [metric])
        return replicates[0, :, 0] - self.value(metric)

    def forget(self) -> None:
        """Free the predictions, which take the most memory; what was computed from them stays."""
        for owner, names in ((self, ("labels", "logits", "samples")), (self.record, ("arrays",))):
            for name in names:
                vars(owner).pop(name, None)


_DRAWING = [
    Path(stats.__file__).with_name(f"{m}.py") for m in ("arrays", "metrics", "posthoc", "stats")
]


def _cached_deviation(model: Model, metric: str) -> np.ndarray:
    """Deviations of a metric, drawn by the first page that asks and kept for the others."""
    record = model.record
    name = "-".join(filter(None, (metric, model.after, model.score)))
    of = record.info["sha256"].get("arrays.npz", "")[:16]
    path = cache_root() / "drawn" / record.name / f"{of}-{name}.npy"
    with suppress(OSError, ValueError, EOFError):  # there is none yet, or half of one
        if path.stat().st_mtime > max(code.stat().st_mtime for code in _DRAWING):
            return np.load(path)
    deviation = model._resample(metric)
    with suppress(OSError):  # records may be where nothing can be written
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        with open(draft, "wb") as file:
            np.save(file, deviation)
        draft.replace(path)
    return deviation


# What was computed from predictions and training samples: by run, with the checksum of its arrays.
# It is kept beside the records, so that it is there at once, and after a record was made light.
_derived: dict[Path, dict[str, dict]] = {}


@cache
def _released() -> frozenset[str]:
    """Names of what comes with the repository, as its records do."""
    return frozenset({"mathematics"} | {run.name for run in plan.runs("all", "released")})


def _derived_path(name: str) -> Path:
    """The file in which what is known under a name is kept; git sees that of the released edition.

    The other is among the records that are no part of the repository.
    """
    root = cache_root()
    return root / "derived.json" if name in _released() else root / "runs" / ".derived.json"


def _derived_at(path: Path) -> dict[str, dict]:
    if path not in _derived:
        try:
            _derived[path] = json.loads(path.read_text())
        except (OSError, ValueError):  # there is none yet, or half of one
            _derived[path] = {}
    return _derived[path]


def derived_numbers(name: str, checksum: str | None) -> dict:
    """What is known under a name, to be added to; empty if its checksum is another."""
    numbers = _derived_at(_derived_path(name)).setdefault(name, {})
    if checksum and numbers.get("arrays") != checksum:
        numbers.clear()
        numbers["arrays"] = checksum
    return numbers


def derived(model: Model, metric: str, compute: Callable[[Model], float]) -> float:
    """A number that takes a run's arrays, if possible from those computed before."""
    record = model.record
    numbers = derived_numbers(record.name, record.info["sha256"].get("arrays.npz"))
    size = "" if model.validation is None else f"@{model.validation}"
    key = f"{metric}_{model.after}{size}" if model.after else metric
    if key not in numbers:
        numbers[key] = float(compute(model))
    return nan if numbers[key] is None else numbers[key]


def has_derived(model: Model) -> bool:
    """Whether a run left numbers that took its arrays."""
    name = model.record.name
    return len(_derived_at(_derived_path(name)).get(name, ())) > 1


def keep_derived() -> None:
    """Save what `derived` has computed, where the folder of the records can be written."""
    for path, runs in _derived.items():
        entries = {
            name: {k: None if isinstance(v, float) and isnan(v) else v for k, v in numbers.items()}
            for name, numbers in sorted(runs.items())
            if len(numbers) > 1
        }
        text = json.dumps(entries, indent=0) + "\n"
        try:
            if entries and (not path.exists() or path.read_text() != text):
                draft = path.with_suffix(f".{os.getpid()}")
                draft.write_text(text)
                draft.replace(path)
        except OSError:
            pass


def of_models(models: Mapping[int, Model], metric: str) -> Series:
    """A metric of one method by seed, with its deviations if all have them."""
    name, _, _ = split(metric)
    values = {seed: model.value(name) for seed, model in models.items()}
    draws = {seed: model.deviation(name) for seed, model in models.items()}
    if any(d is None for d in draws.values()):
        draws = {}
    first = next(iter(models.values()), None)
    if first is None:
        return Series(values)
    period = name.partition(":")[0]
    n = getattr(first.record, period)["n"][0] if period in _AGAIN else first.n
    return Series(values, draws, int(n), first.dataset)


def _rates(history: dict) -> np.ndarray:
    """How often the learning rate had dropped by each evaluated epoch."""
    return np.searchsorted(-np.unique(history["learning_rate"])[::-1], -history["learning_rate"])


_PERIODS = {
    "late": lambda h: h["epoch"] > 0.75 * h["epoch"][-1],
    "settled": lambda h: h["epoch"] > 0.1 * h["epoch"][-1],
    "second_rate": lambda h: _rates(h) == 1,
    "third_rate": lambda h: _rates(h) >= 2,
}


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import spearmanr  # here, because it takes a second to import

    return float(spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else nan


def _learned_late_means_unsure(model: Model) -> float:
    """Minus the rank correlation of learned epoch and largest logit (overconf, figure 5)."""
    arrays = model.record.arrays
    learned = arrays["train_learned_epoch"] > 0  # 0: wrong at the end
    return -_spearman(arrays["train_learned_epoch"][learned], arrays["train_max_logit"][learned])


def _gradient_spread(model: Model, groups: int = 10) -> float:
    """Width of the gradient norm at a given Brier score, in units of its mean (bsce, figure 4).

    The interquartile range within each of ten groups of samples of like Brier score, their mean,
    over the mean of all; mean over the epochs followed but the first, at which nothing is learnt.
    """
    arrays = model.record.arrays
    spreads = []
    for brier, norm in zip(
        arrays["train_brier"][1:], arrays["train_gradient_norm"][1:].astype(float), strict=True
    ):
        some = norm > 0  # a sample learnt to the last digit has neither
        order = np.argsort(brier[some], kind="stable")
        if len(order) >= groups:
            parts = np.array_split(norm[some][order], groups)
            width = np.mean([np.subtract(*np.quantile(part, [0.75, 0.25])) for part in parts])
            spreads.append(width / norm[some].mean())
    return _mean(spreads)


def _more_correlated(model: Model, first: str, second: str) -> float:
    """How much better than `second` a weight follows the true error of the posterior (bsce).

    Each with its best exponents: all three are searched on the grid of the toy.
    """
    import torch

    from calibkit import data
    from calibkit.companion import toys

    logits, labels = torch.from_numpy(model.logits.astype(float)), torch.from_numpy(model.labels)
    posterior = data.gaussian_posterior(data.load("gaussians").test.inputs.double())
    error = (logits.softmax(1) - posterior).norm(dim=1)

    def best(family: str) -> float:
        tried = [weight(logits, labels) for weight in toys.families()[family].values()]
        return max(float(torch.corrcoef(torch.stack([w, error]))[0, 1]) for w in tried)

    return best(first) - best(second)


def _extra_ece_of_binning(model: Model) -> float:
    """ECE which 100 validation samples cost binning over all, beyond what they cost scaling.

    overconf, figure 3.
    """
    few, all_of_them = (
        [Model(model.record, after, size).value("ece") for after in ("binned", "scaled")]
        for size in (100, None)
    )
    return (few[0] - all_of_them[0]) - (few[1] - all_of_them[1])


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else nan


# Metrics which only a claim asks for.
_OWN = {
    "sure_when_wrong": lambda m: _mean(m.samples["confidence"][~m.samples["correct"]] > 0.95),
    "overconfidence_below_half": lambda m: _mean(
        (m.samples["confidence"] - m.samples["correct"])[m.samples["confidence"] < 0.5]
    ),
    "extra_ece_of_binning": _extra_ece_of_binning,
    # ECE (100 bins) beyond |confidence - accuracy|: 0 if every bin errs on the same side.
    "ece_beyond_gap": lambda m: (
        m.record.history["eq9_ece"][-1]
        - abs(m.record.history["confidence"][-1] - m.record.history["accuracy"][-1])
    ),
    # What training costs, whatever else the machine did meanwhile.
    "passes": lambda m: sum(m.record.info["provenance"]["passes"].values()),
    "sharpness": lambda m: m.record.info["provenance"]["sharpness"],
    "max_logit_range": lambda m: np.ptp(
        np.quantile(m.record.arrays["train_max_logit"], [0.05, 0.95])
    ),
    "learned_late_means_unsure": _learned_late_means_unsure,
    "gradient_spread": _gradient_spread,
    "median_gradient_norm": lambda m: np.mean(
        np.median(m.record.arrays["train_gradient_norm"][1:-1], axis=1)
    ),
    "correlation_of_brier_beyond_dual_focal": lambda m: _more_correlated(m, "Brier", "dual focal"),
    "correlation_of_dual_focal_beyond_focal": lambda m: _more_correlated(m, "dual focal", "focal"),
}
_CHEAP = ("passes", "sharpness", "ece_beyond_gap")  # they take no arrays
# Sums of metrics that replicates keep: a constant, and what is taken how often.
_LINEAR = {
    "confidence_correct": (1.0, {"ece_correct": -1.0}),
    "confidence_wrong": (1.0, {"ece_correct": -1.0, "confidence_gap": -1.0}),
}


def takes_arrays(metric: str) -> bool:
    """Whether a metric that only claims ask for is computed from a record's arrays."""
    return metric in _OWN and metric not in _CHEAP


def resampled(metric: str, after: str = "") -> bool:
    """Whether records have deviations of a metric, perhaps behind a recalibration."""
    return metric in stats.COMPARED or (
        not after and (metric in stats.UNCHANGED or metric in _LINEAR)
    )


def split(metric: str) -> tuple[str, str, int | None]:
    """Take a metric from its recalibration, and that from its validation samples.

    >>> split("ece_scaled@100"), split("ece")
    (('ece', 'scaled', 100), ('ece', '', None))
    """
    match = re.fullmatch(r"(\w+?)_(nll_scaled|scaled|optimal|binned)(?:@(\d+))?", metric)
    if not match:
        return metric, "", None
    return match[1], match[2], int(match[3]) if match[3] else None
