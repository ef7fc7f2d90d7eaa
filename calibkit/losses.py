"""Training losses of the five papers: logits ``(B, k)`` and targets ``(B,)`` in, ``(B,)`` out.

Each loss can be called in two ways::

    from calibkit.losses import focal

    focal(logits, targets, gamma=3.0)   # values, shape (B,)
    focal(gamma=3.0)                    # a loss function (logits, targets) -> (B,)

Values are per sample, so that the caller chooses the mean or the sum (the papers differ). The one
exception is `mmce`, which scores a batch.

Most losses here are cross-entropy times a weight that says how uncertain the sample is (Lin et al.
2025, eq. 6). `focal_weight`, `flsd53_weight`, `dual_focal_weight` and `brier_weight` return the
weights. If gradients flow through the weight, the loss is focal loss or one of its relatives. If
the weight is held constant, by `gradient_weighted`, it only scales the gradient of cross-entropy
(eq. 9): these losses are named ``*_gra``.

No loss takes the logarithm of a probability. All start from ``log_softmax``, so values and
gradients stay finite when float32 probabilities are exactly 0 or 1. Logits of half precision are
converted to float32. NaN in the logits gives NaN in the loss, so that a diverged run shows.

Shapes and types are always checked. The range of the labels is checked on the CPU only. On a GPU
the check would wait for the device at every step; there ``gather`` rejects such a label itself.

The five papers: Zhu et al., ECCV 2022 ("Rethinking Confidence Calibration for Failure Prediction",
fmfp for short); Singh et al. 2021 ("On the Dark Side of Calibration", darkside); Wang et al.,
NeurIPS 2021 ("Do Not Be Afraid of Overconfidence", overconf); Wang et al., CVPR 2023 ("On the
Pitfall of Mixup", mixup); Lin et al., CVPR 2025 ("Uncertainty Weighted Gradients", bsce).
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, overload

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import entr
from torch import Tensor

from calibkit.grids import Array

LossFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Rival: TypeAlias = Literal["below", "second", "other"]
_Options = ParamSpec("_Options")


class Loss(functools.partial[Tensor]):
    """A loss with its options set; prints as it was written, ``focal(gamma=3.0)``."""

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.keywords.items())
        return f"{self.func.__name__}({options})"


class ValuesOrLoss(Protocol[_Options]):
    """A loss of this module: returns values for logits and targets, a `Loss` for options alone."""

    @overload
    def __call__(
        self, logits: Tensor, targets: Tensor, *args: _Options.args, **options: _Options.kwargs
    ) -> Tensor: ...
    @overload
    def __call__(self, *args: _Options.args, **options: _Options.kwargs) -> Loss: ...


def _loss(
    function: Callable[Concatenate[Tensor, Tensor, _Options], Tensor],
) -> ValuesOrLoss[_Options]:
    """Make ``f(logits, targets, **options)`` callable as ``f(**options)`` too, and check input."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def either(*args: Any, **options: Any) -> Any:
        args += tuple(options.pop(name) for name in ("logits", "targets") if name in options)
        # Values if two arguments lead and the first is an array; a lone tensor is an option.
        if len(args) > 1 and getattr(args[0], "ndim", 0):
            return function(_checked(*args[:2]), *args[1:], **options)
        bound = signature.bind(None, None, *args, **options)  # refuses a misspelt option
        bound.apply_defaults()
        del bound.arguments["logits"], bound.arguments["targets"]
        return Loss(either, **bound.arguments)

    return either


def _checked(logits: Tensor, targets: Tensor) -> Tensor:
    """Check logits (B, k) and targets (B,), and return the logits in float32 or float64."""
    for name, array in (("logits", logits), ("targets", targets)):
        if not isinstance(array, Tensor):
            raise ValueError(f"{name}: got {type(array).__name__}, expected a torch tensor")
    if logits.ndim != 2 or logits.shape[0] < 1 or logits.shape[1] < 2:
        raise ValueError(
            f"logits: got shape {tuple(logits.shape)}, expected (B, k), B >= 1, k >= 2"
        )
    if not logits.is_floating_point():
        raise ValueError(f"logits: got {logits.dtype}, expected a floating-point type")
    if targets.shape != logits.shape[:1]:
        raise ValueError(
            f"targets: got shape {tuple(targets.shape)}, expected ({len(logits)},) as the logits"
        )
    if targets.dtype != torch.int64:
        raise ValueError(f"targets: got {targets.dtype}, expected torch.int64")
    if targets.device.type == "cpu" and not torch.compiler.is_compiling():
        low, high = (int(bound) for bound in torch.aminmax(targets))
        if low < 0 or high >= logits.shape[1]:
            raise ValueError(
                f"targets: got labels from {low} to {high}, expected 0 to {logits.shape[1] - 1}"
            )
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


