"""Delete folders of runs.

The folder of a released run is deleted only if the released tables hold the same numbers, and its
predictions stay. All folders are compared with the tables before the first file is deleted. In each
folder ``run.json`` is deleted first: if the process is killed, the rest does not count as a record.
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
    """List the folders that can be deleted.

    Folders that hold only the predictions of a released run are left out.

    Returns
    -------
    dict of bool
        By name of the folder, whether the run is in a table or the folder has a record. A folder
        without either may hold the only predictions of a run.
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
    """Delete the folders of runs: all of them or, if there is an error, none.

    Parameters
    ----------
    names : names of the runs

    Raises
    ------
    ValueError
        A folder holds numbers that the tables do not hold, or another process trains a run.
    """
    root = folders.runs_root()
    with release.held():
        present = [path for path in map(root.joinpath, sorted(names)) if path.is_dir()]
        found = {path: tables.find(path.name) for path in present}
        for path, released in found.items():
            if folders.held(path.name, root):
                raise ValueError(f"{path}: another process trains this run; nothing was deleted")
            if released:
                _compare(path, *released)
        for path, released in found.items():
            if released:
                _reduce(path)
            else:
                folders.discard(path)


def _compare(folder: Path, info: dict, its: Tables) -> None:
    """Raise an error unless the tables of a released run hold all numbers of its folder."""
    its.opened.check()
    its.opened.flush()  # version 0.1.0 did not flush them to disk
    if not files.exists(folder / "run.json"):
        return  # a killed deletion left this folder after the comparison
    try:
        own = folders.opened(folder)
        same = own.info == info and _same(own, Record(own.name, its.folder, info, its))
    except DamagedRecord:
        if not its.opened.sealed:
            raise
        return  # only the folder is damaged: the tables match their checksums
    if not same:
        raise ValueError(
            f"{folder}: the tables in {its.folder} lack numbers of this folder, so nothing was "
            "deleted; calibkit collect adds them"
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
    """Metrics and their replicates by name; empty for a record without replicates."""
    if "replicates.npz" not in record.info["sha256"]:
        return {}
    its = record.replicates
    found = {name: [its.estimate(name), *its.deviation(name)] for name in its.names}
    return found | {"temperatures": sorted(its.temperatures.items()), "p": its.p}


def _reduce(folder: Path) -> None:
    """Delete everything in the folder of a released run but its predictions."""
    others = [path for path in folder.iterdir() if path.name != _PREDICTIONS]
    for path in sorted(others, key=lambda path: path.name != "run.json"):
        files.remove(path)
        if path.name == "run.json":
            files.flush(folder)
    if not any(folder.iterdir()):
        folder.rmdir()
