"""The runs of a setting, and the function that compares its methods."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from calibkit import terms
from calibkit_companion.experiments import plan
from calibkit_companion.pages import page
from calibkit_companion.pages.page import NoRecords, bring_records, check_parameters
from calibkit_companion.records import folders
from calibkit_companion.records.deviations import BY_LOG_ODDS
from calibkit_companion.records.record import Record
from calibkit_companion.records.replicates import KEY, rows_of
from calibkit_companion.results.change import since
from calibkit_companion.results.derived import Predictions
from calibkit_companion.results.measure import SCORES, Series, by_log_odds, by_seed, has
from calibkit_companion.results.number import LEARNS, Number
from calibkit_companion.results.rows import Row, Rows, row, unlike

if TYPE_CHECKING:
    import pandas as pd

    from calibkit import curves


@dataclass(eq=False)
class Results:
    """The runs of one setting of an edition: data, network, protocol and seeds.

    Runs are looked for when they are asked for, by method; where an edition is meant for that
    (smoke, demo), a missing one is trained.
    """

    selection: plan.Selection
    page: str = ""
    train: bool = True  # what is missing, where an edition is meant for that
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
        return self.selection.setting or "shared"

    @property
    def title(self) -> str:
        """The setting in words."""
        return self.setting.title or self.caption

    @property
    def short_title(self) -> str:
        """The title without brackets and without whose schedule it is, for a panel."""
        return self.title.partition(" (")[0].partition(", schedule of")[0]

    @cached_property
    def planned(self) -> list[plan.Run]:
        """The runs that the plan gives this setting, for the page or for any."""
        page = self.page if self.page in plan.NOTEBOOKS else "all"
        return self._of_place(self.selection.of_page(page))

    def _of_place(self, runs: Iterable[plan.Run]) -> list[plan.Run]:
        """Those of some runs that are of this setting."""
        place = self.setting
        same = [r for r in runs if (r.dataset, r.network) == (place.dataset, place.network)]
        return [r for r in same if r.protocol == place.protocol_of(r.method)]

    @cached_property
    def methods(self) -> list[str]:
        """Methods of the plan that have a record here, in its order."""
        names = dict.fromkeys(run.method for run in self.planned if run.variant == "code")
        return [m for m in names if self.records(m)]

    def runs(self, method: str, **changes) -> list[plan.Run]:
        """The runs of a method; `changes` as `plan.Selection` takes them: ``train_size``."""
        runs = plan.Selection.of(self.selection, **changes).runs([method])
        if plan.EDITIONS[self.selection.edition].on_the_spot and not self.selection.seeds:
            # As many as its book plans: of some methods one. A method that no page has is trained.
            planned = [run for run in runs if run in _book(self.selection.edition)]
            return planned or runs
        return runs

    def records(self, method: str, **changes) -> list[Record]:
        """The records of a method by seed, those that diverged left out."""
        key = method, *sorted(changes.items())
        if key not in self._records:
            train = self.train and plan.EDITIONS[self.selection.edition].on_the_spot
            its = [found(run, train) for run in self.runs(method, **changes)]
            self._records[key] = [r for r in its if r is not None and not r.diverged]
        return self._records[key]

    def scored(self) -> dict[str, object]:
        """What `records` takes to look for runs with Trust Score and ConfidNet."""
        its = plan.EDITIONS[self.selection.edition].scored
        return {"protocol": tuple((dict(self.selection.protocol) | its).items())}

    def at(self, setting: str) -> "Results":
        """The same in another setting of the edition, by its name."""
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

    def series(self, method: str, number: Number, **changes) -> Series:
        """A number of a method by seed; "ts" is plain training after one temperature (NLL)."""
        key = method, number, *sorted(changes.items())
        if key not in self._series:
            if method == "ts":
                method, number = "erm", number._replace(recalibration="ts_nll")
            if number.score in SCORES:
                changes |= self.scored()
            records = self.records(method, **changes)
            if number.since:
                self._series[key] = since(records, number)
            else:
                self._series[key] = by_seed(records, number, self.setting.dataset)
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

        def difference(method: str, number: Number) -> tuple[Series, str, Number]:
            number, other = self.ranked(number, number._replace(**(against or {})))
            if (method, number) == (to, other):
                return Series({}), to, number
            named = to if number == other else f"{to}, {unlike(other, number)}"
            return self.series(method, number) - self.series(to, other), named, number

        return self._rows(difference, methods, metric, which, level)

    def unfit(self, methods: Iterable[str]) -> list[str]:
        """Those methods that fit their training set less well than plain training."""
        its = self.compare(methods, metric="train_accuracy")
        return [method for method, row in its.items() if row.estimate < -LEARNS]

    def mean(
        self,
        methods: str | Iterable[str],
        metric: str | Sequence[str] = "auroc",
        *,
        level: float = 0.95,
        **which,
    ) -> Rows:
        """The level of a number for some methods, with its interval; fields as in `compare`."""

        def alone(method: str, number: Number) -> tuple[Series, str, Number]:
            (number,) = self.ranked(number)
            return self.series(method, number), number.since, number  # a change has a word

        return self._rows(alone, methods, metric, which, level)

    def _rows(self, of: Callable, methods, metric, which: dict, level: float) -> Rows:
        """A row for each method and metric of which there is a number."""
        methods = [methods] if isinstance(methods, str) else list(methods)
        several, rows = not isinstance(metric, str), Rows()
        for one in metric if several else [metric]:
            number = Number(one, **which)
            for method in methods:
                its, to, by = of(method, number)
                if its.seeds:
                    key = (method, one) if several else method
                    rows[key] = row(its, by, self.name, method, to, level, self.title)
        return rows

    def ranked(self, *numbers: Number) -> tuple[Number, ...]:
        """Numbers that are compared, by the log-odds if every run of the setting has all of them.

        Else they are as they were asked for: by the confidence in single precision, which every
        record has. What does not rank, or says by what, stays as it is.
        """
        if numbers not in self._ranked:
            asked = [by_log_odds(number) for number in numbers]
            each = [has(r, number) for number in asked if number for r in self._present]
            chosen = (by or number for by, number in zip(asked, numbers, strict=True))
            self._ranked[numbers] = tuple(chosen) if each and all(each) else numbers
        return self._ranked[numbers]

    @cached_property
    def _present(self) -> list[Record]:
        """The records of every method of the plan, whatever page asks; nothing is trained."""
        runs = self._of_place(self.selection.of_page("all"))
        records = (folders.load(run) for run in runs)
        return [r for r in records if r is not None and not r.diverged]

    def refinement(self, methods: Iterable[str]) -> "dict[str, curves.Refinement]":
        """The NLL through training and what one temperature leaves of it, by method.

        Of the runs that keep their predictions: these have the logits of some epochs.
        """
        from calibkit import curves

        found = {}
        for method in self.drawable(methods):
            whole = [r for r in self.records(method) if not r.light]
            kept = [r.snapshots for r in whole]
            labels = whole[0].arrays["test_labels"][: len(next(iter(kept[0].values())))]
            found[method] = curves.prepare_refinement(kept, labels.astype(np.int64))
        return found

    def typical(self, method: str) -> Record:
        """The run that stands for all where one is drawn, of those that keep their predictions.

        The nearest to the median of all runs in ECE, its distance as trained plus that after a
        temperature (by NLL).

        Raises
        ------
        LightRecord
            None keeps them, once they are asked for; the message has the command to train it again.
        """
        if not (records := self.records(method)):
            raise NoRecords(f"no record of {method}: {self.selection.command([method])}")
        off = dict.fromkeys((r.info["run"]["seed"] for r in records), 0.0)
        for after in ("none", "ts_nll"):
            values = self.series(method, Number("ece", after)).values
            middle = np.nanmedian(list(values.values()))
            off = {seed: far + abs(values[seed] - middle) for seed, far in off.items()}
        whole = [r for r in records if not r.light] or records
        return min(whole, key=lambda r: off[r.info["run"]["seed"]])

    def predictions(self, method: str) -> Predictions:
        """The predictions of the `typical` run of a method."""
        return Predictions.of(self.typical(method))

    def drawable(self, methods: Iterable[str]) -> list[str]:
        """Those methods of which a run keeps its predictions."""
        return [m for m in methods if any(not r.light for r in self.records(m))]

    def keeping(self, *methods: str) -> "Results":
        """The first setting of the page, from this one on, whose runs keep predictions of them all.

        Raises
        ------
        NoRecords
            None does; the message has the command that trains them again.
        """
        each = [self, *(one for one in self.settings if one.name != self.name)]
        found = (one for one in each if one.drawable(methods) == list(methods))
        if (first := next(found, None)) is None:
            words = ", ".join(map(terms.label, methods)) or "none"
            lacking = f"no run here keeps its predictions of {words}"
            raise NoRecords(f"{lacking}; train it: {self.selection.command(methods)}")
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
        return pd.DataFrame([row for its in each for row in self._tidy(*its)])

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

    def _tidy(self, method: str, record: Record) -> Iterator[dict]:
        """The rows of a record."""
        run = record.info["run"]
        base = {"run": record.name, "setting": self.name}
        base |= {k: run[k] for k in ("dataset", "network", "seed")} | {"method": method}
        if record.tables:
            ends, epochs = record.tables.ends, record.tables.epochs
            kept = ends.values(record.name) | epochs.values(record.name)
        else:
            its = rows_of(record.replicates, *record.steps)
            kept = {tuple(row[k] for k in KEY): row["value"] for row in its}
        found, n = {}, record.history["n"][-1]
        for (metric, after, score, validation, *at), value in kept.items():
            if not validation:  # a fit on few samples stands in no column
                found[score, "clean", *(at or ["end"]), metric, after] = value, n
        for name, column in record.history.items():
            if name in ("epoch", "n", "learning_rate") or name.endswith(("_scaled", "_optimal")):
                continue  # those are temperatures, or in the replicates by another name
            score, metric = _score_of(name)
            found.setdefault((score, "clean", "end", metric, "none"), (column[-1], n))
        table = record.all_shifted
        for i, kind in enumerate(table.get("shift", ())):
            where = f"{kind}-{table['severity'][i]:.0f}"
            for name in [k for k in table if k not in ("shift", "severity", "n")]:
                score, named = _score_of(name)
                metric = named.removesuffix("_scaled")
                after = "none" if metric == named else "ts_ece"
                found[score, where, "end", metric, after] = (
                    table[name][i],
                    table["n"][i],
                )
        which = ("score", "test_set", "at", "metric", "recalibration")
        for key, (value, n) in found.items():
            yield base | dict(zip(which, key, strict=True)) | {"value": float(value), "n": int(n)}

    # --- in words ---

    @cached_property
    def caption(self) -> str:
        """Data, network, length, seeds and test samples in one line, for figures and tables."""
        return self.caption_of(self.methods)

    def caption_of(self, methods, one: bool = False, n: int = 0, kept: bool = False) -> str:
        """The line under a figure of some methods: what was drawn.

        `one`: a single run of each; `n`: so many samples and not the whole test set; `kept`: only
        the runs that keep their predictions.
        """
        runs = ([r for r in self.records(m) if not (kept and r.light)] for m in methods)
        its = [records for records in runs if records]
        place = self.setting
        if not its:
            return f"{terms.DATASETS.get(place.dataset, place.dataset)} · {place.network}"
        first, many = its[0][0], page.from_to(sorted({len(records) for records in its}))
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


def _score_of(column: str) -> tuple[str, str]:
    """What a column of a history ranks by, and its name without that."""
    plain = column.removesuffix(BY_LOG_ODDS)
    return "max_probability" if plain == column else "log_odds", plain


def late(numbers: "curves.Refinement", runs: Results, method: str) -> Row:
    """What a method loses of its refinement after the best epoch: positive for information lost."""
    of = Series(dict(enumerate(numbers.since_best)), dict(enumerate(numbers.deviations)), numbers.n)
    number = Number("nll_refinement", since="best")
    return row(of, number, runs.name, method, number.since, title=runs.title)


@cache
def _book(edition: str) -> frozenset[plan.Run]:
    """The runs of an edition; each method that a page asks for looks itself up here."""
    return frozenset(plan.runs("book", edition))


def found(run: plan.Run, train: bool = False) -> Record | None:
    """The record of a run; on demand a missing one is trained."""
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
    if edition == "released":
        bring_records()
    if selection.setting:
        plan.setting(edition, selection.setting)  # there is such a one
        return Results(selection, page)
    check_parameters()
    each = [Results(replace(selection, setting=name), page) for name in _settings(page, selection)]
    if plan.EDITIONS[edition].on_the_spot:  # what is missing will be trained
        return each[0]
    first = next((one for one in each if one._any_record()), None)
    if first is None:
        methods = dict.fromkeys(run.method for run in each[0].planned) or ["erm"]
        command = each[0].selection.command(methods)
        raise NoRecords(f"no run of this setting has a record; train it: {command}")
    return first


def _settings(page: str, selection: plan.Selection) -> list[str]:
    """Names of a page's settings with the data and network asked for; "shared" can have any."""
    papers = plan.papers_of(page) if page in plan.NOTEBOOKS else [""]
    names = {
        s.name: None
        for paper in papers
        for s in plan.settings(selection.edition, paper)
        if selection.dataset in (None, s.dataset) and selection.network in (None, s.network)
    }
    return [name for name in names if name != "shared"] + ["shared"]
