"""Ids by rank: frequent ones as small numbers, ids that come only once as they are.

Owns the buffer of encoding RANKED. Many columns may share one: ids that several features use are named once.

    u32 D | V symbols of values | D symbols of the dictionary | bits of the dictionary | bits of the values

The dictionary holds the ids that come more than once, the more frequent ones in front, in rank order. Among ranks of
one symbol the order is free, so those ids rise, and each is its difference to the one before it (at the first of a
symbol: to `base`). A value is its rank, or symbol 252 and `width` bits of its difference to `base`.

Shapes: V values, D ids of the dictionary.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled
from streams.wire.symbols import (
    NUM_SYMBOLS,
    OPEN_BITS,
    SMALLEST,
    bits_of,
    get_numbers,
    put_bits,
    put_numbers,
    symbols_of,
    words_of,
)

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

ONCE: Final = NUM_SYMBOLS
"""The symbol of a value that is not in the dictionary."""
_COUNT_BYTES: Final = 4


def pack_ranked(wide: U64, low: np.uint64, width: int) -> U8:
    """The buffer. Every value minus `low` must fit into `width` bits, 1 to 64; the ids, not their bits, are counted."""
    distinct, kind, counts = _count(wide, low, width)
    ranks_to_kinds = _ranked(distinct, counts)
    dictionary = distinct[ranks_to_kinds]
    rank_of_kind = np.full(len(distinct), -1, np.int64)
    rank_of_kind[ranks_to_kinds] = np.arange(len(ranks_to_kinds))
    symbol_of_rank = symbols_of(np.arange(len(dictionary), dtype=np.uint64))
    steps = _steps(dictionary, symbol_of_rank, low)
    step_symbols = symbols_of(steps)
    symbols = np.append(symbol_of_rank, np.uint8(ONCE))[rank_of_kind[kind]]
    num_bits = bits_of(step_symbols, OPEN_BITS) + bits_of(symbols, _open_bits(width))
    words = np.zeros(num_bits // 64 + 2, np.uint64)
    at = put_numbers(words, 0, steps, step_symbols, OPEN_BITS, SMALLEST)
    _put_values(words, at, wide - low, width, rank_of_kind[kind], symbols, OPEN_BITS, SMALLEST)
    count = np.asarray([len(dictionary)], "<u4").view(np.uint8)
    return np.concatenate([count, symbols, step_symbols, words.view(np.uint8)[: -(-num_bits // 8)]])


def unpack_ranked(buffer: U8, count: int, low: np.uint64, width: int) -> U64:
    """[V]. Raises ValueError unless the buffer holds exactly that; memory stays below 2 × 8 bytes a value."""
    if len(buffer) < _COUNT_BYTES + count:
        raise ValueError(f"{count} values need more than {len(buffer)} bytes")
    size = int(buffer[:_COUNT_BYTES].view("<u4")[0])
    if size > count:
        raise ValueError(f"a dictionary of {size} ids for {count} values")
    symbols = buffer[_COUNT_BYTES : _COUNT_BYTES + count]
    step_symbols = buffer[_COUNT_BYTES + count :][:size]
    if len(step_symbols) < size or (size and step_symbols.max() >= NUM_SYMBOLS):
        raise ValueError(f"the dictionary of {size} ids is cut off or holds symbols that do not exist")
    if count and symbols.max() > ONCE:
        raise ValueError(f"symbol {symbols.max()} does not exist")
    num_bits = bits_of(step_symbols, OPEN_BITS) + bits_of(symbols, _open_bits(width))
    bits = buffer[_COUNT_BYTES + count + size :]
    if len(bits) != -(-num_bits // 8):
        raise ValueError(f"{num_bits} bits are open, {len(bits)} bytes are there")
    words = words_of(bits)
    steps, at = get_numbers(words, 0, step_symbols, OPEN_BITS, SMALLEST)
    dictionary = _dictionary(steps, symbols_of(np.arange(size, dtype=np.uint64)), low)
    if not size:
        dictionary = np.zeros(1, np.uint64)  # a rank 0 that nobody may use
    values, ok = _get_values(words, at, symbols, dictionary, low, _open_bits(width), SMALLEST)
    if not ok:
        raise ValueError(f"a value's rank is beyond the dictionary of {size} ids")
    return values


def _open_bits(width: int) -> U8:
    """[256], with those of a value that is not in the dictionary."""
    open_bits = OPEN_BITS.copy()
    open_bits[ONCE] = width
    return open_bits


def _ranked(distinct: U64, counts: I64) -> I64:
    """Kinds that come more than once, in rank order: frequent symbols in front, ids rising within a symbol."""
    repeated = np.flatnonzero(counts > 1)
    repeated = repeated[np.argsort(-counts[repeated], kind="stable")]
    symbols = symbols_of(np.arange(len(repeated), dtype=np.uint64))
    order: I64 = repeated[np.lexsort((distinct[repeated], symbols))]
    return order


def _steps(dictionary: U64, symbols: U8, low: np.uint64) -> U64:
    """[D], the difference of every id to the one before it of the same symbol."""
    before = np.empty_like(dictionary)
    before[1:] = dictionary[:-1]
    before[np.diff(symbols, prepend=np.uint8(255)) != 0] = low
    return dictionary - before


@compiled
def _dictionary(steps: U64, symbols: U8, low: np.uint64) -> U64:
    """The way back from `_steps`."""
    dictionary = np.empty(len(steps), np.uint64)
    for rank in range(len(steps)):
        same = rank > 0 and symbols[rank] == symbols[rank - 1]
        dictionary[rank] = steps[rank] + (dictionary[rank - 1] if same else low)
    return dictionary


@compiled
def _count(values: U64, low: np.uint64, width: int) -> tuple[U64, npt.NDArray[np.int32], I64]:
    """Distinct values by first appearance, which one each value is, and how often each comes.

    The table has a place for every difference to `low` where that is not too many, and is hashed otherwise.
    """
    slots, log = 1024, 10
    while slots < 2 * len(values):
        slots *= 2
        log += 1
    direct = width <= log + 2
    slots = 1 << width if direct else slots
    shift = np.uint64(64 - log)
    table = np.full(slots, -1, np.int32)
    distinct = np.empty(len(values), np.uint64)
    counts = np.zeros(len(values), np.int64)
    kind = np.empty(len(values), np.int32)
    found = 0
    for i in range(len(values)):
        value = values[i]
        if direct:
            slot = np.int64(value - low)
        else:
            hashed = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
            slot = np.int64(hashed >> shift)
            while table[slot] >= 0 and distinct[table[slot]] != value:
                slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = found
            distinct[found] = value
            found += 1
        kind[i] = table[slot]
        counts[table[slot]] += 1
    return distinct[:found].copy(), kind, counts[:found].copy()


@compiled
def _put_values(
    words: U64, at: int, differences: U64, width: int, ranks: I64, symbols: U8, open_bits: U8, smallest: U64
) -> None:
    """The bits of every value: what its rank's symbol leaves open, or the whole difference."""
    for i in range(len(ranks)):
        if ranks[i] < 0:
            put_bits(words, at, differences[i], width)
            at += width
            continue
        open_here = int(open_bits[symbols[i]])
        if open_here:
            put_bits(words, at, np.uint64(ranks[i]) - smallest[symbols[i]], open_here)
            at += open_here


@compiled
def _get_values(
    words: U64, at: int, symbols: U8, dictionary: U64, low: np.uint64, open_bits: U8, smallest: U64
) -> tuple[U64, bool]:
    """The values, and whether every rank was in the dictionary. `dictionary` must not be empty.

    Whether an id is in the dictionary, and how many bits are open, cannot be foretold, so nothing here branches on it.
    """
    values = np.empty(len(symbols), np.uint64)
    size = np.uint64(len(dictionary))
    beyond = False
    for i in range(len(symbols)):
        symbol = symbols[i]
        width = np.uint64(open_bits[symbol])
        word, shift = at >> 6, np.uint64(at & 63)
        found = (words[word] >> shift) | ((words[word + 1] << np.uint64(1)) << (np.uint64(63) - shift))
        found &= ~((np.uint64(0xFFFFFFFFFFFFFFFE)) << (width - np.uint64(1))) if width else np.uint64(0)
        at += int(width)
        once = symbol == ONCE
        rank = smallest[symbol] + found
        outside = rank >= size
        beyond |= outside & (not once)
        known = dictionary[np.uint64(0) if outside else rank]
        values[i] = low + found if once else known
    return values, not beyond
