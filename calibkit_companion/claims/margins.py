"""The margin of a comparison: the largest difference that would not matter.

It is worked out from what the papers print, before any run, and written down with each claim
(``papers/PAPER.json``), so that a look at outcomes cannot move it.
"""

import numpy as np

from calibkit import terms
from calibkit_companion.claims import in_print
from calibkit_companion.claims.claim import Claim
from calibkit_companion.claims.verdict import Comparison, Side
from calibkit_companion.results import Number
from calibkit_companion.results import printed as tables
from calibkit_companion.results.number import margin as usual_margin

HALF_A_POINT = 0.005


def by_rule(claim: Claim, comparison: Comparison) -> float:
    """The margin of one comparison of a claim, in the unit of its metric.

    - Where the paper prints an effect: half the smallest effect that it prints for the claim, but
      at least the printed ± (the median over the cells compared) or the last printed digit.
    - Where the paper claims that nothing changes, or not for the worse: that ±, but at least the
      change with which the claim still holds in as many of the paper's tables as its words need.
    - Where the exhibits of the claim do not print the metric: the ± of the paper's other tables.
      A risk at one coverage has that of AURC, its mean over all coverages. An ECE after any
      recalibration has that of the nearest one printed.
    - Where the paper prints no ± of the metric either: the ± of the five papers together, which is
      the margin of the findings on all pages (`results.number.margin`).
    - Where no paper has one: half a point for a share or a probability, else 0.
    """
    number, lowest = _kind(comparison)
    cells, effects, changes = _printed_for(claim, comparison)
    if not cells and not lowest:
        cells = _printed_elsewhere(claim, number)
    if not cells:
        return 0.0 if lowest else _of_no_table(number.metric)
    spreads = [cell.std for cell in cells if not np.isnan(cell.std)]
    least = float(np.median(spreads)) if spreads else min(cell.digit for cell in cells)
    if effects:
        return float(f"{max(min(effects) / 2, least):.3g}")
    needed = max if claim.across == "all" else np.median
    return float(f"{max(least, needed(changes) if changes else 0.0):.3g}")


def _printed_for(claim: Claim, comparison: Comparison) -> tuple[list, list[float], list[float]]:
    """The cells that a claim compares by a number; its printed effects; changes for the worse."""
    by_place, places = in_print.places_of(claim)
    cells, effects, changes = [], [], []
    alike = [other for other in claim.comparisons if _kind(other) == _kind(comparison)]
    for other in alike:
        for place in places:
            signed = in_print.signed_cells(other, by_place, place)
            if not signed or not isinstance(other.second, Side):
                continue
            cells += [cell for _, cell in signed]
            change = sum(sign * cell.value for sign, cell in signed)
            if other.side in ("below", "above"):
                effects.append(abs(change))
            else:  # a gain is no change for the worse
                worse = {"at most": change, "at least": -change}.get(other.side, abs(change))
                changes.append(max(worse, 0.0))
    return cells, effects, changes


def _printed_elsewhere(claim: Claim, number: Number) -> list:
    """The cells with a ± that are most like a number, from all tables of its paper."""
    exhibits = tuple(dict.fromkeys(c.exhibit for c in tables.every() if c.paper == claim.paper))
    of_paper = [cell for its in in_print.cells_by_place(exhibits).values() for cell in its.values()]
    for alike in _alike(number):
        if found := [c for c in of_paper if c.metric == alike and not np.isnan(c.std)]:
            return found
    return []


def _of_no_table(metric: str) -> float:
    """The margin of a metric for which the paper prints no ±."""
    if usual := usual_margin(metric):
        return usual
    # The spread of gradients is in per cent of a mean, which is no share.
    share = terms.metric_label(metric)[1] == 100 and metric != "gradient_spread"
    return HALF_A_POINT if share or metric == "histogram_overlap" else 0.0


def _kind(comparison: Comparison) -> tuple[Number, bool]:
    """The number compared, and whether it is a best coefficient; one margin for each kind.

    Temperature scaling is a method in the papers' tables, and a recalibration here.
    """
    number, second = comparison.first.number, comparison.second
    if comparison.first.method == "erm" and isinstance(second, Side):
        number = number._replace(recalibration=second.number.recalibration)
    return number, bool(comparison.first.lowest)


def _alike(number: Number) -> list[str]:
    """Names under which the papers may print a number, nearest first."""
    if number.metric == "auroc_gain_of_temperature":
        return ["auroc"]
    if number.metric.startswith("risk_at_coverage_"):
        return [number.metric, "aurc"]
    scaled = f"{number.metric}_scaled"
    after = {
        "ts_ece": [scaled],
        "ts_test": [f"{number.metric}_optimal", scaled],
        "binned": [f"{number.metric}_binned"],
    }
    return [*after.get(number.recalibration, []), number.metric]
