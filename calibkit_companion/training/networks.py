"""Networks of the five papers, and small ones for a laptop, all seen through one class.

Every network is a `Network`: a list of stages, a pool to one feature vector, and a linear head.
That is all the rest of the library needs to know: manifold mixing mixes after a stage, the
last-layer gradient is computed from the features, and no code depends on the family of a network.

`NETWORKS` maps each name to its builder, and `build` calls it. Unless a builder says otherwise,
convolutions start from He's normal distribution (fan-out; He et al., 2015), batch norm from the
identity and the head from PyTorch's uniform distribution. Blocks come from torchvision where it
has them. Nets for small images keep the full resolution in their stem and take any number of
channels; those with an ImageNet stem take colour, or grey repeated.
"""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit import terms
from calibkit_companion.experiments import plugins

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


# --- shapes and layers: one set for images and for signals, which are images of one row -----------


def _expect(fits: bool, shape: Shape, expected: str) -> None:
    """Refuse an input shape, with a line that says what the network takes."""
    if not fits:
        raise ValueError(f"input_shape: got {shape}, but this network takes {expected}")


def _expect_image(shape: Shape) -> None:
    """Refuse anything but images of 8 pixels a side or more."""
    fits = len(shape) == 3 and min(shape[1:]) >= 8
    _expect(fits, shape, "images (channels, height, width) of 8 pixels a side or more")


def _conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, signal: bool = False
) -> nn.Module:
    """A convolution without bias that pads with zeros.

    A `signal` is convolved along its one row, which is faster than Conv1d.
    """
    kernels, strides, padding = kernel, stride, kernel // 2
    if signal:
        kernels, strides, padding = (1, kernel), (1, stride), (0, padding)
    return nn.Conv2d(inputs, outputs, kernels, strides, padding, bias=False)


_ONE_ROW = nn.Unflatten(1, (-1, 1))  # (B, channels, length) to (B, channels, 1, length)


def _norm_relu(width: int) -> tuple[nn.Module, nn.Module]:
    """Batch norm and ReLU."""
    return nn.BatchNorm2d(width), nn.ReLU(inplace=True)


def _average() -> tuple[nn.Module, nn.Module]:
    """The mean over positions, flattened to (B, channels)."""
    return nn.AdaptiveAvgPool2d(1), nn.Flatten()


def _he_normal(network: Network) -> Network:
    """Draw all convolutions of a network from He's normal distribution, fan-out."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _torchvision():
    """The models of torchvision, imported late: they take longer to load than torch."""
    from calibkit_companion.data.torchvision import torchvision

    return torchvision.models


def _quarters(blocks: Sequence[nn.Module]) -> list[nn.Sequential]:
    """Blocks in groups of a quarter each."""
    size = len(blocks) // 4
    return [nn.Sequential(*blocks[i : i + size]) for i in range(0, len(blocks), size)]


# --- small networks -------------------------------------------------------------------------------


def _mlp(shape: Shape, classes: int, hidden: Sequence[int] = (256, 256)) -> Network:
    """Fully connected layers on any input, flattened; He's normal initialisation, fan-in."""
    sizes = (prod(shape), *hidden)
    layers = [nn.Linear(a, b) for a, b in zip(sizes[:-1], hidden, strict=True)]
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)
    stages = [nn.Sequential(layer, nn.ReLU()) for layer in layers]
    return Network([nn.Flatten(), *stages], nn.Identity(), nn.Linear(sizes[-1], classes))


