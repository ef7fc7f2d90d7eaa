"""Records as tables: a folder for each setting, in place of a folder for each run.

- ``runs.parquet``: a row for each run, its identity in columns and its ``run.json`` as text;
- ``results.parquet``: a row for each number of its end: ``metric, recalibration, score,
  validation, run, value`` and, where there are replicates, ``step`` and ``steps`` (a byte each: the
  deviation is their product, -128 is undefined), sorted so that a metric's rows lie together;
- ``history.parquet``, ``shifted.parquet``: a row as in the tables of a record;
- ``epochs.parquet``: a row for each evaluated epoch of runs whose predictions were kept then, and
  number of it, as in the results;

`write` makes them from records, `find` gives a run's part of them. A folder of runs is local work;
tables are what is released, and git checks them. The predictions of a run that keeps them stay
where its training put them, beside the tables: ``runs/RUN/arrays.npz``.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from calibkit.terms import extras
from calibkit_companion.data.cache import cache_root
from calibkit_companion.experiments.run import Method, method_name

RECALIBRATIONS = ("none", "ts_nll", "ts_ece", "ts_test", "binned")
KEY = ("metric", "recalibration", "score", "validation")  # of a number
DIGITS = 7  # that history and shifted sets have at most
_IN_REPLICATES = {"optimal": "ts_test"}  # their names, where they differ
_UNDEFINED = -128


def released_root() -> Path:
    return cache_root() / "released"


def split(name: str) -> tuple[str, str, str]:
    """Metric, recalibration and score of a name in `stats.Replicates`.

    >>> split("ece_ts_nll"), split("ece_optimal")
    (('ece', 'ts_nll', 'max_probability'), ('ece', 'ts_test', 'max_probability'))
    >>> split("auroc_p_norm")
    ('auroc', 'none', 'p_norm')
    """
    if name.endswith("_p_norm"):
        return name.removesuffix("_p_norm"), "none", "p_norm"
    for suffix in ("ts_nll", "ts_ece", "binned", "optimal"):
        if name.endswith(f"_{suffix}"):
            metric, after = name.removesuffix(f"_{suffix}"), _IN_REPLICATES.get(suffix, suffix)
            return metric, after, "max_probability"
    return name, "none", "max_probability"


def joined(metric: str, recalibration: str, score: str = "max_probability") -> str:
    """The name in `stats.Replicates` of a metric behind a recalibration, by a score.

    >>> joined("ece", "ts_test"), joined("ece", "none"), joined("auroc", "none", "p_norm")
    ('ece_optimal', 'ece', 'auroc_p_norm')
    """
    if score != "max_probability":
        return f"{metric}_{score}"
    if recalibration == "none":
        return metric
    return f"{metric}_{'optimal' if recalibration == 'ts_test' else recalibration}"


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of one setting; each is read on first use."""

    folder: Path

    @cached_property
    def infos(self) -> dict[str, dict]:
        """``run.json`` of every run, by name."""
        runs = _columns(self.folder / "runs.parquet", ["run", "info"])
        return {run: json.loads(info) for run, info in zip(runs["run"], runs["info"], strict=True)}

    @cached_property
    def _parts(self) -> dict[str, dict[str, tuple[slice, dict]]]:
        return {}

    def rows(self, table: str, run: str) -> dict[str, np.ndarray]:
        """The columns of a run in "history" or "shifted", without those it lacks."""
        if table not in self._parts:
            self._parts[table] = dict(_by_run(_columns(self.folder / f"{table}.parquet")))
        part, columns = self._parts[table].get(run, (None, {}))
        return {name: column[part] for name, column in columns.items()}

    @cached_property
    def ends(self) -> "_Numbers":
        """Numbers of the end of runs, by `KEY`."""
        return _Numbers(self.folder / "results.parquet")

    @cached_property
    def epochs(self) -> "_Numbers":
        """Numbers of runs whose predictions were kept through training, by `KEY` and epoch."""
        return _Numbers(self.folder / "epochs.parquet")

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

    def __init__(self, path: Path):
        self.path = path
        self._of: dict[str, dict[tuple, int]] = {}
        table = _table(path, [*KEY, "epoch", "run", "value", "step"])
        if table is None:
            return
        self.value, self._step = _array(table["value"]), _array(table["step"])
        self.drawn = ~np.isnan(self._step)
        key = [_codes(table[k]) for k in (*KEY, "epoch") if k in table.column_names]
        runs, labels = _codes(table["run"])
        self._of = {run: {} for run in labels}
        places = list(self._of.values())
        # Rows of one number lie together: its name is put together once, not with every row.
        ends = np.flatnonzero(np.r_[True, np.diff(np.stack([c for c, _ in key])).any(0), True])
        for start, end in pairwise(ends):
            number = tuple(labels[codes[start]] for codes, labels in key)
            for row, run in enumerate(runs[start:end].tolist(), start):
                places[run][number] = row
        if sum(map(len, places)) < len(runs):
            raise ValueError(f"{path}: two rows of one run and number")

    def of(self, run: str) -> dict[tuple, int]:
        """The rows of a run, by their key."""
        return self._of.get(run, {})

    def values(self, run: str) -> dict[tuple, float]:
        return {key: float(self.value[row]) for key, row in self.of(run).items()}

    @cached_property
    def _steps(self) -> np.ndarray:
        column = _table(self.path, ["steps"])["steps"].combine_chunks()
        size = column.type.byte_width
        steps = np.frombuffer(column.buffers()[1], np.int8)[column.offset * size :]
        return steps[: len(column) * size].reshape(-1, size)

    def deviations(self, rows) -> np.ndarray:
        steps, step = self._steps[rows], self._step[rows][..., None]
        return np.where(steps == _UNDEFINED, np.float32(np.nan), steps * step)

    def replicates(self, run: str):
        """`stats.Replicates` of a run."""
        from calibkit import stats

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
        return stats.Replicates(tuple(drawn), *values, temperatures, p)


