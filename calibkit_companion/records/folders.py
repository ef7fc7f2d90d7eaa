"""Write and read the records of runs in folders, with NumPy alone and without pickles.

A record is a folder with the name of its run:

- ``run.json``: the run, its provenance, the checksums of the other files, and the seal, which is
  the checksum of ``run.json`` itself;
- ``history.csv``: a row for each evaluated epoch;
- ``arrays.npz``: logits, labels, and what was measured of the tracked training samples;
- ``shifted.csv.gz``, if the protocol asks for it: a row for each shift of the test set;
- ``replicates.npz``: metrics on resamples of the test set (`deviations.Replicates`).

A record is written into a temporary folder, which is then renamed. So an incomplete record never
counts.

Released records are rows of tables (`calibkit_companion.records.tables`). A run may have both; then
the folder is read. A **light** record has no predictions: it keeps metrics, their uncertainty and
the history.
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

from calibkit import files
from calibkit_companion.data import cache
from calibkit_companion.data.cache import cache_root, digest
from calibkit_companion.experiments.run import Run
from calibkit_companion.records import manifest, tables
from calibkit_companion.records.record import SHIFTED, DamagedRecord, Record

VERSION = 2  # version of the format of records


FILES = {"history.csv", "arrays.npz", SHIFTED, "replicates.npz"}  # beside run.json
ABSENT = FileNotFoundError, IsADirectoryError  # after other errors a record may exist


def runs_root() -> Path:
    """Return the folder that holds the folders of runs."""
    return cache_root() / "runs"


def _seal(info: dict) -> str:
    """Compute the SHA-256 of the content of ``run.json`` without the seal."""
    rest = {key: value for key, value in info.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def load(run: Run, root: Path | None = None) -> Record | None:
    """Find the record of a run, in a folder or else in the released tables.

    Parameters
    ----------
    run : the run
    root : folder of the records; by default `runs_root()`. With another folder the tables are not
        searched.

    Returns
    -------
    Record or None
        None if the run has no record.

    Raises
    ------
    DamagedRecord
        The ``run.json`` of the folder cannot be read or belongs to another run.
    """
    # Text, because thousands of Path objects are slow.
    folder = os.path.join(root or runs_root(), run.name)
    if not files.exists(os.path.join(folder, "run.json")):
        if root is None and (released := tables.find(run.name)):
            return Record(run.name, released[1].folder, *released)
        if not files.names(folder):  # the workflow engine makes empty folders
            return None
    return opened(Path(folder), run.content)


def opened(folder: Path, content: dict | None = None) -> Record:
    """Read the record in a folder; errors as in `load`.

    Parameters
    ----------
    folder : the folder
    content : `Run.content` of the run that must have made the record; None accepts any run
    """
    mend = f"calibkit train {folder.name} sets the folder aside and trains it again"
    try:
        info = json.loads(files.read(folder / "run.json"))
        if info["run"] != (content or info["run"]):
            raise DamagedRecord(f"{folder}: run.json is of a different run than the folder's name")
        if info["seal"] != _seal(info) or not info["sha256"].keys() <= FILES:
            raise DamagedRecord(f"{folder}: run.json was altered; {mend}")
        return Record(folder.name, folder, info)
    except (*ABSENT, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRecord(f"{folder}: run.json cannot be read ({error}); {mend}") from None


def has(run: Run) -> bool:
    """Whether a run has a record, in a folder or in the released tables."""
    return files.exists(runs_root() / run.name / "run.json") or tables.find(run.name) is not None


def verify(run: Run, root: Path | None = None) -> Record | None:
    """Find the record of a run as `load` does, and compare all files with their checksums.

    The folder of a damaged record is renamed, and the run then counts as not trained.

    Raises
    ------
    DamagedRecord
        The record is damaged and its folder cannot be renamed.
    OSError
        The record cannot be read; it may still be undamaged.
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
            if root is None and _has_released_predictions(path):  # which stay in place
                _set_aside(path, aside)
            else:
                path.rename(aside)
        except FileNotFoundError:  # another process has set it aside
            return None
        except OSError as other:
            raise DamagedRecord(f"{error}; it cannot be set aside ({other})") from None
        print(f"damaged record set aside as {aside} ({error})", flush=True)
        return None


def _has_released_predictions(folder: Path) -> bool:
    found, file = tables.find(folder.name), folder / "arrays.npz"
    return bool(found) and files.exists(file) and digest(file) == found[0]["sha256"].get(file.name)


def _set_aside(folder: Path, aside: Path) -> None:
    """Move a record to another folder, except for its predictions.

    ``run.json`` is moved, so the rest does not count as a record.
    """
    aside.mkdir()
    others = [path for path in folder.iterdir() if path.name != "arrays.npz"]
    for file in sorted(others, key=lambda file: file.name != "run.json"):
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
    """Write the record of a run in one step; a killed process leaves no part of it.

    Parameters
    ----------
    run : the run
    status : "done" or "diverged"
    history : metrics by name, for each evaluated epoch
    arrays : logits, labels and measurements of tracked samples by name; empty after divergence
    provenance : machine, versions, start and seconds of the training
    root : folder of the records; by default `runs_root()`
    shifted : metrics by name, for each shift of the test set
    """
    root = root or runs_root()
    draft, path = root / f".draft-{run.name}-{os.getpid()}", root / run.name
    with manifest.drafted(draft):
        with files.named(draft):
            _write_table(draft / "history.csv", history)
            if shifted:
                _write_table(draft / SHIFTED, shifted, digits=5)
            np.savez_compressed(draft / "arrays.npz", allow_pickle=False, **arrays)
            info = _finish(draft, {"status": status, "run": run.content}, provenance, {})
        old = root / f".replaced-{run.name}-{os.getpid()}"
        with suppress(FileNotFoundError):
            path.rename(old)  # the old record without predictions
        draft.rename(path)
        files.flush(root)
        shutil.rmtree(old, ignore_errors=True)
    return Record(run.name, path, info)


