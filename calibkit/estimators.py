"""A scikit-learn classifier with a recalibration of its output (needs scikit-learn 1.6)."""

import warnings
from copy import copy, deepcopy
from typing import Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from calibkit import precision
from calibkit.arrays import Array, as_weights, to_numpy
from calibkit.posthoc import PosthocWarning, Recalibration, TemperatureScaling
from calibkit.precision import Floor, Precision

FEW = 1000  # rows at most on which the largest column is compared with `predict`


class CalibratedModel(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier that recalibrates the probabilities of another classifier; labels may be names.

    *If the estimator is fitted*, `fit` fits only the map; give it data that the estimator has not
    seen. An estimator counts as fitted if its ``decision_function`` or ``predict_proba`` returns
    values for the data, so a wrapped network that was trained elsewhere counts, too.

    *If the estimator is not fitted*, `fit` fits it to all data. The map is fitted to predictions
    for the held-out part of each fold, which copies of the estimator make, as in
    ``CalibratedClassifierCV(ensemble=False)``. Rows that no fold holds out, as with
    ``TimeSeriesSplit``, do not count for the map. Rows that several folds hold out, as with
    ``ShuffleSplit``, count several times. A row whose class is not in the training part of its fold
    is left out, with a `PosthocWarning`.

    Copies that scikit-learn makes keep a fitted estimator, so neither ``cross_val_score`` nor
    ``GridSearchCV`` trains it again. The parameters are those of ``CalibratedClassifierCV`` as far
    as possible; that class knows three methods, and trains a fitted estimator again.

    Parameters
    ----------
    estimator : classifier
        With ``decision_function``, whose values are taken as logits, or else ``predict_proba``.
        For probabilities, `calibkit.precision` finds what a 0 counts as when the map is fitted.
        Values for pairs of classes, as from ``SVC(decision_function_shape="ovo")``, are turned into
        values for classes, as ``"ovr"`` does.
    map : Recalibration, optional
        By default, `TemperatureScaling`.
    cv : int, splitter, iterable of (train, test) or None
        Folds for an estimator that is not fitted, as in ``CalibratedClassifierCV``. None means 5.
    refit : bool
        Whether to train a fitted estimator again.
    n_jobs : int, optional
        Number of folds that are fitted at the same time.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    map_ : Recalibration
        The fitted map.
    classes_ : array, shape (k,)
        The labels, in the order of the columns of `predict_proba`. Those of the estimator; if it
        has none, 0 to k - 1 or the labels in `y`, sorted.
    n_features_in_, feature_names_in_
        The same as those of the estimator, if it has them.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> inputs, names = [[0.0], [1.0], [2.0], [3.0]] * 10, ["cat", "cat", "dog", "cat"] * 10
    >>> model = CalibratedModel(LogisticRegression(C=100)).fit(inputs, names)
    >>> model.predict([[0.0]]).tolist(), model.classes_.tolist()
    (['cat'], ['cat', 'dog'])
    """

    def __init__(
        self,
        estimator: Any,
        map: Recalibration | None = None,
        cv: Any = 5,
        refit: bool = False,
        n_jobs: int | None = None,
    ):
        self.estimator = estimator
        self.map = map
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the map, and the estimator unless it is fitted.

        Parameters
        ----------
        X : array-like, shape (n, features), or whatever the estimator takes
        y : array-like, shape (n,)
            Labels: numbers or names.
        sample_weight : array-like, shape (n,), optional
            Weights, at least 0, for the map, and for the estimator if its `fit` takes them (with
            metadata routing: if it requests them).
        **fit_params
            ``groups`` for the splitter; the rest for the estimator's `fit`. With metadata routing,
            each goes where it is requested. Ignored if the estimator is fitted.

        Returns
        -------
        CalibratedModel

        Raises
        ------
        ValueError
            If a label is unknown to a fitted estimator, its columns are in another order than its
            ``classes_``, it raises an error other than that it is not fitted, or the map refuses
            its predictions.

        Warns
        -----
        PosthocWarning
            If held-out rows are left out, or columns and ``predict`` of the estimator often differ.
        """
        if y is None:
            raise ValueError("CalibratedModel requires y to be passed, but the target y is None")
        y = column_or_1d(to_numpy(y, "y"), warn=True)
        check_classification_targets(y)
        weights = None if sample_weight is None else as_weights(sample_weight, len(y))
        values = None if self.refit else _answer(self.estimator, X)
        if values is not None:
            self.estimator_: Any = self.estimator
            labels = self._columns(X, values, y)
            found = _precision(self.estimator_, values)
            k, rows = len(self.classes_), ...
            scores = _logits(self.estimator_, values, k, self._pairs, found and found.floor)
        else:
            X, y = indexable(X, y)
            for_fit, for_split = self._routed(weights, fit_params)
            self.estimator_ = clone(self.estimator)
            self.estimator_.fit(X, y, **for_fit)
            some = _safe_indexing(X, _evenly(len(y)))
            labels = self._columns(some, _values(self.estimator_, some), y)
            scores, rows, found = self._held_out(X, y, labels, for_fit, for_split)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.map_: Recalibration = clone(TemperatureScaling() if self.map is None else self.map)
        more = {} if weights is None else {"sample_weight": weights[rows]}
        self.map_.fit(scores, labels[rows], **more)
        if found:
            self.map_.floor_, self.map_.zeros_ = found.floor, found.sentence
        return self

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities, shape (n, k), columns in the order of `classes_`."""
        check_is_fitted(self)
        values = _values(self.estimator_, X)
        k, floor = len(self.classes_), self.map_.floor_
        scores = _logits(self.estimator_, values, k, self._pairs, floor)
        return self.map_.predict_proba(scores)

    def predict(self, X: Any) -> Array:
        """Labels of highest calibrated probability, shape (n,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def get_metadata_routing(self) -> Any:
        """Where metadata go: to the estimator's `fit` and the splitter's `split`."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=to_fit)
        return router.add(splitter=self.cv, method_mapping=to_split)

    def _routed(self, weights: Array | None, fit_params: dict) -> tuple[dict, dict]:
        """The arguments for the estimator's `fit`, and those for the splitter's `split`."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=weights, **fit_params)
            return routed["estimator"]["fit"], routed["splitter"]["split"]
        for_split = {name: value for name, value in fit_params.items() if name == "groups"}
        for_fit = {name: value for name, value in fit_params.items() if name != "groups"}
        if weights is not None and has_fit_parameter(self.estimator, "sample_weight"):
            for_fit["sample_weight"] = weights
        elif weights is not None:
            name = type(self.estimator).__name__
            _warn(f"{name}.fit takes no sample_weight: the weights count for the map alone")
        return for_fit, for_split

    def _columns(self, X: Any, values: Array, y: Array) -> Array:
        """Learn which class each column of `values` belongs to; return the labels `y` as indices.

        `values` (n, k) is the output of the estimator for `X`.
        """
        self.classes_: Array = _classes(self.estimator_, values, y)
        k = len(self.classes_)
        if k < 2:
            raise ValueError(f"y: got 1 class, {_plain(y[0])!r}, expected at least two")
        labels = _place(y, self.classes_)
        if (labels < 0).any():
            unknown = _plain(y[labels < 0][0])
            raise ValueError(f"y: got {unknown!r}, expected classes the estimator knows")
        some = _evenly(len(values))
        if len(some) < len(values) and not (hasattr(X, "shape") or isinstance(X, list)):
            some = np.arange(len(values))  # X cannot be indexed by rows
        chosen = _safe_indexing(X, some) if len(some) < len(values) else X
        predicted = _predicted(self.estimator_, chosen, self.classes_)
        self._pairs = _in_pairs(values[some], k, predicted)
        scores = _logits(self.estimator_, values[some], k, self._pairs, None)
        if predicted is not None:
            _check_order(scores, predicted, self.classes_)
        return labels

    def _held_out(
        self, X: Any, y: Array, labels: Array, for_fit: dict, for_split: dict
    ) -> tuple[Array, Array, Precision | None]:
        """Scores of held-out rows from copies of the estimator that were fitted without them.

        Also returns these rows, and the rounding of their probabilities (None for logits).
        """
        folds = check_cv(self.cv, y, classifier=True)
        found = Parallel(n_jobs=self.n_jobs)(
            delayed(_fold)(clone(self.estimator), X, y, train, test, for_fit)
            for train, test in folds.split(X, y, **for_split)
        )
        kind = _precision(self.estimator_, *(values for _, values, _ in found))
        floor = kind and kind.floor
        scores, rows, k, everything = [], [], len(self.classes_), np.arange(len(y))
        for copy_of_fold, values, test in found:
            own = _place(_classes(copy_of_fold, values, y), self.classes_)
            of_own = _logits(copy_of_fold, values, len(own), self._pairs, floor)
            known = np.isin(labels[test], own)
            scores.append(_spread(of_own, own, k)[known])
            rows.append(everything[test][known])
        scores, rows = np.concatenate(scores), np.concatenate(rows)
        held_out = sum(len(values) for _, values, _ in found)
        if len(rows) < held_out:
            _warn(
                f"left out {held_out - len(rows)} of {held_out} held-out rows: the training part "
                "of their fold has none of their class"
            )
        return scores, rows, kind

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "map_")

    def __sklearn_clone__(self) -> Self:
        bare = copy(self)
        bare.estimator = None  # so that it is not cloned
        twin = super(CalibratedModel, bare).__sklearn_clone__()
        twin.estimator = clone(self.estimator) if self.refit else _kept(self.estimator)
        return twin

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            of_estimator = get_tags(self.estimator)
        except AttributeError:  # none of scikit-learn's
            return tags
        tags.input_tags = of_estimator.input_tags
        if of_estimator.classifier_tags is not None:
            tags.classifier_tags.multi_class = of_estimator.classifier_tags.multi_class
            tags.classifier_tags.poor_score = of_estimator.classifier_tags.poor_score
        return tags


# --- is it fitted? --------------------------------------------------------------------------------


def _answer(estimator: Any, X: Any) -> Array | None:
    """The output of an estimator for `X`; None if the estimator says that it is not fitted."""
    try:
        return _values(estimator, X)
    except Exception as error:
        if _says_unfitted(estimator, error):
            return None
        if _known_as_fitted(estimator):
            raise
        raise ValueError(
            f"estimator: {type(estimator).__name__} answers with {type(error).__name__}: {error}; "
            "if it is not fitted yet, pass refit=True"
        ) from error


def _says_unfitted(estimator: Any, error: Exception) -> bool:
    """Whether an error, or the estimator, says that `fit` was not called.

    The error may be scikit-learn's, or come from an attribute that `fit` would have set and that
    does not exist or is None. CatBoost has a method that tells it.
    """
    if isinstance(error, NotFittedError):
        return True
    if isinstance(error, AttributeError) and error.obj is estimator and estimator is not None:
        return True
    if isinstance(error, AttributeError | TypeError) and "NoneType" in str(error):
        return True
    is_fitted = getattr(estimator, "is_fitted", None)
    return callable(is_fitted) and is_fitted() is False


def _known_as_fitted(estimator: Any) -> bool:
    """Whether scikit-learn sees that an estimator is fitted, without data."""
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError, AttributeError):  # the others: none of scikit-learn's
        return False
    return True


