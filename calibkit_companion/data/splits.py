"""Load data sets and split them; normalise and augment batches on their device.

>>> toy = load("gaussians", train_size=300)
>>> len(toy.train), len(toy.validation), len(toy.test)
(300, 5000, 5000)
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from calibkit import arrays
from calibkit_companion.data import cache, catalogue, readers


class LeakWarning(UserWarning):
    """The test samples also serve for validation."""


@dataclass(frozen=True, eq=False)
class Split:
    """Samples by position.

    Attributes
    ----------
    inputs : Tensor
        Images (n, c, h, w) uint8; signals (n, 1, length) or points (n, 2) float32; or token ids
        (n, length) int64, below `readers.VOCABULARY`, 0 for padding.
    labels : Tensor
        (n,) int64.
    """

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @staticmethod
    def of(inputs: np.ndarray, labels: np.ndarray) -> "Split":
        """Make a split from arrays: tensors share their memory, but token ids become int64.

        Images that are decoded during training (`stream.Stream`) stay as they are.
        """
        if not isinstance(inputs, np.ndarray):
            return Split(inputs, torch.from_numpy(labels.astype(np.int64)))
        if inputs.dtype.kind in "iu" and inputs.dtype != np.uint8:
            inputs = inputs.astype(np.int64)  # on disk they take two bytes
        return Split(torch.from_numpy(inputs), torch.from_numpy(labels.astype(np.int64)))


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in three splits, with the constants for normalisation.

    Attributes
    ----------
    name : str
        Name of the data set.
    train, validation, test : Split
        Disjoint samples; but after ``load(..., validation="test")`` the validation set is the test
        set. Training and validation are empty for a data set that is only for tests.
    classes : tuple of str
        Names of the classes.
    mean, std : tuple of float
        Mean and standard deviation of each channel of the training part; images count as numbers
        from 0 to 1 (see `normalise`). Empty for token ids.
    augment : str
        Augmentation that suits the data: "crop_flip"; "resized_crop" for images of any size that
        are decoded during training; or "none".
    note : str
        A remark for readers of results, such as that images are lossy copies; may be empty.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: str
    note: str


def load(
    name: str,
    root: Path | str | None = None,
    *,
    validation: int | str | None = None,
    train_size: int | None = None,
    split_seed: int | None = None,
    download: bool = False,
) -> Dataset:
    """Load a data set and split its training part.

    The official training part is put in the order ``RandomState(split_seed).permutation(n)``. The
    first `validation` samples are held out, and the next `train_size` samples are trained on. The
    public code of fmfp splits CIFAR-10 in the same way, so equal seeds give the same splits of the
    official archive. A smaller training set is part of a larger one. The test split is the official
    test part.

    Parameters
    ----------
    name : str
        One of `listing`; ``imagefolder:PATH`` for ``PATH/{train,test}/CLASS/*.png``; or
        ``FILE.npz`` with ``inputs`` and ``labels`` (see `readers.arrays`).
    root : path, optional
        Folder of the data sets; default `$CALIBKIT_DATA`, else ``data_cache/datasets``.
    validation : int or "test", optional
        Number of samples to hold out; by default a tenth (5,000 for CIFAR), or 1,000 for mnist1d.
        "test" validates on the test split and trains on the whole training part, as some authors'
        code does.
    train_size : int, optional
        Number of training samples; by default all that are not held out.
    split_seed : int, optional
        Seed of the order of samples; by default 42.
    download : bool
        Download the data set if it is not on this machine.

    Raises
    ------
    ValueError
        The name is unknown, a size does not fit the data, or a file is damaged.
    FileNotFoundError
        The data set is not on this machine; the message says how to get it.

    Warns
    -----
    LeakWarning
        With ``validation="test"``.

    Examples
    --------
    >>> digits = load("digits", validation=200)
    >>> digits.train.inputs.shape, digits.validation.inputs.dtype
    (torch.Size([1237, 1, 8, 8]), torch.uint8)
    """
    row, seed = catalogue.source(name), 42 if split_seed is None else split_seed
    parts = catalogue.read(name, root, download)
    n, held_out = len(parts.train), _held_out(validation, len(parts.train), row.validation)
    if not (train_size is None or (_is_count(train_size) and 0 < train_size <= n - held_out)):
        raise ValueError(
            f"train_size: got {train_size!r}, expected 1 to {n - held_out} "
            f"({n} training samples of {name} less {held_out} for validation)"
        )
    end = n if train_size is None else held_out + train_size

    def cut(start: int, stop: int) -> Split:
        index = order[start:stop]
        return Split.of(parts.train[index], parts.train_labels[index])

    order = np.random.RandomState(seed).permutation(n)
    streamed = not isinstance(parts.test, np.ndarray)
    mapped = row.keep and not streamed  # to be read into memory
    test = Split.of(np.array(parts.test) if mapped else parts.test, parts.test_labels)
    if validation == "test":
        warnings.warn(
            f"{name}: validating on the test split; whatever it chooses cannot be reported on it",
            LeakWarning,
            stacklevel=2,
        )
    return Dataset(
        name=name,
        train=cut(held_out, end),
        validation=test if validation == "test" else cut(0, held_out),
        test=test,
        classes=parts.classes,
        mean=parts.mean,
        std=parts.std,
        augment="resized_crop" if streamed and row.streamed else row.augment,
        note=parts.note,
    )


def _held_out(validation: int | str | None, n: int, share: float) -> int:
    if validation is None:
        return int(n * share)
    if validation == "test":
        return 0
    if not (_is_count(validation) and 0 <= validation <= max(n - 1, 0)):
        raise ValueError(f'validation: got {validation!r}, expected "test" or 0 to {max(n - 1, 0)}')
    return validation


def _is_count(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def listing(root: Path | str | None = None) -> list[dict]:
    """List all data sets: name, description, source, licence, size, and the folder of a copy.

    Examples
    --------
    >>> [row["name"] for row in listing() if row["size"] == "0 MB"]
    ['gaussians', 'mnist1d', 'digits']
    """
    root = Path(root) if root else catalogue.data_root()
    rows = []
    for name, row in catalogue.SOURCES.items():
        path = row.find(root) or (cache.packed(name, root) if row.places else None)
        rows.append(
            {
                "name": name,
                "what": row.what,
                "source": row.origin,
                "licence": row.licence,
                "size": row.size,
                "present": path is not None or not row.places,
                "path": str(path or ""),
            }
        )
    return rows


def get(name: str, root: Path | str | None = None) -> Dataset:
    """Download or generate a data set if it is missing, decode it, and check that it loads.

    Parameters
    ----------
    name, root
        As in `load`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> len(get("gaussians").test.labels)
    5000
    """
    return load(name, root, download=True)


def gaussian_posterior(x: arrays.ArrayLike) -> arrays.ArrayLike:
    """Compute the true probabilities of the five classes of the data set ``gaussians``.

    .. math:: \\eta_i(x) = N(x; \\mu_i, I) / \\sum_j N(x; \\mu_j, I)

    with equal priors and the means `readers.GAUSSIAN_MEANS` (bsce, section 4).

    Parameters
    ----------
    x : (n, 2) array or tensor

    Returns
    -------
    (n, 5) array or tensor, like `x`; rows sum to 1

    Examples
    --------
    >>> gaussian_posterior(readers.GAUSSIAN_MEANS[:1]).round(2)
    array([[1., 0., 0., 0., 0.]])
    """
    points = arrays.to_numpy(x).astype(np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"x: got shape {points.shape}, expected (n, 2)")
    exponent = -0.5 * ((points[:, None] - readers.GAUSSIAN_MEANS) ** 2).sum(2)
    weight = np.exp(exponent - exponent.max(1, keepdims=True))
    return arrays.like(weight / weight.sum(1, keepdims=True), x)


def normalise(
    inputs: Tensor, mean: tuple[float, ...] | Tensor, std: tuple[float, ...] | Tensor
) -> Tensor:
    """Normalise inputs: subtract `mean` from each channel and divide by `std`.

    Parameters
    ----------
    inputs : (n, c, ...) Tensor, any device
        Images (uint8) are first scaled to 0..1. Token ids (int64) are returned unchanged.
    mean, std : tuple of c floats, or Tensor of them on the device of the inputs

    Returns
    -------
    float32 Tensor

    Examples
    --------
    >>> normalise(torch.tensor([[[0, 255]]], dtype=torch.uint8), (0.5,), (0.25,))
    tensor([[[-2.,  2.]]])
    """
    if inputs.dtype == torch.int64:
        return inputs
    if not len(mean) == len(std) == inputs.shape[1]:
        raise ValueError(f"mean, std: got {mean}, {std}, expected {inputs.shape[1]} numbers each")
    unit = 255 if inputs.dtype == torch.uint8 else 1
    shape = (1, -1) + (1,) * (inputs.ndim - 2)
    both = (torch.as_tensor(x, device=inputs.device) for x in (mean, std))
    shift, scale = (x.view(shape) * unit for x in both)
    return (inputs - shift).div_(scale)


def augment_crop_flip(x: Tensor, generator: torch.Generator, padding: int = 4) -> Tensor:
    """Shift each image by up to `padding` pixels each way and mirror half of them.

    This equals a random crop of the zero-padded image and a random horizontal flip, but is done for
    a whole batch at once on its device. New pixels are 0, which is the mean colour of normalised
    images. (The authors' code pads before it normalises, with black pixels.)

    Parameters
    ----------
    x : (n, c, h, w) Tensor, any type and device
    generator : torch.Generator
        On the device of `x`; a generator on the CPU gives the same augmentation on every device.
    padding : int

    Returns
    -------
    Tensor like `x`, in its memory format

    Examples
    --------
    >>> x = torch.arange(4.0).view(1, 1, 2, 2)
    >>> augment_crop_flip(x, torch.Generator().manual_seed(0), padding=0)
    tensor([[[[1., 0.],
              [3., 2.]]]])
    """
    if x.ndim != 4:
        raise ValueError(f"x: got shape {tuple(x.shape)}, expected (n, c, h, w)")
    n, c, h, w = x.shape
    draws = {"generator": generator, "device": generator.device}
    top, left = torch.randint(2 * padding + 1, (2, n, 1), **draws).to(x.device)
    mirrored = torch.randint(2, (n, 1), **draws).to(x.device)
    column = torch.arange(w, device=x.device)
    rows = top + torch.arange(h, device=x.device)
    columns = left + torch.where(mirrored == 1, w - 1 - column, column)
    # One gather copies all images, although each has a different shift.
    pixels = (rows[:, :, None] * (w + 2 * padding) + columns[:, None, :]).view(n, 1, h * w)
    padded = torch.nn.functional.pad(x, (padding,) * 4).flatten(2)
    moved = padded.gather(2, pixels.expand(n, c, h * w)).view(n, c, h, w)
    channels_last = c > 1 and x.is_contiguous(memory_format=torch.channels_last)
    return moved.contiguous(memory_format=torch.channels_last) if channels_last else moved
