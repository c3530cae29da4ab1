"""The changelog of profiles on Kafka: what the truth about the users of one partition is, read back.

Owns the keys of its records and the consumer that reads it, which is opened only when something has to be repaired.
Never writes; `emit` does, in the transaction of a cut.

Partition p of the compacted topic holds the users of partition p of the interactions. Key: the user, 8 bytes
big-endian; value: the profile (`state.profiles`); no value: nothing is remembered of the user any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition

from sessionizer.outlet import Chunk
from sessionizer.recovery import offset_of
from streams.errors import InvariantError, RetryableError
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig

_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1
_RECORDS: Final = 5_000
"""Records taken at once."""
_USER_BYTES: Final = 8


def profile_key(user: int) -> bytes:
    """Key of a user's profile."""
    return user.to_bytes(_USER_BYTES, "big", signed=True)


def user_of(key: bytes) -> int:
    """The user of a key."""
    return int.from_bytes(key, "big", signed=True)


class KafkaChangelog:
    """Reads one partition of the changelog."""

    def __init__(self, partition: int, kafka: KafkaConfig, topics: TopicsConfig) -> None:
        self._partition = partition
        self._kafka = kafka
        self._topics = topics

    @cached_property
    def identity(self) -> str:
        topic = self._topics.profiles
        if self._kafka.plain:
            return topic  # The stand-in gives its topics no ids, and survives nothing itself.
        admin = client.admin(self._kafka)
        try:
            asked = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT_S)
            return f"{topic}/{asked[topic].result(_TIMEOUT_S).topic_id}"
        except KafkaException as error:
            raise RetryableError(f"Kafka does not say which topic {topic} is: {error.args[0]}") from error

    def read(self, start: int, end: int) -> Iterator[Chunk]:
        if start >= end:
            return
        consumer = client.consumer(
            self._kafka, group=f"{self._topics.profiles}-repair", partition_eof=True, extra=client.END_SOON
        )
        try:
            yield from self._read(consumer, start, end)
        finally:
            consumer.close()

    def close(self) -> None:
        """Nothing is open between two reads."""

    def _read(self, consumer: Consumer, start: int, end: int) -> Iterator[Chunk]:
        place = TopicPartition(self._topics.profiles, self._partition, start)
        try:
            first, _ = consumer.get_watermark_offsets(place, _TIMEOUT_S)
            if start < first:
                # Compaction leaves gaps, and never moves where the topic begins.
                raise InvariantError(
                    f"profiles {start} to {first} of {place.topic}[{self._partition}] were deleted, so histories would "
                    "lack what was in them; restore that topic, or begin anew with another worker.app and mini-batch "
                    "topic"
                )
            consumer.assign([place])
            silent_s = 0.0
            while silent_s < _TIMEOUT_S:
                messages = consumer.consume(_RECORDS, _POLL_S)
                silent_s = 0.0 if messages else silent_s + _POLL_S
                chunk, ended = self._chunk(messages, end)
                if chunk[1] > 0:
                    yield chunk
                if ended:
                    return
        except KafkaException as error:
            raise self._failed(error.args[0]) from error
        raise RetryableError(f"the end of {place.topic}[{self._partition}] was not reached in {_TIMEOUT_S:.0f} s")

    def _chunk(self, messages: list[Message], end: int) -> tuple[Chunk, bool]:
        """Profiles of these records, the offset after them (0: there are none), and whether there are no more."""
        values: dict[int, bytes | None] = {}
        after = 0
        for message in messages:
            error = message.error()
            if error is None and offset_of(message) < end:
                values[user_of(message.key() or b"")] = message.value()
                after = offset_of(message) + 1
            elif error is None:
                return (values, after), True
            elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own code)
                raise self._failed(error)
            elif offset_of(message) >= end:
                return (values, after), True
            # An end before `end` is that of a transaction whose commit cannot be read yet: more comes.
        return (values, after), False

    def _failed(self, error: KafkaError) -> RetryableError:
        return RetryableError(f"reading {self._topics.profiles}[{self._partition}] failed: {error}")
