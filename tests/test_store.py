"""A record is all there or not there, is checked when read, and holds no pickle."""

import gzip
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from calibkit_companion.experiments.plan import Run
from calibkit_companion.experiments.protocol import Protocol
from calibkit_companion.records import deviations, folders
from calibkit_companion.records.record import DamagedRecord

RUN = Run("gaussians", "mlp", "erm", 0, Protocol(epochs=3))
HISTORY = [{"epoch": 1, "loss": 0.1 + 0.2}, {"epoch": 3, "loss": float("nan")}]
ARRAYS = {
    "test_logits": np.arange(6, dtype=np.float32).reshape(2, 3),
    "test_labels": np.array([0, 2], np.int16),
    "snapshot_epochs": np.array([1], np.int16),
    "snapshot_logits": np.zeros((1, 2, 3), np.float32),
    "train_brier": np.array([0.5], np.float16),
}


def save(root, **changes):
    return folders.save(RUN, "done", HISTORY, ARRAYS, {"seconds": 1.0} | changes, root)


def test_round_trip(tmp_path):
    assert folders.load(RUN, tmp_path) is None
    save(tmp_path)
    record = folders.load(RUN, tmp_path)
    assert record.info["run"]["dataset"] == "gaussians" and not record.diverged
    assert set(record.arrays) == set(ARRAYS)
    assert (
        record.arrays["train_brier"].dtype == np.float32
    )  # stored as half, computed with as single
    np.testing.assert_array_equal(record.arrays["test_logits"], ARRAYS["test_logits"])
    np.testing.assert_array_equal(record.history["epoch"], [1, 3])
    assert record.history["loss"][0] == pytest.approx(0.3) and np.isnan(record.history["loss"][1])
    assert list(record.snapshots) == [1, 3]


def test_an_empty_folder_is_no_record_and_no_hindrance(tmp_path):
    (tmp_path / RUN.name).mkdir()
    assert folders.verify(RUN, tmp_path) is None
    save(tmp_path)
    assert folders.load(RUN, tmp_path) is not None
    assert [p.name for p in tmp_path.iterdir()] == [RUN.name]


def test_same_content_same_bytes(tmp_path):
    first, second = save(tmp_path / "a", seconds=1.0), save(tmp_path / "b", seconds=2.0)
    for file in ("history.csv", "arrays.npz"):
        assert (first.path / file).read_bytes() == (second.path / file).read_bytes()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"run": {}}', "null", '{"run": 1, "status": 2}', "[" * 100_000]
)
def test_unreadable_run_json_is_a_named_error(tmp_path, text):
    (save(tmp_path).path / "run.json").write_text(text)
    with pytest.raises(DamagedRecord):
        folders.load(RUN, tmp_path)
    assert folders.verify(RUN, tmp_path) is None


@pytest.mark.parametrize(
    "change",
    [
        {"status": "diverged"},
        {"provenance": {"seconds": 2.0}},
        {"sha256": {"history.csv": "0" * 64}},
        {"more": 1},
        {"seal": "0" * 64},
    ],
)
def test_altered_run_json_is_found(tmp_path, change):
    path = save(tmp_path).path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedRecord, match="altered"):
        folders.load(RUN, tmp_path)


def test_shift_table_is_small(tmp_path):
    rows = [{"shift": "fog", "severity": 1, "auroc": 0.87654321}]
    for root in ("a", "b"):
        folders.save(RUN, "done", HISTORY, ARRAYS, {"seconds": 1.0}, tmp_path / root, rows)
    record = folders.load(RUN, tmp_path / "a")
    packed = record.path / "shifted.csv.gz"
    assert packed.read_bytes() == (tmp_path / "b" / RUN.name / packed.name).read_bytes()
    assert record.shifted["auroc"].tolist() == [0.87654] and record.shifted["shift"] == ["fog"]
    assert "auroc" in gzip.decompress(packed.read_bytes()).decode()


def test_what_cannot_be_read_now_is_not_taken_for_damaged(tmp_path, monkeypatch):
    path = save(tmp_path).path

    def refuse(*_):
        raise PermissionError("not yours")

    for reader in ("record.durable.read", "folders.json.loads"):
        with monkeypatch.context() as patched:
            patched.setattr(f"calibkit_companion.records.{reader}", refuse)
            with pytest.raises(PermissionError):
                folders.verify(RUN, tmp_path)
    assert path.exists() and folders.verify(RUN, tmp_path) is not None


def test_damaged_record_that_another_process_has_set_aside_first(tmp_path, monkeypatch):
    (save(tmp_path).path / "history.csv").write_text("")
    rename = folders.Path.rename

    def late(path, aside):
        rename(path, aside)
        return rename(path, aside)

    monkeypatch.setattr(folders.Path, "rename", late)
    assert folders.verify(RUN, tmp_path) is None


