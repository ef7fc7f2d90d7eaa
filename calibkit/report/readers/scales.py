"""Tell from the values whether numbers are probabilities, percentages, logits or codes."""

import numpy as np

from calibkit.arrays import Array, row_sums
from calibkit.precision import Precision

SLACK = 1e-4  # how far float32 sums, or a library's smoothing, may lead outside of 0 to 1


def check_type(array: Array, name: str) -> Array:
    """Return scores in a type that NumPy knows; `ValueError` for other types and for codes.

    Numbers of ml_dtypes (bfloat16, float8) in memory become float32. A file does not keep their
    type, so there they are refused.
    """
    if array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return array.astype(np.float32)
    if array.dtype.kind == "V":
        kind = "bfloat16 of ml_dtypes" if array.dtype.itemsize == 2 else "a type of ml_dtypes"
        raise ValueError(
            f"{name}: got type {array.dtype}, numbers of {8 * array.dtype.itemsize} bits that "
            f"NumPy does not know (probably {kind}): save x.astype(np.float32)"
        )
    if array.dtype.kind in "iu" and array.dtype.itemsize == 1 and not np.isin(array, (0, 1)).all():
        raise ValueError(codes(name, str(array.dtype)))
    return array


LARGEST = 1e150  # its square is still finite, and so are sums of many squares


def of_a_size(scores: Array, name: str) -> Array:
    """Logits (n, k) whose differences and squares are finite; `ValueError` if there are none.

    Very large logits become float64. The lowest float, which often masks a class, becomes
    `-LARGEST`: its probability is 0, too.
    """
    low, high = float(scores.min()), float(scores.max())
    if scores.dtype != np.float64 and max(-low, high) > 1e18:
        scores = scores.astype(np.float64)
    if max(-low, high) <= LARGEST:
        return scores
    top = scores.max(axis=1)
    if np.abs(top).max() > LARGEST:
        raise ValueError(
            f"{name}: got values from {low:.3g} to {high:.3g}, expected scores of at most "
            f"{LARGEST:g}: divide all of them by one number, such as the largest"
        )
    return np.maximum(scores, -LARGEST)


def codes(name: str, what: str) -> str:
    """The error message for the codes of a quantised model; `what` is their type or range."""
    return (
        f"{name}: got whole numbers of one byte ({what}), the codes of a quantised model: save "
        "(code - zero point) * scale, which its runtime knows"
    )


def are_codes(scores: Array) -> bool:
    """Whether scores are whole numbers that fit into a byte and spread over more than 20."""
    if scores.dtype.kind not in "fiu" or not scores.size:
        return False
    low, high = scores.min(), scores.max()
    size = (0 <= low and 1 < high <= 255) or (-128 <= low and high <= 127)
    return bool(size and high - low > 20 and (scores == np.round(scores)).all())


def clipped(values: Array, name: str, notes: list[str]) -> Array:
    """Values, of which those outside of 0 to 1 by at most `SLACK` become 0 or 1, with a note."""
    if values.dtype.kind != "f" or not values.size:
        return values
    low, high = values.min(), values.max()
    if not (-SLACK <= low and high <= 1 + SLACK) or (low >= 0 and high <= 1):
        return values
    odd, off = int(((values < 0) | (values > 1)).sum()), max(-low, high - 1)
    if off > 1e-6:
        notes.append(
            f"{name}: {odd:,} of {values.size:,} values are outside of 0 to 1, by at most "
            f"{off:.1g}, and were read as 0 or 1."
        )
    return values.clip(0, 1)


def is_percent(values: Array, name: str = "") -> bool:
    """Whether values (n,) from 0 to 100 are percentages: the largest is above 50.

    If the name says "percent", a largest value above 1 is enough.
    """
    if values.dtype.kind not in "fiu" or not values.size:
        return False
    low, high = values.min(), values.max()
    said = any(word in name.lower() for word in ("percent", "pct", "%"))
    return bool(0 <= low and (50 if not said else 1) < high <= 100 * (1 + SLACK))


def is_percent_rows(scores: Array) -> bool:
    """Whether rows (n, k) sum to 100, but for rounding, and hold no negative number."""
    if scores.dtype.kind not in "fiu" or scores.ndim != 2 or len(scores) < 2:
        return False
    if scores.shape[1] < 2 or not scores.min() >= 0:
        return False
    off = np.abs(row_sums(scores.astype(np.float64)) - 100).max()
    whole = bool((scores == np.round(scores)).all())  # each may be off by a half
    return bool(off <= (min(0.5 * scores.shape[1], 5) if whole else 0.2))


def of_percent(values: Array, name: str, notes: list[str]) -> Array:
    """Percentages divided by 100, with a note."""
    notes.append(f"{name}: read as percentages, divided by 100.")
    return values / (np.float32(100) if values.dtype == np.float32 else 100.0)


def unit(values: Array, name: str, notes: list[str]) -> Array:
    """Probabilities (n,) or (n, k): percentages are divided by 100, then `clipped`."""
    if values.ndim == 2:
        percent = is_percent_rows(values) and values.max() > 1 + SLACK
    else:
        percent = is_percent(values, name)
    return clipped(of_percent(values, name, notes) if percent else values, name, notes)


