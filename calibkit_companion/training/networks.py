"""The networks of the five papers, and small networks for a laptop.

Every network is a `Network`: a list of stages, a pool that gives one feature vector for each
sample, and a linear head. The other modules use nothing else: MIT-A mixes inputs between stages,
and the gradient of the last layer is computed from the features.

`NETWORKS` maps each name to its builder, and `build` calls the builder. Unless a builder says
otherwise, convolutions start from He's normal distribution (fan-out; He et al., 2015), batch norm
from the identity, and the head from PyTorch's uniform distribution. Residual blocks and whole
families come from torchvision if it has them. Networks for small images keep the full resolution
in their first layers and take any number of channels. Networks with an ImageNet stem take colour
images, and repeat the channel of a grey image.
"""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature

from calibkit import terms
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.names import Name
from calibkit_companion.training.image_networks import convmixer, densenet, mobile, vgg16_bn
from calibkit_companion.training.imagenet_networks import resnet_imagenet, vit_b_16
from calibkit_companion.training.layers import Network
from calibkit_companion.training.own_networks import Wrapped, build_own
from calibkit_companion.training.residual_networks import (
    preact_resnet,
    projection,
    resnet,
    thin_resnet,
)
from calibkit_companion.training.small_networks import cnn, mlp, textcnn

__all__ = ["NETWORKS", "Network", "Wrapped", "build"]

NETWORKS: dict[str, Callable[..., Network]] = {
    "mlp": mlp,
    "two_layers": partial(mlp, hidden=(10,)),  # the toy network of bsce's public notebook
    "cnn": cnn,
    "textcnn": textcnn,
    **{f"resnet{depth}": partial(thin_resnet, depth) for depth in (8, 20, 32, 44, 56)},
    "resnet110_thin": partial(thin_resnet, 110),
    "preact_resnet110": partial(preact_resnet, 18, 16),
    # The four-stage ResNets of He et al. (2016) behind a 3x3 stem, as used on CIFAR.
    "resnet18": partial(resnet, "BasicBlock", (2, 2, 2, 2), 64, 64, projection),
    "resnet18_w16": partial(resnet, "BasicBlock", (2, 2, 2, 2), 16, 16, projection),
    # The stride of 2 halves the resolution: four times the weights of w16, 3/4 of its time.
    "resnet18_w32_s2": partial(resnet, "BasicBlock", (2, 2, 2, 2), 32, 32, projection, stride=2),
    "resnet50": partial(resnet, "Bottleneck", (3, 4, 6, 3), 64, 64, projection),
    "resnet110_bottleneck": partial(resnet, "Bottleneck", (3, 4, 26, 3), 64, 64, projection),
    "resnet152": partial(resnet, "Bottleneck", (3, 8, 36, 3), 64, 64, projection),
    "wrn_28_10": partial(preact_resnet, 4, 160),
    # The wide network of bsce's public code: blocks are not pre-activated, 6 * 4 + 2 layers.
    "wrn_26_10": partial(resnet, "BasicBlock", (4, 4, 4), 16, 160, projection),
    "densenet_bc_100_12": partial(densenet, 12, (16, 16, 16), 24),
    "densenet121": partial(densenet, 32, (6, 12, 24, 16), 64),
    "convmixer_256_16": partial(convmixer, 256, 16, 8),
    "vgg16_bn": vgg16_bn,
    "mobilenet_v2": partial(mobile, "mobilenet_v2", {}, {3, 4}, 0.0),
    "efficientnet_b0": partial(
        mobile,
        "efficientnet_b0",
        {"stochastic_depth_prob": 0.0},  # fmfp uses no stochastic depth
        {1, 2, 3},
        0.2,
    ),
    "vit_b_16": vit_b_16,
    "resnet18_imagenet": partial(resnet_imagenet, "resnet18"),
    "resnet50_imagenet": partial(resnet_imagenet, "resnet50"),
    "resnet152_imagenet": partial(resnet_imagenet, "resnet152"),
}


def build(name: str, input_shape: Sequence[int], classes: int, **options) -> Network:
    """Build a new network with random weights; after `torch.manual_seed` they are the same again.

    Parameters
    ----------
    name : str
        A key of `NETWORKS`, perhaps with ``:WEIGHTS``, which sets the option ``weights``; or
        ``FILE.py:NAME`` for a network of your own (see `plugins`).
    input_shape : sequence of int
        Shape of one sample: a signal `(channels, length)`, an image `(channels, height, width)`, a
        vector `(d,)`, or token ids `(tokens,)` for ``textcnn``, which also needs ``vocabulary=``.
    classes : int
        Number of logits, at least 2.
    **options
        ``hidden`` (mlp: widths of its layers), ``width`` (cnn, textcnn and the thin
        ResNets: channels of the first stage), ``vocabulary`` (textcnn: number of token ids),
        ``weights`` (networks with an ImageNet stem, VGG and ViT: name of a torchvision weight
        set, which is downloaded unless it lies in torch's hub folder).

    Raises
    ------
    ValueError
        Unknown name or option, or an input shape that this network cannot take.
    plugins.PluginError
        The code of a user's network fails, or returns something else than a network.
    OSError
        Pretrained weights are not on disk and cannot be downloaded.

    Examples
    --------
    >>> import torch
    >>> build("cnn", (1, 40), 10)(torch.zeros(2, 1, 40)).shape
    torch.Size([2, 10])
    >>> build("cnn", (500,), 20)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: input_shape: got (500,), but this network takes signals ...
    """
    shape, written = tuple(input_shape), Name.read(name, "network")
    if plugins.own(written.base):
        return build_own(written, shape, classes)
    name, _, weights = str(written).partition(":")
    if weights:
        options["weights"] = weights
    terms.choose("network", name, NETWORKS, "calibkit_companion.training.networks.NETWORKS")
    if not shape or not all(isinstance(side, int) and side > 0 for side in shape):
        raise ValueError(f"input_shape: got {input_shape!r}, expected positive integers")
    if not isinstance(classes, int) or classes < 2:
        raise ValueError(f"classes: got {classes!r}, expected an integer of at least 2")
    try:
        signature(NETWORKS[name]).bind(shape, classes, **options)
    except TypeError as error:
        raise ValueError(f"options: {name}: {error}") from None
    return NETWORKS[name](shape, classes, **options)
