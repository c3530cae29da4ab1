"""A partition that dies anywhere, is read in any polls and gets its marks at any time emits each batch once.

The oracle is a replay: a new partition over the final records and clock topic, never disturbed, gives the same
batches, end records and dead letters, hash for hash, as the live run committed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.config import BatchConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.freshness import Freshness, FreshPlace
from sessionizer.makers import Makers
from sessionizer.outlet import FencedError, Recovered
from sessionizer.partition import Partition
from sessionizer.progress import CutRef, Progress
from sessionizer.reporting import PartitionReport
from sessionizer.starting import start_position
from sessionizer.worker_config import WorkerConfig
from streams.clock_mark import ClockMark, MarkKind
from streams.errors import InvariantError, RetryableError
from streams.events.decode import EventDecoder
from streams.inputs import Input, Position
from streams.metrics import Reporter, Silent
from tests.sessionizer.shell.memory import Fuse, Killed, Log, MemoryJournal, MemoryOutlet
from tests.sessionizer.shell.world import BATCHES, SCHEMA, SESSIONS, START_MS, MemoryRecord, events, identities, records

CONFIG = WorkerConfig(commit_every_ms=100, cut_every_ms=400, idle_ms=5_000)
PAIRS = events(400, seed=5, users=6, broken=23)


FRESH_WHOLE = dataclasses.replace(BATCHES, fresh_ms=700)
FRESH_PARTS = dataclasses.replace(BATCHES, fresh_ms=700, fresh="parts")
STEERED_WHOLE = dataclasses.replace(BATCHES, target_fresh_ms=700)
STEERED_PARTS = dataclasses.replace(BATCHES, target_fresh_ms=700, fresh="parts")


@dataclass
class Life:
    """A worker on a Log, reborn after each death."""

    log: Log = field(default_factory=Log)
    fuse: Fuse = field(default_factory=Fuse)
    now_ms: int = START_MS
    deaths: int = 0
    partition: Partition | None = None
    batches: BatchConfig = BATCHES
    sessions: SessionConfig = SESSIONS
    decoder: EventDecoder = field(default_factory=lambda: EventDecoder(SCHEMA))
    reporter: Reporter = field(default_factory=Silent)
    said: list[str] = field(default_factory=list)
    follows_trainer: bool = False
    late: bool = False
    """Whether offsets that nobody can read are passed as late as possible."""

    def core(self, cut: bytes | None, start: Position) -> PartitionCore:
        if cut is not None:
            return PartitionCore.restore(SCHEMA, self.sessions, self.batches, cut)
        made = PartitionCore(SCHEMA, self.sessions, self.batches, 0)
        made.position = start
        return made

    def freshness(self, report: PartitionReport, now_ms: int) -> Freshness:
        place = FreshPlace(partition=0, batch=self.batches, to_trainer=self.follows_trainer, log=self.hear)
        return Freshness(place, report, now_ms)

    def hear(self, event: str, fields: Mapping[str, object]) -> None:
        assert fields["partition"] == 0
        self.said.append(event)

    def makers(self) -> Makers:
        return Makers(
            outlet=lambda: MemoryOutlet(self.log, self.fuse),
            journal=lambda: MemoryJournal(self.log, self.fuse),
            core=self.core,
            freshness=self.freshness,
            decoder=self.decoder,
        )

    def open(self) -> Partition:
        report = PartitionReport(self.reporter, 0)
        return Partition(
            0,
            self.makers(),
            CONFIG,
            report,
            now_ms=lambda: self.now_ms,
            lateness_ms=self.sessions.lateness_ms,
        )

    def work(self, poll: int, *, finish: bool = False) -> None:
        """Read all there is in polls of this size, then tick; dying starts it over."""
        while True:
            try:
                self.partition = self.partition or self.open()
                while self.partition.core.next_offset < len(self.log.records):
                    start = self.partition.core.next_offset
                    stop = min(start + poll, len(self.log.records))
                    found = self.log.read(Input.INTERACTIONS, start, stop)
                    self.partition.feed(found, next_offset=0 if found and self.late else stop)
                    self.partition.tick(caught_up=())
                self.partition.tick(caught_up=tuple(self.partition.inputs))
                if finish:
                    self.partition.finish()
            except (Killed, RetryableError):
                self.deaths += 1
                self.partition = None
            else:
                return


def replay(log: Log, batches: BatchConfig = BATCHES, now_ms: int = START_MS) -> Log:
    """What an undisturbed run over the same records and marks commits."""
    held = Log(records=list(log.records), clock=list(log.clock), unreadable=log.unreadable)
    life = Life(log=held, now_ms=now_ms, batches=batches)
    life.work(1_000, finish=True)
    assert life.log.clock == log.clock, "a replay decides nothing anew"
    return life.log


def future(offset: int, ahead_ms: int, now_ms: int) -> MemoryRecord:
    """A record that does not say when it was appended, dated after tomorrow."""
    event = {"id": f"f{offset}", "user": 1, "item": 1, "ts": now_ms + 86_400_000 + ahead_ms, "rating": 5}
    return MemoryRecord(offset=offset, value=json.dumps(event).encode())


STEPS = st.one_of(
    st.tuples(st.just("records"), st.integers(1, 80)),
    st.tuples(st.just("wait"), st.integers(10, 8_000)),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("future"), st.integers(1, 5_000)),
    st.tuples(st.just("gap"), st.integers(1, 20)),
    st.tuples(st.just("fuse"), st.integers(0, 12)),
)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(STEPS, min_size=3, max_size=25),
    poll=st.integers(1, 60),
    batches=st.sampled_from([BATCHES, FRESH_WHOLE, FRESH_PARTS, STEERED_WHOLE, STEERED_PARTS]),
    late=st.booleans(),
)
def test_what_a_dying_partition_commits_equals_an_undisturbed_replay(
    steps: list[tuple[str, int]], poll: int, batches: BatchConfig, *, late: bool
) -> None:
    life, unread = Life(batches=batches, late=late), records(PAIRS)
    for step, size in steps:
        at = len(life.log.records)
        match step:
            case "records":
                new = [MemoryRecord(offset=at + i, value=one.value, key=one.key) for i, one in enumerate(unread[:size])]
                life.log.records += new
                unread = unread[size:]
            case "wait":
                life.now_ms += size
            case "future":
                life.log.records.append(future(at, size, life.now_ms))
            case "gap":
                life.log.leave_out(Input.INTERACTIONS, size)
            case "fuse":
                life.fuse.left = size
            case "end":
                # Some requests come when their position has been passed long ago.
                life.log.clock.append(ClockMark(partition=0, after_offset=max(0, at - size), kind=MarkKind.END))
        life.work(poll)
    life.fuse.left = -1
    life.log.clock.append(ClockMark(partition=0, after_offset=len(life.log.records), kind=MarkKind.END))
    life.work(poll)
    life.work(poll, finish=True)
    again = replay(life.log, batches)
    assert identities(life.log.read_batches()) == identities(again.read_batches())
    assert life.log.ends == again.ends == list(range(len(again.ends)))
    assert life.log.letters == again.letters
    assert life.partition is not None
    assert life.partition.ended
    life.partition.core.account.check(held=0)


def test_after_death_at_any_single_call_a_replay_repeats_what_was_committed() -> None:
    def run(fuse: int) -> Life:
        life = Life(fuse=Fuse(fuse))
        life.log.records = records(PAIRS[:150])
        life.log.clock.append(ClockMark(partition=0, after_offset=100, kind=MarkKind.END))
        life.now_ms += 500
        life.work(40)
        life.log.clock.append(ClockMark(partition=0, after_offset=120, kind=MarkKind.END))
        life.now_ms += 500
        life.work(40)
        life.work(40, finish=True)
        return life

    calls = 0
    while True:
        life = run(calls)
        # When the second request is read depends on the death; what it does is written, and repeated.
        again = replay(life.log)
        assert identities(life.log.read_batches()) == identities(again.read_batches()), f"died at call {calls}"
        assert life.log.ends == again.ends == [0, 1]
        assert life.log.letters == again.letters
        if not life.deaths:
            break
        calls += 1
    assert calls > 20, "the run must have many places to die in"


@pytest.mark.parametrize("behind", [0, 1, 5], ids=["the last record", "the marker", "aborted records"])
def test_an_end_is_reached_and_stays_the_end_wherever_it_stands_among_offsets_that_nobody_reads(behind: int) -> None:
    life = Life()
    life.log.records = records(PAIRS[:100])
    life.log.leave_out(Input.INTERACTIONS, 5)
    life.log.clock.append(ClockMark(partition=0, after_offset=100 + behind, kind=MarkKind.END))
    life.work(30, finish=True)
    assert life.partition is not None
    assert life.partition.ended
    life.log.leave_out(Input.INTERACTIONS, 2)
    life.work(30, finish=True)
    assert life.partition.ended, "nothing has happened since"
    assert life.log.progress.next_offset == 107, "what was passed is passed for good"
    assert life.log.ends == [0]
    life = Life(log=life.log)
    life.work(30, finish=True)
    assert life.log.ends == [0]
    life.log.records.append(dataclasses.replace(records(PAIRS)[100], offset=107))
    life.work(30, finish=True)
    assert life.partition is not None
    assert not life.partition.ended


def test_an_older_owner_can_make_nothing_visible() -> None:
    life = Life()
    life.log.records = records(PAIRS)
    old = life.open()
    old.feed(life.log.records[:300])
    new = life.open()
    with pytest.raises(FencedError):
        old.finish()
    assert not life.log.batches
    new.feed(life.log.records)
    new.finish()
    assert [b.sequence for b in life.log.read_batches()] == list(range(len(life.log.batches)))


def test_a_silent_partition_is_advanced_by_a_mark_and_a_replay_repeats_it() -> None:
    life = Life()
    life.log.records = records(PAIRS[:20])
    life.now_ms = START_MS + 5_000
    life.work(100)
    held = life.partition.core.held if life.partition else 0
    for _ in range(8):
        life.now_ms += CONFIG.idle_ms
        life.work(100)
    assert life.partition is not None
    kinds = {mark.kind for mark in life.log.clock}
    assert kinds == {MarkKind.IDLE}
    assert life.partition.core.num_open_sessions == 0, f"of {held} samples some are still in open sessions"
    assert all(mark.value_ms <= life.now_ms - SESSIONS.lateness_ms for mark in life.log.clock)
    life.work(100, finish=True)
    assert identities(replay(life.log).read_batches()) == identities(life.log.read_batches())


@pytest.mark.parametrize("ahead_ms", [1_000, 299_000, 301_000, 36_000_000], ids=str)
@pytest.mark.parametrize("silent_ms", [0, 60_000], ids=str)
def test_a_clock_that_runs_ahead_makes_nobody_late_who_comes_at_once(ahead_ms: int, silent_ms: int) -> None:
    life = Life(sessions=SessionConfig())

    def happens(user: int, at_ms: int) -> None:
        offset = len(life.log.records)
        event = {"id": f"u{user}-{offset}", "user": user, "item": 1, "ts": at_ms, "rating": 5}
        life.log.records.append(MemoryRecord(offset=offset, value=json.dumps(event).encode()))
        life.work(10)

    for user in range(5):
        happens(user, life.now_ms)
    happens(9, life.now_ms + ahead_ms)
    for _ in range(4):
        life.now_ms += silent_ms // 4
        life.work(10)
    for user in range(5):
        life.now_ms += 100
        happens(user, life.now_ms)
    assert life.partition is not None
    assert life.partition.core.account.late == 0
    assert len(life.log.letters) <= 1, "at most the one whose clock is wrong"
    assert SCHEMA.roles.max_future_ms <= life.sessions.lateness_ms, "neither is set"


def progress(next_offset: int, cut_offset: int) -> Progress:
    cut = CutRef(number=1, first_offset=0, chunks=1, size_bytes=0, crc32c=0, next_offset=cut_offset, clock_offset=0)
    return Progress(next_offset=next_offset, cut=cut)


@pytest.mark.parametrize(
    ("begin", "end", "words"), [(50, 900, "expired before they were read"), (0, 60, "deleted and made anew")]
)
def test_a_topic_that_no_longer_holds_what_the_cut_needs_is_refused(begin: int, end: int, words: str) -> None:
    recovered = Recovered(progress=progress(100, 40), cut=b"", begin=Position(begin), end=Position(end))
    with pytest.raises(InvariantError, match=words):
        start_position(recovered, two=False)


def test_a_new_partition_starts_at_the_first_record_that_exists() -> None:
    recovered = Recovered(progress=Progress(), cut=None, begin=Position(500), end=Position(900))
    assert start_position(recovered, two=False) == Position(500)


def trickle(life: Life, until: int) -> list[tuple[bool, int]]:
    """One record every 100 ms, never silent; after each, whether something may leave, and the marks so far."""
    steps: list[tuple[bool, int]] = []
    for record in records(PAIRS[:until]):
        life.log.records.append(record)
        life.now_ms += 100
        life.work(10)
        assert life.partition is not None
        steps.append((life.partition.core.num_ready > 0, len(life.log.clock)))
    return steps


@pytest.mark.parametrize("batches", [FRESH_WHOLE, FRESH_PARTS], ids=["whole", "parts"])
def test_on_a_slow_stream_that_is_never_silent_nothing_that_may_leave_waits_for_longer_than_it_should(
    batches: BatchConfig,
) -> None:
    large = dataclasses.replace(batches, samples=10_000)
    life = Life(batches=large)
    steps = trickle(life, 300)
    assert {mark.kind for mark in life.log.clock} == {MarkKind.FRESH}
    waiting = [steps[at : at + 9] for at in range(len(steps) - 9) if all(ready for ready, _ in steps[at : at + 9])]
    assert sum(ready for ready, _ in steps) > 50
    assert all(last > first for (_, first), *_, (_, last) in waiting), "700 ms and a tick are eight steps"
    endless = Life(batches=dataclasses.replace(BATCHES, samples=10_000))
    trickle(endless, 300)
    assert not endless.log.read_batches(), "without the limit it waits for 10,000 samples"
    life.work(10, finish=True)
    assert identities(life.log.read_batches()) == identities(replay(life.log, large).read_batches())
