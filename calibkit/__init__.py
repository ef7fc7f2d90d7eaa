"""Trustworthy confidence of neural classifiers: metrics, losses, recalibration, a report.

Modules are imported on first use: ``calibkit.metrics`` loads NumPy and nothing heavier.
"""

from importlib import import_module
from types import ModuleType

__version__ = "0.2.0"
__all__ = [
    "confidence",
    "explorable",
    "losses",
    "metrics",
    "plots",
    "posthoc",
    "report",
    "stats",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__ or name == "data":  # `data` moved
        with import_module("calibkit.terms").extras():
            return import_module(f"calibkit.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
