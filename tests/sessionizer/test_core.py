"""The core against the brute-force sessionizer, and what must not matter to it."""

from __future__ import annotations

import dataclasses
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.config import LONGEST_MS, BatchConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import EndReached, ReportLate
from streams.clock_mark import ClockMark, MarkKind
from streams.errors import ConfigError, InvariantError
from streams.events.decode import LAST_MS
from streams.minibatch import MiniBatch
from tests.sessionizer.events import (
    LAST,
    SCHEMA,
    batches_of,
    columns,
    configs,
    histories_of,
    new_core,
    offsets_of,
    run,
    streams,
)
from tests.sessionizer.oracle import Ev, brute_force

polls = st.lists(st.integers(1, 59), max_size=8)


@given(streams(), configs, st.integers(1, 7), polls)
def test_the_core_agrees_with_the_brute_force_sessionizer(
    events: list[Ev], config: SessionConfig, batch_samples: int, cuts: list[int]
) -> None:
    truth = brute_force(events, config, batch_samples, LAST)
    core = new_core(config, batch_samples)
    effects = run(core, events, cuts)
    batches = batches_of(effects)
    assert offsets_of(batches) == truth.batches
    assert histories_of(batches) == truth.history
    assert [o for e in effects if isinstance(e, ReportLate) for o in e.offset.tolist()] == truth.late
    account = core.account
    assert (account.events, account.late, account.duplicates) == (len(events), len(truth.late), truth.duplicates)
    assert (account.sessions, account.sessions_cut) == (len(truth.parts), sum(part.cut for part in truth.parts))
    assert [batch.sequence for batch in batches] == list(range(len(batches)))
    for batch in batches:
        for group in batch.groups:
            group.validate()


@given(streams(), configs, polls)
def test_where_polls_end_does_not_matter(events: list[Ev], config: SessionConfig, cuts: list[int]) -> None:
    whole = batches_of(run(new_core(config), events))
    split = batches_of(run(new_core(config), events, cuts))
    assert [batch.content_hash for batch in whole] == [batch.content_hash for batch in split]
    assert [batch.watermark_ms for batch in whole] == [batch.watermark_ms for batch in split]


@given(streams(), configs, st.randoms(use_true_random=False))
def test_arrival_order_within_lateness_does_not_matter(
    events: list[Ev], config: SessionConfig, random: random.Random
) -> None:
    unlimited = dataclasses.replace(config, lateness_ms=100, duplicate_horizon_ms=1000, max_pending_events=1000)
    # One content a copy: otherwise two copies of equal time and hash would differ in what they say.
    events = [event._replace(hash=place) for place, event in enumerate(events)]
    shuffled = random.sample(events, len(events))
    first = batches_of(run(new_core(unlimited), events))
    second = batches_of(run(new_core(unlimited), shuffled))
    assert [batch.content_hash for batch in first] == [batch.content_hash for batch in second]


@given(streams(), configs, st.integers(-(10**9), 10**12))
def test_shifting_every_time_by_a_constant_shifts_nothing_else(
    events: list[Ev], config: SessionConfig, shift: int
) -> None:
    moved = [event._replace(time=event.time + shift) for event in events]
    assert offsets_of(batches_of(run(new_core(config), events))) == offsets_of(batches_of(run(new_core(config), moved)))


@given(streams(), configs, polls)
def test_a_core_restored_from_a_cut_after_every_poll_goes_on_as_if_it_had_never_stopped(
    events: list[Ev], config: SessionConfig, cuts: list[int]
) -> None:
    unbroken = batches_of(run(new_core(config), events, cuts))
    core, effects = new_core(config), []
    bounds = sorted({0, *(p for p in cuts if p < len(events)), len(events)})
    for start, end in pairwise(bounds):
        effects += core.feed(columns(events[start:end], start), rejected=0, next_offset=end)
        core = PartitionCore.restore(SCHEMA, config, BatchConfig(samples=4), core.cut())
    effects += core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.END))
    assert [batch.content_hash for batch in batches_of(effects)] == [batch.content_hash for batch in unbroken]
    assert [batch.sequence for batch in batches_of(effects)] == [batch.sequence for batch in unbroken]


WIDE = SessionConfig(gap_ms=10, lateness_ms=5)


