"""The sentences and tables of a report: what its numbers say, without figures."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd

from calibkit import posthoc, terms
from calibkit.curves import Reliability
from calibkit.report import conformal
from calibkit.report.assessment import OF_TWO, RECALIBRATIONS
from calibkit.report.estimates import FEW
from calibkit.stats import UNJUDGED, Interval

# --- words ---


def verdict(numbers: dict) -> list[dict[str, str]]:
    """Say in words what the numbers mean.

    Parameters
    ----------
    numbers : dict
        As `assess` returns them.

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
    if numbers["positive"]:
        statements = [_on_probability(numbers), _on_positives(numbers)]
        statements += [_on_decisions(numbers), _on_recalibration(numbers)]
        if numbers["positive"]["shift"]:
            statements.append(_on_shift(numbers))
    else:
        statements = [_on_calibration(numbers), _on_errors(numbers)]
        statements += [_on_threshold(numbers), _on_recalibration(numbers)]
    if numbers["conformal"]:
        statements.append(conformal.card(numbers["conformal"]))
    if numbers["comparison"]:
        statements.append(_on_comparison(numbers))
    return statements


def _leaks(numbers: dict) -> bool:
    """More test samples have the scores of a validation sample than ties explain."""
    checks, n = numbers["checks"], numbers["samples"]
    return checks["overlap"] - 1.2 * checks["tied"] > 0.01 * n


