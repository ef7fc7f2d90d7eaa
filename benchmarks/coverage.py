"""How often intervals cover the truth, in simulated test sets from a known population.

    python benchmarks/coverage.py [benchmarks/results/coverage.json] [sets]    # some minutes

A population has 200,000 samples and the logits of two models, which are calibrated or not. Test
sets of 500, 2,000 and 10,000 samples are drawn from the population with replacement. The truth is
the metric of the whole population, and an interval of `calibkit.stats` either contains it or does
not. The expected ECE depends on the size of a test set, so its truth is the mean over all test sets
of that size. The shares in `rows` should be near 0.95; `outside` lists shares below 0.92 or above
0.98.
"""

import json
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from calibkit import metrics, stats

SIZES, POPULATION, REPLICATES, LEVEL = (500, 2_000, 10_000), 200_000, 200, 0.95
WITHIN = 0.92, 0.98
METRICS = ("accuracy", "auroc", "aurc", "eaurc", "nll", "brier", "ece", "excess_ece")
OF_THEIR_SIZE = ("ece", "excess_ece", "eaurc")  # their expectation depends on the size of the set


def population(sharpness: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw logits of two models, and labels.

    The first model is calibrated for a `sharpness` of 1 and over-confident for 2.
    """
    rng = np.random.default_rng(seed)
    logits = 2.5 * rng.standard_normal((POPULATION, 4))
    probs = np.exp(logits - logits.max(1, keepdims=True))
    cumulative = (probs / probs.sum(1, keepdims=True)).cumsum(1)
    labels = (cumulative > rng.random((POPULATION, 1))).argmax(1)
    other = logits + rng.standard_normal(logits.shape)
    return sharpness * logits, sharpness * other / 1.5, labels


def values(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Every metric of one test set."""
    found = metrics.summary(logits, labels)
    return np.array([found[name] for name in METRICS])


def measure(sharpness: float, n: int, sets: int) -> dict[str, dict[str, float]]:
    """Measure in how many test sets the interval contains the truth, for one model and for two."""
    a, b, labels = population(sharpness)
    rng = np.random.default_rng(n)
    drawn = [rng.integers(0, POPULATION, n) for _ in range(sets)]
    whole = [values(x, labels) for x in (a, b)]
    seen = [np.array([values(x[i], labels[i]) for i in drawn]) for x in (a, b)]
    own = np.isin(METRICS, OF_THEIR_SIZE)
    truth = [np.where(own, s.mean(0), w) for s, w in zip(seen, whole, strict=True)]
    inside = np.zeros((2, len(METRICS)))
    for i in drawn:
        alone = stats.bootstrap(a[i], labels[i], METRICS, n=REPLICATES, level=LEVEL)
        paired = stats.compare(a[i], b[i], labels[i], METRICS, n=REPLICATES, level=LEVEL)
        for row, (found, true) in enumerate(((alone, truth[0]), (paired, truth[0] - truth[1]))):
            inside[row] += [
                found[m].low <= t <= found[m].high for m, t in zip(METRICS, true, strict=True)
            ]
    shares = (inside / sets).round(4).tolist()
    names = "one model", "difference"
    return {of: dict(zip(METRICS, row, strict=True)) for of, row in zip(names, shares, strict=True)}


def main(path: str = "benchmarks/results/coverage.json", sets: str = "200") -> None:
    """Measure all and write them down."""
    warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
    rows = []
    for name, sharpness in (("calibrated", 1.0), ("over-confident", 2.0)):
        for n in SIZES:
            for of, shares in measure(sharpness, n, int(sets)).items():
                rows.append({"models": name, "n": n, "of": of, "shares": shares})
                print(rows[-1], flush=True)
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "level": LEVEL,
        "sets": int(sets),
        "replicates": REPLICATES,
        "rows": rows,
        "outside": [
            {key: row[key] for key in ("models", "n", "of")} | {"metric": metric, "share": share}
            for row in rows
            for metric, share in row["shares"].items()
            if not WITHIN[0] <= share <= WITHIN[1]
        ],
    }
    Path(path).write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
