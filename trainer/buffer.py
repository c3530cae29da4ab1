"""Decoded mini-batches that wait, bounded in bytes and in number, one queue a partition.

Owns the queues, their bounds and the handing over between the reader's thread and the one that composes steps.
The bound is shared evenly by the partitions, and each is full by itself: the partition that a recorded step needs
next can therefore always be read, however far another one is ahead. Never reads Kafka and never orders partitions.

A reader that dies leaves its error here; whoever waits for a mini-batch gets that error instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import Protocol

from trainer.intake import Item


@dataclass(slots=True)
class _Queue:
    items: deque[tuple[Item, int]] = field(default_factory=deque)
    """Items with the moment each came in."""
    num_bytes: int = 0
    ended: bool = False


class Waits(Protocol):
    """A mini-batch that waits, in this process or in another rank's: what decides when its turn comes."""

    @property
    def partition(self) -> int: ...

    @property
    def sequence(self) -> int: ...

    @property
    def watermark_ms(self) -> int: ...

    @property
    def samples(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The next mini-batch of a partition."""

    item: Waits
    since_ms: int
    """When it came in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What waits, at one moment."""

    heads: dict[int, Head]
    """Partitions that have a mini-batch waiting."""
    silent: bool
    """Whether every partition without one has ended: nothing smaller can come."""
    full: bool
    """Whether some partition is at its bound and its reader pauses."""

    @property
    def finished(self) -> bool:
        """Whether nothing waits and nothing can come before a new epoch begins."""
        return self.silent and not self.heads


class Buffer:
    """The queues. Every method may be called from any thread."""

    def __init__(self, partitions: Sequence[int], max_bytes: int, max_batches: int, now_ms: Callable[[], int]) -> None:
        self._queues = {partition: _Queue() for partition in partitions}
        self._max_bytes = max(1, max_bytes // max(1, len(partitions)))
        self._max_batches = max(1, max_batches // max(1, len(partitions)))
        self._now_ms = now_ms
        self._changed = Condition()
        self._error: BaseException | None = None
        self._closed = False

    def put(self, item: Item) -> None:
        """Add to its partition. The reader asks `is_full` first; one fetched call may go over the bound."""
        with self._changed:
            queue = self._queues[item.partition]
            queue.items.append((item, self._now_ms()))
            queue.num_bytes += item.num_bytes
            queue.ended = False
            self._changed.notify_all()

    def end(self, partition: int) -> None:
        """The partition has delivered its end and nothing follows it yet."""
        with self._changed:
            self._queues[partition].ended = True
            self._changed.notify_all()

    def is_full(self, partition: int) -> bool:
        """Whether the partition must pause."""
        with self._changed:
            return self._over(self._queues[partition])

    def is_low(self, partition: int) -> bool:
        """Whether a paused partition may go on: at half its bound, so that it does not flutter."""
        with self._changed:
            queue = self._queues[partition]
            return 2 * queue.num_bytes <= self._max_bytes and 2 * len(queue.items) <= self._max_batches

    def fail(self, error: BaseException) -> None:
        """The reader died of this; it surfaces in `view`."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody takes any more; wakes whoever waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def view(self, wait_ms: int, seen: View | None = None) -> View:
        """What waits now; where that would equal `seen`, wait for a change. Raises the reader's error."""
        with self._changed:
            now = self._look()
            if seen is not None and _same(now, seen):
                self._changed.wait(wait_ms / 1000)
                now = self._look()
            return now

    def queues(self) -> dict[int, tuple[list[tuple[Item, int]], bool]]:
        """Partition to what waits there, with the moment each came in, and whether its end came after that."""
        with self._changed:
            if self._error is not None:
                raise self._error
            return {partition: (list(queue.items), queue.ended) for partition, queue in self._queues.items()}

    def take(self, partition: int) -> Item:
        """Remove the head of a partition."""
        with self._changed:
            queue = self._queues[partition]
            item, _ = queue.items.popleft()
            queue.num_bytes -= item.num_bytes
            self._changed.notify_all()
            return item

    @property
    def num_batches(self) -> int:
        """Mini-batches that wait."""
        with self._changed:
            return sum(len(queue.items) for queue in self._queues.values())

    @property
    def num_bytes(self) -> int:
        """Bytes that wait."""
        with self._changed:
            return sum(queue.num_bytes for queue in self._queues.values())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def _look(self) -> View:
        if self._error is not None:
            raise self._error
        return View(
            heads={
                partition: Head(item=queue.items[0][0], since_ms=queue.items[0][1])
                for partition, queue in self._queues.items()
                if queue.items
            },
            silent=all(queue.items or queue.ended for queue in self._queues.values()),
            full=any(self._over(queue) for queue in self._queues.values()),
        )

    def _over(self, queue: _Queue) -> bool:
        return queue.num_bytes >= self._max_bytes or len(queue.items) >= self._max_batches


def _same(one: View, other: View) -> bool:
    return one.heads.keys() == other.heads.keys() and one.silent == other.silent and one.full == other.full
