"""Packer: closed sessions → mini-batches of whole sessions.

Owns the samples that are closed but not yet in a batch. Sessions enter in packing order and leave in it; a batch is
sealed when it is full or the next session does not fit. A session larger than a batch is the only one that is split.
A batch whose message could be too large becomes several, cut between sessions. Where polls end does not matter.
Never decides that a session is over.

Shape suffixes: B samples, C sessions (or parts of capped ones).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sessionizer import cut
from sessionizer.config import BatchConfig
from streams.events.event import EventBatch, ListColumn
from streams.events.ids import NO_ID
from streams.events.schema import EventSchema
from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.partial import as_windows
from streams.ikjt.windows import Group
from streams.minibatch import Lineage, MiniBatch
from streams.stage import Stage
from streams.wire import most_bytes

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Clustered:
    """B samples, clustered by session."""

    events: EventBatch
    histories: tuple[ListColumn, ...]
    session_id: U64
    """[B]."""
    ready_ms: I64
    """[B], event time at which the sample's session could leave."""
    first: npt.NDArray[np.bool_]
    """[B], whether a session, or a part of one, starts here."""
    stage: npt.NDArray[np.uint8]
    """[B], `Stage`."""

    def __len__(self) -> int:
        return len(self.session_id)

    def take(self, which: I64) -> Clustered:
        """The chosen samples, in order; a session whose first sample is not among them starts at its next one."""
        session = (np.cumsum(self.first) - 1)[which]
        first = np.ones(len(which), np.bool_)
        first[1:] = session[1:] != session[:-1]
        return Clustered(
            events=self.events.take(which),
            histories=tuple(column.take(which) for column in self.histories),
            session_id=self.session_id[which],
            ready_ms=self.ready_ms[which],
            first=first,
            stage=self.stage[which],
        )

    def slice(self, start: int, end: int) -> Clustered:
        """Samples [start, end)."""
        cut_off = self.take(np.arange(start, end))
        # A session that was split here does not begin here.
        return replace(cut_off, first=self.first[start:end])

    @staticmethod
    def concat(parts: Sequence[Clustered]) -> Clustered:
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        return Clustered(
            events=EventBatch.concat([part.events for part in parts]),
            histories=tuple(ListColumn.concat(c) for c in zip(*(part.histories for part in parts), strict=True)),
            session_id=np.concatenate([part.session_id for part in parts]),
            ready_ms=np.concatenate([part.ready_ms for part in parts]),
            first=np.concatenate([part.first for part in parts]),
            stage=np.concatenate([part.stage for part in parts]),
        )

    def arrays(self) -> cut.Arrays:
        """For a cut."""
        arrays = cut.prefixed("events", cut.event_arrays(self.events))
        for h, column in enumerate(self.histories):
            arrays |= cut.prefixed(f"histories.{h}", cut.list_arrays(column))
        names = ("session_id", "ready_ms", "first", "stage")
        return arrays | {name: getattr(self, name) for name in names}

    @staticmethod
    def restore(arrays: cut.Arrays, num_histories: int) -> Clustered:
        """From a cut."""
        return Clustered(
            events=cut.event_batch(cut.under("events", arrays)),
            histories=tuple(cut.list_column(cut.under(f"histories.{h}", arrays)) for h in range(num_histories)),
            session_id=arrays["session_id"],
            ready_ms=arrays["ready_ms"],
            first=arrays["first"],
            stage=arrays["stage"],
        )