def test_a_gap_of_exactly_gap_ms_splits_and_one_millisecond_less_does_not() -> None:
    core = new_core(WIDE, batch_samples=1)
    run(core, [Ev(1000, 1, 7), Ev(1009, 2, 7), Ev(1019, 3, 7)])
    assert core.account.sessions == 2


def test_a_late_event_that_bridges_two_sessions_makes_them_one() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=100), batch_samples=8)
    batches = batches_of(run(core, [Ev(1000, 1, 7), Ev(1018, 2, 7), Ev(1009, 3, 7)]))
    assert offsets_of(batches) == [[0, 2, 1]]
    assert core.account.sessions == 1


def test_an_event_exactly_at_the_watermark_is_in_time_and_one_before_it_is_late_by_one() -> None:
    core = new_core(WIDE)
    effects = core.feed(columns([Ev(1000, 1, 7), Ev(995, 2, 8), Ev(994, 3, 9)]), rejected=0, next_offset=3)
    (late,) = [effect for effect in effects if isinstance(effect, ReportLate)]
    assert (late.offset.tolist(), late.late_by_ms.tolist()) == ([2], [1])


def test_a_rare_user_closes_by_the_watermark_of_the_partition() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=5), batch_samples=1)
    effects = core.feed(
        columns([Ev(1000, 1, 7), *[Ev(1000 + t, 10 + t, 8) for t in range(30)]]), rejected=0, next_offset=31
    )
    assert [0] in offsets_of(batches_of(effects))


def test_an_idle_mark_closes_sessions_and_an_event_behind_it_is_late() -> None:
    core = new_core(WIDE, batch_samples=1)
    core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=1)
    effects = core.apply(ClockMark(partition=0, after_offset=1, kind=MarkKind.IDLE, value_ms=1200))
    assert offsets_of(batches_of(effects)) == [[0]]
    effects = core.feed(columns([Ev(1100, 2, 8)], 1), rejected=0, next_offset=2)
    assert core.account.late == 1
    assert core.num_open_sessions == 0


def test_silence_seals_the_batch_once_no_session_is_open() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0), batch_samples=4)
    core.feed(columns([Ev(1000, 1, 7), Ev(1005, 2, 8)]), rejected=0, next_offset=2)

    def idle(value_ms: int) -> list[list[int]]:
        mark = ClockMark(partition=0, after_offset=2, kind=MarkKind.IDLE, value_ms=value_ms)
        return offsets_of(batches_of(core.apply(mark)))

    assert idle(1012) == [], "the second session is open and may share the batch"
    assert idle(1016) == [[0, 1]]
    assert core.held == 0
    assert idle(1020) == []


def test_an_idle_mark_never_moves_the_watermark_back() -> None:
    core = new_core(WIDE)
    core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=1)
    core.apply(ClockMark(partition=0, after_offset=1, kind=MarkKind.IDLE, value_ms=10))
    assert core.watermark_ms == 995


def test_after_an_end_mark_a_new_epoch_begins_in_which_old_times_are_not_late_and_copies_are_duplicates() -> None:
    core = new_core(WIDE)
    first = [Ev(2000, 1, 7, item=100, label=1), Ev(2001, 2, 7, item=101, label=1)]
    effects = run(core, first)
    assert [effect for effect in effects if isinstance(effect, EndReached)] == [EndReached(0, 0, 2)]
    effects = core.feed(columns([Ev(1000, 3, 7), Ev(2000, 1, 7)], 2), rejected=0, next_offset=4)
    effects += core.apply(ClockMark(partition=0, after_offset=4, kind=MarkKind.END))
    assert (core.account.late, core.account.duplicates) == (0, 1)
    assert histories_of(batches_of(effects)) == {2: []}, "entries of a later time are the future of this sample"


def test_histories_hold_what_is_strictly_before_the_sample_even_across_a_cap() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0, max_samples=2), batch_samples=2)
    events = [Ev(1000, 1, 7, 100, 1), Ev(1000, 2, 7, 101, 1), Ev(1000, 3, 7, 102, 1), Ev(1001, 4, 7, 103, 1)]
    assert histories_of(batches_of(run(core, events))) == {0: [], 1: [], 2: [], 3: [100, 101, 102]}


