"""Small networks for a laptop: on vectors, signals, small images and texts."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from calibkit_companion.training.layers import (
    ONE_ROW,
    Network,
    Shape,
    average,
    conv,
    expect,
    he_normal,
    norm_relu,
)


def mlp(shape: Shape, classes: int, hidden: Sequence[int] = (256, 256)) -> Network:
    """Build fully connected layers of `hidden` widths, for inputs of any shape.

    Weights start from He's normal distribution (fan-in).
    """
    sizes = (prod(shape), *hidden)
    layers = [nn.Linear(a, b) for a, b in zip(sizes[:-1], hidden, strict=True)]
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)
    stages = [nn.Sequential(layer, nn.ReLU()) for layer in layers]
    return Network([nn.Flatten(), *stages], nn.Identity(), nn.Linear(sizes[-1], classes))


def cnn(shape: Shape, classes: int, width: int = 32) -> Network:
    """Build three strided convolutions with batch norm: the MNIST-1D authors' baseline, but wider.

    The head sees the flattened output, without an average over positions. Therefore the network
    overfits a small training set as large networks do.
    """
    expect(len(shape) in (2, 3), shape, "signals (channels, length) or images (c, h, w)")
    signal = len(shape) == 2
    stages = [
        nn.Sequential(conv(inputs, width, kernel, 2, signal), *norm_relu(width))
        for inputs, kernel in ((shape[0], 5), (width, 3), (width, 3))
    ]
    if signal:
        stages[0].insert(0, ONE_ROW)
    features = width * prod(-(-side // 8) for side in shape[1:])  # each stride halves, rounding up
    return he_normal(Network(stages, nn.Flatten(), nn.Linear(features, classes)))


def textcnn(shape: Shape, classes: int, vocabulary: int | None = None, width: int = 64) -> Network:
    """Build a network for token ids: an embedding, seven convolutions and a linear head.

    overconf names an 8-layer 1-D CNN for 20 Newsgroups and describes it in an appendix that we do
    not have, so the sizes are ours. The embedding of token 0, the padding, is zero. The other
    embeddings start from N(0, 0.02²), which is small enough for plain SGD to change them fast.
    From N(0, 1), or with maximum pooling, the network does not learn.
    """
    expect(len(shape) == 1, shape, "texts (tokens,)")
    if vocabulary is None or vocabulary < 2:
        raise ValueError(f"vocabulary: got {vocabulary}, expected the number of distinct token ids")
    embedding = nn.Embedding(vocabulary, width, padding_idx=0)
    with torch.no_grad():
        embedding.weight.mul_(0.02)
    stages = [nn.Sequential(embedding, _OneRow())]
    for i, layers in enumerate((1, 2, 2, 2)):
        stage = nn.Sequential(*[nn.AvgPool2d((1, 4), ceil_mode=True)] if i else [])
        for _ in range(layers):
            stage.extend((conv(width, width, signal=True), *norm_relu(width)))
        stages.append(stage)
    pool = nn.Sequential(*average(), nn.Dropout(0.5))
    return he_normal(Network(stages, pool, nn.Linear(width, classes)))


class _OneRow(nn.Module):
    """A layer that turns embeddings (B, tokens, width) into images of one row.

    The images (B, width, 1, tokens) are channels-last in memory, which makes convolutions twice as
    fast as ``nn.Conv1d``.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).unsqueeze(2)
