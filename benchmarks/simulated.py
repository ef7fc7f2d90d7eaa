"""A place of the board of claims with simulated numbers, for one claim in one world.

Seeds, looks and the variances of numbers are those of the real place. True differences and true
preconditions are drawn, as `benchmarks.referee` describes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import nan, sqrt
from typing import NamedTuple

import numpy as np

from calibkit import stats
from calibkit_companion.claims import preconditions, verdict
from calibkit_companion.claims.claim import Claim
from calibkit_companion.claims.settings import Place
from calibkit_companion.claims.verdict import Comparison, Computed, Joined, Part, Side
from calibkit_companion.experiments import looks
from calibkit_companion.results import Series
from calibkit_companion.results.change import Change
from calibkit_companion.results.number import LEARNS

EDGE = 4.0  # standard errors from its threshold within which a precondition may lie


class Spread(NamedTuple):
    """The variances of a mean over seeds: those of the test set and of the runs."""

    shared: float
    own: float
    least: float
    seeds: tuple[int, ...]  # at each look, the planned number last

    @classmethod
    def of(cls, series: Series, seeds: list[int], usual: float) -> "Spread":
        """The spread of a real number; `usual` stands in where its runs do not differ."""
        if isinstance(series, Change):  # its interval is over runs alone
            series = Series(series.values, n=series.n)
        values, draws = np.array([*series.values.values()]), [*series.draws.values()]
        mean = series.mean()
        least = 0.0
        if draws and (k := len(values)) > 1:
            draws = np.array(draws)
            shared = draws.mean(axis=0).var(ddof=1)
            least = max(k / (k - 1) * (draws.var(axis=1, ddof=1).mean() - shared), 0.0)
        return cls(mean.shared, max(mean.own, usual**2), least, tuple(seeds))

    @property
    def error(self) -> float:
        """The standard error at the first look."""
        return sqrt(self.shared + self.own / self.seeds[0])


@dataclass
class Drawn:
    """The runs of a number, drawn once, with its mean at each look."""

    spread: Spread
    runs: np.ndarray
    means: dict[int, stats.MeanOverSeeds] = field(default_factory=dict)
    usual: dict[int, stats.Interval] = field(default_factory=dict)

    def at(self, look: int) -> stats.MeanOverSeeds:
        """The mean over the seeds of a look, as `stats.mean_over_seeds` finds it."""
        k = self.spread.seeds[min(look, len(self.spread.seeds) - 1)]
        if k not in self.means:
            runs = self.runs[:k]
            spread = float(((runs - runs.mean()) ** 2).sum() / (k - 1))
            own = max(spread, self.spread.least)
            freedom = (k - 1) * (own / spread) ** 2
            mean = float(runs.mean()), self.spread.shared, own, k, freedom
            self.means[k] = stats.MeanOverSeeds(*mean)
            self.usual[k] = self.means[k].interval()
        return self.means[k]

    def interval(self, look: int) -> stats.Interval:
        return self.usual[self.at(look).seeds]


class Errors(NamedTuple):
    """Standard normal errors of a test set, and of each run."""

    test: float
    runs: np.ndarray

    @classmethod
    def of(cls, rng: np.random.Generator, most: int = 20) -> "Errors":
        return cls(rng.normal(), rng.normal(size=most))

    def towards(self, sign: int) -> "Errors":
        return Errors(sign * self.test, sign * self.runs)


@dataclass
class Simulated(Place):
    """A place of the board with simulated numbers, for one claim."""

    real: Place = None
    claim: Claim = None
    rng: np.random.Generator = None
    spreads: dict = field(default_factory=dict)  # of the real numbers, kept from board to board
    look: int = 0
    rules: str = "new"
    drawn: dict = field(default_factory=dict)

    def at(self, side: Side) -> "Simulated":
        return self

    # --- what is drawn ---

    def _draw(self, truth: float, spread: Spread, common: "Errors | None" = None) -> Drawn:
        """The runs of a number; its errors go half with those of the claim's other numbers."""
        test, runs = Errors.of(self.rng)
        if common:
            test, runs = (test + common.test) / sqrt(2), (runs + common.runs) / sqrt(2)
        runs = runs[: max(spread.seeds)]
        return Drawn(spread, truth + sqrt(spread.shared) * test + sqrt(spread.own) * runs)

    def _spread(self, key, series: Callable[[], Series | tuple], methods, usual) -> Spread | None:
        """The spread of a real number, with its seeds at each look; None where there is none."""
        if key not in self.spreads:
            found = series()
            known = isinstance(found, Series) and found.seeds > 1
            seeds = [found.seeds] if known else []
            if known and self.real.name in looks.settings():
                each = [looks.seeds(self.real.name, m) for m in methods]
                shared = sorted({min(its) for its in zip(*each, strict=True)} - {0, 1})
                seeds = shared or seeds
            self.spreads[key] = Spread.of(found, seeds, usual) if known else None
        return self.spreads[key]

    def setting_met(self) -> bool:
        """Whether the setting truly meets what the claim presumes."""
        self.drawn["setting"] = True
        [*preconditions.of_setting(self.claim, self)]  # draws what it asks for
        return self.drawn["setting"]

    def fails(self, leaf: Comparison) -> bool:
        """Whether a method of a comparison truly fails a precondition."""
        preconditions.of_comparison(leaf, self.claim, self)
        learns = self.claim.presumes.get("learns", True)
        methods = [m for s in leaf.sides if not s.size for m in s.methods if m != "erm"]
        either = ([(m, "train_accuracy"), (m, "accuracy")] for m in methods)
        unfit = learns and any(not any(self.drawn.get(x, True) for x in its) for its in either)
        calibrates = not leaf.calibrating or self.drawn.get((leaf.first.method, "ece"), True)
        return unfit or not calibrates

    def interval(self, first: Side, second: Side | None = None) -> stats.Interval:
        """Return the interval of a precondition, whose true value is drawn near its threshold."""
        key = first.method, first.number.metric
        if key not in self._intervals:
            self._intervals[key] = self._precondition(first, second)
        if self.rules == "before" and key[1] == "accuracy" and key[0] != "erm":
            key = key[0], "train_accuracy"  # the test set was not asked
        drawn = self._intervals[key]
        if not isinstance(drawn, Drawn):
            return drawn
        found = drawn.interval(self.look)
        return stats.Interval(*[found.estimate] * 3) if self.rules == "before" else found

    def _precondition(self, first: Side, second: Side | None) -> Drawn | stats.Interval:
        needs, method, metric = self.claim.presumes, first.method, first.number.metric
        if method == "erm" and metric == "accuracy":  # which coverages are asked for
            return self.real.interval(first, second)
        threshold, above = {
            "confidence": (preconditions.overconfidence(self.claim.paper) / 2, True),
            "ece": (0.0, False),
            "accuracy": (-LEARNS, True),
            "auroc": (-needs.get("decays", 0.0), False),
        }.get(metric, (-LEARNS, True) if second else (preconditions.MEMORISED, None))
        if above is None:
            above = bool(needs.get("memorised"))
        sides = [side for side in (first, second) if side]

        def series():
            each = [self.real.series(side) for side in sides]
            if any(isinstance(its, tuple) for its in each):
                return "", ""
            return each[0] - each[1] if second else each[0]

        methods = [side.method for side in sides]
        spread = self._spread((self.real.name, first, second), series, methods, usual=1e-4)
        if spread is None:
            return stats.Interval(nan, nan, nan)
        distance = self.rng.uniform(-EDGE, EDGE) if self.rng.random() < 0.5 else 2 * EDGE
        truth = threshold + (1 if above else -1) * distance * spread.error
        if second is None or metric == "confidence":
            self.drawn["setting"] &= distance > 0
        else:
            self.drawn[method, metric] = distance > 0
        return self._draw(truth, spread)

    # --- the comparisons ---

    def part(self, leaf: Comparison | Computed) -> Part:
        if isinstance(leaf, Computed):
            return Part(leaf, verdict.known(*[0.5 if leaf.side == "above" else 0.0] * 3))
        drawn = self.drawn.get(leaf)
        if drawn is None:
            return Part(leaf, lacks=("no run", ""))
        counted = looks.taken(self.real.name) if self.rules == "new" else 1
        mean = drawn.at(self.look)
        kept: dict[float, stats.Interval] = {}

        def interval(level: float = 0.95) -> stats.Interval:
            if level not in kept:
                kept[level] = mean.interval(level)
            return kept[level]

        return Part(leaf, interval, mean.seeds, looks=counted)

    def check(self) -> Joined:
        return self.claim.check_on(self.real.runs.setting.dataset)

    def spread(self, leaf: Comparison) -> Spread | None:
        methods = [m for side in leaf.sides for m in side.methods]
        usual = max(leaf.margin / 10, 1e-6)
        return self._spread(
            (self.real.name, leaf), lambda: self.real.difference(leaf), methods, usual
        )

    def anything(self) -> bool:
        """Whether there is anything to judge."""
        key = self.real.name, self.claim.id
        if key not in self.spreads:
            leaves = [leaf for leaf in self.check().leaves() if isinstance(leaf, Comparison)]
            regime = self.claim.presumes.get("summed") and self.real.runs.setting.protocol.reduction
            self.spreads[key] = regime != "mean" and any(map(self.spread, leaves))
        return self.spreads[key]

    def draw(self, right: bool) -> bool:
        """Draw the effects of all comparisons; False if the claim says nothing about this place."""
        met = self.setting_met()
        check, truths = self.check(), {}
        if not self._assign(check, right == met, truths):
            return False
        common = Errors.of(self.rng)
        for leaf in check.leaves():
            if (
                isinstance(leaf, Computed)
                or leaf in self.drawn
                or not (spread := self.spread(leaf))
            ):
                continue
            effect = self._effect(leaf, truths[id(leaf)], spread.error)
            towards = -1 if leaf.side in ("below", "at most") else 1
            self.drawn[leaf] = self._draw(effect, spread, common.towards(towards))
        return True

    def _assign(self, check: Joined, want: bool, truths: dict[int, bool]) -> bool:
        """Choose which parts of a check are true in a world; False if its words leave that open."""
        out = {id(p): isinstance(p, Comparison) and self.fails(p) for p in check.parts}
        kept = [p for p in check.parts if not out[id(p)]]
        shape = Joined(
            check.quantifier, tuple(Part(None, left_out=out[id(p)]) for p in check.parts)
        )
        holds, fails = shape.needed()
        n = len(kept)
        if not n or (holds if want else fails) > n:
            return False
        true = self.rng.integers(holds, n + 1) if want else self.rng.integers(0, n - fails + 1)
        order = self.rng.permutation(n)
        chosen = {id(kept[i]) for i in order[:true]}
        for part in check.parts:
            its = not want if out[id(part)] else id(part) in chosen
            if isinstance(part, Joined):
                if not self._assign(part, its, truths):
                    return False
            else:
                truths[id(part)] = its
        return True

    def _effect(self, leaf: Comparison, there: bool, error: float) -> float:
        """A true difference: beyond the margin where it is there, else absent or opposite."""
        size = max(leaf.margin, error) * self.rng.exponential()
        towards = -1 if leaf.side in ("below", "at most") else 1
        if leaf.side in ("below", "above"):
            absent = 0.0 if self.rng.random() < 0.5 else -size
            return towards * (leaf.margin + size if there else absent)
        if leaf.side == "near":
            inside = self.rng.uniform(-1, 1) * leaf.margin
            return inside if there else self.rng.choice([-1, 1]) * (leaf.margin + size)
        return towards * (size - leaf.margin if there else -leaf.margin - size)
