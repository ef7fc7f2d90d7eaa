"""Read CIFAR, SVHN and Fashion-MNIST from the published archives."""

import gzip
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from calibkit_companion.data.readers.images import image_folder
from calibkit_companion.data.readers.parts import DIGITS, Parts, damaged


def check_sum(path: Path, md5: str) -> None:
    """Raise an error if a file is missing or its MD5 is not the published one.

    Parameters
    ----------
    path : path of the file
    md5 : the published MD5, in hexadecimal digits
    """
    from calibkit_companion.data.torchvision import torchvision

    if not path.is_file():
        raise FileNotFoundError(f"{path}: missing from the archive's folder; get it again")
    if not torchvision.datasets.utils.check_integrity(str(path), md5):
        raise damaged(path, "md5 is not the published one")


def cifar(base: Path, draft: Path) -> Parts:
    """Read CIFAR-10 or CIFAR-100 from the published batches or from class folders."""
    if (base / "train").is_dir():
        parts = image_folder(base, draft)
        effect = ": accuracy sits a little under published values" if parts.note else ""
        return replace(parts, note=parts.note + effect)
    from calibkit_companion.data.torchvision import torchvision

    sets = torchvision.datasets
    kind = sets.CIFAR100 if base.name == sets.CIFAR100.base_folder else sets.CIFAR10
    # The batches are pickles: torchvision opens them only after their checksums are verified.
    for file, md5 in [*kind.train_list, *kind.test_list, (kind.meta["filename"], kind.meta["md5"])]:
        check_sum(base / file, md5)
    train, test = kind(base.parent, train=True), kind(base.parent, train=False)
    return Parts(
        train.data.transpose(0, 3, 1, 2),
        np.array(train.targets),
        test.data.transpose(0, 3, 1, 2),
        np.array(test.targets),
        tuple(train.classes),
    )


def svhn(base: Path, draft: Path) -> Parts:
    """Read the training and the test part of SVHN, without the extra images."""
    from calibkit_companion.data.torchvision import torchvision

    kind = torchvision.datasets.SVHN
    for split in ("train", "test"):
        _, file, md5 = kind.split_list[split]
        check_sum(base / file, md5)
    train, test = kind(base, "train"), kind(base, "test")
    return Parts(train.data, train.labels, test.data, test.labels, DIGITS)


def fashion_mnist(base: Path, draft: Path) -> Parts:
    """Read Fashion-MNIST from its four idx files, which may be compressed."""
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
            raise damaged(path, error) from None

    return Parts(
        idx("train-images-idx3-ubyte")[:, None],
        idx("train-labels-idx1-ubyte"),
        idx("t10k-images-idx3-ubyte")[:, None],
        idx("t10k-labels-idx1-ubyte"),
        tuple(torchvision.datasets.FashionMNIST.classes),
    )
