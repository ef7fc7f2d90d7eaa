"""The three parts of a training method: objective, update, averaging.

An **objective** is a function ``draw(batch, rng)``. It makes all random choices for a batch (mixing
ratios, partners) and returns ``score(network)``, which gives the loss of each sample, (B,). Calling
``score`` twice on the same weights gives the same loss; an update with two passes needs that.
An `Objective` makes its choices apart from the rest, so that a graph of the step may replay that.

An **update** is one step of the optimiser with such a score. **Averaging** is
`torch.optim.swa_utils`.

Each function that makes an objective takes the `TrainingSet` and the coefficients of the method.
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
    """A batch of training samples.

    Attributes
    ----------
    inputs : normalised and augmented inputs, (B, ...)
    labels : their classes, (B,)
    index : their positions in the training set, (B,)
    """

    inputs: Tensor
    labels: Tensor
    index: Tensor


@dataclass(frozen=True)
class TrainingSet:
    """What an objective may ask of the whole training set.

    Attributes
    ----------
    labels : the class of each sample, (n,)
    classes : number of classes
    mean : mean input, in the shape of one input
    fetch : gives the inputs of some positions (B,), normalised and augmented, (B, ...)
    memory : tensors of an objective by name; a checkpoint keeps them
    parts : the most parts of the network that inputs can be mixed before: its stages and its head
    """

    labels: Tensor
    classes: int
    mean: Tensor
    fetch: Callable[[Tensor], Tensor]
    memory: dict[str, Tensor] = field(default_factory=dict)
    parts: int = 32

    @cached_property
    def by_class(self) -> tuple[Tensor, Tensor, Tensor]:
        """The samples sorted by class.

        Returns
        -------
        tuple of Tensor
            Positions sorted by class (n,); for each class, where it starts (classes,) and how many
            samples it has (classes,).
        """
        count = torch.bincount(self.labels, minlength=self.classes)
        return self.labels.argsort(stable=True), count.cumsum(0) - count, count

    def partners(self, labels: Tensor, rng: np.random.Generator) -> Tensor:
        """Draw a random training sample of the same class for each label.

        Parameters
        ----------
        labels : classes, (B,)
        rng : source of the random numbers

        Returns
        -------
        Tensor
            Positions in the training set, (B,).
        """
        return self.located(labels, torch.from_numpy(rng.random(len(labels))).to(labels.device))

    def located(self, labels: Tensor, share: Tensor) -> Tensor:
        """The sample that lies at a share of the way through each class.

        Parameters
        ----------
        labels : classes, of any shape
        share : from 0 to below 1, float64, of that shape

        Returns
        -------
        Tensor
            Positions in the training set, of that shape.
        """
        order, start, count = self.by_class
        return order[start[labels] + (share * count[labels]).long()]


@dataclass(frozen=True)
class Objective:
    """An objective whose random choices are arrays, made before the device sees the batch.

    Attributes
    ----------
    prepare : function ``(batch, *chosen)`` that returns ``score(network)``; on the device alone
    choose : function ``(size, rng)`` that returns arrays, of the same shapes for the same size
    partners : the training set, if the last array holds a share for each sample (`located`); then
        the inputs of these partners take its place in `chosen`
    """

    prepare: Callable[..., Score]
    choose: Callable[[int, np.random.Generator], tuple] = lambda size, rng: ()
    partners: TrainingSet | None = None

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Score:
        """Choose for a batch and score it.

        Parameters
        ----------
        batch : inputs, labels and positions
        rng : source of the random numbers
        """
        device = batch.labels.device
        chosen = [tensor(each).to(device) for each in self.choose(len(batch.labels), rng)]
        if self.partners:
            chosen[-1] = self.partners.fetch(self.partners.located(batch.labels, chosen[-1]))
        return self.prepare(batch, *chosen)


def tensor(value: float | np.ndarray) -> Tensor:
    """An array or a number of NumPy's as a tensor of the same type.

    Parameters
    ----------
    value : a number counts as float64
    """
    return torch.from_numpy(np.asarray(value))


def base_loss(method: Method) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss that a method gives an unmixed sample; cross-entropy if the method only mixes.

    Parameters
    ----------
    method : objective, update and averaging, with coefficients

    Returns
    -------
    Callable
        A function of logits (B, k) and labels (B,) that gives the loss of each sample, (B,).
    """
    if method.objective in _OBJECTIVES:
        return losses.cross_entropy
    if plugins.own(method.objective):
        is_loss, base = plugins.objective(method.objective, dict(method.options))
        return base if is_loss else losses.cross_entropy
    chosen = getattr(losses, method.objective)
    return chosen(**dict(method.options)) if method.options else chosen


