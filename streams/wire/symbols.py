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
from streams.wire.unaligned import get_bits

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
def symbol_of(value: np.uint64) -> np.int64:
    """The symbol of a number."""
    if value < np.uint64(8):
        return np.int64(value)
    bits = 0
    rest = value
    for step in (32, 16, 8, 4, 2, 1):
        if rest >> np.uint64(step):
            rest >>= np.uint64(step)
            bits += step
    return np.int64(8 + 4 * (bits - 3)) + np.int64((value >> np.uint64(bits - 2)) & np.uint64(3))


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
def put_numbers(words: U64, at: int, values: U64, symbols: U8, open_bits: U8, smallest: U64) -> int:
    """The open bits of every number from bit `at` on; returns the bit behind them."""
    for i in range(len(values)):
        width = int(open_bits[symbols[i]])
        if width:
            put_bits(words, at, values[i] - smallest[symbols[i]], width)
            at += width
    return at


@compiled
def get_number(buffer: U8, at: np.uint64, symbol: int) -> np.uint64:
    """The number of a symbol whose open bits begin at bit `at` of a padded buffer. Checks nothing."""
    if symbol < 8:
        return np.uint64(symbol)
    number: np.uint64 = SMALLEST[symbol] + get_bits(buffer, at, int(OPEN_BITS[symbol]))
    return number


@compiled
def bits_of(symbols: U8, open_bits: U8) -> int:
    """Bits that the symbols leave open together; `open_bits` says how many each does."""
    total = 0
    for symbol in symbols:
        total += open_bits[symbol]
    return total


def zigzag(difference: U64) -> U64:
    """Small for differences near zero, of either sign."""
    return (difference << np.uint64(1)) ^ (np.uint64(0) - (difference >> np.uint64(63)))


@compiled
def unzigzag(number: np.uint64) -> np.uint64:
    """The way back from `zigzag`, of one number."""
    return (number >> np.uint64(1)) ^ (np.uint64(0) - (number & np.uint64(1)))
