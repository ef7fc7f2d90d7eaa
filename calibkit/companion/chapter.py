"""What the chapters of the five papers share: one exhibit over several settings, and its words.

A chapter opens with the settings of its paper that have records, a `notebook.Page` each::

    pages = chapter.begin("fmfp", methods, edition, dataset, network, seeds, epochs)

Everything here takes such a list. A figure has a block for each setting (`blocks`), a difference is
drawn by `forest` or shaded by `shaded` rather than spelt out in a wall of numbers, a sentence about
it comes from `in_words`, and `judge` checks what the paper states in every setting.

The words of a difference are those of `stats.Interval.direction`. *Practically none* is a
difference whose whole interval lies within the margin of the paper's claims, see `margins`.

Long, because a chapter's tables, figures and sentences take the same settings and differences.
"""

import html
import re
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from calibkit import explorable, metrics, plots, posthoc, stats, terms
from calibkit.companion import contrasts, notebook, plan, published
from calibkit.companion import statements as claims
from calibkit.training import store

_OPENED = {"at": 0.0}
# After recalibration: what a history calls a metric, and what replicates do.
_AFTER = {
    "adaptive_ece_scaled": "adaptive_ece_ts_ece",
    "classwise_ece_scaled": "classwise_ece_ts_ece",
    "ece_binned": "ece_binned",
}
_SPELT = {  # in a sentence; a table's head says less
    "mean_correct": "confidence of correct predictions",
    "mean_wrong": "confidence of wrong predictions",
}
_CLAIMED = {  # what claims call a column; they compare calibration errors by their excess
    "mean_correct": "confidence_correct",
    "mean_wrong": "confidence_wrong",
    "excess_ece": "ece",
    "excess_ece_scaled": "ece_scaled",
    "excess_ece_optimal": "ece_optimal",
}
BETTER, WORSE, NONE = "#4477AA", "#EE6677", "#999999"


def begin(
    paper: str,
    methods: Sequence[str],
    edition: str = "released",
    dataset: str = "",
    network: str = "",
    seeds: int = 0,
    epochs: int = 0,
) -> list[notebook.Page]:
    """Show in one line, which opens, the settings a chapter is about; return those with records.

    Parameters
    ----------
    paper : whose settings
    methods, edition, dataset, network, seeds, epochs : as `notebook.page`

    Raises
    ------
    NoRecords
        No setting has one; the box has the command that trains them.
    """
    from IPython.display import HTML, display

    _OPENED["at"] = time.perf_counter()
    notebook.check_parameters()
    selection = plan.Selection(
        edition, dataset=dataset, network=network, seeds=seeds, epochs=epochs
    )
    names = [s.name for s in plan.settings(edition, paper)]
    shown = notebook.pages(methods, selection, paper)
    shown = [p for p in shown if len(p.methods) > 1] or shown  # one method has no other to beat
    if not shown:
        notebook.require(notebook.page(methods, selection, paper))
    seeds = {p.title: p.setting.split(" · ")[-2] for p in shown}
    titles = [f"<b>{html.escape(title)}</b> ({n})" for title, n in seeds.items()]
    lines = [f"<b>{html.escape(p.title)}</b>: {html.escape(p.setting)}" for p in shown]
    cells = published.cells(paper)
    printed = len(cells.groupby(["dataset", "network"]))
    lines.append(
        f"The paper prints numbers for {printed} combinations of data and network. Shown here: "
        f"{len(shown)} of this edition's {len(names)} settings."
    )
    lacking = {
        p.title: list(dict.fromkeys(r.method for r in p.missing if r.method not in p.records))
        for p in shown
        if p.missing
    }
    partial = len(names) > len(shown) and not (dataset or network)
    if lacking or partial:
        gaps = [
            f"{', '.join(map(terms.label, m)) or 'some seeds'} ({title})"
            for title, m in lacking.items()
        ]
        gaps += ["the other settings of this edition"] if partial else []
        note = f"Without records: {'; '.join(gaps)}."
        lines.append(html.escape(note) + " To train what is missing:")
        lines.append(f"<code>calibkit train --edition {edition} --paper {paper}</code>")
    diverged = [run.name for p in shown for run in p.diverged]
    if diverged:
        lines.append("Diverged: " + html.escape(", ".join(diverged)))
    display(
        HTML(
            '<details class="calibkit-page"><summary>Shown here: '
            f"{' · '.join(titles)}</summary>{'<br>'.join(lines)}</details>"
        )
    )
    return shown


def whole(pages: Iterable[notebook.Page], *methods: str) -> list[notebook.Page]:
    """The settings in which each of some methods has a record with predictions, and only these.

    A figure drawn from predictions says by `notebook.Page.setting` how many runs it shows. Of two
    runs it takes the first: an interval from two is thirteen standard errors wide on either side.
    """
    complete = []
    for page in pages:
        records = {m: [r for r in its if not r.light] for m, its in page.records.items()}
        records = {m: its if len(its) > 2 else its[:1] for m, its in records.items() if its}
        if records and set(methods) <= set(records):
            complete.append(replace(page, records=records))
    return complete


