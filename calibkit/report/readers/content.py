"""The format of a file, and its bytes: at most as many as there is memory for."""

import gzip
import os
from pathlib import Path

FORMATS = tuple(".npz .npy .csv .tsv .jsonl .json .parquet .feather .pt .pth".split())
TEXT = (".csv", ".tsv", ".json", ".jsonl")  # which may be compressed


def format_of(path: Path) -> str:
    """The suffix that says how to read a file; `ValueError` if it is not one of ours."""
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    kind = "." + plain.rpartition(".")[2]
    if kind not in FORMATS or (name != plain and kind not in TEXT):
        hint = "; unpickling could run code" if kind in (".pkl", ".pickle", ".joblib") else ""
        raise ValueError(f"got a file {path.suffix!r}, expected {', '.join(FORMATS)}{hint}")
    return kind


def memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 40


def bytes_of(path: Path) -> bytes:
    """The bytes of a text file, unpacked if it is compressed."""
    most = memory() // 4
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"unpacks to more than {most / 1e9:.0f} GB, too much for this machine")
    return content
