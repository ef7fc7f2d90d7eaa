"""Every exhibit of the papers stands where the book says, and something is to be seen there."""

import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from calibkit_companion.experiments import papers

PAGES = Path(__file__).parent.parent / "book" / "notebooks"
EXHIBITS = pd.DataFrame(papers.ledger("exhibits.csv"))
HIDDEN = {"remove-cell", "remove-output"}
# In HTML: a table, a box, or a listing (which notebooks colour); in Markdown: a table, a listing.
SEEN = re.compile(r'<table|class="[^"]*\b(calibkit-page|highlight)\b')
MARKDOWN = re.compile(r"^\| *:?-+:? *\||```", re.MULTILINE)
TARGET = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
KINDS = {"fig": "Figure", "tab": "Table", "alg": "Algorithm", "lst": "Listing", "eq": "Equation"}


def seen(output) -> bool:
    """Whether a reader finds a figure, a table, a listing or a box in an output."""
    data = output.get("data", {})
    if any(kind in data for kind in ("image/png", "image/svg+xml")):
        return True
    if output.get("name") == "stdout":
        return "def " in output["text"]
    markdown = data.get("text/markdown", "")
    return bool(SEEN.search(data.get("text/html", "")) or MARKDOWN.search(markdown))


def row_of(name: str) -> re.Pattern:
    """How the row of an exhibit begins in a table of coverage: "| Figure 3: ImageNet"."""
    kind, number = re.fullmatch(r"\w+-(text-|[a-z]+)([\w-]*)", name).groups()
    words = f"{KINDS[kind]} {number.partition('-')[0]}" if kind in KINDS else ""
    return re.compile(rf"^\| *{words or '(Section|Text)'}\b", re.MULTILINE)


def sections(page, exhibits) -> dict[str, int]:
    """How much there is to see of each exhibit: what follows its anchor, or its row in a table.

    Exhibits whose anchors stand together are seen together, up to the next anchor.
    """
    found, here = {}, []
    for cell in page.cells:
        if cell.cell_type == "markdown":
            names = [name for name in TARGET.findall(cell.source) if name in exhibits]
            assert not (twice := {n for n in names if n in found}), (
                f"{', '.join(twice)} stands twice"
            )
            rows = {name: len(row_of(name).findall(cell.source)) for name in names}
            covered = len(names) > 1 and MARKDOWN.search(cell.source)
            found |= rows if covered else dict.fromkeys(names, 0)
            here = [] if covered else names or here
        elif not HIDDEN & set(cell.metadata.get("tags", [])):
            for name in here:
                found[name] += sum(map(seen, cell.get("outputs", [])))
    return found


@pytest.mark.skipif(not PAGES.is_dir(), reason="book/notebooks has no executed pages")
@pytest.mark.parametrize("chapter", EXHIBITS.chapter.unique())
def test_exhibits_of_a_chapter(chapter):
    page = nbformat.read(PAGES / f"{chapter}.ipynb", as_version=4)
    found = sections(page, set(EXHIBITS.id))
    assert set(found) == set(EXHIBITS.id[EXHIBITS.chapter == chapter])
    assert [name for name, count in found.items() if not count] == []
