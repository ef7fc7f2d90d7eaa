"""Find the scores of the classes in a table: a column per class, one column, or a list per row."""

import numpy as np

from calibkit.arrays import Array
from calibkit.report.names import few_of, is_number
from calibkit.report.readers import cells, columns, records, scales
from calibkit.report.readers.asked import Asked, line
from calibkit.report.readers.columns import Family
from calibkit.report.readers.frames import DataFrame, Read, Series
from calibkit.report.readers.roles import Roles
from calibkit.report.readers.vocabulary import NAMES, WEAK

UNLABELLED = {"-1", "-100"}  # mean "no label", unless the labels are exactly -1 and 1


def class_arrays(frame: DataFrame, roles: Roles, asked: Asked, notes: list[str]) -> Read | None:
    """Read the scores (n, k) and the labels (n,) of a table.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row for each sample.
    roles : Roles
        Which column has which role.
    asked : Asked
        What the caller says about the columns.
    notes : list of str
        Sentences for the user are added here.

    Returns
    -------
    dict of str to array, set of str, or None
        The arrays by name ("logits" or "probs", "labels", and "class_names" and "answers" where
        the table has them), and the columns that they come from. None if no column has scores.

    Raises
    ------
    ValueError
        The labels are lists of names, or it is unclear which columns are the scores.
    """
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
        label = frame[roles.label]
        arrays, used = _of_columns(frame, label, seen_labels(label, asked), found, notes)
    used |= {roles.label}
    if roles.answer and not records.is_list(frame[roles.answer]):
        arrays["answers"] = cells.texts(frame[roles.answer])
        used |= {roles.answer}
    return arrays, used


def _of_lists(frame: DataFrame, roles: Roles, kind: str, name: str, notes: list[str]):
    kind, scores, sizes = records.matrix(frame[name], kind, notes)
    if records.is_list(frame[roles.label]):  # multi-label
        return {kind: scores, "labels": records.whole(frame[roles.label])}, {name}
    labels = cells.labels(frame[roles.label])
    records.check_choices(labels, sizes, roles.label)
    return {kind: scores, "labels": labels}, {name}


def seen_labels(column: Series, asked: Asked) -> list[str]:
    """The different labels of a column as text, sorted, without those that mean "no label"."""
    seen = set(cells.texts(column.drop_duplicates()).tolist()) - {""}
    classes = seen == {"-1", "1"} and asked.minus_one != "none"
    return sorted(seen if classes or asked.minus_one == "class" else seen - UNLABELLED)


def _family(frame: DataFrame, roles: Roles, asked: Asked, notes: list[str]) -> Family | None:
    """The columns of scores; None if there are none."""
    seen = seen_labels(frame[roles.label], asked)
    for kind in ("logits", "probs"):
        if said := asked.of(kind, [c for c in frame.columns if c not in {*roles.taken}]):
            said = [c for c in said if cells.is_numeric(frame[c])]
            return _said(frame, said, asked.columns[kind], seen, roles)._replace(given=kind)
    rest = [
        c for c in frame.columns if c not in roles.taken and not c.lower().startswith("unnamed:")
    ]
    alone = [c for c in rest if c.lower() in (*NAMES["probs"], *NAMES["logits"])]
    found = _meant(frame, roles, columns.choose(frame, rest, seen, notes), alone)
    if found and len(found.columns) > 1:
        return found
    if found and not alone:
        return found._replace(names=_two_names(frame[roles.label], seen, found.names[0], False))
    if roles.pairs:
        return None
    if len(alone) == 1:
        names = _two_names(frame[roles.label], seen, alone[0], True)
        return Family(alone, names, given=_kind_of_one(frame, alone[0]))
    return _bare(frame, rest, roles, seen)


def _meant(frame: DataFrame, roles: Roles, found: Family | None, alone: list[str]) -> Family | None:
    """Return `found`, or None if the scores are more likely in another column.

    Other candidates are a column called ``prob`` or ``score`` (`alone`), and a confidence with its
    correctness.
    """
    if found is None or found.kind:
        return found
    if len(found.columns) == 1 and len(alone) == 1:
        return None
    other = alone or roles.pairs
    # Columns called x_0 and x_1 may be features: they count as scores only if they sum to 1.
    return None if other and not columns.is_distribution(frame, found.columns) else found


def _kind_of_one(frame: DataFrame, column: str) -> str:
    """The kind of a single column of scores, "logits" or "probs", from its name and values."""
    name = column.lower()
    if name not in NAMES["logits"]:
        return "probs"
    weak = name in WEAK and not scales.weak_logits(cells.numbers(frame[column]), column)
    return "probs" if weak else "logits"


def _said(frame: DataFrame, said: list[str], patterns, seen: list[str], roles: Roles) -> Family:
    """The family of columns `said` by the caller; each class is called by what differs in them."""
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


