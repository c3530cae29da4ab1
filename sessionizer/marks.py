"""Clock marks of one partition that wait for their turn.

Owns when a mark takes effect, which marks are void, and how much of the clock topic a cut has to remember.
Never reads a clock or Kafka: marks come in by their offset in the clock topic, and only from there, so that a
live run and a replay see the same ones in the same order.

A position is one in all inputs. Between two positions that marks name, the inputs may be read in any order; at one,
reading stops until every input is there.

Rules
    Marks of one position take effect in the order of the clock topic.
    An idle mark behind an end mark of the same position is void: its silence belonged to the epoch that ended. A shed
    mark is not: the trainer may be as far behind in the next one.
    A *request* is an end mark from outside (`replaces` is None). One whose position has been passed by an input when
    it is read is overdue: it is settled by a mark of our own, which names it in `replaces` and makes it void. So is one
    that would have to act both before and after another one, or does not say where the outcomes end.
    So of two marks that wait, one comes first, and never does each hold up the input that the other one waits for.
    Our own marks are written in the partition's transactions, so they are never overdue. The positions of all marks
    that take effect grow.
    Offsets at which nobody can read anything are passed like others, whenever that becomes known: stopping at every
    mark makes it the same. An epoch that has ended is still at its end behind them: nothing has happened since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET

from sessionizer.outlet import CutPlace
from sessionizer.progress import CutRef, Progress, checksum
from streams.clock_mark import ClockMark, MarkKind
from streams.inputs import Input, Position


@dataclass(frozen=True, slots=True)
class PlacedMark:
    """A mark and its offset in the clock topic."""

    clock_offset: int
    mark: ClockMark


class Marks:
    """What is known of the clock topic at one position of the inputs."""

    def __init__(self, partition: int, progress: Progress, position: Position, *, two: bool = False) -> None:
        self.partition = partition
        self.position = position
        """Next offsets to feed: the cut's, or the first that exist where there is no cut."""
        cut = progress.cut
        self.ended_at = cut.ended if cut else None
        """Where the last end mark took effect, or as far behind as nothing has come since."""
        self.next_clock_offset = cut.clock_offset if cut else 0
        """Offset in the clock topic after the last mark that was added."""
        self.two = two
        """Whether there are two inputs."""
        self._applied = list(cut.applied) if cut else []
        self._known = progress
        self._waiting: list[PlacedMark] = []
        self._overdue: list[PlacedMark] = []
        self._future: dict[Input, dict[int, PlacedMark]] = {source: {} for source in Input}

    def add(self, clock_offset: int, mark: ClockMark | None) -> None:
        """Take one record of the clock topic, in order; None stands for one that is no mark of this partition."""
        if clock_offset < self.next_clock_offset:
            return
        self.next_clock_offset = clock_offset + 1
        if mark is None:
            return
        placed = PlacedMark(clock_offset, mark)
        if mark.kind is MarkKind.FUTURE:
            record = mark.after[mark.input]
            if record >= self.position[mark.input]:
                self._future[mark.input][record] = placed
            return
        if mark.replaces is not None:
            self._void(mark.replaces)
        if self._came_too_late(placed):
            self._overdue.append(placed)
        elif mark.after.reaches(self.position) and clock_offset not in self._applied:
            self._waiting.append(placed)

    def due(self) -> ClockMark | None:
        """The next mark that takes effect here, once; the core applies it."""
        here = [placed for placed in self._waiting if placed.mark.after == self.position]
        for placed in sorted(here, key=lambda placed: placed.clock_offset):
            self._waiting.remove(placed)
            self._applied.append(placed.clock_offset)
            if placed.mark.kind is MarkKind.END:
                self.ended_at = self.position
            elif self.ended_at == self.position and placed.mark.kind is not MarkKind.SHED:
                continue
            return placed.mark
        return None

    def next_stop(self, limit: int, source: Input = Input.INTERACTIONS) -> int:
        """Where reading of an input has to pause: at the next mark, and where a replay ends; at most `limit`.

        The position itself where a mark, or the rest of the replay, waits for the other input.
        """
        here = self.position[source]
        stops = [placed.mark.after[source] for placed in self._waiting]
        if self.replaying:
            stops.append(self._known.position[source])
        return min((stop for stop in stops if here <= stop < limit), default=limit)

    def is_blocked(self, source: Input) -> bool:
        """Whether nothing more of an input may be fed until the other one has moved."""
        here = self.position[source]
        return self.next_stop(here + 1, source) == here

    def move(self, next_offset: int, source: Input = Input.INTERACTIONS, *, by_events: bool = True) -> None:
        """Every record of the input below `next_offset` has been fed; `by_events`: there was something in them."""
        here, at_end = self.position[source], self.ended_at == self.position
        assert next_offset >= here, f"position goes back from {here} to {next_offset}"
        if next_offset == here:
            return
        self.position = self.position.moved(source, next_offset)
        if at_end and not by_events:
            self.ended_at = self.position
        self._applied.clear()
        for offset in [offset for offset in self._future[source] if offset < next_offset]:
            del self._future[source][offset]

    def future(self, source: Input = Input.INTERACTIONS) -> dict[int, int]:
        """Offsets, from here on, of the records of an input of which something lies in the future by a mark.

        To each the event time from which on its events do: a record of one event has that time.
        """
        return {offset: placed.mark.value_ms for offset, placed in self._future[source].items()}

    @property
    def replaying(self) -> bool:
        """Whether what is being made now has been made before."""
        return not self.position.reaches(self._known.position)

    def settle(self) -> list[ClockMark]:
        """Marks to write for the overdue requests, where they can act next; empty as long as we replay.

        Call it whenever marks were added, before anything is fed.
        """
        if self.replaying:
            return []
        self._part()
        standing, settlements = [placed.mark.after for placed in self._waiting], list[ClockMark]()
        for placed in sorted(self._overdue, key=lambda placed: placed.clock_offset):
            after = self.position.joined(placed.mark.after)
            for other in sorted(standing, key=sum):
                after = after.joined(other) if _cross(after, other) else after
            standing.append(after)
            settlements.append(self.new(MarkKind.END, after=after, replaces=placed.clock_offset))
        return settlements

    def _part(self) -> None:
        """Of two that wait and of which neither comes first, the later request is overdue."""
        standing: list[PlacedMark] = []
        for placed in sorted(self._waiting, key=lambda placed: (_is_request(placed.mark), placed.clock_offset)):
            crossed = any(_cross(placed.mark.after, other.mark.after) for other in standing)
            (self._overdue if crossed and _is_request(placed.mark) else standing).append(placed)
        self._waiting = standing

    def new(
        self,
        kind: MarkKind,
        *,
        after: Position | None = None,
        about: Input = Input.INTERACTIONS,
        value_ms: int = 0,
        replaces: int | None = None,
    ) -> ClockMark:
        """A mark of our own, which takes effect here unless told otherwise."""
        return ClockMark.at(
            after or self.position,
            kind,
            partition=self.partition,
            two=self.two,
            about=about,
            value_ms=value_ms,
            replaces=replaces,
        )

    @property
    def applied(self) -> tuple[int, ...]:
        """Clock offsets of the marks that have taken effect at this very position."""
        return tuple(self._applied)

    @property
    def oldest_clock_offset(self) -> int:
        """First clock offset that a cut at this position still needs."""
        futures = [placed for found in self._future.values() for placed in found.values()]
        return min(
            (placed.clock_offset for placed in (*self._waiting, *self._overdue, *futures)),
            default=self.next_clock_offset,
        )

    def _came_too_late(self, placed: PlacedMark) -> bool:
        """A request that nobody had read when its position was passed for good, or that cannot act where it says."""
        mark = placed.mark
        if not _is_request(mark) or placed.clock_offset < self._known.clock_offset:
            return False
        passed = not mark.after.reaches(self.position.joined(self._known.position))
        return passed or (self.two and mark.version < 2)

    def _void(self, clock_offset: int) -> None:
        self._waiting = [placed for placed in self._waiting if placed.clock_offset != clock_offset]
        self._overdue = [placed for placed in self._overdue if placed.clock_offset != clock_offset]