def _kept(estimator: Any) -> Any:
    """The estimator for a copy of the model: shared and frozen if fitted, or else copied whole."""
    if isinstance(estimator, FrozenEstimator):
        return estimator
    if _known_as_fitted(estimator):
        return FrozenEstimator(estimator)
    try:
        return deepcopy(estimator)
    except Exception:  # it holds a session or a handle, and is only ever asked for answers
        return estimator


# --- columns --------------------------------------------------------------------------------------


def _method(estimator: Any) -> str:
    for name in ("decision_function", "predict_proba"):
        if hasattr(estimator, name):
            return name
    kind = type(estimator).__name__
    raise ValueError(f"estimator: got {kind}, expected decision_function or predict_proba")


def _values(estimator: Any, X: Any) -> Array:
    return to_numpy(getattr(estimator, _method(estimator))(X), _method(estimator))


def _precision(estimator: Any, *values: Array) -> Precision | None:
    """How the probabilities in `values` are rounded; None if the values are no probabilities."""
    return precision.of(*values) if _method(estimator) == "predict_proba" else None


def _logits(estimator: Any, values: Array, k: int, pairs: bool, floor: Floor | None) -> Array:
    """The output of an estimator as logits (n, k); probabilities become their logarithms."""
    if _method(estimator) == "predict_proba":
        scores = precision.log_probs(values, floor)
    elif k == 2 and (values.ndim == 1 or values.shape[1] == 1):
        scores = np.stack([np.zeros(len(values), values.dtype), values.reshape(-1)], axis=1)
    else:
        scores = _of_pairs(values, k) if pairs else values
    if scores.shape[1:] != (k,):
        raise ValueError(
            f"{_method(estimator)}: got shape {values.shape}, expected (n, {k}), a column for each "
            "of classes_"
        )
    return scores


