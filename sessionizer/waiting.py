"""Closed sessions that wait for their labels.

Owns the closings (sessions, or parts of capped ones) between the end of the session and the moment when every sample
in it is ripe: `ready_ms`, the latest of the end of the session and the `ripe_ms` of its samples. A sample is ripe when
nothing can change its labels any more. Never looks at labels or features.

A heap in the order (ready_ms, user, first event) tells who leaves next; entries of a closing that became ready
earlier, or left, stay in it until they come up. The closings of one user are linked in order of time, because the
user's history must be kept as far back as the earliest of them looks.
"""

from __future__ import annotations

from typing import Any, Final

import numba as nb
import numpy as np
import numpy.typing as npt

from sessionizer.growing import grown

NONE: Final = -1
OPEN: Final = -1
"""`slot` of a row whose session is still open."""
LEFT: Final = -2
"""`slot` of a row that is on its way into a batch."""
_SMALLEST: Final = 64

CLOSING = np.dtype(
    [
        ("ready_ms", "i8"),
        ("user", "i8"),
        ("first_ms", "i8"),
        ("first_id", "u8"),
        ("session_id", "u8"),
        ("close_ms", "i8"),  # end of the session, or of the part that a cap cut off
        ("slot", "i4"),  # of the user
        ("head", "i4"),  # first row, linked by `next`
        ("size", "i4"),  # 0: this place of the table is free
        ("cut", "i4"),  # 1: a cap cut it off before its session ended, or sent it off before its labels were known
        ("older", "i4"),  # neighbours among the waiting closings of the user
        ("newer", "i4"),
    ]
)
ENTRY = np.dtype([("ready_ms", "i8"), ("user", "i8"), ("first_ms", "i8"), ("first_id", "u8"), ("place", "i8")])
STATE = np.dtype([("num_entries", "i8"), ("num_free", "i8"), ("num_waiting", "i8"), ("spare", "i8")])


@nb.njit(cache=True, nogil=True, inline="always")
def _before(a: Any, b: Any) -> Any:
    if a.ready_ms != b.ready_ms:
        return a.ready_ms < b.ready_ms
    if a.user != b.user:
        return a.user < b.user
    if a.first_ms != b.first_ms:
        return a.first_ms < b.first_ms
    return a.first_id < b.first_id


@nb.njit(cache=True, nogil=True)
def _swap(heap: Any, i: Any, j: Any) -> None:
    a, b = heap[i], heap[j]
    a.ready_ms, b.ready_ms = b.ready_ms, a.ready_ms
    a.user, b.user = b.user, a.user
    a.first_ms, b.first_ms = b.first_ms, a.first_ms
    a.first_id, b.first_id = b.first_id, a.first_id
    a.place, b.place = b.place, a.place


