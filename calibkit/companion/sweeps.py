"""Coefficients that a paper tries: which have runs, which one it would choose, on how few data."""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

from calibkit import metrics, plots, posthoc, stats, terms
from calibkit.companion import chapter, notebook, plan, published
from calibkit.training import store


def coefficient(method: str) -> float:
    """The number that a sweep varies.

    >>> coefficient("focal(gamma=5)"), coefficient("label_smoothing")
    (5.0, 0.05)
    """
    options = dict(plan.method(method).options)
    names = ("epsilon", "strength", "alpha", "gamma")
    return next(options[name] for name in names if name in options)


def family(page: notebook.Page, base: str) -> list[str]:
    """A method at each coefficient that has runs, in increasing order."""
    return sorted((m for m in page.methods if terms.parts(m)[0] == base), key=coefficient)


def by_size(methods: Sequence[str], selection: plan.Selection) -> dict[int, notebook.Page]:
    """Runs of some methods at each training-set size of an edition that has records of them."""
    edition = plan.EDITIONS[selection.edition]
    seeds = min(selection.seeds or edition.sweep_seeds, edition.sweep_seeds)
    pages = {
        size: notebook.page(methods, selection, seeds=seeds, train_size=size)
        for size in edition.sizes
    }
    return {size: page for size, page in pages.items() if page.records}


def errors(page: notebook.Page, base: str) -> dict[float, np.ndarray]:
    """ECE at the end of training by coefficient of a method, an array over seeds each."""
    return {
        coefficient(m): np.array([r.history["ece"][-1] for r in page.records[m]])
        for m in family(page, base)
    }


def lowest(page: notebook.Page, base: str) -> float:
    """The coefficient of lowest mean ECE."""
    return coefficient(choose(page, page.table(), base))


def plot_sizes(pages: dict[int, notebook.Page], base: str, ax) -> None:
    """Draw ECE over the coefficient, a shade for each training-set size, its lowest point filled.

    Parameters
    ----------
    pages : as `by_size` gives them
    """
    import seaborn as sns

    shades = sns.color_palette("YlGnBu", len(pages) + 1)[1:]
    for (size, page), color in zip(pages.items(), shades, strict=True):
        found = errors(page, base)
        middle, low, high = 100 * np.array([stats.seed_interval(e) for e in found.values()]).T
        ax.vlines([*found], low, high, color=color, alpha=0.4, lw=2)
        ax.plot([*found], middle, "o-", color=color, ms=5, mfc="white", label=f"{size:,}")
        best = lowest(page, base)
        ax.plot(best, 100 * found[best].mean(), "o", color=color, ms=9)


def choose(page: notebook.Page, table: pd.DataFrame, base: str) -> str:
    """The coefficient of lowest mean ECE on the test set, as the overconf paper chooses it."""
    return min(family(page, base), key=lambda m: table.loc[m, "ece"].mean())


def at(table: pd.DataFrame, chosen: dict[str, str]) -> pd.DataFrame:
    """The rows of ERM and of the chosen coefficients, each under another name.

    Parameters
    ----------
    chosen : {name: method}
    """
    names = {method: name for name, method in chosen.items()}
    shown = table.index.isin(["erm", *names], level=0)
    return table[shown].rename(index=names, level=0)


def printed(exhibit: str, dataset: str) -> dict[str, str]:
    """{plain name: name at the coefficient that the paper has in an exhibit}."""
    cells = published.cells(exhibit=exhibit)
    return {terms.parts(m)[0]: m for m in cells[cells.dataset == dataset].method.unique()}


def refit(record: store.Record, size: int, rng: np.random.Generator) -> tuple[float, float]:
    """ECE on the test set after temperature scaling and after histogram binning.

    Both are fitted on `size` validation samples drawn at random.
    """
    held = record.arrays["validation_logits"]
    some = rng.choice(len(held), size, replace=False)
    pair = held[some], record.arrays["validation_labels"].astype(np.int64)[some]
    test, truth = record.arrays["test_logits"], record.arrays["test_labels"].astype(np.int64)
    with warnings.catch_warnings():  # a bin without samples is no surprise here
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        scaling = posthoc.FixedTemperature(posthoc.optimal_temperature(*pair, "ece")[0])
        binning = posthoc.HistogramBinning().fit(*pair)
        scaled, binned = (metrics.ece(how.predict_proba(test), truth) for how in (scaling, binning))
    return scaled, binned


