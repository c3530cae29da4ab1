"""Finds the rows of a feature group that are equal, exactly, wherever in the batch they are.

Owns the way from B rows a feature to one Ikjt. The loops are `kernels`; shifted lists are `partial`.

Each column of the group (values, and weights where there are any) is numbered on its own, in one pass over its
words. The samples' tuples of numbers are then rows of a fixed length, and are numbered by the same kernel: equal
tuples are equal rows in all features, without hashing a value twice or copying the columns side by side.

As plain Python, which the tests hold against the kernel:

    kinds = {}
    for b in range(B):
        row = tuple(column.row(b) for column in columns)
        inverse[b] = kinds.setdefault(row, len(kinds))

Shapes: B samples, U distinct rows, C columns, V values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.kernels import distinct_rows

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

ALL_BITS: Final = np.uint64(2**64 - 1)


def deduplicate(group: str, features: Mapping[str, Jagged]) -> Ikjt:
    """Each distinct row of the group once. Rows are equal only if all features are, weights included, bit by bit.

    Where no row repeats, the result shares the arrays of the input.
    """
    num_samples = _num_samples(group, features)
    first, inverse = number_rows(features)
    if len(first) == num_samples:
        return Ikjt(group, dict(features), inverse)
    return Ikjt(group, {key: rows.take(first) for key, rows in features.items()}, inverse)


def number_rows(features: Mapping[str, Jagged], hash_mask: np.uint64 = ALL_BITS) -> tuple[I64, I32]:
    """First sample of each distinct row [U], and the row of each sample [B], numbered by first appearance.

    `hash_mask` removes bits of the hash; the result does not depend on it, only the time does.
    """
    columns = [distinct_rows(words, offsets, hash_mask) for words, offsets in _columns(features)]
    if len(columns) == 1:
        return columns[0]
    tuples = np.stack([inverse for _, inverse in columns], axis=1)  # [B, C]
    num_samples, num_columns = tuples.shape
    offsets = np.arange(num_samples + 1, dtype=np.int64) * num_columns
    return distinct_rows(tuples.reshape(-1), offsets, hash_mask)


def deduplicate_reference(group: str, features: Mapping[str, Jagged]) -> Ikjt:
    """What `deduplicate` must equal, in plain Python."""
    kinds: dict[tuple[bytes, ...], int] = {}
    first: list[int] = []
    inverse: list[int] = []
    for b in range(_num_samples(group, features)):
        row = tuple(words[offsets[b] : offsets[b + 1]].tobytes() for words, offsets in _columns(features))
        if row not in kinds:
            first.append(b)
        inverse.append(kinds.setdefault(row, len(kinds)))
    chosen = np.asarray(first, dtype=np.int64)
    return Ikjt(group, {key: rows.take(chosen) for key, rows in features.items()}, np.asarray(inverse, dtype=np.int32))


def _columns(features: Mapping[str, Jagged]) -> Iterator[tuple[npt.NDArray[Any], I64]]:
    """Words and offsets of every column; int32 and int64 stay as they are, weights become their bits."""
    for rows in features.values():
        yield np.ascontiguousarray(rows.values), rows.offsets
        if rows.weights is not None:
            yield np.ascontiguousarray(rows.weights).view(np.int32), rows.offsets


def _num_samples(group: str, features: Mapping[str, Jagged]) -> int:
    """B, after checking that every feature agrees on it."""
    if not features:
        raise ValueError(f"group {group}: has no features")
    for key, rows in features.items():
        rows.validate(f"group {group}, feature {key}")
    num_rows = {key: rows.num_rows for key, rows in features.items()}
    if len(set(num_rows.values())) > 1:
        raise ValueError(f"group {group}: every feature needs one row a sample, not {num_rows}")
    return next(iter(num_rows.values()))
