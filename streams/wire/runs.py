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
from streams.wire.symbols import (
    NUM_SYMBOLS,
    OPEN_BITS,
    SMALLEST,
    bits_of,
    get_numbers,
    put_numbers,
    symbols_of,
    words_of,
    zigzag,
)

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

_COUNT_BYTES: Final = 4
_PLANES: Final = 4
_DAMAGE: Final = (
    "",
    "a symbol does not exist",
    "the open bits are not as many as the symbols say",
    "the runs are not as long together as the column",
)


def num_runs(column: npt.NDArray[Any]) -> int:
    """R of a column that is not empty."""
    return int(np.count_nonzero(column[1:] != column[:-1])) + 1


def pack_runs(wide: U64, base: np.uint64) -> U8:
    """The buffer of a column that is not empty; the first head is counted from `base`."""
    heads, lengths = _runs(wide)
    steps = zigzag(np.diff(heads, prepend=base))
    parts = symbols_of(lengths), symbols_of(steps)
    return np.concatenate([_count(heads), *parts, _bits([lengths, steps], parts)])


def unpack_runs(buffer: U8, count: int, base: np.uint64) -> U64:
    """[V]. Raises ValueError unless the buffer holds exactly that."""
    runs, rest = _read_count(buffer, count)
    if len(rest) < 2 * runs:
        raise ValueError(f"{runs} runs need more than {len(buffer)} bytes")
    values, damage = _read_runs(rest[: 2 * runs], words_of(rest[2 * runs :]), len(rest) - 2 * runs, count, base,
                                OPEN_BITS, SMALLEST)  # fmt: skip
    if damage:
        raise ValueError(_DAMAGE[damage])
    return values


def pack_floats(matrix: npt.NDArray[np.float32]) -> U8:
    """The buffer of a [B, K] matrix that is not empty."""
    words = np.ascontiguousarray(matrix.T).view(np.uint32).reshape(-1)
    heads, lengths = _runs(words)
    planes = heads.view(np.uint8).reshape(-1, _PLANES)[:, ::-1].T.reshape(-1)
    symbols = symbols_of(lengths)
    return np.concatenate([_count(heads), symbols, planes, _bits([lengths], (symbols,))])


def unpack_floats(buffer: U8, count: int, columns: int) -> npt.NDArray[np.float32]:
    """[B · K], row by row. Raises ValueError unless the buffer holds exactly that."""
    runs, rest = _read_count(buffer, count)
    end = (1 + _PLANES) * runs
    if columns < 1 or count % columns or len(rest) < end:
        raise ValueError(f"{runs} runs of {count} values in {columns} columns do not fit {len(buffer)} bytes")
    symbols, bits = rest[:runs], rest[end:]
    if symbols.max() >= NUM_SYMBOLS:
        raise ValueError(_DAMAGE[1])
    if len(bits) != -(-bits_of(symbols, OPEN_BITS) // 8):
        raise ValueError(_DAMAGE[2])
    lengths, _ = get_numbers(words_of(bits), 0, symbols, OPEN_BITS, SMALLEST)
    if lengths.max() >= count or int(lengths.sum()) + runs != count:
        raise ValueError(_DAMAGE[3])
    heads = np.ascontiguousarray(rest[runs:end].reshape(_PLANES, runs)[::-1].T).view(np.float32).reshape(-1)
    by_column = np.repeat(heads, lengths.astype(np.int64) + 1).reshape(columns, -1)
    return np.ascontiguousarray(by_column.T).reshape(-1)


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


def _read_count(buffer: U8, count: int) -> tuple[int, U8]:
    """R, and what follows it."""
    if len(buffer) < _COUNT_BYTES:
        raise ValueError("the number of runs is cut off")
    runs = int(buffer[:_COUNT_BYTES].view("<u4")[0])
    if not 0 < runs <= count:
        raise ValueError(f"{runs} runs of {count} values")
    return runs, buffer[_COUNT_BYTES:]


@compiled
def _read_runs(
    symbols: U8, words: U64, num_bytes: int, count: int, base: np.uint64, open_bits: U8, smallest: U64
) -> tuple[U64, int]:
    """[V] and 0, or which damage there is. The first half of the symbols are lengths, the second steps."""
    values = np.empty(count, np.uint64)
    for symbol in symbols:
        if symbol >= NUM_SYMBOLS:
            return values, 1
    if num_bytes != (bits_of(symbols, open_bits) + 7) // 8:
        return values, 2
    runs = len(symbols) // 2
    lengths, at = get_numbers(words, 0, symbols[:runs], open_bits, smallest)
    steps, at = get_numbers(words, at, symbols[runs:], open_bits, smallest)
    head, filled = base, 0
    for r in range(runs):
        if lengths[r] >= np.uint64(count - filled):
            return values, 3
        head += (steps[r] >> np.uint64(1)) ^ (np.uint64(0) - (steps[r] & np.uint64(1)))
        end = filled + int(lengths[r]) + 1
        for place in range(filled, end):
            values[place] = head
        filled = end
    return values, 0 if filled == count else 3
