"""Commands that read records: claims, results, collect, plan."""

import csv
import json
import os
import sys
from itertools import groupby

from calibkit import arrays, terms
from calibkit_companion.cli.options import print_table
from calibkit_companion.experiments import plan
from calibkit_companion.records import tables

CLONE = (
    "they come with the repository, and are found from inside it: git clone --depth 1 "
    "https://github.com/calibkit/calibkit"
)


def _say_what_is_old() -> None:
    """Print a line on standard error if some tables have no checksums."""
    old = sum(not its.opened.sealed for its in tables.settings().values())
    if old:
        words = f"the tables of {old} settings are of version 0.1.0 and have no checksums"
        print(f"calibkit: {words}; calibkit collect adds them", file=sys.stderr)


def print_claims(options) -> None:
    """Judge the papers' claims in every setting that has records.

    For each claim of the five papers, print the verdict in each setting, computed from the records,
    and the verdict that the paper's table gives, from its printed ±. With --json, counted says what
    became of the claim over all settings. Trains nothing.

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
        counted = {
            one.claim.id: one.fate for paper in plan.PAPERS for one in claims.told(rows, paper)
        }
        for line, row in zip(table, rows, strict=True):
            line["counted"] = counted[row.claim]
            line["marked"] = [mark._asdict() for mark in row.marked]
        return print(json.dumps(arrays.plain(table), indent=1, ensure_ascii=False))
    statements = {claim.id: claim for claim in claims.claims(options.paper)}
    for identity, its in groupby((r for r in rows if r.shown), key=lambda row: row.claim):
        claim = statements[identity]
        print(f"{identity}  {claim.statement}")
        print(f"  {'its own table':18} {claims.printed(claim)}")
        for row in its:
            level = f"judged by the interval of {row.judged_at}" if row.seeds else ""
            found = ", ".join(filter(None, [row.comparison, row.measured, level]))
            why = f"({row.precondition})" if row.precondition else ""
            print(f"  {row.setting or '-':18} {row.outcome:22} {found} {why}".rstrip())
    print()
    print(claims.headline(rows).replace("**", ""))
    if not any(place.runs.methods for place in places):
        root = os.environ.get("CALIBKIT_CACHE", "data_cache")
        print(f"no records of this edition in {root}: calibkit train --edition {options.edition}")
        if options.edition == "released":
            print(CLONE)


def print_results(options) -> None:
    """Compare the methods of a setting by any metric.

    Print the difference of each method from another method, paired by seed, with its 95 % interval.
    Shares are numbers from 0 to 1, not per cent.

    Example: calibkit results --setting cifar10-plain --metric auroc --against erm
    """
    from calibkit_companion import results
    from calibkit_companion.pages import devices

    names = options.settings or dict.fromkeys(s.name for s in plan.settings(options.edition))
    columns = ("setting", "method", "estimate", "low", "high", "seeds", "outcome")
    lines, rows = [], []
    with tables.one_release():
        for name in names:
            plan.setting(options.edition, name)  # refuse an unknown name
            selection = plan.Selection(options.edition, name, seeds=options.seeds)
            runs = results.Results(selection, train=False)
            methods = options.method or [m for m in runs.methods if m != options.against]
            found = runs.compare(
                methods, options.against, options.metric, recalibration=options.recalibration
            )
            lines += [[getattr(row, column) for column in columns] for row in found.values()]
            rows += found.values()
        mixed = devices.said_of(rows)
    _say_what_is_old()
    if not lines:  # only a number that no run has is checked against the list of metrics
        terms.choose("metric", options.metric, terms.METRICS, "calibkit results --help")
    if mixed:
        print(f"calibkit: {mixed}", file=sys.stderr)
    if options.csv:
        return csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *lines])
    text = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in line] for line in lines]
    print_table([columns, *text])


def collect(options) -> None:
    """Turn run folders into the tables of an edition.

    Add the records of each setting to the tables in data_cache/released/SETTING. The tables of a
    setting without new runs or numbers stay as they are, but tables of version 0.1.0 get checksums,
    and a lost manifest is written again. The folders of the runs stay; calibkit delete removes
    them, except for their predictions.
    """
    from calibkit_companion import results

    results.collect(options.edition, say=lambda line: print(line, flush=True))


def print_plan(options) -> None:
    """List the papers' printed numbers, the run that reproduces each of them, and the total cost.

    A printed number is reproduced by the mean over runs, one for each seed. Print the name of the
    first of these runs, as `calibkit runs` does, or why no run can reproduce it. Trains nothing.

    Examples: calibkit plan --paper bsce · calibkit plan --csv > plan.csv
    """
    from calibkit_companion.experiments import cost
    from calibkit_companion.results import printed

    table = printed.planned(options.paper, options.edition)
    if not options.csv:
        print_table(printed.lines(table))
        print("", *cost.totals(table), sep="\n")
        if plan.EDITIONS[options.edition].network in cost.ON_H100:
            print(*cost.on_h100(plan.runs(options.paper or "book", options.edition)), sep="\n")
        return
    columns = printed.COLUMNS
    writer = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
