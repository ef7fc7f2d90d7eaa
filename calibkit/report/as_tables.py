"""The numbers of a report as tables of text."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import pandas as pd

from calibkit import terms
from calibkit.curves import Reliability
from calibkit.report.assessment import Assessment
from calibkit.report.compared_words import SIDES, compared_tables
from calibkit.report.estimates import FEW
from calibkit.report.groups import ClassRow, GroupRow
from calibkit.report.points import OperatingPoint
from calibkit.report.positive import Positive, RuleRow
from calibkit.report.recalibration import MapScores, scores_in
from calibkit.report.words import say
from calibkit.report.written import decimals, framed, negative, number, percent, share
from calibkit.stats import Interval

Cells = dict[str, str]
KEPT: dict[bool | None, str] = {True: "yes", False: "no", None: "cannot tell"}
BETTER: dict[bool | None, str] = {True: "higher", False: "lower", None: "–"}


def tables(numbers: Assessment) -> dict[str, pd.DataFrame]:
    """The numbers as tables of text, in page order; empty ones are left out.

    Parameters
    ----------
    numbers : Assessment

    Returns
    -------
    dict of str to pandas.DataFrame
        Any of "bins", "operating_points", "metrics", "recalibration", "points_after", "groups",
        "by_class", "predicted", "comparison"; for two classes "positive_bins" and "thresholds".

    Examples
    --------
    >>> from calibkit.report import assess
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> tables(assess(from_arrays(scores)))["bins"]["Samples"].to_dict()
    {'0.53 to 0.60': '20', '0.67 to 0.73': '20', '0.87 to 0.93': '20'}
    """
    positive, accepting = numbers.positive, numbers.main_point is not None
    shown = {
        "bins": _bin_rows(numbers.reliability, "Confidence", "Accuracy"),
        "operating_points": _point_rows(numbers, numbers.operating_points),
        "metrics": [  # without the terms of a paper's own decomposition of the ECE
            _metric_row(name, value)
            for name, value in numbers.metrics.items()
            if not name.startswith("eq9_")
        ],
        "recalibration": _map_rows(numbers),
        "points_after": _point_rows(numbers, numbers.points_after),
        "groups": [_group_row(row, accepting, positive) for row in numbers.groups],
        "by_class": [_class_row(row) for row in numbers.by_class],
        "predicted": [_answer_row(row, accepting, "Answer") for row in numbers.predicted],
    }
    if positive:
        are = f"Are {positive.quoted}"
        shown["positive_bins"] = _bin_rows(positive.reliability, "Probability", are)
        shown["thresholds"] = [
            _rule_row(row, after, positive)
            for row, after in zip_longest(positive.thresholds, positive.thresholds_after)
        ]
    frames = {name: framed(rows) for name, rows in shown.items() if rows}
    if numbers.comparison:
        frames["comparison"] = pd.concat(compared_tables(numbers.comparison).values()).T
        frames["comparison"].columns.name = "Metric"
    return frames


def _bin_rows(bins: Reliability, what: str, are: str) -> list[Cells]:
    return [
        {
            what: f"{bins.edges[i]:.2f} to {bins.edges[i + 1]:.2f}",
            "Samples": f"{bins.count[i]:,}",
            f"Mean {what.lower()}": percent(bins.confidence[i]),
            are: percent(Interval(*(float(x[i]) for x in (bins.accuracy, bins.low, bins.high)))),
        }
        for i in np.flatnonzero(bins.count)
    ]


def _point_rows(numbers: Assessment, points: Sequence[OperatingPoint]) -> list[Cells]:
    error = "Error among them" if numbers.validation else "Error to expect"
    return [
        {
            "Target error": share(point.target),
            "Threshold": decimals(point.threshold),
            "Accepted": percent(point.coverage) if point.accepted else "none",
            error: percent(point.risk),
            "Wrong / accepted": f"{point.wrong:,} / {point.accepted:,}",
            "Target met?": KEPT[point.kept] if point.reached else "out of reach",
        }
        for point in points
    ]


def _metric_row(name: str, value: Interval) -> Cells:
    label, scale, higher, meaning = terms.METRICS[name]
    return {
        "Metric": label,
        "Value [95 % interval]": number(value, scale, terms.UNITS[scale]),
        "Better": BETTER[higher],
        "What it is": meaning,
    }


def _rule_row(row: RuleRow, after: RuleRow | None, positive: Positive) -> Cells:
    judged = row.rule in ("precision", "recall") and row.threshold is not None
    thresholds = {"Threshold": decimals(row.threshold)}
    if after:
        thresholds[f"After {positive.recommended}"] = decimals(after.threshold)
    return {
        "Rule": say(None, "rule", row=row, name=positive.quoted),
        **thresholds,
        "Flagged": f"{row.flagged:,} ({percent(row.share.estimate)})",
        "Found": f"{row.found:,} of {positive.positives:,}",
        "Precision": percent(row.precision) if row.flagged else "–",
        "Recall": percent(row.recall),
        "Rule kept?": KEPT[row.kept] if judged else "–",
    }


def _map_rows(numbers: Assessment) -> list[Cells]:
    """A row for each map: its metrics; for two classes, those of the positive class."""
    fitted = scores_in(numbers.recalibration)
    if numbers.positive:
        return [_event_map_row(name, row, numbers.positive) for name, row in fitted.items()]
    return [_map_row(name, row) for name, row in fitted.items()]


def _brier_change(name: str, row: MapScores) -> str:
    return "–" if name == "none" else number(row.brier_change, sign=True)


def _event_map_row(name: str, row: MapScores, positive: Positive) -> Cells:
    after = positive.maps[name]
    return {
        "Recalibration": name,
        "Mean": percent(after.mean),
        "ECE": percent(after.ece),
        "Brier change": _brier_change(name, row),
        "NLL": number(row.nll),
        "Average precision": percent(after.average_precision),
        "Found / flagged at 0.5": f"{after.decisions.found:,} / {after.decisions.flagged:,}",
        "Flags as many at": decimals(after.same),
    }


def _map_row(name: str, row: MapScores) -> Cells:
    return {
        "Recalibration": name,
        "ECE": percent(row.ece),
        "Adaptive ECE": percent(row.adaptive_ece),
        "Brier score": f"{row.brier:.4f}",
        "Brier change": _brier_change(name, row),
        "NLL": number(row.nll),
        "Accuracy": percent(row.accuracy),
        "AUROC": percent(row.auroc),
        "AURC": number(row.aurc, 1000, terms.UNITS[1000]),
    }


def _group_row(row: GroupRow, accepting: bool, positive: Positive | None) -> Cells:
    if positive is None:
        return _answer_row(row, accepting, "Group")
    return {
        "Group": str(row.group),
        "Samples": f"{row.samples:,}",
        f"Are {positive.quoted}": percent(row.accuracy),
        "Mean probability": percent(row.confidence),
        **_off(row, True, _few(row)),
        "ROC AUC": percent(row.auroc),
        "Flagged at 0.5": percent(row.coverage.estimate),
        "Precision": percent(negative(row.risk, 1)),
    }


def _answer_row(row: GroupRow, accepting: bool, kind: str) -> Cells:
    """The accuracy of a group and, with `accepting`, the effect of the main threshold on it."""
    last = {"Accepted": percent(row.coverage), "Error among them": percent(row.risk)}
    return {
        kind: str(row.group),
        "Samples": f"{row.samples:,}",
        "Accuracy": percent(row.accuracy),
        "Confidence": percent(row.confidence),
        **_off(row, False, _few(row)),
        "AUROC": percent(row.auroc),
        **(last if accepting else {}),
    }


def _few(row: GroupRow) -> str:
    return "too few" if row.samples < FEW else "–"


def _class_row(row: ClassRow) -> Cells:
    return {
        "Class": row.group,
        "Samples": f"{row.samples:,}",
        "Share of labels": percent(row.share),
        "Mean probability": percent(row.mean),
        **_off(row, True, "–"),
    }


def _off(row: GroupRow | ClassRow, probability: bool, otherwise: str) -> Cells:
    words = SIDES[probability][row.gap.estimate < 0] if row.stands_out else otherwise
    return {"Gap": number(row.gap, 100, sign=True), "Verdict": words}
