"""Drawings of the book's four figures, as we would draw them and as a paper does.

What a chapter draws once stands in its cells; here is what several cells or pages share. Each
function takes results or predictions and returns axes or a figure, and is called within
``plots.style(8)``.
"""

from collections.abc import Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from calibkit import plots, stats, terms
from calibkit.companion.results import Predictions, Results
from calibkit.curves import prepare_confidence_histogram, prepare_overfitting, prepare_reliability

INK, FAINT = "0.15", "0.55"


def check_look(look: str) -> None:
    """Refuse a look that is neither ours nor the paper's."""
    terms.choose("look", look, ("ours", "paper"))


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


# --- confidence histograms ------------------------------------------------------------------------


def histograms(
    predictions: Mapping,
    threshold: float = 0.95,
    bins: int = 20,
    axis: str = "linear",
    look: str = "ours",
    columns: int = 3,
) -> Figure:
    """Confidence of right and of wrong answers, a panel for each network or moment.

    Parameters
    ----------
    predictions : `Predictions` by method, or by (method, moment)
    threshold : errors above it are shaded and counted
    bins : of equal width
    axis : "linear", or "root", on which few errors can be seen, too
    look : "ours", or "paper", as figures 5 and 9 of Zhu et al. are drawn
    columns : panels in a row, at most

    Returns
    -------
    Figure
        Panels with common axes.
    """
    check_look(look)
    terms.choose("axis", axis, ("linear", "root"))
    columns = min(columns, len(predictions))
    rows = -(-len(predictions) // columns)
    size = (plots.WIDTH, 2.9 if rows == 1 else 1.7 * rows)
    fig, axes = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    for ax, (title, its) in zip(axes.flat, predictions.items(), strict=False):
        confidence, correct = its.confident()
        numbers = prepare_confidence_histogram(confidence, correct, bins)
        method, *moment = title if isinstance(title, tuple) else (title,)
        words = ", ".join([terms.label(method), *moment])
        ax.set_title(words, color=plots.ink(plots.look(method)["color"]))
        if look == "paper":
            _as_in_zhu(ax, numbers)
        else:
            _right_and_wrong(ax, numbers, threshold)
            sure = np.mean(confidence[~correct] > threshold) if (~correct).any() else np.nan
            _counted(ax, sure, numbers["auroc"][0], threshold, small=rows > 1)
        if axis == "root":
            root = (lambda y: np.sign(y) * np.sqrt(np.abs(y)), lambda y: np.sign(y) * y**2)
            ax.set_yscale("function", functions=root)
            ax.set_yticks([0, 1, 5, 10, 20])
        ax.set(xlim=(0, 1), xlabel="Confidence", xticks=[0, 0.5, 1])
        ax.label_outer()
    for ax in axes.flat[len(predictions) :]:
        ax.set_axis_off()
    fig.supylabel("Density" + " (square-root axis)" * (axis == "root"), fontsize="medium")
    axes[0, 0].legend(loc="upper left", handlelength=1.2)
    return fig


def _right_and_wrong(ax: Axes, numbers: dict, threshold: float) -> None:
    """Two shapes of area one; the errors above the threshold in full colour."""
    edges, right, wrong = (numbers[k] for k in ("edges", "correct", "wrong"))
    ax.stairs(right[0], edges, fill=True, color=plots.CORRECT, alpha=0.35, label="right")
    ax.stairs(wrong[0], edges, fill=True, color=plots.WRONG, alpha=0.35)
    sure = ax.stairs(wrong[0], edges, fill=True, color=plots.WRONG, label="wrong")
    sure.set_clip_path(Rectangle((threshold, 0), 1, 1e3, transform=ax.transData))
    for values, color in ((right[0], plots.CORRECT), (wrong[0], plots.WRONG)):
        ax.stairs(values, edges, color=color, linewidth=1)
    ax.axvline(threshold, color=INK, linewidth=0.9, linestyle=":")


def _counted(ax: Axes, sure: float, auroc: float, threshold: float, small: bool) -> None:
    """In words: the share of errors above the threshold, and the AUROC."""
    red = {"color": plots.ink(plots.WRONG), "transform": ax.transAxes, "ha": "right"}
    ax.text(0.9, 0.66 if small else 0.5, f"{100 * sure:.0f} %", fontsize=17, **red)
    if not small:
        words = f"of the errors lie\nabove {100 * threshold:g} %"
        ax.text(0.9, 0.48, words, va="top", **red)
    ax.text(0.9, 0.92, f"AUROC {100 * auroc:.1f} %", color=INK, transform=ax.transAxes, ha="right")


def _as_in_zhu(ax: Axes, numbers: dict) -> None:
    for name, color, label in (
        ("correct", "tab:blue", "Correct"),
        ("wrong", "tab:orange", "Misclassified"),
    ):
        style = {"fill": True, "alpha": 0.6, "edgecolor": "black", "linewidth": 0.5}
        ax.stairs(numbers[name][0], numbers["edges"], color=color, label=label, **style)
    ax.grid(visible=False)


# --- reliability ----------------------------------------------------------------------------------


def reliability(pairs: Mapping[str, Sequence[Predictions]], look: str = "ours", bins: int = 15):
    """Reliability diagrams of a few networks, before and after one temperature.

    Parameters
    ----------
    pairs : by method, its predictions as trained and after the temperature
    look : "ours", or "paper", as figure 2 of Wang et al. is drawn: shaded by the share of samples
    bins : of equal width

    Returns
    -------
    Figure
        Before above, after below; a column for each network.
    """
    check_look(look)
    draw = plots.plot_reliability if look == "ours" else _as_in_wang
    size = (plots.WIDTH, 4.7)
    fig, axes = plt.subplots(2, len(pairs), figsize=size, sharex=True, sharey=True, squeeze=False)
    for column, (method, pair) in zip(axes.T, pairs.items(), strict=True):
        column[0].set_title(terms.label(method), color=plots.ink(plots.look(method)["color"]))
        for ax, its in zip(column, pair, strict=True):
            draw(prepare_reliability(*its.confident(), bins), ax)
            ax.label_outer()
    for ax, when in zip(axes[:, 0], ("As trained", "After one temperature"), strict=True):
        ax.set_ylabel(f"{when}\n\nAccuracy")
    return fig


def _as_in_wang(numbers: dict, ax: Axes) -> Axes:
    """Bars as high as the accuracy, the darker the more samples they stand for."""
    share, left = numbers["share"], numbers["edges"][:-1]
    shade = plt.get_cmap("Blues")(0.15 + 0.85 * np.sqrt(share / share.max()))
    height = np.nan_to_num(numbers["accuracy"])
    bars = {"width": np.diff(numbers["edges"]), "align": "edge", "edgecolor": "black"}
    ax.bar(left, height, color=shade, linewidth=0.6, **bars)
    ax.plot([0, 1], [0, 1], "--", color="red", linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="Confidence", ylabel="Accuracy")
    ax.text(0.05, 0.9, f"ECE {100 * numbers['ece'][0]:.1f} %", transform=ax.transAxes)
    return ax


# --- reliable overfitting -------------------------------------------------------------------------


def overfitting(histories, names: Sequence[str] = ("accuracy", "auroc"), look: str = "ours"):
    """Plain training through the epochs: the accuracy, and below it the AUROC with its fall.

    Parameters
    ----------
    histories : DataFrame with ``seed``, ``epoch`` and the metrics, of one method
    names : metrics, one above the other; the fall of the last is written down
    look : "ours", or "paper", as figure 8 of Zhu et al.: both curves in one panel

    Returns
    -------
    Figure
        The later part of training; single seeds thin, their mean thick.
    """
    check_look(look)
    by_seed = [its for _, its in histories.groupby("seed")]
    curves = {name: prepare_overfitting(by_seed, name) for name in names}
    if look == "paper":
        return _as_in_zhu_8(curves)
    fig, axes = plt.subplots(len(names), 1, figsize=(plots.WIDTH, 1.9 * len(names)), sharex=True)
    best = curves[names[-1]]["best_epoch"]
    for ax, (name, numbers) in zip(np.atleast_1d(axes), curves.items(), strict=True):
        curve(numbers, ax)
        ax.axvline(best, color=FAINT, linestyle=":", linewidth=1)
        ax.set_ylabel(terms.METRICS[name][0] + " (%)" * (terms.METRICS[name][1] == 100))
    _fall(ax, curves[names[-1]])
    ax.set_xlabel("Epoch")
    return fig


def curve(numbers: dict, ax: Axes, method: str = "erm", since: float = 0.45) -> Axes:
    """One metric of one method: seeds thin, mean thick; the axes fit what comes after `since`."""
    scale = terms.metric_label(numbers["metric"])[1]
    color, x = plots.look(method)["color"], numbers["epoch"]
    for seed in numbers["values"]:
        ax.plot(x, scale * seed, color=color, linewidth=0.6, alpha=0.35)
    ax.plot(x, scale * numbers["mean"], color=color, linewidth=1.8, label=terms.label(method))
    late = scale * numbers["values"][:, x >= since * x[-1]]
    room = 0.2 * np.ptp(late) or 1.0
    start = max(x[0], (since - 0.1) * x[-1])
    ax.set(xlim=(start, x[-1]), ylim=(late.min() - room, late.max() + room))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def _fall(ax: Axes, numbers: dict) -> None:
    """An arrow from the best epoch's level to the last one's, with the change in points."""
    scale, last = terms.metric_label(numbers["metric"])[1], numbers["epoch"][-1]
    best, end = scale * numbers["best"], scale * numbers["final"]
    ax.plot(numbers["best_epoch"], best, "o", color=INK, markerfacecolor="white", zorder=5)
    ax.plot([numbers["best_epoch"], last], [best, best], color=FAINT, linewidth=0.8)
    if numbers["best_epoch"] == last:
        return
    x = last - 0.02 * (last - numbers["epoch"][0])
    ax.annotate("", (x, end), (x, best), arrowprops={"arrowstyle": "->", "color": plots.WRONG})
    change = stats.seed_interval(numbers["drop"])
    words = f"{change.format(scale, 1, ' points', True)}\nsince epoch {numbers['best_epoch']}"
    where = {"xytext": (0, -10), "textcoords": "offset points", "ha": "right", "va": "top"}
    where["bbox"] = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1}
    ax.annotate(words, (x, min(best, end)), color=plots.ink(plots.WRONG), **where)


