"""The figure of the README, from records of the released edition: `make release`.

What one temperature does to calibration and to the ranking of errors, in two regimes.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

from calibkit import plots
from calibkit.companion import figures, page, results

TARGET = Path(__file__).parent / "_static" / "cover.png"
METHODS = ["erm", "label_smoothing", "mixup", "swa", "fmfp"]

plt.style.use(["calibkit.book", "calibkit.page"])
runs = results.load("fmfp", setting="cifar10-plain")
places = [runs, runs.at("cifar10-augmented")]
fig, axes = plt.subplots(2, 2, figsize=(plots.WIDTH, 4.1), sharex="col")
for (left, right), place in zip(axes, places, strict=True):
    figures.before_and_after(place, METHODS, "ece", left).set_title(place.title)
    figures.before_and_after(place, METHODS, "auroc", right, minus="erm")
page.stamp(fig, *places, methods=METHODS)
fig.savefig(TARGET, dpi=150)
image = Image.open(TARGET).convert("RGB")
image = image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)  # small marks too
image.save(TARGET, optimize=True)
