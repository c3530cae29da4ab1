"""Where a sample of events comes from: a file, or a topic.

Owns which records are read: the last N of each partition, or the first N. A file is read as `recd ingest` would send
it, in the order of its own times, as one partition. Never decodes a feature and never commits a position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from infra.clock import Clock, Deadline
from infra.config import Config
from streams.errors import ConfigError, PoisonError, RetryableError
from streams.events.outgoing import Addresser
from streams.events.record import Located
from streams.files.in_order import InOrder, Placed
from streams.files.line import BadLine
from streams.files.read import Format, read
from streams.kafka.client import consumer
from streams.kafka.offsets import Bounds, bounds, num_partitions

POLL: Final = 2048
_TELL_EVERY: Final = 5_000
_SILENCE_MS: Final = 30_000


Poll = tuple[int, list[Located]]
"""Records of one partition, in offset order; consecutive where the topic's are."""
Tell = Callable[[str, int, int], None]
"""What is being done, how far it is, and how much there is (0: not known)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events."""

    most: int
    """Of each partition."""
    from_beginning: bool


def of_files(
    paths: Sequence[Path], kind: Format | None, settings: Config, wanted: Wanted, tell: Tell
) -> Iterator[Poll]:
    """Events of files; rows that are none are left out."""
    addresser, now_ms = Addresser(settings.event), Clock().now_ms()
    with InOrder() as events:
        for path in paths:
            if not path.exists():
                raise ConfigError(f"--file {path}: there is no such file")
            for number, line in enumerate(read(path, kind)):
                if number % _TELL_EVERY == 0:
                    tell("reading", number, 0)
                if isinstance(line, BadLine):
                    continue
                try:
                    events.add(addresser.address(line.value, now_ms), b"")
                except PoisonError:
                    continue
        chosen = _chosen(Bounds(0, len(events)), wanted)
        places = islice(enumerate(events), chosen.start, chosen.end)
        while poll := [_placed(offset, each) for offset, each in islice(places, POLL)]:
            yield 0, poll
            tell("forming sessions", poll[-1].offset + 1 - chosen.start, chosen.end - chosen.start)


def of_topic(settings: Config, wanted: Wanted, tell: Tell) -> Iterator[Poll]:
    """Events that are in the interactions topic now."""
    if settings.kafka.plain:
        raise ConfigError("kafka.plain is set: the in-memory stand-in does not say where a topic ends; use --file")
    topic = settings.topics.interactions
    reader = consumer(settings.kafka, group="recd-advise", partition_eof=True)
    try:
        number = num_partitions(reader, topic)
        if number == 0:
            raise ConfigError(f"there is no topic {topic}; name yours with topics.interactions, or read a --file")
        chosen = {p: _chosen(each, wanted) for p, each in bounds(reader, topic, range(number)).items()}
        reader.assign([TopicPartition(topic, p, each.start) for p, each in chosen.items() if each.end > each.start])
        yield from _fetched(reader, topic, chosen, tell)
    finally:
        reader.close()


def _fetched(reader: Consumer, topic: str, chosen: dict[int, Bounds], tell: Tell) -> Iterator[Poll]:
    left = {p for p, each in chosen.items() if each.end > each.start}
    total, done, clock = sum(each.end - each.start for each in chosen.values()), 0, Clock()
    deadline = Deadline.after(clock, _SILENCE_MS)
    while left:
        polls: dict[int, list[Located]] = {}
        for message in reader.consume(POLL, timeout=0.5):
            partition, offset, error = _place(message)
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's name)
                raise RetryableError(f"topic {topic} partition {partition}: {error.str()}")
            end = chosen[partition].end
            if error is None and offset < end:
                polls.setdefault(partition, []).append(_record(message))
            if error is not None or offset + 1 >= end:
                left.discard(partition)
        yield from polls.items()
        done += sum(map(len, polls.values()))
        tell("reading", min(done, total), total)
        if polls:
            deadline = Deadline.after(clock, _SILENCE_MS)
        elif deadline.passed:
            raise RetryableError(f"topic {topic}: partitions {sorted(left)} were silent for {_SILENCE_MS} ms")


def _chosen(there: Bounds, wanted: Wanted) -> Bounds:
    if wanted.from_beginning:
        return Bounds(there.start, min(there.end, there.start + wanted.most))
    return Bounds(max(there.start, there.end - wanted.most), there.end)


def _placed(offset: int, event: Placed) -> Located:
    return Located("", 0, offset, event.event_time_ms, event.key, event.value, ())


def _place(message: Any) -> tuple[int, int, KafkaError | None]:  # noqa: ANN401  (confluent-kafka ships no types)
    return message.partition(), message.offset(), message.error()


def _record(message: Any) -> Located:  # noqa: ANN401  (confluent-kafka ships no types)
    return Located(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=[(name, value or b"") for name, value in message.headers() or ()],
    )
