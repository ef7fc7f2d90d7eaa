"""The experiments of the paper "Uncertainty weighted gradients" (bsce).

- Section 5.1: 350 epochs, the learning rate drops after epochs 150 and 250 (Tiny-ImageNet: 100
  epochs, drops after 40 and 60), SGD with momentum 0.9, weight decay 5e-4, batches of 128, 5,000
  samples held out, seeds 1, 42 and 71.
- Public code: the loss is summed over the batch, the gradient is clipped to norm 2, and the split
  has seed 1. Tiny-ImageNet is validated and tested on the official validation part. The scripts
  have gamma = 4 and beta = 2.
- Ours: gamma = 3 for focal loss, which the text does not give, and the settings of figure 6.
"""

from dataclasses import replace

from calibkit_companion.experiments.papers import here
from calibkit_companion.experiments.papers import protocols as p
from calibkit_companion.experiments.papers.blocks import CIFARS, Block, Need, Paper, grid, settings

_RUNS = (1, 42, 71)
_NETWORKS = "resnet50 resnet110_bottleneck wrn_26_10 densenet121"
_CIFAR = settings("bsce", CIFARS, _NETWORKS, p.BSCE_CIFAR, _RUNS)
_RESNET = _CIFAR[:1]  # CIFAR-10, ResNet-50
_ALL = (*_CIFAR, *settings("bsce", "tiny_imagenet", "resnet50", p.BSCE_TINY, _RUNS))
_VIT = settings("bsce", "cifar10", "vit_b_16:IMAGENET1K_V1", p.BSCE_VIT, _RUNS)
_IMAGENET = settings("bsce", "imagenet", "resnet50_imagenet:IMAGENET1K_V1", p.BSCE_IMAGENET, 1)
_TOY = settings("bsce", "gaussians", "two_layers", p.BSCE_TOY, 5)
_METHODS = ("erm", "brier", "mmce", "flsd53", "dual_focal", "bsce", "bsce_gra")
_FINE_TUNED = ("erm", "focal", "bsce_gra")
_WITH_GRA = tuple(m + gra for m in ("flsd53", "dual_focal", "bsce") for gra in ("", "_gra"))
_EXPONENTS = tuple(
    f"{m}(gamma={g},beta={b})" for m in ("bsce", "bsce_gra") for g in (1, 2, 4, 6) for b in (1, 2)
)
_BLOCKS = (
    Block(("bsce-tab1", "bsce-tab3", "bsce-tab4", "bsce-tab5"), _ALL, _METHODS),
    Block(("bsce-fig3",), _CIFAR[:2], _METHODS),
    Block(("bsce-tab2",), _RESNET, _WITH_GRA),
    Block(("bsce-fig4",), _RESNET, ("focal", "dual_focal", "bsce_gra")),
    Block(("bsce-fig5",), _RESNET, ("erm", "focal", "bsce_gra")),
    Block(("bsce-fig6",), _RESNET, _EXPONENTS, seeds=1),
    Block(("bsce-fig7",), _RESNET, ("erm", "focal")),
    Block(("bsce-fig8",), _RESNET, ("dual_focal", "bsce", "bsce_gra")),
    Block(("bsce-tab6",), _CIFAR[4:5], grid("bsce_gra", "gamma", (3, 4, 5, 6, 7, 8))),
    # Fine-tuning: ViT-B/16 by Google for 50 epochs; ResNet-50 by PyTorch for 90 epochs, with Adam
    # and a cosine.
    Block(("bsce-tab7",), _VIT, _FINE_TUNED),
    Block(("bsce-tab8",), _IMAGENET, _FINE_TUNED),
    # Section 4.3 and the public notebook: two layers, five epochs, five runs.
    Block(("bsce-text-toy",), _TOY, ("erm",)),
    Block(("bsce-text-runtime",), _RESNET, ("erm", "bsce_gra")),
    Block(("bsce-text-consistency",), _RESNET, ("erm", "consistency_gra")),
)

# Papers on focal loss and on the Brier score train so, but their texts do not mention it.
SUMMED = (("reduction", "sum"), ("clip_norm", 2.0))

_MAIN = (*_METHODS, "focal", "consistency_gra")
_PLAIN = here.memorised(p.BSCE_CIFAR, (2, 9, 12, 14, 17))
_CIFAR10_TITLE = "without augmentation, 20 epochs, loss summed and gradient clipped"
_SMALL = here.small(p.BSCE_CIFAR, 120)
_SUMMED = replace(here.FASHION, **dict(SUMMED))

PAPER = Paper(
    authors="Lin et al. (2025)",
    blocks=_BLOCKS,
    rows=(  # the loss is averaged over the batch, as in the other papers
        Need(("erm", "brier", "mmce", *_WITH_GRA[:2], "focal", "focal_gra", *_WITH_GRA[2:]), "few"),
        Need(("consistency_gra",), "few"),
        Need((*_EXPONENTS, *grid("bsce_gra", "gamma", (3, 5, 7, 8))), "sweep"),
    ),
    chapter=(Need(("erm",), at=("toy",)),),
    released=(
        here.on_cifar10(_PLAIN, _CIFAR10_TITLE, "cifar10-bsce", methods=_MAIN),
        here.on_fashion(_SMALL, "fashion-bsce", schedule="schedule of Lin et al., shortened"),
        here.on_fashion(_SUMMED, "summed", "loss summed and gradient clipped", sweep_seeds=5),
    ),
    otherwise=("summed", "loss summed and gradient clipped", SUMMED),
    trained=("350 epochs (Tiny-ImageNet: 100)", "3 seeds"),
)
