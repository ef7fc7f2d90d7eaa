"""The class `Network`, and the layers and checks that its builders share.

There is one set of layers for images and for signals, which are images of one row.
"""

from collections.abc import Sequence

from torch import Tensor, nn

Shape = tuple[int, ...]


class Network(nn.Module):
    """A classifier in three parts: stages, a pool to `(B, d)` features, a linear head.

    The whole forward pass is ``for stage in stages: x = stage(x)`` and then ``head(pool(x))``. No
    stage changes its input in place, so what passes between stages may be kept, mixed or moved.

    Parameters
    ----------
    stages : sequence of nn.Module
        The stem first. A new stage begins where the resolution or the width changes; networks
        that never change either (ConvMixer, ViT) are cut into quarters.
    pool : nn.Module
        What lies between the last stage and the features: last normalisation, pooling, dropout.
    head : nn.Linear

    Examples
    --------
    >>> import torch
    >>> from calibkit_companion.training.networks import build
    >>> network = build("mlp", (2,), 5, hidden=(10,))
    >>> len(network.stages), network.features(torch.zeros(3, 2)).shape
    (2, torch.Size([3, 10]))
    >>> network(torch.zeros(3, 2)).shape
    torch.Size([3, 5])
    """

    def __init__(self, stages: Sequence[nn.Module], pool: nn.Module, head: nn.Linear):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.pool = pool
        self.head = head

    def features(self, x: Tensor) -> Tensor:
        """What the head sees.

        Parameters
        ----------
        x : inputs, (B, ...)

        Returns
        -------
        Tensor
            Features, (B, d).
        """
        for stage in self.stages:
            x = stage(x)
        return self.pool(x)

    def forward(self, x: Tensor) -> Tensor:
        """The logits.

        Parameters
        ----------
        x : inputs, (B, ...)

        Returns
        -------
        Tensor
            Logits, (B, classes).
        """
        return self.head(self.features(x))


def expect(fits: bool, shape: Shape, expected: str) -> None:
    """Refuse an input shape, with a line that says what the network takes."""
    if not fits:
        raise ValueError(f"input_shape: got {shape}, but this network takes {expected}")


def expect_image(shape: Shape) -> None:
    """Refuse anything but images of 8 pixels a side or more."""
    fits = len(shape) == 3 and min(shape[1:]) >= 8
    expect(fits, shape, "images (channels, height, width) of 8 pixels a side or more")


def conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, signal: bool = False
) -> nn.Module:
    """A convolution without bias that pads with zeros.

    A `signal` is convolved along its one row, which is faster than Conv1d.
    """
    kernels, strides, padding = kernel, stride, kernel // 2
    if signal:
        kernels, strides, padding = (1, kernel), (1, stride), (0, padding)
    return nn.Conv2d(inputs, outputs, kernels, strides, padding, bias=False)


ONE_ROW = nn.Unflatten(1, (-1, 1))  # (B, channels, length) to (B, channels, 1, length)


def norm_relu(width: int) -> tuple[nn.Module, nn.Module]:
    """Batch norm and ReLU."""
    return nn.BatchNorm2d(width), nn.ReLU(inplace=True)


def average() -> tuple[nn.Module, nn.Module]:
    """The mean over positions, flattened to (B, channels)."""
    return nn.AdaptiveAvgPool2d(1), nn.Flatten()


def he_normal(network: Network) -> Network:
    """Draw all convolutions of a network from He's normal distribution, fan-out."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def torchvision_models():
    """The models of torchvision, imported late: they take longer to load than torch."""
    from calibkit_companion.data.torchvision import torchvision

    return torchvision.models


def quarters(blocks: Sequence[nn.Module]) -> list[nn.Sequential]:
    """Blocks in groups of a quarter each."""
    size = len(blocks) // 4
    return [nn.Sequential(*blocks[i : i + size]) for i in range(0, len(blocks), size)]
