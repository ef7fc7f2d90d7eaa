"""Which runs exist: methods, editions, and the runs a paper or a page needs. Free of torch.

A run is one training: data set, network, method, protocol, seed. A method is a point on three
independent axes: objective, update, averaging. The workflow engine reads this file for every job,
so it imports the standard library only.

Long, because half of it is the table of editions and their settings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf

from calibkit import terms
from calibkit.companion import papers
from calibkit.terms import choose
from calibkit.training import protocols
from calibkit.training.protocols import Protocol
from calibkit.training.runs import METHODS, Method, Run, Setting, method, method_name

__all__ = ["METHODS", "Method", "Run", "Setting", "choose", "method", "method_name"]


# The regime of the focal and Brier-score line of papers, which their texts do not mention.
SUMMED = (("reduction", "sum"), ("clip_norm", 2.0))


@dataclass(frozen=True)
class Edition:
    """A size of the book: the same pages on other data, networks, protocols and seeds."""

    dataset: str
    network: str
    seeds: int
    protocols: dict[str, Protocol]  # by data set; "" serves every other one
    sizes: tuple[int, ...] = ()  # of the training set, where a page compares several
    sweep_seeds: int = 1  # of the coefficients that pages try besides the usual one
    seeds_on: Mapping[str, int] = field(default_factory=dict)  # of data that take less, or longer
    # For `other_data`: more data sets, each with a network and how often to train each method.
    others: tuple[tuple[str, str, int], ...] = ()
    on_the_spot: bool = False  # cheap enough for a notebook to train what it misses
    # Each paper's methods in its own regime; the setting that its pages show first in front.
    own: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)

    def protocol(self, dataset: str) -> Protocol:
        protocol = self.protocols.get(dataset, self.protocols[""])
        if dataset.startswith("imagefolder:") or ".npz" in dataset:  # all that somebody has
            return replace(protocol, validation=None, train_size=None)
        return protocol

    @property
    def scored(self) -> dict[str, object]:
        """The setting of runs with Trust Score and ConfidNet, whose head learns as published, or
        for a fifth of that where a page trains what it misses."""
        return {"feature_scores": protocols.CONFIDNET_EPOCHS // (5 if self.on_the_spot else 1)}

    @property
    def shared(self) -> Setting:
        """One protocol for every method, where methods of different papers are compared."""
        place = terms.DATASETS.get(self.dataset, self.dataset)
        return Setting(
            self.dataset,
            self.network,
            self.protocol(self.dataset),
            self.seeds,
            title=f"{place}, one protocol for all methods",
            sweep_seeds=self.sweep_seeds,
        )

    def settings(self, paper: str) -> tuple[Setting, ...]:
        """A paper's own settings; for bsce also the shared one with the loss of its public code."""
        own = self.own.get(paper, ())
        if own or paper != "bsce":
            return own
        shared = self.shared
        title = shared.title.replace("one protocol for all methods", "summed and clipped")
        protocol = replace(shared.protocol, **dict(SUMMED))
        return (replace(shared, protocol=protocol, name="summed", title=title, sweep_seeds=0),)


_SMOKE = Protocol(
    epochs=6,
    batch_size=64,
    milestones=(4,),
    swa_start=3,
    swa_anneal=1,
    validation=200,
    train_size=300,
    snapshots=(1, 2, 4),
)
# A thousand signals are few enough that networks memorise them, as they do images.
_DEMO = Protocol(
    epochs=30,
    batch_size=100,
    milestones=(12, 20, 26),
    swa_start=18,
    swa_anneal=2,
    train_size=1000,
    snapshots=(3, 12, 21),
    evaluate_every=3,
    shifted=2000,
)
# What a CPU can carry of real images: a fifth of them, by parameters of the demo edition.
_DEMO_IMAGES = replace(protocols.FMFP_CIFAR.shortened(20), validation=5000, train_size=10_000)
# Real images on two CPU cores. Without crops and flips a small network memorises them, as
# large ones do with them.
_FASHION = replace(
    protocols.FMFP_CIFAR.shortened(30),
    augment=False,
    validation=2000,
    train_size=5000,
    evaluate_every=3,
    tracked=2000,
    shifted=1000,
)
# CIFAR-10 with a residual network on a CPU, in two regimes that differ only by crops and flips:
# without them the network memorises its training set within 20 epochs, with them, as
# published, it does not. What is written down is part of a run's name, and stays as it is.
_WRITTEN = {
    "validation": 5000,
    "split_seed": "run",
    "precision": "bfloat16",
    "evaluate_every": 1,
    "tracked": 2000,
    "shifted": 2000,
}


