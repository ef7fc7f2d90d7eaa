"""The command ``calibkit recalibrate``: fit a map for deployment, and choose thresholds.

The map is fitted to the validation set and judged on the test set. Without a validation set, the
map is fitted to all samples and judged by cross-fitting: each sample is judged by a map, and by
thresholds, that were fitted without it.
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
from calibkit.report.harm import harm, parameters
from calibkit.report.names import few_of
from calibkit.report.parts import Part
from calibkit.report.predictions import Predictions
from calibkit.report.recalibration import NAMES, guessing, recalibrated, recommended
from calibkit.report.scores import Rules, Samples, Scored
from calibkit.report.thresholds import Judge
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
    rules: Rules = (),
    groups: Array | None = None,
) -> tuple[posthoc.Recalibration, dict[str, Any]]:
    """Fit a map, and choose thresholds on the recalibrated probabilities.

    Parameters
    ----------
    data : Predictions
        If it has clusters, each cluster is on one side of a fold only, and `harm` counts clusters.
    name : str
        One of `recalibration.NAMES`, or "auto": the map that a report recommends, or temperature
        scaling if it recommends none.
    of : str, optional
        With two classes, the class that `rules` are about; by default the one a report takes.
    target_risk : sequence of float
        Error rates (fractions of 1) for thresholds on the highest probability. By default, for more
        than two classes, some rates below the model's error rate.
    rules : sequence of (str, float)
        With two classes, the rules for thresholds on the probability of the class `of`: pairs of a
        name of `thresholds.RULES` and a value. By default, the rules of a report.
    groups : array (n,), optional
        The clusters of the test samples, in place of those of the file.

    Returns
    -------
    Recalibration
        The fitted map. ``model.save(path, **about)`` writes the map and the dict to a file.
    dict
        What is known about the map, by these keys:

        - ``class_names``: the order of the columns of scores.
        - ``scores``: which scores the map takes, "logits" or "log-probabilities".
        - ``floor``: the probability that an exact 0 counts as, and the sum that all zeros of a row
          count as at most (see `calibkit.precision`); 0 for logits.
        - ``zeros``: a sentence that explains the floor; None if no probability is 0.
        - ``chosen``: why this map was chosen; None if `name` named it.
        - ``refused``: why the map should not be used; None if nothing is against it.
        - ``harm``: what `harm` returns.
        - ``fitted_on``: the file, the number of samples, and their part ("validation" or "all").
        - ``inputs``: ``file`` and ``sha256`` of each file that was read.
        - ``measured``: the number of ``samples``, and metrics ``before`` and ``after``: accuracy,
          ECE, NLL, Brier score and, for two classes, the classwise ECE.
        - ``thresholds``: one dict for each threshold. It has the ``rule`` and its ``value``; the
          ``column`` of the class (None: the highest probability); the ``threshold`` (None if none
          keeps the rule); ``here``, counts in the test set with this map; and shares to expect for
          new samples, each as [estimate, low, high].
        - ``sampling``: sentences on how rows are counted.
        - ``warnings``: sentences.

    Raises
    ------
    ValueError
        There are too few samples, the map cannot be fitted to them, or a rule makes no sense. The
        message has one line.

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
    """Raise `ValueError` for an unknown map, and for scores that no map should be fitted to."""
    if name not in (AUTO, *NAMES):
        raise ValueError(f"map: got {name!r}, expected one of {', '.join((AUTO, *NAMES))}")
    if not data.kind.known:
        raise ValueError(
            "confidence: got confidences with correctness, expected probabilities of all classes, "
            "which a map needs"
        )
    if data.doubts:
        raise ValueError(
            f"{data.name}: {' '.join(data.doubts)} No map was fitted; if the file is right, "
            "--as-is fits one"
        )


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fitted map, with the probabilities by which it is judged.

    Attributes
    ----------
    model : Recalibration
        The map to deploy.
    maps : list of Recalibration
        The maps that judge the test samples: `model`, or one map for each fold.
    size : int
        Number of samples that each of `maps` was fitted to.
    before, after : arrays (n, k)
        Probabilities of the test samples: without a map, and by maps fitted without them.
    caught : list of warnings
        The warnings of the fits.
    """

    model: posthoc.Recalibration
    maps: list[posthoc.Recalibration]
    size: int
    before: Array
    after: Array
    caught: list[warnings.WarningMessage]


def _fitted(data: Predictions, kind: type[posthoc.Recalibration]) -> _Fit:
    """Fit a map of some kind, for deployment and for its judgement."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", posthoc.PosthocWarning)
        maps, after, size = estimates.held_out(data, kind)
        model = maps[0]
        if data.validation is None:
            model = estimates.fitted(kind, data.logits, data.labels, data.weights)
    return _Fit(model, maps, size, softmax(data.logits.astype(np.float64)), after, caught)


def _harm(data: Predictions, fit: _Fit) -> dict[str, Any]:
    """The dict of `harm` with a key ``at_end``: a warning that a number hit its limit, or None."""
    design = (data.validation or data.test).design
    size = fit.size if design.plain else round(design.size)
    floor = float(np.min(data.floor.each)) / fit.after.shape[1] if data.floor else 0.0
    numbers = parameters(fit.model)
    found = harm(fit.before, fit.after, data.labels, numbers, size, floor, data.design)
    ends = [w for w in fit.caught if issubclass(w.category, posthoc.EndOfRangeWarning)]
    return found | {"at_end": str(ends[0].message) if ends else None}


