"""An honest report on your own predictions; and whatever commands other packages add.

Examples: calibkit report preds.npz · calibkit train --paper fmfp · calibkit claims. Records are
kept in $CALIBKIT_CACHE (default: data_cache), data sets in $CALIBKIT_DATA. Exit codes: 0 success, 1
failure, 2 wrong call, 3 a --fail-if holds, 130 interrupted.
"""

# Docstrings are the help: this one, and that of the function of each command, which has a line for
# the list of commands, a description, examples.

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
# An entry point of this group is a function. It takes the parser's commands and adds some of its
# own by `add_command`.
GROUP = "calibkit.commands"
FLAG: dict[str, Any] = {"action": "store_true"}
SEVERAL: dict[str, Any] = {"action": "append", "default": []}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 on success, 1 on failure, 2: wrong call, 3: ``--fail-if``, 130: Ctrl-C."""
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
    name : of the command
    run : takes the options and returns an exit code or None; its docstring is the help: the line in
        the list of commands, the description, examples
    shared : functions that add options to the command's parser
    resumes : what to say after an interruption, if the same command goes on from there
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
    """The parser of all commands; of our own alone, where one of them is called."""
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
    what = "default: auto, the one that a report recommends, or else temperature scaling"
    add("--map", default="auto", choices=maps, help=what)
    add("--force", **FLAG, help="write a map that does harm, or is at the end of its range")
    add("--save", metavar="FILE", required=True, help="such as map.json")

    sets = [_reading, _cluster, _tokens, _privacy, _gate]
    add = add_command(commands, "compare", _compare, *sets)
    add("predictions", nargs="+", help="files, as `calibkit report` reads them")
    add("--id", metavar="COLUMN", help="names the rows in all files (default: found by itself)")
    add("--positive", metavar="NAME", help="of two classes, which (default: by name, or the rarer)")
    add("--out", default="compare", help="folder to write to (default: compare)")
    add("--unpaired", **FLAG, help="the files are of other samples, the oldest first")

    called = next((word for word in arguments if not word.startswith("-")), "")
    if called not in OWN:
        for point in entry_points(group=GROUP):
            try:
                point.load()(commands)
            except Exception as error:  # whatever another package does, our commands stay
                print(
                    f"calibkit: the commands of {point.value} are left out: {error}",
                    file=sys.stderr,
                )
    return made


# --- options that several commands share ---


def _labels(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--labels", help="a separate file of labels (.npy, or text, one per line)")


def _reading(parser: argparse.ArgumentParser) -> None:
    """How a file is to be understood."""
    _labels(parser)
    what = (
        "what a column or array is, such as label=truth, 'probs=score_*', confidence=answer.p "
        "(within JSON) or ignore=fold; repeatable"
    )
    parser.add_argument("--column", **SEVERAL, metavar="NAME=COLUMN", help=what)
    what = "whether a label of -1 is a class or no label (default: a class if all are -1 or 1)"
    parser.add_argument("--minus-one", choices=("class", "none"), help=what)
    what = (
        "believe a file whose labels and columns seem not to belong together, and read "
        "probabilities slightly outside of 0 to 1 as 0 or 1"
    )
    parser.add_argument("--as-is", **FLAG, help=what)
    what = "of several labels that hold at once (multi-label), the one to read: its name or number"
    parser.add_argument("--one-label", metavar="NAME", help=what)


def _cluster(parser: argparse.ArgumentParser) -> None:
    what = (
        "the column or array that says which rows are alike, such as patient: folds, resamples and "
        "intervals go over its values"
    )
    parser.add_argument("--cluster", metavar="NAME", help=what)


def _chosen_reading(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "columns": options.column,
        "minus_one": options.minus_one,
        "as_is": options.as_is,
        "one_label": options.one_label,
    }


def _tokens(parser: argparse.ArgumentParser) -> None:
    words = "take scores (texts, tokens, classes) token by token"
    parser.add_argument("--tokens", **FLAG, help=words)


def _privacy(parser: argparse.ArgumentParser) -> None:
    words = "leave out what belongs to a single row: to pass the page on to others"
    parser.add_argument("--no-rows", **FLAG, help=words)


def _output(parser: argparse.ArgumentParser) -> None:
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", **FLAG, help="print the JSON file and no words")
    output.add_argument("--quiet", **FLAG, help="print nothing")


def _rules(parser: argparse.ArgumentParser) -> None:
    """What thresholds are for."""
    several = {"type": float, "nargs": "+", "default": []}
    what = "thresholds on the confidence for these error rates, such as 0.01"
    parser.add_argument("--target-risk", **several, metavar="SHARE", help=what)
    two = parser.add_argument_group("two classes: thresholds on the probability of one")
    two.add_argument("--positive", metavar="NAME", help="which (default: by name, or the rarer)")
    for rule, what in (
        ("cost-ratio", "least cost, if a missed positive costs this many false alarms"),
        ("budget", "flag at most this many in a test set of this size; below 1, that share"),
        ("precision", "this share of the flagged is positive"),
        ("recall", "this share of the positives is flagged"),
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
        help="exit with code 3 if a number of the JSON file is so, such as 'excess_ece>0.05'; "
        "repeatable",
    )


def _condition(text: str) -> "Condition":
    from calibkit.report import gate

    try:
        return gate.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(error) from error


# --- the commands ---


def _report(options: argparse.Namespace) -> int:
    """What your own model's confidence is good for.

    Read saved predictions (.npz, .csv, .parquet, .jsonl, .pt and others); write one self-contained
    HTML page, and its numbers as JSON.

    An .npz holds logits or probs (n, k) and labels (n,), and, if you have them, val_logits,
    val_labels, groups, weights and class_names. A .csv, .parquet or .jsonl has a column label, a
    column prob_NAME or logit_NAME for each class (one is enough for two classes), and, if you have
    them, group, weight and split (test or val). Where only the confidence of answers is known:
    columns confidence and correct. Examples: calibkit report preds.npz · calibkit report new.npz
    --against old.npz --target-risk 0.01 0.05 · calibkit report fraud.csv --positive fraud
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
            tokens=options.tokens,
            cluster=options.cluster,
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
    options: argparse.Namespace,
    page: Path,
    text: str,
    say: Callable[[Mapping[str, Any]], None],
) -> int:
    """Print what was found, in words or as JSON; 3 with one line if a condition holds.

    `text` is what was written beside `page`, where another process may write, too.
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

    Fit a recalibration to the validation set of saved predictions, or to all of them; choose
    thresholds for the probabilities behind it; write both to a small JSON file, which posthoc.load
    reads. A map that does harm to samples it has not seen, or lies at the end of its range, is not
    written, and the exit code is 1, unless --force is given.

    Examples: calibkit recalibrate preds.npz --save map.json · calibkit recalibrate fraud.csv --map
    beta --positive fraud --budget 200 --precision 0.5 --save map.json
    """
    from calibkit.report import deploy, predictions

    reading = _chosen_reading(options)
    reading |= {"tokens": options.tokens, "cluster": options.cluster}
    data = predictions.read(options.predictions, options.labels, **reading)
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
    """What a terminal shows while it waits, in one line that the next overwrites."""
    if sys.stderr.isatty():
        print(f"\r{words:70}" if words else f"\r{'':70}\r", end="", file=sys.stderr, flush=True)


def _compare(options: argparse.Namespace) -> int:
    """Compare models on the same samples, or one model over time.

    Read prediction files for the same samples, matched by a column that names them where all have
    one; compare every pair of models. Of two classes, the probability of one is compared. Intervals
    are corrected for the number of pairs. Files of other samples (--unpaired), or one file with a
    column `date`: has calibration drifted beyond chance since the first, and where?

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
        cluster=options.cluster,
        rows=not options.no_rows,
        tokens=options.tokens,
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
