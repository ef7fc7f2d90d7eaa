"""A scikit-learn classifier with a recalibration behind it (needs scikit-learn)."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from calibkit.arrays import Array
from calibkit.posthoc import Recalibration, TemperatureScaling


class CalibratedModel(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier whose probabilities go through a recalibration; labels may be names.

    An estimator that is already fitted is kept, and `fit` must get data that it has not seen. One
    that is not is fitted to all data, and the map to its predictions on the folds that each of its
    copies has not seen, as ``CalibratedClassifierCV(ensemble=False)`` does. Copies that
    scikit-learn makes, as in `cross_val_score`, are of the second kind unless the estimator is in
    a ``FrozenEstimator``.

    Parameters
    ----------
    estimator : classifier
        With ``decision_function``, whose values are taken as logits, or else ``predict_proba``.
    map : Recalibration, optional
        By default, `TemperatureScaling`.
    cv : int or cross-validation generator
        Folds, where the estimator is not fitted.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    map_ : Recalibration
        The fitted map.
    classes_ : array, shape (k,)
        The labels, in the order of the columns of `predict_proba`.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> inputs, names = [[0.0], [1.0], [2.0], [3.0]] * 10, ["cat", "cat", "dog", "cat"] * 10
    >>> model = CalibratedModel(LogisticRegression(C=100)).fit(inputs, names)
    >>> model.predict([[0.0]]).tolist(), model.classes_.tolist()
    (['cat'], ['cat', 'dog'])
    """

    def __init__(self, estimator: Any, map: Recalibration | None = None, cv: Any = 5):
        self.estimator = estimator
        self.map = map
        self.cv = cv

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the map, and the estimator unless it is fitted.

        Parameters
        ----------
        X : array-like, shape (n, features), or whatever the estimator takes
        y : array-like, shape (n,)
            Labels: numbers or names.

        Returns
        -------
        CalibratedModel

        Raises
        ------
        ValueError
            If a label is unknown to a fitted estimator, or the map refuses its predictions.
        """
        try:
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            scores = self._scores(X)
        except NotFittedError:
            method = _method(self.estimator)
            values = cross_val_predict(clone(self.estimator), X, y, cv=self.cv, method=method)
            self.estimator_ = clone(self.estimator).fit(X, y)
            scores = _logits(values, method)
        self.classes_ = np.asarray(self.estimator_.classes_)
        unknown = np.setdiff1d(np.asarray(y), self.classes_)
        if len(unknown):
            raise ValueError(f"y: got {unknown[0]!r}, expected classes the estimator knows")
        place = np.argsort(self.classes_)
        labels = place[np.searchsorted(self.classes_, np.asarray(y), sorter=place)]
        self.map_ = clone(TemperatureScaling() if self.map is None else self.map)
        self.map_.fit(scores, labels)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities, shape (n, k), columns in the order of `classes_`."""
        check_is_fitted(self, "map_")
        return self.map_.predict_proba(self._scores(X))

    def predict(self, X: Any) -> Array:
        """Labels of highest calibrated probability, shape (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _scores(self, X: Any) -> Array:
        method = _method(self.estimator_)
        return _logits(getattr(self.estimator_, method)(X), method)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _method(estimator: Any) -> str:
    return "decision_function" if hasattr(estimator, "decision_function") else "predict_proba"


def _logits(values: Array, method: str) -> Array:
    """Values of an estimator as logits (n, k); of probabilities, scikit-learn's logarithm."""
    if method == "predict_proba":
        return np.log(values + 1e-12)
    return np.stack([np.zeros_like(values), values], axis=1) if values.ndim == 1 else values
