"""Which runs exist: editions, their settings, and the runs that a paper or a page needs.

A run is one training: data set, network, method, protocol, seed. What only one paper has stands in
its file of `calibkit_companion.experiments.papers`. The workflow engine reads this module for every
job, so it imports the standard library only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf

from calibkit import terms
from calibkit.terms import choose
from calibkit_companion.experiments import looks, papers
from calibkit_companion.experiments.method import METHODS, Method, method, method_name
from calibkit_companion.experiments.papers import PAPERS, protocols
from calibkit_companion.experiments.papers.blocks import FOUR, Need
from calibkit_companion.experiments.papers.here import FASHION
from calibkit_companion.experiments.protocol import Protocol
from calibkit_companion.experiments.run import Run, Setting

__all__ = ["METHODS", "PAPERS", "Method", "Run", "Setting", "choose", "method", "method_name"]


# --- editions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edition:
    """A size of the book: the same pages on other data, networks, protocols and seeds."""

    dataset: str
    network: str
    seeds: int
    protocols: dict[str, Protocol]  # by data set; "" for all others
    sizes: tuple[int, ...] = ()  # sizes of the training set that a page compares
    sweep_seeds: int = 1  # seeds of each coefficient besides the usual one
    seeds_on: Mapping[str, int] = field(default_factory=dict)  # by data set, if not `seeds`
    more: tuple[tuple[str, int], ...] = ()  # methods with another number of seeds
    # More data sets, each with a network and how often to train each method.
    others: tuple[tuple[str, str, int], ...] = ()
    on_the_spot: bool = False  # cheap enough for a notebook to train what it misses
    # Settings made after each paper; the first is the one that its pages show first.
    own: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)

    def protocol(self, dataset: str) -> Protocol:
        """The protocol of a data set in this edition.

        Parameters
        ----------
        dataset : its name; a user's own data are used whole
        """
        protocol = self.protocols.get(dataset, self.protocols[""])
        if dataset.startswith("imagefolder:") or ".npz" in dataset:  # a user's data
            return replace(protocol, validation=None, train_size=None)
        return protocol

    @property
    def scored(self) -> dict[str, object]:
        """Changes of the protocol for runs with Trust Score and ConfidNet.

        The head of ConfidNet learns for as many epochs as published, or for a tenth of that where a
        page trains what is missing.
        """
        return {"feature_scores": protocols.CONFIDNET_EPOCHS // (10 if self.on_the_spot else 1)}

    def shared(self, dataset: str | None = None) -> Setting:
        """The setting with one protocol for every method, to compare methods of different papers.

        Parameters
        ----------
        dataset : its name; default the edition's
        """
        dataset = dataset or self.dataset
        return Setting(
            dataset,
            self.network,
            self.protocol(dataset),
            self.seeds_on.get(dataset, self.seeds),
            title=f"{terms.DATASETS.get(dataset, dataset)}, one protocol for all methods",
            more=self.more if dataset == self.dataset else (),
            sweep_seeds=self.sweep_seeds,
        )

    def places(self) -> dict[str, list[dict]]:
        """By the words of `Need.at`: changes to the shared setting.

        Data that a page would have to download are not trained on the spot.
        """
        three, spot = ("dataset", "network", "seeds"), self.on_the_spot
        return {
            "shared": [{}],
            "shared, not on the spot": [] if spot else [{}],
            "sizes": [{"train_size": size} for size in self.sizes],
            "others": [dict(zip(three, other, strict=True)) for other in self.others],
            "texts": [] if spot else [{"dataset": "20newsgroups", "network": "textcnn"}],
            "toy": [{"dataset": "gaussians", "network": "mlp"}],
            "with scores": [{"protocol": self.scored}],
            "as written": [{"variant": "paper"}],
            "statistics twice": [{"protocol": {"sam_statistics": "twice"}}],
        }

    def settings(self, paper: str) -> tuple[Setting, ...]:
        """The settings of a paper; without any, the shared setting with a protocol of the paper.

        Parameters
        ----------
        paper : its name
        """
        own, otherwise = self.own.get(paper, ()), PAPERS[paper].otherwise
        if own or not otherwise:
            return own
        name, words, changes = otherwise
        shared = self.shared()
        title = shared.title.replace("one protocol for all methods", words)
        protocol = replace(shared.protocol, **dict(changes))
        return (replace(shared, protocol=protocol, name=name, title=title, sweep_seeds=0),)


_SMOKE = Protocol(
    epochs=6,
    batch_size=64,
    milestones=(4,),
    swa_start=3,
    swa_anneal=1,
    validation=200,
    train_size=300,
    snapshots=(1, 2, 4),
    evaluate_every=2,
    replicates=10,
)
# A thousand signals are few enough that a network learns them by heart.
_DEMO = Protocol(
    epochs=20,
    batch_size=100,
    milestones=(12, 16, 18),
    swa_start=12,
    swa_anneal=2,
    train_size=1000,
    snapshots=(4, 12, 16),
    evaluate_every=4,
    shifted=2000,
    replicates=15,
)
# Real images in the demo edition: as many as a CPU can train on, a fifth.
_DEMO_IMAGES = replace(protocols.FMFP_CIFAR.shortened(20), validation=5000, train_size=10_000)
# Data that only one paper has, with its protocol.
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
        {"": _DEMO_IMAGES, "mnist1d": _DEMO, "digits": _DEMO} | _PARTICULAR,
        (250, 1000),
        on_the_spot=True,
    ),
    "released": Edition(
        "fashion_mnist",
        "cnn",
        protocols={"": FASHION} | _PARTICULAR,
        sizes=(1000, 5000, 20_000),
        sweep_seeds=3,
        seeds_on={"gaussians": 20, "20newsgroups": 5},
        others=(("20newsgroups", "textcnn", 3),),
        own={name: paper.released for name, paper in PAPERS.items()},
        **looks.planned("shared"),
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
        own={name: tuple(papers.settings(name)) for name in PAPERS},
    ),
}


def settings(edition: str, paper: str = "") -> tuple[Setting, ...]:
    """The settings of an edition: the papers' own, then the one that all methods share.

    Parameters
    ----------
    edition : its name
    paper : only the settings of this paper

    Raises
    ------
    ValueError
        An unknown edition.

    Examples
    --------
    >>> [s.name for s in settings("released", "bsce")]
    ['cifar10-bsce', 'fashion-bsce', 'summed', 'shared']
    """
    choose("edition", edition, EDITIONS)
    chosen = EDITIONS[edition]
    of = [paper] if paper else PAPERS
    return (*(s for name in of for s in chosen.settings(name)), chosen.shared())


def setting(edition: str, name: str) -> Setting:
    """A setting of an edition.

    Parameters
    ----------
    edition, name : their names

    Raises
    ------
    ValueError
        An unknown edition or setting; the line names valid ones.
    """
    by_name = {s.name: s for s in settings(edition)}
    choose("setting", name or "shared", by_name)
    return by_name[name or "shared"]


GENERATED = ("gaussians", "mnist1d", "digits")  # data that need not be fetched
TEXTS = ("20newsgroups",)  # token ids, which cannot be mixed


def applicable(methods: Iterable[str], dataset: str) -> list[str]:
    """The methods that can be trained on a data set: on texts, those that do not mix inputs.

    Parameters
    ----------
    methods : their names
    dataset : its name
    """
    texts = dataset in TEXTS
    return [m for m in methods if not (texts and method(m).objective.startswith(("mixup", "mit")))]


# --- pages ----------------------------------------------------------------------------------------

# Objectives that are trained with every kind of flat minima, which no paper has tried. Where a page
# trains on the spot, only the first four are.
MATRIX = ("erm", "mixup", "cs_kd", "label_smoothing", "l1_norm", "focal", "bsce_gra")
# The main methods of each paper, which are also tried on other data.
CARRIED = (
    *("erm", "label_smoothing", "entropy_regularization", "l1_norm", "focal", "inverse_focal"),
    *("dual_focal", "bsce_gra", "mixup", "cs_kd", "crl", "sam", "swa", "fmfp"),
)
_SWITCHES = (  # where a paper and its authors' code differ
    Need(("sam", "fmfp"), "few", ("statistics twice",)),
    Need(("mixup(folded=1)",), "few"),
)
_CROSSED = tuple(
    Need(tuple(f"{m}{axes}" for m in its for axes in ("+sam", "+swa", "+sam+swa")), "few", (place,))
    for its, place in ((MATRIX[:4], "shared"), (MATRIX[4:], "shared, not on the spot"))
)
_FMFP, _BSCE = (("shared", "fmfp"), ("shared", "bsce"))
# What each notebook needs: names of papers, for all their runs, and rows.
NOTEBOOKS: dict[str, tuple[str | Need, ...]] = {
    "intro": ("fmfp",),
    "tour": (Need(("erm",), at=_FMFP),),
    "confidence_histograms": ("fmfp",),
    "reliability_diagrams": (Need((*FOUR, "l1_norm", "fmfp"), at=_FMFP),),
    "reliable_overfitting": ("fmfp", Need(("bsce_gra",), at=_BSCE)),
    "gradient_norms": (Need(("erm", "focal", "dual_focal", "bsce_gra"), at=_BSCE),),
    **{name: (name, *paper.chapter) for name, paper in PAPERS.items()},
    "claims": (*PAPERS, *(row for paper in PAPERS.values() for row in paper.chapter)),
    "deviations": (*PAPERS, *_SWITCHES),
    "matrix": (*PAPERS, *_CROSSED),
    "other_data": (Need(CARRIED, at=_FMFP), Need(CARRIED, at=("others",))),
    "full_length": (),
    "people": (),
    "in_the_wild": (),
    "numbers": (*PAPERS, *_SWITCHES, *_CROSSED),
    "your_model": (),
    "your_method": ("fmfp",),
    "benchmarks": (),
}
EVERYTHING = ("book", "all")


def needs(page: str) -> tuple[str | Need, ...]:
    """What a notebook, a paper or the book needs: names of papers, for all their runs, and rows.

    Parameters
    ----------
    page : a notebook, a paper, "book" or "all"

    Raises
    ------
    ValueError
        An unknown page.
    """
    choose("paper or notebook", page, [*NOTEBOOKS, *EVERYTHING], "calibkit train --help")
    if page in EVERYTHING:
        return tuple(dict.fromkeys(need for its in NOTEBOOKS.values() for need in its))
    return NOTEBOOKS[page]


def papers_of(page: str) -> list[str]:
    """The papers whose runs a page needs as a whole.

    Parameters
    ----------
    page : as `needs` takes it
    """
    return [need for need in needs(page) if isinstance(need, str)]


# --- runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """A part of an edition; fields that are None, empty or zero are those of the edition.

    Attributes
    ----------
    edition : its name
    setting : name of one of `settings`; default the one that all methods share
    dataset, network : their names
    seeds : number of seeds
    epochs : number of epochs; the protocol is scaled
    train_size : number of training samples
    variant : "code" or "paper", see `Protocol.rate`
    protocol : fields of `Protocol` to change, as pairs or a dict, such as ``{"batch_size": 512}``

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
    protocol: tuple[tuple[str, object], ...] = ()

    def __post_init__(self):
        choose("edition", self.edition, EDITIONS)
        for f in fields(self):
            object.__setattr__(self, f.name, getattr(self, f.name) or None)
        object.__setattr__(self, "protocol", tuple(dict(self.protocol or ()).items()))

    @classmethod
    def of(cls, selection: "Selection | str", **changes) -> "Selection":
        """A selection with some fields changed.

        Parameters
        ----------
        selection : a selection, or the name of an edition
        changes : fields to change

        Examples
        --------
        >>> Selection.of("demo", seeds=2) == Selection.of(Selection("demo", seeds=3), seeds=2)
        True
        """
        if isinstance(selection, cls):
            return replace(selection, **changes)
        return cls(selection, **changes)

    def command(self, methods: Iterable[str]) -> str:
        """The command that trains some methods.

        Parameters
        ----------
        methods : their names
        """
        parts = ["calibkit train", f"--edition {self.edition}"]
        parts += [f"--method '{m}'" for m in methods]
        for f in fields(self)[1:-1]:
            if (value := getattr(self, f.name)) is not None:
                parts.append(f"--{f.name.replace('_', '-')} {value}")
        return " ".join(parts + [f"--set {name}={value}" for name, value in self.protocol])

    def place(self) -> Setting:
        """The setting that is selected, with its changes.

        Raises
        ------
        ValueError
            An unknown setting, or a value of the wrong type for a field of the protocol.
        """
        if self.setting in (None, "shared"):
            place = EDITIONS[self.edition].shared(self.dataset)
        else:
            place = setting(self.edition, self.setting)
        protocol, changes = place.shortened(self.epochs).protocol, dict(self.protocol)
        if self.train_size:
            changes["train_size"] = self.train_size
        for name, value in changes.items():
            choose("setting", name, [f.name for f in fields(Protocol)])
            old = getattr(protocol, name)
            number = isinstance(old, int | float) and not isinstance(old, bool)
            if old is not None and not isinstance(value, (int | float) if number else type(old)):
                raise ValueError(f"setting {name}: got {value!r}, expected a value such as {old!r}")
        # Changes of the selection override the exceptions of an objective.
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
        """The runs of some methods.

        Parameters
        ----------
        methods : their names
        """
        return self.place().runs(methods, self.variant or "code", self.seeds or 0)

    def published(self, paper: str, exhibit: str = "") -> list[Run]:
        """The runs of a paper as published, or of one exhibit.

        Parameters
        ----------
        paper, exhibit : as `papers.blocks` takes them
        """
        names = ("setting", "dataset", "network", "seeds", "epochs")
        narrowed = {name: value for name in names if (value := getattr(self, name))}
        return papers.runs(paper, exhibit, **narrowed)

    def of_exhibit(self, exhibit: str, paper: str = "") -> list[Run]:
        """The runs of an exhibit: as published, or those of another edition with the same methods.

        Parameters
        ----------
        exhibit : its id
        paper : its paper; empty for any
        """
        if self.edition == "paper":
            return self.published(paper, exhibit)
        methods = {run.method for run in papers.runs(paper, exhibit)}
        return [run for run in self.of_page(exhibit.partition("-")[0]) if run.method in methods]

    def of_page(self, page: str) -> list[Run]:
        """The runs of a page without repeats; see `runs` of this module.

        Parameters
        ----------
        page : as `needs` takes it
        """
        whole, rows = papers_of(page), [need for need in needs(page) if isinstance(need, Need)]
        if self.edition == "paper":  # as published, and nothing else
            return list(dict.fromkeys(run for paper in whole for run in self.published(paper)))
        planned = []
        if not (self.dataset or self.network):
            planned += [run for paper in whole for run in self._own(paper)]
            own = (
                PAPERS if EDITIONS[self.edition].own else ()
            )  # a variant of the shared setting does not count
            for some, paper in ((row.methods, at) for row in rows for at in row.at if at in own):
                planned += [run for run in self._own(paper) if run.method in some]
        if self.setting in (None, "shared"):
            rows = [row for paper in whole for row in PAPERS[paper].rows] + rows
            planned += [run for row in rows for run in self._shared(row)]
        else:
            setting(self.edition, self.setting)  # refuse an unknown name
        return list(dict.fromkeys(planned))

    def _own(self, paper: str) -> list[Run]:
        """The runs of a paper's methods in its own settings, or in the selected one of them."""
        rows, runs = [row for row in PAPERS[paper].rows if "shared" in row.at], []
        usual, swept = (
            [m for row in rows if (row.seeds == "sweep") == sweep for m in row.methods]
            for sweep in (False, True)
        )
        for place in EDITIONS[self.edition].settings(paper):
            if self.setting not in (None, place.name):
                continue
            place = place.shortened(self.epochs)
            main = dict.fromkeys([*(place.methods or usual), *dict(place.more)])
            its = place.runs(applicable(main, place.dataset), seeds=self.seeds or 0)
            if place.sweep_seeds:
                most = min(self.seeds or inf, place.sweep_seeds)
                its += place.runs(applicable(swept, place.dataset), seeds=most)
            runs += sorted(its, key=lambda run: run.seed)  # stable: methods keep their order
        return runs

    def _shared(self, row: Need) -> list[Run]:
        """The runs of one `Need` in the shared setting and its variants."""
        edition, runs = EDITIONS[self.edition], []
        few = min(edition.seeds, 1 if edition.on_the_spot else 5)
        most = {"sweep": edition.sweep_seeds, "few": few}.get(row.seeds)  # None: as the setting
        plain, places = replace(self, train_size=None, variant=None, protocol=()), edition.places()
        for changes in (c for at in row.at for c in places.get(at, ())):
            dataset = changes.get("dataset")
            if dataset and (self.dataset or self.network):
                continue
            seeds = self.seeds, changes.get("seeds"), edition.seeds_on.get(dataset, most)
            one = replace(plain, **changes | {"seeds": min(filter(None, seeds), default=None)})
            runs += one.runs(applicable(row.methods, one.dataset or edition.dataset))
        return runs


def runs(page: str, edition: str, setting: str = "", **changes) -> list[Run]:
    """The runs of a page in an edition, without repeats.

    A paper's own settings come first, seed by seed, so that every method has one run before any
    method has two.

    Parameters
    ----------
    page : as `needs` takes it
    edition : its name
    setting : only the runs of this setting
    changes : further fields of `Selection`
    """
    return Selection(edition, setting, **changes).of_page(page)
