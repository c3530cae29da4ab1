"""Measures partial duplicates: rows that are windows of one growing, shifting buffer.

Owns the measurement, no encoding: how many values a batch would hold if every row were a window `(start, length)`
into a buffer of its session. A history from which the oldest id drops and to which one new id is appended costs one
value then, where the exact form stores the whole row again.

As plain Python, over the samples in order:

    if the row was seen before, in any session:           nothing new
    elif the row is a window of its session's buffer:     nothing new
    else: the longest end of the buffer that begins the row stays; the rest of the row is appended and counted

So the result is never above the exact form. Features of a group share their windows: they must have equal lengths
in every row, else the group has no partial form and the exact one is what is left.

Shapes: B samples, U distinct rows, V values, C columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.ikjt.dedup import deduplicate, number_rows
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.kernels import compiled

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def window_values(rows: Ikjt | Jagged, session_id: npt.NDArray[Any]) -> int:
    """Values left when rows that are windows of their session's buffer are stored once. `session_id` is [B]."""
    ikjt = deduplicate("rows", {"rows": rows}) if isinstance(rows, Jagged) else rows
    if len(session_id) != ikjt.num_samples:
        raise ValueError(f"group {ikjt.group}: {len(session_id)} session ids for {ikjt.num_samples} samples")
    features = list(ikjt.features.values())
    offsets = features[0].offsets
    if any(not np.array_equal(other.offsets, offsets) for other in features[1:]):
        return ikjt.num_values
    first = np.unique(ikjt.inverse, return_index=True)[1]  # rows are numbered by first appearance
    owners = np.unique(session_id[first], return_inverse=True)[1]
    # Rows of one session side by side, each session's in the order of its samples.
    order = np.argsort(owners, kind="stable")
    return _buffer_sizes(_symbols(features), offsets, order, owners[order]) * len(features)


def _symbols(features: Iterable[Jagged]) -> I32:
    """[V], one number for each combination of values, weights included, at one position of all features."""
    columns: dict[str, Jagged] = {}
    for f, rows in enumerate(features):
        each = np.arange(len(rows.values) + 1, dtype=np.int64)
        columns[str(f)] = Jagged(rows.values, each, rows.weights)
    _, symbols = number_rows(columns)
    return symbols


@compiled
def _buffer_sizes(symbols: I32, offsets: I64, order: I64, owners: I64) -> int:
    """Length of all sessions' buffers together. Linear in rows and buffers: Knuth-Morris-Pratt."""
    longest = 0
    for r in range(len(offsets) - 1):
        longest = max(longest, offsets[r + 1] - offsets[r])
    border = np.zeros(longest + 1, np.int64)
    buffer = np.empty(len(symbols), np.int32)
    total, filled = 0, 0
    for i in range(len(order)):
        if i > 0 and owners[i] != owners[i - 1]:
            total += filled
            filled = 0
        row = symbols[offsets[order[i]] : offsets[order[i] + 1]]
        kept = _overlap(buffer[:filled], row, border)
        for k in range(kept, len(row)):
            buffer[filled + k - kept] = row[k]
        filled += len(row) - kept
    return total + filled


@compiled
def _overlap(buffer: I32, row: I32, border: I64) -> int:
    """Length of the row if it is a window of the buffer, else of the longest end of the buffer that begins it."""
    if len(row) == 0:
        return 0
    matched = 0
    for k in range(1, len(row)):
        while matched > 0 and row[k] != row[matched]:
            matched = border[matched]
        if row[k] == row[matched]:
            matched += 1
        border[k + 1] = matched
    matched = 0
    for value in buffer:
        while matched > 0 and value != row[matched]:
            matched = border[matched]
        if value == row[matched]:
            matched += 1
        if matched == len(row):
            return matched
    return matched
