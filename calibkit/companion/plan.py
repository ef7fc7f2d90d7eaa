"""Which runs exist: methods, editions, and the runs a paper or a page needs. Free of torch.

A run is one training: data set, network, method, protocol, seed. A method is a point on three
independent axes: objective, update, averaging. The workflow engine reads this file for every job,
so it imports the standard library only.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from math import isfinite, nan
from types import MappingProxyType

from calibkit import protocols
from calibkit.protocols import Protocol


@dataclass(frozen=True)
class Method:
    """What a batch is scored by, how the weights are updated, and whether they are averaged."""

    objective: str = "cross_entropy"
    options: tuple[tuple[str, float], ...] = ()  # of the objective
    update: str = "sgd"  # or "sam"
    averaging: str = "none"  # or "swa"


def _method(objective: str, update: str = "sgd", averaging: str = "none", **options) -> Method:
    return Method(objective, tuple(sorted(options.items())), update, averaging)


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
    "l1_norm": _method("logit_norm", p=1.0, strength=0.01),
    "brier": _method("brier"),
    "mmce": _method("mmce", weight=2.0),
    "bsce": _method("bsce", gamma=4.0, beta=2.0),
    "bsce_gra": _method("bsce_gra", gamma=4.0, beta=2.0),
    "focal_gra": _method("focal_gra", gamma=3.0),
    "flsd53_gra": _method("flsd53_gra"),
    "dual_focal_gra": _method("dual_focal_gra", gamma=5.0),
    # Mixtures of two pictures, and the four halves which mixup is made of.
    "mixup": _method("mixup", alpha=0.2, folded=0.0),  # folded: the larger ratio first, always
    "mixup_dt": _method("mixup_dt", alpha=1.0),
    "mixup_to": _method("mixup_to", alpha=1.0),
    "mixup_sc": _method("mixup_sc", alpha=1.0),
    "mixup_io": _method("mixup_io", alpha=1.0),
    "mit_l": _method("mit_l", alpha=1.0, margin=0.0),
    "mit_a": _method("mit_a", alpha=1.0, margin=0.5),
    # Objectives with a memory or a partner.
    "cs_kd": _method("cs_kd", temperature=4.0, weight=1.0),
    "crl": _method("crl", weight=1.0),
    # Flat minima.
    "sam": Method(update="sam"),
    "swa": Method(averaging="swa"),
    "fmfp": Method(update="sam", averaging="swa"),
}


def choose(kind: str, name: str, valid) -> None:
    """Refuse an unknown name in one line which lists the valid ones."""
    if name not in valid:
        close = get_close_matches(str(name), list(valid), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"unknown {kind} {name!r}{hint}; valid: {', '.join(sorted(valid))}")


def method(text: str) -> Method:
    """Read a method: a name, its options in brackets, further axes after `+`.

    >>> method("focal(gamma=5)+sam")
    Method(objective='focal', options=(('gamma', 5.0),), update='sam', averaging='none')
    >>> method("erm+sam+swa") == method("fmfp")
    True
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?((?:\s*\+\s*\w+)*)\s*", text)
    if not match:
        raise ValueError(
            f"method: got {text!r}, expected name, name(option=number) or name+sam+swa"
        )
    name, inner, axes = match.groups()
    choose("method", name, METHODS)
    found = METHODS[name]
    options = dict(found.options)
    for part in filter(None, (p.strip() for p in (inner or "").split(","))):
        key, _, value = (p.strip() for p in part.partition("="))
        choose(f"option of {name}", key, options)
        try:
            options[key] = float(value)
        except ValueError:
            options[key] = nan
        if not isfinite(options[key]):
            raise ValueError(f"option {key} of {name}: got {value!r}, expected a finite number")
    found = replace(found, options=tuple(sorted(options.items())))
    for axis in filter(None, (a.strip() for a in axes.split("+"))):
        choose("axis", axis, ("sam", "swa"))
        found = replace(found, **({"update": "sam"} if axis == "sam" else {"averaging": "swa"}))
    return found


def method_name(wanted: Method) -> str:
    """The shortest text that `method` reads as `wanted`."""
    for name, known in METHODS.items():
        if known == wanted:
            return name
    name, known = next(
        (n, k)
        for n, k in METHODS.items()
        if k.objective == wanted.objective and (k.update, k.averaging) == ("sgd", "none")
    )
    changed = [f"{k}={v:g}" for k, v in wanted.options if dict(known.options)[k] != v]
    return (
        name
        + (f"({','.join(changed)})" if changed else "")
        + ("+sam" if wanted.update == "sam" else "")
        + ("+swa" if wanted.averaging == "swa" else "")
    )


