"""What kind of numbers probabilities are, and what one that is exactly 0 stands for.

A 0 has no logarithm. It is seldom a claim that something never happens: two decimals print whatever
is below 0.005 as 0, seven neighbours vote 0 to 7 times, and half precision has nothing between 0
and 6e-8. `of` decides from the numbers themselves what they are, and with it what a 0 counts as;
`log_probs` takes logarithms with that. Everything else in this package asks these two.

=============  ===========================================  ======================================
kind           how it is recognised                         a 0 counts as
=============  ===========================================  ======================================
``decimals``   all are multiples of 0.1, 0.01, …            half a unit of the last decimal
``votes``      all are multiples of 1/m, also rounded       half a vote
``steps``      of 1/255, 1/256, 1/127 or 1/128: a byte      half a step
``float16``    none has more than 11 binary digits          4e-9; from 3e-8 on it were none
``bfloat16``   none has more than 8                         as of float32
``float32``    none has more than 24                        the least normal number of the type; but
                                                            half of the least number that there is,
                                                            where many rows hold a 0 and nothing
                                                            comes near underflow (leaves of trees)
``float64``    else                                         as of float32
``answers``    nothing but 0, 1 and ties                    the least normal number of the type
=============  ===========================================  ======================================

The zeros of a row together count as one of them, since rows sum to 1: of a thousand classes with
two decimals, all but a few are printed as 0. Of votes they count as two at most, half a vote each.

What a network gives to classes that it excludes is spread over powers of ten, not evenly up to
where rounding begins. So zeros of binary formats count as an eighth of that place: on simulated
networks the temperature that is fitted then comes closer to the true one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibkit import grids
from calibkit.grids import Array


class Floor(NamedTuple):
    """What a probability of 0 counts as.

    `each` is a number, or of two columns of which one is 1 minus the other a number for each: more
    is left beside a 1 that single precision rounded up than beside its 0. `row` is what the zeros
    of one row count as together, at most.
    """

    each: float | tuple[float, float]
    row: float


BYTES = (127, 128, 255, 256)  # steps of probabilities out of integers of one byte
LEAST = 1e-30  # of a probability that a map gives; what is below has this as its logarithm

_DISTINCT = 2000  # different numbers that a rule is looked for in; it is checked on all
_BELOW = 1 / 8  # of the place where rounding to 0 begins; see above


@dataclass(frozen=True)
class Precision:
    """What probabilities are.

    Attributes
    ----------
    kind : str
        One of the table above.
    floor : Floor
        What a 0 counts as.
    count : int
        Of decimals how many, of votes or steps how many make up 1; else 0.
    rounding : float
        How far rounding to decimals or to steps has moved a number at most; 0 where there was none.
    either : bool
        Of decimals, whether votes would look the same.
    """

    kind: str
    floor: Floor
    count: int = 0
    rounding: float = 0.0
    either: bool = False

    @property
    def half(self) -> bool:
        """Whether they have half precision."""
        return self.kind in ("float16", "bfloat16")

    @property
    def coarse(self) -> bool:
        """Whether a 0 may be more than a network's softmax gives what it excludes."""
        return self.kind in ("decimals", "votes", "steps") or self.half

    def off_by(self, k: int) -> float:
        """How far rows of `k` classes may be from a sum of 1, by rounding.

        >>> round(of(np.array([[0.93, 0.06, 0.02]])).off_by(3), 4)
        0.015
        """
        if self.rounding > 1e-5:
            return max(min(min(self.rounding, 0.005) * k, 0.05) + 1e-6, 1e-3)
        return 0.02 if self.half else 1e-3

    @property
    def words(self) -> str:
        """What they have or are, as in "The probs have 2 decimals".

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
        """What was decided.

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
    """What kind of numbers probabilities are, and what a 0 among them counts as.

    Parameters
    ----------
    *probs : arrays of floats, shape (n, k) or (n,)
        Probabilities of one source, such as a validation and a test set.
    dtype : optional
        The type that they had, if it was "float16" or "bfloat16" and no longer is.

    Returns
    -------
    Precision
        What they are.

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
        if sums and k > 2:  # rounded rows of three numbers would not
            return Precision("votes", Floor(half, 2 * half), 10**digits)
        return Precision("decimals", _floor(half), digits, half, either=sums and digits <= 2)
    floor = _of_format(binary, arrays, values, least)
    if complement is not None:
        left = grids.ROUNDING[binary] / 2 * _BELOW  # beside a 1 that was rounded up
        both = [floor.row, floor.row]
        both[complement] = left
        floor = Floor((both[0], both[1]), max(both))
    return Precision(binary, floor)


def log_probs(probs: Array, floor: Floor | float | None = None) -> Array:
    """Logarithms of probabilities, finite even for 0.

    A row with zeros is divided by its sum when these are filled, which changes no difference of
    logarithms. All other rows stay, to the last bit.

    Parameters
    ----------
    probs : array of floats, shape (n, k) or (n,)
        Probabilities.
    floor : Floor or float, optional
        Also as a map keeps it: a list of its two parts or, before version 0.2, a number that the
        zeros of a row share. None or 0: the least normal number of the type.

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
    """Return the floor that a saved map keeps.

    Parameters
    ----------
    kept : None, float, list of two or Floor
        A number is what the zeros of a row share, as in maps of version 0.1.

    Returns
    -------
    Floor or None
        None if nothing or 0 was kept, as by a map fitted to logits.

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
    """Logarithms of the probabilities that a map gives.

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
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _tiny(binary: str) -> float:
    return float(np.finfo(np.float64 if binary == "float64" else np.float32).tiny)


def _floor(value: float) -> Floor:
    """Of zeros that share a number."""
    return Floor(value, value)


def _of_format(binary: str, arrays: list[Array], values: Array, least: float) -> Floor:
    """What a 0 counts as in a binary format."""
    if binary == "float16":
        # Some processors have nothing below the least normal number, 6e-5.
        normal = 2.0**-14
        flushed = least >= normal and ((values > normal) & (values < 16 * normal)).sum() >= 50
        return _floor(min((normal if flushed else 2.0**-25) * _BELOW, least))
    near = 1e-200 if binary == "float64" else 1e-30
    rows = sum(int((x.reshape(len(x), -1) <= 0).any(axis=1).sum()) for x in arrays)
    if least > near and rows >= grids.ROWS:
        return _floor(least / 2)
    return _floor(min(_tiny(binary), least))
