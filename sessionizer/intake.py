"""Intake: events of a partition's inputs from their arrival until it is their turn.

Owns what is held back: rows that wait for a watermark, and erasures that wait for their moment. Never looks at
sessions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sessionizer.config import SessionConfig
from sessionizer.corrections import REMEMBERED
from sessionizer.cut import Arrays, prefixed, under
from sessionizer.erasures import Erasures
from sessionizer.merge import Merge
from sessionizer.rows import Rows
from streams.events.event import EventBatch
from streams.events.schema import EventKind
from streams.inputs import Input

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


class Intake:
    """What one partition has read but not yet worked on."""

    def __init__(self, config: SessionConfig, rows: Rows, *, with_outcomes: bool) -> None:
        self._rows = rows
        self.merge = Merge(config, with_outcomes=with_outcomes)
        self.erasures = Erasures()

    def rows_before(self, before_ms: int) -> npt.NDArray[np.int32]:
        """Rows whose turn it is, without outcomes of users that were erased after them."""
        rows, outcomes = self.merge.take(before_ms, self._rows.keys)
        erased = outcomes[self.erasures.hits(outcomes, self._rows.keys, before_ms)]
        if len(erased):
            rows = rows[~np.isin(rows, erased)]
            self._rows.free(erased)
        return rows

    def erase(self, users: I64) -> int:
        """Forget what has not been released of these users' interactions, and the rest when event time is there.

        Returns how many samples are forgotten now.
        """
        arrivals = self.merge.arrivals[Input.INTERACTIONS]
        waiting = arrivals.waiting_rows
        theirs = waiting[np.isin(self._rows.keys["user"][waiting], users)]
        arrivals.erase(self._rows.marked(theirs))
        self.erasures.add(users, arrivals.watermark_ms, arrivals.max_time_ms)
        return self.forget(theirs)

    def rows_of(self, users: I64, before_ms: int) -> I32:
        """Held rows of these users with a time < `before_ms`."""
        live = self._rows.live
        keys = self._rows.keys.take(live)
        return np.asarray(live[np.isin(keys["user"], users) & (keys["time"] < before_ms)])

    def forget(self, rows: I32) -> int:
        """Free rows; returns how many of them were samples that have not left."""
        keys = self._rows.keys[rows]
        samples = (keys["kind"] != EventKind.OUTCOME) & (keys["slot"] > REMEMBERED)
        self._rows.free(rows)
        return int(np.count_nonzero(samples))

    def arrays(self) -> Arrays:
        """State for a cut."""
        return self.merge.arrays() | prefixed("erasures", self.erasures.arrays())

    def restore(self, arrays: Arrays) -> None:
        """State from a cut."""
        self.merge.restore(arrays)
        self.erasures.restore(under("erasures", arrays))


def runs(flags: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """[start, end) of every run of true flags."""
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def stretch(events: EventBatch, start: int, end: int) -> EventBatch:
    """Events [start, end)."""
    return events if (start, end) == (0, len(events)) else events.take(np.arange(start, end))
