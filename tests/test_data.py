"""Data sets are read from tiny copies in the true formats, made here; real copies are optional."""

import gzip
import json
import os
import pickle
import runpy
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from dataclasses import replace
from functools import partial
from hashlib import md5
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat
from scipy.stats import multivariate_normal

from calibkit_companion import data
from calibkit_companion.data import cache, catalogue, readers, stream
from calibkit_companion.data.readers import generated
from calibkit_companion.data.torchvision import torchvision
from calibkit_companion.records import folders

REAL = Path(os.environ.get("CALIBKIT_DATA", "/nonexistent"))
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))


def images(n, *shape):
    return rng.integers(0, 256, (n, *shape), dtype=np.uint8)


def save_image(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.transpose(1, 2, 0)).save(path)


def resize(monkeypatch, name, counts, **changes):
    """Let a copy of another size count as whole."""
    row = replace(catalogue.SOURCES[name], counts=counts, **changes)
    monkeypatch.setitem(catalogue.SOURCES, name, row)


def checksums(monkeypatch, folder, kind):
    """Publish the checksums of our batches instead of the real ones."""

    def ours(entries):
        return [[f, md5((folder / f).read_bytes()).hexdigest()] for f, _ in entries]

    for entries in ("train_list", "test_list"):
        monkeypatch.setattr(kind, entries, ours(getattr(kind, entries)))
    ((name, digest),) = ours([(kind.meta["filename"], "")])
    monkeypatch.setattr(kind, "meta", kind.meta | {"filename": name, "md5": digest})


# Each maker writes a copy and returns the folder of the originals, what the training and test parts
# must be (inputs, labels), and a file that is worth damaging.


def make_cifar(root, monkeypatch, name):
    kind = getattr(torchvision.datasets, name.upper())
    folder, key = root / name / kind.base_folder, "labels" if name == "cifar10" else "fine_labels"
    folder.mkdir(parents=True)
    parts = []
    for entries in (kind.train_list, kind.test_list):
        inputs, labels = [], []
        for file, _ in entries:
            x, y = images(4, 3, 32, 32), rng.integers(0, int(name[5:]), 4).tolist()
            content = {"data": x.reshape(4, -1), key: y, "filenames": ["a"] * 4}
            (folder / file).write_bytes(pickle.dumps(content))
            inputs, labels = [*inputs, x], [*labels, *y]
        parts.append((np.concatenate(inputs), labels))
    classes = {kind.meta["key"]: [f"class {i}" for i in range(int(name[5:]))]}
    (folder / kind.meta["filename"]).write_bytes(pickle.dumps(classes))
    checksums(monkeypatch, folder, kind)
    resize(monkeypatch, name, tuple(len(y) for _, y in parts))
    return folder, *parts, folder / kind.train_list[-1][0]


def make_cifar_folder(root, monkeypatch, name="cifar10"):
    parts = []
    for part, n in (("train", 3), ("test", 2)):
        x, y = images(10 * n, 3, 32, 32), np.repeat(range(10), n)
        for i, (image, label) in enumerate(zip(x, y, strict=True)):
            save_image(root / name / part / readers.CIFAR10_CLASSES[label] / f"{i:04}.png", image)
        order = np.random.RandomState(42).permutation(len(y))  # folders are sorted by class
        parts.append((x[order], y[order]))
    resize(monkeypatch, name, (30, 20))
    return root / name, *parts, root / name / "train" / "cat" / "0010.png"


def make_svhn(root, monkeypatch):
    (root / "svhn").mkdir(parents=True)
    parts, kind = [], torchvision.datasets.SVHN
    published = dict(kind.split_list)
    for part, n in (("train", 20), ("test", 10)):
        x, y = images(n, 3, 32, 32), np.arange(n) % 10
        file = root / "svhn" / f"{part}_32x32.mat"
        savemat(file, {"X": x.transpose(2, 3, 1, 0), "y": np.where(y == 0, 10, y)[:, None]})
        published[part] = [*published[part][:2], md5(file.read_bytes()).hexdigest()]
        parts.append((x, y))
    monkeypatch.setattr(kind, "split_list", published)
    resize(monkeypatch, "svhn", (20, 10))
    return root / "svhn", *parts, root / "svhn" / "test_32x32.mat"


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def make_fashion(root, monkeypatch, packed=True):
    folder = root / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    parts = []
    for part, n in (("train", 20), ("t10k", 10)):
        x, y = images(n, 28, 28), np.arange(n) % 10
        for kind, array in (("images-idx3", x), ("labels-idx1", y)):
            file = folder / f"{part}-{kind}-ubyte{'.gz' if packed else ''}"
            file.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
        parts.append((x[:, None], y))
    resize(monkeypatch, "fashion_mnist", (20, 10))
    return folder, *parts, folder / f"t10k-images-idx3-ubyte{'.gz' if packed else ''}"


