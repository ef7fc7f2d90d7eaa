"""The sentences that say where the two sides of a comparison were trained on different devices."""

from collections.abc import Iterable, Mapping

from calibkit import terms
from calibkit_companion.pages import wording
from calibkit_companion.records import devices
from calibkit_companion.records.devices import CPU


def said(compared: Iterable[tuple]) -> str:
    """Which methods ran on which devices, and what that changes; empty within one device.

    Only those comparisons count whose sides ran on different devices in some seed.

    Parameters
    ----------
    compared : of each comparison its `results.Series`, its `results.Number`, and the settings of
        its sides in words, which are named where there are several
    """
    compared = [*compared]
    mixed = [(series, number, places) for series, number, places in compared if differ(series)]
    by_place: dict[tuple[str, ...], dict[str, set[str]]] = {}
    for series, _, places in mixed:
        by_method = by_place.setdefault(places, {})
        for method, its in series.trained:
            by_method.setdefault(method, set()).update(its[s] for s in series.values if s in its)
    several = len({place for *_, places in compared for place in places}) > 1
    each = [f"{' and '.join(places)}: " * several + _where(its) for places, its in by_place.items()]
    on_cpu = any(CPU in its for one in by_place.values() for its in one.values())
    return " ".join(each + [_effects(number for _, number, _ in mixed)] * on_cpu)


def said_of(rows: Iterable) -> str:
    """The same for `results.Row`s."""
    return said((row.series, row.number, _settings(row)) for row in rows)


def _settings(row) -> tuple[str, ...]:
    """The settings of both sides of a row, in words, each once."""
    sides = row.of, row.of.minus, row.against, row.against and row.against.minus
    return tuple(dict.fromkeys(each.title or each.setting for each in sides if each))


def differ(series) -> bool:
    """Whether the sides of a comparison ran on different devices in one of its seeds.

    >>> from calibkit_companion.results import Series
    >>> sam, plain = ("sam", {0: "a CPU", 1: "a GPU"}), ("erm", {0: "a CPU", 1: "a CPU"})
    >>> [differ(Series({seed: 0.1}, trained=(sam, plain))) for seed in (0, 1)]
    [False, True]
    """
    sides = [its for _, its in series.trained]
    return any(len({its[s] for its in sides if s in its}) > 1 for s in series.values)


def _where(by_method: Mapping[str, set[str]]) -> str:
    """A sentence on the devices of each method, those on a CPU first."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for method in sorted(by_method, key=lambda method: (method != "erm", method)):
        its = sorted(by_method[method], key=lambda device: (device != CPU, device))
        groups.setdefault(tuple(its), []).append(terms.inside(terms.label(method)))
    order = sorted(groups, key=lambda its: (its[0] != CPU, len(its), its))
    parts = [f"{_listed(groups[its])} on {_listed(its)}" for its in order]
    first = parts[0].replace(" on ", " ran on ", 1)
    text = ("; " if any(map(_several, groups.items())) else ", ").join([first, *parts[1:]])
    return text[:1].upper() + text[1:] + "."


def _several(group: tuple[tuple, list]) -> bool:
    """Whether a group has more than one device or method, and so an "and" of its own."""
    return max(map(len, group)) > 1


def _effects(numbers: Iterable) -> str:
    """A sentence on what a GPU changes in these numbers, as far as it is known."""
    found, runs = {}, 0
    for number in numbers:
        if number.score == "log_odds":  # the same, but for ties
            number = number._replace(score="max_probability")
        of_end = number.test_set == "clean" and number.at == "end" and not number.since
        if of_end and (its := devices.effect(number.key)):
            much = wording.give_or_take(number, its.estimate, its.error)
            found[wording.number_label(number)] = much
            runs = max(runs, its.runs)
    if not found:
        return "How much that changes these numbers is not known."
    each = _listed([f"{what} by {much}" for what, much in found.items()])
    return f"A GPU in place of a CPU changes {each} (± standard error, from {runs} runs)."


def _listed(words: Iterable[str]) -> str:
    """Words joined by commas and an "and".

    >>> _listed(["one"]), _listed(["one", "two", "three"])
    ('one', 'one, two and three')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
