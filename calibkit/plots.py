"""Figures of the book. ``prepare_x`` returns numbers, and ``plot_x`` draws them.

The functions ``prepare_x`` take arrays and draw nothing: one array (or list of numbers) is one run,
a list of arrays is one run per seed. They are defined in `calibkit.curves`. The functions
``plot_x`` take the numbers, draw them, and return the axes. `plot_reliability_lines` draws what
`prepare_reliability` returns, and `plot_overfitting_grid` what `prepare_overfitting` returns.
`forest_before_after` draws a table of intervals. Functions that draw several methods in one figure
take ``{method: numbers}``; `panels` draws a figure with one panel per method, epoch or treatment.

Where a figure draws an interval, it is over seeds the 95 % Student-t interval of the mean, which
needs two seeds (`forest_before_after`: three), and within one test set the 95 % Wilson interval of
a proportion.

>>> with style():
...     ax = plot_reliability(prepare_reliability([0.9, 0.8, 0.7], [True, True, False]))
"""

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import _GeneratorContextManager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator
from scipy.optimize import isotonic_regression

from calibkit import stats, terms

# What is handed on is called as there.
# isort: off
from calibkit.curves import (
    ConfidenceHistogram as ConfidenceHistogram,
    GradientNorms as GradientNorms,
    Overfitting as Overfitting,
    Refinement as Refinement,
    Reliability as Reliability,
    RiskCoverage as RiskCoverage,
    gradient_spread as gradient_spread,
    prepare_confidence_histogram as prepare_confidence_histogram,
    prepare_gradient_norms as prepare_gradient_norms,
    prepare_overfitting as prepare_overfitting,
    prepare_refinement as prepare_refinement,
    prepare_reliability as prepare_reliability,
    prepare_risk_coverage as prepare_risk_coverage,
)
# isort: on

# One look per method in the whole book.
COLORS = {name: method.color for name, method in terms.METHODS.items()}
_MARKERS = {name: method.marker for name, method in terms.METHODS.items()}
_OWN = "#E7298A", "*"  # of somebody's own source: to be seen among the others
_DASHED = ("focal_gra", "flsd53_gra", "dual_focal_gra")
_LINESTYLES = {"": "-", "sam": "--", "swa": "-.", "sam+swa": (0, (1, 1)), "gra": (0, (4, 1.5))}

# Predictions; kept apart from the colours of methods.
CORRECT, WRONG = terms.COLORS["correct"], terms.COLORS["wrong"]
_INK, _FAINT = terms.COLORS["ink"], "#8A8A8A"

# --- style ---

WIDTH = 6.9  # inches: the column of text of the book
_STYLE = mpl.rc_params_from_file(Path(__file__).with_name("book.mplstyle"), False, False)
_TEXT = (
    "font.size", "axes.labelsize", "axes.titlesize", "legend.fontsize", "legend.title_fontsize",
    "xtick.labelsize", "ytick.labelsize",
)  # fmt: skip
_FINE = {"figure.figsize": (WIDTH, 3.2), "lines.linewidth": 1.4, "lines.markersize": 5.0}


def style(points: float | None = None) -> _GeneratorContextManager[None]:
    """Context manager (or decorator) with the book's style; outside it nothing changes.

    Figures have a white, opaque background, which dark pages of the book invert.

    Parameters
    ----------
    points : float, optional
        Size of all text; lines are scaled with it. Take 8 for a figure that is shown as wide as
        it is drawn, ``calibkit.plots.WIDTH`` = 6.9 inches. By default text has 10 to 12 points, for
        figures that a page shrinks.

    Returns
    -------
    contextlib.AbstractContextManager
        For a ``with`` statement, or to decorate a function with.

    Examples
    --------
    >>> before = mpl.rcParams["font.size"]
    >>> with style():
    ...     inside = mpl.rcParams["font.size"]
    >>> inside >= 9 and mpl.rcParams["font.size"] == before
    True
    """
    if points is None:
        return mpl.rc_context(_STYLE)
    return mpl.rc_context(_STYLE | dict.fromkeys(_TEXT, points) | _FINE)