def _excess(record, its: pd.Series) -> dict[str, float]:
    """Excess ECE as trained, after scaling, and at the temperature that is best on test data."""
    needs = {"": None, "scaled": "temperature", "optimal": "temperature_optimal"}
    models = {
        "_".join(filter(None, ("excess_ece", after))): contrasts.Model(record, after)
        for after, column in needs.items()
        if column is None or np.isfinite(its.get(column, np.nan))
    }
    return {name: model.value("excess_ece") for name, model in models.items()}


def values(page: notebook.Page) -> pd.DataFrame:
    """Every metric at the end of training, indexed by method and seed; "ts" is ERM, rescaled.

    The temperature is the one of lowest ECE on the validation samples, whether a record keeps its
    predictions or only replicates.
    """
    full = {m: [r for r in its if not r.light] for m, its in page.records.items()}
    rows = published.by_run({m: its for m, its in full.items() if its}).to_dict("records")
    for method, its in page.records.items():
        for record in filter(lambda r: r.light, its):
            last = {name: column[-1] for name, column in record.history.items() if name != "epoch"}
            replicates, run = record.replicates, record.info["run"]
            last |= {
                ours: replicates.estimate(name)
                for ours, name in _AFTER.items()
                if name in replicates
            }
            about = {k: run[k] for k in ("dataset", "network", "seed")}
            about |= {k: run["protocol"].get(k) for k in ("epochs", "train_size")}
            rows.append({"method": method} | about | last)
            if method == "erm":
                after = {
                    n.removesuffix("_ts_ece"): replicates.estimate(n)
                    for n in replicates.names
                    if n.endswith("_ts_ece")
                }
                rows.append({"method": "ts"} | about | after)
    table = pd.DataFrame(rows).set_index(["method", "seed"]).sort_index()
    for method, its in page.records.items():  # an ECE without the part due to chance
        for record in its:
            place = method, record.info["run"]["seed"]
            for name, value in _excess(record, table.loc[place]).items():
                table.loc[place, name] = value
    if "ece_correct" in table and "confidence_gap" in table:
        table["mean_correct"] = 1 - table["ece_correct"]
        table["mean_wrong"] = table["mean_correct"] - table["confidence_gap"]
    table.attrs["networks"] = page.networks
    return table


def flat(table: pd.DataFrame) -> pd.DataFrame:
    """`values` as `published.beside` takes them: a row per run, its method in a column."""
    return table.reset_index()


def margins(paper: str = "", methods: Iterable[str] = (), than: str = "erm") -> dict[str, float]:
    """The largest difference of each metric that would not matter, by the paper's claims.

    Without a paper, by the claims of all papers.

    Claims that compare one of `methods` with `than` come first, at any coefficient and on any data;
    of several margins the strictest counts. `judge` uses the margin of each claim itself.

    Examples
    --------
    >>> within = margins("fmfp", ["mixup", "focal"])
    >>> within["auroc"], within["mean_wrong"] == within["confidence_wrong"]
    (0.0035, True)
    """
    bases = {terms.parts(m)[0] for m in methods}
    by_metric: dict[str, list[tuple[bool, float]]] = {}
    for claim in claims.claims(paper or None):
        for leaf in claim.check.leaves():
            if isinstance(leaf, claims.Comparison):
                pair = {re.match(r"\w*", str(side))[0] for side in (leaf.of, leaf.than)}
                about_these = than in pair and bool(bases & pair) and "@" not in leaf.of
                within = claim.margins.get(leaf.metric, leaf.margin)
                by_metric.setdefault(leaf.metric, []).append((not about_these, within))
    least = {metric: min(each)[1] for metric, each in by_metric.items()}
    return least | {ours: least[name] for ours, name in _CLAIMED.items() if name in least}


def differences(
    table: pd.DataFrame, metric: str, methods: Iterable[str], than: str = "erm"
) -> dict[str, stats.Interval]:
    """Methods minus one, in pairs of the same seed; those without a pair are left out."""
    present = set(table.index.get_level_values(0)) if metric in table else set()
    if than not in present:
        return {}
    intervals = {
        m: notebook.difference(table[metric], m, than)
        for m in methods
        if m in present and m != than
    }
    return {m: d for m, d in intervals.items() if np.isfinite(d.estimate)}


def inline(method: str) -> str:
    """What a method is called within a sentence.

    >>> [inline(m) for m in ("label_smoothing", "l1_norm", "erm", "brier", "focal+sam")]
    ['label smoothing', 'the L1 norm', 'ERM', 'Brier loss', 'focal + SAM']
    """
    label = terms.label(method).replace("reg.", "regularisation")
    label = {"Focal": "Focal loss", "Dual focal": "Dual focal loss"}.get(label, label)
    if label == "L1 norm":
        return "the L1 norm"
    common = re.match(r"[A-Z][a-z]+(?![\w-])", label) and not label.startswith("Brier")
    return label[0].lower() + label[1:] if common else label


