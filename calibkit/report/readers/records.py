"""Read cells that hold several values (dicts, lists, vectors), as in JSON and Parquet."""

import re
from typing import Any

import numpy as np

from calibkit.arrays import Array
from calibkit.report.names import few_of
from calibkit.report.readers.asked import Asked, line
from calibkit.report.readers.frames import DataFrame, Series
from calibkit.report.readers.vocabulary import NAMES

DEPTH = 5  # levels of nested dicts that become columns
NONE = -1e4  # the logit of a choice in a row that has fewer choices


def flattened(frame: DataFrame) -> DataFrame:
    """Turn columns of dicts into columns: ``{"grade": {"correct": 1}}`` gives ``grade.correct``."""
    import pandas as pd

    for _ in range(DEPTH):
        if frame.empty or frame.columns.has_duplicates:
            return frame
        nested = [c for c, x in frame.items() if isinstance(_first(x), dict) or _scored(x)]
        if not nested:
            break
        parts = (_unpacked(frame[c]) if c in nested else frame[[c]] for c in frame.columns)
        frame = pd.concat(parts, axis=1)
    return frame


def _unpacked(column: Series) -> DataFrame:
    """The columns that a column of dicts, of lists {label, score} or of Spark's vectors becomes."""
    import pandas as pd

    inner = pd.DataFrame.from_records(list(map(_as_dict, column)), index=column.index)
    if "" in inner:  # a vector of Spark
        return inner[[""]].set_axis([column.name], axis=1)
    if _scored(column):  # rows list their classes in different orders
        inner = inner[sorted(inner.columns, key=_natural)]
    return inner.add_prefix(f"{column.name}.")


def _first(column: Series):
    known = column.dropna() if column.dtype.kind == "O" else ()
    return known.iloc[0] if len(known) else None


def is_row(cell: Any) -> bool:
    """Whether a cell holds a list."""
    return isinstance(cell, list | tuple | np.ndarray)


def is_list(column: Series) -> bool:
    """Whether a column holds lists, judging by its first filled cell."""
    return is_row(_first(column))


def of_names(column: Series) -> bool:
    """Whether a column holds lists of names, judging by its first list that is not empty."""
    filled = next((x for x in column if is_row(x) and len(x)), ())
    return len(filled) > 0 and all(isinstance(x, str) for x in filled)


def _scored(column: Series) -> bool:
    """Whether a column holds lists of dicts {label, score}, judging by its first filled cell."""
    first = next(iter(_first(column)), None) if is_list(column) else None
    return isinstance(first, dict) and {"label", "score"} <= set(first)


def _natural(name: str) -> list:
    """A key for sorting in which LABEL_2 is before LABEL_10."""
    return [(int(x), "") if x.isdecimal() else (-1, x) for x in re.split(r"(\d+)", name)]


def _as_dict(cell) -> dict:
    if isinstance(cell, dict):
        if set(cell) == {"type", "size", "indices", "values"}:  # a vector of Spark
            return {"": _vector(cell)}
        return {str(key): value for key, value in cell.items()}
    found = [x for x in cell if isinstance(x, dict)] if is_row(cell) else []
    return {str(x.get("label")): x.get("score") for x in found}


def _vector(cell: dict) -> list:
    values = list(cell["values"])
    if cell["indices"] is None or cell["size"] is None:
        return values
    full = [0.0] * min(int(cell["size"]), 10**6)
    for place, value in zip(cell["indices"], values, strict=True):
        full[int(place)] = value
    return full


# --- a list of scores in each row ---


def scores_in(frame: DataFrame, asked: Asked) -> tuple[str, str] | None:
    """The kind of scores ("logits" or "probs") and the column of lists that holds them.

    None if no column of lists has a name of scores.
    """
    lists = [c for c in frame.columns if is_list(frame[c])]
    for kind in ("logits", "probs"):
        if said := asked.of(kind, list(frame.columns)):
            return (kind, said[0]) if said[0] in lists else None
    for kind in ("logits", "probs"):
        for name in NAMES[kind]:
            if found := next((c for c in lists if c.lower() == name), None):
                return kind, found
    return None


def unknown_list(frame: DataFrame) -> str:
    """The error message for a table with lists whose names do not say that they are scores."""
    name = next(c for c in frame.columns if is_list(frame[c]))
    return (
        f"{name}: got a list in each row, expected it to be logits or probs: say which, as in "
        f"{line(probs=name)}"
    )


def matrix(column: Series, kind: str, notes: list[str]) -> tuple[str, Array, Array]:
    """Read a column of lists of scores as a matrix.

    Shorter lists are padded so that the missing choices have a probability of 0, and a note says
    so. Probabilities become logits for that if none of them is 0.

    Parameters
    ----------
    column : pandas.Series
        A list of numbers in each cell.
    kind : {"logits", "probs"}
        What the numbers are.
    notes : list of str
        Sentences for the user are added here.

    Returns
    -------
    str, array (n, k), array (n,) of int
        The kind of the result, the scores, and the length of each list.
    """
    try:
        rows = [np.asarray(x if is_row(x) else [], dtype=np.float64).ravel() for x in column]
    except (TypeError, ValueError) as error:
        what = few_of(column.iloc[:1])
        raise ValueError(f"{column.name}: got {what}, expected lists of numbers") from error
    sizes = np.array([len(row) for row in rows])
    if (sizes < 1).any():
        at = int((sizes < 1).argmax()) + 1
        raise ValueError(f"{column.name}: got no scores in row {at}, expected a list of them")
    if sizes.min() == sizes.max():
        return kind, np.stack(rows), sizes
    notes.append(
        f"Rows have {sizes.min()} to {sizes.max()} choices. The classes are positions of choices."
    )
    padded = np.full((len(rows), sizes.max()), NONE if kind == "logits" else 0.0)
    for out, row in zip(padded, rows, strict=True):
        out[: len(row)] = row
    if kind == "probs" and all((row > 0).all() for row in rows):
        own = np.arange(sizes.max()) < sizes[:, None]
        logs = np.log(np.where(own, padded, 1.0))
        return "logits", np.where(own, logs - logs[:, :1], NONE), sizes
    return kind, padded, sizes


def whole(column: Series) -> Array:
    """Read lists of equal length as an array (n, k), such as a 0 or 1 for each of k labels."""
    rows = [np.asarray(x if is_row(x) else [], dtype=np.float64).ravel() for x in column]
    if len({len(row) for row in rows}) > 1:
        sizes = [len(row) for row in rows]
        raise ValueError(
            f"{column.name}: got lists of {min(sizes)} to {max(sizes)} numbers, expected a number "
            "for each label in each row"
        )
    return np.stack(rows)


def check_choices(labels: Array, sizes: Array, name: str) -> None:
    """Raise `ValueError` if a label (n,) is not below the number of scores in its row, `sizes`."""
    if labels.dtype.kind not in "iu" or (labels < sizes).all():
        return
    row = int((labels >= sizes).argmax())
    raise ValueError(
        f"{name}: got {labels[row]} in row {row + 1}, which has {sizes[row]} scores, expected one "
        f"of 0 to {sizes[row] - 1}"
    )
