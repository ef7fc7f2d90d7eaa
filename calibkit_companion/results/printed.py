"""The numbers that the five papers print, and our numbers beside them.

    printed.table("fmfp-tab1", "cifar10", "resnet110")          # the paper's own table
    printed.beside(runs, "fmfp-tab1", "cifar10", "resnet110")   # and what these runs have
    printed.planned("fmfp")                  # the run that fills each of its cells

Our experiment is seldom the same as that of the paper: the data, the network or the number of
epochs differ. A caption says so. Compare the order of the methods and their differences, and not
the digits.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from math import isnan, nan
from statistics import stdev
from typing import TYPE_CHECKING, NamedTuple

from calibkit import terms
from calibkit_companion.experiments import papers, plan
from calibkit_companion.experiments.run import Run
from calibkit_companion.records.keys import Recalibration, read_column
from calibkit_companion.results.number import Number

if TYPE_CHECKING:
    import pandas as pd

_SCALES = {"percent": 100, "percent_points": 100, "x1000": 1000, "x100": 100, "x10": 10}
MEANS = "avg_over_backbones"  # stands for a network in rows that are means over networks
# These stand for a method in cells about the Gaussians.
_TOY_PANELS = ("toy_panel_a", "toy_panel_b", "toy_panel_c")
# `Number.test_set` of shifted test sets in the papers. Numbers on our unshifted test set must not
# stand beside them. Our own corruptions stand beside published corruptions.
TEST_SETS = {name: f"{name.replace('.', '_')}-0" for name in papers.TRAINED_ON}
TEST_SETS["cifar10c"] = "shifted"


class Cell(NamedTuple):
    """A number that a paper prints, in natural units.

    Attributes
    ----------
    paper, exhibit : the paper, and the id of its table or figure
    dataset, method, metric : by our names
    network, variant : by the names of the paper's table
    value : the printed number
    std : standard deviation over the paper's seeds; NaN if none is printed
    digit : one unit of the last printed digit
    ours : our name of the network
    """

    paper: str
    exhibit: str
    dataset: str
    network: str
    method: str
    metric: str
    value: float
    std: float
    digit: float
    variant: str
    ours: str = ""

    @property
    def number(self) -> Number:
        """The number of our runs that corresponds to the cell."""
        metric, recalibration, *_ = read_column(self.metric)
        if self.method == "ts":
            recalibration = Recalibration.TS_ECE
        score = "confidnet" if self.method == "confidnet" else "max_probability"
        return Number(metric, recalibration, score, TEST_SETS.get(self.dataset, "clean"))


@cache
def every() -> tuple[Cell, ...]:
    """Read all printed numbers, in the order of the ledger."""
    return tuple(map(_cell, papers.ledger("numbers.csv")))


def cells(exhibit: str = "") -> "pd.DataFrame":
    """Make a table of the numbers that the papers print in tables and some sentences.

    Numbers are in natural units: an ECE of 4.14 % is 0.0414. The ECE after recalibration is a
    separate metric: ``ece_scaled`` after temperature scaling fitted on validation data,
    ``ece_optimal`` after temperature scaling fitted on test data, and ``ece_binned`` after
    histogram binning. A coefficient is part of the name of a method, as in "focal(gamma=5)".

    Parameters
    ----------
    exhibit : str, optional
        An id of the ledger's ``exhibits.csv``, such as "fmfp-tab1".

    Returns
    -------
    pandas.DataFrame
        A row for each number, with the fields of `Cell` as columns.

    Raises
    ------
    ValueError
        The exhibit does not exist.

    Examples
    --------
    >>> table = cells(exhibit="fmfp-tab1")
    >>> first = table[(table.network == "resnet110") & (table.metric == "auroc")].iloc[0]
    >>> first.method, round(float(first.value), 4), round(float(first["std"]), 4)
    ('erm', 0.9076, 0.006)
    """
    import pandas as pd

    return pd.DataFrame(_chosen(exhibit), columns=Cell._fields)


def _chosen(exhibit: str = "") -> list[Cell]:
    """Select the cells of an exhibit; if empty, all cells. An unknown exhibit is an error."""
    if exhibit:
        known = [e["id"] for e in papers.ledger("exhibits.csv")]
        terms.choose("exhibit", exhibit, known, "calibkit plan --csv")
    return [c for c in every() if exhibit in ("", c.exhibit)]


def _cell(line: dict[str, str]) -> Cell:
    """Make a cell from a line of the ledger."""
    scale = _SCALES.get(line["scale"], 1)
    return Cell(
        *(line[k] for k in ("paper", "exhibit", "our_dataset")),
        line["network"].removesuffix("(inferred)"),  # another table of the paper names it
        *(line["our_method"], line["our_metric"]),
        float(line["value"]) / scale,
        float(line["std"] or nan) / scale,
        10.0 ** -len(line["value"].partition(".")[2]) / scale,
        line["variant"],
        line["our_network"],
    )


# --- a table as printed ---------------------------------------------------------------------------


def table(exhibit: str, dataset: str = "", network: str = "") -> "pd.DataFrame":
    """Return a printed table for one data set and one network.

    Parameters
    ----------
    exhibit : an id of the ledger's ``exhibits.csv``
    dataset : name of the data set in our tables, such as "cifar10"; by default the first of the
        exhibit
    network : name of the network in the paper's table, such as "resnet110"; by default the first
        of the exhibit

    Returns
    -------
    pandas.DataFrame
        A row for each method and a column for each metric, in natural units.

    Raises
    ------
    ValueError
        The exhibit has no printed numbers, or lacks the data set or network.

    Examples
    --------
    >>> auroc = table("fmfp-tab1", "cifar10", "resnet110").auroc
    >>> float(round(auroc.label_smoothing - auroc.erm, 4))
    -0.0887
    """
    its = _part(exhibit, dataset, network)
    place = its[0].dataset, its[0].network
    return _wide({(c.method, c.metric): c.value for c in its if (c.dataset, c.network) == place})


def _wide(cells: dict[tuple, object], across: Sequence[int] = (-1,)) -> "pd.DataFrame":
    """Make a table of values by key; `across` are the places in a key that become columns."""
    import pandas as pd

    return pd.Series(cells).unstack(list(across), sort=False)


def _part(exhibit: str, dataset: str = "", network: str = "") -> list[Cell]:
    """Select the cells of an exhibit, without repeats; an empty data set or network means all."""
    its = _chosen(exhibit)
    if not its:
        raise ValueError(f"exhibit: got {exhibit!r}, which has no printed numbers")
    for column, choice in (("dataset", dataset), ("network", network)):
        if choice:
            terms.choose(f"{column} of {exhibit}", choice, {getattr(c, column) for c in its})
            its = [c for c in its if getattr(c, column) == choice]
    unique = {(c.dataset, c.network, c.method, c.metric): c for c in reversed(its)}
    return list(reversed(unique.values()))


def _label(method: str) -> str:
    """Return the name of a method of the ledger on pages."""
    return "ConfidNet" if method == "confidnet" else terms.label(method)


def _shown(value: float, metric: str) -> str:
    """Write a value in the units of tables, such as per cent; a dash for NaN."""
    scale = terms.metric_label(metric)[1]
    return "–" if isnan(value) else f"{scale * value:.{1 if scale > 1 else 2}f}"


# --- ours beside it -------------------------------------------------------------------------------


class Line(NamedTuple):
    """A printed number beside the mean of our runs, in natural units.

    Our mean is NaN, over 0 seeds, if we have no such run or number. `std` and `ours_std` are
    standard deviations over seeds: NaN if the paper prints none, or if we have one seed.
    """

    dataset: str
    network: str
    method: str
    metric: str
    published: float
    ours: float
    seeds: int
    std: float = nan
    ours_std: float = nan


@dataclass(frozen=True, repr=False)
class Beside:
    """The printed numbers of an exhibit beside our numbers.

    Attributes
    ----------
    lines : a `Line` for each printed number
    published : data, networks, epochs and seeds of the paper's experiment, in words
    ours : data, networks, epochs and seeds of our experiment, in words
    """

    lines: list[Line]
    published: str
    ours: str

    @property
    def differs(self) -> str:
        """A caption that describes both experiments."""
        return f"Published: {self.published}. Ours: {self.ours}."

    def _repr_html_(self) -> str:
        return paired(self).to_html()


def beside(
    runs,
    exhibit: str,
    dataset: str = "",
    network: str = "",
    metrics: Sequence[str] = (),
    methods: Sequence[str] = (),
) -> Beside:
    """Put the mean of our runs beside each printed number of an exhibit.

    Numbers on published corruptions stand beside numbers on our own corruptions. Numbers on newly
    collected test sets stand beside ours on the same test sets. All others stand beside ours on the
    unshifted test set.

    Parameters
    ----------
    runs : results of a setting, from `results.load`
    exhibit, dataset, network : as in `table`; an empty data set or network means all
    metrics, methods : names of the metrics and methods to show; empty for all

    Raises
    ------
    ValueError
        The exhibit has no printed numbers, or lacks the data set or network.

    Examples
    --------
    >>> from calibkit_companion import results
    >>> found = beside(results.load("fmfp"), "fmfp-tab1", "cifar10", "resnet110", ["auroc"])
    >>> found.lines[0].method, round(found.lines[0].published, 4), found.lines[0].seeds > 1
    ('erm', 0.9076, True)
    """
    lines = [
        _line(runs, cell)
        for cell in _part(exhibit, dataset, network)
        if cell.metric in (metrics or [cell.metric]) and cell.method in (methods or [cell.method])
    ]
    here = runs.caption if any(line.seeds for line in lines) else "no runs"
    return Beside(lines, _published(lines, exhibit), here)


def _line(runs, cell: Cell) -> Line:
    """Put the mean of our runs of the same method beside a printed number."""
    series = runs.series(_our_method(runs, cell), cell.number)
    values = [value for value in series.values.values() if not isnan(value)]
    ours, spread = series.mean().interval().estimate, stdev(values) if len(values) > 1 else nan
    where = cell.dataset, cell.network, cell.method, cell.metric
    return Line(*where, cell.value, ours, series.seeds, cell.std, spread)


def _our_method(runs, cell: Cell) -> str:
    """Return our method for a cell, with the coefficient of the runs that reproduce its exhibit."""
    if cell.method in (*papers.OF_ERM, *_TOY_PANELS):
        return "erm"
    planned = papers.find(cell)
    names = [planned[0].method] if planned else []
    return next((m for m in [*names, cell.method] if runs.records(m)), cell.method)


def _published(lines: Sequence[Line], exhibit: str) -> str:
    """Describe the paper's experiment in words: data, networks, epochs and seeds."""
    epochs, seeds = plan.PAPERS[_chosen(exhibit)[0].paper].trained
    words = [
        " and ".join(dict.fromkeys(terms.DATASETS.get(x.dataset, x.dataset) for x in lines)),
        ", ".join(dict.fromkeys(x.network for x in lines)),
        epochs or "epochs not stated",
        seeds or "number of seeds not stated",
    ]
    return "; ".join(words)


