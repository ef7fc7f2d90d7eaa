"""Arrays under our names, from those of any tool."""

from collections.abc import Callable, Collection

import numpy as np

from calibkit.arrays import Array, to_numpy
from calibkit.report.names import KEYS, few_of, text_of

NAMES = {  # what others call our arrays and columns
    key: tuple(names.split())
    for key, names in {
        "probs": "probs prob proba probas y_prob y_proba y_probs y_pred_proba p probability "
        "probabilities pred_proba predict_proba",
        "logits": "logits logit scores score y_score y_scores outputs decision_function",
        "labels": "labels label y_true target targets true_label true y y_test actual "
        "ground_truth gold label_ids",
        "confidence": "confidence conf confidences max_prob msp",
        "correct": "correct is_correct right hit acc",
        "groups": "groups group slice slices",
        "weights": "weights weight sample_weight sample_weights",
        "class_names": "class_names classes classes_",
        # Of columns alone: the logarithm of the confidence; the answer, which with the label says
        # whether it is right; the part of the data.
        "logprob": "logprob log_prob mean_logprob",
        "answer": "y_pred pred prediction predicted predicted_class predicted_label answer",
        "split": "split",
    }.items()
}
PREFIXES = {"logit_": "logits", "prob_": "probs", "proba_": "probs", "p_": "probs"}
PREFIXES |= {"probability_": "probs", "score_": "logits"}
VALIDATION = ("val", "valid", "validation")


Arrays = tuple[dict[str, Array], list[str]]


def named(keys: set[str], get: Callable[[str], Array], group: tuple[str, ...]) -> Arrays:
    """Named arrays under our names, from those of any tool."""
    among(group, keys, "names among ")
    keys = keys - set(group)
    names = _by_alias(keys)
    if not {"logits", "probs"} & set(names) and not {"confidence", "correct"} <= set(names):
        raise ValueError(
            f"got arrays {few_of(sorted(keys))}, expected 'logits' or 'probs', and 'labels'; "
            "or 'confidence' and 'correct'"
        )
    others = [f"{name!r} as {ours}" for ours, name in names.items() if ours != name]
    notes = [f"Read {', '.join(others)}."] if others else []
    for prefix in ("", "val_"):  # the first that says most
        kinds = [prefix + x for x in ("logits", "probs", "confidence") if prefix + x in names]
        for kind in kinds[1:]:
            del names[kind]
        if kinds and kinds[0] != prefix + "confidence":
            names.pop(prefix + "correct", None)
    if group:
        names.pop("groups", None)
    unused = sorted(keys - set(names.values()))
    if unused and "test_logits" not in keys:  # a record has much else
        notes.append(f"Not used: {few_of(unused)}.")
    arrays = {ours: get(name) for ours, name in names.items()}
    columns = [text_of(np.asarray(to_numpy(get(name)))) for name in group]
    if len({x.shape for x in columns}) > 1 or any(x.ndim != 1 for x in columns):
        shapes = ", ".join(str(column.shape) for column in columns)
        raise ValueError(f"group: got shapes {shapes}, expected (n,) for each")
    return arrays | grouped(group, columns), notes


def among(group: tuple[str, ...], names: Collection[str], expected: str) -> None:
    if missing := [name for name in group if name not in names]:
        shown = few_of(sorted(names) if isinstance(names, set) else names)
        raise ValueError(f"group: got {few_of(missing)}, expected {expected}{shown}")


def grouped(group: tuple[str, ...], columns: list) -> dict[str, Array]:
    if not group:
        return {}
    return {"groups": np.stack(columns, axis=1), "group_names": np.array(group)}


def _by_alias(keys: set[str]) -> dict[str, str]:
    lower = {key.lower(): key for key in sorted(keys)}
    found: dict[str, str] = {}
    prefixes = {"": "", "test_": "", "val_": "val_", "valid_": "val_", "validation_": "val_"}
    for prefix, ours in prefixes.items():
        for name, others in NAMES.items():
            theirs = next((lower[prefix + x] for x in others if prefix + x in lower), None)
            if theirs is not None and ours + name in KEYS:
                found.setdefault(ours + name, theirs)
    if "predictions" in lower and not {"logits", "probs"} & set(found):
        found["logits"] = lower["predictions"]  # of Hugging Face; netcal's are probabilities
    return found


def array_of(value) -> Array:
    """A list or tensor as an array of numbers or text, never of objects."""
    array = to_numpy(value)
    if array.dtype.kind == "O":
        raise ValueError(f"got {str(value)[:40]!r}, expected an array of numbers or names")
    return array
