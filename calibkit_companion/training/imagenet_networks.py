"""Networks with the first layers for ImageNet (the stem), and their pretrained weights."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit_companion.training.layers import (
    Network,
    Shape,
    average,
    expect,
    expect_image,
    quarters,
    torchvision_models,
)


class _AsImageNet(nn.Module):
    """A layer that repeats a grey channel three times, and resizes images to `size` pixels.

    A `size` of None keeps the size of the images.
    """

    def __init__(self, size: int | None = None):
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        x = x.expand(-1, 3, -1, -1)
        if self.size is None or x.shape[-2:] == (self.size, self.size):
            return x
        return F.interpolate(x, size=(self.size, self.size), mode="bilinear")


def imagenet(name: str, weights: str | None, shape: Shape, classes: int) -> nn.Module:
    """Build the network `name` of torchvision, with the pretrained `weights` of a name, if any."""
    expect_image(shape)
    expect(shape[0] in (1, 3), shape, "images of 1 or 3 channels")
    models = torchvision_models()
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
    """Return the head if it has the right number of classes, else a new linear layer."""
    return head if head.out_features == classes else nn.Linear(head.in_features, classes)


def resnet_imagenet(name: str, shape: Shape, classes: int, weights: str | None = None) -> Network:
    """Build a ResNet of torchvision, which starts with a 7x7 convolution and maximum pooling."""
    net = imagenet(name, weights, shape, classes)
    stem = nn.Sequential(_AsImageNet(), net.conv1, net.bn1, net.relu, net.maxpool)
    stages = [stem, net.layer1, net.layer2, net.layer3, net.layer4]
    return Network(stages, nn.Sequential(*average()), _new_head(net.fc, classes))


class _Tokens(nn.Module):
    """The first layer of ViT: a class token and a token for each patch, plus their positions."""

    def __init__(self, patches: nn.Conv2d, class_token: nn.Parameter, positions: nn.Parameter):
        super().__init__()
        self.patches, self.class_token, self.positions = patches, class_token, positions

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), patches], dim=1)
        return tokens + self.positions


class _ClassToken(nn.Module):
    """A layer that keeps the class token (B, d) of the tokens (B, tokens, d)."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


def vit_b_16(shape: Shape, classes: int, weights: str | None = None) -> Network:
    """ViT-B/16 (Dosovitskiy et al., 2021); images are resized to 224 pixels.

    bsce fine-tunes weights by Google. ``weights="IMAGENET1K_V1"`` are other weights for the same
    network, by torchvision. The weights of a new head start from zero.
    """
    net = imagenet("vit_b_16", weights, shape, classes)
    encoder = net.encoder
    tokens = _Tokens(net.conv_proj, net.class_token, encoder.pos_embedding)
    head = _new_head(net.heads.head, classes)
    if head is not net.heads.head:
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
    stages = [nn.Sequential(_AsImageNet(224), tokens), *quarters(encoder.layers)]
    return Network(stages, nn.Sequential(_ClassToken(), encoder.ln), head)
