"""From saved predictions to what is deployed: a fitted map, and thresholds for its probabilities.

``calibkit recalibrate preds.npz --save map.json`` in steps. The map is fitted to the validation set
and judged on the test set. Without a validation set it is fitted to all samples and judged by
cross-fitting: each sample by a map, and each threshold by a choice, that has not seen it.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibkit import __version__, metrics, posthoc, terms
from calibkit.arrays import Array, are_log_probs, plain, softmax
from calibkit.report import estimates, positive, sampling, thresholds
from calibkit.report.design import Design
from calibkit.report.harm import harm as harm
from calibkit.report.harm import parameters as parameters
from calibkit.report.names import few_of
from calibkit.report.predictions import Predictions
from calibkit.report.recalibration import NAMES, guessing, recalibrated, recommended
from calibkit.report.scores import Samples, Scored
from calibkit.report.words import say
from calibkit.report.written import number, percent
from calibkit.resampling import as_groups
from calibkit.stats import Interval

AUTO = "auto"  # the map that a report recommends
TITLES = {title: name for name, title in NAMES.items()}


def recalibrate(
    data: Predictions,
    name: str = "auto",
    of: str | None = None,
    target_risk: Sequence[float] = (),
    rules: Sequence[tuple[str, float]] = (),
    groups: Array | None = None,
) -> tuple[posthoc.Recalibration, dict[str, Any]]:
    """Fit a map, and choose thresholds for the probabilities behind it.

    Parameters
    ----------
    data : Predictions
        No cluster, if there are any, is on both sides of a fold, and `harm` counts clusters.
    name : str
        One of `recalibration.NAMES`, or "auto": the map that a report recommends, or temperature
        scaling where it recommends none.
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
    _check(data, name)
    thresholds.check(data, target_risk, rules)
    column, why = _column(data, of), None
    if groups is not None:
        as_groups(groups, len(data.labels))
        data = replace(data, clusters=np.asarray(groups))
    known, (data, _) = len(data.notes), sampling.counted(data)
    if name == AUTO:
        name, why = _advised(data, column)
    fit = _fitted(data, posthoc.MAPS[name])
    harms = _harm(data, fit)
    model, fitted_on = fit.model, data.validation or data.test
    model.class_names_ = tuple(data.class_names)
    model.floor_, model.zeros_ = data.floor, data.zeros
    return model, {
        "class_names": list(data.class_names),
        "scores": "log-probabilities" if are_log_probs(data.logits) else "logits",
        "floor": list(map(plain, data.floor)) if data.floor else 0.0,
        "zeros": data.zeros or None,
        "chosen": why,
        "refused": _refused(harms),
        "harm": harms,
        "fitted_on": {
            "file": data.name,
            "part": "validation" if data.validation else "all",
            "samples": len(fitted_on.labels),
        },
        "inputs": plain(data.inputs),
        "measured": {
            "samples": len(data.labels),
            "before": _measure(fit.before, data.labels, data.weights),
            "after": _measure(fit.after, data.labels, data.weights),
        },
        "thresholds": _thresholds(data, fit, column, target_risk, rules),
        "sampling": list(data.notes[known:]),
        "warnings": _warnings(data, fit),
        "calibkit": __version__,
    }


def _check(data: Predictions, name: str) -> None:
    """Refuse an unknown map, and scores that no map should be fitted to."""
    if name not in (AUTO, *NAMES):
        raise ValueError(f"map: got {name!r}, expected one of {', '.join((AUTO, *NAMES))}")
    if not data.kind.known:
        raise ValueError("confidence: got pairs, expected probabilities of classes, for a map")
    if data.doubts:
        raise ValueError(
            f"{data.name}: {' '.join(data.doubts)} No map was fitted; if the file is right as it "
            "is, --as-is fits one"
        )


