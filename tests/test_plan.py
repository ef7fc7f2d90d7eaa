"""Runs are named by their content, methods are points on three axes, and names are checked."""

import subprocess
import sys
from dataclasses import replace

import pytest

from calibkit import grid, protocols
from calibkit.protocols import Protocol

RUN = grid.Run("mnist1d", "cnn", "erm", 0, Protocol(epochs=10))


def test_name_is_readable_stable_and_safe():
    # A changed name orphans every committed record: this literal may change only on purpose.
    assert RUN.name == "mnist1d-cnn-erm-s0-3fcecf8b"
    assert RUN.name == grid.Run("mnist1d", "cnn", "erm", 0, Protocol(epochs=10)).name
    odd = replace(RUN, method="focal(gamma=5)+sam")
    assert odd.name.startswith("mnist1d-cnn-focal-gamma5-sam-s0-")
    assert not set(odd.name) & set(" ()=+/\\'\"$;")


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "digits"},
        {"network": "mlp"},
        {"method": "sam"},
        {"seed": 1},
        {"variant": "paper"},
        {"protocol": Protocol(epochs=11)},
    ],
)
def test_every_part_of_the_content_changes_the_hash(change):
    assert replace(RUN, **change).name[-8:] != RUN.name[-8:]


def test_settings_at_their_defaults_do_not_show_in_the_content():
    assert RUN.content() == {
        "dataset": "mnist1d",
        "network": "cnn",
        "method": {},
        "seed": 0,
        "protocol": {"epochs": 10},
    }
    content = replace(RUN, method="focal+sam", variant="paper").content()
    assert content["method"] == {"objective": "focal", "options": {"gamma": 3.0}, "update": "sam"}
    assert content["variant"] == "paper"


def test_same_content_is_the_same_run():
    assert replace(RUN, method="erm+sam+swa") == replace(RUN, method="fmfp")
    assert replace(RUN, method="focal(gamma=3)") == replace(RUN, method="focal")
    assert replace(RUN, method=" focal ( gamma = 5.0 ) + swa ").method == "focal(gamma=5)+swa"


def test_method_text_round_trips():
    for name, known in grid.METHODS.items():
        assert grid.method_name(known) == name
        for axes in ("+sam", "+swa", "+sam+swa"):
            combined = grid.method(name + axes)
            assert grid.method(grid.method_name(combined)) == combined


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ermm", "unknown method 'ermm' .did you mean 'erm'.*valid: brier"),
        ("focal(gama=2)", "unknown option of focal 'gama'.*valid: gamma"),
        ("focal(gamma=x)", "option gamma of focal: got 'x', expected a finite number"),
        ("focal(gamma=nan)", "option gamma of focal: got 'nan', expected a finite number"),
        ("erm+adam", "unknown axis 'adam'.*valid: sam, swa"),
        ("focal(", "expected name"),
    ],
)
def test_bad_method_is_refused_in_one_line(text, message):
    with pytest.raises(ValueError, match=message) as error:
        grid.method(text)
    assert "\n" not in str(error.value)


