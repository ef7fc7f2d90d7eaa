"""The claims of the five papers, each put to every setting that has records.

A **claim** is data (``papers/PAPER.json``): a statement, a check made of comparisons, and what it
presumes. A **comparison** is a difference of one number between two methods and the side on which
the paper puts it: below or above 0, near it, at most or at least 0. It

- *holds* if its interval lies on the claimed side and reaches beyond the margin;
- *falls short* if the interval rules out any difference beyond the margin on the claimed side, and
  does not lie beyond it on the other: the effect is smaller, absent or, not surely, the other way;
- is *reversed* if it lies on the other side, or where a difference was denied;
- is *unclear* otherwise.

Claims that nothing changes, or not for the worse, hold within the margin. **The margin** is written
down with each comparison, by one rule (`margin_by_rule` of tests/test_claims.py) that looks only at
what the paper prints.

**A claim combines comparisons**: "all", "any", "most", "nearly all" (four fifths). If r of m
decide, each is judged at 0.05 / (m - r + 1): the chance of deciding a claim wrongly is then at most
0.05 (Benjamini and Heller 2008). The 5 % are divided once more among the columns in which a claim
is tested, since each of them may decide it.

**A claim is judged where it makes sense**: where the plain network is as over-confident as it
presumes, and by methods that learn there. Elsewhere it is *not tested*, with the reason. What the
methods less well fitted would turn is *unclear*. Settings never melt into one verdict: `board`
gives a row for each claim and setting.

**The paper's own table** is judged from its printed ±: over runs alone, unpaired (`printed`).
"""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import groupby, pairwise, product
from math import inf, isnan, nan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calibkit import confidence, metrics, stats, terms
from calibkit_companion.data.cache import cache_root
from calibkit_companion.experiments import plan
from calibkit_companion.pages import page
from calibkit_companion.records import folders as store
from calibkit_companion.records import tables as saved
from calibkit_companion.results import printed as tables
from calibkit_companion.results.runs import Networks, Number, Results, Series

OUTCOMES = ("holds", "falls short", "reversed", "unclear", "not tested")
SIDES = ("below", "above", "near", "at most", "at least")
QUANTIFIERS = ("all", "any", "most", "nearly all")

# --- a claim as data ------------------------------------------------------------------------------


