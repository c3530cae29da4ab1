"""Ids by rank: frequent ones as small numbers, ids that come only once as they are.

Owns the buffer of encoding RANKED. Many columns may share one: ids that several features use are named once.

    u32 D | V symbols of values | D symbols of the dictionary | bits of the dictionary | bits of the values

The dictionary holds the ids that come more than once, the more frequent ones in front, in rank order. Among ranks of
one symbol the order is free, so those ids rise, and each is its difference to the one before it (at the first of a
symbol: to `base`). A value is its rank, or symbol 252 and `width` bits of its difference to `base`.

Shapes: V values, D ids of the dictionary.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled
from streams.wire import damage
from streams.wire.symbols import (
    NUM_SYMBOLS,
    OPEN_BITS,
    SMALLEST,
    bits_of,
    get_number,
    put_bits,
    put_numbers,
    symbol_of,
    symbols_of,
)
from streams.wire.unaligned import ANY_BITS, PADDING, get_bits, load_u32, load_u64, low_bits

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

ONCE: Final = NUM_SYMBOLS
"""The symbol of a value that is not in the dictionary."""
_COUNT_BYTES: Final = 4
_BLOCK: Final = PADDING // 8 - 2
"""Values whose bits, 64 at most, fit into the padding behind a body."""


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
def read_ranked(buffer: U8, count: int, low: np.uint64, width: int, out: npt.NDArray[Any]) -> int:
    """Fills `out` [V]; returns what is wrong, or 0. The buffer is padded.

    Memory of its own stays below 11 bytes a value.
    """
    size = len(buffer) - PADDING
    num_ids = load_u32(buffer, 0) if size >= _COUNT_BYTES else count + 1
    start = _COUNT_BYTES + count + num_ids
    if not 1 <= width <= 64:
        return damage.WIDTH
    if num_ids > count or start > size:
        return damage.DICTIONARY
    symbols, steps = buffer[_COUNT_BYTES : _COUNT_BYTES + count], buffer[_COUNT_BYTES + count : start]
    highest, last, repeats, exist = np.uint8(0), symbol_of(np.uint64(max(num_ids, 1) - 1)), False, True
    for symbol in steps:
        exist &= symbol < NUM_SYMBOLS
    for symbol in symbols:
        highest = max(highest, np.uint8(0) if symbol == ONCE else symbol)
        repeats |= symbol != ONCE
    if highest > ONCE or not exist:
        return damage.SYMBOL
    if highest > last or (repeats and not num_ids):
        return damage.RANK
    if 8 * (size - start) < bits_of(steps, OPEN_BITS):
        return damage.OPEN_BITS
    ids = np.zeros(SMALLEST[last] + (np.uint64(1) << np.uint64(OPEN_BITS[last])), np.uint64)
    at = _read_dictionary(buffer, np.uint64(8 * start), steps, low, ids)
    return _read_values(buffer, at, symbols, ids, low, width, out, num_ids)


@compiled
def _read_dictionary(buffer: U8, at: np.uint64, steps: U8, low: np.uint64, ids: U64) -> np.uint64:
    """Fills the first D of `ids`; returns the bit behind them. The way back from `_steps`."""
    before, symbol = low, 0
    for rank in range(len(steps)):
        if np.uint64(rank) == SMALLEST[symbol]:
            before = low
            symbol += 1
        before += get_number(buffer, at, steps[rank])
        at += np.uint64(OPEN_BITS[steps[rank]])
        ids[rank] = before
    return at


@compiled
def _read_values(
    buffer: U8, at: np.uint64, symbols: U8, ids: U64, low: np.uint64, width: int, out: npt.NDArray[Any], num_ids: int
) -> int:
    """Fills `out`; returns what is wrong, or 0. Every rank that a symbol allows has a place in `ids`.

    Whether an id is in the dictionary, and how many bits are open, cannot be foretold, so nothing here branches on it.
    That there are as many bits is looked at once a block: the padding holds what one block may read beyond the end.
    """
    open_bits, masks, smallest = np.zeros(256, np.uint64), np.zeros(256, np.uint64), np.zeros(256, np.uint64)
    for symbol in range(ONCE + 1):
        bits = int(width if symbol == ONCE else OPEN_BITS[symbol])
        open_bits[symbol], masks[symbol], smallest[symbol] = np.uint64(bits), low_bits(bits), SMALLEST[symbol]
    size, long = len(buffer) - PADDING, width > ANY_BITS
    worst_rank, lost = np.uint64(0), np.int64(0)
    for block in range(0, len(symbols), _BLOCK):
        if at > np.uint64(8 * size):
            return damage.OPEN_BITS
        some, target = symbols[block : block + _BLOCK], out[block : block + _BLOCK]
        for i in range(len(some)):
            symbol = some[i]
            word = load_u64(buffer, at >> np.uint64(3)) >> (at & np.uint64(7))
            if long:
                word = get_bits(buffer, at, 64)
            found = word & masks[symbol]
            at += open_bits[symbol]
            once = symbol == ONCE
            rank = np.uint64(0) if once else smallest[symbol] + found
            worst_rank = max(worst_rank, rank)
            known = ids[rank]
            value = np.int64(low + found if once else known)
            target[i] = value
            lost |= np.int64(target[i]) ^ value
    if (at + np.uint64(7)) >> np.uint64(3) != np.uint64(size):
        return damage.OPEN_BITS
    if num_ids and worst_rank >= np.uint64(num_ids):
        return damage.RANK
    return damage.INT32 if lost else damage.NONE
