"""The sentences and tables of a report: what its numbers say, without figures."""

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd

from calibkit import terms
from calibkit.curves import Reliability
from calibkit.report.assessment import NAMES, Assessment, usual_map
from calibkit.report.estimates import FEW
from calibkit.report.positive import Positive
from calibkit.stats import Interval

POINTS = "\u00a0points"

# --- words ---


def card(title: str, text: str, tone: str) -> dict[str, str]:
    """A statement; its tone is "good", "fair", "bad" or "unsure"."""
    return {"title": title, "text": text, "tone": tone}


@cache
def _words() -> jinja2.Template:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    environment.filters |= FILTERS
    source = Path(__file__).with_name("words.jinja").read_text(encoding="utf-8")
    return environment.from_string(source.replace("\n", " "))


def say(numbers, *names: str, **values) -> str:
    """Sentences of ``words.jinja`` by name, one after the other."""
    known = {"numbers": numbers, "positive": getattr(numbers, "positive", None)} | values
    module = _words().make_module(known)
    return re.sub(" +", " ", " ".join(getattr(module, name)() for name in names)).strip()


def verdict(numbers: Assessment) -> list[dict[str, str]]:
    """Say in words what the numbers mean.

    Parameters
    ----------
    numbers : Assessment

    Returns
    -------
    list of dict
        ``title``, ``text`` and ``tone`` (good, fair, bad, unsure) of each statement.

    Examples
    --------
    >>> from calibkit.report import assess
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> [statement["title"] for statement in verdict(assess(from_arrays(scores)))][:2]
    ['Probability of “1” is too low', '“1” stands out well, judging by few samples']
    """
    if numbers.doubts:
        return doubtful(numbers.doubts)
    if numbers.positive:
        cards = [_on_probability, _on_positives, _on_decisions, _on_recalibration]
        cards += [_on_shift] if numbers.positive.shift else []
    else:
        cards = [_on_calibration, _on_errors, _on_threshold, _on_recalibration]
    cards += [_on_sets] if numbers.conformal else []
    cards += [_on_comparison] if numbers.comparison else []
    return [on(numbers) for on in cards]


def doubtful(doubts: Sequence[str]) -> list[dict[str, str]]:
    """In place of a verdict, why there is none."""
    way = "If the file is right as it is, --as-is gives a verdict."
    return [card("No verdict: is the file what it seems?", " ".join([*doubts, way]), "unsure")]


def cautions(numbers: Assessment) -> list[str]:
    """What a careful reader should know before believing the numbers.

    Parameters
    ----------
    numbers : Assessment

    Returns
    -------
    list of str
        Sentences; none if there is nothing to worry about.

    Examples
    --------
    >>> from calibkit.report import assess
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> cautions(assess(from_arrays(scores)))[0]
    'Only 20 of 60 samples are “0”: most of this is a guess.'
    """
    n, checks, positive = numbers.samples, numbers.checks, numbers.positive
    right, wrong = n - numbers.errors, numbers.errors
    few, kind = (wrong, "wrong") if wrong < FEW else (right, "right")
    missing = 0 if numbers.pairs else numbers.classes - checks["classes_seen"]
    worse = n >= FEW and numbers.metrics["accuracy"].high < checks["majority"]
    worse = worse and not numbers.pairs and not positive
    reverse = positive and positive.auroc.high < 0.5
    untied = n * (1 - (not checks["as_logits"]) * checks["saturated"])
    concerns = {
        "shared_samples": _leaks(numbers),
        "few_of_a_class": positive and positive.rarer[0] < FEW,
        "reversed": reverse,
        "few_of_a_kind": not positive and few < FEW,
        "worse_than_one_class": worse,
        "guessing": checks["guessing"] and not (worse or reverse),
        "unseen_classes": missing,
        "saturated": checks["saturated"] > 0.01,
        "ties": n >= 100 and 0 < checks["distinct"] < 0.1 * untied,
        "improbable": checks["improbable"],
    }
    values = {"checks": checks, "few": few, "kind": kind, "missing": missing}
    sentences = [say(numbers, name, **values) for name, true in concerns.items() if true]
    for name, row in numbers.recalibration.items():
        sentences += [f"{name.capitalize()}: {message}." for message in row.get("warnings", ())]
    return sentences


