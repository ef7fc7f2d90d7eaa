"""Comparisons and reasons in words."""

from collections.abc import Iterable

from calibkit import terms
from calibkit_companion.claims.verdict import Computed, Leaf, Side
from calibkit_companion.experiments.method import parse
from calibkit_companion.pages import page


def coefficients(methods: Iterable[str]) -> dict[str, float]:
    """Of methods that differ in one coefficient: its value for each.

    >>> coefficients(["focal(gamma=1)", "focal(gamma=3)"])
    {'focal(gamma=1)': 1.0, 'focal(gamma=3)': 3.0}
    """
    options = {method: dict(parse(method).options) for method in methods}
    first, *others = options.values()
    (varied,) = {key for other in others for key in other if other[key] != first[key]}
    return {method: float(its[varied]) for method, its in options.items()}


def listed(names: Iterable[str]) -> str:
    """Labels of methods inside a sentence, each once.

    >>> listed(["Label smoothing", "SAM", "FMFP", "SAM"])
    'label smoothing, SAM and FMFP'
    """
    *first, last = (terms.inside(name) for name in dict.fromkeys(names))
    return f"{', '.join(first)} and {last}" if first else last


def sentence(text: str) -> str:
    """A clause as a sentence: with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def grouped(reasons: Iterable[tuple[str, str]]) -> str:
    """Reasons why something lacks, each once, followed by all that it is about.

    >>> grouped([("no run of", "SAM"), ("one run only", ""), ("no run of", "FMFP")])
    'no run of SAM, FMFP; one run only'
    """
    found: dict[str, dict[str, None]] = {}
    for why, what in reasons:
        found.setdefault(why, {})[what] = None
    return "; ".join(f"{why} {', '.join(filter(None, its))}".strip() for why, its in found.items())


def _side_label(side: Side) -> str:
    """One side of a comparison in words: its method, and data of its own."""
    if side.lowest:
        name = terms.inside(terms.label(terms.parts(side.lowest[0])[0]))
        values = ", ".join(f"{value:g}" for value in coefficients(side.lowest).values())
        text = f"{name} ({values})"
    else:
        score = {"trust_score": "Trust Score", "confidnet": "ConfidNet"}.get(side.number.score)
        text = score or terms.inside(terms.label(side.method))
        text += f" minus {terms.inside(terms.label(side.minus))}" * bool(side.minus)
    if side.dataset:
        text += f" on {terms.DATASETS.get(side.dataset, side.dataset)}"
    return text + f" with the {side.size} training set" * bool(side.size)


def described(leaf: Leaf) -> str:
    """A comparison in words, without its number.

    >>> from calibkit_companion.claims.verdict import Comparison
    >>> from calibkit_companion.results import Number
    >>> first, second = Side("cs_kd", Number("eaurc")), Side("erm", Number("eaurc"))
    >>> described(Comparison(first, second, "above"))
    'E-AURC: CS-KD minus plain training'
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
        return f"{label}: {of}" + (f" minus {second:g}" if second else "")
    after = first.number.recalibration, second.number.recalibration
    if second._replace(number=first.number) == first and len(set(after)) > 1:
        other = page.number_label(second.number)
        return f"{label} minus {other}: {of}"
    if first.minus or second.minus:
        return f"{label}: ({of}) minus ({_side_label(second)})"
    if len(set(after)) > 1:
        return f"{label}: {of}, minus {page.number_label(second.number)}, {_side_label(second)}"
    return f"{label}: {of} minus {_side_label(second)}"
