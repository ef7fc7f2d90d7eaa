"""A difference between two methods, or the level of one: a row of a table."""

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from calibkit import stats, terms
from calibkit_companion.pages import page
from calibkit_companion.results.measure import Series
from calibkit_companion.results.number import Number, margin

if TYPE_CHECKING:
    import pandas as pd


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
        one, to = (r.method + f" in {r.title or r.setting}" * apart for r in (self, other))
        if (self.method, self.setting) == (other.method, other.setting):
            to = f"{to}, {unlike(other.number, self.number)}"
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


def unlike(number: Number, other: Number) -> str:
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
