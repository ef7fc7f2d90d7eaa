"""Editions: sizes of the book, and the settings of each. Free of torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from calibkit import terms
from calibkit_companion.experiments import looks, papers
from calibkit_companion.experiments.papers import PAPERS, protocols
from calibkit_companion.experiments.papers.here import FASHION
from calibkit_companion.experiments.protocol import Protocol
from calibkit_companion.experiments.run import Setting


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
    terms.choose("edition", edition, EDITIONS)
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
    terms.choose("setting", name or "shared", by_name)
    return by_name[name or "shared"]
