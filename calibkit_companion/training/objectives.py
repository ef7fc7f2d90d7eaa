"""The three parts of a training method: objective, update, averaging.

An **objective** is a function ``draw(batch, rng)``. It makes all random choices for a batch, such
as mixing ratios, and returns ``score(network)``, a function that gives each sample's loss (B,).
Calling ``score`` twice with the same weights gives the same loss, because SAM needs two passes.
Most objectives are an `Objective`, which draws random numbers before the GPU computes anything;
then a CUDA graph can replay the rest.

An **update** is one step of the optimiser with a score. **Averaging** of the weights is done by
`torch.optim.swa_utils`.

Functions such as `mixup` make an objective from the `TrainingSet` and the coefficients of a method.
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
    inputs : float32 tensor (B, ...), normalised and augmented; token ids are int64
    labels : int64 tensor (B,), classes
    index : int64 tensor (B,), positions in the training set
    """

    inputs: Tensor
    labels: Tensor
    index: Tensor


@dataclass(frozen=True)
class TrainingSet:
    """What an objective may know about the whole training set.

    Attributes
    ----------
    labels : int64 tensor (n,), the class of each sample
    classes : number of classes
    mean : float32 tensor, the mean input, in the shape of one input
    fetch : function of positions (B,) that returns the inputs (B, ...), normalised and augmented
    memory : tensors by name that an objective keeps from batch to batch; checkpoints save them
    parts : most parts of a network between which MIT-A can mix; its stages and its head count
    """

    labels: Tensor
    classes: int
    mean: Tensor
    fetch: Callable[[Tensor], Tensor]
    memory: dict[str, Tensor] = field(default_factory=dict)
    parts: int = 32

    @cached_property
    def by_class(self) -> tuple[Tensor, Tensor, Tensor]:
        """The positions of the samples, sorted by class.

        Returns
        -------
        tuple of Tensor
            Positions sorted by class (n,); for each class, the place of its first sample in that
            list (classes,), and its number of samples (classes,).
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
        """Select for each label the sample at a given share of the way through its class.

        For a share of 0.5, for example, it is the middle one of the samples of that class.

        Parameters
        ----------
        labels : int64 tensor of any shape, classes
        share : float64 tensor of the same shape, from 0 to below 1

        Returns
        -------
        Tensor
            Positions in the training set, in the same shape.
        """
        order, start, count = self.by_class
        return order[start[labels] + (share * count[labels]).long()]


@dataclass(frozen=True)
class Objective:
    """An objective that makes its random choices before the device computes anything.

    Attributes
    ----------
    prepare : function ``(batch, *chosen)`` that returns ``score(network)``; it draws nothing
    choose : function ``(size, rng)`` that draws the random choices for a batch of ``size`` samples,
        as arrays whose shapes depend on ``size`` alone
    partners : the training set, for an objective that mixes each sample with another sample of its
        class. The last array of `choose` then selects these partners, as the argument ``share`` of
        `TrainingSet.located`, and `prepare` gets the inputs of the partners in its place.
    """

    prepare: Callable[..., Score]
    choose: Callable[[int, np.random.Generator], tuple] = lambda size, rng: ()
    partners: TrainingSet | None = None

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Score:
        """Make the random choices for a batch.

        Parameters
        ----------
        batch : inputs, labels and positions
        rng : source of the random numbers

        Returns
        -------
        Callable
            Function of a network that returns the loss (B,) of each sample.
        """
        device = batch.labels.device
        chosen = [tensor(each).to(device) for each in self.choose(len(batch.labels), rng)]
        if self.partners:
            chosen[-1] = self.partners.fetch(self.partners.located(batch.labels, chosen[-1]))
        return self.prepare(batch, *chosen)


def tensor(value: float | np.ndarray) -> Tensor:
    """Convert an array or a number to a tensor of the same type.

    Parameters
    ----------
    value : array of any shape, or a number; a Python float becomes float64
    """
    return torch.from_numpy(np.asarray(value))


def base_loss(method: Method) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss of a method for samples that are not mixed.

    For a method that is defined only on mixed samples, such as mixup, the loss is cross-entropy.

    Parameters
    ----------
    method : objective, update and averaging, with coefficients

    Returns
    -------
    Callable
        Function of logits (B, k) and labels (B,) that returns the loss (B,) of each sample.
    """
    if method.objective in _OBJECTIVES:
        return losses.cross_entropy
    options = dict(method.options)
    if known := getattr(losses, method.objective, None):
        return known(**options) if options else known
    is_loss, own = plugins.objective(method.objective, options)
    return own if is_loss else losses.cross_entropy


