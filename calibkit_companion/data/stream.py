"""Images that do not fit in memory: files in class folders, decoded on demand.

A `Stream` takes the place of a tensor of all inputs. Worker processes decode the batches of an
epoch in advance; what a worker draws for an image depends only on seed, epoch and image, so the
number of workers changes nothing.
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
    """Number of processes that decode: `$CALIBKIT_WORKERS`, else the cores but one, at most 16."""
    return int(cache.number_from("CALIBKIT_WORKERS", min(16, max(1, (os.cpu_count() or 1) - 1))))


# Some images of a stream, and the seed of the crop of each image, or ().
Part = tuple["Stream", list[tuple[int, ...]]]


@dataclass(frozen=True, eq=False)
class Stream:
    """Images by position, decoded on demand, in place of a uint8 tensor of all images.

    Attributes
    ----------
    files : paths, (n,) array of str
    size : height and width in pixels
    crop : whether files have any size and only the central square counts
    """

    files: np.ndarray
    size: tuple[int, int]
    crop: bool
    dtype: torch.dtype = torch.uint8
    ndim: int = 4

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor that the stream stands for, (n, 3, height, width)."""
        return (len(self.files), 3, *self.size)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index) -> "Stream | Tensor":
        """Some of the files for an array or a slice, decoded images for a tensor of positions."""
        if isinstance(index, Tensor):
            return self.read(index)
        return replace(self, files=self.files[index])

    def to(self, device) -> "Stream":
        """The stream itself: batches go to the device one by one."""
        return self  # batches go there one by one

    def read(self, index: Tensor, seed: Sequence[int] = ()) -> Tensor:
        """Decode images now.

        Parameters
        ----------
        index : positions, (m,)
        seed : seed of random resized crops, half of them mirrored; empty for the image as it is

        Returns
        -------
        Tensor
            uint8, (m, 3, height, width), on the device of `index`.
        """
        return _decode(*self._part(index, seed)).to(index.device)

    def batches(self, parts: Sequence[Tensor], seed: Sequence[int] = ()) -> Iterator[Tensor]:
        """Decode parts one after the other, in advance, by `workers`.

        Parameters
        ----------
        parts : positions, (B,) each
        seed : as `read` takes it
        """
        if not parts:
            return
        loader = DataLoader(
            _Parts(),
            batch_size=None,  # one worker decodes a whole part
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
        """The files of some positions, and the seed of each crop."""
        order = index.tolist()
        return self[order], [(*seed, i) if len(seed) else () for i in order]

    def _image(self, path: Path, seed: Sequence[int]) -> np.ndarray:
        """Decode one image; refuse another size than that of the stream."""
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
    """The data set of a `DataLoader` whose sampler yields parts."""

    def __getitem__(self, part: Part) -> Tensor | Exception:
        try:
            return _decode(*part)
        except (OSError, ValueError) as error:  # raised by `batches`, in one line
            return error


@lru_cache
def _processes() -> multiprocessing.context.BaseContext:
    """How workers start: as copies of a server that has loaded this module.

    A copy of this process could hold a lock of one of its threads for ever.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _augmented(image, size: tuple[int, int], seed: Sequence[int]):
    """A random area and shape of an image, resized; half of the images are mirrored."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 1))
        image = _transforms.RandomResizedCrop(size)(image)
        return _transforms.RandomHorizontalFlip()(image)


def of_files(classes: tuple[str, ...], listed: dict, side: int = 0) -> readers.Parts:
    """Streams of the images that `readers.in_folders` lists.

    Mean and deviation are those of ImageNet for central crops, else those of 2,000 training images.

    Parameters
    ----------
    classes : names of the classes
    listed : files and labels by part, as `readers.in_folders` returns them
    side : side of the central square in pixels; 0 for images of one size
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
