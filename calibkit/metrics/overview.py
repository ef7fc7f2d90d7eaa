"""All metrics at once, from logits."""

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from calibkit.arrays import (
    Array,
    ArrayLike,
    Kind,
    Weights,
    as_labels,
    as_logits,
    blocks,
    check_bins,
    exp_shifted,
    like,
    log_odds,
    probs_and_floor,
    row_sums,
)
from calibkit.metrics import calibration, chance, failure, separation
from calibkit.metrics.bins import binned
from calibkit.metrics.classes import Classes, error_of_classes, mean_of, parts_of_brier
from calibkit.metrics.ranking import UNDEFINED, Ranking, UndefinedMetricWarning, weights_of

if TYPE_CHECKING:
    import torch


@overload
def per_sample(
    logits: "torch.Tensor", labels: ArrayLike, kind: Kind = "logits"
) -> "dict[str, torch.Tensor]": ...
@overload
def per_sample(
    logits: npt.ArrayLike, labels: ArrayLike, kind: Kind = "logits"
) -> dict[str, Array]: ...
def per_sample(logits: ArrayLike, labels: ArrayLike, kind: Kind = "logits") -> dict[str, Any]:
    """Return confidence, correctness, NLL and Brier score of every sample, in one pass.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    kind : {"logits", "probs"}
        "probs" if `logits` are probabilities, which are refused otherwise. In the NLL a probability
        of 0 is replaced by what may have been rounded to 0 (`calibkit.precision`): half a unit of
        the last decimal, say.

    Returns
    -------
    dict
        ``confidence``, ``correct``, ``nll``, ``brier``: arrays (n,); tensors if `logits` is one.

    Examples
    --------
    >>> values = per_sample([[0.0, 0.0], [0.0, 3.0]], [0, 0])
    >>> values["correct"].tolist(), values["brier"].round(3).tolist()
    ([True, False], [0.5, 1.815])
    """
    samples, _ = _scan(*_scores(logits, kind), labels, bins=None)
    return {name: like(values, logits) for name, values in samples.items()}


def summary(
    logits: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    kind: Kind = "logits",
    *,
    sample_weight: Weights = None,
) -> dict[str, float]:
    """Compute every metric from logits.

    The metrics named in `ranks` sort samples by the log-odds of the predicted class: its logit
    minus the logsumexp of the others, in double precision. A softmax would round the highest
    confidences to 1 and so make them tie (in single precision from log-odds of 17 on, in double
    precision from 37). If you give probabilities, samples are sorted by these.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    bins : int
        Number of bins of the binned metrics; those named ``eq9_*`` always have 100.
    kind : {"logits", "probs"}
        "probs" if `logits` are probabilities, which are refused otherwise. In the NLL a probability
        of 0 is replaced by what may have been rounded to 0 (`calibkit.precision`): half a unit of
        the last decimal, say.
    sample_weight : array or tensor, shape (n,), optional
        As in `ece`.

    Returns
    -------
    dict
        ``n`` (the sum of weights, if any), ``accuracy``, mean ``confidence``, and then each metric
        under the name of its function. The floors and excesses of the other two calibration errors
        are called ``adaptive_ece_floor``, ``excess_adaptive_ece`` and so on. Parts of
        `brier_decomposition` have the prefix ``brier_``, those of `refinement_decomposition` the
        prefix ``eq9_``. Then ``risk_at_coverage_0.8`` and ``coverage_at_risk_0.05``. Undefined
        values are ``nan``, with one `UndefinedMetricWarning` that names them.

    Examples
    --------
    >>> values = summary([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], [0, 1, 1])
    >>> round(values["accuracy"], 3), round(values["ece"], 3), values["auroc"]
    (0.667, 0.337, 1.0)
    """
    check_bins(bins)
    scores, floor = _scores(logits, kind)
    weights = weights_of(sample_weight, len(scores))
    samples, classes = _scan(scores, floor, labels, bins, weights)
    ranking = Ranking.of(samples["confidence"], samples["correct"], weights)
    order = ranking
    if kind == "logits":
        order = Ranking.of(log_odds(scores), samples["correct"], weights)
    functions = ranked_metrics(bins).items()
    values = {name: f(order if ranks(name) else ranking) for name, f in functions}
    values["nll"] = mean_of(samples["nll"], weights)
    values["brier"] = mean_of(samples["brier"], weights)
    values["classwise_ece"] = error_of_classes(classes)
    values["classwise_ece_floor"] = chance.floor_of_classes(classes)
    values["excess_classwise_ece"] = values["classwise_ece"] - values["classwise_ece_floor"]
    brier_parts, eq9 = parts_of_brier(classes), separation.refinement_of(ranking)
    values |= {f"brier_{name}": part for name, part in brier_parts.items() if name != "brier"}
    values |= {f"eq9_{name}": part for name, part in eq9.items()}
    undefined = [name for name, value in values.items() if math.isnan(value)]
    if undefined:
        message = UNDEFINED + ", ".join(undefined)
        warnings.warn(message, UndefinedMetricWarning, stacklevel=2)
    return {"n": len(samples["correct"]) if weights is None else ranking.n, **values}


RANKING = ("auroc", "aupr_success", "aupr_error", "aurc", "eaurc", "augrc", "fpr_at_tpr")


