"""Arrow messages: many events in one, and what one of them is when it is rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.errors import ConfigError, Reason
from streams.events.decode import Decoded, EventDecoder
from streams.events.formats import arrow_stream
from streams.events.formats.arrow import ArrowTables
from streams.events.ids import hash_id
from streams.events.schema import Label
from tests.streams.events.formats.encode import Shape, as_stream, as_table, encoded
from tests.streams.events.records import NOW_MS, SCHEMA, Rec, event

Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any] | None"

SHAPE = Shape(
    {
        "id": "int", "user": "int", "item": "int", "time": "int", "kind": "str", "of": "int", "rating": "int",
        "bought": "int", "price": "float", "age": "float", "seen": "ints",
    },
    {"shop": "int", "tags": "strs"},
)  # fmt: skip


def table(*changes: dict[str, Any]) -> pa.Table:
    """An event each."""
    found = [event(id=i, **change) for i, change in enumerate(changes)]
    return as_table([{name: value for name, value in one.items() if value is not ...} for one in found], SHAPE)


def decode(*values: bytes) -> Decoded:
    return EventDecoder(SCHEMA, ArrowTables(SCHEMA)).decode([Rec(value=v, offset=10 + i) for i, v in enumerate(values)])


def changed(name: str, column: Column, rows: int = 2) -> bytes:
    """A message whose events differ from good ones in that column."""
    good = table(*[{}] * rows)
    at = good.schema.get_field_index(name)
    return as_stream(good.remove_column(at) if column is None else good.set_column(at, name, column))


def test_all_events_of_a_message_are_at_its_offset_in_their_order() -> None:
    decoded = decode(as_stream(table({}, {}, {})), as_stream(table()), as_stream(table({})))
    assert decoded.events.offset.tolist() == [10, 10, 10, 12]
    assert decoded.events.event_id.tolist() == [0, 1, 2, 0]
    assert decoded.next_offset == 13
    assert len(set(decoded.events.content_hash.tolist())) == 4
    assert set(decoded.events.appended_ms.tolist()) == {NOW_MS}


def test_a_rejected_event_is_a_message_of_its_own_and_says_which_one_it_was() -> None:
    decoded = decode(as_stream(encoded(table({}, {"user": None}, {}, {"kind": "hover"}), ["kind", "seen"])))
    assert decoded.events.event_id.tolist() == [0, 2]
    assert [(r.offset, r.reason, r.detail) for r in decoded.rejected] == [
        (10, Reason.MISSING_FIELD, "event 1 of its message: field user: the user is missing"),
        (10, Reason.UNKNOWN_KIND, "event 3 of its message: field kind: 'hover' is none of event.kinds"),
    ]
    for rejected, at in zip(decoded.rejected, (1, 3), strict=True):
        assert rejected.record.value is not None
        again = decode(rejected.record.value)
        assert [r.detail for r in again.rejected] == [rejected.detail.replace(f"event {at} of", "event 0 of")], (
            "what is sent again is judged as it was"
        )


def test_a_letter_does_not_hold_the_dictionary_of_all_events() -> None:
    rows = 400
    good = table(*[{"unread": f"{i}" * 40, "kind": "hover" if i == 7 else "view"} for i in range(rows)])
    value = as_stream(encoded(good, ["unread"]))
    decoded = decode(value)
    letter = decoded.rejected[0].record.value
    assert letter is not None
    assert len(letter) < len(value) / 10
    assert pa.ipc.open_stream(letter).read_all().column("unread").to_pylist() == ["7" * 40]


def test_the_events_origin_is_found_by_offset_and_id() -> None:
    decoded = decode(as_stream(table({}, {"user": 5})))
    value = decoded.origin(10, 1).value
    assert value is not None
    assert pa.ipc.open_stream(value).read_all().column("user").to_pylist() == [5]


@pytest.mark.parametrize(
    ("name", "column", "reason"),
    [
        ("user", pa.array([b"x", b"y"]), Reason.WRONG_TYPE),
        ("user", pa.array([[1], [2]]), Reason.WRONG_TYPE),
        ("user", pa.array([{"id": 1}, {"id": 2}]), Reason.WRONG_TYPE),
        ("seen", pa.array([1, 2]), Reason.WRONG_TYPE),
        ("seen", pa.array([[[1]], [[2]]]), Reason.WRONG_TYPE),
        ("ctx", pa.array([1, 2]), Reason.WRONG_TYPE),
    ],
)
def test_a_column_of_a_wrong_type_rejects_the_message_whole(name: str, column: Column, reason: Reason) -> None:
    value = changed(name, column)
    decoded = decode(value)
    assert [(r.reason, r.record.value) for r in decoded.rejected] == [(reason, value)]


@pytest.mark.parametrize(
    ("name", "column", "reasons"),
    [
        ("user", None, [Reason.MISSING_FIELD] * 2),
        ("user", pa.nulls(2), [Reason.MISSING_FIELD] * 2),
        ("user", pa.array([None, "7"], pa.string()), [Reason.MISSING_FIELD]),
        ("user", pa.array(["", "7"]).dictionary_encode(), [Reason.MISSING_FIELD]),
        ("item", pa.array([1 << 63, 7], pa.uint64()), [Reason.WRONG_TYPE]),
        ("item", pa.array([1.5, 7.0]), [Reason.WRONG_TYPE]),
        ("time", pa.array([1 << 63, NOW_MS], pa.uint64()), [Reason.TIME_OUT_OF_RANGE]),
        ("time", pa.array([True, False]), [Reason.WRONG_TYPE] * 2),
        ("price", pa.array([float("nan"), None]), [Reason.NOT_FINITE, Reason.MISSING_FIELD]),
        ("price", pa.array([float("inf"), 1.0]).dictionary_encode(), [Reason.NOT_FINITE]),
        ("rating", pa.array([float("nan"), 5.0]), [Reason.NOT_FINITE]),
        ("seen", None, [Reason.MISSING_FIELD] * 2),
        ("seen", pa.array([None, [1]]), [Reason.MISSING_FIELD]),
        ("seen", pa.array([[None], [1]]), [Reason.MISSING_FIELD]),
        ("seen", pa.array([[], [None]], pa.list_(pa.null())), [Reason.MISSING_FIELD]),
        ("seen", pa.array([[1.5], [1.0]]), [Reason.WRONG_TYPE]),
        ("seen", pa.array([[-(2**63)], [1]]), [Reason.WRONG_TYPE]),
    ],
)
def test_a_value_that_does_not_fit_rejects_its_event_alone(name: str, column: Column, reasons: list[Reason]) -> None:
    decoded = decode(changed(name, column))
    assert [r.reason for r in decoded.rejected] == reasons, [r.detail for r in decoded.rejected]
    assert len(decoded.events) == 2 - len(reasons)


LISTS = [[1, 2], [], [3], [1, 2], [1, 2]]
SAME_LISTS = [
    pa.array(LISTS, pa.list_(pa.int32())),
    pa.array([[9], *LISTS], pa.list_(pa.uint64())).slice(1),
    pa.array(LISTS, pa.large_list(pa.float64())),
    pa.array(LISTS, pa.list_(pa.dictionary(pa.int8(), pa.int64()))),
    pa.DictionaryArray.from_arrays(
        pa.array([1, 2, 0, 1, 1]), pa.array([[3], [1, 2], [], [1.5]], pa.list_(pa.float64()))
    ),
    pa.chunked_array([pa.array(LISTS[:2], pa.list_(pa.int64())), pa.array(LISTS[2:], pa.list_(pa.int64()))]),
]


@pytest.mark.parametrize("column", SAME_LISTS, ids=lambda column: str(column.type))
def test_lists_of_any_kind_are_rows(column: Column) -> None:
    decoded = decode(changed("seen", column, rows=5))
    assert decoded.rejected == []
    found = decoded.events.lists[0]
    found.rows.validate()
    assert found.per_event.to_lists() == LISTS
    assert found.rows.num_rows <= 6


def test_lists_of_a_fixed_size_and_of_texts_are_rows() -> None:
    fixed = decode(changed("seen", pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))))
    texts = decode(changed("seen", pa.array([["a"], ["b", "a"]], pa.list_(pa.string_view()))))
    assert fixed.events.lists[0].per_event.to_lists() == [[1, 2], [3, 4]]
    assert texts.events.lists[0].per_event.to_lists() == [[hash_id("a")], [hash_id("b"), hash_id("a")]]


def test_equal_lists_are_one_row() -> None:
    column = decode(as_stream(table(*[{"seen": [i % 3]} for i in range(30)]))).events.lists[0]
    assert column.rows.num_rows == 4, "three, and the empty one of events without"


def test_a_timestamp_is_the_number_underneath() -> None:
    column = pa.array([NOW_MS, NOW_MS + 1], pa.timestamp("ms"))
    assert decode(changed("time", column)).events.event_time_ms.tolist() == [NOW_MS, NOW_MS + 1]
    microseconds = decode(changed("time", column.cast(pa.timestamp("us"))))
    assert [r.reason for r in microseconds.rejected] == [Reason.TIME_OUT_OF_RANGE] * 2


def test_what_a_null_struct_holds_is_missing() -> None:
    decoded = decode(as_stream(table({"ctx": None}, {})))
    assert decoded.events.ids[:, 1].tolist() == [-(2**63), 3]
    assert decoded.events.lists[1].per_event.num_rows == 2


def test_a_column_that_is_there_twice_rejects_the_message() -> None:
    good = table({})
    twice = as_stream(good.append_column("user", good.column("user")))
    assert [r.reason for r in decode(twice).rejected] == [Reason.WRONG_TYPE]


def test_several_batches_and_compressed_buffers_are_read() -> None:
    good = table(*[{"unread": "x" * 400}] * 9)
    plain = decode(as_stream(good))
    for compression in ("lz4", "zstd"):
        packed = as_stream(good, rows_a_batch=4, compression=compression)
        assert decode(packed).events.event_id.tolist() == plain.events.event_id.tolist()


def test_what_would_unpack_to_too_much_is_never_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    good = table(*[{"unread": "x" * 5_000}] * 9)
    packed = as_stream(encoded(good, ["unread"]), compression="zstd"), as_stream(good, compression="zstd")
    monkeypatch.setattr(arrow_stream, "MOST_BYTES", 10_000)
    one, all_nine = decode(packed[0]), decode(packed[1])
    assert one.rejected == []
    assert [r.reason for r in all_nine.rejected] == [Reason.TOO_LARGE]
    assert decode(as_stream(good)).rejected == [], "what is not packed is bounded by the message's own size"


def test_a_message_has_a_largest_number_of_events() -> None:
    rows = arrow_stream.MOST_ROWS
    endless = as_stream(pa.table({"user": pa.nulls(rows)}))
    assert [r.reason for r in decode(endless).rejected] == [Reason.TOO_LARGE]


@pytest.mark.parametrize("value", [b"", b"{}", b"\xff\xff\xff\xff\x00\x00\x00\x00", b"ARROW1\0\0", bytes(64)])
def test_what_is_no_stream_is_rejected_as_it_came(value: bytes) -> None:
    decoded = decode(value, as_stream(table({})))
    assert [(r.reason, r.record.value) for r in decoded.rejected] in (
        [(Reason.BROKEN_MESSAGE, value)],
        [],  # an end of stream and nothing else: no event
    )
    assert len(decoded.events) == 1


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_damaged_streams_are_rejected_or_read_and_harm_nobody_else(data: st.DataObject) -> None:
    good = as_stream(encoded(table({}, {"seen": [4]}, {}), ["kind", "seen"]))
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)) | st.just(len(good)))
    decoded = decode(bytes(damaged[:cut]), good)
    for column in decoded.events.lists:
        column.rows.validate()
    assert np.count_nonzero(decoded.events.offset == 11) == 3


def test_names_that_contradict_each_other_are_refused_as_in_json() -> None:
    for name in ("seen", "ctx.shop.x", "ctx"):
        with pytest.raises(ConfigError):
            ArrowTables(replace(SCHEMA, labels=(Label(name="odd", field=name),)))