@nb.njit(cache=True, nogil=True)
def _push(heap: Any, state: Any, closing: Any, place: Any) -> None:
    i = state[0].num_entries
    state[0].num_entries += 1
    entry = heap[i]
    entry.ready_ms, entry.user, entry.place = closing.ready_ms, closing.user, place
    entry.first_ms, entry.first_id = closing.first_ms, closing.first_id
    while i > 0 and _before(heap[i], heap[(i - 1) // 2]):
        _swap(heap, i, (i - 1) // 2)
        i = (i - 1) // 2


@nb.njit(cache=True, nogil=True)
def _pop(heap: Any, state: Any) -> None:
    """Drop heap[0]."""
    n = state[0].num_entries - 1
    state[0].num_entries = n
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


@nb.njit(cache=True, nogil=True)
def wait(room: Any, users: Any, keys: Any, closing: Any) -> None:
    """Take in a closing, and tell its rows where it is."""
    table, free, heap, state = room
    state[0].num_free -= 1
    place = free[state[0].num_free]
    table[place] = closing
    user = users[closing.slot]
    table[place].older, table[place].newer = user.waiting_tail, NONE
    if user.waiting_tail != NONE:
        table[user.waiting_tail].newer = place
    else:
        user.waiting_head = place
    user.waiting_tail = place
    state[0].num_waiting += 1
    r = closing.head
    for _ in range(closing.size):
        keys[r].slot = place
        r = keys[r].next
    _push(heap, state, table[place], place)


@nb.njit(cache=True, nogil=True)
def hasten(room: Any, keys: Any, place: Any) -> None:
    """A sample of a waiting closing has become ripe early: the closing may be ready earlier too."""
    table, _free, heap, state = room
    closing = table[place]
    ready_ms, r = closing.close_ms, closing.head
    for _ in range(closing.size):
        ready_ms = max(ready_ms, keys[r].ripe_ms)
        r = keys[r].next
    if ready_ms < closing.ready_ms:
        closing.ready_ms = ready_ms
        _push(heap, state, closing, place)


@nb.njit(cache=True, nogil=True)
def requeue(room: Any, place: Any) -> None:
    """The first rows of a waiting closing have left: it is another one to the heap."""
    _push(room[2], room[3], room[0][place], place)


@nb.njit(cache=True, nogil=True)
def first_ready(room: Any) -> Any:
    """Place of the closing that is ready first; NONE when none waits. Drops entries that no longer hold."""
    table, _free, heap, state = room
    while state[0].num_entries > 0:
        closing = table[heap[0].place]
        if closing.size > 0 and closing.ready_ms == heap[0].ready_ms and closing.first_id == heap[0].first_id:
            return heap[0].place
        _pop(heap, state)
    return NONE


@nb.njit(cache=True, nogil=True)
def take_out(room: Any, users: Any, place: Any) -> None:
    """Free the place of a waiting closing; its entries in the heap hold no longer."""
    table, free, _heap, state = room
    closing = table[place]
    user = users[closing.slot]
    if closing.older != NONE:
        table[closing.older].newer = closing.newer
    else:
        user.waiting_head = closing.newer
    if closing.newer != NONE:
        table[closing.newer].older = closing.older
    else:
        user.waiting_tail = closing.older
    closing.size = 0
    free[state[0].num_free] = place
    state[0].num_free += 1
    state[0].num_waiting -= 1


class Waiting:
    """The closings of one partition that wait."""

    def __init__(self) -> None:
        self.table = np.zeros(0, CLOSING)
        self.free = np.zeros(0, np.int32)
        self.heap = np.zeros(_SMALLEST, ENTRY)
        self.state = np.zeros(1, STATE)

    @property
    def arrays_of_kernels(self) -> tuple[npt.NDArray[Any], ...]:
        """What the kernels call `room`."""
        return self.table, self.free, self.heap, self.state

    @property
    def num_waiting(self) -> int:
        """Closings in it."""
        return int(self.state[0]["num_waiting"])

    def make_room(self, num_closings: int, num_hastened: int) -> None:
        """Room for so many more closings, and for so many that become ready earlier."""
        missing = num_closings - int(self.state[0]["num_free"])
        if missing > 0:
            old, size = len(self.table), len(self.table) + max(missing, len(self.table), _SMALLEST)
            self.table = grown(self.table, size, self._num_touched)
            fresh = np.arange(size - 1, old - 1, -1, dtype=np.int32)
            names = np.concatenate([self.free[: self.state[0]["num_free"]], fresh])
            self.state[0]["num_free"] = len(names)
            self.free = grown(names, size)
        needed = int(self.state[0]["num_entries"]) + num_closings + num_hastened
        if needed > len(self.heap):
            self._drop_stale()
            needed = int(self.state[0]["num_entries"]) + num_closings + num_hastened
            if 2 * needed > len(self.heap):
                self.heap = grown(self.heap, 2 * needed, int(self.state[0]["num_entries"]))

    @property
    def _num_touched(self) -> int:
        """Places up to the last one that is taken. Places are made for all that could wait, and most stay untouched."""
        places = np.flatnonzero(self.table["size"] > 0)
        return int(places[-1]) + 1 if len(places) else 0

    def _drop_stale(self) -> None:
        places = np.flatnonzero(self.table["size"] > 0)
        live = self.table[places]
        order = np.lexsort((live["first_id"], live["first_ms"], live["user"], live["ready_ms"]))
        entries = np.zeros(len(places), ENTRY)
        for name in ("ready_ms", "user", "first_ms", "first_id"):
            entries[name] = live[name][order]
        entries["place"] = places[order]
        self.heap[: len(entries)] = entries  # What is sorted is a heap.
        self.state[0]["num_entries"] = len(entries)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """State for a cut."""
        return {"table": self.table, "free": self.free[: self.state[0]["num_free"]]}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """State from a cut."""
        self.table, free = arrays["table"].copy(), arrays["free"]
        self.free = grown(free, len(self.table))
        self.state[0]["num_free"] = len(free)
        self.state[0]["num_waiting"] = len(self.table) - len(free)
        self.heap = np.zeros(max(_SMALLEST, 2 * len(self.table)), ENTRY)
        self._drop_stale()
