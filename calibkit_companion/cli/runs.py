"""Commands about runs: train, runs, delete, and bench for a method of your own."""

import json
import time
from collections import Counter
from collections.abc import Callable

from calibkit import terms
from calibkit.cli import print_verdicts
from calibkit_companion.cli.options import selected, selection_of
from calibkit_companion.cli.records import CLONE
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import is_method
from calibkit_companion.records import folders, tables
from calibkit_companion.records.record import DamagedRecord


def log_of(quiet: bool) -> Callable:
    """Make the function that prints a line during training; with --quiet it prints nothing."""
    return lambda line: None if quiet else print(f"  {line}", flush=True)


def train(options) -> None:
    """Train runs; finished ones are skipped.

    Train the selected runs and skip finished runs. On a GPU as many train side by side as its
    memory holds, at most eight; on a CPU one at a time. Several processes with the same selection
    share the work.

    Examples: calibkit train --paper fmfp · calibkit train --edition cifar10 --method
    'focal(gamma=5)' --method fmfp --seeds 1 --epochs 10
    """
    asked = selected(options)
    if options.names:
        by_name = {run.name: run for run in asked}
        if not by_name.keys() >= set(options.names):  # names may be of another edition
            editions = (plan.runs("all", edition) for edition in plan.EDITIONS)
            by_name |= {run.name: run for runs in editions for run in runs}
        listing = f"calibkit runs --paper all --edition {options.edition}"
        for name in options.names:
            if is_method(name):
                raise ValueError(f"{name!r} is a method: calibkit train --method '{name}'")
            terms.choose("run", name, by_name, listing)
        asked = [by_name[name] for name in options.names]
    from calibkit_companion.training import side_by_side  # late: torch is slow, and may be absent

    start, log = time.time(), log_of(options.quiet)
    how = {"device": options.device, "mode": options.mode, "again": options.again}
    for run, record in side_by_side.train(asked, log=log, **how):
        if record is None:
            print(_row("running", run.name, "in another process; comes last here"), flush=True)
            continue
        if options.replicates:
            with folders.locked(run):
                folders.add_replicates(record)
        state, numbers = _state(run)
        print(_row(state, run.name, numbers, _progress(asked, start)), flush=True)
    # A diverged run is a result, with a record that says so.


def _state(run: plan.Run) -> tuple[str, str]:
    """Return the state of a run, such as "done", and its last numbers as text."""
    try:
        if record := folders.load(run):
            record.check()
    except DamagedRecord:
        return "damaged", ""
    if record is None:
        return "running" if folders.held(run.name) else "missing", ""
    if record.diverged:
        return "diverged", ""
    last, cost = {k: v[-1] for k, v in record.history.items()}, record.info["provenance"]
    numbers = "  ".join(f"{name} {last[name]:.4f}" for name in ("accuracy", "ece", "auroc"))
    return "done", f"{numbers}  {cost['seconds']:7.1f} s on {cost['device']}"


def _row(state: str, run: str, numbers: str, progress: str = "") -> str:
    """Format the line about a run that the commands `train` and `runs` print."""
    return f"{state:8} {run:56} {numbers}  {progress}".rstrip()


def _progress(runs: list[plan.Run], start: float) -> str:
    """Say how many of the requested runs are done, and about how long the others will take.

    Several processes may work on the same runs. So the speed is taken from all records that were
    written since `start`, the time at which this process began (seconds since 1970).
    """
    files = [folders.runs_root() / run.name / "run.json" for run in runs]
    new = sum(file.exists() and file.stat().st_mtime >= start for file in files)
    left = sum(not folders.has(run) for run in runs)
    rest = left * (time.time() - start) / max(new, 1) / 60
    return f"[{len(runs) - left}/{len(runs)}]" + f" about {rest:.1f} min left" * bool(left and new)


