"""Measure the cost of planning: seconds and memory of a dry run of Snakemake over many runs.

    python benchmarks/engine.py                # 500, 5,000 and 50,000 runs, and the paper edition
    python benchmarks/engine.py 500 5000       # only these; results for other sizes are kept

The real Snakefile plans invented runs without records. Every run is a job, and each notebook waits
for all runs, which is the worst case. The results have processor seconds, which other work on the
machine hardly changes, and wall-clock seconds.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from calibkit_companion.experiments import plan  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "engine.json"
IMPORT = "from calibkit_companion.experiments.plan import EDITIONS, NOTEBOOKS, choose, runs\n"
MADE_UP = """
from types import SimpleNamespace
MADE_UP = [SimpleNamespace(name=f"run-{{i}}") for i in range({count})]
runs = lambda page, edition: MADE_UP
"""


def dry_run(count: int) -> dict:
    """Cost of a dry run over `count` made-up runs; 0 for the grid of the paper edition itself."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("book", "notebooks", "profiles"):
            Path(folder, name).symlink_to(ROOT / name)
        source = (ROOT / "Snakefile").read_text()
        assert IMPORT in source, "the Snakefile has changed"
        if count:
            source = source.replace(IMPORT, IMPORT + MADE_UP.format(count=count))
        Path(folder, "Snakefile").write_text(source)
        output = Path(folder, "output")
        environment = os.environ | {
            "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
            "CALIBKIT_CACHE": f"{folder}/cache",
        }
        command = [str(Path(sys.executable).parent / "snakemake"), "-n", "-q", "rules"]
        with open(output, "w") as file:
            process = subprocess.Popen(
                [*command, "--config", "edition=paper", "train=1"],
                cwd=folder,
                env=environment,
                stdout=file,
                stderr=file,
            )
            began = time.perf_counter()
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
        said = output.read_text()
        assert status == 0, said[-2000:]
        (total,) = {line.split()[1] for line in said.splitlines() if line.startswith("total ")}
    jobs = count or len(plan.runs("book", "paper"))
    assert int(total) == jobs + len(plan.NOTEBOOKS) + 3, said  # pages, book, all
    return {
        "runs": jobs,
        "made_up": bool(count),
        "jobs": int(total),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "seconds": round(seconds, 1),
        "memory_mb": usage.ru_maxrss // 1024,
    }


def main(counts: list[int]) -> None:
    snakemake = subprocess.check_output(
        [Path(sys.executable).parent / "snakemake", "--version"], text=True
    )
    for count in counts:
        row = dry_run(count)
        print(row, flush=True)
        kept = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
        rows = {(old["made_up"], old["runs"]): old for old in kept if old["made_up"] or count}
        rows[row["made_up"], row["runs"]] = row
        result = {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
            "versions": {"snakemake": snakemake.strip(), "python": platform.python_version()},
            "rows": [rows[key] for key in sorted(rows)],
        }
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [0, 500, 5_000, 50_000])
