"""How long samples wait for their mini-batch to fill: the controller behind `batch.target_fresh_ms`.

Pure: measured delays come in, the wait comes out. It acts through clock marks, so nothing here is ever asked again
about the past.

A sample waits, then it is on its way: the *delay*, which nobody here can shorten. The wait is what the delay leaves of
the target. The rules:
1. The delay is taken to be the 38th smallest of the last 39: whatever the delays are like, as long as one is like the
   other, 19 of 20 that follow are no longer. Of fewer than 39 it is the largest.
2. The wait is the target without that delay; at least a tenth of the target, so that mini-batches do not become
   arbitrarily small where the delay leaves nothing.
3. The first delay of all does not count: it is that of a start, with connections to be made and a whole cut to be
   written. Until the second one the wait is that tenth: a mini-batch too small rather than a sample too late.

So one delay out of the ordinary changes nothing, once 39 are known; two shorten the wait for as long as 39 delays, and
no longer.
"""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW: Final = 39
"""Delays that are remembered: the fewest of which the largest need not count."""
_MET, _OF = 19, 20
"""So many of so many are to be within the target."""
_LEAST: Final = 10
"""The wait is at least the target divided by this."""


class Steering:
    """The wait of one partition, in milliseconds of the wall clock."""

    def __init__(self, target_ms: int) -> None:
        self.target_ms = target_ms
        self.least_ms = max(1, target_ms // _LEAST)
        self.wait_ms = self.least_ms
        """How long what may leave should wait now."""
        self.delay_ms: int | None = None
        """What 19 of 20 delays do not exceed; None before the second."""
        self._has_started = False
        self._delays: deque[int] = deque(maxlen=WINDOW)

    @property
    def is_missed(self) -> bool:
        """Whether the shortest wait is too long for the target."""
        return self.delay_ms is not None and self.delay_ms + self.least_ms > self.target_ms

    def learn(self, delay_ms: int) -> None:
        """What left has arrived, after so long. A clock that was set back counts as no delay."""
        if not self._has_started:
            self._has_started = True
            return
        self._delays.append(max(0, delay_ms))
        num = len(self._delays)
        # Of num + 1 delays alike, each is as likely as any other to be the last one.
        rank = min(num, -(-_MET * (num + 1) // _OF))
        self.delay_ms = sorted(self._delays)[rank - 1]
        self.wait_ms = max(self.least_ms, self.target_ms - self.delay_ms)
