"""Find logits, labels and so on among the arrays of a file, whatever a tool has named them."""

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import numpy as np

from calibkit.arrays import Array, to_numpy
from calibkit.report.names import KEYS, Names, few_of, text_of
from calibkit.report.readers import ids, scales
from calibkit.report.readers.asked import Asked, line
from calibkit.report.readers.vocabulary import NAMES, WEAK

Arrays: TypeAlias = tuple[dict[str, Array], list[str]]  # by name, and sentences for the user
PREFIXES = {"": "", "test_": "", "val_": "val_", "valid_": "val_", "validation_": "val_"}


def named(keys: set[str], get: Callable[[str], Array], asked: Asked) -> Arrays:
    """Read the arrays of a file, whatever names they have there, and call them by ours.

    Parameters
    ----------
    keys : set of str
        The names in the file.
    get : function of str
        Returns the array of a name.
    asked : Asked
        What the caller says about the names.

    Returns
    -------
    dict of str to array, list of str
        The arrays by our names, such as "logits", "labels" and "val_labels"; sentences for the
        user about how the file was read.

    Raises
    ------
    ValueError
        Scores or a named array are missing, or two arrays of labels differ.
    """
    group = asked.group
    among(group, keys, "names among ")
    clusters = _clusters(keys, get, asked.cluster)
    ignored = asked.of("ignore", keys) or []
    keys = keys - {*group, *ignored, asked.cluster, f"val_{asked.cluster}"}
    names = _by_alias(keys, get, asked)
    if not {"logits", "probs"} & set(names) and not {"confidence", "correct"} <= set(names):
        raise ValueError(
            f"got arrays {few_of(sorted(keys))}, expected 'logits' or 'probs', and 'labels'; "
            f"or 'confidence' and 'correct'; otherwise say which, as in "
            f"{line(probs='NAME', label='NAME')}"
        )
    _one_kind(names)
    if group:
        names.pop("groups", None)
    arrays = _read(names, get, asked)
    if "labels" in names and "labels" not in asked.columns:
        _check_one_truth(keys, names["labels"], get)
    others = [f"{name!r} as {ours}" for ours, name in names.items() if ours != name]
    notes = [f"Read {', '.join(others)}."] if others else []
    free = keys - set(names.values())
    scores = next(x for x in ("logits", "probs", "confidence") if x in arrays)
    n, more = len(to_numpy(arrays[scores], scores)), {*group, *filter(None, [asked.cluster])}
    matching = ids.of_arrays(free | more, keys | more, get, asked, n)
    unused = sorted(free - {*matching.get("id_names", np.array([])).tolist()})
    if unused and "test_logits" not in keys:  # a record of the book has many other arrays
        notes.append(f"Not used: {few_of(unused)}.")
    columns = [text_of(to_numpy(get(name))) for name in group]
    if len({x.shape for x in columns}) > 1 or any(x.ndim != 1 for x in columns):
        shapes = ", ".join(str(column.shape) for column in columns)
        raise ValueError(f"group: got shapes {shapes}, expected (n,) for each")
    return arrays | grouped(group, columns) | clusters | matching, notes


def _one_kind(names: dict[str, str]) -> None:
    """Keep one kind of scores: logits, or else probabilities, or else confidences.

    Confidences keep the correctness beside them; logits and probabilities keep the model's answers.
    """
    for prefix in ("", "val_"):
        kinds = [prefix + x for x in ("logits", "probs", "confidence") if prefix + x in names]
        for kind in kinds[1:]:
            del names[kind]
        pairs = not kinds or kinds[0] == prefix + "confidence"
        names.pop(prefix + ("answers" if pairs else "correct"), None)


def _read(names: dict[str, str], get: Callable[[str], Array], asked: Asked) -> dict[str, Array]:
    """The arrays by our names. `names` is corrected where an array's values contradict its name."""
    arrays: dict[str, Array] = {}
    for ours, theirs in list(names.items()):
        array = get(theirs)
        if ours.endswith("answers") and to_numpy(array).ndim != 1:
            del names[ours]  # scores, or one-hot rows
            continue
        kind = ours
        if ours.endswith("logits") and theirs not in asked.columns.get("logits", ()):
            kind = _settled(ours, theirs, array)
        if kind != ours:
            names[kind] = names.pop(ours)
        arrays[kind] = array
    return arrays


