"""The pictures of the README: `make release`.

The figure, from records of the released edition: what one temperature does to calibration and to
the ranking of errors, in three regimes. The first screen of a report, on the frauds of deploy.md,
by Chromium; without one the picture stays as it is.
"""

import os
import re
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image
from playwright.sync_api import Error, sync_playwright

from calibkit import plots, report
from calibkit_companion import results
from calibkit_companion.pages import page

BOOK = Path(__file__).resolve().parent
ONCE = {"recalibration": "ts_nll", "against": {"recalibration": "none"}}
METHODS = ["erm", "label_smoothing", "mixup", "swa", "fmfp"]
CHROMIUM = Path("/usr/bin/chromium")  # else playwright's own


def figure(target: Path) -> None:
    plt.style.use(["calibkit.book", "calibkit.page"])
    runs = results.load("fmfp", setting="cifar10-plain")
    places = [runs, runs.at("cifar10-augmented"), runs.at("cifar10-long")]
    fig, axes = plt.subplots(3, 2, figsize=(plots.WIDTH, 5.2), sharex="col")
    for (left, right), place in zip(axes, places, strict=True):
        ece = place.mean(METHODS, "ece"), place.mean(METHODS, "ece", recalibration="ts_nll")
        plots.forest_before_after(*ece, left).set_title(place.title)
        auroc = place.compare(METHODS, "erm"), place.compare(METHODS, "erm", **ONCE)
        plots.forest_before_after(*auroc, right).set_title(place.title)
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    key = [plt.Line2D([], [], ls="", marker="o", color="0.4", mfc=fill) for fill in ("none", "0.4")]
    fig.legend(key, ["as trained", "after temperature scaling"], loc="outside upper right", ncols=2)
    page.stamp(fig, *places, methods=METHODS)
    fig.savefig(target, dpi=150, bbox_inches="tight")


def first_screen(target: Path) -> None:
    (code, *_) = re.findall(r"^```python\n(.*?)^```", (BOOK / "deploy.md").read_text(), re.M | re.S)
    os.chdir(tempfile.mkdtemp())
    exec(code, {})
    address = report.build("fraud.npz").resolve().as_uri()
    with sync_playwright() as play:
        path = CHROMIUM if CHROMIUM.exists() else None
        chromium = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        seen = chromium.new_page(viewport={"width": 1000, "height": 715}, device_scale_factor=1.5)
        seen.goto(address)
        seen.screenshot(path=target)


def small(target: Path) -> None:
    image = Image.open(target).convert("RGB")
    image = image.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)  # small marks
    image.save(target, optimize=True)


figure(BOOK / "_static/cover.png")
small(BOOK / "_static/cover.png")
try:
    first_screen(BOOK / "_static/report.png")
    small(BOOK / "_static/report.png")
except Error as error:
    print(f"book/_static/report.png is left as it is: {str(error).splitlines()[0]}")
