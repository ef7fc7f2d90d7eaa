"""What a notebook starts and ends with, and how it speaks: records, sentences, tables, boxes.

A page begins with the runs it is about, and ends there if none of them has a record yet::

    selection = plan.Selection(edition, dataset=dataset, network=network, seeds=seeds)
    page = notebook.page(methods, selection)
    notebook.require(page)  # shows the setting; without records the workflow makes a short page

A sentence with a number is printed by the cell that computes the number, as Markdown, so that
JupyterLab, nbconvert, papermill and the book show the same words::

    notebook.say(f"One temperature takes the ECE from {percent(before)} to {percent(after)}.")

`say` refuses a sentence with a hole ("–", "nan", "None", nothing before a full stop), so write the
sentence for each case: ``if worse: say(f"{named(worse)} ...") else: say("No method ...")``.

====================  ===========================================================================
``say(*paragraphs)``  print Markdown: paragraphs, lists, tables
``percent(x)``        "71.3 %", "71.3 % [69.0, 73.0]" for an interval
``change(d, metric)``  "+1.2 points [−0.1, +2.5]", a difference in the units of its tables
``named(methods)``    "ERM, SAM and FMFP"
``effect(d, metric)``  "lowers the AURC by 1.2 points [0.1, 2.3]", behind the name of a method
``verdict(d, ...)``   "FMFP has a higher AUROC than ERM, by 1.2 points [0.1, 2.3]"
``statements(rows)``  what papers state beside what we find here, and how many hold
``tabulate(table)``   a DataFrame or Styler in the look of the book's tables
``box(words, cmd)``   in place of an exhibit without records: what is missing, the command
====================  ===========================================================================

Text around them names a paper by a link, ``[Zhu et al. (2022)](https://…)``, a page by its file,
``[the other chapter](bsce_2.ipynb)``, and a section by its label, ``[after table 2](#bsce-regime)``: roles
in braces are raw text in JupyterLab. So is a label in brackets, so ``<a id="bsce-regime"></a>``
stands above the heading, which nobody sees; the book takes it for the label (`setup`).

Long, because a page needs no other module to find its records and to describe them.
"""

import ast
import html
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from calibkit import metrics, stats, terms
from calibkit.companion import contrasts, plan
from calibkit.companion.contrasts import Model
from calibkit.data import catalogue
from calibkit.training import store


