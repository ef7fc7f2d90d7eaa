"""How probabilities were rounded, and which small probability an exact 0 stands for.

A 0 has no logarithm, and it seldom claims that something never happens. With two decimals, every
probability below 0.005 is printed as 0. Seven neighbours give a class 0 to 7 votes. Half precision
has no number between 0 and 6e-8. ``calibkit.precision.of(probs)`` finds out from the numbers how
they were rounded, and what a 0 counts as. With its ``floor``,
``calibkit.precision.log_probs(probs, floor)`` takes logarithms accordingly. All of calibkit uses
these two functions.

=============  ===========================================  ======================================
kind           how it is recognised                         a 0 counts as
=============  ===========================================  ======================================
``decimals``   all are multiples of 0.1, 0.01, …            half a unit of the last decimal
``votes``      all are multiples of 1/m, perhaps rounded    half a vote
``steps``      multiples of 1/127, 1/128, 1/255 or 1/256    half a step
               (one byte)
``float16``    none has more than 11 binary digits          4e-9 (3e-8 would not be rounded to 0)
``bfloat16``   none has more than 8 binary digits           the same as for float32
``float32``    none has more than 24 binary digits          the smallest normal number of the type;
                                                            if many rows hold a 0 and no number is
                                                            near underflow (leaves of trees), half
                                                            of the smallest number that occurs
``float64``    all other numbers                            the same as for float32
``answers``    only 0, 1 and ties occur                     the smallest normal number of the type
=============  ===========================================  ======================================

All zeros of a row together count as much as one of them, since rows sum to 1: with a thousand
classes and two decimals, nearly all classes are printed as 0. Zeros of votes count as half a vote
each, and as one vote together at most.

A network spreads the probabilities of classes that it excludes over many powers of ten. So zeros of
float16 count as an eighth of the number at which rounding to 0 begins: on simulated networks, the
fitted temperature then comes closer to the true one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibkit import grids
from calibkit.grids import Array


class Floor(NamedTuple):
    """The probability that an exact 0 counts as.

    Attributes
    ----------
    each : float or tuple of two float
        What a single 0 counts as. There are two numbers, one for each column, if one of two columns
        was computed as 1 minus the other: its zeros come from ones that were rounded up.
    row : float
        What all zeros of a row together count as, at most.
    """

    each: float | tuple[float, float]
    row: float


BYTES = (127, 128, 255, 256)  # steps of probabilities that come from one-byte integers
LEAST = 1e-30  # a lower probability from a map gets the logarithm of this number

_DISTINCT = 2000  # different numbers in which a rule is searched; all numbers must then obey it
_BELOW = 1 / 8  # share of the number at which rounding to 0 begins (see the module's docstring)


@dataclass(frozen=True)
class Precision:
    """How probabilities were rounded.

    Attributes
    ----------
    kind : str
        A kind from the table at the top of `calibkit.precision`.
    floor : Floor
        What a 0 counts as.
    count : int
        The number of decimals, or how many votes or steps make up 1; 0 for other kinds.
    rounding : float
        The largest error by rounding to decimals or steps; 0 for other kinds.
    either : bool
        Whether decimals could as well be votes.
    """

    kind: str
    floor: Floor
    count: int = 0
    rounding: float = 0.0
    either: bool = False

    @property
    def half(self) -> bool:
        """Whether the probabilities have half precision."""
        return self.kind in ("float16", "bfloat16")

    @property
    def coarse(self) -> bool:
        """Whether a 0 may stand for more than the tiny probability of an excluded class."""
        return self.kind in ("decimals", "votes", "steps") or self.half

    def off_by(self, k: int) -> float:
        """How far from 1 rounding may move the sum of a row of `k` classes.

        >>> round(of(np.array([[0.93, 0.06, 0.02]])).off_by(3), 4)
        0.015
        """
        if self.rounding > 1e-5:
            return max(min(min(self.rounding, 0.005) * k, 0.05) + 1e-6, 1e-3)
        return 0.02 if self.half else 1e-3

    @property
    def words(self) -> str:
        """The kind in words that continue "The probs …", such as "have 2 decimals".

        >>> of(np.array([[0.93, 0.07], [1.0, 0.0]])).words
        'have 2 decimals'
        """
        if self.kind == "decimals":
            votes = f" (or are votes of {10**self.count:,})" * self.either
            return f"have {self.count} decimal{'s' * (self.count > 1)}{votes}"
        if self.kind == "votes":
            return f"are votes of {self.count:,}"
        if self.kind == "steps":
            return f"have steps of 1/{self.count}"
        if self.kind == "answers":
            return "are answers: 0, 1 and ties"
        return f"have the precision of {self.kind}"

    @property
    def sentence(self) -> str:
        """A sentence on the kind and on what a 0 counts as.

        >>> of(np.array([[2, 1, 0], [1, 1, 1]] * 20) / 3).sentence
        'The probabilities are votes of 3; a 0 counts as 0.17, half a vote.'
        """
        if self.kind == "decimals":
            why = ", half a unit"
        elif self.kind in ("votes", "steps"):
            why = f", half a {self.kind[:-1]}"
        else:
            why = ""
        values = np.unique(self.floor.each)
        shown = " or ".join(f"{value:.2g}" for value in values)
        return f"The probabilities {self.words}; a 0 counts as {shown}{why}."


def of(*probs: Array, dtype: Any = None) -> Precision:
    """Find out how probabilities were rounded, and what a 0 among them counts as.

    Parameters
    ----------
    *probs : arrays of floats, shape (n, k) or (n,)
        Probabilities from one source, such as those of a validation and of a test set.
    dtype : optional
        The type that the probabilities once had, if this was "float16" or "bfloat16" and the
        arrays now have another type.

    Returns
    -------
    Precision
        The kind of rounding, and what a 0 counts as.

    Examples
    --------
    >>> of(np.array([[0.93, 0.07], [1.0, 0.0]])).floor
    Floor(each=0.005, row=0.005)
    >>> of(np.array([[3, 4], [6, 1]] * 10) / 7).words
    'are votes of 7'
    """
    arrays = [_wide(array) for array in probs if np.size(array)]
    k = arrays[0].shape[-1] if arrays and arrays[0].ndim == 2 else 2
    complement, arrays = grids.complement(arrays)
    few = [array[:: len(array) // 1000 + 1] for array in arrays]
    values = np.unique(np.concatenate([np.unique(array) for array in few] or [np.zeros(0)]))
    values = values[(values > 0) & (values < 1)].astype(np.float64)
    binary = grids.format_of(arrays, few, str(dtype).removeprefix("torch."))
    near = 2 * grids.ROUNDING[binary] + 1e-12
    ties = (np.abs(values - 0.5) < near) | (np.abs(values - 1 / k) < near)
    telling = values[~ties][:: (~ties).sum() // _DISTINCT + 1]
    least = min((float(np.min(x, where=x > 0, initial=1)) for x in arrays), default=1.0)
    if not telling.size:
        halves = sum(int((x.reshape(len(x), -1) == 0.5).any(axis=1).sum()) for x in few)
        if halves >= 2 * grids.ROWS:
            return Precision("votes", Floor(0.25, 0.5), 2)
        return Precision("answers", _floor(_tiny(binary)))
    digits = grids.decimals(telling, arrays, binary)
    if votes := grids.votes_of(telling, arrays, few, binary, digits):
        kind = "steps" if votes in BYTES else "votes"
        moved = 0.5 * 10.0**-digits if digits else 0.5 / votes if kind == "steps" else 0.0
        half = min(0.5 / votes, least)
        return Precision(kind, Floor(half, 2 * half if kind == "votes" else half), votes, moved)
    if digits:
        half, sums = 0.5 * 10.0**-digits, digits <= 3 and grids.sum_to_one(few, digits)
        if sums and k > 2:  # rounded rows of three or more numbers seldom sum to exactly 1
            return Precision("votes", Floor(half, 2 * half), 10**digits)
        return Precision("decimals", _floor(half), digits, half, either=sums and digits <= 2)
    floor = _of_format(binary, arrays, values, least)
    if complement is not None:
        left = grids.ROUNDING[binary] / 2 * _BELOW  # what 1 minus a rounded-up 1 has lost
        both = [floor.row, floor.row]
        both[complement] = left
        floor = Floor((both[0], both[1]), max(both))
    return Precision(binary, floor)


def log_probs(probs: Array, floor: Floor | float | None = None) -> Array:
    """Return the logarithms of probabilities, with a finite number for 0.

    Zeros are replaced by what they count as, and their row is then divided by its sum. This keeps
    the differences between the other logarithms of the row. Rows without zeros stay exactly as they
    are.

    Parameters
    ----------
    probs : array of floats, shape (n, k) or (n,)
        Probabilities.
    floor : Floor or float, optional
        What a 0 counts as: a Floor, such as ``of(probs).floor``, or one number for both of its
        fields. None or 0: the smallest normal number of the type.

    Returns
    -------
    array, shape as `probs`
        In nats.

    Examples
    --------
    >>> log_probs(np.array([0.5, 0.0])).round(2).tolist()
    [-0.69, -708.4]
    >>> np.exp(log_probs(np.array([[0.8, 0.2, 0.0, 0.0]]), floor=0.25)).round(2).tolist()
    [[0.64, 0.16, 0.1, 0.1]]
    """
    probs = _wide(probs)
    zero = probs <= 0
    if not zero.any():
        return np.log(probs)
    out = np.log(np.where(zero, 1, probs))
    each, row = as_floor(floor) or _floor(float(np.finfo(out.dtype).tiny))
    each, together = np.log(each), np.log(row)
    if out.ndim != 2:
        out[zero] = np.min(each)
        return out
    rows = np.flatnonzero(zero.any(axis=1))
    own = zero[rows]
    shared = together - np.log(own.sum(axis=1))[:, np.newaxis]
    filled = np.where(own, np.minimum(each, shared), out[rows])
    added = np.where(own, np.exp(filled), 0).sum(axis=1)
    out[rows] = filled - np.log1p(added)[:, np.newaxis]
    return out


def as_floor(kept: Any) -> Floor | None:
    """Turn the floor in the file of a map into a Floor.

    Parameters
    ----------
    kept : None, float, list of two or Floor
        A list has the two parts of a Floor. A number, as in maps of version 0.1, is what the zeros
        of a row count as together.

    Returns
    -------
    Floor or None
        None for None and 0, which a map fitted to logits has.

    Examples
    --------
    >>> as_floor([0.05, 0.1]), as_floor(0.05), as_floor(0)
    (Floor(each=0.05, row=0.1), Floor(each=0.05, row=0.05), None)
    """
    if kept is None or isinstance(kept, Floor):
        return kept
    if isinstance(kept, int | float):
        return _floor(float(kept)) if kept else None
    each, row = kept
    return Floor(tuple(each) if isinstance(each, list) else each, row)


def log_of_map(probs: Array) -> Array:
    """Return the logarithms of the probabilities that a map gives.

    Parameters
    ----------
    probs : array of floats, any shape
        Probabilities.

    Returns
    -------
    array, shape as `probs`
        In nats. A probability of 0 has the logarithm of 1e-30.

    Examples
    --------
    >>> log_of_map(np.array([1.0, 0.0])).round(2).tolist()
    [0.0, -69.08]
    """
    return np.log(np.maximum(probs, LEAST))


def _wide(array: Array) -> Array:
    """An array in float32 if it was in float16, otherwise unchanged."""
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _tiny(binary: str) -> float:
    """The smallest normal number of float64, or of float32 for all shorter formats."""
    return float(np.finfo(np.float64 if binary == "float64" else np.float32).tiny)


def _floor(value: float) -> Floor:
    """A Floor in which several zeros of a row count as much as one zero."""
    return Floor(value, value)


def _of_format(binary: str, arrays: list[Array], values: Array, least: float) -> Floor:
    """What a 0 counts as in a binary format; `least` is the smallest number above 0."""
    if binary == "float16":
        # Some processors replace every number below the smallest normal one, 6e-5, by 0.
        normal = 2.0**-14
        flushed = least >= normal and ((values > normal) & (values < 16 * normal)).sum() >= 50
        return _floor(min((normal if flushed else 2.0**-25) * _BELOW, least))
    near = 1e-200 if binary == "float64" else 1e-30
    rows = sum(int((x.reshape(len(x), -1) <= 0).any(axis=1).sum()) for x in arrays)
    if least > near and rows >= grids.ROWS:
        return _floor(least / 2)
    return _floor(min(_tiny(binary), least))
