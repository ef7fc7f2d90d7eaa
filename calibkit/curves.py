"""Compute the numbers of figures: ``plots.plot_x`` draws the numbers of `prepare_x`.

One array (or list of numbers) stands for one run, and a list of arrays for one run per seed. A band
over seeds is the 95 % Student-t interval of the mean (``nan`` for fewer than two seeds). A band
within one test set is the 95 % Wilson interval of a proportion. Values are fractions, not per cent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from calibkit import metrics, posthoc, stats, terms
from calibkit.arrays import Array, ArrayLike, as_confidence_correct, to_numpy
from calibkit.resampling import effective_size

Seeds: TypeAlias = "ArrayLike | Sequence[ArrayLike]"  # one array, or one a seed
History: TypeAlias = Mapping[str, Any]  # a list of numbers by metric, one number an epoch
Snapshots: TypeAlias = Mapping[int, ArrayLike]  # logits by epoch


@dataclass(frozen=True)
class ConfidenceHistogram:
    """Confidence of correct and of wrong predictions, one row a seed.

    Attributes
    ----------
    edges : array (bins + 1,)
        Of the bins of confidence, from 0 to 1.
    correct, wrong : arrays (seeds, bins)
        Densities, each with an integral of 1; ``nan`` where there is no such prediction.
    mean_correct, mean_wrong : arrays (seeds,)
        Mean confidence, in [0, 1].
    overlap : array (seeds,)
        `metrics.histogram_overlap`, in [0, 1]. It does not depend on the bins that are drawn.
    auroc : array (seeds,)
        `metrics.auroc`, in [0, 1].
    threshold : float
        Confidence above which an error counts as a confident error; ``nan`` without a threshold.
    confident : array (seeds,)
        Share of the wrong predictions above the threshold; ``nan`` without a threshold.
    """

    edges: Array
    correct: Array
    wrong: Array
    mean_correct: Array
    mean_wrong: Array
    overlap: Array
    auroc: Array
    threshold: float
    confident: Array


@dataclass(frozen=True)
class Reliability:
    """Accuracy against confidence, bin by bin; seeds are pooled.

    Attributes
    ----------
    edges : array (bins + 1,)
        Of the bins of confidence, from 0 to 1.
    count : array (bins,) of int
        Number of samples in the bin, over all seeds.
    share : array (bins,)
        Share of the samples that are in the bin, in [0, 1].
    confidence, accuracy : arrays (bins,)
        Mean confidence and accuracy of the bin, in [0, 1]; ``nan`` if the bin is empty.
    low, high : arrays (bins,)
        Ends of the 95 % Wilson interval of the accuracy, for as many samples as one seed has.
    seed_accuracy : array (seeds, bins)
        Accuracy of each seed.
    ece, accuracy_all, confidence_all : arrays (seeds,)
        Calibration error, accuracy and mean confidence of each seed, in [0, 1].
    """

    edges: Array
    count: Array
    share: Array
    confidence: Array
    accuracy: Array
    low: Array
    high: Array
    seed_accuracy: Array
    ece: Array
    accuracy_all: Array
    confidence_all: Array


@dataclass(frozen=True)
class Overfitting:
    """A metric over epochs (fractions, not per cent), and how it changes after its best epoch.

    Attributes
    ----------
    metric : str
        Name of the metric, such as ``"auroc"``.
    epoch : array (e,) of int
        Evaluated epochs.
    values : array (seeds, e)
        The metric of each seed.
    mean : array (e,)
        Mean over seeds.
    best_epoch : int
        The epoch at which the mean is best.
    best, final : float
        The mean at the best and at the last epoch.
    drop : array (seeds,)
        Value at the last epoch minus value at the best epoch; negative if a metric falls that
        should be high. For each seed, the best epoch is chosen by the mean of the other seeds,
        since a seed's own best epoch is better by luck.
    stretches : array (2, j) of int, or None
        The epochs of two stretches that the caller chose: an early one and the last one.
    levels : array (seeds, 2), or None
        Mean of each seed over each stretch.
    """

    metric: str
    epoch: Array
    values: Array
    mean: Array
    best_epoch: int
    best: float
    final: float
    drop: Array
    stretches: Array | None = None
    levels: Array | None = None


@dataclass(frozen=True)
class Refinement:
    """NLL in nats over the epochs of training, before and after temperature scaling (refinement).

    Attributes
    ----------
    epoch : array (e,) of int
        Epochs whose logits were kept.
    nll, refinement : arrays (seeds, e)
        NLL before temperature scaling, and after it; the temperature is fitted to other samples.
    since_best : array (seeds,)
        Refinement at the last epoch minus that at the best epoch; positive if information was lost.
        The best epoch for one half of the samples is chosen on the other half, since an epoch that
        is the best on some samples is better there by luck.
    deviations : array (seeds, replicates)
        Deviations of `since_best` on resamples of the test samples.
    n : int
        Number of test samples.
    """

    epoch: Array
    nll: Array
    refinement: Array
    since_best: Array
    deviations: Array
    n: int


@dataclass(frozen=True)
class GradientNorms:
    """Joint density of the Brier score, from 0 to 2, and the norm of the last layer's gradient.

    Attributes
    ----------
    counts : array (bins, bins)
        Number of samples in each cell of Brier score and norm.
    brier_edges, norm_edges : arrays (bins + 1,)
        Edges of the cells.
    middle : array (20,)
        The range of the Brier score is cut into twenty parts: median Brier score in each.
    low, median, high : arrays (20,)
        10, 50 and 90 % quantiles of the norm in each part; ``nan`` for fewer than 20 samples.
    spread : float
        `gradient_spread`: how unequal the norms of about equally wrong samples are.
    exponent : float or None
        Of the law ``norm = scale · brier^exponent``, if the loss has one.
    scale : float or None
        Its factor: the median of ``norm / brier^exponent``.
    """

    counts: Array
    brier_edges: Array
    norm_edges: Array
    middle: Array
    low: Array
    median: Array
    high: Array
    spread: float
    exponent: float | None
    scale: float | None


@dataclass(frozen=True)
class RiskCoverage:
    """Error rate among the accepted, most confident first.

    Attributes
    ----------
    coverage : array (points,)
        Share accepted, in (0, 1].
    risk : array (seeds, points)
        Error rate of each seed, in [0, 1].
    mean, low, high : arrays (points,)
        Mean over seeds and its 95 % interval, ``nan`` for one seed.
    aurc : array (seeds,)
        `metrics.aurc`, in [0, 1].
    """

    coverage: Array
    risk: Array
    mean: Array
    low: Array
    high: Array
    aurc: Array


def _seeds(values: Seeds) -> list[ArrayLike]:
    """One array (one run) or several (one per seed) as a list of arrays."""
    several = np.ndim(values[0]) > 0 if isinstance(values, list | tuple) and values else False
    if several or getattr(values, "ndim", 1) == 2:
        return list(values)
    return [values]


def _runs(
    confidence: Seeds, correct: Seeds, unit: bool = True
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Check confidence and correctness; return a pair of arrays for each seed."""
    pairs = _seeds(confidence), _seeds(correct)
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(
            f"correct: got {len(pairs[1])} seeds, expected {len(pairs[0])} as in confidence"
        )
    return [as_confidence_correct(c, z, unit=unit) for c, z in zip(*pairs, strict=True)]


