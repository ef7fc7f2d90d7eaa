"""Every measured number in one table, and the one function that compares methods.

A **number** is what a run measured: a metric, behind a recalibration, by a confidence score, on a
test set, at an epoch (`Number`). Runs, and all that identifies them, are columns::

    runs = results.load("fmfp")                       # a setting of the released edition
    runs.frame                                        # tidy: a row for each run and number
    runs.compare(["mixup", "sam"], to="erm", metric="auroc")

`Results.compare` pairs two methods seed by seed and resample by resample and gives a `Row` for
each: estimate, interval, seeds and one of four words. Chapters, the board of claims, the bench and
the command line call it and nothing else.

**The interval** covers two sources of uncertainty, the runs and the test set
(`calibkit.stats.mean_over_seeds`), where a record keeps replicates of the number; a row says in
`covers` when it is over seeds alone. A single run has no interval.

**The words** (`stats.Interval.outcome`): *higher* or *lower* if the interval excludes 0 and reaches
beyond the margin, *no difference* if all of it lies within the margin, else *unclear*. The margin
of a metric is the ± that the papers print for it, the median over their tables (`MARGINS`).

A calibration error is compared as its column says: ``ece`` is the error that the papers print,
``excess_ece`` what is left of it after the part that chance alone shows.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import inf, isnan, nan
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibkit import stats, terms
from calibkit_companion.data.cache import cache_root
from calibkit_companion.experiments import plan
from calibkit_companion.pages import page
from calibkit_companion.pages.page import NoRecords
from calibkit_companion.records import folders as store
from calibkit_companion.records import tables
from calibkit_companion.results import derived
from calibkit_companion.results.derived import Number, Predictions

if TYPE_CHECKING:
    import pandas as pd

    from calibkit import curves

# The ± that the papers print, in natural units: the median over all cells that have one, also for
# metrics of the same kind.
MARGINS = {
    "accuracy": 0.0035,
    "auroc": 0.0031,
    "aupr_error": 0.0112,
    "aupr_success": 0.0008,
    "fpr_at_tpr": 0.0125,
    "aurc": 0.00102,
    "eaurc": 0.0007,
    "ece": 0.0019,
    "brier": 0.0022,
    "nll": 0.006,
}
LEARNS = 0.02  # how much less of its training set a method may know than plain training
_ALIKE = {
    "ece": "excess_ece adaptive_ece excess_adaptive_ece classwise_ece excess_classwise_ece "
    "debiased_ece ece_correct",
    "nll": "nll_refinement nll_calibration",
    "aurc": "augrc",
    "accuracy": "train_accuracy",
}
_LIKE = {name: kind for kind, names in _ALIKE.items() for name in names.split()}
SCORES = {"trust_score": "test_trust_score", "confidnet": "test_confidnet"}  # in a record's arrays
_AFTER = {"ts_ece": "_scaled", "ts_test": "_optimal"}  # in a history or under shift


# Sums of other numbers: a constant, and (metric, recalibration, factor); None: its own.
_SUMS = {
    "confidence_correct": (1.0, (("ece_correct", None, -1.0),)),
    "confidence_wrong": (1.0, (("ece_correct", None, -1.0), ("confidence_gap", None, -1.0))),
    # What one temperature cannot repair of the NLL, and what it removes (Berta et al., 2025).
    "nll_refinement": (0.0, (("nll", "ts_nll", 1.0),)),
    "nll_calibration": (0.0, (("nll", "none", 1.0), ("nll", "ts_nll", -1.0))),
}


# --- a number of one run --------------------------------------------------------------------------


def measured(record: store.Record, number: Number) -> tuple[float, np.ndarray | None]:
    """A number of a run, and how far it lies from it on resamples of the test set.

    It is nan where the record does not have it, and None where nothing tells its deviations.
    """
    if number.metric == "accuracy" and number.recalibration.startswith("ts_"):
        number = number._replace(recalibration="none")  # no temperature changes what is predicted
    if number.metric in _SUMS and number.score == "max_probability":
        constant, parts = _SUMS[number.metric]
        value, drawn = 0.0, 0.0
        for metric, after, factor in parts:
            part = number._replace(metric=metric, recalibration=after or number.recalibration)
            of_part, its = measured(record, part)
            value += factor * of_part
            drawn = None if drawn is None or its is None else drawn + factor * its
        return constant + value, drawn
    if number.test_set != "clean":
        return _under_shift(record, number), None
    # A period takes the deviations of the end, a fit on few samples those of the fit on all.
    drawn = record.deviation(*_key(number._replace(validation=0)))
    at_once = number.at == "end" or isinstance(number.at, int)
    if at_once and (kept := record.measured(*_key(number))) is not None:
        return kept, drawn
    if number.at != "end" or _column(number) in record.history:
        return _through_training(record, number), drawn
    if number.score == "max_probability":
        return derived.value(record, number), drawn
    return derived.by_score(record, number)


def _key(number: Number) -> tuple:
    """What a record finds a number by, at the end or at an epoch."""
    epoch = (number.at,) if isinstance(number.at, int) else ()
    return (*(getattr(number, field) for field in tables.KEY), *epoch)


def _under_shift(record: store.Record, number: Number) -> float:
    kind, _, severity = number.test_set.rpartition("-")
    collected = number.test_set == "collected" or kind in record.collected.get("shift", ())
    table = record.collected if collected else record.shifted
    if _column(number) not in table:
        return nan
    values = table[_column(number)]
    if number.test_set not in ("shifted", "collected"):
        values = values[(table["shift"] == kind) & (table["severity"] == float(severity))]
    return derived.mean(values)


def _through_training(record: store.Record, number: Number) -> float:
    """A number at an epoch, at the end or over a period, from the history."""
    history = record.history
    if _column(number) not in history:
        return nan
    epoch, rate = history["epoch"], history["learning_rate"]
    drops = np.searchsorted(-np.unique(rate)[::-1], -rate)
    chosen = {
        "end": epoch == epoch[-1],
        "late": epoch > 0.75 * epoch[-1],
        "settled": epoch > 0.1 * epoch[-1],
        "second_rate": drops == 1,
        "third_rate": drops >= 2,
    }.get(number.at, epoch == number.at)
    return derived.mean(history[_column(number)][chosen])


def _column(number: Number) -> str:
    """What a history, or a table of shifted sets, calls a number; empty if these have none such."""
    if number.score != "max_probability" or number.validation:
        return ""
    return number.metric + {"none": "", **_AFTER}.get(number.recalibration, "-")


# --- by seed, and the mean over seeds -------------------------------------------------------------


@dataclass(frozen=True)
class Series:
    """A number of one method by seed, and its deviations on resamples of the test set.

    Without `draws` the test set adds no uncertainty; `n` is its size, `test_set` names it.
    """

    values: Mapping[int, float]
    draws: Mapping[int, np.ndarray] = field(default_factory=dict)
    n: int = 0
    test_set: str = ""

    def __sub__(self, other: "Series | float") -> "Series":
        """The difference seed by seed, of the seeds that both have, or from a number."""
        if not isinstance(other, Series):
            return replace(self, values={s: v - other for s, v in self.values.items()})
        seeds = [s for s in self.values if s in other.values]
        values, draws = {s: self.values[s] - other.values[s] for s in seeds}, {}
        if self.draws and other.draws:
            # What one test set draws says nothing about another.
            shift = int(self.test_set != other.test_set)
            draws = {s: self.draws[s] - np.roll(other.draws[s], shift) for s in seeds}
        return replace(self, values=values, draws=draws, n=min(self.n, other.n))

    @property
    def seeds(self) -> int:
        """Those with a number."""
        return sum(not isnan(v) for v in self.values.values())

    @property
    def covers(self) -> str:
        """What the interval of the mean is about; nothing for a single run."""
        if self.seeds < 2:
            return ""
        return "runs and test set" if self.draws else "runs"

    def mean(self) -> stats.MeanOverSeeds:
        draws = np.array([*self.draws.values()]) if self.draws else None
        return stats.mean_over_seeds([*self.values.values()] or [nan], draws)


class Networks(Series):
    """A number of networks that others trained, by network in place of seed: a sample of nothing.

    So the interval is not that of a mean: it goes from the lowest to the highest of them, each with
    its own interval over the test set where it has draws. What it tells holds on every network.
    """

    covers = "networks"

    def mean(self) -> "Networks":
        return self

    def interval(self, level: float = 0.95) -> stats.Interval:
        z = NormalDist().inv_cdf((1 + level) / 2)
        ends = [
            value + side * z * np.std(self.draws.get(name, 0.0))
            for name, value in self.values.items()
            for side in (-1, 1)
        ]
        return stats.Interval(np.mean(ends), min(ends), max(ends))


def _by_seed(records: Iterable[store.Record], number: Number, dataset: str) -> Series:
    """A number of some runs by seed, with its deviations if all have them."""
    by_seed = {r.info["run"]["seed"]: r for r in records}
    n = next((int(r.history["n"][-1]) for r in by_seed.values()), 0)
    if number.since_best:
        return Series(_since_best(by_seed, number), n=n)
    found = {seed: measured(record, number) for seed, record in by_seed.items()}
    values, draws = ({seed: its[i] for seed, its in found.items()} for i in (0, 1))
    known = all(its is not None for its in draws.values())
    return Series(values, draws if known else {}, n, f"{dataset}/{number.test_set}")


def _since_best(by_seed: Mapping[int, store.Record], number: Number) -> dict[int, float]:
    """Change of a metric from the epoch that is best by another to the end, by seed.

    The best of many noisy epochs always beats the last one, so a seed's best epoch is the one that
    the *other* seeds find best on average; a single seed has none.
    """
    changed, best = _column(number), number.since_best
    best = changed if best == number.metric else best
    sign = 1 if best in ("auroc", "accuracy") else -1
    changes = dict.fromkeys(by_seed, nan)
    for seed, record in by_seed.items():
        others = [sign * r.history[best] for s, r in by_seed.items() if s != seed]
        if others and changed in record.history:
            epoch = np.nan_to_num(np.mean(others, axis=0), nan=-np.inf).argmax()
            changes[seed] = float(record.history[changed][-1] - record.history[changed][epoch])
    return changes


# --- the ruler ------------------------------------------------------------------------------------


def margin(metric: str) -> float:
    """The largest difference of a metric that would not matter; 0 where the papers print no ±.

    >>> margin("auroc"), margin("excess_ece") == margin("ece"), margin("risk_at_coverage_0.8")
    (0.0031, True, 0.00102)
    """
    kind = _LIKE.get(metric, "aurc" if metric.startswith("risk_at_coverage_") else metric)
    return MARGINS.get(kind, 0.0)


class Row(NamedTuple):
    """A difference between two methods in one setting, or the level of one (`to` is empty then).

    In natural units. `covers` says what the interval is about: "runs and test set", "runs", or
    nothing for a single run. Two rows can be subtracted: the difference of differences, paired by
    seed and, on one test set, by its samples.
    """

    setting: str
    method: str
    to: str
    metric: str
    estimate: float
    low: float
    high: float
    seeds: int
    n: int
    outcome: str
    margin: float
    covers: str
    number: Number
    series: Series
    title: str = ""  # of the setting

    @property
    def interval(self) -> stats.Interval:
        return stats.Interval(self.estimate, self.low, self.high)

    def __sub__(self, other: "Row") -> "Row":
        apart = other.setting != self.setting
        one, to = (r.method + f" in {r.setting}" * apart for r in (self, other))
        if (self.method, self.setting) == (other.method, other.setting):
            to = f"{to}, {_unlike(other.number, self.number)}"
        both = self.series - other.series
        return row(both, self.number, self.setting, one, to, title=self.title)

    def __repr__(self) -> str:
        what = f"{self.method} − {self.to}" if self.to else self.method
        return f"Row({what}: {self.metric} {self.format()} {self.outcome})"

    def format(self) -> str:
        """The estimate with its interval in the units of tables.

        >>> found = row(Series({0: 0.01, 1: 0.02, 2: 0.015}), Number("auroc"), to="erm")
        >>> found.format()
        '+1.5 [+0.3, +2.7]'
        """
        scale = terms.metric_label(self.metric)[1]
        return self.interval.format(scale, digits=1 if scale > 1 else 3, sign=bool(self.to))


def _unlike(number: Number, other: Number) -> str:
    """The fields in which a number differs from another."""
    return " ".join(str(a) for a, b in zip(number, other, strict=True) if a != b)


def row(
    of: Series,
    number: Number,
    setting: str = "",
    method: str = "",
    to: str = "",
    level: float = 0.95,
    title: str = "",
) -> Row:
    """A `Row` from the difference of two series, or from one."""
    interval, within = of.mean().interval(level), margin(number.metric)
    word = interval.outcome(within) if to else ""
    interval = interval if to else _within(interval, number.metric)
    return Row(
        setting, method, to, number.metric,
        *interval, of.seeds, of.n, word, within, of.covers, number, of, title,
    )  # fmt: skip


def _within(level: stats.Interval, metric: str) -> stats.Interval:
    """The level of a share with its interval cut where it cannot be."""
    scale = terms.METRICS.get(metric, ("", 1))[1]
    most = 2.0 if metric == "brier" else inf if scale == 1 else 1.0
    signed = metric.startswith(("excess_", "confidence_gap", "debiased", "overconfidence"))
    return level.within(-1.0 if signed else 0.0, most)


def late(numbers: "curves.Refinement", runs: "Results", method: str) -> Row:
    """What a method loses of its refinement after the best epoch: positive for information lost."""
    of = Series(dict(enumerate(numbers.since_best)), dict(enumerate(numbers.deviations)), numbers.n)
    number = Number("nll_refinement", since_best="nll_refinement")
    return row(of, number, runs.name, method, "its best epoch", title=runs.title)


class Rows(dict):
    """Rows by method; by (method, metric) where several metrics were asked for."""

    def __missing__(self, key) -> Row:
        method, metric = key if isinstance(key, tuple) else (key, "")
        return row(Series({}), Number(metric), method=method)._replace(outcome="no data")

    @property
    def frame(self) -> "pd.DataFrame":
        """One line a row, in natural units: what seaborn and pandas take."""
        import pandas as pd

        whole = pd.DataFrame(self.values(), columns=Row._fields)
        return whole.drop(columns=["number", "series", "title"])

    @property
    def table(self) -> "pd.DataFrame":
        """Methods down, metrics across, each cell an estimate with its interval, for reading."""
        import pandas as pd

        wide: dict[str, dict[str, str]] = {}
        for r in self.values():
            wide.setdefault(terms.label(r.method), {})[terms.header(r.metric)] = r.format()
        return pd.DataFrame.from_dict(wide, orient="index").fillna("–")

    def _repr_html_(self) -> str:
        return page.table(self.table).to_html()


# --- the runs of a setting ------------------------------------------------------------------------


@dataclass(eq=False)
class Results:
    """The runs of one setting of an edition: data, network, protocol and seeds.

    Runs are looked for when they are asked for, by method; where an edition is meant for that
    (smoke, demo), a missing one is trained.
    """

    selection: plan.Selection
    page: str = ""
    train: bool = True  # what is missing, where an edition is meant for that
    _records: dict[tuple, list[store.Record]] = field(default_factory=dict)
    _series: dict[tuple, Series] = field(default_factory=dict)

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
        """The title without what it has in brackets and whose regime it is, for a panel."""
        return self.title.partition(" (")[0].partition(", the regime")[0]

    @cached_property
    def planned(self) -> list[plan.Run]:
        """The runs that the plan gives this setting, for the page or for any."""
        place = self.setting
        runs = self.selection.of_page(self.page if self.page in plan.NOTEBOOKS else "all")
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

    def records(self, method: str, **changes) -> list[store.Record]:
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
        return any(store.load(run) is not None for run in self.planned)

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
            self._series[key] = _by_seed(records, number, self.setting.dataset)
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

        def difference(method: str, number: Number) -> tuple[Series, str]:
            other = number._replace(**(against or {}))
            if (method, number) == (to, other):
                return Series({}), to
            named = to if number == other else f"{to}, {_unlike(other, number)}"
            return self.series(method, number) - self.series(to, other), named

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

        def alone(method: str, number: Number) -> tuple[Series, str]:  # a change has a word
            return self.series(method, number), "its best epoch" * bool(number.since_best)

        return self._rows(alone, methods, metric, which, level)

    def _rows(self, of: Callable, methods, metric, which: dict, level: float) -> Rows:
        """A row for each method and metric of which there is a number."""
        methods = [methods] if isinstance(methods, str) else list(methods)
        several, rows = not isinstance(metric, str), Rows()
        for one in metric if several else [metric]:
            number = Number(one, **which)
            for method in methods:
                its, to = of(method, number)
                if its.seeds:
                    key = (method, one) if several else method
                    rows[key] = row(its, number, self.name, method, to, level, self.title)
        return rows

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

    def typical(self, method: str) -> store.Record:
        """The run that stands for all where one is drawn, of those that keep their predictions.

        The nearest to the median of all runs in ECE, its distance as trained plus that after a
        temperature (by NLL).

        Raises
        ------
        store.LightRecord
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

    def _tidy(self, method: str, record: store.Record) -> Iterator[dict]:
        """The rows of a record."""
        run = record.info["run"]
        base = {"run": record.name, "setting": self.name}
        base |= {k: run[k] for k in ("dataset", "network", "seed")} | {"method": method}
        if record.tables:
            ends, epochs = record.tables.ends, record.tables.epochs
            kept = ends.values(record.name) | epochs.values(record.name)
        else:
            its = tables.rows_of(record.replicates, *record.steps)
            kept = {tuple(row[k] for k in tables.KEY): row["value"] for row in its}
        found, n = {}, record.history["n"][-1]
        for (metric, after, score, validation, *at), value in kept.items():
            if not validation:  # a fit on few samples stands in no column
                found[score, "clean", *(at or ["end"]), metric, after] = value, n
        for name, column in record.history.items():
            if name in ("epoch", "n", "learning_rate") or name.endswith(("_scaled", "_optimal")):
                continue  # those are temperatures, or in the replicates by another name
            found.setdefault(("max_probability", "clean", "end", name, "none"), (column[-1], n))
        table = record.all_shifted
        for i, kind in enumerate(table.get("shift", ())):
            where = f"{kind}-{table['severity'][i]:.0f}"
            for name in [k for k in table if k not in ("shift", "severity", "n")]:
                metric = name.removesuffix("_scaled")
                after = "none" if metric == name else "ts_ece"
                found["max_probability", where, "end", metric, after] = (
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


@cache
def _book(edition: str) -> frozenset[plan.Run]:
    """The runs of an edition; each method that a page asks for looks itself up here."""
    return frozenset(plan.runs("book", edition))


def found(run: plan.Run, train: bool = False) -> store.Record | None:
    """The record of a run; on demand a missing one is trained."""
    record = store.load(run)
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
        _bring()
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


def _bring() -> None:
    """Clone the released records where a notebook runs without a checkout, as on Colab."""
    root = cache_root()
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or (root / "runs").is_dir() or (root / "released").is_dir():
        return
    folder = Path("calibkit-book").resolve()
    if not folder.is_dir():
        source = os.environ.get("CALIBKIT_SOURCE", "https://github.com/calibkit/calibkit")
        print(f"bringing the released records from {source}", flush=True)
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, folder], check=True)
    os.environ["CALIBKIT_CACHE"] = str(folder / "data_cache")


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


