"""How the originals of a data set are read: archives, image folders, posts, generators.

A reader takes ``base``, the folder of a copy (None for generated data), and ``draft``, a folder for
large arrays, and returns `Parts`. It refuses a file that is not as expected and names it. Nothing
is unpickled unless its checksum is the published one.
"""

import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

VOCABULARY, LENGTH = 20_000, 500  # of a text: ids are below VOCABULARY; 0 is padding, 1 unknown
CIFAR10_CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
DIGITS = tuple("0123456789")
CIFAR10_MOMENTS = ((0.491400, 0.482158, 0.446531), (0.247032, 0.243485, 0.261588))
CIFAR10C_CORRUPTIONS = tuple(
    "gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow "
    "frost fog brightness contrast elastic_transform pixelate jpeg_compression".split()
)
# Of 60 seeds, the one whose groups overlap most: no classifier can be more accurate than 0.83.
GAUSSIAN_MEANS = np.random.RandomState(53).uniform(-10, 10, (5, 2))
MNIST1D_TEST, MNIST1D_TEST_SEED = 5_000, 43
IMAGENET_SIDE = 224
IMAGENET_MOMENTS = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp")


@dataclass(frozen=True, eq=False)
class Parts:
    """The official training and test part.

    Attributes
    ----------
    train, test : inputs by position; images are uint8, (n, c, h, w)
    train_labels, test_labels : classes, (n,)
    classes : names of the classes
    note : what a reader of results should know
    mean, std : by channel, of images on a scale from 0 to 1; empty until they are measured
    """

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    classes: tuple[str, ...]
    note: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def _damaged(path: Path, why: object) -> ValueError:
    reason = " ".join(str(why).split())
    return ValueError(f"{path}: truncated, altered or unreadable ({reason}); get it again")


# --- images ---


def open_image(path: Path):
    """An image in colour, read whole.

    Parameters
    ----------
    path : of the file

    Raises
    ------
    ValueError
        The file is damaged.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _damaged(path, error) from None


def decode_image(path: Path, side: int = 0) -> np.ndarray:
    """Decode an image.

    Parameters
    ----------
    path : of the file
    side : side in pixels of the central square of the resized image; 0 for the image as it is

    Returns
    -------
    numpy.ndarray
        uint8, (3, h, w).
    """
    from PIL import Image

    image = open_image(path)
    if side:  # the usual 224 of 256
        scale = side * 8 / 7 / min(image.size)
        image = image.resize([round(s * scale) for s in image.size], Image.BILINEAR)
        left, top = ((s - side) // 2 for s in image.size)
        image = image.crop((left, top, left + side, top + side))
    return np.asarray(image).transpose(2, 0, 1)


def _decode(files: list[Path], out: Path, side: int = 0) -> np.ndarray:
    """Decode images of one size into the new file `out`, with a thread for each core."""
    shape = decode_image(files[0], side).shape
    array = np.lib.format.open_memmap(out, mode="w+", dtype=np.uint8, shape=(len(files), *shape))
    if hasattr(os, "posix_fallocate"):  # a full disk raises an error now; later it would crash
        with open(out, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, out.stat().st_size)

    def fill(start: int) -> None:
        for i in range(start, min(start + 256, len(files))):
            image = decode_image(files[i], side)
            if image.shape != shape:
                size, usual = ("×".join(map(str, s[:0:-1])) for s in (image.shape, shape))
                raise ValueError(f"{files[i]}: image of {size}, expected {usual} like the others")
            array[i] = image

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, range(0, len(files), 256)))
    array.flush()
    return array


def _files(folder: Path, classes: Iterable[str]) -> tuple[list[Path], np.ndarray]:
    """The images of class folders, in order, and their labels (n,)."""
    files, labels = [], []
    for label, name in enumerate(classes):
        paths = sorted(p for p in (folder / name).rglob("*") if p.suffix.lower() in _SUFFIXES)
        if not paths:
            raise ValueError(f"{folder / name}: no images, expected {sorted(_SUFFIXES)}")
        files += paths
        labels += [label] * len(paths)
    return files, np.array(labels, np.int64)


def _folders(folder: Path) -> tuple[str, ...]:
    """Names of the class folders in a folder, sorted."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: missing, expected one folder of images per class")
    names = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not names:
        raise ValueError(f"{folder}: empty, expected one folder of images per class")
    return tuple(names)


