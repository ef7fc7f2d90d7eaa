"""Read a user's own inputs and labels from one file."""

from pathlib import Path

import numpy as np

from calibkit_companion.data.readers.images import shuffled
from calibkit_companion.data.readers.parts import Parts, damaged


def arrays(path: Path, draft: Path) -> Parts:
    """Read a user's own ``.npz`` file with inputs and labels.

    It holds either ``train_inputs`` (n, ...), ``train_labels`` (n,), ``test_inputs`` (m, ...) and
    ``test_labels`` (m,), or ``inputs`` and ``labels``, of which a random fifth becomes the test
    part. Inputs are images (uint8, channels first or last), signals or vectors (float), or token
    ids (int64). ``class_names`` (k,) are optional.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            loaded = {key: archive[key] for key in archive.files}
    except OSError:
        raise
    except Exception as error:  # a damaged file raises many kinds of error
        raise damaged(path, error) from None
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
                raise ValueError(
                    f"{path}: {part}_inputs: not all are finite; remove NaN and infinity"
                )
        elif inputs.dtype != np.uint8:
            inputs = inputs.astype(np.int64)
        loaded[f"{part}_inputs"] = inputs
        loaded[f"{part}_labels"] = labels.astype(np.int64)
    classes = int(max(loaded["train_labels"].max(initial=0), loaded["test_labels"].max(initial=0)))
    class_names = loaded.get("class_names", np.arange(classes + 1))
    return Parts(
        *(loaded[name] for name in names), classes=tuple(class_names.astype(str).ravel().tolist())
    )
