"""What a trial of the bench says in words: a method or a recalibration against the usual ones."""

import math

from calibkit import terms
from calibkit.stats import Interval


def outcome(difference: Interval, higher: bool) -> str:
    """Whether a difference is for the better.

    >>> outcome(Interval(0.2, 0.1, 0.3), True), outcome(Interval(0.2, -0.1, 0.3), True)
    ('better', 'no clear difference')
    """
    word = difference.verdict
    if word == "practically none":  # the same to the last digit
        return "no clear difference"
    if word not in ("higher", "lower"):
        return word
    return "better" if (word == "higher") == higher else "worse"


def verdict(numbers: dict) -> list[dict[str, str]]:
    """What to think of a method: ``title``, ``text`` and ``tone`` (good, fair, bad, unsure)."""
    return [
        _on_calibration(numbers),
        _on_ranking(numbers),
        _on_expense(numbers),
        _on_temperature(numbers),
        _on_calibratable(numbers),
    ]


_TONES = {"better": "good", "worse": "bad", "no clear difference": "fair"}


def _judge(row: dict, metric: str) -> str:
    return outcome(row["difference"], terms.METRICS[metric][2])


def shown(value: float | Interval, metric: str, sign: bool = False) -> str:
    _, scale, _ = terms.METRICS[metric]
    interval = value if isinstance(value, Interval) else Interval(value, math.nan, math.nan)
    unit = "" if sign or scale == 1 else "\u00a0%" if scale == 100 else "\u00a0‰"
    digits = None if math.isfinite(interval.low) else (2 if scale > 1 else 4)
    return interval.format(scale, digits, unit, sign)


def _rank_words(row: dict) -> str:
    if not row["of"]:
        return "not ranked"
    text = f"place {row['place']} of {row['of']}"
    if row["first"] != row["last"]:
        text += f" ({row['first']} to {row['last']} possible)"
    return text


def _on_calibration(numbers: dict) -> dict[str, str]:
    before, after = numbers["before"]["excess_ece"], numbers["after"]["excess_ece"]
    now = _judge(before, "excess_ece")
    titles = {
        "better": "Better calibrated than ERM as trained",
        "worse": "Worse calibrated than ERM as trained",
        "no clear difference": "No clear difference from ERM in calibration",
    }
    ece = numbers["before"]["ece"]
    text = (
        f"ECE {shown(ece['own'], 'ece')} against {shown(ece['erm'], 'ece')}; without the part "
        f"due to chance, the difference is "
        f"{shown(before['difference'], 'excess_ece', True)} points: {_rank_words(before)}. "
        f"After temperature scaling it is "
        f"{shown(after['difference'], 'excess_ece', True)} points: {_rank_words(after)}."
    )
    return {
        "title": titles.get(now, "Calibration: one run cannot tell"),
        "text": text,
        "tone": _TONES.get(now, "unsure"),
    }


def _on_ranking(numbers: dict) -> dict[str, str]:
    rows = {name: numbers["before"][name] for name in ("auroc", "aurc")}
    outcomes = {name: _judge(row, name) for name, row in rows.items()}
    kinds = set(outcomes.values())
    if "better" in kinds and "worse" not in kinds:
        title, tone = "Finds its errors better than ERM", "good"
    elif "worse" in kinds and "better" not in kinds:
        title, tone = "Finds its errors worse than ERM", "bad"
    elif kinds == {"better", "worse"}:
        title, tone = "Finds errors better by one measure, worse by another", "fair"
    elif kinds == {"cannot be told"}:
        title, tone = "Finding errors: one run cannot tell", "unsure"
    else:
        title, tone = "No clear difference from ERM in finding errors", "fair"
    parts = [
        f"{terms.METRICS[name][0]} {shown(row['own'], name)} against {shown(row['erm'], name)} "
        f"(difference {shown(row['difference'], name, True)}), {_rank_words(row)}"
        for name, row in rows.items()
    ]
    return {"title": title, "text": "; ".join(parts) + ".", "tone": tone}


