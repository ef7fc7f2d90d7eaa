"""Read files of NumPy (.npz, .npy) and dicts of tensors of torch (.pt)."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from calibkit.arrays import Array
from calibkit.files import shown
from calibkit.report.readers import memory
from calibkit.report.readers.asked import Asked
from calibkit.report.readers.named import Arrays, array_of, named

_OBJECTS = "holds Python objects, not read because they could run code: save numbers or strings"


def npz_arrays(path: Path, asked: Asked) -> Arrays:
    """Read an archive of named arrays, or the raw logits of fd-shifts."""
    with load_numpy(path) as archive:
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("got a single array, expected an archive of named arrays")
        keys, sizes = set(archive.files), {}
        if keys == {"arr_0"}:
            return _fd_shifts(_member(archive, "arr_0", sizes))
        return named(keys, lambda name: _member(archive, name, sizes), asked)


def load_numpy(path: Path) -> Any:
    """Open a file of NumPy: an array for .npy, an archive for .npz; `ValueError` if too large."""
    with path.open("rb") as file:
        size = _size(file, path.stat().st_size)
    memory.check(size, "its array takes")
    with _no_objects(f"{shown(path.name)!r} is not a NumPy file, or"):
        return np.load(path, allow_pickle=False)


@contextlib.contextmanager
def _no_objects(what: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        if "pickle" in str(error):
            raise ValueError(f"{what} {_OBJECTS}") from error
        raise


def _member(archive, key: str, sizes: dict[str, int]) -> Array:
    """Read one array of an archive; `sizes` counts the bytes of all arrays that were read."""
    info = archive.zip.getinfo(f"{key}.npy" if f"{key}.npy" in archive.zip.namelist() else key)
    with archive.zip.open(info) as file:
        sizes[key] = _size(file, info.file_size)
    memory.check(sizes[key], f"{key!r} takes")
    memory.check(sum(sizes.values()), "its arrays take")
    with _no_objects(repr(key)):
        return archive[key]


def _size(file: BinaryIO, whole: int) -> int:
    """Bytes that an array takes, read from its header; 0 if the file holds no array.

    `whole` is the size of the file in bytes: an array that does not fit into it is damaged.
    """
    start = file.read(8)
    versions = {b"\1\0": np.lib.format.read_array_header_1_0}
    versions |= {b"\2\0": np.lib.format.read_array_header_2_0}
    read = versions.get(start[6:])
    if not start.startswith(b"\x93NUMPY") or read is None:
        return 0
    shape, _, dtype = read(file)
    size = math.prod(shape) * dtype.itemsize
    rest = whole - file.tell()
    if size > rest and not dtype.hasobject:
        raise ValueError(f"ends early, with {rest:,} bytes of an array of {size:,}: save it again")
    return size


def _fd_shifts(array: Array) -> Arrays:
    """Read raw_logits.npz of fd-shifts: k columns of logits, the label, the data set's number.

    If there are several data sets, the first one becomes the validation set.
    """
    if array.ndim != 2 or array.shape[1] < 4 or array.dtype.kind != "f":
        raise ValueError(
            f"got one array without a name, of shape {array.shape} and type {array.dtype}, "
            "expected named arrays, 'logits' or 'probs' and 'labels', or raw logits from fd-shifts"
        )
    scores, label, dataset = array[:, :-2], array[:, -2], array[:, -1]
    if not (np.isfinite(dataset).all() and (dataset == np.round(dataset)).all()):
        raise ValueError("got one array whose last column does not number data sets (fd-shifts)")
    notes = ["File format: raw logits from fd-shifts."]
    sets = np.unique(dataset.astype(np.int64))
    if len(sets) == 1:
        return {"logits": scores, "labels": label}, notes
    test = dataset != sets[0]
    notes.append(
        f"Data set {sets[0]} was read as the validation set (val_tuning), "
        f"data set{'s' * (len(sets) > 2)} {', '.join(map(str, sets[1:]))} as the test set."
    )
    arrays = {"logits": scores[test], "labels": label[test]}
    arrays |= {"val_logits": scores[~test], "val_labels": label[~test]}
    if len(sets) > 2:
        arrays["groups"] = np.char.add("data set ", dataset[test].astype(np.int64).astype(str))
    return arrays, notes


def npy_arrays(path: Path, asked: Asked) -> Arrays:
    """Read a single array (n, k), taken for logits until its values show what it is."""
    if asked.group:
        raise ValueError("group: a .npy file holds one array, expected an .npz or a table")
    return {"logits": load_numpy(path)}, []


def tensor_arrays(path: Path, asked: Asked) -> Arrays:
    """Read a dict of tensors that torch.save wrote; anything else in the file is refused."""
    try:
        import torch
    except ImportError as error:
        raise ValueError("a .pt file needs torch: pip install torch, or save an .npz") from error
    import pickle

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            "not a dict of tensors, or damaged: save torch.save({'logits': …, 'labels': …})"
        ) from error
    if isinstance(found, tuple | list) and len(found) == 2:
        raise ValueError(
            f"got a {type(found).__name__} of 2, expected a dict of named tensors: save it as "
            "torch.save({'probs': found[0], 'labels': found[1]}, 'preds.pt'), or 'logits' if the "
            "first are scores before the softmax"
        )
    if not isinstance(found, dict):
        raise ValueError(f"got a {type(found).__name__}, expected a dict of named tensors")
    tensors = [x for x in found.values() if isinstance(x, torch.Tensor)]
    # A view can repeat few numbers any number of times.
    memory.check(sum(x.numel() * x.element_size() for x in tensors), "its tensors take")
    return named({str(key) for key in found}, lambda name: array_of(found[name]), asked)
