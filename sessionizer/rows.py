"""Rows: the events a partition holds, under small integer names.

Owns the columns of held events, one array each, by the names of the rows: a few that the windower works on, and the
rest (features, lineage) as payload. Lists are in the chunks in which they arrived (`list_chunks`). Never judges events.

Shape suffixes: R rows, N events, T labels, K dense columns, S single-id features, H histories.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sessionizer import cut
from sessionizer.corrections import NO_OFFSET, smallest_offset
from sessionizer.growing import grown
from sessionizer.list_chunks import ListChunks
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
        ("slot", "i4"),  # place of its session among those that wait; OPEN, LEFT, REMEMBERED or FORSAKEN
        ("kind", "i4"),
        ("later", "i4"),  # the next row of its user that has left and may be corrected
    ]
)
"""What the kernels need of a held row; the rest of it is payload."""

_SMALLEST: Final = 1024
_KEY_COLUMNS: Final = {
    "time": "event_time_ms",
    "id": "event_id",
    "user": "user",
    "offset": "offset",
    "impression": "impression",
    "kind": "kind",
}
_PAYLOAD: Final = ("content_hash", "appended_ms", "dense", "ids")
_ARRAYS: Final = ("keys", "items", "labels", "enters", "ends", "tips", "so_far", "sessions", *_PAYLOAD)


class Rows:
    """Held events of one partition. A row is named from `add` until `free`."""

    def __init__(self, schema: EventSchema, *, corrects: bool = False) -> None:
        names = [label.name for label in schema.labels]
        self._labels = schema.labels
        self._enters = [names.index(h.label) if h.label is not None else None for h in schema.histories]
        num_histories = len(schema.histories)
        num_lists = sum(feature.list for feature in schema.sparse)
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
        self.so_far = np.zeros((0, len(names) if corrects else 0), np.float32)
        """[R, T], the same as `labels`, and what was said after the row has left; no columns unless samples are
        corrected."""
        self.sessions = np.zeros((0, int(corrects)), np.uint64)
        """[R, 1], session of a row that has left and may be corrected; no column unless samples are corrected."""
        self.content_hash = np.zeros(0, np.uint64)
        self.appended_ms = np.zeros(0, np.int64)
        self.dense = np.zeros((0, len(schema.dense)), np.float32)
        """[R, K], what the events say; what their histories do is added when rows leave."""
        self.ids = np.zeros((0, len(schema.sparse) - num_lists), np.int64)
        """[R, S]."""
        self._lists = ListChunks(num_lists)
        self._used = np.zeros(0, np.bool_)
        """[R], whether a row has the name."""
        self._names = np.zeros(0, np.int32)
        """Names not in use; the last one is handed out first."""
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
        # A row of integers is moved at once; numpy would move a record field by field.
        _integers(self.keys)[names] = _integers(_keys_of(events))
        for name in _PAYLOAD:
            getattr(self, name)[names] = getattr(events, name)
        self._lists.add(events.lists, names)
        self.items[names] = events.item
        self.labels[names] = events.labels
        if self.so_far.shape[1]:
            self.so_far[names] = events.labels
        self._used[names] = True
        outcomes = events.kind == EventKind.OUTCOME
        self.num_outcomes += int(np.count_nonzero(outcomes))
        for h, label in enumerate(self._enters):
            # An impression says nothing yet: its item enters a history of liked items by its outcome, at its time.
            said = None if label is None else positive(self._labels[label], events.labels[:, label])
            self.enters[names, h] = ~outcomes if said is None else said

    def take(self, names: I32) -> EventBatch:
        """The events, in the given order, with what has been said of their labels so far."""
        keys = self.keys.take(names)
        columns: dict[str, Any] = {column: np.ascontiguousarray(keys[field]) for field, column in _KEY_COLUMNS.items()}
        columns |= {name: getattr(self, name).take(names, axis=0) for name in _PAYLOAD}
        columns |= {"item": self.items.take(names), "labels": self.labels.take(names, axis=0)}
        columns["kind"] = keys["kind"].astype(np.uint8)
        return EventBatch(**columns, lists=self._lists.take(names))

    def free(self, names: I32) -> None:
        """Forget these rows."""
        if not len(names):
            return
        self.num_outcomes -= int(np.count_nonzero(self.keys["kind"][names] == EventKind.OUTCOME))
        self._used[names] = False
        self.give_back(names)
        self._lists.free(names, lambda: self.live)

    @property
    def live(self) -> I32:
        """Names in use."""
        return np.flatnonzero(self._used).astype(np.int32)

    def marked(self, rows: I32) -> npt.NDArray[np.bool_]:
        """[R], which names are among `rows`."""
        marked = np.zeros(len(self.keys), np.bool_)
        marked[rows] = True
        return marked

    @property
    def smallest_offset(self) -> int | None:
        """Smallest offset of a held event; a sample that has left and may be corrected is not held."""
        smallest = int(smallest_offset(self.keys, self._used))
        return smallest if smallest < NO_OFFSET else None

    def _grow(self, by: int) -> None:
        old = len(self.keys)
        for name in (*_ARRAYS, "_used"):
            setattr(self, name, grown(getattr(self, name), old + by))
        self._lists.grow(old + by)
        self._names = np.concatenate([np.arange(old + by - 1, old - 1, -1, dtype=np.int32), self._names])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """State for a cut: what is held, under its names."""
        live = self.live
        arrays: dict[str, npt.NDArray[Any]] = {name: getattr(self, name).take(live, axis=0) for name in _ARRAYS}
        for k, column in enumerate(self._lists.take(live) if len(live) else ()):
            arrays |= cut.prefixed(f"lists.{k}", cut.list_arrays(column))
        return arrays | {"live": live}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """State from a cut."""
        live = arrays["live"]
        if not len(live):
            return
        self._grow(int(live.max()) + 1)
        for name in _ARRAYS:
            getattr(self, name)[live] = arrays[name]
        self._used[live] = True
        num_lists = len({name.split(".")[1] for name in arrays if name.startswith("lists.")})
        self._lists.add(tuple(cut.list_column(cut.under(f"lists.{k}", arrays)) for k in range(num_lists)), live)
        self._names = np.flatnonzero(~self._used).astype(np.int32)
        self.num_outcomes = int(np.count_nonzero(arrays["keys"]["kind"] == EventKind.OUTCOME))


def _integers(keys: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """The same memory, [R, 8]."""
    return keys.view(np.int64).reshape(len(keys), -1)


def _keys_of(events: EventBatch) -> npt.NDArray[np.void]:
    """[N], of rows whose session is not known yet: written once here, and moved as wholes."""
    keys = np.zeros(len(events), ROW_KEYS)
    for field, column in _KEY_COLUMNS.items():
        keys[field] = getattr(events, column)
    keys["slot"] = OPEN
    return keys
