"""The experiments of the five papers: exhibits x settings x methods, as their own tables have them.

Read it as the experiment sections. What a paper prints comes from its text; where the text is
silent, from its authors' public code; where both are, a comment says that the choice is ours. Where
text and code disagree on the training itself, there is a block for each and `variant` names it.

`PAPERS` lists the blocks, `runs` the runs of a paper or of one exhibit, `find` the runs behind a
published cell. Free of torch and quick to import: the workflow engine reads it for every job.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

from calibkit import terms
from calibkit.training import protocols as p
from calibkit.training.protocols import Protocol
from calibkit.training.runs import Run, Setting


@dataclass(frozen=True)
class Block:
    """What some exhibits of a paper are made of: each method in each setting.

    Attributes
    ----------
    exhibits : ids of `published.exhibits`
    settings, methods : every method is trained in every setting
    variant : "code" or "paper", where the two describe different runs
    seeds : at most so many; 0: those of the settings
    """

    exhibits: tuple[str, ...]
    settings: tuple[Setting, ...]
    methods: tuple[str, ...]
    variant: str = "code"
    seeds: int = 0

    def runs(self) -> list[Run]:
        return [r for s in self.settings for r in s.runs(self.methods, self.variant, self.seeds)]


def _settings(
    paper: str,
    datasets: Iterable[str],
    networks: Iterable[str],
    protocol: Protocol,
    seeds: int | tuple[int, ...],
    note: str = "",
    **more,
) -> tuple[Setting, ...]:
    """Each network on each data set by one protocol."""
    return tuple(
        Setting(
            dataset,
            network,
            protocol,
            seeds,
            name="-".join(filter(None, (paper, dataset, network.replace(":", "-"), note))),
            title=", ".join(filter(None, (terms.DATASETS.get(dataset, dataset), network, note))),
            **more,
        )
        for dataset in datasets
        for network in networks
    )


def _grid(method: str, option: str, values: Iterable[float]) -> tuple[str, ...]:
    return tuple(f"{method}({option}={value:g})" for value in values)


CIFARS = ("cifar10", "cifar100")

# --- fmfp: Rethinking confidence calibration for failure prediction -------------------------------
# Section 3.1 and supplement: 200 epochs, steps after 80, 130, 170 (Tiny-ImageNet: 90; 40, 70), SGD
# with momentum 0.9, weight decay 5e-4, batches of 128, a tenth held out, three runs. Seed 42 of the
# split, and sizes of networks that the text only names: public code. Coefficients: text (the code's
# defaults are alpha = 0.3 and gamma = 2). CS-KD and CRL: the defaults of their own public code.
# Its mobile nets are in the supplement, its corrupted test set is CIFAR-10-C.

_FMFP_NETWORKS = ("preact_resnet110", "wrn_28_10", "densenet_bc_100_12", "convmixer_256_16")
_FMFP_MOBILE = ("mobilenet_v2", "efficientnet_b0")
_CALIBRATION = ("erm", "mixup", "label_smoothing", "focal", "cs_kd", "l1_norm")
_FLAT = ("erm", "crl", "sam", "swa", "fmfp")
_FMFP_SHIFTED = replace(p.FMFP_CIFAR, shifted=10_000)


def _fmfp(networks: Iterable[str]) -> tuple[Setting, ...]:
    return (
        *_settings("fmfp", ("cifar10",), networks, _FMFP_SHIFTED, 3),
        *_settings("fmfp", ("cifar100",), networks, p.FMFP_CIFAR, 3),
    )


_FMFP_FIRST = _fmfp(_FMFP_NETWORKS)
_FMFP_RESNET = _FMFP_FIRST[:1]  # CIFAR-10, PreAct-ResNet-110: what most figures show
_FMFP_TINY = _settings("fmfp", ("tiny_imagenet",), ("resnet18", "resnet50"), p.FMFP_TINY, 3)
_FMFP_IMAGENET = ("resnet18_imagenet", "resnet50_imagenet")
_FMFP_VGG = _settings(
    "fmfp",
    CIFARS,
    ("vgg16_bn",),
    replace(p.FMFP_CIFAR, feature_scores=p.CONFIDNET_EPOCHS),
    3,
    "scores",
)
FMFP = (
    Block(("fmfp-tab1",), _FMFP_FIRST, _CALIBRATION),
    Block(
        ("fmfp-text-sec32",),
        _settings("fmfp", ("cifar10",), _FMFP_NETWORKS[::2], _FMFP_SHIFTED, 3),
        ("erm", "mixup", "focal"),
    ),
    Block(("fmfp-fig2",), _FMFP_RESNET, (*_CALIBRATION, "crl", "fmfp")),
    Block(("fmfp-fig4",), _FMFP_FIRST, ("erm",)),  # temperatures from validation and test data
    Block(("fmfp-fig5",), _FMFP_RESNET, ("erm", "label_smoothing")),
    Block(("fmfp-fig6",), _FMFP_RESNET, _CALIBRATION),
    Block(("fmfp-fig8",), _FMFP_RESNET, ("erm",)),
    Block(("fmfp-tab2",), _FMFP_FIRST, _FLAT),
    # The supplement averages from the baseline's checkpoint of epoch 120 (Tiny-ImageNet: 50) on,
    # and only then looks for flat minima; the code is sharpness-aware from the first epoch and
    # lowers the rate along a cosine.
    Block(("fmfp-tab2", "fmfp-alg1"), _FMFP_FIRST, ("swa", "fmfp"), variant="paper"),
    Block(("fmfp-tab3",), _FMFP_FIRST[:4], ("erm", "crl", "fmfp")),  # tested on CIFAR-10-C
    Block(("fmfp-fig9", "fmfp-fig10"), _FMFP_RESNET, ("erm", "fmfp")),  # settings not stated
    Block(("fmfp-fig11", "fmfp-fig16"), _FMFP_FIRST, ("erm", "crl", "fmfp")),
    Block(("fmfp-fig12",), _FMFP_RESNET, ("erm", "sam", "swa", "fmfp")),
    Block(("fmfp-tab4",), _fmfp(_FMFP_MOBILE), _CALIBRATION),
    Block(("fmfp-tab5",), _FMFP_TINY, ("erm", "crl", "fmfp")),
    Block(("fmfp-tab5",), _FMFP_TINY, ("fmfp",), variant="paper"),
    Block(("fmfp-fig13",), _FMFP_TINY, _CALIBRATION),
    Block(("fmfp-fig15",), _FMFP_VGG, ("erm", "fmfp")),  # beside Trust Score and ConfidNet
    # No settings of ImageNet are stated anywhere: the usual recipe, once.
    *(
        Block(
            (exhibit,), _settings("fmfp", ("imagenet",), (net,), p.FMFP_IMAGENET, 1), _CALIBRATION
        )
        for exhibit, net in zip(("fmfp-fig3", "fmfp-fig14"), _FMFP_IMAGENET, strict=True)
    ),
)

# --- darkside: On the dark side of calibration ----------------------------------------------------
# Supplement A.3: CIFAR in 300 epochs from a rate of 0.1, which is divided after 150 and 225 by 5
# (cross-entropy, ERL, mixup) or by 10 (label smoothing, focal loss); ImageNet in 100 epochs,
# divided by 10 after 30, 60, 90. Temperatures are fixed: 1.5 and 1.1. Three trials, ImageNet one.
# Batch, optimiser, weight decay, split and augmentation are not described: those of the code that
# its focal loss comes from, and for ImageNet the usual ones. Its VGG-16 has batch norm here:
# without, a rate of 0.1 does not train it.

_DARKSIDE_DECAY = p.DARKSIDE_DECAY
_DARKSIDE = replace(p.DARKSIDE_CIFAR, validation=5000, temperature=1.5)
_DARKSIDE_NETWORKS = ("vgg16_bn", "resnet50", "densenet121")
_DARKSIDE_METHODS = ("erm", "entropy_regularization", "label_smoothing", "mixup", "focal")
_DARKSIDE_SHIFTED = _settings(
    "darkside",
    ("cifar10",),
    ("vgg16_bn",),
    replace(_DARKSIDE, shifted=10_000),
    3,
    exceptions=_DARKSIDE_DECAY,
)
_DARKSIDE_CIFAR = (
    *_DARKSIDE_SHIFTED,
    *_settings(
        "darkside", ("cifar10",), _DARKSIDE_NETWORKS[1:], _DARKSIDE, 3, exceptions=_DARKSIDE_DECAY
    ),
    *_settings(
        "darkside", ("cifar100",), _DARKSIDE_NETWORKS, _DARKSIDE, 3, exceptions=_DARKSIDE_DECAY
    ),
)
_DARKSIDE_IMAGENET = _settings(
    "darkside", ("imagenet",), ("resnet50_imagenet",), p.DARKSIDE_IMAGENET, 1
)
_DARKSIDE_ON_IMAGENET = tuple(
    "label_smoothing(epsilon=0.1)" if m == "label_smoothing" else m for m in _DARKSIDE_METHODS
)
# A.2: the public code of ConfidNet, a tenth held out, three runs.
_DARKSIDE_SCORES = (
    *_settings("darkside", ("cifar10",), ("vgg16_bn:IMAGENET1K_V1",), p.CONFIDNET_CIFAR10, 3),
    *_settings("darkside", ("cifar100",), ("vgg16_bn",), p.CONFIDNET_CIFAR100, 3, "scores"),
)
DARKSIDE = (
    Block(("darkside-fig1",), _DARKSIDE_SHIFTED, ("erm", "label_smoothing")),
    Block(("darkside-tab1", "darkside-tab3"), _DARKSIDE_IMAGENET, _DARKSIDE_ON_IMAGENET),
    Block(("darkside-tab2",), _DARKSIDE_CIFAR, _DARKSIDE_METHODS),
    Block(("darkside-fig2",), (*_DARKSIDE_CIFAR[1::3], *_DARKSIDE_IMAGENET), ("erm",)),
    Block(("darkside-tab3",), _DARKSIDE_SHIFTED, _DARKSIDE_METHODS),  # CIFAR-10.1, CIFAR-10.2
    Block(("darkside-tab4",), _DARKSIDE_SCORES, ("erm",)),
    Block(("darkside-text-sec21", "darkside-text-trainacc"), _DARKSIDE_IMAGENET, ("erm",)),
    # The listings sum over the batch, which at this rate only trains with the clipping of the
    # public code that they follow; the text says nothing of either.
    Block(
        ("darkside-lst1", "darkside-lst2"),
        _settings(
            "darkside",
            ("cifar10",),
            ("vgg16_bn",),
            replace(_DARKSIDE, reduction="sum", clip_norm=2.0),
            3,
            "summed",
            exceptions=_DARKSIDE_DECAY,
        ),
        ("entropy_regularization", "label_smoothing"),
        variant="paper",
    ),
)

# --- overconf: Do not be afraid of overconfidence -------------------------------------------------
# Section 3.2: ResNet-32 on images, an 8-layer 1-D CNN on texts, five runs, coefficients of lowest
# ECE on test data, from the grids of figure 1. Schedules are in an appendix that we do not have:
# those of the public code (200 epochs of batches of 512, steps after 100 and 150, weight decay
# 1e-4, 5,000 held out by seed 101), and for texts ours. Figure 1(d) does not state its sizes.

_OVERCONF_IMAGES = ("svhn", *CIFARS)
_OVERCONF = {
    d: _settings("overconf", (d,), ("resnet32",), p.OVERCONF_CIFAR, 5) for d in _OVERCONF_IMAGES
} | {"20newsgroups": _settings("overconf", ("20newsgroups",), ("textcnn",), p.OVERCONF_TEXTS, 5)}
_COEFFICIENTS = {  # smoothing, L1 norm, focal loss: table 1
    "svhn": (0.01, 0.01, 1),
    "cifar10": (0.05, 0.05, 3),
    "cifar100": (0.09, 0.01, 5),
    "20newsgroups": (0.09, 0.01, 5),
}
_EPSILONS, _STRENGTHS, _GAMMAS = (
    (0.01, 0.03, 0.05, 0.07, 0.09),
    (0.001, 0.005, 0.01, 0.05, 0.1),
    (1, 3, 5, 7, 9),
)


def _by_validation(dataset: str) -> tuple[str, ...]:
    epsilon, strength, gamma = _COEFFICIENTS[dataset]
    return (
        "erm",
        f"label_smoothing(epsilon={epsilon})",
        f"l1_norm(strength={strength})",
        f"focal(gamma={gamma})",
    )


def _grids(dataset: str) -> tuple[str, ...]:
    # Section 3.2: training fails above 0.01 on the data of more classes.
    strengths = _STRENGTHS[:3] if dataset in ("cifar100", "20newsgroups") else _STRENGTHS
    return (
        *_grid("label_smoothing", "epsilon", _EPSILONS),
        *_grid("l1_norm", "strength", strengths),
        *_grid("focal", "gamma", _GAMMAS),
    )


def _overconf(
    exhibits: tuple[str, ...],
    methods: Callable[[str], tuple[str, ...]],
    datasets: Iterable[str] = tuple(_COEFFICIENTS),
) -> list[Block]:
    return [Block(exhibits, _OVERCONF[d], methods(d)) for d in datasets]


def _sized(size: int) -> tuple[Setting, ...]:
    protocol = replace(p.OVERCONF_CIFAR, train_size=size)
    return _settings("overconf", ("cifar10",), ("resnet32",), protocol, 1, f"{size} images")


_FINE_GRIDS = (  # figure 1(d)
    *_grid("label_smoothing", "epsilon", (i / 100 for i in range(1, 26))),
    *_grid("l1_norm", "strength", (i / 100 for i in range(1, 11))),
    *_grid("focal", "gamma", _GAMMAS),
)
_INVERSE = tuple(f"{m}(gamma={g})" for m in ("focal", "inverse_focal") for g in (1, 2, 3))
# The public code takes this ResNet-110 from the focal line of papers.
_OVERCONF_110 = _settings("overconf", CIFARS, ("resnet110_bottleneck",), p.OVERCONF_CIFAR, 5)
OVERCONF = (
    *_overconf(("overconf-tab1", "overconf-tab2", "overconf-fig3"), _by_validation),
    # The public code leaves the factor (1 - p)^gamma out of the gradient.
    *_overconf(
        ("overconf-tab1", "overconf-tab2"), lambda d: (f"focal_gra(gamma={_COEFFICIENTS[d][2]})",)
    ),
    *_overconf(("overconf-fig1",), _grids),
    *(Block(("overconf-fig1",), _sized(n), _FINE_GRIDS) for n in (5_000, 15_000, 45_000)),
    *_overconf(("overconf-fig2",), _by_validation, ("cifar10",)),
    *_overconf(("overconf-fig4",), lambda d: ("erm", *_grids(d)[:5])),
    *_overconf(("overconf-fig5",), _by_validation, CIFARS),
    *_overconf(("overconf-fig6",), lambda d: ("erm", *_INVERSE)),
    # Of the appendix, as far as the text refers to it.
    *(Block(("overconf-tabA",), (s,), _by_validation(s.dataset)) for s in _OVERCONF_110),
    *_overconf(("overconf-figA",), lambda d: ("erm", *_grids(d)[5:])),
    *_overconf(
        ("overconf-figA-reliability",), _by_validation, ("svhn", "cifar100", "20newsgroups")
    ),
)

# --- mixup: On the pitfall of mixup (slides) ------------------------------------------------------
# Four ResNets on four data sets, and two that start from ImageNet weights on Tiny-ImageNet. The
# slides state neither schedule nor number of runs: public code (350 epochs, steps after 150 and
# 250, weight decay 1e-4, 5,000 held out by seed 101). Their ratios are folded to at least 1/2: with
# one ratio and one permutation for a batch, that mixes the same pairs in the same shares. The
# alpha of ablations and MIT is not stated either: 1, as in the README of the code.

_MIXUP_NETWORKS = ("resnet18", "resnet50", "resnet110_bottleneck", "resnet152")
_MIXUP_DATA = ("svhn", *CIFARS, "tiny_imagenet")
_MIXUP = _settings("mixup", _MIXUP_DATA, _MIXUP_NETWORKS, p.MIXUP_CIFAR, 1)
_MIXUP_PRETRAINED = _settings(
    "mixup",
    ("tiny_imagenet",),
    ("resnet18_imagenet:IMAGENET1K_V1", "resnet152_imagenet:IMAGENET1K_V1"),
    p.MIXUP_CIFAR,
    1,
)
_MIXUP_110 = _MIXUP[2::4]
_ALPHAS = _grid("mixup", "alpha", (0.1, 0.5, 1))
_ABLATIONS = ("mixup_dt", "mixup_to", "mixup_sc", "mixup_io")
MIXUP = (
    Block(("mixup-tab1",), _MIXUP, ("erm", *_ALPHAS)),
    Block(("mixup-fig1",), _MIXUP_110, ("erm", *_ALPHAS)),
    Block(("mixup-fig2",), _MIXUP, ("erm", "mixup(alpha=1)", *_ABLATIONS)),
    Block(("mixup-fig3",), _MIXUP, ("erm", "mixup(alpha=1)", "mixup_sc", "mixup_io")),
    Block(
        ("mixup-tab5", "mixup-tab4"),
        (*_MIXUP, *_MIXUP_PRETRAINED),
        ("erm", *_ALPHAS, *_ABLATIONS, "mit_l", "mit_a(margin=0)", "mit_a"),
    ),
    # Which data are not stated; the slides show ResNet-18 and ResNet-110.
    Block(("mixup-figC",), _MIXUP[4:8:2], _grid("mit_a", "alpha", (0.1, 0.5, 1))),
)

# --- bsce: Uncertainty weighted gradients ---------------------------------------------------------
# Section 5.1: 350 epochs, steps after 150 and 250 (Tiny-ImageNet: 100; 40, 60), SGD with momentum
# 0.9, weight decay 5e-4, batches of 128, 5,000 held out, seeds 1, 42 and 71. Its public code sums
# the loss over the batch, clips the gradient to norm 2, splits by seed 1, and on Tiny-ImageNet both
# validates and tests on the official validation part. gamma = 4 and beta = 2 are in its scripts;
# focal loss alone has no gamma in the text (3 here). The settings of figure 6 are ours.

BSCE_SEEDS = (1, 42, 71)
_BSCE_NETWORKS = ("resnet50", "resnet110_bottleneck", "wrn_26_10", "densenet121")
_BSCE = _settings("bsce", CIFARS, _BSCE_NETWORKS, p.BSCE_CIFAR, BSCE_SEEDS)
_BSCE_RESNET = _BSCE[:1]  # CIFAR-10, ResNet-50
_BSCE_ALL = (
    *_BSCE,
    *_settings("bsce", ("tiny_imagenet",), ("resnet50",), p.BSCE_TINY, BSCE_SEEDS),
)
_BSCE_METHODS = ("erm", "brier", "mmce", "flsd53", "dual_focal", "bsce", "bsce_gra")
_FINE_TUNED = ("erm", "focal", "bsce_gra")
_POWERS = [(gamma, beta) for gamma in (1, 2, 4, 6) for beta in (1, 2)]
BSCE = (
    Block(("bsce-tab1", "bsce-tab3", "bsce-tab4", "bsce-tab5"), _BSCE_ALL, _BSCE_METHODS),
    Block(("bsce-fig3",), _BSCE[:2], _BSCE_METHODS),
    Block(
        ("bsce-tab2",),
        _BSCE_RESNET,
        ("flsd53", "flsd53_gra", "dual_focal", "dual_focal_gra", "bsce", "bsce_gra"),
    ),
    Block(("bsce-fig4",), _BSCE_RESNET, ("focal", "dual_focal", "bsce_gra")),
    Block(("bsce-fig5",), _BSCE_RESNET, ("erm", "focal", "bsce_gra")),
    Block(
        ("bsce-fig6",),
        _BSCE_RESNET,
        tuple(f"{m}(gamma={g},beta={b})" for m in ("bsce", "bsce_gra") for g, b in _POWERS),
        seeds=1,
    ),
    Block(("bsce-fig7",), _BSCE_RESNET, ("erm", "focal")),
    Block(("bsce-fig8",), _BSCE_RESNET, ("dual_focal", "bsce", "bsce_gra")),
    Block(("bsce-tab6",), _BSCE[4:5], _grid("bsce_gra", "gamma", (3, 4, 5, 6, 7, 8))),
    # Fine-tuned: Google's ViT-B/16 in 50 epochs, PyTorch's ResNet-50 in 90 with Adam and a cosine.
    Block(
        ("bsce-tab7",),
        _settings("bsce", ("cifar10",), ("vit_b_16:IMAGENET1K_V1",), p.BSCE_VIT, BSCE_SEEDS),
        _FINE_TUNED,
    ),
    Block(
        ("bsce-tab8",),
        _settings("bsce", ("imagenet",), ("resnet50_imagenet:IMAGENET1K_V1",), p.BSCE_IMAGENET, 1),
        _FINE_TUNED,
    ),
    # Section 4.3 and the public notebook: two layers, five epochs, five runs.
    Block(
        ("bsce-text-toy",),
        _settings("bsce", ("gaussians",), ("two_layers",), p.BSCE_TOY, 5),
        ("erm",),
    ),
    Block(("bsce-text-runtime",), _BSCE_RESNET, ("erm", "bsce_gra")),
    Block(("bsce-text-consistency",), _BSCE_RESNET, ("erm", "consistency_gra")),
)

PAPERS: dict[str, tuple[Block, ...]] = {
    "fmfp": FMFP,
    "darkside": DARKSIDE,
    "overconf": OVERCONF,
    "mixup": MIXUP,
    "bsce": BSCE,
}


# --- asking ---------------------------------------------------------------------------------------


def blocks(paper: str = "", exhibit: str = "") -> list[Block]:
    """The blocks of a paper or of one exhibit; of all papers without a name.

    Raises
    ------
    ValueError
        For a paper that does not exist, or an exhibit without runs.
    """
    if paper:
        terms.choose("paper", paper, PAPERS)
    if exhibit:
        whose = PAPERS.values() if not paper else [PAPERS[paper]]
        trained = [i for its in whose for block in its for i in block.exhibits]
        terms.choose("exhibit with runs", exhibit, dict.fromkeys(trained))
    candidates = PAPERS[paper] if paper else [b for its in PAPERS.values() for b in its]
    return [b for b in candidates if not exhibit or exhibit in b.exhibits]


def runs(
    paper: str = "",
    exhibit: str = "",
    *,
    setting: str = "",
    dataset: str = "",
    network: str = "",
    seeds: int = 0,
    epochs: int = 0,
) -> list[Run]:
    """The runs of a paper, or of one exhibit, as published: without repeats, seed by seed.

    Every method has its first run before any has its second. The rest narrows them down: to one
    setting, data set or network, to so many seeds, or to the same protocols in fewer epochs.

    >>> [run.seed for run in runs("bsce", "bsce-text-runtime")]
    [1, 1, 42, 42, 71, 71]
    >>> len(runs("mixup", "mixup-tab1", dataset="svhn", network="resnet50"))
    4
    """
    order: dict[Run, int] = {}
    for block in blocks(paper, exhibit):
        for place in block.settings:
            if setting not in ("", place.name) or dataset not in ("", place.dataset):
                continue
            if network not in ("", place.network):
                continue
            if epochs:
                place = replace(place, protocol=place.protocol.shortened(epochs))
            most = min(filter(None, (seeds, block.seeds)), default=0)
            repeats: dict[str, int] = {}
            for run in place.runs(block.methods, block.variant, most):
                repeats[run.method] = repeats.get(run.method, -1) + 1
                order.setdefault(run, repeats[run.method])
    return sorted(order, key=order.get)


def settings(paper: str = "", exhibit: str = "") -> list[Setting]:
    """The settings of a paper or of one exhibit, without repeats."""
    return list(dict.fromkeys(s for b in blocks(paper, exhibit) for s in b.settings))


# What a paper's tables call a network, where it is not our name; on ImageNet it is another one.
_CALLED = {
    "fmfp": {
        "resnet110": "preact_resnet110",
        "wrn": "wrn_28_10",
        "densenet": "densenet_bc_100_12",
        "convmixer": "convmixer_256_16",
        "mobilenetv2": "mobilenet_v2",
        "efficientnet": "efficientnet_b0",
        "imagenet/resnet18": "resnet18_imagenet",
    },
    "darkside": {
        "vgg16": "vgg16_bn",
        "cifar10/vgg16_bn": "vgg16_bn:IMAGENET1K_V1",
        "imagenet/resnet50": "resnet50_imagenet",
        "imagenet/-": "resnet50_imagenet",  # the only one there
    },
    "overconf": {"cnn1d_8layer": "textcnn"},
    "mixup": {
        "resnet110": "resnet110_bottleneck",
        "resnet18_pretrained": "resnet18_imagenet:IMAGENET1K_V1",
        "resnet152_pretrained": "resnet152_imagenet:IMAGENET1K_V1",
    },
    "bsce": {
        "resnet110": "resnet110_bottleneck",
        "wrn26_10": "wrn_26_10",
        "vit_b16": "vit_b_16:IMAGENET1K_V1",
        "imagenet/resnet50": "resnet50_imagenet:IMAGENET1K_V1",
    },
}
# What a test set was trained on, where that is another set.
TRAINED_ON = {
    "cifar10c": "cifar10",
    "cifar10.1": "cifar10",
    "cifar10.2": "cifar10",
    "imagenet_v2": "imagenet",
}


def network(paper: str, dataset: str, name: str) -> str:
    """Our name of a network which a paper's table calls `name`.

    >>> network("fmfp", "cifar10", "resnet110"), network("bsce", "cifar10", "resnet110")
    ('preact_resnet110', 'resnet110_bottleneck')
    """
    dataset = TRAINED_ON.get(dataset, dataset)
    names = _CALLED[paper]
    return names.get(f"{dataset}/{name}") or names.get(name, name)


# What is made of a run of plain cross-entropy: a temperature, other scores, weights of the toy.
OF_ERM = ("ts", "confidnet", "u_gbs", "u_dfl", "u_fl")


def find(paper: str, exhibit: str, dataset: str, name: str, method: str) -> list[Run]:
    """The runs whose mean, over seeds, a published cell is; empty if there is none.

    Parameters
    ----------
    paper, exhibit, dataset, name, method : str
        As in `published.cells`: data set, network and method as the ledger calls them. A method
        without a coefficient is the one that its block has.

    >>> [run.name for run in find("fmfp", "fmfp-tab3", "cifar10c", "wrn", "crl")][0][:25]
    'cifar10-wrn_28_10-crl-s0-'
    """
    method = "erm" if method in OF_ERM else method
    place = TRAINED_ON.get(dataset, dataset), network(paper, dataset, name)
    at = _index().get((exhibit, *place), {})
    if paper == "overconf":  # its public code leaves the focal factor out of the gradient
        detached = re.sub(r"^focal\b", "focal_gra", method)
        method = detached if detached in at else method
    if method in at:
        return at[method]
    alike = [m for m in at if terms.parts(m)[::2] == terms.parts(method)[::2]]
    return at[alike[0]] if len(alike) == 1 else []


@cache
def _index() -> dict[tuple[str, str, str], dict[str, list[Run]]]:
    """Runs by exhibit, data set and network, then by method; as the code has it."""
    index: dict[tuple[str, str, str], dict[str, list[Run]]] = {}
    for block in blocks():
        if block.variant == "paper":
            continue
        for run in block.runs():
            for exhibit in block.exhibits:
                methods = index.setdefault((exhibit, run.dataset, run.network), {})
                its = methods.setdefault(run.method, [])
                if run not in its:
                    its.append(run)
    return index