def _plain(protocol: Protocol, snapshots: tuple[int, ...]) -> Protocol:
    shortened = protocol.shortened(20)
    return replace(shortened, augment=False, snapshots=snapshots, **_WRITTEN)


PLAIN = _plain(protocols.FMFP_CIFAR, (2, 8, 10, 13, 17))
AUGMENTED = replace(PLAIN, augment=True)
# Crops and flips for as long as it takes plain training to become as over-confident as the paper's.
LONG = replace(protocols.FMFP_CIFAR.shortened(60), **_WRITTEN | {"snapshots": (6, 24, 30, 39, 51)})
# Beside the paper's own methods: seeds where effects are small, mixing ratios, coefficients, and
# the combinations with flat minima that nobody has tried.
_PLAIN_MORE = (
    *((m, 6) for m in ("erm", "label_smoothing", "focal", "l1_norm")),
    *((f"mixup(alpha={a})", 3) for a in (0.1, 0.5, 1)),
    *((m, 1) for m in ("mit_l", "mit_a", "cs_kd+sam+swa", "mixup+sam+swa", "bsce_gra+sam+swa")),
    *((f"label_smoothing(epsilon={e})", 1) for e in (0.01, 0.03, 0.07, 0.09)),
    *((f"focal(gamma={g})", 1) for g in (1, 5, 7, 9)),
    *((f"l1_norm(strength={s})", 1) for s in (0.001, 0.005, 0.05, 0.1)),
)
SUMMED_PLAIN = _plain(protocols.BSCE_CIFAR, (2, 9, 12, 14, 17))


def _small(protocol: Protocol, epochs: int = 30, **changes) -> Protocol:
    """A paper's protocol on 5,000 images of Fashion-MNIST, which a small network learns whole."""
    changed = {
        "augment": False,
        "validation": 5000,
        "split_seed": "run",
        "train_size": 5000,
        "evaluate_every": epochs // 10,
        "tracked": 2000,
        "shifted": 1000,
    }
    return replace(protocol.shortened(epochs), **changed | changes)


# darkside divides the rate by 10 for two losses and by 5 for the others.
DARKSIDE_DECAY = (("label_smoothing", (("decay", 0.1),)), ("focal", (("decay", 0.1),)))


_AUTHORS = {
    "fmfp": "Zhu et al.",
    "darkside": "Singh et al.",
    "overconf": "Wang et al. (2021)",
    "mixup": "Wang et al. (2023)",
    "bsce": "Lin et al.",
}


def _on_cifar10(
    protocol: Protocol, title: str, name: str, network: str = "resnet18_w16", **fields
) -> Setting:
    return Setting("cifar10", network, protocol, name=name, title=f"CIFAR-10, {title}", **fields)


def _on_fashion(protocol: Protocol, paper: str, seeds: int = 20, **more) -> Setting:
    """Twenty seeds wherever a run takes seconds: effects are small here, and power is cheap."""
    title = f"Fashion-MNIST, the regime of {_AUTHORS[paper]}"
    name = f"fashion-{paper}"
    return Setting("fashion_mnist", "cnn", protocol, seeds, name=name, title=title, **more)


