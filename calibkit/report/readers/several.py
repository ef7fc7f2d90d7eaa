"""Take one label of multi-label data, and read it as two classes: "not NAME" and "NAME"."""

from collections.abc import Mapping

import numpy as np

from calibkit.arrays import Array, ArrayLike, to_numpy
from calibkit.report.names import few_of, text_of
from calibkit.report.readers import cells, columns, records
from calibkit.report.readers.asked import line
from calibkit.report.readers.frames import DataFrame, Read
from calibkit.report.readers.roles import Roles


def one_of_arrays(arrays: Mapping[str, ArrayLike], wanted: str) -> dict[str, ArrayLike]:
    """Take the column of one label from multi-label arrays.

    Parameters
    ----------
    arrays : mapping of str to array
        "logits" or "probs" (n, k) and "labels" (n, k) of 0 and 1.
    wanted : str
        The label's name in "class_names", or its number from 0.

    Returns
    -------
    dict of str to array
        The same with scores and labels (n,), and "class_names" with two names.

    Raises
    ------
    ValueError
        The shapes of labels and scores differ, or there is no such label.
    """
    found = dict(arrays)
    kinds = [x for x in ("logits", "probs") if x in found]
    labels = to_numpy(found.get("labels", ()), "labels")
    shapes = [to_numpy(found[x], x).shape for x in kinds[:1]]
    if labels.ndim == 1 and shapes and (len(shapes[0]) == 1 or shapes[0][1] == 1):
        return found  # `one_of_table` has taken the label
    if not kinds or labels.ndim != 2 or shapes[0] != labels.shape:
        raise ValueError(
            f"one_label: got labels of shape {labels.shape}, expected a 0 or 1 for each score "
            f"(scores: {shapes[0] if shapes else 'none'})"
        )
    given = found.pop("class_names", None)
    names = list(map(str, range(labels.shape[1])))
    names = names if given is None else text_of(np.asarray(given)).tolist()
    place = names.index(wanted) if wanted in names else _number(wanted, names)
    for prefix in ("", "val_"):
        for key in (prefix + "labels", *(prefix + x for x in kinds)):
            if key in found:
                found[key] = to_numpy(found[key], key)[:, place]
        if prefix + "labels" in found:
            found[prefix + "labels"] = _known(found[prefix + "labels"])
    return found | {"class_names": pair_of(names[place])}


def pair_of(name: str) -> Array:
    """The names of the two classes that one label makes."""
    return np.array([f"not {name}", name])


def _number(wanted: str, names: list[str]) -> int:
    if wanted.isdecimal() and int(wanted) < len(names):
        return int(wanted)
    raise ValueError(f"one_label: got {few_of([wanted])}, expected one of {few_of(names)}")


def _known(labels: Array) -> Array:
    """Labels (n,) as whole numbers; -1, which means unknown, for NaN and numbers below 0."""
    values = labels.astype(np.float64)
    return np.where(np.nan_to_num(values, nan=-1) < 0, -1, np.nan_to_num(values)).astype(np.int64)


# --- tables ---


def one_of_table(frame: DataFrame, roles: Roles, wanted: str) -> Read | None:
    """Read the label `wanted` and its scores from a multi-label table.

    The labels are lists of names in each row, or a column of 0 and 1 that is called `wanted`. The
    scores are the one column of numbers whose name has `wanted` and a prefix or suffix.

    Returns
    -------
    dict of str to array, set of str, or None
        Scores and labels (n,) with the names of the two classes; the columns that they come from.
        None if the labels are lists of numbers, which `one_of_arrays` takes apart.

    Raises
    ------
    ValueError
        No row and no column has the label, or not exactly one column has its scores.
    """
    if roles.label is not None and records.is_list(frame[roles.label]):
        if not records.of_names(frame[roles.label]):
            return None
        known = frame[roles.label]
        labels = np.array([wanted in [str(x) for x in cell] for cell in known], dtype=np.int64)
        source = roles.label
        if not labels.any():
            raise ValueError(f"one_label: got {few_of([wanted])}, which no row of {source!r} has")
    elif (source := _binary(frame, wanted)) is None:
        raise ValueError(
            f"one_label: got {few_of([wanted])}, expected lists of names in each row, or a column "
            "of 0 and 1 with that name"
        )
    else:
        labels = cells.labels(frame[source])
    others = [c for c in frame.columns if c != source and cells.is_numeric(frame[c])]
    families = [x for x in columns.families(others, [wanted]) if x.prefix or x.suffix]
    found = {c for x in families for c, n in zip(x.columns, x.names, strict=True) if n == wanted}
    if len(found) != 1:
        raise ValueError(
            f"one_label: got {few_of(sorted(found))} with {wanted!r} in the name, expected one "
            f"column of scores: say which, as in {line(label=source, probs='COLUMN')}"
        )
    (column,) = found
    scores = cells.numbers(frame[column])
    said = columns.kind_of(column.removesuffix(wanted))
    kind = said or ("probs" if scores.min() >= 0 and scores.max() <= 1 else "logits")
    return {kind: scores, "labels": labels, "class_names": pair_of(wanted)}, {source, column}


def _binary(frame: DataFrame, name: str) -> str | None:
    """The one column of 0 and 1 that is called `name`, or ends in a dot and `name`; or None."""
    named = [c for c in frame.columns if c == name or c.endswith(f".{name}")]
    fit = [c for c in named if set(cells.texts(frame[c].drop_duplicates())) <= {"0", "1"}]
    return fit[0] if len(fit) == 1 else None


def hint(frame: DataFrame) -> str:
    """The end of an error message for a table that looks multi-label; "" for other tables."""
    binary = {c.rpartition(".")[2]: c for c in frame.columns if _binary(frame, c) == c}
    others = [c for c in frame.columns if c not in binary.values() and cells.is_numeric(frame[c])]
    known = [name for name in binary if columns.families(others, [name])]
    if len(known) < 2:
        return ""
    return f"several labels in a row, {few_of(known)}? --one-label {known[0]} takes one of them"
