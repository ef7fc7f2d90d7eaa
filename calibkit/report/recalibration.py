"""What temperature scaling and a few other maps would do to predictions, and which one to take."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite

import numpy as np

from calibkit import metrics, posthoc
from calibkit.arrays import Array, softmax
from calibkit.precision import log_probs
from calibkit.report import estimates, positive
from calibkit.report.facts import Facts
from calibkit.report.names import Say, silent
from calibkit.report.parts import Mapped, Outcomes, Part
from calibkit.report.predictions import Predictions
from calibkit.report.scores import Scored
from calibkit.stats import Interval

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
PER_CLASS = 50  # samples per class that the structured matrix needs to beat temperature scaling
# Of two classes, and of confidences: binning the top label says little, and a shift of the odds,
# as training with class weights leaves behind, takes more than a temperature.
OF_TWO = {NAMES[x]: posthoc.MAPS[x] for x in ("temperature", "beta", "isotonic")}
WORSE = 0.01  # rise of the ECE by temperature scaling above which a warning is given
LEAST_GAIN = 1e-3  # share of the Brier score that a map must gain to be recommended


@dataclass(frozen=True, eq=False)
class MapScores(Facts):
    """Metrics of the samples after a map; shares are fractions of 1, the NLL is in nats.

    Attributes
    ----------
    accuracy, ece, adaptive_ece, auroc, aurc, nll, brier : float
        See `calibkit.metrics`.
    brier_change : Interval
        Brier score after the map minus before, paired by sample, with a t interval.
    changed : int
        Number of answers that the map changes.
    judged_on : int
        Number of samples that the metrics are computed on.
    brier_beyond : Interval or None
        Brier score after this map minus that after the usual map (see `usual_map`).
    temperatures : list of float or None
        The temperature of each fit; None for maps other than temperature scaling.
    fitted_on : int or None
        Number of samples that the map was fitted to; None without a map.
    at_end : bool or None
        Whether a fitted number is at the end of the range that was searched.
    warnings : list of str or None
        Sentences.
    prior : float or None
        The estimated share of positives, if the map was corrected for it.
    base : str or None
        The name of the map that was corrected.
    """

    accuracy: float
    ece: float
    adaptive_ece: float
    auroc: float
    aurc: float
    nll: float
    brier: float
    brier_change: Interval
    changed: int
    judged_on: int
    warnings: list[str] | None = None
    fitted_on: int | None = None
    at_end: bool | None = None
    temperatures: list[float] | None = None
    brier_beyond: Interval | None = None
    prior: float | None = None
    base: str | None = None


@dataclass(frozen=True)
class NotFitted(Facts):
    """A map that could not be fitted, and why."""

    warnings: list[str]


Results = dict[str, MapScores | NotFitted]


def scores_in(results: Mapping[str, MapScores | NotFitted]) -> dict[str, MapScores]:
    """The results of the maps that could be fitted."""
    return {name: row for name, row in results.items() if isinstance(row, MapScores)}


@dataclass(frozen=True, eq=False)
class _After:
    """The samples after a map: their outcomes, and the probability (n,) of the positive class."""

    outcomes: Outcomes
    p: Array | None

    def mapped(self, part: Part) -> Mapped:
        """The scores of the samples of `part`, and whether what each is about has occurred."""
        confidence = Scored(self.outcomes.confidence, self.outcomes.correct, part.weights)
        hit = part.labels == part.kind.event
        event = None if self.p is None else Scored(self.p, hit, part.weights)
        return Mapped(confidence, event, part.design)


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fitted map and its metrics."""

    scores: MapScores
    model: posthoc.Recalibration
    after: _After


