"""Decode images that do not fit in memory during training, from files in class folders.

A `Stream` takes the place of a tensor of all inputs. Worker processes decode the next batches in
advance. The random crop of an image depends only on the seed, the epoch and the image, so results
do not depend on the number of workers.
"""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from calibkit_companion.data import cache, readers
from calibkit_companion.data.torchvision import torchvision

_transforms = torchvision.transforms.v2


def workers() -> int:
    """Return the number of worker processes.

    It is `$CALIBKIT_WORKERS`, or else the number of cores minus one, at most 16.
    """
    return int(cache.number_from("CALIBKIT_WORKERS", min(16, max(1, (os.cpu_count() or 1) - 1))))


# Some images of a stream, with the seed of the crop of each image, or () for no random crop.
Part = tuple["Stream", list[tuple[int, ...]]]


@dataclass(frozen=True, eq=False)
class Stream:
    """Images by position, decoded on demand, in place of a uint8 tensor of all images.

    Attributes
    ----------
    files : str array (n,), paths of the image files
    size : height and width of a decoded image, in pixels
    crop : whether images are cropped to the central square; otherwise all have the same size
    """

    files: np.ndarray
    size: tuple[int, int]
    crop: bool
    dtype: torch.dtype = torch.uint8
    ndim: int = 4

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor of all images, (n, 3, height, width)."""
        return (len(self.files), 3, *self.size)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index) -> "Stream | Tensor":
        """Return a shorter stream for an array or a slice, decoded images for a tensor."""
        if isinstance(index, Tensor):
            return self.read(index)
        return replace(self, files=self.files[index])

    def to(self, device) -> "Stream":
        """Return the stream itself, in place of `Tensor.to`."""
        return self  # each batch is moved when it is decoded

    def read(self, index: Tensor, seed: Sequence[int] = ()) -> Tensor:
        """Decode some images in this process.

        Parameters
        ----------
        index : integer tensor (m,), positions of the images
        seed : seed of random resized crops and flips; empty for images without augmentation

        Returns
        -------
        Tensor
            uint8, (m, 3, height, width), on the device of `index`.
        """
        return _decode(*self._part(index, seed)).to(index.device)

    def batches(self, parts: Sequence[Tensor], seed: Sequence[int] = ()) -> Iterator[Tensor]:
        """Yield decoded batches, which worker processes decode in advance.

        Parameters
        ----------
        parts : integer tensors (B,), the positions of each batch
        seed : seed of random resized crops and flips; empty for images without augmentation

        Yields
        ------
        Tensor
            uint8, (B, 3, height, width).
        """
        if not parts:
            return
        loader = DataLoader(
            _Parts(),
            batch_size=None,  # each item is a whole batch, which one worker decodes
            sampler=(self._part(part, seed) for part in parts),
            num_workers=workers(),
            pin_memory=parts[0].device.type == "cuda",
            multiprocessing_context=_processes() if workers() else None,
        )
        for batch in loader:
            if isinstance(batch, Exception):
                raise batch
            yield batch.to(parts[0].device, non_blocking=True)

    def _part(self, index: Tensor, seed: Sequence[int]) -> Part:
        """Return the images at some positions with the seed of the crop of each."""
        order = index.tolist()
        return self[order], [(*seed, i) if len(seed) else () for i in order]

    def _image(self, path: Path, seed: Sequence[int]) -> np.ndarray:
        """Decode one image; raise an error if its size is not that of the stream."""
        if not seed:
            image = readers.decode_image(path, self.size[0] if self.crop else 0)
        else:
            image = np.asarray(_augmented(readers.open_image(path), self.size, seed)).transpose(
                2, 0, 1
            )
        if image.shape[1:] != self.size:
            size, usual = ("×".join(map(str, s[::-1])) for s in (image.shape[1:], self.size))
            raise ValueError(f"{path}: image of {size}, expected {usual} like the others")
        return image


def _decode(stream: Stream, seeds: Sequence[Sequence[int]]) -> Tensor:
    """Decode all images of a stream, uint8 (n, 3, height, width)."""
    images = np.empty((len(seeds), 3, *stream.size), np.uint8)
    for image, file, seed in zip(images, stream.files, seeds, strict=True):
        image[:] = stream._image(Path(str(file)), seed)
    return torch.from_numpy(images)


class _Parts:
    """The data set of a `DataLoader` whose sampler yields a `Part` for each batch."""

    def __getitem__(self, part: Part) -> Tensor | Exception:
        try:
            return _decode(*part)
        except (OSError, ValueError) as error:  # `batches` raises it, without a worker's traceback
            return error


@lru_cache
def _processes() -> multiprocessing.context.BaseContext:
    """Choose how workers start: as forks of a server process that has loaded this module.

    A fork of this process could wait for ever for a lock that another thread held.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _augmented(image, size: tuple[int, int], seed: Sequence[int]):
    """Crop a random rectangle of an image, resize it, and mirror it with probability 1/2."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 1))
        image = _transforms.RandomResizedCrop(size)(image)
        return _transforms.RandomHorizontalFlip()(image)


def of_files(classes: tuple[str, ...], listed: dict, side: int = 0) -> readers.Parts:
    """Make the parts of a data set as streams of files.

    Mean and standard deviation of the channels are those of ImageNet if images are cropped, else
    those of 2,000 training images.

    Parameters
    ----------
    classes : names of the classes
    listed : files and labels by part, from `readers.in_folders`
    side : side in pixels of the central square that is cropped; 0 if all images have one size
    """
    size = readers.decode_image(listed["train"][0][0], side).shape[1:]
    parts, moments = {}, readers.IMAGENET_MOMENTS
    for part, (files, labels) in listed.items():
        images = Stream(np.array([str(file) for file in files]), size, bool(side))
        parts |= {part: images, f"{part}_labels": labels}
    if not side:
        few = torch.arange(min(2000, len(parts["train"])))
        moments = readers.moments(parts["train"].read(few).numpy())
    note = "images are read from their files while training"
    return readers.Parts(**parts, classes=classes, note=note, **moments)
