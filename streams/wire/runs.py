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
from streams.unaligned import PADDING, load_u32
from streams.wire import damage
from streams.wire.symbols import (
    OPEN_BITS,
    SMALLEST,
    bits_left,
    get_number,
    put_bits,
    symbols_of,
    unzigzag,
    zigzag,
)

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

_COUNT_BYTES: Final = 4
_PLANES: Final = 4
_BLOCK: Final = np.uint64(16)
"""Values that are written at once."""


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
    num_bits = sum(int(OPEN_BITS[its].sum()) for its in symbols)
    words = np.zeros(num_bits // 64 + 2, np.uint64)
    at = 0
    for each, its in zip(numbers, symbols, strict=True):
        at = put_bits(words, at, each - SMALLEST[its], OPEN_BITS[its])
    return words.view(np.uint8)[: -(-num_bits // 8)]


@compiled
def read_runs(buffer: U8, count: int, base: np.uint64, out: I64) -> tuple[int, np.int64]:
    """Fills `out` [V]; returns what is wrong, or 0, and what `numbered_rows` would say. The buffer is padded."""
    size = len(buffer) - PADDING
    runs = load_u32(buffer, 0) if size >= _COUNT_BYTES else 0
    end = _COUNT_BYTES + 2 * runs
    if not 0 < runs <= count or size < end:
        return damage.RUNS, np.int64(-1)
    lengths, steps = buffer[_COUNT_BYTES : _COUNT_BYTES + runs], buffer[_COUNT_BYTES + runs : end]
    length_bits, step_bits = bits_left(lengths), bits_left(steps)
    if length_bits < 0 or step_bits < 0:
        return damage.SYMBOL, np.int64(-1)
    if size - end != (length_bits + step_bits + 7) // 8:
        return damage.OPEN_BITS, np.int64(-1)
    length_at = np.uint64(8 * end)
    step_at = length_at + np.uint64(length_bits)
    head, filled, values = base, np.uint64(0), np.uint64(count)
    rows, jumps = np.uint64(0), np.uint64(0)
    for r in range(np.uint64(runs)):
        length = get_number(buffer, length_at, lengths[r])
        length_at += np.uint64(OPEN_BITS[lengths[r]])
        head += unzigzag(get_number(buffer, step_at, steps[r]))
        step_at += np.uint64(OPEN_BITS[steps[r]])
        if length >= values - filled:
            return damage.RUN_LENGTHS, np.int64(-1)
        _fill(out, filled, length, np.int64(head))
        filled += length + np.uint64(1)
        jumps |= np.uint64(head > rows)
        rows += np.uint64(head == rows)
    what = damage.NONE if filled == values else damage.RUN_LENGTHS
    return what, np.int64(-1) if jumps else np.int64(rows)


@compiled
def _fill(out: npt.NDArray[Any], start: np.uint64, length: np.uint64, value: np.integer[Any]) -> None:
    """The value from `start` on, once more than `length`.

    Most runs are short: a block is written whatever comes, where there is room, and the next run writes over it.
    """
    done = np.uint64(0)
    if start + _BLOCK <= np.uint64(len(out)):
        for k in range(_BLOCK):
            out[start + k] = value
        done = _BLOCK
    if length >= done:
        for place in range(start + done, start + length + np.uint64(1)):
            out[place] = value


def read_floats(buffer: U8, count: int, columns: int, out: I32) -> int:
    """Fills `out` [B · K], the bits of floats row by row; returns what is wrong, or 0. The buffer is padded."""
    size = len(buffer) - PADDING
    runs = int.from_bytes(buffer[:_COUNT_BYTES].tobytes(), "little") if size >= _COUNT_BYTES else 0
    end = _COUNT_BYTES + (1 + _PLANES) * runs
    if not 0 < runs <= count or columns < 1 or count % columns or size < end:
        return damage.RUNS
    symbols = buffer[_COUNT_BYTES : _COUNT_BYTES + runs]
    open_bits = bits_left(symbols)
    if open_bits < 0:
        return damage.SYMBOL
    if size - end != -(-open_bits // 8):
        return damage.OPEN_BITS
    by_column = np.empty(count, np.int32)
    if not _repeat(buffer, symbols, by_column):
        return damage.RUN_LENGTHS
    _transpose(by_column, np.uint64(count // columns), np.uint64(columns), out)
    return damage.NONE


@compiled
def _repeat(buffer: U8, symbols: U8, by_column: I32) -> bool:
    """Puts each head together from its byte in every plane, as often as it stands; False if it is too often."""
    runs, values, filled = np.uint64(len(symbols)), np.uint64(len(by_column)), np.uint64(0)
    first = np.uint64(_COUNT_BYTES) + runs
    at = np.uint64(8) * (first + np.uint64(_PLANES) * runs)
    for r in range(runs):
        length = get_number(buffer, at, symbols[r])
        at += np.uint64(OPEN_BITS[symbols[r]])
        head = np.uint32(0)
        for plane in range(np.uint64(_PLANES)):
            head = (head << np.uint32(8)) | np.uint32(buffer[first + plane * runs + r])
        if length >= values - filled:
            return False
        _fill(by_column, filled, length, np.int32(head))
        filled += length + np.uint64(1)
    return bool(filled == values)


@compiled
def _transpose(by_column: I32, rows: np.uint64, columns: np.uint64, out: I32) -> None:
    """Columns to rows, some rows at a time: of every column just what lies in one line of the cache."""
    for some in range(np.uint64(0), rows, _BLOCK):
        for column in range(columns):
            for row in range(some, min(some + _BLOCK, rows)):
                out[row * columns + column] = by_column[column * rows + row]
