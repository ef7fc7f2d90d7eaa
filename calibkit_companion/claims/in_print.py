"""How a claim fares on the paper's own table."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import product
from math import isnan, nan
from typing import NamedTuple

from calibkit import stats, terms
from calibkit_companion.claims.claim import Claim
from calibkit_companion.claims.verdict import Comparison, Joined, Leaf, Part, Side, known
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.results import Number
from calibkit_companion.results import printed as tables


class Printed(NamedTuple):
    """How a check fares on the paper's own table.

    By printed means it holds in `held` of `places`, and so, or not, in as many as the paper's words
    need (`bears`). `outcome` is by the rule for records, from the printed ± and number of runs:
    one of `OUTCOMES`, or "no ±", or "not printed".
    """

    outcome: str
    bears: bool
    held: int
    places: int

    def __str__(self) -> str:
        if not self.places:
            return "not printed"
        means = f"holds in {self.held} of {self.places} by its means"
        return means if self.outcome == "no ±" else f"{self.outcome}; {means}"


@cache
def printed(claim: Claim) -> Printed:
    """Apply the check of a claim to the paper's own cells, data set by data set and network.

    >>> from calibkit_companion.claims import claims
    >>> str(printed(claims("fmfp")[15]))  # FMFP raises AUROC
    'holds; holds in 8 of 8 by its means'
    """
    cells, places = places_of(claim)
    checks = claim.check.parts if claim.each else [claim.check]
    each = (
        Joined("all", (check,)).put(partial(_from_print, cells=cells, place=place))
        for place, check in product(places, checks)
    )
    found = Joined(claim.across, tuple(one for one in each if one.parts))
    if not found.parts:
        return Printed("not printed", False, 0, 0)
    held = [one.put(_by_means).word() for one in found.parts].count("holds")
    spreads = any(not isnan(part.interval().low) for part in found.leaves())
    outcome = found.word() if spreads else "no ±"
    return Printed(outcome, held >= found.needed()[0], held, len(found.parts))


def _from_print(leaf: Leaf, cells: Mapping, place: tuple[str, str]) -> Part | None:
    """A comparison of printed means in a place, with the ± where it is printed; None without it."""
    signed = signed_cells(leaf, cells, place) if isinstance(leaf, Comparison) else []
    if not signed:
        return None
    value = sum(sign * cell.value for sign, cell in signed)
    value = round(value - (0.0 if isinstance(leaf.second, Side) else leaf.second), 12)
    spread = [cell.std**2 for _, cell in signed if not isnan(cell.std)]
    own, seeds = sum(spread) if spread else nan, plan.PAPERS[signed[0][1].paper].seeds
    mean = stats.MeanOverSeeds(value, 0.0, own, seeds, 2.0 * (seeds - 1))
    return Part(leaf, known(*mean.interval()))


def _by_means(part: Part) -> Part:
    """The same without spreads; of means alone, no difference is too small to have a side."""
    sided = part.leaf.side in ("below", "above")
    leaf = replace(part.leaf, margin=0.0) if sided else part.leaf
    return Part(leaf, known(*[part.interval().estimate] * 3))


_KINDS = dict.fromkeys(tables.TEST_SETS, "collected") | {"cifar10c": "shifted"}


@cache
def cells_by_place(exhibits: tuple[str, ...]) -> dict[tuple[str, str], dict]:
    """The printed cells of some exhibits.

    Returns
    -------
    dict of dict
        By data set and network of the paper; below, by method and `Number`.
    """
    found: dict[tuple[str, str], dict] = {}
    for cell in tables.every():
        # avg_over_backbones: means of the rows above them.
        if cell.exhibit in exhibits and cell.network != "avg_over_backbones":
            number = cell.number._replace(test_set=_KINDS.get(cell.dataset, "clean"))
            found.setdefault((cell.dataset, cell.network), {}).setdefault(
                (cell.method, number), cell
            )
    return found


def places_of(claim: Claim) -> tuple[Mapping, list[tuple[str, str]]]:
    """The printed cells that bear on a claim, by place, and the places where its check applies.

    A check that names its data sets itself applies once, in a place without a name.
    """
    cells = cells_by_place(claim.exhibits + claim.tables)
    return cells, [("", "")] if claim.datasets else list(cells)


def signed_cells(
    leaf: Comparison, cells: Mapping, place: tuple[str, str]
) -> list[tuple[int, tuple]]:
    """The printed cells of a comparison in a place, each with 1 or -1, the sign in the difference.

    Empty if one of them is not printed.
    """
    signed = []
    for sign, side in zip((1, -1), leaf.sides, strict=False):
        where = place
        if side.dataset:  # by what this paper's tables call it
            here = (side.dataset, side.network)
            named = (cell for its in cells.values() for cell in its.values())
            called = (c for c in named if (c.dataset, c.ours) == here)
            where = next(((c.dataset, c.network) for c in called), here)
        if side.number.metric == "train_accuracy":  # printed without a network
            where = (where[0], "-")
        if side.lowest:
            return []
        for i, method in enumerate(side.methods):
            cell = _printed_cell(cells.get(where, {}), method, side.number)
            if cell is None:
                return []
            signed.append((sign * (-1) ** i, cell))
    return signed


def _printed_cell(cells: Mapping, method: str, number: Number):
    """A cell by method and number; of a method that the paper prints once, any coefficient."""
    if number.score != "max_probability":
        return cells.get((number.score, number))
    if method == "erm" and number.recalibration in ("ts_nll", "ts_ece"):
        if found := cells.get(("ts", number._replace(recalibration="ts_ece"))):
            return found
    base, options, axes = terms.parts(method)
    exact = parse(method).name, number
    if exact in cells or options or axes:
        return cells.get(exact)
    matching = [k for k in cells if k[1] == number and terms.parts(k[0])[0] == base]
    return cells[matching[0]] if len(matching) == 1 else None