def make_tiny(root, monkeypatch):
    base, wnids = root / "tiny-imagenet-200", ["n01", "n02", "n03"]
    x, y = images(12, 3, 64, 64), np.repeat(range(3), 4)
    for i, (image, label) in enumerate(zip(x, y, strict=True)):
        name = wnids[label]
        save_image(base / "train" / name / "images" / f"{name}_{i:02}.png", image)
    test, places = images(5, 3, 64, 64), [2, 0, 1, 1, 0]
    lines = []
    for i, (image, label) in enumerate(zip(test, places, strict=True)):
        save_image(base / "val" / "images" / f"val_{i}.png", image)
        lines.append(f"val_{i}.png\t{wnids[label]}\t0\t0\t62\t62\n")
    (base / "val" / "val_annotations.txt").write_text("".join(lines))
    (base / "wnids.txt").write_text("n03\nn01\nn02\n")
    (base / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\tbullfrog\nn03\teft\nn99\tx\n")
    resize(monkeypatch, "tiny_imagenet", (12, 5))
    return base, (x, y), (test, places), base / "val" / "images" / "val_3.png"


def make_c10_1(root, monkeypatch):
    folder = root / "cifar10_1"
    folder.mkdir(parents=True)
    x, y = images(6, 32, 32, 3), np.arange(6, dtype=np.int32)
    np.save(folder / "cifar10.1_v6_data.npy", x)
    np.save(folder / "cifar10.1_v6_labels.npy", y)
    resize(monkeypatch, "cifar10_1", (0, 6))
    return folder, None, (x.transpose(0, 3, 1, 2), y), folder / "cifar10.1_v6_data.npy"


def make_c10_2(root, monkeypatch):
    folder = root / "cifar10_2"
    folder.mkdir(parents=True)
    x, y = images(6, 32, 32, 3), np.arange(6)
    np.savez(folder / "cifar102_test.npz", images=x, labels=y)
    resize(monkeypatch, "cifar10_2", (0, 6))
    return folder, None, (x.transpose(0, 3, 1, 2), y), folder / "cifar102_test.npz"


def make_c10c(root, monkeypatch):
    folder = root / "CIFAR-10-C"
    folder.mkdir(parents=True)
    labels, stack = np.tile([3, 1], 5).astype(np.uint8), []
    for corruption in readers.CIFAR10C_CORRUPTIONS:
        stack.append(images(10, 32, 32, 3))
        np.save(folder / f"{corruption}.npy", stack[-1])
    np.save(folder / "labels.npy", labels)
    resize(monkeypatch, "cifar10c", (0, 150))
    expected = np.concatenate(stack).transpose(0, 3, 1, 2), np.tile(labels, 15)
    return folder, None, expected, folder / "fog.npy"


MAKERS = {
    "cifar10": lambda *a: make_cifar(*a, "cifar10"),
    "cifar100": lambda *a: make_cifar(*a, "cifar100"),
    "cifar10 folder": make_cifar_folder,
    "cifar100 folder": lambda *a: make_cifar_folder(*a, "cifar100"),
    "svhn": make_svhn,
    "fashion_mnist": make_fashion,
    "fashion_mnist unpacked": lambda *a: make_fashion(*a, packed=False),
    "tiny_imagenet": make_tiny,
    "cifar10_1": make_c10_1,
    "cifar10_2": make_c10_2,
    "cifar10c": make_c10c,
}


@pytest.fixture(params=MAKERS)
def copy(request, tmp_path, monkeypatch):
    made = MAKERS[request.param](tmp_path / "data", monkeypatch)
    return request.param.split()[0], tmp_path / "data", *made


def test_reads_what_was_written(copy):
    name, root, _, train, test, _ = copy
    for _ in range(2):  # read, then from the decoded copy
        found = data.load(name, root, validation=0)
        if train is None:
            assert len(found.train) == len(found.validation) == 0
            assert found.mean == readers.CIFAR10_MOMENTS[0]
        else:
            order = np.random.RandomState(42).permutation(len(train[1]))
            np.testing.assert_array_equal(found.train.inputs, train[0][order])
            np.testing.assert_array_equal(found.train.labels, np.array(train[1])[order])
            scaled = train[0] / 255
            np.testing.assert_allclose(found.mean, scaled.mean((0, 2, 3)), atol=1e-6)
            np.testing.assert_allclose(found.std, scaled.std((0, 2, 3)), atol=1e-6)
        np.testing.assert_array_equal(found.test.inputs, test[0])
        np.testing.assert_array_equal(found.test.labels, test[1])
        assert found.test.inputs.dtype == torch.uint8 and found.test.labels.dtype == torch.int64
        assert found.test.inputs.is_contiguous()
    assert len(found.classes) >= len(np.unique(test[1]))


def refused(name, root, culprit):
    """Loading must fail with one line that names the file."""
    with pytest.raises(ValueError, match="get it again") as error:
        data.load(name, root)
    assert str(culprit) in str(error.value) and "\n" not in str(error.value)


def test_truncated_original_is_refused_by_name(copy):
    name, root, *_, culprit = copy
    data.load(name, root)  # a good decoded copy must not hide the damage
    culprit.write_bytes(culprit.read_bytes()[:-100])
    refused(name, root, culprit)
    culprit.write_bytes(b"")
    refused(name, root, culprit)


# Bytes without any checksum.
BARE = {"fashion_mnist unpacked", "cifar10_1", "cifar10c"}


@pytest.mark.parametrize("copy", [m for m in MAKERS if m not in BARE], indirect=True)
def test_altered_original_is_refused_by_name(copy):
    name, root, *_, culprit = copy
    content = bytearray(culprit.read_bytes())
    content[len(content) // 2] ^= 255
    culprit.write_bytes(content)
    refused(name, root, culprit)


def test_missing_file_of_a_copy_is_named(copy):
    name, root, *_, culprit = copy
    culprit.unlink()
    with pytest.raises((ValueError, FileNotFoundError), match="again|put a copy") as error:
        data.load(name, root)
    file = culprit.name.removesuffix(".gz")
    assert file in str(error.value) or "incomplete copy" in str(error.value)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


def test_untrusted_pickles_stay_closed(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    root = tmp_path / "data"
    _, _, _, batch = make_cifar(root, monkeypatch, "cifar10")
    batch.write_bytes(pickle.dumps(Bomb()))
    refused("cifar10", root, batch)
    *_, array = make_c10_1(root, monkeypatch)
    np.save(array, np.array([Bomb()], dtype=object), allow_pickle=True)
    refused("cifar10_1", root, array)
    assert not (tmp_path / "exploded").exists()
    pickle.loads(pickle.dumps(Bomb()))  # the bomb works
    assert (tmp_path / "exploded").exists()


def test_wrong_shapes_and_labels_are_refused(tmp_path, monkeypatch):
    root = tmp_path / "data"
    folder, *_ = make_c10_1(root, monkeypatch)
    labels = folder / "cifar10.1_v6_labels.npy"
    np.save(labels, np.arange(5))
    refused("cifar10_1", root, labels)
    np.save(labels, np.array([0, 1, 2, 3, 4, 10]))
    with pytest.raises(ValueError, match="labels from 0 to 10, expected 0 to 9"):
        data.load("cifar10_1", root)
    np.save(folder / "cifar10.1_v6_data.npy", np.zeros((6, 32, 32, 3), np.float32))
    refused("cifar10_1", root, folder / "cifar10.1_v6_data.npy")


def test_jpeg_copy_says_so(tmp_path, monkeypatch):
    make_cifar_folder(tmp_path, monkeypatch)
    assert data.load("cifar10", tmp_path).note == ""
    for file in (tmp_path / "cifar10").rglob("*.png"):
        Image.open(file).save(file.with_suffix(".jpg"))
        file.unlink()
    found = data.load("cifar10", tmp_path)
    assert "JPEG" in found.note and "under published values" in found.note
    assert found.classes == readers.CIFAR10_CLASSES


def test_archive_is_preferred_to_images(tmp_path, monkeypatch):
    make_cifar_folder(tmp_path, monkeypatch)
    _, train, *_ = make_cifar(tmp_path, monkeypatch, "cifar10")
    found = data.load("cifar10", tmp_path, validation=0)
    assert len(found.train) == len(train[1])


def test_tiny_imagenet_classes_are_words(tmp_path, monkeypatch):
    make_tiny(tmp_path, monkeypatch)
    found = data.load("tiny_imagenet", tmp_path, validation=3)
    assert found.classes == ("goldfish", "bullfrog", "eft")
    assert found.note.startswith("64×64") and len(found.validation) == 3


def test_image_folder(tmp_path):
    for part in ("train", "test"):
        for label, name in enumerate(("no", "yes")):
            for i in range(4):
                save_image(tmp_path / part / name / f"{i}.png", np.full((3, 9, 7), label, np.uint8))
    (tmp_path / "train" / "no" / "notes.txt").write_text("not an image")
    name = f"imagefolder:{tmp_path}"
    found = data.load(name, tmp_path / "root", validation=2)
    assert found.classes == ("no", "yes") and found.name == name
    assert found.train.inputs.shape == (6, 3, 9, 7)
    assert (found.train.inputs[:, 0, 0, 0] == found.train.labels).all()

    odd = tmp_path / "train" / "yes" / "9.png"
    save_image(odd, np.zeros((3, 8, 7), np.uint8))
    with pytest.raises(ValueError, match=f"{odd}: image of 7×8, expected 7×9"):
        data.load(name, tmp_path / "root")
    odd.unlink()
    (tmp_path / "test" / "maybe").mkdir()
    with pytest.raises(ValueError, match="class folders are not those of"):
        data.load(name, tmp_path / "root")
    with pytest.raises(FileNotFoundError, match="put a copy there: .*/nowhere/train"):
        data.load(f"imagefolder:{tmp_path}/nowhere")


def make_imagenet(root, part="train", n=5, sides=((300, 256), (400, 600))):
    """Dark images in one class, ramps in the other."""
    ramp = np.tile(np.linspace(0, 255, sides[1][1]).astype(np.uint8), (3, sides[1][0], 1))
    for label, name in enumerate(("n01", "n02")):
        for i in range(n):
            shade = ramp if label else np.zeros((3, *sides[0]), np.uint8)
            save_image(root / "imagenet" / part / name / f"{i}.png", shade)


def test_imagenet_that_fits_is_cropped_and_decoded_once(tmp_path):
    for part, n in (("train", 5), ("val", 2)):
        make_imagenet(tmp_path, part, n)
    found = data.load("imagenet", tmp_path, validation=3, train_size=4)
    assert found.train.inputs.shape == (4, 3, 224, 224) and len(found.validation) == 3
    assert "random resized" in found.note and found.augment == "crop_flip"
    assert found.mean == (0.485, 0.456, 0.406)
    assert sorted(found.test.labels.tolist()) == [0, 0, 1, 1]
    bright = found.test.inputs[found.test.labels == 1]
    assert abs(bright.float().mean() - 127.5) < 2  # the centre of the ramp
    stored = np.load(tmp_path / "decoded" / "imagenet" / "train.npy")
    order = np.random.RandomState(42).permutation(10)[3:7]
    np.testing.assert_array_equal(found.train.inputs, stored[order])


@pytest.mark.parametrize("count", ["0", "2"])
def test_images_that_do_not_fit_are_read_while_training(tmp_path, monkeypatch, count):
    """The same images in the same splits as decoded ones, whoever decodes them."""
    for part, n in (("train", 5), ("val", 2)):
        make_imagenet(tmp_path, part, n)
    whole = data.load("imagenet", tmp_path, validation=3)
    monkeypatch.setenv("CALIBKIT_IN_MEMORY", "0.001")
    monkeypatch.setenv("CALIBKIT_WORKERS", count)
    found = data.load("imagenet", tmp_path, validation=3)
    assert found.augment == "resized_crop" and "while training" in found.note
    assert (found.classes, found.mean, found.std) == (whole.classes, whole.mean, whole.std)
    for part in ("train", "validation", "test"):
        mine, theirs = getattr(found, part), getattr(whole, part)
        assert torch.equal(mine.labels, theirs.labels)
        assert mine.inputs.shape == theirs.inputs.shape and mine.inputs.dtype == torch.uint8
        positions = torch.arange(len(mine)).flip(0)
        assert torch.equal(mine.inputs[positions], theirs.inputs[positions])
        parts = positions.split(2)
        assert torch.equal(torch.cat(list(mine.inputs.batches(parts))), theirs.inputs[positions])


def test_random_crops_are_drawn_by_seed_epoch_and_image(tmp_path, monkeypatch):
    make_imagenet(tmp_path)
    make_imagenet(tmp_path, "val", 1)
    monkeypatch.setenv("CALIBKIT_IN_MEMORY", "0")
    inputs = data.load("imagenet", tmp_path, validation=0).train.inputs
    ramps = torch.tensor([i for i in range(10) if "n02" in str(inputs.files[i])])
    before = torch.get_rng_state()
    crops = inputs.read(ramps, (0, 1))
    assert torch.equal(torch.get_rng_state(), before)  # nobody else's draws are touched
    assert crops.shape == (5, 3, 224, 224)
    assert torch.equal(crops, inputs.read(ramps, (0, 1)))
    assert torch.equal(crops[2:], inputs.read(ramps[2:], (0, 1)))  # alone or in a batch
    means = crops.float().mean((1, 2, 3))
    assert len(means.unique()) == 5  # each image its own
    assert not torch.equal(crops, inputs.read(ramps, (0, 2)))
    assert not torch.equal(crops, inputs.read(ramps, (1, 1)))
    for count in ("0", "2"):
        monkeypatch.setenv("CALIBKIT_WORKERS", count)
        assert torch.equal(torch.cat(list(inputs.batches(ramps.split(2), (0, 1)))), crops)
    mirrored = [c[0, 0, 0] > c[0, 0, -1] for c in inputs.read(ramps.repeat(8), (3, 1))]
    assert 0 < sum(map(bool, mirrored))  # the ramp runs the other way in some


def test_a_worker_is_no_copy_of_a_process_with_threads(tmp_path, monkeypatch):
    """It gets the files of its part, not those of the whole set; a fork would have all of both."""
    make_imagenet(tmp_path)
    make_imagenet(tmp_path, "val", 1)
    monkeypatch.setenv("CALIBKIT_IN_MEMORY", "0")
    monkeypatch.setenv("CALIBKIT_WORKERS", "1")
    inputs = data.load("imagenet", tmp_path, validation=0).train.inputs
    (before,) = inputs.batches([torch.arange(3)])
    monkeypatch.setattr(stream, "_decode", lambda *part: 1 / 0)  # seen by a fork alone
    (after,) = inputs.batches([torch.arange(3)])
    assert torch.equal(before, after)
    files, seeds = inputs._part(torch.tensor([4, 2]), (7, 1))
    assert files.files.tolist() == [inputs.files[4], inputs.files[2]]
    assert seeds == [(7, 1, 4), (7, 1, 2)]


@pytest.mark.parametrize("count", ["0", "1"])
def test_damaged_image_of_a_stream_is_named_in_one_line(tmp_path, monkeypatch, count):
    make_imagenet(tmp_path)
    make_imagenet(tmp_path, "val", 1)
    monkeypatch.setenv("CALIBKIT_IN_MEMORY", "0")
    monkeypatch.setenv("CALIBKIT_WORKERS", count)
    inputs = data.load("imagenet", tmp_path, validation=0).train.inputs
    Path(str(inputs.files[4])).write_bytes(b"not an image")
    with pytest.raises(ValueError, match="get it again") as error:
        list(inputs.batches(torch.arange(10).split(4)))
    assert str(inputs.files[4]) in str(error.value) and "\n" not in str(error.value)


def test_a_stream_of_ones_own_images_has_one_size(tmp_path, monkeypatch):
    for part in ("train", "val"):
        for name in ("no", "yes"):
            for i in range(3):
                save_image(tmp_path / part / name / f"{i}.png", images(1, 3, 9, 7)[0])
    monkeypatch.setenv("CALIBKIT_IN_MEMORY", "0")
    found = data.load(f"imagefolder:{tmp_path}", tmp_path, validation=0)
    assert found.train.inputs.shape == (6, 3, 9, 7) and found.augment == "crop_flip"
    shades = found.train.inputs[torch.arange(6)].float() / 255
    np.testing.assert_allclose(found.mean, shades.mean((0, 2, 3)), atol=1e-5)
    save_image(Path(str(found.train.inputs.files[2])), images(1, 3, 8, 7)[0])
    with pytest.raises(ValueError, match="image of 7×8, expected 7×9"):
        found.train.inputs[torch.arange(6)]


@pytest.mark.parametrize("name", ["CALIBKIT_IN_MEMORY", "CALIBKIT_WORKERS"])
def test_wrong_settings_of_streams_are_refused(tmp_path, monkeypatch, name):
    make_imagenet(tmp_path)
    make_imagenet(tmp_path, "val", 1)
    monkeypatch.setenv("CALIBKIT_IN_MEMORY", "0")
    monkeypatch.setenv(name, "many")
    with pytest.raises(ValueError, match=f"{name}: got 'many', expected a number"):
        list(data.load("imagenet", tmp_path).test.inputs.batches([torch.arange(1)]))


def make_v2(root, classes=12):
    """Class folders numbered as ImageNet-v2's are: as text they would sort 0, 1, 10, 11, 2."""
    folder = root / "imagenetv2-matched-frequency-format-val"
    for label in range(classes):
        save_image(folder / str(label) / "a.jpeg", np.full((3, 256, 256), 20 * label, np.uint8))
    return folder


def test_imagenet_v2_numbers_its_classes(tmp_path, monkeypatch):
    folder = make_v2(tmp_path)
    resize(monkeypatch, "imagenet_v2", (0, 12))
    found = data.load("imagenet_v2", tmp_path)
    assert len(found.train) == 0 and found.test.inputs.shape == (12, 3, 224, 224)
    shade = found.test.inputs[:, 0, 100, 100].float()
    assert (shade - 20 * found.test.labels).abs().max() < 3  # JPEG
    (folder / "3").rename(folder / "n03")
    with pytest.raises(ValueError, match="expected 0, 1, 2"):
        data.load("imagenet_v2", tmp_path)


def write_posts(base, newline):
    texts = {"train": {}, "test": {}}
    for part in texts:
        for g, group in enumerate(("alt.atheism", "sci.space")):
            folder = base / f"20news-bydate-{part}" / group
            folder.mkdir(parents=True)
            for i in (101, 22):
                lines = [f"Subject: caf\xe9 {i}", "", "the moon " * g + "the end", "x " * 600]
                (folder / str(i)).write_bytes(newline.join(lines).encode("latin-1"))
    (base / "20news-bydate-train" / "alt.atheism" / "54473-o").write_text("stray words")


def test_newsgroups(tmp_path, monkeypatch):
    resize(monkeypatch, "20newsgroups", (4, 4))
    found = []
    for newline in ("\n", "\t"):  # one copy in wide use has tabs
        root = tmp_path / repr(newline)
        write_posts(root / "20newsgroups", newline)
        found.append(data.load("20newsgroups", root, validation=0))
    plain, tabs = found
    assert torch.equal(plain.train.inputs, tabs.train.inputs)
    assert plain.train.inputs.shape == (4, readers.LENGTH)
    assert plain.train.inputs.dtype == torch.int64
    assert plain.mean == plain.std == () and plain.classes == ("alt.atheism", "sci.space")
    # By frequency, then alphabet: x (2400), the (6), café, end, subject (4), 101, 22, moon (2).
    test = plain.test.inputs
    assert plain.test.labels.tolist() == [0, 0, 1, 1]
    assert test[0, :6].tolist() == [6, 4, 8, 3, 5, 2]  # "subject café 22 the end x"
    assert test[2, :7].tolist() == [6, 4, 8, 3, 9, 3, 5]
    assert int(plain.train.inputs.max()) == 9  # no stray words


def test_newsgroups_padding_and_unknown_words(tmp_path, monkeypatch):
    resize(monkeypatch, "20newsgroups", (1, 1))
    for part, text in (("train", "a a b"), ("test", "B z a")):
        post = tmp_path / "20newsgroups" / f"20news-bydate-{part}" / "g" / "1"
        post.parent.mkdir(parents=True)
        post.write_text(text)
    found = data.load("20newsgroups", tmp_path, validation=0)
    assert found.test.inputs[0, :4].tolist() == [3, 1, 2, 0]
    post.write_bytes(b"")
    refused("20newsgroups", tmp_path, post)


# --- names and places ---


def test_unknown_name_lists_the_valid_ones():
    with pytest.raises(ValueError, match=r"'cifar'.*did you mean.*fashion_mnist") as error:
        data.load("cifar")
    assert "\n" not in str(error.value) and "imagefolder:PATH" in str(error.value)
    for name in ("imagefolder", "imagefolder:", "../cifar10"):
        with pytest.raises(ValueError, match="unknown data set"):
            data.load(name)


@pytest.mark.parametrize("name", [n for n, row in catalogue.SOURCES.items() if row.places])
def test_missing_data_says_what_to_do(name, tmp_path, monkeypatch):
    places = tuple(p for p in catalogue.SOURCES[name].places if not p.startswith("/"))
    resize(monkeypatch, name, None, places=places)  # as where Debian's package is not installed
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="put a copy there") as error:
        data.load(name)
    message = str(error.value)
    assert "\n" not in message and str(tmp_path / places[0]) in message
    if catalogue.SOURCES[name].fetched:
        assert f"calibkit data get {name}" in message
    if name == "fashion_mnist":
        assert "apt-get install dataset-fashion-mnist" in message
    assert not list(tmp_path.iterdir())


def test_root_is_the_variable_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("CALIBKIT_DATA", raising=False)
    assert (
        catalogue.data_root()
        == folders.cache_root() / "datasets"
        == tmp_path / "cache" / "datasets"
    )
    monkeypatch.setenv("CALIBKIT_DATA", "/elsewhere")
    assert catalogue.data_root() == Path("/elsewhere")


def test_listing(tmp_path, monkeypatch):
    make_svhn(tmp_path, monkeypatch)
    rows = {row["name"]: row for row in data.listing(tmp_path)}
    assert list(rows) == list(catalogue.SOURCES)
    assert rows["svhn"]["present"] and rows["svhn"]["path"] == str(tmp_path / "svhn")
    assert rows["gaussians"]["present"] and not rows["cifar10c"]["present"]
    for row in rows.values():
        assert set(row) == {"name", "what", "source", "licence", "size", "present", "path"}
        assert all(row[k] for k in ("what", "source", "licence", "size"))


# --- downloads, from this machine instead of the net ---


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The address at which the files of ``tmp_path`` are."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_download_cifar(tmp_path, monkeypatch, served):
    folder, train, *_ = make_cifar(tmp_path / "theirs", monkeypatch, "cifar10")
    archive = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder, folder.name)
    kind = torchvision.datasets.CIFAR10
    monkeypatch.setattr(kind, "url", f"{served}/{archive.name}")
    monkeypatch.setattr(kind, "tgz_md5", md5(archive.read_bytes()).hexdigest())
    root = tmp_path / "ours"
    with pytest.raises(FileNotFoundError):
        data.load("cifar10", root)
    assert len(data.get("cifar10", root).train) + 2 == len(train[1])
    archive.unlink()
    data.load("cifar10", root, download=True)  # the copy on disk comes first


def test_download_tiny_imagenet(tmp_path, monkeypatch, served):
    base, *_ = make_tiny(tmp_path / "theirs", monkeypatch)
    archive = tmp_path / "tiny-imagenet-200.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(base.rglob("*")):
            file.write(path, path.relative_to(base.parent))
    digest = md5(archive.read_bytes()).hexdigest()
    url = f"{served}/{archive.name}"
    resize(monkeypatch, "tiny_imagenet", (12, 5), urls=(url,), md5=digest)
    assert len(data.get("tiny_imagenet", tmp_path / "ours").test) == 5
    resize(monkeypatch, "tiny_imagenet", (12, 5), urls=(url,), md5="0" * 32)
    with pytest.raises(OSError, match="tiny_imagenet: download failed") as error:
        data.get("tiny_imagenet", tmp_path / "third")
    assert "\n" not in str(error.value)


def test_download_plain_files(tmp_path, monkeypatch, served):
    folder, _, test, _ = make_c10_1(tmp_path / "theirs", monkeypatch)
    files = [f"{served}/{f.relative_to(tmp_path)}" for f in folder.iterdir()]
    resize(monkeypatch, "cifar10_1", (0, 6), urls=files)
    found = data.get("cifar10_1", tmp_path / "ours")
    np.testing.assert_array_equal(found.test.inputs, test[0])


def test_download_newsgroups_leaves_files_and_no_pickle(tmp_path, monkeypatch):
    def fetch_20newsgroups(data_home, subset, shuffle):
        names = [f"/tmp/x/20news-bydate-{subset}/sci.space/{i}" for i in (7, 8)]
        return SimpleNamespace(filenames=np.array(names), data=["caf\xe9 moon", "moon"])

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", fetch_20newsgroups)
    resize(monkeypatch, "20newsgroups", (2, 2))
    found = data.get("20newsgroups", tmp_path)
    assert found.test.inputs[0, :3].tolist() == [3, 2, 0]
    post = tmp_path / "20newsgroups" / "20news-bydate-test" / "sci.space" / "7"
    assert post.read_bytes() == b"caf\xe9 moon"
    assert not list(tmp_path.glob(".draft*")) and not list(tmp_path.rglob("*.pkz"))


def test_no_connection_is_one_line(tmp_path, monkeypatch, served):
    resize(monkeypatch, "tiny_imagenet", (1, 1), urls=(f"{served}/gone.zip",), md5="0" * 32)
    with pytest.raises(OSError, match="tiny_imagenet: download failed .*; run") as error:
        data.get("tiny_imagenet", tmp_path)
    assert "\n" not in str(error.value)


# --- decoded copies ---


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A CIFAR-10 folder, and a list that grows by one whenever it is decoded."""
    make_cifar_folder(tmp_path, monkeypatch)
    times = []

    def read(base, draft):
        times.append(1)
        return readers.cifar(base, draft)

    resize(monkeypatch, "cifar10", (30, 20), read=read)
    return times


def same(a, b):
    return torch.equal(a.train.inputs, b.train.inputs) and torch.equal(a.test.inputs, b.test.inputs)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-9])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def scribble(path):
    path.write_text('{"layout": 1}')


@pytest.mark.parametrize("file", [f"{name}.npy" for name in cache.ARRAYS] + ["info.json"])
@pytest.mark.parametrize("damage", [truncate, flip, scribble, Path.unlink])
def test_damaged_decoded_copy_is_made_again(counted, tmp_path, capsys, file, damage):
    first = data.load("cifar10", tmp_path)
    data.load("cifar10", tmp_path)
    assert len(counted) == 1
    damage(tmp_path / "decoded" / "cifar10" / file)
    assert same(first, data.load("cifar10", tmp_path))
    assert len(counted) == 2 and "damaged or out of date" in capsys.readouterr().out
    data.load("cifar10", tmp_path)
    assert len(counted) == 2


@pytest.mark.parametrize(("old", "new"), [("  0.", "  1."), ("airplane", "airplant")])
def test_altered_facts_of_a_decoded_copy_are_not_used(counted, tmp_path, old, new):
    first = data.load("cifar10", tmp_path)
    info = tmp_path / "decoded" / "cifar10" / "info.json"
    assert old in info.read_text()
    info.write_text(info.read_text().replace(old, new))
    again = data.load("cifar10", tmp_path)
    assert len(counted) == 2 and (again.mean, again.classes) == (first.mean, first.classes)


def test_changed_originals_are_decoded_again(counted, tmp_path):
    data.load("cifar10", tmp_path)
    save_image(tmp_path / "cifar10" / "test" / "airplane" / "0000.png", images(1, 3, 32, 32)[0])
    data.load("cifar10", tmp_path)
    assert len(counted) == 2
    file = tmp_path / "cifar10" / "test" / "airplane" / "0001.png"
    file.rename(file.with_name("9999.png"))
    data.load("cifar10", tmp_path)
    assert len(counted) == 3


def test_failure_and_kill_leave_no_decoded_copy(counted, tmp_path, monkeypatch):
    folder = tmp_path / "decoded"
    (folder / ".cifar10.draft").mkdir(parents=True)  # a killed process left it
    (folder / ".cifar10.draft" / "train.npy").write_text("half")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space"):
        data.load("cifar10", tmp_path)
    assert {p.name for p in folder.iterdir()} == {".cifar10.lock"}
    monkeypatch.undo()
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))
    resize(monkeypatch, "cifar10", (30, 20))
    assert len(data.load("cifar10", tmp_path).test) == 20


def test_data_folder_that_cannot_be_written(counted, tmp_path, monkeypatch):
    (tmp_path / "decoded").write_text("a file, where no folder can be made")
    data.load("cifar10", tmp_path)
    data.load("cifar10", tmp_path)
    assert len(counted) == 1
    assert (tmp_path / "cache" / "datasets" / "decoded" / "cifar10" / "train.npy").exists()
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "decoded"))
    with pytest.raises(PermissionError, match="cannot be written"):
        data.load("cifar10", tmp_path)


def test_loaded_tensors_are_ours_to_change(counted, tmp_path):
    first = data.load("cifar10", tmp_path)
    first.train.inputs.zero_(), first.test.inputs.zero_()
    again = data.load("cifar10", tmp_path)
    assert again.train.inputs.any() and again.test.inputs.any() and len(counted) == 1


# --- splits ---


def keys(split):
    """Something that tells samples apart."""
    return [x.numpy().tobytes() for x in split.inputs]


def test_splits_are_the_authors():
    """Their code: seed NumPy, shuffle a list of indices, hold out the first of them."""
    everything = readers.gaussians(None, None).train
    indices = list(range(len(everything)))
    state = np.random.get_state()
    np.random.seed(7)
    np.random.shuffle(indices)
    np.random.set_state(state)
    found = data.load("gaussians", validation=500, split_seed=7)
    np.testing.assert_array_equal(found.validation.inputs, everything[indices[:500]])
    np.testing.assert_array_equal(found.train.inputs, everything[indices[500:]])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 800), st.integers(1, 300), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_splits_are_disjoint_fixed_and_nested(validation, small, more, seed):
    def load(size):
        return data.load("gaussians", validation=validation, train_size=size, split_seed=seed)

    little, large, again = load(small), load(small + more), load(small + more)
    assert (len(little.train), len(large.train)) == (small, small + more)
    assert len(little.validation) == validation
    assert torch.equal(large.train.inputs, again.train.inputs)
    assert torch.equal(large.train.inputs[:small], little.train.inputs)
    assert torch.equal(large.validation.inputs, little.validation.inputs)
    assert not set(keys(large.train)) & set(keys(large.validation))
    assert torch.equal(little.test.inputs, data.load("gaussians").test.inputs)


def test_splits_cover_the_training_part():
    found = data.load("digits")
    assert (len(found.train), len(found.validation), len(found.test)) == (1294, 143, 360)
    other = data.load("digits", split_seed=1)
    both = sorted(keys(found.train) + keys(found.validation))
    assert both == sorted(keys(other.train) + keys(other.validation))
    assert keys(found.validation) != keys(other.validation)


@pytest.mark.parametrize("wrong", [-1, 1437, "val", 0.1, True])
def test_wrong_validation(wrong):
    with pytest.raises(ValueError, match=r'validation: got .*expected "test" or 0 to 1436'):
        data.load("digits", validation=wrong)


@pytest.mark.parametrize("wrong", [0, -3, 1338, 10.0, False])
def test_wrong_train_size(wrong):
    with pytest.raises(ValueError, match="train_size: got .*expected 1 to 1337"):
        data.load("digits", validation=100, train_size=wrong)


def test_validating_on_the_test_set_warns():
    with pytest.warns(data.LeakWarning, match="digits: validating on the test split"):
        found = data.load("digits", validation="test")
    assert found.validation is found.test and len(found.train) == 1437


# --- generated data ---


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    found = data.load("digits")
    levels = torch.cat([found.train.inputs, found.validation.inputs, found.test.inputs])
    labels = torch.cat([found.train.labels, found.validation.labels, found.test.labels])
    bunch = load_digits()
    theirs = sorted((x.tobytes(), int(y)) for x, y in zip(bunch.images, bunch.target, strict=True))
    back = (levels[:, 0].double() * 16 / 255).round().numpy()
    assert sorted((x.tobytes(), int(y)) for x, y in zip(back, labels, strict=True)) == theirs


def test_mnist1d_is_what_its_package_makes():
    from mnist1d.data import get_dataset_args, make_dataset

    arguments = get_dataset_args()
    arguments.num_samples, arguments.seed = 300, 42
    theirs = make_dataset(arguments)
    expected = np.concatenate([theirs["x"], theirs["x_test"]])
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    signals, labels = readers.mnist1d_signals(300, 42)
    assert (np.random.get_state()[1] == before).all()
    np.testing.assert_allclose(
        (signals[:, 0] - signals.mean()) / signals.std(), expected, atol=1e-5
    )
    np.testing.assert_array_equal(labels, np.concatenate([theirs["y"], theirs["y_test"]]))


def test_mnist1d_is_generated_once_and_checked(tmp_path, monkeypatch):
    calls = []
    real = readers.mnist1d_signals

    def quick(n, seed):
        calls.append((n, seed))
        return real(n // 100, seed)

    monkeypatch.setattr(generated, "mnist1d_signals", quick)
    first = data.load("mnist1d", tmp_path)
    assert calls == [(5_000, 42), (5_000, readers.MNIST1D_TEST_SEED)]
    assert (len(first.train), len(first.validation), len(first.test)) == (40, 10, 50)
    assert first.train.inputs.shape[1:] == (1, 40) and first.train.inputs.dtype == torch.float32
    again = data.load("mnist1d", tmp_path)
    assert len(calls) == 2 and same(first, again)
    flip(tmp_path / "decoded" / "mnist1d" / "train.npy")
    assert same(first, data.load("mnist1d", tmp_path)) and len(calls) == 4
    # The training part is all that the normalisation has seen.
    whole = data.load("mnist1d", tmp_path, validation=0)
    scaled = data.normalise(whole.train.inputs, whole.mean, whole.std)
    assert abs(scaled.mean()) < 1e-4 and abs(scaled.std(correction=0) - 1) < 1e-4


def test_gaussian_posterior_is_bayes_rule():
    x = rng.uniform(-10, 10, (50, 2))
    density = np.stack([multivariate_normal(m).pdf(x) for m in readers.GAUSSIAN_MEANS], 1)
    expected = density / density.sum(1, keepdims=True)
    np.testing.assert_allclose(data.gaussian_posterior(x), expected, rtol=1e-9)
    tensor = data.gaussian_posterior(torch.from_numpy(x).float())
    assert isinstance(tensor, torch.Tensor) and tensor.shape == (50, 5)
    far = data.gaussian_posterior(np.array([[1e4, 1e4]]))
    np.testing.assert_allclose(far.sum(), 1)
    with pytest.raises(ValueError, match=r"x: got shape \(2,\), expected \(n, 2\)"):
        data.gaussian_posterior(np.zeros(2))


def test_gaussian_posterior_is_calibrated_on_its_samples():
    found = data.load("gaussians")
    posterior = data.gaussian_posterior(found.test.inputs).numpy()
    right = posterior.argmax(1) == found.test.labels.numpy()
    assert abs(right.mean() - posterior.max(1).mean()) < 0.015
    assert 0.7 < right.mean() < 0.9  # there is something to be uncertain about
    assert torch.bincount(found.test.labels).tolist() == [1000] * 5


# --- batches ---


def test_normalise():
    x = torch.from_numpy(images(4, 3, 5, 6))
    mean, std = (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
    centred = x.double() / 255 - torch.tensor(mean).view(3, 1, 1)
    expected = centred / torch.tensor(std).view(3, 1, 1)
    found = data.normalise(x, mean, std)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected.float(), atol=1e-6, rtol=1e-5)
    points = torch.randn(7, 2)
    kept = points.clone()
    torch.testing.assert_close(
        data.normalise(points, (1.0, 2.0), (2.0, 4.0)),
        (points - torch.tensor([1.0, 2.0])) / torch.tensor([2.0, 4.0]),
    )
    assert torch.equal(points, kept)  # not in place
    ids = torch.arange(6).view(2, 3)
    assert data.normalise(ids, (), ()) is ids
    with pytest.raises(ValueError, match="expected 3 numbers each"):
        data.normalise(x, (0.5,), (0.5,))
    assert data.normalise(x[:0], mean, std).shape == (0, 3, 5, 6)


def slow_crop_flip(x, generator, padding):
    """The same draws, one image at a time."""
    n, _, h, w = x.shape
    shifts = torch.randint(2 * padding + 1, (2, n, 1), generator=generator)
    mirrored = torch.randint(2, (n, 1), generator=generator)
    out = []
    for i in range(n):
        big = torch.zeros(x.shape[1], h + 2 * padding, w + 2 * padding, dtype=x.dtype)
        big[:, padding : padding + h, padding : padding + w] = x[i]
        top, left = int(shifts[0, i]), int(shifts[1, i])
        crop = big[:, top : top + h, left : left + w]
        out.append(crop.flip(2) if mirrored[i] else crop)
    return torch.stack(out)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 5),
    st.sampled_from([torch.float32, torch.uint8, torch.bfloat16]),
    st.booleans(),
)
def test_crop_flip_against_a_loop(n, c, h, w, padding, dtype, channels_last):
    x = torch.randint(1, 200, (n, c, h, w)).to(dtype)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    before = x.clone()
    found = data.augment_crop_flip(x, torch.Generator().manual_seed(3), padding)
    expected = slow_crop_flip(x, torch.Generator().manual_seed(3), padding)
    assert found.dtype == dtype and torch.equal(found, expected) and torch.equal(x, before)


def test_crop_flip_keeps_the_memory_format():
    x = torch.randn(4, 3, 8, 8)
    generator = torch.Generator().manual_seed(0)
    assert data.augment_crop_flip(x, generator).is_contiguous()
    last = x.contiguous(memory_format=torch.channels_last)
    moved = data.augment_crop_flip(last, generator)
    assert moved.is_contiguous(memory_format=torch.channels_last) and not moved.is_contiguous()


def test_crop_flip_draws_each_shift_and_mirror_equally_often():
    n = 16_200
    x = torch.zeros(n, 1, 5, 5)
    x[:, 0, 2, 2] = 1  # the middle stays in view for padding 2
    x[:, 0, 2, 3] = 2  # tells a mirrored one
    out = data.augment_crop_flip(x, torch.Generator().manual_seed(1), padding=1)
    place = out[:, 0].flatten(1)
    mirrored = place.argmax(1) < (place == 1).int().argmax(1)
    row, column = (place == 1).int().argmax(1) // 5, (place == 1).int().argmax(1) % 5
    counts = torch.bincount(mirrored * 9 + (row - 1) * 3 + column - 1, minlength=18)
    assert counts.min() > 780 and counts.max() < 1020  # 900 each; 4 standard deviations


def test_crop_flip_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"x: got shape \(3, 8, 8\), expected \(n, c, h, w\)"):
        data.augment_crop_flip(torch.zeros(3, 8, 8), torch.Generator())


# --- imports ---


def test_torchvision_works_after_a_failed_import():
    code = """
try:
    import torchvision
except RuntimeError:
    pass
from calibkit_companion.data.torchvision import torchvision
import torch
x = torch.rand(2, 3, 8, 8)
assert torchvision.transforms.v2.functional.gaussian_blur(x, 3).shape == x.shape
assert torchvision.models.resnet18(num_classes=4).eval()(x).shape == (2, 4)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# --- real copies ---


def real(name):
    row = catalogue.SOURCES[name]
    return pytest.mark.skipif(row.find(REAL) is None, reason=f"no {name} in $CALIBKIT_DATA")


@pytest.mark.parametrize(
    ("name", "shape", "sizes", "mean"),
    [
        pytest.param(*case, marks=real(case[0]), id=case[0])
        for case in (
            ("cifar10", (3, 32, 32), (45_000, 5_000, 10_000), readers.CIFAR10_MOMENTS[0]),
            ("fashion_mnist", (1, 28, 28), (54_000, 6_000, 10_000), (0.2860,)),
            ("20newsgroups", (500,), (10_183, 1_131, 7_532), ()),
        )
    ],
)
def test_real_copy(name, shape, sizes, mean):
    found = data.load(name, REAL)
    assert (len(found.train), len(found.validation), len(found.test)) == sizes
    assert found.train.inputs.shape[1:] == shape
    np.testing.assert_allclose(found.mean, mean, atol=2e-3)
    for split in (found.train, found.test):
        counts = torch.bincount(split.labels, minlength=len(found.classes))
        assert counts.min() > 0.6 * counts.float().mean()
    if name == "20newsgroups":
        assert found.train.inputs.max() == readers.VOCABULARY - 1
        known = found.test.inputs[found.test.inputs > 0]
        assert (known > 1).float().mean() > 0.8


@real("tiny_imagenet")
def test_real_tiny_imagenet(tmp_path):
    """One in fifty of its training images: to decode all takes most of a minute."""
    base, part, draft = catalogue.SOURCES["tiny_imagenet"].find(REAL), tmp_path / "part", tmp_path
    files = sorted(base.glob("train/*/images/*"))
    for file in files[::50]:
        link = part / file.relative_to(base)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    (part / "val").symlink_to(base / "val")
    found = readers.tiny_imagenet(part, draft)
    assert (len(files), len(found.test)) == catalogue.SOURCES["tiny_imagenet"].counts
    assert np.bincount(found.train_labels).tolist() == [10] * 200
    assert np.bincount(found.test_labels).tolist() == [50] * 200


def test_a_notebook_finds_the_records_of_the_checkout_it_lies_in(tmp_path, monkeypatch):
    """Also if calibkit was installed from a wheel, as papermill does it with --cwd notebooks."""
    monkeypatch.delenv("CALIBKIT_CACHE", raising=False)
    file = tmp_path / "site-packages" / "calibkit_companion" / "data" / "cache.py"
    file.parent.mkdir(parents=True)
    shutil.copy(cache.__file__, file)
    installed = SimpleNamespace(**runpy.run_path(str(file)))
    clone = tmp_path / "clone"
    (clone / "notebooks" / "mine").mkdir(parents=True)
    monkeypatch.chdir(clone / "notebooks" / "mine")
    assert installed.cache_root() == Path.cwd() / "data_cache"  # not a checkout yet
    (clone / "data_cache").mkdir()
    assert installed.cache_root() == clone / "data_cache"
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "own"))
    assert installed.cache_root() == tmp_path / "own"


