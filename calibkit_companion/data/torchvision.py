"""`torchvision`, even with a torch that its compiled operators were not built for.

PyPI's torchvision is a CUDA build. Next to a CPU-only torch its compiled library does not load, and
``import torchvision`` then stops at the first operator it wants to describe (``torchvision::nms``).
Everything calibkit uses (data sets, network blocks, transforms) is plain Python, so it is enough to
declare the operators that the import looks up. They still cannot be called.

>>> from calibkit_companion.data.torchvision import torchvision
>>> torchvision.datasets.CIFAR10.base_folder
'cifar-10-batches-py'
"""

from importlib.util import find_spec
from pathlib import Path

import torch

_OPERATORS = ("nms", "qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def _declare_missing() -> torch.library.Library | None:
    """Declare the operators if the compiled library cannot; the answer must be kept alive."""
    spec = find_spec("torchvision")
    folders = spec.submodule_search_locations if spec else ()
    for compiled in (file for folder in folders for file in Path(folder).glob("_C*")):
        try:
            torch.ops.load_library(compiled)  # a second load, by torchvision itself, does nothing
        except OSError:
            continue
    absent = [name for name in _OPERATORS if not hasattr(torch.ops.torchvision, name)]
    if not absent:
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in absent:
        library.define(name + _SCHEMA)
    return library


_library = _declare_missing()

import torchvision  # noqa: E402
import torchvision.transforms.v2  # noqa: E402

__all__ = ["torchvision"]
