"""Steps that a graph repeats give the bits of steps that are launched kernel by kernel."""

import gc
from contextlib import nullcontext
from dataclasses import replace
from inspect import signature
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from calibkit_companion import data
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.training import graph, loop
from calibkit_companion.training.graph import NotRepeatable, Steps, Tape, Uncaptured
from calibkit_companion.training.loop import Training, train
from calibkit_companion.training.objectives import _OBJECTIVES, Objective
from tests.test_loop import Anywhere, Stalls, same_bytes

SMOKE = plan.EDITIONS["smoke"].protocols[""]
# 230 samples in batches of 32: three steps warm up, four are repeated, and a smaller one is last.
SHORT = replace(
    SMOKE, epochs=2, swa_start=1, snapshots=(1,), train_size=230, batch_size=32, clip_norm=2.0
)
OBJECTIVES = list(dict.fromkeys(known.objective for known in plan.METHODS.values()))
NAMES = {known.objective: name for name, known in reversed(plan.METHODS.items())}
EVERYTHING = [
    NAMES[objective] + update + averaging
    for objective, update, averaging in product(OBJECTIVES, ("", "+sam"), ("", "+swa"))
    if parse(NAMES[objective]).update == "sgd" and parse(NAMES[objective]).averaging == "none"
]


def run(name="erm", dataset="gaussians", network="mlp", **changes) -> plan.Run:
    return plan.Run(dataset, network, parse(name), 0, replace(SHORT, **changes))


def trained(wanted: plan.Run, kind=None, device="cpu", augmented=False) -> tuple[Training, dict]:
    """A training after its end, and its arrays."""
    lines = []
    training = Training(wanted, device, log=lines.append, kind=kind)
    if augmented:
        training.data = replace(training.data, augment="crop_flip")
    arrays = training.fit()
    training.lines = [line for line in lines if "graph" in line]
    return training, arrays


def same(first: tuple[Training, dict], second: tuple[Training, dict]) -> bool:
    """Whether two trainings have the same numbers, arrays and weights."""
    arrays = all(np.array_equal(first[1][k], second[1][k], equal_nan=True) for k in first[1])
    weights = (one[0].network.state_dict().values() for one in (first, second))
    alike = all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
    return arrays and alike and first[0].history == second[0].history


def test_every_objective_with_each_update_and_averaging_is_listed():
    assert set(_OBJECTIVES) <= set(OBJECTIVES) and len(EVERYTHING) == 4 * len(OBJECTIVES)


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_graph_repeats_every_objective_update_and_averaging(name):
    assert same(trained(run(name)), trained(run(name), Tape))


@pytest.mark.parametrize("name", ["erm", "mixup_sc", "cs_kd+sam", "crl", "fmfp"])
def test_a_graph_repeats_networks_with_batch_norm_in_bfloat16(name):
    wanted = run(name, "digits", "cnn", precision="bfloat16", clip_norm=None, reduction="sum")
    wanted = replace(wanted, protocol=replace(wanted.protocol, learning_rate=0.001))
    assert same(trained(wanted), trained(wanted, Tape))


def test_a_graph_repeats_adam_and_asks_for_what_it_needs_only_meanwhile():
    asked = []

    class Watching(Tape):
        def capture(self, function, inputs):
            asked.extend(g["capturable"] for g in training.optimizer.param_groups)
            super().capture(function, inputs)

    wanted = run(optimizer="adam", learning_rate=0.01, clip_norm=None)
    training = Training(wanted, "cpu", kind=Watching)
    arrays = training.fit()
    assert same(trained(wanted), (training, arrays)) and asked == [True]
    assert not any(g["capturable"] for g in training.optimizer.param_groups)


