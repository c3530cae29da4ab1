"""Which rows of the tables are in the hot tier, and which leave when others come: the least recently used.

Owns the order of use, which is that of the steps: the same steps give the same slots, on every run. Moves no row
itself; what has to move is returned (pure).

Shape suffixes: R rows of the arena, C slots, X distinct rows of a step, M of them that are missing, E evicted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.errors import ConfigError
from streams.ikjt.kernels import compiled

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """What one step needs done before its lookup: first the evicted rows go home, then the missing ones come."""

    slot_X: I64
    """Slot of each distinct row."""
    missing_M: I64
    """Rows that come, ascending, into the slots `into_M`."""
    into_M: I64
    evicted_E: I64
    """Rows that leave the slots `out_of_E`, which are among `into_M`."""
    out_of_E: I64


class Directory:
    """The slots of the hot tier."""

    def __init__(self, num_rows: int, num_slots: int) -> None:
        self.num_slots = num_slots
        self.slot_of_row: I32 = np.full(num_rows, -1, np.int32)
        self.row_of_slot: I64 = np.full(num_slots, -1, np.int64)
        # A ring through all slots and one more, the end: behind it the most recently used one, before it the least.
        self._older: I32 = np.append(np.arange(1, num_slots + 1, dtype=np.int32), np.int32(0))
        self._newer: I32 = np.append(np.int32(num_slots), np.arange(num_slots, dtype=np.int32))

    def admit(self, rows_X: I64) -> Admission:
        """Make all these rows hot. `rows_X`: distinct and ascending. ConfigError if there are more than slots."""
        if len(rows_X) > self.num_slots:
            raise ConfigError(
                f"a step uses {len(rows_X)} distinct rows, but only {self.num_slots} can be in memory at once; raise "
                "train.hot_rows, or lower train.step_samples"
            )
        slot_X, num_missing = _touch(rows_X, self.slot_of_row, self._older, self._newer)
        missing_M, into_M, out_row_M = _replace(
            rows_X, slot_X, num_missing, self.slot_of_row, self.row_of_slot, (self._older, self._newer)
        )
        taken = out_row_M >= 0
        return Admission(slot_X, missing_M, into_M, out_row_M[taken], into_M[taken])

    def missing(self, rows_X: I64) -> I64:
        """Those of the rows that are not hot, in their order; moves nothing."""
        return rows_X[self.slot_of_row[rows_X] < 0]

    def resident(self) -> tuple[I64, I64]:
        """Rows that are hot, and their slots."""
        slots = np.flatnonzero(self.row_of_slot >= 0)
        return self.row_of_slot[slots], slots

    def forget(self) -> None:
        """Nothing is hot any more."""
        self.slot_of_row[self.row_of_slot[self.row_of_slot >= 0]] = -1
        self.row_of_slot[:] = -1


@compiled
def _touch(rows_X: I64, slot_of_row: I32, older: I32, newer: I32) -> tuple[I64, int]:
    """The slots of rows that are hot, each now the most recently used; -1 for the others, and how many these are."""
    slot_X = np.empty(len(rows_X), np.int64)
    missing = 0
    for x in range(len(rows_X)):
        slot = slot_of_row[rows_X[x]]
        slot_X[x] = slot
        if slot < 0:
            missing += 1
        else:
            _to_front(slot, older, newer)
    return slot_X, missing


@compiled
def _replace(
    rows_X: I64, slot_X: I64, missing: int, slot_of_row: I32, row_of_slot: I64, ring: tuple[I32, I32]
) -> tuple[I64, I64, I64]:
    """Give each missing row the slot that was used longest ago; the row that was there, or -1. Fills `slot_X`."""
    older, newer = ring
    end = len(row_of_slot)
    come, into, left = np.empty(missing, np.int64), np.empty(missing, np.int64), np.empty(missing, np.int64)
    m = 0
    for x in range(len(rows_X)):
        if slot_X[x] >= 0:
            continue
        slot = newer[end]
        come[m], into[m], left[m] = rows_X[x], slot, row_of_slot[slot]
        if left[m] >= 0:
            slot_of_row[left[m]] = -1
        row_of_slot[slot] = rows_X[x]
        slot_of_row[rows_X[x]] = slot
        slot_X[x] = slot
        _to_front(slot, older, newer)
        m += 1
    return come, into, left


@compiled
def _to_front(slot: int, older: I32, newer: I32) -> None:
    """Make a slot the most recently used one."""
    end = len(older) - 1
    before, behind = newer[slot], older[slot]
    older[before], newer[behind] = behind, before
    first = older[end]
    older[end], newer[slot] = slot, end
    older[slot], newer[first] = first, slot
