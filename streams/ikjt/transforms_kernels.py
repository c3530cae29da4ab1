"""Compiled loops of the transforms: one pass over the ids each.

Owns the loops and nothing else: arrays in, arrays out. Knows neither features nor descriptions.

`places` [V + 1] tell how many of the first values stay: value v stays if `places[v + 1]` is above `places[v]`, and
then it stands at `places[v]`. Whatever ends at v, a row or a window, ends at `places[v]` afterwards.

Shape suffixes: V ids, U rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Words = npt.NDArray[Any]


@compiled
def hashed(ids: I64, seed: np.uint64, rows: np.uint64) -> I64:
    """splitmix64 of (id + seed), modulo rows."""
    out = np.empty(len(ids), np.int64)
    shift = seed + np.uint64(0x9E3779B97F4A7C15)
    for v in range(len(ids)):
        x = np.uint64(ids[v]) + shift
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[v] = np.int64((x ^ (x >> np.uint64(31))) % rows)
    return out


@compiled
def remainders(ids: I64, rows: int) -> I64:
    """Remainders that are never negative."""
    out = np.empty(len(ids), np.int64)
    for v in range(len(ids)):
        out[v] = ids[v] % rows
    return out


@compiled
def direct(ids: I64, declared: int) -> I64:
    """Ids in [0, declared) as they are, any other as `declared`."""
    out = np.empty(len(ids), np.int64)
    for v in range(len(ids)):
        out[v] = ids[v] if 0 <= ids[v] < declared else declared
    return out


@compiled
def reached(ids: I64, values: I64, guide: I32, shift: np.uint64) -> I64:
    """How many of the boundaries, an `Ascending`, each id has reached."""
    out = np.empty(len(ids), np.int64)
    for v in range(len(ids)):
        out[v] = _not_above(values, guide, shift, ids[v])
    return out


@compiled
def listed_places(ids: I64, values: I64, guide: I32, shift: np.uint64, keep: bool) -> I64:  # noqa: FBT001  (numba)
    """`places` where ids of the list, an `Ascending`, stay (`keep`), or all others."""
    places = np.empty(len(ids) + 1, np.int64)
    places[0] = 0
    for v in range(len(ids)):
        above = _not_above(values, guide, shift, ids[v])
        there = above > 0 and values[above - 1] == ids[v]
        places[v + 1] = places[v] + (there == keep)
    return places


@compiled
def covered_places(starts: I64, lengths: I64, num_values: int) -> I64:
    """`places` where the values within any window stay."""
    change = np.zeros(num_values + 1, np.int64)
    for u in range(len(starts)):
        change[starts[u]] += 1
        change[starts[u] + lengths[u]] -= 1
    places = np.empty(num_values + 1, np.int64)
    places[0] = 0
    windows = 0
    for v in range(num_values):
        windows += change[v]
        places[v + 1] = places[v] + (windows > 0)
    return places


@compiled
def staying(words: Words, places: I64) -> Words:
    """The values that stay.

    Each is written where it would stand, and the next one that stays is written over one that does not: a branch on
    what nobody can predict would cost more. The last may fall behind the end, where there is room for it.
    """
    out = np.empty(places[-1] + 1, words.dtype)
    for v in range(len(words)):
        out[places[v]] = words[v]
    return out[: places[-1]]


@compiled
def filled(words: Words, offsets: I64, out_offsets: I64, word: Any) -> Words:  # noqa: ANN401  (of the words' type)
    """The rows, one word in place of each that is empty; `out_offsets` are the offsets of the result."""
    out = np.empty(out_offsets[-1], words.dtype)
    for r in range(len(offsets) - 1):
        if offsets[r] == offsets[r + 1]:
            out[out_offsets[r]] = word
        shift = out_offsets[r] - offsets[r]
        for v in range(offsets[r], offsets[r + 1]):
            out[v + shift] = words[v]
    return out


@compiled
def _not_above(values: I64, guide: I32, shift: np.uint64, value: int) -> int:
    """How many integers of an `Ascending` are at most the value."""
    if len(values) == 0 or value < values[0]:
        return 0
    cell = (np.uint64(value) - np.uint64(values[0])) >> shift
    if cell >= np.uint64(len(guide) - 1):
        return len(values)
    low, high = guide[cell], guide[cell + np.uint64(1)]
    while low < high:
        middle = (low + high) // 2
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return int(low)
