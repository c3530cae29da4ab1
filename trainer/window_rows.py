"""Rows of a feature that are windows of shared buffers, over all mini-batches of a step.

Owns what a tower needs to make rows of buffers that were looked up once: which windows each buffer has, for sums, and
which place of the buffers each id of a row is, for everything else. Never looks anything up; `window_sums` adds up.

Shape suffixes: U rows, P buffers, V ids of all buffers, W ids of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import offsets_of
from streams.ikjt.windows import Group
from trainer.jagged_ops import Expansion
from trainer.window_sums import WindowSums

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class WindowRows:
    """Row u has the ids `values[start[u]:start[u] + lengths[u]]`, which lie within one buffer."""

    values: I64
    """[V]."""
    buffers: I64
    """[P + 1], offsets into the values."""
    start: I64
    """[U]."""
    lengths: I64
    """[U]."""

    @property
    def num_rows(self) -> int:
        return len(self.start)

    def take(self, rows: I64) -> WindowRows:
        """These rows of the same buffers."""
        return replace(self, start=self.start[rows], lengths=self.lengths[rows])

    def places(self, *, newest_first: bool) -> I64:
        """[W], where the ids of every row stand among the values, row after row."""
        offsets = offsets_of(self.lengths)
        within: I64 = np.arange(offsets[-1]) - np.repeat(offsets[:-1], self.lengths)
        first = self.start + self.lengths - 1 if newest_first else self.start
        places: I64 = np.repeat(first, self.lengths) + (-within if newest_first else within)
        return places


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The same as tensors. Exactly one of `sums` and `places` is there: what the feature's pooling needs."""

    sums: WindowSums | None = None
    """Windows of each buffer."""
    places: Expansion | None = None
    """Place of each id of a row: the bags of the buffers expanded become the ids of the rows."""

    def to(self, device: torch.device) -> Windows:
        return Windows(self.sums and self.sums.to(device), self.places and self.places.to(device))


def window_sums_of(rows: WindowRows) -> WindowSums:
    """For a pooling that adds the ids of a row up."""
    last = max(len(rows.buffers) - 2, 0)
    # An empty window may lie anywhere, behind the last buffer too.
    buffer_U = np.minimum(np.searchsorted(rows.buffers, rows.start, side="right") - 1, last)
    windows_P1 = offsets_of(np.bincount(buffer_U, minlength=len(rows.buffers) - 1))
    order_U = np.argsort(buffer_U, kind="stable")
    arrays = rows.start, rows.start + rows.lengths, order_U, windows_P1, rows.buffers
    return WindowSums(*(torch.from_numpy(array) for array in arrays))


def join_windows(parts: Sequence[Group], key: str) -> WindowRows:
    """A feature of a group over all mini-batches; the rows of an exact one are buffers of one window."""
    values, starts, lengths, sizes, before = [], [], [], [], 0
    for part in parts:
        if isinstance(part, Ikjt):
            rows = part.features[key]
            start, length = rows.offsets[:-1], rows.lengths
        else:
            rows = part.buffers[key]
            start, length = part.start.astype(np.int64), part.length.astype(np.int64)
        values.append(rows.values)
        sizes.append(rows.lengths)
        starts.append(start + before)
        lengths.append(length)
        before += len(rows.values)
    return WindowRows(
        np.concatenate(values), offsets_of(np.concatenate(sizes)), np.concatenate(starts), np.concatenate(lengths)
    )