def prepare_confidence_histogram(
    confidence: Seeds,
    correct: Seeds,
    bins: int = 25,
    threshold: float | None = None,
    sample_weight: "ArrayLike | None" = None,
) -> ConfidenceHistogram:
    """Densities of the confidence of correct and of wrong predictions (fmfp figs. 5 and 9).

    Each density integrates to one over its own samples, so that a few wrong predictions are as
    visible as many correct ones.

    Parameters
    ----------
    confidence : array_like (n,) or list of them, one per seed
        Probability of the predicted class, in [0, 1].
    correct : array_like (n,) of bool or list of them
        Whether the prediction was right.
    bins : int
        Bins of equal width on [0, 1].
    threshold : float, optional
        Confidence above which an error counts as a confident error.
    sample_weight : array_like (n,), optional
        How much each sample counts, for every seed: as in `metrics.ece`.

    Returns
    -------
    ConfidenceHistogram
        Densities of each seed, and its overlap and AUROC.

    Raises
    ------
    ValueError
        If lengths or numbers of seeds differ, or a confidence is not a probability.

    Examples
    --------
    >>> numbers = prepare_confidence_histogram([0.9, 0.8, 0.3], [True, True, False], bins=2)
    >>> numbers.correct.tolist(), numbers.wrong.tolist(), numbers.overlap.tolist()
    ([[0.0, 2.0]], [[2.0, 0.0]], [0.0])
    """
    edges = np.linspace(0, 1, bins + 1)
    rows = []
    for c, z in _runs(confidence, correct):
        weighted = {"sample_weight": sample_weight}
        table = metrics.reliability_bins(c, z, bins, **weighted)
        right = np.nan_to_num(table["accuracy"]) * table["count"]
        row = {"overlap": metrics.histogram_overlap(c, z, **weighted)}
        row["auroc"] = metrics.auroc(c, z, **weighted)
        few = z.all() or threshold is None
        row["confident"] = np.nan if few else _mean(c > threshold, ~z, sample_weight)
        for name, chosen, counts in (
            ("correct", z, right),
            ("wrong", ~z, table["count"] - right),
        ):
            row[f"mean_{name}"] = _mean(c, chosen, sample_weight)
            some = chosen.any()
            every = chosen.sum() if sample_weight is None else counts.sum()
            row[name] = counts * bins / every if some else np.full(bins, np.nan)
        rows.append(row)
    numbers = {k: np.array([row[k] for row in rows]) for k in rows[0]}
    return ConfidenceHistogram(
        edges=edges, threshold=np.nan if threshold is None else threshold, **numbers
    )


