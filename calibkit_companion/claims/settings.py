"""The settings in which claims are tested, and what is measured in one."""

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from math import inf, isnan, nan

from calibkit import confidence, stats, terms
from calibkit_companion.claims.claim import claims
from calibkit_companion.claims.verdict import Comparison, Computed, Leaf, Part, Side, known
from calibkit_companion.claims.words import coefficients, described
from calibkit_companion.data.cache import cache_root
from calibkit_companion.experiments import looks, plan
from calibkit_companion.records.record import Record
from calibkit_companion.results import Number, Results, Series, others
from calibkit_companion.results.measure import by_log_odds, has

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
    _intervals: dict[tuple, stats.Interval] = field(default_factory=dict)

    def at(self, side: Side) -> "Place":
        """Where the runs of a side are: here, unless it names data of its own."""
        if not side.dataset:
            return self
        key = side.dataset, side.network
        if key not in self._elsewhere:
            edition = self.runs.selection.edition
            self._elsewhere[key] = place_of(plan.Selection(edition, None, *key))
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
                return "no run of", terms.inside(terms.label(method))
            if not its.values:
                where = terms.DATASETS.get(side.dataset, side.dataset)
                return (
                    "not trained by one protocol for all data sets:",
                    f"{terms.label(method)} on {where}",
                )
        if not all(its.seeds for its in each):
            what = "a number that is not to be had of networks of others"
            return what if there.name == PUBLIC else _why_nan(number), ""
        if number.score == "confidnet":
            steps = min(map(_head_steps, runs.records("erm", **runs.scored())))
            if steps < HEAD_STEPS:
                return f"ConfidNet's head had {steps:,.0f} updates, fewer than {HEAD_STEPS:,}", ""
        if side.lowest:
            values = dict(zip(coefficients(side.lowest).values(), each, strict=True))
            seeds = set.intersection(*(set(s.values) for s in each))
            lowest = {s: min(values, key=lambda c: values[c].values[s]) for s in sorted(seeds)}
            trained = sum((its.trained for its in each), ())
            return Series(lowest, n=each[0].n, trained=trained)
        return each[0] - each[1] if side.minus else each[0]

    def interval(self, first: Side, second: Side | None = None) -> stats.Interval:
        """A number, or the difference of two, with its 95 % interval; nan where there is none."""
        key = first, second
        if key not in self._intervals:
            each = [self.series(side) for side in key if side]
            known = all(isinstance(its, Series) and its.seeds for its in each)
            its = each[0] - each[1] if known and second else each[0]
            self._intervals[key] = its.mean().interval() if known else stats.Interval(nan, nan, nan)
        return self._intervals[key]

    def difference(self, leaf: Comparison) -> Series | tuple[str, str]:
        """What a comparison is about by seed, or why there is none."""
        sides = [self.series(side) for side in leaf.sides]
        if lacks := [s for s in sides if isinstance(s, tuple)]:
            return lacks[0]
        return sides[0] - (sides[1] if len(sides) > 1 else leaf.second)

    def part(self, leaf: Leaf) -> Part:
        """What is known of a comparison here: its interval at any level, or what lacks."""
        if isinstance(leaf, Computed):
            return Part(leaf, known(*[mathematics()[leaf.name]] * 3))
        leaf = self.ranked(leaf)
        difference = self.difference(leaf)
        if isinstance(difference, tuple):
            return Part(leaf, lacks=difference)
        mean = difference.mean()
        interval = cache(mean.interval)  # at few levels, each asked for again and again
        lacks = ("one run only, no interval:", described(leaf)) if isnan(interval().low) else None
        if leaf.first.lowest and interval().low == interval().high:  # of the grid
            lacks = "the same coefficient in every run, no interval:", described(leaf)
        part = Part(
            leaf, interval, mean.seeds, difference.covers, lacks, looks=self.at(leaf.first).looks
        )
        over_seeds = mean if isinstance(mean, stats.MeanOverSeeds) else None
        return replace(part, mean=over_seeds, series=difference)

    @cached_property
    def _by_log_odds(self) -> bool:
        """Whether every run of the setting has its numbers by the log-odds, too."""
        asked = Number("auroc")
        # Plain training is asked first: to load every record of a setting takes time.
        if not all(has(record, by_log_odds(asked)) for record in self.runs.records("erm")):
            return False
        return self.runs.ranked(asked) != (asked,)

    def ranked(self, leaf: Comparison) -> Comparison:
        """A comparison by the log-odds, if every run of the setting has them."""
        there = self.at(leaf.first)
        if leaf.first.size or not there._by_log_odds:
            return leaf
        numbers = there.runs.ranked(*(side.number for side in leaf.sides))
        sides = [side._replace(number=n) for side, n in zip(leaf.sides, numbers, strict=True)]
        return replace(leaf, **dict(zip(("first", "second"), sides, strict=False)))

    @cached_property
    def looks(self) -> int:
        """How often the setting is looked at, while seeds are added and at the planned number."""
        return looks.taken(self.name) if self.runs.selection.edition == "released" else 1


def _why_nan(number: Number) -> str:
    """Why the records of a setting lack a number."""
    if number.test_set != "clean":
        return "these records have no such shifted test set"
    if number.since:
        return "fewer than four evaluated epochs after that drop of the learning rate"
    return "predictions that these records do not keep"


def _head_steps(record: Record) -> float:
    """Updates that ConfidNet's head was trained for."""
    epochs = record.info["run"]["protocol"]["feature_scores"]
    samples = record.info["provenance"].get("training_samples", inf)
    return epochs * -(-samples // confidence.ConfidNet.batch_size)  # nan of an older record


def places(edition: str, seeds: int = 0) -> list[Place]:
    """The settings of an edition, those on CIFAR-10 first, then data that one paper has for itself.

    Settings on the same data share a column, except on CIFAR-10, where each has its own. One
    without a run of plain training is left out.
    """
    asked = [plan.Selection(edition, s.name, seeds=seeds) for s in plan.settings(edition)]
    more = *plan.EDITIONS[edition].others, ("20newsgroups", "textcnn"), ("gaussians", "mlp")
    asked += [plan.Selection(edition, None, dataset, net) for dataset, net, *_ in more]
    by_training: dict[tuple, Place] = {}
    for place in map(place_of, asked):
        its = place.runs.setting
        by_training.setdefault((its.dataset, its.network, its.protocol), place)
    found = list(by_training.values())
    # One of a few methods comes after those of all: it stands in only where it is the paper's own.
    found.sort(key=lambda p: (p.runs.setting.dataset != "cifar10", bool(p.runs.setting.methods)))
    found = [place for place in found if place.runs.records("erm")] or found[-1:]
    if edition == "released" and others.path().exists():
        selection = plan.Selection(edition, None, "cifar10", PUBLIC)
        public = Results(selection, train=False, table=others.numbers())
        title = "CIFAR-10, networks trained in full by others"
        found.append(Place(PUBLIC, public, PUBLIC, title))
    return found


PUBLIC = "public"  # networks that others trained: they decide only what is said of one network


def place_of(selection: plan.Selection) -> Place:
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
    metrics = [file for file in (library / "metrics").iterdir() if file.name.endswith(".py")]
    code = [companion / "claims/derivations.py", library / "losses.py"]
    code += [*sorted(metrics, key=lambda x: x.name), companion / "training/objectives.py"]
    return sha256(b"".join(file.read_bytes() for file in code)).hexdigest()
