"""Time temperature scaling in calibkit and other libraries, on the same logits.

    python -m benchmarks.temperature [benchmarks/results/temperature.json]

Each library finds the temperature with the lowest NLL on float32 logits. The libraries take turns
in one process. The result is the shortest of several times, in processor seconds of one thread,
which other work on the machine hardly changes. `nll` is the mean NLL at the temperature that was
found, in double precision: the lower, the better the fit.
"""

import importlib.metadata
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.metrics import Other, machine, sample
from calibkit import posthoc
from calibkit.posthoc.search import Scaled

SIZES = [(10_000, 10), (5_000, 100), (20_000, 1_000)]
ROUNDS = 3


def fits(logits: np.ndarray, labels: np.ndarray, other: Other) -> dict:
    """For each library a function that fits and returns the temperature."""
    import torch

    found = {"calibkit": lambda: posthoc.TemperatureScaling().fit(logits, labels).temperature_}
    z, y = torch.from_numpy(logits), torch.from_numpy(labels)
    if calibrators := other("probmetrics.calibrators"):
        distributions = other("probmetrics.distributions")

        def probmetrics() -> float:
            model = calibrators.get_calibrator("temp-scaling")
            model.fit_torch(distributions.CategoricalLogits(z), y)
            return 1 / model.invtemp_

        found["probmetrics"] = probmetrics
    calibration = other("sklearn.calibration")
    if hasattr(calibration, "_TemperatureScaling"):
        found["scikit-learn"] = lambda: (
            1 / calibration._TemperatureScaling().fit(logits, labels).beta_
        )
    return found


def processor_seconds(function: Callable[[], float]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    path = path or Path(__file__).parent / "results" / "temperature.json"
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows, other = [], Other()
    for n, k in SIZES:
        logits, labels = sample(n, k)
        logits *= 1.5
        exact = Scaled(logits, labels)
        functions = fits(logits, labels, other)
        for name, function in functions.items():
            seconds = min(processor_seconds(function) for _ in range(ROUNDS))
            temperature = float(function())
            row = {"size": f"{n} x {k}", "library": name, "seconds": seconds}
            rows.append(row | {"temperature": temperature, "nll": exact.nll(temperature)[0]})
            print(rows[-1], flush=True)
    names = ("numpy", "torch", "scikit-learn", "probmetrics")
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "absent"
    result = {"machine": machine(), "versions": versions, "skipped": other.skipped, "rows": rows}
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
