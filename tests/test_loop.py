"""The loop learns, writes the same bytes twice, survives a kill, and measures what it says."""

import copy
import errno
import io
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from calibkit import losses, metrics
from calibkit_companion import data
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.records import folders, ranking
from calibkit_companion.training.loop import Training, train
from calibkit_companion.training.machine import RoundedProducts, computes_bfloat16

SMOKE = plan.EDITIONS["smoke"].protocols[""]


def run(method="erm", dataset="gaussians", network="mlp", seed=0, **changes) -> plan.Run:
    return plan.Run(dataset, network, parse(method), seed, replace(SMOKE, **changes))


def test_overfits_a_toy():
    training = Training(
        run(
            dataset="digits",
            epochs=40,
            train_size=100,
            validation=None,
            learning_rate=0.02,
            milestones=(30,),
            weight_decay=0.0,
            snapshots=(),
        )
    )
    arrays = training.fit()
    last = training.history[-1]
    assert last["train_accuracy"] == 1.0 and last["loss"] < 0.02
    assert last["accuracy"] > 0.75
    assert (arrays["train_learned_epoch"] > 0).all()


@pytest.mark.parametrize("method", plan.METHODS)
def test_every_method_trains_to_a_whole_record(method, tmp_path):
    record = train(run(method, epochs=2, swa_start=1, snapshots=(1,)), tmp_path)
    assert not record.diverged
    assert list(record.snapshots) == [1, 2]
    n = SMOKE.train_size
    arrays = record.arrays
    assert arrays["train_brier"].shape == arrays["train_gradient_norm"].shape == (2, n)
    assert all(np.isfinite(a).all() for a in arrays.values())
    assert record.history["accuracy"][-1] > 0.3  # chance is 0.2
    correct = arrays["test_logits"].argmax(1) == arrays["test_labels"]
    assert correct.mean() == pytest.approx(record.history["accuracy"][-1], abs=1e-6)


def test_what_is_stored_is_what_was_measured(tmp_path):
    record = train(run("mixup", "digits", "cnn", evaluate_every=2), tmp_path)
    arrays, last = record.arrays, {k: v[-1] for k, v in record.history.items()}
    again = ranking.summary(arrays["test_logits"], arrays["test_labels"].astype(int))
    assert {"auroc", "auroc_log_odds", "aurc_log_odds"} <= again.keys()
    for name, value in again.items():
        assert value == pytest.approx(last[name], rel=1e-6), name


def test_shifted_test_sets_are_measured(tmp_path):
    record = train(run("erm", "mnist1d", "cnn", shifted=500, epochs=8), tmp_path)
    table = record.shifted
    assert table["shift"].tolist() == ["distortion"] * 5
    assert table["severity"].tolist() == [1, 2, 3, 4, 5] and set(table["n"]) == {500}
    unshifted = record.history["accuracy"][-1]
    assert table["accuracy"][0] > table["accuracy"][-1] and unshifted > table["accuracy"][-1]
    assert np.isfinite(table["ece_scaled"]).all()
    assert np.isfinite(table["auroc_log_odds"] + table["auroc_scaled_log_odds"]).all()
    assert (tmp_path / record.name / "shifted.csv.gz").exists()
    plain = train(run("erm", "gaussians", "mlp", shifted=500), tmp_path)  # no shift is known
    assert plain.shifted == {} and set(plain.info["sha256"]) == {"history.csv", "arrays.npz"}


def test_confidences_from_features(tmp_path):
    record = train(run("erm", "digits", "mlp", feature_scores=100, epochs=10), tmp_path)
    arrays = record.arrays
    correct = arrays["test_logits"].argmax(1) == arrays["test_labels"]
    for name in ("test_trust_score", "test_confidnet"):
        assert arrays[name].shape == correct.shape
        assert metrics.auroc(arrays[name], correct) > 0.6  # 0.5 is chance


def same_bytes(first: Path, second: Path) -> bool:
    return all(
        (first / file).read_bytes() == (second / file).read_bytes()
        for file in ("history.csv", "arrays.npz")
    )


