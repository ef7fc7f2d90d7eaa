"""Bring the rows and the classes of several models into the same order, by their names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from calibkit.arrays import Array
from calibkit.report.estimates import LEAST
from calibkit.report.model import Predictions, check_same
from calibkit.report.names import Naming, few_of

SHARE = 0.5  # a column must match this share of the smallest table's rows to be used unasked


class Matched(NamedTuple):
    """Models with the same samples in the same order.

    Attributes
    ----------
    models : list of Predictions
    by : str or None
        The column by which rows were matched; None if their order was trusted.
    notes : list of str
        Sentences for the user.
    """

    models: list[Predictions]
    by: str | None
    notes: list[str]


def matched(models: Sequence[Predictions], wanted: str | None = None) -> Matched:
    """Bring rows and classes of all models into the order of the first model.

    Rows are matched by a column that names them in all tables. Rows that are not in all tables are
    left out. Without such a column, the order of the rows is trusted if the labels are the same.

    Parameters
    ----------
    models : sequence of Predictions
        Each was read with the option ``ids``, so that the columns of names were kept.
    wanted : str, optional
        The column of names. By default the best column is used: its values differ in all rows of a
        table, the matched rows have equal labels, and it matches the most rows.

    Returns
    -------
    Matched

    Raises
    ------
    ValueError
        A name stands in two rows, the labels of matched rows differ, or too few rows match.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> labels, names = np.arange(20) % 2, np.array([[f"s{i}"] for i in range(20)], dtype=object)
    >>> one, two = (
    ...     from_arrays({"logits": y * 1.0, "labels": y, "ids": x, "id_names": ["sample"]})
    ...     for x, y in ((names, labels), (names[::-1], labels[::-1]))
    ... )
    >>> found = matched([one, two])
    >>> found.by, found.models[1].labels[:4].tolist()
    ('sample', [0, 1, 0, 1])
    """
    first, *others = models
    models = [first, *(_with_classes_of(first, other) for other in others)]
    tried = [_names(models, name, wanted is not None) for name in _shared(models, wanted)]
    found = [x for x in tried if x is not None]
    if wanted is None:
        smallest = min(len(m.labels) for m in models)
        found = [x for x in found if x.size >= max(SHARE * smallest, 1)]
    if not found:
        return _in_order(models, *(x.name for x in tried[:1] if x is not None))
    best = max(found, key=lambda x: (not x.contradicting, not x.counting, x.size))
    if best.counting and all(len(m.labels) == best.size for m in models):
        return _in_order(models, best.name, counting=True)
    best.check(models)
    taken = [m.take(rows) for m, rows in zip(models, best.rows, strict=True)]
    return Matched(taken, best.name, [best.note(models)])


def beside(data: Predictions, against: Predictions) -> tuple[Predictions, Predictions]:
    """Bring the rows of a second model, `against`, into the order of the first one, `data`.

    A note on how the rows were matched is added to `data`.

    Raises
    ------
    ValueError
        The second model lacks some rows of the first.
    """
    found = matched([data, replace(against, name="against")])
    if len(found.models[0].labels) < len(data.labels):
        raise ValueError(
            f"against: got {len(found.models[0].labels):,} of the {len(data.labels):,} rows, "
            f"matched by {found.by!r}, expected all; calibkit compare takes those that both have"
        )
    other = replace(found.models[1], name=against.name)
    return replace(data, notes=(*data.notes, *found.notes)), other


@dataclass(frozen=True, eq=False)
class _Names:
    """A column that names the rows of all models.

    Attributes
    ----------
    name : str
        The column.
    rows : list of arrays (m,) of int
        For each model, the rows that all models have, in the order of the first model.
    contradicting : int
        How many of these rows have different labels in different models.
    counting : bool
        Whether the names only count the rows, which says no more than their order.
    """

    name: str
    rows: list[Array]
    contradicting: int
    counting: bool

    @property
    def size(self) -> int:
        """How many rows all models have."""
        return len(self.rows[0])

    def check(self, models: Sequence[Predictions]) -> None:
        """Raise `ValueError` if too few rows match or if labels of matched rows differ."""
        if self.size < min(LEAST, *(len(m.labels) for m in models)):
            raise ValueError(
                f"{self.name}: got {self.size} names that are in all tables, expected at least "
                f"{LEAST}: give files of the same samples, or say which column names them (--id)"
            )
        if self.contradicting:
            raise ValueError(
                f"{models[-1].name}: got labels that differ in {self.contradicting:,} of "
                f"{self.size:,} rows matched by {self.name!r}, expected the same samples: name "
                f"them by another column (--id), or by none (--column ignore={self.name})"
            )

    def note(self, models: Sequence[Predictions]) -> str:
        """A sentence on how the rows were matched and which ones are left out."""
        same = all((rows == self.rows[0]).all() for rows in self.rows)
        order = "in the same order in all tables" if same else "whose order differs"
        counts, names = [], []
        for model, rows in zip(models, self.rows, strict=True):
            rest = np.setdiff1d(np.arange(len(model.labels)), rows)
            if len(rest):
                counts.append(f"{len(rest):,} of the {len(model.labels):,} of {model.name}")
                names.append(f"of {model.name} {few_of(_column(model, self.name)[rest])}")
        said = f"{self.size:,} rows were matched by {self.name!r}, {order}."
        if not counts:
            return said
        said += f" Rows that are not in all tables are left out: {', '.join(counts)}"
        return Naming(said, f": {'; '.join(names)}", ".")


def _column(model: Predictions, name: str) -> Array:
    """The names (n,) in a column."""
    return model.ids[:, model.id_names.index(name)]


def _shared(models: Sequence[Predictions], wanted: str | None) -> list[str]:
    """The columns of names that all models have; only `wanted`, if the caller named one."""
    names = [wanted] if wanted is not None else models[0].id_names
    return [name for name in names if all(name in m.id_names for m in models)]


def _names(models: Sequence[Predictions], name: str, asked: bool) -> _Names | None:
    """Match the rows of all models by one column.

    If a name stands in two rows, the result is None, or a `ValueError` if the caller asked for this
    column.
    """
    columns = [_column(m, name) for m in models]
    places = [{x: i for i, x in enumerate(column.tolist())} for column in columns]
    for model, column, place in zip(models, columns, places, strict=True):
        if len(place) < len(column):
            twice = next(x for i, x in enumerate(column.tolist()) if place[x] != i)
            if not asked:
                return None
            raise ValueError(
                f"{model.name}: id: got {twice!r} in more than one row of {name!r}, expected a "
                "name for each row"
            )
    shared = reduce(lambda a, b: a & b.keys(), places[1:], places[0].keys())
    order = [x for x in columns[0].tolist() if x in shared]
    rows = [np.array([place[x] for x in order], dtype=np.intp) for place in places]
    differ = np.zeros(len(order), bool)
    if all(m.kind.known for m in models):  # labels are compared, not whether answers are right
        labels = [m.labels[i] for m, i in zip(models, rows, strict=True)]
        differ = np.any([own != labels[0] for own in labels], axis=0)
    counting = all(_counts(column) for column in columns)
    return _Names(name, rows, int(differ.sum()), counting)


def _counts(column: Array) -> bool:
    """Whether the names are 0, 1, 2, … or 1, 2, 3, …"""
    n = len(column)
    return any(column.tolist() == list(map(str, range(i, i + n))) for i in (0, 1))


def _in_order(models: Sequence[Predictions], name: str = "", counting: bool = False) -> Matched:
    """Trust the order of the rows, if sizes and labels are the same; `ValueError` otherwise.

    The note says why the column `name` was not used: it only counts the rows, or its values differ.
    """
    first, *others = models
    for other in others:
        check_same(first, other, other.name)
    why = "no column names the rows in all of them"
    if name:
        why = f"{name!r} {'only counts the rows' if counting else 'has other values in each'}"
    note = f"Rows were paired by their order in the tables: {why} (--id COLUMN matches by names)."
    return Matched(list(models), None, [note])


# --- classes ---


def _with_classes_of(first: Predictions, other: Predictions) -> Predictions:
    """Bring the classes of `other` into the order of `first`, if both have the same class names."""
    known = first.kind.known and other.kind.known
    if not known or first.class_names == other.class_names:
        return other
    if sorted(first.class_names) != sorted(other.class_names):
        return other
    order = [other.class_names.index(name) for name in first.class_names]
    place = np.argsort(order)
    own = other.own
    if own is not None:
        own = own[:, order] if own.ndim == 2 else 1 - own  # the other of two classes
    return replace(
        other,
        logits=np.ascontiguousarray(other.logits[:, order]),
        labels=place[other.labels],
        own=own,
        class_names=first.class_names,
        positive=None if other.positive is None else int(place[other.positive]),
        **dict.fromkeys(("val_logits", "val_labels", "val_own", "val_weights")),
    )
