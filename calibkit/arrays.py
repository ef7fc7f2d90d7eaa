"""Convert and check the arrays that users pass in, once, so that all other code can rely on them.

Users may pass NumPy arrays, lists, pandas objects and torch tensors (on any device, float16 and
bfloat16 included). All become NumPy arrays. Neither torch nor pandas is imported: a tensor is
recognised by its methods. Masked and missing values (pandas' <NA>) are refused.
"""

import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from calibkit import precision
from calibkit.grids import Array
from calibkit.precision import Floor

if TYPE_CHECKING:
    import torch

# What functions take: what NumPy can read (arrays, nested sequences of numbers), or a torch tensor.
# Both names are quoted, so that torch is not needed and `help` shows them as written.
ArrayLike: TypeAlias = "npt.ArrayLike | torch.Tensor"
# How much each of n samples counts, shape (n,); None: each once.
Weights: TypeAlias = "ArrayLike | None"
# What they return: an array, or for a tensor a tensor.
ArrayOrTensor: TypeAlias = "np.ndarray | torch.Tensor"

# What rows of scores are: softmax of "logits", or "probs" whose logarithm is as good as logits.
Kind: TypeAlias = Literal["logits", "probs"]


# Elements in a block of rows: half a megabyte of float32, so that every pass over a block after
# the first finds it in the processor's second-level cache.
BLOCK = 1 << 17
# More bins than this cost time and memory, and tell no more.
MOST_BINS = 100_000


def to_numpy(x: ArrayLike, name: str = "array") -> Array:
    """Return `x` as a NumPy array, without a copy where possible; 16-bit floats become float32.

    Errors call the array `name`.

    Raises
    ------
    ValueError
        Values of `x` are masked or missing.

    Examples
    --------
    >>> to_numpy([1, 2]).tolist()
    [1, 2]
    """
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        if x.is_floating_point() and x.element_size() < 4:
            x = x.float()
        x = x.numpy()
    _refuse_masked(x, name)
    array = np.asarray(x)
    if hasattr(x, "isna"):
        array = _of_pandas(x, array, name)
    return array.astype(np.float32) if array.dtype.name in ("float16", "bfloat16") else array


def _refuse_masked(x: Any, name: str) -> None:
    """Raise `ValueError` if `x`, or an element of the list `x`, has masked values."""
    parts = x if isinstance(x, list | tuple) else [x]
    masked = sum(int(np.ma.count_masked(part)) for part in parts if np.ma.isMaskedArray(part))
    if masked:
        raise ValueError(
            f"{name}: got masked values ({masked:,} of them), expected none: leave their rows out "
            "of every argument, as in x[~mask]"
        )


def _of_pandas(x: Any, array: Array, name: str) -> Array:
    """The `array` of a pandas object `x`, as numbers even if pandas' nullable types are objects."""
    found = x.dtypes if hasattr(x, "dtypes") else x.dtype  # an index has no dtypes
    types = np.atleast_1d(np.asarray(found, dtype=object))
    numbers = all(getattr(of_column, "kind", "O") in "biuf" for of_column in types)
    if not numbers or all(isinstance(of_column, np.dtype) for of_column in types):
        return array
    missing = np.argwhere(np.asarray(x.isna()))
    if len(missing):
        row, *column = missing[0]
        place = f"row {row}" + "".join(f", column {x.columns[i]!r}" for i in column)
        raise ValueError(
            f"{name}: got missing values (pandas' <NA>; {len(missing):,} of them, the first in "
            f"{place}), expected none: leave their rows out of every argument"
        )
    return np.array(array.tolist()) if array.dtype == object else array


