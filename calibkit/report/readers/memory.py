"""How much memory a file may take.

A file of a few kilobytes can unpack to any size. So readers learn the size from its header, and
refuse the file before they unpack it. The memory is the least of three numbers: what the machine
has, what the process may take (``ulimit -v``), and what its control group (a container) may take.
"""

import os
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

GROUPS = Path("/sys/fs/cgroup")
PLENTY = 1 << 40  # bytes that are assumed on a system that does not tell its memory


def memory() -> int:
    """Bytes of memory that this process may use: those of the machine, or a lower limit."""
    return min([_machine(), *_of_process(), *_of_group()])


def check(size: int, what: str, share: float = 0.5) -> None:
    """Raise `ValueError` if `size` bytes exceed a share of the memory.

    The rest of the memory is for the computation. `what` begins the error: "its arrays take".
    """
    most = share * memory()
    if size > most:
        raise ValueError(
            f"{what} {_units(size)} of memory, and a file may take at most {_units(most)}: save a "
            "random part of the samples, raise the limit, or use a machine with more memory"
        )


def _units(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"


def _machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return PLENTY


def _of_process() -> list[int]:
    """Bytes that ``ulimit -v`` still allows, in a list; empty without such a limit.

    The limit counts addresses, and the process has reserved many that hold no memory.
    """
    if resource is None:
        return []
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return []
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return [max(most - pages * os.sysconf("SC_PAGE_SIZE"), 0)]
    except (OSError, ValueError, IndexError):
        return [most]


def _of_group() -> list[int]:
    """The limits in bytes of this process's control groups (version 1 and 2) and their parents."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root = GROUPS if not kinds else GROUPS / "memory"
        name = "memory.limit_in_bytes" if kinds else "memory.max"
        # A container may see its own group as the root, under the path of the host.
        place = root / path.lstrip("/")
        for folder in [place, *place.parents]:
            found += _number(folder / name)
            if folder == root:
                break
    return found


def _number(file: Path) -> list[int]:
    try:
        return [int(file.read_text())]
    except (OSError, ValueError):  # no limit: "max", or no such file
        return []