def _by_run(columns: dict) -> Iterable[tuple[str, tuple[slice, dict]]]:
    """By run its rows, and the columns of which it has any."""
    if not columns:
        return
    runs = columns.pop("run")
    ends = np.flatnonzero(np.r_[True, runs[1:] != runs[:-1], True])
    columns = {k: _decimal(v) if v.dtype == np.float32 else v for k, v in columns.items()}
    empty = {
        k: np.logical_and.reduceat(np.isnan(v), ends[:-1])
        for k, v in columns.items()
        if v.dtype.kind == "f"
    }
    for i, (start, end) in enumerate(pairwise(ends.tolist())):
        own = {k: v for k, v in columns.items() if k not in empty or not empty[k][i]}
        yield runs[start], (slice(start, end), own)


def _table(path: Path, columns: list[str] | None = None):
    """An Arrow table, or None without a file; of `columns` those that there are."""
    with extras():
        import pyarrow.parquet as parquet
    if not path.exists():
        return None
    with parquet.ParquetFile(path) as file:
        kept = None if columns is None else [c for c in columns if c in file.schema_arrow.names]
        return file.read(columns=kept)


def _columns(path: Path, columns: list[str] | None = None) -> dict[str, np.ndarray]:
    table = _table(path, columns)
    return {k: _array(table[k]) for k in table.column_names} if table else {}


def _array(column) -> np.ndarray:
    """A column, without Arrow's own way, which imports pandas."""
    if str(column.type).startswith("dictionary"):
        codes, labels = _codes(column)
        return np.array(labels, object)[codes]
    if str(column.type) == "string":
        return np.array(column.to_pylist(), object)
    return _numbers(column.combine_chunks())


def _numbers(array) -> np.ndarray:
    return np.from_dlpack(array.fill_null(np.nan) if array.null_count else array)


def _codes(column) -> tuple[np.ndarray, list]:
    """A column as numbers of its distinct values, and these."""
    if str(column.type).startswith("dictionary"):
        column = column.unify_dictionaries().combine_chunks()
        return _numbers(column.indices), column.dictionary.to_pylist()
    values, codes = np.unique(_array(column), return_inverse=True)
    return codes, values.tolist()


