"""Where the record of a run lives, and how it is written and read. NumPy only, no pickle.

A record is a folder named like its run:

- ``run.json``: the run, its provenance, the checksums of the other files, and its own (seal);
- ``history.csv``: one row per evaluated epoch;
- ``arrays.npz``: logits, labels and what was tracked for each training sample;
- ``shifted.csv.gz``, if requested: one row per shift of the test set and severity;
- ``replicates.npz``: its metrics on resamples of the test set (`deviations.Replicates`).

A record is written into a temporary folder and renamed, so half a record never counts.

Released records are rows of tables instead (`calibkit_companion.records.tables`); readers see one
store, in which a local folder comes first. A **light** record is one whose predictions are not
beside its tables: it keeps its metrics, their uncertainty and its history.
"""

import csv
import gzip
import hashlib
import io
import json
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from calibkit_companion.data import durable
from calibkit_companion.data.cache import cache_root, digest
from calibkit_companion.experiments.run import Run
from calibkit_companion.records import tables
from calibkit_companion.records.record import SHIFTED, DamagedRecord, Record

VERSION = 2  # of what a record holds


FILES = {"history.csv", "arrays.npz", SHIFTED, "replicates.npz"}  # beside run.json
ABSENT = FileNotFoundError, IsADirectoryError  # other errors say nothing about the record


def runs_root() -> Path:
    return cache_root() / "runs"


