"""Images that do not fit in memory: files in class folders, decoded on demand.

A `Stream` takes the place of a tensor of all inputs. Worker processes decode the batches of an
epoch in advance; what a worker draws for an image depends only on seed, epoch and image, so the
number of workers changes nothing.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from calibkit.data import readers
from calibkit.data.torchvision import torchvision

_transforms = torchvision.transforms.v2


def workers() -> int:
    """Processes that decode: `$CALIBKIT_WORKERS`, else one per core but one, at most 16."""
    number = os.environ.get("CALIBKIT_WORKERS", "")
    if number and not number.isdigit():
        raise ValueError(f"CALIBKIT_WORKERS: got {number!r}, expected a number of processes")
    return int(number) if number else min(16, max(1, (os.cpu_count() or 1) - 1))


@dataclass(frozen=True, eq=False)
class Stream:
    """Images by position, like a uint8 tensor of them all.

    Attributes
    ----------
    files : (n,) array of str
    size : height, width
    crop : whether files have any size and only the central square counts
    """

    files: np.ndarray
    size: tuple[int, int]
    crop: bool
    dtype: torch.dtype = torch.uint8
    ndim: int = 4

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.files), 3, *self.size)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index) -> "Stream | Tensor":
        """Some of the files for an array or a slice, decoded images for a tensor of positions."""
        if isinstance(index, Tensor):
            return self.read(index)
        return replace(self, files=self.files[index])

    def to(self, device) -> "Stream":
        return self  # batches go there one by one

    def read(self, index: Tensor, seed: Sequence[int] = ()) -> Tensor:
        """Decode images now; with a `seed`, random resized crops, half of them mirrored.

        Returns
        -------
        (len(index), 3, height, width) uint8 Tensor on the device of `index`
        """
        images = np.empty((len(index), 3, *self.size), np.uint8)
        for image, i in zip(images, index.tolist(), strict=True):
            image[:] = self._image(i, (*seed, i) if len(seed) else ())
        return torch.from_numpy(images).to(index.device)

    def batches(self, parts: Sequence[Tensor], seed: Sequence[int] = ()) -> Iterator[Tensor]:
        """What `read` gives for each part in turn, decoded in advance by `workers`."""
        if not parts:
            return
        loader = DataLoader(
            _Parts(self, [part.cpu() for part in parts], tuple(seed)),
            batch_size=None,
            num_workers=workers(),
            pin_memory=parts[0].device.type == "cuda",
            multiprocessing_context="fork" if workers() else None,
        )
        for batch in loader:
            if isinstance(batch, Exception):
                raise batch
            yield batch.to(parts[0].device, non_blocking=True)

    def _image(self, i: int, seed: Sequence[int]) -> np.ndarray:
        path = Path(str(self.files[i]))
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


def _augmented(image, size: tuple[int, int], seed: Sequence[int]):
    """A random area and shape of an image, resized; half of them mirrored."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 1))
        image = _transforms.RandomResizedCrop(size)(image)
        return _transforms.RandomHorizontalFlip()(image)


class _Parts(Dataset):
    """Whole batches, so that a worker decodes one while others decode the next."""

    def __init__(self, stream: Stream, parts: list[Tensor], seed: tuple[int, ...]):
        self.stream, self.parts, self.seed = stream, parts, seed

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, i: int) -> Tensor | Exception:
        try:
            return self.stream.read(self.parts[i], self.seed)
        except (OSError, ValueError) as error:  # raised by the reader, in one line
            return error


def of_folder(base: Path, side: int = 0) -> readers.Parts:
    """``train/CLASS/*`` and ``test/CLASS/*`` (or ``val``), as `readers.image_folder` has them.

    Mean and deviation are ImageNet's for central crops, else those of 2,000 training images.
    """
    listed = {}
    for part, folder in readers.part_folders(base).items():
        folder = torchvision.datasets.ImageFolder(str(folder))
        order = np.random.RandomState(42).permutation(len(folder.samples))
        files = np.array([file for file, _ in folder.samples])[order]
        listed[part] = files, np.array(folder.targets)[order]
    first = Path(str(listed["train"][0][0]))
    size = (side, side) if side else readers.decode_image(first).shape[1:]
    streams = {part: Stream(files, size, bool(side)) for part, (files, _) in listed.items()}
    moments = readers.IMAGENET_MOMENTS
    if not side:
        few = torch.arange(min(2000, len(streams["train"])))
        moments = readers.moments(streams["train"].read(few).numpy())
    return readers.Parts(
        streams["train"],
        listed["train"][1],
        streams["test"],
        listed["test"][1],
        tuple(folder.classes),
        "images are read from their files while training",
        **moments,
    )
