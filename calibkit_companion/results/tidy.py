"""Turn the numbers of a record into rows of one tidy table."""

from collections.abc import Iterator

from calibkit_companion.records.keys import Key, Recalibration, read_column, test_sets
from calibkit_companion.records.record import Record
from calibkit_companion.records.replicates import rows_of

# Columns that identify a number among the numbers of its run.
_WHICH = ("score", "test_set", "at", "metric", "recalibration")
_NO_NUMBERS = ("epoch", "n", "learning_rate")  # columns of a history that hold no metric


def rows(record: Record, method: str, setting: str) -> Iterator[dict]:
    """Yield a row for each number of a record, in natural units.

    Parameters
    ----------
    record : the record of a run
    method : name of the method in the column ``method``
    setting : key of the setting

    Yields
    ------
    dict
        The columns of `Results.frame`.
    """
    run, found = record.info["run"], {}
    base = {"run": record.name, "setting": setting}
    base |= {name: run[name] for name in ("dataset", "network", "seed")} | {"method": method}
    size = record.history["n"][-1]
    for key, at, value in _kept(record):
        if not key.validation:  # the table has no column for fits on few samples
            found[key.score, "clean", at, key.metric, key.recalibration] = value, size
    for name, column in record.history.items():
        key = read_column(name)
        if name not in _NO_NUMBERS and key.recalibration is Recalibration.NONE:
            # Columns of recalibrated metrics hold temperatures, or numbers that `_kept` yields.
            number = key.score, "clean", "end", key.metric, key.recalibration
            found.setdefault(number, (column[-1], size))
    for number, value, size in _under_shift(record):
        found[number] = value, size
    for number, (value, n) in found.items():
        identity = dict(zip(_WHICH, map(_plain, number), strict=True))
        yield base | identity | {"value": float(value), "n": int(n)}


def _kept(record: Record) -> Iterator[tuple[Key, str | int, float]]:
    """Yield the numbers with replicates and the computed numbers, each with its epoch or "end"."""
    if not record.tables:
        for row in rows_of(record.replicates, *record.steps):
            yield Key(*(row[name] for name in Key._fields)), "end", row["value"]
        return
    for key, value in record.tables.ends.values(record.name).items():
        yield Key(*key), "end", value
    for (*key, epoch), value in record.tables.epochs.values(record.name).items():
        yield Key(*key), epoch, value


def _under_shift(record: Record) -> Iterator[tuple[tuple, float, int]]:
    """Yield the numbers on shifted and newly collected test sets, with the number of samples."""
    table = record.all_shifted
    names = [name for name in table if name not in ("shift", "severity", "n")]
    for i, test_set in enumerate(test_sets(table)):
        for name in names:
            key = read_column(name)
            number = key.score, test_set, "end", key.metric, key.recalibration
            yield number, table[name][i], table["n"][i]


def _plain(value: object) -> object:
    """Turn a member of an enumeration into text; other values are returned unchanged."""
    return str(value) if isinstance(value, str) else value
