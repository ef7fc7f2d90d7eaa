"""Losses: hand values, gradients, identities, saturation, and the errors they raise."""

import math
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from calibkit import losses

# Every per-sample loss with options away from its defaults' special cases.
PER_SAMPLE = [
    losses.cross_entropy,
    losses.label_smoothing(0.1),
    losses.label_smoothing(0.1, "others"),
    losses.entropy_regularization(0.3),
    losses.logit_penalty(1, 0.05),
    losses.logit_penalty(2, 0.05),
    losses.brier,
    losses.focal(0.5),
    losses.focal(3.0),
    losses.inverse_focal(2.0),
    losses.flsd53,
    losses.dual_focal(5.0),
    losses.dual_focal(2.0, "second"),
    losses.dual_focal(2.0, "other"),
    losses.bsce(4.0, 2.0),
    losses.bsce(1.5, 3.0),
]
WEIGHTS = {
    losses.focal_gra(3.0): losses.focal_weight(3.0),
    losses.flsd53_gra: losses.flsd53_weight,
    losses.dual_focal_gra(5.0): losses.dual_focal_weight(5.0),
    losses.bsce_gra(4.0, 2.0): losses.brier_weight(4.0, 2.0),
}
GRADIENT_WEIGHTED = list(WEIGHTS)
WEIGHT_FUNCTIONS = list(WEIGHTS.values())

P = [0.6, 0.3, 0.1]  # probabilities of the hand values; the label is class 0, 1 or 2


def from_probs(*rows, dtype=torch.float64):
    """Logits whose softmax is the given rows."""
    return torch.tensor(rows, dtype=dtype).log()


def random_batch(seed=0, n=12, k=5, scale=2.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, k, generator=generator, dtype=dtype)
    return logits, torch.randint(k, (n,), generator=generator)


def name_of(loss):
    return getattr(loss, "__name__", None) or repr(loss)


batches = st.builds(
    random_batch,
    seed=st.integers(0, 10_000),
    n=st.integers(1, 8),
    k=st.integers(2, 12),
    scale=st.floats(0.1, 8.0),
)
cheap = settings(max_examples=40, deadline=None)


# --- values ---------------------------------------------------------------------------------------

HAND = [
    (losses.cross_entropy, 1, -math.log(0.3)),
    # targets (0.9 + 0.1/3, 0.1/3, 0.1/3) and (0.9, 0.05, 0.05)
    (
        losses.label_smoothing(0.1),
        0,
        -(0.9 + 0.1 / 3) * math.log(0.6) - 0.1 / 3 * math.log(0.3) - 0.1 / 3 * math.log(0.1),
    ),
    (
        losses.label_smoothing(0.1, "others"),
        0,
        -0.9 * math.log(0.6) - 0.05 * math.log(0.3) - 0.05 * math.log(0.1),
    ),
    (
        losses.entropy_regularization(0.1),
        2,
        -math.log(0.1) + 0.1 * (0.6 * math.log(0.6) + 0.3 * math.log(0.3) + 0.1 * math.log(0.1)),
    ),
    # the logits are the logarithms of P, whose absolute values add to -ln(0.018)
    (losses.logit_penalty(1, 0.01), 0, -math.log(0.6) - 0.01 * math.log(0.6 * 0.3 * 0.1)),
    (losses.logit_penalty(float("inf"), 0.5), 0, -math.log(0.6) - 0.5 * math.log(0.1)),
    (losses.brier, 1, 0.6**2 + 0.7**2 + 0.1**2),
    (losses.focal(2), 1, -(0.7**2) * math.log(0.3)),
    (losses.inverse_focal(2), 1, -(1.3**2) * math.log(0.3)),
    (losses.flsd53, 1, -(0.7**3) * math.log(0.3)),
    (losses.flsd53, 2, -(0.9**5) * math.log(0.1)),
    (losses.dual_focal(2), 0, -(0.7**2) * math.log(0.6)),
    (losses.dual_focal(2), 1, -(0.8**2) * math.log(0.3)),
    (losses.dual_focal(2), 2, -(0.9**2) * math.log(0.1)),  # nothing lies below: p_j = 0
    (losses.dual_focal(2, "second"), 0, -(0.7**2) * math.log(0.6)),
    (losses.dual_focal(2, "second"), 1, -math.log(0.3)),
    (losses.dual_focal(2, "second"), 2, -(1.2**2) * math.log(0.1)),
    (losses.dual_focal(2, "other"), 1, -(1.3**2) * math.log(0.3)),
    (losses.dual_focal(2, "other"), 2, -(1.5**2) * math.log(0.1)),
    (losses.bsce(4, 2), 1, -(0.86**2) * math.log(0.3)),
    (losses.bsce(3, 1), 1, -(1.4**3) * math.log(0.3)),
    (losses.bsce_gra(4, 2), 1, -(0.86**2) * math.log(0.3)),
    (losses.focal_gra(2), 1, -(0.7**2) * math.log(0.3)),
    (losses.flsd53_gra, 2, -(0.9**5) * math.log(0.1)),
    (losses.dual_focal_gra(2), 1, -(0.8**2) * math.log(0.3)),
    (losses.gradient_weighted(torch.tensor([0.5])), 1, -0.5 * math.log(0.3)),
]


