"""Where the partitions of a topic begin and end. Reads positions, never records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.errors import RetryableError


class Bounds(NamedTuple):
    """What a partition holds."""

    start: int
    """Smallest offset that still exists."""
    end: int
    """Offset of the next record; for a read-committed consumer, the end of what is stable."""


def bounds(consumer: Consumer, topic: str, partitions: Iterable[int], timeout_ms: int = 10_000) -> dict[int, Bounds]:
    """The bounds of each partition, asked of the broker now."""
    try:
        found = {
            partition: consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=timeout_ms / 1000, cached=False
            )
            for partition in partitions
        }
    except KafkaException as error:
        raise RetryableError(f"the bounds of topic {topic} could not be read: {error.args[0]}") from error
    return {partition: Bounds(*pair) for partition, pair in found.items()}


def num_partitions(consumer: Consumer, topic: str, timeout_ms: int = 10_000) -> int:
    """How many partitions a topic has; 0 if there is no such topic."""
    try:
        found = consumer.list_topics(topic, timeout=timeout_ms / 1000).topics.get(topic)
    except KafkaException as error:
        raise RetryableError(f"topic {topic} could not be looked up: {error.args[0]}") from error
    return len(found.partitions) if found is not None and found.error is None else 0
