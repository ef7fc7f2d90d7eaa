"""Read and write the names of methods and networks: ``NAME(option=number)+axis``.

Imports the standard library only.
"""

import re
from dataclasses import dataclass
from math import isfinite

_PATTERN = re.compile(r"\s*((?:.*\.py:)?\w+(?:[@:]\w+)?)\s*(?:\(([^()]*)\))?((?:\s*\+\s*\w+)*)\s*")


@dataclass(frozen=True)
class Name:
    """The parts of a written name; `str` puts them together again.

    Attributes
    ----------
    base : name without options: "focal", "vgg16_bn:WEIGHTS", or "FILE.py:NAME" for a user's file
    options : pairs of an option and its number, sorted
    axes : the words after each "+", such as "sam"

    Examples
    --------
    >>> Name.read(" focal ( gamma = 5.0 ) + sam ")
    Name(base='focal', options=(('gamma', 5.0),), axes=('sam',))
    >>> str(Name.read("my_net.py:build(width=64.0)"))
    'my_net.py:build(width=64)'
    """

    base: str
    options: tuple[tuple[str, float], ...] = ()
    axes: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, kind: str = "method") -> "Name":
        """Split a text into the parts of a name.

        Parameters
        ----------
        text : a text such as "focal(gamma=5)+sam"
        kind : "method" or "network", for the error

        Raises
        ------
        ValueError
            The text is not a valid name, or an option is not a finite number.
        """
        match = _PATTERN.fullmatch(text)
        if not match:
            form = ", name+sam+swa" if kind == "method" else ""
            raise ValueError(
                f"{kind}: got {text!r}, expected name, name(option=number){form}; FILE.py:NAME for "
                "one of your own"
            )
        base, inner, axes = match.groups()
        numbers = dict(_option(base, part) for part in (inner or "").split(",") if part.strip())
        return cls(base, tuple(sorted(numbers.items())), tuple(re.findall(r"\w+", axes)))

    def __str__(self) -> str:
        inner = ",".join(f"{option}={number:g}" for option, number in self.options)
        return "+".join((f"{self.base}({inner})" if inner else self.base, *self.axes))


def _option(base: str, text: str) -> tuple[str, float]:
    """Split ``gamma=3`` into the option and its number; `base` is for the error."""
    option, _, value = (part.strip() for part in text.partition("="))
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not (option.isidentifier() and isfinite(number)):
        raise ValueError(f"option {option} of {base}: got {value!r}, expected a finite number")
    return option, number
