"""The released edition: its records and executed pages are all here, whole, and of this code."""

import json
import re
from pathlib import Path

import pytest

from calibkit import grid, store

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "data_cache" / "runs"
PAGES = ROOT / "book" / "notebooks"
RELEASED = "fashion"
MEGABYTE = 2**20


def sources(notebook: dict) -> list[str]:
    return [
        "".join(cell["source"])
        for cell in notebook["cells"]
        if "injected-parameters" not in cell["metadata"].get("tags", [])
    ]


@pytest.mark.parametrize("name", grid.NOTEBOOKS)
def test_executed_page_is_its_source_of_today(name):
    page = json.loads((PAGES / f"{name}.ipynb").read_text())
    source = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())
    assert sources(page) == sources(source), "run `make release` and commit what it wrote"
    injected = "".join(
        "".join(cell["source"])
        for cell in page["cells"]
        if "injected-parameters" in cell["metadata"].get("tags", [])
    )
    assert (f'edition = "{RELEASED}"' in injected) == bool(grid.NOTEBOOKS[name])
    outputs = [o for cell in page["cells"] for o in cell.get("outputs", [])]
    assert outputs and not any(o["output_type"] == "error" for o in outputs)
    for cell in page["cells"]:
        if figure := cell["metadata"].get("mystnb", {}).get("figure"):
            kinds = [k for o in cell["outputs"] for k in o.get("data", {})]
            assert kinds.count("image/png") + kinds.count("image/svg+xml") == 1, figure["name"]
    said = [v for o in outputs for k, v in o.get("data", o).items() if k != "image/png"]
    of_the_machine = re.search(r"PosixPath.{40}|/(home|root|work)/.{40}", json.dumps(said))
    assert not of_the_machine, of_the_machine[0]


def test_no_record_of_the_released_edition_is_missing_or_damaged():
    wanted = grid.runs("book", RELEASED)
    records = {run.name: store.load(run, RECORDS) for run in wanted}
    shapes = {"20newsgroups": (7_532, 20), "gaussians": (5_000, 5)}  # others: (10_000, 10)
    assert not [name for name, record in records.items() if record is None]
    for record in records.values():
        if not record.diverged:
            expected = shapes.get(record.info["run"]["dataset"], (10_000, 10))
            assert record.arrays["test_logits"].shape == expected
            assert len(record.arrays["test_labels"]) == expected[0]
            assert record.history["epoch"][-1] == record.info["run"]["protocol"]["epochs"]
        assert record.info["provenance"]["commit"]


def test_a_clone_stays_small():
    def size(folder: Path, pattern: str) -> float:
        return sum(p.stat().st_size for p in folder.glob(pattern) if p.is_file()) / MEGABYTE

    assert sum(size(RECORDS / run.name, "*") for run in grid.runs("book", RELEASED)) < 240
    assert size(PAGES, "*.ipynb") < 30
