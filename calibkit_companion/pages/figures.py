"""Figures of several comparisons, and figures as the papers draw them."""

import textwrap
from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from calibkit import plots, terms
from calibkit.curves import ConfidenceHistogram, Reliability


def histogram_of_zhu(numbers: ConfidenceHistogram, ax: Axes) -> Axes:
    """Draw a confidence histogram in the style of figures 5 and 9 of Zhu et al. (2022).

    `numbers` come from `plots.prepare_confidence_histogram`.
    """
    for density, color, label in (
        (numbers.correct, "tab:blue", "Correct"),
        (numbers.wrong, "tab:orange", "Misclassified"),
    ):
        style = {"fill": True, "alpha": 0.6, "edgecolor": "black", "linewidth": 0.5}
        ax.stairs(density.mean(0), numbers.edges, color=color, label=label, **style)
    ax.set(xlim=(0, 1), xlabel="Confidence", ylabel="Density")
    ax.grid(visible=False)
    ax.legend(loc="upper left", handlelength=1.2)
    return ax


def risk_of_zhu(curves: Mapping[str, tuple]) -> Axes:
    """Draw risk-coverage curves in the style of figures 2 (b) and 11 of Zhu et al. (2022).

    `curves` are ``{method: (coverage, risk)}``, two arrays of equal length each.
    """
    ax = plt.subplots(figsize=(4.4, 2.8))[1]
    for method, (coverage, risk) in curves.items():
        few = coverage > 0.02  # the error rate of very few answers is noise
        ax.plot(coverage[few], 100 * risk[few], **plots.look(method) | {"marker": ""})
    ax.set(xlabel="Coverage", ylabel="Risk (%)", xlim=(0, 1), ylim=(0, None))
    ax.legend(loc="upper left")
    return ax


def overfitting_of_zhu(table: Mapping[str, Mapping], since: float = 0.0) -> Figure:
    """Draw accuracy and AUROC by epoch in one panel, as figure 8 of Zhu et al. (2022).

    `table` is the argument of `plots.plot_overfitting_grid`. Epochs in the first part of the
    training, up to the share `since`, are left out; the paper shows all epochs.
    """
    fig, axes = plt.subplots(1, len(table), figsize=(3.4 * len(table), 2.8), squeeze=False)
    for ax, (title, curves) in zip(axes[0], table.items(), strict=True):
        for (name, numbers), color in zip(curves.items(), ("tab:blue", "tab:red"), strict=True):
            label, scale, _ = terms.metric_label(name, unit=False)
            late = numbers.epoch >= since * numbers.epoch[-1]
            ax.plot(numbers.epoch[late], scale * numbers.mean[late], color=color, label=label)
        ax.set(xlabel="Epoch", ylabel="%", title=terms.label(title))
        ax.legend()
    return fig


def bars_of_wang(numbers: Reliability, ax: Axes) -> Axes:
    """Draw a reliability diagram in the style of figure 2 of Wang et al. (2021).

    Bars end at the accuracy of a bin, and are darker for a bin with more samples. `numbers` come
    from `plots.prepare_reliability`.
    """
    share, left = numbers.share, numbers.edges[:-1]
    shade = plt.get_cmap("Blues")(0.15 + 0.85 * np.sqrt(share / share.max()))
    bars = {"width": np.diff(numbers.edges), "align": "edge", "edgecolor": "black"}
    ax.bar(left, np.nan_to_num(numbers.accuracy), color=shade, linewidth=0.6, **bars)
    ax.plot([0, 1], [0, 1], "--", color="red", linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="Confidence", ylabel="Accuracy")
    ax.text(0.05, 0.9, f"ECE {100 * numbers.ece.mean():.1f} %", transform=ax.transAxes)
    return ax


