"""On the pitfall of mixup (slides).

Four ResNets on four data sets, and two that start from ImageNet weights on Tiny-ImageNet. The
slides state neither schedule nor number of runs: public code (350 epochs, steps after 150 and
250, weight decay 1e-4, 5,000 held out by seed 101). Their ratios are folded to at least 1/2: with
one ratio and one permutation for a batch, that mixes the same pairs in the same shares. The
alpha of ablations and MIT is not stated either: 1, as in the README of the code. The slides head
three columns MIT-A, MIT-L, MIT-A, all with a margin of 1/2: names are kept, margins are those of
the README (MIT-L 0, MIT-A 0 and 1/2), and the last column is taken for the one with a margin.
"""

from calibkit_companion.experiments.papers import here
from calibkit_companion.experiments.papers import protocols as p
from calibkit_companion.experiments.papers.blocks import (
    CIFARS,
    FOUR,
    Block,
    Need,
    Paper,
    grid,
    settings,
)

_DATA = f"svhn {CIFARS} tiny_imagenet"
_NETWORKS = "resnet18 resnet50 resnet110_bottleneck resnet152"
_TRANSFERRED = "resnet18_imagenet:IMAGENET1K_V1 resnet152_imagenet:IMAGENET1K_V1"
_PLACES = settings("mixup", _DATA, _NETWORKS, p.MIXUP_CIFAR, 1)
_PRETRAINED = settings("mixup", "tiny_imagenet", _TRANSFERRED, p.MIXUP_CIFAR, 1)
_RESNET110 = _PLACES[2::4]
_ALPHAS = grid("mixup", "alpha", (0.1, 0.5, 1))
_ABLATIONS = ("mixup_dt", "mixup_to", "mixup_sc", "mixup_io")
_BLOCKS = (
    Block(("mixup-tab1",), _PLACES, ("erm", *_ALPHAS)),
    Block(("mixup-fig1",), _RESNET110, ("erm", *_ALPHAS)),
    Block(("mixup-fig2",), _PLACES, ("erm", "mixup(alpha=1)", *_ABLATIONS)),
    Block(("mixup-fig3",), _PLACES, ("erm", "mixup(alpha=1)", "mixup_sc", "mixup_io")),
    Block(
        ("mixup-tab5", "mixup-tab4"),
        (*_PLACES, *_PRETRAINED),
        ("erm", *_ALPHAS, *_ABLATIONS, "mit_l", "mit_a(margin=0)", "mit_a"),
    ),
    # Which data are not stated; the slides show ResNet-18 and ResNet-110.
    Block(("mixup-figC",), _PLACES[4:8:2], grid("mit_a", "alpha", (0.1, 0.5, 1))),
)

_MAIN = ("erm", "mixup", "mixup_to", "mixup_io", "mit_l", "mit_a")
_PLAIN = here.memorised(p.MIXUP_CIFAR, (2, 9, 12, 14, 17))
_SMALL = here.small(p.MIXUP_CIFAR)

PAPER = Paper(
    authors="Wang et al. (2023)",
    blocks=_BLOCKS,
    rows=(
        Need((*FOUR, "mixup_dt", "mixup_to", "mixup_sc", "mixup_io", "l1_norm", "mit_l", "mit_a")),
        Need(
            (*_ALPHAS, *grid("mit_a", "alpha", (0.1, 0.5)), "mit_a(margin=0)", "mit_l(margin=0.5)"),
            "sweep",
        ),
    ),
    released=(
        here.on_cifar10(
            _PLAIN,
            "without augmentation",
            "cifar10-mixup",
            note=", schedule of Wang et al. (2023)",
            methods=_MAIN,
        ),
        here.on_fashion(
            _SMALL,
            "fashion-mixup",
            schedule="schedule of Wang et al. (2023), shortened",
            sweep_seeds=10,
        ),
    ),
)