def _as_in_zhu_8(curves: Mapping[str, dict]) -> Figure:
    fig, ax = plt.subplots(figsize=(3.6, 2.8))
    for (name, numbers), color in zip(curves.items(), ("tab:blue", "tab:red"), strict=False):
        ax.plot(numbers["epoch"], 100 * numbers["mean"], color=color, label=terms.METRICS[name][0])
    ax.set(xlabel="Epoch", ylabel="%")
    ax.legend()
    return fig


# --- gradient norms -------------------------------------------------------------------------------


def gradients(
    clouds: Mapping[str, dict], followed: Mapping[str, Mapping], moment: int, look: str = "ours"
) -> Figure:
    """Gradient norm against Brier score of training samples, a panel for each loss.

    Parameters
    ----------
    clouds : numbers of `plots.prepare_gradient_norms` by method
    followed : arrays of a run by method: ``train_brier``, ``train_gradient_norm`` and
        ``train_epochs``
    moment : which epoch
    look : "ours", or "paper", as figure 4 of Lin et al.: all losses as dots in one panel an epoch

    Returns
    -------
    Figure
        In ours, the spread of each loss in large type.
    """
    check_look(look)
    if look == "paper":
        return _as_in_lin(followed)
    size = (plots.WIDTH, 2.4)
    fig, axes = plt.subplots(1, len(clouds), figsize=size, sharex=True, squeeze=False)
    for ax, (method, numbers) in zip(axes[0], clouds.items(), strict=True):
        plots.plot_gradient_norms(numbers, ax)
        for text in list(ax.texts):
            text.remove()
        ax.set(ylabel="", xticks=[0, 1, 2], ylim=(0, 1.4 * numbers["norm_edges"][-1]))
        ax.set_title(terms.label(method), color=plots.ink(plots.look(method)["color"]))
        inside = {"transform": ax.transAxes, "va": "top"}
        if np.isfinite(numbers["spread"]):
            ax.text(0.05, 0.98, f"{numbers['spread']:.1f}×", fontsize=17, color=INK, **inside)
            ax.text(0.05, 0.82, "spread", color=FAINT, **inside)
    epoch = next(iter(followed.values()))["train_epochs"][moment]
    axes[0, 0].set_ylabel(f"Gradient norm, epoch {epoch}")
    return fig


def _as_in_lin(followed: Mapping[str, Mapping]) -> Figure:
    epochs = next(iter(followed.values()))["train_epochs"]
    chosen = np.linspace(0, len(epochs) - 1, min(4, len(epochs))).astype(int)
    fig, axes = plt.subplots(1, len(chosen), figsize=(plots.WIDTH, 2.2), squeeze=False)
    for ax, i in zip(axes[0], chosen, strict=True):
        for method, arrays in followed.items():
            x, y = arrays["train_brier"][i], arrays["train_gradient_norm"][i]
            ax.scatter(x, y, s=2, alpha=0.5, linewidth=0, **_dots(method))
        ax.set(title=f"Epoch {epochs[i]}", xlabel="Brier score")
    axes[0, 0].set_ylabel("Gradient norm")
    handles = axes[0, 0].get_legend_handles_labels()
    fig.legend(*handles, loc="outside upper left", ncols=len(followed), markerscale=4)
    return fig


def _dots(method: str) -> dict:
    return {k: plots.look(method)[k] for k in ("color", "label")}
