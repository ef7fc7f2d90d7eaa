"""Read ImageNet, its newly collected test set ImageNet-V2, and Tiny-ImageNet."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from calibkit_companion.data.readers.images import decode_images, files_of, folders_of, image_folder
from calibkit_companion.data.readers.parts import Parts, damaged

IMAGENET_SIDE = 224
IMAGENET_MOMENTS = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def imagenet(base: Path, draft: Path) -> Parts:
    """Read ImageNet by `image_folder`, as central crops of one size."""
    note = "central crops of 224, no random resized ones; test is the official validation part"
    return replace(image_folder(base, draft, IMAGENET_SIDE), note=note, **IMAGENET_MOMENTS)


def imagenet_v2(base: Path, draft: Path) -> Parts:
    """Read ImageNet-V2 from the folders ``0`` to ``999``.

    The numbers are those of the classes of ImageNet, sorted by WordNet id.
    """
    numbered = sorted(folders_of(base), key=lambda name: int(name) if name.isdigit() else -1)
    if numbered != [str(i) for i in range(len(numbered))]:
        raise ValueError(f"{base}: got folders such as {numbered[0]!r}, expected 0, 1, 2, ...")
    files, labels = files_of(base, numbered)
    test = decode_images(files, draft / "test.npy", IMAGENET_SIDE)
    none = np.empty((0, *test.shape[1:]), np.uint8), np.empty(0, np.int64)
    note = "matched frequency; central crops of 224"
    return Parts(*none, test, labels, tuple(numbered), note, **IMAGENET_MOMENTS)


def tiny_imagenet(base: Path, draft: Path) -> Parts:
    """Read Tiny-ImageNet; the test part is the official validation part."""
    classes = folders_of(base / "train")
    files, labels = files_of(base / "train", classes)
    sheet, place = base / "val" / "val_annotations.txt", {c: i for i, c in enumerate(classes)}
    test_files, test_labels = [], []
    try:
        for line in sheet.read_text().splitlines():
            file, name, *_ = line.split("\t")
            test_files.append(base / "val" / "images" / Path(file).name)
            test_labels.append(place[name])
    except (OSError, ValueError, KeyError) as error:
        raise damaged(sheet, error) from None
    words = base / "words.txt"
    if words.is_file():
        lines = words.read_text().splitlines()
        meaning = dict(line.split("\t", 1) for line in lines if "\t" in line)
        classes = tuple(meaning.get(c, c).split(",")[0] for c in classes)
    train = decode_images(files, draft / "train.npy")
    note = f"{train.shape[2]}×{train.shape[3]} pixels, JPEG; test is the official validation part"
    test = decode_images(test_files, draft / "test.npy")
    return Parts(train, labels, test, np.array(test_labels, np.int64), classes, note)
