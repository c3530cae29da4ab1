"""Numbers as a symbol and the bits that the symbol leaves open: the part zstd can count, and the part nobody can.

Owns the code and its bit stream. Knows nothing of columns.

A number below 8 is its own symbol. Above that the symbol says how many bits the number has and what the two behind
the leading one are; the rest stands in the bit stream. So numbers of one symbol differ by less than a quarter, and
bytes of symbols are compressed to their entropy while the bits lie packed, lowest first, one behind the other.

    bits of v     1-3   4        5        …   64
    symbol        v     8…11     12…15    …   248…251
    bits open     0     1        2        …   61
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

NUM_SYMBOLS: Final = 252
"""Symbols at and above this one are not numbers."""


def _tables() -> tuple[U8, U64]:
    """[256] bits that each symbol leaves open, and the smallest number it stands for."""
    open_bits, smallest = np.zeros(256, np.uint8), np.zeros(256, np.uint64)
    for symbol in range(NUM_SYMBOLS):
        width, two_bits = divmod(max(symbol - 8, 0), 4)
        open_bits[symbol] = width + 1 if symbol >= 8 else 0
        smallest[symbol] = (4 + two_bits) << (width + 1) if symbol >= 8 else symbol
    return open_bits, smallest


OPEN_BITS, SMALLEST = _tables()


@compiled
def symbol_of(value: np.uint64) -> int:
    """The symbol of a number."""
    if value < np.uint64(8):
        return int(value)
    bits = 0
    rest = value
    for step in (32, 16, 8, 4, 2, 1):
        if rest >> np.uint64(step):
            rest >>= np.uint64(step)
            bits += step
    return 8 + 4 * (bits - 3) + int((value >> np.uint64(bits - 2)) & np.uint64(3))


@compiled
def symbols_of(values: U64) -> U8:
    """[V], the symbol of every number."""
    symbols = np.empty(len(values), np.uint8)
    for i in range(len(values)):
        symbols[i] = symbol_of(values[i])
    return symbols


@compiled
def put_bits(words: U64, at: int, value: np.uint64, width: int) -> None:
    """`width` bits of the value, 1 to 64, at bit `at` of words that are zero there."""
    word, shift = at >> 6, at & 63
    words[word] |= value << np.uint64(shift)
    if shift + width > 64:
        words[word + 1] |= value >> np.uint64(64 - shift)


@compiled
def get_bits(words: U64, at: int, width: int) -> np.uint64:
    """The way back from `put_bits`."""
    word, shift = at >> 6, at & 63
    value = words[word] >> np.uint64(shift)
    if shift + width > 64:
        value |= words[word + 1] << np.uint64(64 - shift)
    masked: np.uint64 = value & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - width))
    return masked


@compiled
def put_numbers(words: U64, at: int, values: U64, symbols: U8, open_bits: U8, smallest: U64) -> int:
    """The open bits of every number from bit `at` on; returns the bit behind them."""
    for i in range(len(values)):
        width = int(open_bits[symbols[i]])
        if width:
            put_bits(words, at, values[i] - smallest[symbols[i]], width)
            at += width
    return at


@compiled
def get_numbers(words: U64, at: int, symbols: U8, open_bits: U8, smallest: U64) -> tuple[U64, int]:
    """The numbers of the symbols, whose open bits begin at bit `at`, and the bit behind them. Checks nothing."""
    values = np.empty(len(symbols), np.uint64)
    for i in range(len(symbols)):
        width = int(open_bits[symbols[i]])
        values[i] = smallest[symbols[i]]
        if width:
            values[i] += get_bits(words, at, width)
            at += width
    return values, at


@compiled
def bits_of(symbols: U8, open_bits: U8) -> int:
    """Bits that the symbols leave open together; `open_bits` says how many each does."""
    total = 0
    for symbol in symbols:
        total += open_bits[symbol]
    return total


def words_of(buffer: npt.NDArray[np.uint8]) -> U64:
    """Bytes as 64-bit words, with one word of zeros behind them."""
    words = np.zeros(-(-len(buffer) // 8) + 1, np.uint64)
    words.view(np.uint8)[: len(buffer)] = buffer
    return words


def zigzag(difference: U64) -> U64:
    """Small for differences near zero, of either sign."""
    return (difference << np.uint64(1)) ^ (np.uint64(0) - (difference >> np.uint64(63)))


def unzigzag(number: U64) -> U64:
    """The way back from `zigzag`."""
    return (number >> np.uint64(1)) ^ (np.uint64(0) - (number & np.uint64(1)))
