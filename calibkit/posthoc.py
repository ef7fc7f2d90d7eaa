"""Post-hoc calibration: maps fitted on held-out logits that leave the network alone.

Every map has ``fit(logits, labels) -> self`` and ``predict_proba(logits) -> (n, k)``. Fit it on
data that neither trained the network nor measures it; `check_overlap` finds the most common slip.
NumPy arrays and torch tensors are taken; probabilities come back as the kind given.

Temperatures that minimise the ECE are found exactly on a grid at a small part of its cost, see
`optimal_temperature`. Everything else is a smooth convex problem, solved with analytic gradients.
"""

import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit

from calibkit.arrays import Array, ArrayLike, as_labels, as_logits, blocks, like, softmax

# The grid of overconf and of bsce's code. That of bsce's text is np.arange(1, 101) / 10.
GRID = np.arange(1, 1001) / 100
# Where a temperature is sought that minimises the NLL.
RANGE = (1e-3, 1e3)


class PosthocWarning(UserWarning):
    """A post-hoc map was fitted, but the result deserves a second look."""


# --- temperature ----------------------------------------------------------------------------------


def optimal_temperature(
    logits: ArrayLike,
    labels: ArrayLike,
    objective: str = "ece",
    grid: Sequence[float] | None = None,
    bins: int = 15,
) -> tuple[float, float]:
    """Temperature T that minimises the ECE or the NLL of softmax(logits / T), and that minimum.

    The ECE is neither smooth nor unimodal in T, so it is searched on a grid, as in overconf, mixup
    and bsce. The result is that of the full grid (of equal values, the smallest T), but most of it
    is never visited: the ECE is at least ``|mean confidence - accuracy|``, each confidence falls as
    T rises, and so the search can start where that gap closes and stop on either side once the gap
    alone exceeds the best ECE.

    The NLL is convex in 1/T: its slope is brought to zero, on a grid if one is given.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
    labels : array or tensor of integers, shape (n,)
    objective : {"ece", "nll"}
    grid : sequence of positive numbers, optional
        Default for the ECE: 0.01, 0.02, ..., 10; for the NLL: any number from 0.001 to 1000.
    bins : int
        Bins of the ECE: equal width, (lo, hi], of the top-label confidence.

    Returns
    -------
    temperature, value : float, float
        The value is a fraction for the ECE, in nats for the NLL.

    Raises
    ------
    ValueError
        For bad logits, labels, objective, grid or bins.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])  # 98% sure, 75% right
    >>> temperature, nll = optimal_temperature(logits, labels, "nll")
    >>> round(4 / temperature, 3)  # the logit of 0.75
    1.099
    >>> optimal_temperature(logits, labels, "ece")[0]
    3.64
    """
    logits, labels = _data(logits, labels)
    if objective not in ("ece", "nll"):
        raise ValueError(f"objective: got {objective!r}, expected 'ece' or 'nll'")
    grid = None if grid is None else _checked_grid(grid)
    if objective == "ece":
        return _lowest_ece(_ece_at(logits, labels, bins), GRID if grid is None else grid)
    nll = _nll_at(logits, labels)
    best = _root(lambda temperature: nll(temperature)[1])
    if grid is not None:  # convex: the best of the grid is a neighbour of the best of all
        after = int(np.searchsorted(grid, best))
        best = min(grid[max(after - 1, 0) : after + 1], key=lambda t: nll(t)[0])
    return float(best), nll(best)[0]


