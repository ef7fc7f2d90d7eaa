"""Pack a data set of images into a few files, for a machine without internet access.

A packed data set is a folder. Each ``NAME-PART-000.webp`` is a mosaic of images, compressed without
loss. ``NAME.json`` holds labels, classes and the SHA-256 of each decoded array.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit_companion.data import cache, catalogue
from calibkit_companion.data.readers import Parts, open_image

FORMAT = 1
MOSAIC_PIXELS = 1600  # edge of a mosaic; a file of photographs then has some 4 MB


def pack(name: str, out: Path) -> list[Path]:
    """Write a data set of images as mosaics.

    Parameters
    ----------
    name : a data set that `catalogue.SOURCES` lists
    out : folder to write to; created if missing

    Returns
    -------
    list of Path
        The files, ``NAME.json`` last.

    Raises
    ------
    ValueError
        The data set holds no images, or images that are large or do not fit in memory.
    """
    parts = catalogue.read(name)
    out.mkdir(parents=True, exist_ok=True)
    written, shapes, sums = [], {}, {}
    for part in ("train", "test"):
        images = getattr(parts, part)
        if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 4:
            raise ValueError(f"{name}: only images that fit in memory can be packed")
        shapes[part], sums[part] = images.shape, _digest(images)
        for number, mosaic in enumerate(_mosaics(images)):
            file = out / f"{name}-{part}-{number:03}.webp"
            _save(mosaic, file)
            written.append(file)
    facts = {
        "format": FORMAT,
        "name": name,
        "files": {file.name: cache.digest(file) for file in written},
        "shapes": shapes,
        "sha256": sums,
        "labels": {part: _text(getattr(parts, f"{part}_labels")) for part in shapes},
        **{key: getattr(parts, key) for key in ("classes", "note", "mean", "std")},
    }
    index = out / f"{name}.json"
    index.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return [*written, index]


def unpack(index: Path, root: Path | None = None) -> Path:
    """Decode a packed data set into the copy that training uses.

    Parameters
    ----------
    index : ``NAME.json``, beside its mosaics
    root : the data folder; default `catalogue.data_root`

    Returns
    -------
    Path
        The folder of the decoded copy.

    Raises
    ------
    ValueError
        A mosaic is missing, or differs from the one that was packed.
    """
    facts = json.loads(index.read_text(encoding="utf-8"))
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(
            f"{index}: not the index of a packed data set of format {FORMAT}; give the NAME.json "
            "that calibkit data pack wrote"
        )
    for file, known in facts["files"].items():
        if not (index.parent / file).exists():
            raise ValueError(f"{index.parent / file}: missing; copy it again")
        if cache.digest(index.parent / file) != known:
            raise ValueError(f"{index.parent / file}: damaged; copy it again")

    def decoded(draft: Path) -> Parts:
        arrays = {}
        for part, shape in facts["shapes"].items():
            start = f"{facts['name']}-{part}-"
            files = [index.parent / f for f in sorted(facts["files"]) if f.startswith(start)]
            arrays[part] = _tiles(files, tuple(shape))
            if _digest(arrays[part]) != facts["sha256"][part]:
                raise ValueError(
                    f"{index}: the {part} images differ from those packed; copy it again"
                )
            arrays[f"{part}_labels"] = np.frombuffer(
                zlib.decompress(base64.b64decode(facts["labels"][part])), np.int64
            )
        known = {key: tuple(facts[key]) for key in ("classes", "mean", "std")}
        return Parts(**arrays, **known, note=facts["note"])

    root = root or catalogue.data_root()
    cache.decoded(facts["name"], root, cache.PACKED, decoded)
    return root / "decoded" / facts["name"]


def _mosaics(images: np.ndarray) -> Iterator[np.ndarray]:
    """Yield square mosaics of images (n, c, h, w); the last mosaic is filled up with zeros."""
    _, channels, height, width = images.shape
    down, across = MOSAIC_PIXELS // height, MOSAIC_PIXELS // width
    if not down * across:
        raise ValueError(f"images of {height} by {width} are too large to be packed")
    for start in range(0, len(images), down * across):
        some = images[start : start + down * across]
        full = np.zeros((down * across, channels, height, width), np.uint8)
        full[: len(some)] = some
        grid = full.reshape(down, across, channels, height, width).transpose(0, 3, 1, 4, 2)
        yield grid.reshape(down * height, across * width, channels)


def _tiles(files: list[Path], shape: tuple[int, ...]) -> np.ndarray:
    """Cut the images (n, c, h, w) out of mosaics."""
    _, channels, height, width = shape
    images = np.empty(shape, np.uint8)
    start = 0
    for file in files:
        mosaic = np.asarray(open_image(file))[..., :channels]
        down, across = mosaic.shape[0] // height, mosaic.shape[1] // width
        grid = mosaic.reshape(down, height, across, width, channels).transpose(0, 2, 4, 1, 3)
        some = grid.reshape(-1, channels, height, width)[: len(images) - start]
        images[start : start + len(some)] = some
        start += len(some)
    return images


def _save(mosaic: np.ndarray, file: Path) -> None:
    from PIL import Image

    image = Image.fromarray(mosaic if mosaic.shape[2] == 3 else np.repeat(mosaic, 3, axis=2))
    image.save(file, lossless=True)


def _text(labels: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(labels.astype(np.int64).tobytes())).decode()


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array)).hexdigest()
