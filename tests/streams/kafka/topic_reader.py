"""Reads whole topics back, for tests. Asserts nothing."""

from __future__ import annotations

from confluent_kafka import Message, TopicPartition

from streams.kafka.client import KafkaConfig, consumer
from streams.kafka.offsets import bounds


def read_topic(config: KafkaConfig, topic: str, partitions: int) -> list[list[Message]]:
    """By partition, all that can be read."""
    reader = consumer(config, group="tests", partition_eof=True)
    try:
        found = bounds(reader, topic, range(partitions))
        reader.assign([TopicPartition(topic, p, each.start) for p, each in found.items()])
        messages: list[list[Message]] = [[] for _ in range(partitions)]
        ended = 0
        while ended < partitions:
            for message in reader.consume(1000, timeout=0.05):
                partition = message.partition()
                if message.error() is not None:
                    ended += 1
                elif partition is not None:
                    messages[partition].append(message)
        return messages
    finally:
        reader.close()


def headers_of(message: Message) -> dict[str, bytes]:
    """A record's headers by name."""
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return {name: value for name, value in pairs if isinstance(value, bytes)}
