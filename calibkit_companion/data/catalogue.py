"""The catalogue of data sets: the rows of ``catalogue.toml`` as `SOURCES`.

A row says who made the data set and under which licence, where a copy may lie below the data
folder, which function of `readers` reads the copy, and how the data set is downloaded.
"""

import hashlib
import os
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from calibkit.terms import choose
from calibkit_companion.data import cache, own, readers
from calibkit_companion.data.readers import Parts


@dataclass(frozen=True)
class Source:
    """A row of `SOURCES`."""

    what: str
    origin: str
    licence: str
    size: str  # of the download
    # The reader: takes the folder of the original files and a folder for large arrays.
    read: Callable[[Path, Path], Parts]
    # Paths below the data folder; if a file exists, there is a copy in its folder. The first match
    # counts. Empty for generated data.
    places: tuple[str, ...] = ()
    # How to download the data set: by this class of torchvision, by scikit-learn, or from URLs into
    # `folder` below the data folder. With an `md5` the file is an archive with this checksum.
    torchvision: str = ""
    scikit: bool = False
    urls: tuple[str, ...] = ()
    md5: str = ""
    folder: str = ""
    hint: str = ""  # advice for data that cannot be downloaded
    counts: tuple[int, int] | None = None  # training and test samples of a complete copy
    augment: str = "none"
    validation: float = 0.1  # share of the training part held out by default
    keep: bool = True  # whether a decoded copy is kept
    # For images in class folders: the side in pixels of the central square that is read, or 0 if
    # all images have one size. Such images are decoded during training if memory is too small.
    streamed: int | None = None

    @property
    def fetched(self) -> bool:
        """Whether it can be downloaded."""
        return bool(self.torchvision or self.scikit or self.urls)

    def find(self, root: Path) -> Path | None:
        """Find the folder of a copy on this machine.

        Parameters
        ----------
        root : the data folder

        Returns
        -------
        Path or None
            None if there is no copy.
        """
        return next(((root / p).parent for p in self.places if (root / p).exists()), None)


def data_root() -> Path:
    """Return the data folder: `$CALIBKIT_DATA`, or else ``datasets`` in `cache.cache_root`."""
    folder = os.environ.get("CALIBKIT_DATA")
    return Path(folder) if folder else cache.cache_root() / "datasets"


def in_memory() -> float:
    """Return the size, in bytes, up to which a folder of images is decoded into memory.

    It is `$CALIBKIT_IN_MEMORY` GiB, or else 16 GiB.
    """
    return cache.number_from("CALIBKIT_IN_MEMORY", 16) * 2**30


def source(name: str) -> Source:
    """Look up the row of a data set, or make a row for a user's data.

    Parameters
    ----------
    name : a name of `SOURCES`, ``imagefolder:PATH`` or ``FILE.npz``

    Raises
    ------
    ValueError
        Another name; the message lists valid names.
    """
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
    """Read the official training and test part of a data set; keep a decoded copy.

    Parameters
    ----------
    name : name of a data set, as in `source`
    root : the data folder; by default `data_root()`
    download : download the data set if it is not on this machine

    Raises
    ------
    FileNotFoundError
        The data set is not on this machine; the message says how to get it.
    ValueError
        The data set is incomplete or damaged; the message names the file.
    """
    root = Path(root) if root else data_root()
    row = source(name)
    packed = row.places and row.find(root) is None and cache.find(name, root)
    if packed:
        return packed
    base = locate(name, root, download) if row.places else None

    def finished(draft: Path) -> Parts:
        return _finish(name, row, base, row.read(base, draft))

    if row.streamed is not None:
        classes, listed = readers.in_folders(base)
        one = readers.decode_image(listed["train"][0][0], row.streamed)
        if one.nbytes * sum(len(files) for files, _ in listed.values()) > in_memory():
            from calibkit_companion.data import stream  # late: it needs torch and torchvision

            return _finish(name, row, base, stream.of_files(classes, listed, row.streamed))
    if not row.keep:
        return finished(root)
    if base is None:  # generated, and worth keeping
        made_by = f"mnist1d {version('mnist1d')} {readers.MNIST1D_TEST}"
        return cache.decoded(name, root, made_by, finished)
    folders = [f for part in ("train", "test", "val") if (f := base / part).is_dir()]
    key = name
    if name not in SOURCES:  # the user's own images
        key = f"imagefolder-{base.name}-{hashlib.sha256(str(base).encode()).hexdigest()[:8]}"
    return cache.decoded(key, root, cache.listing_digest(folders or [base]), finished)


def locate(name: str, root: Path, download: bool = False) -> Path:
    """Find the folder with the original files of a data set.

    Parameters
    ----------
    name : name of a data set, as in `source`
    root : the data folder
    download : download the data set if it is not on this machine

    Raises
    ------
    FileNotFoundError
        The data set is not on this machine; the message says how to get it.
    OSError
        The download failed.
    """
    row = source(name)
    remedies = [row.hint, f"run `calibkit data get {name}`" if row.fetched else ""]
    remedies.append(f"put a copy there: {', '.join(str(root / place) for place in row.places)}")
    advice = ", or ".join(filter(None, remedies))
    if download and row.fetched and row.find(root) is None:
        try:
            _fetch(row, root)
        except (OSError, RuntimeError) as error:  # a failed connection raises OSError
            why = " ".join(str(error).split())
            raise OSError(f"{name}: download failed ({why}); {advice}") from None
    base = row.find(root)
    if base is None:
        raise FileNotFoundError(f"{name} not found in {root}; {advice}")
    return base


def _finish(name: str, row: Source, base: Path | None, parts: Parts) -> Parts:
    """Check the counts and labels of a data set, and add mean and deviation of the channels."""
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


def _fetch(row: Source, root: Path) -> None:
    """Download a data set into its folder below the data folder."""
    if row.scikit:
        return _newsgroups(root)
    from calibkit_companion.data.torchvision import torchvision

    sets, folder = torchvision.datasets, root / row.folder
    for url in row.urls:
        if row.md5:
            sets.utils.download_and_extract_archive(url, folder, md5=row.md5)
        else:
            sets.utils.download_url(url, folder)
    if row.torchvision:
        parts = [{"split": part} for part in ("train", "test")]
        for options in parts if row.torchvision == "SVHN" else [{}]:
            getattr(sets, row.torchvision)(folder, download=True, **options)


def _newsgroups(root: Path) -> None:
    """Download 20 Newsgroups by scikit-learn, and save the posts as text files, not as a pickle."""
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


SOURCES: dict[str, Source] = {
    name: Source(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        | {"read": getattr(readers, row["read"])}
    )
    for name, row in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
_ARRAYS = Source("inputs and labels in a file", "you", "yours", "", readers.arrays, keep=False)
_IMAGE_FOLDER = Source(
    what="images of one size in PATH/{train,test}/CLASS",
    origin="you",
    licence="yours",
    size="",
    read=readers.image_folder,
    augment="crop_flip",
    streamed=0,
)
