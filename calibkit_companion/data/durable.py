"""Files that a power cut does not take back: on disk before anything else is given up for them."""

import errno
import os
from pathlib import Path


def flush(path: Path) -> None:
    """Return once a file's content, or a folder's list of names, is on the disk."""
    folder, windows = path.is_dir(), os.name == "nt"
    if folder and windows:  # which opens no folder
        return
    handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if not (folder and error.errno == errno.EINVAL):  # some network disks flush no folder
            raise OSError(error.errno, error.strerror, str(path)) from None
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
        with open(draft, "wb") as file:
            file.write(content)
        flush(draft)
        os.replace(draft, path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError):  # a full disk says no name
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    flush(path.parent)