_OWN = {
    "fmfp": (
        _on_cifar10(
            PLAIN, "memorised (no augmentation)", "cifar10-plain", seeds=3, more=_PLAIN_MORE
        ),
        _on_cifar10(
            AUGMENTED,
            "augmented (crops and flips)",
            "cifar10-augmented",
            seeds=3,
            more=(("erm", 6), ("label_smoothing", 6)),
        ),
        _on_cifar10(
            LONG,
            "crops and flips, 60 epochs",
            "cifar10-long",
            network="resnet18_w32_s2",
            seeds=2,
            methods=("erm", "label_smoothing", "mixup", "focal", "swa", "fmfp", "bsce_gra"),
        ),
        _on_fashion(_small(protocols.FMFP_CIFAR), "fmfp"),
    ),
    "darkside": (
        _on_cifar10(
            _plain(protocols.DARKSIDE_CIFAR, (2, 10, 12, 15, 17)),
            "no augmentation",
            "cifar10-darkside",
            exceptions=DARKSIDE_DECAY,
        ),
        _on_fashion(_small(protocols.DARKSIDE_CIFAR), "darkside", exceptions=DARKSIDE_DECAY),
    ),
    # Batches of 512 of 45,000 images are to 5,000 what batches of 64 are.
    "overconf": (
        _on_fashion(_small(protocols.OVERCONF_CIFAR, batch_size=64), "overconf", sweep_seeds=10),
    ),
    "mixup": (
        _on_cifar10(
            _plain(protocols.MIXUP_CIFAR, (2, 9, 12, 14, 17)),
            "no augmentation",
            "cifar10-mixup",
            methods=("erm", "mixup", "mixup_to", "mixup_io", "mit_l", "mit_a"),
        ),
        _on_fashion(_small(protocols.MIXUP_CIFAR), "mixup", sweep_seeds=10),
    ),
    "bsce": (
        _on_cifar10(
            SUMMED_PLAIN,
            "summed and clipped",
            "cifar10-bsce",
            seeds=3,
            methods=("erm", "flsd53", "dual_focal", "bsce", "bsce_gra", "brier", "mmce"),
        ),
        _on_fashion(_small(protocols.BSCE_CIFAR, 120), "bsce", seeds=5),
        Setting(
            "fashion_mnist",
            "cnn",
            replace(_FASHION, **dict(SUMMED)),
            10,
            name="summed",
            title="Fashion-MNIST, summed and clipped",
            sweep_seeds=5,
        ),
    ),
}
# Data that one paper has for itself, by its own protocol.
_PARTICULAR = {
    "20newsgroups": replace(protocols.OVERCONF_TEXTS.shortened(12), evaluate_every=3, tracked=2000),
    "gaussians": protocols.BSCE_TOY,
}
_CIFAR10 = replace(
    protocols.FMFP_CIFAR.shortened(40),
    precision="bfloat16",
    evaluate_every=2,
    tracked=2000,
    shifted=1000,
)

EDITIONS: dict[str, Edition] = {
    "smoke": Edition(
        "gaussians",
        "mlp",
        2,
        {"": _SMOKE},
        (100, 300),
        others=(("mnist1d", "mlp", 2),),
        on_the_spot=True,
    ),
    "demo": Edition(
        "mnist1d",
        "cnn",
        3,
        {"": _DEMO_IMAGES, "mnist1d": _DEMO} | _PARTICULAR,
        (250, 1000, 2000),
        on_the_spot=True,
    ),
    "released": Edition(
        "fashion_mnist",
        "cnn",
        10,
        {"": _FASHION} | _PARTICULAR,
        (1000, 5000, 20_000),
        sweep_seeds=3,
        seeds_on={"gaussians": 20, "20newsgroups": 5},
        others=(("20newsgroups", "textcnn", 3),),
        own=_OWN,
    ),
    "cifar10": Edition(
        "cifar10",
        "resnet18",
        3,
        {"": _CIFAR10} | _PARTICULAR | {"20newsgroups": protocols.OVERCONF_TEXTS.shortened(40)},
        (5_000, 15_000, 45_000),
        others=(("tiny_imagenet", "resnet18", 3),),
    ),
    "paper": Edition(
        "cifar10",
        "preact_resnet110",
        3,
        {
            "": protocols.FMFP_CIFAR,
            "tiny_imagenet": protocols.FMFP_TINY,
            "20newsgroups": protocols.OVERCONF_TEXTS,
            "gaussians": protocols.BSCE_TOY,
        },
        (5_000, 15_000, 45_000),
        others=(("cifar100", "preact_resnet110", 3), ("tiny_imagenet", "resnet18", 3)),
        own={paper: tuple(papers.settings(paper)) for paper in papers.PAPERS},
    ),
}


