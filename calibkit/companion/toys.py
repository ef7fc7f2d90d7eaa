"""Small experiments on five Gaussians, whose true class probabilities are known (bsce)."""

from collections.abc import Callable

import numpy as np
import torch

from calibkit import losses
from calibkit.data import readers

CENTRES = torch.tensor(readers.GAUSSIAN_MEANS, dtype=torch.float32)
POWERS = (0.25, 0.5, 1, 2, 3, 4, 5)


def draw(centres: torch.Tensor, per_class: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points (n, 2) around each centre with unit covariance, and their labels (n,)."""
    labels = torch.arange(len(centres)).repeat_interleave(per_class)
    return centres[labels] + torch.randn(len(labels), 2), labels


def posterior(points: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """True class probabilities (n, k) of points among Gaussians of unit covariance.

    >>> posterior(torch.zeros(1, 2), torch.tensor([[1.0, 0.0], [-1.0, 0.0]])).tolist()
    [[0.5, 0.5]]
    """
    return (-0.5 * torch.cdist(points, centres) ** 2).softmax(1)


def train(
    run: int, centres: torch.Tensor = CENTRES, epochs: int = 5, per_class: int = 10_000
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Test logits, labels and true probabilities of a network: the toy as the bsce paper has it.

    Its hidden layer has 100 units, which the paper does not say; the ``two_layers`` of runs has the
    10 of the authors' notebook.
    """
    torch.manual_seed(run)
    points, labels = draw(centres, per_class)
    net = torch.nn.Sequential(torch.nn.Linear(2, 100), torch.nn.ReLU(), torch.nn.Linear(100, 5))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(1000):
            optimizer.zero_grad()
            losses.cross_entropy(net(points[batch]), labels[batch]).mean().backward()
            optimizer.step()
    points, labels = draw(centres, 1000)
    with torch.no_grad():
        return net(points), labels, posterior(points, centres)


def true_errors(
    logits: torch.Tensor, labels: torch.Tensor, eta: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What the paper's "true error" of a prediction may mean, a number per sample each."""
    p = logits.softmax(1)
    at = {"label": labels[:, None], "prediction": p.argmax(1, keepdim=True)}
    gap = {name: (eta - p).gather(1, index)[:, 0] for name, index in at.items()}
    return {
        "‖η − p‖": (eta - p).norm(dim=1),
        "‖η − p‖²": (eta - p).square().sum(1),
        "|η − p|, predicted": gap["prediction"].abs(),
        "|η − p|, label": gap["label"].abs(),
        "η − p, label": gap["label"],
    }


def families() -> dict[str, dict[str, Callable]]:
    """The three weights that the paper compares, each with the exponents of one grid."""
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
    """For each reading of the true error, the best exponents of each weight and its r per run.

    Parameters
    ----------
    trained : list of what `train` returns
    """
    correlations: dict[tuple[str, str, str], list[float]] = {}
    for logits, labels, eta in trained:
        readings = true_errors(logits, labels, eta)
        for family, members in families().items():
            for name, weight in members.items():
                u = weight(logits, labels)
                for reading, error in readings.items():
                    r = float(torch.corrcoef(torch.stack([u, error]))[0, 1])
                    correlations.setdefault((reading, family, name), []).append(r)
    best: dict[str, dict[str, tuple[str, np.ndarray]]] = {}
    for (reading, family, name), r in correlations.items():
        winners = best.setdefault(reading, {})
        if family not in winners or np.mean(r) > winners[family][1].mean():
            winners[family] = name, np.array(r)
    return best


def fixed_point(loss: Callable, eta: np.ndarray, classes: int) -> np.ndarray:
    """Prediction at which the expected gradient of a loss vanishes, by bisection.

    Parameters
    ----------
    loss : of logits and targets
    eta : true probabilities (m,) of the first class; the others share the rest
    """
    low, high = np.full(len(eta), -40.0), np.full(len(eta), 40.0)
    shares = [eta] + [(1 - eta) / (classes - 1)] * (classes - 1)
    for _ in range(60):
        middle = (low + high) / 2
        logits = torch.zeros(len(eta), classes, dtype=torch.float64)
        logits[:, 0] = torch.from_numpy(middle)
        expected = 0.0
        for label, share in enumerate(shares):
            targets = torch.full((len(eta),), label)
            pull = losses.gradient_logits(loss, logits, targets)[:, 0].numpy()
            expected = expected + share * pull
        low = np.where(expected < 0, middle, low)
        high = np.where(expected < 0, high, middle)
    return logits.softmax(1)[:, 0].numpy()
