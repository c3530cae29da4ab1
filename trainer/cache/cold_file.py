"""A file of places for rows: the bytes of the cold tier.

Owns the layout: weights of a row, then its second moment, one place after the other. Single rows are read by many
threads at once, because a disk is fast only so; rows are written a segment at a time, because a disk dislikes small
writes. Where the file system can, both pass the page cache by: what is in memory is what `train.hot_rows` says. Which
row is in which place is `cold_rows`. The file is scratch: it is made anew at every start and holds nothing that a
checkpoint does not.

Shape suffixes: P places, M rows that are read, G places of a segment, S numbers of a row (D weights and one more).
"""

from __future__ import annotations

import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numba import types

from streams.errors import ConfigError, InvariantError
from streams.ikjt.kernels import compiled

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

_NAME: Final = "cold-rows.f32"
_SECTOR: Final = 512
"""Bytes. A disk of larger ones refuses direct reads of this size, and is read through the page cache."""
PLACES_ALIGNED: Final = _SECTOR // 4
"""So many places fill whole sectors, whatever the size of a row."""
_AT_ONCE: Final = 16
"""Reads under way together: below, a disk waits for us."""
_FEW: Final = 64
"""So many rows are not worth a second thread."""

_SIGNATURE: Final = types.int64(types.int32, types.intp, types.uint64, types.int64)
# Called without the interpreter, so that many threads wait for the disk at once. Its type is compiled code's.
_pread: Any = types.ExternalFunction("pread", _SIGNATURE)


class ColdFile:
    """Places on disk."""

    def __init__(self, directory: Path, num_places: int, dim: int, *, direct: bool = True) -> None:
        """Made of zeros, in a file that has no name once it is open: it is gone with the process.

        `num_places` fills whole sectors. `direct=False` reads and writes through the page cache. ConfigError where the
        disk has no room.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.row_bytes = 4 * (dim + 1)
        path, num_bytes = directory / f"{_NAME}.{os.getpid()}", num_places * self.row_bytes
        with path.open("wb+") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, num_bytes)
                past_cache = _open_direct(path) if direct else None
            except OSError as error:
                raise ConfigError(
                    f"train.cold_directory = {directory} has no room for {num_bytes / 1e9:.1f} GB of rows "
                    f"({error.strerror}); name another folder, or lower the rows of model.tables"
                ) from error
            finally:
                path.unlink()
            self.is_direct = past_cache is not None
            self._file = os.dup(file.fileno()) if past_cache is None else past_cache
            self._map = mmap.mmap(file.fileno(), num_bytes)
        self.rows_PS: F32 = np.frombuffer(self._map, np.float32).reshape(num_places, dim + 1)
        """All places, for whole tables at once. Who writes to it calls `written`, before anything else is read."""
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="recd-cold")
        # A row lies anywhere in the sectors that hold it.
        self._sectors = _aligned((_AT_ONCE, self.row_bytes // _SECTOR * _SECTOR + 2 * _SECTOR), np.dtype(np.uint8))

    def segment(self, num_places: int) -> F32:
        """[G, S] in memory, as `read_segment` and `write_segment` take it."""
        return _aligned((num_places, self.rows_PS.shape[1]), np.dtype(np.float32))

    def read_rows(self, place_M: I64, rows_MS: F32) -> None:
        """The rows in these places."""
        parts = min(_AT_ONCE, -(-len(place_M) // _FEW))
        cuts = np.linspace(0, len(place_M), parts + 1).astype(np.int64).tolist()
        under_way = [
            self._pool.submit(_read, self._file, place_M, rows_MS, self._sectors[part], *cut)
            for part, cut in enumerate(pairwise(cuts))
        ]
        if short := sum(part.result() for part in under_way):
            raise InvariantError(f"{short} rows of train.cold_directory could not be read: look after its disk")

    def read_segment(self, first: int, rows_GS: F32) -> None:
        """The places from `first` on."""
        if os.preadv(self._file, [rows_GS.data.cast("B")], first * self.row_bytes) != rows_GS.nbytes:
            raise InvariantError("rows of train.cold_directory could not be read: look after its disk")

    def write_segment(self, first: int, rows_GS: F32) -> None:
        """To the places from `first` on."""
        if os.pwritev(self._file, [rows_GS.data.cast("B")], first * self.row_bytes) != rows_GS.nbytes:
            raise InvariantError("rows of train.cold_directory could not be written: look after its disk")

    def written(self) -> None:
        """`rows_PS` was written to: bring it to the disk, and keep no page of it in memory."""
        self._map.flush()
        self._map.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)


def _aligned(shape: tuple[int, int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Zeros that begin a page: direct reads ask for it."""
    memory = mmap.mmap(-1, max(1, shape[0] * shape[1]) * dtype.itemsize)
    return np.frombuffer(memory, dtype, count=shape[0] * shape[1]).reshape(shape)


def _open_direct(path: Path) -> int | None:
    """The file past the page cache, or None where that cannot be."""
    try:
        file = os.open(path, os.O_RDWR | os.O_DIRECT)
    except (OSError, AttributeError):  # No such flag on this system, or not for this file system.
        return None
    try:
        os.preadv(file, [mmap.mmap(-1, _SECTOR)], 0)
    except OSError:
        os.close(file)
        return None
    return file


@compiled
def _read(file: int, places: I64, rows: F32, sectors: npt.NDArray[np.uint8], first: int, last: int) -> int:
    """Each row by the sectors that hold it; how many came short."""
    size, into, short = rows.shape[1] * 4, sectors.ctypes.data, 0
    numbers = sectors.view(np.float32)
    for m in range(first, last):
        begin = places[m] * size
        before = begin % _SECTOR
        wanted = (before + size + _SECTOR - 1) // _SECTOR * _SECTOR
        if _pread(file, into, wanted, begin - before) < before + size:
            short += 1
        for s in range(rows.shape[1]):
            rows[m, s] = numbers[before // 4 + s]
    return short
