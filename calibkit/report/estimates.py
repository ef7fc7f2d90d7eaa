"""What so many samples can tell: shares and gaps with intervals, the ECE of chance, folds."""

import math

import numpy as np

from calibkit import metrics, stats
from calibkit.arrays import Array
from calibkit.posthoc import Recalibration
from calibkit.report.predictions import Predictions
from calibkit.stats import Interval

LEAST = 10  # samples
MANY = 20_000  # so many samples that half are plenty to choose on
FIT = 8_000_000  # numbers (samples × classes) to recalibrate: bounds time and memory
FEW = 30  # errors, or samples of a group, below which nothing is certain


def replicates(n: int) -> int:
    """Resamples for an interval: fewer when many samples make them slow, and much alike."""
    return int(np.clip(20_000_000 // n, 200, 1000))


def effective(weights: Array) -> int:
    """How many samples of equal weight these are worth, (Σw)² / Σw² (Kish 1965), rounded.

    >>> effective(np.array([3.0, 1.0] * 40))
    64
    """
    return max(round(float(weights.sum() ** 2 / (weights**2).sum())), 1)


def folds(n: int, k: int = 1, groups: Array | None = None) -> list[tuple[Array, Array]]:
    """Samples to fit on and to measure on, at random: files are often sorted by class.

    With `groups` (n,), all samples of one are on the same side.

    >>> [part.tolist() for _, part in folds(4, groups=np.array(["a", "b", "a", "b"]))]
    [[0, 2], [1, 3]]
    """
    rng, count = np.random.default_rng(0), 5 if n < MANY and n * k < FIT // 4 else 2
    if groups is None:
        parts = np.array_split(rng.permutation(n), count)
    else:
        names, place = np.unique(groups, return_inverse=True)
        if len(names) < 2:
            raise ValueError(f"groups: got {len(names)}, expected at least two to fit and to judge")
        several = np.array_split(rng.permutation(len(names)), min(count, len(names)))
        parts = [np.flatnonzero(np.isin(place, some)) for some in several]
    return [
        (np.concatenate([other for other in parts if other is not part]), part) for part in parts
    ]


def fitted(kind: type[Recalibration], logits: Array, labels: Array) -> Recalibration:
    """A map fitted to these samples, or to an even part of very many."""
    step = -(-logits.size // FIT)
    return kind().fit(logits[::step], labels[::step])


def held_out(
    data: Predictions, kind: type[Recalibration], groups: Array | None = None
) -> tuple[list, Array, int]:
    """Fitted maps, the test set's probabilities by them, and the size of a fit.

    Fitted to the validation set or else by cross-fitting, so that no map has seen what it is given,
    nor with `groups` (n,) another sample of its group.
    """
    parts = [(data.val_logits, data.val_labels, slice(None))]
    if data.val_logits is None:
        splits = folds(*data.logits.shape, groups)
        parts = [(data.logits[known], data.labels[known], rest) for known, rest in splits]
    maps, probs = [], np.empty(data.logits.shape)
    for logits, labels, rest in parts:
        maps.append(fitted(kind, logits, labels))
        probs[rest] = maps[-1].predict_proba(data.logits[rest].astype(np.float64))
    return maps, probs, len(labels)


def guessing(logits: Array, labels: Array) -> bool:
    """Whether the scores say no more about the labels than about those of other rows.

    That is, whether the logit of the true class is on average no higher, beyond chance, than it
    would be with the same labels dealt out at random. False where too few labels (`FEW`) differ
    from the most common one.
    """
    count = np.bincount(labels, minlength=logits.shape[1])
    if len(labels) - count.max() < FEW:
        return False
    scores = logits - logits.mean(axis=0, dtype=np.float64)
    excess = scores[np.arange(len(labels)), labels] - scores @ (count / len(labels))
    return not stats.seed_interval(excess).low > 0


def kept(found: Interval, at_most: float = math.inf, at_least: float = -math.inf) -> bool | None:
    """Whether a wish is kept; None if the interval does not tell."""
    if found.high <= at_most and found.low >= at_least:
        return True
    return False if found.low > at_most or found.high < at_least else None


def mean(values: Array, groups: Array | None = None, level: float = 0.95) -> Interval:
    """Mean of values (n,) with a t interval; over groups, where those of one are alike.

    >>> mean(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1])).estimate
    0.5
    """
    if groups is None:
        return stats.seed_interval(values, level)
    _, place = np.unique(groups, return_inverse=True)
    estimate, several = float(values.mean()), place.max() + 1
    # What each group adds to the error of the mean, as a ratio of two sums.
    parts = np.bincount(place, values - estimate) * several / len(values)
    around = stats.seed_interval(parts, level)
    return Interval(estimate, *(estimate + end for end in around[1:]))


def gap(confidence: Array, correct: Array, level: float = 0.95) -> Interval:
    """Mean confidence minus accuracy: the mean excess of confidence over correctness."""
    gap = stats.seed_interval(confidence.astype(np.float64) - correct, level)
    right, n = int(correct.sum()), len(correct)
    if min(right, n - right) >= FEW:
        return gap
    # If all samples are right they hardly vary, and a t interval would mistake that for certainty.
    share, low, high = stats.wilson(right, n, level)
    return gap._replace(low=gap.estimate + share - high, high=gap.estimate + share - low)


def chance_ece(confidence: Array, draws: int) -> Interval:
    """The ECE of a model whose confidences are exactly right: `metrics.ece_floor`.

    The ends hold 95 % of what it would be on such a sample, found by drawing labels.
    """
    ranked, rng = metrics.ranked_metrics(), np.random.default_rng(0)
    # Sorted once, as in `stats.bootstrap`: a draw only changes how many are right at each place.
    negative, place, count = np.unique(-confidence, return_inverse=True, return_counts=True)
    right_places = (place[rng.random(len(confidence)) < confidence] for _ in range(draws))
    right = (np.bincount(places, minlength=len(count)) for places in right_places)
    values = [ranked["ece"](metrics.Ranking(-negative, r, count - r)) for r in right]
    floor = ranked["ece_floor"](metrics.Ranking(-negative, count, 0 * count))
    return Interval(floor, *map(float, np.quantile(values, [0.025, 0.975])))