def look(method: str) -> dict[str, Any]:
    """Keyword arguments for ``ax.plot``: colour, line style, marker and label of a method.

    A method combined with SAM or SWA (``bsce_gra+sam+swa``) has the colour and marker of its loss.
    SAM and SWA choose the line style and are added to the label, as are options in brackets. A name
    that the book does not know gets a colour and a marker computed from its letters, the same every
    time.

    Parameters
    ----------
    method : str
        Such as ``"erm"`` or ``"focal(gamma=5)+swa"``.

    Returns
    -------
    dict
        ``color``, ``marker``, ``linestyle`` and ``label``.

    Examples
    --------
    >>> look("bsce_gra+sam+swa")["label"], look("bsce_gra+sam")["color"] == COLORS["bsce_gra"]
    ('BSCE-GRA + SAM + SWA', True)
    >>> look("erm+swa+sam") == look("fmfp")
    True
    >>> look("focal+sam")["label"]
    'Focal loss + SAM'
    """
    base, _, axes = terms.parts(method)
    flat = "+".join(axis for axis in ("sam", "swa") if axis in axes)
    own = list(COLORS)
    stand_in = base if base in COLORS else own[zlib.crc32(base.encode()) % len(own)]
    color, marker = COLORS[stand_in], _MARKERS.get(stand_in, _OWN[1])
    if "@" in base:
        color, marker = _OWN
    return {
        "color": color,
        "marker": "s" if method == "ts" else marker,
        "linestyle": _LINESTYLES[flat or ("gra" if base in _DASHED else "")],
        "label": terms.label(method),
    }


def ink(color: str) -> str:
    """A colour for words on white: as given, or darkened until the words can be read.

    The contrast is at least 4.5, as WCAG asks.

    Parameters
    ----------
    color : str
        A colour of Matplotlib, such as ``look("mixup")["color"]``.

    Returns
    -------
    str
        The nearest darker shade of the same hue, as ``#rrggbb``.

    Examples
    --------
    >>> ink(COLORS["bsce_gra"]) == COLORS["bsce_gra"].lower(), ink(COLORS["mixup"])
    (True, '#3b7ca1')
    """
    shades = np.linspace(1, 0, 101)[:, None] * to_rgb(color)
    light = np.where(shades <= 0.04045, shades / 12.92, ((shades + 0.055) / 1.055) ** 2.4)
    contrast = 1.05 / (light @ [0.2126, 0.7152, 0.0722] + 0.05)
    return to_hex(shades[np.argmax(contrast >= 4.5)])


# --- helpers ---


def _text(values, digits: int = 2, scale: int = 1, unit: str = "", sign: bool = False) -> str:
    """``mean ± half-width`` over seeds, as every figure writes it."""
    interval = stats.seed_interval(np.atleast_1d(values))
    if np.isnan(interval.estimate):
        return "undefined"
    return interval.format(scale, digits, unit, sign, half=True)


def _axes(ax: Axes | None) -> Axes:
    return plt.subplots()[1] if ax is None else ax


def _note(ax: Axes, text: str, x: float = 0.03, y: float = 0.97, **more) -> None:
    """Words inside the axes, on a white background so that no line runs through them."""
    box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5}
    usual = {"ha": "left", "va": "top", "fontsize": _small(), "color": _INK, "zorder": 6}
    ax.text(x, y, text, transform=ax.transAxes, bbox=box, **usual | more)


def _small() -> float:
    """Size of the text inside axes, in points."""
    return FontProperties(size=mpl.rcParams["legend.fontsize"]).get_size_in_points()


def _scaled(axis, scale: int) -> None:
    """Write ticks times `scale`, in per cent if that is 100."""
    unit = " %" if scale == 100 else ""
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{scale * x:g}{unit}".replace("-", "−")))


def _from_zero(ax: Axes) -> None:
    """Start the vertical axis at zero; its upper end depends on the panels that share it."""
    ax.update_datalim([(ax.dataLim.x0, 0)])
    ax.lines[-1].sticky_edges.y.append(0)


def _label_ends(ax: Axes, ends: dict[str, tuple[float, str]]) -> None:
    """Write {method: (y, text)} to the right of the axes, in the method's colour."""
    low, high = ax.get_ylim()
    height = ax.bbox.height / ax.figure.dpi  # in inches; a subfigure has no height of its own
    line_ends = {m: (y - low) / (high - low) for m, (y, _) in ends.items()}
    step = {m: (1 + ends[m][1].count("\n")) * 1.35 * _small() / 72 / height for m in ends}
    order = sorted(ends, key=line_ends.get)
    # As near as can be to where the lines end, given the height of the text below: an isotonic
    # regression of the places left after the text is taken out.
    heights = np.array([step[m] for m in order])
    centres = np.cumsum(heights) - heights / 2
    slack = isotonic_regression([line_ends[m] for m in order] - centres).x
    placed = centres + slack.clip(0, max(1 - heights.sum(), 0))
    for m, y in zip(order, placed, strict=True):
        color, inside = look(m)["color"], {"transform": ax.transAxes}
        ax.plot([1, 1.03], [line_ends[m], y], color=color, linewidth=0.8, clip_on=False, **inside)
        ax.text(1.04, y, ends[m][1], color=ink(color), va="center", fontsize=_small(), **inside)


