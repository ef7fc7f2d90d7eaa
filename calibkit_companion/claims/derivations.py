"""What the papers derive, computed: each function returns one number which the claim is about.

Where a paper states an identity the number is its largest violation on random input, at double
precision; where it states a shape, the number says by how much the shape is there. The losses are
those of `calibkit.losses`, so that the claim is put to the code which trains.
"""

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from calibkit import losses, metrics
from calibkit_companion.training import objectives, toys


def _random(n: int = 200, k: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (n, k) from timid to sure and labels (n,), the same every time."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n, k)) * rng.uniform(0.1, 5, (n, 1))
    return torch.from_numpy(logits), torch.from_numpy(rng.integers(k, size=n))


# --- darkside -------------------------------------------------------------------------------------


def ece_of_overconfident_bins() -> float:
    """abs(ECE - (mean confidence - accuracy)) when every bin is over-confident (eqs 5-7).

    >>> ece_of_overconfident_bins() < 1e-9
    True
    """
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 20_000)
    correct = rng.uniform(size=20_000) < confidence - 0.3
    probs = np.stack([confidence, 1 - confidence], 1)
    gap = confidence.mean() - correct.mean()
    return abs(metrics.ece(probs, np.where(correct, 0, 1)) - float(gap))


def equation_9_excess() -> float:
    """The ECE by eq 9 minus the ECE at a perfect order, nine in ten right.

    No bin is under-confident, which it needs: right answers have a confidence of 1. By the formula
    it is A² - 1/2 for an accuracy A, and more at any other order.

    >>> round(equation_9_excess(), 4), round(0.9**2 - 0.5, 4)
    (0.31, 0.31)
    """
    correct = np.arange(20_000) >= 2_000
    confidence = np.where(correct, 1.0, np.linspace(0.9, 0.98, 20_000))
    return -metrics.refinement_decomposition(confidence, correct)["residual"]


def entropy_minimum() -> float:
    """Distance from 1/K of the confidence that has the largest entropy, worst of several K (eq 12).

    The rest of the probability is shared evenly by the other classes.

    >>> entropy_minimum() < 1e-5
    True
    """

    def negative_entropy(c: float, k: int) -> float:
        return c * np.log(c) + (1 - c) * np.log((1 - c) / (k - 1))

    maxima = {k: minimize_scalar(negative_entropy, args=(k,), bounds=(0, 1)) for k in (2, 3, 10)}
    return float(max(abs(result.x - 1 / k) for k, result in maxima.items()))


def calibration_without_refinement() -> float:
    """How clearly one made-up model has the lower ECE and the lower AUROC than another (fig 1).

    Both are right half of the time. One always says about a half and cannot tell when; the other
    says more for each right answer than for any wrong one, and says too much.

    >>> calibration_without_refinement() > 0.1
    True
    """
    rng = np.random.default_rng(0)
    correct = np.arange(2000) % 2 == 0
    timid = rng.uniform(0.5, 0.55, 2000)
    loud = np.where(correct, rng.uniform(0.9, 1, 2000), rng.uniform(0.6, 0.8, 2000))
    label = np.where(correct, 0, 1)
    ece = [metrics.ece(np.stack([c, 1 - c], 1), label) for c in (timid, loud)]
    auroc = [metrics.auroc(c, correct) for c in (timid, loud)]
    return min(ece[1] - ece[0], auroc[1] - auroc[0])


# --- overconf -------------------------------------------------------------------------------------


def smoothing_identity() -> float:
    """Largest violation of LS = (1 - ε) CE + ε CE against the uniform distribution (eq 1).

    >>> smoothing_identity() < 1e-9
    True
    """
    logits, labels = _random()
    uniform = -logits.log_softmax(1).mean(1)
    worst = 0.0
    for epsilon in (0.01, 0.05, 0.5):
        sides = (1 - epsilon) * losses.cross_entropy(logits, labels) + epsilon * uniform
        smoothed = losses.label_smoothing(logits, labels, epsilon=epsilon)
        worst = max(worst, float((smoothed - sides).abs().max()))
    return worst


def focal_bound() -> float:
    """Smallest slack of focal loss >= KL(y, f) - γ H(f), over samples and γ from 1 to 9 (eq 2).

    >>> focal_bound() >= 0
    True
    """
    logits, labels = _random()
    log_probs = logits.log_softmax(1)
    entropy = -(log_probs.exp() * log_probs).sum(1)
    cross = losses.cross_entropy(logits, labels)  # is KL(y, f) for a one-hot y
    slack = [losses.focal(logits, labels, gamma=g) - cross + g * entropy for g in (1, 3, 5, 9)]
    return float(torch.stack(slack).min())


def inverse_focal_slope() -> float:
    """At p near 1: by how much inverse focal is steeper than CE, and CE steeper than focal (fig 6).

    The smaller of the two, over exponents 1 to 3; the slope of inverse focal at 1 is 2 to its
    exponent.

    >>> round(inverse_focal_slope(), 3)
    1.0
    """
    p = torch.tensor([1 - 2e-6, 1 - 1e-6], dtype=torch.float64)
    logits, labels = torch.stack([p, 1 - p], 1).log(), torch.zeros(2, dtype=torch.int64)

    def slope(loss: torch.Tensor) -> float:
        return abs(float(loss[1] - loss[0])) / 1e-6

    plain = slope(losses.cross_entropy(logits, labels))
    steeper = [slope(losses.inverse_focal(logits, labels, gamma=g)) - plain for g in (1, 2, 3)]
    flatter = [plain - slope(losses.focal(logits, labels, gamma=g)) for g in (1, 2, 3)]
    return min(*steeper, *flatter)


