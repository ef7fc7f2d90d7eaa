"""The bench for what needs no training, and the page of the bench: words, tables, figures."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import calibkit
from calibkit import metrics, plots, posthoc, stats, terms
from calibkit.arrays import as_probs, softmax
from calibkit.precision import log_of_map
from calibkit.report import html
from calibkit_companion import results
from calibkit_companion.bench.methods import (
    RANKING,
    SCALED,
    SHOWN,
    arguments,
    cost,
    kind_and_source,
    lacking_data,
    rows,
    trained,
)
from calibkit_companion.experiments import plan, plugins
from calibkit_companion.experiments.method import parse
from calibkit_companion.pages import devices, figures, page, wording
from calibkit_companion.records import folders, ranking
from calibkit_companion.records.record import Record
from calibkit_companion.results import Number, Operand, Results, Row, Rows, Series

RECALIBRATED = ("ece", "excess_ece", "nll", "brier", "accuracy", "auroc", "aurc")


def tried(text: str, runs: Results, log: Callable = lambda line: None) -> Rows:
    """A recalibration, a score or a metric on every run of a setting that keeps its predictions.

    Parameters
    ----------
    text : ``FILE.py:NAME``
    runs : results of a setting
    log : called with one line for each method

    Returns
    -------
    Rows
        By method and metric: a recalibration minus temperature scaling (of lowest validation NLL),
        a score minus the largest probability, or a metric of each method minus that of plain
        training.
    """
    of_kind, source = kind_and_source(text)
    options = plugins.numbers(parse(text).options)
    function = plugins.guarded(source, plugins.load(source.name), **options)
    measure, to = {
        "recalibration": (_recalibrated, Operand(words="temperature scaling")),
        "score": (_scored, Operand(words="the largest probability")),
        "metric": (_measured, Operand("erm")),
    }[of_kind]
    by_method: dict[str, dict[str, Series]] = {}
    for method in runs.drawable(runs.methods):
        whole = [r for r in runs.records(method) if not r.light]
        log(f"{runs.name}: {terms.label(method)}, {len(whole)} runs")
        by_method[method] = _by_seed(whole, partial(measure, source, function))
    if of_kind == "metric":  # a metric compares methods with plain training
        erm = by_method.pop("erm", {})
        by_method = {m: {n: its[n] - erm[n] for n in erm} for m, its in by_method.items()}
    found = Rows()
    for method, series in by_method.items():
        for name, own in series.items():
            of = runs.operand(method, Number(name))
            against = replace(of, method=to.method, words=to.words)
            found[method, name] = results.row(own, of, against)
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
    logits = log_of_map(apply(source, make(), record.arrays))
    summary, scaled = ranking.summary(logits, labels), record.replicates
    many = scaled.deviations.shape[1]  # the same resamples
    its = [stats.Samples(**metrics.per_sample(logits, labels))]  # a map may make confidences equal
    (drawn,) = stats.replicates(its, None, RECALIBRATED, n=many)
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


# The questions at the head of the page, each answered by the row of one metric.
QUESTIONS = {
    "method": {
        "Calibrated as trained": "ece",
        "Finding its errors": "auroc",
        "What temperature scaling leaves": "nll_refinement",
        "Accuracy": "accuracy",
    },
    "recalibration": {"Calibration": "ece", "Likelihood": "nll", "Finding errors": "auroc"},
    "score": {"Finding errors": "auroc", "Risk of what is accepted": "aurc"},
}


def answers(found: Mapping, questions: Mapping[str, str], method: str) -> list[dict]:
    """The answers at the head of a page.

    Parameters
    ----------
    found : rows by method and metric
    questions : the metric of each question
    method : its name

    Returns
    -------
    list of dict
        ``title``, ``text`` and ``tone`` (good, fair, bad, unsure) of each answer.
    """
    said = []
    for question, metric in questions.items():
        if row := found.get((method, metric)):
            label, scale, _ = terms.metric_label(row.metric, unit=False)
            unit = {100: " points", 1000: " thousandths"}.get(scale, "")
            word, tone = judged(row)
            text = f"{label}: {row.format()}{unit} against {wording.name(row.against)}"
            text += f", {row.seeds} seed{'s' * (row.seeds != 1)}, over {row.covers or 'one run'}."
            said.append({"title": f"{question}: {word}", "text": text, "tone": tone})
    return said


def judged(row: Row) -> tuple[str, str]:
    """The outcome of a row as better or worse, and its tone.

    Parameters
    ----------
    row : a difference of two methods

    Examples
    --------
    >>> from calibkit_companion import results
    >>> of, against = (Operand(method, Number("ece")) for method in ("sam", "erm"))
    >>> judged(results.row(Series({0: .1, 1: .11, 2: .12}), of, against))
    ('worse', 'bad')
    """
    higher = terms.METRICS.get(row.metric, ("", 1, None))[2]
    if row.outcome in ("no difference", "unclear") or higher is None:
        word = row.outcome if row.covers else "one run cannot tell"
        return word, "fair" if row.outcome == "no difference" else "unsure"
    better = (row.outcome == "higher") == higher
    return ("better", "good") if better else ("worse", "bad")


def table(found: Rows) -> pd.DataFrame:
    """Rows as text: the difference with its interval, the outcome, and what the interval covers.

    Parameters
    ----------
    found : rows by method, or by method and metric
    """
    frame = pd.DataFrame(
        {
            "Method": terms.label(row.method),
            "Metric": terms.header(row.metric),
            "Difference [95 %]": row.format(),
            "Outcome": row.outcome,
            "Seeds": str(row.seeds),
            "Interval over": row.covers or "–",
        }
        for row in found.values()
    )
    by = "Metric" if frame["Method"].nunique() == 1 else "Method"
    frame = frame.drop(columns="Method") if by == "Metric" else frame
    return frame.set_index(by).rename_axis(index=None, columns=by)


def build(
    what: str,
    selection: plan.Selection | str = "demo",
    out: str | Path = "bench",
    setting: Sequence[str] = (),
    *,
    chosen: str = "",
    device: str = "",
    log: Callable = lambda line: None,
    told: Callable[[str], None] | None = None,
    **changes,
) -> Path:
    """Take something of one's own through the bench; write ``bench.html`` and ``bench.json``.

    Parameters
    ----------
    what : ``FILE.py:NAME``: a loss, a factory, a recalibration class, a score, a metric
    selection, device, log, changes : as `trained` takes them
    out : folder to write to; it is made if need be
    setting : names of settings of the edition; by default, for a method, the one that all share and
        the edition's other data where plain training has records; for what needs no training, all
        that keep predictions
    chosen : how its coefficients were chosen, in words, which the page repeats
    told : called with the text of ``bench.json`` when both files are written

    Returns
    -------
    Path
        Of the page.

    Raises
    ------
    ValueError
        As `trained`, and where no record keeps predictions.
    FileNotFoundError
        No setting has its data. One of several without is left out; page and log say how to get it.
    """
    selection, out = plan.Selection.of(selection, **changes), Path(out)
    name = parse(what).name  # the file is read here, and not again
    of_kind, source = kind_and_source(name)
    places = [replace(selection, setting=s) for s in setting] or _places(selection, name, of_kind)
    left = []  # settings whose data are missing; named before and after training
    if of_kind == "method":
        why = {at: lacking_data(name, at) for at in places}
        places, left = [at for at in places if not why[at]], [*filter(None, why.values())]
        if not places:
            raise FileNotFoundError(left[0])
        for line in left:
            log(f"left out: {line}")
    # Intervals of the headline answers are wider, so that all of them hold together.
    many = len(QUESTIONS.get(of_kind, [of_kind])) * len(places)
    level = 1 - 0.05 / many
    blocks = []
    for at in places:
        if of_kind == "method":
            try:
                runs = trained(name, at, device=device, log=log)
            except (
                ValueError
            ) as error:  # an error on one setting is a note if there is another to show
                if not blocks:
                    raise
                left.append(f"{Results(at, train=False).title}: {error}")
                continue
            blocks.append(_of_method(name, runs, level))
        else:
            runs = Results(at, train=False)
            if found := tried(name, runs, log):
                blocks.append(_of_map(of_kind, runs, found))
    if not blocks:
        raise ValueError(
            f"edition {selection.edition}: no record here keeps predictions; train some first"
        )
    facts = {
        "kind": of_kind,
        "name": terms.label(name),
        "edition": selection.edition,
        "calibkit": calibkit.__version__,
        "chosen": chosen or "not stated",
        "left_out": left,
        "level": round(level, 4),
        "source": {"name": what}
        | ({"file": source.path.name, "sha256": source.sha256} if source else {}),
    }
    numbers = facts | {
        "verdicts": [{"title": b["title"], "verdict": b["verdict"]} for b in blocks],
        "settings": [{"title": b["title"], "rows": b["rows"]} for b in blocks],
    }
    template = Path(__file__).with_name("bench")
    return html.publish(out, "bench", numbers, {}, template, told=told, blocks=blocks, **facts)


def _places(selection: plan.Selection, name: str, of_kind: str) -> list[plan.Selection]:
    """The settings on whose data something is tried, where none is named."""
    if selection.dataset or selection.network or selection.setting:
        return [selection]
    if of_kind != "method":
        names = dict.fromkeys(s.name for s in plan.settings(selection.edition))
        return [replace(selection, setting=name) for name in names]
    others = [
        replace(selection, dataset=dataset, network=network, seeds=selection.seeds or seeds)
        for dataset, network, seeds in plan.EDITIONS[selection.edition].others
        if plan.applicable([parse(name)], dataset)
    ]
    return [selection, *(o for o in others if Results(o, train=False).records("erm"))]


def _of_method(name: str, runs: Results, level: float) -> dict:
    """The block of the page about a method in one setting."""
    passes = cost(runs, name)
    said = answers(runs.compare(name, metric=SHOWN, level=level), QUESTIONS["method"], name)
    words = " and ".join(f"{times:.3g} × the {way}" for way, times in passes.items())
    dear = max(passes.values()) > 1.01
    words = f"{words} passes of" if dear else "as many passes as"
    title = "Cost: " + (f"{max(passes.values()):.2g} times" if dear else "none")
    tone, text = "fair" if dear else "good", f"It takes {words} plain training."
    said.append({"title": title, "text": text, "tone": tone})
    block = _block(runs, [name, "erm"], said, rows(runs, name))
    pictures = {k: html.picture(f) for k, f in _drawn(runs, name).items()}
    asked = runs.compare(name, metric=[*QUESTIONS["method"].values()])
    mixed = filter(None, [devices.said_of(asked.values())])
    return block | {"notes": [*_notes(runs, name), *mixed], "pictures": pictures}


def _of_map(of_kind: str, runs: Results, found: Rows) -> dict:
    """The block of the page about a recalibration, score or metric in one setting."""
    methods = list(dict.fromkeys(row.method for row in found.values()))
    said = answers(found, QUESTIONS.get(of_kind, {}), "erm") if "erm" in methods else []
    return _block(runs, methods, said, {of_kind: found})


def _block(runs: Results, methods: list[str], said: list[dict], found: dict[str, Rows]) -> dict:
    """The parts of the page about one setting."""
    return {
        "title": runs.title,
        "facts": runs.caption_of(methods),
        "verdict": said,
        "provenance": page.Provenance([r for m in methods for r in runs.records(m)])._repr_html_(),
        "tables": {part: html.table(table(its)) for part, its in found.items() if its},
        "rows": [_plain(row) for its in found.values() for row in its.values()],
    }


def _notes(runs: Results, method: str) -> list[str]:
    """Notes on few seeds, and on runs that diverged or were not trained."""
    seeds = len(runs.records(method))
    few = [f"Only {seeds} run{'s' * (seeds > 1)} of the method: add seeds."] if seeds < 3 else []
    missing = [run.name for run in runs.runs(method) if not folders.has(run)]
    return few + [f"Diverged or not trained: {name}." for name in missing]


def _plain(row: Row) -> dict:
    """A row as plain values, for the JSON file."""
    return row.plain | row.number._asdict()


def _drawn(runs: Results, method: str) -> dict:
    """Figures: AUROC and NLL after temperature scaling of every method; reliability."""
    from matplotlib import pyplot as plt

    everybody = [m for m in dict.fromkeys([*runs.methods, method]) if m != "erm"]
    with plots.style():
        each = {m: runs.compare(everybody, metric=m) for m in ("auroc", "nll_refinement")}
        panels = {terms.metric_label(m, unit=False)[0]: its for m, its in each.items() if its}
        drawn, lines = {"forest": figures.verdicts(panels)}, {}
        for m in runs.drawable(["erm", method]):
            whole = [results.Predictions.of(r) for r in runs.records(m) if not r.light]
            confident = zip(*(p.confident() for p in whole), strict=True)
            lines[m] = plots.prepare_reliability(*map(list, confident))
        if method in lines:
            fig, ax = plt.subplots(figsize=(6.9, 3.6), layout="constrained")
            plots.plot_reliability_lines(lines, ax)
            drawn["reliability"] = fig
    return drawn
