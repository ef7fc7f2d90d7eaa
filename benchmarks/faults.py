"""Inject a fault at every step of a command, repeat the command, and see what is lost.

    python benchmarks/faults.py                               # every command, every step
    python benchmarks/faults.py collect delete --most 100     # steps spread over the whole command
    python benchmarks/faults.py --alike 5                     # of calls that look the same, five
    python benchmarks/faults.py --json benchmarks/results/injected.json

A step is a system call on a file in the folder of the command, such as opening, reading, writing or
renaming the file. At each step the call fails, once with each of its possible errors. At each step
that may change a file, the process is also killed. The command survives a fault if all of this
holds:

- every number of the records is an old number or a new number, and the predictions are there;
- a command that ended well did all that it should, and one that failed said why in one line;
- the repeated command ends well, with the same files as an undisturbed command.

For a command "twice" the repeated command meets a fault, too, and is repeated once more. A fault is
unmet if its call does not come, or concerns another file than in the undisturbed command.

To add a command: an entry in `COMMANDS` of `benchmarks/commands.py` or `report_commands.py`.
"""

import argparse
import hashlib
import json
import platform
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import commands, report_commands  # noqa: E402
from benchmarks.commands import Lost, forget, in_cache, must, run  # noqa: E402
from benchmarks.injection import KILL, Ended, Step, faults, injected, plain, steps, why_not  # noqa: E402
from calibkit import cli, terms  # noqa: E402
from calibkit_companion.records import tables  # noqa: E402

COMMANDS = commands.COMMANDS | report_commands.COMMANDS
NO_STRACE = 77  # exit code
LINE = "{command:24} {steps:4} steps {faults:5} faults {injections:5} injections {unmet:3} unmet"
LINE += " {again:4} twice {lost:2} lost {cpu_seconds:6} CPU-s"
_STRIDE = 37  # distance, in the list of faults, from a first fault to its second fault


class Trial:
    """A command with a folder, which is filled once and copied for each fault.

    Many faults leave the same files. So each state of the files is looked at only once, and the
    command is repeated only once from each state.
    """

    def __init__(self, name: str, base: Path):
        self.command, self.base = COMMANDS[name], base / name.replace(" ", "-")
        self.folder, self.filled = self.base / "work", self.base / "filled"
        self.log = self.base / "log"
        self.base.mkdir()
        self.known: dict[str, list[str]] = {}  # what is seen, by state
        self.mended: set[str] = set()  # states from which a repeated command ended well
        done = plain(lambda: self.command.prepare(self.folder) or 0, self.log)
        must(done.code == 0, f"cannot be prepared: {done.err[-600:]}")
        self.folder.rename(self.filled)
        if not name.startswith("train"):  # whose threads no fork survives
            self.fresh()
            in_cache(self.folder), forget()
            run(*self.command.in_folder(self.folder)), forget()  # imports all that it needs
        self.fresh()
        self.before = self.seen()
        self.steps, self.undisturbed = steps(self.work, self.folder, self.log)
        must(self.undisturbed.code == 0, f"undisturbed: {self.undisturbed}")
        self.files, self.after = self.tree(), self.seen()

    def work(self) -> int:
        in_cache(self.folder), forget()
        return cli.main(self.command.in_folder(self.folder))

    def fresh(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.filled, self.folder, symlinks=True)

    def seen(self) -> list[str]:
        """Describe the present files by `Command.holds`."""
        state = self.state()
        if state not in self.known:
            self.known[state] = self._look()
        return self.known[state]

    def _look(self) -> list[str]:
        """Describe the present files by `Command.holds` in a separate process."""

        def look() -> int:
            print(self.command.holds(self.folder))
            return 0

        done = plain(look, self.log)
        must(done.code == 0, f"cannot be read: {done.err[-600:]}")
        return done.out.splitlines()

    def tree(self) -> dict[str, bytes]:
        """Return the part of each file that must be the same after the repeated command."""
        paths = (p for p in self.folder.rglob("*") if p.is_file() and p.suffix != ".lock")
        return {str(p.relative_to(self.folder)): self.command.content(p) for p in paths}

    def drafts(self) -> set[Path]:
        """List the drafts that killed commands have left."""
        return {*self.folder.rglob("*.part")}

    def state(self) -> str:
        """A hash of all files and folders; drafts count under a name without the process."""
        found = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            if path.suffix != ".lock":
                name = re.sub(r"-\d+$|\.[0-9a-f]{16}\.part$", "", str(path))
                content = path.read_bytes() if path.is_file() else b""
                with suppress(ValueError, KeyError):  # of a draft cut short
                    content = self.command.content(path) if content else b""
                found.update(f"{name} {path.is_dir()} {len(content)} ".encode() + content)
        return found.hexdigest()

    def fault(self, *one_or_two: tuple[Step, str]) -> list[str]:
        """Inject one fault, or a second fault into the repeated command, too.

        Returns the outcome of each fault: "killed", "refused", "unharmed" or "unmet". Raises `Lost`
        if the command does not survive.
        """
        self.fresh()
        outcomes = []
        for step, how in one_or_two:
            drafts = self.drafts()
            ended = injected(self.work, step, how, self.folder, self.log)
            if ended is None:
                outcomes.append("unmet")
                break
            outcomes.append(KILL if how == KILL else self._outcome(ended))
            must(how == KILL or self.drafts() <= drafts, "a draft is left")
            states = zip(self.seen(), self.before, self.after, strict=True)
            wrong = [now for now, *known in states if now not in known]
            must(not wrong, f"neither old nor new: {wrong}")
        if outcomes == ["unmet"]:
            return outcomes
        self._repeat()
        return outcomes

    def _repeat(self) -> None:
        """Repeat the command; it must end well, with the files of an undisturbed command."""
        if (state := self.state()) in self.mended:
            return
        again = plain(self.work, self.log)
        must(again.code == 0, f"repeated: exit {again.code}: {again.err[-600:]}")
        if self.command.reads:
            must(again.out == self.undisturbed.out, "repeated: prints something else")
        if (now := self.tree()) != self.files:
            names = {k for k in now.keys() | self.files.keys() if now.get(k) != self.files.get(k)}
            raise Lost(f"repeated: other files: {sorted(names)}")
        self.mended.add(state)

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


