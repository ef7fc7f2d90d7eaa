"""The commands `report` and `recalibrate` under faults: what they work on, and what must hold.

Each writes over the results for an older file of predictions. After a fault at any system call on
a file of theirs, what is there is all old or all new, or a part of one of the two: never a new
``report.json`` beside an old ``report.html``, and never a map that is neither.
"""

import json
import re
from pathlib import Path

import numpy as np

from benchmarks.commands import Command, must
from calibkit import cli, posthoc


def predictions(file: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(120, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(file, logits=2 * logits, labels=labels)


def before(folder: Path) -> None:
    """The results for an older file, and a newer file."""
    folder.mkdir()
    for seed, name in enumerate(("old", "new")):
        predictions(folder / f"{name}.npz", seed)
    for command in COMMANDS.values():
        arguments = [x.replace("new.npz", "old.npz") for x in command.in_folder(folder)]
        must(cli.main(arguments) == 0, f"{arguments}")


def pair(folder: Path) -> str:
    """Whose page there is, and whether numbers beside it are of the same predictions."""
    html, numbers = folder / "out/report.html", folder / "out/report.json"
    page = re.search(r"confidence of (\w+) be", html.read_text(encoding="utf-8"))[1]
    if not numbers.exists():
        return f"page of {page}\nbelong together"
    (read,) = json.loads(numbers.read_text(encoding="utf-8"))["inputs"]
    return (
        f"page of {page}\n{'belong' if read['file'] == f'{page}.npz' else 'do not belong'} together"
    )


def saved_map(folder: Path) -> str:
    return f"map of {posthoc.load(folder / 'map.json').about_['fitted_on']['file']}"


COMMANDS = {
    "report": Command(
        ("report", "{folder}/new.npz", "--out", "{folder}/out", "--quiet"), before, pair
    ),
    "recalibrate": Command(
        ("recalibrate", "{folder}/new.npz", "--map", "temperature", "--force", "--quiet")
        + ("--save", "{folder}/map.json"),
        before,
        saved_map,
    ),
}
