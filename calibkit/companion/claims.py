"""The claims of the five papers, checked against the records and the papers' own tables.

`calibkit.companion.statements` says what a claim is: a check made of comparisons, and the margin
written down with it. No verdict is written by hand; `evaluate` computes each from the records that
are there, or from a derivation where a claim is mathematics.

**A comparison** is a difference of one metric between two methods and the side on which the claim
puts it: below 0, above 0, near 0, at most or at least 0. Its interval covers two sources of
uncertainty, the runs and the test set (`calibkit.stats.mean_over_seeds`), and
`calibkit.companion.contrasts.outcome` judges the claim by it. It *holds* if the interval lies on
the claimed side, *fails* if it lies on the other one or if, where a difference is claimed, none of
it lies beyond the margin on the claimed side, and is *open* otherwise.

**A claim** combines comparisons. "all": holds if every one does, fails if any fails. "any": holds
if any does, fails if every one fails. "most": holds if more than half do, fails if at least half
fail. "nearly all": the same with four fifths. If r of m decide, each is judged at a level of
0.05 / (m - r + 1): the chance that a claim is decided wrongly is then at most 0.05 (Benjamini and
Heller 2008). Where all m are needed, the usual level is enough; where one decides for all, it is
0.05 / m; in joins of joins the level is divided again. A claim needs data if records are missing
and those at hand do not decide it.

Where claims were open, seeds were added equally to all methods of a setting. A verdict always rests
on all seeds: a claim that fewer seeds had decided is judged again.

**The paper's own table** is judged by the same rule (`printed`): by the printed means, place by
place (a data set and network); `Claim.across` says in how many places the check has to hold.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import product
from math import inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np

from calibkit import metrics, stats, terms
from calibkit.companion import contrasts, plan
from calibkit.companion.contrasts import Difference
from calibkit.companion.evidence import Evidence
from calibkit.companion.statements import (
    Beyond,
    Claim,
    Comparison,
    Computed,
    Joined,
    Subject,
    claims,
    described,
    effects_of,
    measure,
    method_label,
    places_of,
    printed_cells,
)

_SEEDS_TRIED = (*range(2, 21), 25, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1000)
VERDICTS = ("holds", "fails", "open", "needs data")


def written_margin(identity: str, metric: str) -> float:
    """The largest difference of a metric that would not matter, as written down with a claim.

    >>> written_margin("fmfp-c12", "since_best:auroc:auroc")
    0.003
    """
    return next(claim.margins[metric] for claim in claims() if claim.id == identity)


# --- by the numbers that the paper prints --------------------------------------------------------

_SEEDS = {"fmfp": 3, "darkside": 3, "overconf": 5, "mixup": 3, "bsce": 3}  # behind a printed ±


class Printed(NamedTuple):
    """How a check fares on the paper's own printed numbers.

    `verdict` is "holds", "fails" or "not printed"; it held in `held` of `places`. In `clear` of
    them the rule for records would find it, from the printed ± and number of runs.
    """

    verdict: str
    held: int
    places: int
    clear: int

    def __str__(self) -> str:
        if self.verdict == "not printed":
            return self.verdict
        return f"{self.verdict} ({self.held} of {self.places})"


def printed(claim: Claim) -> Printed:
    """Apply the check of a claim to the paper's own cells: printed means, place by place.

    >>> str(printed(claims("fmfp")[15]))  # FMFP raises AUROC
    'holds (8 of 8)'
    """
    places, names = places_of(claim)
    seeds = _SEEDS[claim.paper]
    verdicts, clear = [], 0
    cases = claim.check.parts if claim.each else [claim.check]
    for place, case in product(names, cases):
        means, doubtful = (
            _put(case, lambda leaf, n=n, at=place: _by_print(leaf, places, at, n))
            for n in (0, seeds)
        )
        if means.parts:
            verdicts.append(means.verdict())
            clear += doubtful.verdict() == "holds"
    held, total = verdicts.count("holds"), len(verdicts)
    if not total:
        return Printed("not printed", 0, 0, 0)
    needed = {"all": total, "most": total // 2 + 1, "half": (total + 1) // 2, "some": 1}
    return Printed("holds" if held >= needed[claim.across] else "fails", held, total, clear)


def _by_print(leaf, places: Mapping, place: tuple[str, str], seeds: int) -> list["_Finding"]:
    """The row of a comparison, by printed means alone or with the spread of so many runs each.

    None for what is not printed: the paper is judged by what it prints of a claim.
    """
    signed = printed_cells(leaf, places, place) if isinstance(leaf, Comparison) else []
    if not signed:
        return []
    value = sum(sign * cell.value for sign, cell in signed)
    value = round(value - (0.0 if isinstance(leaf.than, str) else leaf.than), 12)
    if not seeds:  # of means alone, no difference is too small to have a side
        sided = leaf.side in ("below", "above")
        return [_Finding(replace(leaf, margin=0.0) if sided else leaf, exact=value)]
    spread = [cell.std for _, cell in signed if not isnan(cell.std)]
    half = nan
    if spread:
        from scipy.special import stdtrit

        half = float(stdtrit(2 * (seeds - 1), 0.975) * sqrt(sum(s * s for s in spread) / seeds))
    return [_Finding(leaf, printed=stats.Interval(value, value - half, value + half))]


# --- a comparison, from records -------------------------------------------------------------------


@dataclass
class _Finding:
    """A comparison and what is known of it: a difference from records, or one number."""

    leaf: Comparison | Computed | Beyond
    difference: Difference | None = None
    exact: float | None = None
    printed: stats.Interval | None = None
    where: tuple[str, str] = ("", "")
    size: tuple[int, int] = (0, 0)
    missing: list[plan.Run] = field(default_factory=list)
    beyond: str = ""

    def interval(self, level: float) -> stats.Interval:
        if self.exact is not None:
            return stats.Interval(self.exact, self.exact, self.exact)
        if self.printed is not None:
            return self.printed
        return self.difference.interval(level) if self.difference else stats.Interval(nan, nan, nan)

    def outcome(self, alpha: float = 0.05) -> str:
        if self.missing or self.beyond:
            return "needs data"
        return contrasts.outcome(self.interval(1 - alpha), self.leaf.side, self.leaf.margin)

    def verdict(self, alpha: float = 0.05) -> str:
        word = self.outcome(alpha)
        return "fails" if word in ("the opposite", "practically none", "ruled out") else word

    def clarity(self) -> float:
        """How far the interval is from being open, in half-widths."""
        estimate, low, high = self.interval(0.95)
        if isnan(low):
            return -inf
        side, by = self.leaf.side, self.leaf.margin
        ends = {"below": (-inf, 0.0), "above": (0.0, inf), "near": (-by, by)}
        ends |= {"at most": (-inf, by), "at least": (-by, inf)}
        inside = min(low - ends[side][0], ends[side][1] - high)
        outside = max(ends[side][0] - high, low - ends[side][1])
        none = {"below": by + low, "above": by - high}.get(side, -inf)  # nothing that matters
        return max(inside, outside, none) / max(high - estimate, 1e-12)

    @property
    def text(self) -> str:
        """The comparison in words."""
        if isinstance(self.leaf, Beyond):
            return self.leaf.reason
        if isinstance(self.leaf, Computed):
            return _DERIVED.get(self.leaf.name, self.leaf.name.replace("_", " "))
        return described(self.leaf, *self.size)

    def formatted(self, level: float = 0.95) -> str:
        """The estimate with its interval, in the units of tables."""
        interval = self.interval(level)
        if isinstance(self.leaf, Computed):
            return f"{interval.estimate:.3g} (exact)"
        _, scale, unit = measure(self.leaf.metric)
        alone = not isinstance(self.leaf.than, str) and self.leaf.than == 0
        return interval.format(scale, unit=unit, sign=isinstance(self.leaf.than, str) or alone)


def _compare(evidence: Evidence, leaf: Comparison, sizes: tuple[int, int]) -> _Finding:
    """The row of a comparison from the records of a setting."""
    first = replace(Subject.read(leaf.of), size=sizes[1])
    second = leaf.than
    if isinstance(second, str):
        second = replace(Subject.read(second), size=sizes[0])
    row = _Finding(leaf, size=sizes)
    row.where = (first.dataset or evidence.dataset, first.network or evidence.network)
    sides = [(first, leaf.metric)]
    if isinstance(second, Subject):
        sides.append((second, leaf.against or leaf.metric))
    for subject, metric in sides:
        row.missing += evidence.missing(subject, metric)
        row.beyond = row.beyond or evidence.lacks(subject, metric)
    if row.beyond:
        row.missing = []  # trained or not, they would not have it
    if not (row.missing or row.beyond):
        row.difference = evidence.difference(first, second, leaf.metric, leaf.against)
    return row


def _derived(leaf: Computed) -> _Finding:
    return _Finding(leaf, exact=_computed(leaf.name))


def _computed(name: str) -> float:
    """A number of `derivations`, which takes torch: from the file of what was worked out before."""
    its = contrasts.derived_numbers("mathematics", _mathematics())
    if name not in its:
        from calibkit.companion import derivations

        its[name] = float(getattr(derivations, name)())
    return its[name]


@cache
def _mathematics() -> str:
    """Checksum of the code that derivations run."""
    root = files("calibkit")
    code = ("companion/derivations.py", "losses.py", "metrics.py", "training/objectives.py")
    return sha256(b"".join((root / file).read_bytes() for file in code)).hexdigest()


# --- a claim, judged ------------------------------------------------------------------------------


@dataclass
class _Findings:
    """Rows and further joins, under a quantifier."""

    quantifier: str
    parts: list

    def rows(self) -> Iterable[_Finding]:
        for part in self.parts:
            yield from part.rows() if isinstance(part, _Findings) else [part]

    def _needed(self) -> dict[str, int]:
        """How many parts decide it, one way or the other."""
        total = len(self.parts)
        hold = {"all": total, "any": 1, "most": total // 2 + 1, "nearly all": -(-4 * total // 5)}
        needed = hold[self.quantifier]
        return {"holds": needed, "fails": total - needed + 1}

    def _parts_at(self, alpha: float) -> dict[str, list[str]]:
        """The verdicts of the parts for either way, each at its share of the level."""
        total = len(self.parts)
        return {
            word: [part.verdict(alpha / (total - needed + 1)) for part in self.parts]
            for word, needed in self._needed().items()
        }

    def verdict(self, alpha: float = 0.05) -> str:
        """Judge so that a wrong verdict has a chance of `alpha` at most."""
        verdicts = self._parts_at(alpha)
        for word, needed in self._needed().items():
            if verdicts[word].count(word) >= needed:
                return word
        return "needs data" if "needs data" in verdicts["holds"] else "open"

    def deciding(self, alpha: float = 0.05) -> _Finding:
        """The comparison on which the verdict hangs.

        Of those that agree with it, in order of clarity, the last that was needed: the weakest of
        those which all had to go one way, the clearest of those of which one was enough. Where
        nothing is decided, the clearest of those that are open.
        """
        own, verdicts, total = self.verdict(alpha), self._parts_at(alpha), len(self.parts)
        if own == "open":
            fits = [
                "holds" != one and "fails" != other
                for one, other in zip(verdicts["holds"], verdicts["fails"], strict=True)
            ]
            needed = 1
        else:
            fits = [v == own for v in verdicts[own]]
            needed = self._needed()[own]
            alpha /= total - needed + 1
        rows = [
            part.deciding(alpha) if isinstance(part, _Findings) else part
            for part, fit in zip(self.parts, fits, strict=True)
            if fit
        ]
        rows.sort(key=_Finding.clarity, reverse=True)
        return rows[needed - 1]

    def seeds_needed(self, alpha: float = 0.05) -> int:
        """How many seeds would decide it if estimates and spreads stay as they are.

        0 if it is decided, -1 if 1,000 would not be enough.
        """
        if self.verdict(alpha) != "open":
            return 0
        now = min(row.difference.mean.seeds for row in self.rows() if row.difference)
        for seeds in _SEEDS_TRIED:
            if seeds > now and self._with_seeds(seeds).verdict(alpha) != "open":
                return seeds
        return -1

    def _with_seeds(self, seeds: int) -> "_Findings":
        return _Findings(
            self.quantifier,
            [
                part._with_seeds(seeds)
                if isinstance(part, _Findings)
                else replace(part, difference=part.difference and part.difference.with_seeds(seeds))
                for part in self.parts
            ],
        )


def _put(
    check: Joined, rows: Callable[[Comparison | Computed | Beyond], list[_Finding]]
) -> _Findings:
    """A check with the rows of each of its leaves; one without any is left out."""
    parts = []
    for part in check.parts:
        if isinstance(part, Joined):
            inner = _put(part, rows)
            parts += [inner] if inner.parts else []
        else:
            parts += rows(part)
    return _Findings(check.quantifier, parts)


def _rows(leaf: Comparison | Computed | Beyond, evidence: Evidence) -> list[_Finding]:
    """The rows of a leaf from records: none at a coverage that says nothing here."""
    if isinstance(leaf, Computed):
        return [_derived(leaf)]
    if isinstance(leaf, Beyond):
        return [_Finding(leaf, beyond=leaf.reason)]
    if leaf.rejects:
        subject = Subject(("erm",))
        if not evidence.missing(subject, "accuracy"):
            wrong = 1 - evidence.series(subject, "accuracy").mean().estimate
            if 1 - float(leaf.metric.rpartition("_")[2]) < leaf.rejects * wrong:
                return []
    sizes = (0, 0)
    if leaf.sized:
        sizes = (
            plan.EDITIONS[evidence.selection.edition].sizes[0],
            plan.EDITIONS[evidence.selection.edition].sizes[-1],
        )
    return [_compare(evidence, leaf, sizes)]


class Verdict(NamedTuple):
    """A claim and what the records of one setting say; numbers are of the deciding comparison.

    `outcome` is its own word, see `contrasts.outcome`. `estimate`, `low`, `high`, `margin`,
    `detectable` (the true difference that would be found in 80 of 100 cases) and `effect` (the
    median of what the paper prints for it) are in natural units, nan where there is none. `needed`
    is how many seeds would decide it if every estimate stays: 0 if it is decided, -1 if none would.
    `held`, `failed` and `undecided` count the comparisons, each by itself; `command` trains what is
    missing. `dataset` and `network` are empty for mathematics.
    """

    id: str
    paper: str
    statement: str
    verdict: str
    outcome: str
    metric: str
    comparison: str
    shown: str
    estimate: float
    low: float
    high: float
    margin: float
    detectable: float
    effect: float
    needed: int
    held: int
    failed: int
    undecided: int
    why: str
    seeds: int
    n: int
    setting: str
    dataset: str
    network: str
    command: str
    support: str
    exhibits: tuple[str, ...]

    @property
    def power(self) -> str:
        """Of an open claim: what its comparison could detect, beside what the paper prints."""
        if self.verdict != "open" or isnan(self.detectable):
            return ""
        _, scale, unit = measure(self.metric)
        printed = "no number for it"
        if not isnan(self.effect):
            printed = f"{_number(self.effect, scale)}{unit}"
        least = f"{_number(self.detectable, scale)}{unit}"
        return f"In four of five cases it would tell {least} from 0; the paper prints {printed}."


def evaluate(
    selection: plan.Selection | str,
    paper: str | None = None,
    on_claim: Callable[[str], None] = lambda line: None,
    **changes,
) -> list[Verdict]:
    """A verdict for every claim, from the records of one setting of an edition. Trains nothing.

    Parameters
    ----------
    selection : plan.Selection or str
        Which runs, or the name of an edition. A claim about particular data looks for those
        instead of the selection's own.
    paper : str, optional
        Only that paper's claims.
    on_claim : function
        Called with the id of each claim before it is judged.
    changes
        Fields of the selection to change, such as ``settings={"clip_norm": 2.0}``: verdicts on
        runs trained so.

    Returns
    -------
    list of Verdict
        In the order of `claims`; ``pandas.DataFrame(evaluate("demo"))`` makes a table.

    Raises
    ------
    ValueError
        For an unknown edition, setting or paper.
    store.DamagedRecord
        For a record which is not what was written.
    """
    evidence = Evidence(selection, **changes)
    return _evaluate(evidence, paper, on_claim)


def _evaluate(
    evidence: Evidence, paper: str | None, on_claim: Callable[[str], None]
) -> list[Verdict]:
    """`evaluate` with records at hand, which the next paper need not look for again."""
    verdicts = []
    with warnings.catch_warnings():
        # A metric undefined for a network is nan, and leaves a comparison open.
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        for claim in claims(paper):
            on_claim(claim.id)
            verdicts.append(_judge(claim, evidence))
    evidence.forget()
    contrasts.keep_derived()
    return verdicts


class Line(NamedTuple):
    """A line of the scoreboard: a claim, the paper's own table, and every setting with records.

    `verdict` sums the settings up: "holds" or "fails" if every setting that decides says so,
    "depends" if they disagree, "open" if none decides. A paper speaks of its own training: where
    its own settings have records, the one that all methods share cannot decide a claim that they
    leave open, though it can disagree with what they decide.
    """

    claim: Claim
    verdict: str
    printed: Printed
    here: tuple[Verdict, ...]

    @property
    def shown(self) -> Verdict:
        """The verdict to show first: of the first setting that says what the line says."""
        return next((v for v in self.here if v.verdict == self.verdict), self.here[0])


SUMS = {  # the verdict of a line, and the verb for several of them
    "holds": "hold",
    "fails": "fail",
    "depends": "depend on the setting",
    "open": "are open",
    "needs data": "need data",
}


def board(
    edition: str,
    paper: str | None = None,
    on_claim: Callable[[str], None] = lambda line: None,
    **where,
) -> list[Line]:
    """Every claim in every setting of its paper, and on the paper's own table.

    Parameters
    ----------
    edition, paper, on_claim
        As `evaluate`.
    where
        Further arguments of `evaluate`: with any of them, only the setting that they name.

    Examples
    --------
    >>> [line.verdict for line in board("smoke", "bsce") if line.claim.id == "bsce-c08"]
    ['holds']
    """
    at_hand = cache(lambda setting: Evidence(edition, setting=setting))
    lines = []
    for name in dict.fromkeys(claim.paper for claim in claims(paper)):
        if any(where.values()):
            each = [evaluate(edition, paper=name, on_claim=on_claim, **where)]
        else:
            places = plan.settings(edition, name)
            each = [_evaluate(at_hand(place.name), name, on_claim) for place in places]
        for claim, *verdicts in zip(claims(name), *each, strict=True):
            # Mathematics and what is bound to data of its own is the same in every setting.
            shown = [v for v in verdicts if v.verdict != "needs data"] or verdicts[-1:]
            shown = shown[-1:] if _bound(claim) else shown
            lines.append(Line(claim, _sum(shown), printed(claim), tuple(shown)))
    return lines


def _bound(claim: Claim) -> bool:
    """Whether no part of a claim is about the data of the setting."""
    leaves = [leaf for leaf in claim.check.leaves() if isinstance(leaf, Comparison)]
    return all(side.dataset for leaf in leaves for side in leaf.sides)


def _sum(verdicts: Iterable[Verdict]) -> str:
    verdicts = list(verdicts)
    if {"holds", "fails"} <= {v.verdict for v in verdicts}:
        return "depends"
    own = [v for v in verdicts if v.setting != "shared" and v.verdict != "needs data"]
    words = {v.verdict for v in own or verdicts}
    decided = words & {"holds", "fails"}
    return next(iter(decided)) if decided else "open" if "open" in words else "needs data"


def _judge(claim: Claim, evidence: Evidence) -> Verdict:
    join = _put(claim.check, lambda leaf: _rows(leaf, evidence))
    rows = list(join.rows())
    each = [row.verdict() for row in rows]
    verdict = join.verdict() if rows else "needs data"
    deciding, needed = _Finding(Beyond("")), 0
    if verdict == "needs data":
        if rows:
            deciding.where = next(row for row in rows if row.missing or row.beyond).where
        why = _lacking(rows, evidence)
    else:
        deciding, needed = join.deciding(), join.seeds_needed()
        alone = any(isnan(row.interval(0.95).low) for row in rows if row.difference)
        why = _why(each, verdict, deciding, needed, alone)
    measured = isinstance(deciding.leaf, Comparison)
    effects_ = effects_of(claim, deciding.leaf) if measured else []
    missing = list(dict.fromkeys(run for row in rows for run in row.missing))
    there = deciding.difference is not None
    return Verdict(
        claim.id,
        claim.paper,
        claim.statement,
        verdict,
        deciding.outcome() if verdict != "needs data" else verdict,
        deciding.leaf.metric if measured else "",
        deciding.text if verdict != "needs data" else "",
        deciding.formatted() if verdict != "needs data" else "",
        *deciding.interval(0.95),
        deciding.leaf.margin if measured else nan,
        deciding.difference.mean.detectable() if there else nan,
        float(np.median(effects_)) if effects_ else nan,
        needed,
        *(each.count(word) for word in ("holds", "fails", "open")),
        why,
        deciding.difference.mean.seeds if there else 0,
        deciding.difference.n if there else 0,
        "" if isinstance(deciding.leaf, Computed) else evidence.setting.name,
        *deciding.where,
        _command(evidence, missing) if verdict == "needs data" else "",
        claim.support,
        claim.exhibits,
    )


# --- in words -------------------------------------------------------------------------------------

_DERIVED = {
    "ece_of_overconfident_bins": "ECE minus (mean confidence − accuracy), all bins over-confident",
    "entropy_minimum": "distance from 1/K of the confidence with the largest entropy",
    "calibration_without_refinement": "gap in ECE and AUROC between two made-up models",
    "smoothing_identity": "largest violation of the identity",
    "focal_bound": "smallest slack of the bound",
    "inverse_focal_slope": "slope of inverse focal loss beyond that of cross-entropy at certainty",
    "mixup_noise": "largest violation of the identity",
    "decoupling_residual": "largest error of the decoupled outputs",
    "focal_factor_peak": "height of the peak above both ends",
    "weight_axes": "weights whose number of active axes is not the claimed one",
    "brier_offset": "largest violation of the identity",
    "binary_brier": "largest violation of the identity for two classes",
    "ternary_alignment": "rank correlation with the Brier score for three classes, dual focal "
    "weight minus focal weight",
    "gradient_weight_bias": "distance of the fixed point from a posterior of 0.7",
}


def _why(each: list[str], verdict: str, deciding: _Finding, needed: int, alone: bool) -> str:
    """How the comparisons went, and the one which decides, in sentences.

    `alone`: a comparison has one run only.
    """
    one = {"holds": "holds", "fails": "fails", "open": "is open", "needs data": "lacks data"}
    many = {"holds": "hold", "fails": "fail", "open": "are open", "needs data": "lack data"}
    numbers = [(each.count(v), (one if each.count(v) == 1 else many)[v]) for v in VERDICTS]
    counts = ", ".join(f"{count} {word}" for count, word in numbers if count)
    by = "Left open by" if verdict == "open" else "Decided by"
    lead = f"{len(each)} comparisons: {counts}. {by}: " if len(each) > 1 else ""
    sentence = lead + deciding.text
    interval = deciding.interval(0.95)
    if isnan(interval.estimate) and deciding.leaf.metric.startswith("since_best:"):
        return f"{sentence}: the best epoch is chosen on the other runs, and there are none."
    if isnan(interval.estimate):
        return f"{sentence}: undefined, or every run diverged."
    sentence += f": {deciding.formatted()}"
    if deciding.difference is None:
        return sentence + "."
    _, scale, unit = measure(deciding.leaf.metric)
    if isnan(interval.low):
        return sentence + "; one run only, so its spread is unknown."
    if deciding.outcome() in ("practically none", "ruled out") or (
        deciding.leaf.side not in ("below", "above") and deciding.leaf.margin
    ):
        sentence += f", with a margin of {_number(deciding.leaf.margin, scale)}{unit}"
    if deciding.difference.borrowed:
        sentence += "; one run, its spread between seeds taken from the default coefficient"
    if verdict == "open":
        if deciding.verdict() != verdict:
            sentence += "; not enough with so many comparisons"
        if needed > 0:
            whole = "the claim" if len(each) > 1 else "it"
            sentence += f". If all stays as it is, {needed} seeds would decide {whole}"
        elif needed < 0 and alone:
            sentence += ". Other comparisons have one run only"
        elif needed < 0:
            sentence += ". No number of seeds on this test set would decide it: too near the margin"
    return sentence + "."


def _number(value: float, scale: float) -> str:
    return f"{scale * value:.2g}".replace("-", "−")


def _lacking(rows: list[_Finding], evidence: Evidence) -> str:
    """What is missing: something no record keeps, or runs."""
    if not rows:
        return "Errors are so frequent here that none of the claim's coverages applies."
    reasons = dict.fromkeys(row.beyond for row in rows if row.beyond)
    places: dict[str, dict[str, None]] = {}
    for run in (run for row in rows for run in row.missing):
        own = evidence.setting.protocol.train_size
        sized = run.dataset == evidence.dataset and run.protocol.train_size != own
        place = f"{terms.DATASETS.get(run.dataset, run.dataset)}, {run.network}"
        places.setdefault(place + " with more or fewer training samples" * sized, {})[
            method_label(run.method) + " with scores" * bool(run.protocol.feature_scores)
        ] = None
    for place, methods in places.items():
        names = list(methods)
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        reasons[f"no record of {shown} on {place}"] = None
    text = "; ".join(reasons)
    return text[:1].upper() + text[1:] + "."


def _command(evidence: Evidence, runs: list[plan.Run]) -> str:
    """What trains missing runs: a command for each data set, network and training size."""
    groups: dict[tuple, list[plan.Run]] = {}
    for run in runs:
        groups.setdefault((run.dataset, run.network, run.protocol), []).append(run)
    commands = []
    for (*_, protocol), group in groups.items():
        settings = dict(evidence.selection.settings) | (
            {"feature_scores": protocol.feature_scores} if protocol.feature_scores else {}
        )
        setting = evidence.setting if group[0].dataset == evidence.setting.dataset else None
        selection = plan.Selection.that_has(evidence.selection.edition, group, setting, settings)
        commands.append(selection.command(dict.fromkeys(run.method for run in group)))
    return " && ".join(commands)
