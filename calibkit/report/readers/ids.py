"""Columns that name the samples, so that rows of several files can be matched."""

from collections.abc import Callable, Collection

import numpy as np

from calibkit.arrays import Array, to_numpy
from calibkit.report.names import few_of, text_of
from calibkit.report.readers import cells
from calibkit.report.readers.asked import Asked
from calibkit.report.readers.frames import DataFrame

INDEX = "index"  # what the index of a data frame is called, if it has no name


def of_frame(frame: DataFrame, free: Collection[str], asked: Asked) -> dict[str, Array]:
    """The columns that name the samples of a table.

    They are the column that the caller asked for; or, if he asked for any, the index and all
    columns among `free` that have a different text or whole number in each row.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row for each sample.
    free : collection of str
        Columns that nothing else is read from.
    asked : Asked
        `asked.ids` is the column, "" for any, or None for no names.

    Returns
    -------
    dict of str to array
        As from `together`; empty if no column names the samples.
    """
    if asked.ids is None:
        return {}
    columns = {str(frame.index.name or INDEX): frame.index.to_series()} if _named(frame) else {}
    columns |= {str(c): frame[c] for c in frame.columns}
    if asked.ids:
        _check(asked.ids, columns)
        return together({asked.ids: cells.texts(columns[asked.ids])})
    fit = {c: x for c, x in columns.items() if c in free or c not in frame.columns}
    fit = {c: x for c, x in fit.items() if x.dtype.kind not in "fbcmM" and not x.isna().any()}
    fit = {c: x for c, x in fit.items() if isinstance(x.iloc[0], str | int | np.integer)}
    texts = {c: cells.texts(x) for c, x in fit.items()}
    return together({c: x for c, x in texts.items() if len(set(x.tolist())) == len(x)})


def _named(frame: DataFrame) -> bool:
    """Whether the index of a data frame is more than the row numbers from 0."""
    index = frame.index
    return index.nlevels == 1 and type(index).__name__ != "RangeIndex"


def of_arrays(
    free: Collection[str], keys: Collection[str], get: Callable[[str], Array], asked: Asked, n: int
) -> dict[str, Array]:
    """The arrays that name the `n` samples: as `of_frame`, for a file of arrays.

    `get` returns the array of a key in `keys`. `free` has the keys that nothing else is read from.
    """
    if asked.ids is None:
        return {}
    if asked.ids:
        _check(asked.ids, keys)
    found = {}
    for name in [asked.ids] if asked.ids else sorted(free):
        array = to_numpy(get(name), name)
        whole = array.shape == (n,) and array.dtype.kind in "iuUS"
        if whole and (asked.ids or len(np.unique(array)) == n):
            found[name] = text_of(array)
        elif asked.ids:
            raise ValueError(
                f"id: got {name!r} of shape {array.shape} and type {array.dtype}, expected {n:,} "
                "names or whole numbers"
            )
    return together(found)


def together(found: dict[str, Array]) -> dict[str, Array]:
    """Put columns of names (n,) side by side: "ids" (n, c) and "id_names" (c,), or nothing."""
    if not found:
        return {}
    ids = np.stack([names.astype(object) for names in found.values()], axis=1)
    return {"ids": ids, "id_names": np.array(list(found))}


def _check(name: str, columns: Collection[str]) -> None:
    if name not in columns:
        raise ValueError(f"id: got {few_of([name])}, expected a column among {few_of(columns)}")
