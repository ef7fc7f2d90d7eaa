"""How sure is a number? Intervals over test samples and over seeds, and differences of models.

Two sources of doubt are kept apart. *Samples*: another test set of the same size would have given
another value (`bootstrap`, `compare`). *Seeds*: another training would have given another model
(`seed_interval`, `welch`). `variance_parts` shows one beside the other.

A bootstrap replicate here is a change of counts, not a new array: confidences are sorted once, and
each replicate says how often each of them was drawn.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array, ArrayLike, as_labels, as_logits, softmax


class Interval(NamedTuple):
    """An estimate and the ends of its interval, in the units of the metric."""

    estimate: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """What a difference with this interval says, in words.

        Examples
        --------
        >>> Interval(0.2, 0.1, 0.3).verdict, Interval(0.2, -0.1, 0.5).verdict
        ('higher', 'no clear difference')
        >>> seed_interval([0.2]).verdict  # one training says nothing about the next
        'cannot be told'
        """
        if math.isnan(self.low):
            return "cannot be told"
        return "higher" if self.low > 0 else "lower" if self.high < 0 else "no clear difference"


class WelchTest(NamedTuple):
    """A difference of means, its t statistic and its two-sided p-value."""

    difference: float
    t: float
    p: float


class VarianceParts(NamedTuple):
    """Mean over seeds, standard deviation between seeds, and that of the test set's sampling."""

    mean: float
    seed_sd: float
    sample_sd: float


def bootstrap(
    logits: ArrayLike,
    labels: ArrayLike,
    metric_names: Sequence[str],
    n: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Interval]:
    """Bootstrap intervals of metrics over the samples of a test set.

    Parameters
    ----------
    logits : array (m, k)
        Scores before the softmax.
    labels : array (m,)
        True classes.
    metric_names : sequence of str
        Any of the names in `calibkit.metrics.ranked_metrics`, and "nll", "brier", "classwise_ece";
        with their default number of bins. "classwise_ece" is slow for many classes.
    n : int
        Replicates. Each draws m samples with replacement.
    seed : int
        Same seed, same intervals.
    level : float
        Coverage of the interval, in (0, 1).

    Returns
    -------
    dict of str to Interval
        The estimate is the metric on all samples, not the mean of the replicates. Replicates in
        which a metric is undefined are left out; if it is undefined on all samples, all three
        numbers are ``nan``, with one `UndefinedMetricWarning`.

    Raises
    ------
    ValueError
        If an argument is malformed or a name unknown.

    Notes
    -----
    Resampling adds noise, and a binned calibration error counts noise as error, so replicates lie
    above the estimate. Their percentiles are therefore shifted until their mean is the estimate;
    for a mean such as accuracy that changes next to nothing. The interval is about the number that
    test sets of this size give, which for a well calibrated model is mostly noise itself: compare
    it with the ECE of chance in a report.

    Examples
    --------
    >>> logits = np.c_[np.linspace(-2, 4, 50), np.zeros(50)]
    >>> labels = np.arange(50) % 3 == 0
    >>> interval = bootstrap(logits, labels.astype(int), ["accuracy"], n=200)["accuracy"]
    >>> interval.low < interval.estimate < interval.high
    True
    """
    _check_level(level)
    evaluate, m = _evaluator(logits, labels, metric_names)
    values = _replicates([evaluate], m, n, seed)[0]
    found = _intervals(metric_names, evaluate(None), values, level)
    # A shift may move an end below zero, where only some metrics have a place.
    signed = (values < 0).any(axis=0)
    return {
        name: interval if below else interval._replace(low=max(interval.low, 0.0))
        for below, (name, interval) in zip(signed, found.items(), strict=True)
    }


def compare(
    logits_a: ArrayLike,
    logits_b: ArrayLike,
    labels: ArrayLike,
    metric_names: Sequence[str],
    n: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Interval]:
    """Bootstrap intervals of a difference, model a minus model b, on one test set.

    Both models are evaluated on the same resamples, so that what makes a resample easy or hard for
    both cancels. An interval that leaves out 0 is a difference which the test set can tell.

    Parameters
    ----------
    logits_a, logits_b : arrays (m, k)
        Scores of the two models for the same samples.
    labels, metric_names, n, seed, level
        As `bootstrap`.

    Returns
    -------
    dict of str to Interval
        As `bootstrap`, of differences.

    Raises
    ------
    ValueError
        If an argument is malformed, the numbers of samples differ, or a name is unknown.

    Examples
    --------
    >>> logits = np.c_[np.linspace(-2, 4, 50), np.zeros(50)]
    >>> labels = np.arange(50) % 3
    >>> compare(logits, 2 * logits, (labels == 0).astype(int), ["auroc"], n=50)["auroc"]
    Interval(estimate=0.0, low=0.0, high=0.0)
    """
    _check_level(level)
    a, m = _evaluator(logits_a, labels, metric_names)
    b, _ = _evaluator(logits_b, labels, metric_names)
    values_a, values_b = _replicates([a, b], m, n, seed)
    return _intervals(metric_names, a(None) - b(None), values_a - values_b, level)


