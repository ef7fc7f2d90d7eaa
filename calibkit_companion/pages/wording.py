"""Put comparisons into words: a `results.Row` as a sentence or a heading, a number as a name.

All pages take these words from here. Labels of methods and metrics are in ``terms.toml``.
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
    """Write a `results.Row` as a sentence, with its unit and the other side of the comparison.

    >>> from calibkit_companion.results import Number, Operand, Series, row
    >>> lower = Series({0: -0.08, 1: -0.07, 2: -0.075})
    >>> plain, mixup = (Operand(name, Number("ece", "ts_nll")) for name in ("erm", "mixup"))
    >>> sentence(row(lower, plain, plain.but(recalibration="none")))
    'Temperature scaling (fitted by NLL) lowers the ECE of plain training by 7.5 points [6.3, 8.7].'
    >>> sentence(row(lower, mixup, plain)).partition(" is ")[0]
    'The ECE of mixup after temperature scaling (fitted by NLL)'
    """
    if isnan(row.estimate):
        return f"Nothing was measured for {name(row.of)}."
    if row.against is None:
        texts = _of_one(row.of)
    elif step := _step(row.of, row.against):
        texts = _of_step(row.of, step)
    else:
        texts = _of_two(row.of, row.against)
    text = texts.get(row.outcome, "{}")
    clear = row.outcome in ("lower", "higher")
    return _capital(text.format(difference(row, unit=True, size=clear))) + "."


def _of_one(operand) -> dict[str, str]:
    """Return sentences about a level or a change in training, by outcome; {} is the number."""
    (what, qualifiers), since = _parts(operand.number), _since(operand.number)
    what = f"the {what} of {name(operand)}"
    return {
        "lower": f"{what} falls by {{}} after {since}",
        "higher": f"{what} rises by {{}} after {since}",
        "no difference": f"{what} changes by too little to matter after {since}: {{}}",
        "unclear": f"it is unclear whether {what} falls or rises after {since}: {{}}",
        "": " ".join(filter(None, [what, qualifiers, "is {}"])),
    }


def _of_step(operand, step: str) -> dict[str, str]:
    """Return sentences about a step after training, by outcome; {} is the number."""
    what = f"the {_parts(operand.number)[0]} of {name(operand)}"
    return {
        "lower": f"{step} lowers {what} by {{}}",
        "higher": f"{step} raises {what} by {{}}",
        "no difference": f"{step} changes {what} by too little to matter: {{}}",
        "unclear": f"it is unclear whether {step} lowers or raises {what}: {{}}",
    }


def _of_two(of, against) -> dict[str, str]:
    """Return sentences about two operands, by outcome; {} is the number."""
    if of.minus:
        what, other = _effect(of), f"that {_apart(of, against)}"
    else:
        what, other = _level(of), _other(of, against)
        if against.method not in ("", of.method) and "metric" not in _differing(of, against):
            other = f"that of {other}"
    return {
        "lower": f"{what} is {{}} lower than {other}",
        "higher": f"{what} is {{}} higher than {other}",
        "no difference": f"{what} differs from {other} by too little to matter: {{}}",
        "unclear": f"it is unclear whether {what} is lower or higher than {other}: {{}}",
    }


def heading(row) -> str:
    """Write the heading of a group of rows: the number, the other side, and the unit.

    >>> from calibkit_companion.results import Number, Operand, Series, row
    >>> of, against = (Operand(name, Number("ece", "ts_ece")) for name in ("mixup", "erm"))
    >>> heading(row(Series({0: 0.01, 1: 0.02}), of, against))
    'ECE after temperature scaling (fitted by ECE), compared with plain training, points'
    """
    if isnan(row.estimate):
        return "Nothing was measured"
    what, compared, against = number_label(row.number), "", row.against
    if against and row.of.minus:
        what, compared = f"effect on the {what}", f"the effect {_apart(row.of, against)}"
    elif against:
        compared = _other(row.of, against)
    unit = _UNITS.get(terms.metric_label(row.metric)[1], "")
    compared = f"compared with {compared}" if compared else ""
    return ", ".join(filter(None, [_capital(what), compared, unit]))


def number_label(number) -> str:
    """Name a `results.Number` inside a sentence.

    >>> from calibkit_companion.results import Number
    >>> number_label(Number("ece", "ts_ece")), number_label(Number("temperature"))
    ('ECE after temperature scaling (fitted by ECE)', 'temperature fitted by ECE')
    >>> number_label(Number("accuracy", since="third_rate"))
    'change of accuracy since the second drop of the learning rate'
    """
    text = " ".join(filter(None, _parts(number)))
    return f"change of {text} since {since}" if (since := _since(number)) else text


def name(operand) -> str:
    """Name the method of an operand inside a sentence; only proper names keep their capital.

    >>> from calibkit_companion.results import Operand
    >>> [name(Operand(method)) for method in ("erm", "brier", "fmfp")]
    ['plain training', 'Brier loss', 'FMFP']
    """
    return operand.words or terms.inside(terms.label(operand.method))


def label(row) -> str:
    """Name the first operand of a row at the start of a line."""
    return row.of.words or terms.label(row.of.method)


def difference(row, unit: bool = False, size: bool = False) -> str:
    """Write the estimate of a row with its interval.

    Parameters
    ----------
    row : a `results.Row`
    unit : add the unit, such as "points"
    size : write the size of the difference without its sign
    """
    if isnan(row.estimate):
        return ""
    scale = terms.metric_label(row.metric)[1]
    interval = row.interval
    if size and interval.estimate < 0:
        interval = stats.Interval(-interval.estimate, -interval.high, -interval.low)
    words = f" {_UNITS[scale]}" if unit and scale in _UNITS else ""
    signed = row.compares and not size
    return interval.format(scale, digits=1 if scale > 1 else 3, unit=words, sign=signed)


def give_or_take(number, estimate: float, error: float) -> str:
    """An estimate with its standard error, in the units of tables.

    >>> from calibkit_companion.results import Number
    >>> give_or_take(Number("auroc"), -0.001, 0.0015), give_or_take(Number("nll"), 0.01, 0.02)
    ('−0.10 ± 0.15 points', '+0.010 ± 0.020')
    """
    scale = terms.metric_label(number.metric)[1]
    digits = 2 if scale > 1 else 3
    text = f"{scale * estimate:+.{digits}f} ± {scale * error:.{digits}f}".replace("-", "−")
    return " ".join(filter(None, [text, _UNITS.get(scale, "")]))


# --- parts of sentences ---------------------------------------------------------------------------


def _level(operand) -> str:
    """Write the number of an operand as the subject of a sentence."""
    metric, qualifiers = _parts(operand.number)
    if since := _since(operand.number):
        metric, qualifiers = f"change of {metric}", f"{qualifiers} since {since}".strip()
    return " ".join(filter(None, [f"the {metric} of {name(operand)}", qualifiers]))


def _other(of, against) -> str:
    """Name the second operand of a comparison: its method, and how its number differs."""
    if against.words:
        return against.words
    differing = _differing(of, against)
    own = against.method == of.method
    if "metric" in differing:
        metric = terms.inside(terms.metric_label(against.number.metric, unit=False)[0])
        first = f"its {metric}" if own else f"the {metric} of {name(against)}"
    else:
        first = "its value" if own else name(against)
    return " ".join([first, *_qualifiers(of, against)])


def _effect(operand) -> str:
    """Write an operand that is a difference as the subject of a sentence."""
    if step := _step(operand, operand.minus):
        return f"the effect of {step} on the {_parts(operand.number)[0]} of {name(operand)}"
    what, minus = number_label(operand.number), operand.minus
    if minus.method == "erm" and not _differing(operand, minus):
        return f"the effect of {name(operand)} on the {what}"
    return f"the difference in {what} between {name(operand)} and {_other(operand, minus)}"


def _apart(of, against) -> str:
    """Say how a second effect differs from a first effect: method, baseline, data, setting."""
    words = [] if against.method == of.method else [f"of {name(against)}"]
    baseline = against.minus
    if baseline and (baseline.method != of.minus.method):
        words.append(f"over {_other(against, baseline)}")
    return " ".join(words + _qualifiers(of, against))


def _differing(of, against) -> list[str]:
    """List the fields in which the numbers of two operands differ."""
    return of.number.differing(against.number)


def _qualifiers(of, against) -> list[str]:
    """List how the second operand differs besides method and metric, in words."""
    number = against.number
    words = {
        "recalibration": _AFTER.get(number.recalibration, "as trained"),
        "score": f"by {_SCORES.get(number.score, number.score)}",
        "test_set": _ON.get(number.test_set, f"({number.test_set})") or "on clean data",
        "at": _when(number.at) or "at the end",
        "since": f"since {_since(number)}",
        "validation": f"on {number.validation or 'all'} validation samples",
    }
    found = [words[field] for field in _differing(of, against) if field in words]
    if against.setting != of.setting:
        found.append(f"in {against.title or against.setting}")
    return found


def _step(of, against) -> str:
    """Name the recalibration if two operands differ in nothing else; otherwise empty."""
    if against.words or against.method != of.method or against.setting != of.setting:
        return ""
    only = _differing(of, against) == ["recalibration"] and against.number.recalibration == "none"
    return _STEP.get(of.number.recalibration, "") if only else ""


def _parts(number) -> tuple[str, str]:
    """Name the metric of a number, and its recalibration, time, score and test set in words."""
    label = terms.inside(terms.metric_label(number.metric, unit=False)[0].removesuffix(" × 1000"))
    after = _AFTER.get(number.recalibration, "")
    if number.metric == "temperature":  # that of the papers is fitted by ECE
        by = {"ts_nll": "fitted by NLL", "ts_test": "that is best on the test set"}
        after = by.get(number.recalibration, "fitted by ECE")
    words = [after, _when(number.at)]
    if number.score != "max_probability":
        words.append(f"by {_SCORES.get(number.score, number.score)}")
    if number.validation:
        words.append(f"on {number.validation} validation samples")
    words.append(_ON.get(number.test_set, f"({number.test_set})"))
    return label, " ".join(filter(None, words))


def _when(at: str | int) -> str:
    """Say when a number was measured; empty for the end of training."""
    return f"at epoch {at}" if isinstance(at, int) else _WHEN.get(at, "")


def _since(number) -> str:
    """Name the start of a change; empty for a number that is not a change."""
    return _SINCE.get(number.since, "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
