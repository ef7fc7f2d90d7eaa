"""Records as tables: a folder for each setting, in place of a folder for each run.

- ``runs.parquet``: a row for each run, its identity in columns and its ``run.json`` as text;
- ``results.parquet``: a row for each number of its end: ``run, metric, recalibration, score,
  validation, value`` and, where there are replicates, ``step`` and ``steps`` (a byte each: the
  deviation is their product, -128 is undefined);
- ``history.parquet`` and ``shifted.parquet``: what the record's tables hold, a row as there;
- ``predictions/RUN.npz``: the arrays of those runs that a figure draws, byte for byte.

`write` makes them from records, `find` gives a run's part of them. A folder of runs is local work;
tables are what is released.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from calibkit.data.cache import cache_root
from calibkit.terms import extras

RECALIBRATIONS = ("none", "ts_nll", "ts_ece", "ts_test", "binned")
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


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of one setting; each is read on first use."""

    folder: Path

    @cached_property
    def infos(self) -> dict[str, dict]:
        """``run.json`` of every run, by name."""
        runs = _read(self.folder / "runs.parquet", ["run", "info"])
        return {run: json.loads(info) for run, info in zip(runs["run"], runs["info"], strict=True)}

    @cached_property
    def _parts(self) -> dict[str, dict[str, tuple[dict, slice]]]:
        """By table and run: all columns, and which rows are the run's."""
        return {name: {} for name in ("history", "shifted", "results")}

    def rows(self, table: str, run: str) -> dict[str, np.ndarray]:
        """The columns of a run in "history", "shifted" or "results", without those it lacks."""
        parts = self._parts[table]
        if not parts:
            path = self.folder / f"{table}.parquet"
            columns = _read(path) if path.exists() else {"run": np.array([], dtype=object)}
            names = columns.pop("run")
            starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]][: len(names)])
            for start, end in zip(
                starts, np.r_[starts[1:], len(names)][: len(starts)], strict=True
            ):
                parts[names[start]] = columns, slice(start, end)
        if run not in parts:
            return {}
        columns, part = parts[run]
        own = {name: column[part] for name, column in columns.items()}
        return {k: v for k, v in own.items() if not (v.dtype.kind == "f" and np.isnan(v).all())}

    def predictions(self, run: str) -> Path:
        return self.folder / "predictions" / f"{run}.npz"


def _read(path: Path, columns: list[str] | None = None) -> dict[str, np.ndarray]:
    with extras():
        import pyarrow.parquet as parquet
    table = parquet.read_table(path, columns=columns)
    return {name: table[name].to_numpy() for name in table.column_names}


_OPEN: dict[tuple[str, int], Tables] = {}
_seen: list = []  # root, when, and what was there: not looked for again with every run


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
            found[name] = _OPEN[key]
    _seen[:] = root, time.monotonic(), found
    return found


def find(run: str) -> tuple[dict, Tables] | None:
    """``run.json`` of a run and the tables that hold the rest of it; None if none does."""
    for tables in settings().values():
        if run in tables.infos:
            return tables.infos[run], tables
    return None


def write(folder: Path, records: Iterable, more: Callable = lambda record: []) -> None:
    """Write the tables of one setting from `store.Record`, each into a draft that is renamed.

    `more` gives further rows of a record's results: ``metric, recalibration, validation, value``. A
    setting is written whole: what its tables held before and is not among `records` is gone.
    """
    with extras():
        import pandas as pd

    records = sorted(records, key=lambda record: record.name)
    predictions = folder / "predictions"
    predictions.mkdir(parents=True, exist_ok=True)
    runs, history, shifted, results = [], [], [], []
    for record in records:
        run = record.info["run"]
        identity = {k: run[k] for k in ("dataset", "network", "seed")}
        runs.append({"run": record.name} | identity | {"info": json.dumps(record.info)})
        history.append(pd.DataFrame(record.history).assign(run=record.name))
        for table in (record.shifted, record.collected):
            if table:
                shifted.append(pd.DataFrame(table).assign(run=record.name))
        results += _results(record)
        results += [{"run": record.name, "score": "max_probability"} | row for row in more(record)]
        if not record.light:
            shutil.copyfile(record.predictions, predictions / f"{record.name}.npz")
    for old in predictions.glob("*.npz"):
        if old.stem not in {record.name for record in records if not record.light}:
            old.unlink()
    for name, rows in {
        "runs": pd.DataFrame(runs),
        "history": pd.concat(history, ignore_index=True),
        "shifted": pd.concat(shifted, ignore_index=True) if shifted else pd.DataFrame(),
        "results": pd.DataFrame(results),
    }.items():
        path = folder / f"{name}.parquet"
        if not len(rows):
            path.unlink(missing_ok=True)
            continue
        draft = path.with_suffix(".draft")
        rows.to_parquet(draft, compression="zstd", compression_level=9, index=False)
        draft.replace(path)
    _seen.clear()


def _results(record) -> list[dict]:
    """The numbers of a run's end, with their replicates."""
    if record.diverged:
        return []
    replicates = record.replicates
    steps, step = replicates.quantised()
    rows = []
    for i, name in enumerate(replicates.names):
        metric, recalibration, score = split(name)
        rows.append(
            {
                "run": record.name,
                "metric": metric,
                "recalibration": recalibration,
                "score": score,
                "value": float(replicates.estimates[i]),
                "step": np.float32(step[i, 0]),
                "steps": steps[i].tobytes(),
            }
        )
    for name, temperature in replicates.temperatures.items():
        rows.append(
            {
                "run": record.name,
                "metric": "temperature",
                "recalibration": _IN_REPLICATES.get(name, name),
                "score": "max_probability",
                "value": float(temperature),
            }
        )
    if replicates.p is not None:
        rows.append(
            {
                "run": record.name,
                "metric": "p",
                "recalibration": "none",
                "score": "p_norm",
                "value": float(replicates.p),
            }
        )
    return rows


def replicates(rows: dict[str, np.ndarray]):
    """`stats.Replicates` from the rows of a run in the table of results."""
    from calibkit import stats

    drawn = np.array([s is not None for s in rows["steps"]])
    names = tuple(
        joined(*parts)
        for parts in zip(
            *(rows[k][drawn] for k in ("metric", "recalibration", "score")), strict=True
        )
    )
    steps = np.stack([np.frombuffer(s, np.int8) for s in rows["steps"][drawn]])
    deviations = np.where(
        steps == _UNDEFINED, np.nan, steps * rows["step"][drawn][:, None].astype(np.float32)
    )
    fitted = (rows["metric"] == "temperature") & ~drawn
    p = rows["value"][(rows["metric"] == "p") & ~drawn]
    temperatures = {
        joined("", recalibration).lstrip("_"): float(value)
        for recalibration, value in zip(
            rows["recalibration"][fitted], rows["value"][fitted], strict=True
        )
    }
    return stats.Replicates(
        names,
        rows["value"][drawn],
        deviations.astype(np.float32),
        temperatures,
        float(p[0]) if len(p) else None,
    )
