"""The experiments of "On the pitfall of mixup", of which we have the slides (mixup).

- Slides: four ResNets on four data sets, and two networks with ImageNet weights on Tiny-ImageNet.
- Public code, because the slides name neither schedule nor number of runs: 350 epochs, the learning
  rate drops after epochs 150 and 250, weight decay 1e-4, 5,000 samples held out by seed 101.
- Ratios: the slides fold the mixing ratio to at least 1/2. A batch has one ratio and one
  permutation, so this mixes the same pairs in the same shares as without folding.
- README of the code: alpha = 1 for ablations and MIT, which the slides do not give.
- Columns: the slides head three columns MIT-A, MIT-L and MIT-A, all with a margin of 1/2. We keep
  these names and take the margins of the README: 0 for MIT-L, and 0 and 1/2 for MIT-A. We assume
  that the last column is the one with the margin of 1/2.
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
    # The slides do not name the data set of this figure; they show ResNet-18 and ResNet-110.
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
