"""Statements for two classes, one of which is the class of interest (positive).

Some functions are shared with the statements on confidence in `calibkit.report.text`.
"""

from calibkit.report.assessment import Assessment
from calibkit.report.compared_words import is_slight, side_of_mean, times
from calibkit.report.estimates import FEW
from calibkit.report.groups import GroupRow
from calibkit.report.words import Statement, card, say
from calibkit.stats import Interval

# From which AUROC on something stands out how well, and the tone of this statement.
LEVELS = ((0.9, "well", "good"), (0.8, "fairly well", "fair"), (0.65, "poorly", "bad"))


def right_on_average(numbers: Assessment, ece: Interval, chance: Interval) -> tuple[str, str]:
    """Title and tone if the mean score may be right: is it wrong in some bins or groups?

    Parameters
    ----------
    numbers : Assessment
    ece : Interval
        The ECE, a fraction of 1.
    chance : Interval
        The ECE that perfectly calibrated scores would have by chance.
    """
    if ece.estimate > chance.high or standing_out(numbers):
        side = {"higher": "over", "lower": "under"}.get(numbers.gap.outcome())
        if numbers.positive and side:
            return f"Right on average, but {side}-confident in its answers", "bad"
        return "Right on average, wrong in places", "fair"
    if numbers.samples < 100:
        return "Too few samples to say", "unsure"
    return "No sign of miscalibration", "good"


def standing_out(numbers: Assessment) -> list[GroupRow]:
    """The groups whose gap is beyond chance, the largest gap first."""
    off = [row for row in numbers.groups if row.stands_out]
    return sorted(off, key=lambda row: -abs(row.gap.estimate))


def stands_out(what: str, verb: str, auroc: float, few: int) -> tuple[str, str]:
    """Title and tone on how well something stands out.

    Parameters
    ----------
    what, verb : str
        Subject and verb of the title: "Errors", "stand".
    auroc : float
        How well the score separates it from the rest, from 0 to 1.
    few : int
        Number of samples of the rarer kind; below `FEW` the title says that they are few.
    """
    how, tone = next((words for least, *words in LEVELS if auroc >= least), ("", "bad"))
    title = f"{what} {verb} out {how}" if how else f"{what} hardly {verb} out"
    return (title, tone) if few >= FEW else (f"{title}, judging by few samples", "unsure")


def on_probability(numbers: Assessment) -> Statement:
    """The statement on the mean probability of the positive class beside its share."""
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
    """The statement on how well the probability separates positives from the rest."""
    positive, (few, _) = numbers.positive, numbers.positive.rarer
    if few < 10:
        text = say(numbers, "few_to_rank")
        return card("Too few samples to judge the ranking", text, "unsure")
    title, tone = stands_out(positive.quoted, "stands", positive.auroc.estimate, few)
    return card(title, say(numbers, "ranking"), tone)


def on_decisions(numbers: Assessment) -> Statement:
    """The statement on how many positives a threshold of 0.5 finds, and a better threshold."""
    positive, at = numbers.positive, numbers.positive.decisions
    point, title = positive.thresholds[0], f"At 0.5 it never says {positive.quoted}"
    if at.flagged:
        title = f"At 0.5, {at.false:,} of {at.flagged:,} called {positive.quoted} are not"
    return card(title, say(numbers, "decisions", at=at, row=point, name=positive.quoted), "fair")


def on_shift(numbers: Assessment) -> Statement:
    """The statement on positives that are rarer or more common than in the validation set."""
    names, values = ["shift"], {}
    for name, row in numbers.recalibration.items():
        if base := getattr(row, "base", None):
            names.append("corrected")
            maps = [numbers.positive.maps[title] for title in (base, name)]
            values = {"row": row, "ece": [each.ece for each in maps]}
    title = f"{numbers.positive.quoted} is not as common as in validation"
    return card(title, say(numbers, *names, **values), "unsure")
