"""The gate of a partition's output: shut while the trainer is too far behind.

Owns how often the trainer's place is looked up, what is said and reported about it, and how long the gate was shut.
The arithmetic is `ahead`'s, and that of the share to be shed is `shed_steps`'. Never holds up or sheds anything
itself: the partition asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from sessionizer.ahead import Ahead, Size
from sessionizer.reporting import PartitionReport
from sessionizer.shed_steps import ShedSteps
from streams.clock_mark import WHOLE

LOOK_EVERY_MS: Final = 1_000
"""Wall-clock milliseconds between two looks at the trainer's place."""
SHUT_AT: Final = 2
"""Where sessions are shed at `max_bytes`, output waits at so many times that: shedding may not be enough."""
_SAY_EVERY_MS: Final = 60_000


class Follower(Protocol):
    """The trainer as one partition of the mini-batch topic shows it. Calls raise RetryableError when Kafka fails."""

    def bounds(self) -> tuple[int, int]:
        """First offset of the partition that exists, and the one after the last committed."""

    def place(self) -> int | None:
        """Next offset that the trainer's group has committed; None before the first commit."""

    def sizes(self, start: int, end: int, enough_bytes: int) -> tuple[list[Size], int]:
        """Mini-batches with start <= offset < end until they have so many bytes, and the offset after the last seen."""

    def close(self) -> None:
        """Leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlace:
    """Whose gate it is, and what it may hold."""

    partition: int
    topic: str
    """Of the mini-batches."""
    group: str
    """The trainer's."""
    max_bytes: int
    shed_step_ms: int | None
    """Between two changes of the share that is shed at `max_bytes`; None: output waits there, and nothing is shed."""
    log: Callable[[str, Mapping[str, object]], None]


class Gate:
    """Open until `max_bytes` of mini-batches wait for the trainer, or `SHUT_AT` times that where sessions are shed."""

    def __init__(self, place: GatePlace, follower: Follower, report: PartitionReport, now_ms: int) -> None:
        """Counts what waits already. Only after the outlet is open: then no older writer can add to it."""
        self._place = place
        self._follower = follower
        self._report = report
        first, end = follower.bounds()
        committed = follower.place()
        if committed is None and first < end:
            self._say(
                "the trainer has committed nothing yet: all mini-batches count as ahead of it",
                what_to_do=f"start `recd trainer`; its source.group must be {place.group} for both",
            )
        self._steps = None if place.shed_step_ms is None else ShedSteps(place.max_bytes, place.shed_step_ms)
        self._shut_bytes = place.max_bytes if self._steps is None else SHUT_AT * place.max_bytes
        self.trained = max(first, committed or 0)
        """What a checkpoint of the trainer had at the last look: every mini-batch at a smaller offset."""
        self._ahead = Ahead(self._shut_bytes, self.trained, end)
        self._count()
        self._looked_ms = self._seen_ms = now_ms
        self._may_say_ms = now_ms
        self._told = self._was_shut = False

    @property
    def is_shut(self) -> bool:
        """Whether nothing more may be emitted now."""
        return self._ahead.is_full

    def share(self, now_share: int, now_ms: int) -> int:
        """The share of sessions that should be shed from now on, in parts of `WHOLE`, where `now_share` is."""
        share = 0 if self._steps is None else self._steps.share(now_share, self._ahead.num_bytes, now_ms)
        if share and share != now_share:
            self._say(
                "sessions are shed, since the trainer is behind",
                share=share / WHOLE,
                what_to_do="see whether `recd trainer` runs and saves checkpoints; if it does and this stays, give it "
                'a faster machine, or set worker.when_ahead = "block" to lose nothing',
            )
        elif share != now_share:
            self._say("nothing is shed any more")
        return share

    def sent(self, num_bytes: int) -> None:
        """A mini-batch was emitted."""
        self._ahead.sent(num_bytes)

    def arrived(self, offset: int, num_bytes: int) -> None:
        """It is in the log."""
        self._ahead.arrived(offset, num_bytes)

    def look(self, now_ms: int) -> int:
        """See where the trainer is, at most once a second. Returns the ms since the last call, 0 if open then."""
        shut_ms = now_ms - self._seen_ms if self._was_shut else 0
        self._seen_ms = now_ms
        if now_ms - self._looked_ms >= LOOK_EVERY_MS:
            self._looked_ms = now_ms
            self.trained = self._follower.place() or 0
            self._ahead.trained(self.trained)
            self._count()
        self._report.ahead(self._ahead.num_bytes, shut_ms)
        if self.is_shut != self._was_shut:
            self._was_shut = self.is_shut
            self._tell(now_ms)
        return shut_ms

    def close(self) -> None:
        """Leave Kafka."""
        self._follower.close()

    def _count(self) -> None:
        if (places := self._ahead.uncounted) is not None:
            start, end = places
            self._ahead.count(*self._follower.sizes(start, end, self._shut_bytes - self._ahead.num_bytes))

    def _tell(self, now_ms: int) -> None:
        """Say when output begins to wait and when it goes on; at most once a minute, since it may be both often."""
        if self._was_shut and now_ms >= self._may_say_ms:
            self._may_say_ms = now_ms + _SAY_EVERY_MS
            self._told = True
            self._say(
                "output waits for the trainer",
                what_to_do="see whether `recd trainer` runs and saves checkpoints; if it does and this stays, give it "
                "a faster machine, or raise worker.max_ahead_bytes",
            )
        elif not self._was_shut and self._told:
            self._told = False
            self._say("output goes on")

    def _say(self, event: str, **fields: object) -> None:
        place = self._place
        named = {"partition": place.partition, "topic": place.topic, "group": place.group}
        self._place.log(event, {**named, "max_ahead_bytes": place.max_bytes, **fields})
