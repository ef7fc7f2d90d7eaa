"""Which column of a table is the label, the answer, the confidence and so on.

What the caller says decides; otherwise the column's name does.
"""

from dataclasses import dataclass, field

import numpy as np

from calibkit.report.names import few_of
from calibkit.report.readers import cells, columns
from calibkit.report.readers.asked import Asked, line
from calibkit.report.readers.frames import DataFrame, Series
from calibkit.report.readers.vocabulary import MODELS, NAMES


@dataclass
class Roles:
    """The column of each role, None if the table has no such column.

    Attributes
    ----------
    groups : tuple of str
    label, weight, split, cluster, correct, confidence, logprob, answer : str or None
        `logprob` is the logarithm of the confidence, `answer` what the model said.
    spare : list of str
        Columns that are ignored: by request, or as a second label or answer.
    """

    groups: tuple[str, ...] = ()
    label: str | None = None
    weight: str | None = None
    split: str | None = None
    cluster: str | None = None
    correct: str | None = None
    confidence: str | None = None
    logprob: str | None = None
    answer: str | None = None
    spare: list[str] = field(default_factory=list)

    @property
    def taken(self) -> set[str]:
        """Columns that have another role than scores of classes."""
        single = (self.label, self.weight, self.split, self.cluster, self.answer)
        return {*self.groups, *self.spare, *(x for x in single if x)}

    @property
    def pairs(self) -> bool:
        """Whether there is a confidence, and a way to tell whether each answer is right."""
        source = self.confidence or self.logprob
        return bool(source and (self.correct or (self.answer and self.label)))


def roles_of(frame: DataFrame, asked: Asked) -> Roles:
    """Find the role of each column of a table; `ValueError` if two columns of labels differ."""
    names = list(frame.columns)
    roles = Roles(asked.group, spare=asked.of("ignore", names) or [], cluster=asked.cluster)
    if not roles.groups:
        said = asked.of("groups", names) or [c for c in ("group", "groups") if c in names][:1]
        roles.groups = tuple(c for c in said if c not in roles.spare)
    said = {x for role in asked.columns if role != "groups" for x in _named(asked, role, names)}
    said |= {roles.cluster}
    free = [c for c in names if c not in {*roles.groups, *said} and not c.startswith("Unnamed:")]
    for role in ("weights", "split", "correct", "confidence", "logprob"):
        found = asked.one(role, names) or next(iter(_candidates(role, free)), None)
        setattr(roles, role.removesuffix("s"), found)
    roles.label = asked.one("labels", names) or _label(frame, _candidates("labels", free), roles)
    answers = [c for c in _candidates("answer", free) if c != roles.label]
    roles.answer = asked.one("answer", names) or _answer(frame, answers, roles)
    return roles


def _named(asked: Asked, role: str, names: list[str]) -> list[str]:
    """Columns that the caller gave the role `role`.

    Columns that only match a pattern of scores, such as ``*``, keep their role.
    """
    found = asked.of(role, names) or []
    whole = role not in ("probs", "logits")
    return [x for x in found if whole or x in asked.columns[role]]


def _candidates(role: str, free: list[str]) -> list[str]:
    """Columns of `free` that have a name of the role, the most usual name first."""
    lower = {c.lower(): c for c in reversed(free)}
    return [lower[name] for name in NAMES[role] if name in lower]


def _label(frame: DataFrame, candidates: list[str], roles: Roles) -> str | None:
    """The column of labels. Of several, the first, if the others say the same; else an error."""
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    first, *others = candidates
    for other in others:
        a, b = cells.texts(frame[first]), cells.texts(frame[other])
        if (a == b).all() or _renamed(a, b):
            roles.spare.append(other)
            continue
        raise ValueError(
            f"got two columns of labels that differ, {first!r} and {other!r} (in "
            f"{int((a != b).sum()):,} of {len(a):,} rows): say which is the truth, as in "
            f"{line(label=first, ignore=other)}"
        )
    return first


