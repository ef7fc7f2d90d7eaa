"""The board: every claim in every setting."""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from math import isnan, nan
from typing import NamedTuple

from calibkit import metrics, stats, terms
from calibkit_companion.claims.claim import Claim, claims
from calibkit_companion.claims.in_print import printed
from calibkit_companion.claims.settings import PUBLIC, UNFIT, Place, place_of, places
from calibkit_companion.claims.verdict import Comparison, Computed, Joined, Part
from calibkit_companion.claims.words import described
from calibkit_companion.experiments import plan


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
        where = fits or [place_of(plan.Selection(edition, None, dataset, network, seeds))]
    return board_of(where, claims(paper))


def board_of(where: list[Place], of: Iterable[Claim]) -> list[Judged]:
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
        return None, "no run of plain training"
    methods = {m for c in claim.comparisons for side in c.sides for m in side.methods}
    if place.name == PUBLIC and methods != {"erm"}:
        return None, "no other method was trained like these networks"
    if why := at.unmet(claim):
        return None, why
    without = []

    def find(leaf: Comparison | Computed) -> Part | None:
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


def _numbers(part: Part) -> dict:
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
