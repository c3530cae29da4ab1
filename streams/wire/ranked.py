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
from streams.unaligned import ANY_BITS, PADDING, get_bits, load_u64, low_bits
from streams.wire import damage
from streams.wire.dictionaries import count_ids, rank_order, read_dictionary, steps_of
from streams.wire.symbols import (
    NUM_SYMBOLS,
    OPEN_BITS,
    SMALLEST,
    bits_left,
    put_bits,
    symbol_of,
    symbols_of,
)

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
    distinct, kind, counts = count_ids(wide, low, width)
    symbol_of_rank = symbols_of(np.arange(np.count_nonzero(counts > 1), dtype=np.uint64))
    ranks_to_kinds = rank_order(distinct, counts, symbol_of_rank)
    dictionary = distinct[ranks_to_kinds]
    rank_of_kind = np.full(len(distinct), -1, np.int64)
    rank_of_kind[ranks_to_kinds] = np.arange(len(ranks_to_kinds))
    steps = steps_of(dictionary, symbol_of_rank, low)
    step_symbols = symbols_of(steps)
    ranks = rank_of_kind[kind]
    symbols = np.append(symbol_of_rank, np.uint8(ONCE))[ranks]
    opened = np.where(ranks < 0, wide - low, ranks.astype(np.uint64) - SMALLEST[symbols])
    num_bits = int(OPEN_BITS[step_symbols].sum()) + int(_open_bits(width)[symbols].sum())
    words = np.zeros(num_bits // 64 + 2, np.uint64)
    at = put_bits(words, 0, steps - SMALLEST[step_symbols], OPEN_BITS[step_symbols])
    put_bits(words, at, opened, _open_bits(width)[symbols])
    count = np.asarray([len(dictionary)], "<u4").view(np.uint8)
    return np.concatenate([count, symbols, step_symbols, words.view(np.uint8)[: -(-num_bits // 8)]])


def _open_bits(width: int) -> U8:
    """[256], with those of a value that is not in the dictionary."""
    open_bits = OPEN_BITS.copy()
    open_bits[ONCE] = width
    return open_bits


def read_ranked(buffer: U8, count: int, low: np.uint64, width: int, out: I64) -> int:
    """Fills `out` [V]; returns what is wrong, or 0. The buffer is padded.

    Memory of its own stays below 11 bytes a value.
    """
    size = len(buffer) - PADDING
    num_ids = int.from_bytes(buffer[:_COUNT_BYTES].tobytes(), "little") if size >= _COUNT_BYTES else count + 1
    start = _COUNT_BYTES + count + num_ids
    if not 1 <= width <= 64:
        return damage.WIDTH
    if num_ids > count or start > size:
        return damage.DICTIONARY
    symbols, steps = buffer[_COUNT_BYTES : _COUNT_BYTES + count], buffer[_COUNT_BYTES + count : start]
    last, open_bits = int(symbol_of(np.uint64(max(num_ids, 1) - 1))), bits_left(steps)
    highest = int(symbols.max(initial=0))
    if highest > ONCE or open_bits < 0:
        return damage.SYMBOL
    highest = int(symbols.max(initial=0, where=symbols != ONCE))
    if highest > last or (not num_ids and bool((symbols != ONCE).any())):
        return damage.RANK
    if 8 * (size - start) < open_bits:
        return damage.OPEN_BITS
    ids = np.zeros(int(SMALLEST[last]) + (1 << int(OPEN_BITS[last])), np.uint64)
    at = read_dictionary(buffer, np.uint64(8 * start), steps, low, SMALLEST, ids)
    return _read_values(buffer, np.uint64(at), symbols, ids, low, width, out, num_ids)


@compiled
def _read_values(
    buffer: U8, at: np.uint64, symbols: U8, ids: U64, low: np.uint64, width: int, out: I64, num_ids: int
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
    worst_rank = np.uint64(0)
    for block in range(0, len(symbols), _BLOCK):
        if at > np.uint64(8 * size):
            return damage.OPEN_BITS
        some, target = symbols[block : block + _BLOCK], out[block : block + _BLOCK]
        for i in range(len(some)):
            symbol = some[i]
            word = load_u64(buffer, at >> np.uint64(3)) >> (at & np.uint64(7))
            if long:  # of the whole column
                word = get_bits(buffer, at, 64)
            found = word & masks[symbol]
            at += open_bits[symbol]
            once, rank = symbol == ONCE, smallest[symbol] + found
            rank = np.uint64(0) if once else rank
            worst_rank = max(worst_rank, rank)
            known = ids[rank]
            target[i] = np.int64(low + found if once else known)
    if (at + np.uint64(7)) >> np.uint64(3) != np.uint64(size):
        return damage.OPEN_BITS
    if num_ids and worst_rank >= np.uint64(num_ids):
        return damage.RANK
    return damage.NONE
