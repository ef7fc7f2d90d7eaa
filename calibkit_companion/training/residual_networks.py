"""Residual networks on small images (He et al., 2016, 2016b)."""

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from calibkit_companion.training.layers import (
    Network,
    Shape,
    average,
    conv,
    expect_image,
    he_normal,
    norm_relu,
    torchvision_models,
)


class PadShortcut(nn.Module):
    """Option A of He et al. (2016): every second pixel, new channels filled with zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.new, self.stride = outputs - inputs, stride

    def forward(self, x: Tensor) -> Tensor:
        # The same as x[:, :, ::stride, ::stride], but its gradient keeps the memory format of x.
        x = F.avg_pool2d(x, 1, self.stride)
        return F.pad(x, (0, 0, 0, 0, self.new // 2, self.new - self.new // 2))


def projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Option B of He et al. (2016): a strided 1x1 convolution and batch norm."""
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


def resnet(
    block: str,
    blocks: Sequence[int],
    stem: int,
    width: int,
    shortcut: Callable[[int, int, int], nn.Module],
    shape: Shape,
    classes: int,
    stride: int = 1,
) -> Network:
    """He et al. (2016): a stage of `blocks[i]` residual blocks of `width * 2**i` channels each.

    `stem` and `stride` are the width and stride of the first convolution, 3x3 as used on CIFAR.
    """
    expect_image(shape)
    block = getattr(torchvision_models().resnet, block)
    stages = [nn.Sequential(conv(shape[0], stem, stride=stride), *norm_relu(stem))]
    inputs = stem
    for i, count in enumerate(blocks):
        planes, stride = width * 2**i, 1 if i == 0 else 2
        outputs = planes * block.expansion
        skip = shortcut(inputs, outputs, stride) if stride > 1 or inputs != outputs else None
        first = block(inputs, planes, stride, skip)
        stages.append(nn.Sequential(first, *(block(outputs, planes) for _ in range(count - 1))))
        inputs = outputs
    return he_normal(Network(stages, nn.Sequential(*average()), nn.Linear(inputs, classes)))


def thin_resnet(depth: int, shape: Shape, classes: int, width: int = 16) -> Network:
    """He et al. (2016), section 4.2: 6n + 2 layers, three stages, option-A shortcuts."""
    n = (depth - 2) // 6
    return resnet("BasicBlock", (n, n, n), width, width, PadShortcut, shape, classes)


class PreActivated(nn.Module):
    """Residual block of He et al. (2016b): normalise, rectify, convolve, twice, and add.

    Where the shape changes the shortcut is a 1x1 convolution of the rectified input.
    """

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.activate = nn.Sequential(*norm_relu(inputs))
        self.residual = nn.Sequential(
            conv(inputs, outputs, 3, stride),
            *norm_relu(outputs),
            conv(outputs, outputs),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = None if same else conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        activated = self.activate(x)
        skip = x if self.shortcut is None else self.shortcut(activated)
        return skip + self.residual(activated)


def preact_resnet(blocks: int, width: int, shape: Shape, classes: int) -> Network:
    """Three stages of `blocks` pre-activated blocks of `width`, 2 and 4 times `width` channels.

    Wide ResNets belong to this family (Zagoruyko & Komodakis, 2016). They count the shortcuts as
    layers, so WRN-28 has four blocks in each stage. There is no dropout, as in the public code of
    fmfp.
    """
    expect_image(shape)
    inputs = 16
    stages: list[nn.Module] = [conv(shape[0], inputs)]
    for outputs, stride in ((width, 1), (2 * width, 2), (4 * width, 2)):
        first = PreActivated(inputs, outputs, stride)
        rest = (PreActivated(outputs, outputs, 1) for _ in range(blocks - 1))
        stages.append(nn.Sequential(first, *rest))
        inputs = outputs
    pool = nn.Sequential(*norm_relu(inputs), *average())
    return he_normal(Network(stages, pool, nn.Linear(inputs, classes)))