def objective(method: Method, train: TrainingSet) -> Callable[[Batch, np.random.Generator], Score]:
    """The objective of a method on a training set.

    Parameters
    ----------
    method : objective, update and averaging, with coefficients
    train : the training set

    Returns
    -------
    Callable
        ``draw(batch, rng)``, which returns ``score(network)``; an `Objective` unless its choices
        are made in Python for every step.

    Raises
    ------
    ValueError
        The method mixes inputs, and the inputs are token ids.
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
    """An objective without random choices: the loss of the logits of the batch."""
    return Objective(lambda batch: lambda network: loss(network(batch.inputs), batch.labels))


def _own(factory: Callable, source: plugins.Source, train: TrainingSet):
    """An objective from a user's factory; errors in it are one line."""

    def checked(value: object, what: str) -> Callable:
        if not callable(value):
            raise source.error(f"gives a {type(value).__name__}, expected {what}")
        return plugins.guarded(source, value)

    draw = checked(factory(train), "draw(batch, rng) -> score")
    return lambda batch, rng: checked(draw(batch, rng), "score(network) -> (B,)")


# --- mixtures of two inputs -----------------------------------------------------------------------


def _ratio(rng: np.random.Generator, alpha: float) -> float:
    """Draw λ from Beta(α, α) and fold it to at least 1/2 (mixup)."""
    ratio = rng.beta(alpha, alpha)
    return max(ratio, 1 - ratio)


def _mixed(alpha: float, folded: bool = True, inputs: bool = True, targets: bool = True):
    """An objective on mixtures λ a + (1-λ) b of two samples a and b.

    Parameters
    ----------
    alpha : α of the Beta distribution of λ, above 0
    folded : take the larger of λ and 1 - λ
    inputs : mix inputs; otherwise the input is that of a
    targets : mix targets; otherwise the target is that of a
    """

    def choose(size: int, rng: np.random.Generator) -> tuple:
        ratio = _ratio(rng, alpha) if folded else rng.beta(alpha, alpha)
        return ratio, rng.permutation(size)

    def prepare(batch: Batch, ratio: Tensor, other: Tensor) -> Score:
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

    return Objective(prepare, choose)


def mixup(train: TrainingSet, alpha: float, folded: float = 0):
    """Mixup: inputs λ x_a + (1-λ) x_b, loss λ CE(y_a) + (1-λ) CE(y_b), λ from Beta(α, α).

    Parameters
    ----------
    train : the training set
    alpha : α of the Beta distribution, above 0
    folded : 1 takes the larger of λ and 1 - λ; 0 takes λ
    """
    return _mixed(alpha, bool(folded))


def mixup_to(train: TrainingSet, alpha: float):
    """Target only: plain inputs, mixed targets (mixup table 2).

    Parameters
    ----------
    train : the training set
    alpha : α of the Beta distribution of the mixing ratio, above 0
    """
    return _mixed(alpha, inputs=False)


def mixup_io(train: TrainingSet, alpha: float):
    """Input only: mixed inputs, target of the larger part (mixup table 2).

    Parameters
    ----------
    train : the training set
    alpha : α of the Beta distribution of the mixing ratio, above 0
    """
    return _mixed(alpha, targets=False)


