"""Post-hoc calibration: methods fitted to held-out logits that leave the network as it is.

Every method is a `Recalibration`: ``fit(logits, labels)``, then ``predict_proba(logits)``. Fit it
to data used neither to train the network nor to measure the result; `check_overlap` finds the most
common mistake. NumPy arrays and torch tensors are accepted; probabilities are returned in the type
given.

The temperature that minimises the ECE on a grid is found exactly, at a small fraction of the cost
of a full search: see `optimal_temperature`. The other fits are smooth convex problems, solved with
analytic gradients, or have a closed form.

A fitted method is written to a small JSON file by `Recalibration.save` and read back by `load`.
`calibkit.estimators.CalibratedModel` puts one behind a scikit-learn classifier.

The papers: Guo et al., ICML 2017 (temperature, vector and matrix scaling); Kull et al., AISTATS
2017; Zadrozny and Elkan, ICML 2001 and KDD 2002; Singh et al. 2021 ("On the Dark Side of
Calibration"); Wang et al., NeurIPS 2021 ("Do Not Be Afraid of Overconfidence"); Wang et al., CVPR
2023 ("On the Pitfall of Mixup"); Lin et al., CVPR 2025 ("Uncertainty Weighted Gradients"); Berta et
al., AISTATS 2026 ("Structured Matrix Scaling"); Le Coz et al., NeurIPS 2024 ("Confidence
Calibration of Classifiers with Many Classes").
"""

import os
import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from math import exp, inf, log
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit

from calibkit import files, map_files, precision
from calibkit.arrays import (
    Array,
    ArrayLike,
    ArrayOrTensor,
    Kind,
    are_log_probs,
    as_labels,
    as_logits,
    as_probs,
    as_weights,
    blocks,
    check_bins,
    like,
    plain,
    row_sums,
    softmax,
    to_numpy,
)
from calibkit.precision import Floor, as_floor

# The grid of Wang et al. 2021 and of the code of Lin et al. 2025, whose text has
# np.arange(1, 101) / 10.
GRID = np.arange(1, 1001) / 100
# Where a temperature is sought that minimises the NLL: so many times the size of the scores.
RANGE = (1e-3, 1e3)

Objective: TypeAlias = Literal["nll", "ece"]


class PosthocWarning(UserWarning):
    """A recalibration was fitted, or read, but deserves a second look."""


class RaisedErrorWarning(PosthocWarning):
    """The ECE or the NLL of the data that a temperature was fitted to rises."""


class EndOfRangeWarning(PosthocWarning):
    """A fitted number is at the end of its range, or runs towards infinity: it means little."""