def recalibrated(data: Predictions, log: Say = silent) -> tuple[Results, dict[str, Mapped]]:
    """Fit temperature scaling and a few other maps, and measure each.

    For more than two classes, the others are the structured matrix (if there are `PER_CLASS`
    samples per class), histogram binning and isotonic regression. For two classes and for
    confidences, they are beta calibration and isotonic regression. Each map is fitted to the
    validation set, or else by cross-fitting. Of many samples, a random part is used
    (`estimates.judged`). If positives are rarer or more common in the test set than in the
    validation set, there is one more result: the best map, corrected for the new share of
    positives (`positive.shift_prior`).

    Parameters
    ----------
    data : Predictions
    log : function of str
        Called with a few words before each step.

    Returns
    -------
    results : dict of str to MapScores or NotFitted
        For "none" (no map) and each map.
    found : dict of str to Mapped
        The samples after each map, for thresholds.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> probs, labels = [[0.9, 0.05, 0.05], [0.3, 0.6, 0.1], [0.7, 0.2, 0.1]] * 20, [0, 1, 1] * 20
    >>> results, _ = recalibrated(from_arrays({"probs": probs, "labels": labels}))
    >>> {name: round(row.ece, 2) for name, row in results.items() if "binning" not in name}
    {'none': 0.4, 'temperature scaling': 0.38, 'isotonic regression': 0.08}
    """
    data = data.sample(estimates.judged(data.logits.shape[1]))
    test, held = data.test, data.validation
    before = _After(test.outcomes, _event(test, None))
    results: Results = {"none": _scores(test, before, before)}
    found, fits = {"none": before.mapped(test)}, {}
    for name, kind in _tried(data).items():
        log(f"recalibration: {name}")
        try:
            fits[name] = _fit(data, name, kind, before)
        except (ValueError, ImportError) as error:
            results[name] = NotFitted([f"cannot be fitted ({error})"])
            continue
        results[name], found[name] = fits[name].scores, fits[name].after.mapped(test)
    _compare_with_usual(test, fits, results)
    if held is not None:  # where thresholds are chosen
        shifted = positive.prior_shift(data) is not None
        for name in fits if shifted else {recommended(results)} & fits.keys():
            after = _of_probs(held, fits[name].model.predict_proba(held.logits))
            found[name] = replace(found[name], held=after.mapped(held))
        if shifted:
            _correct_prior(data, results, found, before)
    return results, found


def _tried(data: Predictions) -> dict[str, type[posthoc.Recalibration]]:
    """The maps to fit to these predictions, by name."""
    k = data.logits.shape[1]
    samples = len((data.validation or data.test).labels)
    return {
        name: kind
        for name, kind in (OF_TWO if k == 2 else RECALIBRATIONS).items()
        if samples >= PER_CLASS * k or kind is not posthoc.StructuredScaling
    }