def _title(ax: Axes, title) -> str | None:
    """Write a title of one part or more, a method as its label in its colour; return it."""
    parts = [str(part) for part in (title if isinstance(title, tuple) else (title,))]
    method = next((p for p in parts if re.split(r"[+(]", p)[0] in terms.METHODS or "@" in p), None)
    words = [look(part)["label"] if part == method else part for part in parts]
    ax.set_title(" · ".join(words), color=ink(look(method)["color"]) if method else _INK)
    return method


def panels(
    table: dict[str, Any],
    plot: Callable[..., Axes],
    columns: int = 2,
    size: tuple[float, float] = (3.1, 2.9),
    **options: Any,
) -> Figure:
    """Repeat a plot over panels with common axes: methods, epochs, before and after scaling.

    Parameters
    ----------
    table : dict
        ``{title: numbers}`` in reading order. A title is a string or a tuple of strings; a
        method's key is shown as its label, in its colour. ``None`` instead of numbers leaves a gap.
    plot : callable
        A ``plot_*`` function of one panel, called as ``plot(numbers, ax=ax, **options)``.
    columns : int
        Panels in a row.
    size : (float, float)
        Width and height of a panel in inches.
    **options
        Further arguments of `plot`.

    Returns
    -------
    Figure
        A figure with one panel per title.

    Raises
    ------
    ValueError
        If the table is empty.

    Examples
    --------
    >>> low = prepare_reliability([0.9, 0.8, 0.7], [True, True, False])
    >>> high = prepare_reliability([0.99, 0.95, 0.9], [True, True, False])
    >>> fig = panels({"focal": low, "erm": high}, plot_reliability)
    >>> [ax.get_title() for ax in fig.axes]
    ['Focal loss', 'Plain training']
    """
    if not table:
        raise ValueError("table: got nothing to draw, expected {title: numbers}")
    columns = min(columns, len(table))
    rows = -(-len(table) // columns)
    shape = {"figsize": (size[0] * columns + 0.3, size[1] * rows), "squeeze": False}
    fig, axes = plt.subplots(rows, columns, sharex=True, sharey=True, **shape)
    for ax, (title, numbers) in zip_longest(axes.flat, table.items(), fillvalue=("", None)):
        if numbers is None:
            ax.set_axis_off()
            continue
        plot(numbers, ax=ax, **options)
        _title(ax, title)
    legends = [ax.get_legend() for ax in axes.flat if ax.get_legend()]
    for legend in legends[1:]:  # once is enough
        legend.remove()
    for i, ax in enumerate(axes.flat):
        label = ax.get_xlabel()
        ax.label_outer()
        if i + columns >= len(table):  # nothing below, in the last row or above a gap in it
            ax.set_xlabel(label)
            ax.tick_params(labelbottom=True)
    return fig


# --- a. confidence of correct and of wrong predictions ---


def plot_confidence_histogram(
    numbers: ConfidenceHistogram, ax: Axes | None = None, root: bool = False, words: bool = True
) -> Axes:
    """Draw both densities, and in words the AUROC and their overlap or the confident errors.

    Filled areas are means over seeds, thin outlines single seeds. With a threshold, the errors
    above it are shaded and their share is written. Without a threshold, dashed lines show the mean
    confidences. To draw methods side by side: ``panels(table, plot_confidence_histogram,
    size=(3.3, 2.7))``.

    Parameters
    ----------
    numbers : ConfidenceHistogram
        From `prepare_confidence_histogram`.
    ax : Axes, optional
        Where to draw; by default axes of a new figure.
    root : bool
        Whether the vertical axis is a square root, on which low densities can be seen beside the
        peak near 1. Areas are then no longer shares.
    words : bool
        Whether to write the AUROC and the overlap. The share of errors above a threshold is always
        written.

    Returns
    -------
    Axes
        The axes drawn on.

    Examples
    --------
    >>> confidence, correct = [0.95, 0.9, 0.6, 0.4], [True, True, True, False]
    >>> ax = plot_confidence_histogram(prepare_confidence_histogram(confidence, correct))
    >>> print(ax.texts[0].get_text())
    overlap 0.00
    AUROC 100.0 %
    """
    ax = _axes(ax)
    edges, threshold = numbers.edges, numbers.threshold
    for name, density, mean, color in (
        ("correct", numbers.correct, numbers.mean_correct, CORRECT),
        ("wrong", numbers.wrong, numbers.mean_wrong, WRONG),
    ):
        ax.stairs(density.mean(0), edges, fill=True, color=color, alpha=0.4, label=name)
        for seed in density:
            ax.stairs(seed, edges, color=color, linewidth=0.9, alpha=0.9)
        if np.isnan(threshold):
            ax.axvline(mean.mean(), 0, 0.78, color=color, linestyle="--")
    if not np.isnan(threshold):
        confident = ax.stairs(numbers.wrong.mean(0), edges, fill=True, color=WRONG, alpha=0.85)
        place = Rectangle((threshold, 0), 1 - threshold, 1, transform=ax.get_xaxis_transform())
        confident.set_clip_path(place)
        ax.axvline(threshold, color=_INK, linewidth=0.9)
        share = f"{_text(numbers.confident, 0, 100, ' %')} of the errors"
        beside = {"ha": "right", "color": ink(WRONG)}
        _note(ax, f"{share}\nlie above {100 * threshold:g} %", threshold - 0.03, 0.52, **beside)
    _from_zero(ax)
    if root:
        scale = (lambda y: np.sign(y) * np.sqrt(np.abs(y)), lambda y: np.sign(y) * y**2)
        ax.set_yscale("function", functions=scale)
        ax.set_yticks([0, 1, 5, 10, 20])
    ax.set(xlim=(0, 1), xlabel="Confidence", ylabel=f"Density{' (square-root axis)' * root}")
    ax.xaxis.set_major_formatter("{x:g}")  # 0 and 1 of neighbouring panels stay apart
    said = [f"AUROC {_text(numbers.auroc, 1, 100, ' %')}"]
    if np.isnan(threshold):
        said.insert(0, f"overlap {_text(numbers.overlap)}")
    if words:
        _note(ax, "\n".join(said))
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, 0.80), handlelength=1.2)
    return ax


