"""The figure of the README, from records of the released edition: `make release`.

What one temperature does to calibration and to the ranking of errors, in two regimes.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

from calibkit import plots
from calibkit.companion import page, results

TARGET = Path(__file__).parent / "_static" / "cover.png"
ONCE = {"recalibration": "ts_nll", "against": {"recalibration": "none"}}
METHODS = ["erm", "label_smoothing", "mixup", "swa", "fmfp"]

plt.style.use(["calibkit.book", "calibkit.page"])
runs = results.load("fmfp", setting="cifar10-plain")
places = [runs, runs.at("cifar10-augmented")]
fig, axes = plt.subplots(2, 2, figsize=(plots.WIDTH, 4.1), sharex="col")
for (left, right), place in zip(axes, places, strict=True):
    ece = place.mean(METHODS, "ece"), place.mean(METHODS, "ece", recalibration="ts_nll")
    plots.forest_before_after(*ece, left).set_title(place.title)
    auroc = place.compare(METHODS, "erm"), place.compare(METHODS, "erm", **ONCE)
    plots.forest_before_after(*auroc, right)
page.stamp(fig, *places, methods=METHODS)
fig.savefig(TARGET, dpi=150)
image = Image.open(TARGET).convert("RGB")
image = image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)  # small marks too
image.save(TARGET, optimize=True)
