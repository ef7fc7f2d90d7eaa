"""What the five papers state: their claims as data, in words, and the numbers printed for them.

An entry of ``ledger/claims.json`` is read into a `Claim`: what the paper says, in our words, and a
check made of comparisons, each of which names a metric, the methods (`Subject`) and the side on
which the paper puts their difference. Nothing here knows of records; `calibkit.companion.claims`
applies the checks to them.

**The margin** of a metric is written down with each claim, by one rule (`margin`) that looks only
at the paper's printed numbers: half the smallest effect that the paper prints for the claim, but at
least its printed ± (or its last printed digit). Where a claim is that nothing changes, it is that ±
alone, but no less than the largest change that the paper itself prints under those words.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise, product
from math import isnan, nan

import numpy as np

from calibkit import terms
from calibkit.companion import plan
from calibkit.companion.contrasts import split

QUANTIFIERS = ("all", "any", "most", "nearly all")

# --- a claim as data ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """Whose metric: a method, a difference or ratio of two, perhaps on data of its own."""

    methods: tuple[str, ...]
    operator: str = ""
    dataset: str = ""
    network: str = ""
    size: int = 0  # of the training set; 0: the edition's

    @classmethod
    def read(cls, text: str) -> "Subject":
        """Read ``method``, ``method - method`` or ``method / method``, ``@ dataset/network``.

        >>> Subject.read("focal(gamma=5) - erm @ cifar100/resnet50").methods
        ('focal(gamma=5)', 'erm')
        """
        subject, _, where = text.partition(" @ ")
        dataset, _, network = where.partition("/")
        first, operator, second = re.fullmatch(r"(.+?)(?: ([-/]) (.+))?", subject).groups()
        return cls((first, second) if second else (first,), operator or "", dataset, network)

    def __str__(self) -> str:
        where = f" on {self.dataset}, {self.network}" if self.dataset else ""
        size = f" with {self.size} training samples" if self.size else ""
        return f" {self.operator} ".join(self.methods) + where + size

    def at_defaults(self) -> "Subject":
        """The same with every coefficient at its default."""
        plain = tuple(re.sub(r"\(.*?\)", "", method) for method in self.methods)
        return replace(self, methods=plain, size=0)

    def choices(self) -> dict[str, float]:
        """The methods in ``focal(gamma=1|3)``, and the coefficient of each."""
        coefficients = {}
        for text in self.methods:
            name, option, values = re.fullmatch(r"(\w+)(?:\((\w+)=([^,]*)\))?.*", text).groups()
            each = values.split("|") if values else []
            if len(each) > 1:
                coefficients |= {f"{name}({option}={value})": float(value) for value in each}
            else:
                coefficients[text] = nan
        return coefficients


@dataclass(frozen=True)
class Comparison:
    """One metric of one method against another method, or against a number."""

    metric: str
    of: str
    than: str | float
    side: str
    margin: float = 0.0
    against: str = ""  # the metric of the second, where it is another
    sized: bool = False  # the largest training set of the edition against the smallest
    # Only at coverages that reject so many times what plain training gets wrong.
    rejects: float = 0.0

    @property
    def sides(self) -> list[Subject]:
        """The methods it names."""
        return [Subject.read(x) for x in (self.of, self.than) if isinstance(x, str)]


@dataclass(frozen=True)
class Computed:
    """A number of `calibkit.companion.derivations`."""

    name: str
    side: str
    margin: float = 0.0


@dataclass(frozen=True)
class Beyond:
    """What no record of this library can say, and why."""

    reason: str


@dataclass(frozen=True)
class Joined:
    """Checks under a quantifier."""

    quantifier: str
    parts: tuple["Check", ...]

    def leaves(self) -> Iterator[Comparison | Computed | Beyond]:
        """What it joins, in order."""
        for part in self.parts:
            yield from part.leaves() if isinstance(part, Joined) else [part]


Check = Comparison | Computed | Beyond | Joined


@dataclass(frozen=True)
class Claim:
    """What a paper says, the check of it, and what is known of it before any run.

    Attributes
    ----------
    across : in how many of the places that a paper prints its words need the check to hold: "all",
        "most", "half" or "some"
    each : each part of the check is a case of its own where the paper's table is counted
    ours : the paper does not say it in so many words; it is our reading of its tables
    support : what the paper's numbers say, in words
    exception : why the check does not hold on the paper's own table, where it does not
    """

    id: str
    paper: str
    exhibits: tuple[str, ...]
    statement: str
    check: Joined
    margins: Mapping[str, float]
    across: str
    support: str
    exception: str = ""
    each: bool = False
    ours: bool = False
    tables: tuple[str, ...] = ()  # further exhibits that print what the check needs


def claims(paper: str | None = None) -> list[Claim]:
    """The claims as data.

    Parameters
    ----------
    paper : {"fmfp", "darkside", "overconf", "mixup", "bsce"}, optional

    Examples
    --------
    >>> len(claims()), claims("bsce")[0].id
    (101, 'bsce-c01')
    """
    every = _claims()
    if paper is not None:
        plan.choose("paper", paper, dict.fromkeys(claim.paper for claim in every))
    return [claim for claim in every if paper in (None, claim.paper)]


def written_margin(identity: str, metric: str) -> float:
    """The largest difference of a metric that would not matter, as written down with a claim."""
    return next(claim.margins[metric] for claim in claims() if claim.id == identity)


@cache
def _claims() -> tuple[Claim, ...]:
    text = (files("calibkit") / "companion/ledger/claims.json").read_text("utf-8")
    return tuple(_read(entry) for entry in json.loads(text))


def _read(entry: dict) -> Claim:
    margins = entry.get("margins", {})
    check = _read_check(entry["check"], margins)
    check = check if isinstance(check, Joined) else Joined("all", (check,))
    return Claim(
        entry["id"],
        entry["paper"],
        tuple(entry["exhibits"]),
        entry["statement"],
        check,
        margins,
        entry.get("across", "all"),
        entry["support"],
        entry.get("exception", ""),
        entry.get("each", False),
        entry.get("ours", False),
        tuple(entry.get("tables", ())),
    )


def _read_check(check: dict, margins: Mapping[str, float]) -> Check:
    """A check from its entry; lists of metrics and methods are multiplied out."""
    for quantifier in QUANTIFIERS:
        if quantifier in check:
            parts = (_read_check(part, margins) for part in check[quantifier])
            return Joined(quantifier, tuple(parts))
    if "beyond" in check:
        return Beyond(check["beyond"])
    if "computed" in check:
        return Computed(check["computed"], check["is"], check.get("by", 0.0))
    if "order" in check:  # highest first
        steps = [product(_list(a), _list(b)) for a, b in pairwise(check["order"])]
        pairs, side = [pair for step in steps for pair in step], "above"
    else:
        pairs, side = list(product(_list(check["of"]), _list(check["than"]))), check["is"]
    leaves = [
        Comparison(
            metric,
            of,
            than,
            side,
            check.get("by", margins.get(metric, 0.0)),
            check.get("against", ""),
            check.get("sized", False),
            check.get("rejects", 0.0),
        )
        for metric in _list(check["metric"])
        for of, than in pairs
    ]
    return leaves[0] if len(leaves) == 1 else Joined(check.get("rows", "all"), tuple(leaves))


def _list(value) -> list:
    return value if isinstance(value, list) else [value]


# --- what the paper prints ------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A printed mean in natural units, its printed ± (nan if there is none) and its last digit."""

    value: float
    std: float
    digit: float


