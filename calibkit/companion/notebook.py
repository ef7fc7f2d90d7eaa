"""What a notebook starts and ends with: parameters checked, records at hand, provenance."""

import ast
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from calibkit import grid, metrics, stats, store

DATASETS = {  # how pages call them; other names are shown as they are
    "gaussians": "five Gaussians",
    "mnist1d": "MNIST-1D",
    "digits": "8×8 digits",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "tiny_imagenet": "Tiny-ImageNet",
    "20newsgroups": "20 Newsgroups",
    "imagenet": "ImageNet",
    "cifar10c": "CIFAR-10-C",
    "cifar10.1": "CIFAR-10.1",
    "cifar10.2": "CIFAR-10.2",
    "imagenet_v2": "ImageNet-v2",
}


@dataclass(repr=False)
class Page:
    """The records of a notebook, by method, and what it says about them."""

    edition: str
    runs: list[grid.Run]
    records: dict[str, list[store.Record]] = field(default_factory=dict)
    missing: list[grid.Run] = field(default_factory=list)
    diverged: list[grid.Run] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)  # of the protocol, if changed

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
        return next(iter(self.records.values()))[0]

    def logits(self, method: str) -> list[np.ndarray]:
        """Test logits (n, k) of every seed."""
        return [r.arrays["test_logits"] for r in self.records[method]]

    def validation(self, method: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Validation logits and labels of every seed."""
        return [
            (r.arrays["validation_logits"], r.arrays["validation_labels"].astype(np.int64))
            for r in self.records[method]
        ]

    def answers(self, logits: Iterable[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Confidence of test predictions, and whether they are right: a list over seeds each.

        Parameters
        ----------
        logits : of every seed, such as `logits` returns; of the first test samples at least
        """
        found = [metrics.per_sample(z, self.labels[: len(z)]) for z in logits]
        return [s["confidence"] for s in found], [s["correct"] for s in found]

    def gradients(
        self, method: str, epoch: int, faint: bool = True
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Brier scores and last-layer gradient norms of training samples: a list over seeds each.

        Parameters
        ----------
        epoch : one of a record's ``train_epochs``
        faint : with samples which are learned to all intents, of a Brier score below 2⁻¹⁴
        """
        brier, norm = [], []
        for record in self.records[method]:
            i = record.arrays["train_epochs"].tolist().index(epoch)
            b, g = (
                record.arrays[f"train_{k}"][i].astype(float) for k in ("brier", "gradient_norm")
            )
            kept = faint | (b >= 2**-14) & (g > 0)
            brier.append(b[kept])
            norm.append(g[kept])
        return brier, norm

    def table(self, measure: Callable[[store.Record], Mapping] | None = None) -> pd.DataFrame:
        """A row per training, indexed by method and seed: every metric at its end.

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
        return pd.DataFrame(list(rows.values()), index)

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
        return (
            f"{DATASETS.get(run.dataset, run.dataset)}{f', {size:,} to train' if size else ''} · "
            f"{run.network} · "
            f"{run.protocol.epochs} epochs · "
            + "".join(f"{name} {value} · " for name, value in self.settings.items())
            + f"{many} seed{'s' * (many != '1')} · n = {len(self.labels):,}"
        )

    def _repr_html_(self) -> str:
        lines = [f"<b>{html.escape(self.setting)}</b>" if self.records else "<b>No records yet</b>"]
        note = self._any.info["provenance"]["data"] if self.records else ""
        if note:
            lines.append(html.escape(note))
        if self.diverged:
            lines.append("Diverged: " + html.escape(", ".join(r.name for r in self.diverged)))
        if self.missing:
            names = sorted({run.method for run in self.missing})
            lines.append(f"Not trained yet: {html.escape(', '.join(names))}. To fill the gap:")
            lines.append(f"<code>{html.escape(self.command(names))}</code>")
        return f'<div class="calibkit-page">{"<br>".join(lines)}</div>'

    def command(self, methods: Sequence[str]) -> str:
        """The command which trains the runs of some methods of this page."""
        run, chosen = self.runs[0], grid.EDITIONS[self.edition]
        parts = ["calibkit train", f"--edition {self.edition}"]
        parts += [f"--method '{m}'" for m in methods]
        if run.dataset != chosen.dataset:
            parts.append(f"--dataset {run.dataset}")
        if run.network != chosen.network:
            parts.append(f"--network {run.network}")
        seeds = len({r.seed for r in self.runs})
        if seeds != chosen.seeds:
            parts.append(f"--seeds {seeds}")
        own = chosen.protocol(run.dataset)
        if run.protocol.epochs != own.epochs:
            parts.append(f"--epochs {run.protocol.epochs}")
        if run.protocol.train_size != own.train_size:
            parts.append(f"--train-size {run.protocol.train_size}")
        if run.variant != "code":
            parts.append(f"--variant {run.variant}")
        parts += [f"--set {name}={value}" for name, value in self.settings.items()]
        return " ".join(parts)

    def stamp(self, fig, more: str = "") -> None:
        """Small print under a figure, so that it still says what it shows in a talk."""
        fig.supxlabel(self.setting + more, fontsize=9, color="0.45")

    def provenance(self) -> "Provenance":
        """A box with what the numbers of this page came from."""
        return Provenance([r for records in self.records.values() for r in records])


def page(
    methods: Sequence[str],
    edition: str = "demo",
    dataset: str = "",
    network: str = "",
    seeds: int = 0,
    epochs: int = 0,
    train_size: int = 0,
    variant: str = "code",
    settings: Mapping[str, object] = MappingProxyType({}),
) -> Page:
    """Check the notebook's parameters and bring the records of its runs.

    Missing runs are trained here and now where the edition is meant for that (smoke and demo);
    elsewhere they are listed in a box with the command that trains them.

    Parameters
    ----------
    methods : such as "erm" or "focal(gamma=5)+sam"; see `grid.METHODS`
    edition : one of `grid.EDITIONS`
    dataset, network, seeds, epochs, train_size : empty or zero for the edition's own
    variant : "code" or "paper", see `protocols.Protocol.rate`
    settings : fields of `protocols.Protocol` to change, such as ``{"batch_size": 512}``

    Raises
    ------
    ValueError
        An unknown edition, method, data set, network or injected parameter; the line names the
        valid ones.
    """
    check_parameters()
    runs = grid.select(
        edition, methods, dataset, network, seeds, epochs, train_size, variant, settings
    )
    found = collect(edition, runs, train=grid.EDITIONS[edition].on_the_spot)
    found.settings = dict(settings)
    return found


def collect(edition: str, runs: Sequence[grid.Run], train: bool = False) -> Page:
    """The records of some runs, as far as they are there; on demand missing ones are trained."""
    result = Page(edition, list(runs))
    for number, run in enumerate(result.runs, 1):
        record = store.verify(run)
        if record is None and train:
            from calibkit.train import train as train_one

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
        grid.choose("parameter", name, valid)


def _assigned(source: str) -> set[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with notebook magic assigns no parameter
        return set()
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def number(key: str, value: float, form: str = "{:.3f}") -> None:
    """Name a number, so that prose can show it: ``{glue:text}`key` ``."""
    text(key, form.format(value))


def text(key: str, words: str) -> None:
    """Name a few words that depend on the numbers, such as a verdict, as `number` does."""
    from myst_nb import glue

    glue(key, words.replace(" %", "\u00a0%"), display=False)  # a number keeps its unit


def difference(values: pd.Series, method: str, reference: str) -> stats.Interval:
    """One method minus another, in pairs of the same seed, with Student's interval.

    Parameters
    ----------
    values : a metric, indexed by method and seed
    method, reference : methods; one which is not there gives an interval of ``nan``
    """
    there = values.index.get_level_values(0)
    if method not in there or reference not in there:
        return stats.seed_interval([np.nan])
    pairs = (values.xs(method) - values.xs(reference)).dropna()
    return stats.seed_interval(pairs if len(pairs) else [np.nan])


def points(interval: stats.Interval, digits: int = 1, scale: float = 100) -> str:
    """A difference with its interval in words, as percentage points unless scaled otherwise.

    >>> points(stats.Interval(0.012, -0.001, 0.025))
    '+1.2 (−0.1 to +2.5)'
    """
    if np.isnan(interval.estimate):
        return "–"
    estimate, low, high = (
        f"{round(scale * x, digits) + 0.0:+.{digits}f}".replace("-", "−") for x in interval
    )  # adding zero takes the minus off a rounded zero
    return f"{estimate} ({low} to {high})" if np.isfinite(interval.low) else estimate


def in_units(interval: stats.Interval, metric: str, digits: int = 1) -> str:
    """`points` in the units in which tables have a metric; two more digits where it has no factor.

    >>> in_units(stats.Interval(0.0012, 0.0002, 0.0022), "aurc")
    '+1.2 (+0.2 to +2.2)'
    """
    from calibkit import plots  # here, as below, so that reading records needs no matplotlib

    scale = plots.METRICS[metric][1]
    return points(interval, digits if scale > 1 else digits + 2, scale)


def outcome(interval: stats.Interval, stated: str) -> str:
    """What becomes of a paper's statement that a difference is "higher" or "lower".

    >>> outcome(stats.Interval(0.2, 0.1, 0.3), "lower")
    'the opposite'
    """
    if np.isnan(interval.estimate):
        return "not on this page"
    if interval.verdict not in ("higher", "lower"):
        return "undecided"
    return "holds" if interval.verdict == stated else "the opposite"


def statement(
    key: str, interval: stats.Interval, stated: str, digits: int = 1, scale: float = 100
) -> str:
    """Name the `outcome` of a statement, and its difference (`points`) as ``key-by``."""
    text(key, outcome(interval, stated))
    text(f"{key}-by", points(interval, digits, scale))
    return outcome(interval, stated)


def tally(key: str, outcomes: Iterable[str]) -> None:
    """Name how many statements hold or not: ``key-holds``, ``key-opposite``, ``key-open``."""
    outcomes = list(outcomes)
    for end, found, one, many in (
        ("holds", "holds", "holds", "hold"),
        ("opposite", "the opposite", "comes out the opposite way", "come out the opposite way"),
        ("open", "undecided", "is undecided", "are undecided"),
    ):
        count = outcomes.count(found)
        text(f"{key}-{end}", f"{count} {one if count == 1 else many}")


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
    """A table of metrics: mean ± 95 % t interval over seeds, a row per method.

    Parameters
    ----------
    values : metrics, indexed by method and seed, such as `Page.table`
    digits, higher_is_better : as `plots.style_table`
    """
    from calibkit import plots

    groups = values.groupby(level=0, sort=False)
    half = groups.agg(lambda v: stats.seed_interval(v).high - v.mean())
    return plots.style_table(groups.mean(), half, digits, higher_is_better)


def differences(values: pd.DataFrame, pairs: Iterable[tuple[str, str]], digits: int = 1):
    """A table of the differences of pairs of methods, each with its verdict.

    Parameters
    ----------
    values : metrics, indexed by method and seed; a column each
    pairs : method and reference; a row each
    digits : as `plots.style_table`
    """
    from calibkit import plots

    rows = {}
    for method, reference in pairs:
        row = rows[plots.minus(method, reference)] = {}
        for metric in values:
            found = difference(values[metric], method, reference)
            shown = in_units(found, metric, digits)
            row[plots.header(metric)] = f"<b>{found.verdict}</b><br>{shown}"
    table = pd.DataFrame(rows).T.style.set_table_attributes('class="dataframe calibkit-table"')
    return table.set_properties(**{"text-align": "right"})


def lists(rows: Mapping[str, Mapping[str, str]]):
    """A table whose cells are words, which may wrap: {row: {column: words}}."""
    table = pd.DataFrame(rows).T.style.set_table_attributes('class="dataframe calibkit-table"')
    heading = {"selector": "th.row_heading", "props": "white-space: normal; min-width: 11rem"}
    left = {"text-align": "left", "vertical-align": "top", "white-space": "normal"}
    return table.set_properties(**left).set_table_styles([heading])


@dataclass(repr=False)
class Gap:
    lacking: str
    command: str

    def _repr_html_(self) -> str:
        words = [f"<b>Not shown here.</b> {html.escape(self.lacking)}"]
        if self.command:
            words.append(f"<code>{html.escape(self.command)}</code>")
        return f'<div class="calibkit-page">{"<br>".join(words)}</div>'


def gap(lacking: str, command: str = "") -> Gap:
    """A box in place of an exhibit: what is lacking, and the command which would fill it."""
    return Gap(lacking, command)


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
            f"{len(runs)} runs · {seconds / 60:.1f} minutes of training · {all_of('device')} · "
            f"torch {all_of('torch')} · NumPy {all_of('numpy')} · Python {all_of('python')} · "
            f"calibkit {all_of('calibkit')} ({all_of('commit')}) · "
            f"trained {min(p['started'] for p in runs)[:10]}</div>"
        )


def book_index(edition: str) -> Path:
    """Where `make book` puts the first page of an edition."""
    return Path("build", edition, "book", "_build", "html", "index.html").resolve()
