"""The same events in every format. Owns the schemas of the test's events; asserts nothing.

A `Shape` says which type each field has, as typed formats must know. A field that is None is missing.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from streams.events.formats.schemas import Registered

Kind = Literal["int", "str", "float", "bool", "ints", "strs"]
Event = Mapping[str, Any]

AVRO: dict[Kind, str] = {"int": "long", "str": "string", "float": "double", "bool": "boolean"}
ARROW: dict[Kind, Any] = {"int": pa.int64(), "str": pa.string(), "float": pa.float64(), "bool": pa.bool_()}
_FIELD = descriptor_pb2.FieldDescriptorProto
PROTOBUF: dict[Kind, Any] = {
    "int": _FIELD.TYPE_INT64, "str": _FIELD.TYPE_STRING, "float": _FIELD.TYPE_DOUBLE, "bool": _FIELD.TYPE_BOOL,
}  # fmt: skip
ITEM: dict[Kind, Kind] = {"ints": "int", "strs": "str"}


@dataclass(frozen=True, slots=True)
class Shape:
    """Types of the fields, those of `ctx` apart."""

    fields: Mapping[str, Kind]
    ctx: Mapping[str, Kind]
    extra: Mapping[str, Kind] = field(default_factory=lambda: {"unread": "str"})
    """Fields that nobody asks for."""

    @property
    def all(self) -> dict[str, Kind]:
        """The fields of the event itself."""
        return {**self.fields, **self.extra}


class MemorySchemas:
    """Schemas by id, and how often each was asked for."""

    def __init__(self, schemas: Mapping[int, Registered]) -> None:
        self.schemas = dict(schemas)
        self.asked: list[int] = []

    def get(self, schema_id: int) -> Registered | None:
        self.asked.append(schema_id)
        return self.schemas.get(schema_id)


def framed(schema_id: int, body: bytes) -> bytes:
    """The Confluent wire format."""
    return b"\0" + schema_id.to_bytes(4, "big") + body


def as_json(event: Event) -> bytes:
    """Without what is missing; NaN as Python's own writer spells it."""
    there = {name: value for name, value in event.items() if value is not None}
    if isinstance(there.get("ctx"), dict):
        there["ctx"] = {name: value for name, value in there["ctx"].items() if value is not None}
    return json.dumps(there).encode()


def avro_schema(shape: Shape) -> dict[str, Any]:
    """Every field may be null."""

    def fields(kinds: Mapping[str, Kind]) -> list[dict[str, Any]]:
        return [{"name": name, "type": ["null", _avro_type(kind)]} for name, kind in kinds.items()]

    ctx = {"type": "record", "name": "Ctx", "fields": fields(shape.ctx)}
    return {"type": "record", "name": "Event", "fields": [*fields(shape.all), {"name": "ctx", "type": ["null", ctx]}]}


def _avro_type(kind: Kind) -> object:
    return {"type": "array", "items": ["null", AVRO[ITEM[kind]]]} if kind in ITEM else AVRO[kind]


def avro_registered(shape: Shape) -> Registered:
    return Registered(kind="AVRO", text=json.dumps(avro_schema(shape)))


def as_avro(events: Sequence[Event], shape: Shape, schema_id: int = 1) -> list[bytes]:
    schema = fastavro.parse_schema(avro_schema(shape))
    found = []
    for event in events:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, schema, dict(event))
        found.append(framed(schema_id, sink.getvalue()))
    return found


def protobuf_file(shape: Shape) -> descriptor_pb2.FileDescriptorProto:
    """`Ctx` is the first type of the file and `Event` the second; every single value tracks presence."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", syntax="proto3")
    _protobuf_type(file, "Ctx", shape.ctx)
    event = _protobuf_type(file, "Event", shape.all)
    event.field.append(
        _FIELD(name="ctx", number=100, type=_FIELD.TYPE_MESSAGE, type_name=".Ctx", label=_FIELD.LABEL_OPTIONAL)
    )
    return file


def _protobuf_type(
    file: descriptor_pb2.FileDescriptorProto, name: str, kinds: Mapping[str, Kind]
) -> descriptor_pb2.DescriptorProto:
    message = file.message_type.add(name=name)
    for number, (one, kind) in enumerate(kinds.items()):
        if kind in ITEM:
            message.field.add(name=one, number=number + 1, type=PROTOBUF[ITEM[kind]], label=_FIELD.LABEL_REPEATED)
        else:
            message.oneof_decl.add(name=f"_{one}")
            message.field.add(
                name=one, number=number + 1, type=PROTOBUF[kind], label=_FIELD.LABEL_OPTIONAL, proto3_optional=True,
                oneof_index=len(message.oneof_decl) - 1,
            )  # fmt: skip
    return message


def protobuf_registered(shape: Shape) -> Registered:
    text = base64.b64encode(protobuf_file(shape).SerializeToString()).decode()
    return Registered(kind="PROTOBUF", text=text)


def as_protobuf(events: Sequence[Event], shape: Shape, schema_id: int = 1) -> list[bytes]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(protobuf_file(shape))
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))
    found = []
    for event in events:
        there = {name: value for name, value in event.items() if value is not None}
        if "ctx" in there:
            there["ctx"] = {name: value for name, value in there["ctx"].items() if value is not None}
        # The path: one index, 1, as zigzag varints.
        found.append(framed(schema_id, b"\x02\x02" + kind(**there).SerializeToString()))
    return found


def arrow_schema(shape: Shape) -> pa.Schema:
    def fields(kinds: Mapping[str, Kind]) -> list[pa.Field[Any]]:
        return [
            pa.field(name, pa.list_(ARROW[ITEM[kind]]) if kind in ITEM else ARROW[kind]) for name, kind in kinds.items()
        ]

    return pa.schema([*fields(shape.all), pa.field("ctx", pa.struct(fields(shape.ctx)))])


def as_table(events: Sequence[Event], shape: Shape) -> pa.Table:
    schema = arrow_schema(shape)
    return pa.Table.from_pylist([dict(event) for event in events], schema=schema)


def as_stream(
    table: pa.Table, *, rows_a_batch: int | None = None, compression: Literal["lz4", "zstd"] | None = None
) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    return bytes(sink.getvalue().to_pybytes())


def encoded(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The table with these columns as dictionaries."""
    for name in names:
        table = table.set_column(table.schema.get_field_index(name), name, _dictionary(table.column(name)))
    return table


def _dictionary(column: pa.ChunkedArray[Any]) -> pa.DictionaryArray[Any, Any]:
    """Arrow itself encodes no lists."""
    values = column.to_pylist()
    distinct = [value for i, value in enumerate(values) if value is not None and value not in values[:i]]
    codes = [None if value is None else distinct.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(distinct, column.type))


def without(shape: Shape, *names: str) -> Shape:
    """The shape without these fields."""
    return replace(shape, fields={name: kind for name, kind in shape.fields.items() if name not in names})