# Printed columns that are other test sets of the networks of another column.
_UNDER = {
    "cifar10c": "shifted",
    **dict.fromkeys(("cifar10.1", "cifar10.2", "imagenet_v2"), "collected"),
}
_BESIDE = ("avg_over_backbones",)  # means of the rows above them


@cache
def _cells(paper: str, exhibits: tuple[str, ...]) -> dict[tuple[str, str], dict]:
    """Cells of some exhibits by place, then by method and metric."""
    from calibkit.companion import published  # late: it takes pandas

    places: dict[tuple[str, str], dict] = {}
    table = published.cells(paper)
    table = table[table.exhibit.isin(exhibits) & ~table.network.isin(_BESIDE)]
    for row in table.itertuples():
        metric = f"{_UNDER[row.dataset]}:{row.metric}" if row.dataset in _UNDER else row.metric
        cell = Cell(row.value, row.std, row.digit)
        places.setdefault((row.dataset, row.network), {}).setdefault((row.method, metric), cell)
    return places


def _cell(cells: Mapping, method: str, metric: str) -> Cell | None:
    """A cell by method and metric; of a method that the paper prints once, whatever coefficient."""
    if method == "ts_ece":
        method = "ts"
    if method not in _METHODS:
        base, options, axes = terms.parts(method)
        exact = plan.method_name(plan.method(method))
        if (exact, metric) in cells:
            return cells[exact, metric]
        if options or axes:
            return None
        matching = [key for key in cells if key[1] == metric and terms.parts(key[0])[0] == base]
        return cells[matching[0]] if len(matching) == 1 else None
    return cells.get((method, metric))


