"""One set of samples with its kind of scores: those of classes, or only confidences of answers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibkit import metrics, precision
from calibkit.arrays import Array, log_odds, softmax
from calibkit.report.design import Design
from calibkit.report.scores import Samples, Score, Scored
from calibkit.resampling import as_groups


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The model's answer to every sample, and its scores; all arrays are (n,).

    Attributes
    ----------
    confidence : array of float
        The confidence as the file holds it, or from a softmax (see `as_printed`).
    correct : array of bool
        Whether the answer is right.
    rank : array of float
        The score by which samples are sorted: the log-odds of the answer, which still differ where
        confidences are rounded to 1, or the confidence that the file holds.
    nll, brier : arrays of float
        Each sample's NLL in nats and its Brier score.
    answer : array of int
        The most probable class.
    """

    confidence: Array
    correct: Array
    rank: Array
    nll: Array
    brier: Array
    answer: Array


@dataclass(frozen=True)
class Classes:
    """Scores of two or more classes.

    Attributes
    ----------
    names : tuple of str
    event : int or None
        With two classes, the class of interest (0 or 1).
    """

    names: tuple[str, ...]
    event: int | None = None
    known = True  # whether there are probabilities of classes

    @property
    def two(self) -> bool:
        return len(self.names) == 2

    @property
    def described(self) -> str:
        return f"{len(self.names)} classes"

    def outcomes(self, part: "Part") -> Outcomes:
        """What becomes of the samples as they are."""
        found = metrics.per_sample(part.logits, part.labels)
        if part.own is None:
            found |= {"confidence": as_printed(found["confidence"]), "rank": log_odds(part.logits)}
        else:
            own = part.own
            top = own.max(axis=1) if own.ndim == 2 else np.maximum(own, 1 - own)
            top = top.astype(np.promote_types(top.dtype, np.float32))
            found |= {"confidence": top, "rank": top}
        return Outcomes(**found, answer=part.logits.argmax(axis=1))

    def from_probs(self, probs: Array, labels: Array) -> Outcomes:
        """The outcomes of samples with the probabilities `probs` (n, k)."""
        return self.outcomes(Part(precision.log_probs(probs, None), labels, self))

    def score(self, part: "Part", event: int | None) -> Score:
        """The score that a threshold is applied to: the highest probability, or that of `event`."""
        own = part.own
        if own is None:
            p = part.outcomes.confidence if event is None else probability(part.logits, event)
            return Score.computed(p, part.logits.dtype)
        if own.ndim == 2:
            return Score.held(own.max(axis=1) if event is None else own[:, event])
        if event == 1:
            return Score.held(own)
        wide = own.astype(np.float64)
        if event == 0:
            return Score.either(1 - wide, 1 - own)
        return Score.either(np.maximum(wide, 1 - wide), np.maximum(own, 1 - own))


@dataclass(frozen=True)
class Pairs:
    """Confidences of answers, read as two classes: column 0 is "wrong", column 1 is "right"."""

    names: tuple[str, ...] = ("wrong", "right")
    event: None = None
    known = False
    two = False
    described = "pairs"

    def outcomes(self, part: "Part") -> Outcomes:
        """What becomes of the samples as they are."""
        return self._of(part.confidences, part)

    def from_probs(self, probs: Array, labels: Array) -> Outcomes:
        """The outcomes of samples with the probabilities `probs` (n, 2) of wrong and right."""
        return self._of(probs[:, 1], Part(precision.log_probs(probs, None), labels, self))

    def _of(self, confidence: Array, part: "Part") -> Outcomes:
        right = part.labels == 1
        p = np.where(right, confidence, 1 - confidence).astype(np.float64)
        true = part.logits[np.arange(len(p)), part.labels]
        nll = np.where(p > 0, -precision.log_probs(p, None), -true)
        brier = 2 * (confidence.astype(np.float64) - right) ** 2  # over both outcomes
        return Outcomes(confidence, right, confidence, nll, brier, np.zeros(len(p), int))

    def score(self, part: "Part", event: int | None) -> Score:
        """The confidence."""
        if part.own is None:
            return Score.computed(part.outcomes.confidence, part.logits.dtype)
        return Score.held(part.own)


@dataclass(frozen=True, eq=False)
class Part:
    """The test set or the validation set; `Predictions` explains the attributes."""

    logits: Array
    labels: Array
    kind: Classes | Pairs
    own: Array | None = None
    weights: Array | None = None
    clusters: Array | None = None
    confidences: Array | None = None

    def __getitem__(self, rows: Array) -> "Part":
        """The same for some rows, given as booleans (n,) or indices."""
        known = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return Part(kind=self.kind, **{name: value[rows] for name, value in known.items()})

    @cached_property
    def outcomes(self) -> Outcomes:
        """The answer to every sample and its scores, computed once."""
        return self.kind.outcomes(self)

    @cached_property
    def design(self) -> Design:
        """The weights and clusters of the samples."""
        n = len(self.labels)
        clusters = None if self.clusters is None else as_groups(self.clusters, n)
        return Design(n, self.weights, clusters)

    def scored(self, event: int | None = None) -> tuple[Array, Array]:
        """Score (n,) of every sample, and whether the outcome that it is about has occurred (n,).

        By default these are confidence and correctness. With `event`, one of two classes, they are
        the probability of this class and whether it is the true one. The probability is that of the
        file, or computed in double precision.
        """
        if event is None:
            return self.outcomes.confidence, self.outcomes.correct
        return probability(self.logits, event, self.own), self.labels == event

    def ranked(self, event: int | None = None) -> Array:
        """The score (n,) by which samples are sorted: `rank` of `Outcomes`, or that of `event`."""
        if event is None:
            return self.outcomes.rank
        if self.own is None:
            return log_odds(self.logits, np.full(len(self.labels), event))
        return probability(self.logits, event, self.own)

    def judged(self, event: int | None = None) -> Samples:
        """The scores that thresholds are applied to, with the outcomes of `scored`."""
        y = self.outcomes.correct if event is None else self.labels == event
        return Samples(self.kind.score(self, event), y, self.weights)


@dataclass(frozen=True, eq=False)
class Mapped:
    """The scores and outcomes of the samples after a recalibration map, for choosing thresholds.

    Attributes
    ----------
    confidence : Scored
        Confidence and correctness of the samples.
    event : Scored or None
        For two classes, the probability of the class of interest, and whether it is the true one.
    design : Design
        The weights and clusters of the samples.
    held : Mapped or None
        The same for the validation set; None if no thresholds are chosen on it.
    """

    confidence: Scored
    event: Scored | None
    design: Design
    held: "Mapped | None" = None


def as_printed(p: Array) -> Array:
    """Round away the noise that a softmax in double precision adds to probabilities.

    A probability of 0.79 in a file may come back as 0.7900000000000001. It would then no longer tie
    with another 0.79, and would make an odd threshold.

    >>> as_printed(np.array([0.7900000000000001, 0.123456789012])).tolist()
    [0.79, 0.123456789012]
    """
    if p.dtype != np.float64:
        return p
    short = p.round(10)
    return np.where((np.abs(p - short) <= 1e-15) & (short < 1), short, p)


def probability(logits: Array, event: int, own: Array | None = None) -> Array:
    """Probability (n,) of class `event` of two: as in the file (`own`), or in double precision."""
    if own is not None:
        p = own[:, event] if own.ndim == 2 else own if event == 1 else 1 - own
        return p.astype(np.promote_types(p.dtype, np.float32))
    return as_printed(softmax(np.asarray(logits, np.float64))[:, event])
