"""Your own recalibration beside temperature scaling, on every record with predictions."""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from calibkit import metrics, posthoc, stats, terms
from calibkit.companion import notebook, plan
from calibkit.companion.bench_words import outcome, shown
from calibkit.report import html
from calibkit.training import plugins, store

SCALED = "ts_nll"  # what "after scaling" means: one temperature, of lowest validation NLL
_RECALIBRATED = ("ece", "excess_ece", "nll", "brier", "accuracy", "auroc", "aurc")


def recalibrates(text: str) -> bool:
    """Whether a name is that of a recalibration: a class in a file, or an entry point for such."""
    name, _ = plugins.split(text)
    if ".py:" not in name:
        return name in plugins.entries("posthoc")
    return plugins.source(plugins.named("posthoc", name)).is_class


def recalibrate(
    text: str,
    edition: str = "released",
    setting: Sequence[str] = (),
    log: Callable = lambda line: None,
    **where,
) -> dict:
    """Fit a recalibration to every record that keeps predictions, and compare what it does.

    It is fitted on a record's validation data and measured on its test set, beside temperature
    scaling by the NLL and beside the network as trained.

    Parameters
    ----------
    text : ``FILE.py:NAME(option=number)``: a class with ``fit(logits, labels)`` and
        ``predict_proba(logits)``
    setting : names of settings; by default all of the edition
    where : dataset, network, seeds and epochs, as `plan.select`

    Returns
    -------
    dict
        ``rows``: for each setting and method ``runs``, and for each metric ``own``, ``scaled``,
        ``none`` (means) and ``difference`` to temperature scaling (interval).
    """
    name, chosen = plugins.split(text)
    key = plugins.named("posthoc", name)
    source, kind = plugins.source(key), plugins.load(key)
    options = {k: int(v) if v == int(v) else v for k, v in chosen.items()}
    make = plugins.guarded(source, kind, **options)
    places = list(setting) or [s.name for s in plan.settings(edition)]
    if where.get("dataset") or where.get("network"):
        places = [""]
    rows = []
    for place in places:
        runs = plan.select(edition, list(plan.METHODS), setting=place, **where)
        page = notebook.collect(edition, runs)
        if not page.records:
            continue
        title = page.setting if where.get("dataset") else plan.setting(edition, place).title
        for method, records in page.records.items():
            whole = [r for r in records if not r.light and len(r.arrays["validation_labels"])]
            if not whole:
                continue
            log(f"{place or 'shared'}: {terms.label(method)}, {len(whole)} runs")
            rows.append(_recalibrated(source, make, whole) | {"setting": title, "method": method})
    if not rows:
        raise ValueError(f"edition {edition}: no record here keeps predictions; train some first")
    return {"label": source.function, "method": text, "edition": edition, "rows": rows}


def _recalibrated(source: plugins.Source, make: Callable, records: list[store.Record]) -> dict:
    values = {name: {"own": [], "scaled": [], "none": []} for name in _RECALIBRATED}
    draws = {name: [] for name in _RECALIBRATED}
    for record in records:
        arrays = record.arrays
        labels = arrays["test_labels"].astype(np.int64)
        probs = apply(source, make(), arrays)
        logits = np.log(np.maximum(probs, 1e-30))
        summary = metrics.summary(logits, labels)
        replicates = record.replicates
        many = replicates.deviations.shape[1]  # the same resamples
        (deviations,) = stats.replicates([logits], labels, _RECALIBRATED, n=many)
        for i, name in enumerate(_RECALIBRATED):
            values[name]["own"].append(summary[name])
            values[name]["scaled"].append(replicates.estimate(f"{name}_{SCALED}"))
            values[name]["none"].append(replicates.estimate(name))
            own = deviations[:, i] - summary[name]
            draws[name].append(own - replicates.deviation(f"{name}_{SCALED}"))
    row = {"runs": len(records)}
    for name, sides in values.items():
        gaps = np.subtract(sides["own"], sides["scaled"])
        interval = stats.mean_over_seeds(gaps, draws[name], sides["scaled"]).interval()
        unjudged = name in stats.UNJUDGED
        row[name] = {side: float(np.mean(x)) for side, x in sides.items()}
        row[name]["difference"] = stats.Unjudged(*interval) if unjudged else interval
    return row


