"""The experiments of the paper "Rethinking confidence calibration for failure prediction" (fmfp).

- Section 3.1 and supplement: 200 epochs, the learning rate drops after epochs 80, 130 and 170
  (Tiny-ImageNet: 90 epochs, drops after 40 and 70), SGD with momentum 0.9, weight decay 5e-4,
  batches of 128, a tenth of the samples held out, three runs. MobileNet and EfficientNet are in the
  supplement. The corrupted test set is CIFAR-10-C.
- Text: the coefficients (the defaults of the code are alpha = 0.3 and gamma = 2).
- Public code: the seed 42 of the split, and the sizes of networks that the text only names.
- The public code of CS-KD and of CRL: their coefficients.
"""

from dataclasses import replace

from calibkit_companion.experiments.papers import here
from calibkit_companion.experiments.papers import protocols as p
from calibkit_companion.experiments.papers.blocks import CIFARS, FOUR, Block, Need, Paper, settings
from calibkit_companion.experiments.run import Setting

_NETWORKS = "preact_resnet110 wrn_28_10 densenet_bc_100_12 convmixer_256_16"
_CALIBRATION = ("erm", "mixup", "label_smoothing", "focal", "cs_kd", "l1_norm")
_FLAT = ("erm", "crl", "sam", "swa", "fmfp")
_SHIFTED = replace(p.FMFP_CIFAR, shifted=10_000)


def _both(networks: str) -> tuple[Setting, ...]:
    return (
        *settings("fmfp", "cifar10", networks, _SHIFTED, 3),
        *settings("fmfp", "cifar100", networks, p.FMFP_CIFAR, 3),
    )


_FIRST = _both(_NETWORKS)
_RESNET = _FIRST[:1]  # CIFAR-10, PreAct-ResNet-110: what most figures show
_TINY = settings("fmfp", "tiny_imagenet", "resnet18 resnet50", p.FMFP_TINY, 3)
_SCORED = replace(p.FMFP_CIFAR, feature_scores=p.CONFIDNET_EPOCHS)
_VGG = settings("fmfp", CIFARS, "vgg16_bn", _SCORED, 3, "scores")
_IMAGENET = settings("fmfp", "imagenet", "resnet18_imagenet resnet50_imagenet", p.FMFP_IMAGENET, 1)
_BLOCKS = (
    Block(("fmfp-tab1",), _FIRST, _CALIBRATION),
    Block(("fmfp-text-sec32",), _FIRST[:4:2], ("erm", "mixup", "focal")),
    Block(("fmfp-fig2",), _RESNET, (*_CALIBRATION, "crl", "fmfp")),
    Block(("fmfp-fig4",), _FIRST, ("erm",)),  # temperatures fitted on validation and on test data
    Block(("fmfp-fig5",), _RESNET, ("erm", "label_smoothing")),
    Block(("fmfp-fig6",), _RESNET, _CALIBRATION),
    Block(("fmfp-fig8",), _RESNET, ("erm",)),
    Block(("fmfp-tab2",), _FIRST, _FLAT),
    # In the supplement, SAM and averaging start from plain training after 120 epochs
    # (Tiny-ImageNet: 50). In the code, SAM is used from the first epoch, and the learning rate
    # follows a cosine.
    Block(("fmfp-tab2", "fmfp-alg1"), _FIRST, ("swa", "fmfp"), variant="paper"),
    Block(("fmfp-tab3",), _FIRST[:4], ("erm", "crl", "fmfp")),  # tested on CIFAR-10-C
    Block(("fmfp-fig9", "fmfp-fig10"), _RESNET, ("erm", "fmfp")),  # the paper names no setting
    Block(("fmfp-fig11", "fmfp-fig16"), _FIRST, ("erm", "crl", "fmfp")),
    Block(("fmfp-fig12",), _RESNET, ("erm", "sam", "swa", "fmfp")),
    Block(("fmfp-tab4",), _both("mobilenet_v2 efficientnet_b0"), _CALIBRATION),
    Block(("fmfp-tab5",), _TINY, ("erm", "crl", "fmfp")),
    Block(("fmfp-tab5",), _TINY, ("fmfp",), variant="paper"),
    Block(("fmfp-fig13",), _TINY, _CALIBRATION),
    Block(("fmfp-fig15",), _VGG, ("erm", "fmfp")),  # beside Trust Score and ConfidNet
    # The paper states no protocol for ImageNet: the usual protocol, one run.
    Block(("fmfp-fig3",), _IMAGENET[:1], _CALIBRATION),
    Block(("fmfp-fig14",), _IMAGENET[1:], _CALIBRATION),
)

# CIFAR-10 with a residual network on a CPU, without and with crops and flips. Without them plain
# training knows its training set by heart after 20 epochs; with them, as published, it does not.
_PLAIN = here.memorised(p.FMFP_CIFAR, (2, 8, 10, 13, 17))
_AUGMENTED = replace(_PLAIN, augment=True)
# Crops and flips until plain training is as over-confident as without them.
_LONG = replace(p.FMFP_CIFAR.shortened(60), **here.WRITTEN | {"snapshots": (6, 24, 30, 39, 51)})

PAPER = Paper(
    authors="Zhu et al. (2022)",
    blocks=_BLOCKS,
    rows=(
        Need((*FOUR, "cs_kd", "l1_norm", "crl", "sam", "swa", "fmfp")),
        Need(("fmfp",), "few", ("as written",)),
        Need(("erm",), "few", ("with scores",)),
    ),
    released=(
        here.on_cifar10(_PLAIN, "without augmentation, 20 epochs", "cifar10-plain"),
        here.on_cifar10(_AUGMENTED, "with crops and flips, 20 epochs", "cifar10-augmented"),
        here.on_cifar10(
            _LONG,
            "with crops and flips, 60 epochs",
            "cifar10-long",
            note=" (our closest setting)",
            network="resnet18_w32_s2",
            methods=("erm", "label_smoothing", "mixup", "focal", "swa", "fmfp", "bsce_gra"),
        ),
        here.on_fashion(
            here.small(p.FMFP_CIFAR), "fashion-fmfp", schedule="schedule of Zhu et al., shortened"
        ),
    ),
    trained=("200 epochs (Tiny-ImageNet: 90)", "3 seeds"),
)
