"""Two classes, of which one is of interest: its probability, its decisions, their threshold.

Everything here is about one event, "the sample is positive": the probability p that the model gives
it, and whether it happened. Where positives are rare this is another question than that of the top
label, which is nearly always "negative" and nearly always right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from calibkit import curves, metrics, stats
from calibkit.arrays import Array
from calibkit.report import estimates, thresholds
from calibkit.report.design import Design
from calibkit.report.predictions import Predictions
from calibkit.report.scores import Samples, Score
from calibkit.stats import Interval

RARE = 0.2  # share of positives below which budgets and low precisions are what people ask for
POINTS = 300  # of a curve
SURE = 0.01  # level of the test for another share of positives in the validation set
_POSITIVE = ("1", "1.0", "true", "yes", "y", "positive", "pos", "fraud", "spam", "anomaly")
_POSITIVE += ("abnormal", "malignant", "disease", "churn", "default", "toxic", "attack", "defect")
_NEGATIVE = ("0", "0.0", "false", "no", "n", "negative", "neg", "legit", "legitimate", "ham")
_NEGATIVE += ("normal", "benign", "healthy", "ok", "genuine", "none", "other")


def guess(data: Predictions) -> int:
    """The class of interest if nobody named it: by its name, else the rarer one.

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


@dataclass(frozen=True, eq=False)
class Positive:
    """Every number about the positive class; shares and errors are fractions of 1.

    Attributes
    ----------
    name, other : str
        The positive class, and the other.
    guessed : bool
        Whether nobody said which it is.
    samples, positives : int
    base_rate : Interval
        Share of positives (Wilson).
    mean : float
        Mean probability.
    gap : Interval
        Mean probability minus base rate.
    ece, auroc, average_precision : Interval
        Of the probability, by bootstrap.
    chance_ece : Interval
        The ECE of as many samples of calibrated probabilities.
    reliability : curves.Reliability
    roc, precision_recall : dict
        Pairs of arrays, for a figure.
    decisions : dict
        At 0.5: see `decide`, and ``claimed``, the mean probability of what is flagged.
    thresholds, thresholds_after : list of dict
        See `by_rule`; the second after the ``recommended`` map.
    recommended : str or None
        One of `maps`.
    maps : dict of str to dict
        For "none" and each recalibration ``mean``, ``ece``, ``average_precision``, ``decisions`` at
        0.5 and ``same``, the threshold that flags as many as before, or most nearly as many, and
        ``same_flagged``, how many it flags.
    shift : dict or None
        See `prior_shift`.
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
    roc: dict
    precision_recall: dict
    decisions: dict
    thresholds: list[dict]
    thresholds_after: list[dict]
    recommended: str | None
    maps: dict[str, dict]
    shift: dict | None

    @property
    def quoted(self) -> str:
        """The name in quotation marks."""
        return f"“{self.name}”"

    @property
    def rarer(self) -> tuple[int, str]:
        """Samples of the rarer class, and its name in quotation marks."""
        others = self.samples - self.positives
        return min((self.positives, self.quoted), (others, f"“{self.other}”"), key=lambda x: x[0])


def assess_positive(
    data: Predictions,
    found: dict[str, dict],
    recommended: str | None,
    rules: Sequence[tuple[str, float]],
    guessed: bool = False,
) -> Positive:
    """Every number about the positive class.

    Parameters
    ----------
    data : Predictions
        Of two classes, with `positive` chosen.
    found : dict of str to dict
        For each recalibration ``test`` and perhaps ``validation``: its probabilities of the
        positive class. From `assessment.recalibrated`.
    recommended : str or None
        One of them.
    rules : sequence of (str, float)
        Rules for a threshold: a name of `thresholds.RULES` and its value.
    guessed : bool
        Whether nobody said which class is the positive one.

    Returns
    -------
    Positive
    """
    p, y = data.scored(data.positive)
    score, held = data.judged(data.positive).score, data.judged(data.positive, held=True)
    rank, design = data.ranked(data.positive), data.design
    draws, names = estimates.replicates(len(y)), ["ece", "auroc", "aupr_success"]
    drawn = {"sample_weight": design.weights, "groups": design.clusters}
    intervals = stats.bootstrap(stats.Ranked(p, y, rank), None, names, n=draws, **drawn)
    ranking = metrics.Ranking.of(rank, y, design.weights)
    thin = np.unique(np.linspace(0, len(ranking.confidence) - 1, POINTS).round().astype(int))
    recall = ranking.accepted_right[thin] / max(ranking.all_right, 1e-300)
    false_alarms = ranking.accepted_wrong[thin] / max(ranking.all_wrong, 1e-300)
    before, flag = decide(p, y, 0.5, design), p >= 0.5
    before["claimed"] = design[flag].average(p[flag]) if before["flagged"] else 0.0
    chosen, after = list(rules) or default_rules(design.average(y)), []
    if recommended in found and len(found[recommended]["test"][0]) == len(y):
        dtype, its = data.logits.dtype, found[recommended]
        both = (its["test"], data.weights), (its["validation"], data.val_weights)
        computed = [
            pair and Samples(Score.computed(pair[0], dtype), pair[1], weights)
            for pair, weights in both
        ]
        after = by_rule(*computed[0][:2], computed[1], chosen, design)
    return Positive(
        name=data.class_names[data.positive],
        other=data.class_names[1 - data.positive],
        guessed=guessed,
        samples=len(y),
        positives=int(y.sum()),
        base_rate=design.share(y),
        mean=design.average(p),
        gap=estimates.gap(p, y, design=design),
        ece=intervals["ece"],
        chance_ece=estimates.chance_ece(p, draws // 5, design, y),
        auroc=intervals["auroc"],
        average_precision=intervals["aupr_success"],
        reliability=estimates.reliability(p, y, design),
        roc={"fpr": np.r_[0, false_alarms], "tpr": np.r_[0, recall]},
        precision_recall={"recall": recall, "precision": 1 - ranking.risk()[thin]},
        decisions=before,
        thresholds=by_rule(score, y, held, chosen, design),
        thresholds_after=after,
        recommended=recommended,
        maps={
            name: _of_map(*of["test"], before["flagged"] / len(y), data.logits.dtype, of["design"])
            for name, of in found.items()
        },
        shift=prior_shift(data),
    )


def _of_map(p: Array, y: Array, flagged: float, dtype: np.dtype, design: Design) -> dict:
    ranking, ranked = metrics.Ranking.of(p, y, design.weights), metrics.ranked_metrics()
    cuts, same, count = thresholds.Cuts(Score.computed(p, dtype), y), None, 0
    if flagged:
        same, count = cuts.nearest(max(round(flagged * len(p)), 1))
    return {
        "mean": design.average(p),
        "ece": ranked["ece"](ranking),
        "average_precision": ranked["aupr_success"](ranking),
        "decisions": decide(p, y, 0.5, design),
        "same": same,
        "same_flagged": count,
    }


def decide(p: Array, y: Array, threshold: float, design: Design | None = None) -> dict:
    """What a threshold does: those with p of at least so much are flagged.

    Returns
    -------
    dict
        ``threshold``; counts of rows ``flagged``, ``found`` (positives flagged), ``false``
        (negatives flagged), ``missed``; ``share`` (flagged), ``precision``, ``recall``, as from
        `Design.share`.

    Examples
    --------
    >>> found = decide(np.array([0.9, 0.7, 0.2]), np.array([True, False, True]), 0.5)
    >>> found["flagged"], found["found"], found["false"], found["missed"]
    (2, 1, 1, 1)
    """
    return {"threshold": threshold} | counted(np.asarray(p) >= threshold, y, design)


def counted(flag: Array, y: Array, design: Design | None = None) -> dict:
    """What becomes of positives and negatives that are flagged: see `decide`."""
    design = design or Design(len(y))
    flagged, found, positives = int(flag.sum()), int((flag & y).sum()), int(y.sum())
    return {
        "flagged": flagged,
        "found": found,
        "false": flagged - found,
        "missed": positives - found,
        "share": design.share(flag),
        "precision": design.share(y, flag),
        "recall": design.share(flag, y),
    }


def default_rules(base_rate: float) -> list[tuple[str, float]]:
    """Rules to show if none are asked for.

    >>> default_rules(0.4)[:2]
    [('cost_ratio', 10.0), ('precision', 0.9)]
    """
    if base_rate < RARE:
        rules = [("cost_ratio", 10.0), ("cost_ratio", 100.0), ("budget", 0.01), ("budget", 0.05)]
        return [*rules, ("precision", 0.5), ("recall", 0.9)]
    rules = [("cost_ratio", 10.0), ("precision", 0.9), ("precision", 0.95)]
    return [*rules, ("recall", 0.9), ("recall", 0.95)]


def by_rule(
    score: Score,
    y: Array,
    held: Samples | None,
    rules: Sequence[tuple[str, float]],
    design: Design | None = None,
) -> list[dict]:
    """For each rule the threshold, and what it does to samples it was not chosen on.

    Parameters
    ----------
    score : Score
        Probabilities (n,) of the positive class.
    y : array (n,) of bool
        Whether it is the true one.
    held : Samples, or None
        The same of a validation set, to choose thresholds on. Without one, ``precision``,
        ``recall`` and ``share`` are cross-fitted, as by `thresholds.Judge`.
    rules : sequence of (str, float)
    design : Design, optional
        How the test samples were drawn.

    Returns
    -------
    list of dict
        As from `decide`, and ``rule``, ``value``, ``cost`` (of a sample, in false alarms; for a
        cost ratio), ``cost_at_half`` (with a threshold of 0.5), ``kept`` (True or False if the
        interval of a precision or recall is on one side of the value, else None). ``threshold``
        is None if none keeps the rule.
    """
    rows, design = [], design or Design(len(y))
    test = Samples(score, y, design.weights)
    judge = thresholds.Judge(test, held, clusters=design.clusters)
    for rule, value in rules:
        threshold, flag, fitted = judge(rule, value)
        row = {"threshold": threshold} | counted(flag, y, design)
        expected = counted(fitted, y, design)
        row |= {key: expected[key] for key in ("precision", "recall", "share")}
        row |= {"rule": rule, "value": float(value), "kept": None}
        if rule == "cost_ratio":
            row["cost"], row["cost_at_half"] = (
                design.average(value * (y & ~x) + (x & ~y)) for x in (flag, score.p >= 0.5)
            )
        elif rule in ("precision", "recall") and row["flagged"]:
            row["kept"] = estimates.kept(row[rule], at_least=value)
        rows.append(row)
    return rows


# --- another share of positives than in the validation set ---


def shift_prior(p: Array, old: float, new: float) -> Array:
    """Probabilities of the positive class where another share of samples is positive.

    By Bayes' rule, odds change by the factor new (1 - old) / (old (1 - new)), if positives and
    negatives look as they did (Saerens et al. 2002, eq. 2.4).

    Parameters
    ----------
    p : array (n,)
        Calibrated where a share `old` is positive.
    old, new : float
        Shares of positives, above 0 and below 1.

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
    """The share of positives in unlabelled samples, by maximum likelihood (Saerens et al. 2002).

    Their EM algorithm: the new share is the mean of the probabilities as `shift_prior` corrects
    them for it, until that no longer changes.

    Parameters
    ----------
    p : array (n,)
        Probabilities that are calibrated where a share `old` is positive.
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


def prior_shift(data: Predictions) -> dict | None:
    """Shares of positives of validation and test set, if they differ by more than chance.

    Returns
    -------
    dict or None
        ``validation``, ``test`` (Wilson intervals) and the ``p_value`` of the chi-squared test;
        None without a validation set, or if the shares could be the same.
    """
    if data.val_logits is None or data.positive is None:
        return None
    from scipy.stats import chi2_contingency

    val, test = data.val_labels == data.positive, data.labels == data.positive
    table = [[val.sum(), (~val).sum()], [test.sum(), (~test).sum()]]
    if 0 in np.sum(table, axis=0):
        return None
    designs = data.val_design, data.design
    validation, share = (x.share(y) for x, y in zip(designs, (val, test), strict=True))
    p_value = float(chi2_contingency(table).pvalue)
    if not (data.val_design.plain and data.design.plain):
        means = [x.mean(y.astype(float)) for x, y in zip(designs, (val, test), strict=True)]
        z = (means[0][0] - means[1][0]) / math.hypot(*(x.high - x.estimate for x in means))
        p_value = 2 * NormalDist().cdf(-NormalDist().inv_cdf(0.975) * abs(z))
    if p_value > SURE:
        return None
    return {"validation": validation, "test": share, "p_value": p_value}