@pytest.mark.parametrize(
    ("method", "dataset", "network"),
    [
        ("erm", "digits", "cnn"),
        ("crl", "gaussians", "mlp"),  # remembers how often each sample was right
        ("fmfp", "gaussians", "mlp"),  # an average of weights
        ("mixup", "gaussians", "mlp"),
        ("mit_a", "gaussians", "mlp"),
        ("cs_kd", "gaussians", "mlp"),
    ],
)
def test_interrupted_run_goes_on_at_its_epoch_with_the_same_bytes(
    method, dataset, network, tmp_path, monkeypatch
):
    wanted = run(method, dataset, network, evaluate_every=1)
    whole = train(wanted, tmp_path / "a")
    monkeypatch.setattr("calibkit_companion.training.loop.CHECKPOINT_SECONDS", 0)
    lines = []

    def stop_in_epoch_5(line):
        lines.append(line)
        if "epoch 5/" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(wanted, tmp_path / "b", log=stop_in_epoch_5)
    resumed = train(wanted, tmp_path / "b", log=lines.append)
    assert [line.split("epoch ")[1][0] for line in lines if "epoch " in line] == [*"1234545", "6"]
    assert same_bytes(whole.path, resumed.path)
    assert not list((tmp_path / "b").glob(".checkpoint*"))


def test_logits_of_every_evaluated_epoch_are_kept_through_an_interruption(tmp_path, monkeypatch):
    monkeypatch.setattr("calibkit_companion.training.loop.KEPT_WHOLE", {"gaussians"})
    wanted = run(epochs=6, evaluate_every=2)
    whole = train(wanted, tmp_path / "a")
    stopped(wanted, tmp_path / "b", monkeypatch)
    assert not folders.epochs_file(wanted, tmp_path / "b").exists()
    train(wanted, tmp_path / "b")
    kept, again = (np.load(folders.epochs_file(wanted, tmp_path / f)) for f in "ab")
    assert all(np.array_equal(kept[name], again[name]) for name in kept.files)
    assert kept["epochs"].tolist() == whole.history["epoch"].tolist()
    assert np.array_equal(kept["test"][-1], whole.arrays["test_logits"])
    assert np.array_equal(kept["validation"][-1], whole.arrays["validation_logits"])
    assert whole.info["sha256"].keys() == {"history.csv", "arrays.npz"}  # no part of the record
    assert folders.load(wanted, tmp_path / "a") is not None


def stopped(wanted, folder, monkeypatch, epoch=4) -> Path:
    """The checkpoint of a run which was interrupted."""
    monkeypatch.setattr("calibkit_companion.training.loop.CHECKPOINT_SECONDS", 0)

    def stop(line):
        if f"epoch {epoch}/" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(wanted, folder, log=stop)
    return folder / f".checkpoint-{wanted.name}.pt"


def test_checkpoint_with_one_altered_weight_is_not_used(tmp_path, monkeypatch):
    """torch would read it: it looks at no sum."""
    wanted, lines = run(evaluate_every=1), []
    whole = train(wanted, tmp_path / "a")
    checkpoint = stopped(wanted, tmp_path / "b", monkeypatch)
    content = bytearray(checkpoint.read_bytes())
    with torch.no_grad():
        weights = torch.load(io.BytesIO(content[32:]), weights_only=True)["network"]
    largest = max(weights.values(), key=lambda w: w.numel()).numpy().tobytes()
    content[content.index(largest) + 2] ^= 1
    torch.load(io.BytesIO(content[32:]), weights_only=True)
    checkpoint.write_bytes(content)
    again = train(wanted, tmp_path / "b", log=lines.append)
    assert "checkpoint not used (the file is damaged)" in lines[0]
    assert same_bytes(whole.path, again.path)


def test_checkpoint_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch):
    wanted, lines = run(), []
    whole = train(wanted, tmp_path / "a")
    monkeypatch.setattr("calibkit_companion.training.loop.CHECKPOINT_SECONDS", 0)

    def full(path, content):
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    record = train(wanted, tmp_path / "b", log=lines.append)
    assert "checkpoint not written ([Errno 28] No space left" in "".join(lines)
    assert same_bytes(whole.path, record.path)
    assert not list((tmp_path / "b").glob(".checkpoint*"))