@overload
def like(array: Array, reference: "torch.Tensor") -> "torch.Tensor": ...
@overload
def like(array: Array, reference: npt.ArrayLike) -> Array: ...
def like(array: Array, reference: ArrayLike) -> ArrayOrTensor:
    """Return `array` as a tensor on the device of `reference` if that is a tensor, else unchanged.

    >>> like(np.zeros(2), reference=[1.0, 2.0])
    array([0., 0.])
    """
    if hasattr(reference, "detach"):
        torch = sys.modules["torch"]  # there is a tensor, so torch was imported
        return torch.from_numpy(np.ascontiguousarray(array)).to(reference.device)
    return array


def blocks(n: int, k: int) -> Iterator[slice]:
    """Yield slices that cut `n` rows of `k` numbers into pieces that fit the processor's cache.

    >>> [(rows.start, rows.stop) for rows in blocks(3, BLOCK // 2)]
    [(0, 2), (2, 3)]
    """
    step = max(1, BLOCK // k)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def as_logits(
    logits: ArrayLike,
    name: str = "logits",
    kind: "Kind | None" = "logits",
    floor: Floor | float | None = None,
) -> Array:
    """Return `logits` as a float array (n, k), float32 or float64, after checking it.

    The softmax of probabilities would be nearly the same for all classes, and nobody would notice
    the mistake. So probabilities are refused unless `kind` says what the numbers are, even if they
    are rounded or only a part of many rows. If logits look like probabilities by a rare accident,
    add any number to all of them: this changes no result.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.
    name : str
        What errors call the array.
    kind : {"logits", "probs", None}
        "probs" takes the logarithms of probabilities by `precision.log_probs`. None accepts the
        numbers without checking their kind.
    floor : precision.Floor or float, optional
        What a probability of 0 counts as; by default `precision.of` finds it.

    Raises
    ------
    ValueError
        The array is empty, does not have two axes and at least two classes, is not finite, or is
        not of that kind.

    Examples
    --------
    >>> as_logits([[1, 2], [3, 4]]).dtype
    dtype('float64')
    >>> as_logits([[0.9, 0.1], [0.4, 0.6]])
    Traceback (most recent call last):
    ...
    ValueError: logits: got probabilities (rows >= 0 that sum to 1), expected scores before the \
softmax: take np.log of them, or pass kind="probs" if there is this argument; if they are logits, \
add 1 to all
    >>> as_logits([[0.9, 0.1], [0.4, 0.6]], kind="probs").round(2).tolist()
    [[-0.11, -2.3], [-0.92, -0.51]]
    """
    if kind == "probs":
        array, found = probs_and_floor(logits, name)
        return precision.log_probs(array, found if floor is None else floor)
    if kind not in ("logits", None):
        raise ValueError(f"kind: got {kind!r}, expected 'logits' or 'probs'")
    array = _matrix(logits, name)
    _check_range(array, name, hint=_OF_LOGITS)
    if kind:
        _refuse_probs(array, name, _tolerance(logits))
    return array


def probs_and_floor(probs: ArrayLike, name: str = "probs") -> tuple[Array, Floor | None]:
    """Return `as_probs(probs)`, and what a 0 among them counts as; None if no probability is 0.

    >>> probs_and_floor([[0.93, 0.07], [1.0, 0.0]])[1]
    Floor(each=0.005, row=0.005)
    """
    array = as_probs(probs, name)
    if array.min() > 0:
        return array, None
    return array, precision.of(array, dtype=getattr(probs, "dtype", None)).floor


