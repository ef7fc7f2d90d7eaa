"""The papers on one screen: what reproduced, what did not, what was not tested, and the cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from calibkit_companion.claims.claim import Claim, claims
from calibkit_companion.claims.display import SIGNS
from calibkit_companion.claims.judging import MATHEMATICS, Judged
from calibkit_companion.experiments import plan

# What became of a claim over all settings, and the outcomes that it has where it is tested.
FATES = {
    "reproduced": ("holds",),
    "not reproduced": ("falls short", "reversed"),
    "different by setting": ("holds", "falls short", "reversed"),
    "unclear": ("unclear", "unclear (precondition)"),
    "not tested": (),
}


def fate(outcomes: Iterable[str]) -> str:
    """What became of a claim, from its outcomes in all columns: one of `FATES`.

    A claim is decided where one column decides it: the level is shared among columns.

    >>> fate(["unclear", "holds"]), fate(["reversed", "not tested"]), fate(["holds", "reversed"])
    ('reproduced', 'not reproduced', 'different by setting')
    """
    outcomes = {*outcomes}
    holds, fails = "holds" in outcomes, outcomes & {"falls short", "reversed"}
    if holds or fails:
        only = "reproduced" if holds else "not reproduced"
        return "different by setting" if holds and fails else only
    return "not tested" if outcomes <= {"not tested"} else "unclear"


class Told(NamedTuple):
    """A claim in a line of the scorecard, and the rows of the board on which the line rests."""

    claim: Claim
    rows: tuple[Judged, ...]

    @property
    def sentence(self) -> str:
        return (self.claim.in_short or self.claim.statement).rstrip(".")

    @property
    def rests(self) -> list[tuple[str, str]]:
        """Outcome and setting, the first setting of each outcome, and how many more there are."""
        found = []
        for outcome in dict.fromkeys(row.outcome for row in self.rows):
            titles = [row.title for row in self.rows if row.outcome == outcome]
            more = len(titles) - 1
            found.append((outcome, titles[0] + f", and {more} more" * bool(more)))
        return found

    @property
    def computed(self) -> bool:
        """Whether no run decides it: an identity or a derivation."""
        return [row.column for row in self.rows] == [MATHEMATICS]

    @property
    def lacks(self) -> str:
        """What would be needed, of a claim that no setting tests."""
        from calibkit import terms

        if self.claim.untested:
            return self.claim.untested
        if self.claim.datasets:
            return "needs " + ", ".join(terms.DATASETS.get(d, d) for d in self.claim.datasets)
        return "no setting has what it presumes"


def by_fate(rows: Sequence[Judged], paper: str) -> dict[str, list[Told]]:
    """The claims of a paper under what became of them; first those that most columns decide.

    Parameters
    ----------
    rows : of `board`
    paper : a key of `plan.PAPERS`
    """
    found: dict[str, list[Told]] = {name: [] for name in FATES}
    for claim in claims(paper):
        its = [row for row in rows if row.shown and row.claim == claim.id]
        if its:
            name = fate(row.outcome for row in its)
            rests = tuple(row for row in its if row.outcome in FATES[name])
            found[name].append(Told(claim, rests))
    for its in found.values():
        its.sort(key=lambda told: (told.computed, -len(told.rows)))
    return found


@dataclass(frozen=True, repr=False)
class Scorecard:
    """A table with a line for each fate of a paper's claims. HTML, made from rows of `board`."""

    rows: list[Judged]

    def __repr__(self) -> str:
        return "<scorecard of the papers>"

    def _repr_html_(self) -> str:
        from calibkit.report import html

        papers = {paper: by_fate(self.rows, paper) for paper in plan.PAPERS}
        return html.render(
            Path(__file__).with_name("scorecard.html.jinja"),
            papers={p: its for p, its in papers.items() if any(its.values())},
            authors={paper: its.authors for paper, its in plan.PAPERS.items()},
            signs=SIGNS,
        )


def answer(rows: Sequence[Judged]) -> str:
    """What became of the claims of all papers, counted claim by claim, in a sentence. Markdown."""
    totals = dict.fromkeys(FATES, 0)
    for paper in plan.PAPERS:
        for name, its in by_fate(rows, paper).items():
            totals[name] += len(its)
    told = {
        "reproduced": "**{} reproduced** (they hold in at least one setting and fail in none)",
        "not reproduced": "**{} not reproduced** (they fall short or are reversed in at least one "
        "and hold in none)",
        "different by setting": "{} different by setting",
        "unclear": "**{} unclear** in every setting that can test them",
        "not tested": "{} not tested",
    }
    parts = [told[name].format(n) for name, n in totals.items() if n]
    return f"Of {sum(totals.values())} claims: {', '.join(parts)}."


class Compute(NamedTuple):
    """What the records of an edition cost: how many runs, hours of one core, minutes of a GPU."""

    runs: int
    core_hours: float
    gpu_minutes: float

    def __str__(self) -> str:
        parts = [f"{self.core_hours:,.0f} core-hours"] * (self.core_hours > 0)
        parts += [f"{self.gpu_minutes:,.0f} minutes on a GPU"] * (self.gpu_minutes > 0)
        return f"{self.runs:,} runs, {' and '.join(parts)}" if self.runs else "no runs"


def compute(edition: str = "released") -> Compute:
    """What all recorded runs of an edition cost, by the seconds and devices in their records.

    A run on a processor takes one thread (`training.machine`), so its hours are core-hours.
    """
    from calibkit_companion.records import folders

    records = filter(None, map(folders.load, plan.Selection(edition).of_page("book")))
    spent = [record.info["provenance"] for record in records]
    on_core = [its["device"].startswith("1 thread of ") for its in spent]
    core, gpu = (
        sum(its["seconds"] for its, on in zip(spent, on_core, strict=True) if on is kind)
        for kind in (True, False)
    )
    return Compute(len(spent), core / 3600, gpu / 60)
