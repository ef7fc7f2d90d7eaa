"""Import `torchvision` even if its compiled operators do not fit the installed torch.

PyPI's torchvision is built for CUDA. With a torch for the CPU its compiled library does not load,
and ``import torchvision`` fails because an operator is missing (``torchvision::nms``). calibkit
uses only parts of torchvision in plain Python: data sets, network blocks and transforms. So this
module declares the missing operators, which lets the import succeed. The operators themselves
cannot be called.

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
    """Declare the operators if the compiled library does not load.

    The operators exist as long as the returned object does.
    """
    spec = find_spec("torchvision")
    folders = spec.submodule_search_locations if spec else ()
    for compiled in (file for folder in folders for file in Path(folder).glob("_C*")):
        try:
            torch.ops.load_library(compiled)  # torchvision loads it again, which does nothing
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
