"""The papers on one screen: what reproduced, what did not, what was not tested, and the cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from calibkit_companion.claims.display import SIGNS
from calibkit_companion.claims.fates import by_fate
from calibkit_companion.claims.judging import Judged
from calibkit_companion.experiments import plan


@dataclass(frozen=True, repr=False)
class Scorecard:
    """A table with a line for each fate of a paper's claims. HTML, made from rows of `board`."""

    rows: list[Judged]

    def __repr__(self) -> str:
        return "<scorecard of the papers>"

    def _repr_html_(self) -> str:
        from calibkit.report import html

        papers = {paper: by_fate(self.rows, paper) for paper in plan.PAPERS}
        return html.render(
            Path(__file__).with_name("scorecard.html.jinja"),
            papers={p: its for p, its in papers.items() if any(its.values())},
            authors={paper: its.authors for paper, its in plan.PAPERS.items()},
            signs=SIGNS,
        )


class Compute(NamedTuple):
    """What the records of an edition cost: how many runs, hours of one core, minutes of a GPU."""

    runs: int
    core_hours: float
    gpu_minutes: float

    def __str__(self) -> str:
        parts = [f"{self.core_hours:,.0f} core-hours"] * (self.core_hours > 0)
        parts += [f"{self.gpu_minutes:,.0f} minutes on a GPU"] * (self.gpu_minutes > 0)
        return f"{self.runs:,} runs, {' and '.join(parts)}" if self.runs else "no runs"


def compute(edition: str = "released") -> Compute:
    """What all recorded runs of an edition cost, by the seconds and devices in their records.

    A run on a processor takes one thread (`training.machine`), so its hours are core-hours.
    """
    from calibkit_companion.records import devices, folders

    records = filter(None, map(folders.load, plan.Selection(edition).of_page("book")))
    spent = [record.info["provenance"] for record in records]
    seconds = {True: 0.0, False: 0.0}  # on a processor, on a GPU
    for its in spent:
        seconds[devices.named(its["device"]) == devices.CPU] += its["seconds"]
    return Compute(len(spent), seconds[True] / 3600, seconds[False] / 60)