@pytest.mark.parametrize(("loss", "label", "value"), HAND)
def test_hand_values(loss, label, value):
    got = loss(from_probs(P), torch.tensor([label]))
    assert got.shape == (1,)
    assert got.item() == pytest.approx(value, rel=1e-12)


def test_cross_entropy_agrees_with_torch():
    logits, targets = random_batch(n=50)
    expected = F.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(losses.cross_entropy(logits, targets), expected)
    smooth = F.cross_entropy(logits, targets, reduction="none", label_smoothing=0.07)
    torch.testing.assert_close(losses.label_smoothing(logits, targets, 0.07), smooth)


@pytest.mark.parametrize(
    ("loss", "written"),
    [
        (losses.focal(), "focal(gamma=3.0)"),
        (losses.dual_focal(), "dual_focal(gamma=5.0, rival='below')"),
        (losses.bsce(), "bsce(gamma=4.0, beta=2.0)"),
        (losses.bsce_gra(), "bsce_gra(gamma=4.0, beta=2.0)"),
        (losses.label_smoothing(), "label_smoothing(epsilon=0.05, form='uniform')"),
        (losses.entropy_regularization(), "entropy_regularization(beta=0.1)"),
        (losses.logit_penalty(), "logit_penalty(p=1, strength=0.01)"),
        (losses.flsd53(), "flsd53()"),
    ],
)
def test_defaults_are_the_papers(loss, written):
    assert repr(loss) == written


