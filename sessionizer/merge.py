"""Merge: released rows of both inputs of a task → one sequence in event-time order.

Owns an `Arrivals` for each input, so that lateness, duplicates and caps of one never depend on the other, and the rows
that their own input has released while the other one is behind. The only minimum there is: a row leaves when the
smaller of the two watermarks has passed it. So what leaves, and in which order, does not depend on how the inputs were
interleaved. With one input everything leaves as it is released.

Order: (event time, event id), at a tie the interactions first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sessionizer.arrivals import MAX_MS, Admitted, Arrivals
from sessionizer.config import SessionConfig
from sessionizer.cut import Arrays, prefixed, under
from streams.events.event import EventBatch
from streams.inputs import Input

I32 = npt.NDArray[np.int32]


class Merge:
    """Live state of the inputs of one partition."""

    def __init__(self, config: SessionConfig, *, with_outcomes: bool) -> None:
        self.arrivals = tuple(Arrivals(config) for _ in range(1 + with_outcomes))
        self._queues = [np.zeros(0, np.int32) for _ in self.arrivals]
        """Rows by input, each in order."""

    @property
    def watermark_ms(self) -> int:
        """Event time up to which (exclusive) the whole task is complete."""
        return min(one.watermark_ms for one in self.arrivals)

    def num_early(self, source: Input) -> int:
        """Rows of one input that wait for the other one only."""
        return len(self._queues[source])

    def admit(self, source: Input, events: EventBatch, names: I32) -> Admitted:
        """Judge events of one input under reserved names; what its own watermark releases waits for `take`."""
        columns = (events.event_time_ms, events.event_id, events.content_hash)
        admitted = self.arrivals[source].admit(*columns, names)
        self._push(source, admitted.released)
        return admitted

    def advance(self, source: Input, to_ms: int) -> None:
        """Raise the watermark of one input, if that is an advance."""
        self._push(source, self.arrivals[source].advance(to_ms))

    def end_epoch(self) -> None:
        """Everything is released; `take` up to MAX_MS gives it."""
        for source, one in enumerate(self.arrivals):
            self._push(Input(source), one.end_epoch())

    def take(self, before_ms: int, keys: npt.NDArray[np.void]) -> tuple[I32, I32]:
        """Released rows with a time < `before_ms`, in order, and those of them that came with the outcomes."""
        if len(self._queues) == 1 and before_ms >= self.watermark_ms:
            taken, self._queues[0] = self._queues[0], self._queues[0][:0]
            return taken, taken[:0]
        parts = []
        for source, queue in enumerate(self._queues):
            num = len(queue) if before_ms == MAX_MS else int(np.searchsorted(keys["time"][queue], before_ms))
            parts.append(queue[:num])
            self._queues[source] = queue[num:]
        rows = np.concatenate(parts)
        # A stable sort: of a tie the interactions stay first.
        return rows[np.lexsort((keys["id"][rows], keys["time"][rows]))], parts[-1] if len(parts) > 1 else rows[:0]

    def _push(self, source: Input, released: I32) -> None:
        queue = self._queues[source]
        self._queues[source] = np.concatenate([queue, released]) if len(queue) else released

    def arrays(self) -> Arrays:
        """State for a cut."""
        if len(self.arrivals) == 1:
            # What it releases never waits here: there is nothing but the arrivals.
            return prefixed("arrivals", self.arrivals[0].arrays())
        found: Arrays = {}
        for one, queue, name in zip(self.arrivals, self._queues, ("arrivals", "outcomes"), strict=True):
            found |= prefixed(name, one.arrays() | {"queue": queue})
        return found

    def restore(self, arrays: Arrays) -> None:
        """State from a cut; an input that is not in it starts empty."""
        for source, (one, name) in enumerate(zip(self.arrivals, ("arrivals", "outcomes"), strict=False)):
            found = under(name, arrays)
            if found:
                one.restore(found)
                self._queues[source] = found.get("queue", self._queues[source])
