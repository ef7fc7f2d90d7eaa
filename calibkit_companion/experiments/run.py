"""A run is one training: data set, network, method, protocol, seed. Free of torch.

A method is a point on three independent axes: objective, update, averaging.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property

from calibkit import terms
from calibkit_companion.data import own
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.protocol import Protocol


@dataclass(frozen=True)
class Method:
    """How a batch is scored, how the weights are updated, and whether they are averaged."""

    objective: str = "cross_entropy"
    options: tuple[tuple[str, float], ...] = ()  # of the objective
    update: str = "sgd"  # or "sam"
    averaging: str = "none"  # or "swa"
    # Raised when what the objective computes changes: older records then belong to another run.
    revision: int = field(default=0, repr=False)


METHODS: dict[str, Method] = {
    name: Method(
        known.objective or name,
        tuple(sorted(known.options.items())),
        known.update,
        known.averaging,
        known.revision,
    )
    for name, known in terms.METHODS.items()
}

_NAMES = {recipe: name for name, recipe in reversed(METHODS.items())}  # of two, the first

# Passes of a sample through the network in a step, forward and backward, by objective, where not
# one of each. Trying a method of somebody's own adds it.
PASSES = {"cs_kd": (2, 1), "mit_l": (2, 2), "mit_a": (2, 2)}


def method(text: str) -> Method:
    """Read a method: a name, its options in brackets, further axes after `+`.

    A name is one of `METHODS`, or ``FILE.py:NAME`` (see `plugins`).

    >>> method("focal(gamma=5)+sam")
    Method(objective='focal', options=(('gamma', 5.0),), update='sam', averaging='none')
    >>> method("erm+sam+swa") == method("fmfp")
    True
    """
    match = re.fullmatch(
        r"\s*((?:.*\.py:)?\w+(?:@\w+)?)\s*(?:\(([^()]*)\))?((?:\s*\+\s*\w+)*)\s*", text
    )
    if not match:
        raise ValueError(
            f"method: got {text!r}, expected name, name(option=number), name+sam+swa; "
            "FILE.py:NAME for one of your own"
        )
    name, inner, axes = match.groups()
    return _recipe(plugins.named(name), inner, axes)


@cache
def _recipe(name: str, inner: str | None, axes: str) -> Method:
    chosen = plugins.options(name, inner)
    if plugins.own(name):  # which options it has, its source says: it is read when it is trained
        parsed = Method(name, tuple(sorted(chosen.items())))
    else:
        terms.choose("method", name, METHODS)
        parsed, options = METHODS[name], dict(METHODS[name].options)
        for key in chosen:
            terms.choose(f"option of {name}", key, options)
        parsed = replace(parsed, options=tuple(sorted((options | chosen).items())))
    for axis in filter(None, (a.strip() for a in axes.split("+"))):
        terms.choose("axis", axis, ("sam", "swa"))
        parsed = replace(parsed, **({"update": "sam"} if axis == "sam" else {"averaging": "swa"}))
    return parsed


def method_name(recipe: Method) -> str:
    """The shortest text from which `method` gives `recipe`."""
    if recipe in _NAMES:
        return _NAMES[recipe]
    if plugins.own(recipe.objective):
        name, usual = recipe.objective, {}
    else:
        name, usual = next(
            (n, dict(k.options))
            for n, k in METHODS.items()
            if k.objective == recipe.objective and (k.update, k.averaging) == ("sgd", "none")
        )
    return (
        plugins.joined(name, {k: v for k, v in recipe.options if usual.get(k) != v})
        + ("+sam" if recipe.update == "sam" else "")
        + ("+swa" if recipe.averaging == "swa" else "")
    )


def _changed(settings) -> dict:
    """The fields of a dataclass that differ from their defaults."""
    usual = _defaults(type(settings))
    return {name: v for name, at in usual.items() if (v := getattr(settings, name)) != at}


@cache
def _defaults(kind: type) -> dict:
    return {f.name: f.default for f in fields(kind) if f.compare}


@dataclass(frozen=True)
class Run:
    """One training. Equal content is the same run, whichever page or edition asks for it.

    `variant` says which description is followed where a paper's text and its authors' code differ:
    "code" or "paper" (see `Protocol.rate`).
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
        method = _changed(self.recipe)
        if "options" in method:
            method["options"] = dict(method["options"])
        return _changed(self) | {"method": method, "protocol": _changed(self.protocol)}

    @cached_property
    def name(self) -> str:
        """Readable, safe as a file name, and ending in a hash of `content`."""
        digest = hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()
        text = f"{self.dataset}-{self.network}-{self.method}-s{self.seed}-{digest[:8]}"
        return re.sub(r"[^\w.-]+", "-", text.replace("=", ""))


@dataclass(frozen=True)
class Setting:
    """Data, a network, a protocol and seeds: what one block of a paper's table shares.

    Attributes
    ----------
    name : its name in commands; unique in an edition
    seeds : how many, counted from 0, or which
    methods : those trained in it; empty for all of its paper's
    more : methods besides those, or with another number of seeds, as ``(("erm", 6),)``
    sweep_seeds : seeds for the coefficients that a paper tries besides its usual one; 0: none
    exceptions : fields of the protocol that differ for an objective, as
        ``(("focal", (("decay", 0.1),)),)``
    title : its name on pages
    """

    dataset: str
    network: str
    protocol: Protocol
    seeds: int | tuple[int, ...] = 1
    name: str = "shared"
    title: str = ""
    methods: tuple[str, ...] = ()
    more: tuple[tuple[str, int], ...] = ()
    sweep_seeds: int = 0
    exceptions: tuple[tuple[str, tuple[tuple[str, object], ...]], ...] = ()

    def shortened(self, epochs: int | None) -> "Setting":
        """The same by its protocol in so many epochs; 0: as it is."""
        return replace(self, protocol=self.protocol.shortened(epochs)) if epochs else self

    def protocol_of(self, text: str) -> Protocol:
        """The protocol of a method, with its exceptions.

        Mixup inference is always in float32: it divides by a difference of ratios, which may be so
        small that rounding would show.
        """
        objective = method(text).objective
        changed = dict(dict(self.exceptions).get(objective, ()))
        if objective.startswith("mit"):
            changed["precision"] = "float32"
        return replace(self.protocol, **changed) if changed else self.protocol

    def runs(self, methods: Iterable[str], variant: str = "code", seeds: int = 0) -> list["Run"]:
        """The runs of some methods, at most `seeds` of each; 0 for all."""
        usual = tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds
        own = {m: tuple(range(count)) for m, count in self.more}
        return [
            Run(self.dataset, self.network, m, seed, protocol, variant)
            for m, protocol in [(m, self.protocol_of(m)) for m in methods]
            for seed in own.get(m, usual)[: seeds or None]
        ]
