"""Ikjt: the InverseKeyedJaggedTensor of one feature group (RecD, arXiv 2211.05239, section 4).

Owns the type, its invariants and its expansion. Finding duplicates is `dedup`; torch is never needed.

Shape suffixes: B samples, U distinct rows of the group, V values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.ikjt.jagged import Jagged


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ikjt:
    """Each distinct row of a group once, and the row that each sample uses.

    Sample b of feature f is `features[f].row(inverse[b])`. As plain Python, the whole meaning is:

        def expand(ikjt):
            return {key: [rows.row(u) for u in ikjt.inverse] for key, rows in ikjt.features.items()}

    Invariants (checked by `validate`): every feature has the same U rows; `inverse` lies in [0, U); every row
    is used; rows are numbered by first appearance; no two of the U rows are equal in all features.
    """

    group: str
    features: Mapping[str, Jagged]
    """Key to U distinct rows, in the order of the group."""
    inverse: npt.NDArray[np.int32]
    """[B]."""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.features)

    @property
    def num_samples(self) -> int:
        return len(self.inverse)

    @property
    def num_rows(self) -> int:
        return next(iter(self.features.values())).num_rows

    @property
    def num_values(self) -> int:
        """Values that are stored."""
        return sum(len(rows.values) for rows in self.features.values())

    @property
    def num_values_expanded(self) -> int:
        """Values that a KJT of the same batch stores."""
        return sum(int(rows.lengths[self.inverse].sum()) for rows in self.features.values())

    @property
    def dedup_factor(self) -> float:
        """Values before / values after; 1.0 for a group without values."""
        return self.num_values_expanded / self.num_values if self.num_values else 1.0

    def expand(self) -> dict[str, Jagged]:
        """Key to B rows: what a KJT of the same batch holds."""
        return {key: rows.take(self.inverse) for key, rows in self.features.items()}

    def __repr__(self) -> str:
        shape = f"{self.num_samples} samples, {self.num_rows} rows, {self.num_values} values"
        return f"Ikjt({self.group}: {', '.join(self.keys)}; {shape}, factor {self.dedup_factor:.2f})"

    def validate(self) -> None:
        """Raise ValueError that names the first broken invariant, except equality of rows (costly)."""
        if self.inverse.ndim != 1 or self.inverse.dtype != np.int32:
            raise ValueError(f"group {self.group}: inverse must be one row of int32, not {self.inverse.dtype}")
        if not self.features:
            raise ValueError(f"group {self.group}: has no features")
        for key, rows in self.features.items():
            rows.validate(f"group {self.group}, feature {key}")
            if rows.num_rows != self.num_rows:
                raise ValueError(f"group {self.group}: {key} has {rows.num_rows} rows, {self.keys[0]} {self.num_rows}")
        # With rows numbered by first appearance, no sample may reach past the rows seen so far by more than one.
        seen = np.maximum.accumulate(self.inverse)
        jumps = np.flatnonzero(np.diff(seen, prepend=-1) > 1)
        if len(jumps):
            b = int(jumps[0])
            raise ValueError(f"group {self.group}: sample {b} uses row {seen[b]} before the rows below it were used")
        if len(seen) and self.inverse.min() < 0:
            raise ValueError(f"group {self.group}: inverse holds {self.inverse.min()}; rows count from 0")
        last = int(seen[-1]) if len(seen) else -1
        if last + 1 != self.num_rows:
            raise ValueError(f"group {self.group}: samples use {last + 1} rows, but there are {self.num_rows}")
