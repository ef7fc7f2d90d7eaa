"""From saved predictions to what is deployed: a fitted map, and thresholds for its probabilities.

``calibkit recalibrate preds.npz --save map.json`` in steps. The map is fitted to the validation set
and judged on the test set. Without a validation set it is fitted to all samples and judged by
cross-fitting: each sample by a map, and each threshold by a choice, that has not seen it.
"""

import math
import warnings
from collections.abc import Sequence

import numpy as np

from calibkit import __version__, metrics, posthoc, stats, terms
from calibkit.arrays import Array, softmax
from calibkit.report import estimates, positive, thresholds
from calibkit.report.assessment import NAMES, by_weight, guessing
from calibkit.report.predictions import Predictions
from calibkit.report.text import number, percent, say
from calibkit.stats import Interval


def recalibrate(
    data: Predictions,
    name: str = "temperature",
    of: str | None = None,
    target_risk: Sequence[float] = (),
    rules: Sequence[tuple[str, float]] = (),
) -> tuple[posthoc.Recalibration, dict]:
    """Fit a map, and choose thresholds for the probabilities behind it.

    Parameters
    ----------
    data : Predictions
    name : str
        One of `assessment.NAMES`.
    of : str, optional
        Of two classes, the one that `rules` are about; by default as in a report.
    target_risk : sequence of float
        Error rates for thresholds on the highest probability; by default, for more than two
        classes, some below the error rate.
    rules : sequence of (str, float)
        Of two classes, what a threshold on the probability of that one is for: pairs of a name of
        `thresholds.RULES` and a value; by default, those of a report.

    Returns
    -------
    Recalibration
        Fitted; ``model.save(path, **about)`` writes both.
    dict
        ``class_names``; ``scores`` ("logits" or "log-probabilities", which the map takes) and
        ``floor`` (see `predictions.log_probs`); ``fitted_on`` (file, samples, their part);
        ``measured`` (``samples``, and accuracy, ECE, NLL, Brier score and, of two classes, the
        classwise ECE, ``before`` and ``after``); ``thresholds``: for each the ``rule`` and its
        ``value``, the ``column`` it is about (None: the highest), ``threshold`` (None if none keeps
        the rule) and what it does to samples it was not chosen on, as [estimate, low, high];
        ``warnings``.

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
    if name not in NAMES:
        raise ValueError(f"map: got {name!r}, expected one of {', '.join(NAMES)}")
    if data.pairs:
        raise ValueError("confidence: got pairs, expected probabilities of classes, for a map")
    thresholds.check(data, target_risk, rules)
    column = _column(data, of, rules)
    data, _ = by_weight(data)
    kind = posthoc.MAPS[name]
    held, chosen_on = data.val_logits is not None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", posthoc.PosthocWarning)
        (model, *_), after, _ = estimates.held_out(data, kind)
        if held:
            known = model.predict_proba(data.val_logits.astype(np.float64))
            chosen_on = known, data.val_labels
        else:
            model = estimates.fitted(kind, data.logits, data.labels)
    own = [issubclass(w.category, posthoc.PosthocWarning) for w in caught]
    said = [str(w.message) for w, fit in zip(caught, own, strict=True) if fit]
    others = [str(w.message) for w, fit in zip(caught, own, strict=True) if not fit]
    if sets := guessing(data):
        others.append(say(None, "guessing", checks={"guessing": sets}))
    rows = []
    if column is None or target_risk:
        score, on = _top(after, data.labels), chosen_on and _top(*chosen_on)
        targets = target_risk or thresholds.targets(score[1])
        rows += [_judged("target_risk", t, None, score, on) for t in sorted(targets)]
    if column is not None and (rules or not target_risk):
        score, on = (
            pair and (pair[0][:, column], pair[1] == column)
            for pair in ((after, data.labels), chosen_on)
        )
        usual = rules or positive.default_rules(float(score[1].mean()))
        rows += [_judged(rule, value, column, score, on) for rule, value in usual]
    before = softmax(data.logits.astype(np.float64))
    fitted = data.val_labels if held else data.labels
    return model, {
        "class_names": list(data.class_names),
        "scores": "log-probabilities" if _normalised(data.logits) else "logits",
        "floor": data.floor,
        "fitted_on": {
            "file": data.name,
            "part": "validation" if held else "all",
            "samples": len(fitted),
        },
        "measured": {
            "samples": len(data.labels),
            "before": _measure(before, data.labels),
            "after": _measure(after, data.labels),
        },
        "thresholds": rows,
        "warnings": list(dict.fromkeys(said[:1] + others)),
        "calibkit": __version__,
    }


def lines(name: str, model: posthoc.Recalibration, about: dict) -> list[str]:
    """What `recalibrate` found, in words."""
    temperature = model.temperature_ if name == "temperature" else None
    what = NAMES[name].capitalize()
    said = [say(None, "recalibrated", what=what, temperature=temperature, **about)]
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
    return said + [f"! {warning}" for warning in about["warnings"]]


def _judged(
    rule: str,
    value: float,
    column: int | None,
    score: thresholds.Samples,
    on: thresholds.Samples | None,
) -> dict:
    """A threshold chosen on the samples `on`, or by cross-fitting, and what it does to others."""
    threshold, _, flag = thresholds.judged(rule, value, score, on)
    found = positive.counted(flag, score[1])
    shares = {"flagged": found["share"], "precision": found["precision"], "recall": found["recall"]}
    if column is None:
        error = stats.wilson(found["false"], found["flagged"])
        shares = {"accepted": found["share"], "error": error}
    row = {"rule": rule, "value": float(value), "column": column, "threshold": threshold}
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


def _normalised(logits: Array) -> bool:
    """Whether logits are logarithms of probabilities."""
    few = logits[:: len(logits) // 1000 + 1].astype(np.float64)
    return bool(np.abs(np.exp(few).sum(axis=1) - 1).max() < 1e-4)


def _measure(probs: Array, labels: Array) -> dict[str, float | None]:
    found = {"accuracy": float(_top(probs, labels)[1].mean()), "ece": metrics.ece(probs, labels)}
    if probs.shape[1] == 2:  # it sees what the ECE of the answer does not
        found["classwise_ece"] = metrics.classwise_ece(probs, labels)
    nll = metrics.nll(probs, labels)
    found["nll"] = nll if math.isfinite(nll) else None  # None: infinite
    return found | {"brier": metrics.brier(probs, labels)}


def _digits(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.4f}"
