"""Where each data set comes from: one row of `SOURCES` per name.

A row says who made it and on what terms, where below the data folder a copy may lie, which
function of `readers` reads it, and how it is downloaded.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from calibkit.data import cache, own, readers
from calibkit.data.readers import Parts
from calibkit.terms import choose


@dataclass(frozen=True)
class Source:
    """A row of `SOURCES`."""

    what: str
    origin: str
    licence: str
    size: str  # of the download
    # Takes the folder of the originals and one to write large arrays into.
    read: Callable[[Path, Path], Parts]
    # Files that show a copy is there, in order of preference; the reader gets the parent. Empty:
    # generated.
    places: tuple[str, ...] = ()
    fetch: Callable[[Path], None] | None = None  # downloads into the data folder
    hint: str = ""  # how else to get it
    counts: tuple[int, int] | None = None  # training and test samples of a whole copy
    augment: str = "none"
    validation: float = 0.1  # share of the training part held out by default
    keep: bool = True  # the decoded arrays
    # Images in class folders, read during training if they do not fit in memory: the side of their
    # central square, 0 for images of one size.
    streamed: int | None = None

    def find(self, root: Path) -> Path | None:
        return next(((root / p).parent for p in self.places if (root / p).exists()), None)


def data_root() -> Path:
    """`$CALIBKIT_DATA`, else ``datasets`` in `cache.cache_root`."""
    folder = os.environ.get("CALIBKIT_DATA")
    return Path(folder) if folder else cache.cache_root() / "datasets"


def in_memory() -> float:
    """Bytes above which a folder of images stays undecoded: `$CALIBKIT_IN_MEMORY` GiB, else 16."""
    gib = os.environ.get("CALIBKIT_IN_MEMORY", "16")
    try:
        return float(gib) * 2**30
    except ValueError:
        raise ValueError(f"CALIBKIT_IN_MEMORY: got {gib!r}, expected a number of GiB") from None


def source(name: str) -> Source:
    """The row of a name; ``imagefolder:PATH`` and ``FILE.npz`` make their own."""
    kind, _, path = name.partition(":")
    if kind == "imagefolder" and path:
        folder = Path(path).expanduser().resolve()
        return replace(_IMAGE_FOLDER, places=(str(folder / "train"),))
    if name.endswith(".npz") or ".npz@" in name:
        path = own.place(name if "@" in name else own.named(name))
        return replace(_ARRAYS, read=lambda base, draft: readers.arrays(path, draft))
    choose("data set", name, [*SOURCES, "imagefolder:PATH", "FILE.npz"])
    return SOURCES[name]


def read(name: str, root: Path | str | None = None, download: bool = False) -> Parts:
    """The official parts of a data set, from the decoded copy if there is a good one."""
    root = Path(root) if root else data_root()
    row = source(name)
    base = locate(name, root, download) if row.places else None

    def finished(draft: Path) -> Parts:
        return _finish(name, row, base, row.read(base, draft))

    if row.streamed is not None and readers.decoded_size(base, row.streamed) > in_memory():
        from calibkit.data import stream  # late: it needs torch and torchvision

        return _finish(name, row, base, stream.of_folder(base, row.streamed))
    if not row.keep:
        return finished(root)
    if base is None:  # generated, and worth keeping
        return cache.decoded(name, root, f"mnist1d {version('mnist1d')}", finished)
    folders = [f for part in ("train", "test", "val") if (f := base / part).is_dir()]
    key = name
    if name not in SOURCES:  # the user's own images
        key = f"imagefolder-{base.name}-{hashlib.sha256(str(base).encode()).hexdigest()[:8]}"
    return cache.decoded(key, root, cache.listing_digest(folders or [base]), finished)


def locate(name: str, root: Path, download: bool = False) -> Path:
    """The folder of the originals, downloaded if need be."""
    row = source(name)
    remedies = [row.hint, f"run `calibkit data get {name}`" if row.fetch else ""]
    remedies.append(f"put a copy there: {', '.join(str(root / place) for place in row.places)}")
    advice = ", or ".join(filter(None, remedies))
    if download and row.fetch and row.find(root) is None:
        try:
            row.fetch(root)
        except (OSError, RuntimeError) as error:  # failed connections raise an OSError
            why = " ".join(str(error).split())
            raise OSError(f"{name}: download failed ({why}); {advice}") from None
    base = row.find(root)
    if base is None:
        raise FileNotFoundError(f"{name} not found in {root}; {advice}")
    return base


def _finish(name: str, row: Source, base: Path | None, parts: Parts) -> Parts:
    """Check what was read, and measure the statistics for normalisation."""
    for inputs, labels in ((parts.train, parts.train_labels), (parts.test, parts.test_labels)):
        if len(inputs) != len(labels):
            raise ValueError(f"{base}: {len(inputs)} inputs but {len(labels)} labels of {name}")
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(parts.classes):
            raise ValueError(
                f"{base}: labels from {labels.min()} to {labels.max()}, "
                f"expected 0 to {len(parts.classes) - 1}"
            )
    counts = len(parts.train), len(parts.test)
    if row.counts not in (None, counts):
        raise ValueError(
            f"{base}: incomplete copy of {name}: {counts[0]} training and {counts[1]} test samples"
            f", expected {row.counts[0]} and {row.counts[1]}; get it again"
        )
    return parts if parts.mean else replace(parts, **readers.moments(parts.train))


# --- downloads ---


def _torchvision(name: str, folder: str, **options) -> Callable[[Path], None]:
    def fetch(root: Path) -> None:
        from calibkit.data.torchvision import torchvision

        getattr(torchvision.datasets, name)(root / folder, download=True, **options)

    return fetch


def _svhn(root: Path) -> None:
    for split in ("train", "test"):
        _torchvision("SVHN", "svhn", split=split)(root)


def _archive(url: str, md5: str) -> Callable[[Path], None]:
    def fetch(root: Path) -> None:
        from calibkit.data.torchvision import torchvision

        torchvision.datasets.utils.download_and_extract_archive(url, root, md5=md5)

    return fetch


def _files(folder: str, *urls: str) -> Callable[[Path], None]:
    def fetch(root: Path) -> None:
        from calibkit.data.torchvision import torchvision

        for url in urls:
            torchvision.datasets.utils.download_url(url, root / folder)

    return fetch


def _newsgroups(root: Path) -> None:
    """Download by scikit-learn; leave the posts as files, not as its pickle."""
    from sklearn.datasets import fetch_20newsgroups

    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".draft-20newsgroups-") as draft:
        for part in ("train", "test"):
            bunch = fetch_20newsgroups(data_home=f"{draft}/scikit", subset=part, shuffle=False)
            for file, text in zip(bunch.filenames, bunch.data, strict=True):
                post = Path(draft, "posts", f"20news-bydate-{part}", *Path(file).parts[-2:])
                post.parent.mkdir(parents=True, exist_ok=True)
                post.write_bytes(text.encode("latin-1"))
        Path(draft, "posts").rename(root / "20newsgroups")


_TORONTO = "https://www.cs.toronto.edu/~kriz/cifar.html"
_TINY = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
_ZENODO = "https://zenodo.org/records/2535967"
_RECHT = "https://github.com/modestyachts/CIFAR-10.1"
_LU = "https://github.com/modestyachts/cifar-10.2"

SOURCES: dict[str, Source] = {
    "gaussians": Source(
        what="5 Gaussians in the plane, their posterior is known; 50,000 + 5,000",
        origin="generated, after the toy data of bsce",
        licence="none needed",
        size="0 MB",
        read=readers.gaussians,
        keep=False,
    ),
    "mnist1d": Source(
        what="10 digits as signals of length 40; 5,000 + 10,000",
        origin="generated by the package mnist1d (https://github.com/greydanus/mnist1d)",
        licence="Apache-2.0",
        size="0 MB",
        read=readers.mnist1d,
        validation=0.2,
    ),
    "digits": Source(
        what="10 handwritten digits, 8×8 grey; 1,437 + 360",
        origin="scikit-learn, from UCI",
        licence="CC BY 4.0",
        size="0 MB",
        read=readers.digits,
        keep=False,
    ),
    "fashion_mnist": Source(
        what="10 kinds of clothes, 28×28 grey; 60,000 + 10,000",
        origin="https://github.com/zalandoresearch/fashion-mnist",
        licence="MIT",
        size="30 MB",
        read=readers.fashion_mnist,
        places=(
            "FashionMNIST/raw/train-images-idx3-ubyte.gz",
            "FashionMNIST/raw/train-images-idx3-ubyte",
            "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz",
        ),
        fetch=_torchvision("FashionMNIST", ""),
        hint="`apt-get install dataset-fashion-mnist`",
        counts=(60_000, 10_000),
        augment="crop_flip",
    ),
    "cifar10": Source(
        what="10 kinds of things, 32×32 colour; 50,000 + 10,000",
        origin=_TORONTO,
        licence="none stated",
        size="170 MB",
        read=readers.cifar,
        places=(
            "cifar10/cifar-10-batches-py/batches.meta",
            "cifar-10-batches-py/batches.meta",
            "cifar10/cifar-10-batches-bin/batches.meta.txt",
            "cifar-10-batches-bin/batches.meta.txt",
            "cifar10/train",
        ),
        fetch=_torchvision("CIFAR10", "cifar10"),
        counts=(50_000, 10_000),
        augment="crop_flip",
    ),
    "cifar100": Source(
        what="100 kinds of things, 32×32 colour; 50,000 + 10,000",
        origin=_TORONTO,
        licence="none stated",
        size="169 MB",
        read=readers.cifar,
        places=(
            "cifar100/cifar-100-python/meta",
            "cifar-100-python/meta",
            "cifar100/cifar-100-binary/fine_label_names.txt",
            "cifar-100-binary/fine_label_names.txt",
            "cifar100/train",
        ),
        fetch=_torchvision("CIFAR100", "cifar100"),
        counts=(50_000, 10_000),
        augment="crop_flip",
    ),
    "svhn": Source(
        what="digits of house numbers, 32×32 colour; 73,257 + 26,032",
        origin="http://ufldl.stanford.edu/housenumbers",
        licence="non-commercial use only",
        size="246 MB",
        read=readers.svhn,
        places=("svhn/train_32x32.mat",),
        fetch=_svhn,
        counts=(73_257, 26_032),
    ),
    "tiny_imagenet": Source(
        what="200 kinds of things, 64×64 or 32×32 colour; 100,000 + 10,000",
        origin=_TINY,
        licence="ImageNet terms: non-commercial research",
        size="248 MB",
        read=readers.tiny_imagenet,
        places=(
            "tiny-imagenet-200/wnids.txt",
            "tiny_imagenet/wnids.txt",
            "tinyimagenet32/wnids.txt",
        ),
        fetch=_archive(_TINY, "90528d7ca1a48142e341f4ef8d21d0de"),
        counts=(100_000, 10_000),
        augment="crop_flip",
    ),
    "imagenet": Source(
        what="1,000 kinds of things, colour crops of 224×224; 1,281,167 + 50,000",
        origin="https://image-net.org",
        licence="ImageNet terms: non-commercial research",
        size="155 GB",
        read=readers.imagenet,
        places=("imagenet/train",),
        hint="register at image-net.org and unpack as imagenet/{train,val}/WNID/*.JPEG",
        augment="crop_flip",
        streamed=readers.IMAGENET_SIDE,
    ),
    "imagenet_v2": Source(
        what="a new test set for ImageNet (matched frequency); 10,000",
        origin="https://github.com/modestyachts/ImageNetV2",
        licence="MIT for its code, none stated for images",
        size="1.2 GB",
        read=readers.imagenet_v2,
        places=("imagenetv2-matched-frequency-format-val/0", "imagenet_v2/0"),
        hint="unpack its imagenetv2-matched-frequency.tar.gz",
        counts=(0, 10_000),
    ),
    "20newsgroups": Source(
        what="posts to 20 news groups, split by date; 11,314 + 7,532",
        origin="http://qwone.com/~jason/20Newsgroups",
        licence="none stated",
        size="14 MB",
        read=readers.newsgroups,
        places=("20newsgroups/20news-bydate-train",),
        fetch=_newsgroups,
        counts=(11_314, 7_532),
    ),
    "cifar10c": Source(
        what="CIFAR-10's test images in 15 corruptions of 5 severities; 750,000",
        origin=_ZENODO,
        licence="CC BY 4.0",
        size="2.9 GB",
        read=readers.cifar10c,
        places=("CIFAR-10-C/labels.npy", "cifar10c/labels.npy"),
        fetch=_archive(f"{_ZENODO}/files/CIFAR-10-C.tar", "56bf5dcef84df0e2308c6dcbcbbd8499"),
        counts=(0, 750_000),
        keep=False,
    ),
    "cifar10_1": Source(
        what="a new test set for CIFAR-10 (version 6); 2,000",
        origin=_RECHT,
        licence="MIT for its code, none stated for images",
        size="6 MB",
        read=readers.cifar10_1,
        places=("cifar10_1/cifar10.1_v6_data.npy",),
        fetch=_files(
            "cifar10_1",
            f"{_RECHT}/raw/master/datasets/cifar10.1_v6_data.npy",
            f"{_RECHT}/raw/master/datasets/cifar10.1_v6_labels.npy",
        ),
        counts=(0, 2_000),
        keep=False,
    ),
    "cifar10_2": Source(
        what="a newer test set for CIFAR-10; 2,000",
        origin=_LU,
        licence="none stated",
        size="6 MB",
        read=readers.cifar10_2,
        places=("cifar10_2/cifar102_test.npz",),
        fetch=_files("cifar10_2", f"{_LU}/raw/master/cifar102_test.npz"),
        counts=(0, 2_000),
        keep=False,
    ),
}
_ARRAYS = Source(
    what="inputs and labels in a file",
    origin="you",
    licence="yours",
    size="",
    read=readers.arrays,
    keep=False,
)
_IMAGE_FOLDER = Source(
    what="images of one size in PATH/{train,test}/CLASS",
    origin="you",
    licence="yours",
    size="",
    read=readers.image_folder,
    augment="crop_flip",
    streamed=0,
)
