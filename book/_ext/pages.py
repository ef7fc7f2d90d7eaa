"""What the book makes of an executed notebook: labels, its first figure in front, what is behind.

python book/_ext/pages.py PAGE.ipynb    # the workflow, when a notebook has failed
"""

import html
import json
import re
import sys
from pathlib import Path

import behind
import panels

NUMBERS = "_numbers"  # where the book keeps the CSV of its figures
FRAME = re.compile(r'srcdoc="([^"]*)"')  # of a report, see `calibkit_companion.pages.page.Report`
FOLD = '<details class="calibkit-how">'


def shorten(path: str | Path) -> bool:
    """Make a page of its own of an executed notebook that ended for want of records.

    What comes after is dropped. Its labels move to the title, so that links from other pages still
    lead here.

    Returns
    -------
    bool
        Whether it is such a notebook; others are left as they are.
    """
    import nbformat

    page = nbformat.read(path, as_version=4)
    marks = ("papermill-error-cell-tag",)  # what papermill adds to point at the error
    cells = [c for c in page.cells if not set(marks) & set(c.metadata.get("tags", []))]
    ended = [
        i
        for i, cell in enumerate(cells)
        if any(o.get("ename") == "NoRecords" for o in cell.get("outputs", []))
    ]
    if not ended:
        return False
    (end,) = ended
    errors = [o for o in cells[end].outputs if o.output_type == "error"]
    cells[end].outputs = [o for o in cells[end].outputs if o.output_type != "error"]
    _, lacking, command = map(html.escape, errors[0].traceback)  # as `page.NoRecords` gives them
    words = f"<b>Not shown here.</b> {lacking}<br><code>{command}</code>"
    box = f'<div class="calibkit-page">{words}</div>'
    cells[end].outputs.append(nbformat.v4.new_output("display_data", {"text/html": box}))
    lost = "\n".join(c.source for c in cells[end + 1 :] if c.cell_type == "markdown")
    labels = re.findall(r'^<a id="[\w-]+"></a>$', lost, re.MULTILINE)
    cells[0].source = "\n".join([*labels, cells[0].source])
    page.cells = cells[: end + 1]
    nbformat.write(page, path)
    return True


def setup(app) -> dict:
    """What the book makes of notebooks: anchors are labels, figures come first. Sphinx calls this.

    The docstring of a named tuple tells its fields; "Alias for field number 0" does not.
    """
    app.connect("source-read", _read)
    app.connect("build-finished", _write_numbers)
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", _skip_plain_field)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _skip_plain_field(app, what, name, member, skip, options) -> bool:
    return skip or (getattr(member, "__doc__", None) or "").startswith("Alias for field number")


def _read(app, page: str, source: list[str]) -> None:
    if str(app.env.doc2path(page)).endswith(".ipynb"):
        source[0] = figure_first(explained(stacked(labelled(source[0])), page))


def _write_numbers(app, failed) -> None:
    """The CSV of each figure of the book, where `explained` links to it."""
    if failed or app.builder.format != "html":
        return
    folder = Path(app.outdir, NUMBERS)
    folder.mkdir(exist_ok=True)
    for page in app.env.found_docs:
        if (path := Path(app.env.doc2path(page))).suffix == ".ipynb":
            cells = json.loads(path.read_text("utf-8"))["cells"]
            for name, numbers in _figures(page, cells).values():
                (folder / f"{name}.csv").write_text(numbers, "utf-8")
            for output in (o for c in cells for o in c.get("outputs", [])):
                if report := FRAME.search("".join(output.get("data", {}).get("text/html", ""))):
                    text = html.unescape(report[1])
                    (folder / f"{path.stem}-report.html").write_text(text, "utf-8")


def _figures(page: str, cells: list[dict]) -> dict[int, tuple[str, str]]:
    """By cell, what the file of its figure is called, and the CSV in it."""
    found = {}
    for i, cell in enumerate(cells):
        each = [o["data"] for o in cell.get("outputs", []) if behind.KIND in o.get("data", {})]
        if each:
            named = cell["metadata"].get("mystnb", {}).get("figure", {}).get("name")
            name = named or f"{Path(page).name}-{len(found) + 1}"
            found[i] = name, "".join(each[0][behind.KIND])
    return found


