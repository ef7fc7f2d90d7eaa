"""What the book makes of executed pages: panels found for a phone, figures first, short pages."""

import doctest
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import papermill
import pytest
from PIL import Image

EXTENSIONS = Path(__file__).parent.parent / "book" / "_ext"
sys.path.append(str(EXTENSIONS))
import behind  # noqa: E402
import explorables  # noqa: E402
import pages  # noqa: E402
import panels  # noqa: E402

from calibkit import explorable  # noqa: E402
from calibkit_companion import figures  # noqa: E402


@pytest.fixture(autouse=True)
def _figures():
    mpl.use("agg")
    yield
    plt.close("all")


def drawn(fig):
    """The picture as a notebook makes it, and its strips."""
    file = io.BytesIO()
    fig.savefig(file, bbox_inches="tight", dpi=fig.dpi)
    return np.asarray(Image.open(file).convert("L"), dtype=int), panels.strips(fig)


def ink_in(picture, window):
    height, width = picture.shape
    left, right, top, bottom = window
    part = picture[
        round(top * height) : round(bottom * height), round(left * width) : round(right * width)
    ]
    return int((part < 250).sum())


@pytest.mark.parametrize("shape", [(1, 2), (1, 4), (2, 3)])
def test_strips_hold_all_ink_of_the_figure_once(shape):
    fig, axes = plt.subplots(*shape, figsize=(7, 4), layout="constrained", squeeze=False)
    for i, ax in enumerate(axes.flat):
        ax.plot([0, i + 1])
        ax.set(title=f"panel {i}", xlabel="time")
    fig.supxlabel("small print · of two facts\nand one line · and one more")
    lines = [axes.flat[i].lines[0] for i in (0, 1)]
    fig.legend(handles=lines, labels=["line", "next"], loc="outside upper right", ncols=2,
               frameon=False)  # fmt: skip
    picture, strips = drawn(fig)
    assert [len(strip) for strip in strips] == [2, *[1] * shape[1], 2, 2]  # entries and facts break
    tops = [strip[0][2] for strip in strips]
    assert min(tops) == tops[0] and max(tops) == tops[-1]  # the legend first, small print last
    figures.headline(fig, "the setting\nand why it is this one")
    picture, strips = drawn(fig)
    assert [len(strip) for strip in strips][:4] == [2, 2, 6, 1]  # words of the title break
    whole = ink_in(picture, (0, 1, 0, 1))
    found = sum(ink_in(picture, window) for strip in strips for window in strip)
    assert found == pytest.approx(whole, rel=0.01)


def test_panels_without_labels_of_their_own_take_those_of_the_first():
    fig, axes = plt.subplots(1, 3, figsize=(7, 3), layout="constrained", sharey=True)
    axes[0].set(yticks=[0, 1], yticklabels=["a rather long name", "another"])
    picture, strips = drawn(fig)
    assert [len(strip) for strip in strips] == [1, 2, 2]
    (labels, _), first = strips[1], strips[0][0]
    assert labels[0] == first[0] and labels[1] < first[1]
    assert ink_in(picture, labels) > 200
    fig, axes = plt.subplots(1, 3, figsize=(7, 3), layout="constrained")
    assert [len(strip) for strip in drawn(fig)[1]] == [1, 1, 1]


def test_what_cannot_be_cut_stays_whole():
    fig, ax = plt.subplots(figsize=(7, 3))
    assert drawn(fig)[1] == []
    fig, axes = plt.subplots(1, 2, figsize=(4, 3))
    axes[0].set_title("a title that runs far over the panel beside its own, which hides it")
    assert drawn(fig)[1] == []


def test_the_book_hands_the_strips_on_as_a_class_of_the_image():
    output = nbformat.v4.new_output(
        "display_data",
        {"image/png": "…"},
        metadata={"image/png": {panels.KEY: [[[0, 0.5, 0, 1]], [[0.5, 1, 0, 1]]]}},
    )
    cell = nbformat.v4.new_code_cell("draw()", outputs=[output])
    cell.metadata["mystnb"] = {"image": {"classes": "dark-light"}}
    notebook = nbformat.v4.new_notebook(cells=[cell, nbformat.v4.new_code_cell("1")])
    one, other = json.loads(pages.stacked(nbformat.writes(notebook)))["cells"]
    name = "dark-light panels-0-500-0-1000-s-500-1000-0-1000"
    assert one["metadata"]["mystnb"]["image"]["classes"] == name
    assert other["metadata"] == {}


@pytest.mark.parametrize("module", [pages, panels])
def test_examples(module):
    assert doctest.testmod(module).attempted and not doctest.testmod(module).failed


# --- a page without records ---


