"""The commands of the book: runs, data, claims, results, and a bench for a user's method.

`add_commands` is an entry point of the group ``calibkit.commands``: `calibkit.cli` calls it.
"""

import argparse
import ast
import csv
import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import partial
from itertools import groupby
from pathlib import Path

from calibkit import arrays, terms
from calibkit.cli import FLAG, SEVERAL, add_command, print_verdicts
from calibkit_companion import data
from calibkit_companion.experiments import plan
from calibkit_companion.records import folders, tables
from calibkit_companion.records.record import DamagedRecord
from calibkit_companion.records.replicates import RECALIBRATIONS

_NUMBER = {"type": int, "default": 0}
_EDITIONS = f"{', '.join(plan.EDITIONS)} (default: %(default)s)"
_RESUMES = "; the same command resumes from here"


def add_commands(commands) -> None:
    """Add the commands of the book to those of a parser."""

    command = partial(add_command, commands)
    add = command("bench", _bench, _changes, resumes=_RESUMES)
    add("method", help="FILE.py:NAME, optionally with NAME(gamma=3), +sam, +swa")
    add("--edition", default="demo", help=_EDITIONS)
    add("--out", default="bench", help="folder to write to (default: bench)")
    add("--setting", **SEVERAL, dest="settings", help="a setting of the edition; repeatable")
    add("--device", default="", help="torch device (default: cuda if available)")
    add("--chosen", default="", help="how the coefficients were chosen, in words, for the page")
    add("--quiet", **FLAG, help="print no line per epoch")

    add = command("train", _train, _selection, _names, resumes=_RESUMES)
    add("--device", default="", help="torch device (default: cuda if available)")
    add(
        "--compile",
        nargs="?",
        const="default",
        default="",
        choices=("default", "reduce-overhead"),
        metavar="MODE",
        dest="mode",
        help="torch.compile the network: default, or reduce-overhead for CUDA graphs; worth it "
        "for long runs on a GPU, since compiling takes a while",
    )
    add("--quiet", **FLAG, help="one line per run, none per epoch")
    add("--again", **FLAG, help="retrain runs whose record keeps no predictions")
    add("--replicates", **FLAG, help="keep metrics on resamples, which pages compute otherwise")

    add = command("runs", _runs, _selection)
    add("--missing", **FLAG, help="print only the names of runs that are still to train")

    add = command("claims", _claims)
    add("--edition", default="released", help=_EDITIONS)
    add("--paper", help=", ".join(plan.PAPERS))
    add("--seeds", **_NUMBER, help="the most seeds of each method (default: all)")
    add("--json", **FLAG, help="print JSON: a row for each claim and setting")

    add = command("results", _results)
    add("--edition", default="released", help=_EDITIONS)
    add("--setting", **SEVERAL, dest="settings", help="only this one; repeatable (default: all)")
    add("--metric", default="auroc", help=f"{', '.join(terms.METRICS)} (default: auroc)")
    add("--against", default="erm", metavar="METHOD", help="the other method (default: erm)")
    add("--method", **SEVERAL, help="only these; repeatable")
    add(
        "--recalibration",
        default="none",
        choices=RECALIBRATIONS,
        help="of both methods: temperature scaling fitted by NLL or by ECE on validation data, the "
        "temperature that is best on the test set, or histogram binning (default: none)",
    )
    add("--seeds", **_NUMBER, help="the most seeds of each method (default: all)")
    add("--csv", **FLAG, help="print CSV")

    command("collect", _collect)("--edition", default="released", help=_EDITIONS)

    command("delete", _delete, _selection, _names)("--yes", **FLAG, help="do not ask")

    add = command("plan", _plan)
    add("--edition", default="paper", help=_EDITIONS)
    add("--paper", default="", help=", ".join(plan.PAPERS))
    add("--csv", **FLAG, help="print only the cells, as CSV")

    sets = commands.add_parser("data", help="data sets: which are here, and how to get the others")
    actions = sets.add_subparsers(required=True, metavar="action")
    add_command(actions, "list", _data_list)
    add_command(actions, "get", _data_get)("name")
    add = add_command(actions, "pack", _data_pack)
    add("name")
    add("--out", default="packed", help="folder to write to (default: packed)")
    add_command(actions, "unpack", _data_unpack)("file", help="NAME.json, beside its mosaics")


# --- options that several commands share ---


def _changes(parser: argparse.ArgumentParser) -> None:
    """Options that change an edition."""
    add = parser.add_argument
    add("--dataset", default="", help="name of the data set (default: the edition's)")
    add("--network", default="", help="name of the network (default: the edition's)")
    add("--seeds", **_NUMBER, help="number of seeds, counted from 0 (default: the edition's)")
    add("--epochs", **_NUMBER, help="scale the protocol to this number of epochs")
    add(
        "--set",
        **SEVERAL,
        type=_setting,
        metavar="NAME=VALUE",
        dest="protocol",
        help="with --method: change a field of the protocol, such as batch_size=512; repeatable",
    )