# --- mixup ----------------------------------------------------------------------------------------


def mixup_noise() -> float:
    """Violation of remark 1: mixup = shrinking to the mean, plus noise which is zero on average.

    The larger of the identity's residual and of the mean noise, over all partners and ratios.

    >>> mixup_noise() < 1e-9
    True
    """
    rng = np.random.default_rng(0)
    x, ratios = rng.normal(size=(30, 4)), np.maximum(*rng.beta(1, 1, (2, 50)))
    mean, middle, own = x.mean(0), ratios.mean(), x[0]
    ratio = ratios[:, None, None]
    mixed = ratio * own + (1 - ratio) * x  # every ratio, every partner
    noise = (ratio - middle) * own + (1 - ratio) * x - (1 - middle) * mean
    residual = mixed - (mean + middle * (own - mean)) - noise
    return float(max(np.abs(residual).max(), np.abs(noise.mean((0, 1))).max()))


def decoupling_residual() -> float:
    """Largest error of taking two mixtures apart behind a linear network (eqs 3-4).

    >>> decoupling_residual() < 1e-9
    True
    """
    rng = np.random.default_rng(0)
    a, b = torch.from_numpy(rng.normal(size=(2, 50, 6)))
    weights = torch.from_numpy(rng.normal(size=(6, 3)))
    mixed = [(r * a + (1 - r) * b) @ weights for r in (0.8, 0.3)]
    decoupled = objectives.decouple(*mixed, 0.8, 0.3)
    return max(
        float((output - x @ weights).abs().max())
        for output, x in zip(decoupled, (a, b), strict=True)
    )


# --- bsce -----------------------------------------------------------------------------------------


def focal_factor_peak() -> float:
    """By how much the factor of focal loss rises above its value at p = 0 before it falls (fig 1).

    The smallest rise of γ = 1 to 5; above 0 only if the peak is inside (0, 1).

    >>> round(focal_factor_peak(), 3)  # at γ = 1
    0.135
    """
    p = np.linspace(0, 1, 10_001)
    factors = [losses.focal_gradient_factor(p, gamma) for gamma in (1, 2, 3, 4, 5)]
    return float(min(g[1:-1].max() - max(g[0], g[-1]) for g in factors))


def weight_axes() -> float:
    """Weights whose number of active axes in the 4-class simplex is not 1, 2, 3 (fig 2).

    Focal, dual focal and Brier weight; an axis is active if the weight changes along it, the
    fourth probability giving way.

    >>> weight_axes()
    0
    """
    label, p = torch.tensor([0]), torch.tensor([[0.4, 0.3, 0.2, 0.1]], dtype=torch.float64)
    weights = (losses.focal_weight, losses.dual_focal_weight, losses.brier_weight)
    active = []
    for weight in weights:
        moved = 0
        for axis in range(3):
            step = torch.zeros(1, 4, dtype=torch.float64)
            step[0, axis], step[0, 3] = 1e-3, -1e-3
            change = weight((p + step).log(), label) - weight(p.log(), label)
            moved += abs(float(change)) > 1e-9
        active.append(moved)
    return sum(a != b for a, b in zip(active, (1, 2, 3), strict=True))


def brier_offset() -> float:
    """Largest violation of E ‖p - y‖² = ‖p - η‖² + Σ η (1 - η), η the posterior (eq 12).

    >>> brier_offset() < 1e-9
    True
    """
    logits, _ = _random()
    p, eta = logits.softmax(1), logits.flip(0).softmax(1)
    scores = torch.stack(
        [
            losses.brier_weight(logits, torch.full((len(p),), y), gamma=2.0)
            for y in range(p.shape[1])
        ],
        1,
    )
    left, right = (eta * scores).sum(1), (p - eta).square().sum(1) + (eta * (1 - eta)).sum(1)
    return float((left - right).abs().max())


def binary_brier() -> float:
    """Largest violation of: for two classes the Brier score is twice the focal weight, γ = 2.

    >>> binary_brier() < 1e-9
    True
    """
    logits, labels = _random(k=2)
    brier = losses.brier_weight(logits, labels, gamma=2.0)
    return float((brier - 2 * losses.focal_weight(logits, labels, gamma=2.0)).abs().max())


def ternary_alignment() -> float:
    """How much better the dual focal weight ranks samples as the Brier score does than the focal.

    Difference of two rank correlations with the Brier score, for three classes, exponents of 2. The
    rival of the dual focal weight is that of section 4.3, the largest other class; with the one of
    eq. 5, the largest below p_y, which is what is trained, the difference is negative.

    >>> ternary_alignment() > 0
    True
    """
    logits, labels = _random(n=2000, k=3)
    weights = (
        losses.brier_weight(logits, labels, gamma=2.0),
        losses.dual_focal_weight(logits, labels, gamma=2.0, rival="other"),
        losses.focal_weight(logits, labels, gamma=2.0),
    )
    correlations = torch.corrcoef(torch.stack([w.argsort().argsort() for w in weights]).double())
    return float(correlations[0, 1] - correlations[0, 2])


def gradient_weight_bias() -> float:
    """Distance of BSCE-GRA's fixed point from a posterior of 0.7, two classes, γ = β = 2 (sec 9).

    Labels are drawn from the posterior, as in training; the weight then depends on the label, and
    the expected gradient vanishes elsewhere.

    >>> round(gradient_weight_bias(), 2)
    0.13
    """
    rest = toys.fixed_point(losses.bsce_gra(gamma=2.0), np.array([0.7]), 2)
    return float(abs(rest[0] - 0.7))