def _fit(data: Predictions, name: str, kind: type[posthoc.Recalibration], before: _After) -> _Fit:
    """Fit one map and measure it; `before` has the samples without a map."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", posthoc.PosthocWarning)
        maps, probs, size = estimates.held_out(data, kind)
    own = [w for w in caught if issubclass(w.category, posthoc.PosthocWarning)]
    # What is raised is said below, in the measure of the report.
    said = [str(w.message) for w in own if not issubclass(w.category, posthoc.RaisedErrorWarning)]
    after = _of_probs(data.test, probs)
    scores = _scores(data.test, after, before)
    temperatures = None
    if name == NAMES["temperature"]:
        temperatures = [getattr(each, "temperature_", None) for each in maps]
        old, new = (_ece(data.test, its) for its in (before, after))
        if new > old + WORSE:
            said.append(f"it raises the ECE from {100 * old:.1f} % to {100 * new:.1f} %")
    scores = replace(
        scores,
        warnings=said[:1],  # folds repeat each other
        fitted_on=size,
        at_end=any(issubclass(w.category, posthoc.EndOfRangeWarning) for w in own),
        temperatures=temperatures,
    )
    return _Fit(scores, maps[-1], after)


def _compare_with_usual(test: Part, fits: Mapping[str, _Fit], results: Results) -> None:
    """Set `brier_beyond` of every map: its Brier score minus that of the usual map."""
    usual = fits.get(usual_map(results))
    for name, fit in fits.items() if usual else ():
        beyond = test.design.mean(fit.after.outcomes.brier - usual.after.outcomes.brier)
        results[name] = replace(fit.scores, brier_beyond=beyond)


def _scores(test: Part, after: _After, before: _After) -> MapScores:
    new, old, average = after.outcomes, before.outcomes, test.design.average
    ranking, ranked = _ranking(new, test.weights), metrics.ranked_metrics()
    names = ("accuracy", "ece", "adaptive_ece", "auroc", "aurc")
    return MapScores(
        **{name: ranked[name](ranking) for name in names},
        nll=average(new.nll),
        brier=average(new.brier),
        brier_change=test.design.mean(new.brier - old.brier),
        changed=int((new.answer != old.answer).sum()),
        judged_on=len(new.correct),
    )


def _ranking(samples: Outcomes, weights: Array | None) -> metrics.Ranking:
    """The samples sorted by `rank`, with bins by confidence."""
    _, first, place = np.unique(-samples.rank, return_index=True, return_inverse=True)
    right, wrong = (
        np.bincount(place[which], None if weights is None else weights[which], len(first))
        for which in (samples.correct, ~samples.correct)
    )
    return metrics.Ranking(samples.confidence[first], right, wrong)


def _ece(test: Part, after: _After) -> float:
    """The ECE of the probability of the positive class, or without one, of the confidence."""
    mapped = after.mapped(test)
    p, y, *_ = mapped.event or mapped.confidence
    return metrics.ranked_metrics()["ece"](metrics.Ranking.of(p, y, test.weights))


def _of_probs(part: Part, probs: Array) -> _After:
    """The samples with the probabilities `probs` (n, k) in place of their own."""
    step = estimates.AT_ONCE
    parts = [
        _outcomes(part, probs[i : i + step], part.labels[i : i + step])
        for i in range(0, len(part.labels), step)
    ]
    joined = {x: np.concatenate([vars(some)[x] for some in parts]) for x in vars(parts[0])}
    return _After(Outcomes(**joined), _event(part, probs))


def _outcomes(part: Part, probs: Array, labels: Array) -> Outcomes:
    found = part.kind.from_probs(probs, labels)
    never = probs[np.arange(len(labels)), labels] == 0  # whose logarithm was made finite
    return replace(found, nll=np.where(never, inf, found.nll))


def _event(part: Part, probs: Array | None) -> Array | None:
    """The probability (n,) of the positive class; None without a positive class."""
    if part.kind.event is None:
        return None
    probs = softmax(part.logits.astype(np.float64)) if probs is None else probs
    return probs[:, part.kind.event].copy()


def _correct_prior(
    data: Predictions, results: Results, found: dict[str, Mapped], before: _After
) -> None:
    """Add a result: the best map, corrected for another share of positives in the test set."""
    scores, held, event = scores_in(results), data.validation, data.positive
    fitted = [name for name in OF_TWO if name in scores and isfinite(scores[name].nll)]
    if not fitted:
        return

    def held_out_nll(name: str) -> float:
        p, y, *_ = found[name].held.event
        return held.design.average(-log_probs(np.where(y, p, 1 - p), data.floor))

    base = min(fitted, key=held_out_nll)
    old = held.design.average(held.labels == event)
    p = found[base].event.p
    new = positive.estimate_prior(p, old, data.weights)
    shifted = positive.shift_prior(p, old, new)
    probs = np.empty((len(p), 2))
    probs[:, event], probs[:, 1 - event] = shifted, 1 - shifted
    after = _of_probs(data.test, probs)
    name = f"{base}, corrected for prevalence"
    results[name] = replace(
        _scores(data.test, after, before),
        warnings=[],
        prior=new,
        base=base,
        fitted_on=scores[base].fitted_on,
    )
    # A threshold cannot be chosen on the validation set, whose share of positives is another.
    found[name] = after.mapped(data.test)


def recommended(results: Mapping[str, MapScores | NotFitted]) -> str | None:
    """Choose the map to recommend among the results of `recalibrated`; None if none clearly helps.

    A map helps if it lowers the Brier score beyond chance and by at least a thousandth, does not
    raise the NLL, and has no number at the end of the range that was searched. (The NLL is infinite
    if the map gave a true class the probability 0.) Of several such maps, the usual one is taken:
    see `usual_map`. But if others have a Brier score that is lower beyond chance, the best of these
    is taken.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> p = np.tile([0.99, 0.98, 0.01, 0.97], 50)
    >>> results, _ = recalibrated(from_arrays({"probs": p, "labels": [1, 0, 0, 1] * 50}))
    >>> recommended(results)
    'isotonic regression'
    """
    scores = scores_in(results)
    none = scores["none"]
    helping = [name for name, row in scores.items() if name != "none" and _helps(row, none)]
    if (usual := usual_map(results)) in helping:
        helping = [x for x in helping if x == usual or _beats_usual(scores[x])]
    return min(helping, key=lambda name: scores[name].brier, default=None)


def _helps(row: MapScores, none: MapScores) -> bool:
    """Whether a map clearly lowers the Brier score without harm; `none` is the row without it."""
    gain = max(LEAST_GAIN * none.brier, 1e-6)
    lower = row.brier_change.high < 0 and row.brier_change.estimate < -gain
    return lower and row.nll <= none.nll and isfinite(row.nll) and not row.at_end


def _beats_usual(row: MapScores) -> bool:
    return row.brier_beyond is None or row.brier_beyond.high < 0


def usual_map(results: Mapping[str, MapScores | NotFitted]) -> str:
    """The name of the usual map: beta calibration for two classes, else temperature scaling.

    Examples
    --------
    >>> usual_map({"temperature scaling": NotFitted([]), "isotonic regression": NotFitted([])})
    'temperature scaling'
    """
    of_two = "beta calibration"
    return of_two if of_two in results else "temperature scaling"


def guessing(data: Predictions) -> list[str]:
    """Return the sets ("test", "validation") in which the scores say nothing about the labels.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> probs, labels = [[0.9, 0.1], [0.1, 0.9]] * 40, np.arange(80) % 2
    >>> for y in (labels, labels[::-1], np.arange(80) // 40):
    ...     print(guessing(from_arrays({"probs": probs, "labels": y})))
    []
    ['test']
    ['test']
    """
    if not data.kind.known:
        return []
    sets = {"test": data.test, "validation": data.validation}
    known = {name: part for name, part in sets.items() if part is not None}
    return [k for k, x in known.items() if estimates.guessing(x.logits, x.labels, x.design)]