def test_both_ways_of_calling():
    logits, targets = random_batch()
    expected = losses.focal(logits, targets, gamma=2.0)
    for got in (
        losses.focal(logits, targets, 2.0),
        losses.focal(gamma=2.0)(logits, targets),
        losses.focal(2.0)(logits, targets),
        losses.focal(logits, targets=targets, gamma=2.0),
        losses.focal(targets=targets, logits=logits, gamma=2.0),
        pickle.loads(pickle.dumps(losses.focal(2.0)))(logits, targets),
    ):
        assert torch.equal(got, expected)
    with pytest.raises(TypeError, match="gama"):
        losses.focal(gama=2.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_lifted(dtype):
    logits, targets = random_batch(dtype=torch.float32)
    for loss in [*PER_SAMPLE, *GRADIENT_WEIGHTED, losses.mmce]:
        got = loss(logits.to(dtype), targets)
        assert got.dtype == torch.float32
        assert torch.equal(got, loss(logits.to(dtype).float(), targets))


# --- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", PER_SAMPLE, ids=name_of)
def test_gradcheck(loss):
    logits, targets = random_batch(n=6, k=4)
    assert torch.autograd.gradcheck(lambda z: loss(z, targets), logits.requires_grad_())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("normalisation", ["formula", "code"])
def test_gradcheck_mmce(weighted, normalisation):
    logits, targets = random_batch(n=8, k=3)
    penalty = losses.mmce(weighted=weighted, normalisation=normalisation)
    assert 0 < (logits.argmax(1) == targets).sum() < 8
    assert torch.autograd.gradcheck(lambda z: penalty(z, targets), logits.requires_grad_())


@pytest.mark.parametrize("weight", WEIGHT_FUNCTIONS, ids=name_of)
def test_gradcheck_weights(weight):
    logits, targets = random_batch(n=6, k=4)
    assert torch.autograd.gradcheck(lambda z: weight(z, targets), logits.requires_grad_())


@pytest.mark.parametrize("loss", GRADIENT_WEIGHTED, ids=name_of)
def test_gradient_weighted_gradient_is_weight_times_residual(loss):
    logits, targets = random_batch(n=20)
    residual = logits.softmax(1) - F.one_hot(targets, 5)
    expected = WEIGHTS[loss](logits, targets).unsqueeze(1) * residual
    torch.testing.assert_close(losses.gradient_logits(loss, logits, targets), expected)


def test_gradient_weighted_takes_a_function_a_tensor_and_detaches_both():
    logits, targets = random_batch()
    logits.requires_grad_()
    by_name = losses.bsce_gra(logits, targets, gamma=3, beta=2)
    weight = losses.brier_weight(logits, targets, gamma=3, beta=2)
    assert weight.requires_grad
    for given_weight in (losses.brier_weight(gamma=3, beta=2), weight):
        got = losses.gradient_weighted(given_weight)(logits, targets)
        assert torch.equal(got, by_name)
        expected = losses.gradient_logits(losses.bsce_gra(3, 2), logits, targets)
        assert torch.equal(torch.autograd.grad(got.sum(), logits)[0], expected)


def test_dual_focal_gradient_flows_through_the_rival():
    logits, targets = from_probs(P), torch.tensor([0])
    got = losses.gradient_logits(losses.dual_focal(1), logits, targets)[0]
    # L = -(1 - p0 + p1) log p0, with dp_i/dz_j = p_i (δ_ij - p_j)
    for j, p in enumerate(P):
        change = -0.6 * ((j == 0) - p) + 0.3 * ((j == 1) - p)
        expected = -change * math.log(0.6) - 0.7 * ((j == 0) - p)
        assert got[j].item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    "loss",
    [losses.cross_entropy, losses.focal(3), losses.dual_focal(5), losses.bsce_gra(4, 2)],
    ids=name_of,
)
@pytest.mark.parametrize("bias", [True, False])
def test_last_layer_gradient_norm_against_one_backward_per_sample(loss, bias):
    torch.manual_seed(0)
    layer = torch.nn.Linear(7, 4, bias=bias, dtype=torch.float64)
    features = torch.randn(9, 7, dtype=torch.float64)
    targets = torch.randint(4, (9,))
    expected = []
    for h, y in zip(features, targets, strict=True):
        layer.zero_grad()
        loss(layer(h.unsqueeze(0)), y.unsqueeze(0)).sum().backward()
        expected.append(torch.cat([w.grad.flatten() for w in layer.parameters()]).norm())
    with torch.no_grad():  # as it is called when a network is evaluated
        got = losses.last_layer_gradient_norm(loss, layer(features), targets, features, bias=bias)
    torch.testing.assert_close(got, torch.stack(expected).detach())
    assert not got.requires_grad


# --- identities and claims of the papers ----------------------------------------------------------


