"""Parts of a page besides figures: tables, boxes about runs, cards about settings.

The functions take rows and settings of `calibkit_companion.results`. The modules `finding` and
`wording` put findings into words.
"""

import hashlib
import html
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

from calibkit import terms
from calibkit_companion.pages.finding import Finding, finding, from_to
from calibkit_companion.pages.notebook import begin, check_parameters
from calibkit_companion.pages.wording import number_label
from calibkit_companion.records.record import Record

# Pages also call these by the name of this module.
__all__ = ["Finding", "begin", "check_parameters", "finding", "from_to", "number_label"]


class NoRecords(Exception):
    """A page has nothing to show, because runs have no records or keep no predictions.

    Attributes
    ----------
    lacking : what is missing, in words
    command : the command that trains the missing runs
    """

    def __init__(self, lacking: str, command: str):
        super().__init__(f"{lacking}; train it: {command}")
        self.lacking, self.command = lacking, command

    def _render_traceback_(self) -> list[str]:
        """Write the output in a notebook, which the book replaces by a note (``_ext/pages.py``)."""
        return [f"{type(self).__name__}:", self.lacking, self.command]


# --- tables, boxes, small print -------------------------------------------------------------------


def table(frame, words: bool = False, classes: str = "", index: bool = True):
    """Style a table like the other tables of the book.

    Parameters
    ----------
    frame : a pandas DataFrame or Styler
    words : the cells hold words, which wrap and are aligned to the left
    classes : further CSS classes, separated by spaces
    index : show the index
    """
    styled = frame if hasattr(frame, "to_html") and hasattr(frame, "hide") else frame.style
    if not index:
        styled = styled.hide(axis="index")
    names = " ".join(["dataframe", "calibkit-table", "words" * words, classes]).split()
    left = {"text-align": "left", "vertical-align": "top", "white-space": "normal"}
    content = f"{names} {styled.data.to_csv()}"  # the id, so that equal tables have equal bytes
    styled = styled.set_uuid(hashlib.sha256(content.encode()).hexdigest()[:8])
    return styled.set_table_attributes(f'class="{" ".join(names)}"').set_properties(
        **left if words else {"text-align": "right"}
    )


@dataclass(frozen=True)
class Report:
    """A report in a frame; the book gives it a separate page (``book/_ext/pages.py``)."""

    path: Path = field(repr=False)

    def _repr_html_(self) -> str:
        text = html.escape(self.path.read_text(encoding="utf-8"))
        style = "width: 100%; height: 60rem; border: 1px solid #8888; border-radius: 0.4rem"
        return f'<iframe title="A report" loading="lazy" style="{style}" srcdoc="{text}"></iframe>'

    def _repr_markdown_(self) -> str:
        return "*A report.*"


def augmented(place) -> bool:
    """Whether the training images of a setting are cropped and flipped."""
    from calibkit_companion.data import catalogue

    source = catalogue.SOURCES.get(place.dataset)
    return place.protocol.augment and source is not None and source.augment != "none"


def card(runs) -> str:
    """Write the settings of a page as HTML: a line for each, which unfolds to the protocol."""
    from calibkit.report.html import render  # late: it draws

    settings = [(one, protocol(one)) for one in runs.settings]
    return render(Path(__file__).with_name("page.html.jinja"), settings=settings)


def protocol(runs) -> dict[str, str]:
    """Describe the training in a setting, as the section on experiments of a paper does."""
    place, used = runs.setting, runs.setting.protocol
    reached = runs.mean("erm", "train_accuracy").get("erm") if runs.records("erm") else None
    drops = ", ".join(map(str, used.milestones))
    schedule = f"times {used.decay:g} after epochs {drops}" if drops else used.schedule
    training = {
        "Data": f"{terms.DATASETS.get(place.dataset, place.dataset)}"
        + (", crops and flips" if augmented(place) else ", no augmentation"),
        "Network": place.network,
        "Optimiser": f"{used.optimizer.upper()}, momentum {used.momentum}, weight decay "
        f"{used.weight_decay:g}, batches of {used.batch_size}",
        "Learning rate": f"{used.learning_rate:g}, {schedule}",
        "Epochs": f"{used.epochs}; weights averaged from epoch {used.swa_start + 1} (SWA, FMFP)",
        "Loss": ("summed over the batch" if used.reduction == "sum" else "averaged over the batch")
        + (f", gradient norm at most {used.clip_norm:g}" if used.clip_norm else ""),
        "Steps in": used.precision,
    }
    if reached:
        training["Training accuracy reached"] = f"{100 * reached.estimate:.1f} % (plain training)"
    return training


