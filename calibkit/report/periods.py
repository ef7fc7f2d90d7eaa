"""Cut one table with a column of dates into periods."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibkit.report import predictions, readers
from calibkit.report.estimates import LEAST
from calibkit.report.predictions import Predictions
from calibkit.report.readers import tables

PARTS = 24  # periods at most
LARGE = 200  # samples in a period (median), at least
_PERIODS = ("Y", "Q", "M", "W", "D")  # years to days: the finest with enough samples is taken


def by_date(path: str | Path, **reading: Any) -> list[Predictions]:
    """Cut a table with a column ``date`` into calendar years, quarters, months, weeks or days.

    The periods are the shortest that leave enough samples in each for a comparison. A validation
    set (column ``split``) is left out.

    Parameters
    ----------
    path : path
        The table.
    **reading
        Options of `predictions.read`.

    Returns
    -------
    list of Predictions
        One for each period, the oldest first.

    Raises
    ------
    ValueError
        There is no column ``date``, it holds no dates, or there are too few samples.
    """
    path = Path(path)
    columns = tables.table_of(path)[0].columns if readers.is_table(path) else ()
    if "date" not in columns:
        raise ValueError(
            f"{path}: got one file without a column 'date', expected several files, or this column"
        )
    others = [name for name in ("group", "groups") if name in columns][:1]
    data = predictions.read(path, group=["date", *others], **reading)
    dates, groups = data.groups[:, 0], data.groups[:, 1:]
    try:
        dates = pd.Series(pd.to_datetime(dates, utc=True, format="ISO8601")).dt.tz_localize(None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: date: {' '.join(str(error).split())[:150]}") from error
    period = _period(dates)
    data = data.take(notes=(), groups=groups if others else None, val_logits=None, val_labels=None)
    return [
        data.take(np.flatnonzero(period == name), name=str(name))
        for name in sorted(period.unique())
    ]


def _period(dates: pd.Series) -> pd.Series:
    """The period of each date (n,): the shortest of `_PERIODS` with enough samples in each."""
    for length in reversed(_PERIODS):
        period = dates.dt.to_period(length)
        counts = period.value_counts()
        # The first and the last period may be incomplete, so the median decides.
        if 2 <= len(counts) <= PARTS and counts.median() >= LARGE and counts.min() >= LEAST:
            return period
    raise ValueError(
        f"date: got {len(dates)} samples from {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}, "
        f"expected at least two periods of some {LARGE} samples"
    )