def test_the_learning_rate_changes_in_a_graph_that_stays(monkeypatch):
    made = []
    monkeypatch.setattr(Tape, "capture", lambda *a: made.append(1) or Uncaptured.capture(*a))
    wanted = run(epochs=4, milestones=(1, 2), evaluate_every=1)
    graphed = trained(wanted, Tape)
    assert same(trained(wanted), graphed) and made == [1]
    rates = [row["learning_rate"] for row in graphed[0].history]
    assert rates == [wanted.protocol.rate(e) for e in (1, 2, 3, 4)] and len(set(rates)) == 3


def test_an_update_that_changes_is_recorded_anew(monkeypatch):
    made = []
    monkeypatch.setattr(Tape, "capture", lambda *a: made.append(1) or Uncaptured.capture(*a))
    wanted = replace(run("fmfp", epochs=4, swa_start=2), variant="paper")  # plain, then SAM
    assert same(trained(wanted), trained(wanted, Tape)) and len(made) == 2


# --- crops and flips ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["erm", "mixup_sc", "cs_kd+sam"])
def test_images_augmented_one_batch_at_a_time_are_those_of_the_usual_loop(name, monkeypatch):
    monkeypatch.setattr(graph, "PART", 1)
    wanted = run(name, "digits", "cnn")
    usual, graphed = (trained(wanted, kind, augmented=True) for kind in (None, Tape))
    assert same(usual, graphed)
    assert not same(graphed, trained(wanted, Tape))


def test_an_epoch_is_augmented_in_a_few_parts(monkeypatch):
    sizes = []
    augment = data.augment_crop_flip

    def counted(images, generator):
        sizes.append(len(images))
        return augment(images, generator)

    monkeypatch.setattr("calibkit_companion.data.augment_crop_flip", counted)
    for kind in (Tape, Uncaptured):
        sizes.clear()
        monkeypatch.setattr(graph, "PART", 4 * 32 * 64)  # four batches of digits
        trained(run("cs_kd", "digits", "cnn", epochs=1), kind, augmented=True)
        assert sizes == [128, 128, 96, 96, 6, 6]  # seven batches and six samples; and partners
    wanted = run("cs_kd", "digits", "cnn")
    assert same(*(trained(wanted, kind, augmented=True) for kind in (Tape, Uncaptured)))


def test_moves_of_a_part_are_moves_of_its_images():
    """Each image of a part is a crop, mirrored or not, of the image at its position."""
    training = Training(run("erm", "digits", "cnn"), "cpu", kind=Uncaptured)
    training.data = replace(training.data, augment="crop_flip")
    usual = torch.arange(96).split(32)
    images, _, index = map(torch.stack, zip(*training.steps._fed(usual), strict=True))
    assert torch.equal(index.flatten(), torch.arange(96))
    padded = torch.nn.functional.pad(
        training._normalised(training.splits["train"].inputs[:96]), (4,) * 4
    )
    for image, wide in zip(images.flatten(0, 1), padded, strict=True):
        crops = (wide[:, i : i + 8, j : j + 8] for i in range(9) for j in range(9))
        assert any(torch.equal(image, c) or torch.equal(image, c.flip(2)) for c in crops)


def test_images_that_are_decoded_meanwhile_are_repeated(photos):
    changes = {"train_size": None, "validation": 4, "batch_size": 3}
    wanted = run("cs_kd", photos, "cnn", **changes)
    assert same(*(trained(wanted, kind, augmented=True) for kind in (None, Tape)))


# --- what a graph does not repeat -----------------------------------------------------------------


def test_what_has_no_graph_says_so_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    without = {o for o in OBJECTIVES if not Training(run(NAMES[o]), "cpu", kind=Tape).steps}
    assert without == {"consistency_gra"}
    (line,) = trained(run("consistency_gra"), Tape)[0].lines
    assert line.endswith(
        "trains without a CUDA graph (consistency_gra makes its random choices in Python at every "
        "step)"
    )
    Path("mine.py").write_text(
        "from calibkit import losses\ndef plain(z, y):\n    return losses.cross_entropy(z, y)\n"
    )
    (line,) = trained(run("mine.py:plain"), Tape)[0].lines
    assert line.endswith("trains without a CUDA graph (code of your own may decide in Python)")


