"""What a notebook does first: find the records, and refuse misspelt parameters."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from calibkit import terms
from calibkit_companion.data.cache import cache_root


def bring_records() -> None:
    """Clone the released records where a notebook runs without a checkout, as on Colab."""
    root = cache_root()
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or (root / "runs").is_dir() or (root / "released").is_dir():
        return
    folder = Path("calibkit-book").resolve()
    if not folder.is_dir():
        source = os.environ.get("CALIBKIT_SOURCE", "https://github.com/calibkit/calibkit")
        print(f"bringing the released records from {source}", flush=True)
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, folder], check=True)
    os.environ["CALIBKIT_CACHE"] = str(folder / "data_cache")


def check_parameters(cells: Sequence[str] | None = None) -> None:
    """Refuse parameters which papermill injected and the notebook does not have.

    papermill only warns of a misspelt name and runs the defaults. `cells` are the sources run so
    far; by default those of the running notebook.
    """
    if cells is None:
        try:
            cells = get_ipython().user_ns["In"]  # noqa: F821 (a name of every notebook)
        except (NameError, KeyError):
            return
    injected = [i for i, cell in enumerate(cells) if cell.startswith("# Parameters\n")]
    if not injected:
        return
    valid = set().union(*(_assigned(cell) for cell in cells[: injected[0]]))
    for name in sorted(_assigned(cells[injected[0]]) - valid):
        terms.choose("parameter", name, valid)


def _assigned(source: str) -> set[str]:
    return set(re.findall(r"^(\w+) *=(?!=)", source, re.MULTILINE))
