"""Steps made ready ahead: one thread that composes mini-batches in order and turns them into tensors.

Owns the thread and its bounded queue. What is prepared but not trained is nobody's state: positions and the ledger
move in the loop, when a step begins, so a checkpoint never stands ahead of what was trained. An error of this
thread or of the reader's surfaces in `next`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Final

import numpy as np

from streams.minibatch import MiniBatch
from streams.stage import Stage
from trainer.buffer import Buffer
from trainer.intake import Item
from trainer.order import Order
from trainer.ready import Failure, Nothing, Prepared, Ready
from trainer.tensors import StepBatch

_WAIT_MS: Final = 100
_STOP_S: Final = 10.0


class Prefetch:
    """Prepares steps. `start`, then `next`; `stop` ends the thread."""

    def __init__(
        self,
        buffer: Buffer,
        order: Order,
        to_tensors: Callable[[Sequence[MiniBatch]], StepBatch],
        now_ms: Callable[[], int],
        depth: int,
    ) -> None:
        self._buffer = buffer
        self._order = order
        self._to_tensors = to_tensors
        self._now_ms = now_ms
        self._ready = Ready(depth)
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="recd-prefetch", daemon=True)

    def start(self) -> None:
        """Begin to prepare."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what was prepared is forgotten."""
        self._stopping.set()
        self._buffer.close()
        self._thread.join(_STOP_S)

    def next(self, wait_ms: int) -> Prepared | Nothing:
        """The next step; what stands against it otherwise. Raises what killed a thread behind it."""
        return self._ready.next(wait_ms)

    def peek(self) -> Prepared | None:
        """The step that `next` will give, if it is ready by now."""
        return self._ready.peek()

    def _run(self) -> None:
        try:
            finished = False
            while not self._stopping.is_set():
                items = self._compose()
                if items:
                    repeats = self._order.repeats
                    self._order.close_step()
                    self._put(self._prepare(items, repeats=repeats))
                elif finished:
                    # A new epoch may begin; until then there is nothing to do but look.
                    self._stopping.wait(_WAIT_MS / 1000)
                elif not self._stopping.is_set():
                    self._put(Nothing.MORE)
                finished = not items
        except BaseException as error:  # noqa: BLE001  (surfaces in `next`: nothing is swallowed)
            self._put(Failure(error))

    def _compose(self) -> list[Item]:
        """The mini-batches of the next step; none once every partition has ended, or when stopping."""
        items: list[Item] = []
        view = self._buffer.view(0)
        while not self._stopping.is_set():
            while (partition := self._order.next_partition(view, self._now_ms())) is not None:
                items.append(self._buffer.take(partition))
                self._order.took(items[-1].entry())
                view = self._buffer.view(0)
            if items and not self._order.must_wait():
                return items
            if view.finished:
                self._order.check_nothing_due()
                return []
            view = self._buffer.view(_WAIT_MS, view)
        return []

    def _prepare(self, items: Sequence[Item], *, repeats: bool) -> Prepared:
        batches = [item.batch for item in items]
        stage = np.concatenate([batch.stages for batch in batches])
        appended_ms = np.concatenate([batch.lineage.appended_ms for batch in batches])
        return Prepared(
            entries=tuple(item.entry() for item in items),
            batches=tuple(batches),
            tensors=self._to_tensors(batches),
            appended_ms=appended_ms[stage != Stage.CORRECTION],
            num_corrections=int(np.count_nonzero(stage == Stage.CORRECTION)),
            watermark_ms=min(batch.watermark_ms for batch in batches),
            num_sessions=sum(batch.num_sessions for batch in batches),
            wire_bytes=sum(item.num_bytes for item in items),
            repeats=repeats,
        )

    def _put(self, ready: Prepared | Nothing | Failure) -> None:
        while not self._stopping.is_set() and not self._ready.put(ready, _WAIT_MS / 1000):
            pass
