"""Recognise a column of dates or times, and tell the user how to use it."""

import re

import numpy as np

from calibkit.report.names import Naming
from calibkit.report.readers.frames import Series

_WRITTEN = re.compile(
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}([T ]\d.*)?|\d{1,2}([-/.])\d{1,2}\3\d{4}([T ]\d.*)?|\d{4}-\d{2}"
)
_NAMED = re.compile(r"(^|_|\b)(date|time|day|month|timestamp|datetime|ts|at)(_|\b|$)", re.I)
_UNITS = {"s": (1e8, 4e9), "ms": (1e11, 4e12), "us": (1e14, 4e15), "ns": (1e17, 4e18)}


def said(column: Series) -> str:
    """A note on how to split by a column (pandas.Series) of dates; "" if it holds no dates."""
    dates = _parsed(column)
    if dates is None or dates.nunique() < 2:
        return ""
    first, last = dates.min(), dates.max()
    form = "%Y-%m-%d" if (last - first).days > 1 else "%Y-%m-%d %H:%M:%S"
    middle = dates.sort_values().iloc[len(dates) // 2]
    found = f"Column {column.name!r} holds dates"
    way = (
        ". Later rows may differ from earlier ones, and folds mix both. To fit maps and choose "
        "thresholds on earlier rows and judge them on later ones, add a column split: val before "
        "{}, for instance, and test from then on. If the column is called date, calibkit compare "
        "FILE shows whether calibration changes."
    )
    span = f", {first.strftime(form)} to {last.strftime(form)}"
    note = Naming(found + span, way.format(middle.strftime(form)))
    note.without = found + way.format("some date")  # for --no-rows: a date belongs to single rows
    return note


def _parsed(column: Series):
    """The dates in a column, without its empty cells; None if the column does not hold dates."""
    import pandas as pd

    cells = column.dropna()
    if column.dtype.kind == "M" or isinstance(column.dtype, pd.DatetimeTZDtype):
        return cells if len(cells) else None
    if column.dtype.kind in "iuf":
        return _of_numbers(cells)
    few = cells.iloc[:: max(len(cells) // 50, 1)].astype(str).str.strip()
    if not len(few) or not all(map(_WRITTEN.fullmatch, few)):
        return None
    day = bool(re.match(r"\d{1,2}\.", few.iloc[0]))
    try:
        options = {"errors": "coerce", "utc": True, "format": "mixed", "dayfirst": day}
        dates = pd.to_datetime(cells.astype(str), **options)
    except (ValueError, TypeError):
        return None
    return dates.dropna() if dates.notna().mean() > 0.9 else None


def _of_numbers(cells):
    """Numbers as dates, if the column is named after a time; otherwise None.

    The numbers are seconds since 1970 (or ms, µs, ns), or days such as 20240131.
    """
    import pandas as pd

    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", str(cells.name))
    if not _NAMED.search(name) or not len(cells):
        return None
    low, high = float(cells.min()), float(cells.max())
    if 19_000_101 <= low and high <= 21_001_231 and (cells == np.floor(cells)).all():
        dates = pd.to_datetime(cells.astype(np.int64).astype(str), format="%Y%m%d", errors="coerce")
        return dates if dates.notna().all() else None
    unit = next((unit for unit, (a, b) in _UNITS.items() if a <= low and high <= b), None)
    return None if unit is None else pd.to_datetime(cells, unit=unit)