@dataclass
class TemperatureScaling:
    """Divide the logits by one temperature fitted on held-out data (fmfp, overconf, mixup, bsce).

    Warns (`PosthocWarning`) if the temperature is an end of its range, or if on the very data of
    the fit the ECE or the NLL is worse than at T = 1 by more than 0.01.

    Parameters
    ----------
    objective : {"nll", "ece"}
        What the temperature minimises: the NLL, as is usual, or the ECE, as in overconf, mixup and
        bsce.
    grid : sequence of positive numbers, optional
        Temperatures to choose from, see `optimal_temperature`.

    Attributes
    ----------
    temperature_ : float

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    >>> TemperatureScaling().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    objective: str = "nll"
    grid: Sequence[float] | None = None

    def fit(self, logits: ArrayLike, labels: ArrayLike) -> "TemperatureScaling":
        """Fit to held-out logits (n, k) and labels (n,)."""
        logits, labels = _data(logits, labels)
        best, _ = optimal_temperature(logits, labels, self.objective, self.grid)
        self.temperature_, self.classes_ = best, logits.shape[1]
        choices = {"ece": GRID, "nll": RANGE}[self.objective] if self.grid is None else self.grid
        if best in (min(choices), max(choices)):
            _warn(f"temperature {best:g} is an end of the range searched")
        for name, at in (("ECE", _ece_at(logits, labels)), ("NLL", _nll_at(logits, labels))):
            before, after = at(1.0)[0], at(best)[0]
            if after > before + 0.01:
                _warn(
                    f"temperature {best:g} raises the {name} of the data it was fitted on "
                    f"from {before:.4f} to {after:.4f}"
                )
        return self

    def predict_proba(self, logits: ArrayLike) -> ArrayLike:
        """Probabilities (n, k) for logits (n, k), of the kind given."""
        return like(softmax(_ready(self, logits) / self.temperature_), logits)


@dataclass
class FixedTemperature:
    """Divide the logits by a temperature chosen beforehand; `fit` does nothing (darkside).

    Parameters
    ----------
    temperature : float
        Positive. Darkside uses 1.5 on CIFAR and 1.1 on ImageNet.

    Examples
    --------
    >>> FixedTemperature(2.0).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.731, 0.269]])
    """

    temperature: float

    def __post_init__(self):
        if not 0 < self.temperature < inf:
            raise ValueError(f"temperature: got {self.temperature}, expected a positive number")
        self.temperature_ = self.temperature

    def fit(self, logits: ArrayLike, labels: ArrayLike) -> "FixedTemperature":
        """Check the data and change nothing."""
        _data(logits, labels)
        return self

    def predict_proba(self, logits: ArrayLike) -> ArrayLike:
        """Probabilities (n, k) for logits (n, k), of the kind given."""
        return like(softmax(as_logits(logits) / self.temperature_), logits)


def calibratability(
    val_logits: ArrayLike,
    val_labels: ArrayLike,
    test_logits: ArrayLike,
    test_labels: ArrayLike,
    bins: int = 15,
) -> dict[str, float]:
    """How well a network can be calibrated afterwards: three ECEs of the test set (overconf).

    Parameters
    ----------
    val_logits, val_labels : arrays or tensors, shapes (m, k) and (m,)
        Choose the temperature.
    test_logits, test_labels : arrays or tensors, shapes (n, k) and (n,)
        Measure it.
    bins : int
        Bins of every ECE here.

    Returns
    -------
    dict
        ``before``: ECE without temperature; ``after``: with the temperature of lowest validation
        ECE, ``temperature``; ``optimal``: with that of lowest test ECE, ``optimal_temperature``, a
        bound that no temperature beats. ECEs are fractions.

    Warns
    -----
    PosthocWarning
        If validation and test share samples, or a temperature is an end of the grid.

    Examples
    --------
    >>> val, test = np.array([[4.0, 0.0]] * 4), np.array([[3.0, 0.0]] * 5)
    >>> found = calibratability(val, [0, 0, 0, 1], test, [0, 0, 0, 0, 1])
    >>> {name: round(value, 3) for name, value in found.items() if "temp" not in name}
    {'before': 0.153, 'after': 0.105, 'optimal': 0.0}
    >>> found["temperature"], found["optimal_temperature"]
    (3.64, 2.16)
    """
    check_overlap(val_logits, test_logits)
    temperature, _ = optimal_temperature(val_logits, val_labels, bins=bins)
    best, optimal = optimal_temperature(test_logits, test_labels, bins=bins)
    for name, value in (("validation", temperature), ("test", best)):
        if value in (GRID[0], GRID[-1]):
            _warn(f"temperature {value:g} of the {name} set is an end of the range searched")
    ece = _ece_at(*_data(test_logits, test_labels), bins)
    return {
        "before": ece(1.0)[0],
        "after": ece(temperature)[0],
        "optimal": optimal,
        "temperature": temperature,
        "optimal_temperature": best,
    }


def check_overlap(val_logits: ArrayLike, test_logits: ArrayLike) -> int:
    """Count the test rows that are also validation rows, and warn if there are more than 1%.

    A temperature fitted on the test set is no evidence; it happens where a data set has no labelled
    test split and both loaders read the other one (Tiny-ImageNet in bsce's code).

    Parameters
    ----------
    val_logits, test_logits : arrays or tensors, shapes (m, k) and (n, k)

    Returns
    -------
    int
        Rows of `test_logits` with an identical row in `val_logits`, compared in float32. Up to 1%
        pass in silence: two classes in half precision coincide by chance.

    Examples
    --------
    >>> check_overlap([[1.0, 0.0], [2.0, 0.0]], [[3.0, 0.0]])
    0
    """
    val, test = as_logits(val_logits, "val_logits"), as_logits(test_logits, "test_logits")
    if val.shape[1] != test.shape[1]:
        raise ValueError(f"test_logits: got {test.shape[1]} classes, expected {val.shape[1]}")
    known = {row.tobytes() for row in val.astype(np.float32)}
    shared = sum(row.tobytes() in known for row in test.astype(np.float32))
    if shared > 0.01 * len(test):
        _warn(f"{shared} of {len(test)} test samples are in the validation set too")
    return shared


# --- maps of the top-label confidence, or of each class -------------------------------------------


@dataclass
class HistogramBinning:
    """Replace the top-label confidence by the accuracy of its bin on held-out data (overconf).

    The paper replaces one number; a row of probabilities is rebuilt around it. The predicted class
    gets the value of the bin, the others share the rest in proportion, flattened just so far that
    none overtakes it. So predictions stay, and the largest probability of a row is the bin's value,
    unless that is below 1/k, where no row could do so and the prediction changes. A bin without
    held-out samples leaves the row as it is.

    Parameters
    ----------
    bins : int
    scheme : {"equal_width", "equal_mass"}
        Bins (lo, hi] of equal width (the paper's), or with equally many held-out samples.

    Attributes
    ----------
    edges_ : array
        Edges between bins.
    values_ : array
        Accuracy of each bin, one more than there are edges; NaN where it had no samples.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    >>> HistogramBinning().fit(logits, labels).predict_proba([[0.0, 3.9]])
    array([[0.25, 0.75]])
    """

    bins: int = 15
    scheme: str = "equal_width"

    def __post_init__(self):
        _check_bins(self.bins)
        if self.scheme not in ("equal_width", "equal_mass"):
            raise ValueError(f"scheme: got {self.scheme!r}, expected 'equal_width' or 'equal_mass'")

    def fit(self, logits: ArrayLike, labels: ArrayLike) -> "HistogramBinning":
        """Fit to held-out logits (n, k) and labels (n,)."""
        logits, labels = _data(logits, labels)
        probs = softmax(logits.astype(np.float64))
        confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
        self.edges_ = np.linspace(0, 1, self.bins + 1)[1:-1]
        if self.scheme == "equal_mass":
            self.edges_ = np.unique(np.quantile(confidence, self.edges_))
        index = np.searchsorted(self.edges_, confidence)
        count = np.bincount(index, minlength=len(self.edges_) + 1)
        hits = np.bincount(index, weights=correct, minlength=len(count))
        self.values_ = np.divide(hits, count, out=np.full(len(count), np.nan), where=count > 0)
        self.classes_ = logits.shape[1]
        return self

    def predict_proba(self, logits: ArrayLike) -> ArrayLike:
        """Probabilities (n, k) for logits (n, k), of the kind given."""
        probs = softmax(_ready(self, logits).astype(np.float64))
        confidence = probs.max(axis=1)
        value = self.values_[np.searchsorted(self.edges_, confidence)]
        known = ~np.isnan(value)
        probs[known] = _with_top(probs[known], value[known])
        return like(probs, logits)


@dataclass
class IsotonicCalibration:
    """Map each class's probability by isotonic regression, one against the rest, then normalise.

    The multi-class standard (Zadrozny and Elkan 2002; scikit-learn). Predictions may change. A
    class that the held-out labels lack keeps its probability, with a `PosthocWarning`.

    Attributes
    ----------
    maps_ : list
        One ``sklearn.isotonic.IsotonicRegression`` for each class, None for a missing class.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 1.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> IsotonicCalibration().fit(logits, labels).predict_proba([[4.0, 0.0]])
    array([[0.75, 0.25]])
    """

    def fit(self, logits: ArrayLike, labels: ArrayLike) -> "IsotonicCalibration":
        """Fit to held-out logits (n, k) and labels (n,)."""
        from sklearn.isotonic import IsotonicRegression

        logits, labels = _data(logits, labels, several=True)
        probs = softmax(logits.astype(np.float64))
        self.maps_ = [None] * logits.shape[1]
        for k in np.unique(labels):
            self.maps_[k] = IsotonicRegression(out_of_bounds="clip").fit(probs[:, k], labels == k)
        _warn_missing(labels, logits.shape[1])
        self.classes_ = logits.shape[1]
        return self

    def predict_proba(self, logits: ArrayLike) -> ArrayLike:
        """Probabilities (n, k) for logits (n, k), of the kind given."""
        probs = softmax(_ready(self, logits).astype(np.float64))
        for k, mapping in enumerate(self.maps_):
            if mapping is not None:
                probs[:, k] = mapping.predict(probs[:, k])
        return like(_normalised(probs), logits)


@dataclass
class BetaCalibration:
    """Map each class's probability by a beta calibration, one against the rest, then normalise.

    logit q = a ln p - b ln(1 - p) + c with a, b >= 0 (Kull et al. 2017), fitted by likelihood. For
    two classes this is the binary method. Predictions may change. A class that the held-out labels
    lack keeps its probability, with a `PosthocWarning`.

    Attributes
    ----------
    parameters_ : array, shape (k, 3)
        a, b and c of each class.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 1.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> BetaCalibration().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    def fit(self, logits: ArrayLike, labels: ArrayLike) -> "BetaCalibration":
        """Fit to held-out logits (n, k) and labels (n,)."""
        logits, labels = _data(logits, labels, several=True)
        probs = softmax(logits.astype(np.float64))
        self.parameters_ = np.tile([1.0, 1.0, 0.0], (logits.shape[1], 1))  # the identity
        for k in np.unique(labels):
            features, target = _beta_features(probs[:, k]), labels == k

            def loss(parameters, features=features, target=target):
                score = features @ parameters
                nll = np.logaddexp(0, score) - target * score
                return nll.mean(), features.T @ (expit(score) - target) / len(target)

            bounds = [(0, None), (0, None), (None, None)]
            self.parameters_[k] = _minimised(loss, self.parameters_[k], bounds)
        _warn_missing(labels, logits.shape[1])
        self.classes_ = logits.shape[1]
        return self

    def predict_proba(self, logits: ArrayLike) -> ArrayLike:
        """Probabilities (n, k) for logits (n, k), of the kind given."""
        probs = softmax(_ready(self, logits).astype(np.float64))
        for k, parameters in enumerate(self.parameters_):
            probs[:, k] = expit(_beta_features(probs[:, k]) @ parameters)
        return like(_normalised(probs), logits)


# --- affine maps of the logits --------------------------------------------------------------------


@dataclass
class VectorScaling:
    """Scale and shift each logit, softmax(w ∘ z + b), by likelihood (Guo et al. 2017).

    Attributes
    ----------
    scale_, bias_ : arrays, shape (k,)

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 4.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> VectorScaling().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    def fit(self, logits: ArrayLike, labels: ArrayLike) -> "VectorScaling":
        """Fit to held-out logits (n, k) and labels (n,)."""
        logits, labels = _data(logits, labels, several=True)
        logits, k = logits.astype(np.float64), logits.shape[1]

        def loss(parameters):
            scale, bias = parameters[:k], parameters[k:]
            nll, residual = _nll_and_residual(logits * scale + bias, labels)
            return nll, np.concatenate([(residual * logits).sum(axis=0), residual.sum(axis=0)])

        self.scale_, self.bias_ = np.split(_minimised(loss, np.repeat([1.0, 0.0], k)), 2)
        self.classes_ = k
        return self

    def predict_proba(self, logits: ArrayLike) -> ArrayLike:
        """Probabilities (n, k) for logits (n, k), of the kind given."""
        scaled = _ready(self, logits).astype(np.float64) * self.scale_ + self.bias_
        return like(softmax(scaled), logits)


@dataclass
class MatrixScaling:
    """Map the logits affinely, softmax(W z + b), by likelihood (Guo et al. 2017).

    It has k² + k parameters and overfits small held-out sets: use `l2`.

    Parameters
    ----------
    l2 : float
        Adds l2 (‖W - 1‖² + ‖b‖²) to the mean NLL, which pulls towards leaving the logits alone.

    Attributes
    ----------
    matrix_ : array, shape (k, k)
    bias_ : array, shape (k,)

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 4.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> MatrixScaling().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    l2: float = 0.0

    def __post_init__(self):
        if not 0 <= self.l2 < inf:
            raise ValueError(f"l2: got {self.l2}, expected a finite number >= 0")

    def fit(self, logits: ArrayLike, labels: ArrayLike) -> "MatrixScaling":
        """Fit to held-out logits (n, k) and labels (n,)."""
        logits, labels = _data(logits, labels, several=True)
        logits, k = logits.astype(np.float64), logits.shape[1]
        start = np.append(np.eye(k), np.zeros((1, k)), axis=0)  # W transposed, then b

        def loss(parameters):
            weights = parameters.reshape(k + 1, k)
            nll, residual = _nll_and_residual(logits @ weights[:k] + weights[k], labels)
            gradient = np.append(logits.T @ residual, residual.sum(axis=0, keepdims=True), axis=0)
            change = weights - start
            return (
                nll + self.l2 * (change**2).sum(),
                (gradient + 2 * self.l2 * change).ravel(),
            )

        found = _minimised(loss, start.ravel()).reshape(k + 1, k)
        self.matrix_, self.bias_, self.classes_ = found[:k].T, found[k], k
        return self

    def predict_proba(self, logits: ArrayLike) -> ArrayLike:
        """Probabilities (n, k) for logits (n, k), of the kind given."""
        mapped = _ready(self, logits).astype(np.float64) @ self.matrix_.T + self.bias_
        return like(softmax(mapped), logits)


# --- inside ---------------------------------------------------------------------------------------


def _data(logits: ArrayLike, labels: ArrayLike, several: bool = False) -> tuple[Array, Array]:
    logits = as_logits(logits)
    labels = as_labels(labels, k=logits.shape[1], n=len(logits))
    if several and labels.min() == labels.max():
        raise ValueError(f"labels: got class {labels[0]} only, expected at least two classes")
    return logits, labels


def _ready(model, logits: ArrayLike) -> Array:
    if not hasattr(model, "classes_"):
        raise ValueError(f"{type(model).__name__}: not fitted, expected a call of fit before")
    logits = as_logits(logits)
    if logits.shape[1] != model.classes_:
        raise ValueError(
            f"logits: got {logits.shape[1]} classes, expected {model.classes_} as in fit"
        )
    return logits


def _warn(message: str) -> None:
    warnings.warn(message, PosthocWarning, stacklevel=3)


def _warn_missing(labels: Array, k: int) -> None:
    missing = k - len(np.unique(labels))
    if missing:
        _warn(f"{missing} of {k} classes have no held-out sample; their probabilities stay")


def _check_bins(bins: int) -> None:
    if not isinstance(bins, int | np.integer) or bins < 1:
        raise ValueError(f"bins: got {bins!r}, expected an integer >= 1")


def _checked_grid(grid: Sequence[float]) -> Array:
    array = np.unique(np.asarray(grid, dtype=np.float64))  # sorted
    if array.size == 0 or not (array[0] > 0 and array[-1] < inf):
        raise ValueError(f"grid: got {grid!r}, expected positive numbers")
    return array


def _shifted(logits: Array) -> Array:
    """Logits less the largest of their row, classes first: sums over classes run along memory."""
    return np.ascontiguousarray((logits - logits.max(axis=1, keepdims=True)).T)


def _ece_at(logits: Array, labels: Array, bins: int = 15) -> Callable[[float], tuple[float, float]]:
    """T -> (ECE, mean confidence - accuracy)."""
    _check_bins(bins)
    shifted = _shifted(logits)
    k, n = shifted.shape
    correct = (logits.argmax(axis=1) == labels).astype(np.float64)
    edges = np.linspace(0, 1, bins + 1).astype(logits.dtype)[1:-1]

    def at(temperature: float) -> tuple[float, float]:
        confidence = np.empty(n, dtype=logits.dtype)
        for rows in blocks(n, k):
            confidence[rows] = 1 / np.exp(shifted[:, rows] / float(temperature)).sum(axis=0)
        index = np.searchsorted(edges, confidence)
        gaps = np.bincount(index, weights=confidence - correct, minlength=bins) / n
        return float(np.abs(gaps).sum()), float(gaps.sum())

    return at


def _lowest_ece(ece: Callable[[float], tuple[float, float]], grid: Array) -> tuple[float, float]:
    """The best temperature of a sorted grid and its ECE; see `optimal_temperature` for why."""
    start = bisect_left(grid, 0.0, key=lambda temperature: -ece(temperature)[1])
    best = (inf, inf)
    for side in (grid[start:], grid[:start][::-1]):
        for temperature in side:
            value, gap = ece(temperature)
            best = min(best, (value, float(temperature)))
            if abs(gap) > best[0] + 1e-6:  # room for rounding in float32
                break
    return best[1], best[0]


def _nll_at(logits: Array, labels: Array) -> Callable[[float], tuple[float, float]]:
    """T -> (mean NLL, its slope in 1/T)."""
    shifted = _shifted(logits.astype(np.float64, copy=False))
    k, n = shifted.shape
    true = shifted[labels, np.arange(n)].sum()

    def at(temperature: float) -> tuple[float, float]:
        value, slope = -true / temperature, -true
        for rows in blocks(n, k):
            weight = np.exp(shifted[:, rows] / temperature)
            total = weight.sum(axis=0)
            value += np.log(total).sum()
            slope += (np.einsum("kn,kn->n", weight, shifted[:, rows]) / total).sum()
        return float(value / n), float(slope / n)

    return at


def _root(slope: Callable[[float], float]) -> float:
    """Temperature in `RANGE` where the slope of the NLL in 1/T, which falls with T, is zero."""
    low, high = RANGE
    if slope(1.0) == 0:  # nothing to gain: equal logits, or all right and saturated
        return 1.0
    if slope(low) <= 0:
        return low
    if slope(high) >= 0:
        return high
    # As an argument: SciPy leaves a cycle around the function, and what that holds would live on.
    ends = log(low), log(high)
    return exp(brentq(lambda x, slope: slope(exp(x)), *ends, args=(slope,), xtol=1e-10))


def _with_top(probs: Array, confidence: Array) -> Array:
    """Rows whose top class has `confidence` and stays on top where it can (`HistogramBinning`)."""
    n, k = probs.shape
    top = np.arange(n), probs.argmax(axis=1)
    # Zeros share evenly where there is nothing else.
    others = np.maximum(probs, np.finfo(probs.dtype).tiny)
    others[top] = 0
    others /= others.sum(axis=1, keepdims=True)
    # Mix them with the uniform row until the largest is just below the confidence.
    confidence = confidence[:, np.newaxis]
    largest = others.max(axis=1, keepdims=True)
    limit = (1 - 1e-6) * confidence / np.maximum(1 - confidence, 1e-12)
    mix = np.clip((largest - limit) / np.maximum(largest - 1 / (k - 1), 1e-12), 0, 1)
    rows = (1 - confidence) * ((1 - mix) * others + mix / (k - 1))
    rows[top] = confidence[:, 0]
    return rows


def _normalised(rows: Array) -> Array:
    """Rows that sum to 1; uniform where all are 0, as scikit-learn does."""
    total = rows.sum(axis=1, keepdims=True)
    return np.divide(rows, total, out=np.full_like(rows, 1 / rows.shape[1]), where=total > 0)


def _beta_features(probs: Array) -> Array:
    eps = np.finfo(np.float64).eps
    probs = np.clip(probs, eps, 1 - eps)
    return np.column_stack([np.log(probs), -np.log1p(-probs), np.ones_like(probs)])


def _nll_and_residual(scores: Array, labels: Array) -> tuple[float, Array]:
    """Mean NLL of softmax(scores), and its gradient in the scores."""
    rows = np.arange(len(labels))
    scores = scores - scores.max(axis=1, keepdims=True)
    weight = np.exp(scores)
    total = weight.sum(axis=1, keepdims=True)
    nll = (np.log(total[:, 0]) - scores[rows, labels]).mean()
    weight /= total
    weight[rows, labels] -= 1
    return nll, weight / len(labels)


def _minimised(loss: Callable, start: Array, bounds: Sequence | None = None) -> Array:
    """L-BFGS with analytic gradients; warns if it stops before it is done."""
    options = {"maxiter": 2000, "maxfun": 10_000, "ftol": 1e-14, "gtol": 1e-8}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if found.status == 1:
        _warn(f"no convergence in {found.nit} iterations: the held-out data may be separable")
    return found.x
