"""Erasures: at which moment of event time a tombstone takes effect where there are two inputs.

Owns the users that are to be erased. A tombstone stands in the interactions, and acts when the task has reached the
watermark that the interactions had there: everything before it has been judged, nothing after it has. That is a
function of that partition alone, so it does not matter how far the outcomes had been read. Outcomes have no place in
that order, only times: those of an erased user up to the latest event seen before the tombstone are dropped too, since
they may have been behind it.

With one input the task is always there already: a tombstone acts at once.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from sessionizer.arrivals import MAX_MS
from sessionizer.cut import Arrays

I64 = npt.NDArray[np.int64]

_ERASURE: Final = np.dtype([("at_ms", "i8"), ("through_ms", "i8"), ("user", "i8")])


class Erasures:
    """What is still to be erased, in order."""

    def __init__(self) -> None:
        self._due = np.zeros(0, _ERASURE)
        self._passed = np.zeros(0, _ERASURE)
        """Performed, but outcomes that belong to them may still come."""

    def add(self, users: I64, at_ms: int, through_ms: int) -> None:
        """Erase users when the task reaches `at_ms`, never smaller than before, with outcomes up to `through_ms`."""
        more = np.zeros(len(users), _ERASURE)
        more["at_ms"], more["through_ms"], more["user"] = at_ms, through_ms, users
        self._due = np.concatenate([self._due, more])

    @property
    def users(self) -> I64:
        """Users that are still to be erased."""
        return np.unique(self._due["user"])

    def next_ms(self, reached_ms: int) -> int | None:
        """When the next one acts, if the task has reached it."""
        return int(self._due[0]["at_ms"]) if len(self._due) and self._due[0]["at_ms"] <= reached_ms else None

    def take(self, at_ms: int) -> I64:
        """Users to be erased at this moment, each once."""
        num = int(np.searchsorted(self._due["at_ms"], at_ms, side="right"))
        acting, self._due = self._due[:num], self._due[num:]
        self._passed = np.concatenate([self._passed, acting])
        return np.unique(acting["user"])

    def hits(self, rows: npt.NDArray[np.int32], keys: npt.NDArray[np.void], reached_ms: int) -> npt.NDArray[np.bool_]:
        """[R], which released outcomes of the outcomes' topic belong to an erasure that has been performed."""
        hit = np.zeros(len(rows), np.bool_)
        if not len(self._passed):
            return hit
        order = np.lexsort((self._passed["through_ms"], self._passed["user"]))
        passed = self._passed[order]
        last = np.searchsorted(passed["user"], keys["user"][rows], side="right") - 1
        there = last >= 0
        found = passed[last[there]]
        hit[there] = (found["user"] == keys["user"][rows[there]]) & (found["through_ms"] >= keys["time"][rows[there]])
        self._passed = passed[passed["through_ms"] >= reached_ms] if reached_ms < MAX_MS else passed[:0]
        return hit

    def arrays(self) -> Arrays:
        """State for a cut."""
        return {"due": self._due, "passed": self._passed}

    def restore(self, arrays: Arrays) -> None:
        """State from a cut; nothing where the cut knows of none."""
        self._due = arrays.get("due", self._due)
        self._passed = arrays.get("passed", self._passed)
