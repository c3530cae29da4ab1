"""All rows of the tables in a file: the cold tier.

Owns the layout: weights of a row, then its second moment, padded to what the disk reads at once, so that a row is one
read and one write. Where the file system can, both pass the page cache by: what is in memory is what `train.hot_rows`
says, and a row that leaves costs no read of its neighbours. The file is scratch: it is made anew at every start and
holds nothing that a checkpoint does not.

Shape suffixes: R rows of the arena, M rows that move, S numbers of a padded row, D embedding dim.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from numba import types
from torch import Tensor

from streams.errors import ConfigError, InvariantError
from streams.ikjt.kernels import compiled

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Move = Callable[[int, I64, F32, int, int], int]

_NAME: Final = "cold-rows.f32"
_SECTOR: Final = 512
"""Bytes. A disk of larger ones refuses direct reads of this size, and is read through the page cache."""
_AT_ONCE: Final = 16
"""Reads or writes under way together: below, a disk waits for us."""
_FEW: Final = 64
"""So many rows are not worth a second thread."""

_SIGNATURE: Final = types.int64(types.int32, types.intp, types.uint64, types.int64)
# Called without the interpreter, so that many threads wait for the disk at once. Their types are compiled code's.
_pread: Any = types.ExternalFunction("pread", _SIGNATURE)
_pwrite: Any = types.ExternalFunction("pwrite", _SIGNATURE)


class ColdFile:
    """Weights and second moments of R rows on disk."""

    def __init__(self, directory: Path, num_rows: int, dim: int, *, direct: bool = True) -> None:
        """Made of zeros, in a file that has no name once it is open: it is gone with the process.

        `direct=False` reads and writes through the page cache. ConfigError where the disk has no room.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.dim = dim
        path = directory / f"{_NAME}.{os.getpid()}"
        with path.open("wb+") as file:
            try:
                raw = _open_direct(path, file.fileno()) if direct else None
                self.is_direct = raw is not None
                self.row_bytes = -(-4 * (dim + 1) // _SECTOR) * _SECTOR if self.is_direct else 4 * (dim + 1)
                num_bytes = max(1, num_rows) * self.row_bytes
                os.posix_fallocate(file.fileno(), 0, num_bytes)
            except OSError as error:
                raise ConfigError(
                    f"train.cold_directory = {directory} has no room for {num_rows:,} rows of {dim} weights "
                    f"({error.strerror}); name another folder, or lower the rows of model.tables"
                ) from error
            finally:
                path.unlink()
            self._file = os.dup(file.fileno()) if raw is None else raw
            self._map = mmap.mmap(file.fileno(), num_bytes)
        self._rows_RS: F32 = np.frombuffer(self._map, np.float32).reshape(max(1, num_rows), -1)[:num_rows]
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="recd-cold")

    @property
    def weight_RD(self) -> Tensor:
        """The weights, the storage itself: for all rows in order. Who writes to it calls `written`."""
        return torch.from_numpy(self._rows_RS)[:, : self.dim]

    @property
    def momentum_R(self) -> Tensor:
        """The second moments, likewise."""
        return torch.from_numpy(self._rows_RS)[:, self.dim]

    def buffer(self, num_rows: int) -> F32:
        """[M, S], aligned as direct reads and writes want it."""
        size = max(1, num_rows) * self.row_bytes
        return np.frombuffer(mmap.mmap(-1, size), np.float32).reshape(max(1, num_rows), -1)

    def read(self, rows_M: I64, buffer_MS: F32) -> None:
        """Row `rows_M[m]` into `buffer_MS[m]`."""
        self._move(_read, "read", rows_M, buffer_MS)

    def write(self, rows_M: I64, buffer_MS: F32) -> None:
        """`buffer_MS[m]` to row `rows_M[m]`; distinct ones."""
        self._move(_write, "written", rows_M, buffer_MS)

    def written(self) -> None:
        """The storage was written to: bring it to the disk, and keep no page of it in memory."""
        self._map.flush()
        self.drop_pages()

    def drop_pages(self) -> None:
        """Forget what the system holds of the file in memory."""
        self._map.madvise(mmap.MADV_DONTNEED)
        os.fdatasync(self._file)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def _move(self, move: Move, done: str, rows_M: I64, buffer_MS: F32) -> None:
        parts = min(_AT_ONCE, -(-len(rows_M) // _FEW))
        cuts = np.linspace(0, len(rows_M), parts + 1).astype(np.int64).tolist()
        under_way = [self._pool.submit(move, self._file, rows_M, buffer_MS, *part) for part in pairwise(cuts)]
        if short := sum(part.result() for part in under_way):
            raise InvariantError(f"{short} rows of train.cold_directory could not be {done}: look after its disk")


def _open_direct(path: Path, made: int) -> int | None:
    """The file past the page cache, or None where that cannot be: then rows need no padding either."""
    try:
        raw = os.open(path, os.O_RDWR | os.O_DIRECT)
    except (OSError, AttributeError):  # No such flag on this system, or not for this file system.
        return None
    try:
        os.posix_fallocate(made, 0, _SECTOR)
        os.preadv(raw, [mmap.mmap(-1, _SECTOR)], 0)
    except OSError:
        os.close(raw)
        return None
    return raw


@compiled
def _read(file: int, rows: I64, buffer: F32, first: int, last: int) -> int:
    """How many of these rows came short."""
    size, begin, short = buffer.strides[0], buffer.ctypes.data, 0
    for m in range(first, last):
        if _pread(file, begin + m * size, size, rows[m] * size) != size:
            short += 1
    return short


@compiled
def _write(file: int, rows: I64, buffer: F32, first: int, last: int) -> int:
    size, begin, short = buffer.strides[0], buffer.ctypes.data, 0
    for m in range(first, last):
        if _pwrite(file, begin + m * size, size, rows[m] * size) != size:
            short += 1
    return short
