"""The three axes of a training method: objective, update, averaging.

An **objective** is drawn for each batch and then scores a network. ``draw(batch, rng)`` makes all
random choices (mixing ratios, partners) and returns ``score(network) -> (B,)``, the loss of each
sample. Scoring twice gives the same loss, which is what an update with two passes needs.

An **update** is one optimiser step given such a score; **averaging** is torch's own
`torch.optim.swa_utils`.
"""

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from calibkit import losses
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.method import Method

Score = Callable[[nn.Module], Tensor]


@dataclass(frozen=True)
class Batch:
    inputs: Tensor  # normalised and augmented, (B, ...)
    labels: Tensor  # (B,)
    index: Tensor  # (B,) positions in the training set


@dataclass(frozen=True)
class TrainingSet:
    """What an objective may ask of the whole training set."""

    labels: Tensor  # (n,)
    classes: int
    mean: Tensor  # mean input, shape of one input
    fetch: Callable[[Tensor], Tensor]  # positions -> inputs, normalised and augmented
    memory: dict[str, Tensor] = field(default_factory=dict)  # of an objective; checkpoints keep it

    @cached_property
    def by_class(self) -> tuple[Tensor, Tensor, Tensor]:
        """Positions sorted by class, and where each class starts and how many it has."""
        count = torch.bincount(self.labels, minlength=self.classes)
        return self.labels.argsort(stable=True), count.cumsum(0) - count, count

    def partners(self, labels: Tensor, rng: np.random.Generator) -> Tensor:
        """For each label, the position of a random training sample of that class."""
        order, start, count = self.by_class
        share = torch.from_numpy(rng.random(len(labels))).to(labels.device)
        return order[start[labels] + (share * count[labels]).long()]


def base_loss(method: Method) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of a plain sample under a method; cross-entropy where the method only mixes."""
    if method.objective in _OBJECTIVES:
        return losses.cross_entropy
    if plugins.own(method.objective):
        is_loss, base = plugins.objective(method.objective, dict(method.options))
        return base if is_loss else losses.cross_entropy
    chosen = getattr(losses, method.objective)
    return chosen(**dict(method.options)) if method.options else chosen


def objective(method: Method, train: TrainingSet) -> Callable[[Batch, np.random.Generator], Score]:
    """The objective of a method on a training set: ``draw(batch, rng) -> score``.

    Raises
    ------
    ValueError
        A method which mixes inputs, on token ids.
    """
    if method.objective.startswith(("mixup", "mit")) and not train.mean.is_floating_point():
        raise ValueError(f"{method.objective}: token ids cannot be mixed; use images or signals")
    if method.objective in _OBJECTIVES:
        return _OBJECTIVES[method.objective](train, **dict(method.options))
    if plugins.own(method.objective):
        is_loss, factory = plugins.objective(method.objective, dict(method.options))
        if not is_loss:
            return _own(factory, plugins.source(method.objective), train)
    return _plain(base_loss(method))


def _plain(loss: Callable[[Tensor, Tensor], Tensor]):
    """Draws nothing: a loss of the logits of the batch as it is."""
    return lambda batch, rng: lambda network: loss(network(batch.inputs), batch.labels)


def _own(factory: Callable, source: plugins.Source, train: TrainingSet):
    """Draws of somebody's own factory, whose errors are one line."""

    def checked(value: object, what: str) -> Callable:
        if not callable(value):
            raise source.error(f"gives a {type(value).__name__}, expected {what}")
        return plugins.guarded(source, value)

    draw = checked(factory(train), "draw(batch, rng) -> score")
    return lambda batch, rng: checked(draw(batch, rng), "score(network) -> (B,)")


# --- mixtures of two inputs -----------------------------------------------------------------------


def _ratio(rng: np.random.Generator, alpha: float) -> float:
    """λ ~ Beta(α, α) folded to at least 1/2 (mixup)."""
    ratio = rng.beta(alpha, alpha)
    return max(ratio, 1 - ratio)


def _mixed(alpha: float, folded: bool = True, inputs: bool = True, targets: bool = True):
    """Mixtures λ a + (1-λ) b of inputs, of targets or of both; what is not mixed is that of a."""

    def draw(batch: Batch, rng: np.random.Generator) -> Score:
        ratio = _ratio(rng, alpha) if folded else rng.beta(alpha, alpha)
        other = torch.from_numpy(rng.permutation(len(batch.labels))).to(batch.labels.device)
        seen = batch.inputs
        if inputs:
            seen = ratio * batch.inputs + (1 - ratio) * batch.inputs[other]

        def score(network):
            logits = network(seen)
            own = losses.cross_entropy(logits, batch.labels)
            if not targets:
                return own
            return ratio * own + (1 - ratio) * losses.cross_entropy(logits, batch.labels[other])

        return score

    return draw


