"""Several models on the same samples: every metric, and the paired difference of every two."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from calibkit import __version__, curves, stats
from calibkit.arrays import Array
from calibkit.report import estimates, predictions
from calibkit.report.design import Design
from calibkit.report.facts import Facts
from calibkit.report.names import after
from calibkit.report.predictions import Predictions
from calibkit.resampling import as_groups
from calibkit.stats import Interval

COMPARED = ("accuracy", "ece", "excess_ece", "nll", "brier", "auroc", "aurc", "fpr_at_tpr")
OF_EVENT = ("ece", "excess_ece", "auroc", "aupr_success", "nll", "brier")
LEVEL = 0.95
MOST = 12  # models: 66 pairs


@dataclass(frozen=True)
class Pair(Facts):
    """Two models by name, and for every metric the first minus the second."""

    first: str
    second: str
    difference: dict[str, Interval]


@dataclass(frozen=True, eq=False)
class Comparison(Facts):
    """Several models on the same samples; shares and errors are fractions of 1.

    Attributes
    ----------
    models : list of str
        Names.
    samples, classes : int
    positive : str or None
        The class whose probability is compared, in place of the confidence.
    weighted : bool
        Whether samples have weights.
    cluster : str or None
        What a cluster of samples is called.
    clusters : int
        How many there are; 0 without.
    metrics : dict of str to dict of str to Interval
        For each model its metrics, with intervals at 95 %.
    gap : dict of str to Interval
        For each model mean confidence minus accuracy, or mean probability minus share.
    mean, share : dict of str to float
        The two that the gap is between.
    pairs : list of Pair
    level : float
        Of each difference's interval.
    reliability : dict of str to curves.Reliability
    notes, doubts : list of str
        Of all models.
    matched_by : str or None
        The column that rows were matched by.
    calibkit : str
        Version.
    """

    models: list[str]
    samples: int
    classes: int
    positive: str | None
    weighted: bool
    cluster: str | None
    clusters: int
    notes: list[str]
    doubts: list[str]
    level: float
    metrics: dict[str, dict[str, Interval]]
    gap: dict[str, Interval]
    mean: dict[str, float]
    share: dict[str, float]
    pairs: list[Pair]
    reliability: dict[str, curves.Reliability]
    matched_by: str | None
    calibkit: str


def compare(
    models: Sequence[Predictions], names: Sequence[str] = COMPARED, n: int | None = None
) -> "Comparison":
    """Every metric of every model, and the paired difference of every pair.

    Intervals of differences hold jointly: with m pairs each is at the level 1 - 0.05 / m
    (Bonferroni), so that the chance of any false verdict about a metric is at most 5 %. Weights
    and clusters are kept, and must be the same in all models that have some.

    Parameters
    ----------
    models : sequence of Predictions
        Of the same samples in the same order. If the first has a `positive` class and all have
        scores of two classes, its probability is compared in place of the confidence, by
        `OF_EVENT`.
    names : sequence of str
        Metrics.
    n : int, optional
        Replicates; by default at least 1000, and more for more pairs.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        Fewer than two models, more than `MOST`, different samples, weights or clusters.

    Examples
    --------
    >>> labels = [0, 1, 1, 0] * 15
    >>> first = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.4, 0.6]] * 15, "labels": labels}
    >>> second = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.4, 0.6]] * 15, "labels": labels}
    >>> numbers = compare([predictions.from_arrays(x) for x in (first, second)])
    >>> numbers.models, numbers.pairs[0].difference["accuracy"].outcome()
    (['your model (1)', 'your model (2)'], 'higher')
    """
    return compared(scored(list(models)), names, n)


@dataclass(frozen=True, eq=False)
class Scored:
    """What is compared of several models: by name, without their logits.

    Attributes
    ----------
    samples : dict of str to stats.Samples
    notes, doubts : lists of str
        Of all models, with their names.
    classes : int
    positive : str or None
        The class whose probability is compared.
    weights, groups, cluster
        As from `weights_of` and `clusters_of`.
    """

    samples: dict[str, stats.Samples]
    notes: list[str]
    doubts: list[str]
    classes: int
    positive: str | None
    weights: Array | None
    groups: Array | None
    cluster: str


def scored(models: list[Predictions]) -> Scored:
    """What `compared` needs of models; as in `compare`.

    The list is emptied: so no more than one model has its logits and its scores in memory.
    """
    if not 2 <= len(models) <= MOST:
        raise ValueError(f"predictions: got {len(models)} models, expected 2 to {MOST}")
    first = models[0]
    for other in models[1:]:
        predictions.check_same(first, other, other.name)
    weights, (groups, cluster) = weights_of(models), clusters_of(models)
    two = all(m.kind.two for m in models)
    event = first.positive if two else None
    positive = None if event is None else first.class_names[event]
    classes, names = first.logits.shape[1], _names(models)
    notes = [after(f"{a}: ", note) for a, m in zip(names, models, strict=True) for note in m.notes]
    doubts = [f"{a}: {x}" for a, m in zip(names, models, strict=True) for x in m.doubts]
    del first, other
    samples = {}
    for name in names:
        model = models.pop(0)
        score, true = model.test.scored(event)
        found, rank = model.test.outcomes, model.test.ranked(event)
        samples[name] = stats.Samples(score, true, found.nll, found.brier, rank)
        del model
    return Scored(samples, notes, doubts, classes, positive, weights, groups, cluster)


def compared(
    models: Scored,
    names: Sequence[str] = COMPARED,
    n: int | None = None,
    notes: Sequence[str] = (),
    matched_by: str | None = None,
) -> Comparison:
    """As `compare`; `notes` come before those of the models."""
    samples, weights, groups = models.samples, models.weights, models.groups
    rows = len(next(iter(samples.values())).correct)
    places = None if groups is None else as_groups(groups, rows)
    design = Design(rows, weights, places)
    names = names if models.positive is None else OF_EVENT
    pairs = list(combinations(samples, 2))
    # Each end of the interval is a quantile: some 25 replicates should lie beyond it.
    n = n or max(estimates.replicates(rows), min(1000 * len(pairs), 4000))
    drawing = {"sample_weight": weights, "groups": groups}
    own, differences = stats.compare_all(list(samples.values()), names, n, LEVEL, **drawing)

    def of_each(measure: Callable[[Array, Array], Any]) -> dict[str, Any]:
        return {name: measure(its.confidence, its.correct) for name, its in samples.items()}

    return Comparison(
        models=list(samples),
        samples=rows,
        classes=models.classes,
        positive=models.positive,
        weighted=weights is not None,
        cluster=None if groups is None else models.cluster or "cluster",
        clusters=0 if groups is None else len(np.unique(groups)),
        notes=[*notes, *models.notes],
        doubts=models.doubts,
        level=1 - (1 - LEVEL) / len(pairs),
        metrics=dict(zip(samples, own, strict=True)),
        gap=of_each(lambda score, true: estimates.gap(score, true, design=design)),
        mean=of_each(lambda score, true: design.average(score)),
        share=of_each(lambda score, true: design.average(true)),
        pairs=[Pair(*pair, its) for pair, its in zip(pairs, differences, strict=True)],
        reliability=of_each(lambda score, true: estimates.reliability(score, true, design)),
        matched_by=matched_by,
        calibkit=__version__,
    )


def weights_of(models: Sequence[Predictions]) -> Array | None:
    """The weights of the samples: in proportion the same in all models that have some."""
    known = [(m.name, m.weights) for m in models if m.weights is not None]
    for name, its in known[1:]:
        if not np.allclose(its / its.mean(), known[0][1] / known[0][1].mean(), rtol=1e-5, atol=0):
            raise ValueError(
                f"{name}: got other weights than {known[0][0]}, expected the same of the same "
                "samples; --column ignore=NAME leaves a column of them out"
            )
    return known[0][1] if known else None


def clusters_of(models: Sequence[Predictions]) -> tuple[Array | None, str]:
    """Which samples are alike, the same in all models that say so, and what the column is called.

    Raises
    ------
    ValueError
        Models differ.
    """
    known = [m for m in models if m.clusters is not None]
    if not known:
        return None, ""
    first, *others = known
    for other in others:
        if differ := int((_by_appearance(other) != _by_appearance(first)).sum()):
            raise ValueError(
                f"{other.name}: got another {first.cluster_name!r} than {first.name} in "
                f"{differ:,} of {len(other.labels):,} rows: are these the same samples, in the "
                "same order?"
            )
    return first.clusters, first.cluster_name


def _by_appearance(model: Predictions) -> Array:
    """The cluster of each sample, numbered as they come."""
    _, first, place = np.unique(model.clusters, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place]


def _names(models: Sequence[Predictions]) -> list[str]:
    """Names of the files, numbered where two are the same."""
    names = [m.name for m in models]
    return [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]