def _setting(text: str) -> tuple[str, object]:
    """``batch_size=512`` as a name and a Python value; anything else is a word."""
    name, _, value = text.partition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", help="names of runs, as `calibkit runs` prints them")


def _selection(parser: argparse.ArgumentParser) -> None:
    _changes(parser)
    add = parser.add_argument_group("which runs").add_argument
    pages = ", ".join(dict.fromkeys((*plan.PAPERS, *plan.NOTEBOOKS)))
    add("--edition", default="demo", help=_EDITIONS)
    add("--paper", default="book", help=f"{pages}, book (the default: every notebook), all")
    add("--exhibit", default="", help="only the runs of one table or figure, such as bsce-tab1")
    add(
        "--method",
        action="append",
        help=f"train these instead; repeatable: {', '.join(plan.METHODS)}",
    )
    add("--setting", default="", help="one setting of the edition, such as cifar10-plain")
    add("--train-size", **_NUMBER, help="with --method: number of training samples")
    add("--variant", default="code", help="with --method: code (default) or paper")


def selection_of(options) -> plan.Selection:
    return plan.Selection(*(getattr(options, f.name, None) for f in fields(plan.Selection)))


def selected(options) -> list[plan.Run]:
    selection = selection_of(options)
    if options.method:
        return selection.runs(options.method)
    if options.exhibit:
        paper = options.paper if options.paper in plan.PAPERS else ""
        return selection.of_exhibit(options.exhibit, paper)
    return selection.of_page(options.paper)


def _print_table(rows: Iterable[Sequence[str]]) -> None:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{v:{width}}" for v, width in zip(row, widths, strict=True)).rstrip())


def _log(options) -> Callable:
    """A function that prints a line of training, or nothing with --quiet."""
    return lambda line: None if options.quiet else print(f"  {line}", flush=True)


# --- runs ---


def _train(options) -> None:
    """Train runs; finished ones are skipped.

    Train runs one after another. Finished runs are skipped; processes with the same selection share
    the work.

    Examples: calibkit train --paper fmfp · calibkit train --edition cifar10 --method
    'focal(gamma=5)' --method fmfp --seeds 1 --epochs 10
    """
    asked = selected(options)
    if options.names:
        by_name = {run.name: run for run in asked}
        if not by_name.keys() >= set(options.names):  # perhaps from another edition
            editions = (plan.runs("all", edition) for edition in plan.EDITIONS)
            by_name |= {run.name: run for runs in editions for run in runs}
        listing = f"calibkit runs --paper all --edition {options.edition}"
        for name in options.names:
            if name.partition("(")[0] in plan.METHODS:
                raise ValueError(f"{name!r} is a method: calibkit train --method '{name}'")
            plan.choose("run", name, by_name, listing)
        asked = [by_name[name] for name in options.names]
    from filelock import Timeout

    from calibkit_companion.training import loop  # late: torch is slow to import and may be absent

    # A run that another process is training goes to the end of the queue: they share the work.
    queue, last, start = deque(asked), set(), time.time()
    while queue:
        run = queue.popleft()
        how = {"device": options.device, "mode": options.mode, "again": options.again}
        try:
            record = loop.train(run, log=_log(options), wait=run in last, **how)
        except Timeout:
            last.add(run)
            queue.append(run)
            print(_row("running", run, "in another process; comes last here"), flush=True)
            continue
        if options.replicates:
            with folders.locked(run):
                folders.add_replicates(record)
        print(_row(*_state(run), _progress(asked, start)), flush=True)
    # A diverged run is a result, with a record that says so.


def _state(run: plan.Run) -> tuple[str, plan.Run, str]:
    """Status of a run, the run, and its numbers."""
    try:
        if record := folders.load(run):
            record.check()
    except DamagedRecord:
        return "damaged", run, ""
    if record is None:
        return "running" if folders.held(run.name) else "missing", run, ""
    if record.diverged:
        return "diverged", run, ""
    last, cost = {k: v[-1] for k, v in record.history.items()}, record.info["provenance"]
    numbers = "  ".join(f"{name} {last[name]:.4f}" for name in ("accuracy", "ece", "auroc"))
    return "done", run, f"{numbers}  {cost['seconds']:7.1f} s on {cost['device']}"


def _row(state: str, run: plan.Run, known: str, progress: str = "") -> str:
    """A line of the table that `train` and `runs` print."""
    return f"{state:8} {run.name:56} {known}  {progress}".rstrip()