def trend(
    page: notebook.Page, table: pd.DataFrame, base: str, metric: str = "ece_optimal"
) -> stats.Interval:
    """Rank correlation of a coefficient with a metric at the end, over the seeds that all have."""
    from scipy.stats import spearmanr  # here, because it takes a second to import

    its = family(page, base)
    rows = table[metric].unstack(level=0)[its].dropna().to_numpy()
    correlations = [spearmanr(range(len(its)), row).statistic for row in rows]
    return stats.seed_interval(correlations or [np.nan]).within(-1, 1)


def plot_optimal(pages: list[notebook.Page], base: str, sign: str, palette: str):
    """Draw the optimal ECE by epoch, a shade for each coefficient and ERM in black."""
    import seaborn as sns

    fig, parts = chapter.blocks(pages, size=(6.2, 3.2))
    for page, axes in parts:
        its = family(page, base)
        shades = sns.color_palette(palette, len(its) + 2)[2:]
        for m, color in zip(["erm", *its], ["0", *shades], strict=True):
            epoch = page.records[m][0].history["epoch"]
            mean = np.mean([r.history["ece_optimal"] for r in page.records[m]], axis=0)
            label = f"{sign} = {coefficient(m):g}" if m != "erm" else "ERM"
            axes[0, 0].plot(epoch, 100 * mean, color=color, label=label)
        axes[0, 0].set(xlabel="Epoch", ylabel="Optimal ECE (%)", ylim=(0, None))
        axes[0, 0].legend(ncols=2, fontsize=9)
    return fig


def learned_order(record: store.Record) -> np.ndarray:
    """Learned epoch of the tracked training samples, the ones never learned last."""
    epoch = record.arrays["train_learned_epoch"].astype(float)
    return np.where(epoch > 0, epoch, np.inf)


def memory(record: store.Record) -> float:
    """Rank correlation of learned epoch and largest logit of training samples."""
    from scipy.stats import spearmanr

    return float(spearmanr(learned_order(record), record.arrays["train_max_logit"]).statistic)


def plot_memory(record: store.Record, ax) -> None:
    """Draw the largest logits of training samples, by thirds of the order of learning."""
    order = np.argsort(learned_order(record), kind="stable")
    thirds = np.array_split(record.arrays["train_max_logit"][order], 3)
    edges = np.histogram_bin_edges(np.concatenate(thirds), 25)
    colors = ("#4477AA", "#CCBB44", "#EE6677")
    for its, c, name in zip(thirds, colors, ("early", "middle", "late"), strict=True):
        ax.hist(its, edges, histtype="stepfilled", fc=(c, 0.25), ec=c, label=name)


def plot_inverse(page: notebook.Page, table: pd.DataFrame, axes) -> None:
    """Draw figure 6 of the overconf paper: from a strong focal to a strong inverse focal loss.

    Parameters
    ----------
    axes : array (2, 3): the losses first, then a metric each
    """
    focal = [m for m in reversed(family(page, "focal")) if coefficient(m) <= 3]
    row = [*focal, "erm", *family(page, "inverse_focal")]
    p = np.linspace(1e-3, 1, 400)
    for m in row:
        gamma = coefficient(m) if m != "erm" else 0
        weight = (1 + p) ** gamma if "inverse" in m else (1 - p) ** gamma
        axes[0, 0].plot(p, -weight * np.log(p), color=plots.look(m)["color"])
    axes[0, 0].set(ylim=(0, 3), xlabel="$p_y$", title="loss")
    shown = ("accuracy", "ece", "temperature", "ece_scaled", "ece_binned")
    for ax, metric in zip(axes.flat[1:], shown, strict=True):
        label, scale, _ = terms.metric_label(metric)
        for x, m in enumerate(row):
            middle, low, high = (scale * v for v in notebook.mean(table[metric], m))
            ax.plot([x, x], [low, high], color=plots.look(m)["color"], alpha=0.5, lw=2.2)
            ax.plot(x, middle, **plots.look(m))
        ax.set_xticks(range(len(row)), ["CE" if m == "erm" else f"{coefficient(m):g}" for m in row])
        ax.set_title(label, fontsize=10.5)
