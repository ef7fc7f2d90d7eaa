"""Names in files and in messages."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from calibkit.arrays import Array

Say: TypeAlias = Callable[[str], None]  # is called with some words
Names: TypeAlias = tuple[str, ...]
File: TypeAlias = str | os.PathLike[str]

# Names of arrays, in the order of messages.
KEYS = ("logits", "probs", "labels", "val_logits", "val_probs", "val_labels")
KEYS += ("groups", "class_names", "confidence", "correct", "val_confidence", "val_correct")
KEYS += ("weights", "val_weights", "clusters", "val_clusters", "answers", "val_answers")


def silent(words: str) -> None:
    """A `Say` that does nothing."""


def is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 19


def text_of(array: Array) -> Array:
    """An array of names as text; bytes are decoded."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "replace")
    return array.astype(str)


def one_line(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]


def few_of(names: Iterable[Any]) -> str:
    """The first few names as one text, quoted and without control characters."""
    names = [str(name) for name in names]
    shown = ", ".join(repr(name) if len(name) < 60 else repr(name[:57]) + "…" for name in names[:5])
    return (shown or "nothing") + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def first_three(things: Sequence[Any]) -> str:
    """The first three things, such as numbers of rows, as in "1, 2, 3, …"."""
    return ", ".join(map(str, things[:3])) + (", …" if len(things) > 3 else "")


class Naming(str):
    """A sentence that names some rows as examples; `without` is the sentence without them."""

    without: str

    def __new__(cls, start: str, examples: str, end: str = "") -> "Naming":
        made = super().__new__(cls, start + examples + end)
        made.without = start + end
        return made


def after(start: str, note: str) -> str:
    """Put words before a note; a `Naming` stays a `Naming`."""
    made = Naming(start, note)
    made.without = start + getattr(note, "without", note)
    return made


def without_examples(notes: Sequence[str]) -> list[str]:
    """The same notes, without the rows that they name as examples.

    >>> without_examples([Naming("2 rows are empty", " (rows 4, 9)", "."), "Else."])
    ['2 rows are empty.', 'Else.']
    """
    return [getattr(note, "without", note) for note in notes]