@dataclass
class Recalibration:
    """What all methods of this module share: logits in, calibrated probabilities out.

    The options of a method are the arguments of its constructor. To scikit-learn it is a classifier
    of logits, which can be copied and tuned by ``sklearn.base.clone`` and
    ``sklearn.model_selection``.

    Attributes
    ----------
    classes_ : array of int, shape (k,)
        The labels, 0 to k - 1: one for each column of the logits given to `fit`.
    class_names_ : tuple of str, shape (k,)
        The names of the columns, in their order; only of a map that was saved with them.
    floor_ : calibkit.precision.Floor or None
        What a probability of 0 counts as, by the probabilities that the map was fitted to. None if
        it was fitted to logits. `zeros_` says so and why, in a sentence.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])  # 98% sure, 75% right
    >>> for method in (TemperatureScaling(), HistogramBinning()):
    ...     print(method.fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3))
    [[0.75 0.25]]
    [[0.75 0.25]]
    """

    _needs_two_classes = False  # whether a fit needs labels of more than one class
    _kept = {}  # what a fit learns: name of the attribute, less its underscore -> its shape
    _later = {}  # of these, what maps saved by an earlier version lack -> what stands for it
    floor_, zeros_ = None, ""  # what a probability of 0 counts as

    def fit(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        sample_weight: "ArrayLike | None" = None,
        kind: Kind = "logits",
    ) -> Self:
        """Fit to predictions used neither to train the network nor to measure the result.

        Parameters
        ----------
        logits : array or tensor, shape (n, k)
            Scores before the softmax of n held-out samples.
        labels : array or tensor of integers, shape (n,)
            True classes, 0 to k - 1.
        sample_weight : array or tensor, shape (n,), optional
            Weights of the samples, at least 0. A weight of 2 counts as the same row twice, and 0 as
            no row.
        kind : {"logits", "probs"}
            "probs" if `logits` are probabilities, which are refused otherwise. What one of 0 counts
            as is found from all of them (`calibkit.precision`), and kept for new ones as `floor_`.

        Returns
        -------
        Recalibration
            The object itself.

        Raises
        ------
        ValueError
            If an argument is empty, malformed or not finite, a label is out of range, a weight is
            negative, all are 0, or all labels are of one class but the method has to distinguish
            classes.

        Warns
        -----
        PosthocWarning
            If the result deserves a second look; the message says why.

        Examples
        --------
        >>> TemperatureScaling().fit([[4.0, 0.0]] * 4, [0, 0, 0, 1]).predict_proba([[4.0, 0.0]])
        array([[0.75, 0.25]])
        """
        floor, zeros = None, ""
        if kind == "probs":  # those of new data may be 0, even if none is here
            dtype = getattr(logits, "dtype", None)
            found = precision.of(as_probs(logits, "logits"), dtype=dtype)
            floor, zeros = found.floor, found.sentence
        logits, labels = _data(logits, labels, kind, floor)
        weights = None
        if sample_weight is not None:
            weights = as_weights(sample_weight, len(labels))
            there = weights > 0
            logits, labels, weights = logits[there], labels[there], weights[there]
        if self._needs_two_classes and labels.min() == labels.max():
            raise ValueError(f"labels: got class {labels[0]} only, expected at least two classes")
        self._fit(logits, labels, weights)
        self.classes_ = np.arange(logits.shape[1])
        self.floor_, self.zeros_ = floor, zeros
        return self

    def predict_proba(self, logits: ArrayLike, kind: Kind = "logits") -> ArrayOrTensor:
        """Calibrated probabilities of predictions.

        Parameters
        ----------
        logits : array, tensor or data frame, shape (n, k)
            Scores before the softmax, with as many classes as in `fit`. The columns of an array
            must be in the order of `class_names_`, where the map has one; those of a data frame are
            put in this order by their names, with or without ``prob_`` or ``logit_`` before them.
        kind : {"logits", "probs"}
            "probs" if `logits` are probabilities. One of 0 counts as `floor_`.

        Returns
        -------
        array or tensor, shape (n, k)
            Probabilities; rows sum to 1. A tensor, on the same device, if the logits are one.

        Raises
        ------
        ValueError
            If the logits are empty, malformed, not finite or of another number of classes, the
            columns of a data frame have other names, or `fit` was not called.

        Examples
        --------
        >>> FixedTemperature(2.0).predict_proba([[2.0, 0.0]]).round(3)
        array([[0.731, 0.269]])
        """
        array = as_logits(self._in_order(logits), kind=kind, floor=self.floor_)
        self._check_fitted(array.shape[1])
        return like(self._probs(array), logits)

    def predict(self, logits: ArrayLike, kind: Kind = "logits") -> ArrayOrTensor:
        """Most probable class of each row, after recalibration.

        Parameters
        ----------
        logits : array or tensor, shape (n, k)
            Scores before the softmax, with as many classes as in `fit`.
        kind : {"logits", "probs"}
            "probs" if `logits` are probabilities. One of 0 counts as `floor_`.

        Returns
        -------
        array or tensor of integers, shape (n,)
            Classes, 0 to k - 1.

        Raises
        ------
        ValueError
            As `predict_proba`.

        Examples
        --------
        >>> FixedTemperature(2.0).predict([[2.0, 0.0], [1.0, 3.0]])
        array([0, 1])
        """
        return like(to_numpy(self.predict_proba(logits, kind)).argmax(axis=1), logits)

    def score(self, logits: ArrayLike, labels: ArrayLike, kind: Kind = "logits") -> float:
        """Accuracy, the default score of scikit-learn's classifiers.

        It says nothing about calibration and is the same for every temperature: to choose between
        maps or options, pass ``scoring="neg_log_loss"`` or ``"neg_brier_score"``.

        Parameters
        ----------
        logits : array or tensor, shape (n, k)
            Scores before the softmax, with as many classes as in `fit`.
        labels : array or tensor of integers, shape (n,)
            True classes, 0 to k - 1.
        kind : {"logits", "probs"}
            "probs" if `logits` are probabilities. One of 0 counts as `floor_`.

        Returns
        -------
        float
            Share of samples whose most probable class is the true one.

        Raises
        ------
        ValueError
            As `fit` and `predict_proba`.

        Examples
        --------
        >>> FixedTemperature(2.0).score([[2.0, 0.0], [1.0, 3.0]], [0, 0])
        0.5
        """
        array, labels = _data(self._in_order(logits), labels, kind, self.floor_)
        return float((self.predict(array) == labels).mean())

    def save(self, path: str | os.PathLike, **about: Any) -> None:
        """Write what was fitted to a JSON file, which `load` reads back to the same probabilities.

        The file ends with a seal, by which `load` knows whether it was edited.

        Parameters
        ----------
        path : path
            Replaced as a whole if it exists.
        **about
            What else the file shall say, as JSON knows it, such as ``class_names``; `load` gives it
            back as `about_`.

        Raises
        ------
        ValueError
            If `fit` was not called, or a name in `about` is one that the file has already.
        OSError
            If the file cannot be written; one that was there is left as it was.

        Examples
        --------
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "map.json")
        >>> FixedTemperature(2.0).save(file)
        >>> print(file.read_text())
        {
         "calibkit_map": 2,
         "map": "fixed",
         "options": {"temperature": 2.0},
         "classes": null,
         "fitted": {"temperature": 2.0},
         "seal": "c600631f5b171aa123e895df7ae32eab4134a06834a9eca7d52082184437bacc"
        }
        <BLANKLINE>
        """
        if not hasattr(self, "classes_"):
            self._check_fitted(0)
        options = {name: plain(value) for name, value in self.get_params().items()}
        kept = {
            "calibkit_map": map_files.VERSION,
            "map": next(name for name, kind in MAPS.items() if kind is type(self)),
            "options": options,
            "classes": len(self.classes_) if hasattr(self, "classes_") else None,
            "fitted": {name: plain(getattr(self, f"{name}_")) for name in self._kept},
        }
        if self.floor_ is not None:
            about = {"floor": list(map(plain, self.floor_)), "zeros": self.zeros_} | about
        files.publish({path: map_files.content_of(kept, about)})

    def _restore(self, name: str, value: Any, k: int) -> Any:
        """A fitted attribute from what the file says; any error means that it is damaged."""
        sizes = {"k": k, "m": np.size(value)}
        array = np.array(value, dtype=np.float64)  # null is NaN
        shape = tuple(sizes.get(size, size) for size in self._kept[name])
        if array.shape != shape or np.isinf(array).any():
            raise ValueError(f"{name}: got shape {array.shape}, expected {shape}")
        if np.isnan(array).any() and (type(self), name) != (HistogramBinning, "values"):
            raise ValueError(f"{name}: got null, expected numbers")
        if name == "temperature" and array <= 0:
            raise ValueError(f"temperature: got {array}, expected a positive number")
        return array if shape else float(array)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Options by name, as scikit-learn expects them.

        Parameters
        ----------
        deep : bool
            No effect: no option has options of its own.

        Returns
        -------
        dict
            Name of each constructor argument -> its value.

        Examples
        --------
        >>> MatrixScaling(l2=0.1).get_params()
        {'l2': 0.1}
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params) -> Self:
        """Change options, as scikit-learn does in a search; what was fitted is kept.

        Parameters
        ----------
        **params
            Constructor arguments by name.

        Returns
        -------
        Recalibration
            The object itself.

        Raises
        ------
        ValueError
            If there is no such option, or the constructor rejects its value.

        Examples
        --------
        >>> MatrixScaling().set_params(l2=0.1)
        MatrixScaling(l2=0.1)
        """
        known = self.get_params()
        if unknown := [name for name in params if name not in known]:
            what = f"no option of {type(self).__name__}, which has {', '.join(known) or 'none'}"
            raise ValueError(f"{unknown[0]}: {what}")
        replace(self, **params)  # refused before anything has changed
        vars(self).update(params)
        return self

    def __sklearn_tags__(self):
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        target = TargetTags(required=True)
        return Tags("classifier", target_tags=target, classifier_tags=ClassifierTags())

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        raise NotImplementedError

    def _probs(self, logits: Array) -> Array:
        raise NotImplementedError

    def _in_order(self, logits: ArrayLike) -> ArrayLike:
        """The columns of a data frame in the order of `class_names_`."""
        names = getattr(self, "class_names_", None)
        if names is None or not hasattr(logits, "columns"):
            return logits
        given = [str(name) for name in logits.columns]
        for prefix in ("", "prob_", "logit_"):
            if sorted(given) == sorted(prefix + name for name in names):
                places = [given.index(prefix + name) for name in names]
                return np.asarray(logits)[:, places]
        odd = [name for name in given if name not in names] or given
        raise ValueError(
            f"logits: got columns {', '.join(map(repr, odd[:5]))}, expected those of the map: "
            f"{', '.join(map(repr, names[:20]))}"
        )

    def _check_fitted(self, k: int) -> None:
        if not hasattr(self, "classes_"):
            raise ValueError(f"{type(self).__name__}: not fitted, expected a call of fit before")
        if k != len(self.classes_):
            raise ValueError(f"logits: got {k} classes, expected {len(self.classes_)} as in fit")


# --- temperature ----------------------------------------------------------------------------------