def mixup(train: TrainingSet, alpha: float, folded: float = 0):
    """Inputs λ x_a + (1-λ) x_b, scored λ CE(y_a) + (1-λ) CE(y_b), λ ~ Beta(α, α)."""
    return _mixed(alpha, bool(folded))


def mixup_to(train: TrainingSet, alpha: float):
    """Target only: plain inputs, mixed targets (mixup table 2)."""
    return _mixed(alpha, inputs=False)


def mixup_io(train: TrainingSet, alpha: float):
    """Input only: mixed inputs, target of the larger part (mixup table 2)."""
    return _mixed(alpha, targets=False)


def mixup_dt(train: TrainingSet, alpha: float):
    """Deterministic transform: inputs and targets shrunk to their means by E[λ] (mixup table 2)."""
    quantiles = np.random.default_rng(0).beta(alpha, alpha, 1_000_000)
    shrink = float(np.maximum(quantiles, 1 - quantiles).mean())
    prior = torch.bincount(train.labels, minlength=train.classes) / len(train.labels)

    def draw(batch: Batch, rng: np.random.Generator) -> Score:
        shrunk = train.mean + shrink * (batch.inputs - train.mean)

        def score(network):
            logits = network(shrunk)
            to_prior = -(logits.log_softmax(1) * prior).sum(1)
            return shrink * losses.cross_entropy(logits, batch.labels) + (1 - shrink) * to_prior

        return score

    return draw


def mixup_sc(train: TrainingSet, alpha: float):
    """Same class: inputs mixed with one of their own class, target kept (mixup table 2)."""

    def draw(batch: Batch, rng: np.random.Generator) -> Score:
        ratio = _ratio(rng, alpha)
        partner = train.fetch(train.partners(batch.labels, rng))
        mixed = ratio * batch.inputs + (1 - ratio) * partner
        return lambda network: losses.cross_entropy(network(mixed), batch.labels)

    return draw


# --- mixup inference in training ------------------------------------------------------------------


def decouple(
    mixed_1: Tensor, mixed_2: Tensor, ratio_1: float, ratio_2: float
) -> tuple[Tensor, Tensor]:
    """Solve m1 = λ1 a + (1-λ1) b, m2 = λ2 a + (1-λ2) b for a and b (mixup eqs 3-4, ŷ_b corrected).

    >>> a, b = torch.tensor([1.0]), torch.tensor([5.0])
    >>> decouple(0.75 * a + 0.25 * b, 0.25 * a + 0.75 * b, 0.75, 0.25)
    (tensor([1.]), tensor([5.]))
    """
    gap = ratio_1 - ratio_2
    return (
        ((1 - ratio_2) * mixed_1 - (1 - ratio_1) * mixed_2) / gap,
        (ratio_1 * mixed_2 - ratio_2 * mixed_1) / gap,
    )


def _two_ratios(rng: np.random.Generator, alpha: float, margin: float) -> tuple[float, float]:
    while True:
        first, second = _ratio(rng, alpha), 1 - _ratio(rng, alpha)
        # Without a margin the paper divides by λ1 - λ2, which may be 0: such pairs are redrawn.
        if first - second >= max(margin, 1e-3):
            return first, second


def _mit(alpha: float, margin: float, blocks: Callable[[nn.Module], list[Callable]]):
    def draw(batch: Batch, rng: np.random.Generator) -> Score:
        other = torch.from_numpy(rng.permutation(len(batch.labels))).to(batch.labels.device)
        seed = rng.integers(2**63)

        def score(network):
            again = np.random.default_rng(seed)  # the same ratios in every pass
            first, second = batch.inputs, batch.inputs[other]
            for block in blocks(network):
                ratio_1, ratio_2 = _two_ratios(again, alpha, margin)
                first, second = decouple(
                    block(ratio_1 * first + (1 - ratio_1) * second),
                    block(ratio_2 * first + (1 - ratio_2) * second),
                    ratio_1,
                    ratio_2,
                )
            return 0.5 * losses.cross_entropy(first, batch.labels) + 0.5 * losses.cross_entropy(
                second, batch.labels[other]
            )

        return score

    return draw


def mit_l(train: TrainingSet, alpha: float, margin: float):
    """Mixup inference in training, decoupled once, at the logits (mixup eqs 3-4)."""
    return _mit(alpha, margin, lambda network: [network])


def mit_a(train: TrainingSet, alpha: float, margin: float):
    """Mixup inference in training, decoupled and mixed anew after every stage (authors' code)."""
    return _mit(
        alpha,
        margin,
        lambda network: [*network.stages, lambda x: network.head(network.pool(x))],
    )


# --- a partner, a memory --------------------------------------------------------------------------


