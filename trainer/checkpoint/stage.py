"""Tensors off the device and apart from what the next step changes. The only part of a save that a step waits for."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


@torch.no_grad()
def stage(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies in host memory, contiguous, each with storage of its own."""
    staged = {name: torch.empty(tensor.shape, dtype=tensor.dtype) for name, tensor in state.items()}
    for name, tensor in state.items():
        staged[name].copy_(tensor)
    return staged
