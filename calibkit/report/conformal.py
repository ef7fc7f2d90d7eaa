"""Conformal sets of classes, before and after temperature scaling.

A conformal set contains the true class with a chosen probability, its coverage, even if the
probabilities are not calibrated. But the size of the sets depends on the probabilities. Temperature
scaling is known to make adaptive sets larger and their coverage more even over the classes.
Threshold sets hardly change (Xi et al., TMLR 2025; Dabah and Tirer, ICML 2025).
"""

from dataclasses import dataclass

import numpy as np

from calibkit.arrays import Array, softmax
from calibkit.posthoc import TemperatureScaling, optimal_temperature
from calibkit.report import estimates
from calibkit.report.design import Design
from calibkit.report.estimates import FEW
from calibkit.report.facts import Facts
from calibkit.report.parts import Part
from calibkit.report.predictions import Predictions
from calibkit.resampling import as_groups
from calibkit.stats import Interval

LEVEL = 0.9  # coverage, a fraction of 1
SCORES = ("lac", "aps")  # threshold sets; adaptive sets


@dataclass(frozen=True)
class Measured(Facts):
    """Conformal sets of new samples; shares are fractions of 1.

    Attributes
    ----------
    coverage : Interval
        Share of sets that contain the true class (Wilson).
    size : float
        Mean number of classes in a set.
    class_gap : float
        Distance of a class's coverage from the level, mean over classes.
    """

    coverage: Interval
    size: float
    class_gap: float


@dataclass(frozen=True)
class Effect(Facts):
    """Conformal sets before and after temperature scaling."""

    before: Measured
    after: Measured


@dataclass(frozen=True)
class Sets(Facts):
    """Size and coverage of conformal sets.

    Attributes
    ----------
    level : float
        The coverage that the sets should have, a fraction of 1.
    temperature : float
        The fitted temperature, mean over folds.
    lac, aps : Effect
        Threshold sets (Sadinle et al. 2019) and adaptive sets (Romano et al. 2020, randomised).
    """

    level: float
    temperature: float
    lac: Effect
    aps: Effect


@dataclass(frozen=True, eq=False)
class _Split:
    """One half to fit the temperature to, one for the sets' limit, and the test rows to judge."""

    first: Part
    second: Part
    judged: Array


def sets(data: Predictions) -> Sets | None:
    """Measure size and coverage of conformal sets before and after temperature scaling.

    The temperature is fitted to one half of the validation set, and the limit of the sets to the
    other half. Without a validation set, both are cross-fitted.

    Parameters
    ----------
    data : Predictions

    Returns
    -------
    Sets or None
        None for two classes, or for fewer than 4 × `FEW` samples to fit to.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(2000, 5))
    >>> labels = (logits + rng.gumbel(size=(2000, 5))).argmax(axis=1)
    >>> found = sets(from_arrays({"logits": 3 * logits, "labels": labels}))
    >>> [round(x.after.coverage.estimate, 1) for x in (found.lac, found.aps)]
    [0.9, 0.9]
    """
    known = data.validation or data.test
    if data.logits.shape[1] < 3 or len(known.labels) < 4 * FEW:
        return None
    splits = _splits(data)
    temperatures = [_temperature(split.first) for split in splits]
    rows = np.concatenate([split.judged for split in splits])
    design, labels = data.design[rows], data.labels[rows]
    found: dict[str, Effect] = {}
    for name in SCORES:
        judged = []
        for after in (False, True):
            parts = [
                _judge(name, split, data, t if after else 1.0)
                for split, t in zip(splits, temperatures, strict=True)
            ]
            hit, size = map(np.concatenate, zip(*parts, strict=True))
            judged.append(_measured(hit, size, labels, design))
        found[name] = Effect(*judged)
    return Sets(LEVEL, float(np.mean(temperatures)), **found)