def _in_pairs(values: Array, k: int, predicted: Array | None) -> bool:
    """Whether each column belongs to a pair of classes, k (k - 1) / 2 columns in all.

    Three classes have three pairs. Then the answers `predicted` decide.
    """
    if k < 3 or values.shape[1:] != (k * (k - 1) // 2,):
        return False
    if k > 3 or predicted is None:
        return k > 3
    agreeing = [(x.argmax(axis=1) == predicted).sum() for x in (_of_pairs(values, k), values)]
    return bool(agreeing[0] > agreeing[1])


def _of_pairs(values: Array, k: int) -> Array:
    """Scores of classes from scores of pairs (0, 1), (0, 2), …, by scikit-learn's rule.

    The number of pairs that a class wins counts first, then the size of the scores.

    >>> _of_pairs(np.array([[1.0, -1.0, -2.0]]), 3)  # 0 beats 1, 2 beats both
    array([[ 1.  , -0.25,  2.25]])
    """
    first, second = (np.eye(k)[i] for i in np.triu_indices(k, 1))
    votes = (values >= 0) @ first + (values < 0) @ second
    size = values @ (first - second)
    return votes + size / (3 * (np.abs(size) + 1))


def _classes(estimator: Any, values: Array, y: Array) -> Array:
    """The class of each column, as the estimator says or, if it does not, as `y` suggests."""
    found = getattr(estimator, "classes_", None)
    if found is not None:
        return np.asarray(found)
    k = max(values.shape[1], 2) if values.ndim == 2 else 2
    labels = np.unique(y)
    if labels.dtype.kind in "iu" and 0 <= labels[0] and labels[-1] < k:
        return np.arange(k)
    if len(labels) != k:
        raise ValueError(
            f"estimator: got {k} columns without classes_, for {len(labels)} labels in y; expected "
            "an attribute classes_ with the label of each column"
        )
    return labels


def _place(labels: Array, classes: Array) -> Array:
    """The index of each label in `classes`; -1 for a label that is not in it."""
    order = np.argsort(classes)
    place = order[np.searchsorted(classes, labels, sorter=order).clip(max=len(classes) - 1)]
    return np.where(classes[place] == labels, place, -1)


def _predicted(estimator: Any, X: Any, classes: Array) -> Array | None:
    """The answers of `predict` as indices; None if `predict` does not return a label per row."""
    if not hasattr(estimator, "predict"):
        return None
    answers = to_numpy(estimator.predict(X), "predict")
    if answers.ndim == 2 and answers.shape[1] == 1:  # as CatBoost's
        answers = answers[:, 0]
    if answers.ndim != 1:
        return None
    place = _place(answers, classes)
    if (place < 0).any():
        unknown = _plain(answers[place < 0][0])
        raise ValueError(f"estimator: predict answers {unknown!r}, expected one of classes_")
    return place


def _check_order(scores: Array, predicted: Array, classes: Array) -> None:
    """Raise `ValueError` if the answers of `predict` show that columns have another order."""
    top, k = scores.argmax(axis=1), len(classes)
    together = np.bincount(top * k + predicted, minlength=k * k).reshape(k, k)
    places = linear_sum_assignment(together, maximize=True)[1]
    moved = np.flatnonzero((places != np.arange(k)) & together.any(axis=1))
    agreeing, rows = together[moved, places[moved]], together[moved].sum(axis=1)
    # Where thresholds shift the answers of `predict`, columns move towards the same class.
    if len(moved) > 1 and (2 * agreeing > rows).all() and agreeing.sum() >= 10:
        column, other = (_plain(classes[i]) for i in (moved[0], places[moved[0]]))
        raise ValueError(
            f"estimator: predict answers {other!r} where the column of {column!r} is the largest, "
            "expected columns in the order of classes_"
        )
    if (same := (top == predicted).mean()) < 0.9:
        _warn(
            f"predict of the estimator is the largest column in {same:.0%} of the rows only; "
            "the calibrated model follows the columns",
            stacklevel=5,
        )


# --- folds ----------------------------------------------------------------------------------------


def _fold(
    estimator: Any, X: Any, y: Array, train: Array, test: Array, params: dict
) -> tuple[Any, Array, Array]:
    """Fit an estimator to the rows `train`; return it, its output for `test`, and these rows."""
    inputs, labels = _safe_split(estimator, X, y, train)
    held_out, _ = _safe_split(estimator, X, y, test, train)
    estimator.fit(inputs, labels, **_check_method_params(X, params, train))
    return estimator, _values(estimator, held_out), test


def _spread(scores: Array, own: Array, k: int) -> Array:
    """Put scores of the classes `own` into k columns; unknown classes get far lower scores."""
    if len(own) == k:
        return scores[:, np.argsort(own)]
    lowest, highest = scores.min(axis=1), scores.max(axis=1)
    below = lowest - 100 * np.maximum(highest - lowest, 1)
    wide = np.repeat(below[:, np.newaxis], k, axis=1)
    wide[:, own] = scores
    return wide


def _evenly(n: int) -> Array:
    """At most `FEW` evenly spaced rows out of `n`."""
    return np.unique(np.linspace(0, n - 1, min(n, FEW)).astype(int))


def _plain(value: Any) -> Any:
    """A NumPy number or text as a Python one, which prints without its type."""
    return value.item() if isinstance(value, np.generic) else value


def _warn(message: str, stacklevel: int = 4) -> None:
    """Warn with the line that called `CalibratedModel.fit`, two calls above the caller."""
    warnings.warn(message, PosthocWarning, stacklevel)