def _true(rows: Tensor, targets: Tensor) -> Tensor:
    """Entry of the true class in each row, shape (B,)."""
    return rows.gather(1, targets.unsqueeze(1)).squeeze(1)


def _log_true(logits: Tensor, targets: Tensor) -> Tensor:
    """Logarithm of p_y, shape (B,)."""
    return _true(F.log_softmax(logits, dim=1), targets)


def _residual(logits: Tensor, targets: Tensor) -> Tensor:
    """Difference p - y with y one-hot, (B, k): the gradient of cross-entropy in the logits."""
    return F.softmax(logits, dim=1) - F.one_hot(targets, logits.shape[1])


def _power(base: Tensor, exponent: float | Tensor) -> Tensor:
    """Power of a base >= 0 whose gradient at 0 is finite, also for exponents below 1."""
    if not isinstance(exponent, Tensor) and not exponent >= 0:
        raise ValueError(f"gamma: got {exponent}, expected a number >= 0")
    return base.clamp_min(torch.finfo(base.dtype).tiny) ** exponent


# --- cross-entropy and its regularisers -----------------------------------------------------------


@_loss
def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, -log p_y: the negative log-likelihood of the true class.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, or a label out of range (checked on the CPU only).

    Examples
    --------
    >>> logits = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    >>> cross_entropy(logits, torch.tensor([0, 1]))
    tensor([0.6931, 2.1269])
    """
    return -_log_true(logits, targets)


@_loss
def label_smoothing(
    logits: Tensor,
    targets: Tensor,
    epsilon: float = 0.05,
    form: Literal["uniform", "others"] = "uniform",
) -> Tensor:
    """Cross-entropy against a softened label, in either of its two published forms.

    ``"uniform"`` gives every class ε/k, so the loss is (1 - ε) CE(y) + ε CE(u) (Wang et al. 2021,
    eq. 1; Singh et al. 2021; also the code of Zhu et al. 2022). ``"others"`` gives ε/(k - 1) to the
    wrong classes only (Zhu et al. 2022, eq. 8). The second is the first with ε k/(k - 1) in place
    of ε.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    epsilon : float
        Smoothing, at most 1. Negative values are allowed: Wang et al. 2021 (section 5) say that
        training fails with them.
    form : {"uniform", "others"}
        Which classes share ε.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), an
        unknown form, or epsilon > 1.

    Examples
    --------
    >>> logits, targets = torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0])
    >>> label_smoothing(logits, targets, epsilon=0.3)
    tensor([0.6395])
    >>> label_smoothing(logits, targets, epsilon=0.2, form="others")
    tensor([0.6395])
    """
    if form not in ("uniform", "others"):
        raise ValueError(f"form: got {form!r}, expected 'uniform' or 'others'")
    if not epsilon <= 1:
        raise ValueError(f"epsilon: got {epsilon}, expected a number <= 1")
    if form == "others":
        epsilon = epsilon * logits.shape[1] / (logits.shape[1] - 1)
    uniform = -F.log_softmax(logits, dim=1).mean(dim=1)
    return (1 - epsilon) * cross_entropy(logits, targets) + epsilon * uniform


@_loss
def entropy_regularization(logits: Tensor, targets: Tensor, beta: float = 0.1) -> Tensor:
    """Cross-entropy minus β times the entropy of the prediction, -log p_y - β H(p).

    ERL in Singh et al. 2021, eq. 10.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    beta : float
        Weight of the entropy, which is in nats.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, or a label out of range (checked on the CPU only).

    Examples
    --------
    >>> entropy_regularization(torch.zeros(1, 4), torch.tensor([0]), beta=0.5)  # half of ln 4
    tensor([0.6931])
    """
    log_probs = F.log_softmax(logits, dim=1)
    # The clamp makes 0 of 0 · -inf, in the value and in the gradient.
    finite = log_probs.clamp_min(torch.finfo(log_probs.dtype).min)
    entropy = -(log_probs.exp() * finite).sum(dim=1)
    return cross_entropy(logits, targets) - beta * entropy


@_loss
def logit_penalty(logits: Tensor, targets: Tensor, p: float = 1, strength: float = 0.01) -> Tensor:
    """Cross-entropy plus a multiple of the norm of the logits, -log p_y + λ ‖z‖_p.

    The L1 and Lp norm of Zhu et al. 2022 and Wang et al. 2021, both with p = 1. The
    LogitNorm of Wei et al. 2022, which divides the logits by their norm, is another loss.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    p : float
        Order of the norm, at least 1; ``float("inf")`` gives the largest absolute logit.
    strength : float
        Weight λ of the norm. Negative values are allowed: Wang et al. 2021 (section 5) say that
        training fails with them.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), or p <
        1.

    Examples
    --------
    >>> logit_penalty(torch.tensor([[3.0, -4.0]]), torch.tensor([0]), p=2, strength=0.1)
    tensor([0.5009])
    """
    if not p >= 1:
        raise ValueError(f"p: got {p}, expected a number >= 1")
    return cross_entropy(logits, targets) + strength * torch.linalg.vector_norm(logits, p, dim=1)


@_loss
def brier(logits: Tensor, targets: Tensor) -> Tensor:
    """Brier score of the softmax, Σ_k (p_k - y_k)² with y one-hot (Brier 1950).

    The Brier loss among the baselines of Lin et al. 2025.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.

    Returns
    -------
    Tensor, shape (B,)
        From 0 to 2. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, or a label out of range (checked on the CPU only).

    Examples
    --------
    >>> brier(torch.zeros(1, 4), torch.tensor([0]))  # (3/4)² + 3 (1/4)²
    tensor([0.7500])
    """
    return _residual(logits, targets).square().sum(dim=1)


# --- how uncertain a sample is --------------------------------------------------------------------


@_loss
def focal_weight(logits: Tensor, targets: Tensor, gamma: float = 3.0) -> Tensor:
    """Weight of focal loss, u = (1 - p_y)^γ (Lin et al. 2025, eq. 7).

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        At least 0.

    Returns
    -------
    Tensor, shape (B,)
        Weights from 0 to 1. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), or a
        negative gamma.

    Examples
    --------
    >>> focal_weight(torch.zeros(1, 2), torch.tensor([0]), gamma=3)
    tensor([0.1250])
    """
    return _power(-torch.expm1(_log_true(logits, targets)), gamma)


@_loss
def flsd53_weight(logits: Tensor, targets: Tensor) -> Tensor:
    """Weight of FLSD-53, u = (1 - p_y)^γ with γ = 5 where p_y < 0.2 and 3 elsewhere.

    Sample-dependent focal loss of Mukhoti et al. 2020, a baseline of Lin et al. 2025; see
    `flsd53_gamma`.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.

    Returns
    -------
    Tensor, shape (B,)
        Weights from 0 to 1. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, or a label out of range (checked on the CPU only).

    Examples
    --------
    >>> flsd53_weight(torch.zeros(1, 10), torch.tensor([0]))  # 0.9 to the fifth
    tensor([0.5905])
    """
    # The softmax of five equal logits is 0.2 exactly; the exponential of a logarithm is not.
    gamma = flsd53_gamma(_true(F.softmax(logits, dim=1), targets))
    return _power(-torch.expm1(_log_true(logits, targets)), gamma)


def flsd53_gamma(true_probs: Tensor) -> Tensor:
    """Exponent of FLSD-53: 5 where p_y < 0.2, 3 where p_y >= 0.2 (Mukhoti et al. 2020).

    Lin et al. 2025 write the confidence of the predicted class; the code of the method uses p_y, as
    here.

    Parameters
    ----------
    true_probs : Tensor
        Probabilities of the true class, any shape.

    Returns
    -------
    Tensor
        The exponents, of the shape and type of `true_probs`.

    Examples
    --------
    >>> flsd53_gamma(torch.tensor([0.1, 0.2, 0.9]))
    tensor([5., 3., 3.])
    """
    return torch.where(true_probs < 0.2, 5.0, 3.0).to(true_probs.dtype)


@_loss
def dual_focal_weight(
    logits: Tensor, targets: Tensor, gamma: float = 5.0, rival: Rival = "below"
) -> Tensor:
    """Weight of dual focal loss, u = (1 - p_y + p_j)^γ with a rival class j.

    Lin et al. 2025, eq. 8. The paper defines the class j in three ways. They agree if y is the
    predicted class.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        At least 0.
    rival : {"below", "second", "other"}
        ``"below"``: largest probability strictly below p_y, 0 if there is none (eq. 5, and the
        authors' code). ``"second"``: second largest of all probabilities (text under eq. 8).
        ``"other"``: largest probability of a class other than y (section 4.3).

    Returns
    -------
    Tensor, shape (B,)
        Weights from 0 to 2^γ. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), a
        negative gamma, or an unknown rival.

    Examples
    --------
    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> for rival in ("below", "second", "other"):  # the label is the middle class
    ...     print(dual_focal_weight(logits, torch.tensor([1]), gamma=1, rival=rival))
    tensor([0.9000])
    tensor([1.])
    tensor([1.2000])
    """
    log_probs = F.log_softmax(logits, dim=1)
    log_true = _true(log_probs, targets)
    probs = log_probs.exp()
    if rival == "below":
        p_j = torch.where(log_probs < log_true.unsqueeze(1), probs, 0.0).amax(dim=1)
    elif rival == "second":
        p_j = probs.topk(2, dim=1).values[:, 1]
    elif rival == "other":
        p_j = probs.scatter(1, targets.unsqueeze(1), 0.0).amax(dim=1)
    else:
        raise ValueError(f"rival: got {rival!r}, expected 'below', 'second' or 'other'")
    return _power(-torch.expm1(log_true) + p_j, gamma)


@_loss
def brier_weight(logits: Tensor, targets: Tensor, gamma: float = 4.0, beta: float = 2.0) -> Tensor:
    """Generalised Brier score of a sample, u = (‖p - y‖_β)^γ with y one-hot.

    Lin et al. 2025, eq. 11. The printed equation takes the norm of single numbers, so that β would
    have no effect; this is the norm of the vector, as in the authors' code. β = γ = 2 is the Brier
    score. β = 1 is 2^γ times `focal_weight`. The paper does not state the values behind its tables;
    the defaults are the only ones in the authors' scripts.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        At least 0.
    beta : float
        Order of the norm, at least 1.

    Returns
    -------
    Tensor, shape (B,)
        Weights from 0 to 2^(γ/β). Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), a
        negative gamma, or beta < 1.

    Examples
    --------
    >>> brier_weight(torch.zeros(1, 4), torch.tensor([0]), gamma=2)  # the Brier score
    tensor([0.7500])
    """
    if not beta >= 1:
        raise ValueError(f"beta: got {beta}, expected a number >= 1")
    return _power(torch.linalg.vector_norm(_residual(logits, targets), beta, dim=1), gamma)


# --- cross-entropy times a weight, differentiated -------------------------------------------------


@_loss
def focal(logits: Tensor, targets: Tensor, gamma: float = 3.0) -> Tensor:
    """Focal loss, -(1 - p_y)^γ log p_y: cross-entropy that weighs easy samples less.

    Lin et al. 2025, eq. 4; with γ = 3 in Zhu et al. 2022 and Singh et al. 2021. The code of Wang et
    al. 2021 holds the weight constant: its focal loss is `focal_gra`.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        At least 0; 0 is cross-entropy.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), or a
        negative gamma.

    Examples
    --------
    >>> focal(torch.zeros(1, 2), torch.tensor([0]), gamma=1)  # half of ln 2
    tensor([0.3466])
    >>> focal(gamma=1)
    focal(gamma=1)
    """
    return focal_weight(logits, targets, gamma) * cross_entropy(logits, targets)


@_loss
def inverse_focal(logits: Tensor, targets: Tensor, gamma: float = 1.0) -> Tensor:
    """Inverse focal loss, -(1 + p_y)^γ log p_y: cross-entropy that weighs easy samples more.

    Wang et al. 2021, eq. 4.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        At least 0; the paper draws curves up to 3 and names no best value.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), or a
        negative gamma.

    Examples
    --------
    >>> inverse_focal(torch.zeros(1, 2), torch.tensor([0]), gamma=1)  # 1.5 ln 2
    tensor([1.0397])
    """
    log_true = _log_true(logits, targets)
    return -_power(1 + log_true.exp(), gamma) * log_true


@_loss
def flsd53(logits: Tensor, targets: Tensor) -> Tensor:
    """Focal loss, -(1 - p_y)^γ log p_y, with γ = 5 where p_y < 0.2 and γ = 3 elsewhere.

    FLSD-53 of Mukhoti et al. 2020, a baseline of Lin et al. 2025; see `flsd53_gamma`.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, or a label out of range (checked on the CPU only).

    Examples
    --------
    >>> flsd53(torch.zeros(1, 10), torch.tensor([0]))  # 0.9⁵ ln 10
    tensor([1.3597])
    """
    return flsd53_weight(logits, targets) * cross_entropy(logits, targets)


@_loss
def dual_focal(
    logits: Tensor, targets: Tensor, gamma: float = 5.0, rival: Rival = "below"
) -> Tensor:
    """Dual focal loss, -(1 - p_y + p_j)^γ log p_y with a rival class j (Lin et al. 2025, eq. 5).

    Gradients flow through p_j, too.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        At least 0.
    rival : {"below", "second", "other"}
        Which class j is. ``"below"``: largest probability strictly below p_y, 0 if there is none.
        ``"second"``: second largest of all probabilities. ``"other"``: largest probability of a
        class other than y. See `dual_focal_weight`.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), a
        negative gamma, or an unknown rival.

    Examples
    --------
    >>> dual_focal(torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([0]), gamma=1)  # 0.8 ln 2
    tensor([0.5545])
    """
    return dual_focal_weight(logits, targets, gamma, rival) * cross_entropy(logits, targets)


@_loss
def bsce(logits: Tensor, targets: Tensor, gamma: float = 4.0, beta: float = 2.0) -> Tensor:
    """Cross-entropy weighted by a Brier score, -(‖p - y‖_β)^γ log p_y with y one-hot.

    Lin et al. 2025, eqs. 6 and 11.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        Exponent of the weight, at least 0; 0 is cross-entropy.
    beta : float
        Order of the norm, at least 1; see `brier_weight` for the values in use.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), a
        negative gamma, or beta < 1.

    Examples
    --------
    >>> bsce(torch.zeros(1, 4), torch.tensor([0]), gamma=2)  # 0.75 ln 4
    tensor([1.0397])
    """
    return brier_weight(logits, targets, gamma, beta) * cross_entropy(logits, targets)


# --- cross-entropy times a weight, held constant --------------------------------------------------


@_loss
def gradient_weighted(logits: Tensor, targets: Tensor, weight: Tensor | LossFunction) -> Tensor:
    """Cross-entropy whose gradient is scaled by a weight: ∇L = u ∇CE (Lin et al. 2025, eq. 9).

    No gradient flows into the weight, so any numbers will do: a function such as `focal_weight`, or
    values such as those of `consistency_weight`.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    weight : Tensor, shape (B,), or function (logits, targets) -> (B,)
        How much the gradient of each sample counts.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), or a
        weight of another shape.

    Examples
    --------
    >>> loss = gradient_weighted(focal_weight(gamma=1))
    >>> loss
    gradient_weighted(weight=focal_weight(gamma=1))
    >>> loss(torch.zeros(1, 2), torch.tensor([0]))
    tensor([0.3466])
    """
    values = weight(logits, targets) if callable(weight) else weight
    if values.shape != targets.shape:
        raise ValueError(
            f"weight: got shape {tuple(values.shape)}, expected ({len(targets)},) as the targets"
        )
    return values.detach() * cross_entropy(logits, targets)


def consistency_weight(
    features: Tensor,
    targets: Tensor,
    head: Callable[[Tensor], Tensor],
    draws: int = 10,
    noise: float = 0.5,
    generator: torch.Generator | None = None,
) -> Tensor:
    """One minus the consistency of a sample under noise, a weight for `gradient_weighted`.

    1 - mean over draws of p_y(h + noise · s · ε), with s the standard deviation of the features h
    of the batch and ε standard normal (Lin et al. 2025, section 16.1). The paper leaves the size
    of the noise and the number of draws to another paper (Tao et al. 2024); the defaults are ours.
    No gradient flows into the weight.

    Parameters
    ----------
    features : Tensor, shape (B, d)
        Inputs of the last layer.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    head : function of (..., d) to logits (..., k)
        The last layer.
    draws : int
        Noisy copies of each sample.
    noise : float
        Standard deviation of the noise, in standard deviations of the features; at least 0.
    generator : torch.Generator
        Generator of the noise, on the CPU; by default that of torch.

    Returns
    -------
    Tensor, shape (B,)
        From 0 (the label has probability 1 in every copy) to 1.

    Examples
    --------
    >>> head = torch.nn.Linear(3, 2)
    >>> features, targets = torch.randn(8, 3), torch.arange(8) % 2
    >>> weight = consistency_weight(features, targets, head)
    >>> gradient_weighted(head(features), targets, weight).shape
    torch.Size([8])
    """
    with torch.no_grad():
        features = features.float()
        shaken = torch.randn(draws, *features.shape, generator=generator).to(features.device)
        probabilities = head(features + noise * features.std() * shaken).softmax(-1).mean(0)
        return 1 - probabilities.gather(1, targets[:, None]).squeeze(1).float()


@_loss
def focal_gra(logits: Tensor, targets: Tensor, gamma: float = 3.0) -> Tensor:
    """Cross-entropy with its gradient scaled by (1 - p_y)^γ.

    The weight of focal loss held constant (Lin et al. 2025). The code of Wang et al. 2021 calls
    this loss focal. See `focal_weight`.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        At least 0.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), or a
        negative gamma.

    Examples
    --------
    >>> focal_gra(torch.zeros(1, 2), torch.tensor([0]), gamma=1)
    tensor([0.3466])
    """
    return gradient_weighted(logits, targets, focal_weight(logits, targets, gamma))


@_loss
def flsd53_gra(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy with its gradient scaled by (1 - p_y)^γ, γ = 5 where p_y < 0.2 and 3 elsewhere.

    The weight of FLSD-53 held constant (Lin et al. 2025, table 2). See `flsd53_weight`.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, or a label out of range (checked on the CPU only).

    Examples
    --------
    >>> flsd53_gra(torch.zeros(1, 10), torch.tensor([0]))
    tensor([1.3597])
    """
    return gradient_weighted(logits, targets, flsd53_weight(logits, targets))