def _splits(data: Predictions) -> list[_Split]:
    """Split the validation set, or for each fold the samples outside of it, into two halves.

    Each split also has the test rows to judge.
    """
    n, k = data.logits.shape
    most, held = max(estimates.judged(k), 4 * FEW), data.validation
    if held is not None:
        known = np.random.default_rng(0).permutation(len(held.labels))
        return [_Split(*_halves(held, known[:most]), np.arange(n)[:: -(-n // most)])]
    folds = estimates.folds(n, groups=data.design.clusters)
    return [_Split(*_halves(data.test, known[:most]), rest[:most]) for known, rest in folds]


def _halves(part: Part, rows: Array) -> list[Part]:
    """Split rows, given in random order, into two halves; each cluster is in one half only."""
    clusters = part.design.clusters
    if clusters is None or (clusters[rows] == clusters[rows[0]]).all():
        return [part[half] for half in np.array_split(rows, 2)]
    place = as_groups(clusters[rows], len(rows))
    order = np.random.default_rng(2).permutation(place.max() + 1)
    first = order[place] < (place.max() + 1) / 2
    return [part[rows[first]], part[rows[~first]]]


def _temperature(part: Part) -> float:
    """The temperature fitted to a part."""
    if part.weights is None:
        return optimal_temperature(part.logits, part.labels)[0]
    return TemperatureScaling().fit(part.logits, part.labels, part.weights).temperature_


def _judge(name: str, split: _Split, data: Predictions, t: float) -> tuple[Array, Array]:
    """For every judged row, whether its set contains the true class, and the size of the set.

    `t` is the temperature by which logits are divided.
    """
    rng = np.random.default_rng(1)
    own, new = (
        scores(name, softmax(logits.astype(np.float64) / t), rng)
        for logits in (split.second.logits, data.logits[split.judged])
    )
    true = own[np.arange(len(own)), split.second.labels]
    limit = quantile(true, LEVEL, split.second.weights)
    hit = new[np.arange(len(new)), data.labels[split.judged]] <= limit
    return hit, (new <= limit).sum(axis=1)


def _measured(hit: Array, size: Array, labels: Array, design: Design) -> Measured:
    """Coverage and size of sets, from `hit` (whether each contains the true class) and `size`."""
    weights = np.ones(len(labels)) if design.weights is None else design.weights
    count = np.bincount(labels, weights)
    by_class = np.bincount(labels, weights * hit)[count > 0] / count[count > 0]
    gap = float(np.mean(np.abs(by_class - LEVEL)))
    return Measured(coverage=design.share(hit), size=design.average(size), class_gap=gap)


def scores(name: str, probs: Array, rng: np.random.Generator) -> Array:
    """Return how badly each class fits; a conformal set contains the classes up to a limit.

    Parameters
    ----------
    name : {"lac", "aps"}
        Threshold sets or adaptive sets.
    probs : array (n, k)
        Probabilities.
    rng : numpy.random.Generator
        Randomises "aps".

    Returns
    -------
    array (n, k)
        "lac": 1 - p. "aps": the sum of all larger probabilities, plus a random part of p.

    Examples
    --------
    >>> class Half:
    ...     random = staticmethod(lambda shape: np.full(shape, 0.5))
    >>> scores("aps", np.array([[0.2, 0.7, 0.1]]), Half()).round(2)
    array([[0.8 , 0.35, 0.95]])
    """
    if name == "lac":
        return 1 - probs
    order = np.argsort(-probs, axis=1, kind="stable")
    ranked = np.take_along_axis(probs, order, axis=1)
    larger = np.cumsum(ranked, axis=1) - ranked
    ranked = larger + rng.random((len(probs), 1)) * ranked
    out = np.empty_like(probs)
    np.put_along_axis(out, order, ranked, axis=1)
    return out


def quantile(values: Array, level: float, weights: Array | None = None) -> float:
    """Return a limit that a new value does not exceed with a probability of at least `level`.

    `values` (n,) come from the same distribution as the new value. With `weights` (n,), the new
    value has the weight 1 (Tibshirani et al. 2019). The limit is infinite for too few values.

    >>> quantile(np.arange(1.0, 10.0), 0.9), quantile(np.arange(1.0, 9.0), 0.9)
    (9.0, inf)
    """
    if weights is None:
        return float(np.quantile(np.append(values, np.inf), level, method="inverted_cdf"))
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= level * (weights.sum() + 1) - 1e-9
    return float(values[order][reached.argmax()]) if reached.any() else np.inf