# --- b. reliability ---


def plot_reliability(numbers: Reliability, ax: Axes | None = None, words: bool = True) -> Axes:
    """Draw accuracy against confidence and the gap between them, and below the share of samples.

    The dot of a bin is at its mean confidence. Its bar reaches to the diagonal: red if the network
    is over-confident in this bin, blue if it is under-confident. The ECE is the mean length of
    these bars, weighted by the shares in the grey strip below (its tallest bar is labelled). Small
    marks are single seeds. A bin whose interval is wider than 0.3 is pale.

    Parameters
    ----------
    numbers : Reliability
        From `prepare_reliability`.
    ax : Axes, optional
        Where to draw; by default axes of a new figure.
    words : bool
        Whether to write the ECE, and by how much confidence exceeds accuracy.

    Returns
    -------
    Axes
        The axes drawn on.

    Examples
    --------
    >>> ax = plot_reliability(prepare_reliability([0.9, 0.9, 0.7, 0.7], [True, True, True, False]))
    >>> print(ax.texts[-1].get_text())
    ECE 15.0 %
    conf. − acc. +5.0 points
    """
    ax = _axes(ax)
    x, y, share = numbers.confidence, numbers.accuracy, numbers.share
    low, high = numbers.low, numbers.high
    left, width = numbers.edges[:-1], np.diff(numbers.edges)
    sure = high - low < 0.3
    ax.plot([0, 1], [0, 1], color=_FAINT, linestyle="--", linewidth=1.2, zorder=1)
    for some, tint, alpha in ((sure, _INK, 0.35), (~sure, "#B0B0B0", 0.15)):
        if not some.any():  # an empty line would count as a marker at the figure's corner
            continue
        color = np.where(y < x, WRONG, CORRECT)[some]
        bar = {"align": "edge", "alpha": alpha, "edgecolor": "white", "linewidth": 0.8}
        ax.bar(left[some], (y - x)[some], width[some], x[some], color=color, **bar)
        whiskers = np.array([y - low, high - y])[:, some].clip(min=0)
        dots = {"fmt": "o", "color": tint, "markersize": 4.5, "elinewidth": 1.2, "clip_on": False}
        ax.errorbar(x[some], y[some], whiskers, zorder=4, **dots)
    if len(numbers.seed_accuracy) > 1:
        for seed in numbers.seed_accuracy:
            ax.plot(x[sure], seed[sure], "_", color=_INK, markersize=5, alpha=0.5, zorder=3)
    # The strip lives under the zero line of the same axes: it keeps their x, and panels align.
    floor, room = -0.25, 0.13
    strip = {"align": "edge", "color": "#BDBDBD", "edgecolor": "white", "linewidth": 0.8}
    ax.bar(left, room * share / share.max(), width, floor, **strip)
    ax.axhline(0, color="0.6", linewidth=0.8)
    middle = np.clip(left[share.argmax()] + width[0] / 2, 0.07, 0.93)
    above = {"ha": "center", "va": "bottom", "fontsize": _small() - 1, "color": _FAINT}
    ax.text(middle, floor + room + 0.01, f"{100 * share.max():.0f} %", **above)
    ax.set(xlim=(0, 1), ylim=(floor, 1.0), xlabel="Confidence", ylabel="Accuracy")
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_yticks([floor + room / 2], ["share"], minor=True)
    gap = numbers.confidence_all - numbers.accuracy_all
    said = f"ECE {_text(numbers.ece, 1, 100, ' %')}\n"
    said += f"conf. − acc. {_text(gap, 1, 100, ' points', sign=True)}"
    # Over-confidence leaves the upper corner free, the opposite the lower.
    lower = {} if gap.mean() >= 0 else {"x": 0.97, "y": 0.23, "ha": "right", "va": "bottom"}
    if words:
        _note(ax, said, fontsize=_small() - 1, **lower)
    return ax


