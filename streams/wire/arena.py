"""Every column of a message decoded into one piece of memory: one compiled call, and one for each large section.

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
from streams.wire.unpacking import LARGE, SLACK, read_large, read_small

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]

# Compiled code compares plain numbers.
_IDS: Final = int(Kind.IDS)
_INVERSE: Final = int(Kind.INVERSE)
_VALUES: Final = int(Kind.VALUES)
_SUMMED: Final = (int(Kind.LENGTHS), int(Kind.BUFFERS))
_IS_SUMMED: Final = np.isin(np.arange(256), _SUMMED)
_SHARED: Final = int(Encoding.SHARED)
_RUNS: Final = int(Encoding.RUNS)
_INT32: Final = DTYPE_CODES[np.dtype("<i4")]
_INT64: Final = DTYPE_CODES[np.dtype("<i8")]
_MOST_VALUES: Final = MAX_DECODED_BYTES // 8
"""A power of two."""
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
        start = self.starts[index]
        end = start + self.counts[index]
        return self.views[self.dtypes[index]][start - (self.kinds[index] in _SUMMED) : end]


def read_columns(table: Table, body: U8) -> Arena:
    """Decodes every section of a padded body. Raises WireError."""
    lines = table.lines
    places, total, index, what, left = _places(lines)
    if what:
        raise table.refusal(index, what)
    memory = _aligned(total)
    integers, narrow = memory.view(np.int64), memory.view(np.int32)
    proofs = np.zeros(len(table), np.int64)
    index, what = read_small(lines, places, body, integers, narrow, proofs)
    if what:
        raise table.refusal(index, what)
    kinds, dtypes, encodings, counts = (lines[:, field].tolist() for field in (KIND, DTYPE, ENCODING, COUNT))
    starts = (places // _ITEM_BYTES[lines[:, DTYPE]]).tolist()
    for index, encoding in enumerate(encodings):
        if encoding in LARGE:
            words = integers if _ITEM_BYTES[dtypes[index]] == 8 else narrow
            what = read_large(lines[index], body, words[starts[index] : starts[index] + counts[index]])
            if what:
                raise table.refusal(index, what)
    _prove(lines, places, integers, narrow, proofs)
    if left:
        raise WireError(f"{left} shared ids belong to no feature")
    return Arena(
        table=table,
        kinds=kinds,
        dtypes=dtypes,
        counts=counts,
        proofs=proofs.tolist(),
        starts=starts,
        views=(memory, narrow, integers, memory.view(np.uint64), memory.view(np.float32)),
    )


def _aligned(size: int) -> U8:
    """Memory that begins at a multiple of 64 bytes."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


@compiled
def _places(lines: I64) -> tuple[I64, int, int, int, int]:
    """[S] where each column begins, the bytes of all; which section cannot be placed, and why; shared ids left over.

    In front of lengths there is room for the first offset, behind every column for what decoding may write there.
    """
    places, end = np.zeros(len(lines), np.int64), 0
    shared, left = 0, 0
    for s in range(len(lines)):
        kind, dtype, count = lines[s, KIND], lines[s, DTYPE], lines[s, COUNT]
        if lines[s, ENCODING] == _SHARED:
            if kind != _VALUES:
                return places, 0, s, damage.SHARES, 0
            if lines[s, SIZE] or dtype != _INT64:
                return places, 0, s, damage.SHARED_BYTES, 0
            if count > left:
                return places, 0, s, damage.SHARED_LEFT, 0
            places[s] = shared
            shared += 8 * count
            left -= count
            continue
        summed = _IS_SUMMED[kind]
        if (summed or kind == _IDS) and dtype != _INT64:
            return places, 0, s, damage.SHARED_DTYPE, 0
        places[s] = end + 8 * summed
        if kind == _IDS:
            shared, left = end, left + count
        size = (summed + count + SLACK) * _ITEM_BYTES[dtype]
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return places, end, 0, damage.NONE, left


@compiled
def _prove(lines: I64, places: I64, integers: I64, narrow: I32, proofs: I64) -> None:
    """What `Arena.proofs` says and no run said. Lengths become the ends of their rows, behind a first offset of 0."""
    for s in range(len(lines)):
        kind, count = lines[s, KIND], lines[s, COUNT]
        if kind == _INVERSE and lines[s, DTYPE] == _INT32 and lines[s, ENCODING] != _RUNS:
            start = places[s] // 4
            proofs[s] = _numbered(narrow[start : start + count])
        elif _IS_SUMMED[kind]:
            start = places[s] // 8
            integers[start - 1] = 0
            proofs[s] = _sum_up(integers[start : start + count])


@compiled
def _numbered(inverse: I32) -> int:
    """What `numbered_rows` says. Most inverses never go back, which vector instructions see."""
    rows, steps = np.uint64(len(inverse)), np.uint32(0)
    for b in range(np.uint64(1), rows):
        steps |= np.uint32(inverse[b]) - np.uint32(inverse[b - np.uint64(1)])
    if rows and inverse[0] == 0 and steps <= 1:
        return int(inverse[rows - np.uint64(1)]) + 1
    return numbered_rows(inverse)


@compiled
def _sum_up(lengths: I64) -> np.int64:
    """Lengths to the ends of their rows, in place; their sum, or -1 where that cannot be one."""
    total, all_bits = np.int64(0), np.int64(0)
    for r in range(np.uint64(len(lengths))):
        all_bits |= lengths[r]
        total += lengths[r]
        lengths[r] = total
    return total if 0 <= all_bits < _MOST_VALUES else np.int64(-1)