def test_a_page_without_records_ends_with_the_command_and_becomes_a_short_page(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    source = [
        nbformat.v4.new_markdown_cell("# Title\n\nAbout it."),
        nbformat.v4.new_code_cell('edition = "cifar10"', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(
            'from calibkit_companion import results\nruns = results.load("fmfp", edition)'
        ),
        nbformat.v4.new_markdown_cell('<a id="a-label"></a>\n## A section'),
        nbformat.v4.new_code_cell("runs.caption"),
    ]
    path, executed = tmp_path / "page.ipynb", tmp_path / "executed.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=source), path)
    with pytest.raises(papermill.PapermillExecutionError, match="NoRecords"):
        papermill.execute_notebook(path, executed, kernel_name="python3", progress_bar=False)
    assert pages.shorten(executed)
    short = nbformat.read(executed, as_version=4)
    assert short.cells[0].source == '<a id="a-label"></a>\n# Title\n\nAbout it.'
    assert len(short.cells) == 3
    (box,) = short.cells[2].outputs  # and no error
    assert "calibkit train --edition cifar10" in box["data"]["text/html"]


def test_a_page_made_twice_has_the_same_bytes(tmp_path, monkeypatch):
    """No address of the memory, and no number drawn for a table."""
    monkeypatch.setenv("PYTHONSTARTUP", str(EXTENSIONS / "kernel.py"))
    source = (
        "import pandas as pd\nfrom calibkit_companion.pages import page",
        'page.table(pd.DataFrame({"a": [1.5, 2.5]}))',
        "page.provenance()",
        "from calibkit_companion.claims import display\ndisplay.Card([])",
    )
    cells = [nbformat.v4.new_code_cell(text, id=f"c{i}") for i, text in enumerate(source)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "page.ipynb")
    made = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.ipynb"
        papermill.execute_notebook(
            tmp_path / "page.ipynb", path, kernel_name="python3", progress_bar=False
        )
        cells = nbformat.read(path, as_version=4).cells
        made.append([[output["data"] for output in cell.outputs] for cell in cells])
    assert made[0] == made[1] and [len(outputs) for outputs in made[0]] == [0, 1, 1, 1]
    words = [outputs[0]["text/plain"] for outputs in made[0][1:]]
    assert words == ["<table>", "<provenance of 0 runs>", "<board of claims>"]


def test_a_page_that_fails_otherwise_is_no_short_page(tmp_path):
    error = nbformat.v4.new_output("error", ename="KeyError", evalue="'x'", traceback=[])
    cell = nbformat.v4.new_code_cell("1", outputs=[error])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "page.ipynb")
    before = (tmp_path / "page.ipynb").read_bytes()
    assert not pages.shorten(tmp_path / "page.ipynb")
    assert (tmp_path / "page.ipynb").read_bytes() == before


# --- what the book makes of a notebook ---


def executed(*cells) -> str:
    """The JSON of a notebook of (source, kinds of its outputs, tags)."""
    notebook = nbformat.v4.new_notebook()
    for source, kinds, tags in cells:
        if kinds is None:
            notebook.cells.append(nbformat.v4.new_markdown_cell(source))
            continue
        shown = [nbformat.v4.new_output("display_data", {kind: "…"}) for kind in kinds]
        cell = nbformat.v4.new_code_cell(source, outputs=shown, metadata={"tags": tags})
        cell.metadata["mystnb"] = {"figure": {"caption": "what is seen"}}
        notebook.cells.append(cell)
    return nbformat.writes(notebook)


OPENING = [
    ("# Title", None, []),
    ("# %pip install calibkit", [], ["hide-input"]),
    ("seeds = 0", [], ["parameters", "hide-input"]),
    ("runs", ["text/html"], []),
]
FIGURE = ("draw()", ["image/png"], [])
FINDING = ("page.finding()", ["text/markdown"], ["hide-input"])


def test_in_the_book_the_first_figure_and_its_findings_come_before_their_code():
    source = executed(*OPENING, FIGURE, FINDING, ("## More", None, []), FIGURE)
    read = nbformat.reads(pages.figure_first(source), as_version=4)
    nbformat.validate(read)
    order = ["# Title", "draw()", "page.finding()", "# %pip install calibkit", "seeds = 0", "runs"]
    assert [c.source for c in read.cells] == [
        *order,
        "draw()",
        "page.finding()",
        "## More",
        "draw()",
    ]
    _, figure, finding, bring, parameters, card, drawn, *_ = read.cells
    assert figure.metadata["mystnb"]["figure"]["caption"] == "what is seen"
    assert all(c.outputs and c.metadata.tags == ["remove-input"] for c in (figure, finding))
    assert drawn.outputs == [] and "mystnb" not in drawn.metadata and card.outputs
    assert bring.metadata.tags == ["remove-cell"] and "parameters" in parameters.metadata.tags


@pytest.mark.parametrize(
    "cells",
    [
        [("# Title", None, []), FIGURE, FINDING],  # is the first thing seen
        [*OPENING, ("## Logits", None, []), FIGURE],  # belongs to a section
        OPENING,
    ],
)
def test_other_pages_keep_their_order(cells):
    source = executed(*cells)
    assert pages.figure_first(source) == source


def test_the_numbers_of_a_figure_are_what_it_draws():
    fig, (left, right) = plt.subplots(1, 2)
    left.errorbar([0.5, 0.7], [1, 0], xerr=[0.1, 0.2], fmt="o", label="ERM")
    left.set(title="AUROC", yticks=[0, 1], yticklabels=["SAM", "label smoothing"])
    left.axvline(0, color="0.5")  # a line of the axes, no number
    right.bar([1, 2], [3, 4], label="errors")
    right.plot([0, np.nan, 2], [5, 6, 7])
    right.scatter(*np.arange(2 * (behind.MOST + 2)).reshape(2, -1))
    found = pd.read_csv(io.StringIO(behind.table(fig)), keep_default_na=False)
    auroc = found[found.panel == "AUROC"]
    points = auroc[auroc.drawn == "line"]
    assert points[["x", "y"]].astype(float).to_numpy().tolist() == [[0.5, 1], [0.7, 0]]
    assert points.row.tolist() == ["label smoothing", "SAM"] and set(points.series) == {"ERM"}
    ends = auroc[auroc.drawn == "interval"][["x", "to_x"]].astype(float)
    assert np.allclose(ends, [[0.4, 0.6], [0.5, 0.9]])
    bars = found[found.drawn == "bar"]
    assert bars.to_y.astype(float).tolist() == [3, 4] and set(bars.series) == {"errors"}
    assert len(found[(found.drawn == "line") & (found.panel != "AUROC")]) == 2  # less the gap
    thinned = found[found.drawn == "points, one in 2"]
    assert thinned.x.astype(float).tolist() == list(range(0, behind.MOST + 2, 2))


def test_a_figure_has_a_fold_that_says_how_it_was_computed(tmp_path):
    """Its numbers as a file, the command with the page's parameters, what was trained for it."""
    run = '<details class="calibkit-provenance"><summary>3 runs</summary>...</details>'
    cells = [
        nbformat.v4.new_markdown_cell("# A page"),
        nbformat.v4.new_code_cell("seeds = 2", metadata={"tags": ["injected-parameters"]}),
        nbformat.v4.new_code_cell("plot()", metadata={"mystnb": {"figure": {"name": "fig-one"}}}),
        nbformat.v4.new_code_cell("provenance()"),
    ]
    for cell, data in ((cells[2], {behind.KIND: "x,y\n1,2\n"}), (cells[3], {"text/html": run})):
        cell.outputs = [nbformat.v4.new_output("display_data", data)]
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    shown = nbformat.reads(pages.explained(path.read_text(), "notebooks/page"), as_version=4)
    nbformat.validate(shown)
    fold = shown.cells[3].source
    assert fold.startswith("<details") and "3 runs" in fold
    assert 'href="../_numbers/fig-one.csv"' in fold and "-p seeds 2" in fold
    outdir = tmp_path / "html"
    outdir.mkdir()
    env = SimpleNamespace(found_docs={"notebooks/page"}, doc2path=lambda page: path)
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=outdir, env=env)
    pages._write_numbers(app, None)
    assert (outdir / "_numbers" / "fig-one.csv").read_text() == "x,y\n1,2\n"


def test_a_book_takes_the_script_once(tmp_path):
    static = SimpleNamespace(html_static_path=[])
    explorables.add_script(SimpleNamespace(doctreedir=tmp_path, config=static))
    (path,) = map(Path, static.html_static_path)
    # As pages have it, with its colours.
    assert path.read_text(encoding="utf-8") == explorable.script() and path.name == "explorable.js"
    assert not re.search(r"@\w+;", explorable.script())
    figure = explorable.show_histograms(explorable.histograms([0.9, 0.4], [True, False]))
    asked = []
    app = SimpleNamespace(add_js_file=asked.append)
    context = {"body": 2 * f"<p>before</p>{figure._repr_html_()}<p>after</p>"}
    explorables.share_script(app, "page", "page.html", context, None)
    assert asked == ["explorable.js"] and context["body"].count("<calibkit-explorable") == 2
    assert "customElements" not in context["body"] and context["body"].count("after") == 2
    explorables.share_script(app, "page", "page.html", {"body": "<p>none here</p>"}, None)
    assert len(asked) == 1