def replicates(
    models: Sequence[ArrayLike],
    labels: ArrayLike,
    metric_names: Sequence[str],
    n: int = 200,
    seed: int = 0,
) -> Array:
    """Metrics of several models on the same resamples of their test set: the draws of `seed_means`.

    Parameters
    ----------
    models : sequence of arrays (m, k)
        Scores of each model for the same samples.
    labels, metric_names, n, seed
        As `bootstrap`.

    Returns
    -------
    array (models, n, metrics)

    Raises
    ------
    ValueError
        As `bootstrap`.

    Examples
    --------
    >>> logits = np.c_[np.linspace(-2, 4, 50), np.zeros(50)]
    >>> labels = (np.arange(50) % 3 == 0).astype(int)
    >>> a, b = replicates([logits, 2 * logits], labels, ["auroc"], n=20)
    >>> bool((a == b).all())  # a factor leaves the order alone, whatever was drawn
    True
    """
    if len(models) == 0:
        raise ValueError("models: got no arrays, expected one for each model")
    evaluators = [_evaluator(logits, labels, metric_names)[0] for logits in models]
    return _replicates(evaluators, len(np.asarray(labels)), n, seed)


@dataclass(frozen=True)
class SeedMeans:
    """Means over seeds of several methods, and how sure each is; made by `seed_means`."""

    mean: Array  # (methods,)
    variance: Array  # of the mean, between seeds
    freedom: Array  # degrees of freedom of that variance
    draws: Array  # (methods, n): the mean on each resample of the test set

    def contrast(self, weights: ArrayLike, level: float = 0.95) -> Interval:
        """Interval of Σ w_i mean_i: of a difference with weights 1 and -1.

        The half-width is t √(Σ w_i² variance_i + v), with v the variance of the sum over resamples
        of the test set. The degrees of freedom of t are those of Satterthwaite's rule as if all
        variances were too small or too large together: between two methods of equal freedom, as
        many as either has. Taken as independent they would be more, and intervals too short.

        Parameters
        ----------
        weights : array (methods,)
            A method of weight 0 does not matter.
        level : float
            Coverage, in (0, 1).

        Returns
        -------
        Interval
            ``nan`` if a method has no seeds; ends ``nan`` where nothing tells the spread.
        """
        _check_level(level)
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != self.mean.shape:
            raise ValueError(f"weights: got shape {weights.shape}, expected {self.mean.shape}")
        used = weights != 0
        w, freedom = weights[used], self.freedom[used]
        estimate, half = float(w @ self.mean[used]), math.nan
        if (freedom > 0).all():
            from scipy.special import stdtrit

            parts = w**2 * self.variance[used]
            total = float(parts.sum() + (w @ self.draws[used]).var(ddof=1))
            doubt = float((parts / np.sqrt(freedom)).sum() ** 2)
            t = stdtrit(min(total**2 / doubt, 1e6) if doubt else 1e6, (1 + level) / 2)
            half = float(t * math.sqrt(total))
        return Interval(estimate, estimate - half, estimate + half)


