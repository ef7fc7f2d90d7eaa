"""Replace files so that a reader sees the old files or the new ones, never a part of them.

Each file is first written as a draft beside its place. The draft has a random name, and is created
(``O_EXCL``) without following links. When its content is on the disk, it is moved to its place. So
it survives a power cut.

Errors of the operating system often do not name the file. Here they always do.
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
    """Write files of one folder that belong together, and replace older files of the same names.

    New and old files never stand side by side: all old files but the first are deleted before the
    first new file replaces the old one. A process that is killed in between leaves fewer files, all
    old or all new. A link is replaced, not followed.

    Parameters
    ----------
    contents : mapping of path to bytes
        The content of each file, in the order in which files are put in place. The folder must
        exist.

    Raises
    ------
    OSError
        A file cannot be written; the error names the file. No draft is left. The old files are
        unchanged unless all drafts had been written.
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
        with contextlib.suppress(PermissionError):  # a folder that one may write to but not list
            flush(folder)


def shown(path: str | os.PathLike[str]) -> str:
    r"""A path as text; bytes that are no UTF-8 are escaped.

    >>> shown(os.fsdecode(b"caf\xe9.csv"))
    'caf\\xe9.csv'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_draft(name: str) -> bool:
    """Whether a name is that of a draft, which a killed process may have left.

    >>> is_draft(".report.html.0123456789abcdef.part")
    True
    """
    return re.fullmatch(r"\..+\.[0-9a-f]{16}\.part", name) is not None


@contextlib.contextmanager
def named(path: str | os.PathLike) -> Iterator[None]:
    """Within this context, an OSError that names no file is raised with this file's name."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, shown(path)) from None


def exists(path: str | os.PathLike) -> bool:
    """Whether a file or folder exists.

    Raises
    ------
    OSError
        The system cannot tell, for instance for lack of permission.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def names(folder: str | os.PathLike) -> list[str]:
    """The sorted names in a folder; an empty list if the folder does not exist."""
    try:
        with named(folder):
            return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def read(path: Path) -> bytes:
    """The bytes of a file; an OSError names the file."""
    with named(path):
        return path.read_bytes()


def flush(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    folder, windows = path.is_dir(), os.name == "nt"
    if folder and windows:  # Windows cannot open a folder
        return
    with named(path):
        handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:  # some file systems cannot do this for a folder
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
    except OSError as error:  # rmtree names the file without its folder
        raise OSError(error.errno, error.strerror, shown(path)) from None


def _write(draft: Path, content: bytes) -> None:
    """Create a file with some content, and wait until it is on the disk."""
    with open(os.open(draft, _NEW, 0o666), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _check_place(file: Path) -> None:
    """Raise OSError if a folder or a device is in the place of the file."""
    with contextlib.suppress(FileNotFoundError):
        mode = file.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            kind = IsADirectoryError if stat.S_ISDIR(mode) else OSError
            raise kind(errno.EISDIR, "expected the name of a file", shown(file))


@contextlib.contextmanager
def _named(file: Path) -> Iterator[None]:
    """Within this context, an OSError names this file in place of its draft."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, shown(file)) from error


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Keep other processes from publishing in a folder; yields False if locks do not work there.

    The lock is on the folder itself, so it leaves no file behind. It ends with the process.
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
    """Delete drafts that killed processes have left; the caller holds the folder's lock."""
    names = "|".join(re.escape(file.name) for file in files)
    for left in folder.iterdir():
        if re.fullmatch(rf"\.({names})\.[0-9a-f]{{16}}\.part", left.name):
            with contextlib.suppress(OSError):
                left.unlink()
