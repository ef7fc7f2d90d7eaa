"""The sentences and tables of a report: what its numbers say, without figures."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd

from calibkit import posthoc, terms
from calibkit.report import conformal
from calibkit.report.assessment import FEW, RECALIBRATIONS
from calibkit.stats import Interval, Unjudged

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
    >>> [statement["title"] for statement in verdict(assess(from_arrays(scores)))][::3]
    ['Right on average, wrong in places', 'Histogram binning would help']
    """
    statements = [_on_calibration(numbers), _on_errors(numbers)]
    statements += [_on_threshold(numbers), _on_recalibration(numbers)]
    if numbers["conformal"]:
        statements.append(conformal.card(numbers["conformal"]))
    if numbers["comparison"]:
        statements.append(_on_comparison(numbers))
    return statements


def _leaks(numbers: dict) -> bool:
    """More than a few test samples are also in the validation set."""
    return numbers["checks"]["overlap"] > 0.01 * numbers["samples"]


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
    'Only 20 of 60 answers are wrong: how well right and wrong can be told apart is a guess.'
    """
    n, errors, checks = numbers["samples"], numbers["errors"], numbers["checks"]
    sentences = []
    if _leaks(numbers):
        sentences.append(
            f"{checks['overlap']:,} of {n:,} samples are also in the validation set, so thresholds "
            "and recalibration were partly judged on samples they were chosen on."
        )
    if min(errors, n - errors) < FEW:
        few, kind = (errors, "wrong") if errors < FEW else (n - errors, "right")
        sentences.append(
            f"Only {few:,} of {n:,} answers are {kind}: how well right and wrong can be told apart "
            "is a guess."
        )
    if n >= FEW and numbers["metrics"]["accuracy"].high < checks["majority"]:
        sentences.append(
            "The model is right less often than if it always named the most common class "
            f"({percent(checks['majority'])}). Do the labels match the rows and columns?"
        )
    if checks["classes_seen"] < numbers["classes"]:
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
            "tie. If the scores were rounded, save unrounded logits instead."
        )
    if checks["improbable"]:
        sentences.append(
            f"In {checks['improbable']:,} of {n:,} samples the true class was given a probability "
            "of 0 or nearly 0. An exact 0 makes the NLL infinite; here it counts as 1e-38 (2e-308 "
            "in double precision)."
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
    )
    tone = {True: "good", None: "fair", False: "bad"}[point["kept"]]
    title = f"Accept answers with a confidence of {decimals(point['threshold'])} or more"
    return {"title": title, "text": text, "tone": tone}


def _on_recalibration(numbers: dict) -> dict[str, str]:
    results = numbers["recalibration"]
    helping = [
        x for x in RECALIBRATIONS if "brier" in results[x] and results[x]["brier_change"].high < 0
    ]
    low, high = posthoc.RANGE
    fitted = results["temperature scaling"].get("temperatures", [])
    if not all(1.01 * low < t < high / 1.01 for t in fitted):  # no minimum: too few errors
        helping = [x for x in helping if x != "temperature scaling"]
    before = results["none"]
    if not helping:
        few = numbers["samples"] < 100
        return {
            "title": "Too few samples to say" if few else "No clear gain from recalibration",
            "text": "Neither temperature scaling nor histogram binning nor isotonic regression "
            f"clearly lowers the Brier score, which is {before['brier']:.3f}.",
            "tone": "good" if numbers["gap"].low <= 0 <= numbers["gap"].high else "unsure",
        }
    best = min(helping, key=lambda name: results[name]["brier"])
    after = results[best]
    change = number(after["brier_change"], 1, "", sign=True)
    text = (
        f"ECE {percent(before['ece'])} → {percent(after['ece'])}, Brier score "
        f"{before['brier']:.3f} → {after['brier']:.3f} (change {change})"
    )
    leaks = _leaks(numbers)
    text += ", partly on samples it was fitted on." if leaks else ", on samples it had not seen."
    if best == "temperature scaling":
        text += f" The temperature is {np.mean(after['temperatures']):.3g}; no answer changes."
    text += " Recalibrate first, then choose the threshold."
    little = " a little" if after["brier"] > 0.95 * before["brier"] else ""
    title = f"{best.capitalize()} {'may' if leaks else 'would'} help{little}"
    return {"title": title, "text": text, "tone": "unsure" if leaks else "fair"}


def _on_comparison(numbers: dict) -> dict[str, str]:
    won, lost = [], []
    for name in ("accuracy", "excess_ece", "brier", "auroc", "aurc"):
        outcome = _better(name, numbers["comparison"]["difference"][name])
        label = terms.METRICS[name][0]
        if name in ("accuracy", "excess_ece"):  # no name and no abbreviation
            label = label[0].lower() + label[1:]
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
    verdict, higher = difference.verdict, terms.METRICS[name][2]
    if higher is None or verdict not in ("higher", "lower"):
        return verdict if isinstance(difference, Unjudged) else "–"
    return "yours" if (verdict == "higher") == higher else "the other"


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
            _recalibration_row(name, scores)
            for name, scores in numbers["recalibration"].items()
            if "brier" in scores
        ],
        "groups": [_group_row(row, numbers["main_point"]) for row in numbers["groups"]],
        "predicted": [
            _group_row(row, numbers["main_point"], "Answer") for row in numbers["predicted"]
        ],
        "comparison": _comparison_table(numbers),
    }
    return {name: _frame(rows) for name, rows in shown.items() if rows}


def _frame(rows: list[dict[str, str]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    first = frame.columns[0]  # shown in the corner of the table
    return frame.set_index(first).rename_axis(index=None, columns=first)


def _bins_table(bins: dict) -> list[dict[str, str]]:
    edges = bins["edges"]
    return [
        {
            "Confidence": f"{edges[i]:.2f} to {edges[i + 1]:.2f}",
            "Samples": f"{bins['count'][i]:,}",
            "Mean confidence": percent(bins["confidence"][i]),
            "Accuracy": percent(
                Interval(*(float(bins[k][i]) for k in ("accuracy", "low", "high")))
            ),
        }
        for i in np.flatnonzero(bins["count"])
    ]


def _metric_row(name: str, value: Interval) -> dict[str, str]:
    label, scale, higher = terms.METRICS[name]
    return {
        "Metric": label,
        "Value [95 % interval]": number(value, scale, terms.UNITS[scale]),
        "Better": {True: "higher", False: "lower", None: "–"}[higher],
        "What it is": terms.MEANINGS[name],
    }


def _recalibration_row(name: str, scores: dict) -> dict[str, str]:
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
    rows = []
    for name, difference in numbers["comparison"]["difference"].items():
        label, scale, _ = terms.METRICS[name]
        unit = terms.UNITS[scale]
        rows.append(
            {
                "Metric": label,
                "Yours": number(numbers["metrics"][name].estimate, scale, unit),
                "Other": number(numbers["comparison"]["metrics"][name], scale, unit),
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
