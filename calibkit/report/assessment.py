"""Compute all the numbers of a report from predictions.

A threshold or a map is never judged on the samples that it was chosen on. It is chosen on the
validation set if there is one, and otherwise by cross-fitting.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from calibkit import __version__, curves, metrics, posthoc, stats
from calibkit.arrays import Array
from calibkit.report import conformal, estimates, paired, positive, sampling, thresholds
from calibkit.report.checks import Checks, checks
from calibkit.report.design import Design
from calibkit.report.facts import Facts
from calibkit.report.groups import ClassRow, GroupRow, by_answer, by_class, by_columns
from calibkit.report.model import Predictions, check_same
from calibkit.report.names import Say, silent
from calibkit.report.parts import Mapped
from calibkit.report.points import OperatingPoint, main_point, operating_points, points_of
from calibkit.report.recalibration import Results, recalibrated, recommended
from calibkit.report.scores import Rules
from calibkit.stats import Interval

ROWS = 1_000_000  # samples that are used at most, chosen at random: intervals are narrow by then
EXPLAINED = 200_000  # scores (samples × classes) up to which classwise errors get an interval


@dataclass(frozen=True, eq=False)
class Assessment(Facts):
    """Every number of a report; shares, confidences and errors are fractions of 1.

    Attributes
    ----------
    name, against : str, str or None
        Name of the model, and of the second model if there is one.
    calibkit : str
        Version of calibkit.
    samples, classes, errors, validation : int
        Number of test samples, classes, wrong answers and validation samples.
    pairs : bool
        Whether only confidences and correctness are known.
    notes : list of str
        Sentences on how the file was read.
    doubts : list of str
        Sentences on why labels and columns seem not to fit; with a doubt, no map is recommended.
    metrics : dict of str to Interval
        The metrics of `metrics.summary`; the ends are ``nan`` if there is no interval.
    gap : Interval
        Mean confidence minus accuracy.
    chance_ece : Interval
        The ECE that perfectly calibrated confidences would have by chance: see
        `estimates.chance_ece`.
    reliability : curves.Reliability
    histogram : curves.ConfidenceHistogram
    risk_coverage : curves.RiskCoverage
    operating_points, points_after : list of points.OperatingPoint
        Thresholds on the confidence, without a map and after the ``recommended`` map.
    main_point : points.OperatingPoint or None
        The threshold that the report recommends.
    recalibration : dict of str to recalibration.MapScores or NotFitted
        For "none" and each map.
    recommended : str or None
        Name of the recommended map, a key of `recalibration`.
    groups, predicted : list of groups.GroupRow
        Numbers by group, and by predicted class.
    by_class : list of groups.ClassRow
    comparison : paired.Comparison or None
        None without a second model.
    checks : checks.Checks
    conformal : conformal.Sets or None
        None for two classes.
    positive : positive.Positive or None
        None unless there are two classes.
    tokens : bool
        Whether each sample is a token of a text or a pixel of an image.
    """

    name: str
    against: str | None
    calibkit: str
    samples: int
    classes: int
    pairs: bool
    errors: int
    validation: int
    notes: list[str]
    doubts: list[str]
    metrics: dict[str, Interval]
    gap: Interval
    chance_ece: Interval
    reliability: curves.Reliability
    histogram: curves.ConfidenceHistogram
    risk_coverage: curves.RiskCoverage
    operating_points: list[OperatingPoint]
    main_point: OperatingPoint | None
    recalibration: Results
    recommended: str | None
    points_after: list[OperatingPoint]
    groups: list[GroupRow]
    predicted: list[GroupRow]
    by_class: list[ClassRow]
    comparison: paired.Comparison | None
    checks: Checks
    conformal: conformal.Sets | None
    positive: positive.Positive | None
    tokens: bool = False


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Pass over warnings. The page says what is undefined, and whether sets share samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        yield


@_no_warnings()
def assess(
    data: Predictions,
    against: Predictions | None = None,
    target_risk: Sequence[float] = (),
    rules: Rules = (),
    log: Say = silent,
) -> Assessment:
    """Compute every number in a report.

    Parameters
    ----------
    data : Predictions
        From `calibkit.report.predictions.read` or `from_arrays`.
    against : Predictions, optional
        A second model for the same samples, in the same order.
    target_risk, rules, log
        See `calibkit.report.build`.

    Returns
    -------
    Assessment

    Raises
    ------
    ValueError
        There are fewer than `estimates.LEAST` samples, the labels of the two models differ, or a
        target is not between 0 and 1.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> numbers = assess(from_arrays(scores))
    >>> numbers.errors, round(numbers.gap.estimate, 3)
    (20, 0.067)
    """
    thresholds.check(data, target_risk, rules)
    if against is not None:
        check_same(data, against, "against")
    data, against = sampling.counted(data, against)
    data, against = data.sample(ROWS), against and against.sample(ROWS)
    guessed = data.kind.two and data.positive is None
    if guessed:
        data = replace(data, positive=positive.guess(data))
    (n, k), test, design = data.logits.shape, data.test, data.test.design
    log(f"{n:,} samples, {k:,} classes: metrics")
    confidence, correct = test.scored()
    intervals = _metrics(data, log)
    points = operating_points(data, target_risk)
    chosen = main_point(points, 1 - intervals["accuracy"].estimate)
    threshold = chosen.threshold if chosen else None
    results, found = recalibrated(data, log)
    asked, doubts = checks(data), [*data.doubts]
    doubts += [f"{against.name}: {doubt}" for doubt in against.doubts] if against else []
    best = None if asked.guessing or doubts else recommended(results)
    replicates = estimates.replicates(n)
    return Assessment(
        name=data.name,
        against=against.name if against else None,
        calibkit=__version__,
        samples=n,
        classes=k,
        pairs=data.pairs,
        errors=int((~correct).sum()),
        validation=len(data.validation.labels) if data.validation else 0,
        notes=list(data.notes),
        doubts=doubts,
        metrics=intervals,
        gap=estimates.gap(confidence, correct, design),
        chance_ece=estimates.chance_ece(confidence, replicates // 5, design, correct),
        reliability=estimates.reliability(confidence, correct, design),
        histogram=curves.prepare_confidence_histogram(
            confidence, correct, sample_weight=design.weights
        ),
        risk_coverage=_risk_coverage(test.ranked(), correct, design),
        operating_points=points,
        main_point=chosen,
        recalibration=results,
        recommended=best,
        points_after=_points_after(data, found[best], target_risk) if best else [],
        groups=by_columns(data, threshold),
        predicted=by_answer(data, threshold),
        by_class=by_class(data) if data.kind.known and not data.kind.two else [],
        comparison=against and paired.compare([data, against], _compared(), replicates),
        checks=asked,
        conformal=conformal.sets(data),
        positive=positive.assess_positive(data, found, best, rules, guessed)
        if data.kind.two
        else None,
        tokens=data.tokens,
    )


def _compared() -> list[str]:
    """The names of the metrics that are computed on every resample."""
    return [*metrics.ranked_metrics(), "nll", "brier"]


def _points_after(
    data: Predictions, mapped: Mapped, target_risk: Sequence[float]
) -> list[OperatingPoint]:
    """Operating points on the confidence after a map."""
    test, held = (its and its.confidence.judged(data.logits.dtype) for its in (mapped, mapped.held))
    return points_of(test, held, target_risk, mapped.design)


def _metrics(data: Predictions, log: Say) -> dict[str, Interval]:
    found, names = data.test.outcomes, _compared()
    scores = stats.Samples(found.confidence, found.correct, found.nll, found.brier, found.rank)
    log("intervals")
    replicates, design = estimates.replicates(len(data.labels)), data.test.design
    drawn = {"sample_weight": design.weights, "groups": design.clusters}
    intervals = stats.bootstrap(scores, data.labels, names, n=replicates, **drawn)
    if not data.kind.known:
        return intervals
    if data.logits.size <= EXPLAINED:  # each resample costs a pass over the array
        more = ["classwise_ece"]
        intervals |= stats.bootstrap(data.logits, data.labels, more, n=replicates, **drawn)
    values = metrics.summary(data.logits, data.labels, sample_weight=design.weights)
    if not design.plain:  # a floor is that of as many samples as are independent
        more = ["classwise_ece_floor", "excess_classwise_ece"]
        found = stats.bootstrap(data.logits, data.labels, more, n=2, **drawn)
        values |= {name: found[name].estimate for name in more}
    del values["n"]
    return {name: intervals.get(name, Interval(x, nan, nan)) for name, x in values.items()}


def _risk_coverage(confidence: Array, correct: Array, design: Design) -> curves.RiskCoverage:
    """`curves.prepare_risk_coverage` with an interval over test samples in place of seeds.

    Parameters
    ----------
    confidence, correct : arrays (n,)
    design : Design, optional
        How the samples were drawn.

    Returns
    -------
    curves.RiskCoverage
        ``low`` and ``high`` are the 95 % Wilson interval of the error rate at a fixed coverage,
        ``nan`` where fewer than 100 samples, or a tenth of them, are accepted.

    Examples
    --------
    >>> confidence, correct = np.array([0.9, 0.8, 0.6]), np.array([True, True, False])
    >>> numbers = _risk_coverage(confidence, correct, Design(3))
    >>> [round(float(x[-1]), 2) for x in (numbers.mean, numbers.low, numbers.high)]
    [0.33, 0.06, 0.79]
    """
    numbers = curves.prepare_risk_coverage(confidence, correct, sample_weight=design.weights)
    n = design.worth(correct.astype(np.float64))
    accepted = np.maximum(np.round(numbers.coverage * n), 1)
    accepted[accepted < min(100, n / 10)] = np.nan  # with so few, the band would fill the figure
    _, low, high = stats.wilson(numbers.mean * accepted, accepted)
    return replace(numbers, low=low, high=high)
