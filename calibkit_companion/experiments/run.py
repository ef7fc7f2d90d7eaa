"""A run is one training: data set, network, method, protocol, seed. Free of torch."""

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
    """One training. Runs of equal content are the same run, whichever page or edition needs them.

    Attributes
    ----------
    dataset, network : their names; a user's file is named by its content (see `Setting.runs`)
    recipe : the method
    seed : seed of everything random
    protocol : how the network is trained
    variant : "code" or "paper": which description is followed where a paper's text and its authors'
        code differ (see `Protocol.rate`)
    """

    dataset: str
    network: str
    recipe: Method
    seed: int
    protocol: Protocol
    variant: str = "code"

    @property
    def method(self) -> str:
        """Name of the method; records, tables and pages know it by this."""
        return self.recipe.name

    @property
    def architecture(self) -> str:
        """Name of the network without options."""
        return Name.read(self.network, "network").base

    @cached_property
    def own(self) -> tuple[str, ...]:
        """Names of the objective and the network, as far as they come from a user's files."""
        return tuple(filter(plugins.own, (self.recipe.objective, self.architecture)))

    @cached_property
    def content(self) -> dict:
        """Everything that decides the result, as plain JSON values; not to be changed.

        Settings at their defaults are left out, so that a new setting leaves old names unchanged.
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
        """A readable name, safe as a file name, that ends in a hash of `content`."""
        digest = hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()
        text = f"{self.dataset}-{self.network}-{self.recipe.name}-s{self.seed}-{digest[:8]}"
        return re.sub(r"[^\w.-]+", "-", text.replace("=", ""))


def _changed(settings: Method | Protocol) -> dict:
    """The fields that differ from their defaults, by name."""
    usual = _defaults(type(settings))
    return {name: v for name, at in usual.items() if (v := getattr(settings, name)) != at}


@cache
def _defaults(kind: type) -> dict:
    """The defaults of the fields of a dataclass, by name."""
    return {f.name: f.default for f in fields(kind)}


@dataclass(frozen=True)
class Setting:
    """Data, a network, a protocol and seeds, which one block of a paper's table shares.

    Attributes
    ----------
    name : its name in commands; unique in an edition
    seeds : number of seeds, counted from 0, or the seeds themselves
    methods : methods trained in it, given as such or as names; empty for all of its paper
    more : further methods, or another number of seeds for a method, as ``(("erm", 6),)``
    sweep_seeds : seeds for the coefficients that a paper tries besides its usual one; 0: none
    exceptions : fields of the protocol that differ for an objective, as
        ``(("focal", (("decay", 0.1),)),)``
    title : its name on pages
    short : its title in fewer words, for a panel; empty for the title itself
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

    def __post_init__(self):  # files of papers, and looks.toml, write names
        methods, counts = zip(*self.more, strict=True) if self.more else ((), ())
        object.__setattr__(self, "methods", parsed(self.methods))
        object.__setattr__(self, "more", tuple(zip(parsed(methods), counts, strict=True)))

    def shortened(self, epochs: int | None) -> "Setting":
        """The same setting with its protocol in another number of epochs.

        Parameters
        ----------
        epochs : number of epochs; 0 or None for the setting as it is
        """
        return replace(self, protocol=self.protocol.shortened(epochs)) if epochs else self

    def changed(self, changes: Mapping[str, object]) -> "Setting":
        """The same setting with other fields of its protocol, for every objective.

        Parameters
        ----------
        changes : values by name of the field

        Raises
        ------
        ValueError
            As `Protocol.changed`.
        """
        exceptions = tuple(
            (objective, tuple((name, value) for name, value in pairs if name not in changes))
            for objective, pairs in self.exceptions
        )
        return replace(self, protocol=self.protocol.changed(changes), exceptions=exceptions)

    def protocol_of(self, method: Method) -> Protocol:
        """The protocol of a method, with its exceptions.

        Mixup inference always computes in float32: it divides by a difference of ratios, which may
        be so small that rounding would show.

        Parameters
        ----------
        method : the method
        """
        changed = dict(dict(self.exceptions).get(method.objective, ()))
        if method.objective.startswith("mit"):
            changed["precision"] = "float32"
        return replace(self.protocol, **changed) if changed else self.protocol

    def runs(self, methods: Iterable[Method], variant: str = "code", seeds: int = 0) -> list[Run]:
        """The runs of some methods, method by method.

        Parameters
        ----------
        methods : the methods
        variant : "code" or "paper"
        seeds : the most seeds of each method; 0 for all

        Raises
        ------
        ValueError
            The network is no name, or a user's file has no such function.
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
