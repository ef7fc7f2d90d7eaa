"""Write the page of a report: draw its figures and put them and the words into HTML."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibkit import explorable, many_rows, plots
from calibkit.report import comparison, html, privacy, thresholds
from calibkit.report.as_tables import tables
from calibkit.report.assessment import ROWS, Assessment
from calibkit.report.groups import SHOWN
from calibkit.report.model import Predictions, inputs_of
from calibkit.report.names import Say
from calibkit.report.points import OperatingPoint
from calibkit.report.positive import Positive
from calibkit.report.recalibration import NAMES, PER_CLASS, scores_in
from calibkit.report.text import cautions, verdict
from calibkit.report.written import decimals, number, percent

EXPLORED = 4_000_000  # numbers (samples × classes) in an interactive figure at most: some MB


def write(
    numbers: Assessment,
    out: Path,
    data: Predictions | None = None,
    against: Predictions | None = None,
    rows: bool = True,
    told: Say | None = None,
) -> Path:
    """Write ``report.html`` and ``report.json`` to a folder; return the path of the first.

    Parameters
    ----------
    numbers : Assessment
    out : Path
        Created if missing.
    data, against : Predictions, optional
        The predictions that were assessed. With these, the figures are interactive, by the one
        script that the page allows. Without them, the page has no script.
    rows : bool
        False leaves out all numbers that belong to a single row: see `calibkit.report.privacy`.
    told : function of str, optional
        Called with the text of the JSON file when both are written.
    """
    words = {"verdict": verdict(numbers), "cautions": cautions(numbers)}
    numbers = numbers if rows else privacy.without_rows(numbers)
    shown = ["reliability", "histogram", "risk_coverage"]
    shown += ["probability", "roc", "precision_recall"] if numbers.positive else []
    shown += ["comparison"] if numbers.comparison else []
    pictures = {name: html.picture(draw(name, numbers)) for name in shown}
    # For two classes the interactive figures are folded away. Their script does not know weights.
    lively = data is not None and not numbers.positive and data.weights is None and rows
    return html.publish(
        out,
        "report",
        numbers,
        words | {"inputs": inputs_of(data, against), "rows": rows},
        "page",
        told=told,
        **words,
        positive=numbers.positive,
        most_shown=SHOWN,
        per_class=PER_CLASS,
        rows=rows,
        fewest=privacy.FEWEST,
        many=many_rows.MANY,
        explored=min(numbers.samples, _few(numbers)) if lively and not numbers.pairs else 0,
        pictures=pictures,
        explorables=explore(numbers, data, against, pictures) if lively else {},
        script=explorable.script() if lively else "",
        tables={name: html.table(frame) for name, frame in tables(numbers).items()},
    )


def draw(name: str, numbers: Assessment) -> Figure:
    """Draw a figure of the report.

    Parameters
    ----------
    name : str
        "reliability", "histogram", "risk_coverage"; for two models, "comparison"; for two classes,
        "probability" (reliability of the positive one), "roc" and "precision_recall".
    numbers : Assessment

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from calibkit.report import assess
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> figure = draw("reliability", assess(from_arrays(scores)))
    >>> figure.axes[0].get_xlabel()
    'Confidence'
    >>> plt.close(figure)
    """
    positive = numbers.positive
    sizes = {"risk_coverage": (6, 4), "roc": (4.6, 3.9), "precision_recall": (4.6, 3.9)}
    with html.style():
        if name == "comparison":
            return comparison.draw("reliability", numbers.comparison)
        fig, ax = plt.subplots(figsize=sizes.get(name, (5, 4.6)))
        if name in ("roc", "precision_recall"):
            _ranking(name, positive, ax)
        elif name == "probability":
            plots.plot_reliability(positive.reliability, ax)
            ax.set(xlabel=f"Probability of {positive.quoted}", ylabel="Share that are")
            mean = f"mean − share {number(100 * positive.gap.estimate, 1, ' points', sign=True)}"
            ax.texts[-1].set_text(f"ECE {percent(positive.ece.estimate)}\n{mean}")
        elif name == "reliability":
            plots.plot_reliability(numbers.reliability, ax)
        elif name == "histogram":
            plots.plot_confidence_histogram(numbers.histogram, ax)
        else:
            plots.plot_risk_coverage({"your model": numbers.risk_coverage}, ax)
            _mark(numbers.operating_points, ax)
        return fig


def _ranking(name: str, positive: Positive, ax: Axes) -> None:
    """ROC or precision–recall curve, with the threshold 0.5 marked."""
    at = positive.decisions
    recall = at.recall.estimate
    if name == "roc":
        others = max(positive.samples - positive.positives, 1)
        x, y = positive.roc.fpr, positive.roc.tpr
        dot = (at.false / others, recall)
        chance, label = [0, 1], f"ROC AUC {percent(positive.auroc.estimate)}"
        ax.set(xlabel="False alarms among the others", ylabel="Recall")
    else:
        x, y = positive.precision_recall.recall, positive.precision_recall.precision
        dot = (recall, at.precision.estimate)
        chance = [positive.base_rate.estimate] * 2
        label = f"Average precision {percent(positive.average_precision.estimate)}"
        ax.set(xlabel="Recall", ylabel="Precision")
    ax.plot([0, 1], chance, color="0.7", linestyle="--", linewidth=1.2)
    ax.plot(x, y, color=plots.CORRECT, linewidth=2)
    if at.flagged:
        ax.plot(*dot, "o", color=plots.WRONG, zorder=5)
        side = -12 if name == "roc" else 8
        ax.annotate("0.5", dot, (8, side), textcoords="offset points")
    ax.set(xlim=(0, 1), ylim=(0, 1.02))
    ax.set_title(label, fontsize=12)


def explore(
    numbers: Assessment, data: Predictions, against: Predictions | None, pictures: dict[str, str]
) -> dict[str, explorable.Explorable]:
    """Interactive versions of the figures "reliability", "histogram" and "risk_coverage".

    Their still pictures, given as addresses, are shown where scripts are off.
    """
    models = {"your model": data.sample(ROWS)}
    models |= {"the other one": against.sample(ROWS)} if against else {}
    reliability, histograms, risk_coverage = {}, {}, {}
    marks = [point.threshold for point in numbers.operating_points if point.reached]
    few = _few(numbers)
    for name, model in models.items():
        temperature = _temperature(numbers) if model is models["your model"] else None
        test, held = model.test, model.validation
        if data.kind.known:
            reliability[name] = explorable.reliability(model.logits, model.labels, temperature, few)
        histograms[name] = explorable.histograms(*test.scored(), marks=marks)
        judge = thresholds.Judge(test.judged(), held and held.judged())
        chosen = [judge.cuts.choose("target_risk", target) for target in explorable.TARGETS]
        risk_coverage[name] = explorable.risk_coverage(
            *test.scored(), held and held.scored(), threshold=np.array(chosen)
        )
    point = numbers.main_point
    threshold, target = (point.threshold, point.target) if point else (0.9, 0.05)
    return {
        name: show(table, *start, still=pictures[name])
        for name, show, table, *start in (
            ("reliability", explorable.show_reliability, reliability),
            ("histogram", explorable.show_histograms, histograms, threshold),
            ("risk_coverage", explorable.show_risk_coverage, risk_coverage, target),
        )
        if table
    }


def _few(numbers: Assessment) -> int:
    """The number of samples whose scores an interactive figure holds, at most."""
    return min(explorable.MOST, max(EXPLORED // numbers.classes, 1000))


def _temperature(numbers: Assessment) -> float | None:
    """The fitted temperature, or the mean of several; None if it is beyond the slider."""
    scores = scores_in(numbers.recalibration).get(NAMES["temperature"])
    fitted = scores.temperatures if scores else None
    mean = float(np.mean(fitted)) if fitted else math.nan
    return mean if 0.25 <= mean <= 4 else None


def _mark(points: Sequence[OperatingPoint], ax: Axes) -> None:
    """Mark operating points on a risk-coverage curve, and write thresholds if there is room."""
    labelled = -1.0
    for point in (point for point in points if point.accepted):
        x, y = point.coverage.estimate, point.risk.estimate
        ax.plot(x, y, "o", color=plots.WRONG, zorder=5)
        if x - labelled > 0.15:
            words, side = f"≥ {decimals(point.threshold)}", "right" if x > 0.3 else "left"
            ax.annotate(words, (x, y), (-5, 7), textcoords="offset points", ha=side)
            labelled = x
