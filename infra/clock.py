"""The one place that reads the machine's clock.

Owns: wall time, monotonic time and sleeping, all in integer milliseconds, and the deadline built on them.
Never: event time. What a clock decides about events is first written to the log as a mark.
"""

from __future__ import annotations

import time
from dataclasses import dataclass


class Clock:
    """The machine's clock. Passed in wherever time is needed; a test passes a subclass of its own."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds that never run backwards; only differences mean anything."""
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, for measuring short work."""
        return time.monotonic_ns()

    def process_ns(self) -> int:
        """CPU time of this process, all threads, in nanoseconds: what a benchmark on a shared machine can trust."""
        return time.process_time_ns()

    def sleep(self, ms: int) -> None:
        """Block this thread for `ms` milliseconds."""
        time.sleep(ms / 1000)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock by which something must be done; passed down, never recomputed."""

    clock: Clock
    at_ms: int

    @classmethod
    def after(cls, clock: Clock, ms: int) -> Deadline:
        """The deadline `ms` milliseconds from now."""
        return cls(clock, clock.monotonic_ms() + ms)

    def left_ms(self) -> int:
        """What is left, never below zero."""
        return max(0, self.at_ms - self.clock.monotonic_ms())

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
        return self.left_ms() == 0
