"""A stated finding: one sentence written by hand, and the comparisons on which it rests, in words.

    page.finding("Label smoothing lowers the AUROC.", (auroc["label_smoothing"], "lower"))

One or two comparisons are printed as sentences, more of them as a table. Where the comparisons do
not bear the sentence out, under other parameters or on other records, the page says so instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import isnan
from pathlib import Path

from calibkit import stats, terms

_WORDS = ("higher", "lower", "no difference", "unclear", "no data")  # `stats.Interval.outcome`
_AFTER = {
    "ts_nll": "after temperature scaling (fitted by NLL)",
    "ts_ece": "after temperature scaling (fitted by ECE)",
    "ts_test": "at the temperature that is best on the test set",
    "binned": "after histogram binning",
}
_STEP = {  # what changes a number after training, as the subject of a sentence
    "ts_nll": "temperature scaling (fitted by NLL)",
    "ts_ece": "temperature scaling (fitted by ECE)",
    "ts_test": "the temperature that is best on the test set",
    "binned": "histogram binning",
}
_SCORES = {
    "max_probability": "the largest probability",
    "p_norm": "the p-norm",
    "trust_score": "Trust Score",
    "confidnet": "ConfidNet",
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
    "people": "on people's answers",
}
_UNITS = {100: "points", 1000: "thousandths"}
_SENTENCES = 2  # comparisons that are still printed as sentences
_OPEN = 6  # rows of a table that is not folded


@dataclass(frozen=True)
class Finding:
    """A sentence written by hand, and the rows on which it rests, each with its expected word."""

    sentence: str
    expected: tuple  # of (row, words)

    @property
    def rows(self) -> list:
        return [row for row, _ in self.expected]

    @property
    def holds(self) -> bool:
        """Whether every row says what the sentence says."""
        return all(row.outcome in words for row, words in self.expected)

    def _repr_markdown_(self) -> str:
        return f"{self._headline()}\n\n{self._evidence()}\n\n<small>{self._about()}</small>"

    def _headline(self) -> str:
        if self.holds:
            return f"**{self.sentence}**"
        return f"*Elsewhere we find: {self.sentence}* **These runs do not show it.**"

    def _evidence(self) -> str:
        """Every comparison once: as a sentence, or as a row of a table."""
        several = len(self._places()) > 1
        found: dict[str, list] = {}
        for row in self.rows:
            place = f"{_place(row)}: " * several
            found.setdefault(place + heading(row), []).append(row)
        unique = {
            what: {(_label(row), _difference(row)): row for row in rows}
            for what, rows in found.items()
        }
        if sum(map(len, unique.values())) <= _SENTENCES:
            lines = [
                f"{_place(row)}: " * several + sentence(row)
                for rows in unique.values()
                for row in rows.values()
            ]
            return f"<small>{'<br>'.join(lines)}</small>"
        return _table(
            {
                what: [(*cells, row.outcome) for cells, row in rows.items()]
                for what, rows in unique.items()
            }
        )

    def _about(self) -> str:
        """What the brackets are, and on how many runs and samples the comparisons rest."""
        places, covers = self._places(), {row.covers for row in self.rows if not isnan(row.low)}
        unit, words = "seed", []
        if covers == {"networks"}:
            unit, words = "network", ["the lowest and the highest in brackets"]
        elif covers:
            words = ["95 % intervals in brackets" + ", over runs alone" * (covers == {"runs"})]
        words += places if len(places) == 1 else []
        if seeds := sorted({row.seeds for row in self.rows if row.seeds}):
            words.append(f"{from_to(seeds)} {unit}{'s' * (seeds[-1] > 1)}")
        if samples := sorted({row.n for row in self.rows if row.n}):
            words.append(f"{from_to(samples)} test samples")
        return " · ".join(words)

    def _places(self) -> list[str]:
        return [*filter(None, dict.fromkeys(map(_place, self.rows)))]


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
    >>> finding("SAM raises the AUROC.", (row, "higher")).holds
    True
    """
    pairs = tuple((row, tuple(words)) for row, *words in expected)
    if not pairs:
        raise ValueError("a finding rests on at least one row")
    for word in chain(*(words for _, words in pairs)):
        terms.choose("outcome", word, _WORDS)
    return Finding(sentence, pairs)


# --- one comparison in words ----------------------------------------------------------------------


