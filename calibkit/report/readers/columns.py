"""Which columns of a table are the scores of which class: by what they are called, and by sums."""

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibkit.arrays import row_sums
from calibkit.report.names import few_of, is_number
from calibkit.report.readers import cells
from calibkit.report.readers.asked import line
from calibkit.report.readers.vocabulary import NAMES, PREFIXES

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = "_.-: /["
CALIBRATED = (
    "cal_",
    "cal.",
    "calibrated_",
    "calibrated.",
)  # beside raw columns, as H2O writes them


class Family(NamedTuple):
    """Columns of scores, one for each class."""

    columns: list[str]
    names: list[str]  # of the classes
    prefix: str = ""
    suffix: str = ""

    @property
    def kind(self) -> str:
        """What their prefix says they are; "" if nothing."""
        return kind_of(self.prefix or self.suffix.lstrip(SEPARATORS))

    @property
    def pattern(self) -> str:
        return f"{self.prefix}*{self.suffix}"


def kind_of(prefix: str) -> str:
    """What a prefix says: "logits", "probs", or "" for any other.

    >>> kind_of("prob_"), kind_of("Logits."), kind_of("Class_")
    ('probs', 'logits', '')
    """
    prefix = prefix.lower()
    for word in CALIBRATED:
        prefix = prefix.removeprefix(word)
    word = prefix.rstrip(SEPARATORS)
    named = (kind for kind in ("probs", "logits") if word in NAMES[kind])
    return PREFIXES.get(prefix) or next(named, "")


def families(columns: Sequence[str], labels: Sequence[str]) -> list[Family]:
    """Families of columns whose names hold every label, after or before what they share.

    >>> families(["p0", "p1", "age"], ["0", "1"])
    [Family(columns=['p0', 'p1'], names=['0', '1'], prefix='p', suffix='')]
    >>> families(["id", ".pred_no", ".pred_yes"], ["no", "yes"])[0].prefix
    '.pred_'
    """
    seen, numbers = set(labels), all(map(is_number, labels))
    found: dict[tuple[str, str], dict[str, str]] = {}
    for column in columns:
        for prefix, name, suffix in _cuts(column, seen):
            if numbers and (prefix[-1:].isdigit() or suffix[:1].isdigit()):
                continue  # 1 within 11
            found.setdefault((prefix, suffix), {})[name] = column
    whole = {ends: its for ends, its in found.items() if set(its) == seen}
    return [_extended(columns, its, ends, numbers) for ends, its in whole.items()]


def _cuts(column: str, labels: set[str]) -> list[tuple[str, str, str]]:
    """All ways to see a label in the name: (before, label, after)."""
    ends = [(column[:i], column[i:], "") for i in range(len(column)) if column[i:] in labels]
    starts = [("", column[:i], column[i:]) for i in range(1, len(column)) if column[:i] in labels]
    words = ((*m.span(), m.group()) for m in re.finditer(r"[^\W_]+", column))
    inner = [(column[:a], x, column[b:]) for a, b, x in words if x in labels and a and column[b:]]
    return ends + starts + inner  # P(cat)


def _extended(columns, matched: dict[str, str], ends: tuple[str, str], numbers: bool) -> Family:
    """With the columns of classes that no label has: those that share the ends."""
    prefix, suffix = ends
    inner = prefix + _shared(list(matched)) if not prefix and not suffix else prefix
    own = {column: name for name, column in matched.items()}
    names = {}
    for column in columns:
        middle = column.removeprefix(prefix).removesuffix(suffix)
        alike = (inner or suffix) and column.startswith(inner) and column.endswith(suffix)
        if column in own or (alike and middle and (is_number(middle) or not numbers)):
            names[column] = own.get(column, middle)
    return Family(list(names), list(names.values()), prefix, suffix)


def _shared(names: list[str]) -> str:
    """What several names begin with, up to a separator."""
    start = os.path.commonprefix(names) if len(names) > 1 else ""
    return start[: max((start.rfind(x) for x in SEPARATORS), default=-1) + 1]


def numbered(columns: Sequence[str]) -> list[Family]:
    """Families under one prefix that ends in a separator, or before a number."""
    groups: dict[str, list[str]] = {}
    for column in columns:
        digits = column.rstrip("0123456789")
        prefix = digits if digits != column else column[: _last_separator(column) + 1]
        groups.setdefault(prefix, []).append(column)
    for known in PREFIXES:
        its = [c for c in columns if c.lower().startswith(known)]
        if its:
            groups[its[0][: len(known)]] = its
    return [
        Family(its, [c.removeprefix(p) for c in its], p)
        for p, its in groups.items()
        if p and (len(its) > 1 or p.lower() in PREFIXES)
    ]


def _last_separator(name: str) -> int:
    return max(name.rfind(x) for x in SEPARATORS)


# --- the one family that is meant ---


