"""A run is one training: data set, network, method, protocol, seed. Free of torch.

A method is a point on three independent axes: objective, update, averaging.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from calibkit import terms
from calibkit.data import own
from calibkit.training import plugins
from calibkit.training.protocols import Protocol


@dataclass(frozen=True)
class Method:
    """How a batch is scored, how the weights are updated, and whether they are averaged."""

    objective: str = "cross_entropy"
    options: tuple[tuple[str, float], ...] = ()  # of the objective
    update: str = "sgd"  # or "sam"
    averaging: str = "none"  # or "swa"
    # Raised when what the objective computes changes: older records then belong to another run.
    revision: int = field(default=0, repr=False)


def _method(objective: str, revision: int = 0, **options) -> Method:
    return Method(objective, tuple(sorted(options.items())), revision=revision)


METHODS: dict[str, Method] = {
    "erm": Method(),
    # Loss functions; coefficients are those of the paper which uses the method as its own or, for
    # a baseline, of fmfp.
    "label_smoothing": _method("label_smoothing", epsilon=0.05),
    "entropy_regularization": _method("entropy_regularization", beta=0.1),
    "focal": _method("focal", gamma=3.0),
    "inverse_focal": _method("inverse_focal", gamma=1.0),
    "flsd53": _method("flsd53"),
    "dual_focal": _method("dual_focal", gamma=5.0),
    "l1_norm": _method("logit_penalty", p=1.0, strength=0.01),
    "brier": _method("brier"),
    "mmce": _method("mmce", weight=2.0, formula=0.0),
    "bsce": _method("bsce", gamma=4.0, beta=2.0),
    "bsce_gra": _method("bsce_gra", gamma=4.0, beta=2.0),
    "focal_gra": _method("focal_gra", gamma=3.0),
    "flsd53_gra": _method("flsd53_gra"),
    "dual_focal_gra": _method("dual_focal_gra", gamma=5.0),
    "consistency_gra": _method("consistency_gra", draws=10.0, noise=0.5),
    # Mixtures of two images, and the four halves which mixup is made of.
    "mixup": _method("mixup", alpha=0.2, folded=0.0),  # folded: the larger ratio first, always
    "mixup_dt": _method("mixup_dt", revision=1, alpha=1.0),
    "mixup_to": _method("mixup_to", alpha=1.0),
    "mixup_sc": _method("mixup_sc", alpha=1.0),
    "mixup_io": _method("mixup_io", alpha=1.0),
    "mit_l": _method("mit_l", alpha=1.0, margin=0.0),
    "mit_a": _method("mit_a", alpha=1.0, margin=0.5),
    # Objectives with a memory or a partner.
    "cs_kd": _method("cs_kd", temperature=4.0, weight=1.0),
    "crl": _method("crl", revision=1, weight=1.0),
    # Flat minima.
    "sam": Method(update="sam"),
    "swa": Method(averaging="swa"),
    "fmfp": Method(update="sam", averaging="swa"),
}

# Passes of a sample through the network in a step, forward and backward, by objective, where not
# one of each. Trying a method of somebody's own adds it.
PASSES = {"cs_kd": (2, 1), "mit_l": (2, 2), "mit_a": (2, 2)}


def method(text: str) -> Method:
    """Read a method: a name, its options in brackets, further axes after `+`.

    A name is one of `METHODS`, that of an entry point, or ``FILE.py:NAME`` (see `plugins`).

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
    chosen = plugins.options(name, inner)
    if name not in METHODS:
        name = plugins.named("method", name)
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
    for name, entry in METHODS.items():
        if entry == recipe:
            return name
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
    shown = [f for f in fields(settings) if f.compare]
    return {f.name: v for f in shown if (v := getattr(settings, f.name)) != f.default}


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
        method = _changed(self.recipe)
        if "options" in method:
            method["options"] = dict(method["options"])
        content = _changed(self) | {"method": method, "protocol": _changed(self.protocol)}
        return json.loads(json.dumps(content))

    @cached_property
    def name(self) -> str:
        """Readable, safe as a file name, and ending in a hash of `content`."""
        digest = hashlib.sha256(json.dumps(self.content(), sort_keys=True).encode()).hexdigest()
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

    def protocol_of(self, text: str) -> Protocol:
        """The protocol of a method, with its exceptions; mixup inference is always in float32."""
        objective = method(text).objective
        changed = dict(dict(self.exceptions).get(objective, ()))
        if objective.startswith("mit"):
            changed["precision"] = "float32"
        return replace(self.protocol, **changed)

    def runs(self, methods: Iterable[str], variant: str = "code", seeds: int = 0) -> list["Run"]:
        """The runs of some methods, at most `seeds` of each; 0 for all."""
        usual = tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds
        own = {m: tuple(range(count)) for m, count in self.more}
        return [
            Run(self.dataset, self.network, m, seed, self.protocol_of(m), variant)
            for m in methods
            for seed in own.get(m, usual)[: seeds or None]
        ]
