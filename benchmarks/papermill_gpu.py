"""Measure how long a page takes on a GPU without records: six runs on CIFAR-10 and its figures.

    python benchmarks/papermill_gpu.py --out papermill.json

CIFAR-10 is decoded before, and that time is stated by itself. `--rehearse` draws the page of the
smoke edition, which any machine trains in seconds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = "reliability_diagrams.ipynb"
ASKED = {"edition": "demo", "dataset": "cifar10", "network": "resnet18", "seeds": "1"}
REHEARSED = {"edition": "smoke", "seeds": "1"}


def measured(parameters: dict[str, str], timeout: float) -> dict:
    """Run the page in an empty cache.

    Parameters
    ----------
    parameters : of the notebook
    timeout : seconds after which the page is given up

    Returns
    -------
    dict
        Seconds of decoding and of the page, whether it was finished, and for each run its seconds
        and those in epochs.
    """
    python = [sys.executable]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    if "dataset" in parameters:
        code = f"from calibkit_companion import data; data.load({parameters['dataset']!r})"
        subprocess.run([*python, "-c", code], check=True, env=environment, cwd=ROOT)
    decoding = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        environment["CALIBKIT_CACHE"] = folder
        command = [*python, "-m", "papermill", NOTEBOOK, f"{folder}/page.ipynb"]
        for name, value in parameters.items():
            command += ["-p", name, value]
        start, finished, said = time.perf_counter(), False, ""
        try:
            done = subprocess.run(
                [*command, "--no-progress-bar", "-k", "python3"],
                **{"capture_output": True, "text": True, "timeout": timeout},
                env=environment,
                cwd=ROOT / "notebooks",
            )
            finished, said = done.returncode == 0, done.stderr[-2000:]
        except subprocess.TimeoutExpired:
            said = f"not finished after {timeout:.0f} s"
        seconds = time.perf_counter() - start
        runs = [json.loads(file.read_text()) for file in Path(folder).glob("runs/*/run.json")]
    kept = ("seconds", "seconds_in_epochs", "samples_per_second", "passes", "device")
    return {
        "parameters": parameters,
        "decoding_seconds": decoding,
        "seconds": seconds,
        "finished": finished,
        **({} if finished else {"said": said}),
        "runs": [
            {"method": run["run"]["method"], **{k: run["provenance"].get(k) for k in kept}}
            for run in runs
        ],
    }


def main() -> None:
    """Measure the page and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("papermill.json"))
    parser.add_argument("--timeout", type=float, default=300, help="seconds (default: 300)")
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    found = measured(REHEARSED if options.rehearse else ASKED, options.timeout)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    if not found["finished"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