def stamp(fig, *settings, methods: Iterable[str] = (), one=False, n=0, kept=False, words=""):
    """Write small print under a figure that says which data, networks and runs it shows.

    Lines are no wider than the figure, and break between the items that they list.

    Parameters
    ----------
    fig : the figure
    settings : `results.Results` of each setting in the figure
    methods : the methods in the figure; empty for all methods of the page
    one : the figure shows a single run of each method
    n : number of samples in the figure; 0 means the whole test set
    kept : the figure shows only runs that keep their predictions
    words : a further line of text
    """
    # A method that a setting lacks is not trained for the small print.
    asked = [replace(s, train=False, _records={}) for s in settings] if methods else settings
    lines = [*dict.fromkeys(s.caption_of(methods or s.methods, one, n, kept) for s in asked), words]
    room = int(17 * fig.get_figwidth())  # letters of 8 points
    small = "\n".join(_broken(line, room) for line in lines if line)
    fig.supxlabel(small, fontsize="medium", color="0.3")


def _broken(line: str, room: int) -> str:
    """Break a line between the items that it lists, into few lines of about equal length.

    No line has more than `room` letters, unless an item is longer.

    >>> _broken("MNIST · mlp · 1 seed", 13).replace("\u00a0", " ").splitlines()
    ['MNIST', 'mlp · 1 seed']
    """
    if " · " in line:
        line = line.replace(" ", "\u00a0").replace("\u00a0·\u00a0", "\u00a0· ")
    wrap = partial(textwrap.wrap, line, break_long_words=False, break_on_hyphens=False)
    few = len(wrap(room))
    narrowest = next(w for w in count(len(line) // few) if len(wrap(w)) <= few)
    return "\n".join(one.removesuffix("\u00a0·") for one in wrap(narrowest))


@dataclass(repr=False)
class Provenance:
    """A box that says which runs the numbers of a page come from."""

    records: list[Record]

    def __repr__(self) -> str:
        return f"<provenance of {len(self.records):,} runs>"

    def _repr_html_(self) -> str:
        if not self.records:
            return '<div class="calibkit-provenance">No runs.</div>'
        runs = [r.info["provenance"] for r in self.records]

        def all_of(key: str) -> str:
            """Every value of a field of the provenance, once."""
            return html.escape(", ".join(sorted({str(p[key]) for p in runs})))

        seconds = sum(p["seconds"] for p in runs)
        days = sorted(p["started"][:10] for p in runs)
        return (
            '<details class="calibkit-provenance"><summary>'
            f"{len(runs):,} runs · {seconds / 60:,.1f} minutes of training · "
            f"trained {' to '.join(dict.fromkeys([days[0], days[-1]]))}</summary>"
            f"{all_of('device')} · torch {all_of('torch')} · NumPy {all_of('numpy')} · "
            f"Python {all_of('python')} · calibkit {all_of('calibkit')} "
            f"({all_of('commit')})</details>"
        )


def provenance(*settings, methods: Sequence[str] = ()) -> Provenance:
    """Make the box that says which runs the numbers of a page come from.

    Parameters
    ----------
    settings : `results.Results` of the page
    methods : the methods to count in a setting for which the plan lists none
    """
    records = [r for s in settings for m in s.methods or methods for r in s.records(m)]
    return Provenance(list({record.name: record for record in records}.values()))