def epochs_file(run: "Run | Record", root: Path | None = None) -> Path:
    """Return the path of the file with the logits of a run at every evaluated epoch.

    The file holds the arrays ``epochs`` (e,), ``test`` (e, n, k) and ``validation`` (e, m, k), with
    logits in half precision. It lies beside the record and is optional. `calibkit collect` turns
    the logits into numbers of the released tables.
    """
    return (root or runs_root()) / f".epochs-{run.name}.npz"


def save_epochs(run: Run, kept: dict, root: Path | None = None) -> None:
    """Write `epochs_file` in one step.

    Parameters
    ----------
    run : the run
    kept : by epoch, logits of the test samples (n, k) and of the validation samples (m, k)
    root : folder of the records; by default `runs_root()`
    """
    path = epochs_file(run, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    test, validation = (np.stack(part) for part in zip(*kept.values(), strict=True))
    with files.named(draft), open(draft, "wb") as file:
        np.savez_compressed(file, epochs=np.array(list(kept)), test=test, validation=validation)
    files.flush(draft)
    draft.replace(path)
    files.flush(path.parent)


def _finish(draft: Path, run: dict, provenance: dict, others: dict) -> dict:
    """Write ``run.json`` with the checksums of all files of a record, and flush a draft to disk.

    `others` are checksums, by name, of files that lie in the folder of the record and not in the
    draft.
    """
    sums = {f.name: digest(f) for f in draft.iterdir()} | others
    info = {"version": VERSION} | run
    info |= {"sha256": dict(sorted(sums.items())), "provenance": provenance}
    text = json.dumps(info | {"seal": _seal(info)}, indent=1) + "\n"
    (draft / "run.json").write_text(text)
    for path in (*draft.iterdir(), draft):  # on disk before the folder is renamed
        files.flush(path)
    return json.loads(text)


def add_replicates(record: Record) -> Record:
    """Add ``replicates.npz`` to a record, because computing the replicates takes seconds.

    ``run.json`` lists the files that count, and is replaced in one step. So a killed process leaves
    either the old record or the new record.
    """
    record.check()
    if record.diverged or record.tables or "replicates.npz" in record.info["sha256"]:
        return record
    draft = record.path.with_name(f".draft-{record.name}-{os.getpid()}")
    with manifest.drafted(draft):
        run = {k: record.info[k] for k in ("status", "run")}
        with files.named(draft):
            record.replicates.save(draft / "replicates.npz")
            info = _finish(draft, run, record.info["provenance"], record.info["sha256"])
        # run.json keeps its time, so that pages made from the record count as up to date.
        then = (record.path / "run.json").stat()
        with files.named(draft):  # errors of os.utime name no file
            os.utime(draft / "run.json", ns=(then.st_atime_ns, then.st_mtime_ns))
        for file in ("replicates.npz", "run.json"):  # in this order
            (draft / file).replace(record.path / file)
            files.flush(record.path)
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
    """Delete a folder; if the process is killed, the folder is complete or does not count."""
    gone = folder.with_name(f".deleted-{folder.name}-{os.getpid()}")
    folder.rename(gone)
    files.remove(gone)


def held(name: str, root: Path | None = None) -> bool:
    """Whether another process is training the run of this name."""
    from filelock import Timeout

    lock = (root or runs_root()) / f".{name}.lock"
    try:
        if lock.exists():  # acquiring the lock would create the file
            with cache.locked(lock, wait=False):
                pass
    except Timeout:
        return True
    except OSError:  # nobody trains in a folder that cannot be written
        pass
    return False


@contextmanager
def locked(run: Run, root: Path | None = None, wait: bool = True):
    """A context in which no other process trains a run.

    Parameters
    ----------
    run : the run
    root : folder of the records; by default `runs_root()`
    wait : wait while another process trains the run; False raises ``filelock.Timeout`` instead
    """
    root = root or runs_root()
    root.mkdir(parents=True, exist_ok=True)
    with cache.locked(root / f".{run.name}.lock", wait):
        # This process holds the lock, so a killed process left the drafts of this run.
        for old in root.glob(f".replaced-{run.name}-*"):
            shutil.rmtree(old) if files.exists(root / run.name) else old.rename(root / run.name)
        for draft in root.glob(f".draft-{run.name}-*"):
            shutil.rmtree(draft, ignore_errors=True)
        for draft in root.glob(f".checkpoint-{run.name}.[0-9]*"):
            draft.unlink(missing_ok=True)
        yield
