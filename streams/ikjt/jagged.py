"""Jagged: rows of different lengths as flat values and offsets.

Owns the layout and row-wise taking and joining. Knows nothing of features, samples or torch.

Shape suffixes: R rows, V values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import are_offsets, take_rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Jagged:
    """Row r is `values[offsets[r]:offsets[r + 1]]`.

    Invariants (checked by `validate`): offsets start at 0, never decrease and end at V; weights, where
    there are any, are one float32 a value.
    """

    values: npt.NDArray[Any]
    """[V], int64 or int32 ids."""
    offsets: npt.NDArray[np.int64]
    """[R + 1]."""
    weights: npt.NDArray[np.float32] | None = None
    """[V], or None where the feature is not weighted."""

    def __post_init__(self) -> None:
        given: dict[str, object] = {"values": self.values, "offsets": self.offsets}
        if self.weights is not None:
            given["weights"] = self.weights
        for name, column in given.items():
            if not isinstance(column, np.ndarray):
                raise TypeError(
                    f"{name} must be a NumPy array, not {type(column).__name__}; Jagged.from_lists takes a list a row"
                )

    @property
    def num_rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """[R]."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        weights = 0 if self.weights is None else int(self.weights.nbytes)
        return int(self.values.nbytes) + int(self.offsets.nbytes) + weights

    def row(self, r: int) -> npt.NDArray[Any]:
        """Values of one row, a view. Negative rows count from the end. IndexError for a row that is not there."""
        if not -self.num_rows <= r < self.num_rows:
            raise IndexError(f"row {r} of {self.num_rows}")
        r %= self.num_rows
        return self.values[self.offsets[r] : self.offsets[r + 1]]

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Jagged:
        """The chosen rows, in the given order, with repeats. Negative rows count from the end.

        Raises IndexError that names a row which is not there, or what `rows` are if they are no row of integers;
        ValueError where offsets do not fit the values.
        """
        wrong = rows.dtype.kind not in "iu" or rows.dtype == np.uint64 or rows.ndim != 1
        if wrong and rows.size:
            raise IndexError(f"rows are chosen by one row of int64, not by {rows.dtype} of shape {list(rows.shape)}")
        chosen = np.ascontiguousarray(rows, np.int64)
        try:
            values, offsets = take_rows(self.values, self.offsets, chosen)
        except IndexError:
            missing = chosen[(chosen < -self.num_rows) | (chosen >= self.num_rows)]
            raise IndexError(f"row {missing[0]} of {self.num_rows}") from None
        weights = None if self.weights is None else take_rows(self.weights, self.offsets, chosen)[0]
        return Jagged(values, offsets, weights)

    @staticmethod
    def concat(parts: Sequence[Jagged]) -> Jagged:
        """Rows of one part after the other. Either all parts are weighted or none is."""
        offsets = offsets_of(np.concatenate([part.lengths for part in parts]))
        weights = [part.weights for part in parts if part.weights is not None]
        if weights and len(weights) != len(parts):
            raise ValueError("some parts are weighted and some are not; give the others weights of 1.0")
        return Jagged(
            np.concatenate([part.values for part in parts]), offsets, np.concatenate(weights) if weights else None
        )

    @staticmethod
    def from_lists(rows: Iterable[Sequence[int]]) -> Jagged:
        """From Python lists of integers; for tests and for people. Raises ValueError that names the row of another."""
        lists = [_ids(row, r) for r, row in enumerate(rows)]
        offsets = offsets_of(np.asarray([len(row) for row in lists], dtype=np.int64))
        return Jagged(np.concatenate([np.empty(0, np.int64), *lists]), offsets)

    @staticmethod
    def from_lengths(
        values: npt.NDArray[Any], lengths: npt.NDArray[np.integer[Any]], weights: npt.NDArray[np.float32] | None = None
    ) -> Jagged:
        """From the lengths [R] of the rows, as a KeyedJaggedTensor has them. Raises ValueError if they do not fit."""
        if lengths.dtype.kind not in "iu" or lengths.ndim != 1:
            raise ValueError(f"lengths must be one row of integers, not {lengths.dtype} of shape {list(lengths.shape)}")
        rows = Jagged(values, offsets_of(lengths), weights)
        rows.validate()
        return rows

    def to_lists(self) -> list[list[int]]:
        """As Python lists; for tests and for people."""
        return [self.row(r).tolist() for r in range(self.num_rows)]

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else ", weighted"
        return f"Jagged({self.num_rows} rows, {len(self.values)} {self.values.dtype} values{weighted})"

    def validate(self, name: str = "jagged") -> None:
        """Raise ValueError that names the first broken invariant."""
        offsets = self.offsets
        if offsets.ndim != 1 or offsets.dtype != np.int64 or len(offsets) == 0:
            raise ValueError(
                f"{name}: offsets must be one-dimensional int64 and start at 0, not {offsets.dtype} of shape "
                f"{list(offsets.shape)}"
            )
        if self.values.ndim != 1 or self.values.dtype not in (np.int32, np.int64):
            raise ValueError(f"{name}: values must be one row of int32 or int64 ids, not {self.values.dtype}")
        if not are_offsets(offsets, len(self.values)):
            raise ValueError(f"{name}: {self._wrong_offsets()}")
        if self.weights is not None and self.weights.ndim != 1:
            raise ValueError(f"{name}: weights must be one number a value, not of shape {self.weights.shape}")
        if self.weights is not None and len(self.weights) != len(self.values):
            raise ValueError(f"{name}: {len(self.weights)} weights for {len(self.values)} values")
        if self.weights is not None and self.weights.dtype != np.float32:
            raise ValueError(f"{name}: weights must be float32, not {self.weights.dtype}")

    def _wrong_offsets(self) -> str:
        """What is wrong with offsets that do not fit the values."""
        offsets, num_values = self.offsets, len(self.values)
        if offsets[0] != 0 or (offsets[-1] != num_values and int(offsets.sum()) == num_values):
            return (
                f"offsets must be one-dimensional int64 and start at 0, and end at {num_values}, not "
                f"{offsets[0]} and {offsets[-1]}; if these are lengths, use Jagged.from_lengths"
            )
        decreases = offsets[1:] < offsets[:-1]  # not np.diff, whose result may wrap around
        if np.any(decreases):
            return f"offsets decrease at row {int(np.argmax(decreases))}"
        return f"offsets end at {offsets[-1]} but there are {num_values} values"


def _ids(row: Sequence[int], r: int) -> npt.NDArray[np.int64]:
    """One row, if it holds integers of 64 bits and nothing else."""
    ids = np.asarray(row)
    if ids.ndim != 1 or (len(ids) and (ids.dtype.kind not in "iu" or int(ids.max()) > np.iinfo(np.int64).max)):
        raise ValueError(f"row {r} is {row!r}; a row is a list of integers of 64 bits")
    return ids.astype(np.int64)


def offsets_of(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """[R] lengths to [R + 1] offsets."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
