"""The journal on Kafka: progress, cuts and clock marks of one partition, read back.

Owns the partition's consumer and every question put to Kafka about the past. Never writes, never joins a group.

Reading a partition of the cuts topic: its last records hold a progress record, which says where the cut begins; so
two short reads are enough, however long the topic has grown. Everything is read committed: an open or aborted
transaction of an earlier owner is never seen.

Blocking throughout: a journal lives in its partition's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sessionizer.outlet import Recovered
from sessionizer.progress import CutRef, Progress, chunk_index, from_chunks, progress_key
from streams.clock_mark import ClockMark
from streams.errors import ConfigError, InvariantError, RetryableError
from streams.inputs import Position
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.kafka.identity import topic_ids
from streams.kafka.topics import TopicsConfig

_TIMEOUT_MS: Final = 30_000
_TAIL_RECORDS: Final = 64
"""A progress record is the last of its transaction; this many offsets from the end nearly always hold one."""
_MOST_MARKS: Final = 10_000
_POLL_S: Final = 0.1
_POLLS: Final = _TIMEOUT_MS // 100

PlacedMarks = list[tuple[int, ClockMark | None]]


class KafkaJournal:
    """Reads what was written about one partition."""

    def __init__(
        self, partition: int, kafka: KafkaConfig, topics: TopicsConfig, *, warn: Callable[[str], None]
    ) -> None:
        self._partition = partition
        self._kafka = kafka
        self._topics = topics
        self._warn = warn
        self._goes_on = False
        """Whether there is a cut, so that every mark behind it is needed."""
        # The group is a name only: nothing is ever committed or balanced.
        group = f"{topics.minibatches}-journal"
        self._consumer: Consumer = client.consumer(kafka, group=group, partition_eof=True, extra=client.END_SOON)

    def load(self) -> Recovered:
        bounds = [self._bounds(topic) for topic in self._topics.inputs]
        begin, end = (Position(*of_inputs) for of_inputs in zip(*bounds, strict=True))
        first, last = self._bounds(self._topics.cuts)
        progress = self._progress_from(max(first, last - _TAIL_RECORDS))
        if progress is None and last - first > _TAIL_RECORDS:
            progress = self._progress_from(first)
        if progress is None:
            self._expect_nothing_emitted()
        progress = progress or Progress(source=self._topics.interactions)
        if progress.source != self._topics.interactions:
            raise ConfigError(
                f"{self._topics.minibatches} is made from {progress.source}, not from {self._topics.interactions}: two "
                "sources in it would be taken for copies of each other; set another topics.minibatches"
            )
        if self._topics.outcomes is not None and progress.outcomes not in {msgspec.UNSET, self._topics.outcomes}:
            raise ConfigError(
                f"{self._topics.minibatches} takes its outcomes from {progress.outcomes}, not from "
                f"{self._topics.outcomes}; set that again, or another topics.minibatches and worker.app"
            )
        self._expect_same_topics(progress)
        cut = self._cut(progress.cut) if progress.cut else None
        self._goes_on = cut is not None
        return Recovered(progress=progress, cut=cut, begin=begin, end=end)

    def _expect_same_topics(self, progress: Progress) -> None:
        found = topic_ids(self._kafka, progress.topic_ids)
        for name, known in progress.topic_ids.items():
            if found.get(name, known) != known:
                raise InvariantError(
                    f"topic {name} was deleted and made anew since {self._topics.cuts} was written: positions in it "
                    "mean nothing any more; choose another worker.app and mini-batch topic, or delete all of "
                    f"{self._topics.minibatches}, {self._topics.cuts} and {self._topics.clock} to begin anew"
                )

    def _expect_nothing_emitted(self) -> None:
        """Without progress there must be no mini-batch: it was written before, and would be written again."""
        first, last = self._bounds(self._topics.minibatches)
        if first < last and not self._kafka.plain and any(self._read(self._topics.minibatches, first)):
            raise InvariantError(
                f"{self._topics.minibatches}[{self._partition}] holds mini-batches, but {self._topics.cuts} knows of "
                "none: it was deleted or emptied, so what was emitted would be emitted again; restore it, or choose "
                "another worker.app and mini-batch topic"
            )

    def start_clock(self, clock_offset: int) -> PlacedMarks:
        first, _ = self._bounds(self._topics.clock)
        if clock_offset < first and self._goes_on:
            raise InvariantError(
                f"clock marks {clock_offset} to {first} of partition {self._partition} have expired, so what they "
                "decided cannot be repeated; give the clock topic at least the retention of the interactions"
            )
        return [self._placed(message) for message in self._read(self._topics.clock, max(first, clock_offset))]

    def new_marks(self) -> PlacedMarks:
        found: PlacedMarks = []
        while len(found) < _MOST_MARKS and (message := self._poll(self._topics.clock, 0.0)) is not None:
            found.append(self._placed(message))
        return found

    def marks_through(self, clock_offset: int) -> PlacedMarks:
        found: PlacedMarks = []
        for _ in range(_POLLS):
            message = self._poll(self._topics.clock, _POLL_S)
            if message is not None:
                found.append(self._placed(message))
            if clock_offset < 0 or (found and found[-1][0] >= clock_offset):
                return found
        raise RetryableError(
            f"clock mark {clock_offset} of partition {self._partition} was written but does not come back"
        )

    def close(self) -> None:
        self._consumer.close()

    def _progress_from(self, offset: int) -> Progress | None:
        key = progress_key(self._partition)
        values = [message.value() for message in self._read(self._topics.cuts, offset) if message.key() == key]
        return Progress.decode(values[-1] or b"") if values else None

    def _cut(self, cut: CutRef) -> bytes:
        chunks: dict[int, bytes] = {}
        for message in self._read(self._topics.cuts, cut.first_offset):
            index, value = chunk_index(message.key() or b""), message.value()
            if index is not None and value is not None:
                chunks[index] = value
        data = from_chunks(cut, chunks)
        if data is None:
            raise InvariantError(
                f"cut {cut.number} of partition {self._partition} is incomplete or damaged in {self._topics.cuts}; "
                "restore that topic from a copy, or start again from the beginning with another worker.app and topics"
            )
        return data

    def _placed(self, message: Message) -> tuple[int, ClockMark | None]:
        offset, place = offset_of(message), f"{self._topics.clock}[{self._partition}]"
        try:
            mark = ClockMark.decode(message.value() or b"")
        except msgspec.MsgspecError as error:
            self._warn(f"record {offset} of {place} is no clock mark and is ignored: {error}")
            return offset, None
        if mark.partition != self._partition:
            self._warn(f"record {offset} of {place} is about partition {mark.partition} and is ignored")
            return offset, None
        return offset, mark

    def _bounds(self, topic: str) -> tuple[int, int]:
        """First offset that exists and the one after the last that is committed."""
        try:
            bounds = self._consumer.get_watermark_offsets(TopicPartition(topic, self._partition), _TIMEOUT_MS / 1000)
        except KafkaException as error:
            raise RetryableError(
                f"Kafka does not say where {topic}[{self._partition}] ends: {error.args[0]}"
            ) from error
        if bounds is None:
            raise RetryableError(f"Kafka did not say in {_TIMEOUT_MS} ms where {topic}[{self._partition}] ends")
        return int(bounds[0]), int(bounds[1])

    def _read(self, topic: str, offset: int) -> Iterator[Message]:
        """Every record from `offset` to the end; afterwards the consumer stands at the end."""
        self._consumer.assign([TopicPartition(topic, self._partition, offset)])
        for _ in range(_POLLS):
            while (message := self._consumer.poll(_POLL_S)) is not None:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own code)
                    return
                else:
                    raise RetryableError(f"reading {topic}[{self._partition}] failed: {error}")
        raise RetryableError(f"the end of {topic}[{self._partition}] was not reached in {_TIMEOUT_MS} ms")

    def _poll(self, topic: str, timeout_s: float) -> Message | None:
        """The next record, if there is one."""
        message = self._consumer.poll(timeout_s)
        if message is None or (error := message.error()) is None:
            return message
        if error.code() != KafkaError._PARTITION_EOF and not error.retriable():  # noqa: SLF001  (librdkafka's own code)
            raise RetryableError(f"reading {topic}[{self._partition}] failed: {error}")
        return self._poll(topic, 0.0)


def offset_of(message: Message) -> int:
    """The record's offset; every consumed record has one."""
    offset = message.offset()
    assert offset is not None, "a consumed record has an offset"
    return offset