def optimal_temperature(
    logits: ArrayLike,
    labels: ArrayLike,
    objective: Objective = "nll",
    bins: int = 15,
    kind: Kind = "logits",
) -> tuple[float, float]:
    """Temperature T that minimises the NLL or the ECE of softmax(logits / T), and that minimum.

    The NLL (Guo et al. 2017) is convex in 1/T: T is where its slope is zero, from 0.001 to 1000
    times the size of the scores, which is the median distance between the two largest of a row.

    The ECE is neither smooth nor unimodal in T, so it is searched on a grid, 0.01, 0.02, ..., 10,
    as in Wang et al. 2021 and 2023 and Lin et al. 2025. The result is that of the full grid (the
    smallest T if several tie), but most of it is never visited: the ECE is at least ``|mean
    confidence - accuracy|`` and each confidence falls as T rises, so the search can start where
    that gap closes and stop on either side once the gap alone exceeds the best ECE.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    objective : {"nll", "ece"}
        What T minimises; the default is the same in `TemperatureScaling`.
    bins : int
        Bins of the ECE: equal width, (lo, hi], of the top-label confidence. Unused for the NLL.
    kind : {"logits", "probs"}
        "probs" if `logits` are probabilities, which are refused otherwise.

    Returns
    -------
    temperature : float
        Above 1 for an overconfident model.
    value : float
        The minimum: nats for the NLL, a fraction in [0, 1] for the ECE.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, the objective is
        unknown, or `bins` is below 1.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])  # 98% sure, 75% right
    >>> temperature, nll = optimal_temperature(logits, labels)
    >>> round(4 / temperature, 3)  # the logit of 0.75
    1.099
    >>> optimal_temperature(logits, labels, "ece")[0]
    3.64
    """
    scaled, best = _best_temperature(*_data(logits, labels, kind), objective, bins)
    return best, (scaled.ece if objective == "ece" else scaled.nll)(best)[0]


@dataclass
class TemperatureScaling(Recalibration):
    """Divide the logits by one number fitted to held-out data, softmax(z / T) (Guo et al. 2017).

    Predictions do not change, since the order of the logits does not. `fit` warns
    (`PosthocWarning`) if the temperature is at an end of its range, or if the ECE or the NLL of the
    data it was fitted to is worse than at T = 1 by more than 0.01.

    Parameters
    ----------
    objective : {"nll", "ece"}
        What the temperature minimises: the NLL, as is usual, or the ECE, as in Wang et al. 2021 and
        2023 and Lin et al. 2025.

    Attributes
    ----------
    temperature_ : float
        Above 1 for an overconfident model.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    >>> TemperatureScaling().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    objective: Objective = "nll"
    _kept = {"temperature": ()}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        scaled, best = _best_temperature(logits, labels, self.objective, weights=weights)
        self.temperature_ = best
        if best in (_range(logits, weights) if self.objective == "nll" else (GRID[0], GRID[-1])):
            wrong = int((logits.argmax(axis=1) != labels).sum())
            _warn(
                f"temperature {best:g} is an end of the range searched; "
                f"{wrong} of {len(labels)} held-out answers are wrong",
                kind=EndOfRangeWarning,
            )
        errors = [("ECE", scaled.ece), ("NLL", scaled.nll)]
        for name, at in errors[: 1 if self.objective == "nll" else 2]:  # the lowest NLL is no worse
            before, after = at(1.0)[0], at(best)[0]
            if after > before + 0.01:
                _warn(
                    f"temperature {best:g} raises the {name} of the data it was fitted on "
                    f"from {before:.4f} to {after:.4f}",
                    kind=RaisedErrorWarning,
                )

    def _probs(self, logits: Array) -> Array:
        return _probs64(logits, self.temperature_)


@dataclass
class FixedTemperature(Recalibration):
    """Divide the logits by a temperature chosen beforehand, softmax(z / T) (Singh et al. 2021).

    `fit` checks the data and learns nothing; `predict_proba` works without it.

    Parameters
    ----------
    temperature : float
        Positive. The paper uses 1.5 on CIFAR and 1.1 on ImageNet.

    Examples
    --------
    >>> FixedTemperature(2.0).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.731, 0.269]])
    """

    temperature: float
    _kept = {"temperature": ()}

    def __post_init__(self):
        if not 0 < self.temperature < inf:
            raise ValueError(f"temperature: got {self.temperature}, expected a positive number")

    @property
    def temperature_(self) -> float:
        """The temperature in use, under the same name as in `TemperatureScaling`."""
        return self.temperature

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        pass

    def _check_fitted(self, k: int) -> None:
        pass

    def _probs(self, logits: Array) -> Array:
        return _probs64(logits, self.temperature)


def calibratability(
    val_logits: ArrayLike,
    val_labels: ArrayLike,
    test_logits: ArrayLike,
    test_labels: ArrayLike,
    bins: int = 15,
) -> dict[str, float]:
    """How well one temperature can calibrate a model: three ECEs of the test set.

    Wang et al. 2021 compare them between training methods: a model with a higher ECE before scaling
    may have the lower one after. Both temperatures minimise the ECE on the grid 0.01, 0.02, ...,
    10.

    Parameters
    ----------
    val_logits : array or tensor, shape (m, k)
        Scores before the softmax of the samples that choose the temperature.
    val_labels : array or tensor of integers, shape (m,)
        Their true classes, 0 to k - 1.
    test_logits : array or tensor, shape (n, k)
        Scores before the softmax of the samples that measure it.
    test_labels : array or tensor of integers, shape (n,)
        Their true classes, 0 to k - 1.
    bins : int
        Bins of every ECE here: equal width, (lo, hi], of the top-label confidence.

    Returns
    -------
    dict
        ``before``: ECE without a temperature; ``after``: with the temperature of lowest validation
        ECE, ``temperature``; ``optimal``: with that of lowest test ECE, ``optimal_temperature``, a
        bound that no temperature on the grid can beat. ECEs are fractions in [0, 1].

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, the numbers of
        classes differ, or `bins` is below 1.

    Warns
    -----
    PosthocWarning
        If validation and test sets share samples, or a temperature is at an end of the grid.

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
    temperature, _ = optimal_temperature(val_logits, val_labels, "ece", bins=bins)
    best, optimal = optimal_temperature(test_logits, test_labels, "ece", bins=bins)
    for name, value in (("validation", temperature), ("test", best)):
        if value in (GRID[0], GRID[-1]):
            _warn(f"temperature {value:g} of the {name} set is an end of the range searched", 3)
    test_logits, test_labels = _data(test_logits, test_labels)
    scaled = _Scaled(test_logits, test_labels, test_logits.dtype, bins)
    return {
        "before": scaled.ece(1.0)[0],
        "after": scaled.ece(temperature)[0],
        "optimal": optimal,
        "temperature": temperature,
        "optimal_temperature": best,
    }


def check_overlap(val_logits: ArrayLike, test_logits: ArrayLike) -> int:
    """Count the test samples that are also validation samples, and warn if they are more than 1%.

    A temperature fitted to the test set proves nothing. This happens when a data set has no
    labelled test split and both loaders read the validation split (Tiny-ImageNet in the code of Lin
    et al. 2025).

    Parameters
    ----------
    val_logits : array or tensor, shape (m, k)
        Scores before the softmax of the validation samples.
    test_logits : array or tensor, shape (n, k)
        Scores before the softmax of the test samples.

    Returns
    -------
    int
        Rows of `test_logits` with an identical row in `val_logits`, compared in float32. Up to 1%
        give no warning: with two classes in half precision, rows coincide by chance.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the numbers of classes differ.

    Warns
    -----
    PosthocWarning
        If more than 1% of the test samples are validation samples.

    Examples
    --------
    >>> check_overlap([[1.0, 0.0], [2.0, 0.0]], [[3.0, 0.0]])
    0
    """
    val, test = as_logits(val_logits, "val_logits"), as_logits(test_logits, "test_logits")
    if val.shape[1] != test.shape[1]:
        raise ValueError(f"test_logits: got {test.shape[1]} classes, expected {val.shape[1]}")
    val_rows = {row.tobytes() for row in val.astype(np.float32)}
    shared = sum(row.tobytes() in val_rows for row in test.astype(np.float32))
    if shared > 0.01 * len(test):
        _warn(f"{shared} of {len(test)} test samples are in the validation set too", 3)
    return shared