GENERATED = ("gaussians", "mnist1d", "digits")  # data that need not be fetched
TEXTS = ("20newsgroups",)  # token ids, which cannot be mixed


def applicable(methods: Iterable[str], dataset: str) -> list[str]:
    """The methods that can be trained on a data set: on texts, those that do not mix inputs."""
    texts = dataset in TEXTS
    return [m for m in methods if not (texts and method(m).objective.startswith(("mixup", "mit")))]


@dataclass(frozen=True)
class Need:
    """Runs a page needs: some methods, with all seeds or a few, perhaps at several sizes."""

    methods: tuple[str, ...]
    seeds: int = 0  # at most; 0: as many as the edition has
    sweep: bool = False  # as many seeds as the edition gives to coefficients
    sized: bool = False  # at every training-set size of the edition
    once: bool = False  # with one seed where a page trains on the spot, with five at most elsewhere
    # On other data: "others", each that the edition has, or one data set and network, which an
    # edition that trains on the spot leaves out if it would have to be fetched.
    on: str | tuple[str, str] = ""
    variant: str = "code"
    settings: tuple[tuple[str, object], ...] = ()  # of the protocol, other than the edition's
    scored: bool = False  # with Trust Score and ConfidNet
    paper: str = ""  # in its own settings as well, for a page that is not one of its chapters


_FOUR = ("erm", "label_smoothing", "mixup", "focal")
_BSCE = (
    *("erm", "brier", "mmce", "flsd53", "flsd53_gra", "focal", "focal_gra"),
    *("dual_focal", "dual_focal_gra", "bsce", "bsce_gra"),
)
# Objectives whose every combination with flat minima is trained: what no paper has tried.
MATRIX = ("erm", "label_smoothing", "l1_norm", "focal", "bsce_gra", "mixup", "cs_kd")

_REGULARISED = (  # the coefficients of overconf's tables
    *(f"label_smoothing(epsilon={e})" for e in (0.01, 0.03, 0.05, 0.07, 0.09)),
    *(f"l1_norm(strength={s})" for s in (0.001, 0.005, 0.01, 0.05, 0.1)),
    *(f"focal(gamma={g})" for g in (1, 3, 5, 7, 9)),
)

