"""Steps that are ready, between the thread that composes them and the loop: a bounded queue into which one may look.

Owns what an error of that thread becomes: it is raised in `next`. Composes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from queue import Empty, Full, Queue

import numpy as np
import numpy.typing as npt

from streams.minibatch import MiniBatch
from trainer.ledger import Entry
from trainer.tensors import StepBatch


class Nothing(Enum):
    """Why there is no step."""

    YET = "yet"
    """None is ready; one may come."""
    MORE = "more"
    """Every partition has ended, and everything before the ends has been handed out."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Prepared:
    """One step, ready to train."""

    entries: tuple[Entry, ...]
    batches: Sequence[MiniBatch]
    """The same as they came."""
    tensors: StepBatch
    appended_ms: npt.NDArray[np.int64]
    """When each sample was appended, corrections left out; -1 where it is unknown."""
    num_corrections: int
    """Copies of samples that had come before: counted apart."""
    watermark_ms: int
    """Smallest of the batches'."""
    num_sessions: int
    wire_bytes: int
    repeats: bool
    """Whether the ledger holds this step already."""

    @property
    def num_samples(self) -> int:
        """Samples that come for the first time: B without the corrections."""
        return len(self.appended_ms)


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended the thread."""

    error: BaseException


class Ready:
    """The queue."""

    def __init__(self, depth: int) -> None:
        self._queue: Queue[Prepared | Nothing | Failure] = Queue(depth)
        self._seen: Prepared | Nothing | Failure | None = None

    def put(self, ready: Prepared | Nothing | Failure, wait_s: float) -> bool:
        """Whether it found a place within that time."""
        try:
            self._queue.put(ready, timeout=wait_s)
        except Full:
            return False
        return True

    def next(self, wait_ms: int) -> Prepared | Nothing:
        """The next step; what stands against it otherwise. Raises what ended the thread behind it."""
        got, self._seen = self._seen, None
        try:
            if got is None:
                got = self._queue.get(timeout=wait_ms / 1000) if wait_ms else self._queue.get_nowait()
        except Empty:
            return Nothing.YET
        if isinstance(got, Failure):
            raise got.error
        return got

    def peek(self) -> Prepared | None:
        """The step that `next` will give, if it is ready by now."""
        if self._seen is None:
            with suppress(Empty):
                self._seen = self._queue.get_nowait()
        return self._seen if isinstance(self._seen, Prepared) else None
