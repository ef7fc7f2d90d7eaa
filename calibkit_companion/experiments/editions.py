"""Editions, which are sizes of the book, and their settings. Does not import torch."""

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
    """A size of the book: the same pages with other data, networks, protocols and seeds."""

    dataset: str
    network: str
    seeds: int
    protocols: dict[str, Protocol]  # by data set; "" is for all others
    # Sizes of the training set that a page compares; None for all samples.
    sizes: tuple[int | None, ...] = ()
    sweep_seeds: int = 1  # seeds for coefficients other than the usual one
    seeds_on: Mapping[str, int] = field(default_factory=dict)  # exceptions from `seeds`
    more: tuple[tuple[str, int], ...] = ()  # methods with another number of seeds
    # Further data sets, each with its network and the number of seeds of each method.
    others: tuple[tuple[str, str, int], ...] = ()
    on_the_spot: bool = False  # whether pages train missing runs themselves
    # Settings that follow a paper, by paper. The pages of the paper show the first one first.
    own: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)

    def protocol(self, dataset: str) -> Protocol:
        """Return the protocol of a data set in this edition.

        Parameters
        ----------
        dataset : name of the data set; for a user's own data, all training samples are used
        """
        protocol = self.protocols.get(dataset, self.protocols[""])
        if dataset.startswith("imagefolder:") or ".npz" in dataset:  # a user's data
            return replace(protocol, validation=None, train_size=None)
        return protocol

    @property
    def scored(self) -> dict[str, object]:
        """The fields of the protocol that differ in runs with Trust Score and ConfidNet.

        The head of ConfidNet learns for as many epochs as published; in editions in which pages
        train, for a tenth of them.
        """
        return {"feature_scores": protocols.CONFIDNET_EPOCHS // (10 if self.on_the_spot else 1)}

    def shared(self, dataset: str | None = None) -> Setting:
        """Make the shared setting, in which every method has the same protocol.

        It serves to compare methods of different papers.

        Parameters
        ----------
        dataset : name of the data set; by default that of the edition
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
        """Return the variants of the shared setting that each word of `Need.at` stands for.

        A variant is a dict of changed fields of `plan.Selection`. In editions in which pages train,
        variants whose data would have to be downloaded are left out.
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
        """Return the settings that follow a paper.

        If the edition has none, it is the shared setting with changes that `Paper.otherwise` lists.

        Parameters
        ----------
        paper : name of the paper
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
# With a thousand training signals, a network learns its training set by heart.
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
# Real images in the demo edition: a fifth of the training set, so that a CPU can train on them.
_DEMO_IMAGES = replace(protocols.FMFP_CIFAR.shortened(20), validation=5000, train_size=10_000)
# Data sets that only one paper uses, with the protocol of that paper.
_PARTICULAR = {
    "20newsgroups": replace(protocols.OVERCONF_TEXTS.shortened(12), evaluate_every=3, tracked=2000),
    "gaussians": protocols.BSCE_TOY,
}
# The released setting that is closest to the papers. The edition for one GPU has its network and
# regime, and trains all methods in it. It evaluates every second epoch, so that its runs are not
# those of the released tables, which several devices trained and which keep no predictions.
_LONG = next(s for s in PAPERS["fmfp"].released if s.name == "cifar10-long")
_CIFAR10 = replace(_LONG.protocol, evaluate_every=2)

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
        _LONG.network,
        3,
        {"": _CIFAR10} | _PARTICULAR | {"20newsgroups": protocols.OVERCONF_TEXTS.shortened(40)},
        (5_000, 15_000, None),
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
    """List the settings of an edition: those that follow the papers, then the shared setting.

    Parameters
    ----------
    edition : name of the edition
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
    """Find a setting of an edition by name.

    Parameters
    ----------
    edition : name of the edition
    name : name of the setting; empty for "shared"

    Raises
    ------
    ValueError
        An unknown edition or setting; the line names valid ones.
    """
    by_name = {s.name: s for s in settings(edition)}
    terms.choose("setting", name or "shared", by_name)
    return by_name[name or "shared"]
