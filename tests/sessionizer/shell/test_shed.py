"""A partition that sheds because its trainer is behind: bounded, counted, and made again alike after every death."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sessionizer.account import Account
from sessionizer.core import PartitionCore
from sessionizer.effects import Effect
from sessionizer.gate import LOOK_EVERY_MS, SHUT_AT
from streams.clock_mark import WHOLE, ClockMark, MarkKind
from streams.events.decode import EventDecoder
from streams.minibatch import MiniBatch
from tests.sessionizer.events import batches_of
from tests.sessionizer.shell.memory import Killed, Log
from tests.sessionizer.shell.test_gate import BOUND, Waiting
from tests.sessionizer.shell.test_partition import PAIRS
from tests.sessionizer.shell.world import BATCHES, SCHEMA, SESSIONS, START_MS, events, identities, records

MANY = records(events(3_000, seed=5, users=40))


@dataclass
class Shedding(Waiting):
    """A worker that sheds, looking at its trainer at every step."""

    shed_step_ms: int | None = LOOK_EVERY_MS
    now_ms: int = START_MS + 250 * len(MANY)
    """No event lies in the future."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.largest = 0

    def go_on(self) -> None:
        """One step, or the death that comes in it."""
        try:
            self.look()
        except Killed:
            self.deaths += 1
            self.partition = None
        self.largest = max(self.largest, *map(len, self.log.batches[-4:]), 0)

    @property
    def shares(self) -> list[int]:
        """What was decided, in eighths."""
        return [mark.shed_share * 8 // WHOLE for mark in self.log.clock if mark.kind is MarkKind.SHED]

    def through(self) -> None:
        """To the end mark, with a trainer that goes on whenever nothing else does."""
        for _ in range(2_000):
            before = len(self.log.batches), self.log.progress.next_offset
            self.go_on()
            if self.log.ends:
                return
            if (len(self.log.batches), self.log.progress.next_offset) == before:
                self.trainer.committed = max(self.trainer.committed or 0, len(self.log.batches) - 2)
        raise AssertionError("the end was not reached")


def long_world() -> Log:
    log = Log(records=list(MANY))
    log.clock.append(ClockMark(partition=0, after_offset=len(MANY), kind=MarkKind.END))
    return log


def undisturbed(log: Log) -> tuple[list[MiniBatch], Account]:
    """What a core makes of the records and the marks alone; no trainer, clock or death is near it."""
    core, effects = PartitionCore(SCHEMA, SESSIONS, BATCHES, 0), list[Effect]()
    for mark in sorted(log.clock, key=lambda mark: mark.after_offset):
        if records_before := log.records[core.next_offset : mark.after_offset]:
            decoded = EventDecoder(SCHEMA).decode(records_before)
            effects += core.feed(decoded.events, rejected=len(decoded.rejected), next_offset=mark.after_offset)
        effects += core.apply(mark)
    return batches_of(effects), core.account


def test_without_a_trainer_it_sheds_more_and_more_and_then_waits() -> None:
    life = Shedding(log=long_world())
    for _ in range(300):
        life.go_on()
        assert life.trainer.waiting_bytes() < SHUT_AT * BOUND + 3 * life.largest
    assert life.partition
    assert life.partition.core.account.shed > 0
    assert life.shares == list(range(1, len(life.shares) + 1))
    assert life.trainer.waiting_bytes() >= SHUT_AT * BOUND
    assert "sessions are shed, since the trainer is behind" in life.said
    assert life.said[-1] == "output waits for the trainer"


def test_what_it_commits_is_what_a_replay_of_its_records_and_marks_commits() -> None:
    life = Shedding(log=long_world())
    life.through()
    assert life.partition
    assert life.shares
    expected, account = undisturbed(life.log)
    assert identities(life.log.read_batches()) == identities(expected)
    assert life.partition.core.account == account
    samples = sum(len(batch) for batch in life.log.read_batches())
    assert account.shed > 0
    assert account.labelled == samples + account.shed


@pytest.mark.parametrize("every", [7, 31])
def test_one_that_dies_again_and_again_emits_each_batch_once_and_as_a_replay_makes_it(every: int) -> None:
    life = Shedding(log=long_world())
    for turn in range(4_000):
        if turn % 3 == 0:
            life.fuse.left = every
        before = len(life.log.batches)
        life.go_on()
        if life.log.ends:
            break
        if len(life.log.batches) == before and turn % 5 == 0:
            life.trainer.committed = max(life.trainer.committed or 0, before - 2)
    life.fuse.left = -1
    assert life.deaths > 5
    assert life.log.ends
    assert life.shares
    assert identities(life.log.read_batches()) == identities(undisturbed(life.log)[0])


def test_when_the_trainer_has_caught_up_it_sheds_less_and_less_and_then_nothing() -> None:
    life = Shedding(log=long_world())
    while 3 not in life.shares:
        life.go_on()
    for _ in range(20):
        life.trainer.committed = len(life.log.batches)
        life.go_on()
    assert life.shares[-3:] == [2, 1, 0]
    assert life.partition
    assert life.partition.core.shed_share == 0
    assert life.said[-1] == "nothing is shed any more"


def test_a_worker_that_is_to_wait_sheds_nothing_though_the_one_before_did() -> None:
    life = Shedding(log=Log(records=records(PAIRS)))
    while not life.shares:
        life.go_on()
    assert life.partition
    life.partition.finish()
    life.partition, life.shed_step_ms = None, None
    life.trainer.committed = len(life.log.batches)
    life.go_on()
    assert life.shares == [1, 0]


def test_after_a_restart_it_goes_on_from_the_share_that_was_in_force() -> None:
    life = Shedding(log=long_world())
    while 2 not in life.shares:
        life.go_on()
    life.partition = None
    while len(life.shares) == 2:
        life.go_on()
    assert life.shares == [1, 2, 3]