def _mean(values: Array, chosen: Array, sample_weight: "ArrayLike | None") -> float:
    """Weighted mean of values (n,); ``nan`` if there are none."""
    if sample_weight is None:
        return values[chosen].mean() if chosen.any() else np.nan
    weights = np.asarray(sample_weight, dtype=float)[chosen]
    return weights @ values[chosen] / weights.sum() if weights.any() else np.nan


def prepare_reliability(
    confidence: Seeds,
    correct: Seeds,
    bins: int = 15,
    sample_weight: "ArrayLike | None" = None,
) -> Reliability:
    """Accuracy against mean confidence per bin, with 95 % Wilson intervals of the accuracy.

    Several seeds are pooled bin by bin. They were tested on the same samples, so the interval is
    that of their mean count, not of their sum: pooling seeds does not make a test set larger.

    Parameters
    ----------
    confidence : array_like (n,) or list of them, one per seed
        Probability of the predicted class.
    correct : the same shapes
        Whether each prediction was right.
    bins : int
        Bins (lo, hi] of equal width on [0, 1], as in `metrics.ece`.
    sample_weight : array_like (n,), optional
        How much each sample counts, for every seed: as in `metrics.ece`.
        Intervals are then those of as many samples as these are worth (Kish 1965).

    Returns
    -------
    Reliability
        Accuracy of each bin with its interval; ECE of each seed.

    Examples
    --------
    >>> numbers = prepare_reliability([0.9, 0.7, 0.9, 0.7], [True, False, True, True], bins=5)
    >>> numbers.accuracy[3:].tolist(), numbers.confidence[3:].tolist()
    ([0.5, 1.0], [0.7, 0.9])
    >>> numbers.ece.round(3).tolist()
    [0.15]
    """
    runs = _runs(confidence, correct)
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    tables = [metrics.reliability_bins(c, z, bins, sample_weight=weights) for c, z in runs]
    count, seed_accuracy, seed_confidence = (
        np.array([table[key] for table in tables]) for key in ("count", "accuracy", "confidence")
    )  # (seeds, bins)

    def pooled(values):
        total = np.where(count.sum(0) > 0, count.sum(0), np.nan)
        return np.nansum(values * count, axis=0) / total

    accuracy, mean_count = pooled(seed_accuracy), count.mean(0)
    size = mean_count
    if weights is not None:
        size = mean_count * effective_size(weights) / mean_count.sum()
    _, low, high = stats.wilson(accuracy * size, size)
    gap = np.nan_to_num(np.abs(seed_accuracy - seed_confidence))
    return Reliability(
        edges=np.asarray(tables[0]["edges"]),
        count=count.sum(0),
        share=count.sum(0) / count.sum(),
        confidence=pooled(seed_confidence),
        accuracy=accuracy,
        low=low,
        high=high,
        seed_accuracy=seed_accuracy,
        ece=(count * gap).sum(1) / count.sum(1),
        accuracy_all=np.array([np.average(z, weights=weights) for _, z in runs]),
        confidence_all=np.array([np.average(c, weights=weights) for c, _ in runs]),
    )


