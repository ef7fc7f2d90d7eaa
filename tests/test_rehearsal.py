"""The papers' tables in miniature: every block of five of them is trained and filled.

A few generated images lie in the layouts of the real archives, small networks stand in for the
real ones, and each protocol is cut to two epochs of a few batches. All else is what a cluster runs:
the papers' settings, readers, trainings, records, and the tables that pages show.
"""

from dataclasses import replace
from hashlib import md5

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

torch = pytest.importorskip("torch")

from calibkit import metrics, posthoc  # noqa: E402
from calibkit_companion import data, results  # noqa: E402
from calibkit_companion.data import catalogue, readers, shifts  # noqa: E402
from calibkit_companion.data.torchvision import torchvision  # noqa: E402
from calibkit_companion.experiments import papers, plugins  # noqa: E402
from calibkit_companion.experiments.method import parse  # noqa: E402
from calibkit_companion.experiments.papers import protocols  # noqa: E402
from calibkit_companion.experiments.run import Run  # noqa: E402
from calibkit_companion.results import printed  # noqa: E402
from calibkit_companion.training import networks, small_networks  # noqa: E402
from calibkit_companion.training.loop import Training, train  # noqa: E402

TRAIN, TEST = 40, 24


def images(n, side=32, seed=0):
    """Mostly dark images of class 0 and some bright ones of class 1, a few of them mislabelled."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(n) % 3 == 0).astype(np.uint8)
    levels = np.where(labels, 170, 80)[:, None, None, None]
    pixels = np.clip(levels + rng.normal(0, 30, (n, 3, side, side)), 0, 255).astype(np.uint8)
    labels[rng.permutation(n)[: n // 6]] ^= 1
    return pixels, labels


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.transpose(1, 2, 0)).save(path)


def folder(root, n, side, seed, classes, name="{}.png", inside=""):
    pixels, labels = images(n, side, seed)
    for i, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        save(root / classes[label] / inside / name.format(i), image)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Every data set of the five tables, and what their test sets were shifted to."""
    root = tmp_path_factory.mktemp("data")
    for name in ("cifar10", "cifar100"):
        for part, n in (("train", TRAIN), ("test", TEST)):
            folder(root / name / part, n, 32, n + len(name), ("a", "b"))
    (root / "svhn").mkdir()
    known = {}
    for part, n in (("train", TRAIN), ("test", TEST)):
        x, y = images(n, seed=n)
        file = root / "svhn" / f"{part}_32x32.mat"
        savemat(file, {"X": x.transpose(2, 3, 1, 0), "y": np.where(y == 0, 10, y)[:, None]})
        known[part] = ["", file.name, md5(file.read_bytes()).hexdigest()]
    tiny = root / "tiny-imagenet-200"
    folder(tiny / "train", TRAIN, 64, 1, ("n01", "n02"), inside="images")
    pixels, labels = images(TEST, 64, 2)
    for i, image in enumerate(pixels):
        save(tiny / "val" / "images" / f"val_{i}.png", image)
    lines = [f"val_{i}.png\tn0{label + 1}\t0\t0\t62\t62\n" for i, label in enumerate(labels)]
    (tiny / "val" / "val_annotations.txt").write_text("".join(lines))
    (tiny / "wnids.txt").write_text("n01\nn02\n")
    for part, n in (("train", TRAIN), ("val", TEST)):
        folder(root / "imagenet" / part, n, 224, n, ("n01", "n02"))
    folder(root / "imagenet_v2", TEST, 224, 3, ("0", "1"))
    x, y = images(TEST, seed=4)
    (root / "CIFAR-10-C").mkdir()
    np.save(root / "CIFAR-10-C" / "labels.npy", np.tile(y, 5))
    for shade, kind in enumerate(readers.CIFAR10C_CORRUPTIONS):
        darker = np.concatenate([x - np.minimum(x, shade * severity) for severity in range(5)])
        np.save(root / "CIFAR-10-C" / f"{kind}.npy", darker.transpose(0, 2, 3, 1))
    for place, name in (("cifar10_1", "cifar10.1_v6"), ("cifar10_2", "")):
        x, y = images(TEST, seed=len(place + name))
        (root / place).mkdir()
        if name:
            np.save(root / place / f"{name}_data.npy", x.transpose(0, 2, 3, 1))
            np.save(root / place / f"{name}_labels.npy", y)
        else:
            np.savez(root / place / "cifar102_test.npz", images=x.transpose(0, 2, 3, 1), labels=y)
    for part, n in (("train", TRAIN), ("test", TEST)):
        for i, label in enumerate(images(n, 1)[1]):
            post = root / "20newsgroups" / f"20news-bydate-{part}" / "ab"[label] / str(i)
            post.parent.mkdir(parents=True, exist_ok=True)
            post.write_text(f"word{label} " * 20 + f"other{i % 5}")
    return root, known


