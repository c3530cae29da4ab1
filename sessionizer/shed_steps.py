"""How large a share of the sessions is shed: the controller behind `worker.when_ahead = "shed"`.

Pure: bytes and the time come in, the share that should be in force comes out. It is written down as a clock mark before
it acts, so nothing here is ever asked again about the past.

The rules:
1. While as much as `high_bytes` waits for the trainer, the share rises by an eighth at a time, to seven eighths.
2. While less than half of that waits, it falls by an eighth at a time, to nothing.
3. In between it stays, so that it does not go up and down with every checkpoint.
4. Two changes are at least `step_ms` apart; the first one need not wait.
"""

from __future__ import annotations

from typing import Final

from streams.clock_mark import WHOLE

STEP: Final = WHOLE // 8
MOST: Final = WHOLE - STEP
"""Some is always emitted: a model that hears nothing at all goes stale, and nobody sees that the trainer is back."""
_LOW: Final = 2
"""The share falls below `high_bytes` divided by this."""


class ShedSteps:
    """The share of one partition, in parts of `WHOLE`."""

    def __init__(self, high_bytes: int, step_ms: int) -> None:
        self._high_bytes = high_bytes
        self._step_ms = step_ms
        self._changed_ms: int | None = None

    def share(self, now_share: int, ahead_bytes: int, now_ms: int) -> int:
        """The share to go on with, where `now_share` is in force and `ahead_bytes` wait; called again and again."""
        if self._changed_ms is not None and now_ms - self._changed_ms < self._step_ms:
            return now_share
        share = now_share
        if ahead_bytes >= self._high_bytes:
            share = max(now_share, min(now_share + STEP, MOST))
        elif _LOW * ahead_bytes < self._high_bytes:
            share = max(now_share - STEP, 0)
        if share != now_share:
            self._changed_ms = now_ms
        return share
