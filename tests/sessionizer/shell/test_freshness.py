"""A partition whose wait is steered: what may leave arrives in time, and output that has to wait teaches nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from infra.metrics import PrometheusReporter
from sessionizer.gate import LOOK_EVERY_MS
from sessionizer.makers import Makers
from sessionizer.progress import Progress
from tests.sessionizer.shell.memory import Log, MemoryOutlet
from tests.sessionizer.shell.test_gate import BOUND, MANY_USERS, Waiting, feed_some
from tests.sessionizer.shell.test_partition import STEERED_WHOLE, Life, replay
from tests.sessionizer.shell.world import BATCHES, START_MS, events, identities, records

STEP_MS = 250
"""As fast as event time."""
TARGET_MS = 2_000
STREAM = records(events(1_200, seed=5))
LARGE = replace(BATCHES, samples=10_000, target_fresh_ms=TARGET_MS)
"""No mini-batch is ever full: each leaves when its time is over."""


class SlowOutlet(MemoryOutlet):
    """A commit takes time."""

    life: Life
    takes_ms: Callable[[], int]

    def commit(self, progress: Progress) -> int:
        self.life.now_ms += self.takes_ms()
        return super().commit(progress)


@dataclass
class Slow(Waiting):
    """A worker whose commits take time, on a stream that is never silent; a trainer may follow."""

    takes_ms: Callable[[], int] = lambda: 0
    follows_trainer: bool = False
    reporter: PrometheusReporter = field(default_factory=PrometheusReporter)
    bound: int = 1 << 40

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ready_ms: dict[int, int] = {}
        """Since when something waits for the mini-batch of a sequence."""
        self.took_ms: list[int] = []
        """From then until it arrived, of each mini-batch."""

    def makers(self) -> Makers:
        def outlet() -> MemoryOutlet:
            made = SlowOutlet(self.log, self.fuse)
            made.life, made.takes_ms = self, self.takes_ms
            return made

        made = super().makers()
        return replace(made, outlet=outlet, gate=made.gate if self.follows_trainer else None)

    def gauge(self, name: str) -> float | None:
        return self.reporter.registry.get_sample_value(name, {"partition": "0"})

    def trickle(self, count: int, *, checkpoint_ms: int = 0) -> None:
        """One more record a step. `checkpoint_ms`: the trainer saves all there is so often."""
        at_first = self.now_ms
        for _ in range(count):
            self.log.records.append(STREAM[len(self.log.records)])
            self.now_ms += STEP_MS
            before_ms = self.now_ms
            self.work(10)
            assert self.partition is not None
            if self.partition.core.num_ready:
                self.ready_ms.setdefault(self.partition.core.ready_since, before_ms)
            if (
                checkpoint_ms
                and (self.now_ms - at_first) // checkpoint_ms > (before_ms - at_first - STEP_MS) // checkpoint_ms
            ):
                self.trainer.committed = len(self.log.batches)
            arrived = (self.trainer.committed or 0) if self.follows_trainer else len(self.log.batches)
            self.took_ms += [
                self.now_ms - self.ready_ms.get(made, before_ms) for made in range(len(self.took_ms), arrived)
            ]


def test_of_mini_batches_that_are_not_full_19_of_20_are_read_in_time_and_not_much_sooner() -> None:
    draw = np.random.default_rng(3)
    life = Slow(batches=LARGE, takes_ms=lambda: int(draw.integers(20, 400)))
    life.trickle(900)
    known = life.took_ms[19:]
    assert len(known) > 60
    # It is seen to be ready, and to be read, a step late at most.
    assert np.mean(np.array(known) <= TARGET_MS + 2 * STEP_MS) >= 0.95
    assert np.median(known) > 0.6 * TARGET_MS
    assert life.gauge("recd_fresh_target_ms") == TARGET_MS
    assert (life.gauge("recd_fresh_wait_ms") or 0) + (life.gauge("recd_fresh_delay_ms") or 0) == TARGET_MS
    assert not life.said
    life.work(10, finish=True)
    assert identities(life.log.read_batches()) == identities(replay(life.log, LARGE, life.now_ms).read_batches())


def test_with_a_trainer_to_follow_what_counts_is_its_checkpoint() -> None:
    batches = replace(LARGE, target_fresh_ms=5_000)
    life = Slow(batches=batches, follows_trainer=True)
    life.trickle(1_200, checkpoint_ms=1_500)
    known = np.array(life.took_ms[19:])
    assert len(known) > 30
    assert np.mean(known <= 5_000 + 2 * STEP_MS) >= 0.95
    # The first mini-batch after a checkpoint waits for all of the next one, and is seen there a second late at most.
    assert 1_500 <= (life.gauge("recd_fresh_delay_ms") or 0) <= 1_500 + LOOK_EVERY_MS + 3 * STEP_MS
    assert not life.said


def test_a_delay_that_leaves_nothing_of_the_target_is_said_once_a_minute_and_until_it_is_over() -> None:
    slow = [TARGET_MS]
    life = Slow(batches=LARGE, takes_ms=lambda: slow[0])
    life.trickle(400)
    assert life.gauge("recd_fresh_wait_ms") == TARGET_MS // 10
    assert (life.gauge("recd_fresh_delay_ms") or 0) >= TARGET_MS
    minutes = (life.now_ms - START_MS) / 60_000
    assert 2 < life.said.count("the freshness target is missed") <= minutes + 1
    slow[0] = 0
    life.trickle(800)
    assert life.said[-1] == "the freshness target is met again"
    assert life.said.count("the freshness target is met again") == 1
    assert life.gauge("recd_fresh_wait_ms") == TARGET_MS - (life.gauge("recd_fresh_delay_ms") or 0)


@pytest.mark.parametrize("looks", [1, 60])
def test_time_in_which_output_waits_for_the_trainer_teaches_nothing(looks: int) -> None:
    batches, reporter = replace(STEERED_WHOLE, target_fresh_ms=1_000_000), PrometheusReporter()
    life = Waiting(log=Log(records=records(MANY_USERS)), batches=batches, reporter=reporter)

    def delay_ms() -> float | None:
        return reporter.registry.get_sample_value("recd_fresh_delay_ms", {"partition": "0"})

    def emit(num_bytes: int) -> None:
        while feed_some(life) < num_bytes:
            assert life.partition
            assert life.partition.core.next_offset < len(MANY_USERS)

    def look(*, trained: bool) -> None:
        assert life.partition
        life.now_ms += LOOK_EVERY_MS
        if trained:
            life.trainer.committed = len(life.log.batches)
        life.partition.tick(caught_up=())

    for _ in range(2):
        emit(1)
        look(trained=True)
    assert delay_ms() == LOOK_EVERY_MS, "the first one is that of a start"
    emit(BOUND)
    for _ in range(looks):
        look(trained=False)
    look(trained=True)
    assert delay_ms() == LOOK_EVERY_MS, "what was on the way while output waited is forgotten"
    emit(1)
    for _ in range(4):
        look(trained=False)
    look(trained=True)
    assert delay_ms() == 5 * LOOK_EVERY_MS, "what leaves after that is learned from"
