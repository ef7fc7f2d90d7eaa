"""Doctests draw as a user would, who keeps the figure; here it is closed after the example."""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures(request):
    yield
    if isinstance(request.node, pytest.DoctestItem) and "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