def _on_expense(numbers: dict) -> dict[str, str]:
    worse = []
    for where, words in (("before", ""), ("after", " after scaling"), ("shifted", " under shift")):
        for name, row in numbers[where].items():
            if name in ("accuracy", "nll", "brier", "auroc", "aurc", "excess_ece"):
                if _judge(row, name) == "worse":
                    worse.append((name, words, row["difference"]))
    own, erm = numbers["cost"]["own"], numbers["cost"]["erm"]
    times = [own[k] / erm[k] for k in ("forward", "backward")]
    cost = f"It takes {times[0]:.2g} × the forward and {times[1]:.2g} × the backward passes of ERM"
    if max(abs(t - 1) for t in times) < 0.01:
        cost = "It takes as many passes as ERM"
    cost += "."  # seconds are in the table only: other work on a machine changes them
    if not worse:
        dear = max(times) > 1.01
        title = "At the expense of time only" if dear else "Nothing is clearly worse"
        return {"title": title, "text": cost, "tone": "fair" if dear else "good"}
    first = list(dict.fromkeys(terms.METRICS[name][0] + words for name, words, _ in worse))
    listed = ", ".join(
        f"{terms.METRICS[name][0]}{words} ({shown(gap, name, True)})" for name, words, gap in worse
    )
    lead = first[0].replace("Accuracy", "accuracy").replace("Excess", "excess")
    title = f"At the expense of {lead}" + (f" and {len(first) - 1} more" * (len(first) > 1))
    return {"title": title, "text": f"Clearly worse than ERM: {listed}. {cost}", "tone": "bad"}


def _on_temperature(numbers: dict) -> dict[str, str]:
    """Whether one temperature on ERM does the same (Singh et al., 2021: the dark side)."""
    rows = {name: numbers["after"][name] for name in ("brier", "nll", "auroc", "aurc")}
    outcomes = {name: _judge(row, name) for name, row in rows.items()}
    calibrates = _judge(numbers["before"]["excess_ece"], "excess_ece")
    better = [terms.METRICS[n][0] for n, word in outcomes.items() if word == "better"]
    worse = [terms.METRICS[n][0] for n, word in outcomes.items() if word == "worse"]
    t, usual = numbers["temperature"]["own"], numbers["temperature"]["erm"]
    fitted = f"Its fitted temperature is {t:.2f}; that of ERM is {usual:.2f}."
    both = "With one fitted temperature each, "
    if set(outcomes.values()) == {"cannot be told"}:
        title, tone, text = "Only a lower temperature? One run cannot tell", "unsure", ""
    elif better and not worse:
        title, tone = "More than a temperature", "good"
        text = f"{both}it is still better than ERM by {', '.join(better)}. "
    elif worse and not better:
        title, tone = "A temperature on ERM does better", "bad"
        text = f"{both}it is worse than ERM by {', '.join(worse)}. "
    elif worse:
        title, tone = "Not what a temperature does, for better and for worse", "fair"
        text = f"{both}it is better by {', '.join(better)} and worse by {', '.join(worse)}. "
    elif calibrates == "better":
        title, tone = "Nothing a temperature on ERM would not do", "fair"
        text = f"{both}no clear difference from ERM remains. "
    else:
        title, tone = "With a temperature each, no clear difference from ERM", "fair"
        text = f"{both}none of Brier score, NLL, AUROC and AURC differs clearly. "
    above = numbers["judged"]["above temperature"]["brier"]
    text += (
        f"As trained, its Brier score differs from that of scaled ERM by "
        f"{shown(above, 'brier', True)}. "
    )
    return {"title": title, "text": text + fitted, "tone": tone}


def _on_calibratable(numbers: dict) -> dict[str, str]:
    """Whether recalibration still works on it (Wang et al., 2021)."""
    after, binned = numbers["after"]["excess_ece"]["difference"], numbers["judged"]["binned"]
    optimal = numbers["judged"]["optimal"]
    outcomes = [outcome(x, False) for x in (after, binned)]
    if "worse" in outcomes and "better" not in outcomes:
        title, tone = "Harder to calibrate afterwards than ERM", "bad"
    elif "better" in outcomes and "worse" not in outcomes:
        title, tone = "Easier to calibrate afterwards than ERM", "good"
    elif "better" in outcomes:
        title, tone = "Easier or harder to calibrate afterwards, depending on how", "fair"
    elif set(outcomes) == {"cannot be told"}:
        title, tone = "Calibratable? One run cannot tell", "unsure"
    else:
        title, tone = "No clear difference from ERM once recalibrated", "fair"
    text = (
        f"Excess ECE minus that of ERM: {shown(after, 'excess_ece', True)} points after "
        f"temperature scaling, {shown(binned, 'excess_ece', True)} after histogram binning. With "
        "the best temperature for the test set itself the ECE differs by "
        f"{shown(optimal, 'ece', True)} points."
    )
    return {"title": title, "text": text, "tone": tone}
