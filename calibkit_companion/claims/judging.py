"""The board: every claim in every setting."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isnan, nan
from typing import NamedTuple

from calibkit import metrics, stats, terms
from calibkit_companion.claims.cases import (
    Case,
    Verdict,
    case_of,
    refuted,
    reproduced,
    shares,
    shown_of,
)
from calibkit_companion.claims.claim import Claim, claims
from calibkit_companion.claims.in_print import printed
from calibkit_companion.claims.power import seeds_needed
from calibkit_companion.claims.sequential import each_look
from calibkit_companion.claims.settings import Place, place_of, places
from calibkit_companion.claims.verdict import DECIDED, REFUTED, Comparison, Joined, Part
from calibkit_companion.claims.words import described, grouped, listed, sentence
from calibkit_companion.experiments import looks, plan
from calibkit_companion.pages import devices


class Marked(NamedTuple):
    """A method that fails a precondition, for sure or perhaps, and what it shows all the same."""

    method: str
    why: str
    sure: bool
    comparison: str
    measured: str
    outcome: str


class Compared(NamedTuple):
    """One comparison of a claim: its 95 % interval in words, and how it fares by itself.

    `lacks` says why there is none; `doubts` what its methods fail, in sentences; `claimed` is
    where the paper puts it, with the margin.
    """

    comparison: str
    measured: str
    outcome: str
    seeds: int
    looks: int
    lacks: str
    doubts: tuple[str, ...]
    claimed: str


class Judged(NamedTuple):
    """A claim in one setting; numbers are of the comparison that decides, in natural units.

    `precondition` says what is not met or missing; empty if all is there. `marked` has the methods
    that fail a precondition; the claim is judged with everything that was measured and `without`
    them, and has a word only where both agree.
    `low` and `high` are the ends of the 95 % interval, as everywhere in the book, and `covers` says
    what of, as in `results.Row`; the word takes that of `level`, which is shared among columns and
    among the `looks` that are taken while seeds are added, and further among comparisons; `alone`
    is how the one shown would fare by itself, where that differs, `at_level` how it fares at
    `level`, before that is shared among comparisons, and `needed` with how many seeds it would be
    decided (`power.seeds_needed`). `sharing` counts the settings that share the 5 %.
    `printed` is the outcome of the paper's own table by its ±. `shown` marks the
    one row that its column shows; `title` is what to call the column. `parts` are all comparisons:
    `compared` has them in words.
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
    at_level: str = ""
    covers: str = ""
    title: str = ""
    looks: int = 1
    sharing: int = 1
    everything: str = ""
    without: str = ""
    marked: tuple[Marked, ...] = ()
    needed: int = 0
    fails: str = ""
    parts: tuple[Part, ...] = ()

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

    def compared(self) -> list[Compared]:
        """Every comparison of the claim here."""
        found = []
        for part in self.parts:
            its = Judged(*("",) * 4, **_numbers(part))
            doubts = tuple(f"With {listed([d.method])}, {d.why}." for d in part.doubts)
            how = its.comparison, its.measured, part.word(), part.seeds, part.looks
            lacks = " ".join(part.lacks or ())
            found.append(Compared(*how, lacks, doubts, _claimed(part, its.metric)))
        return found

    @property
    def devices(self) -> str:
        """Where the sides of its comparisons ran on different devices; else empty."""
        measured = (part for part in self.parts if part.series)
        return devices.said((part.series, part.leaf.first.number, ()) for part in measured)

    @property
    def where(self) -> str:
        """The setting in a few words: its data alone, if all settings on these share a column."""
        return terms.DATASETS.get(self.column, self.title)

    @property
    def anchor(self) -> str:
        """Where the page of claims has its card: the claim and the column."""
        return f"{self.claim}-{self.column}"

    @property
    def complete(self) -> bool:
        """Whether no further seeds of its setting are planned."""
        return looks.complete(self.setting)

    @property
    def judged_at(self) -> str:
        """The level of the verdict, and what makes it higher than 95 %: settings and looks."""
        shared = f"{self.sharing} settings share the 5 %" if self.sharing > 1 else ""
        looks = f"we look at the results {self.looks} times" if self.looks > 1 else ""
        why = " and ".join(filter(None, [shared, looks]))
        return f"{100 * self.level:.4g} %" + f", because {why}" * bool(why)


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
    terms.choose("edition", edition, plan.EDITIONS)
    where = places(edition, seeds)
    if dataset or network:
        own = [(place, place.runs.setting) for place in where]
        fits = [p for p, s in own if dataset in ("", s.dataset) and network in ("", s.network)]
        where = fits or [place_of(plan.Selection(edition, None, dataset, network, seeds))]
    return board_of(where, claims(paper))


def board_of(where: list[Place], of: Iterable[Claim]) -> list[Judged]:
    """The rows of some claims in some places, claim by claim."""
    with warnings.catch_warnings():
        # A metric undefined for a network is nan, and leaves a comparison untested.
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        return [row for claim in of for row in _rows(claim, where)]


