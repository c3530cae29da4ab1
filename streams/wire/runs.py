"""Columns in which a value often stands several times in a row: how long each run is, and what it repeats.

Owns the buffers of encodings RUNS (integers) and FLOATS (matrices of float32, column after column).

    RUNS     u32 R | R symbols of length − 1 | R symbols of the heads' zigzag differences | bits of both
    FLOATS   u32 R | R symbols of length − 1 | R bytes 3, R bytes 2, R bytes 1, R bytes 0 of the heads | bits

Bytes of one place lie together, because sign and exponent repeat and the rest of a mantissa does not.
Shapes: V values, R runs.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled
from streams.wire import damage
from streams.wire.symbols import (
    NUM_SYMBOLS,
    OPEN_BITS,
    SMALLEST,
    bits_of,
    get_number,
    put_numbers,
    symbols_of,
    unzigzag,
    zigzag,
)
from streams.wire.unaligned import PADDING, load_u32

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

_COUNT_BYTES: Final = 4
_PLANES: Final = 4


def num_runs(column: npt.NDArray[Any]) -> int:
    """R of a column that is not empty."""
    return int(np.count_nonzero(column[1:] != column[:-1])) + 1


def pack_runs(wide: U64, base: np.uint64) -> U8:
    """The buffer of a column that is not empty; the first head is counted from `base`."""
    heads, lengths = _runs(wide)
    steps = zigzag(np.diff(heads, prepend=base))
    parts = symbols_of(lengths), symbols_of(steps)
    return np.concatenate([_count(heads), *parts, _bits([lengths, steps], parts)])


def pack_floats(matrix: npt.NDArray[np.float32]) -> U8:
    """The buffer of a [B, K] matrix that is not empty."""
    words = np.ascontiguousarray(matrix.T).view(np.uint32).reshape(-1)
    heads, lengths = _runs(words)
    planes = heads.view(np.uint8).reshape(-1, _PLANES)[:, ::-1].T.reshape(-1)
    symbols = symbols_of(lengths)
    return np.concatenate([_count(heads), symbols, planes, _bits([lengths], (symbols,))])


def _runs(words: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], U64]:
    """Heads of the runs, and their lengths less one."""
    starts = np.flatnonzero(np.concatenate([[True], words[1:] != words[:-1]]))
    return words[starts], (np.diff(starts, append=len(words)) - 1).astype(np.uint64)


def _count(heads: npt.NDArray[Any]) -> U8:
    return np.asarray([len(heads)], "<u4").view(np.uint8)


def _bits(numbers: list[U64], symbols: tuple[U8, ...]) -> U8:
    """The bits that the symbols leave open, one list behind the other."""
    num_bits = sum(bits_of(its, OPEN_BITS) for its in symbols)
    words = np.zeros(num_bits // 64 + 2, np.uint64)
    at = 0
    for each, its in zip(numbers, symbols, strict=True):
        at = put_numbers(words, at, each, its, OPEN_BITS, SMALLEST)
    return words.view(np.uint8)[: -(-num_bits // 8)]


@compiled
def read_runs(buffer: U8, count: int, base: np.uint64, out: npt.NDArray[Any]) -> int:
    """Fills `out` [V]; returns what is wrong, or 0. The buffer is padded."""
    size = len(buffer) - PADDING
    runs = load_u32(buffer, 0) if size >= _COUNT_BYTES else 0
    if not 0 < runs <= count or size < _COUNT_BYTES + 2 * runs:
        return damage.RUNS
    lengths, steps = buffer[_COUNT_BYTES : _COUNT_BYTES + runs], buffer[_COUNT_BYTES + runs : _COUNT_BYTES + 2 * runs]
    what = _check_symbols(buffer[_COUNT_BYTES : _COUNT_BYTES + 2 * runs], size - _COUNT_BYTES - 2 * runs)
    if what:
        return what
    length_at = np.uint64(8 * (_COUNT_BYTES + 2 * runs))
    step_at = length_at + np.uint64(bits_of(lengths, OPEN_BITS))
    head, filled, lost = base, np.int64(0), np.int64(0)
    for r in range(runs):
        length = get_number(buffer, length_at, lengths[r])
        length_at += np.uint64(OPEN_BITS[lengths[r]])
        head += unzigzag(get_number(buffer, step_at, steps[r]))
        step_at += np.uint64(OPEN_BITS[steps[r]])
        if length >= np.uint64(count - filled):
            return damage.RUN_LENGTHS
        end = filled + np.int64(length) + 1
        for place in range(np.uint64(filled), np.uint64(end)):
            out[place] = np.int64(head)
        lost |= np.int64(out[filled]) ^ np.int64(head)
        filled = end
    if filled != count:
        return damage.RUN_LENGTHS
    return damage.INT32 if lost else damage.NONE


@compiled
def read_floats(buffer: U8, count: int, columns: int, out: npt.NDArray[np.int32]) -> int:
    """Fills `out` [B · K], the bits of floats row by row; returns what is wrong, or 0. The buffer is padded."""
    size = len(buffer) - PADDING
    runs = load_u32(buffer, 0) if size >= _COUNT_BYTES else 0
    end = _COUNT_BYTES + (1 + _PLANES) * runs
    if not 0 < runs <= count or columns < 1 or count % columns or size < end:
        return damage.RUNS
    symbols = buffer[_COUNT_BYTES : _COUNT_BYTES + runs]
    what = _check_symbols(symbols, size - end)
    if what:
        return what
    by_column = np.empty(count, np.int32)
    at, filled = np.uint64(8 * end), np.int64(0)
    for r in range(runs):
        length = get_number(buffer, at, symbols[r])
        at += np.uint64(OPEN_BITS[symbols[r]])
        if length >= np.uint64(count - filled):
            return damage.RUN_LENGTHS
        head = np.int32(0)
        for plane in range(_PLANES):
            head = (head << np.int32(8)) | np.int32(buffer[_COUNT_BYTES + (1 + plane) * runs + r])
        behind = filled + np.int64(length) + 1
        for place in range(np.uint64(filled), np.uint64(behind)):
            by_column[place] = head
        filled = behind
    if filled != count:
        return damage.RUN_LENGTHS
    width, rows = np.uint64(columns), np.uint64(count // columns)
    for row in range(rows):
        for column in range(width):
            out[row * width + column] = by_column[column * rows + row]
    return damage.NONE


@compiled
def _check_symbols(symbols: U8, num_bytes: int) -> int:
    """Whether all exist and leave as many bits open as there are bytes for."""
    for symbol in symbols:
        if symbol >= NUM_SYMBOLS:
            return damage.SYMBOL
    return damage.NONE if num_bytes == (bits_of(symbols, OPEN_BITS) + 7) // 8 else damage.OPEN_BITS
