"""Where `make` takes torch from: arguments for pip on standard output, one line for people beside.

    python .ci/torch_index.py      # "--extra-index-url …" for the CPU build, else nothing

On Linux the usual package index has torch with CUDA: 3 GB to fetch, 5 GB on the disk. The CPU build
is 0.2 GB to fetch and 0.8 GB on the disk. Without an NVIDIA driver it is taken, if PyTorch's own
index answers. `TORCH=cuda` or `TORCH=cpu` decides in place of the driver.
"""

import os
import platform
import shutil
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

CPU = "https://download.pytorch.org/whl/cpu"
DRIVERS = "/proc/driver/nvidia/version", "/usr/lib/wsl/lib/nvidia-smi"


def choose(
    wanted: str, system: str, driver: bool, named: str, answers: Callable[[], bool]
) -> tuple[str, str]:
    """Arguments for pip, and what to say.

    Parameters
    ----------
    wanted : "cpu", "cuda" or "", which leaves it to the driver
    system : as `platform.system` has it
    driver : whether there is an NVIDIA driver
    named : the indexes that the user's environment names
    answers : whether the index of CPU builds can be reached; called only where it is of use
    """
    if wanted not in ("", "cpu", "cuda"):
        raise SystemExit(f"TORCH={wanted}: it is cpu, cuda, or left out")
    decided = wanted == "cuda" or (driver and not wanted)
    if decided or system != "Linux" or "download.pytorch.org" in named:
        return "", ""
    why = "TORCH=cpu" if wanted else "No NVIDIA driver"
    if not answers():
        return "", f"{why}, but {CPU} does not answer: torch comes from the usual package index."
    return f"--extra-index-url {CPU}", f"{why}: torch is the CPU build (TORCH=cuda: the other)."


def answers() -> bool:
    page = urllib.request.Request(f"{CPU}/torch/", method="HEAD")
    try:
        with urllib.request.urlopen(page, timeout=10):
            return True
    except OSError:
        return False


def main() -> None:
    driver = bool(shutil.which("nvidia-smi")) or any(Path(path).exists() for path in DRIVERS)
    named = " ".join(os.environ.get(f"PIP_{name}", "") for name in ("INDEX_URL", "EXTRA_INDEX_URL"))
    wanted = os.environ.get("TORCH", "")
    arguments, said = choose(wanted, platform.system(), driver, named, answers)
    if said:
        print(said, file=sys.stderr)
    print(arguments)


if __name__ == "__main__":
    main()
