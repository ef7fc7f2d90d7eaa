"""A method of one's own beside the published ones: trained, measured, judged, on one page.

`build` does all of it. Its steps serve as well in a notebook: `bench` (trains what is missing),
`measure` (numbers), `verdict` (in words), `tables` and `draw` (what is shown of them). The same for
a recalibration, which needs no training: `recalibrate`. Everything is compared within a setting:
data, network, protocol and seeds are those of the published methods.
"""

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import calibkit
from calibkit import metrics, plots, posthoc, stats, terms
from calibkit.companion import notebook, plan
from calibkit.report import html
from calibkit.stats import Interval
from calibkit.training import plugins, store
from calibkit.training.runs import PASSES

SCALED = "ts_nll"  # what "after scaling" means: one temperature, of lowest validation NLL
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
    edition: str = "demo",
    setting: str = "",
    dataset: str = "",
    network: str = "",
    seeds: int = 0,
    epochs: int = 0,
    settings: Mapping[str, object] = MappingProxyType({}),
    device: str = "",
    log: Callable = lambda line: None,
) -> Bench:
    """Train a method and ERM where they have no record, and bring those of all others.

    Parameters
    ----------
    method : ``FILE.py:NAME``, an entry point, or any method of `plan.METHODS`
    setting : of the edition, by its name (see `plan.settings`); default the one that all share
    edition, dataset, network, seeds, epochs, settings : as `plan.select`; `seeds` of these two
    device, log : as `loop.train`

    Raises
    ------
    ValueError
        An unknown name, or something wrong with the file, in one line.
    """
    usual = plan.Selection(edition, setting, dataset, network, epochs=epochs, settings=settings)
    asked = replace(usual, seeds=seeds)
    ours = asked.runs([method])
    wanted = list(dict.fromkeys([*ours, *asked.runs(["erm"])]))
    missing = [run for run in wanted if store.verify(run) is None]
    if missing:
        from calibkit.training.loop import train  # late: torch is slow to import, may be absent

        for number, run in enumerate(missing, 1):
            log(f"training {number}/{len(missing)}: {run.name}")
            train(run, device=device, log=log)
    everything = dict.fromkeys(["erm", *plan.applicable(plan.METHODS, wanted[0].dataset)])
    page = notebook.collect(edition, [*wanted, *usual.runs(everything)])
    page.runs = list(dict.fromkeys(page.runs))
    for records in page.records.values():  # ERM was asked for twice
        records[:] = map(_with_replicates, {record.name: record for record in records}.values())
    page.settings = dict(settings)
    title = plan.setting(edition, setting).title if not (dataset or network) else ""
    return Bench(ours[0].method, title or page.setting, page)


def _with_replicates(record: store.Record) -> store.Record:
    """The record, with its replicates kept where that is possible: they take seconds to make."""
    with suppress(OSError):
        return store.lighten(record, whole=True) if not record.light else record
    return record


# --- numbers --------------------------------------------------------------------------------------


def measure(found: Bench) -> dict:
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
    page, method = found.page, found.method
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
        "title": found.title,
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
    page: notebook.Page, method: str, reference: str, name: str, other: str = ""
) -> Interval:
    """A metric of a method minus one (the same, or `other`) of a reference, paired."""
    ours, theirs = (
        {r.info["run"]["seed"]: r.replicates for r in page.records[m]} for m in (method, reference)
    )
    pairs = [(ours[s], name, theirs[s], other or name) for s in ours if s in theirs]
    if not pairs or any(a not in x or b not in y for x, a, y, b in pairs):
        return Interval(*[math.nan] * 3)
    values = [x.estimate(a) - y.estimate(b) for x, a, y, b in pairs]
    draws = [x.deviation(a) - y.deviation(b) for x, a, y, b in pairs]
    spread = [y.estimate(other or name) for y in theirs.values()]
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
    clear = [outcome(found, higher) for found in against.values()]
    return {
        "own": means[method],
        "erm": means["erm"],
        "difference": against.get("erm", Interval(0.0, 0.0, 0.0)),
        "place": place,
        "of": len(means),
        "first": 1 + clear.count("worse"),
        "last": len(means) - clear.count("better"),
    }


