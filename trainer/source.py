"""Mini-batches out of Kafka: one thread that fetches whole batches, decodes them and fills the buffer.

Owns the consumer and its thread. Positions are the checkpoint's (`topic.starts`); the group is never read and
never joined, and what is committed to it is for observers only. Reads committed records only, pauses the
partitions whose share of the buffer is full and keeps polling meanwhile.

Stops with an error that surfaces in the loop: an offset out of range, a deleted topic, a gap in the sequence, a
record that cannot be decoded (policy: stop; a mini-batch is made by us, so damage to one is not the user's bad
record and dropping it would lose up to a thousand samples). Never resets, never skips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams.errors import InvariantError, RecdError, WireError
from streams.kafka.end_record import epoch_of, is_end
from streams.metrics import Reporter
from streams.minibatch import MiniBatch
from trainer.buffer import Buffer
from trainer.intake import Intake, Item
from trainer.source_config import SourceConfig

_LOG = structlog.get_logger(__name__)
_STOP_S: Final = 10.0
_HOPELESS: Final = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic or partition is gone; restore it, then start again",
    KafkaError._UNKNOWN_TOPIC: "the topic is gone; restore it, then start again",  # noqa: SLF001  (librdkafka's name)  (librdkafka's own)
    KafkaError._UNKNOWN_PARTITION: "the partition is gone; restore the topic, then start again",  # noqa: SLF001  (librdkafka's name)
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "reading is not allowed; grant READ on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the group is not allowed; grant READ on it or change source.group",
    KafkaError._AUTO_OFFSET_RESET: (  # noqa: SLF001  (the same)
        "the offset is out of range: retention removed it or the topic was recreated while running. Nothing is reset; "
        "rebuild the mini-batches by replay, or give a new lineage its own checkpoint.directory"
    ),
}


class Source:
    """The reader. `start`, then take from the buffer; `stop` ends the thread."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        intakes: Mapping[int, Intake],
        buffer: Buffer,
        decode: Callable[[bytes], MiniBatch],
        config: SourceConfig,
        commits: Commits,
        end_epoch: int,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._intakes = intakes
        self._buffer = buffer
        self._decode = decode
        self._config = config
        self._commits = commits
        self._end_epoch = end_epoch
        self._paused: set[int] = set()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="recd-source", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Send what is still to be committed and end the thread."""
        self._stopping.set()
        self._buffer.close()
        self._thread.join(_STOP_S)

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Tell observers that everything before these offsets is in a checkpoint. Returns at once."""
        self._commits.offer(next_offsets)

    @property
    def duplicates(self) -> int:
        """Mini-batches that were dropped because they had been trained."""
        return sum(intake.duplicates for intake in self._intakes.values())

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._pace()
                for message in self._fetch():
                    self._receive(message)
                self._commits.send(self._consumer, self._topic)
            self._commits.send(self._consumer, self._topic, wait=True)
        except BaseException as error:  # noqa: BLE001  (a reader that dies in silence is the worst of all)
            self._buffer.fail(error)
        finally:
            self._consumer.close()

    def _fetch(self) -> list[Message]:
        """What is there, without waiting for a full batch: `consume` alone would wait for one."""
        first = self._consumer.poll(self._config.poll_ms / 1000)
        if first is None:
            return []
        return [first, *self._consumer.consume(self._config.fetch_batches - 1, timeout=0)]

    def _pace(self) -> None:
        full = {partition for partition in self._intakes if self._buffer.is_full(partition)} - self._paused
        low = {partition for partition in self._paused if self._buffer.is_low(partition)}
        if full:
            self._consumer.pause([TopicPartition(self._topic, partition) for partition in full])
        if low:
            self._consumer.resume([TopicPartition(self._topic, partition) for partition in low])
        self._paused = (self._paused | full) - low

    def _receive(self, message: Message) -> None:
        try:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None:
                self._accept(message, _known(partition), _known(offset))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own)
                self._at_end(_known(partition), _known(offset))
            else:
                _judge(error)
        except RecdError as refusal:
            refusal.add_note(f"at {self._topic} partition {message.partition()} offset {message.offset()}")
            raise

    def _accept(self, message: Message, partition: int, offset: int) -> None:
        intake = self._intakes[partition]
        given = message.headers() or []
        headers = list(given.items()) if isinstance(given, dict) else given
        if is_end(headers):
            intake.ends(epoch_of(headers))
            return
        value = message.value()
        if value is None:
            raise WireError("the record has no value and no end header; who else writes to this topic?")
        batch = self._decode(value)
        if batch.partition != partition:
            raise WireError(f"the mini-batch says partition {batch.partition} but stands in {partition}")
        if intake.accepts(batch.sequence, offset):
            # The content hash is made here, once, so that the composing thread does not pay for it.
            _ = batch.content_hash
            self._buffer.put(Item(partition=partition, offset=offset, num_bytes=len(value), batch=batch))
            self._commits.delivered(partition, offset + 1)

    def _at_end(self, partition: int, offset: int) -> None:
        self._commits.reached(partition, offset)
        if self._intakes[partition].ended_epoch >= self._end_epoch:
            self._buffer.end(partition)


