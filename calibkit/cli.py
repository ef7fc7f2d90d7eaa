"""The command line: ``calibkit report``, ``recalibrate``, ``compare``, ``train`` and others."""

import argparse
import ast
import csv
import json
import os
import shutil
import sys
import time
from collections import deque
from dataclasses import fields
from itertools import groupby
from math import isnan

from calibkit import __version__, terms
from calibkit.companion import plan
from calibkit.training import store, tables

_EDITIONS = f"{', '.join(plan.EDITIONS)} (default: %(default)s)"


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 on success, 1 on failure, 2: wrong call, 3: ``--fail-if``, 130: Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        with terms.extras():
            return options.command(options)
    except KeyboardInterrupt:
        resumes = "; the same command resumes from here" * (options.command in (_train, _bench))
        print(f"calibkit: interrupted{resumes}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to flush to
        return 0
    except ModuleNotFoundError as error:
        print(f"calibkit: {error}", file=sys.stderr)
        return 2
    except (ValueError, OSError, store.DamagedRecord) as error:
        print(f"calibkit: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="calibkit",
        description="An honest report on your own predictions; the runs, data and claims of "
        "the book.",
        epilog="Examples: calibkit report preds.npz · calibkit train --paper fmfp · "
        "calibkit claims. Records are kept in $CALIBKIT_CACHE (default: data_cache), data sets in "
        "$CALIBKIT_DATA. Exit codes: 0 success, 1 failure, 2 wrong call, 3 a --fail-if "
        "holds, 130 interrupted.",
    )
    try:
        import shtab

        shtab.add_argument_to(parser, ["--print-completion"])
    except ImportError:  # completion needs shtab, which is optional
        pass
    parser.add_argument("--version", action="version", version=f"calibkit {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    report = commands.add_parser(
        "report",
        help="what your own model's confidence is good for",
        description="Read saved predictions (.npz, .csv, .parquet, .jsonl, .pt and others); write "
        "one self-contained HTML page, and its numbers as JSON.",
        epilog="An .npz holds logits or probs (n, k) and labels (n,), and, if you have them, "
        "val_logits, val_labels, groups, weights and class_names. A .csv, .parquet or .jsonl has a "
        "column label, a column prob_NAME or logit_NAME for each class (one is enough for two "
        "classes), and, if you have them, group, weight and split (test or val). Where only the "
        "confidence of answers is known: columns confidence and correct. Examples: calibkit report "
        "preds.npz · calibkit report new.npz --against old.npz --target-risk 0.01 0.05 · calibkit "
        "report fraud.csv --positive fraud --budget 200",
    )
    report.add_argument("predictions", help="file of predictions; - is standard input")
    report.add_argument("--labels", help="a separate file of labels (.npy, or text, one per line)")
    report.add_argument("--out", default="report", help="folder to write to (default: report)")
    report.add_argument(
        "--against", metavar="FILE", help="predictions of a second model for the same samples"
    )
    report.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME",
        help="a column or array of groups to look at one by one; repeatable",
    )
    report.add_argument(
        "--tokens", action="store_true", help="take scores (texts, tokens, classes) token by token"
    )
    _add_rules(report)
    _add_gate(report)
    report.set_defaults(command=_report)

    bench = commands.add_parser(
        "bench",
        help="compare your own method or recalibration with the published ones",
        description="Train your method, and ERM if missing, under the protocol of the published "
        "ones; compare it with all that have records; write an HTML page, and its numbers as JSON.",
        epilog="A method is a function (logits, targets) -> one loss per sample, or a factory; a "
        "recalibration is a class with fit and predict_proba, and needs no training. Examples: "
        "calibkit bench 'my_loss.py:my_loss(gamma=3)+swa' · calibkit bench my_map.py:MyMap "
        "--edition released",
    )
    bench.add_argument("method", help="FILE.py:NAME, optionally with NAME(gamma=3), +sam, +swa")
    bench.add_argument("--edition", default="demo", help=_EDITIONS)
    bench.add_argument("--out", default="bench", help="folder to write to (default: bench)")
    bench.add_argument(
        "--setting", action="append", default=[], help="a setting of the edition; repeatable"
    )
    bench.add_argument("--dataset", default="", help="instead of the edition's")
    bench.add_argument("--network", default="", help="instead of the edition's")
    bench.add_argument("--seeds", type=int, default=0, help="how many (default: the edition's)")
    bench.add_argument("--epochs", type=int, default=0, help="run the protocol in this many")
    bench.add_argument("--device", default="", help="torch device (default: cuda if available)")
    bench.add_argument(
        "--chosen", default="", help="how its coefficients were chosen, in words, for the page"
    )
    bench.add_argument("--quiet", action="store_true", help="print no line per epoch")
    _add_settings(bench, "a protocol setting, such as batch_size=512")
    bench.set_defaults(command=_bench)

    recalibrate = commands.add_parser(
        "recalibrate",
        help="fit a map and choose thresholds, for deployment",
        description="Fit a recalibration to the validation set of saved predictions, or to all of "
        "them; choose thresholds for the probabilities behind it; write both to a small JSON file, "
        "which posthoc.load reads.",
        epilog="Examples: calibkit recalibrate preds.npz --save map.json · calibkit recalibrate "
        "fraud.csv --map beta --positive fraud --budget 200 --precision 0.5 --save map.json",
    )
    recalibrate.add_argument("predictions", help="file, as `calibkit report` reads it")
    recalibrate.add_argument("--labels", help="a separate file of labels")
    recalibrate.add_argument(
        "--map",
        default="temperature",
        choices=(
            "temperature",
            "structured",
            "vector",
            "matrix",
            "beta",
            "top",
            "isotonic",
            "histogram",
        ),
        help="default: %(default)s",
    )
    recalibrate.add_argument("--save", metavar="FILE", required=True, help="such as map.json")
    _add_rules(recalibrate)
    _add_output(recalibrate)
    recalibrate.set_defaults(command=_recalibrate)

    compare = commands.add_parser(
        "compare",
        help="compare models on the same samples, or one model over time",
        description="Read prediction files for the same samples; compare every pair of models. "
        "Intervals are corrected for the number of pairs. Files of other samples (--unpaired), or "
        "one file with a column `date`: has calibration drifted beyond chance since the first, "
        "and where?",
        epilog="Examples: calibkit compare a.npz b.npz c.npz --out compare · calibkit compare "
        "old.npz new.npz --unpaired --fail-if 'drifted>0' · calibkit compare dated.csv",
    )
    compare.add_argument("predictions", nargs="+", help="files, as `calibkit report` reads them")
    compare.add_argument("--labels", help="a separate file of labels, shared by all")
    compare.add_argument("--out", default="compare", help="folder to write to (default: compare)")
    compare.add_argument(
        "--unpaired", action="store_true", help="the files are of other samples, the oldest first"
    )
    _add_gate(compare)
    compare.set_defaults(command=_compare)

    train = commands.add_parser(
        "train",
        help="train runs; finished ones are skipped",
        description="Train runs one after another. Finished runs are skipped; processes with the "
        "same selection share the work.",
        epilog="Examples: calibkit train --paper fmfp · calibkit train --edition cifar10 "
        "--method 'focal(gamma=5)' --method fmfp --seeds 1 --epochs 10",
    )
    train.add_argument("names", nargs="*", help="names of runs, as `calibkit runs` prints them")
    _selection(train)
    train.add_argument("--device", default="", help="torch device (default: cuda if available)")
    train.add_argument(
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
    train.add_argument("--quiet", action="store_true", help="one line per run, none per epoch")
    train.add_argument(
        "--again", action="store_true", help="retrain runs whose record keeps no predictions"
    )
    train.add_argument(
        "--replicates",
        action="store_true",
        help="keep metrics on resamples, too: pages need not compute them",
    )
    train.set_defaults(command=_train)

    runs = commands.add_parser(
        "runs",
        help="list runs: done, running, missing, diverged or damaged; hours spent and left",
        epilog="Examples: calibkit runs --paper fmfp · calibkit runs --edition cifar10 --missing",
    )
    _selection(runs)
    runs.add_argument(
        "--missing", action="store_true", help="only the names of runs still to train"
    )
    tidy = runs.add_mutually_exclusive_group()
    tidy.add_argument(
        "--light", action="store_true", help="drop the predictions from the records of these runs"
    )
    tidy.add_argument(
        "--replicates", action="store_true", help="add metrics on resamples to full records"
    )
    runs.set_defaults(command=_runs)

    claims = commands.add_parser(
        "claims",
        help="the papers' claims in every setting that has records",
        description="How each claim of the five papers fares, from the records: settings as "
        "columns, and the paper's own table by the same rule. Trains nothing.",
        epilog="Example: calibkit claims --edition released --paper overconf",
    )
    claims.add_argument("--edition", default="released", help=_EDITIONS)
    claims.add_argument("--paper", help=", ".join(plan.PAPERS))
    claims.add_argument("--seeds", type=int, default=0, help="only so many (default: all)")
    claims.add_argument("--json", action="store_true", help="a list of rows, a claim and setting")
    claims.set_defaults(command=_claims)

    compared = commands.add_parser(
        "results",
        help="compare the methods of a setting by any metric",
        description="Methods minus another, paired by seed, with 95 % intervals, in natural units.",
        epilog="Example: calibkit results --setting cifar10-plain --metric auroc --against erm",
    )
    compared.add_argument("--edition", default="released", help=_EDITIONS)
    compared.add_argument(
        "--setting", action="append", default=[], help="repeatable (default: every one)"
    )
    compared.add_argument("--metric", default="auroc", help="such as auroc, ece (default: auroc)")
    compared.add_argument("--against", default="erm", metavar="METHOD", help="(default: erm)")
    compared.add_argument("--method", action="append", help="only these; repeatable")
    compared.add_argument(
        "--recalibration",
        default="none",
        choices=("none", "ts_nll", "ts_ece", "ts_test", "binned"),
        help="of both sides: a temperature of lowest NLL or ECE on validation data, that of lowest "
        "ECE on the test set, or histogram binning",
    )
    compared.add_argument("--seeds", type=int, default=0, help="only so many (default: all)")
    compared.add_argument("--csv", action="store_true", help="as CSV")
    compared.set_defaults(command=_results)

    collect = commands.add_parser(
        "collect",
        help="turn run folders into the tables of an edition",
        description="Write the records of each setting into data_cache/released/SETTING, beside "
        "what its tables hold already; settings without a new run or number are not touched. "
        "The folders stay; calibkit delete removes all of them but the predictions.",
    )
    collect.add_argument("--edition", default="released", help=_EDITIONS)
    collect.set_defaults(command=_collect)

    delete = commands.add_parser(
        "delete",
        help="delete run folders: a selection is listed, then asked for",
        description="Delete the folders of runs: by name, by selection, or --unplanned, those of "
        "this library's methods that no edition plans. Methods of your own are deleted only by "
        "name. Released tables stay.",
        epilog="Examples: calibkit delete --edition demo --method mixup · "
        "calibkit delete --unplanned · calibkit delete mnist1d-cnn-erm-s0-1a2b3c4d",
    )
    delete.add_argument("names", nargs="*", help="names of runs, as `calibkit runs` prints them")
    _selection(delete)
    delete.add_argument("--unplanned", action="store_true", help="what no edition plans")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    delete.set_defaults(command=_delete)

    cells = commands.add_parser(
        "plan",
        help="for each published cell, the run that fills it or why none can; and the total cost",
        description="For every number in the papers' tables, the first of the runs (one per seed) "
        "whose mean fills it, named as `calibkit runs` prints it, or why there is none. Trains "
        "nothing.",
        epilog="Examples: calibkit plan --paper bsce · calibkit plan --csv > plan.csv",
    )
    cells.add_argument("--edition", default="paper", help=_EDITIONS)
    cells.add_argument("--paper", default="", help=", ".join(plan.PAPERS))
    cells.add_argument("--csv", action="store_true", help="only the cells, as CSV")
    cells.set_defaults(command=_plan)

    data = commands.add_parser(
        "data",
        help="data sets: which are here, and how to get the others",
        epilog="Examples: calibkit data list · calibkit data get cifar10",
    )
    actions = data.add_subparsers(required=True, metavar="action")
    actions.add_parser("list", help="list every data set").set_defaults(command=_data_list)
    get = actions.add_parser("get", help="download or generate a data set")
    get.add_argument("name")
    get.set_defaults(command=_data_get)
    return parser


def _add_rules(parser: argparse.ArgumentParser) -> None:
    """What thresholds are for."""
    parser.add_argument(
        "--target-risk",
        type=float,
        nargs="+",
        default=(),
        metavar="SHARE",
        help="thresholds on the confidence for these error rates, such as 0.01",
    )
    two = parser.add_argument_group("two classes: thresholds on the probability of one")
    two.add_argument("--positive", metavar="NAME", help="which (default: by name, or the rarer)")
    for rule, what in (
        ("cost-ratio", "least cost, if a missed positive costs this many false alarms"),
        (
            "budget",
            "flag at most this many in a test set of this size; below 1, that share",
        ),
        ("precision", "this share of the flagged is positive"),
        ("recall", "this share of the positives is flagged"),
    ):
        two.add_argument(f"--{rule}", type=float, nargs="+", default=[], metavar="X", help=what)


def _rules(options) -> list[tuple[str, float]]:
    from calibkit.report import thresholds

    return [(rule, value) for rule in thresholds.RULES for value in getattr(options, rule)]


def _add_gate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        type=_condition,
        metavar="CONDITION",
        help="exit with code 3 if a number of the JSON file is so, such as 'excess_ece>0.05'; "
        "repeatable",
    )
    _add_output(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the JSON file and no words")
    output.add_argument("--quiet", action="store_true", help="print nothing")


def _condition(text: str):
    from calibkit.report import gate

    try:
        return gate.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(error) from error


def _selection(parser: argparse.ArgumentParser) -> None:
    choice = parser.add_argument_group("which runs")
    choice.add_argument("--edition", default="demo", help=_EDITIONS)
    choice.add_argument(
        "--paper",
        default="book",
        help=", ".join(dict.fromkeys((*plan.PAPERS, *plan.NOTEBOOKS)))
        + ", book (the default: every notebook), all",
    )
    choice.add_argument(
        "--exhibit", default="", help="only what one table or figure needs, such as bsce-tab1"
    )
    choice.add_argument("--method", action="append", help="these methods instead; repeatable")
    choice.add_argument(
        "--setting", default="", help="one setting of the edition, such as cifar10-plain"
    )
    choice.add_argument("--dataset", default="", help="instead of the edition's")
    choice.add_argument("--network", default="", help="instead of the edition's")
    choice.add_argument(
        "--seeds", type=int, default=0, help="how many, from 0 (default: the edition's)"
    )
    choice.add_argument("--epochs", type=int, default=0, help="run the protocol in this many")
    choice.add_argument(
        "--train-size", type=int, default=0, help="with --method: number of training samples"
    )
    choice.add_argument("--variant", default="code", help="with --method: code (default) or paper")
    _add_settings(choice, "with --method: a protocol setting, such as batch_size=512")


def _add_settings(parser, what: str) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        dest="protocol",
        help=f"{what}; repeatable",
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


def _selected(options) -> list[plan.Run]:
    selection = plan.Selection(*(getattr(options, f.name) for f in fields(plan.Selection)))
    if options.method:
        return selection.runs(options.method)
    if options.exhibit:
        paper = options.paper if options.paper in plan.PAPERS else ""
        return selection.of_exhibit(options.exhibit, paper)
    return selection.of_page(options.paper)


def _train(options) -> int:
    selection = _selected(options)
    if options.names:
        by_name = {run.name: run for run in selection}
        if not by_name.keys() >= set(options.names):  # perhaps from another edition
            editions = (plan.runs("all", edition) for edition in plan.EDITIONS)
            by_name |= {run.name: run for runs in editions for run in runs}
        for name in options.names:
            plan.choose("run", name, by_name)
        queue = [by_name[name] for name in options.names]
    else:
        queue = selection
    asked = list(queue)
    from calibkit.training import loop  # late: torch is slow to import and may be absent

    log = (lambda line: None) if options.quiet else (lambda line: print("  " + line, flush=True))
    # A run that another process is training goes to the end of the queue: they share the work.
    queue, put_off, start = deque(queue), set(), time.time()
    while queue:
        run = queue.popleft()
        if run not in put_off and store.busy(run):
            put_off.add(run)
            queue.append(run)
            print(f"{run.name}: another process is training it; it comes last here", flush=True)
            continue
        if why := loop.put_off(run, options.device):  # the other runs still go ahead
            print(f"{run.name}: put off; {why}", flush=True)
            continue
        record = loop.train(
            run, device=options.device, log=log, mode=options.mode, again=options.again
        )
        if options.replicates:
            with store.locked(run):
                store.lighten(record, whole=True)
        print(_progress(asked, record, start), flush=True)
    return 0  # a diverged run is a result, with a record that says so


def _progress(runs: list[plan.Run], record: store.Record, start: float) -> str:
    """How many of the requested runs are done, the last result, and about how long the rest takes.

    Several processes may work on the same runs, so the pace is read off the records: how many were
    written since `start`, when this process began.
    """
    files = [store.runs_root() / run.name / "run.json" for run in runs]
    new = sum(file.exists() and file.stat().st_mtime >= start for file in files)
    left = sum(not store.has(run) for run in runs)
    line = f"[{len(runs) - left}/{len(runs)}] {record.name}"
    if record.diverged:
        return line + "  DIVERGED"
    line += f"  accuracy {record.history['accuracy'][-1]:.3f}"
    if left and new:
        rest = left * (time.time() - start) / new
        line += f"  about {rest / 60:.1f} min left"
    return line


def _tidy(options) -> int:
    """Make records lighter."""
    for run in _selected(options):
        record = store.verify(run)
        if record:
            with store.locked(run):
                store.lighten(record, whole=options.replicates)
            print(run.name)
    return 0


def _runs(options) -> int:
    if options.light or options.replicates:
        return _tidy(options)
    states, spent, pace = [], 0.0, {}
    runs = _selected(options)
    for run in runs:
        result = ""
        try:
            record = store.load(run)
            if record:
                record.check()
        except store.DamagedRecord:
            state = "damaged"
        else:
            state = record.info["status"] if record else "missing"
            if not record and store.busy(run):
                state = "running"
            if record:
                cost = record.info["provenance"]
                spent += cost["seconds"]
                each = cost["seconds"] / max(1, run.protocol.epochs)
                pace.setdefault(_kind(run), []).append(each)
            if record and not record.diverged:
                last = {k: v[-1] for k, v in record.history.items()}
                result = (
                    f"accuracy {last['accuracy']:.4f}  ece {last['ece']:.4f}  "
                    f"auroc {last['auroc']:.4f}  {cost['seconds']:7.1f} s on {cost['device']}"
                )
        states.append(state)
        if not options.missing:
            print(f"{state:8} {run.name:56} {result}")
        elif state in ("missing", "damaged"):
            print(run.name)
    if not options.missing:
        print(_summary(runs, states, spent, pace))
    return 0


def _kind(run: plan.Run) -> tuple:
    """Key of runs that cost about the same per epoch: SAM takes every step twice."""
    size = run.protocol.train_size
    return run.dataset, run.network, size, run.recipe.update


def _summary(runs: list[plan.Run], states: list[str], spent: float, pace: dict) -> str:
    """How many runs are in each state, the hours spent, and those left at the measured pace.

    A run still to train is assumed to cost per epoch what similar runs have cost or, without any,
    the mean of all runs.
    """
    kinds = ("done", "running", "missing", "diverged", "damaged")
    counts = [f"{states.count(s)} {s}" for s in kinds]
    line = f"{len(runs)} runs: {', '.join(counts)}; {spent / 3600:.2f} h spent"
    left = [r for r, s in zip(runs, states, strict=True) if s not in ("done", "diverged")]
    if not left:
        return line
    if not pace:
        return line + ", cost of the rest unknown"
    pace_by_kind = {kind: sum(costs) / len(costs) for kind, costs in pace.items()}
    mean = sum(pace_by_kind.values()) / len(pace_by_kind)
    hours = sum(pace_by_kind.get(_kind(run), mean) * run.protocol.epochs for run in left) / 3600
    return line + f", about {hours:.2f} h left"


_CLONE = (
    "they come with the repository, and are found from inside it: git clone --depth 1 "
    "https://github.com/calibkit/calibkit"
)


def _claims(options) -> int:
    from calibkit.companion import claims

    rows = claims.board(options.edition, options.paper, options.seeds)
    if options.json:
        names = "claim setting precondition outcome comparison estimate low high seeds printed"
        table = [{name: _json_of(getattr(row, name)) for name in names.split()} for row in rows]
        print(json.dumps(table, indent=1, ensure_ascii=False))
        return 0
    statements = {claim.id: claim for claim in claims.claims(options.paper)}
    for identity, its in groupby((r for r in rows if r.shown), key=lambda row: row.claim):
        claim = statements[identity]
        print(f"{identity}  {claim.statement}")
        print(f"  {'its own table':18} {claims.printed(claim)}")
        for row in its:
            found = ", ".join(filter(None, [row.comparison, row.measured]))
            why = f"({row.precondition})" if row.precondition else ""
            print(f"  {row.setting or '-':18} {row.outcome:20} {found} {why}".rstrip())
    print()
    print(claims.headline(rows, options.edition).replace("**", ""))
    if not any(row.seeds for row in rows):
        root = os.environ.get("CALIBKIT_CACHE", "data_cache")
        print(f"no records of this edition in {root}: calibkit train --edition {options.edition}")
        if options.edition == "released":
            print(_CLONE)
    return 0


def _json_of(value):
    return None if isinstance(value, float) and isnan(value) else value


def _results(options) -> int:
    from calibkit.companion import results

    names = options.setting or dict.fromkeys(s.name for s in plan.settings(options.edition))
    columns = ("setting", "method", "estimate", "low", "high", "seeds", "outcome")
    lines = []
    for name in names:
        plan.setting(options.edition, name)  # there is such a one
        selection = plan.Selection(options.edition, name, seeds=options.seeds)
        runs = results.Results(selection, train=False)
        methods = options.method or [m for m in runs.methods if m != options.against]
        found = runs.compare(
            methods, options.against, options.metric, recalibration=options.recalibration
        )
        lines += [[getattr(row, column) for column in columns] for row in found.values()]
    if not lines:  # where runs have it, any metric will do
        plan.choose("metric", options.metric, terms.METRICS)
    if options.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([columns, *lines])
        return 0
    shown = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(columns, *shown, strict=True)]
    for line in [columns, *shown]:
        print("  ".join(f"{v:{width}}" for v, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _collect(options) -> int:
    from calibkit.companion import results

    results.collect(options.edition, say=lambda line: print(line, flush=True))
    return 0


def _delete(options) -> int:
    """List the folders of some runs, ask, and delete them."""
    root = store.runs_root()
    released = tables.where()
    folders = {p.name for p in root.glob("*") if p.is_dir() and not p.name.startswith(".")}
    folders -= {name for name in folders & released.keys() if _only_predictions(root / name)}
    if options.names:
        for name in options.names:
            plan.choose("run", name, folders)
        chosen = set(options.names)
    elif options.unplanned:
        planned = {run.name for edition in plan.EDITIONS for run in plan.runs("all", edition)}
        chosen = {name for name in folders - planned if _is_ours(root / name)}
    else:
        if not (options.method or options.exhibit or options.setting) and options.paper == "book":
            raise ValueError("delete: say which runs: names, --paper, --method, --setting …")
        chosen = {run.name for run in _selected(options)} & folders
    for name in sorted(chosen):
        print(name)
    if not chosen:
        print("nothing to delete")
        return 0
    if not options.yes:
        answer = input(f"delete these {len(chosen)} folders in {root}? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("nothing deleted")
            return 0
    for name in sorted(chosen):
        for file in (root / name).iterdir():  # of a released run its predictions stay
            if name not in released or file.name != "arrays.npz":
                file.unlink() if file.is_file() else shutil.rmtree(file)
        if not any((root / name).iterdir()):
            (root / name).rmdir()
    print(f"deleted {len(chosen)} folders")
    return 0


def _only_predictions(folder) -> bool:
    return [file.name for file in folder.iterdir()] == ["arrays.npz"]


def _is_ours(folder) -> bool:
    """Whether a record is of a method of this library; of what cannot be read nobody knows."""
    from calibkit.training import plugins

    try:
        method = dict(json.loads((folder / "run.json").read_text())["run"]["method"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return not plugins.own(method.get("objective", ""))


def _plan(options) -> int:
    from calibkit.companion import printed

    table = printed.planned(options.paper, options.edition)
    if options.csv:
        columns = printed.COLUMNS
        writer = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    else:
        print(printed.as_text(table))
    return 0


def _data_list(options) -> int:
    from calibkit import data

    for row in data.listing():
        print("  ".join(f"{value}" for value in row.values()))
    return 0


def _data_get(options) -> int:
    from calibkit import data

    data.get(options.name)
    return 0


def _report(options) -> int:
    try:
        from calibkit import report  # late: it draws

        replaced = os.path.exists(os.path.join(options.out, "report.html"))
        page = report.build(
            options.predictions,
            options.out,
            options.against,
            options.labels,
            options.target_risk,
            positive=options.positive,
            rules=_rules(options),
            group=options.group,
            tokens=options.tokens,
            log=_show_step,
        )
    except MemoryError as error:
        raise OSError("too large for the memory of this machine") from error
    finally:
        _show_step("")
    if replaced and not (options.json or options.quiet):
        print(f"· An earlier report in {options.out} was replaced; --out keeps it.")
    return _gated(options, page, _print_report)


def _print_report(numbers: dict) -> None:
    for answer in numbers["verdict"]:
        print(f"{answer['title']}\n  {answer['text']}")
    for note in numbers["notes"]:
        print(f"· {note}")
    for caution in numbers["cautions"]:
        print(f"! {caution}")


def _gated(options, page, say) -> int:
    """Print what was found, in words or as JSON; 3 with one line if a condition holds."""
    from calibkit.report import gate

    text = page.with_suffix(".json").read_text(encoding="utf-8")
    numbers = json.loads(text)
    failed = gate.failures(numbers, options.fail_if)
    if options.json:
        sys.stdout.write(text)
    elif not options.quiet:
        say(numbers)
        print(page)
    if failed:
        print(f"calibkit: failed: {'; '.join(failed)}", file=sys.stderr)
    return gate.FAILED if failed else 0


def _recalibrate(options) -> int:
    from calibkit.report import deploy, predictions

    data = predictions.read(options.predictions, options.labels)
    model, about = deploy.recalibrate(
        data, options.map, options.positive, options.target_risk, _rules(options)
    )
    model.save(options.save, **about)
    if options.json:
        with open(options.save, encoding="utf-8") as file:
            sys.stdout.write(file.read())
    elif not options.quiet:
        print("\n".join([*deploy.lines(options.map, model, about), options.save]))
    return 0


def _show_step(words: str) -> None:
    """What a terminal shows while it waits, in one line that the next overwrites."""
    if sys.stderr.isatty():
        print(f"\r{words:70}" if words else f"\r{'':70}\r", end="", file=sys.stderr, flush=True)


def _bench(options) -> int:
    from calibkit.companion import bench  # late: it draws

    if options.edition == "released" and not any(
        path.exists() for path in (store.runs_root(), tables.released_root())
    ):
        print(f"no records of the published methods here; {_CLONE}")
    page = bench.build(
        options.method,
        plan.Selection(
            options.edition,
            dataset=options.dataset,
            network=options.network,
            seeds=options.seeds,
            epochs=options.epochs,
            protocol=options.protocol,
        ),
        options.out,
        options.setting,
        device=options.device,
        chosen=options.chosen,
        log=(lambda line: None) if options.quiet else (lambda line: print("  " + line, flush=True)),
    )
    _print_verdicts(json.loads(page.with_suffix(".json").read_text(encoding="utf-8")))
    print(page)
    return 0


def _compare(options) -> int:
    from calibkit.report import comparison  # late: it draws

    page = comparison.build(options.predictions, options.out, options.labels, options.unpaired)
    return _gated(options, page, _print_verdicts)


def _print_verdicts(numbers: dict) -> None:
    for block in numbers["verdicts"]:
        print(block["title"])
        for answer in block["verdict"]:
            print(f"  {answer['title']}\n    {answer['text']}")


if __name__ == "__main__":
    sys.exit(main())