def apply(source: plugins.Source, model: object, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Fit a recalibration on validation data and give its probabilities (n, k) of the test set.

    Raises
    ------
    plugins.PluginError
        In one line: it fails, or what it gives are no probabilities.
    """
    held_out, labels = arrays["validation_logits"], arrays["validation_labels"].astype(np.int64)
    logits = arrays["test_logits"]
    for name in ("fit", "predict_proba"):
        if not callable(getattr(model, name, None)):
            raise plugins.PluginError(f"{source.result()}: {source.function} has no {name}")
    with plugins.quoted(source), warnings.catch_warnings():
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        fitted = model.fit(held_out.copy(), labels.copy())
        fitted = model if fitted is None else fitted
        probs = np.asarray(fitted.predict_proba(logits.copy()), dtype=np.float64)
        one = np.asarray(fitted.predict_proba(logits[:1].copy()))
    if probs.shape != logits.shape or one.shape != (1, logits.shape[1]):
        shape = probs.shape if probs.shape != logits.shape else one.shape
        expected = logits.shape if probs.shape != logits.shape else (1, logits.shape[1])
        raise plugins.PluginError(f"{source.result()}: gives {shape}, expected {expected}")
    if not (np.isfinite(probs).all() and (probs >= 0).all()):
        raise plugins.PluginError(f"{source.result()}: not all of its probabilities are numbers")
    if np.abs(probs.sum(axis=1) - 1).max() > 1e-3:
        raise plugins.PluginError(f"{source.result()}: its rows do not sum to 1")
    return probs


def recalibration_table(numbers: dict) -> pd.DataFrame:
    """A row for each setting and method, as text."""
    rows = [
        {
            "Setting": row["setting"],
            "Method": terms.label(row["method"]),
            "Runs": str(row["runs"]),
            "ECE as trained": shown(row["ece"]["none"], "ece"),
            "… scaled": shown(row["ece"]["scaled"], "ece"),
            "… yours": shown(row["ece"]["own"], "ece"),
            **{
                f"{terms.METRICS[name][0]}, yours − scaled": shown(
                    row[name]["difference"], name, True
                )
                for name in ("excess_ece", "brier", "nll", "auroc", "aurc", "accuracy")
            },
        }
        for row in numbers["rows"]
    ]
    return pd.DataFrame(rows).set_index("Setting").rename_axis(index=None, columns="Setting")


def block(numbers: dict) -> dict:
    rows = numbers["rows"]
    return {
        "title": f"Against temperature scaling, on {sum(r['runs'] for r in rows)} runs",
        "facts": f"{len(rows)} methods in {len({r['setting'] for r in rows})} settings",
        "verdict": recalibration_verdict(numbers),
        "notes": ["Fitted on validation data, measured on test sets; after − is better if lower."],
        "rivals": "",
        "pictures": {},
        "tables": {"recalibration": html.table(recalibration_table(numbers))},
    }


def recalibration_verdict(numbers: dict) -> list[dict[str, str]]:
    """For how many methods a recalibration is better or worse than temperature scaling."""
    sentences = []
    for title, names in (
        ("Calibration", ("excess_ece", "brier", "nll")),
        ("Finding errors", ("auroc", "aurc")),
        ("Accuracy", ("accuracy",)),
    ):
        counts = {}
        for name in names:
            outcomes = [
                outcome(r[name]["difference"], terms.METRICS[name][2]) for r in numbers["rows"]
            ]
            counts[name] = (outcomes.count("better"), outcomes.count("worse"), len(outcomes))
        better, worse = (sum(c[i] for c in counts.values()) for i in (0, 1))
        words, tone = "better for some methods, worse for others", "fair"
        if better + worse <= 0.1 * len(names) * len(numbers["rows"]):
            words, tone = "hardly any difference from a temperature", "fair"
        elif better > 2 * worse:
            words, tone = "better than a temperature", "good"
        elif worse > 2 * better:
            words, tone = "worse than a temperature", "bad"
        parts = [
            f"{terms.METRICS[n][0]}: clearly better for {b} of {of} methods, worse for {w}"
            for n, (b, w, of) in counts.items()
        ]
        text = "; ".join(parts) + "."
        sentences.append({"title": f"{title}: {words}", "text": text, "tone": tone})
    return sentences