@_loss
def dual_focal_gra(
    logits: Tensor, targets: Tensor, gamma: float = 5.0, rival: Rival = "below"
) -> Tensor:
    """Cross-entropy with its gradient scaled by (1 - p_y + p_j)^γ with a rival class j.

    The weight of dual focal loss held constant (Lin et al. 2025, table 2). See `dual_focal_weight`.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        At least 0.
    rival : {"below", "second", "other"}
        Which class j is. ``"below"``: largest probability strictly below p_y, 0 if there is none.
        ``"second"``: second largest of all probabilities. ``"other"``: largest probability of a
        class other than y. See `dual_focal_weight`.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), a
        negative gamma, or an unknown rival.

    Examples
    --------
    >>> dual_focal_gra(torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([0]), gamma=1)
    tensor([0.5545])
    """
    return gradient_weighted(logits, targets, dual_focal_weight(logits, targets, gamma, rival))


@_loss
def bsce_gra(logits: Tensor, targets: Tensor, gamma: float = 4.0, beta: float = 2.0) -> Tensor:
    """BSCE-GRA: cross-entropy with its gradient scaled by (‖p - y‖_β)^γ with y one-hot.

    Lin et al. 2025, eq. 14: `brier_weight` held constant. With β = 1 this is 2^γ times `focal_gra`.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    gamma : float
        Exponent of the weight, at least 0; 0 is cross-entropy.
    beta : float
        Order of the norm, at least 1; see `brier_weight` for the values in use.

    Returns
    -------
    Tensor, shape (B,)
        In nats. Without `logits` and `targets`: a loss function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), a
        negative gamma, or beta < 1.

    Examples
    --------
    >>> bsce_gra(torch.zeros(1, 4), torch.tensor([0]), gamma=2)
    tensor([1.0397])
    """
    return gradient_weighted(logits, targets, brier_weight(logits, targets, gamma, beta))