def mixup_dt(train: TrainingSet, alpha: float):
    """Deterministic transform: inputs and targets shrunk to their means by E[λ] (mixup table 2).

    Parameters
    ----------
    train : the training set
    alpha : α of the Beta distribution of λ, above 0
    """
    quantiles = np.random.default_rng(0).beta(alpha, alpha, 1_000_000)
    shrink = float(np.maximum(quantiles, 1 - quantiles).mean())
    prior = torch.bincount(train.labels, minlength=train.classes) / len(train.labels)

    def prepare(batch: Batch) -> Score:
        shrunk = train.mean + shrink * (batch.inputs - train.mean)

        def score(network):
            logits = network(shrunk)
            to_prior = -(logits.log_softmax(1) * prior).sum(1)
            return shrink * losses.cross_entropy(logits, batch.labels) + (1 - shrink) * to_prior

        return score

    return Objective(prepare)


def mixup_sc(train: TrainingSet, alpha: float):
    """Same class: inputs mixed with an input of the same class, target kept (mixup table 2).

    Parameters
    ----------
    train : the training set
    alpha : α of the Beta distribution of the mixing ratio, above 0
    """

    def choose(size: int, rng: np.random.Generator) -> tuple:
        return _ratio(rng, alpha), rng.random(size)

    def prepare(batch: Batch, ratio: Tensor, partner: Tensor) -> Score:
        mixed = ratio * batch.inputs + (1 - ratio) * partner
        return lambda network: losses.cross_entropy(network(mixed), batch.labels)

    return Objective(prepare, choose, train)


# --- mixup inference in training ------------------------------------------------------------------


