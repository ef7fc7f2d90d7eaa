"""What a stranger touches to add a loss and a paper: CONTRIBUTING says it, this does it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from calibkit_companion.experiments import plan

ROOT = Path(__file__).parent.parent
LOSS = '''

@_loss
def linear(logits: Tensor, targets: Tensor, slope: float = 1.0) -> Tensor:
    """slope (1 - p_y) of each sample."""
    return slope * (1 - logits.softmax(1).gather(1, targets[:, None])[:, 0])
'''
PAPER = '''"""A sixth paper: two exhibits, two methods."""

from calibkit_companion.experiments.papers.blocks import Block, Need, Paper, settings
from calibkit_companion.experiments.papers import protocols as p

_HERE = settings("sixth", "cifar10", "resnet18", p.FMFP_CIFAR, 2)
PAPER = Paper(
    authors="A. Stranger (2026)",
    blocks=(Block(("sixth-tab1", "sixth-fig1"), _HERE, ("erm", "linear")),),
    rows=(Need(("erm", "linear")),),
    trained=("200 epochs", "2 seeds"),
)
'''
CLAIMS = [
    {
        "id": f"sixth-c0{i}",
        "exhibits": ["sixth-tab1"],
        "statement": f"A loss that is linear in the probability changes {metric} for the better.",
        "check": {"metric": metric, "of": "linear", "is": side, "than": "erm", "margin": 0.005},
        "support": "In its only table.",
    }
    for i, (metric, side) in enumerate((("auroc", "above"), ("ece", "below"), ("nll", "below")), 1)
]
LEDGER = {
    "exhibits.csv": "sixth-tab1,sixth,table,Two losses,sixth\nsixth-fig1,sixth,figure,Both,sixth\n",
    "numbers.csv": "".join(
        f"sixth,sixth-tab1,cifar10,rn18,{method},,auroc,{value},0.1,percent,"
        f"cifar10,resnet18,{method},auroc\n"
        for method, value in (("erm", "91.0"), ("linear", "93.0"))
    ),
}
SEEN = """
from calibkit import plots
from calibkit_companion import plan, printed
from calibkit_companion import claims
from calibkit_companion import results
from calibkit_companion.training.loop import train

assert plots.look("linear(slope=2)")["color"] == "#123456"
assert plots.look("linear")["label"] == "Linear"
runs = plan.runs("sixth", "smoke")
assert {(r.method, r.seed) for r in runs} == {(m, s) for m in ("erm", "linear") for s in (0, 1)}
assert set(runs) <= set(plan.runs("claims", "smoke")) and "sixth" in plan.NOTEBOOKS
(cell,) = (c for c in printed.planned("sixth") if c["method"] == "linear")
assert cell["run"].startswith("cifar10-resnet18-linear-s0-") and len(cell["runs"]) == 2
for run in runs:
    assert not train(run).diverged
rows = claims.board("smoke", "sixth")
tested = {r.claim for r in rows if r.outcome != "not tested"}
assert tested == {"sixth-c01", "sixth-c02", "sixth-c03"}
assert claims.printed(claims.claims("sixth")[0]).outcome == "holds"
assert "sixth-c03" in claims.Card(rows)._repr_html_()
beside = printed.beside(results.load("sixth", "smoke"), "sixth-tab1")
assert [x.seeds for x in beside.lines] == [2, 2]
print(*(run.name for run in plan.runs("all", "released")))
"""


def edit(path: Path, before: str, added: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, added + before), "utf-8")


@pytest.mark.timeout(600)
def test_a_loss_and_a_sixth_paper_come_in_by_the_doors_that_contributing_names(tmp_path):
    pytest.importorskip("torch")
    library, companion = tmp_path / "calibkit", tmp_path / "calibkit_companion"
    for package in (library, companion):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package.name, package, ignore=ignored)
    # A loss: a function, and an entry.
    losses = library / "losses.py"
    losses.write_text(losses.read_text("utf-8") + LOSS, "utf-8")
    look = 'label = "Linear", color = "#123456", marker = "o"'
    entry = f"linear = {{ {look}, options = {{ slope = 1.0 }} }}\n"
    edit(library / "terms.toml", 'brier = { label = "Brier loss"', entry)
    # A paper: its file, its claims, its lines of the ledger, and its line in the list.
    papers = companion / "experiments" / "papers"
    (papers / "sixth.py").write_text(PAPER)
    (papers / "sixth.json").write_text(json.dumps(CLAIMS))
    for name, lines in LEDGER.items():
        with (papers.parent / "ledger" / name).open("a", encoding="utf-8") as file:
            file.write(lines)
    text = (papers / "__init__.py").read_text("utf-8")
    text = text.replace("papers import bsce,", "papers import sixth, bsce,")
    (papers / "__init__.py").write_text(text, "utf-8")
    edit(papers / "__init__.py", '    "bsce": bsce.PAPER,\n', '    "sixth": sixth.PAPER,\n')

    ran = subprocess.run(
        [sys.executable, "-c", SEEN],
        cwd=tmp_path,
        env=os.environ
        | {"PATH": "", "PYTHONPATH": str(tmp_path), "CALIBKIT_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    # What was there keeps its name.
    assert set(ran.stdout.splitlines()[-1].split()) >= {
        r.name for r in plan.runs("all", "released")
    }
