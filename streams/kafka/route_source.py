"""Reads the topic that is routed: all of its partitions, as they come, each to its end and no further than is held.

Owns the consumer, the positions, and which partitions pause because enough of them waits. Never decodes and never
decides an order. Positions are ours: they come from the last transaction (`route_sink`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from streams.errors import ConfigError, RetryableError
from streams.kafka.client import KafkaConfig, consumer
from streams.kafka.offsets import Bounds, bounds, committed, num_partitions
from streams.routing.origin import Headers

_AT_ONCE: Final = 5_000
_POLL_MS: Final = 100
_FULL: Final = 1.0
"""A partition that holds as much pauses: what was fetched ahead by then is fetched again."""
_NEARLY_EMPTY: Final = 0.25
"""It goes on when it holds no more than that."""


class RouteSource:
    """All partitions of one topic."""

    def __init__(self, kafka: KafkaConfig, topic: str, group: str) -> None:
        self.topic = topic
        self._consumer: Consumer = consumer(
            kafka, group=group, partition_eof=True, extra={"queued.min.messages": 2 * _AT_ONCE}
        )
        self.next_offsets: dict[int, int] = {}
        """By partition, after the last record that was fetched."""
        self._ends: Mapping[int, int] | None = None
        self._paused: set[int] = set()

    @property
    def group_metadata(self) -> Any:  # noqa: ANN401  (an object of confluent-kafka's without a name)
        """What a transaction needs to commit positions."""
        return self._consumer.consumer_group_metadata()

    def num_partitions(self) -> int:
        """How many partitions the topic has; 0 if there is no such topic."""
        return num_partitions(self._consumer, self.topic)

    def bounds(self, partitions: int) -> dict[int, Bounds]:
        """What each of them holds, as far as it is committed."""
        return bounds(self._consumer, self.topic, range(partitions))

    def committed(self, partitions: int) -> dict[int, tuple[int, str]]:
        """Position and note of the last transaction, by partition; none where there was none."""
        found = committed(self._consumer, self.topic, range(partitions))
        return {partition: (place.offset, place.metadata or "") for partition, place in found.items()}

    def begin(self, starts: Mapping[int, int], ends: Mapping[int, int] | None) -> set[int]:
        """Read on from these positions, up to `ends` if there are any; returns the partitions that are there."""
        self.next_offsets, self._ends = dict(starts), ends
        done = {p for p, start in starts.items() if ends is not None and start >= ends[p]}
        self._consumer.assign([TopicPartition(self.topic, p, start) for p, start in starts.items() if p not in done])
        return done

    def fetch(self) -> tuple[list[Message], set[int]]:
        """Some records, in the order of each partition, and the partitions that are now at their end."""
        found: list[Message] = []
        ended: set[int] = set()
        for message in self._consumer.consume(_AT_ONCE, _POLL_MS / 1000):
            error, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
            if error is not None:
                self._failed(error, ended, partition, offset)
            # After a pause the client may hand out what it has handed out before.
            elif offset >= self.next_offsets[partition]:
                if not self._is_past(partition, offset):
                    found.append(message)
                    ended.discard(partition)
                self.next_offsets[partition] = offset + 1
                if self._is_past(partition, offset + 1):
                    ended.add(partition)
        if self._ends is not None:
            ended = {p for p in ended if self._is_past(p, self.next_offsets[p])}
            self._pause(ended)
        return found, ended

    def hold(self, fullness: Mapping[int, float]) -> None:
        """Pause the partitions of which much waits (1: all that may), and let those of which little waits go on."""
        self._pause({p for p, full in fullness.items() if full >= _FULL})
        little = {
            p for p in self._paused if fullness[p] <= _NEARLY_EMPTY and not self._is_past(p, self.next_offsets[p])
        }
        if little:
            self._consumer.resume([TopicPartition(self.topic, p) for p in sorted(little)])
            self._paused -= little

    def left(self) -> int:
        """Records that are not fetched yet, as far as that is known."""
        total = 0
        for partition, next_offset in self.next_offsets.items():
            if self._ends is not None:
                end = self._ends[partition]
            else:
                _, end = self._consumer.get_watermark_offsets(TopicPartition(self.topic, partition), cached=True)
            total += max(0, end - next_offset)
        return total

    def close(self) -> None:
        self._consumer.close()

    def _is_past(self, partition: int, offset: int) -> bool:
        return self._ends is not None and offset >= self._ends[partition]

    def _pause(self, partitions: set[int]) -> None:
        new = partitions - self._paused
        if new:
            self._consumer.pause([TopicPartition(self.topic, p) for p in sorted(new)])
            self._paused |= new

    def _failed(self, error: KafkaError, ended: set[int], partition: int, offset: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own codes are spelt with an underscore)
            # Behind the last record there may be marks of transactions, which are no records.
            self.next_offsets[partition] = max(self.next_offsets[partition], offset)
            ended.add(partition)
        elif error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001  (as above)
            raise ConfigError(
                f"{self.topic}[{partition}] has no offset {self.next_offsets[partition]} any more: records were "
                "deleted before they were routed. Give it a longer retention; --from-start routes what is left"
            )
        else:
            raise RetryableError(f"{self.topic} cannot be read: {error.str()}")


def headers_of(message: Message) -> Headers:
    """As they come: librdkafka's own order, names not unique."""
    found = message.headers() or []
    return list(found.items()) if isinstance(found, dict) else found
