"""A recalibration, a score or a metric of one's own: what needs no training."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from calibkit import metrics, posthoc, stats, terms
from calibkit.arrays import as_probs, softmax
from calibkit_companion import results
from calibkit_companion.bench.kinds import arguments, kind_and_source
from calibkit_companion.bench.methods import RANKING, SCALED
from calibkit_companion.experiments import plan, plugins
from calibkit_companion.records.record import Record
from calibkit_companion.results.number import Number
from calibkit_companion.results.rows import Rows
from calibkit_companion.results.runs import Results
from calibkit_companion.results.series import Series

RECALIBRATED = ("ece", "excess_ece", "nll", "brier", "accuracy", "auroc", "aurc")


def tried(text: str, runs: Results, log: Callable = lambda line: None) -> Rows:
    """A recalibration, a score or a metric on every run of a setting that keeps its predictions.

    Returns
    -------
    Rows
        By method and metric: a recalibration minus one temperature (of lowest validation NLL), a
        score minus the maximum probability; a metric of each method minus that of ERM.
    """
    of_kind, source = kind_and_source(text)
    options = {k: int(v) if v == int(v) else v for k, v in plan.method(text).options}
    function = plugins.guarded(source, plugins.load(source.name), **options)
    measure, to = {
        "recalibration": (_recalibrated, "temperature"),
        "score": (_scored, "max probability"),
        "metric": (_measured, "erm"),
    }[of_kind]
    by_method: dict[str, dict[str, Series]] = {}
    for method in runs.drawable(runs.methods):
        whole = [r for r in runs.records(method) if not r.light]
        log(f"{runs.name}: {terms.label(method)}, {len(whole)} runs")
        by_method[method] = _by_seed(whole, partial(measure, source, function))
    if of_kind == "metric":  # there is nothing of its own to compare it with, but another method
        erm = by_method.pop("erm", {})
        by_method = {m: {n: its[n] - erm[n] for n in erm} for m, its in by_method.items()}
    found = Rows()
    for method, series in by_method.items():
        for name, own in series.items():
            row = results.row(own, Number(name), runs.name, method, to, title=runs.title)
            found[method, name] = row
    return found


def _by_seed(records: list[Record], measure: Callable) -> dict[str, Series]:
    """What ``measure(record, labels)`` gives for each run: values and deviations, by name."""
    each, found = {}, {}
    for record in records:
        labels = record.arrays["test_labels"].astype(np.int64)
        each[record.info["run"]["seed"]] = measure(record, labels)
    for name in next(iter(each.values())):
        values, draws = ({seed: its[name][i] for seed, its in each.items()} for i in (0, 1))
        found[name] = Series(values, draws, len(labels), "clean")
    return found


def _recalibrated(source, make: Callable, record: Record, labels: np.ndarray) -> dict:
    logits = np.log(np.maximum(apply(source, make(), record.arrays), 1e-30))
    summary, scaled = metrics.summary(logits, labels), record.replicates
    many = scaled.deviations.shape[1]  # the same resamples
    (drawn,) = stats.replicates([logits], labels, RECALIBRATED, n=many)
    found = {}
    for i, name in enumerate(RECALIBRATED):
        usual = f"{name}_{SCALED}"
        deviations = drawn[:, i] - summary[name] - scaled.deviation(usual)
        found[name] = summary[name] - scaled.estimate(usual), deviations
    return found


def _scored(source, score: Callable, record: Record, labels: np.ndarray) -> dict:
    logits = record.arrays["test_logits"]
    usual = metrics.per_sample(logits, labels)
    own = np.asarray(score(logits.copy()), dtype=np.float64)
    if own.shape != labels.shape or not np.isfinite(own).all():
        raise source.error(f"gives {own.shape}, expected {labels.shape}, finite numbers")
    both = [stats.Answers(c, usual["correct"]) for c in (own, usual["confidence"])]
    drawn = stats.replicates(both, None, RANKING, n=record.replicates.deviations.shape[1])
    functions = metrics.ranked_metrics(coverages=[0.8])
    one, other = (metrics.Ranking.of(*its) for its in both)
    gaps = {name: float(functions[name](one) - functions[name](other)) for name in RANKING}
    return {n: (gaps[n], drawn[0, :, i] - drawn[1, :, i] - gaps[n]) for i, n in enumerate(RANKING)}


def _measured(source, metric: Callable, record: Record, labels: np.ndarray) -> dict:
    given = record.arrays["test_logits"]
    given = softmax(given) if arguments(source)[0] == "probs" else given
    value, rng = float(metric(given, labels)), np.random.default_rng(0)  # the same resamples
    n, many = record.replicates.deviations.shape[1], len(labels)
    drawn = [metric(given[p], labels[p]) for p in (rng.integers(many, size=many) for _ in range(n))]
    return {source.function: (value, np.array(drawn) - value)}


def apply(source: plugins.Source, model: object, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Fit a recalibration on validation data and give its probabilities (n, k) of the test set.

    Raises
    ------
    plugins.PluginError
        In one line: it fails, or what it gives are no probabilities.
    """
    held_out, labels = arrays["validation_logits"], arrays["validation_labels"].astype(np.int64)
    logits = arrays["test_logits"]
    with plugins.quoted(source), warnings.catch_warnings():
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        fitted = model.fit(held_out.copy(), labels.copy())
        probs = (model if fitted is None else fitted).predict_proba(logits.copy())
    try:
        probs = as_probs(probs, "probabilities")
    except ValueError as error:
        raise source.error(str(error)) from None
    if probs.shape != logits.shape:
        raise source.error(f"gives {probs.shape}, expected {logits.shape}")
    return probs.astype(np.float64)
