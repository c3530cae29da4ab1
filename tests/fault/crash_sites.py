"""Named places in a partition's life at which a worker can be made to die, and two ways to break it on purpose.

Owns the wrappers around the outlet, the journal and the offsets commit. They exist in the test's own processes only:
no product code knows them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import pytest

from sessionizer import emit, faust_seam, job, wiring
from sessionizer.emit import PlainOutlet, TransactionalOutlet
from sessionizer.handler import Lane
from sessionizer.outlet import Arrived, CutPlace, Recovered
from sessionizer.progress import Progress
from sessionizer.recovery import KafkaJournal, PlacedMarks
from streams.clock_mark import ClockMark
from streams.events.record import Rejected
from streams.minibatch import MiniBatch

AT_START: Final = ("before fencing", "fenced", "before recovery", "recovered", "clock read")
AT_COMMIT: Final = (
    "batch sent",
    "dead letter sent",
    "before cut",
    "cut sent",
    "before commit",
    "progress sent",
    "flushed",
    "committed",
)
"""In the order of `sessionizer.partition`. flushed: all records are on the broker, the transaction is still open."""
AT_MARKS: Final = ("mark sent", "before marks are read back", "marks read back", "end sent")
AT_OFFSETS: Final = ("before offsets commit", "offsets committed")
SITES: Final = (*AT_START, *AT_COMMIT, *AT_MARKS, *AT_OFFSETS)


class Crash:
    """Kills this very process, as `kill -9` does, when a site is passed for the `nth` time."""

    def __init__(self, site: str, nth: int) -> None:
        assert site in SITES, site
        self._site = site
        self._left = nth

    def __call__(self, site: str) -> None:
        if site == self._site:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def nothing(_: str) -> None:
    """The crash of a worker that is to live."""


class _Sites:
    """Which `Crash` the wrappers of this process tell; set before a worker starts."""

    passed: Callable[[str], None] = staticmethod(nothing)


class _CrashingOutlet(PlainOutlet):
    """An outlet that tells every step."""

    def send_batch(self, batch: MiniBatch, arrived: Arrived | None = None) -> int:
        size = super().send_batch(batch, arrived)
        _Sites.passed("batch sent")
        return size

    def send_dead_letter(self, rejected: Rejected) -> None:
        super().send_dead_letter(rejected)
        _Sites.passed("dead letter sent")

    def send_mark(self, mark: ClockMark) -> None:
        super().send_mark(mark)
        _Sites.passed("mark sent")

    def send_end(self, epoch: int) -> None:
        super().send_end(epoch)
        _Sites.passed("end sent")

    def send_cut(self, data: bytes, number: int, stale_chunks: int) -> CutPlace:
        _Sites.passed("before cut")
        place = super().send_cut(data, number, stale_chunks)
        _Sites.passed("cut sent")
        return place

    def commit(self, progress: Progress) -> int:
        _Sites.passed("before commit")
        mark = super().commit(progress)
        _Sites.passed("committed")
        return mark

    def _send_progress(self, progress: Progress) -> None:
        super()._send_progress(progress)
        _Sites.passed("progress sent")

    def _flush(self) -> None:
        super()._flush()
        _Sites.passed("flushed")


class _CrashingTransactions(_CrashingOutlet, TransactionalOutlet):
    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401  (whatever its base takes)
        _Sites.passed("before fencing")
        super().__init__(*arguments)
        _Sites.passed("fenced")


class _CrashingJournal(KafkaJournal):
    """A journal that tells every step."""

    def load(self) -> Recovered:
        _Sites.passed("before recovery")
        found = super().load()
        _Sites.passed("recovered")
        return found

    def start_clock(self, clock_offset: int) -> PlacedMarks:
        found = super().start_clock(clock_offset)
        _Sites.passed("clock read")
        return found

    def marks_through(self, clock_offset: int) -> PlacedMarks:
        _Sites.passed("before marks are read back")
        found = super().marks_through(clock_offset)
        _Sites.passed("marks read back")
        return found


class _ForgetfulJournal(_CrashingJournal):
    """The audit's control: what had been emitted since the cut is not remembered, so nothing is suppressed."""

    def load(self) -> Recovered:
        found = super().load()
        cut = found.progress.cut
        if cut is None:
            return found
        forgotten = msgspec.structs.replace(found.progress, next_offset=cut.next_offset, next_sequence=0, next_epoch=0)
        return Recovered(progress=forgotten, cut=found.cut, begin=found.begin, end=found.end)


class _CrashingFleet(job.Fleet):
    def finished(self) -> Mapping[Lane, int]:
        found = super().finished()
        if any(found.values()):
            _Sites.passed("before offsets commit")
        return found


class _CrashingConsumer(faust_seam.BulkConsumer):
    async def _commit_tps(self, tps: Any, start_new_transaction: bool) -> bool:  # noqa: ANN401, FBT001  (Faust's)
        done = await super()._commit_tps(tps, start_new_transaction)
        if done:
            _Sites.passed("offsets committed")
        return done


def install(crash: Crash | None, *, suppress: bool = True) -> None:
    """Make this process's workers tell their steps to `crash`. For ever: the process is the worker's own."""
    _Sites.passed = staticmethod(crash or nothing)
    patch = pytest.MonkeyPatch()
    patch.setattr(emit, "PlainOutlet", _CrashingOutlet)
    patch.setattr(emit, "TransactionalOutlet", _CrashingTransactions)
    patch.setattr(wiring, "KafkaJournal", _CrashingJournal if suppress else _ForgetfulJournal)
    patch.setattr(job, "Fleet", _CrashingFleet)
    patch.setattr(faust_seam.BulkTransport, "Consumer", _CrashingConsumer)
