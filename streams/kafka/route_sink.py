"""Writes what is routed, and how far the source has been read, in transactions: all of it becomes visible, or nothing.

Owns the producer and one transaction at a time, the shape of what is written, and what Kafka's failures mean. An older
process of the same name is fenced from the moment on when this one begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from streams.errors import ConfigError, InvariantError, RetryableError
from streams.events.record import Rejected
from streams.kafka.client import KafkaConfig, producer
from streams.kafka.dead_letter import dead_letter
from streams.kafka.topics import TopicsConfig
from streams.routing.addresses import Piece
from streams.routing.origin import Headers

_TIMEOUT_MS: Final = 60_000
"""Of a transaction, by the broker's clock."""
_STEP_MS: Final = 10_000
"""A step of one that Kafka does not finish in this time is given up, and everything opened anew."""
_RETRIES: Final = 3
_AROUND: Final = 512
"""Bytes that a broker counts for a record besides its key, value and headers, and then some."""
_QUEUE_KBYTES: Final = 64 * 1024
_FENCED: Final = (
    KafkaError._FENCED,  # noqa: SLF001  (librdkafka's own codes are spelt with an underscore)
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
)


@dataclass(slots=True)
class Counts:
    """What became of records. Of an open transaction, or of all that are committed."""

    read: int = 0
    """Records of the source."""
    written: int = 0
    """Records of the target: more than were read where messages of many users were split."""
    bytes: int = 0
    """Of the values of those."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Dead letters by reason."""

    def add(self, other: Counts) -> None:
        """Count those, too."""
        self.read += other.read
        self.written += other.written
        self.bytes += other.bytes
        self.reasons += other.reasons


