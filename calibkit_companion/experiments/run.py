"""`Run` and `Setting`: one training, and what several trainings share. Does not import torch."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property

from calibkit_companion.data import own
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.method import Method, parsed
from calibkit_companion.experiments.names import Name
from calibkit_companion.experiments.protocol import Protocol


@dataclass(frozen=True)
class Run:
    """One training. Runs with equal fields are the same run, even for several pages or editions.

    Attributes
    ----------
    dataset, network : names of the data set and the network; the name of a user's file contains a
        hash of the file
    recipe : the method
    seed : seed of all random choices
    protocol : how the network is trained
    variant : "code" or "paper"; the one that is followed if the authors' code and the text of their
        paper differ (see `Protocol.rate`)
    """

    dataset: str
    network: str
    recipe: Method
    seed: int
    protocol: Protocol
    variant: str = "code"

    @property
    def method(self) -> str:
        """The name of the method, as in records and tables."""
        return self.recipe.name

    @property
    def architecture(self) -> str:
        """The name of the network without options."""
        return Name.read(self.network, "network").base

    @cached_property
    def own(self) -> tuple[str, ...]:
        """The names of the objective and of the network, if they come from a user's file."""
        return tuple(filter(plugins.own, (self.recipe.objective, self.architecture)))

    @cached_property
    def content(self) -> dict:
        """Everything that decides the result, as JSON values; do not modify the dict.

        Fields with their default value are left out. So a new field of `Method` or `Protocol` does
        not change the names of old runs.
        """
        method = _changed(self.recipe)
        if "options" in method:
            method["options"] = dict(method["options"])
        content = {"dataset": self.dataset, "network": self.network, "method": method}
        content |= {"seed": self.seed, "protocol": _changed(self.protocol)}
        if self.variant != "code":
            content["variant"] = self.variant
        return json.loads(json.dumps(content))

    @cached_property
    def name(self) -> str:
        """The name of the run and of its folder, which ends in a hash of `content`."""
        digest = hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()
        text = f"{self.dataset}-{self.network}-{self.recipe.name}-s{self.seed}-{digest[:8]}"
        return re.sub(r"[^\w.-]+", "-", text.replace("=", ""))


def _changed(settings: Method | Protocol) -> dict:
    """Return the fields that differ from their defaults, by name."""
    usual = _defaults(type(settings))
    return {name: v for name, at in usual.items() if (v := getattr(settings, name)) != at}


@cache
def _defaults(kind: type) -> dict:
    """Return the defaults of the fields of a dataclass, by name."""
    return {f.name: f.default for f in fields(kind)}


@dataclass(frozen=True)
class Setting:
    """A data set, a network, a protocol and seeds, with which several methods are trained.

    Attributes
    ----------
    name : name in commands; unique in an edition
    seeds : number of seeds, which then count from 0, or the seeds themselves
    methods : the methods, or their names; empty for all methods of the paper
    more : further methods, or another number of seeds for a method, as in ``(("erm", 6),)``
    sweep_seeds : number of seeds for coefficients other than the paper's usual one; 0 for none
    exceptions : fields of the protocol that differ for an objective, as in
        ``(("focal", (("decay", 0.1),)),)``
    title : name on pages
    short : shorter title for a panel; empty for the title
    """

    dataset: str
    network: str
    protocol: Protocol
    seeds: int | tuple[int, ...] = 1
    name: str = "shared"
    title: str = ""
    short: str = ""
    methods: tuple[Method, ...] = ()
    more: tuple[tuple[Method, int], ...] = ()
    sweep_seeds: int = 0
    exceptions: tuple[tuple[str, tuple[tuple[str, object], ...]], ...] = ()

    def __post_init__(self):  # methods may be given as names
        methods, counts = zip(*self.more, strict=True) if self.more else ((), ())
        object.__setattr__(self, "methods", parsed(self.methods))
        object.__setattr__(self, "more", tuple(zip(parsed(methods), counts, strict=True)))

    def shortened(self, epochs: int | None) -> "Setting":
        """Return the setting with another number of epochs in its protocol.

        Parameters
        ----------
        epochs : number of epochs; 0 or None returns the setting unchanged
        """
        return replace(self, protocol=self.protocol.shortened(epochs)) if epochs else self

    def changed(self, changes: Mapping[str, object]) -> "Setting":
        """Return the setting with other values in its protocol, for every objective.

        Parameters
        ----------
        changes : new values by name of the field of `Protocol`

        Raises
        ------
        ValueError
            A field is unknown, or a value has another type than the present value.
        """
        exceptions = tuple(
            (objective, tuple((name, value) for name, value in pairs if name not in changes))
            for objective, pairs in self.exceptions
        )
        return replace(self, protocol=self.protocol.changed(changes), exceptions=exceptions)

    def protocol_of(self, method: Method) -> Protocol:
        """Return the protocol of a method, including the exceptions for its objective.

        Mixup inference (MIT) always trains in float32. It divides by the difference of two mixing
        ratios, which may be so small that bfloat16 is too coarse.

        Parameters
        ----------
        method : the method
        """
        changed = dict(dict(self.exceptions).get(method.objective, ()))
        if method.objective.startswith("mit"):
            changed["precision"] = "float32"
        return replace(self.protocol, **changed) if changed else self.protocol

    def runs(self, methods: Iterable[Method], variant: str = "code", seeds: int = 0) -> list[Run]:
        """List the runs of some methods, method by method.

        Parameters
        ----------
        methods : the methods
        variant : "code" or "paper" (see `Run`)
        seeds : most seeds of each method; 0 for all

        Raises
        ------
        ValueError
            The network is not a valid name, or a user's file does not define the function.
        OSError
            A user's data cannot be read.
        """
        dataset = own.named(self.dataset) if self.dataset.endswith(".npz") else self.dataset
        network = plugins.network_name(self.network)
        usual = tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds
        more = {method: tuple(range(count)) for method, count in self.more}
        return [
            Run(dataset, network, method, seed, protocol, variant)
            for method, protocol in [(method, self.protocol_of(method)) for method in methods]
            for seed in more.get(method, usual)[: seeds or None]
        ]