def cs_kd(train: TrainingSet, temperature: float, weight: float):
    """CE(x, y) + w T² KL(P(x'; T) ‖ P(x; T)), x' of the same class, detached (fmfp)."""

    def draw(batch: Batch, rng: np.random.Generator) -> Score:
        partner = train.fetch(train.partners(batch.labels, rng))

        def score(network):
            logits = network(batch.inputs)
            with torch.no_grad():
                teacher = (network(partner) / temperature).log_softmax(1)
            student = (logits / temperature).log_softmax(1)
            divergence = (teacher.exp() * (teacher - student)).sum(1)
            return losses.cross_entropy(logits, batch.labels) + weight * temperature**2 * divergence

        return score

    return draw


def crl(train: TrainingSet, weight: float):
    """CE plus a ranking loss: who was right more often should be more confident (fmfp's CRL).

    For neighbours i, j in the batch (the last beside the first) the penalty is
    max(0, \\|c_i - c_j\\| - sign(c_i - c_j)(κ_i - κ_j)), with κ the confidence and c the share of
    past epochs in which the sample was right, rescaled to [0, 1]; zero while all samples are alike.
    """
    right = torch.zeros(len(train.labels), device=train.labels.device)
    seen = torch.zeros_like(right)
    train.memory.update(right=right, seen=seen)

    def draw(batch: Batch, rng: np.random.Generator) -> Score:
        # This batch comes up once an epoch: it has been seen in every epoch that is over.
        least, most = right.min(), seen[batch.index].max()
        share = (right[batch.index] - least) / (most - least).clamp(min=1)
        difference = share - share.roll(-1)
        counted = False

        def score(network):
            nonlocal counted
            logits = network(batch.inputs)
            if not counted:  # a second pass over the same batch is the same moment of history
                right[batch.index] += (logits.argmax(1) == batch.labels).float()
                seen[batch.index] += 1
                counted = True
            confidence = logits.softmax(1).amax(1)
            gap = confidence - confidence.roll(-1)
            ranking = (difference.abs() - difference.sign() * gap).clamp(min=0)
            return losses.cross_entropy(logits, batch.labels) + weight * ranking

        return score

    return draw


def mmce(train: TrainingSet, weight: float, formula: float = 0):
    """CE plus w times the kernel calibration error of the batch, balanced (bsce baseline).

    The weight of 2 belongs to the penalty of the public code, which divides twice by the counts.
    `formula` 1 divides once, as the formula does, which is 16 to 18 times as much.
    """
    penalty = losses.mmce(weighted=True, normalisation="formula" if formula else "code")
    return _plain(lambda z, labels: losses.cross_entropy(z, labels) + weight * penalty(z, labels))


def consistency_gra(train: TrainingSet, draws: float, noise: float):
    """CE, its gradient weighted by one minus the consistency under noise (bsce, section 16.1)."""

    def draw(batch: Batch, rng: np.random.Generator) -> Score:
        seed = int(rng.integers(2**31))

        def score(network):
            features = network.features(batch.inputs)
            weight = losses.consistency_weight(
                features,
                batch.labels,
                network.head,
                int(draws),
                noise,
                torch.Generator().manual_seed(seed),
            )
            return losses.gradient_weighted(network.head(features), batch.labels, weight)

        return score

    return draw


_OBJECTIVES = {
    f.__name__: f
    for f in (
        *(mixup, mixup_dt, mixup_to, mixup_sc, mixup_io, mit_l, mit_a),
        *(cs_kd, crl, mmce, consistency_gra),
    )
}


# --- updates --------------------------------------------------------------------------------------


@contextmanager
def frozen_statistics(network: nn.Module):
    """Batch norm normalises by the batch but leaves its running statistics alone."""
    layers = [m for m in network.modules() if isinstance(m, _BatchNorm)]
    momenta = [m.momentum for m in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


def sharpness_aware(
    network: nn.Module, backward: Callable[[], Tensor], rho: float, statistics: str = "once"
) -> Tensor:
    """Leave in ``.grad`` the gradient at θ + ρ ∇L/‖∇L‖, and θ as it was (SAM; fmfp algorithm 1).

    `backward` computes the loss of the batch, fills the gradients and returns the loss. Running
    statistics of batch norm see the first pass only, or both with ``statistics="twice"``.
    """
    loss = backward()
    weights = [p for p in network.parameters() if p.grad is not None]
    with torch.no_grad():
        gradients = [p.grad for p in weights]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        before = [p.clone() for p in weights]
        torch._foreach_add_(weights, torch._foreach_mul(gradients, rho / (norm + 1e-12)))
    network.zero_grad(set_to_none=True)
    with frozen_statistics(network) if statistics == "once" else nullcontext():
        backward()
    with torch.no_grad():
        torch._foreach_copy_(weights, before)
    return loss
