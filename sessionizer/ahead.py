"""How many bytes of mini-batches of a partition the trainer has not in a checkpoint yet.

Owns the arithmetic of back-pressure. Pure: offsets and sizes come in, whether output must wait comes out.

What was emitted before this worker took the partition is counted from the log, in pieces: never further than the
bound, since more would not change the answer. What we emit ourselves is counted as it is sent. A trainer that goes back
to an older checkpoint is not noticed: what it had was taken off for good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

Size = tuple[int, int]
"""Offset of a mini-batch and its bytes."""


class Ahead:
    """The count of one partition of the mini-batch topic."""

    def __init__(self, max_bytes: int, start: int, end: int) -> None:
        """Records with `start` <= offset < `end` were there before and are not counted yet."""
        self._max_bytes = max_bytes
        self._start = start
        self._end = end
        self._before: deque[Size] = deque()
        self._ours: deque[Size] = deque()
        self._on_the_way = 0
        self._arrived = 0

    @property
    def num_bytes(self) -> int:
        """Bytes that are known to wait for the trainer."""
        return self._arrived + self._on_the_way

    @property
    def uncounted(self) -> tuple[int, int] | None:
        """The offsets (first, after the last) that have to be counted next; None if that would change nothing."""
        if not self.has_uncounted or self.num_bytes >= self._max_bytes:
            return None
        return self._start, self._end

    @property
    def has_uncounted(self) -> bool:
        """Whether more may wait than is known."""
        return self._start < self._end

    @property
    def is_full(self) -> bool:
        """Whether output must wait: the bound is reached, or may be."""
        return self.num_bytes >= self._max_bytes or self.has_uncounted

    def count(self, sizes: Iterable[Size], next_offset: int) -> None:
        """Mini-batches that were there before, in order: all that there are below `next_offset`."""
        for offset, num_bytes in sizes:
            self._before.append((offset, num_bytes))
            self._arrived += num_bytes
        self._start = max(self._start, next_offset)

    def sent(self, num_bytes: int) -> None:
        """We have emitted a mini-batch."""
        self._on_the_way += num_bytes

    def arrived(self, offset: int, num_bytes: int) -> None:
        """One that we had sent is in the log."""
        self._on_the_way -= num_bytes
        self._ours.append((offset, num_bytes))
        self._arrived += num_bytes

    def trained(self, next_offset: int) -> None:
        """The trainer has everything below in a checkpoint."""
        self._start = max(self._start, next_offset)
        for sizes in (self._before, self._ours):
            while sizes and sizes[0][0] < next_offset:
                self._arrived -= sizes.popleft()[1]
