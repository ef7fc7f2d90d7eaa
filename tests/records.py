"""Records without a training: predictions drawn at random, as good as a test wants them."""

import hashlib
from functools import cache
from itertools import product

import numpy as np

from calibkit import metrics, posthoc, stats
from calibkit_companion.records import deviations, folders

TRAINED = {"seconds_in_epochs": 10.0, "data": "", "seconds": 10.0, "started": "2026-01-01"}
TRAINED |= dict.fromkeys(("device", "torch", "numpy", "python", "calibkit", "commit"), "some")


def write(
    run,
    right=0.7,
    separation=1.0,
    sharpness=3.0,
    n=400,
    k=10,
    shifts=("fog", "noise"),
    device="some",
    **changed,
):
    """Save a record of a run; more `separation` is a higher AUROC, more `sharpness` confidence.

    Further arguments are columns of the history, a list of seven values. A protocol which asks for
    shifted test sets or scores gets some: kinds of `shifts` in two severities, and scores which
    rank a little worse than the largest probability.
    """
    arrays, row = _drawn(run.seed, right, separation, sharpness, n, k)
    rng = np.random.default_rng([run.seed, 1])
    history = [
        row | {"epoch": e, "learning_rate": rate} | {c: v[i] for c, v in changed.items()}
        for i, (e, rate) in enumerate(
            zip(range(1, 8), (0.1, 0.1, 0.01, 0.01, 0.001, 0.001, 0.001), strict=True)
        )
    ]
    test, labels = arrays["test_logits"], arrays["test_labels"].astype(int)
    brier = rng.uniform(size=(3, 50))
    arrays = arrays | {
        "train_brier": brier.astype(np.float16),
        "train_gradient_norm": (brier + 0.1 * rng.uniform(size=(3, 50))).astype(np.float32),
        "train_learned_epoch": rng.integers(0, 8, 50),
        "train_max_logit": rng.normal(size=50).astype(np.float16),
    }
    confidence = metrics.per_sample(test, labels)["confidence"]
    if run.protocol.feature_scores:
        arrays["test_trust_score"] = 5 * (confidence + 0.05 * rng.normal(size=n))
        arrays["test_confidnet"] = np.clip(confidence + 0.05 * rng.normal(size=n), 0, 1)
    shifted = []
    for kind, severity in product(shifts, (1, 5)) if run.protocol.shifted else ():
        harder = test + 0.3 * severity * rng.normal(size=test.shape)
        scaled = {f"{k}_scaled": row[k] for k in ("ece", "brier", "nll", "auroc")}
        shifted.append(
            {"shift": kind, "severity": severity} | metrics.summary(harder, labels) | scaled
        )
    trained = TRAINED | {"device": device}
    return folders.save(run, "done", history, arrays, trained, shifted=shifted)


@cache
def _drawn(seed, right, separation, sharpness, n, k):
    """Predictions and what a history says of them: many tests want the same."""
    rng = np.random.default_rng(seed)

    def split(size):
        labels = rng.integers(k, size=size)
        hit = rng.uniform(size=size) < right
        predicted = np.where(hit, labels, (labels + 1) % k)
        logits = rng.normal(size=(size, k))
        top = sharpness + separation * hit + rng.normal(size=size)
        logits[np.arange(size), predicted] = logits.max(1) + np.maximum(top, 0.1)
        return logits.astype(np.float32), labels

    (test, labels), (held_out, held_labels) = split(n), split(300)
    temperature, _ = posthoc.optimal_temperature(held_out, held_labels, "ece")
    best, ece_optimal = posthoc.optimal_temperature(test, labels, "ece")
    row = metrics.summary(test, labels) | {
        "train_accuracy": 1.0,
        "loss": 0.1,
        "temperature": temperature,
        "ece_scaled": metrics.ece(posthoc.softmax(test / temperature), labels),
        "temperature_optimal": best,
        "ece_optimal": ece_optimal,
    }
    arrays = {
        "test_logits": test,
        "test_labels": labels.astype(np.int16),
        "validation_logits": held_out,
        "validation_labels": held_labels.astype(np.int16),
    }
    return arrays, row


_KNOWN = {}


def few_replicates(monkeypatch, n):
    """Let records have `n` replicates whatever they ask for; of the same predictions only once."""
    of_run, of_models = deviations.replicates_of_run, stats.replicates

    def few_of_run(*arrays, **_):
        key = n, *(hashlib.sha256(np.ascontiguousarray(x)).digest() for x in arrays)
        if key not in _KNOWN:
            _KNOWN[key] = of_run(*arrays, n=n)
        return _KNOWN[key]

    monkeypatch.setattr(deviations, "replicates_of_run", few_of_run)
    monkeypatch.setattr(
        stats, "replicates", lambda *given, **how: of_models(*given, **how | {"n": n})
    )
