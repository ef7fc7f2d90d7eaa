"""The experiments of the paper "Do not be afraid of overconfidence" (overconf).

- Section 3.2: ResNet-32 on images, an 8-layer 1-D CNN on texts, five runs. The coefficients have
  the lowest ECE on test data; they come from the grids of figure 1.
- Public code, because the schedules are in a supplement that we did not use: 200 epochs, batches of
  512, the learning rate drops after epochs 100 and 150, weight decay 1e-4, 5,000 samples held out
  by seed 101.
- Ours: the schedule for texts, and the sizes in figure 1(d), which the paper does not give.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from calibkit_companion.experiments import looks
from calibkit_companion.experiments.method import parse
from calibkit_companion.experiments.names import Name
from calibkit_companion.experiments.papers import here
from calibkit_companion.experiments.papers import protocols as p
from calibkit_companion.experiments.papers.blocks import CIFARS, Block, Need, Paper, grid, settings
from calibkit_companion.experiments.run import Setting

_IMAGES = settings("overconf", f"svhn {CIFARS}", "resnet32", p.OVERCONF_CIFAR, 5)
_TEXTS = settings("overconf", "20newsgroups", "textcnn", p.OVERCONF_TEXTS, 5)
_PLACES = {place.dataset: (place,) for place in (*_IMAGES, *_TEXTS)}
_COEFFICIENTS = {  # label smoothing, L1 norm, focal loss, as in table 1
    "svhn": (0.01, 0.01, 1),
    "cifar10": (0.05, 0.05, 3),
    "cifar100": (0.09, 0.01, 5),
    "20newsgroups": (0.09, 0.01, 5),
}
_EPSILONS, _STRENGTHS = (0.01, 0.03, 0.05, 0.07, 0.09), (0.001, 0.005, 0.01, 0.05, 0.1)
_GAMMAS = (1, 3, 5, 7, 9)


def _by_validation(dataset: str) -> tuple[str, ...]:
    epsilon, strength, gamma = _COEFFICIENTS[dataset]
    smoothing, norm = f"label_smoothing(epsilon={epsilon})", f"l1_norm(strength={strength})"
    return ("erm", smoothing, norm, f"focal(gamma={gamma})")


def _grids(dataset: str) -> tuple[str, ...]:
    # Section 3.2: with coefficients above 0.01, training fails on data of more than ten classes.
    strengths = _STRENGTHS[:3] if dataset in ("cifar100", "20newsgroups") else _STRENGTHS
    return (
        *grid("label_smoothing", "epsilon", _EPSILONS),
        *grid("l1_norm", "strength", strengths),
        *grid("focal", "gamma", _GAMMAS),
    )


def _each(
    exhibits: tuple[str, ...],
    methods: Callable[[str], tuple[str, ...]],
    datasets: Iterable[str] = tuple(_COEFFICIENTS),
) -> list[Block]:
    return [Block(exhibits, _PLACES[d], methods(d)) for d in datasets]


def _sized(size: int) -> tuple[Setting, ...]:
    protocol = replace(p.OVERCONF_CIFAR, train_size=size)
    return settings("overconf", "cifar10", "resnet32", protocol, 1, f"{size} images")


_FINE_GRIDS = (  # figure 1(d)
    *grid("label_smoothing", "epsilon", (i / 100 for i in range(1, 26))),
    *grid("l1_norm", "strength", (i / 100 for i in range(1, 11))),
    *grid("focal", "gamma", _GAMMAS),
)
_INVERSE = tuple(f"{m}(gamma={g})" for m in ("focal", "inverse_focal") for g in (1, 2, 3))
# The public code takes this ResNet-110 from papers on focal loss.
_RESNET110 = settings("overconf", CIFARS, "resnet110_bottleneck", p.OVERCONF_CIFAR, 5)
_BLOCKS = (
    *_each(("overconf-tab1", "overconf-tab2", "overconf-fig3"), _by_validation),
    # The public code leaves the factor (1 - p)^gamma out of the gradient.
    *_each(
        ("overconf-tab1", "overconf-tab2"), lambda d: (f"focal_gra(gamma={_COEFFICIENTS[d][2]})",)
    ),
    *_each(("overconf-fig1",), _grids),
    *(Block(("overconf-fig1",), _sized(n), _FINE_GRIDS) for n in (5_000, 15_000, 45_000)),
    *_each(("overconf-fig2",), _by_validation, ("cifar10",)),
    *_each(("overconf-fig4",), lambda d: ("erm", *_grids(d)[:5])),
    *_each(("overconf-fig5",), _by_validation, CIFARS.split()),
    *_each(("overconf-fig6",), lambda d: ("erm", *_INVERSE)),
    # Experiments of the appendix that the text mentions.
    *(Block(("overconf-tabA",), (s,), _by_validation(s.dataset)) for s in _RESNET110),
    *_each(("overconf-figA",), lambda d: ("erm", *_grids(d)[5:])),
    *_each(("overconf-figA-reliability",), _by_validation, ("svhn", "cifar100", "20newsgroups")),
)

_REGULARISED = _grids("cifar10")  # the coefficients of its tables
_SIX = (  # what its figure 6 compares
    *("erm", "label_smoothing(epsilon=0.09)", "l1_norm"),
    *("focal(gamma=5)", "focal(gamma=1)", "inverse_focal"),
)
# With 5,000 images, batches of 64 give about as many steps an epoch as 512 do with 45,000.
_SMALL = here.small(p.OVERCONF_CIFAR, batch_size=64)

PAPER = Paper(
    authors="Wang et al. (2021)",
    blocks=_BLOCKS,
    rows=(
        Need(("erm", "label_smoothing", "l1_norm", "focal", "inverse_focal")),
        Need((*_REGULARISED, *grid("inverse_focal", "gamma", (1, 2, 3))), "sweep"),
        Need(_REGULARISED, "sweep", ("sizes",)),
    ),
    chapter=(Need(_SIX, at=("texts",)),),
    released=(
        here.on_fashion(
            _SMALL,
            "fashion-overconf",
            schedule="schedule of Wang et al. (2021), shortened",
            sweep_seeds=10,
        ),
        Setting(
            "20newsgroups",
            "textcnn",
            p.OVERCONF_TEXTS.shortened(40),
            name="texts-long",
            title="20 Newsgroups, 40 epochs",
            methods=_SIX,
            **looks.planned("texts-long"),
        ),
    ),
    trained=("", "5 seeds"),
    seeds=5,
    meant={"focal": "focal_gra"},  # its public code leaves the focal factor out of the gradient
    coefficients={
        d: {Name.read(method).base: parse(method).name for method in _by_validation(d)}
        for d in _COEFFICIENTS
    },
)
