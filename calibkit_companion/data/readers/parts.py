"""`Parts`, the result of a reader, and the error about a damaged file."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

DIGITS = tuple("0123456789")


@dataclass(frozen=True, eq=False)
class Parts:
    """The official training and test part of a data set.

    Attributes
    ----------
    train, test : arrays of inputs (n, ...); images are uint8, (n, c, h, w)
    train_labels, test_labels : integer arrays (n,), classes
    classes : names of the classes
    note : a remark for readers of results; may be empty
    mean, std : mean and standard deviation of each channel; images count as numbers from 0 to 1.
        Empty until they are computed
    """

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    classes: tuple[str, ...]
    note: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def damaged(path: Path, why: object) -> ValueError:
    """Make the error about a damaged file, in one line.

    Parameters
    ----------
    path : path of the file
    why : the fault, in words or as an exception
    """
    reason = " ".join(str(why).split())
    return ValueError(f"{path}: truncated, altered or unreadable ({reason}); get it again")


def moments(train: np.ndarray) -> dict:
    """Compute mean and standard deviation of each channel.

    Parameters
    ----------
    train : array of inputs (n, c, ...); images (uint8) count as numbers from 0 to 1

    Returns
    -------
    dict
        ``mean`` and ``std``, one number for each channel; empty for token ids.
    """
    channels = range(train.shape[1])
    if train.dtype == np.uint8:
        counts = np.zeros((len(channels), 256), np.int64)
        for start in range(0, len(train), 4096):  # a histogram of bytes needs no float copy
            block = np.asarray(train[start : start + 4096])
            counts += [np.bincount(block[:, c].ravel(), minlength=256) for c in channels]
        share, value = counts / counts.sum(1, keepdims=True), np.arange(256) / 255
        mean = share @ value
        std = np.sqrt(np.maximum(share @ value**2 - mean**2, 0))
    elif train.dtype.kind == "f":
        rows = np.moveaxis(train, 1, 0).reshape(len(channels), -1).astype(np.float64)
        mean, std = rows.mean(1), rows.std(1)
    else:
        return {}  # token ids are not normalised
    return {
        "mean": tuple(round(float(m), 6) for m in mean),
        "std": tuple(max(round(float(s), 6), 1e-6) for s in std),  # a channel may be constant
    }
