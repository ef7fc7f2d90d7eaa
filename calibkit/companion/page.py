"""What a page shows besides figures: a finding with its numbers, tables, boxes, the settings.

It takes the rows and the settings of `calibkit.companion.results` and knows nothing else of them.

A stated finding carries the rows that bear it out::

    page.finding("Label smoothing hides errors.", (auroc["label_smoothing"], "lower"))

Where they do not, under other parameters or on other records, the page says what is seen instead.
No other sentence is put together by code.
"""

import html
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path

from calibkit import terms
from calibkit.companion import narrow
from calibkit.training import store

OUTCOMES = ("higher", "lower", "no difference", "unclear")  # see `stats.Interval.outcome`

_AFTER = {
    "ts_nll": "after a temperature (NLL)",
    "ts_ece": "after a temperature (ECE)",
    "ts_test": "at its best temperature",
    "binned": "after histogram binning",
}
_WHEN = {
    "late": "over the last quarter of training",
    "settled": "after the first tenth of training",
    "second_rate": "between the first two drops of the learning rate",
    "third_rate": "after the second drop of the learning rate",
}
_ON = {"clean": "", "shifted": "under shift", "collected": "on newly collected test sets"}
_WORDS = (*OUTCOMES, "no data")


class NoRecords(Exception):
    """No run of a setting has a record, so there is nothing to show."""

    def _render_traceback_(self) -> list[str]:  # what JupyterLab shows in place of a traceback
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True)
class Finding:
    """A sentence written by hand, and the rows on which it rests, each with its expected word."""

    sentence: str
    expected: tuple  # of (row, words)

    @property
    def holds(self) -> bool:
        """Whether every row says what the sentence says."""
        return all(row.outcome in words for row, words in self.expected)

    def _repr_markdown_(self) -> str:
        numbers = _numbers(row for row, _ in self.expected)
        where = dict.fromkeys(row.title or row.setting for row, _ in self.expected if row.setting)
        seeds = sorted({row.seeds for row, _ in self.expected if row.seeds})
        n = sorted({row.n for row, _ in self.expected if row.n})
        about = [", ".join(where)] if any(where) else []
        if seeds:
            many = " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))
            about.append(f"{many} seed{'s' * (many != '1')}")
        about += [f"n = {n[0]:,}"] if n else []
        small = f"<small>{numbers}. {' · '.join(about)}.</small>"
        if self.holds:
            return f"**{self.sentence}**\n\n{small}"
        return f"*Elsewhere we find: {self.sentence}* **These runs do not show it.**\n\n{small}"


def finding(sentence: str, *expected: tuple) -> Finding:
    """A finding with its numbers, or what is seen instead.

    Parameters
    ----------
    sentence : written by hand, without numbers
    expected : a `results.Row` and the word, or words, that bear the sentence out: "higher",
        "lower", "no difference", "unclear"

    Raises
    ------
    ValueError
        For another word, or no row.

    Examples
    --------
    >>> from calibkit.companion import results
    >>> row = results.row(results.Series({0: 0.01, 1: 0.02, 2: 0.015}), results.Number("auroc"),
    ...                   method="sam", to="erm")
    >>> finding("SAM finds errors better.", (row, "higher")).holds
    True
    """
    pairs = tuple((row, tuple(words)) for row, *words in expected)
    if not pairs:
        raise ValueError("a finding rests on at least one row")
    for _, words in pairs:
        for word in words:
            terms.choose("outcome", word, _WORDS)
    return Finding(sentence, pairs)


