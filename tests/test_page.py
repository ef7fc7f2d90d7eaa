"""Pages: parameters, boxes, settings in words."""

from pathlib import Path

import pytest
import torch

from calibkit_companion import results
from calibkit_companion.pages import page
from calibkit_companion.records.record import Record
from calibkit_companion.training import machine, side_by_side

# --- what a page starts with ---

PARAMETERS = 'edition = "demo"  # which\nseeds = 0'


def test_injected_parameters_must_exist():
    page.check_parameters([PARAMETERS])
    page.check_parameters([PARAMETERS, "# Parameters\nseeds = 3\n"])
    with pytest.raises(
        ValueError,
        match=r"unknown parameter 'sedes' .did you mean 'seeds'\?.; valid: edition, seeds",
    ):
        page.check_parameters(["%matplotlib inline", PARAMETERS, "# Parameters\nsedes = 3\n"])


def test_outside_of_a_notebook_nothing_is_prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    page.begin()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    return tmp_path


def test_a_cheap_edition_trains_what_is_missing_and_reuses_it(cache, capsys):
    runs = results.load("tour", "smoke", dataset="gaussians", seeds=1)
    assert len(runs.records("erm")) == 1 and "training" in capsys.readouterr().out
    again = results.load("tour", "smoke", dataset="gaussians", seeds=1)
    assert again.mean("erm", "accuracy")["erm"].estimate > 0.3
    assert "training" not in capsys.readouterr().out
    assert "gaussians" in runs.caption or "Gaussians" in runs.caption


def test_on_a_gpu_the_runs_of_a_page_train_side_by_side(cache, monkeypatch):
    asked, train = [], side_by_side.train

    def on_cpu(runs):
        asked.append([run.name for run in runs])
        return train(runs, "cpu")

    monkeypatch.setattr(machine, "device", lambda name="cuda": torch.device(name))
    monkeypatch.setattr(side_by_side, "train", on_cpu)
    runs, several = results.load("tour", "smoke", dataset="gaussians", seeds=2), ["mixup", "sam"]
    assert runs.recorded(several) == runs.drawable(several) == several
    assert len(runs.records("erm")) == 2
    named = [[run.name for m in methods for run in runs.runs(m)] for methods in (several, ["erm"])]
    assert asked == named and len(named[0]) == 4  # together, and no run twice


def test_the_card_of_a_setting_has_what_a_paper_says_of_its_experiments():
    runs = results.load("fmfp", setting="cifar10-plain")
    said = page.protocol(runs)
    its = runs.setting.protocol
    assert f"{its.learning_rate:g}" in said["Learning rate"]
    assert all(str(m) in said["Learning rate"] for m in its.milestones)
    assert f"{its.weight_decay:g}" in said["Optimiser"] and str(its.batch_size) in said["Optimiser"]
    assert runs.title in page.card(runs)


# --- the box of runs ---


def test_the_box_counts_runs_of_a_setting_that_the_page_does_not_plan():
    """Such as CIFAR-10's on a chapter of Fashion-MNIST."""
    other = results.load("mixup", "released").at("cifar10-plain")
    assert not other.methods
    assert not page.provenance(other).records
    drawn = page.provenance(other, other, methods=("erm", "mixup")).records
    assert len(drawn) == sum(len(other.records(m)) for m in ("erm", "mixup")) > 0


def test_the_box_says_from_when_to_when_runs_were_trained():
    made = dict(device="a", torch="2", numpy="2", python="3", calibkit="0", commit="c", seconds=60)

    def box(*days):
        infos = [{"provenance": made | {"started": f"{day}T01:02:03+00:00"}} for day in days]
        records = [Record("a", Path(), info) for info in infos]
        return page.Provenance(records)._repr_html_()

    assert "trained 2026-11-22</summary>" in box("2026-11-22", "2026-11-22")
    assert "trained 2026-11-22 to 2026-11-26</summary>" in box("2026-11-26", "2026-11-22")