def plot_reliability_lines(table: dict[str, Reliability], ax: Axes | None = None) -> Axes:
    """Draw the gap accuracy − confidence of several methods per bin, with its Wilson bands.

    Bins whose interval is wider than 0.3 are left out, because they say nothing.

    Parameters
    ----------
    table : dict
        ``{method: numbers of prepare_reliability}``.
    ax : Axes, optional
        Where to draw; by default axes of a new figure.

    Returns
    -------
    Axes
        The axes drawn on.

    Examples
    --------
    >>> before = prepare_reliability([0.9] * 60, [True] * 42 + [False] * 18)
    >>> after = prepare_reliability([0.72] * 60, [True] * 42 + [False] * 18)
    >>> ax = plot_reliability_lines({"erm": before, "erm+ts": after})
    >>> [line.get_ydata().round(2).tolist() for line in ax.lines[1:]]
    [[-0.2], [-0.02]]
    """
    ax = _axes(ax)
    ax.axhline(0, color=_FAINT, linestyle="--", linewidth=1.2)
    for method, numbers in table.items():
        sure = numbers.high - numbers.low < 0.3
        x, gap = numbers.confidence[sure], (numbers.accuracy - numbers.confidence)[sure]
        low, high = (ends[sure] - x for ends in (numbers.low, numbers.high))
        ax.fill_between(x, low, high, color=look(method)["color"], alpha=0.12, linewidth=0)
        ax.plot(x, gap, **look(method), markersize=5)
    ax.set(xlim=(0, 1), xlabel="Confidence", ylabel="Accuracy − confidence (points)")
    ax.yaxis.set_major_formatter(lambda y, _: f"{100 * y:+g}".replace("-", "−") if y else "0")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3)
    return ax


# --- c. reliable overfitting ---


def plot_overfitting_grid(
    table: dict[str, Any],
    since: float = 0.25,
    changes: Sequence[str] | None = None,
    rows: Mapping[Any, Mapping[str, Any]] | None = None,
) -> Figure:
    """Draw metrics over epochs, one above the other, and how each changes after its best epoch.

    Reliable overfitting shows as an AUROC that falls while the accuracy does not.

    Parameters
    ----------
    table : dict
        ``{title: {metric: numbers}}``, numbers from `prepare_overfitting`, the same metrics
        ("accuracy" and "auroc", say) for each; a column a title, written as in `panels`.
    since : float
        Share of the training after which the curves fit into the axes. Earlier epochs may lie
        outside: their steep rise would make a later fall too small to see.
    changes : sequence of str, optional
        Metrics whose change is written; by default all.
    rows : mapping, optional
        ``{title: {metric: row}}`` with fields ``estimate``, ``low``, ``high`` (natural units) and
        ``outcome`` ("lower", "higher" or another word): the change between the two stretches of
        the numbers, with its interval. It is written instead of the change since the best epoch.

    Returns
    -------
    Figure
        One row per metric; as wide as a page, or as a phone if there is one column. Thick lines
        are means, thin lines single seeds. If the numbers have stretches (two ranges of epochs, see
        `prepare_overfitting`), a bar shows the mean over each, and an arrow leads from the first to
        the second. Otherwise a ring marks the best epoch of the mean. The number is then the mean
        change since the best epoch, which for each seed is chosen by the other seeds. It has no
        interval.

    Raises
    ------
    ValueError
        If the table is empty.

    Examples
    --------
    >>> history = {"epoch": [1, 2, 3], "accuracy": [0.7, 0.8, 0.9], "auroc": [0.7, 0.9, 0.8]}
    >>> numbers = {name: prepare_overfitting(history, name) for name in ("accuracy", "auroc")}
    >>> fig = plot_overfitting_grid({"erm": numbers})
    >>> [ax.texts[-1].get_text() for ax in fig.axes]
    ['best at the end', '−10.0 points']
    """
    if not table:
        raise ValueError("table: got nothing to draw, expected {title: {metric: numbers}}")
    names = list(next(iter(table.values())))
    size = (WIDTH if len(table) > 1 else 4.6, (1.8 if rows else 1.55) * len(names) + 0.3)
    shared = {"squeeze": False, "sharex": "col", "sharey": "row"}
    fig, axes = plt.subplots(len(names), len(table), figsize=size, **shared)
    for column, (title, by_metric) in enumerate(table.items()):
        color = look(_title(axes[0, column], title) or "erm")["color"]
        for ax, name in zip(axes[:, column], names, strict=True):
            words = changes is None or name in changes
            _fall(ax, by_metric[name], color, words, (rows or {}).get(title, {}).get(name))
            epoch = by_metric[name].epoch
            ax.set_xlim(max(epoch[0], (since - 0.1) * epoch[-1]), epoch[-1])
        axes[-1, column].set_xlabel("Epoch")
        axes[-1, column].xaxis.set_major_locator(MaxNLocator(4, integer=True))
    for row, name in zip(axes, names, strict=True):
        label, scale, _ = terms.metric_label(name, unit=False)
        row[0].set_ylabel(label)
        _scaled(row[0].yaxis, scale)
        late = [
            its.values[:, its.epoch >= since * its.epoch[-1]]
            for its in (by_metric[name] for by_metric in table.values())
        ]
        low, high = min(map(np.nanmin, late)), max(map(np.nanmax, late))
        if low < high:
            room = 0.7 if rows else 0.3  # for the words below the curves
            row[0].set_ylim(low - room * (high - low), high + 0.12 * (high - low))
    return fig


