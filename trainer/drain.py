"""The wish to stop: set by a signal, read by the loop between steps. Installs the handlers; never stops anything.

First SIGTERM or SIGINT: finish the step, save, commit, leave (exit code 0, or 130 for SIGINT). A second one, or the
deadline: leave at once with 130 or 1, saving nothing; the last checkpoint and the ledger are enough to go on from.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Event, Timer
from types import FrameType
from typing import Final, Literal

Reason = Literal["end", "max_steps", "sigterm", "sigint"]

EXIT_CODES: Final[dict[Reason, int]] = {"end": 0, "max_steps": 0, "sigterm": 0, "sigint": 130}
_AT_ONCE: Final = 130
_TOO_LATE: Final = 1


class Drain:
    """One process's wish to stop."""

    def __init__(self, deadline_ms: int) -> None:
        self._deadline_ms = deadline_ms
        self._wish = Event()
        self.reason: Reason | None = None

    def request(self, reason: Reason) -> None:
        """Ask the loop to stop after its step."""
        self.reason = self.reason or reason
        self._wish.set()

    def listen(self) -> None:
        """Turn SIGTERM and SIGINT into requests. Call it from the main thread."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._wish.is_set():
            os._exit(_AT_ONCE)
        self.request("sigint" if number == signal.SIGINT else "sigterm")
        watch = Timer(self._deadline_ms / 1000, self._too_late)
        watch.daemon = True
        watch.start()

    def _too_late(self) -> None:
        sys.stderr.write(f"the trainer did not stop within {self._deadline_ms} ms; it leaves without saving\n")
        sys.stderr.flush()
        os._exit(_TOO_LATE)
