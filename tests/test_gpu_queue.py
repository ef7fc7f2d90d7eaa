"""The script for a GPU: its rows are runs, its archives are small, and it is rehearsed on a CPU.

The slow parts are tested by `gpu_queue.py --rehearse`, which trains tiny runs in every part.
"""

import json
import shutil
import tarfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import gpu_pack, gpu_queue, gpu_speed, gpu_train, papermill_gpu
from calibkit import files
from calibkit_companion.data import cache
from calibkit_companion.data.readers import Parts
from calibkit_companion.experiments import cost, looks, plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.records import folders
from calibkit_companion.training import loop

ROOT = Path(__file__).parent.parent


def options(folder, **changes):
    return SimpleNamespace(
        **{"out": folder, "unfinished": None, "rehearse": False, "rate": 1e9, "until": 1e12}
        | {"released": None, "names": folder / "names.json", "old": None}
        | changes
    )


def test_rows_are_runs_in_their_order_with_the_numbers_of_seeds_that_are_planned():
    runs = gpu_train.wanted()
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
    augmented = [r for r in runs if r.protocol.bn_statistics == "augmented"]
    assert len(augmented) == 6 and runs[-17:-11] == augmented
    # Last comes the edition for one GPU: a seed of the main methods.
    edition = set(plan.runs("book", "cifar10"))
    assert set(runs[-11:]) == edition.intersection(runs)
    assert {r.seed for r in runs[-11:]} == {0} and len({r.method for r in runs[-11:]}) == 11


def smoke(seed: int) -> plan.Run:
    protocol = replace(plan.EDITIONS["smoke"].protocols[""], epochs=1, snapshots=())
    return plan.Run("gaussians", "mlp", parse("erm"), seed, protocol)


@pytest.fixture
def four(tmp_path, monkeypatch):
    """Four tiny runs in place of the queue."""
    runs = [smoke(seed) for seed in range(4)]
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))
    for module in (gpu_train, gpu_queue):
        monkeypatch.setattr(module, "compared", lambda rehearse=False: [])
    monkeypatch.setattr(gpu_train, "wanted", lambda rehearse=False: runs)
    (tmp_path / "names.json").write_text(json.dumps([run.name for run in runs]))
    return runs


def packed(folder: Path) -> list[set[str]]:
    """The names of the runs in each archive of a folder."""
    archives = sorted(folder.glob("records-*.tar"))
    return [{name.split("/")[0] for name in tarfile.open(a).getnames()} for a in archives]


def test_what_is_trained_is_packed_as_it_comes_and_the_rest_is_named(four, tmp_path, monkeypatch):
    archives, names = gpu_train.Archives(tmp_path, four), [run.name for run in four]
    archives.add()
    assert packed(tmp_path) == [] and unfinished(tmp_path) == names
    loop.train(four[0])
    archives.add()
    assert packed(tmp_path) == [{names[0]}] and unfinished(tmp_path) == names[1:]
    size = sum(f.stat().st_size + 1024 for f in (folders.runs_root() / names[0]).iterdir())
    monkeypatch.setattr(gpu_train, "LARGEST", 2.5 * size)
    for run in four[1:3]:
        loop.train(run)
    archives.add()
    assert packed(tmp_path) == [{*names[:2]}, {names[2]}] and unfinished(tmp_path) == names[3:]
    with tarfile.open(tmp_path / "records-2.tar") as tar:
        tar.extractall(tmp_path / "home", filter="data")
    assert folders.load(four[2], tmp_path / "home") is not None
    # A record that no archive has room for stays among those that are left.
    loop.train(four[3])
    full = gpu_train.Archives(tmp_path / "full", four)
    full.out.mkdir()
    monkeypatch.setattr(gpu_train, "ARCHIVES", 1)
    full.add()
    assert packed(full.out) == [{*names[:2]}] and unfinished(full.out) == names[2:]


def unfinished(folder: Path) -> list[str]:
    return json.loads((folder / "unfinished.json").read_text())


def test_a_second_call_packs_what_a_killed_one_trained_and_trains_the_rest(
    four, tmp_path, monkeypatch
):
    loop.train(four[0])  # and killed before it was packed
    started = []

    def train(options, runs, until, cache, keep):
        started.extend(runs)
        loop.train(runs[0])
        keep()

    monkeypatch.setattr(gpu_queue, "train", train)
    names = [run.name for run in four]
    files.publish({tmp_path / "left.json": json.dumps(names[:3]).encode()})
    found = options(tmp_path, unfinished=tmp_path / "left.json")
    gpu_queue.queue(found, time.time() + 60)
    assert started == four[1:3]  # the fourth was not named
    assert packed(tmp_path) == [{*names[:2]}] and unfinished(tmp_path) == names[2:3]


