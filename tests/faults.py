"""Break things on purpose, many times over, and count what survives.

    python tests/faults.py                            # every fault, its own number of rounds
    python tests/faults.py --rounds 50 kill_training  # one of them
    python tests/faults.py --json benchmarks/results/faults.json

A round injects one fault at random into a cache of its own; then the plain command is given, as a
user would give it again. It survives if that ends complete, with the same bytes in history.csv and
arrays.npz (or the decoded arrays, or the page) as a command that nothing disturbed, and leaves no
scratch file; a command that meets the fault itself may instead refuse in one line. Whatever else
happens is a loss, and is printed.

Trainings are children forked from this process, so a round takes a second and not the five which
importing torch takes. A process is killed; a power cut, which also takes what the kernel has not
written yet, is not tried.
"""

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.commands import Lost, die_in_epoch, must  # noqa: E402
from benchmarks.faults import note  # noqa: E402
from calibkit import cli, terms  # noqa: E402
from calibkit_companion import data  # noqa: E402
from calibkit_companion.experiments import plan  # noqa: E402
from calibkit_companion.records import folders  # noqa: E402

fork = multiprocessing.get_context("fork")
METHODS = ("erm", "fmfp", "crl", "mixup", "cs_kd")  # each has a state of its own to lose
FILES = ("history.csv", "arrays.npz")
# What the audit hook calls the steps by which files come, change and go.
FILE_EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.scandir"}


# --- commands, in children of this process ---


def command(method: str) -> list[str]:
    return ["train", "--edition", "smoke", "--method", method, "--seeds", "1", "--quiet"]


def run_of(method: str) -> plan.Run:
    return plan.Selection("smoke", seeds=1).runs([method])[0]


def training(method: str) -> Callable:
    return lambda: cli.main(command(method))


def decoding(pictures: Path) -> Callable:
    def decode():
        with contextlib.redirect_stdout(None):
            data.load(f"imagefolder:{pictures}")

    return decode


