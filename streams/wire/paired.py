"""Ids by rank, two of them in a byte: what decodes fast and is nearly as small as ids can be.

Owns the buffer of encoding PAIRED. Many columns may share one: ids that several features use are named once.

    u32 D | ⌈V / 2⌉ pairs of classes | D symbols of the dictionary | bits of the dictionary | bits of the values

The dictionary holds the ids that come more than once, the more frequent ones in front, in rank order. A rank's class
is about how many bits it has, so there are 15 of them at most; class 15 is a value that is not in the dictionary, and
leaves `width` bits of its difference to `base` open. Zstd has one byte to count for two values, and those of a class
are nearly equally frequent. Among ranks of one class the order is free, so those ids rise, and each is its difference
to the one before it (at the first of a class: to `base`).

An odd number of values is filled up with the last one once more. The bits of two values always fit into one load,
which is why `width` is 28 at most; wider ids are `ranked`.
Shapes: V values, D ids of the dictionary.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled
from streams.unaligned import PADDING, load_u64
from streams.wire import damage
from streams.wire.dictionaries import count_ids, rank_order, read_dictionary, steps_of
from streams.wire.symbols import OPEN_BITS, SMALLEST, bits_left, put_bits, symbols_of

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

MOST_BITS: Final = 28
"""Of a value: those of two fit into what one load has, wherever in a byte they begin."""
ONCE: Final = 15
"""The class of a value that is not in the dictionary."""
_COUNT_BYTES: Final = 4
_NO_ID: Final = np.uint32(1 << 31)
_BLOCK: Final = np.uint64(64)
"""Pairs whose bits, 56 at most, fit into the padding behind a body."""


def pack_paired(wide: U64, low: np.uint64, width: int) -> U8:
    """The buffer. Every value minus `low` must fit into `width` bits, 1 to 28."""
    distinct, kind, counts = count_ids(wide, low, width)
    repeated = int(np.count_nonzero(counts > 1))
    firsts, widths = _classes(repeated, width)
    class_of_rank = np.searchsorted(firsts[:ONCE], np.arange(repeated, dtype=np.uint64), side="right").astype(np.uint8)
    class_of_rank -= np.uint8(1)
    kinds = rank_order(distinct, counts, class_of_rank)
    dictionary = distinct[kinds]
    rank_of_kind = np.full(len(distinct), -1, np.int64)
    rank_of_kind[kinds] = np.arange(repeated)
    ranks = rank_of_kind[kind]
    if len(wide) % 2:
        wide, ranks = np.append(wide, wide[-1]), np.append(ranks, ranks[-1])
    classes = np.append(class_of_rank, np.uint8(ONCE))[ranks]
    steps = steps_of(dictionary, class_of_rank, low)
    step_symbols = symbols_of(steps)
    opened = np.where(ranks < 0, wide - low, ranks.astype(np.uint64) - firsts[classes])
    num_bits = int(OPEN_BITS[step_symbols].sum()) + int(widths[classes].sum())
    words = np.zeros(num_bits // 64 + 2, np.uint64)
    at = put_bits(words, 0, steps - SMALLEST[step_symbols], OPEN_BITS[step_symbols])
    put_bits(words, at, opened, widths[classes].astype(np.uint8))
    pairs = classes[0::2] | (classes[1::2] << np.uint8(4))
    count = np.asarray([repeated], "<u4").view(np.uint8)
    return np.concatenate([count, pairs, step_symbols, words.view(np.uint8)[: -(-num_bits // 8)]])


def _classes(num_ids: int, width: int) -> tuple[U64, U64]:
    """[16] the first rank of each class, and the bits that it leaves open.

    Class 0 has 2^s ranks, class c the 2^(s + c - 1) from there on; s is the least with which all have a class.
    """
    shift = max(0, (num_ids - 1).bit_length() - ONCE + 1)
    firsts = [0, *(1 << (shift + c) for c in range(ONCE - 1)), 0]
    widths = [shift, *(shift + c for c in range(ONCE - 1)), width]
    return np.asarray(firsts, np.uint64), np.asarray(widths, np.uint64)


def read_paired(buffer: U8, count: int, low: np.uint64, width: int, out: I64) -> int:
    """Fills `out` [V] and, where V is odd, one place behind it; returns what is wrong, or 0. The buffer is padded.

    Memory of its own stays below 17 bytes a value.
    """
    size, num_pairs = len(buffer) - PADDING, (count + 1) // 2
    num_ids = int.from_bytes(buffer[:_COUNT_BYTES].tobytes(), "little") if size >= _COUNT_BYTES else count + 1
    start = _COUNT_BYTES + num_pairs + num_ids
    if not 1 <= width <= MOST_BITS:
        return damage.WIDTH
    if num_ids > count or start > size:
        return damage.DICTIONARY
    pairs, steps = buffer[_COUNT_BYTES : start - num_ids], buffer[start - num_ids : start]
    open_bits = bits_left(steps)
    if open_bits < 0:
        return damage.SYMBOL
    if 8 * (size - start) < open_bits:
        return damage.OPEN_BITS
    firsts, widths = _classes(num_ids, width)
    wide = np.empty(num_ids, np.uint64)
    read_dictionary(buffer, np.uint64(8 * start), steps, np.uint64(0), firsts, wide)
    ids = _placed(wide, firsts, widths)
    at, seen = _read_pairs(buffer, np.uint64(8 * start + open_bits), pairs, ids, firsts, widths, low, out)
    if -(-int(at) // 8) != size:
        return damage.OPEN_BITS
    return damage.RANK if seen >= _NO_ID else damage.NONE


def _placed(wide: U64, firsts: U64, widths: U64) -> npt.NDArray[np.uint32]:
    """[places] the id of rank r at place r + 1, and 0 at place 0, where values that have no rank look.

    `firsts` become places. Whatever a class can name has one; where no id is, or one of too many bits, lies `_NO_ID`.
    """
    used = firsts < len(wide)
    used[ONCE] = True
    end = 1 << (len(wide) - 1).bit_length() if len(wide) else 0
    firsts[~used], widths[~used] = end, 0
    firsts += np.uint64(1)
    ids = np.full(end + 2, _NO_ID)
    ids[0] = 0
    ids[1 : len(wide) + 1] = np.minimum(wide, _NO_ID)
    return ids


@compiled
def _read_pairs(
    buffer: U8,
    at: np.uint64,
    pairs: U8,
    ids: npt.NDArray[np.uint32],
    places: U64,
    widths: U64,
    low: np.uint64,
    out: I64,
) -> tuple[np.uint64, np.uint64]:
    """Fills `out`, two values a pair; returns the bit behind them, and all ids that were looked up as one.

    Whether an id is in the dictionary, and how many bits are open, cannot be foretold, so nothing here branches on it.
    That there are as many bits is looked at once a block: the padding holds what one block may read beyond the end.
    """
    num_bits, num_pairs = np.uint64(8 * (len(buffer) - PADDING)), np.uint64(len(pairs))
    one, once, none, seen = np.uint64(1), np.uint64(ONCE), np.uint64(0), np.uint64(0)
    for block in range(np.uint64(0), num_pairs, _BLOCK):
        if at > num_bits:
            break
        for j in range(block, min(num_pairs, block + _BLOCK)):
            pair = np.uint64(pairs[j])
            word = load_u64(buffer, at >> np.uint64(3)) >> (at & np.uint64(7))
            left, right = pair & once, pair >> np.uint64(4)
            width, next_width = widths[left], widths[right]
            at += width + next_width
            found, next_found = word & ((one << width) - one), (word >> width) & ((one << next_width) - one)
            place, next_place = places[left] + found, places[right] + next_found
            place, next_place = none if left == once else place, none if right == once else next_place
            known, next_known = np.uint64(ids[place]), np.uint64(ids[next_place])
            seen |= known | next_known
            out[j + j] = np.int64(low + (found if left == once else known))
            out[j + j + one] = np.int64(low + (next_found if right == once else next_known))
    return at, seen