def _leaks(numbers: Assessment) -> bool:
    """More test samples have the scores of a validation sample than ties explain."""
    checks = numbers.checks
    return checks["overlap"] - 1.2 * checks["tied"] > 0.01 * numbers.samples


def _if_not_off(numbers: Assessment, ece: Interval, chance: Interval) -> tuple[str, str]:
    """Title and tone where the gap could be 0."""
    if ece.estimate > chance.high or any(row["stands_out"] for row in numbers.groups):
        side = {"higher": "over", "lower": "under"}.get(numbers.gap.outcome())
        if numbers.positive and side:
            return f"Right on average, but {side}-confident in its answers", "bad"
        return "Right on average, wrong in places", "fair"
    if numbers.samples < 100:
        return "Too few samples to say", "unsure"
    return "No sign of miscalibration", "good"


def _outstanding(numbers: Assessment) -> list[dict]:
    """The groups that stand out, those that are furthest off first."""
    off = [row for row in numbers.groups if row["stands_out"]]
    return sorted(off, key=lambda row: -abs(row["gap"].estimate))


def _ranked(what: str, verb: str, auroc: float, few: int) -> tuple[str, str]:
    """Title and tone of how well something stands out."""
    levels = ((0.9, "well", "good"), (0.8, "fairly well", "fair"), (0.65, "poorly", "bad"))
    how, tone = next((words for least, *words in levels if auroc >= least), ("", "bad"))
    title = f"{what} {verb} out {how}" if how else f"{what} hardly {verb} out"
    return (title, tone) if few >= FEW else (f"{title}, judging by few samples", "unsure")


def _on_calibration(numbers: Assessment) -> dict[str, str]:
    gap, off = numbers.gap, _outstanding(numbers)
    sure, size = gap.outcome() in ("higher", "lower"), abs(gap.estimate)
    too_high = gap.estimate > 0
    title, tone = _if_not_off(numbers, numbers.metrics["ece"], numbers.chance_ece)
    if sure:
        much = "Slightly " if size < 0.01 else "Strongly " if size >= 0.05 else ""
        title = f"{much}{'over' if too_high else 'under'}-confident".capitalize()
        tone, gap = "fair" if size < 0.01 else "bad", gap if too_high else negative(gap)
    names = ["calibration", "off_in_groups"] if off else ["calibration"]
    return card(title, say(numbers, *names, gap=gap, sure=sure, too_high=too_high, off=off), tone)


def _on_errors(numbers: Assessment) -> dict[str, str]:
    errors, few = numbers.errors, min(numbers.errors, numbers.samples - numbers.errors)
    if few < 10:
        title = "Too few errors to say" if errors < 10 else "Too few right answers to say"
        return card(title, say(numbers, "few_errors"), "unsure")
    title, tone = _ranked("Errors", "stand", numbers.metrics["auroc"].estimate, few)
    return card(title, say(numbers, "errors"), tone)


def _on_threshold(numbers: Assessment) -> dict[str, str]:
    point = numbers.main_point
    error = round(1 - numbers.metrics["accuracy"].estimate, 12)  # written as errors / samples is
    if not numbers.operating_points:
        return card("No threshold needed", say(numbers, "no_target", error=error), "good")
    if point is None:
        text = say(numbers, "no_threshold", error=error)
        return card("No threshold to recommend", text, "unsure")
    title = f"Accept answers with a confidence of {decimals(point['threshold'])} or more"
    tone = {True: "good", None: "fair", False: "bad"}[point["kept"]]
    return card(title, say(numbers, "threshold", error=error, point=point), tone)


