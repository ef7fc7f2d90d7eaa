"""The command line trains, lists, and refuses in one line."""

import io
import os
import re
import shutil
import subprocess
import sys

import pytest

from calibkit import cli
from calibkit_companion.experiments import plan
from calibkit_companion.records import folders
from calibkit_companion.records.record import Record
from tests import records


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))


SMOKE = ["--edition", "smoke", "--seeds", "1", "--epochs", "1", "--method", "erm"]


def test_train_then_list(capsys):
    assert cli.main(["runs", *SMOKE, "--missing"]) == 0
    name = capsys.readouterr().out.strip()
    assert cli.main(["train", *SMOKE, "--quiet"]) == 0
    line = capsys.readouterr().out.strip()
    assert line.startswith(f"done     {name}") and line.endswith("  [1/1]")
    assert cli.main(["runs", *SMOKE]) == 0
    assert capsys.readouterr().out.splitlines()[0] == line.removesuffix("  [1/1]")
    assert cli.main(["runs", *SMOKE, "--missing"]) == 0
    assert capsys.readouterr().out == ""


def test_train_keeps_as_many_replicates_as_the_protocol_says(capsys):
    assert cli.main(["train", *SMOKE, "--quiet", "--replicates"]) == 0
    (run,) = plan.Selection("smoke", seeds=1, epochs=1).runs(["erm"])
    record = folders.load(run)
    assert {"arrays.npz", "replicates.npz"} <= record.info["sha256"].keys()
    assert record.replicates.deviation("auroc").shape == (run.protocol.replicates,) == (10,)


def costing(run: plan.Run, seconds: float) -> Record:
    row = {"epoch": 4, "accuracy": 0.5, "ece": 0.1, "auroc": 0.8}
    return folders.save(run, "done", [row], {}, {"seconds": seconds, "device": "abacus"})


def test_runs_end_with_counts_and_hours(capsys):
    both = ["--edition", "smoke", "--epochs", "4", "--method", "erm", "--method", "sam"]
    erm, other, sam, missing = plan.Selection("smoke", epochs=4).runs(["erm", "sam"])
    costing(erm, 7200.0)
    cli.main(["runs", *both])
    last = capsys.readouterr().out.splitlines()[-1]
    counts = "4 runs: 1 done, 0 running, 3 missing, 0 diverged, 0 damaged"
    assert last == f"{counts}; 2.00 h spent, about 10.00 h left"  # SAM takes every step twice
    costing(sam, 14400.0)
    file = costing(other, 3600.0).path / "arrays.npz"
    file.write_bytes(file.read_bytes()[:-1])
    cli.main(["runs", *both])
    *rows, last = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["done", "damaged", "done", "missing"]
    counts = "4 runs: 2 done, 0 running, 1 missing, 0 diverged, 1 damaged"
    assert last == f"{counts}; 6.00 h spent, about 6.00 h left"  # 2 of erm, 4 of sam
    cli.main(["runs", *both, "--missing"])
    assert capsys.readouterr().out.split() == [other.name, missing.name]
    cli.main(["runs", *SMOKE])
    assert "0 damaged; 0.00 h spent, cost of the rest unknown" in capsys.readouterr().out