def _refuse_probs(array: Array, name: str, tolerance: float) -> None:
    """Raise `ValueError` if all of a few rows, or a quarter of many, are probabilities."""
    some = array[:: len(array) // 64 | 1]  # an odd step, so that rows in turns are seen in turns
    many = len(some) > 30
    if many:  # rounded rows count, too, if there are many
        tolerance = max(tolerance, 0.02)
    share = ((some >= 0).all(axis=1) & (np.abs(row_sums(some) - 1) <= tolerance)).mean()
    if share > (0.25 if many else 0.9):
        rows = "rows" if share > 0.9 else f"about {share:.0%} of the rows"
        raise ValueError(
            f"{name}: got probabilities ({rows} >= 0 that sum to 1), expected scores before the "
            'softmax: take np.log of them, or pass kind="probs" if there is this argument; if they '
            "are logits, add 1 to all"
        )


def _tolerance(probs: ArrayLike) -> float:
    """How far the sum of a row of probabilities may be from 1; more for bfloat16."""
    return 1e-2 if "bfloat16" in str(getattr(probs, "dtype", "")) else 1e-3


def as_probs(probs: ArrayLike, name: str = "probs") -> Array:
    """Return `probs` as a float array (n, k) after checking that every row is a distribution.

    Numbers must lie in [0, 1], and rows must sum to 1 within 0.001, which allows for half precision
    (0.01 for bfloat16, which is coarser). The numbers are not changed: rows are not divided by
    their sum.

    Raises
    ------
    ValueError
        The array is empty, does not have two axes and at least two classes, is not finite, or a row
        does not sum to 1.

    Examples
    --------
    >>> as_probs([[0.9, 0.2]])
    Traceback (most recent call last):
    ...
    ValueError: probs: got row 0 that sums to 1.1, expected rows that sum to 1
    """
    array, checked = prob_blocks(probs, name)
    for _ in checked:
        pass
    return array


def prob_blocks(
    probs: ArrayLike, name: str = "probs", turned: bool = False
) -> tuple[Array, Iterator[tuple[slice, Array]]]:
    """Return `probs` as an array, and an iterator over its rows in blocks that it checks.

    The iterator yields a slice of rows and the block. A block has just been checked, so it is still
    in the processor's cache. With `turned`, blocks have the shape (k, rows), which is faster for
    few classes: NumPy works on one short row at a time, but on several numbers of a long row.

    >>> array, checked = prob_blocks([[0.9, 0.1], [0.5, 0.5]], turned=True)
    >>> [block.max(axis=0).tolist() for rows, block in checked]
    [[0.9, 0.5]]
    """
    array = _matrix(probs, name)
    tolerance = _tolerance(probs)

    def checked() -> Iterator[tuple[slice, Array]]:
        for rows in blocks(*array.shape):
            block = np.ascontiguousarray(array[rows].T) if turned else array[rows]
            total = block.sum(axis=0) if turned else row_sums(block)
            _check_rows(block, total, tolerance, rows.start, name)
            yield rows, block

    return array, checked()


def as_labels(labels: ArrayLike, k: int, n: int | None = None, name: str = "labels") -> Array:
    """Return `labels` as an index array (n,) after checking that it holds classes 0 to k - 1.

    Raises
    ------
    ValueError
        The array is empty, not one-dimensional, not of an integer type, out of range or, if `n` is
        given, of another length.

    Examples
    --------
    >>> as_labels([0, 3], k=3)
    Traceback (most recent call last):
    ...
    ValueError: labels: got values from 0 to 3, expected classes 0 to 2
    """
    array = _vector(to_numpy(labels, name), name, n)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name}: got type {array.dtype}, expected integers 0 to {k - 1}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= k:
        raise ValueError(f"{name}: got values from {low} to {high}, expected classes 0 to {k - 1}")
    return array.astype(np.intp, copy=False)


def as_confidence_correct(
    confidence: ArrayLike, correct: ArrayLike, unit: bool = False
) -> tuple[Array, Array]:
    """Return `confidence` as floats (n,) and `correct` as booleans (n,), both checked.

    A confidence may be any finite score; with ``unit=True`` it must be in [0, 1]. `correct` may
    have booleans or the numbers 0 and 1.

    Raises
    ------
    ValueError
        An array is empty or not one-dimensional, the lengths differ, a confidence is not finite
        (or, with `unit`, outside [0, 1]), or `correct` has a number other than 0 and 1.

    Examples
    --------
    >>> as_confidence_correct([0.9, 0.6], [1, 0])
    (array([0.9, 0.6]), array([ True, False]))
    """
    confidence = _vector(_floats(confidence, "confidence"), "confidence")
    _check_range(confidence, "confidence", unit, _OF_CONFIDENCE)
    correct = _vector(to_numpy(correct, "correct"), "correct", len(confidence))
    if correct.dtype.kind != "b":
        if correct.dtype.kind not in "iuf" or not np.isin(correct, (0, 1)).all():
            raise ValueError(
                f"correct: got values of type {correct.dtype} other than 0 and 1, expected booleans"
            )
        correct = correct.astype(bool)
    return confidence, correct