def _on_recalibration(numbers: Assessment) -> dict[str, str]:
    results, positive, best = numbers.recalibration, numbers.positive, numbers.recommended
    if positive and positive.rarer[0] < 10:
        title = "Too few samples of one class to recalibrate"
        return card(title, say(numbers, "too_few_to_recalibrate"), "unsure")
    if (positive and positive.auroc.high < 0.5) or numbers.checks["guessing"]:
        title = "No recalibration before the labels are clear"
        return card(title, say(numbers, "labels_unclear"), "unsure")
    before, after, leaks = results["none"], results[best or "none"], _leaks(numbers)
    tried = [name for name, row in results.items() if name != "none" and "base" not in row]
    lower = [name for name in tried if results[name].get("brier", math.inf) < after["brier"]]
    sure = [name for name in lower if results[name]["brier_change"].high < 0]
    infinite = next((name for name in sure if results[name]["nll"] == math.inf), None)
    last = ["infinite_nll"] if infinite else []
    values = {"before": before, "after": after, "leaks": leaks, "tried": tried}
    values |= {"infinite": infinite, "usual": usual_map(results)}
    if best is None:
        gap, few = (positive or numbers).gap, numbers.samples < 100
        title = "Too few samples to say" if few else "No clear gain from recalibration"
        tone = "good" if gap.low <= 0 <= gap.high else "unsure"
        return card(title, say(numbers, "no_gain", *last, **values), tone)
    names = ["gain"]
    values["ece"] = [before["ece"], after["ece"]]
    if positive:
        old, new = (positive.maps[name] for name in ("none", best))
        values |= {"ece": [old["ece"], new["ece"]], "old": old, "new": new}
        same = old["decisions"]["flagged"] == new["decisions"]["flagged"]
        names.append("same_decisions" if same else "other_decisions")
    elif numbers.points_after:
        names.append("own_thresholds")
    # None of a map for another prevalence.
    values["map"] = next((name for name, title in NAMES.items() if title == best), None)
    if values["map"] and not numbers.pairs:  # a map takes the scores of all classes
        names.append("to_deploy")
        values["tokens"] = any("each token is a sample" in note for note in numbers.notes)
    little = " a little" if after["brier"] > 0.95 * before["brier"] else ""
    title = f"{best.capitalize()} {'may' if leaks else 'would'} help{little}"
    return card(title, say(numbers, *names, *last, **values), "unsure" if leaks else "fair")


def _on_sets(numbers: Assessment) -> dict[str, str]:
    sets = numbers.conformal
    before, after = sets.aps["before"], sets.aps["after"]
    ratio = after["size"] / max(before["size"], 1e-9)
    effect = "larger" if ratio > 1.05 else "smaller" if ratio < 0.95 else "no larger"
    if effect == "larger" and after["class_gap"] < before["class_gap"]:
        effect += ", their coverage more even"
    title = f"Sets of answers: temperature scaling makes adaptive ones {effect}"
    return card(title, say(numbers, "conformal", sets=sets), "fair")


# --- two classes ---


def _on_probability(numbers: Assessment) -> dict[str, str]:
    """The headline for two classes: the probability of the positive one beside its share."""
    positive = numbers.positive
    gap, base, (few, rare) = positive.gap, positive.base_rate.estimate, positive.rarer
    if few < 10:
        title = f"Too few samples of {rare} to say"
        return card(title, say(numbers, "few_positives"), "unsure")
    title, tone, times = *_if_not_off(numbers, positive.ece, positive.chance_ece), 0.0
    if words := _side_of_mean(gap, positive.mean, base):
        title = f"Probability of {positive.quoted} is {words}"
        tone, times = "fair" if "slightly" in words else "bad", _times(positive.mean, base)
    off = _outstanding(numbers)
    names = ["probability"]
    names += ["class_weights"] if times and base < 0.4 else []
    names += ["off_in_groups"] if 0 < len(off) < len(numbers.groups) else []
    enough = positive.decisions["flagged"] >= FEW
    return card(title, say(numbers, *names, times=times, enough=enough, off=off), tone)


def _side_of_mean(gap: Interval, mean: float, base: float) -> str:
    """How a mean probability is off from the share of positives; "" if the gap may be 0.

    >>> _side_of_mean(Interval(0.34, 0.33, 0.35), 0.36, 0.02)
    'far too high'
    """
    if gap.outcome() not in ("higher", "lower"):
        return ""
    ratio = mean / base if base else math.inf
    slight = abs(gap.estimate) < 0.01 and 0.8 < ratio < 1.25
    much = "slightly " if slight else "far " if not 0.5 < ratio < 2 else ""
    return f"{much}too {'high' if gap.estimate > 0 else 'low'}"


def _times(mean: float, base: float) -> float:
    """How many times too high a mean probability is, where that says more than a difference."""
    return mean / base if base and mean / base >= 1.5 else 0.0


