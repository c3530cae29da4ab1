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

import msgspec
import numpy as np
import xxhash

from streams.errors import PoisonError, Reason
from streams.events.columns import Verdicts
from streams.events.diagnosis import diagnose
from streams.events.event import I64, EventBatch
from streams.events.fields import Fields
from streams.events.interpret import Interpreter
from streams.events.reader import Messages
from streams.events.record import Decoded, Record, Rejected, appended_ms
from streams.events.schema import EventSchema

__all__ = ["MAX_VALUE_BYTES", "Decoded", "EventDecoder", "Record", "Rejected"]

MAX_VALUE_BYTES: Final = 1 << 20
"""Largest message that is decoded, unless configured: one event is a few kilobytes."""
LAST_MS: Final = 7_258_118_400_000
"""The year 2200: later times are a wrong unit, whatever any clock says."""


class EventDecoder:
    """Decodes the polls of one schema. Holds no state between polls."""

    def __init__(self, schema: EventSchema, *, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        self._roles = schema.roles
        self._max_value_bytes = max_value_bytes
        self._fields = Fields.of(schema)
        self._interpreter = Interpreter(schema, self._fields)

    def decode(self, records: Sequence[Record], *, now_ms: int | None = None) -> Decoded:
        """What became of consecutive records, one or more, of one partition.

        With `now_ms`, accepted events without the header of their append that lie later than
        `now_ms + max_future_ms` are listed as `future`; the verdict on them is the caller's.
        """
        if not records:
            raise ValueError("decode needs at least one record: without any there is no next offset")
        verdicts = Verdicts()
        appended = _appended(records)
        positions, values = self._readable(records, verdicts)
        messages = self._parse(positions, values, verdicts)
        offset = np.array([record.offset for record in records], dtype=np.int64)
        read = messages.positions
        events = self._interpreter.events(messages, offset[read], appended[read], verdicts)
        erased = np.array([i for i, record in enumerate(records) if record.value is None], dtype=np.int64)
        if len(erased):
            tombs = self._interpreter.tombstones(records, erased, offset[erased], appended[erased], verdicts)
            order = np.argsort(np.concatenate([read, erased]), kind="stable")
            events, read = EventBatch.concat([events, tombs]).take(order), np.concatenate([read, erased])[order]
        self._check_times(events, read, verdicts)
        return self._settle(records, events, read, verdicts, now_ms)

    def _readable(self, records: Sequence[Record], verdicts: Verdicts) -> tuple[list[int], list[bytes]]:
        """Positions and values of the records that have a value of an acceptable size."""
        limit = self._max_value_bytes
        values = [record.value for record in records if record.value is not None]
        if len(values) == len(records) and max(map(len, values)) <= limit:
            return list(range(len(values))), values
        sized = [(i, record.value) for i, record in enumerate(records) if record.value is not None]
        for i, value in sized:
            if len(value) > limit:
                verdicts.reject(
                    i, PoisonError(Reason.TOO_LARGE, f"the message has {len(value)} bytes of at most {limit}")
                )
        kept = [pair for pair in sized if pair[0] not in verdicts.found] if verdicts.found else sized
        return [i for i, _ in kept], [value for _, value in kept]

    def _parse(self, positions: list[int], values: list[bytes], verdicts: Verdicts) -> Messages:
        try:
            parsed = self._fields.parse(values)
        except (msgspec.DecodeError, RecursionError):
            parsed, good = [], []
            for i, value in enumerate(values):
                try:
                    parsed += self._fields.parse([value])
                    good.append(i)
                except (msgspec.DecodeError, RecursionError) as error:
                    verdicts.reject(positions[i], diagnose(value, error))
            positions, values = [positions[i] for i in good], [values[i] for i in good]
        content = np.fromiter(map(xxhash.xxh3_64_intdigest, values), dtype=np.uint64, count=len(values))
        return Messages(parsed=parsed, positions=np.array(positions, dtype=np.int64), content_hash=content)

    def _check_times(self, events: EventBatch, positions: I64, verdicts: Verdicts) -> None:
        """Refuse times that no event can have: a wrong unit, most often."""
        time, roles = events.event_time_ms, self._roles
        known = events.appended_ms >= 0
        latest = np.where(known, events.appended_ms, 0) + roles.max_future_ms

        def told(i: int) -> str:
            read_as = f"read as {roles.time_unit} it is {time[i]} ms since 1970"
            return f"field {roles.time}: {read_as}; is event.time_unit right?"

        for i in np.flatnonzero((time < roles.earliest_ms) | (known & (time > latest))).tolist():
            early = time[i] < roles.earliest_ms
            reason = Reason.TIME_OUT_OF_RANGE if early or time[i] > LAST_MS else Reason.FUTURE_TIME
            verdicts.reject(int(positions[i]), PoisonError(reason, told(i)))

    def _settle(
        self, records: Sequence[Record], events: EventBatch, positions: I64, verdicts: Verdicts, now_ms: int | None
    ) -> Decoded:
        """Leave out what was rejected, and put the verdicts beside their records."""
        found = verdicts.found
        if found:
            events = events.take(np.flatnonzero(~np.isin(positions, list(found))))
        future = np.empty(0, dtype=np.int64)
        if now_ms is not None:
            ahead = events.event_time_ms > now_ms + self._roles.max_future_ms
            future = events.offset[(events.appended_ms < 0) & ahead]
        rejected = [
            Rejected(
                partition=records[i].partition,
                offset=records[i].offset,
                reason=found[i].reason,
                detail=found[i].detail,
                record=records[i],
            )
            for i in sorted(found)
        ]
        return Decoded(events=events, rejected=rejected, next_offset=records[-1].offset + 1, future=future)


def _appended(records: Sequence[Record]) -> I64:
    """[N], from the headers; a producer stamps many records with the same few bytes."""
    if not any(map(attrgetter("headers"), records)):
        return np.full(len(records), -1, dtype=np.int64)
    headers = [tuple(record.headers or ()) for record in records]
    known = {each: appended_ms(each) for each in set(headers)}
    return np.fromiter(map(known.__getitem__, headers), dtype=np.int64, count=len(headers))
