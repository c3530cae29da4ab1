"""Runs transforms on ids and on jagged rows.

Owns the way from rows and a chain of descriptions to other rows. What a description means is `transforms`; groups are
`transforms_groups`. Ids that change become int64; those that stay keep their type. Pure; inputs are never written to,
and what no transform touches is shared.

Shape suffixes: V ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from streams.ikjt import transforms_kernels as kernels
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.kernels import copy_slices
from streams.ikjt.transforms import (
    Bucketize,
    Clip,
    Direct,
    Elementwise,
    Filter,
    Hash,
    Missing,
    Modulo,
    Transform,
    Truncate,
    check_chain,
)

I64 = npt.NDArray[np.int64]


def transform_rows(rows: Jagged, chain: Sequence[Transform]) -> Jagged:
    """The rows after each transform of the chain in turn.

    Raises TypeError for anything that is no transform, ValueError for rows that `validate` refuses.
    """
    check_chain("rows", chain)
    rows.validate("rows")
    for step in chain:
        match step:
            case Filter():
                rows = stay(rows, filter_places(rows, step))
            case Truncate():
                rows = _truncated(rows, step.last)
            case Missing():
                rows = _without_empty(rows, step.id)
            case _:
                rows = replace(rows, values=transform_ids(rows.values, step))
    return rows


def transform_ids(ids: npt.NDArray[Any], step: Elementwise) -> I64:
    """[V] ids, each changed on its own, to [V]. Raises TypeError for a transform of rows, or of none.

    Floats, such as a dense column of a group, can be bucketized, and nothing else: ValueError. A NaN counts as above
    all boundaries.
    """
    if not isinstance(step, Elementwise):
        raise TypeError(
            f"{step!r} does not change ids one by one; transform_rows and transform_group take all transforms"
        )
    if ids.dtype.kind == "f":
        if not isinstance(step, Bucketize):
            raise ValueError(f"{type(step).__name__} needs integers; floats can only be bucketized")
        return np.searchsorted(np.asarray(step.boundaries, np.float64), ids, side="right").astype(np.int64)
    wide: I64 = ids.astype(np.int64, copy=False)
    match step:
        case Clip():
            return np.clip(wide, step.low, step.high)
        case Bucketize():
            return kernels.reached(wide, step.whole.values, step.whole.guide, step.whole.shift)
        case Modulo():
            return kernels.remainders(wide, step.rows)
        case Direct():
            return kernels.direct(wide, step.rows - 1)
        case Hash():
            return kernels.hashed(wide, np.uint64(step.seed), np.uint64(step.rows))
    assert_never(step)


def filter_places(rows: Jagged, step: Filter) -> I64:
    """`places` [V + 1] of the ids that stay, as the kernels have them."""
    wide, listed = rows.values.astype(np.int64, copy=False), step.listed
    return kernels.listed_places(wide, listed.values, listed.guide, listed.shift, step.keep is not None)


def stay(rows: Jagged, places: I64) -> Jagged:
    """Only the ids that stay, at their `places`."""
    if places[-1] == len(rows.values):
        return rows
    weights = None if rows.weights is None else kernels.staying(rows.weights, places)
    return Jagged(kernels.staying(rows.values, places), places[rows.offsets], weights)


def _truncated(rows: Jagged, last: int) -> Jagged:
    lengths = rows.lengths
    if int(lengths.max(initial=0)) <= last:
        return rows
    lengths = np.minimum(lengths, last)
    offsets = offsets_of(lengths)
    starts = rows.offsets[1:] - lengths
    weights = None if rows.weights is None else copy_slices(rows.weights, starts, offsets)
    return Jagged(copy_slices(rows.values, starts, offsets), offsets, weights)


def _without_empty(rows: Jagged, identity: int) -> Jagged:
    values: I64 = rows.values.astype(np.int64, copy=False)
    lengths = rows.lengths
    if not (lengths == 0).any():
        return replace(rows, values=values)
    offsets = offsets_of(np.maximum(lengths, 1))
    weights = None if rows.weights is None else kernels.filled(rows.weights, rows.offsets, offsets, np.float32(1))
    return Jagged(kernels.filled(values, rows.offsets, offsets, np.int64(identity)), offsets, weights)