def test_record_of_another_run_is_refused(tmp_path):
    path = save(tmp_path).path / "run.json"
    info = json.loads(path.read_text())
    info["run"]["seed"] = 7
    path.write_text(json.dumps(info))
    with pytest.raises(DamagedRecord, match="different run"):
        folders.load(RUN, tmp_path)


def test_no_pickle_is_written_or_read(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle"):
        folders.save(RUN, "done", [], {"a": np.array([{}], object)}, {}, tmp_path)
    assert not list(tmp_path.iterdir())  # the failed draft is gone too


def test_killed_while_writing_leaves_no_record(tmp_path):
    code = f"""
import numpy as np, sys
from tests.test_store import RUN
from calibkit_companion.records import folders
big = {{"test_logits": np.random.default_rng(0).random((3_000_000, 10))}}
with folders.locked(RUN, folders.Path({str(tmp_path)!r})):
    print("go", flush=True)
    folders.save(RUN, "done", [], big, {{}}, folders.Path({str(tmp_path)!r}))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=os.getcwd()
    )
    process.stdout.readline()
    while not list(tmp_path.glob(".draft-*/arrays.npz")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert folders.load(RUN, tmp_path) is None
    with folders.locked(RUN, tmp_path):  # the lock is free, and the draft swept away
        assert not list(tmp_path.glob(".draft-*"))


def _hold(root, ready, release):
    with folders.locked(RUN, root):
        ready.set()
        release.wait()


def test_second_process_waits(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, release, entered = context.Event(), context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready, release))
    holder.start()
    assert ready.wait(30)
    waiter = context.Process(target=_hold, args=(tmp_path, entered, release))
    waiter.start()
    assert not entered.wait(3)
    release.set()
    assert entered.wait(30)
    holder.join(30)
    waiter.join(30)
    assert holder.exitcode == waiter.exitcode == 0


def record_with_predictions(root):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=300)
    logits = rng.normal(size=(300, 3)) + 2 * np.eye(3)[labels]
    arrays = {
        "test_logits": logits[:200].astype(np.float16),
        "test_labels": labels[:200].astype(np.int16),
        "validation_logits": logits[200:].astype(np.float16),
        "validation_labels": labels[200:].astype(np.int16),
    }
    return folders.save(RUN, "done", HISTORY, arrays, {"seconds": 1.0}, root)


def test_replicates_are_kept_beside_the_predictions(tmp_path):
    bare = record_with_predictions(tmp_path)
    before = bare.replicates
    whole = folders.add_replicates(bare)
    assert set(whole.info["sha256"]) == {"arrays.npz", "history.csv", "replicates.npz"}
    assert folders.verify(RUN, tmp_path).info == whole.info
    assert whole.info["version"] == folders.VERSION and whole.info["run"] == bare.info["run"]
    after = whole.replicates
    assert after.estimate("auroc") == before.estimate("auroc")
    for name in ("auroc", "ece", "ece_ts_nll"):
        spread = before.deviation(name).std()
        assert after.deviation(name).std() == pytest.approx(spread, rel=5e-3)
        np.testing.assert_allclose(after.deviation(name), before.deviation(name), atol=spread / 20)
    assert folders.add_replicates(whole).info == whole.info  # nothing more to do


def test_pages_made_before_a_record_had_replicates_are_not_made_again(tmp_path):
    bare = record_with_predictions(tmp_path)
    os.utime(bare.path / "run.json", (1e9, 1e9))
    earlier = replace(bare)  # as a page holds it that began before
    whole = folders.add_replicates(bare)
    # A page made before would else be made again: bench does this to records that pages share.
    assert (whole.path / "run.json").stat().st_mtime == 1e9
    for name in ("ece", "auroc"):  # read, not made again: as the file has it
        assert (earlier.replicates.deviation(name) == whole.replicates.deviation(name)).all()


@pytest.mark.parametrize("step", ["save", "replicates.npz", "run.json"])
def test_adding_replicates_killed_at_any_step_leaves_a_whole_record(tmp_path, step, monkeypatch):
    bare, real = record_with_predictions(tmp_path), folders.Path.replace

    def dies(path, *more, **options):
        if step == "save" or step == path.name:
            raise KeyboardInterrupt
        return real(path, *more, **options)

    place = (folders.Path, "replace") if step != "save" else (deviations.Replicates, "save")
    monkeypatch.setattr(*place, dies)
    with pytest.raises(KeyboardInterrupt):
        folders.add_replicates(bare)
    monkeypatch.undo()
    found = folders.verify(RUN, tmp_path)
    assert found.info == bare.info
    assert found.replicates.estimate("accuracy") == bare.replicates.estimate("accuracy")
    assert "replicates.npz" in folders.add_replicates(found).info["sha256"]


def test_asking_whether_a_run_is_held_leaves_nothing_behind(tmp_path):
    assert not folders.held(RUN.name, tmp_path) and not list(tmp_path.iterdir())
    with folders.locked(RUN, tmp_path):
        assert folders.held(RUN.name, tmp_path)
    assert not folders.held(RUN.name, tmp_path)
