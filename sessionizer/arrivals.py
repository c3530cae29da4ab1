"""Arrivals: events of one partition in the order they came → accepted events in event-time order.

Owns the watermark, lateness, duplicates by event id, and the queue of events that wait for the watermark. Every
verdict is made event by event, so none depends on where polls begin or end. Never looks at features.

The rules, for each event with time t:
1. watermark = max(latest time seen - lateness, floor). It never goes back within an epoch.
2. An id seen within the duplicate horizon: duplicate. If the first copy still waits, the smaller (time, content
   hash) of the two stays.
3. t < watermark: late. 4. Otherwise accepted. 5. Whatever waits with a time < watermark is released, in order of
   (time, event id). So a released event can never be preceded by one that is still to come.
6. With more than `max_pending_events` waiting, the floor rises past the earliest of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numba as nb
import numpy as np
import numpy.typing as npt

from sessionizer.config import SessionConfig
from sessionizer.hash_table import MIN_SIZE, Table, probe, rebuild

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]

MIN_MS: Final = -(2**62)
"""Before every event time; far enough from the end of int64 that sums do not wrap."""
MAX_MS: Final = 2**62

ACCEPTED, DUPLICATE, REPLACING, LATE = 0, 1, 2, 3
"""Verdicts. REPLACING: a duplicate that took the place of its first copy, which still waited."""

_SEEN = np.dtype([("key", "u8"), ("time", "i8"), ("hash", "u8"), ("row", "i4"), ("used", "i4")])
_WAITING = np.dtype([("time", "i8"), ("id", "u8"), ("row", "i8")])
_CLOCK = np.dtype(
    [
        ("max_ms", "i8"),
        ("floor_ms", "i8"),
        ("num_waiting", "i8"),  # entries of the heap, lost ones included
        ("num_lost", "i8"),  # of these, copies that lost to a smaller one
        ("num_seen", "i8"),
    ]
)


@nb.njit(cache=True, nogil=True, inline="always")
def _watermark(clock: Any, lateness_ms: Any) -> Any:
    return max(clock[0].max_ms - lateness_ms, clock[0].floor_ms)


@nb.njit(cache=True, nogil=True, inline="always")
def _before(a: Any, b: Any) -> Any:
    return a.time < b.time or (a.time == b.time and a.id < b.id)


@nb.njit(cache=True, nogil=True)
def _push(clock: Any, heap: Any, time: Any, key: Any, row: Any) -> None:
    i = clock[0].num_waiting
    clock[0].num_waiting += 1
    heap[i].time, heap[i].id, heap[i].row = time, key, row
    while i > 0 and _before(heap[i], heap[(i - 1) // 2]):
        parent = (i - 1) // 2
        heap[i].time, heap[i].id, heap[i].row = heap[parent].time, heap[parent].id, heap[parent].row
        heap[parent].time, heap[parent].id, heap[parent].row = time, key, row
        i = parent


@nb.njit(cache=True, nogil=True)
def _pop(clock: Any, heap: Any) -> None:
    """Drop heap[0]."""
    n = clock[0].num_waiting - 1
    clock[0].num_waiting = n
    time, key, row = heap[n].time, heap[n].id, heap[n].row
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(heap[child + 1], heap[child]):
            child += 1
        if time < heap[child].time or (time == heap[child].time and key <= heap[child].id):
            break
        heap[i].time, heap[i].id, heap[i].row = heap[child].time, heap[child].id, heap[child].row
        i = child
    heap[i].time, heap[i].id, heap[i].row = time, key, row


@nb.njit(cache=True, nogil=True)
def _release(clock: Any, heap: Any, seen: Any, watermark: Any, released: Any, num_released: Any) -> Any:
    """Move what waits with a time < watermark to `released`; returns how many are there now."""
    while clock[0].num_waiting > 0:
        at = probe(seen, heap[0].id)
        # An entry that lost to a smaller copy stays in the heap until it is on top; only the winner is released.
        lost = seen[at].row != heap[0].row or seen[at].time != heap[0].time
        if lost:
            clock[0].num_lost -= 1
        elif heap[0].time < watermark:
            released[num_released] = heap[0].row
            num_released += 1
            seen[at].row = -1
        else:
            break
        _pop(clock, heap)
    return num_released


@nb.njit(cache=True, nogil=True)
def _unmarked(clock: Any, heap: Any, seen: Any, marked: Any, kept: Any) -> Any:
    """Copy to `kept` the entries that are not dropped; returns how many."""
    num = 0
    for i in range(clock[0].num_waiting):
        at = probe(seen, heap[i].id)
        lost = seen[at].row != heap[i].row or seen[at].time != heap[i].time
        if lost:
            clock[0].num_lost -= 1
        elif marked[heap[i].row]:
            seen[at].row = -1
        else:
            kept[num] = heap[i]
            num += 1
    return num


@nb.njit(cache=True, nogil=True)
def _copy_rows(clock: Any, heap: Any, seen: Any, rows: Any) -> Any:
    """Write down what waits; returns how many there are."""
    num = 0
    for i in range(clock[0].num_waiting):
        at = probe(seen, heap[i].id)
        if seen[at].row == heap[i].row and seen[at].time == heap[i].time:
            rows[num] = heap[i].row
            num += 1
    return num


@nb.njit(cache=True, nogil=True)
def _admit(state: Any, limits: Any, events: Any, out: Any) -> Any:
    clock, heap, seen = state
    lateness_ms, horizon_ms, max_waiting = limits
    times, ids, hashes, rows = events
    verdict, late_by_ms, replaced, released = out
    num_replaced = num_released = 0
    for i in range(len(times)):
        t = times[i]
        watermark = _watermark(clock, lateness_ms)
        at = probe(seen, ids[i])
        known = seen[at].used == 1 and (seen[at].row >= 0 or seen[at].time + horizon_ms >= watermark)
        smaller = t < seen[at].time or (t == seen[at].time and hashes[i] < seen[at].hash)
        if known and not (seen[at].row >= 0 and smaller and t >= watermark):
            verdict[i] = DUPLICATE
        elif not known and t < watermark:
            verdict[i], late_by_ms[i] = LATE, watermark - t
        else:
            verdict[i] = ACCEPTED
            if known:
                verdict[i] = REPLACING
                replaced[num_replaced] = seen[at].row
                num_replaced += 1
                clock[0].num_lost += 1
            clock[0].num_seen += 1 - seen[at].used
            seen[at].key, seen[at].time, seen[at].hash, seen[at].row, seen[at].used = ids[i], t, hashes[i], rows[i], 1
            _push(clock, heap, t, ids[i], rows[i])
        clock[0].max_ms = max(clock[0].max_ms, t)
        num_released = _release(clock, heap, seen, _watermark(clock, lateness_ms), released, num_released)
        if clock[0].num_waiting - clock[0].num_lost > max_waiting:
            clock[0].floor_ms = heap[0].time + 1
            num_released = _release(clock, heap, seen, clock[0].floor_ms, released, num_released)
    return num_replaced, num_released


@dataclass(frozen=True, slots=True, eq=False)
class Admitted:
    """What became of N events, and which rows are now complete in event time."""

    verdict: npt.NDArray[np.int8]
    """[N]."""
    late_by_ms: I64
    """[N], watermark - event time where the verdict is LATE."""
    replaced: I32
    """Rows accepted earlier that lost to a smaller copy: free them."""
    released: I32
    """Rows in order of (event time, event id)."""


class Arrivals:
    """Live state of one partition."""

    def __init__(self, config: SessionConfig) -> None:
        self._config = config
        self._clock = np.array([(MIN_MS, MIN_MS, 0, 0, 0)], _CLOCK)
        self._heap = np.zeros(MIN_SIZE, _WAITING)
        self._seen: Table = np.zeros(MIN_SIZE, _SEEN)

    @property
    def watermark_ms(self) -> int:
        """Event time up to which (exclusive) the partition is complete; MIN_MS before the first event."""
        clock = self._clock[0]
        return max(int(clock["max_ms"]) - self._config.lateness_ms, int(clock["floor_ms"]), MIN_MS)

    @property
    def max_time_ms(self) -> int:
        """Latest event time of this epoch; MIN_MS before the first event."""
        return int(self._clock[0]["max_ms"])

    @property
    def waiting_rows(self) -> I32:
        """Rows that have not been released, in no order."""
        rows = np.empty(int(self._clock[0]["num_waiting"]), np.int32)
        return rows[: _copy_rows(self._clock, self._heap, self._seen, rows)]

    def admit(self, times: I64, ids: U64, hashes: U64, rows: I32) -> Admitted:
        """Judge N events in arrival order; `rows` are the names they keep until they are released."""
        self._make_room(len(times))
        verdict = np.zeros(len(times), np.int8)
        late_by_ms = np.zeros(len(times), np.int64)
        replaced = np.empty(len(times), np.int32)
        released = np.empty(int(self._clock[0]["num_waiting"]) + len(times), np.int32)
        limits = (self._config.lateness_ms, self._config.duplicate_horizon_ms, self._config.max_pending_events)
        num_replaced, num_released = _admit(
            (self._clock, self._heap, self._seen),
            limits,
            (times, ids, hashes, rows),
            (verdict, late_by_ms, replaced, released),
        )
        return Admitted(verdict, late_by_ms, replaced[:num_replaced], released[:num_released])

    def advance(self, to_ms: int) -> I32:
        """Raise the watermark to `to_ms`, if that is an advance; returns the rows released by it."""
        self._clock[0]["floor_ms"] = max(int(self._clock[0]["floor_ms"]), to_ms)
        return self._release_before(self.watermark_ms)

    def end_epoch(self) -> I32:
        """Release everything and forget the watermark. Ids stay known: a second copy is still a duplicate."""
        released = self._release_before(MAX_MS)
        self._clock[0]["max_ms"] = self._clock[0]["floor_ms"] = MIN_MS
        return released

    def erase(self, marked: npt.NDArray[np.bool_]) -> None:
        """Drop the waiting rows that are marked by name. Their ids stay known."""
        kept = np.empty(int(self._clock[0]["num_waiting"]), _WAITING)
        num_kept = _unmarked(self._clock, self._heap, self._seen, marked, kept)
        in_order = np.lexsort((kept["id"][:num_kept], kept["time"][:num_kept]))
        self._heap[:num_kept] = kept[:num_kept][in_order]  # What is sorted is a heap.
        self._clock[0]["num_waiting"] = num_kept

    def _release_before(self, watermark_ms: int) -> I32:
        released = np.empty(int(self._clock[0]["num_waiting"]), np.int32)
        return released[: _release(self._clock, self._heap, self._seen, watermark_ms, released, 0)]

    def _make_room(self, n: int) -> None:
        num_waiting, num_seen = int(self._clock[0]["num_waiting"]), int(self._clock[0]["num_seen"])
        if num_waiting + n > len(self._heap):
            grown = np.zeros(2 * (num_waiting + n), _WAITING)
            grown[:num_waiting] = self._heap[:num_waiting]
            self._heap = grown
        if 2 * (num_seen + n) > len(self._seen):
            fresh = (self._seen["row"] >= 0) | (
                self._seen["time"] + self._config.duplicate_horizon_ms >= self.watermark_ms
            )
            keep = (self._seen["used"] == 1) & fresh
            # Room for twice as many keeps rebuilds rare: each one is paid for by as many arrivals.
            self._seen = rebuild(self._seen, keep, room_for=max(n, int(np.count_nonzero(keep))))
            self._clock[0]["num_seen"] = np.count_nonzero(keep)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """State for a cut."""
        num_waiting = int(self._clock[0]["num_waiting"])
        return {"clock": self._clock, "waiting": self._heap[:num_waiting], "seen": self._seen[self._seen["used"] == 1]}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """State from a cut."""
        seen = arrays["seen"]
        self._clock = arrays["clock"].copy()
        self._heap = np.concatenate([arrays["waiting"], np.zeros(MIN_SIZE, _WAITING)])
        self._seen = rebuild(seen, np.ones(len(seen), np.bool_), room_for=len(seen))