def cautions(numbers: dict) -> list[str]:
    """What a careful reader should know before believing the numbers.

    Parameters
    ----------
    numbers : dict
        As `assess` returns them.

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
    n, errors, checks = numbers["samples"], numbers["errors"], numbers["checks"]
    positive, sentences = numbers["positive"], []
    if _leaks(numbers):
        sentences.append(
            f"{checks['overlap']:,} of {n:,} samples have scores identical to those of a "
            "validation sample, more than ties explain. If they are the same samples, thresholds "
            "and recalibration were partly judged on samples they were chosen on."
        )
    if positive:
        few = min(positive["positives"], n - positive["positives"])
        rare = positive["name"] if few == positive["positives"] else positive["other"]
        if few < FEW:
            sentences.append(
                f"Only {few:,} of {n:,} samples are “{rare}”: most of this is a guess."
            )
        if positive["auroc"].high < 0.5:
            sentences.append(
                f"“{positive['name']}” gets lower probabilities than the rest. Is the other class "
                "the positive one, or do the labels not match the rows?"
            )
    else:
        if min(errors, n - errors) < FEW:
            few, kind = (errors, "wrong") if errors < FEW else (n - errors, "right")
            sentences.append(
                f"Only {few:,} of {n:,} answers are {kind}: how well right and wrong can be told "
                "apart is a guess."
            )
        worse = numbers["metrics"]["accuracy"].high < checks["majority"]
        if n >= FEW and worse and not numbers["pairs"]:
            sentences.append(
                "The model is right less often than if it always named the most common class "
                f"({percent(checks['majority'])}). Do the labels match the rows and columns?"
            )
    if checks["classes_seen"] < numbers["classes"] and not numbers["pairs"]:
        missing = numbers["classes"] - checks["classes_seen"]
        sentences.append(
            f"{missing:,} of {numbers['classes']:,} classes never occur among the labels."
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
            "unrounded ones; of a tree, or of confidences in words, there are no finer ones."
        )
    if checks["improbable"]:
        what = (
            "a right answer had a confidence of 0, or a wrong one a confidence of 1, or nearly so"
            if numbers["pairs"]
            else "the true class was given a probability of 0 or nearly 0"
        )
        sentences.append(
            f"In {checks['improbable']:,} of {n:,} samples {what}. An exact 0 makes the NLL "
            "infinite; here it counts as 1e-38 (2e-308 in double precision)."
        )
    for name, row in numbers["recalibration"].items():
        sentences += [f"{name.capitalize()}: {message}." for message in row.get("warnings", ())]
    return sentences


def _on_calibration(numbers: dict) -> dict[str, str]:
    gap, values, chance = numbers["gap"], numbers["metrics"], numbers["chance_ece"]
    size = abs(gap.estimate)
    sure = gap.low > 0 or gap.high < 0
    direction = "over-confident" if gap.estimate > 0 else "under-confident"
    uneven = values["ece"].estimate > chance.high
    outliers = [row for row in numbers["groups"] if row["stands_out"]]
    if sure:
        much = "Slightly " if size < 0.01 else "Strongly " if size >= 0.05 else ""
        title, tone = (much + direction).capitalize(), "fair" if size < 0.01 else "bad"
    elif uneven or outliers:
        title, tone = "Right on average, wrong in places", "fair"
    elif numbers["samples"] < 100:
        title, tone = "Too few samples to say", "unsure"
    else:
        title, tone = "No sign of miscalibration", "good"
    points = number(gap, 100, "\u00a0points", sign=not sure)
    if gap.high < 0:
        points = number(Interval(-gap.estimate, -gap.high, -gap.low), 100, "\u00a0points")
    text = (
        f"The model claims to be right in {percent(values['confidence'].estimate)} of cases and is "
        f"right in {percent(values['accuracy'].estimate)}: {points} "
        + ("too much." if gap.low > 0 else "too little." if gap.high < 0 else "apart.")
    )
    text += (
        f" Its calibration error (ECE) is {percent(values['ece'].estimate)}; a perfectly "
        f"calibrated model would show {percent(chance)} by chance."
    )
    if outliers:
        worst = max(outliers, key=lambda row: abs(row["gap"].estimate))
        text += (
            f" It is off in {len(outliers)} of {len(numbers['groups'])} groups, most of all in "
            f"“{worst['group']}” ({number(worst['gap'], 100, ' points', sign=True)})."
        )
    return {"title": title, "text": text, "tone": tone}


def _on_errors(numbers: dict) -> dict[str, str]:
    errors, n, auroc = numbers["errors"], numbers["samples"], numbers["metrics"]["auroc"]
    if min(errors, n - errors) < 10:
        few = f"{errors:,} of {n:,} answers are wrong"
        return {
            "title": "Too few errors to say" if errors < 10 else "Too few right answers to say",
            "text": f"{few}: too few to judge whether confidence tells right from wrong.",
            "tone": "unsure",
        }
    title, tone = next(
        words
        for least, words in (
            (0.9, ("Errors stand out well", "good")),
            (0.8, ("Errors stand out fairly well", "fair")),
            (0.65, ("Errors stand out poorly", "bad")),
            (0, ("Errors hardly stand out", "bad")),
        )
        if auroc.estimate >= least
    )
    text = (
        f"{errors:,} of {n:,} answers are wrong ({percent(errors / n)}). Take one right and one "
        f"wrong answer: the right one has the higher confidence in {percent(auroc)} of cases "
        "(AUROC; 50\u00a0% is chance)."
    )
    if min(errors, n - errors) < FEW:
        title, tone = title + ", judging by few samples", "unsure"
    return {"title": title, "text": text, "tone": tone}


def _on_threshold(numbers: dict) -> dict[str, str]:
    point, error = numbers["main_point"], 1 - numbers["metrics"]["accuracy"].estimate
    everything = f"Accepting every answer means {percent(error)} errors"
    if not numbers["operating_points"]:
        return {
            "title": "No threshold needed",
            "text": f"{everything}, so few that no lower target could be checked.",
            "tone": "good",
        }
    if point is None:
        return {
            "title": "No threshold to recommend",
            "text": f"{everything}; none of the thresholds tried gives clearly fewer.",
            "tone": "unsure",
        }
    wrong = (
        f"{percent(point['risk'])} of these are wrong"
        if numbers["validation"]
        else f"of the new cases it accepts, expect {percent(point['risk'])} to be wrong"
    )
    text = (
        f"Chosen for at most {_round(point['target'])} errors, this threshold accepts "
        f"{point['accepted']:,} of {numbers['samples']:,} cases "
        f"({percent(point['coverage'])}); {wrong}. {everything}."
        + (" The threshold is for the scores as they are." if numbers["recommended"] else "")
    )
    tone = {True: "good", None: "fair", False: "bad"}[point["kept"]]
    title = f"Accept answers with a confidence of {decimals(point['threshold'])} or more"
    return {"title": title, "text": text, "tone": tone}


def _on_recalibration(numbers: dict) -> dict[str, str]:
    results, positive = numbers["recalibration"], numbers["positive"]
    best, before = numbers["recommended"], results["none"]
    if positive:
        few = min(positive["positives"], positive["samples"] - positive["positives"])
        if few < 10:
            return {
                "title": "Too few samples of one class to recalibrate",
                "text": f"There are {few:,}; a map fitted to them would fit their chance.",
                "tone": "unsure",
            }
        if positive["auroc"].high < 0.5:
            return {
                "title": "No recalibration before the labels are clear",
                "text": f"{_quoted(numbers)} gets lower probabilities than the rest: what looks "
                "like a gain would only be a probability that no longer depends on the sample.",
                "tone": "unsure",
            }
    tried = [name for name in results if name != "none" and "base" not in results[name]]
    ruled_out = [
        name
        for name in tried
        if "brier" in results[name]
        and results[name]["brier_change"].high < 0
        and results[name]["nll"] == math.inf
        and (best is None or results[name]["brier"] < results[best]["brier"])
    ]
    infinite = ""
    if ruled_out:
        infinite = (
            f" {ruled_out[0].capitalize()} has a lower Brier score, but gives a probability of 0 "
            "to what then happens, so that its NLL is infinite."
        )
    if best is None:
        few, gap = numbers["samples"] < 100, (positive or numbers)["gap"]
        return {
            "title": "Too few samples to say" if few else "No clear gain from recalibration",
            "text": f"Neither {' nor '.join(tried)} clearly lowers the Brier score, which is "
            f"{before['brier']:.3f}, without raising the NLL.{infinite}",
            "tone": "good" if gap.low <= 0 <= gap.high else "unsure",
        }
    after = results[best]
    change = number(after["brier_change"], 1, "", sign=True)
    leaks, of = _leaks(numbers), ""
    errors = before["ece"], after["ece"]
    if positive:
        errors = positive["maps"]["none"]["ece"], positive["maps"][best]["ece"]
        of = f" of the probability of “{positive['name']}”"
    text = (
        f"ECE{of} {percent(errors[0])} → {percent(errors[1])}, Brier score "
        f"{before['brier']:.3f} → {after['brier']:.3f} (change {change})"
    )
    text += ", partly on samples it was fitted on." if leaks else ", on samples it had not seen."
    if "temperatures" in after:
        text += f" The temperature is {np.mean(after['temperatures']):.3g}; no answer changes."
    elif not positive and after["changed"]:
        text += (
            f" It changes {after['changed']:,} answers: accuracy {percent(before['accuracy'])} → "
            f"{percent(after['accuracy'])}."
        )
    if positive:
        text += _change_of_decisions(positive, best)
    elif numbers["points_after"]:
        text += " It needs thresholds of its own, which are in the table below it."
    kind = (OF_TWO | RECALIBRATIONS).get(best)  # none of a map for another prevalence
    name = next((name for name, of in posthoc.MAPS.items() if kind and of is kind), None)
    if name:
        text += f" To deploy it: calibkit recalibrate FILE --map {name} --save map.json."
    little = " a little" if after["brier"] > 0.95 * before["brier"] else ""
    title = f"{best.capitalize()} {'may' if leaks else 'would'} help{little}"
    return {"title": title, "text": text + infinite, "tone": "unsure" if leaks else "fair"}


def _change_of_decisions(positive: dict, best: str) -> str:
    """What a recalibration does to decisions at the threshold that was in use."""
    old, new = (positive["maps"][name]["decisions"] for name in ("none", best))
    if old["flagged"] == new["flagged"]:
        return " It changes no decision at a threshold of 0.5."
    words = (
        f" A threshold of 0.5 would no longer mean the same: it flags {new['flagged']:,} instead "
        f"of {old['flagged']:,} and finds {new['found']:,} instead of {old['found']:,} of the "
        f"{positive['positives']:,}."
    )
    same = positive["maps"][best]["same"]
    if same is not None:
        words += f" A threshold of {same:.3g} on the recalibrated probability flags as many as now."
    return words


# --- two classes ---


def _quoted(numbers: dict) -> str:
    return f"“{numbers['positive']['name']}”"


def _on_probability(numbers: dict) -> dict[str, str]:
    """The headline for two classes: the probability of the positive one beside its share."""
    positive, name = numbers["positive"], _quoted(numbers)
    gap, base, mean = positive["gap"], positive["base_rate"], positive["mean"]
    few = min(positive["positives"], positive["samples"] - positive["positives"])
    said = (
        f"On average the model gives {name} a probability of {percent(mean)}; "
        f"{percent(base)} of the samples are"
    )
    if few < 10:
        which = name if few == positive["positives"] else f"“{positive['other']}”"
        return {
            "title": f"Too few samples of {which} to say",
            "text": f"{said} ({few:,} samples of {which}).",
            "tone": "unsure",
        }
    sure = gap.low > 0 or gap.high < 0
    ratio = mean / base.estimate
    uneven = positive["ece"].estimate > positive["chance_ece"].high
    outliers = [row for row in numbers["groups"] if row["stands_out"]]
    if sure:
        slight = abs(gap.estimate) < 0.01 and 0.8 < ratio < 1.25
        much = "slightly " if slight else "far " if not 0.5 < ratio < 2 else ""
        side = "high" if gap.estimate > 0 else "low"
        title, tone = f"Probability of {name} is {much}too {side}", "fair" if slight else "bad"
        size = number(gap, 100, "\u00a0points", sign=True)
        text = f"{said}: {f'{ratio:.2g} times too high' if ratio >= 1.5 else size}."
    else:
        text = f"{said}: {number(gap, 100, chr(160) + 'points', sign=True)}."
        title, tone = "No sign of miscalibration", "good"
        if uneven or outliers:
            title, tone = "Right on average, wrong in places", "fair"
        elif numbers["samples"] < 100:
            title, tone = "Too few samples to say", "unsure"
    at = positive["decisions"]
    if at["flagged"] >= FEW:
        text += (
            f" Where it says {name} (0.5 or more), it claims {percent(at['claimed'])} and is right "
            f"in {percent(at['precision'])}."
        )
    text += (
        f" Calibration error (ECE) of this probability: {percent(positive['ece'].estimate)}; "
        f"chance alone: {percent(positive['chance_ece'])}."
    )
    if sure and ratio >= 1.5 and base.estimate < 0.4:
        text += (
            " Class weights in training, or training on resampled data, are the usual cause of a "
            "mean so far above the base rate."
        )
    if 0 < len(outliers) < len(numbers["groups"]):
        worst = max(outliers, key=lambda row: abs(row["gap"].estimate))
        text += (
            f" It is off in {len(outliers)} of {len(numbers['groups'])} groups, most of all in "
            f"“{worst['group']}” ({number(worst['gap'], 100, ' points', sign=True)})."
        )
    return {"title": title, "text": text, "tone": tone}


def _on_positives(numbers: dict) -> dict[str, str]:
    positive, name = numbers["positive"], _quoted(numbers)
    auroc, found, n = positive["auroc"], positive["positives"], positive["samples"]
    few = min(found, n - found)
    if few < 10:
        return {
            "title": "Too few samples to judge the ranking",
            "text": f"{found:,} of {n:,} samples are {name}.",
            "tone": "unsure",
        }
    title, tone = next(
        words
        for least, words in (
            (0.9, (f"{name} stands out well", "good")),
            (0.8, (f"{name} stands out fairly well", "fair")),
            (0.65, (f"{name} stands out poorly", "bad")),
            (0, (f"{name} hardly stands out", "bad")),
        )
        if auroc.estimate >= least
    )
    text = (
        f"Take one sample that is {name} and one that is not: the first has the higher "
        f"probability in {percent(auroc)} of cases (ROC AUC; 50\u00a0% is chance). Average "
        f"precision is {percent(positive['average_precision'])}, where a random order would have "
        f"{percent(positive['base_rate'].estimate)}."
    )
    if few < FEW:
        title, tone = title + ", judging by few samples", "unsure"
    return {"title": title, "text": text, "tone": tone}


def _on_decisions(numbers: dict) -> dict[str, str]:
    positive, name = numbers["positive"], _quoted(numbers)
    at, n = positive["decisions"], positive["samples"]
    if not at["flagged"]:
        title = f"At 0.5 it never says {name}"
        text = f"All {positive['positives']:,} are missed."
    else:
        title = f"At 0.5, {at['false']:,} of {at['flagged']:,} flagged are not {name}"
        text = (
            f"A threshold of 0.5 flags {at['flagged']:,} of {n:,} samples "
            f"({percent(at['share'].estimate)}): precision {percent(at['precision'])}. It finds "
            f"{at['found']:,} of {positive['positives']:,}: recall {percent(at['recall'])}."
        )
    row = positive["thresholds"][0]
    words = rule_in_words(row, name)
    if row["threshold"] is None:
        text += f" {words}: flag none." if row["rule"] == "cost_ratio" else f" {words}: none does."
    else:
        text += (
            f" {words}: {decimals(row['threshold'])} or more, which flags {row['flagged']:,} with "
            f"precision {percent(row['precision'].estimate)} and recall "
            f"{percent(row['recall'].estimate)}"
        )
        if row["rule"] == "cost_ratio":
            text += (
                f": a mean cost of {row['cost']:.3g} false alarms a sample, which is "
                f"{row['cost_at_half']:.3g} at 0.5"
            )
        text += "."
    return {"title": title, "text": text, "tone": "fair"}


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


def _on_shift(numbers: dict) -> dict[str, str]:
    positive, name = numbers["positive"], _quoted(numbers)
    shift, results = positive["shift"], numbers["recalibration"]
    text = (
        f"{percent(shift['validation'])} of the validation set and {percent(shift['test'])} of the "
        f"test set are {name}. What is fitted on the one is then off on the other."
    )
    corrected = next((x for x in results if "base" in results[x]), None)
    if corrected:
        row = results[corrected]
        base, after = (positive["maps"][x]["ece"] for x in (row["base"], corrected))
        text += (
            f" If samples of each class look as before and only their shares have changed, the "
            f"scores alone say {percent(row['prior'])} (Saerens et al. 2002), and correcting "
            f"{row['base']} for it takes its ECE from {percent(base)} to {percent(after)}."
        )
    return {"title": f"{name} is not as common as in validation", "text": text, "tone": "unsure"}


_OF_POSITIVE = {  # what the metrics of confidence and correctness are for a probability
    "ece": "ECE of the probability",
    "excess_ece": "Excess ECE of the probability",
    "auroc": "ROC AUC",
    "aupr_success": "Average precision",
}


def _on_comparison(numbers: dict) -> dict[str, str]:
    won, lost = [], []
    differences = numbers["comparison"]["difference"]
    judged = {
        name: (differences[name], terms.METRICS[name][0])
        for name in ("accuracy", "excess_ece", "brier", "auroc", "aurc")
    }
    if of := numbers["comparison"]["positive"]:
        judged = {name: (of[name]["difference"], label) for name, label in _OF_POSITIVE.items()}
        judged["brier"] = differences["brier"], terms.METRICS["brier"][0]
    for name, (difference, label) in judged.items():
        outcome = _better(name, difference)
        if not label[1].isupper():  # no abbreviation
            label = label[0].lower() + label[1:] if name != "brier" else label
        won += [label] * (outcome == "yours")
        lost += [label] * (outcome == "the other")
    either = (("better", won), ("worse", lost))
    parts = [f"{word} on {', '.join(names)}" for word, names in either if names]
    title = "No clear difference from the other model"
    if parts:
        title = "Better" if not lost else "Worse" if not won else "Partly better, partly worse"
        title += " than the other model"
    text = f"Compared with {numbers['against']} on the same samples: "
    text += ("; ".join(parts) if parts else "no metric is clearly better or worse") + "."
    tone = "fair" if not parts or (won and lost) else "good" if won else "bad"
    return {"title": title, "text": text, "tone": tone}


def _better(name: str, difference: Interval) -> str:
    """Which is better, as `stats.compare` decides: calibration errors by their excess only."""
    outcome, higher = difference.outcome(), terms.METRICS[name][2]
    if higher is None or outcome not in ("higher", "lower"):
        return "see its excess" if name in UNJUDGED else "–"
    return "yours" if (outcome == "higher") == higher else "the other"


# --- tables ---


def tables(numbers: dict) -> dict[str, pd.DataFrame]:
    """The numbers as tables of text, in page order; empty ones are left out.

    Parameters
    ----------
    numbers : dict
        As `assess` returns them.

    Returns
    -------
    dict of str to pandas.DataFrame
        Any of "bins", "operating_points", "metrics", "recalibration", "groups", "predicted",
        "comparison".

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
    shown = {
        "bins": _bins_table(numbers["reliability"]),
        "operating_points": [
            {
                "Target error": _round(p["target"]),
                "Threshold": decimals(p["threshold"]),
                "Cases answered": percent(p["coverage"]),
                "Error among them" if numbers["validation"] else "Error to expect": percent(
                    p["risk"]
                ),
                "Wrong / answered": f"{p['wrong']:,} / {p['accepted']:,}",
                "Target met?": {True: "yes", False: "no", None: "cannot tell"}[p["kept"]],
            }
            for p in numbers["operating_points"]
        ],
        "metrics": [  # without the terms of a paper's own decomposition of the ECE
            _metric_row(name, value)
            for name, value in numbers["metrics"].items()
            if not name.startswith("eq9_")
        ],
        "recalibration": [
            (_map_row if numbers["positive"] else _recalibration_row)(name, numbers)
            for name, scores in numbers["recalibration"].items()
            if "brier" in scores
        ],
        "points_after": [
            {
                "Target error": _round(p["target"]),
                "Threshold": decimals(p["threshold"]),
                "Cases answered": percent(p["coverage"]),
                "Error among them" if numbers["validation"] else "Error to expect": percent(
                    p["risk"]
                ),
            }
            for p in numbers["points_after"]
        ],
        "groups": [
            _positive_group_row(row, numbers["positive"])
            if numbers["positive"]
            else _group_row(row, numbers["main_point"])
            for row in numbers["groups"]
        ],
        "by_class": [_class_row(row) for row in numbers["by_class"]],
        "predicted": [
            _group_row(row, numbers["main_point"], "Answer") for row in numbers["predicted"]
        ],
        "comparison": _comparison_table(numbers),
    }
    if positive := numbers["positive"]:
        shown |= {
            "positive_bins": _bins_table(positive["reliability"], positive["name"]),
            "thresholds": _rule_rows(positive),
        }
    return {name: _frame(rows) for name, rows in shown.items() if rows}


