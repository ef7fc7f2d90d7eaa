"""How much memory there is for what a file unpacks to, and the size of it, known before it is read.

The least of what the machine has, what the process may take (``ulimit -v``), and what its control
group may (a container's limit). A few kilobytes can unpack to any size; a header says to which.
"""

import os
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

GROUPS = Path("/sys/fs/cgroup")
PLENTY = 1 << 40  # where nothing says how much there is


def memory() -> int:
    """Bytes that the arrays of a file may come from: those of the machine, or a limit below."""
    return min([_machine(), *_of_process(), *_of_group()])


def check(size: int, what: str, share: float = 0.5) -> None:
    """Refuse what would take more than a share of the memory; the rest is for working on it."""
    most = share * memory()
    if size > most:
        raise ValueError(
            f"{what} {_units(size)} of memory, and {_units(most)} are the most for a file here: "
            "take a random part of the samples, or a machine or a limit with more"
        )


def _units(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"


def _machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return PLENTY


def _of_process() -> list[int]:
    """What ``ulimit -v`` leaves beside the addresses that are taken, many of them by no memory."""
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
    """The limits of this process's control groups and of all above them, of both versions."""
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
