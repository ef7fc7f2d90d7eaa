"""Thresholds: chosen for a rule on some samples, judged on others."""

import math
from collections.abc import Sequence

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array
from calibkit.report import estimates
from calibkit.report.predictions import Predictions

TARGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # error rates to choose from
RULES = ("cost_ratio", "budget", "precision", "recall")
Samples = tuple[Array, Array]  # a score, and whether what it is about is so


def check(data: Predictions, target_risk: Sequence[float], rules: Sequence[tuple[str, float]]):
    """Refuse too few samples, also by weight, and a target or rule that makes no sense for them."""
    if not all(0 < risk < 1 for risk in target_risk):
        raise ValueError(f"target_risk: got {list(target_risk)}, expected shares between 0 and 1")
    if (n := len(data.labels)) < estimates.LEAST:
        raise ValueError(f"labels: got {n} samples, expected at least {estimates.LEAST}")
    for name in ("weights", "val_weights"):
        weights = getattr(data, name)
        if weights is None:
            continue
        worth, least = estimates.effective(weights), min(estimates.LEAST, len(weights))
        if worth < least:
            raise ValueError(
                f"{name}: got {len(weights):,} samples that are worth {worth} of equal weight, "
                f"since few carry nearly all of it, expected at least {least}: give more even "
                "weights, or none"
            )
    if rules and (data.pairs or len(data.class_names) != 2):
        what = "pairs" if data.pairs else f"{len(data.class_names)} classes"
        raise ValueError(f"{rules[0][0]}: got it for {what}, expected it only for two classes")
    for name, value in rules:
        if name not in RULES:
            raise ValueError(f"rules: got {name!r}, expected one of {', '.join(RULES)}")
        top = math.inf if name in ("cost_ratio", "budget") else 1
        if not 0 < value <= top or not math.isfinite(value):
            kind = "a number above 0" if top > 1 else "a share above 0 and at most 1"
            raise ValueError(f"{name}: got {value:g}, expected {kind}")


def targets(correct: Array) -> list[float]:
    """Error rates to show if none are asked for: the four largest below the model's own."""
    return [target for target in TARGETS if target < np.mean(~correct)][-4:]


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
    if rule == "target_risk":
        return metrics.threshold_at_risk(p, y, value)
    ranking = metrics.Ranking.of(p, y)
    if rule == "precision":
        fits = np.flatnonzero(ranking.risk() <= 1 - value + 1e-12)
        return ranking.at(fits[-1]) if len(fits) else math.inf
    if rule == "recall":
        reached = ranking.accepted_right >= value * ranking.all_right - 1e-9
        return ranking.at(int(reached.argmax())) if ranking.all_right else math.inf
    if rule == "budget":
        fits = np.flatnonzero(ranking.accepted <= (value * len(y) if value < 1 else value))
        return ranking.at(fits[-1]) if len(fits) else math.inf
    cost = value * (ranking.all_right - ranking.accepted_right) + ranking.accepted_wrong
    best = int(cost.argmin())
    return ranking.at(best) if cost[best] < value * ranking.all_right else math.inf


def judged(rule: str, value: float, test: Samples, held: Samples | None):
    """A threshold, and what it takes among samples that it was not chosen on.

    It is chosen on the samples `held`, or else on the test samples. What it takes of these would
    flatter it, so that each of them is then judged by a threshold chosen on four fifths of the
    samples without it (from `estimates.MANY` samples on, on one half for the other).

    Returns
    -------
    threshold : float or None
        None if none keeps the rule.
    taken : array (n,) of bool
        The test samples at or above it.
    judged : array (n,) of bool
        The same, cross-fitted; with samples `held`, the same as `taken`.
    """
    p, y = test[0].astype(np.float64), test[1]  # as the page's figures compare it
    if rule == "budget" and value >= 1:  # of as many samples as are in the test set
        value = min(value / len(p), 1 - 1e-9)
    threshold = choose(rule, value, *(held or test))
    taken = p >= threshold
    if threshold == math.inf:
        return None, taken, taken
    fitted = taken.copy()
    if held is None:
        for fit, rest in estimates.folds(len(p)):
            fitted[rest] = p[rest] >= choose(rule, value, test[0][fit], y[fit])
    return threshold, taken, fitted
