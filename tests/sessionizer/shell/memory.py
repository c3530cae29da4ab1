"""A partition's Kafka in memory, with transactions and sudden death.

Owns an Outlet and a Journal over plain lists that keep the protocols' promises: what is sent becomes visible at
commit, all of it or nothing, and only for the newest owner. A fuse blows at a chosen call, before or after it acts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sessionizer.outlet import Arrived, Chunk, CutPlace, FencedError, Recovered
from sessionizer.progress import Progress, from_chunks, to_chunks
from state.memory_profiles import MemoryProfiles
from state.store import Missing
from streams import wire
from streams.clock_mark import ClockMark
from streams.errors import RetryableError
from streams.events.record import Rejected
from streams.inputs import Input, Position
from streams.minibatch import MiniBatch
from tests.sessionizer.shell.world import MemoryRecord

CHUNK_BYTES = 4_096


class Killed(BaseException):
    """The process is gone; nothing may catch this as an error."""


@dataclass
class Fuse:
    """Blows when it has been passed `left` times; never if negative."""

    left: int = -1

    def __call__(self) -> None:
        if self.left == 0:
            self.left = -1
            raise Killed
        self.left -= self.left > 0


@dataclass
class Log:
    """All that Kafka holds for partition 0."""

    records: list[MemoryRecord] = field(default_factory=list)
    outcomes: list[MemoryRecord] = field(default_factory=list)
    """Of a topic of their own."""
    unreadable: dict[Input, set[int]] = field(default_factory=lambda: {source: set() for source in Input})
    """Offsets of records that stand for markers of transactions, aborted ones and compacted ones."""
    clock: list[ClockMark] = field(default_factory=list)
    batches: list[bytes] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    letters: list[tuple[str, int]] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    chunks: dict[int, bytes] = field(default_factory=dict)
    owner: int = 0
    profiles: list[tuple[int, bytes | None]] = field(default_factory=list)
    """The changelog, uncompacted."""

    @property
    def end(self) -> Position:
        """After the last record of each input."""
        return Position(len(self.records), len(self.outcomes))

    def read(self, source: Input, start: int, stop: int) -> list[MemoryRecord]:
        """What a reader is given of an input with start <= offset < stop."""
        held = self.records if source is Input.INTERACTIONS else self.outcomes
        return [one for one in held[start:stop] if one.offset not in self.unreadable[source]]

    def leave_out(self, source: Input, size: int) -> None:
        """Append so many offsets that no reader is ever given."""
        held = self.records if source is Input.INTERACTIONS else self.outcomes
        new = range(len(held), len(held) + size)
        held += [MemoryRecord(offset=offset, value=None) for offset in new]
        self.unreadable[source].update(new)

    def put_chunk(self, index: int, chunk: bytes | None) -> None:
        """As a compacted topic does: the last one stays, None erases."""
        if chunk is None:
            self.chunks.pop(index, None)
        else:
            self.chunks[index] = chunk

    def read_batches(self) -> list[MiniBatch]:
        return [wire.decode(data) for data in self.batches]


class MemoryOutlet:
    """An Outlet on a Log."""

    def __init__(self, log: Log, fuse: Fuse) -> None:
        self._log = log
        self._fuse = fuse
        self._pending: list[Callable[[], None]] = []
        self._mark_sent = False
        self.open_bytes = 0
        log.owner += 1
        self._owner = log.owner

    @property
    def is_open(self) -> bool:
        """Whether something was sent and not committed."""
        return bool(self._pending)

    def send_batch(self, batch: MiniBatch, arrived: Arrived | None = None) -> int:
        data = wire.encode(batch)

        def act() -> None:
            self._log.batches.append(data)
            if arrived is not None:
                arrived(len(self._log.batches) - 1, len(data))

        self._send(act)
        return len(data)

    def send_end(self, epoch: int) -> None:
        self._send(lambda: self._log.ends.append(epoch))

    def send_dead_letter(self, rejected: Rejected) -> None:
        self._send(lambda: self._log.letters.append((rejected.record.topic, rejected.offset)))

    def send_mark(self, mark: ClockMark) -> None:
        self._mark_sent = True
        self._send(lambda: self._log.clock.append(mark))

    def send_cut(self, data: bytes, number: int, stale_chunks: int) -> CutPlace:
        chunks = to_chunks(data, number, CHUNK_BYTES)
        for index, chunk in enumerate(chunks):
            self._send(partial(self._log.put_chunk, index, chunk))
        for index in range(len(chunks), stale_chunks):
            self._send(partial(self._log.put_chunk, index, None))
        return CutPlace(first_offset=0, chunks=len(chunks))

    def send_profiles(self, values: Mapping[int, bytes | None]) -> int | None:
        for pair in values.items():
            self._send(partial(self._log.profiles.append, pair))
        return len(self._log.profiles) + len(values) if values else None

    def commit(self, progress: Progress) -> int:
        self._fuse()
        if self._owner != self._log.owner:
            raise FencedError("a newer owner has opened the partition")
        for act in self._pending:
            act()
        self._log.progress = Progress.decode(progress.encode())
        self._pending.clear()
        mark = len(self._log.clock) - 1 if self._mark_sent else -1
        self._mark_sent = False
        self._fuse()
        return mark

    def close(self) -> None:
        self._pending.clear()

    def _send(self, act: Callable[[], None]) -> None:
        self._fuse()
        self._pending.append(act)


class MemoryJournal:
    """A Journal on a Log."""

    def __init__(self, log: Log, fuse: Fuse) -> None:
        self._log = log
        self._fuse = fuse
        self._position = 0

    def load(self) -> Recovered:
        self._fuse()
        progress = self._log.progress
        cut = from_chunks(progress.cut, self._log.chunks) if progress.cut else None
        assert (cut is None) == (progress.cut is None), "a cut is whole, or it is not there"
        return Recovered(
            progress=progress, cut=cut, begin=Position(), end=Position(len(self._log.records), len(self._log.outcomes))
        )

    def start_clock(self, clock_offset: int) -> list[tuple[int, ClockMark | None]]:
        self._position = clock_offset
        return self.new_marks()

    def new_marks(self) -> list[tuple[int, ClockMark | None]]:
        self._fuse()
        found = list(enumerate(self._log.clock))[self._position :]
        self._position = len(self._log.clock)
        return list(found)

    def marks_through(self, clock_offset: int) -> list[tuple[int, ClockMark | None]]:
        assert clock_offset < len(self._log.clock), "only what was committed can be waited for"
        return self.new_marks()

    def close(self) -> None:
        """Nothing to leave."""


class MemoryChangelog:
    """A Changelog on a Log, read a few records at a time."""

    def __init__(self, log: Log, identity: str = "changelog") -> None:
        self._log = log
        self.identity = identity

    def read(self, start: int, end: int) -> Iterator[Chunk]:
        for first in range(start, end, 7):
            after = min(first + 7, end)
            yield dict(self._log.profiles[first:after]), after

    def close(self) -> None:
        """Nothing to leave."""


class FusedProfiles(MemoryProfiles):
    """A store whose process may die before or after each call, and that may not answer for some calls."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self._fuse = fuse
        self.silent = 0
        """So many calls from now on have no answer; every other one of these acts all the same."""

    def read(self, shelf: str, users: Sequence[int]) -> tuple[bytes | Missing, list[bytes | Missing]]:
        self._fuse()
        found = super().read(shelf, users)
        self._answer()
        return found

    def write(self, shelf: str, values: Mapping[int, bytes | None], expected: bytes | Missing, tag: bytes) -> bool:
        self._fuse()
        if self.silent % 2:
            self._answer()
        done = super().write(shelf, values, expected, tag)
        self._fuse()
        self._answer()
        return done

    def _answer(self) -> None:
        if self.silent:
            self.silent -= 1
            raise RetryableError("the store does not answer")
