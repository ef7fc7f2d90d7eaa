"""The statement on recalibration: which map helps, how much, and what it changes."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from calibkit.report.assessment import Assessment
from calibkit.report.recalibration import NAMES, MapScores, scores_in, usual_map
from calibkit.report.words import Statement, card, say

KEYS = {title: name for name, title in NAMES.items()}  # values of ``calibkit recalibrate --map``
LITTLE = 0.95  # a map that leaves more than this share of the Brier score helps only a little


def leaks(numbers: Assessment) -> bool:
    """Whether test samples seem to be in the validation set, too.

    So it is if more than 1 % of the test samples have exactly the scores of a validation sample,
    beyond those that ties within the test set explain.
    """
    checks = numbers.checks
    return checks.overlap - 1.2 * checks.tied > 0.01 * numbers.samples


def on_recalibration(numbers: Assessment) -> Statement:
    """The statement on which map helps, and how much."""
    positive, best = numbers.positive, numbers.recommended
    if positive and positive.rarer[0] < 10:
        title = "Too few samples of one class to recalibrate"
        return card(title, say(numbers, "too_few_to_recalibrate"), "unsure")
    if (positive and positive.reversed) or numbers.checks.guessing:
        title = "No recalibration before the labels are clear"
        return card(title, say(numbers, "labels_unclear"), "unsure")
    scores = scores_in(numbers.recalibration)
    title, tone, names, values = _gain(numbers, best, scores) if best else _no_gain(numbers)
    infinite = _infinite(scores, scores[best or "none"])
    names += ["infinite_nll"] if infinite else []
    values |= {"before": scores["none"], "infinite": infinite}
    return card(title, say(numbers, *names, **values), tone)


def _infinite(scores: Mapping[str, MapScores], taken: MapScores) -> str | None:
    """The name of a map with a lower Brier score than the chosen one but infinite NLL; or None."""
    for name, row in scores.items():
        lower = row.brier < taken.brier and row.brier_change.high < 0
        if lower and row.base is None and row.nll == math.inf:
            return name
    return None


# Title and tone of the statement, the names of its sentences, and the values that they need.
_Parts: TypeAlias = tuple[str, str, list[str], dict[str, Any]]


def _no_gain(numbers: Assessment) -> _Parts:
    """What to say if no map clearly helps."""
    gap = (numbers.positive or numbers).gap
    few = numbers.samples < 100
    title = "Too few samples to say" if few else "No clear gain from recalibration"
    tone = "good" if gap.low <= 0 <= gap.high else "unsure"
    maps = numbers.recalibration.items()
    tried = [name for name, row in maps if name != "none" and not getattr(row, "base", None)]
    return title, tone, ["no_gain"], {"tried": tried}


def _gain(numbers: Assessment, best: str, scores: Mapping[str, MapScores]) -> _Parts:
    """What to say if the map `best` helps."""
    before, after, leaking = scores["none"], scores[best], leaks(numbers)
    # Only a map that `calibkit recalibrate` can fit and save has a key.
    key = None if numbers.pairs else KEYS.get(best)
    effects, more = _effects(numbers, best, before, after)
    names = ["gain", *effects, *(["to_deploy"] if key else [])]
    more |= {"after": after, "leaks": leaking, "usual": usual_map(scores), "map": key}
    title = f"{best.capitalize()} {'may' if leaking else 'would'} help"
    title += " a little" if after.brier > LITTLE * before.brier else ""
    return title, "unsure" if leaking else "fair", names, more


def _effects(
    numbers: Assessment, best: str, before: MapScores, after: MapScores
) -> tuple[list[str], dict[str, Any]]:
    """The names of the sentences on what else the map changes, and the values that they need."""
    if not numbers.positive:
        names = ["own_thresholds"] if numbers.points_after else []
        return names, {"ece": [before.ece, after.ece]}
    old, new = (numbers.positive.maps[name] for name in ("none", best))
    same = old.decisions.flagged == new.decisions.flagged
    name = "same_decisions" if same else "other_decisions"
    return [name], {"ece": [old.ece, new.ece], "old": old, "new": new}