def _numbers(rows: Iterable) -> str:
    """Rows in words; those of one number that came out alike stand together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if isnan(row.estimate):
            alike.setdefault(("No record", ""), []).append(terms.label(row.method))
            continue
        what = number_label(row.number)
        unit = {100: " points", 1000: " thousandths"}.get(terms.metric_label(row.metric)[1], "")
        key = f"{what[0].upper()}{what[1:]}" + f" ({row.outcome})" * bool(row.to)
        method, _, place = row.method.partition(" in ")  # of two settings
        named = terms.label(method) + ", the one setting minus the other," * bool(place)
        alike.setdefault((key, unit), []).append(f"{named} {row.format()}")
    return "; ".join(f"{what}: {', '.join(its)}{unit}" for (what, unit), its in alike.items())


def number_label(number) -> str:
    """What a `results.Number` is called inside a sentence.

    >>> from calibkit.companion.derived import Number
    >>> number_label(Number("ece", "ts_ece")), number_label(Number("accuracy", since_best="auroc"))
    ('ECE after a temperature (ECE)', 'change of accuracy since the epoch of best AUROC')
    """
    metric, after, score, where, at, since, size = number
    label = terms.metric_label(metric, unit=False)[0].removesuffix(" × 1000")
    # Inside a sentence, a word is in lower case, an abbreviation is not.
    label = label if label[:2].isupper() or label[1:2] == "-" else label[0].lower() + label[1:]
    words = [label, _AFTER.get(after, ""), _WHEN.get(at, "")]
    words += [f"by {score.replace('_', '-')}" * (score != "max_probability")]
    words += [f"on {size} validation samples" * bool(size), _ON.get(where, f"({where})")]
    text = " ".join(filter(None, words))
    if since:
        best = "its best epoch"
        if since != metric:
            best = f"the epoch of best {number_label(type(number)(since))}"
        return f"change of {text} since {best}"
    return text


# --- tables, boxes, small print -------------------------------------------------------------------


def table(frame, words: bool = False, classes: str = "", index: bool = True):
    """A DataFrame or Styler in the look of the book's tables.

    `words`: its cells are words, which wrap and stand left, and not numbers.
    """
    styled = frame if hasattr(frame, "to_html") and hasattr(frame, "hide") else frame.style
    if not index:
        styled = styled.hide(axis="index")
    names = " ".join(["dataframe", "calibkit-table", "words" * words, classes]).split()
    left = {"text-align": "left", "vertical-align": "top", "white-space": "normal"}
    return styled.set_table_attributes(f'class="{" ".join(names)}"').set_properties(
        **left if words else {"text-align": "right"}
    )


def as_html(frame) -> str:
    """The HTML of `table`."""
    return table(frame).to_html()


@dataclass(frozen=True)
class Box:
    """Stands in place of an exhibit: what is missing, and the command that would fill it."""

    lacking: str
    command: str = ""

    def _repr_html_(self) -> str:
        words = [f"<b>Not shown here.</b> {html.escape(self.lacking)}"]
        if self.command:
            words.append(f"<code>{html.escape(self.command)}</code>")
        return f'<div class="calibkit-page">{"<br>".join(words)}</div>'


def augmented(place) -> bool:
    """Whether training images of a setting are cropped and flipped."""
    from calibkit.data import catalogue

    source = catalogue.SOURCES.get(place.dataset)
    return place.protocol.augment and source is not None and source.augment != "none"


def card(runs) -> str:
    """The settings of a page, one open line each, with the whole protocol to unfold. HTML."""
    lines = []
    for one in runs.settings:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in protocol(one).items()
        )
        lines.append(
            f"<details><summary><b>{html.escape(one.title)}</b> · {html.escape(one.caption)}"
            f"</summary><table>{rows}</table></details>"
        )
    return f'<div class="calibkit-page">{"".join(lines)}</div>'


def protocol(runs) -> dict[str, str]:
    """How the networks of a setting were trained: what a paper's section on experiments says."""
    place, its = runs.setting, runs.setting.protocol
    reached = runs.mean("erm", "train_accuracy").get("erm") if runs.records("erm") else None
    drops = ", ".join(map(str, its.milestones))
    training = {
        "Data": f"{terms.DATASETS.get(place.dataset, place.dataset)}"
        + (", crops and flips" if augmented(place) else ", no augmentation"),
        "Network": place.network,
        "Optimiser": f"{its.optimizer.upper()}, momentum {its.momentum}, weight decay "
        f"{its.weight_decay:g}, batches of {its.batch_size}",
        "Learning rate": f"{its.learning_rate:g}"
        + (f", times {its.decay:g} after epochs {drops}" if drops else f", {its.schedule}"),
        "Epochs": f"{its.epochs}; weights averaged from epoch {its.swa_start + 1} (SWA, FMFP)",
        "Loss": ("summed over the batch" if its.reduction == "sum" else "averaged over the batch")
        + (f", gradient norm at most {its.clip_norm:g}" if its.clip_norm else ""),
        "Steps in": its.precision,
    }
    if reached:
        training["Training accuracy reached"] = f"{100 * reached.estimate:.1f} % (plain training)"
    return training


