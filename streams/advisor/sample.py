"""Sample: the events that advice is about, as columns, in the order in which the sessionizer emitted them.

Owns the layout. Never reads a stream and never judges.

Shape suffixes: N samples, R distinct rows of a feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.ikjt.jagged import Jagged

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One feature: its distinct rows, compared value by value, and which one each sample has."""

    rows: Jagged
    """[R], no two of them equal."""
    index: I32
    """[N]."""

    @property
    def mean_length(self) -> float:
        """Ids a sample."""
        return float(self.rows.lengths[self.index].mean()) if len(self.index) else 0.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sample:
    """N samples of whole sessions, those of a session in the order of their events."""

    partition: I32
    """[N]."""
    offset: I64
    """[N], position in the partition."""
    time_ms: I64
    """[N], event time."""
    session: I32
    """[N], 0, 1, 2… Parts of a session that a cap cut share its number."""
    batch: I32
    """[N], the mini-batch that the sessionizer put it into; never decreases."""
    ready_ms: I64
    """[N], event time up to which the partition was complete when that batch was sealed."""
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.session)

    @property
    def num_sessions(self) -> int:
        return int(self.session.max()) + 1 if len(self) else 0

    @property
    def num_partitions(self) -> int:
        return len(np.unique(self.partition))

    @property
    def duration_ms(self) -> int:
        """From the first event to the last."""
        return int(self.time_ms.max() - self.time_ms.min()) if len(self) else 0
