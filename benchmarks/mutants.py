"""Find small changes of the code that no test notices, by a random sample of mutants (cosmic-ray).

    python -m venv /tmp/mutants && /tmp/mutants/bin/pip install cosmic-ray
    PATH=/tmp/mutants/bin:$PATH .venv/bin/python benchmarks/mutants.py COPY [--each 6]

COPY is a fresh clone of this repository, which is changed and changed back: let nobody else use it.
Each mutant is tested by the test files of its own module, until the first fails. Survivors are
printed with what they change; each is to get a test, or a reason why nothing that can be seen
differs.
"""

import argparse
import ast
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

TARGETS = {  # what is changed, and the files that test it
    "calibkit/metrics": ["tests/test_metrics.py"],
    "calibkit/losses.py": ["tests/test_losses.py"],
    "calibkit/posthoc": ["tests/test_posthoc.py", "tests/test_map_files.py"],
    "calibkit/stats": ["tests/test_stats.py"],
    "calibkit_companion/claims/sequential.py": ["tests/test_sequential.py"],
    "calibkit_companion/claims/verdict.py": ["tests/test_claims.py"],
    "calibkit_companion/claims/preconditions.py": ["tests/test_claims.py"],
    "calibkit/report/readers": ["tests/test_readers.py", "tests/test_predictions.py"],
}
SEED = 0
CONFIG = """\
[cosmic-ray]
module-path = {module!r}
timeout = {timeout}
excluded-modules = []
test-command = {command!r}
[cosmic-ray.distributor]
name = "local"
"""


def words_alone(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where types are written, which no run of the program sees."""
    for node in ast.walk(ast.parse(source)):
        of = [getattr(node, name, None) for name in ("annotation", "returns")]
        of += getattr(node, "decorator_list", [])
        for found in of:
            if found is not None:
                yield (found.lineno, found.col_offset), (found.end_lineno, found.end_col_offset)


def sampled(session: Path, copy: Path, each: int) -> int:
    """Keep `each` mutants of a session that are not in types; return how many there were."""
    base = sqlite3.connect(session)
    query = "SELECT job_id, module_path, start_pos_row, start_pos_col FROM mutation_specs"
    rows = base.execute(
        query + " ORDER BY module_path, start_pos_row, start_pos_col, operator_name, occurrence"
    ).fetchall()
    types = {path: [*words_alone((copy / path).read_text())] for path in {row[1] for row in rows}}
    some = [
        job
        for job, path, *place in rows
        if not any(start <= tuple(place) < end for start, end in types[path])
    ]
    kept = random.Random(SEED).sample(some, min(each, len(some)))
    marks = ",".join("?" * len(kept))
    for table in ("mutation_specs", "work_items"):
        base.execute(f"DELETE FROM {table} WHERE job_id NOT IN ({marks})", kept)
    base.commit()
    base.close()
    return len(some)


def survivors(session: Path) -> tuple[int, list[tuple[str, int, str]]]:
    """How many mutants were tried, and of those that lived: the file, the line and the change."""
    base = sqlite3.connect(session)
    found = base.execute(
        "SELECT m.module_path, m.start_pos_row, r.test_outcome, r.diff FROM work_results r "
        "JOIN mutation_specs m ON m.job_id = r.job_id"
    ).fetchall()
    base.close()
    lived = [(path, row, diff) for path, row, outcome, diff in found if "SURVIVED" in str(outcome)]
    return len(found), lived


def main() -> None:
    """Try a sample of each target, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("copy", type=Path)
    parser.add_argument("--each", type=int, default=6, help="mutants of each target")
    parser.add_argument(
        "--minutes", type=float, default=25, help="stop at a target's end after this"
    )
    options = parser.parse_args()
    start, folder = time.monotonic(), Path(tempfile.mkdtemp())
    environment = os.environ | {"PYTHONPATH": str(options.copy), "PYTHONDONTWRITEBYTECODE": "1"}
    for number, (module, files) in enumerate(TARGETS.items()):
        if time.monotonic() - start > 60 * options.minutes:
            break
        command = (
            f"{sys.executable} -m pytest -x -q -p no:cacheprovider -m 'not slow' {' '.join(files)}"
        )
        config, session = folder / f"{number}.toml", folder / f"{number}.sqlite"
        config.write_text(CONFIG.format(module=module, command=command, timeout=300))
        tool = ["cosmic-ray", "init", str(config), str(session)]
        subprocess.run(tool, cwd=options.copy, check=True, capture_output=True)
        every = sampled(session, options.copy, options.each)
        for step in (["baseline", str(config)], ["exec", str(config), str(session)]):
            tool = ["cosmic-ray", *step]
            subprocess.run(tool, cwd=options.copy, check=True, env=environment)
        tried, lived = survivors(session)
        print(f"{module}: {tried} of {every} mutants tried, {len(lived)} survived", flush=True)
        for path, row, diff in lived:
            changed = [
                x for x in diff.splitlines() if x[:1] in "+-" and x[:3] not in ("+++", "---")
            ]
            print(f"  {path}:{row}", *changed, sep="\n    ", flush=True)


if __name__ == "__main__":
    main()