class Side(NamedTuple):
    """Whose number: that of a method, or of a difference of two, perhaps on own data.

    With `lowest` it is the coefficient of the one of these methods whose number is lowest.
    """

    method: str
    number: Number
    minus: str = ""
    dataset: str = ""
    network: str = ""
    size: str = ""  # "smallest" or "largest" training set of the edition
    lowest: tuple[str, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        return self.lowest or tuple(filter(None, (self.method, self.minus)))


@dataclass(frozen=True)
class Comparison:
    """One number against another, or against a constant, and where the paper puts it."""

    first: Side
    second: Side | float
    side: str
    margin: float = 0.0
    # Only at coverages that reject so many times what plain training gets wrong.
    rejects: float = 0.0
    calibrating: bool = False  # only of a method that lowers the calibration error

    @property
    def sides(self) -> list[Side]:
        return [s for s in (self.first, self.second) if isinstance(s, Side)]


@dataclass(frozen=True)
class Computed:
    """A number of `calibkit_companion.claims.derivations`."""

    name: str
    side: str
    margin: float = 0.0
    says: str = ""


@dataclass(frozen=True, eq=False)
class Claim:
    """What a paper says, the check of it, and what is known of it before any run.

    Attributes
    ----------
    presumes : ``overconfident``, ``memorised``: what plain training has to be; ``decays``: by how
        much its AUROC has to end below that of its best epoch; ``errors left``:
        methods that make errors on their training set; ``learns`` false: how well a method fits its
        training set is part of the claim
    exists : it says that something happens somewhere, so one setting cannot refute it
    untested : why nothing here can test it
    across : in how many places of the paper's own tables the check has to hold
    each : each part of the check is a case of its own where those are counted
    ours : the paper does not say it in so many words; it is our reading of its tables
    support, exception : what the paper's numbers say, and why they do not where they do not
    tables : further exhibits that print what the check needs
    """

    id: str
    exhibits: tuple[str, ...]
    statement: str
    check: "Joined"
    presumes: Mapping[str, object] = field(default_factory=dict)
    exists: bool = False
    untested: str = ""
    across: str = "all"
    each: bool = False
    ours: bool = False
    support: str = ""
    exception: str = ""
    tables: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        return self.id.partition("-")[0]

    @property
    def comparisons(self) -> list[Comparison]:
        return [leaf for leaf in self.check.leaves() if isinstance(leaf, Comparison)]

    @property
    def datasets(self) -> list[str]:
        """The data that it is about, if no part of it is about those of a setting."""
        named = [side.dataset for leaf in self.comparisons for side in leaf.sides]
        return list(dict.fromkeys(named)) if all(named) else []


def claims(paper: str | None = None) -> list[Claim]:
    """The claims as data, of one paper or of all.

    >>> claims("bsce")[0].id
    'bsce-c01'
    """
    if paper is not None:
        plan.choose("paper", paper, plan.PAPERS)
    return [c for name in plan.PAPERS if paper in (None, name) for c in _claims(name)]


@cache
def _claims(paper: str) -> tuple[Claim, ...]:
    text = (files("calibkit_companion") / "experiments/papers" / f"{paper}.json").read_text("utf-8")
    return tuple(_read(entry) for entry in json.loads(text))


def _read(entry: dict) -> Claim:
    check = _read_check(entry["check"])
    check = check if isinstance(check, Joined) else Joined("all", (check,))
    several = {k: tuple(entry.get(k, ())) for k in ("exhibits", "tables")}
    return Claim(**entry | several | {"check": check})


def _read_check(entry: dict) -> "Comparison | Computed | Joined":
    """A check from its entry; lists of metrics and methods are multiplied out."""
    for quantifier in QUANTIFIERS:
        if quantifier in entry:
            return Joined(quantifier, tuple(map(_read_check, entry[quantifier])))
    if "computed" in entry:
        return Computed(entry["computed"], entry["is"], entry.get("margin", 0.0), entry["says"])
    # In an order the highest is first.
    steps = pairwise(entry["order"]) if "order" in entry else [(entry["of"], entry["than"])]
    pairs = [pair for of, than in steps for pair in product(_list(of), _list(than))]
    side = "above" if "order" in entry else entry["is"]
    more = {k: entry[k] for k in ("rejects", "calibrating") if k in entry}
    more["margin"] = entry.get("by", entry.get("margin", 0.0))  # by: not by the rule, but stated
    leaves = []
    for metric, (of, than) in product(_list(entry["metric"]), pairs):
        number = Number(**_fields(entry, Number) | {"metric": metric})
        against = number._replace(**entry.get("against", {}))
        place = {k: entry[k] for k in ("dataset", "network") if k in entry}
        second = than if isinstance(than, int | float) else _read_side(than, against, place)
        leaves.append(Comparison(_read_side(of, number, place), second, side, **more))
    return leaves[0] if len(leaves) == 1 else Joined(entry.get("rows", "all"), tuple(leaves))


def _read_side(entry: str | dict, number: Number, place: Mapping) -> Side:
    own = {"method": entry} if isinstance(entry, str) else {"method": "", **entry}
    number = number._replace(**_fields(own, Number))
    side = place | _fields(own, Side) | {"lowest": tuple(own.get("lowest", ()))}
    return Side(number=number, **side)


def _fields(entry: Mapping, kind: type) -> dict:
    return {k: entry[k] for k in kind._fields if k in entry}


def _list(value) -> list:
    return value if isinstance(value, list) else [value]


# --- words for a comparison -----------------------------------------------------------------------


def word(interval: stats.Interval, side: str, margin: float = 0.0) -> str:
    """How a comparison fares: one of `OUTCOMES` but the last.

    Parameters
    ----------
    interval : of the difference
    side : where the paper puts it: "below" or "above" 0, "near" it, "at most" or "at least" 0
    margin : the largest difference that would not matter

    Examples
    --------
    >>> word(stats.Interval(0.2, 0.1, 0.3), "above"), word(stats.Interval(0.2, 0.1, 0.3), "below")
    ('holds', 'reversed')
    >>> word(stats.Interval(0.2, 0.1, 0.3), "above", margin=0.4)  # clear, and less than it matters
    'falls short'
    >>> word(stats.Interval(0.2, -0.1, 0.3), "near", margin=0.4)
    'holds'
    """
    plan.choose("side", side, SIDES)
    _, low, high = interval
    if isnan(low):
        return "unclear"
    if side in ("above", "at least"):  # the same, seen from the other side
        low, high = -high, -low
    if side in ("below", "above"):
        found = stats.Interval(nan, low, high).outcome(margin)
        if found in ("lower", "higher"):
            return "holds" if found == "lower" else "reversed"
        return "falls short" if low >= -margin else "unclear"
    if high <= margin and (side != "near" or low >= -margin):
        return "holds"
    outside = low > margin or (side == "near" and high < -margin)
    return "reversed" if outside else "unclear"


def _known(*ends: float) -> Callable[..., stats.Interval]:
    """An interval that no level widens: of an exact number, or of printed ones."""
    return lambda level=0.95: stats.Interval(*ends)


@dataclass
class _Part:
    """A comparison, and what is known of it: its interval at any level, or what lacks."""

    leaf: Comparison | Computed
    interval: Callable[..., stats.Interval] = _known(nan, nan, nan)
    seeds: int = 0
    covers: str = ""  # as in `results.Row`
    unfit: str = ""  # the method that is less well fitted than plain training
    lacks: tuple[str, str] | None = None  # why, and of what

    def deciding(self, alpha: float = 0.05) -> "_Part":
        return self

    def word(self, alpha: float = 0.05) -> str:
        if self.lacks:
            return "not tested"
        return word(self.interval(1 - alpha), self.leaf.side, self.leaf.margin)

    def clarity(self) -> float:
        """How far the interval is from being unclear, in half-widths."""
        estimate, low, high = self.interval()
        if isnan(low):
            return -inf
        side, by = self.leaf.side, self.leaf.margin
        least = {"above": 0.0, "near": -by, "at least": -by}.get(side, -inf)
        most = {"below": 0.0, "near": by, "at most": by}.get(side, inf)
        none = {"below": by + low, "above": by - high}.get(side, -inf)  # nothing that matters
        inside, outside = min(low - least, most - high), max(least - high, low - most)
        return max(inside, outside, none) / max(high - estimate, 1e-12)


@dataclass(frozen=True)
class Joined:
    """Under a quantifier checks, or what was found for them, or further ones joined."""

    quantifier: str
    parts: tuple

    def leaves(self) -> Iterator:
        for part in self.parts:
            yield from part.leaves() if isinstance(part, Joined) else [part]

    def put(self, find: Callable[["Comparison | Computed"], "_Part | None"]) -> "Joined":
        """What is found for each leaf in its place; of what says nothing nothing is left."""
        each = (p.put(find) if isinstance(p, Joined) else find(p) for p in self.parts)
        kept = (p for p in each if p and not (isinstance(p, Joined) and not p.parts))
        return Joined(self.quantifier, tuple(kept))

    def needed(self) -> tuple[int, int]:
        """How many parts make it hold, and how many make it fail."""
        total = len(self.parts)
        most, nearly = total // 2 + 1, -(-4 * total // 5)
        needed = {"all": total, "any": 1, "most": most, "nearly all": nearly}[self.quantifier]
        return needed, total - needed + 1

    def _share(self, alpha: float, needed: int) -> float:
        """The level of each part if so many decide."""
        return alpha / (len(self.parts) - needed + 1)

    def word(self, alpha: float = 0.05) -> str:
        """Judge so that a wrong word has a chance of `alpha` at most."""
        holds, fails = self.needed()
        found, against = (
            [part.word(self._share(alpha, needed)) for part in self.parts]
            for needed in (holds, fails)
        )
        if found.count("holds") >= holds:
            return "holds"
        for words in (("reversed",), ("reversed", "falls short")):
            if sum(w in words for w in against) >= fails:
                return words[-1]
        return "not tested" if "not tested" in found else "unclear"

    def deciding(self, alpha: float = 0.05) -> _Part:
        """The comparison on which the word hangs.

        Of those that agree with it, in order of clarity, the last that was needed; where nothing is
        decided, the clearest of those that by themselves go against what one could refute, or else
        of those that are unclear.
        """
        own, (holds, fails) = self.word(alpha), self.needed()
        agree, needed, last = {
            "holds": (("holds",), holds, holds),
            "reversed": (("reversed",), fails, fails),
            "falls short": (("reversed", own), fails, fails),
        }.get(own, (("unclear",), holds, 1))
        alpha = self._share(alpha, needed)
        if own == "unclear" and fails == 1 and any(p.word(alpha) == "reversed" for p in self.parts):
            agree = ("reversed",)
        some = [part for part in self.parts if part.word(alpha) in agree] or self.parts
        each = sorted((p.deciding(alpha) for p in some), key=_Part.clarity, reverse=True)
        return each[min(last, len(each)) - 1]


# --- the records of a setting ---------------------------------------------------------------------

MEMORISED = 0.97  # share of the training set
UNFIT = "less well fitted to the training set"
# Updates of ConfidNet's head below which it is not judged: a choice. At 12,000 its AUROC was still
# seen to rise; the published 500 epochs are 20,000 for 5,000 samples.
HEAD_STEPS = 20_000


@dataclass
class Place:
    """A setting in which claims are tested, and the column of the board in which it stands."""

    name: str
    runs: Results
    column: str
    title: str
    _elsewhere: dict[tuple[str, str], "Place"] = field(default_factory=dict)

    def at(self, side: Side) -> "Place":
        """Where the runs of a side are: here, unless it names data of its own."""
        if not side.dataset:
            return self
        key = side.dataset, side.network
        if key not in self._elsewhere:
            edition = self.runs.selection.edition
            self._elsewhere[key] = _place(plan.Selection(edition, None, *key))
        return self._elsewhere[key]

    def series(self, side: Side) -> Series | tuple[str, str]:
        """A number by seed, or why there is none."""
        there, number, changes = self.at(side), side.number, {}
        runs = there.runs
        if side.size:
            sizes = plan.EDITIONS[runs.selection.edition].sizes
            changes = {"train_size": sizes[-1 if side.size == "largest" else 0]}
        each = [runs.series(method, number, **changes) for method in side.methods]
        for method, its in zip(side.methods, each, strict=True):
            if not its.values and not side.dataset:
                return "no run of", terms.label(method)
            if not its.values:
                where = terms.DATASETS.get(side.dataset, side.dataset)
                return "no run by the shared protocol of", f"{terms.label(method)} on {where}"
        if not all(its.seeds for its in each):
            what = "a number that is not to be had of networks of others"
            return what if there.name == PUBLIC else _why_nan(number), ""
        if number.score == "confidnet":
            steps = min(map(_head_steps, runs.records("erm", **runs.scored())))
            if steps < HEAD_STEPS:
                return f"ConfidNet's head had {steps:,.0f} updates, fewer than {HEAD_STEPS:,}", ""
        if side.lowest:
            values = dict(zip(map(_coefficient, side.lowest), each, strict=True))
            seeds = set.intersection(*(set(s.values) for s in each))
            lowest = {s: min(values, key=lambda c: values[c].values[s]) for s in sorted(seeds)}
            return Series(lowest, n=each[0].n)
        return each[0] - each[1] if side.minus else each[0]

    def mean(self, method: str, metric: str, **which) -> float:
        """The mean of a number of a method's runs; nan without one."""
        its = self.series(Side(method, Number(metric, **which)))
        return float(np.nanmean([*its.values.values()])) if isinstance(its, Series) else nan

    def part(self, leaf: Comparison | Computed) -> _Part:
        if isinstance(leaf, Computed):
            return _Part(leaf, _known(*[mathematics()[leaf.name]] * 3))
        sides = [self.series(side) for side in leaf.sides]
        if lacks := [s for s in sides if isinstance(s, tuple)]:
            return _Part(leaf, lacks=lacks[0])
        difference = sides[0] - (sides[1] if len(sides) > 1 else leaf.second)
        mean = difference.mean()
        interval = cache(mean.interval)  # at few levels, each asked for again and again
        lacks = ("one run only, no interval:", described(leaf)) if isnan(interval().low) else None
        if leaf.first.lowest and interval().low == interval().high:  # of the grid
            lacks = "the same coefficient in every run, no interval:", described(leaf)
        return _Part(leaf, interval, mean.seeds, difference.covers, lacks=lacks)

    # --- what a claim presumes ---

    def unmet(self, claim: Claim) -> str:
        """Why a claim makes no sense here; empty if it does, or if nothing tells."""
        needs = claim.presumes
        if needs.get("overconfident"):
            least = overconfidence(claim.paper) / 2
            over = self.mean("erm", "confidence") - self.mean("erm", "accuracy")
            if over < least:
                return (
                    f"plain training is over-confident by {100 * over:.1f} points, less than half "
                    f"of the {200 * least:.1f} of its paper"
                )
        learned = self.mean("erm", "train_accuracy")
        if needs.get("memorised") and learned < MEMORISED:
            return f"plain training has learned {100 * learned:.1f} % of its training set, not 97 %"
        change = self.mean("erm", "auroc", since_best="auroc") if "decays" in needs else nan
        if change > -needs.get("decays", 0.0):
            ends = f"{100 * change:+.1f}".replace("-", "−")
            return f"the AUROC of plain training ends {ends} points from that of its best epoch"
        for method in needs.get("errors left", ()):
            if self.mean(method, "train_accuracy") >= MEMORISED:
                return f"{terms.label(method)} makes next to no errors on its training set"
        return ""

    def left_out(self, leaf: Comparison | Computed, claim: Claim) -> tuple[str, str] | None:
        """Why one comparison says nothing here, and which; None if it does."""
        if isinstance(leaf, Computed):
            return None
        at, first = self.at(leaf.first), leaf.first
        if leaf.rejects:
            wrong = 1 - at.mean("erm", "accuracy")
            if 1 - float(first.number.metric.rpartition("_")[2]) < leaf.rejects * wrong:
                return "errors have to be accepted there", "high coverages"
        for side in leaf.sides if claim.presumes.get("learns", True) else ():
            if not side.size and (unfit := self.at(side).runs.unfit(side.methods)):
                return UNFIT, terms.label(unfit[0])
        if leaf.calibrating and first.method != "erm":
            if at.mean(first.method, "ece") >= at.mean("erm", "ece"):
                return "ECE not lowered", terms.label(first.method)
        return None


def _why_nan(number: Number) -> str:
    if number.test_set != "clean":
        return "these records have no such shifted test set"
    if number.since_best:
        return "one run only: the best epoch is chosen on the others"
    return "predictions that these records do not keep"


def _coefficient(method: str) -> float:
    """The coefficient that a method's name states."""
    return float(method.rpartition("=")[2].rstrip(")"))


def _head_steps(record: store.Record) -> float:
    """Updates that ConfidNet's head was trained for."""
    epochs = record.info["run"]["protocol"]["feature_scores"]
    samples = record.info["provenance"].get("training_samples", inf)
    return epochs * -(-samples // confidence.ConfidNet.batch_size)  # nan of an older record


@cache
def overconfidence(paper: str) -> float:
    """How over-confident a paper's plain networks are: the median of their ECEs on CIFAR-10.

    >>> round(overconfidence("bsce"), 4)
    0.0436
    """
    eces = [
        c.value
        for c in tables.every()
        if (c.paper, c.dataset, c.method, c.metric) == (paper, "cifar10", "erm", "ece")
    ]
    return float(np.median(eces))


def places(edition: str, seeds: int = 0) -> list[Place]:
    """The settings of an edition, those on CIFAR-10 first, then data that one paper has for itself.

    Settings on the same data share a column, except on CIFAR-10, where each has its own. One
    without a run of plain training is left out.
    """
    asked = [plan.Selection(edition, s.name, seeds=seeds) for s in plan.settings(edition)]
    others = *plan.EDITIONS[edition].others, ("20newsgroups", "textcnn"), ("gaussians", "mlp")
    asked += [plan.Selection(edition, None, dataset, net) for dataset, net, *_ in others]
    by_training: dict[tuple, Place] = {}
    for place in map(_place, asked):
        its = place.runs.setting
        by_training.setdefault((its.dataset, its.network, its.protocol), place)
    found = list(by_training.values())
    # One of a few methods comes after those of all: it stands in only where it is the paper's own.
    found.sort(key=lambda p: (p.runs.setting.dataset != "cifar10", bool(p.runs.setting.methods)))
    found = [place for place in found if place.runs.records("erm")] or found[-1:]
    if edition == "released" and Public.path().exists():
        public = Public(plan.Selection(edition, None, "cifar10", PUBLIC), train=False)
        title = "CIFAR-10, networks trained in full by others"
        found.append(Place(PUBLIC, public, PUBLIC, title))
    return found


PUBLIC = "public"


class Public(Results):
    """Networks that others trained in full, on CIFAR-10: numbers from a table, and no runs.

    All are plain, so they decide only what is said of one network, and it has to hold on each of
    them; how well they fit their training set is not known.
    """

    @staticmethod
    def path() -> Path:
        return saved.released_root() / PUBLIC / "results.parquet"

    @cached_property
    def found(self) -> dict[Number, Networks]:
        import pyarrow.parquet as parquet

        which = {"dataset": "cifar10", "method": "erm", "score": "max_probability"}
        plain = [(column, "=", value) for column, value in which.items()]
        found: dict[Number, Networks] = {}
        for row in parquet.read_table(self.path(), filters=plain).to_pylist():
            number, run = Number(row["metric"], row["recalibration"]), row["run"]
            its = found.setdefault(number, Networks({}, {}, row["n"]))
            its.values[run] = row["value"]
            if row["steps"] is not None:
                its.draws[run] = row["step"] * np.frombuffer(row["steps"], np.int8).astype(float)
        return found

    def series(self, method: str, number: Number, **changes) -> Series:
        return self.found.get(number, Series({0: nan}))


def _place(selection: plan.Selection) -> Place:
    """Runs that are looked for, not trained; those of no setting are called by their data."""
    runs = Results(selection, train=False)
    setting, name = runs.setting, selection.setting or runs.setting.dataset
    column = name if setting.dataset == "cifar10" else setting.dataset
    network = {"cnn": "small CNN", "textcnn": "text CNN"}.get(setting.network, setting.network)
    data = f"{terms.DATASETS.get(setting.dataset, setting.dataset)}, {network}"
    return Place(name, runs, column, setting.title if column == setting.name else data)


@cache
def mathematics() -> dict[str, float]:
    """Every number of `derivations`, which takes torch: from a file, if of the same code."""
    leaves = [leaf for claim in claims() for leaf in claim.check.leaves()]
    names = [leaf.name for leaf in leaves if isinstance(leaf, Computed)]
    path, of = cache_root() / "released/derived.json", {"arrays": checksum()}
    with suppress(OSError, ValueError, KeyError):
        kept = json.loads(path.read_text())["mathematics"]
        if of.items() <= kept.items() and kept.keys() >= set(names):
            return kept
    from calibkit_companion.claims import derivations

    found = of | {name: float(getattr(derivations, name)()) for name in names}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mathematics": found}, indent=0) + "\n")
    return found


def checksum() -> str:
    """Of the code that derivations run."""
    library, companion = files("calibkit"), files("calibkit_companion")
    code = (
        companion / "claims/derivations.py",
        library / "losses.py",
        library / "metrics.py",
        companion / "training/objectives.py",
    )
    return sha256(b"".join(file.read_bytes() for file in code)).hexdigest()


# --- the board ------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """A claim in one setting; numbers are of the comparison that decides, in natural units.

    `precondition` says what is not met or missing, or what was left out; empty if all is there.
    `low` and `high` are the ends of the 95 % interval, as everywhere in the book, and `covers` says
    what of, as in `results.Row`; the claim is judged at `level`, which is shared among columns, and
    further among comparisons; `alone` is how the one shown would fare by itself, where that
    differs. `printed` is the outcome of the paper's own table by its ±. `shown` marks the
    one row that its column shows; `title` is what to call the column.
    """

    claim: str
    setting: str
    precondition: str
    outcome: str
    comparison: str = ""
    estimate: float = nan
    low: float = nan
    high: float = nan
    seeds: int = 0
    printed: str = ""
    column: str = ""
    shown: bool = True
    metric: str = ""
    level: float = 0.95
    alone: str = ""
    covers: str = ""
    title: str = ""

    @property
    def measured(self) -> str:
        """Estimate and 95 % interval in the units of tables, and whether it is over runs alone."""
        if isnan(self.estimate):
            return ""
        if not self.metric:
            return f"{self.estimate:.3g}"
        scale = terms.metric_label(self.metric)[1]
        digits = 3 if scale == 1 else 1 + (scale * (self.high - self.low) < 0.2)
        shown = stats.Interval(self.estimate, self.low, self.high).format(scale, digits, sign=True)
        return shown + " (over runs alone)" * (self.covers == "runs")


MATHEMATICS = "mathematics"
ELSEWHERE = {"column": "elsewhere", "title": "elsewhere"}


def board(
    edition: str = "released",
    paper: str | None = None,
    seeds: int = 0,
    dataset: str = "",
    network: str = "",
) -> list[Judged]:
    """Every claim in every setting of an edition. Trains nothing.

    Parameters
    ----------
    edition, seeds : as `plan.Selection`
    paper : only its claims
    dataset, network : only settings with these; one that no setting has is a setting of its own

    Returns
    -------
    list of Judged
        Claim by claim; ``pandas.DataFrame(board("demo"))`` makes a table.

    Raises
    ------
    ValueError
        For an unknown edition or paper.

    Examples
    --------
    >>> [row.outcome for row in board("smoke", "bsce") if row.claim == "bsce-c08"]
    ['holds']
    """
    plan.choose("edition", edition, plan.EDITIONS)
    where = places(edition, seeds)
    if dataset or network:
        own = [(place, place.runs.setting) for place in where]
        fits = [p for p, s in own if dataset in ("", s.dataset) and network in ("", s.network)]
        where = fits or [_place(plan.Selection(edition, None, dataset, network, seeds))]
    return _board(where, claims(paper))


def _board(where: list[Place], of: Iterable[Claim]) -> list[Judged]:
    with warnings.catch_warnings():
        # A metric undefined for a network is nan, and leaves a comparison untested.
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        return [row for claim in of for row in _rows(claim, where)]


def _rows(claim: Claim, where: list[Place]) -> list[Judged]:
    """A claim in each place; mathematics, and what is bound to data of its own, in one."""
    if claim.untested:
        return [_judged(claim, replace(where[0], name="", **ELSEWHERE), None, claim.untested)]
    if not claim.comparisons:
        place = replace(where[0], name=MATHEMATICS, column=MATHEMATICS, title="Mathematics")
        return [_judged(claim, place, claim.check.put(place.part))]
    if claim.datasets:
        titles = {place.column: place.title for place in where}
        own = claim.datasets[0] if len(claim.datasets) == 1 else ""
        column = {"column": own, "title": titles[own]} if own in titles else ELSEWHERE
        where = [replace(where[0], name="+".join(claim.datasets), **column)]
    judged = [(place, *_judge(claim, place)) for place in where]
    shown = _shown(claim, judged)
    tested = sum(join is not None and join.word() != "not tested" for _, join, *_ in shown)
    alpha = 0.05 / max(tested, 1)
    return [_judged(claim, *f, alpha=alpha, shown=any(f is s for s in shown)) for f in judged]


def _judge(claim: Claim, place: Place) -> tuple:
    """The comparisons of a claim in a place, what is not met or was left out, and all with these.

    Methods less well fitted are left out, but have a say: see `_judged`.
    """
    at = place.at(claim.comparisons[0].first) if claim.datasets else place
    if not claim.datasets and isnan(place.mean("erm", "accuracy")):
        return None, "no run of ERM"
    methods = {m for c in claim.comparisons for side in c.sides for m in side.methods}
    if place.name == PUBLIC and methods != {"erm"}:
        return None, "no other method was trained like these networks"
    if why := at.unmet(claim):
        return None, why
    without = []

    def find(leaf: Comparison | Computed) -> _Part | None:
        part = place.part(leaf)
        if not part.lacks and (why := place.left_out(leaf, claim)):
            without.append(why)
            part.unfit = why[1]
            return part if why[0] == UNFIT else None
        return part

    whole = claim.check.put(find)
    join = whole.put(lambda part: None if part.unfit else part)
    note = _grouped(without, "left out: {what} ({why})")
    compared = [part for part in join.leaves() if isinstance(part.leaf, Comparison)]
    return (join, note, whole) if compared else (None, note)


def _shown(claim: Claim, judged: list) -> list:
    """Of each column its paper's own setting, else the first in which the claim is tested."""
    edition = judged[0][0].runs.selection.edition
    own = [s.name for s in plan.EDITIONS[edition].settings(claim.paper)]
    columns: dict[str, list] = {}
    for found in judged:
        columns.setdefault(found[0].column, []).append(found)

    def rank(found) -> tuple[bool, bool]:
        place, join, *_ = found
        strictest = 0.05 / len(columns)  # so that what stands for a column is tested at any level
        return join is None or join.word(strictest) == "not tested", place.name not in own

    return [min(its, key=rank) for its in columns.values()]


def _judged(
    claim: Claim, place: Place, join: Joined | None, why="", whole=None, alpha=0.05, shown=True
) -> Judged:
    """The row of a claim in a place from what `_judge` found.

    What methods less well fitted would turn is unclear, and the row says what they show.
    """
    outcome = join.word(alpha) if join else "not tested"
    if whole and outcome != "not tested" and (turned := whole.word(alpha)) != outcome:
        left = [part for part in whole.leaves() if part.unfit]
        left.sort(key=lambda part: (part.word() != outcome, part.clarity()))
        clearest = {part.unfit: part for part in left}  # the last of each method, if any against it
        its = (Judged(*("",) * 4, **_numbers(part)) for part in clearest.values())
        shows = "; ".join(f"{row.comparison}: {row.measured}" for row in its)
        why, outcome = f"{why}; {outcome} without them, {turned} with them ({shows})", "unclear"
    if claim.exists and outcome in ("reversed", "falls short"):
        outcome, why = "unclear", why or "not seen here, which refutes nothing"
    if outcome == "not tested" and join:
        lacks = _grouped((p.lacks for p in join.leaves() if p.lacks), "{why} {what}")
        why = "; ".join(filter(None, [lacks, why]))
    row = Judged(
        *(claim.id, place.name, why, outcome),
        printed=printed(claim).outcome,
        column=place.column,
        title=place.title,
        shown=shown,
        level=1 - alpha,
    )
    if outcome == "not tested":
        return row
    part = join.deciding(alpha)
    alone = part.word() if outcome in ("unclear", "falls short") else outcome
    return row._replace(**_numbers(part), alone=alone * (alone != outcome))


def _numbers(part: _Part) -> dict:
    """The fields of a `Judged` that are about the comparison shown."""
    metric = part.leaf.first.number.metric if isinstance(part.leaf, Comparison) else ""
    own = {"comparison": described(part.leaf), "metric": metric}
    return own | part.interval()._asdict() | {k: getattr(part, k) for k in ("seeds", "covers")}


def _grouped(reasons: Iterable[tuple[str, str]], text: str) -> str:
    """Reasons, each once, with all that it is about."""
    found: dict[str, dict[str, None]] = {}
    for why, what in reasons:
        found.setdefault(why, {})[what] = None
    each = (text.format(why=why, what=", ".join(filter(None, its))) for why, its in found.items())
    return "; ".join(map(str.strip, each))


# --- by the numbers that the paper prints --------------------------------------------------------


class Printed(NamedTuple):
    """How a check fares on the paper's own table.

    By printed means it holds in `held` of `places`, and so, or not, in as many as the paper's words
    need (`bears`). `outcome` is by the rule for records, from the printed ± and number of runs:
    one of `OUTCOMES`, or "no ±", or "not printed".
    """

    outcome: str
    bears: bool
    held: int
    places: int

    def __str__(self) -> str:
        if not self.places:
            return "not printed"
        means = f"holds in {self.held} of {self.places} by its means"
        return means if self.outcome == "no ±" else f"{self.outcome}; {means}"


@cache
def printed(claim: Claim) -> Printed:
    """Apply the check of a claim to the paper's own cells, data set by data set and network.

    >>> str(printed(claims("fmfp")[15]))  # FMFP raises AUROC
    'holds; holds in 8 of 8 by its means'
    """
    cells, where = _places_of(claim)
    cases = claim.check.parts if claim.each else [claim.check]
    each = (
        Joined("all", (case,)).put(partial(_from_print, cells=cells, place=place))
        for place, case in product(where, cases)
    )
    found = Joined(claim.across, tuple(case for case in each if case.parts))
    places = len(found.parts)
    if not places:
        return Printed("not printed", False, 0, 0)
    held = [case.put(_by_means).word() for case in found.parts].count("holds")
    spreads = any(not isnan(part.interval().low) for part in found.leaves())
    outcome = found.word() if spreads else "no ±"
    return Printed(outcome, held >= found.needed()[0], held, places)


def _from_print(
    leaf: Comparison | Computed, cells: Mapping, place: tuple[str, str]
) -> _Part | None:
    """A comparison of printed means, with their spreads as far as they are printed."""
    signed = _signed(leaf, cells, place) if isinstance(leaf, Comparison) else []
    if not signed:
        return None
    value = sum(sign * cell.value for sign, cell in signed)
    value = round(value - (0.0 if isinstance(leaf.second, Side) else leaf.second), 12)
    spread = [cell.std**2 for _, cell in signed if not isnan(cell.std)]
    own, seeds = sum(spread) if spread else nan, plan.PAPERS[signed[0][1].paper].seeds
    mean = stats.MeanOverSeeds(value, 0.0, own, seeds, 2.0 * (seeds - 1))
    return _Part(leaf, _known(*mean.interval()))


def _by_means(part: _Part) -> _Part:
    """The same without spreads; of means alone, no difference is too small to have a side."""
    sided = part.leaf.side in ("below", "above")
    leaf = replace(part.leaf, margin=0.0) if sided else part.leaf
    return _Part(leaf, _known(*[part.interval().estimate] * 3))


_KINDS = dict.fromkeys(tables.TEST_SETS, "collected") | {"cifar10c": "shifted"}


@cache
def _cells(exhibits: tuple[str, ...]) -> dict[tuple[str, str], dict]:
    """Cells of some exhibits by place, then by method and by what number they are."""
    where: dict[tuple[str, str], dict] = {}
    for cell in tables.every():
        # avg_over_backbones: means of the rows above them.
        if cell.exhibit in exhibits and cell.network != "avg_over_backbones":
            number = cell.number._replace(test_set=_KINDS.get(cell.dataset, "clean"))
            its = where.setdefault((cell.dataset, cell.network), {})
            its.setdefault((cell.method, number), cell)
    return where


def _places_of(claim: Claim) -> tuple[Mapping, list[tuple[str, str]]]:
    """Cells by place, and the places where a check of this claim applies."""
    cells = _cells(claim.exhibits + claim.tables)
    return cells, [("", "")] if claim.datasets else list(cells)


def _signed(leaf: Comparison, cells: Mapping, place: tuple[str, str]) -> list[tuple[float, tuple]]:
    """The cells of a comparison in a place, each with its sign; empty if one is not printed."""
    signed = []
    for sign, side in zip((1, -1), leaf.sides, strict=False):
        where = place
        if side.dataset:  # by what this paper's tables call it
            here = (side.dataset, side.network)
            named = (cell for its in cells.values() for cell in its.values())
            called = (c for c in named if (c.dataset, c.ours) == here)
            where = next(((c.dataset, c.network) for c in called), here)
        if side.number.metric == "train_accuracy":  # printed without a network
            where = (where[0], "-")
        if side.lowest:
            return []
        for i, method in enumerate(side.methods):
            cell = _printed_cell(cells.get(where, {}), method, side.number)
            if cell is None:
                return []
            signed.append((sign * (-1) ** i, cell))
    return signed


def _printed_cell(cells: Mapping, method: str, number: Number):
    """A cell by method and number; of a method that the paper prints once, any coefficient."""
    if number.score != "max_probability":
        return cells.get((number.score, number))
    if method == "erm" and number.recalibration in ("ts_nll", "ts_ece"):
        if found := cells.get(("ts", number._replace(recalibration="ts_ece"))):
            return found
    base, options, axes = terms.parts(method)
    exact = plan.method_name(plan.method(method)), number
    if exact in cells or options or axes:
        return cells.get(exact)
    matching = [k for k in cells if k[1] == number and terms.parts(k[0])[0] == base]
    return cells[matching[0]] if len(matching) == 1 else None


# --- in words -------------------------------------------------------------------------------------


def _side_label(side: Side) -> str:
    if side.lowest:
        name = terms.label(side.lowest[0].partition("(")[0])
        coefficients = ", ".join(f"{_coefficient(m):g}" for m in side.lowest)
        text = f"{name} ({coefficients})"
    else:
        score = {"trust_score": "Trust Score", "confidnet": "ConfidNet"}.get(side.number.score)
        text = score or terms.label(side.method)
        text += f" minus {terms.label(side.minus)}" * bool(side.minus)
    if side.dataset:
        text += f" on {terms.DATASETS.get(side.dataset, side.dataset)}"
    return text + f" with the {side.size} training set" * bool(side.size)


def described(leaf: Comparison | Computed) -> str:
    """A comparison in words, without its number.

    >>> first, second = Side("cs_kd", Number("eaurc")), Side("erm", Number("eaurc"))
    >>> described(Comparison(first, second, "above"))
    'E-AURC, CS-KD minus ERM'
    """
    if isinstance(leaf, Computed):
        return leaf.says
    first, second = leaf.first, leaf.second
    label = page.number_label(first.number._replace(score="max_probability"))
    label = f"Coefficient of lowest {label}" if first.lowest else label[0].upper() + label[1:]
    of = _side_label(first)
    if not isinstance(second, Side):
        return f"{label}, {of}" + (f" minus {second:g}" if second else "")
    after = first.number.recalibration, second.number.recalibration
    if second._replace(number=first.number) == first and len(set(after)) > 1:
        other = page.number_label(second.number)
        return f"{label} minus {other}, {of}"
    if first.minus or second.minus:
        return f"{label}, ({of}) minus ({_side_label(second)})"
    return f"{label}, {of} minus {_side_label(second)}"


# --- on a page ------------------------------------------------------------------------------------

SIGNS = dict(zip([*OUTCOMES, "holds by printed means"], [*"●◐✕◇", "", "○"], strict=True))
COLORS = {"holds": "#0072b2", "falls short": "#9a6c00", "reversed": "#c1440e",
          "unclear": "#767676"}  # of signs and bars; on dark pages see claims.css  # fmt: skip


def titles(rows: Iterable[Judged]) -> dict[str, str]:
    """The columns in which some claim is tested, in their order, and what to call them."""
    rows = list(rows)
    by_claim = (list(its) for _, its in groupby(rows, key=lambda row: row.claim))
    widest = max(by_claim, key=len, default=[])  # it has all settings in their order
    tested = {row.column for row in rows if row.outcome != "not tested"}
    return {row.column: row.title for row in [*widest, *rows] if row.column in tested}


@dataclass(frozen=True, repr=False)
class Card:
    """Claims down; across, a sign for the paper's own table and one for each column. HTML.

    A click on a claim unfolds the comparison that decides in each column.
    """

    rows: list[Judged]

    @property
    def counts(self):
        """How often each outcome stands in each column, as a table; below, what is reversed."""
        import pandas as pd

        known, columns = {claim.id: claim.statement for claim in claims()}, titles(self.rows)
        where: dict[str, list[str]] = {}
        for row in self.rows:
            if row.shown and row.outcome == "reversed":
                where.setdefault(known[row.claim], []).append(columns[row.column])
        lines = [escape(f"{said} ({'; '.join(its)})") for said, its in where.items()]
        below = {"selector": "caption", "props": "caption-side: bottom; text-align: left"}
        shown = page.table(pd.DataFrame(counts(self.rows)).T).set_table_styles([below])
        return shown.set_caption("<br>".join(["Reversed:", *lines])) if lines else shown

    def _repr_html_(self) -> str:
        from calibkit.report import html

        by_claim: dict[str, dict[str, Judged]] = {}
        for row in self.rows:
            if row.shown:
                by_claim.setdefault(row.claim, {})[row.column] = row
        its = [claim for claim in claims() if claim.id in by_claim]
        return html.render(
            Path(__file__).with_name("claims.html.jinja"),
            lines=[(claim, printed(claim), by_claim[claim.id]) for claim in its],
            several=len({claim.paper for claim in its}) > 1,
            titles=titles(self.rows),
            signs=SIGNS,
            colors=COLORS,
            outcomes=OUTCOMES,
            papers=plan.PAPERS,
        )


def card(paper: str, runs: Results) -> Card:
    """The claims of a paper for its chapter: what its own table says, and each setting here.

    Parameters
    ----------
    paper : a key of `plan.PAPERS`
    runs : of the page. Where they are of a setting that its edition does not have, by other
        parameters, that is the only column.
    """
    selection = runs.selection
    where = places(selection.edition, selection.seeds or 0)
    if runs.setting not in [place.runs.setting for place in where]:
        alone = Results(selection, runs.page, train=False)
        where = [Place(runs.name, alone, runs.name, runs.title)]
    return Card(_board(where, claims(paper)))


def counts(rows: Iterable[Judged]) -> dict[str, dict[str, int]]:
    """How often each outcome stands in each column in which a claim is tested, by its title."""
    columns = titles(rows := list(rows))
    found = {title: dict.fromkeys(OUTCOMES, 0) for title in columns.values()}
    for row in rows:
        if row.shown and row.column in columns:
            found[columns[row.column]][row.outcome] += 1
    return found


def headline(rows: Iterable[Judged]) -> str:
    """A sentence for each column: how many claims are tested there, and how they fare. Markdown."""
    lines, many = [], {"holds": "hold", "falls short": "fall short"}
    for title, its in counts(rows).items():
        tested = sum(its.values()) - its["not tested"]
        said = ", ".join(
            f"{its[word]} {many.get(word, word) if its[word] > 1 else word}"
            for word in OUTCOMES[:4]
            if its[word]
        )
        lines.append(f"- **{title}**: of {tested} tested, {said}.")
    return "\n".join(lines)