def _changed(settings) -> dict:
    """The fields of a dataclass that differ from their defaults."""
    shown = [f for f in fields(settings) if f.compare]
    return {f.name: v for f in shown if (v := getattr(settings, f.name)) != f.default}


@dataclass(frozen=True)
class Run:
    """One training. Equal content is the same run, whichever page or edition asks for it.

    `variant` tells which of two published descriptions is followed where a paper's text and its
    authors' code differ: "code" or "paper" (see `Protocol.rate`).
    """

    dataset: str
    network: str
    method: str
    seed: int
    protocol: Protocol
    variant: str = "code"
    recipe: Method = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        choose("variant", self.variant, ("code", "paper"))
        object.__setattr__(self, "recipe", method(self.method))
        object.__setattr__(self, "method", method_name(self.recipe))

    def content(self) -> dict:
        """Everything that decides the result, as plain JSON values.

        Settings at their defaults are left out, so that a new one leaves old names alone.
        """
        method = _changed(self.recipe)
        if "options" in method:
            method["options"] = dict(method["options"])
        content = _changed(self) | {"method": method, "protocol": _changed(self.protocol)}
        return json.loads(json.dumps(content))

    @property
    def name(self) -> str:
        """Readable, safe as a file name, and ending in a hash of `content`."""
        digest = hashlib.sha256(json.dumps(self.content(), sort_keys=True).encode()).hexdigest()
        text = f"{self.dataset}-{self.network}-{self.method}-s{self.seed}-{digest[:8]}"
        return re.sub(r"[^\w.-]+", "-", text.replace("=", ""))


@dataclass(frozen=True)
class Edition:
    """A size of the book: the same pages on other data, networks, protocols and seeds."""

    dataset: str
    network: str
    seeds: int
    protocols: dict[str, Protocol]  # by data set; "" serves every other one
    sizes: tuple[int, ...] = ()  # of the training set, where a page compares several
    sweep_seeds: int = 1  # of the coefficients that pages try besides the usual one
    # For `other_data`: more data sets, each with a network and how often to train each method.
    others: tuple[tuple[str, str, int], ...] = ()
    on_the_spot: bool = False  # cheap enough for a notebook to train what it misses

    def protocol(self, dataset: str) -> Protocol:
        return self.protocols.get(dataset, self.protocols[""])


_SMOKE = Protocol(
    epochs=6,
    batch_size=64,
    milestones=(4,),
    swa_start=3,
    swa_anneal=1,
    validation=200,
    train_size=300,
    snapshots=(1, 2, 4),
)
# A thousand signals are few enough that networks overfit as they do on pictures.
_DEMO = Protocol(
    epochs=80,
    batch_size=100,
    milestones=(32, 52, 68),
    swa_start=48,
    swa_anneal=4,
    train_size=1000,
    snapshots=(4, 16, 40),
    evaluate_every=4,
    shifted=2000,
)
# What a CPU can carry of real pictures: a fifth of them, by parameters of the demo edition.
_DEMO_PICTURES = replace(protocols.FMFP_CIFAR.shortened(20), validation=5000, train_size=10_000)
# Real pictures on two CPU cores. Without crops and flips a small network learns them by heart, as
# large ones do with them.
_FASHION = replace(
    protocols.FMFP_CIFAR.shortened(30),
    augment=False,
    validation=2000,
    train_size=5000,
    evaluate_every=3,
    tracked=2000,
    shifted=1000,
)
# Data that one paper has for itself, by its own protocol.
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
        {"": _DEMO_PICTURES, "mnist1d": _DEMO} | _PARTICULAR,
        (250, 500, 1000, 2000, 4000),
        on_the_spot=True,
    ),
    "fashion": Edition(
        "fashion_mnist",
        "cnn",
        5,
        {"": _FASHION} | _PARTICULAR,
        (1000, 2500, 5000, 10_000, 20_000),
        sweep_seeds=3,
        others=(("cifar10", "cnn", 5), ("20newsgroups", "textcnn", 3)),
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
    ),
}


GENERATED = ("gaussians", "mnist1d", "digits")  # data that need not be fetched
TEXTS = ("20newsgroups",)  # token ids, which cannot be mixed


def applicable(methods: Iterable[str], dataset: str) -> list[str]:
    """The methods that can be trained on a data set: on texts, those that do not mix inputs."""
    texts = dataset in TEXTS
    return [m for m in methods if not (texts and method(m).objective.startswith(("mixup", "mit")))]


