"""Bootstrap intervals of metrics, and of differences between models."""

import math
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import combinations

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array, ArrayLike, Kind, Weights
from calibkit.stats.interval import Interval, Unjudged, check_level
from calibkit.stats.models import Given, Metric
from calibkit.stats.resamples import EXCESS, Drawn, drawn_of

# Calibration errors that contain noise: less accurate models have more, even if calibrated.
UNJUDGED = frozenset({"ece", "adaptive_ece", "classwise_ece", "mce", "overconfidence_error"})
# The ranges of metrics that are not from 0 to 1.
_RANGES = {
    "nll": (0.0, math.inf),
    "brier": (0.0, 2.0),
    "augrc": (0.0, 0.5),
    "confidence_gap": (-1.0, 1.0),
    "debiased_ece": (-1.0, 1.0),
    **dict.fromkeys(EXCESS, (-1.0, 1.0)),
}


def bootstrap(
    logits: Given,
    labels: "ArrayLike | None",
    metric_names: Sequence[Metric],
    n: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    kind: Kind = "logits",
    sample_weight: Weights = None,
    groups: "ArrayLike | None" = None,
) -> dict[str, Interval]:
    """Bootstrap intervals of metrics over the samples of a test set.

    Parameters
    ----------
    logits : array or tensor, shape (m, k), or Answers or Samples
        Scores before the softmax; or what is known of each sample, which needs no labels:
        `Answers` give the metrics of a ranking, `Samples` also "nll" and "brier".
    labels : array or tensor of integers, shape (m,)
        True classes, 0 to k - 1; None without logits.
    metric_names : sequence of str or callable
        Names of `calibkit.metrics.ranked_metrics`, such as "auroc". Also "risk_at_coverage_0.9" and
        "coverage_at_risk_0.01", with any number. Logits have "nll", "brier", "classwise_ece",
        "classwise_ece_floor" and "excess_classwise_ece", too. Metrics with bins take their default
        number of bins. Or functions of (confidence, correct), such as
        ``partial(metrics.fpr_at_tpr, tpr=0.9)``: slower.
    n : int
        Replicates, at least 2. Each draws m samples with replacement.
    seed : int
        Same seed, same resamples.
    level : float
        Coverage of the interval, in (0, 1).
    kind : {"logits", "probs"}
        "probs" if the logits are probabilities, which are refused otherwise.
    sample_weight : array, shape (m,), optional
        How much each sample counts, as in `metrics.ece`: exact in the estimates, and kept by every
        sample that is drawn. Samples of weight 0 are left out. Functions of your own get it, by
        that name. Floors are those of as many samples as these are worth
        (`resampling.effective_size`), since the noise is theirs.
    groups : array, shape (m,), optional
        Names or numbers of what samples belong to, such as patients: samples of a group are alike,
        so whole groups are drawn, as many as there are.

    Returns
    -------
    dict of str to Interval
        The estimate is the metric on all samples, not the mean of the replicates. Replicates in
        which a metric is undefined are left out; if it is undefined on the test set itself, all
        three numbers are ``nan``, with one `UndefinedMetricWarning`. Ends stay in the range of the
        metric and enclose the estimate.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a name is
        unknown, there are fewer than two replicates, the level is not between 0 and 1, a weight is
        negative or all are 0, or there is only one group.

    Notes
    -----
    Resampling adds noise, and a binned calibration error counts noise as error. So its replicates
    lie above the estimate. The percentiles of every metric are therefore shifted by the distance
    from the mean of the replicates to the estimate. For a mean such as accuracy this distance is
    next to nothing.

    The interval of the ECE says what other test sets of this size would give. For a well calibrated
    model that ECE is itself mostly noise: ask for "excess_ece" as well as "ece".

    Of fewer than 50,000 samples each is drawn by itself. From there on, random blocks of samples
    are drawn and counted in bins of the score (``calibkit.many_rows``). Estimates stay exact; ends
    differ by some 1 % of the width, less than with another seed. If a function of your own or a
    class-wise error is asked for, each sample is drawn by itself, however many there are.

    Examples
    --------
    >>> logits = np.c_[np.linspace(-2, 4, 50), np.zeros(50)]
    >>> labels = np.arange(50) % 3 == 0
    >>> interval = bootstrap(logits, labels.astype(int), ["accuracy"], n=200)["accuracy"]
    >>> interval.low < interval.estimate < interval.high
    True
    """
    check_level(level)
    (drawn,) = drawn_of([logits], labels, metric_names, n, seed, kind, sample_weight, groups)
    return _own(drawn, metric_names, level)


