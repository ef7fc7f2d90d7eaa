"""Small experiments on five Gaussians, whose true class probabilities are known (bsce)."""

from collections.abc import Callable

import numpy as np
import torch

from calibkit import losses
from calibkit_companion import data
from calibkit_companion.data import readers

CENTRES = torch.tensor(readers.GAUSSIAN_MEANS, dtype=torch.float32)
POWERS = (0.25, 0.5, 1, 2, 3, 4, 5)


def draw(per_class: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw points from five Gaussians with unit covariance; the Gaussian is the label.

    Parameters
    ----------
    per_class : number of points of each Gaussian

    Returns
    -------
    tuple of Tensor
        Points (n, 2), float32, and labels (n,), int64, for n = 5 · per_class.
    """
    labels = torch.arange(len(CENTRES)).repeat_interleave(per_class)
    return CENTRES[labels] + torch.randn(len(labels), 2), labels


def train(
    run: int, epochs: int = 5, per_class: int = 10_000
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Train a network on five Gaussians as the bsce paper does, and test it on 5,000 new points.

    The paper does not say how many units the hidden layer has; here it has 100. (Runs that are
    named after the network ``two_layers`` have 10 units, as the authors' notebook does.)

    Parameters
    ----------
    run : seed
    epochs : passes over the training points
    per_class : training points of each class

    Returns
    -------
    tuple of Tensor
        For the test points: logits (5000, 5), labels (5000,) and true probabilities (5000, 5).
    """
    torch.manual_seed(run)
    points, labels = draw(per_class)
    net = torch.nn.Sequential(torch.nn.Linear(2, 100), torch.nn.ReLU(), torch.nn.Linear(100, 5))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(1000):
            optimizer.zero_grad()
            losses.cross_entropy(net(points[batch]), labels[batch]).mean().backward()
            optimizer.step()
    points, labels = draw(1000)
    with torch.no_grad():
        return net(points), labels, data.gaussian_posterior(points)


def true_errors(
    logits: torch.Tensor, labels: torch.Tensor, eta: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Compute the "true error" of predictions by each definition that the bsce paper may mean.

    Parameters
    ----------
    logits : float tensor (n, k), predicted logits
    labels : integer tensor (n,), labels drawn from the true probabilities
    eta : float tensor (n, k), true probabilities

    Returns
    -------
    dict of Tensor
        Error of each sample (n,), by definition.
    """
    gap, predicted = eta - logits.softmax(1), logits.argmax(1)
    of_label, of_predicted = (gap.gather(1, at[:, None])[:, 0] for at in (labels, predicted))
    return {
        "‖η − p‖": gap.norm(dim=1),
        "‖η − p‖²": gap.square().sum(1),
        "|η − p|, predicted": of_predicted.abs(),
        "|η − p|, label": of_label.abs(),
        "η − p, label": of_label,
    }


def families() -> dict[str, dict[str, Callable]]:
    """Return the three weights of samples that the bsce paper compares, each with all exponents.

    Returns
    -------
    dict
        By name of the weight and by its exponents: a function of logits (n, k) and labels (n,) that
        returns weights (n,).
    """
    return {
        "focal": {f"γ = {g:g}": losses.focal_weight(gamma=g) for g in POWERS},
        "dual focal": {f"γ = {g:g}": losses.dual_focal_weight(gamma=g) for g in POWERS},
        "Brier": {
            f"γ = {g:g}, β = {b}": losses.brier_weight(gamma=g, beta=b)
            for g in POWERS
            for b in (1, 2, 4)
        },
    }


def best_correlations(trained) -> dict[str, dict[str, tuple[str, np.ndarray]]]:
    """Find the exponent with which each weight correlates best with the true error.

    The best exponent has the highest mean correlation over the runs.

    Parameters
    ----------
    trained : list of the results of `train`, one for each run

    Returns
    -------
    dict
        By definition of the true error and by weight: the best exponent as text, and its
        correlation in each run (runs,).
    """
    best: dict[str, dict[str, tuple[str, np.ndarray]]] = {}
    for reading in true_errors(*trained[0]):
        for family, members in families().items():
            tried = {
                name: np.array([_correlation(weight, reading, *one) for one in trained])
                for name, weight in members.items()
            }
            name = max(tried, key=lambda name: tried[name].mean())
            best.setdefault(reading, {})[family] = name, tried[name]
    return best


def _correlation(weight: Callable, reading: str, logits, labels, eta) -> float:
    """Correlate the weights of samples with their true error by one definition."""
    both = weight(logits, labels), true_errors(logits, labels, eta)[reading]
    return float(torch.corrcoef(torch.stack(both))[0, 1])


def fixed_point(loss: Callable, eta: np.ndarray, classes: int) -> np.ndarray:
    """Find by bisection the prediction at which the expected gradient of a loss is zero.

    Parameters
    ----------
    loss : function of logits (m, classes) and labels (m,) that returns the loss of each sample (m,)
    eta : float array (m,), true probabilities of the first class; the other classes share the rest
        evenly
    classes : number of classes

    Returns
    -------
    numpy.ndarray
        Predicted probability of the first class (m,), for each true probability.
    """
    low, high = np.full(len(eta), -40.0), np.full(len(eta), 40.0)
    shares = [eta] + [(1 - eta) / (classes - 1)] * (classes - 1)
    for _ in range(60):
        middle = (low + high) / 2
        logits = torch.zeros(len(eta), classes, dtype=torch.float64)
        logits[:, 0] = torch.from_numpy(middle)
        targets = (torch.full((len(eta),), label) for label in range(classes))
        pulls = (losses.gradient_logits(loss, logits, y)[:, 0].numpy() for y in targets)
        expected = sum(share * pull for share, pull in zip(shares, pulls, strict=True))
        low = np.where(expected < 0, middle, low)
        high = np.where(expected < 0, high, middle)
    return logits.softmax(1)[:, 0].numpy()
