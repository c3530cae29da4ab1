"""Where the partitions of a topic begin and end, and how far a group is. Reads positions, never records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Event
from typing import Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.errors import RetryableError

_NOBODY_YET: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Nobody looks after the group: for a moment, the first time that somebody asks a new broker for one, and after a
broker has left."""
_NO_LEADER_YET: Final = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
"""Nobody leads the partition: for a moment, when its topic is new, and after a broker has left."""
_FIRST_PAUSE_MS: Final = 25
_LONGEST_PAUSE_MS: Final = 1_000


_Answer = TypeVar("_Answer")


class Bounds(NamedTuple):
    """What a partition holds."""

    start: int
    """Smallest offset that still exists."""
    end: int
    """Offset of the next record; for a read-committed consumer, the end of what is stable."""


def bounds(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int],
    timeout_ms: int = 10_000,
    *,
    patience_ms: int = 10_000,
) -> dict[int, Bounds]:
    """The bounds of each partition, asked of the broker now. Raises RetryableError.

    While nobody leads a partition it is asked for again, for `patience_ms` each.
    """

    def ask(partition: int) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        return consumer.get_watermark_offsets(place, timeout=timeout_ms / 1000, cached=False)

    failed = f"the bounds of topic {topic} could not be read"
    return {
        partition: Bounds(*_patiently(partial(ask, partition), _NO_LEADER_YET, failed, patience_ms, Event().wait))
        for partition in partitions
    }


def num_partitions(consumer: Consumer, topic: str, timeout_ms: int = 10_000) -> int:
    """How many partitions a topic has; 0 if there is no such topic."""
    try:
        found = consumer.list_topics(topic, timeout=timeout_ms / 1000).topics.get(topic)
    except KafkaException as error:
        raise RetryableError(f"topic {topic} could not be looked up: {error.args[0]}") from error
    return len(found.partitions) if found is not None and found.error is None else 0


def committed(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int],
    timeout_ms: int = 10_000,
    *,
    patience_ms: int = 10_000,
) -> dict[int, TopicPartition]:
    """What the consumer's group has committed, by partition, with its note; none where it has committed nothing.

    `timeout_ms` is for an answer. While the answer is that nobody looks after the group, it is asked for again, after
    longer and longer pauses of `patience_ms` together. For a consumer to which nothing is assigned: a pause polls.
    Raises RetryableError.
    """
    asked = [TopicPartition(topic, partition) for partition in partitions]
    if not asked:
        return {}
    ask, failed = partial(consumer.committed, asked, timeout=timeout_ms / 1000), f"the group's offsets in {topic}"
    found = _patiently(ask, _NOBODY_YET, f"{failed} could not be read", patience_ms, consumer.poll)
    return {place.partition: place for place in found if place.offset >= 0}


def _patiently(
    ask: Callable[[], _Answer],
    not_yet: Sequence[int],
    failed: str,
    patience_ms: int,
    pause: Callable[[float], object],
) -> _Answer:
    """The answer, asked for again while it is one of `not_yet`, after longer and longer pauses (in seconds)."""
    waited_ms, pause_ms = 0, _FIRST_PAUSE_MS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in not_yet or waited_ms >= patience_ms:
                raise RetryableError(f"{failed}: {error.args[0]}") from error
        pause(pause_ms / 1000)
        waited_ms, pause_ms = waited_ms + pause_ms, min(2 * pause_ms, _LONGEST_PAUSE_MS)
