"""Clock marks of one partition that wait for their turn.

Owns when a mark takes effect, which marks are void, and how much of the clock topic a cut has to remember.
Never reads a clock or Kafka: marks come in by their offset in the clock topic, and only from there, so that a
live run and a replay see the same ones in the same order.

Rules
    Marks of one position take effect in the order of the clock topic.
    An idle mark behind an end mark of the same position is void: its silence belonged to the epoch that ended.
    A *request* is an end mark from outside (`replaces` is None). One whose position has been passed when it is
    read is overdue: it is settled by a mark of our own, which names it in `replaces` and makes it void.
    Our own marks are written in the partition's transactions, so they are never overdue.
"""

from __future__ import annotations

from dataclasses import dataclass

from sessionizer.progress import Progress
from streams.clock_mark import ClockMark, MarkKind


@dataclass(frozen=True, slots=True)
class PlacedMark:
    """A mark and its offset in the clock topic."""

    clock_offset: int
    mark: ClockMark


class Marks:
    """What is known of the clock topic at one position of the interactions partition."""

    def __init__(self, partition: int, progress: Progress, position: int) -> None:
        self.partition = partition
        self.position = position
        """Next offset to feed: the cut's, or the first that exists where there is no cut."""
        cut = progress.cut
        self.ended_at = cut.ended_at if cut else -1
        self.next_clock_offset = cut.clock_offset if cut else 0
        """Offset in the clock topic after the last mark that was added."""
        self._applied = list(cut.applied) if cut else []
        self._known = progress
        self._waiting: list[PlacedMark] = []
        self._overdue: list[PlacedMark] = []
        self._future: dict[int, PlacedMark] = {}

    def add(self, clock_offset: int, mark: ClockMark | None) -> None:
        """Take one record of the clock topic, in order; None stands for one that is no mark of this partition."""
        if clock_offset < self.next_clock_offset:
            return
        self.next_clock_offset = clock_offset + 1
        if mark is None:
            return
        placed = PlacedMark(clock_offset, mark)
        if mark.kind is MarkKind.FUTURE:
            if mark.after_offset >= self.position:
                self._future[mark.after_offset] = placed
            return
        if mark.replaces is not None:
            self._void(mark.replaces)
        if self._came_too_late(placed):
            self._overdue.append(placed)
        elif mark.after_offset >= self.position and clock_offset not in self._applied:
            self._waiting.append(placed)

    def due(self) -> ClockMark | None:
        """The next mark that takes effect here, once; the core applies it."""
        here = [placed for placed in self._waiting if placed.mark.after_offset == self.position]
        for placed in sorted(here, key=lambda placed: placed.clock_offset):
            self._waiting.remove(placed)
            self._applied.append(placed.clock_offset)
            if placed.mark.kind is MarkKind.END:
                self.ended_at = self.position
            elif self.ended_at == self.position:
                continue
            return placed.mark
        return None

    def next_stop(self, limit: int) -> int:
        """Where reading has to pause: at the next mark, and where a replay ends; at most `limit`."""
        stops = [placed.mark.after_offset for placed in self._waiting]
        stops.append(self._known.next_offset)
        return min((stop for stop in stops if self.position < stop < limit), default=limit)

    def move(self, next_offset: int) -> None:
        """Every record below `next_offset` has been fed."""
        assert next_offset >= self.position, f"position goes back from {self.position} to {next_offset}"
        if next_offset == self.position:
            return
        self.position = next_offset
        self._applied.clear()
        for offset in [offset for offset in self._future if offset < next_offset]:
            del self._future[offset]

    @property
    def future(self) -> dict[int, int]:
        """Offsets, from here on, of the records of which something lies in the future by a mark.

        To each the event time from which on its events do: a record of one event has that time.
        """
        return {offset: placed.mark.value_ms for offset, placed in self._future.items()}

    @property
    def replaying(self) -> bool:
        """Whether what is being made now has been made before."""
        return self.position < self._known.next_offset

    @property
    def num_overdue(self) -> int:
        """Requests that wait for a settlement."""
        return len(self._overdue)

    def settle(self) -> list[ClockMark]:
        """Marks to write for the overdue requests, here; empty as long as we replay."""
        if self.replaying:
            return []
        return [
            ClockMark(
                partition=self.partition, after_offset=self.position, kind=MarkKind.END, replaces=placed.clock_offset
            )
            for placed in self._overdue
        ]

    @property
    def applied(self) -> tuple[int, ...]:
        """Clock offsets of the marks that have taken effect at this very position."""
        return tuple(self._applied)

    @property
    def oldest_clock_offset(self) -> int:
        """First clock offset that a cut at this position still needs."""
        return min(
            (
                *(placed.clock_offset for placed in (*self._waiting, *self._overdue)),
                *(placed.clock_offset for placed in self._future.values()),
                self.next_clock_offset,
            )
        )

    def _came_too_late(self, placed: PlacedMark) -> bool:
        """A request that nobody had read when its position was passed for good."""
        if placed.mark.replaces is not None or placed.mark.kind is not MarkKind.END:
            return False
        passed = max(self.position, self._known.next_offset)
        return placed.clock_offset >= self._known.clock_offset and placed.mark.after_offset < passed

    def _void(self, clock_offset: int) -> None:
        self._waiting = [placed for placed in self._waiting if placed.clock_offset != clock_offset]
        self._overdue = [placed for placed in self._overdue if placed.clock_offset != clock_offset]


def idle_mark(
    marks: Marks, *, now_ms: int, last_append_ms: int, max_time_ms: int, watermark_ms: int, lateness_ms: int
) -> ClockMark | None:
    """The mark by which a silent partition's watermark follows the wall clock; None where it would not advance.

    Event time goes on from the latest event at the speed of the wall clock, and never runs ahead of it.
    """
    time_ms = min(max_time_ms + max(0, now_ms - last_append_ms), now_ms)
    value_ms = time_ms - lateness_ms
    if value_ms <= watermark_ms:
        return None
    return ClockMark(partition=marks.partition, after_offset=marks.position, kind=MarkKind.IDLE, value_ms=value_ms)


def fresh_mark(marks: Marks) -> ClockMark:
    """The mark by which what may leave does leave."""
    return ClockMark(partition=marks.partition, after_offset=marks.position, kind=MarkKind.FRESH)


def future_marks(partition: int, verdicts: list[tuple[int, int]]) -> list[ClockMark]:
    """Marks for records, by (offset, event time), that the wall clock finds in the future."""
    return [
        ClockMark(partition=partition, after_offset=offset, kind=MarkKind.FUTURE, value_ms=time_ms)
        for offset, time_ms in verdicts
    ]
