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
from calibkit_companion.records.replicates import KEY, joined

DIGITS = 7  # that history and shifted sets have at most


_UNDEFINED = -128


def released_root() -> Path:
    return cache_root() / "released"


class Tables:
    """The tables of one setting, as they were when it was opened; each is read on first use."""

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
        """The columns of a run in "history" or "shifted", without those it lacks."""
        if table not in self._parts:
            self._parts[table] = dict(_by_run(_columns(self.opened.read(table))))
        part, columns = self._parts[table].get(run, (None, {}))
        return {name: column[part] for name, column in columns.items()}

    @cached_property
    def ends(self) -> "_Numbers":
        """Numbers of the end of runs, by `KEY`."""
        return _Numbers(self.opened, "results")

    @cached_property
    def epochs(self) -> "_Numbers":
        """Numbers of runs whose predictions were kept through training, by `KEY` and epoch."""
        return _Numbers(self.opened, "epochs")

    def number(self, run: str, *key) -> float | None:
        """A number of a run by `KEY`, and an epoch if it is not of the end; None if not kept."""
        its = self.ends if len(key) == len(KEY) else self.epochs
        row = its.of(run).get(key)
        return None if row is None else float(its.value[row])

    def deviation(self, run: str, *key) -> np.ndarray | None:
        """What each resample adds to such a number; None without replicates."""
        its = self.ends if len(key) == len(KEY) else self.epochs
        row = its.of(run).get(key)
        drawn = row is not None and its.drawn[row]
        return its.deviations(row).astype(np.float64) if drawn else None

    def predictions(self, run: str) -> Path:
        return self.folder.resolve().parent.parent / "runs" / run / "arrays.npz"


class _Numbers:
    """A table of numbers: values at once, their replicates on demand."""

    def __init__(self, opened: manifest.Opened, kind: str):
        self._opened, self._kind = opened, kind
        self._of: dict[str, dict[tuple, int]] = {}
        table = opened.read(kind, [*KEY, "epoch", "run", "value", "step"])
        if table is None:
            return
        self.value, self._step = _array(table["value"]), _array(table["step"])
        self.drawn = ~np.isnan(self._step)
        key = [codes_of(table[k]) for k in (*KEY, "epoch") if k in table.column_names]
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
        return {key: float(self.value[row]) for key, row in self.of(run).items()}

    @cached_property
    def _steps(self) -> np.ndarray:
        column = self._opened.read(self._kind, ["steps"])["steps"].combine_chunks()
        size = column.type.byte_width
        steps = np.frombuffer(column.buffers()[1], np.int8)[column.offset * size :]
        return steps[: len(column) * size].reshape(-1, size)

    def deviations(self, rows) -> np.ndarray:
        steps, step = self._steps[rows], self._step[rows][..., None]
        return np.where(steps == _UNDEFINED, np.float32(np.nan), steps * step)

    def replicates(self, run: str):
        """`deviations.Replicates` of a run."""
        from calibkit_companion.records import deviations

        its = self.of(run)
        drawn = {joined(*k[:3]): row for k, row in its.items() if self.drawn[row]}
        rows = np.array(list(drawn.values()), int)
        others = {k[:2]: float(self.value[row]) for k, row in its.items() if not self.drawn[row]}
        temperatures = {
            joined("", after).lstrip("_"): value
            for (metric, after), value in others.items()
            if metric == "temperature"
        }
        p = others.get(("p", "none"))
        values = self.value[rows], self.deviations(rows)
        return deviations.Replicates(tuple(drawn), *values, temperatures, p)


def _by_run(columns: dict) -> Iterable[tuple[str, tuple[slice, dict]]]:
    """By run its rows, and the columns of which it has any."""
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
    return {k: _array(table[k]) for k in table.column_names} if table else {}


def _array(column) -> np.ndarray:
    """A column, without Arrow's own way, which imports pandas."""
    if str(column.type).startswith("dictionary"):
        codes, labels = codes_of(column)
        return np.array(labels, object)[codes]
    if str(column.type) == "string":
        return np.array(column.to_pylist(), object)
    return _numbers(column.combine_chunks())


def _numbers(array) -> np.ndarray:
    return np.from_dlpack(array.fill_null(np.nan) if array.null_count else array)


def codes_of(column) -> tuple[np.ndarray, list]:
    """A column as numbers of its distinct values, and these."""
    if str(column.type).startswith("dictionary"):
        column = column.unify_dictionaries().combine_chunks()
        return _numbers(column.indices), column.dictionary.to_pylist()
    values, codes = np.unique(_array(column), return_inverse=True)
    return codes, values.tolist()


_POWERS = np.array([float(f"1e{k}") for k in range(40)])


def decimal(single: np.ndarray) -> np.ndarray:
    """The numbers of `DIGITS` digits that were rounded to single precision."""
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
    """From here on, this process reads tables as they were when it first looked at them."""
    _readers.append(set(durable.names(cache_root() / "runs")))
    seen.clear()


@contextmanager
def one_release() -> Iterator[None]:
    """Within, tables are read as they were when first looked at, whatever is published."""
    hold()
    try:
        yield
    finally:
        _readers.pop()


def settings() -> dict[str, Tables]:
    """The tables of every setting that has some, by its name."""
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
    return {run: its for its in reversed(found.values()) for run in its.infos}


def where() -> dict[str, Path]:
    """Of every run in tables the file that says so, and changes with them."""
    settings()
    return {run: manifest.file_of(its.folder) for run, its in _index.items()}


def find(run: str) -> tuple[dict, Tables] | None:
    """``run.json`` of a run and the tables that hold the rest of it; None if none does."""
    settings()
    if run not in _index and _readers and run in _readers[-1]:  # its folder may have gone since
        _index.update({name: its for name, its in _by_name(_look(seen[0])).items() if name == run})
    tables = _index.get(run)
    return (tables.infos[run], tables) if tables else None
