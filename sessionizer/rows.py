"""Rows: the events a partition holds, under small integer names.

Owns the columns of held events: a few that the windower works on, one array each, and the rest (features, labels,
lineage) as the column chunks in which they arrived. Never judges events.

Shape suffixes: R rows, N events, T labels, H histories.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sessionizer.waiting import OPEN
from streams.events.event import EventBatch
from streams.events.label_rules import positive
from streams.events.schema import EventKind, EventSchema

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

ROW_KEYS: Final = np.dtype(
    [
        ("time", "i8"),
        ("id", "u8"),
        ("user", "i8"),
        ("offset", "i8"),
        ("impression", "u8"),  # what an outcome is joined by
        ("ripe_ms", "i8"),  # event time from which on nothing changes its labels
        ("next", "i4"),  # the next row of its session
        ("slot", "i4"),  # place of its session among those that wait; OPEN or LEFT
        ("kind", "i8"),
    ]
)
"""What the kernels need of a held row; the rest of it is payload."""

_FREE: Final = -1
_SMALLEST: Final = 1024
_KEY_COLUMNS: Final = {
    "time": "event_time_ms",
    "id": "event_id",
    "user": "user",
    "offset": "offset",
    "impression": "impression",
    "kind": "kind",
}
_ARRAYS: Final = ("keys", "items", "labels", "enters", "ends", "tips")


class Rows:
    """Held events of one partition. A row is named from `add` until `free`."""

    def __init__(self, schema: EventSchema) -> None:
        names = [label.name for label in schema.labels]
        self._labels = schema.labels
        self._enters = [names.index(h.label) if h.label is not None else None for h in schema.histories]
        num_histories = len(schema.histories)
        self.keys = np.zeros(0, ROW_KEYS)
        self.items = np.zeros(0, np.int64)
        self.labels = np.zeros((0, len(names)), np.float32)
        """[R, T], what has been said of the labels so far (`label_rules`)."""
        self.enters = np.zeros((0, num_histories), np.bool_)
        """[R, H], whether the row's item enters the history."""
        self.ends = np.zeros((0, num_histories), np.int64)
        """[R, H], how many entries of its user's history the row may see."""
        self.tips = np.zeros((0, num_histories), np.int32)
        """[R, H], the newest of these."""
        self._chunk = np.zeros(0, np.int32)
        """[R], chunk that holds the rest of the row; _FREE for a name not in use."""
        self._place = np.zeros(0, np.int32)
        """[R], its place in the chunk."""
        self._names = np.zeros(0, np.int32)
        """Names not in use; the last one is handed out first."""
        self._chunks: dict[int, EventBatch] = {}
        self._num_live: dict[int, int] = {}
        self._next_chunk = 0
        self.num_outcomes = 0
        """Held rows that are outcomes; all others are samples."""

    def __len__(self) -> int:
        return len(self.keys) - len(self._names)

    def reserve(self, n: int) -> I32:
        """N free names; `add` rows under them or `give_back` them."""
        if n > len(self._names):
            self._grow(max(n, len(self.keys), _SMALLEST))
        keep = len(self._names) - n
        reserved, self._names = self._names[keep:][::-1], self._names[:keep]
        return reserved

    def give_back(self, names: I32) -> None:
        """Names that were reserved for nothing."""
        self._names = np.concatenate([self._names, names])

    def add(self, events: EventBatch, names: I32) -> None:
        """Hold N events under reserved names."""
        if not len(names):
            return
        for field, column in _KEY_COLUMNS.items():
            self.keys[field][names] = getattr(events, column)
        self.keys["slot"][names] = OPEN
        self.items[names] = events.item
        self.labels[names] = events.labels
        outcomes = events.kind == EventKind.OUTCOME
        self.num_outcomes += int(np.count_nonzero(outcomes))
        for h, label in enumerate(self._enters):
            # An impression says nothing yet: its item enters a history of liked items by its outcome, at its time.
            said = None if label is None else positive(self._labels[label], events.labels[:, label])
            self.enters[names, h] = ~outcomes if said is None else said
        self._chunk[names], self._place[names] = self._next_chunk, np.arange(len(names))
        self._chunks[self._next_chunk], self._num_live[self._next_chunk] = events, len(names)
        self._next_chunk += 1

    def take(self, names: I32) -> EventBatch:
        """The events themselves, in the given order. At least one."""
        chunk = self._chunk[names]
        order = np.argsort(chunk, kind="stable")
        starts = np.flatnonzero(np.diff(chunk[order], prepend=_FREE - 1))
        pieces = [
            self._chunks[int(chunk[where[0]])].take(self._place[names[where]].astype(np.int64))
            for where in np.split(order, starts[1:])
        ]
        if len(pieces) == 1 and np.array_equal(order, np.arange(len(order))):
            return pieces[0]
        return EventBatch.concat(pieces).take(np.argsort(order))

    def free(self, names: I32) -> None:
        """Forget these rows."""
        if not len(names):
            return
        self.num_outcomes -= int(np.count_nonzero(self.keys["kind"][names] == EventKind.OUTCOME))
        chunks, counts = np.unique(self._chunk[names], return_counts=True)
        for chunk, count in zip(chunks.tolist(), counts.tolist(), strict=True):
            self._num_live[chunk] -= count
            if self._num_live[chunk] == 0:
                del self._num_live[chunk], self._chunks[chunk]
        self._chunk[names] = _FREE
        self.give_back(names)
        if sum(map(len, self._chunks.values())) > 4 * max(len(self), _SMALLEST):
            self._compact()

    @property
    def live(self) -> I32:
        """Names in use."""
        return np.flatnonzero(self._chunk != _FREE).astype(np.int32)

    def marked(self, rows: I32) -> npt.NDArray[np.bool_]:
        """[R], which names are among `rows`."""
        marked = np.zeros(len(self.keys), np.bool_)
        marked[rows] = True
        return marked

    @property
    def smallest_offset(self) -> int | None:
        """Smallest offset of a held event."""
        return int(self.keys["offset"][self.live].min()) if len(self) else None

    def _compact(self) -> None:
        """One chunk of live rows in place of many that are mostly forgotten."""
        live = self.live
        if not len(live):
            return
        self._chunks, self._num_live = {self._next_chunk: self.take(live).owned()}, {self._next_chunk: len(live)}
        self._chunk[live], self._place[live] = self._next_chunk, np.arange(len(live))
        self._next_chunk += 1

    def _grow(self, by: int) -> None:
        old = len(self.keys)
        for name in (*_ARRAYS, "_chunk", "_place"):
            array = getattr(self, name)
            more = np.zeros((by, *array.shape[1:]), array.dtype)
            setattr(self, name, np.concatenate([array, more]))
        self._chunk[old:] = _FREE
        self._names = np.concatenate([np.arange(old + by - 1, old - 1, -1, dtype=np.int32), self._names])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """State for a cut, all but the chunks: `held` has those."""
        return {name: getattr(self, name) for name in _ARRAYS} | {"live": self.live}

    @property
    def held(self) -> EventBatch | None:
        """Events of the live rows, in the order of their names."""
        return self.take(self.live) if len(self) else None

    def restore(self, arrays: dict[str, npt.NDArray[Any]], held: EventBatch | None) -> None:
        """State from a cut."""
        for name in _ARRAYS:
            setattr(self, name, arrays[name].copy())
        live = arrays["live"]
        self.num_outcomes = int(np.count_nonzero(self.keys["kind"][live] == EventKind.OUTCOME))
        self._chunk = np.full(len(self.keys), _FREE, np.int32)
        self._place = np.zeros(len(self.keys), np.int32)
        if held is not None:
            self._chunks, self._num_live, self._next_chunk = {0: held}, {0: len(live)}, 1
            self._chunk[live], self._place[live] = 0, np.arange(len(live))
        self._names = np.flatnonzero(self._chunk == _FREE).astype(np.int32)