def compare(
    logits_a: Given,
    logits_b: Given,
    labels: "ArrayLike | None",
    metric_names: Sequence[Metric],
    n: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    kind: Kind = "logits",
    sample_weight: Weights = None,
    groups: "ArrayLike | None" = None,
) -> dict[str, Interval]:
    """Bootstrap intervals of a difference, model a minus model b, on one test set.

    Both models are evaluated on the same resamples, so whatever makes a resample easy or hard for
    both cancels. An interval that excludes 0 means a difference that this test set can resolve.

    Parameters
    ----------
    logits_a : array or tensor, shape (m, k), or Answers or Samples
        Scores before the softmax of the first model; or confidences and correctness, which need no
        labels.
    logits_b : array or tensor, shape (m, k), or Answers or Samples
        Those of the second model for the same samples in the same order.
    labels : array or tensor of integers, shape (m,)
        True classes, 0 to k - 1; None without logits.
    metric_names : sequence of str or callable
        As in `bootstrap`.
    n : int
        Replicates, at least 2. Each draws m samples with replacement.
    seed : int
        Same seed, same resamples.
    level : float
        Coverage of the interval, in (0, 1).
    kind : {"logits", "probs"}
        "probs" if the logits are probabilities, which are refused otherwise.
    sample_weight : array, shape (m,), optional
        How much each sample counts, as in `metrics.ece`: exact in the estimates, and kept by every
        sample that is drawn. Samples of weight 0 are left out. Functions of your own get it, by
        that name. Floors are those of as many samples as these are worth
        (`resampling.effective_size`), since the noise is theirs.
    groups : array, shape (m,), optional
        Names or numbers of what samples belong to, such as patients: samples of a group are alike,
        so whole groups are drawn, as many as there are.

    Returns
    -------
    dict of str to Interval
        The estimate is the difference on all samples; all three numbers are ``nan``, with one
        `UndefinedMetricWarning`, where a metric is undefined. Differences of calibration errors
        (`UNJUDGED`) are `Unjudged`: ask for "excess_ece" to get an outcome.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, the numbers of samples differ, a label is
        out of range, a name is unknown, there are fewer than two replicates, the level is
        not between 0 and 1, a weight is negative or all are 0, or there is only one group.

    Notes
    -----
    The floor is the calibration error that chance alone would show; the excess is the error minus
    the floor. The error of a calibrated model contains all of the floor. The error of a model whose
    bins are all far off contains none of it. So the difference of two excesses is right if both
    models are calibrated, and the difference of two plain errors is right if both are far off. The
    interval of a difference of excesses encloses the intervals of both differences. It excludes 0
    only if both of them do, on the same side.

    How often does it exclude 0? In simulations with 10,000 samples and 15 bins:

    - Two calibrated models of 90 % and 44 % accuracy: in 1 % of test sets. The interval of the
      plain ECE excludes 0 in 32 %, that of the plain adaptive ECE in 72 %.
    - A model that is 2 points off and a calibrated one, both of 90 % accuracy: in all test sets.
    - The same at 44 % accuracy: in 36 %. There the accuracy of a bin has a standard error of 1.9
      points. Other tests find the difference more often: a likelihood ratio for bins that are 2
      points off, each to an unknown side, in 73 %; the gap between mean confidence and accuracy in
      89 %, if all bins are off to one side.

    Examples
    --------
    >>> logits = np.c_[np.linspace(-2, 4, 50), np.zeros(50)]
    >>> labels = np.arange(50) % 3
    >>> compare(logits, 2 * logits, (labels == 0).astype(int), ["auroc"], n=50)["auroc"]
    Interval(estimate=0.0, low=0.0, high=0.0)
    """
    check_level(level)
    models = [logits_a, logits_b]
    drawn = drawn_of(models, labels, metric_names, n, seed, kind, sample_weight, groups)
    return _difference(*drawn, metric_names, level)


def compare_all(
    models: Sequence[Given],
    metric_names: Sequence[Metric],
    n: int = 1000,
    level: float = 0.95,
    sample_weight: Weights = None,
    groups: "ArrayLike | None" = None,
) -> tuple[list[dict[str, Interval]], list[dict[str, Interval]]]:
    """Intervals of every model and of every difference of two models, from the same resamples.

    The interval of a model is that of `bootstrap`, the interval of a difference that of `compare`.
    Intervals of differences hold jointly: with m pairs each is at the level 1 - (1 - level) / m
    (Bonferroni), so that the chance of any false verdict about a metric is at most 1 - level.

    Parameters
    ----------
    models : sequence of Answers or Samples
        Of the same samples in the same order.
    metric_names : sequence of str or callable
        As in `compare`.
    n : int
        Replicates, at least 2.
    level : float
        Coverage of the intervals, in (0, 1); of differences jointly.
    sample_weight, groups
        As in `bootstrap`.

    Returns
    -------
    own : list of dict of str to Interval
        Of each model.
    differences : list of dict of str to Interval
        The first minus the second of every two, in the order of `itertools.combinations`.

    Raises
    ------
    ValueError
        As `compare`.

    Examples
    --------
    >>> from calibkit.stats import Answers
    >>> first, second = ([0.9, 0.8, 0.7], [1, 1, 0]), ([0.6, 0.8, 0.7], [1, 1, 0])
    >>> own, (difference,) = compare_all([Answers(*first), Answers(*second)], ["auroc"], n=50)
    >>> [x["auroc"].estimate for x in own], difference["auroc"].estimate
    ([1.0, 0.5], 0.5)
    """
    check_level(level)
    drawn = drawn_of(models, None, metric_names, n, sample_weight=sample_weight, groups=groups)
    pairs = list(combinations(drawn, 2))
    joint = 1 - (1 - level) / max(len(pairs), 1)
    differences = [_difference(a, b, metric_names, joint) for a, b in pairs]
    return [_own(its, metric_names, level) for its in drawn], differences