class Commits:
    """Offsets for observers: what is in a checkpoint, never backwards, failures counted and superseded.

    A partition whose last mini-batch is in the checkpoint is committed up to the end that was seen, so that end
    records and transaction markers, which nobody trains on, do not show as lag for ever.
    """

    def __init__(self, reporter: Reporter, *, silent: bool = False) -> None:
        self._reporter = reporter
        self._silent = silent
        self._lock = Lock()
        self._offered: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        self._reached: dict[int, int] = {}
        self.failures = 0

    def offer(self, next_offsets: Mapping[int, int]) -> None:
        """Newest offsets that may be committed."""
        with self._lock:
            self._offered.update(next_offsets)

    def delivered(self, partition: int, next_offset: int) -> None:
        """A mini-batch was delivered; `next_offset` follows it."""
        self._delivered[partition] = next_offset

    def reached(self, partition: int, offset: int) -> None:
        """Everything before `offset` was delivered."""
        self._reached[partition] = offset

    def send(self, consumer: Consumer, topic: str, *, wait: bool = False) -> None:
        """Commit what is new, from the reader's thread."""
        due = {} if self._silent else self._due()
        if not due:
            return
        offsets = [TopicPartition(topic, partition, offset) for partition, offset in due.items()]
        try:
            if wait:
                consumer.commit(offsets=offsets, asynchronous=False)
            else:
                consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self.settle(error.args[0], offsets)
        self._sent.update(due)

    def settle(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """The answer to a commit. A failed one is not repeated: the next checkpoint's supersedes it."""
        if error is None:
            return
        self.failures += 1
        self._reporter.count("recd_commit_failures_total")
        _LOG.warning("commit_failed", error=str(error), partitions=[offset.partition for offset in offsets])

    def _due(self) -> dict[int, int]:
        with self._lock:
            offered = dict(self._offered)
        for partition, offset in offered.items():
            if offset >= self._delivered.get(partition, 0):
                offered[partition] = max(offset, self._reached.get(partition, 0))
        return {partition: offset for partition, offset in offered.items() if offset > self._sent.get(partition, -1)}


def _known(place: int | None) -> int:
    assert place is not None, "a delivered record has a place"
    return place


def _judge(error: KafkaError) -> None:
    """Raise on what will not heal; log what librdkafka retries by itself."""
    if error.code() in _HOPELESS:
        raise InvariantError(f"{_HOPELESS[error.code()]} ({error.str()})")
    if error.fatal():
        raise InvariantError(f"the Kafka client gave up: {error.str()}")
    _LOG.warning("kafka_error", error=error.str(), code=error.name())
