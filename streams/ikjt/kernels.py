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

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Words = npt.NDArray[Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_COMPARED: Final = np.uint64(64)
"""Words that are compared without a branch between them, so that the compiler uses vector instructions."""

_BLOCK: Final = np.uint64(32)
"""Words that are hashed together, for the same reason."""

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


def uncounted_inlined(function: _Function) -> _Function:
    """For what `uncounted` kernels call in their innermost loops: it becomes a part of each caller."""
    return cast("_Function", njit(nogil=True, forceinline=True, **_UNCOUNTED)(function))


def inlined(function: _Function) -> _Function:
    """`compiled`, for what becomes a part of its callers: to hand many arrays over costs more than short rows."""
    return cast("_Function", njit(nogil=True, inline="always")(function))


@inlined
def num_slots(num_rows: int) -> int:
    """Size of a hash table: a power of two, at least twice as many."""
    slots = 1
    while slots < 2 * num_rows:
        slots *= 2
    return slots


@compiled
def equal_prefix(words: Words, left: int, right: int, length: int) -> int:
    """How many words are equal, up to `length`, from `left` and from `right` on, before two differ.

    Places are unsigned: a signed one might count from the end, and then no vector instruction reads from it. A block's
    end is computed for the same reason: a loop of a known number of steps becomes a branch a word.
    """
    i, n = np.uint64(left), np.uint64(length)
    stop, shift = i + n, np.uint64(right) - i
    while i < stop:
        end = min(i + _COMPARED, stop)
        difference = words[0] ^ words[0]
        for place in range(i, end):
            difference |= words[place] ^ words[place + shift]
        if difference != 0:
            break
        i = end
    while i < stop and words[i] == words[i + shift]:
        i += np.uint64(1)
    return int(np.int64(i) - left)


@inlined
def equal_words(words: Words, left: int, right: int, length: int) -> bool:
    """Whether the rows of this length that begin at `left` and `right` are equal."""
    return bool(equal_prefix(words, left, right, length) == length)


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


@inlined
def same_row(words: Words, offsets: I64, r: int, other: int) -> bool:
    """Whether two rows are equal."""
    length = offsets[r + 1] - offsets[r]
    return bool(
        length == offsets[other + 1] - offsets[other] and equal_words(words, offsets[r], offsets[other], length)
    )


@inlined
def repeated_rows(words: Words, start: int, length: int, most: int) -> int:
    """How many of the `most` rows behind the one at `start`, all of its length, are equal to it before one is not.

    They lie end to end, so each word is compared with the one a row before it: one loop for a whole session's rows.
    """
    return most if length == 0 else equal_prefix(words, start + length, start, most * length) // length


@inlined
def end_of_run(words: Words, offsets: I64, r: int, alike: int) -> int:
    """First row behind r, before `alike`, that is not equal to it; the rows from r to `alike` have one length."""
    start, length = offsets[r], offsets[r + 1] - offsets[r]
    return int(r + 1 + repeated_rows(words, start, length, alike - r - 1))


@compiled
def distinct_rows(words: Words, offsets: I64, hash_mask: np.uint64) -> tuple[I64, I32]:
    """First row of each kind [U], and the kind of each row [R], numbered by first appearance.

    Repeats are mostly neighbours: the rows behind one that are equal to it are found in one loop. A row that differs
    from its neighbour is compared with the kind before that one, since a stray row mostly stands between equal ones.
    Only a row that differs from both is hashed, looked up by linear probing in a table at most half full, and then
    compared in full: two rows share a kind only if every word is equal, whatever the hash says. `hash_mask` removes
    bits of the hash, for tests.
    """
    num_rows = len(offsets) - 1
    table, hashes = np.full(num_slots(num_rows), -1, np.int32), np.empty(num_rows, np.uint64)
    first, kind = np.empty(num_rows, np.int64), np.empty(num_rows, np.int32)
    found, r, alike, latest, older = 0, 0, 0, -1, -1
    while r < num_rows:
        again = older if older >= 0 and same_row(words, offsets, r, first[older]) else -1
        if again < 0:
            hashed = hash_words(words, offsets[r], offsets[r + 1] - offsets[r]) & hash_mask
            slot = np.int64(hashed & np.uint64(len(table) - 1))
            while table[slot] >= 0:
                again = table[slot]
                if hashes[again] == hashed and same_row(words, offsets, r, first[again]):
                    break
                slot, again = (slot + 1) & (len(table) - 1), -1
            if again < 0:
                again, table[slot], hashes[found], first[found] = found, found, hashed, r
                found += 1
        latest, older = again, latest
        while alike <= r or (alike < num_rows and offsets[alike + 1] - offsets[alike] == offsets[r + 1] - offsets[r]):
            alike += 1
        after = end_of_run(words, offsets, r, alike)
        kind[r:after] = latest
        r = after
    return first[:found].copy(), kind


@compiled
def refined_rows(words: Words, offsets: I64, coarse: I32, num_coarse: int, hash_mask: np.uint64) -> tuple[I64, I32]:
    """The same where rows are of one kind only if their numbers in `coarse` [R], below `num_coarse`, are equal too.

    A row that differs from its neighbour is compared with the latest kind of its number: features of a group mostly
    change together, and then that is the only one.
    """
    num_rows = len(coarse)
    table, hashes = np.full(num_slots(num_rows), -1, np.int32), np.empty(num_rows, np.uint64)
    first, kind = np.empty(num_rows, np.int64), np.empty(num_rows, np.int32)
    latest = np.full(num_coarse, -1, np.int32)
    found, r, alike = 0, 0, 0
    while r < num_rows:
        number = coarse[r]
        again = latest[number]
        if again >= 0 and not same_row(words, offsets, r, first[again]):
            again = -1
        if again < 0:
            salt = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
            hashed = (hash_words(words, offsets[r], offsets[r + 1] - offsets[r]) ^ salt) & hash_mask
            slot = np.int64(hashed & np.uint64(len(table) - 1))
            while table[slot] >= 0:
                again = table[slot]
                alike_so_far = hashes[again] == hashed and coarse[first[again]] == number
                if alike_so_far and same_row(words, offsets, r, first[again]):
                    break
                slot, again = (slot + 1) & (len(table) - 1), -1
            if again < 0:
                again, table[slot], hashes[found], first[found] = found, found, hashed, r
                found += 1
            latest[number] = again
        length = offsets[r + 1] - offsets[r]
        while alike <= r or (
            alike < num_rows and coarse[alike] == number and offsets[alike + 1] - offsets[alike] == length
        ):
            alike += 1
        after = end_of_run(words, offsets, r, alike)
        kind[r:after] = again
        r = after
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
def take_rows(words: Words, offsets: I64, rows: I64) -> tuple[Words, I64]:
    """The words of the chosen rows, one row after the other, and their offsets; negative rows count from the end.

    Raises IndexError for a row that is not there and ValueError for one that is not within the words. One call for all
    of it: after a cache miss each costs microseconds.
    """
    num_rows = len(offsets) - 1
    out_offsets = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        row = rows[i] + num_rows if rows[i] < 0 else rows[i]
        if row < 0 or row >= num_rows:
            raise IndexError("a chosen row is not there")
        if offsets[row] < 0 or offsets[row + 1] < offsets[row] or offsets[row + 1] > len(words):
            raise ValueError("offsets do not fit the values; validate() says which")
        out_offsets[i + 1] = out_offsets[i] + offsets[row + 1] - offsets[row]
    out = np.empty(out_offsets[-1], words.dtype)
    for i in range(len(rows)):
        row = rows[i] + num_rows if rows[i] < 0 else rows[i]
        start, target = np.uint64(offsets[row]), np.uint64(out_offsets[i])
        for k in range(np.uint64(out_offsets[i + 1]) - target):
            out[target + k] = words[start + k]
    return out, out_offsets


@compiled
def are_offsets(offsets: I64, num_words: int) -> bool:
    """Whether they start at 0, never decrease and end at `num_words`."""
    decreases = False
    for r in range(len(offsets) - 1):
        decreases |= offsets[r + 1] < offsets[r]
    return bool(not decreases and offsets[0] == 0 and offsets[-1] == num_words)


@compiled
def copy_slices(
    values: npt.NDArray[Any], starts: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Row r of the result is `values[starts[r]:]`, as long as `offsets` says. ValueError for one beyond the values."""
    out = np.empty(offsets[-1], values.dtype)
    for r in range(len(starts)):
        length = offsets[r + 1] - offsets[r]
        if length < 0 or (length > 0 and (starts[r] < 0 or starts[r] > len(values) - length)):
            raise ValueError("a slice reaches beyond the values; validate() says which")
        shift = starts[r] - offsets[r]
        for place in range(offsets[r], offsets[r + 1]):
            out[place] = values[place + shift]
    return out