@dataclass(frozen=True)
class Need:
    """Runs a page needs: some methods, with all seeds or a few, perhaps at several sizes."""

    methods: tuple[str, ...]
    seeds: int = 0  # at most; 0: as many as the edition has
    sweep: bool = False  # as many seeds as the edition gives to coefficients
    sized: bool = False  # at every training-set size of the edition
    # On other data: "others", each that the edition has, or one data set and network, which an
    # edition that trains on the spot leaves out if it would have to be fetched.
    on: str | tuple[str, str] = ""
    variant: str = "code"
    settings: tuple[tuple[str, object], ...] = ()  # of the protocol, other than the edition's


_FOUR = ("erm", "label_smoothing", "mixup", "focal")
_BSCE = (
    *("erm", "brier", "mmce", "flsd53", "flsd53_gra", "focal", "focal_gra"),
    *("dual_focal", "dual_focal_gra", "bsce", "bsce_gra"),
)
# Objectives whose every combination with flat minima is trained: what no paper has tried.
MATRIX = ("erm", "label_smoothing", "l1_norm", "focal", "bsce_gra", "mixup", "cs_kd")
# The regime of the focal and Brier-score line of papers, which their texts do not mention.
SUMMED = (("reduction", "sum"), ("clip_norm", 2.0))

# The trainings of each paper's chapters.
PAPERS: dict[str, tuple[Need, ...]] = {
    "fmfp": (
        Need((*_FOUR, "cs_kd", "l1_norm", "crl", "sam", "swa", "fmfp")),
        Need(("fmfp",), variant="paper"),
        Need(("erm",), settings=(("scores", True),)),
    ),
    "darkside": (
        Need((*_FOUR, "entropy_regularization")),
        Need(("erm",), settings=(("scores", True),)),
    ),
    "overconf": (
        Need(("erm", "label_smoothing", "l1_norm", "focal", "inverse_focal")),
        Need(
            (
                *(f"label_smoothing(epsilon={e})" for e in (0.01, 0.03, 0.05, 0.07, 0.09)),
                *(f"l1_norm(strength={s})" for s in (0.001, 0.005, 0.01, 0.05, 0.1)),
                *(f"focal(gamma={g})" for g in (1, 3, 5, 7, 9)),
                *(f"inverse_focal(gamma={g})" for g in (1, 2, 3)),
            ),
            sweep=True,
        ),
        Need(("erm", "label_smoothing(epsilon=0.05)", "l1_norm", "focal"), seeds=1, sized=True),
    ),
    "mixup": (
        Need((*_FOUR, "mixup_dt", "mixup_to", "mixup_sc", "mixup_io", "l1_norm", "mit_l", "mit_a")),
        Need(
            (
                *(f"mixup(alpha={a})" for a in (0.1, 0.5, 1)),
                *(f"mit_a(alpha={a})" for a in (0.1, 0.5)),
                "mit_a(margin=0)",
                "mit_l(margin=0.5)",
            ),
            sweep=True,
        ),
    ),
    "bsce": (
        Need(_BSCE),
        Need(
            tuple(
                f"{m}(gamma={g},beta={b})"
                for m in ("bsce", "bsce_gra")
                for g in (1, 2, 4, 6)
                for b in (1, 2)
            )
            + tuple(f"bsce_gra(gamma={g})" for g in (3, 5, 7, 8)),
            sweep=True,
        ),
        Need(_BSCE, settings=SUMMED),
    ),
}
_SWITCHES = (  # where a paper and its authors' code differ
    Need(("sam", "fmfp"), settings=(("sam_statistics", "twice"),)),
    Need(("mixup(folded=1)",)),
)
_CROSSED = (Need(tuple(f"{m}{axes}" for m in MATRIX for axes in ("+sam", "+swa", "+sam+swa"))),)
# What is tried on other data, too: the main methods of each paper.
CARRIED = (
    *("erm", "label_smoothing", "entropy_regularization", "l1_norm", "focal", "inverse_focal"),
    *("dual_focal", "bsce_gra", "mixup", "cs_kd", "crl", "sam", "swa", "fmfp"),
)
# What a paper says of one data set in particular and a CPU can carry.
_ON_TEXTS = Need(
    (
        *("erm", "label_smoothing(epsilon=0.09)", "l1_norm"),
        *("focal(gamma=5)", "focal(gamma=1)", "inverse_focal"),
    ),
    on=("20newsgroups", "textcnn"),
)
_ON_TOY = Need(("erm",), on=("gaussians", "mlp"))
# The trainings of each notebook.
_ALL = tuple(need for needs in PAPERS.values() for need in needs)
NOTEBOOKS: dict[str, tuple[Need, ...]] = {
    "tour": (Need(("erm",)),),
    "confidence_histograms": (Need((*_FOUR, "fmfp")),),
    "reliability_diagrams": (Need((*_FOUR, "dual_focal", "l1_norm", "bsce_gra", "fmfp")),),
    "reliable_overfitting": (Need(("erm", "sam", "swa", "fmfp")),),
    "gradient_norms": (Need(("erm", "focal", "dual_focal", "bsce_gra")),),
    "fmfp": PAPERS["fmfp"],
    "fmfp_2": PAPERS["fmfp"],
    "darkside": PAPERS["darkside"],
    "overconf": (*PAPERS["overconf"], _ON_TEXTS),
    "mixup": PAPERS["mixup"],
    "bsce": (*PAPERS["bsce"], _ON_TOY),
    "bsce_2": PAPERS["bsce"],
    "claims": (*_ALL, _ON_TEXTS, _ON_TOY),
    "published": _ALL,
    "deviations": _ALL + _SWITCHES,
    "matrix": _ALL + _CROSSED,
    "other_data": (Need(CARRIED), Need(CARRIED, on="others")),
    "results": _ALL + _SWITCHES + _CROSSED,
    "your_model": (),
    "explore": (Need((*_FOUR, "fmfp")),),
    "benchmarks": (),
}