def decouple(
    mixed_1: Tensor, mixed_2: Tensor, ratio_1: float | Tensor, ratio_2: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Solve m1 = λ1 a + (1-λ1) b, m2 = λ2 a + (1-λ2) b for a and b (mixup eqs 3-4, ŷ_b corrected).

    Parameters
    ----------
    mixed_1, mixed_2 : the two mixtures m1 and m2, of one shape
    ratio_1, ratio_2 : λ1 and λ2, which must differ

    Returns
    -------
    tuple of Tensor
        a and b, in the shape of the mixtures.

    Examples
    --------
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
    """Draw λ1 of at least 1/2 and λ2 of at most 1/2 that lie at least `margin` apart."""
    while True:
        first, second = _ratio(rng, alpha), 1 - _ratio(rng, alpha)
        # Without a margin the paper divides by λ1 - λ2, which may be 0: such pairs are redrawn.
        if first - second >= max(margin, 1e-3):
            return first, second


def _mit(alpha: float, margin: float, parts: int, blocks: Callable[[nn.Module], list[Callable]]):
    """MIT: mix a pair twice, separate the two outputs, and score each by its label.

    Parameters
    ----------
    alpha : α of the Beta distribution of the mixing ratios, above 0
    margin : least distance of the two ratios, from 0 to below 1
    parts : the most parts of a network; each has two ratios of its own
    blocks : gives the parts of a network after each of which the mixtures are separated
    """

    def choose(size: int, rng: np.random.Generator) -> tuple:
        other, own = rng.permutation(size), np.random.default_rng(rng.integers(2**63))
        return other, np.array([_two_ratios(own, alpha, margin) for _ in range(parts)])

    def prepare(batch: Batch, other: Tensor, ratios: Tensor) -> Score:
        def score(network):
            first, second = batch.inputs, batch.inputs[other]
            for part, block in enumerate(blocks(network)):
                ratio_1, ratio_2 = ratios[part]
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

    return Objective(prepare, choose)


def mit_l(train: TrainingSet, alpha: float, margin: float):
    """MIT-L: mixtures separated once, at the logits (mixup eqs 3-4).

    Parameters
    ----------
    train : the training set
    alpha : α of the Beta distribution of the mixing ratios, above 0
    margin : least distance of the two ratios, from 0 to below 1
    """
    return _mit(alpha, margin, 1, lambda network: [network])


def mit_a(train: TrainingSet, alpha: float, margin: float):
    """MIT-A: mixtures separated after every stage and mixed again before the next (authors' code).

    Parameters
    ----------
    train : the training set
    alpha : α of the Beta distribution of the mixing ratios, above 0
    margin : least distance of the two ratios, from 0 to below 1
    """
    return _mit(
        alpha,
        margin,
        train.parts,
        lambda network: [*network.stages, lambda x: network.head(network.pool(x))],
    )


# --- a partner, a memory --------------------------------------------------------------------------


def cs_kd(train: TrainingSet, temperature: float, weight: float):
    """CS-KD: CE(x, y) + w T² KL(P(x'; T) ‖ P(x; T)), x' of the same class and detached (fmfp).

    Parameters
    ----------
    train : the training set
    temperature : T, above 0
    weight : w, the factor of the divergence
    """

    def prepare(batch: Batch, partner: Tensor) -> Score:
        def score(network):
            logits = network(batch.inputs)
            with torch.no_grad():
                teacher = (network(partner) / temperature).log_softmax(1)
            student = (logits / temperature).log_softmax(1)
            divergence = (teacher.exp() * (teacher - student)).sum(1)
            return losses.cross_entropy(logits, batch.labels) + weight * temperature**2 * divergence

        return score

    return Objective(prepare, lambda size, rng: (rng.random(size),), train)


def crl(train: TrainingSet, weight: float):
    """CRL: cross-entropy plus a penalty where confidence does not follow past correctness (fmfp).

    For neighbours i, j in the batch (the last beside the first) the penalty is
    max(0, |c_i - c_j| - sign(c_i - c_j)(κ_i - κ_j)). κ is the confidence. c is the share of past
    epochs in which the sample was right, rescaled to [0, 1]; it is zero while all samples are
    alike.

    Parameters
    ----------
    train : the training set; its memory keeps how often each sample was right
    weight : factor of the penalty
    """
    right = torch.zeros(len(train.labels), device=train.labels.device)
    seen = torch.zeros_like(right)
    train.memory.update(right=right, seen=seen)

    def prepare(batch: Batch) -> Score:
        # A sample comes up once an epoch, so it has been seen in every past epoch.
        least, most = right.min(), seen[batch.index].max()
        share = (right[batch.index] - least) / (most - least).clamp(min=1)
        difference = share - share.roll(-1)
        counted = False

        def score(network):
            nonlocal counted
            logits = network(batch.inputs)
            if not counted:  # a second pass over the batch counts once
                right[batch.index] += (logits.argmax(1) == batch.labels).float()
                seen[batch.index] += 1
                counted = True
            confidence = logits.softmax(1).amax(1)
            gap = confidence - confidence.roll(-1)
            ranking = (difference.abs() - difference.sign() * gap).clamp(min=0)
            return losses.cross_entropy(logits, batch.labels) + weight * ranking

        return score

    return Objective(prepare)


def mmce(train: TrainingSet, weight: float, formula: float = 0):
    """MMCE: cross-entropy plus w times the balanced kernel calibration error of the batch (bsce).

    Parameters
    ----------
    train : the training set, not used
    weight : w; 2 belongs to the penalty of the public code, which divides twice by the counts
    formula : 1 divides once, as the formula does, which is 16 to 18 times as much; 0 divides twice
    """
    penalty = losses.mmce(weighted=True, normalisation="formula" if formula else "code")
    return _plain(lambda z, labels: losses.cross_entropy(z, labels) + weight * penalty(z, labels))


def consistency_gra(train: TrainingSet, draws: float, noise: float):
    """Cross-entropy with its gradient weighted by one minus the consistency (bsce, section 16.1).

    Parameters
    ----------
    train : the training set, not used
    draws : number of noisy copies of the features
    noise : standard deviation of the noise on the features
    """

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
    """Keep the running statistics of batch norm as they are; batch norm normalises by the batch.

    Parameters
    ----------
    network : the network, in training mode
    """
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
    """Put the gradient at θ + ρ ∇L/‖∇L‖ into ``.grad`` and restore θ (SAM; fmfp algorithm 1).

    Parameters
    ----------
    network : the network with the weights θ
    backward : computes the loss of the batch, fills the gradients and returns the loss, ()
    rho : ρ, the length of the step uphill
    statistics : "once": running statistics of batch norm see the first pass; "twice": both passes

    Returns
    -------
    Tensor
        The loss at θ, ().
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