# What each paper's chapters need.
PAPERS: dict[str, tuple[Need, ...]] = {
    "fmfp": (
        Need((*_FOUR, "cs_kd", "l1_norm", "crl", "sam", "swa", "fmfp")),
        Need(("fmfp",), variant="paper", once=True),
        Need(("erm",), scored=True, once=True),
    ),
    "darkside": (
        Need((*_FOUR, "entropy_regularization")),
        Need(("erm",), scored=True, once=True),
    ),
    "overconf": (
        Need(("erm", "label_smoothing", "l1_norm", "focal", "inverse_focal")),
        Need((*_REGULARISED, *(f"inverse_focal(gamma={g})" for g in (1, 2, 3))), sweep=True),
        Need(_REGULARISED, sweep=True, sized=True),
    ),
    "mixup": (
        Need((*_FOUR, "mixup_dt", "mixup_to", "mixup_sc", "mixup_io", "l1_norm", "mit_l", "mit_a")),
        Need(
            (
                *(f"mixup(alpha={a})" for a in (0.1, 0.5, 1)),
                *(f"mit_a(alpha={a})" for a in (0.1, 0.5)),
                "mit_a(margin=0)",
                "mit_l(margin=0.5)",
            ),
            sweep=True,
        ),
    ),
    "bsce": (
        Need(_BSCE, once=True),  # the loss averaged over the batch, as in the other papers
        Need(("consistency_gra",), once=True),
        Need(
            tuple(
                f"{m}(gamma={g},beta={b})"
                for m in ("bsce", "bsce_gra")
                for g in (1, 2, 4, 6)
                for b in (1, 2)
            )
            + tuple(f"bsce_gra(gamma={g})" for g in (3, 5, 7, 8)),
            sweep=True,
        ),
    ),
}
_SWITCHES = (  # where a paper and its authors' code differ
    Need(("sam", "fmfp"), settings=(("sam_statistics", "twice"),), once=True),
    Need(("mixup(folded=1)",), once=True),
)
_CROSSED = (
    Need(tuple(f"{m}{axes}" for m in MATRIX for axes in ("+sam", "+swa", "+sam+swa")), once=True),
)
# What is tried on other data, too: the main methods of each paper.
CARRIED = (
    *("erm", "label_smoothing", "entropy_regularization", "l1_norm", "focal", "inverse_focal"),
    *("dual_focal", "bsce_gra", "mixup", "cs_kd", "crl", "sam", "swa", "fmfp"),
)
# What a paper says of one data set in particular and a CPU can carry.
_ON_TEXTS = Need(
    (
        *("erm", "label_smoothing(epsilon=0.09)", "l1_norm"),
        *("focal(gamma=5)", "focal(gamma=1)", "inverse_focal"),
    ),
    on=("20newsgroups", "textcnn"),
)
_ON_TOY = Need(("erm",), on=("gaussians", "mlp"))
# What each notebook needs.
_ALL = tuple(need for needs in PAPERS.values() for need in needs)
NOTEBOOKS: dict[str, tuple[Need, ...]] = {
    "intro": PAPERS["fmfp"],
    "tour": (Need(("erm",), paper="fmfp"),),
    "confidence_histograms": PAPERS["fmfp"],
    "reliability_diagrams": (
        Need((*_FOUR, "dual_focal", "l1_norm", "bsce_gra", "fmfp"), paper="fmfp"),
    ),
    "reliable_overfitting": PAPERS["fmfp"],
    "gradient_norms": (Need(("erm", "focal", "dual_focal", "bsce_gra"), paper="bsce"),),
    "fmfp": PAPERS["fmfp"],
    "darkside": (*PAPERS["darkside"], Need((*_FOUR, "fmfp"), paper="fmfp")),
    "overconf": (*PAPERS["overconf"], _ON_TEXTS),
    "mixup": PAPERS["mixup"],
    "bsce": (*PAPERS["bsce"], _ON_TOY),
    "claims": (*_ALL, _ON_TEXTS, _ON_TOY),
    "deviations": _ALL + _SWITCHES,
    "matrix": _ALL + _CROSSED,
    "other_data": (Need(CARRIED, paper="fmfp"), Need(CARRIED, on="others")),
    "full_length": (),
    "people": (),
    "numbers": _ALL + _SWITCHES + _CROSSED,
    "your_model": (),
    "your_method": (),
    "benchmarks": (),
}


def settings(edition: str, paper: str = "") -> tuple[Setting, ...]:
    """The settings of an edition: a paper's own regimes, then the one that all methods share.

    >>> [s.name for s in settings("released", "bsce")]
    ['cifar10-bsce', 'fashion-bsce', 'summed', 'shared']
    """
    choose("edition", edition, EDITIONS)
    chosen = EDITIONS[edition]
    papers = [paper] if paper else PAPERS
    return (*(s for p in papers for s in chosen.settings(p)), chosen.shared)


def setting(edition: str, name: str) -> Setting:
    """A setting of an edition by its name."""
    by_name = {s.name: s for s in settings(edition)}
    choose("setting", name or "shared", by_name)
    return by_name[name or "shared"]


