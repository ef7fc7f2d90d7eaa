"""Inject a fault at every step of a command, repeat the command, and see what is lost.

    python benchmarks/faults.py                               # every command, every step
    python benchmarks/faults.py collect delete --most 100     # steps spread over the whole command
    python benchmarks/faults.py --json benchmarks/results/injected.json

A step is a system call on a file below the folder that the command works in: opening, reading,
writing, listing, flushing, renaming and removing. At each the call fails, by each of its errors,
and the process is killed. It survives if, after that, every number of the records is an old one or
a new one, the predictions are there, a command that ended well did all it should and one that did
not said why in one line, and the same command, given again, ends well with the same files as an
undisturbed one.

To add a command: an entry in `COMMANDS`.
"""

import argparse
import hashlib
import json
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.injection import KILL, Ended, Step, faults, injected, plain, steps, why_not  # noqa: E402
from calibkit import cli  # noqa: E402
from calibkit_companion.experiments import plan  # noqa: E402
from calibkit_companion.records import folders, tables  # noqa: E402
from tests import records  # noqa: E402

METHODS = ("erm", "focal")
NO_STRACE = 77  # exit code


class Lost(Exception):
    """Something that must not happen."""


def must(condition: bool, what: str) -> None:
    if not condition:
        raise Lost(what)


@dataclass(frozen=True)
class Command:
    """A command, and what must hold of its folder after a fault.

    `prepare` fills the folder. `holds` returns what can be seen in a folder, as text: after a fault
    that must be what was there before the command or what is there after it. `content` of a file is
    what must be the same after the repeated command. Where `reads` is true the command changes
    nothing, and what it prints is compared.
    """

    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    holds: Callable[[Path], str]
    content: Callable[[Path], bytes] = Path.read_bytes
    reads: bool = False


# --- folders of records ---


def in_cache(folder: Path) -> Path:
    os.environ["CALIBKIT_CACHE"] = os.environ["CALIBKIT_DATA"] = str(folder / "cache")
    return folder / "cache"


def run(*arguments: str) -> None:
    """A command in this process, which must end well and print nothing."""
    with open(os.devnull, "w") as paper:
        screen, sys.stdout = sys.stdout, paper
        try:
            must(cli.main(arguments) == 0, " ".join(arguments))
        finally:
            sys.stdout = screen


def chosen() -> list[plan.Run]:
    return plan.Selection("smoke", seeds=2).runs(METHODS)


def write(*which: plan.Run, **how) -> None:
    for one in which:
        folders.add_replicates(records.write(one, **({"n": 60, "k": 5} | how)))


def four_runs(folder: Path) -> None:
    in_cache(folder)
    write(*chosen())


def tables_and_news(folder: Path) -> None:
    """Tables of three runs; a folder of the fourth, and one trained again with other numbers."""
    in_cache(folder)
    write(*chosen()[:3])
    run("collect", "--edition", "smoke")
    for record in map(folders.load, chosen()[:2]):
        shutil.rmtree(record.path)
    write(chosen()[3])
    write(chosen()[2], separation=2.0)


def tables_of_before(folder: Path) -> None:
    """Tables as version 0.1.0 wrote them, and no folders."""
    from pyarrow import parquet

    tables_alone(folder)
    for path in (folder / "cache/released/shared").glob("*-*.parquet"):
        table = parquet.read_table(path).replace_schema_metadata(None)
        parquet.write_table(table, path.with_name(f"{path.name.partition('-')[0]}.parquet"))
        path.unlink()
    (folder / "cache/released/shared/manifest.json").unlink()


def collected(folder: Path) -> None:
    """Four runs in tables and in folders."""
    four_runs(folder)
    run("collect", "--edition", "smoke")


def tables_alone(folder: Path) -> None:
    collected(folder)
    for path in (folder / "cache/runs").glob("[!.]*"):
        shutil.rmtree(path)


def with_mathematics(folder: Path) -> None:
    """Tables alone, and what the board works out by torch."""
    tables_alone(folder)
    run("claims", "--edition", "smoke")


def nothing(folder: Path) -> None:
    in_cache(folder).mkdir(parents=True)


def light(folder: Path) -> None:
    """A released run without its predictions."""
    in_cache(folder)
    run(*TRAIN)
    run("collect", "--edition", "smoke")
    shutil.rmtree(folders.load(training()).path)