def test_the_cpu_has_no_graph_and_a_compiler_that_makes_graphs_keeps_them():
    assert Training(run(), "cpu").steps is None
    assert Training(run(), "cpu", kind=Tape).steps is not None
    training = Training(run(), "cpu")
    training.mode = "reduce-overhead"
    assert graph.steps(training, Tape) is None


@pytest.mark.parametrize("name", [n for n in EVERYTHING if "consistency" not in n])
def test_a_step_waits_for_nothing(name, monkeypatch):
    """On "meta", which has no values to give; it stands for a GPU."""
    monkeypatch.setattr(torch, "Generator", Anywhere)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "bincount", lambda x, minlength: x.new_zeros(minlength))
    training = Training(run(name, "digits", "cnn", validation=None), "meta", kind=Uncaptured)
    training.optimizer.param_groups[0].update(fused=False, lr=0.1)  # not on this device
    training.steps.sharp = training.run.recipe.update == "sam"
    (batch,) = torch.arange(32, device="meta").split(32)
    with Stalls() as stalls:
        for inputs in training.steps._fed([batch]):
            assert all(each.device.type == "meta" for each in inputs)
            training.steps._step(inputs)
    assert stalls.asked == 0


def test_a_tape_refuses_what_a_graph_would_not_repeat():
    values, numbers = torch.ones(3), iter(range(9))

    def refused(function, match, inputs=()):
        tape = Tape()
        tape.capture(function, inputs)
        with pytest.raises(NotRepeatable, match=match):
            for _ in range(2):
                tape.replay()

    refused(lambda: float(values.sum()), "reads a number from a tensor")
    refused(lambda: values + torch.tensor([1.0]), "makes a tensor from numbers")
    refused(lambda: values * next(numbers), "and a later one aten.mul")
    refused(lambda: values[: next(numbers) % 2 + 1].sum(), "and a later one aten.slice")
    refused(lambda: [values.sum() for _ in range(next(numbers))], "did 4 operations, and a later")
    kept = []
    refused(lambda: kept.append(values.clone()) or kept[-2:][0].sum(), "a later one aten.sum")
    step = Tape()
    step.capture(lambda: kept.append(values * 2), [values])
    step.replay()
    assert values.isnan().all()  # the next step must bring its own
    values.copy_(torch.ones(3))
    step.replay()
    assert kept[-1].tolist() == [2, 2, 2]


def test_a_tape_finds_a_learning_rate_that_is_a_number():
    weights = torch.nn.Parameter(torch.ones(3))
    weights.grad = torch.ones(3)
    optimizer = torch.optim.SGD([weights], lr=0.1, fused=True)
    tape = Tape()
    tape.capture(optimizer.step, [])
    tape.replay()
    tape.replay()
    optimizer.param_groups[0]["lr"] = 0.01
    with pytest.raises(NotRepeatable, match="_fused_sgd_"):
        tape.replay()


def test_a_capture_that_fails_is_said_once_and_changes_nothing():
    class Failing(Tape):
        def capture(self, function, inputs):
            try:
                raise RuntimeError("out of memory\nmore lines")
            finally:
                raise RuntimeError("the capture has failed before")

    wanted = run("fmfp", "digits", "cnn")
    training, arrays = trained(wanted, Failing)
    assert same(trained(wanted), (training, arrays))
    (line,) = training.lines
    assert line.endswith("trains without a CUDA graph (out of memory)")


