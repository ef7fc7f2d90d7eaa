"""The sentences and tables of a report: what its numbers say, without figures."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd

from calibkit import posthoc, terms
from calibkit.curves import Reliability
from calibkit.report.assessment import OF_TWO, RECALIBRATIONS, Assessment
from calibkit.report.conformal import Sets
from calibkit.report.estimates import FEW
from calibkit.report.positive import Positive
from calibkit.stats import UNJUDGED, Interval

POINTS = "\u00a0points"

# --- words ---


def card(title: str, text: str, tone: str) -> dict[str, str]:
    """A statement; its tone is "good", "fair", "bad" or "unsure"."""
    return {"title": title, "text": text, "tone": tone}


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
    if numbers.positive:
        cards = [_on_probability, _on_positives, _on_decisions, _on_recalibration]
        cards += [_on_shift] if numbers.positive.shift else []
    else:
        cards = [_on_calibration, _on_errors, _on_threshold, _on_recalibration]
    cards += [_on_sets] if numbers.conformal else []
    cards += [_on_comparison] if numbers.comparison else []
    return [on(numbers) for on in cards]


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
    n, errors, checks, positive = numbers.samples, numbers.errors, numbers.checks, numbers.positive
    missing = 0 if numbers.pairs else numbers.classes - checks["classes_seen"]
    sentences = []
    if _leaks(numbers):
        sentences.append(
            f"{checks['overlap']:,} of {n:,} samples have scores identical to those of a "
            "validation sample, more than ties explain. If they are the same samples, thresholds "
            "and recalibration were partly judged on samples they were chosen on."
        )
    if positive:
        few, rare = positive.rarer
        if few < FEW:
            sentences.append(f"Only {few:,} of {n:,} samples are {rare}: most of this is a guess.")
        if positive.auroc.high < 0.5:
            sentences.append(
                f"{positive.quoted} gets lower probabilities than the rest. Is the other class "
                "the positive one, or do the labels not match the rows?"
            )
    else:
        if min(errors, n - errors) < FEW:
            few, kind = (errors, "wrong") if errors < FEW else (n - errors, "right")
            sentences.append(
                f"Only {few:,} of {n:,} answers are {kind}: how well right and wrong can be told "
                "apart is a guess."
            )
        worse = numbers.metrics["accuracy"].high < checks["majority"]
        if n >= FEW and worse and not numbers.pairs:
            sentences.append(
                "The model is right less often than if it always named the most common class "
                f"({percent(checks['majority'])}). Do the labels match the rows and columns?"
            )
    if missing:
        sentences.append(
            f"{missing:,} of {numbers.classes:,} classes never occur among the labels."
        )
    if checks["saturated"] > 0.01:
        sentences.append(
            f"{percent(checks['saturated'])} of the confidences are exactly 1, and no threshold "
            "can tell those apart. If the scores were rounded, save unrounded logits instead."
        )
    if n >= 100 and 0 < checks["distinct"] < 0.1 * n * (1 - checks["saturated"]):
        sentences.append(
            f"There are only {checks['distinct']:,} distinct confidences below 1, so many samples "
            "tie, and a threshold moves all of them at once. If the scores were rounded, save "
            "unrounded ones; a tree, or a confidence given in words, has no finer ones."
        )
    if checks["improbable"]:
        what = (
            "a right answer had a confidence of 0, or a wrong one a confidence of 1, or nearly so"
            if numbers.pairs
            else "the true class was given a probability of 0 or nearly 0"
        )
        sentences.append(
            f"In {checks['improbable']:,} of {n:,} samples {what}. An exact 0 makes the NLL "
            "infinite; here it counts as 1e-38 (2e-308 in double precision)."
        )
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
        return "Right on average, wrong in places", "fair"
    if numbers.samples < 100:
        return "Too few samples to say", "unsure"
    return "No sign of miscalibration", "good"


def _off_in(groups: list[dict]) -> str:
    """The groups that stand out, in a sentence."""
    off = [row for row in groups if row["stands_out"]]
    if not off:
        return ""
    worst = max(off, key=lambda row: abs(row["gap"].estimate))
    return (
        f" It is off in {len(off)} of {len(groups)} groups, most of all in "
        f"“{worst['group']}” ({number(worst['gap'], 100, ' points', sign=True)})."
    )


def _ranked(what: str, verb: str, auroc: float, few: int) -> tuple[str, str]:
    """Title and tone of how well something stands out."""
    levels = ((0.9, "well", "good"), (0.8, "fairly well", "fair"), (0.65, "poorly", "bad"))
    how, tone = next((words for least, *words in levels if auroc >= least), ("", "bad"))
    title = f"{what} {verb} out {how}" if how else f"{what} hardly {verb} out"
    return (title, tone) if few >= FEW else (f"{title}, judging by few samples", "unsure")


def _on_calibration(numbers: Assessment) -> dict[str, str]:
    gap, values, chance = numbers.gap, numbers.metrics, numbers.chance_ece
    side, size = gap.outcome(), abs(gap.estimate)
    title, tone = _if_not_off(numbers, values["ece"], chance)
    points, than = number(gap, 100, POINTS, sign=True), "apart"
    if side in ("higher", "lower"):
        much = "Slightly " if size < 0.01 else "Strongly " if size >= 0.05 else ""
        title = f"{much}{'over' if side == 'higher' else 'under'}-confident".capitalize()
        tone = "fair" if size < 0.01 else "bad"
        points = number(gap if side == "higher" else _negative(gap), 100, POINTS)
        than = "too much" if side == "higher" else "too little"
    text = (
        f"The model claims to be right in {percent(values['confidence'].estimate)} of cases and is "
        f"right in {percent(values['accuracy'].estimate)}: {points} {than}. Its calibration error "
        f"(ECE) is {percent(values['ece'].estimate)}; a perfectly calibrated model would show "
        f"{percent(chance)} by chance."
    )
    return card(title, text + _off_in(numbers.groups), tone)


def _on_errors(numbers: Assessment) -> dict[str, str]:
    errors, n, auroc = numbers.errors, numbers.samples, numbers.metrics["auroc"]
    few, wrong = min(errors, n - errors), f"{errors:,} of {n:,} answers are wrong"
    if few < 10:
        title = "Too few errors to say" if errors < 10 else "Too few right answers to say"
        text = f"{wrong}: too few to judge whether confidence tells right from wrong."
        return card(title, text, "unsure")
    title, tone = _ranked("Errors", "stand", auroc.estimate, few)
    text = (
        f"{wrong} ({percent(errors / n)}). Take one right and one wrong answer: the right one has "
        f"the higher confidence in {percent(auroc)} of cases (AUROC; 50\u00a0% is chance)."
    )
    return card(title, text, tone)


def _on_threshold(numbers: Assessment) -> dict[str, str]:
    point, error = numbers.main_point, 1 - numbers.metrics["accuracy"].estimate
    everything = f"Accepting every answer means {percent(error)} errors"
    if not numbers.operating_points:
        text = f"{everything}, so few that no lower target could be checked."
        return card("No threshold needed", text, "good")
    if point is None:
        text = f"{everything}; none of the thresholds tried gives clearly fewer."
        return card("No threshold to recommend", text, "unsure")
    wrong = (
        f"{percent(point['risk'])} of these are wrong"
        if numbers.validation
        else f"of the new cases it accepts, expect {percent(point['risk'])} to be wrong"
    )
    text = (
        f"Chosen for at most {_round(point['target'])} errors, this threshold accepts "
        f"{point['accepted']:,} of {numbers.samples:,} cases "
        f"({percent(point['coverage'])}); {wrong}. {everything}."
        + (" The threshold is for the scores as they are." if numbers.recommended else "")
    )
    title = f"Accept answers with a confidence of {decimals(point['threshold'])} or more"
    return card(title, text, {True: "good", None: "fair", False: "bad"}[point["kept"]])


def _on_recalibration(numbers: Assessment) -> dict[str, str]:
    results, positive, best = numbers.recalibration, numbers.positive, numbers.recommended
    if positive and positive.rarer[0] < 10:
        text = f"There are {positive.rarer[0]:,}; a map fitted to them would fit their chance."
        return card("Too few samples of one class to recalibrate", text, "unsure")
    if positive and positive.auroc.high < 0.5:
        text = (
            f"{positive.quoted} gets lower probabilities than the rest: what looks like a gain "
            "would only be a probability that no longer depends on the sample."
        )
        return card("No recalibration before the labels are clear", text, "unsure")
    before, infinite = results["none"], ""
    tried = [name for name, row in results.items() if name != "none" and "base" not in row]
    for name in tried:
        row = results[name]
        if "brier" not in row or row["brier_change"].high >= 0 or row["nll"] < math.inf:
            continue
        if best is None or row["brier"] < results[best]["brier"]:
            infinite = (
                f" {name.capitalize()} has a lower Brier score, but gives a probability of 0 "
                "to what then happens, so that its NLL is infinite."
            )
            break
    if best is None:
        gap = (positive or numbers).gap
        few = numbers.samples < 100
        title = "Too few samples to say" if few else "No clear gain from recalibration"
        text = (
            f"Neither {' nor '.join(tried)} clearly lowers the Brier score, which is "
            f"{before['brier']:.3f}, without raising the NLL.{infinite}"
        )
        return card(title, text, "good" if gap.low <= 0 <= gap.high else "unsure")
    after, leaks = results[best], _leaks(numbers)
    errors, of = (before["ece"], after["ece"]), ""
    if positive:
        errors = (positive.maps[name]["ece"] for name in ("none", best))
        of = f" of the probability of {positive.quoted}"
    text = (
        f"ECE{of} {' → '.join(map(percent, errors))}, Brier score {before['brier']:.3f} → "
        f"{after['brier']:.3f} (change {number(after['brier_change'], sign=True)}), "
        + ("partly on samples it was fitted on." if leaks else "on samples it had not seen.")
    )
    if "temperatures" in after:
        text += f" The temperature is {np.mean(after['temperatures']):.3g}; no answer changes."
    elif not positive and after["changed"]:
        text += (
            f" It changes {after['changed']:,} answers: accuracy {percent(before['accuracy'])} → "
            f"{percent(after['accuracy'])}."
        )
    if positive:
        text += _change_of_decisions(positive, best)
    elif numbers.points_after:
        text += " It needs thresholds of its own; they are listed further down."
    kind = (OF_TWO | RECALIBRATIONS).get(best)  # none of a map for another prevalence
    if name := next((name for name, of in posthoc.MAPS.items() if of is kind), None):
        text += f" To deploy it: calibkit recalibrate FILE --map {name} --save map.json."
    little = " a little" if after["brier"] > 0.95 * before["brier"] else ""
    title = f"{best.capitalize()} {'may' if leaks else 'would'} help{little}"
    return card(title, text + infinite, "unsure" if leaks else "fair")


def _change_of_decisions(positive: Positive, best: str) -> str:
    """What a recalibration does to decisions at the threshold that was in use."""
    old, new = (positive.maps[name]["decisions"] for name in ("none", best))
    if old["flagged"] == new["flagged"]:
        return " It changes no decision at a threshold of 0.5."
    words = (
        f" A threshold of 0.5 would no longer mean the same: it flags {new['flagged']:,} instead "
        f"of {old['flagged']:,} and finds {new['found']:,} instead of {old['found']:,} of the "
        f"{positive.positives:,}."
    )
    same = positive.maps[best]["same"]
    if same is not None:
        words += f" A threshold of {same:.3g} on the recalibrated probability flags as many as now."
    return words


def _on_sets(numbers: Assessment) -> dict[str, str]:
    found: Sets = numbers.conformal
    lac, aps = found.lac, found.aps

    def pair(row: dict, key: str, scale: float = 100) -> str:
        values = (row[when][key] for when in ("before", "after"))
        estimates = (scale * getattr(value, "estimate", value) for value in values)
        return " → ".join(f"{x:.{2 if scale == 1 else 1}f}" for x in estimates)

    ratio = aps["after"]["size"] / max(aps["before"]["size"], 1e-9)
    effect = "larger" if ratio > 1.05 else "smaller" if ratio < 0.95 else "no larger"
    evener = effect == "larger" and aps["after"]["class_gap"] < aps["before"]["class_gap"]
    title = f"Sets of answers: a temperature makes adaptive ones {effect}"
    text = (
        f"For sets that hold the truth in {100 * found.level:.0f}\u00a0% of cases (conformal "
        f"prediction): {pair(lac, 'size', 1)} classes by a threshold on the probability "
        f"(coverage {pair(lac, 'coverage')}\u00a0%), {pair(aps, 'size', 1)} by adding up "
        f"probabilities (coverage {pair(aps, 'coverage')}\u00a0%; over the classes it is off "
        f"by {pair(aps, 'class_gap')} points), without and with a temperature of "
        f"{found.temperature:.3g}."
    )
    return card(title + ", and evener" * evener, text, "fair")


# --- two classes ---


def _on_probability(numbers: Assessment) -> dict[str, str]:
    """The headline for two classes: the probability of the positive one beside its share."""
    positive, name = numbers.positive, numbers.positive.quoted
    gap, base, mean, at = positive.gap, positive.base_rate, positive.mean, positive.decisions
    few, rare = positive.rarer
    said = (
        f"On average the model gives {name} a probability of {percent(mean)}; "
        f"{percent(base)} of the samples are"
    )
    if few < 10:
        text = f"{said} ({few:,} samples of {rare})."
        return card(f"Too few samples of {rare} to say", text, "unsure")
    sure, ratio = gap.outcome() in ("higher", "lower"), mean / base.estimate
    title, tone = _if_not_off(numbers, positive.ece, positive.chance_ece)
    size = number(gap, 100, POINTS, sign=True)
    if sure:
        slight = abs(gap.estimate) < 0.01 and 0.8 < ratio < 1.25
        much = "slightly " if slight else "far " if not 0.5 < ratio < 2 else ""
        side = "high" if gap.estimate > 0 else "low"
        title, tone = f"Probability of {name} is {much}too {side}", "fair" if slight else "bad"
        size = f"{ratio:.2g} times too high" if ratio >= 1.5 else size
    text = f"{said}: {size}."
    if at["flagged"] >= FEW:
        text += (
            f" Where it says {name} (0.5 or more), it claims {percent(at['claimed'])} and is right "
            f"in {percent(at['precision'])}."
        )
    text += (
        f" Calibration error (ECE) of this probability: {percent(positive.ece.estimate)}; "
        f"chance alone: {percent(positive.chance_ece)}."
    )
    if sure and ratio >= 1.5 and base.estimate < 0.4:
        text += (
            " Class weights in training, or training on resampled data, are the usual cause of a "
            "mean so far above the base rate."
        )
    everywhere = all(row["stands_out"] for row in numbers.groups)
    return card(title, text + ("" if everywhere else _off_in(numbers.groups)), tone)


def _on_positives(numbers: Assessment) -> dict[str, str]:
    positive, name = numbers.positive, numbers.positive.quoted
    few, _ = positive.rarer
    if few < 10:
        text = f"{positive.positives:,} of {positive.samples:,} samples are {name}."
        return card("Too few samples to judge the ranking", text, "unsure")
    title, tone = _ranked(name, "stands", positive.auroc.estimate, few)
    text = (
        f"Take one sample that is {name} and one that is not: the first has the higher "
        f"probability in {percent(positive.auroc)} of cases (ROC AUC; 50\u00a0% is chance). "
        f"Average precision is {percent(positive.average_precision)}, where a random order would "
        f"have {percent(positive.base_rate.estimate)}."
    )
    return card(title, text, tone)


def _on_decisions(numbers: Assessment) -> dict[str, str]:
    positive, name = numbers.positive, numbers.positive.quoted
    at, row = positive.decisions, positive.thresholds[0]
    title, text = f"At 0.5 it never says {name}", f"All {positive.positives:,} are missed."
    if at["flagged"]:
        title = f"At 0.5, {at['false']:,} of {at['flagged']:,} flagged are not {name}"
        text = (
            f"A threshold of 0.5 flags {at['flagged']:,} of {positive.samples:,} samples "
            f"({percent(at['share'].estimate)}): precision {percent(at['precision'])}. It finds "
            f"{at['found']:,} of {positive.positives:,}: recall {percent(at['recall'])}."
        )
    text += f" {rule_in_words(row, name)}: "
    if row["threshold"] is None:
        return card(title, text + f"{'flag none' if 'cost' in row else 'none does'}.", "fair")
    text += (
        f"{decimals(row['threshold'])} or more, which flags {row['flagged']:,} with "
        f"precision {percent(row['precision'].estimate)} and recall "
        f"{percent(row['recall'].estimate)}"
    )
    if "cost" in row:
        text += (
            f": a mean cost of {row['cost']:.3g} false alarms a sample, which is "
            f"{row['cost_at_half']:.3g} at 0.5"
        )
    return card(title, text + ".", "fair")


def rule_in_words(row: dict, name: str) -> str:
    """A rule for a threshold as the start of a sentence.

    >>> rule_in_words({"rule": "budget", "value": 200}, "fraud")
    'To flag at most 200'
    """
    value = row["value"]
    if row["rule"] == "cost_ratio":
        return f"If a missed {name} costs {value:g} false alarms"
    if row["rule"] == "budget":
        return f"To flag at most {_round(value) if value < 1 else format(value, ',g')}"
    return f"For a {row['rule']} of {_round(value)}"


def _on_shift(numbers: Assessment) -> dict[str, str]:
    positive, results = numbers.positive, numbers.recalibration
    text = (
        f"{percent(positive.shift['validation'])} of the validation set and "
        f"{percent(positive.shift['test'])} of the test set are {positive.quoted}. What is fitted "
        "on the one is then off on the other."
    )
    if corrected := next((x for x in results if "base" in results[x]), None):
        row = results[corrected]
        base, after = (positive.maps[x]["ece"] for x in (row["base"], corrected))
        text += (
            f" If samples of each class look as before and only their shares have changed, the "
            f"scores alone say {percent(row['prior'])} (Saerens et al. 2002), and correcting "
            f"{row['base']} for it takes its ECE from {percent(base)} to {percent(after)}."
        )
    return card(f"{positive.quoted} is not as common as in validation", text, "unsure")


# --- a second model ---

_OF_POSITIVE = {  # what the metrics of confidence and correctness are for a probability
    "ece": "ECE of the probability",
    "excess_ece": "Excess ECE of the probability",
    "auroc": "ROC AUC",
    "aupr_success": "Average precision",
}


def _on_comparison(numbers: Assessment) -> dict[str, str]:
    won, lost, differences = [], [], numbers.comparison["difference"]
    names = ("accuracy", "excess_ece", "brier", "auroc", "aurc")
    judged = {name: (differences[name], terms.METRICS[name][0]) for name in names}
    if of := numbers.comparison["positive"]:
        own = {name: (of[name]["difference"], label) for name, label in _OF_POSITIVE.items()}
        judged = own | {"brier": judged["brier"]}
    for name, (difference, label) in judged.items():
        outcome = _better(name, difference)
        if not label[1].isupper() and name != "brier":  # no abbreviation
            label = label[0].lower() + label[1:]
        won += [label] * (outcome == "yours")
        lost += [label] * (outcome == "the other")
    parts = [f"{word} on {', '.join(x)}" for word, x in (("better", won), ("worse", lost)) if x]
    text = f"Compared with {numbers.against} on the same samples: "
    if not parts:
        title = "No clear difference from the other model"
        return card(title, text + "no metric is clearly better or worse.", "fair")
    title = "Better" if not lost else "Worse" if not won else "Partly better, partly worse"
    tone = "good" if not lost else "bad" if not won else "fair"
    return card(f"{title} than the other model", f"{text}{'; '.join(parts)}.", tone)


def _better(name: str, difference: Interval) -> str:
    """Which is better, as `stats.compare` decides: calibration errors by their excess only."""
    outcome, higher = difference.outcome(), terms.METRICS[name][2]
    if higher is None or outcome not in ("higher", "lower"):
        return "see its excess" if name in UNJUDGED else "–"
    return "yours" if (outcome == "higher") == higher else "the other"


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
        "points_after": [_point_row(row, numbers, brief=True) for row in numbers.points_after],
        "groups": [_group_row(row, point, positive) for row in numbers.groups],
        "by_class": [_class_row(row) for row in numbers.by_class],
        "predicted": [_group_row(row, point, kind="Answer") for row in numbers.predicted],
        "comparison": _comparison_rows(numbers),
    }
    if positive:
        are = f"Are {positive.quoted}"
        shown["positive_bins"] = _bin_rows(positive.reliability, "Probability", are)
        shown["thresholds"] = _rule_rows(positive)
    return {name: framed(rows) for name, rows in shown.items() if rows}


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


def _point_row(p: dict, numbers: Assessment, brief: bool = False) -> dict[str, str]:
    row = {
        "Target error": _round(p["target"]),
        "Threshold": decimals(p["threshold"]),
        "Cases answered": percent(p["coverage"]),
        "Error among them" if numbers.validation else "Error to expect": percent(p["risk"]),
    }
    if brief:
        return row
    wrong = f"{p['wrong']:,} / {p['accepted']:,}"
    return row | {"Wrong / answered": wrong, "Target met?": _MET[p["kept"]]}


_MET = {True: "yes", False: "no", None: "cannot tell"}


def _metric_row(name: str, value: Interval) -> dict[str, str]:
    label, scale, higher = terms.METRICS[name]
    return {
        "Metric": label,
        "Value [95 % interval]": number(value, scale, terms.UNITS[scale]),
        "Better": {True: "higher", False: "lower", None: "–"}[higher],
        "What it is": terms.MEANINGS[name],
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
                "Rule": rule_in_words(row, positive.quoted),
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
            "Flags as many at": "–" if at["same"] is None else f"{at['same']:.3g}",
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
    sides = ("too high", "too low") if positive else ("over-confident", "under-confident")
    last = {}
    if positive:
        precision = _negative(row["risk"], 1)
        last = {
            "Flagged at 0.5": percent(row["coverage"].estimate),
            "Precision": percent(precision),
        }
    elif point:
        last = {"Answered": percent(row["coverage"]), "Error among them": percent(row["risk"])}
    return {
        kind: row["group"],
        "Samples": f"{row['samples']:,}",
        f"Are {positive.quoted}" if positive else "Accuracy": percent(row["accuracy"]),
        "Mean probability" if positive else "Confidence": percent(row["confidence"]),
        **_off(row, sides, few),
        "ROC AUC" if positive else "AUROC": percent(row["auroc"]),
        **last,
    }


def _class_row(row: dict) -> dict[str, str]:
    return {
        "Class": row["group"],
        "Samples": f"{row['samples']:,}",
        "Share of labels": percent(row["share"]),
        "Mean probability": percent(row["mean"]),
        **_off(row, ("too high", "too low"), "–"),
    }


def _off(row: dict, sides: tuple[str, str], otherwise: str) -> dict[str, str]:
    words = sides[row["gap"].estimate <= 0] if row["stands_out"] else otherwise
    return {"Gap": number(row["gap"], 100, sign=True), "Verdict": words}


def _comparison_rows(numbers: Assessment) -> list[dict[str, str]]:
    if not numbers.comparison:
        return []
    found, of = numbers.comparison, numbers.comparison["positive"]
    shown = {
        name: (terms.METRICS[name][0], numbers.metrics[name], found["metrics"][name], difference)
        for name, difference in found["difference"].items()
    }
    if of:
        keys = ("yours", "other", "difference")
        own = {name: (label, *(of[name][k] for k in keys)) for name, label in _OF_POSITIVE.items()}
        shown = own | {name: shown[name] for name in ("nll", "brier")}
    rows = []
    for name, (label, yours, other, difference) in shown.items():
        scale = terms.METRICS[name][1]
        yours, other = (
            number(getattr(x, "estimate", x), scale, terms.UNITS[scale]) for x in (yours, other)
        )
        change = number(difference, scale, sign=True)
        row = {"Metric": label, "Yours": yours, "Other": other}
        row |= {"Difference [95 % interval]": change, "Better": _better(name, difference)}
        rows.append(row)
    return rows


# --- numbers as text ---


def percent(value: float | Interval) -> str:
    """A share in per cent, with its interval if it has one.

    >>> percent(Interval(0.7134, 0.69, 0.73)).replace("\\u00a0", " ")
    '71.3 % [69.0, 73.0]'
    """
    return number(value, 100, terms.UNITS[100])


def _round(target: float) -> str:
    return f"{100 * target:g}\u00a0%"


def _negative(x: Interval, of: float = 0) -> Interval:
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