def printed_cells(
    leaf: Comparison, places: Mapping, place: tuple[str, str]
) -> list[tuple[float, Cell]]:
    """The cells of a comparison in a place, each with its sign; empty if one is not printed."""
    signed = []
    for sign, subject, metric in (
        (1, leaf.of, leaf.metric),
        (-1, leaf.than, leaf.against or leaf.metric),
    ):
        if not isinstance(subject, str):
            continue
        side = Subject.read(subject)
        where = (side.dataset, _network(side.network)) if side.dataset else place
        if metric == "train_accuracy":  # printed without a network
            where = (where[0], "-")
        if len(side.choices()) > len(side.methods) or side.operator == "/":
            return []
        for i, method in enumerate(side.methods):
            cell = _cell(places.get(where, {}), method, metric)
            if cell is None:
                return []
            signed.append((sign * (-1) ** i, cell))
    return signed


def _network(name: str) -> str:
    """What the tables call a network."""
    return {
        "resnet50_imagenet": "resnet50",
        "resnet18_imagenet": "resnet18",
        "resnet110_bottleneck": "resnet110",
        "wrn_26_10": "wrn26_10",
    }.get(name, name)


def places_of(claim: Claim) -> tuple[Mapping, list[tuple[str, str]]]:
    """Cells by place, and the places where a check of this claim applies."""
    places = _cells(claim.paper, claim.exhibits + claim.tables)
    bound = any(
        side.dataset
        for leaf in claim.check.leaves()
        if isinstance(leaf, Comparison)
        for side in leaf.sides
    )
    return places, [("", "")] if bound else list(places)


def effects(claim: Claim, metric: str = "") -> list[float]:
    """Every printed difference that a comparison of the claim is about, in natural units."""
    leaves = (leaf for leaf in claim.check.leaves() if isinstance(leaf, Comparison))
    of_metric = (leaf for leaf in leaves if leaf.metric == (metric or leaf.metric))
    return [effect for leaf in of_metric for effect in effects_of(claim, leaf)]


def effects_of(claim: Claim, leaf: Comparison) -> list[float]:
    """What the paper prints for one comparison, in all its places."""
    cells, names = places_of(claim)
    signed = [printed_cells(leaf, cells, place) for place in names]
    constant = 0.0 if isinstance(leaf.than, str) else leaf.than
    return [sum(sign * cell.value for sign, cell in each) - constant for each in signed if each]