# --- the top-label confidence, or each class by itself --------------------------------------------


@dataclass
class HistogramBinning(Recalibration):
    """Replace the top-label confidence by the accuracy of its bin on held-out data.

    The method of Zadrozny and Elkan 2001 as Wang et al. 2021 use it. It replaces one number, and
    the row of probabilities is rebuilt around it: the predicted class gets the value of the bin,
    and the others share the rest in proportion, flattened just enough that none overtakes it.
    Predictions therefore stay, and the largest probability of a row is the bin's value, unless that
    is below 1/k: it cannot be the largest of a row then, and the prediction changes. A bin without
    held-out samples leaves the row as it is.

    Parameters
    ----------
    bins : int
        Number of bins.
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
    scheme: Literal["equal_width", "equal_mass"] = "equal_width"
    _kept = {"edges": ("m",), "values": ("m",)}

    def __post_init__(self):
        check_bins(self.bins)
        if self.scheme not in ("equal_width", "equal_mass"):
            raise ValueError(f"scheme: got {self.scheme!r}, expected 'equal_width' or 'equal_mass'")

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        probs = _probs64(logits)
        confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
        self.edges_ = np.linspace(0, 1, self.bins + 1)[1:-1]
        if self.scheme == "equal_mass":
            self.edges_ = np.unique(_quantiles(confidence, self.edges_, weights))
        index = np.searchsorted(self.edges_, confidence)
        count = np.bincount(index, weights, minlength=len(self.edges_) + 1)
        hits = correct if weights is None else correct * weights
        hits = np.bincount(index, weights=hits, minlength=len(count))
        self.values_ = np.divide(hits, count, out=np.full(len(count), np.nan), where=count > 0)

    def _probs(self, logits: Array) -> Array:
        probs = _probs64(logits)
        confidence = probs.max(axis=1)
        value = self.values_[np.searchsorted(self.edges_, confidence)]
        filled = ~np.isnan(value)
        probs[filled] = _with_top(probs[filled], value[filled])
        return probs

    def _restore(self, name: str, value: Any, k: int) -> Any:
        array = super()._restore(name, value, k)
        if name == "values" and len(array) != len(self.edges_) + 1:
            raise ValueError(f"values: got {len(array)}, expected one more than edges")
        return array


_FLOOR = 1e-200  # of probabilities; below, the slope between two can be infinite


@dataclass
class IsotonicCalibration(Recalibration):
    """Isotonic regression of each class against the rest, then normalised.

    The probability of a class is replaced by a non-decreasing function of it, fitted by least
    squares to whether the class is the true one (Zadrozny and Elkan 2002). The function is linear
    in the log-odds between the fitted points, which large scores do not saturate. Logits are first
    divided by their temperature of lowest NLL, so that another scale of them changes nothing;
    probabilities (rows of logarithms whose exponentials sum to 1) are taken as they are.
    Predictions may change. A class missing from the held-out labels keeps its probability, with a
    `PosthocWarning`.

    Attributes
    ----------
    points_ : list
        For each class the corners of the function: log-odds, ascending, and the probability that
        each becomes; None for a missing class.
    temperature_ : float or None
        What the logits are divided by, 1 for probabilities. None in a map that a version before 0.2
        saved: the corners are then probabilities in place of log-odds.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 1.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> IsotonicCalibration().fit(logits, labels).predict_proba([[4.0, 0.0]])
    array([[0.75, 0.25]])
    """

    _needs_two_classes = True
    _kept = {"points": (), "temperature": ()}
    _later = {"temperature": None}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        self.temperature_ = _own_temperature(logits, labels, weights)
        odds = _log_odds(logits.astype(np.float64) / self.temperature_)
        digits = 9 if logits.dtype == np.float64 else 5
        self.points_, order = [None] * len(odds), None
        for k in np.flatnonzero(np.bincount(labels)):
            # Of two classes, one falls as the other rises.
            reuse = len(odds) == 2 and order is not None
            order = order[::-1] if reuse else _ascending(odds[k])
            x, ordered = odds[k, order], None if weights is None else weights[order]
            # Equal probabilities differ in the last digits where the other classes differ.
            self.points_[k] = _isotonic(x, (labels == k)[order], ordered, x.round(digits))
        _warn_missing(labels, logits.shape[1])

    def _probs(self, logits: Array) -> Array:
        earlier, temperature = self.temperature_ is None, self.temperature_ or 1.0
        probs = places = _class_probs(logits, temperature)
        if not earlier:
            places = _log_odds(logits.astype(np.float64) / temperature)
        # Of two classes one falls as the other rises: np.interp is fast on what nearly does either.
        order = _coarse_order(places[0]) if len(places) == 2 else slice(None)
        for k, points in enumerate(self.points_):
            if points is not None:
                probs[k, order] = np.interp(places[k, order], *points)
        return _normalised(probs)

    def _restore(self, name: str, value: Any, k: int) -> Any:
        if name != "points":
            return super()._restore(name, value, k)
        if len(value) != k:
            raise ValueError(f"{name}: got {len(value)} classes, expected {k}")
        points = [pair if pair is None else np.array(pair, dtype=np.float64) for pair in value]
        for pair in points:
            if pair is not None and not (
                pair.ndim == 2 and len(pair) == 2 and pair.size and (np.diff(pair) >= 0).all()
            ):
                raise ValueError(f"{name}: got points in no order, expected ascending ones")
        return [pair if pair is None else tuple(pair) for pair in points]


@dataclass
class BetaCalibration(Recalibration):
    """Beta calibration of each class against the rest, then normalised (Kull et al. 2017).

    The probability p of a class becomes q with logit q = a ln p - b ln(1 - p) + c and a, b >= 0,
    fitted by likelihood. For two classes this is the binary method. Logits are first divided by
    their temperature of lowest NLL, so that another scale of them changes nothing; probabilities
    (rows of logarithms whose exponentials sum to 1) are taken as they are, as published.
    Predictions may change. A class missing from the held-out labels keeps its probability, with a
    `PosthocWarning`.

    Attributes
    ----------
    parameters_ : array, shape (k, 3)
        a, b and c of each class.
    temperature_ : float
        What the logits are divided by; 1 for probabilities.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 1.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> BetaCalibration().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    _needs_two_classes = True
    _kept = {"parameters": ("k", 3), "temperature": ()}
    _later = {"temperature": 1.0}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        self.temperature_ = _own_temperature(logits, labels, weights)
        probs = _class_probs(logits, self.temperature_)
        self.parameters_ = np.tile(_IDENTITY, (len(probs), 1))
        for k in np.flatnonzero(np.bincount(labels)):
            # Of two classes, the second has the parameters of the first mirrored, but for rounding.
            start = self.parameters_[0, [1, 0, 2]] * [1, 1, -1] if len(probs) == 2 else _IDENTITY
            self.parameters_[k] = _beta(probs[k], labels == k, weights, start)
        _warn_missing(labels, logits.shape[1])

    def _probs(self, logits: Array) -> Array:
        probs = _class_probs(logits, self.temperature_)
        for own, parameters in zip(probs, self.parameters_, strict=True):
            own[:] = expit(parameters @ _beta_features(own))
        return _normalised(probs)


