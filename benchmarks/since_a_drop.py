"""Simulate how often a flat curve seems to fall, by two ways of measuring a change.

    python benchmarks/since_a_drop.py [benchmarks/results/since_a_drop.json] [boards]    # minutes

The curves of several seeds neither rise nor fall. They have noise, and the seeds share a part of
the noise because they share the test images. A 95 % interval of the change should lie below zero
for 2.5 % of the curves. A 98.75 % interval, which four columns of the board need, should do so for
0.6 %. `best` measures the change since the epoch that the other seeds find best (Student's t over
seeds). `stretches` measures it as `calibkit_companion.results.change` does. In some simulations the
slopes of the runs differ, or noise lasts from one epoch to the next, which no method can tell from
a fall.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from calibkit import plots, stats
from calibkit_companion.results.change import mean_change

LEVELS = 0.95, 0.9875
SEEDS, SHARED = (3, 4, 6), (0.0, 0.2, 0.5)
# Evaluated epochs after the second drop, of which each stretch has half or five, as in runs of 60,
# of 20, and of 30 epochs of which every third is evaluated; seeds that differ; noise that lasts.
CURVES = {
    "21 epochs": {"epochs": 21, "stretch": 5},
    "7 epochs": {"epochs": 7, "stretch": 3},
    "4 epochs": {"epochs": 4, "stretch": 2},
    "21 epochs, slopes differ": {"epochs": 21, "stretch": 5, "slopes": 1.0},
    "21 epochs, noise lasts": {"epochs": 21, "stretch": 5, "lasting": 0.5},
}


def curves(rng, seeds: int, shared: float, epochs: int, slopes=0.0, lasting=0.0) -> np.ndarray:
    """Draw flat curves (seeds, epochs) with noise of variance 1; the seeds share a part of it.

    `shared` is the variance that they share.
    """
    noise = rng.standard_normal((seeds + 1, epochs))
    for i in range(1, epochs):
        noise[:, i] = lasting * noise[:, i - 1] + np.sqrt(1 - lasting**2) * noise[:, i]
    own = slopes * rng.standard_normal((seeds, 1)) * np.linspace(0, 1, epochs)
    return own + np.sqrt(1 - shared) * noise[1:] + np.sqrt(shared) * noise[0]


def since_best(values: np.ndarray, level: float) -> stats.Interval:
    """Change since the epoch that the other seeds find best."""
    epoch = np.arange(values.shape[1])
    histories = [{"epoch": epoch, "auroc": one} for one in values]
    return stats.seed_interval(plots.prepare_overfitting(histories, "auroc").drop, level)


def between(values: np.ndarray, stretch: int, level: float) -> stats.Interval:
    """Change from the first to the last stretch."""
    ends = np.stack([values[:, :stretch], values[:, -stretch:]], axis=1)
    means = ends.mean(axis=2, keepdims=True)
    noise = (ends - means).reshape(len(values), -1)
    return mean_change(np.diff(means[:, :, 0])[:, 0], noise).interval(level)


def falls(seeds: int, shared: float, kind: str, boards: int) -> dict[str, list[float]]:
    """Compute the shares of flat curves with a clear fall and with a clear rise, by `LEVELS`."""
    curve = dict(CURVES[kind])
    stretch = curve.pop("stretch")
    rng, seen = np.random.default_rng(0), np.zeros((2, len(LEVELS), 2))
    for _ in range(boards):
        values = curves(rng, seeds, shared, **curve)
        for i, level in enumerate(LEVELS):
            for j, found in enumerate((since_best(values, level), between(values, stretch, level))):
                seen[j, i] += found.high < 0, found.low > 0
    falls, rises = np.moveaxis(seen / boards, 2, 0).round(4).tolist()
    names = "best", "stretches"
    ends = zip(names, falls, strict=True), zip(names, rises, strict=True)
    return {"falls": dict(ends[0]), "rises": dict(ends[1])}


def main(path: str = "benchmarks/results/since_a_drop.json", boards: str = "4000") -> None:
    """Measure all and write them down."""
    rows = []
    for kind in CURVES:
        for seeds in SEEDS:
            for shared in SHARED:
                its = {"curve": kind, "seeds": seeds, "shared": shared}
                rows.append(its | falls(seeds, shared, kind, int(boards)))
                print(rows[-1], flush=True)
    result = {"date": datetime.now(UTC).date().isoformat(), "levels": LEVELS, "boards": int(boards)}
    Path(path).write_text(json.dumps(result | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
