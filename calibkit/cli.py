"""Report on your model's confidence, compare models, recalibrate; and commands of other packages.

Examples: calibkit report preds.npz · calibkit train --paper fmfp · calibkit claims. Records are
kept in $CALIBKIT_CACHE (default: data_cache), data sets in $CALIBKIT_DATA. Exit codes: 0 success, 1
failure, 2 wrong call, 3 a --fail-if condition is met, 130 interrupted.
"""

# Docstrings are the help: this one, and that of each command's function. The latter has a line for
# the list of commands, a description, and examples.

import argparse
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibkit import __version__, files, terms

if TYPE_CHECKING:
    from calibkit.report.gate import Condition

OWN = ("report", "recalibrate", "compare")  # these start without any other package
# An entry point of this group is a function. It takes the parser's commands and adds further ones
# by `add_command`.
GROUP = "calibkit.commands"
FLAG: dict[str, Any] = {"action": "store_true"}
SEVERAL: dict[str, Any] = {"action": "append", "default": []}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: success, 1: failure, 2: wrong call, 3: a ``--fail-if`` condition is met, 130: Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    resumes = ""
    for stream in (sys.stdout, sys.stderr):  # into a file, Windows has no "→"
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        with terms.extras():
            options = parser(arguments).parse_args(arguments)
            resumes = options.resumes
            return options.command(options) or 0
    except KeyboardInterrupt:
        print(f"calibkit: interrupted{resumes}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to flush to
        return 0
    except (ValueError, OSError, ModuleNotFoundError) as error:
        said = str(error).encode("utf-8", "backslashreplace").decode()  # a name may be no text
        print(f"calibkit: {said}", file=sys.stderr)
        return 2 if isinstance(error, ValueError | ModuleNotFoundError) else 1


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    *shared: Callable[[argparse.ArgumentParser], None],
    resumes: str = "",
) -> Callable[..., argparse.Action]:
    """Add a command to those of a parser; return the function that adds an option to it.

    Parameters
    ----------
    commands : what ``ArgumentParser.add_subparsers`` returns
    name : name of the command
    run : takes the options and returns an exit code or None. Its docstring is the help: the line in
        the list of commands, the description, and examples.
    shared : functions that add options to the command's parser
    resumes : what to print after an interruption, if the same command can be resumed
    """
    summary, *more = (inspect.getdoc(run) or name).split("\n\n")
    description = more[0] if more else summary
    epilog = " ".join(more[1:])
    made = commands.add_parser(name, help=summary, description=description, epilog=epilog)
    made.set_defaults(command=run, resumes=resumes)
    for options in shared:
        options(made)
    return made.add_argument


def parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of all commands; without those of other packages if one of `OWN` is called."""
    description, epilog = __doc__.split("\n\n")
    made = argparse.ArgumentParser("calibkit", description=description, epilog=epilog)
    try:
        import shtab

        shtab.add_argument_to(made, ["--print-completion"])
    except ImportError:  # completion needs shtab, which is optional
        pass
    made.add_argument("--version", action="version", version=f"calibkit {__version__}")
    commands = made.add_subparsers(required=True, metavar="command")

    sets = [_reading, _cluster, _tokens, _rules, _privacy, _gate]
    add = add_command(commands, "report", _report, *sets)
    add("predictions", help="file of predictions; - is standard input")
    add("--out", default="report", help="folder to write to (default: report)")
    add("--against", metavar="FILE", help="predictions of a second model for the same samples")
    add("--group", **SEVERAL, metavar="NAME", help="a column or array of groups; repeatable")

    add = add_command(
        commands, "recalibrate", _recalibrate, _reading, _cluster, _tokens, _rules, _output
    )
    maps = "auto temperature structured vector matrix beta top isotonic histogram".split()
    add("predictions", help="file, as `calibkit report` reads it")
    what = "default: auto, the map that a report recommends, or temperature scaling if it has none"
    add("--map", default="auto", choices=maps, help=what)
    add("--force", **FLAG, help="write the map even if it makes probabilities worse")
    add("--save", metavar="FILE", required=True, help="the file to write, such as map.json")

    sets = [_reading, _cluster, _tokens, _privacy, _gate]
    add = add_command(commands, "compare", _compare, *sets)
    add("predictions", nargs="+", help="files, as `calibkit report` reads them")
    add("--id", metavar="COLUMN", help="the column that names the rows (default: looked for)")
    what = "with two classes, the positive one (default: guessed by its name, or the rarer class)"
    add("--positive", metavar="NAME", help=what)
    add("--out", default="compare", help="folder to write to (default: compare)")
    add("--unpaired", **FLAG, help="the files hold different samples, the oldest file first")

    called = next((word for word in arguments if not word.startswith("-")), "")
    if called not in OWN:
        for point in entry_points(group=GROUP):
            try:
                point.load()(commands)
            except Exception as error:  # a fault of another package must not stop our commands
                print(
                    f"calibkit: the commands of {point.value} are left out: {error}",
                    file=sys.stderr,
                )
    return made


# --- options that several commands share ---


def _reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a file's columns and labels mean."""
    parser.add_argument("--labels", help="a separate file of labels (.npy, or text, one per line)")
    what = (
        "the role of a column or array, such as label=truth, 'probs=score_*', confidence=answer.p "
        "(within JSON) or ignore=fold; repeatable"
    )
    parser.add_argument("--column", dest="columns", **SEVERAL, metavar="NAME=COLUMN", help=what)
    what = (
        "whether the label -1 is a class, or means that the label is unknown (default: a class if "
        "all labels are -1 or 1)"
    )
    parser.add_argument("--minus-one", choices=("class", "none"), help=what)
    what = (
        "trust a file whose labels and columns seem not to fit together, and read probabilities "
        "slightly outside of 0 to 1 as 0 or 1"
    )
    parser.add_argument("--as-is", **FLAG, help=what)
    what = "in multi-label data, the one label to read: its name, or its number from 0"
    parser.add_argument("--one-label", metavar="NAME", help=what)