def explained(source: str, page: str) -> str:
    """The JSON of a notebook with a fold under each figure: how it was computed, its numbers.

    `page` is its name in the book, such as ``notebooks/tour``.
    """
    notebook = json.loads(source)
    shown = ("".join(o.get("data", {}).get("text/html", "")) for c in notebook["cells"]
             for o in c.get("outputs", []))  # fmt: skip
    made = re.findall(r'class="calibkit-provenance"><summary>(.*?)</summary>', "".join(shown))
    parameters = "".join(
        f" -p {name} {value}"
        for cell in notebook["cells"]
        if "injected-parameters" in cell["metadata"].get("tags", [])
        for name, value in re.findall(r'^(\w+) = "?(.+?)"?$', "".join(cell["source"]), re.MULTILINE)
    )
    command = f"papermill {page}.ipynb out.ipynb -k python3 --cwd notebooks{parameters}"
    cells, figures = [], _figures(page, notebook["cells"])
    for i, cell in enumerate(notebook["cells"]):
        cells.append(cell)
        for output in cell.get("outputs", []):
            if FRAME.search(shown := "".join(output.get("data", {}).get("text/html", ""))):
                place = f"{'../' * page.count('/')}{NUMBERS}/{Path(page).name}-report.html"
                link = f'<p><a href="{place}">The whole report</a>, or scroll inside:</p>'
                output["data"]["text/html"] = link + FRAME.sub(f'src="{place}"', shown)
        if i in figures:
            name, _ = figures[i]
            for output in cell["outputs"]:
                output.get("data", {}).pop(behind.KIND, None)  # which the book cannot show
            link = f'<a href="{"../" * page.count("/")}{NUMBERS}/{name}.csv" download>'
            fold = (
                f"{FOLD}<summary>How this was computed</summary><p>"
                f"{link}The numbers in this figure (CSV)</a> · <code>{html.escape(command)}</code>"
                f"{''.join(f' · {its}; code and versions: end of the page' for its in made)}"
                "</p></details>"
            )
            text = {"cell_type": "markdown", "metadata": {}, "source": fold}
            cells.append(text | {"id": f"{name}-how".lower()[:64]})
    notebook["cells"] = cells
    return json.dumps(notebook)


def stacked(source: str) -> str:
    """The JSON of a notebook whose figures say where their panels are, for a phone."""
    page = json.loads(source)
    panels.hand_on(page["cells"])
    return json.dumps(page)


def figure_first(source: str) -> str:
    """The JSON of a notebook whose first figure and the findings on it stand above their code.

    That figure is the one before the first heading under the title. JupyterLab keeps the order in
    which cells run; a reader of the book sees what was found, then how.
    """
    page = json.loads(source)
    cells = page["cells"]
    headed = (i for i, cell in enumerate(cells[1:], 1) if _begins(cell, "## "))
    opening = range(1, next(headed, len(cells)))
    pictures = (i for i in opening if _shows(cells[i], "image/png", "image/svg+xml"))
    if (first := next(pictures, 0)) < 2:
        return source
    end = first + 1
    while end < len(cells) and (_shows(cells[end], "text/markdown") or _states(cells[end])):
        end += 1
    for cell in cells[1:first]:
        if _begins(cell, "# %pip"):  # of use elsewhere only
            cell["metadata"]["tags"] = ["remove-cell"]
    found, code = [], cells[1:first]
    for cell in cells[first:end]:
        if cell["cell_type"] == "markdown":
            found.append(cell)
            continue
        hidden = {"tags": ["remove-input"]}
        found.append(cell | {"id": f"{cell['id']}-seen", "metadata": cell["metadata"] | hidden})
        folded = [tag for tag in cell["metadata"].get("tags", []) if tag == "hide-input"]
        code.append(cell | {"outputs": [], "metadata": {"tags": folded}})
    page["cells"] = [cells[0], *found, *_one_fold(code), *cells[end:]]
    return json.dumps(page)


def _one_fold(cells: list[dict]) -> list[dict]:
    """Cells of which neighbours that are folded, and show nothing, are one."""
    kept: list[dict] = []
    for cell in cells:
        shut = "hide-input" in cell["metadata"].get("tags", []) and not cell["outputs"]
        if shut and kept and "hide-input" in kept[-1]["metadata"].get("tags", []):
            kept[-1]["source"] = [*kept[-1]["source"], "\n\n", *cell["source"]]
        else:
            kept.append(cell)
    return kept


def _begins(cell: dict, start: str) -> bool:
    """Whether a line of a cell begins so."""
    return f"\n{start}" in "\n" + "".join(cell["source"])


def _states(cell: dict) -> bool:
    """Whether a cell is text that starts with a finding, in bold, or the fold under a figure."""
    bold = "".join(cell["source"]).startswith(("**", FOLD))
    return cell["cell_type"] == "markdown" and bold and not _begins(cell, "## ")


def _shows(cell: dict, *kinds: str) -> bool:
    """Whether a cell has an output of one of these kinds."""
    return any(
        kind in output.get("data", {}) for output in cell.get("outputs", []) for kind in kinds
    )


def labelled(source: str) -> str:
    r"""The JSON of a notebook with labels in place of anchors.

    >>> labelled(r'"<a id=\"fmfp-fig1\"></a>\n", "## Figure 1"')
    '"(fmfp-fig1)=\\n", "## Figure 1"'
    """
    return re.sub(r'<a id=\\"([\w-]+)\\"></a>\\n', r"(\1)=\\n", source)


if __name__ == "__main__":  # the workflow, when a notebook has failed
    sys.exit(not shorten(sys.argv[1]))