def _cnn(shape: Shape, classes: int, width: int = 32) -> Network:
    """Three strided convolutions with batch norm, flattened: the MNIST-1D authors' baseline, wider.

    There is no averaging over positions, so it overfits a small training set as large networks do.
    """
    _expect(len(shape) in (2, 3), shape, "signals (channels, length) or images (c, h, w)")
    signal = len(shape) == 2
    stages = [
        nn.Sequential(_conv(inputs, width, kernel, 2, signal), *_norm_relu(width))
        for inputs, kernel in ((shape[0], 5), (width, 3), (width, 3))
    ]
    if signal:
        stages[0].insert(0, _ONE_ROW)
    features = width * prod(-(-side // 8) for side in shape[1:])  # each stride halves, rounding up
    return _he_normal(Network(stages, nn.Flatten(), nn.Linear(features, classes)))


def _textcnn(shape: Shape, classes: int, vocabulary: int | None = None, width: int = 64) -> Network:
    """Eight weighted layers on token ids: seven convolutions over an embedding, and the head.

    overconf names an 8-layer 1-D CNN for 20 Newsgroups and leaves the details to an appendix that
    we do not have, so the sizes are ours. Token 0 is padding, embedded as zero. The other
    embeddings start from N(0, 0.02^2). Batch norm undoes the scale, and small embeddings learn fast
    enough with plain SGD; from N(0, 1), or with maximum pooling, the network does not learn.
    """
    _expect(len(shape) == 1, shape, "texts (tokens,)")
    if vocabulary is None or vocabulary < 2:
        raise ValueError(f"vocabulary: got {vocabulary}, expected the number of distinct token ids")
    embedding = nn.Embedding(vocabulary, width, padding_idx=0)
    with torch.no_grad():
        embedding.weight.mul_(0.02)
    stages = [nn.Sequential(embedding, _OneRow())]
    for i, layers in enumerate((1, 2, 2, 2)):
        stage = nn.Sequential(*[nn.AvgPool2d((1, 4), ceil_mode=True)] if i else [])
        for _ in range(layers):
            stage.extend((_conv(width, width, signal=True), *_norm_relu(width)))
        stages.append(stage)
    pool = nn.Sequential(*_average(), nn.Dropout(0.5))
    return _he_normal(Network(stages, pool, nn.Linear(width, classes)))


class _OneRow(nn.Module):
    """`(B, tokens, width)` to `(B, width, 1, tokens)`: an image of one row.

    The result is already channels-last, which suits convolutions: twice as fast as in one
    dimension.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).unsqueeze(2)


# --- residual networks ----------------------------------------------------------------------------


class _PadShortcut(nn.Module):
    """Option A of He et al. (2016): every second pixel, new channels filled with zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.new, self.stride = outputs - inputs, stride

    def forward(self, x: Tensor) -> Tensor:
        # The same as x[:, :, ::stride, ::stride], but its gradient keeps the memory format of x.
        x = F.avg_pool2d(x, 1, self.stride)
        return F.pad(x, (0, 0, 0, 0, self.new // 2, self.new - self.new // 2))


def _projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Option B of He et al. (2016): a strided 1x1 convolution and batch norm."""
    return nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


def _resnet(
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
    _expect_image(shape)
    block = getattr(_torchvision().resnet, block)
    stages = [nn.Sequential(_conv(shape[0], stem, stride=stride), *_norm_relu(stem))]
    inputs = stem
    for i, count in enumerate(blocks):
        planes, stride = width * 2**i, 1 if i == 0 else 2
        outputs = planes * block.expansion
        skip = shortcut(inputs, outputs, stride) if stride > 1 or inputs != outputs else None
        first = block(inputs, planes, stride, skip)
        stages.append(nn.Sequential(first, *(block(outputs, planes) for _ in range(count - 1))))
        inputs = outputs
    return _he_normal(Network(stages, nn.Sequential(*_average()), nn.Linear(inputs, classes)))


def _thin_resnet(depth: int, shape: Shape, classes: int, width: int = 16) -> Network:
    """He et al. (2016), section 4.2: 6n + 2 layers, three stages, option-A shortcuts."""
    n = (depth - 2) // 6
    return _resnet("BasicBlock", (n, n, n), width, width, _PadShortcut, shape, classes)


class _PreActivated(nn.Module):
    """Residual block of He et al. (2016b): normalise, rectify, convolve, twice, and add.

    Where the shape changes the shortcut is a 1x1 convolution of the rectified input.
    """

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.activate = nn.Sequential(*_norm_relu(inputs))
        self.residual = nn.Sequential(
            _conv(inputs, outputs, 3, stride),
            *_norm_relu(outputs),
            _conv(outputs, outputs),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = None if same else _conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        activated = self.activate(x)
        skip = x if self.shortcut is None else self.shortcut(activated)
        return skip + self.residual(activated)


def _preact_resnet(blocks: int, width: int, shape: Shape, classes: int) -> Network:
    """Three stages of `blocks` pre-activated blocks of `width`, 2 and 4 times `width` channels.

    Wide ResNets belong to this family (Zagoruyko & Komodakis, 2016). They count the shortcuts as
    layers, so WRN-28 has four blocks in each stage. There is no dropout, as in the public code of
    fmfp.
    """
    _expect_image(shape)
    inputs = 16
    stages: list[nn.Module] = [_conv(shape[0], inputs)]
    for outputs, stride in ((width, 1), (2 * width, 2), (4 * width, 2)):
        first = _PreActivated(inputs, outputs, stride)
        rest = (_PreActivated(outputs, outputs, 1) for _ in range(blocks - 1))
        stages.append(nn.Sequential(first, *rest))
        inputs = outputs
    pool = nn.Sequential(*_norm_relu(inputs), *_average())
    return _he_normal(Network(stages, pool, nn.Linear(inputs, classes)))


# --- other families on small images ---------------------------------------------------------------


def _densenet(growth: int, blocks: Sequence[int], stem: int, shape: Shape, classes: int) -> Network:
    """DenseNet-BC (Huang et al., 2017), compression 1/2, with the paper's CIFAR stem.

    Initialised as torchvision does: He's normal, fan-in; biases zero.
    """
    _expect_image(shape)
    net = _torchvision().DenseNet(growth, blocks, stem, num_classes=classes)
    first = _conv(shape[0], stem)
    nn.init.kaiming_normal_(first.weight)
    parts = dict(net.features.named_children())
    stages = [first, parts["denseblock1"]]
    for i in range(2, len(blocks) + 1):
        stages.append(nn.Sequential(parts[f"transition{i - 1}"], parts[f"denseblock{i}"]))
    pool = nn.Sequential(parts["norm5"], nn.ReLU(inplace=True), *_average())
    return Network(stages, pool, net.classifier)


def _convmixer(width: int, depth: int, kernel: int, shape: Shape, classes: int) -> Network:
    """ConvMixer with patches of one pixel (Trockman & Kolter, 2022); PyTorch's initialisation."""
    _expect_image(shape)

    def activate() -> tuple[nn.Module, nn.Module]:
        return nn.GELU(), nn.BatchNorm2d(width)

    def block() -> nn.Module:
        return nn.Sequential(
            _Mixer(width, kernel, activate()), nn.Conv2d(width, width, 1), *activate()
        )

    stem = nn.Sequential(nn.Conv2d(shape[0], width, 1), *activate())
    stages = [stem, *_quarters([block() for _ in range(depth)])]
    return Network(stages, nn.Sequential(*_average()), nn.Linear(width, classes))


class _Mixer(nn.Module):
    """ConvMixer's residual depthwise convolution; an even kernel pads one pixel more at the end."""

    def __init__(self, width: int, kernel: int, activate: Sequence[nn.Module]):
        super().__init__()
        before, after = (kernel - 1) // 2, kernel // 2
        pad = nn.ZeroPad2d((before, after, before, after))
        self.mix = nn.Sequential(pad, nn.Conv2d(width, width, kernel, groups=width), *activate)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(x)


def _vgg16_bn(shape: Shape, classes: int, weights: str | None = None) -> Network:
    """VGG-16 with batch norm (Simonyan & Zisserman, 2015) and one linear layer behind it.

    Pooling rounds up, so that 28 pixels survive five halvings. Pretrained weights, which are
    for colour images, fill everything but the linear layer.
    """
    _expect_image(shape)
    stages, inputs = [], shape[0]
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        layers: list[nn.Module] = []
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), *_norm_relu(width)]
            nn.init.zeros_(layers[-3].bias)
            inputs = width
        stages.append(nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True)))
    network = Network(stages, nn.Sequential(*_average()), nn.Linear(inputs, classes))
    _he_normal(network)
    if weights is not None:
        _expect(shape[0] == 3, shape, "colour images when it starts from weights")
        theirs = _imagenet("vgg16_bn", weights, shape, classes).features.state_dict()
        ours = network.stages.state_dict()
        network.stages.load_state_dict(dict(zip(ours, theirs.values(), strict=True)))
    return network


