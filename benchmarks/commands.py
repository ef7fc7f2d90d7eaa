"""Commands that write records, for the injection of faults (`benchmarks/faults.py`).

To add a command, add an entry to `COMMANDS`, here or in `benchmarks/report_commands.py`.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from calibkit import cli
from calibkit_companion.experiments import plan
from calibkit_companion.records import folders, tables
from tests import records

METHODS = ("erm", "focal")


class Lost(Exception):
    """A fault lost data, or left files that are neither old nor new."""


def must(condition: bool, what: str) -> None:
    if not condition:
        raise Lost(what)


@dataclass(frozen=True)
class Command:
    """A command, and how to check its folder after a fault.

    `prepare` fills the folder. `holds` describes the content of the folder as text. After a fault
    this text must be the text before the command, or the text after an undisturbed command.
    `content` returns the part of a file that must be the same after the command is repeated. A
    command with `reads` changes no file, so its output is compared. For a command with `twice` the
    repeated command meets a fault, too, and is repeated once more.
    """

    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    holds: Callable[[Path], str]
    content: Callable[[Path], bytes] = Path.read_bytes
    reads: bool = False
    twice: bool = False

    def in_folder(self, folder: Path) -> list[str]:
        """Return the arguments of the command, with the path in place of ``{folder}``."""
        return [argument.format(folder=folder) for argument in self.arguments]


# --- folders of records ---


def in_cache(folder: Path) -> Path:
    os.environ["CALIBKIT_CACHE"] = os.environ["CALIBKIT_DATA"] = str(folder / "cache")
    return folder / "cache"


def run(*arguments: str) -> None:
    """Run a command in this process without its output; raise an error if it fails."""
    with open(os.devnull, "w") as paper:
        screen, sys.stdout = sys.stdout, paper
        try:
            must(cli.main(arguments) == 0, " ".join(arguments))
        finally:
            sys.stdout = screen


def chosen() -> list[plan.Run]:
    """List the runs in the folders: two methods with two seeds each."""
    return plan.Selection("smoke", seeds=2).runs(METHODS)


def of_two_settings() -> list[plan.Run]:
    """A run of each method in each setting of the smoke edition."""
    settings = [setting.name for setting in plan.settings("smoke")]
    each = (plan.Selection("smoke", seeds=1, setting=name).runs(METHODS) for name in settings)
    return [one for some in each for one in some]


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


def two_settings(folder: Path) -> None:
    """Tables of two settings, and news of both."""
    in_cache(folder)
    write(*of_two_settings())
    run("collect", "--edition", "smoke")
    for one in of_two_settings():
        shutil.rmtree(folders.load(one).path)
        write(one, separation=2.0)


def nothing(folder: Path) -> None:
    in_cache(folder).mkdir(parents=True)


def killed_training(folder: Path) -> None:
    """The checkpoint of a training that was killed in its fourth epoch."""
    in_cache(folder).mkdir(parents=True)
    child = os.fork()
    if not child:
        die_in_epoch(4)
        os._exit(cli.main(TRAIN))
    must(os.waitpid(child, 0)[1] == signal.SIGKILL, "the training was not killed")


def die_in_epoch(number: int) -> None:
    """Let this process kill itself when a training begins this epoch."""
    from calibkit_companion.training import loop

    learning = loop.Training.learning

    def learning_or_die(self, epoch):
        if epoch >= number:
            os.kill(os.getpid(), signal.SIGKILL)
        return learning(self, epoch)

    loop.Training.learning = learning_or_die


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
    """Forget all open tables, so that this process reads them as a new process would."""
    tables.seen.clear(), tables._OPEN.clear(), tables._index.clear()
    if settings := sys.modules.get("calibkit_companion.claims.settings"):
        settings.mathematics.cache_clear()


def numbers(folder: Path, runs: Callable = chosen, drawn: bool = True) -> str:
    """Write a line for each run with a hash of all its numbers and a hash of its predictions.

    With `drawn` the deviations of the replicates count, too.
    """
    in_cache(folder), forget()
    lines = []
    for one in runs():
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
    """Read a file, without the times and the machine in ``run.json``; empty for temporary files."""
    if path.name == "run.json":
        info = json.loads(path.read_text())
        return json.dumps([info["status"], info["run"], info["sha256"]]).encode()
    return path.read_bytes()


COLLECT = ("collect", "--edition", "smoke")
OF_METHODS = ("--method", "erm", "--method", "focal")
DELETE = ("delete", "--edition", "smoke", "--yes", *OF_METHODS)
RESULTS = ("results", "--edition", "smoke", *OF_METHODS)
CLAIMS = ("claims", "--edition", "smoke")
trained = partial(numbers, drawn=False)
COMMANDS = {
    "train": Command(TRAIN, nothing, trained, of_a_record),
    "train two": Command((*TRAIN, "--seeds", "2"), nothing, trained, of_a_record),
    "train resumed": Command(TRAIN, killed_training, trained, of_a_record),
    "train again": Command((*TRAIN, "--again"), light, trained, of_a_record),
    "collect": Command(COLLECT, four_runs, numbers),
    "collect news": Command(COLLECT, tables_and_news, numbers),
    "collect settings": Command(COLLECT, two_settings, partial(numbers, runs=of_two_settings)),
    "collect 0.1.0": Command(COLLECT, tables_of_before, numbers),
    "delete": Command(DELETE, collected, numbers),
    "delete unreleased": Command(DELETE, four_runs, numbers),
    "results": Command(RESULTS, tables_alone, numbers, reads=True),
    "results csv": Command((*RESULTS, "--metric", "ece", "--csv"), collected, numbers, reads=True),
    "results 0.1.0": Command(RESULTS, tables_of_before, numbers, reads=True),
    "claims": Command(CLAIMS, with_mathematics, numbers, reads=True),
    "claims json": Command((*CLAIMS, "--json"), with_mathematics, numbers, reads=True),
}
COMMANDS |= {
    f"{name}, twice": replace(COMMANDS[name], twice=True)
    for name in ("train", "collect", "collect news", "delete")
}
