"""The trainer as Kafka shows it: what its group has committed, and how large the mini-batches after that are.

Owns one consumer per partition. Its group is the trainer's, by name only: it never joins, and never commits.

Blocking throughout: it lives in its partition's thread.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sessionizer.ahead import Size
from sessionizer.recovery import offset_of
from streams.errors import RetryableError
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.kafka.offsets import committed

_TIMEOUT_S: Final = 10.0
_PATIENCE_MS: Final = 10_000
"""A broker that has just started is asked for so long where the group is."""
_POLL_S: Final = 0.05
_POLLS: Final = 200
_AT_ONCE: Final = 64
"""Mini-batches taken in one call."""


class TrainerPlace:
    """A Follower on Kafka."""

    def __init__(self, kafka: KafkaConfig, topic: str, partition: int, group: str) -> None:
        self._topic = topic
        self._partition = partition
        self._group = group
        self._consumer: Consumer = client.consumer(kafka, group=group, partition_eof=True, extra=client.END_SOON)
        self._place: int | None = None
        self._known = False

    def bounds(self) -> tuple[int, int]:
        try:
            found = self._consumer.get_watermark_offsets(TopicPartition(self._topic, self._partition), _TIMEOUT_S)
        except KafkaException as error:
            raise self._failed("bounds", error.args[0]) from error
        if found is None:
            raise RetryableError(f"Kafka did not say in {_TIMEOUT_S:.0f} s where {self._topic} ends")
        return int(found[0]), int(found[1])

    def place(self) -> int | None:
        """Once known, the last answer stands while Kafka gives none: output then waits rather too early.

        Before that it is asked again for a while, since a broker that has just started knows no group yet.
        """
        patience_ms = 0 if self._known else _PATIENCE_MS
        try:
            found = committed(self._consumer, self._topic, [self._partition], patience_ms=patience_ms)
        except RetryableError as error:
            if self._known:
                return self._place
            raise self._failed(f"offset of group {self._group}", str(error)) from error
        self._known = True
        self._place = found[self._partition].offset if self._partition in found else None
        return self._place

    def sizes(self, start: int, end: int, enough_bytes: int) -> tuple[list[Size], int]:
        self._consumer.assign([TopicPartition(self._topic, self._partition, start)])
        try:
            return self._sizes(start, end, enough_bytes)
        except KafkaException as error:
            raise self._failed("mini-batches", error.args[0]) from error
        finally:
            self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()

    def _sizes(self, start: int, end: int, enough_bytes: int) -> tuple[list[Size], int]:
        sizes: list[Size] = []
        total, after = 0, start
        for _ in range(_POLLS):
            for message in self._consumer.consume(_AT_ONCE, _POLL_S):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own code)
                    raise self._failed("mini-batches", error)
                if error is not None or offset_of(message) >= end:
                    return sizes, end
                num_bytes = len(message.value() or b"")
                sizes.append((offset_of(message), num_bytes))
                total, after = total + num_bytes, offset_of(message) + 1
                if total >= enough_bytes:
                    return sizes, after
        return sizes, after

    def _failed(self, what: str, error: KafkaError | str) -> RetryableError:
        return RetryableError(
            f"Kafka does not tell the {what} of {self._topic}[{self._partition}], by which worker.max_ahead_bytes "
            f"goes: {error}; reading needs the right READ on the topic and on group {self._group}"
        )
