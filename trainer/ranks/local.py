"""A rank's own mini-batches: what it tells rank 0 of them, and the part of each step that is made of them.

Used by the composer's thread of every rank, the leader's included. What goes wrong here is told in the next report, so
that rank 0 ends all ranks with the words of the one that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from streams.minibatch import MiniBatch
from streams.stage import Stage
from trainer.buffer import Buffer
from trainer.drain import Drain
from trainer.intake import Item
from trainer.ledger import Entry
from trainer.ranks.messages import Queued, Report, Share, Waiting, words_of
from trainer.ranks.part import Mine, share_of
from trainer.ranks.place import Place
from trainer.tensors import StepBatch


class Reading(Protocol):
    """What fills the buffer of a rank."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def commit(self, next_offsets: dict[int, int]) -> None:
        """Everything before these offsets is in a checkpoint; those of other ranks' partitions are passed over."""

    @property
    def duplicates(self) -> int: ...

    @property
    def commit_failures(self) -> int: ...


class Local:
    """One rank's side of composing steps."""

    def __init__(
        self,
        place: Place,
        reading: Reading,
        buffer: Buffer,
        to_tensors: Callable[[Sequence[MiniBatch]], StepBatch],
        step_samples: int,
        now_ms: Callable[[], int],
        drain: Drain,
    ) -> None:
        self._place = place
        self._reading = reading
        self._buffer = buffer
        self._to_tensors = to_tensors
        self._step_samples = step_samples
        self._now_ms = now_ms
        self._drain = drain
        self._items: list[Item] = []
        self._share: Share | None = None
        self.error: Exception | None = None

    def report(self) -> Report:
        """What waits, and what has become of the last step's part. Tells what went wrong instead of raising it."""
        share, self._share = self._share, None
        if self.error is None:
            try:
                return Report(
                    queues=self._queues(),
                    full=self._buffer.view(0).full,
                    share=share,
                    duplicates=self._reading.duplicates,
                    commit_failures=self._reading.commit_failures,
                    drain=self._drain.reason,
                )
            except Exception as error:  # noqa: BLE001  (rank 0 says it for all)
                self.error = error
        return Report(error=words_of(self.error))

    def take(self, entries: Sequence[Entry]) -> None:
        """Those of these mini-batches that are this rank's join its part of the step."""
        for entry in entries:
            if self._place.owns(entry.partition):
                item = self._buffer.take(entry.partition)
                assert item.entry() == entry, "only this thread takes from the buffer"
                self._items.append(item)

    def close(self) -> Mine:
        """The part, whose share is in the next report."""
        batches, self._items = [item.batch for item in self._items], []
        if not batches:
            self._share = share_of(None, np.empty(0, np.int64), 0)
            return Mine(None, ())
        try:
            tensors = self._to_tensors(batches)
        except Exception as error:  # noqa: BLE001  (the same)
            self.error = error
            return Mine(None, ())
        stage = np.concatenate([batch.stages for batch in batches])
        appended_ms = np.concatenate([batch.lineage.appended_ms for batch in batches])
        is_correction = stage == Stage.CORRECTION
        self._share = share_of(tensors, appended_ms[~is_correction], int(np.count_nonzero(is_correction)))
        return Mine(tensors, tuple(batches))

    def _queues(self) -> tuple[Queued, ...]:
        now_ms = self._now_ms()
        return tuple(
            self._queued(partition, items, now_ms, ended=ended)
            for partition, (items, ended) in self._buffer.queues().items()
        )

    def _queued(self, partition: int, items: Sequence[tuple[Item, int]], now_ms: int, *, ended: bool) -> Queued:
        """The next mini-batches, up to the first that no longer fits into a step."""
        waiting: list[Waiting] = []
        samples = 0
        for item, since_ms in items:
            if samples > self._step_samples:
                return Queued(partition, tuple(waiting), ended=False)
            waiting.append(
                Waiting(item.entry(), item.watermark_ms, item.batch.num_sessions, item.num_bytes, now_ms - since_ms)
            )
            samples += item.samples
        return Queued(partition, tuple(waiting), ended=ended)