def listed(words: Iterable[str]) -> str:
    """Some words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    words = list(words)
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def in_words(
    intervals: Mapping[str, stats.Interval], metric: str, than: str = "ERM", within: float = 0.0
) -> str:
    """Differences in a sentence, without its full stop: who is higher, lower, or neither.

    Parameters
    ----------
    intervals : from `differences`
    metric : in whose units they are given
    than : what they were compared with
    within : see `margins`

    Examples
    --------
    >>> intervals = {"focal": stats.Interval(0.02, 0.01, 0.03), "mixup": stats.Interval(0, -1, 1)}
    >>> in_words(intervals, "auroc")
    'Focal loss (+2.0 points [+1.0, +3.0]) raises the AUROC; no clear change with mixup'
    >>> in_words({"mixup": stats.Interval(0, -1, 1)}, "ece", "CRL")
    'Mixup does not clearly differ from CRL in ECE'
    """
    name, plain = _spelt(metric), than == "ERM"
    groups: dict[str, list[str]] = {}
    for method, interval in intervals.items():
        groups.setdefault(interval.direction(within), []).append(method)
    parts: list[str] = []
    for word in filter(groups.get, _DIRECTIONS):
        one, each = len(groups[word]) == 1, [inline(m) for m in groups[word]]
        sizes = [notebook.change(intervals[m], metric) for m in groups[word]]
        what = "it" if parts else f"the {name}"  # the first part names it
        has, does = ("has", "does") if one else ("have", "do")
        if word in ("lower", "higher"):
            subjects = listed(f"{m} ({size})" for m, size in zip(each, sizes, strict=True))
            verb = ("lower" if word == "lower" else "raise") + "s" * one
            comparison = f"{has} a {word} " + ("one" if parts else f"{name} than {than}")
            part = f"{subjects} {verb} {what}" if plain else f"{subjects} {comparison}"
        elif word == "practically none":
            unchanged = f"leave{'s' * one} {what} practically unchanged"
            same = f"{has} practically the {'same' if parts else f'{name} of {than}'}"
            part = f"{listed(each)} {unchanged if plain else same}"
        elif word == "cannot be told":
            subjects = listed(f"{size} with {m}" for m, size in zip(each, sizes, strict=True))
            verb = "changes" if plain else f"differs from that of {than}"
            part = f"{what} {verb} by {subjects} (one run each, so no interval)"
        elif parts:
            part = f"no clear {'change' if plain else 'difference'} with {listed(each)}"
        else:
            clearly = f"change {what}" if plain else f"differ from {than} in {name}"
            part = f"{listed(each)} {does} not clearly {clearly}"
        parts.append(part)
    sentence = "; ".join(parts)
    return sentence[:1].upper() + sentence[1:]


_DIRECTIONS = ("lower", "higher", "practically none", "no clear difference", "cannot be told")


def _spelt(metric: str) -> str:
    """What a metric is called within a sentence."""
    return _SPELT.get(metric) or notebook.called(metric)


def tally(
    intervals: Mapping[str, stats.Interval], metric: str, what: str = "methods", within: float = 0.0
) -> str:
    """How many methods lower and how many raise a metric, as a sentence without its full stop.

    Parameters
    ----------
    intervals, metric, within : as in `in_words`, which describes a single method
    what : what they are called

    Examples
    --------
    >>> low, unclear = stats.Interval(-0.02, -0.03, -0.01), stats.Interval(0, -1, 1)
    >>> tally({"focal": low, "mixup": unclear}, "auroc")
    '1 of 2 methods lowers the AUROC, none raises it'
    >>> tally({"mixup": unclear, "fmfp": unclear}, "excess_ece")
    'none of the 2 methods clearly changes the excess ECE'
    >>> tally({"mixup": unclear}, "auroc")
    'mixup does not clearly change the AUROC'
    """
    if len(intervals) == 1:
        (method,) = intervals
        sentence = in_words(intervals, metric, within=within)
        return inline(method) + sentence.removeprefix(
            inline(method)[:1].upper() + inline(method)[1:]
        )
    directions = [d.direction(within) for d in intervals.values()]
    name = _spelt(metric)
    counts = sorted(
        ((directions.count(f"{verb}er"), verb) for verb in ("low", "high")), reverse=True
    )
    if set(directions) == {"practically none"}:
        return f"all {len(directions)} {what} leave the {name} practically unchanged"
    if not counts[0][0]:
        return f"none of the {len(directions)} {what} clearly changes the {name}"
    verbs = {"low": "lower", "high": "raise"}
    (most, verb), (rest, opposite) = counts
    if most == len(directions):
        return f"all {most} {what} {verbs[verb]} the {name}"
    return (
        f"{most} of {len(directions)} {what} {verbs[verb]}{'s' * (most == 1)} the {name}, "
        f"{rest or 'none'} {verbs[opposite]}{'s' * (rest < 2)} it"
    )


def fullest(pages: Sequence[notebook.Page]) -> int:
    """Which setting tells most: where most methods have several runs, then where most have any."""

    def runs_and_methods(page: notebook.Page) -> tuple[int, int]:
        return sum(len(its) > 1 for its in page.records.values()), len(page.methods)

    return max(range(len(pages)), key=lambda i: runs_and_methods(pages[i]))


def in_short(
    pages: Sequence[notebook.Page],
    tables: Sequence[pd.DataFrame],
    metrics: Iterable[str],
    methods: Iterable[str],
    what: str = "methods",
    within: Mapping[str, float] = {},
) -> str:
    """What a chapter finds, in a line: who lowers and who raises what, in the fullest setting.

    On other data, and on the same in another regime, the first metric, for methods that have
    several runs; a single run says nothing.
    `within` is as `margins` returns it.
    """
    first, table = (its[fullest(pages)] for its in (pages, tables))
    by_metric = {k: differences(table, k, list(methods)) for k in metrics}
    sure = {k: {m: x for m, x in d.items() if not np.isnan(x.low)} for k, d in by_metric.items()}
    parts = [tally(d, k, what, within.get(k, 0.0)) for k, d in sure.items() if d]
    if not parts:
        return "**In short**"
    metric, told = next(iter(by_metric)), []
    for page, table in zip(pages, tables, strict=True):
        differs = differences(table, metric, list(methods))
        several = {m: d for m, d in differs.items() if not np.isnan(d.low)}
        elsewhere = _data(page) != _data(first) or page.planned.name != "shared"
        if page is not first and several and elsewhere:
            some = f" ({len(several)} of {len(differs)} have several runs)"
            words = in_words(several, metric, within=within.get(metric, 0.0))
            told.append((page, f"{some * (len(several) < len(differs))}: {words}."))
    settings = Counter(_data(page) for page, _ in [(first, ""), *told])

    def name(page: notebook.Page) -> str:  # in full where the same data have another setting
        return page.title if settings[_data(page)] > 1 else _data(page)

    sentences = [f"**In short:** on {name(first)}: {'; '.join(parts)}."]
    return " ".join(sentences + [f"On {name(page)}{words}" for page, words in told])


def _data(page: notebook.Page) -> str:
    dataset = page.runs[0].dataset
    return terms.DATASETS.get(dataset, dataset)


def one_each(
    pages: Iterable[notebook.Page], methods: Iterable[str] = (), predictions: bool = True
) -> list[notebook.Page]:
    """Of each data set the setting with most to draw, the paper's own if equal.

    For figures that need room: tables, sentences and verdicts of a chapter cover all settings.

    Parameters
    ----------
    methods : those that count; default all
    predictions : whether it takes predictions to draw them
    """
    relevant = set(methods)

    def drawable(page: notebook.Page) -> int:
        drawable_pages = whole([page]) if predictions else [page]
        return sum(not relevant or m in relevant for p in drawable_pages for m in p.methods)

    best: dict[str, notebook.Page] = {}
    for page in pages:
        fullest_page = best.setdefault(page.runs[0].dataset, page)
        if drawable(page) > drawable(fullest_page):
            best[page.runs[0].dataset] = page
    return list(best.values())


def risk_coverage(
    page: notebook.Page, methods: Iterable[str], temperature: bool = False
) -> explorable.Explorable:
    """A slider for the error rate to allow, for the first run with predictions of each method.

    Thresholds are chosen on validation samples. Methods without predictions are left out.

    Parameters
    ----------
    temperature : whether logits are divided by the temperature of lowest NLL on these samples
    """

    def scored(logits, labels):
        samples = metrics.per_sample(logits, labels)
        return samples["confidence"], samples["correct"]

    numbers = {}
    for m in (m for m in methods if whole([page], m)):
        held_out, labels = page.validation(m)[0]
        t = posthoc.TemperatureScaling().fit(held_out, labels).temperature_ if temperature else 1.0
        test = scored(page.logits(m)[0] / t, page.labels)
        numbers[m] = explorable.prepare_risk_coverage(*test, scored(held_out / t, labels))
    return explorable.show_risk_coverage(numbers)


def folded(words: str, text: str) -> str:
    """Markdown that opens behind some words, in the book and in JupyterLab."""
    return opened(words, f"\n\n{text}\n\n")


def opened(words: str, what: str) -> str:
    """HTML that opens behind some words."""
    return f"<details><summary>{html.escape(words)}</summary>{what}</details>"


def tell(
    pages: Sequence[notebook.Page],
    sentence: Callable[[notebook.Page], str],
    lead: str = "",
    every: bool = False,
) -> None:
    """Print a sentence about the setting that tells most; those about the others open behind it.

    Parameters
    ----------
    pages : the settings; they are named where there are several
    sentence : about one of them; empty where there is nothing to say
    lead : what comes before
    every : whether all are in sight, as a list
    """
    sentences = [(p, sentence(p).strip()) for p in pages]
    sentences = [(p, s) for p, s in sentences if s]
    if not sentences:
        return
    paragraphs = [lead] if lead else []
    if len(pages) == 1:
        return notebook.say(*paragraphs, sentences[0][1])
    named = [f"**{p.title.rstrip('.')}.** {s}" for p, s in sentences]
    if every:
        return notebook.say(*paragraphs, "\n".join(f"- {one}" for one in named))
    first = fullest([p for p, _ in sentences])
    paragraphs.append(named.pop(first))
    if named:
        titles = " · ".join(p.title for i, (p, _) in enumerate(sentences) if i != first)
        paragraphs.append(folded(f"Also: {titles}", "\n".join(f"- {one}" for one in named)))
    return notebook.say(*paragraphs)


def blocks(
    pages: Sequence[notebook.Page],
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (3.2, 3.0),
    heights: Sequence[float] = (),
    **how,
):
    """A figure with a block of axes for each setting, under its title and above its small print.

    Parameters
    ----------
    pages : the settings
    rows, columns : axes of a block
    size : width and height of one of them in inches
    heights : of one of them in each setting, where they differ
    how : passed to ``subplots``, such as ``sharey=True``

    Returns
    -------
    figure, list of (page, axes (rows, columns))
    """
    each = [rows * height + 0.6 for height in heights or [size[1]] * len(pages)]
    fig = plt.figure(figsize=(size[0] * columns + 0.3, sum(each)))
    parts = fig.subfigures(len(pages), 1, squeeze=False, height_ratios=each)[:, 0]
    axes_by_page = []
    for part, page in zip(parts, pages, strict=True):
        if len(pages) > 1:
            part.suptitle(page.title, fontsize=12, fontweight="bold", x=0.01, ha="left")
        axes_by_page.append((page, part.subplots(rows, columns, squeeze=False, **how)))
        page.stamp(part)
    return fig, axes_by_page


def forest(
    pages: Sequence[notebook.Page],
    tables: Sequence[pd.DataFrame],
    metrics: Sequence[str],
    methods: Sequence[str],
    than: str = "erm",
    exhibit: str = "",
    dataset: str = "",
    network: str = "",
    columns: int = 3,
):
    """Draw differences from one method: a row per method, a panel per metric and setting.

    Settings are blocks or, where that takes less room, columns with a scale in common. Filled with
    its interval: here. Hollow: the same difference in an exhibit of the paper.
    """
    printed = {}
    if exhibit:
        cells = published.cells(exhibit=exhibit)
        cells = cells[(cells.dataset == dataset) & (cells.network == network)]
        cells = cells.drop_duplicates(["method", "metric"])
        wide = cells.pivot(index="method", columns="metric", values="value")
        printed = {
            (m, k): wide.loc[m, k] - wide.loc[than, k]
            for m in wide.index
            for k in wide
            if than in wide.index
        }
    columns = min(columns, len(metrics))
    rows, height = -(-len(metrics) // columns), 0.27 * len(methods)
    across = 1.1 + len(metrics) * (0.5 + height)
    if len(pages) > 1 and across < len(pages) * (0.6 + rows * (0.75 + height)):
        room = 60 // len(pages)
        size = {"figsize": (6.9, across)}
        fig, axes = plt.subplots(
            len(metrics), len(pages), **size, squeeze=False, sharex="row", sharey=True
        )
        for ax, page in zip(axes[0], pages, strict=True):
            title = textwrap.fill(page.title, room)
            ax.set_title(title, fontsize=10, fontweight="bold", loc="left")
        notebook.stamp(fig, *pages)
        panels = [
            (ax, metric, table)
            for row, metric in zip(axes, metrics, strict=True)
            for ax, table in zip(row, tables, strict=True)
        ]
    else:
        room = 48 // columns
        fig, parts = blocks(pages, rows, columns, (6.6 / columns, 0.75 + height), sharey=True)
        panels = [
            (ax, metric, table)
            for (_, axes), table in zip(parts, tables, strict=True)
            for ax, metric in zip(axes.flat, metrics, strict=False)
        ]
        for ax in (ax for _, axes in parts for ax in axes.flat[len(metrics) :]):
            ax.set_axis_off()
    shown, reach = False, {}
    for ax, metric, table in panels:
        intervals = differences(table, metric, methods, than)
        label, scale, higher = terms.metric_label(metric)
        for y, m in enumerate(methods):
            style = {k: v for k, v in plots.look(m).items() if k in ("color", "marker")}
            if m in intervals:
                middle, low, high = (scale * x for x in intervals[m])
                ax.plot([low, high], [y, y], color=style["color"], linewidth=2.2, alpha=0.6)
                ax.plot(middle, y, **style, markersize=6.5, linestyle="")
                reach.setdefault(metric, []).append((middle, low, high))
            if np.isfinite(printed.get((m, metric), np.nan)):
                shown = True
                theirs = scale * printed[m, metric]
                ax.plot(theirs, y + 0.28, **style, mfc="white", ms=6, linestyle="")
                reach.setdefault(metric, []).append((theirs, np.nan, np.nan))
        ax.axvline(0, color="0.4", linestyle=":", linewidth=1.2, zorder=0)
        arrow = {True: " →", False: " ←", None: ""}[higher]
        ax.set_xlabel(textwrap.fill(f"Δ {label}{arrow}", room), fontsize=10)
        ax.set_yticks(range(len(methods)), [plots.look(m)["label"] for m in methods])
        ax.set_ylim(len(methods) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        ax.xaxis.set_major_locator(plt.MaxNLocator(4))
    for ax, metric, _ in panels if len({id(ax.figure) for ax, *_ in panels}) == 1 else ():
        ends = _fitting(reach.get(metric, []))
        ax.set_xlim(*ends) if ends else None
    if shown:
        dot = {"linestyle": "", "marker": "o", "color": "0.5"}
        handles = [
            plt.Line2D([], [], **dot, label="here, 95 % interval"),
            plt.Line2D([], [], **dot, mfc="white", label="the paper"),
        ]
        fig.legend(handles=handles, loc="outside upper right", ncols=2)
    return fig


def _fitting(points: Sequence[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Ends of an axis for (middle, low, high); an interval from two runs may leave it.

    >>> [round(float(x), 2) for x in _fitting([(0, -1, 1), (1, 0, 2), (1, -30, 32)])]
    [-1.21, 2.21]
    """
    middle, low, high = np.array(points, dtype=float).reshape(-1, 3).T
    with_one = np.isfinite(low)
    if not len(middle):
        return None
    usual = 4 * np.nanmedian((high - low)[with_one]) if with_one.any() else 0.0
    kept = with_one & (high - low <= usual)
    values = np.concatenate([middle, low[kept], high[kept], [0.0]])
    room = 0.07 * max(np.ptp(values), 1e-9)
    return values.min() - room, values.max() + room


