"""Messages in the order of their times, whatever order files hold them in, in bounded memory.

Owns the sort: stable, so messages of one time keep the order in which they came. What does not fit into memory
is written out as sorted runs to a temporary file each and merged while it is read back.

A run is a sequence of records: time (int64), message's place (int64), lengths of source, key and value (3 x
int32), little endian, then the three.
"""

from __future__ import annotations

import heapq
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from operator import attrgetter
from typing import IO, Final, NamedTuple, Self

from streams.events.outgoing import Outgoing

MEMORY_BYTES: Final = 256 * 1024 * 1024
"""What is held in memory before a run is written out."""
_OVERHEAD_BYTES: Final = 300
"""About what Python adds to the bytes of one message."""
_HEAD: Final = struct.Struct("<qqiii")


class Placed(NamedTuple):
    """A message and where it came from. Sorts by time, then by place."""

    event_time_ms: int
    place: int
    """0, 1, 2… over all files."""
    source: bytes
    """File and line, as the caller spells it."""
    key: bytes
    value: bytes


_ORDER: Final = attrgetter("event_time_ms", "place")


class InOrder:
    """Takes messages in any order, gives them back in the order of their times. A context manager."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._files = ExitStack()
        self._runs: list[IO[bytes]] = []
        self._held: list[Placed] = []
        self._held_bytes = 0
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._files.close()

    def __len__(self) -> int:
        return self._count

    def add(self, message: Outgoing, source: bytes) -> None:
        """One more message."""
        self._held.append(Placed(message.event_time_ms, self._count, source, message.key, message.value))
        self._count += 1
        self._held_bytes += len(source) + len(message.key) + len(message.value) + _OVERHEAD_BYTES
        if self._held_bytes > self._memory_bytes:
            self._write_run()

    def __iter__(self) -> Iterator[Placed]:
        self._held.sort(key=_ORDER)
        runs: list[Iterable[Placed]] = [_read_run(file) for file in self._runs]
        return heapq.merge(*runs, self._held, key=_ORDER) if runs else iter(self._held)

    def _write_run(self) -> None:
        self._held.sort(key=_ORDER)
        # Closed, and so deleted, by `__exit__`.
        file = tempfile.TemporaryFile(prefix="recd-ingest-")  # noqa: SIM115  (it lives as long as this object)
        self._files.enter_context(file)
        for time, place, source, key, value in self._held:
            file.write(_HEAD.pack(time, place, len(source), len(key), len(value)) + source + key + value)
        self._runs.append(file)
        self._held.clear()
        self._held_bytes = 0


def _read_run(file: IO[bytes]) -> Iterator[Placed]:
    file.seek(0)
    while head := file.read(_HEAD.size):
        time, place, *lengths = _HEAD.unpack(head)
        yield Placed(time, place, *[file.read(length) for length in lengths])
