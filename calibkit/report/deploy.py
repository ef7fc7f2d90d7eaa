"""From saved predictions to what is deployed: a fitted map, and thresholds for its probabilities.

``calibkit recalibrate preds.npz --save map.json`` in steps. The map is fitted to the validation set
and judged on the test set. Without a validation set it is fitted to all samples and judged by
cross-fitting: each sample by a map, and each threshold by a choice, that has not seen it.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibkit import __version__, metrics, posthoc, terms
from calibkit.arrays import Array, are_log_probs, plain, row_sums, softmax
from calibkit.report import estimates, positive, sampling, thresholds
from calibkit.report.assessment import NAMES, guessing, recalibrated, recommended
from calibkit.report.design import Design
from calibkit.report.names import few_of
from calibkit.report.predictions import Predictions
from calibkit.report.scores import Samples, Score
from calibkit.report.text import number, percent, say
from calibkit.resampling import as_groups
from calibkit.stats import Interval

AUTO = "auto"  # the map that a report recommends


def recalibrate(
    data: Predictions,
    name: str = "auto",
    of: str | None = None,
    target_risk: Sequence[float] = (),
    rules: Sequence[tuple[str, float]] = (),
    groups: Array | None = None,
) -> tuple[posthoc.Recalibration, dict]:
    """Fit a map, and choose thresholds for the probabilities behind it.

    Parameters
    ----------
    data : Predictions
        No cluster, if there are any, is on both sides of a fold, and `harm` counts clusters.
    name : str
        One of `assessment.NAMES`, or "auto": the map that a report recommends, or a temperature
        where it recommends none.
    of : str, optional
        Of two classes, the one that `rules` are about; by default as in a report.
    target_risk : sequence of float
        Error rates for thresholds on the highest probability; by default, for more than two
        classes, some below the error rate.
    rules : sequence of (str, float)
        Of two classes, what a threshold on the probability of that one is for: pairs of a name of
        `thresholds.RULES` and a value; by default, those of a report.
    groups : array (n,), optional
        The clusters of the test samples, in place of those of the file.

    Returns
    -------
    Recalibration
        Fitted; ``model.save(path, **about)`` writes both.
    dict
        ``class_names`` (the order of the columns); ``scores`` ("logits" or "log-probabilities",
        which the map takes), ``floor`` (what a probability of 0 counts as, and those of a row at
        most: see `calibkit.precision`; 0 for logits) and ``zeros`` (why, None if none is 0);
        ``chosen`` (why this map, None if it was named); ``refused`` (why it should not be used,
        None if nothing is against it); ``harm`` (what `harm` returns); ``fitted_on`` (file,
        samples, their part); ``inputs`` (``file`` and ``sha256`` of each file that was read);
        ``measured`` (``samples``, and accuracy, ECE, NLL, Brier score and, of two classes, the
        classwise ECE, ``before`` and ``after``); ``thresholds``: for each the ``rule`` and its
        ``value``, the ``column`` it is about (None: the highest), ``threshold`` (None if none keeps
        the rule), ``here`` (what it does to the samples of the test set with this map: counts) and
        what it does to samples it was not chosen on, as [estimate, low, high]; ``sampling`` (how
        rows are counted), ``warnings``.

    Raises
    ------
    ValueError
        In one line: too few samples, a map that these cannot fit, or a rule that makes no sense.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> model, about = recalibrate(from_arrays(scores), rules=[("precision", 0.6)])
    >>> about["measured"]["samples"], about["thresholds"][0]["rule"]
    (60, 'precision')
    """
    if name not in (AUTO, *NAMES):
        raise ValueError(f"map: got {name!r}, expected one of {', '.join((AUTO, *NAMES))}")
    if data.pairs:
        raise ValueError("confidence: got pairs, expected probabilities of classes, for a map")
    if data.doubts:
        raise ValueError(
            f"{data.name}: {' '.join(data.doubts)} No map was fitted; if the file is right as it "
            "is, --as-is fits one"
        )
    thresholds.check(data, target_risk, rules)
    column, why = _column(data, of, rules), None
    if groups is not None:
        as_groups(groups, len(data.labels))
        data = replace(data, clusters=np.asarray(groups))
    known, (data, _) = len(data.notes), sampling.counted(data)
    design, weights = data.design, data.weights
    if name == AUTO:
        name, why = _advised(data, column)
    kind = posthoc.MAPS[name]
    held = data.val_logits is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", posthoc.PosthocWarning)
        maps, after, size = estimates.held_out(data, kind)
        model = maps[0] if held else estimates.fitted(kind, data.logits, data.labels, weights)
    own = [issubclass(w.category, posthoc.PosthocWarning) for w in caught]
    said = [str(w.message) for w, fit in zip(caught, own, strict=True) if fit]
    others = [str(w.message) for w, fit in zip(caught, own, strict=True) if not fit]
    if sets := guessing(data):
        others.append(say(None, "guessing", checks={"guessing": sets}))
    before = softmax(data.logits.astype(np.float64))
    fit_design = data.val_design if held else design
    fits = size if fit_design.plain else round(fit_design.size)
    floor = float(np.min(data.floor.each)) / after.shape[1] if data.floor else 0.0
    found = harm(before, after, data.labels, parameters(model), fits, floor, design)
    ends = [str(w.message) for w in caught if issubclass(w.category, posthoc.EndOfRangeWarning)]
    found["at_end"] = ends[0] if ends else None
    parts = []
    if not held:
        splits = estimates.folds(*data.logits.shape, data.design.clusters)
        for each, (fit, rest) in zip(maps, splits, strict=True):
            seen = each.predict_proba(data.logits[fit].astype(np.float64))
            own = None if weights is None else weights[fit]
            parts.append((seen, data.labels[fit], own, rest))
    kept = model.predict_proba(data.logits.astype(np.float64))
    on = None
    if held:
        on = model.predict_proba(data.val_logits.astype(np.float64)), data.val_labels
        on = *on, data.val_weights

    def rows(column: int | None, wanted: Sequence[tuple[str, float]]) -> list[dict]:
        def score(probs: Array, labels: Array, weights: Array | None) -> Samples:
            p, y = _top(probs, labels) if column is None else (probs[:, column], labels == column)
            return Samples(Score.computed(p, data.logits.dtype), y, weights)

        crossed, right, _ = score(after, data.labels, weights)
        folds = [(score(*fit), rest) for *fit, rest in parts]
        test, chosen_on = score(kept, data.labels, weights), on and score(*on)
        judge = thresholds.Judge(test, chosen_on, folds, crossed.p)
        return [_row(x, value, column, judge, right, design) for x, value in wanted]

    chosen = []
    if column is None or target_risk:
        right = _top(after, data.labels)[1]
        targets = target_risk or thresholds.targets(Samples(None, right, weights))
        chosen += rows(None, [("target_risk", target) for target in sorted(targets)])
    if column is not None and (rules or not target_risk):
        usual = rules or positive.default_rules(design.average(data.labels == column))
        chosen += rows(column, usual)
    fitted_labels = data.val_labels if held else data.labels
    model.class_names_ = tuple(data.class_names)
    model.floor_, model.zeros_ = data.floor, data.zeros
    return model, {
        "class_names": list(data.class_names),
        "scores": "log-probabilities" if are_log_probs(data.logits) else "logits",
        "floor": list(map(plain, data.floor)) if data.floor else 0.0,
        "zeros": data.zeros or None,
        "chosen": why,
        "refused": _refused(found),
        "harm": found,
        "fitted_on": {
            "file": data.name,
            "part": "validation" if held else "all",
            "samples": len(fitted_labels),
        },
        "inputs": plain(data.inputs),
        "measured": {
            "samples": len(data.labels),
            "before": _measure(before, data.labels, weights),
            "after": _measure(after, data.labels, weights),
        },
        "thresholds": chosen,
        "sampling": list(data.notes[known:]),
        "warnings": list(dict.fromkeys(said[:1] + others)),
        "calibkit": __version__,
    }


def harm(
    before: Array,
    after: Array,
    labels: Array,
    fitted: int,
    samples: int,
    floor: float = 0.0,
    design: Design | None = None,
) -> dict:
    """Whether a map does harm to samples it has not seen, beyond what fitting costs by chance.

    A map fitted to calibrated scores makes them a little worse on new samples. In expectation the
    NLL rises by about p / 2n for p fitted numbers and n samples. So what counts as harm is a lower
    end of the 95 % interval of the paired difference, after minus before, above 2p / n for the NLL
    or p / n for the Brier score.

    Parameters
    ----------
    before, after : arrays (n, k)
        Probabilities without and with the map.
    labels : array (n,) of int
    fitted : int
        Numbers that the map consists of: see `parameters`.
    samples : int
        To which it was fitted; clusters, if the samples come in such; of weighted ones, as many as
        they are worth.
    floor : float
        Probabilities of the true class below it count as this much, before and after. With 0, a
        probability of 0 that a map gives to what happens makes the NLL infinite, which is harm.
    design : Design, optional
        How the samples were drawn, for means and intervals.

    Returns
    -------
    dict
        ``nll`` and ``brier`` (the differences as [estimate, low, high], None where infinite),
        ``nll_by_chance`` and ``brier_by_chance`` (what they are compared with), ``fitted`` and
        ``samples``, as given, ``never`` (samples to whose class a map gave a probability of 0) and
        ``harmful``, the names of those that exceed it.

    Examples
    --------
    >>> labels = np.arange(100) % 2
    >>> good, bad = np.eye(2)[labels] * 0.8 + 0.1, np.full((100, 2), 0.5)
    >>> harm(good, bad, labels, fitted=1, samples=100)["harmful"]
    ['nll', 'brier']
    """
    rows, least = np.arange(len(labels)), max(floor, 1e-300)

    def costs(probs: Array) -> tuple[Array, Array]:
        squares = row_sums(probs**2) - 2 * probs[rows, labels] + 1
        return -np.log(np.maximum(probs[rows, labels], least)), squares

    lost = (after[rows, labels] == 0) & (before[rows, labels] > least)
    found: dict = {"fitted": fitted, "samples": samples, "harmful": []}
    found["never"] = int(lost.sum()) if not floor else 0
    margins = {"nll": 2 * fitted / samples, "brier": fitted / samples}
    for (name, margin), old, new in zip(margins.items(), costs(before), costs(after), strict=True):
        interval = (design or Design(len(labels))).mean(new - old)
        infinite = name == "nll" and found["never"]
        found[name] = [None] * 3 if infinite else list(interval)
        found[f"{name}_by_chance"] = margin
        found["harmful"] += [name] if infinite or interval.low > margin else []
    return found


def parameters(model: posthoc.Recalibration) -> int:
    """How many numbers a fitted map consists of.

    Of isotonic regression the levels of each class, of histogram binning the bins with samples. Of
    two classes one says what the other is.

    >>> parameters(posthoc.FixedTemperature(2.0)), posthoc.VectorScaling().fit(
    ...     [[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], [0, 1, 1]
    ... ).scale_.size
    (0, 2)
    """
    if isinstance(model, posthoc.FixedTemperature):
        return 0
    kept = {name: getattr(model, f"{name}_") for name in model._kept}
    scaled = int(kept.pop("temperature", 1.0) != 1.0)
    if isinstance(model, posthoc.IsotonicCalibration):
        levels = [len(np.unique(pair[1])) for pair in model.points_ if pair is not None]
        return scaled + (max(levels) if len(model.points_) == 2 else sum(levels))
    if isinstance(model, posthoc.HistogramBinning):
        return int(np.isfinite(model.values_).sum())
    if isinstance(model, posthoc.TemperatureScaling):
        return 1
    if isinstance(model, posthoc.BetaCalibration):
        return scaled + (3 if len(model.parameters_) == 2 else model.parameters_.size)
    return scaled + sum(np.size(values) for name, values in kept.items() if name != "smoothing")


def _refused(found: dict) -> str | None:
    """Why a map should not be used."""
    if not (found["harmful"] or found["at_end"]):
        return None
    return say(None, "refused", found=found, names=terms.METRICS)


def _advised(data: Predictions, column: int | None) -> tuple[str, str]:
    """The map that a report recommends, and why this one was taken."""
    if column is not None:
        data = replace(data, positive=column)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        results, _ = recalibrated(data)
    best = None if guessing(data) else recommended(results)
    base = results.get(best, {}).get("base", best)
    name = next((name for name, title in NAMES.items() if title == base), "temperature")
    return name, say(None, "advised", best=best, base=base, names=[NAMES[x] for x in NAMES])


def lines(model: posthoc.Recalibration, about: dict) -> list[str]:
    """What `recalibrate` found, in words."""
    name = next(name for name, kind in posthoc.MAPS.items() if kind is type(model))
    temperature = model.temperature_ if name == "temperature" else None
    what = NAMES[name].capitalize()
    said = [about["chosen"]] if about["chosen"] else []
    said.append(say(None, "recalibrated", what=what, temperature=temperature, **about))
    for metric, before in about["measured"]["before"].items():
        two = before, about["measured"]["after"][metric]
        shown = [_digits(x) if metric in ("nll", "brier") else percent(x) for x in two]
        said.append(f"  {terms.METRICS[metric][0]:14}{shown[0]} → {shown[1]}")
    for row in about["thresholds"]:
        score, kinds = "confidence", ("accepted", "error")
        if row["column"] is not None:
            score = f"P({about['class_names'][row['column']]})"
            kinds = "flagged", "precision", "recall"
        some = kinds if row["threshold"] is not None else ()
        shares = [f"{kind} {number(Interval(*row[kind]), 100, ' %')}" for kind in some]
        said.append("  " + say(None, "chosen", row=row, score=score, shares=shares))
    if about["zeros"]:
        said.append(about["zeros"])
    said.append(say(None, "order", names=few_of(about["class_names"])))
    said += [f"· {note}" for note in about["sampling"]]
    warned = [f"! {warning}" for warning in about["warnings"]]
    return said + warned + ([f"! {about['refused']}"] if about["refused"] else [])


def _row(
    rule: str,
    value: float,
    column: int | None,
    judge: thresholds.Judge,
    right: Array,
    design: Design,
) -> dict:
    """A threshold, and what it does to the test samples by this map and by maps new to them.

    `right` says whether what the score is about is so by the latter.
    """
    threshold, taken, flag = judge(rule, value)
    here, found = positive.counted(taken, judge.test.y), positive.counted(flag, right, design)
    shares = {"flagged": found["share"], "precision": found["precision"], "recall": found["recall"]}
    counts = {name: here[name] for name in ("flagged", "found", "false", "missed")}
    if column is None:
        error = design.share(~right, flag)
        shares = {"accepted": found["share"], "error": error}
        counts = {"accepted": here["flagged"], "wrong": here["false"]}
    row = {"rule": rule, "value": float(value), "column": column, "threshold": threshold}
    row["here"] = counts | {"samples": len(right), "chosen_on": judge.held is None}
    return row | {
        name: [x if math.isfinite(x) else None for x in share] for name, share in shares.items()
    }


def _column(data: Predictions, name: str | None, rules: Sequence) -> int | None:
    """The class that rules are about, if there are two."""
    if name is not None:
        return data.about(name).positive
    if len(data.class_names) == 2:
        return data.positive if data.positive is not None else positive.guess(data)
    return None


def _top(probs: Array, labels: Array) -> tuple[Array, Array]:
    return probs.max(axis=1), probs.argmax(axis=1) == labels


def _measure(probs: Array, labels: Array, weights: Array | None) -> dict[str, float | None]:
    own, right = {"sample_weight": weights}, _top(probs, labels)[1]
    found = {"accuracy": float(np.average(right, weights=weights))}
    found["ece"] = metrics.ece(probs, labels, **own)
    if probs.shape[1] == 2:  # it sees what the ECE of the answer does not
        found["classwise_ece"] = metrics.classwise_ece(probs, labels, **own)
    nll = metrics.nll(probs, labels, **own)
    found["nll"] = nll if math.isfinite(nll) else None  # None: infinite
    return found | {"brier": metrics.brier(probs, labels, **own)}


def _digits(value: float | None) -> str:
    return "infinite" if value is None else f"{max(value, 0.0):.4f}"
