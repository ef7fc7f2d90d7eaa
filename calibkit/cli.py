"""The command line: ``calibkit report``, ``recalibrate``, ``compare``, ``train`` and others."""

import argparse
import ast
import json
import os
import shutil
import sys
import time
from collections import deque
from dataclasses import fields

from calibkit import __version__, terms
from calibkit.companion import plan
from calibkit.training import store

_EDITIONS = f"{', '.join(plan.EDITIONS)} (default: %(default)s)"


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 on success, 1 on failure, 2: wrong call, 3: ``--fail-if``, 130: Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        with terms.extras():
            return options.command(options)
    except KeyboardInterrupt:
        print("calibkit: interrupted; the same command resumes from here", file=sys.stderr)
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
    tidy.add_argument("--prune", action="store_true", help="delete records that no edition uses")
    runs.set_defaults(command=_runs)

    claims = commands.add_parser(
        "claims",
        help="check the papers' claims against the records",
        description="A verdict on each claim of the five papers, from the records; trains nothing.",
        epilog="Example: calibkit claims --edition released --paper overconf",
    )
    claims.add_argument("--edition", default="released", help=_EDITIONS)
    claims.add_argument("--paper", help=", ".join(plan.PAPERS))
    claims.add_argument("--dataset", default="", help="instead of the edition's")
    claims.add_argument("--network", default="", help="instead of the edition's")
    _add_settings(claims, "use runs with another protocol setting, such as reduction=sum")
    claims.set_defaults(command=_claims)

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

    report = commands.add_parser(
        "report",
        help="what your own model's confidence is good for",
        description="Read saved predictions (.npz, .csv, .parquet, .npy); write one self-contained "
        "HTML page, and its numbers as JSON.",
        epilog="An .npz holds logits or probs (n, k) and labels (n,), and, if you have them, "
        "val_logits, val_labels, groups and class_names. A .csv or .parquet has a column label, a "
        "column prob_NAME or logit_NAME for each class, and, if you have them, group and split "
        "(test or val). Examples: calibkit report preds.npz · "
        "calibkit report new.npz --against old.npz --target-risk 0.01 0.05",
    )
    report.add_argument("predictions", help="file of predictions")
    report.add_argument("--labels", help="a separate file of labels (.npy, or text, one per line)")
    report.add_argument("--out", default="report", help="folder to write to (default: report)")
    report.add_argument(
        "--against", metavar="FILE", help="predictions of a second model for the same samples"
    )
    report.add_argument(
        "--target-risk",
        type=float,
        nargs="+",
        default=(),
        metavar="SHARE",
        help="error rates to find thresholds for, such as 0.01",
    )
    _add_gate(report)
    report.set_defaults(command=_report)

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
    recalibrate.add_argument(
        "--target-risk",
        type=float,
        nargs="+",
        default=(),
        metavar="SHARE",
        help="thresholds on the confidence, for these error rates",
    )
    two = recalibrate.add_argument_group("two classes: thresholds on the probability of one")
    two.add_argument("--positive", metavar="NAME", help="which (default: the rarer)")
    for rule, what in (
        ("budget", "flag at most so many samples of the test set; below 1, that share"),
        ("precision", "keep this share of the flagged positive"),
        ("recall", "find this share of the positives"),
        ("cost-ratio", "least cost, if a missed positive costs so many false alarms"),
    ):
        two.add_argument(f"--{rule}", type=float, nargs="+", default=[], metavar="X", help=what)
    _add_output(recalibrate)
    recalibrate.set_defaults(command=_recalibrate)

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
    bench.add_argument("--quiet", action="store_true", help="print no line per epoch")
    _add_settings(bench, "a protocol setting, such as batch_size=512")
    bench.set_defaults(command=_bench)

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
    return parser


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
        dest="settings",
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
        from calibkit.companion import cells

        paper = options.paper if options.paper in plan.PAPERS else ""
        return cells.runs(options.exhibit, selection, paper)
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
    from calibkit.training import loop  # late: torch is slow to import and may be absent

    log = (lambda line: None) if options.quiet else (lambda line: print("  " + line, flush=True))
    # A run that another process is training goes to the end of the queue: they share the work.
    queue, put_off, start = deque(queue), set(), time.time()
    while queue:
        run = queue.popleft()
        if run not in put_off and store.busy(run):
            put_off.add(run)
            queue.append(run)
            continue
        if why := loop.put_off(run, options.device):  # the other runs still go ahead
            print(f"{run.name}: put off; {why}", flush=True)
            continue
        record = loop.train(
            run, device=options.device, log=log, mode=options.mode, again=options.again
        )
        print(_progress(selection, record, start), flush=True)
    return 0  # a diverged run is a result, with a record that says so


