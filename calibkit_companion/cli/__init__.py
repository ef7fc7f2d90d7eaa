"""The commands of the book: runs, data, claims, results, and a bench for a user's method.

`add_commands` is an entry point of the group ``calibkit.commands``: `calibkit.cli` calls it.
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
    """Add the commands of the book to those of a parser."""

    command = partial(add_command, commands)
    add = command("bench", run_bench, add_changes, resumes=_RESUMES)
    add("method", help="FILE.py:NAME, optionally with NAME(gamma=3), +sam, +swa")
    add("--edition", default="demo", help=EDITIONS)
    add("--out", default="bench", help="folder to write to (default: bench)")
    add("--setting", **SEVERAL, dest="settings", help="a setting of the edition; repeatable")
    add("--device", default="", help="torch device (default: cuda if available)")
    add("--chosen", default="", help="how the coefficients were chosen, in words, for the page")
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
        help="torch.compile the network: default, or reduce-overhead for CUDA graphs; worth it "
        "for long runs on a GPU, since compiling takes a while",
    )
    add("--quiet", **FLAG, help="one line per run, none per epoch")
    add("--again", **FLAG, help="retrain runs whose record keeps no predictions")
    add("--replicates", **FLAG, help="keep metrics on resamples, which pages compute otherwise")

    add = command("runs", list_runs, add_selection)
    add("--missing", **FLAG, help="print only the names of runs that are still to train")

    add = command("claims", print_claims)
    add("--edition", default="released", help=EDITIONS)
    add("--paper", help=", ".join(plan.PAPERS))
    add("--seeds", **NUMBER, help="the most seeds of each method (default: all)")
    add("--json", **FLAG, help="print JSON: a row for each claim and setting")

    add = command("results", print_results)
    add("--edition", default="released", help=EDITIONS)
    add("--setting", **SEVERAL, dest="settings", help="only this one; repeatable (default: all)")
    add("--metric", default="auroc", help=f"{', '.join(terms.METRICS)} (default: auroc)")
    add("--against", default="erm", metavar="METHOD", help="the other method (default: erm)")
    add("--method", **SEVERAL, help="only these; repeatable")
    add(
        "--recalibration",
        default="none",
        choices=list(map(str, Recalibration)),
        help="of both methods: temperature scaling fitted by NLL or by ECE on validation data, the "
        "temperature that is best on the test set, or histogram binning (default: none)",
    )
    add("--seeds", **NUMBER, help="the most seeds of each method (default: all)")
    add("--csv", **FLAG, help="print CSV")

    command("collect", collect)("--edition", default="released", help=EDITIONS)

    command("delete", delete, add_selection, add_names)("--yes", **FLAG, help="do not ask")

    add = command("plan", print_plan)
    add("--edition", default="paper", help=EDITIONS)
    add("--paper", default="", help=", ".join(plan.PAPERS))
    add("--csv", **FLAG, help="print only the cells, as CSV")

    sets = commands.add_parser("data", help="data sets: which are here, and how to get the others")
    actions = sets.add_subparsers(required=True, metavar="action")
    add_command(actions, "list", list_data)
    add_command(actions, "get", get_data)("name")
    add = add_command(actions, "pack", pack_data)
    add("name")
    add("--out", default="packed", help="folder to write to (default: packed)")
    add_command(actions, "unpack", unpack_data)("file", help="NAME.json, beside its mosaics")
