"""What a notebook does before it reads results: its parameters are checked, records are brought."""

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
    """Prepare the running notebook; elsewhere nothing happens.

    Parameters that it does not have are refused, and where it runs without a checkout, as on Colab,
    the released records are cloned into its folder.

    Parameters
    ----------
    edition : that of the notebook; only "released" has records to bring

    Raises
    ------
    ValueError
        For a misspelt parameter; the line names the nearest.
    """
    if (cells := _running()) is not None:
        check_parameters(cells)
        if edition == "released":
            bring_records()


def _running() -> Sequence[str] | None:
    """The sources of the cells of the running notebook that have run; None outside of notebooks."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return None if shell is None else shell.user_ns.get("In")


def check_parameters(cells: Sequence[str] | None = None) -> None:
    """Refuse parameters which papermill injected and the notebook does not have.

    papermill only warns of a misspelt name and runs the defaults.

    Parameters
    ----------
    cells : the sources run so far; by default those of the running notebook

    Raises
    ------
    ValueError
        For a misspelt parameter; the line names the nearest.
    """
    cells = _running() or [] if cells is None else cells
    injected = [i for i, cell in enumerate(cells) if cell.startswith("# Parameters\n")]
    if not injected:
        return
    valid = set().union(*(_assigned(cell) for cell in cells[: injected[0]]))
    for name in sorted(_assigned(cells[injected[0]]) - valid):
        terms.choose("parameter", name, valid)


def _assigned(source: str) -> set[str]:
    """The names to which a cell assigns at the beginning of a line."""
    return set(re.findall(r"^(\w+) *=(?!=)", source, re.MULTILINE))


def bring_records() -> None:
    """Clone the released records into the current folder, unless there are records already."""
    root = cache_root()
    if (root / "runs").is_dir() or (root / "released").is_dir():
        return
    folder = Path("calibkit-book").resolve()
    if not folder.is_dir():
        source = os.environ.get("CALIBKIT_SOURCE", _SOURCE)
        print(f"bringing the released records from {source}", flush=True)
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, folder], check=True)
    os.environ["CALIBKIT_CACHE"] = str(folder / "data_cache")
