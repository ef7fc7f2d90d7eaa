"""Check the output of `calibkit recalibrate` and `calibkit report` on random files.

Three questions, each on 200 data sets:

- thresholds: does each printed threshold, applied by >= in double precision and in the file's own
  type, accept as many rows as are counted beside it?
- fresh: is a saved map clearly worse than none on 20,000 new samples?
- calibrated: how many temperatures are refused where the scores are calibrated already?

``python -m benchmarks.saved_maps [N]`` prints the counts. It takes about twenty minutes.
"""

import sys
import warnings
from collections import Counter

import numpy as np

from calibkit import stats
from calibkit.arrays import softmax
from calibkit.precision import log_probs
from calibkit.report import assessment, deploy, estimates, harm, predictions

TYPES = (np.float16, np.float32, np.float64)
KINDS = ("logits", "sharp", "flat", "shifted", "votes", "rounded", "large", "small")


def scores(rng, n: int, k: int, kind: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Scores (n, k) of a kind, the true probabilities (n, k), and whether they are probabilities.

    "sharp" and "flat" logits are off by a temperature, "shifted" ones by the odds of the classes;
    "votes" are shares of a few trees, "rounded" probabilities have one or two decimals; "large" and
    "small" logits are of the size of 1e4 and 1e-3.
    """
    logits = rng.normal(size=(n, k)) * 2
    truth = softmax(logits)
    factor = {"sharp": 2.5, "flat": 0.4, "large": 1e4, "small": 1e-3}.get(kind, 1.0)
    if kind == "shifted":
        logits = logits + np.linspace(-1.5, 1.5, k)
    if kind == "votes":
        return rng.multinomial(9, softmax(2 * logits)) / 9, truth, True
    if kind == "rounded":
        return softmax(logits).round(2), truth, True
    return logits * factor, truth, False


def draw(rng, truth: np.ndarray) -> np.ndarray:
    """A class for each row, from its probabilities."""
    return (
        (truth.cumsum(axis=1) < rng.random((len(truth), 1))).sum(axis=1).clip(0, truth.shape[1] - 1)
    )


def applied(p: np.ndarray, threshold: float) -> set[int]:
    """How many a threshold accepts, in double precision and in the type of the scores."""
    return {
        int((p.astype(np.float64) >= threshold).sum()),
        int((p >= p.dtype.type(threshold)).sum()),
    }


def thresholds_of(seed: int) -> tuple[int, int]:
    """Count the thresholds in a report on one random file, and the wrong ones among them."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 21)), int(rng.integers(300, 3000))
    dtype, ties = TYPES[seed % 3], bool(rng.integers(2))
    truth = softmax(rng.normal(size=(n, k)) * rng.uniform(1, 3))
    probs = rng.multinomial(10, truth) / 10 if ties else truth
    probs, labels = probs.astype(dtype), draw(rng, truth)
    arrays = {"probs": probs, "labels": labels}
    if k == 2 and seed % 2:
        arrays["probs"] = probs[:, 1]
    held = seed % 4 == 0
    if held:
        arrays["val_probs"], arrays["val_labels"] = arrays["probs"][: n // 2], labels[: n // 2]
        arrays["probs"], arrays["labels"] = arrays["probs"][n // 2 :], labels[n // 2 :]
    own = arrays["probs"]
    data, checked = predictions.from_arrays(arrays), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = assessment.assess(data, target_risk=[0.01, 0.05, 0.1, 0.2, 0.3])
        top = own.max(axis=1) if own.ndim == 2 else np.maximum(own, 1 - own)
        checked += [(top, p["threshold"], p["accepted"]) for p in numbers.operating_points]
        if numbers.positive:
            place = data.class_names.index(numbers.positive.name)
            event = own[:, place] if own.ndim == 2 else own if place else 1 - own
            checked += [(event, r["threshold"], r["flagged"]) for r in numbers.positive.thresholds]
        name = ("temperature", "isotonic", "beta")[seed % 3]
        model, about = deploy.recalibrate(data, name, target_risk=[0.05, 0.1, 0.2, 0.3])
    kept = model.predict_proba(data.logits)
    for row in about["thresholds"]:
        column = kept.max(axis=1) if row["column"] is None else kept[:, row["column"]]
        count = row["here"].get("accepted", row["here"].get("flagged"))
        checked.append((column, row["threshold"], count))
        checked.append((column.astype(data.logits.dtype), row["threshold"], count))
    known = [(p, t, count) for p, t, count in checked if t is not None]
    return len(known), sum(applied(p, t) != {count} for p, t, count in known)


def fresh_of(seed: int) -> tuple[str, str]:
    """Recalibrate one random file, and compare the saved map with no map on new samples."""
    rng = np.random.default_rng(seed)
    kind, k = KINDS[seed % len(KINDS)], int(rng.integers(2, 9))
    n = int(rng.integers(100, 3000))
    z, truth, probs = scores(rng, n + 20_000, k, kind)
    labels = draw(rng, truth)
    what = "probs" if probs else "logits"
    data = predictions.from_arrays({what: z[:n], "labels": labels[:n]})
    name = ("auto", *deploy.NAMES)[seed % (len(deploy.NAMES) + 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model, about = deploy.recalibrate(data, name)
        except ValueError:
            return name, "not fitted"
        if about["refused"]:
            return name, "refused"
        new = predictions.from_arrays({what: z, "labels": labels})
        logits = log_probs(z, data.floor) if probs else new.logits
        before, after = softmax(logits[n:].astype(np.float64)), model.predict_proba(logits[n:])
    floor = np.min(data.floor.each) / k if data.floor else 1e-12
    size = about["harm"]["samples"]
    found = harm.harm(before, after, labels[n:], about["harm"]["fitted"], size, floor)
    worse = stats.seed_interval(
        ((after - np.eye(k)[labels[n:]]) ** 2 - (before - np.eye(k)[labels[n:]]) ** 2).sum(axis=1)
    )
    if found["harmful"]:
        return name, "saved, worse beyond what fitting costs: " + " ".join(found["harmful"])
    return name, "saved, Brier score clearly higher" if worse.low > 0 else "saved"


def calibrated_of(seed: int) -> bool:
    """Whether a temperature is refused on one calibrated data set."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(100, 3000)), int(rng.integers(2, 11))
    logits = rng.normal(size=(n, k)) * rng.uniform(0.5, 4)
    labels = draw(rng, softmax(logits))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = predictions.from_arrays({"logits": logits, "labels": labels})
        return deploy.recalibrate(data, "temperature")[1]["refused"] is not None


def main(sets: int = 200) -> None:
    estimates.replicates = lambda n: 20  # intervals of metrics take time and decide nothing here
    found = [thresholds_of(seed) for seed in range(sets)]
    print(f"thresholds: {sum(n for n, _ in found)} tried, {sum(false for _, false in found)} false")
    for (name, what), count in sorted(Counter(fresh_of(seed) for seed in range(sets)).items()):
        print(f"fresh: {name:12} {what}: {count}")
    refused = sum(calibrated_of(seed) for seed in range(sets))
    print(f"calibrated: {refused} of {sets} temperatures refused")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
