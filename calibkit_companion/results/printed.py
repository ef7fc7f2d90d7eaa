"""What the five papers print: every readable cell of their tables, and ours beside it.

    printed.table("fmfp-tab1", "cifar10", "resnet110")          # the paper's own table
    printed.beside(runs, "fmfp-tab1", "cifar10", "resnet110")   # and what these runs have
    printed.planned("fmfp")                  # the run that fills each of its cells

Ours is seldom the same experiment: other data, another network, fewer epochs. The caption says what
differs, and the two lines are there to compare orders and gaps, not third digits.
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
MEANS = "avg_over_backbones"  # in place of a network: means of the rows above them
_TOY_PANELS = (
    "toy_panel_a",
    "toy_panel_b",
    "toy_panel_c",
)  # of the Gaussians, in place of a method
# Test sets under shift, as `Number` names them. What we have on an unshifted one is no
# counterpart; our own corruptions are one to published corruptions.
TEST_SETS = {name: f"{name.replace('.', '_')}-0" for name in papers.TRAINED_ON}
TEST_SETS["cifar10c"] = "shifted"


class Cell(NamedTuple):
    """A printed number in natural units.

    Data set, method and metric by our names, the network and the variant as the paper's table has
    them, `ours` the network of our runs. `std` is between the paper's seeds (nan where none is
    printed), `digit` a step of the last printed digit.
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
        """The same number among ours: its recalibration, score and test set."""
        metric, recalibration, *_ = read_column(self.metric)
        if self.method == "ts":
            recalibration = Recalibration.TS_ECE
        score = "confidnet" if self.method == "confidnet" else "max_probability"
        return Number(metric, recalibration, score, TEST_SETS.get(self.dataset, "clean"))


@cache
def every() -> tuple[Cell, ...]:
    """Every printed number, in the order of the ledger."""
    return tuple(map(_cell, papers.ledger("numbers.csv")))


def cells(exhibit: str = "") -> "pd.DataFrame":
    """Every number which the tables (and some sentences) of the papers print, in natural units.

    Per cents and AURC times 1000 are divided out: an ECE of 4.14 % is 0.0414. A calibration error
    after recalibration is a metric of its own: ``ece_scaled`` after a temperature from validation
    data, ``ece_optimal`` from test data, ``ece_binned`` after histogram binning. A coefficient
    becomes part of the method's name, as `method.parse` reads it.

    Parameters
    ----------
    exhibit : str, optional
        An id of the ledger's ``exhibits.csv``, such as "fmfp-tab1".

    Returns
    -------
    pandas.DataFrame
        The fields of `Cell`.

    Raises
    ------
    ValueError
        For an exhibit which does not exist.

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
    """The cells of an exhibit, or of all; an unknown exhibit is refused."""
    if exhibit:
        known = [e["id"] for e in papers.ledger("exhibits.csv")]
        terms.choose("exhibit", exhibit, known, "calibkit plan --csv")
    return [c for c in every() if exhibit in ("", c.exhibit)]


def _cell(line: dict[str, str]) -> Cell:
    """A cell from a line of the ledger."""
    scale = _SCALES.get(line["scale"], 1)
    return Cell(
        *(line[k] for k in ("paper", "exhibit", "our_dataset")),
        line["network"].removesuffix("(inferred)"),  # of another table of the paper
        *(line["our_method"], line["our_metric"]),
        float(line["value"]) / scale,
        float(line["std"] or nan) / scale,
        10.0 ** -len(line["value"].partition(".")[2]) / scale,
        line["variant"],
        line["our_network"],
    )


# --- a table as printed ---------------------------------------------------------------------------


def table(exhibit: str, dataset: str = "", network: str = "") -> "pd.DataFrame":
    """A printed table, or the part of it for a data set and a network.

    Parameters
    ----------
    exhibit : an id of the ledger's ``exhibits.csv``
    dataset, network : as the paper's table calls them, "cifar10" and "resnet110"; empty: the
        first that it has

    Returns
    -------
    pandas.DataFrame
        Methods down, metrics across, in natural units.

    Raises
    ------
    ValueError
        For an exhibit without printed cells, or a data set or network which it does not have.

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
    """Cells as a table in order of appearance; `across`: which parts of a key make the columns."""
    import pandas as pd

    return pd.Series(cells).unstack(list(across), sort=False)


def _part(exhibit: str, dataset: str = "", network: str = "") -> list[Cell]:
    """The cells of an exhibit for a data set and a network, each number once; empty: for all."""
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
    """What a method of the ledger is called on pages."""
    return "ConfidNet" if method == "confidnet" else terms.label(method)


def _shown(value: float, metric: str) -> str:
    """A value in the units of tables; a dash for NaN."""
    scale = terms.metric_label(metric)[1]
    return "–" if isnan(value) else f"{scale * value:.{1 if scale > 1 else 2}f}"


# --- ours beside it -------------------------------------------------------------------------------


