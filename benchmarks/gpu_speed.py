"""The table of speed of `gpu_queue.py`: this tree beside that of an older commit.

Each row is a run of `gpu_steps.py`, or several at once: in processes of their own, or side by side
in one process, as this tree trains them.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Timer

ROOT = Path(__file__).resolve().parent.parent
OLD = "d88b3342"  # before steps were graphs
SMALL = "resnet18_w32_s2"  # the network of the edition for one GPU
LONGEST = 90  # seconds of a row


def cells(rehearse: bool) -> list[dict]:
    """What the table of speed measures: a tree, a run, and how many at once."""
    size = {"train_size": 20_000, "epochs": 4}
    if rehearse:
        size = {"train_size": 200, "epochs": 2}
    alone = [("resnet18", method, 1, "") for method in ("erm", "fmfp")]
    each = [(tree, *cell) for cell in alone for tree in ("old", "new")]
    each += [("new", SMALL, "erm", n, "", n > 1) for n in (1, 4, 8)]
    each += [("old", SMALL, "erm", n, "") for n in (1, 4)]
    each += [("new", SMALL, "erm", 4, ""), ("new", "resnet18", "erm", 4, "", True)]
    each += [("new", "resnet18", "erm", 1, "default")]
    each = [cell if len(cell) == 6 else (*cell, False) for cell in each]
    if rehearse:
        each = [(tree, "resnet8", m, min(n, 2), *how) for tree, _, m, n, *how in each[:6]]
    keys = ("tree", "network", "method", "together", "mode", "side_by_side")
    named = [dict(zip(keys, cell, strict=True)) | size for cell in each]
    for cell in named:  # the runs reach the same epoch at different times
        cell["epochs"] *= 1 + cell["side_by_side"]
    return named


def old_tree(folder: Path, commit: str = OLD) -> Path | None:
    """The tree of a commit, copied by git if it is not there; None without git."""
    if not (folder / "calibkit").is_dir():
        asked = ["git", "-C", str(ROOT), "archive", commit, "calibkit"]
        try:
            done = subprocess.run(asked, capture_output=True)
        except OSError:  # git is not installed
            return None
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
    environment = os.environ | {"PYTHONPATH": beside(tree), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    started = [
        subprocess.Popen(command, text=True, env=environment, **pipes)
        for _ in range(1 if cell["side_by_side"] else cell["together"])
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
    rate = cell["together"] * cell["train_size"] * (cell["epochs"] - 1) / wall
    if cell["side_by_side"]:
        rate = last[0]["samples_per_second"]
    elif cell["together"] == 1:
        rate = cell["train_size"] / min(last[0]["seconds"])  # without other work of the machine
    return cell | {
        "samples_per_second": rate,
        **{"epochs_seconds": [each["seconds"] for each in last], **first[0]},
        **{"memory_mb": last[0]["memory_mb"], "device": last[0]["device"]},
        "whole_seconds": time.perf_counter() - began,
    }


def beside(tree: Path) -> str:
    """PYTHONPATH with a tree before what it names already."""
    return os.pathsep.join(filter(None, (str(tree), os.environ.get("PYTHONPATH"))))


def measure(
    old: Path, rehearse: bool, until: float, keep: Callable[[list[dict]], None]
) -> list[dict]:
    """Measure the table, row by row, and hand it to `keep` after each row.

    Parameters
    ----------
    old : folder of the older tree; filled by git if it is empty
    rehearse : on a CPU, with tiny runs
    until : time at which it ends, in seconds since 1970
    keep : takes the rows that are measured so far
    """
    there, found = old_tree(old), []
    for cell in cells(rehearse):
        tree = ROOT if cell["tree"] == "new" else there
        left = until - time.time()
        if tree is None:
            row = cell | {"error": f"no tree of {OLD}: name a copy by --old"}
        elif left < 1:
            row = cell | {"error": "no time was left"}
        else:
            row = timed(cell, tree, rehearse, min(LONGEST, left))
        found.append(row)
        print(said(row), flush=True)
        keep(found)
    return found


def said(row: dict) -> str:
    """A row in one line."""
    how = "side by side" if row["side_by_side"] else row["mode"]
    what = f"{row['tree']} {row['network']} {row['method']} {how}".strip()
    if "error" in row:
        return f"{what} × {row['together']}: {row['error']}"
    rate, after = row["samples_per_second"], row["second_epoch_after"]
    return f"{what} × {row['together']}: {rate:,.0f} samples/s, second epoch after {after:.1f} s"


def ratios(rows: Sequence[dict]) -> dict[str, float]:
    """How many times as fast this tree is, and several runs together; what lacks is left out."""
    rates = {
        tuple(row[key] for key in ("tree", "side_by_side", "together", "network", "method")): row[
            "samples_per_second"
        ]
        for row in rows
        if not row["mode"] and "error" not in row
    }
    found = {}
    for (tree, aside, together, *what), rate in rates.items():
        how = f"{' '.join(what)} × {together}{' side by side' * aside}"
        before = rates.get(("old", False, together, *what))
        alone = rates.get((tree, False, 1, *what))
        if tree == "new" and before:
            found[f"{how}: new / old"] = rate / before
        if tree == "new" and together > 1 and alone:
            found[f"{how}: together / alone"] = rate / alone
    return found
