"""Resamples of many rows, in a small part of the time: blocks of rows, scores in some bins.

What changes from resample to resample is how often each of some 5,000 blocks is drawn, and with it
how many right and wrong predictions are in each of some 8,000 bins of the score. The counts of many
resamples are one product of two matrices, and a metric needs no more than these counts.

Rows are put into blocks at random, whole clusters where there are any, so that the spread over the
blocks is that over the rows: known to 1 % of itself, which moves the end of an interval by 0.5 % of
its width. Bins end at every edge of a calibration error; within one, scores count as their mean,
and where a metric is taken at one place of the ranking, right and wrong predictions lie evenly.
"""

from collections.abc import Iterator

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array

MANY = 50_000  # rows, from which on resamples are drawn so
BLOCKS = 5_000  # at least, if there are as many rows or clusters
BINS = 4_000  # of right predictions, and as many of wrong ones
_LOOKED = 100_000  # rows of either, where bins are cut
_AT_ONCE = 50  # resamples: so many counts stay in the processor's cache


class Blocks:
    """Rows in random blocks, and how often each is drawn in each of `n` resamples.

    Parameters
    ----------
    m, n : int
        Rows, and resamples.
    seed : int
        Same seed, same blocks and same draws.
    weights : array (m,), optional
        Rows of weight 0 are in no block.
    groups : array (m,) of int, optional
        Rows that stay together, by numbers from 0. A block is one group if these are few.

    Attributes
    ----------
    rows, of : arrays (r,)
        The rows, nearly all, and the block of each. A few are left out, so that all blocks hold as
        many rows or groups.
    drawn : array (n, blocks) of int

    Examples
    --------
    >>> blocks = Blocks(20_003, n=3)
    >>> len(blocks.rows), blocks.drawn.shape, blocks.drawn.sum(axis=1).tolist()
    (20000, (3, 5000), [5000, 5000, 5000])
    """

    def __init__(
        self,
        m: int,
        n: int,
        seed: int = 0,
        weights: "Array | None" = None,
        groups: "Array | None" = None,
    ) -> None:
        rng = np.random.default_rng(seed)
        rows = np.arange(m, dtype=np.int32) if weights is None else np.flatnonzero(weights)
        unit = None if groups is None else np.unique(groups[rows], return_inverse=True)[1]
        units = len(rows) if unit is None else int(unit.max()) + 1
        if unit is not None and units < 2:
            raise ValueError("groups: got one group, expected at least two to draw from")
        each = max(units // BLOCKS, 1)
        several = units // each
        block = (rng.permutation(units) // each).astype(np.int32)
        block = block if unit is None else block[unit]
        some = block < several
        self.rows: Array = rows[some]
        self.of: Array = block[some]
        self.weights: Array | None = None if weights is None else weights[self.rows]
        # Whole numbers are faster, if all resamples have as many rows.
        self.whole: bool = weights is None and groups is None
        self.drawn: Array = np.empty((n, several), np.uint16)
        for row in self.drawn:
            row[:] = np.bincount(rng.integers(0, several, several), minlength=several)

    def sums(self, values: Array) -> Array:
        """Sum of values (m,) over the rows of each resample, then over all rows: (n + 1,)."""
        values = values[self.rows]
        values = values if self.weights is None else self.weights * values
        sums = np.bincount(self.of, values, self.drawn.shape[1])
        return np.append([row @ sums for row in self.drawn], sums.sum())

    def rankings(
        self, score: Array, correct: Array, worth: "float | None" = None
    ) -> Iterator[metrics.Ranking]:
        """The ranking of each resample, then that of all rows, by bins of the score.

        Parameters
        ----------
        score : array (m,)
            Confidences, or what else ranks the rows.
        correct : array (m,) of bool
        worth : float, optional
            How many independent samples a unit of weight is worth.
        """
        from scipy.sparse import csr_array

        score, correct = score[self.rows], correct[self.rows]
        place = _places(score, correct)
        weights = np.ones(len(score), np.int32) if self.weights is None else self.weights
        weights = weights if self.whole else weights.astype(np.float64)
        count = np.bincount(place, weights)
        mean = (np.bincount(place, weights * score) / count).astype(score.dtype)
        shape = 2 * len(count), self.drawn.shape[1]
        place += len(count) * correct.astype(np.int32)
        table = csr_array((weights, (place, self.of)), shape=shape)
        every = np.ones((1, self.drawn.shape[1]), self.drawn.dtype)
        for start in range(0, len(self.drawn) + 1, _AT_ONCE):
            drawn = self.drawn[start : start + _AT_ONCE]
            if len(drawn) < _AT_ONCE:
                drawn = np.concatenate([drawn, every])
            counts = (table @ np.ascontiguousarray(drawn.T, table.dtype)).T
            for wrong, right in np.ascontiguousarray(counts).reshape(len(drawn), 2, -1):
                size = None if worth is None else worth * float(wrong.sum() + right.sum())
                yield Binned(mean, right, wrong, size)


class Binned(metrics.Ranking):
    """A ranking by bins of the score, within which right and wrong predictions lie evenly.

    A bin of 10^6 rows has some 100 of them: a place known to a bin only would move the end of an
    interval by several percent of its width.
    """

    def coverage_at_risk(self, risk: float) -> float:
        """As `metrics.coverage_at_risk`."""
        within = np.flatnonzero(self.risk() <= risk + self.near)
        if not len(within):
            return 0.0
        place = within[-1]
        accepted, wrong = self.accepted[place], self.accepted_wrong[place]
        if place + 1 == len(self.wrong):
            return float(accepted / self.n)
        more, more_wrong = self.accepted[place + 1] - accepted, self.wrong[place + 1]
        share = (risk * accepted - wrong) / (more_wrong - risk * more)  # of the next bin
        return float((accepted + max(share, 0.0) * more) / self.n)

    def risk_at_coverage(self, coverage: float) -> float:
        """As `metrics.risk_at_coverage`."""
        accepted = coverage * self.n
        wrong = np.interp(accepted, np.r_[0, self.accepted], np.r_[0, self.accepted_wrong])
        return float(wrong / accepted)

    def fpr_at_tpr(self, tpr: float) -> float:
        """As `metrics.fpr_at_tpr`."""
        right = np.r_[0, self.accepted_right]
        wrong = np.interp(tpr * self.all_right, right, np.r_[0, self.accepted_wrong])
        return float(wrong / self.all_wrong)


def _places(score: Array, correct: Array) -> Array:
    """The bin of each row, from that of the highest scores on; none is empty."""
    edges = np.linspace(0, 1, 16).astype(score.dtype)  # of calibration errors, (low, high]
    ends = [edges[(edges >= score.min()) & (edges < score.max())]]
    for some in (score[correct], score[~correct]):
        few = min(BINS // 4, len(some))  # of the highest scores, where few rows decide
        highest = np.partition(some, len(some) - few)[len(some) - few :] if few else some
        some = np.sort(some[:: len(some) // _LOOKED + 1])
        ends += [some[:: len(some) // BINS + 1], some[-few:], highest]
    place = np.searchsorted(np.unique(np.concatenate(ends)), score)
    filled = np.bincount(place) > 0
    number = np.cumsum(filled[::-1])[::-1] - 1
    return number[place].astype(np.int32)
