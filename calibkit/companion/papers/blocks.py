"""What a paper's file is made of: exhibits x settings x methods. Free of torch."""

from collections.abc import Iterable
from dataclasses import dataclass

from calibkit import terms
from calibkit.training.protocols import Protocol
from calibkit.training.runs import Run, Setting

CIFARS = ("cifar10", "cifar100")


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


def settings(
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


def grid(method: str, option: str, values: Iterable[float]) -> tuple[str, ...]:
    return tuple(f"{method}({option}={value:g})" for value in values)