class Child:
    """A forked process that does `work` with its own cache, prints to a file, can be killed."""

    def __init__(self, work: Callable, cache: Path, disturb: Callable = lambda: None):
        cache.mkdir(parents=True, exist_ok=True)
        self.cache, self.printed = cache, cache.with_suffix(".out")
        self.printed.touch()
        self.process = fork.Process(target=self._run, args=(work, disturb))
        self.began = time.monotonic()
        self.process.start()

    def _run(self, work, disturb):
        import torch

        torch.set_num_threads(1)
        os.environ["CALIBKIT_CACHE"] = os.environ["CALIBKIT_DATA"] = str(self.cache)
        paper = os.open(self.printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(paper, 1), os.dup2(paper, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        disturb()
        code = work()
        sys.stdout.flush()
        sys.exit(code)

    def kill_after(self, seconds: float) -> "Child":
        self.process.join(max(0.0, self.began + seconds - time.monotonic()))
        self.process.kill()
        return self.end()

    def end(self) -> "Child":
        self.process.join(600)
        must(not self.process.is_alive(), "hangs")
        self.seconds = time.monotonic() - self.began
        self.code = self.process.exitcode
        self.output = self.printed.read_text(errors="replace")
        return self

    def complete(self) -> "Child":
        must(self.end().code in (0, None), f"exit {self.code}: {self.output[-1500:]}")
        return self

    def complete_or_refused(self) -> str:
        """ "complete", or "refused" if the command said so in one line of its own."""
        self.end()
        errors = [x for x in self.output.splitlines() if not x.startswith(("[", "damaged", "  "))]
        if self.code == 0:
            return "complete"
        must(
            self.code in (1, 2) and len(errors) == 1 and errors[0].startswith("calibkit: "),
            f"exit {self.code}: {self.output[-1500:]}",
        )
        return "refused"


def checkpoint_each_epoch() -> None:
    sys.modules["calibkit_companion.training.loop"].CHECKPOINT_SECONDS = 0.0


def die_at(step: int, events: list | None = None) -> Callable:
    """Kill the child at its step-th operation on a file; with `events` only note them."""

    def arm():
        checkpoint_each_epoch()
        left = [step]
        cache = os.environ["CALIBKIT_CACHE"]

        def hook(event, args):
            if event in FILE_EVENTS and str(args[0]).startswith(cache):
                if events is not None:
                    os.write(1, b"#")
                    return
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    return arm


# --- what is undisturbed, to compare with ---


class Reference:
    """What the commands leave, and how long they take, when nothing goes wrong."""

    def __init__(self, folder: Path):
        self.folder, self._known = folder, {}

    def record(self, method: str) -> tuple[dict[str, bytes], float, int]:
        """Bytes by file, seconds, and operations on files of a training."""
        if method not in self._known:
            cache = self.folder / f"reference-{method}"
            child = Child(training(method), cache, checkpoint_each_epoch).complete()
            counted = Child(training(method), self.folder / f"counted-{method}", die_at(0, []))
            steps = counted.complete().output.count("#")
            self._known[method] = read(cache, method), child.seconds, steps
        return self._known[method]

    def decoded(self) -> tuple[Path, dict[str, bytes], float, int]:
        if "decoded" not in self._known:
            pictures = self.folder / "pictures"
            rng = np.random.default_rng(0)
            for part, count in (("train", 120), ("test", 60)):
                for i in range(count):
                    path = pictures / part / "abc"[i % 3] / f"{i}.png"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(path)
            cache = self.folder / "reference-decoded"
            child = Child(decoding(pictures), cache).complete()
            counted = Child(decoding(pictures), self.folder / "counted-decoded", die_at(0, []))
            steps = counted.complete().output.count("#")
            self._known["decoded"] = pictures, decoded_files(cache), child.seconds, steps
        return self._known["decoded"]


def read(cache: Path, method: str) -> dict[str, bytes]:
    return {file: (cache / "runs" / run_of(method).name / file).read_bytes() for file in FILES}


def decoded_files(cache: Path) -> dict[str, bytes]:
    home = next(p for p in (cache / "decoded").iterdir() if not p.name.startswith("."))
    return {p.name: p.read_bytes() for p in sorted(home.iterdir())}


def check_record(cache: Path, method: str, reference: Reference) -> None:
    must(read(cache, method) == reference.record(method)[0], "other bytes than undisturbed")
    name = run_of(method).name
    known = {name, f".{name}.lock", f".damaged-{name}"}
    left = {p.name for p in (cache / "runs").iterdir()} - known
    must(not left, f"scratch files left: {left}")
    must(folders.load(run_of(method), cache / "runs").info["status"] == "done", "not done")


def train_again(cache: Path, method: str, reference: Reference) -> Child:
    """The plain command, and its record beside the undisturbed one."""
    child = Child(training(method), cache).complete()
    check_record(cache, method, reference)
    return child


def decode_again(cache: Path, reference: Reference) -> Child:
    pictures, files, *_ = reference.decoded()
    child = Child(decoding(pictures), cache).complete()
    must(decoded_files(cache) == files, "other bytes than undisturbed")
    left = {p.name for p in (cache / "decoded").iterdir() if p.suffix == ".draft"}
    must(not left, f"scratch files left: {left}")
    return child


# --- faults: a round each, in a folder of its own; "complete" or "refused", or Lost ---


def kill_training(rng: random.Random, folder: Path, reference: Reference) -> str:
    """kill -9 at random moments of a training, up to three times, a checkpoint after each epoch"""
    method, cache = rng.choice(METHODS), folder / "cache"
    seconds = reference.record(method)[1]
    for _ in range(rng.randint(1, 3)):
        child = Child(training(method), cache, checkpoint_each_epoch)
        child.kill_after(rng.uniform(0, seconds))
    train_again(cache, method, reference)
    return "complete"


def kill_training_at_a_file(rng: random.Random, folder: Path, reference: Reference) -> str:
    """kill -9 at an operation on a file while checkpoints and the record are written"""
    method, cache = rng.choice(METHODS), folder / "cache"
    steps = reference.record(method)[2]
    Child(training(method), cache, die_at(rng.randrange(steps))).end()
    train_again(cache, method, reference)
    return "complete"


def kill_record_write(rng: random.Random, folder: Path, reference: Reference) -> str:
    """kill -9 at a random moment while a record of 10 MB is written"""
    run, root = run_of("erm"), folder / "cache" / "runs"
    arrays = {"test_logits": np.random.default_rng(0).random((130_000, 10))}

    def write():
        with folders.locked(run, root):
            folders.verify(run, root) or folders.save(run, "done", [{"epoch": 1}], arrays, {}, root)

    child = Child(write, folder / "cache")
    child.kill_after(rng.uniform(0, 0.7))
    Child(write, folder / "cache").complete()
    stored = folders.load(run, root).arrays["test_logits"]
    must(np.array_equal(stored, arrays["test_logits"]), "other numbers than written")
    must({p.name for p in root.iterdir()} == {run.name, f".{run.name}.lock"}, "scratch files left")
    return "complete"


def kill_decoding(rng: random.Random, folder: Path, reference: Reference) -> str:
    """kill -9 while a data set is decoded: at a random moment, or at an operation on a file"""
    pictures, _, seconds, steps = reference.decoded()
    cache = folder / "cache"
    if rng.random() < 0.5:
        Child(decoding(pictures), cache).kill_after(rng.uniform(0, seconds))
    else:
        Child(decoding(pictures), cache, die_at(rng.randrange(steps))).end()
    decode_again(cache, reference)
    return "complete"


def disk_full(rng: random.Random, folder: Path, reference: Reference) -> str:
    """a disk that is full at a random byte of checkpoints, record or decoded data"""
    method, cache = rng.choice(METHODS), folder / "cache"
    cache.mkdir()
    decode = rng.random() < 0.3
    work = decoding(reference.decoded()[0]) if decode else training(method)
    files = reference.decoded()[1] if decode else reference.record(method)[0]
    most = sum(map(len, files.values())) + 40_000  # and a checkpoint
    room = rng.randrange(4096, int(2.5 * most))
    disk = ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(cache)]
    mounted = subprocess.run(disk, capture_output=True).returncode == 0
    try:
        if mounted:
            child = Child(refusing(work), cache, checkpoint_each_epoch)
            outcome = child.complete_or_refused()
            subprocess.run(["mount", "-o", "remount,size=64m", str(cache)], check=True)
        else:  # without the right to mount, no file may grow beyond the room

            def limit():
                checkpoint_each_epoch()
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

            outcome = Child(refusing(work), cache, limit).complete_or_refused()
        decode_again(cache, reference) if decode else train_again(cache, method, reference)
    finally:
        if mounted:
            subprocess.run(["umount", str(cache)], check=True)
    return outcome


def refusing(work: Callable) -> Callable:
    """Work that says its errors as the command line says them."""

    def run():
        try:
            return work()
        except OSError as error:
            print(f"calibkit: {error}", file=sys.stderr)
            return 1

    return run


def read_only(rng: random.Random, folder: Path, reference: Reference) -> str:
    """a cache that cannot be written: empty, with the record, or with a damaged one"""
    method, cache = rng.choice(METHODS), folder / "cache"
    state = rng.choice(("empty", "there", "damaged"))
    (cache / "runs").mkdir(parents=True)
    home = cache / "runs" / run_of(method).name
    if state != "empty":
        train_again(cache, method, reference)
    if state == "damaged":
        alter(rng, home / rng.choice(FILES))
    for path in (cache, *cache.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)

    def lose_rights():
        "".encode("cp437")  # zipfile's, loaded while Python's own files can be read
        if os.getuid() == 0:  # who may write anywhere
            os.setuid(65534)

    for path in (folder, *folder.parents):  # others must reach it
        if path.owner() == "root" and path.is_relative_to(tempfile.gettempdir()):
            path.chmod(path.stat().st_mode | 0o055)
    child = Child(training(method), cache, lose_rights)
    outcome = child.complete_or_refused()
    must(outcome == "complete" or state != "there", f"a record was not used: {child.output}")
    for path in (cache, *cache.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    train_again(cache, method, reference)
    return outcome


def alter(rng: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
    path.write_bytes(content)


def altered_byte(rng: random.Random, folder: Path, reference: Reference) -> str:
    """one byte altered in a file of a record"""
    return _damaged(rng, folder, reference, alter)


def cut(rng: random.Random, path: Path) -> None:
    if rng.random() < 0.15:
        path.unlink()
    else:
        os.truncate(path, rng.randrange(path.stat().st_size))


def truncated(rng: random.Random, folder: Path, reference: Reference) -> str:
    """a file of a record cut short at a random byte, emptied, or gone"""
    return _damaged(rng, folder, reference, cut)


def _damaged(rng, folder, reference, damage) -> str:
    method, cache = rng.choice(METHODS), folder / "cache"
    home = cache / "runs" / run_of(method).name
    reference.record(method)  # leaves the folder that is copied
    shutil.copytree(reference.folder / f"reference-{method}", cache)
    before = json.loads((home / "run.json").read_text())
    damage(rng, home / rng.choice((*FILES, "run.json")))
    child = train_again(cache, method, reference)
    if "damaged record set aside" not in child.output:  # then nothing it says may have changed
        must(json.loads((home / "run.json").read_text()) == before, "damage not seen")
    return "complete"


def damaged_checkpoint(rng: random.Random, folder: Path, reference: Reference) -> str:
    """one byte altered in the checkpoint of a killed training, or the file cut short"""
    method, cache = rng.choice(METHODS), folder / "cache"
    checkpoint = cache / "runs" / f".checkpoint-{run_of(method).name}.pt"

    def stop_later():
        checkpoint_each_epoch()
        die_in_epoch(rng.randint(3, 6))

    Child(training(method), cache, stop_later).end()
    rng.choice((alter, cut))(rng, checkpoint)
    train_again(cache, method, reference)
    return "complete"


def damaged_decoded(rng: random.Random, folder: Path, reference: Reference) -> str:
    """one byte altered in a file of a decoded data set, or the file cut short"""
    cache = folder / "cache"
    pictures, files, *_ = reference.decoded()
    decode_again(cache, reference)
    home = next(p for p in (cache / "decoded").iterdir() if not p.name.startswith("."))
    path = home / rng.choice(list(files))
    rng.choice((alter, cut))(rng, path)
    if path.name == "info.json" and path.exists():  # a changed blank says the same
        with contextlib.suppress(ValueError):
            if json.loads(path.read_bytes()) == json.loads(files["info.json"]):
                return "complete"
    decode_again(cache, reference)
    return "complete"


def two_trainings(rng: random.Random, folder: Path, reference: Reference) -> str:
    """two processes that train the same run at once, one of them killed in every other round"""
    method, cache = rng.choice(METHODS), folder / "cache"
    seconds = reference.record(method)[1]
    first = Child(training(method), cache)
    time.sleep(rng.uniform(0, seconds))
    second = Child(training(method), cache)
    if rng.random() < 0.5:
        first.kill_after(rng.uniform(0, 1.5 * seconds))
    else:
        first.complete()
    second.complete()
    check_record(cache, method, reference)
    return "complete"


def kill_queue(rng: random.Random, folder: Path, reference: Reference) -> str:
    """kill -9 of both processes that share a queue of three runs, three times at random moments"""
    methods, cache = rng.sample(METHODS, 3), folder / "cache"
    seconds = sum(reference.record(method)[1] for method in methods)
    names = [run_of(method).name for method in methods]
    queue = ["train", "--edition", "smoke", *names, "--quiet"]
    made: dict[str, bytes] = {}  # by run, its record as it first stood there whole
    for kills in range(4):
        pair = [Child(lambda: cli.main(queue), cache) for _ in range(2)]
        moment = rng.uniform(0, seconds / 3)
        for child in pair:
            child.kill_after(moment) if kills < 3 else child.complete()
        for method, name in zip(methods, names, strict=True):
            if (record := cache / "runs" / name / "run.json").exists():
                must(made.setdefault(method, record.read_bytes()) == record.read_bytes(), "twice")
    must(made.keys() == set(methods), "a run was left out")
    for method in methods:
        must(read(cache, method) == reference.record(method)[0], "other bytes than undisturbed")
    known = {f".{name}.lock" for name in names} | {*names}
    left = {p.name for p in (cache / "runs").iterdir()} - known
    must(not left, f"scratch files left: {left}")
    return "complete"


def clock_jump(rng: random.Random, folder: Path, reference: Reference) -> str:
    """files up to ten years older or younger than the clock says, with a checkpoint among them"""
    method, cache = rng.choice(METHODS), folder / "cache"
    Child(training(method), cache, checkpoint_each_epoch).kill_after(
        rng.uniform(0, reference.record(method)[1])
    )
    for path in (cache, *cache.rglob("*")):
        then = time.time() + rng.uniform(-10, 10) * 365 * 86400
        os.utime(path, (then, then))
    train_again(cache, method, reference)
    train_again(cache, method, reference)
    return "complete"


# --- faults of the workflow: a book of one notebook, made by the real Snakefile ---

NOTEBOOK = {
    "metadata": {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
    },
    "nbformat": 4,
    "nbformat_minor": 5,
    "cells": [
        {"cell_type": kind, "id": f"c{i}", "metadata": meta, "source": source}
        | ({"outputs": [], "execution_count": None} if kind == "code" else {})
        for i, (kind, meta, source) in enumerate(
            (
                ("markdown", {}, "# A page"),
                ("code", {"tags": ["parameters"]}, 'edition = "smoke"  # which'),
                (
                    "code",
                    {},
                    'from calibkit_companion import results\nruns = results.load("tour", edition)',
                ),
                ("code", {}, "runs.frame.round(4)"),
            )
        )
    ],
}


class Book:
    """A book of one notebook on two runs, with a build folder and a cache of its own."""

    def __init__(self, folder: Path):
        self.folder, self.cache = folder / "checkout", folder / "cache"
        (self.folder / "book").mkdir(parents=True)
        (self.folder / "notebooks").mkdir()
        source = (ROOT / "Snakefile").read_text()
        said = "import EDITIONS, NOTEBOOKS, choose, runs\n"
        must(said in source and 'runs("book", EDITION)' in source, "the Snakefile has changed")
        source = source.replace(said, said + 'NOTEBOOKS = {"tour": NOTEBOOKS["tour"]}\n')
        source = source.replace('runs("book", EDITION)', 'runs("tour", EDITION)')
        (self.folder / "Snakefile").write_text(source)
        (self.folder / "profiles").symlink_to(ROOT / "profiles")
        (self.folder / "notebooks" / "tour.ipynb").write_text(json.dumps(NOTEBOOK))
        pages = self.folder / "book"
        for name in ("_config.yml", "before.py", "glossary.md"):
            shutil.copy(ROOT / "book" / name, pages)
        for name in ("_static", "_ext"):
            shutil.copytree(ROOT / "book" / name, pages / name)
        for file in (ROOT / "book").glob("*.bib"):
            shutil.copy(file, pages)
        (pages / "intro.md").write_text("# A book\n\nOf one page.\n")
        toc = "format: jb-book\nroot: intro\nchapters:\n- file: notebooks/tour\n- file: glossary\n"
        (pages / "_toc.yml").write_text(toc)
        self.build = self.folder / "build" / "smoke"
        self.html = self.build / "book" / "_build" / "html"

    def make(self, *more: str) -> subprocess.Popen:
        environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CALIBKIT_CACHE": str(self.cache),
            "JUPYTER_PLATFORM_DIRS": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        return subprocess.Popen(
            ["snakemake", "--cores", "2", "--config", "edition=smoke", *more],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def complete(self, process: subprocess.Popen | None = None) -> str:
        process = process or self.make()
        said, _ = process.communicate(timeout=600)
        must(process.returncode == 0, said[-3000:])
        return said

    def result(self) -> dict[str, str]:
        """Sums of the records and of the page without its moving parts."""
        notebook = json.loads((self.build / "book" / "notebooks" / "tour.ipynb").read_text())
        outputs = [c.get("outputs") for c in notebook["cells"]]
        page = (self.html / "notebooks" / "tour.html").read_text()
        must("</html>" in page and (self.html / "index.html").stat().st_size > 0, "page cut short")
        body = page[page.index("<article") : page.index("</article>")]
        found = {"page": body, "table": json.dumps(outputs[-1])}
        for run in plan.runs("tour", "smoke"):
            for file in FILES:
                content = (self.cache / "runs" / run.name / file).read_bytes()
                found[f"{run.name}/{file}"] = hashlib.sha256(content).hexdigest()
        return found

    def whole(self, reference: Reference, but: str = "") -> None:
        """As undisturbed, and a further make has nothing to do."""
        wanted, found = undisturbed(reference)[0], self.result()
        differ = {key for key in wanted | found if wanted.get(key) != found.get(key)} - {but}
        must(not differ, f"differs: {differ}")
        must("Nothing to be done" in self.complete(), "not finished")


def undisturbed(reference: Reference) -> tuple[dict, float, "Book"]:
    if "book" not in reference._known:
        shutil.rmtree(reference.folder / "book", ignore_errors=True)
        book, began = Book(reference.folder / "book"), time.monotonic()
        book.complete()
        reference._known["book"] = book.result(), time.monotonic() - began, book
    return reference._known["book"]


def finished(folder: Path, reference: Reference) -> Book:
    """A copy of the undisturbed book, times of files included."""
    undisturbed(reference)
    book = Book(folder)
    for name in ("checkout", "cache"):
        source = reference.folder / "book" / name
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(source, folder / name, symlinks=True)
    return book


def kill(process: subprocess.Popen, everything: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if everything:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.stdout.close()  # whatever lives on must live without a reader
    process.wait()


def kill_make(rng: random.Random, folder: Path, reference: Reference) -> str:
    """kill -9 of make and all it started, at a random moment from nothing to the book"""
    return _kill_any_time(rng, folder, reference, everything=True)


def kill_notebook(rng: random.Random, folder: Path, reference: Reference) -> str:
    """kill -9 of make and all it started, while a notebook runs"""
    return _kill_stage(rng, folder, reference, "book/notebooks/tour.ipynb", "tour.ipynb")


def kill_book(rng: random.Random, folder: Path, reference: Reference) -> str:
    """kill -9 of make and all it started, while the pages are rendered"""
    return _kill_stage(rng, folder, reference, "book/_build/html/index.html", "logs/book.log")


def _kill_stage(rng, folder, reference, output, sign) -> str:
    """Take one output away, so that only this is made again, and kill that once its `sign` is."""
    book = finished(folder, reference)
    (book.build / output).unlink()
    (book.build / sign).unlink(missing_ok=True)
    process = book.make()
    until = time.monotonic() + 60
    while process.poll() is None and not (book.build / sign).exists():
        must(time.monotonic() < until, f"{sign} does not appear")
        time.sleep(0.05)
    time.sleep(rng.uniform(0, 5))
    kill(process, everything=True)
    book.complete()
    book.whole(reference)
    return "complete"


def kill_engine(rng: random.Random, folder: Path, reference: Reference) -> str:
    """kill -9 of Snakemake alone: what it started goes on while the next make begins"""
    return _kill_any_time(rng, folder, reference, everything=False)


def _kill_any_time(rng, folder, reference, everything: bool) -> str:
    book, seconds = Book(folder), undisturbed(reference)[1]
    process = book.make()
    time.sleep(rng.uniform(0, seconds))
    kill(process, everything)
    book.complete()
    book.whole(reference)
    return "complete"


def two_makes(rng: random.Random, folder: Path, reference: Reference) -> str:
    """two makes of the same book at once"""
    book = Book(folder)
    first = book.make()
    time.sleep(rng.uniform(0, undisturbed(reference)[1] / 2))
    second = book.make()
    book.complete(first)
    book.complete(second)
    book.whole(reference)
    return "complete"


def damaged_in_book(rng: random.Random, folder: Path, reference: Reference) -> str:
    """one byte altered in a record, then the notebook that needs it is made again"""
    book = finished(folder, reference)
    alter(rng, book.cache / "runs" / plan.runs("tour", "smoke")[0].name / rng.choice(FILES))
    (book.build / "book" / "notebooks" / "tour.ipynb").unlink()
    book.complete()
    must("damaged record set aside" in book.result()["page"], "damage not said on the page")
    book.whole(reference, but="page")  # its table is compared all the same
    return "complete"


def failed_book(rng: random.Random, folder: Path, reference: Reference) -> str:
    """a page that cannot be rendered: make fails each time until the page is repaired"""
    book = finished(folder, reference)
    page = book.folder / "book" / "how_to_read.md"
    good = page.read_text()
    page.write_text(good + "\n![What is not there](_static/nothing.png)\n")
    for _ in range(rng.randint(1, 2)):
        process = book.make()
        said, _ = process.communicate(timeout=600)
        log = (book.build / "logs" / "book.log").read_text()
        must(process.returncode == 1 and "nothing.png" in log, f"not refused: {said[-1500:]}")
    page.write_text(good)
    book.complete()
    book.whole(reference)
    return "refused"


def clock_jump_of_make(rng: random.Random, folder: Path, reference: Reference) -> str:
    """outputs of make up to ten years older or younger than the clock says"""
    book = finished(folder, reference)
    files = [p for base in (book.build, book.cache) for p in base.rglob("*") if p.is_file()]
    sign = rng.choice((-1, 1))
    for path in rng.sample(files, len(files) // 3):
        then = time.time() + sign * rng.uniform(0, 10) * 365 * 86400
        os.utime(path, (then, then))
    book.complete()
    must(book.result() == undisturbed(reference)[0], "differs from undisturbed")
    return "complete"


ROUNDS = {
    kill_training: 20,
    kill_training_at_a_file: 30,
    kill_record_write: 30,
    kill_decoding: 30,
    kill_make: 5,
    kill_notebook: 4,
    kill_book: 4,
    kill_engine: 5,
    disk_full: 20,
    read_only: 20,
    altered_byte: 40,
    truncated: 40,
    damaged_checkpoint: 20,
    damaged_decoded: 40,
    damaged_in_book: 2,
    failed_book: 3,
    kill_queue: 10,
    two_trainings: 15,
    two_makes: 3,
    clock_jump: 10,
    clock_jump_of_make: 3,
}
FAULTS = {fault.__name__: fault for fault in ROUNDS}
OF_THE_WORKFLOW = {kill_make, kill_notebook, kill_book, kill_engine, two_makes}
OF_THE_WORKFLOW |= {damaged_in_book, failed_book, clock_jump_of_make}  # a minute each round


def inject(names: list[str], rounds: int, seed: int) -> Iterator[dict]:
    """A row per fault: how often it was injected, and what became of it."""
    # Here, so that children find them loaded; the first is what the first optimiser loads.
    import torch._dynamo  # noqa: F401

    import calibkit_companion.training.loop  # noqa: F401

    with tempfile.TemporaryDirectory(prefix="calibkit-faults-") as base:
        reference = Reference(Path(base, "reference"))
        reference.folder.mkdir()
        for name in names:
            outcomes, began = [], time.monotonic()
            for number in range(rounds or ROUNDS[FAULTS[name]]):
                folder = Path(base, f"{name}-{number}")
                folder.mkdir()
                try:
                    rng = random.Random(f"{name} {seed} {number}")
                    outcomes.append(FAULTS[name](rng, folder, reference))
                except Exception as error:
                    outcomes.append("lost")
                    kind = "" if isinstance(error, Lost) else f"{type(error).__name__}: "
                    print(f"LOST: {name}, round {number}: {kind}{error}", flush=True)
                shutil.rmtree(folder, ignore_errors=True)
            lost = outcomes.count("lost")
            row = {
                "fault": name,
                "what": FAULTS[name].__doc__,
                "rounds": len(outcomes),
                "survived": len(outcomes) - lost,
                "refused": outcomes.count("refused"),
                "lost": lost,
                "seconds": round(time.monotonic() - began, 1),
            }
            line = "{fault:24} {rounds:4} rounds  {lost} lost  {seconds} s"
            print(line.format(**row), flush=True)
            yield row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", help=", ".join(FAULTS))
    parser.add_argument("--rounds", type=int, default=0, help="of each fault (its own number)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts there")
    options = parser.parse_args()
    for name in options.faults:
        terms.choose("fault", name, FAULTS)
    lost = 0
    for row in inject(options.faults or list(FAULTS), options.rounds, options.seed):
        lost += row["lost"]
        if options.json:
            note({row["fault"]: row}, options.json, "fault", FAULTS)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
