"""Which columns of a table hold the scores of which class, by their names and their row sums."""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibkit.arrays import row_sums
from calibkit.report.names import few_of, is_number
from calibkit.report.readers import cells
from calibkit.report.readers.asked import line
from calibkit.report.readers.frames import DataFrame
from calibkit.report.readers.vocabulary import NAMES, PREFIXES

SEPARATORS = "_.-: /["
CALIBRATED = ("cal_", "cal.", "calibrated_", "calibrated.")  # beside raw columns, as of H2O


class Family(NamedTuple):
    """Columns of scores, one for each class: ``prob_cat`` and ``prob_dog``.

    Attributes
    ----------
    columns : list of str
        The columns.
    names : list of str
        The class of each column.
    prefix, suffix : str
        What every column's name has before and after the class.
    given : str
        The kind of scores, if something else than the names tells it.
    """

    columns: list[str]
    names: list[str]
    prefix: str = ""
    suffix: str = ""
    given: str = ""

    @property
    def kind(self) -> str:
        """The kind of scores that is given, or that the names tell: "logits", "probs", or ""."""
        return self.given or kind_of(self.prefix or self.suffix.lstrip(SEPARATORS))

    @property
    def pattern(self) -> str:
        """A pattern that matches the columns, such as ``prob_*``."""
        return f"{self.prefix}*{self.suffix}"


def kind_of(prefix: str) -> str:
    """The kind of scores that a prefix of column names tells: "logits", "probs", or "".

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
    """Families of columns that have one column for every label.

    The label stands at the end, at the start or as a word inside of each column's name, and the
    rest of the name is the same in all columns of the family.

    >>> families(["p0", "p1", "age"], ["0", "1"])
    [Family(columns=['p0', 'p1'], names=['0', '1'], prefix='p', suffix='', given='')]
    >>> families(["id", ".pred_no", ".pred_yes"], ["no", "yes"])[0].prefix
    '.pred_'
    """
    seen, numbers = set(labels), all(map(is_number, labels))
    found: dict[tuple[str, str], dict[str, str]] = {}
    for column in columns:
        for prefix, name, suffix in _cuts(column, seen):
            if numbers and (prefix[-1:].isdigit() or suffix[:1].isdigit()):
                continue  # the label 1 is no part of the number 11
            found.setdefault((prefix, suffix), {})[name] = column
    whole = {ends: matched for ends, matched in found.items() if set(matched) == seen}
    return [_extended(columns, matched, ends, numbers) for ends, matched in whole.items()]


def _cuts(column: str, labels: set[str]) -> list[tuple[str, str, str]]:
    """All ways to split a column's name into text before a label, the label, and text after it."""
    ends = [(column[:i], column[i:], "") for i in range(len(column)) if column[i:] in labels]
    starts = [("", column[:i], column[i:]) for i in range(1, len(column)) if column[:i] in labels]
    words = ((*m.span(), m.group()) for m in re.finditer(r"[^\W_]+", column))
    inner = [(column[:a], x, column[b:]) for a, b, x in words if x in labels and a and column[b:]]
    return ends + starts + inner  # prob_cat, cat_prob, P(cat)


def _extended(columns, matched: dict[str, str], ends: tuple[str, str], numbers: bool) -> Family:
    """The family of the `matched` columns, and of others with the same prefix and suffix.

    The other columns belong to classes that no label has. `matched` maps each label to its column.
    """
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
    """The longest start that all names have in common and that ends in a separator; or ""."""
    return _to_separator(os.path.commonprefix(names)) if len(names) > 1 else ""


def _to_separator(name: str) -> str:
    """A name up to its last separator, which is included; "" without a separator."""
    return name[: max(map(name.rfind, SEPARATORS)) + 1]


def numbered(columns: Sequence[str]) -> list[Family]:
    """Families by prefix alone: the part of a name before its number, or up to its separator."""
    groups: dict[str, list[str]] = {}
    for column in columns:
        digits = column.rstrip("0123456789")
        prefix = digits if digits != column else _to_separator(column)
        groups.setdefault(prefix, []).append(column)
    for known in PREFIXES:
        alike = [c for c in columns if c.lower().startswith(known)]
        if alike:
            groups[alike[0][: len(known)]] = alike
    return [
        Family(alike, [c.removeprefix(prefix) for c in alike], prefix)
        for prefix, alike in groups.items()
        if prefix and (len(alike) > 1 or prefix.lower() in PREFIXES)
    ]


# --- which of several families holds the scores ---


