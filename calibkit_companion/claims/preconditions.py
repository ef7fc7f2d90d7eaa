"""What a claim presumes of a setting and of its methods, and whether the data tell that it is so.

A precondition is met or not where the 95 % interval lies on one side of its threshold. Between, it
is on the edge: a `Doubt` that is not sure. What no number tells is taken as met.
"""

from collections.abc import Iterator
from functools import cache
from math import isnan

import numpy as np

from calibkit import stats, terms
from calibkit.stats.models import numbers_in
from calibkit_companion.claims.claim import Claim
from calibkit_companion.claims.settings import Place
from calibkit_companion.claims.verdict import Computed, Doubt, Leaf, Side
from calibkit_companion.results import Number
from calibkit_companion.results import printed as tables
from calibkit_companion.results.number import LEARNS

MEMORISED = 0.97  # share of the training set
# What a method fails, as the end of a sentence that begins with "with METHOD".
UNFIT = (
    "the accuracy is more than two points below that of plain training, on the training set and on "
    "the test set"
)
PERHAPS_UNFIT = (
    "it is open whether the accuracy is more than two points below that of plain training, on the "
    "training set and on the test set"
)
NOT_LOWERED = "the ECE is not lower than with plain training"
PERHAPS_NOT_LOWERED = "it is open whether the ECE is lower than with plain training"
LEARNED_LESS = (
    "the accuracy is more than two points below that of plain training on the training set, but "
    "not on the test set"
)
PERHAPS_LEARNED_LESS = (
    "the accuracy may be more than two points below that of plain training on the training set, "
    "but is not on the test set"
)


def above(interval: stats.Interval, threshold: float) -> bool | None:
    """Whether a number is at least a threshold: None on the edge.

    >>> above(stats.Interval(3, 2, 4), 1), above(stats.Interval(3, 2, 4), 3.5)
    (True, None)
    """
    estimate, low, high = interval
    if isnan(low):  # of one run
        low = high = estimate
    return True if low >= threshold else False if high < threshold else None


def of_setting(claim: Claim, place: Place) -> Iterator[Doubt]:
    """What a setting fails of what a claim presumes, for sure or perhaps."""
    needs = claim.presumes
    if needs.get("summed") and place.runs.setting.protocol.reduction != "sum":
        yield Doubt("its authors sum the loss over the batch, here it is averaged")
    if needs.get("overconfident"):
        least = overconfidence(claim.paper) / 2
        over = place.interval(erm("confidence"), erm("accuracy"))
        said = f"plain training is over-confident by {over.format(100, 1)} points"
        presumed = f"at least {100 * least:.1f}, half of what its paper has"
        yield from _unless(True, over, least, said, presumed)
    if needs.get("memorised"):
        learned = place.interval(erm("train_accuracy"))
        said = f"plain training knows {learned.format(100, 1)} % of its training set by heart"
        yield from _unless(True, learned, MEMORISED, said, "97 %")
    if "decays" in needs:
        change = place.interval(erm("auroc", since="third_rate"))
        said = f"the AUROC of plain training changes by {change.format(100, 1, sign=True)} points "
        said += "after the second drop of the learning rate"
        presumed = f"a fall of at least {100 * needs['decays']:.1f}"
        yield from _unless(False, change, -needs["decays"], said, presumed)
    for method in needs.get("errors left", ()):
        learned = place.interval(Side(method, Number("train_accuracy")))
        said = f"{terms.inside(terms.label(method))} gets {learned.format(100, 1)} % of its "
        said += "training set right"
        yield from _unless(False, learned, MEMORISED, said, "less than 97 %")


def _unless(
    wanted: bool, number: stats.Interval, threshold: float, said: str, presumed: str
) -> Iterator[Doubt]:
    """The doubt that a number is `above` a threshold, or (False) that it is not, unless it is so.

    `said` has the number in words, `presumed` what the claim presumes of it.
    """
    met = above(number, threshold)
    if not isnan(number.estimate) and met is not wanted:
        is_open = "; whether that is so is open" * (met is None)
        yield Doubt(f"{said}; the claim presumes {presumed}{is_open}", sure=met is not None)


def of_comparison(leaf: Leaf, claim: Claim, place: Place) -> list[Doubt]:
    """What the methods of a comparison fail of what the claim presumes, for sure or perhaps."""
    if isinstance(leaf, Computed):
        return []
    found = []
    for side in leaf.sides if claim.presumes.get("learns", True) else ():
        for method in () if side.size else side.methods:
            here = place.at(side)
            fits = [_fits(here, method, metric) for metric in ("train_accuracy", "accuracy")]
            if True not in fits:  # who is as accurate on the test set has learned enough
                sure = fits == [False, False]
                found.append(Doubt(UNFIT if sure else PERHAPS_UNFIT, terms.label(method), sure))
    method = leaf.first.method
    if leaf.calibrating and method != "erm":
        ece = Side(method, Number("ece"))
        raised = above(place.at(leaf.first).interval(ece, erm("ece")), 0.0)
        if raised is not False:
            why = NOT_LOWERED if raised else PERHAPS_NOT_LOWERED
            found.append(Doubt(why, terms.label(method), bool(raised)))
    return found


def _fits(place: Place, method: str, metric: str) -> bool | None:
    """Whether a method is within two points of plain training: None on the edge."""
    if method == "erm":
        return True
    less = place.interval(Side(method, Number(metric)), erm(metric))
    return True if isnan(less.estimate) else above(less, -LEARNS)


def learned_less(leaf: Leaf, claim: Claim, place: Place) -> list[Doubt]:
    """Methods of a comparison that fit their training set less well than plain training.

    They are as accurate as plain training on the test set, and so are judged like the others.
    """
    if isinstance(leaf, Computed) or not claim.presumes.get("learns", True):
        return []
    found = []
    for here, method in ((place.at(s), m) for s in leaf.sides if not s.size for m in s.methods):
        learned = _fits(here, method, "train_accuracy")
        if not learned and _fits(here, method, "accuracy"):
            why = PERHAPS_LEARNED_LESS if learned is None else LEARNED_LESS
            found.append(Doubt(why, terms.label(method), sure=False))
    return found


def errors_accepted(leaf: Leaf, place: Place) -> bool:
    """Whether it is about a coverage at which wrong answers have to be accepted."""
    if isinstance(leaf, Computed) or not leaf.rejects:
        return False
    right = place.at(leaf.first).interval(erm("accuracy")).estimate
    (coverage,) = numbers_in("risk_at_coverage_", [leaf.first.number.metric])
    return 1 - coverage < leaf.rejects * (1 - right)


def erm(metric: str, **which) -> Side:
    """A number of plain training; `which` are further fields of `Number`."""
    return Side("erm", Number(metric, **which))


@cache
def overconfidence(paper: str) -> float:
    """How over-confident a paper's plain networks are: the median of their ECEs on CIFAR-10.

    >>> round(overconfidence("bsce"), 4)
    0.0436
    """
    eces = [
        c.value
        for c in tables.every()
        if (c.paper, c.dataset, c.method, c.metric) == (paper, "cifar10", "erm", "ece")
    ]
    return float(np.median(eces))