def ranks(name: str) -> bool:
    """Whether a metric depends only on the order of the confidences, and not on their values.

    Parameters
    ----------
    name : str
        A name in `summary`.

    Returns
    -------
    bool
        True for the metrics that `summary` computes from log-odds.

    Examples
    --------
    >>> ranks("aurc"), ranks("risk_at_coverage_0.8"), ranks("ece")
    (True, True, False)
    """
    return name in RANKING or name.startswith(("risk_at_coverage_", "coverage_at_risk_"))


def ranked_metrics(
    bins: int = 15, coverages: Sequence[float] = (0.8,), risks: Sequence[float] = (0.05,)
) -> dict[str, Callable[[Ranking], float]]:
    """Return the metrics that can be computed from a `Ranking`, by name.

    Parameters
    ----------
    bins : int
        Number of bins of the binned metrics.
    coverages : sequence of float
        Coverages at which `risk_at_coverage` is taken; the name is then ``risk_at_coverage_0.8``.
    risks : sequence of float
        Risks at which `coverage_at_risk` is taken; the name is then ``coverage_at_risk_0.05``.

    Returns
    -------
    dict
        Name -> function of a `Ranking`.

    Examples
    --------
    >>> ranking = Ranking(np.array([0.9, 0.6]), right=np.array([1, 0]), wrong=np.array([0, 1]))
    >>> ranked_metrics()["auroc"](ranking)
    1.0
    """
    return {
        "accuracy": lambda r: r.all_right / r.n,
        "confidence": separation.mean_confidence,
        "ece": lambda r: calibration.ece_of(binned(r, bins)),
        "adaptive_ece": lambda r: calibration.ece_of(binned(r, bins, "equal_mass")),
        "ece_floor": lambda r: chance.floor_of(r, bins),
        "excess_ece": lambda r: chance.excess_of(r, bins),
        "adaptive_ece_floor": lambda r: chance.floor_of(r, bins, "equal_mass"),
        "excess_adaptive_ece": lambda r: chance.excess_of(r, bins, "equal_mass"),
        "debiased_ece": lambda r: calibration.debiased_of(r, bins),
        "mce": lambda r: calibration.mce_of(binned(r, bins)),
        "overconfidence_error": lambda r: calibration.overconfidence_of(binned(r, bins)),
        "ece_correct": separation.ece_correct_of,
        "auroc": failure.auroc_of,
        "aupr_success": failure.aupr_success_of,
        "aupr_error": failure.aupr_error_of,
        "aurc": lambda r: failure.aurc_of(r.failures),
        "eaurc": lambda r: failure.eaurc_of(r.failures),
        "augrc": failure.augrc_of,
        "fpr_at_tpr": failure.fpr_at_tpr_of,
        **{
            f"risk_at_coverage_{share:g}": functools.partial(
                failure.risk_at_coverage_of, coverage=share
            )
            for share in coverages
        },
        **{
            f"coverage_at_risk_{risk:g}": functools.partial(failure.coverage_at_risk_of, risk=risk)
            for risk in risks
        },
        "confidence_gap": separation.confidence_gap_of,
        "histogram_overlap": lambda r: separation.overlap_of(r, bins),
    }


def _scores(logits: ArrayLike, kind: Kind) -> tuple[Array, Array]:
    """Logits (n, k), and the probability (k,) by which the NLL replaces a 0 (its logit is -inf)."""
    if kind != "probs":
        logits = as_logits(logits, kind=kind)
        return logits, np.zeros(logits.shape[1])
    probs, floor = probs_and_floor(logits, "logits")
    with np.errstate(divide="ignore"):
        return np.log(probs), np.broadcast_to(floor.each if floor else 0.0, probs.shape[1])


def _scan(
    logits: Array, floor: Array, labels: ArrayLike, bins: int | None, weights: "Array | None" = None
) -> tuple[dict[str, Array], Classes | None]:
    """Pass over logits (n, k) once: values per sample, and sums per class unless `bins` is None."""
    n, k = logits.shape
    labels = as_labels(labels, k, n)
    classes = None if bins is None else Classes(n, k, bins, logits.dtype, weights)
    confidence, true_p = np.empty(n, logits.dtype), np.empty(n, logits.dtype)
    correct, nlls, briers = np.empty(n, bool), np.empty(n), np.empty(n)
    for rows in blocks(n, k):
        block, label = logits[rows], labels[rows]
        row = np.arange(len(block))
        p = np.empty_like(block)
        predicted, top = exp_shifted(block, out=p)
        total = row_sums(p)
        p /= total[:, None]
        confidence[rows], true_p[rows] = p[row, predicted], p[row, label]
        correct[rows] = predicted == label
        # From logits, not from p: exact also where p rounds to 0.
        margin = (top - block[row, label]).astype(np.float64)
        nlls[rows] = np.log(total.astype(np.float64)) + margin
        if floor.any() and (never := np.isinf(margin)).any():
            nlls[rows][never] = -np.log(floor[label[never]])
        if classes is None:
            p[row, label] -= 1
            briers[rows] = np.einsum("ij,ij->i", p, p)
        else:
            briers[rows] = classes.add(p, label, rows)
    samples = {"confidence": confidence, "correct": correct, "nll": nlls, "brier": briers}
    return samples, classes.close(true_p, labels) if classes else None