@dataclass(frozen=True)
class Selection:
    """What is asked of an edition: what is None, empty or zero is as the edition has it.

    Attributes
    ----------
    setting : name of one of `settings`; default the one that all methods share
    epochs : the protocol in so many
    variant : "code" or "paper", see `Protocol.rate`
    settings : fields of `Protocol` to change, as pairs or a dict, such as ``{"batch_size": 512}``

    Examples
    --------
    >>> Selection("released", dataset="digits", seeds=2).command(["erm"])
    "calibkit train --edition released --method 'erm' --dataset digits --seeds 2"
    """

    edition: str
    setting: str | None = None
    dataset: str | None = None
    network: str | None = None
    seeds: int | None = None
    epochs: int | None = None
    train_size: int | None = None
    variant: str | None = None
    settings: tuple[tuple[str, object], ...] = ()

    def __post_init__(self):
        choose("edition", self.edition, EDITIONS)
        for f in fields(self):
            object.__setattr__(self, f.name, getattr(self, f.name) or None)
        object.__setattr__(self, "settings", tuple(dict(self.settings or ()).items()))

    @classmethod
    def of(cls, selection: "Selection | str", **changes) -> "Selection":
        """A selection, or an edition by its name, with some fields changed.

        >>> Selection.of("demo", seeds=2) == Selection.of(Selection("demo", seeds=3), seeds=2)
        True
        """
        if isinstance(selection, cls):
            return replace(selection, **changes)
        return cls(selection, **changes)

    def command(self, methods: Iterable[str]) -> str:
        """The command that trains some methods."""
        parts = ["calibkit train", f"--edition {self.edition}"]
        parts += [f"--method '{m}'" for m in methods]
        for f in fields(self)[1:-1]:
            if (value := getattr(self, f.name)) is not None:
                parts.append(f"--{f.name.replace('_', '-')} {value}")
        return " ".join(parts + [f"--set {name}={value}" for name, value in self.settings])

    def place(self) -> Setting:
        """Data, network, protocol and seeds that are asked for."""
        edition, changes = EDITIONS[self.edition], dict(self.settings)
        if self.setting in (None, "shared"):
            dataset = self.dataset or edition.dataset
            place = replace(
                edition.shared,
                dataset=dataset,
                title=f"{terms.DATASETS.get(dataset, dataset)}, one protocol for all methods",
                protocol=edition.protocol(dataset),
                seeds=edition.seeds_on.get(dataset, edition.seeds),
            )
        else:
            place = setting(self.edition, self.setting)
        if self.train_size:
            changes["train_size"] = self.train_size
        protocol = place.protocol.shortened(self.epochs) if self.epochs else place.protocol
        for name, value in changes.items():
            choose("setting", name, [f.name for f in fields(Protocol)])
            old = getattr(protocol, name)
            number = isinstance(old, int | float) and not isinstance(old, bool)
            if old is not None and not isinstance(value, (int | float) if number else type(old)):
                raise ValueError(f"setting {name}: got {value!r}, expected a value such as {old!r}")
        # What is asked for goes before the exceptions of an objective.
        exceptions = tuple(
            (objective, tuple((k, v) for k, v in fields_ if k not in changes))
            for objective, fields_ in place.exceptions
        )
        return replace(
            place,
            dataset=self.dataset or place.dataset,
            network=self.network or place.network,
            seeds=self.seeds or place.seeds,
            protocol=replace(protocol, **changes),
            exceptions=exceptions,
        )

    def runs(self, methods: Iterable[str]) -> list[Run]:
        """The runs of some methods."""
        return self.place().runs(methods, self.variant or "code")

    def published(self, paper: str, exhibit: str = "") -> list[Run]:
        """The runs of a paper as published, or of one exhibit."""
        names = ("setting", "dataset", "network", "seeds", "epochs")
        narrowed = {name: value for name in names if (value := getattr(self, name))}
        return papers.runs(paper, exhibit, **narrowed)

    def of_page(self, page: str) -> list[Run]:
        """The runs of a page without repeats; see `runs` of this module."""
        needed = needs(page)
        if self.edition == "paper":  # as published, and nothing else
            planned = [run for paper in papers_of(page) for run in self.published(paper)]
            return list(dict.fromkeys(planned))
        planned = [] if self.dataset or self.network else _own_runs(page, self)
        if self.setting in (None, "shared"):
            planned += [run for need in needed for run in _shared_runs(need, self)]
        else:
            setting(self.edition, self.setting)  # there is such a one
        return list(dict.fromkeys(planned))


def select(
    selection: Selection | str,
    methods: Iterable[str],
    dataset: str = "",
    network: str = "",
    seeds: int = 0,
    **changes,
) -> list[Run]:
    """The runs of some methods, of a selection or of an edition.

    What is given besides goes before the selection's own, as `Selection.of` has it.
    """
    place = {"dataset": dataset, "network": network, "seeds": seeds}
    changes |= {name: value for name, value in place.items() if value}
    return Selection.of(selection, **changes).runs(methods)