def prepare_overfitting(
    histories: History | Sequence[History],
    metric: str,
    best_by: str = "",
    stretches: "ArrayLike | None" = None,
) -> Overfitting:
    """A metric over epochs, averaged over seeds, and the loss between its best epoch and the last.

    The loss of a seed is counted from the epoch that is best for the mean of the other seeds. A
    seed's own best epoch is best partly by luck, so that the loss since then would be too large. (A
    single seed has to take its own.) All seeds share the luck of one test set, which stays in the
    loss, and their losses depend on each other. If you need an interval, take `stretches`.

    Parameters
    ----------
    histories : mapping of columns (a DataFrame, say) or list of them, one per seed
        With columns ``epoch`` and `metric`. Seeds must share their epochs.
    metric : str
        Such as ``"auroc"``: one of `terms.METRICS` that has a direction.
    best_by : str, optional
        Another metric whose best epoch is taken: ``"auroc"`` to see how the accuracy changes from
        the epoch of the best AUROC on.
    stretches : array_like (2, j) of int, optional
        Epochs of two stretches that were fixed beforehand, an early one and the last one. The
        difference of their means has no luck of a best epoch.

    Returns
    -------
    Overfitting
        The curve, its best epoch, and what is lost after it.

    Examples
    --------
    >>> runs = [{"epoch": [1, 2, 3], "auroc": [0.7, 0.9, 0.8]}]
    >>> numbers = prepare_overfitting(runs, "auroc")
    >>> numbers.best_epoch, numbers.drop.round(2).tolist()
    (2, [-0.1])
    """
    histories = histories if isinstance(histories, list | tuple) else [histories]
    for history in histories:
        for column in ("epoch", metric, best_by or metric):
            if column not in history:
                raise ValueError(
                    f"histories: got no column {column!r}, expected epoch and {metric}"
                )
    higher_is_better = terms.metric_label(best_by or metric)[2]
    if higher_is_better is None:
        raise ValueError(f"metric: got {best_by or metric!r}, expected one of known direction")
    epochs = [np.asarray(history["epoch"], dtype=int) for history in histories]
    if any(not np.array_equal(e, epochs[0]) for e in epochs):
        raise ValueError("histories: got seeds with different epochs, expected the same in all")
    values, judged = (
        np.array([np.asarray(to_numpy(history[name], name), float) for history in histories])
        for name in (metric, best_by or metric)
    )
    mean, total = values.mean(axis=0), judged.sum(axis=0) * (1 if higher_is_better else -1)
    others = total - judged * (1 if higher_is_better else -1) if len(values) > 1 else total[None]
    levels = None
    if stretches is not None:
        stretches = np.asarray(stretches, dtype=int)
        if stretches.ndim != 2 or len(stretches) != 2 or not np.isin(stretches, epochs[0]).all():
            raise ValueError(
                f"stretches: got {stretches.tolist()}, expected two lists of evaluated epochs"
            )
        places = np.searchsorted(epochs[0], stretches)
        levels = values[:, places].mean(axis=2)
    best, chosen = int(np.nanargmax(total)), np.nanargmax(others, axis=1)
    return Overfitting(
        metric=metric,
        epoch=epochs[0],
        values=values,
        mean=mean,
        best_epoch=int(epochs[0][best]),
        best=float(mean[best]),
        final=float(mean[-1]),
        drop=values[:, -1] - values[np.arange(len(values)), chosen],
        stretches=stretches,
        levels=levels,
    )


