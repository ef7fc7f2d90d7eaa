"""The format of a file, its bytes (refused if they exceed the memory), and its checksum."""

import gzip
import hashlib
import io
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from calibkit.files import named, shown
from calibkit.report.readers import memory

FORMATS = tuple(".npz .npy .csv .tsv .jsonl .json .parquet .feather .pt .pth".split())
TEXT = (".csv", ".tsv", ".json", ".jsonl")  # formats that may be compressed by gzip
CHUNK = 1 << 22  # bytes read at a time


def format_of(path: Path) -> str:
    """The format of a file by its name, such as ".csv" for x.csv.gz; `ValueError` if unknown."""
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    kind = "." + plain.rpartition(".")[2]
    if kind not in FORMATS or (name != plain and kind not in TEXT):
        hint = "; unpickling could run code" if kind in (".pkl", ".pickle", ".joblib") else ""
        raise ValueError(f"got a file {path.suffix!r}, expected {', '.join(FORMATS)}{hint}")
    return kind


def bytes_of(path: Path) -> bytes:
    """The bytes of a text file, unpacked if it is compressed; `ValueError` if they are too many."""
    content = io.BytesIO()
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        while chunk := file.read(CHUNK):
            memory.check(content.tell() + len(chunk), "the text takes more than", share=0.25)
            content.write(chunk)
    return content.getvalue()


class Input(NamedTuple):
    """The name of a file that was read, and its SHA-256."""

    file: str
    sha256: str


@dataclass(frozen=True)
class Watched:
    """A file's state before it is read, to prove that its checksum belongs to what was read.

    Attributes
    ----------
    path : Path
    state : tuple of int
        Mode, inode, size in bytes and time of change in nanoseconds.
    input : Input or None
        Name and checksum; None for a pipe, which cannot be read twice.
    """

    path: Path
    state: tuple[int, ...]
    input: Input | None

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "Watched":
        path = Path(path)
        """Note the state of a file, and its checksum."""
        state = _state(path)
        if not stat.S_ISREG(state[0]):  # a pipe
            return cls(path, state, None)
        checksum = hashlib.sha256()
        with named(path), path.open("rb") as file:
            while chunk := file.read(CHUNK):
                checksum.update(chunk)
        return cls(path, state, Input(shown(path.name), checksum.hexdigest()))

    def check(self) -> None:
        """Raise `ValueError` if the file has changed since its state was noted."""
        if self.input and _state(self.path) != self.state:
            raise ValueError("changed while it was read: wait until it is written, and try again")


def _state(path: Path) -> tuple[int, ...]:
    state = path.stat()
    return state.st_mode, state.st_ino, state.st_size, state.st_mtime_ns
