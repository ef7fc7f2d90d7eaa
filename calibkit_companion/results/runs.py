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
    """The results of one setting of an edition, that is of one data set, network and protocol.

    Records are read when a number of their method is first needed.

    Attributes
    ----------
    selection : the setting, and which runs of it count
    page : the paper or notebook that shows the results; empty for none
    train : train missing runs, in the editions in which pages may train (smoke and demo)
    table : numbers of networks that other authors trained (`others.numbers`), in place of records
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
        """The title for a panel, without brackets and without the name of the schedule."""
        return self.setting.short or self.title

    @cached_property
    def planned(self) -> list[plan.Run]:
        """The planned runs of this setting that the page needs; without a page, all of them."""
        page = self.page if self.page in plan.NOTEBOOKS else "all"
        return self._of_place(self.selection.of_page(page))

    def _of_place(self, runs: Iterable[plan.Run]) -> list[plan.Run]:
        """Select the runs that have the data, network and protocol of this setting."""
        place = self.setting
        same = [r for r in runs if (r.dataset, r.network) == (place.dataset, place.network)]
        return [r for r in same if r.protocol == place.protocol_of(r.recipe)]

    @cached_property
    def methods(self) -> list[str]:
        """The planned methods that have a record in this setting, in the order of the plan."""
        names = dict.fromkeys(run.method for run in self.planned if run.variant == "code")
        return self.recorded(names)

    def runs(self, method: str, **changes) -> list[plan.Run]:
        """List the runs of a method.

        Parameters
        ----------
        method : key of the method
        changes : fields of `plan.Selection` to change, such as ``train_size=5000``
        """
        runs = plan.Selection.of(self.selection, **changes).runs([method])
        if plan.EDITIONS[self.selection.edition].on_the_spot and not self.selection.seeds:
            # The book may plan another number of seeds for a method than for its setting.
            planned = [run for run in runs if run in _book(self.selection.edition)]
            return planned or runs
        return runs

    def records(self, method: str, **changes) -> list[Record]:
        """Read the records of a method, sorted by seed, without runs that diverged.

        Parameters
        ----------
        method : key of the method
        changes : fields of `plan.Selection` to change, as in `runs`
        """
        key = method, *sorted(changes.items())
        if key not in self._records:
            runs = self.runs(method, **changes)
            if self._trains:
                _train_on_gpu(runs)
            records = [record_of(run, self._trains) for run in runs]
            self._records[key] = [r for r in records if r is not None and not r.diverged]
        return self._records[key]

    @property
    def _trains(self) -> bool:
        """Whether missing runs are trained."""
        return self.train and plan.EDITIONS[self.selection.edition].on_the_spot

    def recorded(self, methods: Iterable[str]) -> list[str]:
        """Select the methods that have a record; missing runs are trained, on a GPU side by side.

        Parameters
        ----------
        methods : keys of methods
        """
        methods = list(methods)
        if self._trains:
            _train_on_gpu([run for method in methods for run in self.runs(method)])
        return [method for method in methods if self.records(method)]

    def scored(self) -> dict[str, object]:
        """The argument `changes` of `runs` that selects the runs with Trust Score and ConfidNet."""
        scored = plan.EDITIONS[self.selection.edition].scored
        return {"protocol": tuple((dict(self.selection.protocol) | scored).items())}

    def at(self, setting: str) -> "Results":
        """Return the results of the same page in another setting, given by its key."""
        return Results(replace(self.selection, setting=setting), self.page)

    @cached_property
    def settings(self) -> list["Results"]:
        """The results of this setting and of the other settings of the page that have records."""
        names = _settings(self.page, self.selection)
        each = [self if name == self.name else self.at(name) for name in names]
        return [one for one in each if one is self or one._any_record()]

    def _any_record(self) -> bool:
        return any(folders.load(run) is not None for run in self.planned)

    # --- numbers ---

    def operand(self, method: str, number: Number) -> Operand:
        """Make one side of a comparison from a number of a method in this setting.

        The papers' tables list temperature scaling as a method. So the method "ts" is plain
        training after temperature scaling (fitted by NLL).
        """
        if method == "ts":
            method, number = "erm", number._replace(recalibration=Recalibration.TS_NLL)
        return Operand(method, number, self.name, self.title)

    def series(self, method: str, number: Number, **changes) -> Series:
        """Collect a number of a method by seed.

        Parameters
        ----------
        method : key of the method, or "ts" (see `operand`)
        number : which number
        changes : fields of `plan.Selection` to change, as in `runs`
        """
        return self._series_of(self.operand(method, number), **changes)

    def _series_of(self, operand: Operand, **changes) -> Series:
        """Collect the number of an operand by seed, minus that of `Operand.minus`, if any."""
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
        """Compare methods with another method, paired by seed and by test sample.

        Parameters
        ----------
        methods : key of a method, or several keys; methods without a seed in common with `to` are
            left out
        to : key of the method that is subtracted
        metric : name of a metric, or several names
        level : coverage of the interval, from 0 to 1
        against : fields of the `Number` of the method `to` that differ, such as
            ``{"recalibration": "none"}``
        which : further fields of `Number` for all methods, such as ``recalibration="ts_nll"``

        Returns
        -------
        Rows
            A `Row` for each method; for several metrics, by (method, metric).
        """

        def sides(method: str, number: Number) -> tuple[Operand, Operand]:
            number, other = self.ranked(number, number._replace(**(against or {})))
            return self.operand(method, number), self.operand(to, other)

        return self._rows(sides, methods, metric, which, level)

    def unfit(self, methods: Iterable[str]) -> list[str]:
        """Select the methods whose training accuracy is below plain training by over `LEARNS`."""
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
        """Average a number over the seeds of each method, with its interval.

        Parameters
        ----------
        methods : key of a method, or several keys
        metric : name of a metric, or several names
        level : coverage of the interval, from 0 to 1
        which : further fields of `Number`, such as ``recalibration="ts_nll"``

        Returns
        -------
        Rows
            A `Row` for each method; for several metrics, by (method, metric).
        """

        def sides(method: str, number: Number) -> tuple[Operand, None]:
            (number,) = self.ranked(number)
            return self.operand(method, number), None

        return self._rows(sides, methods, metric, which, level)

    def _rows(self, sides: Callable, methods, metric, which: dict, level: float) -> Rows:
        """Make a row for each method and metric that was measured.

        `sides` is a function of a method and a number that returns the two operands of the row.
        """
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
        """Replace the score of numbers by the log-odds, if all runs have all of them by this score.

        Otherwise the numbers are returned unchanged: they are ranked by the confidence in single
        precision, which every record has. A number whose metric needs no ranking, or that names a
        score, is never changed.
        """
        if numbers not in self._ranked:
            asked = [by_log_odds(number) for number in numbers]
            each = [has(r, number) for number in asked if number for r in self._present]
            chosen = (by or number for by, number in zip(asked, numbers, strict=True))
            self._ranked[numbers] = tuple(chosen) if each and all(each) else numbers
        return self._ranked[numbers]

    @cached_property
    def _present(self) -> list[Record]:
        """The records of all planned methods of all pages; no missing run is trained."""
        runs = self._of_place(self.selection.of_page("all"))
        records = (folders.load(run) for run in runs)
        return [r for r in records if r is not None and not r.diverged]

    def refinement(self, methods: Iterable[str]) -> "dict[str, curves.Refinement]":
        """Compute by method the NLL at snapshots, and the part that temperature scaling leaves.

        Only methods with a run that keeps its predictions are included.
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
        """Choose the run for a figure of a single run: the one nearest to the median ECE.

        The distance from the median is that of the ECE as trained plus that of the ECE after
        temperature scaling (by NLL). Only runs that keep their predictions are chosen, if there are
        any. Otherwise reading the predictions of the chosen run raises `LightRecord`.

        Raises
        ------
        NoRecords
            The method has no record.
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
        """Select the methods that have a run that keeps its predictions."""
        return [m for m in self.recorded(methods) if any(not r.light for r in self.records(m))]

    def keeping(self, *methods: str) -> "Results":
        """Find a setting in which every method has a run that keeps its predictions.

        This setting is tried first, then the others of the page in their order.

        Raises
        ------
        NoRecords
            There is no such setting; the message has the command that trains the runs again.
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
        """A table of all numbers, with a row for each run and number, in natural units.

        The columns are ``run, setting, dataset, network, method, seed, metric, recalibration,
        score, test_set, at, value, n``. `at` is "end", or an evaluated epoch of a run that kept its
        predictions through training. `n` is the number of test samples. `compare` and `mean` give
        the same numbers with intervals.
        """
        import pandas as pd

        each = ((method, record) for method in self.methods for record in self.records(method))
        return pd.DataFrame(
            [row for method, record in each for row in tidy.rows(record, method, self.name)]
        )

    @cached_property
    def history(self) -> "pd.DataFrame":
        """A table with a row for each run and evaluated epoch: method, seed, epoch and metrics."""
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
        """One line for figures and tables: data, network, epochs, seeds and test samples."""
        return self.caption_of(self.methods)

    def caption_of(self, methods, one: bool = False, n: int = 0, kept: bool = False) -> str:
        """Write the line under a figure: data, network, epochs, seeds and test samples.

        Parameters
        ----------
        methods : keys of the methods in the figure
        one : the figure shows a single run of each method
        n : number of samples in the figure; 0 means the whole test set
        kept : the figure shows only runs that keep their predictions
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
    """Compute the change of the NLL after temperature scaling since the best epoch of each run.

    A positive change means that the network has lost information about the classes.

    Parameters
    ----------
    numbers : result of `Results.refinement` for the method
    runs : results of the setting
    method : key of the method
    """
    values, draws = (dict(enumerate(n)) for n in (numbers.since_best, numbers.deviations))
    number = Number("nll_refinement", since="best")
    return row(Series(values, draws, numbers.n), runs.operand(method, number))


@cache
def _book(edition: str) -> frozenset[plan.Run]:
    """List the runs that the book needs in an edition."""
    return frozenset(plan.runs("book", edition))


def _train_on_gpu(runs: list[plan.Run]) -> None:
    """On a GPU, train the runs without a record side by side; elsewhere do nothing."""
    missing = [run for run in dict.fromkeys(runs) if folders.load(run) is None]
    if not missing:
        return
    from calibkit_companion.training import machine, side_by_side  # late: torch is slow to import

    if machine.device().type == "cuda":
        for run in missing:
            print(f"training {run.name}", flush=True)
        for _ in side_by_side.train(missing):
            pass


def record_of(run: plan.Run, train: bool = False) -> Record | None:
    """Read the record of a run; if it has none, train it (`train` True) or return None."""
    record = folders.load(run)
    if record is None and train:
        from calibkit_companion.training.loop import train as train_one

        print(f"training {run.name}", flush=True)
        record = train_one(run)
    return record


def load(page: str = "all", edition: str = "released", **selected) -> Results:
    """Load the results of a page or a paper, in the first of its settings that has records.

    Parameters
    ----------
    page : name of a paper or notebook, or "all"
    edition : one of `plan.EDITIONS`
    selected : fields of `plan.Selection`, such as ``setting="cifar10-plain"`` or ``seeds=3``; a
        field that is empty or 0 keeps the value of the edition

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
        plan.setting(edition, selection.setting)  # refuse an unknown name
        return Results(selection, page)
    each = [Results(replace(selection, setting=name), page) for name in _settings(page, selection)]
    if plan.EDITIONS[edition].on_the_spot:  # missing runs will be trained
        return each[0]
    first = next((one for one in each if one._any_record()), None)
    if first is None:
        methods = dict.fromkeys(run.method for run in each[0].planned) or ["erm"]
        command = each[0].selection.command(methods)
        raise NoRecords("no run of this setting has a record", command)
    return first


def _settings(page: str, selection: plan.Selection) -> list[str]:
    """List the settings of a page with the selected data and network; "shared" comes last."""
    papers = plan.papers_of(page) if page in plan.NOTEBOOKS else [""]
    names = {
        s.name: None
        for paper in papers
        for s in plan.settings(selection.edition, paper)
        if selection.dataset in (None, s.dataset) and selection.network in (None, s.network)
    }
    return [name for name in names if name != "shared"] + ["shared"]
