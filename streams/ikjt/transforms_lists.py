"""Ascending integers in which a value's place is found at once.

Owns the list and its guide. The span of the list is cut into cells of equal width, up to eight times as many as
integers, and the guide says where each cell's integers begin. Looking up is then one shift and the few integers of
one cell, by halving: as fast as a table where they are spread evenly, and never slower than halving the whole list.

Shape suffixes: N integers, C cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Ascending:
    """Integers, repeats included; `transforms_kernels` reads them."""

    values: I64
    """[N]."""
    guide: npt.NDArray[np.int32]
    """[C + 1], integers before each cell; N at the end. Narrow, so that it stays in the nearest cache."""
    shift: np.uint64
    """Value v lies in cell (v - values[0]) >> shift."""

    @staticmethod
    def of(integers: Iterable[int]) -> Ascending:
        """Given in any order; each of 64 bits."""
        values: I64 = np.sort(np.fromiter(integers, np.int64))
        if not len(values):
            return Ascending(values, np.zeros(1, np.int32), np.uint64(0))
        span = int(values[-1]) - int(values[0])
        shift = np.uint64(max(0, span.bit_length() - len(values).bit_length() - 2))
        cell_N = (values.view(np.uint64) - values.view(np.uint64)[0]) >> shift
        cells = np.arange((span >> int(shift)) + 2, dtype=np.uint64)
        return Ascending(values, np.searchsorted(cell_N, cells).astype(np.int32), shift)
