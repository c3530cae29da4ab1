"""Finds the rows of a feature group that are equal, exactly, wherever in the batch they are.

Owns the way from B rows a feature to one Ikjt. The loops are `kernels`; shifted lists are `partial`.

The columns of the group (values, and weights and dense columns where there are any) are read one after the other, each
once. Each tells samples apart that all columns before it do not: its rows are compared only where the numbers given so
far are equal, and where all samples are told apart, the other columns are not read at all.

As plain Python, which the tests hold against the kernel:

    kinds = {}
    for b in range(B):
        row = tuple(column.row(b) for column in columns)
        inverse[b] = kinds.setdefault(row, len(kinds))

Shapes: B samples, U distinct rows, C columns, V values, K dense columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from streams.ikjt.ikjt import F32, Ikjt
from streams.ikjt.invariants import check_dense, check_distinct
from streams.ikjt.jagged import Jagged
from streams.ikjt.kernels import distinct_rows, refined_rows

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

ALL_BITS: Final = np.uint64(2**64 - 1)


class _Inverse(Protocol):
    """A group of any form, as far as composing it needs."""

    @property
    def group(self) -> str: ...
    @property
    def inverse(self) -> I32: ...


def deduplicate(
    group: str, features: Mapping[str, Jagged], dense: F32 | None = None, dense_names: Sequence[str] = ()
) -> Ikjt:
    """Each distinct row of the group once. Rows are equal only if all features are, weights included, bit by bit.

    `dense` [B, K] are float columns of the group, such as a user's that stay the same for a session; a row is
    equal to another only if they are too. Where no row repeats, the result shares the arrays of the input.
    """
    num_samples = _num_samples(group, features)
    names = tuple(dense_names)
    check_dense(group, dense, names, num_samples)
    first, inverse = number_rows(features, dense=dense)
    if len(first) == num_samples:
        return Ikjt(group, dict(features), inverse, dense, names)
    kept = None if dense is None else dense[first]
    return Ikjt(group, {key: rows.take(first) for key, rows in features.items()}, inverse, kept, names)


def number_rows(
    features: Mapping[str, Jagged], hash_mask: np.uint64 = ALL_BITS, dense: F32 | None = None
) -> tuple[I64, I32]:
    """First sample of each distinct row [U], and the row of each sample [B], numbered by first appearance.

    `hash_mask` removes bits of the hash; the result does not depend on it, only the time does.
    """
    num_samples = next(iter(features.values())).num_rows
    columns = _columns(features, dense)
    first, inverse = distinct_rows(*next(columns), hash_mask)
    for words, offsets in columns:
        if len(first) == num_samples:
            break  # no two samples are equal, whatever else the group has
        first, inverse = refined_rows(words, offsets, inverse, len(first), hash_mask)
    return first, inverse


def check_rows_distinct(group: Ikjt) -> None:
    """Raise ValueError that names the first two rows which are equal in all that the group holds."""
    group.validate()
    check_distinct(group.group, number_rows(group.features, dense=group.dense)[1], [*group.keys, *group.dense_names])


def compose(groups: Sequence[_Inverse]) -> tuple[I32, I32]:
    """The distinct tuples of rows [M, G] that the samples use together, and the tuple of each sample [B].

    A tower over several groups has one row a tuple: tuple m takes row `tuples[m, g]` of group g. Tuples are numbered
    by first appearance. Works for groups of any form.
    """
    if not groups:
        raise ValueError("no feature groups to compose; give at least one")
    num_samples = {group.group: len(group.inverse) for group in groups}
    if len(set(num_samples.values())) > 1:
        raise ValueError(f"groups of different batches: samples are {num_samples}")
    tuples = np.stack([group.inverse for group in groups], axis=1)
    offsets = np.arange(len(tuples) + 1, dtype=np.int64) * len(groups)
    first, inverse = distinct_rows(tuples.reshape(-1), offsets, ALL_BITS)
    return tuples[first], inverse


def deduplicate_reference(
    group: str, features: Mapping[str, Jagged], dense: F32 | None = None, dense_names: Sequence[str] = ()
) -> Ikjt:
    """What `deduplicate` must equal, in plain Python."""
    kinds: dict[tuple[bytes, ...], int] = {}
    first: list[int] = []
    inverse: list[int] = []
    for b in range(_num_samples(group, features)):
        row = tuple(words[offsets[b] : offsets[b + 1]].tobytes() for words, offsets in _columns(features, dense))
        if row not in kinds:
            first.append(b)
        inverse.append(kinds.setdefault(row, len(kinds)))
    chosen = np.asarray(first, dtype=np.int64)
    rows_of = {key: rows.take(chosen) for key, rows in features.items()}
    kept = None if dense is None else dense[chosen]
    return Ikjt(group, rows_of, np.asarray(inverse, dtype=np.int32), kept, tuple(dense_names))


def _columns(features: Mapping[str, Jagged], dense: F32 | None) -> Iterator[tuple[npt.NDArray[Any], I64]]:
    """Words and offsets of every column; int32 and int64 stay as they are, floats become their bits."""
    for rows in features.values():
        yield np.ascontiguousarray(rows.values), rows.offsets
        if rows.weights is not None:
            yield np.ascontiguousarray(rows.weights).view(np.int32), rows.offsets
    if dense is not None:
        num_samples, num_columns = dense.shape
        offsets = np.arange(num_samples + 1, dtype=np.int64) * num_columns
        yield np.ascontiguousarray(dense).reshape(-1).view(np.int32), offsets


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
