"""What the core orders its shell to do. Orders, not deeds: nothing here performs anything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.minibatch import MiniBatch


@dataclass(frozen=True, slots=True, eq=False)
class EmitBatch:
    """Publish a mini-batch."""

    batch: MiniBatch


@dataclass(frozen=True, slots=True, eq=False)
class ReportLate:
    """Events that were dropped because they came behind the watermark."""

    partition: int
    offset: npt.NDArray[np.int64]
    late_by_ms: npt.NDArray[np.int64]
    """Watermark minus event time: positive."""


@dataclass(frozen=True, slots=True)
class EndReached:
    """An end mark took effect: everything of this epoch has been emitted."""

    partition: int
    epoch: int
    next_offset: int


Effect = EmitBatch | ReportLate | EndReached
