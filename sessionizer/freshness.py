"""How long what may leave a partition waits for its mini-batch to fill, and how long it is on its way after that.

Owns when it began to wait, whether that is too long, and which mini-batches have not arrived. How long is too long is
`batch.fresh_ms`, or `steering`'s. Never reads a clock, and writes no mark: the partition does.

A mini-batch leaves when the wait of its samples is over, or when it is full before that. It arrives when the
transaction that it is in is committed; or when a checkpoint of the trainer has it, where the partition knows of these.
What arrives together teaches one delay, that of the first to have left: many mini-batches between two checkpoints are
as late as their checkpoint, not many times on time. What has left and not arrived when output has to wait teaches
nothing: the trainer is behind then, and how long that takes says nothing about later. So the wait stands still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sessionizer.config import BatchConfig
from sessionizer.outlet import Arrived
from sessionizer.reporting import PartitionReport
from sessionizer.steering import Steering

_SAY_EVERY_MS: Final = 60_000
_FASTER: Final = {
    False: "lower worker.commit_every_ms, see whether Kafka is slow, or raise batch.target_fresh_ms",
    True: "lower checkpoint.every_ms, give `recd trainer` a faster machine, or raise batch.target_fresh_ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshPlace:
    """Whose wait it is, and what ends the delay."""

    partition: int
    batch: BatchConfig
    to_trainer: bool
    """Whether a mini-batch arrives in a checkpoint of the trainer. Otherwise where readers of the topic see it."""
    log: Callable[[str, Mapping[str, object]], None]


class Freshness:
    """The wait of one partition."""

    def __init__(self, place: FreshPlace, report: PartitionReport, now_ms: int) -> None:
        self._place = place
        self._report = report
        target_ms = place.batch.target_fresh_ms
        self._steering = Steering(target_ms) if target_ms else None
        self._ready_ms, self._ready_since = now_ms, -1
        self._on_the_way: deque[tuple[int, int]] = deque()
        """Offset of each mini-batch in the log, and when it left."""
        self._was_shut = self._told = False
        self._may_say_ms = now_ms
        self._show()

    @property
    def wait_ms(self) -> int:
        """How long what may leave waits at most; 0: for as long as it takes."""
        return self._place.batch.fresh_ms if self._steering is None else self._steering.wait_ms

    def is_over(self, num_ready: int, ready_since: int, now_ms: int) -> bool:
        """Whether what is ready now has waited long enough.

        `num_ready`, `ready_since`: as the core tells them. Asked again and again: it begins to wait when it is seen.
        """
        if not num_ready or ready_since != self._ready_since:
            self._ready_ms, self._ready_since = now_ms, ready_since
            return False
        return self.wait_ms > 0 and now_ms - self._ready_ms >= self.wait_ms

    def begin(self, now_ms: int) -> None:
        """What waited too long has left; what is still there waits anew."""
        self._ready_ms = now_ms

    def sent(self, now_ms: int, arrived: Arrived | None) -> Arrived | None:
        """A mini-batch is sent. Returns what is to be called once it is in the log, `arrived` with it."""
        if self._steering is None:
            return arrived
        # Where the end of the wait was noticed late, that is a part of the delay.
        left_ms = now_ms if self._ready_since < 0 else min(now_ms, self._ready_ms + self.wait_ms)

        def in_the_log(offset: int, num_bytes: int) -> None:
            self._on_the_way.append((offset, left_ms))
            if arrived is not None:
                arrived(offset, num_bytes)

        return in_the_log

    def committed(self, now_ms: int) -> None:
        """All that was sent can be read."""
        if self._on_the_way and not self._place.to_trainer:
            self._learn(len(self._on_the_way), now_ms)

    def trained(self, next_offset: int, now_ms: int, *, shut: bool, shut_ms: int) -> None:
        """A checkpoint of the trainer has everything below. `shut`: output waits now; it did for `shut_ms` up to now.

        What waits is not late by the time in which it could not leave.
        """
        self._ready_ms += shut_ms
        if shut or self._was_shut:
            self._on_the_way.clear()
        self._was_shut = shut
        if num_arrived := sum(offset < next_offset for offset, _ in self._on_the_way):
            self._learn(num_arrived, now_ms)

    def _learn(self, num_arrived: int, now_ms: int) -> None:
        """The first ones on the way have arrived."""
        assert self._steering is not None, "nothing is on the way otherwise"
        self._steering.learn(now_ms - min(self._on_the_way.popleft()[1] for _ in range(num_arrived)))
        self._show()
        self._tell(self._steering, now_ms)

    def _show(self) -> None:
        if self._steering is not None:
            self._report.freshness(self._steering)

    def _tell(self, steering: Steering, now_ms: int) -> None:
        """Say when the target cannot be met, at most once a minute, and when it can be again."""
        if steering.is_missed and now_ms >= self._may_say_ms:
            self._may_say_ms = now_ms + _SAY_EVERY_MS
            self._told = True
            self._say("the freshness target is missed", steering, what_to_do=_FASTER[self._place.to_trainer])
        elif not steering.is_missed and self._told:
            self._told = False
            self._say("the freshness target is met again", steering)

    def _say(self, event: str, steering: Steering, **fields: object) -> None:
        times = {"wait_ms": steering.wait_ms, "delay_ms": steering.delay_ms, "target_fresh_ms": steering.target_ms}
        self._place.log(event, {"partition": self._place.partition, **times, **fields})
