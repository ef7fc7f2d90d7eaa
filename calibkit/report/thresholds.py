"""Thresholds on a score: the rules that they are chosen for."""

import math
from collections.abc import Sequence

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array

TARGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # error rates to choose from
RULES = ("cost_ratio", "budget", "precision", "recall")


def check(rules: Sequence[tuple[str, float]]) -> None:
    """Refuse a rule with an unknown name or a value that makes no sense."""
    for name, value in rules:
        if name not in RULES:
            raise ValueError(f"rules: got {name!r}, expected one of {', '.join(RULES)}")
        top = math.inf if name in ("cost_ratio", "budget") else 1
        if not 0 < value <= top or not math.isfinite(value):
            kind = "a number above 0" if top > 1 else "a share above 0 and at most 1"
            raise ValueError(f"{name}: got {value:g}, expected {kind}")


def choose(rule: str, value: float, p: Array, y: Array) -> float:
    """The threshold that a rule asks for on these samples; ``inf`` if none keeps it.

    Parameters
    ----------
    rule : {"cost_ratio", "budget", "precision", "recall"}
        "cost_ratio": least cost if a missed positive costs `value` times a false alarm; "budget":
        flag at most `value` samples (below 1, that share of them); "precision" and "recall": flag
        as many, or as few, as keep it at `value`.
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
