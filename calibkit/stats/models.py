"""Read what a caller knows about each sample of a model, and compute metrics from it."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from calibkit import arrays, metrics
from calibkit.arrays import Array, ArrayLike, Kind, to_numpy
from calibkit.resampling import effective_size

# A name, or a function such as partial(metrics.risk_at_coverage, coverage=0.5).
Metric: TypeAlias = "str | Callable[[Array, Array], float]"


class Answers(NamedTuple):
    """Confidences (m,) of predictions and whether each is right, instead of logits and labels."""

    confidence: ArrayLike
    correct: ArrayLike


class Ranked(NamedTuple):
    """`Answers` with another score (m,) by which samples are sorted, such as log-odds."""

    confidence: ArrayLike
    correct: ArrayLike
    rank: ArrayLike


class Samples(NamedTuple):
    """What `metrics.per_sample` returns for each sample (m,), in place of logits and labels."""

    confidence: ArrayLike
    correct: ArrayLike
    nll: ArrayLike
    brier: ArrayLike
    rank: "ArrayLike | None" = None  # what ranks them, where not the confidence


# What stands for a model: logits (m, k), or what is known of each sample.
Given: TypeAlias = "ArrayLike | Answers | Ranked | Samples"


class Model:
    """The samples of a model, with the metrics that can be computed from what is known of them.

    Samples with logits are sorted by their log-odds, like in `metrics.summary`; or by the
    confidence, which was the rule of version 0.1.
    """

    def __init__(
        self,
        logits: Given,
        labels: "ArrayLike | None",
        names: Sequence[Metric],
        kind: Kind = "logits",
        by_confidence: bool = False,
    ) -> None:
        valid: list[str] = []
        self.classwise: Classwise | None = None
        self.by_sample: dict[str, Array]
        rank = getattr(logits, "rank", None)
        if isinstance(logits, Answers | Ranked | Samples):
            confidence, correct = arrays.as_confidence_correct(*logits[:2])
            self.by_sample = {"confidence": confidence, "correct": correct}
            if isinstance(logits, Samples):
                valid = ["nll", "brier"]
                self.by_sample |= {name: to_numpy(getattr(logits, name), name) for name in valid}
        else:
            scores = (
                arrays.as_probs(logits, "logits") if kind == "probs" else arrays.as_logits(logits)
            )
            classes = arrays.as_labels(labels, scores.shape[1], len(scores))
            self.by_sample = metrics.per_sample(scores, classes, kind)
            rank = arrays.log_odds(scores) if kind == "logits" and not by_confidence else None
            valid = ["nll", "brier", *CLASSWISE]
            if any(name in CLASSWISE for name in names):
                self.classwise = Classwise(arrays.softmax(scores, kind), classes)
        self.ranked: dict[str, Callable[[metrics.Ranking], float]] = metrics.ranked_metrics(
            coverages=numbers_in("risk_at_coverage_", names),
            risks=numbers_in("coverage_at_risk_", names),
        )
        valid = [*self.ranked, *valid]
        if any(name not in valid for name in names if not callable(name)):
            raise ValueError(f"metric_names: got {names!r}, expected a list of: {', '.join(valid)}")
        self.confidence: Array = self.by_sample["confidence"]
        self.correct: Array = self.by_sample["correct"]
        self.rank: Array = self.confidence if rank is None else to_numpy(rank)

    def by_rank(self, name: Metric) -> bool:
        """Whether samples are sorted by another score than the confidence for this metric."""
        return self.rank is not self.confidence and metrics.ranks(name)

    def orders(self, names: Sequence[Metric]) -> dict[bool, tuple[Array, list[str]]]:
        """For each value of `by_rank`: the score that samples are sorted by, and the metrics."""
        orders: dict[bool, tuple[Array, list[str]]] = {}
        for name in names:
            if not callable(name) and name in self.ranked:
                score = self.rank if self.by_rank(name) else self.confidence
                orders.setdefault(self.by_rank(name), (score, []))[1].append(name)
        return orders


def worth_of(
    by_sample: dict[str, Array], weights: "Array | None", groups: "Array | None"
) -> float | None:
    """The number of independent samples that a weight of 1 stands for in a floor; None means 1."""
    if weights is None and groups is None:
        return None
    residual = by_sample["confidence"].astype(np.float64) - by_sample["correct"]
    every = len(residual) if weights is None else float(weights.sum())
    return effective_size(weights, groups, residual) / every


CLASSWISE = ("classwise_ece", "classwise_ece_floor", "excess_classwise_ece")


class Classwise:
    """Class-wise calibration errors for any weights of the samples, as in `metrics.summary`.

    Per class and bin of its probability: sums of weights times p, p², 1 and p - t. Only the few
    probabilities above the lowest bin are kept one by one; that bin is the rest of each column.
    """

    def __init__(self, probs: Array, labels: Array, bins: int = 15) -> None:
        from scipy.sparse import csr_array

        n, k = probs.shape
        self.shape: tuple[int, int] = (k, bins)
        inner = np.linspace(0, 1, bins + 1).astype(probs.dtype)[1:-1]
        sample, of = np.nonzero(probs > inner[0])
        p = probs[sample, of]
        cell = of * bins + np.searchsorted(inner, p)
        self.columns: Array = np.stack([probs, probs**2]).astype(np.float64, copy=False)
        self.residual: Array = self.columns[0].copy()
        self.residual[np.arange(n), labels] -= 1
        values = p, self.columns[1][sample, of], np.ones(len(p)), self.residual[sample, of]
        self.high: list[Any] = [csr_array((v, (cell, sample)), shape=(k * bins, n)) for v in values]

    def __call__(self, weights: Array, worth: float = 1.0) -> dict[str, float]:
        """The class-wise errors for weights (m,); a weight of 1 stands for `worth` samples."""
        weights = weights.astype(np.float64)
        n = weights.sum()
        everything = [*(weights @ c for c in self.columns), n, weights @ self.residual]
        sums = []
        for high, total in zip(self.high, everything, strict=True):
            cells = (high @ weights).reshape(self.shape)
            cells[:, 0] = total - cells.sum(axis=1)
            sums.append(cells)
        p, squares, count, residual = sums
        error = float(np.abs(residual).sum(axis=1).mean() / n)
        deviation = metrics.mean_deviation(worth * count, worth * p, worth * squares)
        floor = float(deviation.sum(axis=1).mean() / (worth * n))
        return dict(zip(CLASSWISE, (error, floor, error - floor), strict=True))


def numbers_in(prefix: str, names: Sequence[Metric]) -> list[float]:
    """The numbers at the end of names such as "risk_at_coverage_0.8" that begin with `prefix`."""
    named = filter(lambda name: isinstance(name, str), names)
    matches = [re.fullmatch(prefix + r"(0\.\d+|1)", name) for name in named]
    return [float(match[1]) for match in matches if match]
