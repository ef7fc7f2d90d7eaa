"""Decoded copies of data sets: ``decoded/KEY/*.npy`` with an ``info.json`` of checksums.

Decoding 60,000 images takes ten seconds, and opening a decoded copy half a second. A copy is valid
if its arrays have the recorded checksums and if the original files have not changed. Otherwise it
is made again. A copy is written into a draft folder, which is then renamed, so an incomplete copy
never counts.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np
from filelock import FileLock

from calibkit import files
from calibkit_companion.data.readers import Parts

LAYOUT = 2  # raise this number when a reader's output changes: all copies are then made again
ARRAYS = ("train", "train_labels", "test", "test_labels")
PACKED = "packed"  # the origin of a copy that `pack.unpack` made


def cache_root() -> Path:
    """Return the folder ``data_cache``, which holds data sets, records and tables.

    The environment variable CALIBKIT_CACHE names another folder. Otherwise ``data_cache`` lies in
    the clone of the repository from which calibkit is imported. If calibkit is installed from a
    wheel, it lies in the clone that contains the working directory, or else in the working
    directory itself.
    """
    if os.environ.get("CALIBKIT_CACHE"):
        return Path(os.environ["CALIBKIT_CACHE"])
    checkout = _checkout()
    if checkout:
        return checkout / "data_cache"
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "notebooks").is_dir() and (folder / "data_cache").is_dir():
            return folder / "data_cache"
    return here / "data_cache"


@cache
def _checkout() -> Path | None:
    folder = Path(__file__).resolve().parent.parent.parent
    return folder if (folder / "notebooks").is_dir() else None


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """A context in which this process holds a lock file.

    Parameters
    ----------
    path : path of the lock file
    wait : wait while another process holds the lock

    Raises
    ------
    filelock.Timeout
        Another process holds the lock, and `wait` is False.
    OSError
        The file cannot be locked; the message names the file.
    """
    lock = FileLock(path, timeout=-1 if wait else 0)
    with files.named(path):
        lock.acquire()
    try:
        yield
    finally:
        with files.named(path):
            lock.release()


def number_from(variable: str, default: float) -> float:
    """Read a number from an environment variable.

    Parameters
    ----------
    variable : name of the variable
    default : the number if the variable is not set or empty

    Raises
    ------
    ValueError
        The variable holds no number.
    """
    try:
        return float(os.environ.get(variable) or default)
    except ValueError:
        got = os.environ[variable]
        raise ValueError(f"{variable}: got {got!r}, expected a number") from None


def decoded(key: str, root: Path, origin: str, make: Callable[[Path], Parts]) -> Parts:
    """Read a data set from its decoded copy; make the copy if it is missing or not valid.

    A copy is valid if its arrays have the recorded checksums and if it has the same `origin`.
    Large arrays are mapped from files, so that only the parts in use are read from disk.

    Parameters
    ----------
    key : name of the folder of the copy below ``decoded``
    root : the data folder
    origin : text that identifies the original files; it changes when they change
    make : function that decodes the data set; it takes a folder in which to write large arrays

    Raises
    ------
    PermissionError
        No folder for the copy can be written.
    OSError
        The new copy cannot be read back.
    """
    if parts := find(key, root, origin):
        return parts
    folders = _folders(root)
    folder = next(filter(_writable, folders), None)
    if folder is None:
        raise PermissionError(f"{folders[0]}: cannot be written; set CALIBKIT_CACHE to a folder")
    home = folder / key
    with locked(folder / f".{key}.lock"):
        if parts := _open(home, origin):  # another process made the copy while this one waited
            return parts
        if home.exists():
            print(f"{home}: damaged or out of date; decoding the data again", flush=True)
        draft = folder / f".{key}.draft"
        shutil.rmtree(draft, ignore_errors=True)  # a killed process left it: this one has the lock
        draft.mkdir()
        try:
            _write(draft, origin, make(draft))
            shutil.rmtree(home, ignore_errors=True)
            draft.rename(home)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        parts = _open(home, origin)
    if parts is None:
        raise OSError(f"{home}: cannot be read back; is the disk healthy?")
    return parts


def find(key: str, root: Path, origin: str = PACKED) -> Parts | None:
    """Open the decoded copy with an origin, by default one that `pack.unpack` made.

    None if there is no valid copy.
    """
    found = (_open(folder / key, origin) for folder in _folders(root))
    return next(filter(None, found), None)


def packed(key: str, root: Path) -> Path | None:
    """Return the folder of a copy that `pack.unpack` made, without checking the arrays.

    None if there is no such copy.
    """
    for folder in _folders(root):
        with suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads((folder / key / "info.json").read_text())["origin"] == PACKED:
                return folder / key
    return None


def _folders(root: Path) -> list[Path]:
    """List the folders of decoded copies; the second is for data folders that are read-only."""
    return [root / "decoded", cache_root() / "datasets" / "decoded"]


def _write(draft: Path, origin: str, parts: Parts) -> None:
    """Write arrays and checksums into a draft folder, and flush them to disk."""
    for name in ARRAYS:
        if not (draft / f"{name}.npy").exists():  # the reader may have written images there
            np.save(draft / f"{name}.npy", getattr(parts, name), allow_pickle=False)
    facts = {f: getattr(parts, f) for f in ("classes", "note", "mean", "std")}
    sums = {name: digest(draft / f"{name}.npy") for name in ARRAYS}
    sums["facts"] = _facts_sum(facts)
    info = {"layout": LAYOUT, "origin": origin, "sha256": sums, "facts": facts}
    (draft / "info.json").write_text(json.dumps(info, indent=1) + "\n")
    for file in draft.iterdir():  # on disk before the folder is renamed
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())


def _open(home: Path, origin: str) -> Parts | None:
    """Open the copy in a folder; None if it is damaged or has another origin."""
    try:
        info = json.loads((home / "info.json").read_text())
        known = info["layout"], info["origin"], info["sha256"]["facts"]
        if known != (LAYOUT, origin, _facts_sum(info["facts"])):
            return None
        arrays = {}
        for name in ARRAYS:
            file = home / f"{name}.npy"
            if digest(file) != info["sha256"][name]:
                return None
            mode = "c" if file.stat().st_size > 1 << 16 else None  # an empty file cannot be mapped
            arrays[name] = np.load(file, mmap_mode=mode, allow_pickle=False)
        facts = {k: v if k == "note" else tuple(v) for k, v in info["facts"].items()}
        return Parts(**arrays, **facts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _writable(folder: Path) -> bool:
    """Whether a folder exists, or can be made, and can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _facts_sum(facts: dict) -> str:
    """Compute the SHA-256 of the facts of a data set: classes, note, mean, std."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal digits.

    Parameters
    ----------
    path : path of the file
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listing_digest(folders: Iterable[Path]) -> str:
    """Compute a SHA-256 of the names, sizes and modification times of all files below folders.

    It changes when a file changes, without reading the files.

    Parameters
    ----------
    folders : the folders
    """
    total = hashlib.sha256()
    waiting = [(f.name, f) for f in folders]
    while waiting:
        inside, folder = waiting.pop()
        lines = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                facts = ""
                if entry.is_dir():
                    waiting.append((f"{inside}/{entry.name}", Path(entry.path)))
                else:
                    stat = entry.stat()
                    facts = f"{stat.st_size} {stat.st_mtime_ns}"
                lines.append(f"{entry.name}\0{facts}")
        waiting.sort()
        total.update("\n".join([inside, *sorted(lines), ""]).encode("utf-8", "surrogateescape"))
    return total.hexdigest()
