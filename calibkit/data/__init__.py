"""Data sets: found or fetched, checked, read, split, and kept decoded.

>>> from calibkit import data
>>> len(data.load("gaussians", train_size=300).train)
300
"""

from importlib import import_module

_HOMES = dict.fromkeys(
    (
        "Dataset",
        "LeakWarning",
        "Split",
        "augment_crop_flip",
        "gaussian_posterior",
        "get",
        "listing",
        "load",
        "normalise",
    ),
    "splits",
)
__all__ = list(_HOMES)


def __getattr__(name: str):
    if name in _HOMES:  # imported on demand: most of it needs torch
        return getattr(import_module(f"calibkit.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
