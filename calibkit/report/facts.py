"""The base class of the small frozen objects that hold the numbers of a report."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any


class Facts:
    """Base class of the objects of a report; attributes can be read as keys, too.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Share(Facts):
    ...     estimate: float
    ...     target: float | None = None
    >>> Share(0.5)["estimate"], Share(0.5)._asdict()
    (0.5, {'estimate': 0.5})
    >>> "estimate" in Share(0.5), "target" in Share(0.5)
    (True, False)
    """

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._asdict())

    def _asdict(self) -> dict[str, Any]:
        """The attributes for a JSON file, without those that have their default None or False."""
        known = {field.name: field.default for field in fields(self)}  # type: ignore[arg-type]
        values = {name: getattr(self, name) for name in known}
        return {
            name: value
            for name, value in values.items()
            if not ((value is None or value is False) and value is known[name])
        }
