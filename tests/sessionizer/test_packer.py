"""Batches are made of whole sessions, and a group's rows are exactly its distinct ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.config import BatchConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.packer import group_of
from streams.clock_mark import ClockMark, MarkKind
from streams.events.event import ListColumn
from streams.events.ids import NO_ID
from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.windows import PartialIkjt
from streams.reshape import concat
from streams.wire import decode, encode, most_bytes
from tests.sessionizer.events import SCHEMA, batches_of, columns, new_core, run, streams
from tests.sessionizer.oracle import Ev
from tests.streams.wire.test_codec import same_batch

lists = st.lists(st.lists(st.integers(0, 2), max_size=2), min_size=1, max_size=6)


@given(lists, lists, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_a_group_equals_the_deduplication_of_its_expanded_rows(
    a: list[list[int]], b: list[list[int]], use: list[tuple[int, int]]
) -> None:
    columns = {
        "a": ListColumn(rows=Jagged.from_lists(a), index=np.array([i % len(a) for i, _ in use], np.int32)),
        "b": ListColumn(rows=Jagged.from_lists(b), index=np.array([j % len(b) for _, j in use], np.int32)),
    }
    got = group_of("g", columns)
    want = deduplicate("g", {key: column.per_event for key, column in columns.items()})
    assert got.inverse.tolist() == want.inverse.tolist()
    assert {k: r.to_lists() for k, r in got.features.items()} == {k: r.to_lists() for k, r in want.features.items()}


@given(streams(), st.integers(1, 7))
def test_a_group_in_its_partial_form_holds_the_same_samples(events: list[Ev], batch_samples: int) -> None:
    config = SessionConfig(gap_ms=20, lateness_ms=40, max_samples=100)
    user, history = SCHEMA.groups
    schema = replace(SCHEMA, groups=(user, replace(history, form="partial")))
    exact = batches_of(run(new_core(config, batch_samples), events))
    core = PartitionCore(schema, config, BatchConfig(samples=batch_samples), 0)
    partial = batches_of(run(core, events))
    assert [batch.content_hash for batch in partial] == [batch.content_hash for batch in exact]
    assert [batch.fingerprint for batch in partial] == [batch.fingerprint for batch in exact]
    for batch, other in zip(partial, exact, strict=True):
        assert [type(group) for group in batch.groups] == [Ikjt, PartialIkjt, Ikjt]
        assert all(a.num_values <= b.num_values for a, b in zip(batch.groups, other.groups, strict=True))
        assert decode(encode(batch)).content_hash == other.content_hash


@given(streams(), st.integers(1, 7))
def test_no_session_is_split_unless_it_exceeds_the_batch(events: list[Ev], batch_samples: int) -> None:
    config = SessionConfig(gap_ms=5, lateness_ms=0, max_samples=100)
    batches = batches_of(run(new_core(config, batch_samples), events))
    places: dict[int, set[int]] = {}
    sizes: dict[int, int] = {}
    for batch in batches:
        assert len(batch) <= batch_samples
        for session in batch.lineage.session_id.tolist():
            places.setdefault(session, set()).add(batch.sequence)
            sizes[session] = sizes.get(session, 0) + 1
    assert all(len(where) == 1 for session, where in places.items() if sizes[session] <= batch_samples)


def many_events(users: int, each: int) -> list[Ev]:
    """Sessions of `each` events, one user after the other."""
    return [
        Ev(1000 + 100 * user + k, each * user + k, user, 100 + (k % 7), k % 2)
        for user in range(users)
        for k in range(each)
    ]


def test_a_batch_that_could_be_too_large_a_message_becomes_several_of_whole_sessions() -> None:
    config = SessionConfig(gap_ms=50, lateness_ms=0, max_samples=100)
    events = many_events(users=100, each=30)
    limit = BatchConfig(samples=10_000, max_bytes=64 * 1024)
    effects = run(PartitionCore(SCHEMA, config, limit, 0), events)
    batches = batches_of(effects)
    (whole,) = batches_of(run(new_core(config, 10_000), events))
    assert len(batches) > 2
    assert all(len(encode(batch)) <= most_bytes(batch) <= limit.max_bytes for batch in batches)
    assert [batch.sequence for batch in batches] == list(range(len(batches)))
    assert [batch.watermark_ms for batch in batches] == sorted(batch.watermark_ms for batch in batches)
    assert whole.watermark_ms == batches[-1].watermark_ms
    assert same_batch(replace(concat(batches), sequence=whole.sequence), whole)
    assert sum(batch.num_sessions for batch in batches) == whole.num_sessions == 100


def test_a_session_that_alone_could_be_too_large_is_split_in_order() -> None:
    config = SessionConfig(gap_ms=50, lateness_ms=0, max_samples=2000, max_age_ms=10_000)
    limit = BatchConfig(samples=10_000, max_bytes=64 * 1024)
    batches = batches_of(run(PartitionCore(SCHEMA, config, limit, 0), many_events(users=1, each=1500)))
    assert len(batches) > 1
    assert all(most_bytes(batch) <= limit.max_bytes for batch in batches)
    times = [time for batch in batches for time in batch.lineage.event_time_ms.tolist()]
    assert times == sorted(times)
    assert len(times) == 1500


def test_a_full_batch_leaves_at_once() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0), batch_samples=2)
    batches = batches_of(run(core, [Ev(1000, 1, 7), Ev(1001, 2, 7), Ev(2000, 3, 8)]))
    assert [batch.lineage.offset.tolist() for batch in batches] == [[0, 1], [2]]
    assert [batch.watermark_ms for batch in batches] == [1011, 2010]


def test_a_missing_optional_id_is_an_empty_row() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0), batch_samples=2)
    events = columns([Ev(1000, 1, 7, item=100), Ev(1001, 2, 7, item=101)])
    events.ids[1, 1] = NO_ID
    effects = core.feed(events, rejected=0, next_offset=2)
    effects += core.apply(ClockMark(partition=0, after_offset=2, kind=MarkKind.END))
    (batch,) = batches_of(effects)
    (item,) = [group for group in batch.groups if group.group == "item"]
    assert item.expand()["item"].to_lists() == [[100], []]
