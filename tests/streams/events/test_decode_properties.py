"""Decoding is a function of each record alone: neighbours and the split into polls change nothing."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.events.decode import Decoded, EventDecoder
from streams.events.event import EventBatch
from tests.streams.events.records import NOW_MS, SCHEMA, Rec, event

DECODER = EventDecoder(SCHEMA)

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.sampled_from([0, 1, 42, -1, -(2**63), NOW_MS]),
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["", "42", "1", "1.5", "view", "nan", "x"]),
)  # fmt: skip
odd = st.one_of(scalars, st.just(...), st.lists(scalars, max_size=3), st.just({"shop": 1}))
names = st.sampled_from(["id", "user", "item", "time", "kind", "of", "rating", "bought", "price", "age", "seen", "ctx"])
kinds = st.sampled_from(["view", "click", "rating"])
lists = st.lists(st.integers(0, 3), max_size=3)


@st.composite
def values(draw: st.DrawFn) -> bytes | None:
    how = draw(st.integers(0, 9))
    if how == 0:
        return draw(st.sampled_from([None, b"", b"{", b"[]", b"null", b'{"id":1},{"id":2}', b'{"a":[{}', b"{}]}"]))
    changes: dict[str, Any] = {"kind": draw(kinds), "of": 1, "seen": draw(lists), "id": draw(st.integers(0, 5))}
    if how < 6:
        changes |= draw(st.dictionaries(names, odd, max_size=3))
    return msgspec.json.encode(event(**changes))


@st.composite
def polls(draw: st.DrawFn) -> list[Rec]:
    keys = st.sampled_from([None, b"42", b"x"])
    return [Rec(value=draw(values()), offset=i, key=draw(keys)) for i in range(draw(st.integers(1, 12)))]


def same(left: EventBatch, right: EventBatch) -> bool:
    flat = [name for name in (f.name for f in fields(EventBatch)) if name != "lists"]
    columns = all(
        np.array_equal(getattr(left, name), getattr(right, name), equal_nan=name == "labels") for name in flat
    )
    mine, theirs = ([column.per_event.to_lists() for column in batch.lists] for batch in (left, right))
    return columns and mine == theirs


def same_outcome(whole: Decoded, parts: list[Decoded]) -> bool:
    rejected = [each for part in parts for each in part.rejected]
    return (
        same(whole.events, EventBatch.concat([part.events for part in parts]))
        and whole.rejected == rejected
        and whole.next_offset == parts[-1].next_offset
    )


@given(polls())
@settings(max_examples=300)
def test_a_poll_decodes_as_its_records_one_by_one(records: list[Rec]) -> None:
    assert same_outcome(DECODER.decode(records), [DECODER.decode([record]) for record in records])


@given(polls(), st.data())
def test_where_a_poll_is_split_does_not_matter(records: list[Rec], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(records)))
    parts = [DECODER.decode(part) for part in (records[:cut], records[cut:]) if part]
    assert same_outcome(DECODER.decode(records), parts)


@given(polls())
def test_every_record_is_an_event_or_rejected(records: list[Rec]) -> None:
    decoded = DECODER.decode(records)
    offsets = decoded.events.offset.tolist() + [each.offset for each in decoded.rejected]
    assert sorted(offsets) == [record.offset for record in records]
    for column in decoded.events.lists:
        column.rows.validate()
