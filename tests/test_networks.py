"""Networks: shapes, sizes against the published ones, the one forward pass, refusals."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from calibkit_companion.data.torchvision import torchvision
from calibkit_companion.training import (
    image_networks,
    imagenet_networks,
    networks,
    residual_networks,
)

ROOT = Path(__file__).resolve().parent.parent
SHAPES = {"mlp": (1, 40), "two_layers": (2,), "cnn": (1, 40), "textcnn": (60,)}
OPTIONS = {"textcnn": {"vocabulary": 50}}
HEAVY = ("vit_b_16", "resnet152_imagenet")  # shapes only, on the meta device
SMALL = ("mlp", "two_layers", "cnn", "textcnn", "resnet8", "resnet20")
IMAGES = [n for n in networks.NETWORKS if n not in SHAPES]


def build(name, shape=None, classes=10, seed=0):
    torch.manual_seed(seed)
    return networks.build(
        name, shape or SHAPES.get(name, (3, 32, 32)), classes, **OPTIONS.get(name, {})
    )


def batch(name, n=2, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shape = SHAPES.get(name, (3, 32, 32))
    if name == "textcnn":
        return torch.randint(0, 50, (n, *shape), generator=generator)
    return torch.randn(n, *shape, generator=generator)


def on_meta(name, shape=(3, 32, 32), **options):
    with torch.device("meta"):
        return networks.build(name, shape, 10, **options)


def parameter_count(network):
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


# --- sizes ----------------------------------------------------------------------------------------
# Counts for ten classes, computed here from the layers' definition, beside the published figure.


def conv(inputs, outputs, kernel=3, groups=1):
    return kernel * kernel * inputs * outputs // groups


def norm(width):
    return 2 * width


def linear(inputs, outputs=10):
    return inputs * outputs + outputs


def thin_resnet(depth, w=16):
    """Option-A shortcuts have no parameters."""
    n = (depth - 2) // 6
    total = conv(3, w) + norm(w) + linear(4 * w)
    for inputs, outputs in ((w, w), (w, 2 * w), (2 * w, 4 * w)):
        total += (
            conv(inputs, outputs) + (2 * n - 1) * conv(outputs, outputs) + 2 * n * norm(outputs)
        )
    return total


def wide_resnet(blocks, bottleneck, stem=64, width=64):
    expansion = 4 if bottleneck else 1
    total, inputs = conv(3, stem) + norm(stem), stem
    for i, count in enumerate(blocks):
        w = width * 2**i
        outputs = w * expansion
        if inputs != outputs:
            total += conv(inputs, outputs, 1) + norm(outputs)
        for _ in range(count):
            if bottleneck:
                total += conv(inputs, w, 1) + conv(w, w) + conv(w, outputs, 1)
                total += 2 * norm(w) + norm(outputs)
            else:
                total += conv(inputs, w) + conv(w, w) + 2 * norm(w)
            inputs = outputs
    return total + linear(inputs)


def preact_resnet(blocks, width, stem=16):
    total, inputs = conv(3, stem), stem
    for stage, outputs in enumerate((width, 2 * width, 4 * width)):
        if stage or inputs != outputs:
            total += conv(inputs, outputs, 1)
        for _ in range(blocks):
            total += norm(inputs) + conv(inputs, outputs) + norm(outputs) + conv(outputs, outputs)
            inputs = outputs
    return total + norm(inputs) + linear(inputs)


def densenet(growth, blocks, stem):
    total, width = conv(3, stem), stem
    for i, count in enumerate(blocks):
        if i:
            total += norm(width) + conv(width, width // 2, 1)
            width //= 2
        for _ in range(count):
            total += norm(width) + conv(width, 4 * growth, 1)
            total += norm(4 * growth) + conv(4 * growth, growth)
            width += growth
    return total + norm(width) + linear(width)


def convmixer(width, depth, kernel):
    stem = conv(3, width, 1) + width + norm(width)
    depthwise = conv(width, width, kernel, groups=width) + width + norm(width)
    pointwise = conv(width, width, 1) + width + norm(width)
    return stem + depth * (depthwise + pointwise) + linear(width)


def vgg16_bn():
    widths = (3, 64, 64, 128, 128, 256, 256, 256, *6 * (512,))
    return sum(conv(a, b) + b + norm(b) for a, b in pairwise(widths)) + linear(512)


def on_ten_classes(published, features):
    """An ImageNet network's published count, its thousand-class head exchanged."""
    return published - linear(features, 1000) + linear(features)


