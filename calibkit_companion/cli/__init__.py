"""The commands of the book: runs, data, claims, results, and a bench for a user's method.

`calibkit.cli` finds `add_commands` by the entry point in the group ``calibkit.commands``.
"""

from functools import partial

from calibkit import terms
from calibkit.cli import FLAG, SEVERAL, add_command
from calibkit_companion.cli.options import (
    EDITIONS,
    NUMBER,
    add_changes,
    add_names,
    add_selection,
    selected,
)
from calibkit_companion.cli.records import collect, print_claims, print_plan, print_results
from calibkit_companion.cli.runs import delete, list_runs, run_bench, train
from calibkit_companion.cli.sets import get_data, list_data, pack_data, unpack_data
from calibkit_companion.experiments import plan
from calibkit_companion.records.keys import Recalibration

__all__ = ["add_commands", "selected"]

_RESUMES = "; the same command resumes from here"


def add_commands(commands) -> None:
    """Add the commands of the book to a parser.

    Parameters
    ----------
    commands : the subparsers of `calibkit`, as `calibkit.cli.add_command` takes them
    """

    command = partial(add_command, commands)
    add = command("bench", run_bench, add_changes, resumes=_RESUMES)
    add("method", help="FILE.py:NAME of your own; options as NAME(gamma=3); +sam, +swa")
    add("--edition", default="demo", help=EDITIONS)
    add("--out", default="bench", help="folder to write to (default: bench)")
    add("--setting", **SEVERAL, dest="settings", help="only this setting; repeatable")
    add("--device", default="", help="torch device (default: cuda if available)")
    add("--chosen", default="", help="a sentence for the page: how coefficients were chosen")
    add("--quiet", **FLAG, help="print no line per epoch")

    add = command("train", train, add_selection, add_names, resumes=_RESUMES)
    add("--device", default="", help="torch device (default: cuda if available)")
    add(
        "--compile",
        nargs="?",
        const="default",
        default="",
        choices=("default", "reduce-overhead"),
        metavar="MODE",
        dest="mode",
        help="compile the network by torch.compile: default, or reduce-overhead for CUDA graphs; "
        "saves time only in long runs on a GPU",
    )
    add("--quiet", **FLAG, help="print one line per run, none per epoch")
    add("--again", **FLAG, help="retrain runs whose record keeps no predictions")
    add("--replicates", **FLAG, help="compute metrics on resamples now, so that pages need not")

    add = command("runs", list_runs, add_selection)
    add("--missing", **FLAG, help="print only the names of runs that are not trained")

    add = command("claims", print_claims)
    add("--edition", default="released", help=EDITIONS)
    add("--paper", help=f"only the claims of this paper: {', '.join(plan.PAPERS)}")
    add("--seeds", **NUMBER, help="use at most so many seeds of each method (default: all)")
    add("--json", **FLAG, help="print JSON: a row for each claim and setting")

    add = command("results", print_results)
    add("--edition", default="released", help=EDITIONS)
    add(
        "--setting", **SEVERAL, dest="settings", help="only this setting; repeatable (default: all)"
    )
    add("--metric", default="auroc", help=f"{', '.join(terms.METRICS)} (default: auroc)")
    add(
        "--against",
        default="erm",
        metavar="METHOD",
        help="method to subtract (default: erm, plain training)",
    )
    add("--method", **SEVERAL, help="only this method; repeatable (default: all)")
    add(
        "--recalibration",
        default="none",
        choices=list(map(str, Recalibration)),
        help="recalibrate both methods: by temperature scaling fitted on validation data by NLL "
        "(ts_nll) or by ECE (ts_ece), by the temperature that is best on the test set (ts_test), "
        "or by histogram binning (binned); default: none",
    )
    add("--seeds", **NUMBER, help="use at most so many seeds of each method (default: all)")
    add("--csv", **FLAG, help="print CSV")

    command("collect", collect)("--edition", default="released", help=EDITIONS)

    command("delete", delete, add_selection, add_names)("--yes", **FLAG, help="do not ask")

    add = command("plan", print_plan)
    add("--edition", default="paper", help=EDITIONS)
    add("--paper", default="", help=f"only this paper: {', '.join(plan.PAPERS)}")
    add("--csv", **FLAG, help="print only the printed numbers and their runs, as CSV")

    sets = commands.add_parser(
        "data", help="list data sets, download them, or carry them to another machine"
    )
    actions = sets.add_subparsers(required=True, metavar="action")
    add_command(actions, "list", list_data)
    add_command(actions, "get", get_data)("name")
    add = add_command(actions, "pack", pack_data)
    add("name")
    add("--out", default="packed", help="folder to write to (default: packed)")
    add_command(actions, "unpack", unpack_data)("file", help="NAME.json, beside its mosaics")
