"""A partition whose profiles are kept outside commits what one commits that holds them all, whatever befalls the store.

The oracle is a replay that keeps profiles in its cuts.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.config import ProfilesConfig
from sessionizer.core import PartitionCore
from sessionizer.makers import Makers
from sessionizer.outlet import FencedError
from sessionizer.profile_copy import CopyPlace, Pause, ProfileCopy
from state.memory_profiles import MemoryProfiles
from state.profile_store import Tag
from state.store import MISSING, Missing
from streams.clock_mark import ClockMark, MarkKind
from streams.errors import RetryableError
from streams.inputs import Position
from streams.metrics import Silent
from tests.sessionizer.shell.memory import FusedProfiles, Log, MemoryChangelog, MemoryOutlet
from tests.sessionizer.shell.test_partition import PAIRS, Life, replay
from tests.sessionizer.shell.world import SCHEMA, SESSIONS, events, identities, records

FEW = ProfilesConfig(store="redis", max_users_in_memory=1)


def go_on(_seconds: float) -> bool:
    return False


def place(told: list[str], pause: Pause = go_on) -> CopyPlace:
    return CopyPlace(
        partition=0, shelf="shelf", reporter=Silent(), log=lambda event, _: told.append(event), pause=pause
    )


@dataclass
class ProfileLife(Life):
    """A worker that keeps at most one idle user in memory."""

    store: FusedProfiles | None = None
    told: list[str] = field(default_factory=list)
    outlet: MemoryOutlet | None = None
    waited: int = 0

    def __post_init__(self) -> None:
        self.store = self.store or FusedProfiles(self.fuse)

    def core(self, cut: bytes | None, start: Position) -> PartitionCore:
        if cut is not None:
            return PartitionCore.restore(SCHEMA, SESSIONS, self.batches, cut, profiles=FEW)
        made = PartitionCore(SCHEMA, SESSIONS, self.batches, 0, profiles=FEW)
        made.position = start
        return made

    def makers(self) -> Makers:
        return dataclasses.replace(super().makers(), outlet=self.new_outlet, profiles=self.copy)

    def new_outlet(self) -> MemoryOutlet:
        self.outlet = MemoryOutlet(self.log, self.fuse)
        return self.outlet

    def copy(self) -> ProfileCopy:
        assert self.store is not None
        return ProfileCopy(place(self.told, self.pause), self.store, MemoryChangelog(self.log))

    def pause(self, _seconds: float) -> bool:
        self.waited += 1
        assert self.outlet is None or not self.outlet.is_open, "Kafka aborts a transaction that stays open"
        return False

    def lose(self, how: str, past: dict[str, object]) -> dict[str, object]:
        """Befall the store; returns its state of before."""
        assert self.store is not None
        now = copy.deepcopy(self.store.__dict__["_shelves"])
        if how == "flush":
            self.store.__dict__["_shelves"].clear()
        elif how == "roll back" and past:
            self.store.__dict__["_shelves"] = copy.deepcopy(past)
            return past
        elif how == "silent":
            self.store.silent = 7
        return dict(now)


STEPS = st.one_of(
    st.tuples(st.just("records"), st.integers(1, 80)),
    st.tuples(st.just("wait"), st.integers(10, 8_000)),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("fuse"), st.integers(0, 25)),
    st.tuples(st.sampled_from(["flush", "roll back", "remember", "silent"]), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, min_size=3, max_size=25), poll=st.integers(1, 60))
def test_whatever_befalls_worker_and_store_the_batches_are_those_of_a_replay_without_a_store(
    steps: list[tuple[str, int]], poll: int
) -> None:
    life, unread = ProfileLife(), records(PAIRS)
    past: dict[str, object] = {}
    for step, size in steps:
        at = len(life.log.records)
        match step:
            case "records":
                life.log.records += [dataclasses.replace(one, offset=at + i) for i, one in enumerate(unread[:size])]
                unread = unread[size:]
            case "wait":
                life.now_ms += size
            case "fuse":
                life.fuse.left = size
            case "end":
                life.log.clock.append(ClockMark(partition=0, after_offset=max(0, at - size), kind=MarkKind.END))
            case _:
                past = life.lose(step, past)
        life.work(poll)
    life.fuse.left = -1
    life.log.clock.append(ClockMark(partition=0, after_offset=len(life.log.records), kind=MarkKind.END))
    life.work(poll)
    life.work(poll, finish=True)
    assert identities(life.log.read_batches()) == identities(replay(life.log).read_batches())


def test_after_death_at_any_single_call_the_batches_are_those_of_a_replay_without_a_store() -> None:
    calls = 0
    while True:
        life = ProfileLife()
        life.log.records = records(PAIRS[:150])
        life.fuse.left = calls
        for until in (60, 100, 150):
            life.log.clock.append(ClockMark(partition=0, after_offset=until, kind=MarkKind.END))
            life.now_ms += 500
            life.work(20)
        life.work(20, finish=True)
        assert identities(life.log.read_batches()) == identities(replay(life.log).read_batches()), f"call {calls}"
        if not life.deaths:
            break
        calls += 1
    assert calls > 60, "the run must have many places to die in"
    assert life.partition is not None
    assert life.partition.core.num_users <= 1
    assert life.log.profiles


def test_what_is_in_the_changelog_at_the_end_is_what_is_in_the_store() -> None:
    life = ProfileLife()
    life.log.records = records(PAIRS)
    life.log.clock.append(ClockMark(partition=0, after_offset=len(PAIRS), kind=MarkKind.END))
    life.work(40, finish=True)
    truth = {user: value for user, value in dict(life.log.profiles).items() if value is not None}
    assert life.store is not None
    tag, values = life.store.read("shelf", list(truth))
    assert values == list(truth.values())
    assert tag == Tag(topic="changelog", offset=len(life.log.profiles), owner=1).encode()


CHANGES: list[tuple[int, bytes | None]] = [(1, b"a"), (2, b"b"), (1, b"c"), (2, None), (3, b"d")]


def opened(store: MemoryProfiles, through: int, told: list[str] | None = None, identity: str = "t") -> ProfileCopy:
    made = ProfileCopy(place([] if told is None else told), store, MemoryChangelog(Log(profiles=CHANGES), identity))
    made.open(through)
    return made


REPAIRED = ["profiles are repaired from the changelog", "profiles are whole again"]


def test_an_empty_store_is_filled_from_the_changelog_up_to_the_cut() -> None:
    told: list[str] = []
    assert opened(MemoryProfiles(), 4, told).read([1, 2, 3]) == [b"c", MISSING, MISSING]
    assert told == REPAIRED


def test_a_store_that_is_behind_is_repaired_from_where_it_stands() -> None:
    store, told = MemoryProfiles(), list[str]()
    opened(store, 2)
    store.write("shelf", {9: b"was here"}, store.read("shelf", [])[0], Tag(topic="t", offset=2, owner=7).encode())
    assert opened(store, 5, told).read([1, 2, 3, 9]) == [b"c", MISSING, b"d", b"was here"]
    assert told == REPAIRED


@pytest.mark.parametrize(("offset", "topic"), [(5, "t"), (2, "another")], ids=["ahead", "of another changelog"])
def test_a_store_that_is_ahead_or_of_another_changelog_is_emptied_first(offset: int, topic: str) -> None:
    store, told = MemoryProfiles(), list[str]()
    store.write("shelf", {9: b"was here"}, MISSING, Tag(topic=topic, offset=offset, owner=3).encode())
    assert opened(store, 3, told).read([1, 2, 3, 9]) == [b"c", b"b", MISSING, MISSING]
    assert told == ["profiles of another changelog, or of its future, are removed from the store", *REPAIRED]


def test_a_store_without_a_readable_tag_is_emptied_first() -> None:
    store = MemoryProfiles()
    store.write("shelf", {9: b"was here"}, MISSING, b"what?")
    assert opened(store, 3).read([1, 9]) == [b"c", MISSING]


def test_a_store_that_forgets_while_it_is_used_is_repaired_before_it_is_believed() -> None:
    store, told = MemoryProfiles(), list[str]()
    used = opened(store, 3, told)
    store.__dict__["_shelves"].clear()
    assert used.read([1, 2]) == [b"c", b"b"]
    store.__dict__["_shelves"].clear()
    used.write({2: None, 3: b"d"}, 5)
    assert used.read([1, 2, 3]) == [b"c", MISSING, b"d"]
    assert told == 3 * REPAIRED


def test_an_owner_of_before_can_neither_spoil_the_store_nor_believe_it() -> None:
    store = MemoryProfiles()
    old = opened(store, 3)
    new = opened(store, 5)
    with pytest.raises(FencedError, match="another worker has taken over the profiles of partition 0"):
        old.write({2: b"old"}, 4)
    with pytest.raises(FencedError):
        old.read([2])
    assert new.read([1, 2, 3]) == [b"c", MISSING, b"d"]


class Gone(MemoryProfiles):
    """A store that does not answer so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def read(self, shelf: str, users: Sequence[int]) -> tuple[bytes | Missing, list[bytes | Missing]]:
        if self.left:
            self.left -= 1
            raise RetryableError("Redis did not do what was asked")
        return super().read(shelf, users)


