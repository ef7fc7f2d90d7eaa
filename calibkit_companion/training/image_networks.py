"""Networks for small images: DenseNet, ConvMixer, VGG, MobileNet, EfficientNet."""

from collections.abc import Sequence

from torch import Tensor, nn

from calibkit_companion.training.imagenet_networks import imagenet
from calibkit_companion.training.layers import (
    Network,
    Shape,
    average,
    conv,
    expect,
    expect_image,
    he_normal,
    norm_relu,
    quarters,
    torchvision_models,
)


def densenet(growth: int, blocks: Sequence[int], stem: int, shape: Shape, classes: int) -> Network:
    """DenseNet-BC (Huang et al., 2017) with compression 1/2 and the first layer for CIFAR.

    As in torchvision, weights start from He's normal distribution (fan-in) and biases from zero.
    Each layer of a block adds `growth` channels. `blocks` are the numbers of layers of the blocks,
    and the first layer has `stem` channels.
    """
    expect_image(shape)
    net = torchvision_models().DenseNet(growth, blocks, stem, num_classes=classes)
    first = conv(shape[0], stem)
    nn.init.kaiming_normal_(first.weight)
    parts = dict(net.features.named_children())
    stages = [first, parts["denseblock1"]]
    for i in range(2, len(blocks) + 1):
        stages.append(nn.Sequential(parts[f"transition{i - 1}"], parts[f"denseblock{i}"]))
    pool = nn.Sequential(parts["norm5"], nn.ReLU(inplace=True), *average())
    return Network(stages, pool, net.classifier)


def convmixer(width: int, depth: int, kernel: int, shape: Shape, classes: int) -> Network:
    """ConvMixer with patches of one pixel (Trockman & Kolter, 2022); PyTorch's initialisation."""
    expect_image(shape)

    def activate() -> tuple[nn.Module, nn.Module]:
        return nn.GELU(), nn.BatchNorm2d(width)

    def block() -> nn.Module:
        return nn.Sequential(
            Mixer(width, kernel, activate()), nn.Conv2d(width, width, 1), *activate()
        )

    stem = nn.Sequential(nn.Conv2d(shape[0], width, 1), *activate())
    stages = [stem, *quarters([block() for _ in range(depth)])]
    return Network(stages, nn.Sequential(*average()), nn.Linear(width, classes))


class Mixer(nn.Module):
    """The depthwise convolution of ConvMixer, added to its input.

    The output has the size of the input. For an even kernel, the padding at the end is one pixel
    wider than that at the start.
    """

    def __init__(self, width: int, kernel: int, activate: Sequence[nn.Module]):
        super().__init__()
        before, after = (kernel - 1) // 2, kernel // 2
        pad = nn.ZeroPad2d((before, after, before, after))
        self.mix = nn.Sequential(pad, nn.Conv2d(width, width, kernel, groups=width), *activate)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(x)


def vgg16_bn(shape: Shape, classes: int, weights: str | None = None) -> Network:
    """VGG-16 with batch norm (Simonyan & Zisserman, 2015) and a single linear layer.

    Pooling rounds sizes up, so that an image of 28 pixels can be halved five times. Pretrained
    weights fill everything but the linear layer, and need colour images.
    """
    expect_image(shape)
    stages, inputs = [], shape[0]
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        layers: list[nn.Module] = []
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), *norm_relu(width)]
            nn.init.zeros_(layers[-3].bias)
            inputs = width
        stages.append(nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True)))
    network = Network(stages, nn.Sequential(*average()), nn.Linear(inputs, classes))
    he_normal(network)
    if weights is not None:
        expect(shape[0] == 3, shape, "colour images when it starts from weights")
        theirs = imagenet("vgg16_bn", weights, shape, classes).features.state_dict()
        ours = network.stages.state_dict()
        network.stages.load_state_dict(dict(zip(ours, theirs.values(), strict=True)))
    return network


def mobile(
    name: str, options: dict, strides_kept: set[int], dropout: float, shape: Shape, classes: int
) -> Network:
    """MobileNetV2 (Sandler et al., 2018) or EfficientNet (Tan & Le, 2019), from torchvision.

    The original networks halve the image five times. `strides_kept` holds the numbers (0 to 4) of
    the halvings that remain, because the public code of fmfp reduces images of 32 pixels to 8 by 8
    or 4 by 4 pixels only. The initialisation is that of torchvision. `dropout` is the probability
    before the head.
    """
    expect_image(shape)
    net = torchvision_models().get_model(name, num_classes=classes, **options)
    first = net.features[0][0] = conv(shape[0], 32, stride=2)
    nn.init.kaiming_normal_(first.weight, mode="fan_out")
    convolutions = (m for m in net.features.modules() if isinstance(m, nn.Conv2d))
    for i, strided in enumerate([m for m in convolutions if m.stride == (2, 2)]):
        if i not in strides_kept:
            strided.stride = (1, 1)
    stages: list[nn.Sequential] = []
    for layer in net.features:
        if getattr(layer, "use_res_connect", False):  # equal shapes stay in one stage
            stages[-1].append(layer)
        else:
            stages.append(nn.Sequential(layer))
    pool = nn.Sequential(*average(), nn.Dropout(dropout))
    return Network(stages, pool, net.classifier[-1])
