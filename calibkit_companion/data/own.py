"""Users' own files, named by their content. Standard library only.

``mine.npz@1a2b3c4d5e6f`` is the file ``mine.npz`` with that content, wherever it lies; an edited
file has another name. Only the process that was given the path knows it: a record says which file
was used, not where it was.
"""

import hashlib
from functools import lru_cache
from pathlib import Path

DIGITS = 12  # of the SHA-256 of the content

_PLACES: dict[str, Path] = {}


def named(path: Path | str) -> str:
    """Name a file by its content; from then on `place` finds it.

    Parameters
    ----------
    path : of the file

    Returns
    -------
    str
        ``NAME@`` and twelve digits of the SHA-256 of the content.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    path = Path(path).expanduser()
    state = path.stat()
    name = f"{path.name}@{_digest(path.resolve(), state.st_mtime_ns, state.st_size)[:DIGITS]}"
    _PLACES[name] = path.resolve()
    return name


def place(name: str) -> Path:
    """The path of a file that `named` has named.

    Parameters
    ----------
    name : what `named` returned

    Raises
    ------
    FileNotFoundError
        The path was never given, or the file has changed.
    """
    file, _, _ = name.partition("@")
    path = _PLACES.get(name)
    if path is None:
        raise FileNotFoundError(f"{name}: location unknown; give the path of {file} instead")
    if named(path) != name:
        raise FileNotFoundError(f"{path}: it has changed since it was named {name}")
    return path


@lru_cache(maxsize=256)
def _digest(path: Path, _modified: int, _size: int) -> str:
    """SHA-256 of a file, in hexadecimal digits; computed anew when the file changes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
