"""Avro and Protobuf messages, one rule at a time."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import replace

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.errors import ConfigError, Reason
from streams.events.decode import Decoded, EventDecoder
from streams.events.event import EventBatch
from streams.events.formats.avro import AvroPlan
from streams.events.formats.framed import Framed, MakePlan
from streams.events.formats.protobuf import ProtobufPlan
from streams.events.formats.schemas import Part, Registered
from streams.events.schema import EventSchema, Label
from tests.streams.events.formats.encode import (
    MemorySchemas,
    Shape,
    as_avro,
    as_protobuf,
    avro_registered,
    avro_schema,
    framed,
    protobuf_file,
    protobuf_registered,
    without,
)
from tests.streams.events.records import NOW_MS, ROLES, SCHEMA, event, raw

SHAPE = Shape(
    {
        "id": "int", "user": "int", "item": "int", "time": "int", "kind": "str", "of": "int", "rating": "int",
        "bought": "int", "price": "float", "age": "float", "seen": "ints",
    },
    {"shop": "int", "tags": "strs"},
)  # fmt: skip
AVRO_1 = {1: avro_registered(SHAPE)}
PROTOBUF_1 = {1: protobuf_registered(SHAPE)}
PLANS: dict[str, tuple[MakePlan, Mapping[int, Registered]]] = {
    "avro": (AvroPlan, AVRO_1),
    "protobuf": (ProtobufPlan, PROTOBUF_1),
}
ENCODE = {"avro": as_avro, "protobuf": as_protobuf}


def decode(plan: MakePlan, schemas: Mapping[int, Registered], *values: bytes, schema: EventSchema = SCHEMA) -> Decoded:
    decoder = EventDecoder(schema, Framed(schema, MemorySchemas(schemas), plan))
    return decoder.decode([raw(value, i) for i, value in enumerate(values)])


def reasons(decoded: Decoded) -> list[Reason]:
    return [rejected.reason for rejected in decoded.rejected]


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0\0\0", b"\1\0\0\0\1x", b'{"id": 1}'])
def test_what_names_no_schema_is_a_broken_message(name: str, value: bytes) -> None:
    decoded = decode(*PLANS[name], value, *ENCODE[name]([event()], SHAPE))
    assert reasons(decoded) == [Reason.BROKEN_MESSAGE]
    assert decoded.events.offset.tolist() == [1]


@pytest.mark.parametrize("name", PLANS)
def test_a_schema_of_another_kind_rejects_its_messages(name: str) -> None:
    plan, _ = PLANS[name]
    other = {1: Registered(kind="JSON", text="{}")}
    decoded = decode(plan, other, *ENCODE[name]([event()], SHAPE))
    assert reasons(decoded) == [Reason.UNKNOWN_SCHEMA]
    assert f"[format] says {name}" in decoded.rejected[0].detail


@pytest.mark.parametrize("name", PLANS)
def test_a_schema_that_cannot_be_read_stops_everything_and_rejects_nothing(name: str) -> None:
    plan, _ = PLANS[name]
    broken = {1: Registered(kind=name.upper(), text='syntax = "proto3"; message Event {}')}
    with pytest.raises(ConfigError, match="in the registry cannot be read"):
        decode(plan, broken, *ENCODE[name]([event()], SHAPE))


@pytest.mark.parametrize("name", PLANS)
def test_a_field_that_the_schema_lacks_is_missing(name: str) -> None:
    shape = without(SHAPE, "age", "rating", "bought", "of")
    register = {"avro": avro_registered, "protobuf": protobuf_registered}[name]
    values = ENCODE[name]([event(age=..., rating=..., bought=...) | {"unread": "x"}], shape)
    decoded = decode(PLANS[name][0], {1: register(shape)}, *values)
    assert decoded.events.dense.tolist() == [[1.5, -1.0]]
    shape = without(SHAPE, "user")
    values = ENCODE[name]([event(user=...)], shape)
    assert reasons(decode(PLANS[name][0], {1: register(shape)}, *values)) == [Reason.MISSING_FIELD]


@pytest.mark.parametrize("name", PLANS)
def test_unknown_ids_are_forgotten_rather_than_hoarded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.events.formats.framed._MOST_UNKNOWN", 3)
    plan, schemas = PLANS[name]
    known = MemorySchemas(schemas)
    reader = Framed(SCHEMA, known, plan)
    records = [raw(framed(100 + i, b""), i) for i in range(10)]
    assert len(EventDecoder(SCHEMA, reader).decode(records).rejected) == 10
    assert len(reader._refused) <= 3


@pytest.mark.parametrize("name", PLANS)
def test_names_that_contradict_each_other_are_refused_as_in_json(name: str) -> None:
    for field in ("seen", "ctx.shop.x", "ctx"):
        schema = replace(SCHEMA, labels=(Label(name="odd", field=field),))
        with pytest.raises(ConfigError):
            Framed(schema, MemorySchemas({}), PLANS[name][0])


@pytest.mark.parametrize("name", PLANS)
@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_messages_are_rejected_or_read_and_harm_nobody_else(name: str, data: st.DataObject) -> None:
    good = ENCODE[name]([event(id=7) | {"unread": "x" * 9}], SHAPE)[0]
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    value = bytes(damaged[: data.draw(st.integers(0, len(good)) | st.just(len(good)))])
    plan, schemas = PLANS[name]
    decoded = decode(plan, schemas, value, good)
    assert 1 in decoded.events.offset
    assert len(decoded.events) + len(decoded.rejected) == 2
    for column in decoded.events.lists:
        column.rows.validate()


def avro(value: object, kind: object) -> Decoded:
    """What becomes of an event whose `item` has that Avro type."""
    schema = avro_schema(SHAPE)
    at = next(i for i, one in enumerate(schema["fields"]) if one["name"] == "item")
    schema["fields"][at] = {"name": "item", "type": kind}
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), event(item=value))
    return decode(AvroPlan, {1: Registered(kind="AVRO", text=json.dumps(schema))}, framed(1, sink.getvalue()))


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (NOW_MS, {"type": "long", "logicalType": "timestamp-millis"}, NOW_MS),
        (19_000, {"type": "int", "logicalType": "date"}, 19_000),
        (True, "boolean", 1),
        (7.0, "float", 7),
        (7, ["string", "long", "null"], 7),
    ],
)
def test_avro_values_are_what_they_are_underneath(value: object, kind: object, wanted: int) -> None:
    assert avro(value, kind).events.item.tolist() == [wanted]


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (b"x", "bytes", Reason.WRONG_TYPE),
        (b"\1\2", {"type": "bytes", "logicalType": "decimal", "precision": 4}, Reason.WRONG_TYPE),
        ({"a": 1}, {"type": "map", "values": "long"}, Reason.WRONG_TYPE),
        ([1], {"type": "array", "items": "long"}, Reason.WRONG_TYPE),
        (None, "null", Reason.MISSING_FIELD),
        (float("inf"), "double", Reason.NOT_FINITE),
    ],
)
def test_avro_values_that_are_no_single_value_reject_their_event(value: object, kind: object, reason: Reason) -> None:
    assert reasons(avro(value, kind)) == [reason]


def test_an_avro_enum_is_its_name_and_a_map_is_an_object() -> None:
    schema = {
        "type": "record", "name": "E", "fields": [
            {"name": "id", "type": "long"}, {"name": "user", "type": "long"}, {"name": "item", "type": "long"},
            {"name": "time", "type": "long"},
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["view", "rating"]}},
            {"name": "ctx", "type": {"type": "map", "values": ["long", {"type": "array", "items": "long"}]}},
            {"name": "seen", "type": {"type": "array", "items": "long"}}, {"name": "price", "type": "double"},
        ],
    }  # fmt: skip
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), event(ctx={"shop": 3, "tags": [4]}))
    decoded = decode(AvroPlan, {1: Registered(kind="AVRO", text=json.dumps(schema))}, framed(1, sink.getvalue()))
    assert decoded.events.ids.tolist() == [[7, 3]]
    assert decoded.events.lists[1].per_event.to_lists() == [[4]]


def test_bytes_behind_an_avro_record_and_a_schema_of_no_record_reject() -> None:
    (good,) = as_avro([event()], SHAPE)
    assert reasons(decode(AvroPlan, AVRO_1, good + b"\0")) == [Reason.BROKEN_MESSAGE]
    no_record = {1: Registered(kind="AVRO", text='"long"')}
    assert reasons(decode(AvroPlan, no_record, good)) == [Reason.NOT_AN_OBJECT]


def odd_avro(field: object, body: bytes) -> Decoded:
    """A message of that schema, and a good one behind it."""
    schema = {"type": "record", "name": "Odd", "fields": [{"name": "id", "type": field}]}
    schemas = {1: AVRO_1[1], 2: Registered(kind="AVRO", text=json.dumps(schema))}
    return decode(AvroPlan, schemas, framed(2, body), *as_avro([event()], SHAPE))


@pytest.mark.parametrize(
    "field",
    [
        ["null", "Odd"],
        {"type": "array", "items": "Odd"},
        ["null", {"type": "record", "name": "Inner", "fields": [{"name": "outer", "type": ["null", "Odd"]}]}],
    ],
)
def test_a_message_that_nests_without_end_harms_nobody(field: object) -> None:
    decoded = odd_avro(field, b"\x02" * 500_000 + b"\0")
    assert reasons(decoded) == [Reason.BROKEN_MESSAGE]
    assert decoded.events.offset.tolist() == [1]


def test_a_schema_may_refer_to_itself() -> None:
    schema = avro_schema(SHAPE)
    schema["fields"].append({"name": "parent", "type": ["null", "Event"]})
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), event(id=5, parent=event(id=4)))
    decoded = decode(AvroPlan, {1: Registered(kind="AVRO", text=json.dumps(schema))}, framed(1, sink.getvalue()))
    assert decoded.events.event_id.tolist() == [5]


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "Nothing", "fields": []},
        {
            "type": "record",
            "name": "Little",
            "fields": [{"name": "f", "type": {"type": "fixed", "name": "F", "size": 0}}],
        },
        {"type": "record", "name": "Endless", "fields": [{"name": "f", "type": "Endless"}]},
    ],
)
def test_an_array_of_nothing_cannot_be_told_to_go_on_without_end(items: object) -> None:
    decoded = odd_avro({"type": "array", "items": items}, b"\xfe\xff\xff\xff\xff\xff\x7f\0")
    assert reasons(decoded) == [Reason.WRONG_TYPE]
    assert decoded.events.offset.tolist() == [1]


def test_a_list_or_a_required_list_that_is_null_in_avro() -> None:
    values = as_avro([event(seen=None), event(ctx=None), event(seen=[1, None])], SHAPE)
    decoded = decode(AvroPlan, AVRO_1, *values)
    assert [r.detail for r in decoded.rejected] == ["field seen: the list is missing", "field seen: an id is missing"]
    assert decoded.events.lists[1].per_event.to_lists() == [[]]


def test_a_field_inside_of_what_is_no_object_is_of_a_wrong_type() -> None:
    schema = replace(SCHEMA, labels=(Label(name="odd", field="price.amount"),), dense=())
    for name, (plan, schemas) in PLANS.items():
        decoded = decode(plan, schemas, *ENCODE[name]([event()], SHAPE), schema=schema)
        assert [r.detail for r in decoded.rejected] == ["field price.amount: what it lies in is no object"]


def protobuf_event(file: descriptor_pb2.FileDescriptorProto, name: str, **values: object) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return bytes(kind(**values).SerializeToString())


def registered(file: descriptor_pb2.FileDescriptorProto, *parts: Part) -> dict[int, Registered]:
    text = base64.b64encode(file.SerializeToString()).decode()
    return {1: Registered(kind="PROTOBUF", text=text, parts=parts)}


def test_the_path_leads_to_any_type_of_a_protobuf_file() -> None:
    file = protobuf_file(SHAPE)
    inner = descriptor_pb2.DescriptorProto()
    inner.CopyFrom(file.message_type[1])
    inner.name = "Inner"
    outer = file.message_type.add(name="Outer")
    outer.nested_type.add(name="Other")
    outer.nested_type.append(inner)
    body = protobuf_event(file, "Outer.Inner", **event(id=5))
    # Two indexes, 2 and 1: the third type of the file, and the second type in it.
    decoded = decode(ProtobufPlan, registered(file), framed(1, b"\x04\x04\x02" + body))
    assert decoded.events.event_id.tolist() == [5]
    for path in (b"\x04\x04\x06", b"\x02\x0a", b"\x02\x01", b"\x80", b"\x01", b"", b"\x06\x02"):
        wrong = decode(ProtobufPlan, registered(file), framed(1, path + body))
        assert len(wrong.events) == 0


def test_the_first_type_has_the_shortest_path() -> None:
    file = protobuf_file(SHAPE)
    first = descriptor_pb2.FileDescriptorProto(name=file.name, syntax="proto3")
    first.message_type.extend([file.message_type[1], file.message_type[0]])
    body = protobuf_event(first, "Event", **event(id=6))
    for path in (b"\0", b"\x02\x00"):
        decoded = decode(ProtobufPlan, registered(first), framed(1, path + body))
        assert decoded.events.event_id.tolist() == [6]


def test_a_protobuf_field_without_presence_is_its_default_and_an_enum_its_name() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="plain.proto", syntax="proto3")
    kinds = file.enum_type.add(name="Kind")
    for number, name in enumerate(["view", "click", "rating"]):
        kinds.value.add(name=name, number=number)
    message = file.message_type.add(name="Event")
    types = descriptor_pb2.FieldDescriptorProto
    for at, name in enumerate(["id", "user", "item", "time", "rating"]):
        message.field.add(name=name, number=at + 1, type=types.TYPE_INT64, label=1)
    message.field.add(name="kind", number=6, type=types.TYPE_ENUM, type_name=".Kind", label=1)
    message.field.add(name="price", number=7, type=types.TYPE_DOUBLE, label=1)
    message.field.add(name="seen", number=8, type=types.TYPE_INT64, label=3)
    views = protobuf_event(file, "Event", id=1, user=2, time=NOW_MS)
    rates = protobuf_event(file, "Event", id=2, user=2, time=NOW_MS, kind=2, rating=4)
    strange = protobuf_event(file, "Event", id=3, user=2, time=NOW_MS, kind=9)
    decoded = decode(ProtobufPlan, registered(file), *(framed(1, b"\0" + body) for body in (views, rates, strange)))
    assert decoded.events.item.tolist() == [0, 0]
    assert decoded.events.dense[:, 0].tolist() == [0.0, 0.0]
    assert decoded.events.lists[0].per_event.to_lists() == [[], []]
    assert decoded.events.labels[1].tolist()[0] == 1.0
    assert [r.detail for r in decoded.rejected] == ["field kind: '9' is none of event.kinds"]


def test_messages_of_two_types_of_one_file_may_follow_each_other() -> None:
    file = protobuf_file(SHAPE)
    twin = descriptor_pb2.DescriptorProto()
    twin.CopyFrom(file.message_type[1])
    twin.name = "Twin"
    next(one for one in twin.field if one.name == "age").name = "years"
    file.message_type.append(twin)
    first = protobuf_event(file, "Event", **event(id=1, age=30.0))
    second = protobuf_event(file, "Twin", **event(id=2))
    decoded = decode(ProtobufPlan, registered(file), framed(1, b"\x02\x02" + first), framed(1, b"\x02\x04" + second))
    assert decoded.events.event_id.tolist() == [1, 2]
    assert decoded.events.dense[:, 1].tolist() == [30.0, -1.0]


def test_tombstones_need_no_schema() -> None:
    for plan, schemas in PLANS.values():
        decoder = EventDecoder(SCHEMA, Framed(SCHEMA, MemorySchemas(schemas), plan))
        erased = decoder.decode([raw(None, 3, key=b"42")]).events
        assert isinstance(erased, EventBatch)
        assert erased.user.tolist() == [42]


def test_event_ids_of_several_fields_are_those_of_json() -> None:
    roles = replace(ROLES, event_id=("user", "id"), kind=None, kinds={}, impression=None)
    schema = replace(SCHEMA, roles=roles)
    wanted = EventDecoder(schema).decode([raw(json.dumps(event()).encode())]).events.event_id.tolist()
    for name, (plan, schemas) in PLANS.items():
        decoded = decode(plan, schemas, *ENCODE[name]([event()], SHAPE), schema=schema)
        assert decoded.events.event_id.tolist() == wanted