def _bare(frame: DataFrame, rest: list[str], roles: Roles, seen: list[str]) -> Family | None:
    """Columns that bear the names of classes, such as ``cat`` and ``dog``; None if none do."""
    found = columns.bare(frame, rest, seen)
    known = {*NAMES["confidence"], *NAMES["logprob"]}
    if not found.columns or all(c.lower() in known for c in found.columns):
        return None
    if len(found.columns) > 1:
        return found
    if roles.answer:  # the column may be the confidence of that answer
        return None
    return found._replace(names=_two_names(frame[roles.label], seen, found.columns[0], False))


def _of_columns(frame: DataFrame, label: Series, seen: list[str], family: Family, notes: list[str]):
    single = all(frame[column].dtype == np.float32 for column in family.columns)
    values = [cells.numbers(frame[column]) for column in family.columns]
    scores = np.stack(values, axis=1).astype(np.float32 if single else np.float64)
    if not family.kind:
        _check_probs(frame, scores, family)
    kind = family.kind or "probs"
    if kind == "probs" and len(values) == 1 and scales.is_percent(scores, family.columns[0]):
        scores = scales.of_percent(scores, family.columns[0], notes)
    labels, order = _matched(label, seen, family, notes)
    names = [family.names[i] for i in order]
    order = order if len(values) > 1 else [0]
    arrays = {kind: scores[:, order], "labels": labels, "class_names": np.array(names)}
    return arrays, {*family.columns}


def _check_probs(frame: DataFrame, scores: Array, family: Family) -> None:
    """Refuse columns whose names do not say that they are scores, unless they are probabilities."""
    if scores.min() >= -scales.SLACK and scores.max() <= 1 + scales.SLACK:
        return
    if columns.is_distribution(frame, family.columns):  # percentages
        return
    if len(family.columns) == 1 and scales.is_percent(scores, family.columns[0]):
        return
    inside = (scores.min(axis=0) >= -scales.SLACK) & (scores.max(axis=0) <= 1 + scales.SLACK)
    odd = [c for c, fine in zip(family.columns, inside, strict=True) if not fine]
    rest = [c for c in family.columns if c not in odd]
    way = ""
    if len(rest) > 1 and columns.is_distribution(frame, rest):
        way = f"; leave out what is no score: {' '.join(line(ignore=c) for c in odd)}"
    elif family.prefix:
        way = f"; if they are logits: {line(logits=family.pattern)}"
    raise ValueError(
        f"got columns {few_of(family.columns)}, read as probabilities of these classes, but some "
        f"are not between 0 and 1 ({few_of(odd)}){way}; or name the columns of scores prob_NAME "
        "or logit_NAME"
    )


def _matched(
    column: Series, seen: list[str], family: Family, notes: list[str]
) -> tuple[Array, list[int]]:
    """Match the labels with the columns of scores.

    Labels and columns are matched by name. If the labels are numbers that no column is called by,
    label 0 is the first column, and so on; columns that have numbers are sorted by them first.

    Returns
    -------
    array (n,), list of int
        The labels, and the order in which to take the columns.
    """
    names = family.names
    order = list(range(len(names)))
    whole = all(map(is_number, seen))
    if set(seen) <= set(names):
        labels = cells.labels(column)
        return cells.texts(column) if labels.dtype.kind != "U" else labels, order
    if seen == ["-1", "1"] or not whole or len(names) < 2:
        return cells.labels(column), order
    numbers = all(map(is_number, names))
    if numbers:
        order = sorted(order, key=lambda i: int(names[i]))
    names = [names[i] for i in order]
    if not numbers and set(names) == {f"not {names[1]}", names[1]}:  # from one column of scores
        return cells.labels(column), order
    if len(family.columns) > 1:
        first, second = (family.columns[i] for i in order[:2])
        how = "in the order of their numbers" if numbers else "in their order in the file"
        notes.append(
            f"The labels are numbers that the columns' names do not have, so columns were matched "
            f"by position, {how}: label 0 is {first!r}, 1 is {second!r}."
        )
    return cells.labels(column), order


def _two_names(labels, seen: list[str], name: str, alone: bool) -> list[str]:
    """The names of both classes where one column, called `name`, has the scores of the second.

    With `alone`, the column's name is a general word such as ``prob`` and not that of a class.
    """
    if len(seen) > 2:
        raise ValueError(
            f"{labels.name}: got {few_of(seen)} with one column of scores, {name!r}; expected two "
            "classes, or a column of scores for each class"
        )
    if name in seen:
        return [next((x for x in seen if x != name), f"not {name}"), name]
    if seen == ["-1", "1"]:
        return seen if alone else [f"not {name}", name]
    if set(seen) <= {"0", "1", "False", "True"}:
        return ["0", "1"] if alone else [f"not {name}", name]
    raise ValueError(
        f"{name}: got one column of scores and the labels {few_of(seen)}, expected a name that "
        f"says which label the scores are for: rename the column, for instance prob_{seen[-1]}"
    )