def _is_request(mark: ClockMark) -> bool:
    """Whether somebody else asks for it."""
    return mark.kind is MarkKind.END and mark.replaces is None


def _cross(one: Position, other: Position) -> bool:
    """Whether neither can come before the other."""
    return not (one.reaches(other) or other.reaches(one))


def cut_ref(marks: Marks, data: bytes, number: int, place: CutPlace, profiles_offset: int) -> CutRef:
    """What the progress says of the cut that was taken here, as `data`, and put at a place."""
    position, ended = marks.position, marks.ended_at
    return CutRef(
        number=number,
        first_offset=place.first_offset,
        chunks=place.chunks,
        size_bytes=len(data),
        crc32c=checksum(data),
        next_offset=position.interactions,
        clock_offset=marks.oldest_clock_offset,
        applied=marks.applied,
        ended_at=ended.interactions if ended else -1,
        next_outcome=position.outcomes if marks.two else UNSET,
        ended_outcome=ended.outcomes if ended and marks.two else UNSET,
        profiles_offset=profiles_offset,
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """The latest that is known of an input."""

    max_time_ms: int
    """Of its events."""
    append_ms: int
    """When its last record was appended."""


def idle_mark(
    marks: Marks,
    seen: Sequence[Seen],
    *,
    now_ms: int,
    watermark_ms: int,
    lateness_ms: int,
    about: Input = Input.INTERACTIONS,
) -> ClockMark | None:
    """The mark by which a silent input's watermark follows the wall clock; None where it would not advance.

    Event time goes on from the latest event at the speed of the wall clock, and never runs ahead of it. `seen`: the
    inputs whose events count: outcomes that stay away are as far as the interactions, which come first.
    """
    time_ms = max(min(each.max_time_ms + max(0, now_ms - each.append_ms), now_ms) for each in seen)
    value_ms = time_ms - lateness_ms
    return None if value_ms <= watermark_ms else marks.new(MarkKind.IDLE, about=about, value_ms=value_ms)


def fresh_mark(marks: Marks) -> ClockMark:
    """The mark by which what may leave does leave."""
    return marks.new(MarkKind.FRESH)


def shed_mark(marks: Marks, share: int) -> ClockMark:
    """The mark from which on a share of the sessions, in parts of `WHOLE`, is shed."""
    return ClockMark.at(marks.position, MarkKind.SHED, partition=marks.partition, two=marks.two, share=share)


def future_marks(marks: Marks, source: Input, verdicts: list[tuple[int, int]]) -> list[ClockMark]:
    """Marks for records of an input, by (offset, event time), that the wall clock finds in the future."""
    return [
        marks.new(MarkKind.FUTURE, after=marks.position.moved(source, offset), about=source, value_ms=time_ms)
        for offset, time_ms in verdicts
    ]
