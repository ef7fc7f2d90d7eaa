"""Beta calibration, of each class against the rest or of the top label."""

from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.special import expit

from calibkit.arrays import Array
from calibkit.posthoc.likelihood import minimised
from calibkit.posthoc.recalibration import Recalibration
from calibkit.posthoc.rows import class_probs, normalised, probs64, warn_missing, with_top
from calibkit.posthoc.search import own_temperature


@dataclass
class BetaCalibration(Recalibration):
    """Beta calibration of each class against the rest, then normalised (Kull et al. 2017).

    The probability p of a class becomes q with logit q = a ln p - b ln(1 - p) + c and a, b >= 0,
    fitted by likelihood. For two classes this is the binary method. Logits are first divided by
    their temperature of lowest NLL, so that their scale does not matter. Logarithms of
    probabilities, whose exponentials sum to 1 in each row, are not divided, as published.
    Predictions may change. A class that no held-out label has keeps its probability, with a
    `PosthocWarning`.

    Attributes
    ----------
    parameters_ : array, shape (k, 3)
        a, b and c of each class.
    temperature_ : float
        The number by which logits are divided; 1 for probabilities.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4 + [[0.0, 1.0]] * 2), [0, 0, 0, 1, 1, 0]
    >>> BetaCalibration().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    _map = "beta"
    _needs_two_classes = True
    _kept = {"parameters": ("k", 3), "temperature": ()}
    _later = {"temperature": 1.0}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        self.temperature_: float = own_temperature(logits, labels, weights)
        probs = class_probs(logits, self.temperature_)
        self.parameters_: Array = np.tile(_IDENTITY, (len(probs), 1))
        for k in np.flatnonzero(np.bincount(labels)):
            # Of two classes, the second has the parameters of the first mirrored, but for rounding.
            start = self.parameters_[0, [1, 0, 2]] * [1, 1, -1] if len(probs) == 2 else _IDENTITY
            self.parameters_[k] = _beta(probs[k], labels == k, weights, start)
        warn_missing(labels, logits.shape[1])

    def _probs(self, logits: Array) -> Array:
        probs = class_probs(logits, self.temperature_)
        for own, parameters in zip(probs, self.parameters_, strict=True):
            own[:] = expit(parameters @ _beta_features(own))
        return normalised(probs)


@dataclass
class TopVersusAll(Recalibration):
    """Beta calibration of the top-label confidence: right against wrong (Le Coz et al. 2024).

    With many classes, each class has few held-out samples, but all samples have a top label. So
    three numbers are fitted by likelihood to whether the prediction is right. As in
    `BetaCalibration`, logits are first divided by their temperature of lowest NLL. As in
    `HistogramBinning`, the other classes share the rest, so that predictions stay unless the
    confidence falls below 1/k.

    Attributes
    ----------
    parameters_ : array, shape (3,)
        a, b and c: the confidence p becomes q with logit q = a ln p - b ln(1 - p) + c.
    temperature_ : float
        The number by which logits are divided; 1 for probabilities.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0, 0.0]] * 4), np.array([0, 0, 0, 1])  # 96% sure
    >>> TopVersusAll().fit(logits, labels).predict_proba([[4.0, 0.0, 0.0]]).round(3)
    array([[0.75 , 0.125, 0.125]])
    """

    _map = "top"
    _kept = {"parameters": (3,), "temperature": ()}
    _later = {"temperature": 1.0}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        self.temperature_: float = own_temperature(logits, labels, weights)
        probs = probs64(logits, self.temperature_)
        right = probs.argmax(axis=1) == labels
        self.parameters_: Array = _beta(probs.max(axis=1), right, weights)

    def _probs(self, logits: Array) -> Array:
        probs = probs64(logits, self.temperature_)
        return with_top(probs, expit(self.parameters_ @ _beta_features(probs.max(axis=1))))


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
    """Minimise the mean of ln(1 + exp(-x @ features)) by Newton's method with halved steps.

    Return the lowest mean and its x. The mean is weighted by `share` (n,), which sums to 1; None
    means that all samples count equally.

    Return None if no x has the lowest mean, if several x have it, or if the method does not
    converge.
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
    """Parameters of nearly the lowest NLL, if none or several have the lowest; see `_beta`."""

    def loss(parameters):
        score = parameters @ features
        losses, wrong = np.logaddexp(0, -score), expit(-score)
        if share is None:
            return losses.mean(), -features @ wrong / len(score)
        return share @ losses, -features @ (share * wrong)

    return minimised(loss, _IDENTITY, [(0, None), (0, None), (None, None)])
