"""The board on a page: a line for each claim, which unfolds its verdicts."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from calibkit_companion.claims.claim import claims
from calibkit_companion.claims.fates import FATES, told
from calibkit_companion.claims.in_print import printed
from calibkit_companion.claims.judging import Judged, board_of
from calibkit_companion.claims.power import MOST
from calibkit_companion.claims.settings import Place, places
from calibkit_companion.claims.verdict import OUTCOMES
from calibkit_companion.experiments import plan
from calibkit_companion.pages import page
from calibkit_companion.results import Results

SIGNS = dict(zip(OUTCOMES, [*"●◐✕◇◈", ""], strict=True))
# The colours of signs and bars; on dark pages see claims.css.
COLORS = dict(zip(OUTCOMES, "#0072b2 #9a6c00 #c1440e #767676 #5c5c7a".split(), strict=False))
# In the style sheet. What is not decided has the colour of the text.
_CLASSES = dict(zip(OUTCOMES, ["holds", "falls", "reversed", "", "", ""], strict=True))


@cache
def differs() -> dict[str, str]:
    """By paper: in what the runs here differ from the paper's, for all of its claims."""
    return tomllib.loads(Path(__file__).with_name("differs.toml").read_text("utf-8"))


def titles(rows: Iterable[Judged]) -> dict[str, str]:
    """The columns in which some claim is tested, in their order, and what to call them."""
    rows = list(rows)
    by_claim = (list(its) for _, its in groupby(rows, key=lambda row: row.claim))
    widest = max(by_claim, key=len, default=[])  # it has all settings in their order
    tested = {row.column for row in rows if row.outcome != "not tested"}
    return {row.column: row.title for row in [*widest, *rows] if row.column in tested}


@dataclass(frozen=True, repr=False)
class Card:
    """A line for each claim: what it says, its word, and where. HTML, from rows of `board`.

    A click on a claim unfolds a verdict for each setting. A click on a verdict unfolds the
    comparisons, what the claim presumes, the level, and what would change the verdict.
    """

    rows: list[Judged]

    def __repr__(self) -> str:
        return "<board of claims>"

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
        text = "<br>".join(["Claims that are reversed here:", *lines])
        return shown.set_caption(text) if lines else shown

    def _repr_html_(self) -> str:
        from calibkit.report import html

        rows: dict[str, dict[str, Judged]] = {}
        for row in self.rows:
            if row.shown:
                rows.setdefault(row.claim, {})[row.column] = row
        papers = []
        for paper in plan.PAPERS:
            lines = sorted(told(self.rows, paper), key=lambda one: [*FATES].index(one.fate))
            if lines:
                each = [(one, printed(one.claim), rows[one.claim.id]) for one in lines]
                papers.append((paper, each))
        return html.render(
            Path(__file__).with_name("claims.html.jinja"),
            papers=papers,
            titles=titles(self.rows),
            signs=SIGNS,
            classes=_CLASSES,
            colors={word: COLORS[word] for word, name in _CLASSES.items() if name},
            outcomes=OUTCOMES,
            authors={paper: its.authors for paper, its in plan.PAPERS.items()},
            differs=differs(),
            most=MOST,
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
    return Card(board_of(where, claims(paper)))


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
            for word in OUTCOMES[:-1]
            if its[word]
        )
        lines.append(f"- **{title}**: of {tested} tested, {said}.")
    return "\n".join(lines)