def outcome(difference: Interval, higher: bool) -> str:
    """Whether a difference is for the better.

    >>> outcome(Interval(0.2, 0.1, 0.3), True), outcome(Interval(0.2, -0.1, 0.3), True)
    ('better', 'no clear difference')
    """
    found = difference.verdict
    if found == "practically none":  # the same to the last digit
        return "no clear difference"
    if found not in ("higher", "lower"):
        return found
    return "better" if (found == "higher") == higher else "worse"


def _shifted(page: notebook.Page, method: str) -> dict:
    """Means over all shifts of the test set and severities, by seed."""
    table = page.shifted()
    if table.empty or method not in table.index.get_level_values(0):
        return {}
    by_seed = table[[name for name in SHIFTED if name in table]].groupby(level=[0, 1]).mean()
    found = {}
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
        found[name] = _ranked(means, method, against, terms.METRICS[name][2])
    return found


def _cost(records: list[store.Record]) -> dict:
    """Forward and backward passes a training sample, and seconds of training a run."""
    provenance = [r.info["provenance"] for r in records]
    seconds = float(np.mean([p.get("seconds_in_epochs", math.nan) for p in provenance]))
    forward, backward = np.mean([_passes(r) for r in records], axis=0)
    return {"forward": float(forward), "backward": float(backward), "seconds": seconds}


def _passes(record: store.Record) -> tuple[float, float]:
    """Of a sample in an epoch, on average; older records did not count them."""
    run, kept = record.info["run"], record.info["provenance"]
    if "passes" in kept:
        seen = kept["training_samples"] * run["protocol"]["epochs"]
        return kept["passes"]["forward"] / seen, kept["passes"]["backward"] / seen
    recipe = run["method"]
    forward, backward = PASSES.get(recipe.get("objective", ""), (1, 1))
    factor = 2 if recipe.get("update") == "sam" else 1
    return factor * forward, factor * backward


def _same_device(own: list, erm: list) -> str:
    devices = {r.info["provenance"].get("device", "") for r in [*own, *erm]}
    return "" if len(devices) == 1 else "Seconds are of different machines."


# --- words ----------------------------------------------------------------------------------------


def verdict(numbers: dict) -> list[dict[str, str]]:
    """What to think of a method: ``title``, ``text`` and ``tone`` (good, fair, bad, unsure)."""
    return [
        _on_calibration(numbers),
        _on_ranking(numbers),
        _on_expense(numbers),
        _on_temperature(numbers),
        _on_calibratable(numbers),
    ]


_TONES = {"better": "good", "worse": "bad", "no clear difference": "fair"}


def _judge(row: dict, metric: str) -> str:
    return outcome(row["difference"], terms.METRICS[metric][2])


def _shown(value: float | Interval, metric: str, sign: bool = False) -> str:
    _, scale, _ = terms.METRICS[metric]
    interval = value if isinstance(value, Interval) else Interval(value, math.nan, math.nan)
    unit = "" if sign or scale == 1 else "\u00a0%" if scale == 100 else "\u00a0‰"
    digits = None if math.isfinite(interval.low) else (2 if scale > 1 else 4)
    return interval.format(scale, digits, unit, sign)


def _rank_words(row: dict) -> str:
    if not row["of"]:
        return "not ranked"
    text = f"place {row['place']} of {row['of']}"
    if row["first"] != row["last"]:
        text += f", {row['first']} to {row['last']} being open"
    return text


def _on_calibration(numbers: dict) -> dict[str, str]:
    before, after = numbers["before"]["excess_ece"], numbers["after"]["excess_ece"]
    found = [_judge(row, "excess_ece") for row in (before, after)]
    titles = {
        "better": "Better calibrated than ERM as trained",
        "worse": "Worse calibrated than ERM as trained",
        "no clear difference": "Calibrated as ERM is, as far as can be told",
    }
    ece = numbers["before"]["ece"]
    text = (
        f"ECE {_shown(ece['own'], 'ece')} against {_shown(ece['erm'], 'ece')}; beyond what chance "
        f"alone shows the difference is {_shown(before['difference'], 'excess_ece', True)} points: "
        f"{_rank_words(before)}. After temperature scaling it is "
        f"{_shown(after['difference'], 'excess_ece', True)} points: {_rank_words(after)}."
    )
    return {
        "title": titles.get(found[0], "Calibration: one run cannot tell"),
        "text": text,
        "tone": _TONES.get(found[0], "unsure"),
    }


