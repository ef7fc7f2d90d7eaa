"""Compare a user's recalibration, score or metric, and write the page of the bench."""

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
from calibkit_companion.bench import methods as bench
from calibkit_companion.bench.methods import RANKING, SCALED, SHOWN
from calibkit_companion.experiments import plan, plugins
from calibkit_companion.experiments.method import parse
from calibkit_companion.pages import devices, figures, page, wording
from calibkit_companion.records import folders, ranking
from calibkit_companion.records.record import Record
from calibkit_companion.results import Number, Operand, Results, Row, Rows, Series

RECALIBRATED = ("ece", "excess_ece", "nll", "brier", "accuracy", "auroc", "aurc")


def tried(text: str, runs: Results, log: Callable = lambda line: None) -> Rows:
    """Try a recalibration, a score or a metric on all runs of a setting that keep predictions.

    Parameters
    ----------
    text : ``FILE.py:NAME``
    runs : results of a setting
    log : function that takes one line of text for each method

    Returns
    -------
    Rows
        By method and metric. For a recalibration, the difference from temperature scaling (fitted
        by NLL on validation data). For a score, the difference from the largest probability. For a
        metric, its value for the method minus its value for plain training.
    """
    of_kind, source = bench.kind_and_source(text)
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
    """Call ``measure(record, labels)`` for each run, and collect values and deviations by name."""
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
    many = scaled.deviations.shape[1]  # as many resamples as the record has
    samples = stats.Samples(**metrics.per_sample(logits, labels))  # ranked by the confidence
    (drawn,) = stats.replicates([samples], None, RECALIBRATED, n=many)
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
        raise source.error(
            f"gives {own.shape}, expected {labels.shape}, a finite number for each sample"
        )
    both = [stats.Answers(c, usual["correct"]) for c in (own, usual["confidence"])]
    drawn = stats.replicates(both, None, RANKING, n=record.replicates.deviations.shape[1])
    functions = metrics.ranked_metrics(coverages=[0.8])
    one, other = (metrics.Ranking.of(*its) for its in both)
    gaps = {name: float(functions[name](one) - functions[name](other)) for name in RANKING}
    return {n: (gaps[n], drawn[0, :, i] - drawn[1, :, i] - gaps[n]) for i, n in enumerate(RANKING)}


def _measured(source, metric: Callable, record: Record, labels: np.ndarray) -> dict:
    given = record.arrays["test_logits"]
    given = softmax(given) if bench.arguments(source)[0] == "probs" else given
    value, rng = float(metric(given, labels)), np.random.default_rng(0)  # the same resamples
    n, many = record.replicates.deviations.shape[1], len(labels)
    drawn = [metric(given[p], labels[p]) for p in (rng.integers(many, size=many) for _ in range(n))]
    return {source.function: (value, np.array(drawn) - value)}