def objective(method: Method, train: TrainingSet) -> Callable[[Batch, np.random.Generator], Score]:
    """Make the objective of a method for a training set.

    Parameters
    ----------
    method : objective, update and averaging, with coefficients
    train : the training set

    Returns
    -------
    Callable
        ``draw(batch, rng)``, which returns ``score(network)``. It is an `Objective` unless the
        method draws random numbers while it computes the loss.

    Raises
    ------
    ValueError
        The method mixes inputs, and the inputs are token ids.
    """
    if not train.mean.is_floating_point() and method.mixes:
        raise ValueError(f"{method.objective}: token ids cannot be mixed; use images or signals")
    if method.objective in _OBJECTIVES:
        return _OBJECTIVES[method.objective](train, **dict(method.options))
    if not hasattr(losses, method.objective):  # a user's method
        is_loss, factory = plugins.objective(method.objective, dict(method.options))
        if not is_loss:
            return _own(factory, plugins.source(method.objective), train)
    return _plain(base_loss(method))


def _plain(loss: Callable[[Tensor, Tensor], Tensor]):
    """Make an objective without random choices from a loss of logits and labels."""
    return Objective(lambda batch: lambda network: loss(network(batch.inputs), batch.labels))


def _own(factory: Callable, source: plugins.Source, train: TrainingSet):
    """Make an objective by a user's factory; errors of the user's code become one line."""

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
    """Make an objective on mixtures λ a + (1-λ) b of each sample a with another sample b.

    Parameters
    ----------
    alpha : α of the distribution Beta(α, α) of λ, above 0
    folded : replace λ by the larger of λ and 1 - λ
    inputs : mix the inputs; False takes the input of a
    targets : mix the targets; False takes the target of a
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
    """Mixup: mix each sample a of a batch with another sample b.

    The input is λ x_a + (1-λ) x_b. The loss is λ CE(y_a) + (1-λ) CE(y_b), with the cross-entropy
    CE. The ratio λ is drawn from Beta(α, α) for each batch.

    Parameters
    ----------
    train : the training set, not used
    alpha : α, above 0
    folded : 1 replaces λ by the larger of λ and 1 - λ; 0 takes λ as it is
    """
    return _mixed(alpha, bool(folded))


def mixup_to(train: TrainingSet, alpha: float):
    """Mixup of the targets only: the inputs are not mixed (mixup, table 2).

    Parameters
    ----------
    train : the training set, not used
    alpha : α of the distribution Beta(α, α) of the mixing ratio, above 0
    """
    return _mixed(alpha, inputs=False)


def mixup_io(train: TrainingSet, alpha: float):
    """Mixup of the inputs only: the target is the label of the larger part (mixup, table 2).

    Parameters
    ----------
    train : the training set, not used
    alpha : α of the distribution Beta(α, α) of the mixing ratio, above 0
    """
    return _mixed(alpha, targets=False)


def mixup_dt(train: TrainingSet, alpha: float):
    """Mixup without chance: shrink inputs and targets to their means (mixup, table 2).

    The factor of shrinking is E[λ], the mean of the mixing ratio of at least 1/2.

    Parameters
    ----------
    train : the training set, which gives the mean input and the shares of the classes
    alpha : α of the distribution Beta(α, α) of λ, above 0
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
    """Mixup within a class: mix each input with another input of its class (mixup, table 2).

    Parameters
    ----------
    train : the training set, from which the other inputs are drawn
    alpha : α of the distribution Beta(α, α) of the mixing ratio, above 0
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
    """Recover a and b from two mixtures m1 = λ1 a + (1-λ1) b and m2 = λ2 a + (1-λ2) b.

    These are equations 3 and 4 of the mixup paper; its equation for b has a misprint, which is
    corrected here.

    Parameters
    ----------
    mixed_1, mixed_2 : m1 and m2, tensors of equal shape
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
        # Without a margin λ1 - λ2 may be 0, by which `decouple` divides: such pairs are redrawn.
        if first - second >= max(margin, 1e-3):
            return first, second


