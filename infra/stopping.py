"""Leaving when told to: the first SIGINT or SIGTERM is a request, the second one ends the process at once.

Owns the handlers of both while a command runs. Never ends anything itself.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopping:
    """Whether somebody asked to leave, and how."""

    def __init__(self) -> None:
        self.by: signal.Signals | None = None
        """The signal that came first."""

    def asked(self) -> bool:
        """Whether one came."""
        return self.by is not None


@contextmanager
def stopping() -> Iterator[Stopping]:
    """Listen to both signals while the block runs."""
    told = Stopping()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, _frame: FrameType | None) -> None:
        told.by = signal.Signals(number)
        for each in before:
            signal.signal(each, signal.SIG_DFL)

    for number in before:
        signal.signal(number, handle)
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