def select(
    edition: str,
    methods,
    dataset: str = "",
    network: str = "",
    seeds: int = 0,
    epochs: int = 0,
    train_size: int = 0,
    variant: str = "code",
    settings: Mapping[str, object] = MappingProxyType({}),
) -> list[Run]:
    """The runs of some methods in an edition; empty or zero means the edition's own choice.

    `settings` are fields of `protocols.Protocol` to change, such as ``{"batch_size": 512}``.
    """
    choose("edition", edition, EDITIONS)
    chosen = EDITIONS[edition]
    dataset, network = dataset or chosen.dataset, network or chosen.network
    protocol = chosen.protocol(dataset)
    if epochs:
        protocol = protocol.shortened(epochs)
    if train_size:
        protocol = replace(protocol, train_size=train_size)
    for name, value in settings.items():
        choose("setting", name, [f.name for f in fields(Protocol)])
        old = getattr(protocol, name)
        number = isinstance(old, int | float) and not isinstance(old, bool)
        if old is not None and not isinstance(value, (int | float) if number else type(old)):
            raise ValueError(f"setting {name}: got {value!r}, expected a value such as {old!r}")
    protocol = replace(protocol, **settings)
    return [
        Run(dataset, network, m, seed, protocol, variant)
        for m in methods
        for seed in range(seeds or chosen.seeds)
    ]


def needs(page: str) -> list[Need]:
    """What a paper, a notebook, every notebook ("book") or everything ("all") needs."""
    sets = {**PAPERS, **NOTEBOOKS}
    choose("paper or notebook", page, [*sets, "book", "all"])
    groups = {"book": NOTEBOOKS.values(), "all": sets.values()}
    return [need for group in groups.get(page, [sets.get(page, ())]) for need in group]


def runs(page: str, edition: str, **changes) -> list[Run]:
    """The runs of a page in an edition, without repeats; `changes` as `select` takes them."""
    choose("edition", edition, EDITIONS)
    found = []
    for need in needs(page):
        chosen = EDITIONS[edition]
        most = need.seeds or (chosen.sweep_seeds if need.sweep else chosen.seeds)
        seeds = min(most, changes.get("seeds") or chosen.seeds)
        own = {"seeds": seeds, "variant": need.variant, "settings": dict(need.settings)}
        if need.on:
            places = chosen.others if need.on == "others" else [(*need.on, seeds)]
            if changes.get("dataset") or changes.get("network"):
                places = ()
            elif chosen.on_the_spot and need.on != "others":
                places = [p for p in places if p[0] in GENERATED]
            each = [
                {"dataset": dataset, "network": network, "seeds": min(seeds, limit)}
                for dataset, network, limit in places
            ]
        else:
            each = [{"train_size": size} for size in (chosen.sizes if need.sized else (0,))]
        for change in each:
            changed = changes | own | change
            dataset = changed.get("dataset") or chosen.dataset
            found += select(edition, applicable(need.methods, dataset), **changed)
    return list(dict.fromkeys(found))
