"""The short form of `python tests/faults_report.py`: some faults in the calls that write."""

import subprocess
import sys

import pytest

from benchmarks import injection
from tests import faults_report


@pytest.mark.skipif(bool(injection.why_not()), reason=f"short: {injection.why_not()}")
@pytest.mark.parametrize("name", faults_report.CASES)
def test_a_fault_leaves_the_old_or_the_new(name):
    """In a process of its own, which strace may trace and whose threads are few."""
    command = [sys.executable, faults_report.__file__, name, "--most", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'killed': " in done.stdout and "'refused': " in done.stdout


def test_a_mixture_is_seen(tmp_path, monkeypatch, capsys):
    """The script itself can fail: writing one file after the other is a loss."""
    faults_report.before(tmp_path / "old")
    case, folder = faults_report.CASES["report"], tmp_path / "old"
    assert case.holds(folder) == "page of old\nbelong together"
    old = (folder / "out/report.html").read_bytes()
    assert faults_report.cli.main(case.in_folder(folder)) == 0
    assert case.holds(folder) == "page of new\nbelong together"
    (folder / "out/report.html").write_bytes(old)
    assert case.holds(folder) == "page of old\ndo not belong together"
