"""Data sets in memory: inputs, labels, fixed splits, and what is done to a batch on its device.

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
    """Test samples are used for something other than testing."""


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
        """Tensors of arrays: images and numbers share memory, token ids become int64.

        Images that are read during training (`stream.Stream`) stay as they are.
        """
        if not isinstance(inputs, np.ndarray):
            return Split(inputs, torch.from_numpy(labels.astype(np.int64)))
        if inputs.dtype.kind in "iu" and inputs.dtype != np.uint8:
            inputs = inputs.astype(np.int64)  # on disk they take two bytes
        return Split(torch.from_numpy(inputs), torch.from_numpy(labels.astype(np.int64)))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three splits and how to treat them.

    Attributes
    ----------
    name : str
    train, validation, test : Split
        Disjoint. Empty training and validation splits for sets made for testing only.
    classes : tuple of str
    mean, std : tuple of float
        Per channel of the training part, in units of the inputs, or of inputs scaled to 0..1 if
        those are images; see `normalise`. Empty for token ids.
    augment : str
        "crop_flip", "resized_crop" (for images of any size, read during training) or "none",
        whichever suits the data.
    note : str
        What a reader of results should know, such as lossy copies; may be empty.
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

    The training part is put in the order ``RandomState(split_seed).permutation(n)``; its first
    `validation` samples are held out, the next `train_size` are trained on. That is how the public
    code of fmfp splits CIFAR-10, so on the official archive equal seeds give equal splits. A
    smaller `train_size` is a subset of a larger one. The test split is the official test part.

    Parameters
    ----------
    name : str
        One of `listing`; ``imagefolder:PATH`` for ``PATH/{train,test}/CLASS/*.png``; or
        ``FILE.npz`` with ``inputs`` and ``labels`` (see `readers.arrays`).
    root : path, optional
        Folder of the data sets; default `$CALIBKIT_DATA`, else ``data_cache/datasets``.
    validation : int or "test", optional
        Samples to hold out; default a tenth (5,000 for CIFAR), 1,000 for mnist1d. "test" validates
        on the test split and trains on the whole training part, as some authors' code does.
    train_size : int, optional
        Default: all that are left.
    split_seed : int, optional
        Default 42.
    download : bool
        Fetch the originals when there is no copy on disk.

    Raises
    ------
    ValueError
        An unknown name, sizes that do not fit, or a damaged file, which is named.
    FileNotFoundError
        No copy on disk; says how to get one.

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
    """All data sets: name, description, source, licence, size, and the path of a copy if present.

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
    """True probabilities of the five groups of the data set ``gaussians``.

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
    """Scale images to 0..1, then every channel to mean 0 and standard deviation 1.

    Parameters
    ----------
    inputs : (n, c, ...) Tensor, any device
        uint8 counts as 0..255. Token ids (int64) are returned as they are.
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

    The same as a random crop of the zero-padded image and a random horizontal flip, for the whole
    batch at once and on its device. New pixels are 0: the mean colour in normalised images,
    black in raw ones (where the authors' code pads).

    Parameters
    ----------
    x : (n, c, h, w) Tensor, any type and device
    generator : torch.Generator
        On x's device, or on the CPU for the same draws on every device.
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
    # A single gather on rows of pixels copies all images, whatever their shifts.
    pixels = (rows[:, :, None] * (w + 2 * padding) + columns[:, None, :]).view(n, 1, h * w)
    padded = torch.nn.functional.pad(x, (padding,) * 4).flatten(2)
    moved = padded.gather(2, pixels.expand(n, c, h * w)).view(n, c, h, w)
    channels_last = c > 1 and x.is_contiguous(memory_format=torch.channels_last)
    return moved.contiguous(memory_format=torch.channels_last) if channels_last else moved