def in_folders(base: Path) -> tuple[tuple[str, ...], dict[str, tuple[list[Path], np.ndarray]]]:
    """List the images of ``train/CLASS/*`` and ``test/CLASS/*`` (or ``val``).

    The files are in a random order that is always the same; sorted by class, the first samples of a
    part would all be of one class.

    Parameters
    ----------
    base : the folder

    Returns
    -------
    tuple
        Names of the classes; by part, the files and their labels (n,).
    """
    classes, listed = _folders(base / "train"), {}
    for part, folder in (
        ("train", base / "train"),
        ("test", base / ("test" if (base / "test").is_dir() else "val")),
    ):
        if _folders(folder) != classes:
            raise ValueError(f"{folder}: its class folders are not those of {base / 'train'}")
        files, labels = _files(folder, classes)
        order = shuffled(len(files))
        listed[part] = [files[i] for i in order], labels[order]
    return classes, listed


def shuffled(n: int) -> np.ndarray:
    """The random order, always the same, in which n files of a folder are kept."""
    return np.random.RandomState(42).permutation(n)


def image_folder(base: Path, draft: Path, side: int = 0) -> Parts:
    """The images of class folders, decoded.

    Parameters
    ----------
    base : folder with ``train`` and ``test`` or ``val``
    draft : folder for the decoded arrays
    side : as `decode_image` takes it
    """
    classes, listed = in_folders(base)
    parts = {}
    for part, (files, labels) in listed.items():
        parts |= {part: _decode(files, draft / f"{part}.npy", side), f"{part}_labels": labels}
    jpeg = files[0].suffix.lower() in (".jpg", ".jpeg") and not side
    note = "images went through JPEG (lossy)" if jpeg else ""
    return Parts(**parts, classes=classes, note=note)