@pytest.fixture
def miniature(archives, tmp_path, monkeypatch):
    """The archives count as whole, networks are small, ImageNet does not fit in memory."""
    root, known = archives
    monkeypatch.setenv("CALIBKIT_DATA", str(root))
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    monkeypatch.setenv("CALIBKIT_IN_MEMORY", "0")
    monkeypatch.setenv("CALIBKIT_WORKERS", "0")
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", known)
    for name, row in catalogue.SOURCES.items():
        monkeypatch.setitem(catalogue.SOURCES, name, replace(row, counts=None))

    def small(shape, classes, weights=None):
        return small_networks.cnn(shape, classes, width=4)

    for name in networks.NETWORKS:
        if name != "textcnn":
            monkeypatch.setitem(networks.NETWORKS, name, small)
    shifts.made.cache_clear()
    yield tmp_path
    shifts.made.cache_clear()


def shortened(protocol, shifted):
    """Two epochs of two batches; what a table is about stays: decay, reduction, temperature."""
    return replace(
        protocol.shortened(2),
        batch_size=16,
        learning_rate=min(protocol.learning_rate, 0.02),
        validation="test" if protocol.validation == "test" else 10,
        train_size=None,
        snapshots=(),
        evaluate_every=2,
        tracked=8,
        shifted=TEST if shifted else 0,
        replicates=2,  # which take longer than the training
    )


def in_miniature(exhibit, root):
    """Records of an exhibit's first two methods, by data set and network."""
    found = {}
    for block in papers.blocks(exhibit=exhibit):
        if block.variant == "paper":
            continue
        for setting in block.settings:
            protocol = shortened(setting.protocol, shifted=exhibit.endswith("tab3"))
            setting = replace(setting, protocol=protocol, seeds=1)
            its = found.setdefault((setting.dataset, setting.network), {})
            for run in setting.runs(block.methods[:2]):
                its[run.method] = [train(run, root)]
    return found


BLOCKS = {
    "fmfp-tab1": 8,
    "darkside-tab3": 3,
    "overconf-tab1": 4,
    "mixup-tab1": 16,
    "bsce-tab1": 9,
}


@pytest.mark.filterwarnings("ignore")  # metrics of a dozen images, validation on the test set
@pytest.mark.parametrize("exhibit", BLOCKS)
def test_every_block_of_a_table_is_filled(miniature, exhibit):
    records = in_miniature(exhibit, miniature)
    blocks: dict[tuple, list] = {}
    for cell in printed.every():
        if cell.exhibit == exhibit:
            blocks.setdefault((cell.dataset, cell.network), []).append(cell)
    assert len(blocks) == BLOCKS[exhibit]
    for (dataset, network), cells in blocks.items():
        its = records[papers.TRAINED_ON.get(dataset, dataset), cells[0].ours]
        assert not any(record.diverged for method in its.values() for record in method)
        # Two methods, and the temperature of one of them; not what only the code has.
        wanted = (set(its) | {"ts"}) & {cell.method for cell in cells}
        assert len(wanted) >= 2, (dataset, network)
        for cell in cells:
            for record in its.get({"ts": "erm"}.get(cell.method, cell.method), []):
                value, _ = results.measured(record, cell.number)
                assert not np.isnan(value), (dataset, network, cell)


@pytest.mark.filterwarnings("ignore")
def test_darksides_temperature_is_fixed_and_its_shifts_are_the_published_ones(miniature):
    (setting,) = (s for s in papers.settings("darkside", "darkside-tab3") if s.dataset == "cifar10")
    wanted = Run("cifar10", "vgg16_bn", parse("erm"), 0, shortened(setting.protocol, shifted=True))
    record = train(wanted, miniature)
    assert record.history["temperature"][-1] == 1.5
    logits, labels = record.arrays["test_logits"], record.arrays["test_labels"].astype(int)
    probs = posthoc.FixedTemperature(1.5).predict_proba(logits)
    assert record.history["ece_scaled"][-1] == pytest.approx(metrics.ece(probs, labels), abs=1e-6)
    scaled, _ = results.measured(
        record, results.Number("ece", "ts_ece", at=record.history["epoch"][-1])
    )
    assert scaled == pytest.approx(metrics.ece(probs, labels), abs=1e-6)
    assert set(record.collected["shift"]) == {"cifar10_1", "cifar10_2"}
    assert {kind.partition(":")[0] for kind in record.shifted["shift"]} == {"cifar10c"}
    assert len(record.shifted["shift"]) == 15 * 5


# --- images that are read while training ----------------------------------------------------------


