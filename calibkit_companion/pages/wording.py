"""One comparison in words: what a number is called, and a `results.Row` as a sentence or heading.

It is the one place that decides these words; labels of methods and metrics are in ``terms.toml``.
"""

from math import isnan

from calibkit import stats, terms

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
    "log_odds": "log-odds",
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
_UNITS = {100: "points", 1000: "thousandths"}


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
    return _capital(text.format(difference(row, unit=True, size=clear))) + "."


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
        noun, qualifiers = f"change of {noun}", f"{qualifiers} since {since}".strip()
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
    >>> number_label(Number("accuracy", since="third_rate"))
    'change of accuracy since the second drop of the learning rate'
    """
    text = " ".join(filter(None, _parts(number)))
    return f"change of {text} since {since}" if (since := _since(number)) else text


def name(method: str) -> str:
    """What a method is called inside a sentence: its label, without a capital that is no name's.

    >>> name("erm"), name("brier"), name("fmfp in cifar10-plain"), name("label_smoothing")
    ('plain training', 'Brier loss', 'FMFP', 'label smoothing')
    """
    return terms.inside(terms.label(method.partition(" in ")[0]))


def label(row) -> str:
    """What the method of a row is called at the head of a line."""
    return terms.label(_scaled(row).method.partition(" in ")[0])


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
    """The time since which a change is meant; empty for a number that is no change."""
    return _SINCE.get(number.since, "")


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


def difference(row, unit: bool = False, size: bool = False) -> str:
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


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
