"""Conditions on a report's numbers, for ``--fail-if``: ``excess_ece>0.05``."""

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple

_SIGNS = {">=": ge, "<=": le, "==": eq, "!=": ne, ">": gt, "<": lt}
FAILED = 3  # exit code
# Metrics of the answer that `compare` no longer has for two classes, and those of the probability.
OF_ANSWERS = {"accuracy": "brier", "aurc": "auroc", "fpr_at_tpr": "auroc"}


class Condition(NamedTuple):
    """A number of a report, a comparison, and what to compare it with."""

    text: str
    key: str
    sign: str
    limit: float


def parse(text: str) -> Condition:
    """Read a condition such as ``excess_ece>0.05``: the path of a number, a comparison, a limit.

    A path follows the keys of the JSON file, with dots between them. ``metrics.`` before a metric
    and ``.estimate`` after an interval may be left out.

    Raises
    ------
    ValueError
        The text is no condition. The message has one line.

    Examples
    --------
    >>> parse("metrics.ece.low > 0.02")[1:]
    ('metrics.ece.low', '>', 0.02)
    """
    found = re.fullmatch(rf"\s*([\w. -]*[\w])\s*({'|'.join(_SIGNS)})\s*(\S+)\s*", text)
    try:
        limit = float(found[3])
        if math.isnan(limit):  # no number is above it, or below
            raise ValueError
        return Condition(text.strip(), found[1].strip(), found[2], limit)
    except (TypeError, ValueError):
        message = f"fail-if: got {text!r}, expected a condition such as 'excess_ece>0.05'"
        raise ValueError(message) from None


def failures(numbers: Mapping[str, Any], conditions: list[Condition]) -> list[str]:
    """Return a line for each condition that is met, or whose number is undefined.

    Parameters
    ----------
    numbers : mapping
        The content of the report's JSON file.
    conditions : list of Condition

    Returns
    -------
    list of str
        Empty if no condition is met.

    Raises
    ------
    ValueError
        The report has no such key, or its value is no number.

    Examples
    --------
    >>> numbers = {"errors": 3, "metrics": {"ece": {"estimate": 0.08, "low": 0.07, "high": 0.09}}}
    >>> failures(numbers, [parse("ece>0.05"), parse("metrics.ece.low>0.05"), parse("errors>5")])
    ['ece is 0.08 (ece>0.05)', 'metrics.ece.low is 0.07 (metrics.ece.low>0.05)']
    """
    lines = []
    for condition in conditions:
        value = _number(numbers, condition.key)
        if value is None:
            lines.append(f"{condition.key} is undefined ({condition.text})")
        elif _SIGNS[condition.sign](value, condition.limit):
            lines.append(f"{condition.key} is {value:.6g} ({condition.text})")
    return lines


def _number(numbers: Mapping[str, Any], key: str) -> float | None:
    places = [numbers, numbers.get("metrics") or {}]
    for place in places:
        try:
            value = place
            for part in key.split("."):
                value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, TypeError, ValueError, IndexError):
            continue
        if isinstance(value, Mapping) and "estimate" in value:
            value = value["estimate"]
        if value == "inf":
            value = float("inf")
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        raise ValueError(f"fail-if: {key} is no number in the report")
    raise ValueError(f"fail-if: no number {key!r} in the report; {_hint(numbers, key)}")


def _hint(numbers: Mapping[str, Any], key: str) -> str:
    """The end of an error: the numbers of the report whose keys resemble `key`."""
    place, _, name = key.rpartition(".")
    if numbers.get("pairs") and numbers.get("positive") and name in OF_ANSWERS:
        new = ".".join(filter(None, [place, OF_ANSWERS[name]]))
        return (
            f"of two classes, the probability of {numbers['positive']!r} is compared since version "
            f"0.2: take {new!r}"
        )
    near = get_close_matches(key, [*numbers, *(numbers.get("metrics") or {})], n=3)
    return f"did you mean {', '.join(near)}?" if near else "the JSON file beside the page has them"