def _on_ranking(numbers: dict) -> dict[str, str]:
    rows = {name: numbers["before"][name] for name in ("auroc", "aurc")}
    found = {name: _judge(row, name) for name, row in rows.items()}
    kinds = set(found.values())
    if "better" in kinds and "worse" not in kinds:
        title, tone = "Finds its errors better than ERM", "good"
    elif "worse" in kinds and "better" not in kinds:
        title, tone = "Finds its errors worse than ERM", "bad"
    elif kinds == {"better", "worse"}:
        title, tone = "Finds errors better by one measure, worse by another", "fair"
    elif kinds == {"cannot be told"}:
        title, tone = "Finding errors: one run cannot tell", "unsure"
    else:
        title, tone = "Finds its errors as ERM does, as far as can be told", "fair"
    parts = [
        f"{terms.METRICS[name][0]} {_shown(row['own'], name)} against {_shown(row['erm'], name)} "
        f"(difference {_shown(row['difference'], name, True)}), {_rank_words(row)}"
        for name, row in rows.items()
    ]
    return {"title": title, "text": "; ".join(parts) + ".", "tone": tone}


def _on_expense(numbers: dict) -> dict[str, str]:
    worse = []
    for where, words in (("before", ""), ("after", " after scaling"), ("shifted", " under shift")):
        for name, row in numbers[where].items():
            if name in ("accuracy", "nll", "brier", "auroc", "aurc", "excess_ece"):
                if _judge(row, name) == "worse":
                    worse.append((name, words, row["difference"]))
    own, erm = numbers["cost"]["own"], numbers["cost"]["erm"]
    times = [own[k] / erm[k] for k in ("forward", "backward")]
    cost = f"It takes {times[0]:.2g} × the forward and {times[1]:.2g} × the backward passes of ERM"
    if max(abs(t - 1) for t in times) < 0.01:
        cost = "It takes as many passes as ERM"
    cost += f"; a run {own['seconds']:.0f} s, of ERM {erm['seconds']:.0f} s."
    if not worse:
        dear = max(times) > 1.01
        title = "At the expense of time alone" if dear else "At no expense that shows"
        return {"title": title, "text": cost, "tone": "fair" if dear else "good"}
    first = list(dict.fromkeys(terms.METRICS[name][0] + words for name, words, _ in worse))
    listed = ", ".join(
        f"{terms.METRICS[name][0]}{words} ({_shown(gap, name, True)})" for name, words, gap in worse
    )
    title = f"At the expense of {first[0]}" + (f" and {len(first) - 1} more" * (len(first) > 1))
    return {"title": title, "text": f"Clearly worse than ERM: {listed}. {cost}", "tone": "bad"}


def _on_temperature(numbers: dict) -> dict[str, str]:
    """Whether one temperature on ERM does the same (Singh et al., 2021: the dark side)."""
    kept = {name: numbers["after"][name] for name in ("brier", "nll", "auroc", "aurc")}
    found = {name: _judge(row, name) for name, row in kept.items()}
    calibrates = _judge(numbers["before"]["excess_ece"], "excess_ece")
    better = [terms.METRICS[n][0] for n, word in found.items() if word == "better"]
    worse = [terms.METRICS[n][0] for n, word in found.items() if word == "worse"]
    t, usual = numbers["temperature"]["own"], numbers["temperature"]["erm"]
    fitted = f"The temperature that suits it is {t:.2f}; that of ERM is {usual:.2f}."
    both = "With one fitted temperature each, "
    if set(found.values()) == {"cannot be told"}:
        title, tone, text = "Only a lower temperature? One run cannot tell", "unsure", ""
    elif better and not worse:
        title, tone = "More than a temperature", "good"
        text = f"{both}it is still better than ERM by {', '.join(better)}. "
    elif worse and not better:
        title, tone = "A temperature on ERM does better", "bad"
        text = f"{both}it is worse than ERM by {', '.join(worse)}. "
    elif worse:
        title, tone = "Not what a temperature does, for better and worse", "fair"
        text = f"{both}it is better by {', '.join(better)} and worse by {', '.join(worse)}. "
    elif calibrates == "better":
        title, tone = "Nothing that a temperature on ERM would not do", "fair"
        text = f"{both}no difference to ERM is left that these data can tell. "
    else:
        title, tone = "Behind a temperature it cannot be told from ERM", "fair"
        text = f"{both}neither Brier score, NLL, AUROC nor AURC differ clearly. "
    above = numbers["judged"]["above temperature"]["brier"]
    text += (
        f"As it is, against scaled ERM, its Brier score differs by {_shown(above, 'brier', True)}. "
    )
    return {"title": title, "text": text + fitted, "tone": tone}


