"""Outcomes to the impressions they belong to.

Owns which impression an outcome meets and what it then says about the labels. Sees impressions and outcomes of one
partition in event-time order, so nothing depends on which came first. Never decides when a sample leaves.

The rules, for an outcome with time o and its impression with time t:
1. It counts if t - early_ms <= o < t + window_ms. It acts when event time has passed o + early_ms: then every
   impression that it may belong to has been seen, one of the same millisecond included.
2. What outcomes say is combined in order of (time, event id), label by label (`label_rules`).
3. An impression is ripe at t + window_ms + early_ms. Under `wait-positive` it is ripe already once every label is
   positive for good: right after the outcome that settled it.
   Under `correct` it leaves without waiting, and what comes later may correct it (`corrections`).
4. joined: it met a sample that still waited, or one that may be corrected. settled: the sample had left because
   nothing could change it. missed: the window was over, or a cap had sent the sample off. orphan: no such impression
   within twice the window.
"""

from __future__ import annotations

from typing import Any, Final

import numba as nb
import numpy as np
import numpy.typing as npt

from sessionizer.config import JoinConfig
from sessionizer.corrections import REMEMBERED, combined, hear
from sessionizer.hash_table import MIN_SIZE, Table, probe, rebuild
from sessionizer.waiting import LEFT, hasten
from streams.events.label_rules import combine_codes, settled_at
from streams.events.schema import EventKind, Label

IMPRESSION: Final = int(EventKind.IMPRESSION)
OUTCOME: Final = int(EventKind.OUTCOME)
GONE: Final = -1
"""`row` of an impression that left before its window was over."""
SETTLED: Final = -2
"""`row` of an impression that left because nothing could change it."""
DELAY_BUCKETS: Final = 48
ERASED: Final = -3
"""`row` of an impression whose user was erased."""
KNOWN = np.dtype([("key", "u8"), ("time", "i8"), ("user", "i8"), ("item", "i8"), ("row", "i4"), ("used", "i4")])
COUNTS = np.dtype([("joined", "i8"), ("settled", "i8"), ("missed", "i8"), ("orphans", "i8"), ("num_known", "i8")])


@nb.njit(cache=True, nogil=True)
def expect(known: Any, counts: Any, keys: Any, items: Any, r: Any) -> None:
    """An impression from whose time on outcomes may come; the latest of one key takes them."""
    at = probe(known, keys[r].impression)
    counts[0].num_known += 1 - known[at].used
    known[at].key, known[at].used, known[at].row = keys[r].impression, 1, r
    known[at].time, known[at].user, known[at].item = keys[r].time, keys[r].user, items[r]


@nb.njit(cache=True, nogil=True)
def leave(known: Any, keys: Any, r: Any, times_out_ms: Any) -> None:
    """A sample is on its way into a batch: no outcome can reach it any more."""
    keys[r].slot = LEFT
    if keys[r].kind == IMPRESSION:
        at = probe(known, keys[r].impression)
        if known[at].used and known[at].row == r:
            known[at].row = SETTLED if keys[r].ripe_ms < times_out_ms else GONE


@nb.njit(cache=True, nogil=True)
def meet(joining: Any, keys: Any, labels_RT: Any, o: Any, room: Any, memory: Any) -> Any:
    """Apply outcome row `o`; returns the item it is about as its impression knows it, and whether one was found."""
    known, counts, delays, (codes_T, settled_at_T), (window_ms, early_ms, hurry, corrects) = joining
    at = probe(known, keys[o].impression)
    delay_ms = keys[o].time - known[at].time
    if not known[at].used or not -early_ms <= delay_ms < 2 * window_ms or known[at].row == ERASED:
        counts[0].orphans += 1
        return np.int64(0), False
    delays[_bucket(delay_ms)] += 1
    r = known[at].row
    if delay_ms >= window_ms or r == GONE:
        counts[0].missed += 1
    elif r == SETTLED:
        counts[0].settled += 1
    else:
        counts[0].joined += 1
        if corrects:
            hear(memory, keys, r, labels_RT[o], codes_T, keys[o].time + early_ms + 1)
        if keys[r].slot != REMEMBERED:
            _combine(labels_RT[r], labels_RT[o], codes_T)
        ripe_ms = keys[o].time + early_ms + 1
        if hurry and ripe_ms < keys[r].ripe_ms and _is_settled(labels_RT[r], settled_at_T):
            keys[r].ripe_ms = ripe_ms
            if keys[r].slot >= 0:
                hasten(room, keys, keys[r].slot)
    return known[at].item, True


