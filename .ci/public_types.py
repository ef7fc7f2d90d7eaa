"""Check the types that `calibkit` promises to its users (py.typed), by pyright.

    .venv/bin/python .ci/public_types.py

At least `LEAST` of the public names have a known type, and what goes in comes out: in
tests/test_types.py pyright's strict mode finds the type of every result as it is written there. It
takes some ten seconds and no network: Node.js and pyright come from the lock.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 0.995  # of the public names


def pyright(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pyright with the packages of this Python, which it looks for by PATH."""
    here = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{here}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [sys.executable, "-m", "pyright", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def unknown(symbols: list[dict]) -> list[str]:
    """A line for each public name whose type is unknown, or inferred in more than one way."""
    return [
        f"{symbol['name']}: "
        + "; ".join(" ".join(found["message"].split()) for found in symbol["diagnostics"])
        for symbol in symbols
        if symbol["isExported"] and (not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"])
    ]


def main() -> str | None:
    """Print what was found; return what is wrong."""
    if importlib.util.find_spec("pyright") is None:
        return "pyright is not installed: make .venv/.ready installs it"
    options = ("--verifytypes", "calibkit", "--ignoreexternal", "--outputjson")
    found = pyright(*options)
    try:
        complete = json.loads(found.stdout)["typeCompleteness"]
    except (ValueError, KeyError):
        return f"pyright: {found.stdout}{found.stderr}"
    share = complete["completenessScore"]
    print(f"Types: {share:.1%} of the public names of calibkit have a known one.")
    if share < LEAST:
        return "\n".join([*unknown(complete["symbols"]), f"Expected at least {LEAST:.0%}."])
    users = pyright("tests/test_types.py")
    return users.stdout + users.stderr if users.returncode else None


if __name__ == "__main__":
    sys.exit(main())
