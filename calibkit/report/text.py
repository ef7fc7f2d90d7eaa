"""Say in words what the numbers of a report mean: statements and cautions."""

from calibkit.report import event_cards
from calibkit.report.assessment import Assessment
from calibkit.report.compared_words import on_comparison
from calibkit.report.estimates import FEW
from calibkit.report.map_card import leaks, on_recalibration
from calibkit.report.words import Statement, card, doubtful, say
from calibkit.report.written import decimals, negative


def verdict(numbers: Assessment) -> list[Statement]:
    """Say in words what the numbers mean.

    Parameters
    ----------
    numbers : Assessment

    Returns
    -------
    list of dict
        ``title``, ``text`` and ``tone`` (good, fair, bad, unsure) of each statement.

    Examples
    --------
    >>> from calibkit.report import assess
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> [statement["title"] for statement in verdict(assess(from_arrays(scores)))][:2]
    ['Probability of “1” is too low', '“1” stands out well, judging by few samples']
    """
    if numbers.doubts:
        return doubtful(numbers.doubts)
    if numbers.positive:
        cards = [event_cards.on_probability, event_cards.on_positives, event_cards.on_decisions]
        cards += [on_recalibration, *[event_cards.on_shift] * (numbers.positive.shift is not None)]
    else:
        cards = [_on_calibration, _on_errors, _on_threshold, on_recalibration]
    cards += [_on_sets] if numbers.conformal else []
    statements = [on(numbers) for on in cards]
    if numbers.comparison:
        statements.append(on_comparison(numbers.comparison, str(numbers.against)))
    return statements


def cautions(numbers: Assessment) -> list[str]:
    """Say what a careful reader should know before believing the numbers.

    Parameters
    ----------
    numbers : Assessment

    Returns
    -------
    list of str
        Sentences; empty if there is nothing to worry about.

    Examples
    --------
    >>> from calibkit.report import assess
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> cautions(assess(from_arrays(scores)))[0]
    'Only 20 of 60 samples are “0”: most numbers here are rough guesses.'
    """
    checks, concerns = numbers.checks, _concerns(numbers)
    wrong, right = numbers.errors, numbers.samples - numbers.errors
    few, kind = (wrong, "wrong") if wrong < FEW else (right, "right")
    missing = numbers.classes - checks.classes_seen
    values = {"checks": checks, "few": few, "kind": kind, "missing": missing}
    sentences = [say(numbers, name, **values) for name, true in concerns.items() if true]
    for name, row in numbers.recalibration.items():
        sentences += [f"{name.capitalize()}: {message}." for message in row.warnings or ()]
    return sentences


def _concerns(numbers: Assessment) -> dict[str, bool]:
    """For each caution in ``words.jinja``, whether it applies; in the order of the page."""
    n, checks, positive = numbers.samples, numbers.checks, numbers.positive
    worse = _worse_than_one_class(numbers)
    reverse = positive is not None and positive.reversed
    few = min(numbers.errors, n - numbers.errors) if positive is None else positive.rarer[0]
    untied = n if checks.as_logits else n * (1 - checks.saturated)
    return {
        "shared_samples": leaks(numbers),
        "few_of_a_class": positive is not None and few < FEW,
        "reversed": reverse,
        "few_of_a_kind": positive is None and few < FEW,
        "worse_than_one_class": worse,
        "guessing": bool(checks.guessing) and not (worse or reverse),
        "unseen_classes": not numbers.pairs and checks.classes_seen < numbers.classes,
        "saturated": checks.saturated > 0.01,
        "ties": n >= 100 and 0 < checks.distinct < 0.1 * untied,
        "improbable": checks.improbable > 0,
    }


def _worse_than_one_class(numbers: Assessment) -> bool:
    """Whether the model is right less often than one that always names the most common class."""
    if numbers.pairs or numbers.positive or numbers.samples < FEW:
        return False
    return numbers.metrics["accuracy"].high < numbers.checks.majority


def _on_calibration(numbers: Assessment) -> Statement:
    """The statement on the mean confidence beside the accuracy."""
    gap, off = numbers.gap, event_cards.standing_out(numbers)
    sure, size = gap.outcome() in ("higher", "lower"), abs(gap.estimate)
    too_high = gap.estimate > 0
    title, tone = event_cards.right_on_average(numbers, numbers.metrics["ece"], numbers.chance_ece)
    if sure:
        much = "Slightly " if size < 0.01 else "Strongly " if size >= 0.05 else ""
        title = f"{much}{'over' if too_high else 'under'}-confident".capitalize()
        tone, gap = "fair" if size < 0.01 else "bad", gap if too_high else negative(gap)
    names = ["calibration", "off_in_groups"] if off else ["calibration"]
    return card(title, say(numbers, *names, gap=gap, sure=sure, too_high=too_high, off=off), tone)


def _on_errors(numbers: Assessment) -> Statement:
    """The statement on how well the confidence separates right from wrong answers."""
    errors, few = numbers.errors, min(numbers.errors, numbers.samples - numbers.errors)
    if few < 10:
        title = "Too few errors to say" if errors < 10 else "Too few right answers to say"
        return card(title, say(numbers, "few_errors"), "unsure")
    title, tone = event_cards.stands_out("Errors", "stand", numbers.metrics["auroc"].estimate, few)
    return card(title, say(numbers, "errors"), tone)


def _on_threshold(numbers: Assessment) -> Statement:
    """The statement on the confidence from which answers can be accepted."""
    point = numbers.main_point
    error = round(1 - numbers.metrics["accuracy"].estimate, 12)  # exactly errors / samples
    if not numbers.operating_points:
        return card("No threshold needed", say(numbers, "no_target", error=error), "good")
    if point is None:
        text = say(numbers, "no_threshold", error=error)
        return card("No threshold to recommend", text, "unsure")
    title = f"Accept answers with a confidence of {decimals(point.threshold)} or more"
    tone = {True: "good", None: "fair", False: "bad"}[point.kept]
    return card(title, say(numbers, "threshold", error=error, point=point), tone)


def _on_sets(numbers: Assessment) -> Statement:
    """The statement on conformal sets of answers, before and after temperature scaling."""
    sets = numbers.conformal
    before, after = sets.aps.before, sets.aps.after
    ratio = after.size / max(before.size, 1e-9)
    effect = "larger" if ratio > 1.05 else "smaller" if ratio < 0.95 else "no larger"
    if effect == "larger" and after.class_gap < before.class_gap:
        effect += ", and their coverage more even"
    title = f"Sets of answers: temperature scaling makes adaptive sets {effect}"
    return card(title, say(numbers, "conformal", sets=sets), "fair")
