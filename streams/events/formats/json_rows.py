"""Lists of integers as rows, each text decoded once while it is remembered.

Owns the memory of lists that were seen: within a session they repeat byte for byte, from poll to poll. A list that is
one of the last ones is found by its first bytes and compared with that one as bytes; then nothing of it is decoded or
copied. What is remembered changes how long decoding takes, never what comes out.

Rows are only ever added, so that columns of many polls share them. After `MEMORY_BYTES` of lists everything is
forgotten and begun anew; their ids take about as much again. Events that are held keep the rows that they use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from streams.events.event import I64
from streams.events.formats.json_tokens import WRONG, Text, past_integer, past_space
from streams.ikjt.jagged import Jagged
from streams.ikjt.kernels import uncounted_inlined
from streams.unaligned import load_u64

MEMORY_BYTES: Final = 8 << 20
"""Text of the lists that one decoder remembers, and those of the poll in which there came to be more."""
EMPTY: Final = 0
"""The row without ids."""
_NUM_SLOTS: Final = 1 << 17
_LOOKED_AT: Final = 32
"""Bytes of a list by which it is looked for."""
_WORD_BYTES: Final = 8
_CLOSE, _COMMA = 93, 44
_ROWS, _VALUES, _BYTES = 0, 1, 2

Room = tuple[I64, I64, Text, I64, npt.NDArray[np.int32], I64]


class KnownRows:
    """Rows of one decoder. Row `EMPTY` is empty."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._begin(2 * memory_bytes)

    def _begin(self, capacity: int) -> None:
        # Memory that nothing is written to is not taken. The shortest list, "[1]", has three bytes; an id has two.
        most_rows = capacity // 3 + 3
        self._values, self._offsets = np.empty(capacity // 2 + 1, np.int64), np.zeros(most_rows, np.int64)
        self._texts, self._starts = np.empty(capacity, np.uint8), np.zeros(most_rows, np.int64)
        self._slots = np.zeros(_NUM_SLOTS, np.int32)
        self._used = np.array([1, 0, 0])
        self.source = object()
        """Another one once everything was forgotten: rows are the same only under the same one."""

    def make_room(self, num_bytes: int) -> Room:
        """What `row_of` needs, with room for the lists of a poll of so many bytes."""
        used_bytes = int(self._used[_BYTES])
        # Most lists of a poll are known, and take none of the room that has to be there for them.
        if used_bytes > self._memory_bytes or used_bytes + num_bytes > len(self._texts):
            self._begin(self._memory_bytes + max(self._memory_bytes, num_bytes))
        return self._values, self._offsets, self._texts, self._starts, self._slots, self._used

    def add(self, ids: Sequence[int], num_bytes: int) -> int:
        """A row of ids that were decoded elsewhere, from so many bytes of the poll that there is room for."""
        if not ids:
            return EMPTY
        row, start, text = self._used.tolist()
        self._values[start : start + len(ids)] = ids
        self._offsets[row + 1] = start + len(ids)
        # Room is counted in bytes: these are taken, though nothing is found by them.
        self._starts[row + 1] = text + num_bytes
        self._used[:] = row + 1, start + len(ids), text + num_bytes
        return int(row)

    @property
    def rows(self) -> Jagged:
        """All rows so far; the memory is that of earlier and later ones."""
        num_rows, num_values, _ = self._used.tolist()
        return Jagged(self._values[:num_values], self._offsets[: num_rows + 1])


@uncounted_inlined
def row_of(text: Text, at: int, room: Room) -> tuple[int, int]:
    """Where the list of integers that opens at `at` ends, and its row; WRONG if it is anything else."""
    values, offsets, texts, starts, slots, used = room
    slot = _slot(text, at, len(slots))
    row = slots[slot]
    length = starts[row + 1] - starts[row]
    if row != EMPTY and at + length <= len(text) and _equal_bytes(text, at, texts, starts[row], length):
        return at + length, row
    row, value, end = used[_ROWS], used[_VALUES], past_space(text, at + 1)
    if text[end] == _CLOSE:
        return end + 1, EMPTY
    while True:
        end, number = past_integer(text, end)
        if end < 0:
            return WRONG, EMPTY
        values[value] = number
        value, end = value + 1, past_space(text, end)
        if text[end] == _CLOSE:
            break
        if text[end] != _COMMA:
            return WRONG, EMPTY
        end = past_space(text, end + 1)
    start, length = used[_BYTES], end + 1 - at
    for k in range(length):
        texts[start + k] = text[at + k]
    starts[row], starts[row + 1], offsets[row + 1] = start, start + length, value
    used[_ROWS], used[_VALUES], used[_BYTES] = row + 1, value, start + length
    slots[slot] = row
    return end + 1, row


@uncounted_inlined
def _slot(text: Text, at: int, num_slots: int) -> int:
    """Where a list is looked for: the last one of those that begin alike is there."""
    mixed = np.uint64(0xCBF29CE484222325)
    for k in range(1, _LOOKED_AT):
        byte = text[at + k]
        mixed = (mixed ^ np.uint64(byte)) * np.uint64(0x100000001B3)
        if byte in (_CLOSE, 0):
            break
    return int((mixed ^ (mixed >> np.uint64(32))) & np.uint64(num_slots - 1))


@uncounted_inlined
def _equal_bytes(left: Text, i: int, right: Text, j: int, length: int) -> bool:
    """Whether two texts are equal: eight bytes at a time, which a compiler does not make of a loop over bytes."""
    last = length - _WORD_BYTES
    if last < 0:
        k = 0
        while k < length and left[i + k] == right[j + k]:
            k += 1
        return k == length
    for k in range(0, last, _WORD_BYTES):
        if load_u64(left, np.uint64(i + k)) != load_u64(right, np.uint64(j + k)):
            return False
    return bool(load_u64(left, np.uint64(i + last)) == load_u64(right, np.uint64(j + last)))
