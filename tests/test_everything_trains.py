"""Every network takes a step in every way there is; every real data set here is learned."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from calibkit_companion import data
from calibkit_companion.data import catalogue
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.training import networks, objectives
from calibkit_companion.training.loop import Training
from calibkit_companion.training.objectives import Batch, TrainingSet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # minutes, more on a busy machine
# Passes forward before one back, with and without gradient, and two of both: what a network may
# not survive. `test_objectives` has the other families, which pass through it once.
FAMILIES = ("mit_a", "cs_kd", "sam")
SIGNALS = ("mlp", "cnn")


# 224-pixel nets are the same code as their small-image twins, at a minute a step; so are the
# deepest two, with more blocks of resnet50's.
LARGE = {"vit_b_16", "resnet110_bottleneck", "resnet152"}
SIZED = [n for n in networks.NETWORKS if n not in LARGE and not n.endswith("_imagenet")]


@pytest.mark.parametrize("name", SIZED)
def test_every_network_takes_a_step_under_every_family(name):
    torch.manual_seed(0)
    tokens, classes, n = name == "textcnn", 2, 4
    shape = (40,) if tokens else (1, 40) if name in SIGNALS else (3, 8, 8)
    inputs = torch.randint(1, 30, (n, *shape)) if tokens else torch.randn(n, *shape)
    labels = torch.arange(n) % classes
    network = networks.build(name, shape, classes, **({"vocabulary": 30} if tokens else {}))
    mean = torch.zeros((), dtype=torch.int64) if tokens else inputs.mean(0)
    train = TrainingSet(labels, classes, mean, lambda index: inputs[index])
    batch = Batch(inputs, labels, torch.arange(n))
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)
    for family in FAMILIES:
        recipe = parse(family)
        if tokens and recipe.objective == "mit_a":
            with pytest.raises(ValueError, match="token ids cannot be mixed"):
                objectives.objective(recipe, train)
            continue
        score = objectives.objective(recipe, train)(batch, np.random.default_rng(0))

        def backward(score=score):
            loss = score(network).mean()
            loss.backward()
            return loss.detach()

        optimizer.zero_grad()
        loss = (
            objectives.sharpness_aware(network, backward, 0.05) if family == "sam" else backward()
        )
        assert torch.isfinite(loss), family
        assert all(
            p.grad is not None and torch.isfinite(p.grad).all() for p in network.parameters()
        ), family
        optimizer.step()


REAL = {  # data set: network, training samples, epochs, accuracy clearly above chance
    "cifar10": ("mlp", 4000, 3, 0.25),
    "fashion_mnist": ("mlp", 4000, 1, 0.5),
    "20newsgroups": ("textcnn", 1500, 3, 0.12),
}


@pytest.mark.parametrize("name", REAL)
def test_real_data_are_learned_from(name):
    network, size, epochs, expected = REAL[name]
    if not catalogue.source(name).find(catalogue.data_root()):
        pytest.skip(f"{name} is not on this machine")
    text = name == "20newsgroups"
    protocol = replace(
        plan.EDITIONS["demo"].protocol(name).shortened(epochs),
        validation=100,
        train_size=size,
        snapshots=(),
        tracked=100,
        evaluate_every=99,
        learning_rate=0.05 if text else 0.02,
        milestones=(),
        batch_size=32 if text else 64,
    )
    training = Training(plan.Run(name, network, parse("erm"), 0, protocol))
    test = training.splits["test"]  # a part of it says as much
    training.splits["test"] = data.Split(*(t[:1000] for t in vars(test).values()))
    for epoch in range(1, epochs + 1):
        loss = training.learn(epoch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits, _ = training.evaluate(training.network.eval(), "test")
    accuracy = (logits.argmax(1) == training.splits["test"].labels).float().mean()
    assert np.isfinite(loss) and accuracy > expected, (loss, accuracy)