def test_count_and_time_are_those_of_the_run_asked_for(capsys):
    several = [*SMOKE[:2], "--seeds", "3", *SMOKE[4:]]
    cli.main(["runs", *several, "--missing"])
    name = capsys.readouterr().out.split()[0]
    assert cli.main(["train", name, *several, "--quiet"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert name in line and line.endswith("  [1/1]")


def test_a_reader_of_the_pipe_may_leave_early():
    command = f"{sys.executable} -m calibkit runs --edition paper --paper all | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("missing") and not done.stderr


def test_runs_of_another_process_come_last(capsys, monkeypatch):
    two = [*SMOKE[:2], "--seeds", "2", *SMOKE[4:]]
    cli.main(["runs", *two, "--missing"])
    first, second = capsys.readouterr().out.split()
    (lock := folders.runs_root()).mkdir(exist_ok=True)
    code = "import filelock, sys, time; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); "
    code += "print(flush=True); time.sleep(3)"
    command = [sys.executable, "-c", code, lock / f".{first}.lock"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        cli.main(["runs", *two])
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[:2]] == [
            "running",
            "missing",
        ]
        # Another process takes it a moment after this one asked.
        monkeypatch.setattr(folders, "held", lambda run: False)
        assert cli.main(["train", *two, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert re.findall(r"(\w+) +(gaussians-\S+)", said) == [
        ("running", first),
        ("done", second),
        ("done", first),
    ]
    assert "process; comes last here" in said and "[1/2] about" in said


def test_ctrl_c_is_one_line(capsys, monkeypatch):
    def interrupted(*_, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("calibkit_companion.training.loop.train", interrupted)
    assert cli.main(["train", *SMOKE]) == 130
    assert capsys.readouterr().err == "calibkit: interrupted; the same command resumes from here\n"
    monkeypatch.setattr("calibkit.report.build", interrupted)
    assert cli.main(["report", "preds.npz"]) == 130
    assert capsys.readouterr().err == "calibkit: interrupted\n"


def test_a_row_of_tables_without_predictions_is_trained_again_for_them(capsys):
    names = ["--edition", "smoke", "--method", "erm", "--seeds", "1"]
    cli.main(["train", *names, "--quiet"])
    run = plan.Selection("smoke", seeds=1).runs(["erm"])[0]
    arrays = (folders.load(run).path / "arrays.npz").read_bytes()
    cli.main(["collect", "--edition", "smoke"])
    shutil.rmtree(folders.load(run).path)
    assert folders.load(run).light
    cli.main(["train", *names, "--quiet"])
    assert folders.load(run).light  # done is done
    cli.main(["train", "--again", run.name, "--quiet"])
    assert (folders.load(run).path / "arrays.npz").read_bytes() == arrays
    cli.main(["train", *names, "--quiet", "--replicates"])
    assert set(folders.load(run).info["sha256"]) >= {"arrays.npz", "replicates.npz"}


def names_of_folders():
    return {path.name for path in folders.runs_root().glob("*") if path.is_dir()}


def test_deleting_lists_and_asks(capsys, monkeypatch):
    for run in plan.Selection("smoke", dataset="digits", seeds=1).runs(["erm", "mixup"]):
        records.write(run)
    before = names_of_folders()
    chosen = ["--edition", "smoke", "--dataset", "digits", "--method", "mixup"]
    monkeypatch.setattr("builtins.input", lambda question: "")
    assert cli.main(["delete", *chosen]) == 0
    assert names_of_folders() == before and "digits-mlp-mixup" in capsys.readouterr().out
    monkeypatch.setattr("builtins.input", lambda question: "y")
    assert cli.main(["delete", *chosen]) == 0
    assert [name.split("-")[2] for name in names_of_folders()] == ["erm"]
    assert cli.main(["delete"]) == 2  # not everything for want of a word
    assert cli.main(["delete", "digits-mlp-erm"]) == 2 and len(names_of_folders()) == 1


def test_folders_are_deleted_by_name_whatever_they_hold(capsys):
    (run,) = plan.Selection("smoke", seeds=1).runs(["erm"])
    records.write(run)
    unreadable = folders.runs_root() / "of-no-plan-s0-00000000"
    unreadable.mkdir()
    assert cli.main(["delete", unreadable.name, "--yes"]) == 0
    assert names_of_folders() == {run.name}


def test_nothing_is_deleted_where_nobody_can_answer(capsys, monkeypatch):
    (run,) = plan.Selection("smoke", seeds=1).runs(["erm"])
    records.write(run)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert cli.main(["delete", run.name]) == 2
    assert "delete: nobody answers; add --yes" in capsys.readouterr().err
    assert names_of_folders() == {run.name}


def test_completion_knows_the_commands(capsys):
    with pytest.raises(SystemExit) as done:
        cli.main(["--print-completion", "bash"])
    assert done.value.code == 0 and "--train-size" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--edition", "smok"], "unknown edition 'smok' (did you mean 'smoke'?); valid: "),
        (["train", "--method", "fcal"], "unknown method 'fcal' (did you mean 'focal'?); nearest"),
        (["train", "erm"], "'erm' is a method: calibkit train --method 'erm'"),
        (["train", "--paper", "fmpf"], "unknown paper or notebook 'fmpf'"),
        (["train", "nonsense", *SMOKE], "unknown run 'nonsense'"),
        (["train", *SMOKE, "--dataset", "mnist"], "'mnist'"),
        (["train", *SMOKE, "--network", "mpl"], "'mpl'"),
        (["train", *SMOKE, "--set", "batchsize=2"], "unknown setting 'batchsize'"),
        (["data", "get", "cifra10"], "'cifra10'"),
    ],
)
def test_wrong_names_are_refused_in_one_line_with_the_valid_ones(arguments, message, capsys):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("calibkit: ") and message in error and error.count("\n") == 1
    assert any(word in error for word in ("valid: ", "expected", "nearest of ", "is a method: "))
    assert len(error) < 500


def test_diverged_run_is_said_and_listed(capsys):
    arguments = ["train", *SMOKE, "--quiet"]
    arguments[arguments.index("erm")] = "l1_norm(strength=1e30)"
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out.startswith("diverged")
    arguments.remove("--quiet")
    assert cli.main(["runs", *arguments[1:]]) == 0
    assert capsys.readouterr().out.startswith("diverged")


def test_data_list_names_every_set(capsys):
    assert cli.main(["data", "list"]) == 0
    out = capsys.readouterr().out
    for name in ("mnist1d", "fashion_mnist", "cifar10", "tiny_imagenet", "20newsgroups"):
        assert name in out


class Point:
    """An entry point of another package."""

    value = "other:add_commands"

    def __init__(self, add):
        self.add = add

    def load(self):
        return self.add


def test_another_package_adds_a_command(monkeypatch, capsys):
    def hello(options):
        """Greet somebody."""
        print(f"hello {options.name}")

    def add(commands):
        cli.add_command(commands, "hello", hello)("--name", default="you")

    monkeypatch.setattr(cli, "entry_points", lambda group: [Point(add)])
    assert cli.main(["hello", "--name", "Ada"]) == 0
    assert capsys.readouterr().out == "hello Ada\n"


def test_a_package_whose_commands_fail_is_left_out_and_named(monkeypatch, capsys):
    def broken(commands):
        raise RuntimeError("no such device")

    monkeypatch.setattr(cli, "entry_points", lambda group: [Point(broken)])
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    said = capsys.readouterr()
    line = "calibkit: the commands of other:add_commands are left out: no such device\n"
    assert said.err == line and "recalibrate" in said.out


def test_a_sign_that_the_output_lacks_stops_no_command():
    """As on Windows, where a file is written in cp1252, which has no arrow."""
    command = [sys.executable, "-m", "calibkit", "plan"]
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(command, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b" ? " in done.stdout and "×".encode("cp1252") in done.stdout
