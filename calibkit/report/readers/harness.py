"""Multiple choice in lm-evaluation-harness."""

import numpy as np

from calibkit.report.names import is_number
from calibkit.report.readers.asked import Asked
from calibkit.report.readers.ids import together
from calibkit.report.readers.named import Arrays, among, grouped


def harness_arrays(rows: list[dict], asked: Asked) -> Arrays:
    """Multiple choice in lm-evaluation-harness: for each choice its log-probability.

    ``filtered_resps`` holds a pair [log-probability, is it the greedy continuation?] for each
    choice and ``target`` the number of the right one; newer versions write all of them as text.
    """
    first = rows[0].get("filter")
    filters = {row.get("filter") for row in rows}
    rows = [row for row in rows if row.get("filter") == first]
    questions = [(row, _choices(row)) for row in rows]
    questions = [(row, choices, _target(row, len(choices))) for row, choices in questions]
    questions = [question for question in questions if question[2] is not None]
    sizes = [len(choices) for _, choices, _ in questions]
    if max(sizes, default=0) < 2:
        raise ValueError(
            "got no question with two or more choices and one right answer, expected "
            "multiple choice"
        )
    logits = np.full((len(questions), max(sizes)), -1e4)  # a choice that a question does not have
    for scores, (_, choices, _) in zip(logits, questions, strict=True):
        scores[: len(choices)] = choices
    kept, labels = [row for row, *_ in questions], np.array([right for *_, right in questions])
    notes = [
        "File format: lm-evaluation-harness. Probabilities are the log-probabilities of the "
        "choices, normalised over the choices of each question (as in acc, not acc_norm). The "
        "classes are positions of choices."
    ]
    if min(sizes) < max(sizes):
        notes.append(f"Questions have {min(sizes)} to {max(sizes)} choices.")
    if left_out := len(rows) - len(kept):
        notes.append(f"{left_out:,} questions without one right choice are left out.")
    if len(filters) > 1:
        notes.append(f"Only the filter {str(first)!r} was read, of {len(filters)}.")
    ours = (logits.argmax(axis=1) == labels).mean()
    theirs = [float(row["acc"]) for row in kept if isinstance(row.get("acc"), int | float)]
    if len(theirs) == len(labels) and abs(np.mean(theirs) - ours) > 0.005:
        notes.append(
            f"The harness counted {100 * np.mean(theirs):.1f}\u00a0% right, these "
            f"log-probabilities give {100 * ours:.1f}\u00a0%."
        )
    group, names = asked.group, {}
    if asked.ids is not None:
        name = asked.ids or "doc_id"
        if asked.ids or all(name in row for row in kept):
            among((name,), set.intersection(*map(set, kept)), "fields of every line: ", "id")
            names = {name: np.array([str(row[name]) for row in kept], dtype=object)}
    fields = [{**row.get("doc", {}), **row} for row in kept] if group else []
    among(group, set.intersection(*map(set, fields)) if fields else (), "fields of every line: ")
    columns = [np.array([str(row[name]) for row in fields]) for name in group]
    arrays = {"logits": logits, "labels": labels} | grouped(group, columns)
    arrays |= together(names)
    if (name := asked.cluster) is not None:
        fields = [{**row.get("doc", {}), **row} for row in kept]
        among((name,), set.intersection(*map(set, fields)), "fields of every line: ", "cluster")
        arrays["clusters"] = np.array([str(row[name]) for row in fields])
        arrays["cluster_name"] = np.array(name)
    return arrays, notes


def _choices(row: dict) -> list[float]:
    """The log-probability of each choice."""
    pairs = row.get("filtered_resps")
    try:
        choices = [float(pair[0]) for pair in pairs if len(pair) == 2]
        if len(choices) != len(pairs) or isinstance(pairs[0], str):
            raise ValueError
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise ValueError(
            "filtered_resps: expected a pair [log-probability, is_greedy] for each choice; "
            "generated text has no probabilities, so save a confidence and correct a line"
        ) from error
    # With mutual information each choice is there once more, without its question.
    return choices[: len(choices) // 2] if "acc_mutual_info" in row else choices


def _target(row: dict, choices: int) -> int | None:
    """The number of the right choice; None if there are several, or none of these."""
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
