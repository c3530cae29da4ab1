"""Outcomes in a topic of their own: a partition that dies anywhere, and reads in any turns, emits each batch once.

The oracle is a replay over the final records and clock topic, undisturbed, that reads one input as far as it may before
it turns to the other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.config import BatchConfig, JoinConfig
from sessionizer.core import PartitionCore
from sessionizer.freshness import Freshness, FreshPlace
from sessionizer.makers import Makers
from sessionizer.partition import Partition
from sessionizer.reporting import PartitionReport
from sessionizer.worker_config import WorkerConfig
from streams.clock_mark import ClockMark, MarkKind
from streams.events.decode import EventDecoder
from streams.events.outcomes_topic import OutcomesDecoder, outcomes_schema
from streams.events.roles import Roles
from streams.events.schema import EventSchema, History, Label, SparseFeature
from streams.inputs import Input, Position
from streams.metrics import Silent
from tests.sessionizer.shell.memory import Fuse, Killed, Log, MemoryJournal, MemoryOutlet
from tests.sessionizer.shell.world import SESSIONS, START_MS, MemoryRecord, identities

INTERACTIONS, OUTCOMES = Input.INTERACTIONS, Input.OUTCOMES
SCHEMA = EventSchema(
    roles=Roles(
        event_id=("id",), user="user", item="item", time="ts", default_kind="impression", impression="of",
    ),
    labels=(Label(name="liked", field="liked"),),
    sparse=(SparseFeature(name="item_id", field="item", table="items"),),
    histories=(History(name="liked_items", table="items", last=20, label="liked"),),
)  # fmt: skip
CONFIG = WorkerConfig(commit_every_ms=100, cut_every_ms=400, idle_ms=5_000, max_skew_ms=4_000)
JOINS = JoinConfig(window_ms=8_000)
BATCHES = BatchConfig(samples=32, fresh_ms=700)


def streams(count: int, seed: int) -> tuple[list[bytes | None], list[bytes | None]]:
    """Impressions, some of them not JSON or tombstones, and outcomes for half of them, within ten seconds."""
    rng = np.random.default_rng(seed)
    shown: list[bytes | None] = []
    said: list[tuple[int, bytes | None]] = []
    for i in range(count):
        at, user = START_MS + 250 * i + int(rng.integers(-1_000, 1_000)), int(rng.integers(0, 6))
        shown.append(json.dumps({"id": i, "user": user, "item": i % 50 + 1, "ts": at}).encode())
        if rng.random() < 0.5:
            then = at + int(rng.integers(0, 10_000))
            outcome = {"id": i, "user": user, "ts": then, "liked": 1, "of": i}
            said.append((then + int(rng.integers(-500, 500)), json.dumps(outcome).encode()))
    shown[20::40] = [b"{"] * len(shown[20::40])
    shown[35::60] = [None] * len(shown[35::60])
    said[::30] = [(at, None) for at, _ in said[::30]]
    return shown, [value for _, value in sorted(said, key=lambda pair: pair[0])]


def end(interactions: int, outcomes: int) -> ClockMark:
    return ClockMark.at(Position(max(0, interactions), max(0, outcomes)), MarkKind.END, partition=0, two=True)


def record(source: Input, offset: int, value: bytes | None) -> MemoryRecord:
    return MemoryRecord(offset=offset, value=value, key=b"3", topic=source.name.lower(), timestamp=START_MS)


@dataclass
class Life:
    """A worker on a Log, reborn after each death."""

    log: Log = field(default_factory=Log)
    fuse: Fuse = field(default_factory=Fuse)
    now_ms: int = START_MS
    deaths: int = 0
    partition: Partition | None = None
    seed: int = 0
    aligned: bool = True
    config: WorkerConfig = CONFIG

    def core(self, cut: bytes | None, start: Position) -> PartitionCore:
        if cut is not None:
            return PartitionCore.restore(SCHEMA, SESSIONS, BATCHES, cut, JOINS, with_outcomes=True)
        core = PartitionCore(SCHEMA, SESSIONS, BATCHES, 0, JOINS, with_outcomes=True)
        core.position = start
        return core

    def open(self) -> Partition:
        makers = Makers(
            outlet=lambda: MemoryOutlet(self.log, self.fuse),
            journal=lambda: MemoryJournal(self.log, self.fuse),
            core=self.core,
            freshness=lambda report, now_ms: Freshness(
                FreshPlace(partition=0, batch=BATCHES, to_trainer=False, log=print), report, now_ms
            ),
            decoder=EventDecoder(SCHEMA),
            outcomes=OutcomesDecoder(EventDecoder(outcomes_schema(SCHEMA)), SCHEMA),
        )
        report = PartitionReport(Silent(), 0)
        return Partition(
            0, makers, self.config, report,
            now_ms=lambda: self.now_ms, lateness_ms=SESSIONS.lateness_ms,
        )  # fmt: skip

    def read_all(self, partition: Partition, poll: int) -> None:
        """Read all there is in polls of this size, the inputs in random turns; one that is ahead waits."""
        read = dict(zip(Input, partition.core.position, strict=True))
        ends, turns = self.log.end, np.random.default_rng(self.seed)
        while any(read[source] < ends[source] for source in Input):
            caught_up = {source for source in Input if read[source] == ends[source]}
            ready = [
                source
                for source in Input
                if source not in caught_up and (not self.aligned or partition.may_read(source, caught_up=caught_up))
            ]
            assert ready, "each input waits for the other one"
            source = ready[turns.integers(len(ready))]
            start, read[source] = read[source], min(read[source] + poll, ends[source])
            found = self.log.read(source, start, read[source])
            # Offsets that nobody can read are passed early, or with the next records, or when there are none.
            late = len(found) > 0 and read[source] < ends[source] and turns.random() < 0.5
            partition.feed(found, source, next_offset=0 if late else read[source])
            partition.tick(caught_up=())
        assert partition.core.position == ends, "nothing is left behind a mark"

    def read_in_time(self, poll: int) -> None:
        """Read what may be read, and let time pass where nothing may be; outcomes without any sample may stay."""
        partition = self.partition = self.partition or self.open()
        read, ends, waited = dict(zip(Input, partition.core.position, strict=True)), self.log.end, 0
        while any(read[source] < ends[source] for source in Input):
            caught_up = {source for source in Input if read[source] == ends[source]}
            partition.tick(caught_up=caught_up)
            unread = [source for source in Input if source not in caught_up]
            ready = [source for source in unread if partition.may_read(source, caught_up=caught_up)]
            if not ready and not partition.core.held:
                assert unread == [OUTCOMES], "outcomes wait for interactions, never the other way round"
                return
            waited = 0 if ready else waited + 1
            assert waited < 60, "each input waits for the other one"
            self.now_ms += 0 if ready else CONFIG.idle_ms
            for source in ready[:1]:
                start, read[source] = read[source], min(read[source] + poll, ends[source])
                partition.feed(self.log.read(source, start, read[source]), source, next_offset=read[source])
        assert partition.core.position == ends, "nothing is left behind a mark"

    def work(self, poll: int, *, finish: bool = False) -> None:
        """Read everything, then tick; dying starts it over."""
        while True:
            self.seed += 1
            try:
                self.partition = self.partition or self.open()
                self.read_all(self.partition, poll)
                self.partition.tick(caught_up=self.partition.inputs)
                if finish:
                    self.partition.finish()
            except Killed:
                self.deaths += 1
                self.partition = None
            else:
                return


def replay(log: Log) -> Log:
    """What an undisturbed run over the same records and marks commits."""
    held = Log(records=list(log.records), outcomes=list(log.outcomes), clock=list(log.clock), unreadable=log.unreadable)
    life = Life(log=held, aligned=False)
    life.work(10_000, finish=True)
    assert life.log.clock == log.clock, "a replay decides nothing anew"
    return life.log


STEPS = st.one_of(
    st.tuples(st.just("records"), st.integers(1, 120)),
    st.tuples(st.just("outcomes"), st.integers(1, 60)),
    st.tuples(st.just("both"), st.integers(1, 60)),
    st.tuples(st.just("wait"), st.integers(10, 8_000)),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("ends"), st.integers(0, 30)),
    st.tuples(st.just("future"), st.integers(1, 5_000)),
    st.tuples(st.just("gap"), st.integers(1, 40)),
    st.tuples(st.just("fuse"), st.integers(0, 12)),
)

MORE_OF = {"records": [INTERACTIONS], "outcomes": [OUTCOMES], "both": [INTERACTIONS, INTERACTIONS, OUTCOMES]}


@settings(max_examples=40)
@given(steps=st.lists(STEPS, min_size=4, max_size=25), poll=st.integers(1, 60))
def test_what_a_dying_partition_commits_equals_an_undisturbed_replay(steps: list[tuple[str, int]], poll: int) -> None:
    life, (shown, said) = Life(), streams(400, seed=5)

    def more(source: Input, count: int) -> None:
        unread, held = (shown, life.log.records) if source is INTERACTIONS else (said, life.log.outcomes)
        held += [record(source, len(held) + i, value) for i, value in enumerate(unread[:count])]
        del unread[:count]

    for step, size in steps:
        at = life.log.end
        match step:
            case "records" | "outcomes" | "both":
                for source in MORE_OF[step]:
                    more(source, size)
            case "wait":
                life.now_ms += size
            case "future":
                ahead = {
                    "id": f"f{at}",
                    "user": 1,
                    "item": 1,
                    "ts": life.now_ms + 86_400_000 + size,
                    "of": 1,
                    "liked": 1,
                }
                value = json.dumps(ahead).encode()
                life.log.records.append(record(INTERACTIONS, at.interactions, value))
                life.log.outcomes.append(record(OUTCOMES, at.outcomes, value))
            case "gap":
                for source in ((INTERACTIONS, OUTCOMES), (INTERACTIONS,), (OUTCOMES,))[size % 3]:
                    life.log.leave_out(source, size)
            case "fuse":
                life.fuse.left = size
            case "end":
                # Some requests come when one input, or both, have passed their position long ago.
                life.log.clock.append(end(at.interactions - size, at.outcomes - (size * 7) % 31))
            case "ends":
                # Two that were asked for at once, of which neither comes first: some behind all there is, some not.
                few = size % 7
                life.log.clock.append(end(at.interactions - few, at.outcomes + size % 3))
                life.log.clock.append(end(at.interactions + size % 2, at.outcomes - few))
                life.work(poll)
                more(INTERACTIONS, size % 2)
                more(OUTCOMES, size % 3)
        life.work(poll)
    life.fuse.left = -1
    life.log.clock.append(ClockMark.at(life.log.end, MarkKind.END, partition=0, two=True))
    life.work(poll)
    life.work(poll, finish=True)
    again = replay(life.log)
    assert identities(life.log.read_batches()) == identities(again.read_batches())
    assert life.log.ends == again.ends == list(range(len(again.ends)))
    assert sorted(life.log.letters) == sorted(again.letters)
    assert life.partition is not None
    assert life.partition.ended
    account = life.partition.core.account
    account.check(held=0)
    assert account.events == sum(life.log.end) - sum(map(len, life.log.unreadable.values()))
    assert account.dead_lettered == len(life.log.letters)


@settings(max_examples=30)
@given(
    portions=st.lists(
        st.tuples(st.integers(0, 150), st.integers(0, 80), st.sampled_from(["go on", "restart", "end", "crash"])),
        min_size=1,
        max_size=6,
    ),
    poll=st.integers(1, 40),
)
def test_from_every_state_something_can_be_read_or_time_makes_it_so(
    portions: list[tuple[int, int, str]], poll: int
) -> None:
    config = replace(CONFIG, max_skew_ms=1, max_early_records=5)
    life, (shown, said) = Life(config=config, now_ms=START_MS + 200_000), streams(400, seed=8)
    for num_shown, num_said, then in portions:
        for held, unread, num in ((life.log.records, shown, num_shown), (life.log.outcomes, said, num_said)):
            source = INTERACTIONS if unread is shown else OUTCOMES
            held += [record(source, len(held) + i, value) for i, value in enumerate(unread[:num])]
            del unread[:num]
            life.log.leave_out(source, num % 3)
        if then == "end":
            life.log.clock.append(end(*life.log.end))
        life.read_in_time(poll)
        if then == "restart" and life.partition is not None:
            life.partition.finish()
        if then in {"restart", "crash"}:
            life.partition = None
    life.log.clock.append(end(*life.log.end))
    life.read_in_time(poll)
    life.work(poll, finish=True)
    assert life.partition is not None
    assert life.partition.ended


def test_outcomes_that_stay_away_do_not_hold_the_interactions_for_ever() -> None:
    life = Life()
    shown, _ = streams(30, seed=1)
    life.log.records = [record(INTERACTIONS, i, value) for i, value in enumerate(shown)]
    life.now_ms = START_MS + 8_000
    life.work(100)
    for _ in range(12):
        life.now_ms += CONFIG.idle_ms
        life.work(100)
    assert life.partition is not None
    assert life.partition.core.held == 0
    idle = [mark for mark in life.log.clock if mark.kind is MarkKind.IDLE]
    assert {mark.input for mark in idle} == {INTERACTIONS, OUTCOMES}
    assert all(mark.value_ms <= life.now_ms - SESSIONS.lateness_ms for mark in idle)
    life.work(100, finish=True)
    assert identities(replay(life.log).read_batches()) == identities(life.log.read_batches())


def test_the_input_that_is_ahead_waits_until_the_other_one_has_nothing_more() -> None:
    life, (shown, said) = Life(), streams(400, seed=2)
    life.log.records = [record(INTERACTIONS, i, value) for i, value in enumerate(shown)]
    life.log.outcomes = [record(OUTCOMES, i, value) for i, value in enumerate(said)]
    partition = life.open()
    partition.feed(life.log.records[:100])
    assert not partition.may_read(INTERACTIONS, caught_up=())
    assert partition.may_read(OUTCOMES, caught_up=())
    assert partition.may_read(INTERACTIONS, caught_up={OUTCOMES})
    partition.feed(life.log.outcomes[:40], OUTCOMES)
    assert partition.may_read(INTERACTIONS, caught_up=())


@pytest.mark.parametrize("value", [None, b'{"id": 1, "user": 1, "item": 2, "ts": 1700000000000, "type": "view"}'])
def test_what_is_no_outcome_is_refused_among_the_outcomes(value: bytes | None) -> None:
    schema = EventSchema(
        roles=Roles(
            event_id=("id",), user="user", item="item", time="ts", impression="of", kind="type",
            kinds={"view": "impression", "click": "outcome"},
        ),
        labels=SCHEMA.labels,
    )  # fmt: skip
    decoded = OutcomesDecoder(EventDecoder(outcomes_schema(schema)), schema).decode([record(OUTCOMES, 7, value)])
    assert not len(decoded.events)
    (refused,) = decoded.rejected
    assert (refused.offset, refused.reason.value, refused.record.topic) == (7, "unknown_kind", "outcomes")
    assert "send it there" in refused.detail
