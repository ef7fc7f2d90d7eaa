"""Files that take the place of older ones: whole, together, and on the disk before they are named.

Nothing is written under the name that a reader opens. Each file is a draft beside it, under a name
that nobody can know in advance, made anew (``O_EXCL``) and never through a link; it is moved to its
place when all of it is on the disk. A power cut takes none of it back.

A failing read or write does not say which file failed; here every error of the system names it.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
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
        with contextlib.suppress(PermissionError):  # a folder in which one may write and not look
            flush(folder)


def shown(path: str | os.PathLike[str]) -> str:
    r"""A path for people, and for files in UTF-8: bytes that are no text are escaped.

    >>> shown(os.fsdecode(b"caf\xe9.csv"))
    'caf\\xe9.csv'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_draft(name: str) -> bool:
    """Whether a killed process may have left a file of this name.

    >>> is_draft(".report.html.0123456789abcdef.part")
    True
    """
    return re.fullmatch(r"\..+\.[0-9a-f]{16}\.part", name) is not None


@contextlib.contextmanager
def named(path: str | os.PathLike) -> Iterator[None]:
    """Within, an error of the system that names no file names this one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, shown(path)) from None


def exists(path: str | os.PathLike) -> bool:
    """Whether there is such a file or folder.

    Raises
    ------
    OSError
        The disk does not say.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def names(folder: str | os.PathLike) -> list[str]:
    """The names in a folder, sorted; an empty list if there is no such folder."""
    try:
        with named(folder):
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
    with named(path):
        handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:  # a file system that cannot do this for a folder
            if not (folder and error.errno in (errno.EINVAL, errno.ENOTSUP, errno.EBADF)):
                raise
        finally:
            os.close(handle)


def remove(path: Path) -> None:
    """Delete a file, a link, or a folder and everything in it."""
    if path.is_symlink() or not path.is_dir():
        return path.unlink(missing_ok=True)
    try:
        shutil.rmtree(path)
    except OSError as error:  # which names the file alone, without its folder
        raise OSError(error.errno, error.strerror, shown(path)) from None


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
    """Within, an error of the system names this file, and not its draft."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, shown(file)) from error


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Keep other processes from publishing in a folder; yields False where locks do not work.

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
        with named(folder):
            os.close(handle)


def _sweep(folder: Path, files: list[Path]) -> None:
    """Delete drafts of processes that were killed; whoever writes one holds the folder."""
    names = "|".join(re.escape(file.name) for file in files)
    for left in folder.iterdir():
        if re.fullmatch(rf"\.({names})\.[0-9a-f]{{16}}\.part", left.name):
            with contextlib.suppress(OSError):
                left.unlink()