def _fall(ax: Axes, numbers: Overfitting, color: str, words: bool, row: Any = None) -> None:
    """One curve with where its change begins and ends, and the change in words."""
    x = numbers.epoch
    if len(numbers.values) > 1:
        ax.plot(x, numbers.values.T, color=color, alpha=0.35, linewidth=0.8)
    ax.plot(x, numbers.mean, color=color, linewidth=1.2 if numbers.levels is not None else 2)
    if numbers.levels is not None:
        _between_stretches(ax, numbers, color)
    else:
        _since_best(ax, numbers, color, words)
    if words and row is not None:
        _note(ax, _change(row, numbers.metric), 0.97, 0.04, ha="right", va="bottom")
    ax.set_xlim(x[0], x[-1])


def _between_stretches(ax: Axes, numbers: Overfitting, color: str) -> None:
    """The mean over each stretch as a bar, and an arrow from the first to the last."""
    (start, _), (late, end) = numbers.stretches[:, [0, -1]]
    first, last = numbers.levels.mean(axis=0)
    bar = {"color": color, "linewidth": 5, "alpha": 0.45, "zorder": 4, "solid_capstyle": "butt"}
    for stretch, level in zip(numbers.stretches, (first, last), strict=True):
        ax.plot(stretch[[0, -1]], [level, level], **bar)
    ax.plot([start, end], [first, first], ":", color=color, linewidth=1)
    arrow = {"arrowstyle": "-|>", "color": color, "lw": 1, "shrinkA": 0, "shrinkB": 0}
    middle = (late + end) / 2
    ax.annotate("", (middle, last), (middle, first), arrowprops=arrow | {"mutation_scale": 7})


def _change(row: Any, metric: str) -> str:
    """A change with its interval, in words: "falls", a number, an interval."""
    scale = terms.metric_label(metric)[1]
    word = {"lower": "falls", "higher": "rises"}.get(row.outcome, "no clear change")
    unit, digits = " points" * (scale == 100), 1 if scale > 1 else 3
    interval = stats.Interval(row.estimate, row.low, row.high)
    number, _, ends = interval.format(scale, digits, sign=True).partition(" ")
    return f"{word}\n{number}{unit}\n{ends}".strip()