def shaded(
    pages: Sequence[notebook.Page],
    tables: Sequence[pd.DataFrame],
    metrics: Sequence[str],
    methods: Sequence[str],
    than: str = "erm",
    within: Mapping[str, float] = {},
) -> None:
    """Display differences from one method as coloured cells: the setting that tells most.

    Blue is better than the reference and red is worse, where the interval excludes 0; grey is
    practically none; no colour is undecided. The interval is in the cell's tooltip. Methods
    without a record are left out. The other settings open behind a line which says how often they
    point the same way.
    """
    first = fullest(pages)
    order = [first, *(i for i in range(len(pages)) if i != first)]
    each = [
        {(k, m): d for k in metrics for m, d in differences(tables[i], k, methods, than).items()}
        for i in order
    ]
    parts = [
        (pages[i].title, *_coloured(intervals, metrics, methods, within))
        for i, intervals in zip(order, each, strict=True)
    ]
    single = any(np.isnan(d.low) for intervals in each for d in intervals.values())
    note = (
        f"Method minus {html.escape(terms.label(than))}. Blue: better, red: worse, grey: "
        f"practically none, no colour: undecided{' or one run only' * single}."
    )
    if len(parts) < 2:
        return _display(parts, note, False)
    both = [
        (d, each[0][key])
        for intervals in each[1:]
        for key, d in intervals.items()
        if key in each[0]
    ]
    same = sum((a.estimate > 0) == (b.estimate > 0) for a, b in both)
    others = " · ".join(title for title, *_ in parts[1:])
    rest = f"{others}: the same sign in {same} of {len(both)} cells"
    return _display(parts[:1], note, True, more=(rest, parts[1:]))


