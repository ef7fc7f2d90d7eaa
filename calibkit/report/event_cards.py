"""Statements on two classes, of which one is of interest; and what those on answers share."""

from calibkit.report.assessment import Assessment
from calibkit.report.compared_words import is_slight, side_of_mean, times
from calibkit.report.estimates import FEW
from calibkit.report.groups import GroupRow
from calibkit.report.words import Statement, card, say
from calibkit.stats import Interval

LEVELS = ((0.9, "well", "good"), (0.8, "fairly well", "fair"), (0.65, "poorly", "bad"))  # AUROC


def right_on_average(numbers: Assessment, ece: Interval, chance: Interval) -> tuple[str, str]:
    """Title and tone where the gap could be 0."""
    if ece.estimate > chance.high or standing_out(numbers):
        side = {"higher": "over", "lower": "under"}.get(numbers.gap.outcome())
        if numbers.positive and side:
            return f"Right on average, but {side}-confident in its answers", "bad"
        return "Right on average, wrong in places", "fair"
    if numbers.samples < 100:
        return "Too few samples to say", "unsure"
    return "No sign of miscalibration", "good"


def standing_out(numbers: Assessment) -> list[GroupRow]:
    """The groups that stand out, those that are furthest off first."""
    off = [row for row in numbers.groups if row.stands_out]
    return sorted(off, key=lambda row: -abs(row.gap.estimate))


def stands_out(what: str, verb: str, auroc: float, few: int) -> tuple[str, str]:
    """Title and tone of how well something stands out."""
    how, tone = next((words for least, *words in LEVELS if auroc >= least), ("", "bad"))
    title = f"{what} {verb} out {how}" if how else f"{what} hardly {verb} out"
    return (title, tone) if few >= FEW else (f"{title}, judging by few samples", "unsure")


def on_probability(numbers: Assessment) -> Statement:
    """The headline: the probability of the positive class beside its share."""
    positive = numbers.positive
    gap, base, (few, rare) = positive.gap, positive.base_rate.estimate, positive.rarer
    if few < 10:
        title = f"Too few samples of {rare} to say"
        return card(title, say(numbers, "few_positives"), "unsure")
    title, tone = right_on_average(numbers, positive.ece, positive.chance_ece)
    ratio = 0.0
    if side := side_of_mean(gap, positive.mean, base):
        title = f"Probability of {positive.quoted} is {side}"
        tone = "fair" if is_slight(gap, positive.mean, base) else "bad"
        ratio = times(positive.mean, base)
    off = standing_out(numbers)
    names = ["probability"]
    names += ["class_weights"] if ratio and base < 0.4 else []
    names += ["off_in_groups"] if 0 < len(off) < len(numbers.groups) else []
    enough = positive.decisions.flagged >= FEW
    return card(title, say(numbers, *names, times=ratio, enough=enough, off=off), tone)


def on_positives(numbers: Assessment) -> Statement:
    """How well the positives stand out."""
    positive, (few, _) = numbers.positive, numbers.positive.rarer
    if few < 10:
        text = say(numbers, "few_to_rank")
        return card("Too few samples to judge the ranking", text, "unsure")
    title, tone = stands_out(positive.quoted, "stands", positive.auroc.estimate, few)
    return card(title, say(numbers, "ranking"), tone)


def on_decisions(numbers: Assessment) -> Statement:
    """What a threshold of 0.5 does, and another one."""
    positive, at = numbers.positive, numbers.positive.decisions
    point, title = positive.thresholds[0], f"At 0.5 it never says {positive.quoted}"
    if at.flagged:
        title = f"At 0.5, {at.false:,} of {at.flagged:,} called {positive.quoted} are not"
    return card(title, say(numbers, "decisions", at=at, row=point, name=positive.quoted), "fair")


def on_shift(numbers: Assessment) -> Statement:
    """Another share of positives than in the validation set."""
    names, values = ["shift"], {}
    for name, row in numbers.recalibration.items():
        if base := getattr(row, "base", None):
            names.append("corrected")
            maps = (numbers.positive.maps[each] for each in (base, name))
            values = {"row": row, "ece": [its.ece for its in maps]}
    title = f"{numbers.positive.quoted} is not as common as in validation"
    return card(title, say(numbers, *names, **values), "unsure")
