"""Records as tables: a folder for each setting, in place of a folder for each run.

- ``runs``: a row for each run, its identity in columns and its ``run.json`` as text;
- ``results``: a row for each number of its end: ``metric, recalibration, score,
  validation, run, value`` and, where there are replicates, ``step`` and ``steps`` (a byte each: the
  deviation is their product, -128 is undefined), sorted so that a metric's rows lie together;
- ``history``, ``shifted``: a row as in the tables of a record;
- ``epochs``: a row for each evaluated epoch of runs whose predictions were kept then, and
  number of it, as in the results;

Each is a Parquet file that ``manifest.json`` names (`calibkit_companion.records.manifest`).
`release.write` makes them from records, `find` gives a run's part of them. A folder of runs is
local work; tables are what is released. The predictions of a run that keeps them stay where its
training put them, beside the tables: ``runs/RUN/arrays.npz``.
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

from calibkit_companion.data import durable
from calibkit_companion.data.cache import cache_root
from calibkit_companion.records import manifest
from calibkit_companion.records.keys import Key, fit_name, replicate_name

DIGITS = 7  # at most, of numbers in histories and tables of shifted test sets
_UNDEFINED = -128  # a step of a replicate that leaves the metric undefined


def released_root() -> Path:
    """The folder of the released tables, with a folder for each setting."""
    return cache_root() / "released"


class Tables:
    """The tables of one setting, as they were when they were opened; each is read on first use."""

    def __init__(self, folder: Path):
        self.folder, self.opened = folder, manifest.Opened(folder)

    @cached_property
    def infos(self) -> dict[str, dict]:
        """``run.json`` of every run, by name."""
        runs = _columns(self.opened.read("runs", ["run", "info"]))
        return {run: json.loads(info) for run, info in zip(runs["run"], runs["info"], strict=True)}

    @cached_property
    def _parts(self) -> dict[str, dict[str, tuple[slice, dict]]]:
        return {}

    def rows(self, table: str, run: str) -> dict[str, np.ndarray]:
        """The columns of a run in the table "history" or "shifted", without empty ones."""
        if table not in self._parts:
            self._parts[table] = dict(_by_run(_columns(self.opened.read(table))))
        part, columns = self._parts[table].get(run, (None, {}))
        return {name: column[part] for name, column in columns.items()}

    @cached_property
    def ends(self) -> "_Numbers":
        """Numbers of the end of runs, by `Key`."""
        return _Numbers(self.opened, "results")

    @cached_property
    def epochs(self) -> "_Numbers":
        """Numbers of runs whose predictions were kept through training, by `Key` and epoch."""
        return _Numbers(self.opened, "epochs")

    def number(self, run: str, key: Key, epoch: int | None = None) -> float | None:
        """A number of a run at its end, or at an epoch; None if it is not kept."""
        numbers, row = self._find(run, key, epoch)
        return None if row is None else float(numbers.value[row])

    def deviation(self, run: str, key: Key, epoch: int | None = None) -> np.ndarray | None:
        """What each resample of the test set adds to such a number; None without replicates."""
        numbers, row = self._find(run, key, epoch)
        drawn = row is not None and numbers.drawn[row]
        return numbers.deviations(row).astype(np.float64) if drawn else None

    def _find(self, run: str, key: Key, epoch: int | None) -> tuple["_Numbers", int | None]:
        """The table that a number would be in, and its row there."""
        numbers = self.ends if epoch is None else self.epochs
        return numbers, numbers.of(run).get((*key, epoch) if numbers is self.epochs else (*key,))

    def predictions(self, run: str) -> Path:
        """The file of the predictions of a run, whether it is there or not."""
        return self.folder.resolve().parent.parent / "runs" / run / "arrays.npz"


class _Numbers:
    """A table of numbers: values at once, their replicates on demand."""

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
        # Rows of one number lie together: its name is put together once, not with every row.
        ends = np.flatnonzero(np.r_[True, np.diff(np.stack([c for c, _ in key])).any(0), True])
        for start, end in pairwise(ends):
            number = tuple(labels[codes[start]] for codes, labels in key)
            for row, run in enumerate(runs[start:end].tolist(), start):
                places[run][number] = row
        if sum(map(len, places)) < len(runs):
            raise ValueError(f"{opened.path(kind)}: two rows of one run and number")

    def of(self, run: str) -> dict[tuple, int]:
        """The rows of a run, by their key."""
        return self._of.get(run, {})

    def values(self, run: str) -> dict[tuple, float]:
        """The numbers of a run, by their key."""
        return {key: float(self.value[row]) for key, row in self.of(run).items()}

    @cached_property
    def _steps(self) -> np.ndarray:
        """The deviations of every row in whole steps (rows, n), without a copy."""
        column = self._opened.read(self._kind, ["steps"])["steps"].combine_chunks()
        size = column.type.byte_width
        steps = np.frombuffer(column.buffers()[1], np.int8)[column.offset * size :]
        return steps[: len(column) * size].reshape(-1, size)

    def deviations(self, rows: int | np.ndarray) -> np.ndarray:
        """What each resample adds to the numbers of some rows (rows, n)."""
        steps, step = self._steps[rows], self._step[rows][..., None]
        return np.where(steps == _UNDEFINED, np.float32(np.nan), steps * step)

    def replicates(self, run: str):
        """`deviations.Replicates` of a run."""
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
    """Each run with the place of its rows and the columns in which it has a value."""
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
    """The columns of an Arrow table by name; empty without a table."""
    return {k: _array(table[k]) for k in table.column_names} if table else {}


def _array(column) -> np.ndarray:
    """An Arrow column as an array; Arrow's own conversion would import pandas."""
    from pyarrow import types  # late: not every command reads tables

    if types.is_dictionary(column.type):
        codes, labels = codes_of(column)
        return np.array(labels, object)[codes]
    if types.is_string(column.type):
        return np.array(column.to_pylist(), object)
    return _numbers(column.combine_chunks())


