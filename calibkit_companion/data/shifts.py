"""Shifted test sets, which differ from the training set: corrupted images, distorted signals.

`corrupt` damages any images in the style of CIFAR-10-C: kinds of damage at five strengths, many of
them under the same names. The code differs from that of CIFAR-10-C and the pixels do, too. So do
not compare numbers on these images with published numbers on CIFAR-10-C. `cifar10c` reads the
published images.
"""

import io
import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from calibkit_companion.data import cache, catalogue, readers, splits

SEVERITIES = (1, 2, 3, 4, 5)
# Arguments of the package mnist1d that grow with the severity, and their values in the test set.
MNIST1D_SCALES = {"iid_noise_scale": 0.02, "corr_noise_scale": 0.25, "shear_scale": 0.75}
_BLOCK = 1000  # images damaged at a time; a change would change the random numbers of each image


def _v2():
    """Import the transforms of torchvision when they are needed; signals need none."""
    from calibkit_companion.data.torchvision import torchvision

    return torchvision.transforms.v2.functional


def corrupt(inputs: Tensor, name: str, severity: int, seed: int = 0) -> Tensor:
    """Damage images in the style of CIFAR-10-C.

    Parameters
    ----------
    inputs : uint8 Tensor, shape (n, c, h, w)
        Images of one or three channels; "saturate" needs three. The strengths suit images of about
        32 by 32 pixels.
    name : str
        Kind of damage, a name in `CORRUPTIONS`.
    severity : int
        1 (mild) to 5 (strong).
    seed : int
        Seed of all random choices: equal seeds give equal images.

    Returns
    -------
    uint8 Tensor, shape (n, c, h, w)
        On the device of `inputs`; computed on the CPU.

    Examples
    --------
    >>> grey = torch.full((1, 1, 2, 2), 100, dtype=torch.uint8)
    >>> corrupt(grey, "brightness", 1).flatten().tolist()
    [113, 113, 113, 113]
    """
    if name not in CORRUPTIONS:
        raise ValueError(f"name: got {name!r}, expected one of {', '.join(CORRUPTIONS)}")
    _check_severity(severity)
    channels = (3,) if name == "saturate" else (1, 3)
    if inputs.ndim != 4 or inputs.dtype != torch.uint8 or inputs.shape[1] not in channels:
        raise ValueError(
            f"inputs: got {inputs.dtype} {tuple(inputs.shape)}, "
            f"expected torch.uint8 (n, c, h, w) with c in {channels} for {name}"
        )
    damage, strengths = CORRUPTIONS[name]
    generator = torch.Generator().manual_seed(seed)
    out = torch.empty_like(inputs, device="cpu")
    for start in range(0, len(inputs), _BLOCK):
        block = inputs[start : start + _BLOCK].cpu().float() / 255
        damaged = damage(block, strengths[severity - 1], generator)
        out[start : start + _BLOCK] = (damaged.clamp(0, 1) * 255).round().to(torch.uint8)
    return out.to(inputs.device)


def _check_severity(severity: int) -> None:
    """Raise an error unless a severity is an integer from 1 to 5."""
    if severity not in SEVERITIES:
        raise ValueError(f"severity: got {severity!r}, expected 1 to 5")


# Each function takes images (n, c, h, w) from 0 to 1, a strength and a generator of random numbers.
# `corrupt` clamps the result.


