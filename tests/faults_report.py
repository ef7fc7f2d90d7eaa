"""The commands `report` and `recalibrate` under faults: what they work on, and what must hold.

    python tests/faults_report.py             # a fault at every step of each
    python tests/faults_report.py --most 20   # steps spread over the whole command

Each writes over the results for an older file of predictions. After a fault at any system call on
a file of theirs, what is there is all old or all new, or a part of one of the two: never a new
``report.json`` beside an old ``report.html``, and never a map that is neither. A command that does
not end well says why in one line; the same command, given again, leaves the files of one that
nothing disturbed.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import injection  # noqa: E402
from calibkit import cli, posthoc  # noqa: E402


@dataclass(frozen=True)
class Case:
    """A command in a folder, which `prepare` fills.

    ``{folder}`` in `arguments` is that folder. `holds` says what can be seen there, a line for each
    thing; after a fault every line must be one of before the command or of after it.
    """

    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    holds: Callable[[Path], str]

    def in_folder(self, folder: Path) -> list[str]:
        return [argument.format(folder=folder) for argument in self.arguments]


def predictions(file: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(120, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(file, logits=2 * logits, labels=labels)


def before(folder: Path) -> None:
    """The results for an older file, and a newer file."""
    folder.mkdir()
    for seed, name in enumerate(("old", "new")):
        predictions(folder / f"{name}.npz", seed)
    for case in CASES.values():
        arguments = [x.replace("new.npz", "old.npz") for x in case.in_folder(folder)]
        if code := cli.main(arguments):
            raise RuntimeError(f"{arguments}: {code}")


def pair(folder: Path) -> str:
    """Whose page there is, and whether numbers beside it are of the same predictions."""
    html, numbers = folder / "out/report.html", folder / "out/report.json"
    page = re.search(r"confidence of (\w+) be", html.read_text(encoding="utf-8"))[1]
    if not numbers.exists():
        return f"page of {page}\nbelong together"
    (read,) = json.loads(numbers.read_text(encoding="utf-8"))["inputs"]
    return (
        f"page of {page}\n{'belong' if read['file'] == f'{page}.npz' else 'do not belong'} together"
    )


def saved_map(folder: Path) -> str:
    return f"map of {posthoc.load(folder / 'map.json').about_['fitted_on']['file']}"


CASES = {
    "report": Case(
        ("report", "{folder}/new.npz", "--out", "{folder}/out", "--quiet"), before, pair
    ),
    "recalibrate": Case(
        ("recalibrate", "{folder}/new.npz", "--map", "temperature", "--force", "--quiet")
        + ("--save", "{folder}/map.json"),
        before,
        saved_map,
    ),
}


# --- injecting ---


class Lost(Exception):
    """Something that must not happen."""


def must(condition: bool, what: str) -> None:
    if not condition:
        raise Lost(what)


class Trial:
    """A case in a folder of its own, which is filled once and copied for each fault."""

    def __init__(self, case: Case, base: Path):
        self.case, self.folder, self.filled = case, base / "work", base / "filled"
        self.log = base / "log"
        case.prepare(self.folder)
        self.folder.rename(self.filled)
        self.fresh()
        self.before = self.seen()
        self.steps, done = injection.steps(self.work, self.folder, self.log)
        must(done.code == 0, f"undisturbed: {done}")
        self.files, self.after = self.tree(), self.seen()
        must(self.before != self.after, "nothing changes")

    def work(self) -> int:
        return cli.main(self.case.in_folder(self.folder))

    def fresh(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.filled, self.folder)

    def seen(self) -> list[str]:
        return self.case.holds(self.folder).splitlines()

    def tree(self) -> dict[str, bytes]:
        paths = (p for p in self.folder.rglob("*") if p.is_file())
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in paths}

    def fault(self, step: injection.Step, how: str) -> str:
        """ "killed", "refused" or "unharmed"; "" if the fault met another call; or `Lost`."""
        self.fresh()
        ended = injection.injected(self.work, step, how, self.folder, self.log)
        if ended is None:
            return ""
        now = self.seen()
        known = zip(now, self.before, self.after, strict=True)
        must(all(line in either for line, *either in known), f"neither old nor new: {now}")
        outcome = how if how == injection.KILL else self._outcome(ended)
        again = injection.plain(self.work, self.log)
        must(again.code == 0, f"repeated: exit {again.code}: {again.err[-600:]}")
        tree = self.tree()
        differ = {k for k in tree.keys() | self.files.keys() if tree.get(k) != self.files.get(k)}
        must(not differ, f"repeated: other files: {sorted(differ)}")
        return outcome

    def _outcome(self, ended: injection.Ended) -> str:
        if ended.code == 0:
            must(self.tree() == self.files, "ends well with other files")
            return "unharmed"
        lines = ended.err.splitlines()
        one = len(lines) == 1 and lines[0].startswith("calibkit: ")
        must(ended.code in (1, 2) and one, f"exit {ended.code}: {ended.err[-900:]}")
        must(str(self.folder) in lines[0], f"names no file: {lines[0]}")
        must(not [p for p in self.tree() if p.endswith(".part")], "a draft is left")
        return "refused"


def inject(name: str, most: int = 0) -> Counter:
    """How many faults a command met, and what became of them; each loss is printed."""
    met = Counter()
    with tempfile.TemporaryDirectory(prefix="calibkit-faults-") as base:
        trial = Trial(CASES[name], Path(base))
        faults = injection.faults(trial.steps)
        if most and len(faults) > most:
            faults = [faults[i * len(faults) // most] for i in range(most)]
        for step, how in faults:
            try:
                met[trial.fault(step, how)] += 1
            except Lost as error:
                met["lost"] += 1
                print(f"LOST: {name}, {how} at {step.call} {step.n}: {error}\n  {step.line}")
    met.pop("", None)
    print(f"{name:12} {len(trial.steps):4} steps  {met.total():4} injections  {dict(met)}")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", choices=[*CASES, []], help=", ".join(CASES))
    parser.add_argument("--most", type=int, default=0, help="injections in each (default: all)")
    options = parser.parse_args()
    if reason := injection.why_not():
        print(reason)
        return 77
    from calibkit.report import estimates

    estimates.replicates = lambda n: 60
    return 1 if sum(inject(x, options.most)["lost"] for x in options.commands or CASES) else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