@nb.njit(cache=True, nogil=True)
def _bucket(delay_ms: Any) -> Any:
    """0 for a delay below 1 ms, else 1 + floor(log2)."""
    bucket = 0
    while delay_ms > 0 and bucket < DELAY_BUCKETS - 1:
        delay_ms >>= 1
        bucket += 1
    return bucket


@nb.njit(cache=True, nogil=True)
def _combine(sample_T: Any, outcome_T: Any, codes_T: Any) -> None:
    for k in range(len(codes_T)):
        sample_T[k] = combined(sample_T[k], outcome_T[k], codes_T[k])


@nb.njit(cache=True, nogil=True)
def _is_settled(sample_T: Any, settled_at_T: Any) -> Any:
    settled = True
    for k in range(len(settled_at_T)):
        settled = settled and sample_T[k] >= settled_at_T[k]
    return settled


class Joins:
    """What is known of the impressions of one partition."""

    def __init__(self, config: JoinConfig, labels: tuple[Label, ...]) -> None:
        self._config = config
        self._codes_T = combine_codes(labels)
        self._settled_at_T = settled_at(labels)
        self._known: Table = np.zeros(MIN_SIZE, KNOWN)
        self._counts = np.zeros(1, COUNTS)
        self.delays = np.zeros(DELAY_BUCKETS, np.int64)
        """Outcomes by how long after their impression they happened: below 1 ms, below 2, 4, 8 and so on."""

    @property
    def arrays_of_kernels(self) -> tuple[Any, ...]:
        """What the kernels call `joining`."""
        config = self._config
        limits = (config.window_ms, config.early_ms, config.policy == "wait-positive", config.policy == "correct")
        return self._known, self._counts, self.delays, (self._codes_T, self._settled_at_T), limits

    @property
    def counts(self) -> dict[str, int]:
        """Outcomes that were joined, settled, missed and orphans."""
        return {name: int(self._counts[0][name]) for name in ("joined", "settled", "missed", "orphans")}

    def make_room(self, n: int, passed_ms: int) -> None:
        """Room for n more impressions; those that no outcome from `passed_ms` on can belong to are forgotten."""
        num_known = int(self._counts[0]["num_known"])
        if 2 * (num_known + n) > len(self._known):
            horizon_ms = 2 * self._config.window_ms + self._config.early_ms
            keep = (self._known["used"] == 1) & (self._known["time"] + horizon_ms >= passed_ms)
            self._known = rebuild(self._known, keep, room_for=max(n, int(np.count_nonzero(keep))))
            self._counts[0]["num_known"] = np.count_nonzero(keep)

    def end_epoch(self) -> None:
        """Times begin anew: no outcome of the next epoch belongs to an impression of this one."""
        self._known = np.zeros(MIN_SIZE, KNOWN)
        self._counts[0]["num_known"] = 0

    def erase(self, users: npt.NDArray[np.int64]) -> None:
        """Forget the impressions of these users."""
        theirs = (self._known["used"] == 1) & np.isin(self._known["user"], users)
        self._known["row"][theirs], self._known["item"][theirs] = ERASED, 0

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """State for a cut."""
        return {"known": self._known[self._known["used"] == 1], "counts": self._counts, "delays": self.delays}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """State from a cut."""
        known = arrays["known"]
        self._known = rebuild(known, np.ones(len(known), np.bool_), room_for=len(known))
        self._counts, self.delays = arrays["counts"].copy(), arrays["delays"].copy()
