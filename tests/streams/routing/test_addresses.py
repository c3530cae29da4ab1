"""Where records go by their users, in every form that a user may come in."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import Reason
from streams.events.decode import LAST_MS
from streams.events.formats.arrow import ArrowTables
from streams.events.formats.json_objects import JsonObjects
from streams.events.roles import Roles
from streams.routing.addresses import WHOLE, Addressed, Addresses, routing_schema
from streams.routing.alignment import NO_TIME
from streams.routing.murmur2 import partition_of

ROLES = Roles(event_id=("id",), user="who.id", item="film", time="at", kind="type", kinds={"view": "impression"})
AT = 1_735_689_600_000
NUM = 3
KEYS = st.one_of(st.integers(-(1 << 62), 1 << 62), st.text(st.characters(exclude_categories=["Cs"]), min_size=1))


def in_json(values: list[bytes | None], keys: list[bytes | None] | None = None) -> Addressed:
    addresses = Addresses(ROLES, JsonObjects(routing_schema(ROLES)), NUM)
    return addresses.address(keys or [None] * len(values), values, LAST_MS)


def message(user: object, **more: object) -> bytes:
    return json.dumps({"who": {"id": user}, "at": AT, **more}).encode()


@given(st.lists(KEYS, min_size=1, max_size=20))
def test_a_user_s_text_is_the_key_and_says_the_partition(users: list[int | str]) -> None:
    values = [message(user) for user in users]
    found = in_json(list(values))
    assert not found.refusals
    for user, value, pieces in zip(users, values, found.pieces, strict=True):
        (piece,) = pieces
        assert piece == (partition_of(str(user).encode(), NUM), str(user).encode(), value)


def test_only_what_has_no_user_is_refused_and_the_rest_goes_on() -> None:
    odd = message("u", film=[1, 2], type="what is that", at=AT + 1)
    found = in_json([message("u"), b"{", message(None), message("", at=AT), odd, message([1]), b"[]"])
    assert [bool(pieces) for pieces in found.pieces] == [True, False, False, False, True, False, False]
    reasons = {i: [(each.row, each.error.reason) for each in told] for i, told in found.refusals.items()}
    assert reasons == {
        1: [(WHOLE, Reason.BROKEN_JSON)],
        2: [(WHOLE, Reason.MISSING_FIELD)],
        3: [(WHOLE, Reason.MISSING_FIELD)],
        5: [(WHOLE, Reason.WRONG_TYPE)],
        6: [(WHOLE, Reason.NOT_AN_OBJECT)],
    }
    assert found.times_ms.tolist() == [AT, NO_TIME, AT, AT, AT + 1, NO_TIME, NO_TIME]


def test_a_time_that_cannot_be_orders_nothing_and_refuses_nothing() -> None:
    found = in_json([message("u", at=None), message("u", at="soon"), message("u", at=AT * 1000), message("u", at=17)])
    assert not found.refusals
    assert found.times_ms.tolist() == [NO_TIME] * 4


def test_a_tombstone_goes_where_its_key_belongs() -> None:
    found = in_json([None, message("b"), None], [b"a", b"never read", None])
    assert found.pieces[0] == ((partition_of(b"a", NUM), b"a", None),)
    assert found.pieces[2] == ()
    assert [each.error.reason for each in found.refusals[2]] == [Reason.MISSING_FIELD]


def arrow(rows: list[dict[str, Any]], *, batches: int = 1) -> bytes:
    fields = [
        pa.field("who", pa.struct([pa.field("id", pa.string())])),
        pa.field("at", pa.int64()),
        pa.field("film", pa.dictionary(pa.int32(), pa.string())),
        pa.field("genres", pa.list_(pa.string())),
    ]
    table = pa.Table.from_pylist(rows, pa.schema(fields, metadata={"made": "by us"}))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(1, len(rows) // batches))
    return bytes(sink.getvalue().to_pybytes())


def rows_of(value: bytes) -> list[dict[str, Any]]:
    with pa.ipc.open_stream(value) as reader:
        return list(reader.read_all().to_pylist())


def in_arrow(values: list[bytes | None]) -> Addressed:
    return Addresses(ROLES, ArrowTables(routing_schema(ROLES)), NUM).address([None] * len(values), values, LAST_MS)


USERS = st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "c", "d", "e", "ü"])), min_size=1, max_size=30)


@given(st.lists(USERS, min_size=1, max_size=3), st.integers(1, 3))
def test_messages_of_many_users_are_split_and_lose_nothing(messages: list[list[str | None]], batches: int) -> None:
    given_rows: list[list[dict[str, Any]]] = [
        [{"who": {"id": u}, "at": AT + i, "film": f"f{i % 3}", "genres": ["x"] * (i % 4)} for i, u in enumerate(users)]
        for users in messages
    ]
    found = in_arrow([arrow(rows, batches=batches) for rows in given_rows])
    for i, rows in enumerate(given_rows):
        by_partition = defaultdict(list)
        for row in rows:
            if row["who"]["id"] is not None:
                by_partition[partition_of(row["who"]["id"].encode(), NUM)].append(row)
        assert {piece.partition: rows_of(piece.value or b"") for piece in found.pieces[i]} == by_partition
        for piece in found.pieces[i]:
            assert piece.key == by_partition[piece.partition][0]["who"]["id"].encode()
            with pa.ipc.open_stream(piece.value or b"") as reader:
                assert reader.schema.metadata == {b"made": b"by us"}
        gone = [row for row, each in enumerate(rows) if each["who"]["id"] is None]
        assert [(each.row, each.error.reason) for each in found.refusals.get(i, ())] == [
            (row, Reason.MISSING_FIELD) for row in gone
        ]
        assert found.times_ms[i] == AT + len(rows) - 1


def test_a_message_of_one_partition_stays_the_bytes_that_it_is() -> None:
    value = arrow([{"who": {"id": "a"}, "at": AT, "film": "f", "genres": []}] * 5, batches=2)
    found = in_arrow([b"no Arrow", value])
    assert found.pieces[1] == [(partition_of(b"a", NUM), b"a", value)]
    assert [(each.row, each.error.reason) for each in found.refusals[0]] == [(WHOLE, Reason.BROKEN_MESSAGE)]


def test_a_slice_that_is_large_is_compressed_and_the_same() -> None:
    rows: list[dict[str, Any]] = [
        {"who": {"id": "ab"[i % 2]}, "at": AT, "film": "f", "genres": ["long" * 20] * 50} for i in range(100)
    ]
    value = arrow(rows)
    found = in_arrow([value])
    assert sum(len(piece.value or b"") for piece in found.pieces[0]) < len(value) // 4
    assert [row for piece in found.pieces[0] for row in rows_of(piece.value or b"")] == sorted(
        rows, key=lambda row: partition_of(row["who"]["id"].encode(), NUM)
    )
