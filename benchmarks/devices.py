"""Compare the same runs on two devices: their metrics and their seconds.

    python benchmarks/devices.py FOLDER

FOLDER holds records as `data_cache/runs` does; the released edition has the same runs from
elsewhere.
"""

import argparse
import json
from pathlib import Path

from calibkit_companion.experiments import plan
from calibkit_companion.records import folders
from calibkit_companion.records.record import Record

RESULTS = Path(__file__).parent / "results" / "devices.json"
METRICS = ("accuracy", "ece", "auroc", "nll")


def end(record: Record) -> dict:
    """Return the last metrics of a run, its device and its seconds."""
    made = record.info["provenance"]
    ends = {name: float(record.history[name][-1]) for name in METRICS}
    return {name: made[name] for name in ("device", "torch", "seconds")} | ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    for run in plan.runs("all", "released"):
        if (options.folder / run.name).is_dir():
            there, here = folders.load(run, options.folder), folders.load(run)
            rows.append({"run": run.name, "there": end(there), "here": end(here)})
    options.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