# --- a penalty on a whole batch -------------------------------------------------------------------


@_loss
def mmce(
    logits: Tensor,
    targets: Tensor,
    weighted: bool = False,
    normalisation: Literal["formula", "code"] = "formula",
) -> Tensor:
    r"""Maximum mean calibration error of a batch: a kernel distance of confidence to correctness.

    With r the confidence, c the correctness (0 or 1) and :math:`K_{ij} = e^{-|r_i - r_j| / 0.4}`,

    .. math:: \mathrm{MMCE}^2 = \sum_{ij} a_i a_j K_{ij}, \qquad a_i = (c_i - r_i) / B

    for a batch of B samples (Kumar et al. 2018; a baseline of Lin et al. 2025). The weighted form
    divides by the number of correct samples if c_i = 1 and by that of wrong ones if c_i = 0, so
    that the few wrong samples count as much as the many correct ones. If all samples of a batch
    are correct or all are wrong, the weighted form is 0 and has no gradient.

    Parameters
    ----------
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    weighted : bool
        Balance correct and wrong samples.
    normalisation : {"formula", "code"}
        ``"formula"``: as above. ``"code"``: as in the code that Lin et al. build on. It leaves out
        the square root in the plain form, and divides twice by each count in the weighted form.

    Returns
    -------
    Tensor, shape ()
        A penalty of at least 0, to be added to a loss; it is not a loss by itself. Without `logits`
        and `targets`: the function of the two.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), or an
        unknown normalisation.

    Examples
    --------
    >>> logits = torch.tensor([[0.8, 0.2], [0.6, 0.4]]).log()
    >>> mmce(logits, torch.tensor([0, 1]))  # a = (0.1, -0.3), K_12 = exp(-1/2)
    tensor(0.2522)
    """
    if normalisation not in ("formula", "code"):
        raise ValueError(f"normalisation: got {normalisation!r}, expected 'formula' or 'code'")
    confidence, predicted = F.softmax(logits, dim=1).max(dim=1)
    correct = predicted == targets
    hits = correct.sum()
    count = torch.full_like(confidence, len(targets))
    if weighted:
        count = torch.where(correct, hits, len(targets) - hits).to(confidence.dtype)
    if weighted and normalisation == "code":
        count = count.square()
    error = (correct.to(confidence.dtype) - confidence) / count
    kernel = torch.exp(-(confidence.unsqueeze(0) - confidence.unsqueeze(1)).abs() / 0.4)
    squared = error @ kernel @ error
    if weighted:
        squared = squared * ((hits > 0) & (hits < len(targets)))
    if normalisation == "code" and not weighted:
        return squared
    # The root has no gradient at 0, which a batch of one kind or a saturated one reaches.
    zero = squared <= torch.finfo(squared.dtype).tiny
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())


