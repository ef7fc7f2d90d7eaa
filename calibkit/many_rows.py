"""Draw resamples of many rows quickly: rows in blocks, scores in bins.

A resample draws whole blocks, of which there are some 5,000. A metric is computed from the numbers
of right and wrong predictions in some 8,000 bins of the score. The numbers for many resamples are
one product of two matrices.

Rows are put into blocks at random; a cluster stays in one block. So the variance over blocks is
that over rows, up to 1 %, which moves the end of an interval by 0.5 % of its width. Every bin edge
of a calibration error is also an edge here. Within a bin, all scores count as their mean, and right
and wrong predictions count as evenly spread.
"""

from collections.abc import Iterator

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array

MANY = 50_000  # number of rows from which on resamples are drawn in blocks
BLOCKS = 5_000  # blocks at least, if there are as many rows or clusters
BINS = 4_000  # bins cut by right predictions; as many more are cut by wrong ones
_LOOKED = 100_000  # right (and wrong) predictions by which bins are cut, at most
_AT_ONCE = 50  # resamples at a time: their counts fit into the processor's cache


class Blocks:
    """Rows in random blocks, and how often each is drawn in each of `n` resamples.

    Parameters
    ----------
    m, n : int
        Number of rows, and of resamples.
    seed : int
        The same seed gives the same blocks and the same resamples.
    weights : array (m,), optional
        How much each row counts. Rows of weight 0 are in no block.
    groups : array (m,) of int, optional
        The group of each row, from 0. A group stays in one block. If there are few groups, each is
        a block.

    Attributes
    ----------
    rows, of : arrays (r,) of int
        The rows in blocks, and the block of each. A few of the m rows are left out, so that all
        blocks hold equally many rows or groups.
    drawn : array (n, blocks) of int
        How often each resample draws each block.

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
        # Integers are faster. They serve if all resamples have the same number of rows.
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
        """Return the binned ranking of each resample, and at last that of all rows.

        Parameters
        ----------
        score : array (m,)
            Confidences, or other scores by which rows are sorted.
        correct : array (m,) of bool
            Whether each prediction is right.
        worth : float, optional
            Number of independent samples that a weight of 1 stands for.
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
    """A ranking by bins of the score; within a bin, right and wrong predictions are evenly spread.

    With 10^6 rows a bin holds some 100. So metrics at one point of the ranking interpolate within a
    bin; otherwise the end of an interval would be off by several percent of its width.
    """

    def coverage_at_risk(self, risk: float) -> float:
        """See `metrics.coverage_at_risk`."""
        within = np.flatnonzero(self.risk() <= risk + self.near)
        if not len(within):
            return 0.0
        place = within[-1]
        accepted, wrong = self.accepted[place], self.accepted_wrong[place]
        if place + 1 == len(self.wrong):
            return float(accepted / self.n)
        more, more_wrong = self.accepted[place + 1] - accepted, self.wrong[place + 1]
        share = (risk * accepted - wrong) / (more_wrong - risk * more)  # part of the next bin
        return float((accepted + max(share, 0.0) * more) / self.n)

    def risk_at_coverage(self, coverage: float) -> float:
        """See `metrics.risk_at_coverage`."""
        accepted = coverage * self.n
        wrong = np.interp(accepted, np.r_[0, self.accepted], np.r_[0, self.accepted_wrong])
        return float(wrong / accepted)

    def fpr_at_tpr(self, tpr: float) -> float:
        """See `metrics.fpr_at_tpr`."""
        right = np.r_[0, self.accepted_right]
        wrong = np.interp(tpr * self.all_right, right, np.r_[0, self.accepted_wrong])
        return float(wrong / self.all_wrong)


def _places(score: Array, correct: Array) -> Array:
    """The bin of each row (n,), numbered from the highest scores on; no bin is empty."""
    edges = np.linspace(0, 1, 16).astype(score.dtype)  # bins (low, high] of calibration errors
    ends = [edges[(edges >= score.min()) & (edges < score.max())]]
    for some in (score[correct], score[~correct]):
        few = min(BINS // 4, len(some))  # the highest scores get bins of single rows
        highest = np.partition(some, len(some) - few)[len(some) - few :] if few else some
        some = np.sort(some[:: len(some) // _LOOKED + 1])
        ends += [some[:: len(some) // BINS + 1], some[-few:], highest]
    place = np.searchsorted(np.unique(np.concatenate(ends)), score)
    filled = np.bincount(place) > 0
    number = np.cumsum(filled[::-1])[::-1] - 1
    return number[place].astype(np.int32)
