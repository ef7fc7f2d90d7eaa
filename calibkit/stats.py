"""How sure is a number? Intervals over test samples and over seeds, and differences of models.

Two sources of uncertainty are kept apart. *Samples*: another test set of the same size would have
given another value (`bootstrap`, `compare`, `wilson`). *Seeds*: another run would have given
another model (`seed_interval`). `mean_over_seeds` joins the two, from the `Replicates` that each
run keeps of its own test set.

A bootstrap replicate here is a change of counts, not a new array: confidences are sorted once, and
each replicate says how often each of them was drawn. Of many samples, `many_rows` draws blocks.

Calibration errors are compared by their excess over what chance alone would show (see
`calibkit.metrics.ece_floor`): the plain errors of two calibrated models differ if their accuracies
do. `compare` gives differences of plain errors without a verdict.
"""

import math
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np

from calibkit import many_rows, metrics
from calibkit.arrays import (
    Array,
    ArrayLike,
    Kind,
    as_confidence_correct,
    as_labels,
    as_logits,
    as_probs,
    log_odds,
    softmax,
    to_numpy,
)
from calibkit.precision import log_of_map
from calibkit.resampling import as_counts, as_groups, draws, effective_size

# Errors that count noise as error: higher for a less accurate model, even if both are calibrated.
UNJUDGED = frozenset({"ece", "adaptive_ece", "classwise_ece", "mce", "overconfidence_error"})
_EXCESS = {f"excess_{name}": name for name in ("ece", "adaptive_ece", "classwise_ece")}
# Where metrics live, except those from 0 to 1.
_RANGES = {
    "nll": (0.0, math.inf),
    "brier": (0.0, 2.0),
    "augrc": (0.0, 0.5),
    "confidence_gap": (-1.0, 1.0),
    "debiased_ece": (-1.0, 1.0),
    **dict.fromkeys(_EXCESS, (-1.0, 1.0)),
}


# A name, or a function such as partial(metrics.risk_at_coverage, coverage=0.5).
Metric: TypeAlias = "str | Callable[[Array, Array], float]"


class Interval(NamedTuple):
    """An estimate and the ends of its interval, in the units of the metric."""

    estimate: float
    low: float
    high: float

    def outcome(self, margin: float = 0.0) -> str:
        """What a difference with this interval says, in one of four words.

        Parameters
        ----------
        margin : float
            The largest difference that would not matter, from 0, in the units of the metric.

        Returns
        -------
        str
            "no difference" if the whole interval lies within the margin; else "higher" or "lower"
            if all of it lies on one side of 0; else "unclear", as is a difference without an
            interval.

        Examples
        --------
        >>> [Interval(0.2, 0.1, 0.3).outcome(margin) for margin in (0, 0.5)]
        ['higher', 'no difference']
        >>> Interval(0.2, -0.1, 0.5).outcome(), seed_interval([0.2]).outcome()  # a single run
        ('unclear', 'unclear')
        """
        if math.isnan(self.low) or math.isnan(self.high):
            return "unclear"
        if -margin <= self.low and self.high <= margin:
            return "no difference"
        return "higher" if self.low > 0 else "lower" if self.high < 0 else "unclear"

    def within(self, low: float, high: float) -> "Interval":
        """The same interval, clipped to the metric's range, with the estimate between its ends.

        Parameters
        ----------
        low : float
            Smallest value that the metric can have.
        high : float
            Largest value.

        Returns
        -------
        Interval
            The same estimate; an interval without ends stays as it is.

        Examples
        --------
        >>> Interval(1.0, 0.978, 1.005).within(0.0, 1.0)
        Interval(estimate=1.0, low=0.978, high=1.0)
        """
        if math.isnan(self.low):
            return self
        below, above = min(self.low, self.estimate), max(self.high, self.estimate)
        return self._replace(low=max(below, low), high=min(above, high))

    def format(
        self,
        scale: float = 1.0,
        digits: int | None = None,
        unit: str = "",
        sign: bool = False,
        half: bool = False,
    ) -> str:
        """Write an estimate with its interval, in the notation of all tables, pages and reports.

        Parameters
        ----------
        scale : float
            Factor from natural units to those shown, such as 100 for per cent.
        digits : int, optional
            Decimals; more where an end of a clear difference would look like 0. By default, enough
            for two digits of the half-width: one for 1.2, two for 0.12; more where an end that is
            not 0 would look like 0. Without an interval, one if scaled, else three, less one for
            each digit before the point.
        unit : str
            Put after the estimate, including its space.
        sign : bool
            Whether positive numbers get a plus sign, as differences should; what is rounded to 0
            has none.
        half : bool
            "± half-width" instead of the two ends: for tables of means, whose intervals are
            centred on the estimate.

        Returns
        -------
        str
            The estimate alone where there is no interval, "–" where there is no estimate.

        Examples
        --------
        >>> Interval(0.7134, 0.69, 0.73).format(100, unit=" %")
        '71.3 % [69.0, 73.0]'
        >>> Interval(-24.8653, math.nan, math.nan).format(), Interval(0.09, 0.09, 0.09).format()
        ('−24.9', '0.090 [0.090, 0.090]')
        >>> Interval(-0.0056, -0.0108, -0.0004).format(100, 1, sign=True)
        '−0.56 [−1.08, −0.04]'
        >>> change = Interval(-0.0012, -0.0031, 0.0007)
        >>> change.format(100, 1, sign=True), change.format(100, half=True)
        ('−0.1 [−0.3, +0.1]', '−0.12 ± 0.19')
        """
        if math.isnan(self.estimate):
            return "–"
        if math.isinf(self.estimate):
            return "∞" if self.estimate > 0 else "−∞"
        width, ends = scale * (self.high - self.low) / 2, []
        if digits is None:
            whole = len(f"{abs(self.estimate):.0f}") if abs(self.estimate) >= 1 else 0
            digits = 1 if scale > 1 else max(3 - whole, 0)
            if 0 < width < math.inf:
                digits = min(max(1 - math.floor(math.log10(width)), 0), 6)
                ends = [abs(scale * end) for end in (self.low, self.high) if end]
        elif sign and self.low * self.high > 0:  # a clear difference
            ends = [abs(scale * end) for end in (self.low, self.high)]
        while ends and digits < 6 and min(ends) < 0.5 / 10**digits:  # not 0, so not to look it
            digits += 1

        def shown(x: float) -> str:
            value = round(scale * x, digits) + 0.0  # adding zero takes the minus off a rounded zero
            return f"{value:{'+' if sign and value else ''}.{digits}f}".replace("-", "−")

        text = shown(self.estimate) + ("" if half else unit)
        if math.isnan(width):
            return text + (unit if half else "")
        if half:
            return f"{text} ± {width:.{digits}f}{unit}"
        return f"{text} [{shown(self.low)}, {shown(self.high)}]"


