"""The script for a GPU: its rows are runs, its archives are small, and it is rehearsed on a CPU."""

import json
import tarfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import gpu_queue
from calibkit_companion.experiments import looks, plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.records import folders
from calibkit_companion.training import loop


def options(folder, **changes):
    return SimpleNamespace(
        **{"out": folder, "unfinished": None, "rehearse": False, "pace": 0.0, "until": 1e12}
        | changes
    )


def test_rows_are_runs_in_their_order_with_the_numbers_of_seeds_that_are_planned():
    runs = gpu_queue.wanted()
    assert len({run.name for run in runs}) == len(runs)
    first = plan.setting("released", "cifar10-long").runs([parse("erm")])
    assert [run.name for run in runs[:7]] == [run.name for run in first] and len(first) == 7
    for setting, seeds in (("cifar10-long", 7), ("cifar10-augmented", 6), ("cifar10-bsce", 6)):
        place = plan.setting("released", setting)
        own = set(place.runs(place.methods or map(parse, plan.METHODS))) & set(runs)
        assert set(Counter(run.method for run in own).values()) == {seeds}
        for run in own:
            assert looks.seeds(setting, run.method)[-1] == seeds
    kinds = [(r.dataset, r.protocol.epochs, r.protocol.reduction) for r in runs]
    assert {("cifar100", 60, "mean"), ("cifar10", 200, "mean"), ("cifar10", 60, "sum")} <= {*kinds}
    mit = [r for r in runs if r.method.startswith("mit_")]
    assert len(mit) == 6 and {r.protocol.precision for r in mit} == {"float32"}
    assert [r.protocol.bn_statistics for r in runs[-6:]] == ["augmented"] * 6


def test_work_counts_passes():
    protocol = plan.setting("released", "cifar10-long").protocol
    run = plan.Run("cifar10", "resnet18_w32_s2", parse("erm"), 0, protocol)
    assert gpu_queue.work_of(run) == 60 * 45_000
    assert gpu_queue.work_of(replace(run, recipe=parse("fmfp"))) == 2 * 60 * 45_000
    # CS-KD goes forward twice and back once: 4 of the 3 units of a pass.
    assert gpu_queue.work_of(replace(run, recipe=parse("cs_kd"))) == pytest.approx(
        60 * 45_000 * 4 / 3
    )


def smoke(seed: int) -> plan.Run:
    protocol = replace(plan.EDITIONS["smoke"].protocols[""], epochs=1, snapshots=())
    return plan.Run("gaussians", "mlp", parse("erm"), seed, protocol)


@pytest.fixture
def four(tmp_path, monkeypatch):
    """Four tiny runs in place of the queue."""
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gpu_queue, "wanted", lambda rehearse: [smoke(seed) for seed in range(4)])
    return [smoke(seed) for seed in range(4)]


def test_what_is_trained_is_packed_in_small_archives_and_the_rest_is_named(
    four, tmp_path, monkeypatch
):
    for run in four[:3]:
        loop.train(run)
    size = sum(f.stat().st_size + 1024 for f in (folders.runs_root() / four[0].name).iterdir())
    monkeypatch.setattr(gpu_queue, "LARGEST", 2.5 * size)
    gpu_queue.pack(options(tmp_path), four[:3])
    archives = sorted(tmp_path.glob("records-*.tar"))
    names = [{name.split("/")[0] for name in tarfile.open(a).getnames()} for a in archives]
    assert names == [{four[0].name, four[1].name}, {four[2].name}]
    assert json.loads((tmp_path / "unfinished.json").read_text()) == [four[3].name]
    tarfile.open(archives[1]).extractall(tmp_path / "home", filter="data")
    assert folders.load(four[2], tmp_path / "home") is not None
    again = options(tmp_path, unfinished=tmp_path / "unfinished.json")
    assert gpu_queue.missing(again) == [four[3]]


def test_a_run_that_fails_or_is_too_long_does_not_stop_the_others(four, tmp_path, monkeypatch):
    train = loop.train

    def fails_once(run, **changes):
        if run.seed == 1:
            raise RuntimeError("broken\nin two lines")
        return train(run, **changes)

    monkeypatch.setattr(loop, "train", fails_once)
    gpu_queue.work(options(tmp_path))
    assert gpu_queue.missing(options(tmp_path)) == [four[1]]
    monkeypatch.setattr(loop, "train", train)
    gpu_queue.work(options(tmp_path, pace=1.0, until=time.time() + 60))  # 300 s are predicted
    assert gpu_queue.missing(options(tmp_path)) == [four[1]]
    gpu_queue.work(options(tmp_path, pace=1e-6, until=time.time() + 60))
    assert gpu_queue.missing(options(tmp_path)) == []


def test_a_process_without_memory_ends_and_leaves_its_run(four, tmp_path, monkeypatch, capsys):
    def short(run, **changes):
        raise loop.torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(loop, "train", short)
    gpu_queue.work(options(tmp_path))
    (line,) = capsys.readouterr().out.splitlines()
    assert line == f"{four[0].name}: out of memory; one process less from here on"


def test_a_cell_of_the_table_of_speed_is_measured_or_says_why_not():
    cell = next(c for c in gpu_queue.cells(True) if c["tree"] == "new")
    row = gpu_queue.timed(cell, gpu_queue.ROOT, True, 200)
    assert row["graph"] == "Tape" and row["samples_per_second"] > 0, row
    assert len(row["epochs_seconds"]) == cell["together"]
    missing = gpu_queue.timed(cell | {"network": "nothing"}, gpu_queue.ROOT, True, 200)
    assert "nothing" in missing["error"] and missing["error"] in gpu_queue.said(missing)


def test_without_git_and_without_a_copy_there_is_no_old_tree(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_queue, "ROOT", tmp_path)
    assert gpu_queue.old_tree(tmp_path / "old") is None
    (tmp_path / "old" / "calibkit").mkdir(parents=True)
    assert gpu_queue.old_tree(tmp_path / "old") == tmp_path / "old"
    assert Path(gpu_queue.__file__).with_suffix(".toml").exists()