@dataclass(frozen=True, eq=False)
class _Fit:
    """A map that was fitted.

    Attributes
    ----------
    model : Recalibration
        To be deployed.
    maps : list of Recalibration
        Those that judge it: itself, or one for each fold.
    size : int
        Samples that each of these was fitted to.
    before, after : arrays (n, k)
        Probabilities of the test set, without a map and by maps that have not seen it.
    caught : list of warnings
    """

    model: posthoc.Recalibration
    maps: list[posthoc.Recalibration]
    size: int
    before: Array
    after: Array
    caught: list[warnings.WarningMessage]


def _fitted(data: Predictions, kind: type[posthoc.Recalibration]) -> _Fit:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", posthoc.PosthocWarning)
        maps, after, size = estimates.held_out(data, kind)
        model = maps[0]
        if data.validation is None:
            model = estimates.fitted(kind, data.logits, data.labels, data.weights)
    return _Fit(model, maps, size, softmax(data.logits.astype(np.float64)), after, caught)


def _harm(data: Predictions, fit: _Fit) -> dict[str, Any]:
    """What `harm` finds, and ``at_end``: what lies at the end of its range, or None."""
    design = (data.validation or data.test).design
    size = fit.size if design.plain else round(design.size)
    floor = float(np.min(data.floor.each)) / fit.after.shape[1] if data.floor else 0.0
    numbers = parameters(fit.model)
    found = harm(fit.before, fit.after, data.labels, numbers, size, floor, data.design)
    ends = [w for w in fit.caught if issubclass(w.category, posthoc.EndOfRangeWarning)]
    return found | {"at_end": str(ends[0].message) if ends else None}


def _warnings(data: Predictions, fit: _Fit) -> list[str]:
    """The first warning of the fit, all others, and whether the labels fit the scores."""
    said: dict[bool, list[str]] = {True: [], False: []}
    for each in fit.caught:
        said[issubclass(each.category, posthoc.PosthocWarning)].append(str(each.message))
    shown = said[True][:1] + said[False]
    if sets := guessing(data):
        shown.append(say(None, "guessing", checks={"guessing": sets}))
    return list(dict.fromkeys(shown))


# --- thresholds for the probabilities behind the map ---


def _thresholds(
    data: Predictions,
    fit: _Fit,
    column: int | None,
    target_risk: Sequence[float],
    rules: Sequence[tuple[str, float]],
) -> list[dict[str, Any]]:
    """A row for each error rate, and for each rule about a class."""
    rows = []
    if column is None or target_risk:
        answers = _about(fit.after, data.labels, None, data.weights)
        rates = target_risk or thresholds.targets(answers)
        rows += _rows(data, fit, None, [("target_risk", rate) for rate in sorted(rates)])
    if column is not None and (rules or not target_risk):
        usual = positive.default_rules(data.design.average(data.labels == column))
        rows += _rows(data, fit, column, rules or usual)
    return rows


def _rows(
    data: Predictions, fit: _Fit, column: int | None, rules: Sequence[tuple[str, float]]
) -> list[dict[str, Any]]:
    """Thresholds on the probability of a class, or on the highest."""
    dtype = data.logits.dtype

    def judged(
        model: posthoc.Recalibration, logits: Array, labels: Array, weights: Array | None
    ) -> Samples:
        probs = model.predict_proba(logits.astype(np.float64))
        return _about(probs, labels, column, weights).judged(dtype)

    test, held = judged(fit.model, data.logits, data.labels, data.weights), None
    folds = []
    if data.validation is not None:
        held = judged(fit.model, data.val_logits, data.val_labels, data.val_weights)
    else:
        splits = estimates.folds(*data.logits.shape, data.design.clusters)
        for model, (seen, rest) in zip(fit.maps, splits, strict=True):
            part = data.test[seen]
            folds.append((judged(model, part.logits, part.labels, part.weights), rest))
    crossed = _about(fit.after, data.labels, column)
    judge = thresholds.Judge(test, held, folds, crossed.p)
    return [_row(*rule, column, judge, crossed.y, data.design) for rule in rules]


def _about(probs: Array, labels: Array, column: int | None, weights: Array | None = None) -> Scored:
    """The probability of a class and whether it is the true one; of None, the highest."""
    if column is not None:
        return Scored(probs[:, column], labels == column, weights)
    return Scored(probs.max(axis=1), probs.argmax(axis=1) == labels, weights)