@dataclass
class TopVersusAll(Recalibration):
    """Beta calibration of the top-label confidence: right against wrong (Le Coz et al. 2024).

    Of many classes, each has few held-out samples, but the top label has all of them: three
    numbers fitted by likelihood, as in `BetaCalibration` (logits are first divided by their
    temperature there, and here), to whether the prediction is right. The other classes share the
    rest as in `HistogramBinning`, so that predictions stay unless the confidence falls below 1/k.

    Attributes
    ----------
    parameters_ : array, shape (3,)
        a, b and c: the confidence p becomes q with logit q = a ln p - b ln(1 - p) + c.
    temperature_ : float
        What the logits are divided by; 1 for probabilities.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0, 0.0]] * 4), np.array([0, 0, 0, 1])  # 96% sure
    >>> TopVersusAll().fit(logits, labels).predict_proba([[4.0, 0.0, 0.0]]).round(3)
    array([[0.75 , 0.125, 0.125]])
    """

    _kept = {"parameters": (3,), "temperature": ()}
    _later = {"temperature": 1.0}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        self.temperature_ = _own_temperature(logits, labels, weights)
        probs = _probs64(logits, self.temperature_)
        right = probs.argmax(axis=1) == labels
        self.parameters_ = _beta(probs.max(axis=1), right, weights)

    def _probs(self, logits: Array) -> Array:
        probs = _probs64(logits, self.temperature_)
        return _with_top(probs, expit(self.parameters_ @ _beta_features(probs.max(axis=1))))


# --- affine functions of the logits ---------------------------------------------------------------


@dataclass
class VectorScaling(Recalibration):
    """Scale and shift each logit, softmax(w ∘ z + b), fitted by likelihood (Guo et al. 2017).

    Predictions may change.

    Attributes
    ----------
    scale_ : array, shape (k,)
        The factors w.
    bias_ : array, shape (k,)
        The shifts b.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 4.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> VectorScaling().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    _needs_two_classes = True
    _kept = {"scale": ("k",), "bias": ("k",)}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        unit, k = _unit(logits, weights), logits.shape[1]
        logits = logits.astype(np.float64) / unit

        def loss(parameters):
            scale, bias = parameters[:k], parameters[k:]
            nll, residual = _nll_and_residual(logits * scale + bias, labels, weights)
            return nll, np.concatenate([(residual * logits).sum(axis=0), residual.sum(axis=0)])

        scale, self.bias_ = np.split(_minimised(loss, np.repeat([1.0, 0.0], k)), 2)
        self.scale_ = scale / unit

    def _probs(self, logits: Array) -> Array:
        return softmax(logits.astype(np.float64) * self.scale_ + self.bias_, kind=None)


@dataclass
class MatrixScaling(Recalibration):
    """Affine function of the logits, softmax(W z + b), fitted by likelihood (Guo et al. 2017).

    It has k² + k parameters and overfits small held-out sets: use `l2`. Predictions may change.

    Parameters
    ----------
    l2 : float
        Weight, at least 0, of a penalty ‖W - 1‖² + ‖b‖² on the mean NLL, which favours
        leaving the logits alone.

    Attributes
    ----------
    matrix_ : array, shape (k, k)
        The matrix W.
    bias_ : array, shape (k,)
        The shifts b.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 4.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> MatrixScaling().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    l2: float = 0.0
    _needs_two_classes = True
    _kept = {"matrix": ("k", "k"), "bias": ("k",)}

    def __post_init__(self):
        if not 0 <= self.l2 < inf:
            raise ValueError(f"l2: got {self.l2}, expected a finite number >= 0")

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        k = logits.shape[1]
        penalty = np.full((k + 1, k), float(self.l2))
        unit = 1.0 if self.l2 else _unit(logits, weights)  # the penalty is one of W as it is
        scores = logits.astype(np.float64) / unit
        matrix, self.bias_ = _affine(scores, labels, penalty, weights)
        self.matrix_ = matrix / unit

    def _probs(self, logits: Array) -> Array:
        return softmax(logits.astype(np.float64) @ self.matrix_.T + self.bias_, kind=None)


@dataclass
class StructuredScaling(Recalibration):
    """Matrix scaling that leaves a temperature alone where data are few (Berta et al. 2026).

    After a temperature, softmax(x + D x + b), where x is the logarithm of the scaled probabilities,
    mixed with 1 / (n + 1) of the uniform distribution (Laplace's rule, for n held-out samples).
    D and b are fitted by likelihood under ridge penalties that follow from the shape of the data
    alone, so that nothing has to be chosen: k / n for b and the diagonal of D, k (k - 1) / n for
    the rest of D. Of weighted samples, n is the sum of the weights. Predictions may change.

    Parameters
    ----------
    structure : {"matrix", "vector"}
        "vector" keeps D diagonal: 2 k parameters in place of k² + k.

    Attributes
    ----------
    temperature_ : float
        Of lowest NLL, as in `TemperatureScaling`.
    smoothing_ : float
        Weight of the uniform distribution, 1 / (n + 1).
    matrix_ : array, shape (k, k)
        The matrix 1 + D.
    bias_ : array, shape (k,)
        The shifts b.

    Examples
    --------
    >>> logits = np.array([[4.0, 0.0]] * 400 + [[0.0, 4.0]] * 400)
    >>> labels = [0] * 300 + [1] * 100 + [0] * 40 + [1] * 360  # 75% right, and 90% right
    >>> StructuredScaling().fit(logits, labels).predict_proba([[4.0, 0.0], [0.0, 4.0]]).round(2)
    array([[0.75, 0.25],
           [0.1 , 0.9 ]])
    """

    structure: Literal["matrix", "vector"] = "matrix"
    _needs_two_classes = True
    _kept = {"temperature": (), "smoothing": (), "matrix": ("k", "k"), "bias": ("k",)}

    def __post_init__(self):
        if self.structure not in ("matrix", "vector"):
            raise ValueError(f"structure: got {self.structure!r}, expected 'matrix' or 'vector'")

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        scaled, k = _Scaled(logits, labels, weights=weights), logits.shape[1]
        n = scaled.n  # the sum of the weights, where there are any
        self.temperature_ = _lowest_nll(scaled)
        self.smoothing_ = 1 / (n + 1)
        penalty = np.full((k + 1, k), np.inf if self.structure == "vector" else k * (k - 1) / n)
        penalty[np.arange(k), np.arange(k)] = penalty[k] = k / n
        self.matrix_, self.bias_ = _affine(self._scores(logits), labels, penalty, weights)

    def _scores(self, logits: Array) -> Array:
        probs = _probs64(logits.astype(np.float64) / self.temperature_)
        return np.log((1 - self.smoothing_) * probs + self.smoothing_ / probs.shape[1])

    def _probs(self, logits: Array) -> Array:
        return softmax(self._scores(logits) @ self.matrix_.T + self.bias_, kind=None)


