"""Which mini-batches the next step trains on: the recorded order first, then a merge. Pure but for its state.

Live order is the merge of the partitions by (batch watermark, partition, sequence). It is deterministic as long as
every partition has a mini-batch waiting or has ended; a silent partition holds the others back for `wait_ms`, or
until a bound is reached. Whatever was chosen is in the ledger, so a restored trainer repeats it without waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from streams.errors import InvariantError
from trainer.buffer import Head, View
from trainer.ledger import Entry, Line


class Order:
    """Chooses partitions one head at a time; composes steps of whole mini-batches."""

    def __init__(self, recorded: Iterable[Line], step_samples: int, wait_ms: int) -> None:
        self._recorded: deque[tuple[int, deque[Entry]]] = deque((line.step, deque(line.batches)) for line in recorded)
        self._step_samples = step_samples
        self._wait_ms = wait_ms
        self._samples = 0

    @property
    def repeats(self) -> bool:
        """Whether the next step is one that the ledger holds already."""
        return bool(self._recorded)

    def next_partition(self, view: View, now_ms: int) -> int | None:
        """Partition whose head belongs to this step; None: the step is complete, or nothing may be taken yet."""
        if self._recorded:
            return self._recorded_partition(view)
        if not view.heads:
            return None
        chosen = min(view.heads.values(), key=_merge_key)
        if self._samples and self._samples + chosen.item.samples > self._step_samples:
            return None
        # Only what is ready joins a step that has begun; the first one waits for its turn in the merge.
        waited = now_ms - min(head.since_ms for head in view.heads.values()) >= self._wait_ms
        if not (view.silent or view.full or waited):
            return None
        return chosen.item.partition

    def took(self, entry: Entry) -> None:
        """The head was taken into the step."""
        self._samples += entry.samples
        if not self._recorded:
            return
        step, left = self._recorded[0]
        due = left.popleft()
        if due != entry:
            raise InvariantError(
                f"step {step} trained {due}, but the topic now holds {entry} there; the mini-batch topic was "
                "rewritten: restore it, or begin a new lineage"
            )

    def must_wait(self) -> bool:
        """Whether a recorded step still lacks mini-batches: it is never trained without them."""
        return bool(self._recorded and self._recorded[0][1])

    def check_nothing_due(self) -> None:
        """Every partition has ended: InvariantError if the ledger still holds steps to repeat."""
        if self._recorded:
            raise InvariantError(
                "the ledger holds steps whose mini-batches are no longer in the topic; restore the topic, or begin a "
                "new lineage in its own checkpoint.directory"
            )

    def close_step(self) -> None:
        """The step is complete."""
        self._samples = 0
        if self._recorded:
            self._recorded.popleft()

    def _recorded_partition(self, view: View) -> int | None:
        left = self._recorded[0][1]
        return left[0].partition if left and left[0].partition in view.heads else None


def _merge_key(head: Head) -> tuple[int, int, int]:
    return head.item.watermark_ms, head.item.partition, head.item.sequence
