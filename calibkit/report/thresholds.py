"""Choose a threshold by a rule on some samples, and judge it on others.

A printed threshold does what the page says: compared by >=, it accepts exactly the samples that are
counted beside it, both in double precision and in the type of the file. So a threshold lies only
between scores that differ in both types.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array
from calibkit.report import estimates
from calibkit.report.predictions import Predictions
from calibkit.report.scores import Rules, Samples, Score, Scored
from calibkit.resampling import effective_size

TARGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # error rates that a report may show
RULES = ("cost_ratio", "budget", "precision", "recall")


def check(data: Predictions, target_risk: Sequence[float], rules: Rules) -> None:
    """Raise `ValueError` for too few samples (also by weight) and for impossible rules.

    Parameters
    ----------
    data : Predictions
    target_risk : sequence of float
        Error rates, fractions of 1.
    rules : sequence of (str, float)
        Pairs of a name of `RULES` and a value.
    """
    if not all(0 < risk < 1 for risk in target_risk):
        raise ValueError(f"target_risk: got {list(target_risk)}, expected shares between 0 and 1")
    if (n := len(data.labels)) < estimates.LEAST:
        raise ValueError(f"labels: got {n} samples, expected at least {estimates.LEAST}")
    for name in ("weights", "val_weights"):
        weights = getattr(data, name)
        if weights is None:
            continue
        worth, least = max(round(effective_size(weights)), 1), min(estimates.LEAST, len(weights))
        if worth < least:
            raise ValueError(
                f"{name}: got {len(weights):,} samples that are worth {worth} of equal weight, "
                f"since few samples carry nearly all of the weight, expected at least {least}: "
                "give more even weights, or none"
            )
    if rules and not data.kind.two:
        what = data.kind.described
        raise ValueError(f"{rules[0][0]}: got it for {what}, expected two classes: leave it out")
    for name, value in rules:
        if name not in RULES:
            raise ValueError(f"rules: got {name!r}, expected one of {', '.join(RULES)}")
        top = math.inf if name in ("cost_ratio", "budget") else 1
        if not 0 < value <= top or not math.isfinite(value):
            kind = "a number above 0" if top > 1 else "a share above 0 and at most 1"
            raise ValueError(f"{name}: got {value:g}, expected {kind}")


def targets(samples: Samples | Scored) -> list[float]:
    """The error rates (fractions of 1) to show by default: the four largest of `TARGETS` below
    the model's error rate.
    """
    error = np.average(~samples.y, weights=samples.weights)
    return [target for target in TARGETS if target < error][-4:]


class Cuts:
    """All t possible thresholds on the scores of some samples, from the highest to the lowest.

    Parameters
    ----------
    score : Score
        The scores (n,).
    y : array (n,) of bool
        Whether each sample is positive (or its answer right).
    weights : array (n,), optional
        How much each sample counts.
    others : Score, optional
        Scores of other samples that the thresholds will be applied to. No threshold lies so close
        to one of these that rounding could decide on which side it falls.

    Attributes
    ----------
    accepted : array (t,)
        How many samples each threshold accepts, those of `others` included.
    right, wrong : arrays (t,)
        How many of the accepted samples are positive and how many are not, by weight.
    """

    def __init__(
        self, score: Score, y: Array, weights: Array | None = None, others: Score | None = None
    ) -> None:
        p, low, high = score.p, score.low, score.high
        right, wrong = y.astype(np.int64), (~y).astype(np.int64)
        count = np.ones(len(y), np.int64)
        if weights is not None:
            right, wrong = weights * right, weights * wrong
        self.all_right: float = right.sum()
        self.all: float = len(y) if weights is None else weights.sum()
        self.near: float = 0.0 if weights is None else 1e-12
        if others is not None:
            p, low, high = (
                np.concatenate(pair)
                for pair in ((p, others.p), (low, others.low), (high, others.high))
            )
            none = np.zeros(len(others.p), np.int64)
            right, wrong, count = (np.concatenate([x, none]) for x in (right, wrong, count))
        order = np.argsort(-p, kind="stable")
        least = np.minimum.accumulate(low[order])
        rest = np.append(np.maximum.accumulate(high[order][::-1])[::-1][1:], -math.inf)
        clear = (least > rest) & (least.astype(score.dtype).astype(np.float64) > rest)
        places = np.flatnonzero(clear)
        self.least: Array = least[places]
        self.rest: Array = rest[places]
        self.dtype: np.dtype = score.dtype
        self.right: Array = np.cumsum(right[order])[places]
        self.wrong: Array = np.cumsum(wrong[order])[places]
        self.accepted: Array = np.cumsum(count[order])[places]
        self.taken: Array = self.right + self.wrong

    def at(self, place: int) -> float:
        """The threshold with this index, in few digits; `inf` if it accepts no sample."""
        if not self.accepted[place]:
            return math.inf
        place = int(np.searchsorted(self.accepted, self.accepted[place]))
        return metrics.Ranking.between(
            float(self.least[place]), float(self.rest[place]), self.dtype
        )

    def nearest(self, count: int) -> tuple[float, int]:
        """The threshold whose number of accepted samples is closest to `count`, and that number."""
        place = int(np.abs(self.accepted - count).argmin())
        return self.at(place), int(self.accepted[place])

    def choose(self, rule: str, value: float) -> float:
        """The threshold for a rule: see the function `choose`."""
        risk = self.wrong / np.maximum(self.taken, 1e-300)
        if rule == "recall":
            reached = self.right >= value * self.all_right - 1e-9
            return self.at(int(reached.argmax())) if self.all_right else math.inf
        if rule == "cost_ratio":
            cost = value * (self.all_right - self.right) + self.wrong
            best = int(cost.argmin())
            return self.at(best) if cost[best] < value * self.all_right else math.inf
        if rule == "target_risk":
            fits = risk <= value + self.near
        elif rule == "precision":
            fits = risk <= 1 - value + 1e-12
        else:
            most = (value + self.near) * self.all
            fits = self.taken <= most if value < 1 else self.accepted <= value
        return self.at(int(np.flatnonzero(fits)[-1])) if fits.any() else math.inf


def choose(rule: str, value: float, p: Array, y: Array) -> float:
    """Choose a threshold by a rule.

    Parameters
    ----------
    rule : {"cost_ratio", "budget", "precision", "recall", "target_risk"}
        - "cost_ratio": the lowest cost, if a missed positive costs `value` false alarms.
        - "budget": flag at most `value` samples, or that share of them if `value` is below 1.
        - "precision": flag as many samples as possible with a precision of at least `value`.
        - "recall": flag as few samples as possible with a recall of at least `value`.
        - "target_risk": accept as many samples as possible with an error rate of at most `value`;
          `p` is then the confidence, and `y` says whether the answer is right.
    value : float
        Error rate, precision and recall are fractions of 1.
    p : array (n,)
        Probability of the positive class.
    y : array (n,) of bool
        Whether each sample is positive.

    Returns
    -------
    float
        The threshold: samples with p at or above it are taken. ``inf`` if none keeps the rule.

    Examples
    --------
    >>> p, y = np.array([0.9, 0.8, 0.6, 0.3]), np.array([True, False, True, False])
    >>> [choose(*rule, p, y) for rule in (("precision", 0.6), ("recall", 0.5))]
    [0.59, 0.89]
    >>> choose("budget", 2, p, y), choose("cost_ratio", 3, p, y)
    (0.79, 0.59)
    """
    return Cuts(Score.held(p), y).choose(rule, value)


class Judge:
    """Chooses thresholds, and judges them on samples that they were not chosen on.

    Thresholds are chosen on the samples `held`. Without these they are chosen on the test samples,
    and judging them there would flatter them. So each test sample is then judged by a threshold
    that was chosen on four fifths of the test samples without it (from `estimates.MANY` samples
    on: one half is judged by a threshold chosen on the other half).

    Parameters
    ----------
    test : Samples
        The n test samples.
    held : Samples, optional
        The validation samples.
    folds : list of (Samples, array of int), optional
        For each fold, the samples to choose a threshold on and the test rows to judge by it. By
        default the folds above.
    crossed : array (n,), optional
        The scores by which test rows in folds are judged; by default those of `test`.
    clusters : array (n,), optional
        The cluster of each test sample. Each cluster is on one side of a fold only.
    """

    def __init__(
        self,
        test: Samples,
        held: Samples | None = None,
        folds: list[tuple[Samples, Array]] | None = None,
        crossed: Array | None = None,
        clusters: Array | None = None,
    ) -> None:
        self.test: Samples = test
        self.held: Samples | None = held
        self.clusters: Array | None = clusters
        self.given: list[tuple[Samples, Array]] | None = folds
        self.crossed: Array = test.score.p if crossed is None else crossed
        self.cuts: Cuts = Cuts(*held, others=test.score) if held else Cuts(*test)

    @cached_property
    def folds(self) -> list[tuple[Cuts, Array]]:
        """For each fold, the thresholds to choose from and the test rows to judge."""
        if self.given is None:
            score, y, weights = (*self.test, None)[:3]
            self.given = []
            for fit, rest in estimates.folds(len(y), groups=self.clusters):
                known = None if weights is None else weights[fit]
                self.given.append((Samples(score[fit], y[fit], known), rest))
        return [(Cuts(*samples), rest) for samples, rest in self.given]

    def __call__(self, rule: str, value: float) -> tuple[float | None, Array, Array]:
        """Choose a threshold by a rule; `rule` and `value` are those of `choose`.

        Returns
        -------
        threshold : float or None
            None if no threshold keeps the rule.
        taken : array (n,) of bool
            The test samples with a score at or above the threshold.
        judged : array (n,) of bool
            The test samples that thresholds chosen without them would take. With validation
            samples, this equals `taken`.
        """
        p = self.test[0].p
        if rule == "budget" and value >= 1:  # a number of test samples: as their share
            value = min(value / len(p), 1 - 1e-9)
        threshold = self.cuts.choose(rule, value)
        taken = p >= threshold
        if threshold == math.inf:
            return None, taken, taken
        fitted = taken.copy()
        if self.held is None:
            for cuts, rest in self.folds:
                fitted[rest] = self.crossed[rest] >= cuts.choose(rule, value)
        return threshold, taken, fitted
