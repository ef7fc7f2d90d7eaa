"""Try a user's method or network on a few batches, so that mistakes show before the training."""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from calibkit_companion import data
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.method import PASSES
from calibkit_companion.experiments.run import Run
from calibkit_companion.training.networks import Network
from calibkit_companion.training.objectives import Batch

_TRIED: set[tuple] = set()


def try_once(run: Run, training: Callable, log: Callable) -> None:
    """Try a user's method or network before the first of its runs; later seeds are not tried.

    Parameters
    ----------
    run : the run that is about to train
    training : function without arguments that makes a new `loop.Training` of that run
    log : function that takes one line of text about the trial

    Raises
    ------
    plugins.PluginError
        The method or network cannot be trained; the message is one line that says why.
    """
    key = (run.dataset, run.network, run.recipe, run.protocol)
    if key in _TRIED or not run.own:
        return
    data.load(run.dataset)  # decodes the data if necessary, which may take minutes
    log(f"{run.method} on {run.network}: {rehearse(training())}")
    _TRIED.add(key)


def rehearse(training) -> str:
    """Try a user's method or network on a few batches.

    Parameters
    ----------
    training : a new `loop.Training`; the trial changes it, so do not train with it afterwards

    Returns
    -------
    str
        One line: milliseconds of a step, minutes of a run, and what cannot be measured.

    Raises
    ------
    plugins.PluginError
        The method or network cannot be trained; the message is one line that says why.
    """
    run = training.run
    remarks = _try_network(training) if run.architecture in run.own else []
    if run.recipe.objective in run.own:
        _try_loss(training)
    seconds = _try_step(training)
    steps = len(training.labels) / run.protocol.batch_size * run.protocol.epochs
    steps *= 2 if run.recipe.update == "sam" else 1
    many = run.protocol.batch_size
    cost = f"{1000 * seconds:.3g} ms a step of {many} samples, {steps * seconds / 60:.1f} min a run"
    return "; ".join([cost, *remarks])


def _try_network(training) -> list[str]:
    """Check a user's network and return what cannot be measured of it.

    The network must give finite logits for two samples and for one sample, and have the parts that
    the run needs.
    """
    network, run = training.network, training.run
    source = plugins.source(run.architecture)
    inputs = training.training_inputs(torch.arange(2, device=training.device))
    for size in (2, 1):
        network.train(size > 1)  # batch norm cannot train on one sample
        _check(source, network(inputs[:size]), (size, len(training.data.classes)), "logits")
    if run.recipe.objective in ("mit_l", "mit_a") and not isinstance(network, Network):
        raise source.error(
            f"{run.method} mixes between stages; return a "
            "calibkit_companion.training.networks.Network(stages, pool, head)"
        )
    if getattr(network, "has_features", True):
        return []
    if run.protocol.feature_scores:
        raise source.error(
            "Trust Score and ConfidNet need features; end the network in an nn.Linear that gives "
            "the logits"
        )
    return ["no last linear layer: no gradient norms"]


def _try_loss(training) -> None:
    """Check that a user's loss gives one finite value per sample, for eight samples and for one."""
    recipe, classes = training.run.recipe, len(training.data.classes)
    source = plugins.source(recipe.objective)
    is_loss, function = plugins.objective(recipe.objective, dict(recipe.options))
    if not is_loss:
        return
    rng = torch.Generator().manual_seed(0)
    for size in (8, 1):
        logits = torch.randn(size, classes, generator=rng).to(training.device)
        targets = torch.arange(size, device=training.device) % classes
        _check(source, function(logits, targets), (size,), "a loss of each sample")


def _try_step(training) -> float:
    """Compute loss and gradients of a few real batches; return the median seconds of a step."""
    recipe, network, protocol = training.run.recipe, training.network, training.protocol
    source = plugins.source(
        recipe.objective if plugins.own(recipe.objective) else training.run.architecture
    )
    batches = torch.arange(len(training.labels), device=training.device).split(protocol.batch_size)
    seconds, passes, done = [], [0, 0], 0

    def count(_, inputs) -> None:
        passes[0] += len(inputs[0])
        passes[1] += len(inputs[0]) * torch.is_grad_enabled()

    network.train()
    with training.products, network.register_forward_pre_hook(count):
        for index in (b for b in batches[:4] if len(b) > 1):
            start = time.perf_counter()
            batch = Batch(training.training_inputs(index), training.labels[index], index)
            score = training.draw(batch, training.rng)
            network.zero_grad(set_to_none=True)
            with torch.autocast(training.device.type, torch.bfloat16, enabled=training.bfloat16):
                values = score(network)
            _check(source, values, (len(index),), "a loss of each sample")
            if values.requires_grad:
                values.sum().backward()
            if training.device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
            done += len(index)
            if sum(seconds) > 10:  # a large network on a CPU: few batches must do
                break
    gradients = [w.grad for w in network.parameters() if w.grad is not None]
    if not any(g.any() for g in gradients):
        raise source.error("no gradient reaches the network")
    for gradient in gradients:
        _check(source, gradient, gradient.shape, "the gradient in the weights")
    if plugins.own(recipe.objective):
        PASSES[recipe.objective] = tuple(round(c / done) for c in passes)
    return median(seconds)


def _check(source: plugins.Source, values: object, expected: tuple, what: str) -> None:
    """Raise an error unless values are a tensor of finite numbers with the expected shape."""
    shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
    if shape != expected:
        raise source.error(f"gives {shape}, expected {expected}, {what}")
    if not (values.is_floating_point() and values.isfinite().all()):
        raise source.error(f"{what}: not finite")
