"""Pack what `gpu_queue.py` needs on a machine with a GPU and without internet access.

    python -m benchmarks.gpu_pack carried --limit 58

writes folders of at most so many megabytes, to be copied one after the other. Each has a part of
CIFAR-10, the names of the missing runs and the accuracy of released ones. The first also has the
tree of the older commit, and the last has the wheels that a notebook needs beside PyTorch. What the
first command measures needs neither the whole of CIFAR-10 nor wheels.

The sources themselves are needed there, too; `data_cache`, `book`, `findings` and `paper` are not.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gpu_speed import OLD, ROOT, old_tree
from calibkit_companion.data import catalogue
from calibkit_companion.data.pack import pack, unpack

DATASET = "cifar10"
# What papermill and a kernel need beside PyTorch, NumPy, pandas, scikit-learn, matplotlib, pytest.
WHEELS = (
    *("papermill", "nbformat", "nbclient", "tenacity", "fastjsonschema", "jsonschema"),
    *("jsonschema-specifications", "referencing", "rpds-py", "jupyter-client", "jupyter-core"),
    *("traitlets", "platformdirs", "pyzmq", "tornado", "ipykernel", "comm", "matplotlib-inline"),
    *("nest-asyncio2", "ipython", "ipython-pygments-lexers", "jedi", "parso"),
    *("pexpect", "ptyprocess", "prompt-toolkit", "wcwidth", "stack-data", "asttokens"),
    *("executing", "pure-eval", "entrypoints"),
)
PYTHON, PLATFORMS = "3.12", ("2_28", "2_27", "2_17", "2014", "1")
HOME = Path(tempfile.gettempdir()) / "calibkit-gpu"  # data, records and packages on the other side


# --- here -----------------------------------------------------------------------------------------


def prepare(folder: Path, limit: float) -> list[Path]:
    """Write the folders that are copied.

    Parameters
    ----------
    folder : folder to write to, which is empty or missing
    limit : most megabytes of one folder

    Returns
    -------
    list of Path
        The folders.

    Raises
    ------
    ValueError
        The folder holds something, or the tree of the older commit is not to be had.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; name another folder")
    if old_tree(folder / "1" / "old") is None:
        raise ValueError(f"git has no commit {OLD} here: git fetch --unshallow")
    with tempfile.TemporaryDirectory() as packed:
        *mosaics, index = pack(DATASET, Path(packed))
        number, left = 1, 1e6 * limit - _size(folder / "1")
        for file in mosaics:
            if file.stat().st_size > left:
                number, left = number + 1, 1e6 * limit
            left -= file.stat().st_size
            _put(file, folder / str(number) / "data")
        wheels = _wheels(Path(packed) / "wheels")
        if sum(wheel.stat().st_size for wheel in wheels) > left:
            number += 1
        folders = [folder / str(n + 1) for n in range(number)]
        for one in folders:
            _put(index, one / "data")
            _lists(one)
        for wheel in wheels:
            _put(wheel, folders[-1] / "wheels")
    return folders


def _wheels(folder: Path) -> list[Path]:
    """Download the wheels, in the versions of the lock file, for the other machine's Python."""
    pins = re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements.lock").read_text(), re.M)
    versions = {name.replace("_", "-"): version for name, version in pins}
    asked = [f"{name}=={versions[name]}" for name in WHEELS]
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "-d", str(folder)]
    command += ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"]
    for version in PLATFORMS:
        command += ["--platform", f"manylinux{'_' * ('_' in version)}{version}_x86_64"]
    subprocess.run(command + asked, check=True)
    return sorted(folder.glob("*.whl"))


def _lists(folder: Path) -> None:
    """Write the names of the missing runs, and the accuracy of released ones."""
    from benchmarks.gpu_queue import accuracies  # late: it imports this module
    from benchmarks.gpu_train import compared, listed, write

    nothing = argparse.Namespace(rehearse=False, unfinished=None)
    write(folder / "unfinished.json", [run.name for run in listed(nothing)])
    write(folder / "released.json", accuracies(compared()))


def _put(file: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, folder)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


# --- there ----------------------------------------------------------------------------------------


def take(options) -> None:
    """Use a carried folder: set paths of the script, install wheels, decode the data when whole.

    Parameters
    ----------
    options : of `gpu_queue`; its `old`, `unfinished` and `released` are set
    """
    carried = options.carried.resolve()
    os.environ.setdefault("CALIBKIT_CACHE", str(HOME / "cache"))
    os.environ.setdefault("CALIBKIT_DATA", str(HOME / "datasets"))
    for name in () if options.rehearse else ("unfinished", "released"):  # those of large runs
        if getattr(options, name) is None and (carried / f"{name}.json").exists():
            setattr(options, name, carried / f"{name}.json")
    if (carried / "old").is_dir():
        options.old = carried / "old"
    if not importlib.util.find_spec("papermill") and (carried / "wheels").is_dir():
        _install(carried / "wheels", HOME / "site")
        paths = os.environ.get("PYTHONPATH"), str(HOME / "site")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    _decode(carried / "data")


def _install(wheels: Path, site: Path) -> None:
    """Install wheels into a folder of their own, unless an earlier call did."""
    whole = site / "whole"
    if whole.exists():
        return
    command = [sys.executable, "-m", "pip", "install", "-qq", "--no-index", "--no-deps"]
    command += ["--no-compile", "--upgrade", "--target", str(site)]
    subprocess.run([*command, *map(str, wheels.glob("*.whl"))], check=True)
    whole.touch()


def _decode(part: Path) -> None:
    """Put a part of the packed data beside those that came before, and decode the whole."""
    together = HOME / "packed"
    for file in part.iterdir() if part.is_dir() else ():
        _put(file, together)
    index = together / f"{DATASET}.json"
    if not index.exists() or (catalogue.data_root() / "decoded" / DATASET).exists():
        return
    lacking = [f for f in json.loads(index.read_text())["files"] if not (together / f).exists()]
    if lacking:
        return print(f"{DATASET}: {len(lacking)} files are still to come", flush=True)
    start = time.time()
    unpack(index)
    print(f"{DATASET}: decoded in {time.time() - start:.0f} s", flush=True)


def main() -> None:
    """Write the folders and print what to do with them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=float, default=58, help="most megabytes (default: 58)")
    options = parser.parse_args()
    try:
        folders = prepare(options.folder, options.limit)
    except ValueError as error:
        sys.exit(f"gpu_pack: {error}")
    parts = ["speed bits", *[""] * (len(folders) - 2), "papermill accuracy queue"][-len(folders) :]
    if len(folders) == 1:
        parts = ["speed bits papermill accuracy queue"]
    for folder, its in zip(folders, parts, strict=True):
        print(f"{folder}: {_size(folder) / 1e6:.0f} MB; there, in the root of the sources:")
        command = f"python3 -m benchmarks.gpu_queue --carried {folder} --out found"
        print(f"  {command} --minutes {6.5 if 'speed' in its else 5} --parts {its}".rstrip())


if __name__ == "__main__":
    main()
