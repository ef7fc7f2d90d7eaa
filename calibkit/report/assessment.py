"""From saved predictions to all the numbers of a report: what can this confidence be used for?

A threshold or a recalibration is never judged on the samples it was chosen on: it is chosen on the
validation set if there is one, otherwise by cross-fitting. Each sample's confidence, correctness
and scores are computed once, by `assess`, and passed to every part.
"""

import math
import warnings
from collections.abc import Sequence

import numpy as np

from calibkit import __version__, curves, metrics, posthoc, stats
from calibkit.arrays import Array
from calibkit.report import predictions
from calibkit.report.predictions import Predictions
from calibkit.stats import Interval

ROWS = 1_000_000  # more are subsampled at random: intervals are narrow enough by then
LEAST = 10  # samples
MANY = 20_000  # so many samples that half are plenty to choose on
FIT = 8_000_000  # numbers (samples × classes) to fit on: bounds memory, costs no accuracy
BLOCK = 4_000_000  # numbers recalibrated at a time
GROUPS = 50  # shown at most
FEW = 30  # errors, or samples of a group, below which nothing is certain
TARGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # error rates to choose from
RECALIBRATIONS = {
    "temperature scaling": posthoc.TemperatureScaling,
    "histogram binning": posthoc.HistogramBinning,
    "isotonic regression": posthoc.IsotonicCalibration,
}