def _since_best(ax: Axes, numbers: Overfitting, color: str, words: bool) -> None:
    """A ring at the best epoch, an arrow from there to the end, and the change in words."""
    x, scale = numbers.epoch, terms.metric_label(numbers.metric)[1]
    best = numbers.best_epoch, numbers.best
    ax.plot(*best, "o", color=color, markerfacecolor="white", zorder=5, clip_on=False)
    said = "best at the end"
    if numbers.drop.any():
        unit, digits = " points" * (scale == 100), 1 if scale > 1 else 3
        said = f"{scale * numbers.drop.mean():+.{digits}f}{unit}".replace("-", "−")
    if numbers.best_epoch < x[-1]:
        ax.plot([best[0], x[-1]], [best[1]] * 2, ":", color=color, linewidth=1)
        ends = {"shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
        arrow = {"arrowstyle": "-|>", "color": color, "lw": 1, **ends}
        as_said = numbers.drop.mean() * (numbers.final - best[1]) > 0
        if words and as_said:  # it points as the number says
            ax.annotate("", (x[-1], numbers.final), (x[-1], best[1]), arrowprops=arrow)
    if words:
        _note(ax, said, 0.97, 0.05, ha="right", va="bottom", color=ink(color))


def plot_refinement(numbers: Refinement, ax: Axes | None = None, since: float = 0.46) -> Axes:
    """Draw the NLL before temperature scaling (red) and after it, the refinement (blue), by epoch.

    The first epochs are left out, since their NLL is far higher. The ring is the epoch with the
    lowest refinement. The number is how much the refinement rises from there to the end, on average
    over seeds, unless it is lowest at the end.

    Parameters
    ----------
    numbers : Refinement
        From `prepare_refinement`.
    ax : Axes, optional
        Where to draw; by default axes of a new figure.
    since : float
        Share of the first epochs that are left out, if three remain.

    Returns
    -------
    Axes
        The axes drawn on.

    Examples
    --------
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]] * 20)
    >>> numbers = prepare_refinement({1: logits, 2: logits, 3: 5 * logits}, [0, 1, 1] * 20)
    >>> plot_refinement(numbers).texts[0].get_text()
    '+0.00'
    """
    ax = _axes(ax)
    first = np.searchsorted(numbers.epoch, since * numbers.epoch[-1])
    late = slice(max(min(first, len(numbers.epoch) - 3), 0), None)
    x, nll = numbers.epoch[late], numbers.nll.mean(axis=0)[late]
    left = numbers.refinement.mean(axis=0)[late]
    ax.fill_between(x, left, nll, color=WRONG, alpha=0.3, linewidth=0)
    ax.plot(x, nll, color=WRONG, label="as trained")
    ax.plot(x, left, color=CORRECT, marker=".", label="refinement")
    ring = {"color": CORRECT, "markerfacecolor": "white", "zorder": 5, "clip_on": False}
    ax.plot(x[left.argmin()], left.min(), "o", **ring)
    lost = f"{numbers.since_best.mean():+.2f}".replace("-", "−")
    lost = "best at the end" if left.argmin() == len(left) - 1 else lost
    _note(ax, lost, 0.97, 0.03, ha="right", va="bottom", color=ink(CORRECT))
    ax.margins(y=0.25)
    ax.set(xlabel="Epoch", ylabel="NLL")
    ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    return ax


# --- d. gradient norms ---


def plot_gradient_norms(numbers: GradientNorms, ax: Axes | None = None) -> Axes:
    """Draw the gradient norms of samples against their Brier scores.

    Dots are cells of the grid: darker ones hold more samples, on a logarithmic scale. The red line
    is the median norm, and the red band holds four fifths of the samples with about the same Brier
    score. The dashed line is the law of the loss, if it has one. The number is `gradient_spread`,
    in per cent.

    Parameters
    ----------
    numbers : GradientNorms
        From `prepare_gradient_norms`.
    ax : Axes, optional
        Where to draw; by default axes of a new figure.

    Returns
    -------
    Axes
        The axes drawn on.

    Examples
    --------
    >>> brier = np.linspace(0.01, 2, 100)
    >>> ax = plot_gradient_norms(prepare_gradient_norms(brier, 3 * brier**2.5, exponent=2.5))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('Brier score', 'Gradient norm')
    """
    import seaborn as sns  # late: for its colours alone it takes a second to load

    ax = _axes(ax)
    x, y = numbers.brier_edges, numbers.norm_edges
    cells = np.argwhere(numbers.counts > 0)
    counts = numbers.counts[tuple(cells.T)]
    across, up = (
        ((edges[:-1] + edges[1:]) / 2)[i] for edges, i in zip((x, y), cells.T, strict=True)
    )
    shades = sns.color_palette("mako_r", as_cmap=True)
    # From a quarter on: a single sample is to be seen, too.
    some = LogNorm(0.25, max(counts.max(initial=0), 2))
    dots = {"s": 5, "marker": "o", "linewidth": 0, "rasterized": True}
    ax.scatter(across, up, c=counts, norm=some, cmap=shades, **dots)
    ax.fill_between(numbers.middle, numbers.low, numbers.high, color=WRONG, alpha=0.3, linewidth=0)
    ax.plot(numbers.middle, numbers.median, color=WRONG)
    room = 1.14
    if np.isfinite(numbers.spread):
        _note(ax, f"spread {100 * numbers.spread:.0f} %", fontsize=1.2 * _small())
    if numbers.exponent is not None:
        last = x[1:][numbers.counts.sum(1) > 0][-1]
        law_x = np.linspace(x[0], last, 200)
        law = numbers.scale * law_x**numbers.exponent
        inside = (law >= y[0]) & (law <= y[-1])
        ax.plot(law_x[inside], law[inside], color=_INK, linestyle="--", linewidth=1.3)
        _note(ax, f"dashed: ∝ BS$^{{{numbers.exponent:g}}}$", y=0.87)
        room = 1.28
    ax.set(xlim=(0, 2), ylim=(0, y[-1] * room), xticks=[0, 0.5, 1, 1.5, 2])  # notes stand above
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set(xlabel="Brier score", ylabel="Gradient norm")
    return ax


# --- e. risk and coverage ---


def plot_risk_coverage(table: dict[str, RiskCoverage], ax: Axes | None = None) -> Axes:
    """Draw the curves of several methods, each with its AURC (×1000) at the end.

    Parameters
    ----------
    table : dict
        ``{method: numbers of prepare_risk_coverage}``.
    ax : Axes, optional
        Where to draw; by default axes of a new figure.

    Returns
    -------
    Axes
        The axes drawn on.

    Examples
    --------
    >>> numbers = prepare_risk_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    >>> ax = plot_risk_coverage({"erm": numbers})
    >>> ax.texts[0].get_text()  # AURC × 1000
    'Plain training  145.8'
    """
    ax = _axes(ax)
    ends = {}
    for method, numbers in table.items():
        line = look(method)
        x, band = numbers.coverage, (numbers.low.clip(min=0), numbers.high)
        ax.fill_between(x, *band, color=line["color"], alpha=0.15, linewidth=0)
        ax.plot(x, numbers.mean, **line, markevery=0.12, markersize=5)
        ends[method] = (numbers.mean[-1], f"{line['label']}  {_text(1000 * numbers.aurc, 1)}")
    _from_zero(ax)
    ax.set(xlim=(0, 1), xlabel="Coverage (share accepted)", ylabel="Risk (error rate)")
    _scaled(ax.xaxis, 100)
    _scaled(ax.yaxis, 100)
    _label_ends(ax, ends)
    ax.text(1.04, 1.03, "AURC × 1000", transform=ax.transAxes, fontsize=_small(), color=_FAINT)
    return ax


# --- f. a metric of many methods ---


def forest_before_after(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    ax: Axes | None = None,
    marked: Sequence[str] = (),
) -> Axes:
    """Draw a number of each method as trained (ring) and after temperature scaling (dot).

    If the two are equal, the dot is inside its ring. Bars are intervals: wide and pale as trained,
    thin after temperature scaling. With fewer than three seeds there are none.

    Parameters
    ----------
    before : mapping of str to NamedTuple
        By method: fields ``estimate``, ``low``, ``high`` (natural units),
        ``seeds``, ``metric`` and ``to``, the method that is subtracted, or "" for none.
    after : mapping of str to NamedTuple
        The same after temperature scaling. Its methods come first, from top to bottom.
    ax : Axes, optional
        Where to draw; by default axes of a new figure.
    marked : sequence of str
        Methods that get a dagger behind their marks; explain it in a caption or a legend.

    Returns
    -------
    Axes
        With a line at 0 for differences.

    Raises
    ------
    ValueError
        If there are no rows.

    Examples
    --------
    >>> from collections import namedtuple
    >>> Row = namedtuple("Row", "estimate low high seeds metric to")
    >>> before = {"erm": Row(0.09, 0.08, 0.10, 5, "ece", "")}
    >>> after = {"erm": Row(0.02, 0.01, 0.03, 5, "ece", "")}
    >>> ax = forest_before_after(before, after)
    >>> ax.get_xlabel(), [round(float(x), 6) for line in ax.lines[-2:] for x in line.get_xdata()]
    ('ECE (%)', [9.0, 2.0])
    """
    methods = list(dict.fromkeys([*after, *before]))
    if not methods:
        raise ValueError("before, after: got no rows, expected one for each method")
    ax = _axes(ax)
    some = next(iter((before or after).values()))
    label, scale, _ = terms.metric_label(some.metric, unit=not some.to)
    if some.to:
        label += f", points more than {terms.inside(terms.label(some.to))}"
        ax.axvline(0, color=_FAINT, linewidth=0.9, zorder=0)
    for y, method in enumerate(methods):
        color, rows = look(method)["color"], [before.get(method), after.get(method)]
        for row, width, alpha in zip(rows, (4.5, 1.5), (0.22, 0.8), strict=True):
            if row and row.seeds >= 3:
                ends = [scale * row.low, scale * row.high]
                ax.plot(ends, [y, y], color=color, linewidth=width, alpha=alpha, zorder=1)
        start, end = (scale * row.estimate if row else np.nan for row in rows)
        if abs(end - start) > 0.5:  # of a point: more than the ring is wide
            ax.annotate("", (end, y), (start, y), arrowprops={"arrowstyle": "->", "color": _FAINT})
        ring = {"markerfacecolor": "none", "markeredgewidth": 1.2, "markersize": 9}
        ax.plot(start, y, "o", color=color, zorder=3, **ring)
        ax.plot(end, y, "o", color=color, zorder=4, markersize=4.5)
        if method in marked:
            right = np.nanmax([scale * x for row in rows if row for x in (row.estimate, row.high)])
            ax.annotate("†", (right, y), (6, 0), textcoords="offset points", va="center")
    ax.set_yticks(range(len(methods)), [look(method)["label"] for method in methods])
    ax.set(ylim=(len(methods) - 0.5, -0.5), xlabel=label)
    ax.grid(axis="y", visible=False)
    return ax
