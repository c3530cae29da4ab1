"""What a partition needs from Kafka, as two protocols: an Outlet to write to and a Journal to read from.

Owns the contract between the partition and its shell, so that the partition can be run without a broker. `emit`
and `recovery` implement it on Kafka. Never does anything.

An implementation raises RetryableError when Kafka fails and the partition has to be recovered, and FencedError
when another worker has taken the partition over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from sessionizer.progress import Progress
from streams.clock_mark import ClockMark
from streams.errors import RecdError
from streams.events.record import Rejected
from streams.inputs import Position
from streams.minibatch import MiniBatch


class FencedError(RecdError):
    """Another worker owns this partition: nothing that we still write can become visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPlace:
    """Where a cut was put."""

    first_offset: int
    chunks: int


class Outlet(Protocol):
    """Writes for one partition. What is sent becomes visible at `commit`, all of it or nothing."""

    @property
    def open_bytes(self) -> int:
        """Bytes sent since the last commit."""

    def send_batch(self, batch: MiniBatch) -> int:
        """Returns the size on the wire in bytes."""

    def send_end(self, epoch: int) -> None:
        """The end record of an epoch."""

    def send_dead_letter(self, rejected: Rejected) -> None:
        """A record that can never be used."""

    def send_mark(self, mark: ClockMark) -> None:
        """A clock mark of our own."""

    def send_cut(self, data: bytes, number: int, stale_chunks: int) -> CutPlace:
        """A cut in chunks, acknowledged on return; chunks of an older, longer cut are erased up to `stale_chunks`."""

    def send_profiles(self, values: Mapping[int, bytes | None]) -> int | None:
        """Profiles by user, None for one that is to be removed, acknowledged on return.

        Returns the offset of the changelog after them, None where there are none.
        """

    def commit(self, progress: Progress) -> int:
        """Make everything visible, with the progress as the last record.

        Returns the clock offset of the last mark that was sent, -1 without one.
        """

    def close(self) -> None:
        """Give up what is not committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What Kafka remembers of a partition."""

    progress: Progress
    cut: bytes | None
    """The cut that `progress.cut` names; None if there is none."""
    begin: Position
    """First offset of each input that still exists."""
    end: Position
    """Offset after the last record of each."""


class Journal(Protocol):
    """Reads what was written about one partition."""

    def load(self) -> Recovered:
        """Progress and cut. Only after the outlet is open: then no older writer can add to them."""

    def start_clock(self, clock_offset: int) -> list[tuple[int, ClockMark | None]]:
        """Everything in the clock partition from `clock_offset` to its end; later calls of the others go on there."""

    def new_marks(self) -> list[tuple[int, ClockMark | None]]:
        """What has arrived meanwhile, without waiting. None stands for a record that is no mark of this partition."""

    def marks_through(self, clock_offset: int) -> list[tuple[int, ClockMark | None]]:
        """Everything up to and including `clock_offset`, waiting for it."""

    def close(self) -> None:
        """Leave."""


Chunk = tuple[dict[int, bytes | None], int]
"""Profiles by user as consecutive records give them, and the offset after these."""


class Changelog(Protocol):
    """Reads the profiles that were written for one partition."""

    @property
    def identity(self) -> str:
        """Name of the topic that no other topic has ever had."""

    def read(self, start: int, end: int) -> Iterator[Chunk]:
        """All committed records with start <= offset < end, in order."""

    def close(self) -> None:
        """Leave."""
