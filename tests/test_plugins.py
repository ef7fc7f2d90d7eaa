"""Methods, networks and data of one's own: named by content, tried, trained and kept."""

import json
import re
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
import torch

from calibkit import cli, plots, terms
from calibkit_companion import data, results
from calibkit_companion.data import own
from calibkit_companion.experiments import plan, plugins
from calibkit_companion.experiments.method import parse
from calibkit_companion.records import folders
from calibkit_companion.training import checkpoints, loop, networks, objectives, turns

LOSS = """
import torch.nn.functional as F

def plain(logits, targets, scale=1.0):
    return scale * F.cross_entropy(logits, targets, reduction="none")
"""
FACTORY = """
import torch
from calibkit import losses

def remixed(train, alpha=0.2):
    train.memory["draws"] = torch.zeros(1)
    def draw(batch, rng):
        train.memory["draws"] += 1
        ratio = rng.beta(alpha, alpha)
        other = torch.from_numpy(rng.permutation(len(batch.labels)))
        mixed = ratio * batch.inputs + (1 - ratio) * batch.inputs[other]
        def score(network):
            logits = network(mixed)
            return (ratio * losses.cross_entropy(logits, batch.labels)
                    + (1 - ratio) * losses.cross_entropy(logits, batch.labels[other]))
        return score
    return draw

def twice(train):
    def draw(batch, rng):
        def score(network):
            with torch.no_grad():
                network(batch.inputs)
            return losses.cross_entropy(network(batch.inputs), batch.labels)
        return score
    return draw
"""
NETWORK = """
from torch import nn

def flat(shape, classes, width=16):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], width), nn.ReLU(),
                         nn.Linear(width, classes))

def headless(shape, classes):
    return nn.Sequential(nn.Linear(shape[0], classes), nn.LogSoftmax(1))

def ours(shape, classes):
    from calibkit_companion.training.networks import build
    return build("mlp", shape, classes)
"""
SMOKE = {"seeds": 1, "epochs": 2}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, text):
    with open(name, "w") as file:
        file.write(textwrap.dedent(text))
    return name


def run_of(method="erm", **changed):
    (run,) = plan.Selection("smoke", **SMOKE | changed).runs([method])
    return run


def test_a_run_is_named_by_what_the_source_says(folder):
    write("one.py", LOSS)
    run = run_of("one.py:plain(scale=2)+sam")
    digest = plugins.source(run.recipe.objective).sha256[:12]
    assert run.method == f"plain@{digest}(scale=2)+sam"
    assert run.content["method"] == {
        "objective": f"plain@{digest}",
        "options": {"scale": 2.0},
        "update": "sam",
    }
    (folder / "elsewhere").mkdir()
    write("elsewhere/two.py", LOSS)
    assert run_of("elsewhere/two.py:plain(scale=2)+sam").name == run.name
    assert replace(run, seed=1).method == run.method  # the name is enough from here on
    write("one.py", LOSS + "# edited\n")
    assert run_of("one.py:plain(scale=2)+sam").name != run.name
    assert terms.label(run.method) == "plain (scale\xa0=\xa02) + SAM"
    assert plots.look(run.method)["color"] not in plots.COLORS.values()


def test_naming_reads_the_file_and_does_not_run_it(folder, capsys):
    file = write("effect.py", LOSS + "\nopen('ran', 'a').write('x')\n")
    call = ["--edition", "smoke", "--seeds", "1", "--epochs", "1", "--method", f"{file}:plain"]
    assert cli.main(["runs", *call]) == 0 and "missing" in capsys.readouterr().out
    assert not (folder / "ran").exists()
    assert cli.main(["train", *call, "--quiet"]) == 0
    count = len((folder / "ran").read_text())
    assert cli.main(["runs", *call]) == 0 and cli.main(["train", *call]) == 0
    found = results.Results(plan.Selection("smoke", seeds=1, epochs=1), train=False)
    level = found.mean(parse(f"{file}:plain").name, "accuracy")
    assert len(level) == 1 and not np.isnan(next(iter(level.values())).estimate)
    assert len((folder / "ran").read_text()) == count


