"""Drawings of the book that `calibkit.plots` has no use for: of results, and as papers draw."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibkit import plots, terms
from calibkit.companion.results import Results

FAINT = "0.55"


# --- before and after one temperature -------------------------------------------------------------


def before_and_after(
    runs: Results, methods: Iterable[str], metric: str, ax: Axes | None = None, minus: str = ""
) -> Axes:
    """A number of each method as trained (ring) and after one temperature (dot).

    Where the two coincide, the dot stands in its ring. Bars are 95 % intervals, wide and pale as
    trained, thin after the temperature; fewer than three seeds have none.

    Parameters
    ----------
    runs : one setting
    methods : from top to bottom
    metric : a key of `terms.METRICS`
    ax : by default new axes
    minus : a method, from which all are then differences: as it was trained

    Returns
    -------
    Axes
        With a line at 0 for differences.
    """
    ax = plt.subplots()[1] if ax is None else ax
    label, scale, _ = terms.metric_label(metric, unit=not minus)
    once = {"metric": metric, "recalibration": "ts_nll"}
    if minus:
        trained = runs.compare(methods, minus, metric)
        scaled = runs.compare(methods, minus, against={"recalibration": "none"}, **once)
        label += f", points more than {terms.label(minus)}"
        ax.axvline(0, color=FAINT, linewidth=0.9, zorder=0)
    else:
        trained, scaled = runs.mean(methods, metric), runs.mean(methods, **once)
    found = list(dict.fromkeys([*scaled, *trained]))
    for y, method in enumerate(found):
        color = plots.look(method)["color"]
        for row, width, alpha in ((trained[method], 4.5, 0.22), (scaled[method], 1.5, 0.8)):
            if row.seeds >= 3:
                ends = [scale * row.low, scale * row.high]
                ax.plot(ends, [y, y], color=color, linewidth=width, alpha=alpha, zorder=1)
        start, end = (scale * rows[method].estimate for rows in (trained, scaled))
        if abs(end - start) > 0.5:  # of a point: more than the ring is wide
            ax.annotate("", (end, y), (start, y), arrowprops={"arrowstyle": "->", "color": FAINT})
        ring = {"markerfacecolor": "none", "markeredgewidth": 1.2, "markersize": 9}
        ax.plot(start, y, "o", color=color, zorder=3, **ring)
        ax.plot(end, y, "o", color=color, zorder=4, markersize=4.5)
    ax.set_yticks(range(len(found)), [terms.label(m) for m in found])
    ax.set(ylim=(len(found) - 0.5, -0.5), xlabel=label)
    ax.grid(axis="y", visible=False)
    return ax


# --- as the papers draw them ----------------------------------------------------------------------


def histogram_of_zhu(numbers: dict, ax: Axes) -> Axes:
    """Figures 5 and 9 of Zhu et al. (2022); numbers of `plots.prepare_confidence_histogram`."""
    for name, color, label in (
        ("correct", "tab:blue", "Correct"),
        ("wrong", "tab:orange", "Misclassified"),
    ):
        style = {"fill": True, "alpha": 0.6, "edgecolor": "black", "linewidth": 0.5}
        ax.stairs(numbers[name].mean(0), numbers["edges"], color=color, label=label, **style)
    ax.set(xlim=(0, 1), xlabel="Confidence", ylabel="Density")
    ax.grid(visible=False)
    ax.legend(loc="upper left", handlelength=1.2)
    return ax


def overfitting_of_zhu(table: Mapping[str, Mapping], since: float = 0.0) -> Figure:
    """Figure 8 of Zhu et al. (2022): accuracy and AUROC in one panel.

    `table` is that of `plots.plot_overfitting_grid`, and so is `since`, which the paper's figure
    does without: it has all epochs.
    """
    fig, axes = plt.subplots(1, len(table), figsize=(4.0 * len(table), 2.8), squeeze=False)
    for ax, curves in zip(axes[0], table.values(), strict=True):
        for (name, numbers), color in zip(curves.items(), ("tab:blue", "tab:red"), strict=True):
            label, scale, _ = terms.metric_label(name, unit=False)
            ax.plot(numbers["epoch"], scale * numbers["mean"], color=color, label=label)
        ax.set(xlabel="Epoch", ylabel="%")
        ax.legend()
    return fig


def bars_of_wang(numbers: dict, ax: Axes) -> Axes:
    """Figure 2 of Wang et al. (2021): bars up to the accuracy, darker where more samples are.

    `numbers` are those of `plots.prepare_reliability`.
    """
    share, left = numbers["share"], numbers["edges"][:-1]
    shade = plt.get_cmap("Blues")(0.15 + 0.85 * np.sqrt(share / share.max()))
    bars = {"width": np.diff(numbers["edges"]), "align": "edge", "edgecolor": "black"}
    ax.bar(left, np.nan_to_num(numbers["accuracy"]), color=shade, linewidth=0.6, **bars)
    ax.plot([0, 1], [0, 1], "--", color="red", linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="Confidence", ylabel="Accuracy")
    ax.text(0.05, 0.9, f"ECE {100 * numbers['ece'].mean():.1f} %", transform=ax.transAxes)
    return ax


def gradients_of_lin(followed: Mapping[str, Mapping]) -> Figure:
    """Figure 4 of Lin et al. (2025): all losses as dots in one panel, at four epochs.

    `followed` are arrays of a run by method: ``train_brier``, ``train_gradient_norm`` and
    ``train_epochs``.
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