# ------------------------------------------------------------------------- packed data sets


def packed(tmp_path, monkeypatch):
    """Originals and their packed files; `$CALIBKIT_DATA` is then a folder without either."""
    from calibkit_companion.data import pack

    monkeypatch.setattr(pack, "MOSAIC_PIXELS", 96)  # nine images a mosaic, the last not full
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))
    make_cifar_folder(tmp_path / "here", monkeypatch)
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path / "here"))
    original = catalogue.read("cifar10")
    files = pack.pack("cifar10", tmp_path / "packed")
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path / "there"))
    return original, files


def test_a_packed_data_set_comes_back_exactly(tmp_path, monkeypatch):
    from calibkit_companion.data import pack

    original, files = packed(tmp_path, monkeypatch)
    assert len(files) == 4 + 3 + 1
    with pytest.raises(FileNotFoundError, match="cifar10 not found"):
        catalogue.read("cifar10")
    assert pack.unpack(files[-1]) == tmp_path / "there/decoded/cifar10"
    (row,) = (row for row in data.listing() if row["name"] == "cifar10")
    assert row["present"] and row["path"] == str(tmp_path / "there/decoded/cifar10")
    found = catalogue.read("cifar10")
    for name in ("train", "train_labels", "test", "test_labels"):
        assert getattr(found, name).dtype == getattr(original, name).dtype
        assert np.array_equal(getattr(found, name), getattr(original, name))
    facts = ("classes", "note", "mean", "std")
    assert [getattr(found, f) for f in facts] == [getattr(original, f) for f in facts]


