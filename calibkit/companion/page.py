"""What a page shows besides figures: a finding with its numbers, tables, boxes, the settings.

It takes the rows and the settings of `calibkit.companion.results` and knows nothing else of them.

A stated finding carries the rows that bear it out::

    page.finding("Label smoothing hides errors.", (auroc["label_smoothing"], "lower"))

Where they do not, under other parameters or on other records, the page says what is seen instead.
No other sentence is put together by code.
"""

import html
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isnan

from calibkit import terms
from calibkit.training import store

OUTCOMES = ("higher", "lower", "no difference", "unclear")  # see `stats.Interval.outcome`

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
_ON = {
    "clean": "",
    "shifted": "under shift",
    "collected": "on newly collected test sets",
    "people": "against people's answers",
}
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
        by_setting: dict[str, list] = {}
        for row, _ in self.expected:
            by_setting.setdefault(row.title or row.setting, []).append(row)
        lines = [
            " ".join([f"*{where}:*"] * bool(where and len(by_setting) > 1) + _in_words(rows))
            for where, rows in by_setting.items()
        ]
        seeds = sorted({row.seeds for row, _ in self.expected if row.seeds})
        n = sorted({row.n for row, _ in self.expected if row.n})
        about = ["In brackets: 95 % intervals"] * any(not isnan(r.low) for r, _ in self.expected)
        about += [where for where in by_setting if where and len(by_setting) == 1]
        if seeds:
            many = " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))
            about.append(f"{many} seed{'s' * (many != '1')}")
        about += [f"{n[0]:,} test samples"] if n else []
        small = f"<small>{' '.join(lines)} {' · '.join(about)}.</small>"
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


_SAID = {  # by outcome
    "higher": "is higher than",
    "lower": "is lower than",
    "no difference": "is practically the same as",
    "unclear": "is not clearly different from that",
}
_UNLIKE = {
    "none": "before",
    "max_probability": "by the largest probability",
    "clean": "without shift",
}


def _in_words(rows: Iterable) -> list[str]:
    """A sentence for each number and outcome, with the methods of which it is true."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        method, _, elsewhere = row.method.partition(" in ")  # of two settings
        if isnan(row.estimate):
            alike.setdefault("Nothing was measured", []).append(terms.label(method))
            continue
        what = number_label(row.number._replace(since_best=""))
        what = f"{what[0].upper()}{what[1:]}" + " at the end" * bool(row.number.since_best)
        if elsewhere:
            what = f"The effect on {number_label(row.number)}"
        said = f"{what} {_SAID[row.outcome]} {_than(row)}" if row.to else what
        unit = {100: " points", 1000: " thousandths"}.get(terms.metric_label(row.metric)[1], "")
        estimate, _, interval = row.format().partition(" ")
        words = f"{terms.label(method)} {estimate}{unit} {interval}".strip()
        alike.setdefault(said, []).append(words)
    return [f"{said}: {', '.join(dict.fromkeys(its))}." for said, its in alike.items()]


def _than(row) -> str:
    """What a row is compared with, in words that follow its outcome."""
    if best := row.number.since_best:
        its = best == row.metric
        return (
            "at its best epoch"
            if its
            else f"at the epoch of best {terms.metric_label(best, unit=False)[0]}"
        )
    if " in " in row.to:
        return "in the other setting"
    to, _, unlike = row.to.partition(", ")
    words = [f"with {terms.label(to)}"] * (to != row.method)
    return " ".join(words + [_UNLIKE.get(unlike, unlike)] * bool(unlike))


def number_label(number) -> str:
    """What a `results.Number` is called inside a sentence.

    >>> from calibkit.companion.derived import Number
    >>> number_label(Number("ece", "ts_ece")), number_label(Number("temperature"))
    ('ECE after a temperature fitted by ECE', 'temperature fitted by ECE')
    >>> number_label(Number("accuracy", since_best="auroc"))
    'change of accuracy since the epoch of best AUROC'
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


def stamp(
    fig,
    *settings,
    methods: Iterable[str] = (),
    one: bool = False,
    n: int = 0,
    words: str = "",
) -> None:
    """Small print under a figure: what was drawn, so that it still says so in a talk.

    `one`: a single run of each method is drawn, not all; `n`: of so many samples, where these are
    not the whole test set. `words` stand below or alone. A line is no longer than a phone is wide.
    """
    # It says what is there: a method that one of the settings does not have is not trained for it.
    asked = [replace(s, train=False, _records={}) for s in settings] if methods else settings
    lines = [*dict.fromkeys(s.caption_of(methods or s.methods, one, n) for s in asked), words]
    lines = [_broken(line) for line in lines if line]
    fig.supxlabel("\n".join(lines), fontsize="medium", color="0.4")


def _broken(line: str) -> str:
    """A line in two where it is long, between two of the things that it lists."""
    kept = line.replace(" ", "\u00a0").replace("\u00a0·\u00a0", "\u00a0· ")
    return textwrap.fill(kept, 60, break_long_words=False, break_on_hyphens=False)


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
            '<details class="calibkit-provenance"><summary>'
            f"{len(runs):,} runs · {seconds / 60:,.1f} minutes of training · "
            f"trained {min(p['started'] for p in runs)[:10]}</summary>"
            f"{all_of('device')} · torch {all_of('torch')} · NumPy {all_of('numpy')} · "
            f"Python {all_of('python')} · calibkit {all_of('calibkit')} "
            f"({all_of('commit')})</details>"
        )


def provenance(*settings) -> Provenance:
    """A box with what the numbers of a page came from."""
    records = [r for s in settings for m in s.methods for r in s.records(m)]
    return Provenance(list({record.name: record for record in records}.values()))