def prepare_refinement(
    snapshots: Snapshots | Sequence[Snapshots], labels: ArrayLike, folds: int = 10, n: int = 200
) -> Refinement:
    """NLL over the epochs before and after temperature scaling, and when the latter is lowest.

    A proper loss has two parts: recalibration removes the first and cannot remove the second, the
    refinement (Berta et al. 2025). Here the loss is the NLL, and the refinement is the NLL after
    temperature scaling. The temperature of each fold of the samples is fitted on the other folds.

    Parameters
    ----------
    snapshots : mapping of int to array_like (n, k), or list of them, one per seed
        Logits of the same samples by epoch. Seeds must share their epochs.
    labels : array_like (n,)
        True classes.
    folds : int
        Sample i is in fold i modulo `folds`.
    n : int
        Resamples behind the deviations.

    Returns
    -------
    Refinement
        Both losses by epoch, and by how much the refinement rises after its best epoch.

    Raises
    ------
    ValueError
        If there are no snapshots or seeds with different epochs, or `folds` does not fit.

    Examples
    --------
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]] * 20)
    >>> found = prepare_refinement({1: logits, 2: 5 * logits}, [0, 1, 1] * 20)
    >>> found.nll.round(2).tolist(), found.refinement.round(2).tolist()
    ([[0.79, 3.33]], [[0.64, 0.64]])
    """
    runs = list(snapshots) if isinstance(snapshots, list | tuple) else [snapshots]
    epochs = [sorted(run) for run in runs]
    if not epochs or not epochs[0] or any(e != epochs[0] for e in epochs):
        raise ValueError(f"snapshots: got epochs {epochs}, expected some, the same for all seeds")
    labels = to_numpy(labels, "labels")
    samples = len(labels)
    part = np.arange(samples) % folds
    if not 2 <= folds <= samples:
        raise ValueError(f"folds: got {folds}, expected 2 to {samples}, the number of samples")

    def losses(logits):
        """NLL of each sample, and the same after the temperature of the other folds."""
        logits, left = np.asarray(to_numpy(logits, "logits"), float), np.empty(samples)
        for fold in range(folds):
            here = part == fold
            temperature, _ = posthoc.optimal_temperature(logits[~here], labels[~here])
            left[here] = metrics.per_sample(logits[here] / temperature, labels[here])["nll"]
        return metrics.per_sample(logits, labels)["nll"], left

    both = np.array([[losses(run[epoch]) for epoch in epochs[0]] for run in runs])
    nll, left = both[:, :, 0], both[:, :, 1]  # (seeds, e, samples)
    even = np.full(samples, 1 / samples)
    weights = np.random.default_rng(0).multinomial(samples, even, n) / samples
    half_of = np.arange(samples) % 2
    chosen = [left[:, :, half_of != half].mean(axis=(0, 2)).argmin() for half in (0, 1)]
    best = np.take(chosen, half_of)  # by the other half
    late = left[:, -1] - left[:, best, np.arange(samples)]
    return Refinement(
        epoch=np.array(epochs[0]),
        nll=nll.mean(axis=2),
        refinement=left.mean(axis=2),
        since_best=late.mean(axis=1),
        deviations=late @ weights.T - late.mean(axis=1, keepdims=True),
        n=samples,
    )


def prepare_gradient_norms(
    brier: Seeds, norm: Seeds, exponent: float | None = None, bins: int = 60
) -> GradientNorms:
    """Joint density of Brier score and last-layer gradient norm of training samples (bsce fig. 4).

    The gradient of a loss at the last layer is the outer product of its gradient at the logits and
    the features h, so its norm is the product of their norms. If the gradient of a loss is that of
    cross-entropy times ``‖p − y‖^gamma`` (BSCE-GRA with beta = 2; gamma = 0 is cross-entropy), the
    norm is ``BS^((gamma + 1) / 2) · ‖h‖``: a law of the Brier score BS, blurred only by ``‖h‖``.

    Parameters
    ----------
    brier : array_like (n,) or list of them, one per seed
        Brier score of each training sample, 0 to 2.
    norm : array_like (n,) or list of them, one per seed
        Gradient norm of each training sample, in the same order.
    exponent : float, optional
        ``(gamma + 1) / 2`` if the loss has this law.
    bins : int
        Cells along each axis. The norm axis ends at the 99.9 % quantile.

    Returns
    -------
    GradientNorms
        Samples in cells, quantiles of the norm along the Brier score, and their spread.

    Raises
    ------
    ValueError
        Shapes differ, or a value is negative, not finite, or a Brier score above 2.

    Examples
    --------
    >>> brier = np.linspace(0.01, 2, 100)
    >>> numbers = prepare_gradient_norms(brier, 3 * brier**2.5, exponent=2.5)
    >>> round(numbers.scale, 6)
    3.0
    """
    x, y = ([np.asarray(to_numpy(v), dtype=float) for v in _seeds(a)] for a in (brier, norm))
    if [v.shape for v in x] != [v.shape for v in y]:
        raise ValueError(
            f"norm: got shapes {[v.shape for v in y]}, expected {[v.shape for v in x]} as in brier"
        )
    x, y = np.concatenate(x), np.concatenate(y)
    for name, values, top in (("brier", x, 2 + 1e-6), ("norm", y, np.finfo(float).max)):
        if not (values.size and ((values >= 0) & (values <= top)).all()):
            raise ValueError(f"{name}: got empty, negative, too large or non-finite values")
    limit = float(np.quantile(y, 0.999)) or 1.0
    brier_edges, norm_edges = np.linspace(0, 2, bins + 1), np.linspace(0, limit, bins + 1)
    coarse = np.linspace(0, 2, 21)
    middle, quantiles = np.full(20, np.nan), np.full((3, 20), np.nan)
    cell = (np.searchsorted(coarse, x, side="left") - 1).clip(0, 19)
    for b in np.flatnonzero(np.bincount(cell, minlength=20) >= 20):
        middle[b] = np.median(x[cell == b])
        quantiles[:, b] = np.quantile(y[cell == b], [0.1, 0.5, 0.9])
    scale = None
    if exponent is not None:
        scale = float(np.median(y[x > 0] / x[x > 0] ** exponent))
    return GradientNorms(
        counts=np.histogram2d(x, y, (brier_edges, norm_edges))[0],
        brier_edges=brier_edges,
        norm_edges=norm_edges,
        middle=middle,
        low=quantiles[0],
        median=quantiles[1],
        high=quantiles[2],
        spread=gradient_spread(x, y),
        exponent=exponent,
        scale=scale,
    )


