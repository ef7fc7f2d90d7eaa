"""Write both lock files and environment.yml from what is installed in .venv.

    .venv/bin/python .ci/lock.py

Packages with one build for every platform go into requirements.lock, with the sums of their files
as the package index gives them; the others (torch, NumPy, ...) into requirements-builds.lock, by
version alone, since which of their builds is right depends on the machine.
"""

import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INDEX = "https://pypi.org/simple/"
ANY = """\
# Exact versions of what `make book` and `make test` install, made by .ci/lock.py: packages with one
# build for every platform, and the sums of their files. The others: requirements-builds.lock.
"""
BUILDS = """\
# Exact versions of the packages whose builds differ by platform, made by .ci/lock.py.
# The others, with the sums of their files: requirements.lock.
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


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def files(pin: str) -> dict[str, str]:
    """The files of one version in the index, and their SHA-256."""
    name, version = pin.split("==")
    with urllib.request.urlopen(f"{INDEX}{normal(name)}/", timeout=60) as page:
        listed = re.findall(r'#sha256=([0-9a-f]{64})"[^>]*>([^<]+)</a>', page.read().decode())
    pattern = re.compile(
        rf"(?P<name>.+?)-{re.escape(version)}(-.*\.whl|\.tar\.gz|\.zip|\.tar\.bz2|\.tgz)"
    )
    found = {file: sha for sha, file in listed if (m := pattern.fullmatch(file))
             and normal(m["name"]) == normal(name)}  # fmt: skip
    if not found:
        raise SystemExit(f"{pin} is not in {INDEX}")
    return found


def main() -> None:
    command = [sys.executable, "-m", "pip", "freeze", "--all", "--exclude-editable"]
    installed = [
        line
        for line in subprocess.check_output(command, text=True).splitlines()
        if not line.startswith("pip==")
    ]
    pins = [re.sub(r"\+\w+$", "", line) for line in installed]  # torch's says +cpu
    pins.sort(key=str.lower)
    with ThreadPoolExecutor(8) as pool:
        sums = dict(zip(pins, pool.map(files, pins), strict=True))
    anywhere = {
        pin: found
        for pin, found in sums.items()
        if all(file.endswith("-none-any.whl") for file in found if file.endswith(".whl"))
    }
    lines = [
        " \\\n".join([pin, *(f"    --hash=sha256:{sha}" for sha in sorted(found.values()))])
        for pin, found in anywhere.items()
    ]
    (ROOT / "requirements.lock").write_text(ANY + "\n".join(lines) + "\n")
    builds = [pin for pin in pins if pin not in anywhere]
    (ROOT / "requirements-builds.lock").write_text(BUILDS + "\n".join(builds) + "\n")
    conda = "".join(f"      - {pin}\n" for pin in pins)
    (ROOT / "environment.yml").write_text(CONDA + conda + "      - -e .\n")


if __name__ == "__main__":
    main()
