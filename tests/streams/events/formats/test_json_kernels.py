"""The kernels read every message as msgspec does, or leave it to msgspec."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.events.decode import EventDecoder
from streams.events.fields import names_of, planted
from streams.events.formats.json_columns import column_of
from streams.events.formats.json_objects import JsonObjects
from streams.events.formats.json_rows import MEMORY_BYTES, KnownRows
from streams.events.formats.json_scan import Keys, scan
from streams.events.schema import SparseFeature
from tests.streams.events.formats.msgspec_objects import MsgspecObjects
from tests.streams.events.records import SCHEMA, Rec, event
from tests.streams.events.test_decode_properties import same_outcome

WITH_WIDE_NAME = replace(
    SCHEMA,
    sparse=(*SCHEMA.sparse, SparseFeature(name="place", field="ctx.in.плац", table="shop", required=False)),
)
DECODER = EventDecoder(WITH_WIDE_NAME)
FORGETFUL = EventDecoder(WITH_WIDE_NAME, JsonObjects(WITH_WIDE_NAME, memory_bytes=40))
BY_MSGSPEC = EventDecoder(WITH_WIDE_NAME, MsgspecObjects(WITH_WIDE_NAME))

NAMES = ["id", "user", "item", "time", "kind", "of", "rating", "bought", "price", "age", "seen", "ctx", "other"]
numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?", fullmatch=True)
spaces = st.sampled_from(["", "", "", " ", "\n\t\r "])
texts = st.builds(lambda text, escaped: json.dumps(text, ensure_ascii=escaped), st.text(max_size=4), st.booleans())
single = st.one_of(numbers, texts, st.sampled_from(["null", "true", "false", '"click"', '"view"', "1700000000000"]))
integers = st.lists(st.integers(0, 999).map(str), max_size=12)
anything = st.recursive(
    st.one_of(single, integers.map(lambda each: f"[{','.join(each)}]")),
    lambda below: st.one_of(
        st.builds(lambda each, space: f"[{space}{f'{space},'.join(each)}{space}]", st.lists(below, max_size=3), spaces),
        st.builds(
            lambda each, space: "{" + ",".join(f"{space}{k}{space}:{space}{v}{space}" for k, v in each) + space + "}",
            st.lists(st.tuples(st.one_of(texts, st.sampled_from(['"shop"', '"tags"', '"in"', '"плац"'])), below)),
            spaces,
        ),
    ),
    max_leaves=6,
)


def sizes(values: list[bytes]) -> npt.NDArray[np.int64]:
    """[N], in bytes."""
    return np.array([len(value) for value in values], np.int64)


def spelled(value: object) -> str:
    return msgspec.json.encode(value).decode()


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(["view", "click", "rating"]))
    members = [(spelled(k), spelled(v)) for k, v in event(kind=kind, of=1, id=draw(st.integers(0, 5))).items()]
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=3)):
        key, value = (
            draw(st.sampled_from([spelled(name), spelled(name), f" {spelled(name)}", json.dumps(name[0] + "x")])),
            draw(anything),
        )
        members = [each for each in members if each[0] != key or draw(st.booleans())]
        members.append((key, value))
    members = draw(st.permutations(members)) if draw(st.booleans()) else members
    space = draw(spaces)
    text = (space + "{" + ",".join(f"{space}{k}{space}:{space}{v}" for k, v in members) + space + "}" + space).encode()
    for _ in range(draw(st.integers(0, 2)) if draw(st.booleans()) else 0):
        at = draw(st.integers(0, len(text)))
        piece = draw(
            st.one_of(st.binary(max_size=2), st.sampled_from([b'"', b"\\", b",", b"}", b"]", b"{", b"[1", b"0"]))
        )
        text = text[:at] + piece + text[at + draw(st.integers(0, 2)) :]
    return text


@given(st.lists(messages(), min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
@example([b'{"ctx":{"shop":1},"ctx":{"tags":[1]}}'])
@example([b'{"id":1,"id":2}', b'{"\\u0069d":1}', b'{"id":-0}', b'{"id":1.0e5,"x":[[[]]]}'])
def test_every_message_is_read_as_msgspec_reads_it(values: list[bytes]) -> None:
    records = [Rec(value=value, offset=i) for i, value in enumerate(values)]
    wanted = BY_MSGSPEC.decode(records)
    assert same_outcome(wanted, [DECODER.decode(records)])
    assert same_outcome(wanted, [FORGETFUL.decode(records)])


@given(st.lists(st.one_of(numbers, st.floats(allow_nan=False, allow_infinity=False).map(repr)), min_size=1))
@settings(max_examples=200, deadline=None)
def test_numbers_are_the_same_to_the_last_bit(texts: list[str]) -> None:
    singles, lists = names_of(SCHEMA)
    keys = Keys.of(planted(singles, lists), singles, lists)
    values = [f'{{"price":{text}}}'.encode() for text in texts]
    room = KnownRows(MEMORY_BYTES).make_room(sum(map(len, values)))
    scanned = scan(values, sizes(values), keys, len(singles), len(lists), room)
    for i in np.flatnonzero(scanned.understood).tolist():
        found = column_of(scanned, singles.index("price"), np.array([i])).scalars()[0]  # type: ignore[union-attr]
        wanted = msgspec.json.decode(texts[i])
        assert type(found) is type(wanted)
        assert struct.pack("d", found) == struct.pack("d", wanted)
        assert found == wanted


@pytest.mark.parametrize(
    "message",
    [
        event(),
        event(seen=list(range(200)), price=0.1, age=0.30000000000000004, other={"a": [1, {"b": "x\n"}], "c": None}),
        event(ctx={"shop": "im Zoo: Žižkov", "tags": None}, title='say "yes"', when=1e-5, many=[[], {}, [{}]]),
    ],
    ids=["plain", "long", "nested"],
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("escaped", [True, False])
def test_what_producers_write_is_understood(
    message: dict[str, Any], separators: tuple[str, str], *, escaped: bool
) -> None:
    singles, lists = names_of(SCHEMA)
    keys = Keys.of(planted(singles, lists), singles, lists)
    value = json.dumps(message, separators=separators, ensure_ascii=escaped).encode()
    room = KnownRows(MEMORY_BYTES).make_room(len(value))
    assert scan([value], sizes([value]), keys, len(singles), len(lists), room).understood.all()


def test_a_list_that_repeats_from_poll_to_poll_is_one_row() -> None:
    decoder = EventDecoder(SCHEMA)
    polls = [[Rec(value=spelled(event(id=i, seen=list(range(80)))).encode(), offset=i)] for i in range(3)]
    columns = [decoder.decode(poll).events.lists[0] for poll in polls]
    assert len({int(column.index[0]) for column in columns}) == 1
    merged = type(columns[0]).concat(columns)
    assert merged.source is columns[0].source
    assert merged.per_event.to_lists() == [list(range(80))] * 3
    assert merged.own().rows.num_rows == 1


def test_columns_of_before_and_after_everything_was_forgotten_join() -> None:
    decoder = EventDecoder(SCHEMA, JsonObjects(SCHEMA, memory_bytes=600))
    lists = [[i] * 60 for i in range(8)]
    columns = [
        decoder.decode([Rec(value=spelled(event(id=i, seen=ids)).encode(), offset=i)]).events.lists[0]
        for i, ids in enumerate(lists)
    ]
    assert len({id(column.source) for column in columns}) > 1
    assert type(columns[0]).concat(columns).per_event.to_lists() == lists
