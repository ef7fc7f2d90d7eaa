"""The commands `report`, `compare` and `recalibrate` under faults: their files, and what must hold.

Each writes over the results for an older file of predictions. After a fault at any system call on
a file of theirs, what is there is all old or all new, or a part of one of the two: never a new
``report.json`` beside an old ``report.html``, and never a map that is neither.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.commands import Command, must
from calibkit import cli, posthoc


def predictions(file: Path, seed: int) -> None:
    """Save predictions of one model for the same samples: .npz, .csv or .parquet."""
    labels = np.random.default_rng(9).integers(0, 3, 120)
    logits = np.random.default_rng(seed).normal(size=(120, 3))
    logits[np.arange(120), labels] += 1.5
    if file.suffix == ".npz":
        return np.savez(file, logits=2 * logits, labels=labels)
    columns = {f"prob_{i}": p for i, p in enumerate(posthoc.softmax(2 * logits).T)}
    table = pd.DataFrame({"label": labels} | columns)
    if file.suffix == ".csv":
        return table.to_csv(file, index=False)
    return table.to_parquet(file)


def before(folder: Path, suffix: str, arguments: tuple[str, ...]) -> None:
    """The results for an older file, a newer file, and a third to compare with."""
    folder.mkdir()
    for seed, name in enumerate(("old", "new", "base")):
        predictions(folder / f"{name}{suffix}", seed)
    older = [x.format(folder=folder).replace(f"new{suffix}", f"old{suffix}") for x in arguments]
    must(cli.main(older) == 0, f"{older}")


def pair(folder: Path) -> str:
    """Whose page there is, and whether numbers beside it are of the same predictions."""
    (html,) = (folder / "out").glob("*.html")
    numbers, page = html.with_suffix(".json"), html.read_text(encoding="utf-8")
    name = re.search(r"confidence of (\w+) be|base \N{MINUS SIGN} (\w+)", page)
    shown = name[1] or name[2]
    if not numbers.exists():
        return f"page of {shown}\nbelong together"
    read = json.loads(numbers.read_text(encoding="utf-8"))["inputs"][-1]
    same = Path(read["file"]).stem == shown
    return f"page of {shown}\n{'belong' if same else 'do not belong'} together"


def saved_map(folder: Path) -> str:
    """Of which predictions the map is."""
    return f"map of {posthoc.load(folder / 'map.json').about_['fitted_on']['file']}"


def over_older(holds: Callable[[Path], str], suffix: str, *arguments: str) -> Command:
    """A command on a newer file, where its results for an older one are."""
    own = tuple(argument.replace("SUFFIX", suffix) for argument in arguments)
    return Command(own, partial(before, suffix=suffix, arguments=own), holds)


_NEW, _OUT = "{folder}/newSUFFIX", ("--out", "{folder}/out", "--quiet")
_SAVE = ("--force", "--quiet", "--save", "{folder}/map.json")
COMMANDS = {}
for kind in ("npz", "csv", "parquet"):
    COMMANDS[f"report {kind}"] = over_older(pair, f".{kind}", "report", _NEW, *_OUT)
for kind in ("npz", "csv", "parquet"):
    files = ("{folder}/baseSUFFIX", _NEW)
    COMMANDS[f"compare {kind}"] = over_older(pair, f".{kind}", "compare", *files, *_OUT)
for name, kind in (
    ("temperature", "npz"),
    ("vector", "csv"),
    ("isotonic", "parquet"),
    ("matrix", "npz"),
):
    arguments = ("recalibrate", _NEW, "--map", name, *_SAVE)
    COMMANDS[f"recalibrate {name}"] = over_older(saved_map, f".{kind}", *arguments)
COMMANDS |= {
    f"{name}, twice": replace(COMMANDS[name], twice=True)
    for name in ("report npz", "recalibrate temperature")
}
