"""Integer columns made small before compression.

Owns the choice between the encodings. Knows nothing of mini-batches; the way back is `unpacking`.

All arithmetic is modulo 2^64, so every int64 and uint64 column round-trips. Which encoding wins depends on how zstd
sees the result, so a sample of each candidate is compressed and the smallest is taken. Packed bits hide repeats from
it: what they take is their width. What symbols cost is counted, too: zstd gives them about their entropy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import zstandard

from streams.ikjt.kernels import compiled
from streams.wire.layout import Encoding
from streams.wire.paired import MOST_BITS, pack_paired
from streams.wire.ranked import pack_ranked
from streams.wire.runs import num_runs, pack_floats, pack_runs
from streams.wire.symbols import zigzag

U64 = npt.NDArray[np.uint64]
Array = npt.NDArray[Any]

_SAMPLE_BYTES: Final = 6144
_SAMPLE_VALUES: Final = 2048
_PIECES: Final = 6
"""Of a sample, evenly spread: in time order a column's end is not like its beginning."""
_WORD_BITS: Final = 64
_MIN_VALUES: Final = 256
"""Smaller columns gain nothing from symbols."""
_MAX_SHARED: Final = 1 << 22
"""More ids are not counted together: the table would leave every cache."""
_REPEATS_BYTES: Final = 1.1
"""Bytes a value below which zstd sees whole rows repeat; a symbol a value cannot do better."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A column as it will lie in the body."""

    encoding: Encoding
    width: int
    base: int
    buffer: memoryview

    def __len__(self) -> int:
        return len(self.buffer)


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A column in an encoding that it could have. Nothing is written before somebody asks."""

    encoding: Encoding
    width: int
    base: int
    values: Array
    """What is written of each value: the value, or how far it is from `base` or from the one before."""

    @property
    def packed(self) -> Packed:
        return Packed(self.encoding, self.width, self.base, self._written(self.values))

    def estimated_bytes(self, compressor: zstandard.ZstdCompressor) -> float:
        """Compressed bytes a value, told from a sample; what bits take is known, since zstd sees nothing in them."""
        if self.encoding is Encoding.BITS:
            return self.width / 8
        some = _sample(self.values, _SAMPLE_BYTES // (self.width or self.values.itemsize))
        return len(compressor.compress(self._written(some))) / len(some)

    def _written(self, values: Array) -> memoryview:
        if self.encoding is Encoding.PLAIN:
            return _bytes_of(np.ascontiguousarray(values))
        if self.encoding is Encoding.BITS:
            return _bytes_of(_pack_bits(values, self.width))[: -(-len(values) * self.width // 8)]
        return _narrow(values, self.width)


def plain(column: Array) -> Packed:
    """The column as it is, without a copy where it lies in one piece."""
    return Packed(Encoding.PLAIN, 0, 0, _bytes_of(np.ascontiguousarray(column)))


def pack(column: Array, compressor: zstandard.ZstdCompressor, *, rising: bool = False) -> Packed:
    """An integer column in the encoding that this compressor makes smallest.

    Runs and differences are only tried for columns that tend to rise.
    """
    if len(column) == 0:
        return plain(column)
    low, high = _ends(column)
    if low == high:
        return Packed(Encoding.CONSTANT, 0, _signed(low), memoryview(b""))
    if rising and len(column) >= _MIN_VALUES and 4 * num_runs(column) <= len(column):
        return _packed_runs(column)
    candidates = list(_candidates(column, low, high, rising=rising))
    if len(candidates) == 1:
        return candidates[0].packed
    costs = [candidate.estimated_bytes(compressor) for candidate in candidates]
    return candidates[costs.index(min(costs))].packed


def pack_matrix(matrix: Array, compressor: zstandard.ZstdCompressor) -> Packed:
    """A matrix of float32, column by column where that is smaller."""
    raw = plain(matrix)
    if matrix.size < _MIN_VALUES:
        return raw
    packed = Packed(Encoding.FLOATS, 0, 0, pack_floats(matrix).data)
    some = _sample(np.frombuffer(raw.buffer, np.uint8), _SAMPLE_BYTES)
    alone = len(compressor.compress(some.data)) * len(raw) / len(some)
    return packed if _counted_bytes(packed.buffer) < alone else raw


def pack_together(
    columns: Sequence[Array], compressor: zstandard.ZstdCompressor
) -> tuple[tuple[Array, Packed] | None, list[Packed]]:
    """Columns of ids, which may share one section: that section, if there is one, and every column.

    Left to themselves are short ones, those of 32 bits, and those whose rows zstd sees repeat.
    """
    costs = [_own_bytes(column, compressor) if _may_share(column) else 0.0 for column in columns]
    shares = [cost > _REPEATS_BYTES for cost in costs]
    shared = [column for column, its in zip(columns, shares, strict=True) if its]
    num_values = sum(map(len, shared))
    section = None
    if _MIN_VALUES <= num_values <= _MAX_SHARED:
        ids = np.concatenate(shared)
        packed = _packed_ranked(ids)
        alone = sum(cost * len(column) for column, cost, its in zip(columns, costs, shares, strict=True) if its)
        if _counted_bytes(packed.buffer) < alone:
            section = ids, packed
    nothing = Packed(Encoding.SHARED, 0, 0, memoryview(b""))
    return section, [
        nothing if its and section is not None else pack(column, compressor)
        for column, its in zip(columns, shares, strict=True)
    ]


def _may_share(column: Array) -> bool:
    return column.dtype == np.int64 and len(column) > 0 and int(column.min()) != int(column.max())


def _own_bytes(column: Array, compressor: zstandard.ZstdCompressor) -> float:
    """Compressed bytes a value if the column is packed alone, told from a sample."""
    some = _sample(column, _SAMPLE_VALUES)
    candidates = _candidates(some, *_ends(some), rising=False)
    return min(candidate.estimated_bytes(compressor) for candidate in candidates)


def _packed_ranked(column: Array) -> Packed:
    low, spread = int(column.min()), int(column.max()) - int(column.min())
    width = max(1, spread.bit_length())
    paired = width <= MOST_BITS
    buffer = (pack_paired if paired else pack_ranked)(_widened(column), np.uint64(low % 2**64), width)
    return Packed(Encoding.PAIRED if paired else Encoding.RANKED, width, _signed(low), buffer.data)


def _packed_runs(column: Array) -> Packed:
    wide = _widened(column)
    return Packed(Encoding.RUNS, 0, _signed(int(wide[0])), pack_runs(wide, wide[0]).data)


def _widened(column: Array) -> U64:
    """64 bits a value, modulo 2^64."""
    return column.astype(np.int64, copy=False).view(np.uint64) if column.dtype.kind == "i" else column


def _counted_bytes(buffer: memoryview) -> float:
    """About what zstd makes of bytes without repeats: the entropy of each piece as large as its blocks are."""
    block = 1 << 14
    total = 0.0
    whole = np.frombuffer(buffer, np.uint8)
    for start in range(0, len(whole), block):
        counts = np.bincount(whole[start : start + block])
        counts = counts[counts > 0]
        total += float((counts * np.log2(counts.sum() / counts)).sum()) / 8
    return total


def _ends(column: Array) -> tuple[int, int]:
    """Least and greatest value."""
    return int(column.min()), int(column.max())


def _candidates(column: Array, low: int, high: int, *, rising: bool) -> Iterator[_Candidate]:
    """Every encoding that could be the smallest one, of a column from `low` to `high`."""
    wide = _widened(column)
    spread = high - low
    num_bytes = max(1, -(-spread.bit_length() // 8))
    counted = wide - np.uint64(low % 2**64)
    if num_bytes < column.dtype.itemsize:
        yield _Candidate(Encoding.FIXED, num_bytes, _signed(low), counted)
    else:
        yield _Candidate(Encoding.PLAIN, 0, 0, column)
    if spread.bit_length() % 8 and spread.bit_length() < _WORD_BITS - 1:
        yield _Candidate(Encoding.BITS, spread.bit_length(), _signed(low), counted)
    if not rising:
        return
    steps = np.zeros(len(wide), np.uint64)
    np.subtract(wide[1:], wide[:-1], out=steps[1:])
    steps = zigzag(steps)
    num_bytes = max(1, -(-int(steps.max()).bit_length() // 8))
    if num_bytes < column.dtype.itemsize:
        yield _Candidate(Encoding.DELTA, num_bytes, _signed(int(wide[0])), steps)


def _sample(column: Array, size: int) -> Array:
    """Pieces of a column, about `size` values in all; the column itself where it has no more."""
    if len(column) <= size:
        return column
    piece = size // _PIECES
    starts = [k * (len(column) - piece) // (_PIECES - 1) for k in range(_PIECES)]
    return np.concatenate([column[start : start + piece] for start in starts])


def _narrow(wide: U64, width: int) -> memoryview:
    """The lowest `width` bytes of every value."""
    if width in (1, 2, 4, 8):
        return _bytes_of(wide.astype(f"<u{width}"))
    return _bytes_of(_take_bytes(wide, width))


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _signed(value: int) -> int:
    """The int64 with the same bits."""
    return (value + 2**63) % 2**64 - 2**63


@compiled
def _take_bytes(wide: U64, width: int) -> npt.NDArray[np.uint8]:
    """The lowest `width` bytes of every value, lowest byte first."""
    out = np.empty(len(wide) * width, np.uint8)
    for i in range(len(wide)):
        value = wide[i]
        for k in range(width):
            out[i * width + k] = value & np.uint64(255)
            value >>= np.uint64(8)
    return out


@compiled
def _pack_bits(values: U64, width: int) -> U64:
    """`width` bits of every value, one behind the other, lowest bit first."""
    words = np.zeros((len(values) * width + 63) // 64, np.uint64)
    for i in range(len(values)):
        bit = i * width
        word, shift = bit // 64, bit % 64
        words[word] |= values[i] << np.uint64(shift)
        if shift + width > 64:
            words[word + 1] |= values[i] >> np.uint64(64 - shift)
    return words