def _coloured(
    intervals: Mapping[tuple[str, str], stats.Interval],
    metrics: Iterable[str],
    methods: Iterable[str],
    within: Mapping[str, float],
) -> tuple[str, str]:
    """Head and body of a table of differences by (metric, method), a row per metric."""
    present = [m for m in methods if any(m == method for _, method in intervals)]
    body = []
    for metric in metrics:
        label, scale, higher = terms.metric_label(metric)
        cells = []
        for m in present:
            if (metric, m) not in intervals:
                cells.append("<td>·</td>")
                continue
            d = intervals[metric, m]
            direction = d.direction(within.get(metric, 0.0))
            good = direction == ("higher" if higher else "lower")
            color = {"higher": True, "lower": True}.get(direction) and (BETTER if good else WORSE)
            color = NONE if direction == "practically none" else color
            style = f' style="background-color: {color}55"' if color and higher is not None else ""
            digits = 1 if scale > 1 else 3
            shown = d._replace(low=np.nan, high=np.nan).format(scale, digits, sign=True)
            tip = f"{direction}, {notebook.in_units(d, metric)}"
            cells.append(f'<td{style} title="{html.escape(tip)}">{shown}</td>')
        body.append(f"<tr><th>{html.escape(label)}</th>{''.join(cells)}</tr>")
    head = "".join(f"<th>{html.escape(plots.look(m)['label'])}</th>" for m in present)
    return f"<thead><tr><th></th>{head}</tr></thead>", "".join(body)


