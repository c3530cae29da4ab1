"""The registry's client: what each failure means, and that confluent-kafka's own serializers are understood."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from streams.errors import ConfigError, Reason, RetryableError
from streams.events.decode import EventDecoder
from streams.events.formats.choose import choose
from streams.events.formats.config import FormatConfig, FormatName
from streams.kafka.registry import Registry
from tests.streams.events.formats.encode import (
    Shape,
    as_avro,
    as_json,
    avro_registered,
    avro_schema,
    framed,
    protobuf_file,
)
from tests.streams.events.formats.test_formats_agree import agree, polled
from tests.streams.events.records import SCHEMA, event
from tests.streams.kafka.registry_server import RegistryServer, registry_server

SHAPE = Shape(
    {
        "id": "int", "user": "int", "item": "int", "time": "int", "kind": "str", "of": "int", "rating": "int",
        "bought": "int", "price": "float", "age": "float", "seen": "ints",
    },
    {"shop": "int", "tags": "strs"},
)  # fmt: skip
EVENTS = [event(id=i, user=i % 3, unread="x") for i in range(6)]
VALUE = SerializationContext("films", MessageField.VALUE)


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        yield server


def config(server: RegistryServer, name: FormatName = "avro") -> FormatConfig:
    return FormatConfig(name=name, registry=server.url, registry_timeout_ms=500)


def decoder(server: RegistryServer, name: FormatName = "avro") -> EventDecoder:
    settings = config(server, name)
    return EventDecoder(SCHEMA, choose(settings, SCHEMA, lambda: Registry(settings)))


def wanted() -> EventDecoder:
    return EventDecoder(SCHEMA)


def in_json() -> list[bytes]:
    return [as_json(one) for one in EVENTS]


def test_what_confluents_avro_serializer_writes_is_read(registry: RegistryServer) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    serialize = AvroSerializer(client, json.dumps(avro_schema(SHAPE)))
    values = [serialize(dict(one), VALUE) for one in EVENTS]
    agree(decoder(registry).decode(polled(values)), wanted().decode(polled(in_json())))


def test_what_confluents_protobuf_serializer_writes_is_read(registry: RegistryServer) -> None:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(protobuf_file(SHAPE))
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))
    client = SchemaRegistryClient({"url": registry.url})
    serialize = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    values = [serialize(kind(**one), VALUE) for one in EVENTS]
    agree(decoder(registry, "protobuf").decode(polled(values)), wanted().decode(polled(in_json())))


def test_a_schema_is_asked_for_once(registry: RegistryServer) -> None:
    schema_id = registry.register("films-value", {"schema": avro_registered(SHAPE).text})
    reader = decoder(registry)
    for _ in range(3):
        assert len(reader.decode(polled(as_avro(EVENTS, SHAPE, schema_id))).events) == len(EVENTS)
    assert registry.asked == [f"/schemas/ids/{schema_id}"]


def test_an_id_that_the_registry_does_not_know_is_about_the_record_alone(registry: RegistryServer) -> None:
    schema_id = registry.register("films-value", {"schema": avro_registered(SHAPE).text})
    good, bad = as_avro(EVENTS[:1], SHAPE, schema_id), as_avro(EVENTS[1:3], SHAPE, 77)
    decoded = decoder(registry).decode(polled([*bad, *good]))
    assert [(r.offset, r.reason) for r in decoded.rejected] == [
        (0, Reason.UNKNOWN_SCHEMA),
        (1, Reason.UNKNOWN_SCHEMA),
    ]
    assert decoded.events.offset.tolist() == [2]
    assert registry.asked.count("/schemas/ids/77") == 1


def test_a_registry_that_is_off_stops_everything_and_rejects_nothing_until_it_is_on_again(
    registry: RegistryServer,
) -> None:
    schema_id = registry.register("films-value", {"schema": avro_registered(SHAPE).text})
    records, reader = polled(as_avro(EVENTS, SHAPE, schema_id)), decoder(registry)
    registry.off()
    for _ in range(2):
        with pytest.raises(RetryableError, match=f"{registry.url} does not answer"):
            reader.decode(records)
    registry.on()
    agree(reader.decode(records), wanted().decode(polled(in_json())))


def test_what_is_known_needs_no_registry(registry: RegistryServer) -> None:
    schema_id = registry.register("films-value", {"schema": avro_registered(SHAPE).text})
    records, reader = polled(as_avro(EVENTS, SHAPE, schema_id)), decoder(registry)
    reader.decode(records)
    registry.off()
    assert len(reader.decode(records).events) == len(EVENTS)


@pytest.mark.parametrize(
    ("refusal", "error", "told"),
    [
        ((503, '{"error_code": 50301, "message": "leader unknown"}'), RetryableError, "leader unknown"),
        ((500, "<html>oops"), RetryableError, "has a problem"),
        ((429, '{"error_code": 42901, "message": "slow down"}'), RetryableError, "slow down"),
        ((200, "<html>a portal"), RetryableError, "does not answer"),
        ((200, "null"), RetryableError, "does not answer"),
        ((401, '{"error_code": 40101, "message": "who are you"}'), ConfigError, "format.registry_user"),
        ((403, '{"error_code": 40301, "message": "not you"}'), ConfigError, "format.registry_password"),
        ((404, "<html>no such page"), ConfigError, "check format.registry"),
        ((404, '{"error_code": 404, "message": "HTTP 404 Not Found"}'), ConfigError, "check format.registry"),
    ],
)
def test_no_other_answer_is_ever_about_a_record(
    registry: RegistryServer, refusal: tuple[int, str], error: type[Exception], told: str
) -> None:
    registry.refusal = refusal
    with pytest.raises(error, match=told):
        decoder(registry).decode(polled(as_avro(EVENTS, SHAPE, 1)))


def test_types_of_other_avro_subjects_are_found(registry: RegistryServer) -> None:
    whole = avro_schema(SHAPE)
    ctx = whole["fields"][-1]["type"][1]
    registry.register("ctx", {"schema": json.dumps(ctx)})
    text = json.dumps(whole | {"fields": [*whole["fields"][:-1], {"name": "ctx", "type": ["null", "Ctx"]}]})
    references = [{"name": "Ctx", "subject": "ctx", "version": 1}]
    schema_id = registry.register("films-value", {"schema": text, "references": references})
    decoded = decoder(registry).decode(polled(as_avro(EVENTS, SHAPE, schema_id)))
    agree(decoded, wanted().decode(polled(in_json())))


def test_imported_protobuf_files_are_found_and_those_of_protobuf_itself_need_not_be(registry: RegistryServer) -> None:
    shared = descriptor_pb2.FileDescriptorProto(name="shared/who.proto", package="shared", syntax="proto3")
    who = shared.message_type.add(name="Who")
    who.field.add(name="user", number=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_INT64, label=1)
    file = protobuf_file(SHAPE)
    file.dependency.extend(["shared/who.proto", "google/protobuf/wrappers.proto"])
    message = file.message_type[1]
    message.field.add(name="who", number=101, type=11, type_name=".shared.Who", label=1)
    message.field.add(name="box", number=102, type=11, type_name=".google.protobuf.Int64Value", label=1)

    def text(one: descriptor_pb2.FileDescriptorProto) -> str:
        return base64.b64encode(one.SerializeToString()).decode()

    registry.register("who", {"schema": text(shared), "schemaType": "PROTOBUF"})
    references = [{"name": "shared/who.proto", "subject": "who", "version": 1}]
    known = {"schema": text(file), "schemaType": "PROTOBUF", "references": references}
    schema_id = registry.register("films-value", known)
    # user, in `who.user`: field 101 of the event, field 1 of it; the item in a wrapper.
    body = b"\x02\x02" + b"\x08\x07" + b"\xaa\x06\x02\x08\x2a" + b"\xb2\x06\x02\x08\x09"
    roles = replace(SCHEMA.roles, user="who.user", item="box.value", kind=None, kinds={}, impression=None)
    schema = replace(SCHEMA, roles=roles, sparse=(), dense=(), labels=SCHEMA.labels[:1])
    settings = config(registry, "protobuf")
    # `time` is missing: the user and the item are read, and the event is rejected for that alone.
    found = EventDecoder(schema, choose(settings, schema, lambda: Registry(settings))).decode(
        polled([framed(schema_id, body), framed(schema_id, body + b"\x20" + _varint(1_700_000_000_000))])
    )
    assert [r.detail for r in found.rejected] == ["field time: the event time is missing"]
    assert (found.events.user.tolist(), found.events.item.tolist()) == ([42], [9])


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])
