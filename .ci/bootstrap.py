"""Put the cell into every source notebook by which it also runs where there is no checkout.

    .venv/bin/python .ci/bootstrap.py            # insert it, or bring it up to date
    .venv/bin/python .ci/bootstrap.py --check    # say where it is missing or old

The cell stands before the parameters and is not shown in the book. In a checkout, or wherever
calibkit is installed, it does nothing. On Colab, or in an empty folder, it clones the repository
without its history (the package, the notebooks, the records of the released pages), installs what
is not there yet, and moves to the folder of notebooks.
"""

import hashlib
import json
import sys
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
CELL = """\
# Not in a checkout, as on Colab? Bring calibkit and the records which the pages are drawn from.
import os
import subprocess
import sys
from importlib.util import find_spec

if find_spec("calibkit") is None or os.path.exists("calibkit-book"):
    if not os.path.exists("calibkit-book"):
        source = os.environ.get("CALIBKIT_SOURCE", "https://github.com/calibkit/calibkit")
        clone = ["git", "clone", "--quiet", "--depth", "1", source, "calibkit-book"]
        subprocess.run(clone, check=True)
    if find_spec("calibkit") is None:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--editable"]
        subprocess.run([*install, "calibkit-book[train,report]", "ipywidgets"], check=True)
    sys.path.insert(0, os.path.abspath("calibkit-book"))
    os.chdir("calibkit-book/notebooks")
"""
TAG = "remove-cell"  # from the book; JupyterLab and Colab show it


def is_bootstrap(cell: dict) -> bool:
    return cell["cell_type"] == "code" and "calibkit-book" in "".join(cell["source"])


def with_bootstrap(notebook: dict, name: str) -> dict:
    """The notebook with the cell of today, right before its parameters."""
    cells = [cell for cell in notebook["cells"] if not is_bootstrap(cell)]
    (place,) = [i for i, c in enumerate(cells) if "parameters" in c["metadata"].get("tags", [])]
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": hashlib.sha256(f"bootstrap of {name}".encode()).hexdigest()[:8],
        "metadata": {"tags": [TAG]},
        "outputs": [],
        "source": CELL.rstrip("\n").splitlines(keepends=True),
    }
    return notebook | {"cells": [*cells[:place], cell, *cells[place:]]}


def outdated() -> dict[Path, dict]:
    """Notebooks whose cell is missing or another than today's, as they should be."""
    found = {path: json.loads(path.read_text()) for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    wanted = {path: with_bootstrap(notebook, path.stem) for path, notebook in found.items()}
    return {path: wanted[path] for path in found if wanted[path] != found[path]}


def main() -> int:
    changed = outdated()
    for path, notebook in changed.items():
        print(path.relative_to(NOTEBOOKS.parent))
        if "--check" not in sys.argv:
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
