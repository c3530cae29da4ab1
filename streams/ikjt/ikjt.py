"""Ikjt: the InverseKeyedJaggedTensor of one feature group (RecD, arXiv 2211.05239, section 4).

Owns the type, its invariants and its expansion. Finding duplicates is `dedup`; torch is never needed.

Shape suffixes: B samples, U distinct rows of the group, V values, K dense columns of the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.ikjt.invariants import check_dense, check_inverse
from streams.ikjt.jagged import Jagged

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ikjt:
    """Each distinct row of a group once, and the row that each sample uses.

    Sample b of feature f is `features[f].row(inverse[b])`. As plain Python, the whole meaning is:

        def expand(ikjt):
            return {key: [rows.row(u) for u in ikjt.inverse] for key, rows in ikjt.features.items()}

    Invariants, checked by `validate`: every feature has the same U rows; `inverse` lies in [0, U); every row is used;
    rows are numbered by first appearance. Built from samples, no two of the U rows are equal in all features and dense
    columns (`check_rows_distinct`); a transform may leave equal ones.
    """

    group: str
    features: Mapping[str, Jagged]
    """Key to U distinct rows, in the order of the group."""
    inverse: npt.NDArray[np.int32]
    """[B]."""
    dense: F32 | None = None
    """[U, K], columns that belong to the row: sample b has `dense[inverse[b]]`. None where the group has none."""
    dense_names: tuple[str, ...] = ()
    """[K]."""

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

    def expand_dense(self) -> F32 | None:
        """[B, K], or None where the group has no dense columns."""
        return None if self.dense is None else self.dense[self.inverse]

    def to_exact(self) -> Ikjt:
        """Itself: every distinct row is stored whole here."""
        return self

    def __repr__(self) -> str:
        shape = f"{self.num_samples} samples, {self.num_rows} rows, {self.num_values} values"
        return f"Ikjt({self.group}: {', '.join(self.keys)}; {shape}, factor {self.dedup_factor:.2f})"

    def validate(self) -> None:
        """Raise ValueError that names the first broken invariant.

        That rows are distinct takes as long as building does; `check_rows_distinct` looks, on the exact form.
        """
        if not self.features:
            raise ValueError(f"group {self.group}: has no features")
        for key, rows in self.features.items():
            rows.validate(f"group {self.group}, feature {key}")
            if rows.num_rows != self.num_rows:
                raise ValueError(f"group {self.group}: {key} has {rows.num_rows} rows, {self.keys[0]} {self.num_rows}")
        check_dense(self.group, self.dense, self.dense_names, self.num_rows)
        check_inverse(self.group, self.inverse, self.num_rows)
