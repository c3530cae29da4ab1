"""PartialIkjt: a group whose rows are windows of shared buffers (RecD, arXiv 2211.05239, "partial" duplicates).

Owns the type, its invariants and its expansion. Building it from rows is `partial`; torch is never needed.

A history that loses its oldest id and gains a new one is a window moved on by one. Kept exactly, it is a new row of
its whole length; kept as a window, it costs the one new value. All features of the group shift together, so one
start and one length a row serve all of them.

    buffer   a b c d            rows   (0, 3) = a b c,  (1, 3) = b c d

Shape suffixes: B samples, U distinct rows, P buffers, V values of all buffers, K dense columns of the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.ikjt.ikjt import F32, Ikjt
from streams.ikjt.invariants import check_dense, check_inverse
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.kernels import copy_slices

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartialIkjt:
    """Each buffer once, the windows of it that are rows, and the row that each sample uses.

    Sample b of feature f is `buffers[f].values[start[u] : start[u] + length[u]]` with `u = inverse[b]`. As plain
    Python, the whole meaning is:

        def expand(ikjt):
            return {
                key: [rows.values[ikjt.start[u] : ikjt.start[u] + ikjt.length[u]] for u in ikjt.inverse]
                for key, rows in ikjt.buffers.items()
            }

    Invariants (checked by `validate`): every feature has the same buffer offsets; every window lies within one
    buffer; `inverse` and the numbering of rows as in `Ikjt`.
    """

    group: str
    buffers: Mapping[str, Jagged]
    """Key to P buffers, in the order of the group; prefix sums and attention restart at each."""
    start: I32
    """[U], position in the values of all buffers."""
    length: I32
    """[U]."""
    inverse: I32
    """[B]."""
    dense: F32 | None = None
    """[U, K], columns that belong to the row, as in `Ikjt`."""
    dense_names: tuple[str, ...] = ()
    """[K]."""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.buffers)

    @property
    def num_samples(self) -> int:
        return len(self.inverse)

    @property
    def num_rows(self) -> int:
        return len(self.start)

    @property
    def num_values(self) -> int:
        """Values that are stored."""
        return sum(len(rows.values) for rows in self.buffers.values())

    @property
    def num_values_expanded(self) -> int:
        """Values that a KJT of the same batch stores."""
        return int(self.length[self.inverse].sum(dtype=np.int64)) * len(self.buffers)

    @property
    def dedup_factor(self) -> float:
        """Values before / values after; 1.0 for a group without values."""
        return self.num_values_expanded / self.num_values if self.num_values else 1.0

    @property
    def features(self) -> Mapping[str, Jagged]:
        """Key to U distinct rows, copied out of the buffers: what the exact form stores."""
        offsets, starts = offsets_of(self.length), self.start.astype(np.int64)
        return {
            key: Jagged(
                copy_slices(rows.values, starts, offsets),
                offsets,
                None if rows.weights is None else copy_slices(rows.weights, starts, offsets),
            )
            for key, rows in self.buffers.items()
        }

    def to_exact(self) -> Ikjt:
        """The same group with every distinct row stored whole."""
        return Ikjt(self.group, self.features, self.inverse, self.dense, self.dense_names)

    def expand(self) -> dict[str, Jagged]:
        """Key to B rows: what a KJT of the same batch holds."""
        return self.to_exact().expand()

    def expand_dense(self) -> F32 | None:
        """[B, K], or None where the group has no dense columns."""
        return None if self.dense is None else self.dense[self.inverse]

    def __repr__(self) -> str:
        shape = f"{self.num_samples} samples, {self.num_rows} windows, {self.num_values} values"
        return f"PartialIkjt({self.group}: {', '.join(self.keys)}; {shape}, factor {self.dedup_factor:.2f})"

    def validate(self) -> None:
        """Raise ValueError that names the first broken invariant.

        That rows are distinct takes as long as building does; `check_rows_distinct` looks, on the exact form.
        """
        if not self.buffers:
            raise ValueError(f"group {self.group}: has no features")
        first = next(iter(self.buffers.values()))
        for key, rows in self.buffers.items():
            rows.validate(f"group {self.group}, feature {key}")
            if not np.array_equal(rows.offsets, first.offsets):
                raise ValueError(
                    f"group {self.group}: the buffers of {key} differ in size from those of {self.keys[0]}"
                )
        for name, column in (("start", self.start), ("length", self.length)):
            if column.dtype != np.int32 or column.shape != (self.num_rows,):
                raise ValueError(f"group {self.group}: {name} must be [{self.num_rows}] int32, not {column.dtype}")
        inside = windows_inside(first.offsets, self.start, self.length)
        if not inside.all():
            u = int(np.argmin(inside))
            raise ValueError(f"group {self.group}: row {u} = ({self.start[u]}, {self.length[u]}) leaves its buffer")
        check_dense(self.group, self.dense, self.dense_names, self.num_rows)
        check_inverse(self.group, self.inverse, self.num_rows)


def windows_inside(offsets: I64, start: I32, length: I32) -> npt.NDArray[np.bool_]:
    """[U], whether each window lies within one buffer of `offsets` [P + 1]; an empty one may lie anywhere."""
    buffer = np.searchsorted(offsets, start, side="right")
    # Where a buffer that does not exist would end, no window that holds something fits.
    end = np.append(offsets, 0)[np.where(buffer < len(offsets), buffer, -1)]
    inside = (start >= 0) & (length >= 0) & (start <= offsets[-1])
    return np.asarray(inside & ((length == 0) | (start.astype(np.int64) + length <= end)))


Group = Ikjt | PartialIkjt
"""A feature group in either form."""