def _progress(runs: list[plan.Run], start: float) -> str:
    """How many of the requested runs are done, and about how long the others take.

    Several processes may work on the same runs, so the speed comes from the records that were
    written since `start`, the time at which this process began.
    """
    files = [folders.runs_root() / run.name / "run.json" for run in runs]
    new = sum(file.exists() and file.stat().st_mtime >= start for file in files)
    left = sum(not folders.has(run) for run in runs)
    rest = left * (time.time() - start) / max(new, 1) / 60
    return f"[{len(runs) - left}/{len(runs)}]" + f" about {rest:.1f} min left" * bool(left and new)


def _runs(options) -> None:
    """List runs: done, running, missing, diverged or damaged; hours spent and left.

    Print a line for each run, then the number of runs, the hours spent and an estimate of the hours
    left, at the speed of the runs so far.

    Examples: calibkit runs --paper fmfp · calibkit runs --edition cifar10 --missing
    """
    from calibkit_companion.experiments import cost

    runs, states = selected(options), Counter()
    spent = expected = left = 0.0  # hours; those spent, and what had been expected of them
    for run in runs:
        state, _, known = _state(run)
        states[state] += 1
        if state in ("done", "diverged"):
            spent += folders.load(run).info["provenance"]["seconds"] / 3600
            expected += cost.hours(run)
        else:
            left += cost.hours(run)
        if not options.missing:
            print(_row(state, run, known))
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


def _delete(options) -> None:
    """Delete run folders: a selection is listed, then asked for.

    Delete the folders of runs, by name or by selection. Released tables stay, and so do the
    predictions of released runs; a folder with anything that the tables do not hold is kept.

    Examples: calibkit delete --edition demo --method mixup · calibkit delete
    mnist1d-cnn-erm-s0-1a2b3c4d
    """
    from calibkit_companion.records import deletion

    present = deletion.present()
    if options.names:
        for name in set(options.names) - tables.where().keys():
            plan.choose("run", name, present, f"ls {folders.runs_root()}")
        chosen = set(options.names) & present.keys()
    else:
        if not (options.method or options.exhibit or options.setting) and options.paper == "book":
            raise ValueError("delete: say which runs: names, --paper, --method, --setting …")
        known = {name for name, its in present.items() if its}
        chosen = {run.name for run in selected(options)} & known
    for name in sorted(chosen):
        print(name)
    if not chosen:
        return print("nothing to delete")
    if not options.yes:
        where = folders.runs_root()
        answer = input(f"delete these {len(chosen)} folders in {where}? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return print("nothing deleted")
    deletion.remove(chosen)
    print(f"deleted {len(chosen)} folders")


# --- what records say ---

_CLONE = (
    "they come with the repository, and are found from inside it: git clone --depth 1 "
    "https://github.com/calibkit/calibkit"
)


def _say_what_is_old() -> None:
    """A line about tables that have no checksums, on standard error."""
    old = sum(not its.opened.sealed for its in tables.settings().values())
    if old:
        words = f"the tables of {old} settings are of version 0.1.0 and have no checksums"
        print(f"calibkit: {words}; calibkit collect adds them", file=sys.stderr)


def _claims(options) -> None:
    """The papers' claims in every setting that has records.

    Print the verdict on each claim of the five papers in each setting, computed from the records,
    and the verdict on the paper's own table from its printed ±. Trains nothing.

    Example: calibkit claims --edition released --paper overconf
    """
    from calibkit_companion import claims

    with tables.one_release():
        rows = claims.board(options.edition, options.paper, options.seeds)
        places = list(claims.places(options.edition, options.seeds))
    _say_what_is_old()
    if options.json:
        names = "claim setting precondition outcome comparison estimate low high seeds printed"
        names += " level looks needed everything without"
        table = [{name: getattr(row, name) for name in names.split()} for row in rows]
        for line, row in zip(table, rows, strict=True):
            line["marked"] = [mark._asdict() for mark in row.marked]
        return print(json.dumps(arrays.plain(table), indent=1, ensure_ascii=False))
    statements = {claim.id: claim for claim in claims.claims(options.paper)}
    for identity, its in groupby((r for r in rows if r.shown), key=lambda row: row.claim):
        claim = statements[identity]
        print(f"{identity}  {claim.statement}")
        print(f"  {'its own table':18} {claims.printed(claim)}")
        for row in its:
            level = f"judged at {row.judged_at}" if row.seeds else ""
            found = ", ".join(filter(None, [row.comparison, row.measured, level]))
            why = f"({row.precondition})" if row.precondition else ""
            print(f"  {row.setting or '-':18} {row.outcome:22} {found} {why}".rstrip())
    print()
    print(claims.headline(rows).replace("**", ""))
    if not any(place.runs.methods for place in places):
        root = os.environ.get("CALIBKIT_CACHE", "data_cache")
        print(f"no records of this edition in {root}: calibkit train --edition {options.edition}")
        if options.edition == "released":
            print(_CLONE)


def _results(options) -> None:
    """Compare the methods of a setting by any metric.

    Print each method minus another one, paired by seed, with 95 % intervals, in natural units.

    Example: calibkit results --setting cifar10-plain --metric auroc --against erm
    """
    from calibkit_companion import results

    names = options.settings or dict.fromkeys(s.name for s in plan.settings(options.edition))
    columns = ("setting", "method", "estimate", "low", "high", "seeds", "outcome")
    lines = []
    with tables.one_release():
        for name in names:
            plan.setting(options.edition, name)  # there is such a one
            selection = plan.Selection(options.edition, name, seeds=options.seeds)
            runs = results.Results(selection, train=False)
            methods = options.method or [m for m in runs.methods if m != options.against]
            found = runs.compare(
                methods, options.against, options.metric, recalibration=options.recalibration
            )
            lines += [[getattr(row, column) for column in columns] for row in found.values()]
    _say_what_is_old()
    if not lines:  # where runs have it, any metric will do
        plan.choose("metric", options.metric, terms.METRICS, "calibkit results --help")
    if options.csv:
        return csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *lines])
    text = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in line] for line in lines]
    _print_table([columns, *text])


