"""Backlog: decoded polls of one input that have still to be fed.

Owns what was decoded but waits, because a clock mark has to act first or the other input is behind; how far there can
be nothing more; and when this input was last heard of. Never feeds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from sessionizer.marks import Seen
from streams.errors import Reason
from streams.events.event import EventBatch
from streams.events.record import Decoded, Record, Records, Rejected
from streams.inputs import Input


class Decoder(Protocol):
    """What turns records into events; `streams.events.decode.EventDecoder` in production."""

    def decode(self, records: Records, *, now_ms: int | None = None) -> Decoded:
        """Events, rejected records, and those that lie in the future by the wall clock `now_ms`."""


class Backlog:
    """Polls of one input, in order."""

    def __init__(self, source: Input, decoder: Decoder, next_offset: int, now_ms: int) -> None:
        self.source = source
        self.record_ms = self.append_ms = now_ms
        """When a record came last, and when it was appended."""
        self.marked_ms = now_ms
        """When its silence was last decided upon."""
        self._decoder = decoder
        self._next_offset = next_offset
        self._polls: deque[Decoded] = deque()
        self._unjudged: deque[Decoded] = deque()

    def put(self, records: Records, now_ms: int, next_offset: int) -> None:
        """Take in the records of one poll; those that were taken before are ignored.

        `next_offset`: no record comes after them that is before it.
        """
        if len(records) and records[0].offset < self._next_offset:
            records = records[sum(message.offset < self._next_offset for message in records) :]
        if len(records):
            self.record_ms = now_ms
            decoded = self._decoder.decode(records, now_ms=now_ms)
            appended_ms = int(decoded.events.appended_ms[-1]) if len(decoded.events) else -1
            self.append_ms = appended_ms if appended_ms >= 0 else now_ms
            self._next_offset = decoded.next_offset
            self._polls.append(decoded)
            self._unjudged.append(decoded)
        self._next_offset = max(self._next_offset, next_offset)

    @property
    def head(self) -> Decoded | None:
        """The first poll that has not been fed wholly."""
        return self._polls[0] if self._polls else None

    @property
    def limit(self) -> int:
        """How far may be fed now: to the end of the first poll, without one past all that nobody can read."""
        return self._polls[0].next_offset if self._polls else self._next_offset

    @property
    def num_records(self) -> int:
        """More or less, of those that wait."""
        return sum(len(poll.events) + len(poll.rejected) for poll in self._polls)

    def drop_head(self) -> None:
        """It has been fed."""
        done = self._polls.popleft()
        if self._unjudged and self._unjudged[0] is done:
            self._unjudged.popleft()

    def judge(self) -> Decoded | None:
        """The head, once, if nothing has been decided about its future records."""
        mine = self._polls and self._unjudged and self._unjudged[0] is self._polls[0]
        return self._unjudged.popleft() if mine else None

    def seen(self, max_time_ms: int) -> Seen:
        """What an idle mark goes by."""
        return Seen(max_time_ms, self.append_ms)


def between(events: EventBatch, start: int, stop: int) -> EventBatch:
    """The events with start <= offset < stop."""
    low, high = np.searchsorted(events.offset, (start, stop))
    return events if low == 0 and high == len(events) else events.take(np.arange(low, high, dtype=np.int64))


def without_future(
    events: EventBatch, future: Mapping[int, int], origin: Callable[[int, int], Record]
) -> tuple[EventBatch, list[Rejected]]:
    """The events without those that marks found in the future, and these as rejected records.

    `future`: offset of a record to the event time from which on its events lie in the future. `origin`: the record of
    an event, by its offset and event id.
    """
    marked = np.isin(events.offset, list(future))
    from_ms = [future[offset] for offset in events.offset[marked].tolist()]
    marked[marked] = events.event_time_ms[marked] >= np.array(from_ms, np.int64)
    if not marked.any():
        return events, []
    found = events.take(np.flatnonzero(marked))
    places = zip(found.offset.tolist(), found.event_id.tolist(), found.event_time_ms.tolist(), strict=True)
    rejected = []
    for offset, event_id, time_ms in places:
        record = origin(offset, event_id)
        detail = f"its time {time_ms} lay in the future when it was read, and it does not say when it was appended"
        rejected.append(
            Rejected(partition=record.partition, offset=offset, reason=Reason.FUTURE_TIME, detail=detail, record=record)
        )
    return events.take(np.flatnonzero(~marked)), rejected
