"""Folders of runs deleted: of what is released only what the tables hold as well.

The predictions of a released run stay. Everything is compared before anything goes, and of each
folder the record goes first: what is left of it by a killed process counts as no record.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from calibkit import files
from calibkit_companion.records import folders, release, tables
from calibkit_companion.records.record import DamagedRecord, Record
from calibkit_companion.records.tables import Tables

_PREDICTIONS = "arrays.npz"


def present() -> dict[str, bool]:
    """Names of the folders that can be deleted, and whether each is of a run that is known.

    Not known is a folder without a record, and in no table: its predictions may be the only ones.
    Folders with nothing but the predictions of a released run are not among them.
    """
    if not files.exists(folders.runs_root()):
        return {}
    with release.held():
        released, found = tables.where(), {}
        for path in sorted(folders.runs_root().iterdir()):
            if path.name.startswith(".") or not path.is_dir():
                continue
            if not (path.name in released and os.listdir(path) == [_PREDICTIONS]):
                found[path.name] = path.name in released or files.exists(path / "run.json")
        return found


def remove(names: Iterable[str]) -> None:
    """Delete the folders of runs, all of them or, if one must stay, none.

    Raises
    ------
    ValueError
        The tables do not hold what a folder does, or another process trains the run.
    """
    root = folders.runs_root()
    with release.held():
        present = [path for path in map(root.joinpath, sorted(names)) if path.is_dir()]
        found = {path: tables.find(path.name) for path in present}
        for path, released in found.items():
            if folders.held(path.name, root):
                raise ValueError(f"{path}: another process trains it; nothing was deleted")
            if released:
                _compare(path, *released)
        for path, released in found.items():
            if released:
                _reduce(path)
            else:
                folders.discard(path)


def _compare(folder: Path, info: dict, its: Tables) -> None:
    """Raise unless the tables of a released run hold all that its folder does."""
    its.opened.check()
    its.opened.flush()  # version 0.1.0 did not
    if not files.exists(folder / "run.json"):
        return  # what a killed process left; it was compared then
    try:
        own = folders.opened(folder)
        same = own.info == info and _same(own, Record(own.name, its.folder, info, its))
    except DamagedRecord:
        if not its.opened.sealed:
            raise
        return  # the tables are as they were written, the folder is not
    if not same:
        raise ValueError(
            f"{folder}: the tables in {its.folder} do not hold what is there; nothing was deleted. "
            "calibkit collect puts it there"
        )


def _same(own: Record, released: Record) -> bool:
    """Whether two records of one run have the same numbers."""
    for ours, theirs in (
        (own.history, released.history),
        (own.all_shifted, released.all_shifted),
        (_replicates(own), _replicates(released)),
    ):
        if ours.keys() != theirs.keys():
            return False
        for name, column in ours.items():
            numbers = np.issubdtype(np.asarray(column).dtype, np.number)
            if not np.array_equal(column, theirs[name], equal_nan=numbers):
                return False
    return True


def _replicates(record: Record) -> dict:
    """Metrics and their replicates by name, of a record that keeps them."""
    if "replicates.npz" not in record.info["sha256"]:
        return {}
    its = record.replicates
    found = {name: [its.estimate(name), *its.deviation(name)] for name in its.names}
    return found | {"temperatures": sorted(its.temperatures.items()), "p": its.p}


def _reduce(folder: Path) -> None:
    """Leave the predictions of a released run, if it has some."""
    others = [path for path in folder.iterdir() if path.name != _PREDICTIONS]
    for path in sorted(others, key=lambda path: path.name != "run.json"):
        files.remove(path)
        if path.name == "run.json":
            files.flush(folder)
    if not any(folder.iterdir()):
        folder.rmdir()
