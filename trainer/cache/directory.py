"""Which rows of the tables are in the hot tier, and which leave when others come: the segmented least recently used.

A row that comes is on probation, and one that is used again is protected; those on probation leave first, and of these
the one that was used longest ago. Most rows that come are never seen again, and would push out better ones: on Zipf
ids this misses a sixth less than the plain order of use.

Owns the order of use, which is that of the steps: the same steps give the same slots, on every run. Moves no row
itself; what has to move is returned (pure).

Shape suffixes: R rows of the arena, C slots, X distinct rows of a step, M of them that are missing, E evicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from streams.errors import ConfigError
from streams.ikjt.kernels import compiled

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Rings = tuple[I32, I32]
"""Slot to the next older one of its ring, and to the next newer."""

PROTECTED: Final = 0.8
"""Of all slots."""


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
        self._start()

    def _start(self) -> None:
        slots = self.num_slots
        self.row_of_slot: I64 = np.full(slots, -1, np.int64)
        # Two rings, each through an end of its own: behind it the most recently used slot, before it the least. All
        # slots are on probation at first.
        self._rings: Rings = (
            np.append(np.arange(1, slots + 1, dtype=np.int32), np.array([0, slots + 1], np.int32)),
            np.append(np.arange(-1, slots, dtype=np.int32), np.int32(slots + 1)),
        )
        self._rings[1][0] = slots
        self._is_protected = np.zeros(slots, np.bool_)
        self._step_of_slot: I64 = np.zeros(slots, np.int64)
        self._num_protected = self._step = 0

    def admit(self, rows_X: I64) -> Admission:
        """Make all these rows hot. `rows_X`: distinct and ascending. ConfigError if there are more than slots."""
        if len(rows_X) > self.num_slots:
            raise ConfigError(
                f"a step uses {len(rows_X)} distinct rows, but only {self.num_slots} can be in memory at once; raise "
                "train.hot_rows, or lower train.step_samples"
            )
        self._step += 1
        marks = self._is_protected, self._step_of_slot
        most = int(PROTECTED * self.num_slots)
        slot_X, num_missing, self._num_protected = _touch(
            rows_X, self.slot_of_row, self._rings, marks, self._step, self._num_protected, most
        )
        missing_M, into_M, out_row_M, left = _replace(
            rows_X, slot_X, num_missing, self.slot_of_row, self.row_of_slot, self._rings, marks, self._step
        )
        self._num_protected -= left
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
        self._start()


@compiled
def _touch(
    rows_X: I64, slot_of_row: I32, rings: Rings, marks: tuple[Bools, I64], step: int, num_protected: int, most: int
) -> tuple[I64, int, int]:
    """The slots of rows that are hot, protected from now on; -1 for the others. How many these and the protected are.

    Where too many are protected, the one that was used longest ago goes back on probation, to its new end.
    """
    is_protected, step_of_slot = marks
    probation, protected = len(is_protected), len(is_protected) + 1
    slot_X = np.empty(len(rows_X), np.int64)
    missing = 0
    for x in range(len(rows_X)):
        slot = slot_of_row[rows_X[x]]
        slot_X[x] = slot
        if slot < 0:
            missing += 1
            continue
        step_of_slot[slot] = step
        if not is_protected[slot]:
            is_protected[slot] = True
            num_protected += 1
        _to_front(slot, protected, rings)
        if num_protected > most:
            last = rings[1][protected]
            is_protected[last] = False
            num_protected -= 1
            _to_front(last, probation, rings)
    return slot_X, missing, num_protected


@compiled
def _replace(
    rows_X: I64,
    slot_X: I64,
    missing: int,
    slot_of_row: I32,
    row_of_slot: I64,
    rings: Rings,
    marks: tuple[Bools, I64],
    step: int,
) -> tuple[I64, I64, I64, int]:
    """Give each missing row a slot, on probation; the row that was there, or -1, and how many had been protected.

    Fills `slot_X`. A protected row leaves only where all on probation are of this step: in each ring these are newest.
    """
    is_protected, step_of_slot = marks
    probation, protected = len(row_of_slot), len(row_of_slot) + 1
    come, into, left = np.empty(missing, np.int64), np.empty(missing, np.int64), np.empty(missing, np.int64)
    m = unprotected = 0
    for x in range(len(rows_X)):
        if slot_X[x] >= 0:
            continue
        slot = rings[1][probation]
        if slot == probation or step_of_slot[slot] == step:
            slot = rings[1][protected]
            is_protected[slot] = False
            unprotected += 1
        come[m], into[m], left[m] = rows_X[x], slot, row_of_slot[slot]
        if left[m] >= 0:
            slot_of_row[left[m]] = -1
        row_of_slot[slot] = rows_X[x]
        slot_of_row[rows_X[x]] = slot
        slot_X[x] = slot
        step_of_slot[slot] = step
        _to_front(slot, probation, rings)
        m += 1
    return come, into, left, unprotected


@compiled
def _to_front(slot: int, end: int, rings: Rings) -> None:
    """Make a slot the most recently used one of the ring with this end."""
    older, newer = rings
    before, behind = newer[slot], older[slot]
    older[before], newer[behind] = behind, before
    first = older[end]
    older[end], newer[slot] = slot, end
    older[slot], newer[first] = first, slot