def seed_means(values: ArrayLike, draws: ArrayLike) -> SeedMeans:
    """Means of a metric over seeds, for comparing many methods of few seeds each.

    Three seeds say little about the spread of one method; the spreads of many methods say what is
    usual. The variance of each is moderated towards the usual one (Smyth 2004): with s_i² on d_i
    degrees of freedom, and s_0² on d_0 as all the s_i² suggest, it is

        (d_0 s_0² + d_i s_i²) / (d_0 + d_i)   on   d_0 + d_i   degrees of freedom,

    at most those of all methods together. If all spread alike, d_0 is infinite and the spread is
    pooled; the less alike they are, the more each keeps its own. With two methods d_0 is 0.

    Parameters
    ----------
    values : array (methods, seeds)
        A metric of each training; ``nan`` for one that is not there.
    draws : array (methods, n)
        The mean over a method's seeds on each resample of the test set, see `replicates`; zeros
        for intervals over seeds alone.

    Returns
    -------
    SeedMeans

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> values = [[1.0, 1.2, 1.1], [2.1, 2.2, 2.3], [3.0, 3.3, 3.1], [4.0, 4.1, 4.3]]
    >>> found = seed_means(values, np.zeros((4, 10)))
    >>> [round(x, 2) for x in found.contrast([-1, 1, 0, 0])]
    [1.1, 0.86, 1.34]
    """
    values, draws = np.asarray(values, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    if values.ndim != 2 or draws.ndim != 2 or len(values) != len(draws):
        raise ValueError(
            f"values: got shape {values.shape} with draws {draws.shape}, "
            "expected (methods, seeds) and (methods, n)"
        )
    there = ~np.isnan(values)
    count = there.sum(axis=1)
    mean = np.divide(
        np.where(there, values, 0).sum(axis=1),
        count,
        out=np.full(len(count), np.nan),
        where=count > 0,
    )
    freedom = np.maximum(count - 1, 0).astype(np.float64)
    squares = np.square(np.where(there, values - mean[:, np.newaxis], 0)).sum(axis=1)
    prior, usual = _usual_variance(squares, freedom)
    every = freedom + prior
    if math.isinf(prior):
        variance = np.full(len(count), usual)
    else:
        variance = np.divide(
            squares + prior * usual, every, out=np.full(len(count), np.nan), where=every > 0
        )
    # No spread is known better than from all trainings together.
    every = np.where(count > 0, np.minimum(every, freedom.sum()), 0.0)
    return SeedMeans(mean, variance / np.maximum(count, 1), every, draws)


def _usual_variance(squares: Array, freedom: Array) -> tuple[float, float]:
    """d_0 and s_0² of `seed_means`, from the moments of the logarithms of the variances."""
    known = freedom > 0
    d, s2 = freedom[known], squares[known] / freedom[known]
    if len(d) < 3 or not s2.any():
        return 0.0, 0.0
    from scipy.optimize import brentq
    from scipy.special import digamma, polygamma

    # A variance of zero would be infinitely unusual: take it for very small.
    log = np.log(np.maximum(s2, 1e-6 * s2.mean())) - digamma(d / 2) + np.log(d / 2)
    excess = float(log.var(ddof=1) - polygamma(1, d / 2).mean())
    if excess <= float(polygamma(1, 1e6)):
        return math.inf, float((d @ s2) / d.sum())
    half = brentq(lambda x: float(polygamma(1, x)) - excess, 1e-6, 1e7)
    return 2 * half, float(np.exp(log.mean() + digamma(half) - np.log(half)))


def seed_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean of one value per seed, with Student's t interval.

    Parameters
    ----------
    values : array (seeds,)
        The metric of each training.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Interval
        Ends are ``nan`` for fewer than two seeds: one training says nothing about the next.

    Examples
    --------
    >>> tuple(round(end, 3) for end in seed_interval([1.0, 2.0, 3.0]))
    (2.0, -0.484, 4.484)
    """
    _check_level(level)
    values = _values(values, "values")
    mean, half = float(values.mean()), math.nan
    if len(values) > 1:
        from scipy.special import stdtrit  # the t quantile, without the second scipy.stats takes

        t = stdtrit(len(values) - 1, (1 + level) / 2)
        half = float(t * values.std(ddof=1) / math.sqrt(len(values)))
    return Interval(mean, mean - half, mean + half)


def welch(a: ArrayLike, b: ArrayLike) -> WelchTest:
    """Welch's two-sample t-test of equal means, without assuming equal variances.

    overconf table 2 marks methods by a two-sample t-test over 5 runs each at level 0.05.

    Parameters
    ----------
    a, b : arrays (seeds,)
        The metric of each training, for two methods.

    Returns
    -------
    WelchTest
        Mean of a minus mean of b, t and the two-sided p. The last two are ``nan`` with fewer than
        two values on a side, or if neither side varies.

    Examples
    --------
    >>> test = welch([1.0, 1.1, 0.9], [2.0, 2.2, 1.8])
    >>> round(test.difference, 3), round(test.p, 4)
    (-1.0, 0.0048)
    """
    a, b = _values(a, "a"), _values(b, "b")
    difference = float(a.mean() - b.mean())
    if min(len(a), len(b)) < 2 or np.ptp(a) == np.ptp(b) == 0:
        return WelchTest(difference, math.nan, math.nan)
    from scipy.stats import ttest_ind_from_stats  # here, because it takes a second to import

    sides = [(x.mean(), x.std(ddof=1), len(x)) for x in (a, b)]
    result = ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False)
    return WelchTest(difference, float(result.statistic), float(result.pvalue))


def variance_parts(
    logits_by_seed: Sequence[ArrayLike],
    labels: ArrayLike,
    metric_names: Sequence[str],
    n: int = 200,
    seed: int = 0,
) -> dict[str, VarianceParts]:
    """Standard deviation between seeds beside that of sampling the test set.

    If the second is as large as the first, more trainings will not settle a difference, but a
    larger test set may.

    Parameters
    ----------
    logits_by_seed : sequence of arrays (m, k)
        Scores of each training for the same samples.
    labels, metric_names, n, seed
        As `bootstrap`.

    Returns
    -------
    dict of str to VarianceParts
        ``seed_sd`` is ``nan`` for fewer than two seeds; ``sample_sd`` is the root of the bootstrap
        variance averaged over the seeds.

    Raises
    ------
    ValueError
        As `bootstrap`.

    Examples
    --------
    >>> logits = np.c_[np.linspace(-2, 4, 50), np.zeros(50)]
    >>> labels = (np.arange(50) % 3 == 0).astype(int)
    >>> variance_parts([logits, 2 * logits], labels, ["auroc"], n=50)["auroc"].seed_sd
    0.0
    """
    if len(logits_by_seed) == 0:
        raise ValueError("logits_by_seed: got no arrays, expected one for each seed")
    pairs = [_evaluator(logits, labels, metric_names) for logits in logits_by_seed]
    evaluators = [evaluate for evaluate, _ in pairs]
    estimates = np.array([evaluate(None) for evaluate in evaluators])
    replicates = _replicates(evaluators, pairs[0][1], n, seed)
    return _parts(metric_names, estimates, replicates)


def _evaluator(
    logits: ArrayLike, labels: ArrayLike, names: Sequence[str]
) -> tuple[Callable[[Array | None], Array], int]:
    """Return a function from drawn samples (None: all, once) to the metrics, and the sample count.

    Looking at the array and sorting happen here, once.
    """
    logits = as_logits(logits)
    labels = as_labels(labels, logits.shape[1], len(logits))
    ranked = metrics.ranked_metrics()
    by_sample = metrics.per_sample(logits, labels)
    known = [*ranked, "nll", "brier", "classwise_ece"]
    unknown = [name for name in names if name not in known]
    if isinstance(names, str) or unknown:
        raise ValueError(f"metric_names: got {names!r}, expected a list of: {', '.join(known)}")
    probs = softmax(logits) if "classwise_ece" in names else None
    # One code per sample says both its place, highest confidence first, and whether it is right.
    negative, place = np.unique(-by_sample["confidence"], return_inverse=True)
    distinct, groups = -negative, len(negative)
    code = place + groups * by_sample["correct"]
    everything = np.arange(len(labels))

    def evaluate(drawn: Array | None) -> Array:
        drawn = everything if drawn is None else drawn
        counts = np.bincount(code[drawn], minlength=2 * groups)
        ranking = metrics.Ranking(distinct, right=counts[groups:], wrong=counts[:groups])

        def value(name: str) -> float:
            if name in ranked:
                return ranked[name](ranking)
            if name == "classwise_ece":
                return metrics.classwise_ece(probs[drawn], labels[drawn])
            return float(by_sample[name][drawn].mean())

        return np.array([value(name) for name in names])

    return evaluate, len(labels)


def _replicates(evaluators: list, m: int, n: int, seed: int) -> Array:
    """Evaluate all on the same resamples: array (evaluators, n, metrics)."""
    if n < 2:
        raise ValueError(f"n: got {n!r}, expected at least 2 replicates")
    rng = np.random.default_rng(seed)
    draws = (rng.integers(0, m, m) for _ in range(n))
    values = np.array([[evaluate(drawn) for evaluate in evaluators] for drawn in draws])
    return values.swapaxes(0, 1)


def _intervals(
    names: Sequence[str], estimates: Array, replicates: Array, level: float
) -> dict[str, Interval]:
    _warn_undefined(names, estimates)
    intervals = {}
    for name, estimate, values in zip(names, estimates, replicates.T, strict=True):
        values = values[~np.isnan(values)]
        ends = (math.nan, math.nan)
        if len(values) and not np.isnan(estimate):
            ends = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
            ends += estimate - values.mean()
        intervals[name] = Interval(float(estimate), float(ends[0]), float(ends[1]))
    return intervals


def _parts(names: Sequence[str], estimates: Array, replicates: Array) -> dict[str, VarianceParts]:
    _warn_undefined(names, estimates.mean(axis=0))
    parts = {}
    for i, name in enumerate(names):
        values = estimates[:, i]
        seed_sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
        sample_sd = math.nan
        if not np.isnan(values).any():
            defined = [draws[~np.isnan(draws)] for draws in replicates[:, :, i]]
            if min(map(len, defined)) > 1:
                sample_sd = float(np.sqrt(np.mean([draws.var(ddof=1) for draws in defined])))
        parts[name] = VarianceParts(float(values.mean()), seed_sd, sample_sd)
    return parts


def _warn_undefined(names: Sequence[str], estimates: Array) -> None:
    undefined = [name for name, value in zip(names, estimates, strict=True) if np.isnan(value)]
    if undefined:
        message = f"undefined on these samples, so nan: {', '.join(undefined)}"
        warnings.warn(message, metrics.UndefinedMetricWarning, stacklevel=4)


def _values(values: ArrayLike, name: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name}: got shape {array.shape}, expected (seeds,) with at least one")
    return array


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level: got {level!r}, expected a number between 0 and 1")