class Packer:
    """Samples of one partition on their way into batches."""

    def __init__(self, schema: EventSchema, partition: int, config: BatchConfig, negative_rate: float = 1.0) -> None:
        self._negative_rate = negative_rate
        self._schema = schema
        self._fingerprint = schema.fingerprint()
        self._partition = partition
        self._max_samples = config.samples
        self._max_bytes = config.max_bytes
        self._column_of = {name: k for k, name in enumerate(schema.dense_names)}
        self.next_sequence = 0
        self.pending: Clustered | None = None

    def __len__(self) -> int:
        return len(self.pending) if self.pending is not None else 0

    @property
    def num_samples(self) -> int:
        """What waits, without corrections."""
        return 0 if self.pending is None else int(np.count_nonzero(self.pending.stage != Stage.CORRECTION))

    def add(self, samples: Clustered) -> list[MiniBatch]:
        """Queue closed sessions; returns the batches that are full now."""
        queue = samples if self.pending is None else Clustered.concat([self.pending, samples])
        ends = self._fit(np.flatnonzero(queue.first), len(queue))
        sealed = [self._seal(queue.slice(start, end)) for start, end in zip([0, *ends], ends, strict=False)]
        rest = queue.slice(ends[-1], len(queue)) if ends else queue
        self.pending = rest if len(rest) else None
        return [batch for batches in sealed for batch in batches]

    def erase(self, users: I64) -> int:
        """Drop the samples of these users; returns how many there were, without corrections."""
        if self.pending is None:
            return 0
        before = self.num_samples
        left = np.flatnonzero(~np.isin(self.pending.events.user, users))
        self.pending = self.pending.take(left) if len(left) else None
        return before - self.num_samples

    def flush(self) -> list[MiniBatch]:
        """Seal what is left."""
        batches = self._seal(self.pending) if self.pending is not None else []
        self.pending = None
        return batches

    def _fit(self, starts_C: I64, num_samples: int) -> list[int]:
        """Ends of the full batches: next fit, keeping the order of sessions."""
        ends: list[int] = []
        batch_start = 0
        bounds = [*starts_C.tolist(), num_samples]
        for start, end in pairwise(bounds):
            if end - batch_start > self._max_samples and start > batch_start:
                ends.append(start)
                batch_start = start
            while end - batch_start >= self._max_samples:
                batch_start += self._max_samples
                ends.append(batch_start)
        return ends

    def _seal(self, samples: Clustered) -> list[MiniBatch]:
        """One batch, or several where it could be too large: cut at the session nearest to the middle, and so on."""
        batch = self._build(samples)
        if len(samples) > 1 and most_bytes(batch) > self._max_bytes:
            middle = len(samples) // 2
            starts = np.flatnonzero(samples.first[1:]) + 1
            place = int(starts[np.argmin(np.abs(starts - middle))]) if len(starts) else middle
            return [*self._seal(samples.slice(0, place)), *self._seal(samples.slice(place, len(samples)))]
        self.next_sequence += 1
        return [batch]

    def _build(self, samples: Clustered) -> MiniBatch:
        events = samples.events
        return MiniBatch(
            partition=self._partition,
            sequence=self.next_sequence,
            watermark_ms=int(samples.ready_ms[-1]),
            fingerprint=self._fingerprint,
            lineage=Lineage(
                offset=events.offset,
                event_id=events.event_id,
                session_id=samples.session_id,
                event_time_ms=events.event_time_ms,
                appended_ms=events.appended_ms,
            ),
            labels=events.labels,
            dense=self._dense(events, self._schema.ungrouped_dense),
            groups=self._groups(samples),
            negative_rate=self._negative_rate,
            stage=samples.stage if samples.stage.any() else None,
        )

    def _dense(self, events: EventBatch, names: Sequence[str]) -> F32:
        """The named dense columns, [B, K]."""
        return events.dense.take(np.array([self._column_of[name] for name in names], np.int64), axis=1)

    def _groups(self, samples: Clustered) -> tuple[Group, ...]:
        columns: dict[str, ListColumn] = {}
        ids = iter(range(samples.events.ids.shape[1]))
        lists = iter(samples.events.lists)
        for feature in self._schema.sparse:
            columns[feature.name] = next(lists) if feature.list else _one_id_each(samples.events.ids[:, next(ids)])
        for history, column in zip(self._schema.histories, samples.histories, strict=True):
            columns[history.name] = column
        groups: list[Group] = []
        for group in self._schema.all_groups:
            dense = self._dense(samples.events, group.dense) if group.dense else None
            exact = group_of(group.name, {name: columns[name] for name in group.features}, dense, group.dense)
            groups.append(as_windows(exact, samples.session_id) if group.form == "partial" else exact)
        return tuple(groups)


def _one_id_each(ids: I64) -> ListColumn:
    """A row of one id an event; an empty row where an optional feature is missing."""
    there = ids != NO_ID
    return ListColumn(rows=Jagged(ids[there], offsets_of(there)), index=np.arange(len(ids), dtype=np.int32))


def group_of(
    name: str, columns: dict[str, ListColumn], dense: F32 | None = None, dense_names: tuple[str, ...] = ()
) -> Ikjt:
    """The IKJT of one group; `dense` [B, K] are its dense columns.

    Neighbours that share their rows in every column are compared once, not value by value.
    """
    index_CB = np.stack([column.index for column in columns.values()])
    new = np.ones(index_CB.shape[1], np.bool_)
    new[1:] = np.any(index_CB[:, 1:] != index_CB[:, :-1], axis=0)
    if dense is not None:
        bits = np.ascontiguousarray(dense).view(np.int32)
        new[1:] |= np.any(bits[1:] != bits[:-1], axis=1)
    rows = {key: column.rows.take(column.index[new]) for key, column in columns.items()}
    ikjt = deduplicate(name, rows, None if dense is None else dense[new], dense_names)
    return replace(ikjt, inverse=ikjt.inverse[np.cumsum(new) - 1])