def _mit(alpha: float, margin: float, parts: int, blocks: Callable[[nn.Module], list[Callable]]):
    """Make the objective of mixup inference in training (MIT).

    Each part of the network gets two mixtures of a pair of samples, with two ratios. Its two
    outputs are separated again by `decouple`. The loss is the mean of the cross-entropies of the
    two separated outputs.

    Parameters
    ----------
    alpha : α of the distribution Beta(α, α) of the mixing ratios, above 0
    margin : least difference between the two ratios, from 0 to below 1
    parts : most parts of a network; two ratios are drawn for each part
    blocks : function of a network that returns its parts, which are functions of a tensor
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
    """MIT-L: mix a pair of inputs twice and separate the logits (mixup, equations 3 and 4).

    Parameters
    ----------
    train : the training set, not used
    alpha : α of the distribution Beta(α, α) of the mixing ratios, above 0
    margin : least difference between the two ratios, from 0 to below 1
    """
    return _mit(alpha, margin, 1, lambda network: [network])


def mit_a(train: TrainingSet, alpha: float, margin: float):
    """MIT-A: separate the mixtures after every stage, and mix again before the next (public code).

    Parameters
    ----------
    train : the training set, which says how many stages a network may have
    alpha : α of the distribution Beta(α, α) of the mixing ratios, above 0
    margin : least difference between the two ratios, from 0 to below 1
    """
    return _mit(
        alpha,
        margin,
        train.parts,
        lambda network: [*network.stages, lambda x: network.head(network.pool(x))],
    )


# --- a partner, a memory --------------------------------------------------------------------------


def cs_kd(train: TrainingSet, temperature: float, weight: float):
    """CS-KD: cross-entropy plus the divergence from the prediction for another sample of the class.

    The loss is CE(x, y) + w T² KL(P(x'; T) ‖ P(x; T)). x' is another training sample of the class
    y. P(·; T) are probabilities at temperature T. No gradient flows through P(x'; T) (fmfp).

    Parameters
    ----------
    train : the training set, from which x' is drawn
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
    """CRL: cross-entropy plus a penalty if confidence does not follow past correctness (fmfp).

    The penalty of two neighbours i and j in the batch is
    max(0, |c_i - c_j| - sign(c_i - c_j)(κ_i - κ_j)). κ is the confidence. c measures in how many of
    the past epochs the sample was predicted correctly: 1 means in all of them, 0 means in as few as
    the training sample with the fewest. The last sample of a batch is a neighbour of the first.

    Parameters
    ----------
    train : the training set; its memory counts how often each sample was predicted correctly
    weight : factor of the penalty
    """
    right = torch.zeros(len(train.labels), device=train.labels.device)
    seen = torch.zeros_like(right)
    train.memory.update(right=right, seen=seen)

    def prepare(batch: Batch) -> Score:
        # Each sample comes once an epoch, so `most` is the number of past epochs.
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
    weight : w; the public code has 2
    formula : 1 divides the error once by the numbers of right and of wrong predictions, as the
        formula does; 0 divides twice, as the public code does, which makes the error 16 to 18 times
        as small
    """
    penalty = losses.mmce(weighted=True, normalisation="formula" if formula else "code")
    return _plain(lambda z, labels: losses.cross_entropy(z, labels) + weight * penalty(z, labels))


def consistency_gra(train: TrainingSet, draws: float, noise: float):
    """Cross-entropy whose gradient is multiplied by one minus the consistency (bsce, 16.1).

    The consistency of a sample is the mean probability of its label when noise is added to its
    features.

    Parameters
    ----------
    train : the training set, not used
    draws : number of noisy copies of the features
    noise : standard deviation of the noise, as a multiple of the features' standard deviation
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
    """A context in which batch norm does not update its running statistics.

    Batch norm still normalises by the statistics of the batch.

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
    """Compute the gradient of SAM: that of the loss at θ + ρ ∇L/‖∇L‖ (fmfp, algorithm 1).

    The gradient is left in the attribute ``grad`` of the weights. The weights θ are restored.

    Parameters
    ----------
    network : the network with the weights θ
    backward : function that computes the loss L of the batch, fills the gradients and returns L
    rho : ρ, the length of the step uphill
    statistics : "once" updates the running statistics of batch norm in the first pass, "twice" in
        both passes

    Returns
    -------
    Tensor
        The loss L at θ, a scalar.
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