def vit(width=768, depth=12, patch=16, tokens=197):
    block = 4 * linear(width, width) + linear(width, 4 * width) + linear(4 * width, width)
    layer_norms = (2 * depth + 1) * norm(width)
    patches = conv(3, width, patch) + width
    return patches + width + tokens * width + depth * block + layer_norms + linear(width)


COUNTS = {
    # name: (exactly, in millions as published to that many digits)
    "resnet8": (thin_resnet(8), 0.08),  # our smallest: 6n + 2 with n = 1
    "resnet20": (thin_resnet(20), 0.27),  # He et al. (2016), table 6
    "resnet32": (thin_resnet(32), 0.46),  # same
    "resnet44": (thin_resnet(44), 0.66),  # same
    "resnet56": (thin_resnet(56), 0.85),  # same
    "resnet110_thin": (thin_resnet(110), 1.7),  # same
    "preact_resnet110": (preact_resnet(18, 16), 1.7),  # He et al. (2016b), CIFAR, ResNet-110
    # the four-stage nets: ImageNet's count less the head, which the 3x3 stem hardly changes
    "resnet18": (wide_resnet((2, 2, 2, 2), False), 11.17),
    # ours: a quarter of the width, for a CPU
    "resnet18_w16": (wide_resnet((2, 2, 2, 2), False, 16, 16), 0.70),
    # ours: half the width and half the resolution
    "resnet18_w32_s2": (wide_resnet((2, 2, 2, 2), False, 32, 32), 2.80),
    "resnet50": (wide_resnet((3, 4, 6, 3), True), 23.5),
    "resnet110_bottleneck": (wide_resnet((3, 4, 26, 3), True), 45.9),
    "resnet152": (wide_resnet((3, 8, 36, 3), True), 58.2),
    "wrn_28_10": (preact_resnet(4, 160), 36.5),  # Zagoruyko & Komodakis (2016), table 4
    "wrn_26_10": (wide_resnet((4, 4, 4), False, 16, 160), 36.5),
    "densenet_bc_100_12": (densenet(12, (16, 16, 16), 24), 0.8),  # Huang et al. (2017), table 2
    "densenet121": (densenet(32, (6, 12, 24, 16), 64), 7.0),
    "convmixer_256_16": (convmixer(256, 16, 8), 1.3),  # Trockman & Kolter (2022), CIFAR-10
    "vgg16_bn": (vgg16_bn(), 14.7),
    "mobilenet_v2": (on_ten_classes(3_504_872, 1280), 2.2),  # published: torchvision's page
    "efficientnet_b0": (on_ten_classes(5_288_548, 1280), 4.0),  # same
    "vit_b_16": (vit(), 86),  # Dosovitskiy et al. (2021), table 1; torchvision: 86,567,656
    "resnet18_imagenet": (on_ten_classes(11_689_512, 512), 11.2),  # published: torchvision's page
    "resnet50_imagenet": (on_ten_classes(25_557_032, 2048), 23.5),  # same
    "resnet152_imagenet": (on_ten_classes(60_192_808, 2048), 58.2),  # same
}


def test_every_image_network_has_a_published_size():
    assert set(COUNTS) == set(IMAGES)
    assert on_ten_classes(86_567_656, 768) == vit()  # two sources of the same number


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts(name):
    exactly, millions = COUNTS[name]
    assert parameter_count(on_meta(name)) == exactly
    digits = len(str(millions).partition(".")[2])
    assert round(exactly / 1e6, digits) == millions


def test_small_networks_count():
    assert parameter_count(build("mlp")) == linear(40, 256) + linear(256, 256) + linear(256)
    flat = 5 * 32 + 2 * 3 * 32 * 32 + 3 * norm(32) + linear(5 * 32)
    assert parameter_count(build("cnn")) == flat
    text = 50 * 64 + 7 * (3 * 64 * 64 + norm(64)) + linear(64)
    assert parameter_count(build("textcnn")) == text
    network = build("mlp")
    network.head.requires_grad_(False)
    assert parameter_count(network) == linear(40, 256) + linear(256, 256)


@given(st.integers(1, 6), st.integers(1, 24))
@settings(max_examples=10, deadline=None)
def test_thin_width_option(n, width):
    network = on_meta("resnet20", width=width)
    assert parameter_count(network) == thin_resnet(20, width)
    assert network.head.in_features == 4 * width


