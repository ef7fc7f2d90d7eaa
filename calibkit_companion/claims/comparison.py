"""One number against another, or against a constant, and where a paper puts it."""

from dataclasses import dataclass
from typing import NamedTuple

from calibkit_companion.results.number import Number

SIDES = ("below", "above", "near", "at most", "at least")


class Side(NamedTuple):
    """Whose number: that of a method, or of a difference of two, perhaps on own data.

    With `lowest` it is the coefficient of the one of these methods whose number is lowest.
    """

    method: str
    number: Number
    minus: str = ""
    dataset: str = ""
    network: str = ""
    size: str = ""  # "smallest" or "largest" training set of the edition
    lowest: tuple[str, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        return self.lowest or tuple(filter(None, (self.method, self.minus)))


@dataclass(frozen=True)
class Comparison:
    """One number against another, or against a constant, and where the paper puts it."""

    first: Side
    second: Side | float
    side: str
    margin: float = 0.0
    # Only at coverages that reject so many times what plain training gets wrong.
    rejects: float = 0.0
    calibrating: bool = False  # only of a method that lowers the calibration error

    @property
    def sides(self) -> list[Side]:
        return [s for s in (self.first, self.second) if isinstance(s, Side)]


@dataclass(frozen=True)
class Computed:
    """A number of `calibkit_companion.claims.derivations`."""

    name: str
    side: str
    margin: float = 0.0
    says: str = ""