@pytest.mark.parametrize("axes", ["", "+sam", "+swa"])
def test_a_loss_of_ones_own_trains_as_the_same_one_here_does(axes):
    write("mine.py", LOSS)
    ours, theirs = (loop.train(run_of(m + axes)) for m in ("erm", "mine.py:plain"))
    assert ours.name != theirs.name
    np.testing.assert_array_equal(ours.arrays["test_logits"], theirs.arrays["test_logits"])
    np.testing.assert_array_equal(
        ours.arrays["train_gradient_norm"], theirs.arrays["train_gradient_norm"]
    )
    assert ours.info["provenance"]["passes"] == theirs.info["provenance"]["passes"]
    kept = json.loads((theirs.path / "run.json").read_text())["provenance"]["sources"]
    ((name, copy),) = kept.items()
    assert copy["text"] == LOSS and copy["file"] == "mine.py" and name.startswith("plain@")
    assert "sources" not in ours.info["provenance"]


def test_a_factory_has_random_draws_and_a_memory_that_checkpoints_keep(folder):
    write("mine.py", FACTORY)
    ours, theirs = (loop.train(run_of(m)) for m in ("mixup", "mine.py:remixed"))
    np.testing.assert_array_equal(ours.arrays["test_logits"], theirs.arrays["test_logits"])
    training = loop.Training(run_of("mine.py:remixed"))
    training.learn(1)
    steps = -(-300 // training.protocol.batch_size)
    assert training.training_set.memory["draws"].item() == steps
    training.checkpoint = folder / "checkpoint.pt"
    training.epoch = 1
    turns.drive(checkpoints.saving(training, 0.0))
    again = loop.Training(run_of("mine.py:remixed"))
    again.checkpoint = training.checkpoint
    checkpoints.resume(again)
    assert again.training_set.memory["draws"].item() == steps


def test_passes_are_counted():
    write("mine.py", FACTORY)
    record = loop.train(run_of("mine.py:twice"))
    assert record.info["provenance"]["passes"] == {"forward": 2 * 2 * 300, "backward": 2 * 300}


def test_a_network_of_ones_own(capsys):
    write("net.py", NETWORK)
    ours, theirs = (loop.train(run_of(network=n)) for n in ("mlp", "net.py:ours"))
    np.testing.assert_array_equal(ours.arrays["test_logits"], theirs.arrays["test_logits"])
    wide = run_of("swa", network="net.py:flat(width=24)")
    assert wide.network.startswith("flat@") and wide.network.endswith("(width=24)")
    record = loop.train(wide)
    assert np.isfinite(record.arrays["train_gradient_norm"]).all()
    assert "def flat" in next(iter(record.info["provenance"]["sources"].values()))["text"]
    said = []
    record = loop.train(run_of(network="net.py:headless"), log=said.append)
    assert np.isnan(record.arrays["train_gradient_norm"]).all()
    assert "no last linear layer: no gradient norms" in said[0]
    with pytest.raises(plugins.PluginError, match="mixes between stages"):
        loop.train(run_of("mit_a", network="net.py:flat"))
    scored = run_of(network="net.py:headless", protocol={"feature_scores": 100})
    with pytest.raises(plugins.PluginError, match="need features"):
        loop.train(scored)


def test_the_features_of_any_network_are_what_its_head_sees():
    write("net.py", NETWORK)
    network = networks.build("net.py:flat", (2,), 5)
    x = torch.randn(7, 2)
    assert network.has_features and network.features(x).shape == (7, 16)
    torch.testing.assert_close(network.head(network.features(x)), network(x))
    average = torch.optim.swa_utils.AveragedModel(network)
    with torch.no_grad():
        network.head.bias += 1  # the copy has hooks of its own
    torch.testing.assert_close(average.module.head(average.module.features(x)), average.module(x))


def test_a_method_of_several_files_is_imported_by_one(folder, monkeypatch):
    (folder / "site").mkdir()
    write(folder / "site/own_mod.py", LOSS)
    write(folder / "mine.py", "from own_mod import plain\n")
    monkeypatch.syspath_prepend(folder / "site")
    run = run_of("mine.py:plain(scale=2)")
    assert run.method.startswith("plain@") and "own_mod" not in sys.modules
    kept = loop.train(run).info["provenance"]["sources"]
    assert [copy["file"] for copy in kept.values()] == ["mine.py"]
    sys.modules.pop("own_mod")


def test_inputs_and_labels_of_ones_own():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    points = rng.normal(size=(400, 4)) + 2 * np.eye(3, 4)[labels]
    np.savez("mine.npz", inputs=points, labels=labels, class_names=["a", "b", "c"])
    run = run_of(dataset="mine.npz", protocol={"validation": 50})
    assert run.dataset == own.named("mine.npz") and run.protocol.train_size is None
    record = loop.train(run)
    assert record.info["provenance"]["training_samples"] == 320 - 50
    assert len(record.arrays["test_labels"]) == 80 and record.history["accuracy"][-1] > 0.5
    assert data.load("mine.npz").classes == ("a", "b", "c")
    np.savez("mine.npz", inputs=2 * points, labels=labels)
    with pytest.raises(FileNotFoundError, match="has changed"):
        data.load(run.dataset)
    assert run_of(dataset="mine.npz").dataset != run.dataset


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": np.zeros((4, 2))}, "expected train_inputs, train_labels"),
        ({"inputs": np.zeros((4, 2)), "labels": np.zeros(3)}, "inputs and labels of equal length"),
        ({"inputs": np.zeros((9, 2)), "labels": np.zeros(9)}, "with integers"),
        ({"inputs": np.full((9, 2), np.nan), "labels": np.zeros(9, int)}, "finite"),
        ({"inputs": np.array([object()] * 9), "labels": np.zeros(9, int)}, "unreadable"),
    ],
)
def test_arrays_that_do_not_fit_are_one_line(arrays, message):
    np.savez("mine.npz", **arrays)
    with pytest.raises(ValueError, match=message) as error:
        data.load("mine.npz")
    assert "\n" not in str(error.value) and "mine.npz" in str(error.value)