WAITS = "partition waits for its users' profiles"
BACK = "profiles are there again"


def test_a_store_that_does_not_answer_is_asked_again_after_longer_and_longer_pauses_and_said_to_be_away_once() -> None:
    told, pauses, done = list[str](), list[float](), list[str]()

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return False

    store = Gone(0)
    copied = ProfileCopy(place(told, pause), store, MemoryChangelog(Log(profiles=CHANGES)))
    copied.open(4)
    told.clear()
    store.left = 9
    assert copied.read([1, 2, 3], lambda: done.append("before waiting")) == [b"c", MISSING, MISSING]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert told == [WAITS, BACK]
    assert done == ["before waiting"]


def test_a_store_that_does_not_answer_is_never_taken_for_an_empty_one() -> None:
    copied = ProfileCopy(place([], lambda _: True), Gone(1), MemoryChangelog(Log(profiles=CHANGES)))
    with pytest.raises(RetryableError, match="has no profiles yet: Redis did not do what was asked"):
        copied.open(3)


@pytest.mark.parametrize("silent", [1, 2, 9])
def test_a_partition_whose_store_is_away_keeps_what_it_has_and_leaves_no_transaction_open(silent: int) -> None:
    life, some = ProfileLife(), records(events(600, seed=6, users=80, broken=23))
    assert life.store is not None
    life.log.records = some[:40]
    life.work(40, finish=True)
    first = life.partition
    for start in range(40, len(some), 20):
        life.log.records += some[start : start + 20]
        life.now_ms += 40  # Commits are rarer than polls.
        life.store.silent = silent
        life.work(20)
        assert life.partition is first, "it was never begun again"
    life.store.silent = 0
    life.log.clock.append(ClockMark(partition=0, after_offset=len(some), kind=MarkKind.END))
    life.work(20)
    life.work(20, finish=True)
    assert life.told.count(WAITS) == life.told.count(BACK) > 20
    assert life.waited > 20 * silent
    assert identities(life.log.read_batches()) == identities(replay(life.log).read_batches())
