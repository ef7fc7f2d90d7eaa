"""Read the released tables, which hold the records of many runs in a folder for each setting.

- ``runs``: a row for each run, with its method, data and seed in columns and ``run.json`` as text;
- ``results``: a row for each number at the end of a run, sorted by metric. The columns are
  ``metric, recalibration, score, validation, run, value`` and, for a number with replicates,
  ``step`` and ``steps`` (a byte for each resample). The product of the two is the deviation of the
  number on that resample; -128 means undefined;
- ``history``, ``shifted``: the rows of the same tables in the folder of a record;
- ``epochs``: the rows of ``results``, with a column ``epoch``, for each evaluated epoch of runs
  that kept their predictions through training.

Each table is a Parquet file that ``manifest.json`` lists (`calibkit_companion.records.manifest`).
`release.write` makes the tables from records, and `find` looks up a run. Predictions are not in the
tables. A run that keeps predictions has them in its folder, ``runs/RUN/arrays.npz``.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from calibkit import files
from calibkit_companion.data.cache import cache_root
from calibkit_companion.records import manifest
from calibkit_companion.records.keys import Key, fit_name, replicate_name

DIGITS = 7  # most digits of numbers in histories and in tables of shifted test sets
FRESH = 0.1  # seconds during which the folder of tables is not looked at again
_UNDEFINED = -128  # the step on a resample for which the metric is undefined


def released_root() -> Path:
    """Return the folder of the released tables, which holds a folder for each setting."""
    return cache_root() / "released"


class Tables:
    """The tables of one setting, as they were when they were opened; each is read on first use.

    Parameters
    ----------
    folder : the folder of the setting
    """

    def __init__(self, folder: Path):
        self.folder, self.opened = folder, manifest.Opened(folder)
        self._parts: dict[str, dict[str, tuple[slice, dict]]] = {}

    @cached_property
    def infos(self) -> dict[str, dict]:
        """``run.json`` of every run, by name."""
        runs = _columns(self.opened.read("runs", ["run", "info"]))
        return {run: json.loads(info) for run, info in zip(runs["run"], runs["info"], strict=True)}

    def rows(self, table: str, run: str) -> dict[str, np.ndarray]:
        """Return the columns of a run in the table "history" or "shifted", without empty ones."""
        if table not in self._parts:
            self._parts[table] = dict(_by_run(_columns(self.opened.read(table))))
        part, columns = self._parts[table].get(run, (None, {}))
        return {name: column[part] for name, column in columns.items()}

    @cached_property
    def ends(self) -> "_Numbers":
        """The numbers at the end of all runs, by `Key`."""
        return _Numbers(self.opened, "results")

    @cached_property
    def epochs(self) -> "_Numbers":
        """The numbers at evaluated epochs, by `Key` and epoch; only some runs have them."""
        return _Numbers(self.opened, "epochs")

    def number(self, run: str, key: Key, epoch: int | None = None) -> float | None:
        """Return a number of a run at its end, or at an epoch; None if it is not kept."""
        numbers, row = self._find(run, key, epoch)
        return None if row is None else float(numbers.value[row])

    def deviation(self, run: str, key: Key, epoch: int | None = None) -> np.ndarray | None:
        """Return the deviations (n,) of a number on resamples; None without replicates."""
        numbers, row = self._find(run, key, epoch)
        drawn = row is not None and numbers.drawn[row]
        return numbers.deviations(row).astype(np.float64) if drawn else None

    def _find(self, run: str, key: Key, epoch: int | None) -> tuple["_Numbers", int | None]:
        """Find a number: the table that may hold it, and its row in this table or None."""
        numbers = self.ends if epoch is None else self.epochs
        return numbers, numbers.of(run).get((*key, epoch) if numbers is self.epochs else (*key,))

    def predictions(self, run: str) -> Path:
        """Return the path of the predictions of a run; the file may be missing."""
        return self._runs / run / "arrays.npz"

    @cached_property
    def _runs(self) -> Path:
        """The folder of runs beside the folder of released tables."""
        return self.folder.resolve().parent.parent / "runs"


class _Numbers:
    """A table of numbers; values are read at once, and replicates when they are needed."""

    def __init__(self, opened: manifest.Opened, kind: str):
        self._opened, self._kind = opened, kind
        self._of: dict[str, dict[tuple, int]] = {}
        table = opened.read(kind, [*Key._fields, "epoch", "run", "value", "step"])
        if table is None:
            return
        self.value, self._step = _array(table["value"]), _array(table["step"])
        self.drawn = ~np.isnan(self._step)
        key = [codes_of(table[k]) for k in (*Key._fields, "epoch") if k in table.column_names]
        runs, labels = codes_of(table["run"])
        self._of = {run: {} for run in labels}
        places = list(self._of.values())
        # Rows with the same key lie together: each key is made once, not once for every row.
        ends = np.flatnonzero(np.r_[True, np.diff(np.stack([c for c, _ in key])).any(0), True])
        for start, end in pairwise(ends):
            number = tuple(labels[codes[start]] for codes, labels in key)
            for row, run in enumerate(runs[start:end].tolist(), start):
                places[run][number] = row
        if sum(map(len, places)) < len(runs):
            raise ValueError(f"{opened.path(kind)}: two rows for the same run and number")

    def of(self, run: str) -> dict[tuple, int]:
        """Return the rows of a run by key (with the epoch, if there is one)."""
        return self._of.get(run, {})

    def values(self, run: str) -> dict[tuple, float]:
        """Return the numbers of a run by key (with the epoch, if there is one)."""
        return {key: float(self.value[row]) for key, row in self.of(run).items()}

    @cached_property
    def _steps(self) -> np.ndarray:
        """The deviations of every row as multiples of its step, int8 (rows, n), without a copy."""
        column = self._opened.read(self._kind, ["steps"])["steps"].combine_chunks()
        size = column.type.byte_width
        steps = np.frombuffer(column.buffers()[1], np.int8)[column.offset * size :]
        return steps[: len(column) * size].reshape(-1, size)

    def deviations(self, rows: int | np.ndarray) -> np.ndarray:
        """Return the deviations (rows, n) of the numbers in some rows."""
        steps, step = self._steps[rows], self._step[rows][..., None]
        return np.where(steps == _UNDEFINED, np.float32(np.nan), steps * step)

    def replicates(self, run: str):
        """Make the `deviations.Replicates` of a run."""
        from calibkit_companion.records import deviations

        numbers = {Key(*key): row for key, row in self.of(run).items()}
        drawn = {replicate_name(key): row for key, row in numbers.items() if self.drawn[row]}
        rows = np.array(list(drawn.values()), int)
        temperatures = {
            fit_name(key.recalibration): float(self.value[row])
            for key, row in numbers.items()
            if key.metric == "temperature" and not key.validation
        }
        p = numbers.get(Key("p", score="p_norm"))
        return deviations.Replicates(
            tuple(drawn),
            self.value[rows],
            self.deviations(rows),
            temperatures,
            None if p is None else float(self.value[p]),
        )


def _by_run(columns: dict) -> Iterable[tuple[str, tuple[slice, dict]]]:
    """Yield each run with the slice of its rows and the columns in which it has a value.

    Columns in single precision are rounded by `decimal`.
    """
    if not columns:
        return
    runs = columns.pop("run")
    ends = np.flatnonzero(np.r_[True, runs[1:] != runs[:-1], True])
    columns = {k: decimal(v) if v.dtype == np.float32 else v for k, v in columns.items()}
    empty = {
        k: np.logical_and.reduceat(np.isnan(v), ends[:-1])
        for k, v in columns.items()
        if v.dtype.kind == "f"
    }
    for i, (start, end) in enumerate(pairwise(ends.tolist())):
        own = {k: v for k, v in columns.items() if k not in empty or not empty[k][i]}
        yield runs[start], (slice(start, end), own)


def _columns(table) -> dict[str, np.ndarray]:
    """Return the columns of an Arrow table as arrays by name; empty if the table is None."""
    return {k: _array(table[k]) for k in table.column_names} if table else {}


def _array(column) -> np.ndarray:
    """Convert an Arrow column to an array without importing pandas, as Arrow would."""
    from pyarrow import types  # late: not every command reads tables

    if types.is_dictionary(column.type):
        codes, labels = codes_of(column)
        return np.array(labels, object)[codes]
    if types.is_string(column.type):
        return np.array(column.to_pylist(), object)
    return _numbers(column.combine_chunks())


def _numbers(array) -> np.ndarray:
    """Convert an Arrow array of numbers to an array, with NaN for a missing number."""
    if not array.null_count:
        return np.from_dlpack(array)
    known = np.from_dlpack(array.is_valid().cast("uint8")).astype(bool)
    buffers = [None, array.buffers()[1]]
    there = type(array).from_buffers(array.type, len(array), buffers, offset=array.offset)
    return np.where(known, np.from_dlpack(there), np.nan)


def codes_of(column) -> tuple[np.ndarray, list]:
    """Return a column as codes (n,), which are indices into the list of distinct values."""
    from pyarrow import types  # late: not every command reads tables

    if types.is_dictionary(column.type):
        column = column.unify_dictionaries().combine_chunks()
        return _numbers(column.indices), column.dictionary.to_pylist()
    values, codes = np.unique(_array(column), return_inverse=True)
    return codes, values.tolist()


_POWERS = np.array([float(f"1e{k}") for k in range(40)])


def decimal(single: np.ndarray) -> np.ndarray:
    """Round numbers in single precision to `DIGITS` decimal digits, as float64."""
    x = single.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = DIGITS - 1 - np.floor(np.log10(np.abs(x)))
        digits = np.nan_to_num(digits, nan=0, posinf=0, neginf=0).clip(0, 39).astype(int)
        return np.rint(x * _POWERS[digits]) / _POWERS[digits]


_OPEN: dict[str, tuple[tuple, Tables]] = {}  # by folder: `manifest.state`, and the open tables
seen: list = []  # the last look: root, time, tables by setting; empty: look again
_index: dict[str, Tables] = {}  # by run, the tables of the last look that hold it
_readers: list[set[str]] = []  # for each open `hold`: names of the folders of runs at that time


def hold() -> None:
    """Keep using the tables that this process finds next, even if others are published."""
    _readers.append(set(files.names(cache_root() / "runs")))
    seen.clear()


@contextmanager
def one_release() -> Iterator[None]:
    """A context in which the tables that are found first stay in use, even if others come."""
    hold()
    try:
        yield
    finally:
        _readers.pop()


def settings() -> dict[str, Tables]:
    """Return the tables of every setting by the key of the setting."""
    root = str(released_root())
    if seen and seen[0] == root and (_readers or time.monotonic() - seen[1] < FRESH):
        return seen[2]
    found = _look(root)
    if not seen or seen[2] != found:
        index = _by_name(found)
        _index.clear(), _index.update(index)
    seen[:] = root, time.monotonic(), found
    return found


def _look(root: str) -> dict[str, Tables]:
    """Open the tables in a folder, by setting; tables that did not change stay open."""
    found, kept = {}, {}
    for name in files.names(root):
        folder = os.path.join(root, name)
        if name.startswith(".") or (state := manifest.state(folder)) is None:
            continue
        known = _OPEN.get(folder)
        kept[folder] = known if known and known[0] == state else (state, Tables(Path(folder)))
        found[name] = kept[folder][1]
    _OPEN.clear(), _OPEN.update(kept)
    return found


def _by_name(found: dict[str, Tables]) -> dict[str, Tables]:
    """Return the tables that hold each run; for a run in two settings those of the first one."""
    return {run: its for its in reversed(found.values()) for run in its.infos}


def where() -> dict[str, Path]:
    """For each run in tables, return the file that is replaced whenever these tables change."""
    settings()
    return {run: manifest.file_of(its.folder) for run, its in _index.items()}


def find(run: str) -> tuple[dict, Tables] | None:
    """Look up a run by name: the content of ``run.json`` and the tables that hold the run.

    None if no tables hold the run.
    """
    settings()
    if run not in _index and _readers and run in _readers[-1]:  # its folder may since be deleted
        _index.update({name: its for name, its in _by_name(_look(seen[0])).items() if name == run})
    tables = _index.get(run)
    return (tables.infos[run], tables) if tables else None
