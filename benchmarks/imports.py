"""Measure the size of the wheel, and the time and memory of importing each module.

    python benchmarks/imports.py

Builds the wheel and counts its bytes. Imports each public module in separate processes and takes
the shortest processor time, which other work on the machine hardly changes. Notes which heavy
libraries were loaded with it.
"""

import json
import platform
import subprocess
import sys
import tempfile
import zipfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "imports.json"
MODULES = (
    *("numpy", "scipy.optimize", "torch"),  # what the others build on, for comparison
    *(f"calibkit{m}" for m in ("", ".metrics", ".confidence", ".posthoc", ".stats")),
    *(f"calibkit.{m}" for m in ("losses", "plots", "report", "data")),
)
HEAVY = ("numpy", "scipy", "pandas", "matplotlib", "torch")
ROUNDS = 3
MEASURE = """
import sys, time
began = time.process_time()
{statement}
seconds = time.process_time() - began
import resource
unit = 1024 if sys.platform == "linux" else 2**20  # the others count bytes
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
print(seconds, peak, *[name for name in {heavy} if name in sys.modules])
"""


def once(statement: str) -> tuple[float, float, list[str]]:
    """Processor seconds and peak memory (MB) of a statement, and what it loaded."""
    code = MEASURE.format(statement=statement, heavy=HEAVY)
    said = subprocess.check_output([sys.executable, "-c", code], cwd=tempfile.gettempdir())
    seconds, peak, *loaded = said.decode().split()
    return float(seconds), float(peak), loaded


def imports() -> list[dict]:
    measured = {module: [] for module in MODULES}
    for _ in range(ROUNDS):  # round by round: a busy minute affects all modules alike
        for module in MODULES:
            measured[module].append(once(f"import {module}"))
    return [
        {
            "module": module,
            "milliseconds": round(1000 * min(s for s, *_ in found), 1),
            "memory_mb": round(min(peak for _, peak, _ in found)),
            "loads": found[0][2],
        }
        for module, found in measured.items()
    ]


def wheel() -> dict:
    """Bytes of the wheel, of its unpacked content, and of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder]
        subprocess.run([*command, str(ROOT)], check=True)
        (path,) = Path(folder).glob("*.whl")
        parts: dict[str, int] = {}
        with zipfile.ZipFile(path) as archive:
            files = archive.infolist()
        for file in files:
            top, _, rest = file.filename.partition("/")
            part = rest.split("/")[0] if "/" in rest else "top level"
            part = part if top == "calibkit" else "metadata"
            parts[part] = parts.get(part, 0) + file.file_size
        return {
            "bytes": path.stat().st_size,
            "unpacked_bytes": sum(parts.values()),
            "files": len(files),
            "parts": dict(sorted(parts.items(), key=lambda part: -part[1])),
        }


def main() -> None:
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in HEAVY},
        "wheel": wheel(),
        "imports": imports(),
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wheel: {result['wheel']['bytes'] / 1000:.0f} kB, {result['wheel']['files']} files")
    for row in result["imports"]:
        loads = ", ".join(row["loads"])
        print("{module:20} {milliseconds:7.0f} ms {memory_mb:5} MB  ".format(**row) + loads)


if __name__ == "__main__":
    main()
