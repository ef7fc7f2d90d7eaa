"""Your own method beside the published ones: trained, measured, judged, on one page.

`build` does all of it. Its steps serve as well in a notebook: `bench` (trains what is missing),
`measure` (numbers), `verdict` (in words), `tables` and `draw` (what is shown). The same goes for
a recalibration, which needs no training: `recalibrate`. Everything is compared within a setting:
data, network, protocol and seeds are those of the published methods.
"""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import calibkit
from calibkit import plots, stats, terms
from calibkit.companion import notebook, plan, recalibrations
from calibkit.companion.bench_words import outcome, verdict
from calibkit.companion.recalibrations import (
    SCALED,
    apply,
    recalibrate,
    recalibrates,
    recalibration_table,
    recalibration_verdict,
)
from calibkit.report import html
from calibkit.stats import Interval
from calibkit.training import store
from calibkit.training.runs import PASSES

__all__ = [
    "Bench",
    "apply",
    "bench",
    "build",
    "draw",
    "measure",
    "outcome",
    "recalibrate",
    "recalibrates",
    "recalibration_table",
    "recalibration_verdict",
    "tables",
    "verdict",
]

# What a page shows; of it, what decides.
CALIBRATION = ("ece", "excess_ece", "excess_adaptive_ece", "excess_classwise_ece")
RANKING = ("auroc", "aurc", "eaurc", "aupr_error", "fpr_at_tpr", "risk_at_coverage_0.8")
SHOWN = ("accuracy", *CALIBRATION, "nll", "brier", *RANKING)
SHIFTED = ("accuracy", "ece", "nll", "brier", "auroc", "aurc")


@dataclass
class Bench:
    """The records of one's own method and of all others in a setting."""

    method: str
    title: str
    page: notebook.Page

    @property
    def rivals(self) -> list[str]:
        """ERM, and of the published methods the one that ranks best and the one calibrated best."""
        whole = [m for m, r in self.page.records.items() if not all(x.light for x in r)]
        others = [m for m in whole if m not in (self.method, "erm")]
        best = [
            min(others, key=lambda m: float(np.mean(_estimates(self.page, m, name))))
            for name in ("aurc", "excess_ece")
            if others
        ]
        return [m for m in dict.fromkeys(["erm", *best]) if m in whole]


# --- bringing the records -------------------------------------------------------------------------


def bench(
    method: str,
    selection: plan.Selection | str = "demo",
    *,
    device: str = "",
    log: Callable = lambda line: None,
    **changes,
) -> Bench:
    """Train a method and ERM where they have no record, and collect the records of all others.

    Parameters
    ----------
    method : ``FILE.py:NAME``, an entry point, or any method of `plan.METHODS`
    selection : a selection, or the name of an edition; its seeds are those of these two methods
    device, log : as `loop.train`
    changes : fields of `plan.Selection` to change, such as ``dataset="digits"``

    Raises
    ------
    ValueError
        An unknown name, or something wrong with the file, in one line.
    """
    selection = plan.Selection.of(selection, **changes)
    ours = selection.runs([method])
    both = list(dict.fromkeys([*ours, *selection.runs(["erm"])]))
    missing = [run for run in both if store.verify(run) is None]
    if missing:
        from calibkit.training.loop import train  # late: torch is slow to import, may be absent

        for number, run in enumerate(missing, 1):
            log(f"training {number}/{len(missing)}: {run.name}")
            train(run, device=device, log=log)
    everything = dict.fromkeys(["erm", *plan.applicable(plan.METHODS, both[0].dataset)])
    others = replace(selection, seeds=None).runs(everything)
    page = notebook.collect(selection.edition, [*both, *others])
    page.runs = list(dict.fromkeys(page.runs))
    for records in page.records.values():  # ERM was asked for twice
        records[:] = map(_with_replicates, {record.name: record for record in records}.values())
    page.settings = dict(selection.settings)
    elsewhere = selection.dataset or selection.network
    title = "" if elsewhere else plan.setting(selection.edition, selection.setting or "").title
    return Bench(ours[0].method, title or page.setting, page)


