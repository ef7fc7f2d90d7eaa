"""How methods and networks are written: ``NAME(option=number)+axis``. Read and written only here.

Imports the standard library only.
"""

import re
from dataclasses import dataclass
from math import isfinite

_PATTERN = re.compile(r"\s*((?:.*\.py:)?\w+(?:[@:]\w+)?)\s*(?:\(([^()]*)\))?((?:\s*\+\s*\w+)*)\s*")


@dataclass(frozen=True)
class Name:
    """A written name in its parts; `str` puts them together again.

    Attributes
    ----------
    base : without options: "focal", "vgg16_bn:WEIGHTS", or "FILE.py:NAME" of a user's file
    options : pairs of an option and its number, sorted
    axes : what stands after each "+"

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
        """Take a text apart.

        Parameters
        ----------
        text : such as "focal(gamma=5)+sam"
        kind : what it is the name of, for errors

        Raises
        ------
        ValueError
            The text is no name, or an option is not a finite number.
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
    """An option and its number, from ``gamma=3``."""
    option, _, value = (part.strip() for part in text.partition("="))
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not (option.isidentifier() and isfinite(number)):
        raise ValueError(f"option {option} of {base}: got {value!r}, expected a finite number")
    return option, number