def arrays(path: Path, draft: Path) -> Parts:
    """A user's own ``.npz``: inputs and labels, in two parts or to be split.

    ``train_inputs`` (n, ...), ``train_labels`` (n,), ``test_inputs``, ``test_labels``; or
    ``inputs`` and ``labels``, of which a random fifth becomes the test part. Inputs are images
    (uint8; channels first or last), other numbers (signals, vectors) or token ids (int64).
    ``class_names`` (k,) are optional.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            loaded = {key: archive[key] for key in archive.files}
    except OSError:
        raise
    except Exception as error:  # zip, zlib, header and pickle errors have no common class
        raise _damaged(path, error) from None
    names = [f"{part}_{kind}" for part in ("train", "test") for kind in ("inputs", "labels")]
    if {"inputs", "labels"} <= loaded.keys() and len(loaded["inputs"]) == len(loaded["labels"]):
        order = shuffled(len(loaded["labels"]))
        cut = len(order) // 5
        for part, rows in (("train", order[cut:]), ("test", order[:cut])):
            loaded |= {f"{part}_{kind}": loaded[kind][rows] for kind in ("inputs", "labels")}
    if not set(names) <= loaded.keys():
        raise ValueError(
            f"{path}: got {', '.join(sorted(loaded)) or 'nothing'}; expected {', '.join(names)}, "
            "or inputs and labels of equal length"
        )
    for part in ("train", "test"):
        inputs, labels = (loaded[f"{part}_{kind}"] for kind in ("inputs", "labels"))
        kinds = inputs.dtype.kind in "fiu" and labels.dtype.kind in "iu"
        if not kinds or inputs.ndim < 2 or labels.ndim != 1:
            raise ValueError(
                f"{path}: {part}: got {inputs.dtype} {inputs.shape} with {labels.dtype} "
                f"{labels.shape}, expected numbers (n, ...) with integers (n,)"
            )
        if inputs.dtype == np.uint8 and inputs.ndim == 3:
            inputs = inputs[:, np.newaxis]
        elif inputs.dtype == np.uint8 and inputs.ndim == 4 and inputs.shape[3] in (1, 3):
            inputs = np.ascontiguousarray(inputs.transpose(0, 3, 1, 2))
        elif inputs.dtype.kind == "f":
            inputs = inputs.astype(np.float32)
            if not np.isfinite(inputs).all():
                raise ValueError(f"{path}: {part}_inputs: not all of them are finite")
        elif inputs.dtype != np.uint8:
            inputs = inputs.astype(np.int64)
        loaded[f"{part}_inputs"] = inputs
        loaded[f"{part}_labels"] = labels.astype(np.int64)
    classes = int(max(loaded["train_labels"].max(initial=0), loaded["test_labels"].max(initial=0)))
    class_names = loaded.get("class_names", np.arange(classes + 1))
    return Parts(
        *(loaded[name] for name in names), classes=tuple(class_names.astype(str).ravel().tolist())
    )


def imagenet(base: Path, draft: Path) -> Parts:
    """Like `image_folder`, with central crops of one size."""
    note = "central crops of 224, no random resized ones; test is the official validation part"
    return replace(image_folder(base, draft, IMAGENET_SIDE), note=note, **IMAGENET_MOMENTS)


def imagenet_v2(base: Path, draft: Path) -> Parts:
    """``0/*`` to ``999/*``: folders are numbered as the classes of ImageNet are, by WordNet id."""
    numbered = sorted(_folders(base), key=lambda name: int(name) if name.isdigit() else -1)
    if numbered != [str(i) for i in range(len(numbered))]:
        raise ValueError(f"{base}: got folders such as {numbered[0]!r}, expected 0, 1, 2, ...")
    files, labels = _files(base, numbered)
    test = _decode(files, draft / "test.npy", IMAGENET_SIDE)
    none = np.empty((0, *test.shape[1:]), np.uint8), np.empty(0, np.int64)
    note = "matched frequency; central crops of 224"
    return Parts(*none, test, labels, tuple(numbered), note, **IMAGENET_MOMENTS)


def tiny_imagenet(base: Path, draft: Path) -> Parts:
    """Tiny-ImageNet; the test part is the official validation part."""
    classes = _folders(base / "train")
    files, labels = _files(base / "train", classes)
    sheet, place = base / "val" / "val_annotations.txt", {c: i for i, c in enumerate(classes)}
    test_files, test_labels = [], []
    try:
        for line in sheet.read_text().splitlines():
            file, name, *_ = line.split("\t")
            test_files.append(base / "val" / "images" / Path(file).name)
            test_labels.append(place[name])
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(sheet, error) from None
    words = base / "words.txt"
    if words.is_file():
        lines = words.read_text().splitlines()
        meaning = dict(line.split("\t", 1) for line in lines if "\t" in line)
        classes = tuple(meaning.get(c, c).split(",")[0] for c in classes)
    train = _decode(files, draft / "train.npy")
    note = f"{train.shape[2]}×{train.shape[3]} pixels, JPEG; test is the official validation part"
    test = _decode(test_files, draft / "test.npy")
    return Parts(train, labels, test, np.array(test_labels, np.int64), classes, note)


def moments(train: np.ndarray) -> dict:
    """Mean and standard deviation by channel.

    Parameters
    ----------
    train : inputs, (n, c, ...); images count as numbers from 0 to 1

    Returns
    -------
    dict
        ``mean`` and ``std``, one number for each channel; empty for token ids.
    """
    channels = range(train.shape[1])
    if train.dtype == np.uint8:
        counts = np.zeros((len(channels), 256), np.int64)
        for start in range(0, len(train), 4096):  # a histogram is exact and needs no float copy
            block = np.asarray(train[start : start + 4096])
            counts += [np.bincount(block[:, c].ravel(), minlength=256) for c in channels]
        share, value = counts / counts.sum(1, keepdims=True), np.arange(256) / 255
        mean = share @ value
        std = np.sqrt(np.maximum(share @ value**2 - mean**2, 0))
    elif train.dtype.kind == "f":
        rows = np.moveaxis(train, 1, 0).reshape(len(channels), -1).astype(np.float64)
        mean, std = rows.mean(1), rows.std(1)
    else:
        return {}  # token ids
    return {
        "mean": tuple(round(float(m), 6) for m in mean),
        "std": tuple(max(round(float(s), 6), 1e-6) for s in std),  # a channel may be constant
    }


# --- archives, as torchvision reads them ---


def _check(path: Path, md5: str) -> None:
    from calibkit_companion.data.torchvision import torchvision

    if not path.is_file():
        raise FileNotFoundError(f"{path}: missing from the archive's folder; get it again")
    if not torchvision.datasets.utils.check_integrity(str(path), md5):
        raise _damaged(path, "md5 is not the published one")


def cifar(base: Path, draft: Path) -> Parts:
    """CIFAR-10 or CIFAR-100: the published batches, or a copy in class folders."""
    if (base / "train").is_dir():
        parts = image_folder(base, draft)
        effect = ": accuracy sits a little under published values" if parts.note else ""
        return replace(parts, note=parts.note + effect)
    from calibkit_companion.data.torchvision import torchvision

    sets = torchvision.datasets
    kind = sets.CIFAR100 if base.name == sets.CIFAR100.base_folder else sets.CIFAR10
    # The batches are pickles: torchvision opens them, and only once their checksums are right.
    for file, md5 in [*kind.train_list, *kind.test_list, (kind.meta["filename"], kind.meta["md5"])]:
        _check(base / file, md5)
    train, test = kind(base.parent, train=True), kind(base.parent, train=False)
    return Parts(
        train.data.transpose(0, 3, 1, 2),
        np.array(train.targets),
        test.data.transpose(0, 3, 1, 2),
        np.array(test.targets),
        tuple(train.classes),
    )


def svhn(base: Path, draft: Path) -> Parts:
    """SVHN: the training and the test part, without the extra images."""
    from calibkit_companion.data.torchvision import torchvision

    kind = torchvision.datasets.SVHN
    for split in ("train", "test"):
        _, file, md5 = kind.split_list[split]
        _check(base / file, md5)
    train, test = kind(base, "train"), kind(base, "test")
    return Parts(train.data, train.labels, test.data, test.labels, DIGITS)


def fashion_mnist(base: Path, draft: Path) -> Parts:
    """Fashion-MNIST: the four idx files, compressed or not."""
    from calibkit_companion.data.torchvision import torchvision

    def idx(name: str) -> np.ndarray:
        path = next((p for p in (base / f"{name}.gz", base / name) if p.exists()), base / name)
        try:
            with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
                content = file.read()
            if content[:3] != b"\0\0\x08":
                raise ValueError("not an idx file of bytes")
            shape = np.frombuffer(content, ">i4", content[3], 4)
            return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)
        except FileNotFoundError:
            raise FileNotFoundError(f"{path}: missing, and so is its .gz; get it again") from None
        except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
            raise _damaged(path, error) from None

    return Parts(
        idx("train-images-idx3-ubyte")[:, None],
        idx("train-labels-idx1-ubyte"),
        idx("t10k-images-idx3-ubyte")[:, None],
        idx("t10k-labels-idx1-ubyte"),
        tuple(torchvision.datasets.FashionMNIST.classes),
    )


# --- test-only relatives of CIFAR-10 ---


def _array(path: Path, shape: tuple, mmap: bool = False, key: str = "") -> np.ndarray:
    """An array of a .npy or .npz file, without pickles; `shape` has None where any size is fine."""
    try:
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
        if key:
            with array as archive:
                array = archive[key]
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: missing; get it again") from None
    except Exception as error:  # zip, zlib, header and size errors have no common class
        raise _damaged(path, error) from None
    fits = len(shape) == array.ndim and all(
        w in (None, g) for w, g in zip(shape, array.shape, strict=True)
    )
    if not fits or (len(shape) == 4 and array.dtype != np.uint8) or array.dtype.kind not in "iu":
        raise _damaged(path, f"got {array.dtype} {array.shape}, expected integers {shape}")
    return array


def _test_only(images: np.ndarray, labels: np.ndarray, note: str) -> Parts:
    """Parts without training images, with the classes and moments of CIFAR-10."""
    none = np.empty((0, 3, 32, 32), np.uint8), np.empty(0, np.int64)
    mean, std = CIFAR10_MOMENTS
    images = np.ascontiguousarray(images)
    return Parts(*none, images, labels, CIFAR10_CLASSES, note, mean, std)


def cifar10c_file(base: Path, corruption: str) -> tuple[np.ndarray, np.ndarray]:
    """All severities of a corruption, mildest first.

    Parameters
    ----------
    base : folder of CIFAR-10-C
    corruption : name of a file without its suffix

    Returns
    -------
    tuple of numpy.ndarray
        Images (5n, 32, 32, 3), left on disk, and labels (5n,).
    """
    labels = _array(base / "labels.npy", (None,))
    return _array(base / f"{corruption}.npy", (len(labels), 32, 32, 3), mmap=True), labels


def cifar10c(base: Path, draft: Path) -> Parts:
    """CIFAR-10-C: all corruptions and severities, one after the other."""
    stacked = None
    for i, corruption in enumerate(CIFAR10C_CORRUPTIONS):
        images, labels = cifar10c_file(base, corruption)
        n = len(labels)
        if stacked is None:  # 2.3 GB: written once, in place
            stacked = np.empty((len(CIFAR10C_CORRUPTIONS) * n, 3, 32, 32), np.uint8)
        stacked[i * n : (i + 1) * n] = images.transpose(0, 3, 1, 2)
    note = f"by corruption, then severity, then image: {', '.join(CIFAR10C_CORRUPTIONS)}"
    return _test_only(stacked, np.tile(labels, len(CIFAR10C_CORRUPTIONS)), note)


def cifar10_1(base: Path, draft: Path) -> Parts:
    """CIFAR-10.1, version 6."""
    images = _array(base / "cifar10.1_v6_data.npy", (None, 32, 32, 3))
    labels = _array(base / "cifar10.1_v6_labels.npy", (len(images),))
    return _test_only(images.transpose(0, 3, 1, 2), labels, "version 6")


def cifar10_2(base: Path, draft: Path) -> Parts:
    """CIFAR-10.2, the test part."""
    file = base / "cifar102_test.npz"
    images = _array(file, (None, 32, 32, 3), key="images")
    labels = _array(file, (len(images),), key="labels")
    return _test_only(images.transpose(0, 3, 1, 2), labels, "test part")


# --- text, signals, points ---


def tokens(text: str) -> list[str]:
    """Lower-case words and numbers of a text.

    White space does not count: one copy has tabs in place of new lines.

    Parameters
    ----------
    text : the text
    """
    return re.findall(r"\w+", text.lower())


def newsgroups(base: Path, draft: Path) -> Parts:
    """20 Newsgroups, by date: token ids (n, LENGTH) of the first words of each post."""
    classes = _folders(base / "20news-bydate-train")
    texts: dict[str, list[list[str]]] = {}
    labels = {}
    for part in ("train", "test"):
        texts[part], labels[part] = [], []
        for label, group in enumerate(classes):
            folder = base / f"20news-bydate-{part}" / group
            # Posts are numbered; a copy in wide use has one stray file of another name.
            posts = [p for p in folder.glob("*") if p.name.isdigit()]
            for post in sorted(posts, key=lambda p: int(p.name)):
                if not (content := post.read_bytes()):
                    raise _damaged(post, "empty")
                texts[part].append(tokens(content.decode("latin-1")))
                labels[part].append(label)
    counts = Counter(word for text in texts["train"] for word in text)
    common = sorted(counts, key=lambda w: (-counts[w], w))[: VOCABULARY - 2]
    place = {word: i for i, word in enumerate(common, start=2)}
    ids = {}
    for part in texts:
        ids[part] = np.zeros((len(texts[part]), LENGTH), np.uint16)
        for row, text in zip(ids[part], texts[part], strict=True):
            row[: len(text)] = [place.get(word, 1) for word in text[:LENGTH]]
    return Parts(
        ids["train"],
        np.array(labels["train"]),
        ids["test"],
        np.array(labels["test"]),
        classes,
        f"first {LENGTH} words of each post with its header; {VOCABULARY:,} commonest words",
    )


def mnist1d_signals(n: int, seed: int, **changed: float) -> tuple[np.ndarray, np.ndarray]:
    """Generate signals as the package `mnist1d` does, not standardised.

    The package makes one signal at a time. Here random numbers are drawn signal by signal, and each
    step is taken for all signals at once. Numbers are drawn in the same order whatever their
    scales, so two calls with one seed have the same digits in the same places.

    Parameters
    ----------
    n : number of signals, a multiple of ten
    seed : seed of everything random
    changed : arguments of the package to replace

    Returns
    -------
    tuple of numpy.ndarray
        Signals (n, 1, 40) and labels (n,).
    """
    from mnist1d.data import get_dataset_args, get_templates  # slow: brings matplotlib along
    from scipy.ndimage import gaussian_filter1d

    arguments = SimpleNamespace(**(get_dataset_args(as_dict=True) | changed))
    templates = get_templates()
    labels = np.repeat(templates["y"], n // len(templates["y"]))
    rng, (least, most) = np.random.RandomState(seed), arguments.padding
    long = arguments.template_len + most
    signals, noise, shear = np.empty((len(labels), long)), np.empty((len(labels), 2, long)), []
    for i, label in enumerate(labels):
        zeros = least + int(rng.rand() * (most - least + 1))
        scale = 1 + arguments.scale_coeff * (rng.rand() - 0.5)
        start = rng.randint(arguments.max_translation)
        signals[i] = np.roll(_dilated(label, zeros, long) * scale, start)
        noise[i] = rng.randn(2, long)
        shear.append(arguments.shear_scale * (rng.rand() - 0.5))
    correlated = gaussian_filter1d(arguments.corr_noise_scale * noise[:, 0], 2)
    digit = signals != 0
    signals = digit * signals + (1 - digit) * correlated + arguments.iid_noise_scale * noise[:, 1]
    signals -= np.array(shear)[:, None] * np.linspace(-0.5, 0.5, long)
    short = [_interpolated(signal, arguments.final_seq_length) for signal in signals]
    order = rng.permutation(len(labels))
    return np.array(short, np.float32)[order, None], labels[order]


@cache
def _dilated(label: int, zeros: int, n: int) -> np.ndarray:
    """The template of a digit with zeros behind it, interpolated at `n` places."""
    from mnist1d.data import get_templates

    return _interpolated(np.append(get_templates()["x"][label] + 1e-8, np.zeros(zeros)), n)


def _interpolated(signal: np.ndarray, n: int) -> np.ndarray:
    """A signal at `n` evenly spaced places."""
    return np.interp(_evenly(n), _evenly(len(signal)), signal)


@cache
def _evenly(n: int) -> np.ndarray:
    """`n` numbers from 0 to 1."""
    return np.linspace(0, 1, n)


def mnist1d(base: None, draft: Path) -> Parts:
    # The training part is the package's own 5,000 (its seed is 42).
    """MNIST-1D; the training part is the package's own 5,000 signals (its seed is 42)."""
    return Parts(
        *mnist1d_signals(5_000, 42),
        *mnist1d_signals(MNIST1D_TEST, MNIST1D_TEST_SEED),
        DIGITS,
        "regenerated by the mnist1d package",
    )


def digits(base: None, draft: Path) -> Parts:
    """The 8×8 digits of scikit-learn; a fixed random fifth is the test part."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    order = np.random.RandomState(0).permutation(len(images))  # there is no official test part
    test, train = order[:360], order[360:]
    labels = bunch.target
    return Parts(images[train], labels[train], images[test], labels[test], DIGITS)


def gaussian_samples(per_class: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw points of the five groups in random order.

    Parameters
    ----------
    per_class : number of points in each group
    seed : seed of everything random

    Returns
    -------
    tuple of numpy.ndarray
        Points (5 · per_class, 2) and labels (5 · per_class,).
    """
    rng = np.random.RandomState(seed)
    labels = rng.permutation(np.repeat(np.arange(len(GAUSSIAN_MEANS)), per_class))
    points = GAUSSIAN_MEANS[labels] + rng.standard_normal((len(labels), 2))
    return points.astype(np.float32), labels


def gaussians(base: None, draft: Path) -> Parts:
    """Five Gaussians in the plane: 50,000 training and 5,000 test points."""
    classes = tuple(f"group {i}" for i in range(len(GAUSSIAN_MEANS)))
    return Parts(*gaussian_samples(10_000, 1), *gaussian_samples(1_000, 2), classes)