def assess(
    data: Predictions, against: Predictions | None = None, target_risk: Sequence[float] = ()
) -> dict:
    """Compute every number in a report.

    Parameters
    ----------
    data, against, target_risk
        As in `calibkit.report.build`.

    Returns
    -------
    dict
        ``name``, ``samples``, ``classes``, ``errors``, ``notes``; ``metrics`` (the intervals of
        `metrics.summary`, ``nan`` ends where there is none); ``gap`` (confidence minus accuracy);
        ``chance_ece`` (the ECE of as many samples of a model without calibration error);
        ``reliability``, ``histogram``, ``risk_coverage`` (of `curves`);
        ``operating_points``; ``recalibration``; ``groups``, ``predicted``; ``comparison`` (None
        without a second model); ``checks``; ``conformal`` (of `conformal.sets`).

    Raises
    ------
    ValueError
        If there are fewer than `LEAST` samples, if the labels of the two models differ, or if a
        target is not between 0 and 1.

    Examples
    --------
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> numbers = assess(predictions.from_arrays(scores))
    >>> numbers["errors"], round(numbers["gap"].estimate, 3)
    (20, 0.067)
    """
    if not all(0 < risk < 1 for risk in target_risk):
        raise ValueError(f"target_risk: got {list(target_risk)}, expected shares between 0 and 1")
    if len(data.labels) < LEAST:
        raise ValueError(f"labels: got {len(data.labels)} samples, expected at least {LEAST}")
    if against is not None:
        _check_same(data, against)
        against = against.sample(ROWS)
    data = data.sample(ROWS)
    from calibkit.report import conformal  # late: it builds on this module

    n, k = data.logits.shape
    with warnings.catch_warnings():
        # What is undefined is shown as such, in its place.
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        confidence, correct = data.samples["confidence"], data.samples["correct"]
        names, scores = [*metrics.ranked_metrics(), "nll", "brier"], stats.Samples(**data.samples)
        if n * k <= 200_000:  # each resample costs a pass over the array
            names, scores = [*names, "classwise_ece"], data.logits
        intervals = stats.bootstrap(scores, data.labels, names, n=_replicates(n))
        values = metrics.summary(data.logits, data.labels)
        del values["n"]
        with_intervals = {
            name: intervals.get(name, Interval(value, math.nan, math.nan))
            for name, value in values.items()
        }
        points = operating_points(data, target_risk)
        chosen = _main_point(points, 1 - values["accuracy"])
        predicted = by_group(data.logits.argmax(axis=1), confidence, correct, chosen)
        return {
            "name": data.name,
            "against": against.name if against else None,
            "calibkit": __version__,
            "samples": n,
            "classes": k,
            "errors": int((~correct).sum()),
            "validation": 0 if data.val_labels is None else len(data.val_labels),
            "notes": list(data.notes),
            "metrics": with_intervals,
            "gap": _gap(confidence, correct),
            "chance_ece": _chance_ece(confidence, _replicates(n) // 5),
            "reliability": curves.prepare_reliability(confidence, correct)
            | {"count": metrics.reliability_bins(confidence, correct)["count"]},
            "histogram": curves.prepare_confidence_histogram(confidence, correct),
            "risk_coverage": risk_coverage(confidence, correct),
            "operating_points": points,
            "main_point": chosen,
            "recalibration": recalibration(data),
            "groups": []
            if data.groups is None
            else by_group(data.groups, confidence, correct, chosen),
            "predicted": [row | {"group": data.class_names[row["group"]]} for row in predicted],
            "comparison": comparison(data, against) if against else None,
            "checks": checks(data),
            "conformal": conformal.sets(data),
        }


def operating_points(data: Predictions, target_risk: Sequence[float] = ()) -> list[dict]:
    """Thresholds on the confidence for given error rates, and what they achieve.

    A threshold comes from `metrics.threshold_at_risk` on the validation set; its coverage and error
    rate are measured on the test set. Without a validation set the threshold is chosen on all
    samples, which flatters its error rate. The error rate is therefore cross-fitted: a threshold is
    chosen on four fifths and applied to the rest, five times (from `MANY` samples on, on one half
    for the other).

    Parameters
    ----------
    data : Predictions
    target_risk : sequence of float
        By default the four largest of `TARGETS` below the model's error rate.

    Returns
    -------
    list of dict
        ``target``; ``threshold`` (None if no threshold reaches the target); ``accepted``, ``wrong``
        (counts among all samples, at that threshold); ``coverage``, ``risk`` (with Wilson
        intervals; without a validation set the risk is the cross-fitted one); ``kept`` (True or
        False if the interval of the risk is on one side of the target, else None).

    Examples
    --------
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> point, _ = operating_points(predictions.from_arrays(scores), [0.1, 0.5])
    >>> point["threshold"], point["accepted"], point["wrong"]
    (0.89, 20, 0)
    """
    confidence, correct = data.samples["confidence"], data.samples["correct"]
    chosen_on = [(data.val_samples or data.samples)[name] for name in ("confidence", "correct")]
    exact = confidence.astype(np.float64)  # as the page's figures compare it
    if not target_risk:
        target_risk = [t for t in TARGETS if t < np.mean(~chosen_on[1])][-4:]
    points = []
    for target in sorted(target_risk):
        threshold = metrics.threshold_at_risk(*chosen_on, target)
        accept = exact >= threshold
        accepted, wrong = int(accept.sum()), int((accept & ~correct).sum())
        if data.val_logits is None and accepted:
            for fit, rest in _folds(len(confidence)):
                fitted = metrics.threshold_at_risk(confidence[fit], correct[fit], target)
                accept[rest] = exact[rest] >= fitted
        risk = _share((accept & ~correct).sum(), accept.sum())
        points.append(
            {
                "target": float(target),
                "threshold": threshold if threshold < math.inf else None,
                "coverage": _share(accepted, len(accept)),
                "risk": risk,
                "accepted": accepted,
                "wrong": wrong,
                "kept": True if risk.high <= target else False if risk.low > target else None,
            }
        )
    return points


def recalibration(data: Predictions) -> dict[str, dict]:
    """What temperature scaling, histogram binning and isotonic regression would do.

    Each is fitted on the validation set, or else by cross-fitting as in `operating_points`; with
    many samples, on a random subset (see `FIT`).

    Returns
    -------
    dict of str to dict
        For "none" and each of `RECALIBRATIONS`: ``accuracy``, ``ece``, ``adaptive_ece``, ``nll``,
        ``brier``, ``auroc``, ``aurc``; ``brier_change`` (paired, with a t interval over samples);
        ``temperatures`` (one per fit, of temperature scaling), ``fitted_on`` (samples),
        ``warnings``. One that cannot be fitted has only ``warnings``.

    Examples
    --------
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> results = recalibration(predictions.from_arrays(scores))
    >>> {name: round(row["ece"], 2) for name, row in results.items() if "binning" not in name}
    {'none': 0.4, 'temperature scaling': 0.42, 'isotonic regression': 0.0}
    """
    n, k = data.logits.shape
    logits, labels, folds = data.logits, data.labels, _folds(n)
    if data.val_logits is not None:
        logits, labels = data.val_logits, data.val_labels
        folds = [(np.random.default_rng(0).permutation(len(labels)), np.arange(n))]
    before = data.samples
    results = {"none": _scores(before, before)}
    for name, kind in RECALIBRATIONS.items():
        temperatures, after = [], {key: np.empty(n) for key in before}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", posthoc.PosthocWarning)
            try:
                for fit, rest in folds:
                    rows = fit[:: -(-len(fit) * k // FIT)]
                    model = kind().fit(logits[rows], labels[rows])
                    _apply(model, data, rest, after)
                    temperatures.append(getattr(model, "temperature_", None))
            except (ValueError, ImportError) as error:
                results[name] = {"warnings": [f"cannot be fitted ({error})"]}
                continue
        messages = [str(w.message) for w in caught if w.category is posthoc.PosthocWarning]
        results[name] = _scores(after, before)
        results[name]["warnings"] = messages[:1]  # folds repeat each other
        results[name]["fitted_on"] = len(rows)
        if name == "temperature scaling":
            results[name]["temperatures"] = temperatures
    return results


def _apply(model, data: Predictions, rest: Array, after: dict[str, Array]) -> None:
    """Fill in the results for the samples `rest`, block by block."""
    step = max(BLOCK // data.logits.shape[1], 1)
    for rows in (rest[start : start + step] for start in range(0, len(rest), step)):
        probs, labels = model.predict_proba(data.logits[rows]), data.labels[rows]
        for key, values in metrics.per_sample(predictions.log_probs(probs), labels).items():
            after[key][rows] = values
        never = probs[np.arange(len(rows)), labels] == 0  # whose logarithm was made finite
        after["nll"][rows[never]] = math.inf


def by_group(groups: Array, confidence: Array, correct: Array, point: dict | None) -> list[dict]:
    """Accuracy, confidence and the effect of a threshold for each group, the largest first.

    Parameters
    ----------
    groups : array (n,)
        Names or numbers.
    confidence, correct : arrays (n,)
    point : dict, optional
        One of `operating_points`.

    Returns
    -------
    list of dict
        At most `GROUPS`: ``group``, ``samples``, ``errors``, ``accuracy`` (Wilson interval),
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
    count = np.bincount(place)
    rows = []
    for i in np.argsort(-count, kind="stable")[:GROUPS]:
        chosen = place == i
        c, z = confidence[chosen].astype(np.float64), correct[chosen]
        accept = c >= (point["threshold"] if point else math.inf)
        strict = _gap(c, z, level=1 - 0.05 / min(len(names), GROUPS))
        rows.append(
            {
                "group": names[i].item(),
                "samples": int(count[i]),
                "errors": int((~z).sum()),
                "accuracy": _share(z.sum(), len(z)),
                "confidence": float(c.mean()),
                "gap": _gap(c, z),
                "stands_out": len(c) >= FEW and not strict.low <= 0 <= strict.high,
                "auroc": metrics.auroc(c, z) if 0 < z.sum() < len(z) else math.nan,
                "coverage": _share(accept.sum(), len(accept)),
                "risk": _share((accept & ~z).sum(), accept.sum()),
            }
        )
    return rows


def comparison(data: Predictions, against: Predictions) -> dict:
    """Every metric of a second model, and the paired difference (first minus second).

    Parameters
    ----------
    data, against : Predictions
        On the same samples in the same order.

    Returns
    -------
    dict
        ``metrics`` (of the second), ``difference`` (from `stats.compare`), and the ``gap``,
        ``reliability`` and ``risk_coverage`` of the second.

    Examples
    --------
    >>> labels = [0, 1, 1, 0] * 15
    >>> first = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.4, 0.6]] * 15, "labels": labels}
    >>> second = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.4, 0.6]] * 15, "labels": labels}
    >>> numbers = comparison(*map(predictions.from_arrays, (first, second)))
    >>> numbers["metrics"]["accuracy"], numbers["difference"]["accuracy"].verdict
    (0.5, 'higher')
    """
    names = [*metrics.ranked_metrics(), "nll", "brier"]
    replicates = _replicates(len(data.labels))
    samples = against.samples
    pair = (stats.Samples(**model.samples) for model in (data, against))
    difference = stats.compare(*pair, None, names, n=replicates)
    ranking = metrics.Ranking.of(samples["confidence"], samples["correct"])
    other = {name: metric(ranking) for name, metric in metrics.ranked_metrics().items()}
    other |= {name: float(samples[name].mean()) for name in ("nll", "brier")}
    return {
        "metrics": other,
        "difference": difference,
        "gap": _gap(samples["confidence"], samples["correct"]),
        "reliability": curves.prepare_reliability(samples["confidence"], samples["correct"]),
        "risk_coverage": risk_coverage(samples["confidence"], samples["correct"]),
    }


def risk_coverage(confidence: Array, correct: Array) -> dict:
    """`curves.prepare_risk_coverage`, with an interval over test samples instead of seeds.

    Parameters
    ----------
    confidence, correct : arrays (n,)

    Returns
    -------
    dict
        ``low`` and ``high`` are the 95 % Wilson interval of the error rate at a fixed coverage,
        ``nan`` where fewer than 100 samples, or a tenth of them, are accepted.

    Examples
    --------
    >>> numbers = risk_coverage(np.array([0.9, 0.8, 0.6]), np.array([True, True, False]))
    >>> [round(float(numbers[name][-1]), 2) for name in ("coverage", "mean", "low", "high")]
    [1.0, 0.33, 0.06, 0.79]
    """
    numbers, n = curves.prepare_risk_coverage(confidence, correct), len(correct)
    accepted = np.maximum(np.round(numbers["coverage"] * n), 1)
    accepted[accepted < min(100, n / 10)] = np.nan  # with so few, the band would fill the figure
    low, high = stats.wilson(numbers["mean"] * accepted, accepted)
    return numbers | {"low": low, "high": high}


def checks(data: Predictions) -> dict[str, float]:
    """What else a careful reader would ask about the data.

    Returns
    -------
    dict
        ``overlap`` (samples that are also in the validation set), ``majority`` (share of the
        most common class), ``classes_seen``, ``saturated`` (share of confidences that are exactly
        1), ``distinct`` (distinct confidences below 1), ``improbable`` (samples whose true class
        was given a probability below 1e-37, or 0).

    Examples
    --------
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> numbers = checks(predictions.from_arrays(scores))
    >>> round(numbers["majority"], 2), numbers["distinct"]
    (0.67, 3)
    """
    confidence, overlap = data.samples["confidence"], 0
    if data.val_logits is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", posthoc.PosthocWarning)  # the report says it
            overlap = posthoc.check_overlap(data.val_logits, data.logits)
    return {
        "overlap": overlap,
        "majority": float(np.bincount(data.labels).max() / len(data.labels)),
        "classes_seen": len(np.unique(data.labels)),
        "saturated": float((confidence >= 1).mean()),
        "distinct": len(np.unique(confidence[confidence < 1])),
        "improbable": int((data.samples["nll"] > 85).sum()),
    }


def _check_same(data: Predictions, against: Predictions) -> None:
    if len(data.labels) != len(against.labels):
        raise ValueError(
            f"against: got {len(against.labels):,} samples, expected the same {len(data.labels):,}"
        )
    differ = int((data.labels != against.labels).sum())
    if differ:
        raise ValueError(
            f"against: got labels that differ in {differ:,} of {len(data.labels):,} samples, "
            "expected the same samples in the same order"
        )


def _replicates(n: int) -> int:
    """Resamples for an interval: fewer when many samples make them slow, and much alike."""
    return int(np.clip(20_000_000 // n, 200, 1000))


def _folds(n: int) -> list[tuple[Array, Array]]:
    """Samples to fit on and to measure on, at random: files are often sorted by class."""
    order = np.random.default_rng(0).permutation(n)
    parts = np.array_split(order, 5 if n < MANY else 2)
    return [
        (np.concatenate([other for other in parts if other is not part]), part) for part in parts
    ]


def _main_point(points: list[dict], error: float) -> dict | None:
    """The threshold for the headline: the one that halves the errors, or comes closest.

    It must give clearly fewer errors than answering everything.
    """
    usable = [p for p in points if p["threshold"] is not None and p["risk"].high < error]
    halving = [p for p in usable if p["target"] <= error / 2]
    return halving[-1] if halving else usable[0] if usable else None


def _share(some: int, of: int) -> Interval:
    low, high = stats.wilson(some, of)
    return Interval(float(some / of) if of else math.nan, float(low), float(high))


def _gap(confidence: Array, correct: Array, level: float = 0.95) -> Interval:
    """Mean confidence minus accuracy: the mean excess of confidence over correctness."""
    gap = stats.seed_interval(confidence.astype(np.float64) - correct, level)
    right, n = int(correct.sum()), len(correct)
    if min(right, n - right) >= FEW:
        return gap
    # If all samples are right they hardly vary, and a t interval would mistake that for certainty.
    low, high = stats.wilson(right, n, level)
    return Interval(gap.estimate, *(float(gap.estimate + right / n - end) for end in (high, low)))


def _chance_ece(confidence: Array, draws: int) -> Interval:
    """The ECE of a model whose confidences are exactly right, by drawing labels from them."""
    ece, rng = metrics.ranked_metrics()["ece"], np.random.default_rng(0)
    # Sorted once, as in `stats.bootstrap`: a draw only changes how many are right at each place.
    negative, place, count = np.unique(-confidence, return_inverse=True, return_counts=True)
    right_places = (place[rng.random(len(confidence)) < confidence] for _ in range(draws))
    right = (np.bincount(places, minlength=len(count)) for places in right_places)
    values = [ece(metrics.Ranking(-negative, r, count - r)) for r in right]
    return Interval(float(np.mean(values)), *map(float, np.quantile(values, [0.025, 0.975])))


def _scores(after: dict[str, Array], before: dict[str, Array]) -> dict:
    correct = after["correct"].astype(bool)
    ranking = metrics.Ranking.of(after["confidence"], correct)
    ranked = metrics.ranked_metrics()
    names = ("accuracy", "ece", "adaptive_ece", "auroc", "aurc")
    return {name: ranked[name](ranking) for name in names} | {
        "nll": float(after["nll"].mean()),
        "brier": float(after["brier"].mean()),
        "brier_change": stats.seed_interval(after["brier"] - before["brier"]),
    }