def _on_positives(numbers: Assessment) -> dict[str, str]:
    positive, (few, _) = numbers.positive, numbers.positive.rarer
    if few < 10:
        text = say(numbers, "few_to_rank")
        return card("Too few samples to judge the ranking", text, "unsure")
    title, tone = _ranked(positive.quoted, "stands", positive.auroc.estimate, few)
    return card(title, say(numbers, "ranking"), tone)


def _on_decisions(numbers: Assessment) -> dict[str, str]:
    positive, at = numbers.positive, numbers.positive.decisions
    point, title = positive.thresholds[0], f"At 0.5 it never says {positive.quoted}"
    if at["flagged"]:
        title = f"At 0.5, {at['false']:,} of {at['flagged']:,} called {positive.quoted} are not"
    return card(title, say(numbers, "decisions", at=at, row=point, name=positive.quoted), "fair")


def _on_shift(numbers: Assessment) -> dict[str, str]:
    names, values = ["shift"], {}
    for name, row in numbers.recalibration.items():
        if "base" in row:
            names.append("corrected")
            maps = (numbers.positive.maps[x] for x in (row["base"], name))
            values = {"row": row, "ece": [of["ece"] for of in maps]}
    title = f"{numbers.positive.quoted} is not as common as in validation"
    return card(title, say(numbers, *names, **values), "unsure")


# --- a second model ---

DECIDING = ("accuracy", "excess_ece", "brier", "auroc", "aurc")  # what verdicts are about
OF_EVENT = ("excess_ece", "auroc", "aupr_success", "brier")  # of the probability of a class
_OF_EVENT = {  # what the metrics of confidence and correctness are for a probability
    "ece": "ECE of the probability",
    "excess_ece": "Excess ECE of the probability",
    "auroc": "ROC AUC",
    "aupr_success": "Average precision",
}


def label(name: str, numbers: dict) -> str:
    """What a metric is called in `numbers` of `paired.compare`."""
    own = _OF_EVENT if numbers["positive"] else {}
    return own.get(name, terms.METRICS[name].label)


def _on_comparison(numbers: Assessment) -> dict[str, str]:
    found, won, lost = numbers.comparison, [], []
    for name in _deciding(found):
        side, called = better(name, found["pairs"][0]["difference"][name]), label(name, found)
        plain = called[1].isupper() or name == "brier"
        words = called if plain else called[0].lower() + called[1:]
        won += [words] * (side > 0)
        lost += [words] * (side < 0)
    text = say(
        numbers, "compared", won=won, lost=lost, directions=list(_directions(found).values())
    )
    if not won and not lost:
        return card("No clear difference from the other model", text, "fair")
    title = "Better" if not lost else "Worse" if not won else "Partly better, partly worse"
    tone = "good" if not lost else "bad" if not won else "fair"
    return card(f"{title} than the other model", text, tone)


def _deciding(numbers: dict) -> tuple[str, ...]:
    return OF_EVENT if numbers["positive"] else DECIDING


_SIDES = {True: ("too high", "too low"), False: ("over-confident", "under-confident")}


def _directions(numbers: dict) -> dict[str, str]:
    """For each model of `paired.compare`, on which side it is off.

    >>> gap = {"a": Interval(-0.2, -0.3, -0.1), "b": Interval(0.0, -0.1, 0.1)}
    >>> [x.replace("\\u00a0", " ") for x in _directions({"gap": gap, "positive": None}).values()]
    ['under-confident by 20 points [10, 30]', 'right on average (0 points [−10, +10])']
    """
    words = {}
    for model, gap in numbers["gap"].items():
        side, times = _SIDES[False][gap.estimate < 0], 0.0
        if numbers["positive"]:
            both = numbers["mean"][model], numbers["share"][model]
            side, times = _side_of_mean(gap, *both), _times(*both)
        if gap.outcome() not in ("higher", "lower"):
            words[model] = f"right on average ({change(gap)})"
            continue
        size = number(gap if gap.estimate > 0 else negative(gap), 100, POINTS)
        words[model] = f"{side} by {size}" + f" ({times:.2g} times)" * bool(times)
    return words


