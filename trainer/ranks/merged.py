"""What waits on all ranks as one view, from which `order` chooses as in one process. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from trainer.buffer import Head, View
from trainer.ranks.messages import Report, Waiting


class Merged:
    """The reports of one round, less what has been taken from them."""

    def __init__(self, reports: Sequence[Report], now_ms: int) -> None:
        queues = [queue for report in reports for queue in report.queues]
        self._waiting = {queue.partition: deque(queue.waiting) for queue in queues}
        self._ended = {queue.partition: queue.ended for queue in queues}
        self._full = any(report.full for report in reports)
        self._now_ms = now_ms

    def view(self) -> View:
        """As a buffer of one process would show it; ages are by rank 0's clock."""
        heads = {
            partition: Head(item=waiting[0], since_ms=self._now_ms - waiting[0].waited_ms)
            for partition, waiting in self._waiting.items()
            if waiting
        }
        silent = all(waiting or self._ended[partition] for partition, waiting in self._waiting.items())
        return View(heads=heads, silent=silent, full=self._full)

    def take(self, partition: int) -> Waiting:
        """Remove the head of a partition."""
        return self._waiting[partition].popleft()