def list_runs(options) -> None:
    """List runs with their state, the hours spent, and the hours left.

    Print a line for each run: done, running, missing, diverged or damaged. Then print the number of
    runs in each state, the hours of training so far, and an estimate of the hours that are left.

    Examples: calibkit runs --paper fmfp · calibkit runs --edition cifar10 --missing
    """
    from calibkit_companion.experiments import cost

    runs, states = selected(options), Counter()
    spent = expected = left = 0.0  # hours; `expected` estimates `spent`
    for run in runs:
        state, numbers = _state(run)
        states[state] += 1
        if state in ("done", "diverged"):
            spent += folders.load(run).info["provenance"]["seconds"] / 3600
            expected += cost.hours(run)
        else:
            left += cost.hours(run)
        if not options.missing:
            print(_row(state, run.name, numbers))
        elif state in ("missing", "damaged"):
            print(run.name)
    if options.missing:
        return
    kinds = ("done", "running", "missing", "diverged", "damaged")
    counts = ", ".join(f"{states[kind]} {kind}" for kind in kinds)
    line = f"{len(runs)} runs: {counts}; {spent:.2f} h spent"
    if left and expected:
        line += f", about {left * spent / expected:.2f} h left"
    elif left:
        line += ", cost of the rest unknown"
    print(line)


def delete(options) -> None:
    """Delete the folders of runs, after a question.

    Select runs by name or by options. The folders are listed, and deleted if you answer y. Released
    tables stay, and so do the predictions of released runs. If a folder of a released run holds
    numbers that the tables lack, nothing is deleted.

    Examples: calibkit delete --edition demo --method mixup · calibkit delete
    mnist1d-cnn-erm-s0-1a2b3c4d
    """
    from calibkit_companion.records import deletion

    present = deletion.present()
    if options.names:
        for name in set(options.names) - tables.where().keys():
            terms.choose("run", name, present, f"ls {folders.runs_root()}")
        chosen = set(options.names) & present.keys()
    else:
        if not (options.method or options.exhibit or options.setting) and options.paper == "book":
            raise ValueError("delete: no runs selected; give names, --paper, --method or --setting")
        known = {name for name, its in present.items() if its}
        chosen = {run.name for run in selected(options)} & known
    for name in sorted(chosen):
        print(name)
    if not chosen:
        return print("nothing to delete")
    if not options.yes:
        where = folders.runs_root()
        try:
            answer = input(f"delete these {len(chosen)} folders in {where}? [y/N] ")
        except EOFError:  # standard input is empty, as in a job
            print()
            raise ValueError("delete: nobody answers; add --yes to delete them") from None
        if answer.strip().lower() not in ("y", "yes"):
            return print("nothing deleted")
    deletion.remove(chosen)
    print(f"deleted {len(chosen)} folders")


def run_bench(options) -> None:
    """Compare your own method, recalibration, score or metric with the usual one.

    Train your method and, if it has no records, plain training, with the same protocol, on the data
    sets of the edition that are on this machine. Compare the two. Write an HTML page, and its
    numbers as JSON.

    A method is a function (logits, targets) that returns one loss per sample, or a factory of an
    objective. A recalibration is a class with fit and predict_proba. A recalibration, a score or a
    metric needs no training. Examples: calibkit bench
    'my_loss.py:my_loss(gamma=3)+swa' · calibkit bench my_map.py:MyMap --edition released
    """
    from calibkit_companion import bench  # loaded late: it loads matplotlib

    if options.edition == "released" and not any(
        path.exists() for path in (folders.runs_root(), tables.released_root())
    ):
        print(f"no records of the published methods here; {CLONE}")
    told: list[str] = []
    page = bench.build(
        options.method,
        selection_of(options),
        options.out,
        options.settings,
        device=options.device,
        chosen=options.chosen,
        log=log_of(options.quiet),
        told=told.append,
    )
    numbers = json.loads(told[0])
    print_verdicts(numbers)
    for line in numbers["left_out"]:
        print(f"left out: {line}")
    print(page)