def test_rejected_records_are_accounted_for_and_the_account_balances() -> None:
    core = new_core(WIDE)
    core.feed(columns([Ev(1000, 1, 7)]), rejected=2, next_offset=3)
    assert (core.account.events, core.account.dead_lettered, core.account.labelled) == (3, 2, 1)


def test_a_session_of_a_hundred_thousand_events_leaves_in_parts() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0, max_samples=256, max_held_samples=300), batch_samples=256)
    batches = batches_of(run(core, [Ev(1000 + i, i, 7) for i in range(100_000)]))
    assert sum(map(len, batches)) == 100_000
    assert max(map(len, batches)) == 256
    assert core.account.sessions_cut == 390
    assert len({int(batch.lineage.session_id[0]) for batch in batches}) == 1


def test_memory_of_many_idle_users_is_freed_when_their_sessions_close() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0), batch_samples=64)
    for i in range(50):
        events = [Ev(1000 + 100 * i + j % 50, 10_000 * i + j, 10_000 * i + j) for j in range(2000)]
        events.sort()
        core.feed(columns(events, core.next_offset), rejected=0, next_offset=core.next_offset + 2000)
    assert core.held < 4200


def test_a_cut_of_another_configuration_is_refused_in_words() -> None:
    core = new_core(WIDE)
    core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=1)
    with pytest.raises(ConfigError, match="another configuration"):
        PartitionCore.restore(SCHEMA, SessionConfig(gap_ms=11), BatchConfig(samples=4), core.cut())


def test_after_an_end_mark_the_configuration_may_change_and_histories_stay() -> None:
    core = new_core(WIDE)
    run(core, [Ev(1000, 1, 7, item=100, label=1)])
    changed = PartitionCore.restore(SCHEMA, SessionConfig(gap_ms=11), BatchConfig(samples=9), core.cut())
    assert (changed.next_offset, changed.next_sequence, changed.epoch) == (1, 1, 1)
    effects = changed.feed(columns([Ev(2000, 2, 7)], 1), rejected=0, next_offset=2)
    effects += changed.apply(ClockMark(partition=0, after_offset=2, kind=MarkKind.END))
    assert histories_of(batches_of(effects)) == {1: [100]}


def test_a_changed_history_begins_empty_after_an_end_mark() -> None:
    core = new_core(WIDE)
    run(core, [Ev(1000, 1, 7, item=100, label=1)])
    schema = dataclasses.replace(SCHEMA, histories=(dataclasses.replace(SCHEMA.histories[0], last=2),))
    changed = PartitionCore.restore(schema, WIDE, BatchConfig(samples=4), core.cut())
    effects = changed.feed(columns([Ev(2000, 2, 7)], 1), rejected=0, next_offset=2)
    effects += changed.apply(ClockMark(partition=0, after_offset=2, kind=MarkKind.END))
    assert histories_of(batches_of(effects)) == {1: []}


def test_a_damaged_cut_is_refused_in_words() -> None:
    with pytest.raises(InvariantError, match="damaged"):
        PartitionCore.restore(SCHEMA, WIDE, BatchConfig(samples=4), new_core(WIDE).cut()[:-9])


def test_records_that_were_read_before_are_refused() -> None:
    core = new_core(WIDE)
    core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=5)
    with pytest.raises(InvariantError, match="positions must come from the cut"):
        core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=4)


def test_the_smallest_held_offset_waits_for_the_oldest_sample() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0), batch_samples=1)
    core.feed(columns([Ev(1000, 1, 7), Ev(1005, 2, 8)]), rejected=0, next_offset=2)
    held_open = core.smallest_held_offset
    run(core, [])
    assert (held_open, core.smallest_held_offset, core.held) == (0, None, 0)


def test_nothing_is_held_after_a_batch_that_took_everything() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0), batch_samples=1)
    core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=1)
    core.apply(ClockMark(partition=0, after_offset=1, kind=MarkKind.IDLE, value_ms=2000))
    assert (core.held, core.smallest_held_offset) == (0, None)


def test_batches_do_not_share_memory_with_later_ones() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0), batch_samples=2)
    batches = batches_of(run(core, [Ev(1000 + 20 * i, i, i, 100 + i, 1) for i in range(40)]))
    hashes = [batch.content_hash for batch in batches]
    fresh = batches_of(
        run(
            new_core(SessionConfig(gap_ms=10, lateness_ms=0), 2),
            [Ev(1000 + 20 * i, i, i, 100 + i, 1) for i in range(40)],
        )
    )
    assert hashes == [batch.content_hash for batch in fresh]
    assert np.all([np.all(batch.lineage.offset >= 0) for batch in batches])