def _rows(claim: Claim, where: list[Place]) -> list[Judged]:
    """A claim in each place; mathematics, and what is bound to data of its own, in one."""
    if claim.untested:
        nowhere = replace(where[0], name="", **ELSEWHERE)
        return [_judged(claim, Case(nowhere, None, claim.untested))]
    if not claim.comparisons:
        place = replace(where[0], name=MATHEMATICS, column=MATHEMATICS, title="Mathematics")
        return [_judged(claim, Case(place, claim.check.put(place.part)))]
    if claim.datasets:
        titles = {place.column: place.title for place in where}
        own = claim.datasets[0] if len(claim.datasets) == 1 else ""
        column = {"column": own, "title": titles[own]} if own in titles else ELSEWHERE
        where = [replace(where[0], name="+".join(claim.datasets), **column)]
    cases = [case_of(claim, place) for place in where]
    shown = shown_of(claim, cases)
    alphas = shares(shown)
    outcomes = [case.verdict(alphas[case.place.column]).outcome for case in shown]
    decides = dict.fromkeys(REFUTED, refuted(claim, outcomes))
    decides["holds"] = claim.across != "most" or reproduced(claim.across, outcomes)

    def judged(case: Case) -> Judged:
        alpha = alphas[case.place.column]
        alone = not decides.get(case.verdict(alpha).outcome, True)
        return _judged(claim, case, alpha, any(case is s for s in shown), alone)

    return [judged(case) for case in cases]


def _judged(
    claim: Claim, case: Case, alpha: float = 0.05, shown: bool = True, alone: bool = False
) -> Judged:
    """The row of a claim in a place.

    Parameters
    ----------
    alpha : the level of the column
    shown : whether its column shows this row
    alone : whether too few settings come out like this one to decide the claim
    """
    check, place = case.check, case.place
    found = case.verdict(alpha)
    fails = alone and found.outcome in REFUTED
    outcome = "unclear" if fails else found.outcome
    marked = _marked(check, found.outcome) if check else ()
    if outcome == "not tested":
        missing = (part.lacks for part in check.leaves() if part.lacks) if check else ()
        why = "; ".join(filter(None, [case.lacks, grouped(missing), case.doubt]))
    else:
        why = " ".join(_reasons(claim, case, found, marked, alone))
    row = Judged(
        *(claim.id, place.name, why, outcome),
        printed=printed(claim).outcome,
        column=place.column,
        title=place.title,
        shown=shown,
        level=1 - alpha,
        everything=found.everything,
        without=found.without,
        fails=found.outcome if fails else "",
        marked=marked,
        parts=tuple(check.leaves()) if check else (),
    )
    if outcome == "not tested":
        return row
    if found.without in DECIDED or found.everything not in DECIDED:
        check = check.without(lambda part: any(part is p for p in found.doubted))
    part = check.deciding(alpha)
    level = 1 - each_look(alpha, part.looks)
    itself = found.outcome if found.outcome in ("holds", "reversed") else part.word()
    itself *= itself != found.outcome
    needed = 0 if found.outcome in DECIDED else seeds_needed(part, alpha)
    return row._replace(
        **_numbers(part),
        level=level,
        looks=part.looks,
        sharing=round(0.05 / alpha),
        needed=needed,
        alone=itself,
        at_level=part.word(alpha),
    )


def _reasons(
    claim: Claim, case: Case, found: Verdict, marked: tuple[Marked, ...], alone: bool
) -> Iterator[str]:
    """Sentences on what a claim presumes in a place, and on why its word is not a clearer one."""
    if case.coverages_left_out:
        yield "We leave out coverages above one minus the error rate."
    for why, methods in _by_reason((doubt.why, doubt.method) for doubt in case.learned_less):
        yield f"With {methods}, {why}. That counts as fitted."
    for why, methods in _by_reason((mark.why, mark.method) for mark in marked):
        yield f"With {methods}, {why}."
    if case.doubt:
        yield sentence(case.doubt)
    if found.doubted and found.everything != found.without:
        yield (
            f"Judged with every method, the claim {_FARES[found.everything]}. Judged without "
            f"{listed(mark.method for mark in marked)}, it {_FARES[found.without]}."
        )
    if alone and claim.exists:
        yield "It is not seen here. Its paper says only that it happens somewhere."
    elif alone:
        decide = "reproduce" if found.outcome == "holds" else "refute"
        yield (
            f"It {_FARES[found.outcome]} here. Its paper claims it, by its words or its tables, "
            f"for most settings. One setting does not {decide} that."
        )


def _by_reason(reasons: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each reason once, with all methods that it is about, as they stand in a sentence."""
    found: dict[str, list[str]] = {}
    for why, method in reasons:
        found.setdefault(why, []).append(method)
    return ((why, listed(methods)) for why, methods in found.items())


_FARES = {
    "holds": "holds",
    "falls short": "falls short",
    "reversed": "is reversed",
    "unclear": "is unclear",
    "not tested": "has too few comparisons left to be tested",
}


def _marked(check: Joined, outcome: str) -> tuple[Marked, ...]:
    """Each method in doubt once, with the comparison that goes most clearly against the word."""
    found = {}
    parts = sorted(check.leaves(), key=lambda part: (part.word() != outcome, part.clarity()))
    for part in parts:
        for why, method, sure in part.doubts:
            its = Judged(*("",) * 4, **_numbers(part))
            shown = its.comparison, its.measured, part.word()
            found[method, why] = Marked(method, why, sure, *shown)
    return tuple(found.values())


def _claimed(part: Part, metric: str) -> str:
    """The side on which a paper puts a comparison, and the margin in the units of tables."""
    margin = part.leaf.margin * (terms.metric_label(metric)[1] if metric else 1)
    return f"{part.leaf.side} 0" + f", margin {margin:.2g}" * bool(margin)


def _numbers(part: Part) -> dict:
    """The fields of a `Judged` that are about the comparison shown."""
    metric = part.leaf.first.number.metric if isinstance(part.leaf, Comparison) else ""
    own = {"comparison": described(part.leaf), "metric": metric}
    return own | part.interval()._asdict() | {k: getattr(part, k) for k in ("seeds", "covers")}