def beside(
    pages: Sequence[notebook.Page],
    tables: Sequence[pd.DataFrame],
    exhibit: str,
    metrics: Sequence[str] = (),
    dataset: str = "",
    network: str = "",
    digits: int = 1,
    across: int = 3,
) -> None:
    """Display an exhibit's cells with ours below each: small tables of a few metrics, side by side.

    Parameters
    ----------
    exhibit, metrics, dataset, network : as `published.beside`
    across : metrics of one table, so that none is wider than a phone
    """
    parts = []
    ours = [flat(t) for t in tables] or [pd.DataFrame()]  # without pages: the published cells
    sides = [published.beside(one, exhibit, dataset, network, metrics) for one in ours]
    first = sides[0]
    several = first.groupby(["dataset", "network"], sort=False).ngroups > 1
    names = list(metrics) or list(dict.fromkeys(first.metric))
    first = first.sort_values(["dataset", "network"], kind="stable") if several else first
    keys = list(dict.fromkeys(zip(first.dataset, first.network, first.method, strict=True)))
    every = [s.set_index(["dataset", "network", "method", "metric"]) for s in sides]
    for start in range(0, len(names), across):
        some = names[start : start + across]
        head = "".join(f"<th>{html.escape(terms.header(m))}</th>" for m in some)
        body = []
        for where, net, method in keys:
            cells = []
            for metric in some:
                key = (where, net, method, metric)
                if key not in every[0].index:
                    cells.append("<td>·</td>")
                    continue
                row = every[0].loc[key]
                lines = [f"<i>{_plus(row.published, row.published_std, metric, digits)}</i>"]
                for one in every:
                    measured = one.loc[key]
                    if np.isfinite(measured.ours):
                        half = notebook.half_width(
                            stats.Interval(measured.ours, measured.low, measured.high)
                        )
                        lines.append(_plus(measured.ours, half, metric, digits))
                cells.append(f"<td>{'<br>'.join(lines)}</td>")
            place = f"{terms.DATASETS.get(where, where)} · {net}<br>" if several else ""
            name = place + html.escape(plots.look(method)["label"])
            body.append(f"<tr><th>{name}</th>{''.join(cells)}</tr>")
        parts.append(("", f"<thead><tr><th></th>{head}</tr></thead>", "".join(body)))
    note = "<i>Italic: published</i> (± standard deviation). "
    if pages:
        ours = "; then ".join(p.title for p in pages)
        note += f"Below: {html.escape(ours)} (± 95 % interval). "
        note += html.escape(first.attrs["differs"])
    where = f" ({pages[0].title})" * (len(pages) == 1) if pages else ""
    _display(parts, note, False, "The published numbers" + ", ours below" * bool(pages) + where)


