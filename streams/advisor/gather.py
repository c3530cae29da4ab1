"""Mini-batches to a Sample, in bounded memory.

Owns the joining: distinct rows of all batches are numbered anew, by the real engine, whenever what is held has
doubled, so that rows which repeat between batches are held once. Never forms a batch: those come in are the
sessionizer's own, with every feature as a group of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streams.advisor.sample import I32, Column, Sample
from streams.errors import InvariantError
from streams.ikjt.dedup import number_rows
from streams.ikjt.jagged import Jagged
from streams.minibatch import Lineage, MiniBatch

_FIRST_BYTES: Final = 64 * 1024 * 1024
"""Held rows are first numbered anew at this size."""
_LINEAGE_BYTES: Final = 40
"""Of one sample."""


class _Feature:
    """Rows of one feature on their way into a column."""

    def __init__(self) -> None:
        self._rows: list[Jagged] = []
        self._index: list[I32] = []
        self._num_rows = 0

    def add(self, rows: Jagged, inverse: I32) -> int:
        """Bytes that it takes."""
        self._rows.append(rows)
        self._index.append(inverse + np.int32(self._num_rows))
        self._num_rows += rows.num_rows
        return rows.nbytes + int(inverse.nbytes)

    def merge(self) -> Column:
        """All rows so far, each once."""
        rows, index = Jagged.concat(self._rows), np.concatenate(self._index)
        first, kind = number_rows({"rows": rows})
        merged = Column(rows if len(first) == rows.num_rows else rows.take(first), kind[index])
        self._rows, self._index, self._num_rows = [merged.rows], [merged.index], merged.rows.num_rows
        return merged


class Gatherer:
    """Takes mini-batches in the order of their emission; those of several partitions may be mixed."""

    def __init__(self, features: Sequence[str]) -> None:
        self._features = {name: _Feature() for name in features}
        self._lineages: list[tuple[int, int, Lineage]] = []
        self._merge_at_bytes = _FIRST_BYTES
        self.held_bytes = 0
        """Memory of what has been gathered."""

    def add(self, batch: MiniBatch) -> None:
        """One more mini-batch, each of whose groups is one feature."""
        if [group.keys for group in batch.groups] != [(name,) for name in self._features]:
            raise InvariantError(f"groups {[group.keys for group in batch.groups]} are not one feature each")
        self._lineages.append((batch.partition, batch.watermark_ms, batch.lineage))
        self.held_bytes += _LINEAGE_BYTES * len(batch)
        for group in batch.groups:
            self.held_bytes += self._features[group.group].add(group.features[group.group], group.inverse)
        if self.held_bytes > self._merge_at_bytes:
            self._merge()
            self._merge_at_bytes = max(_FIRST_BYTES, 2 * self.held_bytes)

    def sample(self) -> Sample:
        """Everything so far. ValueError if that is nothing."""
        if not self._lineages:
            raise ValueError("no mini-batch was gathered, so there is no sample")
        sizes = [len(lineage.offset) for _, _, lineage in self._lineages]
        session_id = np.concatenate([lineage.session_id for _, _, lineage in self._lineages])
        return Sample(
            partition=np.repeat(np.array([partition for partition, _, _ in self._lineages], np.int32), sizes),
            offset=np.concatenate([lineage.offset for _, _, lineage in self._lineages]),
            time_ms=np.concatenate([lineage.event_time_ms for _, _, lineage in self._lineages]),
            session=np.unique(session_id, return_inverse=True)[1].astype(np.int32),
            batch=np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
            ready_ms=np.repeat(np.array([ready for _, ready, _ in self._lineages], np.int64), sizes),
            columns=self._merge(),
        )

    def _merge(self) -> dict[str, Column]:
        columns = {name: feature.merge() for name, feature in self._features.items()}
        rows = sum(column.rows.nbytes + int(column.index.nbytes) for column in columns.values())
        self.held_bytes = rows + _LINEAGE_BYTES * sum(len(lineage.offset) for _, _, lineage in self._lineages)
        return columns
