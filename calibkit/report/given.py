"""Read the scores of one set: are they probabilities, logits or confidences, and how rounded?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from calibkit import precision
from calibkit.arrays import (
    Array,
    ArrayLike,
    as_confidence_correct,
    as_logits,
    as_probs,
    row_sums,
    to_numpy,
)
from calibkit.precision import Floor, Precision
from calibkit.report.names import few_of
from calibkit.report.readers import scales
from calibkit.report.readers.labels import check_one_label

_UNKNOWN = Precision("unknown", Floor(0.0, 0.0))  # until all sets are there


@dataclass(frozen=True, eq=False)
class Given:
    """Scores (n, k) of one set, the name of their array, and their rounding (None for logits)."""

    name: str
    scores: Array
    kind: Precision | None = None
    dtype: str = ""


def scores_of(arrays: Mapping[str, ArrayLike], prefix: str, notes: list[str]) -> Given:
    """Read the scores of the test set or, with the prefix "val_", of the validation set."""
    kinds = [kind for kind in ("logits", "probs") if prefix + kind in arrays]
    if not kinds or f"{prefix}labels" not in arrays:
        raise ValueError(
            f"got {few_of(arrays)}, expected {prefix}logits or {prefix}probs, and {prefix}labels "
            f"(or {prefix}confidence and {prefix}correct)"
        )
    check_one_label(arrays[f"{prefix}labels"], f"{prefix}labels")
    name = prefix + kinds[0]
    scores = scales.check_type(to_numpy(arrays[name], name), name)
    probs = name.endswith("probs")
    if scores.ndim > 2:
        raise ValueError(f"{name}: got shape {scores.shape}, expected (n, k)")
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 1 and scores.dtype.kind in "fiu" and scores.size:
        scores = _two_columns(scores, name, notes)
    if not probs:
        if (plain := scales.log_fillers(scores)) is not None:
            notes.append(
                f"The {name} are logarithms of probabilities, in which the lowest number stands "
                "for the logarithm of 0: read as these probabilities."
            )
            scores, probs = plain, True
        elif scales.is_percent_rows(scores):
            probs = True  # said where they are divided
    if not probs:
        scores = scales.of_a_size(as_logits(scores, name, kind=None), name)
        probs = len(scores) > 1 and _are_probs(scores)
        if not probs:
            scales.two_columns(scores, name, notes)
            return Given(name, scores)
        notes.append(f"The rows of {name} sum to 1 and were read as probabilities.")
    return Given(name, scales.unit(scores, name, notes), _UNKNOWN, type_of(arrays[name]))


def pair_of(arrays: Mapping[str, ArrayLike], prefix: str, notes: list[str]) -> Given:
    """Read confidences (n,) as probabilities (n, 2) of "wrong" and "right"."""
    name = f"{prefix}confidence"
    if name not in arrays or f"{prefix}correct" not in arrays:
        raise ValueError(f"got {few_of(arrays)}, expected {name} and {prefix}correct")
    given = scales.unit(scales.check_type(to_numpy(arrays[name], name), name), name, notes)
    try:
        confidence, _ = as_confidence_correct(given, arrays[f"{prefix}correct"], unit=True)
    except ValueError as error:
        values = to_numpy(arrays[name])
        logs = values.dtype.kind in "fi" and values.size and values.max() <= 0
        words = "if these are log-probabilities, name them logprob" if logs else ""
        raise ValueError(f"{prefix}{error}{_hint(values, words)}") from error
    both = np.stack([1 - confidence, confidence], axis=1).clip(0, 1)
    return Given(name, both, _UNKNOWN, type_of(arrays[name]))


def of_one_kind(given: dict[str, Given]) -> dict[str, Given]:
    """Judge the rounding of test and validation set together, so that both get the same kind."""
    probs = {prefix: its for prefix, its in given.items() if its.kind}
    if not probs:
        return given
    dtypes = {its.dtype for its in probs.values()}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    kind = precision.of(*(its.scores for its in probs.values()), dtype=dtype)
    return given | {prefix: replace(its, kind=kind) for prefix, its in probs.items()}


def logits_of(given: Given, notes: list[str]) -> Array:
    """Logits (n, k): the scores themselves, or the logarithms of probabilities. Adds notes."""
    name, scores, kind = given.name, given.scores, given.kind
    coarse = scales.coarse(scores, name, kind)
    scores = scales.rows_of_one(scores, name, kind, notes)
    try:
        scores = as_probs(scores, name)
    except ValueError as error:
        raise ValueError(_no_probs(scores, name, error)) from error
    notes += [*coarse, *scales.of_zeros(scores, name, kind)]
    return precision.log_probs(scores, kind.floor)


# --- what scores may be ---


def type_of(given: ArrayLike) -> str:
    return str(getattr(given, "dtype", ""))


def _hint(scores: Array, otherwise: str) -> str:
    """The end of an error: what scores may be that are no probabilities."""
    if scores.dtype.kind not in "fiu" or not scores.size:
        return ""
    if scores.min() >= 0 and 20 < scores.max() <= 100:
        otherwise = "divide percentages by 100"
    return f" ({otherwise})" if otherwise else ""


def _two_columns(scores: Array, name: str, notes: list[str]) -> Array:
    """Turn one column of scores (n,) into two (n, 2)."""
    probs = name.endswith("probs")
    if probs:  # before a second column is derived from them
        scores = scales.unit(scores, name, notes)
        try:
            as_confidence_correct(scores, np.zeros(len(scores), bool), unit=True)
        except ValueError as error:
            hint = _hint(scores, "if these are scores of another scale, name them logits")
            raise ValueError(f"{name}{str(error).removeprefix('confidence')}{hint}") from error
    inside = not probs and len(scores) > 1 and scores.min() >= 0 and scores.max() <= 1
    if not probs and not inside and scores.min() >= 0 and len(scores) > 1:
        notes.append(
            f"No value of {name} is below 0, as the logits of a less probable class are: are they "
            "probabilities or percentages?"
        )
    other = 1 - scores if probs or inside else np.zeros_like(scores)
    if not name.startswith("val_"):  # said once
        notes.append(f"One column of {name}: read as class 1 of two.")
    return np.stack([other, scores], axis=1)


def _no_probs(scores: Array, name: str, error: ValueError) -> str:
    """The error for rows that are no probabilities; it says what they may be."""
    if scales.are_codes(scores):
        return scales.codes(name, "-128 to 127, or 0 to 255")
    if words := scales.no_distribution(scores, name):
        return words
    return f"{error}{_hint(scores, 'if these are logits, name them logits')}"


def _are_probs(scores: Array) -> bool:
    inside = scores.min() >= 0 and scores.max() <= 1 + 1e-6
    return bool(inside and np.abs(row_sums(scores) - 1).max() <= 1e-3)