def _plus(value: float, half: float, metric: str, digits: int) -> str:
    scale = terms.metric_label(metric)[1]
    return stats.Interval(value, value - half, value + half).format(
        scale, digits if scale > 1 else digits + 1, half=True
    )


def _display(
    parts: Iterable[tuple[str, str, str]],
    note: str,
    titled: bool,
    folded: str = "",
    more: tuple[str, Sequence[tuple[str, str, str]]] = ("", ()),
) -> None:
    """Small tables side by side, or one below the other.

    Parameters
    ----------
    parts : title, head and body of each
    note : what comes below
    titled : whether titles are shown
    folded : if any, all of it opens behind these words
    more : words, and the tables that open behind them
    """
    from IPython.display import HTML, display

    def side_by_side(parts: Iterable[tuple[str, str, str]]) -> str:
        tables = "".join(
            f"<div>{f'<b>{html.escape(title)}</b>' * titled}"
            f'<table class="dataframe calibkit-table">{head}<tbody>{body}</tbody></table></div>'
            for title, head, body in parts
        )
        return f'<div class="calibkit-tables">{tables}</div>'

    shown = f'{side_by_side(parts)}<p class="calibkit-note">{note}</p>'
    words, others = more
    shown += opened(words, side_by_side(others)) if others else ""
    display(HTML(opened(folded, shown) if folded else shown))


