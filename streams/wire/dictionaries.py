"""Which ids of a column come more than once, and how a message names those.

Owns the counting, the order of ranks and the differences between ids of one class. How a value names its rank is
`ranked` and `paired`. Trained dictionaries of zstd are another thing, and `dictionary`.

Shapes: V values, U distinct ones, D ids that come more than once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled
from streams.wire.symbols import OPEN_BITS, get_number

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]


def rank_order(distinct: U64, counts: I64, classes: U8) -> I64:
    """[D] ids that come more than once, as places in `distinct`, in rank order.

    `classes` [D] gives the class of each rank: frequent ones are in front, and ids rise within a class.
    """
    repeated = np.flatnonzero(counts > 1)
    repeated = repeated[np.argsort(-counts[repeated], kind="stable")]
    order: I64 = repeated[np.lexsort((distinct[repeated], classes))]
    return order


def steps_of(dictionary: U64, classes: U8, low: np.uint64) -> U64:
    """[D], the difference of every id to the one before it of the same class, or to `low`."""
    before = np.empty_like(dictionary)
    before[1:] = dictionary[:-1]
    before[np.diff(classes, prepend=np.uint8(255)) != 0] = low
    return dictionary - before


@compiled
def count_ids(values: U64, low: np.uint64, width: int) -> tuple[U64, npt.NDArray[np.int32], I64]:
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
def read_dictionary(buffer: U8, at: np.uint64, steps: U8, low: np.uint64, firsts: U64, ids: U64) -> np.uint64:
    """Fills the first D of `ids`; returns the bit behind them. The way back from `steps_of`.

    `firsts` has the first rank of each class, and classes enough. The buffer is padded.
    """
    before, which, one = low, np.uint64(0), np.uint64(1)
    for rank in range(np.uint64(len(steps))):
        if rank == firsts[which]:
            before = low
            which += one
        symbol = steps[rank]
        before += get_number(buffer, at, symbol)
        at += np.uint64(OPEN_BITS[symbol])
        ids[rank] = before
    return at
