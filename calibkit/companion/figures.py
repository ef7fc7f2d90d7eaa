"""Figures as the papers draw them, for comparison with those of `calibkit.plots`."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibkit import plots, terms
from calibkit.curves import ConfidenceHistogram, Reliability


def histogram_of_zhu(numbers: ConfidenceHistogram, ax: Axes) -> Axes:
    """Figures 5 and 9 of Zhu et al. (2022); numbers of `plots.prepare_confidence_histogram`."""
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


def overfitting_of_zhu(table: Mapping[str, Mapping], since: float = 0.0) -> Figure:
    """Figure 8 of Zhu et al. (2022): accuracy and AUROC in one panel.

    `table` is that of `plots.plot_overfitting_grid`, and so is `since`, which the paper's figure
    does without: it has all epochs.
    """
    fig, axes = plt.subplots(1, len(table), figsize=(4.0 * len(table), 2.8), squeeze=False)
    for ax, curves in zip(axes[0], table.values(), strict=True):
        for (name, numbers), color in zip(curves.items(), ("tab:blue", "tab:red"), strict=True):
            label, scale, _ = terms.metric_label(name, unit=False)
            ax.plot(numbers.epoch, scale * numbers.mean, color=color, label=label)
        ax.set(xlabel="Epoch", ylabel="%")
        ax.legend()
    return fig


def bars_of_wang(numbers: Reliability, ax: Axes) -> Axes:
    """Figure 2 of Wang et al. (2021): bars up to the accuracy, darker where more samples are.

    `numbers` are those of `plots.prepare_reliability`.
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
