"""Labels that hold at once (multi-label): one of them, as two classes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from calibkit.arrays import Array, ArrayLike, to_numpy
from calibkit.report.names import few_of, text_of
from calibkit.report.readers import cells, columns, records
from calibkit.report.readers.asked import line
from calibkit.report.readers.roles import Roles

if TYPE_CHECKING:
    import pandas as pd


def one_of_arrays(arrays: Mapping[str, ArrayLike], wanted: str) -> dict[str, ArrayLike]:
    """Scores and labels (n, k) as those of one label, (n,), and its name."""
    found = dict(arrays)
    kinds = [x for x in ("logits", "probs") if x in found]
    labels = to_numpy(found.get("labels", ()), "labels")
    shapes = [to_numpy(found[x], x).shape for x in kinds[:1]]
    if labels.ndim == 1 and shapes and (len(shapes[0]) == 1 or shapes[0][1] == 1):
        return found  # of a table, one already
    if not kinds or labels.ndim != 2 or shapes[0] != labels.shape:
        raise ValueError(
            f"one_label: got labels of shape {labels.shape}, expected a 0 or 1 for each of the "
            f"labels that have scores ({shapes[0] if shapes else 'none'})"
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
    return np.array([f"not {name}", name])


def _number(wanted: str, names: list[str]) -> int:
    if wanted.isdecimal() and int(wanted) < len(names):
        return int(wanted)
    raise ValueError(f"one_label: got {few_of([wanted])}, expected one of {few_of(names)}")


def _known(labels: Array) -> Array:
    """0 and 1 as they are, -1 for what is below or no number."""
    values = labels.astype(np.float64)
    return np.where(np.nan_to_num(values, nan=-1) < 0, -1, np.nan_to_num(values)).astype(np.int64)


# --- tables ---


def one_of_table(
    frame: "pd.DataFrame", roles: Roles, wanted: str
) -> tuple[dict[str, Array], set[str]] | None:
    """Labels and scores of one label in a table; None where both are lists of numbers.

    The labels are lists of names in each row, or a column of 0 and 1 with its name. The scores are
    the one column of numbers that has this name and something before or after it.
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


def _binary(frame: "pd.DataFrame", name: str) -> str | None:
    """The column with this name, or this after a dot, if it is of 0 and 1."""
    named = [c for c in frame.columns if c == name or c.endswith(f".{name}")]
    fit = [c for c in named if set(cells.texts(frame[c].drop_duplicates())) <= {"0", "1"}]
    return fit[0] if len(fit) == 1 else None


def hint(frame: "pd.DataFrame") -> str:
    """What to say of a table that has a column of 0 and 1 for each of several scores; or ""."""
    binary = {c.rpartition(".")[2]: c for c in frame.columns if _binary(frame, c) == c}
    others = [c for c in frame.columns if c not in binary.values() and cells.is_numeric(frame[c])]
    known = [name for name in binary if columns.families(others, [name])]
    if len(known) < 2:
        return ""
    return f"labels that hold at once, {few_of(known)}? --one-label {known[0]} takes one of them"
