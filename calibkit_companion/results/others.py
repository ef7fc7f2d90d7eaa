"""Numbers of networks that other authors trained in full on CIFAR-10, read from a table.

All of these networks were trained by plain training. `benchmarks/public_networks.py` writes the
table.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np

from calibkit_companion.records.tables import released_root
from calibkit_companion.results.measure import Networks
from calibkit_companion.results.number import Number


def path() -> Path:
    """Return the path of the table; the file may be missing."""
    return released_root() / "public" / "results.parquet"


def numbers() -> dict[Number, Networks]:
    """Read the numbers of all networks, ranked by the largest probability."""
    return _read(path(), path().stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _read(table: Path, changed: int) -> dict[Number, Networks]:
    """Read the numbers of a table; `changed`, its time, makes the cache forget an older table."""
    import pyarrow.parquet as parquet

    which = {"dataset": "cifar10", "method": "erm", "score": "max_probability"}
    found: dict[Number, Networks] = {}
    with parquet.ParquetFile(table) as file:  # parquet.read_table imports pandas
        rows = file.read().to_pylist()
    for row in rows:
        if not which.items() <= row.items():
            continue
        number, network = Number(row["metric"], row["recalibration"]), row["run"]
        series = found.setdefault(number, Networks({}, {}, row["n"]))
        series.values[network] = row["value"]
        if row["steps"] is not None:
            steps = np.frombuffer(row["steps"], np.int8).astype(float)
            series.draws[network] = row["step"] * steps
    return found
