"""Confidence scores: which scores, beside the maximum probability, tell right from wrong answers?

Every score is one number per prediction. It is higher for predictions that are more likely to be
right, and can be passed to `metrics.auroc` and its relatives. Six scores are functions of the
logits. Two are fitted to features, the inputs of the classifier's last layer, without changing the
classifier: `TrustScore` compares features with those of the training samples, and `ConfidNet`
learns the probability of the true class. ``fit`` takes the training set, and ``score`` the
predictions to judge.

Only scores that are probabilities can be calibrated: `maximum_probability` and `ConfidNet`. The
other scores only sort predictions. Arguments may be NumPy arrays or torch tensors; scores have the
same type.

The papers: Cattelan and Silva 2024, "How to Fix a Broken Confidence Estimator" (arXiv 2305.15508);
Corbière et al., NeurIPS 2019 (ConfidNet); Jiang et al., NeurIPS 2018 (Trust Score);
Moon et al., ICML 2020 (CRL); Singh et al. 2021 ("On the Dark Side of Calibration"); Zhu et al.,
ECCV 2022 ("Rethinking Confidence Calibration for Failure Prediction").
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf, log
from typing import TYPE_CHECKING, Self, overload

import numpy as np
import numpy.typing as npt
from scipy.special import entr, expit

from calibkit import arrays, metrics, terms
from calibkit.arrays import (
    Array,
    ArrayLike,
    ArrayOrTensor,
    as_labels,
    as_logits,
    blocks,
    like,
    softmax,
    to_numpy,
)

if TYPE_CHECKING:
    import torch

# Distances below this count as this: no division by zero, and two zeros have the ratio 1.
SMALLEST_DISTANCE = 1e-12
# Rows that the head of ConfidNet judges at once: bounds the memory of its hidden layers.
ROWS = 8192


# --- functions of the logits ----------------------------------------------------------------------


@overload
def maximum_probability(logits: "torch.Tensor") -> "torch.Tensor": ...
@overload
def maximum_probability(logits: npt.ArrayLike) -> Array: ...
def maximum_probability(logits: ArrayLike) -> ArrayOrTensor:
    """Largest probability of the softmax, max_k p_k: the confidence, unless stated otherwise.

    The baseline of failure prediction (Hendrycks and Gimpel 2017).

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.

    Returns
    -------
    array or tensor, shape (n,)
        From 1/k to 1.

    Raises
    ------
    ValueError
        If the logits are empty, malformed or not finite.

    Examples
    --------
    >>> maximum_probability([[0.0, 0.0], [0.0, 2.0]]).round(3)
    array([0.5  , 0.881])
    """
    return like(softmax(logits).max(axis=1), logits)


@overload
def log_odds(logits: "torch.Tensor") -> "torch.Tensor": ...
@overload
def log_odds(logits: npt.ArrayLike) -> Array: ...
def log_odds(logits: ArrayLike) -> ArrayOrTensor:
    r"""Log-odds of the predicted class, :math:`z_{\hat y} - \log\sum_{k \ne \hat y} e^{z_k}`.

    They sort predictions as an exact `maximum_probability` would. But the maximum probability is
    rounded to 1 from log-odds of 17 on in single precision, and from 37 on in double precision.
    Wrong answers then tie with right ones. Log-odds still differ.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.

    Returns
    -------
    array or tensor of float64, shape (n,)
        Below zero where the prediction is less probable than all other classes together.

    Raises
    ------
    ValueError
        If the logits are empty, malformed or not finite.

    Examples
    --------
    >>> log_odds([[0.0, 40.0], [0.0, 50.0]]), maximum_probability([[0.0, 40.0], [0.0, 50.0]])
    (array([40., 50.]), array([1., 1.]))
    """
    return like(arrays.log_odds(as_logits(logits)), logits)


@overload
def margin(logits: "torch.Tensor") -> "torch.Tensor": ...
@overload
def margin(logits: npt.ArrayLike) -> Array: ...
def margin(logits: ArrayLike) -> ArrayOrTensor:
    """Largest probability minus the second largest, p_(1) - p_(2).

    One of the three confidence functions of CRL (Moon et al. 2020).

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.

    Returns
    -------
    array or tensor, shape (n,)
        From 0 for a tie to 1 for a certain prediction.

    Raises
    ------
    ValueError
        If the logits are empty, malformed or not finite.

    Examples
    --------
    >>> margin(np.log([[0.5, 0.3, 0.2]])).round(3)
    array([0.2])
    """
    second, first = np.partition(softmax(logits), -2, axis=1)[:, -2:].T
    return like(first - second, logits)


@overload
def negative_entropy(logits: "torch.Tensor") -> "torch.Tensor": ...
@overload
def negative_entropy(logits: npt.ArrayLike) -> Array: ...
def negative_entropy(logits: ArrayLike) -> ArrayOrTensor:
    """Minus the entropy of the softmax in units of its maximum, Σ_j p_j ln p_j / ln k.

    One of the three confidence functions of CRL (Moon et al. 2020).

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.

    Returns
    -------
    array or tensor, shape (n,)
        From -1 for equal probabilities to 0 for a certain prediction.

    Raises
    ------
    ValueError
        If the logits are empty, malformed or not finite.

    Examples
    --------
    >>> negative_entropy([[0.0, 0.0], [0.0, 2.0]]).round(3)
    array([-1.   , -0.527])
    """
    probs = softmax(logits)
    return like(-entr(probs).sum(axis=1) / log(probs.shape[1]), logits)


@overload
def maximum_logit(logits: "torch.Tensor") -> "torch.Tensor": ...
@overload
def maximum_logit(logits: npt.ArrayLike) -> Array: ...
def maximum_logit(logits: ArrayLike) -> ArrayOrTensor:
    """Largest logit, max_k z_k, which unlike a probability depends on the scale of all logits.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.

    Returns
    -------
    array or tensor, shape (n,)
        Any finite number.

    Raises
    ------
    ValueError
        If the logits are empty, malformed or not finite.

    Examples
    --------
    >>> maximum_logit([[0.0, 1.0], [8.0, 9.0]])
    array([1., 9.])
    """
    return like(as_logits(logits).max(axis=1), logits)


@overload
def p_norm(logits: "torch.Tensor", p: float = 2.0) -> "torch.Tensor": ...
@overload
def p_norm(logits: npt.ArrayLike, p: float = 2.0) -> Array: ...
def p_norm(logits: ArrayLike, p: float = 2.0) -> ArrayOrTensor:
    r"""Largest centred logit over the p-norm of all: a score that ignores the scale of the logits.

    .. math:: \max_k \frac{z_k - \bar z}{\lVert z - \bar z \rVert_p}

    MaxLogit-pNorm of Cattelan and Silva (2024). A network can be sure because one logit stands out
    or because all of them are large; only the first counts here. The score does not change if all
    logits are divided by a temperature, or if a number is added to all of them.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax. With two classes every score is the same, 2^(-1/p).
    p : float
        Order of the norm, above 0; ``inf`` for the largest absolute value. See `choose_p`.

    Returns
    -------
    array or tensor of float64, shape (n,)
        From above 0 to 1; 0 where all logits are equal.

    Raises
    ------
    ValueError
        If the logits are empty, malformed or not finite, or p is not above 0.

    Examples
    --------
    >>> p_norm([[4.0, 1.0, 1.0], [8.0, 2.0, 2.0]]).round(3)  # 2 over the root of 4 + 1 + 1
    array([0.816, 0.816])
    """
    if not p > 0:
        raise ValueError(f"p: got {p!r}, expected a number above 0")
    centred = as_logits(logits).astype(np.float64)
    centred -= centred.max(axis=1, keepdims=True)  # first, so that equal logits become zeros
    centred -= centred.mean(axis=1, keepdims=True)
    largest = np.abs(centred).max(axis=1, keepdims=True)
    # In units of the largest, so that no power overflows.
    centred /= np.where(largest > 0, largest, 1)
    top = centred.max(axis=1)
    if p == inf:
        return like(top, logits)
    sums = (np.abs(centred) ** p).sum(axis=1)
    return like(top * np.exp(-np.log(np.maximum(sums, 1)) / p), logits)


def choose_p(
    logits: ArrayLike, labels: ArrayLike, grid: Sequence[float] = tuple(range(1, 11))
) -> float:
    """The p whose `p_norm` tells right from wrong predictions best, by AUROC.

    Cattelan and Silva (2024) choose p this way, on data that are not the test set, and go back to
    the maximum probability where that has the higher AUROC on the same data. No such step is taken
    here: compare the two with `metrics.auroc`.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax of validation data.
    labels : array or tensor of integers, shape (n,)
        Their true classes, 0 to k - 1.
    grid : sequence of float
        Values to try; the first of the best wins.

    Returns
    -------
    float
        One of the grid.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, or the
        predictions are all right or all wrong.

    Examples
    --------
    >>> logits = np.array([[9.0, 0, 0, 0], [6, 5, 0, 0], [3, 0, 0, 0], [8, 0, 0, 7]])
    >>> choose_p(logits, [0, 1, 0, 3])
    1.0
    """
    if len(grid) == 0:
        raise ValueError("grid: got no values, expected at least one p")
    logits = as_logits(logits)
    labels = as_labels(labels, k=logits.shape[1], n=len(logits))
    correct = logits.argmax(axis=1) == labels
    if correct.all() or not correct.any():
        which = "right" if correct.all() else "wrong"
        raise ValueError(f"labels: all predictions are {which}, expected some of each")
    return float(max(grid, key=lambda p: metrics.auroc(p_norm(logits, p), correct)))


# --- fitted to features ---------------------------------------------------------------------------


class TrustScore:
    """Distance to the nearest other class over that to the predicted class (Jiang et al. 2018).

    With d(x, c) the Euclidean distance of x to the nearest training sample of class c, and ŷ the
    predicted class, the score is min_{c ≠ ŷ} d(x, c) / d(x, ŷ). Above 1, the prediction is that of
    a nearest-neighbour classifier. Distances below 1e-12 count as 1e-12: the score is 1 where both
    are zero, and huge but finite where only d(x, ŷ) is. Zhu et al. 2022 (figure 15) and Singh et
    al. 2021 compare with it.

    Attributes
    ----------
    samples_ : dict
        Features of the training samples of each class: label -> array, shape (m, d).

    Notes
    -----
    No sample is left out for lying where few of its class do, as is the default of Jiang et al.
    Their code differs from their paper: it uses the second nearest sample of each class as the
    nearest, as if the samples judged were those of the fit.

    Examples
    --------
    >>> trust = TrustScore().fit([[0.0, 0.0], [4.0, 0.0]], [0, 1])
    >>> trust.score([[1.0, 0.0], [1.0, 0.0], [2.0, 9.0]], [0, 1, 0]).round(3)
    array([3.   , 0.333, 1.   ])
    """

    def fit(self, features: ArrayLike, labels: ArrayLike) -> Self:
        """Keep the features of the training samples by true class.

        Parameters
        ----------
        features : array or tensor, shape (n, d)
            Inputs of the classifier's last layer, or any others.
        labels : array or tensor of integers, shape (n,)
            True classes, at least two different ones.

        Returns
        -------
        TrustScore
            The object itself.

        Raises
        ------
        ValueError
            If an argument is empty, malformed or not finite, the lengths differ, or all labels are
            the same.
        """
        features = _as_features(features)
        labels = _as_classes(labels, len(features), "labels")
        classes = np.unique(labels).tolist()
        if len(classes) < 2:
            raise ValueError(f"labels: got class {classes[0]} only, expected at least two classes")
        self.samples_: dict[int, Array] = {c: features[labels == c] for c in classes}
        return self

    @overload
    def score(self, features: "torch.Tensor", predicted: ArrayLike) -> "torch.Tensor": ...
    @overload
    def score(self, features: npt.ArrayLike, predicted: ArrayLike) -> Array: ...
    def score(self, features: ArrayLike, predicted: ArrayLike) -> ArrayOrTensor:
        """Trust scores of predictions.

        Parameters
        ----------
        features : array or tensor, shape (n, d)
            Features of the samples to judge, the same as in `fit`.
        predicted : array or tensor of integers, shape (n,)
            Their predicted classes.

        Returns
        -------
        array or tensor of float64, shape (n,)
            Ratios of distances, at least 0.

        Raises
        ------
        ValueError
            If an argument is empty, malformed or not finite, the lengths differ, a class was not
            among those of `fit`, or `fit` was not called.
        """
        _check_fitted(self, "samples_")
        classes = list(self.samples_)
        array = _as_features(features, self.samples_[classes[0]].shape[1])
        predicted = _as_classes(predicted, len(array), "predicted")
        unknown = ~np.isin(predicted, classes)
        if unknown.any():
            raise ValueError(
                f"predicted: got class {predicted[unknown][0]}, expected one of the labels of fit"
            )
        to_predicted, to_other = np.empty(len(array)), np.full(len(array), inf)
        for label, samples in self.samples_.items():
            distance, own = _distance(array, samples), predicted == label
            to_predicted[own] = distance[own]
            np.minimum(to_other, distance, out=to_other, where=~own)
        np.maximum(to_predicted, SMALLEST_DISTANCE, out=to_predicted)
        return like(np.maximum(to_other, SMALLEST_DISTANCE) / to_predicted, features)


@dataclass
class ConfidNet:
    """A small network that learns the probability of the true class (Corbière et al. 2019).

    The true-class probability (TCP), p_y, is above 1/2 only if a prediction is right and below 1/k
    only if it is wrong, but it cannot be known without the label. ConfidNet estimates it from the
    features: layers of 400, 400, 400, 400 and 1 units, ReLU between them and a sigmoid at the end,
    trained by Adam on the mean of (score - p_y)². Singh et al. 2021 (appendix A.2) and Zhu et al.
    2022 (figure 15) compare with it.

    It learns from the errors on the training set, so it learns little where the classifier makes
    hardly any (Zhu et al. 2022). The features are fixed here, whereas the authors recompute them
    in each epoch, with augmentation and dropout, for up to 500 epochs.

    Parameters
    ----------
    epochs : int
        Passes through the training set.
    batch_size : int
        Samples per step.
    learning_rate : float
        Adam's learning rate, positive.
    seed : int
        For the initial weights and the order of the samples. On a CPU the same seed and number of
        threads give the same bits; torch's global random state is left unchanged.

    Attributes
    ----------
    head_ : torch.nn.Sequential
        Network from features (n, d) to numbers (n,), whose sigmoid is the score.
    epoch_ : int
        The epoch, from 1, that `head_` comes from: the last or, with validation data, the best.

    Examples
    --------
    >>> features, logits = np.array([[-1.0], [1.0]] * 32), np.array([[2.0, 0.0]] * 64)
    >>> model = ConfidNet(epochs=50, batch_size=16).fit(features, logits, [0, 1] * 32)
    >>> model.score([[-1.0], [1.0]]).round(1)  # p_y is 0.88 and 0.12
    array([0.9, 0.1])
    """

    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}: got {value!r}, expected an integer >= 1")
        if not 0 < self.learning_rate < inf:
            raise ValueError(f"learning_rate: got {self.learning_rate}, expected a positive number")

    def fit(
        self,
        features: ArrayLike,
        logits: ArrayLike,
        labels: ArrayLike,
        validation: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """Train on the device of the features.

        Parameters
        ----------
        features : array or tensor, shape (n, d)
            Inputs of the classifier's last layer for the training samples.
        logits : array or tensor, shape (n, k)
            Its outputs for them, before the softmax.
        labels : array or tensor of integers, shape (n,)
            True classes, 0 to k - 1.
        validation : tuple of features, logits and labels, optional
            Keep the epoch whose scores find the errors on these samples best, by
            `metrics.aupr_error`; of epochs that tie, as all do if there are no errors, the one with
            the lowest mean squared error.

        Returns
        -------
        ConfidNet
            The object itself.

        Raises
        ------
        ValueError
            If an argument is empty, malformed or not finite, the lengths differ, or a label is out
            of range.
        """
        with terms.extras():
            import torch

        device = getattr(features, "device", "cpu")  # neither lists nor old arrays have one
        features, true, _ = _targets(features, logits, labels)
        if validation is not None:
            held_out, held_out_true, right = _targets(*validation, features.shape[1])
        x = torch.as_tensor(features, dtype=torch.float32, device=device)
        target = torch.as_tensor(true, dtype=torch.float32, device=device)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            head = _head(x.shape[1]).to(device)
        rng = np.random.default_rng(self.seed)
        optimizer = torch.optim.Adam(head.parameters(), self.learning_rate, fused=True)
        best = ()
        for epoch in range(1, self.epochs + 1):
            order = torch.from_numpy(rng.permutation(len(x))).to(device)
            for index in order.split(self.batch_size):
                error = head(x[index]).sigmoid() - target[index]
                optimizer.zero_grad()
                error.square().mean().backward()
                optimizer.step()
            quality = (epoch,)  # without validation data the last is the best
            if validation is not None:
                score = _scores(head, held_out)
                errors_found = metrics.aupr_error(score, right) if not right.all() else 0
                quality = (errors_found, -np.square(score - held_out_true).mean())
            if quality > best:
                best = quality
                self.epoch_: int = epoch
                self.head_: torch.nn.Module = deepcopy(head)
        return self

    @overload
    def score(self, features: "torch.Tensor") -> "torch.Tensor": ...
    @overload
    def score(self, features: npt.ArrayLike) -> Array: ...
    def score(self, features: ArrayLike) -> ArrayOrTensor:
        """Estimated probability of the true class.

        Parameters
        ----------
        features : array or tensor, shape (n, d)
            Inputs of the classifier's last layer for the samples to judge.

        Returns
        -------
        array or tensor of float64, shape (n,)
            Between 0 and 1.

        Raises
        ------
        ValueError
            If the features are empty, malformed, not finite or of another width than in `fit`, or
            `fit` was not called.
        """
        _check_fitted(self, "head_")
        array = _as_features(features, self.head_[0].in_features)
        return like(_scores(self.head_, array), features)


# --- inside ---------------------------------------------------------------------------------------


def _distance(features: Array, samples: Array) -> Array:
    """Distance (n,) from each row of `features` to the nearest row of `samples`."""
    with terms.extras():
        from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=1).fit(samples)  # a k-d tree in few dimensions
    # Unless the types agree, the search is several times slower and holds all distances at once.
    query = features.astype(samples.dtype, copy=False)
    index = search.kneighbors(query, return_distance=False)[:, 0]
    # In many dimensions it finds neighbours by a product of matrices, from which two equal rows
    # have a distance somewhat above zero. So measure again.
    distance = np.empty(len(features))
    for rows in blocks(*features.shape):
        difference = np.subtract(features[rows], samples[index[rows]], dtype=np.float64)
        distance[rows] = np.linalg.norm(difference, axis=1)
    return distance


def _head(width: int):
    from torch import nn

    layers = []
    for before, after in ((width, 400), (400, 400), (400, 400), (400, 400)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(400, 1), nn.Flatten(0))


def _scores(head, features: Array) -> Array:
    import torch

    x = torch.as_tensor(features, dtype=torch.float32, device=head[0].weight.device)
    with torch.no_grad():
        score = torch.cat([head(rows) for rows in x.split(ROWS)]).cpu().numpy()
    # In float64, so that scores near 1, where most are, do not round to ties.
    return expit(score.astype(np.float64))


def _targets(
    features: ArrayLike, logits: ArrayLike, labels: ArrayLike, width: int | None = None
) -> tuple[Array, Array, Array]:
    """Features (n, d), probability of the true class (n,), and whether the prediction is right."""
    features, logits = _as_features(features, width), as_logits(logits)
    if len(logits) != len(features):
        raise ValueError(f"logits: got {len(logits)} rows, expected {len(features)} as features")
    labels = as_labels(labels, k=logits.shape[1], n=len(logits))
    return features, softmax(logits)[np.arange(len(labels)), labels], logits.argmax(1) == labels


def _as_features(features: ArrayLike, width: int | None = None) -> Array:
    array = to_numpy(features, "features")
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiu":
        raise ValueError(
            f"features: got shape {array.shape} and type {array.dtype}, expected numbers (n, d)"
        )
    if width is not None and array.shape[1] != width:
        raise ValueError(f"features: got {array.shape[1]} columns, expected {width} as in fit")
    if not np.isfinite(array).all():
        raise ValueError("features: got NaN or infinity, expected finite numbers")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _as_classes(labels: ArrayLike, n: int, name: str) -> Array:
    array = to_numpy(labels, name)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: got shape {array.shape} and type {array.dtype}, expected {n} integers"
        )
    return array


def _check_fitted(model, attribute: str) -> None:
    if not hasattr(model, attribute):
        raise ValueError(f"{type(model).__name__}: not fitted, expected a call of fit before")