def _renamed(a, b) -> bool:
    """Whether two columns say the same in other words: 0 is always "cat", 1 is always "dog"."""
    pairs = np.unique(np.stack([a, b], axis=1), axis=0)
    if len(pairs) != len(np.unique(a)) or len(pairs) != len(np.unique(b)):
        return False
    return not (set(a.tolist()) & set(b.tolist()))


def _answer(frame: DataFrame, candidates: list[str], roles: Roles) -> str | None:
    """The column of the model's answers: of several, the one with most values among the labels."""
    if not candidates or roles.label is None:
        return candidates[0] if candidates else None
    label = cells.texts(frame[roles.label])
    shares = [float(np.isin(cells.texts(frame[c]), label).mean()) for c in candidates]
    best = candidates[int(np.argmax(shares))]
    if max(shares) == 0 and not (roles.confidence or roles.logprob):
        return None
    roles.spare += [c for c, share in zip(candidates, shares, strict=True) if c != best and share]
    return best


def two_models(frame: DataFrame, roles: Roles) -> str:
    """A sentence for the user if a column names several models; "" if no column does."""
    for name in frame.columns:
        if name.lower() not in MODELS or name in {*roles.groups, *roles.spare}:
            continue
        values = np.unique(cells.texts(frame[name].drop_duplicates()))
        if 2 <= len(values) <= min(50, len(frame) // 10):
            return (
                f"The column {name!r} names {len(values)} models ({few_of(values)}): save the rows "
                f"of each to a file, or say --group {name}; {line(ignore=name)} takes all rows "
                "together."
            )
    return ""


def unnamed(frame: DataFrame, roles: Roles) -> str:
    """The options that would read a table with unknown column names; "" if no guess is possible."""
    free = [c for c in frame.columns if c not in roles.taken and not c.startswith("Unnamed:")]
    confidence = roles.confidence or _only(frame, free, "confidence", _is_confidence)
    correct = roles.correct or _only(frame, free, "correct", cells.is_right)
    if confidence and correct and confidence != correct:
        return line(confidence=confidence, correct=correct)
    if not roles.label and (label := _label_of_classes(frame, free)):
        return line(label=label)
    if confidence and roles.label and len(np.unique(cells.texts(frame[roles.label]))) == 2:
        return line(probs=confidence)
    return ""


def _label_of_classes(frame: DataFrame, free: list[str]) -> str | None:
    """The one column with the names of other columns, which sum to 1 in each row; or None."""
    found = []
    for name in (c for c in free if frame[c].dtype.kind != "f"):
        values = np.unique(cells.texts(frame[name].drop_duplicates())).tolist()
        if not 2 <= len(values) <= 1000:
            continue
        others = [c for c in free if c != name and cells.is_numeric(frame[c])]
        fit = columns.families(others, values)
        found += [name] * any(columns.is_distribution(frame, x.columns) for x in fit)
    return found[0] if len(found) == 1 else None


def _only(frame: DataFrame, free: list[str], role: str, test) -> str | None:
    """The one column of `free` that passes `test`; None if not exactly one does.

    Of several, only those count whose name after the last dot is one of the role's names.
    """
    found = [c for c in free if test(frame[c])]
    if len(found) > 1:
        found = [c for c in found if c.lower().rpartition(".")[2] in NAMES[role]]
    return found[0] if len(found) == 1 else None


def _is_confidence(column: Series) -> bool:
    if not cells.is_numeric(column) or column.dtype.kind == "b":
        return False
    try:
        values = cells.numbers(column, missing=True).astype(float)
    except ValueError:
        return False
    values = values[~np.isnan(values)]
    if not len(values) or not (values.min() >= 0 and values.max() <= 100):
        return False
    return len(np.unique(values)) > 2 and bool(values.max() <= 1 or cells.in_percent(column))
