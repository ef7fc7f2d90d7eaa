"""Metrics of trained networks, seed by seed: what a claim is judged on.

`Evidence` finds the records of a method and gives one number per seed: a metric at the end of
training, behind a post-hoc map, by another score of confidence, over a period of the history, of
the training samples, under shift, or since the best epoch. The metrics themselves are those of
`calibkit.metrics`.

Only plain runs count, of the edition's own protocol or of one with the settings asked for: a
record of another variant or setting has another name and is never looked for. The exceptions are
the scores, which runs keep if asked to.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan, nan
from types import MappingProxyType

import numpy as np

from calibkit import grid, metrics, posthoc, stats, store

# --- a trained network ----------------------------------------------------------------------------


@dataclass(eq=False)
class Model:
    """A record, perhaps behind a post-hoc map fitted on (the first so many) validation samples.

    `score` is the array which takes the place of the largest probability, if any.
    """

    record: store.Record
    after: str = ""
    validation: int | None = None
    score: str = ""

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
        part = slice(self.validation)
        held_out = self.record.arrays["validation_logits"][part]
        labels = self.record.arrays["validation_labels"].astype(np.int64)[part]
        if self.after == "scaled":
            return logits / posthoc.optimal_temperature(held_out, labels)[0]
        binned = posthoc.HistogramBinning().fit(held_out, labels).predict_proba(logits)
        return np.log(np.maximum(binned, 1e-30))

    @cached_property
    def samples(self) -> dict[str, np.ndarray]:
        found = metrics.per_sample(self.logits, self.labels)
        return found | {"confidence": self.record.arrays[self.score]} if self.score else found

    @cached_property
    def summary(self) -> dict[str, float]:
        return metrics.summary(self.logits, self.labels)

    def value(self, metric: str) -> float:
        """A metric at the end of training, or averaged over a period of it (``late:ece``).

        ``shifted:ece`` is the mean over every kind and severity of shift of the test set.
        """
        if metric in _OWN:
            return float(_OWN[metric](self))
        if metric.startswith("risk_at_coverage_"):
            confidence, correct = self.samples["confidence"], self.samples["correct"]
            return metrics.risk_at_coverage(confidence, correct, float(metric.rpartition("_")[2]))
        if self.score:
            return self.ranked(metric)
        period, _, name = metric.rpartition(":")
        if period == "shifted":
            after = f"_{self.after}" if self.after else ""
            return float(self.record.shifted[name + after].mean())
        if period:
            history = self.record.history
            return _mean(history[name][_PERIODS[period](history)])
        if not self.after and metric in self.record.history:
            return float(self.record.history[metric][-1])
        return float(self.summary[metric])

    def ranked(self, metric: str, drawn: np.ndarray | slice = slice(None)) -> float:
        """A metric of (confidence, correct), of all test samples or of those drawn."""
        chosen = (self.samples[k][drawn] for k in ("confidence", "correct"))
        return float(metrics.ranked_metrics()[metric](metrics.Ranking.of(*chosen)))


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


def _gradient_follows_brier(model: Model) -> float:
    """Rank correlation of gradient norm and Brier score, mean over epochs (bsce, figure 4)."""
    arrays = model.record.arrays
    pairs = zip(arrays["train_brier"], arrays["train_gradient_norm"], strict=True)
    return float(np.mean([_spearman(*pair) for pair in pairs]))


def _more_correlated(model: Model, first: str, second: str) -> float:
    """How much better than `second` a weight follows the true error of the posterior (bsce)."""
    import torch

    from calibkit import data, losses

    logits, labels = torch.from_numpy(model.logits.astype(float)), torch.from_numpy(model.labels)
    posterior = data.gaussian_posterior(data.load("gaussians").test.inputs.double())
    error = (logits.softmax(1) - posterior).norm(dim=1)
    weights = [getattr(losses, f"{name}_weight")(logits, labels) for name in (first, second)]
    found = [float(torch.corrcoef(torch.stack([w, error]))[0, 1]) for w in weights]
    return found[0] - found[1]


def _extra_ece_of_binning(model: Model) -> float:
    """ECE which 100 validation samples cost binning over all, beyond what they cost scaling.

    overconf, figure 3.
    """
    few, all_of_them = (
        [Model(model.record, after, size).summary["ece"] for after in ("binned", "scaled")]
        for size in (100, None)
    )
    return (few[0] - all_of_them[0]) - (few[1] - all_of_them[1])


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else nan


# Metrics which only a claim asks for.
_OWN = {
    "confidence_wrong": lambda m: _mean(m.samples["confidence"][~m.samples["correct"]]),
    "sure_when_wrong": lambda m: _mean(m.samples["confidence"][~m.samples["correct"]] > 0.95),
    "overconfidence_below_half": lambda m: _mean(
        (m.samples["confidence"] - m.samples["correct"])[m.samples["confidence"] < 0.5]
    ),
    "extra_ece_of_binning": _extra_ece_of_binning,
    # ECE (100 bins) beyond |confidence - accuracy|: 0 if every bin errs on the same side.
    "ece_excess": lambda m: (
        m.summary["eq9_ece"] - abs(m.summary["confidence"] - m.summary["accuracy"])
    ),
    "seconds": lambda m: m.record.info["provenance"]["seconds_in_epochs"],
    "max_logit_range": lambda m: np.ptp(
        np.quantile(m.record.arrays["train_max_logit"], [0.05, 0.95])
    ),
    "learned_late_means_unsure": _learned_late_means_unsure,
    "gradient_follows_brier": _gradient_follows_brier,
    "median_gradient_norm": lambda m: np.mean(
        np.median(m.record.arrays["train_gradient_norm"][1:-1], axis=1)
    ),
    "correlation_of_brier_beyond_dual_focal": lambda m: _more_correlated(m, "brier", "dual_focal"),
    "correlation_of_dual_focal_beyond_focal": lambda m: _more_correlated(m, "dual_focal", "focal"),
}
# Metrics whose bootstrap is quick.
_BOOTSTRAPPED = {*metrics.ranked_metrics(), "nll", "brier"}


# --- records at hand ------------------------------------------------------------------------------

# What is made of networks trained by erm, as methods: behind a map, or judged by another score.
_MAPPED = {"ts": "scaled", "ts_test": "optimal"}
_SCORED = {"trust_score": "test_trust_score", "confidnet": "test_confidnet"}


class Missing(Exception):
    """No record of some runs."""

    def __init__(self, runs: list[grid.Run]):
        self.runs = runs


@dataclass(frozen=True)
class Who:
    """Whose metric: a method, a difference or ratio of two, perhaps on data of its own."""

    methods: tuple[str, ...]
    operator: str = ""
    dataset: str = ""
    network: str = ""
    size: int = 0  # of the training set; 0: the edition's

    @classmethod
    def read(cls, text: str) -> "Who":
        """Read ``method``, ``method - method`` or ``method / method``, ``@ dataset/network``.

        >>> Who.read("focal(gamma=5) - erm @ cifar100/resnet50").methods
        ('focal(gamma=5)', 'erm')
        """
        who, _, where = text.partition(" @ ")
        dataset, _, network = where.partition("/")
        first, operator, second = re.fullmatch(r"(.+?)(?: ([-/]) (.+))?", who).groups()
        return cls((first, second) if second else (first,), operator or "", dataset, network)

    def __str__(self) -> str:
        where = f" on {self.dataset}, {self.network}" if self.dataset else ""
        size = f" with {self.size} training samples" if self.size else ""
        return f" {self.operator} ".join(self.methods) + where + size

    def at_defaults(self) -> "Who":
        """The same with every coefficient at its default."""
        plain = tuple(re.sub(r"\(.*?\)", "", method) for method in self.methods)
        return replace(self, methods=plain, size=0)

    def choices(self) -> dict[str, float]:
        """The methods in ``focal(gamma=1|3)``, and the coefficient of each."""
        found = {}
        for text in self.methods:
            name, option, values = re.fullmatch(r"(\w+)(?:\((\w+)=([^,]*)\))?.*", text).groups()
            each = values.split("|") if values else []
            if len(each) > 1:
                found |= {f"{name}({option}={value})": float(value) for value in each}
            else:
                found[text] = nan
        return found


class Evidence:
    """The records of an edition on a data set with a network, and metrics of them by seed."""

    def __init__(
        self,
        edition: str,
        dataset: str = "",
        network: str = "",
        seeds: int = 0,
        epochs: int = 0,
        settings: Mapping[str, object] = MappingProxyType({}),
    ):
        grid.choose("edition", edition, grid.EDITIONS)
        self.edition, self.seeds, self.epochs = edition, seeds, epochs
        self.settings = dict(settings)
        self.dataset = dataset or grid.EDITIONS[edition].dataset
        self.network = network or grid.EDITIONS[edition].network
        self._models: dict[tuple, dict[int, Model]] = {}
        self._halves: dict[tuple, float] = {}

    def models(self, method: str, who: Who, metric: str) -> dict[int, Model]:
        """Networks by seed, behind the map or the score which the method or the metric names.

        Raises `Missing` if no training of the method left a record; a diverged one did.
        """
        _, after, validation = split(metric)
        after, score = after or _MAPPED.get(method, ""), _SCORED.get(method, "")
        plain = "erm" if method in _MAPPED or score else method
        key = (plain, replace(who, methods=(), operator=""), after, validation, score)
        if key not in self._models:
            place = (who.dataset or self.dataset, who.network or self.network)
            runs = grid.select(
                self.edition,
                [plain],
                *place,
                self.seeds,
                self.epochs,
                train_size=who.size,
                settings=self.settings | ({"scores": True} if score else {}),
            )
            records = [store.load(run) for run in runs]
            if not any(records):
                raise Missing(runs)
            self._models[key] = {
                run.seed: Model(record, after, validation, score)
                for run, record in zip(runs, records, strict=True)
                if record and not record.diverged
            }
        return self._models[key]

    def missing(self, who: Who, metric: str) -> list[grid.Run]:
        """The runs without which `series` has nothing to say."""
        runs = []
        for method in who.choices():
            try:
                self.models(method, who, metric)
            except Missing as error:
                runs += error.runs
        return runs

    def lacks(self, who: Who, metric: str) -> str:
        """Why the runs of this edition cannot have a metric, if so: what no training would fill."""
        if not metric.startswith("shifted:"):
            return ""
        place = who.dataset or self.dataset
        kept = grid.EDITIONS[self.edition].protocol(place).shifted
        if kept and not self.missing(who, metric):
            found = [
                m for method in who.choices() for m in self.models(method, who, metric).values()
            ]
            kept = all(model.record.shifted for model in found)  # text and toy data have no shifts
        return "" if kept else f"records of this edition hold no shifted test sets of {place}"

    def series(self, who: Who, metric: str) -> dict[int, float]:
        """A metric by seed.

        ``lowest:ece`` of ``focal(gamma=1|3|5)`` is the coefficient with the lowest ECE.
        ``since_best:auroc:accuracy`` is the change of accuracy from the epoch of best AUROC to the
        end. The best of many noisy epochs always beats the last one, so a seed's best epoch is the
        one which the *other* seeds find best on average.
        """
        if metric.startswith("lowest:"):
            return self._lowest(who, metric.partition(":")[2])
        one = self._since_best if metric.startswith("since_best:") else self._values
        first, *second = [one(method, who, metric) for method in who.methods]
        if not second:
            return first
        both = {seed: (first[seed], second[0][seed]) for seed in first if seed in second[0]}
        return {seed: a - b if who.operator == "-" else a / b for seed, (a, b) in both.items()}

    def samples(self, whose: list[Who], metric: str) -> tuple[int, float]:
        """Test samples, and the half-width they leave a metric or its difference (95 %, one seed).

        0 for a metric that has no bootstrap, or where the two do not share a test set. A metric
        under shift has none, since records keep no predictions there.
        """
        sides = [self.models(next(iter(who.choices())), who, metric) for who in whose]
        seeds = [seed for seed in sides[0] if all(seed in side for side in sides)]
        if not seeds:
            return 0, 0.0
        models = [side[seeds[0]] for side in sides]
        n, (name, _, _) = len(models[0].labels), split(metric)
        if metric.startswith("shifted:"):
            n = int(models[0].record.shifted["n"][0])
        apart = len({(who.dataset, who.network) for who in whose}) > 1
        if name not in _BOOTSTRAPPED or whose[0].operator or apart:
            return n, 0.0
        key = (name, *map(id, models))
        if key not in self._halves:
            if any(model.score for model in models):
                found = _resampled(models, name)
            else:
                interval_of = stats.compare if len(models) > 1 else stats.bootstrap
                logits = [model.logits for model in models]
                found = interval_of(*logits, models[0].labels, [name], n=200)[name]
            self._halves[key] = 0.0 if isnan(found.low) else (found.high - found.low) / 2
        return n, self._halves[key]

    def _values(self, method: str, who: Who, metric: str) -> dict[int, float]:
        name, _, _ = split(metric)
        return {s: model.value(name) for s, model in self.models(method, who, metric).items()}

    def _lowest(self, who: Who, metric: str) -> dict[int, float]:
        values = {c: self._values(method, who, metric) for method, c in who.choices().items()}
        seeds = set.intersection(*(set(v) for v in values.values()))
        return {seed: min(values, key=lambda c: values[c][seed]) for seed in sorted(seeds)}

    def _since_best(self, method: str, who: Who, metric: str) -> dict[int, float]:
        _, best, changed = metric.split(":")
        sign = 1 if best in ("auroc", "accuracy") else -1
        models = self.models(method, who, metric)
        histories = {seed: model.record.history for seed, model in models.items()}
        found = {}
        for seed, history in histories.items():
            others = [sign * h[best] for other, h in histories.items() if other != seed]
            if others:
                epoch = np.mean(others, axis=0).argmax()
                found[seed] = float(history[changed][-1] - history[changed][epoch])
        return found


def _resampled(models: list[Model], metric: str, n: int = 200) -> stats.Interval:
    """Paired bootstrap of a metric (or a difference) of confidences which are no probabilities."""
    size = len(models[0].labels)
    draws = [slice(None), *np.random.default_rng(0).integers(size, size=(n, size))]
    values = np.array([[model.ranked(metric, drawn) for model in models] for drawn in draws])
    gaps = values[:, 0] - values[:, 1] if len(models) > 1 else values[:, 0]
    return stats.Interval(float(gaps[0]), *np.nanquantile(gaps[1:], [0.025, 0.975]).tolist())


def split(metric: str) -> tuple[str, str, int | None]:
    """Take a metric from the map it is measured behind, and that from its validation samples.

    >>> split("ece_scaled@100"), split("ece")
    (('ece', 'scaled', 100), ('ece', '', None))
    """
    match = re.fullmatch(r"(\w+)_(scaled|optimal|binned)(?:@(\d+))?", metric)
    if not match:
        return metric, "", None
    return match[1], match[2], int(match[3]) if match[3] else None