class RouteSink:
    """One producer to one topic. `RetryableError`: what was not committed is gone; open another one and go on."""

    def __init__(self, kafka: KafkaConfig, topics: TopicsConfig, target: str, name: str) -> None:
        """`name`: the transactional id; who has it alone may write."""
        self._target, self._topics, self._name = target, topics, name
        self._most_bytes = topics.max_message_bytes
        self._failure: KafkaError | None = None
        self._open = self._stuck = False
        self.pending = Counts()
        self._producer: Producer = producer(
            kafka,
            client_id=name,
            transactional_id=name,
            max_message_bytes=topics.max_message_bytes,
            extra={
                "linger.ms": 20,
                "queue.buffering.max.kbytes": _QUEUE_KBYTES,
                "queue.buffering.max.messages": 500_000,
                "transaction.timeout.ms": _TIMEOUT_MS,
                # A callback for each record would cost as much as sending it: only failures are told.
                "delivery.report.only.error": True,
                "on_delivery": self._not_delivered,
            },
        )
        self._attempt(lambda: self._producer.init_transactions(_STEP_MS / 1000))

    def write(self, piece: Piece, timestamp_ms: int, headers: Headers) -> bool:
        """Write to the piece's partition. False if it is too large for the topic; then nothing is written."""
        partition, key, value = piece
        num_bytes = 0 if value is None else len(value)
        size = num_bytes + len(key) + _AROUND
        for name, content in headers:
            size += len(name) + len(content or b"")
        if size > self._most_bytes:
            return False
        self._produce(self._target, value, key, partition, timestamp_ms, headers)
        self.pending.written += 1
        self.pending.bytes += num_bytes
        return True

    def bury(self, rejected: Rejected, now_ms: int) -> None:
        """Write a dead letter."""
        letter = dead_letter(rejected, now_ms)
        self._produce(self._topics.dead_letter, letter.value, letter.key, -1, now_ms, letter.headers)
        self.pending.reasons[str(rejected.reason)] += 1

    def commit(self, topic: str, positions: Mapping[int, int], note: str, group: Any) -> Counts:  # noqa: ANN401  (confluent-kafka's)
        """Make all of it visible, together with the next positions to read; returns what it was.

        `note` is kept with each position.
        """
        if not self._open:
            self._begin()
        # What the broker has refused is told here, in words; a commit would only say that something was.
        left = self._producer.flush(_TIMEOUT_MS / 1000)
        self._check()
        if left:
            raise RetryableError(f"{left} records were not taken by {self._target} in {_TIMEOUT_MS} ms")
        places = [TopicPartition(topic, partition, offset, note) for partition, offset in positions.items()]
        send = self._producer.send_offsets_to_transaction
        self._attempt(lambda: self._watched(lambda: send(places, group, _STEP_MS / 1000)))
        self._attempt(lambda: self._producer.commit_transaction(_STEP_MS / 1000))
        done, self.pending, self._open = self.pending, Counts(), False
        return done

    def close(self) -> None:
        """Leave nothing open behind: what is not committed is aborted."""
        if self._stuck:
            # Whatever is asked of this client now would wait, too; the next one of its name aborts what it has begun.
            return
        self._producer.purge()
        if self._open:
            try:
                self._producer.abort_transaction(10)
            except (KafkaException, SystemError):
                # The next one of this name aborts it, or the broker does after the transaction's timeout.
                self._open = False

    def _produce(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, timestamp_ms: int, headers: Headers
    ) -> None:
        if not self._open:
            self._begin()
        while True:
            try:
                self._producer.produce(topic, value, key, partition, timestamp=timestamp_ms, headers=list(headers))
            except BufferError:
                # The queue is full: that is the back-pressure.
                self._producer.poll(0.1)
                self._check()
            except KafkaException as error:
                raise self._told(error.args[0]) from error
            else:
                return

    def _begin(self) -> None:
        self._attempt(self._producer.begin_transaction)
        self._open = True

    def _not_delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or error

    def _check(self) -> None:
        if self._failure is not None:
            raise self._told(self._failure)

    def _attempt(self, step: Callable[[], None]) -> None:
        """Run a transactional step; librdkafka says itself when the same call may simply be repeated."""
        for _ in range(_RETRIES):
            try:
                return step()
            except KafkaException as error:
                timed_out = error.args[0].code() == KafkaError._TIMED_OUT  # noqa: SLF001  (as above)
                if timed_out or not error.args[0].retriable():
                    raise self._told(self._failure or error.args[0]) from error
                self._producer.poll(0.1)
        raise RetryableError(f"Kafka did not finish a transaction of {self._name}")

    def _watched(self, step: Callable[[], None]) -> None:
        """Run a step that librdkafka may never return from, whatever its time-out, if the broker dies meanwhile."""
        failed: list[KafkaException] = []

        def run() -> None:
            try:
                step()
            except KafkaException as error:
                failed.append(error)

        # A daemon: one that is stuck must not hold up the end of the process.
        thread = Thread(target=run, daemon=True)
        thread.start()
        thread.join(2 * _STEP_MS / 1000)
        if thread.is_alive():
            self._stuck = True
            raise RetryableError(f"Kafka did not take the positions of {self._name} in {2 * _STEP_MS} ms")
        if failed:
            raise failed[0]

    def _told(self, error: KafkaError) -> Exception:
        if error.code() in _FENCED or "fenced" in error.str().lower():
            return InvariantError(
                f"another `recd route` has taken over as {self._name}; one alone routes a topic to another. To route "
                "it a second time, give that one another worker.app"
            )
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return ConfigError(
                f"the broker allows no transaction of {_TIMEOUT_MS} ms: {error.str()}; raise the broker's "
                "transaction.max.timeout.ms to that, or more"
            )
        if error.code() in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}:
            return ConfigError(
                f"a record is too large for {self._target}: {error.str()}; give the topic max.message.bytes = "
                "topics.max_message_bytes, and the broker's message.max.bytes too"
            )
        return RetryableError(f"Kafka did not take what was routed to {self._target}: {error.str()}")