# --- gradients ------------------------------------------------------------------------------------


def gradient_logits(loss: LossFunction, logits: Tensor, targets: Tensor) -> Tensor:
    """Gradient of each sample's loss with respect to its own logits, ∂L/∂z.

    Takes one backward pass for the batch, since the loss of a sample depends on its logits only.

    Parameters
    ----------
    loss : function (logits, targets) -> (B,)
        Any loss of this module except `mmce`, or a function of yours.
    logits : Tensor, shape (B, k)
        Scores before the softmax.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.

    Returns
    -------
    Tensor, shape (B, k)
        In units of the loss per logit.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), or a
        loss that does not give one value per sample.

    Examples
    --------
    >>> gradient_logits(cross_entropy, torch.zeros(1, 4), torch.tensor([0]))  # p - y
    tensor([[-0.7500,  0.2500,  0.2500,  0.2500]])
    """
    leaf = _checked(logits, targets).detach().requires_grad_()
    with torch.enable_grad():
        values = loss(leaf, targets)
        if values.shape != targets.shape:
            raise ValueError(
                f"loss: gave shape {tuple(values.shape)}, expected one value a sample, "
                f"{tuple(targets.shape)}"
            )
        return torch.autograd.grad(values.sum(), leaf)[0]


def last_layer_gradient_norm(
    loss: LossFunction, logits: Tensor, targets: Tensor, features: Tensor, bias: bool = True
) -> Tensor:
    """Norm of each sample's gradient at the last linear layer (Lin et al. 2025, figure 4).

    The gradient of the weights is an outer product, so its norm needs no backward pass per sample:
    ‖∂L/∂(W, b)‖ = ‖∂L/∂z‖ · √(‖h‖² + 1), without the 1 if the layer has no bias.

    Parameters
    ----------
    loss : function (logits, targets) -> (B,)
        Any loss of this module except `mmce`, or a function of yours.
    logits : Tensor, shape (B, k)
        Output z of the layer.
    targets : Tensor of int64, shape (B,)
        Labels from 0 to k - 1.
    features : Tensor, shape (B, d)
        Input h of the layer.
    bias : bool
        Whether the layer has a bias.

    Returns
    -------
    Tensor, shape (B,)
        Euclidean norms over the weights and the bias; no gradient flows through them.

    Raises
    ------
    ValueError
        For shapes or types that do not fit, a label out of range (checked on the CPU only), or a
        loss that does not give one value per sample.

    Examples
    --------
    >>> logits, targets, features = torch.zeros(1, 2), torch.tensor([0]), torch.tensor([[3.0, 4.0]])
    >>> last_layer_gradient_norm(cross_entropy, logits, targets, features, bias=False)
    tensor([3.5355])
    """
    gradient = gradient_logits(loss, logits, targets)
    if features.ndim != 2 or len(features) != len(logits):
        raise ValueError(
            f"features: got shape {tuple(features.shape)}, expected ({len(logits)}, d)"
        )
    squared = features.detach().to(gradient.dtype).square().sum(dim=1)
    return gradient.norm(dim=1) * (squared + bias).sqrt()


