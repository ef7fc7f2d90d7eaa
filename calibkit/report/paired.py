"""Compare several models on the same samples: every metric, and the difference of every pair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from calibkit import __version__, curves, stats
from calibkit.arrays import Array
from calibkit.report import estimates
from calibkit.report.design import Design
from calibkit.report.facts import Facts
from calibkit.report.model import Predictions, check_same
from calibkit.report.names import after
from calibkit.resampling import as_groups
from calibkit.stats import Interval

COMPARED = ("accuracy", "ece", "excess_ece", "nll", "brier", "auroc", "aurc", "fpr_at_tpr")
OF_EVENT = ("ece", "excess_ece", "auroc", "aupr_success", "nll", "brier")
LEVEL = 0.95
MOST = 12  # models, which make 66 pairs


@dataclass(frozen=True)
class Pair(Facts):
    """Two models by name, and the difference (first minus second) in every metric."""

    first: str
    second: str
    difference: dict[str, Interval]


@dataclass(frozen=True, eq=False)
class Comparison(Facts):
    """The numbers of several models on the same samples; shares and errors are fractions of 1.

    Attributes
    ----------
    models : list of str
        Names of the models.
    samples, classes : int
        How many samples and classes there are.
    positive : str or None
        The class whose probability is compared, in place of the confidence.
    weighted : bool
        Whether samples have weights.
    cluster : str or None
        The name of the column of clusters; None if samples are independent.
    clusters : int
        Number of clusters; 0 if samples are independent.
    metrics : dict of str to dict of str to Interval
        For each model, the value of each metric with a 95 % interval.
    gap : dict of str to Interval
        For each model, mean confidence minus accuracy. If a class is positive: mean probability of
        this class minus its share.
    mean, share : dict of str to float
        The two numbers whose difference is the gap.
    pairs : list of Pair
        One for every two models.
    level : float
        Level of the interval of each difference, such as 0.95.
    reliability : dict of str to curves.Reliability
        For each model, its reliability curve.
    notes, doubts : list of str
        Sentences on how the files were read, and on what seems wrong with them.
    matched_by : str or None
        The column by which rows were matched; None if their order was trusted.
    calibkit : str
        Version of calibkit.
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
    """Measure every model, and the paired difference of every two models.

    The intervals of the differences hold jointly: with m pairs, each has the level 1 - 0.05 / m
    (Bonferroni). So the chance of any false verdict about a metric is at most 5 %. If models have
    weights or clusters, these must be the same in all of them.

    Parameters
    ----------
    models : sequence of Predictions
        Predictions for the same samples in the same order. If the first model has a `positive`
        class and all models have scores of two classes, the probability of this class is compared
        in place of the confidence, by the metrics `OF_EVENT`.
    names : sequence of str
        Metrics to compare.
    n : int, optional
        Number of bootstrap replicates; by default at least 1000, and more for more pairs.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        There are fewer than two models or more than `MOST`, or their samples, weights or clusters
        differ.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> labels = [0, 1, 1, 0] * 15
    >>> first = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.4, 0.6]] * 15, "labels": labels}
    >>> second = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.4, 0.6]] * 15, "labels": labels}
    >>> numbers = compare([from_arrays(x) for x in (first, second)])
    >>> numbers.models, numbers.pairs[0].difference["accuracy"].outcome()
    (['your model (1)', 'your model (2)'], 'higher')
    """
    return compared(scored(list(models)), names, n)


@dataclass(frozen=True, eq=False)
class Scored:
    """What a comparison needs of each model, without the logits, which take much memory.

    Attributes
    ----------
    samples : dict of str to stats.Samples
        By the model's name.
    notes, doubts : lists of str
        Sentences on all models; each begins with the model's name.
    classes : int
        Number of classes.
    positive : str or None
        The class whose probability is compared; None: the confidence is compared.
    weights : array (n,) or None
        How much each sample counts.
    groups : array (n,) or None
        The cluster of each sample.
    cluster : str
        The name of the column of clusters; "" without clusters.
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
    """Compute what `compared` needs of each model.

    The list of models is emptied on the way, so that at most one model has both its logits and its
    scores in memory. Errors are those of `compare`.
    """
    if not 2 <= len(models) <= MOST:
        raise ValueError(f"predictions: got {len(models)} models, expected 2 to {MOST}")
    first = models[0]
    for other in models[1:]:
        check_same(first, other, other.name)
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
    """Compare the models that `scored` prepared.

    Parameters
    ----------
    models : Scored
    names : sequence of str
        Metrics to compare; not used if a class is positive.
    n : int, optional
        Number of bootstrap replicates; by default at least 1000, and more for more pairs.
    notes : sequence of str
        Sentences that precede those on the models.
    matched_by : str, optional
        The column by which rows were matched.
    """
    samples, weights, groups = models.samples, models.weights, models.groups
    rows = len(next(iter(samples.values())).correct)
    places = None if groups is None else as_groups(groups, rows)
    design = Design(rows, weights, places)
    names = names if models.positive is None else OF_EVENT
    pairs = list(combinations(samples, 2))
    # An end of an interval is a quantile. It is steady if some 25 replicates lie beyond it.
    n = n or max(estimates.replicates(rows), min(1000 * len(pairs), 4000))
    drawing = {"sample_weight": weights, "groups": groups}
    own, differences = stats.compare_all(list(samples.values()), names, n, LEVEL, **drawing)

    def of_each(measure: Callable[[Array, Array], Any]) -> dict[str, Any]:
        return {name: measure(one.confidence, one.correct) for name, one in samples.items()}

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
        gap=of_each(lambda score, true: estimates.gap(score, true, design)),
        mean=of_each(lambda score, true: design.average(score)),
        share=of_each(lambda score, true: design.average(true)),
        pairs=[Pair(*two, changes) for two, changes in zip(pairs, differences, strict=True)],
        reliability=of_each(lambda score, true: estimates.reliability(score, true, design)),
        matched_by=matched_by,
        calibkit=__version__,
    )


def weights_of(models: Sequence[Predictions]) -> Array | None:
    """The weights (n,) of the samples, or None if no model has weights.

    Raises
    ------
    ValueError
        Two models have weights that are not proportional.
    """
    known = [(m.name, m.weights) for m in models if m.weights is not None]
    for name, weights in known[1:]:
        first = known[0][1]
        if not np.allclose(weights / weights.mean(), first / first.mean(), rtol=1e-5, atol=0):
            raise ValueError(
                f"{name}: got other weights than {known[0][0]}, expected the same for the same "
                "samples; --column ignore=NAME leaves out a column of weights"
            )
    return known[0][1] if known else None


def clusters_of(models: Sequence[Predictions]) -> tuple[Array | None, str]:
    """The cluster of each sample (n,) and the name of the column; None and "" without clusters.

    Raises
    ------
    ValueError
        Two models have different clusters.
    """
    known = [m for m in models if m.clusters is not None]
    if not known:
        return None, ""
    first, *others = known
    for other in others:
        if differ := int((_by_appearance(other) != _by_appearance(first)).sum()):
            raise ValueError(
                f"{other.name}: got another {first.cluster_name!r} than {first.name} in "
                f"{differ:,} of {len(other.labels):,} rows, expected the same samples in the same "
                "order"
            )
    return first.clusters, first.cluster_name


def _by_appearance(model: Predictions) -> Array:
    """The cluster of each sample (n,), numbered in the order in which clusters first appear."""
    _, first, place = np.unique(model.clusters, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place]


def _names(models: Sequence[Predictions]) -> list[str]:
    """The names of the models; equal names get a number: "model (1)", "model (2)"."""
    names = [m.name for m in models]
    return [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]