def margin(claim: Claim, metric: str) -> float:
    """The largest difference of a metric that would not matter, from the printed numbers alone.

    Half the smallest printed effect, but at least the printed ± (the median over the cells that the
    claim compares) or the last printed digit. Where all that is claimed is that nothing changes, or
    not for the worse: that ±, but at least the change with which the claim still holds in as many
    places of the paper's own tables as its words need. What the claim's own exhibits do not print
    has the ± of the paper's other tables: a risk at one coverage that of AURC, its mean over all
    coverages, and an ECE after any recalibration that after the nearest. A share or a probability
    that these do not print either has half a point (0.005), anything else 0.
    """
    places, names = places_of(claim)
    leaves = [
        leaf
        for leaf in claim.check.leaves()
        if isinstance(leaf, Comparison) and leaf.metric == metric
    ]
    cells, effects_, changes = [], [], []
    for leaf, place in product(leaves, names):
        signed = printed_cells(leaf, places, place)
        if not signed or not isinstance(leaf.than, str):
            continue
        cells += [cell for _, cell in signed]
        change = sum(sign * cell.value for sign, cell in signed)
        if leaf.side in ("below", "above"):
            effects_.append(abs(change))
        else:  # only what goes against the claim: a gain is no change for the worse
            against = {"at most": change, "at least": -change}.get(leaf.side, abs(change))
            changes.append(max(against, 0.0))
    sources = list(cells)
    if not cells and not metric.startswith("lowest:"):
        printed = [
            (name, cell)
            for its in _cells(claim.paper, _tables(claim.paper)).values()
            for (_, name), cell in its.items()
            if not isnan(cell.std)
        ]
        for alike in _alike(metric):
            sources = sources or [cell for name, cell in printed if name == alike]
    if not sources:
        share = measure(metric)[1] == 100 or metric == "histogram_overlap"
        return 0.005 if share else 0.0
    least = _least(sources)
    if effects_:
        return _rounded(max(min(effects_) / 2, least))
    needed = max if claim.across == "all" else np.median
    return _rounded(max(least, needed(changes) if changes else 0.0))


def _alike(metric: str) -> list[str]:
    """What a metric may be printed as, nearest first."""
    name = metric.rpartition(":")[2]
    if name.startswith("risk_at_coverage_"):
        return [metric, "aurc"]
    plain, after, _ = split(name)
    after = {"optimal": "scaled"}.get(after, after)  # the same step, with the test set's own labels
    return [metric, name, *([f"{plain}_{after}"] if after else []), plain]


def _least(cells: Iterable[Cell]) -> float:
    """The printed ±, the median over cells; where none is printed, the last printed digit."""
    cells = list(cells)
    spreads = [cell.std for cell in cells if not isnan(cell.std)]
    return float(np.median(spreads)) if spreads else min(cell.digit for cell in cells)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


@cache
def _tables(paper: str) -> tuple[str, ...]:
    from calibkit.companion import published

    return tuple(published.exhibits(paper).id)


# --- in words -------------------------------------------------------------------------------------

_AFTER = {
    "scaled": "after TS (ECE)",
    "nll_scaled": "after TS (NLL)",
    "optimal": "after the optimal temperature",
    "binned": "after histogram binning",
}
_PERIODS = {
    "late": "over the last quarter of training",
    "settled": "after the first tenth of training",
    "second_rate": "between the first two drops of the learning rate",
    "third_rate": "after the second drop of the learning rate",
    "shifted": "under shift",
    "collected": "on newly collected test sets",
}
# What only claims ask for: name, factor, unit.
_CLAIM_METRICS = {
    "confidence_correct": ("confidence of correct predictions", 100, " points"),
    "confidence_wrong": ("confidence of wrong predictions", 100, " points"),
    "sure_when_wrong": ("share of wrong predictions with confidence above 0.95", 100, " points"),
    "overconfidence_below_half": ("confidence minus accuracy below 0.5", 100, " points"),
    "extra_ece_of_binning": ("extra ECE of binning with few validation samples", 100, " points"),
    "ece_beyond_gap": ("ECE beyond |confidence − accuracy|", 100, " points"),
    "eq9_residual": ("residual of equation 9", 100, " points"),
    "passes": ("forward and backward passes", 1, ""),
    "sharpness": ("sharpness", 1, ""),
    "max_logit_range": ("range of the largest logit", 1, ""),
    "learned_late_means_unsure": ("rank correlation of early learning and a large logit", 1, ""),
    "gradient_spread": ("spread of the gradient norm at a given Brier score", 1, ""),
    "median_gradient_norm": ("median gradient norm in mid-training", 1, ""),
    "correlation_of_brier_beyond_dual_focal": (
        "correlation with the true error, Brier weight minus dual focal weight", 1, ""),
    "correlation_of_dual_focal_beyond_focal": (
        "correlation with the true error, dual focal weight minus focal weight", 1, ""),
}  # fmt: skip
_METHODS = {
    "ts": "ERM + TS (NLL)",
    "ts_ece": "ERM + TS (ECE)",
    "ts_test": "ERM + optimal temperature",
    "trust_score": "Trust Score",
    "confidnet": "ConfidNet",
}


