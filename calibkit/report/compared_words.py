"""Say in words and in tables which of several models is better in which metric."""

import math
from collections.abc import Mapping

import pandas as pd

from calibkit import terms
from calibkit.report.paired import Comparison, Pair
from calibkit.report.words import Statement, card, doubtful, say
from calibkit.report.written import POINTS, change, framed, negative, number
from calibkit.stats import Interval

DECIDING = ("accuracy", "excess_ece", "brier", "auroc", "aurc")  # metrics that verdicts are about
OF_EVENT = ("excess_ece", "auroc", "aupr_success", "brier")  # the same if a class is positive
_OF_EVENT = {  # names of the metrics if a class is positive
    "ece": "ECE of the probability",
    "excess_ece": "Excess ECE of the probability",
    "auroc": "ROC AUC",
    "aupr_success": "Average precision",
}
SIDES = {True: ("too high", "too low"), False: ("over-confident", "under-confident")}
_MARKS = {1: " ✓", -1: " ✗", 0: ""}
_UNITS = {1000: " × 1000", 100: " (%)"}  # at the head of a column


def label(name: str, numbers: Comparison) -> str:
    """The name of a metric for readers; it depends on whether a class is positive."""
    own = _OF_EVENT if numbers.positive else {}
    return own.get(name, terms.METRICS[name].label)


def better(name: str, difference: Interval) -> int:
    """Which model a difference (first minus second) favours: 1 the first, -1 the second, 0 none.

    0 means that the interval contains 0, or that neither direction of the metric is better.

    >>> better("nll", Interval(0.2, 0.1, 0.3)), better("auroc", Interval(0.2, -0.1, 0.5))
    (-1, 0)
    """
    higher = terms.METRICS[name].higher
    side = {"higher": 1, "lower": -1}.get(difference.outcome(), 0)
    return 0 if higher is None else side if higher else -side


def on_comparison(numbers: Comparison, against: str) -> Statement:
    """The statement that compares the first model with the second one, called `against`."""
    won, lost = [], []
    for name in _deciding(numbers):
        side, called = better(name, numbers.pairs[0].difference[name]), label(name, numbers)
        plain = called[1].isupper() or name == "brier"
        words = called if plain else called[0].lower() + called[1:]
        if side:
            (won if side > 0 else lost).append(words)
    directions = list(_directions(numbers).values())
    values = {"won": won, "lost": lost, "directions": directions, "against": against}
    text = say(numbers, "compared", **values)
    if not won and not lost:
        return card("No clear difference from the other model", text, "fair")
    if won and lost:
        return card("Partly better, partly worse than the other model", text, "fair")
    title, tone = ("Better", "good") if won else ("Worse", "bad")
    return card(f"{title} than the other model", text, tone)


def _deciding(numbers: Comparison) -> tuple[str, ...]:
    """The metrics that verdicts are about."""
    return OF_EVENT if numbers.positive else DECIDING


def _directions(numbers: Comparison) -> dict[str, str]:
    """For each model, in words, whether its confidence is too high or too low, and by how much."""
    return {
        model: _probability_off(gap, numbers.mean[model], numbers.share[model])
        if numbers.positive
        else confidence_off(gap)
        for model, gap in numbers.gap.items()
    }


def confidence_off(gap: Interval) -> str:
    """Say whether the mean confidence is above or below the accuracy, and by how many points.

    `gap` is mean confidence minus accuracy, in fractions of 1.

    >>> confidence_off(Interval(-0.2, -0.3, -0.1)).replace("\\u00a0", " ")
    'under-confident by 20 points [10, 30]'
    >>> confidence_off(Interval(0.0, -0.1, 0.1)).replace("\\u00a0", " ")
    'right on average (0 points [−10, +10])'
    """
    return _off(SIDES[False][gap.estimate < 0], gap)


def _probability_off(gap: Interval, mean: float, share: float) -> str:
    """Say whether a mean probability is above or below the share of positives, and by how much."""
    side, ratio = side_of_mean(gap, mean, share), times(mean, share)
    return _off(side, gap) + (f" ({ratio:.2g} times)" if side and ratio else "")