def test_one_channel_is_packed_as_well(tmp_path, monkeypatch):
    from calibkit_companion.data import pack

    images = np.random.default_rng(0).integers(0, 256, (7, 1, 28, 28), np.uint8)
    (mosaic,) = pack._mosaics(images)
    pack._save(mosaic, tmp_path / "0.webp")
    assert np.array_equal(pack._tiles([tmp_path / "0.webp"], images.shape), images)


@pytest.mark.parametrize("fault", ["missing", "damaged", "other"])
def test_a_faulty_packed_file_is_named(tmp_path, monkeypatch, fault):
    from calibkit_companion.data import pack

    _, files = packed(tmp_path, monkeypatch)
    if fault == "missing":
        files[0].unlink()
    elif fault == "damaged":
        content = bytearray(files[0].read_bytes())
        content[len(content) // 2] ^= 1
        files[0].write_bytes(bytes(content))
    else:
        index = json.loads(files[-1].read_text())
        index["sha256"]["train"] = index["sha256"]["test"]
        files[-1].write_text(json.dumps(index))
    named = "cifar10.json: the train images differ" if fault == "other" else f"000.webp: {fault}"
    with pytest.raises(ValueError, match=named):
        pack.unpack(files[-1])
    assert not (tmp_path / "there/decoded/cifar10").exists()


def test_only_images_are_packed(tmp_path, monkeypatch):
    from calibkit_companion.data import pack

    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="gaussians: only images"):
        pack.pack("gaussians", tmp_path / "packed")
