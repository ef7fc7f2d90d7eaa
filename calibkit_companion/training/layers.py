"""The class `Network`, and the layers and checks that the builders of networks share.

Signals are treated as images of one row, so the layers for images serve for signals, too.
"""

from collections.abc import Sequence

from torch import Tensor, nn

Shape = tuple[int, ...]


class Network(nn.Module):
    """A classifier in three parts: stages, a pool that gives features (B, d), and a linear head.

    The forward pass is ``for stage in stages: x = stage(x)`` and then ``head(pool(x))``. No stage
    changes its input in place, so a caller may keep or mix the tensors between stages.

    Parameters
    ----------
    stages : sequence of nn.Module
        The first layers (the stem) come first. A new stage begins where the resolution or the width
        changes. Networks that never change them (ConvMixer, ViT) have four stages of equal length.
    pool : nn.Module
        The layers between the last stage and the head: last normalisation, pooling, dropout.
    head : nn.Linear
        Gives the logits of the features.

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
        """Compute the features, which are the inputs of the head.

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
        """Compute the logits.

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
    """Raise an error about an input shape unless `fits`; `expected` says what the network takes."""
    if not fits:
        raise ValueError(f"input_shape: got {shape}, but this network takes {expected}")


def expect_image(shape: Shape) -> None:
    """Raise an error unless a shape (c, h, w) is that of images of at least 8 by 8 pixels."""
    fits = len(shape) == 3 and min(shape[1:]) >= 8
    expect(fits, shape, "images (channels, height, width) of 8 pixels a side or more")


def conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, signal: bool = False
) -> nn.Module:
    """Make a convolution without bias that pads with zeros.

    For a `signal`, which is an image of one row, the kernel is one row, too. This is faster than
    ``nn.Conv1d``.
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
    """Make layers that average over positions, from (B, channels, h, w) to (B, channels)."""
    return nn.AdaptiveAvgPool2d(1), nn.Flatten()


def he_normal(network: Network) -> Network:
    """Draw the weights of all convolutions from He's normal distribution (fan-out)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def torchvision_models():
    """Import ``torchvision.models`` when a network needs it: it takes longer to load than torch."""
    from calibkit_companion.data.torchvision import torchvision

    return torchvision.models


def quarters(blocks: Sequence[nn.Module]) -> list[nn.Sequential]:
    """Divide blocks into four stages of equal length."""
    size = len(blocks) // 4
    return [nn.Sequential(*blocks[i : i + size]) for i in range(0, len(blocks), size)]
