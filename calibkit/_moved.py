"""Old module names that still work, with a warning that names the new place."""

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


class Forwarder(MetaPathFinder, Loader):
    """Finds the modules below a package that moved.

    Parameters
    ----------
    package : old name of the package, such as ``calibkit.companion``
    places : for each old name below the package, the new names of the modules that it became, with
        spaces between; "" is the package itself
    """

    def __init__(self, package: str, places: dict[str, str]):
        self.package, self.places = package, places

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        """The specification of an old name; None if it is not one."""
        known = name.removeprefix(f"{self.package}.") in self.places
        return ModuleSpec(name, self, is_package=True) if known else None

    def exec_module(self, module: ModuleType) -> None:
        """Let a module below the package hand on the names of its new places."""
        hand_on(module, self.places[module.__name__.removeprefix(f"{self.package}.")])


def hand_on(module: ModuleType, places: str) -> None:
    """Warn that a module moved, and look its names up in the new places."""
    new = places.split()
    message = f"{module.__name__} moved to {' and '.join(new)}; the old name ends with version 0.3"
    _warn(message)

    def named(name: str):
        for place in new:
            if not name.startswith("__") and hasattr(found := import_module(place), name):
                return getattr(found, name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = named


def forward(name: str, places: dict[str, str]) -> None:
    """Make the module `name`, which is being imported, an old name; `places` as in `Forwarder`."""
    sys.meta_path.append(Forwarder(name, places))
    sys.modules[name].__path__ = []  # so that Python looks for modules below it
    hand_on(sys.modules[name], places[""])


def _warn(message: str) -> None:
    """Warn of the line outside this package that imports an old name."""
    frame, here = sys._getframe(1), str(Path(__file__).parent)
    while frame.f_back and (
        frame.f_code.co_filename.startswith(here) or "importlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    where, names = frame.f_code.co_filename, frame.f_globals
    warnings.warn_explicit(
        *(message, DeprecationWarning, where, frame.f_lineno, names.get("__name__")),
        registry=names.setdefault("__warningregistry__", {}),
    )


def names_moved(module: str, names: tuple[str, ...], place: str) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that looks up names which moved to another module, and warns."""

    def named(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name} moved to {place}; the old name ends with version 0.3")
        return getattr(import_module(place), name)

    return named
