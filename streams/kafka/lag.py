"""How far behind a reader of a topic is, by three measures that must not be confused.

fetch lag     end of the partition minus the next offset to read, and the age of that record: scale on this one
held          next offset minus the smallest offset still held in memory, in events and event time
commit lag    end of the partition minus the committed offset: what stock exporters see

Owns the arithmetic (`lag_of`, pure) and a thin reader of brokers. Never moves a position and never commits.

A transaction's marker takes an offset that nobody can read, so the difference of two offsets may never reach 0.
The reader therefore looks for the next record itself: where there is none before the end, the lag is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from streams.errors import RetryableError
from streams.events.record import appended_ms
from streams.kafka.client import END_SOON, KafkaConfig, consumer
from streams.kafka.offsets import Bounds, bounds, num_partitions
from streams.kafka.offsets import committed as committed_by

_POLL_MS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """The first record that a reader has still to read."""

    offset: int
    appended_ms: int
    """-1: it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a reader has read but not let go of, as it tells itself."""

    smallest_offset: int
    age_ms: int
    """In event time: the watermark minus the smallest held event time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is known of one partition at one moment."""

    partition: int
    bounds: Bounds
    committed: int | None
    """None: the group has committed nothing, which is neither no lag nor all of it."""
    next_offset: int | None
    """Next offset to read, where the reader tells; else the committed one stands for it."""
    unread: Unread | None
    """None: there is no record before the end."""
    held: Held | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The three measures; None where nothing can be said."""

    partition: int
    fetch_events: int | None
    fetch_ms: int | None
    held_events: int | None
    held_age_ms: int | None
    commit_events: int | None
    has_committed: bool
    problem: str | None
    """What is wrong with the position, for a person."""


def lag_of(reading: Reading, now_ms: int) -> PartitionLag:
    """The lag of one partition. Pure."""
    position = reading.committed if reading.next_offset is None else reading.next_offset
    held = reading.held
    fetch_ms = None
    if position is not None and reading.unread is None:
        fetch_ms = 0
    elif reading.unread is not None and reading.unread.appended_ms >= 0:
        # Two machines' clocks may differ: never below zero.
        fetch_ms = max(0, now_ms - reading.unread.appended_ms)
    return PartitionLag(
        partition=reading.partition,
        fetch_events=_behind(reading, position, position),
        fetch_ms=fetch_ms,
        held_events=None if held is None or position is None else max(0, position - held.smallest_offset),
        held_age_ms=None if held is None else max(0, held.age_ms),
        commit_events=_behind(reading, reading.committed, position),
        has_committed=reading.committed is not None,
        problem=_problem(reading.bounds, position),
    )


def _behind(reading: Reading, offset: int | None, position: int | None) -> int | None:
    if offset is None:
        return None
    if offset == position and reading.unread is None:
        # Only markers and compacted records lie between: nothing that can be read.
        return 0
    # Records below the start are gone: they are lost, not waiting.
    return max(0, reading.bounds.end - max(offset, reading.bounds.start))


def _problem(found: Bounds, position: int | None) -> str | None:
    if position is None:
        return None
    if position > found.end:
        return f"the position {position} lies behind the end {found.end}: was the topic made anew?"
    if position < found.start < found.end:
        return f"records {position} to {found.start} have expired unread: retention is too short"
    return None


def read_lag(
    config: KafkaConfig,
    topic: str,
    group: str,
    *,
    next_offsets: Mapping[int, int] | None = None,
    wall_times: bool = False,
    timeout_ms: int = 10_000,
) -> list[Reading]:
    """Ask the brokers about every partition of a topic. Empty if there is no such topic.

    `next_offsets`: by partition, where the reader tells more than its commits do. `wall_times`: the records' own
    times say when they were appended; not so for events, whose times are those of the events.
    """
    reader = consumer(config, group=group, partition_eof=True, extra=END_SOON)
    try:
        partitions = range(num_partitions(reader, topic, timeout_ms))
        found = bounds(reader, topic, partitions, timeout_ms)
        places = committed_by(reader, topic, partitions, timeout_ms)
        committed = {partition: place.offset for partition, place in places.items()}
        known = dict(next_offsets or {})
        positions = {p: known.get(p, committed.get(p)) for p in partitions}
        start_at = {p: max(at, found[p].start) for p, at in positions.items() if at is not None and at < found[p].end}
        unread = _first_unread(reader, topic, start_at, timeout_ms, wall=wall_times)
    finally:
        reader.close()
    return [
        Reading(
            partition=p,
            bounds=found[p],
            committed=committed.get(p),
            next_offset=known.get(p),
            unread=unread.get(p),
        )
        for p in partitions
    ]


def _first_unread(
    reader: Consumer, topic: str, start_at: Mapping[int, int], timeout_ms: int, *, wall: bool
) -> dict[int, Unread]:
    """By partition, the first record at or after an offset; partitions without one are left out."""
    found: dict[int, Unread] = {}
    waiting = set(start_at)
    if waiting:
        reader.assign([TopicPartition(topic, p, at) for p, at in start_at.items()])
    for _ in range(timeout_ms // _POLL_MS):
        if not waiting:
            return found
        message = reader.poll(_POLL_MS / 1000)
        if message is None:
            continue
        partition, error = message.partition(), message.error()
        if partition not in waiting:
            continue
        if error is None:
            found[partition] = Unread(offset=message.offset() or 0, appended_ms=_appended(message, wall=wall))
        elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own code)
            raise RetryableError(f"partition {partition} of {topic} could not be read: {error.str()}")
        waiting.discard(partition)
        reader.incremental_unassign([TopicPartition(topic, partition)])
    raise RetryableError(f"partitions {sorted(waiting)} of {topic} did not answer within {timeout_ms} ms")


def _appended(message: Message, *, wall: bool) -> int:
    headers = message.headers() or []
    stamp = appended_ms(headers.items() if isinstance(headers, dict) else headers)
    return message.timestamp()[1] if stamp < 0 and wall else stamp
