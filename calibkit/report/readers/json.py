"""JSON: an object of arrays, a list of rows, or a row a line."""

import json
from pathlib import Path

from calibkit.report.names import few_of
from calibkit.report.readers.content import bytes_of, format_of
from calibkit.report.readers.harness import harness_arrays
from calibkit.report.readers.named import NAMES, Arrays, array_of, named
from calibkit.report.readers.tables import frame_arrays


def json_arrays(path: Path, group: tuple[str, ...]) -> Arrays:
    """An object of arrays, a list of rows, or a row a line."""
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
            raise ValueError(f"neither JSON nor a JSON object a line ({error.msg})") from error
    if isinstance(found, dict) and format_of(path) == ".json":
        return named(set(found), lambda name: array_of(found[name]), group)
    rows = found if isinstance(found, list) else [found]
    if not all(isinstance(row, dict) for row in rows) or not rows:
        raise ValueError("expected a list of objects, one for each sample")
    if "filtered_resps" in rows[0]:
        return harness_arrays(rows, group)
    kind = next((x for x in rows[0] if isinstance(rows[0][x], list)), None)
    if kind is not None:  # a list of scores in each row
        ours = next((x for x in ("logits", "probs") if kind.lower() in NAMES[x]), None)
        if ours is None:
            raise ValueError(f"{kind}: got a list in each row, expected it to be logits or probs")
        columns = set(rows[0])
        if not all(columns <= set(row) for row in rows):
            raise ValueError(f"expected {few_of(sorted(columns))} in every row")
        return named(columns, lambda name: array_of([row[name] for row in rows]), group)
    import pandas as pd  # late: slow to import

    return frame_arrays(pd.DataFrame.from_records(rows), group)
