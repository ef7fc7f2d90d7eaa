"""Estimates that several parts of a report share: gaps with intervals, the ECE by chance, folds."""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from calibkit import curves, metrics
from calibkit.arrays import Array
from calibkit.posthoc import Recalibration
from calibkit.report.design import Design
from calibkit.report.parts import Part
from calibkit.report.predictions import Predictions
from calibkit.resampling import effective_size
from calibkit.stats import Interval

LEAST = 10  # samples that a report needs
MANY = 20_000  # samples from which on one half is enough to choose on
JUDGED = 200_000  # samples on which maps are compared at most, for more than two classes
FIT = 8_000_000  # numbers (samples × classes) that a map is fitted to at most: time and memory
AT_ONCE = 100_000  # rows whose probabilities a map computes at a time: memory
FEW = 30  # errors, or samples of a group, below which a statement says that they are few


def replicates(n: int) -> int:
    """Number of resamples for an interval over `n` samples; fewer if there are many samples."""
    return int(np.clip(20_000_000 // n, 200, 1000))


def judged(k: int) -> int:
    """Number of samples on which maps for `k` classes are compared, at most.

    With so many samples, a change of the Brier score by a thousandth is beyond chance.
    """
    return FIT // k if k == 2 else min(FIT // k, JUDGED)


def folds(n: int, k: int = 1, groups: Array | None = None) -> list[tuple[Array, Array]]:
    """Split `n` samples at random into pairs of rows to fit on and rows to measure on.

    Rows are shuffled since files are often sorted by class. `k` is the number of classes. With
    `groups` (n,), each group is on one side only.

    >>> [part.tolist() for _, part in folds(4, groups=np.array(["a", "b", "a", "b"]))]
    [[0, 2], [1, 3]]
    """
    rng, count = np.random.default_rng(0), 5 if n < MANY and n * k < FIT // 4 else 2
    if groups is None:
        parts = np.array_split(rng.permutation(n), count)
    else:
        names, place = np.unique(groups, return_inverse=True)
        if len(names) < 2:
            raise ValueError("groups: got one group, expected at least two to fit and to judge")
        several = np.array_split(rng.permutation(len(names)), min(count, len(names)))
        parts = [np.flatnonzero(np.isin(place, some)) for some in several]
    return [
        (np.concatenate([other for other in parts if other is not part]), part) for part in parts
    ]


def fitted(
    kind: type[Recalibration], logits: Array, labels: Array, weights: Array | None = None
) -> Recalibration:
    """Fit a map to logits (n, k) and labels (n,), or to an evenly spaced part of very many rows."""
    step = -(-logits.size // FIT)
    own = {} if weights is None else {"sample_weight": weights[::step]}
    return kind().fit(logits[::step], labels[::step], **own)


def held_out(
    data: Predictions, kind: type[Recalibration]
) -> tuple[list[Recalibration], Array, int]:
    """Fit maps to the validation set, or else by cross-fitting, and apply them to the test set.

    No map is applied to a sample that it was fitted to, nor to one of the same cluster.

    Returns
    -------
    list of Recalibration, array (n, k), int
        The map, or one for each fold; the probabilities of the test set; the number of samples that
        a map was fitted to.
    """
    test, held = data.test, data.validation
    parts: Iterable[tuple[Part, Array]] = [(held, np.arange(len(data.labels)))] if held else ()
    if held is None:
        splits = folds(*data.logits.shape, test.design.clusters)
        parts = ((test[known], rest) for known, rest in splits)  # lazily: one copy at a time
    maps, probs, size = [], np.empty(data.logits.shape), 0
    for known, rest in parts:
        maps.append(fitted(kind, known.logits, known.labels, known.weights))
        size = len(known.labels)
        for rows in np.split(rest, range(AT_ONCE, len(rest), AT_ONCE)):
            probs[rows] = maps[-1].predict_proba(data.logits[rows].astype(np.float64))
    return maps, probs, size


def guessing(logits: Array, labels: Array, design: Design | None = None) -> bool:
    """Whether the scores say nothing about the labels, as if the labels belonged to other rows.

    This is so if the mean logit of the true class is no higher, beyond chance, than with the same
    labels in random order. False if fewer than `FEW` labels differ from the most common one.
    """
    count = np.bincount(labels, minlength=logits.shape[1])
    if len(labels) - count.max() < FEW:
        return False
    scores = logits - logits.mean(axis=0, dtype=np.float64)
    excess = scores[np.arange(len(labels)), labels] - scores @ (count / len(labels))
    clusters = None if design is None else design.clusters
    return not Design(len(labels), clusters=clusters).mean(excess).low > 0


def kept(found: Interval, at_most: float = math.inf, at_least: float = -math.inf) -> bool | None:
    """Whether a number is within its limits; None if the interval lies on both sides of a limit."""
    if found.high <= at_most and found.low >= at_least:
        return True
    return False if found.low > at_most or found.high < at_least else None


def gap(confidence: Array, correct: Array, design: Design, level: float = 0.95) -> Interval:
    """Mean confidence minus accuracy, with an interval; `confidence` and `correct` are (n,)."""
    excess = confidence.astype(np.float64) - correct
    gap, share = design.mean(excess, level), design.average(correct)
    if min(share, 1 - share) * design.worth(excess) >= FEW - 1e-9:
        return gap
    # If all samples are right, their variance is nearly 0, and a t interval would be too narrow.
    share, low, high = design.share(correct, level=level)
    return gap._replace(low=gap.estimate + share - high, high=gap.estimate + share - low)


def reliability(confidence: Array, correct: Array, design: Design) -> curves.Reliability:
    """`curves.prepare_reliability` with intervals that allow for weights and clusters."""
    if design.plain:
        return curves.prepare_reliability(confidence, correct)
    numbers = curves.prepare_reliability(confidence, correct, sample_weight=design.weights)
    count = metrics.reliability_bins(confidence, correct)["count"]
    place = np.searchsorted(numbers.edges[1:-1].astype(confidence.dtype), confidence)
    ends = [design.share(correct, place == i)[1:] for i in range(len(count))]
    low, high = np.transpose(ends)
    return replace(numbers, count=count, low=low, high=high)


def chance_ece(confidence: Array, draws: int, design: Design, correct: Array) -> Interval:
    """The ECE that perfectly calibrated confidences (n,) would have by chance.

    The estimate is `metrics.ece_floor`. The ends contain 95 % of the ECEs that result from labels
    drawn by these confidences. For clusters, fewer samples are drawn: as many as vary like the
    clusters. `correct` (n,) tells how much the rows of a cluster have in common.
    """
    ranked, rng = metrics.ranked_metrics(), np.random.default_rng(0)
    # The confidences are sorted once. A draw only changes which of them are right.
    negative, place, count = np.unique(-confidence, return_inverse=True, return_counts=True)
    if design.plain:
        right_places = (place[rng.random(len(confidence)) < confidence] for _ in range(draws))
        right = (np.bincount(places, minlength=len(count)) for places in right_places)
        values = [ranked["ece"](metrics.Ranking(-negative, r, count - r)) for r in right]
        floor = ranked["ece_floor"](metrics.Ranking(-negative, count, 0 * count))
        return Interval(floor, *map(float, np.quantile(values, [0.025, 0.975])))
    weights = np.ones(design.n) if design.weights is None else design.weights
    size = design.worth(confidence.astype(np.float64) - correct)
    thin = min(size / effective_size(weights), 1.0)
    values = []
    for _ in range(draws):
        own = weights * (rng.random(design.n) < thin)
        hit = rng.random(design.n) < confidence
        sums = (np.bincount(place, own * x, len(count)) for x in (hit, ~hit))
        if own.any():
            values.append(ranked["ece"](metrics.Ranking(-negative, *sums)))
    every = np.bincount(place, weights, len(count))
    floor = ranked["ece_floor"](metrics.Ranking(-negative, every, 0 * every, size))
    return Interval(floor, *map(float, np.quantile(values, [0.025, 0.975])))
