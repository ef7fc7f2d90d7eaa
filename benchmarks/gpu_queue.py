"""Measure and train everything that needs a GPU, in one script that ends after a given time.

    python benchmarks/gpu_queue.py --minutes 9 --out found              # on a machine with a GPU
    python benchmarks/gpu_queue.py --minutes 5 --out found --rehearse   # on a CPU, all of it tiny

In this order:

1. `speed.json`: samples a second of this tree beside those of commit OLD (`--old FOLDER`, default
   a copy that git makes), one run alone and several at once, each in processes of its own;
2. `bits.txt`: whether a graph gives the bits of its steps one by one, for every method;
3. `papermill.json`: a page from no records (`papermill_gpu.py`);
4. `records-N.tar`: runs of `gpu_queue.toml` in its order, several at once, until the time is up.

`unfinished.json` names the runs that are left; `--unfinished FILE` trains those. `--list` writes it
and ends: where the released tables are not at hand, bring that file along. Records come without
the logits of each epoch, which are too large: their histories hold every metric of each epoch.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Timer

import torch
from filelock import Timeout

from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import PASSES
from calibkit_companion.experiments.run import Run
from calibkit_companion.records import folders
from calibkit_companion.training import loop

ROOT = Path(__file__).resolve().parent.parent
OLD = "d88b3342"  # before steps were graphs
PARTS = ("speed", "bits", "papermill", "queue")
LARGEST = 15 * 2**20  # bytes of a file that is brought home
MEMORY = 4 * 2**30  # bytes of the GPU for a run with its process
RESERVE = 15  # seconds at the end, for packing
SMALL = "resnet18_w32_s2"  # the network of the longest setting
REHEARSED = 2  # runs of the queue


def cells(rehearse: bool) -> list[dict]:
    """What the table of speed measures: a tree, a run, and how many at once."""
    size = {"train_size": 20_000, "epochs": 4}
    if rehearse:
        size = {"train_size": 200, "epochs": 2}
    alone = [("resnet18", method, 1, "") for method in ("erm", "fmfp")]
    each = [(tree, *cell) for cell in alone for tree in ("old", "new")]
    each += [(tree, SMALL, "erm", n, "") for n in (1, 4) for tree in ("old", "new")]
    each += [("new", SMALL, "erm", 8, ""), ("new", "resnet18", "erm", 1, "default")]
    if rehearse:
        each = [(tree, "resnet8", m, min(n, 2), "") for tree, _, m, n, _ in each[:4] + each[6:8]]
    keys = ("tree", "network", "method", "together", "mode")
    return [dict(zip(keys, cell, strict=True)) | size for cell in each]


def old_tree(folder: Path) -> Path | None:
    """The tree of commit OLD, copied by git if it is not there; None without git."""
    if not (folder / "calibkit").is_dir():
        asked = ["git", "-C", str(ROOT), "archive", OLD, "calibkit"]
        done = subprocess.run(asked, capture_output=True)
        if done.returncode:
            return None
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            tar.extractall(folder, filter="data")
    return folder


def timed(cell: dict, tree: Path, rehearse: bool, seconds: float) -> dict:
    """Samples a second of a cell; an error in one line if it fails or takes too long."""
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu_steps.py")]
    command.append(json.dumps(cell | {"rehearse": rehearse}))
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(command, text=True, env=environment, **pipes)
        for _ in range(cell["together"])
    ]
    watch = Timer(max(seconds, 1), lambda: [process.kill() for process in started])
    watch.start()
    try:
        first = [json.loads(process.stdout.readline() or "null") for process in started]
        start = time.perf_counter()
        for process in started if all(first) else ():
            process.stdin.write("\n")
            process.stdin.flush()
        last = [json.loads(process.stdout.readline() or "null") for process in started]
        wall = time.perf_counter() - start
        ends = [process.communicate()[1] for process in started]
    finally:
        watch.cancel()
        for process in started:
            process.kill()
    if not all(first) or not all(last):
        lines = [end.strip().rpartition("\n")[2] for end in ends if end.strip()]
        return cell | {"error": lines[0] if lines else f"stopped after {seconds:.0f} s"}
    samples = cell["together"] * cell["train_size"] * (cell["epochs"] - 1)
    alone = cell["train_size"] / min(last[0]["seconds"])  # without other work of the machine
    return cell | {
        "samples_per_second": alone if cell["together"] == 1 else samples / wall,
        **{"epochs_seconds": [each["seconds"] for each in last], **first[0]},
        **{"memory_mb": last[0]["memory_mb"], "device": last[0]["device"]},
    }


def speed(options, until: float) -> None:
    """Write the table of speed, cell by cell, so that what is measured is kept."""
    old, found = old_tree(options.old), []
    for cell in cells(options.rehearse):
        tree = ROOT if cell["tree"] == "new" else old
        if tree is None:
            row = cell | {"error": f"no tree of {OLD}: name a copy by --old"}
        else:
            row = timed(cell, tree, options.rehearse, min(90, until - time.time()))
        found.append(row)
        print(said(row), flush=True)
        (options.out / "speed.json").write_text(json.dumps(found, indent=1) + "\n")


def said(row: dict) -> str:
    """A cell in one line."""
    what = f"{row['tree']} {row['network']} {row['method']} {row['mode']}".strip()
    if "error" in row:
        return f"{what} × {row['together']}: {row['error']}"
    rate, after = row["samples_per_second"], row["second_epoch_after"]
    return f"{what} × {row['together']}: {rate:,.0f} samples/s, second epoch after {after:.1f} s"


def bits(options, until: float) -> None:
    """Compare graphs with their steps one by one, by the tests that do so."""
    name = "a_cuda_graph_gives" if not options.rehearse else "a_graph_repeats_adam"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf"]
    command += ["tests/test_graph.py", "-k", name]
    with open(options.out / "bits.txt", "w") as file, suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command, stdout=file, stderr=file, cwd=ROOT, timeout=min(150, until - time.time())
        )
    print((options.out / "bits.txt").read_text()[-1500:], flush=True)


def papermill(options, until: float) -> None:
    """Time a page from no records."""
    command = [sys.executable, str(ROOT / "benchmarks" / "papermill_gpu.py")]
    command += ["--out", str(options.out / "papermill.json")]
    command += ["--timeout", str(min(170, until - time.time()))]
    subprocess.run(command + ["--rehearse"] * options.rehearse, cwd=ROOT)


# --- the queue ------------------------------------------------------------------------------------


def wanted(rehearse: bool = False) -> list[Run]:
    """The runs of `gpu_queue.toml` in its order."""
    rows = tomllib.loads((ROOT / "benchmarks" / "gpu_queue.toml").read_text())["rows"]
    runs = []
    for row in rows:
        place = {k: row.get(k) for k in ("setting", "dataset", "seeds", "epochs", "protocol")}
        runs += plan.Selection("released", **place).runs(row["methods"])
    if rehearse:
        small = {"epochs": 1, "train_size": 256, "tracked": 100, "shifted": 0, "snapshots": ()}
        runs = [
            replace(run, network="resnet8", protocol=replace(run.protocol, **small))
            for run in runs[:REHEARSED]
        ]
    return list(dict.fromkeys(runs))


def missing(options) -> list[Run]:
    """The runs without a record; of those that a file of unfinished runs names, if there is one."""
    runs = wanted(options.rehearse)
    if options.unfinished:
        named = json.loads(options.unfinished.read_text())
        runs = [run for run in runs if run.name in named]
    return [run for run in runs if not folders.has(run)]


def work_of(run: Run) -> float:
    """How much a run computes, in passes of a sample forward and back."""
    forward, backward = PASSES.get(run.recipe.objective, (1, 1))
    sharp = 2 if run.recipe.update == "sam" else 1
    samples = run.protocol.epochs * (run.protocol.train_size or 45_000)
    return samples * sharp * (forward + 2 * backward) / 3


def work(options) -> None:
    """Train runs one after the other, those that others do not train, as far as the time allows."""
    train, paces = loop.train, {}
    if options.rehearse:
        steps = loop.graph.steps
        loop.graph.steps = lambda training, kind: steps(training, loop.graph.Tape)
    for run in missing(options):
        predicted = paces.get(run.network, options.pace) * work_of(run)
        if predicted > options.until - time.time():
            continue
        try:
            record = train(run, wait=False)
        except Timeout:  # another process trains it
            continue
        except torch.OutOfMemoryError:
            print(f"{run.name}: out of memory; one process less from here on", flush=True)
            return
        except Exception as error:  # the others go on
            print(f"{run.name}: {type(error).__name__}: {error}".partition("\n")[0], flush=True)
            continue
        spent = record.info["provenance"]["seconds"]
        paces[run.network] = spent / work_of(run)
        print(f"{run.name}: {record.info['status']} after {spent:.0f} s", flush=True)


def queue(options, until: float) -> None:
    """Train the queue by several processes and pack what they made."""
    runs = missing(options)
    together = min(len(runs), _room() if not options.rehearse else 1)
    print(f"{len(runs)} runs are missing; {together} processes train them", flush=True)
    command = [sys.executable, str(Path(__file__)), "--work", "--until", str(until)]
    command += ["--pace", str(_pace(options)), "--out", str(options.out)]
    command += ["--unfinished", str(options.unfinished)] if options.unfinished else []
    command += ["--rehearse"] * options.rehearse
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen(command, cwd=ROOT, env=environment) for _ in range(together)]
    for process in started:
        try:
            process.wait(max(0.0, until - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    pack(options, [run for run in runs if folders.has(run)])


def _room() -> int:
    """How many processes fit on the GPU."""
    cores = len(os.sched_getaffinity(0))
    if not torch.cuda.is_available():
        return cores
    return max(1, min(cores, torch.cuda.mem_get_info()[0] // MEMORY))


def _pace(options) -> float:
    """Seconds for a pass, as the table of speed has it for several at once."""
    with suppress(OSError, ValueError):
        rows = json.loads((options.out / "speed.json").read_text())
        rates = [
            row["samples_per_second"] / row["together"]
            for row in rows
            if row["tree"] == "new" and row["together"] > 1 and "error" not in row
        ]
        return 1 / min(rates)
    return 0.0


def pack(options, runs: Sequence[Run]) -> None:
    """Write the records of runs into archives of at most `LARGEST` bytes."""
    parts: list[list[Path]] = [[]]
    size = 0
    for run in runs:
        folder = folders.runs_root() / run.name
        own = sum(file.stat().st_size + 1024 for file in folder.iterdir())
        if parts[-1] and size + own > LARGEST:
            parts.append([])
            size = 0
        parts[-1].append(folder)
        size += own
    for number, part in enumerate(filter(None, parts), 1):
        with tarfile.open(options.out / f"records-{number}.tar", "w") as tar:
            for folder in part:
                tar.add(folder, folder.name)
    left = [run.name for run in missing(options)]
    (options.out / "unfinished.json").write_text(json.dumps(left, indent=1) + "\n")
    print(f"{len(runs)} runs were trained, {len(left)} are left", flush=True)


def main() -> None:
    """Do all parts in the time that is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--minutes", type=float, default=9, help="of all parts together (default: 9)")
    add("--out", type=Path, required=True, help="folder of what was found")
    add("--old", type=Path, default=ROOT / "build" / "old", help=f"tree of commit {OLD}")
    add("--unfinished", type=Path, help="unfinished.json of a run before")
    add("--parts", nargs="*", choices=PARTS, default=PARTS, help="which (default: all)")
    add("--list", action="store_true", help="write unfinished.json and end")
    add("--rehearse", action="store_true", help="on a CPU, with tiny runs")
    for hidden in ("--until", "--pace"):
        add(hidden, type=float, default=0, help=argparse.SUPPRESS)
    add("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.work:
        return work(options)
    if options.list:
        return pack(options, [])
    until = time.time() + 60 * options.minutes - RESERVE
    for name in PARTS:
        if name in options.parts and time.time() < until:
            {"speed": speed, "bits": bits, "papermill": papermill, "queue": queue}[name](
                options, until
            )


if __name__ == "__main__":
    main()