def training() -> plan.Run:
    return plan.Selection("smoke", seeds=1).runs(["erm"])[0]


TRAIN = ("train", "--edition", "smoke", "--method", "erm", "--seeds", "1", "--quiet")
TRAIN += ("--replicates",)


def forget() -> None:
    """As a new process: nothing is known of tables."""
    tables.seen.clear(), tables._OPEN.clear(), tables._index.clear()
    if settings := sys.modules.get("calibkit_companion.claims.settings"):
        settings.mathematics.cache_clear()


def numbers(folder: Path, drawn: bool = True) -> str:
    """A line for each run: a hash of all its numbers, and that of its predictions.

    `drawn`: with the deviations of its replicates, which a file has rounded.
    """
    in_cache(folder), forget()
    lines = []
    for one in chosen():
        record = folders.load(one)
        if record is None:
            lines.append(f"{one.name} none")
            continue
        its, found = record.replicates, hashlib.sha256()
        for table in (record.history, record.all_shifted):
            for name, column in table.items():
                found.update(name.encode() + column.tobytes())
        for name in sorted(its.names):
            found.update(f"{name} {its.estimate(name)}".encode())
            found.update(its.deviation(name).tobytes() * drawn)
        kept = "" if record.light else folders.digest(record.predictions)
        lines.append(f"{one.name} {found.hexdigest()[:16]} {kept[:16]}")
    return "\n".join(lines)


def of_a_record(path: Path) -> bytes:
    """A file, without the times and the machine in ``run.json``; empty if it comes and goes."""
    if path.name == "run.json":
        info = json.loads(path.read_text())
        return json.dumps([info["status"], info["run"], info["sha256"]]).encode()
    return path.read_bytes()


COLLECT = ("collect", "--edition", "smoke")
DELETE = ("delete", "--edition", "smoke", "--yes", "--method", "erm", "--method", "focal")
COMMANDS = {
    "train": Command(TRAIN, nothing, partial(numbers, drawn=False), of_a_record),
    "train again": Command((*TRAIN, "--again"), light, partial(numbers, drawn=False), of_a_record),
    "collect": Command(COLLECT, four_runs, numbers),
    "collect news": Command(COLLECT, tables_and_news, numbers),
    "collect 0.1.0": Command(COLLECT, tables_of_before, numbers),
    "delete": Command(DELETE, collected, numbers),
    "delete unreleased": Command(DELETE, four_runs, numbers),
    "results": Command(("results", "--edition", "smoke"), tables_alone, numbers, reads=True),
    "results 0.1.0": Command(
        ("results", "--edition", "smoke"), tables_of_before, numbers, reads=True
    ),
    "claims": Command(("claims", "--edition", "smoke"), with_mathematics, numbers, reads=True),
}


# --- injecting ---


