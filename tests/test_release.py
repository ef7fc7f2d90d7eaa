"""The released edition: its records and executed pages are all here, whole, and of this code."""

import html
import json
import re
import subprocess
from pathlib import Path

import pytest
from nbconvert import HTMLExporter

from calibkit_companion import claims, results
from calibkit_companion.claims import settings
from calibkit_companion.experiments import plan
from calibkit_companion.records import folders

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "book" / "notebooks"
RELEASED = "released"


def sources(notebook: dict) -> list[str]:
    return [
        "".join(cell["source"])
        for cell in notebook["cells"]
        if "injected-parameters" not in cell["metadata"].get("tags", [])
    ]


@pytest.mark.parametrize("name", plan.NOTEBOOKS)
def test_executed_page_is_its_source_of_today(name):
    page = json.loads((PAGES / f"{name}.ipynb").read_text())
    source = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())
    assert sources(page) == sources(source), "run `make release` and commit what it wrote"
    injected = "".join(
        "".join(cell["source"])
        for cell in page["cells"]
        if "injected-parameters" in cell["metadata"].get("tags", [])
    )
    assert (f'edition = "{RELEASED}"' in injected) == bool(plan.NOTEBOOKS[name])
    outputs = [o for cell in page["cells"] for o in cell.get("outputs", [])]
    assert outputs and not any(o["output_type"] == "error" for o in outputs)
    for cell in page["cells"]:
        if figure := cell["metadata"].get("mystnb", {}).get("figure"):
            kinds = [k for o in cell["outputs"] for k in o.get("data", {})]
            assert kinds.count("image/png") + kinds.count("image/svg+xml") == 1, figure["name"]
    said = [v for o in outputs for k, v in o.get("data", o).items() if k != "image/png"]
    of_the_machine = re.search(r"PosixPath.{40}|/(home|root|work)/.{40}", json.dumps(said))
    assert not of_the_machine, of_the_machine[0]


@pytest.mark.parametrize("name", plan.NOTEBOOKS)
def test_nbconvert_shows_no_raw_markup(name):
    """JupyterLab, nbconvert and papermill's output read as the book does: roles are its alone."""
    exporter = HTMLExporter(exclude_input=True, template_name="basic", embed_images=False)
    shown, _ = exporter.from_filename(PAGES / f"{name}.ipynb")
    text = html.unescape(re.sub(r"<(style|script)\b.*?</\1>|<[^>]+>", "", shown, flags=re.DOTALL))
    assert len(text) > 2000
    assert not re.search(r"\{[a-z][a-z:-]*\}`|:[a-z]+:`|^:::|\|[a-z_]+\|", text, re.MULTILINE)


@pytest.fixture(scope="module")
def released():
    """The records of the released edition by name."""
    wanted = {run.name: run for run in plan.runs("all", RELEASED)}
    found = {name: folders.load(run) for name, run in wanted.items()}
    return {name: record for name, record in found.items() if record}


def test_no_record_of_the_released_edition_is_damaged(released):
    shapes = {"20newsgroups": (7_532, 20), "gaussians": (5_000, 5)}  # others: (10_000, 10)
    assert len(released) >= 1401
    for name, record in released.items():
        record.check()
        if record.diverged:
            continue
        assert {"auroc", "ece_ts_nll"} <= set(record.replicates.names), name
        assert record.history["epoch"][-1] == record.info["run"]["protocol"]["epochs"]
        assert record.info["provenance"]["commit"]
        if not record.light:
            expected = shapes.get(record.info["run"]["dataset"], (10_000, 10))
            assert record.arrays["test_logits"].shape == expected
            assert len(record.arrays["test_labels"]) == expected[0]
    # What the pages draw: every setting with a record has ERM, the shared one all main methods.
    methods = {record.info["run"]["dataset"]: set() for record in released.values()}
    for run in plan.runs("all", RELEASED):
        if run.name in released:
            methods[run.dataset].add(run.method)
    assert all("erm" in found for found in methods.values())
    main = {m.name for paper in plan.PAPERS.values() for m in paper.rows[0].methods}
    assert methods["fashion_mnist"] >= main


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [
        ("20newsgroups-textcnn-erm-s0-e6916b28", 0.7),
        ("cifar10-resnet18_w16-erm-s0-a038bbd2", 0.8),
        ("fashion_mnist-cnn-erm-s0-6db124f7", 0.8),
        ("gaussians-mlp-erm-s0-76c5dd6a", 0.8),
    ],
)
def test_a_record_of_each_data_set_loads_under_its_old_name(released, name, accuracy):
    """Another name of the run, or another format of records, would lose what hours made."""
    record = released[name]
    assert record.info["status"] == "done" and not record.light
    measured = record.replicates.estimate("accuracy")
    assert measured == pytest.approx(record.history["accuracy"][-1], abs=1e-6)
    assert measured > accuracy


def test_what_was_worked_out_is_of_these_records_and_this_code(tmp_path, monkeypatch):
    """Else the claims page of a reader's clone is not the one that is shown."""
    kept, mine = ROOT / "data_cache", tmp_path / "runs"
    (tmp_path / "released").symlink_to(kept / "released")
    mine.mkdir()
    for record in (kept / "runs").glob("[!.]*"):
        (mine / record.name).symlink_to(record)
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    assert claims.board(RELEASED)
    worked_out = [path.name for path in mine.glob(".derived-*")]
    assert not worked_out, "run `calibkit claims`, then `calibkit collect`"
    kept = json.loads((ROOT / "data_cache/released/derived.json").read_text())["mathematics"]
    assert kept["arrays"] == settings.checksum(), "run `calibkit claims`"


def test_a_setting_of_a_few_methods_takes_no_column_from_one_of_all(released, monkeypatch):
    """Texts of 40 epochs have six losses; the board's column of texts is that of 12 epochs."""
    monkeypatch.setenv("CALIBKIT_CACHE", str(ROOT / "data_cache"))
    texts = [p for p in claims.places("released") if p.column == "20newsgroups"]
    assert texts and not texts[0].runs.setting.methods


def test_regimes_of_one_data_set_can_be_told_apart(monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(ROOT / "data_cache"))
    said = [one.caption for one in results.load("fmfp").settings]
    assert len(set(said)) == len(said) > 3


def test_a_clone_stays_small(tmp_path):
    command = ["git", "clone", "--quiet", "--bare", "--depth", "1", ROOT.as_uri(), tmp_path / "c"]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs git and a checkout")
    assert size(tmp_path / "c", "**/*") < 110
    tree = ["git", "ls-tree", "-r", "--long", "HEAD"]
    files = subprocess.run(tree, cwd=tmp_path / "c", capture_output=True, text=True, check=True)
    assert sum(int(line.split()[3]) for line in files.stdout.splitlines()) < 112e6
    assert size(PAGES, "*.ipynb") < 20


def size(folder: Path, pattern: str) -> float:
    """Megabytes of the files of a folder."""
    return sum(p.stat().st_size for p in folder.glob(pattern) if p.is_file()) / 1e6


def test_a_column_of_the_board_shows_a_setting_in_which_its_claim_is_tested():
    tested = {}
    for row in claims.board(RELEASED):
        shown = tested.setdefault((row.claim, row.column), {True: False, False: False})
        shown[row.shown] |= row.outcome != "not tested"
    assert not [key for key, its in tested.items() if its[False] and not its[True]]
