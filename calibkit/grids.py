"""Recognise rounded numbers: decimals, multiples of 1/m (votes), and binary formats.

A rule counts only if numbers would hardly obey it by accident.
"""

from collections.abc import Iterator
from math import log
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

MOST_VOTES = 2000
ROWS = 10  # informative rows that are needed to recognise votes
_CHANCE = 1e-4  # probability of an accident below which a rule is accepted
# Formats, the coarsest first, with the largest relative error of rounding to them.
ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}


def complement(arrays: list[Array]) -> tuple[int | None, list[Array]]:
    """Find which of two columns was computed as 1 minus the other.

    Returns the index of that column and the other column (n,) of each array. If this is unclear, or
    if there are not two columns, returns None and the arrays as they are.
    """
    if not arrays or any(x.ndim != 2 or x.shape[1] != 2 for x in arrays):
        return None, arrays
    is_other = [all(_is_rest(x[:, i], x[:, 1 - i]) for x in arrays) for i in (0, 1)]
    if not any(is_other):
        return None, arrays
    if all(is_other):
        coarseness = [list(ROUNDING).index(format_of([x[:, i] for x in arrays])) for i in (0, 1)]
        if coarseness[0] == coarseness[1]:
            return None, arrays
        is_other = [coarseness[0] > coarseness[1], coarseness[1] > coarseness[0]]
    column = is_other.index(True)
    return column, [x[:, 1 - column] for x in arrays]


def _is_rest(one: Array, other: Array) -> bool:
    """Whether `one` equals 1 minus `other`, exactly or after rounding to half precision."""
    rest = 1 - other
    with np.errstate(over="ignore"):
        return bool((one == rest).all() or (one == rest.astype(np.float16)).all())


def format_of(arrays: list[Array], few: list[Array] | None = None, dtype: str = "") -> str:
    """The shortest binary format, a key of `ROUNDING`, that holds all numbers exactly.

    `few` are parts of the arrays that are checked first, since they are faster. `dtype` decides if
    it is "float16" or "bfloat16".
    """
    if dtype in ("float16", "bfloat16"):
        return dtype
    found = list(ROUNDING)
    for array in [*(few or ()), *arrays]:
        found = [name for name in found if _holds(name, array)]
    # Multiples of 1/256 fit into every format, so they tell nothing.
    telling = [x[np.mod(x * 256, 1) != 0] for x in few or arrays]
    if sum(len(np.unique(x)) for x in telling) < 2:
        return str(np.result_type(np.float32, *arrays)) if arrays else "float64"
    return found[0]


def _holds(name: str, array: Array) -> bool:
    """Whether a binary format holds all numbers of an array exactly."""
    if name == "float64":
        return True
    if name == "float32" and array.dtype == np.float32:
        return True
    with np.errstate(all="ignore"):  # numbers that are no probabilities may be too large
        single, short = array.astype(np.float32), array.astype(np.float16)
    if not (single == array).all():
        return False
    if name == "float16":
        return bool((short == single).all())
    if name == "bfloat16":
        return not (np.ascontiguousarray(single).view(np.uint32) & 0xFFFF).any()
    return True


def _noise(values: Array, binary: str) -> Array:
    """How far numbers may be from their exact values, by rounding to their binary format."""
    if binary in ("float32", "float64"):  # four times, for sums and for 1 minus a number
        return np.full(len(values), 4 * ROUNDING[binary] + 1e-15)
    return 1.05 * ROUNDING[binary] * values