def choose(frame: DataFrame, rest: list[str], labels: list[str], notes: list[str]) -> Family | None:
    """Choose the family of columns that holds the scores.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    rest : list of str
        The columns that have no other role.
    labels : list of str
        The different labels, as text.
    notes : list of str
        A sentence is added here if calibrated columns were passed over.

    Returns
    -------
    Family or None
        None if no columns look like scores.

    Raises
    ------
    ValueError
        Several families look like scores.
    """
    columns = [c for c in rest if cells.is_numeric(frame[c]) or _says_scores(c)]
    found = _named_by(columns, labels)
    found = [_without_strangers(frame, x, labels) for x in found]
    # Columns that share only a suffix may be anything: they count only if their rows sum to 1.
    found = [x for x in found if not x.suffix or x.kind or is_distribution(frame, x.columns)]
    found = [x for i, x in enumerate(found) if x.columns not in [o.columns for o in found[:i]]]
    found = found or _counted(frame, columns)
    return _one_of(frame, found, notes) if found else None


def _named_by(columns: list[str], labels: list[str]) -> list[Family]:
    """Families whose columns are named after the labels, or after the part in which labels differ.

    The labels LABEL_0 and LABEL_1 also match columns that end in 0 and 1, and so do False and True.
    """
    found = [x for x in families(columns, labels) if len(x.columns) > 1 or x.kind]
    if found:
        return found
    if inner := _shared(labels):  # the label LABEL_3 and the column 3
        bare = {x.removeprefix(inner): x for x in labels}
        found = [x for x in families(columns, list(bare)) if len(x.columns) > 1]
        found = [x._replace(names=[bare.get(n, inner + n) for n in x.names]) for x in found]
    if not found and set(labels) <= {"True", "False"}:
        yes = {"0": "False", "1": "True"}
        found = [x for x in families(columns, ["0", "1"]) if len(x.columns) == 2]
        found = [x._replace(names=[yes[n] for n in x.names]) for x in found]
    return found


def _counted(frame: DataFrame, columns: list[str]) -> list[Family]:
    """Families of `numbered` whose prefix tells their kind; without any, those that sum to 1."""
    known = numbered(columns)
    said = [x for x in known if x.kind]
    return said or [x for x in known if len(x.columns) > 1 and is_distribution(frame, x.columns)]


def _without_strangers(frame: DataFrame, family: Family, labels: list[str]) -> Family:
    """Leave out columns that no label has, if only the others sum to 1 in each row.

    So ``Class_id`` beside ``Class_cat`` and ``Class_dog`` is no class.
    """
    own = [(c, n) for c, n in zip(family.columns, family.names, strict=True) if n in labels]
    if len(own) == len(family.names) or len(own) < 2:
        return family
    columns, names = (list(x) for x in zip(*own, strict=True))
    fits = is_distribution(frame, columns) and not is_distribution(frame, family.columns)
    return family._replace(columns=columns, names=names) if fits else family


def _says_scores(column: str) -> bool:
    """Whether the name begins as those of scores do, such as ``prob_``."""
    return any(len(p) > 2 and column.lower().startswith(p) for p in PREFIXES)


def _one_of(frame: DataFrame, found: list[Family], notes: list[str]) -> Family | None:
    for kind in ("logits", "probs"):  # logits first: probabilities follow from them
        if said := [x for x in found if x.kind == kind]:
            return _raw(said, notes)
    if len(found) > 1:
        found = [x for x in found if is_distribution(frame, x.columns)]
    return _raw(found, notes) if found else None


def _raw(found: list[Family], notes: list[str]) -> Family:
    """The one family whose names do not say "calibrated"; `ValueError` if several are left."""
    if len(found) == 1:
        return found[0]
    raw = [x for x in found if not any(word in x.pattern.lower() for word in CALIBRATED)]
    if len(raw) == 1:
        others = [x.pattern for x in found if x is not raw[0]]
        both = " ".join(line(probs=pattern) for pattern in (raw[0].pattern, others[0]))
        notes.append(
            f"Read the columns {raw[0].pattern!r}. The columns {few_of(others)} are calibrated "
            f"versions of them: calibkit compare FILE {both} compares both."
        )
        return raw[0]
    patterns = [x.pattern for x in found]
    ours = found[0].kind or "probs"
    raise ValueError(
        f"got several columns for each class, {few_of(patterns)}: say which ones to read, as in "
        f"{line(**{ours: patterns[0]})}"
    )


def is_distribution(frame: DataFrame, columns: Sequence[str]) -> bool:
    """Whether the columns sum to 1, or to 100, in every row without empty cells (within 5 %)."""
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


def bare(frame: DataFrame, rest: list[str], labels: list[str]) -> Family:
    """Columns that bear the names of the labels if these sum to 1; otherwise all of numbers."""
    columns = [c for c in rest if cells.is_numeric(frame[c])]
    own = [c for c in columns if c in labels]
    chosen = own if len(own) > 1 and is_distribution(frame, own) else columns
    return Family(chosen, list(chosen))
