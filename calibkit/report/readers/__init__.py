"""Formats of prediction files: each is read into arrays, named as in `predictions.from_arrays`.

Files are treated as hostile: nothing is unpickled, unpacked beyond the memory there is, or fetched.
"""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from calibkit.arrays import Array
from calibkit.report.readers.asked import Asked, parse
from calibkit.report.readers.content import bytes_of, format_of
from calibkit.report.readers.json import json_arrays
from calibkit.report.readers.named import Arrays
from calibkit.report.readers.npz import load_numpy, npy_arrays, npz_arrays, tensor_arrays
from calibkit.report.readers.tables import table_arrays, table_of
from calibkit.report.readers.vocabulary import NAMES

__all__ = ["Asked", "arrays_of", "is_table", "label_file", "parse", "standard_input", "table_of"]
NOTHING = Asked()
_STARTS = {b"PK": ".npz", b"\x93NUMPY": ".npy", b"PAR1": ".parquet", b"ARROW1": ".feather"}
_STARTS |= {b"\x1f\x8b": ".csv.gz", b"{": ".jsonl", b"[": ".json"}


def arrays_of(path: Path, asked: Asked = NOTHING) -> Arrays:
    """Arrays of a file by name, and what to say about how it was read.

    Raises
    ------
    ValueError
        The format is unknown, or the content is not what it should be.
    """
    return _READERS[format_of(path)](path, asked)


@contextlib.contextmanager
def standard_input() -> Iterator[Path]:
    """Standard input as a file, with the suffix that its first bytes suggest."""
    content = sys.stdin.buffer.read()
    start = content if content[:1] in b"P\x93A\x1f" else content[:1000].lstrip()
    suffix = next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), ".csv")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f"input{suffix}")
        copy.write_bytes(content)
        yield copy


def label_file(path: Path) -> Array:
    """Labels in a file of their own: ``.npy``, or text with one a line."""
    if path.suffix.lower() == ".npy":
        return load_numpy(path)
    lines = bytes_of(path).decode("utf-8-sig").split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    return np.array(lines[1:] if lines and lines[0] in NAMES["labels"] else lines, dtype=str)


_READERS: dict[str, Callable[[Path, Asked], Arrays]] = {
    ".npz": npz_arrays,
    ".npy": npy_arrays,
    ".csv": table_arrays,
    ".tsv": table_arrays,
    ".jsonl": json_arrays,
    ".json": json_arrays,
    ".parquet": table_arrays,
    ".feather": table_arrays,
    ".pt": tensor_arrays,
    ".pth": tensor_arrays,
}


def is_table(path: Path) -> bool:
    """Whether it is a file of rows and columns."""
    return _READERS[format_of(path)] is table_arrays
