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
from streams.unaligned import load_u64

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
def put_bits(words: U64, at: int, values: U64, widths: U8) -> int:
    """The lowest `widths[i]` bits of every value, which has no others, from bit `at` on; returns the bit behind them.

    The words are zero there.
    """
    for i in range(len(values)):
        width = int(widths[i])
        if width:
            word, shift = at >> 6, at & 63
            words[word] |= values[i] << np.uint64(shift)
            if shift + width > 64:
                words[word + 1] |= values[i] >> np.uint64(64 - shift)
            at += width
    return at


@compiled
def get_number(buffer: U8, at: np.uint64, symbol: np.uint8) -> np.uint64:
    """The number of a symbol whose open bits begin at bit `at` of a padded buffer. Checks nothing.

    Nothing branches: how many bits are open cannot be foretold. The ninth byte matters to the largest numbers only.
    """
    byte, shift, one = at >> np.uint64(3), at & np.uint64(7), np.uint64(1)
    bits = load_u64(buffer, byte) >> shift
    bits |= (np.uint64(buffer[byte + np.uint64(8)]) << one) << (np.uint64(63) - shift)
    number: np.uint64 = SMALLEST[symbol] + (bits & ((one << np.uint64(OPEN_BITS[symbol])) - one))
    return number


@compiled
def bits_left(symbols: U8) -> int:
    """Bits that the symbols leave open together, or -1 if one of them is no number."""
    total, exist = 0, True
    for symbol in symbols:
        total += OPEN_BITS[symbol]
        exist &= symbol < NUM_SYMBOLS
    return total if exist else -1


def zigzag(difference: U64) -> U64:
    """Small for differences near zero, of either sign."""
    return (difference << np.uint64(1)) ^ (np.uint64(0) - (difference >> np.uint64(63)))


@compiled
def unzigzag(number: np.uint64) -> np.uint64:
    """The way back from `zigzag`, of one number."""
    return (number >> np.uint64(1)) ^ (np.uint64(0) - (number & np.uint64(1)))
