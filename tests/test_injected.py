"""The short form of `python benchmarks/faults.py`: some steps of each command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import commands, faults, injection, readers, report_commands

ROOT = Path(__file__).parent.parent
SHORT = ["train", "train resumed", "collect", "collect news", "collect 0.1.0", "delete"]
SHORT += ["delete unreleased", "results", "claims", "collect, twice"]
SHORT += ["report npz", "compare csv", "recalibrate isotonic"]
needs_strace = pytest.mark.skipif(bool(injection.why_not()), reason=injection.why_not() or "here")


@needs_strace
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_fault_in_a_system_call_loses_or_changes_a_number(tmp_path):
    command = [sys.executable, "-m", "benchmarks.faults", *SHORT, "--most", "7"]
    command += ["--json", str(tmp_path / "found.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = json.loads((tmp_path / "found.json").read_text())["commands"]
    assert {row["command"] for row in rows} == {*SHORT}
    assert all(row["injections"] + row["unmet"] == 7 and row["lost"] == 0 for row in rows)
    assert sum(row["unmet"] for row in rows) <= 3  # torch opens files at times of its own
    assert sum(row["cpu_seconds"] for row in rows) < 60


@needs_strace
def test_a_command_that_loses_something_is_found(tmp_path, monkeypatch, capsys):
    """The script itself can fail: of two files that belong together, one is written first."""

    def prepare(folder):
        (folder / "cache").mkdir(parents=True)
        for name in ("one", "other"):
            (folder / "cache" / name).write_text("old")

    def work(arguments):
        folder = commands.in_cache(Trial.folder)
        assert (folder / "one").read_text() == "old"  # killed here, it has lost nothing
        for name in ("one", "other"):
            (folder / name).write_text("new")
        return 0

    def holds(folder):
        return " ".join((folder / "cache" / name).read_text() for name in ("one", "other"))

    class Trial(faults.Trial):
        folder = tmp_path / "two-files" / "work"

        def fault(self, *one):
            outcomes = super().fault(*one)
            assert "unmet" not in outcomes, one
            return outcomes

    _leave_garbage(tmp_path / "garbage")
    monkeypatch.setattr(faults, "Trial", Trial)
    monkeypatch.setattr(faults.cli, "main", work)
    monkeypatch.setitem(faults.COMMANDS, "two files", commands.Command((), prepare, holds))
    row = faults.inject("two files", 0, tmp_path)
    assert row["lost"] > 2 and row["injections"] > row["lost"]
    assert "LOST: two files, killed at openat" in capsys.readouterr().out


def _leave_garbage(path):
    """Open files that only the collector closes, as other tests leave them."""
    path.write_text("")
    for _ in range(20):
        cycle = [open(path)]  # noqa: SIM115
        cycle.append(cycle)


def test_a_mixture_is_seen(tmp_path):
    """The script itself can fail: writing one file after the other is a loss."""
    command, folder = report_commands.COMMANDS["report npz"], tmp_path / "old"
    command.prepare(folder)
    assert command.holds(folder) == "page of old\nbelong together"
    old = (folder / "out/report.html").read_bytes()
    assert report_commands.cli.main(command.in_folder(folder)) == 0
    assert command.holds(folder) == "page of new\nbelong together"
    (folder / "out/report.html").write_bytes(old)
    assert command.holds(folder) == "page of old\ndo not belong together"


@needs_strace
@pytest.mark.timeout(300)
def test_readers_see_one_release_whoever_publishes_another(tmp_path):
    command = [sys.executable, "-m", "benchmarks.readers", "--readers", "4", "--collects", "8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert f"'right': {4 * readers.TIMES}" in done.stdout


def test_published_counts_are_of_the_commands_there_are():
    rows = json.loads((ROOT / "benchmarks/results/injected.json").read_text())["commands"]
    assert [row["command"] for row in rows] == list(faults.COMMANDS)
    assert not any(row["lost"] for row in rows)
    count = f"{sum(row['injections'] for row in rows):,} faults"
    assert count in (ROOT / "book" / "scaling.md").read_text()