def better(name: str, difference: Interval) -> int:
    """1 if a difference in a metric favours the first model, -1 if the second, 0 if neither.

    >>> better("nll", Interval(0.2, 0.1, 0.3)), better("auroc", Interval(0.2, -0.1, 0.5))
    (-1, 0)
    """
    higher = terms.METRICS[name].higher
    side = {"higher": 1, "lower": -1}.get(difference.outcome(), 0)
    return 0 if higher is None else side if higher else -side


def compared(numbers: dict) -> list[dict[str, str]]:
    """For each metric that decides, which model beats which: ``title``, ``text``, ``tone``."""
    if numbers["doubts"]:
        return doubtful(numbers["doubts"])
    statements, models = [], numbers["models"]
    for name in _deciding(numbers):
        called, scale = label(name, numbers), terms.METRICS[name].scale
        wins = {m: set() for m in models}
        for pair in numbers["pairs"]:
            side = better(name, pair["difference"][name])
            if side:
                winner, loser = (pair["first"], pair["second"])[::side]
                wins[winner].add(loser)
        best = [m for m in models if len(wins[m]) == len(models) - 1]
        digits = 2 if scale > 1 else 4
        values = (
            f"{m} {found[name]._replace(low=math.nan, high=math.nan).format(scale, digits)}"
            for m, found in numbers["metrics"].items()
        )
        if best:
            others = "all others" if len(models) > 2 else min(wins[best[0]])
            title, tone = f"{called}: {best[0]} beats {others}", "good"
        elif any(wins.values()):
            each = [f"{m} beats {', '.join(sorted(w))}" for m, w in wins.items() if w]
            title, tone = f"{called}: {'; '.join(each)}", "fair"
        else:
            title, tone = f"{called}: no two can be told apart", "unsure"
        text = f"{', '.join(values)}{terms.UNITS[scale]}."
        if name == "excess_ece":
            sides = "; ".join(f"{m} is {side}" for m, side in _directions(numbers).items())
            text += f" Probability of “{numbers['positive']}”:" if numbers["positive"] else ""
            text += f" {sides}."
        statements.append(card(title, text, tone))
    return statements


# --- tables ---


def tables(numbers: Assessment) -> dict[str, pd.DataFrame]:
    """The numbers as tables of text, in page order; empty ones are left out.

    Parameters
    ----------
    numbers : Assessment

    Returns
    -------
    dict of str to pandas.DataFrame
        Any of "bins", "operating_points", "metrics", "recalibration", "points_after", "groups",
        "by_class", "predicted", "comparison"; of two classes "positive_bins" and "thresholds".

    Examples
    --------
    >>> from calibkit.report import assess
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> tables(assess(from_arrays(scores)))["bins"][["Samples", "Accuracy"]]
    Confidence   Samples               Accuracy
    0.53 to 0.60      20  100.0 % [83.9, 100.0]
    0.67 to 0.73      20      0.0 % [0.0, 16.1]
    0.87 to 0.93      20  100.0 % [83.9, 100.0]
    """
    positive, point = numbers.positive, numbers.main_point
    fitted = [name for name, row in numbers.recalibration.items() if "brier" in row]
    shown = {
        "bins": _bin_rows(numbers.reliability, "Confidence", "Accuracy"),
        "operating_points": [_point_row(row, numbers) for row in numbers.operating_points],
        "metrics": [  # without the terms of a paper's own decomposition of the ECE
            _metric_row(name, value)
            for name, value in numbers.metrics.items()
            if not name.startswith("eq9_")
        ],
        "recalibration": [_map_row(name, numbers) for name in fitted],
        "points_after": [_point_row(row, numbers) for row in numbers.points_after],
        "groups": [_group_row(row, point, positive) for row in numbers.groups],
        "by_class": [_class_row(row) for row in numbers.by_class],
        "predicted": [_group_row(row, point, kind="Answer") for row in numbers.predicted],
    }
    if positive:
        are = f"Are {positive.quoted}"
        shown["positive_bins"] = _bin_rows(positive.reliability, "Probability", are)
        shown["thresholds"] = _rule_rows(positive)
    frames = {name: framed(rows) for name, rows in shown.items() if rows}
    if numbers.comparison:
        frames["comparison"] = pd.concat(compared_tables(numbers.comparison).values()).T
        frames["comparison"].columns.name = "Metric"
    return frames