@overload
def focal_gradient_factor(p: float, gamma: float) -> float: ...
@overload
def focal_gradient_factor(p: Array, gamma: float) -> Array: ...
def focal_gradient_factor(p: float | Array, gamma: float) -> float | Array:
    """How much focal loss scales the gradient of cross-entropy at p_y = p.

    ∇FL = g ∇CE with g = (1 - p)^γ - γ p (1 - p)^(γ-1) log p (Lin et al. 2025, figure 1). It exceeds
    1 for small p: focal loss pushes uncertain samples harder than cross-entropy does.

    Parameters
    ----------
    p : float or array
        Probability of the true class.
    gamma : float
        At least 0.

    Returns
    -------
    float or array
        Factors g >= 0, of the kind and shape of `p`.

    Raises
    ------
    ValueError
        For a probability outside [0, 1], or gamma < 0.

    Examples
    --------
    >>> round(focal_gradient_factor(0.1041, gamma=2), 3)  # its maximum
    1.225
    """
    probs = np.asarray(p, dtype=float)
    if not ((probs >= 0) & (probs <= 1)).all():
        raise ValueError(f"p: got {p}, expected probabilities between 0 and 1")
    if not gamma >= 0:
        raise ValueError(f"gamma: got {gamma}, expected a number >= 0")
    # At p = 1 the clamp keeps the power finite, and p log p is 0 there (and at p = 0).
    rest = np.maximum(1 - probs, np.finfo(float).tiny)
    factor = rest**gamma + gamma * rest ** (gamma - 1) * entr(probs)
    return factor if factor.ndim else float(factor)
