"""The format of a file, and its bytes: at most as many as there is memory for."""

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
TEXT = (".csv", ".tsv", ".json", ".jsonl")  # which may be compressed
CHUNK = 1 << 22  # bytes read at a time


def format_of(path: Path) -> str:
    """The suffix that says how to read a file; `ValueError` if it is not one of ours."""
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    kind = "." + plain.rpartition(".")[2]
    if kind not in FORMATS or (name != plain and kind not in TEXT):
        hint = "; unpickling could run code" if kind in (".pkl", ".pickle", ".joblib") else ""
        raise ValueError(f"got a file {path.suffix!r}, expected {', '.join(FORMATS)}{hint}")
    return kind


def bytes_of(path: Path) -> bytes:
    """The bytes of a text file, unpacked if it is compressed."""
    content = io.BytesIO()
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        while chunk := file.read(CHUNK):
            memory.check(content.tell() + len(chunk), "the text takes more than", share=0.25)
            content.write(chunk)
    return content.getvalue()


class Input(NamedTuple):
    """A file that numbers come from."""

    file: str
    sha256: str


@dataclass(frozen=True)
class Watched:
    """A file from before it is read until after, so that its sum is that of what was read."""

    path: Path
    state: tuple[int, ...]
    input: Input | None

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "Watched":
        path = Path(path)
        state = _state(path)
        if not stat.S_ISREG(state[0]):  # what a pipe has given is gone
            return cls(path, state, None)
        found = hashlib.sha256()
        with named(path), path.open("rb") as file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
        return cls(path, state, Input(shown(path.name), found.hexdigest()))

    def check(self) -> None:
        """Refuse a file that was written to in between."""
        if self.input and _state(self.path) != self.state:
            raise ValueError("changed while it was read: wait until it is whole, and try again")


def _state(path: Path) -> tuple[int, ...]:
    its = path.stat()
    return its.st_mode, its.st_ino, its.st_size, its.st_mtime_ns
