"""Objectives score what their formulas say; the update with two passes is sharpness-aware."""

import numpy as np
import pytest
import torch
from torch import nn

from calibkit import losses
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import PASSES, parse
from calibkit_companion.training import objectives
from calibkit_companion.training.objectives import Batch, TrainingSet

N, D, K = 12, 5, 3


def training_set(seed: int = 0) -> tuple[TrainingSet, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(N, D, generator=generator)
    labels = torch.arange(N) % K
    return TrainingSet(labels, K, inputs.mean(0), lambda index: inputs[index]), inputs


def batch_of(train: TrainingSet, inputs: torch.Tensor, index) -> Batch:
    index = torch.as_tensor(index)
    return Batch(inputs[index], train.labels[index], index)


class Net(nn.Module):
    """Linear without bias: its output on a mixture is the mixture of its outputs."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.stages = nn.ModuleList([nn.Linear(D, 4, bias=False)])
        self.pool = nn.Identity()
        self.head = nn.Linear(4, K, bias=False)

    def features(self, x):
        for stage in self.stages:
            x = stage(x)
        return self.pool(x)

    def forward(self, x):
        return self.head(self.features(x))


def drawn(text: str, seed: int = 0):
    train, inputs = training_set()
    batch = batch_of(train, inputs, range(6))
    draw = objectives.objective(parse(text), train)
    return train, inputs, batch, draw(batch, np.random.default_rng(seed))


@pytest.mark.parametrize("text", plan.METHODS)
def test_every_method_scores_each_sample_and_twice_the_same(text):
    *_, score = drawn(text)
    network = Net()
    first, second = score(network), score(network)
    assert first.shape == (6,) and torch.isfinite(first).all()
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    first.mean().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in network.parameters())


@pytest.mark.parametrize("text", plan.METHODS)
def test_passes_of_each_objective_are_those_counted_in_the_table(text):
    *_, score = drawn(text)
    network, seen = Net(), [0, 0]

    def count(_, given):
        seen[0] += len(given[0]) / 6
        seen[1] += len(given[0]) / 6 * torch.is_grad_enabled()

    network.stages[0].register_forward_pre_hook(count)
    score(network)
    assert tuple(seen) == PASSES.get(parse(text).objective, (1, 1))


def test_options_reach_the_loss():
    _, _, batch, score = drawn("focal(gamma=2)")
    network = Net()
    expected = losses.focal(network(batch.inputs), batch.labels, gamma=2.0)
    torch.testing.assert_close(score(network), expected)


def test_mixup_by_hand():
    _, _, batch, score = drawn("mixup(alpha=0.7)", seed=5)
    rng = np.random.default_rng(5)
    ratio, other = rng.beta(0.7, 0.7), torch.from_numpy(rng.permutation(6))
    network = Net()
    log_p = network(ratio * batch.inputs + (1 - ratio) * batch.inputs[other]).log_softmax(1)
    target = ratio * nn.functional.one_hot(batch.labels, K) + (1 - ratio) * nn.functional.one_hot(
        batch.labels[other], K
    )
    torch.testing.assert_close(score(network), -(target * log_p).sum(1))


def test_deterministic_transform_is_the_expectation_of_mixup():
    # Remark 1 of the mixup paper: what is left of a mixture after E[λ] has mean zero.
    train, inputs = training_set()
    rng = np.random.default_rng(0)
    alpha, x = 1.0, inputs[0]
    ratios = rng.beta(alpha, alpha, 100_000)
    ratios = torch.from_numpy(np.maximum(ratios, 1 - ratios)).float()[:, None]
    mean_mixture = (ratios * x + (1 - ratios) * inputs[rng.integers(0, N, 100_000)]).mean(0)
    seen = {}

    class Spy(Net):
        def forward(self, batch):
            seen["inputs"] = batch.detach()
            return super().forward(batch)

    draw = objectives.objective(parse("mixup_dt(alpha=1)"), train)
    draw(batch_of(train, inputs, [0]), rng)(Spy())
    torch.testing.assert_close(seen["inputs"][0], mean_mixture, atol=0.02, rtol=0)


def test_target_only_and_input_only_and_same_class():
    network = Net()
    _, _, batch, score = drawn("mixup_to", seed=3)
    rng = np.random.default_rng(3)
    ratio = rng.beta(1.0, 1.0)
    ratio = max(ratio, 1 - ratio)
    other = torch.from_numpy(rng.permutation(6))
    logits = network(batch.inputs)
    cross = losses.cross_entropy
    expected = ratio * cross(logits, batch.labels) + (1 - ratio) * cross(
        logits, batch.labels[other]
    )
    torch.testing.assert_close(score(network), expected)

    _, _, batch, score = drawn("mixup_io", seed=3)
    mixed = ratio * batch.inputs + (1 - ratio) * batch.inputs[other]
    torch.testing.assert_close(score(network), cross(network(mixed), batch.labels))

    train, inputs, batch, _ = drawn("mixup_sc")
    partners = train.partners(batch.labels, np.random.default_rng(0))
    assert torch.equal(train.labels[partners], batch.labels)


def test_partners_are_uniform_within_the_class():
    train, _ = training_set()
    rng = np.random.default_rng(0)
    drawn_ = train.partners(torch.zeros(40_000, dtype=torch.long), rng)
    counts = torch.bincount(drawn_, minlength=N)
    assert set(counts.nonzero().flatten().tolist()) == {0, 3, 6, 9}
    assert (counts[[0, 3, 6, 9]] - 10_000).abs().max() < 400


def test_decoupling_inverts_the_mixture_and_is_the_identity_at_one_and_zero():
    a, b = torch.randn(2, 4, 3, dtype=torch.float64)
    for ratio_1, ratio_2 in ((0.9, 0.2), (0.55, 0.45), (1.0, 0.0)):
        mixed = [r * a + (1 - r) * b for r in (ratio_1, ratio_2)]
        first, second = objectives.decouple(*mixed, ratio_1, ratio_2)
        torch.testing.assert_close(first, a)
        torch.testing.assert_close(second, b)
    # The published forms (ŷ_b with its two outputs in the right order) say the same.
    m1, m2, l1, l2 = *[r * a + (1 - r) * b for r in (0.8, 0.3)], 0.8, 0.3
    c1, c2 = (1 - l1) / (1 - l2), l2 / l1
    torch.testing.assert_close((m1 - c1 * m2) / (l1 - l2 * c1), a)
    torch.testing.assert_close((m2 - c2 * m1) / (1 - l2 - (1 - l1) * c2), b)


@pytest.mark.parametrize("text", ["mit_l", "mit_a", "mit_a(margin=0)", "mit_l(margin=0.5)"])
def test_mixup_inference_on_a_linear_network_is_cross_entropy_on_clean_inputs(text):
    # Decoupling undoes mixing exactly when every block is linear: 0.5 CE(a) + 0.5 CE(b).
    _, _, batch, score = drawn(text, seed=2)
    other = torch.from_numpy(np.random.default_rng(2).permutation(6))
    network = Net()
    each = losses.cross_entropy(network(batch.inputs), batch.labels)
    torch.testing.assert_close(score(network), 0.5 * each + 0.5 * each[other], atol=2e-3, rtol=1e-3)


def test_ratios_respect_the_margin():
    rng = np.random.default_rng(0)
    for margin in (0.0, 0.5):
        for _ in range(500):
            first, second = objectives._two_ratios(rng, 1.0, margin)
            assert 0.5 <= first <= 1 and 0 <= second <= 0.5 and first - second >= max(margin, 1e-3)


def test_self_distillation_by_hand():
    train, _, batch, score = drawn("cs_kd(temperature=2,weight=3)", seed=4)
    partner = train.fetch(train.partners(batch.labels, np.random.default_rng(4)))
    network = Net()
    logits, teacher = network(batch.inputs), network(partner).detach()
    divergence = nn.functional.kl_div(
        (logits / 2).log_softmax(1), (teacher / 2).softmax(1), reduction="none"
    ).sum(1)
    torch.testing.assert_close(
        score(network), losses.cross_entropy(logits, batch.labels) + 3 * 4 * divergence
    )


def test_correctness_ranking_by_hand():
    train, inputs = training_set()
    draw = objectives.objective(parse("crl(weight=2)"), train)
    rng = np.random.default_rng(0)
    network = Net()
    index = torch.arange(N)
    batch = batch_of(train, inputs, index)
    logits = network(inputs)
    plain = losses.cross_entropy(logits, train.labels)
    # Nothing is known yet: no sample is ranked above another, and nothing is undefined.
    score = draw(batch, rng)
    torch.testing.assert_close(score(network), plain)
    score(network)  # a second pass of the same draw does not count twice
    right = (logits.argmax(1) == train.labels).float()
    assert 0 < right.sum() < N
    difference = right - right.roll(-1)
    kappa = logits.softmax(1).amax(1)
    gap = kappa - kappa.roll(-1)
    ranking = torch.where(
        difference == 0, torch.zeros(N), (difference.abs() - difference.sign() * gap).clamp(min=0)
    )
    torch.testing.assert_close(draw(batch, rng)(network), plain + 2 * ranking)


def test_consistency_weights_the_gradient_of_cross_entropy():
    _, _, batch, score = drawn("consistency_gra(noise=0)")
    network = Net()
    logits = network(batch.inputs)
    expected = losses.focal_gra(logits, batch.labels, gamma=1.0)  # no noise: 1 - p_y
    torch.testing.assert_close(score(network), expected)
    noisy = drawn("consistency_gra")[-1](network)
    assert (noisy - expected).abs().max() > 1e-3


@pytest.mark.parametrize(("formula", "normalisation"), [(0, "code"), (1, "formula")])
def test_kernel_calibration_error_is_added_to_cross_entropy(formula, normalisation):
    _, _, batch, score = drawn(f"mmce(weight=2,formula={formula})")
    network = Net()
    logits = network(batch.inputs)
    penalty = losses.mmce(logits, batch.labels, weighted=True, normalisation=normalisation)
    expected = losses.cross_entropy(logits, batch.labels) + 2 * penalty
    torch.testing.assert_close(score(network), expected)
    assert penalty > 0


def test_sharpness_aware_gradient_is_taken_at_the_perturbed_weights():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double()
    x, y = torch.randn(8, 3).double(), torch.arange(8) % 2
    before = [p.clone() for p in network.parameters()]

    def backward():
        loss = losses.cross_entropy(network(x), y).mean()
        loss.backward()
        return loss.detach()

    loss = objectives.sharpness_aware(network, backward, rho=0.3)
    sharp = [p.grad.clone() for p in network.parameters()]
    for p, old in zip(network.parameters(), before, strict=True):
        assert torch.equal(p, old)  # exactly where they were
    assert network[1].num_batches_tracked == 2 and not torch.equal(
        network[1].running_mean, torch.zeros(4).double()
    )
    mean = network[1].running_mean.clone()

    network.zero_grad()
    assert torch.equal(backward(), loss)
    torch.testing.assert_close(network[1].running_mean, mean + 0.1 * (mean / 0.1 - mean))
    gradients = [p.grad.clone() for p in network.parameters()]
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    with torch.no_grad():
        for p, g in zip(network.parameters(), gradients, strict=True):
            p += 0.3 * g / norm
    network.zero_grad()
    backward()
    for p, g in zip(network.parameters(), sharp, strict=True):
        torch.testing.assert_close(p.grad, g)


def test_batch_norm_may_count_both_passes_as_the_authors_code_does():
    moved = {}
    for statistics in ("once", "twice"):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        x, y = torch.randn(8, 3) + 1, torch.arange(8) % 2

        def backward(network=network, x=x, y=y):
            loss = losses.cross_entropy(network(x), y).mean()
            loss.backward()
            return loss.detach()

        objectives.sharpness_aware(network, backward, 0.05, statistics)
        moved[statistics] = network[1].running_mean.norm()
    assert moved["twice"] > 1.5 * moved["once"]


def test_crl_counts_finished_epochs_only():
    """In the second batch of the second epoch, what was right once of once is a share of 1."""
    labels = torch.tensor([0, 0, 1, 1])
    train = TrainingSet(labels, 2, torch.zeros(()), lambda index: torch.zeros(len(index), 2))
    draw = objectives.objective(parse("crl"), train)
    logits = torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 0.0]])  # right: 0 and 2
    rng = np.random.default_rng(0)
    for _ in range(2):
        for index in (torch.tensor([0, 1]), torch.tensor([2, 3])):
            score = draw(Batch(logits[index], labels[index], index), rng)
            found = score(lambda inputs: inputs)
    plain = losses.cross_entropy(logits[2:], labels[2:])
    confidence = logits[2:].softmax(1).amax(1)
    gap = confidence - confidence.roll(-1)
    share = torch.tensor([1.0, 0.0]) - torch.tensor([0.0, 1.0])
    expected = plain + (share.abs() - share.sign() * gap).clamp(min=0)
    torch.testing.assert_close(found, expected)