def stamp(fig, *settings, methods: Iterable[str] = ()) -> None:
    """Small print under a figure: what was drawn, so that it still says so in a talk."""
    # It says what is there: a method that one of the settings does not have is not trained for it.
    asked = [replace(s, train=False, _records={}) for s in settings] if methods else settings
    lines = dict.fromkeys(s.caption_of(methods) if methods else s.caption for s in asked)
    fig.supxlabel("\n".join(lines), fontsize=7, color="0.45")


@dataclass(repr=False)
class Provenance:
    """What the numbers of a page came from."""

    records: list[store.Record]

    def _repr_html_(self) -> str:
        if not self.records:
            return '<div class="calibkit-provenance">No runs.</div>'
        runs = [r.info["provenance"] for r in self.records]

        def all_of(key: str) -> str:
            return html.escape(", ".join(sorted({str(p[key]) for p in runs})))

        seconds = sum(p["seconds"] for p in runs)
        return (
            '<div class="calibkit-provenance">'
            f"{len(runs):,} runs · {seconds / 60:,.1f} minutes of training · {all_of('device')} · "
            f"torch {all_of('torch')} · NumPy {all_of('numpy')} · Python {all_of('python')} · "
            f"calibkit {all_of('calibkit')} ({all_of('commit')}) · "
            f"trained {min(p['started'] for p in runs)[:10]}</div>"
        )


def provenance(*settings) -> Provenance:
    """A box with what the numbers of a page came from."""
    records = [r for s in settings for m in s.methods for r in s.records(m)]
    return Provenance(list({record.name: record for record in records}.values()))


# --- the workflow and the book --------------------------------------------------------------------


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
        if any(o.get("ename") == NoRecords.__name__ for o in cell.get("outputs", []))
    ]
    if not ended:
        return False
    (end,) = ended
    errors = [o for o in cells[end].outputs if o.output_type == "error"]
    cells[end].outputs = [o for o in cells[end].outputs if o.output_type != "error"]
    box = Box(*re.split(r"; train it: ", errors[0].evalue, maxsplit=1))._repr_html_()
    cells[end].outputs.append(nbformat.v4.new_output("display_data", {"text/html": box}))
    lost = "\n".join(c.source for c in cells[end + 1 :] if c.cell_type == "markdown")
    labels = re.findall(r'^<a id="[\w-]+"></a>$', lost, re.MULTILINE)
    cells[0].source = "\n".join([*labels, cells[0].source])
    page.cells = cells[: end + 1]
    nbformat.write(page, path)
    return True


def book_index(edition: str) -> Path:
    """Where `make book` puts the first page of an edition."""
    return Path("build", edition, "book", "_build", "html", "index.html").resolve()


def setup(app) -> dict:
    """What the book makes of notebooks: anchors are labels, figures come first. Sphinx calls this.

    The docstring of a named tuple tells its fields; "Alias for field number 0" does not.
    """
    app.connect("source-read", _read)
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", _skip_plain_field)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _skip_plain_field(app, what, name, member, skip, options) -> bool:
    return skip or (getattr(member, "__doc__", None) or "").startswith("Alias for field number")


def _read(app, page: str, source: list[str]) -> None:
    if app.env.doc2path(page).endswith(".ipynb"):
        source[0] = figure_first(stacked(labelled(source[0])))


def stacked(source: str) -> str:
    """The JSON of a notebook whose figures say where their panels are, for a phone."""
    page = json.loads(source)
    narrow.hand_on(page["cells"])
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
    """Whether a cell is text that starts with a finding, in bold."""
    bold = "".join(cell["source"]).startswith("**")
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


narrow.keep()  # in a notebook

if __name__ == "__main__":  # the workflow, when a notebook has failed
    sys.exit(not shorten(sys.argv[1]))
