"""The parts of a paper's file: a `Paper`, its blocks as published, rows of the runs it needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from calibkit import terms
from calibkit_companion.experiments.method import Method, parsed
from calibkit_companion.experiments.protocol import Protocol
from calibkit_companion.experiments.run import Run, Setting

CIFARS = "cifar10 cifar100"
FOUR = ("erm", "label_smoothing", "mixup", "focal")


@dataclass(frozen=True)
class Block:
    """Some exhibits of a paper: each method is trained in each setting.

    Attributes
    ----------
    exhibits : ids of the ledger's ``exhibits.csv``
    settings : where each method is trained
    methods : given as such or as names
    variant : "code" or "paper", where the two describe different runs
    seeds : the most seeds; 0: those of the settings
    """

    exhibits: tuple[str, ...]
    settings: tuple[Setting, ...]
    methods: tuple[Method, ...]
    variant: str = "code"
    seeds: int = 0

    def __post_init__(self):
        object.__setattr__(self, "methods", parsed(self.methods))

    def runs(self) -> list[Run]:
        """The runs of the block, setting by setting."""
        return [r for s in self.settings for r in s.runs(self.methods, self.variant, self.seeds)]


@dataclass(frozen=True)
class Need:
    """Runs that a page needs: some methods, so often, in some places.

    Attributes
    ----------
    methods : given as such or as names
    seeds : "all" that a place has; "sweep", as many as an edition gives to coefficients; "few", one
        where pages train on the spot and at most five elsewhere
    at : keys of `plan.Edition.places`, or papers: these stand for their own settings
    """

    methods: tuple[Method, ...]
    seeds: str = "all"
    at: tuple[str, ...] = ("shared",)

    def __post_init__(self):
        object.__setattr__(self, "methods", parsed(self.methods))


@dataclass(frozen=True)
class Paper:
    """All that the companion has of a paper, besides its claims and what it prints.

    Attributes
    ----------
    authors : with its year, as pages cite it
    blocks : its experiments as published
    rows : what every page that goes over it needs; at "shared", also in its own settings
    chapter : what else its chapter needs
    released : its own settings in the released edition, the one that its pages show first in front
    otherwise : where an edition has no settings of its own for it, the shared one once more with
        other fields of the protocol, as ``(name, words, fields)``
    trained : epochs and runs behind a printed number, in words; empty where it does not say
    seeds : how many runs are taken to be behind a printed ±
    meant : methods that its tables name and, in its public code, are others of ours
    coefficients : of a data set, its methods with the coefficients that it has there
    """

    authors: str
    blocks: tuple[Block, ...]
    rows: tuple[Need, ...]
    chapter: tuple[Need, ...] = ()
    released: tuple[Setting, ...] = ()
    otherwise: tuple[str, str, tuple[tuple[str, object], ...]] | None = None
    trained: tuple[str, str] = ("", "")
    seeds: int = 3
    meant: Mapping[str, str] = field(default_factory=dict)
    coefficients: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def settings(
    paper: str, datasets: str, networks: str, protocol: Protocol, seeds, note: str = "", **more
) -> tuple[Setting, ...]:
    """Settings of every network on every data set, with one protocol, as published.

    Parameters
    ----------
    paper : name of the paper, with which names of settings begin
    datasets, networks : names with spaces between
    protocol, seeds : of all these settings
    note : added to name and title
    more : further fields of `Setting`
    """
    return tuple(
        Setting(
            *(dataset, network, protocol, seeds),
            name="-".join(filter(None, (paper, dataset, network.replace(":", "-"), note))),
            title=", ".join(filter(None, (terms.DATASETS.get(dataset, dataset), network, note))),
            **more,
        )
        for dataset in datasets.split()
        for network in networks.split()
    )


def grid(method: str, option: str, values: Iterable[float]) -> tuple[str, ...]:
    """A method with each value of one option.

    Parameters
    ----------
    method, option : their names
    values : of the option

    Examples
    --------
    >>> grid("focal", "gamma", [1, 3])
    ('focal(gamma=1)', 'focal(gamma=3)')
    """
    return tuple(f"{method}({option}={value:g})" for value in values)
