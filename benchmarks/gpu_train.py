"""The queue of `gpu_queue.py`: which runs, the process that trains them, and their archives."""

import io
import json
import os
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from benchmarks.gpu_speed import ROOT, beside
from calibkit import files
from calibkit_companion.data import catalogue
from calibkit_companion.experiments import cost, plan
from calibkit_companion.experiments.run import Run
from calibkit_companion.records import folders
from calibkit_companion.training import loop, side_by_side

LARGEST = 15 * 2**20  # bytes of an archive that is brought home
ARCHIVES = 4  # most archives, so that all files together are at most eight
PAUSE = 2  # seconds between two looks for new records
REHEARSED = 2  # runs of the queue


def write(path: Path, found: object) -> None:
    """Replace a JSON file whole."""
    files.publish({path: (json.dumps(found, indent=1) + "\n").encode()})


def wanted(rehearse: bool = False) -> list[Run]:
    """The runs of `gpu_queue.toml` in its order."""
    rows = tomllib.loads((ROOT / "benchmarks" / "gpu_queue.toml").read_text())["rows"]
    runs = []
    for row in rows:
        names = ("setting", "dataset", "seeds", "epochs", "protocol")
        selection = plan.Selection(row.get("edition", "released"), **{k: row.get(k) for k in names})
        runs += selection.runs(row["methods"])
    runs = list(dict.fromkeys(runs))
    return tiny(runs[:REHEARSED]) if rehearse else runs


def compared(rehearse: bool = False) -> list[Run]:
    """The runs whose accuracy is compared with that of released runs: three seeds."""
    runs = plan.Selection("released", "cifar10-augmented", seeds=3).runs(["erm"])
    return tiny(runs) if rehearse else runs


def tiny(runs: Sequence[Run]) -> list[Run]:
    """The same runs of a small network, on few samples."""
    small = {"epochs": 1, "train_size": 256, "tracked": 100, "shifted": 0, "snapshots": ()}
    return [
        replace(run, network="resnet8", protocol=replace(run.protocol, **small)) for run in runs
    ]


def listed(options) -> list[Run]:
    """The runs that a file of unfinished runs names; without it, those that have no record."""
    runs = wanted(options.rehearse)
    if not options.unfinished:
        return [run for run in runs if not folders.has(run)]
    named = set(json.loads(options.unfinished.read_text()))
    return [run for run in runs if run.name in named]


def work(options) -> None:
    """Train the runs that a file names, some side by side at a time, as the time allows."""
    most = 0
    if options.rehearse:  # graphs and turns on a CPU
        steps, most = loop.graph.steps, 2
        loop.graph.steps = lambda training, kind: steps(training, loop.graph.Tape)
    every = {run.name: run for of in (wanted, compared) for run in of(options.rehearse)}
    runs = [every[name] for name in json.loads(options.names.read_text())]
    runs, rate = [run for run in runs if not folders.has(run)], options.rate
    while batch := fitting(runs, rate, options.until - time.time()):
        runs = [run for run in runs if run not in batch]
        start = time.time()
        try:
            for run, record in side_by_side.train(batch, log=_say, most=most):
                _say(f"{run.name}: {record.info['status'] if record else 'another trains it'}")
        except Exception as error:  # after the others of the batch
            _say(f"{type(error).__name__}: {error}".partition("\n")[0])
        rate = sum(map(cost.samples, batch)) / (time.time() - start)


def _say(line: str) -> None:
    """Print a line, but none for an epoch."""
    if "  epoch " not in line:
        print(line, flush=True)


def fitting(runs: Sequence[Run], rate: float, seconds: float) -> list[Run]:
    """The first runs that are finished in so many seconds, at most `side_by_side.MOST`.

    Parameters
    ----------
    runs : the runs, in their order
    rate : samples a second of all runs together
    seconds : the time that is left
    """
    batch, left = [], rate * seconds
    for run in runs:
        if len(batch) < side_by_side.MOST and cost.samples(run) <= left:
            batch.append(run)
            left -= cost.samples(run)
    return batch


def train(
    options, runs: Sequence[Run], until: float, cache: Path, keep: Callable[[], object]
) -> None:
    """Train runs in a process of their own, which is killed at the end of the time.

    Parameters
    ----------
    options : of the script
    runs : the runs, in their order
    until : time at which it ends, in seconds since 1970
    cache : the folder in which records are kept
    keep : called every few seconds and at the end
    """
    cache.mkdir(parents=True, exist_ok=True)
    names = cache / ".names.json"
    names.write_text(json.dumps([run.name for run in runs]))
    print(f"{len(runs)} runs are to be trained", flush=True)
    command = [sys.executable, "-m", "benchmarks.gpu_queue", "--work", "--names", str(names)]
    command += ["--until", str(until), "--rate", str(_rate(options)), "--out", str(options.out)]
    command += ["--rehearse"] * options.rehearse
    environment = os.environ | {"PYTHONPATH": beside(ROOT), "OMP_NUM_THREADS": "1"}
    environment |= {"CALIBKIT_CACHE": str(cache), "CALIBKIT_DATA": str(catalogue.data_root())}
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    while process.poll() is None and time.time() < until:
        keep()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PAUSE)
    process.kill()
    process.wait()
    keep()


def _rate(options) -> float:
    """Samples a second of runs side by side, as measured here or else predicted."""
    with suppress(OSError, ValueError):
        rows = json.loads((options.out / "speed.json").read_text())["rows"]
        return max(row["samples_per_second"] for row in rows if row.get("side_by_side"))
    return 1e9 if options.rehearse else cost.ON_H100["resnet18_w32_s2"]


class Archives:
    """Records of runs in a few archives, each of which is replaced whole when a record comes.

    Parameters
    ----------
    out : folder of the archives
    runs : the runs whose records are packed
    """

    def __init__(self, out: Path, runs: Sequence[Run]):
        self.out, self.runs = out, runs
        self.parts: list[list[str]] = [[]]  # names of runs by archive
        self.size = 0  # bytes of the last archive

    @property
    def left(self) -> list[str]:
        """The names of the runs whose records are in no archive."""
        packed = {name for part in self.parts for name in part}
        return [run.name for run in self.runs if run.name not in packed]

    def add(self) -> None:
        """Pack the records that came, and write the names of the runs that are left."""
        root, changed = folders.runs_root(), set()
        for name in self.left:
            if not (root / name / "run.json").exists():
                continue
            own = sum(file.stat().st_size + 1024 for file in (root / name).iterdir())
            if self.parts[-1] and self.size + own > LARGEST:
                if len(self.parts) == ARCHIVES:
                    continue  # stays among those that are left
                self.parts.append([])
                self.size = 0
            self.parts[-1].append(name)
            self.size += own
            changed.add(len(self.parts))
        for number in changed:
            memory = io.BytesIO()
            with tarfile.open(fileobj=memory, mode="w") as tar:
                for name in self.parts[number - 1]:
                    tar.add(root / name, name)
            files.publish({self.out / f"records-{number}.tar": memory.getvalue()})
        write(self.out / "unfinished.json", self.left)