def _with_replicates(record: store.Record) -> store.Record:
    """The record, with its replicates kept where that is possible: they take seconds to make."""
    with suppress(OSError):
        return store.lighten(record, whole=True) if not record.light else record
    return record


# --- numbers --------------------------------------------------------------------------------------


def measure(trial: Bench) -> dict:
    """Every number of a page about one setting.

    Returns
    -------
    dict
        ``before``, ``after`` (temperature scaling) and ``shifted``: for each metric ``own`` and
        ``erm`` (means over seeds), ``difference`` (interval, paired by seed and by sample),
        ``place``, ``of``, ``first``, ``last`` (rank among all methods; the places that differences
        leave open). Then ``temperature``, ``cost``, ``judged`` (differences that the verdict is
        about), ``methods`` (runs of each), ``diverged``, ``samples``, ``seeds``.
    """
    page, method = trial.page, trial.method
    if method not in page.records or "erm" not in page.records:
        failed = method if method not in page.records else "erm"
        raise ValueError(f"{terms.label(failed)}: every run diverged, so there is nothing to rank")
    own, erm = page.records[method], page.records["erm"]
    judged = {
        "above temperature": {  # as trained, against ERM behind a temperature
            name: _difference(page, method, "erm", name, f"{name}_{SCALED}")
            for name in ("excess_ece", "nll", "brier")
        },
        "binned": _difference(page, method, "erm", "excess_ece_binned"),
        "optimal": _difference(page, method, "erm", "ece_optimal"),
    }
    return {
        "method": method,
        "label": terms.label(method),
        "title": trial.title,
        "setting": page.setting,
        "seeds": len(own),
        "samples": len(page.labels),
        "methods": {m: len(records) for m, records in page.records.items()},
        "diverged": [run.name for run in page.diverged],
        "before": {name: _row(page, method, name) for name in SHOWN},
        "after": {name: _row(page, method, name, f"{name}_{SCALED}") for name in SHOWN[1:]},
        "shifted": _shifted(page, method),
        "temperature": {
            who: float(np.mean([r.replicates.temperatures.get(SCALED, math.nan) for r in records]))
            for who, records in (("own", own), ("erm", erm))
        },
        "judged": judged,
        "cost": {"own": _cost(own), "erm": _cost(erm)},
        "caution": _same_device(own, erm),
    }


def _estimates(page: notebook.Page, method: str, name: str) -> list[float]:
    return [record.replicates.estimate(name) for record in page.records[method]]


def _difference(
    page: notebook.Page, method: str, reference: str, name: str, reference_name: str = ""
) -> Interval:
    """A metric of a method minus one (the same, or `reference_name`) of a reference, paired."""
    ours, reference_runs = (
        {r.info["run"]["seed"]: r.replicates for r in page.records[m]} for m in (method, reference)
    )
    pairs = [
        (ours[s], name, reference_runs[s], reference_name or name)
        for s in ours
        if s in reference_runs
    ]
    if not pairs or any(a not in x or b not in y for x, a, y, b in pairs):
        return Interval(*[math.nan] * 3)
    values = [x.estimate(a) - y.estimate(b) for x, a, y, b in pairs]
    draws = [x.deviation(a) - y.deviation(b) for x, a, y, b in pairs]
    spread = [y.estimate(reference_name or name) for y in reference_runs.values()]
    # One run says nothing about the next: then it is taken to vary as those of the reference do.
    interval = stats.mean_over_seeds(values, draws, math.sqrt(2) * np.array(spread)).interval()
    return stats.Unjudged(*interval) if name.split("_ts")[0] in stats.UNJUDGED else interval


def _row(page: notebook.Page, method: str, metric: str, name: str = "") -> dict:
    name = name or metric
    higher = terms.METRICS[metric][2]
    means = {
        m: float(np.mean(_estimates(page, m, name)))
        for m, records in page.records.items()
        if all(name in r.replicates for r in records)
    }
    if method not in means or "erm" not in means:
        return _missing(means.get(method, math.nan), means.get("erm", math.nan))
    against = {m: _difference(page, method, m, name) for m in means if m != method}
    return _ranked(means, method, against, higher)


