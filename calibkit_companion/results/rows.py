"""`Row`: the difference between two numbers, or the level of one number, with its interval."""

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from calibkit import stats, terms
from calibkit_companion.pages import page
from calibkit_companion.results.measure import Series
from calibkit_companion.results.number import Number, margin

if TYPE_CHECKING:
    import pandas as pd


# Attributes of a row that `Row.plain` returns.
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
    """One side of a comparison: a number of a method in a setting.

    `pages.wording` puts an operand into words.

    Attributes
    ----------
    method : key of a method, such as "focal(gamma=5)"; empty if `words` take its place
    number : which number of the method
    setting : key of the setting in which the number was measured
    title : the setting in words
    minus : the operand that is subtracted from this operand, if this side of the comparison is
        itself a difference, such as FMFP minus plain training; None for a level
    words : text in place of a method and a number, such as "chance"
    """

    method: str = ""
    number: Number | None = None
    setting: str = ""
    title: str = ""
    minus: "Operand | None" = None
    words: str = ""

    def __str__(self) -> str:
        """The key of the method, or the words."""
        return self.method or self.words

    def but(self, **fields) -> "Operand":
        """Change fields of the `Number` of an operand, as in ``but(recalibration="none")``."""
        return replace(self, number=self.number._replace(**fields))


class Row(NamedTuple):
    """The difference `of` - `against` of two operands, or the level of one operand.

    Numbers are in natural units. For a level, `against` is None. `covers` names the uncertainty in
    the interval: "runs and test set" or "runs"; it is empty for a single run. One row can be
    subtracted from another: the rows are paired by seed and, on the same test set, by sample.
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
        """The setting in words."""
        return self.of.title

    @property
    def compares(self) -> bool:
        """Whether the row is a difference of two operands or a change in training."""
        return self.against is not None or bool(self.number.since)

    @property
    def interval(self) -> stats.Interval:
        return stats.Interval(self.estimate, self.low, self.high)

    @property
    def plain(self) -> dict[str, object]:
        """The row as names and numbers, for a table or a JSON file."""
        return {name: getattr(self, name) for name in PLAIN}

    def titled(self, title: str) -> "Row":
        """Replace the title of the setting in a row."""
        return self._replace(of=replace(self.of, title=title))

    def __sub__(self, other: "Row") -> "Row":
        of, against = self.of, other.of
        if self.against != other.against:  # the same second operand cancels
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
        """Write the estimate with its interval in the units of tables, such as per cent.

        >>> of, against = (Operand(name, Number("auroc")) for name in ("sam", "erm"))
        >>> row(Series({0: 0.01, 1: 0.02, 2: 0.015}), of, against).format()
        '+1.5 [+0.3, +2.7]'
        """
        scale = terms.metric_label(self.metric)[1]
        return self.interval.format(scale, digits=1 if scale > 1 else 3, sign=self.compares)


def row(series: Series, of: Operand, against: Operand | None = None, level: float = 0.95) -> Row:
    """Make a `Row` from a series: compute its mean over seeds, its interval and its outcome.

    Parameters
    ----------
    series : difference of the two operands by seed, or level of the first operand
    of, against : the operands; `against` is None for a level
    level : coverage of the interval, from 0 to 1
    """
    metric = of.number.metric
    interval, within = series.mean().interval(level), margin(metric)
    found = Row(of, against, *interval, series.seeds, series.n, "", within, series.covers, series)
    if found.compares:
        return found._replace(outcome=interval.outcome(within))
    return found._replace(**_within(interval, metric)._asdict())


def _within(level: stats.Interval, metric: str) -> stats.Interval:
    """Cut the interval of a level at the ends of the metric's range."""
    scale = terms.METRICS.get(metric, ("", 1))[1]
    most = 2.0 if metric == "brier" else inf if scale == 1 else 1.0
    return level.within(-1.0 if metric in _SIGNED else 0.0, most)


class Rows(dict):
    """Rows by method; for several metrics, by (method, metric)."""

    def __missing__(self, key) -> Row:
        method, metric = key if isinstance(key, tuple) else (key, "")
        return row(Series({}), Operand(method, Number(metric)))._replace(outcome="no data")

    @property
    def frame(self) -> "pd.DataFrame":
        """A table with a line for each row, in natural units.

        The column ``method`` has the keys of the rows.
        """
        import pandas as pd

        lines = [row.plain | {"method": _method_of(key)} for key, row in self.items()]
        return pd.DataFrame(lines, columns=PLAIN)

    @property
    def table(self) -> "pd.DataFrame":
        """A table for readers, with a line for each method and a column for each metric."""
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
