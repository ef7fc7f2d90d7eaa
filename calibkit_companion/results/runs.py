"""The runs of a setting, and the function that compares its methods."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from calibkit import terms
from calibkit_companion.experiments import plan
from calibkit_companion.pages import page
from calibkit_companion.pages.page import NoRecords
from calibkit_companion.records import devices, folders
from calibkit_companion.records.keys import Recalibration
from calibkit_companion.records.record import Record
from calibkit_companion.results import tidy
from calibkit_companion.results.change import since
from calibkit_companion.results.measure import SCORES, Series, by_log_odds, by_seed, has
from calibkit_companion.results.number import LEARNS, Number
from calibkit_companion.results.predictions import Predictions
from calibkit_companion.results.rows import Operand, Row, Rows, row

if TYPE_CHECKING:
    import pandas as pd

    from calibkit import curves


@dataclass(eq=False)
class Results:
    """The runs of one setting of an edition: data, network, protocol and seeds.

    Records are read when a number of their method is first needed.

    Attributes
    ----------
    selection : which setting, and which of its runs
    page : the paper or notebook that shows them; empty for none
    train : in the editions that train while a page runs (smoke, demo), train missing runs
    table : numbers of networks that have no runs here (`others.numbers`), in place of records
    """

    selection: plan.Selection
    page: str = ""
    train: bool = True
    table: Mapping[Number, Series] | None = None
    _records: dict[tuple, list[Record]] = field(default_factory=dict)
    _series: dict[tuple, Series] = field(default_factory=dict)
    _ranked: dict[tuple, tuple[Number, ...]] = field(default_factory=dict)

    # --- which runs ---

    @cached_property
    def setting(self) -> plan.Setting:
        """Data, network, protocol and seeds."""
        return self.selection.place()

    @property
    def name(self) -> str:
        """The key of the setting."""
        return self.selection.setting or "shared"

    @property
    def title(self) -> str:
        """The setting in words."""
        return self.setting.title or self.caption

    @property
    def short_title(self) -> str:
        """The title without brackets and without whose schedule it is, for a panel."""
        return self.setting.short or self.title

    @cached_property
    def planned(self) -> list[plan.Run]:
        """The runs that the plan has in this setting for the page, or for any page."""
        page = self.page if self.page in plan.NOTEBOOKS else "all"
        return self._of_place(self.selection.of_page(page))

    def _of_place(self, runs: Iterable[plan.Run]) -> list[plan.Run]:
        """The runs, of those given, that have the data, network and protocol of this setting."""
        place = self.setting
        same = [r for r in runs if (r.dataset, r.network) == (place.dataset, place.network)]
        return [r for r in same if r.protocol == place.protocol_of(r.recipe)]

    @cached_property
    def methods(self) -> list[str]:
        """The methods of the plan that have a record in this setting, in the plan's order."""
        names = dict.fromkeys(run.method for run in self.planned if run.variant == "code")
        return [m for m in names if self.records(m)]

    def runs(self, method: str, **changes) -> list[plan.Run]:
        """The runs of a method; `changes` are fields of `plan.Selection`: ``train_size``."""
        runs = plan.Selection.of(self.selection, **changes).runs([method])
        if plan.EDITIONS[self.selection.edition].on_the_spot and not self.selection.seeds:
            # A method of the book has as many seeds as the book plans for it.
            planned = [run for run in runs if run in _book(self.selection.edition)]
            return planned or runs
        return runs

    def records(self, method: str, **changes) -> list[Record]:
        """The records of a method by seed, without those that diverged; `changes` as `runs`."""
        key = method, *sorted(changes.items())
        if key not in self._records:
            train = self.train and plan.EDITIONS[self.selection.edition].on_the_spot
            records = [record_of(run, train) for run in self.runs(method, **changes)]
            self._records[key] = [r for r in records if r is not None and not r.diverged]
        return self._records[key]

    def scored(self) -> dict[str, object]:
        """The `changes` that select the runs with Trust Score and ConfidNet."""
        scored = plan.EDITIONS[self.selection.edition].scored
        return {"protocol": tuple((dict(self.selection.protocol) | scored).items())}

    def at(self, setting: str) -> "Results":
        """The results of the same page in another setting of the edition, by its key."""
        return Results(replace(self.selection, setting=setting), self.page)

    @cached_property
    def settings(self) -> list["Results"]:
        """This setting and the others of the page that have records."""
        names = _settings(self.page, self.selection)
        each = [self if name == self.name else self.at(name) for name in names]
        return [one for one in each if one is self or one._any_record()]

    def _any_record(self) -> bool:
        return any(folders.load(run) is not None for run in self.planned)

    # --- numbers ---

    def operand(self, method: str, number: Number) -> Operand:
        """A number of a method here, as one side of a comparison.

        "ts", a method in the papers' tables, is plain training after temperature scaling (by NLL).
        """
        if method == "ts":
            method, number = "erm", number._replace(recalibration=Recalibration.TS_NLL)
        return Operand(method, number, self.name, self.title)

    def series(self, method: str, number: Number, **changes) -> Series:
        """A number of a method by seed; `method` as `operand` takes it, `changes` as `runs`."""
        return self._series_of(self.operand(method, number), **changes)

    def _series_of(self, operand: Operand, **changes) -> Series:
        """The number of an operand by seed."""
        method, number = operand.method, operand.number
        if self.table is not None:
            return self.table.get(number, Series({0: nan}))
        key = method, number, *sorted(changes.items())
        if key not in self._series:
            if number.score in SCORES:
                changes |= self.scored()
            records = self.records(method, **changes)
            if number.since:
                series = since(records, number)
            else:
                series = by_seed(records, number, self.setting.dataset)
            self._series[key] = replace(series, trained=((method, devices.by_seed(records)),))
        return self._series[key]

    def compare(
        self,
        methods: str | Iterable[str],
        to: str = "erm",
        metric: str | Sequence[str] = "auroc",
        *,
        level: float = 0.95,
        against: Number | Mapping | None = None,
        **which,
    ) -> Rows:
        """Methods minus another, paired by seed and by the samples of the test set.

        Parameters
        ----------
        methods, to : methods; those without a common seed are left out
        metric : one, or several: rows are then by (method, metric)
        level : coverage of the interval
        against : fields of the second side's `Number` that differ, such as
            ``{"recalibration": "none"}``
        which : further fields of `Number`, such as ``recalibration="ts_nll"``

        Returns
        -------
        Rows
            A `Row` by method.
        """

        def sides(method: str, number: Number) -> tuple[Operand, Operand]:
            number, other = self.ranked(number, number._replace(**(against or {})))
            return self.operand(method, number), self.operand(to, other)

        return self._rows(sides, methods, metric, which, level)

    def unfit(self, methods: Iterable[str]) -> list[str]:
        """The methods whose training accuracy is clearly below plain training, see `LEARNS`."""
        rows = self.compare(methods, metric="train_accuracy")
        return [method for method, row in rows.items() if row.estimate < -LEARNS]

    def mean(
        self,
        methods: str | Iterable[str],
        metric: str | Sequence[str] = "auroc",
        *,
        level: float = 0.95,
        **which,
    ) -> Rows:
        """The level of a number for some methods, with its interval; fields as in `compare`."""

        def sides(method: str, number: Number) -> tuple[Operand, None]:
            (number,) = self.ranked(number)
            return self.operand(method, number), None

        return self._rows(sides, methods, metric, which, level)

    def _rows(self, sides: Callable, methods, metric, which: dict, level: float) -> Rows:
        """A row for each method and metric that was measured; `sides` gives its two operands."""
        methods = [methods] if isinstance(methods, str) else list(methods)
        several, rows = not isinstance(metric, str), Rows()
        for one in metric if several else [metric]:
            for method in methods:
                of, against = sides(method, Number(one, **which))
                if of == against:
                    continue
                series = self._series_of(of)
                if against:
                    series = series - self._series_of(against)
                if series.seeds:
                    rows[(method, one) if several else method] = row(series, of, against, level)
        return rows

    def ranked(self, *numbers: Number) -> tuple[Number, ...]:
        """The numbers ranked by the log-odds, if every run of the setting has all of them so.

        Else the numbers are returned unchanged: ranked by the confidence in single precision, which
        every record has. Numbers that do not rank, or name their score, are never changed.
        """
        if numbers not in self._ranked:
            asked = [by_log_odds(number) for number in numbers]
            each = [has(r, number) for number in asked if number for r in self._present]
            chosen = (by or number for by, number in zip(asked, numbers, strict=True))
            self._ranked[numbers] = tuple(chosen) if each and all(each) else numbers
        return self._ranked[numbers]

    @cached_property
    def _present(self) -> list[Record]:
        """The records of all methods of the plan on any page; nothing is trained."""
        runs = self._of_place(self.selection.of_page("all"))
        records = (folders.load(run) for run in runs)
        return [r for r in records if r is not None and not r.diverged]

    def refinement(self, methods: Iterable[str]) -> "dict[str, curves.Refinement]":
        """The NLL through training, and how much of it temperature scaling leaves, by method.

        Only runs that keep their predictions have the logits of some epochs.
        """
        from calibkit import curves

        numbers = {}
        for method in self.drawable(methods):
            whole = [r for r in self.records(method) if not r.light]
            logits = [r.snapshots for r in whole]
            labels = whole[0].arrays["test_labels"][: len(next(iter(logits[0].values())))]
            numbers[method] = curves.prepare_refinement(logits, labels.astype(np.int64))
        return numbers

    def typical(self, method: str) -> Record:
        """The run that a figure of one run draws: the nearest to the median ECE of all runs.

        The distance is that of the ECE as trained plus that of the ECE after temperature scaling
        (by NLL). Runs that keep their predictions come first; if none does, reading them raises
        `LightRecord`.

        Raises
        ------
        NoRecords
            If the method has no record.
        """
        if not (records := self.records(method)):
            raise NoRecords(f"no record of {method}", self.selection.command([method]))
        off = dict.fromkeys((r.info["run"]["seed"] for r in records), 0.0)
        for recalibration in (Recalibration.NONE, Recalibration.TS_NLL):
            values = self.series(method, Number("ece", recalibration)).values
            middle = np.nanmedian(list(values.values()))
            off = {seed: far + abs(values[seed] - middle) for seed, far in off.items()}
        whole = [r for r in records if not r.light] or records
        return min(whole, key=lambda r: off[r.info["run"]["seed"]])

    def predictions(self, method: str) -> Predictions:
        """The predictions of the `typical` run of a method."""
        return Predictions.of(self.typical(method))

    def drawable(self, methods: Iterable[str]) -> list[str]:
        """The methods that have a run that keeps its predictions."""
        return [m for m in methods if any(not r.light for r in self.records(m))]

    def keeping(self, *methods: str) -> "Results":
        """The first setting of the page in which a run of every method keeps its predictions.

        This setting is tried first.

        Raises
        ------
        NoRecords
            If there is none; the message has the command that trains the runs again.
        """
        each = [self, *(one for one in self.settings if one.name != self.name)]
        keeping = (one for one in each if one.drawable(methods) == list(methods))
        if (first := next(keeping, None)) is None:
            words = ", ".join(map(terms.label, methods)) or "none"
            lacking = f"no run here keeps its predictions of {words}"
            raise NoRecords(lacking, self.selection.command(methods))
        return first

    # --- tables ---

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """Every number: a row for each run and number, in natural units.

        Columns ``run, setting, dataset, network, method, seed, metric, recalibration, score,
        test_set, at, value, n``; the key is unique. `at` is "end", or an evaluated epoch of a run
        whose predictions were kept through training; `compare` and `mean` take the same with an
        interval, as ``at=EPOCH``.
        """
        import pandas as pd

        each = ((method, record) for method in self.methods for record in self.records(method))
        return pd.DataFrame(
            [row for method, record in each for row in tidy.rows(record, method, self.name)]
        )

    @cached_property
    def history(self) -> "pd.DataFrame":
        """A row for each run and evaluated epoch: ``method, seed, epoch`` and the metrics."""
        import pandas as pd

        each = [
            pd.DataFrame(record.history).assign(method=method, seed=record.info["run"]["seed"])
            for method in self.methods
            for record in self.records(method)
        ]
        return pd.concat(each, ignore_index=True) if each else pd.DataFrame()

    # --- in words ---

    @cached_property
    def caption(self) -> str:
        """Data, network, length, seeds and test samples in one line, for figures and tables."""
        return self.caption_of(self.methods)

    def caption_of(self, methods, one: bool = False, n: int = 0, kept: bool = False) -> str:
        """The line under a figure: data, network, length, seeds and test samples.

        Parameters
        ----------
        methods : those that are drawn
        one : a single run of each is drawn
        n : how many samples are drawn; 0: the whole test set
        kept : only runs that keep their predictions are drawn
        """
        runs = ([r for r in self.records(m) if not (kept and r.light)] for m in methods)
        drawn_runs = [records for records in runs if records]
        place = self.setting
        if not drawn_runs:
            return f"{terms.DATASETS.get(place.dataset, place.dataset)} · {place.network}"
        first, many = drawn_runs[0][0], page.from_to(sorted({len(runs) for runs in drawn_runs}))
        drawn = "one of " * (one and many != "1")
        size = first.info["provenance"].get("training_samples") or place.protocol.train_size
        return " · ".join(
            [
                terms.DATASETS.get(place.dataset, place.dataset)
                + (f", {size:,} to train" if size else "")
                + (", crops and flips" if page.augmented(place) else ""),
                place.network,
                f"{place.protocol.epochs} epochs",
                f"{drawn}{many} seed{'s' * (many != '1')}",
                f"n = {n or int(first.history['n'][-1]):,}",
            ]
        )

    def __repr__(self) -> str:
        return f"<results: {self.name}, {self.caption}>"

    def _repr_html_(self) -> str:
        return page.card(self)