def _warnings(data: Predictions, fit: _Fit) -> list[str]:
    """The warnings to show: the first on the map, all others, and one if labels do not fit."""
    on_map: dict[bool, list[str]] = {True: [], False: []}
    for each in fit.caught:
        on_map[issubclass(each.category, posthoc.PosthocWarning)].append(str(each.message))
    shown = on_map[True][:1] + on_map[False]
    if sets := guessing(data):
        shown.append(say(None, "guessing", checks={"guessing": sets}))
    return list(dict.fromkeys(shown))


# --- thresholds on the recalibrated probabilities ---


def _thresholds(
    data: Predictions, fit: _Fit, column: int | None, target_risk: Sequence[float], rules: Rules
) -> list[dict[str, Any]]:
    """One dict for each error rate, and for each rule about the class `column`."""
    rows = []
    if column is None or target_risk:
        answers = _about(fit.after, data.labels, None, data.weights)
        rates = target_risk or thresholds.targets(answers)
        rows += _rows(data, fit, None, [("target_risk", rate) for rate in sorted(rates)])
    if column is not None and (rules or not target_risk):
        usual = positive.default_rules(data.design.average(data.labels == column))
        rows += _rows(data, fit, column, rules or usual)
    return rows


def _rows(data: Predictions, fit: _Fit, column: int | None, rules: Rules) -> list[dict[str, Any]]:
    """One dict for each rule, on the probability of the class `column`, or (None) the highest."""

    def judged(model: posthoc.Recalibration, part: Part) -> Samples:
        probs = model.predict_proba(part.logits.astype(np.float64))
        return _about(probs, part.labels, column, part.weights).judged(data.logits.dtype)

    held, folds = data.validation and judged(fit.model, data.validation), []
    if held is None:
        splits = estimates.folds(*data.logits.shape, data.design.clusters)
        each = zip(fit.maps, splits, strict=True)
        folds = [(judged(model, data.test[seen]), rest) for model, (seen, rest) in each]
    crossed = _about(fit.after, data.labels, column)
    judge = Judge(judged(fit.model, data.test), held, folds, crossed.p)
    return [_row(*rule, column, judge, crossed.y, data.design) for rule in rules]


def _about(probs: Array, labels: Array, column: int | None, weights: Array | None = None) -> Scored:
    """The probability of the class `column`, (n,), and whether this class is the true one.

    With None, the highest probability, and whether the answer is right.
    """
    if column is not None:
        return Scored(probs[:, column], labels == column, weights)
    return Scored(probs.max(axis=1), probs.argmax(axis=1) == labels, weights)


def _row(
    rule: str, value: float, column: int | None, judge: Judge, right: Array, design: Design
) -> dict[str, Any]:
    """A threshold, with counts in the test set and shares to expect for new samples.

    Counts are by this map, shares by maps fitted without the sample. `right` (n,) says whether the
    outcome that a score is about has occurred, by the maps of the shares.
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
    """The column of the class that rules are about; None for more than two classes."""
    if name is not None:
        return data.about(name).positive
    if data.kind.two:
        return data.positive if data.positive is not None else positive.guess(data)
    return None


def _measure(probs: Array, labels: Array, weights: Array | None) -> dict[str, float | None]:
    """The metrics of probabilities (n, k); shares are fractions of 1, an infinite NLL is None."""
    own, right = {"sample_weight": weights}, _about(probs, labels, None).y
    found: dict[str, float | None] = {
        "accuracy": float(np.average(right, weights=weights)),
        "ece": metrics.ece(probs, labels, **own),
    }
    if probs.shape[1] == 2:  # with two classes, the ECE of the answer misses some errors
        found["classwise_ece"] = metrics.classwise_ece(probs, labels, **own)
    nll = metrics.nll(probs, labels, **own)
    found["nll"] = nll if math.isfinite(nll) else None  # None: infinite
    return found | {"brier": metrics.brier(probs, labels, **own)}


# --- words ---


def _refused(found: dict[str, Any]) -> str | None:
    """A sentence on why a map should not be used; None if nothing is against it."""
    if not (found["harmful"] or found["at_end"]):
        return None
    return say(None, "refused", found=found, names=terms.METRICS)


def _advised(data: Predictions, column: int | None) -> tuple[str, str]:
    """The name of the map that a report recommends, and a sentence on why it was chosen."""
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
    """The lines that the command prints on what `recalibrate` returned."""
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
    """A line on a metric before and after the map."""
    shown = _digits if metric in ("nll", "brier") else percent
    return f"  {terms.METRICS[metric].label:14}{shown(before)} → {shown(after)}"


def _threshold(row: dict[str, Any], classes: Sequence[str]) -> str:
    """A line on one threshold."""
    score, kinds = "confidence", ("accepted", "error")
    if row["column"] is not None:
        score, kinds = f"P({classes[row['column']]})", ("flagged", "precision", "recall")
    some = kinds if row["threshold"] is not None else ()
    shares = [f"{kind} {number(Interval(*row[kind]), 100, ' %')}" for kind in some]
    return say(None, "chosen", row=row, score=score, shares=shares)


def _digits(value: float | None) -> str:
    return "infinite" if value is None else f"{max(value, 0.0):.4f}"
