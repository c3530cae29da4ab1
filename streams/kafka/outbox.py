"""Sends events and dead letters and knows the fate of each.

Owns delivery: every event ends delivered, refused by the broker, or the whole run fails; nothing is dropped and
nothing is counted twice. A broker refuses whole batches, good neighbours included: what comes back refused is
sent once more, alone, and only what is refused alone is a dead letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.errors import Reason, RetryableError
from streams.files.in_order import Placed
from streams.inputs import Input
from streams.kafka.client import KafkaConfig, producer
from streams.kafka.dead_letter import DeadLetter, from_line
from streams.kafka.headers import APPENDED_MS
from streams.kafka.topics import TopicsConfig

_REFUSALS: Final = frozenset({
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001  (librdkafka's name for a good neighbour)
    KafkaError.INVALID_MSG,
    KafkaError.POLICY_VIOLATION,
})  # fmt: skip
Headers = Sequence[tuple[str, bytes]]
Done = Callable[[KafkaError | None, Message], None]
"""Told of the fate of one record."""

_QUEUE_KBYTES: Final = 64 * 1024
_POLL_EVERY: Final = 256


class Clock(Protocol):
    """What sending needs of a clock."""

    def now_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...


class Outbox:
    """One producer and the counts of what became of everything given to it."""

    def __init__(
        self, kafka: KafkaConfig, topics: TopicsConfig, clock: Clock, target: Input = Input.INTERACTIONS
    ) -> None:
        """`target`: which input events are for."""
        self._topics = topics
        self._events_topic = topics.inputs[target]
        self._clock = clock
        self._producer: Producer = producer(
            kafka,
            client_id="recd-ingest",
            max_message_bytes=topics.max_message_bytes,
            extra={
                "linger.ms": 20,
                "queue.buffering.max.kbytes": _QUEUE_KBYTES,
                # An unreachable broker fails the run instead of holding it for ever.
                "delivery.timeout.ms": 60_000,
                "message.timeout.ms": 60_000,
            },
        )
        self.delivered = 0
        self.delivered_bytes = 0
        self.reasons: Counter[Reason] = Counter()
        """Dead letters that the broker has acknowledged."""
        self.next_offset: dict[int, int] = {}
        """By partition, after the last event of ours; only partitions that got one."""
        self._refused: list[tuple[Placed, str]] = []
        self._failure: KafkaError | None = None
        self._sent = 0

    def send(self, event: Placed) -> None:
        """Send an event. Raises RetryableError if an earlier one could not be delivered."""
        try:
            self._produce(event, partial(self._event_done, event))
        except KafkaException as error:
            # Too large for our own client: it never reached the broker.
            self._refuse_or_fail(event, error.args[0])
        self._sent += 1
        if self._sent % _POLL_EVERY == 0:
            self._producer.poll(0)
            self._raise_failure()
            if self._refused:
                self.settle()

    def bury(self, letter: DeadLetter, reason: Reason) -> None:
        """Send a dead letter."""

        def done(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                self.reasons[reason] += 1
            else:
                self._failure = error

        self._enqueue(self._topics.dead_letter, letter.key, letter.value, self._clock.now_ms(), letter.headers, done)

    def wait(self, ms: float) -> None:
        """Let deliveries happen for that long."""
        self._producer.poll(ms / 1000)
        self._raise_failure()

    def settle(self) -> None:
        """Return when everything that was given is delivered or a delivered dead letter."""
        self._flush()
        refused, self._refused = self._refused, []
        for event, _ in refused:
            self._send_alone(event)
        self._flush()

    def send_plainly(self, topic: str, partition: int, value: bytes) -> None:
        """A record of another topic of ours; `settle` waits for it too."""

        def done(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self._failure = error

        self._producer.produce(topic, value=value, key=str(partition).encode(), partition=partition, on_delivery=done)

    def abandon(self) -> None:
        """Drop what still waits in our own queue and learn the fate of what is under way: after Ctrl-C."""
        self._producer.purge(in_flight=False)
        self._producer.flush(10)

    def _send_alone(self, event: Placed) -> None:
        before = len(self._refused)
        try:
            self._produce(event, partial(self._event_done, event))
        except KafkaException as error:
            self._refuse_or_fail(event, error.args[0])
        self._flush()
        for refused, why in self._refused[before:]:
            file, _, line = refused.source.decode(errors="surrogateescape").rpartition(":")
            reason = Reason.REFUSED_BY_BROKER
            self.bury(from_line(file, int(line), refused.value, reason, why, self._clock.now_ms()), reason)
        del self._refused[before:]

    def _produce(self, event: Placed, done: Done) -> None:
        now = self._clock.now_ms()
        stamp = [(APPENDED_MS, str(now).encode())]
        self._enqueue(self._events_topic, event.key, event.value, event.event_time_ms, stamp, done)

    def _enqueue(
        self, topic: str, key: bytes | None, value: bytes | None, time_ms: int, headers: Headers, done: Done
    ) -> None:
        def produce() -> None:
            self._producer.produce(
                topic, key=key, value=value, timestamp=time_ms, headers=list(headers), on_delivery=done
            )

        while True:
            try:
                return produce()
            except BufferError:
                # The queue is full: that is the back-pressure.
                self.wait(100)

    def _event_done(self, event: Placed, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refuse_or_fail(event, error)
            return
        self.delivered += 1
        self.delivered_bytes += len(event.value)
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None:
            self.next_offset[partition] = max(self.next_offset.get(partition, 0), offset + 1)

    def _refuse_or_fail(self, event: Placed, error: KafkaError) -> None:
        if error.code() in _REFUSALS:
            self._refused.append((event, error.str()))
        elif error.code() not in {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}:  # noqa: SLF001  (librdkafka's own names)
            self._failure = error

    def _flush(self) -> None:
        while self._producer.flush(1.0):
            self._raise_failure()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise RetryableError(
                f"Kafka did not take an event: {self._failure.str()}. {self.delivered} are in the topic; running "
                "the same command again is safe, since events are known by their ids"
            )
