"""Names in files and in messages."""

import numpy as np

from calibkit.arrays import Array

# Names of arrays, in the order of messages.
KEYS = ("logits", "probs", "labels", "val_logits", "val_probs", "val_labels")
KEYS += ("groups", "class_names", "confidence", "correct", "val_confidence", "val_correct")
KEYS += ("weights", "val_weights", "clusters", "val_clusters", "answers", "val_answers")


def is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 19


def text_of(array: Array) -> Array:
    """An array of names: numbers as written, bytes decoded."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "replace")
    return array.astype(str)


def one_line(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]


def few_of(names) -> str:
    """The first names of many, quoted so that no control character gets through."""
    names = [str(name) for name in names]
    shown = ", ".join(repr(name) if len(name) < 60 else repr(name[:57]) + "…" for name in names[:5])
    return (shown or "nothing") + (f" and {len(names) - 5} more" if len(names) > 5 else "")
