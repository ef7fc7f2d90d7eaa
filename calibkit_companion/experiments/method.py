"""A method has three independent axes: objective, update, averaging. Free of torch."""

import re
from dataclasses import dataclass, field, replace
from functools import cache

from calibkit import terms
from calibkit_companion.experiments import plugins


@dataclass(frozen=True)
class Method:
    """How a batch is scored, how the weights are updated, and whether they are averaged.

    Attributes
    ----------
    objective : name of a loss or objective
    options : coefficients of the objective, as pairs
    update : "sgd" or "sam"
    averaging : "none" or "swa"
    revision : raised when the objective computes something else; older records are then other runs
    """

    objective: str = "cross_entropy"
    options: tuple[tuple[str, float], ...] = ()  # of the objective
    update: str = "sgd"  # or "sam"
    averaging: str = "none"  # or "swa"
    # Raised when what the objective computes changes: older records then belong to another run.
    revision: int = field(default=0, repr=False)


METHODS: dict[str, Method] = {
    name: Method(
        known.objective or name,
        tuple(sorted(known.options.items())),
        known.update,
        known.averaging,
        known.revision,
    )
    for name, known in terms.METHODS.items()
}

_NAMES = {recipe: name for name, recipe in reversed(METHODS.items())}  # of two, the first

# Forward and backward passes of a sample in a step, by objective; others take one of each. `trials`
# adds those of a user's method.
PASSES = {"cs_kd": (2, 1), "mit_l": (2, 2), "mit_a": (2, 2)}


def method(text: str) -> Method:
    """Read a method: a name, options in brackets, further axes after `+`.

    Parameters
    ----------
    text : a name of `METHODS` or ``FILE.py:NAME`` (see `plugins`), such as "focal(gamma=5)+sam"

    Raises
    ------
    ValueError
        An unknown name, option or axis; the line names valid ones.

    Examples
    --------
    >>> method("focal(gamma=5)+sam")
    Method(objective='focal', options=(('gamma', 5.0),), update='sam', averaging='none')
    >>> method("erm+sam+swa") == method("fmfp")
    True
    """
    match = re.fullmatch(
        r"\s*((?:.*\.py:)?\w+(?:@\w+)?)\s*(?:\(([^()]*)\))?((?:\s*\+\s*\w+)*)\s*", text
    )
    if not match:
        raise ValueError(
            f"method: got {text!r}, expected name, name(option=number), name+sam+swa; "
            "FILE.py:NAME for one of your own"
        )
    name, inner, axes = match.groups()
    return _recipe(plugins.named(name), inner, axes)


@cache
def _recipe(name: str, inner: str | None, axes: str) -> Method:
    chosen = plugins.options(name, inner)
    if plugins.own(name):  # its options are checked when it is trained
        parsed = Method(name, tuple(sorted(chosen.items())))
    else:
        terms.choose("method", name, METHODS, "calibkit train --help")
        parsed, options = METHODS[name], dict(METHODS[name].options)
        for key in chosen:
            terms.choose(f"option of {name}", key, options)
        parsed = replace(parsed, options=tuple(sorted((options | chosen).items())))
    for axis in filter(None, (a.strip() for a in axes.split("+"))):
        terms.choose("axis", axis, ("sam", "swa"))
        parsed = replace(parsed, **({"update": "sam"} if axis == "sam" else {"averaging": "swa"}))
    return parsed


def method_name(recipe: Method) -> str:
    """The shortest text from which `method` gives a method.

    Parameters
    ----------
    recipe : the method
    """
    if recipe in _NAMES:
        return _NAMES[recipe]
    if plugins.own(recipe.objective):
        name, usual = recipe.objective, {}
    else:
        name, usual = next(
            (n, dict(k.options))
            for n, k in METHODS.items()
            if k.objective == recipe.objective and (k.update, k.averaging) == ("sgd", "none")
        )
    return (
        plugins.joined(name, {k: v for k, v in recipe.options if usual.get(k) != v})
        + ("+sam" if recipe.update == "sam" else "")
        + ("+swa" if recipe.averaging == "swa" else "")
    )
