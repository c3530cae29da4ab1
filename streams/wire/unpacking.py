"""One section's bytes to its column, into memory that is given.

Owns the way back from every encoding, compiled: nothing here knows what a column means. All arithmetic is modulo 2^64.
`out` has the column's dtype, or int32 where it holds the bits of floats; what an int32 cannot hold is refused, not cut.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled
from streams.wire import damage
from streams.wire.layout import Encoding
from streams.wire.ranked import read_ranked
from streams.wire.runs import read_floats, read_runs
from streams.wire.symbols import unzigzag
from streams.wire.table import BASE, COLUMNS, COUNT, ENCODING, POSITION, SIZE, WIDTH
from streams.wire.unaligned import ANY_BITS, PADDING, get_bits, load_u64, low_bits

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
Out = npt.NDArray[Any]

# Compiled code compares plain numbers.
_PLAIN: Final = int(Encoding.PLAIN)
_FIXED: Final = int(Encoding.FIXED)
_BITS: Final = int(Encoding.BITS)
_DELTA: Final = int(Encoding.DELTA)
_CONSTANT: Final = int(Encoding.CONSTANT)
_RUNS: Final = int(Encoding.RUNS)
_RANKED: Final = int(Encoding.RANKED)
_FLOATS: Final = int(Encoding.FLOATS)


@compiled
def read_integers(line: I64, body: U8, out: Out) -> int:
    """Fills `out` [V] by a line of the section table; returns what is wrong, or 0. The body is padded."""
    encoding, width, count, size = line[ENCODING], line[WIDTH], line[COUNT], line[SIZE]
    buffer, base = body[line[POSITION] : line[POSITION] + line[SIZE] + PADDING], np.uint64(line[BASE])
    if encoding == _RUNS:
        what = read_runs(buffer, count, base, out)
    elif encoding == _RANKED:
        what = read_ranked(buffer, count, base, width, out)
    elif encoding == _PLAIN:
        what = _read_plain(buffer, out, size)
    elif encoding == _CONSTANT:
        what = _read_constant(base, out, size)
    elif encoding == _BITS:
        what = _read_bits(buffer, width, base, out, size)
    elif encoding == _FLOATS:
        what = damage.FLOATS
    elif not 1 <= width <= 8:
        what = damage.WIDTH
    elif size != count * width:
        what = damage.SIZE
    elif encoding == _FIXED:
        what = _read_fixed(buffer, width, base, out)
    else:
        what = _read_delta(buffer, width, base, out)
    return what


@compiled
def read_float_bits(line: I64, body: U8, out: npt.NDArray[np.int32]) -> int:
    """The same for a column of floats."""
    buffer = body[line[POSITION] : line[POSITION] + line[SIZE] + PADDING]
    if line[ENCODING] == _PLAIN:
        return _read_plain(buffer, out, line[SIZE])
    if line[ENCODING] == _FLOATS:
        return read_floats(buffer, line[COUNT], line[COLUMNS], out)
    return damage.FLOATS


@compiled
def _read_plain(buffer: U8, out: Out, size: int) -> int:
    if size != out.size * out.itemsize:
        return damage.SIZE
    mask = low_bits(8 * out.itemsize)
    for i in range(len(out)):
        out[i] = np.int64(load_u64(buffer, np.uint64(i * out.itemsize)) & mask)
    return damage.NONE


@compiled
def _read_constant(base: np.uint64, out: Out, size: int) -> int:
    if size:
        return damage.SIZE
    out[:] = np.int64(base)
    return damage.INT32 if len(out) and np.int64(out[0]) != np.int64(base) else damage.NONE


@compiled
def _read_bits(buffer: U8, width: int, base: np.uint64, out: Out, size: int) -> int:
    if not 1 <= width < 64:
        return damage.WIDTH
    if size != (len(out) * width + 7) // 8:
        return damage.SIZE
    at, step, mask, lost = np.uint64(0), np.uint64(width), low_bits(width), np.int64(0)
    if width <= ANY_BITS:
        for i in range(len(out)):
            value = np.int64(((load_u64(buffer, at >> np.uint64(3)) >> (at & np.uint64(7))) & mask) + base)
            out[i] = value
            lost |= np.int64(out[i]) ^ value
            at += step
    else:
        for i in range(len(out)):
            value = np.int64(get_bits(buffer, at, width) + base)
            out[i] = value
            lost |= np.int64(out[i]) ^ value
            at += step
    return damage.INT32 if lost else damage.NONE


@compiled
def _read_fixed(buffer: U8, width: int, base: np.uint64, out: Out) -> int:
    at, step, mask, lost = np.uint64(0), np.uint64(width), low_bits(8 * width), np.int64(0)
    for i in range(len(out)):
        value = np.int64((load_u64(buffer, at) & mask) + base)
        out[i] = value
        lost |= np.int64(out[i]) ^ value
        at += step
    return damage.INT32 if lost else damage.NONE


@compiled
def _read_delta(buffer: U8, width: int, base: np.uint64, out: Out) -> int:
    at, step, mask, lost = np.uint64(0), np.uint64(width), low_bits(8 * width), np.int64(0)
    value = base
    for i in range(len(out)):
        value += unzigzag(load_u64(buffer, at) & mask)
        out[i] = np.int64(value)
        lost |= np.int64(out[i]) ^ np.int64(value)
        at += step
    return damage.INT32 if lost else damage.NONE
