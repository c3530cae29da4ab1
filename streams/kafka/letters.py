"""Reading the dead-letter topic back: every letter with its place of origin, its reason and the head of its bytes.

Owns what the headers of `dead_letter` mean to a reader. Reads to the end as it is now; commits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from streams.errors import RetryableError
from streams.kafka import headers
from streams.kafka.client import END_SOON, KafkaConfig, consumer
from streams.kafka.offsets import bounds, num_partitions

HEAD_BYTES: Final = 300
_POLL_MS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter. What its headers do not say is None."""

    partition: int
    offset: int
    written_ms: int
    """Time stamp of the letter itself."""
    reason: str
    detail: str
    source: str
    """The topic, or the file, that the record came from."""
    source_partition: int | None
    source_offset: int | None
    source_line: int | None
    origin: str
    """Of a record that was routed: the topic that it was routed from."""
    origin_partition: int | None
    origin_offset: int | None
    size_bytes: int
    """Of the original value, of which very large letters hold a part only."""
    head: str
    """How the value begins; bytes that are no text are escaped."""


def read_letters(config: KafkaConfig, topic: str, timeout_ms: int = 30_000) -> Iterator[Letter]:
    """Every letter of the topic, partition after partition in its order; none if there is no such topic.

    RetryableError when a broker is silent for `timeout_ms`.
    """
    reader = consumer(config, group=f"{topic}-reader", partition_eof=True, extra=END_SOON)
    try:
        for partition, (start, end) in bounds(reader, topic, range(num_partitions(reader, topic))).items():
            if start < end:
                reader.assign([TopicPartition(topic, partition, start)])
                yield from (_letter(message) for message in _to_end(reader, topic, timeout_ms))
    finally:
        reader.close()


def _to_end(reader: Consumer, topic: str, timeout_ms: int) -> Iterator[Message]:
    silent_ms = 0
    while silent_ms < timeout_ms:
        message = reader.poll(_POLL_MS / 1000)
        if message is None:
            silent_ms += _POLL_MS
            continue
        silent_ms, error = 0, message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own code)
            return
        else:
            raise RetryableError(f"dead letters of {topic} could not be read: {error.str()}")
    raise RetryableError(f"{topic} did not answer within {timeout_ms} ms")


def _letter(message: Message) -> Letter:
    given = message.headers() or []
    told = {
        name: value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
        for name, value in (given.items() if isinstance(given, dict) else given)
    }
    value = message.value() or b""

    def number(name: str) -> int | None:
        return int(told[name]) if told.get(name, "").isdigit() else None

    return Letter(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        written_ms=message.timestamp()[1],
        reason=told.get(headers.REASON, "unknown"),
        detail=told.get(headers.DETAIL, ""),
        source=told.get(headers.SOURCE, ""),
        source_partition=number(headers.SOURCE_PARTITION),
        source_offset=number(headers.SOURCE_OFFSET),
        source_line=number(headers.SOURCE_LINE),
        origin=told.get(headers.ORIGIN, ""),
        origin_partition=number(headers.ORIGIN_PARTITION),
        origin_offset=number(headers.ORIGIN_OFFSET),
        size_bytes=number(headers.CUT_FROM_BYTES) or len(value),
        head=value[:HEAD_BYTES].decode(errors="backslashreplace"),
    )
