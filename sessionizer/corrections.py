"""Samples that have left with labels which may still turn, and the corrections that follow (policy `correct`).

Owns which samples are remembered, what has been said of their labels, and when a label turns. Never decides when a
sample leaves, and never builds the copy that corrects it.

The rules:
1. A sample that leaves before its window is over is remembered until event time has passed its window by `early_ms`,
   until a cap forgets it (the one that was shown first goes first), or until its user is erased.
2. An outcome acts on it as it would if it still waited. A label that becomes positive by it has turned: a correction
   is ready right after the outcome's moment, ready_ms = its time + early_ms + 1.
3. Each label turns once. What was positive when the sample left, or has turned, stays so: later outcomes cannot take
   back what was trained. (`any`, and `max`, cannot fall anyway; `last` can, and a `sum` of negative numbers.)

Arguments that travel together as `memory`: heap, book, (forgotten, corrections, turned), (sessions_R, so_far_RT),
(at_least_T, strictly_T).

Shape suffixes: R rows, T labels, C corrections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numba as nb
import numpy as np
import numpy.typing as npt

from sessionizer.arrivals import MAX_MS
from sessionizer.config import JoinConfig
from streams.events.label_rules import Combine, positive_from
from streams.events.schema import Label

NONE: Final = -1
REMEMBERED: Final = -3
"""`slot` of a row that has left and may be corrected."""
FORSAKEN: Final = -4
"""`slot` of one that is remembered but was not emitted: nothing corrects it. Only these two are <= `REMEMBERED`."""
_SUM, _LATEST = int(Combine.SUM), int(Combine.LATEST)
_SMALLEST: Final = 64
NO_OFFSET: Final = 2**63 - 1
_NEVER_MS: Final = MAX_MS + MAX_MS // 2
"""Behind every time that is ever reached, and far from the end of int64."""

ENTRY = np.dtype([("time", "i8"), ("id", "u8"), ("row", "i8")])
BOOK = np.dtype([("num", "i8"), ("num_forgotten", "i8"), ("num_corrections", "i8"), ("num_capped", "i8")])
CORRECTION = np.dtype([("ready_ms", "i8"), ("row", "i8")])


@nb.njit(cache=True, nogil=True, inline="always")
def _before(a: Any, b: Any) -> Any:
    return a.time < b.time or (a.time == b.time and a.id < b.id)


@nb.njit(cache=True, nogil=True)
def _swap(heap: Any, i: Any, j: Any) -> None:
    a, b = heap[i], heap[j]
    a.time, b.time = b.time, a.time
    a.id, b.id = b.id, a.id
    a.row, b.row = b.row, a.row


@nb.njit(cache=True, nogil=True)
def smallest_offset(keys: Any, used: Any) -> Any:
    """Of the rows in use that are not remembered; NO_OFFSET if there is none.

    Asked every second: arrays for it, as long as there are rows, would be too large to be made so often.
    """
    smallest = NO_OFFSET
    for r in range(len(keys)):
        if used[r] and keys[r].slot > REMEMBERED:
            smallest = min(smallest, keys[r].offset)
    return smallest


@nb.njit(cache=True, nogil=True)
def num_remembered(memory: Any) -> Any:
    """Rows that may be corrected."""
    return memory[1][0].num


@nb.njit(cache=True, nogil=True)
def first_ms(memory: Any) -> Any:
    """Event time of the remembered row that was shown first; beyond every time when there is none."""
    return memory[0][0].time if memory[1][0].num > 0 else _NEVER_MS


@nb.njit(cache=True, nogil=True)
def note_capped(memory: Any) -> None:
    """A row was forgotten before its time."""
    memory[1][0].num_capped += 1


@nb.njit(cache=True, nogil=True)
def remember(memory: Any, users: Any, keys: Any, s: Any, r: Any, session_id: Any) -> None:
    """A row of the user in slot `s` leaves and may be corrected. Rows of a user leave in order of time."""
    heap, book, sessions_R = memory[0], memory[1], memory[3][0]
    keys[r].slot, keys[r].later = REMEMBERED, NONE
    sessions_R[r, 0] = session_id
    if users[s].remembered_tail == NONE:
        users[s].remembered_head = r
    else:
        keys[users[s].remembered_tail].later = r
    users[s].remembered_tail = r
    i = book[0].num
    book[0].num += 1
    heap[i].time, heap[i].id, heap[i].row = keys[r].time, keys[r].id, r
    while i > 0 and _before(heap[i], heap[(i - 1) // 2]):
        _swap(heap, i, (i - 1) // 2)
        i = (i - 1) // 2


@nb.njit(cache=True, nogil=True)
def pop_first(memory: Any) -> Any:
    """Take out the row that was shown first."""
    heap, book, forgotten = memory[0], memory[1], memory[2][0]
    r = heap[0].row
    n = book[0].num - 1
    book[0].num = n
    _swap(heap, 0, n)
    i = 0
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and _before(heap[child + 1], heap[child]):
            child += 1
        if not _before(heap[child], heap[i]):
            break
        _swap(heap, i, child)
        i = child
    forgotten[book[0].num_forgotten] = r
    book[0].num_forgotten += 1
    return r


@nb.njit(cache=True, nogil=True)
def combined(before: Any, said: Any, code: Any) -> Any:
    """What has been said of a label after one more outcome (`Combine`)."""
    if np.isnan(said):
        return before
    if np.isnan(before) or code == _LATEST:
        return said
    if code == _SUM:
        return before + said
    return max(before, said)


@nb.njit(cache=True, nogil=True)
def _holds(said: Any, at_least: Any, strictly: Any) -> Any:
    return said > at_least or (said == at_least and not strictly)


@nb.njit(cache=True, nogil=True)
def hear(memory: Any, keys: Any, r: Any, outcome_T: Any, codes_T: Any, ready_ms: Any) -> None:
    """An outcome of row `r`, which is held or remembered; of a remembered one it may turn labels."""
    book, (_forgotten, corrections, turned_CT), so_far_T = memory[1], memory[2], memory[3][1][r]
    at_least_T, strictly_T = memory[4]
    has_left, c = keys[r].slot == REMEMBERED, book[0].num_corrections
    turns = False
    for k in range(len(codes_T)):
        turned_CT[c, k] = False
        if has_left and _holds(so_far_T[k], at_least_T[k], strictly_T[k]):
            continue
        so_far_T[k] = combined(so_far_T[k], outcome_T[k], codes_T[k])
        if has_left and _holds(so_far_T[k], at_least_T[k], strictly_T[k]):
            turned_CT[c, k] = turns = True
    if turns:
        corrections[c].ready_ms, corrections[c].row = ready_ms, r
        book[0].num_corrections += 1


@dataclass(frozen=True, slots=True, eq=False)
class Corrections:
    """What turned in one call: C corrections in the order of (ready_ms, row), one for each pair of these."""

    ready_ms: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    turned: npt.NDArray[np.bool_]
    """[C, T]."""
    session_id: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: npt.NDArray[np.bool_]) -> Corrections:
        """The chosen ones, in order."""
        return Corrections(self.ready_ms[which], self.rows[which], self.turned[which], self.session_id[which])


class Memory:
    """Rows of one partition that have left and may be corrected."""

    def __init__(self, joins: JoinConfig, labels: tuple[Label, ...]) -> None:
        self.corrects = joins.policy == "correct"
        self._times_out_ms = joins.window_ms + joins.early_ms
        self._tests = positive_from(labels)
        self._heap = np.zeros(_SMALLEST, ENTRY)
        self._book = np.zeros(1, BOOK)
        self._forgotten = np.zeros(0, np.int32)
        self._corrections = np.zeros(0, CORRECTION)
        self._turned = np.zeros((0, len(labels)), np.bool_)

    def __len__(self) -> int:
        return int(self._book[0]["num"])

    @property
    def num_capped(self) -> int:
        """Rows that a cap forgot before their time."""
        return int(self._book[0]["num_capped"])

    def arrays_of_kernels(self, sessions: npt.NDArray[np.uint64], so_far: npt.NDArray[np.float32]) -> tuple[Any, ...]:
        """What the kernels call `memory`; of rows, by name, their session and what has been said of their labels."""
        out = (self._forgotten, self._corrections, self._turned)
        return self._heap, self._book, out, (sessions, so_far), self._tests

    def make_room(self, num_samples: int, num_outcomes: int) -> None:
        """Room for a call in which so many samples may leave, and so many outcomes act."""
        if not self.corrects:
            return
        most = len(self) + num_samples
        if most > len(self._heap):
            self._heap = np.concatenate([self._heap[: len(self)], np.zeros(2 * most - len(self), ENTRY)])
        if most > len(self._forgotten):
            self._forgotten = np.empty(2 * most, np.int32)
        if num_outcomes >= len(self._corrections):
            # One more than there can be: each outcome is judged in the place of the next correction.
            self._corrections = np.empty(2 * num_outcomes + 1, CORRECTION)
            self._turned = np.empty((2 * num_outcomes + 1, self._turned.shape[1]), np.bool_)

    def is_provisional(
        self, times_ms: npt.NDArray[np.int64], impressions: npt.NDArray[np.bool_], known_ms: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Of samples shown at these times that left with the labels of `known_ms`: whether these may still turn."""
        return np.asarray(self.corrects & impressions & (times_ms + self._times_out_ms > known_ms))

    def take_forgotten(self) -> npt.NDArray[np.int32]:
        """Rows that were forgotten since the last time."""
        forgotten = self._forgotten[: self._book[0]["num_forgotten"]].copy()
        self._book["num_forgotten"] = 0
        return forgotten

    def take_corrections(self, sessions: npt.NDArray[np.uint64]) -> Corrections:
        """What has turned since the last time."""
        found = self._corrections[: self._book[0]["num_corrections"]]
        turned_CT = self._turned[: len(found)]
        if not len(found):
            return Corrections(_NO_TIMES, _NO_ROWS, turned_CT, _NO_SESSIONS)
        self._book["num_corrections"] = 0
        order = np.lexsort((found["row"], found["ready_ms"]))
        found, turned_CT = found[order], turned_CT[order]
        starts = np.flatnonzero(np.diff(found["row"], prepend=NONE) | np.diff(found["ready_ms"], prepend=-MAX_MS))
        rows = found["row"][starts].astype(np.int32)
        turned_CT = np.logical_or.reduceat(turned_CT, starts, axis=0)
        return Corrections(found["ready_ms"][starts], rows, turned_CT, sessions[rows, 0])

    def erase(self, marked: npt.NDArray[np.bool_]) -> None:
        """Forget the rows that are marked by name."""
        heap = self._heap[: len(self)]
        kept = heap[~marked[heap["row"]]]
        # What is sorted is a heap.
        self._heap[: len(kept)] = kept[np.lexsort((kept["id"], kept["time"]))]
        self._book["num"] = len(kept)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """State for a cut."""
        return {"heap": self._heap[: len(self)], "book": self._book}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """State from a cut."""
        self._heap = np.concatenate([arrays["heap"], np.zeros(_SMALLEST, ENTRY)])
        self._book = arrays["book"].copy()


_NO_TIMES: Final = np.zeros(0, np.int64)
_NO_ROWS: Final = np.zeros(0, np.int32)
_NO_SESSIONS: Final = np.zeros(0, np.uint64)
