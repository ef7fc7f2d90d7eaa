"""The pictures of the README and of the first page, from the released edition: `make release`.

`_static/cover.png` is drawn from its records, `_static/results.png` is the figure of its page of
results.
"""

import base64
import json
from pathlib import Path

import matplotlib.pyplot as plt

from calibkit import nb, plots
from calibkit.arrays import softmax

HERE = Path(__file__).parent
page = nb.page(["erm", "label_smoothing", "mixup", "fmfp", "bsce_gra"], "fashion")
confidence = {m: [softmax(z).max(1) for z in page.logits(m)] for m in page.methods}
correct = {m: [z.argmax(1) == page.labels for z in page.logits(m)] for m in page.methods}

with plots.style():
    fig, axes = plt.subplots(2, 2, figsize=(11, 7.6))
    (histogram, reliability), (overfitting, gradients) = axes
    plots.plot_confidence_histogram(
        plots.prepare_confidence_histogram(confidence["erm"], correct["erm"]), histogram
    )
    histogram.set_title("Are wrong predictions less confident?")
    plots.plot_reliability_lines(
        {
            m: plots.prepare_reliability(confidence[m], correct[m])
            for m in ("erm", "label_smoothing", "mixup", "fmfp")
        },
        reliability,
    )
    reliability.set_title("Is 80 % confident 80 % right?")
    reliability.legend(loc="lower left")
    plots.plot_overfitting(
        {
            m: plots.prepare_overfitting([r.history for r in page.records[m]], "auroc")
            for m in ("erm", "fmfp")
        },
        overfitting,
    )
    overfitting.set_title("Does failure prediction survive training?")
    record = page.records["bsce_gra"][0]
    plots.plot_gradient_norms(
        plots.prepare_gradient_norms(
            record.arrays["train_brier"][0], record.arrays["train_gradient_norm"][0]
        ),
        gradients,
    )
    gradients.set_title("Which samples pull on the network? (BSCE-GRA)")
    fig.supxlabel(page.setting, fontsize=10, color="0.45")
    fig.savefig(HERE / "_static" / "cover.png", dpi=110)

for cell in json.loads((HERE / "notebooks" / "results.ipynb").read_text())["cells"]:
    if cell["metadata"].get("mystnb", {}).get("figure", {}).get("name") == "fig-results":
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                picture = base64.b64decode("".join(output["data"]["image/png"]))
                (HERE / "_static" / "results.png").write_bytes(picture)