# --- the one forward pass -------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[n for n in networks.NETWORKS if n not in HEAVY])
def built(request):
    """Each network once, for all the tests below: (name, network, batch)."""
    yield request.param, build(request.param).eval(), batch(request.param)


@torch.no_grad()
def test_forward_is_stages_pool_head(built):
    name, network, x = built
    before, hidden = x.clone(), x
    for stage in network.stages:
        given_ = hidden
        kept = given_.clone()
        hidden = stage(given_)
        assert torch.equal(given_, kept), "a stage changed its input"
    kept = hidden.clone()
    features = network.pool(hidden)
    assert torch.equal(hidden, kept), "the pool changed its input"
    assert torch.equal(x, before)
    assert features.shape == (2, network.head.in_features)
    assert torch.equal(features, network.features(x))
    logits = network(x)
    assert logits.shape == (2, 10)
    assert torch.equal(logits, network.head(features))
    assert logits.isfinite().all()


def test_every_network_has_stages_and_a_linear_head(built):
    _, network, _ = built
    assert isinstance(network, networks.Network) and isinstance(network.head, nn.Linear)
    assert isinstance(network.stages, nn.ModuleList) and len(network.stages) > 1


def test_every_weight_reaches_the_loss(built):
    name, network, x = built
    network.zero_grad()
    F.cross_entropy(network(x), torch.tensor([0, 1])).backward()
    idle = [n for n, p in network.named_parameters() if p.grad is None]
    network.zero_grad()
    assert not idle


STAGES = {
    # channels and side of what each stage gives, for a 32-pixel image
    "resnet20": [(16, 32), (16, 32), (32, 16), (64, 8)],
    "preact_resnet110": [(16, 32), (16, 32), (32, 16), (64, 8)],
    "resnet50": [(64, 32), (256, 32), (512, 16), (1024, 8), (2048, 4)],
    "wrn_28_10": [(16, 32), (160, 32), (320, 16), (640, 8)],
    "wrn_26_10": [(16, 32), (160, 32), (320, 16), (640, 8)],
    "densenet_bc_100_12": [(24, 32), (216, 32), (300, 16), (342, 8)],
    "densenet121": [(64, 32), (256, 32), (512, 16), (1024, 8), (1024, 4)],
    "convmixer_256_16": 5 * [(256, 32)],
    "vgg16_bn": [(64, 16), (128, 8), (256, 4), (512, 2), (512, 1)],
    "mobilenet_v2": [
        *((32, 32), (16, 32), (24, 32), (32, 32), (64, 16), (96, 16)),
        *((160, 8), (320, 8), (1280, 8)),
    ],
    "efficientnet_b0": [
        *((32, 32), (16, 32), (24, 16), (40, 8), (80, 4), (112, 4)),
        *((192, 4), (320, 4), (1280, 4)),
    ],
    "resnet18_imagenet": [(64, 8), (64, 8), (128, 4), (256, 2), (512, 1)],
}


@pytest.mark.parametrize("name", STAGES)
def test_resolutions(name):
    network, x, seen = on_meta(name), torch.empty(2, 3, 32, 32, device="meta"), []
    for stage in network.stages:
        x = stage(x)
        assert x.shape[2] == x.shape[3]
        seen.append((x.shape[1], x.shape[2]))
    assert seen == STAGES[name]


@pytest.mark.parametrize(
    ("shape", "name"),
    [(s, n) for s in [(1, 8, 11), (3, 64, 64)] for n in IMAGES]
    + [((3, 32, 32), n) for n in IMAGES if n in HEAVY],  # the others are `built` so
)
def test_image_networks_take_grey_and_other_sizes(shape, name):
    network = on_meta(name, shape)
    features = network.features(torch.empty(2, *shape, device="meta"))
    assert features.shape == (2, network.head.in_features)
    assert network.head(features).shape == (2, 10)


@given(st.sampled_from(["cnn", "mlp"]), st.integers(1, 3), st.integers(1, 70))
@settings(max_examples=30, deadline=None)
def test_signals_of_any_length(name, channels, length):
    network = build(name, (channels, length)).eval()
    assert network(torch.randn(2, channels, length)).shape == (2, 10)


@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_cnn_on_images_of_any_size(channels, height, width):
    network = build("cnn", (channels, height, width)).eval()
    assert network(torch.randn(2, channels, height, width)).shape == (2, 10)


def test_mlp_takes_vectors_and_layers():
    network = networks.build("mlp", (2,), 5, hidden=[10])
    assert [p.shape for p in network.parameters()] == [(10, 2), (10,), (5, 10), (5,)]
    assert network(torch.zeros(3, 2)).shape == (3, 5)


