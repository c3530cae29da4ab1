"""Outcomes whose topic calls fields otherwise: the same columns as under the names of the interactions."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import ConfigError
from streams.events.decode import EventDecoder
from streams.events.event import EventBatch
from streams.events.formats.arrow import ArrowTables
from streams.events.ids import event_id, user_id
from streams.events.outcomes_topic import OutcomesDecoder, outcomes_schema
from streams.events.record import Decoded
from streams.events.roles import OutcomeRoles, Roles
from streams.events.schema import EventSchema
from tests.streams.events.formats.encode import as_stream
from tests.streams.events.records import NOW_MS, ROLES, SCHEMA, raw

CLICK: dict[str, Any] = {"kind": "click", "id": 9, "user": 42, "time": NOW_MS, "of": 1, "rating": 5, "bought": 1}
SHOWN = Roles(event_id=("id",), user="user", item="item", time="time", default_kind="impression")


def decoded(roles: OutcomeRoles | None, *messages: object, schema: EventSchema = SCHEMA) -> Decoded:
    schema = replace(schema, outcomes=roles)
    decoder = OutcomesDecoder(EventDecoder(outcomes_schema(schema)), schema)
    return decoder.decode([raw(msgspec.json.encode(message), at) for at, message in enumerate(messages)])


def moved(name: str, to: str, value: object = ...) -> dict[str, object]:
    """The click with one field under another name, or with another value there."""
    kept = {key: held for key, held in CLICK.items() if key != name}
    return kept | {to: CLICK[name] if value is ... else value}


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (OutcomeRoles(user="who"), moved("user", "who")),
        (OutcomeRoles(event_id=("click_id",)), moved("id", "click_id")),
        (OutcomeRoles(time="at"), moved("time", "at")),
        (OutcomeRoles(time_unit="s"), moved("time", "time", NOW_MS // 1000)),
        (OutcomeRoles(time="ctx.at", time_unit="us"), moved("time", "ctx", {"at": NOW_MS * 1000})),
        (OutcomeRoles(impression="shown"), moved("of", "shown")),
        (OutcomeRoles(kind="what"), moved("kind", "what")),
        (OutcomeRoles(kinds={"tap": "outcome"}), moved("kind", "kind", "tap")),
        (OutcomeRoles(kind="what", kinds={"tap": "outcome"}), moved("kind", "what", "tap")),
        (OutcomeRoles(kind=""), moved("kind", "page")),
        (OutcomeRoles(labels={"like": "stars"}), moved("rating", "stars")),
    ],
    ids=lambda each: "" if isinstance(each, dict) else "-".join(key for key, held in asdict(each).items() if held),
)
def test_each_role_may_have_a_field_of_its_own(roles: OutcomeRoles, message: dict[str, object]) -> None:
    found, usual = decoded(roles, message), decoded(None, CLICK)
    assert found.rejected == usual.rejected == []
    assert columns(found.events) == columns(usual.events)


def test_the_item_by_which_outcomes_are_joined_may_be_called_otherwise() -> None:
    by_item = replace(SCHEMA, roles=replace(ROLES, impression=None, join="user_item"))
    found = decoded(OutcomeRoles(item="film"), CLICK | {"film": 7}, schema=by_item)
    assert columns(found.events) == columns(decoded(None, CLICK | {"item": 7}, schema=by_item).events)


def test_outcomes_without_an_id_have_that_of_several_fields_while_they_refer_by_one() -> None:
    roles = OutcomeRoles(event_id=("of", "time"))
    (first, second) = decoded(roles, moved("id", "page"), moved("id", "page") | {"time": NOW_MS - 5}).events.event_id
    assert (first, second) == (event_id([1, NOW_MS]), event_id([1, NOW_MS - 5]))
    assert decoded(roles, CLICK).events.impression.tolist() == [event_id([1])]


def test_where_no_field_tells_kinds_every_message_is_an_outcome() -> None:
    schema = replace(SCHEMA, roles=SHOWN)
    found = decoded(OutcomeRoles(impression="of", user="who"), moved("user", "who"), schema=schema)
    assert found.events.user.tolist() == [user_id(42)]
    assert found.events.impression.tolist() == [event_id([1])]


def test_what_the_interactions_call_features_may_be_anything_among_the_outcomes() -> None:
    message = CLICK | {"who": 42, "item": "x", "seen": 3, "price": {"currency": "EUR"}, "ctx": "web"}
    found = decoded(OutcomeRoles(user="who"), message)
    assert not found.rejected
    assert columns(found.events) == columns(decoded(None, CLICK | {"item": "x"}).events)


def test_a_field_that_is_a_list_in_one_topic_may_be_one_value_in_the_other() -> None:
    roles = OutcomeRoles(impression="seen")
    assert decoded(roles, moved("of", "seen")).events.impression.tolist() == [event_id([1])]


def test_a_refused_message_names_the_section_that_is_about_its_topic() -> None:
    told = [each.detail for each in decoded(OutcomeRoles(time_unit="s"), CLICK, CLICK | {"kind": "tap"}).rejected]
    assert told[0].endswith("is outcomes.time_unit right?")
    assert told[1] == "field kind: 'tap' is none of outcomes.kinds"
    assert decoded(None, CLICK | {"kind": "tap"}).rejected[0].detail.endswith("is none of event.kinds")


def test_what_is_no_outcome_is_sent_to_the_interactions() -> None:
    (refused,) = decoded(OutcomeRoles(kinds={"click": "outcome", "show": "impression"}), CLICK | {
        "kind": "show", "item": 7,
    }).rejected  # fmt: skip
    assert "an impression belongs among the interactions" in refused.detail


def test_an_outcome_of_the_future_is_told_of_beside_what_is_no_outcome_in_its_message() -> None:
    schema = replace(SCHEMA, sparse=(), dense=())
    later = [CLICK | {"id": 2, "time": NOW_MS + 10**9}, CLICK | {"id": 3, "time": NOW_MS + 2 * 10**9, "kind": "view"}]
    rows = pa.Table.from_pylist([CLICK | {"kind": "view"}, CLICK, *later]).append_column("item", pa.array([7] * 4))
    decoder = OutcomesDecoder(EventDecoder(outcomes_schema(schema), ArrowTables(schema)), schema)
    found = decoder.decode([replace(raw(as_stream(rows), 5), headers=())], now_ms=NOW_MS)
    assert found.events.event_id.tolist() == [event_id([9]), event_id([2])]
    assert (found.future.tolist(), found.future_ms.tolist()) == ([5], [NOW_MS + 10**9])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"event_id": ()}, r"outcomes\.event_id names no field; give one"),
        ({"user": ""}, r"outcomes\.user names no field; give one, or leave it out"),
        ({"labels": {"like": ""}}, r"outcomes\.labels\.like names no field"),
        ({"kind": "", "kinds": {"tap": "outcome"}}, r"outcomes\.kinds is set, but outcomes\.kind = \"\""),
    ],
)
def test_roles_that_name_nothing_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        OutcomeRoles(**given)


@pytest.mark.parametrize(
    ("roles", "outcomes", "told"),
    [
        (SHOWN, OutcomeRoles(user="who"), r"outcomes\.impression names no field, nor does event\.impression"),
        (
            replace(SHOWN, join="user_item"),
            OutcomeRoles(impression="of"),
            r'outcomes\.impression is set, but event\.join = "user_item" does not read it; remove one',
        ),
        (
            replace(SHOWN, event_id=("a", "b")),
            OutcomeRoles(impression="of"),
            r"outcomes\.impression is one field, so event\.event_id must be one too; join them upstream",
        ),
        (
            SHOWN,
            OutcomeRoles(impression="of", kinds={"tap": "outcome"}),
            r"outcomes\.kinds is set, but neither outcomes\.kind nor event\.kind names a field; set outcomes\.kind",
        ),
        (
            SHOWN,
            OutcomeRoles(impression="of", kind="what"),
            r'none of its values means "outcome"; name one in outcomes',
        ),
        (
            ROLES,
            OutcomeRoles(kinds={"show": "impression"}),
            r'none of its values means "outcome"; name one in outcomes',
        ),
        (
            ROLES,
            OutcomeRoles(labels={"likes": "x"}),
            r"outcomes\.labels\.likes: there is no label likes; .*: like, buy",
        ),
    ],
)
def test_roles_that_contradict_those_of_the_interactions_are_refused(
    roles: Roles, outcomes: OutcomeRoles, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        replace(SCHEMA, roles=roles, outcomes=outcomes)


def test_the_fingerprint_changes_with_the_roles_of_outcomes_and_is_what_it_was_without() -> None:
    some = [None, OutcomeRoles(user="who"), OutcomeRoles(time="who"), OutcomeRoles(labels={"like": "stars"})]
    found = [replace(SCHEMA, outcomes=roles).fingerprint() for roles in some]
    assert len(set(found)) == len(some)
    # What was stored before outcomes could have roles of their own names the schema by these fields.
    before = asdict(SCHEMA)
    del before["outcomes"]
    text = json.dumps(before, sort_keys=True, default=list)
    assert found[0] == int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    assert found[0] == 0xBC71518B5475691, "what stored batches and checkpoints hold"


OWN = OutcomeRoles(
    event_id=("number", "ctx.page"), user="who", item="film", time="when", time_unit="iso", impression="shown",
    kind="what", kinds={"tap": "outcome", "show": "impression"}, labels={"like": "stars", "buy": "paid"},
)  # fmt: skip
USUAL = replace(ROLES, kinds={"click": "outcome", "view": "impression"})
ids = st.one_of(st.integers(-5, 5), st.text("ab1", min_size=1, max_size=2), st.none(), st.booleans())
ratings = st.one_of(st.none(), st.integers(0, 6), st.sampled_from(["4", "x", 4.5]))


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "id": ids, "user": ids, "item": ids, "of": ids, "rating": ratings, "bought": ratings,
                "kind": st.sampled_from(["click", "click", "click", "other", None]),
                "time": st.integers(-10, 10).map(lambda each: NOW_MS + 997 * each),
            }
        ),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_renamed_outcomes_give_the_columns_that_they_gave_under_the_usual_names(events: list[dict[str, Any]]) -> None:
    renamed = [
        {
            "number": event["id"], "ctx": {"page": 1}, "who": event["user"], "film": event["item"],
            "when": (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=event["time"])).isoformat(),
            "shown": event["of"], "what": {"click": "tap"}.get(event["kind"], event["kind"]),
            "stars": event["rating"], "paid": event["bought"],
            # Of names that mean something among the interactions.
            "user": 1, "rating": 5, "seen": "x",
        }
        for event in events
    ]  # fmt: skip
    schema = replace(SCHEMA, roles=USUAL)
    found, usual = decoded(OWN, *renamed, schema=schema), decoded(None, *events, schema=schema)
    assert [(each.offset, each.reason) for each in found.rejected] == [(e.offset, e.reason) for e in usual.rejected]
    mine, theirs = columns(found.events), columns(usual.events)
    numbers = [events[offset]["id"] for offset in found.events.offset.tolist()]
    assert mine.pop("event_id") == [event_id([number, 1]) for number in numbers]
    assert theirs.pop("event_id") == [event_id([number]) for number in numbers]
    assert mine == theirs


def columns(events: EventBatch) -> dict[str, object]:
    """All but the hash of the bytes, as lists that compare, NaN as a word."""
    flat = [each.name for each in fields(EventBatch) if each.name not in {"lists", "content_hash", "labels"}]
    return {name: getattr(events, name).tolist() for name in flat} | {
        "labels": np.where(np.isnan(events.labels), -1, events.labels).tolist(),
        "lists": [column.per_event.to_lists() for column in events.lists],
        "types": [getattr(events, name).dtype.str for name in flat],
    }