def late(numbers: "curves.Refinement", runs: Results, method: str) -> Row:
    """The change of the refinement of a method since its best epoch; positive: information lost.

    Parameters
    ----------
    numbers : from `Results.refinement`
    runs : the setting
    method : its name
    """
    values, draws = (dict(enumerate(n)) for n in (numbers.since_best, numbers.deviations))
    number = Number("nll_refinement", since="best")
    return row(Series(values, draws, numbers.n), runs.operand(method, number))


@cache
def _book(edition: str) -> frozenset[plan.Run]:
    """The runs that the book of an edition plans."""
    return frozenset(plan.runs("book", edition))


def record_of(run: plan.Run, train: bool = False) -> Record | None:
    """The record of a run; None if there is none and `train` is false."""
    record = folders.load(run)
    if record is None and train:
        from calibkit_companion.training.loop import train as train_one

        print(f"training {run.name}", flush=True)
        record = train_one(run)
    return record


def load(page: str = "all", edition: str = "released", **selected) -> Results:
    """The results of a page or a paper, in the first of its settings that has records.

    Parameters
    ----------
    page : a paper, a notebook, or "all"
    edition : one of `plan.EDITIONS`
    selected : fields of `plan.Selection`, such as ``setting="cifar10-plain"`` or ``seeds=3``; what
        is empty or 0 is as the edition has it

    Raises
    ------
    ValueError
        An unknown edition, setting, data set or network; the line names the valid ones.

    Examples
    --------
    >>> load("fmfp", setting="cifar10-plain").compare("label_smoothing")["label_smoothing"].outcome
    'lower'
    """
    selection = plan.Selection(edition, **selected)
    if selection.setting:
        plan.setting(edition, selection.setting)  # there is such a one
        return Results(selection, page)
    each = [Results(replace(selection, setting=name), page) for name in _settings(page, selection)]
    if plan.EDITIONS[edition].on_the_spot:  # what is missing will be trained
        return each[0]
    first = next((one for one in each if one._any_record()), None)
    if first is None:
        methods = dict.fromkeys(run.method for run in each[0].planned) or ["erm"]
        command = each[0].selection.command(methods)
        raise NoRecords("no run of this setting has a record", command)
    return first


def _settings(page: str, selection: plan.Selection) -> list[str]:
    """Keys of the page's settings that have the selected data and network; "shared" is last."""
    papers = plan.papers_of(page) if page in plan.NOTEBOOKS else [""]
    names = {
        s.name: None
        for paper in papers
        for s in plan.settings(selection.edition, paper)
        if selection.dataset in (None, s.dataset) and selection.network in (None, s.network)
    }
    return [name for name in names if name != "shared"] + ["shared"]
