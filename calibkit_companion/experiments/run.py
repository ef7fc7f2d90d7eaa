"""A run is one training: data set, network, method, protocol, seed. Free of torch."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property

from calibkit import terms
from calibkit_companion.data import own
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.method import Method, method, method_name
from calibkit_companion.experiments.protocol import Protocol


def _changed(settings) -> dict:
    """The fields of a dataclass that differ from their defaults."""
    usual = _defaults(type(settings))
    return {name: v for name, at in usual.items() if (v := getattr(settings, name)) != at}


@cache
def _defaults(kind: type) -> dict:
    """The defaults of the fields that are compared, by name."""
    return {f.name: f.default for f in fields(kind) if f.compare}


@dataclass(frozen=True)
class Run:
    """One training. Runs of equal content are the same run, whichever page or edition needs them.

    Attributes
    ----------
    dataset, network, method : their names
    seed : seed of everything random
    protocol : how the network is trained
    variant : "code" or "paper": which description is followed where a paper's text and its authors'
        code differ (see `Protocol.rate`)
    recipe : the method, parsed
    """

    dataset: str
    network: str
    method: str
    seed: int
    protocol: Protocol
    variant: str = "code"
    recipe: Method = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        terms.choose("variant", self.variant, ("code", "paper"))
        object.__setattr__(self, "recipe", method(self.method))
        object.__setattr__(self, "network", plugins.network_name(self.network))
        if self.dataset.endswith(".npz"):
            object.__setattr__(self, "dataset", own.named(self.dataset))
        object.__setattr__(self, "method", method_name(self.recipe))

    def content(self) -> dict:
        """Everything that decides the result, as plain JSON values.

        Settings at their defaults are left out, so that a new setting leaves old names unchanged.
        """
        return json.loads(json.dumps(self._content()))

    def _content(self) -> dict:
        """The fields that differ from their defaults, down to those of method and protocol."""
        method = _changed(self.recipe)
        if "options" in method:
            method["options"] = dict(method["options"])
        return _changed(self) | {"method": method, "protocol": _changed(self.protocol)}

    @cached_property
    def name(self) -> str:
        """A readable name, safe as a file name, that ends in a hash of `content`."""
        digest = hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()
        text = f"{self.dataset}-{self.network}-{self.method}-s{self.seed}-{digest[:8]}"
        return re.sub(r"[^\w.-]+", "-", text.replace("=", ""))


@dataclass(frozen=True)
class Setting:
    """Data, a network, a protocol and seeds, which one block of a paper's table shares.

    Attributes
    ----------
    name : its name in commands; unique in an edition
    seeds : number of seeds, counted from 0, or the seeds themselves
    methods : methods trained in it; empty for all methods of its paper
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
    methods: tuple[str, ...] = ()
    more: tuple[tuple[str, int], ...] = ()
    sweep_seeds: int = 0
    exceptions: tuple[tuple[str, tuple[tuple[str, object], ...]], ...] = ()

    def shortened(self, epochs: int | None) -> "Setting":
        """The same setting with its protocol in another number of epochs.

        Parameters
        ----------
        epochs : number of epochs; 0 or None for the setting as it is
        """
        return replace(self, protocol=self.protocol.shortened(epochs)) if epochs else self

    def protocol_of(self, text: str) -> Protocol:
        """The protocol of a method, with its exceptions.

        Mixup inference always computes in float32: it divides by a difference of ratios, which may
        be so small that rounding would show.

        Parameters
        ----------
        text : the method
        """
        objective = method(text).objective
        changed = dict(dict(self.exceptions).get(objective, ()))
        if objective.startswith("mit"):
            changed["precision"] = "float32"
        return replace(self.protocol, **changed) if changed else self.protocol

    def runs(self, methods: Iterable[str], variant: str = "code", seeds: int = 0) -> list["Run"]:
        """The runs of some methods.

        Parameters
        ----------
        methods : their names
        variant : "code" or "paper"
        seeds : the most seeds of each method; 0 for all
        """
        usual = tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds
        own = {method_name(method(m)): tuple(range(count)) for m, count in self.more}
        return [
            Run(self.dataset, self.network, m, seed, protocol, variant)
            for m, protocol in [(m, self.protocol_of(m)) for m in methods]
            for seed in own.get(method_name(method(m)), usual)[: seeds or None]
        ]