def _progress(runs: list[plan.Run], record: store.Record, start: float) -> str:
    """How many of the requested runs are done, the last result, and about how long the rest takes.

    Several processes may work on the same runs, so the pace is read off the records: how many were
    written since `start`, when this process began.
    """
    folders = [store.runs_root() / run.name / "run.json" for run in runs]
    written = [f.stat().st_mtime for f in folders if f.exists()]
    left, new = len(runs) - len(written), sum(t >= start for t in written)
    line = f"[{len(written)}/{len(runs)}] {record.name}"
    if record.diverged:
        return line + "  DIVERGED"
    line += f"  accuracy {record.history['accuracy'][-1]:.3f}"
    if left and new:
        rest = left * (time.time() - start) / new
        line += f"  about {rest / 60:.1f} min left"
    return line


def _tidy(options) -> int:
    """Make records lighter, or delete those that no edition uses."""
    if options.prune:
        planned = {run.name for edition in plan.EDITIONS for run in plan.runs("all", edition)}
        for path in sorted(store.runs_root().iterdir()):
            if path.is_dir() and not path.name.startswith(".") and path.name not in planned:
                shutil.rmtree(path)
                print(f"deleted {path.name}")
        return 0
    for run in _selected(options):
        record = store.verify(run)
        if record:
            with store.locked(run):
                store.lighten(record, whole=options.replicates)
            print(run.name)
    return 0


def _runs(options) -> int:
    if options.light or options.replicates or options.prune:
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


def _claims(options) -> int:
    from calibkit.companion import claims

    def show_progress(identity: str) -> None:
        if sys.stderr.isatty():
            print(f"\r{identity}  ", end="", file=sys.stderr, flush=True)

    where = {"dataset": options.dataset, "network": options.network, "settings": options.settings}
    where = {name: value for name, value in where.items() if value}
    if "settings" in where:
        where["settings"] = dict(where["settings"])
    show_progress("reading the claims")
    board = claims.board(options.edition, options.paper, show_progress, **where)
    if sys.stderr.isatty():
        print("\r" + " " * 20 + "\r", end="", file=sys.stderr, flush=True)
    for line in board:
        print(f"{line.verdict:12}  {line.claim.id:13}  {line.claim.statement}")
        print(f"{'':14}the paper's own table: {line.printed}")
        for verdict in line.here:
            place = verdict.setting or "mathematics"
            sentence = f"{place}: {verdict.verdict}. {verdict.why} {verdict.power}"
            print(f"{'':14}{sentence.rstrip()}")
        if line.verdict == "needs data" and line.shown.command:
            print(f"{'':14}{line.shown.command}")
    verdicts = [line.verdict for line in board]
    counts = ", ".join(f"{verdicts.count(v)} {w}" for v, w in claims.SUMS.items())
    print(f"{len(board)} claims: {counts}")
    if not any(verdict.n for line in board for verdict in line.here):
        root = os.environ.get("CALIBKIT_CACHE", "data_cache")
        print(f"no records of this edition in {root}: calibkit train --edition {options.edition}")
    return 0


def _plan(options) -> int:
    from calibkit.companion import cells

    table = cells.rows(options.paper, options.edition)
    sys.stdout.write(cells.as_csv(table) if options.csv else cells.as_text(table) + "\n")
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

        page = report.build(
            options.predictions, options.out, options.against, options.labels, options.target_risk
        )
    except MemoryError as error:
        raise OSError("too large for the memory of this machine") from error
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
    rules = [(r, x) for r in deploy.RULES for x in getattr(options, r)]
    model, about = deploy.recalibrate(
        data, options.map, options.positive, options.target_risk, rules
    )
    model.save(options.save, **about)
    if options.json:
        with open(options.save, encoding="utf-8") as file:
            sys.stdout.write(file.read())
    elif not options.quiet:
        print("\n".join([*deploy.lines(options.map, model, about), options.save]))
    return 0


def _bench(options) -> int:
    from calibkit.companion import bench  # late: it draws

    page = bench.build(
        options.method,
        plan.Selection(
            options.edition,
            dataset=options.dataset,
            network=options.network,
            seeds=options.seeds,
            epochs=options.epochs,
            settings=options.settings,
        ),
        options.out,
        options.setting,
        device=options.device,
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