def _cluster(parser: argparse.ArgumentParser) -> None:
    what = (
        "the column or array, such as patient, whose equal values mark rows that depend on each "
        "other: folds, resamples and intervals go over its values"
    )
    parser.add_argument("--cluster", metavar="NAME", help=what)


def _chosen_reading(options: argparse.Namespace) -> dict[str, Any]:
    names = ("columns", "minus_one", "as_is", "one_label", "tokens", "cluster")
    return {name: getattr(options, name) for name in names}


def _tokens(parser: argparse.ArgumentParser) -> None:
    words = "each token is a sample: scores have the shape (texts, tokens, classes)"
    parser.add_argument("--tokens", **FLAG, help=words)


def _privacy(parser: argparse.ArgumentParser) -> None:
    words = "leave out all numbers that belong to a single row, so that the page can be passed on"
    parser.add_argument("--no-rows", **FLAG, help=words)


def _output(parser: argparse.ArgumentParser) -> None:
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", **FLAG, help="print the JSON file in place of words")
    output.add_argument("--quiet", **FLAG, help="print nothing")


def _rules(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which thresholds to choose."""
    several = {"type": float, "nargs": "+", "default": []}
    what = "choose thresholds on the confidence for these error rates, such as 0.01"
    parser.add_argument("--target-risk", **several, metavar="SHARE", help=what)
    two = parser.add_argument_group(
        "two classes: thresholds on the probability of the positive class"
    )
    what = "the positive class (default: guessed by its name, or the rarer class)"
    two.add_argument("--positive", metavar="NAME", help=what)
    for rule, what in (
        ("cost-ratio", "lowest cost, if a missed positive costs this many false alarms"),
        ("budget", "flag at most this many samples of the test set; below 1: at most this share"),
        ("precision", "at least this share of the flagged samples is positive"),
        ("recall", "at least this share of the positives is flagged"),
    ):
        two.add_argument(f"--{rule}", **several, metavar="X", help=what)


def _chosen_rules(options: argparse.Namespace) -> list[tuple[str, float]]:
    from calibkit.report import thresholds

    return [(rule, value) for rule in thresholds.RULES for value in getattr(options, rule)]


def _gate(parser: argparse.ArgumentParser) -> None:
    _output(parser)
    parser.add_argument(
        "--fail-if",
        **SEVERAL,
        type=_condition,
        metavar="CONDITION",
        help="exit with code 3 if this condition on a number of the JSON file is met, such as "
        "'excess_ece>0.05'; repeatable",
    )


def _condition(text: str) -> "Condition":
    from calibkit.report import gate

    try:
        return gate.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(error) from error


# --- the commands ---


def _report(options: argparse.Namespace) -> int:
    """Report what your model's confidence is good for.

    Read saved predictions (.npz, .csv, .parquet, .jsonl, .pt and others). Write one self-contained
    HTML page, and its numbers as JSON.

    An .npz holds logits or probs (n, k) and labels (n,), and, if you have them, val_logits,
    val_labels, groups, weights and class_names. A .csv, .parquet or .jsonl has a column label, a
    column prob_NAME or logit_NAME for each class (one is enough for two classes), and, if you have
    them, group, weight and split (test or val). If you know only the confidence of each answer, use
    the columns confidence and correct. Examples: calibkit report preds.npz · calibkit report
    new.npz --against old.npz --target-risk 0.01 0.05 · calibkit report fraud.csv --positive fraud
    --budget 200
    """
    try:
        from calibkit import report  # late: it draws

        replaced = os.path.exists(os.path.join(options.out, "report.html"))
        told: list[str] = []
        page = report.build(
            options.predictions,
            options.out,
            options.against,
            options.labels,
            options.target_risk,
            positive=options.positive,
            rules=_chosen_rules(options),
            group=options.group,
            rows=not options.no_rows,
            **_chosen_reading(options),
            log=_show_step,
            told=told.append,
        )
    except MemoryError as error:
        raise OSError("too large for the memory of this machine") from error
    finally:
        _show_step("")
    if replaced and not (options.json or options.quiet):
        print(f"· An earlier report in {options.out} was replaced; --out keeps it.")
    return _gated(options, page, told[0], _print_report)


def _print_report(numbers: Mapping[str, Any]) -> None:
    for answer in numbers["verdict"]:
        print(f"{answer['title']}\n  {answer['text']}")
    for note in numbers["notes"]:
        print(f"· {note}")
    for caution in numbers["cautions"]:
        print(f"! {caution}")


def _gated(
    options: argparse.Namespace, page: Path, text: str, say: Callable[[Mapping[str, Any]], None]
) -> int:
    """Print the result in words or as JSON; return 3, with one line, if a condition is met.

    `text` is the JSON that was written beside `page`. (The file may have been replaced since by
    another process.)
    """
    from calibkit.report import gate

    numbers = json.loads(text)
    failed = gate.failures(numbers, options.fail_if)
    if options.json:
        sys.stdout.write(text)
    elif not options.quiet:
        say(numbers)
        print(files.shown(page))
    if failed:
        print(f"calibkit: failed: {'; '.join(failed)}", file=sys.stderr)
    return gate.FAILED if failed else 0


def _recalibrate(options: argparse.Namespace) -> int:
    """Fit a map and choose thresholds, for deployment.

    Fit a recalibration (a map) to the validation set of saved predictions, or without one to all of
    them. Choose thresholds on the recalibrated probabilities. Write both to a small JSON file,
    which posthoc.load reads. A map is not written, and the exit code is 1, if it makes the
    probabilities of new samples worse or has a number at the end of the range that was searched;
    --force writes it all the same.

    Examples: calibkit recalibrate preds.npz --save map.json · calibkit recalibrate fraud.csv --map
    beta --positive fraud --budget 200 --precision 0.5 --save map.json
    """
    from calibkit.report import deploy, predictions

    data = predictions.read(options.predictions, options.labels, **_chosen_reading(options))
    model, about = deploy.recalibrate(
        data, options.map, options.positive, options.target_risk, _chosen_rules(options)
    )
    if about["refused"] and not options.force:
        again = "nothing was written; --force writes it"
        print(f"calibkit: {about['refused']} ({again})", file=sys.stderr)
        return 1
    model.save(options.save, **about)
    if options.json:
        with open(options.save, encoding="utf-8") as file:
            sys.stdout.write(file.read())
    elif not options.quiet:
        print("\n".join([*deploy.lines(model, about), files.shown(options.save)]))
    return 0


def _show_step(words: str) -> None:
    """Show the current step in a terminal, in one line that the next step overwrites."""
    if sys.stderr.isatty():
        print(f"\r{words:70}" if words else f"\r{'':70}\r", end="", file=sys.stderr, flush=True)


def _compare(options: argparse.Namespace) -> int:
    """Compare models on the same samples, or one model over time.

    Read prediction files for the same samples and compare every pair of models. Rows are matched by
    a column that names the samples, if all files have one. With two classes, the probability of the
    positive class is compared. Intervals are corrected for the number of pairs. With files of
    different samples (--unpaired), or one file with a column `date`, test whether calibration has
    drifted beyond chance since the first file or period, and where.

    Examples: calibkit compare a.npz b.npz c.npz --out compare · calibkit compare old.npz new.npz
    --unpaired --fail-if 'drifted>0' · calibkit compare dated.csv · calibkit compare a.csv b.csv
    --id sample --cluster patient
    """
    from calibkit.report import comparison  # late: it draws

    told: list[str] = []
    page = comparison.build(
        options.predictions,
        options.out,
        options.labels,
        options.unpaired,
        ids=options.id,
        positive=options.positive,
        rows=not options.no_rows,
        **_chosen_reading(options),
        told=told.append,
    )
    return _gated(options, page, told[0], print_verdicts)


def print_verdicts(numbers: Mapping[str, Any]) -> None:
    for block in numbers["verdicts"]:
        print(block["title"])
        for answer in block["verdict"]:
            print(f"  {answer['title']}\n    {answer['text']}")
    for note in numbers.get("notes", ()):
        print(f"· {note}")


if __name__ == "__main__":
    sys.exit(main())