def judge(
    pages: Sequence[notebook.Page],
    tables: Sequence[pd.DataFrame],
    statements: Iterable[tuple[str, str, str, str, Sequence[str], str]],
) -> None:
    """Check a paper's statements in every setting: how many agree, then method by method.

    The lines of the setting that tells most are in sight, those of the others open.

    Parameters
    ----------
    statements : the words, the claim of the scoreboard whose margin applies, the metric, on which
        side ("higher", "lower", or one of `contrasts.SIDES`), of which methods, than which
    """
    marks = {"holds": "✓", "the opposite": "✗", "ruled out": "✗", "practically none": "="}
    marks |= {"open": "?"}
    colors = {"holds": BETTER, "the opposite": WORSE, "ruled out": WORSE, "practically none": NONE}
    bodies, counts = ["" for _ in pages], [{k: 0 for k in (*marks, "(✓)", "(✗)")} for _ in pages]
    for words, claim, metric, stated, methods, than in statements:
        for i, (table, count) in enumerate(zip(tables, counts, strict=True)):
            chips = []
            for m, (d, word) in decided(table, claim, metric, stated, methods, than).items():
                count[word] += 1
                color = f' style="background-color: {colors[word]}44"' if word in colors else ""
                tip = html.escape(f"{word}: {notebook.in_units(d, metric)}")
                sign = f"{marks.get(word, word)} {html.escape(inline(m))}"
                chips.append(f'<span class="calibkit-chip" title="{tip}"{color}>{sign}</span>')
            if chips:  # in one block, which wraps where a table is stacked
                line = f'<td class="said"><div>{" ".join(chips)}</div></td>'
                bodies[i] += f'<tr><th class="said">{html.escape(words)}</th>{line}</tr>'

    def score(page: notebook.Page) -> str:
        count = counts[list(pages).index(page)]
        total, single = sum(count[k] for k in marks), count["(✓)"] + count["(✗)"]
        agree = count["(✓)"]
        alone = (
            f"Of {single} comparisons with one run each, {agree} "
            f"{'points' if agree == 1 else 'point'} the paper's way."
        )
        if single == 1:
            way = "the paper's way" if agree else "the other way"
            alone = f"The one comparison with a single run each points {way}."
        if not total:
            return alone if single else ""
        kinds = (
            ("holds", "agrees with the paper", "agree with the paper"),
            ("the opposite", "contradicts it", "contradict it"),
            ("ruled out", "rules out what it says", "rule out what it says"),
            (
                "practically none",
                "shows practically no difference",
                "show practically no difference",
            ),
            ("open", "is open", "are open"),
        )
        agreement = listed(
            f"{n} {one if n == 1 else many}" for k, one, many in kinds if (n := count[k])
        )
        one = total == 1
        agreement = agreement.removeprefix("1 ") if one else agreement
        several = f"The one comparison with several runs {agreement}."
        outcome = several if one else f"Of {total} comparisons, {agreement}."
        return outcome + f" {alone}" * (single > 0)

    tell(pages, score, every=True)
    first = fullest(pages)
    order = [i for i in (first, *(i for i in range(len(pages)) if i != first)) if bodies[i]]
    parts = [(pages[i].title, "", bodies[i]) for i in order]
    note = "✓ as the paper says, ✗ the opposite or ruled out, = practically none, ? open."
    if any(count["(✓)"] or count["(✗)"] for count in counts):
        note += " In brackets: single runs, which decide nothing."
    others = " · ".join(title for title, *_ in parts[1:])
    _display(parts[:1], note, len(pages) > 1, more=(others, parts[1:]))


def decided(
    table: pd.DataFrame, claim: str, metric: str, stated: str, methods: Iterable[str], than: str
) -> dict[str, tuple[stats.Interval, str]]:
    """What becomes of a statement with each method: the difference, and the scoreboard's word.

    Parameters
    ----------
    claim : such as "fmfp-c13", whose margin decides
    metric, stated, methods, than : as in `judge`

    Returns
    -------
    dict
        ``{method: (difference, outcome)}``, see `contrasts.outcome`; of single runs "(✓)" or "(✗)",
        which decide nothing.
    """
    within = claims.written_margin(claim, _CLAIMED.get(metric, metric))
    side = {"higher": "above", "lower": "below"}.get(stated, stated)
    outcomes = {}
    for m, d in differences(table, metric, methods, than).items():
        word = contrasts.outcome(d, side, within)
        if np.isnan(d.low):  # one run
            alone = d._replace(low=d.estimate, high=d.estimate)
            word = "(✓)" if contrasts.outcome(alone, side) == "holds" else "(✗)"
        outcomes[m] = d, word
    return outcomes


def rerun(
    name: str,
    edition: str,
    paper: str,
    pages: Iterable[notebook.Page],
    more: Iterable[store.Record] = (),
) -> None:
    """Print how to run a chapter again, which opens, with the minutes that it took.

    Parameters
    ----------
    name, edition, paper, pages : the notebook, and what it was drawn from
    more : records beside those of the pages
    """
    records = [r for p in pages for its in p.records.values() for r in its]
    records = list({r.name: r for r in (*records, *more)}.values())
    minutes = sum(r.info["provenance"]["seconds"] for r in records) / 60
    seconds = time.perf_counter() - _OPENED["at"]
    code = [
        "```bash",
        f"calibkit train --edition {edition} --paper {paper}   # what is missing",
        f"papermill notebooks/{name}.ipynb out.ipynb -k python3 --cwd notebooks \\",
        f"    -p edition {edition}",
        "```",
    ]
    words = (
        f"Two commands; the records took {max(minutes, 0.1):,.1f} minutes of training, this page "
        f"{max(seconds, 1):.0f} seconds"
    )
    text = [
        *("\n".join(code), "`out.ipynb` opens in JupyterLab."),
        notebook.Provenance(records)._repr_html_(),
    ]
    notebook.say(folded(words, "\n\n".join(text)))
