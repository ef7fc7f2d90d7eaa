"""The data of a run: on its device, normalised, augmented, and in batches.

The whole data set lies in the memory of the device, which also crops and flips whole batches.
Worker processes decode data sets that do not fit in memory, batch by batch.
"""

import math
from collections.abc import Iterator, MutableMapping, Sequence

import torch
from torch import Tensor

from calibkit_companion import data
from calibkit_companion.experiments.run import Run

EVALUATION_BATCH = 1000
EVALUATION_PIXELS = EVALUATION_BATCH * 3 * 64**2  # most pixel values of such a batch


class _Loaded:
    """A data set, and its splits on a device; runs side by side share it."""

    def __init__(self, name: str, device: torch.device, asked: dict):
        self.data = data.load(name, **asked)
        parts = {part: getattr(self.data, part) for part in ("train", "validation", "test")}
        self.splits = {part: moved(split, device) for part, split in parts.items()}


class Samples:
    """The data of a run.

    Parameters
    ----------
    run : the run
    device : torch device of the run
    loaded : data sets that are on this device already, by what `data.load` was asked for; a new one
        is added
    """

    def __init__(self, run: Run, device: torch.device, loaded: MutableMapping[tuple, object]):
        protocol = run.protocol
        self.run, self.protocol, self.device = run, protocol, device
        asked = {
            "validation": protocol.validation,
            "train_size": protocol.train_size,
            "split_seed": run.seed if protocol.split_seed == "run" else protocol.split_seed,
        }
        key = run.dataset, *asked.values()
        self.loaded = loaded.get(key) or _Loaded(run.dataset, device, asked)
        loaded[key] = self.loaded
        self.data, self.splits = self.loaded.data, dict(self.loaded.splits)
        self.labels = self.splits["train"].labels
        # Whether worker processes decode the images during the training.
        self.streamed = not isinstance(self.splits["train"].inputs, Tensor)
        self.scale = [torch.tensor(x, device=device) for x in (self.data.mean, self.data.std)]
        self.crops = torch.Generator(device).manual_seed(run.seed)
        self.shape = tuple(self.data.train.inputs.shape[1:])
        # Fewer large images fit in memory.
        many = EVALUATION_PIXELS // math.prod(self.shape)
        self.evaluation_batch = max(1, min(EVALUATION_BATCH, many))
        self.epoch = 0  # finished epochs

    def _normalised(self, batch: Tensor) -> Tensor:
        """Normalise inputs (B, ...) and put images in the memory format of convolutions."""
        batch = data.normalise(batch, *self.scale)
        return batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch

    def batches(self, split: data.Split, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the inputs of a split without augmentation, batch by batch.

        Parameters
        ----------
        split : inputs and labels
        parts : integer tensors (B,), the positions of each batch in the split

        Yields
        ------
        Tensor
            float32 (B, ...), normalised; token ids as they are.
        """
        return map(self._normalised, _decoded(split, parts))

    def training_inputs(self, index: Tensor) -> Tensor:
        """Return the inputs of some training samples.

        Parameters
        ----------
        index : integer tensor (B,), positions in the training set

        Returns
        -------
        Tensor
            float32 (B, ...), normalised, and cropped and flipped if the protocol says so.
        """
        split, seed = self.splits["train"], self._crop_seed()
        return self._augmented(split.inputs.read(index, seed) if seed else split.inputs[index])

    def training_batches(
        self, parts: Sequence[Tensor], crops: torch.Generator | None = None
    ) -> Iterator[Tensor]:
        """Yield the inputs of training samples, batch by batch.

        Parameters
        ----------
        parts : integer tensors (B,), the positions of each batch in the training set
        crops : generator that draws the crops and flips; by default `self.crops`

        Yields
        ------
        Tensor
            float32 (B, ...), normalised, and cropped and flipped if the protocol says so.
        """
        decoded = _decoded(self.splits["train"], parts, self._crop_seed())
        return (self._augmented(batch, crops) for batch in decoded)

    def _augmented(self, batch: Tensor, crops: torch.Generator | None = None) -> Tensor:
        """Normalise inputs (B, ...), and crop and flip them if the protocol says so."""
        batch = self._normalised(batch)
        if self.protocol.augment and self.data.augment == "crop_flip":
            batch = data.augment_crop_flip(batch, crops or self.crops)
        return batch

    def _crop_seed(self) -> tuple[int, ...]:
        """Return the seed of this epoch's random resized crops; empty for another augmentation.

        The worker processes that decode the images draw these crops.
        """
        resized = self.protocol.augment and self.data.augment == "resized_crop"
        return (self.run.seed, self.epoch + 1) if resized else ()

    def _mean_input(self) -> Tensor:
        """Return the mean training input; only 2,000 images count if they are decoded on demand."""
        if self.data.train.inputs.dtype == torch.int64:
            return torch.zeros((), dtype=torch.int64)  # token ids have no mean
        split = self.splits["train"]
        n = len(self.labels) if isinstance(split.inputs, Tensor) else min(2000, len(self.labels))
        parts = torch.arange(n, device=self.device).split(self.evaluation_batch)
        return sum(batch.sum(0) for batch in self.batches(split, parts)) / n


def moved(split: data.Split, device: torch.device) -> data.Split:
    """Copy a split to a device."""
    return data.Split(split.inputs.to(device), split.labels.to(device))


def _decoded(split: data.Split, parts: Sequence[Tensor], seed: tuple = ()) -> Iterator[Tensor]:
    """Yield the inputs of a split as they are stored, batch by batch."""
    if isinstance(split.inputs, Tensor):
        return (split.inputs[part] for part in parts)
    return split.inputs.batches(parts, seed)