def paired(*tables: Beside, here: Sequence[str] = ()):
    """Make a narrow table with a row for each method: for each metric, the printed number and ours.

    Standard deviations are left out.

    Parameters
    ----------
    tables : results of `beside`; if two of them have a number for the same cell, the first counts
    here : heading of the column with our numbers, for each table; by default "here"

    Examples
    --------
    >>> from calibkit_companion import results
    >>> both = paired(beside(results.load("fmfp"), "fmfp-tab1", "cifar10", "resnet110", ["auroc"]))
    >>> both.data.columns.tolist()
    [('AUROC (%)', 'paper'), ('AUROC (%)', 'here')]
    >>> both.data.index[1]
    'Mixup'
    """
    from calibkit_companion.pages import page

    cells, order = {}, {}
    named = zip_longest(tables, here, fillvalue="here")
    for x, ours in ((x, name) for table, name in named for x in table.lines):
        head = terms.header(x.metric)
        if x.dataset != tables[0].lines[0].dataset:
            head += f", {terms.DATASETS.get(x.dataset, x.dataset)}"
        order[head] = list(terms.METRICS).index(x.metric)
        cells.setdefault((_label(x.method), head, "paper"), _shown(x.published, x.metric))
        cells.setdefault((_label(x.method), head, ours), _shown(x.ours, x.metric))
    frame = _wide(cells, (1, 2)).fillna("–")
    frame = frame[sorted(frame, key=lambda head: order[head[0]])]
    heads = {table.ours: name for table, name in zip(tables, here, strict=False)}
    note = tables[0].differs
    if heads:  # each setting once, under its own name
        each = (f" Ours, {name}: {ours}." for ours, name in heads.items())
        note = f"Published: {tables[0].published}." + "".join(each)
    note += " –: not printed, or not run." * bool((frame == "–").any(axis=None))
    # A phone scrolls a wide table sideways, but not the caption, which wraps.
    style = "position: sticky; left: 0; display: inline-block; max-width: min(80vw, 42rem)"
    caption = f'<span style="{style}">{html.escape(note)}</span>'
    return page.table(frame, classes="calibkit-paired").set_caption(caption)