def gradients_of_lin(followed: Mapping[str, Mapping]) -> Figure:
    """Draw gradient norms by Brier score at four epochs, as figure 4 of Lin et al. (2025).

    All losses are dots in one panel for each epoch. `followed` has, by method, arrays of the record
    of a run: ``train_brier``, ``train_gradient_norm`` and ``train_epochs``.
    """
    epochs = next(iter(followed.values()))["train_epochs"]
    chosen = np.linspace(0, len(epochs) - 1, min(4, len(epochs))).astype(int)
    fig, axes = plt.subplots(1, len(chosen), figsize=(plots.WIDTH, 2.2), squeeze=False)
    for ax, i in zip(axes[0], chosen, strict=True):
        for method, arrays in followed.items():
            dots = {k: plots.look(method)[k] for k in ("color", "label")}
            x, y = arrays["train_brier"][i], arrays["train_gradient_norm"][i]
            ax.scatter(x, y, s=2, alpha=0.5, linewidth=0, **dots)
        ax.set(title=f"Epoch {epochs[i]}", xlabel="Brier score")
    axes[0, 0].set_ylabel("Gradient norm")
    handles = axes[0, 0].get_legend_handles_labels()
    fig.legend(*handles, loc="outside upper left", ncols=len(followed), markerscale=4)
    return fig


BETTER, WORSE, UNTOLD = (terms.COLORS[word] for word in ("better", "worse", "untold"))


def verdicts(
    panels: Mapping[str, Mapping],
    groups: Mapping[str, Iterable[str]] = {},
    published: Mapping[str, Mapping[str, float | Iterable[float]]] = {},
    marked: Mapping[str, Iterable[str]] = {},
) -> Figure:
    """Draw differences in panels side by side; the colour says whether a difference is better.

    Parameters
    ----------
    panels : mapping
        ``{title: rows by name}``, with rows of `results.Results.compare`. A name is a method or any
        text. Names are drawn in the order of their first appearance. A panel without a row for a
        name says so.
    groups : mapping, optional
        ``{heading: names}``, headings above groups of names.
    published : mapping, optional
        ``{title: printed differences by name}``, in natural units, drawn as hollow diamonds. For
        several networks, each difference is a stroke, and the diamond is their median.
    marked : mapping, optional
        ``{title: names}`` of the names that get a dagger, which the legend explains.

    Returns
    -------
    Figure
        As wide as a page, with a column for each panel. A single panel is only as wide as a phone.
        A difference of fewer than three seeds is an open dot.

    Raises
    ------
    ValueError
        There is no row to draw.
    """
    names = list(dict.fromkeys(name for rows in panels.values() for name in rows))
    if not names:
        raise ValueError("panels: got no rows, expected {title: rows}")
    lines: list[tuple[str, bool]] = []
    for heading, its in (groups or {"": names}).items():
        its = [name for name in its if name in names]
        lines += [(heading, True)] * bool(heading and its) + [(name, False) for name in its]
    size = (plots.WIDTH if len(panels) > 1 else 4.6, 1.2 + 0.19 * len(lines))
    fig, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False)
    at = {y: name for y, (name, heading) in enumerate(lines) if not heading}
    drawn: set[str] = set()
    for ax, (title, rows) in zip(axes[0], panels.items(), strict=True):
        for y, name in at.items():
            if name not in rows or np.isnan(rows[name].estimate):
                ax.text(0.5, y, "not run", transform=ax.get_yaxis_transform(), ha="center",
                        va="center", color="0.45",
                        bbox={"color": "w", "pad": 1}, zorder=1)  # fmt: skip
                continue
            drawn.add(_verdict(ax, y, rows[name]))
            scale = terms.metric_label(rows[name].metric)[1]
            if name in marked.get(title, ()):
                end = scale * np.nanmax(rows[name].interval)
                ax.text(end, y - 0.1, " †", va="center")
                drawn.add(DAGGER)
            if name in published.get(title, {}):
                its = scale * np.atleast_1d(published[title][name])
                if len(its) > 1:
                    ax.plot(its, [y] * len(its), "|", color="0.45", ms=7, mew=0.8, zorder=1.5)
                ax.plot(np.median(its), y, **_PRINTED)
                drawn.add(_PRINTED["label"])
        _axis(ax, title, next(iter(rows.values()), None), len(panels))
    ax = axes[0, 0]
    ax.set_yticks(list(at), [terms.label(name) for name in at.values()])
    for y, (heading, _) in enumerate(lines):
        if y not in at:
            ax.text(0.02, y, heading, transform=ax.get_yaxis_transform(), va="center",
                    color="0.4", style="italic")  # fmt: skip
    ax.set_ylim(len(lines) - 0.4, -0.6)
    key(fig, [h for h in _KEY if h.get_label() in drawn])
    return fig