def test_a_json_file_is_never_seen_in_part(tmp_path, monkeypatch):
    gpu_train.write(tmp_path / "x.json", [1])
    moved = files.os.replace

    def killed(*paths, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        gpu_train.write(tmp_path / "x.json", [1, 2])
    monkeypatch.setattr(files.os, "replace", moved)
    assert json.loads((tmp_path / "x.json").read_text()) == [1]
    gpu_train.write(tmp_path / "x.json", [1, 2])
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


def test_a_run_that_fails_does_not_stop_the_others(four, tmp_path, monkeypatch, capsys):
    in_turns = loop.in_turns

    def fails_once(run, *changes):
        if run.seed == 1:
            raise RuntimeError("broken\nin two lines")
        return in_turns(run, *changes)

    monkeypatch.setattr(loop, "in_turns", fails_once)
    monkeypatch.setattr(gpu_train.side_by_side, "MOST", 2)
    gpu_train.work(options(tmp_path))  # two batches
    assert gpu_train.listed(options(tmp_path)) == [four[1]]
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"{four[0].name}: done", "RuntimeError: broken"] and len(lines) == 4
    monkeypatch.setattr(loop, "in_turns", in_turns)
    gpu_train.work(options(tmp_path, rate=1.0, until=time.time() + 60))  # 300 s are predicted
    assert gpu_train.listed(options(tmp_path)) == [four[1]]
    gpu_train.work(options(tmp_path, rate=1e6, until=time.time() + 60))
    assert gpu_train.listed(options(tmp_path)) == []


def test_runs_begin_if_they_will_be_finished():
    long, short = smoke(0), replace(smoke(1), protocol=replace(smoke(1).protocol, epochs=1))
    long = replace(long, protocol=replace(long.protocol, epochs=100))
    each = cost.samples(short)
    assert cost.samples(long) == 100 * each
    assert gpu_train.fitting([long, short, smoke(2)], rate=each, seconds=2.5) == [short, smoke(2)]
    assert gpu_train.fitting([long, short], rate=each, seconds=101) == [long, short]
    many = [smoke(seed) for seed in range(20)]
    assert gpu_train.fitting(many, rate=1e9, seconds=60) == many[:8]
    assert gpu_train.fitting(many, rate=1e9, seconds=-1) == []


def test_the_accuracy_of_new_runs_stands_beside_that_of_released_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(ROOT / "data_cache"))
    monkeypatch.setattr(gpu_queue, "ROOT", tmp_path)
    runs = gpu_train.compared()
    assert [(r.method, r.seed, r.network) for r in runs] == [
        ("erm", seed, "resnet18_w16") for seed in range(3)
    ]
    known = gpu_queue.accuracies(runs)
    assert len(known) == 3 and all(0.85 < value < 0.95 for value in known.values())

    def train(options, asked, until, cache, keep):
        assert asked == runs and cache == tmp_path / "build" / "compared"
        history = {"accuracy": np.array([0.1, 0.9])}
        its = {"device": "a GPU", "seconds": 2.0, "seconds_in_epochs": 1.0}
        record = SimpleNamespace(history=history, info={"provenance": its})
        load = folders.load
        monkeypatch.setattr(
            folders, "load", lambda run, root=None: record if run.seed == 0 else None
        )
        keep()
        monkeypatch.setattr(folders, "load", load)

    monkeypatch.setattr(gpu_queue, "train", train)
    gpu_queue.accuracy(options(tmp_path), time.time() + 60)
    first, second, _ = json.loads((tmp_path / "accuracy.json").read_text())
    assert first == {
        "run": runs[0].name,
        "seed": 0,
        "released_accuracy": known[runs[0].name],
        **{"accuracy": 0.9, "device": "a GPU", "seconds": 2.0, "seconds_in_epochs": 1.0},
    }
    assert "accuracy" not in second and second["released_accuracy"] == known[runs[1].name]


@pytest.mark.parametrize("aside", [False, True])
def test_a_row_of_the_table_of_speed_is_measured(aside):
    cells = gpu_speed.cells(True)
    cell = next(c for c in cells if c["tree"] == "new" and c["side_by_side"] == aside)
    row = gpu_speed.timed(cell, gpu_speed.ROOT, True, 200)
    assert row["graph"] == "Tape" and row["samples_per_second"] > 0, row
    many = cell["together"] * (cell["epochs"] - 1)
    assert [len(each) for each in row["epochs_seconds"]] == [many]
    assert cell["together"] == 1 + aside


def test_a_row_that_fails_says_why():
    cell = next(c for c in gpu_speed.cells(True) if c["tree"] == "new")
    missing = gpu_speed.timed(cell | {"network": "nothing"}, gpu_speed.ROOT, True, 200)
    assert "nothing" in missing["error"] and missing["error"] in gpu_speed.said(missing)


