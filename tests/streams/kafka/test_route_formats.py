"""Avro, Protobuf and Arrow routed on real Kafka: every event once, where its user belongs, as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from streams.events.formats.config import REGISTERED, FormatConfig, FormatName
from streams.events.formats.schemas import Registered
from streams.routing.murmur2 import partition_of
from tests.streams.events.formats.encode import (
    Event,
    Shape,
    as_avro,
    as_protobuf,
    as_stream,
    as_table,
    avro_registered,
    protobuf_registered,
)
from tests.streams.kafka.registry_server import RegistryServer, registry_server
from tests.streams.kafka.test_route import AT, PARTITIONS, made, routed, write
from tests.streams.kafka.topic_reader import headers_of, read_topic

pytestmark = pytest.mark.integration

SHAPE = Shape(fields={"id": "int", "user": "str", "item": "int", "at": "int"}, ctx={"page": "str"})
EVENTS: list[Event] = [
    {"id": i, "user": f"u{i % 40}", "item": i % 9, "at": AT + 1_000 * i, "unread": "as it was", "ctx": {"page": "p"}}
    for i in range(300)
]
AT_ONCE = 5


def in_arrow(events: Sequence[Event]) -> list[bytes]:
    """Messages of several events, whose users lie in different partitions."""
    return [as_stream(as_table(events[at : at + AT_ONCE], SHAPE)) for at in range(0, len(events), AT_ONCE)]


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        yield server


def registered(server: RegistryServer, schema: Registered) -> int:
    return server.register("events-value", {"schema": schema.text, "schemaType": schema.kind})


def messages(name: FormatName, server: RegistryServer) -> list[bytes]:
    """The events as a producer of this format writes them."""
    if name == "arrow":
        return in_arrow(EVENTS)
    encode: Callable[[Sequence[Event], Shape, int], list[bytes]] = as_avro if name == "avro" else as_protobuf
    return encode(
        EVENTS, SHAPE, registered(server, (avro_registered if name == "avro" else protobuf_registered)(SHAPE))
    )


def read_back(name: FormatName, value: bytes, known: dict[bytes, Event]) -> list[Event]:
    """The events of a routed message: a message of one event must have come bit by bit."""
    return list(pa.ipc.open_stream(value).read_all().to_pylist()) if name == "arrow" else [known[value]]


@pytest.mark.parametrize("name", ["avro", "protobuf", "arrow"])
def test_events_of_every_format_come_as_they_were_to_the_partition_of_their_user(
    kafka: str, registry: RegistryServer, name: FormatName
) -> None:
    address = registry.url if name in REGISTERED else ""
    config = replace(made(kafka, f"route-{name}"), format=FormatConfig(name=name, registry=address))
    values = messages(name, registry)
    write(config, [*((None, value) for value in values), (None, b"of no format"), (b"u7", None)])
    report = routed(config)
    assert (report.read, report.dead_letter, report.left) == (len(values) + 2, 1, 0)

    known = dict(zip(values, EVENTS, strict=False)) if name != "arrow" else {}
    found: list[int] = []
    tombstones = 0
    for partition, records in enumerate(read_topic(config.kafka, config.target_topic, PARTITIONS)):
        for record in records:
            key, value = record.key() or b"", record.value()
            assert partition == partition_of(key, PARTITIONS)
            if value is None:
                assert key == b"u7"
                tombstones += 1
                continue
            events = read_back(name, value, known)
            assert key == str(events[0]["user"]).encode()
            assert {partition_of(str(event["user"]).encode(), PARTITIONS) for event in events} == {partition}
            assert all(dict(event) == EVENTS[event["id"]] for event in events)
            found += [event["id"] for event in events]
    assert Counter(found) == Counter(range(len(EVENTS))), "each event once"
    assert tombstones == 1
    (letter,) = (one for records in read_topic(config.kafka, config.topics.dead_letter, PARTITIONS) for one in records)
    assert letter.value() == b"of no format"
    assert headers_of(letter)["recd-source"] == config.source.encode()
