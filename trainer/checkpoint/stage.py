"""Tensors off the device and apart from what the next step changes. The only part of a save that a step waits for."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

I64 = npt.NDArray[np.int64]
_LARGE: Final = 1 << 20
"""Bytes from which on a copy is worth a file."""


@torch.no_grad()
def stage(state: Mapping[str, Tensor], scratch: Path | None = None) -> dict[str, Tensor]:
    """Copies in host memory, contiguous, each with storage of its own.

    `scratch`: a folder for the large ones, whose copies are then files that are mapped into memory and gone with it:
    what did not fit into memory has no room for a copy there either.
    """
    staged = {name: _empty_like(tensor, scratch) for name, tensor in state.items()}
    for name, tensor in state.items():
        staged[name].copy_(tensor)
    return staged


class Shadow:
    """The copy that stays from one checkpoint to the next. Nobody may read the last one while the next is made."""

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        self._copies = stage(state)

    @torch.no_grad()
    def stage(self, state: Mapping[str, Tensor], touched: Mapping[str, I64]) -> dict[str, Tensor]:
        """The copy brought up to date: of the tensors in `touched` these rows only, all of the others."""
        for name, tensor in state.items():
            copy = self._copies[name]
            if name in touched:
                rows_X = torch.from_numpy(touched[name])
                copy.index_copy_(0, rows_X, tensor.index_select(0, rows_X.to(tensor.device)).to(copy.device))
            else:
                copy.copy_(tensor)
        return dict(self._copies)


def _empty_like(tensor: Tensor, scratch: Path | None) -> Tensor:
    if scratch is None or tensor.nbytes < _LARGE:
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    with tempfile.NamedTemporaryFile(dir=scratch, prefix="staged-") as file:
        # The mapping outlives the file's name.
        flat = torch.from_file(file.name, shared=True, size=tensor.numel(), dtype=tensor.dtype)
    return flat.view(tensor.shape)
