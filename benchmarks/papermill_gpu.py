"""Measure how long a page takes on a GPU without records: six runs on CIFAR-10 and its figures.

    python -m benchmarks.papermill_gpu --out papermill.json

CIFAR-10 is decoded before, and that time is stated by itself. `--rehearse` draws the page of the
smoke edition, which any machine trains in seconds. What is known is written every second.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.gpu_speed import ROOT, beside
from calibkit import files
from calibkit_companion.data.catalogue import data_root

NOTEBOOK = "reliability_diagrams.ipynb"
ASKED = {"edition": "demo", "dataset": "cifar10", "network": "resnet18", "seeds": "1"}
REHEARSED = {"edition": "smoke", "seeds": "1"}


def measured(
    parameters: dict[str, str], timeout: float, keep: Callable[[dict], None] = lambda found: None
) -> dict:
    """Run the page in an empty cache.

    Parameters
    ----------
    parameters : of the notebook
    timeout : seconds after which the page is given up
    keep : called every second with what is known by then

    Returns
    -------
    dict
        Seconds of decoding and of the page, whether it was finished, and for each run its seconds
        and those in epochs.
    """
    environment = os.environ | {"PYTHONPATH": beside(ROOT), "CALIBKIT_DATA": str(data_root())}
    found = {"parameters": parameters, "finished": False, "runs": []}
    start = time.perf_counter()
    if "dataset" in parameters:
        code = f"from calibkit_companion import data; data.load({parameters['dataset']!r})"
        command = [sys.executable, "-c", code]
        subprocess.run(command, check=True, env=environment, cwd=ROOT, timeout=timeout)
    found["decoding_seconds"] = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        environment["CALIBKIT_CACHE"] = folder
        command = [sys.executable, "-m", "papermill", NOTEBOOK, f"{folder}/page.ipynb"]
        for name, value in parameters.items():
            command += ["-p", name, value]
        command += ["--no-progress-bar", "-k", "python3"]
        start, lines = time.perf_counter(), Path(folder) / "lines"
        with lines.open("w") as file:
            page = subprocess.Popen(
                command, stdout=file, stderr=file, env=environment, cwd=ROOT / "notebooks"
            )
            while page.poll() is None and time.perf_counter() - start < timeout:
                found |= {"seconds": time.perf_counter() - start, "runs": _runs(Path(folder))}
                keep(found)
                with suppress(subprocess.TimeoutExpired):
                    page.wait(1)
        found |= {"seconds": time.perf_counter() - start, "runs": _runs(Path(folder))}
        found["finished"] = page.poll() == 0
        if page.poll() is None:
            page.terminate()  # its kernel notices and ends, too
            page.wait()
            found["said"] = f"not finished after {timeout:.0f} s"
        elif page.returncode:
            found["said"] = lines.read_text()[-2000:]
    keep(found)
    return found


def _runs(folder: Path) -> list[dict]:
    """What the records say of the seconds of each run."""
    kept = ["seconds", "seconds_in_epochs", "samples_per_second"]
    kept += ["passes", "side_by_side", "device"]
    runs = [json.loads(file.read_text()) for file in folder.glob("runs/*/run.json")]
    return [
        {"method": run["run"]["method"], **{k: run["provenance"].get(k) for k in kept}}
        for run in runs
    ]


def main() -> None:
    """Measure the page and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("papermill.json"))
    parser.add_argument("--timeout", type=float, default=300, help="seconds (default: 300)")
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()

    def keep(found: dict) -> None:
        files.publish({options.out: (json.dumps(found, indent=1) + "\n").encode()})

    found = measured(REHEARSED if options.rehearse else ASKED, options.timeout, keep)
    print(json.dumps(found, indent=1))
    if not found["finished"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