# --- the run behind each --------------------------------------------------------------------------

COLUMNS = "paper exhibit dataset network method variant metric run reason".split()
# Reasons for which no run reproduces a printed number: the paper made up the distributions; the
# number is computed from others of its table; the text names no network; small editions leave out
# some methods.
HYPOTHETICAL, AVERAGE = "hypothetical row", "average of other cells"
NETWORK, ABSENT = "network not stated", "not in this edition"
REASONS = HYPOTHETICAL, AVERAGE, NETWORK, ABSENT


def planned(paper: str = "", edition: str = "paper") -> list[dict]:
    """List every printed number with the runs that reproduce it, in the order of the ledger.

    Parameters
    ----------
    paper : str
        Only the numbers of this paper; empty for all papers.
    edition : str
        "paper" for the published experiments; another edition takes its own runs instead.

    Returns
    -------
    list of dict
        Each has the keys of `COLUMNS`, in the words of the paper; ``cell``, the `Cell`; and
        ``runs``, a run for each seed. ``run`` is the name of the first run, and is empty if there
        is none; then ``reason`` says why. The name of a run begins with the training data, which
        may be other data than those of the test.

    Examples
    --------
    >>> row = planned("darkside")[126]
    >>> row["dataset"], row["run"][:24], row["reason"]
    ('cifar10.1', 'cifar10-vgg16_bn-erm-s0-', '')
    """
    terms.choose("edition", edition, plan.EDITIONS)
    if paper:
        terms.choose("paper", paper, plan.PAPERS)
    table = []
    for cell, line in zip(every(), papers.ledger("numbers.csv"), strict=True):
        if paper in ("", cell.paper):
            reason = _reason(cell)
            runs = [] if reason else _runs(cell, edition)
            row = {column: line[column] for column in COLUMNS[:-2]}
            row |= {"run": runs[0].name if runs else "", "reason": reason or ABSENT * (not runs)}
            table.append(row | {"runs": tuple(runs), "cell": cell})
    return table