class Line(NamedTuple):
    """A printed cell, and our mean: nan, and 0 seeds, where there is no such run or number here.

    `std` and `ours_std` are between seeds, nan where there is one or none is printed.
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
    """Our numbers beside those of an exhibit.

    Attributes
    ----------
    lines : a line for each cell
    published, ours : data, networks, epochs and seeds of the two experiments, in words
    """

    lines: list[Line]
    published: str
    ours: str

    @property
    def differs(self) -> str:
        """Both experiments in words, for a caption."""
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
    """Our mean beside each published cell of an exhibit.

    Published corruptions stand beside our own, sets that were collected a second time beside
    themselves, everything else beside our unshifted test set.

    Parameters
    ----------
    runs : the runs of a setting, from `results.load`
    exhibit, dataset, network : as in `table`; empty for all of it
    metrics, methods : only these, as the table names them; empty for all

    Raises
    ------
    ValueError
        For an exhibit without printed cells, or a data set or network which it does not have.

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
    """A cell, and the mean over our runs of the same method and number."""
    series = runs.series(_our_method(runs, cell), cell.number)
    values = [value for value in series.values.values() if not isnan(value)]
    ours, spread = series.mean().interval().estimate, stdev(values) if len(values) > 1 else nan
    where = cell.dataset, cell.network, cell.method, cell.metric
    return Line(*where, cell.value, ours, series.seeds, cell.std, spread)


def _our_method(runs, cell: Cell) -> str:
    """Our method behind a cell, with the coefficient that the runs of its exhibit have."""
    if cell.method in (*papers.OF_ERM, *_TOY_PANELS):
        return "erm"
    planned = papers.find(cell)
    names = [planned[0].method] if planned else []
    return next((m for m in [*names, cell.method] if runs.records(m)), cell.method)


def _published(lines: Sequence[Line], exhibit: str) -> str:
    """Data, networks, epochs and seeds behind some printed cells, in words."""
    epochs, seeds = plan.PAPERS[_chosen(exhibit)[0].paper].trained
    words = [
        " and ".join(dict.fromkeys(terms.DATASETS.get(x.dataset, x.dataset) for x in lines)),
        ", ".join(dict.fromkeys(x.network for x in lines)),
        epochs or "epochs not stated",
        seeds or "number of seeds not stated",
    ]
    return "; ".join(words)


def paired(*tables: Beside, here: Sequence[str] = ()):
    """One line a method and, for each metric, the printed number and ours: narrow, without spreads.

    Parameters
    ----------
    tables : from `beside`, of one or several exhibits; of two cells for one place the first counts
    here : headings of our numbers in each table; by default "here" in all

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
    # It stays, and wraps, where a phone scrolls a wide table sideways.
    style = "position: sticky; left: 0; display: inline-block; max-width: min(80vw, 42rem)"
    caption = f'<span style="{style}">{html.escape(note)}</span>'
    return page.table(frame, classes="calibkit-paired").set_caption(caption)


# --- the run behind each --------------------------------------------------------------------------

COLUMNS = "paper exhibit dataset network method variant metric run reason".split()
# Why no run can fill a cell: the paper made up its distributions; it is computed from cells of the
# same table; the text does not say of which network it is; small editions leave out some methods.
HYPOTHETICAL, AVERAGE = "hypothetical row", "average of other cells"
NETWORK, ABSENT = "network not stated", "not in this edition"
REASONS = HYPOTHETICAL, AVERAGE, NETWORK, ABSENT


def planned(paper: str = "", edition: str = "paper") -> list[dict]:
    """A row for each published cell, in the order of the ledger.

    Parameters
    ----------
    paper : str
        Only that paper's; empty for all.
    edition : str
        "paper", or another edition, whose runs stand in for the published ones.

    Returns
    -------
    list of dict
        `COLUMNS`, in the words of the papers, ``cell``, in ours, and ``runs``: all seeds, of which
        ``run`` is the name of the first. ``run`` or ``reason`` is empty. The name of a run begins
        with what it is trained on, which is not always what a cell was tested on.

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
    """Why no run can fill a cell; empty if one can."""
    made_up, average = cell.dataset == "hypothetical", cell.network == MEANS
    unnamed = cell.network == "-" and cell.dataset != "imagenet"
    return HYPOTHETICAL * made_up or AVERAGE * average or NETWORK * unnamed


def _runs(cell: Cell, edition: str) -> list[Run]:
    """The runs behind a cell: as published or, in a smaller edition, of the same method.

    A smaller edition prefers runs on the data of the cell, and takes the first kind of run.
    """
    if edition == "paper":
        return papers.find(cell)
    dataset, method = papers.trained(cell)
    its = [r for r in _runs_of(cell.paper, edition) if (r.method, r.variant) == (method, "code")]
    its = [r for r in its if r.dataset == dataset] or its
    return [r for r in its if replace(r, seed=its[0].seed) == its[0]]


_runs_of = cache(plan.runs)  # of a paper in an edition, which all its cells need


def lines(table: Sequence[dict]) -> list[list[str]]:
    """Cells in words, for a terminal."""
    found = []
    for row in table:
        runs, words = row["runs"], row["run"] or f"({row['reason']})"
        if runs and runs[0].dataset != row["cell"].dataset:
            row = row | {"dataset": f"{runs[0].dataset} → {row['dataset']}"}
        words += f"  × {len(runs)} seeds" * (len(runs) > 1)
        found.append([*(row[c] for c in COLUMNS[1:7]), words])
    return found
