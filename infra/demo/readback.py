"""The mini-batches of a finished run, read once more from their topic.

Owns: reading every partition up to its end record, each mini-batch once, and putting them in the order in which the
ledger says they were trained.
Never: changes anything; its consumer group is never committed to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from infra.clock import Clock, Deadline
from streams import wire
from streams.errors import InvariantError, RetryableError
from streams.kafka.client import KafkaConfig, consumer
from streams.kafka.end_record import is_end
from streams.kafka.topics import TopicsConfig
from streams.minibatch import MiniBatch
from streams.stage import Stage
from trainer.ledger import Line

SILENCE_MS: Final = 30_000
"""An end record that does not come for so long will not come."""
FETCH: Final = 500


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """One mini-batch as it lies in the topic."""

    partition: int
    offset: int
    num_bytes: int
    batch: MiniBatch


def read_all(kafka: KafkaConfig, topics: TopicsConfig, clock: Clock) -> list[Stored]:
    """Every mini-batch up to the end records, by partition and sequence."""
    with_end: set[int] = set()
    stored: dict[tuple[int, int], Stored] = {}

    def take(message: Any) -> None:  # noqa: ANN401  (confluent-kafka ships no types)
        partition = int(message.partition())
        if is_end(message.headers()):
            with_end.add(partition)
        elif partition not in with_end:
            batch = wire.decode(message.value())
            # A broker without transactions may hold a mini-batch twice; the first one was trained.
            stored.setdefault(
                (partition, batch.sequence), Stored(partition, int(message.offset()), len(message.value()), batch)
            )

    reader = consumer(kafka, group="recd-demo-readback")
    try:
        reader.assign([TopicPartition(topics.minibatches, partition, 0) for partition in range(topics.partitions)])
        _until(lambda: len(with_end) == topics.partitions, reader, take, clock)
    finally:
        reader.close()
    return [stored[key] for key in sorted(stored)]


def count(kafka: KafkaConfig, topic: str, partitions: int) -> int:
    """Records between the first and the last offset of a topic that is written without transactions."""
    reader = consumer(kafka, group="recd-demo-readback")
    try:
        bounds = [
            reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            for partition in range(partitions)
        ]
    finally:
        reader.close()
    return sum(high - low for low, high in bounds)


def in_trained_order(stored: Iterable[Stored], lines: Iterable[Line]) -> list[list[Stored]]:
    """The mini-batches of each step, as the ledger has them; InvariantError if it names one that is not there."""
    found = {(each.partition, each.batch.sequence): each for each in stored}
    steps = []
    for line in lines:
        step = [found.get((entry.partition, entry.sequence)) for entry in line.batches]
        for entry, each in zip(line.batches, step, strict=True):
            if each is None or each.batch.content_hash != entry.content_hash:
                raise InvariantError(
                    f"step {line.step} trained partition {entry.partition} sequence {entry.sequence} with content "
                    f"{entry.content_hash:016x}, but the topic holds {'none' if each is None else 'another'} there"
                )
        steps.append([each for each in step if each is not None])
    return steps


def lineage_of(steps: Sequence[Sequence[Stored]]) -> list[tuple[int, int]]:
    """(partition, offset) of the event behind every trained sample, in the order of training; no corrections."""
    return [
        (each.partition, int(offset))
        for step in steps
        for each in step
        for offset in each.batch.lineage.offset[each.batch.stages != Stage.CORRECTION].tolist()
    ]


def _until(done: Callable[[], bool], reader: Consumer, take: Callable[[Any], None], clock: Clock) -> None:
    deadline = Deadline.after(clock, SILENCE_MS)
    while not done():
        messages = [message for message in reader.consume(FETCH, timeout=0.2) if message.error() is None]
        for message in messages:
            take(message)
        if messages:
            deadline = Deadline.after(clock, SILENCE_MS)
        if deadline.passed:
            raise RetryableError(f"the mini-batch topic has no end record in some partition after {SILENCE_MS} ms")
