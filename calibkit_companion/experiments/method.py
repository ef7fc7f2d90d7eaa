"""`Method`: an objective, an update and averaging, which are independent. Does not import torch."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from calibkit import terms
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.names import Name

AXES = {"sam": "update", "swa": "averaging"}  # the field that each word after a "+" sets


@dataclass(frozen=True)
class Method:
    """A training method: the loss of a batch, the update of the weights, and their averaging.

    Attributes
    ----------
    objective : name of a loss or objective
    options : coefficients of the objective, as pairs
    update : "sgd" or "sam"
    averaging : "none" or "swa"
    revision : version of the objective; it rises when the objective computes something else, so
        that older records belong to other runs
    """

    objective: str = "cross_entropy"
    options: tuple[tuple[str, float], ...] = ()
    update: str = "sgd"
    averaging: str = "none"
    revision: int = field(default=0, repr=False)

    @cached_property
    def name(self) -> str:
        """The shortest text that `parse` reads as this method; records and tables use this name.

        Examples
        --------
        >>> parse("erm+sam+swa").name, parse("focal(gamma=5.0)").name
        ('fmfp', 'focal(gamma=5)')
        """
        if self in _NAMES:
            return _NAMES[self]
        base, usual = self.objective, {}
        if not plugins.own(base):
            base, plain = next(
                (name, known)
                for name, known in METHODS.items()
                if known.objective == base and (known.update, known.averaging) == ("sgd", "none")
            )
            usual = dict(plain.options)
        changed = tuple(pair for pair in sorted(self.options) if usual.get(pair[0]) != pair[1])
        axes = tuple(axis for axis in (self.update, self.averaging) if axis in AXES)
        return str(Name(base, changed, axes))

    @property
    def mixes(self) -> bool:
        """Whether the objective mixes inputs; token ids cannot be mixed."""
        return self.objective.startswith(("mixup", "mit"))


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

# The name of each method; a method with two names has the first of them.
_NAMES = {method: name for name, method in reversed(METHODS.items())}

# Forward and backward passes of a sample in a step, by objective. Objectives that are not listed
# take one of each. `trials` adds the passes of a user's method.
PASSES = {"cs_kd": (2, 1), "mit_l": (2, 2), "mit_a": (2, 2)}


def parse(text: str) -> Method:
    """Read a method from text: a name, options in brackets, and "sam" or "swa" after a `+`.

    Parameters
    ----------
    text : a name of `METHODS` or ``FILE.py:NAME`` (see `plugins`), such as "focal(gamma=5)+sam"

    Raises
    ------
    ValueError
        A name, an option or a word after a `+` is unknown; the message lists valid ones.

    Examples
    --------
    >>> parse("focal(gamma=5)+sam")
    Method(objective='focal', options=(('gamma', 5.0),), update='sam', averaging='none')
    >>> parse("erm+sam+swa") == parse("fmfp")
    True
    """
    name = Name.read(text)
    if plugins.own(name.base):  # options of a user's method are checked before training
        method = Method(plugins.named(name.base), name.options)
    else:
        terms.choose("method", name.base, METHODS, "calibkit train --help")
        method = METHODS[name.base]
        options = dict(method.options)
        for option, number in name.options:
            terms.choose(f"option of {name.base}", option, options)
            options[option] = number
        method = replace(method, options=tuple(sorted(options.items())))
    for axis in name.axes:
        terms.choose("axis", axis, AXES)
        method = replace(method, **{AXES[axis]: axis})
    return method


def is_method(text: str) -> bool:
    """Whether a text names a known method or a user's file; options are not checked.

    Parameters
    ----------
    text : any text

    Examples
    --------
    >>> is_method("focal(gamma=5)"), is_method("mnist1d-cnn-erm-s0-1a2b3c4d")
    (True, False)
    """
    try:
        base = Name.read(text).base
    except ValueError:
        return False
    return base in METHODS or plugins.own(base)


def parsed(methods: Iterable[str | Method]) -> tuple[Method, ...]:
    """Read several methods from text.

    Parameters
    ----------
    methods : texts as in `parse`; a `Method` stays as it is
    """
    return tuple(parse(each) if isinstance(each, str) else each for each in methods)


def method_name(method: Method) -> str:
    """Return the name of a method: an alias for old code, which version 0.3 removes.

    Parameters
    ----------
    method : the method
    """
    return method.name


method = parse  # an alias for old code, which version 0.3 removes
