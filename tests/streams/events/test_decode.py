"""Messages to events, one rule at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xxhash

from streams.errors import ConfigError, Reason
from streams.events.decode import Decoded, EventDecoder
from streams.events.ids import NO_ID, hash_id, tombstone_id
from streams.events.label_rules import finished
from streams.events.outgoing import Addresser
from streams.events.roles import Roles
from streams.events.schema import CombineRule, EventKind, EventSchema, Label
from tests.streams.events.records import NOW_MS, ROLES, SCHEMA, Rec, event, raw, rec

DECODER = EventDecoder(SCHEMA)


def reason_of(record: Rec) -> Reason:
    decoded = DECODER.decode([record])
    assert len(decoded.events) == 0
    assert len(decoded.rejected) == 1
    return decoded.rejected[0].reason


def one(record: Rec) -> Decoded:
    decoded = DECODER.decode([record])
    assert not decoded.rejected, decoded.rejected
    return decoded


def test_every_role_and_feature_comes_out_in_its_column() -> None:
    record = rec(9, seen=[5, "x"])
    decoded = one(record)
    events = decoded.events
    assert record.value is not None
    assert decoded.next_offset == 10
    assert events.offset.tolist() == [9]
    assert (events.user[0], events.item[0], events.event_id[0], events.impression[0]) == (42, 7, 1, 1)
    assert events.kind.tolist() == [EventKind.LABELLED]
    assert events.event_time_ms.tolist() == [NOW_MS]
    assert events.appended_ms.tolist() == [NOW_MS]
    assert events.content_hash.tolist() == [xxhash.xxh3_64_intdigest(record.value)]
    assert events.labels.tolist() == [[1.0, 0.0]]
    assert events.dense.tolist() == [[1.5, -1.0]]
    assert events.ids.tolist() == [[7, 3]]
    assert events.lists[0].per_event.to_lists() == [[5, hash_id("x")]]
    assert events.lists[1].per_event.to_lists() == [[hash_id("a"), hash_id("b")]]


def test_a_list_with_text_that_is_no_utf8_is_broken_json() -> None:
    value = rec(seen=["x"]).value
    assert value is not None
    assert reason_of(raw(value.replace(b'["x"]', b'["\xff"]'))) == Reason.BROKEN_JSON


def test_lists_that_are_equal_as_bytes_are_one_row() -> None:
    decoded = DECODER.decode([rec(i, id=i, seen=[1, 2] if i % 2 else [3]) for i in range(6)])
    column = decoded.events.lists[0]
    assert len(set(column.index.tolist())) == column.own().rows.num_rows == 2
    assert column.per_event.to_lists() == [[3], [1, 2]] * 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"user": ...}, Reason.MISSING_FIELD),
        ({"user": None}, Reason.MISSING_FIELD),
        ({"user": ""}, Reason.MISSING_FIELD),
        ({"user": {"id": 1}}, Reason.WRONG_TYPE),
        ({"item": ...}, Reason.MISSING_FIELD),
        ({"item": 1.5}, Reason.WRONG_TYPE),
        ({"item": 1 << 63}, Reason.WRONG_TYPE),
        ({"item": NO_ID}, Reason.WRONG_TYPE),
        ({"id": None}, Reason.MISSING_FIELD),
        ({"time": ...}, Reason.MISSING_FIELD),
        ({"time": "soon"}, Reason.WRONG_TYPE),
        ({"time": True}, Reason.WRONG_TYPE),
        ({"time": NOW_MS // 1000}, Reason.TIME_OUT_OF_RANGE),
        ({"time": NOW_MS * 1000}, Reason.TIME_OUT_OF_RANGE),
        ({"time": NOW_MS * 10**9}, Reason.TIME_OUT_OF_RANGE),
        ({"time": 1e300}, Reason.TIME_OUT_OF_RANGE),
        ({"time": NOW_MS + 86_400_001}, Reason.FUTURE_TIME),
        ({"kind": "hover"}, Reason.UNKNOWN_KIND),
        ({"kind": ...}, Reason.MISSING_FIELD),
        ({"kind": "click"}, Reason.MISSING_FIELD),
        ({"price": ...}, Reason.MISSING_FIELD),
        ({"price": "cheap"}, Reason.WRONG_TYPE),
        ({"price": "nan"}, Reason.NOT_FINITE),
        ({"price": 1e300}, Reason.NOT_FINITE),
        ({"price": 10**400}, Reason.NOT_FINITE),
        ({"price": [1]}, Reason.WRONG_TYPE),
        ({"rating": "good"}, Reason.WRONG_TYPE),
        ({"bought": 2}, Reason.WRONG_TYPE),
        ({"seen": ...}, Reason.MISSING_FIELD),
        ({"seen": 3}, Reason.WRONG_TYPE),
        ({"seen": [1, None]}, Reason.MISSING_FIELD),
        ({"seen": [[1]]}, Reason.WRONG_TYPE),
        ({"ctx": 3}, Reason.WRONG_TYPE),
    ],
)
def test_a_field_that_does_not_fit_is_a_dead_letter_with_its_reason(changes: dict[str, Any], reason: Reason) -> None:
    assert reason_of(rec(**changes)) is reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", Reason.BROKEN_JSON),
        (b'{"user":', Reason.BROKEN_JSON),
        (b'{"user": "\xff"}', Reason.BROKEN_JSON),
        (b"[" * 100_000, Reason.BROKEN_JSON),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", Reason.BROKEN_JSON),
        (b"null", Reason.NOT_AN_OBJECT),
        (b"[1]", Reason.NOT_AN_OBJECT),
        (b'{"price": NaN}', Reason.NOT_FINITE),
        (b'{"price": 1e999}', Reason.NOT_FINITE),
        (b'{"user":1},{"user":2}', Reason.BROKEN_JSON),
        (b"{" + b" " * (1 << 20) + b"}", Reason.TOO_LARGE),
    ],
)
def test_bytes_that_are_no_message_are_a_dead_letter_with_its_reason(value: bytes, reason: Reason) -> None:
    assert reason_of(raw(value)) is reason


def test_a_bad_record_leaves_its_neighbours_as_they_are() -> None:
    records = [rec(3), raw(b"{", at=4), rec(5, id=2), rec(6, user=...), rec(7, id=3)]
    decoded = DECODER.decode(records)
    assert decoded.events.offset.tolist() == [3, 5, 7]
    assert [(each.offset, each.reason) for each in decoded.rejected] == [
        (4, Reason.BROKEN_JSON),
        (6, Reason.MISSING_FIELD),
    ]
    assert decoded.rejected[1].detail == "field user: the user is missing"
    assert decoded.rejected[1].record is records[3]
    assert decoded.next_offset == 8


def test_two_messages_that_only_look_right_when_joined_do_not_become_an_event() -> None:
    halves = [b'{"id":1,"seen":[{}', b'{}],"user":1}']
    decoded = DECODER.decode([raw(half, at=i) for i, half in enumerate(halves)])
    assert [each.reason for each in decoded.rejected] == [Reason.BROKEN_JSON] * 2


def test_unknown_fields_are_ignored_and_missing_optional_ones_take_their_default() -> None:
    events = one(rec(ctx=..., age=..., rating=..., bought=None, unheard_of={"deep": [1]})).events
    assert events.dense.tolist() == [[1.5, -1.0]]
    assert events.ids.tolist() == [[7, NO_ID]]
    assert np.isnan(events.labels).all()
    assert events.lists[1].per_event.to_lists() == [[]]


def test_a_nested_object_that_is_null_holds_nothing() -> None:
    assert one(rec(ctx=None)).events.ids.tolist() == [[7, NO_ID]]


def test_numbers_may_come_as_strings_but_an_id_that_does_is_a_string() -> None:
    events = one(rec(price="12.5", rating="4", time=str(NOW_MS), item="7")).events
    assert events.dense[0, 0] == np.float32(12.5)
    assert events.labels[0, 0] == 1.0
    assert events.event_time_ms[0] == NOW_MS
    assert events.item[0] == hash_id("7") != 7


def test_an_impression_has_no_label_and_an_outcome_no_features() -> None:
    decoded = DECODER.decode([rec(0, kind="view"), rec(1, kind="click", id=2, of=1, price=..., seen=..., item=...)])
    events = decoded.events
    assert not decoded.rejected
    assert np.array_equal(events.labels, [[np.nan, np.nan], [1.0, 0.0]], equal_nan=True)
    assert events.impression.tolist() == [1, 1]
    assert events.item.tolist() == [7, NO_ID]
    assert events.ids.tolist() == [[7, 3], [NO_ID, NO_ID]]
    assert events.dense.tolist() == [[1.5, -1.0], [0.0, 0.0]]
    assert [column.per_event.to_lists()[1] for column in events.lists] == [[], []]


def test_a_tombstone_erases_the_user_that_is_its_key() -> None:
    decoded = DECODER.decode([rec(4), raw(None, at=5, key=b"42", timestamp=NOW_MS + 1), rec(6, id=2)])
    events = decoded.events
    assert events.offset.tolist() == [4, 5, 6]
    assert events.kind.tolist() == [EventKind.LABELLED, EventKind.TOMBSTONE, EventKind.LABELLED]
    assert events.user.tolist() == [42, 42, 42]
    assert events.event_time_ms[1] == NOW_MS + 1
    assert events.event_id[1] == tombstone_id(0, 5)


@pytest.mark.parametrize("user", [42, "42", 42.0, "anna", -7, "007", "ünïcode", 1 << 70, True])
def test_a_tombstone_reaches_the_user_however_the_messages_spell_it(user: object) -> None:
    value = json.dumps(event(user=user)).encode()
    key = Addresser(ROLES).address(value, NOW_MS).key
    events = DECODER.decode([raw(value, at=0), raw(None, at=1, key=key)]).events
    assert events.user[0] == events.user[1]


@pytest.mark.parametrize("key", [None, b"", b"\xff"])
def test_a_tombstone_without_a_user_is_a_dead_letter(key: bytes | None) -> None:
    assert reason_of(raw(None, key=key)) in {Reason.MISSING_FIELD, Reason.WRONG_TYPE}


@pytest.mark.parametrize("timestamp", [-1, 0, 2])
def test_a_tombstone_with_a_nonsense_time_is_a_dead_letter(timestamp: int) -> None:
    assert reason_of(raw(None, key=b"42", timestamp=timestamp)) is Reason.TIME_OUT_OF_RANGE


@pytest.mark.parametrize("headers", [(), (("recd-appended-ms", b"today"),), (("recd-appended-ms", b"-5"),)])
def test_without_a_time_of_appending_a_future_event_is_reported_and_not_judged(
    headers: tuple[tuple[str, bytes], ...],
) -> None:
    record = replace(rec(8, time=NOW_MS + 2 * 86_400_000), headers=headers)
    assert one(record).future.tolist() == []
    decoded = DECODER.decode([record], now_ms=NOW_MS)
    assert decoded.events.appended_ms.tolist() == [-1]
    assert decoded.future.tolist() == [8]


def test_a_label_rule_of_words_reads_text() -> None:
    label = Label(name="good", field="verdict", rule="in", values=("yes", "1", "true"))
    decoder = EventDecoder(replace(SCHEMA, labels=(label,)))
    records = [rec(i, id=i, verdict=value) for i, value in enumerate(["yes", 1, True, "no", ..., 1.0])]
    assert decoder.decode(records).events.labels[:, 0].tolist() == pytest.approx(
        [1.0, 1.0, 1.0, 0.0, np.nan, 1.0], nan_ok=True
    )


def test_several_fields_make_one_identity() -> None:
    schema = replace(SCHEMA, roles=replace(ROLES, event_id=("user", "item"), kind=None, kinds={}, impression=None))
    decoder = EventDecoder(schema)
    pairs = [(1, 12), (11, 2), ("a", "bc"), ("ab", "c"), ("a\x1fb", "c"), ("a", "b\x1fc"), (1, 12)]
    ids = [decoder.decode([rec(user=user, item=item)]).events.event_id[0] for user, item in pairs]
    assert len(set(ids[:-1])) == 6
    assert ids[0] == ids[-1]


def test_a_decoder_needs_a_record_since_without_one_there_is_no_next_offset() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        DECODER.decode([])


def test_a_field_cannot_be_a_list_and_a_value() -> None:
    label = Label(name="odd", field="seen")
    with pytest.raises(ConfigError, match="field seen is used as a list and as a single value"):
        EventDecoder(replace(SCHEMA, labels=(label,)))
    with pytest.raises(ConfigError, match="ctx"):
        EventDecoder(replace(SCHEMA, labels=(Label(name="odd", field="ctx"),)))


@pytest.mark.parametrize("role", ["event_id", "user", "item", "time", "kind", "impression"])
def test_a_role_without_a_field_is_refused_at_the_start(role: str) -> None:
    roles = {"event_id": ("id",), "user": "user", "item": "item", "time": "at"}
    with pytest.raises(ConfigError, match=f"event.{role} names no field"):
        Roles(**(roles | {role: ("",) if role == "event_id" else ""}))  # type: ignore[arg-type]  # what a file may hold


def test_outcomes_need_a_field_that_refers_to_their_impression_or_are_found_by_user_and_item() -> None:
    with pytest.raises(ConfigError, match="names no field, but there are outcomes"):
        EventSchema(roles=replace(ROLES, impression=None), labels=SCHEMA.labels)
    with pytest.raises(ConfigError, match="does not read it"):
        EventSchema(roles=replace(ROLES, join="user_item"), labels=SCHEMA.labels)


def test_an_outcome_without_a_name_for_its_impression_shares_a_number_with_it_by_user_and_item() -> None:
    decoder = EventDecoder(replace(SCHEMA, roles=replace(ROLES, impression=None, join="user_item")))
    records = [rec(0, kind="view"), rec(1, kind="click", id=2), rec(2, kind="click", id=3, item=8)]
    first, second, other = decoder.decode(records).events.impression.tolist()
    assert first == second != other
    (rejected,) = decoder.decode([rec(0, kind="click", item=...)]).rejected
    assert rejected.reason is Reason.MISSING_FIELD


def test_an_outcome_may_say_which_item_it_is_about() -> None:
    records = [rec(0, kind="click", of=9, item=8), rec(1, kind="click", id=2, of=9, item=...)]
    assert DECODER.decode(records).events.item.tolist() == [8, NO_ID]


@pytest.mark.parametrize("combine", ["max", "sum"])
def test_labels_of_several_outcomes_together_keep_the_number_until_the_rule_is_applied(combine: CombineRule) -> None:
    label = Label(name="watched", field="seconds", rule="ge", threshold=30.0, combine=combine)
    decoder = EventDecoder(replace(SCHEMA, labels=(label,)))
    said = decoder.decode([rec(0, seconds=12.5), rec(1, id=2), rec(2, id=3, seconds=30)]).events.labels
    assert said[:, 0] == pytest.approx([12.5, np.nan, 30.0], nan_ok=True)
    assert finished((label,), said).tolist() == [[0.0], [0.0], [1.0]]
    (rejected,) = decoder.decode([rec(0, seconds=1e300)]).rejected
    assert rejected.reason is Reason.NOT_FINITE


def test_only_labels_that_compare_sizes_have_a_largest_one_or_a_sum() -> None:
    with pytest.raises(ConfigError, match=r"labels\.buy: combine = 'sum' needs a rule that compares sizes"):
        Label(name="buy", field="bought", combine="sum")