# --- against independent implementations ----------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet18_imagenet", "vit_b_16"])
def test_rearranged_torchvision_networks_give_the_same_logits(name):
    """Ours, filled with torchvision's weights, is torchvision's network."""
    original = name.removesuffix("_imagenet")
    torch.manual_seed(0)
    theirs = torchvision.models.get_model(original, num_classes=10).eval()
    torch.manual_seed(0)
    ours = networks.build(name, (3, 224, 224), 10).eval()
    with torch.no_grad():
        for network in (theirs.heads if name == "vit_b_16" else theirs.fc, ours.head):
            for i, p in enumerate(network.parameters()):  # ViT's head starts from zero
                p.copy_(torch.linspace(-1, 1, p.numel()).view_as(p) + i)
        x = torch.randn(1, 3, 224, 224)
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("resnet18", torchvision.models.resnet18),
        ("resnet50", torchvision.models.resnet50),
        ("densenet121", torchvision.models.densenet121),
        ("vgg16_bn", torchvision.models.vgg16_bn),
        ("mobilenet_v2", torchvision.models.mobilenet_v2),
    ],
)
def test_small_stem_networks_are_torchvisions_behind_the_stem(name, make):
    """Weights of the same shapes between the first convolution and the head."""
    with torch.device("meta"):
        theirs = [tuple(p.shape) for p in make().parameters()]
    ours = [tuple(p.shape) for p in on_meta(name).parameters()]
    stem = (3, 1) if name == "densenet121" else (1, 1)  # ours has no norm there, as published
    head = 6 if name == "vgg16_bn" else 2  # torchvision's VGG has three linear layers
    assert sorted(theirs[stem[0] : -head]) == sorted(ours[stem[1] : -2])


def test_pad_shortcut_by_hand():
    shortcut = residual_networks.PadShortcut(2, 4, 2)
    x = torch.arange(2 * 4 * 4.0).view(1, 2, 4, 4)
    y = shortcut(x)
    assert y.shape == (1, 4, 2, 2)
    assert torch.equal(y[0, 1], torch.tensor([[0.0, 2.0], [8.0, 10.0]]))
    assert torch.equal(y[0, 2], torch.tensor([[16.0, 18.0], [24.0, 26.0]]))
    assert not y[0, [0, 3]].any()


def test_pad_shortcut_keeps_the_memory_format_of_gradients():
    """A gradient laid out otherwise makes the layers before it slow."""
    x = torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    y = residual_networks.PadShortcut(4, 8, 2)(x)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert gradient.is_contiguous(memory_format=torch.channels_last)
    expected = torch.zeros(2, 4, 8, 8)
    expected[:, :, ::2, ::2] = 1
    assert torch.equal(gradient, expected)


def test_mixer_pads_like_same():
    torch.manual_seed(0)
    mixer = image_networks.Mixer(4, 8, (nn.Identity(), nn.Identity())).double()
    x = torch.randn(2, 4, 9, 7, dtype=torch.float64)
    weights = mixer.mix[1]
    with pytest.warns(UserWarning, match="even kernel"):
        same = F.conv2d(x, weights.weight, weights.bias, padding="same", groups=4)
    torch.testing.assert_close(mixer(x), x + same)


def test_preactivated_block_adds_what_it_should():
    torch.manual_seed(0)
    block = residual_networks.PreActivated(3, 3, 1).eval()
    nn.init.zeros_(block.residual[-1].weight)
    x = torch.randn(2, 3, 1, 5)
    assert torch.equal(block(x), x)  # the identity goes around both normalisations
    block = residual_networks.PreActivated(3, 6, 2).eval()
    nn.init.zeros_(block.residual[-1].weight)
    x = torch.randn(2, 3, 8, 8)
    rectified = (x / (1 + 1e-5) ** 0.5).relu()
    expected = F.conv2d(rectified, block.shortcut.weight, stride=2)
    torch.testing.assert_close(block(x), expected)


def test_signals_are_convolved_in_one_dimension():
    stem, x = build("cnn").eval().stages[0], batch("cnn")
    convolution = next(m for m in stem.modules() if isinstance(m, nn.Conv2d))
    weight = convolution.weight.squeeze(2)
    assert weight.shape[-1] == 5
    expected = F.conv1d(x, weight, stride=2, padding=2)
    got = stem[:2](x)  # as an image of one row
    torch.testing.assert_close(got.squeeze(2), expected)