def _mobile(
    name: str, options: dict, strides_kept: set[int], dropout: float, shape: Shape, classes: int
) -> Network:
    """MobileNetV2 (Sandler et al., 2018) or EfficientNet (Tan & Le, 2019), from torchvision.

    Both halve the image five times. `strides_kept` says which halvings remain: fmfp's public code
    keeps a 32-pixel image at 8 by 8 and 4 by 4. The initialisation is torchvision's.
    """
    _expect_image(shape)
    net = _torchvision().get_model(name, num_classes=classes, **options)
    first = net.features[0][0] = _conv(shape[0], 32, stride=2)
    nn.init.kaiming_normal_(first.weight, mode="fan_out")
    convolutions = (m for m in net.features.modules() if isinstance(m, nn.Conv2d))
    for i, strided in enumerate([m for m in convolutions if m.stride == (2, 2)]):
        if i not in strides_kept:
            strided.stride = (1, 1)
    stages: list[nn.Sequential] = []
    for layer in net.features:
        if getattr(layer, "use_res_connect", False):  # the shape does not change: the same stage
            stages[-1].append(layer)
        else:
            stages.append(nn.Sequential(layer))
    pool = nn.Sequential(*_average(), nn.Dropout(dropout))
    return Network(stages, pool, net.classifier[-1])