def _frame(rows: list[dict[str, str]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    first = frame.columns[0]  # shown in the corner of the table
    return frame.set_index(first).rename_axis(index=None, columns=first)


def _bins_table(bins: Reliability, positive: str = "") -> list[dict[str, str]]:
    edges, what = bins.edges, "Probability" if positive else "Confidence"
    return [
        {
            what: f"{edges[i]:.2f} to {edges[i + 1]:.2f}",
            "Samples": f"{bins.count[i]:,}",
            f"Mean {what.lower()}": percent(bins.confidence[i]),
            f"Are “{positive}”" if positive else "Accuracy": percent(
                Interval(*(float(x[i]) for x in (bins.accuracy, bins.low, bins.high)))
            ),
        }
        for i in np.flatnonzero(bins.count)
    ]


def _metric_row(name: str, value: Interval) -> dict[str, str]:
    label, scale, higher = terms.METRICS[name]
    return {
        "Metric": label,
        "Value [95 % interval]": number(value, scale, terms.UNITS[scale]),
        "Better": {True: "higher", False: "lower", None: "–"}[higher],
        "What it is": terms.MEANINGS[name],
    }


def _rule_rows(positive: dict) -> list[dict[str, str]]:
    after = positive["thresholds_after"] or [None] * len(positive["thresholds"])
    rows = zip(positive["thresholds"], after, strict=True)
    return [_rule_row(row, other, positive) for row, other in rows]


def _rule_row(row: dict, after: dict | None, positive: dict) -> dict[str, str]:
    share = percent(row["share"].estimate)
    then = {f"After {positive['recommended']}": decimals(after["threshold"])} if after else {}
    return {
        "Rule": rule_in_words(row, f"“{positive['name']}”"),
        "Threshold": decimals(row["threshold"]),
        **then,
        "Flagged": f"{row['flagged']:,} ({share})",
        "Found": f"{row['found']:,} of {positive['positives']:,}",
        "Precision": percent(row["precision"]) if row["flagged"] else "–",
        "Recall": percent(row["recall"]),
        "Rule kept?": {True: "yes", False: "no", None: "cannot tell"}[row["kept"]]
        if row["rule"] in ("precision", "recall") and row["threshold"] is not None
        else "–",
    }


def _map_row(name: str, numbers: dict) -> dict[str, str]:
    """A recalibration by what it does to the positive class."""
    scores, at = numbers["recalibration"][name], numbers["positive"]["maps"][name]
    change = number(scores["brier_change"], 1, "", sign=True)
    return {
        "Recalibration": name,
        "Mean": percent(at["mean"]),
        "ECE": percent(at["ece"]),
        "Brier change": "–" if name == "none" else change,
        "NLL": number(scores["nll"], 1, ""),
        "Average precision": percent(at["average_precision"]),
        "Found / flagged at 0.5": f"{at['decisions']['found']:,} / {at['decisions']['flagged']:,}",
        "Flags as many at": "–" if at["same"] is None else f"{at['same']:.3g}",
    }


def _positive_group_row(row: dict, positive: dict) -> dict[str, str]:
    words = "too high" if row["gap"].estimate > 0 else "too low"
    risk = row["risk"]
    precision = Interval(1 - risk.estimate, 1 - risk.high, 1 - risk.low)
    return {
        "Group": row["group"],
        "Samples": f"{row['samples']:,}",
        f"Are “{positive['name']}”": percent(row["accuracy"]),
        "Mean probability": percent(row["confidence"]),
        "Gap": number(row["gap"], 100, "", sign=True),
        "Verdict": words if row["stands_out"] else "too few" if row["samples"] < FEW else "–",
        "ROC AUC": percent(row["auroc"]),
        "Flagged at 0.5": percent(row["coverage"].estimate),
        "Precision": percent(precision),
    }


def _class_row(row: dict) -> dict[str, str]:
    words = "too high" if row["gap"].estimate > 0 else "too low"
    return {
        "Class": row["group"],
        "Samples": f"{row['samples']:,}",
        "Share of labels": percent(row["share"]),
        "Mean probability": percent(row["mean"]),
        "Gap": number(row["gap"], 100, "", sign=True),
        "Verdict": words if row["stands_out"] else "–",
    }


def _recalibration_row(name: str, numbers: dict) -> dict[str, str]:
    scores = numbers["recalibration"][name]
    change = number(scores["brier_change"], 1, "", sign=True)
    return {
        "Recalibration": "none" if name == "none" else name,
        "ECE": percent(scores["ece"]),
        "Adaptive ECE": percent(scores["adaptive_ece"]),
        "Brier score": f"{scores['brier']:.4f}",
        "Brier change": "–" if name == "none" else change,
        "NLL": number(scores["nll"], 1, ""),
        "Accuracy": percent(scores["accuracy"]),
        "AUROC": percent(scores["auroc"]),
        "AURC": number(scores["aurc"], 1000, "\u00a0‰"),
    }


def _group_row(row: dict, point: dict | None, kind: str = "Group") -> dict[str, str]:
    gap = row["gap"]
    words = "over-confident" if gap.estimate > 0 else "under-confident"
    return {
        kind: row["group"],
        "Samples": f"{row['samples']:,}",
        "Accuracy": percent(row["accuracy"]),
        "Confidence": percent(row["confidence"]),
        "Gap": number(gap, 100, "", sign=True),
        "Verdict": words if row["stands_out"] else "too few" if row["samples"] < FEW else "–",
        "AUROC": percent(row["auroc"]),
    } | (
        {"Answered": percent(row["coverage"]), "Error among them": percent(row["risk"])}
        if point
        else {}
    )


def _comparison_table(numbers: dict) -> list[dict[str, str]]:
    if not numbers["comparison"]:
        return []
    found, of = numbers["comparison"], numbers["comparison"]["positive"] or {}
    shown = [
        (name, label, *(of[name][key] for key in ("yours", "other", "difference")))
        for name, label in _OF_POSITIVE.items()
        if of
    ]
    shown += [
        (
            name,
            terms.METRICS[name][0],
            numbers["metrics"][name].estimate,
            found["metrics"][name],
            difference,
        )
        for name, difference in found["difference"].items()
        if not of or name in ("nll", "brier")
    ]
    rows = []
    for name, label, yours, other, difference in shown:
        _, scale, _ = terms.METRICS[name]
        unit = terms.UNITS[scale]
        rows.append(
            {
                "Metric": label,
                "Yours": number(yours, scale, unit),
                "Other": number(other, scale, unit),
                "Difference [95 % interval]": number(difference, scale, "", sign=True),
                "Better": _better(name, difference),
            }
        )
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
