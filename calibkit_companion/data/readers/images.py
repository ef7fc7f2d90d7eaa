"""Read and decode images in class folders."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from calibkit_companion.data.readers.parts import Parts, damaged

_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp")


def open_image(path: Path):
    """Open an image, read it completely, and convert it to colour.

    Parameters
    ----------
    path : path of the file

    Raises
    ------
    ValueError
        The file is damaged.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise damaged(path, error) from None


def decode_image(path: Path, side: int = 0) -> np.ndarray:
    """Decode an image.

    Parameters
    ----------
    path : path of the file
    side : resize the image and cut out a central square of this side, in pixels; 0 keeps the image

    Returns
    -------
    numpy.ndarray
        uint8, (3, h, w).
    """
    from PIL import Image

    image = open_image(path)
    if side:  # as usual, 224 pixels of an image resized to 256
        scale = side * 8 / 7 / min(image.size)
        image = image.resize([round(s * scale) for s in image.size], Image.BILINEAR)
        left, top = ((s - side) // 2 for s in image.size)
        image = image.crop((left, top, left + side, top + side))
    return np.asarray(image).transpose(2, 0, 1)


def decode_images(files: list[Path], out: Path, side: int = 0) -> np.ndarray:
    """Decode images of one size into a new file, with a thread for each core.

    Parameters
    ----------
    files : the images, n of them
    out : path of the new file
    side : as `decode_image` takes it

    Returns
    -------
    numpy.ndarray
        uint8, (n, 3, h, w), mapped from the file.

    Raises
    ------
    ValueError
        An image is damaged, or has another size than the first.
    """
    shape = decode_image(files[0], side).shape
    array = np.lib.format.open_memmap(out, mode="w+", dtype=np.uint8, shape=(len(files), *shape))
    if hasattr(os, "posix_fallocate"):  # reserves space: a full disk is an error here, not a crash
        with open(out, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, out.stat().st_size)

    def fill(start: int) -> None:
        for i in range(start, min(start + 256, len(files))):
            image = decode_image(files[i], side)
            if image.shape != shape:
                size, usual = ("×".join(map(str, s[:0:-1])) for s in (image.shape, shape))
                raise ValueError(f"{files[i]}: image of {size}, expected {usual} like the others")
            array[i] = image

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, range(0, len(files), 256)))
    array.flush()
    return array


def files_of(folder: Path, classes: Iterable[str]) -> tuple[list[Path], np.ndarray]:
    """List the images of class folders, in order, with their labels.

    Parameters
    ----------
    folder : holds one folder for each class
    classes : names of these folders, in the order of the labels

    Returns
    -------
    tuple of list and numpy.ndarray
        Paths, n of them, and labels (n,).

    Raises
    ------
    ValueError
        A folder has no image.
    """
    files, labels = [], []
    for label, name in enumerate(classes):
        paths = sorted(p for p in (folder / name).rglob("*") if p.suffix.lower() in _SUFFIXES)
        if not paths:
            raise ValueError(f"{folder / name}: no images, expected {sorted(_SUFFIXES)}")
        files += paths
        labels += [label] * len(paths)
    return files, np.array(labels, np.int64)


def folders_of(folder: Path) -> tuple[str, ...]:
    """List the names of the class folders in a folder, sorted.

    Parameters
    ----------
    folder : the folder

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        It has no folder in it.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: missing, expected one folder of images per class")
    names = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not names:
        raise ValueError(f"{folder}: empty, expected one folder of images per class")
    return tuple(names)


def in_folders(base: Path) -> tuple[tuple[str, ...], dict[str, tuple[list[Path], np.ndarray]]]:
    """List the images of ``train/CLASS/*`` and ``test/CLASS/*`` (or ``val``).

    The files are in a random order that is always the same; sorted by class, the first samples of a
    part would all be of one class.

    Parameters
    ----------
    base : the folder

    Returns
    -------
    tuple
        Names of the classes; by part, the files and their labels (n,).
    """
    classes, listed = folders_of(base / "train"), {}
    for part, folder in (
        ("train", base / "train"),
        ("test", base / ("test" if (base / "test").is_dir() else "val")),
    ):
        if folders_of(folder) != classes:
            raise ValueError(f"{folder}: its class folders are not those of {base / 'train'}")
        files, labels = files_of(folder, classes)
        order = shuffled(len(files))
        listed[part] = [files[i] for i in order], labels[order]
    return classes, listed


def shuffled(n: int) -> np.ndarray:
    """Return the order in which n files are kept: a permutation (n,), always the same."""
    return np.random.RandomState(42).permutation(n)


def image_folder(base: Path, draft: Path, side: int = 0) -> Parts:
    """Read and decode the images of class folders.

    Parameters
    ----------
    base : folder with ``train`` and ``test`` or ``val``
    draft : folder for the decoded arrays
    side : as `decode_image` takes it
    """
    classes, listed = in_folders(base)
    parts = {}
    for part, (files, labels) in listed.items():
        parts |= {part: decode_images(files, draft / f"{part}.npy", side), f"{part}_labels": labels}
    jpeg = files[0].suffix.lower() in (".jpg", ".jpeg") and not side
    note = "images went through JPEG (lossy)" if jpeg else ""
    return Parts(**parts, classes=classes, note=note)
