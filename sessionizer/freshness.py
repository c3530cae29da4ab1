"""How long what may leave a partition has waited for its mini-batch to fill.

Owns when it began to wait, and whether that is too long. Never reads a clock, and writes no mark: the partition does.
"""

from __future__ import annotations


class Freshness:
    """The wait of one partition, `fresh_ms` of the wall clock at most; 0: for as long as it takes."""

    def __init__(self, fresh_ms: int, now_ms: int) -> None:
        self._fresh_ms = fresh_ms
        self._ready_ms, self._ready_since = now_ms, -1

    def is_over(self, num_ready: int, ready_since: int, now_ms: int) -> bool:
        """Whether what is ready now has waited long enough; if so, the next wait begins.

        `num_ready`, `ready_since`: as the core tells them. Asked again and again: it begins to wait when it is seen.
        """
        if not num_ready or ready_since != self._ready_since:
            self._ready_ms, self._ready_since = now_ms, ready_since
            return False
        over = self._fresh_ms > 0 and now_ms - self._ready_ms >= self._fresh_ms
        if over:
            self._ready_ms = now_ms
        return over

    def pause(self, shut_ms: int) -> None:
        """What waits is not late by the time in which it could not leave."""
        self._ready_ms += shut_ms
