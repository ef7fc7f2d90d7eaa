"""Write numbers as text: shares in per cent, differences in points, thresholds with all digits."""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import pandas as pd

from calibkit import terms
from calibkit.stats import Interval

POINTS = "\u00a0points"


def percent(value: float | Interval) -> str:
    """A share in per cent, with its interval if it has one.

    >>> percent(Interval(0.7134, 0.69, 0.73)).replace("\\u00a0", " ")
    '71.3 % [69.0, 73.0]'
    """
    return number(value, 100, terms.UNITS[100])


def change(value: float | Interval) -> str:
    """A difference of shares in points."""
    return number(value, 100, POINTS, sign=True)


def share(target: float) -> str:
    """A share in per cent, in as many digits as it has.

    >>> share(0.025).replace("\\u00a0", " ")
    '2.5 %'
    """
    return f"{100 * target:g}\u00a0%"


def negative(x: Interval, of: float = 0) -> Interval:
    """`of` minus a number with its interval; by default its negative."""
    return Interval(of - x.estimate, of - x.high, of - x.low)


def decimals(confidence: float | None) -> str:
    """A threshold in all its digits, with at least two of its distance from 1.

    >>> decimals(0.93), decimals(0.99987), decimals(0.8125)
    ('0.930', '0.99987', '0.8125')
    """
    if confidence is None or not 0 < confidence < 1:
        return "–" if confidence is None else f"{confidence:g}"
    own = -Decimal(repr(confidence)).as_tuple().exponent
    return f"{confidence:.{max(1 - math.floor(math.log10(1 - confidence)), own, 2)}f}"


def number(value: float | Interval, scale: float = 1, unit: str = "", sign: bool = False) -> str:
    """Write a number as `Interval.format` does, whether or not it has an interval.

    >>> number(Interval(-0.012, -0.031, 0.007), sign=True), number(0.5)
    ('−0.012 [−0.031, +0.007]', '0.500')
    """
    interval = value if isinstance(value, Interval) else Interval(value, math.nan, math.nan)
    return interval.format(scale, unit=unit, sign=sign)


def framed(rows: Sequence[Mapping[str, str]]) -> pd.DataFrame:
    """Rows as a data frame whose index is the first column."""
    frame = pd.DataFrame(rows)
    first = frame.columns[0]
    return frame.set_index(first).rename_axis(index=None, columns=first)


FILTERS: dict[str, Callable[..., str]] = {
    "percent": percent,
    "share": share,
    "points": lambda x: number(x, 100, POINTS),
    "change": change,
    "signed": lambda x: number(x, sign=True),
    "decimals": decimals,
    "whole": "{:,}".format,
}  # how templates write numbers
