"""Thresholds: chosen for a rule on some samples, judged on others.

What is printed is what happens: the number as written, compared by >= in double precision or in the
file's own type, accepts the samples that are counted beside it. So a threshold lies only where the
scores on both sides stay apart in either.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array
from calibkit.report import estimates
from calibkit.report.predictions import Predictions
from calibkit.report.scores import Samples, Score, Scored
from calibkit.resampling import effective_size

TARGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # error rates to choose from
RULES = ("cost_ratio", "budget", "precision", "recall")


def check(
    data: Predictions, target_risk: Sequence[float], rules: Sequence[tuple[str, float]]
) -> None:
    """Refuse too few samples, also by weight, and a target or rule that makes no sense for them."""
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
                f"since few carry nearly all of it, expected at least {least}: give more even "
                "weights, or none"
            )
    if rules and not data.kind.two:
        what = data.kind.described
        raise ValueError(f"{rules[0][0]}: got it for {what}, expected it only for two classes")
    for name, value in rules:
        if name not in RULES:
            raise ValueError(f"rules: got {name!r}, expected one of {', '.join(RULES)}")
        top = math.inf if name in ("cost_ratio", "budget") else 1
        if not 0 < value <= top or not math.isfinite(value):
            kind = "a number above 0" if top > 1 else "a share above 0 and at most 1"
            raise ValueError(f"{name}: got {value:g}, expected {kind}")


def targets(samples: Samples | Scored) -> list[float]:
    """Error rates to show if none are asked for: the four largest below the model's own."""
    error = np.average(~samples.y, weights=samples.weights)
    return [target for target in TARGETS if target < error][-4:]


class Cuts:
    """Every threshold that there is for some samples, from the highest to the lowest.

    Parameters
    ----------
    score : Score
        (n,)
    y : array (n,) of bool
        Whether it is so.
    weights : array (n,), optional
        How much each sample counts.
    others : Score, optional
        Of samples that the thresholds shall be applied to as well: none lies where these are not
        clearly on either side.

    Attributes
    ----------
    accepted : array (t,)
        How many samples each accepts.
    right, wrong : arrays (t,)
        How many of these are of which kind, or their weight.
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
        """The threshold at a place, in few digits; `inf` if it accepts none of the samples."""
        if not self.accepted[place]:
            return math.inf
        place = int(np.searchsorted(self.accepted, self.accepted[place]))
        return metrics.Ranking.between(
            float(self.least[place]), float(self.rest[place]), self.dtype
        )

    def nearest(self, count: int) -> tuple[float, int]:
        """The threshold that accepts most nearly so many, and how many it accepts."""
        place = int(np.abs(self.accepted - count).argmin())
        return self.at(place), int(self.accepted[place])

    def choose(self, rule: str, value: float) -> float:
        """As `choose`."""
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
    """The threshold that a rule asks for on these samples; ``inf`` if none keeps it.

    Parameters
    ----------
    rule : {"cost_ratio", "budget", "precision", "recall", "target_risk"}
        "cost_ratio": least cost if a missed positive costs `value` times a false alarm; "budget":
        flag at most `value` samples (below 1, that share of them); "precision" and "recall": flag
        as many, or as few, as keep it at `value`; "target_risk": accept as many as have this error
        rate, where p is the confidence and y whether the answer is right.
    value : float
    p : array (n,)
        Probability of the positive class.
    y : array (n,) of bool
        Whether it is the true one.

    Returns
    -------
    float

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
    """Thresholds, and what they take among samples that they were not chosen on.

    They are chosen on the samples `held`, or else on the test samples. What one takes of these
    would flatter it, so that each of them is then judged by a threshold chosen on four fifths of
    the samples without it (from `estimates.MANY` samples on, on one half for the other).

    Parameters
    ----------
    test : Samples
    held : Samples, optional
    folds : list of (Samples, array of int), optional
        What to choose a threshold on, and the test samples that it judges; by default as above.
    crossed : array (n,), optional
        The scores of the test samples that are judged so; by default those of `test`.
    clusters : array (n,), optional
        Which test samples are alike: no cluster is on both sides of a fold.
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
        if self.given is None:
            score, y, weights = (*self.test, None)[:3]
            parts = estimates.folds(len(y), groups=self.clusters)
            of = [None if weights is None else weights[fit] for fit, _ in parts]
            self.given = [
                (Samples(score[fit], y[fit], its), rest)
                for (fit, rest), its in zip(parts, of, strict=True)
            ]
        return [(Cuts(*samples), rest) for samples, rest in self.given]

    def __call__(self, rule: str, value: float) -> tuple[float | None, Array, Array]:
        """The threshold for a rule.

        Returns
        -------
        threshold : float or None
            None if none keeps the rule.
        taken : array (n,) of bool
            The test samples at or above it.
        judged : array (n,) of bool
            The same, cross-fitted; with samples `held`, the same as `taken`.
        """
        p = self.test[0].p
        if rule == "budget" and value >= 1:  # of as many samples as are in the test set
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
