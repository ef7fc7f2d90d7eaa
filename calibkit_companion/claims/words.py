"""A comparison in words."""

from calibkit import terms
from calibkit_companion.claims.verdict import Comparison, Computed, Side
from calibkit_companion.pages import page


def coefficient(method: str) -> float:
    """The coefficient that a method's name states."""
    return float(method.rpartition("=")[2].rstrip(")"))


def _side_label(side: Side) -> str:
    if side.lowest:
        name = terms.label(side.lowest[0].partition("(")[0])
        coefficients = ", ".join(f"{coefficient(m):g}" for m in side.lowest)
        text = f"{name} ({coefficients})"
    else:
        score = {"trust_score": "Trust Score", "confidnet": "ConfidNet"}.get(side.number.score)
        text = score or terms.label(side.method)
        text += f" minus {terms.label(side.minus)}" * bool(side.minus)
    if side.dataset:
        text += f" on {terms.DATASETS.get(side.dataset, side.dataset)}"
    return text + f" with the {side.size} training set" * bool(side.size)


def described(leaf: Comparison | Computed) -> str:
    """A comparison in words, without its number.

    >>> from calibkit_companion.claims.verdict import Comparison
    >>> from calibkit_companion.results import Number
    >>> first, second = Side("cs_kd", Number("eaurc")), Side("erm", Number("eaurc"))
    >>> described(Comparison(first, second, "above"))
    'E-AURC, CS-KD minus Plain training'
    """
    if isinstance(leaf, Computed):
        return leaf.says
    first, second = leaf.first, leaf.second
    number = first.number
    if number.score != "log_odds":
        number = number._replace(score="max_probability")
    label = page.number_label(number)
    label = f"Coefficient of lowest {label}" if first.lowest else label[0].upper() + label[1:]
    of = _side_label(first)
    if not isinstance(second, Side):
        return f"{label}, {of}" + (f" minus {second:g}" if second else "")
    after = first.number.recalibration, second.number.recalibration
    if second._replace(number=first.number) == first and len(set(after)) > 1:
        other = page.number_label(second.number)
        return f"{label} minus {other}, {of}"
    if first.minus or second.minus:
        return f"{label}, ({of}) minus ({_side_label(second)})"
    if len(set(after)) > 1:
        return f"{label}, {of}, minus {page.number_label(second.number)}, {_side_label(second)}"
    return f"{label}, {of} minus {_side_label(second)}"
