"""EventBatch: consecutive events of one partition as columns.

Owns the columns and how they are taken and joined. Never decodes bytes and never judges lateness.

Shape suffixes: N events, T labels, K dense columns, S single-id features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from streams.ikjt.jagged import Jagged

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ListColumn:
    """A list feature of N events: rows, mostly distinct ones, and which one each event has."""

    rows: Jagged
    index: npt.NDArray[np.int32]
    """[N], row of each event."""
    source: object | None = None
    """Where rows come from that columns share. Those of two columns with the same source are the same ones, as far as
    both have them; the columns may have many that none of their events uses. None: they are the column's own."""

    def take(self, which: I64) -> ListColumn:
        """The column of the chosen events; rows of its own that none of them uses are dropped."""
        chosen = ListColumn(rows=self.rows, index=self.index[which], source=self.source)
        return chosen if self.source is not None else chosen.own()

    def own(self) -> ListColumn:
        """The same with rows of its own, all of them in use."""
        used, index = np.unique(self.index, return_inverse=True)
        return ListColumn(rows=self.rows.take(used), index=index.astype(np.int32))

    @staticmethod
    def concat(columns: Sequence[ListColumn]) -> ListColumn:
        """One column after the other; rows are not compared with each other."""
        source = columns[0].source
        if source is not None and all(column.source is source for column in columns):
            most = max((column.rows for column in columns), key=lambda rows: rows.num_rows)
            return ListColumn(rows=most, index=np.concatenate([column.index for column in columns]), source=source)
        owned = [column if column.source is None else column.own() for column in columns]
        starts = np.cumsum([0, *(column.rows.num_rows for column in owned)])
        index = [column.index + np.int32(start) for column, start in zip(owned, starts, strict=False)]
        return ListColumn(rows=Jagged.concat([column.rows for column in owned]), index=np.concatenate(index))

    @property
    def per_event(self) -> Jagged:
        """[N] rows, one an event."""
        return self.rows.take(self.index)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EventBatch:
    """Columns of N accepted events of one partition, in offset order unless a method says otherwise."""

    offset: I64
    """[N], position in the interactions partition."""
    event_time_ms: I64
    event_id: U64
    content_hash: U64
    """[N], hash of the message's value: decides between two events with one id."""
    user: I64
    item: I64
    kind: npt.NDArray[np.uint8]
    """[N], `EventKind`."""
    impression: U64
    """[N], event id of the impression that an outcome refers to; an impression's own id otherwise."""
    appended_ms: I64
    """[N], wall clock when the producer appended the record; -1 where it does not say."""
    labels: F32
    """[N, T], what the event says of each label (`label_rules`): NaN where it says nothing."""
    dense: F32
    """[N, K]."""
    ids: I64
    """[N, S], the single-id sparse features in schema order; `ids.NO_ID` where an optional one is missing."""
    lists: tuple[ListColumn, ...]
    """The list features in schema order."""

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, which: I64) -> EventBatch:
        """The chosen events, in the given order."""
        return EventBatch(
            **{name: getattr(self, name)[which] for name in _ARRAYS},
            lists=tuple(column.take(which) for column in self.lists),
        )

    @staticmethod
    def concat(batches: Sequence[EventBatch]) -> EventBatch:
        """One batch after the other. At least one; all of one schema."""
        if len(batches) == 1:
            return batches[0]
        columns = zip(*(batch.lists for batch in batches), strict=True)
        return EventBatch(
            **{name: np.concatenate([getattr(batch, name) for batch in batches]) for name in _ARRAYS},
            lists=tuple(ListColumn.concat(column) for column in columns),
        )

    @property
    def nbytes(self) -> int:
        """Memory held by the columns, with that of all rows that they share."""
        flat = sum(int(getattr(self, name).nbytes) for name in _ARRAYS)
        return flat + sum(column.rows.nbytes + int(column.index.nbytes) for column in self.lists)


_ARRAYS = tuple(f.name for f in fields(EventBatch) if f.name != "lists")