# --- ImageNet stems, and pretrained weights -------------------------------------------------------


class _AsImageNet(nn.Module):
    """Grey repeated to three channels, and any image resized to `size` pixels if one is given."""

    def __init__(self, size: int | None = None):
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        x = x.expand(-1, 3, -1, -1)
        if self.size is None or x.shape[-2:] == (self.size, self.size):
            return x
        return F.interpolate(x, size=(self.size, self.size), mode="bilinear")


def _imagenet(name: str, weights: str | None, shape: Shape, classes: int) -> nn.Module:
    """torchvision's network `name`, from scratch or with one of its published weight files."""
    _expect_image(shape)
    _expect(shape[0] in (1, 3), shape, "images of 1 or 3 channels")
    models = _torchvision()
    if weights is None:
        return models.get_model(name, num_classes=classes)
    members = models.get_model_weights(name).__members__
    if weights not in members:
        raise ValueError(f"weights: got {weights!r}, expected one of {', '.join(members)}")
    try:
        return models.get_model(name, weights=members[weights])
    except OSError as error:
        folder = f"{torch.hub.get_dir()}/checkpoints"
        raise OSError(
            f"weights: cannot fetch {members[weights].url} ({error}); put the file in {folder}"
        ) from None


def _new_head(head: nn.Linear, classes: int) -> nn.Linear:
    """The head itself if it has the right classes, else a fresh one."""
    return head if head.out_features == classes else nn.Linear(head.in_features, classes)


def _resnet_imagenet(name: str, shape: Shape, classes: int, weights: str | None = None) -> Network:
    """torchvision's ResNet with the ImageNet stem (7x7, stride 2, and a maximum pool)."""
    net = _imagenet(name, weights, shape, classes)
    stem = nn.Sequential(_AsImageNet(), net.conv1, net.bn1, net.relu, net.maxpool)
    stages = [stem, net.layer1, net.layer2, net.layer3, net.layer4]
    return Network(stages, nn.Sequential(*_average()), _new_head(net.fc, classes))


class _Tokens(nn.Module):
    """ViT's stem: a class token, then one token for each patch; positions added."""

    def __init__(self, patches: nn.Conv2d, class_token: nn.Parameter, positions: nn.Parameter):
        super().__init__()
        self.patches, self.class_token, self.positions = patches, class_token, positions

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), patches], dim=1)
        return tokens + self.positions


