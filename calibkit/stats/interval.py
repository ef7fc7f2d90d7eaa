"""An estimate with its interval, in numbers and in words; the interval of a proportion."""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from calibkit.arrays import Array, ArrayLike, to_numpy


class Interval(NamedTuple):
    """An estimate and the ends of its interval, in the units of the metric."""

    estimate: float
    low: float
    high: float

    def outcome(self, margin: float = 0.0) -> str:
        """Say in one of four words what a difference with this interval means.

        Parameters
        ----------
        margin : float
            The largest difference that would not matter, from 0, in the units of the metric.

        Returns
        -------
        str
            "no difference" if the whole interval lies within the margin. Otherwise "higher" or
            "lower" if the interval lies on one side of 0. Otherwise, and without an interval,
            "unclear".

        Examples
        --------
        >>> from calibkit.stats import seed_interval
        >>> [Interval(0.2, 0.1, 0.3).outcome(margin) for margin in (0, 0.5)]
        ['higher', 'no difference']
        >>> Interval(0.2, -0.1, 0.5).outcome(), seed_interval([0.2]).outcome()  # a single run
        ('unclear', 'unclear')
        """
        if math.isnan(self.low) or math.isnan(self.high):
            return "unclear"
        if -margin <= self.low and self.high <= margin:
            return "no difference"
        return "higher" if self.low > 0 else "lower" if self.high < 0 else "unclear"

    def within(self, low: float, high: float) -> "Interval":
        """The same interval, clipped to the metric's range, with the estimate between its ends.

        Parameters
        ----------
        low : float
            Smallest value that the metric can have.
        high : float
            Largest value.

        Returns
        -------
        Interval
            The same estimate; an interval without ends does not change.

        Examples
        --------
        >>> Interval(1.0, 0.978, 1.005).within(0.0, 1.0)
        Interval(estimate=1.0, low=0.978, high=1.0)
        """
        if math.isnan(self.low):
            return self
        below, above = min(self.low, self.estimate), max(self.high, self.estimate)
        return self._replace(low=max(below, low), high=min(above, high))

    def format(
        self,
        scale: float = 1.0,
        digits: int | None = None,
        unit: str = "",
        sign: bool = False,
        half: bool = False,
    ) -> str:
        """Write an estimate with its interval, in the notation of all tables, pages and reports.

        Parameters
        ----------
        scale : float
            Factor from natural units to those shown, such as 100 for per cent.
        digits : int, optional
            Decimals. By default as many as show two digits of the half-width: none for 12, one for
            1.2, two for 0.12. Without an interval, or if its ends are equal: one decimal if `scale`
            is above 1; otherwise three, less one for each digit before the point. There are more,
            up to six, if an end that is not 0 would look like 0; with `digits` given, only for a
            clear difference (with `sign`, and both ends on one side of 0).
        unit : str
            Text after the estimate, or with `half` after the half-width; it starts with its space.
        sign : bool
            Whether positive numbers get a plus sign, as differences should; what is rounded to 0
            has none.
        half : bool
            "± half-width" instead of the two ends: for tables of means, whose intervals are
            centred on the estimate.

        Returns
        -------
        str
            The estimate alone if there is no interval; "–" if there is no estimate.

        Examples
        --------
        >>> Interval(0.7134, 0.69, 0.73).format(100, unit=" %")
        '71.3 % [69.0, 73.0]'
        >>> Interval(-24.8653, math.nan, math.nan).format(), Interval(0.09, 0.09, 0.09).format()
        ('−24.9', '0.090 [0.090, 0.090]')
        >>> Interval(-0.0056, -0.0108, -0.0004).format(100, 1, sign=True)
        '−0.56 [−1.08, −0.04]'
        >>> change = Interval(-0.0012, -0.0031, 0.0007)
        >>> change.format(100, 1, sign=True), change.format(100, half=True)
        ('−0.1 [−0.3, +0.1]', '−0.12 ± 0.19')
        """
        if math.isnan(self.estimate):
            return "–"
        if math.isinf(self.estimate):
            return "∞" if self.estimate > 0 else "−∞"
        width, ends = scale * (self.high - self.low) / 2, []
        if digits is None:
            whole = len(f"{abs(self.estimate):.0f}") if abs(self.estimate) >= 1 else 0
            digits = 1 if scale > 1 else max(3 - whole, 0)
            if 0 < width < math.inf:
                digits = min(max(1 - math.floor(math.log10(width)), 0), 6)
                ends = [abs(scale * end) for end in (self.low, self.high) if end]
        elif sign and self.low * self.high > 0:  # a clear difference
            ends = [abs(scale * end) for end in (self.low, self.high)]
        while ends and digits < 6 and min(ends) < 0.5 / 10**digits:  # not 0, so not to look it
            digits += 1

        def shown(x: float) -> str:
            value = round(scale * x, digits) + 0.0  # adding zero takes the minus off a rounded zero
            return f"{value:{'+' if sign and value else ''}.{digits}f}".replace("-", "−")

        text = shown(self.estimate) + ("" if half else unit)
        if math.isnan(width):
            return text + (unit if half else "")
        if half:
            return f"{text} ± {width:.{digits}f}{unit}"
        return f"{text} [{shown(self.low)}, {shown(self.high)}]"


class Unjudged(Interval):
    """The interval of a difference of calibration errors, which by itself decides nothing.

    A less accurate model has the higher ECE even if both models are calibrated, since chance adds
    more to it: compare the excess over chance (`calibkit.metrics.excess_ece`) instead.
    """

    def outcome(self, margin: float = 0.0) -> str:
        """Always "unclear", whatever the interval.

        Parameters
        ----------
        margin : float
            No effect.

        Returns
        -------
        str
            "unclear".
        """
        return "unclear"


def wilson(successes: ArrayLike, trials: ArrayLike, level: float = 0.95) -> Interval:
    r"""Wilson's score interval of a proportion, which stays within [0, 1].

    .. math:: \frac{1}{1 + z^2/n}\Big(\hat p + \frac{z^2}{2n} \pm
              z\sqrt{\frac{\hat p(1 - \hat p)}{n} + \frac{z^2}{4n^2}}\Big)

    Wilson (1927), with z the normal quantile of (1 + level) / 2.

    Parameters
    ----------
    successes : array or number
        Number of successes.
    trials : array of the same shape, or number
        Number of trials, n.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Interval
        Fractions: numbers, or arrays where those were given; ``nan`` where there are no trials.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1.

    Examples
    --------
    >>> wilson(8, 10).format(100, unit=" %")
    '80 % [49, 94]'
    """
    check_level(level)
    successes, n = (
        np.asarray(to_numpy(x, name), dtype=float)
        for x, name in ((successes, "successes"), (trials, "trials"))
    )
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        p = np.where(n > 0, successes / n, np.nan)
        centre = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return interval_of(p, np.maximum(centre - half, 0), np.minimum(centre + half, 1))


def interval_of(*ends: Array) -> Interval:
    """An Interval of three arrays, with numbers in place of arrays that have no axes."""
    return Interval(*(end if np.ndim(end) else float(end) for end in ends))


def check_level(level: float) -> None:
    """Raise `ValueError` if a level is not between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level: got {level!r}, expected a number between 0 and 1")