def check_parameters(cells: Sequence[str] | None = None) -> None:
    """Refuse parameters which papermill injected and the notebook does not have.

    papermill only warns of a misspelt name and runs the defaults. `cells` are the sources run so
    far; by default those of the running notebook.
    """
    if cells is None:
        try:
            cells = get_ipython().user_ns["In"]  # noqa: F821 (a name of every notebook)
        except (NameError, KeyError):
            return
    injected = [i for i, cell in enumerate(cells) if cell.startswith("# Parameters\n")]
    if not injected:
        return
    valid = set().union(*(_assigned(cell) for cell in cells[: injected[0]]))
    for name in sorted(_assigned(cells[injected[0]]) - valid):
        terms.choose("parameter", name, valid)


def _assigned(source: str) -> set[str]:
    return set(re.findall(r"^(\w+) *=(?!=)", source, re.MULTILINE))


# --- tables to release ----------------------------------------------------------------------------


def home(edition: str = "released") -> dict[str, str]:
    """The setting in whose tables a run lies, by its name: the first that the plan gives it.

    What belongs to no setting lies with its data set, as ``20newsgroups-other``.
    """
    homes: dict[str, str] = {}
    for name in dict.fromkeys(s.name for s in plan.settings(edition)):
        for run in plan.runs("all", edition, setting=name):
            place = plan.setting(edition, name)
            own = name != "shared" or run.protocol == place.protocol_of(run.method)
            same = (run.dataset, run.network) == (place.dataset, place.network)
            homes.setdefault(run.name, name if own and same else f"{run.dataset}-other")
    return homes


def collect(edition: str = "released", say: Callable = print) -> None:
    """Turn run folders into released tables, beside what these hold already.

    The tables of a setting are written anew if a folder or a number is not in them, and not touched
    otherwise.
    """
    from filelock import FileLock

    store.runs_root().mkdir(parents=True, exist_ok=True)
    with FileLock(store.runs_root() / ".collect.lock"):
        tables.restore()
        homes = home(edition)
        by_setting: dict[str, list[store.Record]] = {}
        for run in plan.runs("all", edition):
            if record := store.load(run):
                kept = tables.find(run.name)
                if kept and kept[0] == record.info:  # its folder is still there
                    record = store.Record(run.name, kept[1].folder, *kept)
                by_setting.setdefault(homes[run.name], []).append(record)
        before = tables.settings()
        for name, records in by_setting.items():
            known = before[name].infos if name in before else {}
            new = [r for r in records if r.tables is None or derived.rows(r)]
            if new or known.keys() != {record.name for record in records}:
                tables.write(tables.released_root() / name, records, derived.rows)
                say(f"{name}: {len(records)} runs, {len(new)} of them new or with new numbers")
