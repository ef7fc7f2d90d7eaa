"""Write both lock files and environment.yml from what is installed in .venv.

    .venv/bin/pip install uv
    .venv/bin/python .ci/lock.py

requirements.lock has the sums of all files of each version, for every platform, as the package
index gives them. torch and torchvision are in requirements-builds.lock by version alone: which
build is right depends on the machine, and the builds without CUDA come from another index.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILDS = ("torch", "torchvision")
SUMS_HEAD = """\
# Exact versions of what `make book` and `make test` install, and the sums of all their files, made
# by .ci/lock.py. torch and torchvision: requirements-builds.lock.
"""
BUILDS_HEAD = """\
# Exact versions without sums, made by .ci/lock.py: the builds for CUDA and for the CPU alone are
# other files, and the latter come from another index. All others: requirements.lock.
"""
CONDA = """\
# The same pins as requirements.lock and requirements-builds.lock, for conda users:
#   conda env create -f environment.yml
# jupyter-book stays below 2, another program, which needs a service while it builds and loses
# figure captions, anchors and our extensions.
name: calibkit
channels: [conda-forge, nodefaults]
dependencies:
  - python=3.11
  - pip
  - pip:
"""
TOOLS = ("pip==", "uv==")  # which install the others


def with_sums(pins: list[str]) -> list[str]:
    """Each pin with the sums of all its files, in the order of `pins`."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--no-deps"]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--universal"]
    # A package may ask for a later release of this Python than the first one.
    command += ["--python-version", ".".join(map(str, sys.version_info[:3]))]
    found = subprocess.run(
        command, input="\n".join(pins), capture_output=True, text=True, check=True
    ).stdout
    entries = re.findall(r"^(\S+==\S+)((?: \\\n    --hash=\S+)+)$", found, re.M)
    sums = {normal(pin): lines for pin, lines in entries}
    return [pin + sums[normal(pin)] for pin in pins]


def normal(pin: str) -> str:
    return re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower()


def main() -> None:
    command = [sys.executable, "-m", "pip", "freeze", "--all", "--exclude-editable"]
    installed = subprocess.check_output(command, text=True).splitlines()
    pins = [re.sub(r"\+\w+$", "", line) for line in installed if not line.startswith(TOOLS)]
    pins.sort(key=str.lower)
    builds = [pin for pin in pins if normal(pin) in BUILDS]
    lines = with_sums([pin for pin in pins if pin not in builds])
    (ROOT / "requirements.lock").write_text(SUMS_HEAD + "\n".join(lines) + "\n")
    (ROOT / "requirements-builds.lock").write_text(BUILDS_HEAD + "\n".join(builds) + "\n")
    conda = "".join(f"      - {pin}\n" for pin in pins)
    (ROOT / "environment.yml").write_text(CONDA + conda + "      - -e .\n")


if __name__ == "__main__":
    main()
