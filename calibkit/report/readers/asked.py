"""What the caller says about columns: ``--column label=truth``, ``--group site``."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from calibkit.report.names import few_of
from calibkit.report.readers.vocabulary import ROLES


@dataclass(frozen=True)
class Asked:
    """Columns of groups, and for each of our names the columns or patterns that have it."""

    group: tuple[str, ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    minus_one: str | None = None  # "none": -1 is never a class
    one_label: str | None = None  # of several that hold at once
    ids: str | None = None  # the column that names the samples; "": whichever do; None: no matter
    cluster: str | None = None  # the column that says which rows are alike

    def of(self, role: str, names: Collection[str]) -> list[str] | None:
        """The columns said to be `role`, in the file's order; None if nothing was said.

        A name that stands in the file is that column, whatever characters it has; any other is a
        pattern, such as ``score_*``.
        """
        if role not in self.columns:
            return None
        found = []
        for wanted in self.columns[role]:
            some = [x for x in names if x == wanted or (wanted not in names and _like(x, wanted))]
            if not some and role != "ignore":
                shown = few_of(sorted(names) if isinstance(names, set) else names)
                raise ValueError(f"column: got {few_of([wanted])}, expected columns among {shown}")
            found += [x for x in some if x not in found]
        return found

    def one(self, role: str, names: Collection[str]) -> str | None:
        """The same for what is a single column."""
        found = self.of(role, names)
        if found and len(found) > 1:
            raise ValueError(f"column: got {few_of(found)} as {role}, expected one column")
        return found[0] if found else None


def _like(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern)


def parse(said: Mapping[str, str | Sequence[str]] | Sequence[str]) -> dict[str, tuple[str, ...]]:
    """``label=truth`` and others, or a mapping of such names, as roles with their columns.

    >>> parse(["label=truth", "probs=score_*"])
    {'labels': ('truth',), 'probs': ('score_*',)}
    """
    if isinstance(said, Mapping):
        pairs = [(k, x) for k, v in said.items() for x in ([v] if isinstance(v, str) else v)]
    else:
        pairs = [(name, column) for name, _, column in (text.partition("=") for text in said)]
    found: dict[str, tuple[str, ...]] = {}
    for name, column in pairs:
        if name not in ROLES or not column:
            ours = ", ".join(sorted({*ROLES} - {"classes"}))
            raise ValueError(f"column: got {few_of([name])}, expected NAME=COLUMN, NAME of {ours}")
        found[ROLES[name]] = (*found.get(ROLES[name], ()), column)
    return found


def line(**columns: str) -> str:
    """The options that read a file: what a refusal because of names ends with."""
    said = (f"{role}={name}" for role, name in columns.items())
    return " ".join(f"--column {shlex.quote(pair)}" for pair in said)