@pytest.mark.parametrize("name", ["gap_ms", "lateness_ms", "duplicate_horizon_ms", "max_age_ms"])
def test_a_time_beyond_any_stream_is_refused_and_the_longest_one_does_not_overflow(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"session\.{name} must"):
        SessionConfig(**{name: LONGEST_MS + 1})
    config = SessionConfig(**{"gap_ms": 10, "lateness_ms": 5, name: LONGEST_MS})
    events = [Ev(0, 1, 7), Ev(LAST_MS, 2, 7), Ev(LAST_MS - 3, 3, 8), Ev(4, 4, 8), Ev(LAST_MS + 1, 5, 8)]
    assert offsets_of(batches_of(run(new_core(config, 4), events))) == brute_force(events, config, 4, LAST).batches


def fresh(core: PartitionCore) -> list[list[int]]:
    mark = ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.FRESH)
    return offsets_of(batches_of(core.apply(mark)))


def test_a_fresh_mark_seals_a_batch_of_the_sessions_that_are_over() -> None:
    core = new_core(SessionConfig(gap_ms=10, lateness_ms=0), batch_samples=4)
    core.feed(columns([Ev(1000, 1, 7), Ev(1020, 2, 8)]), rejected=0, next_offset=2)
    assert (fresh(core), core.held) == ([[0]], 1)
    assert fresh(core) == []


def test_a_fresh_mark_sends_parts_of_open_sessions_which_go_on_as_the_same_session() -> None:
    parts = BatchConfig(samples=4, fresh_ms=1, fresh="parts")
    core = PartitionCore(SCHEMA, SessionConfig(gap_ms=10, lateness_ms=0), parts, 0)
    core.feed(columns([Ev(1000, 1, 7, 100, 1), Ev(1001, 2, 7, 101, 1), Ev(1002, 3, 7)]), rejected=0, next_offset=3)
    mark = ClockMark(partition=0, after_offset=3, kind=MarkKind.FRESH)
    first = batches_of(core.apply(mark))
    assert offsets_of(first) == [[0, 1]], "the third waits for the watermark"
    core.feed(columns([Ev(1009, 4, 7)], 3), rejected=0, next_offset=4)
    rest = batches_of(core.apply(ClockMark(partition=0, after_offset=4, kind=MarkKind.END)))
    assert offsets_of(rest) == [[2, 3]]
    assert histories_of(rest) == {2: [100, 101], 3: [100, 101]}
    assert len({int(session) for batch in (*first, *rest) for session in batch.lineage.session_id}) == 1
    assert (core.account.sessions, core.account.sessions_cut) == (2, 1)


@given(streams(), configs, polls, st.lists(st.integers(0, 60), max_size=5))
def test_fresh_marks_act_after_the_same_event_wherever_polls_end(
    events: list[Ev], config: SessionConfig, cuts: list[int], marks: list[int]
) -> None:
    parts = BatchConfig(samples=4, fresh_ms=1, fresh="parts")
    hashes, accounts = [], []
    for where in ([], cuts):
        core, batches = PartitionCore(SCHEMA, config, parts, 0), list[MiniBatch]()
        bounds = sorted({0, *(p for p in (*where, *marks) if p < len(events)), len(events)})
        for start, end in pairwise(bounds):
            batches += batches_of(core.feed(columns(events[start:end], start), rejected=0, next_offset=end))
            if end in marks:
                batches += batches_of(core.apply(ClockMark(partition=0, after_offset=end, kind=MarkKind.FRESH)))
            core = PartitionCore.restore(SCHEMA, config, parts, core.cut())
        batches += batches_of(core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.END)))
        hashes.append([batch.content_hash for batch in batches])
        accounts.append(core.account)
    assert hashes[0] == hashes[1]
    assert accounts[0] == accounts[1]
    assert accounts[0].labelled == accounts[0].emitted


def test_parts_without_a_limit_for_waiting_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"does nothing without batch\.fresh_ms"):
        BatchConfig(fresh="parts")
