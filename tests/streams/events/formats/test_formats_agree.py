"""The contract of all formats: the same events give the same columns, verdicts and order, however they are encoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.events.decode import Decoded, EventDecoder
from streams.events.event import EventBatch
from streams.events.formats.arrow import ArrowTables
from streams.events.formats.avro import AvroPlan
from streams.events.formats.framed import Framed
from streams.events.formats.protobuf import ProtobufPlan
from tests.streams.events.formats.encode import (
    Event,
    Kind,
    MemorySchemas,
    Shape,
    as_avro,
    as_json,
    as_protobuf,
    as_stream,
    as_table,
    avro_registered,
    encoded,
    protobuf_registered,
)
from tests.streams.events.records import NOW_MS, SCHEMA, Rec

Encode = Callable[[Sequence[Event], Shape], tuple[EventDecoder, list[bytes]]]


def in_avro(events: Sequence[Event], shape: Shape) -> tuple[EventDecoder, list[bytes]]:
    schemas = MemorySchemas({1: avro_registered(shape)})
    return EventDecoder(SCHEMA, Framed(SCHEMA, schemas, AvroPlan)), as_avro(events, shape)


def in_protobuf(events: Sequence[Event], shape: Shape) -> tuple[EventDecoder, list[bytes]]:
    schemas = MemorySchemas({1: protobuf_registered(shape)})
    return EventDecoder(SCHEMA, Framed(SCHEMA, schemas, ProtobufPlan)), as_protobuf(events, shape)


def in_arrow(events: Sequence[Event], shape: Shape) -> tuple[EventDecoder, list[bytes]]:
    """Messages of three events, in record batches of two; every other one with dictionaries."""
    tables = [as_table(events[at : at + 3], shape) for at in range(0, len(events), 3)]
    streams = [
        as_stream(encoded(table, ["user", "seen"] if i % 2 else []), rows_a_batch=2) for i, table in enumerate(tables)
    ]
    return EventDecoder(SCHEMA, ArrowTables(SCHEMA)), streams


FORMATS: dict[str, Encode] = {"avro": in_avro, "protobuf": in_protobuf, "arrow": in_arrow}


def polled(values: Sequence[bytes]) -> list[Rec]:
    return [Rec(value=value, offset=i) for i, value in enumerate(values)]


def columns(events: EventBatch) -> dict[str, Any]:
    """All that formats must agree on: an event's position and its bytes are their own."""
    flat = {one.name for one in fields(EventBatch)} - {"lists", "offset", "content_hash"}
    found: dict[str, Any] = {name: getattr(events, name).tolist() for name in flat - {"labels"}}
    found["labels"] = np.nan_to_num(events.labels, nan=-7.0).tolist()
    return found | {f"list {i}": column.per_event.to_lists() for i, column in enumerate(events.lists)}


def verdicts(decoded: Decoded) -> list[Any]:
    return [rejected.reason for rejected in decoded.rejected]


def agree(decoded: Decoded, wanted: Decoded) -> None:
    assert verdicts(decoded) == verdicts(wanted), [(r.detail) for r in [*decoded.rejected, *wanted.rejected]]
    assert columns(decoded.events) == columns(wanted.events)


NAMES = ("id", "user", "item", "time", "kind", "of", "rating", "bought", "price", "age", "seen")
idlike: list[Kind] = ["int", "str"]
numberlike: list[Kind] = ["int", "float", "str"]
CHOICES: dict[str, list[Kind]] = {
    "id": ["int", "str", "float"], "user": ["int", "str", "bool"], "item": [*idlike, "float"], "time": ["int", "float"],
    "kind": ["str"], "of": idlike, "rating": numberlike, "bought": ["int", "bool", "float"], "price": numberlike,
    "age": numberlike, "seen": ["ints", "strs"],
}  # fmt: skip

odd_numbers = st.sampled_from([float("nan"), float("inf"), -1.5, 1e300, 2.0**63])
texts = st.sampled_from(["", "42", "x", "nan", "1.5", "yes", "é"])
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    "int": st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1), st.just(-(2**63))),
    "str": texts,
    "float": st.one_of(st.integers(0, 5).map(float), odd_numbers),
    "bool": st.booleans(),
    "ints": st.lists(st.integers(0, 3), max_size=3),
    "strs": st.lists(st.sampled_from(["a", "b"]), max_size=3),
}
GOOD: dict[str, Callable[[Kind], Any]] = {
    "time": lambda kind: NOW_MS if kind == "int" else float(NOW_MS),
    "price": lambda kind: {"int": 2, "float": 2.5, "str": "2.5"}[kind],
    "rating": lambda kind: {"int": 5, "float": 5.0, "str": "5"}[kind],
    "bought": lambda kind: {"int": 1, "float": 1.0, "bool": True}[kind],
}


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    kinds = {name: draw(st.sampled_from(CHOICES[name])) for name in NAMES}
    return Shape(kinds, {"shop": draw(st.sampled_from(idlike)), "tags": draw(st.sampled_from(["ints", "strs"]))})


