"""One torch thread in every test: small tensors are faster so, also on a busy machine."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    import torch

    torch.set_num_threads(1)