def as_weights(weights: ArrayLike, n: int, name: str = "sample_weight") -> Array:
    """Return `weights` of samples as a float array (n,) after checking them.

    Raises
    ------
    ValueError
        There are not `n` finite numbers, one is negative, or all are 0.

    Examples
    --------
    >>> as_weights([1, 0], n=2)
    array([1., 0.])
    """
    array = to_numpy(weights, name)
    if array.dtype.kind == "b":
        array = array.astype(np.float64)
    array = _vector(_floats(array, name), name, n).astype(np.float64)
    _check_range(array, name)
    if array.min() < 0:
        raise ValueError(f"{name}: got {array.min():.6g}, expected weights of at least 0")
    if array.max() == 0:
        raise ValueError(f"{name}: got weights that are all zero, expected some above 0")
    return array


def softmax(logits: ArrayLike, kind: "Kind | None" = "logits") -> Array:
    """Return the softmax of each row of `logits` (n, k), in the type of `logits`, without overflow.

    It works on blocks of rows that fit into the processor's cache, which is several times faster.

    Examples
    --------
    >>> softmax([[1000.0, 1000.0]])
    array([[0.5, 0.5]])
    """
    logits = as_logits(logits, kind=kind)
    probs = np.empty_like(logits)
    for rows in blocks(*logits.shape):
        exp_shifted(logits[rows], out=probs[rows])
        probs[rows] /= row_sums(probs[rows])[:, None]
    return probs


def are_log_probs(logits: Array) -> bool:
    """Whether logits (n, k) are logarithms of probabilities: their exponentials sum to 1.

    Examples
    --------
    >>> are_log_probs(np.log([[0.9, 0.1], [0.2, 0.8]])), are_log_probs(np.array([[4.0, 0.0]]))
    (True, False)
    """
    if logits.max() > 0.01:
        return False
    return all(
        np.abs(row_sums(np.exp(logits[rows])) - 1).max() < 0.01 for rows in blocks(*logits.shape)
    )


def exp_shifted(block: Array, out: Array) -> tuple[Array, Array]:
    """Write exp(block - row maximum) to `out`; return the index and value of each row's maximum."""
    place = block.argmax(axis=1)  # faster than max(axis=1), which NumPy does not vectorise
    top = block[np.arange(len(block)), place]
    np.subtract(block, top[:, None], out=out)
    np.exp(out, out=out)
    return place, top


def row_sums(block: Array) -> Array:
    """Return block.sum(axis=1), several times faster where rows are short."""
    return np.einsum("ij->i", block)


def log_odds(logits: Array, classes: Array | None = None) -> Array:
    """Return the log-odds (n,) of one class in each row of `logits` (n, k), in double precision.

    They are the logit of this class minus the logarithm of the sum of exp(logit) over all other
    classes. The class is the predicted one, unless `classes` (n,) names it.

    >>> log_odds(np.array([[0.0, 2000.0], [1.0, 1.0]])).tolist()
    [2000.0, 0.0]
    """
    classes = logits.argmax(axis=1) if classes is None else classes
    rows, odds = np.arange(len(logits)), np.empty(len(logits))
    for part in blocks(*logits.shape):
        others = logits[part].astype(np.float64)
        place = rows[: len(others)], classes[part]
        own = others[place]
        others[place] = -np.inf
        top = others.max(axis=1)
        odds[part] = own - top - np.log(row_sums(np.exp(others - top[:, None])))
    return odds