def gradient_spread(brier: ArrayLike, norm: ArrayLike, parts: int = 10) -> float:
    """Interquartile range of the gradient norms of about equally wrong samples, over their mean.

    Samples are sorted by their Brier score and cut into tenths. The interquartile range of the
    norms is averaged over the tenths and divided by the mean norm, so that a factor on the loss
    cancels. It is 0 if all samples of a tenth have the same norm. It also counts how much the norm
    rises within a tenth.

    Parameters
    ----------
    brier : array_like (n,)
        Brier score of each sample, 0 to 2.
    norm : array_like (n,)
        Gradient norm of each sample, in the same order. Samples with a norm of 0 are left out.
    parts : int
        Number of groups of about equal Brier score.

    Returns
    -------
    float
        As a share of the mean norm; ``nan`` for fewer than one sample in each group.

    Examples
    --------
    >>> brier = np.linspace(0.1, 2, 1000)
    >>> gradient_spread(brier, np.tile([1, 3], 500))
    1.0
    """
    brier, norm = (np.asarray(to_numpy(values), dtype=float) for values in (brier, norm))
    brier, norm = brier[norm > 0], norm[norm > 0]
    if len(norm) < parts:
        return float("nan")
    groups = np.array_split(norm[np.argsort(brier, kind="stable")], parts)
    ranges = [np.subtract(*np.quantile(group, [0.75, 0.25])) for group in groups]
    return float(np.mean(ranges) / norm.mean())


def prepare_risk_coverage(
    confidence: Seeds,
    correct: Seeds,
    points: int = 200,
    sample_weight: "ArrayLike | None" = None,
) -> RiskCoverage:
    """Error rate among the accepted samples against the share accepted, most confident first.

    Parameters
    ----------
    confidence : array_like (n,) or list of them, one per seed
        Any score that ranks predictions, not only a probability.
    correct : the same shapes
        Whether each prediction was right.
    points : int
        Coverages at which the seeds are averaged, from 1 / points to 1.
    sample_weight : array_like (n,), optional
        How much each sample counts, for every seed: as in `metrics.ece`.

    Returns
    -------
    RiskCoverage
        The curve of each seed, their mean with its interval, and the AURC.

    Examples
    --------
    >>> numbers = prepare_risk_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True], points=4)
    >>> numbers.mean.round(3).tolist()
    [0.0, 0.0, 0.333, 0.25]
    """
    coverage = np.arange(1, points + 1) / points
    runs = _runs(confidence, correct, unit=False)
    weighted = {"sample_weight": sample_weight}
    curves = [metrics.risk_coverage(c, z, **weighted) for c, z in runs]
    risk = np.array([np.interp(coverage, *curve) for curve in curves])
    aurc = np.array([metrics.aurc(c, z, **weighted) for c, z in runs])
    return RiskCoverage(coverage, risk, *stats.seed_interval(risk), aurc=aurc)