def _on_calibratable(numbers: dict) -> dict[str, str]:
    """Whether recalibration still works on it (Wang et al., 2021)."""
    after, binned = numbers["after"]["excess_ece"]["difference"], numbers["judged"]["binned"]
    optimal = numbers["judged"]["optimal"]
    found = [outcome(x, False) for x in (after, binned)]
    if "worse" in found and "better" not in found:
        title, tone = "Harder to calibrate afterwards than ERM", "bad"
    elif "better" in found and "worse" not in found:
        title, tone = "Easier to calibrate afterwards than ERM", "good"
    elif "better" in found:
        title, tone = "How well it is calibrated afterwards depends on how", "fair"
    elif set(found) == {"cannot be told"}:
        title, tone = "Calibratable? One run cannot tell", "unsure"
    else:
        title, tone = "As calibratable as ERM, as far as can be told", "fair"
    text = (
        f"Excess ECE minus that of ERM: {_shown(after, 'excess_ece', True)} points after "
        f"temperature scaling, {_shown(binned, 'excess_ece', True)} after histogram binning. With "
        "the best temperature for the test set itself the ECE differs by "
        f"{_shown(optimal, 'ece', True)} points."
    )
    return {"title": title, "text": text, "tone": tone}


# --- tables and figures ---------------------------------------------------------------------------


def tables(numbers: dict) -> dict[str, pd.DataFrame]:
    """The numbers as tables of text: ``before``, ``after``, ``shifted`` and ``cost``."""
    found = {}
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
                "… open": f"{row['first']} to {row['last']}" if row["of"] else "–",
            }
        if rows:
            found[part] = pd.DataFrame(rows).T.rename_axis(index=None, columns="Metric")
    cost = {
        who: {
            "Forward passes a sample and epoch": f"{c['forward']:.3g}",
            "Backward passes": f"{c['backward']:.3g}",
            "Seconds a run": f"{c['seconds']:.1f}",
        }
        for who, c in ((numbers["label"], numbers["cost"]["own"]), ("ERM", numbers["cost"]["erm"]))
    }
    found["cost"] = pd.DataFrame(cost).T.rename_axis(index=None, columns="Method")
    return found


def _bare(value: float, scale: int) -> str:
    return Interval(value, math.nan, math.nan).format(scale, 2 if scale > 1 else 4)


def draw(name: str, found: Bench) -> Figure | None:
    """Draw "histograms", "reliability", "overfitting", "gradients" or "forest"; None if it cannot.

    The first four are of the method, ERM and the best published ones whose predictions are there.
    """
    predictions = any(not record.light for record in found.page.records[found.method])
    if name in ("histograms", "reliability", "gradients") and not predictions:
        return None
    with plots.style():
        return _DRAWN[name](found)


def _histograms(found: Bench) -> Figure:
    table = {}
    for method in (found.method, *found.rivals):
        answers = found.page.answers(found.page.logits(method))
        table[method] = plots.prepare_confidence_histogram(*answers)
    return plots.panels(table, plots.plot_confidence_histogram, columns=2)


def _reliability(found: Bench) -> Figure:
    table = {
        method: plots.prepare_reliability(*found.page.answers(found.page.logits(method)))
        for method in (*found.rivals, found.method)
    }
    fig, ax = plt.subplots(figsize=(6.4, 4.4))
    plots.plot_reliability_lines(table, ax)
    return fig


def _overfitting(found: Bench) -> Figure | None:
    if len(found.page.records[found.method][0].history["epoch"]) < 2:
        return None
    fig, axes = plt.subplots(2, 1, figsize=(6.4, 6.6), sharex=True)
    for ax, metric in zip(axes, ("auroc", "ece"), strict=True):
        table = {}
        for method in (*found.rivals, found.method):
            histories = [record.history for record in found.page.records[method]]
            table[method] = plots.prepare_overfitting(histories, metric)
        plots.plot_overfitting(table, ax)
    axes[0].set_xlabel("")
    return fig


