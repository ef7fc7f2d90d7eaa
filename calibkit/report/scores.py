"""Scores that thresholds are applied to, and how exactly they are known."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibkit.arrays import Array

EXACT = 1e-13  # what another softmax in double precision may differ by


@dataclass(frozen=True, eq=False)
class Score:
    """A score of samples, and what it may be for someone who applies a threshold to it.

    Attributes
    ----------
    p : array (n,) of float64
    low, high : arrays (n,) of float64
        The least and the greatest that it comes out as.
    dtype : numpy.dtype
        The type that it is compared in, if not in double precision.
    """

    p: Array
    low: Array
    high: Array
    dtype: np.dtype

    @classmethod
    def held(cls, p: Array) -> "Score":
        """Numbers that a file holds as they are."""
        same = p.astype(np.float64)
        return cls(same, same, same, p.dtype)

    @classmethod
    def either(cls, p: Array, own: Array) -> "Score":
        """Numbers computed in double precision, and the same computed in another type."""
        cast = own.astype(np.float64)
        return cls(p, np.minimum(p, cast), np.maximum(p, cast), own.dtype)

    @classmethod
    def computed(cls, p: Array, dtype: np.dtype) -> "Score":
        """Probabilities from a softmax or a map, whose last digits depend on who computes them.

        In single precision a softmax is off by up to about its eps near 1, and by about eps times
        the logarithm of p, relative to p, near 0; this allows four times as much.
        """
        p = p.astype(np.float64)
        room = 4 * max(float(np.finfo(dtype).eps), EXACT)
        off = room * p * (1 - np.log(np.maximum(p, 1e-300)))
        return cls(p, np.maximum(p - off, 0.0), p + off, np.dtype(dtype))

    def __getitem__(self, rows: Array) -> "Score":
        return Score(self.p[rows], self.low[rows], self.high[rows], self.dtype)


class Samples(NamedTuple):
    """A score (n,), whether what it is about is so, and how much each sample counts."""

    score: Score
    y: Array
    weights: Array | None = None


class Scored(NamedTuple):
    """Probabilities (n,), whether what they are of is so, and how much each sample counts."""

    p: Array
    y: Array
    weights: Array | None = None

    def judged(self, dtype: np.dtype) -> Samples:
        """The same for thresholds; a map computes the probabilities from scores in `dtype`."""
        return Samples(Score.computed(self.p, dtype), self.y, self.weights)
