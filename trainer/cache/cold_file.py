"""All rows of the tables in a file that is mapped into memory: the cold tier.

Owns the layout: weights of a row, then its second moment, so that one read brings both. The file is scratch: it is
made anew at every start and holds nothing that a checkpoint does not.

Shape suffixes: R rows of the arena, C slots, M rows that move, D embedding dim.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streams.errors import ConfigError
from streams.ikjt.kernels import compiled

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

_NAME: Final = "cold-rows.f32"


class ColdFile:
    """Weights and second moments of R rows on disk."""

    def __init__(self, directory: Path, num_rows: int, dim: int) -> None:
        """Made of zeros, in a file that has no name once it is open: it is gone with the process.

        ConfigError where the disk has no room.
        """
        directory.mkdir(parents=True, exist_ok=True)
        path, num_bytes = directory / f"{_NAME}.{os.getpid()}", 4 * num_rows * (dim + 1)
        with path.open("wb+") as file:
            path.unlink()
            try:
                os.posix_fallocate(file.fileno(), 0, num_bytes)
            except OSError as error:
                raise ConfigError(
                    f"train.cold_directory = {directory} has no room for {num_bytes / 1e9:.1f} GB of rows "
                    f"({error.strerror}); name another folder, or lower the rows of model.tables"
                ) from error
            self._map = mmap.mmap(file.fileno(), num_bytes)
        # Rows are read one here, one there: what lies around them is not worth reading.
        self._map.madvise(mmap.MADV_RANDOM)
        self.dim = dim
        self.row_bytes = 4 * (dim + 1)
        self._rows: F32 = np.frombuffer(self._map, np.float32).reshape(num_rows, dim + 1)

    @property
    def weight_RD(self) -> Tensor:
        """The weights, the storage itself."""
        return torch.from_numpy(self._rows)[:, : self.dim]

    @property
    def momentum_R(self) -> Tensor:
        """The second moments, the storage itself."""
        return torch.from_numpy(self._rows)[:, self.dim]

    def fetch(self, rows_M: I64, slots_M: I64, weight_CD: F32, momentum_C: F32) -> None:
        """Copy these rows into their slots."""
        _fetch(self._rows, rows_M, slots_M, weight_CD, momentum_C)

    def store(self, rows_M: I64, slots_M: I64, weight_CD: F32, momentum_C: F32) -> None:
        """Copy these slots home to their rows."""
        _store(self._rows, rows_M, slots_M, weight_CD, momentum_C)

    def will_need(self, rows_M: I64) -> None:
        """Ask the system to read these rows ahead. `rows_M`: ascending."""
        page = mmap.PAGESIZE
        first_M = rows_M * self.row_bytes // page
        last_M = (rows_M * self.row_bytes + self.row_bytes - 1) // page
        begins, ends = first_M, last_M + 1
        fresh = np.flatnonzero(begins[1:] > ends[:-1]) + 1
        starts = np.concatenate([begins[:1], begins[fresh]])
        stops = np.concatenate([ends[fresh - 1], ends[-1:]])
        size = len(self._map)
        for start, stop in zip((starts * page).tolist(), (stops * page).tolist(), strict=True):
            self._map.madvise(mmap.MADV_WILLNEED, start, min(stop, size) - start)

    def drop_pages(self) -> None:
        """Write everything to the disk and forget what the system holds of it in memory: for measurements."""
        self._map.flush()
        self._map.madvise(mmap.MADV_DONTNEED)


@compiled
def _fetch(cold: F32, rows: I64, slots: I64, weight: F32, momentum: F32) -> None:
    dim = weight.shape[1]
    for m in range(len(rows)):
        row, slot = rows[m], slots[m]
        for d in range(dim):
            weight[slot, d] = cold[row, d]
        momentum[slot] = cold[row, dim]


@compiled
def _store(cold: F32, rows: I64, slots: I64, weight: F32, momentum: F32) -> None:
    dim = weight.shape[1]
    for m in range(len(rows)):
        row, slot = rows[m], slots[m]
        for d in range(dim):
            cold[row, d] = weight[slot, d]
        cold[row, dim] = momentum[slot]
