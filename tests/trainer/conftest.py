"""Settings of the trainer's tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tensors here are tiny: on a busy machine two threads wait for each other longer than they compute."""
    import torch

    torch.set_num_threads(1)
