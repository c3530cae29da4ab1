"""A program: fetch with confluent-kafka and decode, nothing else. The least that any consumer in Python does.

    python -m benchmarks.sessionizer.confluent_decode '{"kafka", "topic", "partitions", "events", "lists", "decode"}'

decode "fields": the fields that recd reads, as msgspec's typed objects; lists stay bytes. "everything": the same with
every list decoded. "columns": recd's own decoder, to the columns that its core takes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from benchmarks.sessionizer import setup
from benchmarks.sessionizer.by_event import View
from benchmarks.sessionizer.stream import LISTS, Law
from streams.events.decode import EventDecoder
from streams.events.fields import Fields
from streams.kafka import client

FETCH: Final = 10_000


class _Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]]


class _Everything(View, gc=False):
    """All fields of a message of the stream, the long lists too."""

    liked: list[int] = msgspec.field(default_factory=list)
    seen: list[int] = msgspec.field(default_factory=list)
    bought: list[int] = msgspec.field(default_factory=list)


def decoder(decode: str, law: Law) -> Callable[[Sequence[Any]], object]:
    """What is done with the messages of one fetch. Their methods may give None; those of this topic never do."""
    schema = setup.configured("localhost:1", "none", law).schema
    if decode == "columns":
        columns = EventDecoder(schema)
        return lambda messages: columns.decode(
            [_Record("", 0, m.offset(), 0, None, m.value(), ()) for m in messages], now_ms=1 << 60
        )
    if decode == "everything":
        assert set(LISTS) < set(_Everything.__struct_fields__)
        one = msgspec.json.Decoder(_Everything)
        return lambda messages: [one.decode(message.value()) for message in messages]
    fields = Fields.of(schema)
    return lambda messages: fields.parse([message.value() for message in messages])


def main(settings: dict[str, Any]) -> None:
    """Read so many events and say how many they were."""
    read = decoder(settings["decode"], Law(lists=settings["lists"]))
    consumer = client.consumer(setup.plain(settings["kafka"]), group="bench")
    consumer.assign(
        [TopicPartition(settings["topic"], partition, OFFSET_BEGINNING) for partition in range(settings["partitions"])]
    )
    left = settings["events"]
    while left:
        messages = consumer.consume(FETCH, 1.0)
        if messages:
            read(messages)
        left -= len(messages)
    consumer.close()
    sys.stdout.write(json.dumps({"events": settings["events"] - left}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
