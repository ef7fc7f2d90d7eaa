"""Read JSON: an object of arrays, a table, a list of rows, or one row on each line."""

import json
from pathlib import Path

from calibkit.report.names import few_of
from calibkit.report.readers.asked import Asked
from calibkit.report.readers.content import bytes_of, format_of
from calibkit.report.readers.harness import harness_arrays
from calibkit.report.readers.named import Arrays, array_of, named
from calibkit.report.readers.tables import frame_arrays


def json_arrays(path: Path, asked: Asked) -> Arrays:
    """Read a JSON file: an object of arrays, a table as pandas writes it, or a list of rows.

    JSON Lines, with one row on each line, are read as a list of rows.
    """
    text = bytes_of(path).decode("utf-8-sig").strip()
    if not text:
        raise ValueError("the file is empty")
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        lines = [line for line in text.split("\n") if line.strip()]
        try:
            found = [json.loads(line) for line in lines]
        except json.JSONDecodeError as error:
            raise ValueError(
                f"expected JSON, or a JSON object on each line; got neither ({error.msg})"
            ) from error
    if isinstance(found, dict) and format_of(path) == ".json":
        rows = _rows(found)
        if rows is None:
            return named(set(found), lambda name: array_of(found[name]), asked)
    else:
        rows = found if isinstance(found, list) else [found]
    if not all(isinstance(row, dict) for row in rows) or not rows:
        raise ValueError("expected a list of objects, one for each sample")
    if "filtered_resps" in rows[0]:
        return harness_arrays(rows, asked)
    import pandas as pd  # late: slow to import

    return frame_arrays(pd.DataFrame.from_records(rows), asked)


def _rows(found: dict) -> list[dict] | None:
    """The rows of a table in any layout that pandas writes; None for an object of arrays."""
    if isinstance(columns := found.get("columns"), list) and isinstance(found.get("data"), list):
        names = [str(name) for name in columns]
        if any(not isinstance(row, list) or len(row) != len(names) for row in found["data"]):
            raise ValueError(
                f"data: expected {len(names)} values in each row, one for each of the columns"
            )
        return [dict(zip(names, row, strict=True)) for row in found["data"]]
    if isinstance(found.get("schema"), dict) and isinstance(rows := found.get("data"), list):
        return rows  # orient="table"
    inner = list(found.values())
    if not inner or not all(isinstance(value, dict) for value in inner):
        return None
    if len({tuple(value) for value in inner}) > 1:
        raise ValueError(
            f"got objects {few_of(found)} with different keys, expected a list of rows"
        )
    if _is_column(found):  # orient="columns", which is the default of pandas
        return [{name: column[key] for name, column in found.items()} for key in inner[0]]
    return inner  # orient="index"


def _is_column(found: dict) -> bool:
    """Whether an object of objects holds columns: its inner keys are row numbers, not the outer."""
    inner = next(iter(found.values()))
    return all(key.isdecimal() for key in inner) and not all(key.isdecimal() for key in found)