@st.composite
def polls(draw: st.DrawFn) -> tuple[Shape, list[Event]]:
    shape = draw(shapes())
    return shape, [draw(an_event(shape)) for _ in range(draw(st.integers(1, 8)))]


@st.composite
def an_event(draw: st.DrawFn, shape: Shape) -> Event:
    """Mostly good; a few fields hold anything of their type, or nothing."""
    odd = draw(st.sets(st.sampled_from([name for name in NAMES if name != "seen"]), max_size=2))
    found: dict[str, Any] = {"unread": "x"}
    for name, kind in shape.fields.items():
        if name == "kind":
            found[name] = draw(st.sampled_from(["view", "click", "rating"]))
        elif name in odd:
            found[name] = draw(st.none() | VALUES[kind])
        elif name in GOOD:
            found[name] = GOOD[name](kind)
        else:
            found[name] = draw(VALUES[kind].filter(lambda value: value is not None))
    ctx = {name: draw(VALUES[kind] | st.none()) for name, kind in shape.ctx.items()}
    found["ctx"] = draw(st.sampled_from([ctx, None]))
    return found


@pytest.mark.parametrize("name", FORMATS)
@given(poll=polls())
@settings(max_examples=150, deadline=None)
def test_a_format_gives_what_json_gives(name: str, poll: tuple[Shape, list[Event]]) -> None:
    shape, events = poll
    wanted = EventDecoder(SCHEMA).decode(polled([as_json(event) for event in events]))
    decoder, values = FORMATS[name](events, shape)
    agree(decoder.decode(polled(values)), wanted)


@pytest.mark.parametrize("name", FORMATS)
@given(poll=polls(), data=st.data())
@settings(max_examples=50, deadline=None)
def test_where_a_poll_is_split_does_not_matter(name: str, poll: tuple[Shape, list[Event]], data: st.DataObject) -> None:
    decoder, values = FORMATS[name](poll[1], poll[0])
    records = polled(values)
    cut = data.draw(st.integers(0, len(records)))
    whole = decoder.decode(records)
    parts = [decoder.decode(part) for part in (records[:cut], records[cut:]) if part]
    events = EventBatch.concat([part.events for part in parts])
    assert columns(events) == columns(whole.events)
    assert events.offset.tolist() == whole.events.offset.tolist()
    assert events.content_hash.tolist() == whole.events.content_hash.tolist()
    rejected = [each for part in parts for each in part.rejected]
    assert [(r.offset, r.reason, r.detail, r.record.value) for r in rejected] == [
        (r.offset, r.reason, r.detail, r.record.value) for r in whole.rejected
    ]


@pytest.mark.parametrize("name", FORMATS)
@given(st.lists(shapes(), min_size=2, max_size=3), st.data())
@settings(max_examples=50, deadline=None)
def test_messages_of_several_schemas_may_follow_each_other(
    name: str, several: list[Shape], data: st.DataObject
) -> None:
    each = [[data.draw(an_event(shape)) for _ in range(2)] for shape in several]
    wanted = EventDecoder(SCHEMA).decode(polled([as_json(event) for events in each for event in events]))
    registered = {"avro": avro_registered, "protobuf": protobuf_registered}.get(name)
    if registered is None:
        decoder = EventDecoder(SCHEMA, ArrowTables(SCHEMA))
        values = [as_stream(as_table(events, shape)) for shape, events in zip(several, each, strict=True)]
    else:
        schemas = MemorySchemas({i: registered(shape) for i, shape in enumerate(several)})
        plan, encode = (AvroPlan, as_avro) if name == "avro" else (ProtobufPlan, as_protobuf)
        decoder = EventDecoder(SCHEMA, Framed(SCHEMA, schemas, plan))
        values = [
            value for i, (shape, events) in enumerate(zip(several, each, strict=True))
            for value in encode(events, shape, i)
        ]  # fmt: skip
    agree(decoder.decode(polled(values)), wanted)
