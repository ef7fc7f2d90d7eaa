"""The pictures of the README: `make release`.

The first figure of the executed first page. The first screen of a report, on the frauds of
deploy.md, by Chromium; without one the picture stays as it is.
"""

import base64
import os
import re
import tempfile
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Error, sync_playwright

from calibkit import report

BOOK = Path(__file__).resolve().parent
CHROMIUM = Path("/usr/bin/chromium")  # else playwright's own


def first_figure(target: Path) -> None:
    """Write the first figure of the first page to a file."""
    cells = nbformat.read(BOOK / "notebooks/intro.ipynb", as_version=4).cells
    outputs = (each.get("data", {}) for cell in cells for each in cell.get("outputs", []))
    drawn = next(data["image/png"] for data in outputs if "image/png" in data)
    target.write_bytes(base64.b64decode(drawn))


def first_screen(target: Path) -> None:
    (code, *_) = re.findall(r"^```python\n(.*?)^```", (BOOK / "deploy.md").read_text(), re.M | re.S)
    os.chdir(tempfile.mkdtemp())
    exec(code, {})
    address = report.build("fraud.npz").resolve().as_uri()
    with sync_playwright() as play:
        path = CHROMIUM if CHROMIUM.exists() else None
        chromium = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        seen = chromium.new_page(viewport={"width": 1000, "height": 770}, device_scale_factor=1.5)
        seen.goto(address)
        seen.screenshot(path=target)


def small(target: Path) -> None:
    image = Image.open(target).convert("RGB")
    image = image.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)  # small marks
    image.save(target, optimize=True)


first_figure(BOOK / "_static/cover.png")
try:
    first_screen(BOOK / "_static/report.png")
    small(BOOK / "_static/report.png")
except Error as error:
    print(f"book/_static/report.png is left as it is: {str(error).splitlines()[0]}")