def _numbers(array) -> np.ndarray:
    """An Arrow array of numbers, with NaN for a missing one."""
    return np.from_dlpack(array.fill_null(np.nan) if array.null_count else array)


def codes_of(column) -> tuple[np.ndarray, list]:
    """A column as codes (n,), and the list of distinct values to which they point."""
    from pyarrow import types  # late: not every command reads tables

    if types.is_dictionary(column.type):
        column = column.unify_dictionaries().combine_chunks()
        return _numbers(column.indices), column.dictionary.to_pylist()
    values, codes = np.unique(_array(column), return_inverse=True)
    return codes, values.tolist()


_POWERS = np.array([float(f"1e{k}") for k in range(40)])


def decimal(single: np.ndarray) -> np.ndarray:
    """The numbers of at most `DIGITS` digits that are nearest to numbers in single precision."""
    x = single.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = DIGITS - 1 - np.floor(np.log10(np.abs(x)))
        digits = np.nan_to_num(digits, nan=0, posinf=0, neginf=0).clip(0, 39).astype(int)
        return np.rint(x * _POWERS[digits]) / _POWERS[digits]


_OPEN: dict[str, tuple[tuple, Tables]] = {}  # by folder: its state, its tables
seen: list = []  # root, when, and what was there: not looked for again with every run
_index: dict[str, Tables] = {}  # by run, of what was there
_readers: list[set[str]] = []  # that go on with what they looked at first; folders there then


def hold() -> None:
    """Let this process read, from now on, the tables as it finds them at its next look."""
    _readers.append(set(durable.names(cache_root() / "runs")))
    seen.clear()


@contextmanager
def one_release() -> Iterator[None]:
    """A context in which tables are read as at the first look, whatever is published meanwhile."""
    hold()
    try:
        yield
    finally:
        _readers.pop()


def settings() -> dict[str, Tables]:
    """The tables of every setting, by the key of the setting."""
    root = str(released_root())
    if seen and seen[0] == root and (_readers or time.monotonic() - seen[1] < 0.1):
        return seen[2]
    found = _look(root)
    if not seen or seen[2] != found:
        index = _by_name(found)
        _index.clear(), _index.update(index)
    seen[:] = root, time.monotonic(), found
    return found


def _look(root: str) -> dict[str, Tables]:
    """The tables in a folder by setting; those that did not change stay open."""
    found, kept = {}, {}
    for name in durable.names(root):
        folder = os.path.join(root, name)
        if name.startswith(".") or (state := manifest.state(folder)) is None:
            continue
        known = _OPEN.get(folder)
        kept[folder] = known if known and known[0] == state else (state, Tables(Path(folder)))
        found[name] = kept[folder][1]
    _OPEN.clear(), _OPEN.update(kept)
    return found


def _by_name(found: dict[str, Tables]) -> dict[str, Tables]:
    """The tables of each run; of a run in two settings, those of the first."""
    return {run: its for its in reversed(found.values()) for run in its.infos}


def where() -> dict[str, Path]:
    """By the name of each run in tables, the file that changes whenever these tables change."""
    settings()
    return {run: manifest.file_of(its.folder) for run, its in _index.items()}


def find(run: str) -> tuple[dict, Tables] | None:
    """``run.json`` of a run, and the tables that hold it; None if no table does."""
    settings()
    if run not in _index and _readers and run in _readers[-1]:  # its folder may have gone since
        _index.update({name: its for name, its in _by_name(_look(seen[0])).items() if name == run})
    tables = _index.get(run)
    return (tables.infos[run], tables) if tables else None
