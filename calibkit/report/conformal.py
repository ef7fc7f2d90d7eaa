"""Sets of answers that hold the truth as often as asked for, before and after a temperature.

Split conformal prediction needs no calibrated probabilities for its coverage, but the size of its
sets follows from them. A temperature is known to make the sets of adaptive scores larger, and their
coverage more even over the classes; sets by a threshold on the probability hardly change (Xi et
al., TMLR 2025; Dabah and Tirer, ICML 2025).
"""

from typing import NamedTuple

import numpy as np

from calibkit.arrays import Array, softmax
from calibkit.posthoc import TemperatureScaling, optimal_temperature
from calibkit.report import estimates
from calibkit.report.design import Design
from calibkit.report.estimates import FEW
from calibkit.report.predictions import Predictions
from calibkit.resampling import as_groups

LEVEL = 0.9
SCORES = ("lac", "aps")  # a threshold on the probability; probabilities added up


class Sets(NamedTuple):
    """Size and coverage of conformal sets.

    Attributes
    ----------
    level : float
        Coverage asked for, a fraction of 1.
    temperature : float
        Mean over fits.
    lac, aps : dict of str to dict
        Of the scores of Sadinle et al. 2019 and of Romano et al. 2020 (randomised), ``before`` and
        ``after`` the temperature: ``coverage`` (Wilson interval), ``size`` (mean number of
        classes), ``class_gap`` (mean over classes of how far their coverage is off).
    """

    level: float
    temperature: float
    lac: dict[str, dict]
    aps: dict[str, dict]


def sets(data: Predictions) -> Sets | None:
    """Size and coverage of conformal sets with and without a temperature.

    The temperature is fitted to one half of the validation set, and the sets to the other half;
    without a validation set both are cross-fitted.

    Returns
    -------
    Sets or None
        None for two classes, or fewer than `FEW` samples to fit to.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(2000, 5))
    >>> labels = (logits + rng.gumbel(size=(2000, 5))).argmax(axis=1)
    >>> found = sets(from_arrays({"logits": 3 * logits, "labels": labels}))
    >>> [round(x["after"]["coverage"].estimate, 1) for x in (found.lac, found.aps)]
    [0.9, 0.9]
    """
    (n, k), held = data.logits.shape, data.val_logits is not None
    if k < 3 or len(data.val_labels if held else data.labels) < 4 * FEW:
        return None
    most = max(estimates.judged(k), 4 * FEW)
    if held:
        known = np.random.default_rng(0).permutation(len(data.val_labels))
        logits, labels, splits = data.val_logits, data.val_labels, [(known, np.arange(n))]
        weights, clusters = data.val_weights, data.val_design.clusters
    else:
        logits, labels, weights = data.logits, data.labels, data.weights
        clusters = data.design.clusters
        splits = estimates.folds(n, groups=clusters)
    temperatures, judged = [], []
    found = {(name, when): [] for name in SCORES for when in ("before", "after")}
    for known, rest in splits:
        first, second = _halves(known[:most], clusters)
        rest = rest[:: -(-n // most)] if held else rest[:most]
        temperatures.append(_temperature(logits[first], labels[first], weights, first))
        judged.append(rest)
        for name, when in found:
            t = temperatures[-1] if when == "after" else 1.0
            rng, both = np.random.default_rng(1), (logits[second], data.logits[rest])
            own, new = (scores(name, softmax(z.astype(np.float64) / t), rng) for z in both)
            true = own[np.arange(len(own)), labels[second]]
            limit = quantile(true, LEVEL, None if weights is None else weights[second])
            hit = new[np.arange(len(new)), data.labels[rest]] <= limit
            found[name, when].append((hit, (new <= limit).sum(axis=1)))
    rows = np.concatenate(judged)
    design, of_labels = data.design[rows], data.labels[rows]
    measured: dict = {name: {} for name in SCORES}
    for (name, when), parts in found.items():
        hit, size = map(np.concatenate, zip(*parts, strict=True))
        measured[name][when] = _measured(hit, size, of_labels, design)
    return Sets(LEVEL, float(np.mean(temperatures)), **measured)


def _halves(rows: Array, clusters: Array | None) -> list[Array]:
    """Two halves of some rows, in random order, with no cluster in both."""
    if clusters is None or (clusters[rows] == clusters[rows[0]]).all():
        return np.array_split(rows, 2)
    place = as_groups(clusters[rows], len(rows))
    order = np.random.default_rng(2).permutation(place.max() + 1)
    first = order[place] < (place.max() + 1) / 2
    return [rows[first], rows[~first]]


def _temperature(logits: Array, labels: Array, weights: Array | None, rows: Array) -> float:
    if weights is None:
        return optimal_temperature(logits, labels)[0]
    return TemperatureScaling().fit(logits, labels, weights[rows]).temperature_


def _measured(hit: Array, size: Array, labels: Array, design: Design) -> dict:
    weights = np.ones(len(labels)) if design.weights is None else design.weights
    count = np.bincount(labels, weights)
    by_class = np.bincount(labels, weights * hit)[count > 0] / count[count > 0]
    return {
        "coverage": design.share(hit),
        "size": design.average(size),
        "class_gap": float(np.mean(np.abs(by_class - LEVEL))),
    }


def scores(name: str, probs: Array, rng: np.random.Generator) -> Array:
    """How badly each class fits; a set holds those up to a limit.

    Parameters
    ----------
    name : {"lac", "aps"}
    probs : array (n, k)
    rng : numpy.random.Generator

    Returns
    -------
    array (n, k)
        "lac": 1 - p; "aps": the sum of all larger p, and a random part of its own.

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
    """The limit that a new value keeps with a probability of at least `level`.

    With weights, of which the new value has 1 (Tibshirani et al. 2019).

    >>> quantile(np.arange(1.0, 10.0), 0.9), quantile(np.arange(1.0, 9.0), 0.9)
    (9.0, inf)
    """
    if weights is None:
        return float(np.quantile(np.append(values, np.inf), level, method="inverted_cdf"))
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= level * (weights.sum() + 1) - 1e-9
    return float(values[order][reached.argmax()]) if reached.any() else np.inf
