"""Read labels: numbers, names or one-hot rows, of which -1 and -100 mean "no label"."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibkit.arrays import Array, ArrayLike, to_numpy
from calibkit.report.names import Names, few_of, is_number, text_of

NO_LABEL = (-1, -100)  # "unknown" by convention, and what torch and Hugging Face ignore


class MinusOne(NamedTuple):
    """How to renumber labels in which -1 is a class.

    Attributes
    ----------
    names : tuple of str
        The names of the classes.
    halved : bool or None
        True: -1 and 1 become 0 and 1. False: every label rises by 1. None: labels are names.
    note : str
        A sentence for the user.
    """

    names: Names
    halved: bool | None
    note: str

    def of(self, labels: Array) -> Array:
        """Renumber labels (n,) from 0; -100, which means "no label", stays."""
        text = as_text(labels)
        if self.halved is None:
            return text
        if self.halved:
            return np.where(text == "-1", "0", np.where(text == "1", "1", text))
        whole = np.array([int(x) if is_number(x) else -100 for x in text.tolist()])
        return np.where(whole == -100, -100, whole + 1)


def minus_one_is_class(
    labels: Sequence[Array], k: int, names: Names, asked: str | None
) -> MinusOne | None:
    """How to read labels in which -1 is a class; None if -1 means "no label" or does not occur.

    The label -1 is a class if `names` has it, if there are two classes and all labels are -1 or
    1, or if `asked` is "class".

    Parameters
    ----------
    labels : sequence of arrays (n,)
        The labels of the test set, and of the validation set if there is one.
    k : int
        Number of classes.
    names : tuple of str
        Names of the columns of scores; may be empty.
    asked : {"class", "none"} or None
        What the caller says about -1.
    """
    if asked == "none" or any(x.ndim != 1 or x.dtype.kind not in "iufUS" for x in labels):
        return None
    if not labels:
        return None
    seen = {text for x in labels for text in as_text(np.unique(x)).tolist()}
    if "-1" in names:  # a column says so
        note = "The label -1 is read as a class, since a column or all labels say so."
        return MinusOne(names, None, note) if "-1" in seen else None
    if k == 2 and seen == {"-1", "1"}:
        ours = ("-1", "1") if set(names) <= {"0", "1"} else names
        shown = " and ".join(ours)
        return MinusOne(
            ours,
            True,
            f"All labels are -1 or 1: read as the two classes {shown}. (If -1 means that the label "
            "is unknown, say --minus-one none.)",
        )
    if asked == "class" and "-1" in seen:
        own = names or tuple(str(i - 1) for i in range(k))
        return MinusOne(own, False, "The label -1 is the first class, as --minus-one class says.")
    return None


def are_several(labels: Array) -> bool:
    """Whether labels (n, k) of 0 and 1 are multi-label: some row has no 1, or more than one.

    Rows with a number below 0 or NaN are unknown and do not count.
    """
    if labels.ndim != 2 or labels.shape[1] < 2 or labels.dtype.kind not in "biuf":
        return False
    known = labels[~((labels < 0) | (labels != labels)).any(axis=1)]
    return bool(known.size and np.isin(known, (0, 1)).all() and (known.sum(axis=1) != 1).any())


def check_one_label(labels: ArrayLike, name: str) -> None:
    """Raise `ValueError` if labels (n, k) are multi-label."""
    array = to_numpy(labels, name)
    if not are_several(array):
        return
    sums = np.nansum(np.maximum(array, 0), axis=1)
    raise ValueError(
        f"{name}: got rows of {int(sums.min())} to {int(sums.max())} labels at once "
        f"(multi-label), expected one in each row: --one-label NAME takes "
        "one of them, by its name or its number from 0"
    )


def as_text(labels: Array) -> Array:
    """Labels (n,) as text: 3.0 becomes "3", True becomes "1", "+1" becomes "1"."""
    if labels.dtype.kind == "f" and (np.abs(labels) < 1e15).all():
        labels = labels.astype(np.int64) if (labels == np.round(labels)).all() else labels
    if labels.dtype.kind == "b":
        labels = labels.astype(np.int64)
    text = text_of(labels)
    if labels.dtype.kind in "US":
        text = np.char.strip(text)
        text = np.where(text == "+1", "1", text)
        text = np.where(text == "1.0", "1", np.where(text == "-1.0", "-1", text))
    return text


def numbered(labels: ArrayLike, n: int, k: int, names: Names, name: str) -> Array:
    """Labels as whole numbers (n,), from numbers, names or one-hot rows.

    Parameters
    ----------
    labels : array (n,), (n, 1) or (n, k)
        Numbers, names, or one-hot rows.
    n, k : int
        Number of samples and of classes.
    names : tuple of str
        Names of the classes; may be empty.
    name : str
        What an error calls the labels.

    Raises
    ------
    ValueError
        The shape is wrong, a number is no whole number, or a name is unknown.
    """
    array = to_numpy(labels, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    one_hot = array.shape == (n, k) and array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all()
    if one_hot and (array.sum(axis=1) == 1).all():
        return array.argmax(axis=1)
    if array.ndim != 1 or array.size != n:
        raise ValueError(f"{name}: got shape {array.shape}, expected ({n},), one for each sample")
    if array.dtype.kind == "f":
        odd = array[~((np.abs(array) < 1e15) & (array == np.round(array)))]
        if odd.size:
            raise ValueError(f"{name}: got {odd[0]:g}, expected whole numbers 0 to {k - 1}")
        array = array.astype(np.int64)
    if array.dtype.kind in "US":
        return _by_name(text_of(array), k, names, name)
    if array.dtype.kind not in "biu":
        raise ValueError(f"{name}: got type {array.dtype}, expected whole numbers or names")
    own = [str(i) for i in range(k)]
    if names and all(is_number(x) for x in names) and list(names) != own:
        if sorted(names) == sorted(own):  # a label may be a column's position or its name
            raise ValueError(
                f"class_names: got the numbers {few_of(names)} in another order than the columns, "
                f"so {name} that are numbers could mean a name or a column; write the {name} as "
                "text to mean names"
            )
        return _by_name(text_of(array), k, names, name)  # columns called 1 to k, or 7 and 9
    return array.astype(np.int64)


def _by_name(labels: Array, k: int, names: Names, name: str) -> Array:
    distinct, place = np.unique(labels, return_inverse=True)
    number = {str(i): i for i in NO_LABEL} | {x: i for i, x in enumerate(names)}
    if not all(x in number for x in distinct) and all(is_number(x) for x in distinct):
        places = {x: int(x) for x in distinct}
        if set(places.values()) <= {*NO_LABEL, *range(k)} or not all(is_number(x) for x in names):
            number = places
    unknown = [str(x) for x in distinct if x not in number]
    if unknown and not names:
        raise ValueError(
            f"{name}: got names such as {unknown[0]!r}, expected numbers 0 to {k - 1}; "
            "or give class_names, the name of each column"
        )
    if unknown:
        raise ValueError(f"{name}: got {few_of(unknown)}, expected names among {few_of(names)}")
    return np.array([number[x] for x in distinct], dtype=np.int64)[place]
