"""Inject a fault at every step of a command, repeat the command, and see what is lost.

    python benchmarks/faults.py                               # every command, every step
    python benchmarks/faults.py collect delete --most 100     # steps spread over the whole command
    python benchmarks/faults.py --json benchmarks/results/injected.json

A step is a system call on a file below the folder that the command works in: looking for it,
opening, reading, writing, listing, flushing, renaming and removing. At each the call fails, by each
of its errors, and the process is killed. It survives if, after that, every number of the records is
an old one or a new one, the predictions are there, a command that ended well did all it should and
one that did not said why in one line, and the same command, given again, ends well with the same
files as an undisturbed one.

To add a command: an entry in `COMMANDS` of `benchmarks/commands.py` or `report_commands.py`.
"""

import argparse
import json
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import commands, report_commands  # noqa: E402
from benchmarks.commands import Lost, forget, in_cache, must, run  # noqa: E402
from benchmarks.injection import KILL, Ended, Step, faults, injected, plain, steps, why_not  # noqa: E402
from calibkit import cli, terms  # noqa: E402

COMMANDS = commands.COMMANDS | report_commands.COMMANDS
NO_STRACE = 77  # exit code


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
        must(not any(path.endswith(".part") for path in self.tree()), "a draft is left")
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
    if report_commands.COMMANDS.keys() & set(names):
        from calibkit.report import estimates

        estimates.replicates = lambda n: 60  # how many resamples: enough where no width is judged
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
        terms.choose("command", name, COMMANDS)
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
