"""A difference between two numbers, or the level of one: a row of a table."""

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from calibkit import stats, terms
from calibkit_companion.pages import page
from calibkit_companion.results.measure import Series
from calibkit_companion.results.number import Number, margin

if TYPE_CHECKING:
    import pandas as pd


# What `Row.plain` has of a row.
PLAIN = (
    *("setting", "method", "to", "metric", "estimate", "low", "high", "seeds", "n"),
    *("outcome", "margin", "covers"),
)


_SIGNED = (  # metrics whose level may be negative
    *("excess_ece", "excess_adaptive_ece", "excess_classwise_ece", "debiased_ece"),
    *("confidence_gap", "overconfidence_error", "overconfidence_below_half"),
)


@dataclass(frozen=True)
class Operand:
    """One side of a comparison: whose number it is, and which. `pages.wording` puts it into words.

    Attributes
    ----------
    method : key of a method, such as "focal(gamma=5)"; empty where `words` stand for it
    number : which number of the method
    setting : key of the setting in which it was measured
    title : of the setting, in words
    minus : the operand to be subtracted from this one, if this side is itself a difference, such as
        FMFP minus plain training; None for a level
    words : written by hand, for what is no method and number of ours, such as "chance"
    """

    method: str = ""
    number: Number | None = None
    setting: str = ""
    title: str = ""
    minus: "Operand | None" = None
    words: str = ""

    def __str__(self) -> str:
        """The method or the words, for a table that people read in a terminal."""
        return self.method or self.words

    def but(self, **fields) -> "Operand":
        """The same with other fields of its `Number`: ``but(recalibration="none")``."""
        return replace(self, number=self.number._replace(**fields))


class Row(NamedTuple):
    """The difference of two operands, or the level of one (`against` is None then).

    In natural units. `covers` says what the interval is about: "runs and test set", "runs", or
    nothing for a single run. Two rows can be subtracted: the difference of levels or of
    differences, paired by seed and, on one test set, by its samples.
    """

    of: Operand
    against: Operand | None
    estimate: float
    low: float
    high: float
    seeds: int
    n: int
    outcome: str
    margin: float
    covers: str
    series: Series

    @property
    def method(self) -> str:
        """The method, or the words, of the first side."""
        return str(self.of)

    @property
    def to(self) -> str:
        """The method, or the words, of the second side; empty for a level."""
        return str(self.against or "")

    @property
    def number(self) -> Number:
        return self.of.number

    @property
    def metric(self) -> str:
        return self.of.number.metric

    @property
    def setting(self) -> str:
        return self.of.setting

    @property
    def title(self) -> str:
        """Of the setting, in words."""
        return self.of.title

    @property
    def compares(self) -> bool:
        """Whether it is a difference, of two operands or through training, and so has a sign."""
        return self.against is not None or bool(self.number.since)

    @property
    def interval(self) -> stats.Interval:
        return stats.Interval(self.estimate, self.low, self.high)

    @property
    def plain(self) -> dict[str, object]:
        """The row without its series, as names and numbers: what a table or a JSON file takes."""
        return {name: getattr(self, name) for name in PLAIN}

    def titled(self, title: str) -> "Row":
        """The same row under another title of its setting."""
        return self._replace(of=replace(self.of, title=title))

    def __sub__(self, other: "Row") -> "Row":
        of, against = self.of, other.of
        if self.against != other.against:  # what both are compared with cancels
            of, against = (replace(row.of, minus=row.against) for row in (self, other))
        return row(self.series - other.series, of, against)

    def __repr__(self) -> str:
        what = f"{self.method} − {self.to}" if self.against else self.method
        if self.against and self.against.number:
            fields = self.number.differing(self.against.number)
            unlike = " ".join(f"{name}={getattr(self.against.number, name)}" for name in fields)
            what += f" ({unlike})" if unlike else ""
        return f"Row({what}: {self.metric} {self.format()} {self.outcome})"

    def format(self) -> str:
        """The estimate with its interval in the units of tables.

        >>> of, against = (Operand(name, Number("auroc")) for name in ("sam", "erm"))
        >>> row(Series({0: 0.01, 1: 0.02, 2: 0.015}), of, against).format()
        '+1.5 [+0.3, +2.7]'
        """
        scale = terms.metric_label(self.metric)[1]
        return self.interval.format(scale, digits=1 if scale > 1 else 3, sign=self.compares)


def row(series: Series, of: Operand, against: Operand | None = None, level: float = 0.95) -> Row:
    """A `Row` with its interval and outcome.

    Parameters
    ----------
    series : the difference of the two operands by seed, or the level of the first
    of, against : the operands; the second is None for a level
    level : coverage of the interval
    """
    metric = of.number.metric
    interval, within = series.mean().interval(level), margin(metric)
    found = Row(of, against, *interval, series.seeds, series.n, "", within, series.covers, series)
    if found.compares:
        return found._replace(outcome=interval.outcome(within))
    return found._replace(**_within(interval, metric)._asdict())


def _within(level: stats.Interval, metric: str) -> stats.Interval:
    """The level of a metric, with its interval cut at the ends of the metric's range."""
    scale = terms.METRICS.get(metric, ("", 1))[1]
    most = 2.0 if metric == "brier" else inf if scale == 1 else 1.0
    return level.within(-1.0 if metric in _SIGNED else 0.0, most)


class Rows(dict):
    """Rows by method; by (method, metric) where several metrics were asked for."""

    def __missing__(self, key) -> Row:
        method, metric = key if isinstance(key, tuple) else (key, "")
        return row(Series({}), Operand(method, Number(metric)))._replace(outcome="no data")

    @property
    def frame(self) -> "pd.DataFrame":
        """One line a row, in natural units: what seaborn and pandas take.

        The column `method` has the names under which the rows were asked for.
        """
        import pandas as pd

        lines = [row.plain | {"method": _method_of(key)} for key, row in self.items()]
        return pd.DataFrame(lines, columns=PLAIN)

    @property
    def table(self) -> "pd.DataFrame":
        """Methods down, metrics across, each cell an estimate with its interval, for reading."""
        import pandas as pd

        wide: dict[str, dict[str, str]] = {}
        for key, row in self.items():
            cells = wide.setdefault(terms.label(_method_of(key)), {})
            cells[terms.header(row.metric)] = row.format()
        return pd.DataFrame.from_dict(wide, orient="index").fillna("–")

    def _repr_html_(self) -> str:
        return page.table(self.table).to_html()


def _method_of(key: str | tuple[str, str]) -> str:
    """The method in a key of `Rows`."""
    return key[0] if isinstance(key, tuple) else key
