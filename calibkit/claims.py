"""The claims of the five papers, put to the records: holds, fails, inconclusive or needs data.

A claim is data (``ledger/claims.json``): what the paper says, in our words, and a check made of
comparisons. No verdict is written by hand; `evaluate` computes all of them from the records that
are there, or from a derivation where a claim is mathematics.

**A comparison** is a difference of one metric between two methods, seed by seed, against the side
which the claim says: below 0, above 0, near 0. Its estimate is the mean over seeds. Its interval
adds two doubts in squares: Student's t over seeds (another training) and a paired bootstrap of the
test set on the first seed (another test set; only for metrics of `stats.compare`, and not under
shift, where records keep no predictions). It *holds* if
the whole interval lies on the claimed side, *fails* if the whole interval lies off it, and is
*inconclusive* otherwise.

With one training of a coefficient, the spread between seeds is borrowed from the same comparison
at the default coefficient. Where that is missing too, nothing is concluded.

**A claim** joins comparisons. "all": holds if every one does, fails if any fails. "any": holds if
any does, fails if every one fails. "most": holds if more than half do, fails if at least half fail.
Where one comparison decides for many, it is judged at a level of 0.05 divided by their number.
A claim needs data if records are missing and those at hand do not decide it.
"""

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import pairwise, product
from math import hypot, inf, isnan, nan, sqrt
from statistics import NormalDist
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from calibkit import grid, metrics, nb, posthoc, stats
from calibkit.evidence import Evidence, Missing, Who

VERDICTS = ("holds", "fails", "inconclusive", "needs data")
# Bounds of the claimed side of a difference; "by" is the room or the distance a claim gives.
_SIDES = {
    "below": lambda by: (-inf, -by),
    "above": lambda by: (by, inf),
    "near": lambda by: (-by, by),
    "at most": lambda by: (-inf, by),
    "at least": lambda by: (-by, inf),
}


class Verdict(NamedTuple):
    """A claim and what the records say; the numbers are those of the comparison which decides.

    `estimate`, `low` and `high` are in natural units, nan where nothing was compared; `held`,
    `failed` and `undecided` count the comparisons, each by itself; `command` trains what is
    missing. `dataset` and `network` are empty for mathematics.
    """

    id: str
    paper: str
    statement: str
    verdict: str
    comparison: str
    estimate: float
    low: float
    high: float
    held: int
    failed: int
    undecided: int
    why: str
    seeds: int
    n: int
    dataset: str
    network: str
    command: str
    paper_support: str
    exhibits: tuple[str, ...]


def claims(paper: str | None = None) -> list[dict]:
    """The claims as data: ``id, paper, exhibits, statement, check, paper_support``.

    Parameters
    ----------
    paper : {"fmfp", "darkside", "overconf", "mixup", "bsce"}, optional

    Returns
    -------
    list of dict
        ``check`` is a comparison or joins several: ``{"all": [...]}``, ``{"any": ...}``,
        ``{"most": ...}``. A comparison has ``metric``, ``of`` and ``than`` (methods, or a number;
        lists are multiplied out and joined by ``rows``), ``is`` and ``by``; or ``order``, highest
        first; or ``computed``, a function of `calibkit.derivations`; or ``beyond``, what no record
        keeps. ``"focal - erm @ cifar100/resnet50"`` is a difference on data of its own.

    Examples
    --------
    >>> len(claims()), claims("bsce")[0]["id"]
    (101, 'bsce-c01')
    """
    found = json.loads((files("calibkit") / "ledger" / "claims.json").read_text("utf-8"))
    if paper is not None:
        grid.choose("paper", paper, dict.fromkeys(claim["paper"] for claim in found))
    return [claim for claim in found if paper in (None, claim["paper"])]


