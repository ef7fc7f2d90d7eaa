"""From saved predictions to all the numbers of a report: what can this confidence be used for?

A threshold or a recalibration is never judged on the samples it was chosen on: it is chosen on the
validation set if there is one, otherwise by cross-fitting. Each sample's confidence, correctness
and scores are computed once, by `assess`, and passed to every part.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan

import numpy as np

from calibkit import __version__, curves, metrics, posthoc, stats
from calibkit.arrays import Array, softmax
from calibkit.report import (
    conformal,
    estimates,
    paired,
    positive,
    predictions,
    sampling,
    thresholds,
)
from calibkit.report.design import Design
from calibkit.report.predictions import Predictions
from calibkit.report.scores import Samples, Score
from calibkit.stats import Interval

ROWS = 1_000_000  # more are subsampled at random: intervals are narrow enough by then
GROUPS = 50  # shown at most
SHOWN = 20  # classes one by one; of more, those that are furthest off
NAMES = {
    "temperature": "temperature scaling",
    "structured": "structured matrix scaling",
    "vector": "vector scaling",
    "matrix": "matrix scaling",
    "beta": "beta calibration",
    "top": "beta calibration of the top label",
    "isotonic": "isotonic regression",
    "histogram": "histogram binning",
}  # of the maps on offer
TRIED = ("temperature", "structured", "histogram", "isotonic")
RECALIBRATIONS = {NAMES[x]: posthoc.MAPS[x] for x in TRIED}
PER_CLASS = 50  # samples to fit the structured matrix to: of fewer a temperature makes more
# Of two classes, and of confidences: binning the top label says little, and a shift of the odds,
# as training with class weights leaves behind, takes more than a temperature.
OF_TWO = {NAMES[x]: posthoc.MAPS[x] for x in ("temperature", "beta", "isotonic")}


@dataclass(frozen=True, eq=False)
class Assessment:
    """Every number of a report; shares, confidences and errors are fractions of 1.

    Attributes
    ----------
    name, against : str, str or None
        Names of the model and of a second one.
    calibkit : str
        Version.
    samples, classes, errors, validation : int
        How many; 0 without a validation set.
    pairs : bool
        Whether only confidences are known.
    notes : list of str
        How the file was read.
    doubts : list of str
        Reasons to believe that labels and columns do not belong together: no map is recommended.
    metrics : dict of str to Interval
        Those of `metrics.summary`; ``nan`` ends where there is no interval.
    gap : Interval
        Confidence minus accuracy.
    chance_ece : Interval
        The ECE of as many samples of a model without calibration error: see
        `estimates.chance_ece`.
    reliability : curves.Reliability
    histogram : curves.ConfidenceHistogram
    risk_coverage : curves.RiskCoverage
    operating_points, points_after : list of dict
        See `operating_points`; the second on the confidence after the ``recommended`` map.
    main_point : dict or None
        The operating point of the headline.
    recalibration : dict of str to dict
        The results of `recalibrated`.
    recommended : str or None
        One of these.
    groups, predicted, by_class : list of dict
        See `by_group` (of groups, and of predicted classes) and `by_class`.
    comparison : dict or None
        See `paired.compare`; None without a second model.
    checks : dict
        See `checks`.
    conformal : conformal.Sets or None
        None for two classes.
    positive : positive.Positive or None
        None unless there are two classes.
    """

    name: str
    against: str | None
    calibkit: str
    samples: int
    classes: int
    pairs: bool
    errors: int
    validation: int
    notes: list[str]
    doubts: list[str]
    metrics: dict[str, Interval]
    gap: Interval
    chance_ece: Interval
    reliability: curves.Reliability
    histogram: curves.ConfidenceHistogram
    risk_coverage: curves.RiskCoverage
    operating_points: list[dict]
    main_point: dict | None
    recalibration: dict[str, dict]
    recommended: str | None
    points_after: list[dict]
    groups: list[dict]
    predicted: list[dict]
    by_class: list[dict]
    comparison: dict | None
    checks: dict
    conformal: conformal.Sets | None
    positive: positive.Positive | None


def assess(
    data: Predictions,
    against: Predictions | None = None,
    target_risk: Sequence[float] = (),
    rules: Sequence[tuple[str, float]] = (),
    log: Callable[[str], None] = lambda line: None,
) -> Assessment:
    """Compute every number in a report.

    Parameters
    ----------
    data, against, target_risk, rules, log
        As in `calibkit.report.build`.

    Returns
    -------
    Assessment

    Raises
    ------
    ValueError
        If there are fewer than `estimates.LEAST` samples, if the labels of the two models differ,
        or if a target is not between 0 and 1.

    Examples
    --------
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> numbers = assess(predictions.from_arrays(scores))
    >>> numbers.errors, round(numbers.gap.estimate, 3)
    (20, 0.067)
    """
    thresholds.check(data, target_risk, rules)
    if against is not None:
        predictions.check_same(data, against, "against")
    data, against = sampling.counted(data, against)
    data, against = data.sample(ROWS), against and against.sample(ROWS)
    two = len(data.class_names) == 2 and not data.pairs
    guessed = two and data.positive is None
    if guessed:
        data = replace(data, positive=positive.guess(data))
    (n, k), design = data.logits.shape, data.design
    with warnings.catch_warnings():
        # The page says what is undefined, in its place, and whether sets share samples.
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        log(f"{n:,} samples, {k:,} classes: metrics")
        confidence, correct = data.scored()
        with_intervals = _metrics(data, log)
        points = operating_points(data, target_risk)
        chosen = _main_point(points, 1 - with_intervals["accuracy"].estimate)
        predicted = []
        if not data.pairs:
            # All classes, so that the worst of many are among them.
            predicted = by_group(
                data.logits.argmax(axis=1),
                confidence,
                correct,
                chosen,
                k,
                rank=data.ranked(),
                design=design,
            )
            predicted = predicted if len(predicted) <= GROUPS else _worst(predicted)
        results, found = recalibrated(data, log)
        ranked = [*metrics.ranked_metrics(), "nll", "brier"]
        asked = checks(data)
        doubts = [
            *data.doubts,
            *(f"{against.name}: {x}" for x in (against.doubts if against else ())),
        ]
        best = None if asked["guessing"] or doubts else recommended(results)
        after = [_judged(data, *x) for x in found[best]["confidence"]] if best else None
        return Assessment(
            name=data.name,
            against=against.name if against else None,
            calibkit=__version__,
            samples=n,
            classes=k,
            pairs=data.pairs,
            errors=int((~correct).sum()),
            validation=0 if data.val_labels is None else len(data.val_labels),
            notes=list(data.notes),
            doubts=doubts,
            metrics=with_intervals,
            gap=estimates.gap(confidence, correct, design=design),
            chance_ece=estimates.chance_ece(
                confidence, estimates.replicates(n) // 5, design, correct
            ),
            reliability=estimates.reliability(confidence, correct, design),
            histogram=curves.prepare_confidence_histogram(
                confidence, correct, sample_weight=design.weights
            ),
            risk_coverage=_risk_coverage(data.ranked(), correct, design),
            operating_points=points,
            main_point=chosen,
            recalibration=results,
            recommended=best,
            points_after=_points(*after, target_risk, data.sample(estimates.judged(k)).design)
            if after
            else [],
            groups=_by_columns(data, chosen),
            predicted=[row | {"group": data.class_names[row["group"]]} for row in predicted],
            by_class=[] if data.pairs or two else by_class(data),
            comparison=against
            and paired.compare([data, against], ranked, n=estimates.replicates(n)),
            checks=asked,
            conformal=conformal.sets(data),
            positive=positive.assess_positive(data, found, best, rules, guessed) if two else None,
        )


def _ranking(samples: dict[str, Array], weights: Array | None) -> metrics.Ranking:
    """The ranking by what ranks samples; its bins are those of the confidence."""
    _, first, place = np.unique(-samples["rank"], return_index=True, return_inverse=True)
    right, wrong = (
        np.bincount(place[which], None if weights is None else weights[which], len(first))
        for which in (samples["correct"], ~samples["correct"])
    )
    return metrics.Ranking(samples["confidence"][first], right, wrong)


def _metrics(data: Predictions, log: Callable[[str], None]) -> dict[str, Interval]:
    names, scores = [*metrics.ranked_metrics(), "nll", "brier"], stats.Samples(**data.samples)
    log("intervals")
    replicates, design = estimates.replicates(len(data.labels)), data.design
    drawn = {"sample_weight": design.weights, "groups": design.clusters}
    intervals = stats.bootstrap(scores, data.labels, names, n=replicates, **drawn)
    if data.logits.size <= 200_000 and not data.pairs:  # each resample costs a pass over the array
        more = ["classwise_ece"]
        intervals |= stats.bootstrap(data.logits, data.labels, more, n=replicates, **drawn)
    if data.pairs:
        return intervals
    values = metrics.summary(data.logits, data.labels, sample_weight=design.weights)
    if not design.plain:  # a floor is that of as many samples as are independent
        more = ["classwise_ece_floor", "excess_classwise_ece"]
        found = stats.bootstrap(data.logits, data.labels, more, n=2, **drawn)
        values |= {name: found[name].estimate for name in more}
    del values["n"]
    return {name: intervals.get(name, Interval(x, nan, nan)) for name, x in values.items()}


def _by_columns(data: Predictions, point: dict | None) -> list[dict]:
    """`by_group` of every column of groups; of the positive class, if there is one."""
    if data.groups is None:
        return []
    event, happened = data.scored(data.positive)
    rank = data.ranked(data.positive)
    point = point if data.positive is None else {"threshold": 0.5}
    columns = data.groups.reshape(len(data.groups), -1).T
    among = sum(len(np.unique(column)) for column in columns)
    rows = []
    for name, column in zip(data.group_names or ("group",) * len(columns), columns, strict=True):
        for row in by_group(
            column, event, happened, point, among=among, rank=rank, design=data.design
        ):
            group = f"{name}: {row['group']}" if len(columns) > 1 else row["group"]
            rows.append(row | {"group": group, "column": name})
    return rows


def by_class(data: Predictions) -> list[dict]:
    """For each class its mean probability beside its share of the labels, one against the rest.

    Returns
    -------
    list of dict
        Of up to `SHOWN` classes; of more, those whose gap is the least likely by chance.
        ``group`` (name), ``samples`` (of that class), ``share``, ``mean`` (probability), ``gap``
        (mean minus share), ``stands_out`` (allowing for the number of classes).

    Examples
    --------
    >>> scores = {"probs": [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]] * 20, "labels": [0, 1] * 20}
    >>> [round(row["gap"].estimate, 2) for row in by_class(predictions.from_arrays(scores))]
    [0.0, -0.35, 0.35]
    """
    k, design = data.logits.shape[1], data.design
    probs, count = softmax(data.logits), np.bincount(data.labels, minlength=k)
    rows = []
    for i, name in enumerate(data.class_names):
        p, true = probs[:, i], data.labels == i
        strict = estimates.gap(p, true, 1 - 0.05 / k, design)
        rows.append(
            {
                "group": name,
                "samples": int(count[i]),
                "share": design.average(true),
                "mean": design.average(p),
                "gap": estimates.gap(p, true, design=design),
                "stands_out": len(p) >= estimates.FEW and not strict.low <= 0 <= strict.high,
            }
        )
    return rows if k <= SHOWN else _worst(rows)


def _worst(rows: list[dict]) -> list[dict]:
    """The rows whose gap is the most half widths of its interval from 0."""

    def evidence(row: dict) -> float:
        gap = row["gap"]
        return abs(gap.estimate) / max(gap.high - gap.low, 1e-300)

    return sorted(rows, key=evidence, reverse=True)[:SHOWN]


def operating_points(data: Predictions, target_risk: Sequence[float] = ()) -> list[dict]:
    """Thresholds on the confidence for given error rates, and what they achieve.

    A threshold comes from `metrics.threshold_at_risk` on the validation set; its coverage and error
    rate are measured on the test set. Without a validation set the threshold is chosen on all
    samples, and the error rate is cross-fitted: see `thresholds.Judge`.

    Parameters
    ----------
    data : Predictions
    target_risk : sequence of float
        By default `thresholds.targets`.

    Returns
    -------
    list of dict
        ``target``; ``threshold`` (None if no threshold reaches the target); ``accepted``, ``wrong``
        (counts among all samples, at that threshold); ``coverage``, ``risk`` (as from
        `Design.share`; without a validation set the risk is the cross-fitted one); ``kept`` (True
        or False if the interval of the risk is on one side of the target, else None).

    Examples
    --------
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> point, _ = operating_points(predictions.from_arrays(scores), [0.1, 0.5])
    >>> point["threshold"], point["accepted"], point["wrong"]
    (0.89, 20, 0)
    """
    return _points(data.judged(), data.judged(held=True), target_risk, data.design)


def _points(
    test: Samples, held: Samples | None, target_risk: Sequence[float], design: Design
) -> list[dict]:
    points, judge = [], thresholds.Judge(test, held, clusters=design.clusters)
    for target in sorted(target_risk or thresholds.targets(held or test)):
        threshold, accept, fitted = judge("target_risk", target)
        wrong = ~test.y
        risk = design.share(wrong, fitted)
        points.append(
            {
                "target": float(target),
                "threshold": threshold,
                "coverage": design.share(accept),
                "risk": risk,
                "accepted": int(accept.sum()),
                "wrong": int((accept & wrong).sum()),
                "kept": estimates.kept(risk, at_most=target),
            }
        )
    return points


def recalibrated(
    data: Predictions, log: Callable[[str], None] = lambda line: None
) -> tuple[dict[str, dict], dict[str, dict]]:
    """What temperature scaling and a few other maps would do.

    The others are the structured matrix (from `PER_CLASS` samples a class on), histogram binning
    and isotonic regression or, for two classes and for confidences, beta calibration and isotonic
    regression. Each is fitted on the validation set, or else by cross-fitting as in
    `operating_points`; of many samples, a random part is used (`estimates.judged`). Where two
    classes are of other shares in the validation set than in the test set, one more row is the best
    of these, corrected for it (`positive.shift_prior`).

    Returns
    -------
    results : dict of str to dict
        For "none" and each map: ``accuracy``, ``ece``, ``adaptive_ece``, ``nll``,
        ``brier``, ``auroc``, ``aurc``; ``brier_change`` (paired, with a t interval over samples);
        ``brier_beyond``, the same against the usual map: beta calibration, or a temperature where
        there are more classes; ``changed`` (answers), ``judged_on`` (samples); ``temperatures``
        (one per fit, of temperature scaling), ``fitted_on`` (samples), ``at_end`` (whether a fitted
        number is at the end of its range), ``warnings``. One that cannot be fitted has only
        ``warnings``.
    found : dict of str to dict
        What becomes of the samples. ``confidence``: (confidence, correct, weights) of the test and
        of the validation set, the second of None without one; for two classes ``test`` and
        ``validation``, pairs (probability of the positive class, whether it is the true one).

    Examples
    --------
    >>> probs, labels = [[0.9, 0.05, 0.05], [0.3, 0.6, 0.1], [0.7, 0.2, 0.1]] * 20, [0, 1, 1] * 20
    >>> results, _ = recalibrated(predictions.from_arrays({"probs": probs, "labels": labels}))
    >>> {name: round(row["ece"], 2) for name, row in results.items() if "binning" not in name}
    {'none': 0.4, 'temperature scaling': 0.38, 'isotonic regression': 0.08}
    """
    k = data.logits.shape[1]
    data = data.sample(estimates.judged(k))
    few = len(data.labels if data.val_labels is None else data.val_labels) < PER_CLASS * k
    before = _event(data, data.logits, data.labels) | data.samples
    results: dict[str, dict] = {"none": _scores(data, before, before)}
    found, models = {"none": _found(data, before)}, {}
    for name, kind in (OF_TWO if k == 2 else RECALIBRATIONS).items():
        if few and kind is posthoc.StructuredScaling:
            continue
        log(f"recalibration: {name}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", posthoc.PosthocWarning)
            try:
                maps, probs, size = estimates.held_out(data, kind)
            except (ValueError, ImportError) as error:
                results[name] = {"warnings": [f"cannot be fitted ({error})"]}
                continue
        caught = [w for w in caught if issubclass(w.category, posthoc.PosthocWarning)]
        # What is raised is said below, in the measure of the report.
        said = [w for w in caught if not issubclass(w.category, posthoc.RaisedErrorWarning)]
        messages = [str(w.message) for w in said]
        after = _of_probs(data, probs, data.labels)
        results[name] = _scores(data, after, before)
        old, new = (_ece(data, its) for its in (before, after))
        if new > old + 0.01 and name == "temperature scaling":
            messages.append(f"it raises the ECE from {100 * old:.1f} % to {100 * new:.1f} %")
        results[name]["warnings"] = messages[:1]  # folds repeat each other
        results[name]["fitted_on"] = size
        at_end = any(issubclass(w.category, posthoc.EndOfRangeWarning) for w in caught)
        results[name]["at_end"] = at_end
        if name == "temperature scaling":
            results[name]["temperatures"] = [getattr(each, "temperature_", None) for each in maps]
        found[name], models[name] = _found(data, after), (maps[-1], after["brier"])
    for name, (_, brier) in models.items() if (usual := usual_map(results)) in models else ():
        results[name]["brier_beyond"] = data.design.mean(brier - models[usual][1])
    if data.val_logits is not None:  # where thresholds are chosen
        shifted = positive.prior_shift(data) is not None
        for name in models if shifted else {recommended(results)} & models.keys():
            held = _of_probs(data, models[name][0].predict_proba(data.val_logits), data.val_labels)
            found[name] |= _held(data, found[name]["confidence"][0], held)
        if shifted:
            _correct_prior(data, results, found, before)
    return results, found


def _ece(data: Predictions, samples: dict[str, Array]) -> float:
    """The ECE that the report is about: of the probability of the positive class, if there is one.

    Of a confidence, with its correctness, otherwise.
    """
    pair = samples["confidence"], samples["correct"]
    if data.positive is not None:
        pair = samples["p"], data.labels == data.positive
    return metrics.ranked_metrics()["ece"](metrics.Ranking.of(*pair, data.weights))


def _of_probs(data: Predictions, probs: Array, labels: Array) -> dict[str, Array]:
    """Scores of every sample, as `predictions.of_samples`, and its answer and event."""
    step = estimates.AT_ONCE
    parts = [
        _of_some(data, probs[i : i + step], labels[i : i + step])
        for i in range(0, len(labels), step)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _of_some(data: Predictions, probs: Array, labels: Array) -> dict[str, Array]:
    logits = predictions.log_probs(probs)
    values = predictions.of_samples(logits, labels, probs[:, 1] if data.pairs else None)
    never = probs[np.arange(len(labels)), labels] == 0  # whose logarithm was made finite
    values["nll"] = np.where(never, inf, values["nll"])
    return _event(data, logits, labels, probs) | values


def _event(
    data: Predictions, logits: Array, labels: Array, probs: Array | None = None
) -> dict[str, Array]:
    """The answers, and the probability of the positive class if there is one."""
    event = {"answer": np.zeros(len(labels), int) if data.pairs else logits.argmax(axis=1)}
    if data.positive is not None:
        probs = softmax(logits.astype(np.float64)) if probs is None else probs
        event["p"] = probs[:, data.positive]
    return event


def _found(data: Predictions, after: dict[str, Array]) -> dict:
    """What to choose thresholds with: see `recalibrated`."""
    found = {"confidence": [_kept(after, data.weights), (None,) * 3], "design": data.design}
    if data.positive is not None:
        found["test"] = after["p"], data.labels == data.positive
        found["validation"] = None
    return found


def _held(data: Predictions, after: tuple, held: dict[str, Array]) -> dict:
    """The same, with the validation set."""
    found = {"confidence": [after, _kept(held, data.val_weights)]}
    if data.positive is not None:
        found["validation"] = held["p"], data.val_labels == data.positive
    return found


def _kept(after: dict[str, Array], weights: Array | None) -> tuple[Array, Array, Array | None]:
    return after["confidence"], after["correct"], weights


def _judged(
    data: Predictions, confidence: Array | None, correct: Array, weights: Array | None
) -> Samples | None:
    """The confidence by a map, for thresholds."""
    if confidence is None:
        return None
    return Samples(Score.computed(confidence, data.logits.dtype), correct, weights)


def _correct_prior(data: Predictions, results: dict, found: dict, before: dict) -> None:
    """Add the best map corrected for another share of positives in the test set."""
    fitted = [x for x in OF_TWO if "brier" in results[x] and isfinite(results[x]["nll"])]
    if not fitted:
        return

    def held_out_nll(name: str) -> float:
        p, y = found[name]["validation"]
        return data.val_design.average(-predictions.log_probs(np.where(y, p, 1 - p), data.floor))

    base = min(fitted, key=held_out_nll)
    old = data.val_design.average(data.val_labels == data.positive)
    p = found[base]["test"][0]
    new = positive.estimate_prior(p, old, data.weights)
    shifted = positive.shift_prior(p, old, new)
    probs = np.stack([1 - shifted, shifted], axis=1)
    probs = probs if data.positive == 1 else probs[:, ::-1]
    after = _of_probs(data, np.ascontiguousarray(probs), data.labels)
    name = f"{base}, corrected for prevalence"
    results[name] = _scores(data, after, before) | {"warnings": [], "prior": new, "base": base}
    results[name]["fitted_on"] = results[base]["fitted_on"]
    # A threshold cannot be chosen on the validation set, whose share of positives is another.
    found[name] = _found(data, after)


def recommended(results: dict[str, dict]) -> str | None:
    """The map of `recalibrated` to take, or None if none clearly helps.

    It lowers the Brier score by more than chance and by at least a thousandth, does not raise the
    NLL, which is infinite where something happens that a map has given a probability of 0, and no
    number of it is at the end of its range. Of several, the usual one
    (beta calibration, or a temperature where there are more classes), unless others have a Brier
    score that is lower by more than chance: then the best of these.

    Examples
    --------
    >>> from calibkit.stats import Interval
    >>> plain = {"brier": 0.3, "nll": 0.9}
    >>> fitted = {"brier": 0.2, "nll": 0.6, "brier_change": Interval(-0.1, -0.15, -0.05)}
    >>> recommended({"none": plain, "beta calibration": fitted})
    'beta calibration'
    """
    helping = [
        name
        for name, row in results.items()
        if "brier" in row
        and name != "none"
        and row["brier_change"].high < 0
        and row["brier_change"].estimate < -max(1e-3 * results["none"]["brier"], 1e-6)
        and row["nll"] <= results["none"]["nll"]
        and isfinite(row["nll"])
        and not row.get("at_end")  # too few errors
    ]
    if (usual := usual_map(results)) in helping:
        beyond = {name: results[name].get("brier_beyond") for name in helping}
        helping = [x for x in helping if x == usual or not beyond[x] or beyond[x].high < 0]
    return min(helping, key=lambda name: results[name]["brier"], default=None)


def usual_map(results: dict[str, dict]) -> str:
    """What the guides advise: of two classes beta calibration, of more a temperature.

    Examples
    --------
    >>> usual_map({"none": {}, "temperature scaling": {}, "isotonic regression": {}})
    'temperature scaling'
    """
    return "beta calibration" if "beta calibration" in results else "temperature scaling"


def by_group(
    groups: Array,
    confidence: Array,
    correct: Array,
    point: dict | None,
    most: int = GROUPS,
    among: int = 0,
    rank: Array | None = None,
    design: Design | None = None,
) -> list[dict]:
    """Accuracy, confidence and the effect of a threshold for each group, the largest first.

    Parameters
    ----------
    groups : array (n,)
        Names or numbers.
    confidence, correct : arrays (n,)
    point : dict, optional
        One of `operating_points`.
    most : int
        Groups to return.
    among : int
        How many groups are looked at in all, if there are more columns of them.
    rank : array (n,), optional
        What ranks the samples, if not the confidence.
    design : Design, optional
        How they were drawn.

    Returns
    -------
    list of dict
        At most `most`: ``group``, ``samples``, ``errors``, ``accuracy`` (Wilson interval),
        ``confidence``, ``gap`` (confidence minus accuracy), ``stands_out`` (whether the gap differs
        from 0, allowing for the number of groups), ``auroc`` (``nan`` if undefined),
        ``coverage``, ``risk`` (at the threshold).

    Examples
    --------
    >>> confidence, correct = np.array([0.9, 0.8, 0.6]), np.array([True, False, True])
    >>> rows = by_group(np.array(["day", "day", "night"]), confidence, correct, None)
    >>> [(row["group"], row["samples"], row["errors"]) for row in rows]
    [('day', 2, 1), ('night', 1, 0)]
    """
    names, place = np.unique(groups, return_inverse=True)
    count, design = np.bincount(place), design or Design(len(place))
    rows = []
    by_place = np.split(np.argsort(place, kind="stable"), np.cumsum(count)[:-1])
    for i in np.argsort(-count, kind="stable")[:most]:
        c, z, its = (x[by_place[i]] for x in (confidence.astype(np.float64), correct, design))
        order = c if rank is None else rank[by_place[i]]
        accept = c >= (point["threshold"] if point else inf)
        level = 1 - 0.05 / max(min(len(names), most), among)
        strict = estimates.gap(c, z, level, its)
        rows.append(
            {
                "group": names[i].item(),
                "samples": int(count[i]),
                "errors": int((~z).sum()),
                "accuracy": its.share(z),
                "confidence": its.average(c),
                "gap": estimates.gap(c, z, design=its),
                "stands_out": len(c) >= estimates.FEW and not strict.low <= 0 <= strict.high,
                "auroc": metrics.auroc(order, z, sample_weight=its.weights)
                if 0 < z.sum() < len(z)
                else nan,
                "coverage": its.share(accept),
                "risk": its.share(~z, accept),
            }
        )
    return rows


def _risk_coverage(
    confidence: Array, correct: Array, design: Design | None = None
) -> curves.RiskCoverage:
    """`curves.prepare_risk_coverage`, with an interval over test samples instead of seeds.

    Parameters
    ----------
    confidence, correct : arrays (n,)
    design : Design, optional
        How the samples were drawn.

    Returns
    -------
    curves.RiskCoverage
        ``low`` and ``high`` are the 95 % Wilson interval of the error rate at a fixed coverage,
        ``nan`` where fewer than 100 samples, or a tenth of them, are accepted.

    Examples
    --------
    >>> numbers = _risk_coverage(np.array([0.9, 0.8, 0.6]), np.array([True, True, False]))
    >>> [round(float(x[-1]), 2) for x in (numbers.mean, numbers.low, numbers.high)]
    [0.33, 0.06, 0.79]
    """
    design = design or Design(len(correct))
    numbers = curves.prepare_risk_coverage(confidence, correct, sample_weight=design.weights)
    n = design.worth(correct.astype(np.float64))
    accepted = np.maximum(np.round(numbers.coverage * n), 1)
    accepted[accepted < min(100, n / 10)] = np.nan  # with so few, the band would fill the figure
    _, low, high = stats.wilson(numbers.mean * accepted, accepted)
    return replace(numbers, low=low, high=high)


def checks(data: Predictions) -> dict:
    """What else a careful reader would ask about the data.

    Returns
    -------
    dict
        ``overlap`` (samples whose scores a validation sample has, too), ``tied`` (samples
        for which that is to be expected, see `_tied`), ``majority`` (share of the
        most common class), ``classes_seen``, ``saturated`` (share of confidences that are exactly
        1), ``as_logits`` (whether they are a softmax of logits), ``distinct`` (distinct confidences
        below 1, or of logits distinct log-odds),
        ``improbable`` (samples whose true class was given a probability below 1e-37, or 0),
        ``guessing`` (the sets, "test" or "validation", whose labels the scores say nothing about:
        see `estimates.guessing`).

    Examples
    --------
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> numbers = checks(predictions.from_arrays(scores))
    >>> round(numbers["majority"], 2), numbers["distinct"]
    (0.67, 3)
    """
    rank, held = data.samples["rank"], data.val_logits is not None
    known = rank if data.own is None else rank[rank < 1]
    return {
        "overlap": posthoc.check_overlap(data.val_logits, data.logits) if held else 0,
        "tied": _tied(data) if held else 0,
        "majority": float(np.bincount(data.labels).max() / len(data.labels)),
        "classes_seen": len(np.unique(data.labels)),
        "saturated": float((data.samples["confidence"] >= 1).mean()),
        "as_logits": data.own is None,
        "distinct": len(np.unique(known)),
        "improbable": int((data.samples["nll"] > 85).sum()),
        "guessing": guessing(data),
    }


def guessing(data: Predictions) -> list[str]:
    """The sets, of "test" and "validation", whose labels the scores say nothing about.

    Examples
    --------
    >>> probs, labels = [[0.9, 0.1], [0.1, 0.9]] * 40, np.arange(80) % 2
    >>> for y in (labels, labels[::-1], np.arange(80) // 40):
    ...     print(guessing(predictions.from_arrays({"probs": probs, "labels": y})))
    []
    ['test']
    ['test']
    """
    sets = {"test": (data.logits, data.labels), "validation": (data.val_logits, data.val_labels)}
    known = {} if data.pairs else {x: pair for x, pair in sets.items() if pair[1] is not None}
    designs = {"test": data.design, "validation": data.val_design}
    return [name for name, pair in known.items() if estimates.guessing(*pair, designs[name])]


def _tied(data: Predictions) -> int:
    """How many test samples would share their scores with a validation sample by ties alone.

    Half of the test set is looked up in the other half, both of random samples: what two sets of
    different samples have in common. A tree has a few leaves, and all its scores are shared.
    """
    n, m = len(data.labels), len(data.val_labels)
    order = np.random.default_rng(0).permutation(n)
    half = min(n // 2, m)
    if not half:
        return 0
    shared = posthoc.check_overlap(data.logits[order[:half]], data.logits[order[half:]])
    return round(shared * n / (n - half))


def _main_point(points: list[dict], error: float) -> dict | None:
    """The threshold for the headline: the one that halves the errors, or comes closest.

    It must give clearly fewer errors than answering everything.
    """
    usable = [p for p in points if p["threshold"] is not None and p["risk"].high < error]
    halving = [p for p in usable if p["target"] <= error / 2]
    return halving[-1] if halving else usable[0] if usable else None


def _scores(data: Predictions, after: dict[str, Array], before: dict[str, Array]) -> dict:
    ranking, ranked = _ranking(after, data.weights), metrics.ranked_metrics()
    names = ("accuracy", "ece", "adaptive_ece", "auroc", "aurc")
    return {name: ranked[name](ranking) for name in names} | {
        "nll": data.design.average(after["nll"]),
        "brier": data.design.average(after["brier"]),
        "brier_change": data.design.mean(after["brier"] - before["brier"]),
        "changed": int((after["answer"] != before["answer"]).sum()),
        "judged_on": len(after["correct"]),
    }