def _gradients(found: Bench) -> Figure | None:
    """At the middle one of the epochs that all records have."""
    table, methods = {}, (*found.rivals, found.method)
    kept = [r.arrays["train_epochs"].tolist() for m in methods for r in found.page.whole(m)]
    shared = sorted(set.intersection(*map(set, kept)))
    if not shared:
        return None
    for method in methods:
        brier, norm = found.page.gradients(method, shared[len(shared) // 2], faint=False)
        if all(len(n) and np.isfinite(n).all() for n in norm):
            table[method] = plots.prepare_gradient_norms(brier, norm)
    if found.method not in table:
        return None
    fig, ax = plt.subplots(figsize=(6.4, 4.4))
    plots.plot_gradient_bands(table, ax)
    ax.set_title(f"Epoch {shared[len(shared) // 2]}")
    return fig


def _forest(found: Bench) -> Figure:
    """Every method, the lowest AURC first."""
    page = found.page
    order = sorted(page.methods, key=lambda m: np.mean(_estimates(page, m, "aurc")))
    order = ["erm", *[m for m in order if m != "erm"]]  # the one that lines are drawn at
    fig, axes = plt.subplots(1, 2, figsize=(9.6, 1.0 + 0.32 * len(order)), sharey=True)
    for ax, metric in zip(axes, ("aurc", "excess_ece"), strict=True):
        values = {m: _estimates(page, m, metric) for m in order}
        plots.plot_forest(plots.prepare_forest(values), ax, metric)
    label, scale, _ = terms.METRICS["excess_ece"]
    axes[1].set_xlabel(f"{label} (lower is better)")
    axes[1].xaxis.set_major_formatter(lambda x, _: f"{scale * x:g}")
    own = order.index(found.method)
    for ax in axes:
        ax.axhspan(own - 0.5, own + 0.5, color=plots.look(found.method)["color"], alpha=0.1)
    return fig


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
    edition: str = "demo",
    out: str | Path = "bench",
    setting: Sequence[str] = (),
    log: Callable = lambda line: None,
    **where,
) -> Path:
    """Take a method or a recalibration through the bench; write ``bench.html``, ``bench.json``.

    Parameters
    ----------
    method : ``FILE.py:NAME`` or an entry point: a loss, a factory or a recalibration class
    out : folder to write to; it is made if need be
    setting : names of settings of the edition; by default the one that all methods share
    log, where : as `bench` takes them

    Returns
    -------
    Path
        Of the page.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    if recalibrates(method):
        numbers = recalibrate(method, edition, setting, log, **_places(where))
        values = {"kind": "recalibration", "blocks": [_recalibration_block(numbers)]}
        name, numbers = numbers["label"], [numbers]
    else:
        found = [bench(method, edition, s, log=log, **where) for s in setting or ("",)]
        numbers = [measure(one) for one in found]
        values = {
            "kind": "method",
            "blocks": [_block(a, b) for a, b in zip(found, numbers, strict=True)],
        }
        name = numbers[0]["label"]
    words = [{"title": b["title"], "verdict": b["verdict"]} for b in values["blocks"]]
    text = {"name": name, "edition": edition, "calibkit": calibkit.__version__, "settings": numbers}
    text = json.dumps(html.plain(text | {"verdicts": words}), indent=1, ensure_ascii=False)
    html.write(out / "bench.json", text + "\n")
    template = Path(__file__).with_name("bench.html.jinja")
    page = html.render(template, name=name, edition=edition, version=calibkit.__version__, **values)
    html.write(out / "bench.html", page)
    return out / "bench.html"


def _places(where: dict) -> dict:
    return {k: v for k, v in where.items() if k in ("dataset", "network", "seeds", "epochs")}


def _block(found: Bench, numbers: dict) -> dict:
    drawn = {name: draw(name, found) for name in _DRAWN}
    notes = [f"{len(numbers['methods'])} methods have records in this setting."]
    if numbers["seeds"] < 3:
        notes.append(
            f"Only {numbers['seeds']} run{'s' * (numbers['seeds'] > 1)} of the method: what "
            "another seed would give is a guess, made from how the seeds of others differ."
        )
    notes += [f"Diverged: {name}." for name in numbers["diverged"]]
    notes += [numbers["caution"]] if numbers["caution"] else []
    return {
        "title": numbers["title"],
        "facts": numbers["setting"],
        "verdict": verdict(numbers),
        "notes": notes,
        "rivals": terms.named(found.rivals),
        "pictures": {name: html.picture(fig) for name, fig in drawn.items() if fig is not None},
        "tables": {name: html.table(frame) for name, frame in tables(numbers).items()},
    }


# --- recalibrations -------------------------------------------------------------------------------

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
    whole = {k: int(v) if v == int(v) else v for k, v in chosen.items()}
    make = plugins.guarded(source, kind, **whole)
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
            kept = [r for r in records if not r.light and len(r.arrays["validation_labels"])]
            if not kept:
                continue
            log(f"{place or 'shared'}: {terms.label(method)}, {len(kept)} runs")
            rows.append(_recalibrated(source, make, kept) | {"setting": title, "method": method})
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
        kept = record.replicates
        many = kept.deviations.shape[1]  # the same resamples
        (deviations,) = stats.replicates([logits], labels, _RECALIBRATED, n=many)
        for i, name in enumerate(_RECALIBRATED):
            values[name]["own"].append(summary[name])
            values[name]["scaled"].append(kept.estimate(f"{name}_{SCALED}"))
            values[name]["none"].append(kept.estimate(name))
            own = deviations[:, i] - summary[name]
            draws[name].append(own - kept.deviation(f"{name}_{SCALED}"))
    found = {"runs": len(records)}
    for name, sides in values.items():
        gaps = np.subtract(sides["own"], sides["scaled"])
        interval = stats.mean_over_seeds(gaps, draws[name], sides["scaled"]).interval()
        unjudged = name in stats.UNJUDGED
        found[name] = {side: float(np.mean(x)) for side, x in sides.items()}
        found[name]["difference"] = stats.Unjudged(*interval) if unjudged else interval
    return found


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
        got = probs.shape if probs.shape != logits.shape else one.shape
        wanted = logits.shape if probs.shape != logits.shape else (1, logits.shape[1])
        raise plugins.PluginError(f"{source.result()}: gives {got}, expected {wanted}")
    if not (np.isfinite(probs).all() and (probs >= 0).all()):
        raise plugins.PluginError(f"{source.result()}: not all of its probabilities are numbers")
    if np.abs(probs.sum(axis=1) - 1).max() > 1e-3:
        raise plugins.PluginError(f"{source.result()}: its rows do not sum to 1")
    return probs


def recalibration_table(numbers: dict) -> pd.DataFrame:
    """A row for each setting and method, as text."""
    shown = [
        {
            "Setting": row["setting"],
            "Method": terms.label(row["method"]),
            "Runs": str(row["runs"]),
            "ECE as trained": _shown(row["ece"]["none"], "ece"),
            "… scaled": _shown(row["ece"]["scaled"], "ece"),
            "… yours": _shown(row["ece"]["own"], "ece"),
            **{
                f"{terms.METRICS[name][0]}, yours − scaled": _shown(
                    row[name]["difference"], name, True
                )
                for name in ("excess_ece", "brier", "nll", "auroc", "aurc", "accuracy")
            },
        }
        for row in numbers["rows"]
    ]
    return pd.DataFrame(shown).set_index("Setting").rename_axis(index=None, columns="Setting")


def _recalibration_block(numbers: dict) -> dict:
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
    """In how many methods a recalibration is better or worse than temperature scaling."""
    answers = []
    for title, names in (
        ("calibrated", ("excess_ece", "brier", "nll")),
        ("at finding errors", ("auroc", "aurc")),
        ("at answering", ("accuracy",)),
    ):
        counts = {}
        for name in names:
            found = [
                outcome(r[name]["difference"], terms.METRICS[name][2]) for r in numbers["rows"]
            ]
            counts[name] = (found.count("better"), found.count("worse"), len(found))
        better, worse = (sum(c[i] for c in counts.values()) for i in (0, 1))
        word, tone = "Mixed: no better or worse", "fair"
        if better + worse <= 0.1 * len(names) * len(numbers["rows"]):
            word, tone = "Hardly different", "fair"
        elif better > 2 * worse:
            word, tone = "Better", "good"
        elif worse > 2 * better:
            word, tone = "Worse", "bad"
        parts = [
            f"{terms.METRICS[n][0]}: clearly better for {b} of {of} methods, worse for {w}"
            for n, (b, w, of) in counts.items()
        ]
        end = f"{word} {title} than by a temperature"
        answers.append({"title": end, "text": "; ".join(parts) + ".", "tone": tone})
    return answers
