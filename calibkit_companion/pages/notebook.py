"""Prepare a notebook before it reads results: check its parameters, clone the released records."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from calibkit import terms
from calibkit_companion.data.cache import cache_root

_SOURCE = "https://github.com/calibkit/calibkit"


def begin(edition: str = "released") -> None:
    """Prepare the running notebook; outside of notebooks nothing happens.

    Unknown parameters are an error. If the notebook runs without a clone of the repository, as on
    Colab, the released records are cloned into the current folder.

    Parameters
    ----------
    edition : edition of the notebook; only "released" has records that can be cloned

    Raises
    ------
    ValueError
        A parameter is unknown; the message names the nearest one.
    """
    if (cells := _running()) is not None:
        check_parameters(cells)
        if edition == "released":
            bring_records()


def _running() -> Sequence[str] | None:
    """Return the source of each executed cell of this notebook; None outside of notebooks."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return None if shell is None else shell.user_ns.get("In")


def check_parameters(cells: Sequence[str] | None = None) -> None:
    """Raise an error if papermill was given a parameter that the notebook does not have.

    papermill only warns about a misspelt name, and then runs the notebook with the default.

    Parameters
    ----------
    cells : sources of the executed cells; by default those of the running notebook

    Raises
    ------
    ValueError
        A parameter is unknown; the message names the nearest one.
    """
    cells = _running() or [] if cells is None else cells
    injected = [i for i, cell in enumerate(cells) if cell.startswith("# Parameters\n")]
    if not injected:
        return
    valid = set().union(*(_assigned(cell) for cell in cells[: injected[0]]))
    for name in sorted(_assigned(cells[injected[0]]) - valid):
        terms.choose("parameter", name, valid)


def _assigned(source: str) -> set[str]:
    """Find the names to which a cell assigns at the beginning of a line."""
    return set(re.findall(r"^(\w+) *=(?!=)", source, re.MULTILINE))


def bring_records() -> None:
    """Clone the released records into the current folder, unless there are records already."""
    root = cache_root()
    if (root / "runs").is_dir() or (root / "released").is_dir():
        return
    folder = Path("calibkit-book").resolve()
    if not folder.is_dir():
        source = os.environ.get("CALIBKIT_SOURCE", _SOURCE)
        print(f"cloning the released records from {source}", flush=True)
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, folder], check=True)
    os.environ["CALIBKIT_CACHE"] = str(folder / "data_cache")