def test_the_table_of_speed_has_what_is_asked_and_is_kept_row_by_row(tmp_path, monkeypatch):
    kept = []
    rate = {"old": 100.0, "new": 300.0}
    monkeypatch.setattr(
        gpu_speed,
        "timed",
        lambda cell, *_: (
            cell
            | {"samples_per_second": rate[cell["tree"]] * cell["together"] ** 0.5}
            | {"second_epoch_after": 1.0}
        ),
    )
    (tmp_path / "calibkit").mkdir()
    rows = gpu_speed.measure(tmp_path, False, time.time() + 60, lambda r: kept.append(len(r)))
    assert kept == [*range(1, len(gpu_speed.cells(False)) + 1)] == [*range(1, len(rows) + 1)]
    ratios = gpu_speed.ratios(rows)
    assert ratios["resnet18 erm × 1: new / old"] == ratios["resnet18 fmfp × 1: new / old"] == 3
    assert ratios["resnet18_w32_s2 erm × 4 side by side: new / old"] == 3
    for how in ("× 4 side by side", "× 4"):
        assert ratios[f"resnet18_w32_s2 erm {how}: together / alone"] == 2
    assert gpu_speed.ratios([rows[0], rows[1] | {"error": "broken"}]) == {}
    late = gpu_speed.measure(tmp_path, False, time.time(), lambda r: None)
    assert {row["error"] for row in late} == {"no time was left"}


def test_without_git_and_without_a_copy_there_is_no_old_tree(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_speed, "ROOT", tmp_path)
    assert gpu_speed.old_tree(tmp_path / "old") is None
    (tmp_path / "old" / "calibkit").mkdir(parents=True)
    assert gpu_speed.old_tree(tmp_path / "old") == tmp_path / "old"
    assert Path(gpu_queue.__file__).with_suffix(".toml").exists()


def test_a_data_set_travels_in_folders_of_limited_size(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (300, 3, 32, 32), np.uint8)
    labels = np.arange(300) % 10
    parts = Parts(
        *(images[:200], labels[:200], images[200:], labels[200:]),
        **{"classes": tuple("abcdefghij"), "mean": (0.5,) * 3, "std": (0.25,) * 3, "note": ""},
    )
    monkeypatch.setattr(gpu_pack.pack.__globals__["catalogue"], "read", lambda name: parts)
    monkeypatch.setitem(gpu_pack.pack.__globals__, "MOSAIC_PIXELS", 320)  # three files

    def old(folder):
        (folder / "calibkit").mkdir(parents=True)
        return folder

    def wheels(folder):
        folder.mkdir()
        (folder / "a-1-py3-none-any.whl").write_bytes(b"0" * 1000)
        return [*folder.iterdir()]

    monkeypatch.setattr(gpu_pack, "old_tree", old)
    monkeypatch.setattr(gpu_pack, "_wheels", wheels)
    monkeypatch.setattr(gpu_pack, "_lists", lambda folder: (folder / "unfinished.json").touch())
    made = gpu_pack.prepare(tmp_path / "carried", limit=0.7)
    assert [folder.name for folder in made] == ["1", "2"]
    assert (made[0] / "old" / "calibkit").is_dir() and not (made[0] / "wheels").exists()
    assert len([*(made[1] / "wheels").iterdir()]) == 1
    assert max(map(gpu_pack._size, made)) < 0.8e6
    with pytest.raises(ValueError, match="carried is not empty; name another folder"):
        gpu_pack.prepare(tmp_path / "carried", limit=0.7)

    monkeypatch.setattr(gpu_pack, "HOME", tmp_path / "there")
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "there" / "cache"))
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path / "there" / "datasets"))
    decoded = tmp_path / "there" / "datasets" / "decoded" / "cifar10"
    first = options(tmp_path, carried=made[0])
    gpu_pack.take(first)
    assert (first.old, first.unfinished) == (made[0] / "old", made[0] / "unfinished.json")
    assert not decoded.exists()
    shutil.rmtree(made[1] / "wheels")
    gpu_pack.take(options(tmp_path, carried=made[1]))
    found = cache.find("cifar10", tmp_path / "there" / "datasets")
    assert np.array_equal(found.train, images[:200])


def test_a_page_is_timed_and_what_is_known_is_kept_meanwhile(tmp_path):
    kept = []
    found = papermill_gpu.measured(papermill_gpu.REHEARSED, 0.5, lambda f: kept.append(dict(f)))
    assert not found["finished"] and found["said"] == "not finished after 0 s"
    assert kept and all("decoding_seconds" in one and not one["finished"] for one in kept)