def framed(rows: list[dict[str, str]]) -> pd.DataFrame:
    """Rows as a table, with the first column in its corner."""
    frame = pd.DataFrame(rows)
    first = frame.columns[0]
    return frame.set_index(first).rename_axis(index=None, columns=first)


def _bin_rows(bins: Reliability, what: str, share: str) -> list[dict[str, str]]:
    return [
        {
            what: f"{bins.edges[i]:.2f} to {bins.edges[i + 1]:.2f}",
            "Samples": f"{bins.count[i]:,}",
            f"Mean {what.lower()}": percent(bins.confidence[i]),
            share: percent(Interval(*(float(x[i]) for x in (bins.accuracy, bins.low, bins.high)))),
        }
        for i in np.flatnonzero(bins.count)
    ]


def _point_row(p: dict, numbers: Assessment) -> dict[str, str]:
    return {
        "Target error": _round(p["target"]),
        "Threshold": decimals(p["threshold"]),
        "Accepted": percent(p["coverage"]) if p["accepted"] else "none",
        "Error among them" if numbers.validation else "Error to expect": percent(p["risk"]),
        "Wrong / accepted": f"{p['wrong']:,} / {p['accepted']:,}",
        "Target met?": "out of reach" if p["threshold"] is None else _MET[p["kept"]],
    }


_MET = {True: "yes", False: "no", None: "cannot tell"}


def _metric_row(name: str, value: Interval) -> dict[str, str]:
    label, scale, higher, meaning = terms.METRICS[name]
    return {
        "Metric": label,
        "Value [95 % interval]": number(value, scale, terms.UNITS[scale]),
        "Better": {True: "higher", False: "lower", None: "–"}[higher],
        "What it is": meaning,
    }


def _rule_rows(positive: Positive) -> list[dict[str, str]]:
    after = positive.thresholds_after or [None] * len(positive.thresholds)
    rows = []
    for row, then in zip(positive.thresholds, after, strict=True):
        judged = row["rule"] in ("precision", "recall") and row["threshold"] is not None
        thresholds = {"Threshold": decimals(row["threshold"])}
        if then:
            thresholds[f"After {positive.recommended}"] = decimals(then["threshold"])
        rows.append(
            {
                "Rule": say(None, "rule", row=row, name=positive.quoted),
                **thresholds,
                "Flagged": f"{row['flagged']:,} ({percent(row['share'].estimate)})",
                "Found": f"{row['found']:,} of {positive.positives:,}",
                "Precision": percent(row["precision"]) if row["flagged"] else "–",
                "Recall": percent(row["recall"]),
                "Rule kept?": _MET[row["kept"]] if judged else "–",
            }
        )
    return rows


def _map_row(name: str, numbers: Assessment) -> dict[str, str]:
    """What a recalibration does; of two classes, to the positive one."""
    row = numbers.recalibration[name]
    change = "–" if name == "none" else number(row["brier_change"], sign=True)
    if numbers.positive:
        at = numbers.positive.maps[name]
        found, flagged = at["decisions"]["found"], at["decisions"]["flagged"]
        return {
            "Recalibration": name,
            "Mean": percent(at["mean"]),
            "ECE": percent(at["ece"]),
            "Brier change": change,
            "NLL": number(row["nll"]),
            "Average precision": percent(at["average_precision"]),
            "Found / flagged at 0.5": f"{found:,} / {flagged:,}",
            "Flags as many at": "–" if at["same"] is None else decimals(at["same"]),
        }
    return {
        "Recalibration": name,
        "ECE": percent(row["ece"]),
        "Adaptive ECE": percent(row["adaptive_ece"]),
        "Brier score": f"{row['brier']:.4f}",
        "Brier change": change,
        "NLL": number(row["nll"]),
        "Accuracy": percent(row["accuracy"]),
        "AUROC": percent(row["auroc"]),
        "AURC": number(row["aurc"], 1000, terms.UNITS[1000]),
    }


