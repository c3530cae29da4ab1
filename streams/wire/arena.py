"""Every column of a message decoded by one compiled call into one piece of memory.

Owns where columns lie in that memory, and what the pass proves about them on the way. Each begins at a multiple of 64
bytes; ids that features share lie side by side. Lengths become offsets there, one more than there are lengths.

Shapes: S sections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.errors import WireError
from streams.ikjt.kernels import compiled, numbered_rows
from streams.wire import damage
from streams.wire.layout import ALIGNMENT, DTYPE_CODES, DTYPES, MAX_DECODED_BYTES, Encoding, Kind
from streams.wire.table import COUNT, DTYPE, ENCODING, KIND, SIZE, Table
from streams.wire.unpacking import read_float_bits, read_integers

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

# Compiled code compares plain numbers.
_IDS: Final = int(Kind.IDS)
_INVERSE: Final = int(Kind.INVERSE)
_LENGTHS: Final = int(Kind.LENGTHS)
_VALUES: Final = int(Kind.VALUES)
_BUFFERS: Final = int(Kind.BUFFERS)
_SHARED: Final = int(Encoding.SHARED)
_INT32: Final = DTYPE_CODES[np.dtype("<i4")]
_INT64: Final = DTYPE_CODES[np.dtype("<i8")]
_FLOAT32: Final = DTYPE_CODES[np.dtype("<f4")]
_MOST_VALUES: Final = MAX_DECODED_BYTES // 8
_ITEM_BYTES: Final = np.asarray([0, *(DTYPES[code].itemsize for code in sorted(DTYPES))], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Arena:
    """The columns of a message as views of one memory, and what was proved about them."""

    table: Table
    kinds: list[int]
    """[S]."""
    dtypes: list[int]
    """[S], codes."""
    counts: list[int]
    """[S], values of each section."""
    proofs: list[int]
    """[S]. Of an inverse: its rows if it numbers them by first appearance, else -1. Of lengths and buffers: their sum
    if none is negative and it is one that memory can have, else -1."""
    starts: list[int]
    """[S], where each begins, counted in its own dtype."""
    views: tuple[npt.NDArray[Any], ...]
    """The memory as each dtype, by its code."""

    def column(self, index: int) -> npt.NDArray[Any]:
        """[V] of a section, a view; of lengths and buffers their offsets, [V + 1]."""
        kind, start = self.kinds[index], self.starts[index]
        end = start + self.counts[index] + (kind in (_LENGTHS, _BUFFERS))
        return self.views[self.dtypes[index]][start:end]


def read_columns(table: Table, body: U8) -> Arena:
    """Decodes every section of a padded body. Raises WireError."""
    places, total, index, what = _places(table.lines)
    if what:
        raise table.refusal(index, what)
    memory = _aligned(total)
    proofs = np.zeros(len(table), np.int64)
    integers, narrow = memory.view(np.int64), memory.view(np.int32)
    index, what, left = _read(table.lines, places, body, integers, narrow, proofs)
    if what:
        raise table.refusal(index, what)
    if left:
        raise WireError(f"{left} shared ids belong to no feature")
    lines = table.lines
    return Arena(
        table=table,
        kinds=lines[:, KIND].tolist(),
        dtypes=lines[:, DTYPE].tolist(),
        counts=lines[:, COUNT].tolist(),
        proofs=proofs.tolist(),
        starts=(places // _ITEM_BYTES[lines[:, DTYPE]]).tolist(),
        views=(memory, narrow, integers, memory.view(np.uint64), memory.view(np.float32)),
    )


def _aligned(size: int) -> U8:
    """Memory that begins at a multiple of 64 bytes."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


@compiled
def _places(lines: I64) -> tuple[I64, int, int, int]:
    """[S] where each column begins, the bytes of all, and which section cannot be placed, and why."""
    places, end = np.zeros(len(lines), np.int64), 0
    shared, left = 0, 0
    for s in range(len(lines)):
        kind, dtype, count = lines[s, KIND], lines[s, DTYPE], lines[s, COUNT]
        if lines[s, ENCODING] == _SHARED:
            if kind != _VALUES:
                return places, 0, s, damage.SHARES
            if lines[s, SIZE] or dtype != _INT64:
                return places, 0, s, damage.SHARED_BYTES
            if count > left:
                return places, 0, s, damage.SHARED_LEFT
            places[s] = shared
            shared += 8 * count
            left -= count
            continue
        if kind in (_IDS, _LENGTHS, _BUFFERS) and dtype != _INT64:
            return places, 0, s, damage.SHARED_DTYPE
        places[s] = end
        if kind == _IDS:
            shared, left = end, count
        size = (count + (kind in (_LENGTHS, _BUFFERS))) * _ITEM_BYTES[dtype]
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return places, end, 0, damage.NONE


@compiled
def _read(
    lines: I64, places: I64, body: U8, integers: I64, narrow: npt.NDArray[np.int32], proofs: I64
) -> tuple[int, int, int]:
    """Fills the memory, seen as either width. Returns the wrong section, what is wrong, and shared ids left over."""
    left = 0
    for s in range(len(lines)):
        line, kind, count = lines[s], lines[s, KIND], lines[s, COUNT]
        if line[ENCODING] == _SHARED:
            left -= count
            continue
        if line[DTYPE] == _FLOAT32:
            start = places[s] // 4
            what = read_float_bits(line, body, narrow[start : start + count])
        elif line[DTYPE] == _INT32:
            start = places[s] // 4
            column = narrow[start : start + count]
            what = read_integers(line, body, column)
            if kind == _INVERSE and not what:
                proofs[s] = numbered_rows(column)
        else:
            start = places[s] // 8
            summed = kind in (_LENGTHS, _BUFFERS)
            wide = integers[start + summed : start + summed + count]
            what = read_integers(line, body, wide)
            if summed and not what:
                integers[start] = 0
                proofs[s] = _sum_up(wide)
            if kind == _IDS:
                left += count
        if what:
            return s, what, 0
    return 0, damage.NONE, left


@compiled
def _sum_up(lengths: I64) -> np.int64:
    """Lengths to the ends of their rows, in place; their sum, or -1 where that cannot be one."""
    total, possible = np.int64(0), True
    for r in range(len(lengths)):
        possible &= 0 <= lengths[r] <= _MOST_VALUES
        total += lengths[r]
        lengths[r] = total
    return total if possible else np.int64(-1)
