"""Rows on their way between slots and file, while a step is computed: written behind, read ahead.

Owns one thread and two buffers, and their order. Between two admissions the thread first puts the rows into the file
that the last one pushed out, then reads those that the next one will ask for. Nothing else touches the file, and the
thread touches no slot: what was read ahead is what the file holds. Never decides which rows move.

Shape suffixes: M rows that come, E rows that leave, C slots, S numbers of a row (D weights and one more).
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled
from trainer.cache.cold_rows import ColdRows

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Slots = tuple[F32, F32]
"""Weights [C, D] and second moments [C] of the hot tier."""

_NONE: I64 = np.zeros(0, np.int64)


class Traffic:
    """What moves between the hot tier and its file."""

    def __init__(self, cold: ColdRows, dim: int) -> None:
        self._cold = cold
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recd-cold-traffic")
        self._under_way: Future[None] | None = None
        self._leaving_E = self._ahead_M = _NONE
        self._out_ES = self._in_MS = np.empty((0, dim + 1), np.float32)

    def wait(self) -> None:
        """Until what `go` began is done; raises what went wrong with it."""
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None

    def swap(self, out: tuple[I64, I64], come: tuple[I64, I64], slots: Slots) -> int:
        """Rows `out[0]` leave slots `out[1]`, then rows `come[0]` come into slots `come[1]`. After `wait`.

        How many of the latter had been read ahead.
        """
        self._leaving_E, from_E = out
        self._out_ES = _room(self._out_ES, len(from_E))
        _pack(*slots, from_E, self._out_ES)
        rows_M, into_M = come
        ahead = np.array_equal(rows_M, self._ahead_M)
        if not ahead:
            self._in_MS = _room(self._in_MS, len(rows_M))
            self._cold.fetch(rows_M, self._in_MS[: len(rows_M)])
        self._ahead_M = _NONE
        self._cold.take(rows_M)
        _unpack(*slots, into_M, self._in_MS)
        return len(rows_M) if ahead else 0

    def go(self, ahead_M: I64) -> None:
        """Begin to put away what has left, and then to read `ahead_M`, none of which is in a slot."""
        self._in_MS = _room(self._in_MS, len(ahead_M))
        self._ahead_M = ahead_M
        self._under_way = self._thread.submit(self._run)

    def forget(self) -> None:
        """What was read ahead may no longer hold."""
        self.wait()
        self._ahead_M = _NONE

    def _run(self) -> None:
        self._cold.put(self._leaving_E, self._out_ES)
        self._cold.fetch(self._ahead_M, self._in_MS[: len(self._ahead_M)])


def _room(buffer_MS: F32, num_rows: int) -> F32:
    if len(buffer_MS) >= num_rows:
        return buffer_MS
    return np.empty((num_rows + num_rows // 4, buffer_MS.shape[1]), np.float32)


@compiled
def _pack(weight: F32, momentum: F32, slots: I64, buffer: F32) -> None:
    dim = weight.shape[1]
    for m in range(len(slots)):
        for d in range(dim):
            buffer[m, d] = weight[slots[m], d]
        buffer[m, dim] = momentum[slots[m]]


@compiled
def _unpack(weight: F32, momentum: F32, slots: I64, buffer: F32) -> None:
    dim = weight.shape[1]
    for m in range(len(slots)):
        for d in range(dim):
            weight[slots[m], d] = buffer[m, d]
        momentum[slots[m]] = buffer[m, dim]