def sentence(row) -> str:
    """A `results.Row` as a sentence, with its unit and with what it is compared with.

    >>> from calibkit_companion import results
    >>> of = results.Series({0: -0.08, 1: -0.07, 2: -0.075}), results.Number("ece", "ts_nll")
    >>> sentence(results.row(*of, method="erm", to="erm, none"))
    'Temperature scaling (fitted by NLL) lowers the ECE of plain training by 7.5 points [6.3, 8.7].'
    >>> sentence(results.row(*of, method="mixup", to="erm")).partition(" is ")[0]
    'The ECE of mixup after temperature scaling (fitted by NLL)'
    """
    if isnan(row.estimate):
        return f"Nothing was measured for {name(row.method)}."
    row = _scaled(row)
    other, unlike = _other(row)
    step = _STEP.get(row.number.recalibration) if unlike == "none" else None
    if step and other == row.method:
        texts = _of_step(row, step)
    elif _since(row.number) and not _is_method(other):
        texts = _of_change(row)
    else:
        texts = _of_two(row)
    text = texts.get(row.outcome, "{}")
    clear = row.outcome in ("lower", "higher")
    return _capital(text.format(_difference(row, unit=True, size=clear))) + "."


def _of_step(row, step: str) -> dict[str, str]:
    """By outcome, the sentence on a step after training, with {} for the number."""
    what = f"the {_parts(row.number)[0]} of {name(row.method)}"
    return {
        "lower": f"{step} lowers {what} by {{}}",
        "higher": f"{step} raises {what} by {{}}",
        "no difference": f"{step} changes {what} by too little to matter: {{}}",
        "unclear": f"it is unclear whether {step} lowers or raises {what}: {{}}",
    }


def _of_change(row) -> dict[str, str]:
    """By outcome, the sentence on a change during training, with {} for the number."""
    what, since = f"the {_parts(row.number)[0]} of {name(row.method)}", _since(row.number)
    return {
        "lower": f"{what} falls by {{}} after {since}",
        "higher": f"{what} rises by {{}} after {since}",
        "no difference": f"{what} changes by too little to matter after {since}: {{}}",
        "unclear": f"it is unclear whether {what} falls or rises after {since}: {{}}",
    }


def _of_two(row) -> dict[str, str]:
    """By outcome, the sentence on a number and what it is compared with, with {} for the number."""
    method, _, place = row.method.partition(" in ")
    noun, qualifiers = _parts(row.number)
    if since := _since(row.number):
        noun = f"change of {noun} since {since}"
    what = " ".join(filter(None, [f"the {noun} of {name(method)}", qualifiers]))
    other, against = _other(row)[0], _against(row)
    if place:
        what = f"the effect of {name(method)} on the {number_label(row.number)}"
        against = f"that in {row.to.partition(' in ')[2]}"
    elif other != row.method and _is_method(other):
        against = f"that of {against}"
    return {
        "lower": f"{what} is {{}} lower than {against}",
        "higher": f"{what} is {{}} higher than {against}",
        "no difference": f"{what} differs from {against} by too little to matter: {{}}",
        "unclear": f"it is unclear whether {what} is lower or higher than {against}: {{}}",
        "": f"{what} is {{}}",  # the level of one method
    }


def heading(row) -> str:
    """What a row measures, against what, and in which unit: the same for all rows of one group.

    >>> from calibkit_companion import results
    >>> of = results.Series({0: 0.01, 1: 0.02}), results.Number("ece", "ts_ece")
    >>> heading(results.row(*of, method="mixup", to="erm"))
    'ECE after temperature scaling (fitted by ECE), compared with plain training, points'
    """
    if isnan(row.estimate):
        return "Nothing was measured"
    row = _scaled(row)
    what, against = number_label(row.number), _against(row)
    if " in " in row.method:
        what, against = f"effect on the {what}", f"the effect in {row.to.partition(' in ')[2]}"
    alone = _since(row.number) and not _is_method(_other(row)[0])
    compared = f"compared with {against}" * bool(against and not alone)
    unit = _UNITS.get(terms.metric_label(row.metric)[1], "")
    return ", ".join(filter(None, [_capital(what), compared, unit]))


def number_label(number) -> str:
    """What a `results.Number` is called inside a sentence.

    >>> from calibkit_companion.results.derived import Number
    >>> number_label(Number("ece", "ts_ece")), number_label(Number("temperature"))
    ('ECE after temperature scaling (fitted by ECE)', 'temperature fitted by ECE')
    >>> number_label(Number("accuracy", since_best="auroc"))
    'change of accuracy since the epoch of best AUROC'
    """
    text = " ".join(filter(None, _parts(number)))
    return f"change of {text} since {since}" if (since := _since(number)) else text