@given(batches, st.floats(0.5, 6.0))
@cheap
def test_bsce_gra_with_beta_one_is_focal_gra(batch, gamma):
    logits, targets = batch
    brier, focal = losses.bsce_gra(gamma, beta=1), losses.focal_gra(gamma)
    torch.testing.assert_close(brier(*batch), 2**gamma * focal(*batch), rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(
        losses.gradient_logits(brier, logits, targets),
        2**gamma * losses.gradient_logits(focal, logits, targets),
        rtol=1e-6,
        atol=1e-12,
    )


def test_the_defaults_of_the_brier_weight_are_those_of_the_papers_code():
    """p = (0.5, 0.3, 0.2), label 1: u = (sqrt(0.25 + 0.49 + 0.04))^4 = 0.78^2."""
    logits, targets = torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([1])
    assert losses.brier_weight(logits, targets).item() == pytest.approx(0.78**2, rel=1e-6)
    loss = losses.cross_entropy(logits, targets)
    expected = pytest.approx(0.78**2 * loss.item(), rel=1e-6)
    assert losses.bsce(logits, targets).item() == expected
    assert losses.bsce_gra(logits, targets).item() == expected


@given(batches)
@cheap
def test_bsce_weight_with_beta_and_gamma_two_is_the_brier_score(batch):
    torch.testing.assert_close(losses.brier_weight(*batch, gamma=2, beta=2), losses.brier(*batch))


@given(batches)
@cheap
def test_dual_focal_readings(batch):
    logits, targets = batch
    below, second, other = (
        losses.dual_focal_weight(logits, targets, 1.0, rival)
        for rival in ("below", "second", "other")
    )
    predicted = logits.argmax(1) == targets
    torch.testing.assert_close(below[predicted], second[predicted])
    torch.testing.assert_close(below[predicted], other[predicted])
    # Elsewhere the rival grows from one reading to the next, and "other" is the predicted class.
    assert (below <= second + 1e-12).all() and (second <= other + 1e-12).all()
    assert (other[~predicted] > 1).all() and (below <= 1).all()  # 1 by rounding alone


@given(batches, st.floats(0.0, 0.9))
@cheap
def test_label_smoothing_forms_differ_by_a_factor_only(batch, epsilon):
    k = batch[0].shape[1]
    torch.testing.assert_close(
        losses.label_smoothing(*batch, epsilon * (k - 1) / k, "others"),
        losses.label_smoothing(*batch, epsilon),
    )


@given(batches, st.floats(0.0, 1.0))
@cheap
def test_label_smoothing_is_a_mixture_of_two_cross_entropies(batch, epsilon):
    """overconf, eq. 1, by targets written out."""
    logits, targets = batch
    k = logits.shape[1]
    smooth = (1 - epsilon) * F.one_hot(targets, k).double() + epsilon / k
    expected = F.cross_entropy(logits, smooth, reduction="none")
    torch.testing.assert_close(losses.label_smoothing(logits, targets, epsilon), expected)


@given(batches, st.floats(1.0, 9.0))
@cheap
def test_focal_is_bounded_below(batch, gamma):
    """overconf, eq. 2: focal >= KL(y || p) - γ H(p)."""
    log_probs = batch[0].log_softmax(1)
    entropy = -(log_probs.exp() * log_probs).sum(1)
    bound = losses.cross_entropy(*batch) - gamma * entropy  # KL(y || p) is cross-entropy
    assert (losses.focal(*batch, gamma) >= bound - 1e-12).all()


@pytest.mark.parametrize(
    "loss",
    [losses.entropy_regularization(0.1), losses.cross_entropy, losses.brier, losses.focal(3)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_a_logit_of_minus_infinity_is_a_class_that_is_not_there(loss, dtype):
    """Value and gradient are those without the class, whose own gradient is 0."""
    few = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=dtype, requires_grad=True)
    gap = torch.full((2, 1), -torch.inf, dtype=dtype)
    more = torch.cat([few.detach()[:, :1], gap, few.detach()[:, 1:]], 1).requires_grad_()
    expected, found = loss(few, torch.tensor([0, 1])), loss(more, torch.tensor([0, 2]))
    torch.testing.assert_close(found, expected)
    expected.sum().backward()
    found.sum().backward()
    torch.testing.assert_close(more.grad[:, [0, 2]], few.grad)
    assert (more.grad[:, 1] == 0).all()


@given(batches)
@cheap
def test_limits_are_cross_entropy(batch):
    expected = losses.cross_entropy(*batch)
    for loss in (
        losses.focal(0),
        losses.inverse_focal(0),
        losses.dual_focal(0),
        losses.bsce(0),
        losses.bsce_gra(0),
        losses.label_smoothing(0),
        losses.entropy_regularization(0),
        losses.logit_penalty(strength=0),
    ):
        torch.testing.assert_close(loss(*batch), expected)
        torch.testing.assert_close(
            losses.gradient_logits(loss, *batch),
            losses.gradient_logits(losses.cross_entropy, *batch),
        )


@given(batches, st.sampled_from([*PER_SAMPLE, *GRADIENT_WEIGHTED]))
@cheap
def test_samples_do_not_mix(batch, loss):
    logits, targets = batch
    alone = torch.cat([loss(logits[i : i + 1], targets[i : i + 1]) for i in range(len(targets))])
    torch.testing.assert_close(loss(logits, targets), alone)


def test_flsd53_changes_exponent_at_a_fifth():
    for dtype in (torch.float32, torch.float64):
        fifth = torch.tensor(0.2, dtype=dtype)
        below = torch.nextafter(fifth, torch.zeros_like(fifth))
        above = torch.nextafter(fifth, torch.ones_like(fifth))
        got = losses.flsd53_gamma(torch.stack([below, fifth, above]))
        assert got.tolist() == [5.0, 3.0, 3.0]
    # five equal logits have p_y = 0.2 exactly
    assert losses.flsd53_weight(torch.zeros(1, 5), torch.tensor([0])).item() == pytest.approx(0.512)


@pytest.mark.parametrize(
    ("gamma", "where", "peak", "one"),
    [
        (1, 0.1353, 1.135, 0.368),
        (2, 0.1041, 1.225, 0.298),
        (3, 0.0855, 1.292, 0.253),
        (4, 0.0729, 1.347, 0.221),
        (5, 0.0639, 1.394, 0.197),
    ],
)
def test_focal_gradient_factor_peaks(gamma, where, peak, one):
    found = minimize_scalar(
        lambda p: -losses.focal_gradient_factor(p, gamma),
        bounds=(1e-6, 0.5),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert found.x == pytest.approx(where, abs=5e-5)
    assert -found.fun == pytest.approx(peak, abs=5e-4)
    crossing = brentq(lambda p: losses.focal_gradient_factor(p, gamma) - 1, where, 0.9)
    assert crossing == pytest.approx(one, abs=5e-4)


@pytest.mark.parametrize("gamma", [0, 0.5, 1, 3])
def test_focal_gradient_factor_is_the_ratio_of_gradients(gamma):
    logits, targets = random_batch(n=30)
    ratio = losses.gradient_logits(losses.focal(gamma), logits, targets) / losses.gradient_logits(
        losses.cross_entropy, logits, targets
    )
    p = logits.softmax(1).gather(1, targets.unsqueeze(1))
    factor = torch.from_numpy(losses.focal_gradient_factor(p.numpy(), gamma))
    torch.testing.assert_close(ratio, factor.to(ratio).expand_as(ratio), rtol=1e-6, atol=1e-9)
    ends = losses.focal_gradient_factor(np.array([0.0, 1.0]), gamma)
    assert ends == pytest.approx([1.0, 1.0 if gamma == 0 else 0.0], abs=1e-12)


@pytest.mark.parametrize(("gamma", "fixed_point"), [(2, 0.570), (4, 0.542)])
def test_gradient_weights_depend_on_the_label_and_shift_the_fixed_point(gamma, fixed_point):
    """Two classes, η = 0.7: the expected gradient vanishes at q = 0.570, not 0.7 (bsce, sec. 9)."""

    def expected_gradient(q, loss):
        logits = from_probs([q, 1 - q], [q, 1 - q])
        gradient = losses.gradient_logits(loss, logits, torch.tensor([0, 1]))
        return float(0.7 * gradient[0, 0] + 0.3 * gradient[1, 0])

    weighted = brentq(expected_gradient, 0.1, 0.9, args=(losses.focal_gra(gamma),))
    assert weighted == pytest.approx(fixed_point, abs=5e-4)
    # For two classes the Brier weight is a multiple of the focal one, so BSCE-GRA stops there too.
    brier = brentq(expected_gradient, 0.1, 0.9, args=(losses.bsce_gra(gamma),))
    assert brier == pytest.approx(weighted, abs=1e-9)
    plain = brentq(expected_gradient, 0.1, 0.9, args=(losses.cross_entropy,))
    assert plain == pytest.approx(0.7, abs=1e-9)


# --- MMCE -----------------------------------------------------------------------------------------


def mmce_by_loops(confidence, correct, weighted, normalisation):
    n, hits = len(correct), sum(correct)
    total = 0.0
    for r_i, c_i in zip(confidence, correct, strict=True):
        for r_j, c_j in zip(confidence, correct, strict=True):
            pair = (c_i - r_i) * (c_j - r_j) * math.exp(-abs(r_i - r_j) / 0.4)
            if weighted:
                count = (hits if c_i else n - hits) * (hits if c_j else n - hits)
                pair /= count**2 if normalisation == "code" else count
            else:
                pair /= n**2
            total += pair
    return total if normalisation == "code" and not weighted else math.sqrt(total)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("normalisation", ["formula", "code"])
def test_mmce_against_loops(weighted, normalisation):
    logits = from_probs([0.9, 0.1], [0.8, 0.2], [0.35, 0.65], [0.7, 0.3], [0.45, 0.55])
    targets = torch.tensor([0, 0, 1, 1, 0])  # right, right, right, wrong, wrong
    confidence, correct = [0.9, 0.8, 0.65, 0.7, 0.55], [1, 1, 1, 0, 0]
    got = losses.mmce(logits, targets, weighted=weighted, normalisation=normalisation)
    assert got.shape == ()
    expected = mmce_by_loops(confidence, correct, weighted, normalisation)
    assert got.item() == pytest.approx(expected, rel=1e-10)


def test_consistency_weight_without_noise_is_the_probability_of_a_wrong_label():
    torch.manual_seed(0)
    head, features = torch.nn.Linear(3, 4), torch.randn(6, 3, requires_grad=True)
    targets = torch.arange(6) % 4
    weight = losses.consistency_weight(features, targets, head, noise=0)
    p = head(features).softmax(1)[torch.arange(6), targets]
    torch.testing.assert_close(weight, 1 - p.detach())
    assert not weight.requires_grad


def test_consistency_weight_is_a_mean_over_noisy_copies():
    torch.manual_seed(0)
    head, features = torch.nn.Linear(3, 4), 5 * torch.randn(6, 3)
    targets = torch.arange(6) % 4

    def weight():
        return losses.consistency_weight(
            features, targets, head, 7, 0.3, torch.Generator().manual_seed(5)
        )

    generator, spread, expected = torch.Generator().manual_seed(5), features.std(), 0.0
    for noise in torch.randn(7, 6, 3, generator=generator):
        p = head(features + 0.3 * spread * noise).softmax(1)[torch.arange(6), targets]
        expected = expected + (1 - p.detach()) / 7
    torch.testing.assert_close(weight(), expected)
    torch.testing.assert_close(weight(), weight(), rtol=0, atol=0)


def test_mmce_by_hand():
    logits, targets = from_probs([0.8, 0.2], [0.6, 0.4]), torch.tensor([0, 1])
    cross = 0.2 * 0.6 * math.exp(-0.5)
    plain = (0.2**2 + 0.6**2 - 2 * cross) / 4
    assert losses.mmce(logits, targets).item() == pytest.approx(math.sqrt(plain))
    assert losses.mmce(normalisation="code")(logits, targets).item() == pytest.approx(plain)
    # one sample of each kind: counts are 1
    assert losses.mmce(weighted=True)(logits, targets).item() == pytest.approx(math.sqrt(4 * plain))


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("normalisation", ["formula", "code"])
def test_weighted_mmce_of_one_kind_is_zero_without_gradient(label, normalisation):
    logits = from_probs([0.8, 0.2], [0.6, 0.4]).requires_grad_()
    targets = torch.tensor([label, label])  # all right, or all wrong
    value = losses.mmce(logits, targets, weighted=True, normalisation=normalisation)
    assert value.item() == 0
    value.backward()
    assert (logits.grad == 0).all()
    assert losses.mmce(logits, targets).item() > 0.1


# --- saturation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 20.0, 120.0, 1e4])
@pytest.mark.parametrize(
    "loss",
    [
        *PER_SAMPLE,
        *GRADIENT_WEIGHTED,
        losses.bsce(0.5, 1.0),
        losses.bsce(0.5, 4.0),
        losses.dual_focal(0.5),
        losses.logit_penalty(2, 0.01),
        losses.mmce,
        losses.mmce(weighted=True),
    ],
    ids=name_of,
)
def test_saturated_logits_stay_finite(loss, scale, dtype):
    logits = scale * torch.tensor(
        [[1, -1, -1], [-1, 1, -1], [0, 0, 0], [1, 1, -1], [1, 0, -1]], dtype=dtype
    )
    for label in range(3):
        leaf = logits.clone().requires_grad_()
        values = loss(leaf, torch.full((5,), label))
        assert values.isfinite().all()
        values.sum().backward()
        assert leaf.grad.isfinite().all()


def test_values_at_saturation():
    logits = torch.tensor([[1e4, -1e4], [-1e4, 1e4]])
    right, wrong = losses.cross_entropy(logits, torch.tensor([0, 0])).tolist()
    assert (right, wrong) == (0.0, 2e4)
    assert losses.focal(logits, torch.tensor([0, 0])).tolist() == [0.0, 2e4]
    assert losses.dual_focal(logits, torch.tensor([0, 0])).tolist() == [0.0, 2e4]
    assert losses.inverse_focal(1)(logits, torch.tensor([0, 0])).tolist() == [0.0, 2e4]
    assert losses.brier(logits, torch.tensor([0, 0])).tolist() == [0.0, 2.0]
    assert losses.bsce(logits, torch.tensor([0, 0])).tolist() == pytest.approx([0.0, 8e4])


# --- errors ---------------------------------------------------------------------------------------

Z, Y = torch.zeros(3, 4), torch.tensor([0, 1, 3])
BAD_BATCHES = [
    (torch.zeros(3), Y, r"logits: got shape \(3,\)"),
    (torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64), r"logits: got shape \(0, 4\)"),
    (torch.zeros(3, 1), torch.zeros(3, dtype=torch.int64), r"logits: got shape \(3, 1\)"),
    (torch.zeros(3, 4, dtype=torch.int64), Y, "logits: got torch.int64"),
    (np.zeros((3, 4)), Y, "logits: got ndarray"),
    (Z, Y.numpy(), "targets: got ndarray"),
    (Z, Y[:2], r"targets: got shape \(2,\)"),
    (Z, Y.unsqueeze(1), r"targets: got shape \(3, 1\)"),
    (Z, Y.float(), "targets: got torch.float32"),
    (Z, torch.tensor([0, 1, 4]), "targets: got labels from 0 to 4"),
    (Z, torch.tensor([-100, 1, 3]), "targets: got labels from -100 to 3"),
]
BATCH_FUNCTIONS = [
    *PER_SAMPLE,
    *GRADIENT_WEIGHTED,
    *WEIGHT_FUNCTIONS,
    losses.gradient_weighted(torch.ones(3)),
    losses.mmce,
    lambda logits, targets: losses.gradient_logits(losses.focal, logits, targets),
    lambda logits, targets: losses.last_layer_gradient_norm(
        losses.focal, logits, targets, torch.zeros(3, 2)
    ),
]


@pytest.mark.parametrize("function", BATCH_FUNCTIONS, ids=name_of)
def test_bad_batches_are_refused(function):
    for logits, targets, message in BAD_BATCHES:
        with pytest.raises(ValueError, match=message) as error:
            function(logits, targets)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("function", BATCH_FUNCTIONS, ids=name_of)
def test_nan_shows_and_a_single_class_is_fine(function):
    logits, _ = random_batch(n=3, k=4)
    targets = torch.zeros(3, dtype=torch.int64)
    assert function(logits, targets).isfinite().all()
    assert function(logits * float("nan"), targets).isnan().any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.focal(Z, Y, gamma=-1), "gamma: got -1"),
        (lambda: losses.focal(Z, Y, gamma=float("nan")), "gamma: got nan"),
        (lambda: losses.inverse_focal(Z, Y, gamma=-1), "gamma: got -1"),
        (lambda: losses.dual_focal(Z, Y, gamma=-0.5), "gamma: got -0.5"),
        (lambda: losses.dual_focal_gra(Z, Y, rival="third"), "rival: got 'third'"),
        (lambda: losses.bsce(Z, Y, beta=0.5), "beta: got 0.5"),
        (lambda: losses.bsce_gra(Z, Y, gamma=-2), "gamma: got -2"),
        (lambda: losses.logit_penalty(Z, Y, p=0), "p: got 0"),
        (lambda: losses.label_smoothing(Z, Y, epsilon=1.1), "epsilon: got 1.1"),
        (lambda: losses.label_smoothing(Z, Y, form="both"), "form: got 'both'"),
        (lambda: losses.mmce(Z, Y, normalisation="once"), "normalisation: got 'once'"),
        (lambda: losses.gradient_weighted(Z, Y, torch.ones(2)), r"weight: got shape \(2,\)"),
        (lambda: losses.gradient_logits(losses.mmce, Z, Y), r"loss: gave shape \(\)"),
        (
            lambda: losses.last_layer_gradient_norm(losses.focal, Z, Y, torch.zeros(2, 5)),
            r"features: got shape \(2, 5\)",
        ),
        (lambda: losses.focal_gradient_factor(1.5, 2), "p: got 1.5"),
        (lambda: losses.focal_gradient_factor(float("nan"), 2), "p: got nan"),
        (lambda: losses.focal_gradient_factor(0.5, -1), "gamma: got -1"),
    ],
)
def test_bad_options_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_compiles_without_a_graph_break():
    logits, targets = random_batch(dtype=torch.float32)
    loss = losses.dual_focal(5.0)
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(logits, targets), loss(logits, targets))
