"""Files that take the place of older ones: whole, together, and on the disk before they are named.

Nothing is written under the name that a reader opens. Each file is a draft beside it, under a name
that nobody can know in advance, made anew (``O_EXCL``) and never through a link; it is moved to its
place when all of it is on the disk.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_NEW |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def publish(contents: Mapping[str | os.PathLike[str], bytes]) -> None:
    """Write files of one folder that belong together, in place of older ones.

    At no moment does a new file stand beside an old one: the first new file replaces its old one
    when the other old ones are gone. A process that is killed in between leaves fewer files, all
    old or all new. A link is replaced, not followed.

    Parameters
    ----------
    contents : mapping of path to bytes
        In the order in which they appear. The folder has to exist.

    Raises
    ------
    OSError
        With the name of the file. No draft is left, and nothing has changed unless all drafts were
        on the disk.
    """
    files = [Path(path) for path in contents]
    folder = files[0].parent
    for file in files:
        _check_place(file)
    with _alone(folder) as alone:
        if alone:
            _sweep(folder, files)
        drafts: list[Path] = []
        try:
            for file, content in zip(files, contents.values(), strict=True):
                with _named(file):
                    drafts.append(file.with_name(f".{file.name}.{secrets.token_hex(8)}.part"))
                    _write(drafts[-1], content)
            for file in files[1:]:
                with _named(file):
                    file.unlink(missing_ok=True)
            for draft, file in zip(drafts, files, strict=True):
                with _named(file):
                    os.replace(draft, file)
        finally:
            for draft in drafts:
                with contextlib.suppress(OSError):
                    draft.unlink()
        with _named(folder):
            sync_folder(folder)


def shown(path: str | os.PathLike[str]) -> str:
    r"""A path for people, and for files in UTF-8: bytes that are no text are escaped.

    >>> shown(os.fsdecode(b"caf\xe9.csv"))
    'caf\\xe9.csv'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can say so."""
    if os.name == "nt":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder in which one may write and not look
        return
    try:
        os.fsync(handle)
    except OSError as error:  # a file system that cannot do this for a folder
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def _write(draft: Path, content: bytes) -> None:
    with open(os.open(draft, _NEW, 0o666), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _check_place(file: Path) -> None:
    """Refuse to put a file in the place of a folder or a device."""
    with contextlib.suppress(FileNotFoundError):
        mode = file.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            kind = IsADirectoryError if stat.S_ISDIR(mode) else OSError
            raise kind(errno.EISDIR, "expected the name of a file", shown(file))


@contextlib.contextmanager
def _named(file: Path) -> Iterator[None]:
    """Errors with the name of the file that was asked for, not that of its draft or of nothing."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, shown(file)) from error


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Hold a folder against other processes that publish there; False where that cannot be.

    The lock is on the folder itself, so that no file is left, and goes with the process.
    """
    try:
        handle = os.open(folder, os.O_RDONLY) if fcntl else None
    except PermissionError:
        handle = None
    if handle is None:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            alone = True
        except OSError:  # a file system without locks
            alone = False
        yield alone
    finally:
        os.close(handle)


def _sweep(folder: Path, files: list[Path]) -> None:
    """Delete drafts of processes that were killed; whoever writes one holds the folder."""
    names = "|".join(re.escape(file.name) for file in files)
    for left in folder.iterdir():
        if re.fullmatch(rf"\.({names})\.[0-9a-f]{{16}}\.part", left.name):
            with contextlib.suppress(OSError):
                left.unlink()