_POWERS = np.array([float(f"1e{k}") for k in range(40)])


def _decimal(single: np.ndarray) -> np.ndarray:
    """The numbers of `DIGITS` digits that were rounded to single precision."""
    x = single.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = DIGITS - 1 - np.floor(np.log10(np.abs(x)))
        digits = np.nan_to_num(digits, nan=0, posinf=0, neginf=0).clip(0, 39).astype(int)
        return np.rint(x * _POWERS[digits]) / _POWERS[digits]


_OPEN: dict[tuple[str, int], Tables] = {}
_seen: list = []  # root, when, and what was there: not looked for again with every run
_index: dict[str, Tables] = {}  # by run, of what was there


def settings() -> dict[str, Tables]:
    """The tables of every setting that has some, by its name."""
    root = str(released_root())
    if _seen and _seen[0] == root and time.monotonic() - _seen[1] < 0.1:
        return _seen[2]
    found = {}
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        path = os.path.join(root, name, "runs.parquet")
        with suppress(OSError):  # another folder
            key = path, os.stat(path).st_mtime_ns
            if key not in _OPEN:
                _OPEN[key] = Tables(Path(root, name))
            if not name.startswith("."):
                found[name] = _OPEN[key]
    if not _seen or _seen[2] != found:
        _index.clear()
        for its in reversed(found.values()):
            _index.update(dict.fromkeys(its.infos, its))
    _seen[:] = root, time.monotonic(), found
    return found


def where() -> dict[str, Path]:
    """Of every run in tables the file that says so."""
    settings()
    return {run: its.folder / "runs.parquet" for run, its in _index.items()}


def find(run: str) -> tuple[dict, Tables] | None:
    """``run.json`` of a run and the tables that hold the rest of it; None if none does."""
    settings()
    tables = _index.get(run)
    return (tables.infos[run], tables) if tables else None


# --- writing --------------------------------------------------------------------------------------


