"""The scores that thresholds are applied to, and how far rounding may move each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from calibkit.arrays import Array

Rules: TypeAlias = Sequence[tuple[str, float]]  # names of `thresholds.RULES`, with their values
EXACT = 1e-13  # difference between two softmaxes in double precision, at most


@dataclass(frozen=True, eq=False)
class Score:
    """The scores of n samples, and the range in which a user's computation may find each.

    Attributes
    ----------
    p : array (n,) of float64
        The scores.
    low, high : arrays (n,) of float64
        The lowest and the highest value that a user may get for each score.
    dtype : numpy.dtype
        The type in which a user may compare scores with a threshold, beside double precision.
    """

    p: Array
    low: Array
    high: Array
    dtype: np.dtype

    @classmethod
    def held(cls, p: Array) -> "Score":
        """Scores (n,) that a file holds, so that every user gets exactly these."""
        same = p.astype(np.float64)
        return cls(same, same, same, p.dtype)

    @classmethod
    def either(cls, p: Array, own: Array) -> "Score":
        """Scores computed in double precision, `p`, and in another type, `own`; both are (n,)."""
        cast = own.astype(np.float64)
        return cls(p, np.minimum(p, cast), np.maximum(p, cast), own.dtype)

    @classmethod
    def computed(cls, p: Array, dtype: np.dtype) -> "Score":
        """Probabilities (n,) from a softmax or a map, whose last digits depend on the computer.

        The error of a softmax in single precision is up to about eps near 1. Near 0 it is about eps
        times the logarithm of p, relative to p. This allows four times as much.
        """
        p = p.astype(np.float64)
        room = 4 * max(float(np.finfo(dtype).eps), EXACT)
        off = room * p * (1 - np.log(np.maximum(p, 1e-300)))
        return cls(p, np.maximum(p - off, 0.0), p + off, np.dtype(dtype))

    def __getitem__(self, rows: Array) -> "Score":
        return Score(self.p[rows], self.low[rows], self.high[rows], self.dtype)


class Samples(NamedTuple):
    """Scores (n,), whether the outcome of each has occurred (n,), and weights (n,) or None."""

    score: Score
    y: Array
    weights: Array | None = None


class Scored(NamedTuple):
    """Probabilities (n,), whether each event has occurred (n,), and weights (n,) or None."""

    p: Array
    y: Array
    weights: Array | None = None

    def judged(self, dtype: np.dtype) -> Samples:
        """The same as `Samples`, for probabilities that a map computes from scores in `dtype`."""
        return Samples(Score.computed(self.p, dtype), self.y, self.weights)
