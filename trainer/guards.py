"""When skipped steps are no longer bad luck.

Owns the count of steps in a row that could not be learned. Never reads the device: verdicts come to it.
"""

from __future__ import annotations

from streams.errors import InvariantError
from trainer.step import Verdict


class SkipGuard:
    """Stops the trainer when too many steps in a row were not finite."""

    def __init__(self, max_in_a_row: int) -> None:
        self._max_in_a_row = max_in_a_row
        self._in_a_row = 0
        self.skipped = dict.fromkeys((Verdict.NOT_FINITE, Verdict.NO_WEIGHT, Verdict.PAUSED), 0)
        """Steps since the start of this process that changed nothing, by reason."""

    def note(self, verdict: Verdict) -> None:
        """Count one step. One without labels, or that was paused, says nothing of the model: no count, no reset."""
        if verdict is Verdict.LEARNED:
            self._in_a_row = 0
            return
        self.skipped[verdict] += 1
        if verdict is not Verdict.NOT_FINITE:
            return
        self._in_a_row += 1
        if self._in_a_row > self._max_in_a_row:
            raise InvariantError(
                f"{self._in_a_row} steps in a row were not finite, train.max_skipped_steps is {self._max_in_a_row}. "
                "Look at the dense columns of the last batches; if they are fine, the model itself is broken: go "
                "back to an earlier checkpoint"
            )