def _on_grid(arrays: list[Array], steps: int, binary: str, digits: int, slack: float) -> bool:
    """Whether all numbers are multiples of 1/steps, but for rounding to a format or `digits`."""
    for array in arrays:
        for start in range(0, len(array), max(2**20 // (array.size // len(array)), 1)):
            x = array[start : start + max(2**20 // (array.size // len(array)), 1)].ravel()
            x = x.astype(np.float64)
            room = _noise(x, binary) + slack
            if digits:
                x, room = _printed(x, digits), 0.5 * 10.0**-digits + slack
            if (np.abs(x - np.rint(x * steps) / steps) > room).any():
                return False
    return True


def _printed(values: Array, digits: int) -> Array:
    """Numbers as they were printed with `digits` decimals, before a binary format rounded them."""
    return np.rint(values * 10.0**digits) / 10.0**digits


def decimals(values: Array, arrays: list[Array], binary: str) -> int:
    """The number of decimals to which all numbers were rounded; 0 if no rounding is visible.

    `values` (m,) are different numbers from the `arrays`.
    """
    noise = _noise(values, binary)
    for digits in range(1, 13 if binary == "float64" else 8):
        steps, slack = 10**digits, 1e-3 * 10.0**-digits
        if (np.abs(values - np.rint(values * steps) / steps) > noise + slack).any():
            continue
        chance = np.log(np.minimum(2 * steps * (noise + slack), 1)).sum()
        return digits if chance < log(_CHANCE) and _on_grid(arrays, steps, binary, 0, slack) else 0
    return 0


def votes_of(
    values: Array,
    arrays: list[Array],
    few: list[Array],
    binary: str,
    digits: int,
) -> int:
    """The number m such that all numbers are multiples of 1/m; 0 if there is none.

    Parameters
    ----------
    values : array (v,)
        Different numbers between 0 and 1 from the arrays.
    arrays, few : lists of arrays
        All numbers, and a part of them.
    binary : str
        The binary format of the numbers.
    digits : int
        The number of decimals to which they were rounded, 0 for none. Then m is below 10^digits:
        few numbers with so many decimals are close to a multiple of 1/m, so that an accident is
        improbable.
    """
    rows = sum(int(((x > 0) & (x < 1)).reshape(len(x), -1).any(axis=1).sum()) for x in few)
    if rows < ROWS:
        return 0
    noise = _noise(values, binary) + 1e-12
    if digits:
        values, noise = _printed(values, digits), np.full(len(values), 0.5 * 10.0**-digits + 1e-12)
    for votes in _candidates(values, noise, 10**digits - 1 if digits else MOST_VOTES):
        # Numbers above 0.5 may be 1 minus those below: they are no further evidence.
        some = values < 0.5 if (values < 0.5).any() else values > 0.5
        share = _share(votes, digits) if digits else 2 * votes * noise[some]
        chance = np.log(np.minimum(share * np.ones(some.sum()), 1)).sum()
        if digits and len(np.unique(np.rint(values * votes))) < len(values):
            continue  # two different printed numbers cannot be the same share
        sure = chance < log(_CHANCE / votes) or _all_there(few, votes, digits or 3)
        if sure and _on_grid(arrays, votes, binary, digits, 1e-12):
            return votes
    return 0


def _share(votes: int, digits: int) -> float:
    """The share of all numbers with `digits` decimals that are a rounded multiple of 1/votes."""
    if digits > 4:
        return (votes + 1) / 10**digits
    x = np.arange(1, 10**digits) / 10**digits
    room = 0.5 * 10.0**-digits + 1e-12
    return float((np.abs(x - np.rint(x * votes) / votes) <= room).mean())


def _candidates(values: Array, noise: Array, most: int) -> Iterator[int]:
    """All m up to `most`, ascending, such that all values are multiples of 1/m within `noise`."""
    votes = np.arange(2, min(most, MOST_VOTES) + 1)[:, np.newaxis]
    for some in (slice(None, None, len(values) // 16 + 1), slice(None)):
        x, room = values[some], noise[some]
        fits = (np.abs(x - np.rint(x * votes) / votes) <= room).all(axis=1)
        votes = votes[fits]
    yield from map(int, votes.ravel())


def _all_there(few: list[Array], votes: int, digits: int) -> bool:
    """Whether every multiple of 1/votes occurs, while the decimals between them never do.

    Numbers that are no votes would lie between two multiples, too: about as often as on the rarer
    of both. The result is true if that makes at least 2 × `ROWS` expected numbers.
    """
    if digits > 6:
        return False
    x = np.concatenate([array.ravel() for array in few]).astype(np.float64)
    x = x[(x >= 0) & (x <= 1)]
    seen = np.bincount(np.rint(x * votes).astype(int), minlength=votes + 1)
    if seen[1:-1].min() < 1 or seen[1:-1].sum() < 2 * ROWS:
        return False
    between = np.arange(10**digits + 1) / 10**digits
    share = between * votes
    between = np.abs(between - np.rint(share) / votes) > 0.5 * 10.0**-digits + 1e-12
    below = np.floor(share[between]).astype(int)
    return bool(np.minimum(seen[below], seen[below + 1]).sum() >= 2 * ROWS)


def sum_to_one(few: list[Array], digits: int) -> bool:
    """Whether there are many rows and all sum to exactly 1 as printed; one column counts as so."""
    rows = [array.reshape(len(array), -1) for array in few]
    inside = sum(int(((x > 0) & (x < 1)).any(axis=1).sum()) for x in rows)
    sums = [np.rint(x.astype(np.float64) * 10**digits).sum(axis=1) for x in rows if x.shape[1] > 1]
    return bool(inside >= 4 * ROWS and all((x == 10**digits).all() for x in sums))