def evaluate(
    edition: str,
    dataset: str = "",
    network: str = "",
    paper: str | None = None,
    seeds: int = 0,
    epochs: int = 0,
    settings: Mapping[str, object] = MappingProxyType({}),
) -> list[Verdict]:
    """A verdict for every claim, from the records of an edition. Trains nothing.

    Parameters
    ----------
    edition : str
        One of `grid.EDITIONS`.
    dataset, network : str
        Empty for the edition's own. A claim about particular data looks for those instead.
    paper : str, optional
        Only that paper's claims.
    seeds, epochs : int
        0 for the edition's own.
    settings : mapping
        Fields of `protocols.Protocol` other than the edition's, such as
        ``{"reduction": "sum", "clip_norm": 2.0}``: verdicts on runs trained so.

    Returns
    -------
    list of Verdict
        In the order of `claims`; ``pandas.DataFrame(evaluate("demo"))`` makes a table.

    Raises
    ------
    ValueError
        For an unknown edition or paper.
    store.DamagedRecord
        For a record which is not what was written.
    """
    evidence = Evidence(edition, dataset, network, seeds, epochs, settings)
    with warnings.catch_warnings():
        # A metric undefined for a network is nan, and leaves a comparison open.
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        return [_judge(claim, evidence) for claim in claims(paper)]


# --- a comparison ---------------------------------------------------------------------------------


@dataclass
class _Row:
    """One comparison: differences by seed, where their spread is from, and the claimed side."""

    text: str
    bounds: tuple[float, float]
    differences: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)
    samples: float = 0.0  # half-width of the 95 % bootstrap interval
    exact: bool = False
    n: int = 0
    where: tuple[str, str] = ("", "")
    missing: list[grid.Run] = field(default_factory=list)
    beyond: str = ""

    def interval(self, level: float) -> stats.Interval:
        estimate = float(np.mean(self.differences)) if self.differences else nan
        if self.exact:
            return stats.Interval(estimate, estimate, estimate)
        half = nan
        if len(self.spread) > 1 and self.differences:
            _, low, high = stats.seed_interval(self.spread, level)
            seeds = (high - low) / 2 * sqrt(len(self.spread) / len(self.differences))
            normal = NormalDist()
            wider = normal.inv_cdf((1 + level) / 2) / normal.inv_cdf(0.975)
            half = hypot(seeds, self.samples * wider)
        return stats.Interval(estimate, estimate - half, estimate + half)

    def verdict(self, level: float) -> str:
        if self.missing or self.beyond:
            return "needs data"
        _, low, high = self.interval(level)
        if isnan(low):
            return "inconclusive"
        if self.bounds[0] < low and high < self.bounds[1]:
            return "holds"
        return "fails" if high <= self.bounds[0] or low >= self.bounds[1] else "inconclusive"

    def clarity(self) -> float:
        """Distance between interval and bounds of the claimed side, in half-widths."""
        estimate, low, high = self.interval(0.95)
        if isnan(low):
            return -inf
        inside = min(low - self.bounds[0], self.bounds[1] - high)
        outside = max(self.bounds[0] - high, low - self.bounds[1])
        return max(inside, outside) / max(high - estimate, 1e-12)

    @property
    def borrowed(self) -> bool:
        return len(self.differences) == 1 and len(self.spread) > 1

    @property
    def numbers(self) -> str:
        estimate, low, high = self.interval(0.95)
        if self.exact:
            return f"{self.text} = {estimate:.3g}"
        if isnan(estimate):
            return f"{self.text}: undefined, or every training diverged"
        if isnan(low):
            return f"{self.text} = {estimate:+.4f}, one training only"
        return f"{self.text} = {estimate:+.4f} ({low:+.4f} to {high:+.4f})"