def test_text_padding_is_zero_and_tokens_matter():
    network = build("textcnn").eval()
    assert network.stages[0][0].weight[1:].std().item() == pytest.approx(0.02, rel=0.05)
    assert not network.stages[0](torch.zeros(1, 60, dtype=torch.long)).any()
    x = batch("textcnn")
    other = x.clone()
    other[:, 30] = (other[:, 30] + 1) % 50
    assert not torch.equal(network(x), network(other))


def test_texts_are_convolved_in_one_dimension():
    network = build("textcnn").eval()
    x = batch("textcnn")
    hidden = network.stages[0][0](x).transpose(1, 2)
    for stage in network.stages[1:]:
        for layer in stage:
            if isinstance(layer, torch.nn.Conv2d):
                hidden = F.conv1d(hidden, layer.weight.squeeze(2), padding=1)
            elif isinstance(layer, torch.nn.AvgPool2d):
                hidden = F.avg_pool1d(hidden, 4, ceil_mode=True)
            elif isinstance(layer, torch.nn.BatchNorm2d):
                hidden = hidden / (1 + layer.eps) ** 0.5  # as it starts
            else:
                hidden = hidden.relu()
    torch.testing.assert_close(network.features(x), hidden.mean(2), rtol=1e-4, atol=1e-6)