def _gaussian_noise(x: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    return x + sigma * torch.randn(x.shape, generator=generator)


def _shot_noise(x: Tensor, photons: float, generator: torch.Generator) -> Tensor:
    return torch.poisson(x * photons, generator=generator) / photons


def _impulse_noise(x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    dice = torch.rand(x.shape, generator=generator)
    salt_or_pepper = (dice < share / 2).to(x.dtype)
    return torch.where(dice < share, salt_or_pepper, x)


def _gaussian_blur(x: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    return _v2().gaussian_blur(x, [2 * round(3 * sigma) + 1] * 2, [sigma] * 2)


def _defocus_blur(x: Tensor, radius: float, generator: torch.Generator) -> Tensor:
    """Average each pixel over a disc; pixels at the edge count by the share that is covered."""
    reach = int(np.ceil(radius))
    fine = torch.arange(-reach * 8 - 3.5, reach * 8 + 4) / 8  # 8 × 8 points in each pixel
    disc = (fine[:, None] ** 2 + fine**2 <= radius**2).float()
    kernel = F.avg_pool2d(disc[None, None], 8)[0]
    return _filter(x, kernel.expand(len(x), -1, -1))


def _motion_blur(x: Tensor, length: float, generator: torch.Generator) -> Tensor:
    """Average each pixel along a line, in a random direction for each image."""
    reach = int(np.ceil(length / 2))
    angle = torch.rand(len(x), 1, 1, generator=generator) * torch.pi
    along = torch.linspace(-length / 2, length / 2, 8 * reach + 1)[:, None]
    pixel = torch.arange(-reach, reach + 1)
    # Each point of the line counts for its neighbouring pixels, the more the nearer they are.
    column = (1 - (along * angle.cos() - pixel).abs()).clamp(min=0)  # (n, points, pixels)
    row = (1 - (along * angle.sin() - pixel).abs()).clamp(min=0)
    return _filter(x, row.transpose(1, 2) @ column)


def _filter(x: Tensor, kernels: Tensor) -> Tensor:
    """Convolve each image (n, c, h, w) with one kernel (n, s, s); borders are mirrored."""
    n, c, h, w = x.shape
    padded = F.pad(x, [kernels.shape[-1] // 2] * 4, mode="reflect").flatten(0, 1)[None]
    kernels = kernels / kernels.sum((1, 2), keepdim=True)
    weight = kernels.repeat_interleave(c, 0)[:, None]
    return F.conv2d(padded, weight, groups=n * c).view(n, c, h, w)


def _zoom_blur(x: Tensor, largest: float, generator: torch.Generator) -> Tensor:
    zooms = torch.linspace(1, largest, 8).tolist()
    v2 = _v2()
    bilinear = v2.InterpolationMode.BILINEAR
    return sum(v2.affine(x, 0, [0, 0], z, [0, 0], interpolation=bilinear) for z in zooms) / 8


def _certain(name: str) -> Callable:
    """Wrap a transform of torchvision that makes no random choices."""
    return lambda x, strength, generator: getattr(_v2(), name)(x, strength)


def _elastic_transform(x: Tensor, pixels: float, generator: torch.Generator) -> Tensor:
    """Move every point by about `pixels`, and neighbouring points by similar amounts."""
    n, _, h, w = x.shape
    noise = torch.randn(n, 2, h, w, generator=generator)
    smooth = _v2().gaussian_blur(noise, [2 * (min(h, w) // 4) + 1] * 2, [min(h, w) / 8] * 2)
    smooth = smooth / smooth.square().mean((1, 2, 3), keepdim=True).sqrt()
    shift = pixels * smooth * torch.tensor([2 / w, 2 / h]).view(2, 1, 1)  # grid units: -1 to 1
    identity = F.affine_grid(torch.eye(2, 3).expand(n, 2, 3), list(x.shape), align_corners=False)
    grid = identity + shift.permute(0, 2, 3, 1)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def _pixelate(x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Mix each pixel with the mean of its block of 2 × 2 pixels; `share` is that of the mean."""
    means = F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False)
    blocks = means.repeat_interleave(2, 2).repeat_interleave(2, 3)[:, :, : x.shape[2], : x.shape[3]]
    return torch.lerp(x, blocks, share)


def _jpeg_compression(x: Tensor, quality: int, generator: torch.Generator) -> Tensor:
    # Pillow encodes: torchvision's encoder is in the compiled part, which may be missing.
    from PIL import Image

    images = (x * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    out = np.empty_like(images)
    for image, result in zip(images, out, strict=True):
        file = io.BytesIO()
        plain = image.squeeze(2) if x.shape[1] == 1 else image
        Image.fromarray(plain).save(file, "JPEG", quality=quality)
        result[:] = np.asarray(Image.open(file)).reshape(result.shape)
    return torch.from_numpy(out).permute(0, 3, 1, 2).float() / 255


# By name: the function, and its strengths at severities 1 to 5.
CORRUPTIONS: dict[str, tuple[Callable, tuple[float, ...]]] = {
    "gaussian_noise": (_gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),  # standard deviation
    "shot_noise": (_shot_noise, (500, 250, 100, 75, 50)),  # photons of a white pixel
    "impulse_noise": (_impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),  # share of values
    "gaussian_blur": (_gaussian_blur, (0.4, 0.6, 0.7, 0.8, 1.0)),  # standard deviation, pixels
    "defocus_blur": (_defocus_blur, (0.7, 0.9, 1.1, 1.4, 1.8)),  # radius, pixels
    "motion_blur": (_motion_blur, (1.5, 2.0, 3.0, 4.0, 5.0)),  # length, pixels
    "zoom_blur": (_zoom_blur, (1.06, 1.11, 1.16, 1.21, 1.26)),  # largest magnification
    "brightness": (_certain("adjust_brightness"), (1.13, 1.25, 1.4, 1.55, 1.8)),  # factor
    "contrast": (_certain("adjust_contrast"), (0.75, 0.5, 0.4, 0.3, 0.15)),  # factor
    "saturate": (_certain("adjust_saturation"), (1.5, 2.0, 2.5, 3.25, 4.0)),  # factor
    "elastic_transform": (_elastic_transform, (0.4, 0.6, 0.8, 1.0, 1.3)),  # shift, pixels
    "pixelate": (_pixelate, (0.4, 0.55, 0.7, 0.85, 1.0)),  # share of the way to blocks
    "jpeg_compression": (_jpeg_compression, (80, 65, 58, 50, 40)),  # quality
}


def mnist1d_shifted(severity: int) -> splits.Split:
    """Generate the test set of ``mnist1d`` with more noise and a steeper slope.

    Three scales of the generator (independent noise, correlated noise, shear) are multiplied by
    ``1 + severity / 5``: doubled at severity 5. Everything else is drawn as in the test set, so
    that sample i is the same digit at the same place and severity 0 would be the test set itself.

    Parameters
    ----------
    severity : int
        1 to 5.

    Returns
    -------
    splits.Split
        Signals (5000, 1, 40) in the units of the test set and labels; generated once, then kept.
    """
    _check_severity(severity)
    scales = {name: scale * (1 + severity / 5) for name, scale in MNIST1D_SCALES.items()}

    def make(draft: Path) -> readers.Parts:
        none = np.empty((0, 1, 40), np.float32), np.empty(0, np.int64)
        test = readers.mnist1d_signals(readers.MNIST1D_TEST, readers.MNIST1D_TEST_SEED, **scales)
        return readers.Parts(*none, *test, readers.DIGITS)

    origin = f"mnist1d {version('mnist1d')} {readers.MNIST1D_TEST} {scales}"
    parts = cache.decoded(f"mnist1d-shifted-{severity}", catalogue.data_root(), origin, make)
    return splits.Split.of(np.array(parts.test), parts.test_labels)


def cifar10c(corruption: str, severity: int, n: int | None = None) -> splits.Split:
    """Read one corruption of the published CIFAR-10-C at one severity.

    Parameters
    ----------
    corruption : str
        One of `readers.CIFAR10C_CORRUPTIONS`, or one of the four extra corruptions of CIFAR-10-C.
    severity : int
        1 to 5.
    n : int, optional
        Only the first n images; by default all 10,000.

    Returns
    -------
    splits.Split
        (10000, 3, 32, 32) images, the test images of CIFAR-10 in their official order.
    """
    _check_severity(severity)
    base = catalogue.locate("cifar10c", catalogue.data_root())
    images, labels = readers.cifar10c_file(base, corruption)
    each = len(labels) // 5
    start = (severity - 1) * each
    rows = slice(start, start + min(each, n or each))
    return splits.Split.of(np.ascontiguousarray(images[rows].transpose(0, 3, 1, 2)), labels[rows])


# Published test sets by training data: corrupted images, and images collected a second time.
CORRUPTED = {"cifar10": "cifar10c"}
COLLECTED = {"cifar10": ("cifar10_1", "cifar10_2"), "imagenet": ("imagenet_v2",)}


def shifted_sets(dataset: str, n: int) -> Iterator[tuple[tuple[str, int], splits.Split]]:
    """Yield each shifted test set of a data set, by kind and severity.

    Published test sets are used if they are on this machine: corruptions of CIFAR-10-C, such as
    ``cifar10c:fog``, and newly collected test sets, such as ``cifar10_1``, with severity 0. Without
    published corruptions, the corruptions that `made` computes take their place.

    Parameters
    ----------
    dataset : str
        Name of the training data, as in `splits.load`.
    n : int
        Number of samples of each test set, the first ones.

    Yields
    ------
    (kind, severity), splits.Split
        One test set at a time, because all of them together may not fit in memory.

    Raises
    ------
    ValueError
        A published test set is damaged.
    """
    root = catalogue.data_root()
    corrupted = CORRUPTED.get(dataset)
    if corrupted and catalogue.source(corrupted).find(root):
        for kind in readers.CIFAR10C_CORRUPTIONS:
            for severity in SEVERITIES:
                test = cifar10c(kind, severity, n=n)
                yield (f"{corrupted}:{kind}", severity), test
    else:
        yield from made(dataset, n).items()
    for name in COLLECTED.get(dataset, ()):
        if catalogue.source(name).find(root):
            test = splits.load(name).test
            yield (name, 0), splits.Split(test.inputs[:n], test.labels[:n])


@lru_cache(maxsize=1)  # all runs of a process have the same test set
def made(dataset: str, n: int) -> dict[tuple[str, int], splits.Split]:
    """Compute shifted test sets from the test set of a data set.

    Parameters
    ----------
    dataset : str
        Name of the data set, as in `splits.load`.
    n : int
        Number of test samples, the first ones.

    Returns
    -------
    dict of (kind, severity) to splits.Split
        Signals are shifted by `mnist1d_shifted` ("distortion"), and images by `corrupt` (all kinds
        in `CORRUPTIONS`; "saturate" only for colour images). Empty for texts, for toy data and for
        images that do not fit in memory.
    """
    test = splits.load(dataset).test
    if dataset == "mnist1d":
        # In random order, so that processes that start together begin with different files.
        order = random.Random().sample(SEVERITIES, len(SEVERITIES))
        shifted = {("distortion", s): mnist1d_shifted(s) for s in order}
        return {key: splits.Split(x.inputs[:n], x.labels[:n]) for key, x in sorted(shifted.items())}
    streamed = not isinstance(test.inputs, Tensor)
    many = len(CORRUPTIONS) * len(SEVERITIES)
    size = min(n, len(test)) * np.prod(test.inputs.shape[1:]) * many
    if test.inputs.dtype != torch.uint8 or streamed or size > catalogue.in_memory():
        return {}
    grey = test.inputs.shape[1] == 1
    return {
        (kind, severity): splits.Split(corrupt(test.inputs[:n], kind, severity), test.labels[:n])
        for kind in CORRUPTIONS
        if not (grey and kind == "saturate")
        for severity in SEVERITIES
    }