def _reason(cell: Cell) -> str:
    """Say why no run can reproduce a printed number; empty if a run can."""
    made_up, average = cell.dataset == "hypothetical", cell.network == MEANS
    unnamed = cell.network == "-" and cell.dataset != "imagenet"
    return HYPOTHETICAL * made_up or AVERAGE * average or NETWORK * unnamed


def _runs(cell: Cell, edition: str) -> list[Run]:
    """Find the runs that reproduce a printed number; in a smaller edition, runs of its method.

    A smaller edition prefers runs on the same data set. Of several networks or protocols it takes
    the first.
    """
    if edition == "paper":
        return papers.find(cell)
    dataset, method = papers.trained(cell)
    its = [r for r in _runs_of(cell.paper, edition) if (r.method, r.variant) == (method, "code")]
    its = [r for r in its if r.dataset == dataset] or its
    return [r for r in its if replace(r, seed=its[0].seed) == its[0]]


_runs_of = cache(plan.runs)  # the runs of a paper in an edition, listed once for all cells


def lines(table: Sequence[dict]) -> list[list[str]]:
    """Turn the result of `planned` into lines of words, for a terminal."""
    found = []
    for row in table:
        runs, words = row["runs"], row["run"] or f"({row['reason']})"
        if runs and runs[0].dataset != row["cell"].dataset:
            row = row | {"dataset": f"{runs[0].dataset} → {row['dataset']}"}
        words += f"  × {len(runs)} seeds" * (len(runs) > 1)
        found.append([*(row[c] for c in COLUMNS[1:7]), words])
    return found
