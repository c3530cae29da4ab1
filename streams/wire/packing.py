"""Integer columns made small before compression, and back.

Owns the encodings and the choice between them. Knows nothing of mini-batches.

All arithmetic is modulo 2^64, so every int64 and uint64 column round-trips. Which encoding wins depends on how zstd
sees the result (bit packing hides repeats from it, bytes do not), so a sample of each candidate is compressed and
the smallest is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import zstandard

from streams.errors import WireError
from streams.ikjt.kernels import compiled
from streams.wire.layout import Encoding, Section

U64 = npt.NDArray[np.uint64]
Array = npt.NDArray[Any]

_SAMPLE_BYTES: Final = 6144
_WORD_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class Packed:
    """A column as it will lie in the body."""

    encoding: Encoding
    width: int
    base: int
    buffer: memoryview

    def __len__(self) -> int:
        return len(self.buffer)


def plain(column: Array) -> Packed:
    """The column as it is, without a copy where it lies in one piece."""
    return Packed(Encoding.PLAIN, 0, 0, _bytes_of(np.ascontiguousarray(column)))


def pack(column: Array, compressor: zstandard.ZstdCompressor, *, rising: bool = False) -> Packed:
    """An integer column in the encoding that this compressor makes smallest.

    Differences are only tried for columns that tend to rise.
    """
    if len(column) == 0:
        return plain(column)
    if int(column.min()) == int(column.max()):
        return Packed(Encoding.CONSTANT, 0, _signed(int(column[0])), memoryview(b""))
    candidates = list(_candidates(column, rising=rising))
    if len(candidates) == 1:
        return candidates[0]
    costs = [_estimated_bytes(packed, len(column), compressor) for packed in candidates]
    return candidates[costs.index(min(costs))]


def unpack(section: Section, buffer: Array) -> Array:
    """The column of a section; a view of `buffer` where it is plain. Raises WireError if the sizes do not agree."""
    if len(buffer) != _buffer_bytes(section):
        raise WireError(f"{section} has {len(buffer)} bytes; {section.count} values need {_buffer_bytes(section)}")
    if section.encoding is Encoding.PLAIN:
        return buffer.view(section.dtype)
    if section.dtype.kind == "f":
        raise WireError(f"{section} holds floats, which are only ever stored plain")
    base = np.uint64(section.base % 2**64)
    if section.encoding is Encoding.CONSTANT:
        wide = np.full(section.count, base, np.uint64)
    elif section.encoding is Encoding.BITS:
        wide = _unpack_bits(_as_words(buffer), section.count, section.width) + base
    elif section.encoding is Encoding.FIXED:
        wide = _widen(buffer, section.width) + base
    else:
        zigzag = _widen(buffer, section.width)
        wide = np.cumsum((zigzag >> np.uint64(1)) ^ (np.uint64(0) - (zigzag & np.uint64(1))), dtype=np.uint64) + base
    return _from_wide(wide, section)


def _candidates(column: Array, *, rising: bool) -> Iterator[Packed]:
    """Every encoding that could be the smallest one."""
    wide = column.astype(np.int64, copy=False).view(np.uint64) if column.dtype.kind == "i" else column
    low = int(column.min())
    spread = int(column.max()) - low
    num_bytes = max(1, -(-spread.bit_length() // 8))
    counted = wide - np.uint64(low % 2**64)
    if num_bytes < column.dtype.itemsize:
        yield Packed(Encoding.FIXED, num_bytes, _signed(low), _narrow(counted, num_bytes))
    else:
        yield plain(column)
    if spread.bit_length() % 8 and spread.bit_length() < _WORD_BITS - 1:
        packed = _pack_bits(counted, spread.bit_length())
        size = -(-len(column) * spread.bit_length() // 8)
        yield Packed(Encoding.BITS, spread.bit_length(), _signed(low), _bytes_of(packed)[:size])
    if not rising:
        return
    difference = np.diff(wide, prepend=wide[:1])
    zigzag = (difference << np.uint64(1)) ^ (np.uint64(0) - (difference >> np.uint64(63)))
    num_bytes = max(1, -(-int(zigzag.max()).bit_length() // 8))
    if num_bytes < column.dtype.itemsize:
        yield Packed(Encoding.DELTA, num_bytes, _signed(int(wide[0])), _narrow(zigzag, num_bytes))


def _estimated_bytes(packed: Packed, count: int, compressor: zstandard.ZstdCompressor) -> float:
    """Compressed size of the column, told from its first values."""
    sample = packed.buffer[:_SAMPLE_BYTES]
    covered = len(sample) / len(packed.buffer) * count
    return len(compressor.compress(sample)) / covered


def _buffer_bytes(section: Section) -> int:
    """Bytes that a section's buffer must have. Raises WireError for a width that does not exist."""
    if section.encoding is Encoding.PLAIN:
        return section.count * section.dtype.itemsize
    if section.encoding is Encoding.CONSTANT:
        return 0
    if section.encoding is Encoding.BITS:
        if not 1 <= section.width < _WORD_BITS:
            raise WireError(f"{section} cannot have {section.width} bits a value")
        return -(-section.count * section.width // 8)
    if not 1 <= section.width <= 8:
        raise WireError(f"{section} cannot have {section.width} bytes a value")
    return section.count * section.width


def _from_wide(wide: U64, section: Section) -> Array:
    """64 bits a value to the section's dtype; refuses what an int32 cannot hold instead of cutting it."""
    if section.dtype.kind == "u":
        return wide
    signed = wide.view(np.int64)
    if section.dtype.itemsize == 8:
        return signed
    narrow = signed.astype(np.int32)
    if not np.array_equal(narrow, signed):
        raise WireError(f"{section} holds values beyond int32")
    return narrow


def _narrow(wide: U64, width: int) -> memoryview:
    """The lowest `width` bytes of every value."""
    if width in (1, 2, 4, 8):
        return _bytes_of(wide.astype(f"<u{width}"))
    return _bytes_of(_take_bytes(wide, width))


def _widen(buffer: Array, width: int) -> U64:
    """The way back from `_narrow`."""
    if width in (1, 2, 4, 8):
        return buffer.view(f"<u{width}").astype(np.uint64)
    return _join_bytes(buffer, width)


def _as_words(buffer: Array) -> U64:
    """Bytes as 64-bit words, padded with zeros."""
    words = np.zeros(-(-len(buffer) // 8), np.uint64)
    words.view(np.uint8)[: len(buffer)] = buffer
    return words


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
def _join_bytes(buffer: npt.NDArray[np.uint8], width: int) -> U64:
    """The way back from `_take_bytes`."""
    wide = np.empty(len(buffer) // width, np.uint64)
    for i in range(len(wide)):
        value = np.uint64(0)
        for k in range(width):
            value |= np.uint64(buffer[i * width + k]) << np.uint64(8 * k)
        wide[i] = value
    return wide


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


@compiled
def _unpack_bits(words: U64, count: int, width: int) -> U64:
    """The way back from `_pack_bits`."""
    values = np.empty(count, np.uint64)
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    for i in range(count):
        bit = i * width
        word, shift = bit // 64, bit % 64
        value = words[word] >> np.uint64(shift)
        if shift + width > 64:
            value |= words[word + 1] << np.uint64(64 - shift)
        values[i] = value & mask
    return values
