"""The experiments of the paper "On the dark side of calibration" (darkside).

- Supplement A.3, CIFAR: 300 epochs with a learning rate of 0.1. After epochs 150 and 225 it is
  divided by 5 (plain training, ERL, mixup) or by 10 (label smoothing, focal loss). The temperature
  is fixed at 1.5. Three runs.
- Supplement A.3, ImageNet: 100 epochs. The learning rate is divided by 10 after epochs 30, 60 and
  90. The temperature is fixed at 1.1. One run.
- Not described: batch size, optimiser, weight decay, split and augmentation. We take those of the
  public code from which the paper has its focal loss, and the usual ones for ImageNet.
- Ours: VGG-16 has batch norm, because without it a learning rate of 0.1 does not train it.
"""

from dataclasses import replace
from functools import partial

from calibkit_companion.experiments.papers import here
from calibkit_companion.experiments.papers import protocols as p
from calibkit_companion.experiments.papers.blocks import FOUR, Block, Need, Paper, settings

_DECAY = p.DARKSIDE_DECAY
_PROTOCOL = replace(p.DARKSIDE_CIFAR, validation=5000, temperature=1.5)
_METHODS = ("erm", "entropy_regularization", "label_smoothing", "mixup", "focal")
_PLACES = partial(settings, "darkside", seeds=3, exceptions=_DECAY)
_SHIFTED = _PLACES("cifar10", "vgg16_bn", replace(_PROTOCOL, shifted=10_000))
_CIFAR = (
    *_SHIFTED,
    *_PLACES("cifar10", "resnet50 densenet121", _PROTOCOL),
    *_PLACES("cifar100", "vgg16_bn resnet50 densenet121", _PROTOCOL),
)
_IMAGENET = settings("darkside", "imagenet", "resnet50_imagenet", p.DARKSIDE_IMAGENET, 1)
_ON_IMAGENET = (*_METHODS[:2], "label_smoothing(epsilon=0.1)", *_METHODS[3:])
# Supplement A.2: trained by the public code of ConfidNet, a tenth held out, three runs.
_SCORES = (
    *settings("darkside", "cifar10", "vgg16_bn:IMAGENET1K_V1", p.CONFIDNET_CIFAR10, 3),
    *settings("darkside", "cifar100", "vgg16_bn", p.CONFIDNET_CIFAR100, 3, "scores"),
)
_SUMMED = replace(_PROTOCOL, reduction="sum", clip_norm=2.0)
_BLOCKS = (
    Block(("darkside-fig1",), _SHIFTED, ("erm", "label_smoothing")),
    Block(("darkside-tab1", "darkside-tab3"), _IMAGENET, _ON_IMAGENET),
    Block(("darkside-tab2",), _CIFAR, _METHODS),
    Block(("darkside-fig2",), (*_CIFAR[1::3], *_IMAGENET), ("erm",)),
    Block(("darkside-tab3",), _SHIFTED, _METHODS),  # CIFAR-10.1, CIFAR-10.2
    Block(("darkside-tab4",), _SCORES, ("erm",)),
    Block(("darkside-text-sec21", "darkside-text-trainacc"), _IMAGENET, ("erm",)),
    # The listings of the paper sum the loss over the batch. At this learning rate training then
    # fails without the clipping of the public code that the listings follow. The text mentions
    # neither.
    Block(
        ("darkside-lst1", "darkside-lst2"),
        _PLACES("cifar10", "vgg16_bn", _SUMMED, note="summed"),
        ("entropy_regularization", "label_smoothing"),
        variant="paper",
    ),
)

_PLAIN = here.memorised(p.DARKSIDE_CIFAR, (2, 10, 12, 15, 17))
_SMALL = here.small(p.DARKSIDE_CIFAR)

PAPER = Paper(
    authors="Singh et al. (2021)",
    blocks=_BLOCKS,
    rows=(Need((*FOUR, "entropy_regularization")), Need(("erm",), "few", ("with scores",))),
    chapter=(Need((*FOUR, "fmfp"), at=("shared", "fmfp")),),
    released=(
        here.on_cifar10(
            _PLAIN,
            "without augmentation",
            "cifar10-darkside",
            note=", schedule of Singh et al.",
            exceptions=_DECAY,
        ),
        here.on_fashion(
            _SMALL,
            "fashion-darkside",
            schedule="schedule of Singh et al., shortened",
            exceptions=_DECAY,
        ),
    ),
    trained=("300 epochs (ImageNet: 100)", "3 seeds (ImageNet: 1)"),
)