def _missing(own: float, erm: float) -> dict:
    gap = Interval(*[math.nan] * 3)
    return {"own": own, "erm": erm, "difference": gap, "place": 0, "of": 0, "first": 0, "last": 0}


def _ranked(means: dict, method: str, against: dict[str, Interval], higher: bool) -> dict:
    sign = -1 if higher else 1
    place = 1 + sum(sign * value < sign * means[method] for value in means.values())
    clear = [outcome(difference, higher) for difference in against.values()]
    return {
        "own": means[method],
        "erm": means["erm"],
        "difference": against.get("erm", Interval(0.0, 0.0, 0.0)),
        "place": place,
        "of": len(means),
        "first": 1 + clear.count("worse"),
        "last": len(means) - clear.count("better"),
    }


def _shifted(page: notebook.Page, method: str) -> dict:
    """Means over all shifts of the test set and severities, by seed."""
    table = page.shifted()
    if table.empty or method not in table.index.get_level_values(0):
        return {}
    by_seed = table[[name for name in SHIFTED if name in table]].groupby(level=[0, 1]).mean()
    rows = {}
    for name in by_seed:
        values = {m: by_seed[name].xs(m) for m in by_seed.index.get_level_values(0).unique()}
        if "erm" not in values:
            return {}
        against = {}
        for other in values:
            gap = (values[method] - values[other]).dropna()
            spread = math.sqrt(2) * values[other].to_numpy()
            if other != method and len(gap):
                interval = stats.mean_over_seeds(gap, None, spread).interval()
                unjudged = name in stats.UNJUDGED
                against[other] = stats.Unjudged(*interval) if unjudged else interval
        means = {m: float(v.mean()) for m, v in values.items()}
        rows[name] = _ranked(means, method, against, terms.METRICS[name][2])
    return rows


def _cost(records: list[store.Record]) -> dict:
    """Forward and backward passes a training sample, and seconds of training a run."""
    provenance = [r.info["provenance"] for r in records]
    seconds = float(np.mean([p.get("seconds_in_epochs", math.nan) for p in provenance]))
    forward, backward = np.mean([_passes(r) for r in records], axis=0)
    return {"forward": float(forward), "backward": float(backward), "seconds": seconds}


def _passes(record: store.Record) -> tuple[float, float]:
    """Of a sample in an epoch, on average; older records did not count them."""
    run, provenance = record.info["run"], record.info["provenance"]
    if "passes" in provenance:
        scored = provenance["training_samples"] * run["protocol"]["epochs"]
        return tuple(provenance["passes"][way] / scored for way in ("forward", "backward"))
    recipe = run["method"]
    forward, backward = PASSES.get(recipe.get("objective", ""), (1, 1))
    factor = 2 if recipe.get("update") == "sam" else 1
    return factor * forward, factor * backward


def _same_device(own: list, erm: list) -> str:
    devices = {r.info["provenance"].get("device", "") for r in [*own, *erm]}
    return "" if len(devices) == 1 else "Seconds were measured on different machines."


# --- tables and figures ---------------------------------------------------------------------------


def tables(numbers: dict) -> dict[str, pd.DataFrame]:
    """The numbers as tables of text: ``before``, ``after``, ``shifted`` and ``cost``."""
    frames = {}
    for part in ("before", "after", "shifted"):
        rows = {}
        for name, row in numbers[part].items():
            label, scale, higher = terms.METRICS[name]
            unit = {100: " (%)", 1000: " × 1000", 1: ""}[scale]
            judged = outcome(row["difference"], higher)
            rows[label + unit] = {
                numbers["label"]: _bare(row["own"], scale),
                "ERM": _bare(row["erm"], scale),
                "Difference [95 %]": row["difference"].format(scale, sign=True),
                "Verdict": judged,
                "Place": f"{row['place']} of {row['of']}" if row["of"] else "–",
                "Possible places": f"{row['first']} to {row['last']}" if row["of"] else "–",
            }
        if rows:
            frames[part] = pd.DataFrame(rows).T.rename_axis(index=None, columns="Metric")
    cost = {
        who: {
            "Forward passes per sample and epoch": f"{c['forward']:.3g}",
            "Backward passes": f"{c['backward']:.3g}",
            "Seconds per run": f"{c['seconds']:.1f}",
        }
        for who, c in ((numbers["label"], numbers["cost"]["own"]), ("ERM", numbers["cost"]["erm"]))
    }
    frames["cost"] = pd.DataFrame(cost).T.rename_axis(index=None, columns="Method")
    return frames


