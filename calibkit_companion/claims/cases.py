"""A claim in one setting: its comparisons, the doubts about them, and its word."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from calibkit_companion.claims import preconditions, verdict
from calibkit_companion.claims.claim import Claim
from calibkit_companion.claims.settings import PUBLIC, Place
from calibkit_companion.claims.verdict import Comparison, Doubt, Joined, Leaf, Part
from calibkit_companion.experiments import plan
from calibkit_companion.results import Series


class Verdict(NamedTuple):
    """The word of a claim, and how it reads with every method and without those in doubt.

    `doubted` is what was left out for the second word: what fails a precondition for sure, and what
    may fail it where that would change the word.
    """

    outcome: str
    everything: str
    without: str
    doubted: tuple[Part, ...] = ()


def judge(whole: Joined, alpha: float = 0.05) -> Verdict:
    """Judge a claim with every method as measured, and without those that fail a precondition.

    A word stands if both give it; else the claim is unclear. Where it depends on a method of which
    the data do not tell whether it meets the precondition, it is "unclear (precondition)".
    """
    perhaps = [part for part in whole.leaves() if part.doubts]
    surely = [part for part in perhaps if any(doubt.sure for doubt in part.doubts)]
    everything = whole.word(alpha)
    if not perhaps:
        return Verdict(everything, everything, everything)

    def leaving(parts: list[Part]) -> Verdict:
        """The words with everything and without some comparisons."""
        word = whole.without(lambda part: any(part is p for p in parts)).word(alpha)
        return Verdict(_agreed(everything, word), everything, word, tuple(parts))

    found = leaving(surely)
    if len(perhaps) > len(surely):
        other = leaving(perhaps)
        if other.outcome != found.outcome and {other.outcome, found.outcome} & {*verdict.DECIDED}:
            return other._replace(outcome="unclear (precondition)")
    return found


def _agreed(*words: str) -> str:
    """The word that several agree on. Where they differ it is unclear, or too little is left."""
    if len(set(words)) == 1:
        return words[0]
    return "not tested" if set(words) == {"not tested", "unclear"} else "unclear"


@dataclass(frozen=True, eq=False)
class Case:
    """A claim in a place: what was found for its check, or why it is not tested there.

    Attributes
    ----------
    check : what was found for each comparison; None where the claim is not tested
    lacks : why it is not tested
    doubt : a precondition of the setting of which the data do not tell whether it is met
    learned_less : methods that fit their training set less well and are judged all the same
    coverages_left_out : whether coverages are left out at which errors have to be accepted
    """

    place: Place
    check: Joined | None
    lacks: str = ""
    doubt: str = ""
    learned_less: tuple[Doubt, ...] = ()
    coverages_left_out: bool = False
    _verdicts: dict[float, Verdict] = field(default_factory=dict)

    def verdict(self, alpha: float = 0.05) -> Verdict:
        """The word at a level, worked out once."""
        if alpha not in self._verdicts:
            self._verdicts[alpha] = self._verdict(alpha)
        return self._verdicts[alpha]

    def _verdict(self, alpha: float) -> Verdict:
        if self.check is None:
            return Verdict("not tested", "not tested", "not tested")
        found = judge(self.check, alpha)
        if self.doubt and found.outcome in verdict.DECIDED:
            return found._replace(outcome="unclear (precondition)", without="not tested")
        return found


def case_of(claim: Claim, place: Place) -> Case:
    """What is found for a claim in a place, with the doubts about its comparisons."""
    at = place.at(claim.comparisons[0].first) if claim.datasets else place
    plain = isinstance(place.series(preconditions.erm("accuracy")), Series)
    if not claim.datasets and not plain:
        return Case(place, None, "no run of plain training")
    methods = {m for c in claim.comparisons for side in c.sides for m in side.methods}
    if place.name == PUBLIC and methods != {"erm"}:
        return Case(place, None, "no other method was trained like these networks")
    doubts = [*preconditions.of_setting(claim, at)]
    if why := next((doubt.why for doubt in doubts if doubt.sure), ""):
        return Case(place, None, why)
    learned_less: dict[Doubt, None] = {}
    left_out = []

    def find(leaf: Leaf) -> Part | None:
        if preconditions.errors_accepted(leaf, place):
            left_out.append(leaf)
            return None
        part = place.part(leaf)
        if part.lacks:
            return part
        learned_less.update(dict.fromkeys(preconditions.learned_less(leaf, claim, place)))
        return replace(part, doubts=tuple(preconditions.of_comparison(leaf, claim, place)))

    check = claim.check_on(at.runs.setting.dataset).put(find)
    if not any(isinstance(part.leaf, Comparison) for part in check.leaves()):
        return Case(place, None, "errors have to be accepted at every coverage that it is about")
    doubt = "; ".join(doubt.why for doubt in doubts)
    return Case(place, check, "", doubt, tuple(learned_less), bool(left_out))


def refuted(claim: Claim, outcomes: Iterable[str]) -> bool:
    """Whether a failure in one setting refutes a claim.

    It does where the paper claims it for all settings. What the paper claims for most settings is
    refuted where at least two of the settings shown fail, and more than half of those that test it.
    That something happens somewhere is refuted by no setting.

    Parameters
    ----------
    outcomes : in all settings that the board shows
    """
    if claim.exists or claim.across == "all":
        return not claim.exists
    tested = [outcome for outcome in outcomes if outcome != "not tested"]
    failed = sum(outcome in verdict.REFUTED for outcome in tested)
    return failed > 1 and 2 * failed > len(tested)


def reproduced(across: str, outcomes: Iterable[str]) -> bool:
    """Whether the settings that hold reproduce a claim of which no setting fails.

    One does where the paper claims it for all settings. What the paper claims for most settings has
    to hold in at least two.

    Parameters
    ----------
    across : for how many settings the paper claims it, as in `Claim.across`
    outcomes : in all settings that the board shows
    """
    return [*outcomes].count("holds") > (across != "all")


def shown_of(claim: Claim, cases: list[Case]) -> list[Case]:
    """Of each column its paper's own setting, else the first in which the claim is tested."""
    edition = cases[0].place.runs.selection.edition
    own = [s.name for s in plan.EDITIONS[edition].settings(claim.paper)]
    columns: dict[str, list[Case]] = {}
    for case in cases:
        columns.setdefault(case.place.column, []).append(case)

    # What is tested at a strict level is so at any; where nothing is, what the usual level refutes.
    levels = 0.05 / len(columns), 0.05

    def rank(case: Case) -> tuple[bool, ...]:
        tested = [case.verdict(level).outcome != "not tested" for level in levels]
        return *(not one for one in tested), case.place.name not in own

    return [min(its, key=rank) if len(its) > 1 else its[0] for its in columns.values()]


def shares(shown: list[Case]) -> dict[str, float]:
    """The level of each column, so that a claim goes wrong in any with a chance of 5 % at most.

    Holm's rule: all that test the claim share the 5 %; what is decided hands its share on.
    """
    alphas = {case.place.column: 0.05 for case in shown}
    left = [case for case in shown if case.verdict().outcome != "not tested"]
    while left:
        alpha = 0.05 / len(left)
        alphas |= {case.place.column: alpha for case in left}
        undecided = [case for case in left if case.verdict(alpha).outcome not in verdict.DECIDED]
        if len(undecided) == len(left):
            break
        left = undecided
    return alphas