def choose(
    frame: "pd.DataFrame", rest: list[str], labels: list[str], notes: list[str]
) -> Family | None:
    """The columns of the classes among those that are left; None if there are none.

    Raises
    ------
    ValueError
        Several could be meant.
    """
    columns = [c for c in rest if cells.is_numeric(frame[c]) or _says_scores(c)]
    found = _named_by(columns, labels)
    found = [_without_strangers(frame, x, labels) for x in found]
    # A suffix alone is a weak sign: the columns must be a distribution.
    found = [x for x in found if not x.suffix or x.kind or is_distribution(frame, x.columns)]
    found = [x for i, x in enumerate(found) if x.columns not in [o.columns for o in found[:i]]]
    found = found or _counted(frame, columns)
    return _one_of(frame, found, notes) if found else None


def _named_by(columns: list[str], labels: list[str]) -> list[Family]:
    """Families whose columns are named after the labels, or after what differs in these."""
    found = [x for x in families(columns, labels) if len(x.columns) > 1 or x.kind]
    if found:
        return found
    if inner := _shared(labels):  # LABEL_3 beside a column 3
        bare = {x.removeprefix(inner): x for x in labels}
        found = [x for x in families(columns, list(bare)) if len(x.columns) > 1]
        found = [x._replace(names=[bare.get(n, inner + n) for n in x.names]) for x in found]
    if not found and set(labels) <= {"True", "False"}:
        yes = {"0": "False", "1": "True"}
        found = [x for x in families(columns, ["0", "1"]) if len(x.columns) == 2]
        found = [x._replace(names=[yes[n] for n in x.names]) for x in found]
    return found


def _counted(frame: "pd.DataFrame", columns: list[str]) -> list[Family]:
    """Families whose columns are numbered: those that say what they are, or are distributions."""
    known = numbered(columns)
    said = [x for x in known if x.kind]
    return said or [x for x in known if len(x.columns) > 1 and is_distribution(frame, x.columns)]


def _without_strangers(frame: "pd.DataFrame", family: Family, labels: list[str]) -> Family:
    """Only the labels' own columns, where these are a distribution: ``Class_id`` is no class."""
    own = [(c, n) for c, n in zip(family.columns, family.names, strict=True) if n in labels]
    if len(own) == len(family.names) or len(own) < 2:
        return family
    columns, names = (list(x) for x in zip(*own, strict=True))
    fits = is_distribution(frame, columns) and not is_distribution(frame, family.columns)
    return family._replace(columns=columns, names=names) if fits else family


def _says_scores(column: str) -> bool:
    """Whether the name alone says so, whatever the cells hold."""
    return any(len(p) > 2 and column.lower().startswith(p) for p in PREFIXES)


def _one_of(frame: "pd.DataFrame", found: list[Family], notes: list[str]) -> Family | None:
    for kind in ("logits", "probs"):  # the first says most
        if said := [x for x in found if x.kind == kind]:
            return _raw(said, notes)
    if len(found) > 1:
        found = [x for x in found if is_distribution(frame, x.columns)]
    return _raw(found, notes) if found else None


def _raw(found: list[Family], notes: list[str]) -> Family:
    """Of several families, the one that is not a calibrated version of another."""
    if len(found) == 1:
        return found[0]
    raw = [x for x in found if not any(word in x.pattern.lower() for word in CALIBRATED)]
    if len(raw) == 1:
        others = [x.pattern for x in found if x is not raw[0]]
        both = " ".join(line(probs=pattern) for pattern in (raw[0].pattern, others[0]))
        notes.append(
            f"Read the columns {raw[0].pattern!r}; {few_of(others)} are calibrated versions of "
            f"them: calibkit compare FILE {both} compares both."
        )
        return raw[0]
    patterns = [x.pattern for x in found]
    ours = found[0].kind or "probs"
    raise ValueError(
        f"got several columns for each class, {few_of(patterns)}: say which are meant, as in "
        f"{line(**{ours: patterns[0]})}"
    )


def is_distribution(frame: "pd.DataFrame", columns: Sequence[str]) -> bool:
    """Whether the columns are probabilities of each row, or percentages, where there are any."""
    try:
        values = np.stack([cells.numbers(frame[c], missing=True) for c in columns], axis=1)
    except ValueError:  # text in a cell
        return False
    values = values.astype(np.float64)
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values) or values.min() < -1e-3:
        return False
    sums = row_sums(values)
    whole = 100.0 if np.median(sums) > 50 else 1.0
    return bool(np.abs(sums - whole).max() <= 0.05 * whole)


def bare(frame: "pd.DataFrame", rest: list[str], labels: list[str]) -> Family:
    """Columns that are called like classes: those of the labels, or all if only these sum to 1."""
    columns = [c for c in rest if cells.is_numeric(frame[c])]
    own = [c for c in columns if c in labels]
    chosen = own if len(own) > 1 and is_distribution(frame, own) else columns
    return Family(chosen, list(chosen))
