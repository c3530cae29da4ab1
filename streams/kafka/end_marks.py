"""Declares the end of the stream: an end mark for every partition.

Owns where each mark takes effect: behind everything that is in the partition now, of all inputs. Used by whoever fills
an input (`ingest`, `route`), after its last record.
"""

from __future__ import annotations

from streams.clock_mark import ClockMark, MarkKind
from streams.inputs import Input, Position
from streams.kafka.client import KafkaConfig, consumer
from streams.kafka.offsets import bounds
from streams.kafka.outbox import Outbox
from streams.kafka.topics import TopicsConfig


def write_end_marks(
    outbox: Outbox, kafka: KafkaConfig, topics: TopicsConfig, target: Input = Input.INTERACTIONS
) -> None:
    """One a partition, empty ones too. Returns when the broker has them; `target`: the input that the outbox wrote."""
    two = topics.outcomes is not None
    for partition, end in _ends(outbox, kafka, topics, target).items():
        mark = ClockMark.at(end, MarkKind.END, partition=partition, two=two)
        outbox.send_plainly(topics.clock, partition, mark.encode())
    outbox.settle()


def _ends(outbox: Outbox, kafka: KafkaConfig, topics: TopicsConfig, target: Input) -> dict[int, Position]:
    partitions = range(topics.partitions)
    if kafka.plain:
        # The stand-in reports wrong ends; what it told of our own deliveries is right.
        told = outbox.next_offset
        return {partition: Position().moved(target, told.get(partition, 0)) for partition in partitions}
    reader = consumer(kafka, group="recd-ingest", read_committed=False)
    try:
        found = [bounds(reader, topic, partitions) for topic in topics.inputs]
    finally:
        reader.close()
    return {partition: Position(*(of_topic[partition].end for of_topic in found)) for partition in partitions}
