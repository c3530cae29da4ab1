"""Compiled loops over jagged rows: comparing, hashing, numbering and copying them.

Owns the loops and nothing else: arrays in, arrays out. Knows neither features nor groups. Compiled code is kept on
disk, so the first call of the first process on a machine is slow and no other; all of them release the GIL.

A word is one value of a row as bits: int32 or int64. Floats come in as views, so that equal means equal in every bit.

Shape suffixes: R rows, U distinct rows, V words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

I64 = npt.NDArray[np.int64]
Words = npt.NDArray[Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_BLOCK: Final = 32
"""Words that are compared without a branch between them, so that the compiler uses vector instructions."""


def compiled(function: _Function) -> _Function:
    """Numba's njit with the project's settings, keeping the function's type."""
    return cast("_Function", njit(cache=True, nogil=True)(function))


@compiled
def equal_words(left: Words, right: Words) -> bool:
    """Whether two rows of the same length are equal."""
    n = len(left)
    blocks = n // _BLOCK
    for block in range(blocks):
        difference = left[0] ^ left[0]
        start = block * _BLOCK
        for k in range(start, start + _BLOCK):
            difference |= left[k] ^ right[k]
        if difference != 0:
            return False
    difference = 0
    for k in range(blocks * _BLOCK, n):
        difference |= left[k] ^ right[k]
    return bool(difference == 0)


@compiled
def hash_words(row: Words) -> np.uint64:
    """64 bits of a row. Four lanes run side by side, because one multiplication waits for the one before it."""
    n = len(row)
    a = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(n)
    b = np.uint64(0xBF58476D1CE4E5B9)
    c = np.uint64(0x94D049BB133111EB)
    d = np.uint64(0xD6E8FEB86659FD93)
    shift = np.uint64(29)
    for block in range(n // 4):
        k = 4 * block
        a = (a ^ np.uint64(row[k])) * np.uint64(0x9E3779B97F4A7C15)
        b = (b ^ np.uint64(row[k + 1])) * np.uint64(0xBF58476D1CE4E5B9)
        c = (c ^ np.uint64(row[k + 2])) * np.uint64(0x94D049BB133111EB)
        d = (d ^ np.uint64(row[k + 3])) * np.uint64(0xD6E8FEB86659FD93)
        a ^= a >> shift
        b ^= b >> shift
        c ^= c >> shift
        d ^= d >> shift
    for k in range(n - n % 4, n):
        a = (a ^ np.uint64(row[k])) * np.uint64(0x9E3779B97F4A7C15)
        a ^= a >> shift
    a = (a ^ (b * np.uint64(3))) * np.uint64(0xBF58476D1CE4E5B9)
    a ^= a >> np.uint64(31)
    a = (a ^ (c + d * np.uint64(5))) * np.uint64(0x94D049BB133111EB)
    return a ^ (a >> np.uint64(32))


@compiled
def distinct_rows(words: Words, offsets: I64, hash_mask: np.uint64) -> tuple[I64, npt.NDArray[np.int32]]:
    """First row of each kind [U], and the kind of each row [R], numbered by first appearance.

    A row is compared with its neighbour first, since repeats are mostly neighbours. Only a row that differs is
    hashed, looked up by linear probing in a table at most half full, and then compared in full: two rows share a
    number only if every word is equal, whatever the hash says. `hash_mask` removes bits of the hash, for tests.
    """
    num_rows = len(offsets) - 1
    slots = 1
    while slots < 2 * num_rows:
        slots *= 2
    table = np.full(slots, -1, np.int32)
    hashes = np.empty(num_rows, np.uint64)
    first = np.empty(num_rows, np.int64)
    kind = np.empty(num_rows, np.int32)
    found = 0
    before = words[:0]
    for r in range(num_rows):
        row = words[offsets[r] : offsets[r + 1]]
        if r > 0 and len(row) == len(before) and equal_words(row, before):
            kind[r] = kind[r - 1]
            continue
        before = row
        hashed = hash_words(row) & hash_mask
        slot = np.int64(hashed & np.uint64(slots - 1))
        while True:
            u = table[slot]
            if u < 0:
                table[slot] = found
                hashes[found] = hashed
                first[found] = r
                kind[r] = found
                found += 1
                break
            if hashes[u] == hashed:
                other = words[offsets[first[u]] : offsets[first[u] + 1]]
                if len(row) == len(other) and equal_words(row, other):
                    kind[r] = u
                    break
            slot = (slot + 1) & (slots - 1)
    return first[:found].copy(), kind


@compiled
def copy_rows(words: Words, offsets: I64, rows: I64, out_offsets: I64) -> Words:
    """The words of the chosen rows, one row after the other; `out_offsets` are the offsets of the result."""
    out = np.empty(out_offsets[-1], words.dtype)
    for i in range(len(rows)):
        start = offsets[rows[i]]
        target = out_offsets[i]
        for k in range(out_offsets[i + 1] - target):
            out[target + k] = words[start + k]
    return out


@compiled
def copy_slices(
    values: npt.NDArray[Any], starts: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Row r of the result is `values[starts[r]:]`, as long as `offsets` says. Checks nothing."""
    out = np.empty(offsets[-1], values.dtype)
    for r in range(len(starts)):
        shift = starts[r] - offsets[r]
        for place in range(offsets[r], offsets[r + 1]):
            out[place] = values[place + shift]
    return out
