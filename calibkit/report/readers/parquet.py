"""Learn how much memory a Parquet file takes before it is unpacked."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit.report.readers import memory

WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}
SHARE = 0.25  # share of the memory that the columns of a file may take
ROWS = 1 << 16  # rows that are read at a time


def check(path: Path) -> None:
    """Raise `ValueError` if the columns of a file take too much memory.

    The metadata say how many numbers the file holds. They do not tell the size of its texts: a few
    bytes can stand for any number of equal texts, or of texts with a common start. So the texts are
    read in small parts, and their bytes are added up.
    """
    from pyarrow import parquet

    size, plain, other, longest = 0, {}, {}, 1
    about = parquet.read_metadata(path)
    places = [(i, j) for i in range(about.num_row_groups) for j in range(about.num_columns)]
    for group, place in places:
        chunk = about.row_group(group).column(place)
        kind, name = chunk.physical_type, chunk.path_in_schema
        fixed = about.schema.column(place).length if kind == "FIXED_LEN_BYTE_ARRAY" else 16
        size += chunk.num_values * WIDTHS.get(kind, fixed)
        if kind == "BYTE_ARRAY":
            if "." in name or "DELTA_BYTE_ARRAY" in chunk.encodings:
                other[name] = None
                longest = max(longest, chunk.total_uncompressed_size)
            else:
                plain[name] = None
    memory.check(size, "its columns take", SHARE)
    few = min(max(memory.memory() // 64 // longest, 256), ROWS)
    texts = [name for name in plain if name not in other]
    for names, rows, as_codes in ((texts, ROWS, texts), (list(other), few, None)):
        for more in _texts(path, names, rows, as_codes):
            size += more
            memory.check(size, "its columns take more than", SHARE)


def _texts(path: Path, names: list[str], rows: int, as_codes: list[str] | None) -> Iterator[int]:
    """Bytes of the texts in the columns `names`, for each part of `rows` rows.

    In the columns `as_codes`, equal texts are read only once.
    """
    from pyarrow import compute, parquet

    if not names:
        return
    with parquet.ParquetFile(path, read_dictionary=as_codes) as file:
        for part in file.iter_batches(rows, columns=names):
            for column in part.columns:
                if not hasattr(column, "dictionary"):
                    yield column.nbytes
                    continue
                lengths = compute.binary_length(column.dictionary).to_numpy(zero_copy_only=False)
                codes = column.indices.drop_null().to_numpy(zero_copy_only=False)
                counts = np.bincount(codes, minlength=len(lengths))
                yield int(np.nan_to_num(lengths) @ counts)