# --- files, and models of scikit-learn ------------------------------------------------------------

MAPS: dict[str, type[Recalibration]] = {
    "temperature": TemperatureScaling,
    "fixed": FixedTemperature,
    "structured": StructuredScaling,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "beta": BetaCalibration,
    "top": TopVersusAll,
    "isotonic": IsotonicCalibration,
    "histogram": HistogramBinning,
}  # their names in files and on the command line


MOST = 10_000_000  # classes of a map in a file
_TOO_LARGE = (OverflowError, RecursionError)


def load(path: str | os.PathLike, edited: bool = False) -> Recalibration:
    """Read a map that `Recalibration.save` or ``calibkit recalibrate`` wrote.

    Parameters
    ----------
    path : path
        A JSON file; nothing in it is executed.
    edited : bool
        Accept a file that was edited since it was saved. ``kept.save(path, **kept.about_)`` then
        seals it as it is.

    Returns
    -------
    Recalibration
        Fitted; its `about_` holds the rest of the file: thresholds, and where the map is from. Its
        `class_names_`, if the file names them, say in which order an array must have its columns.

    Raises
    ------
    ValueError
        In one line that names the file: not JSON, not a map, of a later version, edited or damaged.
    OSError
        If the file cannot be read.

    Warns
    -----
    PosthocWarning
        If version 0.1 saved the map, which has no seal: an edit would not be noticed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "map.json")
    >>> FixedTemperature(2.0).save(file, class_names=["cat", "dog"])
    >>> kept = load(file)
    >>> kept, kept.about_
    (FixedTemperature(temperature=2.0), {'class_names': ['cat', 'dog']})
    """
    shown = files.shown(path)
    try:
        kept = map_files.read(Path(path).read_bytes(), edited)
        old = kept.pop("calibkit_map") == 1
        kind = MAPS.get(kept.pop("map"))
        if kind is None:
            raise ValueError(f"map: expected one of {', '.join(MAPS)}")
        options, k, fitted = (kept.pop(name) for name in ("options", "classes", "fitted"))
        model = kind(**options)
        if not (type(k) is int and 2 <= k <= MOST) and (k, kind) != (None, FixedTemperature):
            raise ValueError(f"classes: got {repr(k)[:40]}, expected a whole number from 2 on")
        for name in kind._kept:
            value = fitted.get(name, kind._later[name]) if name in kind._later else fitted[name]
            without = value is None and kind._later.get(name, 0) is None
            vars(model)[f"{name}_"] = None if without else model._restore(name, value, k)
        if not old and (other := {*fitted} ^ {*kind._kept} or {*options} ^ {*model.get_params()}):
            raise ValueError(
                f"{min(other)}: expected the keys that calibkit saves, no more or less"
            )
        model.floor_, model.zeros_ = _floor_of(kept.get("floor")), str(kept.get("zeros") or "")
    except map_files.Edited as error:
        way = f"posthoc.load({shown!r}, edited=True) accepts the edit"
        raise ValueError(f"{shown}: {error}; {way}") from error
    except (ValueError, KeyError, TypeError, AttributeError, *_TOO_LARGE) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{shown}: {' '.join(reason.split())[:200]}") from error
    if old:
        note = "a map of version 0.1, without a seal: an edit would not be noticed; save it again"
        _warn(f"{shown}: {note}", 3)
    if k is not None:
        model.classes_ = np.arange(k)
    model.about_ = kept
    names = kept.get("class_names")
    if isinstance(names, list) and len(names) == (k or len(names)):
        model.class_names_ = tuple(map(str, names))
    return model


# --- inside ---------------------------------------------------------------------------------------


def _data(
    logits: ArrayLike, labels: ArrayLike, kind: Kind = "logits", floor: Floor | None = None
) -> tuple[Array, Array]:
    logits = as_logits(logits, kind=kind, floor=floor)
    return logits, as_labels(labels, k=logits.shape[1], n=len(logits))


def _probs64(logits: Array, temperature: float = 1.0) -> Array:
    """Softmax in double precision of what was checked at the door, and has been scaled since."""
    return softmax(logits.astype(np.float64) / temperature, kind=None)


def _own_temperature(logits: Array, labels: Array, weights: Array | None = None) -> float:
    """What to divide logits by before a map that depends on their scale; 1 for probabilities."""
    return 1.0 if are_log_probs(logits) else _lowest_nll(_Scaled(logits, labels, weights=weights))


def _log_odds(logits: Array) -> Array:
    """Logit of each class less the logarithm of the sum of the others' exponentials, (k, n).

    >>> _log_odds(np.array([[1e5, 0.0], [2.0, 3.0]])).tolist()
    [[100000.0, -1.0], [-100000.0, 1.0]]
    """
    n, k = logits.shape
    if k == 2:
        odds = np.empty((2, n))
        np.subtract(logits[:, 0], logits[:, 1], out=odds[0])
        np.negative(odds[0], out=odds[1])
        return odds
    top = np.arange(n), logits.argmax(axis=1)
    shifted = logits - logits[top][:, np.newaxis]
    weight = np.exp(shifted)
    odds = shifted - np.log(np.maximum(row_sums(weight)[:, np.newaxis] - weight, 1e-300))
    others = shifted
    others[top] = -np.inf
    second = others.max(axis=1)  # the rest may be too small for exp
    odds[top] = -second - np.log(row_sums(np.exp(others - second[:, np.newaxis])))
    return np.ascontiguousarray(odds.T)


def _floor_of(kept: Any) -> Floor | None:
    """What a file says that a probability of 0 counts as; any error means that it is damaged."""
    floor = as_floor(kept)
    if floor is None:
        return None
    if np.shape(floor.each) not in ((), (2,)) or not 0 < np.min(floor.each) <= floor.row < 1:
        raise ValueError(f"floor: got {kept!r}, expected positive numbers")
    return floor


def _warn(message: str, stacklevel: int = 4, kind: type[PosthocWarning] = PosthocWarning) -> None:
    """Warn at the line that called `Recalibration.fit`, which calls what calls this."""
    warnings.warn(message, kind, stacklevel)


def _warn_missing(labels: Array, k: int) -> None:
    missing = k - np.count_nonzero(np.bincount(labels))
    if missing:
        _warn(f"{missing} of {k} classes have no held-out sample; their probabilities stay", 5)