def _seal(info: dict) -> str:
    """SHA-256 of the content of ``run.json``, without the seal itself."""
    rest = {key: value for key, value in info.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def load(run: Run, root: Path | None = None) -> Record | None:
    """The record of a run, from its folder or the released tables; None when there is none.

    Raises
    ------
    DamagedRecord
        The folder is there but its ``run.json`` cannot be read or belongs to another run.
    """
    folder = os.path.join(
        root or runs_root(), run.name
    )  # thousands are asked for: no Path for each
    if not durable.exists(os.path.join(folder, "run.json")):
        if root is None and (released := tables.find(run.name)):
            return Record(run.name, released[1].folder, *released)
        if not durable.names(folder):  # the workflow makes empty ones
            return None
    return opened(Path(folder), run.content())


def opened(folder: Path, content: dict | None = None) -> Record:
    """The record in a folder, of the run with this content or of any; see `load`."""
    mend = f"calibkit train {folder.name} sets the folder aside and trains it again"
    try:
        info = json.loads(durable.read(folder / "run.json"))
        if info["run"] != (content or info["run"]):
            raise DamagedRecord(f"{folder}: holds a different run from the one it is named after")
        if info["seal"] != _seal(info) or not info["sha256"].keys() <= FILES:
            raise DamagedRecord(f"{folder}: run.json was altered; {mend}")
        return Record(folder.name, folder, info)
    except (*ABSENT, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRecord(f"{folder}: run.json cannot be read ({error}); {mend}") from None


def has(run: Run) -> bool:
    """Whether there is a record of a run, as a folder or in the released tables."""
    return durable.exists(runs_root() / run.name / "run.json") or tables.find(run.name) is not None


def verify(run: Run, root: Path | None = None) -> Record | None:
    """Like `load`, with the other files checked; a damaged record is set aside.

    Raises
    ------
    DamagedRecord
        It is damaged and the folder cannot be written.
    OSError
        It cannot be read, which does not mean that it is damaged.
    """
    try:
        record = load(run, root)
        if record:
            record.check()
        return record
    except DamagedRecord as error:
        path = (root or runs_root()) / run.name
        aside = path.with_name(f".damaged-{path.name}")
        shutil.rmtree(aside, ignore_errors=True)
        try:
            if root is None and _has_released_predictions(path):  # they are no part of the damage
                _set_aside(path, aside)
            else:
                path.rename(aside)
        except FileNotFoundError:  # another process was quicker
            return None
        except OSError as other:
            raise DamagedRecord(f"{error}; it cannot be set aside ({other})") from None
        print(f"damaged record set aside as {aside} ({error})", flush=True)
        return None


def _has_released_predictions(folder: Path) -> bool:
    found, file = tables.find(folder.name), folder / "arrays.npz"
    return (
        bool(found) and durable.exists(file) and digest(file) == found[0]["sha256"].get(file.name)
    )


def _set_aside(folder: Path, aside: Path) -> None:
    """All of a record but its predictions; without ``run.json`` it is no record any more."""
    aside.mkdir()
    files = [path for path in folder.iterdir() if path.name != "arrays.npz"]
    for file in sorted(files, key=lambda file: file.name != "run.json"):
        file.rename(aside / file.name)


def save(
    run: Run,
    status: str,
    history: list[dict],
    arrays: dict[str, np.ndarray],
    provenance: dict,
    root: Path | None = None,
    shifted: list[dict] = (),
) -> Record:
    """Write a record in one step: all of it or nothing."""
    root = root or runs_root()
    draft, path = root / f".draft-{run.name}-{os.getpid()}", root / run.name
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        with durable.named(draft):
            _write_table(draft / "history.csv", history)
            if shifted:
                _write_table(draft / SHIFTED, shifted, digits=5)
            np.savez_compressed(draft / "arrays.npz", allow_pickle=False, **arrays)
            info = _finish(draft, {"status": status, "run": run.content()}, provenance, {})
        old = root / f".replaced-{run.name}-{os.getpid()}"
        with suppress(FileNotFoundError):
            path.rename(old)  # it kept no predictions, and was trained again
        draft.rename(path)
        durable.flush(root)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return Record(run.name, path, info)


def epochs_file(run: "Run | Record", root: Path | None = None) -> Path:
    """Where the logits of a run at every evaluated epoch are kept, beside its record.

    ``epochs`` (e,), ``test`` (e, n, k) and ``validation`` (e, m, k), in half precision. It is no
    part of the record: a run may have one or not. What it says becomes rows of the released tables.
    """
    return (root or runs_root()) / f".epochs-{run.name}.npz"


def save_epochs(run: Run, kept: dict, root: Path | None = None) -> None:
    """Write the logits of every evaluated epoch in one step: (test, validation) by epoch."""
    path = epochs_file(run, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    test, validation = (np.stack(part) for part in zip(*kept.values(), strict=True))
    with durable.named(draft), open(draft, "wb") as file:
        np.savez_compressed(file, epochs=np.array(list(kept)), test=test, validation=validation)
    durable.flush(draft)
    draft.replace(path)
    durable.flush(path.parent)


def _finish(draft: Path, run: dict, provenance: dict, others: dict) -> dict:
    """Write ``run.json`` with the checksums of all files, and flush those here to disk.

    `others` has the checksums of files that are in place already.
    """
    sums = {f.name: digest(f) for f in draft.iterdir()} | others
    info = {"version": VERSION} | run
    info |= {"sha256": dict(sorted(sums.items())), "provenance": provenance}
    text = json.dumps(info | {"seal": _seal(info)}, indent=1) + "\n"
    (draft / "run.json").write_text(text)
    for path in (*draft.iterdir(), draft):  # on disk before the name says so
        durable.flush(path)
    return json.loads(text)


def add_replicates(record: Record) -> Record:
    """Keep a record's metrics on resamples beside its predictions: they take seconds to make.

    ``run.json`` says which files count and is replaced in one step: if killed at any moment, the
    record is either the old one or the new one.
    """
    record.check()
    if record.diverged or record.tables or "replicates.npz" in record.info["sha256"]:
        return record
    draft = record.path.with_name(f".draft-{record.name}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        run = {k: record.info[k] for k in ("status", "run")}
        with durable.named(draft):
            record.replicates.save(draft / "replicates.npz")
            info = _finish(draft, run, record.info["provenance"], record.info["sha256"])
        then = (record.path / "run.json").stat()  # nothing that was made from the record is old now
        os.utime(draft / "run.json", ns=(then.st_atime_ns, then.st_mtime_ns))
        for file in ("replicates.npz", "run.json"):  # in this order
            (draft / file).replace(record.path / file)
            durable.flush(record.path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Record(record.name, record.path, info)


def _write_table(path: Path, rows: list[dict], digits: int = 7) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else ["epoch"])
    writer.writeheader()
    for row in rows:
        numbers = {k: f"{v:.{digits}g}" for k, v in row.items() if not isinstance(v, str)}
        writer.writerow(row | numbers)
    plain = text.getvalue().encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(plain, mtime=0) if path.suffix == ".gz" else plain)


def discard(folder: Path) -> None:
    """Delete a folder; killed at any moment, it is there whole or counts no more."""
    gone = folder.with_name(f".deleted-{folder.name}-{os.getpid()}")
    folder.rename(gone)
    durable.remove(gone)


def held(name: str, root: Path | None = None) -> bool:
    """Whether another process is training the run of this name."""
    from filelock import FileLock, Timeout

    lock = (root or runs_root()) / f".{name}.lock"
    try:
        if lock.exists():  # checking leaves no file behind
            with FileLock(lock, timeout=0):
                pass
    except Timeout:
        return True
    except OSError:  # where nothing can be written, nobody trains
        pass
    return False


@contextmanager
def locked(run: Run, root: Path | None = None, wait: bool = True):
    """Hold a run: a second process that wants it waits here, then finds the record.

    Or, if it is not to wait, raises ``filelock.Timeout``.
    """
    from filelock import FileLock  # torch's own dependency: at hand wherever a run is trained

    root = root or runs_root()
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{run.name}.lock", timeout=-1 if wait else 0):
        # We hold the lock, so drafts of this run are what a killed process left behind.
        for old in root.glob(f".replaced-{run.name}-*"):
            shutil.rmtree(old) if durable.exists(root / run.name) else old.rename(root / run.name)
        for draft in root.glob(f".draft-{run.name}-*"):
            shutil.rmtree(draft, ignore_errors=True)
        for draft in root.glob(f".checkpoint-{run.name}.[0-9]*"):
            draft.unlink(missing_ok=True)
        yield
