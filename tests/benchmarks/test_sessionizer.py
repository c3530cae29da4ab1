"""The sessionizer's benchmark compares equal work: its stream has a truth, and everybody does all of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.sessionizer import setup
from benchmarks.sessionizer.arrow_stream import bundled
from benchmarks.sessionizer.by_event import GAP_MS, LATENESS_MS, ByEvent
from benchmarks.sessionizer.contest import Place, entrants
from benchmarks.sessionizer.core_alone import core_alone
from benchmarks.sessionizer.decoding_worker import EveryList
from benchmarks.sessionizer.setup import fill
from benchmarks.sessionizer.stream import FIRST_USER, FIRST_VIEW, LISTS, Law, clicked, messages, sessions_of
from sessionizer.config import SessionConfig
from streams.events.decode import EventDecoder
from streams.events.event import EventBatch
from streams.events.formats.arrow import ArrowTables
from streams.events.formats.json_objects import JsonObjects
from tests.streams.events.records import Rec


def test_the_stream_is_in_order_of_time_and_holds_what_its_law_says() -> None:
    law, num = Law(active=50, length=4, users=500), 5_000
    found = [(one.time_ms, one.user, json.loads(one.value)) for one in messages(law, num)]
    assert [at for at, _, _ in found] == sorted(at for at, _, _ in found)
    assert all((at, user) == (event["at"], event["user"]) for at, user, event in found)
    views = [event for _, _, event in found if event["type"] == "view"]
    number = np.array([event["id"] - FIRST_VIEW for event in views])
    assert np.array_equal(number, np.arange(num))
    assert [event["user"] for event in views] == (FIRST_USER + sessions_of(law, number) % 500).tolist()
    of = {event["of"] - FIRST_VIEW for _, _, event in found if event["type"] == "click"}
    assert of == set(np.flatnonzero(clicked(law, number)).tolist())
    assert len(of) == pytest.approx(num * law.clicked, rel=0.1)


def test_a_session_has_the_length_of_its_law_and_lists_of_its_own() -> None:
    law = Law(active=20, length=8, lists=True)
    session = sessions_of(law, np.arange(1_600))
    sizes = np.unique(session, return_counts=True)[1]
    assert sizes.max() == 8
    assert np.count_nonzero(sizes == 8) >= 1_600 / 8 - 2 * 20
    lists: dict[int, set[str]] = {}
    for one in messages(law, 400):
        event = json.loads(one.value)
        if event["type"] == "view":
            lists.setdefault(one.user, set()).add(json.dumps([event[name] for name in LISTS]))
            assert all(50 <= len(event[name]) <= 100 for name in LISTS)
    assert {len(each) for each in lists.values()} == {1}
    assert len(set.union(*lists.values())) == len(lists)


def test_messages_are_as_large_as_the_lines_say() -> None:
    small = [len(one.value) for one in messages(Law(), 2_000)]
    listed = [len(one.value) for one in messages(Law(lists=True), 2_000) if b"view" in one.value]
    assert np.mean(small) == pytest.approx(150, rel=0.1)
    assert np.mean(listed) == pytest.approx(1_900, rel=0.1)


def test_every_field_of_a_message_is_read_by_recd_and_by_the_baselines() -> None:
    law = Law(lists=True)
    values = [one.value for one in messages(law, 200)]
    schema = setup.configured("localhost:1", "none", law).schema
    records = [Rec(value=value, offset=i, headers=()) for i, value in enumerate(values)]
    decoded = EventDecoder(schema).decode(records, now_ms=1 << 50)
    assert not decoded.rejected
    assert len(decoded.events) == len(values)
    named = {name for value in values for name in json.loads(value)} - {"referrer"}
    features = {one.field for one in schema.sparse} | {one.field for one in schema.dense}
    assert named - features == {"type", "id", "at", "of"}


def test_lists_that_are_all_decoded_are_those_that_are_compared() -> None:
    law = Law(active=20, length=8, lists=True)
    schema = setup.configured("localhost:1", "none", law).schema
    records = [Rec(value=one.value, offset=i, headers=()) for i, one in enumerate(messages(law, 300))]
    ours, theirs = (EventDecoder(schema, kind(schema)).decode(records).events for kind in (JsonObjects, EveryList))
    assert same_but_lists(ours, theirs)
    for mine, other in zip(ours.lists, theirs.lists, strict=True):
        assert np.array_equal(mine.per_event.values, other.per_event.values)
        assert np.array_equal(mine.per_event.offsets, other.per_event.offsets)


def test_arrow_messages_hold_the_events_of_the_stream() -> None:
    law = Law(active=20, length=8)
    schema = setup.configured("localhost:1", "none", law).schema
    stream = list(messages(law, 700))
    bundles = list(bundled(stream, 2, 64))
    assert {one.num_events for one in bundles[:-2]} == {64}
    for partition in (0, 1):
        one_by_one = [
            Rec(value=one.value, offset=i, headers=()) for i, one in enumerate(stream) if one.user % 2 == partition
        ]
        many = [
            Rec(value=one.value, offset=i, headers=()) for i, one in enumerate(bundles) if one.partition == partition
        ]
        ours = EventDecoder(schema, ArrowTables(schema)).decode(many)
        assert not ours.rejected
        assert same_but_lists(ours.events, EventDecoder(schema).decode(one_by_one).events)


def same_but_lists(left: EventBatch, right: EventBatch) -> bool:
    """Whether two batches hold the same events, wherever they lay."""
    names = ("event_time_ms", "event_id", "user", "item", "kind", "impression", "labels", "dense", "ids")
    return all(np.array_equal(getattr(left, name), getattr(right, name), equal_nan=name == "labels") for name in names)


def test_the_agent_s_sessions_and_labels_are_those_of_the_law() -> None:
    law, num = Law(active=50, length=4, users=500), 3_000
    one = ByEvent()
    for message in messages(law, num):
        one.take(message.value)
    one.finish()
    assert (one.samples, one.clicked) == (num, int(np.count_nonzero(clicked(law, np.arange(num)))))
    assert (SessionConfig().gap_ms, SessionConfig().lateness_ms) == (GAP_MS, LATENESS_MS)


def test_the_core_alone_holds_as_many_sessions_as_it_is_asked_for() -> None:
    found = core_alone(Law(active=100, length=2, users=1 << 40), 10_000, 10_000)
    assert found.open_sessions == pytest.approx(10_000, rel=0.05)
    assert found.event_us > 0


@pytest.mark.integration
@pytest.mark.timeout(900)
def test_everybody_does_all_of_the_work_and_ours_is_right(kafka: str, tmp_path: Path) -> None:
    place = Place(kafka, tmp_path, max(os.sched_getaffinity(0)))
    filled = fill(kafka, "bench-small", Law(active=50, length=4), 1_000)
    runs = entrants(place)
    assert set(runs) >= {"recd", "columns", "fields", "agent"}
    # Each checks by itself that it has seen every event; recd's labels are compared with the law's.
    assert all(runs[name](filled, name) > 0 for name in ("recd", "columns", "fields", "agent"))
    wrong = replace(filled, law=replace(filled.law, seed=1))
    with pytest.raises(RuntimeError, match="wrong label"):
        entrants(place)["recd"](wrong, "wrong")
