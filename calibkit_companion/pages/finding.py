"""Print a finding: a sentence written by hand, and the comparisons that support it.

    page.finding("Label smoothing lowers the AUROC.", (auroc["label_smoothing"], "lower"))

One or two comparisons of a kind are printed as sentences, and more as a table. A table of several
settings names the setting of each row. With other
parameters or other records the comparisons may contradict the sentence. Then the page says that the
finding does not hold, instead of the sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import isnan
from pathlib import Path

from calibkit import terms
from calibkit_companion.pages import devices, wording

_WORDS = ("higher", "lower", "no difference", "unclear", "no data")  # `stats.Interval.outcome`
_SENTENCES = 2  # most comparisons of one kind that are printed as sentences
_OPEN = 6  # most comparisons of different kinds, and most rows of an unfolded table


@dataclass(frozen=True)
class Finding:
    """A sentence written by hand, and the rows that support it.

    Attributes
    ----------
    sentence : the sentence, without numbers
    expected : pairs of a row and the outcomes with which the row supports the sentence
    """

    sentence: str
    expected: tuple

    @property
    def rows(self) -> list:
        """The rows without their expected outcomes."""
        return [row for row, _ in self.expected]

    @property
    def holds(self) -> bool:
        """Whether every row has an expected outcome."""
        return all(row.outcome in words for row, words in self.expected)

    def _repr_markdown_(self) -> str:
        small = "<br>".join(filter(None, [self._about(), devices.said_of(self.rows)]))
        return f"{self._headline()}\n\n{self._evidence()}\n\n<small>{small}</small>"

    def _headline(self) -> str:
        """Write the sentence, or say that the rows do not support it."""
        if self.holds:
            return f"**{self.sentence}**"
        return f"*Elsewhere we find: {self.sentence}* **These runs do not show it.**"

    def _evidence(self) -> str:
        """Write every comparison once, as a sentence or as a row of a table."""
        several = len(self._places()) > 1
        groups: dict[str, dict] = {}  # rows by heading, then by the cells of their line
        for row in self.rows:
            setting = [_place(row)] if several else []
            cells = (wording.label(row), *setting, wording.difference(row), row.outcome)
            groups.setdefault(wording.heading(row), {})[cells] = row
        rows = [row for group in groups.values() for row in group.values()]
        alike = len(rows) > len(groups)  # some rows have the same heading
        if len(rows) <= (_SENTENCES if alike else _OPEN):
            lines = [f"{_place(row)}: " * several + wording.sentence(row) for row in rows]
            return f"<small>{'<br>'.join(lines)}</small>"
        first = "Method" if any(row.of.method for row in rows) else "Model"
        columns = [first, *["Setting"] * several, "Difference", "Outcome"]
        return _table(columns, {heading: list(group) for heading, group in groups.items()})

    def _about(self) -> str:
        """Explain the intervals in brackets, and name settings, runs and test samples.

        An interval over runs alone is not about test samples: some numbers are of training samples.
        """
        places, covers = self._places(), {row.covers for row in self.rows if not isnan(row.low)}
        unit, words = "seed", []
        if covers == {"networks"}:
            unit, words = "network", ["the lowest and the highest in brackets"]
        elif covers:
            words = ["95 % intervals in brackets" + ", over runs alone" * (covers == {"runs"})]
        words += places if len(places) == 1 else []
        if seeds := sorted({row.seeds for row in self.rows if row.seeds}):
            words.append(f"{from_to(seeds)} {unit}{'s' * (seeds[-1] > 1)}")
        if samples := sorted({row.n for row in self.rows if row.n and row.covers != "runs"}):
            words.append(f"{from_to(samples)} test samples")
        return " · ".join(words)

    def _places(self) -> list[str]:
        """List the settings of the rows without repeats."""
        return [*filter(None, dict.fromkeys(map(_place, self.rows)))]


def finding(sentence: str, *expected: tuple) -> Finding:
    """State a finding with its numbers.

    Parameters
    ----------
    sentence : sentence written by hand, without numbers
    expected : pairs of a `results.Row` and the outcome, or outcomes, with which the row supports
        the sentence: "higher", "lower", "no difference" or "unclear"

    Raises
    ------
    ValueError
        An outcome is another word, or there is no row.

    Examples
    --------
    >>> from calibkit_companion.results import Number, Operand, Series, row
    >>> sam, plain = (Operand(method, Number("auroc")) for method in ("sam", "erm"))
    >>> higher = row(Series({0: 0.01, 1: 0.02, 2: 0.015}), sam, plain)
    >>> finding("SAM raises the AUROC.", (higher, "higher")).holds
    True
    """
    pairs = tuple((row, tuple(words)) for row, *words in expected)
    if not pairs:
        raise ValueError("rows: got none, expected at least one that supports the finding")
    for word in chain(*(words for _, words in pairs)):
        terms.choose("outcome", word, _WORDS)
    return Finding(sentence, pairs)


def from_to(counts: list[int]) -> str:
    """Write the first and the last of sorted counts as "3 to 10", or as "3" if they are equal."""
    return " to ".join(dict.fromkeys(f"{n:,}" for n in (counts[0], counts[-1])))


def _place(row) -> str:
    """Return the setting of a row in words."""
    return row.title or row.setting


def _table(columns: list[str], groups: dict[str, Sequence[tuple[str, ...]]]) -> str:
    """Write the cells of rows as an HTML table with headed columns and headings of groups."""
    from calibkit.report.html import render  # loaded late: it loads matplotlib

    count = sum(map(len, groups.values()))
    template = Path(__file__).with_name("finding.html.jinja")
    given = {"columns": columns, "groups": groups, "count": count, "folded": count > _OPEN}
    return render(template, **given).strip()
