"""What is known of each sample of a model, and which metrics can be computed from it."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from calibkit import metrics
from calibkit.arrays import (
    Array,
    ArrayLike,
    Kind,
    as_confidence_correct,
    as_labels,
    as_logits,
    as_probs,
    log_odds,
    softmax,
    to_numpy,
)
from calibkit.resampling import effective_size

# A name, or a function such as partial(metrics.risk_at_coverage, coverage=0.5).
Metric: TypeAlias = "str | Callable[[Array, Array], float]"


class Answers(NamedTuple):
    """Confidences (m,) of predictions and whether each is right, instead of logits and labels."""

    confidence: ArrayLike
    correct: ArrayLike


class Ranked(NamedTuple):
    """`Answers`, and what ranks them in place of the confidence (m,), such as log-odds."""

    confidence: ArrayLike
    correct: ArrayLike
    rank: ArrayLike


class Samples(NamedTuple):
    """All that `metrics.per_sample` says about each sample (m,), instead of logits and labels."""

    confidence: ArrayLike
    correct: ArrayLike
    nll: ArrayLike
    brier: ArrayLike
    rank: "ArrayLike | None" = None  # what ranks them, where not the confidence


class Model:
    """What is known of each sample of a model, and which metrics can be computed from it.

    Logits are ranked by their log-odds, as `metrics.summary` does, or as it did in version 0.1, by
    the confidence.
    """

    def __init__(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        names: Sequence[Metric],
        kind: Kind = "logits",
        by_confidence: bool = False,
    ) -> None:
        self.classwise, valid = None, []
        rank = getattr(logits, "rank", None)
        if isinstance(logits, Answers | Ranked | Samples):
            confidence, correct = as_confidence_correct(*logits[:2])
            self.by_sample = {"confidence": confidence, "correct": correct}
            if isinstance(logits, Samples):
                valid = ["nll", "brier"]
                self.by_sample |= {name: to_numpy(getattr(logits, name), name) for name in valid}
        else:
            logits = as_probs(logits, "logits") if kind == "probs" else as_logits(logits)
            labels = as_labels(labels, logits.shape[1], len(logits))
            self.by_sample = metrics.per_sample(logits, labels, kind)
            rank = log_odds(logits) if kind == "logits" and not by_confidence else None
            valid = ["nll", "brier", *CLASSWISE]
            if any(name in CLASSWISE for name in names):
                self.classwise = _Classwise(softmax(logits, kind), labels)
        self.ranked = metrics.ranked_metrics(
            coverages=numbers_in("risk_at_coverage_", names),
            risks=numbers_in("coverage_at_risk_", names),
        )
        valid = [*self.ranked, *valid]
        if any(name not in valid for name in names if not callable(name)):
            raise ValueError(f"metric_names: got {names!r}, expected a list of: {', '.join(valid)}")
        self.confidence, self.correct = self.by_sample["confidence"], self.by_sample["correct"]
        self.rank = self.confidence if rank is None else to_numpy(rank)

    def by_rank(self, name: Metric) -> bool:
        """Whether a metric ranks by something other than the confidence."""
        return self.rank is not self.confidence and metrics.ranks(name)

    def orders(self, names: Sequence[Metric]) -> dict[bool, tuple[Array, list[str]]]:
        """By `by_rank`: what ranks the samples, and the metrics of that ranking."""
        orders: dict = {}
        for name in names:
            if not callable(name) and name in self.ranked:
                score = self.rank if self.by_rank(name) else self.confidence
                orders.setdefault(self.by_rank(name), (score, []))[1].append(name)
        return orders


def worth_of(
    by_sample: dict[str, Array], weights: "Array | None", groups: "Array | None"
) -> float | None:
    """How many samples a unit of weight is worth to a floor; None: one."""
    if weights is None and groups is None:
        return None
    residual = by_sample["confidence"].astype(np.float64) - by_sample["correct"]
    every = len(residual) if weights is None else float(weights.sum())
    return effective_size(weights, groups, residual) / every


CLASSWISE = ("classwise_ece", "classwise_ece_floor", "excess_classwise_ece")


class _Classwise:
    """Class-wise calibration errors for any weights of the samples, as in `metrics.summary`.

    Per class and bin of its probability: sums of weights times p, p², 1 and p - t. Only the few
    probabilities above the lowest bin are kept one by one; that bin is the rest of each column.
    """

    def __init__(self, probs: Array, labels: Array, bins: int = 15) -> None:
        from scipy.sparse import csr_array

        n, k = probs.shape
        self.shape = (k, bins)
        inner = np.linspace(0, 1, bins + 1).astype(probs.dtype)[1:-1]
        sample, of = np.nonzero(probs > inner[0])
        p = probs[sample, of]
        cell = of * bins + np.searchsorted(inner, p)
        self.columns = np.stack([probs, probs**2]).astype(np.float64, copy=False)
        self.residual = self.columns[0].copy()
        self.residual[np.arange(n), labels] -= 1
        values = p, self.columns[1][sample, of], np.ones(len(p)), self.residual[sample, of]
        self.high = [csr_array((v, (cell, sample)), shape=(k * bins, n)) for v in values]

    def __call__(self, weights: Array, worth: float = 1.0) -> dict[str, float]:
        """For weights of the samples, a unit of which is worth so many samples to the floor."""
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
    """The numbers that end such names as "risk_at_coverage_0.8"."""
    named = filter(lambda name: isinstance(name, str), names)
    matches = [re.fullmatch(prefix + r"(0\.\d+|1)", name) for name in named]
    return [float(match[1]) for match in matches if match]
