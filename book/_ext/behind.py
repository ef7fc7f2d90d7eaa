"""The numbers behind a figure, as a CSV beside its picture: what is drawn, panel by panel.

The kernel of a page writes it into the output that holds the picture (`keep`, which kernel.py
calls); the book makes a file of it and a link under the figure (pages.py).
"""

import csv
import io
import sys
from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KIND = "text/csv"  # of the output
MOST = 500  # points of one series; of more, every second, third ... is listed
COLUMNS = ("panel", "drawn", "series", "x", "y", "to_x", "to_y", "row")


def table(fig: "Figure") -> str:
    """What a figure draws: a line for each point, bar or interval, in the units of its axes.

    Columns: the panel's title; what is drawn; its name in the legend; x and y; where an interval, a
    bar or a band ends; and what stands beside it on an axis of words.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for i, ax in enumerate(fig.axes):
        panel = " ".join((ax.get_title() or ax.get_xlabel() or f"panel {i + 1}").split())
        words = _words(ax.yaxis), _words(ax.xaxis)
        for drawn, series, points in _artists(ax):
            name = "" if str(series).startswith("_") else " ".join(str(series).split())
            if (step := -(-len(points) // MOST)) > 1:
                points, drawn = points[::step], f"{drawn}, one in {step}"
            for x, y, to_x, to_y in points:
                if not (isfinite(x) and isfinite(y)):  # a gap in a line
                    continue
                at = ["" if end is None else _short(end) for end in (x, y, to_x, to_y)]
                writer.writerow([panel, drawn, name, *at, _row(words, x, y)])
    return file.getvalue()


def _artists(ax: "Axes") -> Iterator[tuple[str, str, list]]:
    """What is drawn in the units of the axes: its kind, its name, its points."""
    from matplotlib import collections, patches

    named = {id(part): c.get_label() for c in ax.containers for part in c.get_children()}
    for line in ax.lines:
        if line.get_transform() == ax.transData and line.get_visible():
            x, y = line.get_data(orig=False)
            name = named.get(id(line), line.get_label())
            yield "line", name, [(a, b, None, None) for a, b in zip(x, y, strict=True)]
    for bar in ax.patches:
        if isinstance(bar, patches.Rectangle) and bar.get_transform().contains_branch(ax.transData):
            name = named.get(id(bar), bar.get_label())
            yield "bar", name, [(*bar.get_xy(), *(bar.get_corners()[2]))]
        elif isinstance(bar, patches.Polygon | patches.StepPatch):
            yield "area", bar.get_label(), [(*at, None, None) for at in bar.get_path().vertices]
    for some in ax.collections:
        name = named.get(id(some), some.get_label())
        if isinstance(some, collections.PathCollection):
            yield "points", name, [(*at, None, None) for at in some.get_offsets()]
        elif isinstance(some, collections.LineCollection):
            ends = [segment for segment in some.get_segments() if len(segment)]
            yield "interval", name, [(*its[0], *its[-1]) for its in ends]
        elif isinstance(some, collections.PolyCollection):
            at = [vertex for path in some.get_paths() for vertex in path.vertices]
            yield "band", name, [(*vertex, None, None) for vertex in at]


def _short(value: float) -> str:
    return f"{round(value, 12):.6g}"


def _words(axis) -> list[tuple[float, str]]:
    """The labels of an axis that are words, and where they stand."""
    ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
    labels = [(at, tick.get_text()) for at, tick in ticks]
    return [(at, " ".join(text.split())) for at, text in labels if any(map(str.isalpha, text))]


def _row(words: tuple[list, list], x: float, y: float) -> str:
    """The words beside a point, on the vertical axis or the other."""
    for labels, value in zip(words, (y, x), strict=True):
        near = [(abs(at - value), text) for at, text in labels]
        if near and min(near)[0] < 0.5:
            return min(near)[1]
    return ""


def keep() -> None:
    """From now on a notebook writes beside each picture the numbers that it draws."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not getattr(shell, "kernel", None):
        return
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    class Formatter(BaseFormatter):
        format_type = Unicode(KIND)
        print_method = ObjectName("_repr_csv_")

    formatter = Formatter(parent=shell.display_formatter)
    formatter.for_type_by_name("matplotlib.figure", "Figure", table)
    shell.display_formatter.formatters[KIND] = formatter
