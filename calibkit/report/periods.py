"""One table with a column of dates, cut into periods."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibkit.report import predictions, readers
from calibkit.report.estimates import LEAST
from calibkit.report.predictions import Predictions
from calibkit.report.readers import tables

PARTS = 24  # periods of a column of dates, at most
LARGE = 200  # samples of a period
_PERIODS = ("Y", "Q", "M", "W", "D")  # the finest that leaves at least LARGE samples a period


def by_date(path: str | Path, **reading: Any) -> list[Predictions]:
    """A table with a column ``date``, cut into periods.

    Calendar years, quarters, months, weeks or days: the finest that leaves enough samples in
    each period for a comparison. A validation set (``split``) is left out. `reading` is passed to
    `predictions.read`.
    """
    path = Path(path)
    columns = tables.table_of(path)[0].columns if readers.is_table(path) else ()
    if "date" not in columns:
        raise ValueError(f"{path}: got one file without a column 'date', expected several")
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
    """Periods of `dates`: the finest of `_PERIODS` with enough samples, at most `PARTS`."""
    for length in reversed(_PERIODS):
        period = dates.dt.to_period(length)
        counts = period.value_counts()
        # The first and the last may be cut off.
        if 2 <= len(counts) <= PARTS and counts.median() >= LARGE and counts.min() >= LEAST:
            return period
    raise ValueError(
        f"date: got {len(dates)} samples from {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}, "
        f"expected at least two periods of some {LARGE} samples"
    )