def apply(source: plugins.Source, model: object, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Fit a user's recalibration on validation data and apply it to the test samples.

    Parameters
    ----------
    source : the file that defines the recalibration; errors quote it
    model : an instance with the methods ``fit(logits, labels)`` and ``predict_proba(logits)``
    arrays : arrays of a record by name

    Returns
    -------
    numpy.ndarray
        Probabilities (n, k) of the test samples, float64.

    Raises
    ------
    plugins.PluginError
        The recalibration fails, or does not return probabilities of shape (n, k).
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


# Questions at the head of the page, by kind; each is answered by one metric.
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
    """Answer the questions at the head of a page in words.

    Parameters
    ----------
    found : rows by method and metric
    questions : the metric that answers each question
    method : name of the method

    Returns
    -------
    list of dict
        ``title``, ``text`` and ``tone`` (good, fair, bad or unsure) of each answer.
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
    """Say whether a difference is for the better or for the worse, with the tone of the answer.

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
    """Make a table of text: difference with interval, outcome, seeds, and what the interval covers.

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
    """Compare a user's method, recalibration, score or metric; write ``bench.html`` and JSON.

    Parameters
    ----------
    what : ``FILE.py:NAME`` of a loss, a factory, a recalibration class, a score or a metric
    selection, device, log, changes : as in `trained`
    out : folder for ``bench.html`` and ``bench.json``; created if missing
    setting : names of settings of the edition. By default a method is trained in the setting that
        all methods share, and on the edition's other data for which plain training has records. A
        recalibration, score or metric is tried in all settings that keep predictions
    chosen : a sentence for the page that says how the coefficients were chosen
    told : function that takes the text of ``bench.json``; called when both files are written

    Returns
    -------
    Path
        Path of ``bench.html``.

    Raises
    ------
    ValueError
        A name is unknown, the file has an error, every run of a method diverged, or no record keeps
        predictions.
    FileNotFoundError
        No setting has its data on this machine. If only some settings lack their data, they are
        left out; page and log say how to get the data.
    """
    selection, out = plan.Selection.of(selection, **changes), Path(out)
    name = parse(what).name  # reads the file, once
    of_kind, source = bench.kind_and_source(name)
    places = [replace(selection, setting=s) for s in setting] or _places(selection, name, of_kind)
    left = []  # lines about settings that are left out
    if of_kind == "method":
        why = {at: bench.lacking_data(name, at) for at in places}
        places, left = [at for at in places if not why[at]], [*filter(None, why.values())]
        if not places:
            raise FileNotFoundError(left[0])
        for line in left:
            log(f"left out: {line}")
    # Bonferroni: the intervals of all answers at the head hold together at 95 %.
    many = len(QUESTIONS.get(of_kind, [of_kind])) * len(places)
    level = 1 - 0.05 / many
    blocks = []
    for at in places:
        if of_kind == "method":
            try:
                runs = bench.trained(name, at, device=device, log=log)
            except ValueError as error:  # after a first setting, an error is only a note
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
    """Choose the settings if the user names none (see `build`)."""
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
    """Make the block of the page about a method in one setting."""
    passes = bench.cost(runs, name)
    said = answers(runs.compare(name, metric=SHOWN, level=level), QUESTIONS["method"], name)
    words = " and ".join(f"{times:.3g} × the {way}" for way, times in passes.items())
    dear = max(passes.values()) > 1.01
    words = f"{words} passes of" if dear else "as many passes as"
    title = "Cost: " + (f"{max(passes.values()):.2g} times" if dear else "none")
    tone, text = "fair" if dear else "good", f"It takes {words} plain training."
    said.append({"title": title, "text": text, "tone": tone})
    block = _block(runs, [name, "erm"], said, bench.rows(runs, name))
    pictures = {k: html.picture(f) for k, f in _drawn(runs, name).items()}
    asked = runs.compare(name, metric=[*QUESTIONS["method"].values()])
    mixed = filter(None, [devices.said_of(asked.values())])
    return block | {"notes": [*_notes(runs, name), *mixed], "pictures": pictures}


def _of_map(of_kind: str, runs: Results, found: Rows) -> dict:
    """Make the block of the page about a recalibration, score or metric in one setting."""
    methods = list(dict.fromkeys(row.method for row in found.values()))
    said = answers(found, QUESTIONS.get(of_kind, {}), "erm") if "erm" in methods else []
    return _block(runs, methods, said, {of_kind: found})


def _block(runs: Results, methods: list[str], said: list[dict], found: dict[str, Rows]) -> dict:
    """Make the parts that every block of the page has."""
    return {
        "title": runs.title,
        "facts": runs.caption_of(methods),
        "verdict": said,
        "provenance": page.Provenance([r for m in methods for r in runs.records(m)])._repr_html_(),
        "tables": {part: html.table(table(its)) for part, its in found.items() if its},
        "rows": [_plain(row) for its in found.values() for row in its.values()],
    }


def _notes(runs: Results, method: str) -> list[str]:
    """Write notes on few seeds, and on runs that diverged or were not trained."""
    seeds = len(runs.records(method))
    few = [f"Only {seeds} run{'s' * (seeds > 1)} of the method: add seeds."] if seeds < 3 else []
    missing = [run.name for run in runs.runs(method) if not folders.has(run)]
    return few + [f"Diverged or not trained: {name}." for name in missing]


def _plain(row: Row) -> dict:
    """Turn a row into plain values for the JSON file."""
    return row.plain | row.number._asdict()


def _drawn(runs: Results, method: str) -> dict:
    """Draw the figures: all methods by AUROC and recalibrated NLL, and reliability diagrams."""
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
