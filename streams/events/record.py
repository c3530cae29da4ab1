"""What a decoder is given and what it gives back: records, rejected records, decoded polls.

Owns their shapes, so that readers of a decoder's result need not import the decoder. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, overload

from streams.errors import Reason
from streams.events.event import I64, EventBatch

APPENDED_HEADER: Final = "recd-appended-ms"
"""Wall clock of the producer when it appended the record: decimal text. Freshness is measured from here."""


def appended_ms(headers: Iterable[tuple[str, str | bytes | None]] | None) -> int:
    """The value of that header; -1 where it is missing or not a time."""
    for name, value in headers or ():
        if name == APPENDED_HEADER:
            try:
                parsed = int(value or b"")
            except ValueError:
                return -1
            return parsed if 0 <= parsed < 1 << 62 else -1
    return -1


class Message(Protocol):
    """What the messages of one partition differ in, spelled as aiokafka does."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """Milliseconds; -1 where the producer gave none."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class Record(Message, Protocol):
    """A message and where it is from."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Located:
    """A record that is made where no client has made one: of a message and its place, or of a row of one."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class Records(Protocol):
    """Consecutive messages of one partition, in offset order: a list of records, or something quicker to make.

    What is asked of all of them is asked of messages; only the few that are named one by one are whole records.
    """

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Message]: ...
    @overload
    def __getitem__(self, place: int, /) -> Record: ...
    @overload
    def __getitem__(self, places: slice, /) -> Records: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A record that can never be used; it goes to the dead-letter topic."""

    partition: int
    offset: int
    reason: Reason
    detail: str
    """What exactly is wrong, for a person. Holds at most a shortened piece of the value."""
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """What became of consecutive records of one partition: each event of theirs is accepted or rejected."""

    events: EventBatch
    """The accepted ones, in offset order."""
    rejected: list[Rejected]
    """The others, in offset order. A message of many events that cannot be parsed counts as one."""
    next_offset: int
    """Offset after the last record."""
    future: I64
    """Offsets of accepted events that lie too far after the caller's `now_ms` and do not say when they were
    appended. A verdict of the wall clock: it takes effect only through a clock mark."""
    future_ms: I64
    """Their event times."""
    origin: Callable[[int, int], Record]
    """The record of an accepted event, by its offset and event id: of a message of many events that one alone."""
