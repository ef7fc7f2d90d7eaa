"""What became of a claim over all settings, and the settings on which that rests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from calibkit import terms
from calibkit_companion.claims.cases import reproduced
from calibkit_companion.claims.claim import Claim, claims
from calibkit_companion.claims.judging import MATHEMATICS, Judged
from calibkit_companion.claims.verdict import REFUTED
from calibkit_companion.experiments import plan

UNCLEAR = ("unclear", "unclear (precondition)")
# What became of a claim over all settings, and the outcomes that it has where it is tested.
FATES = {
    "reproduced": ("holds",),
    "not reproduced": REFUTED,
    "different by setting": ("holds", *REFUTED),
    "unclear": ("holds", *UNCLEAR),  # one setting that holds is not most
    "not tested": (),
}

MOST_NAMED = 3  # settings in a line


def fate(outcomes: Iterable[str], across: str = "all") -> str:
    """What became of a claim, from its outcomes in all columns: one of `FATES`.

    A claim is decided where one column decides it: the level is shared among columns. What a paper
    claims for most settings, one setting neither refutes nor reproduces (`cases.refuted`,
    `cases.reproduced`).

    Parameters
    ----------
    across : for how many settings the paper claims it, as in `Claim.across`

    >>> fate(["unclear", "holds"]), fate(["reversed", "not tested"]), fate(["holds", "reversed"])
    ('reproduced', 'not reproduced', 'different by setting')
    >>> fate(["unclear", "holds"], "most"), fate(["unclear", "holds", "holds"], "most")
    ('unclear', 'reproduced')
    """
    tested = [outcome for outcome in outcomes if outcome != "not tested"]
    fails = any(outcome in REFUTED for outcome in tested)
    if fails and "holds" in tested:
        return "different by setting"
    if fails:
        return "not reproduced"
    if reproduced(across, tested):
        return "reproduced"
    return "unclear" if tested else "not tested"


class Told(NamedTuple):
    """A claim, what became of it, and the rows of the board on which that rests."""

    claim: Claim
    fate: str
    rows: tuple[Judged, ...]

    @property
    def sentence(self) -> str:
        """The claim in one short line, without a full stop."""
        said = (self.claim.in_short or self.claim.statement).rstrip(".")
        return said + " (our reading)" * self.claim.ours

    @property
    def rests(self) -> dict[str, str]:
        """By outcome the settings that give it; of several where it is unclear, how many.

        A claim made for most settings that holds in one is unclear, and says so.
        """
        found: dict[str, list[str]] = {}
        for row in self.rows:
            found.setdefault(row.outcome, []).append(row.where)
        held = found.pop("holds", []) if self.fate == "unclear" else []
        rests = {outcome: _in_short(outcome, where) for outcome, where in found.items()}
        if held:
            said = f"holds in one setting ({held[0]}), claimed for most"
            if "unclear" in rests:
                said += f"; unclear {rests['unclear']}"
            rests["unclear"] = said
        return rests

    @property
    def computed(self) -> bool:
        """Whether no run decides it: an identity or a derivation."""
        return [row.column for row in self.rows] == [MATHEMATICS]

    @property
    def alone(self) -> str:
        """The one setting that it rests on, if that is not on CIFAR-10; else empty."""
        where = {row.where for row in self.rows}
        elsewhere = not any(row.column.startswith("cifar10") for row in self.rows)
        return where.pop() if len(where) == 1 and elsewhere and not self.computed else ""

    @property
    def anchor(self) -> str:
        """Where the page of claims has the card of the first of these rows, or else the claim."""
        return self.rows[0].anchor if self.rows else self.claim.id

    @property
    def lacks(self) -> str:
        """What would be needed, of a claim that no setting tests."""
        if self.claim.untested:
            return self.claim.untested
        if not self.claim.datasets:
            return "no setting has what it presumes"
        here = {setting.dataset for setting in plan.settings("released")}
        names = {d: terms.DATASETS.get(d, d) for d in self.claim.datasets}
        if absent := [name for dataset, name in names.items() if dataset not in here]:
            return f"needs {', '.join(absent)}"
        return f"needs one protocol for {', '.join(names.values())}"


def _in_short(outcome: str, where: list[str]) -> str:
    """The settings that give an outcome: how many where it is unclear, else the first by name."""
    if len(where) > 1 and outcome in UNCLEAR:
        return f"in {len(where)} settings"
    more = len(where) - MOST_NAMED
    return "; ".join(where[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def told(rows: Sequence[Judged], paper: str) -> list[Told]:
    """Each claim of a paper, with what became of it, in the order of the paper.

    Parameters
    ----------
    rows : of `board`
    paper : a key of `plan.PAPERS`
    """
    found = []
    for claim in claims(paper):
        shown = [row for row in rows if row.shown and row.claim == claim.id]
        if shown:
            across = "all" if claim.exists else claim.across
            name = fate((row.outcome for row in shown), across)
            rests = tuple(row for row in shown if row.outcome in FATES[name])
            found.append(Told(claim, name, rests))
    return found


def by_fate(rows: Sequence[Judged], paper: str) -> dict[str, list[Told]]:
    """The claims of a paper under what became of them; first those that most columns decide.

    Parameters
    ----------
    rows, paper : as of `told`
    """
    each = sorted(told(rows, paper), key=lambda one: (one.computed, -len(one.rows)))
    return {name: [one for one in each if one.fate == name] for name in FATES}


def answer(rows: Sequence[Judged]) -> str:
    """How many claims of all papers reproduced, how many did not, and on what. Markdown."""
    each = [one for paper in plan.PAPERS for one in told(rows, paper)]
    totals = {name: [one for one in each if one.fate == name] for name in FATES}
    words = {  # of one claim, of several
        "reproduced": ("reproduced", "reproduced"),
        "not reproduced": ("did not", "did not"),
        "different by setting": ("differs by setting", "differ by setting"),
        "unclear": ("is unclear", "are unclear"),
        "not tested": ("could not be tested", "could not be tested"),
    }
    decided = ("reproduced", "not reproduced", "different by setting")
    parts = [
        f"{len(its)} {words[name][len(its) > 1]}{_restricted(its) if name in decided else ''}"
        for name, its in totals.items()
        if its
    ]
    *first, last = parts or ["none is here"]
    said = f"{', '.join(first)} and {last}" if first else last
    return f"**Of {len(each)} claims {said}.**"


def _restricted(decided: list[Told]) -> str:
    """How many claims are computed, and how many rest on one setting alone, in brackets."""
    parts = [f"{n} computed"] if (n := sum(one.computed for one in decided)) else []
    alone = Counter(one.alone for one in decided if one.alone)
    parts += [f"{n} on {where} alone" for where, n in alone.items()]
    return f" ({', '.join(parts)})" if parts else ""