@dataclass(repr=False)
class Page:
    """The records of a notebook, by method, and what it says about them."""

    edition: str
    runs: list[plan.Run]
    records: dict[str, list[store.Record]] = field(default_factory=dict)
    missing: list[plan.Run] = field(default_factory=list)
    diverged: list[plan.Run] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)  # of the protocol, if changed
    planned: plan.Setting | None = None  # the setting of the edition, as planned

    @property
    def methods(self) -> list[str]:
        """Methods which have at least one record."""
        return list(self.records)

    @cached_property
    def labels(self) -> np.ndarray:
        """Test labels (n,), the same in every run of a page."""
        return self._any.arrays["test_labels"].astype(np.int64)

    @property
    def _any(self) -> store.Record:
        """A record with predictions, where there is one."""
        everything = [r for records in self.records.values() for r in records]
        return next((r for r in everything if not r.light), everything[0])

    def whole(self, method: str) -> list[store.Record]:
        """The records of a method that keep predictions; `LightRecord` if none does."""
        records = [r for r in self.records[method] if not r.light]
        if not records:
            _ = self.records[method][0].arrays  # says how to make them
        return records

    @property
    def drawn_seeds(self) -> str:
        """For `stamp`, under what is drawn from predictions: how many seeds keep them, if fewer."""
        whole = [sum(not r.light for r in records) for records in self.records.values()]
        if whole == [len(records) for records in self.records.values()]:
            return ""
        return f" · drawn: {min(whole)} seed{'s' * (min(whole) != 1)} whose predictions are kept"

    def logits(self, method: str) -> list[np.ndarray]:
        """Test logits (n, k) of every seed that keeps them."""
        return [r.arrays["test_logits"] for r in self.whole(method)]

    def validation(self, method: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Validation logits and labels of every seed."""
        return [
            (r.arrays["validation_logits"], r.arrays["validation_labels"].astype(np.int64))
            for r in self.whole(method)
        ]

    def predictions(
        self, logits: Iterable[np.ndarray]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Confidence of test predictions, and whether they are right: a list over seeds each.

        Parameters
        ----------
        logits : of every seed, such as `logits` returns; of the first test samples at least
        """
        samples = [metrics.per_sample(z, self.labels[: len(z)]) for z in logits]
        return [s["confidence"] for s in samples], [s["correct"] for s in samples]

    def gradients(
        self, method: str, epoch: int, faint: bool = True
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Brier scores and last-layer gradient norms of training samples: a list over seeds each.

        Parameters
        ----------
        epoch : one of a record's ``train_epochs``
        faint : with samples that are as good as learned, of a Brier score below 2⁻¹⁴
        """
        brier, norm = [], []
        for record in self.whole(method):
            i = record.arrays["train_epochs"].tolist().index(epoch)
            b, g = (
                record.arrays[f"train_{k}"][i].astype(float) for k in ("brier", "gradient_norm")
            )
            visible = faint | (b >= 2**-14) & (g > 0)
            brier.append(b[visible])
            norm.append(g[visible])
        return brier, norm

    def table(self, measure: Callable[[store.Record], Mapping] | None = None) -> pd.DataFrame:
        """A row per run, indexed by method and seed: every metric at its end.

        Parameters
        ----------
        measure : what to put into the row of a record instead, as {column: value}
        """
        rows = {
            (method, record.info["run"]["seed"]): (measure or _last)(record)
            for method, records in self.records.items()
            for record in records
        }
        index = pd.MultiIndex.from_tuples(rows, names=["method", "seed"]) if rows else None
        table = pd.DataFrame(list(rows.values()), index)
        table.attrs["networks"] = self.networks
        return table

    @property
    def networks(self) -> "Networks":
        """The networks behind the rows of `table`, and behind ``ts``: ERM, rescaled."""
        return Networks.of(self.records)

    def shifted(self) -> pd.DataFrame:
        """Every metric under every shift of the test set, indexed by method, seed, shift, severity.

        Empty where the records hold no shifted test sets.
        """
        index = ["method", "seed", "shift", "severity"]
        tables = [
            pd.DataFrame(record.shifted).assign(method=method, seed=record.info["run"]["seed"])
            for method, records in self.records.items()
            for record in records
            if record.shifted
        ]
        return pd.concat(tables).set_index(index) if tables else pd.DataFrame()

    @property
    def setting(self) -> str:
        """Data, network, length, seeds and test samples in one line, for figures and tables."""
        run = self.runs[0]
        seeds = sorted({len(records) for records in self.records.values()})
        many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        size = self._any.info["provenance"].get("training_samples") or run.protocol.train_size
        dataset = terms.DATASETS.get(run.dataset, run.dataset)
        row = catalogue.SOURCES.get(run.dataset)
        cropped = run.protocol.augment and row is not None and row.augment != "none"
        return (
            f"{dataset}{f', {size:,} to train' if size else ''}{', crops and flips' * cropped} · "
            f"{run.network} · "
            f"{run.protocol.epochs} epochs · "
            + "".join(f"{name} {value} · " for name, value in self.settings.items())
            + f"{many} seed{'s' * (many != '1')} · n = {int(self._any.history['n'][-1]):,}"
        )

    def _repr_html_(self) -> str:
        return _boxed([self])

    def _lines(self) -> tuple[list[str], list[str]]:
        """What the box of a setting says, and what opens when a page goes on without some runs."""
        lines = [f"<b>{html.escape(self.setting)}</b>" if self.records else "<b>No records yet</b>"]
        more = []
        note = self._any.info["provenance"]["data"] if self.records else ""
        if note:
            lines.append(html.escape(note))
        if self.diverged:
            lines.append("Diverged: " + html.escape(", ".join(r.name for r in self.diverged)))
        if self.missing:
            names = sorted({run.method for run in self.missing})
            without = [name for name in names if name not in self.records]
            fewer = [name for name in names if name in self.records]
            gaps = [f"Not trained yet: {', '.join(map(terms.label, without))}."] if without else []
            if fewer:
                gaps.append(f"With fewer seeds than planned: {', '.join(map(terms.label, fewer))}.")
            advice = f"{html.escape(' '.join(gaps))} To fill the gap:"
            code = f"<code>{html.escape(self.command(names))}</code>"
            (more if self.records else lines).extend([advice, code])
        return lines, more

    @property
    def title(self) -> str:
        """The setting in words: data and regime."""
        return self.planned.title if self.planned else self.setting

    def command(self, methods: Sequence[str]) -> str:
        """The command that trains the runs of some methods of this page."""
        selection = plan.Selection.that_has(self.edition, self.runs, self.planned, self.settings)
        return selection.command(methods)

    def stamp(self, fig, more: str = "") -> None:
        """Small print under a figure, so that it still says what it shows in a talk."""
        fig.supxlabel(self.setting + more, fontsize=9, color="0.45")

    def provenance(self) -> "Provenance":
        """A box with what the numbers of this page came from."""
        return Provenance([r for records in self.records.values() for r in records])


def _boxed(pages: Sequence[Page]) -> str:
    """One box for all settings of a notebook: a line for each, and what is missing to open."""
    lines, hidden, missing, planned = [], [], 0, 0
    for page in pages:
        own, more = page._lines()
        lines += own
        if more:
            name = [own[0]] if len(pages) > 1 else []
            hidden.append("<br>".join([*name, *more]))
            missing, planned = missing + len(page.missing), planned + len(page.runs)
    text = "<br>".join(lines)
    if hidden:
        count = f"{missing} of {planned} planned runs have no record yet"
        text += f"<details><summary>{count}</summary>{'<br>'.join(hidden)}</details>"
    return f'<div class="calibkit-page">{text}</div>'


def page(
    methods: Sequence[str],
    selection: plan.Selection | str = "released",
    paper: str = "",
    **changes,
) -> Page:
    """Check the notebook's parameters and bring the records of its runs.

    Missing runs are trained here and now where the edition is meant for that (smoke and demo);
    elsewhere they are listed in a box with the command that trains them.

    Parameters
    ----------
    methods : such as "erm" or "focal(gamma=5)+sam"; see `plan.METHODS`
    selection : a selection, or the name of an edition
    paper : in place of the selection's setting, the first one of this paper that has a record
    changes : fields of `plan.Selection` to change, such as ``variant="paper"``

    Raises
    ------
    ValueError
        An unknown edition, method, data set, network or injected parameter; the line names the
        valid ones.
    """
    check_parameters()
    selection = plan.Selection.of(selection, **changes)
    if paper:
        if with_records := pages(methods, selection, paper):
            return with_records[0]
        selection = replace(selection, setting=_settings(selection, paper)[0])
    runs = selection.runs(methods)
    on_the_spot = plan.EDITIONS[selection.edition].on_the_spot
    if on_the_spot and not selection.seeds:  # as many as its book plans: of some methods one
        planned = set(plan.runs("book", selection.edition))
        # A method that no page has is trained under the protocol that all share, and nowhere else.
        own = selection.setting not in (None, "shared")
        planned_methods = {run.method for run in runs if run in planned or own}
        runs = [run for run in runs if run in planned or run.method not in planned_methods]
    result = collect(selection.edition, runs, train=on_the_spot)
    result.settings = dict(selection.settings)
    result.planned = plan.setting(selection.edition, selection.setting or "")
    return result


def pages(
    methods: Sequence[str],
    selection: plan.Selection | str = "released",
    paper: str = "",
    **changes,
) -> list[Page]:
    """One `Page` for each setting of a paper that has a record of these methods.

    A paper's own settings come first (CIFAR-10 before Fashion-MNIST), then the one that all
    methods share. A data set or a network that is asked for leaves out the others. `selection` and
    `changes` are as in `page`.
    """
    selection = plan.Selection.of(selection, **changes)
    each = (page(methods, selection, setting=name) for name in _settings(selection, paper))
    return [one for one in each if one.records]


def beside(
    methods: Sequence[str],
    selection: plan.Selection | str = "released",
    paper: str = "",
    **changes,
) -> list[Page]:
    """A `Page` for each data set: the setting that all methods share, then a paper's own on others.

    Others need records of the first of the methods. `selection` and `changes` are as in `page`.
    """
    selection = plan.Selection.of(selection, **changes)
    result = [page(methods, selection)]
    for name in _settings(selection, paper):
        datasets = {one.runs[0].dataset for one in result}
        if name == "shared" or plan.setting(selection.edition, name).dataset in datasets:
            continue  # before its runs are asked for: a cheap edition would train them
        one = page(methods, selection, setting=name)
        if methods[0] in one.records:
            result.append(one)
    return result if result[0].records or len(result) == 1 else result[1:]


def _settings(selection: plan.Selection, paper: str) -> list[str]:
    """Names of a paper's settings with the data and network asked for; "shared" can have any."""
    return [
        s.name
        for s in plan.settings(selection.edition, paper)
        if s.name == "shared"
        or (s.dataset == (selection.dataset or s.dataset))
        and (s.network == (selection.network or s.network))
    ]


def collect(edition: str, runs: Sequence[plan.Run], train: bool = False) -> Page:
    """The records of some runs, as far as they are there; on demand missing ones are trained."""
    result = Page(edition, list(runs))
    for number, run in enumerate(result.runs, 1):
        record = store.verify(run)
        if record is None and train:
            from calibkit.training.loop import train as train_one

            print(f"training {number}/{len(result.runs)}: {run.name}", flush=True)
            record = train_one(run)
        if record is None:
            result.missing.append(run)
        elif record.diverged:
            result.diverged.append(run)
        else:
            result.records.setdefault(run.method, []).append(record)
    return result


def _last(record: store.Record) -> dict[str, float]:
    return {name: values[-1] for name, values in record.history.items() if name != "epoch"}


def check_parameters(cells: Sequence[str] | None = None) -> None:
    """Refuse parameters which papermill injected and the notebook does not have.

    papermill only warns of a misspelt name and runs the defaults. `cells` are the sources run so
    far; by default those of the running notebook.
    """
    if cells is None:
        try:
            cells = get_ipython().user_ns["In"]  # noqa: F821 (a name of every notebook)
        except NameError:
            return
    injected = [i for i, cell in enumerate(cells) if cell.startswith("# Parameters\n")]
    if not injected:
        return
    valid = set().union(*(_assigned(cell) for cell in cells[: injected[0]]))
    for name in sorted(_assigned(cells[injected[0]]) - valid):
        plan.choose("parameter", name, valid)


def _assigned(source: str) -> set[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with notebook magic assigns no parameter
        return set()
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    return {t.id for t in targets if isinstance(t, ast.Name)}


class NoRecords(Exception):
    """No run of a page has a record, so there is nothing to show."""

    def _render_traceback_(self) -> list[str]:  # what JupyterLab shows in place of a traceback
        return [f"{type(self).__name__}: {self}"]


def require(*pages: Page) -> None:
    """Show the runs a notebook is about, and end it here if none has a record.

    Raises
    ------
    NoRecords
        Nothing has been trained; the boxes shown say with which command. The workflow keeps the
        page as far as it came, see `shorten`.
    """
    from IPython.display import HTML, display

    display(HTML(_boxed(pages)))
    if not any(one.records for one in pages):
        raise NoRecords("nothing to show yet; the box above has the command that trains the runs.")


def shorten(path: str | Path) -> bool:
    """Make a page of its own of an executed notebook that ended at `require`.

    What comes after it is dropped. Its labels move to the title, so that links from other pages
    still lead here.

    Returns
    -------
    bool
        Whether it is such a notebook; others are left as they are.
    """
    import nbformat

    page = nbformat.read(path, as_version=4)
    marks = ("papermill-error-cell-tag",)  # what papermill adds to point at the error
    cells = [c for c in page.cells if not set(marks) & set(c.metadata.get("tags", []))]
    ended = [
        i
        for i, cell in enumerate(cells)
        if any(o.get("ename") == NoRecords.__name__ for o in cell.get("outputs", []))
    ]
    if not ended:
        return False
    (end,) = ended
    cells[end].outputs = [o for o in cells[end].outputs if o.output_type != "error"]
    lost = "\n".join(c.source for c in cells[end + 1 :] if c.cell_type == "markdown")
    labels = re.findall(r'^<a id="[\w-]+"></a>$', lost, re.MULTILINE)
    cells[0].source = "\n".join([*labels, cells[0].source])
    page.cells = cells[: end + 1]
    nbformat.write(page, path)
    return True


def stamp(fig, *pages: Page) -> None:
    """Small print under a figure of several settings, a line each, as `Page.stamp` for one."""
    lines = dict.fromkeys(page.setting for page in pages)
    fig.supxlabel("\n".join(lines), fontsize=9, color="0.45")


_HOLES = re.compile(
    r"\b(nan|None(?! of\b)|NaT)\b|\binf\b"  # of a number or a name
    r"|(?<![^\s(\[|*])–(?![^\s.,;:)\]|*%])"  # a dash in place of a word
    r"|\[\s*\]|\(\s*\)|[{}]"  # of a list or a template
    r"|(?<=\S)  +(?=\S)|\s[.,;:)](?=\s|$)|(?<!\d)[\s\u00a0]%",  # nothing between the words
    re.MULTILINE,
)


def say(*paragraphs: str) -> None:
    """Print Markdown: a sentence with its numbers, where they were computed.

    Raises
    ------
    ValueError
        Where a word is missing: an insertion that is empty, not a number or a lone dash.
    """
    from IPython.display import Markdown, display

    text = "\n\n".join(inspect.cleandoc(p) for p in paragraphs)
    prose = re.sub(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)", "x", text)
    rows = re.compile(r"^\|[-| :]+\|$|(?<=\|) +| +(?=\|)", re.MULTILINE)  # how tables are laid out
    hole = _HOLES.search(rows.sub("", prose))
    if not prose.strip() or hole:
        raise ValueError(f"a sentence with a hole ({hole and hole.group()!r}): {text!r}")
    text = re.sub(
        r"(?:\A|\n\n|^- )(?:\*\*)?[a-z]", lambda m: m[0][:-1] + m[0][-1].upper(), text, flags=re.M
    )
    text = re.sub(r"(?<=\[)([+−]?[\d.,]+,) (?=[+−]?[\d.,]+\])", "\\1\u00a0", text)
    display(Markdown(text.replace(" %", "\u00a0%")))  # numbers keep their unit and interval


def percent(value: float | stats.Interval, digits: int = 1) -> str:
    """A fraction, or its interval, in per cent.

    >>> percent(0.7134), percent(stats.Interval(0.7134, 0.69, 0.73))
    ('71.3 %', '71.3 % [69.0, 73.0]')
    """
    interval = value if isinstance(value, stats.Interval) else stats.Interval(value, *[np.nan] * 2)
    return interval.format(100, digits, " %")


def runs_each(methods: Iterable[str]) -> str:
    """How many runs are behind each method where one has a single run, else nothing.

    >>> runs_each(["erm", "mixup"]), runs_each(["erm", "erm", "mixup"]), runs_each(["erm", "erm"])
    (' (one run each)', ' (1 to 2 runs each)', '')
    """
    counts = Counter(methods).values()
    if min(counts, default=2) > 1:
        return ""
    return " (one run each)" if max(counts) == 1 else f" (1 to {max(counts)} runs each)"


def named(methods: Iterable[str]) -> str:
    """The labels of some methods in a sentence; `say` gives its beginning a capital letter.

    >>> named(["erm", "label_smoothing", "fmfp"]), named(["brier"])
    ('ERM, label smoothing and FMFP', 'Brier loss')

    Raises
    ------
    ValueError
        No method: that takes another sentence.
    """
    labels = [
        label
        if label.startswith("Brier") or not label[1:2].islower()
        else label[0].lower() + label[1:]
        for label in map(terms.label, methods)
    ]
    if not labels:
        raise ValueError("no method to name: write the sentence for this case")
    return " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))


def change(interval: stats.Interval, metric: str, digits: int | None = None) -> str:
    """A difference in the units in which tables have a metric.

    >>> change(stats.Interval(0.012, -0.001, 0.025), "ece")
    '+1.2 points [−0.1, +2.5]'
    """
    scale = terms.METRICS.get(metric, ("", 1))[1]
    unit = {100: " points", 1000: " × 10⁻³"}.get(scale, "")
    if digits is None and metric in terms.METRICS:
        digits = 1 if scale > 1 else 3
    return interval.format(scale, digits, unit, sign=True)


def verdict(
    interval: stats.Interval, metric: str, subject: str, than: str, within: float = 0.0
) -> str:
    """A difference of two methods as a sentence without its full stop.

    `within` is the largest difference that would not matter, see `chapter.margins`.

    >>> verdict(stats.Interval(0.012, 0.001, 0.023), "auroc", "FMFP", "ERM")
    'FMFP has a higher AUROC than ERM, by 1.2 points [0.1, 2.3]'
    >>> verdict(stats.Interval(0.012, -0.01, 0.034), "auroc", "FMFP", "ERM")
    'FMFP and ERM do not differ clearly in AUROC (+1.2 points [−1.0, +3.4])'
    """
    name, direction = called(metric), interval.direction(within)
    if direction == "practically none":
        return f"{subject} has practically the {name} of {than} ({change(interval, metric)})"
    if direction not in ("higher", "lower"):
        return f"{subject} and {than} do not differ clearly in {name} ({change(interval, metric)})"
    return f"{subject} has a {direction} {name} than {than}, by {_size(interval, metric)}"


def effect(interval: stats.Interval, metric: str, name: str = "", within: float = 0.0) -> str:
    """What a method does to a metric, to follow its name; `within` is as in `verdict`.

    >>> effect(stats.Interval(-0.012, -0.023, -0.001), "auroc")
    'lowers the AUROC by 1.2 points [0.1, 2.3]'
    >>> effect(stats.Interval(0.012, -0.01, 0.034), "accuracy", "accuracy on blurred images")
    'does not clearly change accuracy on blurred images (+1.2 points [−1.0, +3.4])'
    >>> effect(stats.Interval(0.002, 0.001, 0.003), "auroc", within=0.005)
    'leaves the AUROC practically unchanged (+0.2 points [+0.1, +0.3])'
    """
    name = name or f"the {called(metric)}"
    direction = interval.direction(within)
    if direction in ("higher", "lower"):
        verb = {"higher": "raises", "lower": "lowers"}[direction]
        return f"{verb} {name} by {_size(interval, metric)}"
    if direction == "practically none":
        return f"leaves {name} practically unchanged ({change(interval, metric)})"
    if direction == "cannot be told":
        return f"changes {name} by {change(interval, metric)}"
    return f"does not clearly change {name} ({change(interval, metric)})"


def called(metric: str) -> str:
    """What a metric is called within a sentence.

    >>> called("auroc"), called("accuracy"), called("some_other")
    ('AUROC', 'accuracy', 'some other')
    """
    label = terms.METRICS.get(metric, (metric.replace("_", " "),))[0]
    return label if label[1].isupper() or label[1] == "-" else label[0].lower() + label[1:]


def _size(interval: stats.Interval, metric: str) -> str:
    """How large a difference is, where words before it give the direction."""
    low, high = sorted((abs(interval.low), abs(interval.high)))
    size = stats.Interval(abs(interval.estimate), low, high)
    return change(size, metric).replace("+", "")


class Networks(dict):
    """What the rows of a table are about: `contrasts.Model` by method and seed.

    It goes with a table and its columns as their ``attrs["networks"]``.
    """

    @classmethod
    def of(cls, records: Mapping[str, Iterable[store.Record]]) -> "Networks":
        """Those of some records by method; "ts" is ERM, rescaled."""
        networks = cls()
        for method, own in records.items():
            for record in own:
                seed = record.info["run"]["seed"]
                networks[method, seed] = Model(record)
                if method == "erm":
                    networks["ts", seed] = Model(record, "scaled")
        return networks

    def __deepcopy__(self, memo: dict) -> "Networks":  # pandas copies attrs with every column
        return self

    def on(self, values: pd.Series, method: str, seeds: Iterable[int]) -> dict[int, Model] | None:
        """The networks of a method by seed, if a column is of a metric of theirs and no other."""
        name, after, _ = contrasts.split(_ALIASES.get(values.name, str(values.name)))
        models = {}
        for seed in seeds:
            one = self.get((method, seed))
            if one is None or not contrasts.resampled(name, after or one.after):
                return None
            key = method, seed, after or one.after
            model = self.setdefault(key, Model(one.record, after or one.after))
            if abs(model.value(name) - values[method, seed]) > 1e-4:
                return None
            models[seed] = model
        return models


_ALIASES = {"mean_correct": "confidence_correct", "mean_wrong": "confidence_wrong"}
_SIGNED = ("excess_", "confidence_gap")  # metrics that can be negative, by their beginnings


def mean(values: pd.Series, method: str) -> stats.Interval:
    """A number of one method: its mean over seeds, with an interval of the kind of `difference`.

    Parameters
    ----------
    values : a metric, indexed by method and seed
    method : one which is not there gives an interval of ``nan``
    """
    there = method in values.index.get_level_values(0)
    own = values.xs(method).dropna() if there else values[:0]
    if not len(own):
        return stats.seed_interval([np.nan])
    networks = values.attrs.get("networks", Networks()).on(values, method, own.index)
    if networks is None:
        return stats.seed_interval(own)
    metric = contrasts.split(_ALIASES.get(values.name, values.name))[0]
    interval = contrasts.of_models(networks, metric).mean().interval()
    most = {"nll": np.inf, "brier": 2.0}.get(metric, 1.0)
    return interval.within(-1.0 if metric.startswith(_SIGNED) else 0.0, most)


def half_width(interval: stats.Interval) -> float:
    """What follows ±: the longer side, in case the other ends where the metric does."""
    return float(np.fmax(interval.high - interval.estimate, interval.estimate - interval.low))


def difference(values: pd.Series, method: str, reference: str) -> stats.Interval:
    """One method minus another, in pairs of the same seed.

    Of a metric that records have replicates of it is the interval that claims are judged by, see
    `contrasts.between`: it covers runs and test set, and calibration errors are compared by their
    excess. Of any other number, or a mean over several test sets, it is Student's over seeds.

    Parameters
    ----------
    values : a metric, indexed by method and seed
    method, reference : methods; one which is not there gives an interval of ``nan``
    """
    there = values.index.get_level_values(0)
    if method not in there or reference not in there:
        return stats.seed_interval([np.nan])
    pairs = (values.xs(method) - values.xs(reference)).dropna()
    if not len(pairs):
        return stats.seed_interval([np.nan])
    networks = values.attrs.get("networks", Networks())
    a, b = (networks.on(values, m, pairs.index) for m in (method, reference))
    if a is None or b is None:
        return stats.seed_interval(pairs)
    metric = contrasts.split(_ALIASES.get(values.name, values.name))[0]
    of = contrasts.of_models
    return contrasts.difference(lambda name: of(a, name) - of(b, name), metric).interval()


def points(interval: stats.Interval, digits: int | None = 1, scale: float = 100) -> str:
    """A difference with its interval, as percentage points unless scaled otherwise.

    >>> points(stats.Interval(0.012, -0.001, 0.025))
    '+1.2 [−0.1, +2.5]'
    """
    return interval.format(scale, digits, sign=True)


def in_units(interval: stats.Interval, metric: str, digits: int = 1) -> str:
    """`points` in the units in which tables have a metric; two more digits where it has no factor.

    >>> in_units(stats.Interval(0.0012, 0.0002, 0.0022), "aurc")
    '+1.2 [+0.2, +2.2]'
    """
    scale = terms.METRICS[metric][1]
    return points(interval, digits if scale > 1 else digits + 2, scale)


def outcome(interval: stats.Interval, stated: str, margin: float = 0.0) -> str:
    """How a paper's statement fares that a difference is "higher" or "lower".

    Judged as claims are, see `contrasts.outcome`; "not available" without a difference.

    >>> outcome(stats.Interval(0.2, 0.1, 0.3), "lower")
    'the opposite'
    """
    if np.isnan(interval.estimate):
        return "not available"
    return contrasts.outcome(interval, {"higher": "above", "lower": "below"}[stated], margin)


def statements(rows: Iterable[tuple]) -> None:
    """Print what papers state beside what we find here: a line each, then how many hold.

    Statements without records have no line, so each must make sense without the others; a
    difference of single runs has no verdict.

    Parameters
    ----------
    rows : the statement in Markdown, the interval of the difference it is about, the direction
        stated ("higher" or "lower"), the metric, whose units it has, and perhaps the largest
        difference that would not matter
    """
    lines, outcomes = ["| Statement | Here | Difference |", "| --- | --- | --- |"], []
    alone = []
    for words, interval, stated, metric, *margin in rows:
        outcomes.append(outcome(interval, stated, *margin))
        if outcomes[-1] == "not available":
            continue
        here = outcomes[-1]
        if np.isnan(interval.low):  # one run
            agrees = (interval.estimate < 0) == (stated == "lower")
            alone.append(agrees)
            outcomes[-1] = "not available"
            here = "(as stated)" if agrees else "(the opposite)"
        cells = (cell.replace(" ", "\u00a0") for cell in (here, change(interval, metric)))
        lines.append(f"| {words} | {' | '.join(cells)} |")
    paragraphs = ["\n".join(lines)] if len(lines) > 2 else []
    if alone:
        paragraphs.append(
            "In brackets: one run of each method, which decides nothing; the direction is as "
            f"stated in {sum(alone)} of {len(alone)}."
        )
    if not alone or set(outcomes) > {"not available"}:
        paragraphs.append(score(outcomes))
    say(*paragraphs)


def score(outcomes: Iterable[str]) -> str:
    """How many statements hold, as a sentence.

    >>> score(["holds", "holds", "open"])
    'Of these 3 statements, 2 hold here and 1 is open.'
    """
    outcomes = [word for word in outcomes if word != "not available"]
    counts = [
        f"{count} {one if count == 1 else many}"
        for word, one, many in (
            ("holds", "holds here", "hold here"),
            ("the opposite", "comes out the opposite way", "come out the opposite way"),
            ("ruled out", "is ruled out", "are ruled out"),
            (
                "practically none",
                "shows practically no difference",
                "show practically no difference",
            ),
            ("open", "is open", "are open"),
        )
        if (count := outcomes.count(word))
    ]
    if not counts:
        return "None of these statements can be checked with the records at hand."
    listed = " and ".join(filter(None, [", ".join(counts[:-1]), counts[-1]]))
    many = f"these {len(outcomes)} statements" if len(outcomes) > 1 else "this one statement"
    return f"Of {many}, {listed}."


def rank(values: pd.Series, method: str, lowest: bool = True) -> str:
    """Place of a method by its mean over seeds, the lowest (or highest) first.

    >>> rank(pd.Series({("erm", 0): 0.1, ("erm", 1): 0.3, ("fmfp", 0): 0.1}), "fmfp")
    '1 of 2'
    """
    means = values.groupby(level=0).mean().dropna()
    if method not in means:
        return "–"
    return f"{means.rank(ascending=lowest)[method]:.0f} of {len(means)}"


def means(values: pd.DataFrame, digits: int = 1, higher_is_better: dict | None = None):
    """A table of metrics: mean ± 95 % interval as `mean` has it, a row per method.

    Parameters
    ----------
    values : metrics, indexed by method and seed, such as `Page.table`
    digits, higher_is_better : as `plots.style_table`
    """
    from calibkit import plots

    groups = values.groupby(level=0, sort=False)
    half = pd.DataFrame(
        {k: {m: half_width(mean(values[k], m)) for m in groups.groups} for k in values}
    ).reindex(groups.mean().index)
    return plots.style_table(groups.mean(), half, digits, higher_is_better)


def differences(values: pd.DataFrame, pairs: Iterable[tuple[str, str]], digits: int = 1):
    """A table of the differences of pairs of methods, each with its verdict.

    Parameters
    ----------
    values : metrics, indexed by method and seed; a column each
    pairs : method and reference; a row each
    digits : as `plots.style_table`
    """

    rows = {}
    for method, reference in pairs:
        row = rows[terms.minus(method, reference)] = {}
        for metric in values:
            interval = difference(values[metric], method, reference)
            shown = in_units(interval, metric, digits)
            row[terms.header(metric)] = f"<b>{interval.verdict}</b><br>{shown}"
    return tabulate(pd.DataFrame(rows).T)


def tabulate(table, index: bool = True, words: bool = False, classes: str = ""):
    """A table in the look of all tables of the book.

    Parameters
    ----------
    table : pandas.DataFrame or pandas.io.formats.style.Styler
    index : whether to show its index
    words : whether its cells are words, which wrap and stand left, and not numbers
    classes : more classes of the HTML table, such as "calibkit-sortable"

    Returns
    -------
    pandas.io.formats.style.Styler
    """
    styled = table.style if isinstance(table, pd.DataFrame) else table
    if not index:
        styled = styled.hide(axis="index")
    names = " ".join(["dataframe", "calibkit-table", "words" * words, classes]).split()
    left = {"text-align": "left", "vertical-align": "top", "white-space": "normal"}
    return styled.set_table_attributes(f'class="{" ".join(names)}"').set_properties(
        **left if words else {"text-align": "right"}
    )


def lists(rows: Mapping[str, Mapping[str, str]]):
    """A table whose cells are words, which may wrap: {row: {column: words}}."""
    heading = {"selector": "th.row_heading", "props": "white-space: normal; min-width: 11rem"}
    return tabulate(pd.DataFrame(rows).T, words=True).set_table_styles([heading])


@dataclass(repr=False)
class Box:
    """What is missing, and how to get it."""

    lacking: str
    command: str

    def _repr_html_(self) -> str:
        words = [f"<b>Not shown here.</b> {html.escape(self.lacking)}"]
        if self.command:
            words.append(f"<code>{html.escape(self.command)}</code>")
        return f'<div class="calibkit-page">{"<br>".join(words)}</div>'


def box(lacking: str, command: str = "") -> Box:
    """A box in place of an exhibit: what is missing, and the command that would fill it."""
    return Box(lacking, command)


@dataclass(repr=False)
class Provenance:
    records: list[store.Record]

    def _repr_html_(self) -> str:
        if not self.records:
            return '<div class="calibkit-provenance">No runs.</div>'
        runs = [r.info["provenance"] for r in self.records]

        def all_of(key: str) -> str:
            return html.escape(", ".join(sorted({str(p[key]) for p in runs})))

        seconds = sum(p["seconds"] for p in runs)
        return (
            '<div class="calibkit-provenance">'
            f"{len(runs):,} runs · {seconds / 60:,.1f} minutes of training · {all_of('device')} · "
            f"torch {all_of('torch')} · NumPy {all_of('numpy')} · Python {all_of('python')} · "
            f"calibkit {all_of('calibkit')} ({all_of('commit')}) · "
            f"trained {min(p['started'] for p in runs)[:10]}</div>"
        )


def book_index(edition: str) -> Path:
    """Where `make book` puts the first page of an edition."""
    return Path("build", edition, "book", "_build", "html", "index.html").resolve()


def setup(app) -> dict:
    """Make the anchors in notebooks labels of the book: Sphinx calls this.

    The docstring of a named tuple tells its fields; "Alias for field number 0" does not.
    """
    app.connect("source-read", lambda app, page, source: source.append(labelled(source.pop())))
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", _skip_plain_field)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _skip_plain_field(app, what, name, member, skip, options) -> bool:
    return skip or (getattr(member, "__doc__", None) or "").startswith("Alias for field number")


def labelled(source: str) -> str:
    r"""The JSON of a notebook with labels in place of anchors.

    >>> labelled(r'"<a id=\"fmfp-fig1\"></a>\n", "## Figure 1"')
    '"(fmfp-fig1)=\\n", "## Figure 1"'
    """
    return re.sub(r'<a id=\\"([\w-]+)\\"></a>\\n', r"(\1)=\\n", source)


if __name__ == "__main__":  # the workflow, when a notebook has failed
    sys.exit(not shorten(sys.argv[1]))
