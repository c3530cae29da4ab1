"""A partition whose output waits for the trainer gives what one that never waits gives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sessionizer.gate import LOOK_EVERY_MS, Gate, GatePlace
from sessionizer.makers import Makers
from sessionizer.reporting import PartitionReport
from streams.clock_mark import ClockMark, MarkKind
from tests.sessionizer.shell.memory import Log
from tests.sessionizer.shell.test_partition import FRESH_WHOLE, PAIRS, Life
from tests.sessionizer.shell.world import events, identities, records, reference

BOUND = 4_000
MANY_USERS = events(400, seed=5, users=40)


@dataclass
class Trainer:
    """A Follower on a Log."""

    log: Log
    committed: int | None = None

    def bounds(self) -> tuple[int, int]:
        return 0, len(self.log.batches)

    def place(self) -> int | None:
        return self.committed

    def sizes(self, start: int, end: int, enough_bytes: int) -> tuple[list[tuple[int, int]], int]:
        # Two at a time: less than asked for is allowed.
        sizes: list[tuple[int, int]] = []
        for offset in range(start, min(end, start + 2)):
            if sum(size for _, size in sizes) < enough_bytes:
                sizes.append((offset, len(self.log.batches[offset])))
        return sizes, start + len(sizes)

    def close(self) -> None:
        """Nothing to leave."""

    def waiting_bytes(self) -> int:
        return sum(len(data) for data in self.log.batches[self.committed or 0 :])


@dataclass
class Waiting(Life):
    """A worker whose output waits for a trainer."""

    bound: int = BOUND
    shed_step_ms: int | None = None
    follows_trainer: bool = True

    def __post_init__(self) -> None:
        self.trainer = Trainer(self.log)

    def makers(self) -> Makers:
        return replace(super().makers(), gate=self._gate)

    def _gate(self, report: PartitionReport) -> Gate:
        place = GatePlace(
            partition=0,
            topic="batches",
            group="trainer",
            max_bytes=self.bound,
            shed_step_ms=self.shed_step_ms,
            log=self.hear,
        )
        return Gate(place, self.trainer, report, self.now_ms)

    def look(self) -> None:
        """As `work`, but it reads what waits once only."""
        self.partition = self.partition or self.open()
        self.now_ms += LOOK_EVERY_MS
        start = self.partition.core.next_offset
        waits = self.partition.num_queued(self.partition.inputs[0])
        self.partition.feed(self.log.records[start + waits :][:20] if waits < 40 else [])
        self.partition.tick(caught_up=())


def world() -> Log:
    log = Log(records=records(PAIRS))
    log.clock.append(ClockMark(partition=0, after_offset=len(PAIRS), kind=MarkKind.END))
    return log


def test_output_stops_at_the_bound_and_goes_on_with_the_trainer() -> None:
    life = Waiting(log=world())
    largest = 0
    for _ in range(400):
        life.look()
        largest = max(largest, *map(len, life.log.batches), 0)
        if life.log.ends:
            break
        assert life.trainer.waiting_bytes() < BOUND + 3 * largest
        stands = len(life.log.batches)
        if life.trainer.waiting_bytes() >= BOUND:
            for _ in range(5):
                life.look()
            assert len(life.log.batches) == stands, "it stands still for as long as the trainer does"
            life.trainer.committed = stands - 1
    expected, _ = reference(records(PAIRS))
    assert identities(life.log.read_batches()) == identities(expected)
    assert life.log.ends
    assert "output waits for the trainer" in life.said


def test_a_worker_that_is_started_again_counts_what_waits_already() -> None:
    life = Waiting(log=world())
    while life.trainer.waiting_bytes() < BOUND:
        life.look()
    stands = len(life.log.batches)
    life.partition = None
    for _ in range(20):
        life.look()
    assert len(life.log.batches) == stands
    assert "the trainer has committed nothing yet: all mini-batches count as ahead of it" in life.said


def feed_some(life: Waiting) -> int:
    """Feed seven records and commit. Time stands still, so nothing is late. Returns the bytes that wait."""
    life.partition = life.partition or life.open()
    life.partition.feed(life.log.records[life.partition.core.next_offset :][:7])
    life.partition.finish()
    return life.trainer.waiting_bytes()


def bound_with_samples_left() -> int:
    """Bytes at which output stops with samples left that wait for a batch to fill."""
    free, before = Waiting(log=Log(records=records(MANY_USERS)), batches=FRESH_WHOLE, bound=1 << 30), 0
    while True:
        num_bytes = feed_some(free)
        assert free.partition
        if num_bytes > before and free.partition.core.num_ready:
            return num_bytes
        assert free.partition.core.next_offset < len(MANY_USERS)
        before = num_bytes


def test_no_mark_is_decided_while_output_waits_and_waiting_does_not_make_samples_late() -> None:
    bound = bound_with_samples_left()
    life = Waiting(log=Log(records=records(MANY_USERS)), batches=FRESH_WHOLE, bound=bound)
    while feed_some(life) < bound:
        pass
    assert life.partition
    life.partition.tick(caught_up=())
    marks = len(life.log.clock)
    for _ in range(30):
        life.look()
    assert len(life.log.clock) == marks
    assert life.partition.core.num_ready
    life.trainer.committed = len(life.log.batches)
    life.now_ms += LOOK_EVERY_MS
    life.partition.tick(caught_up=())
    assert MarkKind.FRESH not in {mark.kind for mark in life.log.clock[marks:]}
    life.now_ms += FRESH_WHOLE.fresh_ms
    life.partition.tick(caught_up=())
    assert MarkKind.FRESH in {mark.kind for mark in life.log.clock[marks:]}
