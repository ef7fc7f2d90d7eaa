"""Test whether training in bfloat16 gives the same metrics as training in float32.

    python benchmarks/precision.py [--setting fashion-fmfp] [--method erm] [--seeds 5]

Each seed is trained in both precisions. The results are the paired differences, and the standard
deviation over seeds in float32. Existing float32 records are used; new records go to a temporary
cache. A processor without bfloat16 takes ten times as long.
"""

import argparse
import json
import os
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from calibkit import stats
from calibkit_companion.experiments import plan
from calibkit_companion.records import folders
from calibkit_companion.training.loop import train

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "precision.json"
METRICS = ("train_accuracy", "accuracy", "nll", "ece", "ece_scaled", "auroc", "aurc")


def final(run: plan.Run, log) -> dict[str, float]:
    """Metrics at the end of a run, which is trained if it has no record."""
    record = folders.verify(run) or train(run, log=log)
    return {name: float(record.history[name][-1]) for name in METRICS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--setting", default="fashion-fmfp")
    parser.add_argument("--method", default="erm")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    where = {"setting": asked.setting, "seeds": asked.seeds}
    runs = plan.Selection("released", **where).runs([asked.method])
    others = plan.Selection("released", protocol={"precision": "bfloat16"}, **where).runs(
        [asked.method]
    )
    full = []
    with tempfile.TemporaryDirectory() as cache:
        for run in runs:
            if (
                folders.verify(run) is None
            ):  # not in the cache of the book, whose queue has an order
                os.environ["CALIBKIT_CACHE"] = cache
            full.append(final(run, print))
            os.environ.pop("CALIBKIT_CACHE", None)
        os.environ["CALIBKIT_CACHE"] = cache
        half = [final(run, print) for run in others]
    rows = []
    for name in METRICS:
        ours, theirs = (np.array([row[name] for row in side]) for side in (full, half))
        difference = stats.seed_interval(theirs - ours)
        rows.append(
            {
                "metric": name,
                "float32": ours.mean(),
                "spread": ours.std(ddof=1),
                "bfloat16": theirs.mean(),
                "difference": [*difference],
            }
        )
    run = runs[0]
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()}, Python {platform.python_version()}",
        "setting": asked.setting,
        "method": asked.method,
        "seeds": asked.seeds,
        "epochs": run.protocol.epochs,
        "network": run.network,
        "dataset": run.dataset,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