def _compare(evidence: Evidence, metric: str, of: str, than: str | float, leaf: dict) -> _Row:
    """The row of a method against another, or against a number."""
    size = leaf.get("sizes", (0, 0))
    first = replace(Who.read(of), size=size[1])
    second = replace(Who.read(than), size=size[0]) if isinstance(than, str) else None
    text = f"{metric} of {first}" + (f" − {second}" if second else f" − {than:g}" if than else "")
    constant = 0.0 if second else float(than)
    row = _Row(text, _SIDES[leaf["is"]](leaf.get("by", 0.0)))
    row.where = (first.dataset or evidence.dataset, first.network or evidence.network)

    def differences(a: Who, b: Who | None) -> list[float]:
        left = evidence.series(a, metric)
        right = evidence.series(b, metric) if b else dict.fromkeys(left, constant)
        both = [left[s] - right[s] for s in left if s in right]
        return [d for d in both if not isnan(d)]

    for who in filter(None, (first, second)):
        row.beyond = row.beyond or evidence.lacks(who, metric)
        row.missing += evidence.missing(who, metric)
    if row.beyond:
        row.missing = []  # trained or not, they would not have it
    if row.missing or row.beyond:
        return row
    row.differences = row.spread = differences(first, second)
    if len(row.spread) == 1 and not metric.startswith("lowest:"):
        row.spread = _at_defaults(first, second, differences)
    row.n, row.samples = evidence.samples([w for w in (first, second) if w], metric)
    return row


def _at_defaults(first: Who, second: Who | None, differences) -> list[float]:
    """The same differences at default coefficients: their spread over seeds stands in for ours."""
    a, b = first.at_defaults(), second.at_defaults() if second else None
    try:
        if a == b:  # two coefficients of one method, trained apart: no pairing to credit
            return [sqrt(2) * d for d in differences(a, None)]
        return differences(a, b)
    except Missing:
        return []


# --- a claim --------------------------------------------------------------------------------------


