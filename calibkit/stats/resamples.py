"""Compute metrics of several models on the same resamples of their test set."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np

from calibkit import many_rows, metrics
from calibkit.arrays import Array, ArrayLike, Kind, Weights
from calibkit.resampling import as_counts, as_groups, draws
from calibkit.stats.models import CLASSWISE, Given, Metric, Model, worth_of

EXCESS = {f"excess_{name}": name for name in ("ece", "adaptive_ece", "classwise_ece")}


Evaluator: TypeAlias = Callable[[Array | None], Array]  # from drawn samples to metrics


def evaluator(
    model: Model,
    names: Sequence[Metric],
    sample_weight: Weights = None,
    groups: "ArrayLike | None" = None,
) -> Evaluator:
    """Return a function that takes the rows of a resample and returns the metrics.

    None stands for all samples, each once. The scores are sorted only once, here.
    """
    by_sample, classwise, ranked = model.by_sample, model.classwise, model.ranked
    m = len(model.correct)
    orders = {of: places_of(x, model.correct) for of, (x, _) in model.orders(names).items()}
    weights = None if sample_weight is None else as_counts(sample_weight, m)
    everything = np.arange(m) if weights is None else np.flatnonzero(weights)
    worth = worth_of(by_sample, weights, None if groups is None else as_groups(groups, m))

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


def _on_all(
    model: Model, names: Sequence[str], weights: "Array | None", worth: float | None
) -> Array:
    """The metrics on all samples, as an array in the order of `names`."""

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
    read: Sequence[Model],
    names: Sequence[str],
    n: int,
    seed: int,
    weights: "Array | None",
    groups: "Array | None",
) -> list[tuple[Array, Array]]:
    """For each model, metrics on all samples, and on `n` resamples drawn by `many_rows`."""
    worths = [worth_of(model.by_sample, weights, groups) for model in read]
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
        # Bins change a metric a little, so only differences between resamples and all rows count.
        drawn.append((estimates, of_all[:-1] + (estimates - of_all[-1])))
    return drawn


def places_of(score: Array, correct: Array) -> tuple[Array, Array]:
    """The g different scores, highest first, and a number for each sample.

    The number of a wrong sample is the place of its score, 0 to g - 1; that of a right sample is g
    higher.
    """
    ascending, place = np.unique(score, return_inverse=True)
    return ascending[::-1], len(ascending) - 1 - place + len(ascending) * correct


def evaluated(
    evaluators: Sequence[Evaluator],
    m: int,
    n: int,
    seed: int,
    sample_weight: Weights = None,
    groups: "ArrayLike | None" = None,
) -> list[Array]:
    """Evaluate all models on the same `n` resamples of `m` samples: arrays (n, metrics)."""
    _check_replicates(n)
    resamples = draws(m, n, seed, sample_weight, groups)
    with _one_thread():
        values = [[evaluate(rows) for evaluate in evaluators] for rows in resamples]
    return [np.array(its) for its in zip(*values, strict=True)]


def _check_replicates(n: int) -> None:
    if n < 2:
        raise ValueError(f"n: got {n!r}, expected at least 2 replicates")


def _one_thread() -> AbstractContextManager[Any]:
    """Let BLAS use one thread: on a busy machine, several threads can be a hundred times slower."""
    try:
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError:
        return nullcontext()
    return threadpool_limits(1, "blas")


Drawn: TypeAlias = dict[Metric, tuple[float, Array]]  # value of a metric, and on resamples


def drawn_of(
    models: Sequence[Given],
    labels: "ArrayLike | None",
    names: Sequence[Metric],
    n: int,
    seed: int = 0,
    kind: Kind = "logits",
    sample_weight: Weights = None,
    groups: "ArrayLike | None" = None,
) -> list[Drawn]:
    """For each model, its metrics on all samples and on the same resamples.

    For each excess of a calibration error among `names`, the plain error is computed, too.
    """
    if isinstance(names, str) or callable(names):
        raise ValueError(f"metric_names: got {names!r}, expected a list of names")
    if len(models) == 0:
        raise ValueError("models: got no arrays, expected one for each model")
    names = list(dict.fromkeys([*names, *(EXCESS[name] for name in names if name in EXCESS)]))
    read = [Model(x, labels, names, kind) for x in models]
    sizes = [len(model.correct) for model in read]
    if len(set(sizes)) > 1:
        raise ValueError(f"logits: got {tuple(sizes)} samples, expected the same of all models")
    m, fast = sizes[0], not any(callable(name) or name in CLASSWISE for name in names)
    if fast and m >= many_rows.MANY:
        weights = None if sample_weight is None else as_counts(sample_weight, m)
        places = None if groups is None else as_groups(groups, m)
        _check_replicates(n)
        found = _of_many(read, names, n, seed, weights, places)
    else:
        evaluators = [evaluator(model, names, sample_weight, groups) for model in read]
        values = evaluated(evaluators, m, n, seed, sample_weight, groups)
        found = [(f(None), its) for f, its in zip(evaluators, values, strict=True)]
    return [
        {name: (x, its) for name, x, its in zip(names, estimates, values.T, strict=True)}
        for estimates, values in found
    ]
