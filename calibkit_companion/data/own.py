"""Users' own files, named by their content: an edited file is another. Standard library only.

``mine.npz@1a2b3c4d5e6f`` is the file ``mine.npz`` with that content, wherever it lies. Only the
process that was given its path knows where: a record says what was used, not where it was.
"""

import hashlib
from functools import lru_cache
from pathlib import Path

DIGITS = 12  # of the SHA-256 of the content

_PLACES: dict[str, Path] = {}


def named(path: Path | str) -> str:
    """Name a file by its content; from then on `place` can find it.

    Raises
    ------
    OSError
        It cannot be read.
    """
    path = Path(path).expanduser()
    state = path.stat()
    name = f"{path.name}@{_digest(path.resolve(), state.st_mtime_ns, state.st_size)[:DIGITS]}"
    _PLACES[name] = path.resolve()
    return name


def place(name: str) -> Path:
    """Path of the file with such a name.

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
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