def _group_row(
    row: dict, point: dict | None, positive: Positive | None = None, kind: str = "Group"
) -> dict[str, str]:
    few = "too few" if row["samples"] < FEW else "–"
    last = {}
    if positive:
        last = {"Flagged at 0.5": percent(row["coverage"].estimate)}
        last["Precision"] = percent(negative(row["risk"], 1))
    elif point:
        last = {"Accepted": percent(row["coverage"]), "Error among them": percent(row["risk"])}
    return {
        kind: row["group"],
        "Samples": f"{row['samples']:,}",
        f"Are {positive.quoted}" if positive else "Accuracy": percent(row["accuracy"]),
        "Mean probability" if positive else "Confidence": percent(row["confidence"]),
        **_off(row, bool(positive), few),
        "ROC AUC" if positive else "AUROC": percent(row["auroc"]),
        **last,
    }


def _class_row(row: dict) -> dict[str, str]:
    return {
        "Class": row["group"],
        "Samples": f"{row['samples']:,}",
        "Share of labels": percent(row["share"]),
        "Mean probability": percent(row["mean"]),
        **_off(row, True, "–"),
    }


def _off(row: dict, probability: bool, otherwise: str) -> dict[str, str]:
    words = _SIDES[probability][row["gap"].estimate < 0] if row["stands_out"] else otherwise
    return {"Gap": number(row["gap"], 100, sign=True), "Verdict": words}


def compared_tables(numbers: dict) -> dict[str, pd.DataFrame]:
    """``metrics`` (a row per model) and ``pairs`` (a row per pair), as text."""

    def header(name: str) -> str:
        return terms.header(name).replace(terms.METRICS[name].label, label(name, numbers))

    def row(found: dict[str, Interval], pair: bool) -> dict[str, str]:
        marks = {name: _MARKS[better(name, x) if pair else 0] for name, x in found.items()}
        return {
            header(name): number(found[name], terms.METRICS[name].scale, sign=pair) + mark
            for name, mark in marks.items()
        }

    own = [{"Model": model} | row(found, False) for model, found in numbers["metrics"].items()]
    pairs = [{"Pair": pair_name(pair)} | row(pair["difference"], True) for pair in numbers["pairs"]]
    return {"metrics": framed(own), "pairs": framed(pairs)}


_MARKS = {1: " ✓", -1: " ✗", 0: ""}


def pair_name(pair: dict) -> str:
    return f"{pair['first']} − {pair['second']}"


# --- numbers as text ---


def percent(value: float | Interval) -> str:
    """A share in per cent, with its interval if it has one.

    >>> percent(Interval(0.7134, 0.69, 0.73)).replace("\\u00a0", " ")
    '71.3 % [69.0, 73.0]'
    """
    return number(value, 100, terms.UNITS[100])


def change(value: float | Interval) -> str:
    """A difference of shares in points."""
    return number(value, 100, POINTS, sign=True)


def _round(target: float) -> str:
    return f"{100 * target:g}\u00a0%"


def negative(x: Interval, of: float = 0) -> Interval:
    """What is left of a whole: `of` minus the interval."""
    return Interval(of - x.estimate, of - x.high, of - x.low)


def decimals(confidence: float | None) -> str:
    """A threshold in all its digits, with at least two of its distance from 1.

    >>> decimals(0.93), decimals(0.99987), decimals(0.8125)
    ('0.930', '0.99987', '0.8125')
    """
    if confidence is None or not 0 < confidence < 1:
        return "–" if confidence is None else f"{confidence:g}"
    own = -Decimal(repr(confidence)).as_tuple().exponent
    return f"{confidence:.{max(1 - math.floor(math.log10(1 - confidence)), own, 2)}f}"


def number(value: float | Interval, scale: float = 1, unit: str = "", sign: bool = False) -> str:
    """Write a number as `Interval.format` does, whether or not it has an interval.

    >>> number(Interval(-0.012, -0.031, 0.007), sign=True), number(0.5)
    ('−0.012 [−0.031, +0.007]', '0.500')
    """
    interval = value if isinstance(value, Interval) else Interval(value, math.nan, math.nan)
    return interval.format(scale, unit=unit, sign=sign)


FILTERS = {
    "percent": percent,
    "share": _round,
    "points": lambda x: number(x, 100, POINTS),
    "change": change,
    "signed": lambda x: number(x, sign=True),
    "decimals": decimals,
    "whole": "{:,}".format,
}  # how templates write numbers
