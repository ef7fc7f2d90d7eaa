"""Options that several commands share, and the selection of runs by these options."""

import argparse
import ast
from collections.abc import Iterable, Sequence
from dataclasses import fields

from calibkit.cli import SEVERAL
from calibkit_companion.experiments import plan

NUMBER = {"type": int, "default": 0}
EDITIONS = f"{', '.join(plan.EDITIONS)} (default: %(default)s)"


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Add the options that change an edition: data, network, seeds, epochs, protocol."""
    add = parser.add_argument
    add("--dataset", default="", help="name of the data set (default: the edition's)")
    add("--network", default="", help="name of the network (default: the edition's)")
    add("--seeds", **NUMBER, help="number of seeds (default: the edition's)")
    add("--epochs", **NUMBER, help="number of epochs; other epochs of the protocol are scaled")
    add(
        "--set",
        **SEVERAL,
        type=_setting,
        metavar="NAME=VALUE",
        dest="protocol",
        help="change a field of the protocol of the methods that you name, such as batch_size=512; "
        "repeatable",
    )


def _setting(text: str) -> tuple[str, object]:
    """Parse ``batch_size=512`` into a name and a Python value; a value may also be a word."""
    name, _, value = text.partition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def add_names(parser: argparse.ArgumentParser) -> None:
    """Add the optional names of runs as arguments."""
    parser.add_argument("names", nargs="*", help="names of runs, as `calibkit runs` prints them")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that select runs."""
    add_changes(parser)
    add = parser.add_argument_group("which runs").add_argument
    pages = ", ".join(dict.fromkeys((*plan.PAPERS, *plan.NOTEBOOKS)))
    add("--edition", default="demo", help=EDITIONS)
    add("--paper", default="book", help=f"{pages}, book (every notebook, the default), or all")
    add("--exhibit", default="", help="only the runs of a table or figure, such as bsce-tab1")
    add(
        "--method",
        action="append",
        help="select the runs of this method instead of those of a page; repeatable: "
        + ", ".join(plan.METHODS),
    )
    add("--setting", default="", help="one setting of the edition, such as cifar10-plain")
    add("--train-size", **NUMBER, help="with --method: number of training samples")
    add(
        "--variant",
        default="code",
        help="with --method: if a paper's code and text differ, train as the code does (code, the "
        "default) or as the text says (paper)",
    )


def selection_of(options) -> plan.Selection:
    """Make the `plan.Selection` that the options of a command describe."""
    return plan.Selection(*(getattr(options, f.name, None) for f in fields(plan.Selection)))


def selected(options) -> list[plan.Run]:
    """List the runs that the options of a command select.

    These are the runs of the methods in --method, of the exhibit in --exhibit, or of the page in
    --paper.
    """
    selection = selection_of(options)
    if options.method:
        return selection.runs(options.method)
    if options.exhibit:
        paper = options.paper if options.paper in plan.PAPERS else ""
        return selection.of_exhibit(options.exhibit, paper)
    return selection.of_page(options.paper)


def print_table(rows: Iterable[Sequence[str]]) -> None:
    """Print rows of equal length with aligned columns."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{v:{width}}" for v, width in zip(row, widths, strict=True)).rstrip())