# --- initialisation -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SMALL, "resnet18", "densenet_bc_100_12", "mobilenet_v2"])
def test_the_seed_decides_everything(name):
    first, again, other = build(name), build(name), build(name, seed=1)
    pairs = list(zip(first.state_dict().values(), again.state_dict().values(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(first.head.weight, other.head.weight)


@pytest.mark.parametrize("name", ["resnet18", "wrn_28_10", "vgg16_bn", "resnet110_thin"])
def test_he_initialisation(name):
    """Standard deviation sqrt(2 / fan-out), zero mean: He et al. (2015)."""
    for module in build(name).modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 20_000:
            fan_out = module.out_channels * module.kernel_size[0] * module.kernel_size[1]
            assert module.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.05)
        if isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all() and (module.bias == 0).all()


@pytest.mark.parametrize("classes", [3, 1000])
def test_vit_head_starts_from_zero_unless_pretrained(monkeypatch, classes):
    """A miniature ViT, its head filled as if pretrained, stands for the weight file."""
    pretrained = torchvision.models.VisionTransformer(224, 16, 4, 2, 8, 8)
    nn.init.ones_(pretrained.heads.head.weight)
    monkeypatch.setattr(imagenet_networks, "imagenet", lambda *arguments: pretrained)
    head = networks.build("vit_b_16", (3, 32, 32), classes, weights="IMAGENET1K_V1").head
    assert head.weight.shape == (classes, 8)
    assert (head.weight == (1 if classes == 1000 else 0)).all() and not head.bias.any()


# --- learning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_sgd_lowers_the_loss(name):
    network, x = build(name).train(), batch(name, 32)
    y = torch.arange(32) % 10
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01)
    before = F.cross_entropy(network(x), y)
    before.backward()
    optimiser.step()
    assert F.cross_entropy(network(x), y) < before


@pytest.mark.parametrize("name", ["resnet8", "preact_resnet110", "densenet_bc_100_12", "vgg16_bn"])
def test_channels_last_stays_channels_last(name):
    network = build(name).eval().to(memory_format=torch.channels_last)
    x = hidden = batch(name).to(memory_format=torch.channels_last)
    with torch.no_grad():
        for stage in network.stages:
            hidden = stage(hidden)
            assert hidden.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(
            network(x), build(name).eval()(x.contiguous()), rtol=1e-3, atol=1e-3
        )


def test_dropout_only_in_training():
    for name in ("textcnn", "efficientnet_b0"):
        network, x = build(name), batch(name, 4)
        assert not torch.equal(network.train()(x), network(x))
        assert torch.equal(network.eval()(x), network(x))


# --- refusals -------------------------------------------------------------------------------------


def refused(match, *arguments, **options):
    with pytest.raises(ValueError, match=match) as caught:
        networks.build(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_unknown_name_lists_the_nearest_ones():
    message = refused("unknown network 'resnet19'", "resnet19", (3, 32, 32), 10)
    assert re.search(r"nearest of \d+: resnet18, ", message) and len(message) < 250
    assert "resnet110" not in networks.NETWORKS  # it means several, which are listed


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("shape", [(1, 40), (2,), (3, 32, 32, 32), (3, 4, 32)])
def test_image_networks_refuse_other_shapes(name, shape):
    refused(r"input_shape: got .*takes images", name, shape, 10)


def test_other_refusals():
    refused(r"input_shape: got \(2,\).*signals", "cnn", (2,), 10)
    refused(r"input_shape: got \(1, 40\).*texts", "textcnn", (1, 40), 10, vocabulary=9)
    refused("vocabulary: got None", "textcnn", (40,), 10)
    refused("1 or 3 channels", "vit_b_16", (4, 224, 224), 10)
    refused("input_shape: got", "mlp", (), 10)
    refused("input_shape: got", "mlp", (3, 0), 10)
    refused("input_shape: got", "mlp", (2.5,), 10)
    refused("classes: got 1", "mlp", (2,), 1)
    refused("classes: got 2.0", "mlp", (2,), 2.0)


@pytest.mark.parametrize(
    ("name", "options"),
    [("resnet18", {"width": 8}), ("resnet20", {"depth": 8}), ("vgg16_bn", {"classes_": 3})],
)
def test_options_nobody_offers(name, options):
    refused(f"options: {name}: .*{next(iter(options))}", name, (3, 32, 32), 10, **options)


# --- pretrained weights ---------------------------------------------------------------------------


def test_unknown_weights_are_refused_with_the_known_ones():
    refused("weights: got 'best'.*IMAGENET1K_V1", "vit_b_16", (3, 32, 32), 10, weights="best")


@pytest.mark.parametrize("classes", [10, 1000])
def test_pretrained_weights_from_the_hub_folder(tmp_path, monkeypatch, classes):
    """A weight file in torch's hub folder is used, and its head only for a thousand classes."""
    torch.manual_seed(3)
    published = torchvision.models.resnet18()
    known = torchvision.models.ResNet18_Weights.IMAGENET1K_V1
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(published.state_dict(), folder / known.url.rpartition("/")[2])
    network = networks.build("resnet18_imagenet", (1, 64, 64), classes, weights=known.name).eval()
    published.eval()
    assert torch.equal(network.stages[0][1].weight, published.conv1.weight)
    assert network.head.out_features == classes
    if classes == 1000:
        x = torch.randn(2, 1, 64, 64)
        torch.testing.assert_close(network(x), published(x.expand(-1, 3, -1, -1)))


def test_weights_which_cannot_be_fetched(tmp_path, monkeypatch):
    def offline(*arguments, **options):
        raise OSError("no network")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setattr(torch.hub, "urlopen", offline)
    with pytest.raises(
        OSError, match="weights: cannot fetch .*resnet50.*put the file in"
    ) as caught:
        networks.build("resnet50_imagenet", (3, 64, 64), 10, weights="IMAGENET1K_V2")
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_only_networks_with_published_weights_take_them():
    refused("options: resnet18: .*weights", "resnet18:IMAGENET1K_V1", (3, 32, 32), 10)


def test_vgg_starts_from_torchvisions_weights(monkeypatch):
    """All but the linear layer."""
    torch.manual_seed(2)
    vgg = torchvision.models.vgg
    theirs = nn.Module()
    theirs.features = vgg.make_layers(vgg.cfgs["D"], batch_norm=True).eval()
    monkeypatch.setattr(image_networks, "imagenet", lambda *wanted: theirs)
    network = networks.build("vgg16_bn:IMAGENET1K_V1", (3, 32, 32), 10).eval()
    x = torch.randn(2, 3, 32, 32)
    hidden = theirs.features(x)
    for stage in network.stages:
        x = stage(x)
    torch.testing.assert_close(x, hidden)
    refused("colour", "vgg16_bn:IMAGENET1K_V1", (1, 32, 32), 10)


# --- weights of others ----------------------------------------------------------------------------


def test_public_weights_are_put_in_by_their_order(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from public_networks import he_resnet, logits_of, with_weights

    network = networks.build("resnet20", (3, 32, 32), 10).eval()
    for name, values in network.state_dict().items():
        if name.endswith("running_var"):
            values.uniform_(0.5, 2.0)
    theirs = {
        f"module.{i}.{n.split('.')[-1]}": w for i, (n, w) in enumerate(network.state_dict().items())
    }
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    found = with_weights(he_resnet(20), theirs | {"odd.template.weight": images}, ["template"])
    torch.testing.assert_close(logits_of(found, images), logits_of(network, images))
    with pytest.raises(ValueError):
        with_weights(he_resnet(32), theirs)
