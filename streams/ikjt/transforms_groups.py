"""Runs transforms on feature groups: once per distinct row, as if on every sample.

Owns the way from a group and the chains of its features to another group. What a transform does to a row is
`transforms_rows`.

A group's inverse never changes, so its samples read what they would have read had the expanded batch been
transformed. Uniqueness is not re-established: two distinct rows may have become equal, and stay two.

On windows, ids change in the buffers, each once however many windows share it; a filter moves the windows with the
ids that are left; truncation moves their starts, and the values that no window covers any more go; an empty window
becomes one of a buffer of the declared id. Features of a group keep their windows as long as they have the same;
where they come apart, the exact form is what is left.

Shape suffixes: U rows or windows, P buffers, V values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.kernels import copy_slices
from streams.ikjt.transforms import Filter, Missing, Transform, Truncate, check_chain
from streams.ikjt.transforms_kernels import covered_places
from streams.ikjt.transforms_rows import filter_places, stay, transform_ids, transform_rows
from streams.ikjt.windows import Group

I64 = npt.NDArray[np.int64]
Places = npt.NDArray[np.integer[Any]]
"""int32 as the group has them, int64 where they were moved."""

_LARGEST: Final = 2**31 - 1
"""Windows are int32; a group with larger buffers becomes exact."""


def transform_group(group: Group, chains: Mapping[str, Sequence[Transform]]) -> Group:
    """The group after the chain of each feature; features without one stay as they are.

    Raises ValueError for a feature that the group does not have, TypeError for anything that is no transform.
    """
    for key, chain in chains.items():
        check_chain(f"group {group.group}, feature {key}", chain)
    if unknown := sorted(set(chains) - set(group.keys)):
        raise ValueError(
            f"group {group.group}: transforms of {unknown[0]}, but the features are {', '.join(group.keys)}"
        )
    if not any(chains.values()):
        return group
    if isinstance(group, Ikjt):
        features = {key: transform_rows(rows, chains.get(key, ())) for key, rows in group.features.items()}
        return replace(group, features=features)
    windows = {
        key: _after(_Windows(rows, group.start, group.length), chains.get(key, ()))
        for key, rows in group.buffers.items()
    }
    first, *others = windows.values()
    if len(first.buffers.values) <= _LARGEST and all(each.has_windows_of(first) for each in others):
        return replace(
            group,
            buffers={key: each.buffers for key, each in windows.items()},
            start=first.start.astype(np.int32, copy=False),
            length=first.length.astype(np.int32, copy=False),
        )
    features = {key: each.rows() for key, each in windows.items()}
    return Ikjt(group.group, features, group.inverse, group.dense, group.dense_names)


@dataclass(frozen=True, slots=True, eq=False)
class _Windows:
    """One feature of a partial group: its windows may leave those of the other features."""

    buffers: Jagged
    """P."""
    start: Places
    """[U]."""
    length: Places
    """[U]."""

    def has_windows_of(self, other: _Windows) -> bool:
        """Whether one start and one length a row can serve both."""
        return (
            np.array_equal(self.buffers.offsets, other.buffers.offsets)
            and np.array_equal(self.start, other.start)
            and np.array_equal(self.length, other.length)
        )

    def rows(self) -> Jagged:
        """U rows, copied out of the buffers."""
        offsets, start = offsets_of(self.length), self.start.astype(np.int64)
        values, weights = self.buffers.values, self.buffers.weights
        kept = None if weights is None else copy_slices(weights, start, offsets)
        return Jagged(copy_slices(values, start, offsets), offsets, kept)


def _after(windows: _Windows, chain: Sequence[Transform]) -> _Windows:
    """`transform_rows` on windows."""
    for step in chain:
        match step:
            case Filter():
                windows = _stay(windows, filter_places(windows.buffers, step))
            case Truncate():
                windows = _truncated(windows, step.last)
            case Missing():
                windows = _without_empty(windows, step.id)
            case _:
                values = transform_ids(windows.buffers.values, step)
                windows = replace(windows, buffers=replace(windows.buffers, values=values))
    return windows


def _stay(windows: _Windows, places: I64) -> _Windows:
    if places[-1] == len(windows.buffers.values):
        return windows
    start = places[windows.start]
    return _Windows(stay(windows.buffers, places), start, places[windows.start + windows.length] - start)


def _truncated(windows: _Windows, last: int) -> _Windows:
    if int(windows.length.max(initial=0)) <= last:
        return windows
    length = np.minimum(windows.length, last)
    start = windows.start + windows.length - length
    places = covered_places(start.astype(np.int64), length.astype(np.int64), len(windows.buffers.values))
    return _stay(_Windows(windows.buffers, start, length), places)


def _without_empty(windows: _Windows, identity: int) -> _Windows:
    rows = windows.buffers
    values: I64 = rows.values.astype(np.int64, copy=False)
    empty = windows.length == 0
    if not empty.any():
        return replace(windows, buffers=replace(rows, values=values))
    end = len(values)
    declared = Jagged(
        np.append(values, np.int64(identity)),
        np.append(rows.offsets, end + 1),
        None if rows.weights is None else np.append(rows.weights, np.float32(1)),
    )
    return _Windows(declared, np.where(empty, end, windows.start), np.where(empty, 1, windows.length))
