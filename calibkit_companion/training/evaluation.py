"""Measure a network: the numbers that its record keeps of logits, features and weights.

Every function takes tensors or arrays and returns numbers. No function needs the run.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn

from calibkit import confidence, losses, metrics, posthoc
from calibkit_companion.records import ranking
from calibkit_companion.records.keys import BY_LOG_ODDS

SNAPSHOT_SAMPLES = 1000  # test samples whose logits a record keeps at epochs before the last


def history_row(
    logits: np.ndarray,
    labels: np.ndarray,
    validation_logits: np.ndarray,
    validation_labels: np.ndarray,
    temperature: float | None = None,
) -> dict[str, float]:
    """Compute every metric of the test set, as trained and after temperature scaling.

    Parameters
    ----------
    logits : float array (n, k), logits of the test samples
    labels : integer array (n,), classes of the test samples
    validation_logits : float array (v, k), logits of the validation samples
    validation_labels : integer array (v,), classes of the validation samples
    temperature : above 0; by default the temperature with the lowest ECE on the validation samples

    Returns
    -------
    dict of float
        Metrics by name; shares are numbers from 0 to 1, and the NLL is in nats.
    """
    best, value = posthoc.optimal_temperature(logits, labels, "ece")
    if temperature is None:
        temperature, _ = posthoc.optimal_temperature(validation_logits, validation_labels, "ece")
    scaled = posthoc.FixedTemperature(temperature)
    validation_probs = torch.from_numpy(validation_logits).softmax(1).numpy()
    right = validation_logits.argmax(1) == validation_labels
    row = ranking.summary(logits, labels) | {
        "ece_optimal": value,
        "temperature_optimal": best,
        "ece_scaled": metrics.ece(scaled.predict_proba(logits), labels),
        "temperature": temperature,
        "validation_ece": metrics.ece(validation_probs, validation_labels),
        "validation_accuracy": float(np.mean(right)),
    }
    return scalars(row)


def shifted_row(logits: np.ndarray, labels: np.ndarray, temperature: float) -> dict[str, float]:
    """Compute every metric of a shifted test set, and four of them after temperature scaling.

    The ECE, the Brier score, the NLL and the AUROC after temperature scaling have names that end in
    ``_scaled``.

    Parameters
    ----------
    logits : float array (n, k), logits of the shifted samples
    labels : integer array (n,), classes of the shifted samples
    temperature : above 0; it was chosen on unshifted validation samples

    Returns
    -------
    dict of float
        Metrics by name; shares are numbers from 0 to 1, and the NLL is in nats.
    """
    row = scalars(ranking.summary(logits, labels))
    scaled = ranking.summary(logits / temperature, labels)
    row |= {f"{name}_scaled": scaled[name] for name in ("ece", "brier", "nll", "auroc")}
    row[f"auroc_scaled{BY_LOG_ODDS}"] = scaled[f"auroc{BY_LOG_ODDS}"]
    return row


def scalars(values: dict) -> dict[str, float]:
    """Keep the scalars of a dict, as floats, and leave out the arrays.

    Parameters
    ----------
    values : scalars and arrays by name
    """
    return {name: float(value) for name, value in values.items() if np.isscalar(value)}


def record_arrays(
    test: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    tracked: tuple[Tensor, Tensor, Tensor],
    early: dict[int, Tensor],
    followed: dict[int, tuple[Tensor, ...]],
) -> dict[str, np.ndarray]:
    """Collect the arrays that a record keeps of a trained network, with logits in half precision.

    A snapshot is an epoch at which more is kept than the metrics. Tracked samples are the training
    samples that are followed one by one.

    Parameters
    ----------
    test : logits (n, k) and labels (n,) of the test samples
    validation : logits (v, k) and labels (v,) of the validation samples
    tracked : logits (m, k) and labels (m,) of the tracked samples, and the epoch (m,) from which
        the network predicts each of them correctly until the end
    early : for each snapshot before the last epoch, the logits (s, k) of the first test samples
    followed : for each snapshot, the result of `follow` for the tracked samples

    Returns
    -------
    dict of numpy.ndarray
        Arrays of a `records.record.Record` by name.
    """
    half, small = np.float16, np.int16
    brier, gradient, tracked_logits, norms = (
        np.stack([x.numpy() for x in column]) for column in zip(*followed.values(), strict=True)
    )
    logits, labels, learned = (x.cpu().numpy() for x in tracked)
    (test, test_labels), (validation, validation_labels) = (
        [x.cpu().numpy() for x in part] for part in (test, validation)
    )
    return {
        "test_logits": test.astype(half),  # already rounded to half
        "test_labels": test_labels.astype(small),
        "validation_logits": validation.astype(half),
        "validation_labels": validation_labels.astype(small),
        "snapshot_epochs": np.array(list(early), small),
        "snapshot_logits": np.array([x.numpy() for x in early.values()], half).reshape(
            -1, min(SNAPSHOT_SAMPLES, len(test)), test.shape[1]
        ),
        "train_epochs": np.array(list(followed), small),
        "train_brier": brier,
        "train_gradient_norm": gradient,
        "train_logits": tracked_logits.astype(half),
        "train_feature_norm": norms.astype(half),
        "train_learned_epoch": learned,
        "train_max_logit": logits.max(1).astype(half),
        "train_labels": labels.astype(small),
    }


def follow(
    loss: Callable, network: nn.Module, logits: Tensor, features: Tensor, labels: Tensor
) -> tuple[Tensor, ...]:
    """Measure some samples: Brier score, gradient norm of the last layer, logits, feature norm.

    Parameters
    ----------
    loss : function of logits (B, k) and labels (B,) that returns the loss (B,) of each sample
    network : the network that computed the logits; if its attribute `has_features` is False, it has
        no last linear layer
    logits : float tensor (B, k)
    features : float tensor (B, d), the inputs of the last layer
    labels : integer tensor (B,), the classes

    Returns
    -------
    tuple of Tensor
        Brier scores (B,), gradient norms (B,), logits (B, k) and feature norms (B,), on the CPU.
        Gradient norms are NaN for a network without a last linear layer.
    """
    gradient = losses.last_layer_gradient_norm(loss, logits, labels, features)
    if not getattr(network, "has_features", True):  # a user's network
        gradient = torch.full_like(gradient, torch.nan)
    brier = losses.brier(logits, labels)
    return brier.cpu(), gradient.cpu(), logits.cpu(), features.norm(dim=1).cpu()


def feature_scores(
    train: Iterable[Tensor], validation: Iterable[Tensor], test: Iterable[Tensor], epochs: int
) -> dict[str, np.ndarray]:
    """Compute Trust Score and ConfidNet of the test samples, fitted on the whole training set.

    Parameters
    ----------
    train : features (n, d), logits (n, k) and labels (n,) of the training samples
    validation : features (v, d), logits (v, k) and labels (v,) of the validation samples
    test : features (m, d) and logits (m, k) of the test samples
    epochs : number of epochs for which the head of ConfidNet learns

    Returns
    -------
    dict of numpy.ndarray
        ``test_trust_score`` and ``test_confidnet``, (m,) each.
    """
    train, validation, (features, logits) = (
        [x.cpu().numpy() for x in part] for part in (train, validation, test)
    )
    trust = confidence.TrustScore().fit(train[0], train[2])
    net = confidence.ConfidNet(epochs).fit(*train, validation=validation)
    return {
        "test_trust_score": trust.score(features, logits.argmax(1)).astype(np.float32),
        "test_confidnet": net.score(features).astype(np.float32),
    }


def sharpness(
    network: nn.Module, batches: Callable[[], Iterable[tuple[Tensor, Tensor]]], n: int, rho: float
) -> float:
    """Measure by how much the mean cross-entropy L rises when the weights take one step uphill.

    The value is L(θ + ρ ∇L/‖∇L‖) - L(θ) (SAM; fmfp, eq. 9 and algorithm 1). The weights θ are
    restored afterwards.

    Parameters
    ----------
    network : the network with the weights θ, in evaluation mode
    batches : function that yields inputs (B, ...) and labels (B,) of all samples, batch by batch;
        called twice
    n : number of samples in all batches together
    rho : ρ, the length of the step

    Returns
    -------
    float
        The rise, in nats.
    """
    weights = list(network.parameters())

    def each_loss() -> Iterable[Tensor]:
        for inputs, labels in batches():
            yield losses.cross_entropy(network(inputs), labels).sum() / n

    before_step, gradients = 0.0, [torch.zeros_like(w) for w in weights]
    for loss in each_loss():
        before_step += float(loss.detach())
        torch._foreach_add_(gradients, torch.autograd.grad(loss, weights))
    with torch.no_grad():
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        kept = [w.clone() for w in weights]
        torch._foreach_add_(weights, torch._foreach_mul(gradients, rho / (norm + 1e-12)))
        after_step = sum(map(float, each_loss()))
        torch._foreach_copy_(weights, kept)
    return after_step - before_step
