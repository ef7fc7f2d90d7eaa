"""The command line: ``calibkit train``, ``runs``, ``claims``, ``data`` and ``report``."""

import argparse
import ast
import json
import os
import sys
import time
from collections import deque

from calibkit import __version__, grid, store


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 on success, 1 when something failed, 2 for a wrong call, 130 on Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except KeyboardInterrupt:
        print("calibkit: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to flush to
        return 0
    except (ValueError, OSError, store.DamagedRecord) as error:
        print(f"calibkit: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="calibkit",
        description="An honest report on your own predictions; the trainings, data and claims of "
        "the book.",
        epilog="Examples: calibkit report preds.npz · calibkit train --paper fmfp · "
        "calibkit claims. Records are kept in $CALIBKIT_CACHE (data_cache), data are looked for in "
        "$CALIBKIT_DATA. Exit codes: 0 done, 1 something failed, 2 a wrong call, 130 interrupted.",
    )
    try:
        import shtab

        shtab.add_argument_to(parser, ["--print-completion"])
    except ImportError:  # completion is for those who have installed it
        pass
    parser.add_argument("--version", action="version", version=f"calibkit {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    train = commands.add_parser(
        "train",
        help="train runs; those already done are skipped",
        description="Train runs one after another. Done ones are skipped; processes share them.",
        epilog="Examples: calibkit train --paper fmfp · calibkit train --edition cifar10 "
        "--method 'focal(gamma=5)' --method fmfp --seeds 1 --epochs 10",
    )
    train.add_argument("names", nargs="*", help="names of runs, as `calibkit runs` prints them")
    _selection(train)
    train.add_argument("--device", default="", help="torch device (default: cuda if there is one)")
    train.add_argument(
        "--compile",
        nargs="?",
        const="default",
        default="",
        choices=("default", "reduce-overhead"),
        metavar="MODE",
        dest="mode",
        help="torch.compile the network: default, or reduce-overhead for CUDA graphs; for "
        "long runs on a GPU, as compiling takes a while",
    )
    train.add_argument("--quiet", action="store_true", help="one line per run, none per epoch")
    train.set_defaults(command=_train)

    runs = commands.add_parser(
        "runs",
        help="the table of runs: done, running, missing, diverged or damaged; hours spent and left",
        epilog="Examples: calibkit runs --paper fmfp · calibkit runs --edition cifar10 --missing",
    )
    _selection(runs)
    runs.add_argument("--missing", action="store_true", help="only names of runs still to train")
    runs.set_defaults(command=_runs)

    claims = commands.add_parser(
        "claims",
        help="the papers' claims and what the records say",
        description="A verdict for each claim of the five papers, from records; trains nothing.",
        epilog="Example: calibkit claims --edition fashion --paper overconf",
    )
    claims.add_argument("--edition", default="demo", help=", ".join(grid.EDITIONS))
    claims.add_argument("--paper", help=", ".join(grid.PAPERS))
    claims.add_argument("--dataset", default="", help="instead of the edition's")
    claims.add_argument("--network", default="", help="instead of the edition's")
    _add_settings(claims, "of runs with another setting of the protocol, such as reduction=sum")
    claims.set_defaults(command=_claims)

    data = commands.add_parser(
        "data",
        help="data sets: what is here, how to get the others",
        epilog="Examples: calibkit data list · calibkit data get cifar10",
    )
    actions = data.add_subparsers(required=True, metavar="action")
    actions.add_parser("list", help="every data set").set_defaults(command=_data_list)
    get = actions.add_parser("get", help="download or generate one")
    get.add_argument("name")
    get.set_defaults(command=_data_get)

    report = commands.add_parser(
        "report",
        help="what the confidence of your own model is good for",
        description="Read saved predictions (.npz, .csv, .parquet, .npy); write one HTML page that "
        "needs nothing else, and its numbers as JSON.",
        epilog="An .npz holds logits or probs (n, k) and labels (n,); val_logits, val_labels, "
        "groups and class_names if you have them. Examples: calibkit report preds.npz · "
        "calibkit report new.npz --against old.npz --target-risk 0.01 0.05",
    )
    report.add_argument("predictions", help="the file")
    report.add_argument("--labels", help="labels in a file of their own (.npy, or one in a line)")
    report.add_argument("--out", default="report", help="folder to write to (report)")
    report.add_argument("--against", metavar="FILE", help="a second model on the same samples")
    report.add_argument(
        "--target-risk",
        type=float,
        nargs="+",
        default=(),
        metavar="SHARE",
        help="error rates to find thresholds for, such as 0.01",
    )
    report.set_defaults(command=_report)
    return parser


def _selection(parser: argparse.ArgumentParser) -> None:
    choice = parser.add_argument_group("which runs")
    choice.add_argument("--edition", default="demo", help=", ".join(grid.EDITIONS))
    choice.add_argument(
        "--paper",
        default="book",
        help=", ".join(dict.fromkeys((*grid.PAPERS, *grid.NOTEBOOKS)))
        + ", book (the default: every notebook), all",
    )
    choice.add_argument("--method", action="append", help="such methods instead; repeatable")
    choice.add_argument("--dataset", default="", help="instead of the edition's")
    choice.add_argument("--network", default="", help="instead of the edition's")
    choice.add_argument("--seeds", type=int, default=0, help="how many, from 0 (edition's own)")
    choice.add_argument("--epochs", type=int, default=0, help="the protocol in that many epochs")
    choice.add_argument("--train-size", type=int, default=0, help="with --method: training samples")
    choice.add_argument("--variant", default="code", help="with --method: code (default) or paper")
    _add_settings(choice, "with --method: a setting of the protocol, such as batch_size=512")


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
    """``batch_size=512`` as a name and a Python value; what is no value is taken as a word."""
    name, _, value = text.partition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _selected(options) -> list[grid.Run]:
    changes = {k: getattr(options, k) for k in ("dataset", "network", "seeds", "epochs")}
    if options.method:
        return grid.select(
            options.edition,
            options.method,
            train_size=options.train_size,
            variant=options.variant,
            settings=dict(options.settings),
            **changes,
        )
    return grid.runs(options.paper, options.edition, **changes)


def _train(options) -> int:
    wanted = _selected(options)
    if options.names:
        by_name = {run.name: run for run in wanted}
        for name in options.names:
            grid.choose("run of this selection", name, by_name)
        queue = [by_name[name] for name in options.names]
    else:
        queue = wanted
    from calibkit.train import train  # late: torch is slow to import and may be absent

    log = (lambda line: None) if options.quiet else (lambda line: print("  " + line, flush=True))
    # What another process is training is put off to the end: several of them share the work.
    queue, put_off, start = deque(queue), set(), time.time()
    while queue:
        run = queue.popleft()
        if run not in put_off and store.busy(run):
            put_off.add(run)
            queue.append(run)
            continue
        record = train(run, device=options.device, log=log, mode=options.mode)
        print(_progress(wanted, record, start), flush=True)
    return 0  # a diverged run is a result, with a record that says so


def _progress(wanted: list[grid.Run], record: store.Record, start: float) -> str:
    """Runs done of all that were asked for, the last result, and about how long the rest takes.

    Several processes may work on the same runs, so the pace is read off the records: how many were
    written since `start`, when this process began.
    """
    folders = [store.runs_root() / run.name / "run.json" for run in wanted]
    written = [f.stat().st_mtime for f in folders if f.exists()]
    left, new = len(wanted) - len(written), sum(t >= start for t in written)
    line = f"[{len(written)}/{len(wanted)}] {record.name}"
    if record.diverged:
        return line + "  DIVERGED"
    line += f"  accuracy {record.history['accuracy'][-1]:.3f}"
    if left and new:
        rest = left * (time.time() - start) / new
        line += f"  about {rest / 60:.1f} min left"
    return line


def _runs(options) -> int:
    states, spent, pace = [], 0.0, {}
    wanted = _selected(options)
    for run in wanted:
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
                pace.setdefault(_kind(run), []).append(cost["seconds"] / run.protocol.epochs)
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
        print(_summary(wanted, states, spent, pace))
    return 0


def _kind(run: grid.Run) -> tuple:
    """Runs which cost about the same for each epoch: SAM takes every step twice."""
    size = run.protocol.train_size
    return run.dataset, run.network, size, run.recipe.update


def _summary(wanted: list[grid.Run], states: list[str], spent: float, pace: dict) -> str:
    """How many runs are in each state, the hours spent, and those left at the measured pace.

    A run still to train is taken to cost what its like has cost for each epoch; without such, what
    the mean of all has.
    """
    kinds = ("done", "running", "missing", "diverged", "damaged")
    counts = [f"{states.count(s)} {s}" for s in kinds]
    line = f"{len(wanted)} runs: {', '.join(counts)}; {spent / 3600:.2f} h spent"
    left = [r for r, s in zip(wanted, states, strict=True) if s not in ("done", "diverged")]
    if not left:
        return line
    if not pace:
        return line + ", cost of the rest not known yet"
    known = {kind: sum(costs) / len(costs) for kind, costs in pace.items()}
    mean = sum(known.values()) / len(known)
    hours = sum(known.get(_kind(run), mean) * run.protocol.epochs for run in left) / 3600
    return line + f", about {hours:.2f} h left"


def _claims(options) -> int:
    from calibkit.claims import VERDICTS, evaluate

    found = evaluate(
        options.edition,
        options.dataset,
        options.network,
        options.paper,
        settings=dict(options.settings),
    )
    for claim in found:
        print(f"{claim.verdict:12}  {claim.id:13}  {claim.statement}\n{'':14}{claim.why}")
        if claim.command:
            print(f"{'':14}{claim.command}")
    verdicts = [claim.verdict for claim in found]
    print(f"{len(found)} claims: " + ", ".join(f"{verdicts.count(v)} {v}" for v in VERDICTS))
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
    except ImportError as error:
        raise ValueError(f"{error}; a report needs pip install 'calibkit[book]'") from error
    except MemoryError as error:
        raise OSError("too large for the memory of this machine") from error
    numbers = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    for answer in numbers["verdict"]:
        print(f"{answer['title']}\n  {answer['text']}")
    for note in numbers["notes"]:
        print(f"· {note}")
    for caution in numbers["cautions"]:
        print(f"! {caution}")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
