"""Read a prediction file of any format into arrays, named as in `predictions.from_arrays`.

A file may be hostile. So no reader unpickles anything, unpacks more than the memory holds, or
fetches anything from the network.
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
    """Read a prediction file.

    Parameters
    ----------
    path : path
        The suffix of its name says which format it has.
    asked : Asked
        What the caller says about the file's columns.

    Returns
    -------
    dict of str to array, list of str
        The arrays by name, and sentences for the user about how the file was read.

    Raises
    ------
    ValueError
        The suffix is unknown, or the content does not fit it.
    """
    return _READERS[format_of(path)](path, asked)


@contextlib.contextmanager
def standard_input() -> Iterator[Path]:
    """Copy standard input to a temporary file, whose suffix follows from the first bytes."""
    content = sys.stdin.buffer.read()
    start = content if content[:1] in b"P\x93A\x1f" else content[:1000].lstrip()
    suffix = next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), ".csv")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f"input{suffix}")
        copy.write_bytes(content)
        yield copy


def label_file(path: Path) -> Array:
    """Read a file that holds only labels, (n,): ``.npy``, or text with one label on each line."""
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
    """Whether the suffix is that of a table: CSV, TSV, Parquet or Feather."""
    return _READERS[format_of(path)] is table_arrays