def test_images_of_an_npz_may_have_their_channels_last():
    images = np.zeros((20, 6, 6, 3), np.uint8)
    arrays = {f"{part}_inputs": images for part in ("train", "test")}
    labels = {f"{part}_labels": np.arange(20) % 2 for part in ("train", "test")}
    np.savez("mine.npz", **arrays, **labels)
    assert data.load("mine.npz").test.inputs.shape == (20, 3, 6, 6)


HEAD = "import torch\nimport torch.nn.functional as F\n"
BROKEN = {
    "syntax": ("def f(logits, targets)\n    return 1\n", 'line 1, "def f\\(logits, targets\\)"'),
    "another name": ("def g(logits, targets): return 1\n", "unknown function of bad.py 'f'"),
    "no function": ("f = 3\n", "f is a int, expected a function"),
    "an import": ("import not_there_at_all\ndef f(a, b): pass\n", "line 1.*ModuleNotFoundError"),
    "leaves": ("import sys\nsys.exit('bye')\ndef f(a, b): pass\n", "line 2.*SystemExit: bye"),
    "an error": (
        HEAD + "def f(logits, targets):\n    return logits.sotfmax(1)\n",
        'line 4, "return logits.sotfmax\\(1\\)": AttributeError',
    ),
    "too few values": (
        HEAD + "def f(logits, targets):\n    return F.cross_entropy(logits, targets)\n",
        r"line 4.*gives \(\), expected \(8,\), a loss of each sample",
    ),
    "no tensor": ("def f(logits, targets):\n    return 1.0\n", "gives float, expected"),
    "not finite": (HEAD + "def f(z, y):\n    return z[:, 0].log()\n", "line 4.*not finite"),
    "no gradient": (
        HEAD + "def f(z, y):\n    return F.cross_entropy(z.detach(), y, reduction='none')\n",
        "line 4.*no gradient reaches the network",
    ),
    "a flat loss": (
        HEAD + "def f(z, y):\n    return 0 * z[:, 0]\n",
        "no gradient reaches the network",
    ),
    "one sample": (
        HEAD + "def f(z, y):\n    return z[:, 0] / (len(z) - 1)\n",
        "line 4.*not finite",
    ),
    "three arguments": ("def f(a, b, c): pass\n", "f takes a, b, c; expected"),
    "a factory of nothing": ("def f(train):\n    return None\n", "gives a NoneType, expected draw"),
    "a draw of nothing": (
        "def f(train):\n    return lambda batch, rng: batch.labels\n",
        "gives a Tensor, expected score",
    ),
    "a score of nothing": (
        "def f(train):\n    return lambda batch, rng: lambda network: network(batch.inputs)\n",
        r"expected \(64,\), a loss of each sample",
    ),
    "no weights": (
        HEAD + "def f(train):\n    return lambda batch, rng: lambda network: "
        "torch.ones(len(batch.labels), requires_grad=True)\n",
        "no gradient reaches the network",
    ),
    "bytes": (b"\xff\xfe\x00", "is not UTF-8 text"),
    "zero bytes": (b"def f(a, b): pass\n\x00", "null byte"),
    "deep": ("f = " + "(" * 5000 + ")" * 5000, "bad.py"),
    "control characters": ("def f(a, b): raise ValueError('\\x1b[31m\\nred')\n", "ValueError: "),
    "large": ("#" * (1 << 21), "larger than 1 MB"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_one_line_and_leaves_no_record(kind, folder, capsys):
    text, message = BROKEN[kind]
    (folder / "bad.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    call = ["train", "--edition", "smoke", "--seeds", "1", "--epochs", "1", "--method", "bad.py:f"]
    assert cli.main(call) == 2
    said = capsys.readouterr().err
    assert said.startswith("calibkit: ") and said.count("\n") == 1 and "\x1b" not in said
    assert re.search(message, said), said
    assert not [p for p in folders.runs_root().glob("[!.]*")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def build(shape, classes):\n    return 3\n", "gives a int, expected an nn.Module"),
        (
            "from torch import nn\ndef build(shape, classes):\n    return nn.Linear(3, classes)\n",
            "RuntimeError: (addmm: )?mat1 and mat2",
        ),
        (
            "from torch import nn\ndef build(shape, classes):\n    return nn.Linear(2, 3)\n",
            r"gives \(2, 3\), expected \(2, 5\), logits",
        ),
        ("def build(shape, classes):\n    1 / 0\n", 'line 2, "1 / 0": ZeroDivisionError'),
    ],
)
def test_a_broken_network_is_one_line(text, message, capsys):
    write("net.py", text)
    call = ["train", "--edition", "smoke", "--seeds", "1", "--epochs", "1", "--method", "erm"]
    assert cli.main([*call, "--network", "net.py:build"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and re.search(message, said), said
    assert not [p for p in folders.runs_root().glob("[!.]*")]


def test_options_are_those_of_the_function():
    write("mine.py", LOSS)
    with pytest.raises(ValueError, match="unknown option of plain 'scal'.*did you mean 'scale'"):
        loop.train(run_of("mine.py:plain(scal=2)"))
    with pytest.raises(ValueError, match="expected a finite number"):
        run_of("mine.py:plain(scale=x)")
    for missing in ("nowhere.py:f", "mine.py:"):
        with pytest.raises(ValueError):
            run_of(missing)
    with pytest.raises(plugins.PluginError, match="give FILE.py:NAME instead"):
        objectives.base_loss(parse("gone@0123456789ab"))


def test_a_loss_that_breaks_later_is_one_line_too():
    write(
        "late.py",
        """
        calls = [0]
        def late(logits, targets):
            calls[0] += 1
            if calls[0] > 9:
                raise RuntimeError("out of patience")
            return logits.logsumexp(1) - logits.gather(1, targets[:, None])[:, 0]
        """,
    )
    with pytest.raises(plugins.PluginError, match='late.py, line 6, "raise Runtime.*out of pat'):
        loop.train(run_of("late.py:late", epochs=6))
    assert not [p for p in folders.runs_root().glob("[!.]*")]
