"""Read the samples that lm-evaluation-harness logs for a multiple-choice task."""

from typing import Any

import numpy as np

from calibkit.arrays import Array
from calibkit.report.names import Names, is_number
from calibkit.report.readers.asked import Asked
from calibkit.report.readers.ids import together
from calibkit.report.readers.named import Arrays, among, grouped


def harness_arrays(rows: list[dict[str, Any]], asked: Asked) -> Arrays:
    """Read multiple-choice samples of lm-evaluation-harness: n questions with up to k choices.

    Parameters
    ----------
    rows : list of dict
        One for each question and filter. ``filtered_resps`` holds a pair [log-probability,
        is it the greedy continuation?] for each choice, and ``target`` the number of the right
        choice. Newer versions write both as text.
    asked : Asked
        Which fields are groups, names or clusters.

    Returns
    -------
    dict of str to array, list of str
        "logits" (n, k), the log-probabilities; "labels" (n,); the fields that were asked for; and
        sentences for the user.

    Raises
    ------
    ValueError
        No question has two or more choices and one right answer.
    """
    first, filters = rows[0].get("filter"), {row.get("filter") for row in rows}
    rows = [row for row in rows if row.get("filter") == first]
    kept, scores, labels = _questions(rows)
    sizes = [len(choices) for choices in scores]
    if max(sizes, default=0) < 2:
        raise ValueError(
            "got no question with two or more choices and one right answer, expected multiple "
            "choice"
        )
    logits = np.full((len(kept), max(sizes)), -1e4)  # -1e4: the question has fewer choices
    for out, choices in zip(logits, scores, strict=True):
        out[: len(choices)] = choices
    notes = [
        "File format: lm-evaluation-harness. Probabilities are the log-probabilities of the "
        "choices, normalised over the choices of each question (as in acc, not acc_norm). The "
        "classes are positions of choices."
    ]
    if min(sizes) < max(sizes):
        notes.append(f"Questions have {min(sizes)} to {max(sizes)} choices.")
    if left_out := len(rows) - len(kept):
        notes.append(f"{left_out:,} questions do not have exactly one right choice: left out.")
    if len(filters) > 1:
        notes.append(f"Only the filter {str(first)!r} was read, of {len(filters)}.")
    notes += _other_accuracy(kept, logits.argmax(axis=1) == labels)
    return {"logits": logits, "labels": labels} | _named(kept, asked), notes


def _questions(rows: list[dict[str, Any]]) -> tuple[list[dict], list[list[float]], Array]:
    """The rows with exactly one right choice, their choices' log-probabilities, and its number."""
    kept, scores, labels = [], [], []
    for row in rows:
        choices = _choices(row)
        if (right := _target(row, len(choices))) is not None:
            kept.append(row)
            scores.append(choices)
            labels.append(right)
    return kept, scores, np.array(labels)


def _other_accuracy(kept: list[dict[str, Any]], right: Array) -> list[str]:
    """A note if the harness reports another accuracy, by more than 0.5 points."""
    theirs = [float(row["acc"]) for row in kept if isinstance(row.get("acc"), int | float)]
    if len(theirs) < len(right) or abs(np.mean(theirs) - right.mean()) <= 0.005:
        return []
    return [
        f"The harness counted {100 * np.mean(theirs):.1f}\u00a0% right, these log-probabilities "
        f"give {100 * right.mean():.1f}\u00a0%."
    ]


def _named(kept: list[dict[str, Any]], asked: Asked) -> dict[str, Array]:
    """The groups, names and clusters of the questions that the caller asked for."""
    arrays: dict[str, Array] = {}
    if asked.ids is not None:
        name = asked.ids or "doc_id"
        if asked.ids or all(name in row for row in kept):
            (ids,) = _fields(kept, (name,), "id")
            arrays |= together({name: ids})
    if not (asked.group or asked.cluster):
        return arrays
    inner = [{**row.get("doc", {}), **row} for row in kept]
    arrays |= grouped(asked.group, _fields(inner, asked.group, "group"))
    if asked.cluster is not None:
        (arrays["clusters"],) = _fields(inner, (asked.cluster,), "cluster")
        arrays["cluster_name"] = np.array(asked.cluster)
    return arrays


def _fields(rows: list[dict[str, Any]], names: Names, what: str) -> list[Array]:
    """The values of some fields as text, an array (n,) for each; `ValueError` if a row lacks one.

    `what` is the option that the error names.
    """
    if not names:
        return []
    among(names, set.intersection(*map(set, rows)), "fields of every line: ", what)
    return [np.array([str(row[name]) for row in rows]) for name in names]


def _choices(row: dict) -> list[float]:
    """The log-probability of each choice of a question; `ValueError` if it has none."""
    pairs = row.get("filtered_resps")
    try:
        choices = [float(pair[0]) for pair in pairs if len(pair) == 2]
        if len(choices) != len(pairs) or isinstance(pairs[0], str):
            raise ValueError
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise ValueError(
            "filtered_resps: expected a pair [log-probability, is_greedy] for each choice; "
            "generated text has no probabilities: save a confidence and correct on each line"
        ) from error
    # With mutual information, each choice is scored a second time without its question.
    return choices[: len(choices) // 2] if "acc_mutual_info" in row else choices


def _target(row: dict, choices: int) -> int | None:
    """The number of the right choice, from 0; None if no choice or several match the target."""
    target = row.get("target")
    if is_number(str(target)):
        return int(target) if 0 <= int(target) < choices else None
    texts = row.get("arguments")  # the continuations that were scored
    if isinstance(texts, dict):
        texts = [list(x.values()) if isinstance(x, dict) else x for x in texts.values()]
    if not isinstance(texts, list):
        return None
    texts = [str(x[1]).strip() for x in texts[:choices] if isinstance(x, list) and len(x) > 1]
    return texts.index(str(target).strip()) if texts.count(str(target).strip()) == 1 else None
