"""Read the cells of a table's column as numbers, as labels, or as right and wrong."""

import numpy as np

from calibkit.arrays import Array
from calibkit.report.names import few_of
from calibkit.report.readers.frames import Series

MISSING = ("", "na", "n/a", "nan", "none", "null", "?", "-", ".", "<na>")  # in a column of numbers
RIGHT = ("true", "t", "1", "1.0", "yes", "y", "correct", "right", "pass", "passed", "c", "+")
WRONG = ("false", "f", "0", "0.0", "no", "n", "incorrect", "wrong", "fail", "failed", "i")
WRONG += ("not correct",)


def texts(column: Series) -> Array:
    """A column as text: 3.0 becomes "3", and an empty cell becomes ""."""
    gone = column.isna().to_numpy()
    if column.dtype.kind == "f":
        whole = column[~gone]
        if (whole == whole.round()).all() and (whole.abs() < 1e15).all():
            column = column.where(~gone, 0).astype(np.int64)
    return np.where(gone, "", column.astype(str).str.strip().to_numpy(dtype=str))


def labels(column: Series) -> Array:
    """A column as an array of numbers or of strings; `ValueError` if a cell is empty."""
    if column.isna().any():
        row = int(column.isna().argmax()) + 1
        raise ValueError(f"{column.name}: got an empty cell in row {row} below the header")
    if column.dtype.kind in "biuf":
        return column.to_numpy()
    return column.astype(str).to_numpy(dtype=str)


def is_numeric(column: Series) -> bool:
    """Whether a column holds numbers, judging text by its first 200 cells.

    Cells may be empty or percentages, and up to 5 % of the filled ones may be other text.
    """
    if column.dtype.kind in "fiu":
        return True
    if column.dtype.kind == "b" or not len(column):
        return False
    some = column.iloc[:200].dropna()
    try:
        found, gone = _parsed(some)
    except ValueError:  # percentages and fractions
        return True
    return bool((~gone).any()) and bool(found[~gone].isna().mean() <= 0.05)


def numbers(column: Series, missing: bool = False) -> Array:
    """A column as numbers; a text such as "85%" becomes 0.85.

    With `missing`, an empty cell becomes NaN. Otherwise a `ValueError` names its row and column.
    """
    if column.dtype.kind in "biuf":
        cells, gone = column, column.isna()
    else:
        cells, gone = _parsed(column)
        if (odd := column[~gone & cells.isna()]).size:
            row = column.index.get_loc(odd.index[0]) + 1
            raise ValueError(
                f"{column.name}: got {str(odd.iloc[0])[:40]!r}, expected numbers (row {row} below "
                "the header)"
            )
    if gone.any() and not missing:
        row = int(gone.to_numpy().argmax())
        what = str(column.iloc[row]).strip()
        what = f"{what!r}" if column.notna().iloc[row] and what else "an empty cell"
        raise ValueError(
            f"{column.name}: got {what} in row {row + 1} below the header, expected a number "
            f"({int(gone.sum()):,} of {len(gone):,} rows have none): fill the cells, or leave "
            "these rows out"
        )
    return cells.to_numpy(dtype=np.float64) if gone.any() else cells.to_numpy()


def _parsed(column: Series):
    """A column of text as numbers, with NaN for other text; and which cells are empty."""
    import pandas as pd

    text = column.astype(str).str.strip()
    gone = column.isna() | text.str.lower().isin(MISSING)
    percent = text.str.endswith("%")
    plain = text.where(~percent, text.str.removesuffix("%").str.strip())
    cells = pd.to_numeric(plain.where(~gone), errors="coerce")
    if percent.any():
        if not (percent | gone).all():
            both = column[percent].iloc[0], column[~percent & ~gone].iloc[0]
            raise ValueError(
                f"{column.name}: got {few_of(both)}, expected % in all or in none of the cells"
            )
        cells = cells / 100
    return cells, gone


def in_percent(column: Series) -> bool:
    """Whether a cell of the column is text that ends with a percent sign."""
    if column.dtype.kind in "biuf":
        return False
    return bool(column.dropna().astype(str).str.strip().str.endswith("%").any())


def right(column: Series) -> Array:
    """Read a column that says which answers are right.

    A column of numbers is returned as it is. Words such as "true" and "incorrect" become bool.
    """
    if column.dtype.kind in "biuf":
        return labels(column)
    words = column.astype(str).str.strip().str.lower().to_numpy(dtype=str)
    odd = ~np.isin(words, (*RIGHT, *WRONG))
    if odd.any():
        raise ValueError(
            f"{column.name}: got {few_of(np.unique(column.astype(str).to_numpy(dtype=str)[odd]))}, "
            "expected 0 and 1, or words such as true, false, correct, incorrect, yes, no"
        )
    return np.isin(words, RIGHT)


def is_right(column: Series) -> bool:
    """Whether a column has exactly two values, one that means right and one that means wrong."""
    seen = {x.lower() for x in np.unique(texts(column)).tolist()} - set(MISSING)
    return len(seen) == 2 and len(seen & {*RIGHT}) == 1 and seen <= {*RIGHT, *WRONG}
