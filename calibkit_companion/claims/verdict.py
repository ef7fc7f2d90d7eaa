"""A comparison, how it fares, and how a claim fares that joins several."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf, isnan, nan
from typing import NamedTuple, TypeAlias

from calibkit import stats
from calibkit_companion.claims.sequential import each_look
from calibkit_companion.results import Number, Series

SIDES = ("below", "above", "near", "at most", "at least")


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
        """The methods whose numbers the side takes."""
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
        """The sides that are numbers of methods: one, or two."""
        return [s for s in (self.first, self.second) if isinstance(s, Side)]


@dataclass(frozen=True)
class Computed:
    """A number of `calibkit_companion.claims.derivations`."""

    name: str
    side: str
    margin: float = 0.0
    says: str = ""


Leaf: TypeAlias = Comparison | Computed
REFUTED = ("falls short", "reversed")
DECIDED = ("holds", *REFUTED)
OUTCOMES = (*DECIDED, "unclear", "unclear (precondition)", "not tested")


QUANTIFIERS = ("all", "any", "most", "nearly all")


def word(interval: stats.Interval, side: str, margin: float = 0.0) -> str:
    """How a comparison fares: one of `DECIDED`, or "unclear".

    Parameters
    ----------
    interval : of the difference
    side : where the paper puts it, one of `SIDES`: below or above 0, near it, at most or at least 0
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


def known(*ends: float) -> Callable[..., stats.Interval]:
    """An interval that no level widens: of an exact number, or of printed ones."""
    return lambda level=0.95: stats.Interval(*ends)


class Doubt(NamedTuple):
    """A precondition that is not met, for sure or perhaps: why, and by which method."""

    why: str
    method: str = ""
    sure: bool = True


@dataclass
class Part:
    """A comparison, and what is known of it: its interval at any level, or what lacks.

    Attributes
    ----------
    covers : as in `results.Row`
    lacks : why there is nothing to judge, and of what
    doubts : what its methods fail of what the claim presumes
    looks : how often it is looked at while seeds are added, see `sequential`
    left_out : it counts for neither side
    series : its difference by seed
    """

    leaf: Leaf
    interval: Callable[..., stats.Interval] = known(nan, nan, nan)
    seeds: int = 0
    covers: str = ""
    lacks: tuple[str, str] | None = None
    doubts: tuple[Doubt, ...] = ()
    looks: int = 1
    left_out: bool = False
    mean: stats.MeanOverSeeds | None = None  # what the interval is of, where it is over seeds
    series: Series | None = None

    @property
    def judged(self) -> bool:
        return not self.lacks and not self.left_out

    def deciding(self, alpha: float = 0.05) -> "Part":
        return self

    def word(self, alpha: float = 0.05) -> str:
        if self.lacks:
            return "not tested"
        level = 1 - each_look(alpha, self.looks)
        return word(self.interval(level), self.leaf.side, self.leaf.margin)

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
        """All comparisons, also those of inner checks."""
        for part in self.parts:
            yield from part.leaves() if isinstance(part, Joined) else [part]

    def put(self, find: Callable[[Leaf], "Part | None"]) -> "Joined":
        """What is found for each leaf in its place; of what says nothing nothing is left."""
        each = (p.put(find) if isinstance(p, Joined) else find(p) for p in self.parts)
        kept = (p for p in each if p and not (isinstance(p, Joined) and not p.parts))
        return Joined(self.quantifier, tuple(kept))

    @property
    def kept(self) -> list:
        """The parts that are not left out."""
        return [part for part in self.parts if not part.left_out]

    @property
    def left_out(self) -> bool:
        return bool(self.parts) and not self.kept

    @property
    def judged(self) -> bool:
        return any(part.judged for part in self.parts)

    def without(self, leave: Callable[["Part"], bool]) -> "Joined":
        """The same with some comparisons left out."""
        return self.put(lambda part: replace(part, left_out=True) if leave(part) else part)

    def needed(self) -> tuple[int, int]:
        """How many parts make it hold, and how many make it fail.

        "Most" and "nearly all" count every part that is named, also those left out; "all" asks for
        all that are left.
        """
        named, left = len(self.parts), len(self.kept)
        most, nearly = named // 2 + 1, -(-4 * named // 5)
        return {
            "all": (left, 1),
            "any": (1, left),
            "most": (most, named - most + 1),
            "nearly all": (nearly, named - nearly + 1),
        }[self.quantifier]

    def _share(self, alpha: float, needed: int) -> float:
        """The level of each part if so many decide."""
        judged = sum(part.judged for part in self.parts)
        return alpha / max(judged - needed + 1, 1)

    def word(self, alpha: float = 0.05) -> str:
        """Judge so that a wrong word has a chance of `alpha` at most.

        What was not run counts for neither side. Where that alone puts the number that makes it
        hold out of reach, it is "not tested".
        """
        (holds, fails), kept = self.needed(), self.kept
        if not kept:
            return "unclear" if self.parts else "not tested"
        share = self._share(alpha, holds)
        found = [part.word(share) for part in kept]
        if found.count("holds") >= holds:
            return "holds"
        share = self._share(alpha, fails)
        against = [part.word(share) for part in kept]
        for words in (("reversed",), ("reversed", "falls short")):
            if sum(w in words for w in against) >= fails:
                return words[-1]
        open_ = sum(w not in REFUTED for w in against)
        could = {"all": len(kept), "any": open_}.get(self.quantifier, len(self.parts))
        return "unclear" if could - found.count("not tested") >= holds else "not tested"

    def deciding(self, alpha: float = 0.05) -> Part:
        """The comparison on which the word hangs.

        Of those that agree with it, in order of clarity, the last that was needed. Where nothing is
        decided, the clearest of those that by themselves go against what one could refute, or else
        of those that keep it open: first those that are unclear by themselves, then those
        that are so at `alpha`.
        """
        own, (holds, fails) = self.word(alpha), self.needed()
        agree, needed, last = {
            "holds": (("holds",), holds, holds),
            "reversed": (("reversed",), fails, fails),
            "falls short": (("reversed", own), fails, fails),
        }.get(own, (("unclear",), holds, 1))
        whole, alpha, parts = alpha, self._share(alpha, needed), self.kept or self.parts
        if own == "unclear" and fails == 1 and any(p.word(alpha) == "reversed" for p in parts):
            agree = ("reversed",)
        some = [part for part in parts if part.word(alpha) in agree] or parts
        if agree == ("unclear",):
            for level in (0.05, whole):
                some = [part for part in some if part.word(level) == "unclear"] or some
        each = sorted((p.deciding(alpha) for p in some), key=Part.clarity, reverse=True)
        return each[min(last, len(each)) - 1]