def _off(side: str, gap: Interval) -> str:
    """The side with the size of the gap in points; "right on average" if the gap may be 0."""
    if gap.outcome() not in ("higher", "lower"):
        return f"right on average ({change(gap)})"
    return f"{side} by {number(gap if gap.estimate > 0 else negative(gap), 100, POINTS)}"


def is_slight(gap: Interval, mean: float, share: float) -> bool:
    """Whether a mean probability is off by less than one point and by less than a fifth or so."""
    return abs(gap.estimate) < 0.01 and 0.8 < _ratio(mean, share) < 1.25


def side_of_mean(gap: Interval, mean: float, share: float) -> str:
    """Say how far the mean probability is from the share of positives; "" if the gap may be 0.

    `gap` is `mean` minus `share`; all are fractions of 1.

    >>> side_of_mean(Interval(0.34, 0.33, 0.35), 0.36, 0.02)
    'far too high'
    """
    if gap.outcome() not in ("higher", "lower"):
        return ""
    much = "" if 0.5 < _ratio(mean, share) < 2 else "far "
    much = "slightly " if is_slight(gap, mean, share) else much
    return f"{much}too {'high' if gap.estimate > 0 else 'low'}"


def _ratio(mean: float, share: float) -> float:
    return mean / share if share else math.inf


def times(mean: float, share: float) -> float:
    """The ratio of mean probability to share of positives, if at least 1.5; otherwise 0."""
    return mean / share if share and mean / share >= 1.5 else 0.0


def compared(numbers: Comparison) -> list[Statement]:
    """For each metric in a verdict, say which model beats which: ``title``, ``text``, ``tone``."""
    if numbers.doubts:
        return doubtful(numbers.doubts)
    return [_statement(name, numbers) for name in _deciding(numbers)]


def _statement(name: str, numbers: Comparison) -> Statement:
    """The statement on one metric: which models are better, and the values of all models."""
    scale, wins = terms.METRICS[name].scale, _wins(name, numbers)
    title, tone = _title(label(name, numbers), wins)
    digits = 2 if scale > 1 else 4
    values = (
        f"{model} {found[name]._replace(low=math.nan, high=math.nan).format(scale, digits)}"
        for model, found in numbers.metrics.items()
    )
    sides = _directions(numbers) if name == "excess_ece" else {}
    return card(title, say(numbers, "beaten", values=values, scale=scale, sides=sides), tone)


def _wins(name: str, numbers: Comparison) -> dict[str, set[str]]:
    """For each model, the names of the models that it beats in a metric."""
    wins: dict[str, set[str]] = {model: set() for model in numbers.models}
    for pair in numbers.pairs:
        if side := better(name, pair.difference[name]):
            winner, loser = (pair.first, pair.second)[::side]
            wins[winner].add(loser)
    return wins


def _title(called: str, wins: Mapping[str, set[str]]) -> tuple[str, str]:
    """Title and tone of the statement on a metric, from which model beats which."""
    for model, beaten in wins.items():
        if len(beaten) == len(wins) - 1:
            others = "all others" if len(wins) > 2 else min(beaten)
            return f"{called}: {model} beats {others}", "good"
    each = [f"{model} beats {', '.join(sorted(some))}" for model, some in wins.items() if some]
    if each:
        return f"{called}: {'; '.join(each)}", "fair"
    return f"{called}: no two can be told apart", "unsure"


# --- tables ---


def compared_tables(numbers: Comparison) -> dict[str, pd.DataFrame]:
    """Tables of text: ``metrics`` (one row per model) and ``pairs`` (one row per two models)."""

    def row(found: Mapping[str, Interval], pair: bool) -> dict[str, str]:
        cells = {}
        for name, value in found.items():
            scale = terms.METRICS[name].scale
            mark = _MARKS[better(name, value)] if pair else ""
            head = label(name, numbers) + _UNITS.get(scale, "")
            cells[head] = number(value, scale, sign=pair) + mark
        return cells

    own = [{"Model": model} | row(found, False) for model, found in numbers.metrics.items()]
    pairs = [{"Pair": pair_name(pair)} | row(pair.difference, True) for pair in numbers.pairs]
    return {"metrics": framed(own), "pairs": framed(pairs)}


def pair_name(pair: Pair) -> str:
    """The label of a difference: "first − second"."""
    return f"{pair.first} − {pair.second}"