def measure(metric: str) -> tuple[str, float, str]:
    """What a metric is called, and the factor and unit of its differences.

    >>> measure("ece_scaled"), measure("since_best:auroc:accuracy")[0]
    (('ECE after TS (ECE)', 100, ' points'), 'change of accuracy since the epoch of best AUROC')
    """
    if metric.startswith("since_best:"):
        _, best, changed = metric.split(":")
        label, scale, unit = measure(changed)
        when = "its best epoch" if best == changed else f"the epoch of best {measure(best)[0]}"
        return f"change of {label} since {when}", scale, unit
    if metric.startswith("lowest:"):
        return f"coefficient of lowest {measure(metric.partition(':')[2])[0]}", 1, ""
    period, _, rest = metric.rpartition(":")
    name, after, size = split(rest)
    if name in _CLAIM_METRICS:
        label, scale, unit = _CLAIM_METRICS[name]
    elif name.startswith("risk_at_coverage_"):
        label, scale = f"risk at {100 * float(name.rpartition('_')[2]):.0f} % coverage", 100
        unit = " points"
    else:
        label, scale, _ = terms.METRICS.get(name, (name.replace("_", " "), 1, None))
        unit = {100: " points", 1000: " thousandths"}.get(scale, "")
        # Inside a sentence, a word is in lower case, an abbreviation is not.
        label = label if label[:2].isupper() or label[1:2] == "-" else label[0].lower() + label[1:]
    if after:
        label += f" {_AFTER[after]}" + (f" on {size} validation samples" if size else "")
    return label + (f" {_PERIODS[period]}" if period else ""), scale, unit


def method_label(method: str) -> str:
    """What a method is called, including those made from a trained network.

    >>> method_label("ts_ece"), method_label("mixup")
    ('ERM + TS (ECE)', 'Mixup')
    """
    return _METHODS.get(method, terms.label(method))


def _side_label(subject: Subject) -> str:
    """What a side is called."""
    words = f" {'minus' if subject.operator == '-' else 'over'} ".join(
        method_label(m).replace("|", ", ") for m in subject.methods
    )
    if not subject.dataset:
        return words
    return f"{words} on {terms.DATASETS.get(subject.dataset, subject.dataset)}"


def described(leaf: Comparison, smallest: int = 0, largest: int = 0) -> str:
    """A comparison in words, without its number.

    >>> described(Comparison("eaurc", "cs_kd", "erm", "above"))
    'E-AURC, CS-KD minus ERM'
    """
    label, *_ = measure(leaf.metric)
    label = label[0].upper() + label[1:]
    of = _side_label(Subject.read(leaf.of))
    if not isinstance(leaf.than, str):
        return f"{label}, {of}" + (f" minus {leaf.than:g}" if leaf.than else "")
    than = _side_label(Subject.read(leaf.than))
    if largest:
        return f"{label}, {of} with {largest:,} training samples minus {smallest:,}"
    if leaf.against:
        return f"{label} minus {measure(leaf.against)[0]}, {of}"
    if any(Subject.read(x).operator == "-" for x in (leaf.of, leaf.than)):
        return f"{label}, ({of}) minus ({than})"
    return f"{label}, {of} minus {than}"
