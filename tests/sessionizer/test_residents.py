"""Profiles that come and go change nothing: a core that evicts and loads against one that does not, and the oracles."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer import cut
from sessionizer.config import BatchConfig, JoinConfig, ProfilesConfig, SessionConfig
from sessionizer.core import PartitionCore
from state.profiles import decode, histories_fingerprint
from state.store import MISSING
from streams.clock_mark import ClockMark, MarkKind
from streams.errors import ConfigError, InvariantError
from streams.events.event import EventBatch
from streams.events.schema import EventKind, History
from streams.minibatch import MiniBatch
from tests.sessionizer import join_oracle, test_join
from tests.sessionizer.events import LAST, MEASURED, batches_of, columns, configs, histories_of, offsets_of, seen_of
from tests.sessionizer.oracle import Ev

SEEN = History(name="seen", table="items", last=2, count="num_seen", recency="since_seen")
BOTH = dataclasses.replace(MEASURED, histories=(*MEASURED.histories, SEEN))
BATCHES = BatchConfig(samples=4, fresh_ms=1, fresh="parts")

steps = st.lists(
    st.tuples(st.integers(1, 59), st.sampled_from(["cut", "evict", "restart", "fresh", "end"])), max_size=10
)


@dataclass
class Kept:
    """A core whose profiles are in a dictionary of bytes."""

    config: SessionConfig
    joins: JoinConfig
    most: int = 1
    values: dict[int, bytes] = field(default_factory=dict)
    reads: int = 0

    def __post_init__(self) -> None:
        self.profiles = ProfilesConfig(store="redis", max_users_in_memory=self.most)
        self.core = PartitionCore(BOTH, self.config, BATCHES, 0, self.joins, self.profiles)

    def feed(self, events: EventBatch, end: int) -> list[MiniBatch]:
        users = self.core.unknown(events)
        self.reads += len(users)
        self.core.load_profiles(users, [self.values.get(user, MISSING) for user in users.tolist()])
        return batches_of(self.core.feed(events, rejected=0, next_offset=end))

    def cut(self) -> bytes:
        """As a commit does: changed profiles are put away, together with the cut."""
        for user, value in self.core.changed_profiles().items():
            if value is None:
                self.values.pop(user, None)
            else:
                self.values[user] = value
        return self.core.cut()

    def step(self, what: str) -> None:
        data = self.cut()
        if what == "evict":
            self.core.evict()
        if what == "restart":
            self.core = PartitionCore.restore(BOTH, self.config, BATCHES, data, self.joins, self.profiles)


def mark(core: PartitionCore, kind: MarkKind) -> list[MiniBatch]:
    return batches_of(core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=kind)))


MARKS = {"fresh": MarkKind.FRESH, "end": MarkKind.END}


@given(test_join.streams(), configs, test_join.all_joins, steps, st.lists(st.integers(0, 60), max_size=3))
def test_a_core_that_evicts_loads_and_restarts_gives_what_one_gives_that_never_does(
    stream: list[Ev], config: SessionConfig, joins: JoinConfig, steps: list[tuple[int, str]], erased: list[int]
) -> None:
    events = list(stream)
    for where in erased:
        events.insert(where, Ev(1030, 10_000 + len(events), 1 + where % 3, kind=EventKind.TOMBSTONE))
    whole, kept = PartitionCore(BOTH, config, BATCHES, 0, joins), Kept(config, joins)
    expected, found = list[MiniBatch](), list[MiniBatch]()
    does = dict(steps)
    for start, end in pairwise(sorted({0, *(p for p in does if p < len(events)), len(events)})):
        batch = columns(events[start:end], start, BOTH)
        expected += batches_of(whole.feed(batch, rejected=0, next_offset=end))
        found += kept.feed(batch, end)
        what = does.get(end, "cut")
        if what in MARKS:
            expected += mark(whole, MARKS[what])
            found += mark(kept.core, MARKS[what])
        else:
            kept.step(what)
    expected += mark(whole, MarkKind.END)
    found += mark(kept.core, MarkKind.END)
    assert [batch.content_hash for batch in found] == [batch.content_hash for batch in expected]
    assert [batch.lineage.offset.tolist() for batch in found] == [batch.lineage.offset.tolist() for batch in expected]
    assert kept.core.account == whole.account
    # At rest everything is in the profiles: a new core that knows nothing else keeps the same.
    assert profiles_of(kept) == profiles_of(Kept(config, joins, values=kept.values))


def profiles_of(kept: Kept) -> list[bytes]:
    """What is remembered of the users at the end, from memory and from the store together."""
    kept.cut()
    return [kept.values.get(user, b"") for user in range(5)]


@given(test_join.streams(), configs, test_join.all_joins, st.lists(st.integers(1, 59), max_size=8))
def test_a_core_that_evicts_all_it_can_after_every_poll_agrees_with_the_oracle(
    events: list[Ev], config: SessionConfig, joins: JoinConfig, cuts: list[int]
) -> None:
    config = dataclasses.replace(config, max_held_samples=1000)
    kept, found = Kept(config, joins), list[MiniBatch]()
    for start, end in pairwise(sorted({0, *(p for p in cuts if p < len(events)), len(events)})):
        found += kept.feed(columns(events[start:end], start, BOTH), end)
        kept.step("evict")
    found += mark(kept.core, MarkKind.END)
    truth = join_oracle.joined(events, config, joins, (BATCHES.samples, LAST, None))
    assert histories_of(found) == truth.history
    assert seen_of(found, BOTH) == truth.seen
    assert offsets_of(found) == truth.batches


WIDE, JOINS = SessionConfig(gap_ms=10, lateness_ms=0), JoinConfig(window_ms=20)


def test_users_who_have_left_do_not_stay_in_memory_nor_in_cuts_and_come_back_with_their_history() -> None:
    kept = Kept(WIDE, JOINS, most=10)
    sizes = []
    for i in range(40):
        events = [Ev(1000 + 100 * i + j, 1000 * i + j, 1 + 50 * i + j, 100 + i, 1) for j in range(50)]
        kept.feed(columns(events, 50 * i, BOTH), 50 * (i + 1))
        held = cut.decode(kept.cut())[1]
        sizes.append((len(held["windower.users"]), len(held["histories.entries"])))
        kept.core.evict()
        assert kept.core.num_users <= 10 + 2 * WIDE.gap_ms
    assert len(kept.values) == 2000 - 1, "the last event waits for the watermark"
    assert all(users < 20 and entries < 40 for users, entries in sizes), "only those whose sessions may go on"
    first = kept.feed(columns([Ev(9000, 99_999, 1), Ev(9100, 99_998, 2)], 2000, BOTH), 2002)
    assert histories_of([*first, *mark(kept.core, MarkKind.END)])[2000] == [100]


def test_those_stay_of_whom_something_was_seen_last() -> None:
    kept = Kept(WIDE, JOINS, most=2)
    kept.feed(columns([Ev(1000 + 20 * i, i, 10 + i, 100, 1) for i in range(6)], 0, BOTH), 6)
    kept.step("evict")
    assert kept.core.unknown(columns([Ev(2000, i, 10 + i) for i in range(6)], 6, BOTH)).tolist() == [10, 11, 12, 13]


def test_an_erased_user_is_to_be_removed_from_where_profiles_are() -> None:
    kept = Kept(WIDE, JOINS)
    kept.feed(columns([Ev(1000, 1, 7, 100, 1), Ev(1100, 2, 8)], 0, BOTH), 2)
    kept.step("evict")
    assert list(kept.values) == [7]
    kept.feed(columns([Ev(1200, 3, 7, kind=EventKind.TOMBSTONE), Ev(1200, 4, 9, kind=EventKind.TOMBSTONE)], 2, BOTH), 4)
    assert kept.core.changed_profiles() == {7: None, 9: None}


def test_a_user_whose_profile_was_not_loaded_is_never_taken_for_a_new_one() -> None:
    core = PartitionCore(BOTH, WIDE, BATCHES, 0, JOINS, ProfilesConfig(store="redis"))
    with pytest.raises(InvariantError, match="events of 1 users were fed whose profiles were not loaded"):
        core.feed(columns([Ev(1000, 1, 7)], 0, BOTH), rejected=0, next_offset=1)


def test_profiles_may_move_out_of_the_cuts_and_not_back() -> None:
    whole = PartitionCore(BOTH, WIDE, BATCHES, 0, JOINS)
    whole.feed(columns([Ev(1000, 1, 7, 100, 1), Ev(1100, 2, 8)], 0, BOTH), rejected=0, next_offset=2)
    outside = ProfilesConfig(store="redis")
    moved = PartitionCore.restore(BOTH, WIDE, BATCHES, whole.cut(), JOINS, outside)
    assert list(moved.changed_profiles()) == [7], "everything that is remembered is put away once"
    assert moved.changed_profiles() == {}
    with pytest.raises(ConfigError, match="keeps its profiles outside"):
        PartitionCore.restore(BOTH, WIDE, BATCHES, moved.cut(), JOINS)


def test_a_changed_history_begins_empty() -> None:
    kept = Kept(WIDE, JOINS)
    kept.feed(columns([Ev(1000, 1, 7, 100, 1), Ev(1100, 2, 8)], 0, BOTH), 2)
    kept.cut()
    longer = histories_fingerprint((dataclasses.replace(BOTH.histories[0], last=9), BOTH.histories[1]))
    assert decode(np.array([7]), [kept.values[7]], longer, 2).empty.tolist() == [True]
