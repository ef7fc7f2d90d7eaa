"""Read a table of answers, each with a confidence and whether it is right."""

import numpy as np

from calibkit.arrays import Array
from calibkit.report.names import Naming, few_of, first_three
from calibkit.report.readers import cells, scales
from calibkit.report.readers.asked import line
from calibkit.report.readers.frames import DataFrame, ReadRows, Series
from calibkit.report.readers.roles import Roles


def pair_arrays(frame: DataFrame, roles: Roles, notes: list[str]) -> ReadRows:
    """Read the confidence and the correctness of every answer in a table.

    A row without a confidence is left out and not counted as an error: the model may have given no
    confidence, or nobody has extracted it.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row for each answer.
    roles : Roles
        Which column has which role.
    notes : list of str
        Sentences for the user are added here.

    Returns
    -------
    dict of str to array, set of str, array (n,) of bool
        "confidence" (n,) and "correct" (n,); the columns that they come from; the rows that have
        both.

    Raises
    ------
    ValueError
        No row has both, or the confidences cannot be probabilities.
    """
    source = roles.confidence or roles.logprob
    if roles.confidence:
        values = _confidences(frame[source], notes)
    else:
        values = _from_logs(frame[source], notes)
    used = {source, roles.correct} if roles.correct else {source, roles.answer, roles.label}
    keep = ~np.isnan(values)
    _leave_out(~keep, f"no {source}", notes)
    if roles.correct:
        graded = ~frame[roles.correct].isna().to_numpy()
        _leave_out(keep & ~graded, f"a {source} but no {roles.correct!r}", notes)
        keep &= graded
    if not keep.any():
        raise ValueError(f"{source}: got no row with a confidence and whether it is right")
    right = cells.right(frame[roles.correct][keep]) if roles.correct else _same(frame, roles, notes)
    full = np.zeros(len(keep), dtype=right.dtype)
    full[keep] = right if roles.correct else right[keep]
    return {"confidence": np.where(keep, values, 0.0), "correct": full}, used, keep


def _leave_out(rows: Array, why: str, notes: list[str]) -> None:
    if not rows.any():
        return
    places = np.flatnonzero(rows) + 1
    said = f"{len(places):,} of {len(rows):,} rows have {why} and are left out, not counted as "
    notes.append(Naming(said + "errors", f" (rows {first_three(places)} below the header)", "."))


def _confidences(column: Series, notes: list[str]) -> Array:
    values = cells.numbers(column, missing=True).astype(np.float64)
    known = ~np.isnan(values)
    if cells.in_percent(column):
        notes.append(f"The {column.name} is written in percent, as 85%.")
    if known.any():
        values[known] = scales.unit(values[known], column.name, notes)
    return values


def _from_logs(column: Series, notes: list[str]) -> Array:
    """Confidences (n,) from a column of their logarithms; NaN where a cell is empty."""
    logs = cells.numbers(column, missing=True).astype(np.float64)
    known = logs[~np.isnan(logs)]
    if known.size and known.max() > 1e-6:
        raise ValueError(f"{column.name}: got {known.max():g}, expected logarithms, 0 at most")
    if len(known) >= 20 and np.median(known) < -7:
        raise ValueError(
            f"{column.name}: got a median of {np.median(known):.4g}, a confidence of "
            f"{np.exp(np.median(known)):.2g}: scores of whole texts that are not normalised? "
            "Divide each by its number of tokens, or normalise over the possible answers"
        )
    notes.append(f"The confidence is exp({column.name}).")
    return np.exp(logs)


def _same(frame: DataFrame, roles: Roles, notes: list[str]) -> Array:
    """Whether answer and label are the same in each row, (n,) of bool."""
    both = [frame[roles.answer], frame[roles.label]]
    answer, label = (cells.texts(column) for column in both)
    if not np.isin(answer, label).any():
        wanted = line(answer="COLUMN", label="COLUMN")
        raise ValueError(
            f"{roles.answer}: got {few_of(np.unique(answer))}, none of which is a value of "
            f"{roles.label!r} ({few_of(np.unique(label))}): say which columns are answer and "
            f"label, by {wanted}"
        )
    notes.append(f"An answer is right if {roles.answer!r} and {roles.label!r} are the same.")
    if all(column.dtype.kind in "biuf" for column in both):
        return (both[0] == both[1]).to_numpy(dtype=bool)
    return answer == label
