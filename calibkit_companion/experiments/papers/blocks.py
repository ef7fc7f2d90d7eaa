"""The parts of a paper's file: `Paper`; `Block` for published experiments; `Need` for our runs."""

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
    """Published experiments: each method is trained in each setting, for some exhibits.

    Attributes
    ----------
    exhibits : ids of the ledger's ``exhibits.csv``
    settings : the settings in which each method is trained
    methods : the methods, or their names
    variant : "code" or "paper", if the authors' code and the paper describe different runs
    seeds : most seeds of each method; 0 for the seeds of the settings
    """

    exhibits: tuple[str, ...]
    settings: tuple[Setting, ...]
    methods: tuple[Method, ...]
    variant: str = "code"
    seeds: int = 0

    def __post_init__(self):
        object.__setattr__(self, "methods", parsed(self.methods))

    def runs(self) -> list[Run]:
        """List the runs of the block, setting by setting."""
        return [r for s in self.settings for r in s.runs(self.methods, self.variant, self.seeds)]


@dataclass(frozen=True)
class Need:
    """Runs that a page needs: some methods, in some settings, with a number of seeds.

    Attributes
    ----------
    methods : the methods, or their names
    seeds : "all" for the seeds of the setting; "sweep" for `Edition.sweep_seeds`; "few" for one
        seed in editions in which pages train, and at most five in the others
    at : the settings, as keys of `plan.Edition.places`; the name of a paper stands for the settings
        that follow the paper
    """

    methods: tuple[Method, ...]
    seeds: str = "all"
    at: tuple[str, ...] = ("shared",)

    def __post_init__(self):
        object.__setattr__(self, "methods", parsed(self.methods))


@dataclass(frozen=True)
class Paper:
    """The experiments of a paper.

    Attributes
    ----------
    authors : authors and year, as pages cite the paper
    blocks : the experiments as published
    rows : the runs that every page about the paper needs; a row at "shared" also stands for the
        settings that follow the paper
    chapter : further runs that the chapter about the paper needs
    released : the settings of the released edition that follow the paper; pages show the first
        setting first
    otherwise : for editions without settings that follow the paper: ``(name, words, fields)`` of a
        copy of the shared setting with other fields of the protocol
    trained : epochs and runs behind a printed number, in words; empty if the paper does not say
    seeds : the number of runs that we assume behind a printed ±
    meant : names of methods in the paper's tables for which its public code trains another method
        of ours, by name
    coefficients : by data set, the paper's methods with their coefficients
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
    """Make a setting for every network on every data set, all with one protocol.

    Parameters
    ----------
    paper : name of the paper, with which the names of the settings begin
    datasets, networks : names, separated by spaces
    protocol, seeds : fields of all the settings
    note : text that is added to name and title
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
    """Write the names of a method with each value of an option.

    Parameters
    ----------
    method, option : name of the method and of the option
    values : values of the option

    Examples
    --------
    >>> grid("focal", "gamma", [1, 3])
    ('focal(gamma=1)', 'focal(gamma=3)')
    """
    return tuple(f"{method}({option}={value:g})" for value in values)
