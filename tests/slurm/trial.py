"""The grid under a real Slurm while jobs and nodes are disturbed; its bytes beside a local run's.

    pip install snakemake-executor-plugin-slurm
    tests/slurm/up.sh /tmp/slurm
    python tests/slurm/trial.py                                   # all records of the smoke edition
    python tests/slurm/trial.py --edition demo --runs 20 --book   # fewer runs; the pages too

Snakemake submits through its Slurm executor with profiles/slurm, set to this one machine. Meanwhile
a job is cancelled, a node drained, a node taken down, a job put back into the queue by hand and
others by preemption, and at last Snakemake itself is killed. The command is then given again until
it ends well. What was seen is printed, and with ``--json FILE`` kept.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from calibkit_companion.experiments import plan  # noqa: E402
from calibkit_companion.records import folders  # noqa: E402

PARTITION = "low"  # of tests/slurm/up.sh; jobs in "high" take its nodes


def slurm(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def running() -> list[str]:
    return slurm("squeue", "-h", "-p", PARTITION, "-t", "RUNNING", "-o", "%A").split()


def one_running(patience: float = 200) -> str:
    """Some job that runs now; "" if none does for longer than what was put back has to wait."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if jobs := running():
            return random.choice(jobs)
        time.sleep(0.5)
    return ""


# --- disturbances of a job; each returns how it shows in Slurm, or "" if it came too late ---


def cancel(job: str) -> str:
    """job cancelled (scancel)"""
    time.sleep(random.uniform(0, 3))
    slurm("scancel", job)
    return _state(job, "CANCELLED")


def drain(job: str) -> str:
    """node drained under a running job, resumed after 30 s"""
    return _set_node(job, "drain")


def fail_node(job: str) -> str:
    """node declared down under a running job, resumed after 30 s"""
    return _set_node(job, "down")


def _set_node(job: str, state: str) -> str:
    """Put the node of a job into a state for 30 s; what Slurm then said of it."""
    node = slurm("squeue", "-h", "-j", job, "-o", "%N") or "n1"
    slurm("scontrol", "update", f"NodeName={node}", f"State={state.upper()}", "Reason=trial")
    seen = slurm("sinfo", "-h", "-n", node, "-o", "%T").split()
    time.sleep(30)
    slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")
    return ", ".join(set(seen)) if any(state in found for found in seen) else ""


def requeue(job: str) -> str:
    """job put back into the queue (scontrol requeue)"""
    slurm("scontrol", "requeue", job)
    return _restarts(job)


