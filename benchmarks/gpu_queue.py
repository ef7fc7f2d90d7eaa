"""Measure and train everything that needs a GPU, in one script that ends after a given time.

    python -m benchmarks.gpu_queue --minutes 9 --out found              # on a machine with a GPU
    python -m benchmarks.gpu_queue --minutes 5 --out found --rehearse   # on a CPU, all of it tiny

In this order:

1. `speed.json`: samples a second of this tree beside those of an older commit (`gpu_speed.py`);
2. `bits.txt`: whether a graph gives the bits of its steps one by one, for every method;
3. `papermill.json`: a page from no records (`papermill_gpu.py`);
4. `accuracy.json`: three seeds of plain training beside the released runs of these seeds;
5. `records-N.tar`: runs of `gpu_queue.toml` in its order, several at once, until the time is up.

Each file is replaced as soon as there is something new: what kills the script loses seconds.
`unfinished.json` names the runs whose records are in no archive; `--unfinished FILE` goes on with
those. `--carried FOLDER` takes what `gpu_pack.py` packed for a machine without internet access.
Records come without the logits of each epoch, which are too large: their histories hold every
metric of each epoch.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from benchmarks import gpu_pack, gpu_speed
from benchmarks.gpu_speed import ROOT, beside
from benchmarks.gpu_train import Archives, compared, listed, train, work, write
from calibkit_companion.experiments.run import Run
from calibkit_companion.records import folders

RESERVE = 5  # seconds at the end, for the last archive
LONGEST = 150  # seconds of a part before the last


def speed(options, until: float) -> None:
    """Write the table of speed, row by row."""

    def keep(rows: list[dict]) -> None:
        write(options.out / "speed.json", {"rows": rows, "ratios": gpu_speed.ratios(rows)})

    rows = gpu_speed.measure(options.old, options.rehearse, until, keep)
    for what, ratio in gpu_speed.ratios(rows).items():
        print(f"{what}: {ratio:.2f}", flush=True)


def bits(options, until: float) -> None:
    """Compare graphs with their steps one by one, by the tests that do so."""
    name = "a_cuda_graph_gives" if not options.rehearse else "a_graph_repeats_adam"
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-rf"]
    command += ["tests/test_graph.py", "-k", name]
    if importlib.util.find_spec("xdist") and not options.rehearse:
        command += ["-n", "4"]
    environment = os.environ | {"PYTHONPATH": beside(ROOT), "PYTHONUNBUFFERED": "1"}
    with open(options.out / "bits.txt", "w") as file, suppress(subprocess.TimeoutExpired):
        pipes = {"stdout": file, "stderr": file, "env": environment, "cwd": ROOT}
        subprocess.run(command, timeout=min(LONGEST, until - time.time()), **pipes)
    print((options.out / "bits.txt").read_text()[-1500:], flush=True)


def papermill(options, until: float) -> None:
    """Time a page from no records."""
    command = [sys.executable, "-m", "benchmarks.papermill_gpu"]
    command += ["--out", str(options.out / "papermill.json")]
    command += ["--timeout", str(min(LONGEST, until - time.time()))]
    environment = os.environ | {"PYTHONPATH": beside(ROOT)}
    subprocess.run(command + ["--rehearse"] * options.rehearse, cwd=ROOT, env=environment)


def accuracy(options, until: float) -> None:
    """Train runs that the released tables have, in a cache of their own, and compare both."""
    runs = compared(options.rehearse)
    known = accuracies(runs)
    if options.released:
        known |= json.loads(options.released.read_text())
    cache = ROOT / "build" / "compared"

    def keep() -> None:
        rows = []
        for run in runs:
            row = {"run": run.name, "seed": run.seed, "released_accuracy": known.get(run.name)}
            if record := folders.load(run, cache / "runs"):
                its = record.info["provenance"]
                row["accuracy"] = float(record.history["accuracy"][-1])
                row |= {key: its[key] for key in ("device", "seconds", "seconds_in_epochs")}
            rows.append(row)
        write(options.out / "accuracy.json", rows)

    train(options, runs, min(until, time.time() + LONGEST), cache, keep)
    print((options.out / "accuracy.json").read_text(), flush=True)


def accuracies(runs: list[Run]) -> dict[str, float]:
    """The accuracy of runs that have a record here, after their last epoch, by name."""
    records = {run.name: folders.load(run) for run in runs}
    return {name: float(r.history["accuracy"][-1]) for name, r in records.items() if r}


def queue(options, until: float) -> None:
    """Train the queue and pack what was trained, as it comes."""
    runs = listed(options)
    archives = Archives(options.out, runs)
    archives.add()  # a script that was killed may have trained some and packed none
    left = [run for run in runs if not folders.has(run)]
    if left:
        train(options, left, until, folders.runs_root().parent, archives.add)
    print(f"{len(runs) - len(archives.left)} runs are packed, {len(archives.left)} are left")


PARTS = {part.__name__: part for part in (speed, bits, papermill, accuracy, queue)}


def main() -> None:
    """Do all parts in the time that is given."""
    began = time.time()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--minutes", type=float, default=9, help="of all parts together (default: 9)")
    add("--out", type=Path, required=True, help="folder of what was found")
    add("--old", type=Path, default=ROOT / "build" / "old", help="tree of the older commit")
    add("--unfinished", type=Path, help="unfinished.json of a run before")
    add("--released", type=Path, help="accuracy of released runs, where their tables are missing")
    add("--carried", type=Path, help="a folder of `gpu_pack.py`")
    add("--parts", nargs="*", choices=PARTS, default=list(PARTS), help="which (default: all)")
    add("--rehearse", action="store_true", help="on a CPU, with tiny runs")
    for hidden in ("--until", "--rate"):
        add(hidden, type=float, default=0, help=argparse.SUPPRESS)
    add("--work", action="store_true", help=argparse.SUPPRESS)
    add("--names", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.work:
        return work(options)
    until = began + 60 * options.minutes - RESERVE
    if options.carried:
        gpu_pack.take(options)
    for name, part in PARTS.items():
        if name in options.parts and time.time() < until:
            start = time.time()
            part(options, until)
            print(f"{name}: {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
