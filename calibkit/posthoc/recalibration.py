"""The base class of all methods of recalibration, and the warnings of their fits."""

import os
import warnings
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
import numpy.typing as npt

from calibkit import files, map_files, precision
from calibkit.arrays import (
    Array,
    ArrayLike,
    ArrayOrTensor,
    Kind,
    as_labels,
    as_logits,
    as_probs,
    as_weights,
    like,
    plain,
    to_numpy,
)
from calibkit.precision import Floor

if TYPE_CHECKING:
    import torch


class PosthocWarning(UserWarning):
    """A recalibration was fitted, or read, but deserves a second look."""


class RaisedErrorWarning(PosthocWarning):
    """Temperature scaling raises the ECE or the NLL of the data that it was fitted to."""


class EndOfRangeWarning(PosthocWarning):
    """A fitted number is at the end of the range that was searched, so it means little."""


class Recalibration:
    """Base class of all methods of recalibration: logits in, calibrated probabilities out.

    The options of a method are the arguments of its constructor. To scikit-learn it is a classifier
    of logits, which can be copied and tuned by ``sklearn.base.clone`` and
    ``sklearn.model_selection``.

    Attributes
    ----------
    classes_ : array of int, shape (k,)
        The labels, 0 to k - 1: one for each column of the logits given to `fit`.
    class_names_ : tuple of str, shape (k,)
        The names of the columns, in their order, if the map was saved with them.
    floor_ : calibkit.precision.Floor or None
        What a probability of 0 counts as, found from the probabilities that the map was fitted to.
        None if it was fitted to logits. `zeros_` explains it in a sentence.

    Examples
    --------
    >>> from calibkit.posthoc import HistogramBinning, TemperatureScaling
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])  # 98% sure, 75% right
    >>> for method in (TemperatureScaling(), HistogramBinning()):
    ...     print(method.fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3))
    [[0.75 0.25]]
    [[0.75 0.25]]
    """

    _map: ClassVar[str] = ""  # its name in files and on the command line
    _needs_two_classes: ClassVar[bool] = False  # whether a fit needs labels of two or more classes
    # What a fit learns: name of the attribute, less its underscore -> its shape.
    _kept: ClassVar[dict[str, tuple[int | str, ...]]] = {}
    # Of these, what maps saved by an earlier version lack -> what stands for it.
    _later: ClassVar[dict[str, float | None]] = {}
    _gaps: ClassVar[tuple[str, ...]] = ()  # of these, what may be NaN in places, in a file null
    classes_: Array
    class_names_: tuple[str, ...]
    about_: dict[str, Any]
    floor_: Floor | None = None  # what a probability of 0 counts as
    zeros_: str = ""

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
            "probs" if `logits` are probabilities, which are refused otherwise. `calibkit.precision`
            finds from all of them what a 0 counts as; `floor_` keeps this for new probabilities.

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
        >>> from calibkit.posthoc import TemperatureScaling
        >>> TemperatureScaling().fit([[4.0, 0.0]] * 4, [0, 0, 0, 1]).predict_proba([[4.0, 0.0]])
        array([[0.75, 0.25]])
        """
        floor, zeros = None, ""
        if kind == "probs":  # those of new data may be 0, even if none is here
            dtype = getattr(logits, "dtype", None)
            found = precision.of(as_probs(logits, "logits"), dtype=dtype)
            floor, zeros = found.floor, found.sentence
        logits, labels = checked(logits, labels, kind, floor)
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

    @overload
    def predict_proba(self, logits: "torch.Tensor", kind: Kind = "logits") -> "torch.Tensor": ...
    @overload
    def predict_proba(self, logits: npt.ArrayLike, kind: Kind = "logits") -> Array: ...
    def predict_proba(self, logits: ArrayLike, kind: Kind = "logits") -> ArrayOrTensor:
        """Calibrated probabilities of predictions.

        Parameters
        ----------
        logits : array, tensor or data frame, shape (n, k)
            Scores before the softmax, with as many classes as in `fit`. The columns of an array
            must be in the order of `class_names_`, if the map has names. The columns of a data
            frame are put in this order by their names, with or without ``prob_`` or ``logit_``.
        kind : {"logits", "probs"}
            "probs" if `logits` are probabilities; a 0 counts as `floor_`.

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
        >>> from calibkit.posthoc import FixedTemperature
        >>> FixedTemperature(2.0).predict_proba([[2.0, 0.0]]).round(3)
        array([[0.731, 0.269]])
        """
        array = as_logits(self._in_order(logits), kind=kind, floor=self.floor_)
        self._check_fitted(array.shape[1])
        return like(self._probs(array), logits)

    @overload
    def predict(self, logits: "torch.Tensor", kind: Kind = "logits") -> "torch.Tensor": ...
    @overload
    def predict(self, logits: npt.ArrayLike, kind: Kind = "logits") -> Array: ...
    def predict(self, logits: ArrayLike, kind: Kind = "logits") -> ArrayOrTensor:
        """Most probable class of each row, after recalibration.

        Parameters
        ----------
        logits : array or tensor, shape (n, k)
            Scores before the softmax, with as many classes as in `fit`.
        kind : {"logits", "probs"}
            "probs" if `logits` are probabilities; a 0 counts as `floor_`.

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
        >>> from calibkit.posthoc import FixedTemperature
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
            "probs" if `logits` are probabilities; a 0 counts as `floor_`.

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
        >>> from calibkit.posthoc import FixedTemperature
        >>> FixedTemperature(2.0).score([[2.0, 0.0], [1.0, 3.0]], [0, 0])
        0.5
        """
        array, labels = checked(self._in_order(logits), labels, kind, self.floor_)
        return float((self.predict(array) == labels).mean())

    def save(self, path: str | os.PathLike[str], **about: Any) -> None:
        """Write what was fitted to a JSON file, which `load` reads back to the same probabilities.

        The file ends with a seal, by which `load` knows whether it was edited.

        Parameters
        ----------
        path : path
            Replaced as a whole if it exists.
        **about
            What else to write into the file, such as ``class_names``, in types that JSON has;
            `load` returns it as `about_`.

        Raises
        ------
        ValueError
            If `fit` was not called, or a name in `about` is one that the file has already.
        OSError
            If the file cannot be written; one that was there is left as it was.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from calibkit.posthoc import FixedTemperature
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
        if not self._map:
            raise ValueError(f"{type(self).__name__}: cannot be saved, expected a map of calibkit")
        if not hasattr(self, "classes_"):
            self._check_fitted(0)
        options = {name: plain(value) for name, value in self.get_params().items()}
        kept = {
            "calibkit_map": map_files.VERSION,
            "map": self._map,
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
        if np.isnan(array).any() and name not in self._gaps:
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
        >>> from calibkit.posthoc import MatrixScaling
        >>> MatrixScaling(l2=0.1).get_params()
        {'l2': 0.1}
        """
        options = fields(self) if is_dataclass(self) else ()
        return {field.name: getattr(self, field.name) for field in options}

    def set_params(self, **params: Any) -> Self:
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
        >>> from calibkit.posthoc import MatrixScaling
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

    def __sklearn_tags__(self) -> Any:
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


def checked(
    logits: ArrayLike, labels: ArrayLike, kind: Kind = "logits", floor: Floor | None = None
) -> tuple[Array, Array]:
    """Check scores (n, k) and labels (n,), and return both as arrays."""
    logits = as_logits(logits, kind=kind, floor=floor)
    return logits, as_labels(labels, k=logits.shape[1], n=len(logits))


def warn(message: str, stacklevel: int = 4, kind: type[PosthocWarning] = PosthocWarning) -> None:
    """Warn with the line that called `Recalibration.fit`, two calls above the caller."""
    warnings.warn(message, kind, stacklevel)