def preempt(job: str) -> str:
    """jobs preempted by a job of higher priority, and started again"""
    jobs = running() or [job]
    slurm("sbatch", "-p", "high", "-N3", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 10")
    time.sleep(8)
    return ", ".join(filter(None, map(_restarts, jobs)))


def _state(job: str, wanted: str) -> str:
    time.sleep(2)
    found = slurm("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
    return found if wanted in found else ""


def _restarts(job: str) -> str:
    time.sleep(1)
    found = re.search(r"Restarts=(\d+)", slurm("scontrol", "show", "job", job))
    return f"job {job} restarted {found[1]}×" if found and found[1] != "0" else ""


DISTURBANCES = (cancel, drain, requeue, preempt, fail_node)


def snakemake(options, folder: Path, targets: list[str]) -> subprocess.Popen:
    command = ["snakemake", "--workflow-profile", "profiles/slurm", "--jobs", "3"]
    command += ["--slurm-status-command", "squeue", "--latency-wait", "10"]
    command += ["--slurm-init-seconds-before-status-checks", "5"]
    command += ["--seconds-between-status-checks", "5"]
    command += ["--slurm-logdir", str(folder / "slurm-logs")]
    command += ["--default-resources", f"slurm_partition={PARTITION}", "slurm_account=none"]
    command += ["mem_mb=500", "runtime=30"]
    command += ["--config", f"edition={options.edition}", f"build={folder / 'build'}", "--"]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CALIBKIT_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
        "JUPYTER_PLATFORM_DIRS": "1",
    }
    with open(folder / "snakemake.log", "a") as log:
        return subprocess.Popen(
            command + targets, cwd=ROOT, env=environment, stdout=log, stderr=log
        )


def disturb(driver: subprocess.Popen, rounds: int) -> list[dict]:
    """Every disturbance in turn while Snakemake runs; a row for each that took effect."""
    found = []
    for number in range(rounds * len(DISTURBANCES)):
        disturbance = DISTURBANCES[number % len(DISTURBANCES)]
        time.sleep(random.uniform(3, 10))
        job = one_running()
        if driver.poll() is not None:
            break
        if seen := disturbance(job) if job else "":
            found.append({"what": disturbance.__doc__, "seen": seen})
            print(f"{disturbance.__doc__}: {seen}", flush=True)
    if driver.poll() is None and one_running():
        driver.kill()  # SIGKILL
        driver.wait()
        found.append({"what": "Snakemake killed (kill -9) while jobs run", "seen": ""})
        print(found[-1]["what"], flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edition", default="smoke")
    parser.add_argument("--runs", type=int, default=0, help="the first so many (all)")
    parser.add_argument("--book", action="store_true", help="notebooks and pages as well")
    parser.add_argument("--rounds", type=int, default=2, help="of each disturbance, at most")
    parser.add_argument("--local", type=Path, help="cache with the records of a local run")
    parser.add_argument("--folder", type=Path, help="where to work, kept (a temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found there")
    options = parser.parse_args()
    if not slurm("sinfo", "-h", "-p", PARTITION):
        print("no Slurm answers: start one with tests/slurm/up.sh FOLDER", file=sys.stderr)
        return 1
    if not find_spec("snakemake_executor_plugin_slurm"):
        print("pip install snakemake-executor-plugin-slurm", file=sys.stderr)
        return 1
    folder = options.folder or Path(tempfile.mkdtemp(prefix="calibkit-slurm-"))
    folder.mkdir(parents=True, exist_ok=True)
    runs = plan.runs("book", options.edition)[: options.runs or None]
    index = f"{folder}/build/{options.edition}/book/_build/html/index.html"
    records = [f"{folder}/cache/runs/{run.name}/run.json" for run in runs]
    targets = records + [index] * options.book

    began = time.monotonic()
    driver = snakemake(options, folder, targets)
    found = disturb(driver, options.rounds)
    commands = 1
    while driver.poll() != 0 and commands < 5:
        driver = snakemake(options, folder, targets)
        driver.wait()
        commands += 1
    seconds = time.monotonic() - began
    complete = driver.returncode == 0 and all(Path(target).exists() for target in targets)

    local = options.local or folder / "local"
    environment = os.environ | {"CALIBKIT_CACHE": str(local), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "calibkit", "train", "--edition", options.edition, "--quiet"]
    command += [run.name for run in runs]
    subprocess.run(command, check=True, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)

    def content(cache: Path, run: plan.Run) -> list[bytes]:
        home = cache / "runs" / run.name
        sums = json.loads((home / "run.json").read_text())["sha256"]
        folders.load(run, cache / "runs").check()
        return [(home / file).read_bytes() for file in sorted(sums)]

    same = sum(content(folder / "cache", run) == content(local, run) for run in runs)
    log = (folder / "snakemake.log").read_text()
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "slurm": slurm("sinfo", "--version"),
        "nodes": len(slurm("sinfo", "-h", "-N", "-p", PARTITION).splitlines()),
        "edition": options.edition,
        "book": options.book,
        "submitted": len(re.findall(r"has been submitted with SLURM jobid", log)),
        "disturbances": Counter(row["what"] for row in found),
        "commands": commands,
        "complete": complete,
        "runs": len(runs),
        "identical": same,
        "seconds": round(seconds),
    }
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if not options.folder:
        shutil.rmtree(folder)
    return 0 if complete and same == len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
