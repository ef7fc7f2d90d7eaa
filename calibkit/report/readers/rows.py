"""Check and mend rows of scores: too many axes, rows of zeros, values below 0 or above 1."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from calibkit.arrays import Array, ArrayLike, blocks, row_sums, to_numpy
from calibkit.report.names import Naming, first_three
from calibkit.report.readers.scales import SLACK, log_fillers
from calibkit.report.readers.vocabulary import WHOLE

Arrays: TypeAlias = Mapping[str, ArrayLike]
BEYOND = 0.05  # how far a value may be outside of 0 to 1, or a sum from 1, to be mended by `as_is`
CLOSE = 0.02  # how far the sum of a row may be from 1 for the row to count as probabilities


def checked(arrays: Arrays, as_is: bool, notes: list[str]) -> Arrays:
    """Mend the scores among the arrays of a file, or refuse them.

    A row of zeros holds no prediction and is left out. With `as_is`, a value that is at most
    `BEYOND` outside of 0 to 1 becomes 0 or 1, and a row whose sum is that close to 1 is divided by
    its sum.

    Parameters
    ----------
    arrays : mapping of str to array
        By our names: "logits", "labels", "val_probs" and so on.
    as_is : bool
        Whether to read values that are slightly off.
    notes : list of str
        Sentences for the user are added here.

    Returns
    -------
    mapping of str to array
        The same names; scores are (n, k) or (n,).

    Raises
    ------
    ValueError
        The scores cannot be read. The error says how to save or read them.
    """
    for prefix in ("", "val_"):
        for key in (prefix + "logits", prefix + "probs", prefix + "confidence"):
            if key not in arrays:
                continue
            scores = to_numpy(arrays[key], key)
            if scores.dtype.kind not in "fiu" or not scores.size:
                continue
            if scores.ndim > 2:
                scores = _two_axes(scores, key, arrays.get(prefix + "labels"), notes)
                arrays = {**arrays, key: scores}
            probs = not key.endswith("logits") or _mostly_probs(scores, key)
            if not probs:
                _check_finite(scores, key)
                continue
            if scores.ndim == 2 and scores.shape[1] > 1:
                arrays = _without_zeros(arrays, prefix, key, scores, notes)
                scores = to_numpy(arrays[key], key)
            if _just_beyond(scores):
                arrays = {**arrays, key: _within(scores, key, as_is, notes)}
            elif as_is and (sums := _odd_sums(scores)) is not None:
                notes.append(
                    f"{key}: got rows that sum to {sums.min():.4g} to {sums.max():.4g}: each was "
                    "divided by its sum."
                )
                arrays = {**arrays, key: scores / sums[:, None]}
            if key.endswith("logits") and _odd_sums(scores) is not None:
                notes.append(f"The rows of {key} nearly sum to 1 and were read as probabilities.")
                found = {k: x for k, x in arrays.items() if k != key}
                arrays = found | {prefix + "probs": arrays[key]}
    return arrays


def _odd_sums(scores: Array) -> Array | None:
    """The sums of rows (n, k) of probabilities that are up to `BEYOND` off 1; otherwise None."""
    if scores.ndim != 2 or scores.shape[1] < 2 or scores.min() < 0:
        return None
    sums = row_sums(scores.astype(np.float64))
    off = np.abs(sums - 1).max()
    return sums if 1e-3 < off <= BEYOND else None


def _check_finite(scores: Array, name: str) -> None:
    """Raise `ValueError` for infinite logits, unless they stand for log 0 in log-probabilities."""
    if not np.isinf(scores).any() or log_fillers(scores) is not None:
        return
    at = int(np.isinf(scores.reshape(len(scores), -1)).any(axis=1).argmax()) + 1
    raise ValueError(
        f"{name}: got infinity in row {at}, expected finite numbers: -inf is the logit of a "
        f"probability of 0, for which -1e4 does: save np.clip({name}, -1e4, 1e4)"
    )


def _two_axes(scores: Array, name: str, labels: "ArrayLike | None", notes: list[str]) -> Array:
    if scores.shape[1:-1] == (1,) * (scores.ndim - 2):
        notes.append(
            f"The {name} of shape {scores.shape} were read without their axis of length 1."
        )
        return scores.reshape(len(scores), scores.shape[-1])
    what = f"{name}: got shape {scores.shape}, expected (n, k)"
    shape = np.shape(to_numpy(labels, "labels")) if labels is not None else ()
    if scores.ndim == 3 and shape == scores.shape[1:2]:
        raise ValueError(
            f"{what}, and {shape[0]:,} labels: if the first axis is of {len(scores)} models or "
            f"passes, save their mean, {name}.mean(axis=0)"
        )
    if scores.ndim == 3:
        raise ValueError(
            f"{what}; if these are scores of tokens, with a label for each, say so (--tokens)"
        )
    raise ValueError(
        f"{what}; if these are scores of pixels, --tokens takes each as a sample, and a random "
        "part of them is enough: save x[rows] with their labels"
    )


def _mostly_probs(scores: Array, name: str) -> bool:
    """Whether scores that are named logits are probabilities, since over 90 % of rows sum to 1.

    `ValueError` if so and the other rows are no probabilities.
    """
    if scores.ndim != 2 or scores.shape[1] < 2 or len(scores) < 2:
        return False
    fine, empty = np.empty((2, len(scores)), bool)
    for rows in blocks(*scores.shape):
        part = scores[rows]
        inside = (part >= -BEYOND).all(axis=1) & (part <= 1 + BEYOND).all(axis=1)
        fine[rows] = inside & (np.abs(row_sums(part.astype(np.float64)) - 1) <= CLOSE)
        empty[rows] = (part == 0).all(axis=1)
    if fine.mean() <= 0.9 or not (scores >= -SLACK).all(axis=1)[fine].all():
        return False
    if odd := int((~fine & ~empty).sum()):
        at = int((~fine & ~empty).argmax())
        raise ValueError(
            f"{name}: got probabilities in most rows (from 0, with a sum of 1) and other numbers "
            f"in {odd:,} of {len(scores):,}, first in row {at + 1}: if all are probabilities, say "
            f"--column probs={name}; if all are logits, save {name} + 1, which means the same"
        )
    return True


def _without_zeros(arrays, prefix: str, key: str, scores: Array, notes: list[str]):
    empty = (scores == 0).all(axis=1)
    if not empty.any() or empty.all():
        return arrays
    n, places = len(scores), np.flatnonzero(empty) + 1
    said = f"{len(places):,} of {n:,} rows of {key} hold only zeros, which is no prediction. They "
    notes.append(
        Naming(said + "are left out, not counted as errors", f" (rows {first_three(places)})", ".")
    )
    held = {k for k in arrays if k.startswith("val_")}
    own = held if prefix else {*arrays} - held - {*WHOLE}
    return {
        k: to_numpy(x, k)[~empty] if k in own and len(to_numpy(x, k)) == n else x
        for k, x in arrays.items()
    }


def _just_beyond(scores: Array) -> bool:
    low, high = scores.min(), scores.max()
    return bool(-BEYOND <= low and high <= 1 + BEYOND and (low < -SLACK or high > 1 + SLACK))


def _within(scores: Array, name: str, as_is: bool, notes: list[str]) -> Array:
    odd = (scores < -SLACK) | (scores > 1 + SLACK)
    what = f"{name}: got values from {scores.min():.6g} to {scores.max():.6g}, expected 0 to 1"
    if not as_is:
        first = int((odd if odd.ndim == 1 else odd.any(axis=1)).argmax()) + 1
        raise ValueError(
            f"{what} ({int(odd.sum()):,} are outside, first in row {first}): --as-is reads them as "
            "0 or 1; if these are no probabilities, name them logits"
        )
    notes.append(f"{what}: {int(odd.sum()):,} were read as 0 or 1.")
    scores = scores.clip(0, 1)
    return scores if scores.ndim == 1 else scores / row_sums(scores)[:, None]