@dataclass
class _Join:
    """Rows and further joins, under "all", "any" or "most"."""

    quantifier: str
    parts: list

    def rows(self) -> Iterable[_Row]:
        for part in self.parts:
            yield from part.rows() if isinstance(part, _Join) else [part]

    def verdict(self, level: float, strict: float) -> str:
        """Judge at a level; what one part decides for the others, at the strict level."""
        usual, sure = (
            [p.verdict(at, strict) if isinstance(p, _Join) else p.verdict(at) for p in self.parts]
            for at in (level, strict)
        )
        if self.quantifier == "all":
            holds, fails = set(usual) == {"holds"}, "fails" in sure
        elif self.quantifier == "any":
            holds, fails = "holds" in sure, set(usual) == {"fails"}
        else:
            holds = usual.count("holds") > len(usual) / 2
            fails = usual.count("fails") >= len(usual) / 2
        if holds or fails:
            return "holds" if holds else "fails"
        return "needs data" if "needs data" in usual else "inconclusive"

    def deciding(self, level: float, strict: float) -> _Row:
        """The comparison on which the verdict hangs.

        The weakest of those which all had to go one way, the clearest of those of which one was
        enough, the one in the middle of a majority; where nothing is decided, the clearest of
        those in the way.
        """
        own = self.verdict(level, strict)
        alone = {"all": "fails", "any": "holds", "most": ""}[self.quantifier]
        # What one part decides it decides at the strict level; see `verdict`.
        at = strict if own == alone else level
        verdicts = [
            p.verdict(at, strict) if isinstance(p, _Join) else p.verdict(at) for p in self.parts
        ]
        if own == "inconclusive":
            agreeing = {"all": "holds", "any": "fails", "most": "holds"}[self.quantifier]
            fit = [v != agreeing for v in verdicts]
        else:
            fit = [v == own for v in verdicts]
        rows = [
            part.deciding(level, strict) if isinstance(part, _Join) else part
            for part, fits in zip(self.parts, fit, strict=True)
            if fits
        ]
        rows.sort(key=_Row.clarity)
        if own in (alone, "inconclusive"):
            return rows[-1]
        return rows[len(rows) // 2 if self.quantifier == "most" else 0]


def _list(value) -> list:
    return value if isinstance(value, list) else [value]


def _build(check: dict, evidence: Evidence) -> _Join:
    """The rows of a check, evaluated, under its quantifiers."""
    for quantifier in ("all", "any", "most"):
        if quantifier in check:
            return _Join(quantifier, [_build(part, evidence) for part in check[quantifier]])
    if "beyond" in check:
        return _Join("all", [_Row(check["beyond"], (nan, nan), beyond=check["beyond"])])
    if "computed" in check:
        return _Join("all", [_derived(check)])
    if "order" in check:
        steps = [product(_list(a), _list(b)) for a, b in pairwise(check["order"])]
        pairs = [pair for step in steps for pair in step]
        leaf = {"is": "above"} | check
    else:
        pairs = list(product(_list(check["of"]), _list(check["than"])))
        leaf = check
    spans = [(0, 0)]
    if "along" in check:  # each training size against the next larger one
        spans = list(pairwise(grid.EDITIONS[evidence.edition].sizes))
    rows = [
        _compare(evidence, metric, *pair, leaf | {"sizes": span})
        for metric in _list(check["metric"])
        for pair in pairs
        for span in spans
    ]
    return _Join(check.get("rows", "all"), rows)


def _derived(check: dict) -> _Row:
    from calibkit import derivations  # late: it imports torch

    name = check["computed"]
    row = _Row(name.replace("_", " "), _SIDES[check["is"]](check.get("by", 0.0)), exact=True)
    row.differences = [getattr(derivations, name)()]
    return row


def _judge(claim: dict, evidence: Evidence) -> Verdict:
    join = _build(claim["check"], evidence)
    rows = list(join.rows())
    each = [row.verdict(0.95) for row in rows]
    strict = 1 - 0.05 / len(rows)
    verdict = join.verdict(0.95, strict)
    if verdict == "needs data":
        lacking = next(row for row in rows if row.missing or row.beyond)
        shown, why = _Row("", (nan, nan), where=lacking.where), _lacking(rows, evidence)
    else:
        shown = join.deciding(0.95, strict)
        why = _why(each, verdict, shown)
    missing = list(dict.fromkeys(run for row in rows for run in row.missing))
    return Verdict(
        claim["id"],
        claim["paper"],
        claim["statement"],
        verdict,
        shown.text,
        *shown.interval(0.95),
        *(each.count(word) for word in ("holds", "fails", "inconclusive")),
        why,
        0 if shown.exact else len(shown.differences),
        shown.n,
        *shown.where,
        _command(evidence, missing) if verdict == "needs data" else "",
        claim["paper_support"],
        tuple(claim["exhibits"]),
    )


def _why(each: list[str], verdict: str, shown: _Row) -> str:
    """How the comparisons went, and the one which decides."""
    words = {"holds": "hold", "fails": "fail", "inconclusive": "open", "needs data": "missing"}
    counts = ", ".join(f"{each.count(v)} {words[v]}" for v in VERDICTS if v in each)
    by = "Left open by" if verdict == "inconclusive" else "Decided by"
    lead = f"{len(each)} comparisons: {counts}. {by}: " if len(each) > 1 else ""
    note = ""
    if shown.borrowed:
        note = "; one training, spread between seeds from the default coefficient"
    if verdict == "inconclusive" and shown.verdict(0.95) != verdict:
        note += "; not enough by itself"
    return lead + shown.numbers + note


def _lacking(rows: list[_Row], evidence: Evidence) -> str:
    """What is missing: something no record keeps, or runs."""
    reasons = dict.fromkeys(row.beyond for row in rows if row.beyond)
    places: dict[str, dict[str, None]] = {}
    for run in (run for row in rows for run in row.missing):
        own = grid.EDITIONS[evidence.edition].protocol(run.dataset).train_size
        sized = " with more or fewer training samples" if run.protocol.train_size != own else ""
        places.setdefault(f"{run.dataset}, {run.network}{sized}", {})[
            run.method + " with scores" * run.protocol.scores
        ] = None
    for place, found in places.items():
        names = list(found)
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        reasons[f"no record of {shown} on {place}"] = None
    return "; ".join(reasons)


def _command(evidence: Evidence, runs: list[grid.Run]) -> str:
    """What trains missing runs: a command for each data set, network and training size."""
    groups: dict[tuple, list[grid.Run]] = {}
    for run in runs:
        groups.setdefault((run.dataset, run.network, run.protocol), []).append(run)
    commands = []
    for (*_, protocol), group in groups.items():
        settings = evidence.settings | ({"scores": True} if protocol.scores else {})
        page = nb.Page(evidence.edition, group, settings=settings)
        commands.append(page.command(list(dict.fromkeys(run.method for run in group))))
    return " && ".join(commands)