class _Scaled:
    """What softmax(logits / T) says of the labels, at any T; one pass over the array each.

    Holds the logits less the largest of their row, in blocks that stay in the cache, classes first:
    sums over classes run along memory.
    """

    def __init__(
        self,
        logits: Array,
        labels: Array,
        dtype: Any = np.float64,
        bins: int = 15,
        weights: Array | None = None,
    ):
        check_bins(bins)
        self.logits, self.labels, self.bins, self.weights = logits, labels, bins, weights
        self.inner = np.linspace(0, 1, bins + 1).astype(dtype)[1:-1]
        n, k = logits.shape
        self.n = n if weights is None else float(weights.sum())
        self.blocks, self.sums = [], []  # sums: how to add up a number for each row of a block
        for rows in blocks(n, k):
            block = np.ascontiguousarray(logits[rows].T, dtype=dtype)
            block -= block.max(axis=0)
            self.blocks.append(block)
            self.sums.append(np.sum if weights is None else weights[rows].dot)
        true = logits[np.arange(n), labels].astype(np.float64) - logits.max(axis=1)
        self.true = float(true.sum() if weights is None else weights @ true)

    @cached_property
    def correct(self) -> Array:
        return self.logits.argmax(axis=1) == self.labels  # at any temperature

    def ece(self, temperature: float) -> tuple[float, float]:
        """The ECE, and mean confidence - accuracy."""
        confidence = np.concatenate(
            [1 / np.exp(block / float(temperature)).sum(axis=0) for block in self.blocks]
        )
        index = np.searchsorted(self.inner, confidence)
        gaps = confidence - self.correct
        gaps = gaps if self.weights is None else gaps * self.weights
        gaps = np.bincount(index, gaps, minlength=self.bins) / self.n
        return float(np.abs(gaps).sum()), float(gaps.sum())

    def nll(self, temperature: float) -> tuple[float, float, float]:
        """The mean NLL, and its first and second derivative in 1/T."""
        value = slope = curvature = 0.0
        room = np.empty_like(self.blocks[0])
        for block, add in zip(self.blocks, self.sums, strict=True):
            weight = room.ravel()[: block.size].reshape(block.shape)
            np.divide(block, float(temperature), out=weight)
            total = np.exp(weight, out=weight).sum(axis=0)
            first = np.multiply(weight, block, out=weight).sum(axis=0) / total
            second = np.multiply(weight, block, out=weight).sum(axis=0) / total
            value += add(np.log(total))
            slope += add(first)
            curvature += add(second - first**2)
        sums = value - self.true / temperature, slope - self.true, curvature
        return tuple(float(x / self.n) for x in sums)


def _best_temperature(
    logits: Array,
    labels: Array,
    objective: Objective,
    bins: int = 15,
    weights: Array | None = None,
) -> tuple[_Scaled, float]:
    if objective not in ("ece", "nll"):
        raise ValueError(f"objective: got {objective!r}, expected 'nll' or 'ece'")
    if objective == "ece":
        scaled = _Scaled(logits, labels, logits.dtype, bins, weights)
        return scaled, _lowest_ece(scaled.ece)
    scaled = _Scaled(logits, labels, bins=bins, weights=weights)
    return scaled, _lowest_nll(scaled)


def _lowest_ece(ece: Callable[[float], tuple[float, float]]) -> float:
    """Best temperature of `GRID`; see `optimal_temperature` for why."""
    ece = cache(ece)
    start = bisect_left(GRID, 0.0, key=lambda temperature: -ece(temperature)[1])
    best = (inf, inf)
    for side in (GRID[start:], GRID[:start][::-1]):
        for temperature in side:
            value, gap = ece(temperature)
            best = min(best, (value, float(temperature)))
            if abs(gap) > best[0] + 1e-6:  # room for rounding in float32
                break
    return best[1]


MANY = 4_000_000  # numbers (samples x classes) from which a search starts on a part of them


def _lowest_nll(scaled: _Scaled) -> float:
    """Temperature of lowest NLL in `_range`."""
    ends = _range(scaled.logits, scaled.weights)
    step = scaled.logits.size // MANY * 4
    start = min(max(1.0, ends[0] * 10), ends[1] / 10)
    if step > 1:
        start = _root(_Scaled(scaled.logits[::step], scaled.labels[::step]).nll, ends, start)
    return _root(scaled.nll, ends, start)


def _range(logits: Array, weights: Array | None = None) -> tuple[float, float]:
    """`RANGE` times the size of the scores: the median distance between the two largest of a row.

    Of up to about a thousand rows; rows with equal ones say nothing of it.
    """
    size = _size(logits, weights)
    return RANGE[0] * size, RANGE[1] * size


