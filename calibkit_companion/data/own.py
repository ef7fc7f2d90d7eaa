"""Names for users' files that contain a hash of the content. Standard library only.

``mine.npz@1a2b3c4d5e6f`` is the file ``mine.npz`` with the content of that hash. So the name does
not depend on the folder, and an edited file has another name. A record keeps this name and not the
path. Only the process to which the user gave the path knows the path.
"""

import hashlib
from functools import lru_cache
from pathlib import Path

DIGITS = 12  # digits of the SHA-256 in a name

_PLACES: dict[str, Path] = {}


def named(path: Path | str) -> str:
    """Name a file by its content, and remember its path for `place`.

    Parameters
    ----------
    path : path of the file

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
    """Return the path of a file from its name.

    Parameters
    ----------
    name : a name that `named` returned in this process

    Raises
    ------
    FileNotFoundError
        This process has not named such a file, or the file has changed.
    """
    file, _, _ = name.partition("@")
    path = _PLACES.get(name)
    if path is None:
        raise FileNotFoundError(f"{name}: location unknown; give the path of {file} instead")
    if named(path) != name:
        raise FileNotFoundError(
            f"{path}: the file has changed since {name} was chosen; start again"
        )
    return path


@lru_cache(maxsize=256)
def _digest(path: Path, _modified: int, _size: int) -> str:
    """Compute the SHA-256 of a file; time and size make the cache forget an older content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
