"""What back-pressure does at this moment, as Kafka shows it to whoever asks: no worker need be alive.

Owns the two looks: at the mini-batches that are in no checkpoint of the trainer yet, counted by the rules of `ahead`,
and at the last share of sessions that a worker wrote down. Never commits, never joins a group, and decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec
from confluent_kafka import Consumer, KafkaError, TopicPartition

from sessionizer.ahead import Ahead
from sessionizer.gate import SHUT_AT
from sessionizer.recovery import offset_of
from sessionizer.trainer_place import TrainerPlace
from sessionizer.worker_config import WorkerConfig
from streams.clock_mark import WHOLE, ClockMark, MarkKind
from streams.errors import RetryableError
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.kafka.offsets import Bounds, bounds, num_partitions
from streams.kafka.topics import TopicsConfig

_POLL_S: Final = 0.1
_SILENT_POLLS: Final = 100
_FIRST_LOOK: Final = 1_000
"""Marks that are read from the end of a partition at first; where none of them says a share, twice as many before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """Of one partition."""

    partition: int
    ahead_bytes: int
    """Bytes of committed mini-batches that are in no checkpoint of the trainer."""
    ahead_is_all: bool
    """Whether these are all. Counting ends where output waits in any case, since each is read to know its size."""
    shed_share: float | None
    """Share of the sessions that are left out, 0 to 1; None unless `when_ahead` is shed."""


def read_pressure(kafka: KafkaConfig, topics: TopicsConfig, worker: WorkerConfig, group: str) -> list[Pressure]:
    """Ask the brokers about every partition; `group` is the trainer's. Empty without a bound or without topics.

    Raises RetryableError if Kafka does not answer.
    """
    if not worker.max_ahead_bytes:
        return []
    reader = client.consumer(kafka, group=group, partition_eof=True, extra=client.END_SOON)
    try:
        found = []
        for partition in range(num_partitions(reader, topics.minibatches)):
            ahead = _ahead(kafka, topics.minibatches, partition, group, _most_bytes(worker))
            share = _last_share(reader, topics.clock, partition) / WHOLE if worker.when_ahead == "shed" else None
            found.append(
                Pressure(
                    partition=partition,
                    ahead_bytes=ahead.num_bytes,
                    ahead_is_all=not ahead.has_uncounted,
                    shed_share=share,
                )
            )
        return found
    finally:
        reader.close()


def _most_bytes(worker: WorkerConfig) -> int:
    """Where output waits."""
    return worker.max_ahead_bytes * (SHUT_AT if worker.when_ahead == "shed" else 1)


def _ahead(kafka: KafkaConfig, topic: str, partition: int, group: str, most_bytes: int) -> Ahead:
    """What waits in one partition, counted as far as `most_bytes`."""
    trainer = TrainerPlace(kafka, topic, partition, group)
    try:
        first, end = trainer.bounds()
        ahead = Ahead(most_bytes, max(first, trainer.place() or 0), end)
        while (places := ahead.uncounted) is not None:
            sizes, after = trainer.sizes(*places, most_bytes - ahead.num_bytes)
            if after == places[0]:
                raise RetryableError(f"the mini-batches of {topic}[{partition}] did not come; ask again")
            ahead.count(sizes, after)
        return ahead
    finally:
        trainer.close()


def _last_share(reader: Consumer, topic: str, partition: int) -> int:
    """The share that was written down last, in parts of `WHOLE`; 0 if none ever was. Looks from the end backwards."""
    if partition >= num_partitions(reader, topic):
        return 0
    whole = bounds(reader, topic, [partition])[partition]
    end, length = whole.end, _FIRST_LOOK
    while end > whole.start:
        start = max(whole.start, end - length)
        if (share := _share_in(reader, TopicPartition(topic, partition, start), Bounds(start, end))) is not None:
            return share
        end, length = start, 2 * length
    return 0


def _share_in(reader: Consumer, place: TopicPartition, look: Bounds) -> int | None:
    """The last share among the marks with look.start <= offset < look.end; None if they name none."""
    share, silent = None, 0
    reader.assign([place])
    try:
        while silent < _SILENT_POLLS:
            message = reader.poll(_POLL_S)
            if message is None:
                silent += 1
                continue
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own code)
                raise RetryableError(f"clock topic {place.topic}[{place.partition}] could not be read: {error.str()}")
            if error is not None or offset_of(message) >= look.end:
                return share
            decided = _decided(message.value() or b"", place.partition)
            share = share if decided is None else decided
            if offset_of(message) + 1 == look.end:
                return share
    finally:
        reader.unassign()
    raise RetryableError(f"clock topic {place.topic}[{place.partition}] did not answer; ask again")


def _decided(data: bytes, partition: int) -> int | None:
    """The share that a record of the clock topic decides; what is no mark of the partition decides nothing."""
    try:
        mark = ClockMark.decode(data)
    except msgspec.MsgspecError:
        return None
    return mark.shed_share if mark.kind is MarkKind.SHED and mark.partition == partition else None
