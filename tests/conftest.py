"""One torch thread in every test: small tensors are faster so, also on a busy machine."""

import os
import sys
from itertools import product

import numpy as np
import pytest
from PIL import Image

# jsonschema reads this grammar for seconds, to check addresses that no notebook of ours has.
sys.modules.setdefault("rfc3987_syntax", None)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def few_resamples():
    """Reports draw 60 resamples in place of up to 1,000: enough where no width is judged."""
    from calibkit.report import estimates

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "replicates", lambda n: 60)
        yield


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Name of a data set of small images in two classes, which are decoded anew for each batch."""
    for i, part in product(range(24), ("train", "test")):
        pixels = np.random.default_rng(i).integers(256, size=(8, 8, 3), dtype=np.uint8)
        file = tmp_path / "photos" / part / str(i % 2) / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
    settings = {"CACHE": tmp_path / "cache", "DATA": tmp_path / "data"}
    for name, value in (settings | {"IN_MEMORY": 0, "WORKERS": 0}).items():
        monkeypatch.setenv(f"CALIBKIT_{name}", str(value))
    return f"imagefolder:{tmp_path / 'photos'}"


def pytest_collection_modifyitems(items):
    """What fails fast runs first; with several workers one of them begins with the book at once.

    The book takes about as long as all the others together, so it must not come last.
    """
    several = "PYTEST_XDIST_WORKER" in os.environ
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def rank(item) -> int:
        if several and item.path.name == "test_book.py":
            return 0
        return 2 if item.path in slow else 1  # whole files, as workers are given whole files

    items.sort(key=rank)  # stable: otherwise as collected
