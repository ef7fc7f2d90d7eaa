"""On which device a run was trained, and by how much a GPU in place of a CPU changes a number."""

import json
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from math import sqrt
from typing import NamedTuple

import numpy as np

from calibkit_companion.records import tables
from calibkit_companion.records.keys import Key
from calibkit_companion.records.record import Record

CPU = "a CPU"


@cache
def named(device: str) -> str:
    """The device of a run's provenance as a sentence has it.

    >>> named("1 thread of AMD EPYC"), named("NVIDIA H100 80GB HBM3"), named("Tesla T4")
    ('a CPU', 'an NVIDIA H100', 'a Tesla T4')
    """
    if device.startswith("1 thread of "):  # as `training.machine` writes a processor
        return CPU
    short = re.split(r"[ -](?:\d+ ?GB|SXM|PCIE)", device, flags=re.IGNORECASE)[0]
    return f"{'an' if short[:1] in tuple('AEIOUN') else 'a'} {short}"


def of(record: Record) -> str:
    """The device of a run, `named`."""
    return named(record.info["provenance"]["device"])


def by_seed(records: Iterable[Record]) -> dict[int, str]:
    """The devices of runs by their seeds."""
    return {record.info["run"]["seed"]: of(record) for record in records}


class Effect(NamedTuple):
    """What a GPU adds to a number in place of a CPU, in natural units.

    Attributes
    ----------
    estimate, error : the difference GPU − CPU, and its standard error
    runs : how many runs it is estimated from
    between_seeds : the standard deviation of the difference of two runs that differ in seed alone
    """

    estimate: float
    error: float
    runs: int
    between_seeds: float


def effect(key: Key) -> Effect | None:
    """The effect of the device on a number at the end of training; None where it is not known.

    It compares the released runs that differ in seed and device alone.
    """
    return _effect(key, *tables.settings().values())


@lru_cache(maxsize=256)
def _effect(key: Key, *released: tables.Tables) -> Effect | None:
    """The effect by these tables, which are part of the key: new tables have another."""
    groups = []
    for records in _on_both(*released):
        values = [(of(record) != CPU, record.measured(key)) for record in records]
        groups.append([(gpu, value) for gpu, value in values if value is not None])
    return within(groups)


@lru_cache(maxsize=4)
def _on_both(*released: tables.Tables) -> list[list[Record]]:
    """Groups of runs that differ in seed and device alone, of which some ran on either kind."""
    groups: dict[str, dict[str, Record]] = {}
    for its in released:
        infos = {run: info for run, info in its.infos.items() if info["status"] == "done"}
        if all(named(info["provenance"]["device"]) == CPU for info in infos.values()):
            continue
        for run, info in infos.items():
            content = json.dumps(info["run"] | {"seed": 0}, sort_keys=True)
            groups.setdefault(content, {})[run] = Record(run, its.folder, info, its)
    each = ([*records.values()] for records in groups.values())
    return [records for records in each if len({of(r) == CPU for r in records}) == 2]


def within(groups: Iterable[Iterable[tuple[bool, float]]]) -> Effect | None:
    """The difference between GPU and CPU within groups of runs, by least squares.

    Each group has a level of its own, all share one difference and one spread (the within
    estimator: Wooldridge, *Econometric Analysis of Cross Section and Panel Data*, 10.5).

    Parameters
    ----------
    groups : of each run, whether it ran on a GPU, and its number; nan is left out

    Returns
    -------
    Effect or None
        None where no group has both, or too few runs for an error.

    Examples
    --------
    >>> within([[(False, 1.0), (True, 2.0)], [(False, 5.0), (True, 8.0)]])
    Effect(estimate=2.0, error=1.0, runs=4, between_seeds=1.4142135623730951)
    """
    on_gpu, numbers, used = [], [], 0
    for group in groups:
        gpu, number = np.array([pair for pair in group if np.isfinite(pair[1])]).reshape(-1, 2).T
        if 0 < gpu.sum() < len(gpu):
            on_gpu.append(gpu - gpu.mean())
            numbers.append(number - number.mean())
            used += 1
    if not used:
        return None
    x, y = np.concatenate(on_gpu), np.concatenate(numbers)
    freedom, spread = len(x) - used - 1, x @ x
    if freedom < 1:
        return None
    estimate = x @ y / spread
    variance = ((y - estimate * x) ** 2).sum() / freedom
    return Effect(float(estimate), sqrt(variance / spread), len(x), sqrt(2 * variance))
