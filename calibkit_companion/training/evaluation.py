"""What a record says about a network: numbers of logits, of features and of weights.

Nothing here knows a run: every function takes tensors or arrays and gives numbers.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn

from calibkit import confidence, losses, metrics, posthoc
from calibkit_companion.records import ranking
from calibkit_companion.records.keys import BY_LOG_ODDS

SNAPSHOT_SAMPLES = 1000  # of the test set, at epochs before the last; figures need no more


def history_row(
    logits: np.ndarray,
    labels: np.ndarray,
    validation_logits: np.ndarray,
    validation_labels: np.ndarray,
    temperature: float | None = None,
) -> dict[str, float]:
    """Every metric of the test set, also after temperature scaling.

    Parameters
    ----------
    logits : of the test samples, (n, k)
    labels : their classes, (n,)
    validation_logits : of the validation samples, (v, k)
    validation_labels : their classes, (v,)
    temperature : the temperature, above 0; default the one of lowest ECE on the validation samples

    Returns
    -------
    dict of float
        Metrics by name, in natural units.
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
    """Every metric of a shifted test set, and the calibrated ones after temperature scaling.

    Parameters
    ----------
    logits : of the shifted samples, (n, k)
    labels : their classes, (n,)
    temperature : the temperature that was chosen on unshifted validation samples, above 0

    Returns
    -------
    dict of float
        Metrics by name, in natural units.
    """
    row = scalars(ranking.summary(logits, labels))
    scaled = ranking.summary(logits / temperature, labels)
    row |= {f"{name}_scaled": scaled[name] for name in ("ece", "brier", "nll", "auroc")}
    row[f"auroc_scaled{BY_LOG_ODDS}"] = scaled[f"auroc{BY_LOG_ODDS}"]
    return row


def scalars(values: dict) -> dict[str, float]:
    """The scalars of a dict as floats; arrays are left out.

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
    """The arrays that a record keeps of a trained network; logits at half precision.

    Parameters
    ----------
    test : logits (n, k) and labels (n,) of the test samples
    validation : logits (v, k) and labels (v,) of the validation samples
    tracked : logits (m, k) and labels (m,) of the tracked training samples, and the epoch from
        which each stays right, (m,)
    early : by epoch of an earlier snapshot, logits of the first test samples, (s, k)
    followed : by epoch of a snapshot, what `follow` gives for the tracked samples

    Returns
    -------
    dict of numpy.ndarray
        The arrays of a `records.record.Record`, by name.
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
    """Brier score, gradient norm of the last layer, logits and feature norm of some samples.

    Parameters
    ----------
    loss : function of logits (B, k) and labels (B,) that gives the loss of each sample, (B,)
    network : gave the logits; one with `has_features` False has no last linear layer
    logits : (B, k)
    features : inputs of the last layer, (B, d)
    labels : classes, (B,)

    Returns
    -------
    tuple of Tensor
        (B,), (B,), (B, k) and (B,) on the CPU; gradient norms are NaN without a last linear layer.
    """
    gradient = losses.last_layer_gradient_norm(loss, logits, labels, features)
    if not getattr(network, "has_features", True):  # a user's network
        gradient = torch.full_like(gradient, torch.nan)
    brier = losses.brier(logits, labels)
    return brier.cpu(), gradient.cpu(), logits.cpu(), features.norm(dim=1).cpu()


def feature_scores(
    train: Iterable[Tensor], validation: Iterable[Tensor], test: Iterable[Tensor], epochs: int
) -> dict[str, np.ndarray]:
    """Trust Score and ConfidNet of the test samples, fitted on the whole training set.

    Parameters
    ----------
    train : features (n, d), logits (n, k) and labels (n,) of the training samples
    validation : the same of the validation samples, (v, d), (v, k) and (v,)
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
    """Rise of the mean cross-entropy when the weights take one step uphill; they are restored.

    The value is L(θ + ρ ∇L/‖∇L‖) - L(θ) (SAM; fmfp, eq. 9 and algorithm 1).

    Parameters
    ----------
    network : the network with the weights θ, in evaluation mode
    batches : gives inputs (B, ...) and labels (B,) of all samples, batch by batch; called twice
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