class Trial:
    """A command with a folder of its own, filled once and copied for each fault."""

    def __init__(self, name: str, base: Path):
        self.command, self.base = COMMANDS[name], base / name.replace(" ", "-")
        self.folder, self.filled = self.base / "work", self.base / "filled"
        self.log = self.base / "log"
        self.base.mkdir()
        done = plain(lambda: self.command.prepare(self.folder) or 0, self.log)
        must(done.code == 0, f"cannot be prepared: {done.err[-600:]}")
        self.folder.rename(self.filled)
        if not name.startswith("train"):  # whose threads no fork survives
            self.fresh()
            in_cache(self.folder), forget(), run(*self.command.arguments)  # imports all it needs
            forget()
        self.fresh()
        self.before = self.seen()
        self.steps, self.undisturbed = steps(self.work, self.folder, self.log)
        must(self.undisturbed.code == 0, f"undisturbed: {self.undisturbed}")
        self.files, self.after = self.tree(), self.seen()

    def work(self) -> int:
        in_cache(self.folder), forget()
        return cli.main(self.command.arguments)

    def fresh(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.filled, self.folder, symlinks=True)

    def seen(self) -> list[str]:
        """What `holds` says, from a process of its own."""

        def look() -> int:
            print(self.command.holds(self.folder))
            return 0

        done = plain(look, self.log)
        must(done.code == 0, f"cannot be read: {done.err[-600:]}")
        return done.out.splitlines()

    def tree(self) -> dict[str, bytes]:
        paths = (p for p in self.folder.rglob("*") if p.is_file() and p.suffix != ".lock")
        return {str(p.relative_to(self.folder)): self.command.content(p) for p in paths}

    def fault(self, step: Step, how: str) -> str:
        """ "killed", "refused" or "unharmed"; "" if the fault met another call; or `Lost`."""
        self.fresh()
        ended = injected(self.work, step, how, self.folder, self.log)
        if ended is None:
            return ""
        outcome = KILL if how == KILL else self._outcome(ended)
        states = zip(self.seen(), self.before, self.after, strict=True)
        wrong = [now for now, *known in states if now not in known]
        must(not wrong, f"neither old nor new: {wrong}")
        again = plain(self.work, self.log)
        must(again.code == 0, f"repeated: exit {again.code}: {again.err[-600:]}")
        if self.command.reads:
            must(again.out == self.undisturbed.out, "repeated: prints something else")
        if (now := self.tree()) != self.files:
            names = {k for k in now.keys() | self.files.keys() if now.get(k) != self.files.get(k)}
            raise Lost(f"repeated: other files: {sorted(names)}")
        return outcome

    def _outcome(self, ended: Ended) -> str:
        if ended.code == 0:
            if self.command.reads:
                must(ended.out == self.undisturbed.out, "ends well and prints something else")
            else:
                must(self.seen() == self.after, "ends well without having done it")
            return "unharmed"
        lines = ended.err.splitlines()
        one = len(lines) == 1 and lines[0].startswith("calibkit: ")
        must(ended.code in (1, 2) and one, f"exit {ended.code}: {ended.err[-900:]}")
        must(str(self.folder) in lines[0], f"names no file: {lines[0]}")
        return "refused"


def inject(name: str, most: int, base: Path) -> dict:
    """A row: how many faults a command met, and what became of them."""
    began, used = time.monotonic(), _seconds()
    trial = Trial(name, base)
    each = faults(trial.steps)
    if most and len(each) > most:
        each = [each[i * len(each) // most] for i in range(most)]
    met = Counter()
    for step, how in each:
        try:
            met[trial.fault(step, how)] += 1
        except Lost as error:
            met["lost"] += 1
            print(
                f"LOST: {name}, {how} at {step.call} {step.n}: {error}\n  {step.line}", flush=True
            )
    met.pop("", None)
    row = {"command": name, "steps": len(trial.steps), "injections": met.total()}
    row |= {how: met[how] for how in (KILL, "refused", "unharmed", "lost")}
    row["seconds"] = round(time.monotonic() - began, 1)
    row["cpu_seconds"] = round(_seconds() - used, 1)
    line = (
        "{command:18} {steps:4} steps  {injections:5} injections  {lost} lost  {cpu_seconds} CPU-s"
    )
    print(line.format(**row), flush=True)
    return row


def _seconds() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(one)[:2]) for one in who)


def rows(names: list[str], most: int) -> Iterator[dict]:
    if any(name.startswith("train") for name in names):
        import torch._dynamo  # what the first optimiser loads

        import calibkit_companion.training.loop as loop

        torch.set_num_threads(1)
        loop.CHECKPOINT_SECONDS = 0.0  # after every epoch
    with tempfile.TemporaryDirectory(prefix="calibkit-faults-") as base:
        for name in names:
            yield inject(name, most, Path(base))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", help=", ".join(COMMANDS))
    parser.add_argument("--most", type=int, default=0, help="injections in each (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts there")
    options = parser.parse_args()
    for name in options.commands:
        plan.choose("command", name, COMMANDS)
    if reason := why_not():
        print(reason)
        return NO_STRACE
    found = {}
    for row in rows(options.commands or list(COMMANDS), options.most):
        found[row["command"]] = row
        if options.json:
            note(found, options.json)
    return 1 if any(row["lost"] for row in found.values()) else 0


def note(found: dict[str, dict], path: Path) -> None:
    """Put rows into the file of results, in place of older ones of the same commands."""
    kept = json.loads(path.read_text())["commands"] if path.exists() else []
    all_of = {old["command"]: old for old in kept} | found
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()}, Python {platform.python_version()}",
        "commands": [all_of[name] for name in COMMANDS if name in all_of],
    }
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
