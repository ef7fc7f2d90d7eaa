"""Write the values that netcal computes on the arrays of our tests; the tests then do not need it.

    pip install netcal==1.4.0        # brings 13 packages: in an environment apart
    python benchmarks/netcal_values.py

Writes tests/netcal.json: calibration errors by number of bins, the value of each of ten bins of
histogram binning, and what beta calibration makes of the first confidences it is fitted to.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from netcal.binning import HistogramBinning
from netcal.metrics import ECE, MCE
from netcal.scaling import BetaCalibration

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import test_metrics, test_posthoc  # noqa: E402

BINS = (10, 15, 37)
FIRST = 100


def errors() -> dict[str, dict[str, float]]:
    """ECE and MCE by the number of bins."""
    logits, labels = test_metrics.sample(2000)
    probs = test_metrics.softmax(logits, axis=1)
    return {
        name: {str(bins): float(error(bins).measure(probs, labels)) for bins in BINS}
        for name, error in (("ece", ECE), ("mce", MCE))
    }


def confidences(**drawn) -> tuple[np.ndarray, np.ndarray]:
    """Confidences, and whether they were right, as 0 and 1."""
    logits, labels = test_posthoc.sampled(temperature=2.0, **drawn)
    probs = test_posthoc.softmax(logits)
    return probs.max(axis=1), (probs.argmax(axis=1) == labels).astype(int)


def histogram() -> list[float]:
    model = HistogramBinning(10)
    model.fit(*confidences(n=3000, k=4))
    return model.transform(np.arange(0.05, 1, 0.1)).tolist()


def beta() -> list[float]:
    confidence, correct = confidences(n=4000, k=20)
    model = BetaCalibration()
    model.fit(confidence, correct, random_state=0)
    return model.transform(confidence[:FIRST]).round(6).tolist()


if __name__ == "__main__":
    found = errors() | {"histogram": histogram(), "beta": beta()}
    found = {"versions": {name: version(name) for name in ("netcal", "numpy", "torch")}} | found
    (ROOT / "tests" / "netcal.json").write_text(json.dumps(found, indent=1) + "\n")