def weak_logits(values: Array, name: str) -> bool:
    """Whether a column (n,) named ``score`` or the like holds logits, judging by its values.

    Logits have values below 0, where the other class is more probable. False for values from 0 to
    1 and for percentages. `ValueError` for other values.
    """
    if values.dtype.kind not in "fiu" or values.ndim != 1 or len(values) < 2 or values.min() < 0:
        return True
    if values.max() <= 1 + SLACK:
        return False
    if is_percent(values, name):
        return False
    raise ValueError(
        f"{name}: got values from {values.min():.6g} to {values.max():.6g}, none below 0 as logits "
        f"of the less probable class are: if they are logits, say --column logits={name}; "
        "probabilities are from 0 to 1, percentages to 100"
    )


def rows_of_one(probs: Array, name: str, kind: Precision, notes: list[str]) -> Array:
    """Probabilities (n, k), with each row divided by its sum if rounding explains that it is off 1.

    `kind` says how the probabilities were rounded.
    """
    sums = row_sums(probs)
    off = np.abs(sums - 1).max() if np.isfinite(sums).all() and probs.size else np.inf
    if off <= 1e-3 or off > kind.off_by(probs.shape[1]):
        return probs
    why = kind.words if kind.half else "are rounded"
    notes.append(f"The {name} {why}: each row was divided by its sum.")
    return probs / sums[:, None]


def coarse(probs: Array, name: str, kind: Precision) -> list[str]:
    """A sentence, in a list, on what half precision does to probabilities (n, k); or none."""
    if not kind.half or len(probs) < 20:
        return []
    top = probs.max(axis=1)
    ones, distinct = int((top == 1).sum()), len(np.unique(top[top < 1]))
    if kind.kind == "float16" and ones < 0.01 * len(top):
        return []
    return [
        f"The {name} have the coarse precision of {kind.kind}: {ones:,} of {len(top):,} "
        f"confidences are exactly 1, and the others have {distinct:,} distinct values. Samples "
        "tie, so AURC and thresholds are coarse, too; save the logits in float32."
    ]


def of_zeros(probs: Array, name: str, kind: Precision) -> list[str]:
    """A sentence, in a list, on how zeros that come from rounding or counting count; or none."""
    zeros = int((probs == 0).sum())
    if not zeros or not kind.coarse:
        return []
    below = kind.floor.row
    if kind.kind == "decimals":
        means = f", which may be anything below {below:.{kind.count + 1}f}"
    elif kind.kind == "steps":
        means = f", which may be anything below 1/{2 * kind.count}"
    else:
        means = ""
    if kind.kind == "votes":
        counts = "Each counts as half a vote, those of a row as one at most"
    else:
        counts = f"The zeros of a row share {'that much' if means else f'{below:.1g}'}"
    return [
        f"The {name} {kind.words}, and {zeros:,} of {probs.size:,} are 0{means}. {counts}, so NLL "
        "and temperature are approximate; save the logits for exact ones."
    ]


def no_distribution(probs: Array, name: str) -> str:
    """The error message for rows (n, k) from 0 to 1 that do not sum to 1; "" for other rows."""
    if probs.dtype.kind not in "fiu" or probs.ndim != 2 or not probs.size:
        return ""
    sums = row_sums(probs)
    if not (probs.min() >= 0 and probs.max() <= 1 + SLACK and np.isfinite(sums).all()):
        return ""
    if sums.max() <= 1 + 1e-3:
        return (
            f"{name}: got rows that sum to {sums.min():.3g} to {sums.max():.3g}: if classes are "
            "left out, as in a top-5 list, save all of them"
        )
    return (
        f"{name}: got rows that sum to {sums.min():.3g} to {sums.max():.3g}, each value from 0 to "
        "1: one class against the rest? Divide each row by its sum (--as-is does so, if all sums "
        "are within 0.05 of 1), or save log(p / (1 - p)) as logits, or save the highest of each "
        "row as confidence, with correct; for multi-label data, --one-label NAME takes one label"
    )


def log_fillers(logits: Array) -> Array | None:
    """The probabilities (n, k) whose logarithms `logits` are, if a filler stands for log 0.

    ``numpy.nan_to_num`` and ``numpy.clip`` write such fillers: the lowest float, or -1e9. None if
    there is no filler.
    """
    if logits.dtype.kind != "f" or logits.ndim != 2 or not logits.size or np.isnan(logits).any():
        return None
    low = logits.min()
    at = int((logits == low).sum())
    if logits.max() > 1e-3 or low > -30 or (at < 2 and low > -6e4):
        return None
    probs = np.exp(np.where(logits == low, -np.inf, logits).astype(np.float64))
    if np.abs(row_sums(probs) - 1).max() > 1e-3:
        return None
    return probs.clip(0, 1).astype(logits.dtype)


def two_columns(logits: Array, name: str, notes: list[str]) -> None:
    """Note that two columns of logits (n, 2) are negatives of each other.

    `ValueError` if one column is 1 minus the other.
    """
    if logits.ndim != 2 or logits.shape[1] != 2 or len(logits) < 2:
        return
    total, size = logits.sum(axis=1), np.abs(logits).max()
    if size and np.abs(total - 1).max() <= 1e-5 * max(size, 1) and np.ptp(logits) > 0:
        raise ValueError(
            f"{name}: got rows that sum to 1 with values from {logits.min():.3g} to "
            f"{logits.max():.3g}: column 0 is 1 minus column 1. Save column 1 alone, (n,)"
        )
    if size and np.abs(total).max() <= 1e-6 * size:
        notes.append(
            f"The two columns of {name} are negatives of each other, so the probability of class 1 "
            "is sigmoid(2 d) of column 1. If d is itself a logit, save column 1 alone."
        )