def replicates(
    models: Sequence[Given],
    labels: "ArrayLike | None",
    metric_names: Sequence[Metric],
    n: int = 200,
    seed: int = 0,
    kind: Kind = "logits",
) -> Array:
    """Metrics of several models on the same resamples of their test set.

    What is drawn depends only on the size of the test set and on `seed`; of many samples, blocks of
    them are drawn, as in `bootstrap`.

    Parameters
    ----------
    models : sequence of arrays or tensors, shape (m, k), or of Answers
        Scores before the softmax of each model for the same samples; or their confidences and
        correctness, which need no labels.
    labels : array or tensor of integers, shape (m,)
        True classes, 0 to k - 1; None where `Answers` stand for logits.
    metric_names : sequence of str or callable
        As in `bootstrap`.
    n : int
        Replicates, at least 2. Each draws m samples with replacement.
    seed : int
        Same seed, same resamples.
    kind : {"logits", "probs"}
        "probs" if the logits are probabilities, which are refused otherwise.

    Returns
    -------
    array, shape (models, n, metrics)
        Values of the metrics, ``nan`` where a resample leaves one undefined.

    Raises
    ------
    ValueError
        If there is no model, an argument is empty, malformed or not finite, a label is out of
        range, a name is unknown, or there are fewer than two replicates.

    Examples
    --------
    >>> logits = np.c_[np.linspace(-2, 4, 50), np.zeros(50)]
    >>> labels = (np.arange(50) % 3 == 0).astype(int)
    >>> a, b = replicates([logits, 2 * logits], labels, ["auroc"], n=20)
    >>> bool((a == b).all())  # a factor leaves the order alone, whatever was drawn
    True
    """
    drawn = drawn_of(models, labels, metric_names, n, seed, kind)
    return np.array([[its[name][1] for name in metric_names] for its in drawn]).swapaxes(1, 2)


def _own(drawn: Drawn, names: Sequence[Metric], level: float) -> dict[str, Interval]:
    return _warned({_label(x): _ends(*drawn[x], level).within(*_range(x)) for x in names})


def _difference(a: Drawn, b: Drawn, names: Sequence[Metric], level: float) -> dict[str, Interval]:
    plain = {x: _ends(a[x][0] - b[x][0], a[x][1] - b[x][1], level) for x in a}

    def difference(name: Metric) -> Interval:
        low, high = _range(name)
        estimate, *ends = plain[name]
        if name in EXCESS:
            ends += plain[EXCESS[name]][1:]
        kind = Unjudged if name in UNJUDGED else Interval
        return kind(estimate, min(ends), max(ends)).within(low - high, high - low)

    return _warned({_label(name): difference(name) for name in names})


def _ends(estimate: float, values: Array, level: float) -> Interval:
    """The interval of a metric, from its values on the replicates."""
    values = values[~np.isnan(values)]
    ends = (math.nan, math.nan)
    if len(values) and not np.isnan(estimate):
        # Between the order statistics that leave so much outside on average; the default leaves
        # 7 % outside where 5 % is asked of 100 replicates.
        ends = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], method="weibull")
        ends += estimate - values.mean()
    return Interval(float(estimate), float(ends[0]), float(ends[1]))


def _warned(found: dict[str, Interval]) -> dict[str, Interval]:
    if undefined := [name for name, x in found.items() if math.isnan(x.estimate)]:
        message = f"undefined on these samples, so nan: {', '.join(undefined)}"
        warnings.warn(message, metrics.UndefinedMetricWarning, stacklevel=4)
    return found


def _label(metric: Metric) -> str:
    """The name of a metric; for a partial function, with its arguments."""
    if isinstance(metric, str):
        return metric
    if isinstance(metric, partial):
        options = [*map(repr, metric.args), *(f"{k}={v!r}" for k, v in metric.keywords.items())]
        return f"{metric.func.__name__}({', '.join(options)})"
    return getattr(metric, "__name__", repr(metric))


def _range(metric: Metric) -> tuple[float, float]:
    return (-math.inf, math.inf) if callable(metric) else _RANGES.get(metric, (0.0, 1.0))
