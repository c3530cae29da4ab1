"""One section's bytes to its column, into memory that is given.

Owns the way back from every encoding, compiled: nothing here knows what a column means. All arithmetic is modulo 2^64.
Integers of any width become 64 bits first, so that one kernel an encoding is all there is to compile. Kernels
are kept apart and shallow: what one calls is compiled again with it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled
from streams.unaligned import ANY_BITS, PADDING, get_bits, load_u64, low_bits
from streams.wire import damage
from streams.wire.layout import DTYPES, FLOAT32, INT32, Encoding
from streams.wire.paired import read_paired
from streams.wire.ranked import read_ranked
from streams.wire.runs import read_floats, read_runs
from streams.wire.symbols import unzigzag
from streams.wire.table import BASE, COUNT, DTYPE, ENCODING, POSITION, SIZE, WIDTH

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]

# Compiled code compares plain numbers.
_PLAIN: Final = int(Encoding.PLAIN)
_BITS: Final = int(Encoding.BITS)
_DELTA: Final = int(Encoding.DELTA)
_CONSTANT: Final = int(Encoding.CONSTANT)
_RUNS: Final = int(Encoding.RUNS)
_RANKED: Final = int(Encoding.RANKED)
_FLOATS: Final = int(Encoding.FLOATS)
_PAIRED: Final = int(Encoding.PAIRED)
_ITEM_BYTES: Final = np.asarray([0, *(DTYPES[code].itemsize for code in sorted(DTYPES))], np.int64)
_SHARED: Final = int(Encoding.SHARED)
LARGE: Final = frozenset({_RANKED, _FLOATS, _PAIRED})
"""Encodings of few and large sections. Each is a kernel of its own, compiled when a message first has it."""
_IS_LARGE: Final = np.isin(np.arange(256), sorted(LARGE))
SLACK: Final = 1
"""Values behind a column that may be written too."""


def read_large(line: I64, body: U8, out: npt.NDArray[Any]) -> int:
    """Fills `out` [V] by a line of one of the encodings `LARGE`; returns what is wrong, or 0. The body is padded."""
    _, dtype, encoding, width, columns, count, position, size, base, *_ = line.tolist()
    buffer = body[position : position + size + PADDING]
    if (encoding == _FLOATS) != (dtype == FLOAT32):
        return damage.FLOATS
    if encoding == _FLOATS:
        return read_floats(buffer, count, columns, out)
    read = read_paired if encoding == _PAIRED else read_ranked
    low = np.uint64(base % 2**64)
    if dtype != INT32:
        return read(buffer, count, low, width, out)
    wide = np.empty(count + SLACK, np.int64)
    return read(buffer, count, low, width, wide[:count]) or narrowed(wide, out)


@compiled
def read_small(lines: I64, places: I64, body: U8, integers: I64, narrow: I32, rows: I64) -> tuple[int, int]:
    """Every section of another encoding, floats as their bits; returns which is wrong, and what. The body is padded.

    `places` are bytes in the memory, which is seen as either width. `rows` [S] becomes what `numbered_rows` would say
    of a column of runs, which is told from their heads.
    """
    most = 0
    for s in range(len(lines)):
        if _ITEM_BYTES[lines[s, DTYPE]] == 4:
            most = max(most, lines[s, COUNT])
    scratch = np.empty(most, np.int64)
    for s in range(len(lines)):
        line, encoding, count = lines[s], lines[s, ENCODING], lines[s, COUNT]
        if _IS_LARGE[encoding] or encoding == _SHARED:
            continue
        start, narrows = places[s] // _ITEM_BYTES[line[DTYPE]], _ITEM_BYTES[line[DTYPE]] == 4
        out = scratch[:count] if narrows else integers[start : start + count]
        if line[DTYPE] == FLOAT32 and encoding != _PLAIN:
            what = damage.FLOATS
        elif encoding == _RUNS:
            buffer = body[line[POSITION] : line[POSITION] + line[SIZE] + PADDING]
            what, rows[s] = read_runs(buffer, count, np.uint64(line[BASE]), out)
        else:
            what = _read_integers(line, body, out)
        if narrows and not what:
            what = narrowed(scratch, narrow[start : start + count])
        if what:
            return s, what
    return 0, damage.NONE


@compiled
def narrowed(wide: I64, out: I32) -> int:
    """Fills `out` [V] with what an int32 can hold; what it cannot is refused."""
    lost = np.int64(0)
    for i in range(np.uint64(len(out))):
        out[i] = np.int32(wide[i])
        lost |= np.int64(out[i]) ^ wide[i]
    return damage.INT32 if lost else damage.NONE


@compiled
def _read_integers(line: I64, body: U8, out: I64) -> int:
    encoding, width, count, size = line[ENCODING], line[WIDTH], line[COUNT], line[SIZE]
    buffer, base = body[line[POSITION] : line[POSITION] + line[SIZE] + PADDING], np.uint64(line[BASE])
    if encoding == _PLAIN:
        what = _read_plain(buffer, out, size, _ITEM_BYTES[line[DTYPE]])
    elif encoding == _CONSTANT:
        what = damage.SIZE if size else damage.NONE
        for i in range(np.uint64(count)):
            out[i] = np.int64(base)
    elif encoding == _BITS:
        what = _read_bits(buffer, width, base, out, size)
    elif not 1 <= width <= 8:
        what = damage.WIDTH
    elif size != count * width:
        what = damage.SIZE
    else:
        what = _read_bytes(buffer, width, base, out, encoding)
    return what


@compiled
def _read_plain(buffer: U8, out: I64, size: int, item_bytes: int) -> int:
    if size != len(out) * item_bytes:
        return damage.SIZE
    if item_bytes == 4:
        for i in range(np.uint64(len(out))):
            out[i] = np.int64(np.int32(load_u64(buffer, np.uint64(4) * i)))
    else:
        for i in range(np.uint64(len(out))):
            out[i] = np.int64(load_u64(buffer, np.uint64(8) * i))
    return damage.NONE


@compiled
def _read_bits(buffer: U8, width: int, base: np.uint64, out: I64, size: int) -> int:
    if not 1 <= width < 64:
        return damage.WIDTH
    if size != (len(out) * width + 7) // 8:
        return damage.SIZE
    at, step, mask = np.uint64(0), np.uint64(width), low_bits(width)
    if width > ANY_BITS:
        for i in range(np.uint64(len(out))):
            out[i] = np.int64(get_bits(buffer, at, width) + base)
            at += step
    else:
        for i in range(np.uint64(len(out))):
            out[i] = np.int64(((load_u64(buffer, at >> np.uint64(3)) >> (at & np.uint64(7))) & mask) + base)
            at += step
    return damage.NONE


@compiled
def _read_bytes(buffer: U8, width: int, base: np.uint64, out: I64, encoding: int) -> int:
    at, step, mask = np.uint64(0), np.uint64(width), low_bits(8 * width)
    if encoding == _DELTA:
        value = base
        for i in range(np.uint64(len(out))):
            value += unzigzag(load_u64(buffer, at) & mask)
            out[i] = np.int64(value)
            at += step
    else:
        for i in range(np.uint64(len(out))):
            out[i] = np.int64((load_u64(buffer, at) & mask) + base)
            at += step
    return damage.NONE