def write(folder: Path, records: Iterable, more: Callable = lambda record: []) -> None:
    """Write the tables of one setting from `store.Record`, all of them or none.

    Rows of records that are in tables already are taken over as they are. `more` gives rows that a
    record does not have: `KEY` and ``value``, and ``epoch`` if they are of one. A setting is
    written whole: what its tables held before and is not among `records` is gone.
    """
    with extras():
        import pyarrow as pa
        import pyarrow.compute as pc

    records = sorted(records, key=lambda record: record.name)
    parts = {name: [] for name in ("runs", "history", "shifted", "results", "epochs")}
    for tables in dict.fromkeys(record.tables for record in records if record.tables):
        own = pa.array([record.name for record in records if record.tables is tables])
        for name, its in parts.items():
            if old := _table(tables.folder / f"{name}.parquet"):
                its.append(old.filter(pc.is_in(old["run"].cast(pa.string()), own)))
    for record in records:
        rows = more(record)
        if not record.tables:
            rows += [] if record.diverged else rows_of(record.replicates, *record.steps)
            parts["runs"].append(pa.table(_identity(record)))
            for name, table in (("history", record.history), ("shifted", record.all_shifted)):
                if table:
                    parts[name].append(_table_of(record.name, table))
        for name, its in (
            ("results", [row for row in rows if "epoch" not in row]),
            ("epochs", [row for row in rows if "epoch" in row]),
        ):
            if its:
                columns = {k: [row.get(k) for row in its] for k in {k: 0 for r in its for k in r}}
                parts[name].append(_table_of(record.name, columns))
    draft = folder.with_name(f".draft-{folder.name}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        for name, its in parts.items():
            if its:
                _write(
                    draft / f"{name}.parquet",
                    pa.concat_tables(map(_plain, its), promote_options="default"),
                )
        _swap(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _seen.clear()


def _identity(record) -> dict[str, list]:
    run = record.info["run"]
    made = run["method"] | {"options": tuple(sorted(run["method"].get("options", {}).items()))}
    columns = {"run": record.name} | {k: run[k] for k in ("dataset", "network")}
    columns |= {"method": method_name(Method(**made)), "variant": run.get("variant", "code")}
    columns |= {"seed": run["seed"], "status": record.info["status"]}
    return {k: [v] for k, v in (columns | {"info": json.dumps(record.info)}).items()}


def rows_of(replicates, steps: np.ndarray, step: np.ndarray) -> list[dict]:
    """`stats.Replicates` as rows of results; `steps` and `step` as its file has them."""
    rows = []
    for i, name in enumerate(replicates.names):
        number = (*split(name), 0)
        value = {"value": float(replicates.estimates[i])}
        drawn = {"step": float(step[i, 0]), "steps": steps[i].tobytes()}
        rows.append(dict(zip(KEY, number, strict=True)) | value | drawn)
    fitted = [
        (("temperature", _IN_REPLICATES.get(k, k), "max_probability", 0), v)
        for k, v in replicates.temperatures.items()
    ]
    fitted += [] if replicates.p is None else [(("p", "none", "p_norm", 0), replicates.p)]
    return rows + [dict(zip(KEY, k, strict=True)) | {"value": float(v)} for k, v in fitted]


def _table_of(run: str, columns: Mapping):
    """An Arrow table of one run."""
    import pyarrow as pa

    types = {"step": pa.float32(), "validation": pa.int32(), "epoch": pa.int32()}
    own = {k: pa.array(v, types.get(k)) for k, v in columns.items() if k != "steps"}
    if "epoch" in own and "value" not in own:  # a history: like its other columns
        own["epoch"] = pa.array(columns["epoch"])
    if "steps" in columns:
        size = next(len(v) for v in columns["steps"] if v is not None)
        own["steps"] = pa.array(columns["steps"], pa.binary(size))
    return pa.table({"run": pa.array([run] * len(next(iter(own.values())))), **own})


def _plain(table):
    """A table as it was before it was written: texts, and numbers in double precision."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        column = table[field.name]
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, column.cast(pa.string()))
        elif pa.types.is_float32(field.type) and field.name != "step":
            table = table.set_column(i, field.name, pa.array(_decimal(column.to_numpy())))
    return table


def _write(path: Path, table) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    order = [k for k in (*KEY, "epoch", "run") if k in table.column_names]
    exact = "value" in table.column_names
    table = table.sort_by([(k, "ascending") for k in (order if exact else ["run"])])
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type) and field.name != "info":
            table = table.set_column(i, field.name, table[field.name].dictionary_encode())
        elif pa.types.is_float64(field.type) and not exact:
            column = table[field.name].to_numpy()
            single = column.astype(np.float32)
            if np.array_equal(_decimal(single), column, equal_nan=True):
                table = table.set_column(i, field.name, pa.array(single))
    numbers = [f.name for f in table.schema if pa.types.is_floating(f.type)]
    options = {
        "use_dictionary": [f.name for f in table.schema if f.name not in numbers],
        "dictionary_pagesize_limit": 1 << 26,
        "column_encoding": dict.fromkeys(numbers, "BYTE_STREAM_SPLIT"),
        "compression": "zstd",
        "compression_level": 9,
    }
    with parquet.ParquetWriter(path, table.schema, **options) as file:
        ends = [0, len(table)]
        if exact:  # a group of rows for each metric: who filters by one reads no other
            codes, _ = _codes(table["metric"])
            ends = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1], True]).tolist()
        for start, end in pairwise(ends):
            file.write_table(table.slice(start, end - start), row_group_size=end - start)


def _swap(draft: Path, folder: Path) -> None:
    """Put a folder where another may be. Killed in between, `restore` puts the old one back."""
    old = folder.with_name(f".replaced-{folder.name}-{os.getpid()}")
    if folder.is_dir():
        folder.rename(old)
    draft.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def restore() -> None:
    """Undo what a killed `write` left behind."""
    for old in released_root().glob(".replaced-*"):
        folder = old.with_name(old.name.removeprefix(".replaced-").rpartition("-")[0])
        if folder.exists():
            shutil.rmtree(old)
        else:
            old.rename(folder)
    for draft in released_root().glob(".draft-*"):
        shutil.rmtree(draft)
