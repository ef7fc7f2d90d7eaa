"""From saved predictions to all the numbers of a report: what can this confidence be used for?

A threshold or a recalibration is never judged on the samples it was chosen on: it is chosen on the
validation set if there is one, otherwise by cross-fitting. Each sample's confidence, correctness
and scores are computed once, by `parts.Part`, and passed to every part.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from calibkit import __version__, curves, metrics, posthoc, stats
from calibkit.arrays import Array
from calibkit.report import (
    conformal,
    estimates,
    paired,
    positive,
    predictions,
    sampling,
    thresholds,
)
from calibkit.report.checks import Checks, checks
from calibkit.report.design import Design
from calibkit.report.facts import Facts
from calibkit.report.groups import SHOWN as SHOWN
from calibkit.report.groups import ClassRow, GroupRow, by_answer, by_class, by_columns
from calibkit.report.groups import by_group as by_group
from calibkit.report.parts import Mapped
from calibkit.report.points import OperatingPoint, main_point, operating_points, points_of
from calibkit.report.predictions import Predictions
from calibkit.report.recalibration import NAMES as NAMES
from calibkit.report.recalibration import PER_CLASS as PER_CLASS
from calibkit.report.recalibration import Results, recalibrated, recommended
from calibkit.report.recalibration import guessing as guessing
from calibkit.stats import Interval

ROWS = 1_000_000  # more are subsampled at random: intervals are narrow enough by then
EXPLAINED = 200_000  # numbers of scores, above which classwise errors have no interval


@dataclass(frozen=True, eq=False)
class Assessment(Facts):
    """Every number of a report; shares, confidences and errors are fractions of 1.

    Attributes
    ----------
    name, against : str, str or None
        Names of the model and of a second one.
    calibkit : str
        Version.
    samples, classes, errors, validation : int
        How many; 0 without a validation set.
    pairs : bool
        Whether only confidences are known.
    notes : list of str
        How the file was read.
    doubts : list of str
        Reasons to believe that labels and columns do not belong together: no map is recommended.
    metrics : dict of str to Interval
        Those of `metrics.summary`; ``nan`` ends where there is no interval.
    gap : Interval
        Confidence minus accuracy.
    chance_ece : Interval
        The ECE of as many samples of a model without calibration error: see
        `estimates.chance_ece`.
    reliability : curves.Reliability
    histogram : curves.ConfidenceHistogram
    risk_coverage : curves.RiskCoverage
    operating_points, points_after : list of points.OperatingPoint
        The second on the confidence after the ``recommended`` map.
    main_point : points.OperatingPoint or None
        That of the headline.
    recalibration : dict of str to recalibration.MapScores or NotFitted
    recommended : str or None
        One of these.
    groups, predicted : list of groups.GroupRow
        Of groups, and of predicted classes.
    by_class : list of groups.ClassRow
    comparison : paired.Comparison or None
        None without a second model.
    checks : checks.Checks
    conformal : conformal.Sets or None
        None for two classes.
    positive : positive.Positive or None
        None unless there are two classes.
    tokens : bool
        Whether each token of texts is a sample.
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


def assess(
    data: Predictions,
    against: Predictions | None = None,
    target_risk: Sequence[float] = (),
    rules: Sequence[tuple[str, float]] = (),
    log: Callable[[str], None] = lambda line: None,
) -> Assessment:
    """Compute every number in a report.

    Parameters
    ----------
    data, against, target_risk, rules, log
        As in `calibkit.report.build`.

    Returns
    -------
    Assessment

    Raises
    ------
    ValueError
        If there are fewer than `estimates.LEAST` samples, if the labels of the two models differ,
        or if a target is not between 0 and 1.

    Examples
    --------
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> numbers = assess(predictions.from_arrays(scores))
    >>> numbers.errors, round(numbers.gap.estimate, 3)
    (20, 0.067)
    """
    thresholds.check(data, target_risk, rules)
    if against is not None:
        predictions.check_same(data, against, "against")
    data, against = sampling.counted(data, against)
    data, against = data.sample(ROWS), against and against.sample(ROWS)
    guessed = data.kind.two and data.positive is None
    if guessed:
        data = replace(data, positive=positive.guess(data))
    with warnings.catch_warnings():
        # The page says what is undefined, in its place, and whether sets share samples.
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        return _assessed(data, against, target_risk, rules, guessed, log)


def _assessed(
    data: Predictions,
    against: Predictions | None,
    target_risk: Sequence[float],
    rules: Sequence[tuple[str, float]],
    guessed: bool,
    log: Callable[[str], None],
) -> Assessment:
    """The numbers of samples that are counted, with an event if there are two classes."""
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
        gap=estimates.gap(confidence, correct, design=design),
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
    """Metrics of every sample, of which any resample has an estimate."""
    return [*metrics.ranked_metrics(), "nll", "brier"]


def _points_after(
    data: Predictions, mapped: Mapped, target_risk: Sequence[float]
) -> list[OperatingPoint]:
    """Operating points on the confidence after a map."""
    dtype, held = data.logits.dtype, mapped.held_confidence
    test = mapped.confidence.judged(dtype)
    return points_of(test, held and held.judged(dtype), target_risk, mapped.design)


def _metrics(data: Predictions, log: Callable[[str], None]) -> dict[str, Interval]:
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


def _risk_coverage(
    confidence: Array, correct: Array, design: Design | None = None
) -> curves.RiskCoverage:
    """`curves.prepare_risk_coverage`, with an interval over test samples instead of seeds.

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
    >>> numbers = _risk_coverage(np.array([0.9, 0.8, 0.6]), np.array([True, True, False]))
    >>> [round(float(x[-1]), 2) for x in (numbers.mean, numbers.low, numbers.high)]
    [0.33, 0.06, 0.79]
    """
    design = design or Design(len(correct))
    numbers = curves.prepare_risk_coverage(confidence, correct, sample_weight=design.weights)
    n = design.worth(correct.astype(np.float64))
    accepted = np.maximum(np.round(numbers.coverage * n), 1)
    accepted[accepted < min(100, n / 10)] = np.nan  # with so few, the band would fill the figure
    _, low, high = stats.wilson(numbers.mean * accepted, accepted)
    return replace(numbers, low=low, high=high)
