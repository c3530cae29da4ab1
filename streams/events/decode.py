"""Records to events: the bytes of a fetched poll to an EventBatch, and the records that can never be used.

Owns the verdict on every record: it becomes an event or is rejected with a reason, by its own bytes, key,
time and headers alone. How a poll is split changes nothing. Reads no clock: a record that does not say when
it was appended is judged against the caller's `now_ms`, and only reported.

Fields that are not in the schema are ignored. Numbers may come as strings ("12.5"); ids may not: there "42"
is a string (`ids`). Features are read from impressions and labelled events only: an outcome has zeros and
empty rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from streams.errors import PoisonError, Reason
from streams.events.columns import Verdicts
from streams.events.event import I64, EventBatch
from streams.events.formats.json_objects import JsonObjects
from streams.events.interpret import Interpreter
from streams.events.messages import Format
from streams.events.record import Decoded, Record, Records, Rejected, appended_ms
from streams.events.schema import EventSchema

__all__ = ["MAX_VALUE_BYTES", "Decoded", "EventDecoder", "Record", "Rejected"]

MAX_VALUE_BYTES: Final = 1 << 20
"""Largest message of one event that is decoded: one event is a few kilobytes."""
MAX_BULK_BYTES: Final = 8 << 20
"""Largest message of many events that is decoded."""
LAST_MS: Final = 7_258_118_400_000
"""The year 2200: later times are a wrong unit, whatever any clock says."""


class EventDecoder:
    """Decodes the polls of one schema, JSON unless told otherwise. Holds no state between polls but its format's."""

    def __init__(
        self, schema: EventSchema, message_format: Format | None = None, *, max_value_bytes: int | None = None
    ) -> None:
        self._roles = schema.roles
        self._format = message_format or JsonObjects(schema)
        usual = MAX_VALUE_BYTES if self._format.stride == 1 else MAX_BULK_BYTES
        self._max_value_bytes = max_value_bytes or usual
        self._interpreter = Interpreter(schema)

    def decode(self, records: Records, *, now_ms: int | None = None) -> Decoded:
        """What became of consecutive records, one or more, of one partition.

        With `now_ms`, accepted events without the header of their append that lie later than
        `now_ms + max_future_ms` are listed as `future`; the verdict on them is the caller's. RetryableError if a
        schema is not to be had at the moment: nothing is rejected for that.
        """
        if not records:
            raise ValueError("decode needs at least one record: without any there is no next offset")
        verdicts, stride = Verdicts(), self._format.stride
        appended = _appended(records)
        values = [record.value for record in records]
        messages = self._format.parse(*self._readable(values, verdicts), verdicts)
        offset = np.fromiter(map(attrgetter("offset"), records), np.int64, len(records))
        places = messages.places
        origin = places // stride
        events = self._interpreter.events(messages, offset[origin], appended[origin], verdicts)
        if None in values:
            erased = np.array([i for i, value in enumerate(values) if value is None], dtype=np.int64)
            erasing, where = [records[i] for i in erased.tolist()], erased * stride
            tombs = self._interpreter.tombstones(erasing, where, offset[erased], appended[erased], verdicts)
            order = np.argsort(np.concatenate([places, where]), kind="stable")
            events, places = EventBatch.concat([events, tombs]).take(order), np.concatenate([places, where])[order]
        self._check_times(events, places, verdicts)
        return self._settle(records, events, places, verdicts, now_ms)

    def _readable(self, values: list[bytes | None], verdicts: Verdicts) -> tuple[Sequence[int], list[bytes]]:
        """Positions and values of the records that have a value of an acceptable size."""
        limit, stride = self._max_value_bytes, self._format.stride
        there = [value for value in values if value is not None]
        if len(there) == len(values) and max(map(len, there)) <= limit:
            return range(len(there)), there
        positions, kept = [], []
        for i, value in enumerate(values):
            if value is not None and len(value) > limit:
                told = PoisonError(Reason.TOO_LARGE, f"the message has {len(value)} bytes of at most {limit}")
                verdicts.reject(i * stride, told)
            elif value is not None:
                positions.append(i)
                kept.append(value)
        return positions, kept

    def _check_times(self, events: EventBatch, places: I64, verdicts: Verdicts) -> None:
        """Refuse times that no event can have: a wrong unit, most often."""
        time, roles = events.event_time_ms, self._roles
        known = events.appended_ms >= 0
        latest = np.where(known, events.appended_ms, 0) + roles.max_future_ms

        def told(i: int) -> str:
            read_as = f"read as {roles.time_unit} it is {time[i]} ms since 1970"
            return f"field {roles.time}: {read_as}; is {roles.section}.time_unit right?"

        for i in np.flatnonzero((time < roles.earliest_ms) | (known & (time > latest))).tolist():
            early = time[i] < roles.earliest_ms
            reason = Reason.TIME_OUT_OF_RANGE if early or time[i] > LAST_MS else Reason.FUTURE_TIME
            verdicts.reject(int(places[i]), PoisonError(reason, told(i)))

    def _settle(
        self, records: Records, events: EventBatch, places: I64, verdicts: Verdicts, now_ms: int | None
    ) -> Decoded:
        """Leave out what was rejected, and put the verdicts beside their records."""
        found, stride = verdicts.found, self._format.stride
        parsed = set(places.tolist()) if found and stride > 1 else frozenset[int]()
        if found:
            good = np.flatnonzero(~np.isin(places, list(found)))
            events, places = events.take(good), places[good]
        future = np.empty(0, dtype=np.int64)
        if now_ms is not None:
            ahead = events.event_time_ms > now_ms + self._roles.max_future_ms
            future = np.flatnonzero((events.appended_ms < 0) & ahead)

        def of(place: int) -> Record:
            return self._format.letter(records[place // stride], place % stride)

        def origin(offset: int, event_id: int) -> Record:
            return of(int(places[(events.offset == offset) & (events.event_id == event_id)][0]))

        rejected = [
            Rejected(
                partition=records[place // stride].partition,
                offset=records[place // stride].offset,
                reason=found[place].reason,
                detail=f"event {place % stride} of its message: {found[place].detail}"
                if place in parsed
                else found[place].detail,
                # A message of which no event could be told apart is rejected as it came.
                record=of(place) if place in parsed else records[place // stride],
            )
            for place in sorted(found)
        ]
        return Decoded(
            events=events,
            rejected=rejected,
            next_offset=records[-1].offset + 1,
            future=events.offset[future],
            future_ms=events.event_time_ms[future],
            origin=origin,
        )


def _appended(records: Records) -> I64:
    """[N], from the headers; a producer stamps many records with the same few bytes."""
    if not any(map(attrgetter("headers"), records)):
        return np.full(len(records), -1, dtype=np.int64)
    headers = [tuple(record.headers or ()) for record in records]
    known = {each: appended_ms(each) for each in set(headers)}
    return np.fromiter(map(known.__getitem__, headers), dtype=np.int64, count=len(headers))
