"""Where a step uses each row of the tables: the occurrences of every distinct row together.

Owns the order in which the gradients of a row are summed, which is that of the bags. Made on the host while the step
before is computed, so that the update itself has nothing to sort; knows no weights.

Shape suffixes: V ids, N bags, X distinct rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_DIGIT: Final = 11
"""Bits that one pass sorts by: its counters stay in the first cache."""


@dataclass(frozen=True, slots=True, eq=False)
class RowUses:
    """Bags `bag_V[starts_X1[x]:starts_X1[x + 1]]` use row `rows_X[x]`: each as often as it holds the row."""

    rows_X: I64
    """Ascending."""
    starts_X1: I64
    bag_V: I32

    @property
    def num_rows(self) -> int:
        """Distinct rows: what has to be fetched, and what changes."""
        return len(self.rows_X)


def row_uses(ids_V: I64, offsets_N1: I64) -> RowUses:
    """Of bags n with `ids_V[offsets_N1[n]:offsets_N1[n + 1]]`; no id is negative."""
    bag_V = np.repeat(np.arange(len(offsets_N1) - 1, dtype=np.int32), np.diff(offsets_N1))
    greatest = int(ids_V.max(initial=0))
    row_V = ids_V
    for shift in range(0, max(greatest.bit_length(), 1), _DIGIT):
        row_V, bag_V = _sorted_by(row_V, bag_V, shift)
    first_X = np.flatnonzero(np.diff(row_V, prepend=-1))
    return RowUses(row_V[first_X], np.append(first_X, len(row_V)), bag_V)


@compiled
def _sorted_by(row_V: I64, bag_V: I32, shift: int) -> tuple[I64, I32]:
    """One pass of a radix sort: by the digit at `shift`, in the order in which they came where it is equal."""
    place = np.zeros((1 << _DIGIT) + 1, np.int64)
    mask = (1 << _DIGIT) - 1
    for v in range(len(row_V)):
        place[((row_V[v] >> shift) & mask) + 1] += 1
    for digit in range(1 << _DIGIT):
        place[digit + 1] += place[digit]
    rows, bags = np.empty_like(row_V), np.empty_like(bag_V)
    for v in range(len(row_V)):
        digit = (row_V[v] >> shift) & mask
        rows[place[digit]] = row_V[v]
        bags[place[digit]] = bag_V[v]
        place[digit] += 1
    return rows, bags
