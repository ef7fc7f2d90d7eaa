"""Figures on a phone: panels that stand side by side in the book are shown one below the other.

A figure is one picture. The kernel knows where its panels are and writes that beside the picture
(`keep`, which kernel.py calls); the book hands it on as a class of the image (`as_class`), and a
script (figures.js) shows the panels of the same picture as strips where the screen is narrow.
"""

import re
import sys
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

KEY = "panels"  # in the metadata of an output
Window = tuple[float, float, float, float]  # left, right, top, bottom: shares of the picture


def strips(fig: "Figure") -> list[list[Window]]:
    """The columns of panels in a figure that was drawn, each as windows that stand side by side.

    Where panels share the labels of the first column, these come before each of the others. What
    stands above or below all panels, a title, a legend or small print, is a strip of its own. A
    title is a window a word, a legend in one line one an entry, a line of small print one a fact,
    so that they can be broken.

    Returns
    -------
    list
        Empty for one column, or where columns cannot be told apart.
    """
    renderer, dpi = fig.canvas.get_renderer(), fig.dpi
    axes = [ax for ax in fig.axes if ax.get_visible() and ax.axison]
    columns: list[list[Axes]] = []
    reach = -1.0
    for ax in sorted(axes, key=lambda ax: ax.get_position().x0):
        if ax.get_position().x0 < reach - 1e-6:
            columns[-1].append(ax)
        else:
            columns.append([ax])
        reach = max(reach, ax.get_position().x1)
    if len(columns) < 2:
        return []
    boxes = [[ax.get_tightbbox(renderer) for ax in column] for column in columns]
    ends = [(min(b.x0 for b in its), max(b.x1 for b in its)) for its in boxes]
    if any(
        right > left + 0.05 * dpi for (_, right), (left, _) in zip(ends, ends[1:], strict=False)
    ):
        return []
    top, bottom = (f(e) for f, e in ((max, [b.y1 for its in boxes for b in its]),
                                     (min, [b.y0 for its in boxes for b in its])))  # fmt: skip
    for key in fig.legends:
        key.draw(renderer)  # its entries stood where the cropped picture has them
    title = fig._suptitle
    rest = [a for a in (*fig.texts, *fig.legends) if a.get_visible() and a is not title]
    others = [a.get_window_extent(renderer) for a in rest]
    beside = [
        b.x0 for b in others if b.y0 < top and b.y1 > bottom and b.x1 <= ends[0][0] + dpi / 10
    ]
    ends[0] = min([ends[0][0], *beside]), ends[0][1]
    first = min(ax.get_window_extent(renderer).x0 for ax in columns[0])
    labels = ends[0][0], first - 0.05 * dpi, top, bottom  # without the axis
    found = [[(*ends[0], top, bottom)]]
    for column, (left, right) in zip(columns[1:], ends[1:], strict=True):
        shared = not any(ax.yaxis.get_tick_params().get("labelleft", True) for ax in column)
        found.append([labels] * shared + [(left, right, top, bottom)])
    rim = 0.03 * dpi  # half a line's width
    below = [text for text in fig.texts if text.get_window_extent(renderer).y1 <= bottom + 1]
    for place, box in ((len(found), [b for b in others if b.y1 <= bottom + 1]),
                       (0, [b for b in others if b.y0 >= top - 1])):  # fmt: skip
        if place and len(box) == len(below) == 1:
            found += _pieces(below[0], renderer, rim, "(?<=·.)")
        elif box:
            x0, x1 = min(b.x0 for b in box), max(b.x1 for b in box)
            y0, y1 = min(b.y0 for b in box), max(b.y1 for b in box)
            keys = [t for key in fig.legends for t in key.get_texts() if len(box) == 1]
            its = [b for b in (t.get_window_extent(renderer) for t in keys) if y0 <= b.y0 <= y1]
            one_line = len({round(b.y0) for b in its}) == 1
            breaks = [b.x1 + 0.06 * dpi for b in its[:-1]] if one_line else []
            pieces = zip([x0, *breaks], [*breaks, x1], strict=True)
            found.insert(place, [(left, right, y1, y0) for left, right in pieces])
    if title is not None:
        after = 1 if fig.legends else 0
        found[after:after] = _pieces(title, renderer, rim, "(?<= )")
    picture = fig.get_tightbbox(renderer).padded(_pad())
    return [
        [
            (
                ((x0 - rim) / dpi - picture.x0) / picture.width,
                ((x1 + rim) / dpi - picture.x0) / picture.width,
                (picture.y1 - (y1 + rim) / dpi) / picture.height,
                (picture.y1 - (y0 - rim) / dpi) / picture.height,
            )
            for x0, x1, y1, y0 in strip
        ]
        for strip in found
    ]


def _pieces(text: "Text", renderer, rim: float, between: str) -> list[list[Window]]:
    """A text, centred or on the left: a strip a line, a window for each piece of it.

    `between` matches where a piece ends, such as behind a "·". A window is less by the rim that
    each is given.
    """
    box, lines = text.get_window_extent(renderer), text.get_text().splitlines()
    apart = text._linespacing  # from line to line, in heights of a line
    apart = 1.2 if apart == "normal" else apart
    size, font = renderer.get_text_width_height_descent, text.get_fontproperties()
    high = box.height / (1 + apart * (len(lines) - 1))
    found = []
    for i, line in enumerate(lines):
        if not line:  # room for what stands beside the text
            continue
        pieces = re.split(between, line)
        ends = [size(line[:n], font, False)[0] for n in accumulate(map(len, pieces))]
        left = box.x0 if text.get_ha() == "left" else (box.x0 + box.x1 - ends[-1]) / 2
        top = box.y1 - (apart * i - 0.1) * high
        found.append([(left + start + rim, left + end - rim, top - rim, top - 1.2 * high + rim)
                      for start, end in zip([0, *ends], ends, strict=False)])  # fmt: skip
    return found


def _pad() -> float:
    import matplotlib as mpl

    return mpl.rcParams["savefig.pad_inches"]  # what a notebook leaves around a figure


def as_class(found: Sequence[Sequence[Window]]) -> str:
    """Strips as a class of HTML, in thousandths of the picture.

    >>> as_class([[(0, 0.5, 0, 1)], [(0, 0.1, 0, 1), (0.5, 1, 0, 1)]])
    'panels-0-500-0-1000-s-0-100-0-1000-500-1000-0-1000'
    """
    if not found:
        return ""
    shares = (
        "-".join(str(min(max(round(1000 * x), 0), 1000)) for w in s for x in w) for s in found
    )
    return "panels-" + "-s-".join(shares)


def keep() -> None:
    """From now on a notebook writes beside each picture where its panels are."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not getattr(shell, "kernel", None):
        return
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    plt.switch_backend(plt.get_backend())  # which sets its own way to draw
    pictures = shell.display_formatter.formatters["image/png"]
    draw = pictures.for_type(Figure)
    if draw is None or getattr(draw, "__module__", "") == __name__:
        return

    def drawn(fig: "Figure"):
        data = draw(fig)
        if not data:
            return data
        data, more = data if isinstance(data, tuple) else (data, {})
        return data, more | {KEY: strips(fig)}

    pictures.for_type(Figure, drawn)


def hand_on(cells: Sequence[dict]) -> None:
    """Give the images of a notebook, as JSON, the class that tells where their panels are."""
    for cell in cells:
        for output in cell.get("outputs", []):
            if name := as_class(output.get("metadata", {}).get("image/png", {}).get(KEY, [])):
                image = cell["metadata"].setdefault("mystnb", {}).setdefault("image", {})
                image["classes"] = f"{image.get('classes', '')} {name}".strip()