class Unjudged(Interval):
    """The interval of a difference of calibration errors, which by itself decides nothing.

    A less accurate model has the higher ECE even if both models are calibrated, since chance adds
    more to it: compare the excess over chance (`calibkit.metrics.excess_ece`) instead.
    """

    def outcome(self, margin: float = 0.0) -> str:
        """Always "unclear", whatever the interval.

        Parameters
        ----------
        margin : float
            No effect.

        Returns
        -------
        str
            "unclear".
        """
        return "unclear"


class Answers(NamedTuple):
    """Confidences (m,) of predictions and whether each is right, instead of logits and labels."""

    confidence: ArrayLike
    correct: ArrayLike


class Ranked(NamedTuple):
    """`Answers`, and what ranks them in place of the confidence (m,), such as log-odds."""

    confidence: ArrayLike
    correct: ArrayLike
    rank: ArrayLike


class Samples(NamedTuple):
    """All that `metrics.per_sample` says about each sample (m,), instead of logits and labels."""

    confidence: ArrayLike
    correct: ArrayLike
    nll: ArrayLike
    brier: ArrayLike
    rank: "ArrayLike | None" = None  # what ranks them, where not the confidence


def wilson(successes: ArrayLike, trials: ArrayLike, level: float = 0.95) -> Interval:
    r"""Wilson's score interval of a proportion, which stays within [0, 1].

    .. math:: \frac{1}{1 + z^2/n}\Big(\hat p + \frac{z^2}{2n} \pm
              z\sqrt{\frac{\hat p(1 - \hat p)}{n} + \frac{z^2}{4n^2}}\Big)

    Wilson (1927), with z the normal quantile of (1 + level) / 2.

    Parameters
    ----------
    successes : array or number
        Number of successes.
    trials : array of the same shape, or number
        Number of trials, n.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Interval
        Fractions: numbers, or arrays where those were given; ``nan`` where there are no trials.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1.

    Examples
    --------
    >>> wilson(8, 10).format(100, unit=" %")
    '80 % [49, 94]'
    """
    _check_level(level)
    successes, n = (
        np.asarray(to_numpy(x, name), dtype=float)
        for x, name in ((successes, "successes"), (trials, "trials"))
    )
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        p = np.where(n > 0, successes / n, np.nan)
        centre = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return _interval(p, np.maximum(centre - half, 0), np.minimum(centre + half, 1))


def _interval(*ends: Array) -> Interval:
    return Interval(*(end if np.ndim(end) else float(end) for end in ends))


