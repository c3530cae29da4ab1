"""Compiled loops over jagged rows: comparing, hashing, numbering and copying them.

Owns the loops and nothing else: arrays in, arrays out. Knows neither features nor groups. Compiled code is kept on
disk, so the first call of the first process on a machine is slow and no other; all of them release the GIL.

A word is one value of a row as bits: int32 or int64. Floats come in as views, so that equal means equal in every bit.

Shape suffixes: R rows, U distinct rows, V words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

I64 = npt.NDArray[np.int64]
Words = npt.NDArray[Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_BLOCK: Final = np.uint64(32)
"""Words that are compared without a branch between them, so that the compiler uses vector instructions."""

_KEYS: Final = np.frombuffer(hashlib.shake_256(b"one key a place").digest(8 * int(_BLOCK)), np.uint64)
"""What tells the places of a block apart. Any numbers do: hashes are never stored."""


_UNCOUNTED: Final[dict[str, Any]] = {"_nrt": False}
"""Numba's own option, which it does not document."""


def compiled(function: _Function) -> _Function:
    """Numba's njit with the project's settings, keeping the function's type."""
    return cast("_Function", njit(cache=True, nogil=True)(function))


def uncounted(function: _Function) -> _Function:
    """`compiled`, for kernels that make no arrays and take many: references to those are not counted while they run."""
    return cast("_Function", njit(cache=True, nogil=True, **_UNCOUNTED)(function))


def inlined(function: _Function) -> _Function:
    """For what `uncounted` kernels call in their innermost loops: it becomes a part of each caller."""
    return cast("_Function", njit(nogil=True, forceinline=True, **_UNCOUNTED)(function))


@compiled
def equal_words(words: Words, left: int, right: int, length: int) -> bool:
    """Whether the rows of this length that begin at `left` and `right` are equal.

    Places are unsigned: a signed one might count from the end, and then no vector instruction reads from it.
    """
    i, j, n = np.uint64(left), np.uint64(right), np.uint64(length)
    for _ in range(n // _BLOCK):
        difference = words[0] ^ words[0]
        for k in range(_BLOCK):
            difference |= words[i + k] ^ words[j + k]
        if difference != 0:
            return False
        i += _BLOCK
        j += _BLOCK
    difference = 0
    for k in range(n % _BLOCK):
        difference |= words[i + k] ^ words[j + k]
    return bool(difference == 0)


@compiled
def hash_words(words: Words, start: int, length: int) -> np.uint64:
    """64 bits of a row: blocks of sums of products, which vector instructions form, mixed one into the next.

    A product is that of a word's two halves, each changed by a key of the word's place.
    """
    i, n = np.uint64(start), np.uint64(length)
    mixed = np.uint64(0x9E3779B97F4A7C15) ^ n
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(n // _BLOCK):
        total = np.uint64(0)
        for k in range(_BLOCK):
            word = np.uint64(words[i + k]) ^ _KEYS[k]
            total += (word & low) * (word >> half)
        mixed = (mixed ^ total) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
        i += _BLOCK
    total = np.uint64(0)
    for k in range(n % _BLOCK):
        word = np.uint64(words[i + k]) ^ _KEYS[k]
        total += (word & low) * (word >> half)
    mixed = (mixed ^ total) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(32))


@compiled
def distinct_rows(words: Words, offsets: I64, hash_mask: np.uint64) -> tuple[I64, npt.NDArray[np.int32]]:
    """First row of each kind [U], and the kind of each row [R], numbered by first appearance.

    A row is compared with its neighbour first, since repeats are mostly neighbours, and with the last row that was
    unlike that one, since a stray row mostly stands between equal ones. Only a row that differs from both is
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
    start, length, older, older_length, older_kind = 0, -1, 0, -1, 0
    for r in range(num_rows):
        before, length_before = start, length
        start = offsets[r]
        length = offsets[r + 1] - start
        if length == length_before and equal_words(words, start, before, length):
            kind[r] = kind[r - 1]
            continue
        again = length == older_length and equal_words(words, start, older, length)
        kind[r] = older_kind
        older, older_length, older_kind = before, length_before, kind[r - 1]
        if again:
            continue
        hashed = hash_words(words, start, length) & hash_mask
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
                other = offsets[first[u]]
                if length == offsets[first[u] + 1] - other and equal_words(words, start, other, length):
                    kind[r] = u
                    break
            slot = (slot + 1) & (slots - 1)
    return first[:found].copy(), kind


@compiled
def numbered_rows(inverse: npt.NDArray[np.int32]) -> int:
    """How many rows an inverse uses if it numbers them by first appearance from 0; -1 if it does not."""
    seen = 0
    for row in inverse:
        if row < 0 or row > seen:
            return -1
        if row == seen:
            seen += 1
    return seen


@compiled
def copy_rows(words: Words, offsets: I64, rows: I64, out_offsets: I64) -> Words:
    """The words of the chosen rows, one row after the other; `out_offsets` are the offsets of the result."""
    out = np.empty(out_offsets[-1], words.dtype)
    for i in range(len(rows)):
        start, target = np.uint64(offsets[rows[i]]), np.uint64(out_offsets[i])
        for k in range(np.uint64(out_offsets[i + 1]) - target):
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
