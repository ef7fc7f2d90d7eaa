"""Decoded copies of data sets: ``decoded/KEY/*.npy`` with an ``info.json`` of checksums.

Decoding 60,000 images takes ten seconds, mapping them half a second. A copy is used as long as the
originals are the ones it was made from and its arrays have the recorded checksums; otherwise it is
made again. It is written into a draft folder and renamed, so half a copy never counts.
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

LAYOUT = 2  # raise it when a reader's output changes: every copy is then made again
ARRAYS = ("train", "train_labels", "test", "test_labels")
PACKED = "packed"  # the origin of a copy that `pack.unpack` made


def cache_root() -> Path:
    """`$CALIBKIT_CACHE`, else ``data_cache`` in the checkout, else in the working directory.

    The checkout is the one that calibkit is imported from or, if it was installed from a wheel, the
    one that the working directory lies in, as that of a notebook does.
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
    """Hold a lock file against other processes.

    Raises
    ------
    filelock.Timeout
        Another process holds it, and this one is not to `wait`.
    OSError
        It cannot be locked; the line names it.
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
    """The number in an environment variable.

    Parameters
    ----------
    variable : name of the variable
    default : taken if the variable is not set or empty

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
    """Read a data set from its decoded copy ``decoded/KEY``; make the copy if it is not good.

    A copy is good if it is whole and made from the same `origin`.

    The arrays are private maps of files: only the pages in use are read.

    Parameters
    ----------
    key : name of the folder
    root : the data folder
    origin : what the copy is made from; another origin makes a new copy
    make : decodes the data set; gets a folder for large arrays

    Raises
    ------
    PermissionError
        No folder can be written.
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
        if parts := _open(home, origin):  # another process made it while this one waited
            return parts
        if home.exists():
            print(f"{home}: damaged or out of date, made again", flush=True)
        draft = folder / f".{key}.draft"
        shutil.rmtree(draft, ignore_errors=True)  # left by a killed process, since we hold the lock
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
    """The decoded copy made from an origin, if there is a whole one."""
    found = (_open(folder / key, origin) for folder in _folders(root))
    return next(filter(None, found), None)


def packed(key: str, root: Path) -> Path | None:
    """The folder of a copy that `pack.unpack` made. Its arrays are not checked."""
    for folder in _folders(root):
        with suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads((folder / key / "info.json").read_text())["origin"] == PACKED:
                return folder / key
    return None


def _folders(root: Path) -> list[Path]:
    """The folders of decoded copies; the second serves data folders that cannot be written."""
    return [root / "decoded", cache_root() / "datasets" / "decoded"]


def _write(draft: Path, origin: str, parts: Parts) -> None:
    """Write arrays and checksums into a draft folder, and wait until they are on disk."""
    for name in ARRAYS:
        if not (draft / f"{name}.npy").exists():  # images are already decoded there
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
    """The copy in a folder; None if it is damaged or of another origin."""
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
    """SHA-256 of the facts of a data set."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits.

    Parameters
    ----------
    path : of the file
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listing_digest(folders: Iterable[Path]) -> str:
    """SHA-256 over the name, size and modification time of everything below some folders.

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
