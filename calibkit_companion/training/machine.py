"""The training machine: whether it computes in bfloat16, its memory, and its description."""

import ctypes
import platform
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

import calibkit

try:
    import resource
except ImportError:  # Windows
    resource = None

_aten = torch.ops.aten
_PRODUCTS = {  # every sum of products in a network and in its gradient
    getattr(_aten, name).default
    for name in ("convolution", "convolution_backward", "mm", "addmm", "bmm", "baddbmm")
}


class RoundedProducts(TorchDispatchMode):
    """A mode that multiplies bfloat16 tensors in float32 and rounds the sums to bfloat16.

    A processor with bfloat16 instructions gives the same results. On other processors this mode is
    ten times as fast as PyTorch, which emulates bfloat16.
    """

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function not in _PRODUCTS or args[0].dtype != torch.bfloat16:
            return function(*args, **kwargs)
        sums = function(*tree_map_only(Tensor, Tensor.float, args), **kwargs)
        return tree_map_only(Tensor, Tensor.bfloat16, sums)


def device(name: str = "") -> torch.device:
    """Choose the device of a run.

    Parameters
    ----------
    name : name of a torch device; by default "cuda" if available, else "cpu"
    """
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def computes_bfloat16(device: torch.device) -> bool:
    """Whether a device has bfloat16 instructions; older devices emulate them.

    Parameters
    ----------
    device : a torch device
    """
    if device.type == "cuda":
        with torch.cuda.device(device):
            return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return True
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of a GPU is full.

    PyTorch's allocator raises a class of its own. CUDA, which needs memory for graphs and kernels,
    and cuBLAS and cuDNN raise a RuntimeError.

    Parameters
    ----------
    error : an error of a training step
    """
    if isinstance(error, torch.OutOfMemoryError):
        return True
    said = str(error)
    signs = ("CUDA error: out of memory", "STATUS_ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(sign in said for sign in signs)


def _processor() -> str:
    """Return the name of the processor."""
    try:  # Linux leaves platform.processor() empty
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "1 thread of " + next(x for x in lines if x.startswith("model name")).split(": ")[1]
    except (OSError, StopIteration):
        return "1 thread of " + (platform.processor() or "a processor")


def keep_memory() -> None:
    """Tell glibc to keep freed memory, which saves a sixth of the training time.

    Otherwise every training step requests the same memory from the system again. With another C
    library nothing happens.
    """
    with suppress(OSError, AttributeError):  # the C library is not glibc
        libc = ctypes.CDLL("libc.so.6")
        trim_threshold, mmap_max = -1, -4  # names in mallopt(3)
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, (1 << 31) - 1)


def describe(device: torch.device) -> dict:
    """Describe the machine for a record: versions, device and peak memory.

    Parameters
    ----------
    device : the torch device of the run

    Returns
    -------
    dict
        ``device``, ``peak_memory_mb`` (MiB; None where it is not known), ``commit``, and the
        versions of calibkit, torch, numpy and python.
    """
    checkout = Path(__file__).resolve().parent
    ask, commit = ["git", "-C", checkout, "rev-parse", "--short", "HEAD"], ""
    with suppress(OSError):  # git is not installed
        commit = subprocess.run(ask, capture_output=True, text=True).stdout.strip()
    cuda = device.type == "cuda"
    peak = (
        torch.cuda.max_memory_allocated()
        if cuda
        else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if resource
        else 0
    )
    return {
        "device": torch.cuda.get_device_name(device) if cuda else _processor(),
        "peak_memory_mb": round(peak / 2**20) or None,  # 0: unknown
        "calibkit": calibkit.__version__,
        "commit": commit,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
