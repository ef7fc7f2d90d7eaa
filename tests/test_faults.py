"""The short form of `python tests/faults.py`: each fault outside the workflow once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import faults

SHORT = [name for name, fault in faults.FAULTS.items() if fault not in faults.OF_THE_WORKFLOW]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_lost(tmp_path):
    found = tmp_path / "faults.json"
    command = [sys.executable, faults.__file__, *SHORT, "--rounds", "1"]
    command += ["--json", str(found)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = json.loads(found.read_text())["faults"]
    assert [row["fault"] for row in rows] == SHORT
    assert all(row["rounds"] == row["survived"] == 1 for row in rows)


def test_what_is_lost_is_counted(tmp_path, monkeypatch, capsys):
    """The script itself can fail: a fault that breaks something shows as lost."""

    def loses(rng, folder, reference):
        """a fault that nothing survives"""
        faults.must(False, "gone")

    monkeypatch.setitem(faults.FAULTS, "loses", loses)
    (row,) = faults.inject(["loses"], rounds=3, seed=0)
    assert (row["rounds"], row["survived"], row["lost"]) == (3, 0, 3)
    assert "LOST: loses, round 2: gone" in capsys.readouterr().out


def test_published_counts_are_of_the_faults_there_are():
    path = Path(__file__).parent.parent / "benchmarks" / "results" / "faults.json"
    rows = json.loads(path.read_text())["faults"]
    assert [row["fault"] for row in rows] == list(faults.FAULTS)
    assert [row["what"] for row in rows] == [fault.__doc__ for fault in faults.FAULTS.values()]
