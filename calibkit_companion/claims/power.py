"""How many seeds an undecided comparison would need."""

from dataclasses import replace
from statistics import NormalDist

from calibkit import stats
from calibkit_companion.claims.sequential import each_look
from calibkit_companion.claims.verdict import DECIDED, Part, word

MOST = 50  # seeds beyond which nobody would go
CHANCE = 0.8


def seeds_needed(part: Part, alpha: float = 0.05) -> int:
    """The seeds with which a comparison is decided in four of five cases, were its estimate true.

    With the spread that is seen now, and at the level of its looks. 0: decided already, or not
    within 50 seeds, or nothing tells the spread.
    """
    mean, level = part.mean, 1 - each_look(alpha, part.looks)
    if mean is None or part.word(alpha) in DECIDED:
        return 0
    for seeds in range(mean.seeds + 1, MOST + 1):
        grown = replace(mean, seeds=seeds, freedom=mean.freedom * (seeds - 1) / (mean.seeds - 1))
        if _decided(part, grown, level):
            return seeds
    return 0


def _decided(part: Part, mean: stats.MeanOverSeeds, level: float) -> bool:
    """Whether it stays decided if the estimate comes out lower, or higher, than the truth."""
    off = NormalDist().inv_cdf(CHANCE) * mean.variance**0.5
    shifted = (replace(mean, estimate=mean.estimate + by) for by in (-off, off))
    words = {word(its.interval(level), part.leaf.side, part.leaf.margin) for its in shifted}
    return len(words) == 1 and words <= {*DECIDED}