def _clusters(keys: set[str], get: Callable[[str], Array], name: str | None) -> dict[str, Array]:
    if name is None:
        return {}
    among((name,), keys, "names among ", "cluster")
    found = {"clusters": text_of(to_numpy(get(name))), "cluster_name": np.array(name)}
    if f"val_{name}" in keys:
        found["val_clusters"] = text_of(to_numpy(get(f"val_{name}")))
    return found


def _check_one_truth(keys: set[str], chosen: str, get: Callable[[str], Array]) -> None:
    """Raise `ValueError` if a second array is named like labels and differs from the chosen one."""
    first = to_numpy(get(chosen))
    for other in sorted(keys - {chosen}):
        if other.lower() not in NAMES["labels"]:
            continue
        values = to_numpy(get(other))
        if values.shape == first.shape and (text_of(values) != text_of(first)).any():
            raise ValueError(
                f"got two arrays of labels that differ, {chosen!r} and {other!r}: say which is the "
                f"truth, as in {line(label=chosen, ignore=other)}"
            )


def _settled(ours: str, theirs: str, array: Array) -> str:
    """The kind of scores in `array`: "logits" or "probs", with the prefix of `ours`.

    A name such as ``score`` does not tell the kind, so the values decide.
    """
    values = to_numpy(array)
    if theirs.lower().removeprefix("val_").removeprefix("test_") not in WEAK:
        return ours
    column = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    return ours if scales.weak_logits(column, theirs) else ours.replace("logits", "probs")


def among(group: Names, names: Collection[str], expected: str, what: str = "group") -> None:
    """Raise `ValueError` if a name of `group` is not in `names`; `what` is the option at fault."""
    if missing := [name for name in group if name not in names]:
        shown = few_of(sorted(names) if isinstance(names, set) else names)
        raise ValueError(f"{what}: got {few_of(missing)}, expected {expected}{shown}")


def grouped(group: Names, columns: list[Array]) -> dict[str, Array]:
    """Put columns of groups (n,) side by side: "groups" (n, g) and "group_names" (g,)."""
    if not group:
        return {}
    return {"groups": np.stack(columns, axis=1), "group_names": np.array(group)}


def _are_scores(array: Array) -> bool:
    """Whether numbers must be scores, not answers: several for each sample, or fractions."""
    values = to_numpy(array)
    if values.dtype.kind not in "fiuV" or not values.size:
        return False
    return values.ndim > 1 or bool(values.dtype.kind == "f" and (values % 1).any())


def _by_alias(keys: set[str], get: Callable[[str], Array], asked: Asked) -> dict[str, str]:
    said = {role: asked.one(role, keys) for role in asked.columns if role != "ignore"}
    found = {_ours(role): name for role, name in said.items() if name}
    if {"logits", "probs"} & set(said):  # the caller's choice rules out other arrays of scores
        keys = {x for x in keys if x.lower() not in (*NAMES["logits"], *NAMES["probs"])}
    lower = {key.lower(): key for key in sorted(keys - set(said.values()))}
    for prefix, ours in PREFIXES.items():
        for role, others in NAMES.items():
            theirs = next((lower[prefix + x] for x in others if prefix + x in lower), None)
            if theirs is not None and ours + _ours(role) in KEYS:
                found.setdefault(ours + _ours(role), theirs)
    if {"logits", "probs", "confidence"} & set(found):
        return found
    # Hugging Face saves logits under these names. netcal saves probabilities: rows that sum to 1.
    known = [lower[x] for x in ("predictions", "preds", "y_pred", "y_hat") if x in lower]
    scores = next((name for name in known if _are_scores(get(name))), None)
    if scores is None:
        return found
    return {key: name for key, name in found.items() if name != scores} | {"logits": scores}


def _ours(role: str) -> str:
    return "answers" if role == "answer" else role


def array_of(value: Any) -> Array:
    """A list or tensor as an array of numbers or text, never of objects."""
    array = to_numpy(value)
    if array.dtype.kind == "O":
        raise ValueError(f"got {str(value)[:40]!r}, expected an array of numbers or names")
    return array