def _bare(value: float, scale: int) -> str:
    return Interval(value, math.nan, math.nan).format(scale, 2 if scale > 1 else 4)


def draw(name: str, trial: Bench) -> Figure | None:
    """Draw "histograms", "reliability", "overfitting", "gradients" or "forest"; None if it cannot.

    The first four are of the method, ERM and the best published ones whose predictions are there.
    """
    predictions = any(not record.light for record in trial.page.records[trial.method])
    if name in ("histograms", "reliability", "gradients") and not predictions:
        return None
    with plots.style():
        return _DRAWN[name](trial)


def _histograms(trial: Bench) -> Figure:
    table = {}
    for method in (trial.method, *trial.rivals):
        by_seed = trial.page.predictions(trial.page.logits(method))
        table[method] = plots.prepare_confidence_histogram(*by_seed)
    return plots.panels(table, plots.plot_confidence_histogram, columns=3, size=(2.5, 2.4))


def _reliability(trial: Bench) -> Figure:
    table = {
        method: plots.prepare_reliability(*trial.page.predictions(trial.page.logits(method)))
        for method in (*trial.rivals, trial.method)
    }
    fig, ax = plt.subplots(figsize=(6.4, 4.4))
    plots.plot_reliability_lines(table, ax)
    return fig


def _overfitting(trial: Bench) -> Figure | None:
    if len(trial.page.records[trial.method][0].history["epoch"]) < 2:
        return None
    fig, axes = plt.subplots(2, 1, figsize=(6.4, 6.6), sharex=True)
    for ax, metric in zip(axes, ("auroc", "ece"), strict=True):
        table = {}
        for method in (*trial.rivals, trial.method):
            histories = [record.history for record in trial.page.records[method]]
            table[method] = plots.prepare_overfitting(histories, metric)
        plots.plot_overfitting(table, ax)
    axes[0].set_xlabel("")
    return fig


