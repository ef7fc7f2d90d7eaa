"""Scores of classes in a table: a column for each, one column, or a list in each row."""

from typing import TYPE_CHECKING

import numpy as np

from calibkit.arrays import Array
from calibkit.report.names import few_of, is_number
from calibkit.report.readers import cells, columns, records, scales
from calibkit.report.readers.asked import Asked, line
from calibkit.report.readers.columns import Family
from calibkit.report.readers.roles import Roles
from calibkit.report.readers.vocabulary import NAMES, WEAK

if TYPE_CHECKING:
    import pandas as pd

UNLABELLED = {"-1", "-100"}  # unless the labels are exactly -1 and 1


def class_arrays(
    frame: "pd.DataFrame", roles: Roles, asked: Asked, notes: list[str]
) -> tuple[dict[str, Array], set[str]] | None:
    """Scores, labels, names of the classes, the model's answers; None if no column has scores."""
    if records.of_names(frame[roles.label]):
        raise ValueError(
            f"{roles.label}: got a list of names in each row (multi-label), expected one label: "
            "--one-label NAME takes one of them"
        )
    if listed := records.scores_in(frame, asked):
        arrays, used = _of_lists(frame, roles, *listed, notes)
    elif any(records.is_list(frame[c]) for c in frame.columns) and not roles.pairs:
        raise ValueError(records.unknown_list(frame))
    elif (found := _family(frame, roles, asked, notes)) is None:
        return None
    else:
        arrays, used = _of_columns(frame, roles, asked, found, notes)
    used |= {roles.label}
    if roles.answer and not records.is_list(frame[roles.answer]):
        arrays["answers"] = cells.texts(frame[roles.answer])
        used |= {roles.answer}
    return arrays, used


def _of_lists(frame: "pd.DataFrame", roles: Roles, kind: str, name: str, notes: list[str]):
    kind, scores, sizes = records.matrix(frame[name], kind, notes)
    if records.is_list(frame[roles.label]):  # several labels at once
        return {kind: scores, "labels": records.whole(frame[roles.label])}, {name}
    labels = cells.labels(frame[roles.label])
    records.check_choices(labels, sizes, roles.label)
    return {kind: scores, "labels": labels}, {name}


def seen_labels(column: "pd.Series", asked: Asked) -> list[str]:
    """Labels that occur, as text, without those that mean none."""
    seen = set(cells.texts(column.drop_duplicates()).tolist()) - {""}
    classes = seen == {"-1", "1"} and asked.minus_one != "none"
    return sorted(seen if classes or asked.minus_one == "class" else seen - UNLABELLED)


def _family(
    frame: "pd.DataFrame", roles: Roles, asked: Asked, notes: list[str]
) -> tuple[str, Family] | None:
    """The columns of scores, and whether they are probabilities, logits or "" if unsaid."""
    seen = seen_labels(frame[roles.label], asked)
    for kind in ("logits", "probs"):
        if said := asked.of(kind, [c for c in frame.columns if c not in {*roles.taken}]):
            said = [c for c in said if cells.is_numeric(frame[c])]
            return kind, _said(frame, said, asked.columns[kind], seen, roles)
    rest = [
        c for c in frame.columns if c not in roles.taken and not c.lower().startswith("unnamed:")
    ]
    alone = [c for c in rest if c.lower() in (*NAMES["probs"], *NAMES["logits"])]
    found = _meant(frame, roles, columns.choose(frame, rest, seen, notes), alone)
    if found and len(found.columns) > 1:
        return found.kind, found
    if found and not alone:
        names = _two_names(frame[roles.label], seen, found.names[0], False)
        return found.kind, found._replace(names=names)
    if roles.pairs:
        return None
    if len(alone) == 1:
        return _kind_of_one(frame, alone[0]), Family(
            alone, _two_names(frame[roles.label], seen, alone[0], True)
        )
    return _bare(frame, rest, roles, seen)


def _meant(
    frame: "pd.DataFrame", roles: Roles, found: Family | None, alone: list[str]
) -> Family | None:
    """A family, unless another column or a pair is the better sign of what is meant."""
    if found is None or found.kind:
        return found
    if len(found.columns) == 1 and len(alone) == 1:
        return None
    other = alone or roles.pairs  # columns of features may be called x_0 and x_1
    return None if other and not columns.is_distribution(frame, found.columns) else found


def _kind_of_one(frame: "pd.DataFrame", column: str) -> str:
    """Whether one column of scores is of logits or of probabilities."""
    name = column.lower()
    if name not in NAMES["logits"]:
        return "probs"
    weak = name in WEAK and not scales.weak_logits(cells.numbers(frame[column]), column)
    return "probs" if weak else "logits"


def _said(
    frame: "pd.DataFrame", said: list[str], patterns, seen: list[str], roles: Roles
) -> Family:
    """Columns that the caller named: their classes are what differs in their names."""
    if not said:
        raise ValueError(f"column: got {few_of(patterns)}, expected columns of numbers")
    if len(said) == 1:
        return Family(said, _two_names(frame[roles.label], seen, said[0], True))
    before, _, after = patterns[0].partition("*")
    for family in columns.families(said, seen):
        if set(family.columns) == set(said) or (family.prefix, family.suffix) == (before, after):
            return family
    names = [c.removeprefix(before).removesuffix(after) for c in said]
    return Family(said, names if "" not in names else said)


