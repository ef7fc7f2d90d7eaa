"""The options that say what a file's columns mean: ``--column label=truth``, ``--group site``."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeAlias

from calibkit.report.names import Names, few_of
from calibkit.report.readers.vocabulary import ROLES

# ``["label=truth", …]``, or a mapping ``{"label": "truth"}``.
Columns: TypeAlias = Mapping[str, str | Sequence[str]] | Sequence[str]


@dataclass(frozen=True)
class Asked:
    """What the caller says about the columns of a file.

    Attributes
    ----------
    group : tuple of str
        Columns whose values are groups.
    columns : mapping of str to tuple of str
        For each role, such as "labels" or "probs", the columns (or patterns) that have it.
    minus_one : str or None
        "class" if the label -1 is a class, "none" if it means that the label is unknown.
    one_label : str or None
        In multi-label data, the one label to report on.
    ids : str or None
        The column that names the samples. "": look for such columns. None: read no names.
    cluster : str or None
        The column whose equal values mark rows that depend on each other.
    """

    group: tuple[str, ...] = ()
    columns: Mapping[str, Names] = field(default_factory=dict)
    minus_one: str | None = None
    one_label: str | None = None
    ids: str | None = None
    cluster: str | None = None

    def of(self, role: str, names: Collection[str]) -> list[str] | None:
        """Those of `names` that the caller gave the role `role`; None if the caller named none.

        A text that equals a column's name means that column, even if it contains ``*``. Any other
        text is a pattern, such as ``score_*``.
        """
        if role not in self.columns:
            return None
        found = []
        for wanted in self.columns[role]:
            some = [wanted] if wanted in names else [x for x in names if fnmatchcase(x, wanted)]
            if not some and role != "ignore":
                shown = few_of(sorted(names) if isinstance(names, set) else names)
                raise ValueError(f"column: got {few_of([wanted])}, expected columns among {shown}")
            found += [x for x in some if x not in found]
        return found

    def one(self, role: str, names: Collection[str]) -> str | None:
        """The one column that the caller gave the role `role`; `ValueError` for several."""
        found = self.of(role, names)
        if found and len(found) > 1:
            raise ValueError(f"column: got {few_of(found)} as {role}, expected one column")
        return found[0] if found else None


def parse(said: Columns) -> dict[str, Names]:
    """Turn ``["label=truth", …]``, or a mapping ``{"label": "truth"}``, into columns by role.

    >>> parse(["label=truth", "probs=score_*"])
    {'labels': ('truth',), 'probs': ('score_*',)}
    """
    if isinstance(said, Mapping):
        pairs = [(k, x) for k, v in said.items() for x in ([v] if isinstance(v, str) else v)]
    else:
        pairs = [(name, column) for name, _, column in (text.partition("=") for text in said)]
    found: dict[str, Names] = {}
    for name, column in pairs:
        if name not in ROLES or not column:
            ours = ", ".join(sorted({*ROLES} - {"classes"}))
            raise ValueError(f"column: got {few_of([name])}, expected NAME=COLUMN, NAME of {ours}")
        found[ROLES[name]] = (*found.get(ROLES[name], ()), column)
    return found


def line(**columns: str) -> str:
    """The options ``--column ROLE=NAME`` for these roles, which an error can suggest."""
    said = (f"{role}={name}" for role, name in columns.items())
    return " ".join(f"--column {shlex.quote(pair)}" for pair in said)
