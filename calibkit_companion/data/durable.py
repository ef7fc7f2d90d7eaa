"""Files that a power cut does not take back: on disk before anything else is given up for them.

A failing read or write says no name; here every error of the system names the file.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Within, an error of the system that names no file names this one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def exists(path: str | Path) -> bool:
    """Whether there is such a file or folder; where the disk does not say, its error is raised."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def names(folder: str | Path) -> list[str]:
    """What a folder holds, in order; nothing if there is none."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def read(path: Path) -> bytes:
    """The bytes of a file."""
    with named(path):
        return path.read_bytes()


def flush(path: Path) -> None:
    """Return once a file's content, or a folder's list of names, is on the disk."""
    folder, windows = path.is_dir(), os.name == "nt"
    if folder and windows:  # which opens no folder
        return
    handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        with named(path):
            os.fsync(handle)
    except OSError as error:
        if not (folder and error.errno == errno.EINVAL):  # some network disks flush no folder
            raise
    finally:
        os.close(handle)


def write(path: Path, content: bytes) -> None:
    """Write a file in one step: whoever opens it sees the old content or the new one, whole.

    Raises
    ------
    OSError
        It names the file; what was there before is untouched.
    """
    draft = path.with_name(f".draft-{path.name}-{os.getpid()}")
    try:
        with named(path), open(draft, "wb") as file:
            file.write(content)
        flush(draft)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    flush(path.parent)


def remove(path: Path) -> None:
    """Delete a file, a link or a folder with all that it holds."""
    if path.is_symlink() or not path.is_dir():
        return path.unlink(missing_ok=True)
    try:
        shutil.rmtree(path)
    except OSError as error:  # which has the name of the file alone
        raise OSError(error.errno, error.strerror, str(path)) from None
