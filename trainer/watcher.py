"""Who looks on while the trainer works, as a protocol; what they do is not the trainer's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from trainer.checkpoint.manifest import Progress
from trainer.summary import Summary


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
