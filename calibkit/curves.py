"""The numbers behind the figures, without drawing: ``plots.plot_x`` shows `prepare_x`.

One array is one run, a list of arrays is one run per seed. Every number has its
uncertainty: over seeds the 95 % Student-t interval of the mean (``nan`` for fewer than two seeds),
within one test set the 95 % Wilson interval of a proportion.
"""

import numpy as np
from scipy.special import stdtrit

from calibkit import metrics, stats, terms
from calibkit.arrays import as_confidence_correct, to_numpy

__all__ = [
    "prepare_before_after",
    "prepare_confidence_histogram",
    "prepare_gradient_norms",
    "prepare_overfitting",
    "prepare_reliability",
    "prepare_risk_coverage",
    "seed_band",
]


def seed_band(values) -> dict[str, np.ndarray]:
    """`stats.seed_interval` for many numbers at once.

    Parameters
    ----------
    values : array_like (seeds, ...)
        Numbers per seed, on any grid.

    Returns
    -------
    dict
        ``mean``, ``low``, ``high`` (...); the bounds are ``nan`` for one seed.

    Examples
    --------
    >>> band = seed_band([[1.0, 4.0], [2.0, 4.0], [3.0, 4.0]])
    >>> band["mean"].tolist(), band["high"].round(3).tolist()
    ([2.0, 4.0], [4.484, 4.0])
    """
    values = np.asarray(values, dtype=float)
    n, mean = len(values), values.mean(axis=0)
    half = np.full_like(mean, np.nan)
    if n > 1:
        half = stdtrit(n - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(n)
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _seeds(values) -> list:
    """One array (one run) or several (one per seed) as a list of arrays."""
    several = np.ndim(values[0]) > 0 if isinstance(values, list | tuple) and values else False
    if several or getattr(values, "ndim", 1) == 2:
        return list(values)
    return [values]


def _runs(confidence, correct, unit: bool = True) -> list[tuple[np.ndarray, np.ndarray]]:
    """Checked (confidence, correct) of every seed."""
    pairs = _seeds(confidence), _seeds(correct)
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(
            f"correct: got {len(pairs[1])} seeds, expected {len(pairs[0])} as in confidence"
        )
    return [as_confidence_correct(c, z, unit=unit) for c, z in zip(*pairs, strict=True)]


def prepare_confidence_histogram(
    confidence, correct, bins: int = 25, threshold: float | None = None
) -> dict:
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
        From which confidence on an error counts as a confident one.

    Returns
    -------
    dict
        ``edges`` (bins + 1,); ``threshold`` and ``confident``, the share of the wrong predictions
        at or above it (seeds,), both ``nan`` without one; per seed ``correct`` and ``wrong``
        (seeds, bins), densities, ``nan`` where there is no such prediction; ``n_correct``,
        ``n_wrong``, ``mean_correct``, ``mean_wrong``, ``overlap`` (`metrics.histogram_overlap`,
        which has its own bins whatever is drawn), ``auroc`` (seeds,).

    Raises
    ------
    ValueError
        If lengths or numbers of seeds differ, or a confidence is not a probability.

    Examples
    --------
    >>> numbers = prepare_confidence_histogram([0.9, 0.8, 0.3], [True, True, False], bins=2)
    >>> numbers["correct"].tolist(), numbers["wrong"].tolist(), numbers["overlap"].tolist()
    ([[0.0, 2.0]], [[2.0, 0.0]], [0.0])
    """
    edges = np.linspace(0, 1, bins + 1)
    rows = []
    for c, z in _runs(confidence, correct):
        table = metrics.reliability_bins(c, z, bins)
        right = np.nan_to_num(table["accuracy"]) * table["count"]
        row = {"overlap": metrics.histogram_overlap(c, z), "auroc": metrics.auroc(c, z)}
        few = z.all() or threshold is None
        row["confident"] = np.nan if few else float((c[~z] >= threshold).mean())
        for name, chosen, counts in (
            ("correct", c[z], right),
            ("wrong", c[~z], table["count"] - right),
        ):
            some = len(chosen) > 0
            row[name] = counts * bins / len(chosen) if some else np.full(bins, np.nan)
            row[f"mean_{name}"] = chosen.mean() if some else np.nan
            row[f"n_{name}"] = len(chosen)
        rows.append(row)
    numbers = {k: np.array([row[k] for row in rows]) for k in rows[0]}
    return {"edges": edges, "threshold": np.nan if threshold is None else threshold} | numbers


def prepare_reliability(confidence, correct, bins: int = 15) -> dict:
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

    Returns
    -------
    dict
        ``edges`` (bins + 1,); per bin ``share`` of the samples, ``confidence``, ``accuracy``,
        ``low``, ``high`` (bins,), ``nan`` where empty; ``seed_accuracy`` (seeds, bins); per seed
        ``ece``, ``accuracy_all``, ``confidence_all`` (seeds,).

    Examples
    --------
    >>> numbers = prepare_reliability([0.9, 0.7, 0.9, 0.7], [True, False, True, True], bins=5)
    >>> numbers["accuracy"][3:].tolist(), numbers["confidence"][3:].tolist()
    ([0.5, 1.0], [0.7, 0.9])
    >>> numbers["ece"].round(3).tolist()
    [0.15]
    """
    runs = _runs(confidence, correct)
    tables = [metrics.reliability_bins(c, z, bins) for c, z in runs]
    count, seed_accuracy, seed_confidence = (
        np.array([table[key] for table in tables]) for key in ("count", "accuracy", "confidence")
    )  # (seeds, bins)

    def pooled(values):
        total = np.where(count.sum(0) > 0, count.sum(0), np.nan)
        return np.nansum(values * count, axis=0) / total

    accuracy, mean_count = pooled(seed_accuracy), count.mean(0)
    low, high = stats.wilson(accuracy * mean_count, mean_count)
    gap = np.nan_to_num(np.abs(seed_accuracy - seed_confidence))
    return {
        "edges": np.asarray(tables[0]["edges"]),
        "share": count.sum(0) / count.sum(),
        "confidence": pooled(seed_confidence),
        "accuracy": accuracy,
        "low": low,
        "high": high,
        "seed_accuracy": seed_accuracy,
        "ece": (count * gap).sum(1) / count.sum(1),
        "accuracy_all": np.array([z.mean() for _, z in runs]),
        "confidence_all": np.array([c.mean() for c, _ in runs]),
    }


def prepare_before_after(logits, labels, temperature, bins: int = 15) -> tuple[dict, dict]:
    """Reliability of a classifier as trained, and after its temperature.

    Parameters
    ----------
    logits : array_like (n, k) or list of them, one per seed
        Scores before the softmax.
    labels : array_like (n,)
        True classes, the same for every seed.
    temperature : float or list of them, one per seed
        Fitted to validation data.
    bins : int
        Bins (lo, hi] of equal width on [0, 1].

    Returns
    -------
    before, after : dict
        As from `prepare_reliability`; ``after`` has ``temperature`` (seeds,), too.

    Examples
    --------
    >>> before, after = prepare_before_after([[4.0, 0.0]] * 4, [0, 0, 0, 1], 3.64)
    >>> before["ece"].round(3).tolist(), after["ece"].round(3).tolist()
    ([0.232], [0.0])
    """
    several = isinstance(logits, list | tuple) and np.ndim(logits[0]) == 2
    runs = list(logits) if several or np.ndim(logits) == 3 else [logits]
    temperatures = np.broadcast_to(np.asarray(temperature, float), len(runs))

    def reliability(runs) -> dict:
        known = [metrics.per_sample(np.asarray(to_numpy(run)), labels) for run in runs]
        pairs = ([one[key] for one in known] for key in ("confidence", "correct"))
        return prepare_reliability(*pairs, bins)

    scaled = [np.asarray(to_numpy(run)) / t for run, t in zip(runs, temperatures, strict=True)]
    return reliability(runs), reliability(scaled) | {"temperature": temperatures}


def prepare_overfitting(histories, metric: str, higher_is_better: bool | None = None) -> dict:
    """A metric over epochs, averaged over seeds, and the loss between its best epoch and the last.

    The best epoch is that of the mean curve, the same for every seed. Taking each seed's own best
    epoch would count the luck of a noisy epoch as something lost.

    Parameters
    ----------
    histories : mapping of columns (a DataFrame, say) or list of them, one per seed
        With columns ``epoch`` and `metric`. Seeds must share their epochs.
    metric : str
        Such as ``"auroc"``; see `terms.METRICS` for those with a known direction.
    higher_is_better : bool, optional
        The direction of any other metric.

    Returns
    -------
    dict
        ``metric``, ``higher_is_better``, ``epoch`` (e,), ``values`` (seeds, e), ``mean``, ``low``,
        ``high`` (e,), ``best_epoch``, ``best``, ``final``, ``drop`` (seeds,): last value minus that
        of the best epoch, negative for a loss of a metric that should be high.

    Examples
    --------
    >>> runs = [{"epoch": [1, 2, 3], "auroc": [0.7, 0.9, 0.8]}]
    >>> numbers = prepare_overfitting(runs, "auroc")
    >>> numbers["best_epoch"], numbers["drop"].round(2).tolist()
    (2, [-0.1])
    """
    histories = histories if isinstance(histories, list | tuple) else [histories]
    for history in histories:
        for column in ("epoch", metric):
            if column not in history:
                raise ValueError(
                    f"histories: got no column {column!r}, expected epoch and {metric}"
                )
    if higher_is_better is None:
        higher_is_better = terms.metric_label(metric)[2]
    if higher_is_better is None:
        raise ValueError(f"higher_is_better: got None, expected True or False for {metric!r}")
    epochs = [np.asarray(history["epoch"], dtype=int) for history in histories]
    if any(not np.array_equal(e, epochs[0]) for e in epochs):
        raise ValueError("histories: got seeds with different epochs, expected the same in all")
    values = np.array([np.asarray(history[metric], dtype=float) for history in histories])
    band = seed_band(values)
    best = int(np.nanargmax(band["mean"] if higher_is_better else -band["mean"]))
    return {
        "metric": metric,
        "higher_is_better": higher_is_better,
        "epoch": epochs[0],
        "values": values,
        **band,
        "best_epoch": int(epochs[0][best]),
        "best": float(band["mean"][best]),
        "final": float(band["mean"][-1]),
        "drop": values[:, -1] - values[:, best],
    }


def prepare_gradient_norms(
    brier, norm, exponent: float | None = None, log: bool = False, bins: int = 60
) -> dict:
    """Joint density of Brier score and last-layer gradient norm of training samples (bsce fig. 4).

    The gradient of a loss at the last layer is the outer product of its gradient at the logits and
    the features h, so its norm is the product of theirs. A loss whose gradient is that of the cross
    entropy times a weight ``‖p − y‖^gamma`` (BSCE-GRA with beta = 2; plain cross entropy is gamma =
    0) gives ``BS^((gamma + 1) / 2) · ‖h‖``: one curve, blurred by ``‖h‖`` alone.

    Parameters
    ----------
    brier, norm : array_like (n,) or list of them, one per seed
        Brier score, 0 to 2, and gradient norm of each training sample.
    exponent : float, optional
        ``(gamma + 1) / 2`` of a loss with such a law.
    log : bool
        Cells of equal width in the logarithms, from the 1 % quantiles on. The law is then a line.
    bins : int
        Cells along each axis. The norm axis ends at the 99.9 % quantile.

    Returns
    -------
    dict
        ``counts`` (bins, bins), ``brier_edges``, ``norm_edges`` (bins + 1,); the quantiles ``low``,
        ``median``, ``high`` (10, 50, 90 %) of the norm at the Brier scores ``middle`` (20,), if
        there are 20 samples, else ``nan``; ``spread``, the median of high / low (without the first,
        unless `log`): how much norms differ at one Brier score, where correlations are all near 1;
        ``spearman`` (seeds,); ``log``, ``exponent``, ``scale`` (median of norm / BS^exponent).

    Raises
    ------
    ValueError
        Shapes differ, or a value is negative, not finite, or a Brier score above 2.

    Examples
    --------
    >>> brier = np.linspace(0.01, 2, 100)
    >>> numbers = prepare_gradient_norms(brier, 3 * brier**2.5, exponent=2.5)
    >>> round(numbers["scale"], 6), numbers["spearman"].round(6).tolist()
    (3.0, [1.0])
    """
    from scipy.stats import rankdata  # here, because it takes a second to import

    x, y = ([np.asarray(to_numpy(v), dtype=float) for v in _seeds(a)] for a in (brier, norm))
    if [v.shape for v in x] != [v.shape for v in y]:
        raise ValueError(
            f"norm: got shapes {[v.shape for v in y]}, expected {[v.shape for v in x]} as in brier"
        )
    all_x, all_y = np.concatenate(x), np.concatenate(y)
    for name, values, top in (("brier", all_x, 2 + 1e-6), ("norm", all_y, np.finfo(float).max)):
        if not (values.size and ((values >= 0) & (values <= top)).all()):
            raise ValueError(f"{name}: got empty, negative, too large or non-finite values")
    limit = float(np.quantile(all_y, 0.999)) or 1.0
    brier_edges, norm_edges = _cells(all_x, 2.0, bins, log), _cells(all_y, limit, bins, log)
    coarse = _cells(all_x, 2.0, 20, log)
    quantiles = np.full((3, 20), np.nan)
    cell = (np.searchsorted(coarse, all_x, side="left") - 1).clip(0, 19)
    for b in np.flatnonzero(np.bincount(cell, minlength=20) >= 20):
        quantiles[:, b] = np.quantile(all_y[cell == b], [0.1, 0.5, 0.9])
    positive = all_x > 0
    ratio = np.divide(
        quantiles[2], quantiles[0], out=np.full(20, np.nan), where=np.nan_to_num(quantiles[0]) > 0
    )
    if not log:  # from 0 on, the scores of a cell are not alike
        ratio[0] = np.nan
    return {
        "counts": np.histogram2d(all_x, all_y, (brier_edges, norm_edges))[0],
        "brier_edges": brier_edges,
        "norm_edges": norm_edges,
        "middle": np.sqrt(coarse[1:] * coarse[:-1]) if log else (coarse[1:] + coarse[:-1]) / 2,
        "low": quantiles[0],
        "median": quantiles[1],
        "high": quantiles[2],
        "spread": float(np.nanmedian(ratio)) if not np.isnan(ratio).all() else np.nan,
        "spearman": np.array(
            [_correlation(rankdata(a), rankdata(b)) for a, b in zip(x, y, strict=True)]
        ),
        "log": log,
        "exponent": exponent,
        "scale": None
        if exponent is None
        else float(np.median(all_y[positive] / all_x[positive] ** exponent)),
    }


def _cells(values: np.ndarray, top: float, n: int, log: bool) -> np.ndarray:
    low = np.quantile(values[values > 0], 0.01) if log and (values > 0).any() else top
    return np.geomspace(low, top, n + 1) if low < top else np.linspace(0, top, n + 1)


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) > 0 and np.ptp(y) > 0 else np.nan


def prepare_risk_coverage(confidence, correct, points: int = 200) -> dict:
    """Error rate among the accepted samples against the share accepted, most confident first.

    Parameters
    ----------
    confidence : array_like (n,) or list of them, one per seed
        Any score that ranks predictions, not only a probability.
    correct : the same shapes
        Whether each prediction was right.
    points : int
        Coverages at which the seeds are averaged, from 1 / points to 1.

    Returns
    -------
    dict
        ``coverage`` (points,), ``risk`` (seeds, points), ``mean``, ``low``, ``high`` (points,),
        ``aurc`` (seeds,).

    Examples
    --------
    >>> numbers = prepare_risk_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True], points=4)
    >>> numbers["mean"].round(3).tolist()
    [0.0, 0.0, 0.333, 0.25]
    """
    coverage = np.arange(1, points + 1) / points
    runs = _runs(confidence, correct, unit=False)
    curves = [metrics.risk_coverage(c, z) for c, z in runs]
    risk = np.array([np.interp(coverage, *curve) for curve in curves])
    aurc = np.array([metrics.aurc(c, z) for c, z in runs])
    return {"coverage": coverage, "risk": risk, **seed_band(risk), "aurc": aurc}
