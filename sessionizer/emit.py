"""Outlets on Kafka: what a partition emits, with and without transactions.

Owns the producer of a partition, the shape of every record it writes, and how Kafka's failures are told apart:
another owner (FencedError), a partition to recover (RetryableError). Never decides what is emitted.

Blocking throughout: an outlet lives in its partition's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sessionizer.changelog import profile_key
from sessionizer.outlet import Arrived, CutPlace, FencedError
from sessionizer.progress import Progress, chunk_key, progress_key, to_chunks
from sessionizer.recovery import offset_of
from sessionizer.worker_config import WorkerConfig
from streams import wire
from streams.clock_mark import ClockMark
from streams.errors import ConfigError, RecdError, RetryableError
from streams.events.record import Rejected
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.kafka.dead_letter import dead_letter
from streams.kafka.end_record import end_record
from streams.kafka.identity import topic_ids
from streams.kafka.topics import TopicsConfig
from streams.minibatch import MiniBatch

SEQUENCE, PARTITION, WATERMARK = "recd-sequence", "recd-partition", "recd-watermark-ms"
"""Headers of a mini-batch: what a reader may want to know without decoding it."""
_TIMEOUT_MS: Final = 60_000
"""A transaction that Kafka does not finish in this time is given up, and the partition recovered."""
_LONGEST_TRANSACTION_MS: Final = 900_000
"""What brokers allow, unless told otherwise."""
_MISSING_MS: Final = 5_000
_RETRIES: Final = 10
_FENCED: Final = (
    KafkaError._FENCED,  # noqa: SLF001  (librdkafka's own codes are spelt with an underscore)
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
)
_NO_TOPIC: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001  (as above)
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001  (as above)
)

Headers = Sequence[tuple[str, bytes]]
Answer = TypeVar("Answer")


class PlainOutlet:
    """Writes at once: for a broker that has no transactions.

    After a crash, what was sent since the last progress record is sent again. A reader must drop mini-batches
    whose sequence it has seen; dead letters may be there twice.
    """

    def __init__(self, partition: int, producer: Producer, topics: TopicsConfig, config: WorkerConfig) -> None:
        self._partition = partition
        self._producer = producer
        self._topics = topics
        self._chunk_bytes = config.cut_chunk_bytes
        self._last_mark = -1
        self.topic_ids: dict[str, str] = {}
        """What the progress says of the topics; known once the outlet is open."""
        self._failure: KafkaError | None = None
        self._failed_topic = ""
        self.open_bytes = 0

    def send_batch(self, batch: MiniBatch, arrived: Arrived | None = None) -> int:
        value = wire.encode(batch)
        if len(value) > self._topics.max_message_bytes:
            raise ConfigError(
                f"mini-batch {batch.sequence} of partition {self._partition} has {len(value)} bytes, more than "
                f"topics.max_message_bytes = {self._topics.max_message_bytes}; raise it, or lower batch.max_bytes"
            )
        headers = [
            (SEQUENCE, str(batch.sequence).encode()),
            (PARTITION, str(batch.partition).encode()),
            (WATERMARK, str(batch.watermark_ms).encode()),
        ]
        told = None if arrived is None else partial(_tell, arrived, len(value))
        self._send(self._topics.minibatches, value, headers=headers, delivered=told)
        return len(value)

    def send_end(self, epoch: int) -> None:
        value, headers = end_record(epoch)
        self._send(self._topics.minibatches, value, headers=headers)

    def send_dead_letter(self, rejected: Rejected) -> None:
        letter = dead_letter(rejected)
        self._send(self._topics.dead_letter, letter.value, key=letter.key, headers=letter.headers)

    def send_mark(self, mark: ClockMark) -> None:
        self._send(self._topics.clock, mark.encode(), delivered=self._note_mark)

    def send_cut(self, data: bytes, number: int, stale_chunks: int) -> CutPlace:
        first: list[int] = []
        chunks = to_chunks(data, number, self._chunk_bytes)
        for index, chunk in enumerate(chunks):
            self._send(self._topics.cuts, chunk, key=chunk_key(self._partition, index), delivered=first.append)
        for index in range(len(chunks), stale_chunks):
            self._send(self._topics.cuts, None, key=chunk_key(self._partition, index))
        self._flush()
        return CutPlace(first_offset=min(first), chunks=len(chunks))

    def send_profiles(self, values: Mapping[int, bytes | None]) -> int | None:
        offsets: list[int] = []
        for user, value in values.items():
            self._send(self._topics.profiles, value, key=profile_key(user), delivered=offsets.append)
        if not values:
            return None
        self._flush()
        return max(offsets) + 1

    def commit(self, progress: Progress) -> int:
        # Without transactions order is all there is: progress is written after everything else has arrived.
        self._flush()
        self._send_progress(progress)
        self._flush()
        return self._committed()

    def close(self) -> None:
        self._producer.purge()
        # Whoever leaves does not want to know what has failed.
        with suppress(RecdError):
            self._ask(lambda: self._producer.flush(0))

    def _send_progress(self, progress: Progress) -> None:
        outcomes = self._topics.outcomes
        named = msgspec.structs.replace(
            progress,
            source=self._topics.interactions,
            topic_ids=self.topic_ids,
            outcomes=msgspec.UNSET if outcomes is None else outcomes,
        )
        self._send(self._topics.cuts, named.encode(), key=progress_key(self._partition))

    def _committed(self) -> int:
        self.open_bytes = 0
        mark, self._last_mark = self._last_mark, -1
        return mark

    def _send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        delivered: Callable[[int], None] | None = None,
    ) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failed_topic = self._failed_topic or topic
                self._failure = self._failure or error
            elif delivered is not None:
                delivered(offset_of(message))

        self.open_bytes += len(value or b"") + len(key or b"")
        while True:
            try:
                self._producer.produce(
                    topic, value, key, self._partition, on_delivery=on_delivery, headers=list(headers)
                )
            except BufferError:
                # librdkafka's queue is full: deliver, then go on. This is where back-pressure starts.
                self._ask(lambda: self._producer.poll(0.1))
                self._check()
            except KafkaException as error:
                raise failure(self._cause(error.args[0]), self._partition, topic) from error
            else:
                self._ask(lambda: self._producer.poll(0))
                return

    def _flush(self) -> None:
        left = self._ask(lambda: self._producer.flush(_TIMEOUT_MS / 1000))
        self._check()
        if left:
            raise RetryableError(f"{left} records of partition {self._partition} were not taken in {_TIMEOUT_MS} ms")

    def _check(self) -> None:
        if self._failure is not None:
            raise failure(self._cause(self._failure), self._partition, self._failed_topic)

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        """Call the client. Once it has failed for good it raises from any call, or breaks that call (SystemError)."""
        try:
            return call()
        except KafkaException as error:
            raise failure(self._cause(error.args[0]), self._partition) from error
        except SystemError as error:
            raise failure(self._cause(KafkaError(KafkaError._FATAL)), self._partition) from error  # noqa: SLF001  (as above)

    def _cause(self, error: KafkaError) -> KafkaError:
        """The error behind one."""
        return error

    def _note_mark(self, offset: int) -> None:
        self._last_mark = max(self._last_mark, offset)


class TransactionalOutlet(PlainOutlet):
    """Exactly once: everything between two commits becomes visible together, from one owner of the partition only."""

    def __init__(self, partition: int, producer: Producer, topics: TopicsConfig, config: WorkerConfig) -> None:
        super().__init__(partition, producer, topics, config)
        self._open = False
        self._attempt(lambda: producer.init_transactions(_TIMEOUT_MS / 1000))

    def commit(self, progress: Progress) -> int:
        self._send_progress(progress)
        self._flush()
        self._attempt(lambda: self._producer.commit_transaction(_TIMEOUT_MS / 1000))
        self._open = False
        return self._committed()

    def close(self) -> None:
        # What is not committed is aborted by the next owner's init_transactions; asking the broker now only saves time.
        super().close()
        if self._open:
            try:
                self._producer.abort_transaction(1)
            except KafkaException:
                self._open = False

    def _send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        delivered: Callable[[int], None] | None = None,
    ) -> None:
        if not self._open:
            self._attempt(self._producer.begin_transaction)
            self._open = True
        super()._send(topic, value, key=key, headers=headers, delivered=delivered)

    def _cause(self, error: KafkaError) -> KafkaError:
        # Why the client has failed for good it says once, to whichever call comes next; but a new transaction is
        # always refused with the reason.
        try:
            self._producer.begin_transaction()
        except KafkaException as refusal:
            return refusal.args[0] if refusal.args[0].fatal() else error
        return error

    def _attempt(self, step: Callable[[], None]) -> None:
        """Run a transactional step; librdkafka says itself when the same call may simply be repeated."""
        for _ in range(_RETRIES):
            try:
                return step()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise failure(self._cause(error.args[0]), self._partition) from error
                self._ask(lambda: self._producer.poll(0.1))
        raise RetryableError(f"Kafka did not finish a transaction of partition {self._partition}")


def _tell(arrived: Arrived, num_bytes: int, offset: int) -> None:
    arrived(offset, num_bytes)


def open_outlet(partition: int, kafka: KafkaConfig, topics: TopicsConfig, config: WorkerConfig) -> PlainOutlet:
    """The outlet of a partition; older writers of the partition are fenced from here on."""
    name = config.transactional_id(partition)
    settings: dict[str, object] = {
        "linger.ms": 5,
        # The topics are made before a worker starts: one that is not there soon is missing.
        "topic.metadata.propagation.max.ms": _MISSING_MS,
        "queue.buffering.max.kbytes": 2 * config.max_transaction_bytes // 1024,
    }
    if not kafka.plain:
        # A worker that slept for less than a session is still the owner, but a transaction that ran out meanwhile looks
        # as if it had another one.
        lasts_ms = min(2 * config.session_timeout_ms, _LONGEST_TRANSACTION_MS)
        settings["transaction.timeout.ms"] = max(_TIMEOUT_MS, lasts_ms)
    producer = client.producer(
        kafka,
        client_id=name,
        transactional_id=None if kafka.plain else name,
        # Mini-batches and cuts are compressed already.
        compression="none",
        max_message_bytes=topics.max_message_bytes,
        extra=settings,
    )
    outlet = (PlainOutlet if kafka.plain else TransactionalOutlet)(partition, producer, topics, config)
    outlet.topic_ids = topic_ids(kafka, (*topics.inputs, topics.minibatches))
    return outlet


def failure(error: KafkaError, partition: int, topic: str = "") -> Exception:
    """What a Kafka error means for the partition; `topic` is the one that was written to, where that is known."""
    where = f"{topic}[{partition}]" if topic else f"partition {partition}"
    if error.code() in _FENCED or "fenced" in str(error).lower():
        return FencedError(f"another worker has taken over partition {partition}: {error.str()}")
    if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return ConfigError(
            f"the broker allows no transaction as long as a worker asks for, {_TIMEOUT_MS} ms or twice "
            f"worker.session_timeout_ms: {error.str()}; lower worker.session_timeout_ms, or raise the broker's "
            "transaction.max.timeout.ms"
        )
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return ConfigError(
            f"a record for {where} is too large for the broker: {error.str()}; give the topic max.message.bytes = "
            "topics.max_message_bytes, and the broker's message.max.bytes too"
        )
    if error.code() in _NO_TOPIC:
        return RetryableError(f"{where} does not exist, so nothing is processed until it does: {error.str()}")
    return RetryableError(f"Kafka failed for {where}: {error.str()}")