def _collect(options) -> None:
    """Turn run folders into the tables of an edition.

    Add the records of each setting to its tables in data_cache/released/SETTING. Settings without a
    new run or number are not touched, but tables of version 0.1.0 get checksums. A lost manifest is
    written anew. The folders stay; calibkit delete removes all of them but the predictions.
    """
    from calibkit_companion import results

    results.collect(options.edition, say=lambda line: print(line, flush=True))


def _plan(options) -> None:
    """List the published cells with the run that fills each, or why none can; and the total cost.

    For every number in the papers' tables, print the first of the runs (one per seed) whose mean
    fills it, named as `calibkit runs` prints it, or why there is none. Trains nothing.

    Examples: calibkit plan --paper bsce · calibkit plan --csv > plan.csv
    """
    from calibkit_companion.experiments import cost
    from calibkit_companion.results import printed

    table = printed.planned(options.paper, options.edition)
    if not options.csv:
        _print_table(printed.lines(table))
        return print("", *cost.totals(table), sep="\n")
    columns = printed.COLUMNS
    writer = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)


def _data_list(options) -> None:
    """List every data set.

    Print the source, licence and size of each data set, and where a copy lies.

    Example: calibkit data list
    """
    _print_table([str(value) for value in row.values()] for row in data.listing())


def _data_get(options) -> None:
    """Download or generate a data set.

    Use a copy that exists; otherwise download it. Then decode it and check that it loads.

    Example: calibkit data get cifar10
    """
    data.get(options.name)


def _data_pack(options) -> None:
    """Write a data set of images as a few files, for a machine without a network.

    The files are mosaics, compressed without loss, and NAME.json with the labels and checksums.
    Copy them into one folder there, and unpack them.

    Example: calibkit data pack cifar10 --out packed
    """
    from calibkit_companion.data.pack import pack

    files = pack(options.name, Path(options.out))
    size = sum(file.stat().st_size for file in files)
    print(f"wrote {len(files)} files, {size / 1e6:.0f} MB; there: calibkit data unpack {files[-1]}")


def _data_unpack(options) -> None:
    """Make the decoded copy of a packed data set; training then needs nothing else.

    Every file and every decoded array is checked against its checksum.

    Example: calibkit data unpack packed/cifar10.json
    """
    from calibkit_companion.data.pack import unpack

    print(f"decoded copy: {unpack(Path(options.file))}")


# --- one's own method ---


def _bench(options) -> None:
    """Compare your own method, recalibration, score or metric with the usual one.

    Train your method, and plain training if it is missing, with one protocol, on those data of the
    edition that are here. Compare the two. Write an HTML page, and its numbers as JSON.

    A method is a function (logits, targets) -> one loss per sample, or a factory; a recalibration
    is a class with fit and predict_proba, and needs no training. Examples: calibkit bench
    'my_loss.py:my_loss(gamma=3)+swa' · calibkit bench my_map.py:MyMap --edition released
    """
    from calibkit_companion import bench  # late: it draws

    if options.edition == "released" and not any(
        path.exists() for path in (folders.runs_root(), tables.released_root())
    ):
        print(f"no records of the published methods here; {_CLONE}")
    told: list[str] = []
    page = bench.build(
        options.method,
        selection_of(options),
        options.out,
        options.settings,
        device=options.device,
        chosen=options.chosen,
        log=_log(options),
        told=told.append,
    )
    numbers = json.loads(told[0])
    print_verdicts(numbers)
    for line in numbers["left_out"]:
        print(f"left out: {line}")
    print(page)
