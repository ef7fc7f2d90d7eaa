"""What a page shows besides figures: a finding with its numbers, tables, boxes, the settings.

It takes the rows and the settings of `calibkit_companion.results` and knows nothing else of them.

A stated finding carries the rows that bear it out::

    page.finding("Label smoothing hides errors.", (auroc["label_smoothing"], "lower"))

Where they do not, under other parameters or on other records, the page says what is seen instead.
No other sentence is put together by code.
"""

import hashlib
import html
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from math import isnan
from pathlib import Path

from calibkit import terms
from calibkit_companion.data.cache import cache_root
from calibkit_companion.records.record import Record

# See `stats.Interval.outcome`.
_WORDS = ("higher", "lower", "no difference", "unclear", "no data")
_AFTER = {
    "ts_nll": "after a temperature fitted by NLL",
    "ts_ece": "after a temperature fitted by ECE",
    "ts_test": "at its best temperature",
    "binned": "after histogram binning",
}
_WHEN = {
    "late": "over the last quarter of training",
    "settled": "after the first tenth of training",
    "second_rate": "between the first two drops of the learning rate",
    "third_rate": "after the second drop of the learning rate",
}
_SINCE = {
    "settled": "the first tenth of training",
    "second_rate": "the first drop of the learning rate",
    "third_rate": "the second drop of the learning rate",
    "best": "its best epoch",
}
_ON = {
    "clean": "",
    "shifted": "under shift",
    "collected": "on newly collected test sets",
    "people": "on people's answers",
}


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
        rows = [row for row, _ in self.expected]
        places = [*filter(None, dict.fromkeys(row.title or row.setting for row in rows))]
        found: dict[str, list[str]] = {}
        for row in rows:
            place = f"*{row.title or row.setting}:* " * (len(places) > 1)
            method = terms.label(row.method.partition(" in ")[0])
            missing = isnan(row.estimate)
            what = "Nothing was measured" if missing else _of_row(row)
            found.setdefault(place + what, []).append(method + f" {row.format()}" * (not missing))
        lines = [f"{what}: {', '.join(dict.fromkeys(its))}" for what, its in found.items()]
        seeds = sorted({row.seeds for row in rows if row.seeds})
        n = sorted({row.n for row in rows if row.n})
        covers = {row.covers for row in rows if not isnan(row.low)}
        about = ["95 % intervals in brackets" + ", over runs alone" * (covers == {"runs"})]
        unit, about = "seed", about * bool(covers)
        if covers == {"networks"}:
            unit, about = "network", ["the lowest and the highest in brackets"]
        about += filter(None, places if len(places) == 1 else [])
        if seeds:
            about.append(f"{from_to(seeds)} {unit}{'s' * (seeds[-1] > 1)}")
        about += [f"{from_to(n)} test samples"] if n else []
        small = f"<small>{'<br>'.join([*lines, ' · '.join(about)])}</small>"
        if self.holds:
            return f"**{self.sentence}**\n\n{small}"
        return f"*Elsewhere we find: {self.sentence}* **These runs do not show it.**\n\n{small}"


