"""Data sets: find or download them, check and decode them, and split them.

>>> from calibkit_companion import data
>>> len(data.load("gaussians", train_size=300).train)
300
"""

from importlib import import_module

__all__ = (
    "Dataset LeakWarning Split augment_crop_flip gaussian_posterior get listing load normalise"
).split()


def __getattr__(name: str):
    if name in __all__:  # imported on demand: it needs torch
        return getattr(import_module("calibkit_companion.data.splits"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
