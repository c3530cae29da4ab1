"""A route from opening its clients to the end, a failure, or more partitions of the source.

Owns the round: fetch, address, align, write, commit. What becomes of a record is decided by `streams.routing`; one
whose user cannot be read, and what is too large for the target, goes to the dead-letter topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from confluent_kafka import Message

from streams.errors import PoisonError, Reason
from streams.events.messages import Format
from streams.events.record import Located, Rejected
from streams.kafka.route_config import RouteConfig
from streams.kafka.route_sink import Counts, RouteSink
from streams.kafka.route_source import RouteSource, headers_of
from streams.kafka.route_start import note_of, starts_of
from streams.routing.addresses import WHOLE, Addresses, Piece, Refusal
from streams.routing.alignment import Alignment
from streams.routing.origin import Stamp

_MOST_HELD: Final = 200_000
_MOST_HELD_BYTES: Final = 256 << 20
"""Of records that wait for other partitions, all together; a partition with its share of either pauses."""
_LOOK_EVERY_MS: Final = 30_000
"""How often it is asked whether the source has more partitions now."""


class Clock(Protocol):
    """What routing needs of a clock."""

    def now_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...
    def sleep(self, ms: int) -> None: ...


_Waiting = tuple[Message, Sequence[Piece], Sequence[Refusal]]
"""A record and what becomes of it."""


@dataclass(slots=True)
class _Lane:
    """A partition of the source: what waits there, in its order."""

    stamp: Stamp
    waiting: deque[_Waiting] = field(default_factory=deque)
    bytes: int = 0


class RouteSession:
    """Use once: `begin`, then `run`."""

    def __init__(
        self,
        config: RouteConfig,
        clock: Clock,
        message_format: Format,
        source: RouteSource,
        sink: RouteSink,
        committed: Callable[[Counts, int], None],
    ) -> None:
        """`committed` is told what a transaction held, and how many records are left in the source."""
        self._config, self._clock, self._format = config, clock, message_format
        self._source, self._sink, self._committed = source, sink, committed
        self._addresses = Addresses(config.roles, message_format, config.topics.partitions)
        self._note = ""
        self._positions: dict[int, int] = {}
        """By partition, after the last record that was written."""
        self._open: set[int] = set()
        """Partitions that are not at the end of the run."""
        self._committed_ms = 0

    def begin(self, ends: dict[int, int] | None, *, from_start: bool) -> dict[int, int] | None:
        """Find where to go on; returns the ends of the run, the given ones if there are any.

        ConfigError if there is no source, or if records would be lost.
        """
        config, source = self._config, self._source
        self._note = note_of(config)
        self._positions = starts_of(config, source, self._note, from_start=from_start)
        if config.until_end and ends is None:
            ends = {partition: each.end for partition, each in source.bounds(len(self._positions)).items()}
        # What a partition brings that was not there at the start, is after the end.
        known = self._positions if ends is None else {p: start for p, start in self._positions.items() if p in ends}
        self._lanes = {partition: _Lane(Stamp(config.source, partition)) for partition in known}
        self._alignment = Alignment(known)
        self._open = set(known)
        self._end(source.begin(known, ends))
        return ends

    def run(self, stopped: Callable[[], bool]) -> bool:
        """Route; returns whether the end was reached. False: stopped, or the source has more partitions now."""
        looked_ms = self._committed_ms = self._clock.monotonic_ms()
        bounded = self._config.until_end
        while not stopped() and (self._open or not bounded):
            messages, ended = self._source.fetch()
            if messages:
                self._take(messages)
            self._end(ended)
            self._write(self._alignment.release())
            self._source.hold({partition: self._fullness(partition) for partition in self._lanes})
            now_ms = self._clock.monotonic_ms()
            if self._sink.pending.read and self._is_due(now_ms):
                self._commit(now_ms)
            if not bounded and now_ms - looked_ms >= _LOOK_EVERY_MS:
                looked_ms = now_ms
                if self._source.num_partitions() > len(self._lanes):
                    break
        if self._sink.pending.read:
            self._commit(self._clock.monotonic_ms())
        return bounded and not self._open

    def _take(self, messages: list[Message]) -> None:
        """Records of a poll: decide what becomes of each, and let them wait."""
        values = [message.value() for message in messages]
        latest_ms = self._clock.now_ms() + self._config.roles.max_future_ms
        addressed = self._addresses.address([message.key() for message in messages], values, latest_ms)
        partitions = np.fromiter((message.partition() for message in messages), np.int64, len(messages))
        for i, (message, partition, value) in enumerate(zip(messages, partitions.tolist(), values, strict=True)):
            lane = self._lanes[partition]
            lane.waiting.append((message, addressed.pieces[i], addressed.refusals.get(i, ())))
            lane.bytes += 0 if value is None else len(value)
        for partition in np.unique(partitions).tolist():
            self._alignment.add(partition, addressed.times_ms[partitions == partition])

    def _end(self, partitions: set[int]) -> None:
        for partition in partitions:
            self._alignment.end(partition)
        if self._config.until_end:
            self._open -= partitions

    def _write(self, runs: list[tuple[int, int]]) -> None:
        """So many records of one partition, then so many of another."""
        write = self._sink.write
        for partition, count in runs:
            lane = self._lanes[partition]
            waiting, stamp = lane.waiting, lane.stamp
            for _ in range(count):
                message, pieces, refusals = waiting.popleft()
                offset, timestamp_ms = message.offset() or 0, max(0, message.timestamp()[1])
                if pieces:
                    headers = stamp.headers(headers_of(message), offset)
                    for piece in pieces:
                        if not write(piece, timestamp_ms, headers):
                            self._bury_large(message, piece)
                for refusal in refusals:
                    self._bury(message, refusal)
                lane.bytes -= len(message.value() or b"")
                self._positions[partition] = offset + 1
            self._sink.pending.read += count

    def _bury(self, message: Message, refusal: Refusal) -> None:
        record, detail = _located(message), refusal.error.detail
        if refusal.row != WHOLE:
            detail = f"event {refusal.row} of its message: {detail}"
        self._sink.bury(
            Rejected(
                partition=record.partition,
                offset=record.offset,
                reason=refusal.error.reason,
                detail=detail,
                record=record if refusal.row == WHOLE else self._format.letter(record, refusal.row),
            ),
            self._clock.now_ms(),
        )

    def _bury_large(self, message: Message, piece: Piece) -> None:
        size, most = len(piece.value or b""), self._config.topics.max_message_bytes
        told = f"{size} bytes with key and headers are more than topics.max_message_bytes = {most}"
        self._bury(message, Refusal(WHOLE, PoisonError(Reason.TOO_LARGE, told)))

    def _fullness(self, partition: int) -> float:
        """1 where a partition has its share of all that may wait."""
        lane, share = self._lanes[partition], len(self._lanes)
        return share * max(len(lane.waiting) / _MOST_HELD, lane.bytes / _MOST_HELD_BYTES)

    def _is_due(self, now_ms: int) -> bool:
        config = self._config
        full = self._sink.pending.bytes >= config.max_transaction_bytes
        return full or now_ms - self._committed_ms >= config.commit_every_ms

    def _commit(self, now_ms: int) -> None:
        counts = self._sink.commit(self._config.source, self._positions, self._note, self._source.group_metadata)
        self._committed_ms = now_ms
        waiting = sum(len(lane.waiting) for lane in self._lanes.values())
        self._committed(counts, self._source.left() + waiting)


def _located(message: Message) -> Located:
    return Located(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=[(name, value) for name, value in headers_of(message) if isinstance(value, bytes)],
    )