def test_a_cuda_graph_that_fails_leaves_stream_and_collector_as_they_were(monkeypatch):
    now, real = ["usual"], signature(torch.cuda.graph)

    class Recording:
        def __init__(self, *given, **named):
            real.bind(*given, **named)  # PyTorch takes these arguments
            self.stream = named["stream"]

        def __enter__(self):
            now[0] = self.stream

        def __exit__(self, *_):
            raise RuntimeError("CUDA error: operation failed due to a previous error")

    monkeypatch.setattr(torch.cuda, "Stream", lambda: "its own")
    monkeypatch.setattr(torch.cuda, "default_stream", lambda: "usual")
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", Recording)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: now[0])
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: now.__setitem__(0, stream))
    seen = []
    with pytest.raises(RuntimeError, match="previous error"):
        graph.CudaGraph().capture(lambda: seen.append((now[0], gc.isenabled())), [])
    assert seen == [("its own", False)] and now == ["usual"] and gc.isenabled()
    gc.disable()
    try:
        with pytest.raises(RuntimeError, match="previous error"):
            graph.CudaGraph().capture(lambda: None, [])
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_cuda_graph_records_on_the_stream_of_its_run_and_frees_itself_at_once(monkeypatch):
    """A stream that several graphs share loses its workspace when one of them is freed."""
    freed = []

    class Recorded:
        def reset(self):
            freed.append(self)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recorded)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: "new")
    monkeypatch.setattr(torch.cuda, "default_stream", lambda: "default")
    for current, expected in (("default", "new"), ("of the run", "of the run")):
        monkeypatch.setattr(torch.cuda, "current_stream", lambda now=current: now)
        made = graph.CudaGraph()
        assert made.stream == expected
        made.free()
        assert freed[-1] is made.graph


def test_a_graph_is_freed_before_the_next_one_and_at_the_end_of_its_run(tmp_path, monkeypatch):
    done = []

    class Counted(Tape):
        def __init__(self):
            super().__init__()
            done.append("made")

        def free(self):
            done.append("freed")

    monkeypatch.setattr(loop.graph, "steps", lambda training, kind: Steps(training, Counted))
    train(replace(run("fmfp", epochs=4, swa_start=2), variant="paper"), tmp_path)
    assert done == ["made", "freed"] * 2
    train(run(learning_rate=1e20, clip_norm=None), tmp_path)  # diverges
    with pytest.raises(KeyboardInterrupt):
        train(run("sam", evaluate_every=1), tmp_path, log=interrupt)
    assert done == ["made", "freed"] * 4


def interrupt(line):
    raise KeyboardInterrupt


def test_an_interrupted_run_goes_on_with_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(loop.graph, "steps", lambda training, kind: Steps(training, Tape))
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0)
    wanted = run("crl+sam+swa", "digits", "cnn", epochs=5, milestones=(2,), evaluate_every=1)

    def stop_in_epoch_3(line):
        if "epoch 3/" in line:
            raise KeyboardInterrupt

    whole, lines = train(wanted, tmp_path / "a"), []
    with pytest.raises(KeyboardInterrupt):
        train(wanted, tmp_path / "b", log=stop_in_epoch_3)
    resumed = train(wanted, tmp_path / "b", log=lines.append)
    assert "goes on after epoch 2" in lines[0] and same_bytes(whole.path, resumed.path)
    monkeypatch.undo()
    assert same_bytes(whole.path, train(wanted, tmp_path / "c").path)


def test_a_run_that_diverges_in_a_graph_is_recorded_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(loop.graph, "steps", lambda training, kind: Steps(training, Tape))
    assert train(run(learning_rate=1e20, clip_norm=None), tmp_path).diverged


def test_objectives_choose_in_the_same_shapes():
    for objective in OBJECTIVES:
        draw = Training(run(NAMES[objective]), "cpu").draw
        if isinstance(draw, Objective):
            shapes = [
                [np.shape(each) for each in draw.choose(7, np.random.default_rng(seed))]
                for seed in (0, 1)
            ]
            assert shapes[0] == shapes[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", EVERYTHING)
def test_a_cuda_graph_gives_the_bits_of_its_steps_one_by_one(name):
    wanted = run(name, "digits", "cnn", precision="bfloat16", train_size=1000, batch_size=128)
    graphed, single = (trained(wanted, k, "cuda", True) for k in (None, Uncaptured))
    assert same(graphed, single) and len(graphed[0].lines) == ("consistency" in name)
