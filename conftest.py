"""Doctests draw as a user would, who keeps the figure; here it is closed after the example."""

import gc
import os
import sys

import pytest

gc.disable()  # modules stay: looking through them while they are imported takes four of ten seconds

# Workers fill the cores: threads that wait for one another took twice the time of `test_posthoc`.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded, and for what tests start


@pytest.fixture(autouse=True)
def close_figures(request):
    yield
    if isinstance(request.node, pytest.DoctestItem) and "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_collection_finish():
    """From here on the collector runs, and need not go through all modules each time."""
    gc.collect()
    gc.freeze()
    gc.enable()
