"""What is left in formed batches: counted by the real engine, exactly as batches of values would be.

Owns the counting. The rows of a sample are numbered once, value by value (`streams.ikjt.dedup.number_rows`); after
that a row of a batch is the pair (batch, number), and the same engine finds the distinct pairs of all batches at once.
Windows are measured on the values of each batch (`streams.ikjt.partial.window_values`), within sessions.

Bytes are those of the arrays in memory: 8 an id, 8 an offset, 4 an inverse.

Shape suffixes: N samples, R distinct rows of a unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from streams.advisor.hold import Formed
from streams.advisor.sample import I32, I64, Column, Sample
from streams.ikjt.dedup import number_rows
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import window_values

ID_BYTES: Final = 8
OFFSET_BYTES: Final = 8
INVERSE_BYTES: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Features whose rows are compared together: one feature, or a group."""

    features: Mapping[str, Column]
    index: I32
    """[N], row of each sample."""
    row_of: Mapping[str, I64]
    """[R] of each feature: the row of its column that a row of the unit has."""
    lengths: I64
    """[R], ids of all features together."""

    @classmethod
    def of(cls, sample: Sample, feature: str) -> Unit:
        """The rows of one feature."""
        column = sample.columns[feature]
        every = np.arange(column.rows.num_rows, dtype=np.int64)
        return cls({feature: column}, column.index, {feature: every}, column.rows.lengths)

    def with_(self, other: Unit) -> Unit:
        """Both together."""
        first, index = together([self.index, other.index])
        rows, others = self.index[first], other.index[first]
        row_of = {name: kept[rows] for name, kept in self.row_of.items()}
        row_of |= {name: kept[others] for name, kept in other.row_of.items()}
        lengths = self.lengths[rows] + other.lengths[others]
        return Unit({**self.features, **other.features}, index, row_of, lengths)

    @property
    def even(self) -> bool:
        """Whether all features have equally many ids in every row: only then can they share windows."""
        lengths = [self.features[name].rows.lengths[rows] for name, rows in self.row_of.items()]
        return all(np.array_equal(other, lengths[0]) for other in lengths[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Values and rows, with and without deduplication."""

    samples: int
    features: int
    rows: int
    """Distinct rows of all batches."""
    values_before: int
    values_after: int

    @property
    def factor(self) -> float:
        """Values before / values after."""
        return self.values_before / self.values_after if self.values_after else 1.0

    @property
    def bytes_before(self) -> int:
        """A KJT: ids and one offset a sample and feature."""
        return ID_BYTES * self.values_before + OFFSET_BYTES * self.samples * self.features

    @property
    def bytes_after(self) -> int:
        """An IKJT: distinct ids, one offset a distinct row and feature, one inverse a sample."""
        return self.bytes_with(self.values_after)

    def bytes_with(self, values: int) -> int:
        """The same where so many values are stored."""
        return ID_BYTES * values + OFFSET_BYTES * self.rows * self.features + INVERSE_BYTES * self.samples


def exact(formed: Formed, unit: Unit, *, within_sessions: bool = False) -> Left:
    """Distinct rows of every batch. `within_sessions`: rows of different sessions are not compared."""
    where = formed.cluster if within_sessions else formed.batch
    rows = unit.index[formed.order]
    first = _distinct(where, rows, len(unit.lengths))
    return Left(
        samples=len(rows),
        features=len(unit.features),
        rows=len(first),
        values_before=int(unit.lengths[rows].sum()),
        values_after=int(unit.lengths[rows[first]].sum()),
    )


def windows(formed: Formed, unit: Unit) -> int:
    """Values of all batches where rows that are windows of their session's buffer are stored once."""
    rows = unit.index[formed.order]
    bounds = np.append(np.flatnonzero(np.diff(formed.batch, prepend=-1)), len(rows)).tolist()
    return sum(_windows(unit, rows[start:end], formed.cluster[start:end]) for start, end in pairwise(bounds))


def together(indexes: Sequence[I32]) -> tuple[I64, I32]:
    """First sample of each distinct tuple, and the tuple of each sample [N]."""
    return number_rows({str(f): _words(index) for f, index in enumerate(indexes)})


def distinct(formed: Formed, index: I32, num_rows: int) -> int:
    """Distinct rows of all batches: how often a tower whose rows these are is computed."""
    return len(_distinct(formed.batch, index[formed.order], num_rows))


def _windows(unit: Unit, rows: I32, cluster: I64) -> int:
    # Rows of different sessions are different rows here, equal or not: what a session saves is counted, no more.
    first, inverse = number_rows({"rows": _words(cluster * len(unit.lengths) + rows)})
    kept = rows[first]
    features = {name: unit.features[name].rows.take(unit.row_of[name][kept]) for name in unit.features}
    return window_values(Ikjt("unit", features, inverse), cluster)


def _distinct(where: I32 | I64, rows: I32, num_rows: int) -> I64:
    first, _ = number_rows({"rows": _words(where.astype(np.int64) * num_rows + rows)})
    return first


def _words(values: I32 | I64) -> Jagged:
    """One word a row."""
    return Jagged(values, np.arange(len(values) + 1, dtype=np.int64))
