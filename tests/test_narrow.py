"""Panels of a figure, found for a phone: exactly, from what Matplotlib drew."""

import io
import json

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from PIL import Image

from calibkit.companion import narrow, page


@pytest.fixture(autouse=True)
def _figures():
    mpl.use("agg")
    yield
    plt.close("all")


def drawn(fig):
    """The picture as a notebook makes it, and its strips."""
    file = io.BytesIO()
    fig.savefig(file, bbox_inches="tight", dpi=fig.dpi)
    return np.asarray(Image.open(file).convert("L"), dtype=int), narrow.strips(fig)


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
    fig.supxlabel("small print")
    picture, strips = drawn(fig)
    assert len(strips) == shape[1] + 1 and all(len(strip) == 1 for strip in strips)
    whole = ink_in(picture, (0, 1, 0, 1))
    assert sum(ink_in(picture, strip[0]) for strip in strips) == pytest.approx(whole, rel=0.01)


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
        metadata={"image/png": {narrow.KEY: [[[0, 0.5, 0, 1]], [[0.5, 1, 0, 1]]]}},
    )
    cell = nbformat.v4.new_code_cell("draw()", outputs=[output])
    cell.metadata["mystnb"] = {"image": {"classes": "dark-light"}}
    notebook = nbformat.v4.new_notebook(cells=[cell, nbformat.v4.new_code_cell("1")])
    one, other = json.loads(page.stacked(nbformat.writes(notebook)))["cells"]
    name = "dark-light panels-0-500-0-1000-s-500-1000-0-1000"
    assert one["metadata"]["mystnb"]["image"]["classes"] == name
    assert other["metadata"] == {}
