"""A user's own method or network, tried before it trains."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import torch
from torch import Tensor

from calibkit import data
from calibkit.training import plugins
from calibkit.training.networks import Network
from calibkit.training.objectives import Batch
from calibkit.training.runs import PASSES, Run

PATIENCE = 60  # seconds that running a file, or a step, may take
LARGE = 200.0  # a logit that makes a network as sure as single precision can express


_TRIED: set[tuple] = set()


def try_once(run: Run, training: Callable, log: Callable) -> None:
    """Try what is one's own in a run, for the first of its seeds; `training` makes a new one."""
    key = (run.dataset, run.network, run.method, run.protocol)
    if key in _TRIED or not (plugins.own(run.method) or plugins.own(run.network)):
        return
    data.load(run.dataset)  # decoded now if necessary: that may take minutes
    with patience(run.method if plugins.own(run.method) else run.network):
        log(f"{run.method} on {run.network}: {rehearse(training())}")
    _TRIED.add(key)


def rehearse(training) -> str:
    """Try what is one's own in a `loop.Training`, which is not to be used afterwards.

    Returns
    -------
    str
        One line: time of a step and of the run, passes, cautions.

    Raises
    ------
    plugins.PluginError
        Something does not fit, in one line.
    """
    run, classes = training.run, len(training.data.classes)
    remarks = []
    if plugins.own(run.network):
        remarks += _try_network(training, classes)
    if plugins.own(run.method):
        remarks += _try_objective(training, classes)
    seconds = _try_step(training)
    steps = len(training.labels) / run.protocol.batch_size * run.protocol.epochs
    steps *= 2 if run.recipe.update == "sam" else 1
    many = run.protocol.batch_size
    cost = f"{1000 * seconds:.3g} ms a step of {many} samples, {steps * seconds / 60:.1f} min a run"
    return "; ".join([cost, *remarks])


def _try_network(training, classes: int) -> list[str]:
    network, run = training.network, training.run
    source = plugins.source(run.network)
    inputs = training.inputs(training.splits["train"], torch.arange(2, device=training.device))
    for size in (2, 1):
        network.train(size > 1)  # batch norm learns nothing from one sample
        logits = network(inputs[:size])
        _check_shape(source, logits, (size, classes), "logits")
        _check_finite(source, logits, "logits")
        if size == 2:
            logits.sum().backward()
    if all(w.grad is None or not w.grad.any() for w in network.parameters()):
        raise plugins.PluginError(f"{source.result()}: no gradient reaches its weights")
    network.zero_grad(set_to_none=True)
    if run.recipe.objective in ("mit_l", "mit_a") and not isinstance(network, Network):
        raise plugins.PluginError(
            f"{source.result()}: {run.method} mixes between stages, and needs a "
            "calibkit.training.networks.Network(stages, pool, head)"
        )
    if not getattr(network, "has_features", True):
        if run.protocol.feature_scores:
            raise plugins.PluginError(
                f"{source.result()}: Trust Score and ConfidNet need features, and the logits are "
                "not what a last nn.Linear gives"
            )
        return ["no last linear layer: no gradient norms"]
    return []


def _try_objective(training, classes: int) -> list[str]:
    """Of a loss: one value a sample, finite, with a gradient, also for one sample."""
    recipe = training.run.recipe
    source = plugins.source(recipe.objective)
    is_loss, function = plugins.objective(recipe.objective, dict(recipe.options))
    if not is_loss:
        return []
    rng = torch.Generator().manual_seed(0)
    for size in (8, 1):
        logits = torch.randn(size, classes, generator=rng).to(training.device)
        targets = torch.arange(size, device=training.device) % classes
        _check_loss(source, function, logits, targets)
    sure = torch.zeros(2, classes, device=training.device)
    sure[:, 0] = LARGE
    targets = torch.arange(2, device=training.device)
    values = function(sure.requires_grad_(), targets)
    (gradient,) = torch.autograd.grad(values.sum(), sure)
    if not (values.isfinite().all() and gradient.isfinite().all()):
        return [f"caution: not finite for a logit of {LARGE:g}, so a sure network would diverge"]
    return []


def _check_loss(source: plugins.Source, loss: Callable, logits: Tensor, targets: Tensor) -> None:
    values = loss(logits.requires_grad_(), targets)
    _check_shape(source, values, (len(targets),), "a loss of each sample")
    _check_finite(source, values, "the loss")
    if not values.requires_grad:
        raise plugins.PluginError(f"{source.result()}: the loss has no gradient in the logits")
    (gradient,) = torch.autograd.grad(values.sum(), logits, allow_unused=True)
    if gradient is None or not gradient.any():
        raise plugins.PluginError(f"{source.result()}: its gradient in the logits is 0")
    _check_finite(source, gradient, "the gradient in the logits")


def _try_step(training) -> float:
    """Score real batches as `Training.learn` does; the median of some steps, in seconds."""
    recipe, network, protocol = training.run.recipe, training.network, training.protocol
    source = plugins.source(
        recipe.objective if plugins.own(recipe.objective) else training.run.network
    )
    batches = torch.arange(len(training.labels), device=training.device).split(protocol.batch_size)
    batches = [b for b in batches[:4] if len(b) > 1]
    seconds, passes, done = [], [0, 0], 0

    def count(_, inputs) -> None:
        passes[0] += len(inputs[0])
        passes[1] += len(inputs[0]) * torch.is_grad_enabled()

    network.train()
    with network.register_forward_pre_hook(count):
        for index in batches:
            start = time.perf_counter()
            batch = Batch(training.training_inputs(index), training.labels[index], index)
            score = training.draw(batch, training.rng)
            network.zero_grad(set_to_none=True)
            with torch.autocast(training.device.type, torch.bfloat16, enabled=training.bfloat16):
                values = score(network)
            _check_shape(source, values, (len(index),), "a loss of each sample")
            values.sum().backward()
            if training.device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
            done += len(index)
            _check_finite(source, values, "the loss")
            if sum(seconds) > 10:  # a large network on a CPU
                break
    gradients = [w.grad for w in network.parameters() if w.grad is not None]
    if not any(g.any() for g in gradients):
        raise plugins.PluginError(f"{source.result()}: no gradient reaches the network")
    for gradient in gradients:
        _check_finite(source, gradient, "the gradient in the weights")
    if plugins.own(recipe.objective):
        PASSES[recipe.objective] = tuple(round(c / done) for c in passes)
    return median(seconds)


def _check_shape(source: plugins.Source, value: object, expected: tuple, what: str) -> None:
    shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
    if shape != expected:
        raise plugins.PluginError(f"{source.result()}: gives {shape}, expected {expected}, {what}")


def _check_finite(source: plugins.Source, values: Tensor, what: str) -> None:
    if not (values.is_floating_point() and values.isfinite().all()):
        raise plugins.PluginError(f"{source.result()}: {what} is not finite")


@contextmanager
def patience(name: str) -> Iterator[None]:
    """Stop what takes too long; only where there are signals, which is in the main thread."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def give_up(*_):
        raise plugins.PluginError(f"{name}: took more than {PATIENCE} s, given up")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
