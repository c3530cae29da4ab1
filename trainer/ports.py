"""What the trainer needs from the machine, as a protocol: `infra` passes the real one in, tests their own."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall clock and monotonic clock. The trainer never reads the machine's own."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that never run backwards; only differences mean anything."""

    def sleep(self, ms: int) -> None:
        """Block this thread."""
