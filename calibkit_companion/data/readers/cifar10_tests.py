"""Read further test sets for CIFAR-10: CIFAR-10-C (corrupted), CIFAR-10.1 and 10.2 (new images)."""

from pathlib import Path

import numpy as np

from calibkit_companion.data.readers.parts import Parts, damaged

CIFAR10_CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
CIFAR10_MOMENTS = ((0.491400, 0.482158, 0.446531), (0.247032, 0.243485, 0.261588))
CIFAR10C_CORRUPTIONS = tuple(
    "gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow "
    "frost fog brightness contrast elastic_transform pixelate jpeg_compression".split()
)


def load_integers(path: Path, shape: tuple, mmap: bool = False, key: str = "") -> np.ndarray:
    """Read an integer array of a given shape from a .npy or .npz file, without pickles.

    A None in `shape` accepts any size. `key` is the name of the array in an .npz file.
    """
    try:
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
        if key:
            with array as archive:
                array = archive[key]
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: missing; get it again") from None
    except Exception as error:  # a damaged file raises many kinds of error
        raise damaged(path, error) from None
    fits = len(shape) == array.ndim and all(
        w in (None, g) for w, g in zip(shape, array.shape, strict=True)
    )
    if not fits or (len(shape) == 4 and array.dtype != np.uint8) or array.dtype.kind not in "iu":
        raise damaged(path, f"got {array.dtype} {array.shape}, expected integers {shape}")
    return array


def test_only(images: np.ndarray, labels: np.ndarray, note: str) -> Parts:
    """Make parts without training images, with classes, mean and deviation of CIFAR-10."""
    none = np.empty((0, 3, 32, 32), np.uint8), np.empty(0, np.int64)
    mean, std = CIFAR10_MOMENTS
    images = np.ascontiguousarray(images)
    return Parts(*none, images, labels, CIFAR10_CLASSES, note, mean, std)


def cifar10c_file(base: Path, corruption: str) -> tuple[np.ndarray, np.ndarray]:
    """Read a corruption of CIFAR-10-C at all severities, the mildest first.

    Parameters
    ----------
    base : folder of CIFAR-10-C
    corruption : name of the file without the suffix

    Returns
    -------
    tuple of numpy.ndarray
        Images (5n, 32, 32, 3), uint8, mapped from disk, and labels (5n,).
    """
    labels = load_integers(base / "labels.npy", (None,))
    return load_integers(base / f"{corruption}.npy", (len(labels), 32, 32, 3), mmap=True), labels


def cifar10c(base: Path, draft: Path) -> Parts:
    """Read CIFAR-10-C: all corruptions and severities, one after the other."""
    stacked = None
    for i, corruption in enumerate(CIFAR10C_CORRUPTIONS):
        images, labels = cifar10c_file(base, corruption)
        n = len(labels)
        if stacked is None:  # 2.3 GB, so a file on disk
            stacked = np.empty((len(CIFAR10C_CORRUPTIONS) * n, 3, 32, 32), np.uint8)
        stacked[i * n : (i + 1) * n] = images.transpose(0, 3, 1, 2)
    note = f"by corruption, then severity, then image: {', '.join(CIFAR10C_CORRUPTIONS)}"
    return test_only(stacked, np.tile(labels, len(CIFAR10C_CORRUPTIONS)), note)


def cifar10_1(base: Path, draft: Path) -> Parts:
    """Read CIFAR-10.1, version 6."""
    images = load_integers(base / "cifar10.1_v6_data.npy", (None, 32, 32, 3))
    labels = load_integers(base / "cifar10.1_v6_labels.npy", (len(images),))
    return test_only(images.transpose(0, 3, 1, 2), labels, "version 6")


def cifar10_2(base: Path, draft: Path) -> Parts:
    """Read the test part of CIFAR-10.2."""
    file = base / "cifar102_test.npz"
    images = load_integers(file, (None, 32, 32, 3), key="images")
    labels = load_integers(file, (len(images),), key="labels")
    return test_only(images.transpose(0, 3, 1, 2), labels, "test part")