def _row(
    rule: str,
    value: float,
    column: int | None,
    judge: thresholds.Judge,
    right: Array,
    design: Design,
) -> dict[str, Any]:
    """A threshold, and what it does to the test samples by this map and by maps new to them.

    `right` says whether what the score is about is so by the latter.
    """
    threshold, taken, flag = judge(rule, value)
    here, found = positive.counted(taken, judge.test.y), positive.counted(flag, right, design)
    if column is None:
        shares = {"accepted": found.share, "error": design.share(~right, flag)}
        counts = {"accepted": here.flagged, "wrong": here.false}
    else:
        shares = {"flagged": found.share, "precision": found.precision, "recall": found.recall}
        counts = {name: here[name] for name in positive.COUNTED}
    return {
        "rule": rule,
        "value": float(value),
        "column": column,
        "threshold": threshold,
        "here": counts | {"samples": len(right), "chosen_on": judge.held is None},
        **{name: [plain(x) for x in share] for name, share in shares.items()},
    }


def _column(data: Predictions, name: str | None) -> int | None:
    """The class that rules are about, if there are two."""
    if name is not None:
        return data.about(name).positive
    if data.kind.two:
        return data.positive if data.positive is not None else positive.guess(data)
    return None


def _measure(probs: Array, labels: Array, weights: Array | None) -> dict[str, float | None]:
    own, right = {"sample_weight": weights}, _about(probs, labels, None).y
    found: dict[str, float | None] = {
        "accuracy": float(np.average(right, weights=weights)),
        "ece": metrics.ece(probs, labels, **own),
    }
    if probs.shape[1] == 2:  # it sees what the ECE of the answer does not
        found["classwise_ece"] = metrics.classwise_ece(probs, labels, **own)
    nll = metrics.nll(probs, labels, **own)
    found["nll"] = nll if math.isfinite(nll) else None  # None: infinite
    return found | {"brier": metrics.brier(probs, labels, **own)}


# --- words ---


def _refused(found: dict[str, Any]) -> str | None:
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
    base = results[best].base or best if best else None
    name = TITLES[base] if base else "temperature"
    return name, say(None, "advised", best=best, base=base)


def lines(model: posthoc.Recalibration, about: dict[str, Any]) -> list[str]:
    """What `recalibrate` found, in words."""
    name = next(name for name, kind in posthoc.MAPS.items() if kind is type(model))
    temperature = model.temperature_ if name == "temperature" else None
    what = NAMES[name].capitalize()
    said = [about["chosen"]] if about["chosen"] else []
    said.append(say(None, "recalibrated", what=what, temperature=temperature, **about))
    measured = about["measured"]
    said += [_change(x, measured["before"][x], measured["after"][x]) for x in measured["before"]]
    said += ["  " + _threshold(row, about["class_names"]) for row in about["thresholds"]]
    said += [about["zeros"]] if about["zeros"] else []
    said.append(say(None, "order", names=few_of(about["class_names"])))
    said += [f"· {note}" for note in about["sampling"]]
    said += [f"! {warning}" for warning in about["warnings"]]
    return said + ([f"! {about['refused']}"] if about["refused"] else [])


def _change(metric: str, before: float | None, after: float | None) -> str:
    """A metric before and after a map."""
    shown = _digits if metric in ("nll", "brier") else percent
    return f"  {terms.METRICS[metric].label:14}{shown(before)} → {shown(after)}"


def _threshold(row: dict[str, Any], classes: Sequence[str]) -> str:
    """A row of `_thresholds`, in words."""
    score, kinds = "confidence", ("accepted", "error")
    if row["column"] is not None:
        score, kinds = f"P({classes[row['column']]})", ("flagged", "precision", "recall")
    some = kinds if row["threshold"] is not None else ()
    shares = [f"{kind} {number(Interval(*row[kind]), 100, ' %')}" for kind in some]
    return say(None, "chosen", row=row, score=score, shares=shares)


def _digits(value: float | None) -> str:
    return "infinite" if value is None else f"{max(value, 0.0):.4f}"
