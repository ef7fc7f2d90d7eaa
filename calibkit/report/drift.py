"""One model on several sets of samples: the words, the page and the pictures of a drift."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from calibkit import plots
from calibkit.report import html, privacy
from calibkit.report.change import Change, Difference, Drift
from calibkit.report.change import compare as compare
from calibkit.report.change import differences as differences
from calibkit.report.names import Say
from calibkit.report.periods import by_date as by_date
from calibkit.report.readers.content import Input
from calibkit.report.words import Statement, card, say
from calibkit.report.written import change, framed, negative, percent

MOST = 50  # rows of a table


def verdict(numbers: Drift) -> list[Statement]:
    """Say whether calibration has drifted, and where: ``title``, ``text`` and ``tone``."""
    old, *parts = numbers.parts
    worst = numbers.worst
    new = parts[numbers.changes.index(worst)]
    which = [change.part for change in numbers.changes if change.drifted]
    several = len(numbers.changes) > 1 and bool(which)
    values = {"worst": worst, "which": which, "several": several, "p": _p(worst)}
    text = say(numbers, "drift", parts=(old, new), **values)
    if not which:
        title = f"No drift since {old.name} beyond what chance would show"
        return [card(title, text, "good")]
    title = f"Calibration has drifted from {old.name} to {new.name}"
    if several:
        title = f"Calibration has drifted since {old.name}, first in {which[0]}"
    return [card(title, text, "bad"), _where(worst, numbers.score)]


def _where(change: Change, score: str) -> Statement:
    """The statement on the bins, groups and answers in which calibration has changed most."""
    kinds = {
        f"at a {score} of": change.bins,
        "in group": change.groups,
        "where the answer is": change.predicted,
    }
    places = []
    for what, rows in kinds.items():
        off = sorted((row for row in rows if row.stands_out), key=lambda row: -abs(row.z or 0))
        places += [(what, row) for row in off[:3]]
    if not places:
        text = "No single bin, group or class stands out: the change is spread over all of them."
        return card("Drifted a little everywhere", text, "unsure")
    text = say(change, "drifted_where", places=places)
    return card(f"Where {change.part} differs most", text, "fair")


def _p(change: Change) -> str:
    """A p-value as text: "= 0.012" or "below 0.0001"."""
    return f"= {change.p:.2g}" if change.p >= 1e-4 else "below 0.0001"


def write(
    numbers: Drift,
    out: Path,
    rows: bool = True,
    inputs: Sequence[Input] = (),
    told: Say | None = None,
) -> Path:
    """Write ``compare.html`` and ``compare.json`` on a drift; return the path of the page.

    Parameters
    ----------
    numbers : Drift
    out : Path
        Folder to write to; created if missing.
    rows : bool
        False leaves out all numbers that belong to a single row: see `calibkit.report.privacy`.
    inputs : sequence of Input
        The files that were read, with their checksums.
    told : function of str, optional
        Called with the text of ``compare.json`` when both files are written.
    """
    words = verdict(numbers)
    numbers = numbers if rows else privacy.without_rows_of_parts(numbers)
    worst = numbers.worst
    title = f"{len(numbers.parts)} sets of samples"
    tables = {
        "bins": [_row(row, numbers.score) for row in worst.bins[:MOST]],
        "groups": [_row(row, "Group") for row in worst.groups[:MOST]],
        "predicted": [_row(row, "Answer") for row in worst.predicted[:MOST]],
        "parts": _parts(numbers),
    }
    return html.publish(
        out,
        "compare",
        numbers,
        {"verdicts": [{"title": title, "verdict": words}], "inputs": inputs, "rows": rows},
        "drift",
        told=told,
        verdict=words,
        worst=worst,
        rows=rows,
        fewest=privacy.FEWEST,
        pictures={name: html.picture(draw(name, numbers)) for name in ("gaps", "bins")},
        tables={name: html.table(framed(cells)) for name, cells in tables.items() if cells},
    )


def _parts(numbers: Drift) -> list[dict[str, str]]:
    """The rows of the table of sets: one row for each set of samples."""
    changes = [None, *numbers.changes]
    return [
        {
            "Samples of": part.name,
            "How many": f"{part.samples:,}",
            "Claimed": percent(part.claimed),
            "Observed": percent(part.observed),
            "Change of the gap": change(found.change) if found else "–",
            "p": _p(found).removeprefix("= ") if found else "–",
            "Drifted?": ("yes" if found.drifted else "no") if found else "–",
        }
        for part, found in zip(numbers.parts, changes, strict=True)
    ]


def _row(row: Difference, first: str) -> dict[str, str]:
    """A row of a table of bins, groups or answers; `first` is the head of its first column."""
    before, now = row.samples
    return {
        first: row.name,
        "Samples before": f"{before:,}",
        "Samples now": f"{now:,}",
        "Observed − claimed before": change(row.old),
        "Observed − claimed now": change(row.new),
        "Change": change(row.change),
        "Verdict": "stands out" if row.stands_out else "–",
    }


def draw(name: str, numbers: Drift) -> Figure:
    """Draw a picture: "gaps" or "bins".

    "gaps" shows observed minus claimed in every set. "bins" shows, by bins of the score, how this
    has changed from the first set to the set with the clearest change.
    """
    if name == "gaps":
        drifted = [False, *(change.drifted for change in numbers.changes)]
        colours = [plots.WRONG if x else plots.CORRECT for x in drifted]
        bars = [(part.name, negative(part.gap)) for part in numbers.parts]
        labels = {"ylabel": "Observed − claimed, points"}
    else:
        rows, score = numbers.worst.bins, numbers.score
        colours = [plots.WRONG if row.stands_out else "0.5" for row in rows]
        bars = [(row.name, row.change) for row in rows]
        labels = {"xlabel": score[0].upper() + score[1:], "ylabel": "Change, points"}
    with html.style():
        fig, ax = plt.subplots(figsize=(6.4, 3.6))
        ax.axhline(0, color="0.4", linewidth=1, linestyle="--")
        for x, ((_, interval), colour) in enumerate(zip(bars, colours, strict=True)):
            estimate, low, high = (100 * end for end in interval)
            ax.plot([x, x], [low, high], color=colour, linewidth=2.2)
            ax.plot(x, estimate, "o", color=colour, markersize=6)
        ax.set_xticks(range(len(bars)), [called for called, _ in bars], rotation=30, ha="right")
        ax.set(**labels)
        return fig