class _ClassToken(nn.Module):
    """The class token of ViT's output, (B, d)."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


def _vit_b_16(shape: Shape, classes: int, weights: str | None = None) -> Network:
    """ViT-B/16 (Dosovitskiy et al., 2021) at 224 pixels; smaller images are resized to that.

    bsce fine-tunes Google's weights; torchvision's (``weights="IMAGENET1K_V1"``) are others for the
    same network. A new head starts from zero, everything else as in torchvision.
    """
    net = _imagenet("vit_b_16", weights, shape, classes)
    encoder = net.encoder
    tokens = _Tokens(net.conv_proj, net.class_token, encoder.pos_embedding)
    head = _new_head(net.heads.head, classes)
    if head is not net.heads.head:
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
    stages = [nn.Sequential(_AsImageNet(224), tokens), *_quarters(encoder.layers)]
    return Network(stages, nn.Sequential(_ClassToken(), encoder.ln), head)


# --- all of them, by name -------------------------------------------------------------------------

NETWORKS: dict[str, Callable[..., Network]] = {
    "mlp": _mlp,
    "two_layers": partial(_mlp, hidden=(10,)),  # bsce's toy, as in its public notebook
    "cnn": _cnn,
    "textcnn": _textcnn,
    **{f"resnet{depth}": partial(_thin_resnet, depth) for depth in (8, 20, 32, 44, 56)},
    "resnet110_thin": partial(_thin_resnet, 110),
    "preact_resnet110": partial(_preact_resnet, 18, 16),
    # The four-stage ResNets of He et al. (2016) behind a 3x3 stem, as used on CIFAR.
    "resnet18": partial(_resnet, "BasicBlock", (2, 2, 2, 2), 64, 64, _projection),
    "resnet18_w16": partial(_resnet, "BasicBlock", (2, 2, 2, 2), 16, 16, _projection),
    # Half the resolution: four times the weights of w16 in three quarters of the time.
    "resnet18_w32_s2": partial(_resnet, "BasicBlock", (2, 2, 2, 2), 32, 32, _projection, stride=2),
    "resnet50": partial(_resnet, "Bottleneck", (3, 4, 6, 3), 64, 64, _projection),
    "resnet110_bottleneck": partial(_resnet, "Bottleneck", (3, 4, 26, 3), 64, 64, _projection),
    "resnet152": partial(_resnet, "Bottleneck", (3, 8, 36, 3), 64, 64, _projection),
    "wrn_28_10": partial(_preact_resnet, 4, 160),
    # bsce's, as in its public code: not pre-activated, 6 * 4 + 2 layers
    "wrn_26_10": partial(_resnet, "BasicBlock", (4, 4, 4), 16, 160, _projection),
    "densenet_bc_100_12": partial(_densenet, 12, (16, 16, 16), 24),
    "densenet121": partial(_densenet, 32, (6, 12, 24, 16), 64),
    "convmixer_256_16": partial(_convmixer, 256, 16, 8),
    "vgg16_bn": _vgg16_bn,
    "mobilenet_v2": partial(_mobile, "mobilenet_v2", {}, {3, 4}, 0.0),
    "efficientnet_b0": partial(
        _mobile,
        "efficientnet_b0",
        {"stochastic_depth_prob": 0.0},  # fmfp leaves it out
        {1, 2, 3},
        0.2,
    ),
    "vit_b_16": _vit_b_16,
    "resnet18_imagenet": partial(_resnet_imagenet, "resnet18"),
    "resnet50_imagenet": partial(_resnet_imagenet, "resnet50"),
    "resnet152_imagenet": partial(_resnet_imagenet, "resnet152"),
}


def build(name: str, input_shape: Sequence[int], classes: int, **options) -> Network:
    """A new network, drawn from torch's global generator: `torch.manual_seed` repeats it.

    Parameters
    ----------
    name : str
        A key of `NETWORKS`, followed by ``:WEIGHTS`` for the option ``weights``; or
        ``FILE.py:NAME`` (see `plugins`).
    input_shape : sequence of int
        Shape of one sample: a signal `(channels, length)`, an image `(channels, height, width)`, a
        vector `(d,)`, or token ids `(tokens,)` for ``textcnn``, which also needs ``vocabulary=``.
    classes : int
        Number of logits, at least 2.
    **options
        ``hidden`` (mlp: widths of its layers), ``width`` (cnn, textcnn and the thin
        ResNets: channels of the first stage), ``vocabulary`` (textcnn: number of token ids),
        ``weights`` (ImageNet nets, VGG and ViT: name of a torchvision weight set, downloaded
        unless it lies in torch's hub folder; for others, a network of one's own loads them).

    Raises
    ------
    ValueError
        Unknown name or option, or an input shape that this network cannot take.
    OSError
        Pretrained weights that are not on disk and cannot be downloaded.

    Examples
    --------
    >>> build("cnn", (1, 40), 10)(torch.zeros(2, 1, 40)).shape
    torch.Size([2, 10])
    >>> build("cnn", (500,), 20)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: input_shape: got (500,), but this network takes signals ...
    """
    shape = tuple(input_shape)
    if plugins.own(name):
        return _own(name, shape, classes)
    name, _, weights = name.partition(":")
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


# --- somebody's own -------------------------------------------------------------------------------


class Wrapped(nn.Module):
    """Any network from inputs to logits (B, k), with the features that its last layer sees.

    If the logits are the output of the last linear layer, that layer is the head, and its input (B,
    d) are the features. Otherwise `has_features` is False: the logits take the place of the
    features, and gradient norms of the last layer cannot be measured.

    Parameters
    ----------
    inner : the user's network
    source : the file that it comes from, for errors
    shape : shape of one input
    classes : number of logits
    """

    def __init__(self, inner: nn.Module, source: plugins.Source, shape: tuple, classes: int):
        super().__init__()
        self.inner, self._source = inner, source
        linear = [(n, m) for n, m in inner.named_modules() if isinstance(m, nn.Linear)]
        self._last = linear[-1][0] if linear and linear[-1][1].out_features == classes else None
        if self._last is not None and not self._ends_in_head(shape):
            self._last = None

    @property
    def has_features(self) -> bool:
        """Whether the logits are the output of the last linear layer."""
        return self._last is not None

    @property
    def head(self) -> nn.Module:
        """The last linear layer; an identity if there are no features."""
        return nn.Identity() if self._last is None else self.inner.get_submodule(self._last)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, k) of inputs (B, ...)."""
        with plugins.quoted(self._source):
            return self.inner(inputs)

    def features(self, inputs: Tensor) -> Tensor:
        """Inputs (B, d) of the last layer; the logits if there are no features."""
        if self._last is None:
            return self(inputs)
        calls = []
        with self.head.register_forward_pre_hook(lambda _, arguments: calls.append(arguments[0])):
            self(inputs)
        return calls[-1]

    @torch.no_grad()
    def _ends_in_head(self, shape: tuple) -> bool:
        """Whether the last linear layer, applied to its input, gives the logits."""
        self.inner.eval()
        try:
            inputs = torch.zeros(2, *shape)
            hidden = self.features(inputs)
            return hidden.ndim == 2 and torch.equal(self.head(hidden), self(inputs))
        except (plugins.PluginError, IndexError):  # `trials` reports it
            return False
        finally:
            self.inner.train()


def _own(name: str, shape: tuple, classes: int) -> nn.Module:
    """Build a user's network: ``build(shape, classes, **options) -> nn.Module``.

    Raises
    ------
    plugins.PluginError
        The source fails, or gives something else.
    """
    base, chosen = plugins.split(plugins.network_name(name))
    source, build = plugins.source(base), plugins.load(base)
    options = {key: int(v) if v == int(v) else v for key, v in chosen.items()}
    inner = plugins.guarded(source, build, **options)(shape, classes)
    if isinstance(inner, Network):
        return inner
    if not isinstance(inner, nn.Module):
        raise source.error(f"gives a {type(inner).__name__}, expected an nn.Module")
    return Wrapped(inner, source, shape, classes)
