"""Read released tables while another process publishes new ones, again and again.

    python benchmarks/readers.py [--readers 50] [--collects 20]

Every reader is a process that runs `calibkit results` ten times. A collector publishes two sets of
records in turn, at least `--collects` times and as long as any reader runs. Each output must be
that of one of the two sets. A mixture, an error or an empty output counts as wrong.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.commands import chosen, forget, in_cache, run, write  # noqa: E402
from benchmarks.injection import plain  # noqa: E402
from calibkit import cli  # noqa: E402

TIMES = 10  # that a reader reads
RESULTS = ("results", "--edition", "smoke", "--metric", "ece", "--csv")


def printed(folder: Path, log: Path) -> str:
    """What `calibkit results` prints of a folder, from a process of its own."""

    def look() -> int:
        in_cache(folder), forget()
        return cli.main(RESULTS)

    done = plain(look, log)
    return done.out if done.code == 0 else f"exit {done.code}: {done.err}"


def collect(folder: Path, records: Path) -> None:
    """Publish a set of records there."""
    shutil.rmtree(folder / "cache/runs", ignore_errors=True)
    shutil.copytree(records / "cache/runs", folder / "cache/runs")
    in_cache(folder), forget()
    run("collect", "--edition", "smoke")


def read(folder: Path, known: list[str], seed: int) -> int:
    """One reader: how often it saw something else than one of the known prints."""
    wrong, rng = 0, random.Random(seed)
    for _ in range(TIMES):
        time.sleep(rng.uniform(0, 0.2))
        said = printed(folder, folder.parent / f"reader-{seed}")
        if said not in known:
            wrong += 1
            os.write(2, f"wrong: {said}\n".encode())
    return wrong


def compare(readers: int, collects: int, base: Path) -> Counter:
    """Prints right and wrong, by readers at any time."""
    sets = []
    for i in range(2):
        in_cache(base / f"set{i}"), forget()
        write(*chosen(), separation=1.0 + i)
        for j, one in enumerate(chosen()):
            write(one, separation=1.0 + i + j / 4)
        sets.append(base / f"set{i}")
    home, seen = base / "home", base / "seen"
    known = []
    for records in sets:
        collect(home, records)
        (seen / "cache").mkdir(parents=True, exist_ok=True)
        if not known:
            (seen / "cache/released").symlink_to(home / "cache/released")
        known.append(printed(seen, base / "known"))
    forget()
    waiting = set()
    for i in range(readers):
        child = os.fork()
        if not child:
            os._exit(read(seen, known, i))
        waiting.add(child)
    found = Counter(different=int(known[0] != known[1]))
    while waiting or found["collects"] < collects:  # as long as anyone reads
        collect(home, sets[found["collects"] % 2])
        found["collects"] += 1
        for child in [*waiting]:
            done, code = os.waitpid(child, os.WNOHANG)
            if done:
                waiting.remove(child)
                wrong = os.waitstatus_to_exitcode(code)
                found += Counter(right=TIMES - wrong, wrong=wrong)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--collects", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="calibkit-readers-") as base:
        found = compare(options.readers, options.collects, Path(base))
    print(f"{options.readers} readers: {dict(found)}")
    return 1 if found["wrong"] or not found["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
