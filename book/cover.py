"""The figure of the README, from records of the released edition: `make release`.

Its title is a finding, and is computed: what one temperature does to calibration, and what it does
to the ranking of errors.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

from calibkit import plots, posthoc, terms
from calibkit.companion import notebook

TARGET = Path(__file__).parent / "_static" / "cover.png"
METHODS = [
    "erm",
    "label_smoothing",
    "mixup",
    "focal",
    "l1_norm",
    "cs_kd",
    "bsce_gra",
    "sam",
    "fmfp",
]

page = notebook.page(METHODS, "released")
runs = page.table()
mean = runs.groupby(level=0).mean()
first = page.methods[0]
logits, (held_out, labels) = page.logits(first)[0], page.validation(first)[0]
temperature = posthoc.TemperatureScaling().fit(held_out, labels).temperature_

with plots.style():
    fig = plt.figure(figsize=(10, 5.4))
    grid = fig.add_gridspec(2, 4, width_ratios=[1, 1, 0.95, 0.95])
    for column, (divisor, title) in enumerate(
        ((1.0, terms.label(first)), (temperature, "one temperature later"))
    ):
        (confidence,), (correct,) = page.predictions([logits / divisor])
        top, bottom = (fig.add_subplot(grid[row, column]) for row in (0, 1))
        plots.plot_reliability(plots.prepare_reliability(confidence, correct), top)
        top.set_title(title)
        found = plots.prepare_confidence_histogram(confidence, correct)
        plots.plot_confidence_histogram(found, bottom)
        if column:
            bottom.get_legend().remove()
            for ax in (top, bottom):
                ax.set_ylabel("")
    order = mean.auroc.sort_values().index
    left, right = (fig.add_subplot(grid[:, column]) for column in (2, 3))
    for row, method in enumerate(order):
        look = {k: plots.look(method)[k] for k in ("color", "marker")}
        before, after = 100 * mean.ece[method], 100 * mean.ece_scaled[method]
        left.plot([before, after], [row, row], color="0.8", zorder=0)
        left.plot(before, row, **look, markersize=8, markerfacecolor="white")
        left.plot(after, row, **look, markersize=8)
        right.plot(100 * mean.auroc[method], row, **look, markersize=8)
    left.set_yticks(range(len(order)), [terms.label(m) for m in order])
    right.set_yticks([])
    left.set(xlabel="ECE (%)", xlim=(0, None))
    left.set_title("hollow: as trained", fontsize=10)
    right.set_xlabel("AUROC (%)")
    for ax in (left, right):
        ax.grid(axis="y", visible=False)
    repaired = mean.ece_scaled.max() < mean.ece.max() / 2
    fig.suptitle(
        ("One temperature repairs calibration, not the ranking of errors: " if repaired else "")
        + f"ECE {100 * mean.ece.max():.0f} → {100 * mean.ece_scaled.max():.1f} % at worst, AUROC "
        f"{100 * mean.auroc.min():.0f}–{100 * mean.auroc.max():.0f} %",
        fontsize=13,
    )
    page.stamp(fig)
    fig.savefig(TARGET, dpi=100)
image = Image.open(TARGET).convert("RGB")
image = image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)  # small marks too
image.save(TARGET, optimize=True)