def bootstrap(
    logits: ArrayLike,
    labels: ArrayLike,
    metric_names: Sequence[Metric],
    n: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    kind: Kind = "logits",
    sample_weight: "ArrayLike | None" = None,
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
        Any of the names in `calibkit.metrics.ranked_metrics`, ``risk_at_coverage_`` and
        ``coverage_at_risk_`` followed by any number, and of logits "nll", "brier",
        "classwise_ece", its floor and its excess; with their default number of bins. Or functions
        of (confidence, correct), such as ``partial(metrics.fpr_at_tpr, tpr=0.9)``: slower.
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
        which a metric is undefined are left out; if it is undefined on all samples, all three
        numbers are ``nan``, with one `UndefinedMetricWarning`. Ends stay in the range of the metric
        and enclose the estimate.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, a name is
        unknown, there are fewer than two replicates, the level is not between 0 and 1, a weight is
        negative or all are 0, or there is only one group.

    Notes
    -----
    Resampling adds noise, and a binned calibration error counts noise as error, so replicates lie
    above the estimate. Their percentiles are therefore shifted until their mean is the estimate;
    for a mean such as accuracy this changes next to nothing. The interval is about the number that
    test sets of this size give, which for a well calibrated model is itself mostly noise: ask for
    "excess_ece" as well as "ece".

    From `many_rows.MANY` (50,000) samples on, unless a function of your own or a class-wise error
    is asked for, resamples draw random blocks of samples and count them in bins of the score:
    estimates stay exact, and ends differ by some 1 % of the width, less than another seed changes
    them (see ``calibkit.many_rows``). Of fewer samples every one is drawn by itself.

    Examples
    --------
    >>> logits = np.c_[np.linspace(-2, 4, 50), np.zeros(50)]
    >>> labels = np.arange(50) % 3 == 0
    >>> interval = bootstrap(logits, labels.astype(int), ["accuracy"], n=200)["accuracy"]
    >>> interval.low < interval.estimate < interval.high
    True
    """
    _check_level(level)
    (drawn,) = _drawn([logits], labels, metric_names, n, seed, kind, sample_weight, groups)
    return _own(drawn, metric_names, level)


def compare(
    logits_a: ArrayLike,
    logits_b: ArrayLike,
    labels: ArrayLike,
    metric_names: Sequence[Metric],
    n: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    kind: Kind = "logits",
    sample_weight: "ArrayLike | None" = None,
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
        Any of the names in `calibkit.metrics.ranked_metrics`, ``risk_at_coverage_`` and
        ``coverage_at_risk_`` followed by any number, and of logits "nll", "brier",
        "classwise_ece", its floor and its excess; with their default number of bins. Or functions
        of (confidence, correct), such as ``partial(metrics.fpr_at_tpr, tpr=0.9)``: slower.
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
    How much of the floor shows in an error depends on the model: all of it in a calibrated one,
    none where every bin is far off. The difference of two excesses is right if both models show it,
    that of two plain errors if neither does. The interval of an excess covers both cases, and so
    excludes 0 only if neither assumption would explain the difference. In simulations with 10,000
    samples and 15 bins, two calibrated models of 90 % and 44 % accuracy are told apart in 1 % of
    test sets (by the plain ECE in 32 %, by the plain adaptive ECE in 72 %). A model that is 2
    points off is told from a calibrated one in all test sets at 90 % accuracy, but in 36 % of them
    at 44 %, where the accuracy of a bin has a standard error of 1.9 points. There the
    likelihood ratio for bins that are off by 2 points, each to an unknown side, finds it in 73 %,
    and the gap between mean confidence and accuracy, if all bins are off to one side, in 89 %.

    Examples
    --------
    >>> logits = np.c_[np.linspace(-2, 4, 50), np.zeros(50)]
    >>> labels = np.arange(50) % 3
    >>> compare(logits, 2 * logits, (labels == 0).astype(int), ["auroc"], n=50)["auroc"]
    Interval(estimate=0.0, low=0.0, high=0.0)
    """
    _check_level(level)
    models = [logits_a, logits_b]
    drawn = _drawn(models, labels, metric_names, n, seed, kind, sample_weight, groups)
    return _difference(*drawn, metric_names, level)


def compare_all(
    models: Sequence[Answers],
    metric_names: Sequence[Metric],
    n: int = 1000,
    level: float = 0.95,
    sample_weight: "ArrayLike | None" = None,
    groups: "ArrayLike | None" = None,
) -> tuple[list[dict[str, Interval]], list[dict[str, Interval]]]:
    """What `bootstrap` says of every model, and `compare` of every two, from the same resamples.

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
    >>> first, second = ([0.9, 0.8, 0.7], [1, 1, 0]), ([0.6, 0.8, 0.7], [1, 1, 0])
    >>> own, (difference,) = compare_all([Answers(*first), Answers(*second)], ["auroc"], n=50)
    >>> [x["auroc"].estimate for x in own], difference["auroc"].estimate
    ([1.0, 0.5], 0.5)
    """
    _check_level(level)
    drawn = _drawn(models, None, metric_names, n, sample_weight=sample_weight, groups=groups)
    pairs = list(combinations(drawn, 2))
    joint = 1 - (1 - level) / max(len(pairs), 1)
    differences = [_difference(a, b, metric_names, joint) for a, b in pairs]
    return [_own(its, metric_names, level) for its in drawn], differences


def replicates(
    models: Sequence[ArrayLike],
    labels: ArrayLike,
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
        Any of the names in `calibkit.metrics.ranked_metrics`, ``risk_at_coverage_`` and
        ``coverage_at_risk_`` followed by any number, and of logits "nll", "brier",
        "classwise_ece", its floor and its excess; with their default number of bins. Or functions
        of (confidence, correct), such as ``partial(metrics.fpr_at_tpr, tpr=0.9)``: slower.
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
    drawn = _drawn(models, labels, metric_names, n, seed, kind)
    return np.array([[its[name][1] for name in metric_names] for its in drawn]).swapaxes(1, 2)


# What every run keeps replicates of, as trained and behind recalibration; and as trained alone.
COMPARED = (
    "accuracy", "ece", "adaptive_ece", "classwise_ece",
    "ece_floor", "excess_ece", "excess_adaptive_ece", "excess_classwise_ece",
    "nll", "brier", "auroc", "aupr_error", "aupr_success", "aurc", "eaurc", "fpr_at_tpr",
    *(f"risk_at_coverage_{share}" for share in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)),
)  # fmt: skip
RANKING = ("auroc", "aupr_error", "aupr_success", "aurc", "eaurc", "fpr_at_tpr")  # by the p-norm
BY_LOG_ODDS = "_log_odds"  # behind the name of a metric that is ranked by them
UNCHANGED = ("confidence", "confidence_gap", "histogram_overlap", "ece_correct")


@dataclass(frozen=True, eq=False)
class Replicates:
    """Metrics of one run on resamples of its test set: how far each lies from its estimate.

    What is drawn depends only on the size of the test set, so the i-th replicate of every run on
    that set has the same samples, and differences of deviations come from paired resamples. Made by
    `replicates_of_run`, kept in a file of some 30 KB, used by `mean_over_seeds`.

    Attributes
    ----------
    names : tuple of str
        Metrics (`COMPARED` and a few more) as trained, ``auroc``; `COMPARED` after each
        recalibration, ``auroc_ts_nll``; `RANKING` by the p-norm of the logits, ``auroc_p_norm``;
        and what ranks by the log-odds, ``auroc_log_odds`` and ``auroc_ts_nll_log_odds``: without
        that ending it ranks by the confidence, as in version 0.1. Older files have no p-norm and no
        log-odds.
    estimates : array (names,)
        Values on the whole test set.
    deviations : array (names, n)
        Replicate minus estimate; ``nan`` where a replicate leaves the metric undefined.
    temperatures : dict of str to float
        Of ``ts_nll``, ``ts_ece`` and ``optimal``.
    p : float, optional
        Of `confidence.p_norm`, with the highest AUROC on the validation data.
    """

    names: tuple[str, ...]
    estimates: Array
    deviations: Array
    temperatures: dict[str, float]
    p: float | None = None

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def estimate(self, name: str) -> float:
        """A metric on the whole test set.

        Parameters
        ----------
        name : str
            One of `names`.

        Returns
        -------
        float
            In the units of the metric.

        Raises
        ------
        KeyError
            If the metric is not among `names`.
        """
        return float(self.estimates[self._place[name]])

    def deviation(self, name: str) -> Array:
        """What each resample adds to a metric.

        Parameters
        ----------
        name : str
            One of `names`.

        Returns
        -------
        array of float64, shape (n,)
            Replicate minus estimate, in the units of the metric.

        Raises
        ------
        KeyError
            If the metric is not among `names`.
        """
        return self.deviations[self._place[name]].astype(np.float64)

    def save(self, path: str | Path) -> None:
        """Write an ``.npz`` without pickles, some 30 KB.

        Deviations are rounded to 255 steps up to the largest, which changes their standard
        deviation by less than 0.1 %; with 200 replicates it is uncertain by 5 % anyway.

        Parameters
        ----------
        path : path
            File to write, ending in ``.npz``.
        """
        steps, step = self.quantised()
        np.savez_compressed(
            path,
            names=np.array(self.names),
            estimates=self.estimates,
            steps=steps,
            step=step,
            recalibrations=np.array(list(self.temperatures), dtype=np.str_),
            temperatures=np.array(list(self.temperatures.values()), dtype=np.float64),
            p=np.array([] if self.p is None else [self.p], dtype=np.float64),
        )

    def quantised(self) -> tuple[Array, Array]:
        """Deviations in whole steps, as files keep them.

        Returns
        -------
        steps : array (names, n) of int8
            From -127 to 127; -128 where a replicate leaves the metric undefined.
        step : array (names, 1) of float32
            Size of a step, in the units of the metric.

        Examples
        --------
        >>> kept = Replicates(("ece",), np.array([0.1]), np.array([[-0.02, 0.01]]), {})
        >>> kept.quantised()[0].tolist()
        [[-127, 64]]
        """
        most = np.nanmax(np.abs(self.deviations), axis=1, initial=0, keepdims=True)
        step = np.where(most > 0, most / 127, 1)
        steps = np.where(np.isnan(self.deviations), -128, np.rint(self.deviations / step))
        return steps.astype(np.int8), step.astype(np.float32)

    @classmethod
    def load(cls, path: str | Path) -> "Replicates":
        """Read what `save` wrote.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Replicates
            With deviations in float32.
        """
        with np.load(path, allow_pickle=False) as file:
            of = zip(file["recalibrations"].tolist(), file["temperatures"].tolist(), strict=True)
            steps = file["steps"]
            deviations = np.where(steps == -128, np.nan, steps * file["step"]).astype(np.float32)
            p = next(iter(file["p"].tolist()), None) if "p" in file else None
            return cls(tuple(file["names"].tolist()), file["estimates"], deviations, dict(of), p)


def replicates_of_run(
    logits: ArrayLike,
    labels: ArrayLike,
    val_logits: "ArrayLike | None" = None,
    val_labels: "ArrayLike | None" = None,
    n: int = 200,
    seed: int = 0,
    kind: Kind = "logits",
) -> Replicates:
    """Metrics of a run on resamples of its test set, as trained and after recalibration.

    By the p-norm of the logits, too, with the p of the highest AUROC on the validation data.
    Recalibrations are ``ts_nll`` and ``ts_ece`` (temperature scaling by the NLL and by the ECE of
    the validation data), ``binned`` (histogram binning fitted there) and ``optimal`` (the
    temperature of lowest ECE on the test set itself). None is refitted in a replicate, so
    replicates show the uncertainty of the test set, given the run, its validation data and the fit.

    Parameters
    ----------
    logits : array or tensor, shape (m, k)
        Scores before the softmax of the test set.
    labels : array or tensor of integers, shape (m,)
        Its true classes, 0 to k - 1.
    val_logits : array or tensor, shape (v, k), optional
        Scores before the softmax of the validation set; without it there is only ``optimal``.
    val_labels : array or tensor of integers, shape (v,), optional
        Its true classes.
    n : int
        Replicates, at least 2. Each draws m samples with replacement.
    seed : int
        Same seed, same resamples; runs can be compared if they share `n` and `seed`.
    kind : {"logits", "probs"}
        "probs" if the logits are probabilities, which are refused otherwise.

    Returns
    -------
    Replicates
        Of all metrics, as trained and after each recalibration.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, or there are
        fewer than two replicates.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 100)
    >>> logits = rng.normal(size=(100, 3)) + 2 * np.eye(3)[labels]
    >>> found = replicates_of_run(logits, labels, n=20)
    >>> found.deviation("auroc").shape, found.estimate("accuracy") == found.estimate(
    ...     "accuracy_optimal"
    ... )
    ((20,), True)
    """
    from calibkit import confidence, posthoc  # here: nothing else needs them

    given, logits = logits, as_logits(logits, kind=kind)
    labels = as_labels(labels, logits.shape[1], len(logits))
    temperatures, parts, p = {}, {"": (logits, (*COMPARED, *UNCHANGED))}, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        if val_logits is not None:
            held_out = as_logits(val_logits, "val_logits", kind), val_labels
            right = held_out[0].argmax(axis=1) == to_numpy(val_labels, "val_labels")
            if logits.shape[1] > 2 and right.any() and not right.all():  # two classes: all the same
                p = confidence.choose_p(*held_out)
            for objective in ("nll", "ece"):
                best = posthoc.optimal_temperature(*held_out, objective)
                temperatures[f"ts_{objective}"] = best[0]
            binned = posthoc.HistogramBinning().fit(*held_out).predict_proba(logits)
            parts["_binned"] = log_of_map(binned), COMPARED
        temperatures["optimal"] = posthoc.optimal_temperature(logits, labels, "ece")[0]
    parts |= {f"_{name}": (logits / value, COMPARED) for name, value in temperatures.items()}
    for part in [part for part in parts if part != "_binned"]:  # that makes equal confidences
        its = metrics.per_sample(parts[part][0], labels)
        odds = Ranked(its["confidence"], its["correct"], log_odds(parts[part][0]))
        parts[part + BY_LOG_ODDS] = odds, tuple(filter(metrics.ranks, COMPARED))
    if p is not None:
        scores = Answers(confidence.p_norm(logits, p), logits.argmax(axis=1) == labels)
        parts["_p_norm"] = scores, RANKING
    evaluators = [
        _evaluator(
            _Model(scores if part else given, labels, asked, "logits" if part else kind, True),
            asked,
        )
        for part, (scores, asked) in parts.items()
    ]
    names = [metric + part for part, (_, asked) in parts.items() for metric in asked]
    estimates = np.concatenate([evaluate(None) for evaluate in evaluators])
    values = _replicates(evaluators, len(labels), n, seed)
    deviations = (np.concatenate(values, axis=1) - estimates).T.astype(np.float32)
    return Replicates(tuple(names), estimates, deviations, temperatures, p)


@dataclass(frozen=True)
class MeanOverSeeds:
    """A mean over runs and its sources of uncertainty; made by `mean_over_seeds`."""

    estimate: float
    shared: float  # variance that all runs share: the sampling of their one test set
    own: float  # variance from run to run
    seeds: int
    freedom: float  # degrees of freedom of `own`

    @property
    def variance(self) -> float:
        """Variance of the mean, ``shared + own / seeds``."""
        return self.shared + self.own / self.seeds if self.seeds else math.nan

    def interval(self, level: float = 0.95) -> Interval:
        """Interval of the mean: t √variance on either side, see `mean_over_seeds`.

        Beyond 95 % this is too short for a few runs, whose spread also sets the degrees of freedom:
        at 99.8 %, three runs miss in up to 17 of 1,000 cases instead of 2. There the half-width is
        at least the root of z² shared + t² S² / k, with z normal and t on k - 1 degrees of freedom.

        Parameters
        ----------
        level : float
            Coverage, in (0, 1).

        Returns
        -------
        Interval
            Ends are ``nan`` where nothing tells the spread between runs.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.
        """
        _check_level(level)
        chance = (1 + level) / 2
        half = self._quantile(chance) * math.sqrt(self.variance)
        if level > 0.95 and not math.isnan(half):
            half = max(half, self._safe_half(chance))
        return Interval(self.estimate, self.estimate - half, self.estimate + half)

    def _safe_half(self, chance: float) -> float:
        """Half-width that uses a separate quantile for each source of uncertainty."""
        from scipy.special import ndtri, stdtrit

        runs = self.seeds - 1.0 if self.seeds > 1 else self.freedom
        # Of the runs alone: `own` is at least what the test set makes of them.
        spread = self.own * math.sqrt(runs / self.freedom)
        z, t = float(ndtri(chance)), float(stdtrit(min(runs, 1e6), chance))
        return math.sqrt(z**2 * self.shared + max(z**2 * self.own, t**2 * spread) / self.seeds)

    def _quantile(self, chance: float) -> float:
        """Quantile of t, on Satterthwaite's degrees of freedom."""
        from scipy.special import stdtrit

        if not self.seeds or math.isnan(self.own):
            return math.nan
        freedom = max(self.freedom, self.seeds - 1.0)
        part = self.own / self.seeds
        share = (self.shared + part) / part if part else math.inf
        return float(stdtrit(min(freedom * share**2, 1e6), chance))


def mean_over_seeds(
    values: ArrayLike,
    deviations: "ArrayLike | None" = None,
    spread: "ArrayLike | None" = None,
) -> MeanOverSeeds:
    r"""Mean of a metric over runs that share a test set, with the uncertainty of both.

    The interval covers two sources of uncertainty, the sampling of the test set and the seed. It
    is for the mean of infinitely many seeds on all data of that kind. With k
    runs of variance S², v_i the variance of run i over the resamples and V that of their mean,

    .. math::
        H &= \tfrac{k}{k-1}\,(\bar v - V)
        && \text{by which the test set makes runs differ} \\
        \mathrm{own} &= \max(S^2, H), \qquad \mathrm{shared} = V - H/k \\
        \mathrm{variance} &= \mathrm{shared} + \mathrm{own}/k

    S² is measured on one test set and so already contains H: V + S²/k would count it twice.
    ``interval`` is t √variance on either side, with t on the degrees of freedom of Satterthwaite's
    rule, ``(k - 1) (variance / (S²/k))²``: nearly normal where the test set is most of the
    uncertainty, Student's where the seeds are. In simulations the 95 % interval covers in 94 to 98
    of 100 cases for five runs or more, whatever the share of each; at worst 92 for three and 87
    for two.

    For a difference between two methods, pair by seed and pass ``a - b`` for values and deviations.

    Parameters
    ----------
    values : array or tensor, shape (k,)
        The metric of each run.
    deviations : array, shape (k, n), optional
        Of each run over resamples of the test set, see `Replicates`; without them, only the seeds
        count.
    spread : array, shape (j,), optional
        Values of other runs, whose variance stands in for S² if there is only one run. Without
        it one run has no interval.

    Returns
    -------
    MeanOverSeeds
        The mean and its sources of uncertainty. Undefined runs (``nan``) are left out.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> a, b = np.array([0.93, 0.95, 0.94]), np.array([0.91, 0.92, 0.92])
    >>> [round(x, 4) for x in mean_over_seeds(a - b).interval()]
    [0.0233, 0.009, 0.0377]
    >>> [round(x, 4) for x in seed_interval(a - b)]  # the same, without replicates
    [0.0233, 0.009, 0.0377]
    """
    values = _values(values)
    draws = np.zeros((len(values), 2)) if deviations is None else to_numpy(deviations, "deviations")
    if draws.ndim != 2 or len(draws) != len(values):
        raise ValueError(f"deviations: got shape {draws.shape}, expected ({len(values)}, n)")
    there = ~np.isnan(values)
    values, draws = values[there], draws[there]
    draws = draws[:, ~np.isnan(draws).any(axis=0)]
    k = len(values)
    if k == 0 or draws.shape[1] < 2:
        estimate = float(values.mean()) if k else math.nan
        return MeanOverSeeds(estimate, 0.0, math.nan, k, 0.0)
    shared, differing = float(draws.mean(axis=0).var(ddof=1)), 0.0
    if k > 1:
        differing = max(k / (k - 1) * (float(draws.var(axis=1, ddof=1).mean()) - shared), 0.0)
        shared = max(shared - differing / k, 0.0)
    runs = values if k > 1 or spread is None else to_numpy(spread, "spread").astype(np.float64)
    runs = runs[~np.isnan(runs)]
    own, freedom = math.nan, 0.0
    if len(runs) > 1:
        spread_of_runs = float(runs.var(ddof=1))
        own = max(spread_of_runs, differing)
        # Satterthwaite's rule by the spread that was seen, in terms of the one that is taken.
        freedom = (len(runs) - 1) * ((own / spread_of_runs) ** 2 if spread_of_runs else math.inf)
    return MeanOverSeeds(float(values.mean()), shared, own, k, freedom)


def seed_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    r"""Mean of one value per seed, with Student's t interval.

    .. math:: \bar x \pm t\,s / \sqrt{k}

    for k seeds with standard deviation s, and t on k - 1 degrees of freedom.

    Parameters
    ----------
    values : array or tensor, shape (seeds,) or (seeds, ...)
        The metric of each run; or several of each, such as a curve.
    level : float
        Coverage of the interval, in (0, 1).

    Returns
    -------
    Interval
        In the units of the metric: numbers, or arrays where those were given. Ends are ``nan`` for
        fewer than two seeds: one run says nothing about the next.

    Raises
    ------
    ValueError
        If there are no values, or the level is not between 0 and 1.

    Examples
    --------
    >>> tuple(round(end, 3) for end in seed_interval([1.0, 2.0, 3.0]))
    (2.0, -0.484, 4.484)
    """
    _check_level(level)
    values = _values(values)
    mean, half = values.mean(axis=0), math.nan
    if len(values) > 1:
        from scipy.special import stdtrit  # the t quantile, without the second scipy.stats takes

        t = stdtrit(len(values) - 1, (1 + level) / 2)
        half = t * values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return _interval(mean, mean - half, mean + half)


class _Model:
    """What is known of each sample of a model, and which metrics can be computed from it.

    Logits are ranked by their log-odds, as `metrics.summary` does, or as it did in version 0.1, by
    the confidence.
    """

    def __init__(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        names: Sequence[Metric],
        kind: Kind = "logits",
        by_confidence: bool = False,
    ) -> None:
        self.classwise, valid = None, []
        rank = getattr(logits, "rank", None)
        if isinstance(logits, Answers | Ranked | Samples):
            confidence, correct = as_confidence_correct(*logits[:2])
            self.by_sample = {"confidence": confidence, "correct": correct}
            if isinstance(logits, Samples):
                valid = ["nll", "brier"]
                self.by_sample |= {name: to_numpy(getattr(logits, name), name) for name in valid}
        else:
            logits = as_probs(logits, "logits") if kind == "probs" else as_logits(logits)
            labels = as_labels(labels, logits.shape[1], len(logits))
            self.by_sample = metrics.per_sample(logits, labels, kind)
            rank = log_odds(logits) if kind == "logits" and not by_confidence else None
            valid = ["nll", "brier", *_CLASSWISE]
            if any(name in _CLASSWISE for name in names):
                self.classwise = _Classwise(softmax(logits, kind), labels)
        self.ranked = metrics.ranked_metrics(
            coverages=_numbers("risk_at_coverage_", names),
            risks=_numbers("coverage_at_risk_", names),
        )
        valid = [*self.ranked, *valid]
        if any(name not in valid for name in names if not callable(name)):
            raise ValueError(f"metric_names: got {names!r}, expected a list of: {', '.join(valid)}")
        self.confidence, self.correct = self.by_sample["confidence"], self.by_sample["correct"]
        self.rank = self.confidence if rank is None else to_numpy(rank)

    def by_rank(self, name: Metric) -> bool:
        """Whether a metric ranks by something other than the confidence."""
        return self.rank is not self.confidence and metrics.ranks(name)

    def orders(self, names: Sequence[Metric]) -> dict[bool, tuple[Array, list[str]]]:
        """By `by_rank`: what ranks the samples, and the metrics of that ranking."""
        orders: dict = {}
        for name in names:
            if not callable(name) and name in self.ranked:
                score = self.rank if self.by_rank(name) else self.confidence
                orders.setdefault(self.by_rank(name), (score, []))[1].append(name)
        return orders


def _evaluator(
    model: _Model,
    names: Sequence[Metric],
    sample_weight: "ArrayLike | None" = None,
    groups: "ArrayLike | None" = None,
) -> Callable[[Array | None], Array]:
    """Return a function from drawn samples (None: all, once) to the metrics.

    The scores are sorted here, once. Without weights, counts are whole numbers.
    """
    by_sample, classwise, ranked = model.by_sample, model.classwise, model.ranked
    m = len(model.correct)
    orders = {of: _places(x, model.correct) for of, (x, _) in model.orders(names).items()}
    weights = None if sample_weight is None else as_counts(sample_weight, m)
    everything = np.arange(m) if weights is None else np.flatnonzero(weights)
    worth = _worth(by_sample, weights, None if groups is None else as_groups(groups, m))

    def evaluate(rows: Array | None) -> Array:
        rows = everything if rows is None else rows
        its = None if weights is None else weights[rows]
        size = None if worth is None else worth * float(len(rows) if its is None else its.sum())
        rankings = {}
        for of, (distinct, code) in orders.items():
            counts = np.bincount(code[rows], its, minlength=2 * len(distinct)).reshape(2, -1)
            rankings[of] = metrics.Ranking(distinct, counts[1], counts[0], size)
        by_class = {}
        if classwise:
            by_class = classwise(np.bincount(rows, its, minlength=m), worth or 1.0)

        def value(name: Metric) -> float:
            if callable(name):
                more = {} if its is None else {"sample_weight": its}
                pair = by_sample["confidence"][rows], by_sample["correct"][rows]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
                    return float(name(*pair, **more))
            if name in ranked:
                return ranked[name](rankings[model.by_rank(name)])
            if name in by_class:
                return by_class[name]
            return float(np.average(by_sample[name][rows], weights=its))

        return np.array([value(name) for name in names])

    return evaluate


def _on_all(model: _Model, names: Sequence[str], weights: "Array | None", worth) -> Array:
    """Metrics (metrics,) on all samples."""

    def ranked(score: Array, its: list[str]) -> dict[str, float]:
        ranking = metrics.Ranking.of(score, model.correct, weights)
        ranking.worth = ranking.worth if worth is None else worth
        return {name: model.ranked[name](ranking) for name in its}

    exact = {}
    for score, its in model.orders(names).values():
        exact |= ranked(score, its)
    for name in set(names) - set(exact):
        exact[name] = float(np.average(model.by_sample[name], weights=weights))
    return np.array([exact[name] for name in names])


def _of_many(
    read: Sequence[_Model],
    names: Sequence[str],
    n: int,
    seed: int,
    weights: "Array | None",
    groups: "Array | None",
) -> list[tuple[Array, Array]]:
    """Of each model, metrics on all samples, and on resamples as `many_rows` draws them."""
    worths = [_worth(model.by_sample, weights, groups) for model in read]
    exact = [_on_all(x, names, weights, worth) for x, worth in zip(read, worths, strict=True)]
    blocks, drawn = many_rows.Blocks(len(read[0].correct), n, seed, weights, groups), []
    for model, worth, estimates in zip(read, worths, exact, strict=True):
        values = {}
        for score, its in model.orders(names).values():
            rankings = blocks.rankings(score, model.correct, worth)
            found = np.array([[model.ranked[name](x) for name in its] for x in rankings])
            values |= dict(zip(its, found.T, strict=True))
        for name in set(names) - set(values):
            rows = blocks.sums(np.ones(len(model.correct)))
            values[name] = blocks.sums(model.by_sample[name]) / rows
        of_all = np.array([values[name] for name in names]).T
        # Bins change a metric a little: only how far resamples lie from all rows is used.
        drawn.append((estimates, of_all[:-1] + (estimates - of_all[-1])))
    return drawn


def _places(score: Array, correct: Array) -> tuple[Array, Array]:
    """Distinct scores, highest first; of each sample its place among them, and if it is right.

    The second is one number: the place, and behind all places once more for the right ones.
    """
    ascending, place = np.unique(score, return_inverse=True)
    return ascending[::-1], len(ascending) - 1 - place + len(ascending) * correct


def _worth(
    by_sample: dict[str, Array], weights: "Array | None", groups: "Array | None"
) -> float | None:
    """How many samples a unit of weight is worth to a floor; None: one."""
    if weights is None and groups is None:
        return None
    residual = by_sample["confidence"].astype(np.float64) - by_sample["correct"]
    every = len(residual) if weights is None else float(weights.sum())
    return effective_size(weights, groups, residual) / every


_CLASSWISE = ("classwise_ece", "classwise_ece_floor", "excess_classwise_ece")


class _Classwise:
    """Class-wise calibration errors for any weights of the samples, as in `metrics.summary`.

    Per class and bin of its probability: sums of weights times p, p², 1 and p - t. Only the few
    probabilities above the lowest bin are kept one by one; that bin is the rest of each column.
    """

    def __init__(self, probs: Array, labels: Array, bins: int = 15) -> None:
        from scipy.sparse import csr_array

        n, k = probs.shape
        self.shape = (k, bins)
        inner = np.linspace(0, 1, bins + 1).astype(probs.dtype)[1:-1]
        sample, of = np.nonzero(probs > inner[0])
        p = probs[sample, of]
        cell = of * bins + np.searchsorted(inner, p)
        self.columns = np.stack([probs, probs**2]).astype(np.float64, copy=False)
        self.residual = self.columns[0].copy()
        self.residual[np.arange(n), labels] -= 1
        values = p, self.columns[1][sample, of], np.ones(len(p)), self.residual[sample, of]
        self.high = [csr_array((v, (cell, sample)), shape=(k * bins, n)) for v in values]

    def __call__(self, weights: Array, worth: float = 1.0) -> dict[str, float]:
        """For weights of the samples, a unit of which is worth so many samples to the floor."""
        weights = weights.astype(np.float64)
        n = weights.sum()
        everything = [*(weights @ c for c in self.columns), n, weights @ self.residual]
        sums = []
        for high, total in zip(self.high, everything, strict=True):
            cells = (high @ weights).reshape(self.shape)
            cells[:, 0] = total - cells.sum(axis=1)
            sums.append(cells)
        p, squares, count, residual = sums
        error = float(np.abs(residual).sum(axis=1).mean() / n)
        deviation = metrics.mean_deviation(worth * count, worth * p, worth * squares)
        floor = float(deviation.sum(axis=1).mean() / (worth * n))
        return dict(zip(_CLASSWISE, (error, floor, error - floor), strict=True))


def _replicates(
    evaluators: list,
    m: int,
    n: int,
    seed: int,
    sample_weight: "ArrayLike | None" = None,
    groups: "ArrayLike | None" = None,
) -> list[Array]:
    """Evaluate all on the same resamples: an array (n, metrics) of each."""
    _check_replicates(n)
    resamples = draws(m, n, seed, sample_weight, groups)
    with _one_thread():
        values = [[evaluate(rows) for evaluate in evaluators] for rows in resamples]
    return [np.array(its) for its in zip(*values, strict=True)]


def _check_replicates(n: int) -> None:
    if n < 2:
        raise ValueError(f"n: got {n!r}, expected at least 2 replicates")


def _one_thread() -> AbstractContextManager:
    """BLAS in one thread: on a busy machine, waiting for threads slows short sums a hundredfold."""
    try:
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError:
        return nullcontext()
    return threadpool_limits(1, "blas")


Drawn: TypeAlias = dict[Metric, tuple[float, Array]]  # value of a metric, and on resamples


def _drawn(
    models: Sequence,
    labels: ArrayLike,
    names: Sequence,
    n: int,
    seed: int = 0,
    kind: Kind = "logits",
    sample_weight: "ArrayLike | None" = None,
    groups: "ArrayLike | None" = None,
) -> list[Drawn]:
    """Of each model, all on the same resamples; plain errors, too, whose excess is asked for."""
    if isinstance(names, str) or callable(names):
        raise ValueError(f"metric_names: got {names!r}, expected a list of names")
    if len(models) == 0:
        raise ValueError("models: got no arrays, expected one for each model")
    names = list(dict.fromkeys([*names, *(_EXCESS[name] for name in names if name in _EXCESS)]))
    read = [_Model(x, labels, names, kind) for x in models]
    sizes = [len(model.correct) for model in read]
    if len(set(sizes)) > 1:
        raise ValueError(f"logits: got {tuple(sizes)} samples, expected the same of all models")
    m, fast = sizes[0], not any(callable(name) or name in _CLASSWISE for name in names)
    if fast and m >= many_rows.MANY:
        weights = None if sample_weight is None else as_counts(sample_weight, m)
        places = None if groups is None else as_groups(groups, m)
        _check_replicates(n)
        found = _of_many(read, names, n, seed, weights, places)
    else:
        evaluators = [_evaluator(model, names, sample_weight, groups) for model in read]
        values = _replicates(evaluators, m, n, seed, sample_weight, groups)
        found = [(f(None), its) for f, its in zip(evaluators, values, strict=True)]
    return [
        {name: (x, its) for name, x, its in zip(names, estimates, values.T, strict=True)}
        for estimates, values in found
    ]


def _own(drawn: Drawn, names: Sequence[Metric], level: float) -> dict[str, Interval]:
    return _warned({_label(x): _ends(*drawn[x], level).within(*_range(x)) for x in names})


def _difference(a: Drawn, b: Drawn, names: Sequence[Metric], level: float) -> dict[str, Interval]:
    plain = {x: _ends(a[x][0] - b[x][0], a[x][1] - b[x][1], level) for x in a}

    def difference(name: Metric) -> Interval:
        low, high = _range(name)
        estimate, *ends = plain[name]
        if name in _EXCESS:
            ends += plain[_EXCESS[name]][1:]
        kind = Unjudged if name in UNJUDGED else Interval
        return kind(estimate, min(ends), max(ends)).within(low - high, high - low)

    return _warned({_label(name): difference(name) for name in names})


def _ends(estimate: float, values: Array, level: float) -> Interval:
    """The interval of a metric by its replicates."""
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


def _values(values: ArrayLike) -> Array:
    array = np.asarray(to_numpy(values, "values"), dtype=np.float64)
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"values: got shape {array.shape}, expected (seeds,) with at least one")
    return array


def _numbers(prefix: str, names: Sequence[Metric]) -> list[float]:
    """The numbers that end such names as "risk_at_coverage_0.8"."""
    named = filter(lambda name: isinstance(name, str), names)
    matches = [re.fullmatch(prefix + r"(0\.\d+|1)", name) for name in named]
    return [float(match[1]) for match in matches if match]


def _label(metric: Metric) -> str:
    """A metric's name; of a partial function with its arguments."""
    if isinstance(metric, str):
        return metric
    if isinstance(metric, partial):
        options = [*map(repr, metric.args), *(f"{k}={v!r}" for k, v in metric.keywords.items())]
        return f"{metric.func.__name__}({', '.join(options)})"
    return getattr(metric, "__name__", repr(metric))


def _range(metric: Metric) -> tuple[float, float]:
    return (-math.inf, math.inf) if callable(metric) else _RANGES.get(metric, (0.0, 1.0))


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level: got {level!r}, expected a number between 0 and 1")