def key(fig: Figure, handles: Iterable[Line2D]) -> None:
    """Draw a legend above the panels, in as many rows as its entries need."""
    handles = list(handles)
    words = sum(len(h.get_label()) + 5 for h in handles)
    rows = -(-words // int(15 * fig.get_figwidth()))  # letters of 8 points
    fig.legend(handles=handles, loc="outside upper right", ncols=-(-len(handles) // rows),
               handletextpad=0.2, columnspacing=1.2)  # fmt: skip


_TOLD = {"better": BETTER, "worse": WORSE, "different": "0.2", "no clear difference": UNTOLD}
_KEY = [Line2D([], [], marker="o", ls="", color=c, label=word) for word, c in _TOLD.items()]
_KEY.append(Line2D([], [], marker="o", ls="", color="0.5", mfc="white", label="one or two runs"))
_PRINTED = {"marker": "D", "ls": "", "color": "0.2", "mfc": "none", "ms": 5, "label": "printed"}
_KEY.append(Line2D([], [], **_PRINTED))
DAGGER = "training accuracy over two points lower"
MARKED = Line2D([], [], ls="", marker="$†$", color="0.15", label=DAGGER)
_KEY.append(MARKED)


def _verdict(ax: Axes, y: float, row) -> str:
    """Draw a row, and return its entry in the legend."""
    _, scale, more_is_better = terms.metric_label(row.metric)
    word = "no clear difference"
    if row.outcome in ("higher", "lower"):
        word = "better" if more_is_better == (row.outcome == "higher") else "worse"
        word = "different" if more_is_better is None else word
    few = row.seeds < 3
    color = "0.5" if few else _TOLD[word]
    if not few:
        ax.plot([scale * row.low, scale * row.high], [y, y], color=color, lw=2.2, alpha=0.6)
    ax.plot(scale * row.estimate, y, "o", color=color, mfc="white" if few else color, ms=5.5)
    return "one or two runs" if few else word


def _axis(ax: Axes, title: str, row, columns: int) -> None:
    ax.axvline(0, color="0.3", lw=0.9, zorder=0)
    ax.grid(axis="y", visible=False)
    ax.set_title(_wrapped(title, columns))
    if row is not None:
        label, scale, more_is_better = terms.metric_label(row.metric, unit=False)
        better = {True: ", better →", False: ", ← better", None: ""}[more_is_better]
        unit = {100: "points", 1000: "thousandths"}.get(scale, "difference")
        ax.set_xlabel(f"{unit}{better}")
        # "+0.025" takes more room than "+1".
        ax.locator_params(axis="x", nbins=max(3, min(8, (15 if scale > 1 else 10) // columns)))
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:+.3g}".replace("-", "−") if x else "0")


def _wrapped(title: str, columns: int) -> str:
    """Break a title into lines that fit above one of several panels (`columns`)."""
    return "\n".join(textwrap.fill(part, 88 // columns) for part in title.split("\n"))


def trade_off(panels: Mapping[str, Mapping]) -> Figure:
    """Draw each method by its difference from plain training in ECE and in AUROC.

    Parameters
    ----------
    panels : mapping
        ``{title: rows by (method, metric)}``, rows of `results.Results.compare` for the metrics
        "ece" and "auroc".

    Returns
    -------
    Figure
        As wide as a page, with a column for each panel. A method is a dot, with its two intervals
        as a cross.
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(plots.WIDTH, 3.0), squeeze=False)
    key = {}
    for ax, (title, rows) in zip(axes[0], panels.items(), strict=True):
        for method in dict.fromkeys(method for method, _ in rows):
            across, up = (100 * np.array(rows[method, m].interval) for m in ("ece", "auroc"))
            line = plots.look(method) | {"linestyle": "", "markersize": 6, "elinewidth": 1}
            if method == "ts":  # black, like plain training, which is the origin and not drawn
                line |= {"color": "0.5", "marker": "o"}
            (x, left, right), (y, low, high) = across, up
            bars = {"xerr": [[x - left], [right - x]], "yerr": [[y - low], [high - y]]}
            key[line["label"]] = ax.errorbar(x, y, **bars, **line)
        ax.axhline(0, color="0.3", lw=0.9, zorder=0)
        ax.axvline(0, color="0.3", lw=0.9, zorder=0)
        ax.set_title(_wrapped(title, len(panels)))
        ax.set(xlabel="ECE, points, ← better", ylabel="AUROC, points, better →")
        ax.margins(y=0.4)  # room for the words above and below
        for words, at in (("better at both", "top"), ("lower ECE,\nlower AUROC", "bottom")):
            ax.text(0.03, at == "top", words, transform=ax.transAxes, color="0.4", style="italic",
                    va=at)  # fmt: skip
    fig.legend(key.values(), key, loc="outside upper right", ncols=6, columnspacing=1.2)
    return fig


def bars(panels: Mapping[str, Mapping], published: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw levels as bars with their numbers: ours dark, those that a paper prints pale.

    Parameters
    ----------
    panels : mapping
        ``{title: rows by method}``, rows of `results.Results.mean`.
    published : mapping
        ``{title: printed levels by method}``, in natural units.

    Returns
    -------
    Figure
        As wide as a page, with a column for each panel.
    """
    methods = list(dict.fromkeys(m for rows in panels.values() for m in rows))
    size = (plots.WIDTH, 0.8 + 0.33 * len(methods))
    fig, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False)
    for ax, (title, rows) in zip(axes[0], panels.items(), strict=True):
        label, scale, _ = terms.metric_label(next(iter(rows.values())).metric)
        ours = {m: rows[m].estimate for m in methods if m in rows}
        both = (("printed", published.get(title, {}), -0.2), ("here", ours, 0.2))
        shown = [scale * v for _, its, _ in both for m, v in its.items() if m in methods]
        # Bars of errors start at zero; bars of accuracies of 80 to 90 % would then look alike.
        low = 0 if min(shown) < 50 else min(shown) - 0.5 * (max(shown) - min(shown))
        for (name, its, shift), color in zip(both, ("0.8", "tab:blue"), strict=True):
            at = [i + shift for i, m in enumerate(methods) if m in its]
            values = np.array([scale * its[m] for m in methods if m in its])
            bar = ax.barh(at, values - low, 0.38, low, color=color, edgecolor="none", label=name)
            digits = 1 if scale > 1 else 3
            ax.bar_label(bar, [f"{v:.{digits}f}" for v in values], padding=2, fontsize=7)
        ax.set(title=title, xlabel=label, xlim=(low, max(shown) + 0.22 * (max(shown) - low)))
        ax.grid(visible=False)
    axes[0, 0].set_yticks(range(len(methods)), [terms.label(m) for m in methods])
    axes[0, 0].set_ylim(len(methods) - 0.5, -0.5)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return fig


def headline(fig: Figure, title: str) -> None:
    """Write a title above all panels and below the legend.

    It may name the setting that a page shows, and the reason for this setting.
    """
    apart = "\n" * bool(fig.legends)
    fig.suptitle(apart + title, x=0.01, ha="left", size="large", linespacing=1.4)