def test_selection_and_shared_runs():
    demo = grid.runs("fmfp", "demo")
    assert {run.dataset for run in demo} == {"mnist1d"}
    own, paper_variant, scored = grid.PAPERS["fmfp"]
    assert len(demo) == len({run.name for run in demo}) == 3 * (len(own.methods) + 1 + 1)
    assert [run.seed for run in demo if run.variant == "paper"] == [0, 1, 2]
    assert [run.method for run in demo if run.protocol.scores] == 3 * ["erm"]
    assert set(grid.runs("tour", "demo")) < set(demo)
    everything = grid.runs("all", "demo")
    assert len({run.name for run in everything}) == len(everything)
    few = grid.runs("fmfp", "demo", seeds=2, dataset="digits")
    assert {(run.dataset, run.seed) for run in few} == {("digits", 0), ("digits", 1)}
    sizes = {run.protocol.train_size for run in grid.runs("overconf", "demo")}
    assert sizes == {250, 500, 1000, 2000, 4000}
    where = {(run.dataset, run.network): run.seed for run in grid.runs("other_data", "fashion")}
    texts = ("20newsgroups", "textcnn")
    assert where == {("fashion_mnist", "cnn"): 4, ("cifar10", "cnn"): 4, texts: 2}  # last seeds
    mixed = {run.dataset for run in grid.runs("other_data", "fashion") if run.method == "mixup"}
    assert mixed == {"fashion_mnist", "cifar10"}  # token ids cannot be mixed
    # What would have to be fetched is left out of an edition that trains on the spot.
    wanted = {run.dataset for run in grid.runs("claims", "fashion")}
    assert wanted == {"fashion_mnist", "20newsgroups", "gaussians"}
    assert {run.dataset for run in grid.runs("claims", "demo")} == {"mnist1d", "gaussians"}
    asked = grid.runs("other_data", "fashion", dataset="digits")
    assert {run.dataset for run in asked} == {"digits"}
    chosen = grid.select("demo", ["erm"], "fashion_mnist", "mlp", seeds=2, epochs=5)
    assert [(r.dataset, r.network, r.seed, r.protocol.epochs) for r in chosen] == [
        ("fashion_mnist", "mlp", 0, 5),
        ("fashion_mnist", "mlp", 1, 5),
    ]
    with pytest.raises(ValueError, match="unknown edition 'huge'.*valid: cifar10, demo, fashion"):
        grid.select("huge", ["erm"])


def test_settings_of_the_protocol_by_name():
    (run,) = grid.select("demo", ["erm"], seeds=1, settings={"batch_size": 50, "clip_norm": 2.0})
    assert (run.protocol.batch_size, run.protocol.clip_norm) == (50, 2.0)
    assert run.name != grid.select("demo", ["erm"], seeds=1)[0].name
    with pytest.raises(ValueError, match="unknown setting 'batchsize'.*did you mean 'batch_size'"):
        grid.select("demo", ["erm"], settings={"batchsize": 50})
    with pytest.raises(ValueError, match="setting batch_size: got 'many', expected a value such"):
        grid.select("demo", ["erm"], settings={"batch_size": "many"})


def test_grid_imports_nothing_heavy():
    code = "import sys, calibkit.grid; print({'torch', 'numpy', 'matplotlib'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_step_schedule_drops_after_its_milestones():
    rate = protocols.FMFP_CIFAR.rate
    assert [rate(e) for e in (1, 80)] == [0.1, 0.1]
    assert rate(81) == pytest.approx(0.01) and rate(131) == pytest.approx(1e-3)
    assert rate(200) == pytest.approx(1e-4)


def test_averaging_schedule_is_the_one_traced_in_the_authors_code():
    # Learning rates printed by the public fmfp scripts at these epochs.
    traced = {
        1: 0.1,
        51: 0.05,
        101: 0.0,
        111: 0.0024,
        120: 0.0087,
        121: 0.0096,
        126: 0.030,
        131: 0.05,
    }
    for epoch, rate in traced.items():
        assert protocols.FMFP_CIFAR.rate(epoch, "swa") == pytest.approx(rate, abs=3e-4), epoch
    assert protocols.FMFP_CIFAR.rate(200, "swa") == pytest.approx(0.05)


def test_averaging_schedule_as_written_starts_from_the_baseline():
    plain, rate = protocols.FMFP_CIFAR.rate, protocols.FMFP_CIFAR.rate
    for epoch in (1, 80, 81, 120):
        assert rate(epoch, "swa", "paper") == plain(epoch)
    assert rate(121, "swa", "paper") == 0.05


def test_shortened_keeps_proportions():
    short = protocols.FMFP_CIFAR.shortened(40)
    assert (short.epochs, short.milestones, short.swa_start) == (40, (16, 26, 34), 24)
    assert short.swa_anneal == 2 and short.snapshots == (4, 16, 28)
    one = protocols.FMFP_CIFAR.shortened(1)
    assert one.epochs == 1 and one.evaluate_every == 1
    with pytest.raises(ValueError, match="epochs: got 0"):
        protocols.FMFP_CIFAR.shortened(0)
