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
    """The shortcut "option A" of He et al. (2016).

    It keeps every pixel at a multiple of `stride` and fills the new channels with zeros.
    """

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.new, self.stride = outputs - inputs, stride

    def forward(self, x: Tensor) -> Tensor:
        # Equal to x[:, :, ::stride, ::stride], but its gradient keeps the memory format of x.
        x = F.avg_pool2d(x, 1, self.stride)
        return F.pad(x, (0, 0, 0, 0, self.new // 2, self.new - self.new // 2))


def projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Make the shortcut "option B" of He et al. (2016): a 1x1 convolution and batch norm."""
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
    """Build a residual network (He et al., 2016) that starts with the 3x3 convolution for CIFAR.

    Stage i has ``blocks[i]`` residual blocks of ``width * 2**i`` channels. `stem` and `stride` are
    the channels and the stride of the first convolution. `block` names a class of torchvision, and
    `shortcut` makes the shortcut of a block that changes the shape.
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
    """Build the residual network of He et al. (2016), section 4.2.

    It has three stages, a `depth` of 6n + 2 layers, and shortcuts of option A.
    """
    n = (depth - 2) // 6
    return resnet("BasicBlock", (n, n, n), width, width, PadShortcut, shape, classes)


class PreActivated(nn.Module):
    """A residual block of He et al. (2016b).

    It normalises, rectifies and convolves twice, and adds the result to the shortcut. The shortcut
    is the input; if the shape changes, it is a 1x1 convolution of the rectified input.
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
    """Build a network of three stages of pre-activated residual blocks.

    Each stage has `blocks` blocks. They have `width` channels in the first stage, twice and four
    times as many in the next two. Wide ResNets are such networks (Zagoruyko & Komodakis, 2016); a
    WRN-28 has four blocks in each stage, because shortcuts are counted as layers. There is no
    dropout, as in the public code of fmfp.
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