def name(method: str) -> str:
    """What a method is called inside a sentence: its label, without a capital that is no name's.

    >>> name("erm"), name("brier"), name("fmfp in cifar10-plain"), name("label_smoothing")
    ('plain training', 'Brier loss', 'FMFP', 'label smoothing')
    """
    return terms.inside(terms.label(method.partition(" in ")[0]))


def _label(row) -> str:
    """What the method of a row is called at the head of a line."""
    return terms.label(_scaled(row).method.partition(" in ")[0])


def from_to(counts: list[int]) -> str:
    """The first and the last of some counts in order; one if they are the same."""
    return " to ".join(dict.fromkeys(f"{n:,}" for n in (counts[0], counts[-1])))


def _parts(number) -> tuple[str, str]:
    """The metric of a number, and after what, when, by which score and on which data."""
    label = terms.inside(terms.metric_label(number.metric, unit=False)[0].removesuffix(" × 1000"))
    after = _AFTER.get(number.recalibration, "")
    if number.metric == "temperature":  # that of the papers is fitted by ECE
        by = {"ts_nll": "fitted by NLL", "ts_test": "that is best on the test set"}
        after = by.get(number.recalibration, "fitted by ECE")
    words = [after, _WHEN.get(number.at, "")]
    if number.score != "max_probability":
        words.append(f"by {_SCORES.get(number.score, number.score)}")
    if number.validation:
        words.append(f"on {number.validation} validation samples")
    words.append(_ON.get(number.test_set, f"({number.test_set})"))
    return label, " ".join(filter(None, words))


def _since(number) -> str:
    """The epoch since which a change is meant; empty for a number that is no change."""
    if not number.since_best:
        return ""
    if number.since_best == number.metric:
        return "its best epoch"
    return f"the epoch of best {_parts(number._replace(metric=number.since_best))[0]}"


def _scaled(row):
    """The same row; "ts" is plain training after temperature scaling, compared with itself."""
    if (row.method, row.to) != ("ts", "erm"):
        return row
    scaled = row.number._replace(recalibration="ts_nll")
    return row._replace(method="erm", to="erm, none", number=scaled)


def _other(row) -> tuple[str, str]:
    """The second side of a row: its method or name, and in what its number differs."""
    other, _, unlike = row.to.partition(", ")
    return other, unlike


def _against(row) -> str:
    """What a row is compared with."""
    other, unlike = _other(row)
    words = _unlike(unlike)
    if other != row.method:
        known = {"temperature": "temperature scaling"} | _SCORES
        first = name(other) if _is_method(other) else known.get(other.replace(" ", "_"), other)
        return " ".join(filter(None, [first, words]))
    if unlike in terms.METRICS:
        return f"its {terms.inside(terms.metric_label(unlike, unit=False)[0])}"
    known = " ".join(unlike.split()) and all(map(_known, unlike.split()))
    return f"its value {words}" if known else words


def _known(word: str) -> bool:
    return word.isdigit() or word in ("none", *_AFTER, *_SCORES, *_WHEN, *_ON)


def _unlike(text: str) -> str:
    """The fields in which the number of the second side differs, in words."""
    words = []
    for word in text.split():
        if word.isdigit():
            words.append(f"at epoch {word}")
        elif word in _SCORES:
            words.append(f"by {_SCORES[word]}")
        else:
            known = {"none": "as trained", "clean": "on clean data"} | _AFTER | _WHEN | _ON
            words.append(known.get(word, "") or word.replace("_", " "))
    return " ".join(words)


def _is_method(text: str) -> bool:
    return terms.parts(text)[0].partition("@")[0] in terms.METHODS


def _difference(row, unit: bool = False, size: bool = False) -> str:
    """The difference with its interval; `size`: without its sign."""
    if isnan(row.estimate):
        return ""
    scale = terms.metric_label(row.metric)[1]
    interval = row.interval
    if size and interval.estimate < 0:
        interval = stats.Interval(-interval.estimate, -interval.high, -interval.low)
    words = f" {_UNITS[scale]}" if unit and scale in _UNITS else ""
    signed = bool(row.to) and not size
    return interval.format(scale, digits=1 if scale > 1 else 3, unit=words, sign=signed)


def _place(row) -> str:
    return row.title or row.setting


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _table(groups: dict[str, Sequence[tuple[str, str, str]]]) -> str:
    """Rows of method, difference and outcome below the heading of their group. HTML."""
    from calibkit.report.html import render  # late: it draws

    count = sum(map(len, groups.values()))
    template = Path(__file__).with_name("finding.html.jinja")
    return render(template, groups=groups, count=count, folded=count > _OPEN).strip()
