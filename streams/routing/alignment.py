"""In which order the records of several partitions are written: by event time, as far as it is known.

Owns one rule. A partition's *reached* time at a record is the latest event time up to it, so it never falls. Records
are written by (reached, partition, offset), and one is written only when no partition can still bring a smaller one:
each has shown that it has reached as much, or is read to its end. So whatever the partitions lag behind each other, a
record is not later than it already was in its own partition: routing adds no lateness to records that were there when
they were read. A partition that is read to its end holds nobody: what it brings afterwards is as late as it comes.

As long as the ends do not move, the order is a function of the records alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from streams.events.event import I64

NO_TIME: Final = -(1 << 63)
"""Event time of a record that says none: it counts as the latest before it."""


@dataclass(slots=True)
class _Lane:
    """One partition."""

    waiting: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    """What has been reached at each record that waits, ascending."""
    reached: int = NO_TIME
    """… at the last record so far."""
    ended: bool = False


class Alignment:
    """What waits, by partition. Holds times, never records: the caller keeps those in the same order."""

    def __init__(self, partitions: Iterable[int]) -> None:
        self._lanes = {partition: _Lane() for partition in sorted(partitions)}

    def add(self, partition: int, times_ms: I64) -> None:
        """The next records of a partition, by their event times or `NO_TIME`; it is not at its end."""
        lane = self._lanes[partition]
        if len(times_ms):
            reached = np.maximum(np.maximum.accumulate(times_ms), lane.reached)
            lane.waiting, lane.reached = np.concatenate([lane.waiting, reached]), int(reached[-1])
            lane.ended = False

    def end(self, partition: int) -> None:
        """All there is of a partition has been added."""
        self._lanes[partition].ended = True

    def waiting(self, partition: int) -> int:
        """How many of its records wait."""
        return len(self._lanes[partition].waiting)

    def release(self) -> list[tuple[int, int]]:
        """What may be written now, in order: so many records of that partition, then so many of that one."""
        open_lanes = [(lane.reached, partition) for partition, lane in self._lanes.items() if not lane.ended]
        limit = min(open_lanes, default=None)
        times, counts = [], []
        for partition, lane in self._lanes.items():
            count = len(lane.waiting)
            if limit is not None:
                # At the limit itself partitions come in order: later ones wait for the one that sets it.
                side = "right" if partition <= limit[1] else "left"
                count = int(np.searchsorted(lane.waiting, limit[0], side))  # type: ignore[call-overload]  # a str
            times.append(lane.waiting[:count])
            counts.append(count)
            lane.waiting = lane.waiting[count:]
        if not sum(counts):
            return []
        owners = np.repeat(np.array(list(self._lanes)), counts)[np.argsort(np.concatenate(times), kind="stable")]
        starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
        lengths = np.diff(np.append(starts, len(owners)))
        return list(zip(owners[starts].tolist(), lengths.tolist(), strict=True))