def _bare(
    frame: "pd.DataFrame", rest: list[str], roles: Roles, seen: list[str]
) -> tuple[str, Family] | None:
    """Columns that are called like their classes, as far as that can be told."""
    found = columns.bare(frame, rest, seen)
    known = {*NAMES["confidence"], *NAMES["logprob"]}
    if not found.columns or all(c.lower() in known for c in found.columns):
        return None
    if len(found.columns) == 1:
        if roles.answer:  # the confidence of that answer, or anything
            return None
        names = _two_names(frame[roles.label], seen, found.columns[0], False)
        return "", found._replace(names=names)
    return "", found


def _of_columns(
    frame: "pd.DataFrame", roles: Roles, asked: Asked, found: tuple[str, Family], notes: list[str]
):
    kind, family = found
    single = all(frame[column].dtype == np.float32 for column in family.columns)
    values = [cells.numbers(frame[column]) for column in family.columns]
    scores = np.stack(values, axis=1).astype(np.float32 if single else np.float64)
    if not kind:
        _check_probs(frame, scores, family)
        kind = "probs"
    if kind == "probs" and len(values) == 1 and scales.is_percent(scores, family.columns[0]):
        scores = scales.of_percent(scores, family.columns[0], notes)
    labels, order, names = _matched(
        frame[roles.label], seen_labels(frame[roles.label], asked), family, notes
    )
    if len(values) == 1:
        order = [0]
    arrays = {kind: scores[:, order], "labels": labels, "class_names": np.array(names)}
    return arrays, {*family.columns}


def _check_probs(frame: "pd.DataFrame", scores: Array, family: Family) -> None:
    """Refuse columns that only their place says are scores, unless they are probabilities."""
    if scores.min() >= -scales.SLACK and scores.max() <= 1 + scales.SLACK:
        return
    if columns.is_distribution(frame, family.columns):  # percent
        return
    if len(family.columns) == 1 and scales.is_percent(scores, family.columns[0]):
        return
    inside = (scores.min(axis=0) >= -scales.SLACK) & (scores.max(axis=0) <= 1 + scales.SLACK)
    odd = [c for c, fine in zip(family.columns, inside, strict=True) if not fine]
    rest = [c for c in family.columns if c not in odd]
    way = ""
    if len(rest) > 1 and columns.is_distribution(frame, rest):
        way = f"; in the way: {' '.join(line(ignore=c) for c in odd)}"
    elif family.prefix:
        way = f"; if they are logits: {line(logits=family.pattern)}"
    raise ValueError(
        f"got columns {few_of(family.columns)}, read as probabilities of these classes, but some "
        f"are not between 0 and 1 ({few_of(odd)}){way}; or name the columns of scores prob_NAME "
        "or logit_NAME"
    )


def _matched(
    column: "pd.Series", seen: list[str], family: Family, notes: list[str]
) -> tuple[Array, list[int], list[str]]:
    """Labels, and the columns' order and names: matched by name, or by place where only that can.

    Columns called by other numbers than the labels stand in the order of these numbers.
    """
    names = family.names
    order = list(range(len(names)))
    whole = all(map(is_number, seen))
    if set(seen) <= set(names):
        labels = cells.labels(column)
        return cells.texts(column) if labels.dtype.kind != "U" else labels, order, names
    if seen == ["-1", "1"] or not whole or len(names) < 2:
        return cells.labels(column), order, names
    numbers = all(map(is_number, names))
    if numbers:
        order = sorted(order, key=lambda i: int(names[i]))
    names = [names[i] for i in order]
    if not numbers and set(names) == {f"not {names[1]}", names[1]}:  # one column, made two
        return cells.labels(column), order, names
    shown = [family.columns[i] for i in order][:2] if len(family.columns) > 1 else []
    if shown:
        how = "in the order of their numbers" if numbers else "in their order in the file"
        notes.append(
            f"The labels are numbers that the columns' names do not have, so columns were matched "
            f"by position, {how}: label 0 is {shown[0]!r}, 1 is {shown[1]!r}."
        )
    return cells.labels(column), order, names


def _two_names(labels, seen: list[str], name: str, alone: bool) -> list[str]:
    """Names of two classes from the name of one column and the labels."""
    if len(seen) > 2:
        raise ValueError(
            f"{labels.name}: got {few_of(seen)} with one column of scores, {name!r}; expected two "
            "classes, or a column for each"
        )
    if name in seen:
        return [next((x for x in seen if x != name), f"not {name}"), name]
    if seen == ["-1", "1"]:
        return seen if alone else [f"not {name}", name]
    if set(seen) <= {"0", "1", "False", "True"}:
        return ["0", "1"] if alone else [f"not {name}", name]
    raise ValueError(
        f"{name}: one column of scores, and labels {few_of(seen)}: which of them is it the "
        f"probability of? Name the column prob_{seen[-1]}, for instance"
    )
