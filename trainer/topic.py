"""The mini-batch topic as it is when the trainer starts: partitions, bounds, and where to begin. Reads metadata only.

A start that cannot be right is refused here, in words: other partitions than the checkpoint's, a position that
retention has removed, a position beyond the end, another topic under the same name. Nothing is ever reset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from streams.errors import ConfigError, InvariantError, RetryableError
from streams.kafka.client import KafkaConfig
from streams.kafka.identity import topic_ids
from trainer.ledger import Position, Positions, TopicIdentity

_LOG = structlog.get_logger(__name__)
_CALL_S: Final = 10.0
_RETRY_MS: Final = 200


def find(
    consumer: Consumer, kafka: KafkaConfig, name: str, wait_ms: int, pause: Callable[[int], None]
) -> TopicIdentity:
    """The topic, or ConfigError when it does not appear within `wait_ms`. `pause` sleeps that many ms."""
    for _ in range(wait_ms // _RETRY_MS + 1):
        partitions = _partitions(consumer, name)
        if partitions:
            return TopicIdentity(name=name, topic_id=_topic_id(kafka, name), partitions=partitions)
        pause(_RETRY_MS)
    raise ConfigError(
        f"topic {name} does not exist at {kafka.bootstrap} after {wait_ms} ms; start the sessionizer, which creates "
        "it, or correct the topic's name"
    )


def check_same(checkpoint: TopicIdentity, found: TopicIdentity) -> None:
    """Raise InvariantError unless the checkpoint's positions mean something in this topic."""
    if checkpoint.name != found.name:
        raise InvariantError(
            f"the checkpoint stands in topic {checkpoint.name}, the configuration names {found.name}; "
            "correct the topic's name, or give the new lineage its own checkpoint.directory"
        )
    if checkpoint.partitions != found.partitions:
        raise InvariantError(
            f"topic {found.name} had {checkpoint.partitions} partitions at the checkpoint and has {found.partitions} "
            "now; a lineage keeps its partitions: use a new topic and a new checkpoint.directory"
        )
    if checkpoint.topic_id and found.topic_id and checkpoint.topic_id != found.topic_id:
        raise InvariantError(
            f"topic {found.name} was deleted and created again since the checkpoint (id {checkpoint.topic_id}, now "
            f"{found.topic_id}); rebuild it by replay, or give a new lineage its own checkpoint.directory"
        )


def starts(consumer: Consumer, topic: TopicIdentity, checkpoint: Positions) -> dict[int, tuple[int, Position | None]]:
    """Offset to begin at and the position that is due there, by partition.

    Without a checkpoint: the beginning of the log, and sequence 0 where nothing of it has been removed yet.
    """
    found: dict[int, tuple[int, Position | None]] = {}
    for partition in range(topic.partitions):
        low, high = _bounds(consumer, topic.name, partition)
        position = checkpoint.get(partition)
        if position is None:
            found[partition] = _beginning(topic.name, partition, low)
        else:
            _check_inside(topic.name, partition, position, low, high)
            found[partition] = position.next_offset, position
    return found


def committed(consumer: Consumer, topic: TopicIdentity, wait_ms: int, pause: Callable[[int], None]) -> dict[int, int]:
    """The group's own offsets, or the beginning. For the audit's control only: no real start reads them."""
    asked = [TopicPartition(topic.name, partition) for partition in range(topic.partitions)]
    for _ in range(wait_ms // _RETRY_MS + 1):
        try:
            found = consumer.committed(asked, timeout=_CALL_S)
        except KafkaException:
            # A group that is new has no coordinator for a moment.
            pause(_RETRY_MS)
            continue
        return {each.partition: each.offset if each.offset >= 0 else OFFSET_BEGINNING for each in found}
    raise RetryableError(f"the group's offsets on {topic.name} were not to be had within {wait_ms} ms")


def _beginning(topic: str, partition: int, low: int) -> tuple[int, Position | None]:
    if low == 0:
        return 0, Position(next_offset=0, next_sequence=0)
    _LOG.warning("lineage_begins_late", topic=topic, partition=partition, first_offset=low)
    return low, None


def _check_inside(topic: str, partition: int, position: Position, low: int, high: int) -> None:
    due = position.next_offset
    if due < low:
        raise InvariantError(
            f"{topic} partition {partition}: offset {due} is due, but retention has removed everything before {low}: "
            f"{low - due} records are lost. Rebuild them by replay, or give a new lineage its own checkpoint.directory"
        )
    if due > high:
        raise InvariantError(
            f"{topic} partition {partition}: offset {due} is due, but the log ends at {high}: the topic was "
            "recreated or lost its end. Restore it, or give a new lineage its own checkpoint.directory"
        )


def _partitions(consumer: Consumer, name: str) -> int:
    try:
        metadata = consumer.list_topics(name, timeout=_CALL_S).topics[name]
    except KafkaException as error:
        raise RetryableError(f"Kafka does not answer: {error}; check kafka.bootstrap and its security") from error
    return 0 if metadata.error is not None else len(metadata.partitions)


def _bounds(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_CALL_S)
    except KafkaException as error:
        raise RetryableError(f"{topic} partition {partition}: the broker gives no bounds: {error}") from error
    return int(low), int(high)


def _topic_id(kafka: KafkaConfig, name: str) -> str:
    found = topic_ids(kafka, [name]).get(name, "")
    if not found and not kafka.plain:
        # Describing needs a right that reading does not. Sequences still tell a rewritten topic.
        _LOG.warning("topic_id_unknown", topic=name)
    return found
