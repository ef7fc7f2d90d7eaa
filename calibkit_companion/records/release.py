"""Make the released tables from records."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np

from calibkit import files
from calibkit.terms import extras
from calibkit_companion.data.cache import cache_root, locked
from calibkit_companion.experiments.method import Method
from calibkit_companion.records import manifest
from calibkit_companion.records.keys import Key
from calibkit_companion.records.replicates import rows_of
from calibkit_companion.records.tables import codes_of, decimal, released_root, seen


def write(folder: Path, records: Iterable, more: Callable = lambda record: []) -> None:
    """Publish the tables of one setting in one step.

    The new tables replace the old tables: only the runs of `records` remain. The rows of a record
    that was read from tables are copied unchanged.

    Parameters
    ----------
    folder : folder of the tables of the setting; created if missing
    records : all records (`record.Record`) of the setting
    more : function of a record that returns further numbers, as dicts with the fields of `Key`,
        ``value`` and, for a number at an epoch, ``epoch``
    """
    with extras():
        import pyarrow as pa
        import pyarrow.compute as pc

    records = sorted(records, key=lambda record: record.name)
    parts = {name: [] for name in manifest.KINDS}
    for tables in dict.fromkeys(record.tables for record in records if record.tables):
        own = pa.array([record.name for record in records if record.tables is tables])
        for name, its in parts.items():
            if old := tables.opened.read(name):
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
    whole = {
        name: pa.concat_tables(map(_plain, its), promote_options="default")
        for name, its in parts.items()
        if its
    }
    note = manifest.note(whole)
    manifest.publish(folder, {name: _encoded(table, note) for name, table in whole.items()})
    seen.clear()


def _identity(record) -> dict[str, list]:
    """Make the row of a run in the table ``runs``, as columns of length 1."""
    run = record.info["run"]
    made = run["method"] | {"options": tuple(sorted(run["method"].get("options", {}).items()))}
    columns = {"run": record.name} | {k: run[k] for k in ("dataset", "network")}
    columns |= {"method": Method(**made).name, "variant": run.get("variant", "code")}
    columns |= {"seed": run["seed"], "status": record.info["status"]}
    return {k: [v] for k, v in (columns | {"info": json.dumps(record.info)}).items()}


def _table_of(run: str, columns: Mapping):
    """Make an Arrow table of one run from columns."""
    import pyarrow as pa

    types = {"step": pa.float32(), "validation": pa.int32(), "epoch": pa.int32()}
    own = {k: pa.array(v, types.get(k)) for k, v in columns.items() if k != "steps"}
    if "epoch" in own and "value" not in own:  # a history keeps epochs in the type that it has
        own["epoch"] = pa.array(columns["epoch"])
    if "steps" in columns:
        size = next(len(v) for v in columns["steps"] if v is not None)
        own["steps"] = pa.array(columns["steps"], pa.binary(size))
    return pa.table({"run": pa.array([run] * len(next(iter(own.values())))), **own})


def _plain(table):
    """Give the columns of a table that was read the types that they had before writing."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        column = table[field.name]
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, column.cast(pa.string()))
        elif pa.types.is_float32(field.type) and field.name != "step":
            table = table.set_column(i, field.name, pa.array(decimal(column.to_numpy())))
    return table


def _encoded(table, note: dict[bytes, bytes]) -> bytes:
    """Write an Arrow table as the bytes of a Parquet file, with `note` in its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    order = [k for k in (*Key._fields, "epoch", "run") if k in table.column_names]
    exact = "value" in table.column_names
    table = table.sort_by([(k, "ascending") for k in (order if exact else ["run"])])
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type) and field.name != "info":
            table = table.set_column(i, field.name, table[field.name].dictionary_encode())
        elif pa.types.is_float64(field.type) and not exact:
            column = table[field.name].to_numpy()
            single = column.astype(np.float32)
            if np.array_equal(decimal(single), column, equal_nan=True):
                table = table.set_column(i, field.name, pa.array(single))
    numbers = [f.name for f in table.schema if pa.types.is_floating(f.type)]
    options = {
        "use_dictionary": [f.name for f in table.schema if f.name not in numbers],
        "dictionary_pagesize_limit": 1 << 26,
        "column_encoding": dict.fromkeys(numbers, "BYTE_STREAM_SPLIT"),
        "compression": "zstd",
        "compression_level": 9,
        "write_page_checksum": True,
    }
    table, content = table.replace_schema_metadata(note), pa.BufferOutputStream()
    with parquet.ParquetWriter(content, table.schema, **options) as file:
        ends = [0, len(table)]
        if exact:  # a group of rows for each metric: a reader can skip the others
            codes, _ = codes_of(table["metric"])
            ends = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1], True]).tolist()
        for start, end in pairwise(ends):
            file.write_table(table.slice(start, end - start), row_group_size=end - start)
    return content.getvalue().to_pybytes()


@contextmanager
def held() -> Iterator[None]:
    """A context in which no other process publishes tables.

    At the start, drafts and half-deleted folders of killed processes are removed. Version 0.1.0
    replaced a folder by two renames; if it was killed between them, the old folder is put back.
    """
    runs, root = cache_root() / "runs", released_root()
    runs.mkdir(parents=True, exist_ok=True)
    with locked(runs / ".collect.lock"):
        there = [root / name for name in files.names(root)]
        for path in there:
            if path.name.startswith(".replaced-"):
                folder = root / path.name.removeprefix(".replaced-").rpartition("-")[0]
                files.remove(path) if files.exists(folder) else path.rename(folder)
        for left in (*there, *(runs / name for name in files.names(runs))):
            if left.name.startswith(".deleted-" if left.parent == runs else ".draft-"):
                files.remove(left)
            elif left.parent == root and not left.name.startswith("."):
                manifest.tidy(left)
        seen.clear()
        yield