def inject(name: str, most: int, base: Path, alike: int = 0) -> dict:
    """Inject all faults into a command, and count their outcomes in a row of results."""
    began, used = time.monotonic(), _seconds()
    trial = Trial(name, base)
    each = possible = faults(trial.steps, alike)
    if most and len(each) > most:
        each = [each[i * len(each) // most] for i in range(most)]
    met, second = Counter(), Counter()
    for i, fault in enumerate(each):
        twice = (possible[i * _STRIDE % len(possible)],) if trial.command.twice else ()
        try:
            outcome, *others = trial.fault(fault, *twice)
            met[outcome] += 1
            second.update(others)
        except Lost as error:
            met["lost"] += 1
            words = " and ".join(f"{how} at {step.call} {step.n}" for step, how in (fault, *twice))
            print(f"LOST: {name}, {words}: {error}\n  {fault[0].line}", flush=True)
    unmet = met.pop("unmet", 0)
    row = {"command": name, "steps": len(trial.steps), "faults": len(faults(trial.steps))}
    row |= {"injections": met.total(), "unmet": unmet}
    row |= {how: met[how] for how in (KILL, "refused", "unharmed", "lost")}
    row["again"] = second.total() - second["unmet"]
    row["seconds"] = round(time.monotonic() - began, 1)
    row["cpu_seconds"] = round(_seconds() - used, 1)
    print(LINE.format(**row), flush=True)
    return row


def _seconds() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(one)[:2]) for one in who)


def rows(names: list[str], most: int, alike: int = 0) -> Iterator[dict]:
    if any(name.startswith("train") for name in names):
        import torch._dynamo  # what the first optimiser loads

        import calibkit_companion.training.loop as loop

        torch.set_num_threads(1)
        loop.CHECKPOINT_SECONDS = 0.0  # after every epoch
    tables.FRESH = float("inf")  # as without strace, where a command takes less than that
    cli.entry_points = cache(cli.entry_points)  # they are looked for in folders that others change
    if report_commands.COMMANDS.keys() & set(names):
        from calibkit.report import estimates

        estimates.replicates = lambda n: 60  # how many resamples: enough where no width is judged
    with tempfile.TemporaryDirectory(prefix="calibkit-faults-") as base:
        for name in names:
            yield inject(name, most, Path(base), alike)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", help=", ".join(COMMANDS))
    parser.add_argument("--most", type=int, default=0, help="injections in each (default: all)")
    parser.add_argument("--alike", type=int, default=0, help="of calls that look the same, at most")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts there")
    options = parser.parse_args()
    for name in options.commands:
        terms.choose("command", name, COMMANDS)
    if reason := why_not():
        print(reason)
        return NO_STRACE
    found = {}
    for row in rows(options.commands or list(COMMANDS), options.most, options.alike):
        found[row["command"]] = row
        if options.json:
            note(found, options.json)
    return 1 if any(row["lost"] for row in found.values()) else 0


def note(found: dict[str, dict], path: Path, kind: str = "command", order: Iterable = COMMANDS):
    """Write rows to a file of results; they replace older rows of the same commands or faults."""
    kept = json.loads(path.read_text())[f"{kind}s"] if path.exists() else []
    rows = {old[kind]: old for old in kept} | found
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()}, Python {platform.python_version()}",
        f"{kind}s": [rows[name] for name in order if name in rows],
    }
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