def run(dataset, method="erm", **changes):
    known = {"batch_size": 8, "validation": 8, "learning_rate": 0.02, "tracked": 16, "epochs": 2}
    protocol = protocols.Protocol(**known | changes)
    return Run(dataset, "resnet8", parse(method), 0, protocol)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path / "data"))
    for part, n in (("train", 32), ("test", 12)):
        folder(tmp_path / "photos" / part, n, 16, n, ("no", "yes"))
    return f"imagefolder:{tmp_path / 'photos'}"


@pytest.mark.parametrize(("method", "workers"), [("erm", "1"), ("cs_kd+sam+swa", "0")])
def test_read_while_training_or_held_in_memory_the_record_is_the_same(
    photos, tmp_path, monkeypatch, method, workers
):
    wanted = run(photos, method, swa_start=1)
    held = train(wanted, tmp_path / "held")
    monkeypatch.setenv("CALIBKIT_IN_MEMORY", "0")
    monkeypatch.setenv("CALIBKIT_WORKERS", workers)
    streamed = train(wanted, tmp_path / "streamed")
    assert "while training" in streamed.info["provenance"]["data"]
    for name, values in held.arrays.items():
        np.testing.assert_array_equal(streamed.arrays[name], values)
    assert streamed.info["sha256"]["history.csv"] == held.info["sha256"]["history.csv"]


@pytest.mark.filterwarnings("ignore")
def test_random_crops_go_on_after_an_interruption(miniature, monkeypatch):
    wanted = run("imagenet", epochs=3)
    whole = train(wanted, miniature / "whole")
    learning = Training.learning

    def interrupted(training, epoch):
        if epoch == 3:
            raise KeyboardInterrupt
        return learning(training, epoch)

    monkeypatch.setattr("calibkit_companion.training.loop.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(Training, "learning", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(wanted, miniature / "parts")
    monkeypatch.setattr(Training, "learning", learning)
    said = []
    parts = train(wanted, miniature / "parts", log=said.append)
    assert any("goes on after epoch 2" in line for line in said)
    np.testing.assert_array_equal(parts.arrays["test_logits"], whole.arrays["test_logits"])


def test_epochs_have_crops_of_their_own(miniature):
    training = Training(run("imagenet"))
    some = torch.arange(4)
    first = training.training_inputs(some)
    assert training.data.augment == "resized_crop" and first.shape == (4, 3, 224, 224)
    assert torch.equal(first, training.training_inputs(some))
    training.epoch = 1
    assert not torch.equal(first, training.training_inputs(some))
    plain = Training(run("imagenet", augment=False))
    (inputs,) = plain.batches(plain.splits["train"], [some])
    assert torch.equal(plain.training_inputs(some), inputs)


# --- fine-tuning ----------------------------------------------------------------------------------


def test_cosine_schedule_by_hand():
    rates = [
        replace(protocols.BSCE_IMAGENET, epochs=4, learning_rate=2.0).rate(e) for e in range(1, 5)
    ]
    assert rates == pytest.approx([2, 1 + 0.5**0.5, 1, 1 - 0.5**0.5])


def test_adam_steps_as_torchs(photos):
    training = Training(run(photos, optimizer="adam", learning_rate=1e-3, weight_decay=0.01))
    (group,) = training.optimizer.param_groups
    assert isinstance(training.optimizer, torch.optim.Adam)
    assert (group["lr"], group["weight_decay"]) == (1e-3, 0.01)


def test_weights_of_a_file_are_evaluated_as_they_are_in_no_epochs(photos, tmp_path):
    torch.manual_seed(1)
    theirs = torchvision.models.resnet18(num_classes=2).eval()
    torch.save(theirs.state_dict(), tmp_path / "mine.pth")
    (tmp_path / "net.py").write_text(f"""
import torch
from torchvision.models import resnet18

def build(shape, classes):
    network = resnet18(num_classes=classes)
    network.load_state_dict(torch.load({str(tmp_path / "mine.pth")!r}, weights_only=True))
    return network
""")
    network = plugins.network_name(f"{tmp_path / 'net.py'}:build")
    wanted = replace(run(photos, epochs=0), network=network)
    record = train(wanted, tmp_path / "runs")
    assert not record.diverged and list(record.history["epoch"]) == [0]
    loaded = data.load(photos, validation=8)
    with torch.no_grad():
        x = data.normalise(loaded.test.inputs, loaded.mean, loaded.std)
        expected = theirs(x).half().float().numpy()
    np.testing.assert_allclose(record.arrays["test_logits"], expected, rtol=0.01, atol=2e-3)
    assert record.history["accuracy"][-1] == np.mean(
        record.arrays["test_logits"].argmax(1) == loaded.test.labels.numpy()
    )