def needs(page: str) -> list[Need]:
    """What a paper, a notebook, every notebook ("book") or everything ("all") needs."""
    sets = {**PAPERS, **NOTEBOOKS}
    choose("paper or notebook", page, [*sets, "book", "all"])
    groups = {"book": NOTEBOOKS.values(), "all": sets.values()}
    return [need for group in groups.get(page, [sets.get(page, ())]) for need in group]


def runs(page: str, edition: str, setting: str = "", **changes) -> list[Run]:
    """The runs of a page in an edition, without repeats; `changes` as `Selection` takes them.

    A paper's own settings come first, seed by seed, so that every method has one run before any
    has two. `setting` names one of `settings` and leaves out the others.
    """
    return Selection(edition, setting, **changes).of_page(page)


def papers_of(page: str) -> list[str]:
    """The papers whose runs a page needs: its own, or those of every paper that it goes over."""
    if page in ("book", "all"):
        return list(PAPERS)
    if own := [paper for paper in PAPERS if page.startswith(paper)]:
        return own
    return [paper for paper, its in PAPERS.items() if its[0] in NOTEBOOKS[page]]


def _own_runs(page: str, selection: Selection) -> list[Run]:
    """The runs of a paper's methods in its own settings, for it and for the pages that show it."""
    runs = []
    for paper in papers_of(page):
        plain = [n for n in PAPERS[paper] if not (n.sized or n.on or n.settings or n.scored)]
        for place in _own_settings(paper, selection):
            main = [m for n in plain if not n.sweep and n.variant == "code" for m in n.methods]
            main = list(dict.fromkeys([*(place.methods or main), *dict(place.more)]))
            swept = [m for n in plain if n.sweep for m in n.methods]
            methods = applicable(main, place.dataset)
            place_runs = place.runs(methods, seeds=selection.seeds or 0)
            if place.sweep_seeds:
                most = min(selection.seeds or place.sweep_seeds, place.sweep_seeds)
                place_runs += place.runs(applicable(swept, place.dataset), seeds=most)
            runs += sorted(place_runs, key=lambda run: run.seed)  # stable: methods keep their order
    for need in NOTEBOOKS.get(page, ()):
        if need.paper and EDITIONS[selection.edition].own:  # a variant of the shared one is not it
            planned = _own_runs(need.paper, selection)
            runs += [run for run in planned if run.method in need.methods]
    return runs


def _own_settings(paper: str, selection: Selection) -> list[Setting]:
    """A paper's own settings, or the selected one, in as many epochs as are asked for."""
    chosen = [
        place
        for place in EDITIONS[selection.edition].settings(paper)
        if selection.setting in (None, place.name)
    ]
    if not selection.epochs:
        return chosen
    return [replace(s, protocol=s.protocol.shortened(selection.epochs)) for s in chosen]


def _shared_runs(need: Need, selection: Selection) -> list[Run]:
    edition = EDITIONS[selection.edition]
    most = need.seeds or (edition.sweep_seeds if need.sweep else edition.seeds)
    if need.once:
        most = 1 if edition.on_the_spot else min(most, 5)
    limit = selection.seeds
    more = dict(need.settings) | (edition.scored if need.scored else {})
    seeds = min(most, limit or edition.seeds)
    selection = replace(selection, seeds=seeds, variant=need.variant, settings=more)
    if not need.on:
        sizes = edition.sizes if need.sized else (None,)
        each = [replace(selection, train_size=size) for size in sizes]
    elif selection.dataset or selection.network:
        each = []
    else:
        places = edition.others if need.on == "others" else [(*need.on, inf)]
        if edition.on_the_spot and need.on != "others":
            places = [p for p in places if p[0] in GENERATED]
        each = [
            replace(
                selection,
                dataset=dataset,
                network=network,
                seeds=min(limit or inf, its, edition.seeds_on.get(dataset, most)),
            )
            for dataset, network, its in places
        ]
    return [
        run
        for one in each
        for run in one.runs(applicable(need.methods, one.dataset or edition.dataset))
    ]