def from_to(counts: list[int]) -> str:
    """The first and the last of some counts in order; one if they are the same."""
    return " to ".join(dict.fromkeys(f"{n:,}" for n in (counts[0], counts[-1])))


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
    >>> from calibkit_companion import results
    >>> row = results.row(results.Series({0: 0.01, 1: 0.02, 2: 0.015}), results.Number("auroc"),
    ...                   method="sam", to="erm")
    >>> finding("SAM finds errors better.", (row, "higher")).holds
    True
    """
    pairs = tuple((row, tuple(words)) for row, *words in expected)
    if not pairs:
        raise ValueError("a finding rests on at least one row")
    for word in chain(*(words for _, words in pairs)):
        terms.choose("outcome", word, _WORDS)
    return Finding(sentence, pairs)


def _of_row(row) -> str:
    """What a row measures, against what, and in which unit."""
    what, (to, _, unlike) = number_label(row.number), row.to.partition(", ")
    to = terms.label(to) * (to not in (row.method, *_SINCE))
    if " in " in row.method:
        what, to = f"effect on {what}", f"that in {row.to.partition(' in ')[2]}"
    known = {"none": "that as trained"} | {key: f"that {words}" for key, words in _AFTER.items()}
    known |= {unlike: f"at epoch {unlike}"} if unlike.isdigit() else {}
    unlike = known.get(unlike, unlike.replace("_", " "))
    against = " ".join(filter(None, [to, unlike]))
    unit = {100: "points", 1000: "thousandths"}.get(terms.metric_label(row.metric)[1], "")
    words = f"{what[0].upper()}{what[1:]}" + f" against {against}" * bool(against)
    return ", ".join(filter(None, [words, unit]))


def number_label(number) -> str:
    """What a `results.Number` is called inside a sentence.

    >>> from calibkit_companion.results.derived import Number
    >>> number_label(Number("ece", "ts_ece")), number_label(Number("temperature"))
    ('ECE after a temperature fitted by ECE', 'temperature fitted by ECE')
    >>> number_label(Number("accuracy", since="third_rate"))
    'change of accuracy since the second drop of the learning rate'
    """
    metric, after, score, where, at, since, size = number
    label = terms.metric_label(metric, unit=False)[0].removesuffix(" × 1000")
    # Inside a sentence, a word is in lower case, an abbreviation is not.
    label = label if label[:2].isupper() or label[1:2] == "-" else label[0].lower() + label[1:]
    after = "ts_ece" if (metric, after) == ("temperature", "none") else after  # that of the papers
    words = [label, _AFTER.get(after, "").removeprefix(f"after a {label} "), _WHEN.get(at, "")]
    words += [f"by {score.replace('_', '-')}" * (score != "max_probability")]
    words += [f"on {size} validation samples" * bool(size), _ON.get(where, f"({where})")]
    text = " ".join(filter(None, words))
    return f"change of {text} since {_SINCE[since]}" if since else text


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
    content = f"{names} {styled.data.to_csv()}"  # the same page twice has the same bytes
    styled = styled.set_uuid(hashlib.sha256(content.encode()).hexdigest()[:8])
    return styled.set_table_attributes(f'class="{" ".join(names)}"').set_properties(
        **left if words else {"text-align": "right"}
    )


@dataclass(frozen=True)
class Report:
    """A report in a frame; the book puts it on a page of its own, see ``book/_ext/pages.py``."""

    path: Path = field(repr=False)

    def _repr_html_(self) -> str:
        text = html.escape(self.path.read_text(encoding="utf-8"))
        style = "width: 100%; height: 60rem; border: 1px solid #8888; border-radius: 0.4rem"
        return f'<iframe title="A report" loading="lazy" style="{style}" srcdoc="{text}"></iframe>'

    def _repr_markdown_(self) -> str:
        return "*A report.*"


def augmented(place) -> bool:
    """Whether training images of a setting are cropped and flipped."""
    from calibkit_companion.data import catalogue

    source = catalogue.SOURCES.get(place.dataset)
    return place.protocol.augment and source is not None and source.augment != "none"


def card(runs) -> str:
    """The settings of a page, one open line each, with the whole protocol to unfold. HTML."""
    from calibkit.report.html import render  # late: it draws

    settings = [(one, protocol(one)) for one in runs.settings]
    return render(Path(__file__).with_name("page.html.jinja"), settings=settings)


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


def stamp(fig, *settings, methods: Iterable[str] = (), one=False, n=0, kept=False, words=""):
    """Small print under a figure: what was drawn, so that it still says so in a talk.

    `one`: a single run of each method is drawn, not all; `n`: of so many samples, where these are
    not the whole test set; `kept`: only the runs that keep their predictions. `words` stand below
    or alone. A line is no wider than the figure and breaks between what it lists.
    """
    # It says what is there: a method that one of the settings does not have is not trained for it.
    asked = [replace(s, train=False, _records={}) for s in settings] if methods else settings
    lines = [*dict.fromkeys(s.caption_of(methods or s.methods, one, n, kept) for s in asked), words]
    room = int(17 * fig.get_figwidth())  # letters of 8 points
    small = "\n".join(_broken(line, room) for line in lines if line)
    fig.supxlabel(small, fontsize="medium", color="0.3")


def _broken(line: str, room: int) -> str:
    """What a line lists in as few lines of `room` letters as it takes, about equally long.

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
    """What the numbers of a page came from."""

    records: list[Record]

    def __repr__(self) -> str:
        return f"<provenance of {len(self.records):,} runs>"

    def _repr_html_(self) -> str:
        if not self.records:
            return '<div class="calibkit-provenance">No runs.</div>'
        runs = [r.info["provenance"] for r in self.records]

        def all_of(key: str) -> str:
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
    """A box with what the numbers of a page came from; `methods` where its plan has none."""
    records = [r for s in settings for m in s.methods or methods for r in s.records(m)]
    return Provenance(list({record.name: record for record in records}.values()))


def bring_records() -> None:
    """Clone the released records where a notebook runs without a checkout, as on Colab."""
    root = cache_root()
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or (root / "runs").is_dir() or (root / "released").is_dir():
        return
    folder = Path("calibkit-book").resolve()
    if not folder.is_dir():
        source = os.environ.get("CALIBKIT_SOURCE", "https://github.com/calibkit/calibkit")
        print(f"bringing the released records from {source}", flush=True)
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, folder], check=True)
    os.environ["CALIBKIT_CACHE"] = str(folder / "data_cache")


def check_parameters(cells: Sequence[str] | None = None) -> None:
    """Refuse parameters which papermill injected and the notebook does not have.

    papermill only warns of a misspelt name and runs the defaults. `cells` are the sources run so
    far; by default those of the running notebook.
    """
    if cells is None:
        try:
            cells = get_ipython().user_ns["In"]  # noqa: F821 (a name of every notebook)
        except (NameError, KeyError):
            return
    injected = [i for i, cell in enumerate(cells) if cell.startswith("# Parameters\n")]
    if not injected:
        return
    valid = set().union(*(_assigned(cell) for cell in cells[: injected[0]]))
    for name in sorted(_assigned(cells[injected[0]]) - valid):
        terms.choose("parameter", name, valid)


def _assigned(source: str) -> set[str]:
    return set(re.findall(r"^(\w+) *=(?!=)", source, re.MULTILINE))