def check_bins(bins: int) -> None:
    """Raise `ValueError` unless `bins` is a whole number from 1 to `MOST_BINS`.

    >>> check_bins(0)
    Traceback (most recent call last):
    ...
    ValueError: bins: got 0, expected a whole number from 1 to 100,000
    """
    if not isinstance(bins, int | np.integer) or not 1 <= bins <= MOST_BINS:
        raise ValueError(f"bins: got {bins!r}, expected a whole number from 1 to {MOST_BINS:,}")


def _check_rows(block: Array, total: Array, tolerance: float, start: int, name: str) -> None:
    # Numbers that are not negative and sum to 1 are at most 1, so two checks do. NaN fails both.
    sums = 1 - tolerance <= total.min() and total.max() <= 1 + tolerance
    if not (sums and block.min() >= 0):
        _check_range(block, name, unit=True)
        row = int(np.abs(total - 1).argmax())
        raise ValueError(
            f"{name}: got row {start + row} that sums to {total[row]:.6g}, "
            "expected rows that sum to 1"
        )


def _floats(x: ArrayLike, name: str) -> Array:
    try:
        array = to_numpy(x, name)
    except ValueError as error:
        if str(error).startswith(f"{name}: "):
            raise
        raise ValueError(f"{name}: got a ragged sequence, expected an array") from error
    if array.dtype.kind == "V":
        raise ValueError(
            f"{name}: got type {array.dtype}, bytes of unknown meaning, expected real numbers; "
            "NumPy reads bfloat16 (ml_dtypes, JAX) like this: save x.astype(np.float32) instead"
        )
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name}: got type {array.dtype}, expected real numbers")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.size == 0:
        raise ValueError(f"{name}: got an empty array of shape {array.shape}, expected numbers")
    return array


def _matrix(x: ArrayLike, name: str) -> Array:
    array = _floats(x, name)
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"{name}: got shape {array.shape}, expected (n, k) with k >= 2 classes")
    return array


def _vector(array: Array, name: str, n: int | None = None) -> Array:
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name}: got shape {array.shape}, expected (n,) with n >= 1")
    if n is not None and len(array) != n:
        raise ValueError(f"{name}: got {len(array)} values, expected {n}, one for each sample")
    return array


# What to do about infinite values.
_OF_LOGITS = (
    ": -inf is the logit of a probability of 0, so pass the probabilities, with kind="
    '"probs" if there is this argument, or put a finite number in its place, as in '
    "np.maximum(x, -1e6)"
)
_OF_CONFIDENCE = (
    ": pass probabilities, or put a finite number in its place, as in np.clip(x, -1e30, 1e30)"
)


def _check_range(array: Array, name: str, unit: bool = False, hint: str = "") -> None:
    # The extremes are enough, since a NaN becomes both: no array of booleans is built.
    low, high = array.min(), array.max()
    if np.isnan(low):
        raise ValueError(f"{name}: got NaN, expected finite numbers")
    if np.isinf(low) or np.isinf(high):
        raise ValueError(f"{name}: got infinity, expected finite numbers{hint}")
    # An average of probabilities may round to just above 1.
    if unit and (low < 0 or high > 1 + 1e-6):
        raise ValueError(f"{name}: got values from {low:.6g} to {high:.6g}, expected [0, 1]")


def plain(value: Any, infinite: str | None = None) -> Any:
    """Return a value as JSON allows it.

    NaN becomes None, infinity becomes `infinite`, and an object with named fields becomes a dict.

    >>> plain({"a": np.array([1.5, np.nan]), "b": (np.int64(2), np.inf)}, "inf")
    {'a': [1.5, None], 'b': [2, 'inf']}
    """
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): plain(x, infinite) for key, x in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(x, infinite) for x in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else infinite
    return value