def _size(logits: Array, weights: Array | None = None) -> float:
    rows = slice(None, None, len(logits) // 1000 + 1)
    second, first = np.partition(logits[rows].astype(np.float64), -2, axis=1)[:, -2:].T
    known = first > second
    if not known.any():
        return 1.0
    weights = None if weights is None else weights[rows][known]
    return float(_quantiles((first - second)[known], np.array(0.5), weights))


def _unit(logits: Array, weights: Array | None = None) -> float:
    """What to divide scores by so that an optimiser can handle them; 1 for those of usual size."""
    return 1.0 if 1e-2 < (size := _size(logits, weights)) < 1e2 else size


def _root(
    nll: Callable[[float], tuple[float, float, float]], ends: tuple[float, float], start: float
) -> float:
    """Temperature between `ends` where the slope of the NLL in 1/T is 0: Newton's method in log T.

    The slope falls with T. A step that leaves the bracket, or shrinks it by less than half,
    becomes a bisection.
    """
    (low, high), x, last = np.log(ends), log(start), inf
    lowest, highest = low, high
    while True:
        _, slope, curvature = nll(exp(x))
        if slope == 0 and last == inf:  # nothing to gain: equal logits, or all right and saturated
            return exp(x)
        low, high = (x, high) if slope > 0 else (low, x)
        if low == highest or high == lowest:  # still falling at an end of the range
            return ends[int(low == highest)]
        step = slope * exp(x) / curvature if curvature > 0 else inf if slope > 0 else -inf
        new = x + step
        if abs(step) < 1e-6:  # the error that is left is of the order of its square
            return exp(min(max(new, low), high))
        if not low < new < high:
            end = high if step > 0 else low
            new = end if end in (lowest, highest) else (low + high) / 2
        elif abs(step) > last / 2:
            new = (low + high) / 2
        if new == x or high - low < 1e-12:
            return exp(x)
        x, last = new, abs(new - x)


def _quantiles(values: Array, shares: Array, weights: Array | None) -> Array:
    """Quantiles, linear between values; a whole-number weight is that many equal values.

    >>> _quantiles(np.array([1.0, 4.0]), np.array([0.5, 0.75]), np.array([3.0, 1.0])).tolist()
    [1.0, 1.75]
    """
    if weights is None:
        return np.quantile(values, shares)
    order = np.argsort(values)
    end = np.cumsum(weights[order])
    start = end - weights[order]
    places = np.stack([start, np.maximum(start, end - 1)], axis=1).ravel()
    return np.interp(shares * places[-1], places, np.repeat(values[order], 2))


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


def _class_probs(logits: Array, temperature: float = 1.0) -> Array:
    """`_probs64` by class, (k, n): what is done to each class is faster along memory."""
    if logits.shape[1] > 2:
        return np.ascontiguousarray(_probs64(logits, temperature).T)
    # The same numbers several times faster. Of more classes the sums would differ in the last bit.
    probs = np.array(logits.T, dtype=np.float64, order="C")
    probs /= temperature
    probs -= probs.max(axis=0)
    np.exp(probs, out=probs)
    probs /= probs.sum(axis=0)
    return probs


def _normalised(probs: Array) -> Array:
    """Rows (n, k) that sum to 1, from (k, n); uniform where all are 0, as scikit-learn does."""
    total = probs.sum(axis=0)
    empty = total == 0
    probs[:, empty], total[empty] = 1, len(probs)
    probs /= total
    return np.stack(probs, axis=1)


def _isotonic(x: Array, right: Array, weights: Array | None, rounded: Array) -> tuple[Array, Array]:
    """Corners of the isotonic regression of booleans on `x`, which ascends.

    Samples that are equal in `rounded` are one point.
    """
    new = np.concatenate([[True], rounded[1:] != rounded[:-1], [True]])
    single = new[:-1] & new[1:]
    # A mean that rises begins neither after a single right answer nor with a single wrong one.
    new[1:-1] &= ~(single & right)[:-1] & ~(single & ~right)[1:]
    starts = np.flatnonzero(new)
    if weights is None:
        count = np.diff(starts)
    else:
        count, right = np.add.reduceat(weights, starts[:-1]), right * weights
    share = np.add.reduceat(right, starts[:-1], dtype=np.float64) / count
    found = isotonic_regression(share, weights=count)
    starts = starts[found.blocks]
    ends = np.stack([starts[:-1], starts[1:] - 1], axis=1).ravel()  # of each level stretch
    x, y, rounded = x[ends], np.repeat(found.x[found.blocks[:-1]], 2), rounded[ends]
    kept = np.append(True, rounded[1:] > rounded[:-1])
    return x[kept], y[kept]


def _ascending(values: Array) -> Array:
    """Indices that sort values: a sort is fast on what nearly ascends."""
    order = _coarse_order(values)
    return order[np.argsort(values[order], kind="stable")]


def _coarse_order(values: Array) -> Array:
    """Indices that sort values roughly, the finer the nearer to 0, which takes linear time."""
    return np.argsort((values / (1 + np.abs(values)) * 32767).astype(np.int16), kind="stable")


_IDENTITY = np.array([1.0, 1.0, 0.0])


def _beta_features(probs: Array) -> Array:
    """Rows ln p, -ln(1 - p) and 1, (3, n)."""
    eps = np.finfo(np.float64).eps
    features = np.ones((3, len(probs)))
    np.clip(probs, eps, 1 - eps, out=features[0])
    np.subtract(1, features[0], out=features[1])
    np.log(features[:2], out=features[:2])
    features[1] *= -1
    return features


def _beta(
    probs: Array, target: Array, weights: Array | None = None, start: Array = _IDENTITY
) -> Array:
    """The a, b and c of `BetaCalibration` for the probability of an event."""
    features = _beta_features(probs)
    features *= np.where(target, 1.0, -1.0)  # times the parameters: the logit of what happened
    share = None if weights is None else weights / weights.sum()
    # The NLL is convex. So its minimum under a, b >= 0 is the lowest of the minima without a bound,
    # of all and of some parameters while the others are 0, that keep to the bounds.
    allowed = []
    for free in (slice(None), [1, 2], [0, 2], [2]):
        found = _newton(features[free], start[free], share)
        if found is None:
            return _beta_by_lbfgs(features, share)
        parameters = np.zeros(3)
        nll, parameters[free] = found
        if parameters[:2].min() >= 0:
            allowed.append((nll, parameters))
            if free == slice(None):
                break
    return min(allowed, key=lambda pair: pair[0])[1]


def _newton(
    features: Array, start: Array, share: Array | None = None
) -> tuple[float, Array] | None:
    """The lowest mean of ln(1 + exp(-x @ features)), and where: Newton's method, steps halved.

    The mean is weighted by `share` (n,), which sums to 1; None: every sample counts alike.

    None where there is no such x, since the terms can be made as small as one likes, or more than
    one, and where the method does not settle.
    """
    lowest, x, step = inf, start, np.zeros(len(start))
    scaled = np.empty_like(features)
    for _ in range(50):
        with np.errstate(over="ignore"):
            odds = -(x + step) @ features
            np.exp(odds, out=odds)  # of the wrong answer
        total = 1 + odds
        losses = np.log(total)
        value = float(losses.mean() if share is None else share @ losses)
        if value == inf or value > lowest * (1 + 1e-12):
            step /= 2
            continue
        lowest, x = value, x + step
        wrong = odds / total
        if share is not None:
            wrong *= share
        curvature = np.multiply(features, wrong / total, out=scaled) @ features.T
        step, _, rank, _ = np.linalg.lstsq(curvature, features @ wrong, rcond=1e-13)
        if rank < len(x) or odds.max() < 1:
            return None
        if np.abs(step).max() <= 1e-7 * max(1, np.abs(x).max()):
            return lowest, x + step
    return None


def _beta_by_lbfgs(features: Array, share: Array | None = None) -> Array:
    """As `_beta`, where no single parameters have the lowest NLL: some that nearly reach it."""

    def loss(parameters):
        score = parameters @ features
        losses, wrong = np.logaddexp(0, -score), expit(-score)
        if share is None:
            return losses.mean(), -features @ wrong / len(score)
        return share @ losses, -features @ (share * wrong)

    return _minimised(loss, _IDENTITY, [(0, None), (0, None), (None, None)])


def _affine(
    scores: Array, labels: Array, penalty: Array, weights: Array | None = None
) -> tuple[Array, Array]:
    """W and b of the lowest NLL of softmax(W z + b) under ridge penalties of W - 1 and b.

    A row of `penalty` (k + 1, k) belongs to a logit, the last to b; what has an infinite one stays.
    """
    k = scores.shape[1]
    inputs = np.append(scores, np.ones((len(scores), 1)), axis=1)
    free, change = np.isfinite(penalty), np.zeros_like(penalty)
    held = penalty[free] > 0
    unit = np.sqrt(np.where(held, penalty[free], 1))  # equal penalties are solved much faster

    def loss(parameters):
        change[free] = parameters / unit
        nll, residual = _nll_and_residual(scores + inputs @ change, labels, weights)
        gradient = (inputs.T @ residual)[free] / unit
        return nll + held @ parameters**2, gradient + 2 * held * parameters

    change[free] = _minimised(loss, np.zeros(free.sum())) / unit
    return np.eye(k) + change[:k].T, change[k].copy()


def _nll_and_residual(
    scores: Array, labels: Array, weights: Array | None = None
) -> tuple[float, Array]:
    """Mean NLL of softmax(scores), and its gradient in the scores, in their place."""
    true = np.arange(len(labels)), labels
    mean, rows = np.mean, len(labels)  # a row counts as one of so many
    if weights is not None:
        mean, rows = (weights / weights.sum()).dot, weights.sum() / weights
    scores -= scores.max(axis=1, keepdims=True)
    of_labels = mean(scores[true])
    total = row_sums(np.exp(scores, out=scores))
    scores /= (total * rows)[:, np.newaxis]
    scores[true] -= 1 / rows
    return mean(np.log(total)) - of_labels, scores


def _minimised(loss: Callable, start: Array, bounds: Sequence | None = None) -> Array:
    """L-BFGS with analytic gradients; warns if it stops before it is done."""
    options = {"maxiter": 2000, "maxfun": 10_000, "ftol": 1e-14, "gtol": 1e-8}
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if result.status == 1:
        message = f"no convergence in {result.nit} iterations: the held-out data may be separable"
        _warn(message, 5, EndOfRangeWarning)
    return result.x
