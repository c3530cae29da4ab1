"""What the trainer needs from outside, as protocols: `infra` passes the real ones in, tests their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trainer.checkpoint.manifest import Progress
    from trainer.summary import Summary


class Clock(Protocol):
    """Wall clock and monotonic clock. The trainer never reads the machine's own."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that never run backwards; only differences mean anything."""

    def sleep(self, ms: int) -> None:
        """Block this thread."""


class Watcher(Protocol):
    """Who looks on: a terminal, a program, other processes. Calls must be quick and must not fail."""

    def see(self, summary: Callable[[], Summary]) -> None:
        """Called between steps, often; makes the summary only when it wants to show it."""

    def saved(self, progress: Progress) -> None:
        """A checkpoint is complete: what other processes may rely on."""


class Nobody:
    """A Watcher that looks at nothing."""

    def see(self, summary: Callable[[], Summary]) -> None:
        pass

    def saved(self, progress: Progress) -> None:
        pass