def _gradients(trial: Bench) -> Figure | None:
    """At the middle one of the epochs that all records have."""
    table, methods = {}, (*trial.rivals, trial.method)
    epochs = [r.arrays["train_epochs"].tolist() for m in methods for r in trial.page.whole(m)]
    shared = sorted(set.intersection(*map(set, epochs)))
    if not shared:
        return None
    for method in methods:
        brier, norm = trial.page.gradients(method, shared[len(shared) // 2], faint=False)
        if all(len(n) and np.isfinite(n).all() for n in norm):
            table[method] = plots.prepare_gradient_norms(brier, norm)
    if trial.method not in table:
        return None
    fig, ax = plt.subplots(figsize=(6.4, 4.4))
    plots.plot_gradient_bands(table, ax)
    ax.set_title(f"Epoch {shared[len(shared) // 2]}")
    return fig


def _forest(trial: Bench) -> Figure:
    """Every method, the lowest AURC first."""
    page = trial.page
    order = sorted(page.methods, key=lambda m: np.mean(_estimates(page, m, "aurc")))
    order = ["erm", *[m for m in order if m != "erm"]]  # the one that lines are drawn at
    fig, axes = plt.subplots(1, 2, figsize=(9.6, 1.0 + 0.32 * len(order)), sharey=True)
    for ax, metric in zip(axes, ("aurc", "excess_ece"), strict=True):
        values = {m: _estimates(page, m, metric) for m in order}
        plots.plot_forest(plots.prepare_forest(values), ax, metric)
        _keep_legible(ax, {m: float(np.mean(v)) for m, v in values.items()}, trial.method, metric)
    label, scale, _ = terms.METRICS["excess_ece"]
    axes[1].set_xlabel(f"{label} (lower is better)")
    axes[1].xaxis.set_major_formatter(lambda x, _: f"{scale * x:g}")
    own = order.index(trial.method)
    for ax in axes:
        ax.axhspan(own - 0.5, own + 0.5, color=plots.look(trial.method)["color"], alpha=0.1)
    return fig


def _keep_legible(ax: plt.Axes, means: dict[str, float], own: str, metric: str) -> None:
    """Cut the axis before methods that are far off all others; they show as a number at its end."""
    low, high = np.percentile(list(means.values()), [25, 75])
    end = high + 4 * (high - low)
    near = [v for m, v in means.items() if v <= end or m in ("erm", own)]
    if len(near) == len(means):
        return
    left, right = ax.get_xlim()
    right = min(right, max(near) + 2 * (high - low))
    ax.set_xlim(left, right)
    for row, value in enumerate(means.values()):
        if value > right:
            words = f"{terms.METRICS[metric][1] * value:.3g} →"
            ax.annotate(words, (right, row), (-2, 5), textcoords="offset points", ha="right")


_DRAWN = {
    "histograms": _histograms,
    "reliability": _reliability,
    "overfitting": _overfitting,
    "gradients": _gradients,
    "forest": _forest,
}


# --- the page -------------------------------------------------------------------------------------


def build(
    method: str,
    selection: plan.Selection | str = "demo",
    out: str | Path = "bench",
    setting: Sequence[str] = (),
    *,
    device: str = "",
    log: Callable = lambda line: None,
    **changes,
) -> Path:
    """Take a method or a recalibration through the bench; write ``bench.html``, ``bench.json``.

    Parameters
    ----------
    method : ``FILE.py:NAME`` or an entry point: a loss, a factory or a recalibration class
    selection, device, log, changes : as `bench` takes them
    out : folder to write to; it is made if need be
    setting : names of settings of the edition, each judged for itself; by default the selection's

    Returns
    -------
    Path
        Of the page.
    """
    selection, out = plan.Selection.of(selection, **changes), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    places = list(setting) or [selection.setting]
    if recalibrates(method):
        numbers = recalibrate(
            method, selection.edition, [p for p in places if p], log, **_where(selection)
        )
        values = {"kind": "recalibration", "blocks": [recalibrations.block(numbers)]}
        name, numbers = numbers["label"], [numbers]
    else:
        trials = [bench(method, selection, device=device, log=log, setting=p) for p in places]
        numbers = [measure(one) for one in trials]
        values = {
            "kind": "method",
            "blocks": [_block(a, b) for a, b in zip(trials, numbers, strict=True)],
        }
        name = numbers[0]["label"]
    words = [{"title": b["title"], "verdict": b["verdict"]} for b in values["blocks"]]
    text = {"name": name, "edition": selection.edition, "calibkit": calibkit.__version__}
    text |= {"settings": numbers, "verdicts": words}
    text = json.dumps(html.plain(text), indent=1, ensure_ascii=False)
    html.write(out / "bench.json", text + "\n")
    template = Path(__file__).with_name("bench.html.jinja")
    values |= {"name": name, "edition": selection.edition, "version": calibkit.__version__}
    page = html.render(template, **values)
    html.write(out / "bench.html", page)
    return out / "bench.html"


def _where(selection: plan.Selection) -> dict:
    """What of a selection is a matter of the records that a recalibration is tried on."""
    names = ("dataset", "network", "seeds", "epochs")
    return {name: value for name in names if (value := getattr(selection, name))}


def _block(trial: Bench, numbers: dict) -> dict:
    figures = {name: draw(name, trial) for name in _DRAWN}
    notes = [f"{len(numbers['methods'])} methods have records in this setting."]
    if numbers["seeds"] < 3:
        notes.append(
            f"Only {numbers['seeds']} run{'s' * (numbers['seeds'] > 1)} of the method: what "
            "another seed would give is a guess, based on how the seeds of others differ."
        )
    notes += [f"Diverged: {name}." for name in numbers["diverged"]]
    notes += [numbers["caution"]] if numbers["caution"] else []
    return {
        "title": numbers["title"],
        "facts": numbers["setting"],
        "verdict": verdict(numbers),
        "notes": notes,
        "rivals": terms.named(trial.rivals),
        "pictures": {name: html.picture(fig) for name, fig in figures.items() if fig is not None},
        "tables": {name: html.table(frame) for name, frame in tables(numbers).items()},
    }
