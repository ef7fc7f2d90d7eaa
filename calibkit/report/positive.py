"""Two classes, one of which is of interest (positive): its probability, and decisions by it.

All numbers here are about the event "the sample is positive": the probability p that the model
gives to it, and whether it has occurred. If positives are rare, this differs much from the
confidence in the answer, which is nearly always "negative" and nearly always right.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from calibkit import curves, metrics, stats
from calibkit.arrays import Array
from calibkit.report import estimates, thresholds
from calibkit.report.design import Design
from calibkit.report.facts import Facts
from calibkit.report.parts import Mapped
from calibkit.report.predictions import Predictions
from calibkit.report.scores import Rules, Samples, Score, Scored
from calibkit.stats import Interval

RARE = 0.2  # share of positives below which a report shows budgets and low precisions
POINTS = 300  # points of a curve at most
COUNTED = ("flagged", "found", "false", "missed")
SURE = 0.01  # level of the test whether validation and test set differ in their positives
_POSITIVE = ("1", "1.0", "true", "yes", "y", "positive", "pos", "fraud", "spam", "anomaly")
_POSITIVE += ("abnormal", "malignant", "disease", "churn", "default", "toxic", "attack", "defect")
_NEGATIVE = ("0", "0.0", "false", "no", "n", "negative", "neg", "legit", "legitimate", "ham")
_NEGATIVE += ("normal", "benign", "healthy", "ok", "genuine", "none", "other")


def guess(data: Predictions) -> int:
    """Guess which class (0 or 1) is of interest: by its name, otherwise the rarer one.

    >>> from calibkit.report.predictions import from_arrays
    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]
    >>> guess(from_arrays({"probs": probs, "labels": [0, 1, 0], "class_names": ["fraud", "legit"]}))
    0
    """
    names = [name.strip().lower() for name in data.class_names]
    for positive, negative in ((0, 1), (1, 0)):
        if names[positive] in _POSITIVE or names[negative] in _NEGATIVE:
            return positive
        if names[negative] == f"not {names[positive]}":
            return positive
    return int(2 * (data.labels == 1).sum() <= len(data.labels))


@dataclass(frozen=True)
class Counts(Facts):
    """Counts and shares of flagged samples; shares are fractions of 1.

    Attributes
    ----------
    flagged, found, false, missed : int
        Number of flagged samples, flagged positives, flagged negatives, positives not flagged.
    share, precision, recall : Interval
        Share of samples that are flagged, of flagged samples that are positive, of positives that
        are flagged; intervals are those of `Design.share`.
    """

    flagged: int
    found: int
    false: int
    missed: int
    share: Interval
    precision: Interval
    recall: Interval


@dataclass(frozen=True)
class Decisions(Counts):
    """`Counts` at a threshold; ``claimed`` is the mean probability of the flagged samples."""

    threshold: float = 0.5
    claimed: float | None = None


@dataclass(frozen=True)
class RuleRow(Counts):
    """The threshold for a rule, and the counts and shares that it leads to.

    Shares are measured on samples that the threshold was not chosen on.

    Attributes
    ----------
    threshold : float or None
        None if no threshold keeps the rule.
    rule : str
        One of `thresholds.RULES`.
    value : float
    kept : bool or None
        Whether the precision or recall is at least the value; None if its interval contains it.
    cost, cost_at_half : float or None
        For a cost ratio: mean cost of a sample in false alarms, at that threshold and at 0.5.
    """

    threshold: float | None
    rule: str
    value: float
    kept: bool | None
    cost: float | None = None
    cost_at_half: float | None = None


@dataclass(frozen=True)
class EventMap(Facts):
    """The probability of the positive class after a map.

    Attributes
    ----------
    mean, ece, average_precision : float
    decisions : Decisions
        At the threshold 0.5.
    same : float or None
        The threshold after the map that flags as many samples as 0.5 did without it, or nearly so.
    same_flagged : int
        How many samples this threshold flags.
    """

    mean: float
    ece: float
    average_precision: float
    decisions: Decisions
    same: float | None
    same_flagged: int


@dataclass(frozen=True)
class Shift(Facts):
    """Share of positives in validation and test set (Wilson), and the p-value of the difference."""

    validation: Interval
    test: Interval
    p_value: float


@dataclass(frozen=True, eq=False)
class RocCurve(Facts):
    """Shares of the negatives and of the positives at or above thresholds (t,)."""

    fpr: Array
    tpr: Array


@dataclass(frozen=True, eq=False)
class PrecisionRecallCurve(Facts):
    """Recall and precision at thresholds (t,)."""

    recall: Array
    precision: Array


@dataclass(frozen=True, eq=False)
class Positive(Facts):
    """Every number about the positive class; shares and errors are fractions of 1.

    Attributes
    ----------
    name, other : str
        Name of the positive class, and of the other class.
    guessed : bool
        Whether the positive class was guessed.
    samples, positives : int
        Number of samples, and of positives.
    base_rate : Interval
        Share of positives (Wilson).
    mean : float
        Mean probability.
    gap : Interval
        Mean probability minus base rate.
    ece, auroc, average_precision : Interval
        Metrics of the probability of the positive class, with bootstrap intervals.
    chance_ece : Interval
        The ECE that perfectly calibrated probabilities would have by chance.
    reliability : curves.Reliability
    roc : RocCurve
    precision_recall : PrecisionRecallCurve
    decisions : Decisions
        At the threshold 0.5.
    thresholds, thresholds_after : list of RuleRow
        Thresholds by rule (see `by_rule`), without a map and after the ``recommended`` map.
    recommended : str or None
        Name of the recommended map, a key of `maps`.
    maps : dict of str to EventMap
        For "none" and each map.
    shift : Shift or None
        A change in the share of positives from validation to test set: see `prior_shift`.
    """

    name: str
    other: str
    guessed: bool
    samples: int
    positives: int
    base_rate: Interval
    mean: float
    gap: Interval
    ece: Interval
    chance_ece: Interval
    auroc: Interval
    average_precision: Interval
    reliability: curves.Reliability
    roc: RocCurve
    precision_recall: PrecisionRecallCurve
    decisions: Decisions
    thresholds: list[RuleRow]
    thresholds_after: list[RuleRow]
    recommended: str | None
    maps: dict[str, EventMap]
    shift: Shift | None

    @property
    def quoted(self) -> str:
        """The name in quotation marks."""
        return f"“{self.name}”"

    @property
    def reversed(self) -> bool:
        """Whether positives have lower probabilities than the rest, a bad sign."""
        return self.auroc.high < 0.5

    @property
    def rarer(self) -> tuple[int, str]:
        """Number of samples of the rarer class, and its name in quotation marks."""
        others = self.samples - self.positives
        return min((self.positives, self.quoted), (others, f"“{self.other}”"), key=lambda x: x[0])


def assess_positive(
    data: Predictions,
    found: Mapping[str, Mapped],
    recommended: str | None,
    rules: Rules,
    guessed: bool = False,
) -> Positive:
    """Compute every number about the positive class.

    Parameters
    ----------
    data : Predictions
        Predictions for two classes; `data.positive` is set.
    found : dict of str to Mapped
        The samples after each map, from `recalibration.recalibrated`.
    recommended : str or None
        Name of the recommended map.
    rules : sequence of (str, float)
        Rules for a threshold: a name of `thresholds.RULES` and its value.
    guessed : bool
        Whether the positive class was guessed.

    Returns
    -------
    Positive
    """
    test, event = data.test, data.positive
    p, y = test.scored(event)
    rank, design = test.ranked(event), test.design
    held = None if data.validation is None else data.validation.judged(event)
    draws, names = estimates.replicates(len(y)), ["ece", "auroc", "aupr_success"]
    drawn = {"sample_weight": design.weights, "groups": design.clusters}
    intervals = stats.bootstrap(stats.Ranked(p, y, rank), None, names, n=draws, **drawn)
    roc, precision_recall = curves_of(metrics.Ranking.of(rank, y, design.weights))
    flag, before = p >= 0.5, decide(p, y, 0.5, design)
    claimed = design[flag].average(p[flag]) if before.flagged else 0.0
    chosen, after = list(rules) or default_rules(design.average(y)), []
    mapped, dtype = found.get(recommended), data.logits.dtype
    if mapped is not None and len(mapped.event.p) == len(y):
        held_after = mapped.held and mapped.held.event.judged(dtype)
        after = by_rule(*mapped.event.judged(dtype)[:2], held_after, chosen, design)
    return Positive(
        name=data.class_names[data.positive],
        other=data.class_names[1 - data.positive],
        guessed=guessed,
        samples=len(y),
        positives=int(y.sum()),
        base_rate=design.share(y),
        mean=design.average(p),
        gap=estimates.gap(p, y, design),
        ece=intervals["ece"],
        chance_ece=estimates.chance_ece(p, draws // 5, design, y),
        auroc=intervals["auroc"],
        average_precision=intervals["aupr_success"],
        reliability=estimates.reliability(p, y, design),
        roc=roc,
        precision_recall=precision_recall,
        decisions=replace(before, claimed=claimed),
        thresholds=by_rule(*test.judged(event)[:2], held, chosen, design),
        thresholds_after=after,
        recommended=recommended,
        maps={
            name: _event_map(its.event, its.design, before.flagged / len(y), dtype)
            for name, its in found.items()
        },
        shift=prior_shift(data),
    )


def curves_of(ranking: metrics.Ranking) -> tuple[RocCurve, PrecisionRecallCurve]:
    """Both curves of a figure, at `POINTS` thresholds at most."""
    thin = np.unique(np.linspace(0, len(ranking.confidence) - 1, POINTS).round().astype(int))
    recall = ranking.accepted_right[thin] / max(ranking.all_right, 1e-300)
    false_alarms = ranking.accepted_wrong[thin] / max(ranking.all_wrong, 1e-300)
    roc = RocCurve(np.r_[0, false_alarms], np.r_[0, recall])
    return roc, PrecisionRecallCurve(recall, 1 - ranking.risk()[thin])


def _event_map(event: Scored, design: Design, flagged: float, dtype: np.dtype) -> EventMap:
    """The probability after a map; `flagged` is the share that 0.5 flags without one."""
    p, y, *_ = event
    ranking, ranked = metrics.Ranking.of(p, y, design.weights), metrics.ranked_metrics()
    same, count = None, 0
    if flagged:
        cuts = thresholds.Cuts(Score.computed(p, dtype), y)
        same, count = cuts.nearest(max(round(flagged * len(p)), 1))
    return EventMap(
        mean=design.average(p),
        ece=ranked["ece"](ranking),
        average_precision=ranked["aupr_success"](ranking),
        decisions=decide(p, y, 0.5, design),
        same=same,
        same_flagged=count,
    )


def decide(p: Array, y: Array, threshold: float, design: Design | None = None) -> Decisions:
    """Count what happens if samples with a probability p (n,) at or above a threshold are flagged.

    `y` (n,) says which samples are positive.

    Examples
    --------
    >>> found = decide(np.array([0.9, 0.7, 0.2]), np.array([True, False, True]), 0.5)
    >>> found.flagged, found.found, found.false, found.missed
    (2, 1, 1, 1)
    """
    counts = counted(np.asarray(p) >= threshold, y, design)
    return Decisions(**vars(counts), threshold=threshold)


def counted(flag: Array, y: Array, design: Design | None = None) -> Counts:
    """Count flagged samples: `flag` (n,) says which are flagged, `y` (n,) which are positive."""
    design = design or Design(len(y))
    flagged, found, positives = int(flag.sum()), int((flag & y).sum()), int(y.sum())
    return Counts(
        flagged=flagged,
        found=found,
        false=flagged - found,
        missed=positives - found,
        share=design.share(flag),
        precision=design.share(y, flag),
        recall=design.share(flag, y),
    )


def default_rules(base_rate: float) -> list[tuple[str, float]]:
    """The rules for thresholds that a report shows by default, for a share of positives.

    >>> for share in (0.01, 0.4):
    ...     print(*(f"{rule} {value:g}" for rule, value in default_rules(share)), sep=", ")
    cost_ratio 10, cost_ratio 100, budget 0.01, budget 0.05, precision 0.5, recall 0.9
    cost_ratio 10, precision 0.9, precision 0.95, recall 0.9, recall 0.95
    """
    if base_rate < RARE:
        rules = [("cost_ratio", 10.0), ("cost_ratio", 100.0), ("budget", 0.01), ("budget", 0.05)]
        return [*rules, ("precision", 0.5), ("recall", 0.9)]
    rules = [("cost_ratio", 10.0), ("precision", 0.9), ("precision", 0.95)]
    return [*rules, ("recall", 0.9), ("recall", 0.95)]


def by_rule(
    score: Score, y: Array, held: Samples | None, rules: Rules, design: Design
) -> list[RuleRow]:
    """Choose a threshold for each rule, and measure it on samples that it was not chosen on.

    Parameters
    ----------
    score : Score
        Probabilities (n,) of the positive class.
    y : array (n,) of bool
        Whether each sample is positive.
    held : Samples, or None
        The validation set, to choose thresholds on. Without it, ``precision``, ``recall`` and
        ``share`` are cross-fitted: see `thresholds.Judge`.
    rules : sequence of (str, float)
        Pairs of a name of `thresholds.RULES` and a value.
    design : Design, optional
        Weights and clusters of the test samples.
    """
    rows = []
    test = Samples(score, y, design.weights)
    judge = thresholds.Judge(test, held, clusters=design.clusters)
    for rule, value in rules:
        threshold, flag, fitted = judge(rule, value)
        here, expected = counted(flag, y, design), counted(fitted, y, design)
        kept, costs = None, [None, None]
        if rule == "cost_ratio":
            flags = flag, score.p >= 0.5
            costs = [design.average(value * (y & ~x) + (x & ~y)) for x in flags]
        elif rule in ("precision", "recall") and here.flagged:
            kept = estimates.kept(expected[rule], at_least=value)
        rows.append(
            RuleRow(
                **vars(expected) | {name: here[name] for name in COUNTED},
                threshold=threshold,
                rule=rule,
                value=float(value),
                kept=kept,
                cost=costs[0],
                cost_at_half=costs[1],
            )
        )
    return rows


# --- another share of positives than in the validation set ---


def shift_prior(p: Array, old: float, new: float) -> Array:
    """Correct probabilities of the positive class for another share of positives.

    By Bayes' rule, the odds change by the factor new (1 - old) / (old (1 - new)). This holds if
    positives and negatives look as before, and only their shares have changed (Saerens et al. 2002,
    eq. 2.4).

    Parameters
    ----------
    p : array (n,)
        Probabilities that are calibrated for the share `old` of positives.
    old : float
        The share of positives for which `p` is calibrated, above 0 and below 1.
    new : float
        The share of positives to correct for, above 0 and below 1.

    Returns
    -------
    array (n,)

    Examples
    --------
    >>> shift_prior(np.array([0.5, 0.9]), 0.5, 0.1).round(3).tolist()
    [0.1, 0.5]
    """
    p = np.asarray(p, np.float64)
    up, down = p * (new / old), (1 - p) * ((1 - new) / (1 - old))
    return up / (up + down)


def estimate_prior(p: Array, old: float, weights: Array | None = None) -> float:
    """Estimate the share of positives in unlabelled samples by maximum likelihood.

    This is the EM algorithm of Saerens et al. (2002): correct the probabilities for the estimated
    share by `shift_prior`, take their mean as the next estimate, and repeat until it stays.

    Parameters
    ----------
    p : array (n,)
        Probabilities that are calibrated for the share `old` of positives.
    old : float
        That share, above 0 and below 1.
    weights : array (n,), optional
        How much each sample counts.

    Returns
    -------
    float
        Above 0 and below 1.

    Examples
    --------
    >>> round(estimate_prior(np.array([0.9] * 3 + [0.1] * 7), 0.5), 2)
    0.25
    """
    new = old
    for _ in range(1000):  # at most
        share = np.average(shift_prior(p, old, new), weights=weights)
        after = float(np.clip(share, 1e-9, 1 - 1e-9))
        if abs(after - new) < 1e-10:
            break
        new = after
    return new


def prior_shift(data: Predictions) -> Shift | None:
    """Test whether positives are as common in the test set as in the validation set (chi-squared).

    Returns
    -------
    Shift or None
        None without a validation set, or if the shares do not differ beyond chance.
    """
    held, event = data.validation, data.positive
    if held is None or event is None:
        return None
    from scipy.stats import chi2_contingency

    sets = [(part.design, part.labels == event) for part in (held, data.test)]
    table = [[hit.sum(), (~hit).sum()] for _, hit in sets]
    if 0 in np.sum(table, axis=0):
        return None
    validation, test = (design.share(hit) for design, hit in sets)
    p_value = float(chi2_contingency(table).pvalue)
    if not all(design.plain for design, _ in sets):
        means = [design.mean(hit.astype(float)) for design, hit in sets]
        z = (means[0][0] - means[1][0]) / math.hypot(*(x.high - x.estimate for x in means))
        p_value = 2 * NormalDist().cdf(-NormalDist().inv_cdf(0.975) * abs(z))
    return None if p_value > SURE else Shift(validation, test, p_value)