def test_scratch_files_of_killed_processes_are_swept_away(tmp_path):
    wanted = run(epochs=1)
    (tmp_path / f".checkpoint-{wanted.name}.12345").touch()
    train(wanted, tmp_path)
    (tmp_path / f".checkpoint-{wanted.name}.pt").touch()  # killed after it wrote the record
    train(wanted, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {wanted.name, f".{wanted.name}.lock"}


@pytest.mark.parametrize(
    ("method", "network", "dataset"), [("fmfp", "mlp", "gaussians"), ("mixup", "cnn", "digits")]
)
def test_same_run_same_bytes(method, network, dataset, tmp_path):
    wanted = run(method, dataset, network, epochs=4)
    first = train(wanted, tmp_path / "a")
    second = train(wanted, tmp_path / "b")
    assert same_bytes(first.path, second.path)
    other = train(replace(wanted, seed=1), tmp_path / "a")
    assert not same_bytes(first.path, other.path)


def test_done_runs_are_not_trained_again(tmp_path):
    first = train(run(epochs=1), tmp_path)
    stamp = (first.path / "run.json").stat().st_mtime_ns
    assert train(run(epochs=1), tmp_path).path.joinpath("run.json").stat().st_mtime_ns == stamp


def test_killed_run_trains_again_to_the_same_bytes(tmp_path):
    wanted = plan.Selection("smoke", seeds=1, epochs=80).runs(["erm"])[0]
    command = [sys.executable, "-m", "calibkit", "train", wanted.name, "--edition", "smoke"]
    command += ["--epochs", "80", "--seeds", "1", "--method", "erm"]
    environment = os.environ | {"CALIBKIT_CACHE": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert "epoch 13/80" in process.stdout.readline()  # long before the end
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert folders.load(wanted, tmp_path / "runs") is None
    resumed, whole = train(wanted, tmp_path / "runs"), train(wanted, tmp_path / "b")
    assert same_bytes(resumed.path, whole.path)
    assert not list((tmp_path / "runs").glob(".draft-*"))


@pytest.mark.parametrize(("capability", "has_it"), [(7, False), (8, True), (9, True)])
def test_a_gpu_before_ampere_has_no_bfloat16(capability, has_it, monkeypatch):
    """A T4 is of compute capability 7.5; it would emulate."""
    gpu = SimpleNamespace(major=capability)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    assert computes_bfloat16(torch.device("cuda")) == has_it


def test_rounded_products_are_those_of_rounded_numbers():
    """Forward and back, against the same numbers multiplied in float64 and rounded once."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.Flatten(), torch.nn.Linear(64, 5)
    )
    exact = copy.deepcopy(layers).to(torch.bfloat16).double()
    inputs = torch.randn(7, 3, 6, 6).bfloat16()
    with RoundedProducts():
        with torch.autocast("cpu", torch.bfloat16):
            middle = layers[0](inputs)
            outputs = layers[2](layers[1](middle))
        outputs.float().square().mean().backward()
    assert outputs.dtype == torch.bfloat16
    torch.testing.assert_close(
        middle.double(), exact[0](inputs.double()).bfloat16().double(), rtol=2**-7, atol=0
    )
    exact(inputs.double()).square().mean().backward()
    for ours, theirs in zip(layers.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=0.05, atol=5e-3)


@pytest.mark.parametrize("has_it", [True, False])
def test_a_run_in_bfloat16_trains_where_the_processor_lacks_it(has_it, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "calibkit_companion.training.machine.computes_bfloat16", lambda device: has_it
    )
    rounded, multiplied = run(precision="bfloat16"), []
    dispatch = RoundedProducts.__torch_dispatch__

    def counted(self, function, types, args=(), kwargs=None):
        outputs = dispatch(self, function, types, args, kwargs)
        multiplied.append(getattr(args[0], "dtype", None) if args else None)
        return outputs

    monkeypatch.setattr(RoundedProducts, "__torch_dispatch__", counted)
    record = train(rounded, tmp_path)
    assert (torch.bfloat16 in multiplied) != has_it
    assert record.info["provenance"]["precision"] == "bfloat16"
    assert record.history["accuracy"][-1] > 0.5


def test_diverged_run_is_recorded_as_such(tmp_path):
    lines = []
    record = train(run(learning_rate=1e20), tmp_path, log=lines.append)
    assert record.diverged and "loss is" in lines[-1]
    assert folders.load(run(learning_rate=1e20), tmp_path).diverged


def test_network_that_its_last_step_destroyed_is_recorded_as_diverged(tmp_path):
    lines, wanted = [], run(learning_rate=1e30, epochs=1, batch_size=SMOKE.train_size, snapshots=())
    assert train(wanted, tmp_path, log=lines.append).diverged
    assert "logits of the train set are not finite" in lines[-1]  # the loss came before the step


def test_averaged_weights_are_the_mean_of_the_epochs():
    wanted = run("swa", epochs=7, swa_start=2, snapshots=())
    training, seen = Training(wanted), []
    learning = training.learning

    def watched(epoch):
        loss = yield from learning(epoch)
        if epoch > 2:
            seen.append([p.detach().clone() for p in training.network.parameters()])
        averaged = training.predictor(epoch) is not training.network
        assert averaged == (epoch > 2)  # nothing to predict with before the first
        training.network.train()
        return loss

    training.learning = watched
    training.fit()
    for averaged, *each in zip(training.average.module.parameters(), *seen, strict=True):
        torch.testing.assert_close(averaged, torch.stack(each).mean(0))


def test_averaged_network_gets_statistics_of_its_own():
    training = Training(run("swa", dataset="digits", network="cnn", epochs=3, swa_start=1))
    training.fit()
    norm = next(m for m in training.average.module.modules() if hasattr(m, "running_mean"))
    first = training.average.module.stages[0][0]
    with torch.no_grad():
        split = training.splits["train"]
        (inputs,) = training.batches(split, [torch.arange(len(split.labels))])
        out = first(inputs)
    torch.testing.assert_close(norm.running_mean, out.mean((0, 2, 3)), atol=1e-4, rtol=1e-3)


def test_statistics_of_averaged_weights_can_be_those_of_augmented_images():
    def trained(statistics):
        changes = {"epochs": 3, "swa_start": 1, "bn_statistics": statistics}
        training = Training(run("swa", dataset="digits", network="cnn", **changes))
        training.data = replace(training.data, augment="crop_flip")
        training.fit()
        return training

    def statistics(training):
        norms = [m for m in training.average.module.modules() if hasattr(m, "running_mean")]
        return norms[0].running_mean, training.average.module.stages[0][0]

    plain, augmented = map(trained, ("plain", "augmented"))
    for network in ("network", "average"):  # nothing else has changed
        each = (getattr(its, network).parameters() for its in (plain, augmented))
        assert all(torch.equal(a, b) for a, b in zip(*each, strict=True))
    (inputs,) = plain.batches(plain.splits["train"], [torch.arange(len(plain.labels))])
    crops = torch.Generator().manual_seed(
        int(np.random.SeedSequence([0, 3]).generate_state(1)[0])  # seed 0, epoch 3
    )
    moved = data.augment_crop_flip(inputs, crops)
    for training, of in ((plain, inputs), (augmented, moved)):
        mean, first = statistics(training)
        with torch.no_grad():
            expected = first(of).mean((0, 2, 3))
        torch.testing.assert_close(mean, expected, atol=1e-4, rtol=1e-3)
    assert (statistics(plain)[0] - statistics(augmented)[0]).abs().max() > 1e-3


def test_statistics_are_one_of_two():
    with pytest.raises(ValueError, match="unknown bn_statistics 'augment'"):
        run("swa", bn_statistics="augment")


def test_paper_variant_is_the_baseline_until_averaging_starts():
    plain = Training(run(epochs=4, swa_start=2, snapshots=()))
    fmfp = Training(replace(run("fmfp", epochs=4, swa_start=2, snapshots=()), variant="paper"))
    for epoch in (1, 2):
        assert plain.learn(epoch) == fmfp.learn(epoch)
    for a, b in zip(plain.network.parameters(), fmfp.network.parameters(), strict=True):
        assert torch.equal(a, b)
    plain.learn(3), fmfp.learn(3)
    a, b = next(plain.network.parameters()), next(fmfp.network.parameters())
    assert not torch.equal(a, b)


def test_followed_samples_are_what_the_metrics_say():
    training, right = Training(run(epochs=5)), []
    evaluate, evaluating = training.evaluate, training.evaluating

    def watched(network, name, index=None):
        logits, features = yield from evaluating(network, name, index)
        if name == "train":
            right.append((logits.argmax(1) == training.labels[: len(logits)]).numpy())
        return logits, features

    training.evaluating = watched
    arrays = training.fit()
    training.evaluating = evaluating
    right = np.array(right)
    from_then_on = [[column[e:].all() for e in range(len(right))] for column in right.T]
    learned = [epochs.index(True) + 1 if any(epochs) else 0 for epochs in from_then_on]
    np.testing.assert_array_equal(arrays["train_learned_epoch"], learned)
    logits, features = evaluate(training.network.eval(), "train", training.tracked)
    labels = training.labels[training.tracked]
    probs = logits.softmax(1).detach().numpy()
    expected = np.square(probs - np.eye(5)[labels]).sum(1)
    np.testing.assert_allclose(arrays["train_brier"][-1], expected, rtol=2e-3, atol=1e-4)
    # Last-layer gradient norm of one sample by a backward pass of its own.
    head, i = training.network.head, 7
    training.network.zero_grad()
    losses.cross_entropy(head(features[i : i + 1]), labels[i : i + 1]).sum().backward()
    norm = torch.cat([p.grad.flatten() for p in head.parameters()]).norm()
    assert arrays["train_gradient_norm"][-1][i] == pytest.approx(float(norm), rel=1e-4)


def test_sum_and_clip_switch_changes_the_step():
    # 64 samples summed, then clipped to norm 2: the step is at most 2 × rate, whatever the loss.
    training = Training(run(reduction="sum", clip_norm=2.0, momentum=0.0, weight_decay=0.0))
    before = torch.cat([p.detach().flatten() for p in training.network.parameters()])
    training.labels = training.labels[:64]
    training.learn(1)
    after = torch.cat([p.detach().flatten() for p in training.network.parameters()])
    assert (after - before).norm() == pytest.approx(2.0 * training.protocol.learning_rate, rel=1e-3)


def test_evaluation_epochs_include_snapshots_and_the_last():
    training = Training(run(epochs=7, evaluate_every=3, snapshots=(1, 4)))
    training.fit()
    assert [row["epoch"] for row in training.history] == [1, 3, 4, 6, 7]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_agrees_with_cpu():
    wanted = run(dataset="digits", network="cnn", epochs=3, validation=None)
    cpu, gpu = Training(wanted, "cpu"), Training(wanted, "cuda")
    cpu.fit(), gpu.fit()
    assert cpu.history[-1]["accuracy"] == pytest.approx(gpu.history[-1]["accuracy"], abs=0.03)


class Anywhere(torch.Generator):
    def __new__(cls, device="cpu"):
        return super().__new__(cls)


class Stalls(TorchFunctionMode):
    """Counts the times that Python asks for a value on the device, and answers with one."""

    asked = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        answers = {"item": 0.5, "__float__": 0.5, "__bool__": True, "tolist": [], "cpu": None}
        name = getattr(function, "__name__", "")
        if name in answers and args[0].device.type == "meta":
            self.asked += 1
            return torch.zeros_like(args[0], device="cpu") if name == "cpu" else answers[name]
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", [*plan.METHODS, "mit_a+sam", "cs_kd+sam", "crl+sam"])
def test_everything_is_on_the_device_which_is_waited_for_once_an_epoch(method, monkeypatch):
    # "meta" stands for any device: it refuses tensors of another one, and has no values to give.
    monkeypatch.setattr(torch, "Generator", Anywhere)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "bincount", lambda x, minlength: x.new_zeros(minlength))
    wanted = run(method, dataset="digits", network="cnn", validation=None, clip_norm=2.0)
    training = Training(wanted, "meta")
    training.optimizer.param_groups[0]["fused"] = False  # not on this device
    with Stalls() as stalls:
        training.learn(1)
    assert stalls.asked == 1


def test_a_compiled_network_learns_the_same(monkeypatch):
    """Its graphs run as traced: the C++ that torch makes of them takes g++ most of the time."""
    compile_ = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(compile_, backend="aot_eager"))
    wanted = run("cs_kd+sam+swa")  # a pass without gradient, two with, and averaged weights
    plain, compiled = Training(wanted, "cpu"), Training(wanted, "cpu", mode="default")
    logits = [training.fit()["test_logits"].astype(float) for training in (plain, compiled)]
    assert np.abs(logits[0] - logits[1]).max() < 0.05
    assert compiled.network._compiled_call_impl and not plain.network._compiled_call_impl
    assert compiled.network.state_dict().keys() == plain.network.state_dict().keys()


def test_a_machine_without_the_module_resource_trains_and_knows_no_peak():
    code = (
        "import sys, torch; sys.modules['resource'] = None\n"
        "from calibkit_companion.training.machine import describe\n"
        "assert describe(torch.device('cpu'))['peak_memory_mb'] is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
